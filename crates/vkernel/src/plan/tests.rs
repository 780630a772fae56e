//! Tests of the plans of networks and traffic, and of refusals.

use knee_queue::time::{Duration, Rate, Time};
use knee_queue::{
    ClassConfig, ClassService, ClassesConfig, Condition, DropTailConfig, Limit, MarkAt, MarkWhen,
    NotEctAbove, QueueConfig, StepConfig, Threshold,
};
use knee_run::spec::{
    Adaptive, Balance, ByRate, Cc, Coalesce, CoalescingPort, CpuCosts, Dim, DimMode, Flow,
    FlowControl, HostConfig, LinkChange, LinuxVersion, Network, NewState, Order, Ping, Sampling,
    Schedule, Serialisation, Stops, SwitchBalance, Thresholds, Traffic,
};
use knee_run::topology::{Cable, LeafSpine, ParkingLot, Star};

use super::*;
use crate::guest::Step;
use std::sync::Arc;

fn cable(queue: QueueConfig) -> Cable {
    Cable { delay: Duration::from_us(20), ..Cable::new(Rate::from_bps(1_000_000_000), queue) }
}

fn drop_tail() -> QueueConfig {
    QueueConfig::DropTail(DropTailConfig { limit: Limit::Bytes(757_000) })
}

fn step() -> QueueConfig {
    QueueConfig::Step(StepConfig {
        limit: Limit::Bytes(757_000),
        threshold: Threshold::Pkts(10),
        mark_at: MarkAt::AtLeast,
        when: MarkWhen::Enqueue,
        not_ect: NotEctAbove::Queue,
    })
}

/// Returns a network of two hosts at a switch whose ports have this queue.
fn star(down: QueueConfig) -> Network {
    let host = HostConfig::new(LinuxVersion(6, 1));
    let hosts = ["a", "b"].map(|name| (name.to_owned(), host.clone())).to_vec();
    Star { hosts, up: cable(drop_tail()), down: Cable { sampled: true, ..cable(down) } }.build()
}

fn flow(algorithm: &str) -> Flow {
    Flow {
        group: 0,
        from: 0,
        to: 1,
        cc: Cc::by_name(algorithm).unwrap(),
        peer_cc: None,
        start: Time::from_ms(1),
        first_write: None,
        stop: None,
        traffic: Traffic::Bulk { bytes: Some(10_000) },
        read_at_bytes: 65_536,
        sampled: true,
        base_rtt: None,
        dscp: 0,
        peer_dscp: 0,
        max_pacing_rate: None,
    }
}

fn run_on(network: Network) -> Run {
    Run {
        seed: 1,
        end: Time::from_ms(100),
        until_done: true,
        network,
        flows: vec![flow("dctcp")],
        pings: Vec::new(),
        sampling: Sampling { queues: Some(Duration::from_ms(1)), ..Sampling::default() },
        schedule: Schedule::default(),
    }
}

fn plan(run: &Run) -> Result<Plan, String> {
    Plan::new(run, Algorithms::Ours, "6.1").map_err(|why| why.to_string())
}

/// Returns the requests to the kernel in a namespace, in order.
fn asked_in(plan: &Plan, wanted: u32) -> Vec<&str> {
    let steps = plan.orders.steps.iter().filter_map(|step| match step {
        Step::Netlink { namespace, what, .. } if *namespace == wanted => Some(&**what),
        _ => None,
    });
    steps.collect()
}

#[test]
fn a_star_is_two_hosts_and_a_switch_with_a_device_for_each_link() {
    let plan = plan(&run_on(star(step()))).unwrap();
    assert_eq!((plan.orders.namespaces, plan.orders.hosts, &plan.hosts[..]), (3, 2, &[0, 1][..]));
    let of_host = [
        "the device of link a-switch",
        "the queue of link a-switch",
        "address 198.18.0.1",
        "a host's route",
    ];
    assert_eq!(asked_in(&plan, 0), of_host);
    let of_switch = [
        "the device of link switch-a",
        "the queue of link switch-a",
        "the device of link switch-b",
        "the queue of link switch-b",
        "a route to 198.18.0.1",
        "a route to 198.18.0.2",
    ];
    assert_eq!(asked_in(&plan, 2), of_switch);
    let sampled: Vec<_> = plan.queues.iter().map(|queue| (queue.link, queue.discipline)).collect();
    assert_eq!(sampled, [(1, Discipline::Step), (3, Discipline::Step)]);
}

#[test]
fn a_token_bucket_is_above_the_queue_and_its_device_has_no_rate() {
    let mut network = star(drop_tail());
    network.links[0].serialisation = Serialisation::TokenBucket { burst_bytes: 1600 };
    let plan = plan(&run_on(network)).unwrap();
    let asked = asked_in(&plan, 0);
    assert_eq!(asked[1..3], ["the token bucket of link a-switch", "the queue of link a-switch"]);
}

