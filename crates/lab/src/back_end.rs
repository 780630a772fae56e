//! The lab as a back end.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use knee_bpf::{Embedded, KernelApi};
use knee_run::back_end::Linux;
use knee_run::support::{self, Facts, On};
use knee_run::{BackEnd, Capabilities, Error, Run, RunOptions, RunResult};
use serde_json::{Map, Value, json};

use crate::calibrate::{Calibration, calibrate};
use crate::plan::Plan;
use crate::run::{HostSettings, LabOptions, run};
use crate::site::Offloads;
use crate::site::machine::Machine;

/// The lab on this machine, which has been measured.
#[derive(Debug)]
pub struct Lab {
    options: LabOptions,
    machine: Machine,
    calibration: Calibration,
    /// How hosts were set in the run before, as cases may set them differently.
    hosts: Mutex<Vec<HostSettings>>,
}

impl Lab {
    /// Calibrates it.
    ///
    /// # Errors
    /// What the kernel lacks or refuses.
    pub fn new(options: LabOptions) -> Result<Lab, Error> {
        let machine = Machine::this()?;
        let calibration = calibrate(&options, &AtomicBool::new(false))?;
        Ok(Lab { options, machine, calibration, hosts: Mutex::default() })
    }
}

impl BackEnd for Lab {
    fn name(&self) -> &'static str {
        On::Lab.name()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            // Two at once would take the CPUs from each other.
            threads: Some(1),
            has_host: true,
            captures: true,
            linux: Linux::Running,
            ..Capabilities::default()
        }
    }

    fn check(&self, run: &Run) -> Result<(), Error> {
        // What is to be compiled is, once.
        let ends = run.flows.iter().flat_map(|flow| [Some(&flow.cc), flow.peer_cc.as_ref()]);
        for cc in ends.flatten().filter(|cc| cc.algorithm.module().is_some()) {
            Embedded::of_algorithm(cc.algorithm).map_err(|why| Error::Refused(why.to_string()))?;
        }
        Plan::new(run).map(drop)
    }

    fn differences(&self, run: &Run) -> Vec<String> {
        let offloads = self.options.offloads == Offloads::On;
        support::differences(run, On::Lab, Facts { hz: Some(KernelApi::running().hz), offloads })
    }

    fn run(&self, wanted: &Run, ask: &RunOptions<'_>) -> Result<RunResult, Error> {
        ask.check(self)?;
        let captures = ask.captures.map(ToOwned::to_owned);
        let ran = run(wanted, &LabOptions { captures, ..self.options.clone() }, ask.stop)?;
        if let Ok(mut hosts) = self.hosts.lock() {
            *hosts = ran.settings;
        }
        Ok(RunResult { outcome: ran.outcome, validity: Some(ran.validity) })
    }

    fn about(&self) -> Map<String, Value> {
        let mut about = Map::new();
        about.insert("machine".to_owned(), json!(self.machine));
        about.insert("offloads".to_owned(), json!(self.options.offloads == Offloads::On));
        about.insert("algorithms".to_owned(), json!(self.options.algorithms.name()));
        let calibration = self.calibration.values().into_iter();
        let calibration: Map<_, _> =
            calibration.map(|(name, value)| (name.to_owned(), json!(value))).collect();
        about.insert("calibration".to_owned(), Value::Object(calibration));
        if let Ok(hosts) = self.hosts.lock() {
            about.insert("hosts_of_last_run".to_owned(), json!(*hosts));
        }
        about
    }
}
