//! Two agents on two hosts of a test bed, as two machines have them; it needs root.
#![allow(clippy::unwrap_used, reason = "it is a test")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::num::NonZeroU32;
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use knee_lab::Error;
use knee_lab::traffic::agent::{
    AgentCommand, Answer, BaseRtt, Hello, Preparation, Round, ToLoad, clock_offset, serve,
};
use knee_lab::traffic::{FlowPlan, Traffic, TrafficPlan, TrafficReport};
use knee_testbed::net::{Namespace, Pair, Path};
use rustix::time::{ClockId, clock_gettime};

const MS: u64 = 1_000_000;

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// An agent in a namespace of its own, and the lines to and from it.
struct Machine {
    commands: UnixStream,
    answers: BufReader<UnixStream>,
    serving: JoinHandle<Result<(), Error>>,
}

impl Machine {
    fn start(namespace: Namespace) -> (Machine, Hello) {
        let (here, there) = UnixStream::pair().unwrap();
        let serving = std::thread::spawn(move || {
            namespace.run(move || serve(BufReader::new(there.try_clone().unwrap()), there))
        });
        let answers = BufReader::new(here.try_clone().unwrap());
        let mut machine = Machine { commands: here, answers, serving };
        let Answer::Hello(hello) = machine.answer() else { panic!("no hello") };
        (machine, hello)
    }

    fn send(&mut self, command: AgentCommand) {
        writeln!(self.commands, "{}", serde_json::to_string(&command).unwrap()).unwrap();
    }

    fn answer(&mut self) -> Answer {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn report(&mut self) -> TrafficReport {
        match self.answer() {
            Answer::Report(report) => *report,
            other => panic!("{other:?}"),
        }
    }

    fn clock_is_ahead_ns(&mut self) -> (i64, u64) {
        let round = |id| {
            let left_ns = now_ns();
            self.send(AgentCommand::Ping { id });
            let Answer::Pong { id: back, received_ns, sent_ns } = self.answer() else {
                panic!("no pong")
            };
            assert_eq!(back, id);
            Round { left_ns, received_ns, sent_ns, back_ns: now_ns() }
        };
        clock_offset(&(0..10).map(round).collect::<Vec<_>>()).unwrap()
    }

    /// Ends the agent's input.
    fn leave(self) -> Result<(), Error> {
        self.commands.shutdown(std::net::Shutdown::Both).unwrap();
        self.serving.join().unwrap()
    }
}

/// The preparation of one machine; both get the same flows, except for which ends are here.
fn preparation(here: bool, flows: &[FlowPlan], end_ns: u64) -> AgentCommand {
    let held = flows.iter().cloned().map(|flow| FlowPlan {
        from: here.then_some(0),
        to: (!here).then_some(0),
        ..flow
    });
    AgentCommand::Prepare(Box::new(Preparation {
        algorithms: vec![ToLoad {
            kernel_name: if here { &flows[0].algorithm } else { &flows[0].peer_algorithm }.clone(),
            name: "cubic".to_owned(),
            object: None,
            params: vec!["beta=800".to_owned()],
        }],
        base_rtts: vec![BaseRtt {
            flow: 0,
            listens: false,
            base_rtt_us: NonZeroU32::new(100).unwrap(),
        }],
        plan: TrafficPlan {
            end_ns,
            until_done: true,
            flows: held.collect(),
            sample_flows_ns: Some(10 * MS),
            ..TrafficPlan::default()
        },
    }))
}

/// `test` keeps the algorithms of simultaneous tests apart.
fn flow(test: char, flow: u32, traffic: Traffic) -> FlowPlan {
    let name = |side| format!("ka{}{test}{side}", std::process::id());
    FlowPlan {
        flow,
        from: None,
        to: None,
        from_address: [10, 99, 0, 1].into(),
        to_address: [10, 99, 0, 2].into(),
        from_port: 0,
        port: 11_000 + flow as u16,
        algorithm: name('c'),
        peer_algorithm: name('l'),
        start_ns: 10 * MS,
        first_write_ns: None,
        stop_ns: None,
        traffic,
        read_at_bytes: 1,
        sampled: true,
        dscp: 0,
        peer_dscp: 0,
        max_pacing_rate: None,
    }
}

#[test]
fn two_machines_hold_a_side_each() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let Pair { client, server } = Pair::new("reno", Path::default(), Path::default());
    let (mut client, hello) = Machine::start(client);
    let (mut server, _) = Machine::start(server);
    let device = &hello.devices[0];
    assert_eq!((device.name.as_str(), hello.devices.len()), ("knee-c", 1));
    assert!(device.offloads.contains_key("gro") && device.offloads.contains_key("tso"));
    // It is one machine, after all.
    for machine in [&mut client, &mut server] {
        let (ahead_ns, within_ns) = machine.clock_is_ahead_ns();
        assert!(ahead_ns.unsigned_abs() <= within_ns, "{ahead_ns} within {within_ns}");
    }

