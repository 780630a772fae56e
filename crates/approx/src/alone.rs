//! The time that a flow takes alone, by its size.

use std::sync::atomic::AtomicBool;

use knee_queue::time::{Duration, Time};
use knee_run::spec::{Flow, Traffic};
use knee_run::{Error, Run};

use crate::said::Said;

/// Up to this many packets, each number is simulated.
const EACH_PKTS: u64 = 128;
/// Above, the next size is this much larger, per cent.
const STEP_PCT: u64 = 10;
/// From here on, time grows with the rate alone, and steps are larger.
const LARGE_PKTS: u64 = 4096;
const LARGE_STEP_PCT: u64 = 25;

/// Times of a flow alone over one path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Alone {
    /// Bytes and ps, ascending, of the sizes that complete in the time that was simulated.
    points: Vec<(u64, u64)>,
}

/// Returns the sizes to simulate, so that the largest covers `most` bytes.
pub(crate) fn sizes(mss_bytes: u32, most: u64) -> Vec<u64> {
    let mss = u64::from(mss_bytes.max(1));
    let mut sizes = vec![1];
    let mut pkts = 1u64;
    loop {
        sizes.push(pkts.saturating_mul(mss));
        if pkts.saturating_mul(mss) >= most {
            return sizes;
        }
        let step = match pkts {
            ..EACH_PKTS => 1,
            EACH_PKTS..LARGE_PKTS => pkts * STEP_PCT / 100,
            _ => pkts / 100 * LARGE_STEP_PCT,
        };
        pkts = pkts.saturating_add(step.max(1));
    }
}

/// Simulates one size of a flow in the run that `make` builds of it. Returns when the flow is complete and when it is
/// established, ps, or `None` if it does not complete; and what was said.
///
/// # Errors
/// Those of the simulator.
pub(crate) fn time(
    run: &Run,
    (index, bytes): (usize, u64),
    stop: &AtomicBool,
    make: impl Fn(&Flow) -> Run,
) -> Result<(Option<(u64, u64)>, Said), Error> {
    let traffic = Traffic::Bulk { bytes: Some(bytes) };
    let made = make(&Flow { start: Time::ZERO, traffic, ..run.flows[index].clone() });
    let mut outcome = knee_sim::simulate_until(&made, stop)?;
    let said = Said::of(&mut outcome, &made, run, &[index]);
    let Some(flow) = outcome.flows.first() else { return Ok((None, said)) };
    let established = flow.established_at.map(Time::ps);
    Ok((flow.completion_time().map(Duration::ps).zip(established), said))
}

impl Alone {
    /// Takes sizes and times.
    pub(crate) fn new(points: Vec<(u64, u64)>) -> Alone {
        Alone { points }
    }

    /// Returns the time of a size: between those of the next smaller and larger sizes, or along the line through the two
    /// largest. The largest value: it does not complete.
    pub(crate) fn ps(&self, bytes: u64) -> u64 {
        let above = self.points.partition_point(|(size, _)| *size < bytes);
        if let Some(&(_, time)) = self.points.get(above).filter(|(size, _)| *size == bytes) {
            return time;
        }
        // With nothing smaller, the smallest takes as long.
        let last = self.points.len().saturating_sub(1);
        let [(size_before, time_before), (size, time)] = match (above, &self.points[..]) {
            (0, [first, ..]) => return first.1,
            (_, [] | [_]) => return u64::MAX,
            (above, points) => {
                let above = above.min(last);
                [points[above - 1], points[above]]
            }
        };
        let part = i128::from(bytes - size_before) * (i128::from(time) - i128::from(time_before));
        let there = i128::from(time_before) + part / i128::from((size - size_before).max(1));
        u64::try_from(there.max(0)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_cover_the_largest_and_times_lie_between() {
        let all = sizes(1000, 30_000_000);
        assert_eq!(all[..4], [1, 1000, 2000, 3000]);
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]) && all.last() >= Some(&30_000_000));
        assert!(all.len() < 190, "{}", all.len());
        assert_eq!(sizes(1000, 1), [1, 1000]);
        let alone = Alone::new(vec![(1, 100), (1001, 300), (2001, 800)]);
        assert_eq!(
            [1, 501, 1001, 1501, 2001].map(|bytes| alone.ps(bytes)),
            [100, 200, 300, 550, 800]
        );
        let far = 300 + (u64::MAX - 1001) / 2;
        assert_eq!([0, 3001, u64::MAX].map(|bytes| alone.ps(bytes)), [100, 1300, far]);
        assert_eq!(Alone::new(vec![(1, 100)]).ps(2), u64::MAX);
        assert_eq!(Alone::default().ps(1), u64::MAX);
    }
}
