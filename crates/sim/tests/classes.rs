//! Ports with several queues: who is served when, and what is whose.

use crate::common::*;
use knee_queue::{
    Alternate, ClassConfig, ClassService, ClassesConfig, Condition, Ecn, Limit, LimitPer,
    NotEctAbove, QueueConfig, TwoBuffersConfig,
};
use knee_run::outcome::{Outcome, QueueOutcome};
use knee_run::spec::{Flow, Network, Ping, Run, Sampling, Schedule, Serialisation};
use knee_run::topology::Cable;

fn class(condition: Condition, service: ClassService, queue: QueueConfig) -> ClassConfig {
    ClassConfig { name: String::new(), condition, service, queue }
}

fn classes(classes: Vec<ClassConfig>) -> QueueConfig {
    QueueConfig::Classes(ClassesConfig { classes, quantum_bytes: FULL })
}

fn with_dscp(dscp: u8) -> Condition {
    Condition { dscps: Some(1 << dscp), ..Condition::default() }
}

/// The figures of a link: of the whole, then of its parts.
fn queues_of(outcome: &Outcome, link: u32) -> Vec<QueueOutcome> {
    outcome.queues.iter().filter(|queue| queue.link == link).cloned().collect()
}

fn shares(outcome: &Outcome) -> Vec<f64> {
    let all: u64 = outcome.flows.iter().map(|flow| flow.received_bytes).sum();
    outcome.flows.iter().map(|flow| flow.received_bytes as f64 / all as f64).collect()
}

/// The bottleneck of a [`Path`].
const BOTTLENECK: u32 = 0;

/// A DCTCP flow with DSCP 1 (or without) and a CUBIC flow through a port with a marking class for DSCP 1.
fn dctcp_beside_cubic(dscp: u8) -> Outcome {
    let queue = classes(vec![
        class(with_dscp(1), ClassService::Weighted(1), marking(20, NotEctAbove::Drop)),
        class(Condition::default(), ClassService::Weighted(1), droptail(Limit::Pkts(200))),
    ]);
    let path = Path { senders: 2, queue, ..Path::new(us(100)) }.hosts(|host| host.tcp_ecn = 1);
    let dctcp = Flow { dscp, ..path.bulk("dctcp", None) };
    let cubic = Flow { from: 1, ..path.bulk("cubic", None) };
    let mut run = Run { end: at_ms(500), ..path.run(vec![dctcp, cubic]) };
    run.sampling.queues = Some(ms(1));
    simulate(&run)
}

#[test]
fn a_class_of_its_own_gives_dctcp_its_share_and_its_short_queue() {
    let outcome = dctcp_beside_cubic(1);
    let [dctcp, cubic] = shares(&outcome)[..] else { panic!("two flows") };
    assert!((0.48..0.52).contains(&dctcp), "{dctcp} and {cubic}");

    let queues = queues_of(&outcome, BOTTLENECK);
    let [whole, marked, plain] = &queues[..] else { panic!("{queues:?}") };
    assert_eq!([whole.part, marked.part, plain.part], [None, Some(0), Some(1)]);
    assert!(marked.marked_pkts > 1000 && marked.dropped_pkts() == 0, "{marked:?}");
    assert!(plain.marked_pkts == 0 && plain.dropped_full_pkts > 0, "{plain:?}");
    for sum in [
        |queue: &QueueOutcome| queue.offered_pkts,
        |queue: &QueueOutcome| queue.sent_bytes,
        |queue: &QueueOutcome| queue.dropped_pkts(),
    ] {
        assert_eq!(sum(whole), sum(marked) + sum(plain));
    }
    // K is 20 packets, and the other's buffer 200.
    let longest = |part| {
        let samples = outcome.queue_samples.iter().filter(|sample| sample.part == Some(part));
        samples.filter(|sample| sample.at > at_ms(100)).map(|sample| sample.len_pkts).max()
    };
    assert!(longest(0) < Some(60), "{:?}", longest(0));
    assert!(longest(1) > Some(150), "{:?}", longest(1));
}

#[test]
fn without_its_dscp_the_same_flow_is_among_the_others() {
    let outcome = dctcp_beside_cubic(0);
    let queues = queues_of(&outcome, BOTTLENECK);
    assert_eq!((queues[1].offered_pkts, queues[1].sent_pkts), (0, 0));
    assert_eq!(queues[2].offered_pkts, queues[0].offered_pkts);
}

/// Hosts a and b with classes both ways: DSCP 1, DSCP 2, pure ACKs, all else.
fn pair() -> Network {
    let queue = classes(vec![
        class(with_dscp(1), ClassService::Strict, endless()),
        class(with_dscp(2), ClassService::Strict, endless()),
        class(Condition { acks: true, ..Condition::default() }, ClassService::Strict, endless()),
        class(Condition::default(), ClassService::Strict, endless()),
    ]);
    let cable = Cable {
        rate: Some(mbps(1000)),
        serialisation: Serialisation::StoreAndForward,
        queue,
        sampled: true,
        ..wire(us(10))
    };
    let mut network = Network::default();
    let (a, b) = (network.host("a", host()), network.host("b", host()));
    network.link(a, b, cable.clone());
    network.link(b, a, cable);
    network
}

