//! A run on several threads: the same bytes as on one.

use crate::common::*;
use knee_queue::time::{Duration, Rate};
use knee_queue::{
    ClassConfig, ClassService, ClassesConfig, CodelConfig, Condition, DynamicThresholdConfig,
    Limit, NotEctAbove, PieConfig, QueueConfig, Threshold, TrimConfig,
};
use knee_run::Outcome;
use knee_run::spec::{
    Balance, Cc, Changes, Coalesce, CoalescingPort, CpuCosts, Flow, FlowControl, HostConfig,
    LinkChange, LinkId, MeasuredWindow, Network, NewState, Order, Ping, RouteChange, Run, Sampling,
    Schedule, Serialisation, SharedBuffer, StoppedClass, Stops, SwitchBalance, Thresholds, Traffic,
    Weights,
};
use knee_run::topology::{Cable, FatTree, LeafSpine};
use proptest::prelude::*;

/// A cable whose queue, loss and jitter are drawn.
fn cable(chance: &mut Chance, delays: &[Duration]) -> Cable {
    let (limit, threshold) = (Limit::Pkts(10), Threshold::Pkts(5));
    let queues = [
        QueueConfig::Trim(TrimConfig { limit, threshold, headers_pkts: 10 }),
        droptail(Limit::Pkts(30)),
        marking(10, NotEctAbove::Queue),
        QueueConfig::Pie(PieConfig::default()),
        QueueConfig::Codel(CodelConfig::default()),
    ];
    Cable {
        rate: Rate::from_bps(1_000_000_000 * (1 + chance.below(4))),
        loss: [0.0, 0.0, 0.01, 0.1][chance.below(4) as usize],
        jitter: [Duration::ZERO, Duration::from_us(3)][chance.below(2) as usize],
        queue: queues[chance.below(queues.len() as u64) as usize].clone(),
        sampled: true,
        ..wire(delays[chance.below(delays.len() as u64) as usize])
    }
}

/// What flow control stops.
#[derive(Clone, Copy, PartialEq)]
enum Stopped {
    Nothing,
    Links,
    Classes,
}

/// DSCP 1 in a class that can be stopped, beside all else.
fn classes(one: QueueConfig, rest: QueueConfig) -> QueueConfig {
    let class = |name: &str, dscps, queue| ClassConfig {
        name: name.to_owned(),
        condition: Condition { dscps, ..Condition::default() },
        service: ClassService::Weighted(1),
        queue,
    };
    let classes = vec![class("stopped", Some(1 << 1), one), class("rest", None, rest)];
    QueueConfig::Classes(ClassesConfig { classes, quantum_bytes: FULL })
}

fn coalesce(chance: &mut Chance) -> Coalesce {
    let frames = [None, Some(4)][chance.below(2) as usize];
    Coalesce::fixed(frames, us(3 + chance.below(30)))
}

/// A host whose features are drawn.
fn drawn_host(chance: &mut Chance) -> HostConfig {
    let receive = chance.below(4);
    let gro_window = if receive == 1 { us(10) } else { Duration::ZERO };
    let coalesce = (receive == 2).then(|| coalesce(chance));
    HostConfig {
        // Timeouts, which change the paths of IPv6, fall into the run.
        rto_min: ms(1),
        ipv6: chance.below(2) == 0,
        gro_window,
        coalesce,
        gro: coalesce.is_some() && chance.below(2) == 0,
        receive_queues: 1 + chance.below(2) as u32,
        cpu: (chance.below(4) == 0).then(CpuCosts::default),
        ..host()
    }
}

