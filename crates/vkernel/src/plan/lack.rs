//! Features of a run that guests lack.

use knee_run::spec::LinuxVersion;

use super::queues::MOST_CLASSES;

/// A feature of a queue or a host that a guest's kernel does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Lack {
    #[error("no discipline of Linux marks a share of packets (kind = \"share\")")]
    Share,
    #[error("the guest's kernel has no dualpi2 (Linux 6.17 has it)")]
    DualPi2,
    #[error("no discipline of Linux has two buffers by where a packet came from")]
    TwoBuffers,
    #[error("no discipline of Linux trims packets (kind = \"trim\")")]
    Trim,
    #[error("Linux's ets has {MOST_CLASSES} classes at most; merge some")]
    Classes,
    #[error("a turn of a class is below 4 GiB; make weights smaller")]
    Quantum,
    #[error("class {name}: classes within a class; take them apart")]
    ClassesWithin { name: String },
    #[error("class {name}: {source}")]
    Class { name: String, source: Box<Lack> },
    #[error(
        "no fifo of Linux marks by the time that a packet has waited; give k in packets or bytes"
    )]
    Sojourn,
    #[error("no fifo of Linux marks at dequeue by its length; leave mark_when out")]
    AtDequeue,
    #[error("Linux's RED is not gentle; leave gentle out")]
    Gentle,
    #[error("Linux's RED adapts each 500 ms; leave adaptive out")]
    Adaptive,
    #[error("{ns} ns: Linux has times of queues in whole us")]
    Nanoseconds { ns: u64 },
    #[error("Linux's PIE has a burst allowance of 150 ms and derandomises; leave both out")]
    Pie,
    #[error("Linux's codel has no ce_threshold for ECT(1) alone; use fq-codel")]
    CeThreshold,
    #[error("hosts.fq needs a queue of its own: kind = \"droptail\"")]
    Fq,
    #[error("loss_per = \"burst\": behind a switch nobody knows which packets were sent together")]
    LossOfBursts,

    #[error("ipv6: guests speak IPv4 alone; leave it out, or use --on sim")]
    Ipv6,
    #[error(
        "defects of older versions: the guest's kernel has none of them; leave them out, or use --on sim"
    )]
    Defects,
    #[error(
        "syn_ect = false: the guest's kernel sends SYNs of algorithms that need ECN with ECT; leave it out, or use --on sim"
    )]
    SynEct,
    #[error(
        "ecn_low: the guest's kernel has no such feature of routes; leave it out, or use --on sim"
    )]
    EcnLow,
    #[error(
        "coalesce, cpu and receive_queues are of a device and a CPU, and a guest's take no time; leave them out, or use --on sim"
    )]
    Receiving,
    #[error(
        "receive merging: the devices of a guest do none; leave gro and gro_window out, or use --on sim"
    )]
    Merging,
    #[error(
        "fq_counts_headers: the guest's fq goes by departure times, which do not; leave it out, or use --on sim"
    )]
    FqCountsHeaders,
    #[error(
        "jiffies_at_start: the guest's kernel begins to count when it starts; leave it out, or use --on sim"
    )]
    JiffiesAtStart,
    #[error("min_rtt_wlen: Linux has it in whole seconds; change it, or use --on sim")]
    MinRttWlen,
    #[error(
        "linux = \"{asked}\": the guest's kernel is {is}; give --profile {is}, or build the other one (knee vkernel build)"
    )]
    Version { asked: LinuxVersion, is: String },
    #[error(
        "rto_min of {us} us: before tcp_rto_min_us (6.11) Linux accepts whole ms only; change it, or use --on sim"
    )]
    RtoMin { us: u64 },
}