    let size = 5_000_000;
    let rpc = Traffic::Rpc { request_bytes: 100, response_bytes: 20_000, count: Some(10) };
    let stopped =
        FlowPlan { stop_ns: Some(40 * MS), ..flow('m', 2, Traffic::Bulk { bytes: None }) };
    let flows = [flow('m', 0, Traffic::Bulk { bytes: Some(size) }), flow('m', 1, rpc), stopped];
    // A second run follows on the same lines.
    for end_ns in [20_000 * MS, 10_000 * MS] {
        for (machine, here, listens) in [(&mut server, false, 3), (&mut client, true, 0)] {
            machine.send(preparation(here, &flows, end_ns));
            match machine.answer() {
                Answer::Ready { ports } => assert_eq!(ports.len(), listens),
                other => panic!("{other:?}"),
            }
        }
        let zero_ns = now_ns() + 20 * MS;
        for machine in [&mut server, &mut client] {
            machine.send(AgentCommand::Start { zero_ns });
        }
        // The end of the transfer is seen by one, that of the exchanges by the other; neither knows all.
        for machine in [&mut server, &mut client] {
            assert!(matches!(machine.answer(), Answer::Done {}));
        }
        while now_ns() < zero_ns + 100 * MS {
            std::thread::sleep(Duration::from_millis(5));
        }
        server.send(AgentCommand::Stop {});
        let to = server.report();
        // The connections of the one that has ended are still there.
        std::thread::sleep(Duration::from_millis(20));
        client.send(AgentCommand::Stop {});
        let from = client.report();
        assert!(from.sides.iter().chain(&to.sides).all(|side| side.error.is_none()), "{from:?}");
        assert_eq!((from.sides.len(), to.sides.len()), (3, 3));
        assert_eq!((to.sides[0].read_bytes, from.sides[1].read_bytes), (size, 200_000));
        assert!(to.sides[0].done_ns.is_some() && from.sides[0].done_ns.is_none());
        assert!(from.sides[1].done_ns.is_some() && to.sides[1].done_ns.is_none());
        assert!(from.sides[2].stopped_ns.is_some() && to.sides[2].stopped_ns.is_some());
        assert_eq!(from.rpcs.len(), 10);
        assert_eq!(from.sides[0].algorithm, flows[0].algorithm);
        assert!(from.sides[0].init_called.is_some(), "both look for the init of our algorithm");
        assert!(to.sides[0].init_called.is_some());
        assert!(from.flow_samples.iter().any(|sample| !sample.3.is_empty()), "of our algorithm");
    }
    assert_eq!(client.leave(), Ok(()));
    assert_eq!(server.leave(), Ok(()));
}

#[test]
fn a_machine_that_dies_is_an_error_at_the_other_and_no_hang() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let Pair { client, server } = Pair::new("reno", Path::default(), Path::default());
    let (mut client, _) = Machine::start(client);
    let (mut server, _) = Machine::start(server);
    let flows = [flow('d', 5, Traffic::Bulk { bytes: None })];
    for (machine, here) in [(&mut server, false), (&mut client, true)] {
        machine.send(preparation(here, &flows, 60_000 * MS));
        assert!(matches!(machine.answer(), Answer::Ready { .. }));
    }
    let zero_ns = now_ns() + 10 * MS;
    for machine in [&mut server, &mut client] {
        machine.send(AgentCommand::Start { zero_ns });
    }
    std::thread::sleep(Duration::from_millis(100));
    let begun = Instant::now();
    assert_eq!(client.leave(), Ok(()));
    assert!(begun.elapsed() < Duration::from_secs(5), "it does not wait for the end of the run");
    std::thread::sleep(Duration::from_millis(50));
    server.send(AgentCommand::Stop {});
    let report = server.report();
    assert!(report.sides[0].error.as_ref().unwrap().contains("reset"), "{:?}", report.sides[0]);
    assert!(report.sides[0].read_bytes > 0);
    server.leave().unwrap();
}
