//! Compares cases: which is better, by how much, and how sure that is.
//!
//! Each figure of a run is one value: its mean, its count or its percentile. `knee_inference` contrasts two cases, by pairs of runs with
//! the same seed where that is better. Metrics that say how well the network works, and that tables show, are questions; the
//! p-values of all questions are corrected together (Holm), and those of all other figures apart.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use knee_file::{Origin, one_of};
use knee_inference::{Contrast, Run, contrast, holm, values_needed};
use knee_results::{Better, Kind, Metric};

use super::figures::{Key, OfCase, Picked, Place, STATS, read};
use knee_scenario::error::Error;
use knee_scenario::published::Stat;

/// Level of all answers together.
const ALPHA: f64 = 0.05;

/// What a figure answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Better,
    Worse,
    /// It differs, and neither value is the better one.
    Differs,
    /// The runs do not tell.
    Unknown,
    /// The difference is within the tolerance.
    Same,
}

impl Answer {
    /// All of them, in the order of reports.
    pub const ALL: [Answer; 5] =
        [Answer::Better, Answer::Worse, Answer::Differs, Answer::Unknown, Answer::Same];

    /// Returns the name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Answer::Better => "better",
            Answer::Worse => "worse",
            Answer::Differs => "differs",
            Answer::Unknown => "unknown",
            Answer::Same => "same",
        }
    }
}

/// A figure of a case against the baseline.
#[derive(Clone, Debug)]
pub struct Answered {
    /// Name of the case.
    pub case: String,
    /// Varied values, as `k = 400 kB`. Empty if nothing varies.
    pub at: String,
    pub subject: String,
    pub metric: Metric,
    pub stat: Stat,
    pub contrast: Contrast,
    /// p-value, corrected for all figures of its family.
    pub adjusted: Option<f64>,
    /// Whether reports show it without being asked for all figures.
    pub is_question: bool,
    pub answer: Answer,
    /// Runs of each case that would tell, if these do not.
    pub runs_to_tell: Option<Result<u64, u64>>,
}

impl Answered {
    /// Returns the name of the figure: `p99 of latency of short`.
    pub fn name(&self) -> String {
        let stat = match self.stat {
            Stat::Mean => String::new(),
            stat => format!("{} of ", stat.name()),
        };
        format!("{stat}{} of {}", self.metric.name(), self.subject)
    }
}

/// Cases against a baseline.
#[derive(Clone, Debug)]
pub struct Answers {
    /// Names of the cases: the baseline, then the others.
    pub cases: Vec<String>,
    /// Where each case is from.
    pub picked: Vec<Picked>,
    /// For each case but the baseline, the keys in which it differs from that.
    pub differences: Vec<Vec<String>>,
    /// Tolerance, as a share.
    pub within: f64,
    pub rows: Vec<Answered>,
    /// Number of figures that are corrected together: questions, and others.
    pub families: [usize; 2],
    /// What is left out or missing, one sentence each.
    pub notes: Vec<String>,
}

