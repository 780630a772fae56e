//! Orders to a guest and records from it. The guest's program includes this file too, and has neither a C library nor
//! `std`.

use alloc::string::String;
use alloc::vec::Vec;

use knee_traffic::bytes::{Plain, Sink};
use knee_traffic::{Moment, TrafficPlan, TrafficReport, plain};

/// All that a guest does, in this order: load modules, take steps, run the traffic.
#[derive(Clone, Debug, Default)]
pub struct Orders {
    /// Number of network namespaces. The first ones are the hosts.
    pub namespaces: u32,
    pub hosts: u32,
    /// Modules to load first.
    pub modules: Vec<ModuleOrder>,
    /// Steps that build the network.
    pub steps: Vec<Step>,
    /// Queues to read.
    pub queues: Vec<QueueOrder>,
    /// RTT without queueing, in us, that a connection's algorithm is given, by the connection's port.
    pub base_rtts_us: Vec<(u16, u32)>,
    /// Whether to record the frames that cross cables.
    pub captures: bool,
    /// The applications' traffic. Its hosts are namespaces.
    pub traffic: TrafficPlan,
}

/// A kernel module, stored as a file in the guest's directory.
#[derive(Clone, Debug)]
pub struct ModuleOrder {
    pub path: String,
    /// Parameters in the syntax of `insmod`.
    pub parameters: String,
    /// The file that the module was built from, for messages.
    pub what: String,
}

/// One action in a namespace.
#[derive(Clone, Debug)]
pub enum Step {
    /// Writes a file below `/proc/sys`.
    Write {
        namespace: u32,
        /// The file's path.
        path: String,
        /// The text to write.
        text: String,
    },
    /// Sends a netlink request, which the kernel must accept.
    Netlink {
        namespace: u32,
        request: Vec<u8>,
        /// Description of the request, for the message if the kernel refuses it.
        what: String,
    },
}

/// A queue or a device to read.
#[derive(Clone, Debug)]
pub struct QueueOrder {
    pub namespace: u32,
    /// Whether to read it only at the end of the run and at the bounds of the measured window, not at samples.
    pub only_counts: bool,
    /// The netlink request that reads it.
    pub request: Vec<u8>,
}

/// All records of a guest. Times are in ns since the run's time 0.
#[derive(Clone, Debug, Default)]
pub struct Records {
    /// The run's time 0 on the guest's clock, in ns.
    pub zero_ns: u64,
    pub traffic: TrafficReport,
    pub queues: Vec<QueueAnswer>,
    /// Files of `/proc/net`: host, whether read after the run, and text.
    pub counts: Vec<(u32, bool, Vec<u8>)>,
}

/// The kernel's answer about a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueAnswer {
    pub at_ns: u64,
    /// The reason for reading it.
    pub moment: Moment,
    /// Index in the orders' queues.
    pub queue: u32,
    /// The `RTM_NEWQDISC` message with its attributes.
    pub answer: Vec<u8>,
}

plain! {
    Orders { namespaces, hosts, modules, steps, queues, base_rtts_us, captures, traffic }
    ModuleOrder { path, parameters, what }
    QueueOrder { namespace, only_counts, request }
    Records { zero_ns, traffic, queues, counts }
    QueueAnswer { at_ns, moment, queue, answer }
}

impl Plain for Step {
    fn put(&self, to: &mut impl Sink) {
        match self {
            Step::Write { namespace, path, text } => {
                (0_u8, *namespace).put(to);
                path.put(to);
                text.put(to);
            }
            Step::Netlink { namespace, request, what } => {
                (1_u8, *namespace).put(to);
                request.put(to);
                what.put(to);
            }
        }
    }

    fn take(from: &mut &[u8]) -> Option<Step> {
        let (kind, namespace) = <(u8, u32)>::take(from)?;
        Some(match kind {
            0 => Step::Write { namespace, path: Plain::take(from)?, text: Plain::take(from)? },
            1 => Step::Netlink { namespace, request: Plain::take(from)?, what: Plain::take(from)? },
            _ => return None,
        })
    }
}