#[test]
fn a_flow_has_its_addresses_ports_and_algorithms() {
    let mut run = run_on(star(drop_tail()));
    run.flows[0].peer_cc = Some(Cc { is_kernels_own: true, ..Cc::by_name("cubic").unwrap() });
    run.flows[0].dscp = 10;
    Arc::make_mut(run.network.nodes[1].host.as_mut().unwrap()).base_rtt =
        Some(Duration::from_us(70));
    let plan = plan(&run).unwrap();
    let flow = &plan.orders.traffic.flows[0];
    assert_eq!((&*flow.algorithm, &*flow.peer_algorithm), ("knee_dctcp", "cubic"));
    assert_eq!((flow.from_port, flow.port, flow.dscp), (40_000, 10_000, 10));
    assert_eq!(plan.orders.base_rtts_us, [(10_000, 70)]);
    let addresses = [flow.from_address, flow.to_address].map(|address| address.to_string());
    assert!(addresses[0].ends_with(".1") && addresses[1].ends_with(".2"), "{addresses:?}");
    assert_eq!(
        (plan.chosen.own_name("knee_dctcp"), plan.chosen.own_name("cubic")),
        ("dctcp", "cubic")
    );
}

#[test]
fn what_is_lost_at_random_is_lost_above_the_queue() {
    let mut network = star(drop_tail());
    network.links[1].loss = 0.01;
    let plan = plan(&run_on(network)).unwrap();
    let asked = asked_in(&plan, 2);
    assert_eq!(asked[..2], ["the device of link switch-a", "the way into link switch-a"]);
    let looked_at = plan.queues.iter().zip(&plan.orders.queues);
    let looked_at: Vec<_> =
        looked_at.map(|(queue, order)| (queue.link, queue.discipline, order.only_counts)).collect();
    let wanted =
        [(1, Discipline::Fifo, false), (1, Discipline::Entry, true), (3, Discipline::Fifo, false)];
    assert_eq!(looked_at, wanted);
}

#[test]
fn classes_are_bands_of_ets_the_strict_ones_first() {
    let class = |name: &str, service| ClassConfig {
        name: name.to_owned(),
        condition: Condition::default(),
        service,
        queue: drop_tail(),
    };
    let mut classes = ClassesConfig {
        classes: vec![
            class("a", ClassService::Weighted(2)),
            class("b", ClassService::Strict),
            class("c", ClassService::Weighted(1)),
        ],
        quantum_bytes: 1514,
    };
    classes.classes[0].condition.dscps = Some(2);
    classes.classes[1].condition.acks = true;
    // Each condition holds DSCPs, pure ACKs, length, and the priority that selects its band.
    let bytes = queues::conditions(&classes);
    let priority = |at: usize| u32::from_ne_bytes(*bytes[24 * at + 16..].first_chunk().unwrap());
    assert_eq!(bytes.len(), 72);
    assert_eq!([0, 1, 2].map(priority), [0x10_0002, 0x10_0001, 0x10_0003]);
    assert_eq!((bytes[0], bytes[24 + 8]), (2, 1));
    let plan = plan(&run_on(star(QueueConfig::Classes(classes)))).unwrap();
    assert_eq!(asked_in(&plan, 2)[1], "the way into link switch-a");
    let parts: Vec<_> =
        plan.queues.iter().take(4).map(|queue| (queue.part, queue.discipline)).collect();
    let fifo = |part| (Some(part), Discipline::Fifo);
    assert_eq!(parts, [fifo(0), fifo(1), fifo(2), (None, Discipline::Entry)]);
}

#[test]
fn parameters_go_to_the_kernels_command_line_and_are_of_all_flows() {
    let mut run = run_on(star(drop_tail()));
    let cc = &mut run.flows[0].cc;
    cc.algorithm.set_param(&mut cc.params, "shift_g", "5").unwrap();
    assert_eq!(plan(&run).unwrap().kernel_arguments, ["knee_dctcp.shift_g=5"]);
    run.flows.push(flow("dctcp"));
    let why = plan(&run).unwrap_err();
    assert!(why.starts_with("flows under dctcp with different parameters"), "{why}");
    let why = Plan::new(&run, Algorithms::Kernels, "6.1").unwrap_err().to_string();
    assert!(why.contains("takes no parameters"), "{why}");
}

/// A change to a run.
type Change = fn(&mut Run);

