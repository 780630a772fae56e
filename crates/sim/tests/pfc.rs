//! IEEE 802.1Qbb: a class is stopped while others go on, loses nothing with enough headroom, and who is stopped holds up nobody
//! outside of it.

use crate::common::*;
use knee_queue::time::Duration;
use knee_queue::{
    ClassConfig, ClassService, ClassesConfig, CodelConfig, Condition, DualPi2Config,
    DynamicThresholdConfig, Ecn, FqCodelConfig, Limit, LimitPer, NotEctAbove, PieConfig,
    QueueConfig, TwoBuffersConfig,
};
use knee_run::outcome::{Outcome, PauseOutcome, QueueOutcome};
use knee_run::spec::{
    Flow, FlowControl, Network, NodeId, Ping, Run, Sampling, Serialisation, SharedBuffer,
    StoppedClass, Stops, Thresholds,
};
use knee_run::topology::{Cable, Dumbbell, Star};

/// Of the class that may not lose packets.
const STORAGE: u8 = 1;
/// Its number in the queues here, and that of all else.
const STORAGE_PART: u32 = 0;
const REST_PART: u32 = 1;

fn class(name: &str, dscps: Option<u64>, queue: QueueConfig) -> ClassConfig {
    ClassConfig {
        name: name.to_owned(),
        condition: Condition { dscps, ..Condition::default() },
        service: ClassService::Weighted(1),
        queue,
    }
}

fn classes(classes: Vec<ClassConfig>) -> QueueConfig {
    QueueConfig::Classes(ClassesConfig { classes, quantum_bytes: FULL })
}

/// DSCP 1 and all else, in turns.
fn two(storage: QueueConfig, rest: QueueConfig) -> QueueConfig {
    classes(vec![class("storage", Some(1 << STORAGE), storage), class("rest", None, rest)])
}

fn port(rate_mbps: u64, queue: QueueConfig) -> Cable {
    Cable {
        rate: Some(mbps(rate_mbps)),
        serialisation: Serialisation::StoreAndForward,
        queue,
        sampled: true,
        ..wire(us(10))
    }
}

fn hosts(prefix: &str, count: u32) -> Vec<(String, knee_run::spec::HostConfig)> {
    (0..count).map(|i| (format!("{prefix}{i}"), host())).collect()
}

/// Hosts at 1 Gbps around a switch; its ports have this queue.
fn star(count: u32, queue: QueueConfig) -> Network {
    let up = port(1000, two(endless(), endless()));
    Star { hosts: hosts("h", count), up, down: port(1000, queue) }.build()
}

fn stopped(name: &str, xoff_bytes: u64, xon_bytes: u64) -> StoppedClass {
    StoppedClass { name: name.to_owned(), thresholds: Thresholds { xoff_bytes, xon_bytes } }
}

fn flow_control(stops: Stops) -> FlowControl {
    FlowControl { switches: None, stops, reaction: us(1), quanta: 65_535, lossless: true }
}

/// The class storage is stopped.
fn pfc(xoff_bytes: u64, xon_bytes: u64) -> FlowControl {
    flow_control(Stops::Classes(vec![stopped("storage", xoff_bytes, xon_bytes)]))
}

/// Whole links are.
fn pause(xoff_bytes: u64, xon_bytes: u64) -> FlowControl {
    flow_control(Stops::Links(Thresholds { xoff_bytes, xon_bytes }))
}

fn with(mut network: Network, spec: FlowControl) -> Network {
    network.flow_control = Some(spec);
    network
}

/// Gives a link another rate.
fn slow(mut network: Network, link: &str, rate_mbps: u64) -> Network {
    let id = network.link_named(link).expect("a link");
    let link = &mut network.links[id as usize];
    link.rate = Some(mbps(rate_mbps));
    network
}

/// The figures of a link, or of a class of it.
fn queue<'a>(
    network: &Network,
    outcome: &'a Outcome,
    link: &str,
    part: Option<u32>,
) -> &'a QueueOutcome {
    let index = network.link_named(link).expect("a link");
    let is_it = |queue: &&QueueOutcome| queue.link == index && queue.part == part;
    outcome.queues.iter().find(is_it).expect("it is sampled")
}

fn bulk(cc: &str, (from, to): (NodeId, NodeId), dscp: u8) -> Flow {
    Flow { from, to, dscp, peer_dscp: dscp, ..Path::new(us(100)).bulk(cc, None) }
}

