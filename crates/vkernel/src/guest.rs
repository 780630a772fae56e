//! What a guest is told and what it tells. The guest's program is built with this file, too: it has neither a C library nor `std`.

use alloc::string::String;
use alloc::vec::Vec;

use knee_traffic::bytes::{Plain, Sink};
use knee_traffic::{Moment, TrafficPlan, TrafficReport, plain};

/// Everything that a guest does, in this order: steps, then the run.
#[derive(Clone, Debug, Default)]
pub struct Orders {
    /// Network namespaces; the first of them are hosts.
    pub namespaces: u32,
    pub hosts: u32,
    /// What is loaded before all else.
    pub modules: Vec<ModuleOrder>,
    /// How the network is built.
    pub steps: Vec<Step>,
    /// Queues that are looked at.
    pub queues: Vec<QueueOrder>,
    /// RTT without queues that the algorithm of a connection is told, by its port: us.
    pub base_rtts_us: Vec<(u16, u32)>,
    /// Whether what went over cables is written down.
    pub captures: bool,
    /// Hosts are namespaces.
    pub traffic: TrafficPlan,
}

/// A module of the kernel, which is a file in the guest's directory.
#[derive(Clone, Debug)]
pub struct ModuleOrder {
    pub path: String,
    /// As `insmod` takes them.
    pub parameters: String,
    /// The file that it was made of.
    pub what: String,
}

/// Something to be done in a namespace.
#[derive(Clone, Debug)]
pub enum Step {
    /// Writes a file of `/proc/sys`.
    Write {
        namespace: u32,
        /// The file.
        path: String,
        /// What it holds then.
        text: String,
    },
    /// Asks the kernel, which must agree.
    Netlink {
        namespace: u32,
        request: Vec<u8>,
        /// What is asked for, for the case that the kernel refuses.
        what: String,
    },
}

/// A queue or a device that is looked at.
#[derive(Clone, Debug)]
pub struct QueueOrder {
    pub namespace: u32,
    /// At the end of the run and at those of the measured window, and not at samples.
    pub only_counts: bool,
    /// The request that asks for it.
    pub request: Vec<u8>,
}

/// Everything that a guest has told. Times are ns since the run's time 0.
#[derive(Clone, Debug, Default)]
pub struct Records {
    /// Its time 0 on the guest's clock.
    pub zero_ns: u64,
    pub traffic: TrafficReport,
    pub queues: Vec<QueueAnswer>,
    /// Files of `/proc/net`: host, whether it was after the run, text.
    pub counts: Vec<(u32, bool, Vec<u8>)>,
}

/// What the kernel told of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueAnswer {
    pub at_ns: u64,
    /// Why it was looked at.
    pub moment: Moment,
    /// Which of those that were asked for.
    pub queue: u32,
    /// `RTM_NEWQDISC` with its attributes.
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
