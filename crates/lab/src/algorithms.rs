//! The algorithms of a run in the kernel.

use std::collections::HashMap;
use std::fs;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

use knee_bpf::{Embedded, Loaded};
use knee_linux::algorithms::{Kernel, base_rtt};
use knee_run::Run;
use knee_run::spec::Cc;

use crate::Error;
use crate::error::failed;

/// The running kernel; what was brought into it is there as long as this lives.
pub(crate) struct Running {
    loaded: Vec<(Cc, Loaded)>,
}

impl Kernel for Running {
    /// Loads it, each set of parameters once.
    fn bring(&mut self, cc: &Cc) -> Result<String, Error> {
        let same = |(other, _): &&(Cc, Loaded)| {
            std::ptr::eq(other.algorithm, cc.algorithm) && other.params == cc.params
        };
        if let Some((_, loaded)) = self.loaded.iter().find(same) {
            return Ok(loaded.name().to_owned());
        }
        let loaded = Embedded::of_algorithm(cc.algorithm)
            .and_then(|embedded| Loaded::register_noting_init(embedded, &free_name(), &cc.params))
            .map_err(|why| Error::Failed(why.to_string()))?;
        let name = loaded.name().to_owned();
        self.loaded.push((cc.clone(), loaded));
        Ok(name)
    }

    fn has_own(&self, name: &str) -> Result<(), Error> {
        let text = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")
            .map_err(failed("the kernel does not list its algorithms"))?;
        if text.split_whitespace().any(|there| there == name) {
            return Ok(());
        }
        Err(Error::Refused(format!(
            "the kernel has no {name} of its own (\"modprobe tcp_{name}\" may bring it): use knee's, which is what experiments \
             mean by default"
        )))
    }
}

impl Running {
    /// No algorithm loaded.
    pub(crate) fn new() -> Running {
        Running { loaded: Vec::new() }
    }

    /// All loaded algorithms.
    pub(crate) fn all_loaded(&self) -> impl Iterator<Item = &Loaded> {
        self.loaded.iter().map(|(_, loaded)| loaded)
    }

    /// Calls of algorithms that the kernel left out.
    ///
    /// # Errors
    /// If it does not tell.
    pub(crate) fn calls_left_out(&self) -> Result<u64, Error> {
        let left_out = self.all_loaded().map(|loaded| loaded.calls_left_out());
        left_out.sum::<Result<_, _>>().map_err(failed("calls of algorithms"))
    }
}

/// Base RTTs of flow ends in us, by flow and whether the end listens, from the flow's setting or its host's.
pub(crate) fn base_rtts_us(run: &Run) -> HashMap<(u32, bool), NonZeroU32> {
    let ends = run.flows.iter().zip(0..).flat_map(|(flow, index)| {
        [false, true].map(|listens| ((index, listens), base_rtt(run, flow, listens)))
    });
    ends.filter_map(|(end, rtt)| Some((end, NonZeroU32::new(u32::try_from(rtt?.us()).ok()?)?)))
        .collect()
}

/// A name that is unique across processes.
fn free_name() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    // 7 digits of a process, and 4 here, leave room in the 15 that the kernel has.
    let number = NUMBER.fetch_add(1, Ordering::Relaxed) % 10_000;
    format!("kl{}_{number}", std::process::id())
}
