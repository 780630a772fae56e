//! A run: builds everything, then handles the earliest event until none is left.

use crate::app::App;
use crate::balance::Balancer;
use crate::buffer::{self, BufferHandle};
use crate::domains::{self, Domain};
use crate::events::{Ahead, Event, Events, Timer};
use crate::hosts::Hosts;
use crate::interrupts::Arrival;
use crate::link::LinkState;
use crate::link_counts::LinkCounts;
use crate::merge::Part;
use crate::net::Net;
use crate::nic::Nics;
use crate::numbered::Numbered;
use crate::packet::{Packet, Packets, flags};
use crate::paths::Paths;
use crate::pause;
use crate::plan::Plan;
use crate::ports::Ports;
use crate::reroute::Reroutes;
use crate::stop::Stop;
use crate::tap::hosts::{HostsTap, Sighting};
use crate::tap::{CoarseClock, FlowTap, Side, TapAt, Tapped};
use crate::tcp::{HostState, Place, Sock, State};
use crate::vary;
use knee_algo::Host as CcHost;
use knee_algo::module::carry_out;
use knee_flight::{Record, observer};
use knee_queue::time::{Duration, Time};
use knee_run::outcome::{Outcome, Windowed, Work};
use knee_run::routes::Routes;
use knee_run::spec::{LinkId, Run};
use knee_run::turns::{PoolState, Turns};
use knee_run::{Error, validate};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Returns the connecting socket of a flow, which has the even number; the listening socket has the
/// next one.
pub(crate) fn client_of(flow: usize) -> usize {
    2 * flow
}

pub(crate) fn server_of(flow: usize) -> usize {
    2 * flow + 1
}

pub(crate) struct Simulation<'a> {
    pub(crate) run: &'a Run,
    /// Ends it early.
    pub(crate) stop: Stop<'a>,
    /// The part of the network that this simulation has.
    pub(crate) domain: Domain,
    pub(crate) net: Net,
    pub(crate) hosts: Vec<Option<Rc<HostState>>>,
    /// NICs that coalesce interrupts or count CPU time; `None` if there are none.
    pub(crate) nics: Option<Box<Nics>>,
    pub(crate) socks: Numbered<Sock>,
    /// For each flow with an end here.
    pub(crate) apps: Numbered<App>,
    pub(crate) ping_paths: Vec<(u32, u32)>,
    /// Index of the record of each ping sent, by stream.
    pub(crate) ping_records: Vec<Vec<u32>>,
    /// Packets that came one way: stream, number and time.
    pub(crate) arrivals: Vec<(u32, u32, Time)>,
    pub(crate) outcome: Outcome,
    /// For each exchange of the outcome, the time until which timeouts belong to it.
    pub(crate) exchange_ends: Vec<Time>,
    /// Timeouts of the servers of exchanges: flow and time.
    pub(crate) server_timeouts: Vec<(u32, Time)>,
    /// The links here whose queues are sampled, in order.
    pub(crate) sampled: Vec<u32>,
    /// Shared memories of the switches.
    pub(crate) buffers: Vec<BufferHandle>,
    /// Number of flows that have completed, of those that can.
    pub(crate) ended: usize,
    /// The order of flows that wait for other flows, if there are any.
    pub(crate) turns: Option<Box<Turns>>,
    /// Requests that arrive at times of their own.
    pub(crate) pools: PoolState,
    /// When each message of the schedule might begin, for those that are written.
    pub(crate) message_starts: Vec<Time>,
    /// Counts at the start of the measured window.
    pub(crate) before_window: Option<Windowed>,
    pub(crate) link_counts: LinkCounts,
}

/// Like [`simulate`](crate::simulate), but also passes a record of every algorithm call of the flows of `group` to
/// `sink`, in order. These are the calls of the connecting side, and of the listening side if it
/// uses the same algorithm. A socket's number is twice the flow's, plus 1 for the connecting and 2
/// for the listening side.
///
/// # Errors
/// The errors of [`simulate`](crate::simulate).
pub fn simulate_recorded(
    run: &Run,
    group: u32,
    sink: impl FnMut(Record) + 'static,
) -> Result<Outcome, Error> {
    recorded((run, Stop::default()), group, sink)
}

