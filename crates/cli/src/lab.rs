//! `--on lab`: the lab as a back end of experiments.

use std::sync::Arc;

use knee_exp::back_end::BackEnd;

use crate::Failure;
use crate::on::On;

#[cfg(feature = "kernel")]
pub(crate) use with_kernel::{back_end, plain};

/// Why there is none in a knee without its kernel side.
#[cfg(not(feature = "kernel"))]
pub(crate) fn back_end(_on: &On) -> Result<Arc<dyn BackEnd>, Failure> {
    Err(Failure::Says(format!("--on lab: {}", crate::without_kernel::WHY)))
}

/// As `back_end`.
#[cfg(not(feature = "kernel"))]
pub(crate) fn plain() -> Result<Arc<dyn BackEnd>, Failure> {
    Err(Failure::Says(format!("--on lab: {}", crate::without_kernel::WHY)))
}

#[cfg(feature = "kernel")]
mod with_kernel {
    use std::path::Path;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicBool;

    use knee_bpf::Rights;
    use knee_exp::back_end::Ran;
    use knee_lab::plan::Plan;
    use knee_lab::site::Offloads;
    use knee_lab::site::machine::Machine;
    use knee_lab::{Algorithms, Calibration, HostSettings, Options, calibrate, run};
    use knee_run::Run;
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::on::{Offloads as WantedOffloads, Which};

    /// The lab, as the command line asks for it, calibrated.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn back_end(on: &On) -> Result<Arc<dyn BackEnd>, Failure> {
        with(on.offloads, on.algorithms)
    }

    /// The same as it is if nothing is asked for.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn plain() -> Result<Arc<dyn BackEnd>, Failure> {
        with(None, None)
    }

    fn with(
        offloads: Option<WantedOffloads>,
        algorithms: Option<Which>,
    ) -> Result<Arc<dyn BackEnd>, Failure> {
        let rights = Rights::now();
        if !(rights.load() && rights.attach() && rights.see()) {
            return Err(Failure::Says(
                "--on lab makes network namespaces and loads algorithms, which takes root: run it with sudo, or use \
                 --on sim"
                    .to_owned(),
            ));
        }
        let options = Options {
            offloads: match offloads {
                Some(WantedOffloads::On) => Offloads::On,
                _ => Offloads::Off,
            },
            algorithms: match algorithms {
                Some(Which::Kernel) => Algorithms::Kernels,
                _ => Algorithms::Ours,
            },
            ..Options::default()
        };
        let of_lab = |why: knee_lab::Error| Failure::Says(format!("--on lab: {why}"));
        let machine = Machine::this().map_err(of_lab)?;
        let calibration = calibrate(&options, &AtomicBool::new(false)).map_err(of_lab)?;
        Ok(Arc::new(Lab { options, machine, calibration, hosts: Mutex::default() }))
    }

    #[derive(Debug)]
    struct Lab {
        options: Options,
        machine: Machine,
        calibration: Calibration,
        /// How hosts were set in the run before, as cases may set them differently.
        hosts: Mutex<Vec<HostSettings>>,
    }

    impl Lab {
        fn carry_out(
            &self,
            run_: &Run,
            options: &Options,
            stop: &AtomicBool,
        ) -> Result<Ran, String> {
            let ran = run(run_, options, stop).map_err(|why| why.to_string())?;
            if let Ok(mut hosts) = self.hosts.lock() {
                *hosts = ran.settings;
            }
            Ok(Ran { outcome: ran.outcome, validity: Some(ran.validity) })
        }
    }

    impl BackEnd for Lab {
        fn name(&self) -> &'static str {
            "lab"
        }

        /// Two at once would take the CPUs from each other.
        fn threads(&self) -> Option<usize> {
            Some(1)
        }

        fn check(&self, run: &Run) -> Result<(), String> {
            Plan::new(run).map(drop).map_err(|why| why.to_string())
        }

        fn run(&self, run: &Run, stop: &AtomicBool) -> Result<Ran, String> {
            self.carry_out(run, &self.options, stop)
        }

        fn run_captured(&self, run: &Run, stop: &AtomicBool, dir: &Path) -> Result<Ran, String> {
            let options = Options { captures: Some(dir.to_owned()), ..self.options.clone() };
            self.carry_out(run, &options, stop)
        }

        fn about(&self) -> Map<String, Value> {
            let mut about = Map::new();
            about.insert("machine".to_owned(), json!(self.machine));
            about.insert("offloads".to_owned(), json!(self.options.offloads == Offloads::On));
            let algorithms = match self.options.algorithms {
                Algorithms::Ours => "knee",
                Algorithms::Kernels => "kernel",
            };
            about.insert("algorithms".to_owned(), json!(algorithms));
            let calibration = self.calibration.values();
            let calibration: Map<_, _> = calibration
                .into_iter()
                .map(|(name, value)| (name.to_owned(), json!(value)))
                .collect();
            about.insert("calibration".to_owned(), Value::Object(calibration));
            if let Ok(hosts) = self.hosts.lock() {
                about.insert("hosts_of_last_run".to_owned(), json!(*hosts));
            }
            about
        }
    }
}
