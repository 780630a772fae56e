//! The name of a run: equal for runs that compute the same, whatever file and row they come from.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use knee_queue::{NotEctAbove, QueueConfig, Threshold};
use knee_run::BackEnd;
use knee_run::spec::{Cc, Run};
use knee_scenario::error::Error;
use knee_scenario::experiment::Experiment;
use knee_scenario::inside::diagnostics;
use knee_scenario::scenario::Scenario;
use sha2::{Digest as _, Sha256};

/// Hash of a resolved run with its seed, of what its results tell, of its back end and the version of that back end's behaviour.
///
/// Values are those that the back end gets, so "1 Gbps" and "1000 Mbps" give one name, and a changed size file gives another. So
/// do thresholds of a simulated run in which no packet can be marked: CUBIC without ECN is the same at each K.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunName([u8; RunName::BYTES]);

impl RunName {
    /// Size of a name, bytes.
    pub const BYTES: usize = 16;

    /// Returns the name of a run of an experiment, of a row with this scenario.
    pub fn of(
        experiment: &Experiment,
        scenario: &Scenario,
        run: &Run,
        back_end: &dyn BackEnd,
    ) -> RunName {
        let mut hash = Hashed(Sha256::new());
        let behaviour = back_end.capabilities().behaviour;
        // Writing into a hash does not fail.
        let _ = writeln!(hash, "{} {behaviour}", back_end.name());
        let _ = match has_idle_thresholds(run) && back_end.capabilities().is_model {
            true => writeln!(hash, "{:?}", without_idle_thresholds(run)),
            false => writeln!(hash, "{run:?}"),
        };
        // What is told of it.
        let (groups, output) = (scenario.groups(), &scenario.output);
        let _ = writeln!(hash, "{groups:?} {output:?} {}", scenario.measures_while_all_run());
        // They are columns of the series of connections.
        if run.sampling.flows.is_some() {
            let inside = diagnostics(&experiment.algorithms);
            let inside: Vec<_> = inside.iter().map(|diag| (diag.name, diag.unit)).collect();
            let _ = writeln!(hash, "{inside:?}");
        }
        let _ = writeln!(hash, "{}", experiment.has_flow_control);
        for module in experiment.modules.iter().filter_map(|algorithm| algorithm.module()) {
            let (sha256, options) = (module.sha256(), module.options());
            // Where they are is of no account.
            let others =
                module.others_read().iter().map(|(path, sha256)| (path.file_name(), sha256));
            let others: Vec<_> = others.collect();
            // Of folders of headers the headers count.
            let (define, linux, api) = (&options.define, options.linux, options.api);
            let _ = writeln!(hash, "{sha256} {others:?} {define:?} {linux:?} {api:?}");
        }
        let mut name = RunName([0; RunName::BYTES]);
        name.0.copy_from_slice(&hash.0.finalize()[..RunName::BYTES]);
        name
    }

    /// Returns the run of an experiment with this number, and its name.
    ///
    /// # Errors
    /// None for a checked row, unless files that it reads have changed.
    pub fn of_number(
        experiment: &Experiment,
        number: usize,
        back_end: &dyn BackEnd,
    ) -> Result<(RunName, Run), Error> {
        let id = experiment.run_id(number);
        let scenario = experiment.scenario(&experiment.row(id.configuration))?;
        let run = scenario.run(experiment.seed, id.repeat);
        Ok((RunName::of(experiment, &scenario, &run, back_end), run))
    }

    /// Its first eight bytes as a number.
    pub(crate) fn first_bytes(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }

    /// Its bytes, [`RunName::BYTES`] of them.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The name with these bytes. `None` if they are too few or too many.
    pub fn from_bytes(bytes: &[u8]) -> Option<RunName> {
        Some(RunName(bytes.try_into().ok()?))
    }
}

impl fmt::Display for RunName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Returns whether there are thresholds that mark nothing, because no connection negotiates ECN. Runs with others are the same then, so
/// what meets a threshold is not told.
pub(crate) fn has_idle_thresholds(run: &Run) -> bool {
    let hosts = run.network.nodes.iter().filter_map(|node| node.host.as_ref());
    let sends_ect = |cc: &Cc| cc.algorithm.needs_ecn() || cc.algorithm.module().is_some();
    run.network.links.iter().any(|link| is_threshold(&link.cable.queue))
        && hosts.into_iter().all(|host| host.tcp_ecn != 1)
        && !run
            .flows
            .iter()
            .flat_map(|flow| [Some(&flow.cc), flow.peer_cc.as_ref()])
            .flatten()
            .any(sends_ect)
}

/// Whether a queue does nothing else with its threshold than to mark packets that are ECN-capable.
fn is_threshold(queue: &QueueConfig) -> bool {
    matches!(queue, QueueConfig::Step(step)
        if step.not_ect == NotEctAbove::Queue && !matches!(step.threshold, Threshold::Sojourn(_)))
}

fn without_idle_thresholds(run: &Run) -> Run {
    let mut run = run.clone();
    let links = run.network.links.iter_mut().filter(|link| is_threshold(&link.cable.queue));
    for link in links {
        if let QueueConfig::Step(step) = &mut Arc::make_mut(&mut link.cable).queue {
            step.threshold = Threshold::Pkts(u32::MAX);
        }
    }
    run
}

struct Hashed(Sha256);

impl fmt::Write for Hashed {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}
