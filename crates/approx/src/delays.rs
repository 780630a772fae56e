//! Extra delays of flows at one link, by size, and draws from them.

use crate::random::Random;

/// A flow at a link: its size, and how much longer it took there than alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sample {
    /// Full packets of the flow, rounded up; at least 1.
    pub(crate) pkts: u64,
    /// Completion time at the link minus that of the flow alone, ps. `None`: the flow did not complete.
    pub(crate) delay_ps: Option<i64>,
}

/// Delays of one link. A bucket holds the flows whose sizes in packets have the same power of two, so sizes in a bucket
/// differ by less than a factor of 2.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delays {
    /// Sorted by size.
    samples: Vec<Sample>,
}

fn bucket(pkts: u64) -> u32 {
    pkts.max(1).ilog2()
}

impl Delays {
    /// Collects the delays of a link. The order of the samples does not matter.
    pub(crate) fn new(mut samples: Vec<Sample>) -> Delays {
        samples.sort_unstable();
        Delays { samples }
    }

    /// Draws the delay of a flow with this size: one of the samples in its bucket, or in the nearest bucket that has
    /// any, per packet of that sample and times the flow's packets. `None`: the drawn flow did not complete.
    /// A link without samples delays nobody.
    pub(crate) fn draw(&self, pkts: u64, random: &mut Random) -> Option<i64> {
        let wanted = bucket(pkts);
        let start = self.samples.partition_point(|sample| bucket(sample.pkts) < wanted);
        let above = self.samples.get(start).map(|sample| bucket(sample.pkts));
        let below = start.checked_sub(1).map(|at| bucket(self.samples[at].pkts));
        let nearest = match (below, above) {
            (None, None) => return Some(0),
            (Some(below), Some(above)) if wanted - below < above - wanted => below,
            (Some(below), None) => below,
            (_, Some(above)) => above,
        };
        let from = self.samples.partition_point(|sample| bucket(sample.pkts) < nearest);
        let to = self.samples.partition_point(|sample| bucket(sample.pkts) <= nearest);
        let drawn = self.samples[from + random.below((to - from) as u64) as usize];
        let scaled = i128::from(drawn.delay_ps?) * i128::from(pkts) / i128::from(drawn.pkts.max(1));
        Some(scaled.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
    }
}

/// Draws the delay of a flow with this size over several links: the sum of independent draws, one per link. `None`: it
/// does not complete.
pub(crate) fn convolve<'a>(
    links: impl IntoIterator<Item = &'a Delays>,
    pkts: u64,
    seed: u64,
) -> Option<i64> {
    let mut random = Random::new(seed);
    links
        .into_iter()
        .try_fold(0i64, |sum, link| Some(sum.saturating_add(link.draw(pkts, &mut random)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pkts: u64, delays: impl IntoIterator<Item = i64>) -> Delays {
        let sample = |delay_ps| Sample { pkts, delay_ps: Some(delay_ps) };
        Delays::new(delays.into_iter().map(sample).collect())
    }

    #[test]
    fn sums_of_uniform_delays_are_triangular() {
        // Two links, each uniform over 0 to 999: the sum is triangular over 0 to 1998 with mean 999 and variance
        // 2 (1000^2 - 1) / 12. P(sum <= 499) = 500 * 501 / 2 / 10^6 = 0.12525, P(sum <= 999) = 0.5005.
        let links = [of(4, 0..1000), of(4, 0..1000)];
        let n = 200_000;
        let sums: Vec<i64> =
            (0..n).map(|i| convolve(&links, 4, Random::of(7, 1, i).u64()).unwrap()).collect();
        let mean = sums.iter().sum::<i64>() as f64 / n as f64;
        let variance = sums.iter().map(|x| (*x as f64 - mean).powi(2)).sum::<f64>() / n as f64;
        let share = |most: i64| sums.iter().filter(|x| **x <= most).count() as f64 / n as f64;
        assert!((mean - 999.0).abs() < 4.0, "{mean}");
        assert!((variance / (2.0 * (1e6 - 1.0) / 12.0) - 1.0).abs() < 0.02, "{variance}");
        assert!((share(499) - 0.12525).abs() < 0.004, "{}", share(499));
        assert!((share(999) - 0.5005).abs() < 0.005, "{}", share(999));
    }

    #[test]
    fn delays_scale_with_the_size_inside_a_bucket() {
        let mut random = Random::new(1);
        assert_eq!(of(8, [800]).draw(12, &mut random), Some(1200));
        assert_eq!(of(8, [-800]).draw(12, &mut random), Some(-1200));
    }

    #[test]
    fn an_empty_bucket_takes_the_nearest() {
        let mut both = of(1, [1]).samples;
        both.extend(of(1024, [1024 * 7]).samples);
        let both = Delays::new(both);
        let mut random = Random::new(1);
        assert_eq!(both.draw(4, &mut random), Some(4));
        assert_eq!(both.draw(512, &mut random), Some(512 * 7));
        assert_eq!(both.draw(1 << 20, &mut random), Some(7 << 20));
        assert_eq!(Delays::default().draw(4, &mut random), Some(0));
    }

    #[test]
    fn a_flow_that_does_not_complete_at_one_link_does_not_complete() {
        let never = Delays::new(vec![Sample { pkts: 4, delay_ps: None }]);
        assert_eq!(convolve([&of(4, [3]), &never], 4, 1), None);
        assert_eq!(convolve([&of(4, [3]), &of(4, [4])], 4, 1), Some(7));
    }
}
