//! Long RTTs: those of two modes, and those that never come down.

use std::collections::HashMap;
use std::net::IpAddr;

use super::{Kind, SHOWN, View, median, per_cent, share, time};
use crate::model::{Finding, ReceiverKind, Round, Severity};

pub(super) const BIMODAL: Kind = Kind {
    name: "rtt-bimodal",
    usually_means: "A device of the receiver or the sender coalesces interrupts: it waits for more packets or a timer, and a \
                    small window has too few packets. It may also be a shaper whose burst allowance is used up.",
    try_this: "Lower the device's receive coalescing (ethtool -C: rx-usecs, rx-frames), or let it adapt (adaptive-rx on).",
    severity: Severity::Costs,
};

pub(super) const STANDING: Kind = Kind {
    name: "standing-queue",
    usually_means: "A buffer on the path is much deeper than a BDP, and no mark or drop tells the sender before it is full. It may also be an \
                    AQM whose target is longer than this path's RTT, or ACKs that queue on the way back.",
    try_this: "Mark at the bottleneck and use an algorithm that responds to marks (DCTCP), or one that uses the RTT (BBR), or \
               bound the buffer with an AQM.",
    severity: Severity::Costs,
};

/// A mode has at least this share of the RTTs: less are outliers, which every path has.
const MODE_SHARE: f64 = 0.05;
/// Least number of RTTs of a mode.
const MODE_RTTS: u64 = 20;
/// Between modes lies at most this share: queues grow packet by packet, and so fill what lies between.
const VALLEY_SHARE: f64 = 0.02;
/// The upper mode begins at this multiple of the lower one's end: twice is what a queue of a BDP gives, three times is beyond that.
const APART: u64 = 3;
/// Windows of the longer mode are smaller than this part of the others: a segment or two less is what a queue of other flows may find.
const SMALLER: f64 = 0.75;
/// Least share of the small windows with the longer mode.
const MOST: f64 = 0.5;
/// An own queue that never holds less than a BDP doubles the RTT. A buffer of one BDP is what a sender that halves its window needs
/// to keep the link busy; what stays beyond that is delay for nothing.
const DOUBLED: u64 = 2;
/// Smallest window without waits for timers, segments: at this window, many senders together fill the queue.
const LEAST_WINDOW: u64 = 2;
/// Fewer segments, of all flows together, are no queue to speak of: every sender may begin with as many (RFC 6928), and on a slow link
/// that is a BDP and more.
const LEAST_QUEUE: u64 = 10;
/// No device coalesces for longer, ns: what makes RTTs longer by more is a shaper, or another path.
const COALESCED_NS: u64 = 20_000_000;
/// Round trips that are looked at for a queue that stays: a loss-based sender's saw tooth has tens of them.
const LAST_ROUNDS: usize = 20;

/// Largest RTT of the lower mode, smallest of the upper one, and the upper one's share.
fn modes(view: &View<'_>) -> Option<(u64, u64, f64)> {
    let rtt = &view.data.rtt;
    let buckets: Vec<_> = rtt.buckets().collect();
    let valley_most = (rtt.count() as f64 * VALLEY_SHARE) as u64;
    let mode_least = MODE_RTTS.max((rtt.count() as f64 * MODE_SHARE) as u64);
    let mut best: Option<(u64, u64, f64)> = None;
    let mut below = 0;
    for (at, bucket) in buckets.iter().enumerate() {
        below += bucket.count;
        if below < mode_least {
            continue;
        }
        // What follows belongs to the valley as long as it is next to nothing.
        let (mut valley, mut next) = (0, at + 1);
        while next < buckets.len() && valley + buckets[next].count <= valley_most {
            valley += buckets[next].count;
            next += 1;
        }
        let Some(upper) = buckets.get(next) else { break };
        let above = rtt.count() - below - valley;
        // RTTs of some seconds have products beyond 64 bits.
        let product = |x: u64, y: u64| u128::from(x) * u128::from(y);
        let is_wider =
            best.is_none_or(|(low, high, _)| product(upper.from, low) > product(high, bucket.to));
        if above >= mode_least && upper.from >= APART.saturating_mul(bucket.to) && is_wider {
            best = Some((bucket.to, upper.from, share(above, rtt.count())));
        }
    }
    best
}

