//! The program: one thread, one epoll, one clock.

use std::collections::HashMap;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::Timespec;

use super::conversation::{Conversation, Desk, of_token};
use super::ping::Pinger;
use super::surroundings::{SocketKind, Surroundings};
use super::timers::{Event, Timers};
use super::{FlowPlan, Look, TrafficPlan, TrafficReport, clock};
use crate::Error;
use crate::error::failed;

/// Of what is due, done before connections are looked at.
const EVENTS_AT_ONCE: u32 = 256;
/// Room for what one read takes. The kernel drops the data and writes nothing, so no page of it is ever touched.
const SINK_BYTES: usize = 16 << 20;
/// Events of epoll at a time.
const EVENTS: usize = 64;
/// So often it looks whether it shall stop.
const LOOK_NS: i64 = 20_000_000;
/// Tokens of epoll beside those of conversations.
const TIMER: u64 = u64::MAX;
const FIRST_PING: u64 = 1 << 62;
/// Samples for which there is room from the beginning; beyond that memory grows while the program runs.
const ROOM: u64 = 1 << 20;

/// A traffic program that is ready: its sockets are open, and it listens. Whatever it still holds is aborted when it is dropped.
pub struct Program<S> {
    plan: TrafficPlan,
    surroundings: S,
    epoll: OwnedFd,
    timers: Timers,
    flows: Vec<Conversation>,
    /// Of these, the ones that are sampled.
    sampled: Vec<usize>,
    pings: Vec<Pinger>,
    zero_ns: u64,
    /// Transfers that end by themselves and have not; not counted: those whose end others see.
    unfinished: usize,
    /// Whether the run is over when there are none.
    ends_when_done: bool,
    is_over: bool,
    on_done: Option<Box<dyn FnOnce() + Send>>,
    report: TrafficReport,
    /// Of connections at the ends of the measured window that have passed.
    window: Vec<Vec<Look>>,
    sink: Vec<u8>,
}

/// Opens, binds and listens: after this nothing is left to do but to wait for time 0.
///
/// # Errors
/// What the plan cannot mean, and what the kernel refuses.
pub fn prepare<S: Surroundings>(plan: TrafficPlan, surroundings: S) -> Result<Program<S>, Error> {
    check(&plan)?;
    raise_file_limit(plan.flows.len() as u64 * 3 + plan.pings.len() as u64 + 64);
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed("epoll"))?;
    let timers = Timers::new().map_err(failed("a timer"))?;
    let timer = EventData::new_u64(TIMER);
    epoll::add(&epoll, &timers, timer, EventFlags::IN).map_err(failed("epoll"))?;
    let mut program = Program {
        plan,
        surroundings,
        epoll,
        timers,
        flows: Vec::new(),
        sampled: Vec::new(),
        pings: Vec::new(),
        zero_ns: 0,
        unfinished: 0,
        ends_when_done: false,
        is_over: false,
        on_done: None,
        report: TrafficReport::default(),
        window: Vec::new(),
        sink: vec![0; SINK_BYTES],
    };
    program.open_flows()?;
    program.open_pings()?;
    program.warm_up();
    Ok(program)
}

fn check(plan: &TrafficPlan) -> Result<(), Error> {
    if let Some(flow) = plan.flows.iter().find(|flow| !flow.traffic.is_possible()) {
        return Err(Error::Failed(format!(
            "flow {}: sizes and counts must not be 0: {:?}",
            flow.flow, flow.traffic
        )));
    }
    if plan.sample_flows_ns == Some(0) || plan.sample_goodput_ns == Some(0) {
        return Err(Error::Failed("samples need a period above 0".to_owned()));
    }
    Ok(())
}

/// As far as it may; what is missing is told by the socket that does not open.
fn raise_file_limit(needed: u64) {
    let now = getrlimit(Resource::Nofile);
    if now.current.is_some_and(|current| current < needed) {
        let wanted = |maximum| Rlimit { current: Some(needed), maximum };
        let higher = setrlimit(Resource::Nofile, wanted(now.maximum.map(|max| max.max(needed))));
        if higher.is_err() {
            let _ = setrlimit(Resource::Nofile, Rlimit { current: now.maximum, ..now });
        }
    }
}

impl<S: Surroundings> Program<S> {
    // ---- before the run ----

