//! The results of a traffic program.

use alloc::string::String;
use alloc::vec::Vec;

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

use crate::plain;

/// Results of a traffic program. Times are ns since the run's time 0.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct TrafficReport {
    pub end_ns: u64,
    /// One for each side that the program ran.
    pub sides: Vec<SideReport>,
    /// Completed exchanges: flow, start, latency in ns.
    pub rpcs: Vec<(u32, u64, u64)>,
    /// Pings: stream, time of sending, round-trip time; ns.
    pub pings: Vec<(u32, u64, Option<u64>)>,
    /// Samples of connecting sides: when, flow, `struct tcp_info` as long as the kernel's, and the algorithm's own values.
    pub flow_samples: Vec<(u64, u32, Vec<u8>, Vec<u64>)>,
    /// End of the period, flow, payload bytes in it.
    pub goodput_samples: Vec<(u64, u32, u64)>,
    /// `TCP_INFO` of all connections at the beginning of the measured window, and at its end or the end of the run.
    pub window: Option<[Vec<Look>; 2]>,
    /// Largest delay of an action after its planned time.
    pub late_ns: u64,
    /// CPU time, s.
    pub cpu_s: f64,
}

/// One side of a connection at its end, or at the end of the run.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct SideReport {
    /// Index of the flow in the run.
    pub flow: u32,
    pub listens: bool,
    /// `connect()` was called (connecting side).
    pub connected_ns: Option<u64>,
    /// The handshake was complete (connecting side).
    pub established_ns: Option<u64>,
    /// The last byte was read: of a transfer by the listening side, of the last answer by the connecting one.
    pub done_ns: Option<u64>,
    /// Stopped at its `stop_ns`.
    pub stopped_ns: Option<u64>,
    pub read_bytes: u64,
    /// Algorithm at the end, as the kernel calls it.
    pub algorithm: String,
    /// `struct tcp_info` at the end; empty: there was no connection.
    pub info: Vec<u8>,
    /// Whether the kernel called `init` of knee's algorithm when the connection was established; `None`: that is not known.
    pub init_called: Option<bool>,
    /// Error of a side that failed.
    pub error: Option<String>,
}

/// A side of a connection at a moment: index of the flow, whether it listens, `struct tcp_info`.
pub type Look = (u32, bool, Vec<u8>);

plain! {
    TrafficReport { end_ns, sides, rpcs, pings, flow_samples, goodput_samples, window, late_ns, cpu_s }
    SideReport {
        flow, listens, connected_ns, established_ns, done_ns, stopped_ns, read_bytes, algorithm, info, init_called, error,
    }
}
