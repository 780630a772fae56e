//! What carries runs out.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};

use serde_json::{Map, Value};

use crate::outcome::{Outcome, Validity};
use crate::{Budget, Error, Run};

/// Turns runs into outcomes: the simulator or a real TCP.
pub trait BackEnd: Send + Sync + std::fmt::Debug {
    /// As `--on` calls it.
    fn name(&self) -> &'static str;

    /// Capabilities that a caller must know.
    fn capabilities(&self) -> Capabilities;

    /// Says of a run that [`validate`](crate::validate) takes whether it can be carried out here, without doing so: all of a sweep
    /// are asked about before the first begins.
    ///
    /// # Errors
    /// [`Error::Refused`], with the key; [`Error::Failed`] if there is not what it needs.
    fn check(&self, run: &Run) -> Result<(), Error> {
        let _ = run;
        Ok(())
    }

    /// In what a run here is not what the simulator's is, each in a sentence.
    fn differences(&self, run: &Run) -> Vec<String> {
        let _ = run;
        Vec::new()
    }

    /// Carries out one run.
    ///
    /// # Errors
    /// Why it cannot; [`Error::Stopped`] if it was stopped before its end.
    fn run(&self, run: &Run, ask: &RunOptions<'_>) -> Result<RunResult, Error>;

    /// Ends what it holds beyond its runs: the last of them is over, or was stopped.
    fn leave(&self) {}

    /// Description for the manifest: kernel, offloads, sysctls, processor.
    fn about(&self) -> Map<String, Value> {
        Map::new()
    }
}

/// Capabilities of a back end.
#[derive(Clone, Debug, Default)]
pub struct Capabilities {
    /// Runs that may go on at once; `None`: one per core.
    pub threads: Option<usize>,
    /// Its TCP is a model, not a kernel's. Every published file must run on it, and golden files hold its results.
    pub is_model: bool,
    /// A machine's own time is in it, and the machine may be what limits a run or what a run fails of.
    pub has_host: bool,
    /// It writes [`RunOptions::captures`].
    pub captures: bool,
    /// It writes [`RunOptions::recording`].
    pub recordings: bool,
    pub linux: Linux,
    /// Version of what it computes: a run of another version may have other results.
    pub behaviour: u32,
}

/// Linux version of a back end's hosts.
#[derive(Clone, Debug, Default)]
pub enum Linux {
    /// The version that the experiment gives.
    #[default]
    FromExperiment,
    /// The running kernel.
    Running,
    /// This version, as 6.12.
    Version(String),
}

/// Options of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions<'a> {
    /// Once it is set nobody waits for the run, and what came of it does not count.
    pub stop: &'a AtomicBool,
    /// Directory for captures: a file `HOST.pcapng` with the packets of each host. It holds nothing else.
    pub captures: Option<&'a Path>,
    /// Calls of an algorithm are recorded; not together with captures.
    pub recording: Option<Recording<'a>>,
    /// The run ends with [`Error::Memory`] if it exceeds this, on a back end that checks it. `None`: no limit.
    pub budget: Option<&'a Budget>,
    /// Threads that the run may use, at least 1. Its result does not depend on them.
    pub threads: usize,
    /// Where a back end notes now and then how far the run has come, picoseconds of its own time. One that cannot tell leaves it.
    pub reached: Option<&'a AtomicU64>,
}

impl<'a> RunOptions<'a> {
    /// The outcome alone.
    pub fn outcome(stop: &'a AtomicBool) -> RunOptions<'a> {
        RunOptions {
            stop,
            captures: None,
            recording: None,
            budget: None,
            threads: 1,
            reached: None,
        }
    }

    /// Refuses files that a back end does not write.
    ///
    /// # Errors
    /// [`Error::Refused`], with the way out.
    pub fn check(&self, of: &dyn BackEnd) -> Result<(), Error> {
        let (name, can) = (of.name(), of.capabilities());
        let refuse = |what: &str| Err(Error::Refused(format!("--on {name} {what}")));
        match (self.captures, &self.recording) {
            (Some(_), _) if !can.captures => refuse("writes no captures: leave them out"),
            (_, Some(_)) if !can.recordings => refuse("records no calls: use --on sim"),
            (Some(_), Some(_)) => refuse("writes captures or a recording, not both: leave one out"),
            _ => Ok(()),
        }
    }
}

/// A flight recording of the algorithm of some connections.
#[derive(Clone, Copy, Debug)]
pub struct Recording<'a> {
    /// [`Flow::group`](crate::spec::Flow::group) of the connections; the run has some, all under one algorithm.
    pub group: u32,
    /// The file to make.
    pub path: &'a Path,
    /// Description of the recording.
    pub about: &'a str,
}

/// Result of a run.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// Records of the run.
    pub outcome: Outcome,
    /// Whether the host let it be what it should be; `None`: no host has a part in it.
    pub validity: Option<Validity>,
}

impl From<Outcome> for RunResult {
    /// A valid run: no host can limit it.
    fn from(outcome: Outcome) -> RunResult {
        RunResult { outcome, validity: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that writes captures and recordings, or does not.
    #[derive(Debug)]
    struct Writes(bool, bool);

    impl BackEnd for Writes {
        fn name(&self) -> &'static str {
            "paper"
        }

        fn capabilities(&self) -> Capabilities {
            Capabilities { captures: self.0, recordings: self.1, ..Capabilities::default() }
        }

        fn run(&self, _: &Run, _: &RunOptions<'_>) -> Result<RunResult, Error> {
            Err(Error::Stopped)
        }
    }

    #[test]
    fn files_that_a_back_end_does_not_write_are_refused() {
        let (stop, path) = (AtomicBool::new(false), Path::new("somewhere"));
        let refused = |back_end: Writes, captures: bool, recording: bool| {
            let ask = RunOptions {
                captures: captures.then_some(path),
                recording: recording.then_some(Recording { group: 0, path, about: "" }),
                ..RunOptions::outcome(&stop)
            };
            ask.check(&back_end).err().map(|why| why.to_string())
        };
        let refusal = |what: &str| Some(format!("--on paper {what}"));
        assert_eq!(refused(Writes(false, false), false, false), None);
        assert_eq!(refused(Writes(true, true), true, false), None);
        assert_eq!(refused(Writes(true, true), false, true), None);
        let captures = refusal("writes no captures: leave them out");
        assert_eq!(refused(Writes(false, true), true, false), captures);
        let recording = refusal("records no calls: use --on sim");
        assert_eq!(refused(Writes(true, false), false, true), recording);
        let both = refusal("writes captures or a recording, not both: leave one out");
        assert_eq!(refused(Writes(true, true), true, true), both);
    }
}
