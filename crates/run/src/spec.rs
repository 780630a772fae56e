//! What to simulate: one run, fully resolved, every value with its unit.

pub use crate::cable::{Cable, Serialisation};
pub use crate::host::{Defects, HEADER_BYTES, HostConfig, PROFILES, sysctl_since};
pub use crate::receiving::{Adaptive, ByRate, Coalesce, CpuCosts, DIM_LEVELS, Dim, DimMode, Since};
pub use crate::sysctls::Sysctls;
use knee_algo::{Algorithm, Params};
use knee_queue::time::{Duration, Rate, Time};
use knee_queue::{DynamicThresholdConfig, Ecn};
pub use knee_traffic::{Pool, Schedule, Sequence, Series, Task, Traffic};
pub use knee_units::LinuxVersion;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Index of a node in [`Network::nodes`].
pub type NodeId = u32;
/// Index of a link in [`Network::links`].
pub type LinkId = u32;

/// One run: a network, its traffic, and when to stop.
#[derive(Clone, Debug)]
pub struct Run {
    /// Every random choice follows from it.
    pub seed: u64,
    /// The run ends here at the latest.
    pub end: Time,
    /// Whether the run ends as soon as every flow that can complete has done so.
    pub until_done: bool,
    /// Nodes and links.
    pub network: Network,
    /// Long and short transfers and request/response exchanges.
    pub flows: Vec<Flow>,
    /// Small packets back and forth.
    pub pings: Vec<Ping>,
    pub sampling: Sampling,
    /// Flows that wait for others.
    pub schedule: Schedule,
}

/// Nodes and directed links.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// Hosts and switches.
    pub nodes: Vec<Node>,
    /// Directed links: a cable is two of them.
    pub links: Vec<Link>,
    /// Memory that queues of links share; a link is in one of them at most.
    pub buffers: Vec<SharedBuffer>,
    /// Whether and when switches stop the links into them.
    pub flow_control: Option<FlowControl>,
    /// Ports of switches whose interrupts wait; those that are not here forward each packet at once.
    pub ports: Vec<CoalescingPort>,
    /// What happens to links during the run.
    pub changes: Changes,
    /// Switches that choose among equally short ways otherwise than by a flow's hash (ECMP); each once at most.
    pub balance: Vec<SwitchBalance>,
}

/// Links that fail, recover, slow down or lose packets at given times. Both lists are in the order of time.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    pub links: Vec<LinkChange>,
    pub routes: Vec<RouteChange>,
}

/// A change of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkChange {
    pub at: Time,
    pub link: LinkId,
    pub to: NewState,
}

/// What a link becomes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NewState {
    /// It loses all packets: those that wait, those on the wire and those that come.
    Down,
    /// It is as it was before it went down.
    Up,
    /// Its rate. Only for a link that has one.
    Rate(Rate),
    /// Its propagation delay, for packets that leave from now on.
    Delay(Duration),
    /// Its random loss, 0 to 1.
    Loss(f64),
}

/// From this time on routes avoid a link, or use it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteChange {
    pub at: Time,
    pub link: LinkId,
    pub avoids: bool,
}

/// A port of a software router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoalescingPort {
    /// The link into a switch whose packets wait for the port's interrupt.
    pub link: LinkId,
    /// When that comes.
    pub coalesce: Coalesce,
}

/// Pauses: a switch stops a link, or a class of it, while too much of what came by it waits there. Links without a rate are
/// not stopped, and hosts, which take everything at once, stop none.
#[derive(Clone, Debug)]
pub struct FlowControl {
    /// The switches that do; `None`: all of them.
    pub switches: Option<Vec<NodeId>>,
    /// Links or classes that pause, and thresholds.
    pub stops: Stops,
    /// From the arrival of a pause frame until it takes effect.
    pub reaction: Duration,
    /// How long a pause lasts unless it is told again, in 512 bit times of the link.
    pub quanta: u16,
    /// Whether a network is refused in which queues have not room for what may come before a pause takes effect.
    pub lossless: bool,
}

/// Unit of flow control.
#[derive(Clone, Debug)]
pub enum Stops {
    /// IEEE 802.3x: a link, with all that it carries.
    Links(Thresholds),
    /// IEEE 802.1Qbb: some classes of the links' queues, each by itself; 8 at most. What belongs to others is neither counted nor
    /// stopped.
    Classes(Vec<StoppedClass>),
}

