//! Single long flows, sample by sample.

use super::{Cases, Plan};
use crate::Error;
use crate::align::{align, period};
use crate::case::{Case, Measured};
use crate::compare::{self, Line};
use crate::reference::{Row, column};
use crate::setup::{PKT_BYTES, Path, bfifo, span, step};
use crate::stats::{mean, percentile};
use knee_queue::{NotEctAbove, QueueConfig};
use knee_run::outcome::{FlowSample, Outcome};
use knee_run::spec::Sampling;
use std::collections::HashMap;

/// First moments that were run over another buffer than the whole series, which alone the table has: it
/// says 500 packets, and this queue was never longer than 200, and dropped there.
const OTHER_BUFFER: &[(&str, u64)] = &[("start-bbr-100m-20ms", 200 * PKT_BYTES)];
/// Runs longer than this are left out of a quick check.
const QUICK_S: f64 = 5.0;

pub(super) fn build(plan: &Plan, cases: &mut Cases) -> Result<(), Error> {
    for row in plan.reference.table("series_summary")? {
        let name = row.text("series").to_owned();
        let Some(mut algo) = cases.algo(&row) else { continue };
        algo.tcp_ecn = row.number("tcp_ecn")? as u8;
        let queue = queue(row.text("qdisc"))
            .ok_or_else(|| row.bad("qdisc", "redstep K LIMIT NODROP 1 or bfifo limit BYTES"))?;
        let path = Path::of(&row, 1, queue)?;
        for is_start in [false, true] {
            let name = if is_start { format!("start-{name}") } else { name.clone() };
            if !plan.reference.has_series(&format!("{name}-info")) {
                continue;
            }
            let series = |of: &str| plan.reference.series(&format!("{name}-{of}"));
            let (info, queue) = (series("info")?, series("queue")?);
            let Some(end_s) = queue.last().and_then(|row| row.maybe("t")) else { continue };
            if plan.is_quick && end_s > QUICK_S {
                continue;
            }
            let sample_s = queue[0].number("t")?;
            let own_buffer = OTHER_BUFFER.iter().find(|(series, _)| *series == name);
            let path = match own_buffer {
                Some((_, bytes)) => Path { queue: bfifo(*bytes), ..path.clone() },
                None => path.clone(),
            };
            let mut run = path.run(&algo, 1, end_s);
            let mut flow = path.flow(&algo, 0, 0.0, None);
            flow.sampled = true;
            run.flows.push(flow);
            run.sampling = Sampling {
                flows: Some(span(sample_s)),
                queues: Some(span(sample_s)),
                ..Sampling::default()
            };
            let alpha = algo.cc.algorithm.diag().iter().position(|diag| diag.name == "alpha");
            let theirs = Theirs {
                info,
                queue,
                summary: (!is_start).then(|| row.clone()),
                sample_s,
                end_s,
                alpha,
            };
            cases.cases.push(Case {
                name: format!("series/{name}"),
                runs: vec![run],
                measure: Box::new(|outcome| Measured {
                    outcome: Some(Box::new(outcome)),
                    ..Measured::default()
                }),
                judge: Box::new(move |ours| match ours {
                    [Measured { outcome: Some(ours), .. }] => judge(&theirs, ours),
                    _ => Ok(Vec::new()),
                }),
            });
        }
    }
    Ok(())
}

/// `redstep K_BYTES LIMIT_BYTES NODROP ECN` or `bfifo limit BYTES`.
fn queue(text: &str) -> Option<QueueConfig> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        ["redstep", k, limit, nodrop, "1"] => {
            let not_ect = if nodrop == "1" { NotEctAbove::Queue } else { NotEctAbove::Drop };
            Some(step(k.parse().ok()?, limit.parse().ok()?, not_ect))
        }
        ["bfifo", "limit", limit] => Some(bfifo(limit.parse().ok()?)),
        _ => None,
    }
}

struct Theirs {
    info: Vec<Row>,
    queue: Vec<Row>,
    /// The row of `series_summary.csv`; none for the first moments.
    summary: Option<Row>,
    sample_s: f64,
    end_s: f64,
    /// Index of DCTCP's alpha among the algorithm's diagnostic values.
    alpha: Option<usize>,
}

