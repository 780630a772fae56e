//! A run on several threads: the same bytes as on one.

use crate::common::*;
use knee_queue::time::{Duration, Rate};
use knee_queue::{CodelConfig, Limit, NotEctAbove, PieConfig, QueueConfig};
use knee_run::Outcome;
use knee_run::spec::{
    Balance, Cc, Changes, Flow, LinkChange, MeasuredWindow, Network, NewState, Order, Ping,
    RouteChange, Run, Sampling, Schedule, SwitchBalance, Traffic, Weights,
};
use knee_run::topology::{Cable, FatTree, LeafSpine};
use proptest::prelude::*;

/// A cable whose queue, loss and jitter are drawn.
fn cable(chance: &mut Chance, delays: &[Duration]) -> Cable {
    let queues = [
        droptail(Limit::Pkts(30)),
        marking(10, NotEctAbove::Queue),
        QueueConfig::Pie(PieConfig::default()),
        QueueConfig::Codel(CodelConfig::default()),
    ];
    Cable {
        rate: Rate::from_bps(1_000_000_000 * (1 + chance.below(4))),
        loss: [0.0, 0.0, 0.01][chance.below(3) as usize],
        jitter: [Duration::ZERO, Duration::from_us(3)][chance.below(2) as usize],
        queue: queues[chance.below(queues.len() as u64) as usize].clone(),
        sampled: true,
        ..wire(delays[chance.below(delays.len() as u64) as usize])
    }
}

fn network(chance: &mut Chance) -> Network {
    let delays = [us(1), us(2), Duration::from_ns(700)];
    let (host_up, host_down) = (cable(chance, &delays), cable(chance, &delays));
    // Switches without delay between them are in one domain.
    let fabric = cable(chance, &[us(1), us(5), us(30), Duration::ZERO]);
    let host = host();
    if chance.below(2) == 0 {
        LeafSpine {
            leaves: 2 + chance.below(4) as u32,
            spines: 1 + chance.below(3) as u32,
            hosts_per_leaf: 1 + chance.below(3) as u32,
            host,
            host_up,
            host_down,
            fabric,
        }
        .build()
    } else {
        FatTree { k: 4, host, host_up, host_down, edge: fabric.clone(), core: fabric }.build()
    }
}

/// Changes of some links, as drawn.
fn changes(chance: &mut Chance, network: &Network) -> Changes {
    let mut changes = Changes::default();
    let count = [0, 0, 3, 8][chance.below(4) as usize];
    let mut links: Vec<u32> = (0..network.links.len() as u32).collect();
    for _ in 0..count {
        let link = links.swap_remove(chance.below(links.len() as u64) as usize);
        let spec = &network.links[link as usize];
        let at = at_us(300 + chance.below(2000));
        let (to, back) = match chance.below(4) {
            0 => (NewState::Rate(mbps(200)), NewState::Rate(spec.rate.expect("all have one"))),
            1 => (NewState::Delay(us(3)), NewState::Delay(spec.delay)),
            2 => (NewState::Loss(0.3), NewState::Loss(spec.loss)),
            _ => (NewState::Down, NewState::Up),
        };
        for (at, to) in [(at, to), (at + us(700), back)] {
            changes.links.push(LinkChange { at, link, to });
            if matches!(to, NewState::Down | NewState::Up) && link % 2 == 0 {
                let (at, avoids) = (at + us(100), to == NewState::Down);
                changes.routes.push(RouteChange { at, link, avoids });
            }
        }
    }
    changes.links.sort_by_key(|change| change.at);
    changes.routes.sort_by_key(|change| change.at);
    changes
}

/// Choices of switches: none, the same of all, or another of each.
fn balance(chance: &mut Chance, network: &mut Network) {
    let kind = chance.below(4);
    let draw = |chance: &mut Chance| match chance.below(6) {
        0 => Balance::Weighted(Weights::Capacity),
        1 => Balance::Weighted(Weights::Rate),
        2 => Balance::Spray(Order::Random),
        3 => Balance::Spray(Order::RoundRobin),
        _ => Balance::Flowlet { gap: us(1 + chance.below(60)), entries: 1 << chance.below(8) },
    };
    let of_all = draw(chance);
    let switches = network.nodes.iter().zip(0..).filter(|(node, _)| node.host.is_none());
    for (_, switch) in switches {
        let balance = match kind {
            0 => return,
            1 | 2 => Some(of_all.clone()),
            _ => Some(draw(chance)).filter(|_| chance.below(3) > 0),
        };
        network.balance.extend(balance.map(|balance| SwitchBalance { switch, balance }));
    }
}

