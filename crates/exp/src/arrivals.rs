//! Open-loop arrivals: transfers start at the times of a Poisson process, independent of earlier transfers.

use std::sync::Arc;

use knee_file::keys::{Key, List, Special, Text};
use knee_file::units::Share;
use knee_file::{Error, Reader, keys};
use knee_queue::time::{Duration, PS_PER_S, Time};
use knee_run::spec::NodeId;

use crate::matrix::Matrix;
use crate::network::NetworkSpec;
use crate::random::Random;
use crate::sizes::{self, Sizes};

keys! {
    /// Transfers at random times, between random pairs, of random sizes.
    pub(crate) static KEYS: ArrivalKeys = "poisson" {
        /// Sizes: a built-in distribution, one size, sizes with cumulative shares, or a file of them.
        sizes: Special = takes(sizes::takes).needed("web-search"),
        /// CSV file of `from`, `to` (hosts or ranges) and `weight`: how often which hosts send to which.
        matrix: Key<Text> = like("matrix.csv").usually("all pairs equally"),
        /// Load, as a share of the rates of `of`.
        load: Key<Share> = usually("from `arrivals_per_sec`").above("0 %").like("60 %"),
        /// Links (`FROM-TO`), or hosts for the links to them.
        of: Key<List<Text>> = like("switch-r"),
        /// Arrivals, instead of `load`.
        arrivals_per_sec: Key<u64> = within(1, 1_000_000_000).usually("from `load`"),
        /// Last start time.
        until: Key<Duration> = needed("1 s"),
    }
}

/// A Poisson process of transfers between random pairs of hosts.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    from: Vec<NodeId>,
    to: Vec<NodeId>,
    pub(crate) sizes: Sizes,
    /// Weights of pairs. `None`: all pairs are equally likely.
    matrix: Option<Arc<Matrix>>,
    mean_gap: Duration,
    start: Duration,
    until: Duration,
}

/// One transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) start: Time,
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) bytes: u64,
}

impl Arrivals {
    /// Reads the keys of `kind = "poisson"`. After `start`, at most `most` transfers occur between hosts of `from`
    /// and `to`.
    pub(crate) fn read(
        reader: &Reader<'_>,
        network: &NetworkSpec,
        (from, to): (Vec<NodeId>, Vec<NodeId>),
        (start, most): (Duration, u64),
    ) -> Result<Arrivals, Error> {
        if !from.iter().any(|from| to.iter().any(|to| from != to)) {
            return Err(reader.error("to", "must name a host that is not in \"from\""));
        }
        let until = reader.read(&KEYS.until)?;
        if until <= start {
            return Err(reader.error(&KEYS.until, "must be later than the start"));
        }
        let sizes = Sizes::read(reader, &KEYS.sizes)?;
        let mean_gap = read_mean_gap(reader, network, sizes.mean_bytes())?;
        let matrix = Matrix::read(reader, &KEYS.matrix, network, (&from, &to))?.map(Arc::new);
        let arrivals = Arrivals { from, to, sizes, matrix, mean_gap, start, until };
        if arrivals.most() > most {
            let message = format!(
                "gives up to {} flows, but at most {most} are allowed: set an earlier until, or a \
                    lower load",
                arrivals.most()
            );
            return Err(reader.error(&KEYS.until, message));
        }
        Ok(arrivals)
    }

    /// Returns an upper bound on the number of transfers: six standard deviations above the mean, exceeded once in
    /// 1e9 repeats.
    pub(crate) fn most(&self) -> u64 {
        let span_ps = self.until.ps() - self.start.ps();
        let mean = span_ps as f64 / self.mean_gap.ps() as f64;
        (mean + 6.0 * mean.sqrt()) as u64 + 10
    }

    /// Returns the last start time.
    pub(crate) fn until(&self) -> Duration {
        self.until
    }

    /// Describes the sizes, if there are several.
    pub(crate) fn sizes_words(&self) -> Option<String> {
        self.sizes.words()
    }

    /// Returns the hosts that send data.
    pub(crate) fn sources(&self) -> &[NodeId] {
        &self.from
    }

