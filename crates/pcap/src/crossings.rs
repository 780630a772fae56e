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
const MOST_WAITING: usize = 1 << 20;
/// How long they wait, ns: longer than what clocks of machines that are kept in time differ by, and than queues are.
const WAIT_NS: u64 = 10_000_000_000;
/// Pairs of hosts at pairs of points that are told apart.
const MOST_PAIRS: usize = 4096;
/// Windows of time in which the clocks are compared, and the width of the first ones, ns.
const MOST_WINDOWS: usize = 64;
const FIRST_WINDOW_NS: u64 = 10_000_000;
/// Packets a way and a window before it says something about clocks.
const FEWEST_IN_WINDOW: u64 = 4;
/// Windows before there is a drift.
const FEWEST_WINDOWS: usize = 8;

#[derive(Clone, Copy)]
struct Waiting {
    point: u32,
    at_ns: u64,
    hosts: (IpAddr, IpAddr),
    is_from_low: bool,
}

/// Two points and two hosts.
type Pair = ((u32, u32), (IpAddr, IpAddr));

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

/// Of packets from the lower address, and from the higher.
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
    pairs: BTreeMap<Pair, Matched>,
    /// By point: packets that could not be looked for.
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
        let is_from_low = (tcp.source.ip(), tcp.source.port()) <= (to, tcp.destination.port());
        let here =
            Waiting { point, at_ns: seen.at_ns, hosts: (from.min(to), from.max(to)), is_from_low };
        // What changes on the way (ECN, time to live) is no part of it.
        let identity = (
            (tcp.source, tcp.destination, tcp.seq, tcp.ack, tcp.flags, tcp.len),
            (tcp.window, tcp.timestamps, tcp.sacks(), tcp.ip_id),
        );
        let print = FixedState::default().hash_one(identity);
        if let Some(earlier) = self.waiting.insert(print, here) {
            if earlier.point != point {
                self.matched(&earlier, &here);
            }
        }
        self.order.push_back((print, seen.at_ns));
        while let Some((print, at_ns)) = self.order.front().copied() {
            let is_old = at_ns.saturating_add(WAIT_NS) < seen.at_ns;
            if !is_old && self.order.len() <= MOST_WAITING {
                break;
            }
            self.order.pop_front();
            self.give_up(print, at_ns);
        }
    }

    fn matched(&mut self, earlier: &Waiting, here: &Waiting) {
        let is_turned = earlier.point > here.point;
        let (p, q) = if is_turned { (here, earlier) } else { (earlier, here) };
        let pair = ((p.point, q.point), here.hosts);
        if self.pairs.len() >= MOST_PAIRS && !self.pairs.contains_key(&pair) {
            return;
        }
        let matched = self.pairs.entry(pair).or_default();
        let ns = i64::try_from(i128::from(q.at_ns) - i128::from(p.at_ns)).unwrap_or(i64::MAX);
        let way = usize::from(here.is_from_low);
        matched.add(way, p.at_ns, ns);
        for (span, at_ns) in matched.spans[way].iter_mut().zip([p.at_ns, q.at_ns]) {
            let (first, last) = span.unwrap_or((at_ns, at_ns));
            *span = Some((first.min(at_ns), last.max(at_ns)));
        }
    }

    /// A packet was seen at no other point, or at none further on.
    fn give_up(&mut self, print: u64, at_ns: u64) {
        if self.waiting.get(&print).is_none_or(|waiting| waiting.at_ns != at_ns) {
            return;
        }
        let Some(waiting) = self.waiting.remove(&print) else { return };
        let way = usize::from(waiting.is_from_low);
        for ((points, hosts), matched) in &mut self.pairs {
            let side = match waiting.point {
                point if point == points.0 => 0,
                point if point == points.1 => 1,
                _ => continue,
            };
            let is_within = matched.spans[way][side].is_some_and(|(a, b)| a <= at_ns && at_ns <= b);
            if *hosts == waiting.hosts && is_within {
                matched.alone[way][side] += 1;
            }
        }
    }

    /// What was found out. `has_one_clock` says of two points whether they have.
    pub(crate) fn finish(mut self, has_one_clock: impl Fn(u32, u32) -> bool) -> Vec<Crossing> {
        for (print, at_ns) in std::mem::take(&mut self.order) {
            self.give_up(print, at_ns);
        }
        let mut by_points: BTreeMap<(u32, u32), Vec<&Matched>> = BTreeMap::new();
        for ((points, _), matched) in &self.pairs {
            by_points.entry(*points).or_default().push(matched);
        }
        let crossing = |(points, list): ((u32, u32), Vec<&Matched>)| {
            let at = |point: u32| self.not_comparable.get(point as usize).copied().unwrap_or(0);
            let not_comparable = at(points.0) + at(points.1);
            crossing(points, &list, has_one_clock(points.0, points.1), not_comparable)
        };
        by_points.into_iter().map(crossing).collect()
    }
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
            let middle_ns =
                matched.begin_ns + index as u64 * matched.width_ns + matched.width_ns / 2;
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

/// Which of a pair of hosts' ways leads from the first point to the second: that with the larger differences.
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
    let origin_ns = points[points.len() / 2].0;
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
