//! One run: paths, times of flows alone, simulations of each link, and their sums.

use std::sync::atomic::AtomicBool;

use knee_queue::time::{Duration, Time};
use knee_run::outcome::{FlowOutcome, Outcome, Work};
use knee_run::spec::{Flow, Run};
use knee_run::{Error, validate};

use crate::known::{AloneTimes, FlowClasses, Known, bytes};
use crate::links::{Links, Round, UNFINISHED};
use crate::paths::Paths;
use crate::refuse;

/// Options of an approximate run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Threads; 0 means one per core. Results do not depend on it.
    pub threads: usize,
}

/// What an approximate run took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// Links that carry flows.
    pub links: usize,
    /// Links on which no two flows meet; they need no simulation.
    pub quiet: usize,
    /// Simulations of links in the first round.
    pub simulated: usize,
    /// Simulations of links in the second round: those with flows that other links hold up.
    pub simulated_again: usize,
    /// Simulations of a flow alone.
    pub alone: usize,
    /// Time of its parts on this machine: paths, flows alone, links.
    pub wall: [std::time::Duration; 3],
}

/// Approximates a run.
///
/// # Errors
/// [`Error::Refused`] for what it does not know; errors of the simulator.
pub fn approximate(
    run: &Run,
    options: Options,
    stop: &AtomicBool,
) -> Result<(Outcome, Effort), Error> {
    validate(run)?;
    refuse::check(run)?;
    let threads = match options.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let mut effort = Effort::default();
    let started = std::time::Instant::now();
    let paths = Paths::new(run)?;
    let flows = FlowClasses::new(run, &paths);
    effort.wall[0] = started.elapsed();
    let started = std::time::Instant::now();
    let mut work = Work::default();
    let alone = AloneTimes::new(run, &paths, &flows, (threads, stop))?;
    effort.alone = alone.simulated;
    effort.wall[1] = started.elapsed();
    let started = std::time::Instant::now();
    let known = Known { run, paths: &paths, flows: &flows, alone: &alone };
    let links = Links::new(known);
    let first = links.first(threads, stop)?;
    let second = links.second(&first, threads, stop)?;
    effort.links = links.count();
    effort.quiet = effort.links - first.simulated;
    (effort.simulated, effort.simulated_again) = (first.simulated, second.simulated);
    for round in [&first, &second] {
        work.events += round.work.events;
        work.data_pkts += round.work.data_pkts;
        work.pkt_hops += round.work.pkt_hops;
    }
    let outcomes = (0..run.flows.len()).map(|index| {
        let flow = &run.flows[index];
        let alone_ps = alone.whole(&flows, index, bytes(flow));
        outcome(run, flow, alone_ps, delay(known, index, &first, &second))
    });
    let mut flows: Vec<FlowOutcome> = outcomes.collect();
    let module_lines = links.said(&second).finish(&mut flows, run.end);
    effort.wall[2] = started.elapsed();
    let last =
        flows.iter().map(|flow| flow.done_at).try_fold(Time::ZERO, |last, at| Some(last.max(at?)));
    let end = last.filter(|_| run.until_done).unwrap_or(run.end);
    let outcome =
        Outcome { end, flows, work, module_lines, completions_only: true, ..Outcome::default() };
    Ok((outcome, effort))
}

fn outcome(run: &Run, flow: &Flow, alone_ps: u64, extra: Option<i64>) -> FlowOutcome {
    let connected_at = Some(flow.start).filter(|start| *start < run.end);
    let took = extra.map(|extra| Duration::from_ps(alone_ps.saturating_add_signed(extra)));
    let done_at = took.map(|took| flow.start + took).filter(|at| *at <= run.end);
    let algorithm = flow.cc.algorithm.name();
    FlowOutcome {
        connected_at,
        done_at: done_at.filter(|_| connected_at.is_some()),
        algorithm,
        ..FlowOutcome::default()
    }
}

/// Returns how much longer a flow takes than alone, ps. `None`: it does not complete.
///
/// A flow is paced at all links but its bottleneck, as slowly as the bottleneck was in the first round. So at the others only
/// what goes beyond that time counts. Without a bottleneck, every link adds what it costs. The SYN-ACK waits on the way back.
fn delay(known: Known<'_>, flow: usize, first: &Round, second: &Round) -> Option<i64> {
    let paced = first
        .bottleneck(known, flow)
        .map(|(bottleneck, took_ps)| (bottleneck, took_ps.max(second.time_ps(flow, bottleneck))));
    let mut sum_ps = i128::from(second.wait_back_ps(known, flow));
    for position in 0..known.paths.there(flow).len() {
        let took_ps = Some(second.time_ps(flow, position)).filter(|took| *took < UNFINISHED)?;
        let alone_ps = known.alone_ps(flow, position);
        sum_ps += match paced {
            Some((bottleneck, paced_ps)) if bottleneck != position => {
                took_ps.saturating_sub(alone_ps.max(paced_ps)).into()
            }
            _ => i128::from(took_ps) - i128::from(alone_ps),
        };
    }
    i64::try_from(sum_ps).ok()
}
