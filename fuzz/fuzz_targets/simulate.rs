//! Any text as an experiment file that is run: its runs are made short, then simulated, measured and written; what was written is
//! compared and reported. No packet, byte or microsecond is lost on the way.
#![no_main]

use std::path::Path;
use std::sync::Arc;

use knee_evidence::compare::{self, Side, compare};
use knee_evidence::difference::Verdict;
use knee_fuzz::{check_message, empty_dir};
use knee_run::spec::Traffic;
use knee_run::{BackEnd, Capabilities, Error, Outcome, Run, RunOptions, RunResult};
use knee_scenario::{Experiment, Overrides};
use knee_sim::Simulator;
use knee_sweep::results::Results;
use knee_sweep::runner::sweep;
use knee_sweep::runs::Options;
use libfuzzer_sys::Corpus;

/// Packets that links may carry in all, so that a case takes milliseconds.
const MOST_HOPS: u64 = 20_000;
const PACKET_BITS: u64 = 12_000;
/// What links without a rate count as.
const FAST_BPS: u64 = 100_000_000_000;
const MOST_RUNS: usize = 6;
const MOST_FLOWS: usize = 100;
const MOST_NODES: usize = 50;

/// The simulator, whose outcomes are looked at.
#[derive(Debug)]
struct Watched;

impl BackEnd for Watched {
    fn name(&self) -> &'static str {
        Simulator.name()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { threads: Some(1), ..Simulator.capabilities() }
    }

    fn run(&self, run: &Run, ask: &RunOptions<'_>) -> Result<RunResult, Error> {
        let ran = Simulator.run(run, ask)?;
        check(run, &ran.outcome);
        Ok(ran)
    }
}

fn check(run: &Run, outcome: &Outcome) {
    assert!(outcome.end <= run.end, "{:?} is behind the end, {:?}", outcome.end, run.end);
    assert_eq!(outcome.flows.len(), run.flows.len());
    for (flow, told) in run.flows.iter().zip(&outcome.flows) {
        if let Traffic::Bulk { bytes: Some(bytes) } = flow.traffic {
            assert!(told.received_bytes <= bytes, "{told:?} of {bytes} bytes");
            assert!(
                told.done_at.is_none() || told.received_bytes == bytes,
                "{told:?} of {bytes} bytes"
            );
        }
        assert!(told.done_at.is_none_or(|at| at <= outcome.end && at >= flow.start), "{told:?}");
        assert!(told.cwnd_pkts >= 1);
    }
    for queue in &outcome.queues {
        let gone = queue.sent_pkts + queue.dropped_pkts();
        // Parts do not count what is offered.
        assert!(queue.part.is_some() || gone <= queue.offered_pkts, "{queue:?}");
        assert!(queue.marked_pkts <= gone + queue.offered_pkts, "{queue:?}");
    }
    assert!(outcome.rpcs.iter().all(|rpc| rpc.start + rpc.latency <= outcome.end));
}

/// How long the runs may be, in us; none where they would be too large however short they are.
fn most_us(run: &Run) -> Option<u64> {
    let network = &run.network;
    if run.flows.len() > MOST_FLOWS || run.pings.len() > 10 || network.nodes.len() > MOST_NODES {
        return None;
    }
    let rates = network.links.iter().map(|link| link.rate.map_or(FAST_BPS, |rate| rate.bps()));
    let bps = rates.fold(1, u64::saturating_add);
    let us = u128::from(MOST_HOPS * PACKET_BITS) * 1_000_000 / u128::from(bps);
    // Timers and samples go on where nothing moves.
    Some(us.clamp(1, 10_000_000) as u64)
}

/// The experiment with runs of a length that fits; none if it is refused or has too many of them.
fn short(text: &str) -> Result<Option<Experiment>, knee_scenario::Error> {
    let parse = |set: Vec<String>| {
        let overrides = Overrides { set, repeat: Some(2), ..Overrides::default() };
        Experiment::parse(Path::new("x.toml"), text, &overrides)
    };
    let experiment = parse(Vec::new())?;
    if experiment.runs() > MOST_RUNS {
        return Ok(None);
    }
    let mut shortest_us = u64::MAX;
    let mut is_long = false;
    for index in 0..experiment.runs() {
        let run = experiment.run(experiment.run_id(index))?;
        let Some(most_us) = most_us(&run) else { return Ok(None) };
        shortest_us = shortest_us.min(most_us);
        is_long |= run.end.us() > most_us;
    }
    match is_long {
        true => parse(vec![format!("run.duration = \"{shortest_us} us\"")]).map(Some),
        false => Ok(Some(experiment)),
    }
}

fn run(experiment: Experiment) -> Result<(), knee_scenario::Error> {
    let experiment = Arc::new(experiment);
    let dir = empty_dir().join("results");
    let mut results = Results::at(&dir)?;
    let options = Options { threads: 1, ..Options::new(Arc::new(Watched)) };
    let swept = sweep(&experiment, &options, &mut results, &mut |_| ())?;
    results.finish(&experiment, &swept, &knee_evidence::judge::claims(&experiment, &swept))?;
    let side = || Side::read(&dir).expect("what was written can be read");
    match compare(side(), side(), compare::Options::default()) {
        Ok(same) => assert_eq!(same.count(Verdict::Differs), 0, "from itself"),
        Err(error) => check_message(&error.to_string()),
    }
    knee_report::write(&dir, &dir.join("report.html")).expect("what was written can be shown");
    Ok(())
}

knee_fuzz::target!(|text: &str| -> Corpus {
    match short(text) {
        Ok(None) => return Corpus::Reject,
        Ok(Some(experiment)) => {
            if let Err(error) = run(experiment) {
                check_message(&error.to_string());
            }
        }
        Err(error) => check_message(&error.to_string()),
    }
    Corpus::Keep
});
