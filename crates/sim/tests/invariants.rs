//! What holds in any run: every byte arrives once, every packet is accounted for, nothing stalls.

use crate::common::*;
use knee_queue::time::{Duration, Time};
use knee_queue::{Limit, NotEctAbove, PieConfig, QueueConfig, StepConfig, Threshold};
use knee_run::outcome::Outcome;
use knee_run::spec::{Cc, Flow, LinuxVersion, Run, Serialisation, Traffic};

const ALGORITHMS: [&str; 3] = ["reno", "cubic", "dctcp"];

/// A path with a little of everything that goes wrong.
fn troubled(chance: &mut Chance) -> Path {
    let rtt = us([50, 200, 5_000, 40_000][chance.below(4) as usize]);
    let rate_mbps = [10, 100, 1000][chance.below(3) as usize];
    let limit = Limit::Pkts(3 + chance.below(40) as u32);
    let mut path = Path { rate: mbps(rate_mbps), queue: droptail(limit), ..Path::new(rtt) };
    if chance.below(2) == 0 {
        let QueueConfig::Step(step) = marking(2, NotEctAbove::Drop) else { unreachable!() };
        let threshold = Threshold::Pkts(1 + chance.below(10) as u32);
        path.queue = QueueConfig::Step(StepConfig { limit, threshold, ..step });
    }
    path.loss = [0.0, 0.01, 0.05][chance.below(3) as usize];
    path.back_loss = [0.0, 0.01, 0.1][chance.below(3) as usize];
    let jitter =
        |chance: &mut Chance| Duration::from_ns(rtt.ns() * [0, 0, 1, 3][chance.below(4) as usize]);
    path.jitter = jitter(chance);
    path.back_jitter = jitter(chance);
    let (sack, tcp_ecn) = (chance.below(4) > 0, chance.below(3) as u8);
    let gso_max_segs = if chance.below(3) == 0 { 44 } else { 1 };
    let gro_window = us(if chance.below(4) == 0 { 20 } else { 0 });
    let hz = [100, 250, 1000][chance.below(3) as usize];
    let rcvbuf = [20_000, 131_072, 8 << 20][chance.below(3) as usize];
    let linux = if chance.below(3) == 0 { LinuxVersion(6, 18) } else { LinuxVersion(6, 1) };
    path.burst_bytes = 1600;
    path.hosts(|host| {
        (host.sack, host.tcp_ecn, host.hz, host.linux) = (sack, tcp_ecn, hz, linux);
        (host.gso_max_segs, host.gro_window) = (gso_max_segs, gro_window);
        host.rcvbuf_initial_bytes = rcvbuf;
        host.rcvbuf_max_bytes = rcvbuf.max(6 << 20);
        host.jiffies_at_start = None;
    })
}

#[test]
fn every_byte_arrives_exactly_once_whatever_the_network_does() {
    for seed in 1..=150 {
        let mut chance = Chance::new(seed);
        let path = troubled(&mut chance);
        let cc = ALGORITHMS[chance.below(3) as usize];
        let bytes = 1 + chance.below(300_000);
        let mut flow = path.bulk(cc, bytes);
        flow.read_at_bytes = [1, 5_000][chance.below(2) as usize];
        let mut run = path.run(vec![flow]);
        (run.seed, run.end) = (seed, at_ms(3_600_000));
        let flow = simulate(&run).flows.remove(0);
        assert!(flow.done_at.is_some(), "seed {seed}: {flow:?}\n{path:#?}");
        assert_eq!(flow.received_bytes, bytes, "seed {seed}");
        assert!(flow.cwnd_pkts >= 1);
    }
}

#[test]
fn exchanges_survive_losses_in_both_directions() {
    for seed in 1..=50 {
        let mut chance = Chance::new(seed + 1000);
        let path = troubled(&mut chance);
        let cc = ALGORITHMS[chance.below(3) as usize];
        let (request, response) = (1 + chance.below(20_000), 1 + chance.below(20_000));
        let mut run = path.run(vec![path.rpc(cc, request, response, 5)]);
        (run.seed, run.end) = (seed, at_ms(3_600_000));
        let outcome = simulate(&run);
        assert!(outcome.flows[0].done_at.is_some(), "seed {seed}: {:?}", outcome.flows[0]);
        assert_eq!((outcome.rpcs.len(), outcome.flows[0].received_bytes), (5, 5 * request));
    }
}