fn run(network: &Network, flows: Vec<Flow>, until_ms: u64) -> Run {
    Run {
        end: at_ms(until_ms),
        network: network.clone(),
        sampling: Sampling {
            queues: Some(us(100)),
            flows: Some(ms(1)),
            goodput: Some(ms(10)),
            ..Sampling::default()
        },
        ..Path::new(us(100)).run(flows)
    }
}

fn received(outcome: &Outcome) -> Vec<u64> {
    outcome.flows.iter().map(|flow| flow.received_bytes).collect()
}

fn burst(from: NodeId, to: NodeId, dscp: u8, packets: usize, at: Duration) -> Vec<Ping> {
    let ping = Ping {
        from,
        to,
        start: at_us(0) + at,
        interval: ms(100),
        wire_bytes: FULL,
        ecn: Ecn::NotEct,
        dscp,
        one_way_until: None,
    };
    vec![ping; packets]
}

#[test]
fn a_class_waits_for_as_long_as_the_frames_say_and_another_does_not() {
    // As in tests/pause.rs: the fourth packet of storage is the third that waits at the slow port, from 58.448 us on; told
    // 11.48 us later, the host has begun its sixth packet. The fifth leaves the port at 506.592 us. (All times after 100 ms.)
    let network = slow(star(3, two(endless(), endless())), "switch-h1", 100);
    let network = with(network, pfc(5 * u64::from(FULL) / 2, u64::from(FULL)));
    let mut pings = burst(0, 1, STORAGE, 7, us(0));
    // Of the other class, to another port, at 130 us, when storage waits, and no echo of it is on its way to the host.
    pings.extend(burst(0, 2, 0, 3, us(130)));
    let outcome = simulate(&Run { end: at_ms(199), pings, ..run(&network, Vec::new(), 199) });
    let of = |part| queue(&network, &outcome, "h0-switch", part).pause;
    let paused = Duration::from_ns(518_072 - 69_928);
    assert_eq!(of(Some(STORAGE_PART)), Some(PauseOutcome { frames: 1, paused }));
    // It is neither the link's pause nor the other class's.
    assert_eq!((of(None), of(Some(REST_PART))), (None, None));
    let rtt = |index: usize| outcome.pings[index].rtt.expect("it comes back").ns();
    // The seventh of storage is begun at 518.072 us.
    assert_eq!(rtt(6), 627_712 + 2 * 121_120 + 10_000 + 2 * 22_112);
    // The others go as if they were alone: four links of 12.112 + 10 us, one behind the other.
    assert_eq!([7, 8, 9].map(rtt), [0, 1, 2].map(|before| 4 * 22_112 + before * 12_112));
}

/// One host sends storage to a host with a tenth of its rate, and other packets to a third host.
fn one_slow_receiver(spec: Option<FlowControl>) -> (Vec<u64>, Outcome, Network) {
    let mut network = slow(star(3, two(endless(), endless())), "switch-h1", 100);
    network.flow_control = spec;
    let flows = vec![bulk("cubic", (0, 1), STORAGE), bulk("cubic", (0, 2), 0)];
    let outcome = simulate(&run(&network, flows, 300));
    (received(&outcome), outcome, network)
}

#[test]
fn a_stopped_class_leaves_the_link_to_others() {
    // 300 ms at 1 Gbps are 37.5 MB on the wire, at 100 Mbps 3.75.
    let (bytes, outcome, network) = one_slow_receiver(Some(pfc(50_000, 25_000)));
    assert!((3_200_000..3_600_000).contains(&bytes[0]), "{bytes:?}");
    assert!(bytes[1] > 31_500_000, "{bytes:?}");
    let storage =
        queue(&network, &outcome, "h0-switch", Some(STORAGE_PART)).pause.expect("stopped");
    // It may send for a tenth of the time, or less where the other class has its turns.
    assert!(storage.frames > 10 && storage.paused > ms(150), "{storage:?}");
    assert_eq!(queue(&network, &outcome, "switch-h1", Some(STORAGE_PART)).dropped_pkts(), 0);
    // With pauses of the link, the other waits whenever storage does.
    let (bytes, ..) = one_slow_receiver(Some(pause(50_000, 25_000)));
    assert!(bytes[1] < 10_000_000, "{bytes:?}");
}

