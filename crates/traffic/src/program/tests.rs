//! The program under a kernel that is made up: time passes where it waits, and sockets do what a test says.

use alloc::string::ToString as _;
use core::convert::Infallible;
use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::{AGAIN, FlowPlan, Opened, PingPlan, PingSocket, Pool, Schedule, Sequence, Series};

const MS: u64 = 1_000_000;
const RESET: Errno = Errno(104);

/// Sockets are numbers: listeners 2 f, connecting ones 2 f + 1, accepted ones 1000 + f.
#[derive(Default)]
struct Fake {
    now_ns: u64,
    /// Tokens of sockets that are watched.
    watched: BTreeMap<u64, u64>,
    /// Sockets at which something happens from then on, and stays so, as with level-triggered epoll.
    from_ns: BTreeMap<u64, u64>,
    /// Connecting sockets that fail to connect.
    refused: BTreeSet<u64>,
    /// Sockets from which a reset is read from then on.
    resets_ns: BTreeMap<u64, u64>,
    /// Bytes that sockets can read, and from when, in order.
    reads: BTreeMap<u64, Vec<(u64, u64)>>,
    /// Bytes written, by socket.
    sent: BTreeMap<u64, u64>,
    waits: u32,
}

impl Os for Fake {
    type Socket = u64;
    type Error = Infallible;

    const WRITE_BYTES: u64 = 1 << 20;
    const WRITES_ALL: bool = true;
    const DUE_AT_ONCE: usize = usize::MAX;
    const IS_LATE: bool = false;

    fn open(&mut self, flows: &[FlowPlan]) -> Result<Vec<Opened<u64>>, Infallible> {
        let open = |(flow, at): (&FlowPlan, u64)| Opened {
            listener: flow.to.map(|_| 2 * at),
            connecting: flow.from.map(|_| 2 * at + 1),
        };
        Ok(flows.iter().zip(0..).map(open).collect())
    }

    fn open_ping(&mut self, _ping: &PingPlan) -> Result<PingSocket<u64>, Infallible> {
        unreachable!("there are no pings")
    }

    fn now_ns(&mut self) -> u64 {
        self.now_ns
    }

    fn wait(&mut self, until_ns: u64, _is_urgent: bool, happened: &mut Vec<SocketEvent>) {
        self.waits += 1;
        assert!(self.waits < 1000, "it waits for ever");
        let reads = |socket: &u64| Some(self.reads.get(socket)?.first()?.0);
        let begins = |socket: &u64| self.from_ns.get(socket).copied().or_else(|| reads(socket));
        let first_ns = self.watched.keys().filter_map(begins).min().unwrap_or(u64::MAX);
        self.now_ns = self.now_ns.max(first_ns.min(until_ns));
        for (socket, token) in &self.watched {
            if begins(socket).is_some_and(|at_ns| at_ns <= self.now_ns) {
                happened.push(SocketEvent { token: *token, events: events::IN | events::OUT });
            }
        }
    }

    fn watch(&mut self, socket: &u64, token: u64, _: u32, _: bool) -> Result<(), Errno> {
        self.watched.insert(*socket, token);
        Ok(())
    }

    fn ignore(&mut self, socket: &u64) {
        self.watched.remove(socket);
    }

    fn connect(&mut self, socket: &u64, _to: SocketAddr) -> Result<bool, Errno> {
        if self.refused.contains(socket) { Err(Errno(111)) } else { Ok(true) }
    }

    fn connected(&mut self, _socket: &u64) -> Result<(), Errno> {
        Ok(())
    }

    fn accept(&mut self, listener: &u64, _flow: &FlowPlan) -> Result<Option<u64>, Errno> {
        Ok(Some(1000 + listener / 2))
    }

    fn send(&mut self, socket: &u64, bytes: u64, _more: bool) -> Result<u64, Errno> {
        *self.sent.entry(*socket).or_default() += bytes;
        // What has no end is not taken without end.
        if self.sent[socket] > 8 << 20 { Err(AGAIN) } else { Ok(bytes) }
    }

