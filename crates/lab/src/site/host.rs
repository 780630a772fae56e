//! One host: its device and the far end, its queue, addresses, routes and neighbours.

use std::collections::BTreeSet;
use std::net::IpAddr;

use knee_netns::netlink::{
    self, Features, LinkSettings, Message, Netlink, Queue, ROOT, Route, VethEnd, set_link,
};
use knee_queue::Limit;
use knee_queue::time::Duration;

use super::settings::Setting;
use super::{SiteConfig, merging, offloads, settings};
use crate::Error;
use crate::error::failed;
use crate::plan::{Egress, Host, PREFIX_LEN_V4, PREFIX_LEN_V6, Plan};

/// A host's device.
pub(super) const DEVICE: &str = "knee";
/// The initial window that the kernel has without being told.
const STOCK_INITCWND_PKTS: u32 = 10;
/// Limit of a plain queue, where the plan has none: a veth takes all at once, so nothing waits.
const PLAIN_QUEUE_PKTS: u32 = 10_000;
/// Handle of the queue below [`ROOT`].
const HANDLE: u32 = 1 << 16;
/// A queue without limit; sums with it stay below the 32 bits in which the kernel counts.
const NO_LIMIT: u32 = 1 << 31;

/// Access to the switch's namespace, for the far ends of veth pairs.
pub(super) struct SwitchSide {
    netlink: Netlink,
    features: Features,
}

impl SwitchSide {
    /// Prepares the namespace of the calling thread for the far ends.
    pub(super) fn open() -> Result<SwitchSide, Error> {
        settings::keep_quiet(false);
        let netlink = Netlink::open().map_err(failed("the kernel opens no netlink socket"))?;
        Ok(SwitchSide { netlink, features: features()? })
    }
}

fn features() -> Result<Features, Error> {
    Features::open().map_err(failed(
        "the kernel does not report features of devices (CONFIG_ETHTOOL_NETLINK, Linux 5.6 or later)",
    ))
}

/// A host that has been set up.
pub(super) struct BuiltHost {
    pub(super) far_index: u32,
    pub(super) offloads: Vec<(&'static str, bool)>,
    pub(super) sysctls: Vec<Setting>,
    pub(super) receive_thread: Option<u32>,
}

/// Everything that a thread in the host's namespace needs to know.
pub(super) struct HostJob {
    host: Host,
    config: SiteConfig,
    port: usize,
    switch_tid: i32,
    neighbours: Vec<(IpAddr, [u8; 6])>,
}

impl HostJob {
    pub(super) fn new(
        plan: &Plan,
        config: &SiteConfig,
        (port, neighbours): (usize, &BTreeSet<usize>),
        switch_tid: i32,
    ) -> HostJob {
        let others = neighbours.iter().map(|other| &plan.hosts[*other]);
        HostJob {
            host: plan.hosts[port].clone(),
            config: config.clone(),
            port,
            switch_tid,
            neighbours: others.map(|other| (other.address, other.mac)).collect(),
        }
    }

    /// Sets up the namespace of the calling thread.
    pub(super) fn run(&self, far: &SwitchSide) -> Result<BuiltHost, Error> {
        let set = settings::set(&self.host.config)?;
        settings::keep_quiet(self.host.address.is_ipv6());
        let offloads = offloads::WantedOffloads::new(&self.config, &self.host.config);
        if let Some(cpu) = self.config.receive_cpu.filter(|_| !offloads.merges()) {
            settings::receive_on(cpu)?;
        }
        let near = Netlink::open().map_err(failed("the kernel opens no netlink socket"))?;
        let (index, far_index) = self.make_devices(&near, far)?;
        let near_features = features()?;
        offloads.set(&near_features, index, &far.features, far_index)?;
        self.queue(&near, index)?;
        self.switch_on(&near, index, far, far_index, &offloads)?;
        let receive_thread = match offloads.merges() {
            true => merging::start(index, self.host.config.gro_window, self.config.receive_cpu)?,
            false => None,
        };
        self.addresses(&near, index, set.rto_min_ms)?;
        let offloads = offloads::read(&near_features, index)?;
        Ok(BuiltHost { far_index, offloads, sysctls: set.read_back, receive_thread })
    }

    fn make_devices(&self, near: &Netlink, far: &SwitchSide) -> Result<(u32, u32), Error> {
        let settings = LinkSettings {
            mtu_bytes: Some(self.host.config.mtu_bytes),
            tx_queue_pkts: Some(PLAIN_QUEUE_PKTS),
            ..LinkSettings::default()
        };
        let far_name = format!("p{}", self.port);
        let one = VethEnd {
            name: DEVICE,
            namespace_of: None,
            settings: LinkSettings { mac: Some(self.host.mac), ..settings },
        };
        let other = VethEnd { name: &far_name, namespace_of: Some(self.switch_tid), settings };
        near.ask(&netlink::new_veth(&one, &other)).map_err(failed(format!(
            "the kernel makes no veth device with an MTU of {} (CONFIG_VETH)",
            self.host.config.mtu_bytes
        )))?;
        let index = near.index_of(DEVICE).map_err(failed("its device is not there"))?;
        let far_index = far.netlink.index_of(&far_name).map_err(failed("its port is not there"))?;
        Ok((index, far_index))
    }