/// Two hosts of each class send to one port.
fn incast(limit: u64, spec: Option<FlowControl>) -> (Network, Result<Outcome, knee_run::Error>) {
    let rest = droptail(Limit::Bytes(100_000));
    let mut network = star(5, two(droptail(Limit::Bytes(limit)), rest));
    network.flow_control = spec;
    let flow = |(from, dscp)| bulk("cubic", (from, 4), dscp);
    let flows = [(0, STORAGE), (1, STORAGE), (2, 0), (3, 0)].map(flow).to_vec();
    let outcome = knee_sim::simulate(&run(&network, flows, 100));
    (network, outcome)
}

/// As in tests/pause.rs, 27227 B for an input: but here there are four.
const NEEDED: u64 = 4 * (20_000 + 1514 + 5713);

#[test]
fn the_class_loses_nothing_with_its_headroom_and_the_other_does() {
    let (network, outcome) = incast(NEEDED, Some(pfc(20_000, 10_000)));
    let outcome = outcome.expect("it holds enough");
    let port = |part| queue(&network, &outcome, "switch-h4", Some(part));
    assert_eq!(port(STORAGE_PART).dropped_pkts(), 0);
    assert!(port(REST_PART).dropped_full_pkts > 0);
    // Each has half of the port: 6.25 MB.
    let bytes = [port(STORAGE_PART).sent_bytes, port(REST_PART).sent_bytes];
    assert!(bytes.iter().all(|bytes| (5_800_000..6_700_000).contains(bytes)), "{bytes:?}");
    // Storage's hosts are stopped, the others never are.
    let frames = |link| queue(&network, &outcome, link, Some(STORAGE_PART)).pause.map(|p| p.frames);
    assert!(frames("h0-switch") > Some(50) && frames("h1-switch") > Some(50));
    assert_eq!((frames("h2-switch"), frames("h3-switch")), (Some(0), Some(0)));
    let retransmits = |flow: usize| {
        outcome.flows[flow].counters.complete().expect("all are known").retransmitted_segs
    };
    assert_eq!([retransmits(0), retransmits(1)], [0, 0]);
    assert!(retransmits(2) + retransmits(3) > 0);

    // The same queue overflows without.
    let (network, outcome) = incast(NEEDED, None);
    let outcome = outcome.expect("it is a network");
    assert!(queue(&network, &outcome, "switch-h4", Some(STORAGE_PART)).dropped_full_pkts > 0);
}

#[test]
fn the_class_is_what_must_have_room() {
    let (_, refused) = incast(NEEDED - 1, Some(pfc(20_000, 10_000)));
    let message = refused.expect_err("it is unsafe").to_string();
    assert!(message.contains("108908 bytes may queue at switch-h0/storage"), "{message}");
    assert!(message.contains("holds 108907") && message.contains("5713"), "{message}");
    // A second class may have its pause frame before: 60 bytes' time more.
    let both = vec![stopped("storage", 20_000, 10_000), stopped("rest", 10_000, 0)];
    let (_, refused) = incast(NEEDED, Some(flow_control(Stops::Classes(both))));
    let message = refused.expect_err("it is unsafe").to_string();
    assert!(message.contains(" 5773 in flight"), "{message}");
}

/// s0 sends storage to r0, whose port has a tenth of the rate of all others, and s1 other packets to r1, s2 storage to r2.
fn two_switches(spec: FlowControl) -> (Vec<u64>, Outcome, Network) {
    let all = || port(1000, two(endless(), endless()));
    let network = Dumbbell {
        senders: hosts("s", 3),
        receivers: hosts("r", 3),
        sender_up: all(),
        sender_down: all(),
        bottleneck: all(),
        back: all(),
        receiver_down: all(),
        receiver_up: all(),
    }
    .build();
    let network = with(slow(network, "right-r0", 100), spec);
    let flows = [(0, 3, STORAGE), (1, 4, 0), (2, 5, STORAGE)];
    let flows = flows.map(|(from, to, dscp)| bulk("cubic", (from, to), dscp)).to_vec();
    let outcome = simulate(&run(&network, flows, 400));
    (received(&outcome), outcome, network)
}