#[test]
fn one_percent_of_loss_costs_what_theory_says() {
    // Mathis: rate = MSS / RTT * sqrt(3 / 2) / sqrt(p) without delayed ACKs, sqrt(3 / 4) with: 8.7 to 12.2
    // packets per 20 ms at 1 %; timeouts and delayed growth take some, bursts between losses give some.
    let mut packets = 0.0;
    let runs = 10;
    for seed in 1..=runs {
        let path = Path { loss: 0.01, rate: mbps(100), ..Path::new(ms(20)) };
        let mut run = path.run(vec![path.bulk("reno", None)]);
        (run.seed, run.end) = (seed, at_ms(20_000));
        let flow = simulate(&run).flows.remove(0);
        packets += flow.received_bytes as f64 / MSS as f64 / 1000.0 / runs as f64;
    }
    assert!((7.0..13.0).contains(&packets), "{packets} per round trip");
}

/// Ten flows of different kinds into one queue, pings among them.
fn crowd(queue: QueueConfig, serialisation: Serialisation, seed: u64) -> Outcome {
    let path = Path { senders: 5, queue, loss: 0.002, ..Path::new(us(300)) };
    let path = path.hosts(|host| host.tcp_ecn = 1);
    let flows = (0..10).map(|i| Flow {
        from: i % 5,
        start: at_us(u64::from(i) * 37),
        ..path.bulk(ALGORITHMS[i as usize % 3], (i < 5).then_some(200_000))
    });
    let mut run = path.run(flows.collect());
    (run.seed, run.end, run.until_done) = (seed, at_us(50_123), false);
    run.network.links[0].serialisation = serialisation;
    run.pings = path.crowd(at_us(777), 3);
    run.sampling.queues = Some(us(50));
    // One sample at the very end.
    run.end = at_us(50_100);
    simulate(&run)
}

#[test]
fn packets_offered_are_sent_dropped_or_waiting() {
    let step = |when, threshold, not_ect| {
        let QueueConfig::Step(step) = marking(5, not_ect) else { unreachable!() };
        QueueConfig::Step(StepConfig { limit: Limit::Pkts(40), when, threshold, ..step })
    };
    use knee_queue::MarkWhen::{Dequeue, Enqueue};
    let queues = [
        droptail(Limit::Pkts(30)),
        droptail(Limit::Bytes(30_000)),
        step(Enqueue, Threshold::Pkts(5), NotEctAbove::Queue),
        step(Enqueue, Threshold::Bytes(10_000), NotEctAbove::Drop),
        step(Dequeue, Threshold::Pkts(5), NotEctAbove::Drop),
        step(Dequeue, Threshold::Sojourn(us(50)), NotEctAbove::Queue),
        QueueConfig::Pie(PieConfig { limit_pkts: 60, ..PieConfig::default() }),
    ];
    let ways = [Serialisation::TokenBucket { burst_bytes: 1600 }, Serialisation::StoreAndForward];
    for (index, queue) in queues.into_iter().enumerate() {
        for way in ways {
            let outcome = crowd(queue.clone(), way, index as u64);
            let counts = outcome.queues.iter().find(|queue| queue.link == 0).expect("sampled");
            let last = outcome.queue_samples.iter().rfind(|sample| sample.link == 0);
            let last = last.expect("sampled");
            assert_eq!(last.at, outcome.end);
            let told = counts.sent_pkts + counts.dropped_pkts();
            let waiting = u64::from(last.len_pkts);
            // Where departures are known at arrival, what waits counts as sent.
            let context = format!("{queue:?} {way:?} {counts:?} {waiting}");
            assert!(
                told == counts.offered_pkts || told + waiting == counts.offered_pkts,
                "{context}"
            );
            assert!(counts.offered_pkts > 3_000, "{context}");
            assert!(counts.lost_pkts > 0 && counts.dropped_pkts() > 0 || index == 5, "{context}");
            // Samples do not run backwards.
            let drops =
                outcome.queue_samples.iter().filter(|s| s.link == 0).map(|s| s.dropped_pkts);
            assert!(drops.is_sorted());
            assert!(outcome.queue_samples.iter().map(|s| s.at).is_sorted());
        }
    }
}

