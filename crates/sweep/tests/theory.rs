//! The simulator beside closed laws of congestion control: the table of docs/theory.md, made again.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use knee_scenario::metric::Metric;
use knee_scenario::{Experiment, Overrides};
use knee_sweep::sweep_result::SweepResult;

use crate::common::*;

/// Full frames of 1448 bytes of payload.
const FRAME_BITS: f64 = 1514.0 * 8.0;
const PAYLOAD_BITS: f64 = 1448.0 * 8.0;

/// A law and what the simulator does.
struct Row {
    what: String,
    law: &'static str,
    theory: f64,
    found: f64,
    /// Half of the 95 % interval, where there are several runs.
    ci95: Option<f64>,
    /// What the ratio of both may be, if the interval does not hold the law's value.
    allowed: (f64, f64),
}

impl Row {
    fn ratio(&self) -> f64 {
        self.found / self.theory
    }

    fn holds(&self) -> bool {
        let is_within = self.ci95.is_some_and(|half| (self.found - self.theory).abs() <= half);
        is_within || (self.allowed.0..=self.allowed.1).contains(&self.ratio())
    }
}

struct Done {
    experiment: Arc<Experiment>,
    swept: SweepResult,
    files: BTreeMap<String, String>,
}

impl Done {
    fn of(name: &str) -> Done {
        Done::with(name, &[])
    }

    /// With keys set.
    fn with(name: &str, set: &[&str]) -> Done {
        let set = set.iter().map(|assignment| (*assignment).to_owned()).collect();
        let overrides = Overrides { set, ..Overrides::default() };
        let path = format!("{}/../../scenarios/theory/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        let experiment = Arc::new(
            Experiment::load(Path::new(&path), &overrides).unwrap_or_else(|why| panic!("{why}")),
        );
        let scratch = Scratch::new();
        let swept = run_into(&scratch, &experiment, &simulated()).unwrap();
        Done { swept, files: scratch.files(name), experiment }
    }

    /// Mean and half of its interval, at a case and a varied value.
    fn mean(&self, case: &str, at: &str, subject: &str, metric: Metric) -> (f64, Option<f64>) {
        let is_it = |row: &&knee_sweep::sweep_result::Summaries| {
            let labels = self.experiment.point_labels(&row.configuration);
            self.experiment.case_name(&row.configuration) == case
                && labels.iter().all(|label| label == at)
        };
        let row = self.swept.tables.iter().find(is_it).unwrap();
        let subject = row.subjects.iter().find(|s| s.name == subject).unwrap();
        let summary = subject.metric(metric).unwrap();
        (summary.mean.unwrap(), summary.ci95)
    }

    /// Rows of a series: the run, the time, and these columns.
    fn series<const N: usize>(
        &self,
        file: &str,
        columns: [&str; N],
    ) -> Vec<(usize, f64, [&str; N])> {
        let mut lines = self.files[file].lines();
        let head: Vec<&str> = lines.next().unwrap().split(',').collect();
        let at = columns.map(|name| head.iter().position(|head| *head == name).unwrap());
        lines
            .map(|line| {
                let cells: Vec<&str> = line.split(',').collect();
                (cells[0].parse().unwrap(), cells[1].parse().unwrap(), at.map(|at| cells[at]))
            })
            .collect()
    }
}

/// Numbers that look random, by xorshift: the same in each run of the test.
struct Draws(u64);

