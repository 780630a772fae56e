//! IEEE 802.3x: pauses come when they must, nothing is lost with enough headroom, and who is stopped holds up others.

use crate::common::*;
use knee_queue::time::{Duration, Time};
use knee_queue::{Ecn, Limit, QueueConfig};
use knee_run::outcome::{Outcome, PauseOutcome, QueueOutcome};
use knee_run::spec::{
    Defects, Flow, FlowControl, HostConfig, Network, NodeId, Ping, Run, Sampling, Schedule,
    Serialisation, Stops, Thresholds,
};
use knee_run::topology::{Cable, Dumbbell, Star};

fn port(rate_mbps: u64, queue: QueueConfig) -> Cable {
    Cable {
        rate: Some(mbps(rate_mbps)),
        serialisation: Serialisation::StoreAndForward,
        queue,
        sampled: true,
        ..wire(us(10))
    }
}

fn pauses(xoff_bytes: u64, xon_bytes: u64) -> FlowControl {
    let stops = Stops::Links(Thresholds { xoff_bytes, xon_bytes });
    FlowControl { switches: None, stops, reaction: us(1), quanta: 65_535, lossless: true }
}

fn hosts(prefix: &str, count: u32) -> Vec<(String, HostConfig)> {
    (0..count).map(|i| (format!("{prefix}{i}"), host())).collect()
}

/// Hosts at 1 Gbps around a switch; its ports have this queue.
fn star(count: u32, queue: QueueConfig) -> Network {
    Star { hosts: hosts("h", count), up: port(1000, endless()), down: port(1000, queue) }.build()
}

fn stopping(mut network: Network, spec: FlowControl) -> Network {
    network.flow_control = Some(spec);
    network
}

fn queue<'a>(network: &Network, outcome: &'a Outcome, link: &str) -> &'a QueueOutcome {
    let index = network.link_named(link).expect("a link");
    outcome.queues.iter().find(|queue| queue.link == index).expect("it is sampled")
}

/// So many full packets from host 0 to host 1, all at 1 ms.
fn burst(network: &Network, packets: usize) -> Outcome {
    let ping = Ping {
        from: 0,
        to: 1,
        start: Time::ZERO,
        interval: ms(100),
        wire_bytes: FULL,
        ecn: Ecn::NotEct,
        dscp: 0,
        one_way_until: None,
    };
    simulate(&Run {
        seed: 1,
        end: at_ms(199),
        until_done: false,
        network: network.clone(),
        flows: Vec::new(),
        pings: vec![ping; packets],
        sampling: Sampling::default(),
        schedule: Schedule::default(),
    })
}

/// Host 0 at 1 Gbps, host 1 behind a port of this rate.
fn slow_port(rate_mbps: u64, spec: FlowControl) -> Network {
    let mut network = star(2, endless());
    let slow = network.link_named("switch-h1").expect("the port");
    let slow = &mut network.links[slow as usize];
    slow.rate = Some(mbps(rate_mbps));
    stopping(network, spec)
}

#[test]
fn a_pause_begins_and_ends_when_the_frames_say() {
    // Packets come 12.112 us apart, from 22.112 us on. The first is sent on, the fourth is the third that waits: above
    // xoff at 58.448. Told 0.48 us (60 bytes) + 10 us + 1 us later, at 69.928, the host has begun its sixth packet, at
    // 60.56, and stops. Packets leave every 121.12 us; when the fifth does, at 506.592, one waits: xon, and 11.48 us
    // later the host goes on.
    let network = slow_port(100, pauses(5 * u64::from(FULL) / 2, u64::from(FULL)));
    let outcome = burst(&network, 7);
    let pause = queue(&network, &outcome, "h0-switch").pause;
    let paused = Duration::from_ns(518_072 - 69_928);
    assert_eq!(pause, Some(PauseOutcome { frames: 1, paused }));
    // The seventh packet comes to the switch at 540.184 us and waits behind the sixth, which is sent from 627.712 on. Its
    // echo comes back by two links of 12.112 + 10 us.
    let last = outcome.pings.last().and_then(|ping| ping.rtt).expect("it comes back");
    assert_eq!(last.ns(), 627_712 + 2 * 121_120 + 10_000 + 2 * 22_112);
    // Nothing is known of links that lead to hosts: these are never stopped.
    assert_eq!(queue(&network, &outcome, "switch-h1").pause, None);
}

#[test]
fn a_pause_is_told_again_for_as_long_as_it_must_last() {
    // 1000 quanta are 512 us at 1 Gbps, told again every 256 us, from 58.448 us until the fifth packet leaves at
    // 22.112 + 4 * 1211.2 us: 18 times.
    let spec = FlowControl {
        quanta: 1000,
        lossless: false,
        ..pauses(5 * u64::from(FULL) / 2, u64::from(FULL))
    };
    let network = slow_port(10, spec);
    let outcome = burst(&network, 7);
    let pause = queue(&network, &outcome, "h0-switch").pause;
    let paused = Duration::from_ns(4_866_912 + 11_480 - 69_928);
    assert_eq!(pause, Some(PauseOutcome { frames: 19, paused }));
}

