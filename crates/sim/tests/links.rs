//! Links and queues: when a packet arrives, what is marked, what is lost, which way it goes.

use crate::common::*;
use knee_queue::time::{Duration, Time};
use knee_queue::{Ecn, Limit, NotEctAbove, PieConfig, QueueConfig};
use knee_run::outcome::Outcome;
use knee_run::spec::{Flow, Network, NodeId, Ping, Run, Sampling, Serialisation};
use knee_run::topology::{Cable, LeafSpine, Star};

/// Pings that all leave at 1 ms, once.
fn at_once(from: NodeId, to: NodeId, wire_bytes: u32, ecn: Ecn, count: usize) -> Vec<Ping> {
    let interval = ms(1);
    vec![
        Ping {
            from,
            to,
            start: Time::ZERO,
            interval,
            wire_bytes,
            ecn,
            dscp: 0,
            one_way_until: None
        };
        count
    ]
}

fn ping(network: Network, pings: Vec<Ping>) -> Outcome {
    // The second of each would leave at 2 ms.
    let run = Run {
        seed: 1,
        end: Time::from_ps(at_ms(2).ps() - 1),
        until_done: false,
        network,
        flows: Vec::new(),
        pings,
        sampling: Sampling::default(),
        schedule: Default::default(),
    };
    simulate(&run)
}

fn rtts_ns(outcome: &Outcome) -> Vec<u64> {
    outcome.pings.iter().map(|ping| ping.rtt.expect("it comes back").ps() / 1000).collect()
}

/// Host 0, one link with this serialisation at 1 Gbps, host 1; nothing takes time on the way back.
fn pair(rate_mbps: u64, serialisation: Serialisation, queue: QueueConfig) -> Network {
    let mut network = Network::default();
    let (a, b) = (network.host("a", host()), network.host("b", host()));
    let rate = Some(mbps(rate_mbps));
    network.link(a, b, Cable { rate, serialisation, queue, sampled: true, ..wire(Duration::ZERO) });
    network.link(b, a, wire(Duration::ZERO));
    network
}

fn bucket(burst_bytes: u32) -> Serialisation {
    Serialisation::TokenBucket { burst_bytes }
}

#[test]
fn a_packet_that_goes_one_way_is_kept_and_the_stream_ends_before_its_time() {
    let network = pair(1000, Serialisation::StoreAndForward, droptail(Limit::Pkts(10)));
    let stop = Time::from_ps(at_ms(1).ps() + 1);
    let stream = Ping {
        interval: us(250),
        one_way_until: Some(stop),
        ..at_once(0, 1, FULL, Ecn::NotEct, 1)[0].clone()
    };
    let gone = Ping { one_way_until: Some(at_ms(1)), ..stream.clone() };
    let outcome = ping(network, vec![stream, gone]);
    let of = |stream: u32| outcome.pings.iter().filter(move |packet| packet.ping == stream);
    // At 250, 500, 750 and 1000 us; the other one has nothing at its end.
    assert_eq!((of(0).count(), of(1).count()), (4, 3));
    // 1514 * 8 ns, the second one behind the first, and nothing back.
    assert!(of(0).all(|packet| packet.rtt == Some(Duration::from_ns(12_112))));
    assert!(of(1).all(|packet| packet.rtt == Some(Duration::from_ns(2 * 12_112))));
}

#[test]
fn store_and_forward_serialises_a_packet_on_every_link() {
    let cable = Cable {
        rate: Some(mbps(1000)),
        serialisation: Serialisation::StoreAndForward,
        ..wire(us(25))
    };
    let hosts = vec![("a".to_owned(), host()), ("b".to_owned(), host())];
    let network = Star { hosts, up: cable.clone(), down: cable }.build();
    let outcome = ping(network, at_once(0, 1, FULL, Ecn::NotEct, 1));
    // 4 links of 1514 * 8 ns + 25 us.
    assert_eq!(rtts_ns(&outcome), [4 * (12_112 + 25_000)]);
}

#[test]
fn packets_of_a_burst_follow_each_other_at_the_rate_of_the_port() {
    // 1514 bytes take 1211.2 ns at 10 Gbps.
    let network = pair(10_000, Serialisation::StoreAndForward, endless());
    let outcome = ping(network, at_once(0, 1, FULL, Ecn::NotEct, 100));
    let rtts: Vec<u64> = outcome.pings.iter().map(|p| p.rtt.expect("it arrives").ps()).collect();
    let expected: Vec<u64> = (1..=100).map(|k| k * 1_211_200).collect();
    assert_eq!(rtts, expected);
}

