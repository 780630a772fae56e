//! Any bytes as the Chakra execution traces of two ranks, the second behind a line `%%%`: accepted and laid out as a run, or refused in
//! one line.
#![no_main]

use std::fs;

use knee_fuzz::{check_message, empty_dir, reached};
use knee_scenario::{Experiment, Overrides};

const EXPERIMENT: &str = r#"question = "?"
cc = ["cubic"]
[network]
topology = "star"
hosts = 2
up = { rate = "1 Gbps", delay = "1 us" }
down = { rate = "1 Gbps", delay = "1 us", queue = { kind = "droptail", limit = "100 pkts" } }
[run]
duration = "10 ms"
[[traffic]]
name = "a"
kind = "chakra"
trace = "t"
hosts = "h1..h2"
"#;

knee_fuzz::target!(|bytes: &[u8]| {
    const BETWEEN: &[u8] = b"\n%%%\n";
    let dir = empty_dir();
    let at = bytes.windows(BETWEEN.len()).position(|part| part == BETWEEN);
    let (first, second) = match at {
        Some(at) => (&bytes[..at], &bytes[at + BETWEEN.len()..]),
        None => (bytes, bytes),
    };
    for (rank, bytes) in [first, second].into_iter().enumerate() {
        fs::write(dir.join(format!("t.{rank}.et")), bytes).expect("a temporary file");
    }
    match Experiment::parse(&dir.join("x.toml"), EXPERIMENT, &Overrides::default()) {
        Ok(experiment) => {
            reached("accepted");
            let run = experiment
                .run(experiment.run_id(0))
                .expect("a trace that was accepted gives a run");
            let tasks = &run.schedule.tasks;
            let is_behind = |(task, index): (&knee_run::spec::Task, u32)| {
                task.after.iter().all(|before| *before < index)
            };
            assert!(tasks.iter().zip(0..).all(is_behind), "a task waits for a later one");
        }
        Err(error) => check_message(&error.to_string()),
    }
});
