//! Links that change during a run: what is lost, what the wire carries, and which way flows go.

use crate::common::*;
use knee_queue::time::{Duration, Rate, Time};
use knee_queue::{CodelConfig, Ecn, Limit, QueueConfig};
use knee_run::outcome::Outcome;
use knee_run::spec::{
    Changes, Flow, FlowControl, HostConfig, LinkChange, Network, NewState, Ping, RouteChange, Run,
    Sampling, Serialisation, Stops, Thresholds,
};
use knee_run::topology::{Cable, Star};

/// Pings of this length that all leave at 1 ms.
fn at_once(wire_bytes: u32, count: usize) -> Vec<Ping> {
    let ping = Ping {
        from: 0,
        to: 1,
        start: Time::ZERO,
        interval: ms(1),
        wire_bytes,
        ecn: Ecn::NotEct,
        dscp: 0,
        one_way_until: None,
    };
    vec![ping; count]
}

fn ping(network: Network, pings: Vec<Ping>) -> Outcome {
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

/// When each ping came back, us after 1 ms; `None`: it did not.
fn rtts_ps(outcome: &Outcome) -> Vec<Option<u64>> {
    outcome.pings.iter().map(|ping| ping.rtt.map(Duration::ps)).collect()
}

/// Host 0, a link of 10 Gbps, host 1; nothing takes time on the way back.
fn pair(cable: Cable) -> Network {
    let mut network = Network::default();
    let (a, b) = (network.host("a", host()), network.host("b", host()));
    network.link(a, b, Cable { sampled: true, ..cable });
    network.link(b, a, wire(Duration::ZERO));
    network
}

fn port(delay: Duration) -> Cable {
    let serialisation = Serialisation::StoreAndForward;
    Cable { rate: Some(mbps(10_000)), serialisation, ..wire(delay) }
}

/// Times in ns after 1 ms.
fn changing(mut network: Network, changes: &[(u64, NewState)]) -> Network {
    let links = changes.iter().map(|(ns, to)| {
        let at = at_ms(1) + Duration::from_ns(*ns);
        LinkChange { at, link: 0, to: *to }
    });
    network.changes = Changes { links: links.collect(), routes: Vec::new() };
    network
}

/// Bits that a link has sent at this time, ps after 1 ms, in bits * 10^12.
fn bits_sent(first_bps: u64, changes: &[(u64, u64)], at_ps: u64) -> u128 {
    let mut bits = 0;
    let (mut since, mut bps) = (0, first_bps);
    for (ns, next_bps) in changes {
        let until = (ns * 1000).min(at_ps);
        bits += u128::from(until - since) * u128::from(bps);
        (since, bps) = (until, *next_bps);
    }
    bits + u128::from(at_ps - since) * u128::from(bps)
}

#[test]
fn the_bytes_of_any_interval_are_the_integral_of_the_rate() {
    // 1000 bytes take 800 ns at 10 Gbps. Rates change in the middle of packets.
    let changes = [(1_000, 1_000_000_000), (30_300, 40_000_000_000), (33_333, 7_000_000_000)];
    let states = changes.map(|(ns, bps)| (ns, NewState::Rate(Rate::from_bps(bps).unwrap())));
    let network = changing(pair(port(Duration::ZERO)), &states);
    let outcome = ping(network, at_once(1000, 60));
    for (number, arrives) in rtts_ps(&outcome).into_iter().enumerate() {
        let arrives = arrives.expect("nothing is lost");
        let bits = 8_000 * (number as u128 + 1) * 1_000_000_000_000;
        // Times are rounded down to a ps per packet and per change.
        let slack = number as u64 + 4;
        assert!(bits_sent(10_000_000_000, &changes, arrives) <= bits, "{number}");
        assert!(bits_sent(10_000_000_000, &changes, arrives + slack) >= bits, "{number}");
    }
}

#[test]
fn a_token_bucket_fills_at_the_new_rate() {
    let serialisation = Serialisation::TokenBucket { burst_bytes: FULL };
    let cable = Cable { serialisation, ..port(Duration::ZERO) };
    // The second packet has tokens for 500 bytes when the rate becomes a tenth: 8112 ns are missing.
    let slow = NewState::Rate(mbps(1000));
    let outcome = ping(changing(pair(cable), &[(400, slow)]), at_once(FULL, 3));
    assert_eq!(rtts_ps(&outcome), [0, 8_512_000, 20_624_000].map(Some));
}

#[test]
fn a_failing_link_loses_what_waits_what_leaves_and_what_is_on_the_wire() {
    // A packet every 800 ns, then 2 us of wire. The link is down from 5 to 6 us.
    let states = [(5_000, NewState::Down), (6_000, NewState::Up)];
    let network = changing(pair(port(us(2))), &states);
    let outcome = ping(network, at_once(1000, 20));
    let came = rtts_ps(&outcome);
    // Arrivals at 2.8, 3.6 and 4.4 us; the next would come at 5.2 us.
    assert_eq!(
        came.iter().flatten().copied().collect::<Vec<_>>(),
        [2_800_000, 3_600_000, 4_400_000]
    );
    let queue = &outcome.queues[0];
    // 6 packets are on the wire or sent, the 7th is leaving, 13 wait.
    assert_eq!((queue.offered_pkts, queue.sent_pkts, queue.lost_pkts), (20, 7, 17));
}

#[test]
fn a_link_is_as_before_once_it_is_up() {
    let mut pings = at_once(1000, 4);
    for (ping, number) in pings.iter_mut().zip(0..) {
        // At 1 ms, and 10 us later each.
        ping.interval = ping.interval + us(10 * number);
    }
    let states = [(9_000, NewState::Down), (21_000, NewState::Up)];
    let outcome = ping(changing(pair(port(us(2))), &states), pings);
    assert_eq!(rtts_ps(&outcome), [Some(2_800_000), None, None, Some(2_800_000)]);
    let queue = &outcome.queues[0];
    assert_eq!((queue.offered_pkts, queue.sent_pkts, queue.lost_pkts), (2, 2, 2));
}

#[test]
fn any_queue_is_emptied_and_its_counts_add_up() {
    let codel = QueueConfig::Codel(CodelConfig::default());
    let bucket = Serialisation::TokenBucket { burst_bytes: FULL };
    for (queue, serialisation) in [
        (droptail(Limit::Pkts(12)), Serialisation::StoreAndForward),
        (codel, Serialisation::StoreAndForward),
        (droptail(Limit::Pkts(12)), bucket),
    ] {
        let cable = Cable { queue, serialisation, ..port(us(1)) };
        let states = [(5_000, NewState::Down), (9_000, NewState::Up)];
        let outcome = ping(changing(pair(cable), &states), at_once(FULL, 20));
        let queue = &outcome.queues[0];
        let came = outcome.pings.iter().filter(|ping| ping.rtt.is_some()).count() as u64;
        assert_eq!(came + queue.dropped_pkts() + queue.lost_pkts, 20, "{queue:?}");
        assert!(came >= 2 && queue.lost_pkts > 4, "{queue:?}");
    }
}

#[test]
fn delay_and_loss_change_for_what_leaves_later() {
    for rate in [None, Some(mbps(10_000))] {
        let mut pings = at_once(1000, 4);
        for (ping, number) in pings.iter_mut().zip(0..) {
            ping.interval = ping.interval + us(10 * number);
        }
        let states = [
            (5_000, NewState::Delay(us(7))),
            (15_000, NewState::Loss(1.0)),
            (25_000, NewState::Loss(0.0)),
        ];
        let cable = Cable { rate, ..port(us(2)) };
        let outcome = ping(changing(pair(cable), &states), pings);
        let sending = if rate.is_some() { 800_000 } else { 0 };
        let came = [Some(2_000_000), Some(7_000_000), None, Some(7_000_000)];
        assert_eq!(rtts_ps(&outcome), came.map(|rtt| rtt.map(|rtt: u64| rtt + sending)));
    }
}

/// `a` and `b` with `ways` switches between them, of which the last is one switch farther.
fn ways(count: u32) -> Network {
    let mut network = Network::default();
    let config = HostConfig { rto_min: ms(1), ..host() };
    let (a, b) = (network.host("a", config.clone()), network.host("b", config));
    let (left, right) = (network.switch("left"), network.switch("right"));
    let cable = || Cable { rate: Some(mbps(1000)), sampled: true, ..port(us(10)) };
    network.duplex(a, left, wire(us(1)), wire(us(1)));
    network.duplex(b, right, wire(us(1)), wire(us(1)));
    for number in 0..count {
        let middle = network.switch(format!("m{number}"));
        network.duplex(left, middle, cable(), cable());
        if number + 1 < count {
            network.duplex(middle, right, cable(), cable());
        } else {
            let second = network.switch("far");
            network.duplex(middle, second, cable(), cable());
            network.duplex(second, right, cable(), cable());
        }
    }
    network
}

fn link(network: &Network, name: &str) -> u32 {
    network.link_named(name).expect("it exists")
}

/// A link that is down from 10 to 30 ms, and that routes avoid 2 ms later.
fn fails(network: &mut Network, names: &[&str], reroutes: bool) {
    let links: Vec<u32> = names.iter().map(|name| link(network, name)).collect();
    for (at, to) in [(at_ms(10), NewState::Down), (at_ms(30), NewState::Up)] {
        for &link in &links {
            network.changes.links.push(LinkChange { at, link, to });
            let avoids = to == NewState::Down;
            if reroutes {
                network.changes.routes.push(RouteChange { at: at + ms(2), link, avoids });
            }
        }
    }
}

/// Full packets that arrived by this link in each ms.
fn per_ms(network: Network, by: &[&str]) -> Vec<Vec<u64>> {
    let path = Path::new(us(0));
    let mut run = path.run(vec![Flow { from: 0, to: 1, ..path.bulk("reno", None) }]);
    (run.end, run.until_done, run.network) = (at_ms(60), false, network);
    run.sampling.links = Some(ms(1));
    let outcome = simulate(&run);
    let sent = |name: &&str| {
        let link = link(&run.network, name);
        let mut sent = vec![0; 60];
        for sample in outcome.link_samples.iter().filter(|sample| sample.link == link) {
            sent[(sample.at.us() / 1000 - 1) as usize] = sample.sent_pkts;
        }
        sent
    };
    by.iter().map(sent).collect()
}

#[test]
fn flows_leave_a_failed_link_after_the_time_of_rerouting_and_come_back() {
    let mut network = ways(2);
    fails(&mut network, &["left-m0", "m0-left"], true);
    let sent = per_ms(network, &["left-m0", "left-m1"]);
    let (near, far) = (&sent[0], &sent[1]);
    // 82 full packets a ms. Timeouts follow each other after 1, 2 and 4 ms. What waits for the second
    // way when the first is back goes its way.
    let is_full = |sent: &u64| *sent > 70;
    let is_idle = |sent: &u64| *sent == 0;
    assert!(near[5..10].iter().all(is_full) && far[..12].iter().all(is_idle), "{sent:?}");
    assert!(near[10..32].iter().all(is_idle) && far[20..32].iter().all(is_full), "{sent:?}");
    assert!(near[34..].iter().all(is_full) && far[38..].iter().all(is_idle), "{sent:?}");
}

#[test]
fn without_a_way_packets_are_lost_until_the_link_is_back() {
    for reroutes in [false, true] {
        let mut network = ways(1);
        fails(&mut network, &["left-m0", "m0-left"], reroutes);
        let path = Path::new(us(0));
        let flow = Flow { from: 0, to: 1, ..path.bulk("reno", 10_000_000) };
        let mut run = path.run(vec![flow]);
        run.network = network;
        let outcome = simulate(&run);
        let counters = outcome.flows[0].counters.complete().expect("all are known");
        assert!(outcome.flows[0].done_at.is_some() && counters.timeouts > 0, "{counters:?}");
    }
}

#[test]
fn only_flows_of_the_failed_link_move_and_they_move_back() {
    // Pings of 400 streams over 4 ways, every 10 ms.
    let mut network = ways(5);
    fails(&mut network, &["left-m0"], true);
    let mut pings = at_once(100, 400);
    pings.iter_mut().for_each(|ping| (ping.start, ping.interval) = (Time::from_ms(0), ms(5)));
    let mut run = Path::new(us(0)).run(Vec::new());
    (run.end, run.until_done, run.network, run.pings) = (at_ms(41), false, network, pings);
    run.sampling.links = Some(ms(5));
    let outcome = simulate(&run);
    let sent = |name: &str, period: u64| {
        let link = link(&run.network, name);
        let at = at_ms(5 * (period + 1));
        let mut samples = outcome.link_samples.iter();
        samples.find(|it| it.link == link && it.at == at).map_or(0, |sample| sample.sent_pkts)
    };
    // Those sent at 5 ms are counted in period 1, and so on; the link fails at 10 ms.
    let others = ["left-m1", "left-m2", "left-m3"];
    let of_others = |period| others.map(|name| sent(name, period));
    let (first, during, after) = (of_others(1), of_others(3), of_others(7));
    assert_eq!(sent("left-m0", 1) + first.iter().sum::<u64>(), 400);
    assert!((70..130).contains(&sent("left-m0", 1)), "{first:?}");
    assert_eq!((sent("left-m0", 3), during.iter().sum::<u64>()), (0, 400));
    assert!(first.iter().zip(&during).all(|(before, during)| before < during));
    assert_eq!((sent("left-m4", 3), after), (0, first));
}

/// A star with pauses whose port to host 1 runs at a tenth of its rate from 1.1 ms on, then fails for a while.
fn with_pauses(lossless: bool, states: &[(u64, NewState)]) -> Run {
    let hosts = (0..3).map(|i| (format!("h{i}"), host())).collect();
    let queue = droptail(Limit::Bytes(1_000_000));
    let cable = |queue| Cable { queue, rate: Some(mbps(1000)), sampled: true, ..port(us(1)) };
    let mut network = Star { hosts, up: cable(endless()), down: cable(queue) }.build();
    network.flow_control = Some(FlowControl {
        switches: None,
        stops: Stops::Links(Thresholds { xoff_bytes: 50_000, xon_bytes: 25_000 }),
        reaction: us(1),
        quanta: 65_535,
        lossless,
    });
    let slow = link(&network, "switch-h1");
    let states = states.iter().map(|(us, to)| LinkChange { at: at_us(*us), link: slow, to: *to });
    network.changes.links = states.collect();
    let path = Path::new(us(0));
    let flows = [0, 2].map(|from| Flow { from, to: 1, ..path.bulk("reno", 2_000_000) });
    Run { network, ..path.run(flows.to_vec()) }
}

#[test]
fn a_port_that_slows_down_is_one_that_pauses_more() {
    let paused = |states: &[(u64, NewState)]| {
        let run = with_pauses(false, states);
        let outcome = simulate(&run);
        assert!(outcome.flows.iter().all(|flow| flow.done_at.is_some()));
        let up = link(&run.network, "h0-switch");
        let queue = outcome.queues.iter().find(|queue| queue.link == up).expect("it is sampled");
        (queue.pause.expect("it can be stopped").paused, outcome)
    };
    let (sound, _) = paused(&[]);
    let (slow, outcome) = paused(&[(1_100, NewState::Rate(mbps(100)))]);
    // 4 MB take 32 ms at 1 Gbps and 320 ms at 100 Mbps.
    assert!(slow > sound + ms(100), "{slow:?} {sound:?}");
    assert_eq!(outcome.queues.iter().map(|queue| queue.dropped_pkts()).sum::<u64>(), 0);
    // What a failing port held was given back: the senders go on.
    paused(&[(1_100, NewState::Down), (3_000, NewState::Up)]);
}

#[test]
fn changes_that_contradict_the_network_are_refused_in_a_sentence() {
    let refused =
        |run: &Run| knee_sim::simulate(run).expect_err("it contradicts itself").to_string();
    let said = refused(&with_pauses(true, &[(5, NewState::Down)]));
    assert!(said.contains("switch-h1") && said.contains("lossless"), "{said}");
    for (states, what) in [
        (vec![(5, NewState::Up)], "comes up while it is up"),
        (vec![(5, NewState::Down), (6, NewState::Down)], "goes down while it is down"),
        (vec![(5, NewState::Down), (4, NewState::Up)], "in the order of time"),
        (vec![(5, NewState::Loss(1.5))], "must be 0 to 1"),
    ] {
        let said = refused(&with_pauses(false, &states));
        assert!(said.contains(what), "{said}");
    }
    let mut run = with_pauses(false, &[(5, NewState::Down)]);
    run.network.changes.links[0].link = 99;
    assert!(refused(&run).contains("no link 99"));
    run.network.changes.links.clear();
    run.network.changes.routes.push(RouteChange { at: at_us(5), link: 99, avoids: true });
    assert!(refused(&run).contains("no link 99"));
}
