//! What is drawn and found before a run starts. All domains of a run share it.

use crate::clock::Jiffies;
use crate::random::Random;
use knee_queue::time::{Duration, PS_PER_S};
use knee_run::Error;
use knee_run::routes::{PATH_END, Routes};
use knee_run::spec::{HostConfig, Run};
use std::sync::Arc;

/// Start of the path there, and of the path back.
pub(crate) type PathStarts = (u32, u32);

/// The draws and paths of a run.
pub(crate) struct Plan {
    /// The clock of each node; `None` for switches.
    pub(crate) clocks: Vec<Option<Jiffies>>,
    /// Hash of each flow.
    pub(crate) hashes: Vec<u64>,
    pub(crate) of_flows: Vec<PathStarts>,
    pub(crate) of_pings: Vec<PathStarts>,
    /// The links of all paths, each with [`PATH_END`] at its end.
    pub(crate) paths: Arc<[u32]>,
    pub(crate) link_seeds: Vec<u64>,
    /// Seed of what sockets draw.
    pub(crate) sock_seed: u64,
}

impl Plan {
    /// Draws and finds what the run needs.
    ///
    /// # Errors
    /// If there is no path between the hosts of a flow or ping.
    pub(crate) fn new(run: &Run) -> Result<Plan, Error> {
        let network = &run.network;
        let mut random = Random::new(run.seed);
        let clocks = network.nodes.iter();
        let clocks = clocks.map(|node| node.host.as_ref().map(|host| clock(host, &mut random)));
        let clocks = clocks.collect();
        let mut routes = Routes::new(network);
        let mut paths = Vec::new();
        let mut path = |from, to, hash| -> Result<u32, Error> {
            let start = paths.len() as u32;
            paths.extend(routes.path(from, to, hash)?);
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
        let of_pings = run.pings.iter().map(|ping| both_ways(ping.from, ping.to, random.u64()));
        let of_pings = of_pings.collect::<Result<_, Error>>()?;
        drop(routes);
        Ok(Plan {
            clocks,
            hashes,
            of_flows,
            of_pings,
            paths: paths.into(),
            link_seeds: network.links.iter().map(|_| random.u64()).collect(),
            sock_seed: random.u64(),
        })
    }
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