/// What switches may have besides queues of their own.
fn add_features(network: &mut Network, stopped: Stopped, chance: &mut Chance) {
    let nodes = network.nodes.len() as u32;
    let switches: Vec<u32> =
        (0..nodes).filter(|node| network.nodes[*node as usize].host.is_none()).collect();
    let links = |of: &dyn Fn(&knee_run::spec::Link) -> bool| -> Vec<LinkId> {
        (0..).zip(&network.links).filter(|(_, link)| of(link)).map(|(id, _)| id).collect()
    };
    if chance.below(3) == 0 {
        let alpha = [0.25, 1.0, 8.0][chance.below(3) as usize];
        let buffer = |switch: &u32| SharedBuffer {
            name: format!("buffer {switch}"),
            law: DynamicThresholdConfig { size_bytes: 60_000, alpha, reserved_bytes: 1600 },
            links: links(&|link| link.from == *switch),
            sampled: true,
        };
        network.buffers = switches.iter().map(buffer).collect();
    }
    if stopped != Stopped::Nothing {
        let thresholds = Thresholds { xoff_bytes: 6000, xon_bytes: 3000 };
        let class = StoppedClass { name: "stopped".to_owned(), thresholds };
        network.flow_control = Some(FlowControl {
            switches: (chance.below(3) == 0).then(|| switches[..1].to_vec()),
            stops: match stopped {
                Stopped::Classes => Stops::Classes(vec![class]),
                _ => Stops::Links(thresholds),
            },
            reaction: us(chance.below(3)),
            quanta: [300, 65_535][chance.below(2) as usize],
            lossless: false,
        });
    } else if chance.below(3) == 0 {
        let into = links(&|link| switches.contains(&link.to));
        let port = |link: LinkId, coalesce| CoalescingPort { link, coalesce };
        let some = into.into_iter().filter(|link| link % 3 != 0);
        network.ports = some.map(|link| port(link, coalesce(chance))).collect();
    }
}

