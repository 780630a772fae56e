//! The same packets at two points: how long they took, how far apart the clocks are, and what was lost between.
//!
//! With clocks that differ by an offset, packets one way take the delay and the offset, those the other way the delay less the offset.
//! The smallest delay of a way has no queues in it. If both ways' are equal, half of the difference is the offset; how wrong that
//! may be is half of their sum.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::BuildHasher as _;
use std::net::IpAddr;

use foldhash::fast::FixedState;

use crate::input::Seen;
use crate::model::{Crossing, Delay};

/// Packets that wait to be seen at another point.
const MOST_WAITING: usize = 1 << 19;
/// How long they wait, ns: longer than what clocks of machines that are kept in time differ by, and than queues are.
const WAIT_NS: u64 = 10_000_000_000;
/// Most pairs of hosts at pairs of points that are tracked separately.
const MOST_PAIRS: usize = 4096;
/// Windows of time in which the clocks are compared, and the width of the first ones, ns.
const MOST_WINDOWS: usize = 64;
const FIRST_WINDOW_NS: u64 = 10_000_000;
/// Packets a way and a window before it says something about clocks.
const FEWEST_IN_WINDOW: u64 = 4;
/// Least ratio of a drift over all windows to the windows' noise.
const DRIFT_OVER_NOISE: f64 = 8.0;
/// Windows before there is a drift.
const FEWEST_WINDOWS: usize = 8;

/// Points that one packet is looked for at.
const MOST_SIGHTINGS: usize = 4;

/// A packet, and where it was seen so far.
#[derive(Clone, Copy)]
struct Waiting {
    sightings: [(u32, u64); MOST_SIGHTINGS],
    count: u8,
    /// Index of its hosts, and whether the lower address sent it.
    hosts: u32,
    is_from_low: bool,
}

impl Waiting {
    fn seen(&self) -> &[(u32, u64)] {
        &self.sightings[..usize::from(self.count)]
    }
}

/// Matched packets of two hosts, per pair of points.
#[derive(Default)]
struct Hosts {
    pairs: Vec<((u32, u32), Matched)>,
}

/// Differences of times, of packets one way.
#[derive(Clone, Copy, Debug, Default)]
struct Differences {
    count: u64,
    sum: i128,
    min: i64,
    max: i64,
}

impl Differences {
    fn add(&mut self, ns: i64) {
        self.min = if self.count == 0 { ns } else { self.min.min(ns) };
        self.max = if self.count == 0 { ns } else { self.max.max(ns) };
        self.count += 1;
        self.sum += i128::from(ns);
    }

    fn join(&mut self, other: &Differences) {
        if other.count > 0 {
            let is_first = self.count == 0;
            self.min = if is_first { other.min } else { self.min.min(other.min) };
            self.max = if is_first { other.max } else { self.max.max(other.max) };
            self.count += other.count;
            self.sum += other.sum;
        }
    }

    fn mean(&self) -> i64 {
        if self.count == 0 { 0 } else { (self.sum / i128::from(self.count)) as i64 }
    }
}

/// Time differences between two points. Index 0: packets from the lower address; 1: from the higher.
#[derive(Clone, Debug, Default)]
struct Matched {
    begin_ns: u64,
    width_ns: u64,
    windows: Vec<[Differences; 2]>,
    all: [Differences; 2],
    /// Times at the first point of the first and the last, and packets between them that it alone saw; by way and point.
    spans: [[Option<(u64, u64)>; 2]; 2],
    alone: [[u64; 2]; 2],
}

impl Matched {
    fn add(&mut self, way: usize, at_ns: u64, ns: i64) {
        self.all[way].add(ns);
        if self.windows.is_empty() {
            (self.begin_ns, self.width_ns) = (at_ns, FIRST_WINDOW_NS);
        }
        loop {
            let index = (at_ns.saturating_sub(self.begin_ns) / self.width_ns) as usize;
            if index < MOST_WINDOWS {
                if self.windows.len() <= index {
                    self.windows.resize(index + 1, Default::default());
                }
                return self.windows[index][way].add(ns);
            }
            self.width_ns = self.width_ns.saturating_mul(2);
            let pairs = self.windows.chunks(2).map(|pair| {
                let mut joined = pair[0];
                for (joined, other) in joined.iter_mut().zip(pair.get(1).into_iter().flatten()) {
                    joined.join(other);
                }
                joined
            });
            self.windows = pairs.collect();
        }
    }
}

