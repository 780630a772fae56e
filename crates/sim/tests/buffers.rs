//! Memory that the queues of a switch share.

use crate::common::*;
use knee_queue::time::Time;
use knee_queue::{DynamicThresholdConfig, Ecn, Limit, NotEctAbove, QueueConfig};
use knee_run::outcome::{Outcome, QueueOutcome};
use knee_run::spec::{
    Flow, LinkId, Network, NodeId, Ping, Run, Sampling, Schedule, Serialisation, SharedBuffer,
};
use knee_run::topology::{Cable, Star};

/// Hosts around a switch, whose ports to them have this queue and rate. The hosts' own links take no time.
fn star(hosts: u32, queue: QueueConfig, serialisation: Serialisation) -> Network {
    let hosts = (0..hosts).map(|i| (format!("h{i}"), host())).collect();
    let down =
        Cable { rate: Some(mbps(1000)), serialisation, queue, sampled: true, ..wire(us(10)) };
    Star { hosts, up: wire(us(10)), down }.build()
}

fn ports(network: &Network) -> Vec<LinkId> {
    (0..network.links.len() as LinkId)
        .filter(|link| network.links[*link as usize].rate.is_some())
        .collect()
}

/// The same with memory for this many full packets.
fn sharing(mut network: Network, pkts: u64, alpha: f64, reserved_pkts: u64) -> Network {
    let full = u64::from(FULL);
    let law = DynamicThresholdConfig {
        size_bytes: pkts * full,
        alpha,
        reserved_bytes: reserved_pkts * full,
    };
    let links = ports(&network);
    network.buffers.push(SharedBuffer {
        name: "buffer switch".to_owned(),
        law,
        links,
        sampled: true,
    });
    network
}

/// Rounds of one packet from host 0 to each of these, all at 1 ms.
fn bursts(network: Network, to: &[NodeId], rounds: usize, ecn: Ecn) -> Outcome {
    let ping = |to| Ping {
        from: 0,
        to,
        start: Time::ZERO,
        interval: ms(1),
        wire_bytes: FULL,
        ecn,
        dscp: 0,
        one_way_until: None,
    };
    let run = Run {
        seed: 1,
        end: Time::from_ps(at_ms(2).ps() - 1),
        until_done: false,
        network,
        flows: Vec::new(),
        pings: (0..rounds).flat_map(|_| to.iter().map(|to| ping(*to))).collect(),
        schedule: Schedule::default(),
        sampling: Sampling { queues: Some(us(1020)), ..Sampling::default() },
    };
    simulate(&run)
}

/// What the port to a host sent: the ports are the odd links.
fn sent(outcome: &Outcome, host: NodeId) -> u64 {
    outcome.queues[host as usize].sent_pkts
}

#[test]
fn hot_ports_get_what_dynamic_thresholds_leave_them() {
    for serialisation in
        [Serialisation::StoreAndForward, Serialisation::TokenBucket { burst_bytes: FULL }]
    {
        let network = |alpha| sharing(star(5, endless(), serialisation), 60, alpha, 0);
        // One packet is being sent, and half of 60, or a fifth, waits.
        assert_eq!(sent(&bursts(network(1.0), &[1], 100, Ecn::NotEct), 1), 1 + 30);
        assert_eq!(sent(&bursts(network(0.25), &[1], 100, Ecn::NotEct), 1), 1 + 12);
        // Two have a third each.
        let two = bursts(network(1.0), &[1, 2], 100, Ecn::NotEct);
        assert_eq!((sent(&two, 1), sent(&two, 2)), (21, 21));
        // Four at alpha = 1/2: 0.5 * 60 / (1 + 4 * 0.5).
        let four = bursts(network(0.5), &[1, 2, 3, 4], 100, Ecn::NotEct);
        assert_eq!([1, 2, 3, 4].map(|host| sent(&four, host)), [11; 4]);
    }
}

#[test]
fn reserves_and_the_limit_of_a_port_go_on_beside_the_memory() {
    // 10 of 60 are set aside for the five ports. Of the 50 others half, and the port's own 2.
    let network = sharing(star(5, endless(), Serialisation::StoreAndForward), 60, 1.0, 2);
    assert_eq!(sent(&bursts(network, &[1], 100, Ecn::NotEct), 1), 1 + 2 + 25);
    let limited = star(5, droptail(Limit::Pkts(7)), Serialisation::StoreAndForward);
    let outcome = bursts(sharing(limited, 60, 1.0, 0), &[1], 100, Ecn::NotEct);
    assert_eq!((sent(&outcome, 1), outcome.queues[1].dropped_full_pkts), (8, 92));
}

