//! Namespaces, devices, shapers, routes, sysctls and offloads of a run.
//!
//! Every host is a namespace with one veth device, `knee`, whose far end `p0`, `p1`, ... is in the namespace of the switch. Both
//! ends are silent: hosts know the MAC addresses of all others from the start (their devices do without ARP and neighbour
//! discovery), and the switch's ends have no address. Names and numbers are seen inside these namespaces only.

mod counts;
mod host;
pub mod machine;
mod merging;
mod offloads;
pub(crate) mod settings;

use std::collections::BTreeSet;

use knee_netns::Namespace;
use knee_queue::time::Duration;

use self::host::{BuiltHost, HostJob, SwitchSide};
use crate::Error;
use crate::plan::Plan;

pub use counts::{HostCounts, SiteCounts};

/// Offloads of the hosts' network devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offloads {
    /// None: every frame is one packet, as queues count them.
    Off,
    /// Segmentation and merging (TSO, GSO, GRO) as hosts are configured; the switch cuts large frames.
    On,
}

/// Sixteen frames at 1 Gbps, one and a half at 100 Mbps.
const SHAPER_SLACK: Duration = Duration::from_us(200);

/// Settings of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteConfig {
    /// Segmentation and merging offloads of the devices.
    pub offloads: Offloads,
    /// Whether hosts leave checksums to the device; a veth computes none.
    pub tx_checksum: bool,
    /// The CPU that does the hosts' receiving work; `None`: the one on which the switch sends.
    pub receive_cpu: Option<usize>,
    /// How late the shapers' timers may be without costing rate: their buckets are deeper by what goes through in this time. As
    /// much may leave a host at once, where a real link would have spaced it.
    pub shaper_slack: Duration,
    /// Ports of hosts that talk to each other; `None`: each with each, which takes time and memory with the square of their
    /// number.
    pub pairs: Option<Vec<(usize, usize)>>,
}

impl SiteConfig {
    /// With checksums left out, nothing said about CPUs and pairs, and shapers that hold their rates.
    ///
    /// A bucket of one frame does not: on a machine of two busy virtual cores one of 1600 bytes carried 475 Mbps of the
    /// 1000 that it was set to, two frames 916, four 982, and twelve 999.
    pub fn new(offloads: Offloads) -> SiteConfig {
        SiteConfig {
            offloads,
            tx_checksum: true,
            receive_cpu: None,
            shaper_slack: SHAPER_SLACK,
            pairs: None,
        }
    }
}

/// Ports that exchange packets with each port.
fn neighbours(ports: usize, pairs: Option<&[(usize, usize)]>) -> Vec<BTreeSet<usize>> {
    let Some(pairs) = pairs else {
        let others = |port| (0..ports).filter(|other| *other != port).collect();
        return (0..ports).map(others).collect();
    };
    let mut neighbours = vec![BTreeSet::new(); ports];
    for (from, to) in pairs.iter().filter(|(from, to)| *from < ports && *to < ports) {
        neighbours[*from].insert(*to);
        neighbours[*to].insert(*from);
    }
    neighbours
}

/// The namespaces of a run, with everything in them. All is gone when this is dropped.
pub struct Site {
    hosts: Vec<Namespace>,
    switch: Namespace,
    ports: Vec<u32>,
    set: Vec<BuiltHost>,
}

impl Site {
    /// Makes the hosts of a plan, each joined to the namespace of the switch.
    ///
    /// # Errors
    /// What the kernel lacks or refuses.
    pub fn build(plan: &Plan, config: &SiteConfig) -> Result<Site, Error> {
        for host in &plan.hosts {
            settings::check(&host.config).map_err(|why| why.at(&host.name))?;
        }
        let switch = namespace()?;
        let mut far = switch.run(SwitchSide::open)?;
        let mut site = Site { hosts: Vec::new(), switch, ports: Vec::new(), set: Vec::new() };
        let neighbours = neighbours(plan.hosts.len(), config.pairs.as_deref());
        let config = SiteConfig { pairs: None, ..config.clone() };
        for (port, neighbours) in neighbours.iter().enumerate() {
            let job = HostJob::new(plan, &config, (port, neighbours), site.switch.tid());
            let host = namespace()?;
            let name = plan.hosts[port].name.clone();
            let set;
            (set, far) = host.run(move || (job.run(&far), far));
            let set = set.map_err(|why| why.at(&name))?;
            site.hosts.push(host);
            site.ports.push(set.far_index);
            site.set.push(set);
        }
        Ok(site)
    }

    /// A host's namespace, by its place in the plan.
    pub fn host(&self, port: usize) -> &Namespace {
        &self.hosts[port]
    }

    /// The namespace of the switch.
    pub fn switch(&self) -> &Namespace {
        &self.switch
    }

    /// Numbers of the devices in the switch's namespace, by port.
    pub fn ports(&self) -> &[u32] {
        &self.ports
    }

    /// Features of a host's device that [`Offloads`] covers, by the kernel's names, as read back from the kernel.
    pub fn offloads(&self, port: usize) -> &[(&'static str, bool)] {
        &self.set[port].offloads
    }

    /// The sysctls of a host that were set, as the kernel has them: `net.ipv4.tcp_ecn`, ...
    pub fn sysctls(&self, port: usize) -> Vec<(String, String)> {
        let set = &self.set[port].sysctls;
        set.iter().map(|(key, value)| (settings::name(key), value.clone())).collect()
    }

    /// What the kernel has counted so far.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn counts(&self) -> Result<SiteCounts, Error> {
        let threads = self.set.iter().map(|set| set.receive_thread);
        counts::of(&self.switch, &self.hosts, &self.ports, threads)
    }
}

fn namespace() -> Result<Namespace, Error> {
    Namespace::new().map_err(|why| {
        Error::Failed(format!(
            "the kernel creates no network namespace: {why}; the lab needs root (CAP_SYS_ADMIN and CAP_NET_ADMIN): use \
             sudo, or --on sim"
        ))
    })
}