#[test]
fn what_a_slow_receiver_stops_spreads_within_its_class_alone() {
    // 400 ms at 1 Gbps are 50 MB on the wire. With pauses of links all packets stand behind those for the slow port.
    let (bytes, outcome, network) = two_switches(pause(50_000, 25_000));
    assert!(bytes[1] < 15_000_000, "{bytes:?}");
    let of_link = queue(&network, &outcome, "s1-left", None).pause.expect("it is stopped");
    assert!(of_link.paused > ms(200), "{of_link:?}");

    let (bytes, outcome, network) = two_switches(pfc(50_000, 25_000));
    assert!(bytes[1] > 35_000_000, "{bytes:?}");
    // Storage for another receiver waits behind it all the same: the class is one.
    assert!(bytes[2] < 10_000_000, "{bytes:?}");
    for link in ["left-right", "s0-left", "s2-left"] {
        let storage = queue(&network, &outcome, link, Some(STORAGE_PART)).pause.expect("stopped");
        assert!(storage.frames > 0 && storage.paused > ms(100), "{link}: {storage:?}");
    }
    let beside = queue(&network, &outcome, "s1-left", Some(STORAGE_PART)).pause;
    assert_eq!(beside, Some(PauseOutcome::default()));
}

#[test]
fn each_class_has_its_own_thresholds() {
    let both = vec![stopped("storage", 50_000, 25_000), stopped("rest", 100_000, 50_000)];
    let network = slow(star(3, two(endless(), endless())), "switch-h2", 100);
    let network = with(network, flow_control(Stops::Classes(both)));
    let flows = vec![bulk("cubic", (0, 2), STORAGE), bulk("cubic", (1, 2), 0)];
    let outcome = simulate(&run(&network, flows, 300));
    let longest = |part| {
        let port = queue(&network, &outcome, "switch-h2", Some(part)).link;
        let samples = outcome.queue_samples.iter();
        let of_part = samples.filter(|sample| (sample.link, sample.part) == (port, Some(part)));
        of_part.map(|sample| sample.len_bytes).max().expect("samples")
    };
    // XOFF, a frame over it, and less than the headroom of both.
    assert!((50_000..57_500).contains(&longest(STORAGE_PART)), "{}", longest(STORAGE_PART));
    assert!((100_000..107_500).contains(&longest(REST_PART)), "{}", longest(REST_PART));
    let frames = |link, part| queue(&network, &outcome, link, Some(part)).pause.map(|p| p.frames);
    assert!(frames("h0-switch", STORAGE_PART) > Some(0));
    assert_eq!(frames("h0-switch", REST_PART), Some(0));
    assert!(frames("h1-switch", REST_PART) > Some(0));
    assert_eq!(frames("h1-switch", STORAGE_PART), Some(0));
}

#[test]
fn pauses_of_classes_that_never_come_change_nothing() {
    let flows = || {
        let flow = |i: u32| Flow {
            start: at_us(u64::from(i) * 7),
            traffic: knee_run::spec::Traffic::Bulk { bytes: Some(500_000 + u64::from(i)) },
            ..bulk(if i % 2 == 0 { "cubic" } else { "dctcp" }, (i % 3, 3), (i % 4 / 2) as u8)
        };
        (0..8).map(flow).collect()
    };
    let queue = || droptail(Limit::Pkts(30));
    let network = star(4, two(queue(), queue()));
    let figures = |network: &Network| {
        let outcome = simulate(&run(network, flows(), 3000));
        assert!(outcome.flows.iter().all(|flow| flow.done_at.is_some()));
        let queues =
            outcome.queues.iter().map(|queue| QueueOutcome { pause: None, ..queue.clone() });
        let queues: Vec<_> = queues.map(|queue| format!("{queue:?}")).collect();
        outcome.flows.iter().map(|flow| format!("{flow:?}")).chain(queues).collect::<Vec<_>>()
    };
    // Flow control counts packets of hosts' links as waiting until they go, as classes do anyway.
    let never = FlowControl { lossless: false, ..pfc(1 << 40, 0) };
    let (without, with) = (figures(&network), figures(&with(network.clone(), never)));
    assert!(without.iter().any(|figure| figure.contains("dropped_full_pkts: 1")), "{without:?}");
    assert_eq!(without, with);
}

/// Five switches in a ring; each host sends two switches on, both classes, so that each link has twice what it can carry, and each
/// switch waits for the next.
fn ring() -> Network {
    let mut network = Network::default();
    let of_class = || two(endless(), endless());
    let hosts: Vec<_> = (0..5).map(|i| network.host(format!("h{i}"), host())).collect();
    let switches: Vec<_> = (0..5).map(|i| network.switch(format!("w{i}"))).collect();
    for i in 0..5 {
        for (one, other) in [(hosts[i], switches[i]), (switches[i], switches[(i + 1) % 5])] {
            network.link(one, other, port(1000, of_class()));
            network.link(other, one, port(1000, of_class()));
        }
    }
    network
}

