//! The plan of a traffic program: its connections and pings, and when they begin.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

use crate::bytes::{Plain, Sink};
use crate::plain;

/// Connections, pings and samples of a traffic program. Times are ns since the run's time 0.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct TrafficPlan {
    /// The run ends here at the latest.
    pub end_ns: u64,
    /// Whether the run ends when every transfer that can complete has done so.
    pub until_done: bool,
    /// Connections of which the program runs one side or both.
    pub flows: Vec<FlowPlan>,
    /// Ping streams of the program's hosts.
    pub pings: Vec<PingPlan>,
    /// Period of the samples of `TCP_INFO`.
    pub sample_flows_ns: Option<u64>,
    /// Period of the samples of goodput.
    pub sample_goodput_ns: Option<u64>,
    /// Period of the samples of queues, if the program takes them.
    pub sample_queues_ns: Option<u64>,
    /// Beginning and end of the measured window, at which `TCP_INFO` of every connection is read.
    pub window_ns: Option<[u64; 2]>,
    /// Dependencies between flows, by their places in `flows`; the program runs both sides of these flows.
    // Named `order` in version 4 of the agents' protocol.
    #[cfg_attr(feature = "serde", serde(rename = "order"))]
    pub schedule: Schedule,
}

/// Settings of one connection.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct FlowPlan {
    /// Index of the flow in the run.
    pub flow: u32,
    /// The host that connects, by its number in this program; `None`: it is not one of its hosts.
    pub from: Option<u32>,
    /// The host that listens.
    pub to: Option<u32>,
    /// Address of the connecting side.
    pub from_address: IpAddr,
    /// Address of the listening side.
    pub to_address: IpAddr,
    /// Port of the connecting side; 0: one of the kernel's choice.
    pub from_port: u16,
    /// Port of the listening side, unique on its host.
    pub port: u16,
    /// Algorithm of the connecting side, as the kernel calls it.
    pub algorithm: String,
    /// Algorithm of the listening side, as the kernel calls it.
    pub peer_algorithm: String,
    /// When to call `connect()`; for a flow that waits for others, counted from the moment it may begin.
    pub start_ns: u64,
    /// When to write first, once connected; `None`: at once.
    pub first_write_ns: Option<u64>,
    /// When to stop what has no end.
    pub stop_ns: Option<u64>,
    /// Application data.
    pub traffic: Traffic,
    /// The listening side reads when this many bytes are available, or all that remain (`SO_RCVLOWAT`).
    pub read_at_bytes: u32,
    /// Whether `TCP_INFO` of its connecting side is sampled.
    pub sampled: bool,
    /// DSCP of packets from the connecting side.
    pub dscp: u8,
    /// DSCP of packets from the listening side.
    pub peer_dscp: u8,
    /// `SO_MAX_PACING_RATE` of both sides, bytes per second.
    pub max_pacing_rate: Option<u64>,
}

/// Data of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub enum Traffic {
    /// One transfer; `None`: without end.
    Bulk { bytes: Option<u64> },
    /// Requests, each sent when the answer to the one before has arrived.
    Rpc {
        /// Size of a request, from the connecting side.
        request_bytes: u64,
        /// Size of an answer.
        response_bytes: u64,
        /// How many; `None`: without end.
        count: Option<u64>,
    },
}

/// Bytes without end.
pub(crate) const ENDLESS: u64 = u64::MAX;

impl Traffic {
    /// Whether it completes by itself.
    pub fn ends(&self) -> bool {
        matches!(self, Traffic::Bulk { bytes: Some(_) } | Traffic::Rpc { count: Some(_), .. })
    }

    /// Bytes that the client writes at a time; all ones: without end.
    pub fn request_bytes(&self) -> u64 {
        match *self {
            Traffic::Bulk { bytes } => bytes.unwrap_or(ENDLESS),
            Traffic::Rpc { request_bytes, .. } => request_bytes,
        }
    }

    /// Bytes that the server answers with.
    pub fn response_bytes(&self) -> u64 {
        match *self {
            Traffic::Bulk { .. } => 0,
            Traffic::Rpc { response_bytes, .. } => response_bytes,
        }
    }

    /// Whether the flow exchanges requests and answers.
    pub fn is_rpc(&self) -> bool {
        matches!(self, Traffic::Rpc { .. })
    }

    /// Whether all sizes and counts are above 0.
    pub fn is_possible(&self) -> bool {
        match *self {
            Traffic::Bulk { bytes } => bytes != Some(0),
            Traffic::Rpc { request_bytes, response_bytes, count } => {
                request_bytes > 0 && response_bytes > 0 && count != Some(0)
            }
        }
    }
}

