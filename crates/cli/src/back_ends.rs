//! The back ends of experiments: what `--on` names, and the flags that say how.

#[cfg(feature = "kernel")]
use std::path::Path;
use std::sync::Arc;

use knee_run::BackEnd;
use knee_sim::Simulator;
use knee_vkernel::Algorithms;

use crate::Failure;
use crate::profile::RUNNING;

#[derive(clap::Args)]
pub(crate) struct On {
    /// Slower and longer: every rate times S, every time divided by S, above 0 and at most 1, for machines that
    /// the experiment is too fast for.
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    pub(crate) scale: f64,
    /// The Linux that hosts behave like, as 6.12, in place of hosts.linux; running: the running kernel's version
    /// and HZ, or the nearest before it [default with --on lab: running; with --on vkernel: the kernel that runs]
    #[arg(long, value_name = "VERSION")]
    pub(crate) profile: Option<String>,
    /// Whether hosts of the lab hand large segments to their devices, which the switch cuts up [default: off]
    #[arg(long, value_name = "on|off")]
    pub(crate) offloads: Option<Offloads>,
    /// What names of algorithms mean in the lab and in the kernel in virtual time: knee's, or the kernel's own [default: knee]
    #[arg(long, value_name = "knee|kernel")]
    pub(crate) algorithms: Option<Which>,
    /// What runs it: sim, the simulator; vkernel, a Linux kernel in virtual time (knee vkernel build), vkernel=6.12 of that version;
    /// lab, the running kernel's TCP in namespaces; hosts=FILE, the real machines that FILE names, over ssh.
    #[arg(long = "on", value_name = "BACK END", default_value = "sim")]
    pub(crate) back_end: String,
}

/// Whether offloads are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Offloads {
    /// TSO, GSO and GRO.
    On,
    /// Each packet for itself.
    Off,
}

/// Whose algorithms are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Which {
    /// The files of knee.
    Knee,
    /// The kernel's own of the same name.
    Kernel,
}

impl On {
    /// What names of algorithms mean in a kernel.
    fn algorithms(&self) -> Algorithms {
        match self.algorithms {
            Some(Which::Kernel) => Algorithms::Kernels,
            _ => Algorithms::Ours,
        }
    }

    /// A back end as it is if nothing is asked for.
    pub(crate) fn plain(back_end: &str) -> On {
        let back_end = back_end.to_owned();
        On { scale: 1.0, profile: None, offloads: None, algorithms: None, back_end }
    }
}

/// A back end, made.
type Made = Arc<dyn BackEnd>;

/// A back end, by its name.
struct Entry {
    name: &'static str,
    value: Value,
    make: fn(&On, &str) -> Result<Made, Failure>,
}

/// What follows a name, behind a `=`.
enum Value {
    No,
    May,
    Must(&'static str),
}

/// All of them.
const ALL: [Entry; 4] = [
    Entry { name: "sim", value: Value::No, make: simulator },
    Entry { name: "vkernel", value: Value::May, make: kernels },
    Entry { name: "lab", value: Value::No, make: lab },
    Entry { name: "hosts", value: Value::Must("FILE"), make: hosts },
];

/// The back end that `--on` names.
///
/// # Errors
/// A name that none has, flags that mean nothing to it, and why there is none here.
pub(crate) fn named(on: &On) -> Result<Made, Failure> {
    among(&ALL.each_ref(), on)
}

/// The same for published experiments, whose networks are not there already.
///
/// # Errors
/// As of [`named`].
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
    if on.offloads.is_some() {
        return says("--offloads is for --on lab; of simulated hosts hosts.gso_max_segs says it");
    }
    if on.algorithms.is_some() {
        return says("--algorithms is for --on lab and vkernel: the simulator has knee's alone");
    }
    Ok(Arc::new(Simulator))
}

fn kernels(on: &On, version: &str) -> Result<Made, Failure> {
    if on.offloads.is_some() {
        return says(
            "--offloads is for --on lab; of hosts of the kernel in virtual time hosts.gso_max_segs says it",
        );
    }
    // Who wants a version and names no other kernel means that one.
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
            "--on lab makes network namespaces and loads algorithms, which takes root: run it with sudo, or use \
             --on sim",
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
    let machines = knee_lab::hosts::Machines::read(Path::new(file));
    let machines = machines.map_err(|why| Failure::Says(why.to_string()))?;
    Ok(Arc::new(knee_lab::hosts::OnMachines::new(machines)))
}

#[cfg(not(feature = "kernel"))]
fn lab(_: &On, _: &str) -> Result<Made, Failure> {
    says(&format!("--on lab: {}", crate::without_kernel::WHY))
}

#[cfg(not(feature = "kernel"))]
fn hosts(_: &On, _: &str) -> Result<Made, Failure> {
    says(&format!("--on hosts=FILE: {}", crate::without_kernel::WHY))
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
                // A kernel that is not built, and rights that are missing.
                Err(_) => println!("SKIPPED: {} cannot be made here", entry.name),
            }
        }
    }
}
