//! Defects of 2015 to 2018 in what a receiver of DCTCP acknowledges, each by what it does to a run.

use crate::common::*;
use knee_queue::NotEctAbove;
use knee_run::outcome::{Counters, Outcome};
use knee_run::spec::{Defects, Flow, Run};

fn path(k: u32, defects: Defects) -> Path {
    let queue = marking(k, NotEctAbove::Queue);
    let path = Path { access: Some(mbps(10_000)), queue, ..Path::new(us(100)) };
    path.hosts(|host| host.defects = defects)
}

fn bulk(k: u32, defects: Defects) -> Counters {
    let path = path(k, defects);
    simulate(&path.run(vec![path.bulk("dctcp", 20_000_000)]))
        .flows
        .remove(0)
        .counters
        .complete()
        .expect("all are known")
}

/// Exchanges of two connections beside a bulk transfer, all through one queue.
fn exchanges(k: u32, request_bytes: u64, response_bytes: u64, defects: Defects) -> Outcome {
    let path = Path { senders: 3, ..path(k, defects) };
    let rpc = path.rpc("dctcp", request_bytes, response_bytes, 1000);
    let flows = vec![
        path.bulk("dctcp", None),
        Flow { from: 1, ..rpc.clone() },
        Flow { from: 2, start: at_us(37), ..rpc },
    ];
    simulate(&Run { end: at_ms(2000), ..path.run(flows) })
}

fn acks_of_exchanges(outcome: &Outcome) -> u64 {
    assert!(outcome.flows[1..].iter().all(|flow| flow.done_at.is_some()));
    outcome.flows[1..]
        .iter()
        .map(|flow| flow.counters.complete().expect("all are known").acks_sent)
        .sum()
}

#[test]
fn a_special_ack_with_the_new_state_tells_the_sender_wrongly() {
    let wrong = |defects| {
        let counters = bulk(20, defects);
        counters.ce_segs_received.abs_diff(counters.delivered_ce)
    };
    let (without, with) =
        (wrong(Defects::default()), wrong(Defects { ece_not_on_special_ack: true, ..none() }));
    assert!(without < 10, "{without}");
    assert!(with > 50 && with > 5 * without, "{with} beside {without}");
}

fn none() -> Defects {
    Defects::default()
}

#[test]
fn without_an_immediate_ack_a_change_of_ce_gives_one_ack_less() {
    let without = bulk(20, none()).acks_sent;
    let with = bulk(20, Defects { no_immediate_ack_on_ce_change: true, ..none() }).acks_sent;
    assert!(with + 50 < without, "{with} beside {without}");
}

#[test]
fn a_noted_delayed_ack_that_data_has_carried_is_repeated() {
    let without = acks_of_exchanges(&exchanges(5, MSS, MSS, none()));
    let with = Defects { stale_special_ack: true, ..none() };
    let with = acks_of_exchanges(&exchanges(5, MSS, MSS, with));
    println!("{without} {with}");
    assert!(with > without + 20, "{with} beside {without}");
}

#[test]
fn quick_acks_at_a_change_of_ce_leave_the_interactive_mode() {
    let without = acks_of_exchanges(&exchanges(5, 2 * MSS, MSS, none()));
    let with = Defects { ce_change_resets_ato: true, ..none() };
    let with = acks_of_exchanges(&exchanges(5, 2 * MSS, MSS, with));
    println!("{without} {with}");
    assert!(with > without + 20, "{with} beside {without}");
}

/// Two senders, each with a stream, requests of 1 MB and requests of 10 kB, over 10 Gbps with K = 10: as in
/// scenarios/published/rpc-tails.toml. Slowest 1 MB request in ms, and probes for lost tails of all six.
fn small_windows(defects: Defects) -> (u64, u64) {
    let path = Path {
        senders: 2,
        access: Some(mbps(10_000)),
        rate: mbps(10_000),
        queue: marking(10, NotEctAbove::Queue),
        ..Path::new(us(20))
    };
    let path = path.hosts(|host| host.defects = defects);
    let mut flows = Vec::new();
    for from in 0..2 {
        let start = at_us(u64::from(from) * 137);
        let large = path.rpc("dctcp", 1_000_000, 100, 1_000_000);
        let small = path.rpc("dctcp", 10_000, 100, 1_000_000);
        for flow in [path.bulk("dctcp", None), large, small] {
            flows.push(Flow { from, start, ..flow });
        }
    }
    let outcome = simulate(&Run { end: at_ms(2000), ..path.run(flows) });
    let large = outcome.rpcs.iter().filter(|rpc| rpc.flow % 3 == 1);
    let slowest = large.map(|rpc| rpc.latency.us() / 1000).max().expect("there are exchanges");
    (
        slowest,
        outcome
            .flows
            .iter()
            .map(|flow| flow.counters.complete().expect("all are known").tail_loss_probes)
            .sum(),
    )
}

#[test]
fn a_window_of_one_packet_waits_if_neither_cwr_nor_a_change_of_ce_is_acknowledged_at_once() {
    let late = Defects { no_immediate_ack_on_ce_change: true, ..none() };
    let (fast, few) = small_windows(late);
    let (slow, many) = small_windows(Defects { no_ack_on_cwr: true, ..late });
    println!("{fast} ms, {few} probes; {slow} ms, {many} probes");
    assert!(few == 0 && fast < 30, "{fast} ms, {few} probes");
    assert!(many > 100 && slow > 40, "{slow} ms, {many} probes");
}

#[test]
fn a_special_ack_that_pays_for_all_leaves_segments_without_the_ack_that_they_are_owed() {
    let without = acks_of_exchanges(&exchanges(5, MSS, MSS, none()));
    let with = Defects { special_ack_cancels_delack: true, ..none() };
    let with = acks_of_exchanges(&exchanges(5, MSS, MSS, with));
    println!("{without} {with}");
    assert!(with + 100 < without, "{with} beside {without}");
}