#[test]
fn an_idle_token_bucket_adds_no_delay_and_spaces_what_follows() {
    // Whole ns: 1211 at 10 Gbps, so such a link runs 0.02 % fast (queues.md sec. 14).
    let outcome =
        ping(pair(10_000, bucket(FULL), endless()), at_once(0, 1, FULL, Ecn::NotEct, 100));
    let expected: Vec<u64> = (0..100).map(|k| k * 1211).collect();
    assert_eq!(rtts_ns(&outcome), expected);
}

#[test]
fn a_deeper_bucket_lets_the_second_packet_go_early() {
    // 1600 bytes of tokens: after the first 86 are left, worth 688 ns at 1 Gbps.
    let outcome = ping(pair(1000, bucket(1600), endless()), at_once(0, 1, FULL, Ecn::NotEct, 3));
    assert_eq!(rtts_ns(&outcome), [0, 12_112 - 688, 2 * 12_112 - 688]);
}

#[test]
fn a_packet_waits_for_its_own_tokens_not_for_those_of_the_one_before() {
    let mut pings = at_once(0, 1, FULL, Ecn::NotEct, 1);
    pings.extend(at_once(0, 1, 66, Ecn::NotEct, 1));
    pings.extend(at_once(0, 1, FULL, Ecn::NotEct, 1));
    let outcome = ping(pair(1000, bucket(FULL), endless()), pings);
    assert_eq!(rtts_ns(&outcome), [0, 66 * 8, 66 * 8 + 12_112]);
}

#[test]
fn a_full_buffer_drops_what_comes_and_every_packet_is_accounted_for() {
    // The first leaves at once, 5 wait, 4 are lost.
    for limit in [Limit::Pkts(5), Limit::Bytes(5 * u64::from(FULL))] {
        let network = pair(1000, bucket(FULL), droptail(limit));
        let outcome = ping(network, at_once(0, 1, FULL, Ecn::Ect0, 10));
        let queue = &outcome.queues[0];
        assert_eq!((queue.offered_pkts, queue.sent_pkts, queue.dropped_full_pkts), (10, 6, 4));
        let came_back = outcome.pings.iter().filter(|ping| ping.rtt.is_some()).count();
        assert_eq!(came_back, 6);
    }
}

#[test]
fn a_step_marker_marks_what_finds_k_packets_waiting() {
    // Of 10, the first leaves; the others find 0 to 8 waiting: 5 of them 4 or more.
    let network = pair(1000, bucket(FULL), marking(4, NotEctAbove::Queue));
    let queue = ping(network, at_once(0, 1, FULL, Ecn::Ect0, 10)).queues.remove(0);
    assert_eq!((queue.marked_pkts, queue.threshold_hits, queue.dropped_pkts()), (5, Some(5), 0));
    // The same without ECT: counted, and queued or dropped. Dropped ones do not make the queue longer.
    let network = pair(1000, bucket(FULL), marking(4, NotEctAbove::Queue));
    let queue = ping(network, at_once(0, 1, FULL, Ecn::NotEct, 10)).queues.remove(0);
    assert_eq!((queue.marked_pkts, queue.threshold_hits, queue.dropped_pkts()), (0, Some(5), 0));
    let network = pair(1000, bucket(FULL), marking(4, NotEctAbove::Drop));
    let queue = ping(network, at_once(0, 1, FULL, Ecn::NotEct, 10)).queues.remove(0);
    assert_eq!((queue.marked_pkts, queue.dropped_not_ect_pkts, queue.sent_pkts), (0, 5, 5));
}

#[test]
fn jitter_delays_and_reorders_but_loses_nothing() {
    let mut network = Network::default();
    let (a, b) = (network.host("a", host()), network.host("b", host()));
    network.link(a, b, Cable { jitter: us(100), ..wire(us(50)) });
    network.link(b, a, wire(Duration::ZERO));
    let outcome = ping(network, at_once(0, 1, FULL, Ecn::NotEct, 1000));
    let rtts = rtts_ns(&outcome);
    assert_eq!(rtts.len(), 1000);
    assert!(rtts.iter().all(|rtt| (50_000..=150_000).contains(rtt)));
    // Uniform: a mean of 100 us, with a standard error of 100 us / sqrt(12 * 1000) = 0.9 us.
    let mean = rtts.iter().sum::<u64>() / 1000;
    assert!((95_000..105_000).contains(&mean), "{mean}");
    assert!(rtts.windows(2).any(|pair| pair[0] > pair[1]));
}

