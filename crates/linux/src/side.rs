//! One side of a connection, as an application of a Linux host tells of it.

use std::collections::BTreeMap;

use knee_queue::time::{Duration, Time};
use knee_run::outcome::{FlowCounters, FlowOutcome};
use knee_traffic::{Look, SideReport, Traffic};

use crate::TcpInfo;

/// Outcome of a flow with this traffic, from both sides. `own_name` turns the kernel's name of an algorithm into that of experiments.
pub fn flow_outcome(
    traffic: Traffic,
    own_name: &dyn Fn(&str) -> &'static str,
    client: Option<&SideReport>,
    server: Option<&SideReport>,
) -> FlowOutcome {
    let nothing = SideReport::default();
    let has_peer = server.is_some();
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
        counters: counters(traffic, info, has_peer.then_some(peer)),
        srtt: info.srtt_us().map(|us| Duration::from_us(us.into())),
        min_rtt: info.min_rtt_us().map(|us| Duration::from_us(us.into())),
        cwnd_pkts: info.snd_cwnd().unwrap_or(0),
        inits_left_out: inits_left_out([client, server]),
        warnings: Vec::new(),
    }
}

/// Counters of connections in a snapshot, by index of the flow. A connection without its connecting side is absent.
pub fn counters_then(
    looks: &[Look],
    traffic_of: impl Fn(u32) -> Option<Traffic>,
) -> BTreeMap<u32, FlowCounters> {
    let of_sides = |listening: bool| {
        let sides = looks.iter().filter(move |(_, listens, _)| *listens == listening);
        sides.map(|(flow, _, info)| (*flow, &info[..])).collect::<BTreeMap<u32, &[u8]>>()
    };
    let (connecting, listening) = (of_sides(false), of_sides(true));
    let of_flow = |(flow, info): (u32, &[u8])| {
        let peer = listening.get(&flow).copied().map(TcpInfo::new);
        Some((flow, counters(traffic_of(flow)?, TcpInfo::new(info), peer)))
    };
    connecting.into_iter().filter_map(of_flow).collect()
}

/// Sides that began without the `init` of their algorithm; `None`: of none it is known.
pub fn inits_left_out<'a>(sides: impl IntoIterator<Item = &'a SideReport>) -> Option<u64> {
    let left_out = |side: &SideReport| side.init_called.map(|called| u64::from(!called));
    sides.into_iter().filter_map(left_out).reduce(|all, of_side| all + of_side)
}

/// Counters of a connection from what its ends tell. A listening end that no application has seen has counted nothing.
fn counters(traffic: Traffic, info: TcpInfo<'_>, peer: Option<TcpInfo<'_>>) -> FlowCounters {
    let connecting = of_end(info);
    let listening = peer.map_or_else(|| connecting.of_nothing(), of_end);
    FlowCounters::of_ends(traffic, &connecting, &listening)
}

/// Counters of one end. `TCP_INFO` lacks the others.
fn of_end(info: TcpInfo<'_>) -> FlowCounters {
    let acks_sent = |(all, data): (u32, u32)| u64::from(all.saturating_sub(data));
    FlowCounters {
        timeouts: info.total_rto().map(u64::from),
        retransmitted_segs: info.total_retrans().map(u64::from),
        reorderings: info.reord_seen().map(u64::from),
        dsack_segs: info.dsack_dups().map(u64::from),
        data_segs_sent: info.data_segs_out().map(u64::from),
        acks_sent: info.segs_out().zip(info.data_segs_out()).map(acks_sent),
        delivered: info.delivered().map(u64::from),
        delivered_ce: info.delivered_ce().map(u64::from),
        ..FlowCounters::default()
    }
}

#[cfg(test)]
mod tests {
    use knee_run::Outcome;
    use knee_run::outcome::WindowSnapshots;
    use knee_run::spec::{MeasuredWindow, Sampling};

    use super::*;

