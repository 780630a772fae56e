//! Reads the figures of cases, run by run: means and counts from `measures.csv`, percentiles from `run-percentiles.csv`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use knee_file::{Origin, one_of};
use knee_inference::Known;
use knee_results::{
    CASE, HOST_LIMITED, Manifest, Metric, REPEAT, RUN, ResultFile, Row, Table, rows,
};

use super::read::{differing, flat};
use knee_scenario::by_run::if_close;
use knee_scenario::claim::short;
use knee_scenario::error::Error;
use knee_scenario::published::Stat;

/// Largest number of figures of runs that are kept, some 200 MB.
const MOST_FIGURES: usize = 2_000_000;

/// A case of a results directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picked {
    pub dir: PathBuf,
    /// Name of the case.
    pub case: String,
}

/// A figure: subject, metric by its place in the order of results, and statistic.
pub(super) type Key = (String, usize, usize);

/// Statistics of a run that are compared: its mean or count, and its percentiles.
pub(super) const STATS: [Stat; 5] = [Stat::Mean, Stat::P50, Stat::P95, Stat::P99, Stat::P999];

/// What is compared of a case.
pub(super) struct OfCase {
    pub(super) picked: Picked,
    /// Combinations of varied values, in the order of the runs.
    pub(super) places: Vec<Place>,
    /// Number of runs that are left out, because the host limited them.
    pub(super) limited: usize,
    pub(super) scale: f64,
    pub(super) back_end: String,
    /// Whether the sweep was stopped before all runs had ended.
    pub(super) is_interrupted: bool,
    resolved: BTreeMap<String, String>,
}

/// A combination of varied values.
#[derive(Default)]
pub(super) struct Place {
    /// The values, as `k = 400 kB`. Empty if nothing varies.
    pub(super) at: String,
    /// Seeds of the runs.
    pub(super) seeds: Vec<u64>,
    pub(super) figures: BTreeMap<Key, HashMap<u64, Known>>,
    /// Least number of values that a run has, by subject and metric.
    pub(super) values: HashMap<(String, usize), f64>,
}

impl OfCase {
    /// Returns the keys in which two cases differ, with both values.
    pub(super) fn differences(&self, other: &OfCase) -> Vec<String> {
        let differing: Vec<_> = differing(&self.resolved, &other.resolved).collect();
        // Another algorithm has other parameters, each with a default of its own.
        let is_other = differing.iter().any(|(key, _)| *key == "case.cc");
        let of_algorithm = |key: &str| is_other && key.starts_with("case.params.");
        let named = differing.into_iter().filter(|(key, _)| !of_algorithm(key));
        named.map(|(_, words)| words).collect()
    }
}

/// Reads cases of results directories, each directory once.
///
/// # Errors
/// [`Error`] if a directory holds no results, or has no such case.
pub(super) fn read(picked: &[Picked]) -> Result<Vec<OfCase>, Error> {
    let dirs: BTreeSet<&Path> = picked.iter().map(|one| one.dir.as_path()).collect();
    let mut all = Vec::new();
    let mut left = MOST_FIGURES;
    for dir in dirs {
        let of_dir: Vec<&Picked> = picked.iter().filter(|one| one.dir == dir).collect();
        all.extend(read_dir(dir, &of_dir, &mut left)?);
    }
    let at = |one: &OfCase| picked.iter().position(|picked| *picked == one.picked);
    all.sort_by_key(at);
    Ok(all)
}

fn read_dir(dir: &Path, picked: &[&Picked], left: &mut usize) -> Result<Vec<OfCase>, Error> {
    let manifest = Manifest::read(dir)?;
    let mut cases = Vec::new();
    for one in picked {
        if !manifest.cases.contains(&one.case) {
            let known = manifest.cases.iter().map(String::as_str);
            return Err(Error::input(dir, Origin::Nowhere, "case", one_of(&one.case, known)));
        }
        let keys = manifest.resolved.get(&one.case).and_then(|keys| keys.as_object());
        cases.push(OfCase {
            picked: (*one).clone(),
            places: Vec::new(),
            limited: 0,
            scale: manifest.back_end.scale,
            back_end: manifest.back_end.name.clone(),
            is_interrupted: manifest.interrupted,
            resolved: keys.map(|keys| flat(keys, "")).unwrap_or_default(),
        });
    }
    let run_of = read_runs(dir, &manifest, &mut cases)?;
    let mut measures = ResultFile::Measure.must_open(dir)?;
    let [run, subject, metric, values, mean] = measures.columns([
        RUN,
        rows::Measure::subject,
        rows::Measure::metric,
        rows::Measure::values,
        rows::Measure::mean,
    ])?;
    // Results of older versions do not have these.
    let [cut_off, at_least] =
        [rows::Measure::cut_off, rows::Measure::mean_at_least].map(|column| measures.find(column));
    let number = |cells: Row<'_>, column: Option<usize>| match column {
        Some(column) => cells.number(column),
        None => Ok(None),
    };
    while let Some(cells) = measures.next()? {
        let of = [subject, metric].map(|column| cells.text(column));
        let Some((place, seed, key)) = found(&mut cases, &run_of, cells.text(run), of, Stat::Mean)
        else {
            continue;
        };
        let of_run = cells.number(values)?.unwrap_or(0.0) + number(cells, cut_off)?.unwrap_or(0.0);
        let least = place.values.entry((key.0.clone(), key.1)).or_insert(f64::INFINITY);
        *least = least.min(of_run);
        let known = match (cells.number(mean)?, number(cells, at_least)?) {
            (Some(mean), _) => Known::exact(mean),
            (None, Some(low)) => Known { low, high: f64::INFINITY },
            (None, None) => continue,
        };
        place.figures.entry(key).or_default().insert(seed, known);
        *left = left.checked_sub(1).ok_or_else(|| too_much(&measures))?;
    }
    read_percentiles(dir, &run_of, &mut cases, left)?;
    Ok(cases)
}