/// Two modes of RTT of which small windows have the longer one.
pub(super) fn bimodal(view: &View<'_>) -> Option<Finding> {
    if !view.is_near_sender {
        return None;
    }
    let (low, high, upper_share) = modes(view)?;
    let is_upper = |round: &&Round| round.rtt_min_ns.is_some_and(|rtt| rtt >= high);
    let is_lower = |round: &&Round| round.rtt_min_ns.is_some_and(|rtt| rtt <= low);
    let upper: Vec<&Round> = view.rounds().filter(is_upper).collect();
    let lower: Vec<&Round> = view.rounds().filter(is_lower).collect();
    let upper_inflight = median(upper.iter().map(|round| round.inflight_bytes))?;
    let lower_inflight = median(lower.iter().map(|round| round.inflight_bytes))?;
    // A queue makes RTTs longer the more is in flight. Here it is the other way round, and by more than windows differ anyway.
    if upper_inflight as f64 >= SMALLER * lower_inflight as f64 {
        return None;
    }
    // Else the queue's own growth makes both: windows as small as these had the shorter mode, too, while it was empty.
    let is_small = |round: &&Round| round.inflight_bytes <= upper_inflight;
    let small = view.rounds().filter(is_small).count();
    let small_upper = upper.iter().copied().filter(is_small).count();
    if small_upper as f64 <= MOST * small as f64 {
        return None;
    }
    // One or two segments alone wait for a delayed ACK.
    if upper_inflight <= 2 * view.mss() {
        return None;
    }
    let upper_ns = median(upper.iter().filter_map(|round| round.rtt_mean_ns))?;
    let lower_ns = median(lower.iter().filter_map(|round| round.rtt_mean_ns))?;
    if upper_ns.saturating_sub(lower_ns) > COALESCED_NS {
        return None;
    }
    let segments = |bytes: u64| bytes.div_ceil(view.mss());
    let summary = format!(
        "RTTs have two modes, {} and {} ({} of them); the longer one has the smaller windows: {} segments in flight against {}.",
        time(lower_ns),
        time(upper_ns),
        per_cent(upper_share),
        segments(upper_inflight),
        segments(lower_inflight),
    );
    let show = |round: &&Round| {
        let rtt = time(round.rtt_min_ns.unwrap_or_default());
        let flight = segments(round.inflight_bytes);
        view.evidence(
            round.first_number,
            format!("at least {rtt} with {flight} segments in flight"),
        )
    };
    let evidence = upper.iter().take(SHOWN / 2).chain(lower.iter().rev().take(SHOWN / 2)).map(show);
    Some(view.finding(&BIMODAL, summary, evidence.collect(), 0.9))
}

/// A flow whose RTTs stay above twice the smallest one.
struct Waits<'a> {
    view: &'a View<'a>,
    /// Its last round trips, and the smallest RTT in them, ns.
    last: Vec<&'a Round>,
    least_ns: u64,
    /// The smallest RTT without a queue, ns.
    base_ns: u64,
    /// What of the flow waits, bytes.
    bytes: f64,
}

impl Waits<'_> {
    /// From the first to the last of its last round trips, ns.
    fn lasted(&self) -> Option<[u64; 2]> {
        let (first, last) = (self.last.first()?, self.last.last()?);
        Some([first.begin_ns, last.begin_ns.saturating_add(last.duration_ns)])
    }

    /// The middle of that time, ns.
    fn middle_ns(&self) -> u64 {
        self.lasted().map_or(0, |[from, until]| from + (until - from) / 2)
    }

    /// The host that receives its packets: they may wait at its port, if nowhere else.
    fn host(&self) -> IpAddr {
        self.view.ends().1.ip()
    }
}

/// Moments at which flows to a host begin to wait, or end it, each with the bytes of it and of all earlier ones.
#[derive(Default)]
struct Moments(Vec<(u64, f64)>);

impl Moments {
    fn sort(&mut self) {
        self.0.sort_unstable_by(|(x, x_bytes), (y, y_bytes)| {
            x.cmp(y).then(x_bytes.total_cmp(y_bytes))
        });
        let mut sum = 0.0;
        for (_, bytes) in &mut self.0 {
            sum += *bytes;
            *bytes = sum;
        }
    }