    fn open_flows(&mut self) -> Result<(), Error> {
        let plans = std::mem::take(&mut self.plan.flows);
        let mut connecting = self.open_sockets(&plans, |flow| flow.from)?;
        let mut listening = self.open_sockets(&plans, |flow| flow.to)?;
        for (index, plan) in plans.into_iter().enumerate() {
            let (one, other) = (connecting[index].take(), listening[index].take());
            for (socket, listens) in [(&one, false), (&other, true)] {
                if let Some(socket) = socket {
                    self.surroundings.give(&plan, listens, socket.as_fd())?;
                }
            }
            let what = format!("flow {}, {} port {}", plan.flow, plan.to_address, plan.port);
            let flow = Conversation::new(index, plan, one, other, &self.epoll);
            self.add_flow(flow.map_err(failed(what))?)?;
        }
        for flow in &self.flows {
            let what = format!("flow {}, from {}", flow.plan.flow, flow.plan.from_address);
            flow.bind().map_err(failed(what))?;
        }
        Ok(())
    }

    /// A socket for each flow that has one at `host`. Each host is entered once.
    fn open_sockets(
        &mut self,
        flows: &[FlowPlan],
        host: impl Fn(&FlowPlan) -> Option<u32>,
    ) -> Result<Vec<Option<OwnedFd>>, Error> {
        let mut sockets: Vec<Option<OwnedFd>> = flows.iter().map(|_| None).collect();
        let mut by_host = std::collections::BTreeMap::<u32, Vec<usize>>::new();
        for (index, flow) in flows.iter().enumerate() {
            if let Some(host) = host(flow) {
                by_host.entry(host).or_default().push(index);
            }
        }
        for (host, indices) in by_host {
            let kind = |index: &usize| SocketKind::Tcp { ipv6: flows[*index].to_address.is_ipv6() };
            let kinds: Vec<_> = indices.iter().map(kind).collect();
            let opened = self.surroundings.open(host, &kinds);
            let opened = opened.map_err(failed(format!("sockets of host {host}")))?;
            for (index, socket) in indices.into_iter().zip(opened) {
                sockets[index] = Some(socket);
            }
        }
        Ok(sockets)
    }

    fn add_flow(&mut self, flow: Conversation) -> Result<(), Error> {
        let ends = flow.plan.traffic.ends();
        if let (true, true, Some(socket)) =
            (flow.plan.sampled, self.plan.sample_flows_ns.is_some(), flow.connecting_socket())
        {
            self.surroundings.watch(&flow.plan, socket)?;
            self.sampled.push(self.flows.len());
        }
        if ends && flow.completion_is_seen() {
            self.unfinished += 1;
        }
        self.flows.push(flow);
        Ok(())
    }

    fn open_pings(&mut self) -> Result<(), Error> {
        for (plan, token) in std::mem::take(&mut self.plan.pings).into_iter().zip(FIRST_PING..) {
            let kind = SocketKind::Ping { ipv6: plan.to_address.is_ipv6() };
            let what = format!("ping {}: a socket for ICMP at host {}", plan.ping, plan.from);
            let opened = self.surroundings.open(plan.from, &[kind]).map_err(failed(&what))?;
            let socket = opened.into_iter().next().ok_or_else(|| Error::Failed(what.clone()))?;
            let ping = Pinger::new(plan, socket)?;
            let data = EventData::new_u64(token);
            epoll::add(&self.epoll, &ping, data, EventFlags::IN).map_err(failed(what))?;
            self.pings.push(ping);
        }
        Ok(())
    }

    /// What is done for the first time takes longest.
    fn warm_up(&mut self) {
        let periods = |period: Option<u64>| period.map_or(0, |period| self.plan.end_ns / period);
        let samples = periods(self.plan.sample_flows_ns).saturating_mul(self.sampled.len() as u64);
        let goodput = periods(self.plan.sample_goodput_ns).saturating_mul(self.flows.len() as u64);
        self.report.flow_samples.reserve(samples.min(ROOM) as usize);
        self.report.goodput_samples.reserve(goodput.min(ROOM) as usize);
        self.surroundings.inside();
        for flow in &self.flows {
            let _ = flow.connecting_socket().map(super::sys::tcp_info);
        }
        self.timers.arm(clock::now_ns());
        let _ = clock::realtime_ahead_ns();
    }

    /// The ports at which it listens, by the number of the flow.
    pub fn ports(&self) -> Vec<(u32, u16)> {
        let port = |flow: &Conversation| Some((flow.plan.flow, flow.port()?));
        self.flows.iter().filter_map(port).collect()
    }

    /// Has it tell, once, when every transfer that can complete and whose end it sees has done so. There may be none.
    pub fn on_done(&mut self, tell: impl FnOnce() + Send + 'static) {
        self.on_done = Some(Box::new(tell));
    }

    // ---- the run ----

