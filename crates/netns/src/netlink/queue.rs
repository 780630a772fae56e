//! Messages on queue disciplines (`RTM_NEWQDISC` and others), and their statistics.

use std::io;

use super::{
    Attributes, Message, NLM_F_CREATE, NLM_F_DUMP, NLM_F_REPLACE, Netlink, attributes, long, word,
};

// From the kernel's user API: netlink.h, rtnetlink.h, pkt_sched.h and gen_stats.h.
const NLM_F_ECHO: u16 = 8;
const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_STATS_APP: u16 = 4;
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
const TCA_FQ_PLIMIT: u16 = 1;
const TCA_FQ_FLOW_PLIMIT: u16 = 2;
const TC_LINKLAYER_ETHERNET: u8 = 1;
/// Fixed part, `struct tcmsg`.
const TCMSG_BYTES: usize = 20;

/// The parent of a device's own queue.
pub const ROOT: u32 = u32::MAX;

/// A queueing discipline with its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// Linux `pfifo_fast`: three bands, with the device's queue length.
    PfifoFast,
    /// This many packets.
    Pfifo {
        /// Most that wait.
        limit_pkts: u32,
    },
    /// This many bytes.
    Bfifo {
        /// Most that wait, headers of Ethernet counted.
        limit_bytes: u32,
    },
    /// A token bucket. What waits is in a queue of its own, which may be replaced by another whose parent is `handle + 1`.
    Tbf {
        /// Bytes per second, headers of Ethernet counted.
        rate_bytes_per_sec: u64,
        /// Depth of its bucket; no packet may be longer.
        burst_bytes: u32,
        /// Bytes added to each packet's length.
        overhead_bytes: u16,
        /// Most that wait.
        limit_bytes: u32,
    },
    /// Fair queueing, which paces.
    Fq {
        /// Most that wait.
        limit_pkts: u32,
    },
}

impl Queue {
    fn name(self) -> &'static str {
        match self {
            Queue::PfifoFast => "pfifo_fast",
            Queue::Pfifo { .. } => "pfifo",
            Queue::Bfifo { .. } => "bfifo",
            Queue::Tbf { .. } => "tbf",
            Queue::Fq { .. } => "fq",
        }
    }

    /// Behind its name.
    fn options(self) -> Attributes {
        let none = Attributes::default();
        match self {
            Queue::PfifoFast => none,
            // Not wrapped in an attribute of its own.
            Queue::Pfifo { limit_pkts: limit } | Queue::Bfifo { limit_bytes: limit } => {
                none.with_u32(TCA_OPTIONS, limit)
            }
            Queue::Tbf { rate_bytes_per_sec, burst_bytes, overhead_bytes, limit_bytes } => {
                let options = Attributes::default()
                    .with(
                        TCA_TBF_PARMS,
                        &tbf_parms(rate_bytes_per_sec, overhead_bytes, limit_bytes),
                    )
                    .with_u64(TCA_TBF_RATE64, rate_bytes_per_sec)
                    .with_u32(TCA_TBF_BURST, burst_bytes);
                none.with_nested(TCA_OPTIONS, &options)
            }
            Queue::Fq { limit_pkts } => {
                let options = Attributes::default()
                    .with_u32(TCA_FQ_PLIMIT, limit_pkts)
                    .with_u32(TCA_FQ_FLOW_PLIMIT, limit_pkts);
                none.with_nested(TCA_OPTIONS, &options)
            }
        }
    }
}

/// `struct tc_tbf_qopt`. The bucket's depth in time and the table of times per length are not filled in: the kernel takes both
/// from the attributes for the rate in 64 bits and for the depth in bytes.
fn tbf_parms(rate_bytes_per_sec: u64, overhead_bytes: u16, limit_bytes: u32) -> Vec<u8> {
    let rate = u32::try_from(rate_bytes_per_sec).unwrap_or(u32::MAX);
    let mut parms = vec![0, TC_LINKLAYER_ETHERNET];
    parms.extend(overhead_bytes.to_ne_bytes());
    parms.extend([0; 4]);
    parms.extend(rate.to_ne_bytes());
    // No peak rate.
    parms.extend([0; 12]);
    parms.extend(limit_bytes.to_ne_bytes());
    parms.extend([0; 8]);
    parms
}

