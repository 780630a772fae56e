//! Many senders to one receiver: short transfers at once, and nineteen long flows with a ping.

use super::{Cases, Plan, completions};
use crate::Error;
use crate::case::{
    Measured, Metrics, all, completion_statistics, completions_ms, counters, lines, queue_lengths,
};
use crate::compare::{self, Line};
use crate::random::Random;
use crate::reference::{Row, column, groups, numbers};
use crate::setup::{Algo, Path, at, marking_queue, span};
use crate::stats::{Sample, jain, mean, percentile, sd_of_all};
use knee_run::outcome::Outcome;
use knee_run::spec::{Run, Sampling};

const SENDERS: u32 = 10;
const END_S: f64 = 20.0;
const LONG_FLOWS: u32 = 19;
/// Values of the long flows are from here on.
const WARM_UP_S: f64 = 1.0;
/// The reference does not say when its long flows started: spread over this time here.
const LONG_JITTER_S: f64 = 1e-3;

pub(super) fn build(plan: &Plan, cases: &mut Cases) -> Result<(), Error> {
    let table = "runs_incast10_buffer100";
    for group in groups(&plan.reference.table(table)?, &["algo", "flow_kB"]) {
        let Some(algo) = cases.algo(&group[0]) else { continue };
        let runs = setup(&group[0], &algo, &column(&group, "seed")?)?;
        cases.add(name(table, &group[0]), runs, measure, move |ours| judge_runs(&group, ours));
    }
    if plan.is_quick {
        return Ok(());
    }
    for table in ["incast10", "incast10_buffer100"] {
        for row in plan.reference.table(table)? {
            let Some(algo) = cases.algo(&row) else { continue };
            let runs = setup(&row, &algo, &plan.seeds())?;
            cases.add(name(table, &row), runs, measure, move |ours| judge_summary(&row, ours));
        }
    }
    build_long(plan, cases)
}

fn name(table: &str, row: &Row) -> String {
    format!("{table}/{}-{}kB", row.text("algo"), row.text("flow_kB"))
}

fn setup(row: &Row, algo: &Algo, seeds: &[f64]) -> Result<Vec<Run>, Error> {
    let flow_kb = row.number("flow_kB")?;
    let path = Path::of(row, SENDERS, marking_queue(row)?)?;
    // Each sender has a link as fast as the bottleneck, in the table that does not tell it too.
    let path = Path { access_bps: path.rate_bps, ..path };
    let run = |seed: &f64| {
        let seed = *seed as u32;
        let mut random = Random::python(77 * seed + flow_kb as u32);
        let mut run = path.run(algo, u64::from(seed), END_S);
        run.until_done = true;
        run.sampling = Sampling { queues: Some(span(10e-6)), ..Sampling::default() };
        for sender in 0..SENDERS {
            let start_s = random.uniform(0.0, 50e-6);
            run.flows.push(path.flow(algo, sender, start_s, Some((flow_kb * 1e3) as u64)));
        }
        run
    };
    Ok(seeds.iter().map(run).collect())
}

fn measure(outcome: &Outcome) -> Measured {
    let mut measured = Measured::default();
    completion_statistics(&mut measured, &completions_ms(&outcome.flows));
    measured.set("queue_max", percentile(&queue_lengths(outcome, 0.0, END_S), 100.0));
    counters(&mut measured, outcome);
    measured.set("has_rto", measured.values.get("rto").map(|rto| f64::from(u8::from(*rto > 0.0))));
    measured
}

fn judge_runs(theirs: &[Row], ours: &[Measured]) -> Result<Vec<Line>, Error> {
    let mut lines = completions::lines(theirs, "", ours)?;
    lines.extend(completions::counters(theirs, ours)?);
    Ok(lines)
}

fn judge_summary(row: &Row, ours: &[Measured]) -> Result<Vec<Line>, Error> {
    let n = row.number("runs")? as usize;
    let mut lines = Vec::new();
    let mut mean_line = |metric: &str, sd: f64, name: &str, note: &str| -> Result<(), Error> {
        let theirs = Sample { n, mean: row.number(metric)?, sd };
        if let Some(ours) = Sample::of(&all(ours, name)) {
            lines.push(compare::means(metric, theirs, ours, 0.0).with_note(note));
        }
        Ok(())
    };
    let flow_sd = row.number("fct_sd_ms")? / f64::from(SENDERS).sqrt();
    mean_line("fct_mean_ms", flow_sd, "fct_mean_ms", "their sd from that of flows")?;
    mean_line("last_fct_mean_ms", row.number("last_fct_sd_ms")?, "fct_max_ms", "")?;
    for (metric, name) in
        [("rto_per_run", "rto"), ("share_of_runs_with_rto", "has_rto"), ("drops_per_run", "drops")]
    {
        let ours = Sample::of(&all(ours, name)).unwrap_or(Sample::single(f64::NAN));
        let theirs = Sample::with_spread_of(n, row.number(metric)?, ours);
        lines.push(compare::means(metric, theirs, ours, 1.0).with_note("our spread for both"));
    }
    // Theirs is the largest sample of all runs: held against ours of as many.
    let ours: Vec<f64> = all(ours, "queue_max").into_iter().take(n).collect();
    if let Some(largest) = percentile(&ours, 100.0) {
        let theirs = row.number("queue_max_sampled_pkts")?;
        let line = compare::exact("queue_max_sampled_pkts", theirs, largest, 1.0);
        lines.push(line.with_note("largest of as many runs"));
    }
    Ok(lines)
}

