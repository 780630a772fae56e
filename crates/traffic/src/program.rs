//! The program: one thread, one clock.

use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};
use core::mem;
use core::net::SocketAddr;

use crate::event_queue::{Event, EventQueue};
use crate::flow::{Flow, flow_of_token};
use crate::ping::Pinger;
use crate::pools::{Next, PoolState};
use crate::schedule::{Ready, ScheduleState};
use crate::{Errno, Look, Moment, Os, SocketEvent, Traffic, TrafficPlan, TrafficReport, events};

/// Tokens of pings, behind those of flows.
const FIRST_PING: u64 = 1 << 62;
/// Samples whose memory is allocated before the run; more samples allocate during it.
const ROOM: u64 = 1 << 20;
/// Tolerated difference of two machines' clocks: the other side may stop a connection that much earlier than this side.
const CLOCKS_DIFFER_NS: u64 = 50_000_000;

/// A traffic program that is ready: its sockets are open, and it listens. Whatever it still holds is aborted when it is dropped.
pub struct Program<O: Os> {
    os: O,
    /// Without its flows and pings.
    plan: TrafficPlan,
    events: EventQueue,
    schedule: ScheduleState,
    pools: PoolState,
    flows: Vec<Flow<O::Socket>>,
    pings: Vec<Pinger<O::Socket>>,
    /// Transfers of finite size that have not completed, among those whose end this program sees.
    unfinished: usize,
    /// Whether the run ends when `unfinished` is 0.
    ends_when_done: bool,
    is_over: bool,
    report: TrafficReport,
    /// `TCP_INFO` of all connections, at each end of the measured window that has passed.
    window: Vec<Vec<Look>>,
}

/// Reason why [`prepare`] fails.
#[derive(Debug)]
pub enum Fault<E> {
    /// The plan is contradictory.
    Plan(String),
    /// The kernel refused a socket.
    Os(E),
    /// The kernel refused an operation of this flow (index in the run).
    Flow(u32, Errno),
}

/// Opens, binds and listens: after this nothing is left to do but to wait for time 0.
///
/// # Errors
/// If the plan is contradictory or the kernel refuses a socket.
pub fn prepare<O: Os>(mut plan: TrafficPlan, mut os: O) -> Result<Program<O>, Fault<O::Error>> {
    check(&plan).map_or(Ok(()), |why| Err(Fault::Plan(why)))?;
    let opened = os.open(&plan.flows).map_err(Fault::Os)?;
    let schedule = ScheduleState::new(&plan.schedule, plan.flows.len());
    let pools = PoolState::new(&plan.schedule.pools, plan.flows.len());
    let mut flows = Vec::with_capacity(plan.flows.len());
    for ((index, flow), sockets) in mem::take(&mut plan.flows).into_iter().enumerate().zip(opened) {
        let mut flow = Flow::new(index, flow, sockets.connecting, sockets.listener);
        flow.listen(&mut os).map_err(|why| Fault::Flow(flow.plan.flow, why))?;
        if let (true, Some(_), Some(socket)) =
            (flow.plan.sampled, plan.sample_flows_ns, &flow.connecting.socket)
        {
            os.look_into(&flow.plan, socket).map_err(Fault::Os)?;
        }
        flows.push(flow);
    }
    let mut pings = Vec::with_capacity(plan.pings.len());
    for (ping, token) in mem::take(&mut plan.pings).into_iter().zip(FIRST_PING..) {
        let socket = os.open_ping(&ping).map_err(Fault::Os)?;
        os.watch(&socket.socket, token, events::IN, false)
            .map_err(|why| Fault::Plan(format!("ping {}: {}", ping.ping, os.say(why))))?;
        pings.push(Pinger::new(ping, socket));
    }
    let mut program = Program {
        events: EventQueue::default(),
        schedule,
        pools,
        unfinished: flows.iter().filter(|flow| flow.completion_is_seen()).count(),
        ends_when_done: false,
        is_over: false,
        report: TrafficReport::default(),
        window: Vec::new(),
        os,
        plan,
        flows,
        pings,
    };
    program.warm_up();
    Ok(program)
}

