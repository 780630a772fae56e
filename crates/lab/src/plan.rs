//! Plan of a run in the lab: hosts with addresses and egress shapers, and the switch's network.

use std::net::IpAddr;

use knee_queue::time::Rate;
use knee_queue::{DropTailConfig, ETHERNET_BYTES, Limit, QueueConfig};
use knee_run::Run;
pub use knee_run::addresses::{PREFIX_LEN_V4, PREFIX_LEN_V6};
use knee_run::addresses::{address, mac};
use knee_run::spec::{HostConfig, Link, Network, NodeId, Serialisation};
use knee_run::support::{self, On};

use crate::Error;

/// A run as hosts and the network between them.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Hosts in the order of their nodes; the index of a host is its port at the switch.
    pub hosts: Vec<Host>,
    /// The switch's network: that of the run, with no queue limit on the hosts' own links, whose queues are in the egress shapers.
    pub network: Network,
}

/// A host of the lab.
#[derive(Clone, Debug)]
pub struct Host {
    /// Node in the run's network.
    pub node: NodeId,
    /// Name in results.
    pub name: String,
    /// IP address. All hosts are in one subnet.
    pub address: IpAddr,
    /// MAC address of its device.
    pub mac: [u8; 6],
    /// Sysctls and offloads asked for.
    pub config: HostConfig,
    /// Shaper of its egress; `None`: the link has no rate.
    pub egress: Option<Egress>,
}

/// A `tbf` at a host's device, which holds packets back so that the host's queue and TCP small queues act as above a real device.
/// The site makes its bucket deeper ([`SiteConfig::shaper_slack`](crate::site::SiteConfig)), and behind it the switch has the link
/// itself, which spaces the packets again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Egress {
    /// Rate, Ethernet header counted.
    pub rate: Rate,
    /// Depth of the link's own bucket.
    pub burst_bytes: u32,
    /// Bytes added to each frame's length.
    pub overhead_bytes: u32,
    /// Limit of the queue.
    pub limit: Limit,
}

impl Plan {
    /// Turns a run into a plan.
    ///
    /// # Errors
    /// If the lab cannot run it, with the way out.
    pub fn new(run: &Run) -> Result<Plan, Error> {
        support::check(run, On::Lab)?;
        knee_sim::fabric::supports(&run.network)?;
        let mut network = run.network.clone();
        let nodes = network.nodes.iter().zip(0..);
        let hosts: Vec<(NodeId, &str, &HostConfig)> =
            nodes.filter_map(|(node, id)| Some((id, &*node.name, node.host.as_deref()?))).collect();
        let mut planned = Vec::with_capacity(hosts.len());
        for (number, (node, name, config)) in hosts.into_iter().enumerate() {
            let mut out = (0..network.links.len()).filter(|id| network.links[*id].from == node);
            let id = out.next().ok_or_else(|| Error::Refused(format!("{name} has no link")))?;
            if out.next().is_some() {
                return Err(Error::Refused(format!(
                    "{name} has several links: a host of the lab has one; use --on sim"
                )));
            }
            let link = &mut network.links[id];
            planned.push(Host {
                node,
                name: name.to_owned(),
                address: address(number, config.ipv6),
                mac: mac(number),
                config: config.clone(),
                egress: take_egress(link, config.mtu_bytes + ETHERNET_BYTES),
            });
        }
        Ok(Plan { hosts: planned, network })
    }
}

/// The shaper of a host's egress. The link keeps all but the limit of its queue.
fn take_egress(link: &mut Link, frame_bytes: u32) -> Option<Egress> {
    let rate = link.rate?;
    let limit = link.queue.limit().unwrap_or(Limit::Bytes(u64::MAX));
    link.queue = QueueConfig::DropTail(DropTailConfig { limit: Limit::Bytes(u64::MAX) });
    let burst_bytes = match link.serialisation {
        Serialisation::TokenBucket { burst_bytes } => burst_bytes,
        Serialisation::StoreAndForward => frame_bytes,
    };
    let overhead_bytes = link.overhead_bytes;
    Some(Egress { rate, burst_bytes, overhead_bytes, limit })
}