fn build_long(plan: &Plan, cases: &mut Cases) -> Result<(), Error> {
    for group in groups(&plan.reference.table("incast19")?, &["algo"]) {
        let Some(algo) = cases.algo(&group[0]) else { continue };
        let row = &group[0];
        let seconds = row.number("secs")?;
        let path = Path::of(row, LONG_FLOWS + 1, marking_queue(row)?)?;
        let run = |seed: usize| {
            let mut random = Random::own(seed as u64);
            let mut run = path.run(&algo, seed as u64, seconds);
            run.flows = (0..LONG_FLOWS)
                .map(|sender| path.flow(&algo, sender, random.uniform(0.0, LONG_JITTER_S), None))
                .collect();
            run.pings.push(path.ping(&algo, LONG_FLOWS, span(1e-3)));
            run.sampling = Sampling {
                queues: Some(span(1e-3)),
                goodput: Some(span(WARM_UP_S)),
                ..Sampling::default()
            };
            run
        };
        let runs = (1..=plan.seeds).map(run).collect();
        let measure = move |outcome: &Outcome| measure_long(outcome, seconds);
        let judge = move |ours: &[Measured]| Ok(lines(|name| numbers(&group, name), ours, LONG));
        cases.add(format!("incast19/{}", algo.name), runs, measure, judge);
    }
    Ok(())
}

fn measure_long(outcome: &Outcome, seconds: f64) -> Measured {
    let mut measured = Measured::default();
    let mut mbps = vec![0.0; outcome.flows.len()];
    for sample in &outcome.goodput_samples {
        if sample.at.as_secs_f64() > WARM_UP_S + 1e-6 {
            mbps[sample.flow as usize] += sample.bytes as f64 * 8e-6 / (seconds - WARM_UP_S);
        }
    }
    measured.set("sum_mbps(t>1s)", mbps.iter().sum::<f64>());
    measured.set("min_mbps", percentile(&mbps, 0.0));
    measured.set("max_mbps", percentile(&mbps, 100.0));
    measured.set("sd_mbps", sd_of_all(&mbps));
    measured.set("jain", jain(&mbps));
    let late = outcome.pings.iter().filter(|ping| ping.sent.as_secs_f64() > WARM_UP_S);
    let us: Vec<f64> = late.filter_map(|ping| Some(ping.rtt?.as_secs_f64() * 1e6)).collect();
    measured.set("ping_mean_us", mean(&us));
    measured.set("ping_p50_us", percentile(&us, 50.0));
    measured.set("ping_p99_us", percentile(&us, 99.0));
    measured.set("ping_max_us", percentile(&us, 100.0));
    // Of the whole run; those still under way at its end count as lost in the reference.
    let sent = outcome.pings.iter().filter(|ping| ping.sent < at(seconds));
    let is_lost: Vec<f64> = sent.map(|ping| f64::from(u8::from(ping.rtt.is_none()))).collect();
    measured.set("ping_loss", mean(&is_lost));
    let queue = queue_lengths(outcome, WARM_UP_S, seconds);
    measured.set("queue_mean_pkts", mean(&queue));
    measured.set("queue_p99_pkts", percentile(&queue, 99.0));
    measured.set("queue_max_pkts", percentile(&queue, 100.0));
    counters(&mut measured, outcome);
    measured.set("retrans_segs", measured.values.get("retrans").copied());
    let marked = outcome.queues.first();
    let fraction = marked.and_then(|q| Some(q.threshold_hits? as f64 / q.sent_pkts as f64));
    measured.set("mark_fraction", fraction);
    measured
}

const LONG: &Metrics = &[
    (0.0, &["sum_mbps(t>1s)", "min_mbps", "max_mbps"]),
    // A spread is judged in Mbps of a flow's share.
    (50.0, &["sd_mbps"]),
    (0.0, &["jain", "ping_mean_us", "ping_p50_us", "ping_p99_us", "ping_max_us"]),
    (0.001, &["ping_loss"]),
    (1.0, &["queue_mean_pkts", "queue_p99_pkts", "queue_max_pkts", "drops", "rto", "retrans_segs"]),
    (0.0, &["mark_fraction"]),
];
