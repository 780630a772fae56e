//! Losses by a token bucket without a queue.
//!
//! A bucket of rate r and depth B passes what a meter allows: its level falls at r down to nothing, rises with each byte that passes,
//! and a packet that would lift it over B is dropped. So losses find the level at its highest, whatever the sender does. The meter
//! needs no more than r, which is searched for: at the right one the losses stand above what passes, and all at the same level. A
//! buffer of B does the same at r, but its packets wait for up to B / r.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::{HEADER_BYTES, HOST_NS, Kind, SHOWN, View, median, rate, time};
use crate::model::{EventKind, Finding, Round, Severity, Span};

pub(super) const POLICER: Kind = Kind {
    name: "policer",
    usually_means: "A policer (a rate limit without a queue) drops packets above its rate once its burst allowance is used up. An \
                    allowance of a few packets drops bursts at any rate: the rate is higher then than the one named here.",
    try_this: "Shape below that rate at the sender (fq with SO_MAX_PACING_RATE, tbf), or replace the policer by a shaper whose \
               queue marks.",
    severity: Severity::Costs,
};

/// The same, where a queue of a few packets is as quick as hosts are, or as long as packets wait here.
const OR_SHORT_QUEUE: Kind = Kind {
    usually_means: "A policer (a rate limit without a queue) may drop packets above its rate. It may also be a queue of a few packets, \
                    which adds as little to RTTs.",
    try_this: "Compare the rate with the links of the path. If it is that of a link, its buffer is too small for bursts: pace the \
               sender (fq). If not, shape below that rate at the sender.",
    ..POLICER
};

// What the shares and factors below do was measured by moving each of them by a fifth to a half, on 332 captures (119 of policers, 213 of
// other losses; notebook/pcap-matrix.md). Where a comment names no effect, it changes at most two of them.

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
/// And rates far above all that passed, in large steps: a small bucket that is empty again before each burst drops the same packets at
/// any of them.
const FAR: (f64, i32) = (1.7, 8);
/// At a rate that is so much higher, beyond all rates that fit about as well ...
const FASTER: f64 = 1.5;
/// ... the same bursts fill a bucket to this part of its depth at least. Else its depth may be no more than what a sender has sent beyond
/// its own mean rate. With 0.55 a rate is named that is wrong, with 0.85 a sixth fewer are named.
const FILLED: f64 = 0.7;
/// A sender that is just beyond the rate fills no bucket that is faster. Then losses find a high level at this rate, and any at that: on
/// both sides of the half that is chance.
const RELATED: f64 = 0.6;
const UNRELATED: f64 = 0.4;

