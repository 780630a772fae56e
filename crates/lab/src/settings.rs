//! Settings of an experiment's hosts and network that a running kernel does not have: each is refused or named.

use knee_run::spec::{HostConfig, Run};

use crate::Error;

/// What hosts are: namespaces of this machine, or machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hosts {
    Namespaces,
    Machines,
}

/// Refuses what no running kernel does when it is told to.
///
/// # Errors
/// The first such setting, with the way out.
pub(crate) fn check(name: &str, config: &HostConfig, hosts: Hosts) -> Result<(), Error> {
    let HostConfig {
        // Sysctls, routes and devices have these, or `differences` names them.
        linux: _,
        hz: _,
        tcp_ecn: _,
        tcp_ecn_fallback: _,
        ipv6: _,
        mtu_bytes: _,
        initial_cwnd_pkts: _,
        rto_min: _,
        slow_start_after_idle: _,
        sack: _,
        gso_max_segs: _,
        gro_window: _,
        limit_output_bytes: _,
        skb_overhead_bytes: _,
        max_tcp_header_bytes: _,
        base_rtt: _,
        fq: _,
        rcvbuf_initial_bytes: _,
        rcvbuf_max_bytes: _,
        sndbuf_initial_bytes: _,
        sndbuf_max_bytes: _,
        sysctls: _,
        // An experiment has these with `coalesce` only.
        receive_queues: _,
        gro: _,
        jiffies_at_start,
        syn_ect,
        ecn_low,
        coalesce,
        cpu,
        fq_counts_headers,
        defects,
    } = config;
    let merges = match hosts {
        Hosts::Namespaces => " (gro_window merges packets there)",
        Hosts::Machines => "",
    };
    let device = format!(
        "coalesce and cpu model a device and a CPU, but these hosts have real ones: leave them out{merges}, or use --on sim"
    );
    let lacks = [
        (
            *defects != Default::default(),
            "defects of older versions: the running kernel does not have them; leave them out, or use --on sim",
        ),
        (
            !syn_ect,
            "syn_ect = false: the running kernel sends SYNs of algorithms that need ECN with ECT; leave it out, or use --on sim",
        ),
        (
            *ecn_low,
            "ecn_low: routes of the running kernel lack this feature; leave it out, or use --on sim",
        ),
        (coalesce.is_some() || cpu.is_some(), &device),
        (
            *fq_counts_headers,
            "fq_counts_headers: fq of the running kernel uses departure times, which ignore headers; leave it out, or use --on sim",
        ),
        (
            jiffies_at_start.is_some(),
            "jiffies_at_start: the running kernel has counted since it started; leave it out, or use --on sim",
        ),
    ];
    match lacks.into_iter().find(|(is_asked, _)| *is_asked) {
        Some((_, what)) => Err(Error::Refused(format!("{name}: {what}"))),
        None => Ok(()),
    }
}

/// Settings that describe a kernel and act in the simulator alone, each in a sentence. `hz` are the ticks of the running
/// kernel, if they are known.
pub(crate) fn differences(run: &Run, hz: Option<u32>) -> Vec<String> {
    let hosts = || run.network.nodes.iter().filter_map(|node| node.host.as_ref());
    let differs = |of: fn(&HostConfig) -> u32| {
        hosts().any(|host| of(host) != of(&HostConfig::new(host.linux)))
    };
    let other_hz = hz.is_none_or(|hz| hosts().any(|host| host.hz != hz));
    let ticks = hz.map_or(String::new(), |hz| format!(", which has {hz} ticks per second"));
    let all = [
        (true, "hosts.linux chooses defaults only: the TCP is the running kernel's".to_owned()),
        (other_hz, format!("hosts.hz has no effect on a running kernel{ticks}")),
        (
            differs(|host| host.skb_overhead_bytes),
            "hosts.skb_overhead has no effect: the running kernel charges its own overhead"
                .to_owned(),
        ),
        (
            differs(|host| host.max_tcp_header_bytes),
            "hosts.max_tcp_header has no effect: the running kernel has its own".to_owned(),
        ),
    ];
    all.into_iter().filter(|(is_so, _)| *is_so).map(|(_, words)| words).collect()
}

/// Whether hosts send large segments or merge what they receive, which needs offloads.
pub(crate) fn wants_offloads(run: &Run) -> bool {
    let mut hosts = run.network.nodes.iter().filter_map(|node| node.host.as_ref());
    hosts.any(|host| host.gso_max_segs > 1 || host.gro_window.ps() > 0)
}

#[cfg(test)]
mod tests {
    use knee_run::spec::LinuxVersion;

    use super::*;

    #[test]
    fn what_a_running_kernel_cannot_be_told_is_refused_by_name() {
        let said = |change: fn(&mut HostConfig), hosts| {
            let mut config = HostConfig::new(LinuxVersion(6, 12));
            change(&mut config);
            check("s1", &config, hosts).err().map_or_else(String::new, |why| why.to_string())
        };
        for hosts in [Hosts::Namespaces, Hosts::Machines] {
            assert_eq!(said(|_| {}, hosts), "");
            let jiffies = said(|host| host.jiffies_at_start = Some(0), hosts);
            assert!(jiffies.starts_with("s1: jiffies_at_start: "), "{jiffies}");
            assert!(said(|host| host.syn_ect = false, hosts).contains("syn_ect = false"));
            assert!(said(|host| host.ecn_low = true, hosts).contains("ecn_low"));
            assert!(said(|host| host.defects.no_ack_on_cwr = true, hosts).contains("defects"));
            let cpu = said(|host| host.cpu = Some(Default::default()), hosts);
            assert!(cpu.contains("coalesce and cpu"), "{cpu}");
        }
    }
}