    /// The host's own queue.
    fn queue(&self, near: &Netlink, index: u32) -> Result<(), Error> {
        let add = |handle, parent, queue: Queue| {
            near.ask(&netlink::add_queue(index, handle, parent, queue)).map_err(|why| {
                match queue {
                    Queue::Fq { .. } => Error::Refused(format!(
                        "fq = true: the kernel has no fq (CONFIG_NET_SCH_FQ): {why}; leave it out, or use --on sim"
                    )),
                    _ => Error::Failed(format!("the kernel does not take {queue:?}: {why}")),
                }
            })
        };
        let fq = self.host.config.fq;
        let Some(egress) = self.host.egress else {
            let plain = if fq { Queue::Fq { limit_pkts: NO_LIMIT } } else { Queue::PfifoFast };
            return add(HANDLE, ROOT, plain);
        };
        add(HANDLE, ROOT, shaper(&egress, self.config.shaper_slack))?;
        match egress.limit {
            limit if fq => add(0, HANDLE + 1, Queue::Fq { limit_pkts: limit_pkts(limit) }),
            Limit::Pkts(limit_pkts) => add(0, HANDLE + 1, Queue::Pfifo { limit_pkts }),
            // What the shaper has by itself.
            Limit::Bytes(_) => Ok(()),
        }
    }

    /// The far end comes up first: a device without carrier delays its addresses and routes.
    fn switch_on(
        &self,
        near: &Netlink,
        index: u32,
        far: &SwitchSide,
        far_index: u32,
        offloads: &offloads::WantedOffloads,
    ) -> Result<(), Error> {
        let on = LinkSettings { up: true, ..LinkSettings::default() };
        let quiet =
            LinkSettings { no_arp: true, gso_max_segs: Some(offloads.gso_max_segs()), ..on };
        let lo = near.index_of("lo").map_err(failed("its loopback is not there"))?;
        far.netlink.ask(&set_link(far_index, &on)).map_err(failed("its port"))?;
        near.ask_all(&[set_link(lo, &on), set_link(index, &quiet)])
            .map_err(failed("the kernel does not bring its devices up"))
    }

    fn addresses(&self, near: &Netlink, index: u32, rto_min_ms: Option<u32>) -> Result<(), Error> {
        let (own, initcwnd_pkts) = (self.host.address, self.host.config.initial_cwnd_pkts);
        let prefix_len = if own.is_ipv4() { PREFIX_LEN_V4 } else { PREFIX_LEN_V6 };
        let route = Route {
            to: own,
            prefix_len,
            from: Some(own),
            initcwnd_pkts: (initcwnd_pkts != STOCK_INITCWND_PKTS).then_some(initcwnd_pkts),
            rto_min_ms,
        };
        near.ask(&netlink::add_address(index, own, prefix_len, false))
            .map_err(failed(format!("the kernel does not set its address {own}")))?;
        near.ask(&netlink::add_route(&[index], &route))
            .map_err(failed("the kernel does not add its route"))?;
        let neighbour = |(ip, mac): &(IpAddr, [u8; 6])| netlink::add_neighbour(index, *ip, *mac);
        let neighbours: Vec<Message> = self.neighbours.iter().map(neighbour).collect();
        near.ask_all(&neighbours).map_err(failed("the kernel does not add its neighbours"))
    }
}

fn shaper(egress: &Egress, slack: Duration) -> Queue {
    let limit_bytes = match egress.limit {
        Limit::Bytes(limit) => u32::try_from(limit).unwrap_or(NO_LIMIT).min(NO_LIMIT),
        Limit::Pkts(_) => NO_LIMIT,
    };
    let rate_bytes_per_sec = egress.rate.bps() / 8;
    let slack_bytes = rate_bytes_per_sec as f64 * slack.as_secs_f64();
    let burst_bytes = egress.burst_bytes.saturating_add(slack_bytes as u32).min(NO_LIMIT);
    let overhead_bytes = u16::try_from(egress.overhead_bytes).unwrap_or(u16::MAX);
    Queue::Tbf { rate_bytes_per_sec, burst_bytes, overhead_bytes, limit_bytes }
}

fn limit_pkts(limit: Limit) -> u32 {
    match limit {
        Limit::Pkts(limit) => limit,
        Limit::Bytes(_) => NO_LIMIT,
    }
}
