//! Two bulk transfers and ten short ones from a third host.

use super::{Cases, Plan, completions};
use crate::Error;
use crate::case::{Measured, all, completion_statistics, completions_ms, counters, queue_lengths};
use crate::compare::{self, Line};
use crate::random::Random;
use crate::reference::{Row, column, groups};
use crate::setup::{Algo, Path, marking_queue, span};
use crate::stats::{Sample, Share, mean, sd_from_range};
use knee_run::outcome::Outcome;
use knee_run::spec::{Run, Sampling};

const SHORT_FLOWS: usize = 10;
const LONG_BYTES: u64 = 40_000_000;
/// Every transfer is over long before; a lost SYN or two included.
const END_S: f64 = 20.0;
/// A completion above this lost a SYN.
const SYN_LOST_MS: f64 = 1000.0;

pub(super) fn build(plan: &Plan, cases: &mut Cases) -> Result<(), Error> {
    for table in ["runs_bulk_mix", "runs_bulk_mix_jitter"] {
        for group in groups(&plan.reference.table(table)?, &["algo", "short_kB"]) {
            let Some(algo) = cases.algo(&group[0]) else { continue };
            let runs = setup(&group[0], &algo, &column(&group, "seed")?, true)?;
            cases.add(name(table, &group[0]), runs, measure, move |ours| judge_runs(&group, ours));
        }
    }
    for table in ["bulk_mix", "bulk_mix_start_pm_100ms", "bulk_mix_marker_drops_nonect"] {
        if plan.is_quick {
            continue;
        }
        for row in plan.reference.table(table)? {
            let Some(algo) = cases.algo(&row) else { continue };
            let runs = setup(&row, &algo, &plan.seeds(), table == "bulk_mix_start_pm_100ms")?;
            cases.add(name(table, &row), runs, measure, move |ours| judge_summary(&row, ours));
        }
    }
    Ok(())
}

fn name(table: &str, row: &Row) -> String {
    format!("{table}/{}-{}kB", row.text("algo"), row.text("short_kB"))
}

/// Starts as the reference drew them: the shift of the ten, the second long flow, the ten.
fn setup(row: &Row, algo: &Algo, seeds: &[f64], is_shifted: bool) -> Result<Vec<Run>, Error> {
    let short_kb = row.number("short_kB")?;
    let path = Path::of(row, 3, marking_queue(row)?)?;
    let run = |seed: &f64| {
        let seed = *seed as u32;
        let mut random = Random::python(1000 * seed + short_kb as u32);
        let shift_s = if is_shifted { random.uniform(-0.1, 0.1) } else { 0.0 };
        let mut run = path.run(algo, u64::from(seed), END_S);
        run.until_done = true;
        run.sampling = Sampling { queues: Some(span(200e-6)), ..Sampling::default() };
        let second_s = random.uniform(0.0, 1e-3);
        run.flows.push(path.flow(algo, 0, 0.0, Some(LONG_BYTES)));
        run.flows.push(path.flow(algo, 1, second_s, Some(LONG_BYTES)));
        for _ in 0..SHORT_FLOWS {
            let start_s = 0.5 + shift_s + random.uniform(0.0, 1e-4);
            run.flows.push(path.flow(algo, 2, start_s, Some((short_kb * 1e3) as u64)));
        }
        run
    };
    Ok(seeds.iter().map(run).collect())
}

fn measure(outcome: &Outcome) -> Measured {
    let mut measured = Measured::default();
    let (long, short) = outcome.flows.split_at(outcome.flows.len() - SHORT_FLOWS);
    let times = completions_ms(short);
    completion_statistics(&mut measured, &times);
    measured.set("syn_lost", times.iter().filter(|time| **time > SYN_LOST_MS).count() as f64);
    measured.set("long", mean(&completions_ms(long)));
    measured.set("queue", mean(&queue_lengths(outcome, 0.5, 0.65)));
    let unfinished = outcome.flows.iter().filter(|flow| flow.done_at.is_none()).count();
    measured.set("incomplete", unfinished as f64);
    counters(&mut measured, outcome);
    measured
}

