//! What to simulate: one run, fully resolved, every value with its unit.

pub use crate::receiving::{Adaptive, Coalesce, CpuCosts};
pub use crate::sysctls::Sysctls;
use knee_algo::{Algorithm, Params};
use knee_queue::time::{Duration, Rate, Time};
use knee_queue::{DynamicThresholdConfig, ETHERNET_BYTES, Ecn, QueueConfig};
pub use knee_traffic::{Schedule, Sequence, Series, Task, Traffic};
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

/// One direction of a cable with its queue, without its end points.
#[derive(Clone, Debug, PartialEq)]
pub struct Cable {
    /// `None`: no queue and no serialisation, only the delay.
    pub rate: Option<Rate>,
    /// When a packet counts as sent.
    pub serialisation: Serialisation,
    /// Bytes beside each frame that take time on the wire and no room in a queue: on Ethernet preamble, FCS and gap, 24.
    pub overhead_bytes: u32,
    pub delay: Duration,
    /// Uniform extra delay of 0 to this per packet; packets may overtake each other.
    pub jitter: Duration,
    /// Share of packets lost at random before the queue, 0 to 1.
    pub loss: f64,
    /// Whether what is lost is whole bursts, as sockets handed them to their device: netem beneath GSO.
    pub loses_bursts: bool,
    /// Share of packets of which a copy is sent too, before the queue, 0 to 1.
    pub duplicate: f64,
    /// Queue of the link; unused without a rate.
    pub queue: QueueConfig,
    /// Whether new links of it are [sampled](Link::sampled).
    pub sampled: bool,
}

impl Cable {
    /// A cable that stores and forwards, and does nothing else: no delay, no losses.
    pub fn new(rate: Option<Rate>, queue: QueueConfig) -> Cable {
        Cable {
            rate,
            serialisation: Serialisation::StoreAndForward,
            overhead_bytes: 0,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            loss: 0.0,
            loses_bursts: false,
            duplicate: 0.0,
            queue,
            sampled: false,
        }
    }

    /// Whether the way behind the queue does anything at random.
    pub fn draws(&self) -> bool {
        self.loss > 0.0 || self.duplicate > 0.0 || self.jitter != Duration::ZERO
    }

    /// How long a frame of this length takes the wire, with what goes around it; `None`: there is no rate.
    pub fn time_of(&self, frame_bytes: u32) -> Option<Duration> {
        Some(self.rate?.time_of(frame_bytes.saturating_add(self.overhead_bytes)))
    }
}

/// How a link turns packets into time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serialisation {
    /// As a token bucket (Linux `tbf`): a packet leaves at once when there are tokens for all of it,
    /// so packets are spaced but an idle link adds no delay.
    TokenBucket {
        /// Depth of the bucket; at least one full packet.
        burst_bytes: u32,
    },
    /// As a switch port: a packet arrives when its last bit has.
    StoreAndForward,
}

/// Versions of Linux that hosts can behave like, with their names in experiments, oldest first. Of a long-term version it is a
/// late release, with what that has taken over from later versions: 6.1.192, the kernel of the reference data, and 6.12.117.
pub const PROFILES: [(&str, LinuxVersion); 3] =
    [("6.1", LinuxVersion(6, 1)), ("6.12", LinuxVersion(6, 12)), ("6.18", LinuxVersion(6, 18))];

/// The first version that has a sysctl, if not all versions have it.
pub fn sysctl_since(name: &str) -> Option<LinuxVersion> {
    match name {
        "tcp_syn_linear_timeouts" => Some(LinuxVersion(6, 5)),
        "tcp_rto_min_us" => Some(LinuxVersion(6, 11)),
        _ => None,
    }
}

