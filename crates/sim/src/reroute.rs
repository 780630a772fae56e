//! Routes that avoid failed links.
//!
//! A flow whose path has a link that routes avoid takes another path, the one that its hash picks
//! among the shortest ones left. All others stay on theirs. Every domain does the same at the same
//! time with all flows, so positions in the list of paths mean the same everywhere.

use knee_queue::time::Time;
use knee_run::routes::{PATH_END, Routes};
use knee_run::spec::{LinkId, NodeId, RouteChange, Run};
use std::collections::HashSet;

/// A direction of a flow or of a ping stream.
#[derive(Clone, Copy, Debug)]
struct Way {
    from: NodeId,
    to: NodeId,
    hash: u64,
    /// Start of its path while no link of that is avoided.
    home: u32,
}

/// The routes that change in a run.
#[derive(Debug)]
pub(crate) struct Reroutes {
    steps: Vec<RouteChange>,
    next: usize,
    avoided: HashSet<LinkId>,
    /// One for each socket.
    socks: Vec<Way>,
    /// Two for each ping stream: there and back.
    pings: Vec<Way>,
}

impl Reroutes {
    /// Creates the state; `None` if routes do not change. `hashes` are those of flows, then of pings.
    pub(crate) fn new(
        run: &Run,
        hashes: &[u64],
        sock_paths: impl Iterator<Item = u32>,
        ping_paths: &[(u32, u32)],
    ) -> Option<Box<Reroutes>> {
        let steps = run.network.changes.routes.clone();
        if steps.is_empty() {
            return None;
        }
        let (of_flows, of_pings) = hashes.split_at(run.flows.len());
        let ends = run.flows.iter().zip(of_flows);
        let ends =
            ends.flat_map(|(flow, hash)| [(flow.from, flow.to, hash), (flow.to, flow.from, hash)]);
        let socks = ends.zip(sock_paths);
        let socks = socks.map(|((from, to, hash), home)| Way { from, to, hash: *hash, home });
        let pings = run.pings.iter().zip(of_pings).zip(ping_paths);
        let pings = pings.flat_map(|((ping, hash), (there, back))| {
            let (from, to, hash) = (ping.from, ping.to, *hash);
            [Way { from, to, hash, home: *there }, Way { from: to, to: from, hash, home: *back }]
        });
        Some(Box::new(Reroutes {
            steps,
            next: 0,
            avoided: HashSet::new(),
            socks: socks.collect(),
            pings: pings.collect(),
        }))
    }

    /// Returns the times at which routes change.
    pub(crate) fn times(&self) -> Vec<Time> {
        let mut times: Vec<Time> = self.steps.iter().map(|step| step.at).collect();
        times.dedup();
        times
    }

    /// A socket has another hash, and with it another path.
    pub(crate) fn note_hash(&mut self, sock: u32, hash: u64, path: u32) {
        if let Some(way) = self.socks.get_mut(sock as usize) {
            (way.hash, way.home) = (hash, path);
        }
    }

    /// Takes over the changes that are due: routes avoid other links from now on.
    pub(crate) fn take_due(&mut self, now: Time, run: &Run, routes: &mut Routes) {
        while let Some(step) = self.steps.get(self.next).filter(|step| step.at <= now) {
            match step.avoids {
                true => self.avoided.insert(step.link),
                false => self.avoided.remove(&step.link),
            };
            self.next += 1;
        }
        routes.avoid(&run.network, &self.avoided);
    }

    /// Returns where the paths of all sockets begin now.
    pub(crate) fn sock_paths(&self, paths: &mut Vec<u32>, routes: &mut Routes) -> Vec<u32> {
        self.socks.iter().map(|way| self.path_of(*way, paths, routes)).collect()
    }

    /// Returns where the paths of all ping streams begin now, there and back.
    pub(crate) fn ping_paths(&self, paths: &mut Vec<u32>, routes: &mut Routes) -> Vec<(u32, u32)> {
        let mut path = |way: Way| self.path_of(way, paths, routes);
        self.pings.chunks_exact(2).map(|ways| (path(ways[0]), path(ways[1]))).collect()
    }

    /// Returns where the path of a way begins now. Without another path it is the one that fails.
    fn path_of(&self, way: Way, paths: &mut Vec<u32>, routes: &mut Routes) -> u32 {
        let mut home = paths[way.home as usize..].iter().take_while(|link| **link != PATH_END);
        if !home.any(|link| self.avoided.contains(link)) {
            return way.home;
        }
        match routes.path(way.from, way.to, way.hash) {
            Ok(links) => routes.place(paths, links),
            Err(_) => way.home,
        }
    }
}
