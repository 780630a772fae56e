//! Ports of software routers, whose interrupts wait (queues.md sec. 12): what comes is forwarded in bursts.

use crate::common::*;
use knee_queue::time::{Duration, Time};
use knee_queue::{Ecn, Limit, QueueConfig};
use knee_run::outcome::{Outcome, QueueOutcome};
use knee_run::spec::{
    Adaptive, ByRate, Coalesce, CoalescingPort, Flow, FlowControl, LinkId, Network, NodeId, Ping,
    Run, Serialisation, Stops, Thresholds,
};
use knee_run::topology::{Cable, Star};
use knee_sim::fabric::{Fabric, Fate, Frame};

fn port(queue: QueueConfig) -> Cable {
    Cable {
        rate: Some(mbps(1000)),
        serialisation: Serialisation::StoreAndForward,
        queue,
        sampled: true,
        ..wire(us(10))
    }
}

/// Three hosts at 1 Gbps around a switch; its ports have this queue.
fn star(queue: QueueConfig) -> Network {
    let hosts = (0..3).map(|i| (format!("h{i}"), host())).collect();
    Star { hosts, up: port(endless()), down: port(queue) }.build()
}

fn link(network: &Network, name: &str) -> LinkId {
    network.link_named(name).expect("a link")
}

/// What comes by these links waits.
fn waiting(mut network: Network, links: &[&str], coalesce: Coalesce) -> Network {
    let of_link = |name: &&str| CoalescingPort { link: link(&network, name), coalesce };
    network.ports = links.iter().map(of_link).collect();
    network
}

fn after(frames: Option<u32>, time: Duration) -> Coalesce {
    Coalesce::fixed(frames, time)
}

fn ping(from: NodeId, to: NodeId) -> Ping {
    Ping {
        from,
        to,
        start: Time::ZERO,
        interval: ms(100),
        wire_bytes: FULL,
        ecn: Ecn::NotEct,
        dscp: 0,
        one_way_until: None,
    }
}

/// Each of these once, at 100 ms.
fn once(network: &Network, pings: Vec<Ping>) -> Outcome {
    simulate(&Run {
        end: at_ms(199),
        until_done: false,
        network: network.clone(),
        pings,
        ..Path::new(us(1)).run(Vec::new())
    })
}

fn queue<'a>(network: &Network, outcome: &'a Outcome, name: &str) -> &'a QueueOutcome {
    let wanted = link(network, name);
    outcome.queues.iter().find(|queue| queue.link == wanted).expect("it is sampled")
}

#[test]
fn a_lone_packet_waits_for_the_timer_at_each_port_that_coalesces() {
    let rtt = |links: &[&str], coalesce| {
        let network = waiting(star(endless()), links, coalesce);
        once(&network, vec![ping(0, 1)]).pings[0].rtt.expect("it comes back")
    };
    let alone = rtt(&[], after(None, ms(1)));
    assert_eq!(alone.ns(), 4 * 22_112);
    assert_eq!(rtt(&["h0-switch"], after(Some(64), us(140))), alone + us(140));
    assert_eq!(rtt(&["h0-switch", "h1-switch"], after(None, us(140))), alone + us(280));
    // Neither passes the port of the third, and an interrupt for each frame is none that waits.
    assert_eq!(rtt(&["h2-switch"], after(None, us(140))), alone);
    assert_eq!(rtt(&["h0-switch", "h1-switch"], after(Some(1), us(140))), alone);
    // Few packets a second are not worth waiting for.
    let adaptive =
        Coalesce { adaptive: Some(Adaptive::Rate(ByRate::default())), ..after(None, ms(1)) };
    assert_eq!(rtt(&["h0-switch", "h1-switch"], adaptive), alone);
}

#[test]
fn what_an_interrupt_brings_comes_to_the_queue_as_one_burst() {
    // Ten packets come 12.112 us apart, as fast as the port sends them.
    let dropped = |coalesce: Option<Coalesce>| {
        let links: &[&str] = if coalesce.is_some() { &["h0-switch"] } else { &[] };
        let coalesce = coalesce.unwrap_or(after(None, ms(1)));
        let network = waiting(star(droptail(Limit::Pkts(3))), links, coalesce);
        let outcome = once(&network, vec![ping(0, 1); 10]);
        let there = queue(&network, &outcome, "switch-h1");
        assert_eq!((there.offered_pkts, there.sent_pkts + there.dropped_full_pkts), (10, 10));
        there.dropped_full_pkts
    };
    assert_eq!(dropped(None), 0);
    // All at once: one is sent, three wait.
    assert_eq!(dropped(Some(after(None, us(140)))), 6);
    // Four at a time just fit; the last two wait for the timer. Of seven at a time, the timer of the second three.
    assert_eq!(dropped(Some(after(Some(4), us(140)))), 0);
    assert_eq!(dropped(Some(after(Some(7), us(140)))), 3);
}

#[test]
fn the_order_of_arrival_stays_and_other_ports_go_on() {
    // The requests of h0 wait at its port; those of h2 come meanwhile and are sent on at once.
    let network = waiting(star(endless()), &["h0-switch"], after(None, us(140)));
    let outcome = once(&network, vec![ping(0, 1), ping(0, 1), ping(0, 1), ping(2, 1)]);
    let rtts: Vec<u64> =
        outcome.pings.iter().map(|ping| ping.rtt.expect("it comes back").ns()).collect();
    let wire = 12_112;
    // The second and third have waited in their host's queue too, and the burst is sent on one after the other.
    let first = 4 * 22_112 + 140_000;
    assert_eq!(rtts, [first, first + wire, first + 2 * wire, 4 * 22_112]);
}