fn bulk(cc: &str, from: NodeId, to: NodeId, bytes: impl Into<Option<u64>>) -> Flow {
    Flow { from, to, ..Path::new(us(100)).bulk(cc, bytes) }
}

fn run(network: &Network, flows: Vec<Flow>, until_ms: u64) -> Run {
    Run {
        end: at_ms(until_ms),
        network: network.clone(),
        sampling: Sampling { queues: Some(us(100)), flows: Some(ms(1)), ..Sampling::default() },
        ..Path::new(us(100)).run(flows)
    }
}

/// Two senders of these bytes each into one port that holds `limit` bytes.
fn two_into_one(limit: u64, spec: FlowControl) -> (Network, Result<Outcome, knee_run::Error>) {
    let network = stopping(star(3, droptail(Limit::Bytes(limit))), spec);
    let flows = vec![bulk("cubic", 0, 2, None), bulk("cubic", 1, 2, None)];
    let outcome = knee_sim::simulate(&run(&network, flows, 100));
    (network, outcome)
}

/// A frame that waits on the way back and the control frame, both delays and the reaction are 33.592 us, 4199 bytes at 1 Gbps,
/// and a frame that had been begun: 5713 B of headroom. With xoff and the frame over it that is 27227 B for each of two inputs.
const NEEDED: u64 = 2 * (20_000 + 1514 + 5713);

#[test]
fn nothing_is_lost_with_the_headroom_that_validation_asks_for() {
    let (network, outcome) = two_into_one(NEEDED, pauses(20_000, 10_000));
    let outcome = outcome.expect("it holds enough");
    let port = queue(&network, &outcome, "switch-h2");
    assert_eq!(port.dropped_pkts(), 0);
    // The port is busy all the time but for the first round trips.
    assert!(port.sent_bytes > 12_100_000, "{port:?}");
    let longest = outcome.queue_samples.iter().filter(|sample| sample.link == port.link);
    let longest = longest.map(|sample| sample.len_bytes).max().expect("samples");
    assert!((40_000..=NEEDED).contains(&longest), "{longest}");
    for link in ["h0-switch", "h1-switch"] {
        let pause = queue(&network, &outcome, link).pause.expect("it is stopped");
        assert!(pause.frames > 100 && pause.paused > ms(30), "{pause:?}");
    }
    assert!(
        outcome.flows.iter().all(|flow| {
            flow.counters.complete().expect("all are known").retransmitted_segs == 0
        })
    );
}

#[test]
fn too_little_headroom_is_named_and_loses_packets_if_it_is_wanted() {
    let (_, refused) = two_into_one(NEEDED - 1, pauses(20_000, 10_000));
    let message = refused.expect_err("it is unsafe").to_string();
    assert!(message.contains("54454 bytes may queue at switch-h0"), "{message}");
    assert!(message.contains("holds 54453") && message.contains("5713"), "{message}");
    let wanted = FlowControl { lossless: false, ..pauses(20_000, 10_000) };
    let (network, outcome) = two_into_one(40_000, wanted);
    let outcome = outcome.expect("it is wanted");
    assert!(queue(&network, &outcome, "switch-h2").dropped_full_pkts > 0);
}

/// Two switches with a cable of 1 Gbps and one of 10 Gbps. What waits at the fast port of one came by the slow cable, as
/// much as from a host in [`NEEDED`]; what comes back by the fast cable waits elsewhere.
#[test]
fn parallel_cables_each_have_their_own_headroom() {
    let mut network = Network::default();
    network.host("h", host());
    let (a, b) = (network.switch("a"), network.switch("b"));
    let fast = port(10_000, droptail(Limit::Bytes(1)));
    network.duplex(a, b, port(1000, endless()), port(1000, endless()));
    network.duplex(a, b, fast.clone(), fast);
    let network = stopping(network, pauses(20_000, 10_000));
    let refused = knee_sim::simulate(&run(&network, Vec::new(), 1));
    let message = refused.map(|_| ()).expect_err("it is unsafe").to_string();
    assert!(message.contains(&format!("{} bytes may queue at a-b,", NEEDED / 2)), "{message}");
}

