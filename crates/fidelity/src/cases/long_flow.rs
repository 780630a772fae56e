//! One long flow: random loss on a long path, and a bloated buffer on a slow one.

use super::{Cases, Plan};
use crate::Error;
use crate::case::{Measured, Metrics, all, counters, goodput_mbps, lines, queue_lengths};
use crate::compare::{self, Line};
use crate::random::Random;
use crate::reference::{Row, groups, numbers};
use crate::setup::{Path, pfifo, span};
use crate::stats::{Share, mean, percentile};
use knee_run::outcome::Outcome;
use knee_run::spec::Sampling;

pub(super) fn build(plan: &Plan, cases: &mut Cases) -> Result<(), Error> {
    if plan.is_quick {
        return Ok(());
    }
    for table in ["runs_random_loss", "random_loss"] {
        for group in groups(&plan.reference.table(table)?, &["loss", "algo"]) {
            random_loss(plan, cases, table, group)?;
        }
    }
    for group in groups(&plan.reference.table("bufferbloat")?, &["algo"]) {
        bufferbloat(plan, cases, group)?;
    }
    Ok(())
}

fn random_loss(plan: &Plan, cases: &mut Cases, table: &str, group: Vec<Row>) -> Result<(), Error> {
    let row = &group[0];
    let Some(algo) = cases.algo(row) else { return Ok(()) };
    let seconds = row.number("secs")?;
    let percent = row.text("loss").strip_suffix('%').and_then(|percent| percent.parse().ok());
    let percent: f64 = percent.ok_or_else(|| row.bad("loss", "n%"))?;
    let queue = pfifo(row.number("netem_limit_pkts")? as u32);
    let path = Path { loss: percent / 100.0, ..Path::of(row, 1, queue)? };
    // Few packets and much chance: ten times the runs cost next to nothing.
    let runs = (1..=10 * plan.seeds as u64).map(|seed| {
        let mut run = path.run(&algo, seed, seconds);
        run.flows.push(path.flow(&algo, 0, 0.0, None));
        run.sampling = Sampling { goodput: Some(span(seconds / 3.0)), ..Sampling::default() };
        run
    });
    let is_summary = table == "random_loss";
    let name = format!("{table}/{}-{}", row.text("loss"), algo.name);
    let measure = move |outcome: &Outcome| measure_loss(outcome, seconds);
    cases.add(name, runs.collect(), measure, move |ours| {
        // The three runs of the summary are among the others: only what those do not have.
        let metrics: &Metrics = match is_summary {
            true => &[(1.0, &["final_cwnd"])],
            false => &[(0.0, &["goodput_mbps", "goodput_last_third_mbps"]), (1.0, &["rto", "tlp"])],
        };
        let mut lines = lines(|name| numbers(&group, name), ours, metrics);
        if !is_summary {
            lines.extend(overflow_lines(&group, ours));
        }
        Ok(lines)
    });
    Ok(())
}

/// More drops than this in a run: its slow start has overflowed the buffer.
const OVERFLOW_DROPS: f64 = 100.0;

/// Two modes: a slow start that met a random loss, and one that went on until the buffer was full.
fn overflow_lines(theirs: &[Row], ours: &[Measured]) -> Vec<Line> {
    let mut lines = Vec::new();
    let (theirs, ours) = (numbers(theirs, "drops"), all(ours, "drops"));
    let share = |drops: &[f64]| Share {
        runs: drops.iter().map(|n| (f64::from(u8::from(*n > OVERFLOW_DROPS)), 1.0)).collect(),
    };
    lines.push(compare::shares("share of runs that overflow", &share(&theirs), &share(&ours)));
    for (metric, overflows) in [("drops of the others", false), ("drops of those", true)] {
        let mode = |drops: &[f64]| -> Vec<f64> {
            drops.iter().copied().filter(|n| (*n > OVERFLOW_DROPS) == overflows).collect()
        };
        lines.extend(compare::values(metric, &mode(&theirs), &mode(&ours), 1.0));
    }
    lines
}

fn measure_loss(outcome: &Outcome, seconds: f64) -> Measured {
    let mut measured = Measured::default();
    let flow = &outcome.flows[0];
    measured.set("goodput_mbps", goodput_mbps(flow.received_bytes, seconds));
    let last = outcome.goodput_samples.last();
    let last_third = last.map(|sample| goodput_mbps(sample.bytes, seconds / 3.0));
    measured.set("goodput_last_third_mbps", last_third);
    measured.set("final_cwnd", f64::from(flow.cwnd_pkts));
    counters(&mut measured, outcome);
    measured
}

fn bufferbloat(plan: &Plan, cases: &mut Cases, group: Vec<Row>) -> Result<(), Error> {
    let row = &group[0];
    let Some(algo) = cases.algo(row) else { return Ok(()) };
    let seconds = row.number("secs")?;
    // Its fullest sample is 1000 packets with pings among them: the limit is in packets.
    let path = Path::of(row, 2, pfifo(row.number("buffer_pkts")? as u32))?;
    let runs = (1..=plan.seeds as u64).map(|seed| {
        let mut run = path.run(&algo, seed, seconds);
        let start_s = Random::own(seed).uniform(0.0, 1e-3);
        let mut flow = path.flow(&algo, 0, start_s, None);
        flow.sampled = true;
        run.flows.push(flow);
        run.pings.push(path.ping(&algo, 1, span(0.1)));
        run.sampling =
            Sampling { flows: Some(span(0.01)), queues: Some(span(0.01)), ..Sampling::default() };
        run
    });
    let name = format!("bufferbloat/{}", algo.name);
    let measure = move |outcome: &Outcome| measure_bloat(outcome, seconds);
    let judge = move |ours: &[Measured]| Ok(lines(|name| numbers(&group, name), ours, BLOAT));
    cases.add(name, runs.collect(), measure, judge);
    Ok(())
}

const BLOAT: &Metrics = &[
    (0.0, &["goodput_mbps", "srtt_p50_ms", "srtt_mean_ms", "srtt_max_ms"]),
    (0.0, &["ping_p50_ms", "ping_p95_ms"]),
    (1.0, &["queue_mean_pkts", "queue_max_pkts", "drops", "rto"]),
];

fn measure_bloat(outcome: &Outcome, seconds: f64) -> Measured {
    let mut measured = Measured::default();
    measured.set("goodput_mbps", goodput_mbps(outcome.flows[0].received_bytes, seconds));
    let srtts: Vec<f64> = outcome.flow_samples.iter().map(|s| f64::from(s.srtt_us) / 1e3).collect();
    measured.set("srtt_p50_ms", percentile(&srtts, 50.0));
    measured.set("srtt_mean_ms", mean(&srtts));
    measured.set("srtt_max_ms", percentile(&srtts, 100.0));
    let pings: Vec<f64> =
        outcome.pings.iter().filter_map(|ping| Some(ping.rtt?.as_secs_f64() * 1e3)).collect();
    measured.set("ping_p50_ms", percentile(&pings, 50.0));
    measured.set("ping_p95_ms", percentile(&pings, 95.0));
    let queue = queue_lengths(outcome, 0.0, seconds);
    measured.set("queue_mean_pkts", mean(&queue));
    measured.set("queue_max_pkts", percentile(&queue, 100.0));
    counters(&mut measured, outcome);
    measured
}