/// A class that priority flow control knows.
#[derive(Clone, Debug)]
pub struct StoppedClass {
    /// Name of the class in the [`ClassesConfig`](knee_queue::ClassesConfig) of every link with a rate at a pausing switch.
    pub name: String,
    pub thresholds: Thresholds,
}

/// Backlog of an input at which a switch pauses and resumes its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Above this many bytes it is stopped.
    pub xoff_bytes: u64,
    /// At this many and below it may go on.
    pub xon_bytes: u64,
}

/// Memory of a switch that the queues of its ports share.
#[derive(Clone, Debug)]
pub struct SharedBuffer {
    /// Unique name, as in results.
    pub name: String,
    /// How much of it a queue may have. The `limit` of a queue's own goes on beside it.
    pub law: DynamicThresholdConfig,
    /// Links, each with a rate, whose queues are in it.
    pub links: Vec<LinkId>,
    /// Whether it is sampled and its figures are reported, numbered after the links.
    pub sampled: bool,
}

/// Most entries of a table of flowlets.
pub const MAX_FLOWLETS: u32 = 1 << 20;
/// Largest weight of a link that is given.
pub const MAX_WEIGHT: u32 = 65_535;

/// A switch that does not choose by the hash of a flow alone (ECMP).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchBalance {
    pub switch: NodeId,
    /// Its choice.
    pub balance: Balance,
}

/// A choice among equally short ways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Balance {
    /// The hash of a flow picks a link in proportion to weights (WCMP).
    Weighted(Weights),
    /// A flow that was quiet for longer than the gap draws a link anew (LetFlow).
    Flowlet {
        /// Above 0.
        gap: Duration,
        /// Size of the table: flows whose hash picks the same entry share it.
        entries: u32,
    },
    /// Every packet chooses anew.
    Spray(Order),
}

/// Weights of the links of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Weights {
    /// What a link can carry to the destination's switch: its rate, or that of all that follows it if it is less.
    Capacity,
    /// The rate of the link.
    Rate,
    /// These, in the order of links; links that are not here have 1.
    Given(Vec<(LinkId, u32)>),
}

/// Order in which packets are sprayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Uniform at random.
    Random,
    /// In turn, over all packets for the same next links.
    RoundRobin,
}

/// A host or a switch.
#[derive(Clone, Debug)]
pub struct Node {
    /// Unique name, as in results.
    pub name: String,
    /// A host has TCP; a switch forwards. Equal hosts share their configuration.
    pub host: Option<Arc<HostConfig>>,
}

/// A directed link between two nodes. What its cable is can be read and changed as if it were the link's own.
#[derive(Clone, Debug)]
pub struct Link {
    /// It takes packets from here.
    pub from: NodeId,
    /// And delivers them here.
    pub to: NodeId,
    /// Number among the links from and to the same nodes, from 1.
    pub parallel: u32,
    /// Whether its queue is sampled and its figures are reported.
    pub sampled: bool,
    /// Equal links share it: a large network has many links and few cables.
    pub cable: Arc<Cable>,
}

impl Deref for Link {
    type Target = Cable;

    fn deref(&self) -> &Cable {
        &self.cable
    }
}

impl DerefMut for Link {
    /// Gives the link a cable of its own if others share it.
    fn deref_mut(&mut self) -> &mut Cable {
        Arc::make_mut(&mut self.cable)
    }
}

/// Begins the name of an algorithm where the running kernel's own is meant.
pub const KERNELS_OWN: &str = "kernel:";

/// A congestion control with its parameters.
#[derive(Clone, Debug)]
pub struct Cc {
    pub algorithm: &'static Algorithm,
    pub params: Params,
    /// The running kernel's own of this name is meant, where there is a kernel; the simulator has this file in its place.
    pub is_kernels_own: bool,
}

impl Cc {
    /// An algorithm with default parameters.
    pub fn new(algorithm: &'static Algorithm) -> Cc {
        Cc { algorithm, params: algorithm.default_params(), is_kernels_own: false }
    }

    /// As experiments name it: that of the kernel's own begins with `kernel:`.
    pub fn name(&self) -> String {
        let name = self.algorithm.name();
        if self.is_kernels_own { format!("{KERNELS_OWN}{name}") } else { name.to_owned() }
    }