/// The reason if the plan is impossible.
fn check(plan: &TrafficPlan) -> Option<String> {
    if let Some(flow) = plan.flows.iter().find(|flow| !flow.traffic.is_possible()) {
        return Some(format!("flow {}: sizes and counts must not be 0", flow.flow));
    }
    if [plan.sample_flows_ns, plan.sample_goodput_ns, plan.sample_queues_ns].contains(&Some(0)) {
        return Some("samples need a period above 0".into());
    }
    if !plan.schedule.is_empty()
        && plan.flows.iter().any(|flow| flow.from.is_none() || flow.to.is_none())
    {
        return Some("flows that wait for others need both their sides in one program".into());
    }
    if !plan.schedule.tasks.is_empty() {
        return Some("messages that wait for others: only the simulator carries them out".into());
    }
    check_schedule(plan)
        .or_else(|| check_pools(plan))
        .or_else(|| plan.pings.iter().find_map(|ping| ping.fault()))
}

/// Checks that flows of the schedule exist, appear once, and have no stop time if they are in a series (it could precede the start).
fn check_schedule(plan: &TrafficPlan) -> Option<String> {
    let rounds = plan.schedule.series.iter().flat_map(|series| &series.rounds).flatten();
    let in_series = rounds.flat_map(|sequence| &sequence.flows).map(|index| (index, true));
    let together = plan.schedule.together.iter().flatten().map(|index| (index, false));
    let mut is_seen = vec![false; plan.flows.len()];
    in_series.chain(together).find_map(|(index, in_series)| {
        let place = *index as usize;
        let Some(flow) = plan.flows.get(place) else {
            return Some(format!("flow {index} waits for others but is not in the plan"));
        };
        if mem::replace(&mut is_seen[place], true) {
            return Some(format!("flow {} is listed twice in the schedule", flow.flow));
        }
        let is_stopped = in_series && flow.stop_ns.is_some();
        is_stopped.then(|| format!("flow {} is part of a series: remove its stop time", flow.flow))
    })
}

/// Checks that requests at times of their own have flows for them, of which the program runs a side.
fn check_pools(plan: &TrafficPlan) -> Option<String> {
    plan.schedule.pools.iter().find_map(|pool| {
        if pool.response_bytes.contains(&0) {
            return Some("sizes of answers must not be 0".into());
        }
        pool.flows.iter().find_map(|index| match plan.flows.get(*index as usize) {
            None => Some(format!("flow {index} has requests but is not in the plan")),
            Some(flow) if !matches!(flow.traffic, Traffic::Rpc { count: None, .. }) => {
                Some(format!("flow {} has requests but does not exchange any", flow.flow))
            }
            Some(_) => None,
        })
    })
}

impl<O: Os> Program<O> {
    // ---- before the run ----

    /// Allocates memory for the samples before the run.
    fn warm_up(&mut self) {
        let periods = |period: Option<u64>| period.map_or(0, |period| self.plan.end_ns / period);
        let sampled = self.flows.iter().filter(|flow| flow.plan.sampled).count() as u64;
        let samples = periods(self.plan.sample_flows_ns).saturating_mul(sampled);
        let goodput = periods(self.plan.sample_goodput_ns).saturating_mul(self.flows.len() as u64);
        self.report.flow_samples.reserve(samples.min(ROOM) as usize);
        self.report.goodput_samples.reserve(goodput.min(ROOM) as usize);
    }

    /// The operating system of the program.
    pub fn os(&mut self) -> &mut O {
        &mut self.os
    }

    /// Listening sockets, with the number of the flow.
    pub fn listeners(&self) -> impl Iterator<Item = (u32, &O::Socket)> {
        self.flows.iter().filter_map(|flow| Some((flow.plan.flow, flow.listener.as_ref()?)))
    }