/// Looks for packets that several points saw.
#[derive(Default)]
pub(crate) struct Matcher {
    waiting: HashMap<u64, Waiting, FixedState>,
    order: VecDeque<(u64, u64)>,
    indices: HashMap<(IpAddr, IpAddr), u32, FixedState>,
    hosts: Vec<Hosts>,
    pairs: usize,
    /// Packets per point that cannot be matched.
    not_comparable: Vec<u64>,
}

impl Matcher {
    /// A packet at a point. One that is `cut` between the points looks different at each.
    pub(crate) fn packet(&mut self, seen: &Seen, point: u32, is_cut: bool) {
        if is_cut {
            let at = point as usize;
            if self.not_comparable.len() <= at {
                self.not_comparable.resize(at + 1, 0);
            }
            self.not_comparable[at] += 1;
            return;
        }
        let tcp = &seen.tcp;
        let (from, to) = (tcp.source.ip(), tcp.destination.ip());
        let is_from_low = (from, tcp.source.port()) <= (to, tcp.destination.port());
        // What changes on the way (ECN, time to live) is no part of it.
        let identity = (
            (tcp.source, tcp.destination, tcp.seq, tcp.ack, tcp.flags, tcp.len),
            (tcp.window, tcp.timestamps, tcp.sacks(), tcp.ip_id),
        );
        let print = FixedState::default().hash_one(identity);
        let next = self.hosts.len() as u32;
        let hosts = *self.indices.entry((from.min(to), from.max(to))).or_insert(next);
        if hosts == next {
            self.hosts.push(Hosts::default());
        }
        self.sight(print, point, seen.at_ns, hosts, is_from_low);
        while let Some((print, at_ns)) = self.order.front().copied() {
            let is_old = at_ns.saturating_add(WAIT_NS) < seen.at_ns;
            if !is_old && self.order.len() <= MOST_WAITING {
                break;
            }
            self.order.pop_front();
            self.give_up(print, at_ns);
        }
    }

    fn sight(&mut self, print: u64, point: u32, at_ns: u64, hosts: u32, is_from_low: bool) {
        let new =
            Waiting { sightings: [(point, at_ns); MOST_SIGHTINGS], count: 1, hosts, is_from_low };
        let waiting = match self.waiting.get_mut(&print) {
            None => {
                self.waiting.insert(print, new);
                self.order.push_back((print, at_ns));
                return;
            }
            // The same once more at a point: retransmitted with all numbers the same.
            Some(waiting) if waiting.seen().iter().any(|seen| seen.0 == point) => {
                let before = std::mem::replace(waiting, new);
                self.order.push_back((print, at_ns));
                return self.close(&before);
            }
            Some(waiting) => waiting,
        };
        let before = *waiting;
        if before.seen().len() < MOST_SIGHTINGS {
            waiting.sightings[before.seen().len()] = (point, at_ns);
            waiting.count += 1;
        }
        for earlier in before.seen() {
            self.matched(*earlier, (point, at_ns), hosts, usize::from(is_from_low));
        }
    }

    fn matched(&mut self, earlier: (u32, u64), here: (u32, u64), hosts: u32, way: usize) {
        let (p, q) = (earlier.min(here), earlier.max(here));
        let points = (p.0, q.0);
        let of = &mut self.hosts[hosts as usize];
        let at = match of.pairs.iter().position(|pair| pair.0 == points) {
            Some(at) => at,
            None if self.pairs >= MOST_PAIRS => return,
            None => {
                self.pairs += 1;
                of.pairs.push((points, Matched::default()));
                of.pairs.len() - 1
            }
        };
        let matched = &mut of.pairs[at].1;
        let ns = i64::try_from(i128::from(q.1) - i128::from(p.1)).unwrap_or(i64::MAX);
        matched.add(way, p.1, ns);
        for (span, at_ns) in matched.spans[way].iter_mut().zip([p.1, q.1]) {
            let (first, last) = span.unwrap_or((at_ns, at_ns));
            *span = Some((first.min(at_ns), last.max(at_ns)));
        }
    }

    /// A packet has waited long enough.
    fn give_up(&mut self, print: u64, at_ns: u64) {
        if self.waiting.get(&print).is_some_and(|waiting| waiting.sightings[0].1 == at_ns) {
            if let Some(waiting) = self.waiting.remove(&print) {
                self.close(&waiting);
            }
        }
    }

    /// Counts it at the pairs of points of which one alone saw it.
    fn close(&mut self, waiting: &Waiting) {
        let way = usize::from(waiting.is_from_low);
        for ((p, q), matched) in &mut self.hosts[waiting.hosts as usize].pairs {
            let at = |point: u32| waiting.seen().iter().find(|seen| seen.0 == point);
            let (side, at_ns) = match (at(*p), at(*q)) {
                (Some(seen), None) => (0, seen.1),
                (None, Some(seen)) => (1, seen.1),
                _ => continue,
            };
            let is_within = matched.spans[way][side].is_some_and(|(a, b)| a <= at_ns && at_ns <= b);
            matched.alone[way][side] += u64::from(is_within);
        }
    }