    /// Runs it: its time 0 is `zero_ns` of CLOCK_MONOTONIC, which may be a while from now. It ends as planned, or soon after
    /// `stop` is set; connections stay as they are until it is dropped.
    ///
    /// With samples of goodput, bytes count in the period in which they are read; a tick comes before reading, so a late one
    /// moves at most what arrived since its moment into the period after it, where others are late by [`TrafficReport::late_ns`].
    pub fn run(&mut self, zero_ns: u64, stop: &AtomicBool) -> TrafficReport {
        let cpu_ns = clock::cpu_ns();
        self.zero_ns = zero_ns;
        self.set_timers();
        let nothing = epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let mut events = [nothing; EVENTS];
        while !self.is_over && !stop.load(Ordering::Relaxed) {
            let count = self.wait(&mut events);
            self.do_what_is_due();
            for event in &events[..count] {
                self.on_event(event);
            }
        }
        self.finish(cpu_ns)
    }

    fn set_timers(&mut self) {
        let zero_ns = self.zero_ns;
        let at = |ns: u64| zero_ns.saturating_add(ns);
        for (index, flow) in self.flows.iter().enumerate() {
            let plan = &flow.plan;
            self.timers.push(at(plan.start_ns), Event::Start(index));
            for (at_ns, event) in [
                (plan.first_write_ns, Event::FirstWrite(index)),
                (plan.stop_ns, Event::Stop(index)),
            ] {
                if let Some(at_ns) = at_ns {
                    self.timers.push(at(at_ns), event);
                }
            }
        }
        for (index, ping) in self.pings.iter().enumerate() {
            let plan = &ping.plan;
            let first_ns = plan.start_ns.saturating_add(plan.interval_ns);
            self.timers.push(at(first_ns), Event::Ping(index));
        }
        for (period_ns, event) in [
            (self.plan.sample_flows_ns, Event::SampleFlows),
            (self.plan.sample_goodput_ns, Event::SampleGoodput),
        ] {
            if let Some(period_ns) = period_ns {
                self.timers.push(at(period_ns), event);
            }
        }
        for at_ns in self.plan.window_ns.into_iter().flatten() {
            self.timers.push(at(at_ns), Event::WindowEnd);
        }
        self.timers.push(at(self.plan.end_ns), Event::End);
        let all_are_seen =
            self.flows.iter().all(|flow| !flow.plan.traffic.ends() || flow.completion_is_seen());
        self.ends_when_done = self.plan.until_done && self.unfinished > 0 && all_are_seen;
    }

    fn wait(&mut self, events: &mut [epoll::Event]) -> usize {
        let sleeps = self.timers.arm(clock::now_ns());
        let timeout = Timespec { tv_sec: 0, tv_nsec: if sleeps { LOOK_NS } else { 0 } };
        // Interrupted: nothing has happened.
        epoll::wait(&self.epoll, events, Some(&timeout)).unwrap_or(0)
    }

    fn do_what_is_due(&mut self) {
        // Connections have their turn even if there is always more that is due.
        for _ in 0..EVENTS_AT_ONCE {
            let now_ns = clock::now_ns();
            let Some((due_ns, event)) = self.timers.pop(now_ns) else { return };
            self.report.late_ns = self.report.late_ns.max(now_ns - due_ns);
            match event {
                Event::Start(flow) => self.with(flow, Conversation::start),
                Event::FirstWrite(flow) => self.with(flow, Conversation::first_write),
                Event::Stop(flow) => {
                    self.note_init(flow);
                    self.with(flow, Conversation::stop);
                }
                Event::Ping(ping) => self.send_ping(ping, due_ns),
                Event::WindowEnd => self.look_at_window(),
                Event::SampleFlows => self.sample_flows(due_ns, now_ns),
                Event::SampleGoodput => self.sample_goodput(due_ns),
                Event::End => self.is_over = true,
            }
            if self.is_over {
                return;
            }
        }
    }

    fn on_event(&mut self, event: &epoll::Event) {
        // Copied: the struct is packed.
        let (flags, token) = (event.flags, event.data.u64());
        match token {
            TIMER => {}
            FIRST_PING.. => {
                let ping = self.pings.get_mut((token - FIRST_PING) as usize);
                if let Some(ping) = ping {
                    ping.receive(self.zero_ns, &mut self.report.pings);
                }
            }
            _ => {
                let (flow, listens) = of_token(token);
                let happens = if listens {
                    Conversation::on_listening_event
                } else {
                    Conversation::on_connecting_event
                };
                self.with(flow, |flow, desk| happens(flow, flags, desk));
            }
        }
    }