    // ---- the run ----

    /// Runs it, from time 0, which may be a while from now. It ends as planned, or soon after it is to stop; connections stay as
    /// they are until it is dropped.
    ///
    /// With samples of goodput that go by what was read, bytes count in the period in which they are; a tick comes before
    /// reading, so a late one moves at most what arrived since its moment into the period after it, where others are late by
    /// [`TrafficReport::late_ns`].
    pub fn run(&mut self, is_stopped: impl Fn() -> bool) -> TrafficReport {
        self.set_times();
        let mut happened = Vec::new();
        while !self.is_over && !is_stopped() {
            let (until_ns, is_urgent) = self.events.next();
            happened.clear();
            self.os.wait(until_ns, is_urgent, &mut happened);
            self.handle_due_events();
            for what in &happened {
                if !self.is_over || O::IS_LATE {
                    self.on_event(*what);
                }
            }
        }
        self.finish()
    }

    fn set_times(&mut self) {
        for (index, flow) in self.flows.iter_mut().enumerate() {
            flow.begin_ns = (!self.schedule.waits(index)).then_some(flow.plan.start_ns);
            for (at_ns, event) in [
                (flow.begin_ns, Event::Start(index)),
                (flow.plan.first_write_ns, Event::FirstWrite(index)),
                (flow.plan.stop_ns, Event::Stop(index)),
            ] {
                if let Some(at_ns) = at_ns {
                    self.events.push(at_ns, event);
                }
            }
        }
        for (index, ping) in self.pings.iter().enumerate() {
            let first_ns = ping.plan.start_ns.saturating_add(ping.plan.interval_ns);
            self.events.push(first_ns, Event::Ping(index));
        }
        let window_ns = self.plan.window_ns.into_iter().flatten();
        for (at_ns, event) in [
            (self.plan.sample_flows_ns, Event::SampleFlows),
            (self.plan.sample_goodput_ns, Event::SampleGoodput),
            (self.plan.sample_queues_ns, Event::SampleQueues),
        ]
        .into_iter()
        .filter_map(|(period_ns, event)| Some((period_ns?, event)))
        .chain(window_ns.map(|at_ns| (at_ns, Event::WindowEnd)))
        {
            self.events.push(at_ns, event);
        }
        let first = self.schedule.first();
        self.schedule_starts(first, 0);
        self.events.push(self.plan.end_ns, Event::End);
        let is_seen = |flow: &Flow<_>| !flow.plan.traffic.ends() || flow.completion_is_seen();
        self.ends_when_done =
            self.plan.until_done && self.unfinished > 0 && self.flows.iter().all(is_seen);
    }

    /// Schedules the start of flows that may now begin.
    fn schedule_starts(&mut self, flows: Vec<u32>, at_ns: u64) {
        for index in flows {
            let index = index as usize;
            let Some(flow) = self.flows.get_mut(index) else { continue };
            let begin_ns = at_ns.saturating_add(flow.plan.start_ns);
            flow.begin_ns = Some(begin_ns);
            self.events.push(begin_ns, Event::Start(index));
        }
    }

    fn handle_due_events(&mut self) {
        if !self.os.has_begun() {
            return;
        }
        // Connections have their turn even if there is always more that is due.
        for _ in 0..O::DUE_AT_ONCE {
            if self.is_over {
                return;
            }
            let now_ns = self.os.now_ns();
            let Some((due_ns, event)) = self.events.pop(now_ns) else { return };
            self.report.late_ns = self.report.late_ns.max(now_ns - due_ns);
            match event {
                Event::Start(flow) => self.start(flow),
                Event::FirstWrite(flow) => {
                    if self.flows[flow].is_at_work() {
                        self.begin_writing(flow);
                    }
                }
                Event::Request(pool) => {
                    if self.pools.wakes(pool, now_ns) {
                        self.serve(pool);
                    }
                }
                Event::Stop(flow) => self.stop(flow),
                Event::Ping(ping) => self.send_ping(ping, due_ns),
                Event::SampleFlows => self.sample_flows(due_ns, now_ns),
                Event::SampleGoodput => self.sample_goodput(due_ns),
                Event::SampleQueues => {
                    self.os.record_queues(due_ns, Moment::Sample);
                    self.again(self.plan.sample_queues_ns, due_ns, event);
                }
                Event::WindowEnd => self.look_at_window(due_ns),
                Event::End => self.is_over = true,
            }
        }
    }

