//! The back ends of experiments, as `--on` names them, and their flags.

#[cfg(feature = "kernel")]
use std::path::Path;
use std::sync::Arc;

use knee_run::BackEnd;
use knee_run::back_end::Linux;
use knee_sim::Simulator;

use crate::Failure;
#[cfg(feature = "tools")]
use crate::profile::RUNNING;

#[derive(clap::Args)]
pub(crate) struct On {
    /// Slow the experiment down: multiply every rate by S and divide every time by S. S is above 0 and at most 1.
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    pub(crate) scale: f64,
    /// Behave like this Linux, as 6.12; overrides hosts.linux. "running" takes version and HZ of the running kernel,
    /// or the nearest older profile. [default with --on lab: running; with --on vkernel: its kernel]
    #[arg(long, value_name = "VERSION")]
    pub(crate) profile: Option<String>,
    /// TSO and GRO: on hosts of the lab; in the simulator and with vkernel as hosts.offloads [default: off]
    #[arg(long, value_name = "on|off")]
    pub(crate) offloads: Option<Offloads>,
    /// With --on lab and vkernel: use knee's algorithms, or the kernel's own of the same name [default: knee]
    #[arg(long, value_name = "knee|kernel")]
    pub(crate) algorithms: Option<AlgorithmSource>,
    /// Back end: sim (simulator); vkernel or vkernel=6.12 (Linux in virtual time, see knee vkernel build); lab (the
    /// running kernel, in namespaces); hosts=FILE (real machines, over ssh).
    #[arg(long = "on", value_name = "BACK END", default_value = "sim")]
    pub(crate) back_end: String,
}

/// Whether offloads are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Offloads {
    /// TSO, GSO and GRO.
    On,
    /// One packet per segment.
    Off,
}

/// Whose algorithms are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum AlgorithmSource {
    /// knee's files.
    Knee,
    /// The kernel's own.
    Kernel,
}

impl On {
    /// Returns whether names refer to knee's algorithms or to the kernel's own.
    #[cfg(feature = "tools")]
    fn algorithms(&self) -> knee_vkernel::Algorithms {
        match self.algorithms {
            Some(AlgorithmSource::Kernel) => knee_vkernel::Algorithms::Kernels,
            _ => knee_vkernel::Algorithms::Ours,
        }
    }

    /// Returns keys for `--set` that give hosts the offloads asked for, where the experiment sets them.
    pub(crate) fn offloads_of_hosts(&self, back_end: &dyn BackEnd) -> Option<String> {
        let is_of_experiment = !matches!(back_end.capabilities().linux, Linux::Running);
        let word = match self.offloads? {
            Offloads::On => "on",
            Offloads::Off => "off",
        };
        is_of_experiment.then(|| format!("hosts.offloads={word:?}"))
    }

    /// Returns a back end with default options.
    pub(crate) fn plain(back_end: &str) -> On {
        let back_end = back_end.to_owned();
        On { scale: 1.0, profile: None, offloads: None, algorithms: None, back_end }
    }
}

/// A back end, ready to use.
type Made = Arc<dyn BackEnd>;

/// A back end and its name.
struct Entry {
    name: &'static str,
    value: Value,
    make: fn(&On, &str) -> Result<Made, Failure>,
}

/// Whether a back end's name takes `=VALUE`.
enum Value {
    No,
    May,
    Must(&'static str),
}

/// All back ends.
const ALL: [Entry; 4] = [
    Entry { name: "sim", value: Value::No, make: simulator },
    Entry { name: "vkernel", value: Value::May, make: kernels },
    Entry { name: "lab", value: Value::No, make: lab },
    Entry { name: "hosts", value: Value::Must("FILE"), make: hosts },
];

/// Returns the back end that `--on` names.
///
/// # Errors
/// Fails for an unknown name, for flags that the back end does not have, and if it is not available here.
pub(crate) fn named(on: &On) -> Result<Made, Failure> {
    among(&ALL.each_ref(), on)
}

/// Returns the back end for published experiments. `hosts` is not among them, because it needs an existing network.
///
/// # Errors
/// The errors of [`named`].
pub(crate) fn for_published(on: &str) -> Result<Made, Failure> {
    let makes_networks = |entry: &&Entry| !matches!(entry.value, Value::Must(_));
    among(&ALL.iter().filter(makes_networks).collect::<Vec<_>>(), &On::plain(on))
}

fn among(all: &[&Entry], on: &On) -> Result<Made, Failure> {
    let (name, value) = match on.back_end.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (&*on.back_end, None),
    };
    let fits = |entry: &&&Entry| match (&entry.value, value) {
        (Value::No | Value::May, None) => entry.name == name,
        (Value::May | Value::Must(_), Some(value)) => entry.name == name && !value.is_empty(),
        _ => false,
    };
    if let Some(entry) = all.iter().find(fits) {
        return (entry.make)(on, value.unwrap_or_default());
    }
    let shown = |entry: &&Entry| match entry.value {
        Value::Must(what) => format!("{}={what}", entry.name),
        _ => entry.name.to_owned(),
    };
    let names: Vec<String> = all.iter().map(shown).collect();
    let (last, others) = names.split_last().expect("there are back ends");
    let (on, others) = (on.back_end.escape_debug(), others.join(", "));
    says(&format!("--on {on}: must be {others} or {last}"))
}