    fn receive(&mut self, socket: &u64) -> Result<u64, Errno> {
        let reads = self.reads.get_mut(socket).filter(|all| !all.is_empty());
        if let Some(all) = reads.filter(|all| all[0].0 <= self.now_ns) {
            return Ok(all.remove(0).1);
        }
        let is_reset = self.resets_ns.get(socket).is_some_and(|at_ns| *at_ns <= self.now_ns);
        Err(if is_reset { RESET } else { AGAIN })
    }

    fn set_low_water(&mut self, _socket: &u64, _bytes: u32) -> Result<(), Errno> {
        Ok(())
    }

    fn acknowledge(&mut self, _socket: &u64) {}

    fn say(&self, why: Errno) -> String {
        why.0.to_string()
    }

    fn info(&mut self, _socket: &u64) -> Vec<u8> {
        Vec::new()
    }

    fn algorithm(&mut self, _socket: &u64) -> String {
        String::new()
    }

    fn send_ping(&mut self, _socket: &u64, _packet: &[u8]) {}

    fn receive_ping(&mut self, _socket: &u64, _to: &mut [u8]) -> Option<(usize, Option<u64>)> {
        None
    }
}

fn flow(flow: u32, traffic: Traffic) -> FlowPlan {
    let address = [10, 0, 0, 1].into();
    FlowPlan {
        flow,
        from: Some(0),
        to: Some(1),
        from_address: address,
        to_address: address,
        from_port: 0,
        port: 1000,
        algorithm: String::new(),
        peer_algorithm: String::new(),
        start_ns: 10 * MS,
        first_write_ns: None,
        stop_ns: None,
        traffic,
        read_at_bytes: 1,
        sampled: false,
        dscp: 0,
        peer_dscp: 0,
        max_pacing_rate: None,
    }
}

const ENDLESS: Traffic = Traffic::Bulk { bytes: None };
const REQUESTS: Traffic = Traffic::Rpc { request_bytes: 7, response_bytes: 7, count: None };

fn plan(flows: Vec<FlowPlan>) -> TrafficPlan {
    TrafficPlan { end_ns: 1000 * MS, flows, ..TrafficPlan::default() }
}

fn program(plan: TrafficPlan, os: Fake) -> Program<Fake> {
    prepare(plan, os).unwrap_or_else(|why| panic!("{why:?}"))
}

fn refusal(plan: TrafficPlan) -> String {
    match prepare(plan, Fake::default()) {
        Err(Fault::Plan(why)) => why,
        other => panic!("{:?}", other.err()),
    }
}

#[test]
fn a_connection_that_comes_when_its_flow_is_over_is_told_of_no_more() {
    // It fails to connect, and somebody comes to its listener later; that is told until it is taken.
    let os = Fake { refused: [1].into(), from_ns: [(0, 50 * MS)].into(), ..Fake::default() };
    let mut program = program(plan(vec![flow(0, ENDLESS)]), os);
    let report = program.run(|| false);
    assert_eq!(report.end_ns, 1000 * MS);
    assert_eq!(report.sides[0].error.as_deref(), Some("111"));
    assert!(program.os().watched.is_empty() && program.listeners().next().is_none());
}

#[test]
fn one_of_a_set_that_has_failed_sends_no_request() {
    // Both are connected; the first is reset before the second may write.
    let mut flows = [0, 1].map(|n| flow(n, REQUESTS)).to_vec();
    flows[1].first_write_ns = Some(40 * MS);
    let schedule = Schedule { together: vec![vec![0, 1]], ..Schedule::default() };
    let os = Fake {
        from_ns: [(0, 0), (1000, 20 * MS)].into(),
        resets_ns: [(1000, 20 * MS)].into(),
        ..Fake::default()
    };
    let mut program = program(TrafficPlan { schedule, ..plan(flows) }, os);
    program.run(|| false);
    assert_eq!(program.os().sent, [(3, 7)].into());
}

