//! What of a host's configuration the kernel is told, and what it cannot be told.

use knee_linux::sysctls::{self, RTO_MIN};
use knee_queue::time::Duration;
use knee_run::spec::{HostConfig, LinuxVersion};

use crate::Error;
use crate::guest::Step;

/// The kernel's own.
const STOCK_INITCWND_PKTS: u32 = 10;
const STOCK_RTO_MIN: Duration = Duration::from_ms(200);
const SECOND: Duration = Duration::from_ms(1000);
/// Sysctls that experiments can ask for, and the first version that has them.
const SINCE: [(&str, LinuxVersion); 2] =
    [("ipv4/tcp_syn_linear_timeouts", LinuxVersion::V6_12), (RTO_MIN, LinuxVersion::V6_12)];

/// Refuses what a guest's kernel cannot be.
pub(super) fn check(config: &HostConfig, version: &str) -> Result<(), String> {
    let refused: [(bool, &str); 8] = [
        (config.ipv6, "ipv6: guests speak IPv4 alone; leave it out, or use --on sim"),
        (
            config.defects != Default::default(),
            "defects of older versions: the guest's kernel has none of them; leave them out, or use --on sim",
        ),
        (
            !config.syn_ect,
            "syn_ect = false: the guest's kernel sends SYNs of algorithms that need ECN with ECT; leave it out, or use --on sim",
        ),
        (
            config.coalesce.is_some() || config.cpu.is_some() || config.receive_queues > 1,
            "coalesce, cpu and receive_queues are of a device and a CPU, and a guest's take no time; leave them out, or use --on sim",
        ),
        (
            config.gro || config.gro_window > Duration::ZERO,
            "receive merging: the devices of a guest do none; leave gro and gro_window out, or use --on sim",
        ),
        (
            config.fq_counts_headers,
            "fq_counts_headers: the guest's fq goes by departure times, which do not; leave it out, or use --on sim",
        ),
        (
            config.jiffies_at_start.is_some(),
            "jiffies_at_start: the guest's kernel begins to count when it starts; leave it out, or use --on sim",
        ),
        (
            config.sysctls.min_rtt_wlen.ps() % SECOND.ps() != 0,
            "min_rtt_wlen: Linux has it in whole seconds; change it, or use --on sim",
        ),
    ];
    if let Some((_, why)) = refused.into_iter().find(|(is, _)| *is) {
        return Err(why.to_owned());
    }
    if config.linux.name() != version {
        return Err(format!(
            "linux = \"{}\": the guest's kernel is {version}; give --profile {version}, or build the other one (knee vkernel build)",
            config.linux.name()
        ));
    }
    if !has(RTO_MIN, config.linux) && config.rto_min.us() % 1000 != 0 {
        return Err(format!(
            "rto_min of {} us: without tcp_rto_min_us (6.11) Linux has it in whole ms; change it, or use --on sim",
            config.rto_min.us()
        ));
    }
    Ok(())
}

fn has(key: &str, linux: LinuxVersion) -> bool {
    SINCE.iter().all(|(since_key, since)| *since_key != key || linux >= *since)
}

/// What sets the namespace of a host.
///
/// # Errors
/// A sysctl that the version does not have and whose value is not what it does anyway.
pub(super) fn steps(namespace: u32, name: &str, config: &HostConfig) -> Result<Vec<Step>, Error> {
    let stock = sysctls::wanted(&HostConfig::new(config.linux));
    let mut steps = Vec::new();
    for setting in sysctls::wanted(config) {
        if has(setting.0, config.linux) {
            steps.push(write(namespace, &format!("net/{}", setting.0), &setting.1));
        } else if setting.0 != RTO_MIN && !stock.contains(&setting) {
            return Err(Error::Refused(format!(
                "{name}: Linux {} has no sysctl {}; leave it out, or use --on sim",
                config.linux.name(),
                sysctls::name(setting.0)
            )));
        }
    }
    Ok(steps)
}

/// Sets a sysctl, by its path below `/proc/sys`.
pub(super) fn write(namespace: u32, path: &str, text: &str) -> Step {
    Step::Write { namespace, path: format!("/proc/sys/{path}"), text: text.to_owned() }
}

/// Metrics of a host's routes: initial window in packets and least retransmission timeout in ms, as far as they are not the
/// kernel's own and no sysctl says them.
pub(super) fn metrics(config: &HostConfig) -> (Option<u32>, Option<u32>) {
    let initcwnd = config.initial_cwnd_pkts;
    let rto_min_ms = (config.rto_min.us() / 1000) as u32;
    let by_route = config.rto_min != STOCK_RTO_MIN && !has(RTO_MIN, config.linux);
    ((initcwnd != STOCK_INITCWND_PKTS).then_some(initcwnd), by_route.then_some(rto_min_ms))
}
