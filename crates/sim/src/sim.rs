//! A run: builds everything, then handles the earliest event until none is left.

use crate::buffer::{self, BufferHandle};
use crate::clock::Jiffies;
use crate::events::{Event, Events};
use crate::interrupts::Arrival;
use crate::link::LinkState;
use crate::link_counts::LinkCounts;
use crate::modules;
use crate::net::{Net, PATH_END};
use crate::nic::Nics;
use crate::packet::{NO_SACKS, Packet, Packets, Tos, flags};
use crate::pause;
use crate::ports::Ports;
use crate::random::Random;
use crate::tap::hosts::{HostsTap, Sighting};
use crate::tap::{CoarseClock, FlowTap, Side, TapAt, Tapped};
use crate::tcp::{HostState, Place, Sock, State};
use knee_algo::Host as CcHost;
use knee_algo::module::carry_out;
use knee_flight::{Record, observer};
use knee_queue::time::{Duration, PS_PER_S, Time};
use knee_run::outcome::{
    FlowOutcome, FlowWindow, GoodputSample, Outcome, PingRecord, QueueOutcome, RpcRecord, Windowed,
    Work,
};
use knee_run::routes::Routes;
use knee_run::spec::{Cc, Flow, Run, Traffic};
use knee_run::turns::{Ready, Turns};
use knee_run::{Error, validate};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Returns the connecting socket of a flow, which has the even number; the listening socket has the
/// next one.
fn client_of(flow: usize) -> usize {
    2 * flow
}

fn server_of(flow: usize) -> usize {
    2 * flow + 1
}

/// State of the applications at both ends of a flow.
#[derive(Debug)]
struct App {
    /// Bytes of the request, or of the whole transfer, that the server still expects.
    request_left: u64,
    /// Bytes of the response that the client still expects.
    response_left: u64,
    request_started: Time,
    /// Timeouts of both sides before the request.
    timeouts_before: u64,
    /// Index of the record of the last exchange.
    last_exchange: Option<usize>,
    requests_done: u64,
    writing_begun: bool,
    connected_at: Option<Time>,
    done_at: Option<Time>,
    stopped_at: Option<Time>,
    /// Bytes at the last goodput sample.
    sampled_bytes: u64,
}

struct Simulation<'a> {
    run: &'a Run,
    net: Net,
    hosts: Vec<Option<Rc<HostState>>>,
    /// NICs that coalesce interrupts or count CPU time; `None` if there are none.
    nics: Option<Box<Nics>>,
    socks: Vec<Sock>,
    apps: Vec<App>,
    ping_paths: Vec<(u32, u32)>,
    /// Index of the record of each ping sent, by stream.
    ping_records: Vec<Vec<u32>>,
    outcome: Outcome,
    /// Shared memories of the switches.
    buffers: Vec<BufferHandle>,
    /// Number of flows that can complete and have not.
    unfinished: usize,
    /// The order of flows that wait for other flows, if there are any.
    turns: Option<Box<Turns>>,
    /// Counts at the start of the measured window.
    before_window: Option<Windowed>,
    link_counts: LinkCounts,
}

/// Simulates one run to its end.
///
/// # Errors
/// If the specification contradicts itself (no route, a flow from a switch, ...), in one sentence.
pub fn simulate(run: &Run) -> Result<Outcome, Error> {
    validate(run)?;
    Simulation::build(run)?.run()
}

/// Like [`simulate`], but also passes a record of every algorithm call of the flows of `group` to
/// `sink`, in order. These are the calls of the connecting side, and of the listening side if it
/// uses the same algorithm. A socket's number is twice the flow's, plus 1 for the connecting and 2
/// for the listening side.
///
/// # Errors
/// The errors of [`simulate`].
pub fn simulate_recorded(
    run: &Run,
    group: u32,
    sink: impl FnMut(Record) + 'static,
) -> Result<Outcome, Error> {
    validate(run)?;
    let mut simulation = Simulation::build(run)?;
    simulation.record(group, Rc::new(RefCell::new(sink)));
    simulation.run()
}