/// Compares cases with the first, or with the one of this name.
///
/// # Errors
/// [`Error`] if there are no such results, no such case or baseline, or nothing in common.
pub fn answers(picked: &[Picked], baseline: Option<&str>, within: f64) -> Result<Answers, Error> {
    let names = names(picked);
    let mut order: Vec<usize> = (0..picked.len()).collect();
    if let Some(baseline) = baseline {
        let is_it = |at: &usize| names[*at] == baseline || picked[*at].case == baseline;
        let Some(first) = order.iter().copied().find(is_it) else {
            let why = one_of(baseline, names.iter().map(String::as_str));
            return Err(Error::input(&picked[0].dir, Origin::Nowhere, "--baseline", why));
        };
        order.retain(|at| *at != first);
        order.insert(0, first);
    }
    let picked: Vec<Picked> = order.iter().map(|at| picked[*at].clone()).collect();
    let names: Vec<String> = order.iter().map(|at| names[*at].clone()).collect();
    let all = read(&picked)?;
    let base = &all[0];
    let mut of = Answers {
        differences: all[1..].iter().map(|other| base.differences(other)).collect(),
        cases: names,
        picked,
        within,
        rows: Vec::new(),
        families: [0; 2],
        notes: Vec::new(),
    };
    for (other, name) in all[1..].iter().zip(of.cases[1..].to_vec()) {
        if other.scale != base.scale {
            let why = format!(
                "has scale {}, {} has {}: run both with the same --scale",
                other.scale,
                base.picked.dir.display(),
                base.scale
            );
            return Err(Error::input(&other.picked.dir, Origin::Nowhere, "", why));
        }
        for place in &base.places {
            match other.places.iter().find(|theirs| theirs.at == place.at) {
                Some(theirs) => of.add(&name, theirs, place),
                None => of.notes.push(format!("{}: only of {}", place.at, of.cases[0])),
            }
        }
    }
    if of.rows.is_empty() {
        let why = format!("has no figure in common with {}", base.picked.dir.display());
        return Err(Error::input(&of.picked[1].dir, Origin::Nowhere, "", why));
    }
    of.notes.extend(unresolved(&all));
    of.notes.extend(all.iter().zip(&of.cases).flat_map(|(one, name)| notes(one, name)));
    let back_ends: BTreeSet<&str> = all.iter().map(|one| one.back_end.as_str()).collect();
    if back_ends.len() > 1 {
        let back_ends = back_ends.into_iter().collect::<Vec<_>>().join(", ");
        of.notes.push(format!("the back ends differ: {back_ends}"));
    }
    of.answer();
    Ok(of)
}

/// Returns the names of cases, with the directory where two have the same.
fn names(picked: &[Picked]) -> Vec<String> {
    let name = |one: &Picked| match picked.iter().filter(|other| other.case == one.case).count() {
        1 => one.case.clone(),
        _ => format!("{}:{}", one.dir.display(), one.case),
    };
    picked.iter().map(name).collect()
}

/// Describes what a case lacks.
fn notes(one: &OfCase, name: &str) -> Vec<String> {
    let limited = (one.limited > 0)
        .then(|| format!("{name}: {} host-limited runs are left out", one.limited));
    let interrupted =
        one.is_interrupted.then(|| format!("{name}: the sweep was stopped, so runs are missing"));
    limited.into_iter().chain(interrupted).collect()
}

/// Returns whether a figure is a question: how well the network works for those who use it, as tables show it. Of times it is the mean, and
/// the tail.
fn is_question(metric: Metric, stat: Stat) -> bool {
    let is_tail = stat == Stat::P99 && metric.unit() == "s";
    let is_asked = metric.better() != Better::Neither && metric.is_shown();
    is_asked && (stat == Stat::Mean || is_tail)
}

/// Returns whether a metric is of queues. Reports show it behind those of traffic.
pub(super) fn is_of_queue(metric: Metric) -> bool {
    metric.kinds().iter().all(|kind| matches!(kind, Kind::Queue | Kind::Buffer))
}

/// Returns the tails that the runs do not resolve, each with the least number of values of a run.
fn unresolved(all: &[OfCase]) -> Vec<String> {
    let tail = STATS.iter().position(|stat| *stat == Stat::P99).unwrap_or_default();
    let needed = values_needed(0.99);
    let mut least: BTreeMap<(&str, usize), f64> = BTreeMap::new();
    for place in all.iter().flat_map(|one| &one.places) {
        for ((subject, metric), values) in &place.values {
            let is_asked = is_question(Metric::ALL[*metric], Stat::P99);
            let key = (subject.clone(), *metric, tail);
            let known = place.figures.get(&key).map_or(0, |known| known.len());
            if is_asked && *values < needed && known < place.seeds.len() {
                let of = least.entry((subject, *metric)).or_insert(f64::INFINITY);
                *of = of.min(*values);
            }
        }
    }
    let name = |((subject, metric), values): (&(&str, usize), &f64)| {
        format!("{} of {subject} ({values})", Metric::ALL[*metric].name())
    };
    let names: Vec<String> = least.iter().map(name).collect();
    let note = format!(
        "p99 is absent where a run has fewer than {needed} values: {}. Make runs longer",
        names.join(", ")
    );
    if names.is_empty() { Vec::new() } else { vec![note] }
}