/// As they stand after so long: what each flow of a class has received.
fn around_the_ring(until_ms: u64) -> (Vec<u64>, Vec<u64>, Outcome) {
    let network = with(ring(), pfc(30_000, 15_000));
    let flow = |dscp| move |i: u32| bulk("cubic", (i, (i + 2) % 5), dscp);
    let flows = (0..5).map(flow(STORAGE)).chain((0..5).map(flow(0))).collect();
    let outcome = simulate(&run(&network, flows, until_ms));
    let mut bytes = received(&outcome);
    let rest = bytes.split_off(5);
    (bytes, rest, outcome)
}

#[test]
fn switches_that_wait_for_each_other_in_a_ring_wait_for_ever_and_the_run_ends() {
    let (early, early_rest, outcome) = around_the_ring(300);
    let (late, late_rest, _) = around_the_ring(600);
    assert_eq!(early, late, "no byte of storage moves any more");
    assert!(late_rest.iter().zip(&early_rest).all(|(late, early)| *late > early + 5_000_000));
    // Pauses are told again every 16.8 ms, and that is all that it takes.
    let stood: u64 = outcome.queues.iter().filter_map(|queue| queue.pause).map(|p| p.frames).sum();
    assert!((50..50_000).contains(&stood), "{stood}");
}

#[test]
fn the_same_run_is_the_same() {
    let all = |outcome: Outcome| {
        let flows: Vec<_> = outcome.flows.iter().map(|flow| format!("{flow:?}")).collect();
        let queues: Vec<_> = outcome.queues.iter().map(|queue| format!("{queue:?}")).collect();
        let samples: Vec<_> =
            outcome.queue_samples.iter().map(|sample| format!("{sample:?}")).collect();
        (flows, queues, samples)
    };
    assert_eq!(all(around_the_ring(50).2), all(around_the_ring(50).2));
}

#[test]
fn classes_that_cannot_be_stopped_are_refused_in_a_sentence() {
    let error = |change: &dyn Fn(&mut Network)| {
        let mut network = with(star(3, two(endless(), endless())), pfc(20_000, 10_000));
        change(&mut network);
        let run = run(&network, vec![bulk("reno", (0, 2), STORAGE)], 10);
        knee_sim::simulate(&run).expect_err("it must be refused").to_string()
    };
    let spec = |stops: Vec<StoppedClass>| {
        error(&|network| network.flow_control = Some(flow_control(Stops::Classes(stops.clone()))))
    };
    let one = || stopped("storage", 20_000, 10_000);
    assert!(spec(vec![]).contains("1 to 8 classes can be paused, not 0"));
    assert!(spec(vec![one(); 9]).contains("not 9"));
    assert!(spec(vec![one(); 2]).contains("\"storage\" is named twice"));
    assert!(spec(vec![stopped("storage", 1, 2)]).contains("xon, 2 bytes"));
    let unknown = spec(vec![stopped("rdma", 2, 1)]);
    assert!(unknown.contains("the queue of h0-switch has no class \"rdma\""), "{unknown}");
    let host = error(&|network| network.links[0].queue = endless());
    assert!(host.contains("the queue of h0-switch has no class \"storage\""), "{host}");
    let other = classes(vec![class("storage", Some(4), endless()), class("rest", None, endless())]);
    let message = error(&|network| network.links[1].queue = other.clone());
    assert!(message.contains("\"storage\" takes different packets at switch-h0"), "{message}");
    // What is before it takes packets from it.
    let before = classes(vec![
        class("first", Some(6), endless()),
        class("storage", Some(2), endless()),
        class("rest", None, endless()),
    ]);
    assert!(
        error(&|network| network.links[1].queue = before.clone()).contains("different packets")
    );
}