#[test]
fn what_receivers_got_is_what_the_bottleneck_let_through() {
    // One long flow; SYN, ACKs and retransmissions apart.
    let path = Path { queue: droptail(Limit::Pkts(20)), ..Path::new(us(300)) };
    let run = Run { end: at_ms(100), ..path.run(vec![path.bulk("cubic", None)]) };
    let outcome = simulate(&run);
    let (flow, queue) = (&outcome.flows[0], &outcome.queues[0]);
    let sent = flow.counters.complete().expect("all are known").data_segs_sent;
    assert_eq!(queue.offered_pkts, sent + 2, "SYN and the last ACK of the handshake");
    assert_eq!(sent, outcome.work.data_pkts);
    let received = flow.received_bytes / MSS;
    assert!(received <= queue.sent_pkts);
    // Nothing was sent again needlessly: all that passed is new, but for what waits beyond a hole.
    assert!(queue.sent_pkts - received < 60, "{} {received}", queue.sent_pkts);
    assert_eq!(flow.counters.complete().expect("all are known").undos, 0);
    // Dropped and sent again, but for the last window.
    let again = flow.counters.complete().expect("all are known").retransmitted_segs;
    assert!(again <= queue.dropped_full_pkts && queue.dropped_full_pkts - again < 60);
}

#[test]
fn sequence_numbers_wrap_without_anyone_noticing() {
    // The client's initial sequence number is drawn from the seed: after one draw for each of the two
    // hosts, the lower half of the next (splitmix64). Seeds whose number is just below the wrap:
    let initial = |seed: u64| {
        let mut chance = Chance::new(seed);
        (chance.u64(), chance.u64(), chance.u64() as u32).2
    };
    let seeds: Vec<u64> =
        (1..2_000_000).filter(|&s| initial(s) > u32::MAX - 200_000).take(40).collect();
    assert_eq!(seeds.len(), 40);
    for (index, seed) in seeds.into_iter().enumerate() {
        let mut path = Path { rate: mbps(100), loss: 0.02, ..Path::new(us(500)) };
        path.queue = droptail(Limit::Pkts(15));
        path.jitter = us(if index % 2 == 0 { 0 } else { 300 });
        let mut run = path.run(vec![path.bulk(ALGORITHMS[index % 3], 400_000)]);
        run.seed = seed;
        let flow = simulate(&run).flows.remove(0);
        assert!(flow.done_at.is_some(), "seed {seed}: {flow:?}");
        assert_eq!(flow.received_bytes, 400_000, "seed {seed}");
        assert!(fct_ns(&flow) < 3_000_000_000, "seed {seed}: {flow:?}");
    }
}

/// 5 GB in jumbo frames at 100 Gbps.
fn more_than_4_gib() -> Outcome {
    let mut path = Path { rate: mbps(100_000), ..Path::new(us(20)) };
    path.burst_bytes = 9014 * 2;
    let path = path.hosts(|host| host.mtu_bytes = 9000);
    let run = path.run(vec![path.bulk("reno", 5_000_000_000)]);
    sampled(run, ms(100))
}

#[test]
fn a_transfer_may_be_larger_than_the_sequence_space() {
    let outcome = more_than_4_gib();
    assert_eq!(outcome.flows[0].received_bytes, 5_000_000_000);
    // 5 GB * 8 * 9014 / 8948 at 100 Gbps: 402.95 ms.
    let took_us = fct_ns(&outcome.flows[0]) / 1000;
    assert!((402_900..404_000).contains(&took_us), "{took_us}");
}

#[test]
fn bytes_acked_goes_on_beyond_4_gib() {
    let outcome = more_than_4_gib();
    assert!(outcome.flow_samples.iter().map(|sample| sample.bytes_acked).is_sorted());
}