/// The same, until it is stopped.
pub(crate) fn recorded(
    (run, stop): (&Run, Stop<'_>),
    group: u32,
    sink: impl FnMut(Record) + 'static,
) -> Result<Outcome, Error> {
    validate(run)?;
    let mut simulation = Simulation::whole(run, stop)?;
    simulation.record(group, Rc::new(RefCell::new(sink)));
    simulation.run()
}

/// Like [`simulate`](crate::simulate), but also passes every segment of one flow, as it leaves and reaches one of
/// its hosts, to `sink`, in order. Segments after the application is done are left out.
///
/// # Errors
/// The errors of [`simulate`](crate::simulate), and an error if the flow does not exist.
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
    let mut simulation = Simulation::whole(run, Stop::default())?;
    let clock = simulation.tap(at, Box::new(sink));
    Ok((simulation.run()?, clock))
}

/// Like [`simulate`](crate::simulate), but also passes every packet at every host and at the other ends of the
/// hosts' links to `sink`, in order.
///
/// # Errors
/// The errors of [`simulate`](crate::simulate).
pub fn simulate_captured(
    run: &Run,
    sink: impl FnMut(Sighting) + 'static,
) -> Result<Outcome, Error> {
    captured((run, Stop::default()), sink)
}

/// The same, until it is stopped.
pub(crate) fn captured(
    (run, stop): (&Run, Stop<'_>),
    sink: impl FnMut(Sighting) + 'static,
) -> Result<Outcome, Error> {
    validate(run)?;
    let mut simulation = Simulation::whole(run, stop)?;
    simulation.capture(Box::new(sink));
    simulation.run()
}

/// So many bytes of links, sockets and packets stay in the cache of a core by themselves: to read them ahead is a tenth of a small
/// network's instructions, for nothing.
const NEAR_BYTES: usize = 256 << 10;

/// How many events before a socket's turn its first link is read.
const SENDS_AHEAD: usize = 4;

impl<'a> Simulation<'a> {
    /// Builds the whole network of a run.
    fn whole(run: &'a Run, stop: Stop<'a>) -> Result<Simulation<'a>, Error> {
        let plan = Plan::new(run, stop)?;
        Simulation::build((run, stop), &plan, Domain::default())
    }

    /// Builds what a domain has of a run.
    pub(crate) fn build(
        (run, stop): (&'a Run, Stop<'a>),
        plan: &Plan,
        domain: Domain,
    ) -> Result<Simulation<'a>, Error> {
        let network = &run.network;
        let is_here = |node: u32| domain.has_node(node);
        let mut hosts = Hosts::new(network, plan);
        let numbering = domain.numbering(run);
        let connections = || format!("{} connections (traffic)", run.flows.len());
        let socks = numbering.socks.count(2 * run.flows.len());
        stop.reserve(socks * size_of::<Sock>(), connections)?;
        let mut socks = Vec::with_capacity(socks);
        let mut apps = Vec::with_capacity(numbering.flows.count(run.flows.len()));
        for (index, flow) in run.flows.iter().enumerate() {
            stop.check(0, connections)?;
            let hash = plan.hashes[index];
            let peer_cc = flow.peer_cc.as_ref().unwrap_or(&flow.cc);
            let (client, server) = (client_of(index) as u32, server_of(index) as u32);
            let (there, back) = plan.of_flows[index];
            let base_rtt = flow.base_rtt;
            let ends = [
                (client, server, there, flow.from, flow.dscp, &flow.cc, hash as u32),
                (server, client, back, flow.to, flow.peer_dscp, peer_cc, (hash >> 32) as u32),
            ];
            let mut has_end = false;
            for (id, peer, path, node, dscp, cc, iss) in ends {
                if is_here(node) {
                    let place = Place { id, peer, path, base_rtt, dscp };
                    let mut sock = Sock::new(&place, cc, hosts.with(node, cc)?, iss);
                    if let Some(rate) = flow.max_pacing_rate {
                        sock.set_max_pacing_rate(rate.bps() / 8);
                    }
                    socks.push(sock);
                    has_end = true;
                }
            }
            if has_end {
                apps.push(App::new(flow));
            }
        }
        let mut links = Vec::with_capacity(numbering.links.count(network.links.len()));
        let mut sampled = Vec::new();
        for (link, index) in network.links.iter().zip(0..) {
            if domain.has_link(index) {
                stop.check(0, || {
                    format!("{} links and their queues (network)", network.links.len())
                })?;
                sampled.extend(link.sampled.then_some(index));
                let mut state = LinkState::new(link, index, plan.link_seed(index));
                state.lead_to(domain.far_end(network, index));
                links.push(state);
            }
        }
        let mut events = Events::new(events_per_sec(run, plan, |link| domain.has_link(link)));
        events.divide(domain.among());
        let mut links = Numbered::new(links, &numbering.links);
        let buffers = buffer::build(network, &mut links);
        let flow_control = pause::build(network, &mut links, domain.links_to(network));
        let is_host = |node: u32| network.nodes[node as usize].host.is_some();
        for (link, varying) in vary::build(&network.changes) {
            let spec = &network.links[link as usize];
            if domain.has_link(link) {
                let seeded = (spec, plan.link_seed(link));
                links[link as usize].vary(varying, seeded, is_host(spec.from));
            }
        }
        let reroutes = Reroutes::new(
            run,
            [(&plan.hashes[..], &plan.of_flows[..]), (&plan.ping_hashes[..], &plan.of_pings[..])],
        );
        let hashes = || plan.hashes.iter().chain(&plan.ping_hashes).copied();
        let balancer = plan.hops.as_ref().map(|hops| Balancer::new(run, hops, hashes()));
        let hosts = hosts.finish();
        let is_ipv6 = |host: &Rc<HostState>| host.config.ipv6;
        let changes_paths = reroutes.is_some() || hosts.iter().flatten().any(is_ipv6);
        let net = Net {
            now: Time::ZERO,
            events,
            packets: Packets::default(),
            links,
            paths: Paths::new(Arc::clone(&plan.paths)),
            routes: changes_paths.then(|| Routes::new(network)),
            seed: plan.sock_seed,
            cc: CcHost::new(1000, 0),
            work: Work::default(),
            flow_control,
            balancer,
            ports: Ports::new(network, is_here),
            varies: !network.changes.links.is_empty(),
            reroutes,
            tap: None,
        };
        Ok(Simulation {
            run,
            stop,
            net,
            nics: Nics::new(run, &plan.hashes, (&numbering.socks, &is_here)),
            domain,
            hosts,
            socks: Numbered::new(socks, &numbering.socks),
            apps: Numbered::new(apps, &numbering.flows),
            ping_records: vec![Vec::new(); run.pings.len()],
            arrivals: Vec::new(),
            ping_paths: plan.of_pings.clone(),
            outcome: Outcome::default(),
            exchange_ends: Vec::new(),
            server_timeouts: Vec::new(),
            sampled,
            buffers,
            ended: 0,
            turns: Turns::new(&run.schedule, &run.flows),
            pools: PoolState::new(&run.schedule.pools, run.flows.len()),
            message_starts: vec![Time::ZERO; run.schedule.tasks.len()],
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
        for link in self.net.links.iter_mut() {
            link.keep_departed();
        }
        let numbers = self.socks.iter().map(Sock::numbers).collect();
        self.net.tap = Some(Box::new(HostsTap::new(self.run, numbers, sink)));
    }

    pub(crate) fn run(self) -> Result<Outcome, Error> {
        carry_out(|| self.run_to_end()).map_err(|fault| Error::Algorithm(fault.to_string()))?
    }

    fn run_to_end(mut self) -> Result<Outcome, Error> {
        self.start();
        self.work_off();
        self.check()?;
        if let Some(mut tap) = self.net.tap.take() {
            tap.on_end(self.net.now);
        }
        self.finish().map(Part::finish)
    }

    pub(crate) fn start(&mut self) {
        for (index, link) in self.net.links.numbered_mut() {
            link.start(index, &mut self.net.events);
        }
        for at in self.net.reroutes.iter().flat_map(|reroutes| reroutes.times()) {
            self.net.events.push(at, Event::Reroute);
        }
        for place in 0..self.apps.len() {
            let index = self.apps.number(place) as usize;
            let flow = &self.run.flows[index];
            if self.domain.has_node(flow.to) {
                self.socks[server_of(index)].listen();
            }
            if !self.domain.has_node(flow.from) {
                continue;
            }
            let begin = self.begin_of(index);
            if begin != Time::MAX {
                self.net.events.push(begin, Event::App { flow: index as u32 });
            }
            for at in [flow.first_write, flow.stop].into_iter().flatten() {
                self.net.events.push(at, Event::App { flow: index as u32 });
            }
        }
        self.begin_messages();
        let run = self.run;
        for (index, ping) in (0..).zip(&run.pings) {
            if self.domain.has_node(ping.from) {
                self.schedule_ping(index, ping.start + ping.interval);
            }
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

    /// Returns the time at which a flow begins; later than any run if its turn has not come.
    pub(crate) fn begin_of(&self, flow: usize) -> Time {
        let turns = self.turns.as_ref();
        turns.map_or(self.run.flows[flow].start, |turns| turns.begin_of(flow))
    }

    /// Returns the number of flows whose completion ends the run; `None` if the run has its own end.
    pub(crate) fn flows_to_end(&self) -> Option<usize> {
        let flows = self.run.flows.iter().filter(|flow| flow.traffic.ends()).count();
        (self.run.until_done && flows > 0).then_some(flows)
    }

    fn work_off(&mut self) {
        let mut end = self.run.end;
        if self.work_off_until(end, self.flows_to_end()) {
            let next = domains::next_on_grid(self.net.now, domains::grid(&self.run.network));
            end = end.min(next);
            self.work_off_until(self.run.end.min(Time::from_ps(next.ps() - 1)), None);
        }
        self.net.now = end;
    }

    /// Handles the events up to `until`, its own included, or until nobody waits for them any more. Stops after the
    /// event that completes this many flows, and returns true.
    pub(crate) fn work_off_until(&mut self, until: Time, flows: Option<usize>) -> bool {
        let pkts_near = self.pkts_near();
        while let Some((at, event)) = self.net.events.pop(until) {
            if self.stop.is_due(self.net.events.taken) && self.must_end() {
                return false;
            }
            self.net.now = at;
            if self.net.packets.len() > pkts_near {
                if self.net.events.has_advanced() {
                    self.read_ahead();
                }
                if let Some(Ahead::Segment { sock, .. }) = self.net.events.ahead(SENDS_AHEAD) {
                    self.fetch_first_link(sock);
                }
            }
            self.handle(event);
            if flows == Some(self.ended) {
                return true;
            }
        }
        false
    }

    /// Returns how many packets are near beside the links and sockets.
    fn pkts_near(&self) -> usize {
        let links = self.net.links.len() * size_of::<LinkState>();
        let socks = self.socks.len() * size_of::<Sock>();
        NEAR_BYTES.saturating_sub(links + socks) / size_of::<Packet>()
    }

    /// Fetches what a socket's first link refers to. [`Simulation::read_ahead`] fetched the link itself.
    #[inline(never)]
    fn fetch_first_link(&self, sock: u32) {
        let sock = self.socks.get(sock as usize);
        if let Some(link) = sock.and_then(|sock| self.net.first_link(sock.path())) {
            link.fetch_behind();
        }
    }

    /// Fetches what the events of the next bucket need into the near cache, and what links and
    /// sockets of the current one refer to. So the processor waits for many lines at a time.
    fn read_ahead(&self) {
        let net = &self.net;
        for ahead in net.events.current() {
            match ahead {
                Ahead::Link { packet, link } => {
                    net.paths.fetch(net.packets.get(packet).hop);
                    if let Some(link) = net.links.get(link as usize) {
                        link.fetch_behind();
                    }
                }
                Ahead::Segment { sock, is_data, .. } => {
                    if let Some(sock) = self.socks.get(sock as usize) {
                        sock.fetch_behind(is_data);
                        // Most segments make the socket send one.
                        if let Some(link) = net.first_link(sock.path()) {
                            link.fetch();
                        }
                    }
                }
                Ahead::Timer { .. } => {}
            }
        }
        for ahead in net.events.opened() {
            match ahead {
                Ahead::Link { packet, link } => {
                    net.packets.fetch(packet);
                    if let Some(link) = net.links.get(link as usize) {
                        link.fetch();
                    }
                }
                Ahead::Segment { packet, sock, is_data } => {
                    net.packets.fetch(packet);
                    if let Some(app) = self.apps.get(sock as usize / 2).filter(|_| is_data) {
                        knee_prefetch::fetch(app, 0..1);
                    }
                    if let Some(sock) = self.socks.get(sock as usize) {
                        sock.fetch(is_data);
                    }
                }
                Ahead::Timer { sock } => {
                    if let Some(sock) = self.socks.get(sock as usize) {
                        sock.fetch(false);
                    }
                }
            }
        }
    }

    #[inline]
    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrive { packet, .. } => {
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
                let (packets, events) = (&mut net.packets, &mut net.events);
                net.links[link as usize].on_event(link, packets, net.now, events);
                if net.tap.is_some() {
                    net.tell_departures(link);
                }
                if net.flow_control.is_some() || net.varies {
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
                if timer == Timer::Retransmit {
                    self.on_retransmit_timer(sock);
                } else {
                    self.socks[sock as usize].on_timer(timer, &mut self.net);
                }
                if self.socks[sock as usize].receiver.unread_bytes > 0 {
                    self.offer_data(sock as usize);
                }
            }
            Event::App { flow } => self.on_app(flow as usize),
            Event::End { sock } => self.on_end(sock as usize),
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
            Event::LinkChange { link } => {
                let net = &mut self.net;
                let (packets, events) = (&mut net.packets, &mut net.events);
                net.links[link as usize].change(link, packets, net.now, events);
                net.tell_departures(link);
                self.after_departures(link);
            }
            Event::SampleFlows
            | Event::SampleQueues
            | Event::SampleGoodput
            | Event::SampleLinks
            | Event::Reroute
            | Event::Window => self.in_all_domains(event),
        }
    }

    /// An event that every domain has for its part; the first one counts it.
    #[cold]
    fn in_all_domains(&mut self, event: Event) {
        self.net.events.taken -= u64::from(!self.domain.is_first());
        match event {
            // So many samples may be taken at a time that checks between events come too late.
            Event::SampleFlows
            | Event::SampleQueues
            | Event::SampleGoodput
            | Event::SampleLinks
                if self.must_end() => {}
            Event::SampleFlows => self.sample_flows(),
            Event::SampleQueues => self.sample_queues(),
            Event::SampleGoodput => {
                self.sample_goodput();
                self.again(self.run.sampling.goodput, Event::SampleGoodput);
            }
            Event::SampleLinks => {
                self.link_counts.look(self.run, &mut self.net, &mut self.outcome);
            }
            Event::Reroute => self.reroute(),
            _ => self.count_window(),
        }
    }

    pub(crate) fn again(&mut self, period: Option<Duration>, event: Event) {
        if let Some(period) = period {
            self.net.events.push(self.net.now + period, event);
        }
    }

    /// Routes avoid other links from now on.
    fn reroute(&mut self) {
        let Net { reroutes, routes, paths, now, .. } = &mut self.net;
        let (Some(reroutes), Some(routes)) = (reroutes, routes) else { return };
        reroutes.take_due(*now, self.run, routes);
        for (number, sock) in self.socks.numbered_mut() {
            sock.set_path(reroutes.sock_path(number, paths, routes));
        }
        self.ping_paths = reroutes.ping_paths(paths, routes);
        routes.forget_distances();
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
        let packets = ports.take(port, self.net.now);
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
        let (mut packets, merges) = nics.take(queue, self.net.now);
        if self.net.tap.is_some() {
            packets.iter().for_each(|packet| self.tell_delivery(packet));
        }
        if let (true, Some(nics)) = (merges, &mut self.nics) {
            nics.merge(queue, &mut packets, &self.socks);
        }
        // An application runs when the kernel has handled all packets of the interrupt.
        for packet in &packets {
            self.pass_to_socket(packet);
        }
        for packet in packets.iter().filter(|packet| !packet.has(flags::PING | flags::TRIMMED)) {
            self.wake_application(packet.to as usize);
        }
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
        if self.pass_to_socket(packet) {
            self.wake_application(packet.to as usize);
        }
    }

    /// Lets the kernel of its host handle a packet. Returns whether the application of its socket may have something to do.
    #[inline]
    fn pass_to_socket(&mut self, packet: &Packet) -> bool {
        if packet.has(flags::PING | flags::TRIMMED) {
            // IP drops a packet that is shorter than it says.
            if !packet.has(flags::TRIMMED) {
                self.on_ping(*packet);
            }
            return false;
        }
        let sock = &mut self.socks[packet.to as usize];
        let was_established = sock.state == State::Established;
        sock.on_packet(packet, &mut self.net);
        sock.receiver.unread_bytes > 0 || !was_established
    }

    /// The application of a socket reads what it waits for, and writes once it is connected.
    #[inline]
    fn wake_application(&mut self, index: usize) {
        if self.socks[index].receiver.unread_bytes > 0 {
            self.offer_data(index);
        }
        let is_client = index % 2 == 0;
        if is_client
            && self.socks[index].state == State::Established
            && !self.apps[index / 2].writing_begun
        {
            self.on_connected(index / 2);
        }
    }

    #[cold]
    fn tell_delivery(&mut self, packet: &Packet) {
        if packet.has(flags::TRIMMED) {
            return;
        }
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
}

/// Returns about how many events these links have per second while all flows send: arrivals of full
/// packets both ways, at each flow's share of the links on its path.
fn events_per_sec(run: &Run, plan: &Plan, has: impl Fn(LinkId) -> bool) -> u64 {
    let links = &run.network.links;
    if !run.network.balance.is_empty() {
        // A flow's packets go many ways.
        let here = (0..).zip(links).filter(|(link, _)| has(*link));
        let rates = here.filter_map(|(_, link)| link.rate);
        return rates.map(|rate| rate.bps() / (8 * 1514)).fold(0, u64::saturating_add);
    }
    let ways = || plan.of_flows.iter().flat_map(|(there, back)| [*there, *back]);
    let mut ends_of_link = vec![0u64; links.len()];
    for link in ways().flat_map(|start| plan.links(start)) {
        ends_of_link[link as usize] += 1;
    }
    let of_way = |start: u32| {
        let rate = |link: u32| {
            let rate = links[link as usize].rate;
            rate.map(|rate| rate.bps() / ends_of_link[link as usize])
        };
        let share = plan.links(start).filter_map(rate).min().unwrap_or(0);
        let arrivals = plan.links(start).filter(|link| has(*link)).count();
        (share / (8 * 1514)).saturating_mul(arrivals as u64)
    };
    ways().map(of_way).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use knee_queue::time::Rate;
    use knee_queue::{DropTailConfig, Limit, QueueConfig};
    use knee_run::spec::{
        Cc, Flow, HostConfig, LinuxVersion, RouteChange, Sampling, Schedule, Traffic,
    };
    use knee_run::topology::{Cable, LeafSpine};

    /// A flow between two leaves whose routes avoid the link to its spine from 1 ms on.
    fn rerouted() -> Run {
        let cable = Cable {
            delay: Duration::from_us(1),
            ..Cable::new(
                Rate::from_bps(1_000_000_000),
                QueueConfig::DropTail(DropTailConfig { limit: Limit::Pkts(100) }),
            )
        };
        let fabric = LeafSpine {
            leaves: 2,
            spines: 2,
            hosts_per_leaf: 1,
            host: HostConfig::new(LinuxVersion(6, 1)),
            host_up: cable.clone(),
            host_down: cable.clone(),
            fabric: cable,
        };
        let mut network = fabric.build();
        let at = Time::from_ms(1);
        let link = network.link_named("leaf0-spine0").unwrap();
        network.changes.routes = vec![RouteChange { at, link, avoids: true }];
        let flow = Flow {
            group: 0,
            from: 0,
            to: 1,
            cc: Cc::by_name("reno").unwrap(),
            peer_cc: None,
            start: Time::ZERO,
            first_write: None,
            stop: None,
            traffic: Traffic::Bulk { bytes: None },
            read_at_bytes: 1,
            base_rtt: None,
            dscp: 0,
            peer_dscp: 0,
            max_pacing_rate: None,
            sampled: false,
        };
        Run {
            seed: 1,
            end: Time::from_ms(2),
            until_done: false,
            network,
            // One of them at least goes by that spine.
            flows: vec![flow; 16],
            pings: Vec::new(),
            sampling: Sampling::default(),
            schedule: Schedule::default(),
        }
    }

    #[test]
    fn paths_without_room_refuse_the_run() {
        let run = rerouted();
        assert!(Simulation::whole(&run, Stop::default()).unwrap().run().is_ok());
        let mut simulation = Simulation::whole(&run, Stop::default()).unwrap();
        simulation.net.paths.limit(0);
        let why = simulation.run().map(|_| ()).unwrap_err().to_string();
        assert!(why.contains("more than 2^32 links: take fewer flows"), "{why}");
    }
}
