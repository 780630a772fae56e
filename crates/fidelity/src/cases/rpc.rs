//! Requests of 1 MB one after the other on connections that stay, beside each other.

use super::{Cases, Plan};
use crate::Error;
use crate::case::{Case, Measured, all, counters, goodput_mbps};
use crate::compare::{self, Line};
use crate::random::Random;
use crate::reference::{Row, groups};
use crate::setup::{Algo, Path, bfifo, span, way_back_jitter};
use crate::stats::{Sample, jain, mean, percentile};
use knee_run::outcome::Outcome;
use knee_run::spec::{Run, Sampling, Traffic};

const REQUEST_BYTES: u64 = 1_000_000;
const RESPONSE_BYTES: u64 = 100;
/// The reference does not say when its flows started: spread over this time here.
const JITTER_S: f64 = 1e-3;

/// Measured part of a run: exchanges that begin and end in it count. (The reference does the same: its goodput is that
/// of these exchanges and one more per flow.)
#[derive(Clone, Copy)]
struct Window {
    from_s: f64,
    seconds: f64,
}

impl Window {
    /// What was measured is in the table. What came before is not, but retransmissions are counted of
    /// the whole run and drops of the window: their ratio is 1.5 where one second was measured, 6 / 5
    /// where it was five.
    fn of(row: &Row) -> Result<Window, Error> {
        let seconds = row.number("secs_measured")?;
        Ok(Window { from_s: if seconds < 2.0 { 0.5 } else { 1.0 }, seconds })
    }

    fn end_s(self) -> f64 {
        self.from_s + self.seconds
    }

    fn holds(self, at_s: f64) -> bool {
        at_s > self.from_s + 1e-9 && at_s <= self.end_s() + 1e-9
    }
}

pub(super) fn build(plan: &Plan, cases: &mut Cases) -> Result<(), Error> {
    if plan.is_quick {
        return Ok(());
    }
    for table in ["nv_bic_rpc", "nv_bic_rpc_5s", "nv_bic_rpc_jitter"] {
        let rows = plan.reference.table(&format!("{table}.csv"))?;
        for group in groups(&rows, &["algo", "buffer", "flows"]) {
            let row = &group[0];
            let Some(algo) = cases.algo(row) else { continue };
            let window = Window::of(row)?;
            cases.cases.push(Case {
                name: format!(
                    "{table}/{}-{}-{}flows",
                    algo.name,
                    row.text("buffer"),
                    row.text("flows")
                ),
                runs: setup(row, &algo, window, plan.seeds)?,
                measure: Box::new(move |_, outcome| measure(&outcome, window)),
                judge: Box::new(move |ours| Ok(judge(&group, ours))),
            });
        }
    }
    Ok(())
}

fn setup(row: &Row, algo: &Algo, window: Window, seeds: usize) -> Result<Vec<Run>, Error> {
    let (flows, senders) = (row.number("flows")? as u32, row.number("senders")? as u32);
    let path = Path {
        senders,
        access_bps: row.rate_bps("access")?,
        rate_bps: row.rate_bps("bottleneck")?,
        rtt: span(row.number("rtt_us")? * 1e-6),
        queue: bfifo(buffer_bytes(row)?),
        loss: 0.0,
        jitter: way_back_jitter(row),
    };
    let run = |seed: usize| {
        let mut random = Random::own(seed as u64);
        let mut run = path.run(algo, seed as u64, window.end_s());
        for i in 0..flows {
            let start_s = random.uniform(0.0, JITTER_S);
            let mut flow = path.flow(algo, i % senders, start_s, None);
            flow.traffic = Traffic::Rpc {
                request_bytes: REQUEST_BYTES,
                response_bytes: RESPONSE_BYTES,
                count: None,
            };
            run.flows.push(flow);
        }
        run.sampling = Sampling {
            queues: Some(span(1e-3)),
            goodput: Some(span(window.from_s)),
            ..Sampling::default()
        };
        run
    };
    Ok((1..=seeds).map(run).collect())
}