    /// The results for all pairs of points. Points of one file share a clock.
    pub(crate) fn finish(mut self, file_of: impl Fn(u32) -> usize) -> Vec<Crossing> {
        for (print, at_ns) in std::mem::take(&mut self.order) {
            self.give_up(print, at_ns);
        }
        let mut by_points: BTreeMap<(u32, u32), Vec<&Matched>> = BTreeMap::new();
        for (points, matched) in self.hosts.iter().flat_map(|hosts| &hosts.pairs) {
            by_points.entry(*points).or_default().push(matched);
        }
        let crossing = |(points, list): ((u32, u32), Vec<&Matched>)| {
            let at = |point: u32| self.not_comparable.get(point as usize).copied().unwrap_or(0);
            let not_comparable = at(points.0) + at(points.1);
            let is_one_clock = file_of(points.0) == file_of(points.1);
            crossing(points, &list, is_one_clock, not_comparable)
        };
        let all: Vec<Crossing> = by_points.into_iter().map(crossing).collect();
        nearest(all, &file_of)
    }
}

/// Leaves of two files' points the pair that says most: both ways, and the least uncertain of those. Points of one file have one clock,
/// and all say something.
fn nearest(all: Vec<Crossing>, file_of: impl Fn(u32) -> usize) -> Vec<Crossing> {
    let key = |crossing: &Crossing| {
        let has_both = crossing.matched.iter().all(|count| *count > 0);
        let uncertainty_ns = crossing.offset_uncertainty_ns.unwrap_or(u64::MAX);
        (!has_both, uncertainty_ns, crossing.from, crossing.to)
    };
    // Points are numbered as they come, so that the same two files may be either way round.
    let files = |crossing: &Crossing| {
        let (from, to) = (file_of(crossing.from as u32), file_of(crossing.to as u32));
        (from.min(to), from.max(to))
    };
    let is_best = |crossing: &Crossing| {
        let mut rivals = all.iter().filter(|other| files(other) == files(crossing));
        rivals.all(|other| key(crossing) <= key(other))
    };
    all.iter().filter(|crossing| crossing.is_one_clock || is_best(crossing)).cloned().collect()
}

/// Joins what all hosts saw between two points.
fn crossing(
    points: (u32, u32),
    list: &[&Matched],
    is_one_clock: bool,
    not_comparable: u64,
) -> Crossing {
    // Way 0 from the first point to the second, 1 back.
    let mut all = [Differences::default(); 2];
    let mut lost = [0; 2];
    let mut windows: BTreeMap<u64, [Differences; 2]> = BTreeMap::new();
    for matched in list {
        let ahead = towards(matched, is_one_clock);
        for (way, of) in [(0, ahead), (1, 1 - ahead)] {
            all[way].join(&matched.all[of]);
            // The point that a packet passes first may be the only one that saw it.
            lost[way] += matched.alone[of][way];
        }
        for (index, window) in matched.windows.iter().enumerate() {
            // Each begins before its last packet, but its middle may be behind the last time that there is.
            let begin_ns = matched.begin_ns + index as u64 * matched.width_ns;
            let middle_ns = begin_ns.saturating_add(matched.width_ns / 2);
            let joined = windows.entry(middle_ns).or_default();
            for (way, of) in [(0, ahead), (1, 1 - ahead)] {
                joined[way].join(&window[of]);
            }
        }
    }
    let has_both = all.iter().all(|way| way.count > 0);
    let offset = |ways: &[Differences; 2]| ways[0].min / 2 + ways[1].max / 2;
    let (offset_ns, drift) = match is_one_clock || !has_both {
        true => (0, None),
        false => (offset(&all), drift(&windows, offset)),
    };
    let (offset_ns, slope, origin_ns) = match drift {
        Some((at_origin, slope, origin_ns)) => (at_origin as i64, slope, origin_ns),
        None => (offset_ns, 0.0, 0),
    };
    let uncertainty = || (all[0].min - all[1].max).max(0) as u64 / 2;
    let known = is_one_clock || has_both;
    Crossing {
        from: points.0 as usize,
        to: points.1 as usize,
        matched: [all[0].count, all[1].count],
        offset_ns,
        offset_uncertainty_ns: match (is_one_clock, has_both, drift.is_some()) {
            (true, _, _) => Some(0),
            (false, true, false) => Some(uncertainty()),
            (false, true, true) => {
                Some(drifting_uncertainty(&windows, offset_ns, slope, origin_ns))
            }
            (false, false, _) => None,
        },
        is_one_clock,
        drift_ppm: drift.map(|drift| drift.1 * 1e6),
        delay: [0, 1].map(|way| {
            let sign = if way == 0 { 1 } else { -1 };
            delay(&windows, way, sign, offset_ns, slope, origin_ns).filter(|_| known)
        }),
        lost,
        not_comparable,
    }
}