    /// Schedules the event again after its period.
    fn again(&mut self, period_ns: Option<u64>, due_ns: u64, event: Event) {
        if let Some(period_ns) = period_ns {
            self.events.push(due_ns.saturating_add(period_ns), event);
        }
    }

    fn on_event(&mut self, what: SocketEvent) {
        if what.token >= FIRST_PING {
            let ping = self.pings.get_mut((what.token - FIRST_PING) as usize);
            if let Some(ping) = ping {
                ping.receive(&mut self.os, &mut self.report.pings);
            }
            return;
        }
        let (index, listens) = flow_of_token(what.token);
        let Some(flow) = self.flows.get_mut(index).filter(|flow| !flow.is_over) else { return };
        let result = match (listens, flow.is_established, &flow.listener) {
            (true, _, Some(_)) => flow.accept(&mut self.os),
            (false, false, _) => return self.on_established(index),
            _ => return self.on_data(index, listens, what.events),
        };
        self.check(index, true, result);
    }

    // ---- connections ----

    fn start(&mut self, index: usize) {
        let Program { os, flows, .. } = self;
        let flow = &mut flows[index];
        let (false, Some(socket)) = (flow.is_over, &flow.connecting.socket) else { return };
        flow.connecting.report.connected_ns = Some(os.now_ns());
        match os.connect(socket, SocketAddr::new(flow.plan.to_address, flow.plan.port)) {
            Ok(true) => self.on_established(index),
            Ok(false) => {
                let result = flow.connecting.wait_for(events::OUT, os);
                self.check(index, false, result);
            }
            Err(why) => self.fail(index, false, why),
        }
    }

    fn on_established(&mut self, index: usize) {
        let Program { os, flows, .. } = self;
        let flow = &mut flows[index];
        let Some(socket) = &flow.connecting.socket else { return };
        if let Err(why) = os.connected(socket) {
            return self.fail(index, false, why);
        }
        flow.is_established = true;
        let now_ns = os.now_ns();
        flow.connecting.report.established_ns = Some(now_ns);
        if flow.plan.first_write_ns.is_none_or(|at_ns| at_ns <= now_ns) {
            return self.begin_writing(index);
        }
        let result = flow.connecting.write(flow.plan.traffic.is_rpc(), os);
        self.check(index, false, result);
    }

    fn on_data(&mut self, index: usize, listens: bool, what: u32) {
        if what & (events::IN | events::ERR | events::HUP) != 0 {
            if listens { self.read_request(index) } else { self.read_response(index) }
        }
        let Program { os, flows, .. } = self;
        let flow = &mut flows[index];
        if what & events::OUT != 0 && !flow.is_over {
            let result = if listens {
                flow.listening.write(true, os)
            } else {
                flow.connecting.write(flow.plan.traffic.is_rpc(), os)
            };
            self.check(index, listens, result);
        }
    }

    fn begin_writing(&mut self, index: usize) {
        if !mem::replace(&mut self.flows[index].writing_begun, true) {
            self.on_ready(index);
        }
    }