/// Losses that know nothing of the level find a lower one for a half of what passes; this is in the middle between that and all.
const ABOVE: f64 = 0.75;
/// Where the bucket is empty most of the time, all passes at its end, too; but then the losses are all near the highest level. Those
/// that know nothing of it have their lower quarter below half of it. With 0.55 a queue is a policer.
const SHARP: f64 = 0.7;
/// Both together tell as much where neither does alone: of losses that know nothing the sum is at most one.
const BOTH: f64 = 1.33;
/// A bucket that holds less than a few packets is what packets that follow each other closely look like, segments.
const LEAST_BURST: u64 = 8;
/// Least number of times that the passed data fills the bucket, and that it does so between the first loss and the last; with fewer, the
/// level shows a few swings and no bound.
const FILLS: f64 = 10.0;
const FILLS_BETWEEN: f64 = 4.0;
/// Packets that pass a full buffer wait for all of it, those behind a bucket not at all: a quarter is for jitter.
const NO_QUEUE: f64 = 0.25;
/// More packets than this wait where there is a queue: a policer that holds a packet or two has none.
const QUEUED: f64 = 4.0;
/// And where it makes the losses, at least this part of the round trips without losses have less.
const LONGEST: f64 = 0.7;
/// Fits with this part of the best one's score are as good. With 0.98 four of 56 ranges miss the rate.
const AS_GOOD: f64 = 0.95;
/// Rates that differ by less than this are one: three steps of the search. By more than the second, none can be told: three times is of no
/// use to who looks for a limit.
const EXACT: f64 = 1.06;
const TELLS: f64 = 3.0;
/// Windows of time: round trips of each, at most as many, and at least as many; and the share of them with losses. With 0.45 four fewer
/// policers are found.
const ROUND_TRIPS: u64 = 2;
const MOST_WINDOWS: u64 = 256;
const WINDOWS: usize = 30;
const LOSSY: f64 = 0.3;
/// Losses of a sender that is beyond the rate most of the time.
const MANY_LOSSES: u64 = 100;
/// Share of the segments that only a policer, or a path in ruins, loses; and the share that only the latter does. With 0.2 for it four
/// fewer policers are found, with 0.5 a rate is wrong.
const MUCH: f64 = 0.05;
const MOST: f64 = 1.0 / 3.0;
/// Part of what is sent in addition that is lost: all of it at a policer, and of random losses their share. This is in the middle.
const BEYOND: f64 = 0.5;
/// Pairs of hosts that are looked at, and flows by themselves: those with most losses.
const MOST_LOOKED: usize = 32;
/// A SYN is sooner than the soonest data by what a segment takes on a link, which is this part of it at least: hosts add to both.
const SERIALISED: f64 = 0.8;
/// Most of the losses are of a path that is gone if more than this part is; losses at its ends are in windows in which something passed.
const GONE: f64 = 0.5;
/// Bytes of a SYN on Ethernet.
const SYN_BYTES: u64 = 74;
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

/// The best fit, the lowest and the highest rate of those that are about as good, and the next ones that were tried beyond, bytes per ns:
/// the true rate may be between.
struct Fits {
    best: Fit,
    rates: [f64; 2],
    ends: [f64; 2],
    /// Whether the losses tell a rate: not if it is the sender's own.
    is_told: bool,
    /// Whether bursts fill the bucket, whatever its rate.
    is_filled: bool,
    /// What passed between the first loss and the last, bytes.
    between: f64,
}

/// What was sent in a time, and what of it was lost, bytes.
#[derive(Clone, Copy)]
struct Window {
    sent: f64,
    lost: f64,
    lasted_ns: f64,
}