fn says<T>(text: &str) -> Result<T, Failure> {
    Err(Failure::Says(text.to_owned()))
}

fn simulator(on: &On, _: &str) -> Result<Made, Failure> {
    if on.algorithms.is_some() {
        return says("--algorithms is for --on lab and vkernel: the simulator has only knee's");
    }
    Ok(Arc::new(Simulator))
}

#[cfg(feature = "tools")]
fn kernels(on: &On, version: &str) -> Result<Made, Failure> {
    // Without `vkernel=VERSION`, `--profile VERSION` also selects the kernel.
    let profile = on.profile.as_deref().filter(|profile| *profile != RUNNING);
    let version = Some(version).filter(|version| !version.is_empty()).or(profile);
    let options = knee_vkernel::Options { algorithms: on.algorithms(), ..Default::default() };
    let kernels = knee_vkernel::Kernels::new(version, options);
    Ok(Arc::new(kernels.map_err(|why| Failure::Says(format!("--on vkernel: {why}")))?))
}

#[cfg(feature = "kernel")]
fn lab(on: &On, _: &str) -> Result<Made, Failure> {
    let rights = knee_bpf::Rights::now();
    if !(rights.load() && rights.attach() && rights.see()) {
        return says(
            "--on lab needs root, because it makes network namespaces and loads algorithms: use \
             sudo, or --on sim",
        );
    }
    let options = knee_lab::LabOptions {
        offloads: match on.offloads {
            Some(Offloads::On) => knee_lab::site::Offloads::On,
            _ => knee_lab::site::Offloads::Off,
        },
        algorithms: on.algorithms(),
        ..Default::default()
    };
    let lab = knee_lab::Lab::new(options);
    Ok(Arc::new(lab.map_err(|why| Failure::Says(format!("--on lab: {why}")))?))
}

#[cfg(feature = "kernel")]
fn hosts(on: &On, file: &str) -> Result<Made, Failure> {
    if on.offloads.is_some() {
        return says("--offloads is for --on lab: on real machines, set offloads with ethtool -K");
    }
    if on.algorithms.is_some() {
        return says("--algorithms is for --on lab: real machines run knee's");
    }
    if on.scale != 1.0 {
        return says("--scale is not for --on hosts=FILE: knee cannot slow down a real network");
    }
    let machines = knee_lab::hosts::Machines::read(Path::new(file));
    let machines = machines.map_err(|why| Failure::Says(why.to_string()))?;
    Ok(Arc::new(knee_lab::hosts::OnMachines::new(machines)))
}

#[cfg(not(feature = "tools"))]
fn kernels(_: &On, _: &str) -> Result<Made, Failure> {
    says(&format!("--on vkernel: {}", crate::left_out::TOOLS))
}

#[cfg(not(feature = "kernel"))]
fn lab(_: &On, _: &str) -> Result<Made, Failure> {
    says(&format!("--on lab: {}", crate::left_out::KERNEL))
}

#[cfg(not(feature = "kernel"))]
fn hosts(_: &On, _: &str) -> Result<Made, Failure> {
    says(&format!("--on hosts=FILE: {}", crate::left_out::KERNEL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn back_ends_are_called_as_their_entries() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("hosts.toml");
        let machine =
            "name = \"a\"\nssh = \"a\"\naddress = \"192.0.2.1\"\ndevice = \"d\"\nroles = [\"r\"]\n";
        std::fs::write(&file, format!("[[host]]\n{machine}")).unwrap();
        let made =
            |entry: &Entry| (entry.make)(&On::plain(entry.name), file.to_str().unwrap_or_default());
        let made = ALL.each_ref().map(made);
        for (entry, made) in ALL.iter().zip(made) {
            match made {
                Ok(made) => assert_eq!(made.name(), entry.name),
                // The kernel is not built, or privileges are missing.
                Err(_) => println!("SKIPPED: {} cannot be made here", entry.name),
            }
        }
    }
}
