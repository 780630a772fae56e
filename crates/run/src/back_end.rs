//! What carries runs out.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use serde_json::{Map, Value};

use crate::outcome::{Outcome, Validity};
use crate::{Error, Run, validate};

/// What turns runs into outcomes: the simulator, or somebody's real TCP.
pub trait BackEnd: Send + Sync + std::fmt::Debug {
    /// As `--on` calls it.
    fn name(&self) -> &'static str;

    /// What whoever asks for runs has to know of it.
    fn capabilities(&self) -> Capabilities;

    /// Says of a run whether it can be carried out, without doing so: all of a sweep are asked about before the first begins.
    ///
    /// # Errors
    /// [`Error::Refused`], with the key; [`Error::Failed`] if there is not what it needs.
    fn check(&self, run: &Run) -> Result<(), Error> {
        validate(run)
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
    fn run(&self, run: &Run, ask: &Ask<'_>) -> Result<Ran, Error>;

    /// Ends what it holds beyond its runs: the last of them is over, or was stopped.
    fn leave(&self) {}

    /// What a manifest says of it: kernel, offloads, sysctls, processor.
    fn about(&self) -> Map<String, Value> {
        Map::new()
    }
}

/// What a back end is and can.
#[derive(Clone, Debug, Default)]
pub struct Capabilities {
    /// Runs that may go on at once; `None`: one per core.
    pub threads: Option<usize>,
    /// Its TCP is a model and no kernel's: every published file must run on it, and what is blessed is what it says.
    pub is_model: bool,
    /// A machine's own time is in it, and the machine may be what limits a run or what a run fails of.
    pub has_host: bool,
    /// It writes [`Ask::captures`].
    pub captures: bool,
    /// It writes [`Ask::recording`].
    pub recordings: bool,
    /// The Linux that its hosts are.
    pub linux: Linux,
}

/// Which Linux the hosts of a back end are.
#[derive(Clone, Debug, Default)]
pub enum Linux {
    /// What experiments ask for.
    #[default]
    AsAsked,
    /// The running kernel.
    Running,
    /// This version, as 6.12.
    Version(String),
}

/// What is asked for with a run.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// Once it is set nobody waits for the run, and what came of it does not count.
    pub stop: &'a AtomicBool,
    /// What each host sends and receives is written to a file `HOST.pcapng` in this directory, which is there for this alone.
    pub captures: Option<&'a Path>,
    /// Calls of an algorithm are recorded; not together with captures.
    pub recording: Option<Recording<'a>>,
}

impl<'a> Ask<'a> {
    /// The outcome alone.
    pub fn outcome(stop: &'a AtomicBool) -> Ask<'a> {
        Ask { stop, captures: None, recording: None }
    }
}

/// A flight recording of the algorithm of some connections.
#[derive(Clone, Copy, Debug)]
pub struct Recording<'a> {
    /// [`Flow::group`](crate::spec::Flow::group) of the connections; the run has some, all under one algorithm.
    pub group: u32,
    /// The file to make.
    pub path: &'a Path,
    /// What it says of itself.
    pub about: &'a str,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Its records.
    pub outcome: Outcome,
    /// Whether the host let it be what it should be; `None`: no host has a part in it.
    pub validity: Option<Validity>,
}

impl From<Outcome> for Ran {
    /// Of a run that no host has a part in.
    fn from(outcome: Outcome) -> Ran {
        Ran { outcome, validity: None }
    }
}