    /// The flow is ready for its next request; the request leaves when it has arrived, or when all flows of its set are ready.
    fn on_ready(&mut self, index: usize) {
        if let Some(pool) = self.pools.pool_of(index) {
            self.pools.free(index);
            return self.serve(pool);
        }
        match self.schedule.on_ready(index) {
            Ready::Alone => self.begin_request(index),
            Ready::Waits => {}
            Ready::All(set) => {
                let mut place = 0;
                while let Some(flow) = self.schedule.member(set, place) {
                    self.begin_request(flow as usize);
                    place += 1;
                }
            }
        }
    }

    /// Sends the requests of a pool that have arrived, as far as it has connections for them.
    fn serve(&mut self, pool: usize) {
        loop {
            let now_ns = self.os.now_ns();
            match self.pools.next(&self.plan.schedule.pools, pool, now_ns) {
                Next::Begin(flow, arrival_ns) => {
                    self.begin_request_of(flow as usize, Some(arrival_ns));
                }
                Next::At(at_ns) => return self.events.push(at_ns, Event::Request(pool)),
                Next::Waits => return,
            }
        }
    }

    fn begin_request(&mut self, index: usize) {
        self.begin_request_of(index, None);
    }

    /// Writes a request, which may have arrived earlier, or the whole of a transfer.
    fn begin_request_of(&mut self, index: usize, arrival_ns: Option<u64>) {
        let pools = &self.plan.schedule.pools;
        let drawn = self.pools.response_bytes(pools, index, self.flows[index].exchanges);
        let Program { os, flows, .. } = self;
        let flow = &mut flows[index];
        // A failed flow of a set still counts as ready.
        if flow.is_over {
            return;
        }
        flow.request_started_ns = arrival_ns.unwrap_or_else(|| os.now_ns());
        flow.connecting.to_write = flow.plan.traffic.request_bytes();
        flow.response_left = drawn.unwrap_or(flow.plan.traffic.response_bytes());
        let result = flow.connecting.write(flow.plan.traffic.is_rpc(), os);
        self.check(index, false, result);
    }

    fn read_response(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        match flow.connecting.read(&mut self.os) {
            Ok(read) if read > 0 && flow.response_left > 0 => {
                flow.response_left = flow.response_left.saturating_sub(read);
                if flow.response_left == 0 {
                    self.on_response(index);
                }
            }
            result => self.check(index, false, result),
        }
    }

    /// A whole answer was read.
    fn on_response(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        let Traffic::Rpc { count, .. } = flow.plan.traffic else { return };
        let now_ns = self.os.now_ns();
        flow.exchanges += 1;
        let latency_ns = now_ns - flow.request_started_ns;
        self.report.rpcs.push((flow.plan.flow, flow.request_started_ns, latency_ns));
        if count.is_some_and(|count| flow.exchanges >= count) {
            flow.connecting.report.done_ns = Some(now_ns);
        } else if flow.plan.stop_ns.is_some_and(|stop_ns| now_ns >= stop_ns) {
            flow.connecting.report.stopped_ns = Some(now_ns);
        } else {
            return self.on_ready(index);
        }
        self.leave(index);
    }

    fn read_request(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        let result = flow.listening.read(&mut self.os);
        let Ok(read) = result else { return self.check(index, true, result) };
        if flow.plan.traffic.request_bytes() != u64::MAX {
            flow.request_left = flow.request_left.saturating_sub(read);
        }
        if read > 0 && flow.request_left == 0 {
            self.on_request(index);
        }
        let Program { os, flows, .. } = self;
        if !flows[index].is_over {
            let result = flows[index].set_low_water(os);
            self.check(index, true, result);
        }
    }

    /// A whole request, or transfer, was read.
    fn on_request(&mut self, index: usize) {
        let drawn = self.pools.next_response_bytes(&self.plan.schedule.pools, index);
        let Program { os, flows, .. } = self;
        let flow = &mut flows[index];
        match flow.plan.traffic {
            Traffic::Bulk { .. } => {
                flow.listening.report.done_ns = Some(os.now_ns());
                // A sender that waits for a delayed ACK sends the last segment again as a probe, into the traffic of others.
                if let Some(socket) = &flow.listening.socket {
                    os.acknowledge(socket);
                }
                self.leave(index);
            }
            Traffic::Rpc { request_bytes, response_bytes, .. } => {
                flow.request_left = request_bytes;
                let response_bytes = drawn.unwrap_or(response_bytes);
                flow.listening.to_write = flow.listening.to_write.saturating_add(response_bytes);
                let result = flow.listening.write(true, os);
                self.check(index, true, result);
            }
        }
    }