    /// That of this name with default parameters.
    ///
    /// # Errors
    /// If there is none of this name; the error lists those there are.
    pub fn by_name(name: &str) -> Result<Cc, knee_algo::Error> {
        let algorithm = Algorithm::by_name(name)?;
        Ok(Cc::new(algorithm))
    }
}

/// A TCP connection and what its application does.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Group it is reported in (index into the caller's own list of groups).
    pub group: u32,
    /// The host that connects and sends.
    pub from: NodeId,
    /// The host that listens and receives.
    pub to: NodeId,
    /// Algorithm of the connecting side.
    pub cc: Cc,
    /// Algorithm of the listening side; `None`: the same.
    pub peer_cc: Option<Cc>,
    /// When `connect()` is called.
    pub start: Time,
    /// When the application first writes; `None`: as soon as connected.
    pub first_write: Option<Time>,
    /// When a transfer or exchange without end is stopped; `None`: at the end of the run.
    pub stop: Option<Time>,
    pub traffic: Traffic,
    /// The receiving application reads when this much is there, or what remains (`SO_RCVLOWAT`).
    pub read_at_bytes: u32,
    /// Whether its `TCP_INFO` is sampled.
    pub sampled: bool,
    /// RTT without queues that both its ends are told; `None`: what each host says.
    pub base_rtt: Option<Duration>,
    /// DSCP of all that the connecting side sends, its ACKs too; 0 to 63.
    pub dscp: u8,
    /// DSCP of all packets of the listening side, ACKs included. A host does not copy the DSCP of received packets.
    pub peer_dscp: u8,
    /// `SO_MAX_PACING_RATE` of both its ends.
    pub max_pacing_rate: Option<Rate>,
}

impl Flow {
    /// Hosts that send data: the connecting one, and of an exchange the listening one too.
    pub fn senders(&self) -> impl Iterator<Item = NodeId> {
        [Some(self.from), self.traffic.is_rpc().then_some(self.to)].into_iter().flatten()
    }
}

/// A packet without TCP sent at regular times. The other host sends it back, or keeps it.
#[derive(Clone, Debug)]
pub struct Ping {
    /// It starts here.
    pub from: NodeId,
    /// And is sent back here.
    pub to: NodeId,
    /// The first leaves one interval after this.
    pub start: Time,
    /// Time between two.
    pub interval: Duration,
    /// IP payload and headers plus Ethernet header, as queues count it.
    pub wire_bytes: u32,
    /// ECN field of the packet and of its echo.
    pub ecn: Ecn,
    /// DSCP of the packet and of its echo, which hosts copy.
    pub dscp: u8,
    /// The other host keeps what it receives, and nothing leaves from this time on; `None`: it sends back each packet.
    pub one_way_until: Option<Time>,
}

knee_units::settings! {
    /// Sampling periods of a run.
    #[derive(Clone, Copy, Debug)]
    pub struct Sampling as (it, v) {
        /// Connections.
        pub flows: Option<Duration> = None => "flows": MaybeTime.at_least("1 us").like("1 ms").usually("none");
        /// Recorded queues.
        pub queues: Option<Duration> = None => "queues": MaybeTime.at_least("1 us").like("1 ms").usually("none");
        /// Goodput.
        pub goodput: Option<Duration> = None
            => "goodput": MaybeTime.at_least("1 us").like("1 ms").usually("none; 10 ms for `converged`");
        /// Bytes, marks and drops of every link, for the picture of the whole network in the report.
        pub links: Option<Duration> = None => "links": MaybeTime.at_least("1 us").like("1 ms").usually("none");
        /// The part of the run that is counted by itself.
        pub window: Option<MeasuredWindow> = None;
    }
}

impl Sampling {
    /// How often a host that only counts bytes as they come has to look: as asked, or for the window's ends.
    pub fn goodput_or_window(&self) -> Option<Duration> {
        self.goodput.or(self.window.map(|window| window.period))
    }
}

/// A part of a run: what happens after `from` and not after `until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredWindow {
    /// It begins here.
    pub from: Time,
    /// It ends here, or where the run does.
    pub until: Time,
    /// Fits a whole number of times into both, for hosts that look at regular times.
    pub period: Duration,
}
