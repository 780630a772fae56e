//! What the runs of an experiment take, before they begin.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use knee_evidence::reproduce::packets;
use knee_run::{BackEnd as _, Budget, Error, Room, RunOptions};
use knee_scenario::{Experiment, Overrides};
use knee_sim::Simulator;
use knee_sweep::machine;
use pyo3::prelude::*;
use serde_json::{Value as Json, json};

use crate::failure::Failure;

/// Rows that are looked at. The others are taken to be like these.
const MOST_ROWS: usize = 64;

/// Between two looks at signals.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// A run from which the speed of this machine is learned: some 17,000 packets.
const TRIAL: &str = r#"
    cc = ["dctcp"]
    network = { topology = "many-to-one", senders = 4, access = { rate = "10 Gbps", delay = "20 us" }, bottleneck = { rate = "10 Gbps", queue = { kind = "step", limit = "500 pkts", k = "65 pkts" } } }
    traffic = [{ name = "bulk", kind = "bulk", from = "s1..s4", to = "r" }]
    run = { duration = "20 ms" }
"#;

/// CPU seconds per packet of this machine, learned once.
fn per_packet_s() -> Result<f64, Failure> {
    static KNOWN: OnceLock<f64> = OnceLock::new();
    if let Some(known) = KNOWN.get() {
        return Ok(*known);
    }
    let trial = Experiment::parse(Path::new("trial.toml"), TRIAL, &Overrides::default())?;
    let (run, stop) = (trial.run(trial.run_id(0))?, AtomicBool::new(false));
    let before_s = machine::thread_cpu_seconds();
    let ran = Simulator.run(&run, &RunOptions::outcome(&stop)).map_err(Failure::says)?;
    let per_packet =
        (machine::thread_cpu_seconds() - before_s) / ran.outcome.work.data_pkts.max(1) as f64;
    Ok(*KNOWN.get_or_init(|| per_packet))
}

/// Runs, packets, CPU time and memory, as JSON. CPU time comes from the beginning of the first run, at most so many seconds of it. If
/// that does not end, and runs end when their transfers do, packets tell more than the time that it reaches.
pub(crate) fn cost(one: &Arc<Experiment>, trial_s: f64) -> Result<String, Failure> {
    let rows = one.rows();
    let mut of_rows = Vec::new();
    for row in looked_at(rows) {
        Python::attach(|py| py.check_signals())?;
        of_rows.push(packets(&one.run(one.run_id(row * one.repeat as usize))?));
    }
    let mean = of_rows.iter().sum::<f64>() / of_rows.len() as f64;
    let packets = mean * one.runs() as f64;
    let cpu_s = match cpu_of_first(one, trial_s)? {
        Some(first) => {
            let by_time = first.cpu_s / of_rows[0] * packets;
            let is_bound = !first.is_whole && first.ends_early;
            Some(if is_bound { by_time.min(per_packet_s()? * packets) } else { by_time })
        }
        None => None,
    };
    let cost = json!({
        "runs": one.runs(),
        "rows": rows,
        "packets": packets.round(),
        "cpu_s": cpu_s.map_or(Json::Null, Json::from),
        "sample_bytes": one.memory.bytes,
        "most_bytes": one.most_bytes(),
    });
    Ok(cost.to_string())
}

/// Rows that stand for all, the first among them. Equal steps would meet some values of a key only: each key's values come again after
/// some rows.
fn looked_at(rows: usize) -> impl Iterator<Item = usize> {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    let place = move |number: usize| match rows <= MOST_ROWS {
        true => number,
        false => ((number as f64 * GOLDEN).fract() * rows as f64) as usize,
    };
    (0..rows.min(MOST_ROWS)).map(place)
}

/// The first run.
struct First {
    cpu_s: f64,
    /// Whether all of it was carried out.
    is_whole: bool,
    /// Whether it ends when its transfers do.
    ends_early: bool,
}

/// CPU time of the first run: of all of it if it ends in time, otherwise by the share of its duration that it reaches. None: it did not
/// begin.
fn cpu_of_first(one: &Arc<Experiment>, trial_s: f64) -> Result<Option<First>, Failure> {
    let run = one.run(one.run_id(0))?;
    let (stop, reached) = (AtomicBool::new(false), AtomicU64::new(0));
    let most = Duration::try_from_secs_f64(trial_s).map_err(Failure::says)?;
    if most.is_zero() {
        return Ok(None);
    }
    let free = machine::memory_for_runs_bytes();
    let room = Room::new(usize::try_from(free).unwrap_or(usize::MAX));
    let most_bytes = usize::try_from(one.most_bytes()).unwrap_or(usize::MAX);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let trial = scope.spawn(|| {
            let budget = Budget::new(most_bytes, &room);
            let ask = RunOptions {
                budget: Some(&budget),
                reached: Some(&reached),
                ..RunOptions::outcome(&stop)
            };
            // The result goes here, while the budget counts it.
            let ran = Simulator.run(&run, &ask).map(drop);
            (ran, machine::thread_cpu_seconds())
        });
        let (mut raised, mut looked) = (None, begun);
        while raised.is_none() && !trial.is_finished() && begun.elapsed() < most {
            std::thread::sleep(Duration::from_millis(1));
            if looked.elapsed() >= BETWEEN_LOOKS {
                raised = Python::attach(|py| py.check_signals()).err();
                looked = Instant::now();
            }
        }
        // Where it is now, and not what it notes when it has seen that it is stopped, some ms of its time later.
        let share = reached.load(Ordering::Relaxed) as f64 / run.end.ps() as f64;
        stop.store(true, Ordering::Relaxed);
        let joined = trial.join();
        if let Some(raised) = raised {
            return Err(raised.into());
        }
        let Ok((ran, taken_s)) = joined else {
            return Err(Failure::says("exp.cost: the trial panicked: this is a bug"));
        };
        if let Err(why @ Error::Memory { .. }) = ran {
            return Err(Failure::says(format!("exp.cost: the first run {why}")));
        }
        let is_whole = ran.is_ok();
        let cpu_s = match is_whole {
            true => Some(taken_s),
            false if share > 0.0 => Some(taken_s / share),
            false => None,
        };
        Ok(cpu_s.map(|cpu_s| First { cpu_s, is_whole, ends_early: run.until_done }))
    })
}