    /// Number and bytes of those up to this moment.
    fn until(&self, at_ns: u64) -> (usize, f64) {
        let count = self.0.partition_point(|(moment, _)| *moment <= at_ns);
        (count, count.checked_sub(1).map_or(0.0, |last| self.0[last].1))
    }
}

fn waits<'a>(view: &'a View<'a>) -> Option<Waits<'a>> {
    if !view.is_near_sender || bimodal(view).is_some() {
        return None;
    }
    // Since the path is longer, that is the RTT without a queue.
    let base = view.base_rtt_ns()?;
    let base = super::longer::longer(view).map_or(base, |longer| longer.after_ns.max(base));
    let mut last: Vec<&Round> = view.rounds().collect();
    last.drain(..last.len().checked_sub(LAST_ROUNDS)?);
    let least = last.iter().filter_map(|round| round.rtt_min_ns).min()?;
    // What one packet at a time waits for is no queue of its own.
    let is_alone = last.iter().all(|round| round.inflight_bytes <= LEAST_WINDOW * view.mss());
    if least < DOUBLED.saturating_mul(base) || is_alone {
        return None;
    }
    // Marks that DCTCP heeds hold the queue at K: that is as long as it is meant to be.
    let marked = view.data.rtt_marked.quantile(0.5);
    let is_held = marked.is_some_and(|marked| least <= marked);
    if view.data.receiver.kind == ReceiverKind::Dctcp && is_held {
        return None;
    }
    let rate_bps = median(last.iter().map(|round| round.rate_bps))?;
    let bytes = rate_bps / 8.0 * (least - base) as f64 / 1e9;
    Some(Waits { view, last, least_ns: least, base_ns: base, bytes })
}

/// Queues that never drain, of what all flows to a host have in them at one time.
pub(super) fn standing(views: &[View<'_>]) -> Vec<Finding> {
    let all: Vec<Waits<'_>> = views.iter().filter_map(waits).collect();
    let mut hosts: HashMap<IpAddr, [Moments; 2]> = HashMap::new();
    for one in &all {
        let Some(ends) = one.lasted() else { continue };
        let moments = hosts.entry(one.host()).or_default();
        moments
            .iter_mut()
            .zip(ends)
            .for_each(|(moments, at_ns)| moments.0.push((at_ns, one.bytes)));
    }
    hosts.values_mut().flatten().for_each(Moments::sort);
    let found = all.iter().filter_map(|one| {
        let [begun, ended] = hosts.get(&one.host())?.each_ref().map(|of| of.until(one.middle_ns()));
        let (flows, bytes) = (begun.0 - ended.0, begun.1 - ended.1);
        (bytes > (LEAST_QUEUE * one.view.mss()) as f64).then(|| of_queue(one, flows, bytes))
    });
    found.collect()
}

fn of_queue(one: &Waits<'_>, flows: usize, bytes: f64) -> Finding {
    let Waits { view, last, least_ns, base_ns, .. } = one;
    let of_all = match flows {
        1 => String::new(),
        _ => format!(" and {:.0} kB of the {flows} flows to this host", bytes / 1000.0),
    };
    let summary = format!(
        "In the last {LAST_ROUNDS} round trips no RTT was below {}, {:.1} times the smallest ({}): a standing queue of {}, \
         {:.0} kB of it from this flow{of_all}.",
        time(*least_ns),
        *least_ns as f64 / *base_ns as f64,
        time(*base_ns),
        time(least_ns - base_ns),
        one.bytes / 1000.0,
    );
    let mut longest: Vec<&&Round> = last.iter().collect();
    longest.sort_by_key(|round| std::cmp::Reverse(round.rtt_min_ns));
    let evidence = longest.iter().take(SHOWN).map(|round| {
        let rtt = time(round.rtt_min_ns.unwrap_or_default());
        view.evidence(round.first_number, format!("a round trip in which no RTT is below {rtt}"))
    });
    view.finding(&STANDING, summary, evidence.collect(), 0.9)
}