/// Packets of each class on a link.
fn offered(outcome: &Outcome, link: u32) -> Vec<u64> {
    queues_of(outcome, link)[1..].iter().map(|queue| queue.offered_pkts).collect()
}

#[test]
fn each_side_has_the_dscp_that_it_was_given_and_copies_none() {
    let flow = |dscp, peer_dscp| Flow {
        to: 1,
        dscp,
        peer_dscp,
        ..Path::new(us(0)).bulk("reno", 100 * MSS)
    };
    let run = |flow: Flow| {
        let path = Path::new(us(0));
        simulate(&Run { network: pair(), end: at_ms(100), ..path.run(vec![flow]) })
    };
    let (there, back) = (0, 1);
    let outcome = run(flow(1, 2));
    let [to, from] = [there, back].map(|link| offered(&outcome, link));
    assert!(to[0] > 100 && to[1..] == [0, 0, 0], "SYN, ACK of the handshake and data: {to:?}");
    assert!(from[1] > 30 && [from[0], from[2], from[3]] == [0, 0, 0], "SYN-ACK, ACKs: {from:?}");

    // Of the plain ones, SYN and data are among the others, ACKs alone by themselves.
    let outcome = run(flow(0, 0));
    let [to, from] = [there, back].map(|link| offered(&outcome, link));
    assert_eq!((to[2], to[3]), (1, 101));
    assert_eq!(from, [0, 0, outcome.flows[0].counters.acks_sent.unwrap(), 1]);
}

#[test]
fn an_echo_has_the_dscp_of_its_ping() {
    let ping = Ping {
        from: 0,
        to: 1,
        start: at_ms(0),
        interval: ms(1),
        wire_bytes: 98,
        ecn: Ecn::Ect0,
        dscp: 2,
        one_way_until: None,
    };
    let run = Run {
        seed: 1,
        end: at_us(1500),
        until_done: false,
        network: pair(),
        flows: Vec::new(),
        pings: vec![ping],
        schedule: Schedule::default(),
        sampling: Sampling::default(),
    };
    let outcome = simulate(&run);
    assert_eq!([offered(&outcome, 0), offered(&outcome, 1)], [[0, 1, 0, 0], [0, 1, 0, 0]]);
}

/// Shares of three senders, of which the third has a buffer for itself.
fn two_and_one(cc: &str, queue: QueueConfig, limit_per: LimitPer) -> Vec<f64> {
    // The links of sender i are 2 + 2 i, to the switch, and the one after it.
    let two_buffers = |queue| {
        QueueConfig::TwoBuffers(TwoBuffersConfig {
            second: vec![6],
            second_names: Vec::new(),
            queue: Box::new(queue),
            alternate: Alternate::Packets,
            limit_per,
        })
    };
    let path = Path { senders: 3, queue: two_buffers(queue), ..Path::new(us(100)) };
    let path = path.hosts(|host| host.tcp_ecn = 1);
    let flow = |from| Flow { from, start: at_us(137 * from as u64), ..path.bulk(cc, None) };
    let run = Run { end: at_ms(1000), ..path.run((0..3).map(flow).collect()) };
    shares(&simulate(&run))
}

#[test]
fn who_shares_a_buffer_gets_a_quarter_and_the_third_gets_half() {
    for cc in ["dctcp", "reno"] {
        let shares = two_and_one(cc, marking(20, NotEctAbove::Queue), LimitPer::Buffer);
        assert!((0.49..0.51).contains(&shares[2]), "{cc}: {shares:?}");
        assert!(shares[..2].iter().all(|share| (0.22..0.28).contains(share)), "{cc}: {shares:?}");
    }
    let shares = two_and_one("cubic", droptail(Limit::Pkts(200)), LimitPer::Buffer);
    assert!((0.49..0.51).contains(&shares[2]), "without marks: {shares:?}");
}

#[test]
fn in_one_buffer_all_three_get_the_same() {
    let path = Path { senders: 3, queue: marking(20, NotEctAbove::Queue), ..Path::new(us(100)) };
    let path = path.hosts(|host| host.tcp_ecn = 1);
    let flow = |from| Flow { from, start: at_us(137 * from as u64), ..path.bulk("dctcp", None) };
    let run = Run { end: at_ms(1000), ..path.run((0..3).map(flow).collect()) };
    let shares = shares(&simulate(&run));
    assert!(shares.iter().all(|share| (0.31..0.36).contains(share)), "{shares:?}");
}
