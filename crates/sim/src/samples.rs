//! Samples of a run, and its outcome.

use crate::events::Event;
use crate::merge::Part;
use crate::modules;
use crate::sim::{Simulation, client_of, server_of};
use crate::tcp::{Sock, State};
use knee_queue::time::{Duration, Time};
use knee_run::Error;
use knee_run::outcome::{
    Counters, FlowCounters, FlowOutcome, FlowWindow, GoodputSample, QueueOutcome, Windowed, Work,
};

impl Simulation<'_> {
    pub(crate) fn sample_flows(&mut self) {
        for place in 0..self.apps.len() {
            let index = self.apps.number(place) as usize;
            let flow = &self.run.flows[index];
            if !flow.sampled || !self.domain.has_node(flow.from) {
                continue;
            }
            let sock = &mut self.socks[client_of(index)];
            if sock.state == State::Established {
                self.outcome.flow_samples.push(sock.sample(index as u32, &mut self.net));
            }
        }
        self.again(self.run.sampling.flows, Event::SampleFlows);
    }

    pub(crate) fn sample_queues(&mut self) {
        for link in &self.sampled {
            let link = &mut self.net.links[*link as usize];
            self.outcome.queue_samples.extend(link.samples(self.net.now));
        }
        for buffer in self.buffers.iter().map(|buffer| buffer.borrow()) {
            if buffer.sampled {
                let sample = buffer.sample(&mut self.net.links, self.net.now);
                self.outcome.queue_samples.push(sample);
            }
        }
        self.again(self.run.sampling.queues, Event::SampleQueues);
    }

    pub(crate) fn sample_goodput(&mut self) {
        for place in 0..self.apps.len() {
            let index = self.apps.number(place) as usize;
            let begin = self.begin_of(index);
            if begin > self.net.now || !self.domain.has_node(self.run.flows[index].to) {
                continue;
            }
            let received = self.socks[server_of(index)].received_bytes();
            let app = &mut self.apps[index];
            let bytes = received - app.sampled_bytes;
            app.sampled_bytes = received;
            let sample = GoodputSample { at: self.net.now, flow: index as u32, bytes };
            self.outcome.goodput_samples.push(sample);
        }
    }

    /// Counts at the begin and the end of the measured window.
    pub(crate) fn count_window(&mut self) {
        let flows = self.flow_outcomes().map(|flow| FlowWindow {
            received_bytes: flow.received_bytes,
            counters: flow.counters,
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
        let mut queues: Vec<QueueOutcome> = Vec::new();
        for link in &self.sampled {
            queues.extend(self.net.links[*link as usize].outcomes(now));
        }
        for buffer in self.buffers.iter().map(|buffer| buffer.borrow()) {
            if buffer.sampled {
                queues.push(buffer.outcome(&mut self.net.links, now));
            }
        }
        queues
    }

    // ---- the end ----

    /// Returns the outcome of this domain.
    ///
    /// # Errors
    /// If there was no room for its paths.
    pub(crate) fn finish(mut self) -> Result<Part, Error> {
        self.net.paths.check()?;
        // The run may end before the measured window.
        if self.before_window.is_some() {
            self.count_window();
        }
        self.outcome.flows = self.flow_outcomes().collect();
        self.outcome.end = self.net.now;
        self.link_counts.look(self.run, &mut self.net, &mut self.outcome);
        if let Some(nics) = &self.nics {
            self.outcome.host_counts = nics.counts(&self.hosts, &self.socks, self.run);
        }
        self.outcome.queues = self.queue_outcomes();
        let in_flight = self.one_way_in_flight();
        let loaded = self.hosts.iter().map(|host| host.as_ref().map(|host| &host.modules));
        modules::collect(loaded, &mut self.outcome);
        self.outcome.work = Work { events: self.net.events.taken, ..self.net.work };
        Ok(Part {
            outcome: self.outcome,
            exchange_ends: self.exchange_ends,
            server_timeouts: self.server_timeouts,
            arrivals: self.arrivals,
            in_flight,
        })
    }

    /// Returns what the domain knows of each flow with an end in it.
    fn flow_outcomes(&self) -> impl Iterator<Item = FlowOutcome> {
        (0..self.apps.len()).map(|place| self.flow_outcome(self.apps.number(place) as usize))
    }

    fn flow_outcome(&self, index: usize) -> FlowOutcome {
        let app = &self.apps[index];
        let client = self.socks.get(client_of(index));
        let server = self.socks.get(server_of(index));
        // An end in another domain is added there.
        let of_end = |sock: Option<&Sock>| {
            FlowCounters::from(sock.map_or(Counters::default(), Sock::counts))
        };
        let traffic = self.run.flows[index].traffic;
        let counters = FlowCounters::of_ends(traffic, &of_end(client), &of_end(server));
        let outcome = FlowOutcome {
            connected_at: app.connected_at,
            done_at: app.done_at,
            stopped_at: app.stopped_at,
            received_bytes: server.map_or(0, Sock::received_bytes),
            counters,
            warnings: [client, server].into_iter().flatten().flat_map(Sock::warnings).collect(),
            ..FlowOutcome::default()
        };
        let Some(client) = client else { return outcome };
        FlowOutcome {
            established_at: Some(client.established_at).filter(|at| *at < Time::MAX),
            ecn: client.ecn_negotiated(),
            algorithm: client.algorithm_name(),
            srtt: client.srtt_us().map(|us| Duration::from_us(u64::from(us))),
            min_rtt: client.min_rtt_us().map(|us| Duration::from_us(u64::from(us))),
            cwnd_pkts: client.tp.snd_cwnd,
            ..outcome
        }
    }
}
