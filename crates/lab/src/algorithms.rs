//! The algorithms of a run in the kernel.

use std::collections::HashMap;
use std::fs;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

use knee_algo::Params;
use knee_bpf::{Embedded, Loaded};
use knee_queue::time::Duration;
use knee_run::Run;
use knee_run::spec::{Cc, Flow};

use crate::Error;
use crate::error::failed;

/// What the names of algorithms in an experiment mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithms {
    /// The files of knee, loaded for the run.
    #[default]
    Ours,
    /// The kernel's own of the same name.
    Kernels,
}

/// What both ends of each flow use, by index of the flow; the programs are in the kernel as long as this lives.
pub(crate) struct Chosen {
    of_flows: Vec<[Choice; 2]>,
    loaded: Vec<(Cc, Loaded)>,
    without_init: bool,
}

/// The algorithm of one end.
#[derive(Clone, Debug)]
struct Choice {
    /// As the kernel calls it.
    name: String,
    /// As the experiment does.
    own_name: &'static str,
}

impl Chosen {
    /// Loads what the flows of a run ask for, each set of parameters once; with `without_init` as on a kernel that leaves every
    /// call of `init` out.
    ///
    /// # Errors
    /// What the kernel lacks or refuses.
    pub(crate) fn new(run: &Run, which: Algorithms, without_init: bool) -> Result<Chosen, Error> {
        let of_flows = Vec::with_capacity(run.flows.len());
        let mut chosen = Chosen { of_flows, loaded: Vec::new(), without_init };
        for flow in &run.flows {
            let own = chosen.choose(&flow.cc, which)?;
            let peer = match &flow.peer_cc {
                Some(cc) => chosen.choose(cc, which)?,
                None => own.clone(),
            };
            chosen.of_flows.push([own, peer]);
        }
        Ok(chosen)
    }

    fn choose(&mut self, cc: &Cc, which: Algorithms) -> Result<Choice, Error> {
        let own_name = cc.algorithm.name();
        if cc.algorithm.module().is_some() {
            return Err(compiled(own_name));
        }
        if which == Algorithms::Kernels || cc.is_kernels_own {
            check_kernels_own(cc)?;
            return Ok(Choice { name: own_name.to_owned(), own_name });
        }
        let same = |(other, _): &(Cc, Loaded)| {
            std::ptr::eq(other.algorithm, cc.algorithm) && other.params == cc.params
        };
        let place = match self.loaded.iter().position(same) {
            Some(place) => place,
            None => {
                self.loaded.push((cc.clone(), self.load(own_name, &cc.params)?));
                self.loaded.len() - 1
            }
        };
        let name = self.loaded[place].1.name().to_owned();
        Ok(Choice { name, own_name })
    }

    fn load(&self, name: &str, params: &Params) -> Result<Loaded, Error> {
        let embedded = Embedded::by_name(name).map_err(|why| Error(why.to_string()))?;
        let register = match self.without_init {
            true => Loaded::register_without_init,
            false => Loaded::register_noting_init,
        };
        register(embedded, &free_name(), params).map_err(|why| Error(why.to_string()))
    }

    /// As the kernel calls that of one end of a flow.
    pub(crate) fn name(&self, flow: usize, listens: bool) -> &str {
        &self.of_flows[flow][usize::from(listens)].name
    }

    /// As experiments call what the kernel calls so: a connection may have left for another one.
    pub(crate) fn own_name(&self, kernel_name: &str) -> &'static str {
        let mut choices = self.of_flows.iter().flatten();
        if let Some(choice) = choices.find(|choice| choice.name == kernel_name) {
            return choice.own_name;
        }
        kernels_own(kernel_name)
    }

    /// All that were loaded.
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

    /// The base RTTs, us, that ends of flows are told (flow, whether it listens), by the flow or by its host.
    pub(crate) fn base_rtts_us(run: &Run) -> HashMap<(u32, bool), NonZeroU32> {
        let ends = run.flows.iter().zip(0..).flat_map(|(flow, index)| {
            [false, true].map(|listens| ((index, listens), base_rtt(run, flow, listens)))
        });
        ends.filter_map(|(end, rtt)| Some((end, NonZeroU32::new(u32::try_from(rtt?.us()).ok()?)?)))
            .collect()
    }
}

/// A name of the kernel's that no experiment gave: what its DCTCP becomes without ECN, and what ours falls back to.
pub(crate) fn kernels_own(kernel_name: &str) -> &'static str {
    let known = ["reno", "cubic", "bbr", "dctcp-reno", "bic", "nv"];
    known.into_iter().find(|known| *known == kernel_name).unwrap_or("other")
}

/// Of an algorithm that was compiled from a file that somebody named.
pub(crate) fn compiled(name: &str) -> Error {
    Error(format!(
        "{name} was compiled for the simulator, and the kernel has no program of it: use --on sim"
    ))
}

/// A flow's own comes before its host's.
fn base_rtt(run: &Run, flow: &Flow, listens: bool) -> Option<Duration> {
    let node = if listens { flow.to } else { flow.from };
    let host = run.network.nodes.get(node as usize)?.host.as_ref();
    flow.base_rtt.or_else(|| host?.base_rtt)
}

/// A name that nobody else has, in this process or another one.
fn free_name() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    // 7 digits of a process, and 4 here, leave room in the 15 that the kernel has.
    let number = NUMBER.fetch_add(1, Ordering::Relaxed) % 10_000;
    format!("kl{}_{number}", std::process::id())
}

fn check_kernels_own(cc: &Cc) -> Result<(), Error> {
    let name = cc.algorithm.name();
    if cc.params != cc.algorithm.default_params() {
        return Err(Error(format!(
            "the kernel's own {name} takes no parameters from an experiment: leave params out, or use knee's {name}"
        )));
    }
    let text = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")
        .map_err(failed("the kernel does not tell its algorithms"))?;
    if text.split_whitespace().any(|there| there == name) {
        return Ok(());
    }
    Err(Error(format!(
        "the kernel has no {name} of its own (\"modprobe tcp_{name}\" may bring it): use knee's, which is what experiments \
         mean by default"
    )))
}
