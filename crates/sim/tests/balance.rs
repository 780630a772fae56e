//! How switches choose among equally short ways: shares of links, flowlets, and what sprayed packets do to TCP.

use crate::common::*;
use knee_queue::time::{Duration, Time};
use knee_queue::{Ecn, Limit};
use knee_run::outcome::{Counters, FlowOutcome, Outcome};
use knee_run::spec::{
    Balance, Flow, HostConfig, Network, Order, Ping, Run, Sampling, SwitchBalance, Traffic, Weights,
};
use knee_run::topology::{Cable, LeafSpine};

/// Two leaves of two hosts; uplinks are sampled. Node 4 is `leaf0`, and links 4.. go from it to the spines.
fn fabric(spines: u32, host: HostConfig) -> Network {
    let cable = Cable { rate: Some(mbps(10_000)), ..wire(us(5)) };
    let fabric = Cable { sampled: true, ..cable.clone() };
    LeafSpine {
        leaves: 2,
        spines,
        hosts_per_leaf: 2,
        host,
        host_up: cable.clone(),
        host_down: cable,
        fabric,
    }
    .build()
}

fn with(mut network: Network, balance: &Balance) -> Network {
    let switches = network.nodes.iter().zip(0..).filter(|(node, _)| node.host.is_none());
    let choice = |(_, switch)| SwitchBalance { switch, balance: balance.clone() };
    network.balance = switches.map(choice).collect();
    network
}

/// Sends each ping once, at 1 ms, from the first leaf to the second.
fn ping_once(network: Network, count: usize) -> Outcome {
    let ping = Ping {
        from: 0,
        to: 2,
        start: Time::ZERO,
        interval: ms(1),
        wire_bytes: 64,
        ecn: Ecn::NotEct,
        dscp: 0,
        one_way_until: None,
    };
    simulate(&Run {
        seed: 1,
        end: Time::from_ps(at_ms(2).ps() - 1),
        until_done: false,
        network,
        flows: Vec::new(),
        pings: vec![ping; count],
        sampling: Sampling::default(),
        schedule: Default::default(),
    })
}

/// Packets that the first leaf sent to each spine.
fn shares(network: &Network, outcome: &Outcome) -> Vec<u64> {
    let is_uplink = |name: &str| name.starts_with("leaf0-spine");
    let queues = outcome.queues.iter();
    let uplinks =
        queues.filter(|queue| is_uplink(&network.link_name(&network.links[queue.link as usize])));
    uplinks.map(|queue| queue.sent_pkts).collect()
}

/// Chi-square of counts against expected shares.
fn chi_square(counts: &[u64], weights: &[u64]) -> f64 {
    let (all, weight) = (counts.iter().sum::<u64>() as f64, weights.iter().sum::<u64>() as f64);
    let terms = counts.iter().zip(weights).map(|(count, share)| {
        let expected = all * *share as f64 / weight;
        (*count as f64 - expected).powi(2) / expected
    });
    terms.sum()
}

fn weigh(spines: u32, given: &[u32]) -> Balance {
    let network = fabric(spines, host());
    let uplinks = network
        .links
        .iter()
        .zip(0..)
        .filter(|(link, _)| network.link_name(link).starts_with("leaf0-s"));
    Balance::Weighted(Weights::Given(
        uplinks.map(|(_, id)| id).zip(given.iter().copied()).collect(),
    ))
}

#[test]
fn hashes_fall_in_proportion_to_weights() {
    let weights = weigh(4, &[1, 2, 5, 8]);
    let mut network = fabric(4, host());
    network.balance = vec![SwitchBalance { switch: 4, balance: weights }];
    let counts = shares(&network, &ping_once(network.clone(), 16_000));
    assert_eq!(counts.iter().sum::<u64>(), 16_000);
    // 99.9 % of three degrees of freedom: 16.3.
    let off = chi_square(&counts, &[1, 2, 5, 8]);
    assert!(off < 16.3, "{counts:?}: {off}");
    assert!(chi_square(&counts, &[1, 1, 1, 1]) > 1000.0);
}