    const TRANSFER: Traffic = Traffic::Bulk { bytes: None };

    /// `tcpi_total_retrans`, in an old kernel's struct.
    fn info(retransmitted: u32) -> Vec<u8> {
        let mut info = vec![0; 160];
        info[100..104].copy_from_slice(&retransmitted.to_ne_bytes());
        info
    }

    /// A window from 10 to 20 ms of a run of 30 ms.
    fn windowed(looks: [Vec<Look>; 2], flows: &[(Option<u64>, u32)]) -> Vec<Option<u64>> {
        let outcome_of = |(connected_ms, retransmitted): &(Option<u64>, u32)| FlowOutcome {
            connected_at: connected_ms.map(Time::from_ms),
            counters: counters(TRANSFER, TcpInfo::new(&info(*retransmitted)), None),
            ..FlowOutcome::default()
        };
        let (from, until) = (Time::from_ms(10), Time::from_ms(20));
        let window = MeasuredWindow { from, until, period: Duration::from_ms(10) };
        let sampling = Sampling { window: Some(window), ..Sampling::default() };
        let mut outcome = Outcome {
            end: Time::from_ms(30),
            flows: flows.iter().map(outcome_of).collect(),
            ..Outcome::default()
        };
        let looks = looks.each_ref().map(|looks| counters_then(looks, |_| Some(TRANSFER)));
        let looks = WindowSnapshots { flows: Some(looks), queues: None };
        outcome.count_window(&sampling, flows.len(), &looks);
        let window = outcome.window.expect("it was asked for");
        assert!(window.flows.iter().all(|flow| flow.counters.fast_recoveries.is_none()));
        window.flows.iter().map(|flow| flow.counters.retransmitted_segs).collect()
    }

    #[test]
    fn the_window_has_what_came_between_two_looks_at_connections_that_come_and_go() {
        let look = |flow, retransmitted| (flow, false, info(retransmitted));
        let before = vec![look(0, 3), look(3, 1)];
        let after = vec![look(0, 5), look(1, 4)];
        let flows = [
            (Some(1), 9),  // all the time: 5 less 3
            (Some(12), 6), // began in the window: 4
            (Some(25), 7), // began after it: none
            (Some(2), 2),  // stopped in the window, with 2: 1
            (Some(3), 8),  // stopped before it: none
            (None, 0),     // never began: none
        ];
        let wanted = [2, 4, 0, 1, 0, 0].map(Some);
        assert_eq!(windowed([before, after], &flows), wanted);
    }

    #[test]
    fn both_sides_of_exchanges_count_and_one_that_is_not_there_yet_has_counted_nothing() {
        let looks = [(0, false, info(3)), (0, true, info(2)), (1, false, info(4))];
        let exchange = Traffic::Rpc { request_bytes: 1, response_bytes: 1, count: None };
        let counted = counters_then(&looks, |_| Some(exchange));
        let of = |flow: u32| counted[&flow].retransmitted_segs;
        assert_eq!((of(0), of(1)), (Some(5), Some(4)));
    }

    #[test]
    fn sides_without_init_are_counted_if_anybody_looked() {
        let side = |init_called| SideReport { init_called, ..SideReport::default() };
        let of = |one, other| inits_left_out([&side(one), &side(other)]);
        assert_eq!(of(None, None), None);
        assert_eq!(of(Some(true), None), Some(0));
        assert_eq!(of(Some(false), Some(true)), Some(1));
        assert_eq!(of(Some(false), Some(false)), Some(2));
    }

    #[test]
    fn a_flow_has_the_sides_that_began_without_init() {
        let left_out = SideReport { init_called: Some(false), ..SideReport::default() };
        let flow = flow_outcome(TRANSFER, &|_| "reno", Some(&left_out), Some(&left_out));
        assert_eq!(flow.inits_left_out, Some(2));
        assert_eq!(flow_outcome(TRANSFER, &|_| "reno", None, None).inits_left_out, None);
    }
}
