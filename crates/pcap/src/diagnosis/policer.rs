//! Losses by a token bucket without a queue.
//!
//! A bucket of rate r and depth B passes what a meter allows: its level falls at r down to nothing, rises with each byte that passes,
//! and a packet that would lift it over B is dropped. So losses find the level at its highest, whatever the sender does. The meter
//! needs no more than r, which is searched for: at the right one the losses stand above what passes, and all at the same level. A
//! buffer of B does the same at r, but its packets wait for up to B / r.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::{HEADER_BYTES, HOST_NS, Kind, SHOWN, View, median, rate, time};
use crate::model::{EventKind, Finding, Severity, Span};

pub(super) const POLICER: Kind = Kind {
    name: "policer",
    usually_means: "A policer (a rate limit without a queue) drops packets above its rate once its burst allowance is used up.",
    try_this: "Shape below that rate at the sender (fq with SO_MAX_PACING_RATE, tbf), or replace the policer by a shaper whose \
               queue marks.",
    severity: Severity::Costs,
};

/// Fewer losses do not show a pattern; as in Flach et al., "An Internet-wide analysis of traffic policing" (SIGCOMM 2016).
const LOSSES: u64 = 15;
/// Losses within a few packets are one moment, and fewer moments than this do not show a pattern either.
const MOMENTS: usize = 5;
/// Impulses that a span of data is taken for.
const IMPULSES: u64 = 4;
/// Impulses of all senders, at most.
const MOST_IMPULSES: usize = 4096;
/// Rates that are tried: from a little below what passed between losses, in steps, to several times that, since a sender that halves
/// its window leaves much unused; then about the best in finer ones.
const FROM: f64 = 0.9;
const STEPS: [(f64, i32); 2] = [(1.02, 80), (1.001, 20)];

/// Losses that know nothing of the level find a lower one for a half of what passes; this is in the middle between that and all.
const ABOVE: f64 = 0.75;
/// Where the bucket is empty most of the time, all passes at its end, too; but then the losses are all near the highest level. Those
/// that know nothing of it have their lower quarter below half of it.
const SHARP: f64 = 0.7;
/// A bucket that holds less than a few packets is what packets that follow each other closely look like, segments.
const LEAST_BURST: u64 = 8;
/// Least number of times that the passed data fills the bucket; with fewer, the level shows a few swings and no bound.
const FILLS: f64 = 10.0;
/// Packets that pass a full buffer wait for all of it, those behind a bucket not at all: a quarter is for jitter.
const NO_QUEUE: f64 = 0.25;
/// Pairs of hosts that are looked at, and flows by themselves: those with most losses.
const MOST_LOOKED: usize = 32;
/// Packets that may pass behind a loss beside what the rate allows: a bucket that lacks little for one refuses it.
const PACKETS: u64 = 2;

/// Data of senders behind one bucket, over time.
struct Sent {
    /// Time and bytes of what passed, with headers: what a bucket counts.
    passed: Vec<(u64, f64)>,
    losses: Vec<Span>,
}

/// How losses stand to what passes, at a rate.
#[derive(Clone, Copy, Debug)]
struct Fit {
    bytes_per_ns: f64,
    /// Part of what passes that finds a lower level than a loss does, on average: a half if losses know nothing of the level.
    above: f64,
    /// The level below which a quarter of the losses are, and the highest at which something passed.
    low: f64,
    highest: f64,
}

