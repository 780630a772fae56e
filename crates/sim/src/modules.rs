//! Linux modules on simulated hosts: the sysctls that they read, their counters, and their
//! messages.

use knee_algo::module::LoadedModules;
use knee_queue::time::{Duration, Time};
use knee_run::outcome::{ModuleCount, ModuleLine, Outcome};
use knee_run::spec::HostConfig;
use std::rc::Rc;

/// Creates the module state of a host with these sysctls: no module is loaded yet.
pub(crate) fn with_sysctls(sysctls: Rc<[(&'static str, i64)]>) -> LoadedModules {
    LoadedModules::with_sysctls(sysctls)
}

/// Creates the module state of a host.
pub(crate) fn of_host(config: &HostConfig) -> LoadedModules {
    with_sysctls(sysctls(config))
}

/// Returns a host's sysctls under the kernel's names.
pub(crate) fn sysctls(config: &HostConfig) -> Rc<[(&'static str, i64)]> {
    let sysctls = &config.sysctls;
    let ns = |duration: Duration| i64::try_from(duration.ns()).unwrap_or(i64::MAX);
    Rc::new([
        ("sysctl_tcp_ecn", config.tcp_ecn.into()),
        ("sysctl_tcp_ecn_fallback", config.tcp_ecn_fallback.into()),
        ("sysctl_tcp_sack", config.sack.into()),
        ("sysctl_tcp_dsack", sysctls.dsack.into()),
        ("sysctl_tcp_timestamps", sysctls.timestamps.into()),
        ("sysctl_tcp_frto", sysctls.frto.into()),
        ("sysctl_tcp_early_retrans", sysctls.early_retrans.into()),
        ("sysctl_tcp_recovery", sysctls.recovery.into()),
        ("sysctl_tcp_slow_start_after_idle", config.slow_start_after_idle.into()),
        ("sysctl_tcp_autocorking", sysctls.autocorking.into()),
        ("sysctl_tcp_moderate_rcvbuf", sysctls.moderate_rcvbuf.into()),
        ("sysctl_tcp_thin_linear_timeouts", sysctls.thin_linear_timeouts.into()),
        ("sysctl_tcp_app_win", sysctls.app_win.into()),
        ("sysctl_tcp_adv_win_scale", sysctls.adv_win_scale.into()),
        ("sysctl_tcp_min_tso_segs", 2),
        ("sysctl_tcp_tso_rtt_log", sysctls.tso_rtt_log.into()),
        ("sysctl_tcp_comp_sack_nr", sysctls.comp_sack_nr.into()),
        ("sysctl_tcp_plb_enabled", 0),
        ("sysctl_tcp_notsent_lowat", sysctls.notsent_lowat.into()),
        ("sysctl_tcp_reordering", sysctls.reordering.into()),
        ("sysctl_tcp_max_reordering", sysctls.max_reordering.into()),
        ("sysctl_tcp_min_rtt_wlen", ns(sysctls.min_rtt_wlen) / 1_000_000_000),
        ("sysctl_tcp_pacing_ss_ratio", sysctls.pacing_ss_ratio.into()),
        ("sysctl_tcp_pacing_ca_ratio", sysctls.pacing_ca_ratio.into()),
        ("sysctl_tcp_limit_output_bytes", config.limit_output_bytes.into()),
        ("sysctl_tcp_comp_sack_delay_ns", ns(sysctls.comp_sack_delay)),
        ("sysctl_tcp_comp_sack_slack_ns", ns(sysctls.comp_sack_slack)),
    ])
}

/// Collects the counters and messages of the modules of all hosts.
pub(crate) fn collect<'a>(
    hosts: impl Iterator<Item = Option<&'a LoadedModules>>,
    outcome: &mut Outcome,
) {
    for (node, host) in (0..).zip(hosts) {
        let Some(modules) = host else { continue };
        let counted = modules.counted().into_iter();
        outcome.module_counts.extend(counted.map(|(name, count)| ModuleCount {
            node,
            name,
            count,
        }));
        let printed = modules.take_printed().into_iter();
        outcome.module_lines.extend(printed.map(|(module, line)| ModuleLine {
            at: Time::from_ps(line.at_ns.saturating_mul(1000)),
            node,
            flow: line.flow,
            level: line.level,
            module,
            text: line.text,
        }));
    }
    // The lines of one host are in order already.
    outcome.module_lines.sort_by_key(|line| line.at);
}
