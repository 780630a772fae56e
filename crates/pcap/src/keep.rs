//! Selection of the finished flows to keep, and sums of all.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::model::{Brief, Direction, Flow, Totals};

/// Keeps the largest flows, and those with the longest stalls.
pub(crate) struct Keeper {
    most: usize,
    flows: Vec<Flow>,
    taken: usize,
    totals: Totals,
}

impl Keeper {
    pub(crate) fn new(most: usize) -> Keeper {
        Keeper { most: most.max(1), flows: Vec::new(), taken: 0, totals: Totals::default() }
    }

    pub(crate) fn take(&mut self, flow: Flow) {
        self.totals.add_flow(&flow);
        self.taken += 1;
        self.flows.push(flow);
        if self.flows.len() >= 2 * self.most {
            self.thin();
        }
    }

    /// Drops what is neither among the largest nor among the longest stalls.
    fn thin(&mut self) {
        if self.flows.len() <= self.most {
            return;
        }
        let half = self.most / 2;
        self.flows.sort_by_key(|flow| (Reverse(flow.stall_ns()), Reverse(flow.bytes()), flow.id));
        let stalled = self.flows.iter().take(half).filter(|flow| flow.stall_ns() > 0).count();
        self.flows[stalled..].sort_by_key(|flow| (Reverse(flow.bytes()), flow.id));
        self.flows.truncate(self.most);
    }

    /// The flows in the order of their identities, and sums of all that came.
    pub(crate) fn finish(mut self) -> (Vec<Flow>, Totals) {
        self.thin();
        self.flows.sort_by_key(|flow| flow.id);
        choose_primary(&mut self.flows);
        if self.flows.len() == self.taken {
            self.totals = Totals { is_of_connections: true, ..Totals::default() };
            let primary = self.flows.iter().filter(|flow| flow.is_primary);
            primary.for_each(|flow| self.totals.add_flow(flow));
        }
        (self.flows, self.totals)
    }
}

/// Chooses the primary view of each connection: the nearest to the sender of most data.
fn choose_primary(flows: &mut [Flow]) {
    let mut best: HashMap<u32, (u64, u32)> = HashMap::new();
    for flow in &*flows {
        // One direction alone says little, however near it is.
        let is_half = flow.a_to_b.packets == 0 || flow.b_to_a.packets == 0;
        let to_sender_ns = match is_half {
            true => u64::MAX,
            false => flow.to_sender_ns().unwrap_or(u64::MAX - 1),
        };
        let entry = best.entry(flow.connection).or_insert((to_sender_ns, flow.id));
        *entry = (*entry).min((to_sender_ns, flow.id));
    }
    for flow in flows {
        flow.is_primary = best.get(&flow.connection).is_some_and(|best| best.1 == flow.id);
    }
}

impl Totals {
    fn add_flow(&mut self, flow: &Flow) {
        self.bytes += flow.main().bytes;
        self.bytes_back += flow.bytes() - flow.main().bytes;
        self.add(&flow.a_to_b);
        self.add(&flow.b_to_a);
    }

    fn add(&mut self, direction: &Direction) {
        self.segments += direction.segments;
        self.out_of_order += direction.out_of_order;
        self.ce += direction.ecn.ce;
        self.marked += direction.ecn.ce.max(direction.ecn.ace);
        self.rto_stall_ns = self.rto_stall_ns.saturating_add(direction.rto_stall_ns);
        let (sum, of) = (&mut self.retransmitted, &direction.retransmitted);
        sum.segments += of.segments;
        sum.bytes += of.bytes;
        sum.fast += of.fast;
        sum.rto += of.rto;
        sum.after_rto += of.after_rto;
        sum.tlp += of.tlp;
        sum.unclear += of.unclear;
        sum.spurious += of.spurious;
    }
}

impl Flow {
    /// Whether `a` sent most of the data.
    pub fn is_mostly_from_a(&self) -> bool {
        self.a_to_b.bytes >= self.b_to_a.bytes
    }

    /// The direction of most of the data.
    pub fn main(&self) -> &Direction {
        if self.is_mostly_from_a() { &self.a_to_b } else { &self.b_to_a }
    }

    /// Smallest time from the point to the sender of most of the data and back, ns.
    pub fn to_sender_ns(&self) -> Option<u64> {
        let location = &self.location;
        if self.is_mostly_from_a() { location.rtt_to_a_ns } else { location.rtt_to_b_ns }
    }

    /// Bytes of both directions.
    pub fn bytes(&self) -> u64 {
        self.a_to_b.bytes + self.b_to_a.bytes
    }

    /// Stalls that timeouts ended, of both directions, ns.
    pub fn stall_ns(&self) -> u64 {
        self.a_to_b.rto_stall_ns.saturating_add(self.b_to_a.rto_stall_ns)
    }

    /// Summary of the flow.
    pub fn brief(&self) -> Brief {
        let main = self.main();
        let (from, to) = if self.is_mostly_from_a() { (self.a, self.b) } else { (self.b, self.a) };
        Brief {
            id: self.id,
            connection: self.connection,
            is_primary: self.is_primary,
            point: self.point,
            from,
            to,
            begin_ns: self.begin_ns,
            end_ns: self.end_ns,
            bytes: main.bytes,
            goodput_bps: main.goodput_bps,
            rtos: main.retransmitted.rto,
            min_rtt_ns: main.rtt.min(),
            ttl: main.ttl,
        }
    }
}
