//! A second flow joins a first: how soon they share, and how steadily.

use super::{Cases, Plan};
use crate::Error;
use crate::case::{Measured, Metrics, all, counters, lines, queue_lengths};
use crate::compare::Line;
use crate::random::Random;
use crate::reference::{Row, groups};
use crate::setup::{Path, marking_queue, span};
use crate::stats::{jain, mean, percentile};
use knee_run::outcome::Outcome;
use knee_run::spec::Sampling;

const END_S: f64 = 10.0;
const SECOND_START_S: f64 = 1.0;
/// The reference does not say how far its seeds moved the second flow. CUBIC's first half second is the
/// same in all three: such are starts up to about 0.3 ms late.
const JITTER_S: f64 = 3e-4;
const PERIOD_S: f64 = 0.5;
/// Fairness index (Jain) from which two flows count as converged.
const FAIR: f64 = 0.95;

pub(super) fn build(plan: &Plan, cases: &mut Cases) -> Result<(), Error> {
    if plan.is_quick {
        return Ok(());
    }
    for group in groups(&plan.reference.table("convergence")?, &["algo"]) {
        let Some(algo) = cases.algo(&group[0]) else { continue };
        let path = Path::of(&group[0], 2, marking_queue(&group[0])?)?;
        let run = |seed: usize| {
            let mut run = path.run(&algo, seed as u64, END_S);
            let start_s = SECOND_START_S + Random::own(seed as u64).uniform(0.0, JITTER_S);
            run.flows.push(path.flow(&algo, 0, 0.0, None));
            run.flows.push(path.flow(&algo, 1, start_s, None));
            run.sampling = Sampling {
                queues: Some(span(1e-3)),
                goodput: Some(span(PERIOD_S)),
                ..Sampling::default()
            };
            run
        };
        let runs = (1..=plan.seeds).map(run).collect();
        let name = format!("convergence/{}", algo.name);
        cases.add(name, runs, measure, move |ours| judge(&group, ours));
    }
    Ok(())
}

/// Rates of the two flows over time, and what comes of them: the same for theirs and ours.
fn rates(measured: &mut Measured, rates: &[(f64, f64, f64)]) {
    let at = |t: f64| rates.iter().find(|rate| (rate.0 - t).abs() < 1e-3);
    measured.set("flow1_mbps 0.5..1s", at(1.0).map(|rate| rate.1));
    measured.set("flow2_mbps 1..1.5s", at(1.5).map(|rate| rate.2));
    measured.set("flow2_mbps 1.5..2s", at(2.0).map(|rate| rate.2));
    measured.set("flow2_mbps 2.5..3s", at(3.0).map(|rate| rate.2));
    let late: Vec<_> = rates.iter().filter(|rate| rate.0 > 5.0 + 1e-3).collect();
    let sums: Vec<f64> = late.iter().map(|rate| rate.1 + rate.2).collect();
    measured.set("sum_mbps 5..10s", mean(&sums));
    let firsts: Vec<f64> = late.iter().map(|rate| rate.1).collect();
    measured.set("flow1_mbps 5..10s", mean(&firsts));
    let indices: Vec<f64> = late.iter().filter_map(|rate| jain(&[rate.1, rate.2])).collect();
    measured.set("jain 5..10s", mean(&indices));
    let both = rates.iter().filter(|rate| rate.0 > SECOND_START_S + 1e-3);
    let mut fair = both.filter(|rate| jain(&[rate.1, rate.2]).is_some_and(|j| j >= FAIR));
    measured.set("first fair period_s", fair.next().map(|rate| rate.0 - SECOND_START_S));
}

fn measure(outcome: &Outcome) -> Measured {
    let mut measured = Measured::default();
    let mut series: Vec<(f64, f64, f64)> = Vec::new();
    for sample in &outcome.goodput_samples {
        let (t, mbps) = (sample.at.as_secs_f64(), sample.bytes as f64 * 8e-6 / PERIOD_S);
        if series.last().is_none_or(|last| (last.0 - t).abs() > 1e-6) {
            series.push((t, 0.0, 0.0));
        }
        if let Some(last) = series.last_mut() {
            if sample.flow == 0 { last.1 = mbps } else { last.2 = mbps }
        }
    }
    rates(&mut measured, &series);
    let queue = queue_lengths(outcome, 2.0, END_S);
    measured.set("queue_mean_pkts_t>2s", mean(&queue));
    measured.set("queue_p50_pkts", percentile(&queue, 50.0));
    measured.set("queue_max_pkts", percentile(&queue, 100.0));
    counters(&mut measured, outcome);
    measured
}

fn judge(theirs: &[Row], ours: &[Measured]) -> Result<Vec<Line>, Error> {
    let mut their_runs = Vec::new();
    for rows in groups(theirs, &["seed"]) {
        let mut measured = Measured::default();
        let mut series = Vec::new();
        for row in &rows {
            let mbps = (row.number("flow1_mbps")?, row.number("flow2_mbps")?);
            series.push((row.number("t_s")?, mbps.0, mbps.1));
        }
        rates(&mut measured, &series);
        for name in ["queue_mean_pkts_t>2s", "queue_p50_pkts", "queue_max_pkts"] {
            measured.set(name, rows[0].number(name)?);
        }
        measured.set("drops", rows[0].number("drops_total")?);
        measured.set("rto", rows[0].number("rto_total")?);
        their_runs.push(measured);
    }
    Ok(lines(|name| all(&their_runs, name), ours, METRICS))
}

const METRICS: &Metrics = &[
    (0.0, &["flow1_mbps 0.5..1s", "flow2_mbps 1..1.5s", "flow2_mbps 1.5..2s"]),
    (0.0, &["flow2_mbps 2.5..3s", "first fair period_s", "flow1_mbps 5..10s", "sum_mbps 5..10s"]),
    (0.0, &["jain 5..10s"]),
    (1.0, &["queue_mean_pkts_t>2s", "queue_p50_pkts", "queue_max_pkts", "drops", "rto"]),
];
