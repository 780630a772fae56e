//! The applications at both ends of flows.
//!
//! An application knows only what its own host knows, so the two ends of a flow can be in different
//! domains of a network. [`App`](crate::app::App) has the state of
//! both ends; each end changes its own fields.

use crate::events::{Event, NONE, Timer};
use crate::sim::{Simulation, client_of, server_of};
use crate::tcp::State;
use knee_queue::time::{Duration, Time};
use knee_run::outcome::RpcRecord;
use knee_run::spec::Traffic;
use knee_run::turns::{Next, Ready};

impl Simulation<'_> {
    // ---- applications ----

    pub(crate) fn on_app(&mut self, index: usize) {
        let flow = &self.run.flows[index];
        let now = self.net.now;
        let begin = self.begin_of(index);
        if self.apps[index].connected_at.is_none() && now >= begin {
            self.apps[index].connected_at = Some(now);
            self.socks[client_of(index)].connect(&mut self.net);
        }
        if flow.first_write.is_some_and(|at| now >= at) {
            self.begin_writing(index);
        }
        if self.apps[index].writing_begun && self.carries_messages(index) {
            self.write_messages(index);
        }
        if let Some(pool) = self.pools.pool_of(index) {
            if self.pools.wakes(pool, now.ns()) {
                self.serve(pool);
            }
        }
        if flow.stop.is_some_and(|at| now >= at)
            && matches!(flow.traffic, Traffic::Bulk { .. })
            && self.apps[index].done_at.is_none()
            && self.apps[index].stopped_at.is_none()
        {
            self.apps[index].stopped_at = Some(now);
            self.end_flow(index, client_of(index));
        }
    }

    pub(crate) fn on_connected(&mut self, index: usize) {
        if self.run.flows[index].first_write.is_none_or(|at| self.net.now >= at) {
            self.begin_writing(index);
        }
    }

    fn begin_writing(&mut self, index: usize) {
        if self.socks[client_of(index)].state == State::Established
            && !self.apps[index].writing_begun
        {
            self.apps[index].writing_begun = true;
            match self.carries_messages(index) {
                true => self.write_messages(index),
                false => self.next_request(index),
            }
        }
    }

    /// Starts the next request of this flow, or of all flows that send together with it.
    fn next_request(&mut self, index: usize) {
        if let Some(pool) = self.pools.pool_of(index) {
            self.pools.free(index);
            return self.serve(pool);
        }
        let ready = self.turns.as_mut().map_or(Ready::Alone, |turns| turns.on_ready(index));
        match ready {
            Ready::Alone => self.begin_request(index, self.net.now),
            Ready::Waits => {}
            Ready::All(set) => {
                let mut place = 0;
                while let Some(flow) =
                    self.turns.as_ref().and_then(|turns| turns.member(set, place))
                {
                    self.begin_request(flow as usize, self.net.now);
                    place += 1;
                }
            }
        }
    }

    /// Sends the requests of a pool that have arrived, as far as it has connections for them.
    fn serve(&mut self, pool: usize) {
        let pools = &self.run.schedule.pools;
        loop {
            match self.pools.next(pools, pool, self.net.now.ns()) {
                Next::Begin(flow, arrival_ns) => {
                    self.begin_request(flow as usize, Time::from_ns(arrival_ns));
                }
                // The connecting host of all flows of a pool is one: any of them will do.
                Next::At(at_ns) => {
                    let flow = pools[pool].flows[0];
                    return self.net.events.push(Time::from_ns(at_ns), Event::App { flow });
                }
                Next::Waits => return,
            }
        }
    }

    /// Returns the client's retransmission timeouts so far.
    fn timeouts(&self, index: usize) -> u64 {
        self.socks[client_of(index)].counters.timeouts
    }

    /// The client writes a request, which may have arrived earlier, or the whole transfer.
    fn begin_request(&mut self, index: usize, arrived: Time) {
        let timeouts = self.timeouts(index);
        let number = self.apps[index].requests_done;
        let drawn = self.pools.response_bytes(&self.run.schedule.pools, index, number);
        let app = &mut self.apps[index];
        if let Some(last) = app.last_exchange {
            self.outcome.rpcs[last].timeouts = Some(timeouts - app.timeouts_before);
            self.exchange_ends[last] = self.net.now;
        }
        app.timeouts_before = timeouts;
        app.request_started = arrived;
        let traffic = &self.run.flows[index].traffic;
        app.response_left = drawn.unwrap_or(traffic.response_bytes());
        let bytes = traffic.request_bytes();
        self.socks[client_of(index)].write(bytes, &mut self.net);
    }

    /// Data waits: the application reads it if there is as much as it asked to be woken for.
    pub(crate) fn offer_data(&mut self, index: usize) {
        let flow = index / 2;
        let is_server = index % 2 == 1;
        let app = &self.apps[flow];
        let left = if is_server { app.request_left } else { app.response_left };
        let read_at = if is_server { app.read_at_bytes } else { 1 };
        let left_of_message = if is_server { self.left_of_message(flow) } else { None };
        let sock = &mut self.socks[index];
        sock.receiver.set_read_at(u64::from(read_at).min(left_of_message.unwrap_or(left)) as u32);
        if !sock.is_readable() {
            return;
        }
        let read = u64::from(sock.read(u64::MAX, &mut self.net));
        if is_server {
            if self.apps[flow].request_left == u64::MAX {
                return;
            }
            self.apps[flow].request_left = left.saturating_sub(read);
            if left_of_message.is_some() {
                self.on_messages(flow, read);
            }
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
            Traffic::Bulk { .. } => self.complete(index, server_of(index)),
            Traffic::Rpc { request_bytes, response_bytes, .. } => {
                self.apps[index].request_left = request_bytes;
                let drawn = self.pools.next_response_bytes(&self.run.schedule.pools, index);
                let response_bytes = drawn.unwrap_or(response_bytes);
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
        // Timeouts up to now count, those at this time too, until there is a next request.
        self.exchange_ends.push(self.net.now + Duration::from_ps(1));
        let stopped = self.run.flows[index].stop.is_some_and(|stop| self.net.now >= stop);
        if count.is_some_and(|count| app.requests_done >= count) {
            self.complete(index, client_of(index));
        } else if stopped {
            app.stopped_at = Some(self.net.now);
            self.end_flow(index, client_of(index));
        } else {
            self.next_request(index);
        }
    }

    fn complete(&mut self, index: usize, ender: usize) {
        self.apps[index].done_at = Some(self.net.now);
        self.end_flow(index, ender);
    }

    /// Ends a flow at the side that finds it done. The other side learns of it as late as by the
    /// fastest packet between them.
    fn end_flow(&mut self, index: usize, ender: usize) {
        let flow = &self.run.flows[index];
        // A transfer is complete when its server has all of it.
        let is_complete = flow.traffic.is_rpc() || ender == server_of(index);
        self.ended += usize::from(flow.traffic.ends() && is_complete);
        self.socks[ender].end(&mut self.net);
        let learns_at = self.net.now + self.least_delay(ender);
        let peer = Event::End { sock: ender as u32 ^ 1 };
        let peers_node = if ender == client_of(index) { flow.to } else { flow.from };
        match self.domain.beyond(peers_node) {
            None => self.net.events.push(learns_at, peer),
            Some(domain) => {
                let times = (self.net.now, learns_at);
                self.net.events.push_away(domain, times, peer, NONE);
            }
        }
        if self.turns.is_some() {
            self.give_turns(index);
        }
    }

    /// The peer's application is done.
    pub(crate) fn on_end(&mut self, sock: usize) {
        self.socks[sock].end(&mut self.net);
    }

    /// The retransmission timer of a socket is due. Keeps the times of a server's timeouts, which
    /// belong to one of the client's exchanges.
    #[cold]
    pub(crate) fn on_retransmit_timer(&mut self, sock: u32) {
        let socket = &mut self.socks[sock as usize];
        let before = socket.counters.timeouts;
        socket.on_timer(Timer::Retransmit, &mut self.net);
        let (flow, is_server) = (sock / 2, sock % 2 == 1);
        if is_server
            && socket.counters.timeouts != before
            && self.run.flows[flow as usize].traffic.is_rpc()
        {
            self.server_timeouts.push((flow, self.net.now));
        }
    }

    /// Returns the time that an empty packet of a socket would take without queues.
    fn least_delay(&self, sock: usize) -> Duration {
        let path = self.socks[sock].path();
        if let Some(balancer) = &self.net.balancer {
            return balancer.least_delay(self.run, self.net.paths.link(path), sock as u32);
        }
        let links = self.net.paths.links(path);
        let delays = links.map(|link| self.run.network.links[link as usize].delay);
        delays.fold(Duration::ZERO, |sum, delay| sum + delay)
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
}