fn judge(theirs: &Theirs, ours: &Outcome) -> Result<Vec<Line>, Error> {
    let index = |t: f64| (t / theirs.sample_s).round() as u64;
    let by_index: HashMap<u64, &FlowSample> =
        ours.flow_samples.iter().map(|sample| (index(sample.at.as_secs_f64()), sample)).collect();
    let times = column(&theirs.info, "t")?;
    let pairs: Vec<(&Row, &FlowSample)> = theirs
        .info
        .iter()
        .zip(&times)
        .filter_map(|(row, t)| Some((row, *by_index.get(&index(*t))?)))
        .collect();
    let missing = theirs.info.len() - pairs.len();
    let mut lines = vec![compare::exact(
        "samples",
        theirs.info.len() as f64,
        pairs.len() as f64,
        if missing <= 1 { 1.0 } else { 0.0 },
    )];
    type Get = Box<dyn Fn(&FlowSample) -> f64>;
    let mut metrics: Vec<(&str, &str, Get)> = vec![
        ("cwnd", "cwnd", Box::new(|sample| f64::from(sample.cwnd))),
        ("srtt_us", "srtt_us", Box::new(|sample| f64::from(sample.srtt_us))),
        ("delivered", "delivered", Box::new(|sample| f64::from(sample.delivered))),
    ];
    if let Some(i) = theirs.alpha {
        let alpha: Get = Box::new(move |s| s.diag.get(i).map_or(f64::NAN, |a| *a as f64 / 1024.0));
        metrics.push(("alpha", "cc3", alpha));
    }
    let cwnds: Vec<f64> = pairs.iter().filter_map(|(row, _)| row.maybe("cwnd")).collect();
    let cwnd_period = period(&cwnds);
    for (metric, name, get) in &metrics {
        let unit = if *metric == "alpha" { 1024.0 } else { 1.0 };
        let mut a = Vec::with_capacity(pairs.len());
        for (row, _) in &pairs {
            a.push(row.number(name)? / unit);
        }
        let b: Vec<f64> = pairs.iter().map(|(_, sample)| get(sample)).collect();
        // What only grows has no phase. BBR probes by its rate, with a cwnd that stays: what has a period
        // then is the RTT, once it has started, and the phase is drawn by lot.
        let own_period = || period(&a[a.len() / 3..]);
        let period = cwnd_period.or_else(own_period).filter(|_| *metric != "delivered");
        if let Some(found) = align(&a, &b, period) {
            let note = format!(
                "unaligned {:.2} %, shifts up to {} samples, period {}",
                100.0 * found.unaligned_rms,
                found.largest_shift,
                found.period.map_or("none".to_owned(), |period| period.to_string()),
            );
            lines.push(compare::rms(&format!("{metric} RMS"), found.rms).with_note(note));
        }
        if *metric == "delivered" {
            let last = |values: &[f64]| values.last().copied().unwrap_or(f64::NAN);
            lines.push(compare::exact("delivered at the end", last(&a), last(&b), 0.0));
        } else {
            let from = a.len() / 3;
            let means = mean(&a[from..]).zip(mean(&b[from..]));
            let metric = format!("{metric} mean, last 2/3");
            lines.extend(means.map(|(a, b)| compare::exact(&metric, a, b, 0.0)));
        }
    }
    lines.extend(queue_lines(theirs, ours)?);
    Ok(lines)
}

/// The queue over the last two thirds (of a start: all of it), goodput, marks, drops, retransmissions.
fn queue_lines(theirs: &Theirs, ours: &Outcome) -> Result<Vec<Line>, Error> {
    let from_s = if theirs.summary.is_some() { theirs.end_s / 3.0 } else { 0.0 };
    let mut their_queue = Vec::new();
    for row in &theirs.queue {
        if row.number("t")? > from_s {
            their_queue.push(row.number("qlen")?);
        }
    }
    let our_queue = crate::case::queue_lengths(ours, from_s, theirs.end_s);
    let mut lines = Vec::new();
    let means = mean(&their_queue).zip(mean(&our_queue));
    lines.extend(means.map(|(a, b)| compare::exact("queue_mean_pkts", a, b, 0.0)));
    for (metric, percent) in [("queue_p5", 5.0), ("queue_p95", 95.0), ("queue_max", 100.0)] {
        let values = percentile(&their_queue, percent).zip(percentile(&our_queue, percent));
        lines.extend(values.map(|(a, b)| compare::exact(metric, a, b, 1.0)));
    }
    let (Some(first), Some(their_last)) = (ours.queues.first(), theirs.queue.last()) else {
        return Ok(lines);
    };
    let counters = ours.flows[0].counters.complete();
    let counters = counters.expect("the simulator knows every counter");
    let drops = first.dropped_pkts() as f64;
    lines.push(compare::exact("drops", their_last.number("drops")?, drops, 0.0));
    if let Some(info) = theirs.info.last() {
        let retrans = counters.retransmitted_segs as f64;
        lines.push(compare::exact("retrans", info.number("total_retrans")?, retrans, 0.0));
        let share = |marked: f64, all: f64| if all > 0.0 { marked / all } else { 0.0 };
        let (ce, all) = (info.number("delivered_ce")?, info.number("delivered")?);
        let ours = share(counters.delivered_ce as f64, counters.delivered as f64);
        lines.push(compare::exact("ce_fraction", share(ce, all), ours, 0.0));
    }
    if let Some(summary) = &theirs.summary {
        let timeouts = counters.timeouts as f64;
        lines.push(compare::exact("rto", summary.number("rto")?, timeouts, 0.0));
        let mbps = late_goodput_mbps(ours, theirs.end_s);
        lines.push(compare::exact("goodput_mbps", summary.number("goodput_mbps")?, mbps, 0.0));
    }
    Ok(lines)
}

/// Goodput by the bytes acked over the last two thirds.
fn late_goodput_mbps(ours: &Outcome, end_s: f64) -> f64 {
    let samples = &ours.flow_samples;
    let first = samples.iter().find(|sample| sample.at.as_secs_f64() >= end_s / 3.0);
    match first.zip(samples.last()) {
        Some((a, b)) => {
            let seconds = b.at.since(a.at).as_secs_f64();
            (b.bytes_acked - a.bytes_acked) as f64 * 8.0 / seconds / 1e6
        }
        None => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qdiscs_are_read() {
        assert_eq!(
            queue("redstep 30280 757000 1 1"),
            Some(step(30_280, 757_000, NotEctAbove::Queue))
        );
        assert_eq!(queue("bfifo limit 302800"), Some(bfifo(302_800)));
        assert_eq!(queue("fq_codel"), None);
    }
}
