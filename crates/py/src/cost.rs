//! What the runs of an experiment take, before they begin.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use knee_evidence::reproduce::packets;
use knee_run::{BackEnd as _, RunOptions};
use knee_scenario::Experiment;
use knee_sim::Simulator;
use serde_json::{Value as Json, json};

use crate::failure::Failure;

/// Rows that are looked at. The others are taken to be like these.
const MOST_ROWS: usize = 64;

/// Runs, packets, CPU time and memory, as JSON. CPU time comes from the beginning of the first run, at most so many seconds of it.
pub(crate) fn cost(one: &Arc<Experiment>, trial_s: f64) -> Result<String, Failure> {
    let rows = one.configurations.len();
    let step = rows.div_ceil(MOST_ROWS);
    let mut of_rows = Vec::new();
    for row in (0..rows).step_by(step) {
        of_rows.push(packets(&one.run(one.run_id(row * one.repeat as usize))?));
    }
    let mean = of_rows.iter().sum::<f64>() / of_rows.len() as f64;
    let cpu_s = cpu_of_first(one, trial_s)?.map(|first| first / of_rows[0] * mean * one.runs() as f64);
    let cost = json!({
        "runs": one.runs(),
        "rows": rows,
        "packets": (mean * one.runs() as f64).round(),
        "cpu_s": cpu_s.map_or(Json::Null, Json::from),
        "sample_bytes": one.memory.bytes,
        "most_bytes": one.most_bytes(),
    });
    Ok(cost.to_string())
}

/// CPU seconds of the first run: of all of it if it ends in time, otherwise by the share of its time that it reaches. A run that ends
/// when its transfers do takes less. None: it did not begin.
fn cpu_of_first(one: &Arc<Experiment>, trial_s: f64) -> Result<Option<f64>, Failure> {
    let run = one.run(one.run_id(0))?;
    let (stop, reached) = (AtomicBool::new(false), AtomicU64::new(0));
    let most = Duration::try_from_secs_f64(trial_s).unwrap_or_default();
    if most.is_zero() {
        return Ok(None);
    }
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let trial = scope.spawn(|| {
            let ask = RunOptions { reached: Some(&reached), ..RunOptions::outcome(&stop) };
            let ran = Simulator.run(&run, &ask);
            (ran.is_ok(), begun.elapsed().as_secs_f64())
        });
        while !trial.is_finished() && begun.elapsed() < most {
            std::thread::sleep(Duration::from_millis(1));
        }
        // Where it is now, and not what it has come to when it has seen that it is stopped.
        let (share, taken) = (
            reached.load(Ordering::Relaxed) as f64 / run.end.ps() as f64,
            begun.elapsed().as_secs_f64(),
        );
        stop.store(true, Ordering::Relaxed);
        let (is_whole, all) = trial.join().unwrap_or_default();
        Ok(match is_whole {
            true => Some(all),
            false if share > 0.0 => Some(taken / share),
            false => None,
        })
    })
}