impl Sent {
    fn new(views: &[View<'_>]) -> Sent {
        let mut losses: Vec<Span> = Vec::new();
        let mut passed = Vec::new();
        for view in views {
            let sending = &view.data.sending;
            let first = passed.len();
            for span in sending {
                let lasted = span.end_ns - span.begin_ns;
                let at = |part: u64| span.begin_ns + lasted / (2 * IMPULSES) * (2 * part + 1);
                let bytes = wire_bytes(span) / IMPULSES as f64;
                passed.extend((0..IMPULSES).map(|part| (at(part), bytes)));
            }
            for lost in &view.data.losses {
                let at = sending.partition_point(|span| span.begin_ns <= lost.begin_ns);
                let Some(at) = at.checked_sub(1) else { continue };
                let of_span = &mut passed[first + at * IMPULSES as usize..];
                let of_span = &mut of_span[..IMPULSES as usize];
                take_off(of_span, lost);
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

    fn best(&self, rtt_ns: u64, segment: u64) -> Option<Fits> {
        let (first, last) = (self.losses.first()?.begin_ns, self.losses.last()?.end_ns);
        let between = |impulse: &&(u64, f64)| (first..last).contains(&impulse.0);
        let bytes: f64 = self.passed.iter().filter(between).map(|impulse| impulse.1).sum();
        let mut fits = Vec::new();
        let mean = bytes / (last - first).max(1) as f64;
        let least = self.behind_losses(rtt_ns, segment);
        let score = |fit: &Fit| fit.above + fit.low / fit.highest.max(1.0);
        let (mut from, mut best) = (least.max(FROM * mean), None);
        for (step, count) in STEPS {
            let tried = (0..=count).filter_map(|at| self.fit(from * step.powi(at)));
            fits.extend(tried);
            best = fits.iter().copied().max_by(|x, y| score(x).total_cmp(&score(y)));
            from = (best?.bytes_per_ns / STEPS[1].0.powi(STEPS[1].1 / 2)).max(least);
        }
        let best = best?;
        let far = (1..=FAR.1).filter_map(|at| self.fit(best.bytes_per_ns * FAR.0.powi(at)));
        fits.extend(far);
        fits.sort_by(|x, y| x.bytes_per_ns.total_cmp(&y.bytes_per_ns));
        let is_as_good = |fit: &Fit| score(fit) >= AS_GOOD * score(&best);
        let (first, last) = (fits.iter().position(is_as_good)?, fits.iter().rposition(is_as_good)?);
        let rates = [first, last].map(|at| fits[at].bytes_per_ns);
        let ends = [first.saturating_sub(1), (last + 1).min(fits.len() - 1)];
        let ends = ends.map(|at| fits[at].bytes_per_ns);
        let faster = self.fit(best.bytes_per_ns * FASTER)?;
        // Or else nothing is left there of what the losses have in common here.
        let is_lost = best.above >= RELATED && score(&faster) < UNRELATED;
        let is_filled = faster.highest >= FILLED * best.highest;
        let is_told = is_lost || is_filled;
        Some(Fits { best, rates, ends, is_told, is_filled, between: bytes })
    }

    /// How long a window of time is that holds some round trips, and several spans, ns.
    fn lasted_ns(&self, rtt_ns: u64) -> f64 {
        let begin = self.passed.first().map_or(0, |impulse| impulse.0);
        let end = self.passed.last().map_or(0, |impulse| impulse.0);
        let least = end.saturating_sub(begin) / MOST_WINDOWS;
        rtt_ns.saturating_mul(ROUND_TRIPS).max(least).max(1) as f64
    }

    /// What was sent and lost in windows of time, one behind the other.
    fn windows(&self, rtt_ns: u64) -> Vec<Window> {
        let lasted_ns = self.lasted_ns(rtt_ns);
        let begin = self.passed.first().map_or(0, |impulse| impulse.0);
        let at = |time_ns: u64| (time_ns.saturating_sub(begin) as f64 / lasted_ns) as usize;
        let mut windows =
            vec![Window { sent: 0.0, lost: 0.0, lasted_ns }; MOST_WINDOWS as usize + 1];
        for (time_ns, bytes) in &self.passed {
            if let Some(window) = windows.get_mut(at(*time_ns)) {
                window.sent += bytes;
            }
        }
        for lost in &self.losses {
            if let Some(window) = windows.get_mut(at(lost.begin_ns)) {
                window.sent += wire_bytes(lost);
                window.lost += wire_bytes(lost);
            }
        }
        windows.retain(|window| window.sent > 0.0);
        // The last one may end in its middle.
        windows.pop();
        windows
    }

    /// The highest rate that passed in such a window, bytes per ns.
    fn most(&self, rtt_ns: u64) -> Option<f64> {
        let rates = self
            .windows(rtt_ns)
            .into_iter()
            .map(|window| (window.sent - window.lost) / window.lasted_ns);
        rates.max_by(f64::total_cmp)
    }
}

/// Takes what was lost off the impulses of its span: those from its own time on, and then those before.
fn take_off(of_span: &mut [(u64, f64)], lost: &Span) {
    let mut rest = wire_bytes(lost);
    let begin = of_span.partition_point(|impulse| impulse.0 < lost.begin_ns).saturating_sub(1);
    of_span.rotate_left(begin);
    for (_, bytes) in of_span.iter_mut() {
        let taken = bytes.min(rest);
        *bytes -= taken;
        rest -= taken;
    }
    of_span.rotate_right(begin);
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

/// Whether the sender waits for timers most of the time: then they determine the rate. A bucket that is full again after each wait still
/// drops much of what a sender starts with, and no more than a part of it: where most is lost, a queue of a few packets drops bursts.
fn is_stalled(view: &View<'_>) -> bool {
    let lost = lost_segments(view.data.losses.iter()) as f64 / view.data.segments.max(1) as f64;
    view.data.rto_stall_ns > view.data.duration_ns / 2 && !(MUCH..MOST).contains(&lost)
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
    if is_serialised(views, segment, fit.best.bytes_per_ns) {
        return None;
    }
    if is_gone(&sent, base, segment, fit.best.bytes_per_ns) {
        return None;
    }
    let (waited_ns, rank) = queue_at_losses(views)?;
    let packets = waited_ns.saturating_sub(HOST_NS) as f64 * fit.best.bytes_per_ns / segment as f64;
    // A full queue, or one that an AQM holds short, is longest when it drops. What waits without a relation to losses is jitter.
    if packets > QUEUED && rank > LONGEST {
        return None;
    }
    let found = by_level(views, &sent, &fit, [base, segment, waited_ns, segments])
        .or_else(|| by_rate(views, &sent, &fit, packets, [base, segment, waited_ns, segments]))?;
    let short_ns = QUEUED * segment as f64 / fit.best.bytes_per_ns;
    // A depth that is told, and is far above a few packets, is of no such queue.
    let is_deep = fit.is_told && fit.best.highest >= (LEAST_BURST * segment) as f64;
    let may_be_queue = short_ns < HOST_NS as f64 || (packets > 1.0 && !is_deep);
    let kind = if may_be_queue { OR_SHORT_QUEUE } else { POLICER };
    Some(Finding { usually_means: kind.usually_means, try_this: kind.try_this, ..found })
}

/// Whether nearly all that is lost is lost when nothing passes: then the path was gone. A policer passes packets at its rate at any time.
fn is_gone(sent: &Sent, rtt_ns: u64, segment: u64, bytes_per_ns: f64) -> bool {
    let windows = sent.windows(rtt_ns);
    let lost = |windows: &mut dyn Iterator<Item = &Window>| -> f64 {
        windows.map(|window| window.lost).sum()
    };
    // In less time a policer may pass none, too.
    let passes = sent.lasted_ns(rtt_ns) * bytes_per_ns >= (LEAST_BURST * segment) as f64;
    let is_empty = |window: &&Window| window.sent - window.lost < segment as f64;
    let (gone, all) = (lost(&mut windows.iter().filter(is_empty)), lost(&mut windows.iter()));
    passes && gone > GONE * all
}

/// Whether no segment was sooner than a link of this rate sends one. A policer sends nothing at its own rate: it passes what the bucket
/// has room for as fast as it comes.
fn is_serialised(views: &[View<'_>], segment: u64, bytes_per_ns: f64) -> bool {
    let takes_ns = segment.saturating_sub(SYN_BYTES) as f64 / bytes_per_ns;
    let least_ns = (SERIALISED * takes_ns).max(HOST_NS as f64);
    // Both from the point to the receiver and back.
    let later = views.iter().filter_map(|view| {
        let handshake = &view.flow.handshake;
        let of_syn = if view.is_of_a() { handshake.rtt_to_b_ns } else { handshake.rtt_to_a_ns };
        Some(view.data.rtt.min()?.saturating_sub(of_syn?))
    });
    later.min().is_some_and(|later_ns| later_ns as f64 >= least_ns)
}

/// Losses at the bucket's end.
fn by_level(
    views: &[View<'_>],
    sent: &Sent,
    Fits { best: fit, rates, ends, is_told, is_filled, between: passed_between }: &Fits,
    [base, segment, waited_ns, segments]: [u64; 4],
) -> Option<Finding> {
    let is_level = fit.above >= ABOVE
        || fit.low >= SHARP * fit.highest
        || fit.above + fit.low / fit.highest.max(1.0) >= BOTH;
    let passed: f64 = sent.passed.iter().map(|impulse| impulse.1).sum();
    let is_burst = (LEAST_BURST * segment) as f64 <= fit.highest;
    let is_enough = passed >= FILLS * fit.highest && *passed_between >= FILLS_BETWEEN * fit.highest;
    if !is_level || !is_burst || !is_enough {
        return None;
    }
    // What a buffer of that depth would have made the packets wait that were not dropped.
    let buffer_ns = fit.highest / fit.bytes_per_ns;
    if waited_ns as f64 > NO_QUEUE * buffer_ns {
        return None;
    }
    // Where packets wait for longer than the path itself takes when some are lost, a queue is full; not where it holds the few back
    // that the bucket lacks little for, or the hosts take that long.
    let held_ns = (PACKETS * segment) as f64 / fit.bytes_per_ns;
    if waited_ns > base.max((held_ns as u64).saturating_add(HOST_NS)) {
        return None;
    }
    // A sender that is just below the rate before each loss has passed what the bucket lets through; of a bucket that may be a small one,
    // all of that.
    let depth = if *is_filled { fit.highest } else { 0.0 };
    let passed = sent.most(base).unwrap_or(0.0) - depth / sent.lasted_ns(base);
    let [rates, ends] = [rates, ends].map(|[low, high]| [*low, high.max(passed)]);
    let says = format!(
        "nearly all with {:.0} kB sent beyond {}. No queue drops so: RTTs were {} above the smallest, and a queue of that size adds {}",
        fit.highest / 1000.0,
        between(rates, ends, *is_told),
        time(waited_ns),
        time(buffer_ns as u64),
    );
    Some(finding(views, segments, &says, fit.above.max(fit.low / fit.highest)))
}

/// Losses of all that is sent beyond one rate, of a sender that is beyond it most of the time: the bucket is always empty.
fn by_rate(
    views: &[View<'_>],
    sent: &Sent,
    fits: &Fits,
    packets: f64,
    [base, segment, waited_ns, segments]: [u64; 4],
) -> Option<Finding> {
    if packets > QUEUED || segments < MANY_LOSSES {
        return None;
    }
    let windows = sent.windows(base);
    let count = windows.len() as f64;
    let lossy: Vec<&Window> = windows.iter().filter(|window| window.lost > 0.0).collect();
    if windows.len() < WINDOWS || (lossy.len() as f64) < LOSSY * count {
        return None;
    }
    let mean = |of: &dyn Fn(&Window) -> f64| windows.iter().map(of).sum::<f64>() / count;
    let (all, lost) = (mean(&|window| window.sent), mean(&|window| window.lost));
    let with = mean(&|window| (window.sent - all) * (window.lost - lost));
    let spread = mean(&|window| (window.sent - all).powi(2));
    // Random losses are a share of what is sent, and of what is sent in addition too.
    if spread <= 0.0 || with / spread < BEYOND {
        return None;
    }
    let mut rates: Vec<f64> =
        lossy.iter().map(|window| (window.sent - window.lost) / window.lasted_ns).collect();
    rates.sort_by(f64::total_cmp);
    let at = |share: f64| rates[((rates.len() - 1) as f64 * share) as usize];
    // A window of time ends somewhere within a packet.
    let packet = segment as f64 / 2.0 / sent.lasted_ns(base);
    // A bucket of a few packets passes as many of each burst, whatever its rate. The rates here are what passed while some was lost, of
    // which levels say nothing: that no level tells a rate is no reason against them.
    let is_small = fits.best.highest < (LEAST_BURST * segment) as f64;
    let is_told = !is_small || fits.rates[1] <= TELLS * fits.rates[0];
    let rates = [(at(0.1) - packet).max(0.0), at(0.9) + packet];
    let says = format!(
        "{} of what was sent in addition, beyond {}, at any time. No queue drops so: RTTs were {} above the smallest",
        super::per_cent((with / spread).min(1.0)),
        between(rates, rates, is_told),
        time(waited_ns),
    );
    Some(finding(views, segments, &says, 0.7))
}

/// A rate as far as it can be told: a range up to these ends, since a small bucket and bursts fit many.
fn between([low, high]: [f64; 2], ends: [f64; 2], is_told: bool) -> String {
    let [from, to] = ends.map(|bytes_per_ns| rate(bytes_per_ns * 8e9));
    let what = "(with headers)";
    match high / low.max(f64::MIN_POSITIVE) {
        _ if !is_told => format!("a rate that cannot be told from this capture: {from} or more"),
        ratio if ratio <= EXACT => format!("about {} {what}", rate(f64::midpoint(low, high) * 8e9)),
        ratio if ratio <= TELLS => format!("a rate between {from} and {to} {what}"),
        _ => format!("a rate that cannot be told from this capture ({from} to {to} fit)"),
    }
}

fn finding(views: &[View<'_>], segments: u64, says: &str, confidence: f64) -> Finding {
    let of = if views.len() > 1 { format!(" of {} flows", views.len()) } else { String::new() };
    let summary = format!("{segments} segments{of} were lost, {says}.");
    let again = [EventKind::FastRetransmission, EventKind::RetransmissionAfterRto, EventKind::Rto];
    let evidence = views.iter().flat_map(|view| {
        let events = view.data.events.iter().filter(|event| again.contains(&event.kind));
        events.take((SHOWN / views.len()).max(1)).map(|event| {
            let original =
                event.earlier.map_or_else(String::new, |earlier| format!(" {earlier} (lost)"));
            view.evidence(event.number, format!("retransmits{original}"))
        })
    });
    let flows = views.iter().map(|view| view.flow.id).collect();
    POLICER.finding(flows, summary, evidence.collect(), confidence)
}

/// How long packets wait in the round trips of losses, ns in the median, and which part of the other round trips have less. SACK
/// compression looks like a queue: it adds at most 5 % of an RTT and 100 us of slack, never more than 1.1 ms. So ACKs that may be held
/// back count only if there are no others.
fn queue_at_losses(views: &[View<'_>]) -> Option<(u64, f64)> {
    queue_of(views, |round| round.rtt_max_unheld_ns)
        .or_else(|| queue_of(views, |round| round.rtt_max_ns))
}

fn queue_of(views: &[View<'_>], longest_of: impl Fn(&Round) -> Option<u64>) -> Option<(u64, f64)> {
    let (mut at_losses, mut others) = (Vec::new(), Vec::new());
    for view in views {
        let rounds = &view.data.rounds;
        let of_all = view.base_rtt_ns().filter(|_| view.is_near_sender);
        let base = of_all.or(view.data.rtt.min()).unwrap_or_default();
        let mut is_lossy = vec![false; rounds.len()];
        for lost in &view.data.losses {
            let behind = rounds.partition_point(|round| round.begin_ns <= lost.begin_ns);
            if let Some(at) = behind.checked_sub(1) {
                is_lossy[at] = true;
            }
        }
        // What is sent in one round trip is acknowledged in the next.
        for (at, round) in rounds.iter().enumerate() {
            let next = rounds.get(at + 1).and_then(&longest_of);
            let Some(longest) = longest_of(round).max(next) else { continue };
            let waited = longest.saturating_sub(base);
            if is_lossy[at] { at_losses.push(waited) } else { others.push(waited) }
        }
    }
    others.sort_unstable();
    let below = |waited: &u64| others.partition_point(|other| other < waited) as f64;
    let rank =
        at_losses.iter().map(below).sum::<f64>() / (at_losses.len() * others.len()).max(1) as f64;
    Some((median(at_losses)?, if others.is_empty() { 1.0 } else { rank }))
}
