//! Which rows results have: every connection, or some of them and sketches of all.

use knee_file::keys::{Key, List, Text};
use knee_file::{Error, Reader, keys};
use knee_run::spec::Run;

use crate::published::Stat;
use crate::random::Random;

/// Connections of a run that have rows of their own, unless the file says otherwise. A run of more has sketches too.
const MOST_ROWS: u64 = 100_000;
/// What the numbers that choose connections are for.
const CHOICE: u64 = 0x666c_6f77;

keys! {
    /// Rows of results. What is measured is of all connections, whatever has rows.
    pub(crate) static OUTPUT: OutputKeys = "output" {
        /// Whether `sketches.csv` and `percentiles.csv` hold all values of metrics with many.
        sketches: Key<bool> = usually("true in runs of more connections than `flows`"),
        /// Connections of a run with rows in `flows.csv` and `rpcs.csv`, at most; a hash chooses them.
        flows: Key<u64> = usually("100000").within(0, 1_000_000_000),
        /// Connections of a run with series, at most; a hash chooses them.
        series: Key<u64> = usually("all").within(0, 1_000_000_000),
        /// Whether a report has its default charts besides those of `[[chart]]`.
        charts: Key<bool> = or(true),
        /// Statistics of tables: `mean`, `sd`, `min`, `p50`, `p95`, `p99`, `p999`, `max`.
        stats: Key<List<Text>> = usually("mean, sd, p50, p95, p99, max"),
    }
}

/// Reads the statistics of tables, unless some are asked for. Empty where the file names none.
pub(crate) fn read_stats(root: &Reader<'_>, asked: &[Stat]) -> Result<Vec<Stat>, Error> {
    let output = root.child_or_empty("output")?.only(&[&OUTPUT])?;
    let names = output.texts(&OUTPUT.stats)?.unwrap_or_default();
    let mut stats = Vec::new();
    for name in names {
        let stat = Stat::named(name).map_err(|why| output.error(&OUTPUT.stats, why))?;
        if stats.contains(&stat) {
            return Err(output.error(&OUTPUT.stats, format!("has {name:?} twice")));
        }
        stats.push(stat);
    }
    if !asked.is_empty() {
        stats.clear();
    }
    for stat in asked {
        if !stats.contains(stat) {
            stats.push(*stat);
        }
    }
    Ok(stats)
}

/// The table `[output]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Output {
    sketches: Option<bool>,
    flows: Option<u64>,
    series: Option<u64>,
    /// Whether a report has default charts.
    pub has_default_charts: bool,
}

impl Output {
    pub(crate) fn read(root: &Reader<'_>) -> Result<Output, Error> {
        let output = root.child_or_empty("output")?.only(&[&OUTPUT])?;
        Ok(Output {
            sketches: output.get(&OUTPUT.sketches)?,
            flows: output.get(&OUTPUT.flows)?,
            series: output.get(&OUTPUT.series)?,
            has_default_charts: output.get(&OUTPUT.charts)?.unwrap_or(true),
        })
    }

    /// Returns the largest number of connections with rows.
    pub(crate) fn most_rows(self) -> u64 {
        self.flows.unwrap_or(MOST_ROWS)
    }

    /// Returns whether a run of so many connections keeps sketches.
    pub fn keeps_sketches(self, flows: usize) -> bool {
        self.sketches.unwrap_or(flows as u64 > self.most_rows())
    }

    /// Returns the connections with rows.
    pub fn rows(self, run: &Run) -> Chosen {
        Chosen::of(run, self.most_rows(), |_| true)
    }

    /// Returns the connections with series of goodput.
    pub fn series(self, run: &Run) -> Chosen {
        self.series.map_or(Chosen(None), |most| Chosen::of(run, most, |_| true))
    }

    /// Returns the largest number of sampled connections.
    pub(crate) fn most_series(self) -> u64 {
        self.series.unwrap_or(u64::MAX)
    }

    /// Samples no more connections than asked for.
    pub(crate) fn limit_series(self, run: &mut Run) {
        let Some(most) = self.series else { return };
        let chosen = Chosen::of(run, most, |flow| run.flows[flow].sampled);
        for (flow, index) in run.flows.iter_mut().zip(0..) {
            flow.sampled &= chosen.holds(index);
        }
    }
}

/// Some connections of a run. `None` means all.
#[derive(Clone, Debug)]
pub struct Chosen(Option<Vec<bool>>);

impl Chosen {
    /// Chooses at most `most` of the connections that may be chosen: those with the least hash of seed and index. A
    /// larger choice thus holds every smaller one, and all cases have the same.
    fn of(run: &Run, most: u64, may: impl Fn(usize) -> bool) -> Chosen {
        if run.flows.len() as u64 <= most {
            return Chosen(None);
        }
        let candidates = (0..run.flows.len()).filter(|flow| may(*flow));
        let mut hashes: Vec<(u64, usize)> = candidates
            .map(|flow| (Random::new(run.seed, &[CHOICE, flow as u64]).next(), flow))
            .collect();
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        if most < hashes.len() {
            hashes.select_nth_unstable(most);
            hashes.truncate(most);
        }
        let mut chosen = vec![false; run.flows.len()];
        hashes.iter().for_each(|(_, flow)| chosen[*flow] = true);
        Chosen(Some(chosen))
    }

    /// Returns whether results have rows of a connection.
    pub fn holds(&self, flow: u32) -> bool {
        let is_chosen = |all: &Vec<bool>| all.get(flow as usize).copied().unwrap_or(false);
        self.0.as_ref().is_none_or(is_chosen)
    }
}