#[test]
fn a_run_says_in_what_it_is_not_the_simulators() {
    let says = |run: &Run, words: &str| differences(run).iter().any(|line| line.starts_with(words));
    let mut run = run_on(star(drop_tail()));
    assert!(!says(&run, "queue") && !says(&run, "cable.queue") && !says(&run, "of equal ways"));
    Arc::make_mut(run.network.nodes[0].host.as_mut().unwrap()).fq = true;
    assert!(says(&run, "cable.queue of a host with fq, with a limit in bytes"));
    let one = ClassConfig {
        name: "all".into(),
        condition: Condition::default(),
        service: ClassService::Strict,
        queue: step(),
    };
    let classes = ClassesConfig { classes: vec![one], quantum_bytes: 1514 };
    run.network.links[3].queue = QueueConfig::Classes(classes);
    assert!(
        says(&run, "queue.k in packets")
            && says(&run, "queue.kind = \"step\" or \"red\": a packet")
    );

    let host = HostConfig::new(LinuxVersion(6, 1));
    let cable = cable(drop_tail());
    let row = ParkingLot {
        hops: 2,
        through: 1,
        cross: 1,
        host: host.clone(),
        access: cable.clone(),
        bottleneck: cable.clone(),
        back: cable.clone(),
    };
    assert!(!says(&run_on(row.build()), "of equal ways"));
    let spines = |spines| LeafSpine {
        leaves: 2,
        spines,
        hosts_per_leaf: 1,
        host: host.clone(),
        host_up: cable.clone(),
        host_down: cable.clone(),
        fabric: cable.clone(),
    };
    assert!(!says(&run_on(spines(1).build()), "of equal ways"));
    assert!(says(&run_on(spines(2).build()), "of equal ways"));
}

#[test]
fn a_pacing_queue_has_room_for_as_many_full_packets() {
    let place = queues::Place::of_link(1, 0);
    let asked = |limit| queues::fq(place, limit, 1514).requests;
    assert_eq!(asked(Limit::Bytes(3100)), asked(Limit::Pkts(2)));
    assert_eq!(asked(Limit::Bytes(1)), asked(Limit::Pkts(1)));
    assert_ne!(asked(Limit::Bytes(u64::MAX)), asked(Limit::Pkts(u32::MAX)));
}

fn host(run: &mut Run) -> &mut HostConfig {
    Arc::make_mut(run.network.nodes[0].host.as_mut().unwrap())
}

#[test]
fn what_the_kernel_cannot_do_is_refused_in_one_sentence() {
    let cases: [(&str, Change); 21] = [
        ("a: linux = \"6.12\"", |run| host(run).linux = LinuxVersion(6, 12)),
        ("ipv6", |run| {
            run.network.nodes.iter_mut().for_each(|node| {
                if let Some(host) = &mut node.host {
                    Arc::make_mut(host).ipv6 = true;
                }
            })
        }),
        ("sample.links", |run| run.sampling.links = Some(Duration::from_ms(1))),
        ("gro_window", |run| host(run).gro_window = Duration::from_us(10)),
        ("does not adapt", |run| {
            let adaptive = Some(Adaptive::Rate(ByRate::default()));
            let time = Duration::from_us(8);
            host(run).coalesce = Some(Coalesce { adaptive, ..Coalesce::fixed(None, time) });
        }),
        ("counts in us", |run| {
            let dim = Dim { us: Duration::from_us(10), ..Dim::new(DimMode::Cqe) };
            host(run).coalesce = Some(dim.coalesce());
        }),
        ("no CPU", |run| host(run).cpu = Some(CpuCosts::default())),
        ("rto_min of 5500 us", |run| host(run).rto_min = Duration::from_us(5500)),
        ("tcp_syn_linear_timeouts", |run| host(run).sysctls.syn_linear_timeouts = Some(2)),
        ("base_rtt: the kernel's own nv", |run| {
            run.flows[0].cc = Cc { is_kernels_own: true, ..Cc::by_name("nv").unwrap() };
            run.flows[0].base_rtt = Some(Duration::from_us(100));
        }),
        ("link switch-a: loss_per = \"burst\"", |run| {
            run.network.links[1].loss = 0.01;
            run.network.links[1].loses_bursts = true;
        }),
        ("link a-switch: queue of a host with fq", |run| {
            host(run).fq = true;
            run.network.links[0].queue = step();
        }),
        ("marks at dequeue", |run| {
            let QueueConfig::Step(config) = &mut run.network.links[1].queue else { unreachable!() };
            config.when = MarkWhen::Dequeue;
        }),
        ("none back", |run| {
            run.network.links.pop();
        }),
        ("network.flow_control", |run| {
            run.network.flow_control = Some(FlowControl {
                switches: None,
                stops: Stops::Links(Thresholds { xoff_bytes: 100_000, xon_bytes: 50_000 }),
                reaction: Duration::ZERO,
                quanta: 65_535,
                lossless: false,
            });
        }),
        ("network.change", |run| {
            let change = LinkChange { at: Time::ZERO, link: 0, to: NewState::Down };
            run.network.changes.links.push(change);
        }),
        ("network.balance", |run| {
            let balance = Balance::Spray(Order::Random);
            let switch = run.network.links[0].to;
            run.network.balance.push(SwitchBalance { switch, balance });
        }),
        ("network.coalesce", |run| {
            let coalesce = Coalesce::fixed(None, Duration::from_us(140));
            run.network.ports.push(CoalescingPort { link: 0, coalesce });
        }),
        ("pings of 20 bytes", |run| {
            run.pings.push(Ping {
                from: 0,
                to: 1,
                start: Time::ZERO,
                interval: Duration::from_ms(1),
                wire_bytes: 20,
                ecn: Default::default(),
                dscp: 0,
                one_way_until: None,
            });
        }),
        ("traffic of kind cbr", |run| {
            run.pings.push(Ping {
                from: 0,
                to: 1,
                start: Time::ZERO,
                interval: Duration::from_ms(1),
                wire_bytes: 98,
                ecn: Default::default(),
                dscp: 0,
                one_way_until: Some(Time::from_ms(5)),
            });
        }),
        ("has no bbr3 of its own", |run| {
            run.flows[0].cc = Cc { is_kernels_own: true, ..Cc::by_name("bbr3").unwrap() };
        }),
    ];
    for (wanted, change) in cases {
        let mut run = run_on(star(step()));
        assert!(plan(&run).is_ok());
        change(&mut run);
        let why = plan(&run).expect_err(wanted);
        assert!(why.contains(wanted) && !why.contains('\n'), "{wanted}: {why}");
    }
}