fn traffic(chance: &mut Chance) -> Traffic {
    match chance.below(4) {
        0 => Traffic::Bulk { bytes: None },
        1 => Traffic::Rpc { request_bytes: 300, response_bytes: 20_000, count: None },
        2 => Traffic::Rpc {
            request_bytes: 1 + chance.below(40_000),
            response_bytes: 1 + chance.below(40_000),
            count: Some(1 + chance.below(5)),
        },
        _ => Traffic::Bulk { bytes: Some(1 + chance.below(200_000)) },
    }
}

/// A fabric with all that a division must keep.
fn run(seed: u64) -> Run {
    let mut chance = Chance(seed);
    let mut network = network(&mut chance);
    network.changes = changes(&mut chance, &network);
    balance(&mut chance, &mut network);
    if !network.balance.is_empty() {
        network.changes.routes.clear();
    }
    let hosts: Vec<u32> = (0..network.nodes.len() as u32)
        .filter(|i| network.nodes[*i as usize].host.is_some())
        .collect();
    let pair = |chance: &mut Chance| {
        let from = chance.below(hosts.len() as u64) as usize;
        let step = 1 + chance.below(hosts.len() as u64 - 1) as usize;
        (hosts[from], hosts[(from + step) % hosts.len()])
    };
    let names = ["reno", "cubic", "dctcp", "bbr"];
    let flows = (0..2 + chance.below(12)).map(|index| {
        let (from, to) = pair(&mut chance);
        let traffic = traffic(&mut chance);
        let stop = (!traffic.ends()).then(|| at_us(2000 + chance.below(2000)));
        Flow {
            from,
            to,
            traffic,
            stop: stop.filter(|_| chance.below(2) == 0),
            start: at_us(chance.below(1000)),
            cc: Cc::by_name(names[chance.below(4) as usize]).expect("it is built in"),
            group: index as u32,
            peer_cc: None,
            first_write: None,
            read_at_bytes: 1,
            base_rtt: None,
            dscp: 0,
            peer_dscp: 0,
            max_pacing_rate: None,
            sampled: true,
        }
    });
    let flows = flows.collect();
    let pings = (0..chance.below(3)).map(|_| {
        let (from, to) = pair(&mut chance);
        Ping {
            from,
            to,
            start: at_us(chance.below(50)),
            interval: us(20),
            wire_bytes: 64,
            ecn: knee_queue::Ecn::NotEct,
            dscp: 0,
        }
    });
    let pings = pings.collect();
    Run {
        seed,
        end: at_ms(5),
        until_done: chance.below(2) == 0,
        network,
        flows,
        pings,
        sampling: Sampling {
            flows: Some(us(100)),
            queues: Some(us(70)),
            goodput: Some(us(500)),
            links: Some(us(130)),
            window: Some(MeasuredWindow { from: at_ms(1), until: at_ms(3), period: ms(1) }),
        },
        schedule: Schedule::default(),
    }
}

fn on(threads: usize, run: &Run) -> Outcome {
    knee_sim::simulate_on(run, threads).expect("the run is valid")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn any_number_of_threads_gives_the_same_bytes(seed in any::<u64>(), threads in 2usize..7) {
        let run = run(seed);
        let (one, many) = (on(1, &run), on(threads, &run));
        // Parts first: a difference is then short to read.
        prop_assert_eq!(one.end, many.end);
        for (one, many) in one.flows.iter().zip(&many.flows) {
            prop_assert_eq!(format!("{one:?}"), format!("{many:?}"));
        }
        prop_assert_eq!(one.work, many.work);
        let (one, many) = (format!("{one:?}"), format!("{many:?}"));
        prop_assert!(one == many, "the outcomes differ");
    }
}
