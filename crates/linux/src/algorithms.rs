//! The algorithms of a run on a kernel: whose a name means, what each end of a connection has, and what it is told.

use std::collections::HashMap;

use knee_queue::time::Duration;
use knee_run::kernels_own::OF_LINUX;
use knee_run::spec::{Cc, Flow};
use knee_run::{Error, Run};

/// Meaning of algorithm names in an experiment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithms {
    /// The files of knee.
    #[default]
    Ours,
    /// The kernel's own of the same name.
    Kernels,
}

impl Algorithms {
    /// As manifests have it.
    pub fn name(self) -> &'static str {
        match self {
            Algorithms::Ours => "knee",
            Algorithms::Kernels => "kernel",
        }
    }
}

/// A kernel that algorithms are brought into.
pub trait Kernel {
    /// Brings one of knee's, with its parameters; what the kernel calls it.
    ///
    /// # Errors
    /// What the kernel cannot have, or refuses.
    fn bring(&mut self, cc: &Cc) -> Result<String, Error>;

    /// Checks that it has one of its own.
    ///
    /// # Errors
    /// What it has.
    fn has_own(&self, name: &str) -> Result<(), Error>;
}

/// Algorithms of both ends of each flow.
#[derive(Clone, Debug, Default)]
pub struct Chosen {
    /// As the kernel calls it, by index of the flow.
    names: Vec<[String; 2]>,
    /// As the experiment calls what the kernel calls so.
    own_names: HashMap<String, &'static str>,
}

impl Chosen {
    /// Brings what the flows of a run ask for into a kernel.
    ///
    /// # Errors
    /// What the kernel lacks, refuses or cannot have.
    pub fn new<K: Kernel>(run: &Run, which: Algorithms, kernel: &mut K) -> Result<Chosen, Error> {
        let mut own_names = HashMap::new();
        let mut choose = |cc: &Cc| {
            let own_name = cc.algorithm.name();
            let is_own = which == Algorithms::Kernels || cc.is_kernels_own;
            let module = cc.algorithm.module();
            if is_own && module.is_some_and(|module| !module.is_kernel_module()) {
                return Err(Error::Refused(format!(
                    "{own_name} comes from a file on knee's API, and no kernel has it: leave out \
                        --algorithms kernel"
                )));
            }
            // What a kernel calls the one of a Linux module is what its table is called.
            let in_kernel = module.map_or(own_name, |module| module.kernel_name());
            let name = match is_own {
                false => kernel.bring(cc)?,
                true if cc.params != cc.algorithm.default_params() => {
                    return Err(Error::Refused(format!(
                        "the kernel's own {own_name} takes no parameters: leave params out, or use \
                         knee's {own_name}"
                    )));
                }
                true => {
                    kernel.has_own(in_kernel)?;
                    in_kernel.to_owned()
                }
            };
            own_names.insert(name.clone(), own_name);
            Ok(name)
        };
        let of_flow = |flow: &Flow| {
            let own = choose(&flow.cc)?;
            let peer = flow.peer_cc.as_ref().map_or(Ok(own.clone()), &mut choose)?;
            Ok([own, peer])
        };
        let names = run.flows.iter().map(of_flow).collect::<Result<_, Error>>()?;
        Ok(Chosen { names, own_names })
    }

    /// As the kernel calls that of one end of a flow.
    pub fn name(&self, flow: usize, listens: bool) -> &str {
        &self.names[flow][usize::from(listens)]
    }

    /// As experiments call what the kernel calls so: a connection may have left for another one.
    pub fn own_name(&self, kernel_name: &str) -> &'static str {
        self.own_names.get(kernel_name).copied().unwrap_or_else(|| kernels_own(kernel_name))
    }
}

/// A name of the kernel's that no experiment gave: what its DCTCP becomes without ECN, and what ours falls back to.
pub fn kernels_own(kernel_name: &str) -> &'static str {
    let mut known = OF_LINUX.into_iter().chain(["dctcp-reno"]);
    known.find(|known| *known == kernel_name).unwrap_or("other")
}

/// The base RTT that one end of a flow is told. A flow's own comes before its host's.
pub fn base_rtt(run: &Run, flow: &Flow, listens: bool) -> Option<Duration> {
    let node = if listens { flow.to } else { flow.from };
    let host = run.network.nodes.get(node as usize)?.host.as_ref();
    flow.base_rtt.or_else(|| host?.base_rtt)
}
