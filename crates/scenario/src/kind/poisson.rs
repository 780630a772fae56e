//! `kind = "poisson"`: open-loop arrivals. Transfers start at the times of a Poisson process, independent of earlier transfers.

use std::sync::Arc;

use knee_file::keys::{Key, Special, Text};
use knee_file::{Error, keys};
use knee_queue::time::{Duration, Time};
use knee_run::spec::{Flow, NodeId, Run, Traffic};

use super::connections::{CONNECTIONS, Connections};
use super::open_loop::{OPEN_LOOP, most_arrivals, read_mean_gap};
use super::pairs::BETWEEN;
use super::{
    COMMON, Described, EntryInRun, EntryParts, EntryReader, Group, MAX_FLOWS, NAMED, Pattern,
    TrafficSpec,
};
use crate::matrix::Matrix;
use crate::metric::{Kind, Measured};
use crate::random::Random;
use crate::sizes::{self, Sizes};

keys! {
    /// Transfers at random times, between random pairs, of random sizes.
    static KEYS: ArrivalKeys = "poisson" {
        /// Sizes: a built-in distribution, one size, sizes with cumulative shares, or a file of them.
        sizes: Special = takes(sizes::takes).needed("web-search"),
        /// CSV file of `from`, `to` (hosts or ranges) and `weight`: how often which hosts send to which.
        matrix: Key<Text> = like("matrix.csv").usually("all pairs equally"),
        /// Last start time.
        until: Key<Duration> = needed("1 s"),
    }
}

/// A Poisson process of transfers between random pairs of hosts.
#[derive(Debug)]
struct Arrivals {
    from: Vec<NodeId>,
    to: Vec<NodeId>,
    sizes: Sizes,
    /// Weights of pairs. `None`: all pairs are equally likely.
    matrix: Option<Matrix>,
    mean_gap: Duration,
    start: Duration,
    until: Duration,
}

pub(super) static POISSON: Described =
    Described { keys: &[&NAMED, &BETWEEN, &COMMON, &CONNECTIONS, &OPEN_LOOP, &KEYS], read };

/// One transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Arrival {
    start: Time,
    from: NodeId,
    to: NodeId,
    bytes: u64,
}

fn read(entry: &EntryReader<'_>) -> Result<EntryParts, Error> {
    let (reader, start, (from, to)) = (entry.reader, entry.start, entry.hosts.clone());
    if !from.iter().any(|from| to.iter().any(|to| from != to)) {
        return Err(reader.error(&BETWEEN.to, "must name a host that is not in \"from\""));
    }
    let until = reader.read(&KEYS.until)?;
    if until <= start {
        return Err(reader.error(&KEYS.until, "must be later than the start"));
    }
    let sizes = Sizes::read(reader, &KEYS.sizes)?;
    let mean_gap = read_mean_gap(reader, entry.network, sizes.mean_bytes())?.ok_or_else(|| {
        reader.error(
            &OPEN_LOOP.load,
            "missing, as in load = \"60 %\" and of = \"h1\", or arrivals_per_sec = 1000",
        )
    })?;
    let matrix = Matrix::read(reader, &KEYS.matrix, entry.network, (&from, &to))?;
    let arrivals = Arrivals { from, to, sizes, matrix, mean_gap, start, until };
    let most = arrivals.most();
    if most > MAX_FLOWS {
        let message = format!(
            "gives up to {most} flows, but at most {MAX_FLOWS} are allowed: set an earlier until, or a \
             lower load"
        );
        return Err(reader.error(&KEYS.until, message));
    }
    let connections = Some(Connections::read_alone(entry)?);
    let pattern = Arc::new(arrivals);
    Ok(EntryParts { kind: Kind::Poisson, pairs: Vec::new(), connections, pattern })
}

impl Pattern for Arrivals {
    fn flows(&self, _entry: &TrafficSpec) -> u64 {
        self.most()
    }

    fn last_start(&self, _entry: &TrafficSpec) -> Option<Duration> {
        Some(self.until)
    }

    fn build(&self, entry: &TrafficSpec, in_run: &EntryInRun, run: &mut Run) {
        let Some(connections) = &entry.connections else { return };
        let drawn = self.draw(in_run.random(4)).into_iter();
        run.flows.extend(drawn.map(|Arrival { start, from, to, bytes }| Flow {
            from,
            to,
            start,
            traffic: Traffic::Bulk { bytes: Some(bytes) },
            ..connections.flow(in_run.group)
        }));
    }

    fn measure(&self, measured: &mut Measured, group: &Group<'_>) {
        group.measure_transfers(measured);
        group.measure_slowdown(measured);
    }

    fn drawn_hosts(&self) -> Option<(&[NodeId], &[NodeId])> {
        Some((&self.from, &self.to))
    }

    fn drawn_sizes(&self) -> Option<(u64, u64)> {
        Some((self.sizes.smallest(), self.sizes.largest()))
    }

    fn sizes_words(&self) -> Option<String> {
        self.sizes.words()
    }
}

impl Arrivals {
    /// Returns an upper bound on the number of transfers.
    fn most(&self) -> u64 {
        most_arrivals(Duration::from_ps(self.until.ps() - self.start.ps()), self.mean_gap)
    }

    /// Draws the transfers of one run, sorted by start time.
    fn draw(&self, mut random: Random) -> Vec<Arrival> {
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
