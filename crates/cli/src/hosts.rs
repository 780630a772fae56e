//! `--on hosts=FILE`: real machines as a back end of experiments.

use std::path::Path;
use std::sync::Arc;

use knee_exp::back_end::BackEnd;

use crate::Failure;
use crate::on::On;

#[cfg(feature = "kernel")]
pub(crate) use with_kernel::back_end;

/// Why there is none in a knee without its kernel side.
#[cfg(not(feature = "kernel"))]
pub(crate) fn back_end(_on: &On, _file: &Path) -> Result<Arc<dyn BackEnd>, Failure> {
    Err(Failure::Says(format!("--on hosts=FILE: {}", crate::without_kernel::WHY)))
}

#[cfg(feature = "kernel")]
mod with_kernel {
    use std::sync::atomic::AtomicBool;

    use knee_exp::back_end::Ran;
    use knee_lab::hosts::{About, Machines, OnMachines};
    use knee_run::Run;
    use serde_json::{Map, Value, json};

    use super::*;

    /// The machines of a file.
    ///
    /// # Errors
    /// What the file should not say, and options that mean nothing to real machines.
    pub(crate) fn back_end(on: &On, file: &Path) -> Result<Arc<dyn BackEnd>, Failure> {
        let says = |text: &str| Err(Failure::Says(text.to_owned()));
        if on.offloads.is_some() {
            return says(
                "--offloads is for --on lab: those of real machines are as they are set (ethtool -K), and recorded",
            );
        }
        if on.algorithms.is_some() {
            return says("--algorithms is for --on lab: real machines are given knee's");
        }
        if on.scale != 1.0 {
            return says("--scale is not for --on hosts=FILE: a real network is as fast as it is");
        }
        let machines = Machines::read(file).map_err(|why| Failure::Says(why.to_string()))?;
        Ok(Arc::new(Hosts(OnMachines::new(machines))))
    }

    #[derive(Debug)]
    struct Hosts(OnMachines);

    impl BackEnd for Hosts {
        fn name(&self) -> &'static str {
            "hosts"
        }

        /// There is one of each machine.
        fn threads(&self) -> Option<usize> {
            Some(1)
        }

        fn run(&self, run: &Run, stop: &AtomicBool) -> Result<Ran, String> {
            let ran = self.0.run(run, stop).map_err(|why| why.to_string())?;
            Ok(Ran { outcome: ran.outcome, validity: Some(ran.validity) })
        }

        fn leave(&self) {
            self.0.leave();
        }

        fn about(&self) -> Map<String, Value> {
            let machines = self.0.about().iter().map(about).collect();
            Map::from_iter([("machines".to_owned(), Value::Array(machines))])
        }
    }

    fn about(machine: &About) -> Value {
        let hello = &machine.hello;
        let device = hello.devices.iter().find(|device| device.name == machine.device);
        json!({
            "name": machine.name,
            "roles": machine.roles,
            "address": machine.address,
            "host": hello.host,
            "knee": hello.version,
            "kernel": hello.kernel,
            "cores": hello.cores,
            "device": device,
            "sysctls": hello.sysctls,
        })
    }
}
