//! What is wrong in a capture: findings, made from measurements alone.
//!
//! Each pathology is a [`Kind`] and a function that looks for it in one sender's data (a `View`) or in all flows together. What
//! all of them count on is in `docs/pcap-diagnosis.md`: where the capture has to be, and what each constant stands for.

mod acks;
mod bursts;
mod ecn;
mod incast;
mod late;
mod limits;
mod longer;
mod marks;
mod path;
mod policer;
mod reordering;
mod rtt;
mod shares;
mod silence;
#[cfg(test)]
mod tests;
mod threshold;
mod timeouts;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::SocketAddr;

use crate::data::MOST_EVENTS;
use crate::model::{
    Analysis, Direction, Event, EventKind, Evidence, Finding, Flow, PointPosition, Round, Severity,
};

/// Packets that a finding shows of a flow, at most: enough to see it with one's own eyes.
const SHOWN: usize = 4;

/// Headers on Ethernet beside a segment's payload: Ethernet, IPv4, TCP with timestamps.
const HEADER_BYTES: u64 = 66;
/// What hosts take beside the path, ns: to wake a process, to come to a packet among others, on one that is busy. Where a path takes less,
/// its RTT bounds nothing.
const HOST_NS: u64 = 100_000;
/// The share of the ACKs' rates that is taken for the bottleneck's: the highest few come from ACKs that waited behind each other.
const RATE_QUANTILE: f64 = 0.9;

/// A point is at the receiver if the way there and back is at most this part of the whole. What passes it has arrived then; a fifth, by
/// which a place is near, may be the other side of the queue that drops.
const AT_RECEIVER: u64 = 20;

/// And its own device, behind which nothing is dropped, if it is at most this part: a receiver takes some time to answer, too.
const RECEIVERS_DEVICE: u64 = 200;

/// A pathology: its name and what is said of it wherever it is found.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// [`Finding::kind`].
    pub name: &'static str,
    /// [`Finding::usually_means`].
    pub usually_means: &'static str,
    pub try_this: &'static str,
    /// How much it costs, unless figures say more.
    pub severity: Severity,
}

/// All kinds of findings.
pub const KINDS: [&Kind; 29] = [
    &rtt::BIMODAL,
    &acks::DELAYED,
    &acks::LEFT_OUT,
    &late::SPURIOUS,
    &silence::UNREACHABLE,
    &silence::BLACK_HOLE,
    &silence::ONE_SIDED,
    &reordering::REORDERED,
    &marks::ALL_MARKED,
    &longer::STALE,
    &timeouts::FLOOR,
    &timeouts::TAIL,
    &incast::COLLAPSE,
    &marks::STARVED,
    &marks::IGNORED,
    &ecn::ENDLESS,
    &ecn::OVERSTATED,
    &ecn::UNMARKED,
    &ecn::BLEACHED,
    &threshold::THRESHOLD,
    &rtt::STANDING,
    &policer::POLICER,
    &limits::RECEIVER,
    &limits::APPLICATION,
    &bursts::BURSTS,
    &path::CHANGE,
    &shares::BY_INPUT,
    &acks::STRETCH,
    &acks::BROKEN_MERGING,
];

/// What is found in an analysis, the most severe first; one finding for each pathology, with all
/// connections that have it, each by the flow that shows it best.
pub fn findings(analysis: &Analysis) -> Vec<Finding> {
    let mut all: Vec<Finding> = Vec::new();
    let views: Vec<View<'_>> = chosen(analysis).collect();
    let mut of_flows: Vec<Finding> = views.iter().flat_map(of_data).collect();
    of_flows.extend(by_timers(&views));
    of_flows.extend(rtt::standing(&views));
    of_flows.extend(policer::policers(&views));
    drop_consequences(&mut of_flows);
    let mut joined = BTreeSet::new();
    let together = incast::collapse(analysis).into_iter().chain(shares::by_input(analysis));
    for finding in of_flows.into_iter().chain(together).chain(ecn::bleached_between(analysis)) {
        match all.iter_mut().find(|other| other.kind == finding.kind) {
            Some(other) => {
                joined.insert(finding.kind);
                join(other, finding);
            }
            None => all.push(finding),
        }
    }
    let connections: BTreeMap<u32, u32> =
        analysis.flows.iter().map(|flow| (flow.id, flow.connection)).collect();
    for finding in &mut all {
        // Of several views of a connection the clearest.
        let mut named = BTreeSet::new();
        finding.flows.retain(|id| named.insert(connections.get(id).copied().unwrap_or(*id)));
        // Figures are of the clearest.
        if joined.contains(finding.kind) && finding.flows.len() > 1 {
            let _ =
                write!(finding.summary, " The clearest of {} connections.", finding.flows.len());
        }
    }
    all.sort_by(|x, y| y.severity.cmp(&x.severity).then_with(|| x.kind.cmp(y.kind)));
    all
}