    /// Returns the hosts that receive data.
    pub(crate) fn destinations(&self) -> &[NodeId] {
        &self.to
    }

    /// Draws the transfers of one run, sorted by start time.
    pub(crate) fn draw(&self, mut random: Random) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        let mut start = Time::ZERO + self.start + random.exponential(self.mean_gap);
        while start < Time::ZERO + self.until && (arrivals.len() as u64) < self.most() {
            let (from, to) = self.pair(&mut random);
            let bytes = self.sizes.draw(&mut random);
            arrivals.push(Arrival { start, from, to, bytes });
            start += random.exponential(self.mean_gap);
        }
        arrivals
    }

    /// Draws two hosts.
    fn pair(&self, random: &mut Random) -> (NodeId, NodeId) {
        if let Some(matrix) = &self.matrix {
            return matrix.pair(random);
        }
        loop {
            let from = self.from[random.below(self.from.len())];
            let to = self.to[random.below(self.to.len())];
            if from != to {
                return (from, to);
            }
        }
    }
}

/// Reads the mean time between arrivals from `arrivals_per_sec`, or from `load`, a share of the rates that `of`
/// names.
fn read_mean_gap(
    reader: &Reader<'_>,
    network: &NetworkSpec,
    mean_bytes: f64,
) -> Result<Duration, Error> {
    let load = reader.get(&KEYS.load)?;
    let per_sec = reader.get(&KEYS.arrivals_per_sec)?;
    let gap_s = match (load, per_sec) {
        (Some(_), Some(_)) => {
            return Err(
                reader.error(&KEYS.arrivals_per_sec, "conflicts with \"load\": leave one out")
            );
        }
        (None, None) => {
            return Err(reader.error(
                &KEYS.load,
                "missing, as in load = \"60 %\" and of = \"h1\", or arrivals_per_sec = 1000",
            ));
        }
        (None, Some(per_sec)) => {
            if reader.has(&KEYS.of) {
                return Err(reader.error(&KEYS.of, "needs \"load\""));
            }
            1.0 / per_sec as f64
        }
        (Some(Share(load)), None) => {
            let mut bps = 0;
            for text in reader.need_texts(&KEYS.of)? {
                bps += network.rate_bps_named(text).map_err(|why| reader.error(&KEYS.of, why))?;
            }
            mean_bytes * 8.0 / (load * bps as f64)
        }
    };
    Ok(Duration::from_ps(((gap_s * PS_PER_S as f64).round() as u64).max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals() -> Arrivals {
        Arrivals {
            from: vec![0, 1, 2],
            to: vec![1, 2],
            sizes: Sizes::read_text("20 kB"),
            matrix: None,
            mean_gap: Duration::from_us(100),
            start: Duration::from_ms(5),
            until: Duration::from_ms(2005),
        }
    }

    #[test]
    fn as_many_arrive_as_were_asked_for_and_within_the_time() {
        let drawn = arrivals().draw(Random::new(3, &[]));
        // 20,000 expected, with a standard deviation of 141.
        assert!((19_400..20_600).contains(&drawn.len()), "{}", drawn.len());
        assert!((drawn.len() as u64) < arrivals().most());
        assert!(drawn.iter().all(|a| (Time::from_ms(5)..Time::from_ms(2005)).contains(&a.start)));
        assert!(drawn.is_sorted_by_key(|a| a.start));
    }

    #[test]
    fn pairs_are_equally_likely_and_never_a_host_with_itself() {
        let drawn = arrivals().draw(Random::new(4, &[]));
        for pair in [(0, 1), (0, 2), (1, 2), (2, 1)] {
            let count = drawn.iter().filter(|a| (a.from, a.to) == pair).count();
            // A quarter of them expected, with a standard deviation of 61.
            assert!((4_700..5_300).contains(&count), "{pair:?}: {count}");
        }
        assert!(drawn.iter().all(|a| a.from != a.to));
    }

    #[test]
    fn the_same_seed_draws_the_same_transfers() {
        let draw = |seed| arrivals().draw(Random::new(seed, &[]));
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }
}