#[test]
fn pauses_that_never_come_change_nothing() {
    let flows = || {
        (0..8)
            .map(|i| Flow {
                start: at_us(u64::from(i) * 7),
                ..bulk(if i % 2 == 0 { "cubic" } else { "dctcp" }, i % 3, 3, 500_000 + u64::from(i))
            })
            .collect()
    };
    let network = star(4, droptail(Limit::Pkts(40)));
    let figures = |network: &Network| {
        let outcome = simulate(&run(network, flows(), 3000));
        assert!(outcome.flows.iter().all(|flow| flow.done_at.is_some()));
        let queues =
            outcome.queues.iter().map(|queue| QueueOutcome { pause: None, ..queue.clone() });
        let queues: Vec<_> = queues.map(|queue| format!("{queue:?}")).collect();
        outcome.flows.iter().map(|flow| format!("{flow:?}")).chain(queues).collect::<Vec<_>>()
    };
    let never = FlowControl { lossless: false, ..pauses(1 << 40, 0) };
    let (without, with) = (figures(&network), figures(&stopping(network.clone(), never)));
    assert!(without.iter().any(|figure| figure.contains("dropped_full_pkts: 1")), "{without:?}");
    assert_eq!(without, with);
}

#[test]
fn a_stopped_host_keeps_few_packets_in_its_own_queue() {
    // The window grows until the end, and TCP small queues see to it that what does not fit into the network waits in
    // the socket: about 1 ms of the pacing rate, twice the rate of the port, is 165 packets.
    let network = stopping(star(3, endless()), pauses(50_000, 25_000));
    let flows = vec![bulk("reno", 0, 2, None), bulk("reno", 1, 2, None)];
    let outcome = simulate(&run(&network, flows, 1000));
    let longest = longest_pkts(&network, &outcome, "h0-switch");
    assert!((20..200).contains(&longest), "{longest}");
    assert_eq!(queue(&network, &outcome, "h0-switch").dropped_pkts(), 0);
    let goodput: u64 = outcome.flows.iter().map(|flow| flow.received_bytes).sum();
    assert!(goodput > 115_000_000, "{goodput}");
}

#[test]
fn without_small_queues_a_stopped_host_keeps_the_whole_window() {
    let defects = Defects { no_small_queues: true, ..Defects::default() };
    let old = || HostConfig { defects, sndbuf_max_bytes: Some(1 << 20), ..host() };
    let hosts = (0..3).map(|i| (format!("h{i}"), old())).collect();
    let star = Star { hosts, up: port(1000, endless()), down: port(1000, endless()) }.build();
    let network = stopping(star, pauses(50_000, 25_000));
    let flows = vec![bulk("reno", 0, 2, None), bulk("reno", 1, 2, None)];
    let outcome = simulate(&run(&network, flows, 1000));
    // A send buffer of 1 MiB is 474 packets of 1448 bytes with 768 beside each; some are on their way.
    let longest = longest_pkts(&network, &outcome, "h0-switch");
    assert!((400..475).contains(&longest), "{longest}");
}

fn longest_pkts(network: &Network, outcome: &Outcome, link: &str) -> u32 {
    let link = queue(network, outcome, link).link;
    let samples = outcome.queue_samples.iter().filter(|sample| sample.link == link);
    samples.map(|sample| sample.len_pkts).max().expect("samples")
}

/// Two senders and two receivers, of which r0 is behind a port of a tenth of the rate of all others; the ports to receivers have
/// this queue. Senders are nodes 0 and 1, receivers 2 and 3.
fn slow_receiver(queue: QueueConfig) -> Network {
    let mut network = Dumbbell {
        senders: hosts("s", 2),
        receivers: hosts("r", 2),
        sender_up: port(1000, endless()),
        sender_down: port(1000, endless()),
        bottleneck: port(1000, endless()),
        back: port(1000, endless()),
        receiver_down: port(1000, queue),
        receiver_up: port(1000, endless()),
    }
    .build();
    let slow = network.link_named("right-r0").expect("the port");
    let slow = &mut network.links[slow as usize];
    slow.rate = Some(mbps(100));
    network
}

fn node(network: &Network, name: &str) -> NodeId {
    network.nodes.iter().position(|node| node.name == name).expect("a node") as NodeId
}

#[test]
fn a_switch_that_alone_stops_links_stops_the_other_and_no_host() {
    let network = |switch: &str| {
        let network = slow_receiver(endless());
        let switches = Some(vec![node(&network, switch)]);
        stopping(network, FlowControl { switches, ..pauses(50_000, 25_000) })
    };
    // Reno's slow start goes on, since nothing is lost.
    let outcome = |network: &Network| simulate(&run(network, vec![bulk("reno", 0, 2, None)], 500));
    let right = network("right");
    let of_right = outcome(&right);
    let pause = queue(&right, &of_right, "left-right").pause.expect("it can be stopped");
    assert!(pause.frames > 0 && pause.paused > ms(100), "{pause:?}");
    for link in ["s0-left", "s1-left", "right-left", "right-r0"] {
        assert_eq!(queue(&right, &of_right, link).pause, None, "{link}");
    }
    // What right does not take waits in left, which stops nobody.
    assert!(longest_pkts(&right, &of_right, "left-right") > 200);
    assert!(longest_pkts(&right, &of_right, "right-r0") < 50);
    // Nothing waits in left, so that nothing is stopped if left alone does it.
    let left = network("left");
    let of_left = outcome(&left);
    assert_eq!(queue(&left, &of_left, "left-right").pause, None);
    let pause = queue(&left, &of_left, "s0-left").pause;
    assert_eq!(pause, Some(PauseOutcome { frames: 0, paused: Duration::ZERO }));
    assert!(longest_pkts(&left, &of_left, "right-r0") > 200);
}

