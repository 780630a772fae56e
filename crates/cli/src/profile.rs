//! `--profile`: the Linux version that an experiment's hosts behave like.

use knee_run::BackEnd;
use knee_run::back_end::Linux;
use knee_run::spec::{LinuxVersion, PROFILES};
use knee_sweep::machine;

use crate::Failure;

/// The profile of the running kernel.
pub(crate) const RUNNING: &str = "running";

/// Returns keys for `--set` that make hosts behave like the requested Linux, or else like the back end's.
pub(crate) fn of(profile: Option<&str>, back_end: &dyn BackEnd) -> Result<Vec<String>, Failure> {
    match (profile, back_end.capabilities().linux) {
        (Some(profile), _) => keys(profile),
        (None, Linux::Running) => keys(RUNNING),
        (None, Linux::Version(version)) => Ok(vec![linux(&version)]),
        (None, Linux::FromExperiment) => Ok(Vec::new()),
    }
}

/// Returns keys for `--set` that make hosts behave like a version of Linux.
pub(crate) fn keys(profile: &str) -> Result<Vec<String>, Failure> {
    if profile == RUNNING {
        let release = machine::kernel_release().unwrap_or_default();
        return of_release(&release, running_hz()).map_err(Failure::Says);
    }
    let names: Vec<&str> = PROFILES.iter().map(|(name, _)| *name).collect();
    match names.contains(&profile) {
        true => Ok(vec![linux(profile)]),
        false => Err(Failure::Says(format!(
            "--profile {}: must be running or one of {}",
            profile.escape_debug(),
            names.join(", ")
        ))),
    }
}

fn linux(name: &str) -> String {
    format!("hosts.linux={name:?}")
}

/// Returns the nearest profile at or before a release, with the kernel's ticks per second.
fn of_release(release: &str, hz: Option<u32>) -> Result<Vec<String>, String> {
    let running = LinuxVersion::of_release(release).ok_or_else(|| {
        format!(
            "--profile running: cannot read the running kernel's version ({release:?}): give one, \
                as 6.12"
        )
    })?;
    let (nearest, _) =
        PROFILES.iter().rev().find(|(_, version)| *version <= running).ok_or_else(|| {
            format!("--profile running: {release} is older than every profile: give one, as 6.1")
        })?;
    let hz = hz.ok_or(
        "--profile running: cannot read HZ of this kernel: give --profile 6.12 and --set \
         hosts.hz=250",
    )?;
    Ok(vec![linux(nearest), format!("hosts.hz={hz}")])
}

#[cfg(feature = "kernel")]
fn running_hz() -> Option<u32> {
    Some(knee_bpf::KernelApi::running().hz)
}

#[cfg(not(feature = "kernel"))]
fn running_hz() -> Option<u32> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_profile_is_at_or_before_the_kernel() {
        let keys = |release: &str| of_release(release, Some(250)).unwrap();
        assert_eq!(keys("6.18.44-generic"), ["hosts.linux=\"6.18\"", "hosts.hz=250"]);
        assert_eq!(keys("6.17.0")[0], "hosts.linux=\"6.12\"");
        assert_eq!(keys("6.2.0-rc1")[0], "hosts.linux=\"6.1\"");
        assert_eq!(keys("7.1.0")[0], "hosts.linux=\"6.18\"");
        assert!(of_release("5.15.0", Some(250)).unwrap_err().contains("older than every profile"));
        assert!(
            of_release("", Some(250))
                .unwrap_err()
                .contains("cannot read the running kernel's version")
        );
        assert!(of_release("6.18.1", None).unwrap_err().contains("--set hosts.hz=250"));
    }
}