/// The best views of each connection's data: the nearest to the sender, and one at the receiver if there is one.
fn chosen(analysis: &Analysis) -> impl Iterator<Item = View<'_>> {
    let mut at_receivers = BTreeSet::new();
    analysis.flows.iter().flat_map(move |flow| {
        let mut views = Vec::new();
        for (direction, view) in View::both(flow).into_iter().enumerate() {
            let is_first =
                view.is_near_receiver && at_receivers.insert((flow.connection, direction));
            if flow.is_primary || is_first {
                views.push(view);
            }
        }
        views
    })
}

/// Findings of one flow by itself.
pub fn of_flow(flow: &Flow) -> Vec<Finding> {
    let views = View::both(flow);
    let mut found: Vec<Finding> = views.iter().flat_map(of_data).chain(by_timers(&views)).collect();
    found.extend(rtt::standing(&views));
    found.extend(policer::policers(&views));
    drop_consequences(&mut found);
    found
}

/// Where a policer drops, timeouts and lost tails are what it causes, and their remedies do not help. ACKs for much at once are those of
/// receivers whose gaps are filled.
fn drop_consequences(found: &mut Vec<Finding>) {
    let of_policers = found.iter().filter(|finding| finding.kind == policer::POLICER.name);
    let policed: BTreeSet<u32> = of_policers.flat_map(|finding| finding.flows.clone()).collect();
    let consequences = [timeouts::FLOOR.name, timeouts::TAIL.name, acks::STRETCH.name];
    found.retain(|finding| {
        !consequences.contains(&finding.kind)
            || !finding.flows.iter().all(|id| policed.contains(id))
    });
}

/// What timers tell: which of several views knows best is decided for all of them together.
fn by_timers(views: &[View<'_>]) -> Vec<Finding> {
    let known = late::Known::new(views);
    let left_out = views.iter().filter_map(|view| acks::left_out(view, &known));
    let mut found: Vec<Finding> = left_out.chain(timeouts::floor(views, &known)).collect();
    found.extend(views.iter().filter_map(|view| timeouts::tail(view, &known)));
    found.extend(late::spurious(views, &known));
    found
}

fn of_data(view: &View<'_>) -> Vec<Finding> {
    let found = [
        rtt::bimodal(view),
        acks::delayed(view),
        marks::starved(view),
        marks::ignored(view),
        marks::all_marked(view),
        ecn::endless(view),
        ecn::overstated(view),
        ecn::unmarked(view),
        ecn::bleached(view),
        threshold::threshold(view),
        limits::receiver(view),
        limits::application(view),
        bursts::bursts(view),
        longer::change(view).or_else(|| path::change(view)),
        longer::stale(view),
        reordering::reordered(view),
        silence::unreachable(view),
        silence::one_sided(view),
        acks::stretch(view),
        acks::broken_merging(view),
    ];
    found.into_iter().flatten().collect()
}

/// Merges a finding of another flow; the sentence with the highest confidence stays.
fn join(other: &mut Finding, finding: Finding) {
    let is_clearer = (finding.severity, finding.confidence) > (other.severity, other.confidence);
    let mut flows = finding.flows;
    if is_clearer {
        flows.append(&mut other.flows);
        other.flows = flows;
        other.summary = finding.summary;
        (other.usually_means, other.try_this) = (finding.usually_means, finding.try_this);
        other.severity = finding.severity;
        other.confidence = finding.confidence;
        let mut evidence = finding.evidence;
        evidence.append(&mut other.evidence);
        other.evidence = evidence;
    } else {
        other.flows.append(&mut flows);
        other.evidence.extend(finding.evidence);
    }
    other.flows.dedup();
    // Of many flows the clearest few are enough to look at.
    other.evidence.truncate(4 * SHOWN);
}

/// One sender's data and the ACKs of it, as one capture point sees them.
#[derive(Clone, Copy)]
struct View<'a> {
    flow: &'a Flow,
    data: &'a Direction,
    /// The opposite direction.
    back: &'a Direction,
    /// The point is at the sender, so that RTTs are the whole path's.
    is_near_sender: bool,
    /// The point is at the receiver, so that all marks are made before it.
    is_near_receiver: bool,
    /// The point is so near that nothing is between it and the receiver.
    is_receivers_device: bool,
}

impl<'a> View<'a> {
    fn both(flow: &'a Flow) -> [View<'a>; 2] {
        let place = flow.location.place;
        let near =
            |is_a: bool| place == if is_a { PointPosition::NearA } else { PointPosition::NearB };
        let location = &flow.location;
        let at = |here: Option<u64>, there: Option<u64>, part: u64| {
            let (Some(here), Some(there)) = (here, there) else { return false };
            here.saturating_mul(part) <= here.saturating_add(there)
        };
        let (to_a, to_b) = (location.rtt_to_a_ns, location.rtt_to_b_ns);
        [
            View {
                flow,
                data: &flow.a_to_b,
                back: &flow.b_to_a,
                is_near_sender: near(true),
                is_near_receiver: at(to_b, to_a, AT_RECEIVER),
                is_receivers_device: at(to_b, to_a, RECEIVERS_DEVICE),
            },
            View {
                flow,
                data: &flow.b_to_a,
                back: &flow.a_to_b,
                is_near_sender: near(false),
                is_near_receiver: at(to_a, to_b, AT_RECEIVER),
                is_receivers_device: at(to_a, to_b, RECEIVERS_DEVICE),
            },
        ]
    }

