//! What is drawn and found before a run starts. All domains of a run share it.

use crate::balance;
use crate::clock::Jiffies;
use crate::events;
use crate::paths::{CHOOSE, too_long};
use crate::stop::Stop;
use knee_queue::time::{Duration, PS_PER_S};
use knee_run::Error;
use knee_run::balance::NextHops;
use knee_run::routes::{PATH_END, Routes, no_path};
use knee_run::spec::{HostConfig, LinkId, Network, NodeId, Run};
use knee_units::Random;
use std::sync::Arc;

/// Start of the path there, and of the path back.
pub(crate) type PathStarts = (u32, u32);

/// The draws and paths of a run.
pub(crate) struct Plan {
    /// The clock of each host with a socket, in the order of nodes.
    clocks: Vec<(NodeId, Jiffies)>,
    pub(crate) hashes: Vec<u64>,
    pub(crate) ping_hashes: Vec<u64>,
    pub(crate) of_flows: Vec<PathStarts>,
    pub(crate) of_pings: Vec<PathStarts>,
    /// Next links of switches that choose packet by packet; `None` if there are none.
    pub(crate) hops: Option<Arc<NextHops>>,
    /// The links of all paths, each with [`PATH_END`] at its end; see [`balance`] for switches that choose.
    pub(crate) paths: Arc<[u32]>,
    /// Seeds of the links that draw or may begin to, in the order of links.
    link_seeds: Vec<(LinkId, u64)>,
    /// Seed of what sockets draw.
    pub(crate) sock_seed: u64,
}

impl Plan {
    /// Draws and finds what the run needs.
    ///
    /// # Errors
    /// If there is no path between the hosts of a flow or ping, or if there are too many links.
    pub(crate) fn new(run: &Run, stop: Stop<'_>) -> Result<Plan, Error> {
        let network = &run.network;
        events::check_links(network.links.len())?;
        let mut random = Random::new(run.seed);
        let clocks = clocks(run, &mut random);
        let mut routes = Routes::new(network);
        let is_balanced = !network.balance.is_empty();
        let mut paths = if is_balanced { balance::paths(run) } else { Vec::new() };
        let ways = run.flows.len() + run.pings.len();
        let check = || stop.check(0, || format!("the routes and paths of {ways} flows (network)"));
        let mut path = |from, to, hash| -> Result<u32, Error> {
            check()?;
            let name = |node: NodeId| &*network.nodes[node as usize].name;
            let links = routes.path(from, to, hash).ok_or_else(|| no_path(name(from), name(to)))?;
            if let (true, Some(first)) = (is_balanced, links.first()) {
                return Ok(balance::path_by(*first));
            }
            let start = u32::try_from(paths.len()).map_err(|_| too_long())?;
            paths.extend(links);
            paths.push(PATH_END);
            Ok(start)
        };
        let mut hashes = Vec::with_capacity(run.flows.len());
        let mut both_ways = |from, to, hash| Ok((path(from, to, hash)?, path(to, from, hash)?));
        let mut of_flows = Vec::with_capacity(run.flows.len());
        for flow in &run.flows {
            let hash = random.u64();
            hashes.push(hash);
            of_flows.push(both_ways(flow.from, flow.to, hash)?);
        }
        let ping_hashes: Vec<u64> = run.pings.iter().map(|_| random.u64()).collect();
        let of_pings = run.pings.iter().zip(&ping_hashes);
        let of_pings = of_pings.map(|(ping, hash)| both_ways(ping.from, ping.to, *hash));
        let of_pings = of_pings.collect::<Result<_, Error>>()?;
        let hops = is_balanced.then(|| Arc::new(balance::next_hops((run, stop), &mut routes)));
        check()?;
        drop(routes);
        Ok(Plan {
            clocks,
            hashes,
            ping_hashes,
            of_flows,
            of_pings,
            hops,
            paths: paths.into(),
            link_seeds: link_seeds(network, &mut random),
            sock_seed: random.u64(),
        })
    }
}

impl Plan {
    /// Returns the clock of a host with a socket.
    pub(crate) fn clock(&self, node: NodeId) -> Option<Jiffies> {
        let at = self.clocks.binary_search_by_key(&node, |(node, _)| *node).ok()?;
        Some(self.clocks[at].1)
    }

    /// Returns the seed of what a link draws; 0 for a link that draws nothing.
    pub(crate) fn link_seed(&self, link: LinkId) -> u64 {
        let at = self.link_seeds.binary_search_by_key(&link, |(link, _)| *link);
        at.map_or(0, |at| self.link_seeds[at].1)
    }

    /// Iterates over the links of a path, up to the first switch that chooses.
    pub(crate) fn links(&self, start: u32) -> impl Iterator<Item = u32> + Clone {
        self.paths[start as usize..].iter().copied().take_while(|link| *link < CHOOSE)
    }
}

/// Draws a seed for each link, and returns those that links use.
fn link_seeds(network: &Network, random: &mut Random) -> Vec<(LinkId, u64)> {
    let mut changing: Vec<LinkId> = network.changes.links.iter().map(|it| it.link).collect();
    changing.sort_unstable();
    let seeds = (0..).zip(&network.links).filter_map(|(id, link)| {
        let seed = random.u64();
        let is_used = link.draws() || changing.binary_search(&id).is_ok();
        is_used.then_some((id, seed))
    });
    seeds.collect()
}

/// Draws the clock of each host, and returns those of hosts with a socket.
fn clocks(run: &Run, random: &mut Random) -> Vec<(NodeId, Jiffies)> {
    let nodes = &run.network.nodes;
    let mut has_socket = vec![false; nodes.len()];
    for node in run.flows.iter().flat_map(|flow| [flow.from, flow.to]) {
        has_socket[node as usize] = true;
    }
    let hosts = (0..).zip(nodes).filter_map(|(node, it)| Some((node, it.host.as_ref()?)));
    let clocks = hosts.map(|(node, host)| (node, clock(host, random)));
    clocks.filter(|(node, _)| has_socket[*node as usize]).collect()
}

/// Draws what a host's clock shows at the start.
fn clock(host: &HostConfig, random: &mut Random) -> Jiffies {
    let drawn = random.u64();
    let tick_ps = PS_PER_S / u64::from(host.hz);
    let (at_start, phase) = match host.jiffies_at_start {
        Some(at_start) => (at_start, Duration::ZERO),
        None => ((drawn >> 40) as u32, Duration::from_ps(random.below(tick_ps))),
    };
    Jiffies::new(host.hz, at_start, phase)
}