#[test]
fn random_loss_comes_before_the_queue_and_as_often_as_asked() {
    let mut network = Network::default();
    let (a, b) = (network.host("a", host()), network.host("b", host()));
    let lossy = Cable { rate: Some(mbps(100_000)), loss: 0.1, sampled: true, ..wire(us(1)) };
    network.link(a, b, lossy);
    network.link(b, a, wire(Duration::ZERO));
    let outcome = ping(network, at_once(0, 1, 100, Ecn::NotEct, 10_000));
    let queue = &outcome.queues[0];
    // 1000 with a standard deviation of 30.
    assert!((850..=1150).contains(&queue.lost_pkts), "{queue:?}");
    assert_eq!(queue.offered_pkts + queue.lost_pkts, 10_000);
    assert_eq!(queue.sent_pkts, queue.offered_pkts);
}

#[test]
fn copies_come_before_the_queue_as_often_as_asked_and_every_byte_arrives_once() {
    let path = Path::new(us(100));
    let mut run = Run { end: at_ms(10_000), ..path.run(vec![path.bulk("reno", 15_000_000)]) };
    let bottleneck = run.network.links.iter().position(|link| link.sampled).expect("it is there");
    run.network.links[bottleneck].duplicate = 0.1;
    let outcome = simulate(&run);
    let (flow, queue) = (&outcome.flows[0], &outcome.queues[0]);
    assert!(flow.done_at.is_some() && flow.received_bytes == 15_000_000, "{flow:?}");
    let sent = flow.counters.complete().expect("all are known").data_segs_sent;
    let copies = queue.offered_pkts - sent;
    // 1040 of 10,400 segments, with a standard deviation of 31.
    assert!((900..1300).contains(&copies), "{copies} of {sent}: {queue:?}");
}

/// ACKs come faster than the way back carries them. Thinned out, they wait for one before them at most, and none is lost.
#[test]
fn a_pure_ack_takes_the_place_of_one_that_waits() {
    let path = Path::new(us(100));
    let run = |thins_acks| {
        let mut run = Run { end: at_ms(20_000), ..path.run(vec![path.bulk("reno", 5_000_000)]) };
        let links = &mut run.network.links;
        let back = links.iter().position(|link| link.from == path.receiver_id());
        let back = back.expect("it is there");
        links[back].rate = Some(mbps(1));
        links[back].queue = droptail(Limit::Pkts(10_000));
        links[back].thins_acks = thins_acks;
        links[back].sampled = true;
        let outcome = simulate(&run);
        let flow = outcome.flows[0].clone();
        assert_eq!(flow.received_bytes, 5_000_000);
        let counters = flow.counters.complete().expect("all are known");
        assert!(!thins_acks || (counters.timeouts, counters.retransmitted_segs) == (0, 0));
        let queue =
            outcome.queues.iter().find(|queue| queue.link as usize == back).expect("sampled");
        (flow.done_at.expect("it is done"), queue.clone())
    };
    let ((slow, all), (fast, thinned)) = (run(false), run(true));
    assert_eq!((all.lost_pkts, all.dropped_pkts(), thinned.dropped_pkts()), (0, 0, 0));
    // 66 bytes take 528 us at 1 Mbps. Without thinning, the sender waits for 1,700 of them.
    assert!(slow > at_ms(500), "{slow}");
    assert!(fast < at_ms(300), "{fast}");
    assert!(thinned.lost_pkts > 1000, "{thinned:?}");
    assert!(thinned.offered_pkts < all.offered_pkts / 2, "{thinned:?}, {all:?}");
}

#[test]
fn every_host_of_a_leaf_spine_reaches_every_other_by_the_shortest_way() {
    let (leaves, spines, hosts_per_leaf) = (3, 2, 3);
    let cable = |delay| Cable { sampled: true, ..wire(delay) };
    let network = LeafSpine {
        leaves,
        spines,
        hosts_per_leaf,
        host: host(),
        host_up: cable(us(1)),
        host_down: cable(us(1)),
        fabric: cable(us(10)),
    }
    .build();
    let n = leaves * hosts_per_leaf;
    let pairs = (0..n).flat_map(|a| (0..n).map(move |b| (a, b))).filter(|(a, b)| a != b);
    let pings = pairs.clone().flat_map(|(a, b)| at_once(a, b, 100, Ecn::NotEct, 1)).collect();
    let outcome = ping(network, pings);
    for ((a, b), rtt) in pairs.zip(rtts_ns(&outcome)) {
        // Four host links; across leaves also two fabric links each way.
        let same_leaf = a / hosts_per_leaf == b / hosts_per_leaf;
        assert_eq!(rtt, if same_leaf { 4_000 } else { 44_000 }, "{a} to {b}");
    }
}