/// ICMP echoes at regular times.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct PingPlan {
    /// Index of the ping stream in the run.
    pub ping: u32,
    /// The host that sends, by its number in this program.
    pub from: u32,
    /// Address that answers.
    pub to_address: IpAddr,
    /// The first packet leaves one interval after this.
    pub start_ns: u64,
    /// Time between two packets.
    pub interval_ns: u64,
    /// Length of the IP packet.
    pub ip_bytes: u32,
    /// ECN field (2 bits).
    pub ecn: u8,
    /// DSCP (6 bits). The reply copies both.
    pub dscp: u8,
}

/// Dependencies between flows. Each flow is listed at most once; a flow that is not listed waits for no other.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct Schedule {
    /// Transfers that begin when others complete. Their start times count from that completion, those of the first from the
    /// beginning of the run.
    pub series: Vec<Series>,
    /// Sets of request/response flows (indices). All flows of a set send their next requests together, when each is connected
    /// and has its answer.
    pub together: Vec<Vec<u32>>,
    /// Messages on connections, and computations, that begin when others are done. Only the simulator carries them out.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    pub tasks: Vec<Task>,
    /// Requests that arrive at times of their own.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    pub pools: Vec<Pool>,
}

impl Schedule {
    /// Whether no flow waits for another. Requests at times of their own wait for nobody.
    pub fn is_empty(&self) -> bool {
        self.series.is_empty() && self.together.is_empty() && self.tasks.is_empty()
    }
}

/// A message on a connection, or a computation. It begins a while after all tasks before it are done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct Task {
    /// Index of the transfer that carries the message, of which it is the next part; `None`: a computation.
    pub flow: Option<u32>,
    /// Size of the message; of a computation 0.
    pub bytes: u64,
    /// Whether the connection opens when the message may begin. Otherwise it opens at its start time.
    pub connects: bool,
    /// Indices of the tasks before it; each is less than its own.
    pub after: Vec<u32>,
    /// From the end of the last of them, or from time 0, until it begins: the time that a computation takes.
    pub gap_ns: u64,
    /// Number of the job that it belongs to, for results.
    pub job: u32,
    /// Number of the job's iteration, from 0.
    pub round: u32,
}

/// Requests that arrive at times of their own, from one host to another, and the connections that carry them. A request leaves
/// on a connection that is free, or waits until one is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct Pool {
    /// Indices of request/response flows without a count.
    pub flows: Vec<u32>,
    /// When requests arrive, in this order.
    pub arrivals_ns: Vec<u64>,
    /// Sizes of answers, of which the connections take one after the other in turn; empty: as the traffic of each says.
    pub response_bytes: Vec<u64>,
}

impl Pool {
    /// Size of the answer to request `number` of the flow at `place`, both from 0. Both sides of a connection know it, whichever
    /// request that is.
    pub fn response_bytes(&self, place: u32, number: u64) -> Option<u64> {
        let turn = number.wrapping_mul(self.flows.len() as u64).wrapping_add(u64::from(place));
        let at = turn.checked_rem(self.response_bytes.len() as u64)?;
        self.response_bytes.get(at as usize).copied()
    }
}

/// Rounds of transfers: a round begins when all flows of the round before have completed.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct Series {
    /// Rounds in order; the sequences of a round run in parallel.
    pub rounds: Vec<Vec<Sequence>>,
}

/// Flows that run one after the other.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct Sequence {
    /// Indices of flows, in order.
    pub flows: Vec<u32>,
    /// Most flows of the sequence at a time.
    pub parallel: u32,
}

plain! {
    TrafficPlan { end_ns, until_done, flows, pings, sample_flows_ns, sample_goodput_ns, sample_queues_ns, window_ns, schedule }
    FlowPlan {
        flow, from, to, from_address, to_address, from_port, port, algorithm, peer_algorithm, start_ns, first_write_ns, stop_ns,
        traffic, read_at_bytes, sampled, dscp, peer_dscp, max_pacing_rate,
    }
    PingPlan { ping, from, to_address, start_ns, interval_ns, ip_bytes, ecn, dscp }
    Schedule { series, together, tasks, pools }
    Pool { flows, arrivals_ns, response_bytes }
    Task { flow, bytes, connects, after, gap_ns, job, round }
    Series { rounds }
    Sequence { flows, parallel }
}

impl Plain for Traffic {
    fn put(&self, to: &mut impl Sink) {
        match *self {
            Traffic::Bulk { bytes } => (0_u8, bytes).put(to),
            Traffic::Rpc { request_bytes, response_bytes, count } => {
                (1_u8, request_bytes, response_bytes, count).put(to);
            }
        }
    }

    fn take(from: &mut &[u8]) -> Option<Traffic> {
        match u8::take(from)? {
            0 => Some(Traffic::Bulk { bytes: Plain::take(from)? }),
            1 => {
                let (request_bytes, response_bytes, count) = Plain::take(from)?;
                Some(Traffic::Rpc { request_bytes, response_bytes, count })
            }
            _ => None,
        }
    }
}