#[test]
fn weights_by_capacity_see_the_slow_link_behind_the_next_one_and_those_by_rate_do_not() {
    let counts = |weights| {
        let mut network = fabric(2, host());
        let slow = network.link_named("spine1-leaf1").map(|id| &mut network.links[id as usize]);
        slow.expect("it is there").rate = Some(mbps(2_500));
        let network = with(network, &Balance::Weighted(weights));
        shares(&network, &ping_once(network.clone(), 10_000))
    };
    // 99.9 % of one degree of freedom: 10.8.
    let (by_capacity, by_rate) = (counts(Weights::Capacity), counts(Weights::Rate));
    assert!(chi_square(&by_capacity, &[4, 1]) < 10.8, "{by_capacity:?}");
    assert!(chi_square(&by_rate, &[1, 1]) < 10.8, "{by_rate:?}");
}

#[test]
fn sprayed_packets_of_one_flow_load_all_uplinks_alike() {
    let counts = |order| {
        let network = with(fabric(4, host()), &Balance::Spray(order));
        let flow = Flow { from: 0, to: 2, ..Path::new(us(0)).bulk("reno", 10_000_000) };
        let mut run = Path::new(us(0)).run(vec![flow]);
        run.network = network;
        shares(&run.network, &simulate(&run))
    };
    let random = counts(Order::Random);
    assert!(chi_square(&random, &[1; 4]) < 16.3, "{random:?}");
    let in_turn = counts(Order::RoundRobin);
    let (least, most) = (in_turn.iter().min(), in_turn.iter().max());
    assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1), "{in_turn:?}");
    assert!(random.iter().sum::<u64>() >= 10_000_000 / MSS);
}

/// Packets of each uplink, of one ping every 20 us, for 20 ms.
fn pinged(gap: Duration, entries: u32, pings: usize) -> Vec<u64> {
    let network = with(fabric(8, host()), &Balance::Flowlet { gap, entries });
    let ping = Ping {
        from: 0,
        to: 2,
        start: Time::ZERO,
        interval: us(20),
        wire_bytes: 64,
        ecn: Ecn::NotEct,
        dscp: 0,
        one_way_until: None,
    };
    let mut run = Path::new(us(0)).run(Vec::new());
    (run.network, run.end, run.until_done) = (network, at_ms(20), false);
    run.pings = vec![ping; pings];
    shares(&run.network, &simulate(&run))
}

#[test]
fn a_flow_draws_anew_after_a_gap_and_only_then() {
    let used = |counts: &[u64]| counts.iter().filter(|count| **count > 0).count();
    let kept = pinged(us(20), 65_536, 1);
    assert_eq!(used(&kept), 1, "a pause as long as the gap is none: {kept:?}");
    let drawn = pinged(Duration::from_ns(19_999), 65_536, 1);
    // 99.9 % of seven degrees of freedom: 24.3.
    assert!(chi_square(&drawn, &[1; 8]) < 24.3, "{drawn:?}");
    let many = pinged(us(20), 65_536, 64);
    assert_eq!(used(&many), 8, "each flow has its own: {many:?}");
    let shared = pinged(us(20), 1, 64);
    assert_eq!(used(&shared), 1, "all flows are in one entry: {shared:?}");
}

fn counters(flow: &FlowOutcome) -> Counters {
    flow.counters.complete().expect("the simulator knows all")
}

/// A transfer over four spines whose delays differ by 20 us each.
fn transfer(balance: Option<Balance>) -> FlowOutcome {
    let mut network = fabric(4, host());
    let names: Vec<String> = network.link_names().collect();
    for (link, name) in network.links.iter_mut().zip(&names) {
        if let Some(number) = name.strip_prefix("leaf0-spine") {
            link.delay = us(5 + 20 * number.parse::<u64>().expect("a spine's number"));
        }
    }
    if let Some(balance) = balance {
        network = with(network, &balance);
    }
    let flow = Flow { from: 0, to: 2, ..Path::new(us(0)).bulk("cubic", 20_000_000) };
    let mut run = Path::new(us(0)).run(vec![flow]);
    run.network = network;
    simulate(&run).flows.remove(0)
}