/// The direction that leads from the first point to the second: that with the larger differences.
fn towards(matched: &Matched, is_one_clock: bool) -> usize {
    let [low, high] = &matched.all;
    match (low.count > 0, high.count > 0) {
        (true, true) => usize::from(high.mean() > low.mean()),
        (true, false) => usize::from(is_one_clock && low.mean() < 0),
        _ => usize::from(!is_one_clock || high.mean() >= 0),
    }
}

/// Offset at a time, its slope, and that time, by a line through the windows' offsets; nothing where there are too few.
fn drift(
    windows: &BTreeMap<u64, [Differences; 2]>,
    offset: impl Fn(&[Differences; 2]) -> i64,
) -> Option<(f64, f64, u64)> {
    let good =
        windows.iter().filter(|(_, ways)| ways.iter().all(|way| way.count >= FEWEST_IN_WINDOW));
    let points: Vec<(u64, f64)> = good.map(|(at, ways)| (*at, offset(ways) as f64)).collect();
    if points.len() < FEWEST_WINDOWS {
        return None;
    }
    let (first, last) = (points[0].0, points[points.len() - 1].0);
    let origin_ns = first + (last - first) / 2;
    let count = points.len() as f64;
    let x = |at: u64| at as f64 - origin_ns as f64;
    let mean_x = points.iter().map(|point| x(point.0)).sum::<f64>() / count;
    let mean_y = points.iter().map(|point| point.1).sum::<f64>() / count;
    let over = points.iter().map(|point| (x(point.0) - mean_x) * (point.1 - mean_y)).sum::<f64>();
    let under = points.iter().map(|point| (x(point.0) - mean_x).powi(2)).sum::<f64>();
    if under <= 0.0 {
        return None;
    }
    let slope = over / under;
    // Queues move the smallest delays too: what is less than that is no drift.
    let off = |point: &(u64, f64)| point.1 - mean_y - slope * (x(point.0) - mean_x);
    let noise = (points.iter().map(|point| off(point).powi(2)).sum::<f64>() / count).sqrt();
    let span = x(points[points.len() - 1].0) - x(points[0].0);
    if (slope * span).abs() < DRIFT_OVER_NOISE * noise {
        return None;
    }
    Some((mean_y - slope * mean_x, slope, origin_ns))
}

fn shift(at_ns: u64, offset_ns: i64, slope: f64, origin_ns: u64) -> f64 {
    offset_ns as f64 + slope * (at_ns as f64 - origin_ns as f64)
}

fn delay(
    windows: &BTreeMap<u64, [Differences; 2]>,
    way: usize,
    sign: i64,
    offset_ns: i64,
    slope: f64,
    origin_ns: u64,
) -> Option<Delay> {
    let (mut least, mut most, mut sum, mut count) = (f64::INFINITY, 0.0_f64, 0.0, 0_u64);
    for (at_ns, ways) in windows {
        let of = &ways[way];
        if of.count == 0 {
            continue;
        }
        let shift = shift(*at_ns, offset_ns, slope, origin_ns);
        let taken = |ns: i64| sign as f64 * (ns as f64 - shift);
        let (a, b) = (taken(of.min), taken(of.max));
        least = least.min(a.min(b));
        most = most.max(a.max(b));
        sum += taken(of.mean()) * of.count as f64;
        count += of.count;
    }
    let ns = |value: f64| value.max(0.0).round() as u64;
    (count > 0).then(|| Delay {
        min_ns: ns(least),
        mean_ns: ns(sum / count as f64),
        max_ns: ns(most),
    })
}

fn drifting_uncertainty(
    windows: &BTreeMap<u64, [Differences; 2]>,
    offset_ns: i64,
    slope: f64,
    origin_ns: u64,
) -> u64 {
    let least = |way, sign| delay(windows, way, sign, offset_ns, slope, origin_ns);
    let [a, b] = [least(0, 1), least(1, -1)].map(|delay| delay.map_or(0, |delay| delay.min_ns));
    (a + b) / 2
}