/// Sysctls and offloads of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostConfig {
    /// Kernel differences that change results.
    pub linux: LinuxVersion,
    /// Ticks of the coarse clock per second: 100, 250, 300 or 1000.
    pub hz: u32,
    /// Where the coarse clock stands at the start, in ticks; `None`: drawn per host from the seed.
    pub jiffies_at_start: Option<u32>,
    /// `net.ipv4.tcp_ecn`: 0 off, 1 ask and grant, 2 grant.
    pub tcp_ecn: u8,
    /// Whether SYNs and SYN-ACKs of algorithms that need ECN are sent with ECT, as Linux does since its DCTCP of 2014.
    pub syn_ect: bool,
    /// The feature `ecn_low` of the host's routes, of kernels with BBR version 3: marks mean a shallow threshold.
    pub ecn_low: bool,
    /// `net.ipv4.tcp_ecn_fallback`: a SYN sent again does not ask for ECN.
    pub tcp_ecn_fallback: bool,
    /// IPv6: 20 bytes more of headers, and a flow label by which switches choose among equal paths,
    /// so that another transmit hash is another path.
    pub ipv6: bool,
    /// IP MTU in bytes; the MSS follows (52 bytes of headers with timestamps, 72 with IPv6).
    pub mtu_bytes: u32,
    /// Initial window, packets.
    pub initial_cwnd_pkts: u32,
    /// Least retransmission timeout (`tcp_rto_min_us`).
    pub rto_min: Duration,
    /// `net.ipv4.tcp_slow_start_after_idle`.
    pub slow_start_after_idle: bool,
    /// `net.ipv4.tcp_sack`.
    pub sack: bool,
    /// Segments per burst handed to the device: 1 switches TSO and GSO off.
    pub gso_max_segs: u32,
    /// Receive merging: packets of a flow that arrive within this time of the first become one; zero: off.
    pub gro_window: Duration,
    /// Interrupts of the NIC that wait for more packets; `None`: each packet is handed over at once.
    pub coalesce: Option<Coalesce>,
    /// Receive queues of the NIC, each with its own interrupt; a flow's hash picks one (RSS).
    pub receive_queues: u32,
    /// Receive merging of what one interrupt brings; nothing without `coalesce`.
    pub gro: bool,
    /// CPU time of what its networking does, which is accounted for and takes no time; `None`: nobody asked.
    pub cpu: Option<CpuCosts>,
    /// `net.ipv4.tcp_limit_output_bytes`.
    pub limit_output_bytes: u32,
    /// Bytes of bookkeeping that the kernel charges per packet beside its payload.
    pub skb_overhead_bytes: u32,
    /// Bytes that the kernel keeps for the headers of a packet when it plans a receive buffer (`MAX_TCP_HEADER`; until 6.5). By its
    /// options, 320 with wireless networks (as distributions have them), 256 without; 192 without tunnels either, which plans the same as 320.
    pub max_tcp_header_bytes: u32,
    /// RTT without queues of its connections, as whoever runs it says; whole us reach the algorithm.
    /// `None`: nobody has said it. A flow's own comes before it.
    pub base_rtt: Option<Duration>,
    /// Whether an fq qdisc paces (else TCP itself does, where an algorithm asks for it).
    pub fq: bool,
    /// Whether that fq counts headers, as before Linux 4.20, when it went by the socket's rate; since then TCP gives it departure
    /// times, by payload.
    pub fq_counts_headers: bool,
    /// Receive buffer at the start, bytes (`tcp_rmem[1]`).
    pub rcvbuf_initial_bytes: u32,
    /// Largest receive buffer, bytes (`tcp_rmem[2]`).
    pub rcvbuf_max_bytes: u32,
    /// Send buffer at the start, bytes (`tcp_wmem[1]`); nothing without `sndbuf_max_bytes`.
    pub sndbuf_initial_bytes: u32,
    /// Largest send buffer, bytes (`tcp_wmem[2]`); `None`: the sender never waits for memory.
    pub sndbuf_max_bytes: Option<u32>,
    /// Defects of older versions.
    pub defects: Defects,
    /// Sysctls that experiments leave alone.
    pub sysctls: Sysctls,
}

/// Defects of Linux from 2015 to 2018 in ACKs of DCTCP receivers, and features that older versions lack. "6.1" and later have
/// none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Defects {
    /// The algorithm takes a delayed ACK for owed although data sent since has carried it: its special
    /// ACK repeats an old one.
    pub stale_special_ack: bool,
    /// The special ACK for the segments before a change of CE counts as the ACK of all that arrived.
    pub special_ack_cancels_delack: bool,
    /// The segment that brings the change is not acknowledged at once.
    pub no_immediate_ack_on_ce_change: bool,
    /// The immediate ACK at a change comes by quick-ACK mode, which sets the delayed-ACK time back.
    pub ce_change_resets_ato: bool,
    /// A segment with CWR is not acknowledged at once.
    pub no_ack_on_cwr: bool,
    /// The special ACK carries ECE as it is after the change.
    pub ece_not_on_special_ack: bool,
    /// A socket hands its host all that the window lets, as before TCP small queues (Linux 3.6, 2012).
    pub no_small_queues: bool,
}

/// Bytes of a frame before the payload: Ethernet's header, IPv4 20, TCP 20, timestamps 12.
pub const HEADER_BYTES: u32 = ETHERNET_BYTES + 52;

impl HostConfig {
    /// A stock host of this version at HZ 1000 with offloads off, large windows and ECN at its
    /// default (granted if asked for).
    pub fn new(linux: LinuxVersion) -> HostConfig {
        HostConfig {
            linux,
            hz: 1000,
            jiffies_at_start: None,
            tcp_ecn: 2,
            syn_ect: true,
            tcp_ecn_fallback: true,
            ecn_low: false,
            ipv6: false,
            mtu_bytes: 1500,
            initial_cwnd_pkts: 10,
            rto_min: Duration::from_ms(200),
            slow_start_after_idle: true,
            sack: true,
            gso_max_segs: 1,
            gro_window: Duration::ZERO,
            coalesce: None,
            receive_queues: 1,
            gro: false,
            cpu: None,
            limit_output_bytes: if linux >= LinuxVersion(6, 18) { 4 << 20 } else { 1 << 20 },
            skb_overhead_bytes: 1216,
            max_tcp_header_bytes: 320,
            base_rtt: None,
            fq: false,
            fq_counts_headers: false,
            rcvbuf_initial_bytes: 131_072,
            rcvbuf_max_bytes: if linux >= LinuxVersion(6, 16) { 32 << 20 } else { 6 << 20 },
            sndbuf_initial_bytes: 16_384,
            sndbuf_max_bytes: None,
            defects: Defects::default(),
            sysctls: Sysctls::default(),
        }
    }

    /// Bytes by which headers are longer than IPv4's.
    pub fn extra_header_bytes(&self) -> u32 {
        if self.ipv6 { 20 } else { 0 }
    }

    /// Payload of a full segment.
    pub fn mss_bytes(&self) -> u32 {
        self.mtu_bytes - 52 - self.extra_header_bytes()
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

/// Sampling periods of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sampling {
    /// Period of `TCP_INFO` samples of flows with `sampled`.
    pub flows: Option<Duration>,
    /// Period of samples of links with `sampled`.
    pub queues: Option<Duration>,
    /// Period of the goodput of every flow.
    pub goodput: Option<Duration>,
    /// Period of the counts of every link with a rate.
    pub links: Option<Duration>,
    /// The part of the run that is counted by itself.
    pub window: Option<MeasuredWindow>,
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