#[test]
fn the_interrupt_comes_so_long_after_the_first_of_each_burst() {
    // Two packets each 100 us apart: the third begins the second burst, since the first's interrupt was 140 us after it.
    let network = waiting(star(endless()), &["h0-switch"], after(None, us(140)));
    let at = |start| Ping { start, ..ping(0, 1) };
    let pings = [0, 100, 200, 300].map(|at_| at(at_us(at_))).to_vec();
    let outcome = once(&network, pings);
    let rtts: Vec<u64> =
        outcome.pings.iter().map(|ping| ping.rtt.expect("it comes back").ns()).collect();
    let alone = 4 * 22_112;
    let wire = 12_112;
    let second = alone + 40_000 + wire;
    assert_eq!(rtts, [alone + 140_000, second, alone + 140_000, second]);
}

/// The figures of three transfers over links whose switch has these ports.
fn figures(ports: &[&str], coalesce: Coalesce) -> Vec<String> {
    let network = waiting(star(droptail(Limit::Pkts(20))), ports, coalesce);
    let flow = |from, to, bytes| Flow { from, to, ..Path::new(us(1)).bulk("cubic", bytes) };
    let flows = vec![flow(0, 2, 3_000_000), flow(1, 2, 3_000_000), flow(0, 1, 1_000_000)];
    let run = Run { network: network.clone(), ..Path::new(us(1)).run(flows) };
    let outcome = simulate(&run);
    assert!(outcome.flows.iter().all(|flow| flow.done_at.is_some()));
    assert!(queue(&network, &outcome, "switch-h2").dropped_full_pkts > 0);
    // Nothing is lost, and nothing is left, in a ring.
    let queues = outcome.queues.iter();
    queues.clone().for_each(|queue| {
        assert_eq!(queue.offered_pkts, queue.sent_pkts + queue.dropped_pkts(), "{queue:?}");
    });
    let queues = queues.map(|queue| format!("{queue:?}"));
    outcome.flows.iter().map(|flow| format!("{flow:?}")).chain(queues).collect()
}

#[test]
fn transfers_end_behind_bursts_and_an_interrupt_for_each_frame_changes_nothing() {
    let all = ["h0-switch", "h1-switch", "h2-switch"];
    let without = figures(&[], after(None, ms(1)));
    assert_eq!(without, figures(&all, after(Some(1), ms(1))));
    let in_bursts = figures(&all, after(None, us(300)));
    assert_ne!(without, in_bursts);
    assert_eq!(in_bursts, figures(&all, after(None, us(300))));
}

#[test]
fn the_network_alone_has_the_same_ports() {
    let network = waiting(star(droptail(Limit::Pkts(3))), &["h0-switch"], after(None, us(140)));
    let mut fabric = Fabric::new(&network, 1).expect("it can be built");
    let path = fabric.path(0, 1, 7).expect("there is a way");
    let frame = Frame { len_bytes: FULL, ecn: Ecn::NotEct, dscp: 0, is_pure_ack: false };
    let mut seen: Vec<(u32, Time, Fate)> = Vec::new();
    let mut report = |tag, at, fate| seen.push((tag, at, fate));
    for tag in 0..10 {
        fabric.offer(tag, path, frame, Time::ZERO, &mut report);
    }
    fabric.advance(at_ms(10), &mut report);
    let arrived: Vec<_> =
        seen.iter().filter(|(.., fate)| matches!(fate, Fate::Arrived(_))).collect();
    // The first is at the switch at 22.112 us, and goes on 140 us later with three of those behind it.
    let first = Time::ZERO + Duration::from_ns(2 * 22_112 + 140_000);
    let wanted: Vec<_> = (0..4).map(|i| first + Duration::from_ns(12_112 * i)).collect();
    assert_eq!(arrived.iter().map(|(_, at, _)| *at).collect::<Vec<_>>(), wanted);
    assert_eq!((arrived.len(), seen.len()), (4, 10));
}

#[test]
fn ports_that_cannot_be_are_refused_in_a_sentence() {
    let error = |change: &dyn Fn(&mut Network)| {
        let mut network = waiting(star(endless()), &["h0-switch"], after(None, us(140)));
        change(&mut network);
        let run = Run { network, ..Path::new(us(1)).run(Vec::new()) };
        knee_sim::simulate(&run).expect_err("it must be refused").to_string()
    };
    assert!(error(&|network| network.ports[0].link = 99).contains("99 does not exist"));
    let to_host = error(&|network| network.ports[0].link = link(network, "switch-h1"));
    assert!(to_host.contains("link switch-h1: ends at a host"), "{to_host}");
    assert!(
        error(&|network| network.ports.push(network.ports[0])).contains("two coalesce settings")
    );
    let none = error(&|network| network.ports[0].coalesce.frames = Some(0));
    assert!(none.contains("h0-switch: frames = 0"), "{none}");
    let stops = Stops::Links(Thresholds { xoff_bytes: 20_000, xon_bytes: 10_000 });
    let spec =
        FlowControl { switches: None, stops, reaction: us(1), quanta: 65_535, lossless: true };
    let stopping = error(&|network| network.flow_control = Some(spec.clone()));
    assert!(stopping.contains("switch is a software router"), "{stopping}");
}