    /// Ends a transfer as asked: what was written and not sent is never sent. Exchanges look at the time by themselves.
    fn stop(&mut self, index: usize) {
        let flow = &self.flows[index];
        if flow.is_over || flow.plan.traffic.is_rpc() {
            return;
        }
        // Before its connection is gone.
        self.note_init(index);
        self.read_what_is_there(index);
        if self.flows[index].is_over {
            return;
        }
        let now_ns = self.os.now_ns();
        for side in self.flows[index].sides() {
            side.report.stopped_ns = Some(now_ns);
        }
        self.leave(index);
        // The other end stays, and answers nothing until it learns that there is no connection any more.
        let Program { os, flows, .. } = self;
        flows[index].connecting.note(os);
        flows[index].connecting.socket = None;
    }

    fn read_what_is_there(&mut self, index: usize) {
        if self.flows[index].listening.socket.is_some() {
            self.read_request(index);
        }
    }

    // ---- ends ----

    fn check<T>(&mut self, index: usize, listens: bool, result: Result<T, Errno>) {
        if let Err(why) = result {
            self.fail(index, listens, why);
        }
    }

    fn fail(&mut self, index: usize, listens: bool, why: Errno) {
        let Program { os, flows, .. } = self;
        let flow = &mut flows[index];
        let now_ns = os.now_ns();
        // Where both sides are here there is one clock, and the connection fails before it is stopped here.
        let differ_ns = if flow.connecting.is_here { 0 } else { CLOCKS_DIFFER_NS };
        let is_late = |stop_ns: u64| now_ns >= stop_ns.saturating_sub(differ_ns);
        let was_to_stop = !flow.plan.traffic.is_rpc() && flow.plan.stop_ns.is_some_and(is_late);
        if listens && was_to_stop {
            flow.listening.report.stopped_ns = Some(now_ns);
        } else if listens {
            flow.listening.fail(why, os);
        } else {
            flow.connecting.fail(why, os);
        }
        self.leave(index);
    }

    /// Ends the activity on a connection, which stays open.
    fn leave(&mut self, index: usize) {
        let Program { os, flows, schedule, pools, .. } = self;
        let flow = &mut flows[index];
        if mem::replace(&mut flow.is_over, true) {
            return;
        }
        pools.leave(index);
        flow.sides().into_iter().for_each(|side| side.rest(os));
        // A connection that is not accepted would be reported for ever.
        if let Some(listener) = flow.listener.take() {
            os.ignore(&listener);
        }
        if let (true, Some(socket)) = (flow.plan.sampled, &flow.connecting.socket) {
            os.leave(socket);
        }
        let is_seen = flow.completion_is_seen();
        // One that ends before its turn is none that others wait for.
        if schedule.waits(index) && flow.begin_ns.is_some() {
            let (next, now_ns) = (schedule.on_end(index), os.now_ns());
            self.schedule_starts(next, now_ns);
        }
        if is_seen {
            self.unfinished -= 1;
            if self.unfinished == 0 && !self.is_over {
                self.is_over = self.ends_when_done;
                self.os.on_done();
            }
        }
    }

    fn note_init(&mut self, index: usize) {
        let Program { os, flows, .. } = self;
        let is_established = flows[index].is_established;
        for side in flows[index].sides() {
            if let (Some(socket), true) = (&side.socket, side.report.listens || is_established) {
                side.report.init_called = side.report.init_called.or(os.init_called(socket));
            }
        }
    }

