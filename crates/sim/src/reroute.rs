//! Routes that avoid failed links.
//!
//! A flow whose path has a link that routes avoid takes another path, the one that its hash picks
//! among the shortest ones left. All others stay on theirs. Every domain does that at the same time with
//! its sockets.

use crate::paths::Paths;
use knee_queue::time::Time;
use knee_run::routes::Routes;
use knee_run::spec::{LinkId, NodeId, RouteChange, Run};
use std::collections::HashSet;

/// Hash of each flow, and the starts of its paths there and back.
type Hashed<'a> = (&'a [u64], &'a [(u32, u32)]);

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
    /// Creates the state; `None` if routes do not change. Of flows and of ping streams it takes the hashes,
    /// and the starts of the paths there and back.
    pub(crate) fn new(run: &Run, [flows, pings]: [Hashed<'_>; 2]) -> Option<Box<Reroutes>> {
        let steps = run.network.changes.routes.clone();
        if steps.is_empty() {
            return None;
        }
        let both = |(from, to), hash, (there, back)| {
            [Way { from, to, hash, home: there }, Way { from: to, to: from, hash, home: back }]
        };
        let socks = run.flows.iter().zip(flows.0.iter().zip(flows.1));
        let socks =
            socks.flat_map(|(flow, (hash, starts))| both((flow.from, flow.to), *hash, *starts));
        let of_pings = run.pings.iter().zip(pings.0.iter().zip(pings.1));
        let pings =
            of_pings.flat_map(|(ping, (hash, starts))| both((ping.from, ping.to), *hash, *starts));
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

    /// Returns where the path of a socket begins now.
    pub(crate) fn sock_path(&self, sock: u32, paths: &mut Paths, routes: &mut Routes) -> u32 {
        self.path_of(self.socks[sock as usize], paths, routes)
    }

    /// Returns where the paths of all ping streams begin now, there and back.
    pub(crate) fn ping_paths(&self, paths: &mut Paths, routes: &mut Routes) -> Vec<(u32, u32)> {
        let mut path = |way: Way| self.path_of(way, paths, routes);
        self.pings.chunks_exact(2).map(|ways| (path(ways[0]), path(ways[1]))).collect()
    }

    /// Returns where the path of a way begins now. Without another path it is the one that fails.
    fn path_of(&self, way: Way, paths: &mut Paths, routes: &mut Routes) -> u32 {
        if !paths.links(way.home).any(|link| self.avoided.contains(&link)) {
            return way.home;
        }
        match routes.path(way.from, way.to, way.hash) {
            Some(links) => paths.add(links).unwrap_or(way.home),
            None => way.home,
        }
    }
}
