//! Counters of the kernel in the namespaces of a run.

use std::collections::BTreeMap;
use std::fs;

use knee_linux::counts::{Mib, add, add_pairs};
use knee_netns::Namespace;
use knee_netns::netlink::{LinkStats, Netlink, ROOT};

use super::host::DEVICE;
use crate::Error;
use crate::error::failed;

/// Counters of the kernel in the namespaces of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteCounts {
    pub hosts: Vec<HostCounts>,
    /// Packets that the kernel dropped on their way to or from the switch, where no queue is modelled: at devices, and in the
    /// backlogs of CPUs as far as they came from these devices.
    pub dropped_outside_queues: u64,
    /// Packets that the backlogs of all CPUs dropped, of any device: the difference of two readings shows whether the machine
    /// was too busy.
    pub machine_backlog_dropped: u64,
}

/// Counters of one host: its MIBs (`/proc/net/netstat`, `/proc/net/snmp`) under the kernel's names, and its shaper.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostCounts {
    /// `TCPTimeouts`, `TCPLossProbes`, `InCEPkts`, ...: those that are not zero. IPv6's are as in `/proc/net/snmp6`, such as
    /// `Ip6InCEPkts`.
    pub mib: Mib,
    /// Packets that its own queue has dropped, a modelled one.
    pub egress_dropped_pkts: u64,
    /// CPU time of the thread that does its receiving work, ns; `None`: no thread does ([`Offloads`](super::Offloads) on and a
    /// `gro_window`), or the kernel does not tell.
    pub receive_cpu_ns: Option<u64>,
}

/// Reads them all.
pub(super) fn of(
    switch: &Namespace,
    hosts: &[Namespace],
    ports: &[u32],
    receive_threads: impl Iterator<Item = Option<u32>>,
) -> Result<SiteCounts, Error> {
    let far = switch.run(|| Netlink::open()?.link_stats()).map_err(failed("figures of ports"))?;
    let far: BTreeMap<u32, LinkStats> = far.into_iter().collect();
    let mut counts =
        SiteCounts { machine_backlog_dropped: backlog_dropped()?, ..SiteCounts::default() };
    for ((host, port), thread) in hosts.iter().zip(ports).zip(receive_threads) {
        let (mut host, near) = host.run(of_host)?;
        host.receive_cpu_ns = thread.and_then(cpu_ns);
        let far = far.get(port).copied().unwrap_or_default();
        // What does not get in is counted where it came from, and by some ways also where it was to go.
        counts.dropped_outside_queues += near.tx_dropped_pkts.max(far.rx_dropped_pkts)
            + far.tx_dropped_pkts.max(near.rx_dropped_pkts);
        counts.hosts.push(host);
    }
    Ok(counts)
}

/// Counters of the calling thread's namespace.
fn of_host() -> Result<(HostCounts, LinkStats), Error> {
    let netlink = Netlink::open().map_err(failed("the kernel opens no netlink socket"))?;
    let index = netlink.index_of(DEVICE).map_err(failed("figures of a host's device"))?;
    let queues = netlink.queue_stats().map_err(failed("figures of queues"))?;
    let root = queues.iter().find(|queue| queue.index == index && queue.parent == ROOT);
    let links = netlink.link_stats().map_err(failed("figures of a host's device"))?;
    let link = links.iter().find(|(number, _)| *number == index);
    let counts = HostCounts {
        mib: mib()?,
        egress_dropped_pkts: root.map_or(0, |root| root.dropped_pkts),
        receive_cpu_ns: None,
    };
    Ok((counts, link.map(|(_, stats)| *stats).unwrap_or_default()))
}

/// The MIBs of the namespace of the calling thread.
fn mib() -> Result<Mib, Error> {
    // Not /proc/net, which is that of the whole process.
    let read = |name: &str| {
        let path = format!("/proc/thread-self/net/{name}");
        fs::read_to_string(&path).map_err(failed(path))
    };
    let mut mib = Mib::new();
    add_pairs(&mut mib, &read("snmp")?);
    add_pairs(&mut mib, &read("netstat")?);
    // A kernel without IPv6 has none.
    for line in read("snmp6").unwrap_or_default().lines() {
        if let Some((name, count)) = line.split_once(char::is_whitespace) {
            if name.starts_with("Ip6") {
                add(&mut mib, name, count.trim());
            }
        }
    }
    Ok(mib)
}

/// The first word of its schedstat (CONFIG_SCHED_INFO): what the thread has run, soft interrupts that it ran included.
fn cpu_ns(thread: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{thread}/schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

fn backlog_dropped() -> Result<u64, Error> {
    let path = "/proc/net/softnet_stat";
    let text = fs::read_to_string(path).map_err(failed(path))?;
    Ok(dropped_of(&text))
}

/// A line per CPU; the second of its hexadecimal words.
fn dropped_of(softnet: &str) -> u64 {
    let of_cpu = |line: &str| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok();
    softnet.lines().filter_map(of_cpu).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_of_all_cpus_are_summed() {
        assert_eq!(dropped_of("0000ffff 0000000a 00000001\n00000001 00000010 00000000\n"), 26);
    }
}