    // ---- pings and samples ----

    fn send_ping(&mut self, index: usize, due_ns: u64) {
        let ping = &mut self.pings[index];
        ping.send(&mut self.os, &mut self.report.pings);
        let interval_ns = ping.plan.interval_ns;
        self.again(Some(interval_ns), due_ns, Event::Ping(index));
    }

    fn sample_flows(&mut self, due_ns: u64, now_ns: u64) {
        let Program { os, flows, report, .. } = self;
        // To look into algorithms costs even where there is nothing to see.
        if flows.iter().any(|flow| flow.plan.sampled && flow.is_at_work()) {
            os.look_inside();
        }
        for flow in flows {
            // For each of them, as this takes time where time is virtual.
            let at_ns = os.now_ns();
            let Some(socket) = &flow.connecting.socket else { continue };
            if !flow.plan.sampled || !flow.is_at_work() {
                continue;
            }
            let info = os.info(socket);
            if !info.is_empty() {
                let inside = os.inside(&flow.plan, socket);
                report.flow_samples.push((at_ns, flow.plan.flow, info, inside));
            }
        }
        if let Some(period_ns) = self.plan.sample_flows_ns {
            // Moments that have passed meanwhile are left out: two samples at once would tell nothing.
            let passed_ns = ((now_ns - due_ns) / period_ns).saturating_mul(period_ns);
            self.again(Some(period_ns), due_ns.saturating_add(passed_ns), Event::SampleFlows);
        }
    }

    fn sample_goodput(&mut self, due_ns: u64) {
        let Program { os, flows, report, .. } = self;
        for flow in flows {
            let side = &flow.listening;
            if !side.is_here || flow.begin_ns.is_none_or(|begin_ns| begin_ns > due_ns) {
                continue;
            }
            // A flow that is over receives no more.
            let socket = side.socket.as_ref().filter(|_| !flow.is_over);
            let received = socket.and_then(|socket| os.received_bytes(socket));
            let received = received.unwrap_or(side.report.read_bytes);
            let bytes = received.saturating_sub(mem::replace(&mut flow.sampled_bytes, received));
            report.goodput_samples.push((due_ns, flow.plan.flow, bytes));
        }
        self.again(self.plan.sample_goodput_ns, due_ns, Event::SampleGoodput);
    }

    /// Records `TCP_INFO` and the queues: the first call at the beginning of the window, the second at its end.
    fn look_at_window(&mut self, at_ns: u64) {
        let Program { os, flows, window, .. } = self;
        let mut looks = vec![];
        for flow in flows {
            for side in flow.sides() {
                if let Some(info) = side.info(os) {
                    looks.push((side.report.flow, side.report.listens, info));
                }
            }
        }
        let moment = if window.is_empty() { Moment::WindowBegin } else { Moment::WindowEnd };
        window.push(looks);
        os.record_queues(at_ns, moment);
    }

    // ---- the end ----

    fn finish(&mut self) -> TrafficReport {
        self.is_over = true;
        let end_ns = self.os.now_ns().min(self.plan.end_ns);
        if self.window.len() == 1 {
            self.look_at_window(end_ns);
        }
        for index in 0..self.flows.len() {
            self.note_init(index);
            if !self.flows[index].is_over {
                self.read_what_is_there(index);
            }
            let Program { os, flows, report, .. } = self;
            for side in flows[index].sides().into_iter().filter(|side| side.is_here) {
                side.note(os);
                report.sides.push(mem::take(&mut side.report));
            }
        }
        if O::IS_LATE {
            for ping in &mut self.pings {
                ping.receive(&mut self.os, &mut self.report.pings);
            }
        }
        self.os.record_queues(end_ns, Moment::End);
        let mut report = mem::take(&mut self.report);
        report.window = mem::take(&mut self.window).try_into().ok();
        report.end_ns = end_ns;
        report
    }
}

#[cfg(test)]
mod tests;