fn network(chance: &mut Chance) -> Network {
    let delays = [us(1), us(2), Duration::from_ns(700)];
    let stopped = [Stopped::Nothing, Stopped::Nothing, Stopped::Links, Stopped::Classes]
        [chance.below(4) as usize];
    let cable = |chance: &mut Chance, delays: &[Duration]| {
        let mut cable = cable(chance, delays);
        if stopped != Stopped::Nothing {
            cable.serialisation = Serialisation::StoreAndForward;
        }
        if stopped == Stopped::Classes {
            cable.queue = classes(cable.queue.clone(), cable.queue);
        }
        cable
    };
    let (host_up, host_down) = (cable(chance, &delays), cable(chance, &delays));
    // Switches without delay between them are in one domain.
    let fabric = cable(chance, &[us(1), us(5), us(30), Duration::ZERO]);
    let host = drawn_host(chance);
    let mut network = if chance.below(2) == 0 {
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
    };
    add_features(&mut network, stopped, chance);
    network
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
    let mut chance = Chance::new(seed);
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
        let mut cc = Cc::by_name(names[chance.below(4) as usize]).expect("it is built in");
        if cc.algorithm.name() == "dctcp" {
            cc.algorithm.set_param(&mut cc.params, "plb", "on").expect("on or off");
        }
        let dscp = chance.below(2) as u8;
        Flow {
            from,
            to,
            traffic,
            stop: stop.filter(|_| chance.below(2) == 0),
            start: at_us(chance.below(1000)),
            cc,
            group: index as u32,
            peer_cc: None,
            first_write: None,
            read_at_bytes: 1,
            base_rtt: None,
            dscp,
            peer_dscp: dscp,
            max_pacing_rate: None,
            sampled: true,
        }
    });
    let flows = flows.collect();
    let pings = (0..chance.below(3)).map(|number| {
        let (from, to) = pair(&mut chance);
        Ping {
            from,
            to,
            start: at_us(chance.below(50)),
            interval: us(20),
            wire_bytes: 64,
            ecn: knee_queue::Ecn::NotEct,
            dscp: 0,
            one_way_until: (number == 1).then_some(at_ms(4)),
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

/// A run whose switches without hosts can be divided by their ports: nothing spans these, and the load is even.
fn even(seed: u64) -> Run {
    let mut run = run(seed);
    let network = &mut run.network;
    network.buffers.clear();
    network.flow_control = None;
    network.ports.clear();
    network.balance.clear();
    let hosts: Vec<u32> = (0..)
        .zip(&network.nodes)
        .filter(|(_, node)| node.host.is_some())
        .map(|(number, _)| number)
        .collect();
    let step = 1 + seed as usize % (hosts.len() - 1);
    let to = hosts.iter().cycle().skip(step);
    let like = run.flows.swap_remove(0);
    run.flows = hosts
        .iter()
        .zip(to)
        .map(|(from, to)| Flow { from: *from, to: *to, ..like.clone() })
        .collect();
    run
}

fn on(threads: usize, run: &Run) -> Outcome {
    knee_sim::simulate_on(run, threads).expect("the run is valid")
}

/// Parts first: a difference is then short to read.
fn check_equal(one: &Outcome, many: &Outcome) -> Result<(), TestCaseError> {
    prop_assert_eq!(one.end, many.end);
    for (one, many) in one.flows.iter().zip(&many.flows) {
        prop_assert_eq!(format!("{one:?}"), format!("{many:?}"));
    }
    prop_assert_eq!(one.work, many.work);
    prop_assert_eq!(format!("{:?}", one.host_counts), format!("{:?}", many.host_counts));
    for (one, many) in one.queues.iter().zip(&many.queues) {
        prop_assert_eq!(format!("{one:?}"), format!("{many:?}"));
    }
    prop_assert!(format!("{one:?}") == format!("{many:?}"), "the outcomes differ");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn any_number_of_domains_gives_the_same_bytes(seed in any::<u64>(), domains in 2usize..9) {
        let run = run(seed);
        let (many, loads) = knee_sim::simulate_in_turns(&run, domains).expect("the run is valid");
        let events = loads.iter().flat_map(|loads| &loads.events).flatten();
        let events: u64 = events.map(|count| u64::from(*count)).sum();
        prop_assert!(loads.is_none() || events > 0);
        check_equal(&on(1, &run), &many)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 50, ..ProptestConfig::default() })]
    #[test]
    fn switches_in_several_domains_give_the_same_bytes(seed in any::<u64>(), domains in 2usize..5) {
        let run = even(seed);
        let (many, _) = knee_sim::simulate_in_turns(&run, domains).expect("the run is valid");
        check_equal(&on(1, &run), &many)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]
    #[test]
    fn any_number_of_threads_gives_the_same_bytes(seed in any::<u64>(), threads in 2usize..7) {
        // Short: more threads than cores wait for each other in each window.
        let run = Run { end: at_us(1500), ..run(seed) };
        check_equal(&on(1, &run), &on(threads, &run))?;
        let even = Run { end: at_us(1500), ..even(seed) };
        check_equal(&on(1, &even), &on(threads, &even))?;
    }
}

#[test]
fn switches_are_in_several_domains_in_the_runs_above() {
    let is_split = |seed: &u64| {
        let (_, loads) = knee_sim::simulate_in_turns(&even(*seed), 2).expect("the run is valid");
        loads.is_some_and(|loads| loads.split_switches > 0)
    };
    let count = (0..40).filter(is_split).count();
    assert!(count > 10, "{count} of 40");
}

#[test]
fn the_runs_above_have_the_features_that_they_are_about() {
    let (mut pauses, mut class_pauses, mut rehashes, mut interrupts) = (0, 0, 0, 0);
    let (mut cpu_ns, mut in_buffers, mut behind_ports, mut trims) = (0, 0, 0, 0);
    for seed in 0..40 {
        let run = run(seed);
        let outcome = on(1, &run);
        let links = run.network.links.len() as u32;
        for queue in &outcome.queues {
            let frames = queue.pause.as_ref().map_or(0, |pause| pause.frames);
            *(if queue.part.is_some() { &mut class_pauses } else { &mut pauses }) += frames;
            trims += queue.trimmed_pkts;
            in_buffers += if queue.link >= links { queue.dropped_pkts() } else { 0 };
        }
        for flow in &outcome.flows {
            let counters = flow.counters.complete().expect("all are known");
            let ipv6 = run.network.nodes.iter().any(|it| it.host.as_ref().is_some_and(|h| h.ipv6));
            rehashes += if ipv6 { counters.timeout_rehashes + counters.plb_rehashes } else { 0 };
        }
        for host in &outcome.host_counts {
            interrupts += host.received.interrupts.unwrap_or(0);
            cpu_ns += host.received.cpu_ns.unwrap_or(0);
        }
        behind_ports += run.network.ports.len();
    }
    let seen = [pauses, class_pauses, rehashes, interrupts, cpu_ns, in_buffers, trims];
    assert!(seen.iter().all(|count| *count > 5) && behind_ports > 5, "{seen:?} {behind_ports}");
}
