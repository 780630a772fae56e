//! Requests of 1 MB one after the other on connections that stay, beside each other.

use super::{Cases, Plan};
use crate::Error;
use crate::case::{Measured, Metrics, all, counters, goodput_mbps};
use crate::compare::{self, Line};
use crate::random::Random;
use crate::reference::{Row, groups, numbers};
use crate::setup::{Algo, Path, bfifo, span};
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
        for group in groups(&plan.reference.table(table)?, &["algo", "buffer", "flows"]) {
            let row = &group[0];
            let Some(algo) = cases.algo(row) else { continue };
            let window = Window::of(row)?;
            let (buffer, flows) = (row.text("buffer"), row.text("flows"));
            let name = format!("{table}/{}-{buffer}-{flows}flows", algo.name);
            let runs = setup(row, &algo, window, plan.seeds)?;
            let measure = move |outcome: &Outcome| measure(outcome, window);
            cases.add(name, runs, measure, move |ours| Ok(judge(&group, ours)));
        }
    }
    Ok(())
}

fn setup(row: &Row, algo: &Algo, window: Window, seeds: usize) -> Result<Vec<Run>, Error> {
    let (flows, senders) = (row.number("flows")? as u32, row.number("senders")? as u32);
    let path = Path::of(row, senders, bfifo(buffer_bytes(row)?))?;
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
    let number: f64 =
        number.parse().map_err(|_| row.bad("buffer", "a size such as 175KB or 1.2MB"))?;
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

const METRICS: &Metrics = &[
    (0.0, &["goodput_mbps", "jain", "rpcs"]),
    (0.0, &["lat_mean_ms", "lat_p50_ms", "lat_p95_ms", "lat_p99_ms"]),
    (1.5, &["queue_mean_kB", "queue_p99_kB"]),
    (1.0, &["drops_per_s", "rto_whole_run", "retrans_whole_run"]),
];

fn judge(theirs: &[Row], ours: &[Measured]) -> Vec<Line> {
    let line = |metric: &str, at_least: f64| {
        let (theirs, ours) =
            (Sample::of(&numbers(theirs, metric))?, Sample::of(&all(ours, metric))?);
        if theirs.n > 2 {
            return Some(compare::means(metric, theirs, ours, at_least));
        }
        // One or two runs say nothing of their spread: ours has to do for both.
        let line = compare::means(metric, Sample { sd: ours.sd, ..theirs }, ours, at_least);
        Some(line.with_note("our spread for both"))
    };
    let of = |(at_least, names): &(f64, &[&'static str])| {
        names.iter().filter_map(|name| line(name, *at_least)).collect::<Vec<_>>()
    };
    METRICS.iter().flat_map(of).collect()
}
