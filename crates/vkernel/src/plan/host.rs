//! A host's configuration as the kernel's settings, and what the kernel cannot be told.

use knee_linux::sysctls::{self, RTO_MIN};
use knee_queue::time::Duration;
use knee_run::spec::{HostConfig, LinuxVersion, sysctl_since};

use crate::Error;
use crate::guest::Step;

/// The kernel's own initial window, in packets.
const STOCK_INITCWND_PKTS: u32 = 10;
const STOCK_RTO_MIN: Duration = Duration::from_ms(200);

/// Refuses a configuration that a guest's kernel of this version does not have.
///
/// # Errors
/// Says what to give instead.
pub(super) fn check(config: &HostConfig, version: &str) -> Result<(), String> {
    let asked = config.linux;
    let us = config.rto_min.us();
    if asked.to_string() != version {
        return Err(format!(
            "linux = \"{asked}\": the guest's kernel is {version}; give --profile {version}, or build the other one (knee vkernel build)"
        ));
    }
    if !has(RTO_MIN, config.linux) && us % 1000 != 0 {
        return Err(format!(
            "rto_min of {us} us: before tcp_rto_min_us (6.11) Linux accepts whole ms only; change it, or use --on sim"
        ));
    }
    Ok(())
}

fn has(key: &str, linux: LinuxVersion) -> bool {
    key.strip_prefix("ipv4/").and_then(sysctl_since).is_none_or(|since| linux >= since)
}

/// Returns the steps that configure a host's namespace.
///
/// # Errors
/// Fails if the version lacks a sysctl and the wanted value differs from what it does anyway.
pub(super) fn steps(namespace: u32, name: &str, config: &HostConfig) -> Result<Vec<Step>, Error> {
    let stock = sysctls::wanted(&HostConfig::new(config.linux));
    let mut steps = Vec::new();
    for setting in sysctls::wanted(config) {
        if has(setting.0, config.linux) {
            steps.push(write(namespace, &format!("net/{}", setting.0), &setting.1));
        } else if setting.0 != RTO_MIN && !stock.contains(&setting) {
            return Err(Error::Refused(format!(
                "{name}: Linux {} has no sysctl {}; leave it out, or use --on sim",
                config.linux,
                sysctls::name(setting.0)
            )));
        }
    }
    Ok(steps)
}

/// Returns the step that sets a sysctl, by its path below `/proc/sys`.
pub(super) fn write(namespace: u32, path: &str, text: &str) -> Step {
    Step::Write { namespace, path: format!("/proc/sys/{path}"), text: text.to_owned() }
}

/// Returns the metrics of a host's routes: initial window in packets, and minimum RTO in ms. Each is `None` if it is
/// the kernel's own value or a sysctl sets it.
pub(super) fn metrics(config: &HostConfig) -> (Option<u32>, Option<u32>) {
    let initcwnd = config.initial_cwnd_pkts;
    let rto_min_ms = (config.rto_min.us() / 1000) as u32;
    let by_route = config.rto_min != STOCK_RTO_MIN && !has(RTO_MIN, config.linux);
    ((initcwnd != STOCK_INITCWND_PKTS).then_some(initcwnd), by_route.then_some(rto_min_ms))
}