impl Draws {
    fn share(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// How a window is cut, and how it grows in a round trip without loss.
trait Window {
    fn cut(&mut self, cwnd: f64) -> f64;
    fn grown(&mut self, cwnd: f64, rtt_s: f64) -> f64;
}

struct Reno;

impl Window for Reno {
    fn cut(&mut self, cwnd: f64) -> f64 {
        cwnd / 2.0
    }
    fn grown(&mut self, cwnd: f64, _rtt_s: f64) -> f64 {
        cwnd + 1.0
    }
}

/// RFC 9438: `W_cubic(t) = C (t - K)^3 + W_max`, never below W_est, with fast convergence. W_est grows by alpha throughout, as in Linux,
/// where the RFC has 1 above W_max.
#[derive(Default)]
struct Cubic {
    w_max: f64,
    w_est: f64,
    k_s: f64,
    since_s: f64,
}

impl Cubic {
    const C: f64 = 0.4;
    const BETA: f64 = 0.7;
}

impl Window for Cubic {
    fn cut(&mut self, cwnd: f64) -> f64 {
        let falls_short = cwnd < self.w_max;
        self.w_max = if falls_short { cwnd * (1.0 + Cubic::BETA) / 2.0 } else { cwnd };
        let cut = (cwnd * Cubic::BETA).max(2.0);
        self.k_s = ((self.w_max - cut).max(0.0) / Cubic::C).cbrt();
        (self.since_s, self.w_est) = (0.0, cut);
        cut
    }
    fn grown(&mut self, cwnd: f64, rtt_s: f64) -> f64 {
        self.since_s += rtt_s;
        let cubic = Cubic::C * (self.since_s - self.k_s).powi(3) + self.w_max;
        self.w_est += 3.0 * (1.0 - Cubic::BETA) / (1.0 + Cubic::BETA);
        cubic.clamp(cwnd, 1.5 * cwnd).max(self.w_est)
    }
}

/// Bits per second of a window under independent losses: round trips in which any of its packets may be lost, and one of recovery, at
/// the new window, after each in which one was. What is lost in that is another loss.
fn monte_carlo(window: &mut dyn Window, loss: f64, rtt_s: f64) -> f64 {
    let mut draws = Draws(0x9e37_79b9_7f4a_7c15);
    let (mut cwnd, mut sent, mut rounds) = (10.0_f64, 0.0, 0_u64);
    while rounds < 2_000_000 {
        sent += cwnd.floor();
        rounds += 1;
        let mut loses = |cwnd: f64| draws.share() < 1.0 - (1.0 - loss).powf(cwnd.floor());
        let mut is_cut = loses(cwnd);
        if !is_cut {
            cwnd = window.grown(cwnd, rtt_s);
        }
        while is_cut {
            cwnd = window.cut(cwnd).max(2.0);
            sent += cwnd;
            rounds += 1;
            is_cut = loses(cwnd);
        }
    }
    sent * PAYLOAD_BITS / (rounds as f64 * rtt_s)
}

fn losses(rows: &mut Vec<Row>) {
    let done = Done::of("loss");
    let rtt_s = 0.1;
    for (at, loss) in [("0.01 %", 1e-4), ("0.1 %", 1e-3), ("1 %", 1e-2_f64)] {
        let mathis = PAYLOAD_BITS / rtt_s * (1.5 / loss).sqrt();
        let reno = monte_carlo(&mut Reno, loss, rtt_s);
        let cubic = monte_carlo(&mut Cubic::default(), loss, rtt_s);
        for (case, law, theory, allowed) in [
            ("reno", "MSS / RTT sqrt(3 / 2p)", mathis, (0.93, 1.1)),
            ("reno", "Monte Carlo of its window", reno, (0.95, 1.05)),
            ("cubic", "Monte Carlo of RFC 9438", cubic, (0.92, 1.08)),
        ] {
            let (found, ci95) = done.mean(case, at, "bulk", Metric::Goodput);
            rows.push(Row {
                what: format!("{case}, {at} lost, 100 ms: goodput, Mbps"),
                law,
                theory: theory / 1e6,
                found: found / 1e6,
                ci95: ci95.map(|half| half / 1e6),
                allowed,
            });
        }
    }
}

fn buffers(rows: &mut Vec<Row>) {
    let done = Done::of("buffer");
    let bdp = 100e6 * 0.02 / FRAME_BITS;
    for (at, limit) in
        [("17 pkts", 17.0), ("41 pkts", 41.0), ("83 pkts", 83.0), ("165 pkts", 165.0_f64)]
    {
        // With the packet that is being sent.
        let b = (limit + 1.0) / bdp;
        let theory = 0.75 * (1.0 + b).powi(2) / (1.0 + b + b * b);
        let (found, ci95) = done.mean("reno", at, "switch-r", Metric::WindowUtilisation);
        rows.push(Row {
            what: format!("reno, buffer {at} of a BDP of {bdp:.0}: utilisation"),
            law: "3/4 (1 + b)^2 / (1 + b + b^2)",
            theory: theory.min(1.0),
            found,
            ci95,
            allowed: (0.97, 1.02),
        });
    }
}

fn fluid(rows: &mut Vec<Row>) {
    let (k, c_rtt) = (80.0, 10e9 * 500e-6 / FRAME_BITS);
    // What a second cut adds, and what an alpha that decays leaves out: notebook/dctcp-saw.md.
    let at_dequeue = "network.bottleneck.queue.mark_when=\"dequeue\"";
    let jitter = "network.return.jitter=\"3 us\"";
    for (set, words) in
        [(None, ""), (Some(at_dequeue), ", marks at dequeue"), (Some(jitter), ", 3 us of jitter")]
    {
        let done = Done::with("fluid", set.as_slice());
        let samples = done.series("series-queues.csv", ["link", "len_pkts"]);
        for (run, (case, flows)) in
            [("1 flow", 1.0_f64), ("2 flows", 2.0), ("4 flows", 4.0)].into_iter().enumerate()
        {
            let of_run = samples.iter().filter(|(number, at, [link, _])| {
                *number == run && *at > 0.3 && *link == "switch-r"
            });
            let of_run: Vec<(f64, f64)> =
                of_run.map(|(_, at, [_, len])| (*at, len.parse().unwrap())).collect();
            let (highest, lowest, period_s) = teeth(&of_run);
            let rtt_s = 500e-6 + (highest + lowest) / 2.0 * FRAME_BITS / 10e9;
            let held = c_rtt + k;
            let mut row = |what: &str, law, theory, found, allowed| {
                let what = format!("dctcp, {case}{words}: {what}");
                rows.push(Row { what, law, theory, found, ci95: None, allowed });
            };
            let height = (2.0 * flows * held).sqrt() / 2.0;
            let period = (2.0 * held / flows).sqrt() / 2.0;
            let is_plain = set.is_none();
            let allowed = if is_plain { (1.0, 1.5) } else { (0.6, 1.15) };
            if is_plain {
                row("longest queue, packets", "K + N", k + flows, highest, (0.98, 1.02));
            }
            row(
                "height of the saw, packets",
                "sqrt(2 N (C RTT + K)) / 2",
                height,
                highest - lowest,
                allowed,
            );
            if is_plain {
                let found = period_s / rtt_s;
                row(
                    "its length, round trips",
                    "sqrt(2 (C RTT + K) / N) / 2",
                    period,
                    found,
                    allowed,
                );
            }
        }
    }
}

/// Of the teeth of a saw: the mean of what is highest and lowest in each, and of their lengths.
fn teeth(samples: &[(f64, f64)]) -> (f64, f64, f64) {
    let all = samples.len() as f64;
    let mean = samples.iter().map(|(_, len)| len).sum::<f64>() / all;
    let spread = samples.iter().map(|(_, len)| (len - mean).abs()).sum::<f64>() / all;
    let (mut was_above, mut begins) = (false, Vec::new());
    for (i, (_, len)) in samples.iter().enumerate() {
        if *len > mean + spread / 2.0 {
            was_above = true;
        } else if was_above && *len < mean - spread / 2.0 {
            was_above = false;
            begins.push(i);
        }
    }
    let teeth: Vec<&[(f64, f64)]> =
        begins.windows(2).map(|pair| &samples[pair[0]..pair[1]]).collect();
    assert!(teeth.len() >= 10, "{} teeth", teeth.len());
    let of = |extreme: fn(f64, f64) -> f64, from: f64| {
        let each = teeth.iter().map(|tooth| tooth.iter().map(|(_, len)| *len).fold(from, extreme));
        each.sum::<f64>() / teeth.len() as f64
    };
    let took = samples[begins[begins.len() - 1]].0 - samples[begins[0]].0;
    (of(f64::max, 0.0), of(f64::min, f64::MAX), took / teeth.len() as f64)
}

fn bbr(rows: &mut Vec<Row>) {
    let done = Done::of("bbr");
    let bdp = 100e6 * 0.02 / FRAME_BITS;
    let mut cwnds: Vec<f64> = done
        .series("series-flows.csv", ["cwnd_pkts"])
        .iter()
        .filter(|(run, at, _)| *run < 4 && *at > 10.0)
        .map(|(_, _, [cwnd])| cwnd.parse().unwrap())
        .collect();
    cwnds.sort_by(f64::total_cmp);
    rows.push(Row {
        what: format!("bbr alone, BDP {bdp:.0}: cwnd, packets"),
        law: "2 BDP + 3 bursts of 8",
        theory: 2.0 * bdp + 24.0,
        found: cwnds[cwnds.len() / 2],
        ci95: None,
        allowed: (0.97, 1.03),
    });
    let (found, ci95) = done.mean("four", "", "switch-r", Metric::Queue);
    rows.push(Row {
        what: "bbr, four flows: queue, packets".into(),
        law: "1 BDP, held by cwnd alone",
        theory: bdp,
        found,
        ci95,
        allowed: (1.0, 1.5),
    });
}

/// The difference of two windows after losses of both.
fn aimd(rows: &mut Vec<Row>) {
    let done = Done::of("aimd");
    let mut windows: BTreeMap<u64, [f64; 2]> = BTreeMap::new();
    let mut is_open: BTreeMap<u64, bool> = BTreeMap::new();
    for (_, at, [traffic, cwnd, state]) in
        done.series("series-flows.csv", ["traffic", "cwnd_pkts", "ca_state"])
    {
        let ms = (at * 1000.0).round() as u64;
        windows.entry(ms).or_default()[usize::from(traffic == "second")] = cwnd.parse().unwrap();
        *is_open.entry(ms).or_insert(true) &= state == "0";
    }
    // From the second flow's first loss on: what is left when all are through with a loss.
    let (mut left, mut was_open) = (Vec::new(), true);
    for (ms, pair) in windows.range(10_000..) {
        let open = is_open[ms];
        if open && !was_open {
            left.push((pair[0] - pair[1]).abs());
        }
        was_open = open;
    }
    rows.push(Row {
        what: "reno, two flows: difference of cwnd after three losses more".into(),
        law: "1/8 of it",
        theory: left[0] / 8.0,
        found: left[3],
        ci95: None,
        allowed: (0.9, 1.1),
    });
}

fn slow_start(rows: &mut Vec<Row>) {
    let done = Done::of("slow-start");
    for (at, bytes) in [("14 kB", 14e3_f64), ("100 kB", 100e3), ("1 MB", 1e6)] {
        let packets = (bytes / 1448.0).ceil();
        // The first window leaves a round trip after the SYN and takes none: all delay is on the way back.
        let theory = 0.1 * (packets / 10.0 + 1.0).log2().ceil();
        let (found, ci95) = done.mean("reno", at, "short", Metric::Completion);
        rows.push(Row {
            what: format!("reno, {at}, 100 ms: completion, ms"),
            law: "RTT log2(packets / 10 + 1), rounded up",
            theory: theory * 1e3,
            found: found * 1e3,
            ci95,
            allowed: (0.999, 1.005),
        });
    }
}

#[test]
fn the_table_of_theory_is_as_the_page_has_it() {
    let mut rows = Vec::new();
    losses(&mut rows);
    buffers(&mut rows);
    fluid(&mut rows);
    bbr(&mut rows);
    aimd(&mut rows);
    slow_start(&mut rows);
    let mut table = String::from(
        "| | law | theory | simulator | ratio |\n| --- | --- | ---: | ---: | ---: |\n",
    );
    for row in &rows {
        let number = |value: f64| match value.abs() {
            x if x >= 100.0 => format!("{value:.1}"),
            x if x >= 10.0 => format!("{value:.2}"),
            _ => format!("{value:.3}"),
        };
        let half = row.ci95.filter(|half| *half > 0.0);
        let half = half.map_or_else(String::new, |half| format!(" ± {}", number(half)));
        let _ = writeln!(
            table,
            "| {} | {} | {} | {}{half} | {:.3} |",
            row.what,
            row.law,
            number(row.theory),
            number(row.found),
            row.ratio()
        );
    }
    let far: Vec<&str> =
        rows.iter().filter(|row| !row.holds()).map(|row| row.what.as_str()).collect();
    assert!(far.is_empty(), "not as the law has it: {far:?}\n{table}");
    let page = format!("{}/../../docs/theory.md", env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(page).unwrap_or_default();
    assert!(page.contains(&table), "docs/theory.md must have this table:\n\n{table}");
}