#[test]
fn what_a_switch_must_have_to_lose_nothing_is_asked_of_those_that_stop_links() {
    // Ports that hold next to nothing, and a token bucket: right has both.
    let mut network = slow_receiver(droptail(Limit::Bytes(3_000)));
    let port = network.link_named("right-r1").expect("the port");
    network.links[port as usize].serialisation = Serialisation::TokenBucket { burst_bytes: 1600 };
    let said = |switches: Option<Vec<NodeId>>| {
        let spec = FlowControl { switches, ..pauses(50_000, 25_000) };
        let network = stopping(network.clone(), spec);
        let run = run(&network, vec![bulk("reno", 0, 2, 1000)], 100);
        knee_sim::simulate(&run).map_or_else(|why| why.to_string(), |_| String::new())
    };
    assert!(said(None).contains("right-r1 has a burst"), "{}", said(None));
    assert!(said(Some(vec![node(&network, "right")])).contains("right-r1 has a burst"));
    assert_eq!(said(Some(vec![node(&network, "left")])), "");
    assert!(said(Some(vec![node(&network, "s0")])).contains("only switches pause links"));
    assert!(said(Some(vec![99])).contains("node 99 is not a switch"));
}

#[test]
fn a_slow_receiver_stops_two_switches_and_those_who_send_to_others() {
    let mut network = slow_receiver(droptail(Limit::Pkts(100)));
    let bytes = |network: &Network| {
        let flows = vec![bulk("cubic", 0, 2, None), bulk("cubic", 1, 3, None)];
        let outcome = simulate(&run(network, flows, 500));
        let bytes: Vec<u64> = outcome.flows.iter().map(|flow| flow.received_bytes).collect();
        (bytes, outcome)
    };
    // With losses each has its own: 0.5 s at 1 Gbps less what the other takes are 56 MB.
    let (alone, _) = bytes(&network);
    assert!(alone[0] < 6_200_000 && alone[1] > 40_000_000, "{alone:?}");
    // With pauses the packets of one stand before those of the other.
    let names: Vec<String> = network.link_names().collect();
    for (link, name) in network.links.iter_mut().zip(&names) {
        if name.starts_with("right-r") {
            link.queue = endless();
        }
    }
    let network = stopping(network, pauses(50_000, 25_000));
    let (stopped, outcome) = bytes(&network);
    assert!(stopped[0] > 5_000_000, "{stopped:?}");
    assert!(stopped[1] < 15_000_000, "{stopped:?}");
    for link in ["left-right", "s0-left", "s1-left"] {
        let pause = queue(&network, &outcome, link).pause.expect("it can be stopped");
        assert!(pause.frames > 0 && pause.paused > ms(100), "{link}: {pause:?}");
        assert_eq!(queue(&network, &outcome, link).dropped_pkts(), 0);
    }
}

#[test]
fn flow_control_that_cannot_work_is_refused_in_a_sentence() {
    let error = |change: &dyn Fn(&mut Network)| {
        let mut network = stopping(star(3, endless()), pauses(20_000, 10_000));
        change(&mut network);
        let run = run(&network, vec![bulk("reno", 0, 2, 1000)], 100);
        knee_sim::simulate(&run).expect_err("it must be refused").to_string()
    };
    let spec = |change: &dyn Fn(&mut FlowControl)| {
        error(&|network| change(network.flow_control.as_mut().expect("it is there")))
    };
    let above = Thresholds { xoff_bytes: 20_000, xon_bytes: 20_001 };
    assert!(spec(&|spec| spec.stops = Stops::Links(above)).contains("xon, 20001"));
    assert!(spec(&|spec| spec.quanta = 0).contains("0 quanta"));
    assert!(spec(&|spec| spec.quanta = 40).contains("more quanta"));
    assert!(error(&|network| network.links[0].rate = None).contains("h0-switch has no rate"));
    let bucket = Serialisation::TokenBucket { burst_bytes: 1600 };
    assert!(error(&|network| network.links[1].serialisation = bucket).contains("has a burst"));
    let pkts = droptail(Limit::Pkts(100));
    assert!(error(&|network| network.links[1].queue = pkts.clone()).contains("limit in bytes"));
}
