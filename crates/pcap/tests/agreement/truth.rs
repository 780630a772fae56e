//! The fate of each packet of a simulated run, by where it was seen, which no counter of a host reports.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use knee_queue::Ecn;
use knee_run::spec::Run;
use knee_sim::simulate_captured;
use knee_sim::tap::Side;
use knee_sim::tap::hosts::{Content, Place, Sighting};
use knee_wire::Segment;

/// Round trip without queues of all cases, a little less.
const RTT_NS: u64 = 2_100_000;
/// As many ticks of timestamps as the analysis needs, and the largest one-way delay of any case.
const FIRST_NS: u64 = 26_000_000;
/// Full segments are of this size, or less by the longer header of IPv6.
const FULL_BYTES: u32 = 1428;

fn tsval(segment: &Segment) -> Option<u32> {
    segment.timestamps.map(|stamps| stamps.0)
}

/// One way of a flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Way {
    /// Segments with data that the sender sent, and of these those of bytes that it had sent before.
    pub(crate) sent: u64,
    pub(crate) again: u64,
    /// Segments that are not full.
    pub(crate) short: u64,
    /// Those that arrived, of these those with CE, and the payload of these.
    pub(crate) arrived: u64,
    pub(crate) ce: u64,
    pub(crate) ce_bytes: u64,
    /// Those that arrived and brought nothing: all of their bytes had come before.
    pub(crate) needless: u64,
    /// Those that arrived behind later ones, in their first copy; and those that filled such a gap in a later copy: of these,
    /// those that did so sooner than an ACK of the gap could have asked for them.
    pub(crate) late: u64,
    /// Those in the first moments, before the rate of the timestamp clock is known.
    pub(crate) late_at_first: u64,
    pub(crate) filled_again: u64,
    pub(crate) filled_soon: u64,
    /// When the first left, and when the last that brought something arrived, ns.
    pub(crate) first_ns: Option<u64>,
    pub(crate) last_ns: u64,
    /// ACKs with ECE that reached the sender of the data.
    pub(crate) ece: u64,
    /// ACKs without data that the sender of this way's data sent, for the other way.
    pub(crate) pure_acks: u64,
    had: Ranges,
    /// Since when later bytes than these are there.
    gaps: Vec<(u32, u32, u64)>,
    /// Timestamps of the copies of each segment, in the order of sending.
    copies: HashMap<u32, Vec<u32>>,
    next: u32,
    /// At the sender: what is acknowledged, and when anything was sent or heard last.
    una: u32,
}

/// Bytes that have come: begin and end of ranges that do not touch.
#[derive(Clone, Debug, Default)]
struct Ranges(BTreeMap<u32, u32>);

impl Ranges {
    fn has(&self, start: u32, end: u32) -> bool {
        self.0.range(..=start).next_back().is_some_and(|(_, behind)| *behind >= end)
    }

    fn end(&self) -> u32 {
        self.0.values().next_back().copied().unwrap_or(0)
    }

    fn add(&mut self, mut start: u32, mut end: u32) {
        while let Some((&from, &to)) = self.0.range(..=end).next_back() {
            if to < start {
                break;
            }
            (start, end) = (start.min(from), end.max(to));
            self.0.remove(&from);
        }
        self.0.insert(start, end);
    }
}

impl Way {
    fn leaves(&mut self, at_ns: u64, segment: &Segment) {
        self.sent += 1;
        let is_again = segment.seq < self.next;
        self.again += u64::from(is_again);
        self.short += u64::from(segment.len < FULL_BYTES);
        self.next = self.next.max(segment.seq + segment.len);
        self.first_ns.get_or_insert(at_ns);
        self.copies.entry(segment.seq).or_default().extend(tsval(segment));
    }

    fn arrives(&mut self, at_ns: u64, segment: &Segment) {
        let (start, end) = (segment.seq, segment.seq + segment.len);
        self.arrived += 1;
        if segment.ecn == Ecn::Ce {
            self.ce += 1;
            self.ce_bytes += u64::from(segment.len);
        }
        if self.had.has(start, end) {
            self.needless += 1;
            return;
        }
        let end_before = self.had.end();
        if start < end_before {
            // Nothing is retransmitted within a tick of the clock, so that a copy is known by its timestamp.
            let is_first = self.copies[&start].first().copied() == tsval(segment);
            let gap = self.gaps.iter().find(|gap| gap.0 <= start && start < gap.1);
            let is_soon = gap.is_some_and(|gap| at_ns - gap.2 < RTT_NS);
            self.late += u64::from(is_first);
            let is_at_first = at_ns - self.first_ns.unwrap_or(0) < FIRST_NS;
            self.late_at_first += u64::from(is_first && is_at_first);
            self.filled_again += u64::from(!is_first);
            self.filled_soon += u64::from(!is_first && is_soon);
        } else if start > end_before.max(1) {
            self.gaps.push((end_before.max(1), start, at_ns));
        }
        self.had.add(start, end);
        self.last_ns = at_ns;
    }
}

/// Both ways of each flow, that of the connecting side first. Simulates the run once more: the same seed, the same packets.
pub(crate) fn of(run: &Run) -> Vec<[Way; 2]> {
    let ways = Rc::new(RefCell::new(vec![<[Way; 2]>::default(); run.flows.len()]));
    let sink = Rc::clone(&ways);
    simulate_captured(run, move |sighting| note(&mut sink.borrow_mut(), &sighting)).unwrap();
    Rc::into_inner(ways).unwrap().into_inner()
}

fn note(ways: &mut [[Way; 2]], sighting: &Sighting) {
    let Content::Tcp { flow, side, segment, .. } = &sighting.packet.content else { return };
    if sighting.place != Place::Host {
        return;
    }
    let at_ns = sighting.at.ns();
    let from = usize::from(*side == Side::Listening);
    let other = &mut ways[*flow][1 - from];
    if !sighting.is_out && segment.has(Segment::ACK) {
        // At the sender of the other way: it is heard.
        other.una = other.una.max(segment.ack);
        other.ece += u64::from(segment.has(Segment::ECE) && !segment.has(Segment::SYN));
    }
    let way = &mut ways[*flow][from];
    let is_pure_ack = segment.has(Segment::ACK) && !segment.has(Segment::SYN) && segment.len == 0;
    way.pure_acks += u64::from(sighting.is_out && is_pure_ack);
    if segment.len > 0 {
        match sighting.is_out {
            true => way.leaves(at_ns, segment),
            false => way.arrives(at_ns, segment),
        }
    }
}