fn judge_runs(theirs: &[Row], ours: &[Measured]) -> Result<Vec<Line>, Error> {
    let mut lines = completions::lines(theirs, "short_", ours)?;
    let long = column(theirs, "long_fct_mean_ms")?;
    lines.extend(compare::pairs("long_fct_mean_ms", &long, &all(ours, "long"), 0.0));
    lines.extend(completions::counters(theirs, ours)?);
    Ok(lines)
}

fn judge_summary(row: &Row, ours: &[Measured]) -> Result<Vec<Line>, Error> {
    let n = row.number("runs")? as usize;
    let mut lines = Vec::new();
    let (least, most) = (row.number("run_mean_min_ms")?, row.number("run_mean_max_ms")?);
    if row.number("short_max_ms")? > SYN_LOST_MS {
        // Each lost SYN is one timeout; these rows have no other.
        let lost = row.number("rto_per_run")?;
        let theirs = Share { runs: vec![(lost, SHORT_FLOWS as f64); n] };
        let our_lost = all(ours, "syn_lost");
        let ours_share =
            Share { runs: our_lost.iter().map(|hits| (*hits, SHORT_FLOWS as f64)).collect() };
        lines.push(compare::shares(
            "share_over_1s",
            &spread_like(&theirs, &ours_share),
            &ours_share,
        ));
        let of = |name: &str, allowed: fn(f64) -> bool| -> Vec<f64> {
            let pairs = all(ours, name).into_iter().zip(&our_lost);
            pairs.filter(|pair| allowed(*pair.1)).map(|pair| pair.0).collect()
        };
        let fast = of("fct_mean_ms", |lost| lost == 0.0);
        lines.extend(compare::values("short_fct_mean_ms of runs without", &[least], &fast, 0.0));
        let slow = of("fct_max_ms", |lost| lost > 0.0);
        let theirs = [row.number("short_max_ms")?];
        lines.extend(compare::values("short_fct_max_ms of runs with", &theirs, &slow, 0.0));
    } else {
        let mean_ms = row.number("short_fct_mean_ms")?;
        let theirs = Sample { n, mean: mean_ms, sd: sd_from_range(least, most, n) };
        if let Some(ours) = Sample::of(&all(ours, "fct_mean_ms")) {
            let line = compare::means("short_fct_mean_ms", theirs, ours, 0.0);
            lines.push(line.with_note("their sd from the range of runs"));
        }
    }
    let theirs =
        Sample { n, mean: row.number("long_fct_mean_ms")?, sd: row.number("long_fct_sd_ms")? };
    if let Some(ours) = Sample::of(&all(ours, "long")) {
        let line = compare::means("long_fct_mean_ms", theirs, ours, 0.0);
        lines.push(line.with_note("their sd that of single flows"));
    }
    for (metric, theirs, name, at_least) in [
        ("queue_mean_pkts 500..650 ms", "queue_mean_pkts_500_650ms", "queue", 1.0),
        ("rto", "rto_per_run", "rto", 1.0),
        ("drops", "drops_per_run", "drops", 1.0),
        ("incomplete", "incomplete", "incomplete", 1.0),
    ] {
        // Only a mean over their runs is known: they are given our spread.
        let ours = Sample::of(&all(ours, name)).unwrap_or(Sample::single(f64::NAN));
        let theirs = Sample::with_spread_of(n, row.number(theirs)?, ours);
        let line = compare::means(metric, theirs, ours, at_least);
        lines.push(line.with_note("our spread for both"));
    }
    Ok(lines)
}

/// Their share, of which only the mean is known, as far apart from run to run as ours: their first runs
/// all hits, the rest none, if ours hang together wholly; else as it is.
fn spread_like(theirs: &Share, ours: &Share) -> Share {
    let effect = ours.design_effect();
    let scale = |(hits, trials): &(f64, f64)| (hits / effect, trials / effect);
    Share { runs: theirs.runs.iter().map(scale).collect() }
}