impl Sent {
    fn new(views: &[View<'_>]) -> Sent {
        let mut losses: Vec<Span> = Vec::new();
        let mut passed = Vec::new();
        for view in views {
            let mut bytes: Vec<f64> = view.data.sending.iter().map(wire_bytes).collect();
            for lost in &view.data.losses {
                let sending = &view.data.sending;
                let at = sending.partition_point(|span| span.begin_ns <= lost.begin_ns);
                if let Some(of_span) = at.checked_sub(1).and_then(|at| bytes.get_mut(at)) {
                    *of_span = (*of_span - wire_bytes(lost)).max(0.0);
                }
            }
            for (span, bytes) in view.data.sending.iter().zip(bytes) {
                let lasted = span.end_ns - span.begin_ns;
                let at = |part: u64| span.begin_ns + lasted / (2 * IMPULSES) * (2 * part + 1);
                passed.extend((0..IMPULSES).map(|part| (at(part), bytes / IMPULSES as f64)));
            }
            losses.extend(&view.data.losses);
        }
        losses.sort_by_key(|lost| lost.begin_ns);
        passed.sort_by_key(|impulse: &(u64, f64)| impulse.0);
        let of_one = passed.len().div_ceil(MOST_IMPULSES).max(1);
        let passed = passed.chunks(of_one).map(|some| {
            let bytes = some.iter().map(|impulse| impulse.1).sum();
            (some[some.len() / 2].0, bytes)
        });
        let passed = passed.collect();
        Sent { passed, losses }
    }

    /// The meter at one rate.
    fn fit(&self, bytes_per_ns: f64) -> Option<Fit> {
        let (mut level, mut at_ns) = (0.0_f64, 0);
        let mut of_lost = Vec::with_capacity(self.losses.len());
        let mut of_passed = Vec::with_capacity(self.passed.len());
        let mut losses = self.losses.iter().peekable();
        for &(time_ns, bytes) in &self.passed {
            let drained = |until_ns: u64| {
                (level - bytes_per_ns * until_ns.saturating_sub(at_ns) as f64).max(0.0)
            };
            while let Some(lost) = losses.next_if(|lost| lost.begin_ns < time_ns) {
                of_lost.push(drained(lost.begin_ns));
            }
            level = drained(time_ns) + bytes;
            at_ns = time_ns;
            of_passed.push((level, bytes));
        }
        of_passed.sort_by(|x, y| x.0.total_cmp(&y.0));
        of_lost.sort_by(f64::total_cmp);
        let all: f64 = of_passed.iter().map(|one| one.1).sum();
        let (mut below, mut next, mut sum) = (0.0, 0, 0.0);
        for lost in &of_lost {
            while of_passed.get(next).is_some_and(|passed| passed.0 < *lost) {
                below += of_passed[next].1;
                next += 1;
            }
            sum += below / all.max(1.0);
        }
        let above = sum / of_lost.len() as f64;
        let (low, highest) = (*of_lost.get(of_lost.len() / 4)?, of_passed.last()?.0);
        Some(Fit { bytes_per_ns, above, low, highest })
    }

    /// Mean rate in the round trip after a loss, when the bucket is empty, bytes per ns: at most the bucket's rate.
    fn behind_losses(&self, rtt_ns: u64, segment: u64) -> f64 {
        let sums = self.losses.iter().map(|lost| {
            let from = self.passed.partition_point(|impulse| impulse.0 <= lost.begin_ns);
            let until_ns = lost.begin_ns.saturating_add(rtt_ns);
            let behind = self.passed[from..].iter().take_while(|impulse| impulse.0 < until_ns);
            behind.map(|impulse| impulse.1).sum::<f64>() - (PACKETS * segment) as f64
        });
        sums.sum::<f64>() / rtt_ns.saturating_mul(self.losses.len() as u64).max(1) as f64
    }

    fn best(&self, rtt_ns: u64, segment: u64) -> Option<Fit> {
        let (first, last) = (self.losses.first()?.begin_ns, self.losses.last()?.end_ns);
        let between = |impulse: &&(u64, f64)| (first..last).contains(&impulse.0);
        let bytes: f64 = self.passed.iter().filter(between).map(|impulse| impulse.1).sum();
        let mut fits = Vec::new();
        let mean = bytes / (last - first).max(1) as f64;
        let least = self.behind_losses(rtt_ns, segment);
        let (mut from, mut best) = (least.max(FROM * mean), None);
        for (step, count) in STEPS {
            let tried = (0..=count).filter_map(|at| self.fit(from * step.powi(at)));
            fits.extend(tried);
            let score = |fit: &Fit| fit.above + fit.low / fit.highest.max(1.0);
            best = fits.iter().copied().max_by(|x, y| score(x).total_cmp(&score(y)));
            from = (best?.bytes_per_ns / STEPS[1].0.powi(STEPS[1].1 / 2)).max(least);
        }
        best
    }
}

/// Losses when a bucket of one rate is empty, and no queue before them: of the flows between two hosts together, which have one
/// policer on their path, else of each by itself.
pub(super) fn policers(views: &[View<'_>]) -> Vec<Finding> {
    let mut pairs: BTreeMap<(usize, IpAddr, IpAddr), Vec<View<'_>>> = BTreeMap::new();
    for view in views.iter().filter(|view| is_before_losses(view)) {
        let (from, to) = view.ends();
        pairs.entry((view.flow.point, from.ip(), to.ip())).or_default().push(*view);
    }
    let lost = |view: &View<'_>| lost_segments(view.data.losses.iter());
    let mut pairs: Vec<Vec<View<'_>>> = pairs.into_values().collect();
    pairs.sort_by_cached_key(|views| std::cmp::Reverse(views.iter().map(lost).sum::<u64>()));
    let mut found = Vec::new();
    // All pairs come first, and then of each that shows nothing the flow with most losses, the next one and so on: a pair of many
    // flows hides no other.
    let mut apart: Vec<Vec<View<'_>>> = Vec::new();
    for mut views in pairs.into_iter().take(MOST_LOOKED) {
        match of_senders(&views) {
            Some(finding) => found.push(finding),
            None if views.len() > 1 => {
                views.sort_by_key(|view| std::cmp::Reverse(lost(view)));
                apart.push(views);
            }
            None => {}
        }
    }
    let mut looked = 0;
    for rank in 0..MOST_LOOKED {
        for views in &mut apart {
            let Some(view) = views.get(rank).filter(|_| looked < MOST_LOOKED) else { continue };
            looked += 1;
            if let Some(finding) = of_senders(&[*view]) {
                found.push(finding);
                views.clear();
            }
        }
    }
    found
}

/// Whether the sender waits for timers most of the time: then they determine the rate.
fn is_stalled(view: &View<'_>) -> bool {
    view.data.rto_stall_ns > view.data.duration_ns / 2
}

/// Whether the point is before the policer: all lost packets passed it.
fn is_before_losses(view: &View<'_>) -> bool {
    let is_before = view.is_near_sender || view.data.lost_before_point == 0;
    is_before && !view.data.losses.is_empty() && !is_stalled(view)
}

/// Bytes of a span with headers.
fn wire_bytes(span: &Span) -> f64 {
    span.bytes as f64 + HEADER_BYTES as f64 * span.segments as f64
}

fn lost_segments<'a>(losses: impl Iterator<Item = &'a Span>) -> u64 {
    losses.map(|lost| lost.segments).sum()
}

fn of_senders(views: &[View<'_>]) -> Option<Finding> {
    let base = views.iter().filter_map(View::base_rtt_ns).min()?;
    let sent = Sent::new(views);
    let segments = lost_segments(sent.losses.iter());
    if segments < LOSSES || sent.losses.len() < MOMENTS {
        return None;
    }
    let segment = views.iter().map(View::mss).max()? + HEADER_BYTES;
    let fit = sent.best(base, segment)?;
    let is_level = fit.above >= ABOVE || fit.low >= SHARP * fit.highest;
    let passed: f64 = sent.passed.iter().map(|impulse| impulse.1).sum();
    let is_burst = (LEAST_BURST * segment) as f64 <= fit.highest;
    if !is_level || !is_burst || passed < FILLS * fit.highest {
        return None;
    }
    // What a buffer of that depth would have made the packets wait that were not dropped.
    let buffer_ns = fit.highest / fit.bytes_per_ns;
    let waited_ns = waited(views)?;
    if waited_ns as f64 > NO_QUEUE * buffer_ns {
        return None;
    }
    // Where packets wait for longer than the path itself takes when some are lost, a queue is full; not where it holds the few back
    // that the bucket lacks little for, or the hosts take that long.
    let held_ns = (PACKETS * segment) as f64 / fit.bytes_per_ns;
    if waited_ns > base.max((held_ns as u64).saturating_add(HOST_NS)) {
        return None;
    }
    let of = if views.len() > 1 { format!(" of {} flows", views.len()) } else { String::new() };
    let summary = format!(
        "{segments} segments{of} were lost, nearly all with {:.0} kB sent beyond {} (with headers), the rate that gets through. No \
         queue drops so: RTTs were {} above the smallest, and a queue of that size adds {}.",
        fit.highest / 1000.0,
        rate(fit.bytes_per_ns * 8e9),
        time(waited_ns),
        time(buffer_ns as u64),
    );
    let again = [EventKind::FastRetransmission, EventKind::RetransmissionAfterRto];
    let evidence = views.iter().flat_map(|view| {
        let events = view.data.events.iter().filter(|event| again.contains(&event.kind));
        events.take((SHOWN / views.len()).max(1)).map(|event| {
            let original =
                event.earlier.map_or_else(String::new, |earlier| format!(" {earlier} (lost)"));
            view.evidence(event.number, format!("retransmits{original}"))
        })
    });
    let flows = views.iter().map(|view| view.flow.id).collect();
    Some(POLICER.finding(flows, summary, evidence.collect(), fit.above.max(fit.low / fit.highest)))
}

/// Median excess over the smallest RTT in the round trips of losses, ns.
fn waited(views: &[View<'_>]) -> Option<u64> {
    let of_losses = views.iter().flat_map(|view| {
        let rounds = &view.data.rounds;
        // Where the point is not at the sender, its RTTs are of a part of the path.
        let of_all = view.base_rtt_ns().filter(|_| view.is_near_sender);
        let base = of_all.or(view.data.rtt.min()).unwrap_or_default();
        view.data.losses.iter().filter_map(move |lost| {
            let behind = rounds.partition_point(|round| round.begin_ns <= lost.begin_ns);
            let longest = rounds[behind.checked_sub(1)?].rtt_max_ns?;
            Some(longest.saturating_sub(base))
        })
    });
    median(of_losses)
}