#[test]
fn with_one_clock_a_connection_that_fails_before_its_stop_has_failed() {
    let run = |from: Option<u32>| {
        let stopped = FlowPlan { from, stop_ns: Some(100 * MS), ..flow(0, ENDLESS) };
        let os = Fake {
            from_ns: [(0, 0), (1000, 80 * MS)].into(),
            resets_ns: [(1000, 80 * MS)].into(),
            ..Fake::default()
        };
        let report = program(plan(vec![stopped]), os).run(|| false);
        let side = report.sides.into_iter().find(|side| side.listens).expect("it is here");
        (side.stopped_ns, side.error)
    };
    assert_eq!(run(Some(0)), (None, Some("104".to_string())));
    // The other side may have stopped it, by a clock that is ahead.
    assert_eq!(run(None), (Some(80 * MS), None));
}

#[test]
fn an_impossible_schedule_is_refused() {
    let said = |flows: &[u32], together: &[u32], stop_ns| {
        let sequence = Sequence { flows: flows.to_vec(), parallel: 1 };
        let series = vec![Series { rounds: vec![vec![sequence]] }];
        let schedule =
            Schedule { series, together: vec![together.to_vec()], ..Schedule::default() };
        let mut all = [0, 1].map(|n| flow(n, Traffic::Bulk { bytes: Some(1) })).to_vec();
        all[1].stop_ns = stop_ns;
        refusal(TrafficPlan { schedule, ..plan(all) })
    };
    assert!(said(&[0, 2], &[], None).contains("is not in the plan"));
    assert!(said(&[0], &[9], None).contains("is not in the plan"));
    assert!(said(&[0, 0], &[], None).contains("twice"));
    assert!(said(&[0], &[0], None).contains("twice"));
    assert!(said(&[0, 1], &[], Some(MS)).contains("remove its stop time"));
}

#[test]
fn the_wait_of_a_request_for_its_connection_counts_in_its_latency() {
    let mut plan = plan(vec![flow(3, REQUESTS)]);
    plan.schedule.pools = vec![Pool {
        flows: vec![0],
        // Before there is a connection, on a free one, and while that is busy. The fourth is never answered.
        arrivals_ns: vec![5 * MS, 20 * MS, 21 * MS, 40 * MS],
        response_bytes: vec![7, 14],
    }];
    let answers = vec![(12 * MS, 7), (25 * MS, 10), (26 * MS, 4), (30 * MS, 7)];
    let os = Fake { reads: BTreeMap::from([(1, answers)]), ..Fake::default() };
    let mut program = program(plan, os);
    let report = program.run(|| false);
    let wanted = [(3, 5 * MS, 7 * MS), (3, 20 * MS, 6 * MS), (3, 21 * MS, 9 * MS)];
    assert_eq!((report.rpcs.as_slice(), report.late_ns), (&wanted[..], 0));
    assert_eq!(program.os().sent[&1], 4 * 7);
}

#[test]
fn a_connection_that_is_refused_leaves_its_requests_to_the_others() {
    let mut plan = plan(vec![flow(0, REQUESTS), flow(1, REQUESTS)]);
    let arrivals_ns = vec![20 * MS, 30 * MS];
    plan.schedule.pools = vec![Pool { flows: vec![0, 1], arrivals_ns, response_bytes: Vec::new() }];
    let reads = BTreeMap::from([(3, vec![(21 * MS, 7), (32 * MS, 7)])]);
    let os = Fake { refused: BTreeSet::from([1]), reads, ..Fake::default() };
    let report = program(plan, os).run(|| false);
    assert_eq!(report.rpcs, [(1, 20 * MS, MS), (1, 30 * MS, 2 * MS)]);
}

#[test]
fn impossible_pools_are_refused() {
    let said = |flows: &[u32], traffic, size: u64| {
        let mut plan = plan(vec![flow(5, traffic)]);
        let pool = Pool { flows: flows.to_vec(), arrivals_ns: vec![1], response_bytes: vec![size] };
        plan.schedule.pools = vec![pool];
        refusal(plan)
    };
    assert!(said(&[1], REQUESTS, 1).contains("flow 1 has requests but is not in the plan"));
    assert!(said(&[0], ENDLESS, 1).contains("flow 5 has requests but does not exchange any"));
    assert!(said(&[0], REQUESTS, 0).contains("sizes of answers must not be 0"));
}
