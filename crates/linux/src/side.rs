//! One side of a connection, as an application of a Linux host tells of it.

use knee_queue::time::{Duration, Time};
use knee_sim::outcome::{FlowCounters, FlowOutcome};
use serde::{Deserialize, Serialize};

use crate::TcpInfo;

/// One side of a connection at its end, or at the end of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SideReport {
    /// Index of the flow in the run.
    pub flow: u32,
    /// Whether it is the listening side.
    pub listens: bool,
    /// `connect()` was called (connecting side).
    pub connected_ns: Option<u64>,
    /// The handshake was complete (connecting side).
    pub established_ns: Option<u64>,
    /// The last byte was read: of a transfer by the listening side, of the last answer by the connecting one.
    pub done_ns: Option<u64>,
    /// It was stopped as asked.
    pub stopped_ns: Option<u64>,
    /// Payload bytes read.
    pub read_bytes: u64,
    /// Algorithm at the end, as the kernel calls it.
    pub algorithm: String,
    /// `struct tcp_info` at the end; empty: there was no connection.
    pub info: Vec<u8>,
    /// Whether the kernel called `init` of knee's algorithm when the connection was established; `None`: that is not known.
    #[serde(default)]
    pub begun: Option<bool>,
    /// Why it failed, if it did.
    pub error: Option<String>,
}

/// What both sides tell of a flow; `own_name` is what experiments call the algorithm that the kernel calls so.
pub fn flow_outcome(
    is_rpc: bool,
    own_name: &dyn Fn(&str) -> &'static str,
    client: Option<&SideReport>,
    server: Option<&SideReport>,
) -> FlowOutcome {
    let nothing = SideReport::default();
    let (client, server) = (client.unwrap_or(&nothing), server.unwrap_or(&nothing));
    let time = |ns: Option<u64>| ns.map(Time::from_ns);
    let (info, peer) = (TcpInfo::new(&client.info), TcpInfo::new(&server.info));
    FlowOutcome {
        connected_at: time(client.connected_ns),
        established_at: time(client.established_ns),
        done_at: time(client.done_ns.or(server.done_ns)),
        stopped_at: time(client.stopped_ns),
        received_bytes: peer.bytes_received().unwrap_or(server.read_bytes),
        ecn: info.ecn().unwrap_or(false),
        algorithm: own_name(&client.algorithm),
        counters: counters(info, peer, is_rpc),
        srtt: info.srtt_us().map(|us| Duration::from_us(us.into())),
        min_rtt: info.min_rtt_us().map(|us| Duration::from_us(us.into())),
        cwnd_pkts: info.snd_cwnd().unwrap_or(0),
        inits_left_out: inits_left_out([client, server]),
    }
}

/// Of the sides of which it is known; `None`: of neither.
pub fn inits_left_out(sides: [&SideReport; 2]) -> Option<u64> {
    let known: Vec<bool> = sides.into_iter().filter_map(|side| side.begun).collect();
    let left_out = known.iter().filter(|begun| !**begun).count();
    (!known.is_empty()).then_some(left_out as u64)
}

/// Of the connecting side; for exchanges timeouts and retransmissions are those of both, as the simulator has them.
fn counters(info: TcpInfo<'_>, peer: TcpInfo<'_>, is_rpc: bool) -> FlowCounters {
    let both = |of: fn(TcpInfo<'_>) -> Option<u64>| {
        if is_rpc { Some(of(info)? + of(peer)?) } else { of(info) }
    };
    FlowCounters {
        timeouts: both(|info| info.total_rto().map(u64::from)),
        retransmitted_segs: both(|info| info.total_retrans().map(u64::from)),
        data_segs_sent: info.data_segs_out().map(u64::from),
        acks_sent: peer
            .segs_out()
            .zip(peer.data_segs_out())
            .map(|(all, data)| u64::from(all.saturating_sub(data))),
        delivered: info.delivered().map(u64::from),
        delivered_ce: info.delivered_ce().map(u64::from),
        ..FlowCounters::default()
    }
}