#[test]
fn ports_mark_by_their_own_queue() {
    // Of those that find 0 to 29 waiting, 26 find 4 or more.
    let queue = marking(4, NotEctAbove::Queue);
    let network = sharing(star(3, queue, Serialisation::StoreAndForward), 60, 1.0, 0);
    let outcome = bursts(network, &[1], 100, Ecn::Ect0);
    assert_eq!((sent(&outcome, 1), outcome.queues[1].marked_pkts), (31, 26));
}

#[test]
fn the_memory_tells_what_waits_in_it_and_what_its_ports_did() {
    let network = sharing(star(3, endless(), Serialisation::StoreAndForward), 60, 1.0, 0);
    let number = network.links.len() as u32;
    let outcome = bursts(network, &[1, 2], 50, Ecn::NotEct);
    let all = outcome.queues.last().expect("the memory");
    // 21 of each burst, and their echoes by the port to the sender.
    assert_eq!((all.link, all.sent_pkts, all.dropped_full_pkts), (number, 84, 58));
    assert_eq!(all.offered_pkts, 142);
    let sample = outcome.queue_samples.iter().find(|sample| sample.link == number);
    let sample = sample.expect("a sample");
    // At 1020 us, 10 us after the bursts came: the first packets are being sent, 20 wait behind each.
    assert_eq!((sample.len_pkts, sample.len_bytes), (40, 40 * u64::from(FULL)));
    assert_eq!(sample.dropped_pkts, 58);
}

/// Transfers of two algorithms into one port, with timeouts and losses.
fn transfers(network: Network) -> Outcome {
    let path = Path::new(us(100));
    let flow = |i: u32| Flow {
        from: i % 4,
        to: 4,
        start: at_us(u64::from(i) * 7),
        sampled: false,
        ..path.bulk(if i % 2 == 0 { "cubic" } else { "dctcp" }, 300_000 + u64::from(i))
    };
    let flows = (0..24).map(flow).collect();
    simulate(&Run { network, ..path.run(flows) })
}

fn figures(outcome: &Outcome) -> Vec<String> {
    let queues: &[QueueOutcome] = &outcome.queues[..5];
    let queues = queues.iter().map(|queue| format!("{queue:?}"));
    outcome.flows.iter().map(|flow| format!("{flow:?}")).chain(queues).collect()
}

#[test]
fn memory_without_an_end_changes_nothing() {
    for serialisation in
        [Serialisation::StoreAndForward, Serialisation::TokenBucket { burst_bytes: 1600 }]
    {
        let network = || star(5, droptail(Limit::Pkts(40)), serialisation);
        let alone = transfers(network());
        assert!(alone.queues[4].dropped_full_pkts > 100, "{:?}", alone.queues[4]);
        let sharing = transfers(sharing(network(), 1 << 20, 8.0, 0));
        assert!(figures(&alone) == figures(&sharing), "{serialisation:?}");
    }
}

#[test]
fn whatever_is_offered_is_sent_dropped_or_waits() {
    let network = sharing(star(5, endless(), Serialisation::StoreAndForward), 30, 0.5, 1);
    let outcome = transfers(network);
    assert!(outcome.flows.iter().all(|flow| flow.done_at.is_some()));
    for queue in &outcome.queues {
        assert_eq!(queue.offered_pkts, queue.sent_pkts + queue.dropped_pkts());
    }
    assert!(outcome.queues[4].dropped_full_pkts > 0);
}

#[test]
fn memory_that_cannot_work_is_refused_in_a_sentence() {
    let network = || sharing(star(3, endless(), Serialisation::StoreAndForward), 60, 1.0, 0);
    let path = Path::new(us(100));
    let error = |change: &dyn Fn(&mut Network)| {
        let mut run = Run { network: network(), ..path.run(Vec::new()) };
        change(&mut run.network);
        knee_sim::simulate(&run).expect_err("it must be refused").to_string()
    };
    assert!(error(&|net| net.buffers[0].law.alpha = 0.0).contains("alpha = 0"));
    assert!(error(&|net| net.buffers[0].law.reserved_bytes = 1 << 40).contains("are less than"));
    assert!(error(&|net| net.buffers[0].law.size_bytes = 1513).contains("does not fit"));
    assert!(error(&|net| net.buffers[0].links.push(0)).contains("no rate"));
    assert!(error(&|net| net.buffers[0].links.push(1)).contains("two buffers"));
    assert!(error(&|net| net.buffers[0].links.push(99)).contains("there is no link 99"));
}