#[test]
fn flows_spread_over_the_spines() {
    let fabric = Cable { rate: Some(mbps(1000)), sampled: true, ..wire(us(10)) };
    let network = LeafSpine {
        leaves: 2,
        spines: 4,
        hosts_per_leaf: 1,
        host: host(),
        host_up: wire(us(1)),
        host_down: wire(us(1)),
        fabric,
    }
    .build();
    let outcome = ping(network, at_once(0, 1, 100, Ecn::NotEct, 400));
    let mut carried: Vec<u64> = outcome.queues.iter().map(|queue| queue.sent_pkts).collect();
    // Each ping goes up one link and down another, and the same number on its way back: 8 of the 16
    // directed fabric links point each way, and each carries about 100 (standard deviation 9).
    carried.sort_unstable();
    assert_eq!(carried.iter().sum::<u64>(), 4 * 400);
    assert!(carried.iter().all(|&packets| (50..=150).contains(&packets)), "{carried:?}");
}

#[test]
fn runs_that_make_no_sense_are_refused_in_a_sentence() {
    let path = Path::new(us(100));
    let error = |change: &dyn Fn(&mut Run)| {
        let mut run = path.run(vec![path.bulk("reno", 1000)]);
        change(&mut run);
        knee_sim::simulate(&run).expect_err("it must be refused").to_string()
    };
    assert!(error(&|run| run.flows[0].to = 2).contains("must be hosts"));
    assert!(error(&|run| run.flows[0].to = 0).contains("itself"));
    assert!(error(&|run| run.network.links.truncate(1)).contains("no path from s0 to r"));
    assert!(error(&|run| run.network.links[0].loss = 1.5).contains("loss = 1.5"));
    assert!(error(&|run| run.network.links[0].duplicate = 1.5).contains("duplicate = 1.5"));
    let pie = QueueConfig::Pie(PieConfig::default());
    let thin = |run: &mut Run| {
        run.network.change_cables(|cable| {
            (cable.thins_acks, cable.queue) = (true, pie.clone());
            cable.rate = Some(mbps(1000));
        });
    };
    assert!(error(&thin).contains("thin_acks needs a queue that decides at arrival"));
    let small = Serialisation::TokenBucket { burst_bytes: 1500 };
    assert!(error(&|run| run.network.links[0].serialisation = small).contains("burst of 1500"));
}

/// Timeouts in 0.3 s of 32 flows that start within the first 10 ms into a queue of ten round trips, of eight hosts
/// whose links are as fast as the bottleneck; for five draws of the starts.
fn timeouts_of_a_full_queue(back_jitter: Duration) -> Vec<u64> {
    let rate = mbps(1000);
    let queue = droptail(Limit::Bytes(1_200_000));
    let path = Path { senders: 8, access: Some(rate), queue, back_jitter, ..Path::new(ms(1)) };
    let timeouts = |seed| {
        let mut chance = Chance::new(seed);
        let flow = |i: u32| Flow {
            from: i % 8,
            start: at_us(chance.below(10_000)),
            sampled: false,
            ..path.bulk("bic", None)
        };
        let flows = (0..32).map(flow).collect();
        let run = Run { seed, end: at_ms(300), ..path.run(flows) };
        simulate(&run)
            .flows
            .iter()
            .map(|flow| flow.counters.complete().expect("all are known").timeouts)
            .sum()
    };
    (1..=5).map(timeouts).collect()
}

/// A full queue has a place per packet time for whoever comes first in it. Without jitter everybody keeps the
/// moment within the packet time at which it comes, and some never get a place; with less jitter than two
/// packets take, they do. (The real stack has 3.6 timeouts there at 10 Gbps: `tests/reference/README.md`.)
#[test]
fn jitter_decides_anew_who_gets_the_place_in_a_full_queue() {
    let kept: u64 = timeouts_of_a_full_queue(Duration::ZERO).iter().sum();
    let drawn: u64 = timeouts_of_a_full_queue(us(20)).iter().sum();
    assert!(2 * drawn < kept, "{drawn} timeouts in five runs with jitter, {kept} without");
}