    /// Sender and receiver.
    fn ends(&self) -> (SocketAddr, SocketAddr) {
        let flow = self.flow;
        if self.is_of_a() { (flow.a, flow.b) } else { (flow.b, flow.a) }
    }

    fn is_of_a(&self) -> bool {
        std::ptr::eq(self.data, &self.flow.a_to_b)
    }

    /// The smallest RTT of the whole path, ns: of data or of the handshake at the sender, else the sum of both parts.
    fn base_rtt_ns(&self) -> Option<u64> {
        if self.is_near_sender {
            let handshake = &self.flow.handshake;
            let of_syn = if self.is_of_a() { handshake.rtt_to_b_ns } else { handshake.rtt_to_a_ns };
            return self.data.rtt.min().into_iter().chain(of_syn).min();
        }
        let location = &self.flow.location;
        location.rtt_to_a_ns?.checked_add(location.rtt_to_b_ns?)
    }

    /// Largest segment that the sender sends, bytes; of a flow without data the standard's least.
    fn mss(&self) -> u64 {
        self.data.mss.map_or(536, u64::from).max(1)
    }

    /// Round trips that have an RTT and in which data was sent.
    fn rounds(&self) -> impl Iterator<Item = &'a Round> {
        self.data.rounds.iter().filter(|round| round.bytes > 0 && round.rtt_min_ns.is_some())
    }

    fn events(&self, kind: EventKind) -> impl Iterator<Item = &'a Event> {
        self.data.events.iter().filter(move |event| event.kind == kind)
    }

    /// "at least " if not all events of these kinds were kept; otherwise empty.
    fn at_least(&self, kinds: &[EventKind]) -> &'static str {
        let is_full = |kind: &EventKind| self.events(*kind).count() >= MOST_EVENTS as usize;
        if kinds.iter().any(is_full) { "at least " } else { "" }
    }

    /// Segments lost and retransmitted.
    fn losses(&self) -> u64 {
        let again = &self.data.retransmitted;
        again.segments.saturating_sub(again.spurious).max(self.data.lost_before_point)
    }

    /// Time of the flow, ns.
    fn lasted_ns(&self) -> u64 {
        self.flow.end_ns.saturating_sub(self.flow.begin_ns)
    }

    fn evidence(&self, number: u64, says: String) -> Evidence {
        Evidence { flow: self.flow.id, number, says }
    }

    fn finding(
        &self,
        kind: &Kind,
        summary: String,
        evidence: Vec<Evidence>,
        confidence: f64,
    ) -> Finding {
        kind.finding(vec![self.flow.id], summary, evidence, confidence)
    }
}

impl Kind {
    fn finding(
        &self,
        flows: Vec<u32>,
        summary: String,
        mut evidence: Vec<Evidence>,
        confidence: f64,
    ) -> Finding {
        evidence.truncate(4 * SHOWN);
        Finding {
            kind: self.name,
            flows,
            summary,
            evidence,
            usually_means: self.usually_means,
            try_this: self.try_this,
            severity: self.severity,
            confidence: confidence.clamp(0.0, 1.0),
        }
    }
}

/// How much a finding costs by its share of the flow's time or bytes.
fn severity(share: f64) -> Severity {
    const MUCH: f64 = 0.1;
    const SOME: f64 = 0.01;
    match share {
        share if share >= MUCH => Severity::Severe,
        share if share >= SOME => Severity::Costs,
        _ => Severity::Note,
    }
}

/// A time as people write it.
fn time(ns: u64) -> String {
    match ns {
        0..10_000 => format!("{ns} ns"),
        10_000..1_000_000 => format!("{} us", ns / 1000),
        1_000_000..100_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        100_000_000..10_000_000_000 => format!("{} ms", ns / 1_000_000),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}

/// How often, in words.
fn times(count: usize) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

/// A rate as people write it.
fn rate(bps: f64) -> String {
    if bps >= 1e9 {
        format!("{:.2} Gbps", bps / 1e9)
    } else if bps >= 1e6 {
        format!("{:.1} Mbps", bps / 1e6)
    } else {
        format!("{:.0} kbps", bps / 1e3)
    }
}

/// The middle one, the lower of two.
fn median<T: PartialOrd + Copy>(values: impl IntoIterator<Item = T>) -> Option<T> {
    let mut all: Vec<T> = values.into_iter().collect();
    all.sort_by(|x, y| x.partial_cmp(y).unwrap_or(std::cmp::Ordering::Equal));
    all.get(all.len().saturating_sub(1) / 2).copied()
}

/// Saturating sum of times, which a capture can make arbitrarily long.
fn sum(times_ns: impl Iterator<Item = u64>) -> u64 {
    times_ns.fold(0, u64::saturating_add)
}

/// Part of a whole, 0 where there is no whole.
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// A share in words.
fn per_cent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}