/// `struct tcmsg`: family and padding, index, handle, parent, info.
fn tcmsg(index: u32, handle: u32, parent: u32) -> Vec<u8> {
    [0, index, handle, parent, 0].iter().flat_map(|number| number.to_ne_bytes()).collect()
}

/// Gives a device a queue, [`ROOT`] or below another. Handles are multiples of 65536, 0 is one that the kernel chooses.
pub fn add_queue(index: u32, handle: u32, parent: u32, queue: Queue) -> Message {
    new_queue(index, handle, parent, queue.name(), &queue.options())
}

/// Gives a device a queue of any kind, with the options that the kernel's header has for that kind (`pkt_sched.h`).
pub fn add_discipline(
    index: u32,
    handle: u32,
    parent: u32,
    kind: &str,
    options: &Attributes,
) -> Message {
    let options = Attributes::default().with_nested(TCA_OPTIONS, options);
    new_queue(index, handle, parent, kind, &options)
}

fn new_queue(index: u32, handle: u32, parent: u32, kind: &str, options: &Attributes) -> Message {
    let attributes = Attributes::default().with_name(TCA_KIND, kind).with_all(options);
    let flags = NLM_F_CREATE | NLM_F_REPLACE;
    Message::new(RTM_NEWQDISC, flags, &tcmsg(index, handle, parent), &attributes)
}

/// Asks for the figures of one queue; the answer is also for those who listen to announcements.
pub fn ask_queue(index: u32, handle: u32, parent: u32) -> Message {
    let fixed = tcmsg(index, handle, parent);
    Message::new(RTM_GETQDISC, NLM_F_ECHO, &fixed, &Attributes::default())
}

/// Counters of a queue discipline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Number of its device.
    pub index: u32,
    pub handle: u32,
    pub parent: u32,
    /// `tbf`, `pfifo_fast`, ...
    pub kind: String,
    /// Bytes that have left it.
    pub sent_bytes: u64,
    /// Packets that have left it.
    pub sent_pkts: u64,
    /// Packets that it has dropped, those of queues below it included.
    pub dropped_pkts: u64,
    /// Packets that wait.
    pub backlog_pkts: u32,
    pub backlog_bytes: u32,
    /// Packets over the discipline's limit; for RED, packets above a threshold.
    pub overlimits: u64,
    /// Counters of its kind, a kernel structure (`pkt_sched.h`); empty if it has none.
    pub own: Vec<u8>,
}

impl QueueStats {
    /// Reads them from the body of `RTM_NEWQDISC`; `None`: it is incomplete.
    pub fn read(body: &[u8]) -> Option<QueueStats> {
        let mut stats = QueueStats {
            index: word(body, 4)?,
            handle: word(body, 8)?,
            parent: word(body, 12)?,
            ..QueueStats::default()
        };
        for (kind, value) in attributes(body.get(TCMSG_BYTES..)?) {
            match kind {
                TCA_KIND => {
                    stats.kind = String::from_utf8_lossy(value).trim_end_matches('\0').to_owned();
                }
                TCA_STATS2 => stats.put(value)?,
                _ => {}
            }
        }
        Some(stats)
    }

    fn put(&mut self, nested: &[u8]) -> Option<()> {
        for (kind, value) in attributes(nested) {
            match kind {
                // struct gnet_stats_basic: bytes, packets.
                TCA_STATS_BASIC => {
                    self.sent_bytes = long(value, 0)?;
                    self.sent_pkts = word(value, 8)?.into();
                }
                // struct gnet_stats_queue: packets, bytes, drops, requeues, what was too much.
                TCA_STATS_QUEUE => {
                    self.backlog_pkts = word(value, 0)?;
                    self.backlog_bytes = word(value, 4)?;
                    self.dropped_pkts = word(value, 8)?.into();
                    self.overlimits = word(value, 16)?.into();
                }
                TCA_STATS_APP => self.own = value.to_vec(),
                _ => {}
            }
        }
        Some(())
    }
}

impl Netlink {
    /// The figures of all queues of the namespace's devices.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn queue_stats(&self) -> io::Result<Vec<QueueStats>> {
        let all = Message::new(RTM_GETQDISC, NLM_F_DUMP, &tcmsg(0, 0, 0), &Attributes::default());
        Ok(self.list(&all)?.iter().filter_map(|answer| QueueStats::read(&answer.body)).collect())
    }
}