/// Like [`simulate`], but also passes every segment of one flow, as it leaves and reaches one of
/// its hosts, to `sink`, in order. Segments after the application is done are left out.
///
/// # Errors
/// The errors of [`simulate`], and an error if the flow does not exist.
pub fn simulate_tapped(
    run: &Run,
    at: TapAt,
    sink: impl FnMut(Tapped) + 'static,
) -> Result<(Outcome, CoarseClock), Error> {
    validate(run)?;
    if at.flow >= run.flows.len() {
        return Err(Error::Refused(format!(
            "there is no flow {}: there are {}",
            at.flow,
            run.flows.len()
        )));
    }
    let mut simulation = Simulation::build(run)?;
    let clock = simulation.tap(at, Box::new(sink));
    Ok((simulation.run()?, clock))
}

/// Like [`simulate`], but also passes every packet at every host and at the other ends of the
/// hosts' links to `sink`, in order.
///
/// # Errors
/// The errors of [`simulate`].
pub fn simulate_captured(
    run: &Run,
    sink: impl FnMut(Sighting) + 'static,
) -> Result<Outcome, Error> {
    validate(run)?;
    let mut simulation = Simulation::build(run)?;
    simulation.capture(Box::new(sink));
    simulation.run()
}

impl<'a> Simulation<'a> {
    fn build(run: &'a Run) -> Result<Simulation<'a>, Error> {
        let mut random = Random::new(run.seed);
        let hosts: Vec<_> = run
            .network
            .nodes
            .iter()
            .map(|node| {
                let config = node.host.clone()?;
                let drawn = random.u64();
                let tick_ps = PS_PER_S / u64::from(config.hz);
                let (at_start, phase) = match config.jiffies_at_start {
                    Some(at_start) => (at_start, Duration::ZERO),
                    None => ((drawn >> 40) as u32, Duration::from_ps(random.below(tick_ps))),
                };
                let jiffies = Jiffies::new(config.hz, at_start, phase);
                let modules = modules::of_host(&config);
                Some(Rc::new(HostState { config, jiffies, modules, gro: Cell::default() }))
            })
            .collect();
        let mut routes = Routes::new(&run.network);
        let mut paths = Vec::new();
        let mut path = |from, to, salt| -> Result<u32, Error> {
            let start = paths.len() as u32;
            paths.extend(routes.path(from, to, salt)?);
            paths.push(PATH_END);
            Ok(start)
        };
        let mut socks = Vec::with_capacity(2 * run.flows.len());
        let mut apps = Vec::with_capacity(run.flows.len());
        let mut hashes = Vec::with_capacity(run.flows.len());
        for (index, flow) in run.flows.iter().enumerate() {
            let hash = random.u64();
            hashes.push(hash);
            let peer_cc = flow.peer_cc.as_ref().unwrap_or(&flow.cc);
            let host = |node: u32, cc: &Cc| {
                let host = hosts[node as usize].clone().ok_or_else(|| {
                    Error::Refused(format!("node {node} is a switch and has no TCP"))
                })?;
                let loaded = host.modules.load(cc.algorithm, &cc.params);
                loaded.map(|()| host).map_err(|why| Error::Refused(why.to_string()))
            };
            let (client, server) = (client_of(index) as u32, server_of(index) as u32);
            let there = path(flow.from, flow.to, hash)?;
            let back = path(flow.to, flow.from, hash)?;
            let (base_rtt, dscp) = (flow.base_rtt, flow.dscp);
            let place = Place { id: client, peer: server, path: there, base_rtt, dscp };
            socks.push(Sock::new(&place, &flow.cc, host(flow.from, &flow.cc)?, hash as u32));
            let dscp = flow.peer_dscp;
            let place = Place { id: server, peer: client, path: back, base_rtt, dscp };
            socks.push(Sock::new(&place, peer_cc, host(flow.to, peer_cc)?, (hash >> 32) as u32));
            if let Some(rate) = flow.max_pacing_rate {
                for sock in &mut socks[client_of(index)..] {
                    sock.set_max_pacing_rate(rate.bps() / 8);
                }
            }
            apps.push(App::new(flow));
        }
        let mut ping_paths = Vec::new();
        for ping in &run.pings {
            let hash = random.u64();
            ping_paths.push((path(ping.from, ping.to, hash)?, path(ping.to, ping.from, hash)?));
        }
        routes.forget_distances();
        let mut links: Vec<_> = run
            .network
            .links
            .iter()
            .enumerate()
            .map(|(index, link)| LinkState::new(link, index as u32))
            .collect();
        let buffers = buffer::build(&run.network, &mut links);
        let flow_control = pause::build(&run.network, &mut links);
        let cc = CcHost::new(1000, random.u64());
        let net = Net {
            now: Time::ZERO,
            events: Events::new(events_per_sec(run)),
            packets: Packets::default(),
            links,
            paths,
            routes,
            random,
            cc,
            work: Work::default(),
            flow_control,
            ports: Ports::new(&run.network),
            tap: None,
        };
        let unfinished = run.flows.iter().filter(|flow| flow.traffic.ends()).count();
        Ok(Simulation {
            run,
            net,
            hosts,
            nics: Nics::new(run, &hashes),
            socks,
            apps,
            ping_records: vec![Vec::new(); run.pings.len()],
            ping_paths,
            outcome: Outcome::default(),
            buffers,
            unfinished,
            turns: Turns::new(&run.schedule, &run.flows),
            before_window: None,
            link_counts: LinkCounts::default(),
        })
    }

    /// Passes the records of a group's flows to `sink`.
    fn record(&mut self, group: u32, sink: Rc<RefCell<impl FnMut(Record) + 'static>>) {
        for (index, flow) in self.run.flows.iter().enumerate() {
            let both = if flow.peer_cc.is_none() { 2 } else { 1 };
            let sides = [client_of(index), server_of(index)].into_iter().take(both);
            for sock in sides.filter(|_| flow.group == group) {
                let sink = Rc::clone(&sink);
                let observer = observer(sock as u64 + 1, move |record| sink.borrow_mut()(record));
                self.socks[sock].observe(observer);
            }
        }
    }

    /// Passes the segments of a flow at one of its hosts to `sink`. Returns that host's clock at
    /// the start of the run.
    fn tap(&mut self, at: TapAt, sink: Box<dyn FnMut(Tapped)>) -> CoarseClock {
        let (client, server) = (client_of(at.flow), server_of(at.flow));
        let (sock, peer) =
            if at.side == Side::Connecting { (client, server) } else { (server, client) };
        self.net.tap = Some(Box::new(FlowTap {
            sock: sock as u32,
            peer: peer as u32,
            of_sock: self.socks[sock].numbers(),
            of_peer: self.socks[peer].numbers(),
            sink,
        }));
        self.socks[sock].coarse_clock()
    }

    /// Passes all packets at all hosts to `sink`.
    fn capture(&mut self, sink: Box<dyn FnMut(Sighting)>) {
        for link in &mut self.net.links {
            link.keep_departed();
        }
        let numbers = self.socks.iter().map(Sock::numbers).collect();
        self.net.tap = Some(Box::new(HostsTap::new(self.run, numbers, sink)));
    }

    fn run(self) -> Result<Outcome, Error> {
        carry_out(|| self.run_to_end()).map_err(|fault| Error::Algorithm(fault.to_string()))
    }

    fn run_to_end(mut self) -> Outcome {
        self.start();
        self.work_off();
        if let Some(mut tap) = self.net.tap.take() {
            tap.on_end(self.net.now);
        }
        self.finish()
    }

    fn start(&mut self) {
        for (index, link) in self.net.links.iter_mut().enumerate() {
            link.start(index as u32, &mut self.net.events);
        }
        for (index, flow) in self.run.flows.iter().enumerate() {
            let begin = self.turns.as_ref().map_or(flow.start, |turns| turns.begin_of(index));
            if begin != Time::MAX {
                self.net.events.push(begin, Event::App { flow: index as u32 });
            }
            for at in [flow.first_write, flow.stop].into_iter().flatten() {
                self.net.events.push(at, Event::App { flow: index as u32 });
            }
        }
        for (index, ping) in self.run.pings.iter().enumerate() {
            let first = ping.start + ping.interval;
            self.net.events.push(first, Event::Ping { ping: index as u32 });
        }
        let sampling = self.run.sampling;
        for (period, event) in [
            (sampling.flows, Event::SampleFlows),
            (sampling.queues, Event::SampleQueues),
            (sampling.goodput, Event::SampleGoodput),
            (sampling.links, Event::SampleLinks),
        ] {
            if let Some(period) = period {
                self.net.events.push(Time::ZERO + period, event);
            }
        }
        if let Some(window) = sampling.window {
            self.net.events.push(window.from, Event::Window);
            self.net.events.push(window.until, Event::Window);
        }
    }

    fn work_off(&mut self) {
        let can_be_done = self.run.until_done && self.unfinished > 0;
        while let Some((at, event)) = self.net.events.pop(self.run.end) {
            self.net.now = at;
            self.handle(event);
            if can_be_done && self.unfinished == 0 {
                return;
            }
        }
        self.net.now = self.run.end;
    }

    #[inline]
    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrive { packet } => {
                if self.net.at_end(packet) {
                    self.deliver(packet);
                } else {
                    if self.net.tap.is_some() {
                        self.net.tell_passed(packet);
                    }
                    match self.net.ports {
                        None => self.forward(packet),
                        Some(_) => self.come_to_port(packet),
                    }
                }
            }
            Event::Port { link } => {
                let net = &mut self.net;
                let parts = (&mut net.events, &mut net.random);
                net.links[link as usize].on_event(link, &mut net.packets, net.now, parts);
                if net.tap.is_some() {
                    net.tell_departures(link);
                }
                if net.flow_control.is_some() {
                    self.after_departures(link);
                }
            }
            Event::Pause { link, quanta, priority } => {
                self.net.on_pause(link, priority, quanta);
                self.net.tell_departures(link);
                self.after_departures(link);
            }
            Event::PauseRefresh { link, priority } => self.net.on_pause_refresh(link, priority),
            Event::Timer { sock, timer } => {
                self.socks[sock as usize].on_timer(timer, &mut self.net);
                if self.socks[sock as usize].receiver.unread_bytes > 0 {
                    self.offer_data(sock as usize);
                }
            }
            Event::App { flow } => self.on_app(flow as usize),
            Event::Ping { ping } => self.send_ping(ping),
            Event::Interrupt { queue } => {
                let events = &mut self.net.events;
                let is_due = |nics: &mut Box<Nics>| nics.is_due(queue, self.net.now, events);
                if self.nics.as_mut().is_some_and(is_due) {
                    self.interrupt(queue);
                }
            }
            Event::PortInterrupt { port } => {
                let events = &mut self.net.events;
                let is_due = |ports: &mut Box<Ports>| ports.is_due(port, self.net.now, events);
                if self.net.ports.as_mut().is_some_and(is_due) {
                    self.port_interrupt(port);
                }
            }
            Event::SampleFlows => self.sample_flows(),
            Event::SampleQueues => self.sample_queues(),
            Event::SampleGoodput => {
                self.sample_goodput();
                self.again(self.run.sampling.goodput, Event::SampleGoodput);
            }
            Event::SampleLinks => {
                self.link_counts.look(self.run, &mut self.net, &mut self.outcome);
            }
            Event::Window => self.count_window(),
        }
    }

    fn again(&mut self, period: Option<Duration>, event: Event) {
        if let Some(period) = period {
            self.net.events.push(self.net.now + period, event);
        }
    }

    // ---- packets reach a switch ----

    #[inline]
    fn forward(&mut self, packet: u32) {
        let sent = self.net.forward(packet);
        if self.net.tap.is_some() {
            self.net.tell_forwarded(packet, &sent);
        }
    }

    #[cold]
    fn come_to_port(&mut self, packet: u32) {
        match self.net.come_to_port(packet) {
            Arrival::Passes => self.forward(packet),
            Arrival::Waits => {}
            Arrival::Interrupt(port) => self.port_interrupt(port),
        }
    }

    /// A port of a software router hands over its waiting packets.
    #[cold]
    fn port_interrupt(&mut self, port: u32) {
        let Some(ports) = &mut self.net.ports else { return };
        let packets = ports.take(port);
        packets.iter().for_each(|packet| self.forward(*packet));
        if let Some(ports) = &mut self.net.ports {
            ports.give_back(port, packets);
        }
    }

    // ---- packets reach a host ----

    #[inline]
    fn deliver(&mut self, id: u32) {
        let packet = *self.net.packets.get(id);
        self.net.packets.free(id);
        if let Some(nics) = &mut self.nics {
            match nics.arrive(&packet, self.net.now, &mut self.net.events) {
                Arrival::Passes => {}
                Arrival::Waits => return,
                Arrival::Interrupt(queue) => return self.interrupt(queue),
            }
        }
        self.receive(&packet);
    }

    /// A NIC hands over its waiting packets.
    #[cold]
    fn interrupt(&mut self, queue: u32) {
        let Some(nics) = &mut self.nics else { return };
        let (mut packets, merges) = nics.take(queue);
        if self.net.tap.is_some() {
            packets.iter().for_each(|packet| self.tell_delivery(packet));
        }
        if let (true, Some(nics)) = (merges, &mut self.nics) {
            nics.merge(queue, &mut packets, &self.socks);
        }
        packets.iter().for_each(|packet| self.hand_over(packet));
        if let Some(nics) = &mut self.nics {
            nics.give_back(queue, packets);
        }
    }

    #[inline]
    fn receive(&mut self, packet: &Packet) {
        if self.net.tap.is_some() {
            self.tell_delivery(packet);
        }
        self.hand_over(packet);
    }

    #[inline]
    fn hand_over(&mut self, packet: &Packet) {
        if packet.has(flags::PING) {
            self.on_ping(*packet);
            return;
        }
        let index = packet.to as usize;
        let sock = &mut self.socks[index];
        let was_established = sock.state == State::Established;
        sock.on_packet(packet, &mut self.net);
        if sock.receiver.unread_bytes > 0 {
            self.offer_data(index);
        }
        if !was_established && index % 2 == 0 && self.socks[index].state == State::Established {
            self.on_connected(index / 2);
        }
    }

    #[cold]
    fn tell_delivery(&mut self, packet: &Packet) {
        let is_over = !packet.has(flags::PING) && self.socks[packet.to as usize].ended();
        if let (Some(link), Some(tap)) = (self.net.link_behind(packet), &mut self.net.tap) {
            tap.on_delivered(self.net.now, link, packet, is_over);
        }
    }

    /// With flow control, packets that left this link free room in their switch, or let their
    /// host's sockets continue.
    fn after_departures(&mut self, link: u32) {
        self.net.settle_flow_control();
        for left in self.net.links[link as usize].take_left() {
            self.socks[left.sock as usize].on_left_host(left.seq, &mut self.net);
        }
    }

    // ---- applications ----

    fn on_app(&mut self, index: usize) {
        let flow = &self.run.flows[index];
        let now = self.net.now;
        let begin = self.turns.as_ref().map_or(flow.start, |turns| turns.begin_of(index));
        if self.apps[index].connected_at.is_none() && now >= begin {
            self.apps[index].connected_at = Some(now);
            self.socks[server_of(index)].listen();
            self.socks[client_of(index)].connect(&mut self.net);
        }
        if flow.first_write.is_some_and(|at| now >= at) {
            self.begin_writing(index);
        }
        if flow.stop.is_some_and(|at| now >= at)
            && matches!(flow.traffic, Traffic::Bulk { .. })
            && self.apps[index].done_at.is_none()
            && self.apps[index].stopped_at.is_none()
        {
            self.apps[index].stopped_at = Some(now);
            self.end_flow(index);
        }
    }

    fn on_connected(&mut self, index: usize) {
        if self.run.flows[index].first_write.is_none_or(|at| self.net.now >= at) {
            self.begin_writing(index);
        }
    }

    fn begin_writing(&mut self, index: usize) {
        if self.socks[client_of(index)].state == State::Established
            && !self.apps[index].writing_begun
        {
            self.apps[index].writing_begun = true;
            self.next_request(index);
        }
    }

    /// Starts the next request of this flow, or of all flows that send together with it.
    fn next_request(&mut self, index: usize) {
        let ready = self.turns.as_mut().map_or(Ready::Alone, |turns| turns.on_ready(index));
        match ready {
            Ready::Alone => self.begin_request(index),
            Ready::Waits => {}
            Ready::All(set) => {
                let mut place = 0;
                while let Some(flow) =
                    self.turns.as_ref().and_then(|turns| turns.member(set, place))
                {
                    self.begin_request(flow as usize);
                    place += 1;
                }
            }
        }
    }

    /// Returns the retransmission timeouts of both sides so far.
    fn timeouts(&self, index: usize) -> u64 {
        let of = |sock: usize| self.socks[sock].counters.timeouts;
        of(client_of(index)) + of(server_of(index))
    }

    /// The client writes a request, or the whole transfer.
    fn begin_request(&mut self, index: usize) {
        let timeouts = self.timeouts(index);
        let app = &mut self.apps[index];
        if let Some(last) = app.last_exchange {
            self.outcome.rpcs[last].timeouts = Some(timeouts - app.timeouts_before);
        }
        app.timeouts_before = timeouts;
        app.request_started = self.net.now;
        app.request_left = self.run.flows[index].traffic.request_bytes();
        let bytes = app.request_left;
        self.socks[client_of(index)].write(bytes, &mut self.net);
    }

    /// Data waits: the application reads it if there is as much as it asked to be woken for.
    fn offer_data(&mut self, index: usize) {
        let flow = index / 2;
        let is_server = index % 2 == 1;
        let app = &self.apps[flow];
        let left = if is_server { app.request_left } else { app.response_left };
        let read_at = if is_server { self.run.flows[flow].read_at_bytes } else { 1 };
        let sock = &mut self.socks[index];
        sock.receiver.set_read_at(u64::from(read_at).min(left) as u32);
        if !sock.is_readable() {
            return;
        }
        let read = u64::from(sock.read(u64::MAX, &mut self.net));
        if is_server {
            if self.apps[flow].request_left == u64::MAX {
                return;
            }
            self.apps[flow].request_left = left.saturating_sub(read);
            if self.apps[flow].request_left == 0 {
                self.on_request(flow);
            }
        } else {
            self.apps[flow].response_left = left.saturating_sub(read);
            if self.apps[flow].response_left == 0 {
                self.on_response(flow);
            }
        }
    }

    /// The server has read a whole request.
    fn on_request(&mut self, index: usize) {
        match self.run.flows[index].traffic {
            Traffic::Bulk { .. } => self.complete(index),
            Traffic::Rpc { response_bytes, .. } => {
                self.apps[index].response_left = response_bytes;
                self.socks[server_of(index)].write(response_bytes, &mut self.net);
            }
        }
    }

    /// The client has read a whole response.
    fn on_response(&mut self, index: usize) {
        let Traffic::Rpc { count, .. } = self.run.flows[index].traffic else { return };
        let timeouts = self.timeouts(index);
        let app = &mut self.apps[index];
        app.requests_done += 1;
        app.last_exchange = Some(self.outcome.rpcs.len());
        self.outcome.rpcs.push(RpcRecord {
            flow: index as u32,
            start: app.request_started,
            latency: self.net.now.since(app.request_started),
            timeouts: Some(timeouts - app.timeouts_before),
        });
        let stopped = self.run.flows[index].stop.is_some_and(|stop| self.net.now >= stop);
        if count.is_some_and(|count| app.requests_done >= count) {
            self.complete(index);
        } else if stopped {
            app.stopped_at = Some(self.net.now);
            self.end_flow(index);
        } else {
            self.next_request(index);
        }
    }

    fn complete(&mut self, index: usize) {
        self.apps[index].done_at = Some(self.net.now);
        self.end_flow(index);
    }

    fn end_flow(&mut self, index: usize) {
        if self.run.flows[index].traffic.ends() {
            self.unfinished = self.unfinished.saturating_sub(1);
        }
        for sock in [client_of(index), server_of(index)] {
            self.socks[sock].end(&mut self.net);
        }
        if self.turns.is_some() {
            self.give_turns(index);
        }
    }

    /// Starts the flows that waited for the end of flow `done`.
    #[cold]
    fn give_turns(&mut self, done: usize) {
        let Some(turns) = &mut self.turns else { return };
        for flow in turns.on_end(done) {
            // A waiting flow's start time counts from its turn.
            let wait = self.run.flows[flow as usize].start.since(Time::ZERO);
            let begin = self.net.now + wait;
            turns.set_begin(flow as usize, begin);
            self.net.events.push(begin, Event::App { flow });
        }
    }

    // ---- pings ----

    fn send_ping(&mut self, index: u32) {
        let ping = &self.run.pings[index as usize];
        let record = self.outcome.pings.len() as u32;
        self.outcome.pings.push(PingRecord { ping: index, sent: self.net.now, rtt: None });
        self.ping_records[index as usize].push(record);
        let number = self.ping_records[index as usize].len() as u32 - 1;
        let packet = Packet {
            to: index,
            hop: self.ping_paths[index as usize].0,
            wire_bytes: ping.wire_bytes,
            seq: number,
            end_seq: number,
            ack_seq: 0,
            window_bytes: 0,
            ts_val: 0,
            ts_ecr: 0,
            flags: flags::PING,
            tos: Tos::new(ping.dscp, ping.ecn),
            sacks_len: 0,
            sacks: NO_SACKS,
        };
        let _ = self.net.transmit(packet);
        self.net.events.push(self.net.now + ping.interval, Event::Ping { ping: index });
    }

    fn on_ping(&mut self, mut packet: Packet) {
        let index = packet.to as usize;
        if packet.has(flags::ACK) {
            let record = self.ping_records[index][packet.seq as usize] as usize;
            let record = &mut self.outcome.pings[record];
            record.rtt = Some(self.net.now.since(record.sent));
            return;
        }
        packet.flags |= flags::ACK;
        packet.tos.set_ecn(self.run.pings[index].ecn);
        packet.hop = self.ping_paths[index].1;
        let _ = self.net.transmit(packet);
    }

    // ---- samples ----

    fn sample_flows(&mut self) {
        for (index, flow) in self.run.flows.iter().enumerate() {
            let sock = &mut self.socks[client_of(index)];
            if flow.sampled && sock.state == State::Established {
                self.outcome.flow_samples.push(sock.sample(index as u32, &mut self.net));
            }
        }
        self.again(self.run.sampling.flows, Event::SampleFlows);
    }

    fn sample_queues(&mut self) {
        for link in &mut self.net.links {
            if link.sampled {
                self.outcome.queue_samples.extend(link.samples(self.net.now));
            }
        }
        for buffer in self.buffers.iter().map(|buffer| buffer.borrow()) {
            if buffer.sampled {
                let sample = buffer.sample(&mut self.net.links, self.net.now);
                self.outcome.queue_samples.push(sample);
            }
        }
        self.again(self.run.sampling.queues, Event::SampleQueues);
    }

    fn sample_goodput(&mut self) {
        for index in 0..self.apps.len() {
            let received = self.socks[server_of(index)].received_bytes();
            let app = &mut self.apps[index];
            if app.connected_at.is_none() {
                continue;
            }
            let bytes = received - app.sampled_bytes;
            app.sampled_bytes = received;
            let sample = GoodputSample { at: self.net.now, flow: index as u32, bytes };
            self.outcome.goodput_samples.push(sample);
        }
    }

    /// Counts at the begin and the end of the measured window.
    fn count_window(&mut self) {
        let flows = (0..self.apps.len()).map(|index| {
            let flow = self.flow_outcome(index);
            FlowWindow { received_bytes: flow.received_bytes, counters: flow.counters }
        });
        let flows = flows.collect();
        let now = Windowed { flows, queues: self.queue_outcomes() };
        match self.before_window.take() {
            None => self.before_window = Some(now),
            Some(before) => self.outcome.window = Some(now.since(&before)),
        }
    }

    fn queue_outcomes(&mut self) -> Vec<QueueOutcome> {
        let now = self.net.now;
        let sampled = self.net.links.iter_mut().filter(|link| link.sampled);
        let mut queues: Vec<QueueOutcome> = sampled.flat_map(|link| link.outcomes(now)).collect();
        for buffer in self.buffers.iter().map(|buffer| buffer.borrow()) {
            if buffer.sampled {
                queues.push(buffer.outcome(&mut self.net.links, now));
            }
        }
        queues
    }

    // ---- the end ----

    fn finish(mut self) -> Outcome {
        // The run may end before the measured window.
        if self.before_window.is_some() {
            self.count_window();
        }
        for index in 0..self.apps.len() {
            let outcome = self.flow_outcome(index);
            self.outcome.flows.push(outcome);
        }
        self.outcome.end = self.net.now;
        self.link_counts.look(self.run, &mut self.net, &mut self.outcome);
        if let Some(nics) = &self.nics {
            self.outcome.host_counts = nics.counts(&self.hosts, &self.socks, self.run);
        }
        self.outcome.queues = self.queue_outcomes();
        let loaded = self.hosts.iter().map(|host| host.as_ref().map(|host| &host.modules));
        modules::collect(loaded, &mut self.outcome);
        self.outcome.work = Work { events: self.net.events.taken, ..self.net.work };
        self.outcome
    }

    fn flow_outcome(&self, index: usize) -> FlowOutcome {
        let app = &self.apps[index];
        let client = &self.socks[client_of(index)];
        let server = &self.socks[server_of(index)];
        let mut counters = client.counters;
        counters.delivered = u64::from(client.tp.delivered);
        counters.delivered_ce = u64::from(client.tp.delivered_ce);
        counters.acks_sent = server.counters.acks_sent;
        counters.ce_segs_received = server.counters.ce_segs_received;
        // The listening side sent the SYN-ACK and the responses.
        counters.timeouts += server.counters.timeouts;
        counters.syn_timeouts += server.counters.syn_timeouts;
        counters.timeout_rehashes += server.counters.timeout_rehashes;
        counters.duplicate_rehashes += server.counters.duplicate_rehashes;
        counters.plb_rehashes += server.counters.plb_rehashes;
        if matches!(self.run.flows[index].traffic, Traffic::Rpc { .. }) {
            counters.retransmitted_segs += server.counters.retransmitted_segs;
            counters.tail_loss_probes += server.counters.tail_loss_probes;
        }
        FlowOutcome {
            connected_at: app.connected_at,
            established_at: client.established_at,
            done_at: app.done_at,
            stopped_at: app.stopped_at,
            received_bytes: server.received_bytes(),
            ecn: client.ecn_negotiated(),
            algorithm: client.algorithm_name(),
            counters: counters.into(),
            srtt: client.srtt_us().map(|us| Duration::from_us(u64::from(us))),
            min_rtt: client.min_rtt_us().map(|us| Duration::from_us(u64::from(us))),
            cwnd_pkts: client.tp.snd_cwnd,
            inits_left_out: None,
            warnings: [client, server].into_iter().flat_map(Sock::warnings).collect(),
        }
    }
}

impl App {
    fn new(flow: &Flow) -> App {
        App {
            request_left: flow.traffic.request_bytes(),
            response_left: 0,
            request_started: Time::ZERO,
            timeouts_before: 0,
            last_exchange: None,
            requests_done: 0,
            writing_begun: false,
            connected_at: None,
            done_at: None,
            stopped_at: None,
            sampled_bytes: 0,
        }
    }
}

/// Returns the most events that the links can have per second, with full packets back to back.
fn events_per_sec(run: &Run) -> u64 {
    let rates = run.network.links.iter().filter_map(|link| link.rate);
    rates.map(|rate| rate.bps() / (8 * 1514)).fold(0, u64::saturating_add)
}
