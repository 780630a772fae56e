//! Changes of the command line to an experiment, for all commands that carry one out.

use std::path::Path;
use std::sync::Arc;

use knee_run::BackEnd;
use knee_scenario::overrides::Words;
use knee_scenario::scale::Scale;
use knee_scenario::{Experiment, Overrides, memory};

use crate::back_ends::On;
use crate::library::find;
use crate::{Failure, complete, profile};

#[derive(clap::Args)]
pub(crate) struct ExperimentArgs {
    /// Cases of the file, or algorithms, to compare instead of all cases. knee compiles a path, as ./tcp_foo.c: a
    /// Linux module, or a file of knee new algorithm.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", add = complete::algorithm())]
    cc: Vec<String>,
    #[command(flatten)]
    module: crate::module_args::ModuleArgs,
    /// Set a key, as network.bottleneck.rate="10 Gbps" or traffic.short.size="10 kB". A varied key takes a value or a
    /// list: '["a", "b"]'. params.shift_g=5 applies to every algorithm that has this parameter. Repeat it for more.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Vary a key, as network.bottleneck.rate="10 Gbps,25 Gbps" or traffic.short.size="10 kB..1 MB log 5", instead of the
    /// file's values or in addition to its varied keys. Repeat it for more.
    #[arg(long, value_name = "KEY=LIST")]
    vary: Vec<String>,
    /// Runs per row, each with its own seed.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    repeat: Option<u32>,
    /// Run only the file's quick set: some of its cases, values and repeats.
    #[arg(long)]
    quick: bool,
    /// Seed of the experiment; the same seed gives the same results.
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Memory that a run may take, as "8 GiB", if it needs more than 4 GiB. All runs together take less than is free.
    #[arg(long, value_name = "SIZE", value_parser = memory::parse)]
    memory: Option<u64>,
    #[command(flatten)]
    pub(crate) on: On,
}

impl ExperimentArgs {
    /// Returns the changes to a file that this back end shall run.
    pub(crate) fn overrides(&self, back_end: &dyn BackEnd) -> Result<Overrides, Failure> {
        let scale = Scale::new(self.on.scale)
            .map_err(|why| Failure::Says(format!("--scale {}: {why}", self.on.scale)))?;
        // `--set` comes later, so it overrides these keys.
        let mut set = profile::of(self.on.profile.as_deref(), back_end)?;
        set.extend(self.on.offloads_of_hosts(back_end));
        set.extend(self.set.clone());
        Ok(Overrides {
            cc: self.cc.clone(),
            set,
            repeat: self.repeat,
            vary: self.vary.clone(),
            seed: self.seed,
            scale,
            quick: self.quick,
            stats: Vec::new(),
            memory_bytes: self.memory,
            modules: self.module.options(),
            only_reads: false,
            only_first_row: false,
            words: &Words::OPTIONS,
        })
    }

    /// Returns what `--repeat` says.
    pub(crate) fn repeat(&self) -> Option<u32> {
        self.repeat
    }
}

/// Loads an experiment and checks all of its rows.
pub(crate) fn load(file: &Path, overrides: &Overrides) -> Result<Arc<Experiment>, Failure> {
    let experiment = find(file)?.load(overrides)?.whole()?;
    match overrides.quick && !experiment.is_quick {
        false => Ok(Arc::new(experiment)),
        true => Err(Failure::Says(format!(
            "{}: has no [quick]: leave --quick out",
            experiment.path.display()
        ))),
    }
}
