//! The applications of hosts: one program that holds any number of connections, of one host or of many, on one clock.
//!
//! It is told a [`TrafficPlan`] and answers with a [`TrafficReport`], both of them plain data that also pass between machines.
//! [`prepare`] opens everything, [`Program::run`] does it; where sockets and algorithms come from is for [`Surroundings`] to say.
//!
//! What an application does is what the simulator's does (`knee_sim`), with these differences, which a kernel asks for:
//!
//! - A transfer that is stopped is aborted, so that nothing more is sent: one RST leaves.
//! - One that is done stays open and idle until the end: to close it would send packets.
//! - What is written waits in the send buffer, which the kernel makes as large as it likes.

pub mod agent;
pub(crate) mod clock;
mod conversation;
mod devices;
mod ping;
mod program;
mod surroundings;
mod sys;
mod timers;

pub use knee_linux::TcpInfo;
pub use knee_linux::side::{Look, SideReport};
pub use program::{Program, prepare};
pub use surroundings::{Algorithms, Here, InNamespaces, SocketKind, Surroundings};

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// What a traffic program is to do. Times are ns since the run's time 0.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TrafficPlan {
    /// The run ends here at the latest.
    pub end_ns: u64,
    /// Whether the run ends when every transfer that can complete has done so.
    pub until_done: bool,
    /// Connections of which it holds one side or both.
    pub flows: Vec<FlowPlan>,
    /// Pings that it sends.
    pub pings: Vec<PingPlan>,
    /// Period of the samples of `TCP_INFO`.
    pub sample_flows_ns: Option<u64>,
    /// Period of the samples of goodput.
    pub sample_goodput_ns: Option<u64>,
    /// Beginning and end of the measured window, at which `TCP_INFO` of every connection is read.
    pub window_ns: Option<[u64; 2]>,
}

/// A connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FlowPlan {
    /// Its index in the run.
    pub flow: u32,
    /// The host that connects, by its number in this program; `None`: it is not one of its hosts.
    pub from: Option<u32>,
    /// The host that listens.
    pub to: Option<u32>,
    /// Address of the connecting side.
    pub from_address: IpAddr,
    /// Address of the listening side.
    pub to_address: IpAddr,
    /// Port at which it listens, its own among those of its host.
    pub port: u16,
    /// Algorithm of the connecting side, as the kernel calls it.
    pub algorithm: String,
    /// Of the listening side.
    pub peer_algorithm: String,
    /// When to call `connect()`.
    pub start_ns: u64,
    /// When to write first, once connected; `None`: at once.
    pub first_write_ns: Option<u64>,
    /// When to stop what has no end.
    pub stop_ns: Option<u64>,
    /// What is sent.
    pub traffic: TrafficKind,
    /// The listening side reads when this much is there, or what remains.
    pub read_at_bytes: u32,
    /// Whether `TCP_INFO` of its connecting side is sampled.
    pub sampled: bool,
    /// DSCP of what the connecting side sends.
    pub dscp: u8,
    /// Of what the listening side sends.
    pub peer_dscp: u8,
}

/// What a connection carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TrafficKind {
    /// From the connecting side; `None`: without end.
    Bulk {
        /// Size.
        bytes: Option<u64>,
    },
    /// Requests of the connecting side, each sent when the answer to the one before has arrived.
    Rpc {
        request_bytes: u64,
        /// Of an answer.
        response_bytes: u64,
        /// How many; `None`: without end.
        count: Option<u64>,
    },
}

/// ICMP echoes at regular times.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PingPlan {
    /// Its index in the run.
    pub ping: u32,
    /// The host that sends, by its number in this program.
    pub from: u32,
    /// Who answers.
    pub to_address: IpAddr,
    /// The first leaves one interval after this.
    pub start_ns: u64,
    /// Between two.
    pub interval_ns: u64,
    /// Length of the IP packet.
    pub ip_bytes: u32,
    /// The two bits.
    pub ecn: u8,
    /// The six others; whoever answers copies all eight.
    pub dscp: u8,
}

/// What a traffic program recorded. Times are ns since the run's time 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrafficReport {
    pub end_ns: u64,
    /// One for each side that it held.
    pub sides: Vec<SideReport>,
    /// Completed exchanges: flow, start, latency in ns.
    pub rpcs: Vec<(u32, u64, u64)>,
    /// Pings: stream, when it left, and until its echo was back.
    pub pings: Vec<(u32, u64, Option<u64>)>,
    /// Samples of connecting sides: when, flow, `struct tcp_info` as long as the kernel's, and the algorithm's own values.
    pub flow_samples: Vec<(u64, u32, Vec<u8>, Vec<u64>)>,
    /// End of the period, flow, payload bytes in it.
    pub goodput_samples: Vec<(u64, u32, u64)>,
    /// Sides of connections that there were when the measured window began, and when it ended or the run did.
    pub window: Option<[Vec<Look>; 2]>,
    /// The latest that anything was begun, after the moment for it.
    pub late_ns: u64,
    /// CPU time, s.
    pub cpu_s: f64,
}