#[test]
fn data_refused_by_the_host_s_own_queue_is_tried_again() {
    // A hundred short flows share their host's link, whose queue holds 60 packets. Linux arms the probe
    // timer: max(RTO, 200 ms), then 500 ms as long as the queue is full.
    let path = Path { access: Some(mbps(100)), ..Path::new(us(100)) };
    let flows = (0..100).map(|i| Flow { start: at_us(i), ..path.bulk("cubic", 5_000) });
    let mut run = path.run(flows.collect());
    run.network.links[2].queue = droptail(Limit::Pkts(60));
    let outcome = simulate(&run);
    let done = outcome.flows.iter().filter(|flow| flow.done_at.is_some()).count();
    assert_eq!(done, 100);
}

#[test]
fn a_lost_window_update_is_asked_for() {
    // A buffer of 6000 bytes, whose window of two segments closes until 2800 bytes are read; every tenth
    // ACK is lost, and some that open the window.
    for seed in 1..=50 {
        let path = Path { back_loss: 0.1, ..Path::new(us(50)) }.hosts(|host| {
            host.rcvbuf_initial_bytes = 6_000;
            host.rcvbuf_max_bytes = 6_000;
        });
        let flow = Flow { read_at_bytes: 2_800, ..path.bulk("reno", 200_000) };
        let mut run = path.run(vec![flow]);
        (run.seed, run.end) = (seed, at_ms(3_600_000));
        let flow = simulate(&run).flows.remove(0);
        assert!(flow.done_at.is_some(), "seed {seed}: {flow:?}");
    }
}

#[test]
fn traffic_stops_when_asked() {
    let path = Path::new(us(100));
    let stop = Some(at_ms(10));
    let rpc = Traffic::Rpc { request_bytes: 5_000, response_bytes: 100, count: None };
    let flows = vec![
        Flow { stop, ..path.bulk("cubic", None) },
        Flow { stop, traffic: rpc, ..path.bulk("cubic", None) },
        Flow { start: at_ms(200), ..path.bulk("cubic", 1000) },
    ];
    let mut run = Run { end: at_ms(30), ..path.run(flows) };
    run.sampling.goodput = Some(ms(1));
    let outcome = simulate(&run);
    let [bulk, rpc, never] = &outcome.flows[..] else { panic!("three flows") };
    assert_eq!(bulk.stopped_at, stop);
    assert!(rpc.stopped_at >= stop && rpc.stopped_at < Some(at_ms(13)));
    assert_eq!((bulk.done_at, rpc.done_at, never.connected_at), (None, None, None));
    assert!(outcome.rpcs.iter().all(|rpc| rpc.start < at_ms(10)));
    let late = outcome.goodput_samples.iter().filter(|sample| sample.at > at_ms(14));
    assert_eq!(late.map(|sample| sample.bytes).sum::<u64>(), 0);
}

#[test]
fn a_first_write_may_wait() {
    let path = Path::new(us(100));
    let first_write = Some(at_ms(50));
    let peer_cc = Some(Cc::by_name("cubic").expect("it is there"));
    let flow = one(&path, Flow { first_write, peer_cc, ..path.bulk("reno", 1000) });
    assert_eq!(flow.established_at, Some(at_us(100)));
    assert_eq!(flow.done_at, Some(at_ms(50)));
    assert_eq!(flow.connected_at, Some(Time::ZERO));
}

#[test]
fn reordering_makes_needless_retransmissions_and_their_reports_undo_the_reduction() {
    let undone = (1..=10).map(|seed| {
        let path = Path { jitter: ms(4), rate: mbps(100), ..Path::new(ms(20)) };
        let run = Run { seed, ..path.run(vec![path.bulk("cubic", 3_000_000)]) };
        let flow = simulate(&run).flows.remove(0);
        let counters = flow.counters.complete().expect("all are known");
        assert_eq!((flow.received_bytes, counters.timeouts), (3_000_000, 0), "seed {seed}");
        assert!(counters.fast_recoveries < 20, "seed {seed}: {flow:?}");
        counters.undos
    });
    let undone: u64 = undone.sum();
    assert!(undone >= 10, "{undone}");
}