#[test]
fn spraying_over_unequal_delays_costs_retransmissions_that_no_loss_needed() {
    let (path, sprayed) = (transfer(None), transfer(Some(Balance::Spray(Order::Random))));
    assert_eq!(counters(&path).retransmitted_segs, 0);
    let sprayed = counters(&sprayed);
    assert!(sprayed.retransmitted_segs > 0 && sprayed.undos > 0, "{sprayed:?}");
    // A gap longer than the difference of delays lets what was sent before arrive first.
    let flowlets = transfer(Some(Balance::Flowlet { gap: us(100), entries: 1024 }));
    assert_eq!(counters(&flowlets).retransmitted_segs, 0);
}

#[test]
fn switches_that_hash_give_the_paths_that_are_known_before() {
    for seed in 0..6 {
        let mut network = fabric(4, HostConfig { ipv6: seed % 2 == 1, ..host() });
        for link in &mut network.links {
            link.queue = droptail(Limit::Pkts(20));
        }
        let pairs = [(0, 2), (1, 2), (3, 0), (1, 3), (2, 3)];
        let flow = |(from, to)| Flow {
            from,
            to,
            traffic: Traffic::Bulk { bytes: Some(3_000_000) },
            ..Path::new(us(0)).bulk("reno", None)
        };
        let mut run = Path::new(us(0)).run(pairs.map(flow).to_vec());
        (run.seed, run.end, run.network) = (seed, at_ms(300), network);
        let known = format!("{:?}", simulate(&run));
        // A switch that nothing is linked to.
        let aside = run.network.switch("aside");
        run.network.balance =
            vec![SwitchBalance { switch: aside, balance: Balance::Spray(Order::Random) }];
        assert!(known == format!("{:?}", simulate(&run)), "seed {seed}");
    }
}

#[test]
fn another_label_leaves_a_dead_path_of_a_weighted_switch() {
    let done = |ipv6| {
        let all = (0..12).map(|seed| {
            let mut network = fabric(2, HostConfig { ipv6, ..host() });
            let dead = network.link_named("leaf0-spine1").map(|id| &mut network.links[id as usize]);
            dead.expect("it is there").loss = 1.0;
            let flow = Flow { from: 0, to: 2, ..Path::new(us(0)).bulk("reno", 100_000) };
            let mut run = Path::new(us(0)).run(vec![flow]);
            run.network = with(network, &Balance::Weighted(Weights::Capacity));
            run.seed = seed;
            simulate(&run).flows.remove(0)
        });
        all.filter(|flow| flow.done_at.is_some()).count()
    };
    assert_eq!(done(true), 12);
    let stays = done(false);
    assert!((2..=10).contains(&stays), "without a label a flow stays: {stays} of 12 complete");
}

#[test]
fn choices_that_cannot_be_are_refused_in_a_sentence() {
    let said = |balance: Vec<SwitchBalance>| {
        let mut run = Path::new(us(0)).run(Vec::new());
        run.network = fabric(2, host());
        run.network.links.last_mut().expect("there are links").rate = None;
        run.network.balance = balance;
        knee_sim::simulate(&run).expect_err("it cannot be").to_string()
    };
    let one = |switch, balance: Balance| said(vec![SwitchBalance { switch, balance }]);
    let spray = Balance::Spray(Order::Random);
    assert_eq!(one(0, spray.clone()), "balance: node 0 is no switch: name switches");
    assert!(one(99, spray.clone()).contains("node 99 is no switch"));
    let twice = [spray.clone(), spray].map(|balance| SwitchBalance { switch: 4, balance });
    assert_eq!(said(twice.to_vec()), "balance: leaf0 has two choices: leave one out");
    assert!(one(4, Balance::Flowlet { gap: Duration::ZERO, entries: 1 }).contains("above 0"));
    assert!(one(4, Balance::Flowlet { gap: us(1), entries: 0 }).contains("1 to 1048576"));
    let given =
        |weights: &[(u32, u32)]| one(4, Balance::Weighted(Weights::Given(weights.to_vec())));
    assert!(given(&[(999, 1)]).contains("link 999 does not leave this switch"));
    assert!(given(&[(5, 1), (5, 1)]).contains("order of links"));
    assert!(one(4, Balance::Weighted(Weights::Capacity)).contains("has none: give it a rate"));
}