impl Answers {
    /// Adds the figures of one combination of varied values.
    fn add(&mut self, case: &str, theirs: &Place, base: &Place) {
        let runs = |place: &Place, key: &Key| {
            let known = place.figures.get(key);
            let run = |seed: &u64| Run {
                seed: *seed,
                known: known.and_then(|known| known.get(seed).copied()),
            };
            place.seeds.iter().map(run).collect::<Vec<_>>()
        };
        let mut added = Vec::new();
        for key in base.figures.keys().filter(|key| theirs.figures.contains_key(*key)) {
            let (metric, stat) = (Metric::ALL[key.1], STATS[key.2]);
            // It exists only in runs with drops, which other figures show better.
            if metric == Metric::DropShare {
                continue;
            }
            // Runs with enough values for a percentile are no fair draw of all.
            let is_whole = |place: &Place| {
                place.figures.get(key).is_some_and(|known| known.len() == place.seeds.len())
            };
            if stat != Stat::Mean && !(is_whole(theirs) && is_whole(base)) {
                continue;
            }
            added.push(Answered {
                case: case.to_owned(),
                at: base.at.clone(),
                subject: key.0.clone(),
                metric,
                stat,
                contrast: contrast(&runs(theirs, key), &runs(base, key)),
                adjusted: None,
                is_question: is_question(metric, stat),
                answer: Answer::Unknown,
                runs_to_tell: None,
            });
        }
        added.sort_by_key(|row| is_of_queue(row.metric));
        self.rows.extend(added);
    }

    /// Corrects the p-values of questions, and of the other figures, and answers all.
    fn answer(&mut self) {
        for (family, is_question) in [true, false].into_iter().enumerate() {
            let of =
                |row: &&mut Answered| row.is_question == is_question && row.contrast.p.is_some();
            let p: Vec<f64> =
                self.rows.iter_mut().filter(of).filter_map(|row| row.contrast.p).collect();
            self.families[family] = p.len();
            for (row, adjusted) in self.rows.iter_mut().filter(of).zip(holm(&p)) {
                row.adjusted = Some(adjusted);
            }
        }
        for row in &mut self.rows {
            row.answer = answer(row, self.within);
            let family = self.families[usize::from(!row.is_question)].max(1);
            row.runs_to_tell = (row.answer == Answer::Unknown)
                .then(|| row.contrast.runs_to_tell(ALPHA / family as f64, self.within))
                .flatten();
        }
    }
}

fn answer(row: &Answered, within: f64) -> Answer {
    let of = &row.contrast;
    let tolerance = within * of.means.1.low.abs().max(row.metric.matters_from());
    let is_fixed_within =
        of.is_fixed && of.difference.value.is_some_and(|difference| difference.abs() <= tolerance);
    let is_within = of.difference.is_within(-tolerance, tolerance)
        || of.ratio.is_some_and(|ratio| ratio.is_within(1.0 / (1.0 + within), 1.0 + within));
    let is_told = of.is_fixed || row.adjusted.is_some_and(|p| p < ALPHA);
    match (row.metric.better(), of.side()) {
        _ if is_fixed_within || is_within => Answer::Same,
        (_, None) => Answer::Unknown,
        _ if !is_told => Answer::Unknown,
        (Better::Neither, _) => Answer::Differs,
        (Better::Lower, Some(Ordering::Less)) | (Better::Higher, Some(Ordering::Greater)) => {
            Answer::Better
        }
        _ => Answer::Worse,
    }
}