    /// Has a conversation do something, and counts it if that was its last.
    fn with(&mut self, flow: usize, what: impl FnOnce(&mut Conversation, &mut Desk<'_>)) {
        let mut desk = Desk {
            epoll: &self.epoll,
            zero_ns: self.zero_ns,
            rpcs: &mut self.report.rpcs,
            sink: &mut self.sink,
        };
        let Some(flow) = self.flows.get_mut(flow) else { return };
        let was_over = flow.is_over;
        what(flow, &mut desk);
        if was_over || !flow.is_over {
            return;
        }
        if let (true, Some(socket)) = (flow.plan.sampled, flow.connecting_socket()) {
            self.surroundings.leave(socket);
        }
        if flow.plan.traffic.ends() && flow.completion_is_seen() {
            self.on_completed();
        }
    }

    fn on_completed(&mut self) {
        self.unfinished -= 1;
        if self.unfinished == 0 {
            self.is_over |= self.ends_when_done;
            if let Some(tell) = self.on_done.take() {
                tell();
            }
        }
    }

    /// Before its connections are gone.
    fn note_init(&mut self, flow: usize) {
        let Program { flows, surroundings, .. } = self;
        if let Some(flow) = flows.get_mut(flow) {
            flow.note_init(|algorithm, socket| surroundings.init_called(algorithm, socket));
        }
    }

    fn send_ping(&mut self, index: usize, due_ns: u64) {
        let ping = &mut self.pings[index];
        ping.send(self.zero_ns, &mut self.report.pings);
        let next_ns = due_ns.saturating_add(ping.plan.interval_ns);
        self.timers.push(next_ns, Event::Ping(index));
    }

    fn sample_flows(&mut self, due_ns: u64, now_ns: u64) {
        let is_at_work = |index: &usize| self.flows[*index].is_at_work();
        let at_work: Vec<usize> = self.sampled.iter().copied().filter(is_at_work).collect();
        // To look into algorithms costs even where there is nothing to see.
        let inside = if at_work.is_empty() { Vec::new() } else { self.surroundings.inside() };
        let mut inside: HashMap<u32, Vec<u64>> = inside.into_iter().collect();
        for index in at_work {
            let at_ns = clock::now_ns().saturating_sub(self.zero_ns);
            let flow = &self.flows[index];
            if let Some(info) = flow.info() {
                let number = flow.plan.flow;
                let own = inside.remove(&number).unwrap_or_default();
                self.report.flow_samples.push((at_ns, number, info, own));
            }
        }
        if let Some(period_ns) = self.plan.sample_flows_ns {
            // Moments that have passed meanwhile are left out: two samples at once would tell nothing.
            let periods = (now_ns - due_ns) / period_ns + 1;
            let next_ns = due_ns.saturating_add(periods.saturating_mul(period_ns));
            self.timers.push(next_ns, Event::SampleFlows);
        }
    }

    /// The first time it begins, the second time it ends.
    fn look_at_window(&mut self) {
        let looks: Vec<_> = self.flows.iter_mut().flat_map(Conversation::looks).collect();
        self.window.push(looks);
    }

    fn sample_goodput(&mut self, due_ns: u64) {
        let at_ns = due_ns - self.zero_ns;
        for flow in &mut self.flows {
            if flow.plan.start_ns > at_ns {
                continue;
            }
            if let Some(bytes) = flow.goodput_bytes() {
                self.report.goodput_samples.push((at_ns, flow.plan.flow, bytes));
            }
        }
        if let Some(period_ns) = self.plan.sample_goodput_ns {
            self.timers.push(due_ns.saturating_add(period_ns), Event::SampleGoodput);
        }
    }

    // ---- the end ----

    fn finish(&mut self, cpu_before_ns: u64) -> TrafficReport {
        let end_ns = clock::now_ns().saturating_sub(self.zero_ns);
        self.on_done = None;
        if self.window.len() == 1 {
            self.look_at_window();
        }
        for index in 0..self.flows.len() {
            self.note_init(index);
            self.with(index, Conversation::read_what_is_there);
            self.with(index, |flow, desk| flow.end(desk.epoll));
        }
        for ping in &mut self.pings {
            ping.receive(self.zero_ns, &mut self.report.pings);
        }
        let mut report = std::mem::take(&mut self.report);
        report.window = std::mem::take(&mut self.window).try_into().ok();
        report.end_ns = end_ns.min(self.plan.end_ns);
        report.sides = self.flows.iter_mut().flat_map(Conversation::take_reports).collect();
        report.cpu_s = (clock::cpu_ns() - cpu_before_ns) as f64 / 1e9;
        report
    }
}