/// `1.2MB` or `175KB`; thousands, as the fullest samples show.
fn buffer_bytes(row: &Row) -> Result<u64, Error> {
    let text = row.text("buffer");
    let (number, unit) = match text.strip_suffix("MB") {
        Some(number) => (number, 1e6),
        None => (text.strip_suffix("KB").unwrap_or(""), 1e3),
    };
    let number: f64 = number.parse().map_err(|_| Error::Buffer(text.to_owned()))?;
    Ok((number * unit) as u64)
}

fn measure(outcome: &Outcome, window: Window) -> Measured {
    let mut measured = Measured::default();
    let mut bytes = vec![0; outcome.flows.len()];
    for sample in &outcome.goodput_samples {
        if window.holds(sample.at.as_secs_f64()) {
            bytes[sample.flow as usize] += sample.bytes;
        }
    }
    let mbps: Vec<f64> = bytes.iter().map(|n| goodput_mbps(*n, window.seconds)).collect();
    measured.set("goodput_mbps", mbps.iter().sum::<f64>());
    measured.set("jain", jain(&mbps));
    let exchanges = outcome.rpcs.iter();
    let latencies_ms: Vec<f64> = exchanges
        .filter(|rpc| {
            let (start, end) = (rpc.start, rpc.start + rpc.latency);
            window.holds(start.as_secs_f64()) && window.holds(end.as_secs_f64())
        })
        .map(|rpc| rpc.latency.as_secs_f64() * 1e3)
        .collect();
    measured.set("rpcs", latencies_ms.len() as f64);
    measured.set("lat_mean_ms", mean(&latencies_ms));
    measured.set("lat_p50_ms", percentile(&latencies_ms, 50.0));
    measured.set("lat_p95_ms", percentile(&latencies_ms, 95.0));
    measured.set("lat_p99_ms", percentile(&latencies_ms, 99.0));
    let samples = outcome.queue_samples.iter();
    let queue: Vec<_> = samples.filter(|s| window.holds(s.at.as_secs_f64())).collect();
    let kilobytes: Vec<f64> = queue.iter().map(|s| s.len_bytes as f64 / 1e3).collect();
    measured.set("queue_mean_kB", mean(&kilobytes));
    measured.set("queue_p99_kB", percentile(&kilobytes, 99.0));
    if let [first, .., last] = queue.as_slice() {
        let drops = (last.dropped_pkts - first.dropped_pkts) as f64;
        measured.set("drops_per_s", drops / window.seconds);
    }
    counters(&mut measured, outcome);
    measured.set("rto_whole_run", measured.values.get("rto").copied());
    measured.set("retrans_whole_run", measured.values.get("retrans").copied());
    measured
}

fn judge(theirs: &[Row], ours: &[Measured]) -> Vec<Line> {
    // What percentages are of, at least.
    let metrics = [
        ("goodput_mbps", 0.0),
        ("jain", 0.0),
        ("rpcs", 0.0),
        ("lat_mean_ms", 0.0),
        ("lat_p50_ms", 0.0),
        ("lat_p95_ms", 0.0),
        ("lat_p99_ms", 0.0),
        ("queue_mean_kB", 1.5),
        ("queue_p99_kB", 1.5),
        ("drops_per_s", 1.0),
        ("rto_whole_run", 1.0),
        ("retrans_whole_run", 1.0),
    ];
    let mut lines = Vec::new();
    for (metric, at_least) in metrics {
        let their_values: Vec<f64> = theirs.iter().filter_map(|row| row.maybe(metric)).collect();
        let Some((theirs, ours)) = mean(&their_values).zip(Sample::of(&all(ours, metric))) else {
            continue;
        };
        let their_spread = Sample::of(&their_values).filter(|theirs| theirs.n > 2);
        lines.push(match their_spread {
            Some(theirs) => compare::means(metric, theirs, ours, at_least),
            // One or two runs say nothing of their spread: ours has to do for both.
            None => {
                let theirs = Sample { n: their_values.len(), mean: theirs, sd: ours.sd };
                let line = compare::means(metric, theirs, ours, at_least);
                line.with_note("our spread for both")
            }
        });
    }
    lines
}