#[test]
fn a_file_is_a_module_with_a_name_and_parameters_of_its_own() {
    let tests = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests");
    let cc = |file: &str, params: &[(&str, &str)]| {
        let path = format!("{tests}/{file}");
        let mut cc = Cc::new(knee_algo::module::load(std::path::Path::new(&path)).unwrap());
        for (name, value) in params {
            cc.algorithm.set_param(&mut cc.params, name, value).unwrap();
        }
        cc
    };
    let mut run = run_on(star(drop_tail()));
    run.flows = vec![flow("reno"), flow("reno"), flow("reno")];
    run.flows[0].cc = cc("algorithms/gentle.c", &[("keep", "700")]);
    run.flows[1].cc = cc("modules/tcp_reno_m.c", &[("beta", "-1")]);
    let planned = plan(&run).unwrap();
    let orders = planned.orders.modules.iter();
    let orders: Vec<_> = orders.map(|one| (&*one.path, &*one.parameters)).collect();
    assert_eq!(
        orders,
        [("/module0", "knee_name=knee_file0 keep=700"), ("/module1", "knee_name=file1 beta=-1")]
    );
    let names: Vec<_> =
        planned.orders.traffic.flows.iter().map(|flow| flow.algorithm.as_str()).collect();
    assert_eq!(names, ["knee_file0", "file1", "knee_reno"]);
    assert_eq!(planned.chosen.own_name("file1"), "tcp_reno_m");
    assert!(planned.kernel_arguments.is_empty(), "{:?}", planned.kernel_arguments);
    run.flows[2].cc = cc("algorithms/gentle.c", &[]);
    let why = plan(&run).unwrap_err();
    assert!(why.contains("flows under gentle with different parameters"), "{why}");
    run.flows[2].cc = Cc::by_name("reno").unwrap();
    run.flows[0].base_rtt = Some(Duration::from_us(70));
    let why = plan(&run).unwrap_err();
    assert!(why.starts_with("base_rtt: a file that is put into"), "{why}");
}

#[test]
fn the_kernels_own_has_its_own_name_and_the_source_of_a_module_stands_for_it() {
    let names = |cc: Cc, algorithms| {
        let mut run = run_on(star(drop_tail()));
        run.flows = vec![Flow { cc, ..flow("reno") }];
        let plan = Plan::new(&run, algorithms, "6.1").map_err(|why| why.to_string())?;
        let kernel_name = plan.chosen.name(0, false).to_owned();
        let own_name = plan.chosen.own_name(&kernel_name);
        Ok::<_, String>((kernel_name, own_name))
    };
    let hybla = Cc::kernels_own("hybla").unwrap();
    assert_eq!(names(hybla, Algorithms::Ours), Ok(("hybla".to_owned(), "hybla")));
    let module = |name: &str| {
        let path = format!("{}/../../tests/modules/{name}.c", env!("CARGO_MANIFEST_DIR"));
        Cc::new(knee_algo::module::load(std::path::Path::new(&path)).unwrap())
    };
    // All back ends report the same name, and the kernel uses its own.
    let own = names(module("tcp_cubic"), Algorithms::Kernels);
    assert_eq!(own, Ok(("cubic".to_owned(), "tcp_cubic")));
    let why = names(module("tcp_model"), Algorithms::Kernels).unwrap_err();
    assert!(why.contains("has no model of its own") && why.contains("hybla"), "{why}");
}