#[test]
fn what_may_drop_early_is_not_lossless() {
    let check = |spec: FlowControl, queue: QueueConfig| {
        let network = with(star(3, queue), spec);
        let run = run(&network, vec![bulk("reno", (0, 2), STORAGE)], 10);
        knee_run::validate(&run).map_err(|error| error.to_string())
    };
    let refused = |spec, queue, because: &str| {
        let message = check(spec, queue).expect_err("it must be refused");
        assert!(message.contains(because) && message.contains("lossless = false"), "{message}");
    };
    let codel = || QueueConfig::Codel(CodelConfig::default());
    let early = "drops packets before it is full";
    refused(pause(20_000, 10_000), two(endless(), codel()), early);
    refused(pfc(20_000, 10_000), two(codel(), endless()), early);
    assert_eq!(check(pfc(20_000, 10_000), two(endless(), codel())), Ok(()));
    let drops = || marking(20, NotEctAbove::Drop);
    refused(pfc(20_000, 10_000), two(drops(), endless()), "not ECN-capable above K");
    assert_eq!(check(pfc(20_000, 10_000), two(marking(20, NotEctAbove::Queue), drops())), Ok(()));

    // 802.3x: any class may have all that waits. Of two buffers each has its own inputs, here one and (for the port to h0) two.
    let for_two = 2 * (20_000 + 1514 + 5713);
    let limited = |bytes| droptail(Limit::Bytes(bytes));
    assert_eq!(check(pause(20_000, 10_000), two(limited(for_two), limited(for_two))), Ok(()));
    refused(
        pause(20_000, 10_000),
        two(limited(for_two), limited(for_two - 1)),
        "may queue at switch-h0/rest",
    );
    let buffers = |second, limit_per, bytes| {
        let queue = QueueConfig::TwoBuffers(TwoBuffersConfig {
            second,
            second_names: Vec::new(),
            queue: Box::new(limited(bytes)),
            alternate: Default::default(),
            limit_per,
        });
        (queue.clone(), two(queue, endless()))
    };
    // Links into the switch have even numbers.
    let (alone, of_class) = buffers(vec![2], LimitPer::Buffer, for_two / 2);
    refused(pause(20_000, 10_000), alone, "may queue at switch-h1/first");
    refused(pfc(20_000, 10_000), of_class, "may queue at switch-h1/storage/first");
    let (alone, of_class) = buffers(vec![2], LimitPer::Port, for_two);
    assert_eq!(check(pause(20_000, 10_000), alone), Ok(()));
    assert_eq!(check(pfc(20_000, 10_000), of_class), Ok(()));
}

#[test]
fn shared_memory_must_have_room_beside_classes_that_are_not_stopped() {
    let inputs = 3 * (20_000 + 1514 + 5713);
    let check = |size_bytes, rest: QueueConfig| {
        let mut network = with(star(3, two(endless(), rest)), pfc(20_000, 10_000));
        // Links out of the switch have odd numbers.
        let law = DynamicThresholdConfig { size_bytes, alpha: 1.0, reserved_bytes: 0 };
        let links = vec![1, 3, 5];
        network.buffers =
            vec![SharedBuffer { name: "buffer".to_owned(), law, links, sampled: true }];
        let flows = vec![
            bulk("cubic", (0, 2), STORAGE),
            bulk("cubic", (1, 2), STORAGE),
            bulk("cubic", (0, 2), 0),
            bulk("cubic", (1, 2), 0),
        ];
        let outcome = knee_sim::simulate(&run(&network, flows, 100));
        outcome.map(|outcome| queue(&network, &outcome, "switch-h2", Some(STORAGE_PART)).clone())
    };
    // K < alpha / (1 + alpha) * (B - 3 * 50 kB) - 50 kB / (1 + alpha): B is twice K, and 200 kB.
    let rest = || droptail(Limit::Bytes(50_000));
    let storage = check(2 * inputs + 200_000, rest()).expect("it has room");
    assert!(storage.dropped_pkts() == 0 && storage.sent_pkts > 3000, "{storage:?}");
    let message = check(2 * inputs + 199_998, rest()).expect_err("a byte too little").to_string();
    assert!(message.contains("besides the 150000 of classes without flow control"), "{message}");
    // What holds packets may hold any number of bytes, whatever its kind.
    for rest in [
        droptail(Limit::Pkts(100)),
        QueueConfig::Pie(PieConfig::default()),
        QueueConfig::Codel(CodelConfig::default()),
        QueueConfig::FqCodel(FqCodelConfig::default()),
        QueueConfig::DualPi2(DualPi2Config::default()),
    ] {
        let message = check(1 << 30, rest).expect_err("unknown").to_string();
        assert!(message.contains("switch-h0/rest shares memory"), "{message}");
    }
}
