//! What runs are carried out by.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use knee_run::Outcome;
use knee_run::outcome::Validity;
use knee_run::spec::Run;

/// Name of the simulator among back ends.
pub const SIMULATOR: &str = "sim";

/// What turns runs into outcomes: the simulator, or a lab of real TCP.
pub trait BackEnd: Send + Sync + std::fmt::Debug {
    /// As `--on` calls it.
    fn name(&self) -> &'static str;

    /// Runs that may go on at once; `None`: one per core.
    fn threads(&self) -> Option<usize>;

    /// Says of a run whether it can be carried out, without doing so: all of a sweep are asked about before the first begins.
    ///
    /// # Errors
    /// Why it cannot, in one sentence that names the key.
    fn check(&self, run: &Run) -> Result<(), String> {
        let _ = run;
        Ok(())
    }

    /// In what a run here is not what the simulator's is, each in a sentence.
    fn differences(&self, run: &Run) -> Vec<String> {
        let _ = run;
        Vec::new()
    }

    /// Carries out one run, up to the end or until `stop` is set: then what came of it does not count.
    ///
    /// # Errors
    /// Why it cannot, in one sentence.
    fn run(&self, run: &Run, stop: &AtomicBool) -> Result<Ran, String>;

    /// As [`BackEnd::run`], and writes what each host sends and receives to `HOST.pcapng` ([`knee_wire::host`]) in a
    /// directory that is there for this alone.
    ///
    /// # Errors
    /// Why it cannot, in one sentence.
    fn run_captured(&self, run: &Run, stop: &AtomicBool, dir: &Path) -> Result<Ran, String> {
        let _ = (run, stop, dir);
        Err(format!(
            "--on {} writes no captures: leave --pcap out, or use --on sim or --on lab",
            self.name()
        ))
    }

    /// Ends what it holds beyond its runs: the last of them is over, or was stopped.
    fn leave(&self) {}

    /// What a manifest says of it: kernel, offloads, sysctls, processor.
    fn about(&self) -> serde_json::Map<String, serde_json::Value> {
        serde_json::Map::new()
    }
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Its records.
    pub outcome: Outcome,
    /// Whether the host let it be what it should be; `None`: no host has a part in it.
    pub validity: Option<Validity>,
}