/// A run's case and combination of varied values, by their places, and its seed.
type OfRun = HashMap<String, (usize, usize, u64)>;

/// Reads which runs there are. Runs of other cases, and those that the host limited, are left out.
fn read_runs(dir: &Path, manifest: &Manifest, cases: &mut [OfCase]) -> Result<OfRun, Error> {
    let mut runs = ResultFile::Run.must_open(dir)?;
    let [run, case, repeat, seed, verdict] =
        runs.columns([RUN, CASE, REPEAT, rows::Run::seed, rows::Run::verdict])?;
    let mut run_of = OfRun::new();
    while let Some(cells) = runs.next()? {
        let Some(of) = cases.iter().position(|one| one.picked.case == cells.text(case)) else {
            continue;
        };
        if cells.text(verdict) == HOST_LIMITED {
            cases[of].limited += 1;
            continue;
        }
        let values = cells.between(case + 1, repeat).map(|(column, cell)| {
            let axis = manifest.axes.iter().find(|axis| axis.column() == column);
            let (path, value) =
                axis.map_or((column, cell), |axis| (axis.path.as_str(), axis.value(cell)));
            format!("{} = {value}", short(path))
        });
        let at = values.collect::<Vec<_>>().join(", ");
        let places = &mut cases[of].places;
        let place = places.iter().position(|place| place.at == at).unwrap_or_else(|| {
            places.push(Place { at, ..Place::default() });
            places.len() - 1
        });
        let seed = cells.index(seed)?;
        places[place].seeds.push(seed);
        run_of.insert(cells.text(run).to_owned(), (of, place, seed));
    }
    Ok(run_of)
}

/// Finds where a figure of a run belongs. `None` if it is of a run or a metric that is not compared.
fn found<'a>(
    cases: &'a mut [OfCase],
    run_of: &OfRun,
    run: &str,
    [subject, metric]: [&str; 2],
    stat: Stat,
) -> Option<(&'a mut Place, u64, Key)> {
    let (case, place, seed) = *run_of.get(run)?;
    let metric = Metric::ALL.iter().position(|known| known.name() == metric)?;
    let stat = STATS.iter().position(|known| *known == stat)?;
    Some((&mut cases[case].places[place], seed, (subject.to_owned(), metric, stat)))
}

fn read_percentiles(
    dir: &Path,
    run_of: &OfRun,
    cases: &mut [OfCase],
    left: &mut usize,
) -> Result<(), Error> {
    // Results of older versions do not have it.
    let Some(mut table) = ResultFile::RunPercentile.open(dir)? else { return Ok(()) };
    let [run, subject, metric, share, value, at_least, at_most] = table.columns([
        RUN,
        rows::RunPercentile::subject,
        rows::RunPercentile::metric,
        rows::RunPercentile::share,
        rows::RunPercentile::value,
        rows::RunPercentile::at_least,
        rows::RunPercentile::at_most,
    ])?;
    while let Some(cells) = table.next()? {
        let share = cells.number(share)?;
        let Some((stat, _)) = Stat::PERCENTILES.into_iter().find(|(_, of)| Some(*of) == share)
        else {
            continue;
        };
        let of = [subject, metric].map(|column| cells.text(column));
        let Some((place, seed, key)) = found(cases, run_of, cells.text(run), of, stat) else {
            continue;
        };
        let known = match (cells.number(value)?, cells.number(at_least)?) {
            (Some(value), _) => Known::exact(value),
            (None, Some(low)) => {
                let high = cells.number(at_most)?.unwrap_or(f64::INFINITY);
                if_close(Known { low, high })
            }
            (None, None) => continue,
        };
        place.figures.entry(key).or_default().insert(seed, known);
        *left = left.checked_sub(1).ok_or_else(|| too_much(&table))?;
    }
    Ok(())
}

fn too_much(table: &Table) -> Error {
    let why = format!(
        "has more than {MOST_FIGURES} figures of these cases: use fewer repeats or varied values"
    );
    table.wrong(&why).into()
}
