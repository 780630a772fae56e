//! One flow through PIE without ECN.

use super::{Cases, Plan};
use crate::Error;
use crate::case::{Measured, Metrics, goodput_mbps, lines};
use crate::random::Random;
use crate::reference::{Row, groups, numbers};
use crate::setup::{Algo, Path, at, span};
use crate::stats::{mean, percentile};
use knee_queue::{PieConfig, QueueConfig};
use knee_run::outcome::Outcome;
use knee_run::spec::{Run, Sampling};

const SAMPLE_S: f64 = 1e-3;
/// The tables are about the last two thirds of a run, drops and packets sent included.
const LATE: f64 = 1.0 / 3.0;

pub(super) fn build(plan: &Plan, cases: &mut Cases) -> Result<(), Error> {
    if plan.is_quick {
        return Ok(());
    }
    let columns = ["bottleneck", "base_rtt_ms", "pie_target_ms", "tupdate_ms", "algo"];
    for table in ["runs_pie", "pie"] {
        for group in groups(&plan.reference.table(table)?, &columns) {
            let Some(algo) = cases.algo(&group[0]) else { continue };
            let row = &group[0];
            let seconds = row.number("secs")?;
            let seeds = 1..=plan.seeds as u64;
            let runs: Result<_, _> = seeds.map(|seed| setup(row, &algo, seed, seconds)).collect();
            let name = format!("{table}/{}-{}", row.text("bottleneck"), algo.name);
            let measure = move |outcome: &Outcome| measure(outcome, seconds);
            // The three runs of the summary are among the twenty: only what those do not have.
            let metrics = if table == "pie" { SUMMARY } else { METRICS };
            let judge =
                move |ours: &[Measured]| Ok(lines(|name| numbers(&group, name), ours, metrics));
            cases.add(name, runs?, measure, judge);
        }
    }
    Ok(())
}

fn setup(row: &Row, algo: &Algo, seed: u64, seconds: f64) -> Result<Run, Error> {
    // A timer tick between 0 and the interval: where the updates stand when the flow starts.
    let interval_ms = row.number("tupdate_ms")?;
    let phase_ms = Random::own(seed).uniform(0.0, interval_ms).floor();
    // Without ECN. The updates began half a second after the queue was made, long before the flow.
    let queue = QueueConfig::Pie(PieConfig {
        limit_pkts: 1000,
        target: span(row.number("pie_target_ms")? * 1e-3),
        update_interval: span(interval_ms * 1e-3),
        first_update: span(phase_ms * 1e-3),
        ecn: false,
        seed,
        ..PieConfig::default()
    });
    let path = Path::of(row, 1, queue)?;
    let mut run = path.run(algo, seed, seconds);
    let mut flow = path.flow(algo, 0, 0.0, None);
    flow.sampled = true;
    run.flows.push(flow);
    run.sampling = Sampling {
        flows: Some(span(5.0 * SAMPLE_S)),
        queues: Some(span(SAMPLE_S)),
        ..Sampling::default()
    };
    Ok(run)
}

fn measure(outcome: &Outcome, seconds: f64) -> Measured {
    let mut measured = Measured::default();
    let from = at(seconds * LATE);
    let queue: Vec<_> = outcome.queue_samples.iter().filter(|sample| sample.at >= from).collect();
    let flow: Vec<_> = outcome.flow_samples.iter().filter(|sample| sample.at >= from).collect();
    let percents: Vec<f64> =
        queue.iter().filter_map(|sample| Some(sample.drop_probability? * 100.0)).collect();
    measured.set("prob_mean_%", mean(&percents));
    let delays: Vec<f64> =
        queue.iter().filter_map(|sample| Some(sample.qdelay?.as_secs_f64() * 1e3)).collect();
    measured.set("pie_delay_mean_ms", mean(&delays));
    measured.set("pie_delay_p99_ms", percentile(&delays, 99.0));
    let cwnds: Vec<f64> = flow.iter().map(|sample| f64::from(sample.cwnd)).collect();
    measured.set("cwnd_mean", mean(&cwnds));
    let srtts: Vec<f64> = flow.iter().map(|sample| f64::from(sample.srtt_us) / 1e3).collect();
    measured.set("srtt_mean_ms", mean(&srtts));
    if let Some((first, last)) = flow.first().zip(flow.last()) {
        let seconds = last.at.since(first.at).as_secs_f64();
        measured.set("goodput_mbps", goodput_mbps(last.bytes_acked - first.bytes_acked, seconds));
        // What was sent is what was delivered: nothing is lost behind the queue.
        let sent = f64::from(last.delivered - first.delivered);
        if let Some((first, last)) = queue.first().zip(queue.last()) {
            let drops = (last.dropped_pkts - first.dropped_pkts) as f64;
            measured.set("drops", drops);
            measured.set("drops/(drops+sent)_%", drops / (drops + sent) * 100.0);
        }
    }
    measured
}

const METRICS: &Metrics = &[
    (0.0, &["prob_mean_%", "drops/(drops+sent)_%"]),
    (1.0, &["drops"]),
    (0.0, &["pie_delay_mean_ms", "pie_delay_p99_ms", "cwnd_mean", "srtt_mean_ms", "goodput_mbps"]),
];
const SUMMARY: &Metrics = &[(0.0, &["pie_delay_p99_ms"])];
