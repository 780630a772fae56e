//! Plan of a run in the lab: hosts with addresses and egress shapers, and the switch's network.

use std::net::IpAddr;

use knee_queue::time::Rate;
use knee_queue::{DropTailConfig, ETHERNET_BYTES, Limit, QueueConfig};
use knee_run::Run;
pub use knee_run::addresses::{PREFIX_LEN_V4, PREFIX_LEN_V6};
use knee_run::addresses::{address, mac};
use knee_run::spec::{HostConfig, Link, Network, NodeId, Serialisation};

use crate::Error;
use crate::applications::check;
use crate::settings::{self, Hosts};

/// Hosts that fit: one octet of their addresses is not enough, but namespaces are heavy.
const MAX_HOSTS: usize = 1000;

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
        knee_sim::fabric::supports(&run.network)?;
        check(run)?;
        knee_run::without_tasks(run)?;
        let mut network = run.network.clone();
        let nodes = network.nodes.iter().zip(0..);
        let hosts: Vec<(NodeId, &str, &HostConfig)> =
            nodes.filter_map(|(node, id)| Some((id, &*node.name, node.host.as_deref()?))).collect();
        if hosts.len() > MAX_HOSTS {
            return Err(Error::Refused(format!(
                "{} hosts: the lab runs at most {MAX_HOSTS}; use --on sim",
                hosts.len()
            )));
        }
        if let Some(link) = network.links.iter().find(|link| link.loses_bursts && link.loss > 0.0) {
            return Err(Error::Refused(format!(
                "link {}: the lab's switch loses packets, not bursts: leave loss_per out, or use --on sim",
                network.link_name(link)
            )));
        }
        let mut planned = Vec::with_capacity(hosts.len());
        for (number, (node, name, config)) in hosts.into_iter().enumerate() {
            check_host(name, config)?;
            let mut out = (0..network.links.len()).filter(|id| network.links[*id].from == node);
            let id = out.next().ok_or_else(|| Error::Refused(format!("{name} has no link")))?;
            if out.next().is_some() {
                return Err(Error::Refused(format!(
                    "{name} has several links: a host of the lab has one; use --on sim"
                )));
            }
            let link_name = network.link_name(&network.links[id]);
            let link = &mut network.links[id];
            planned.push(Host {
                node,
                name: name.to_owned(),
                address: address(number, config.ipv6),
                mac: mac(number),
                config: config.clone(),
                egress: take_egress(link, &link_name, config.mtu_bytes + ETHERNET_BYTES)?,
            });
        }
        Ok(Plan { hosts: planned, network })
    }
}

fn check_host(name: &str, config: &HostConfig) -> Result<(), Error> {
    settings::check(name, config, Hosts::Namespaces)?;
    let refuse = |what: &str| Err(Error::Refused(format!("{name}: {what}")));
    if config.mtu_bytes > 9000 {
        return refuse(
            "the lab's switch supports an MTU of at most 9000: set hosts.mtu, or use --on sim",
        );
    }
    Ok(())
}

/// The shaper of a host's egress. The link keeps all but the limit of its queue.
fn take_egress(link: &mut Link, name: &str, frame_bytes: u32) -> Result<Option<Egress>, Error> {
    let Some(rate) = link.rate else { return Ok(None) };
    let limit = match &link.queue {
        QueueConfig::DropTail(DropTailConfig { limit }) => *limit,
        _ => {
            return Err(Error::Refused(format!(
                "link {name}: a host's own queue is a tbf in the lab, which does not mark: give it kind = \"droptail\", or \
                 use --on sim"
            )));
        }
    };
    if link.sampled {
        return Err(Error::Refused(format!(
            "link {name}: the lab does not record a host's own queue, which is in the kernel: leave record out, or use \
             --on sim"
        )));
    }
    link.queue = QueueConfig::DropTail(DropTailConfig { limit: Limit::Bytes(u64::MAX) });
    let burst_bytes = match link.serialisation {
        Serialisation::TokenBucket { burst_bytes } => burst_bytes,
        Serialisation::StoreAndForward => frame_bytes,
    };
    let overhead_bytes = link.overhead_bytes;
    Ok(Some(Egress { rate, burst_bytes, overhead_bytes, limit }))
}
