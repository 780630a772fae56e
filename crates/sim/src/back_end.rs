//! The simulator as a back end.

use crate::exchange::simulate_on_up_to;
use crate::stop::Stop;
use crate::{captures, recording};
use knee_run::support::On;
use knee_run::{BackEnd, Capabilities, Error, Run, RunOptions, RunResult};

/// Version of what the simulator computes. It grows when the same run has other results: stored runs of another version are not
/// taken for this one's.
pub const BEHAVIOUR: u32 = 5;

/// The simulator.
#[derive(Clone, Copy, Debug, Default)]
pub struct Simulator;

impl BackEnd for Simulator {
    fn name(&self) -> &'static str {
        On::Sim.name()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            is_model: true,
            captures: true,
            recordings: true,
            behaviour: BEHAVIOUR,
            ..Capabilities::default()
        }
    }

    /// Checks before a sweep begins, so that one impossible run stops the sweep early.
    fn check(&self, run: &Run) -> Result<(), Error> {
        let ends = run.flows.iter().flat_map(|flow| [Some(&flow.cc), flow.peer_cc.as_ref()]);
        let mut names = ends.flatten().map(|cc| cc.algorithm).filter(|it| it.is_elsewhere());
        names.next().map_or(Ok(()), |algorithm| {
            let why = knee_algo::Error::Elsewhere(algorithm.name());
            Err(Error::Refused(why.to_string()))
        })
    }

    fn run(&self, run: &Run, ask: &RunOptions<'_>) -> Result<RunResult, Error> {
        ask.check(self)?;
        let run = (run, Stop::of(ask));
        let outcome = match (ask.captures, &ask.recording) {
            (_, Some(wanted)) => recording::simulate(run, wanted),
            (Some(dir), None) => captures::simulate_until(run, dir),
            (None, None) => simulate_on_up_to(run, ask.threads),
        };
        outcome.map(RunResult::from)
    }
}
