//! One flow through PIE without ECN.

use super::{Cases, Plan};
use crate::Error;
use crate::case::{Case, Measured, all, goodput_mbps};
use crate::compare::{self, Line};
use crate::random::Random;
use crate::reference::{Row, groups};
use crate::setup::{Algo, Path, at, pie, span};
use crate::stats::{mean, percentile};
use knee_queue::time::Duration;
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
        for group in groups(&plan.reference.table(&format!("{table}.csv"))?, &columns) {
            let Some(algo) = cases.algo(&group[0]) else { continue };
            let row = &group[0];
            let seconds = row.number("secs")?;
            let mut runs = Vec::new();
            for seed in 1..=plan.seeds as u64 {
                runs.push(setup(row, &algo, seed, seconds)?);
            }
            let is_summary = table == "pie";
            cases.cases.push(Case {
                name: format!("{table}/{}-{}", row.text("bottleneck"), algo.name),
                runs,
                measure: Box::new(move |_, outcome| measure(&outcome, seconds)),
                judge: Box::new(move |ours| judge(&group, ours, is_summary)),
            });
        }
    }
    Ok(())
}

fn setup(row: &Row, algo: &Algo, seed: u64, seconds: f64) -> Result<Run, Error> {
    // A timer tick between 0 and the interval: where the updates stand when the flow starts.
    let interval_ms = row.number("tupdate_ms")?;
    let phase_ms = Random::own(seed).uniform(0.0, interval_ms).floor();
    let target = span(row.number("pie_target_ms")? * 1e-3);
    let path = Path {
        senders: 1,
        access_bps: 10 * row.rate_bps("bottleneck")?,
        rate_bps: row.rate_bps("bottleneck")?,
        rtt: span(row.number("base_rtt_ms")? * 1e-3),
        queue: pie(target, span(interval_ms * 1e-3), span(phase_ms * 1e-3), seed),
        loss: 0.0,
        jitter: Duration::ZERO,
    };
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

fn judge(theirs: &[Row], ours: &[Measured], is_summary: bool) -> Result<Vec<Line>, Error> {
    let metrics = [
        ("prob_mean_%", 0.0),
        ("drops/(drops+sent)_%", 0.0),
        ("drops", 1.0),
        ("pie_delay_mean_ms", 0.0),
        ("pie_delay_p99_ms", 0.0),
        ("cwnd_mean", 0.0),
        ("srtt_mean_ms", 0.0),
        ("goodput_mbps", 0.0),
    ];
    let mut lines = Vec::new();
    for (metric, at_least) in metrics {
        // The three runs of the summary are among the twenty: only what those do not have.
        if is_summary && metric != "pie_delay_p99_ms" {
            continue;
        }
        let theirs: Vec<f64> = theirs.iter().filter_map(|row| row.maybe(metric)).collect();
        lines.extend(compare::values(metric, &theirs, &all(ours, metric), at_least));
    }
    Ok(lines)
}
