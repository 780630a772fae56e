//! The least time that a transfer can take: what it would take alone, with a window that never limits.

use crate::Error;
use crate::routes::{Routes, no_path};
use crate::spec::{HEADER_BYTES, Network, NodeId, Serialisation};
use knee_queue::time::{Duration, PS_PER_S, Rate};
use std::cmp::Reverse;
use std::collections::HashMap;

/// Least times of transfers over one network.
pub struct Ideal<'a> {
    network: &'a Network,
    routes: Routes,
    known: HashMap<(NodeId, NodeId), PathProperties>,
}

/// Properties of the path between two hosts that decide the ideal time.
#[derive(Clone, Copy)]
struct PathProperties {
    /// Propagation there and back.
    base_rtt: Duration,
    /// Propagation delay of the forward path.
    delay: Duration,
    /// The slowest link; `None`: no link has a rate.
    bottleneck: Option<Bottleneck>,
}

/// The slowest link of a way.
#[derive(Clone, Copy)]
struct Bottleneck {
    rate: Rate,
    /// Depth of the token bucket, bytes.
    at_once_bytes: u32,
    /// Beside each frame.
    overhead_bytes: u32,
}

impl<'a> Ideal<'a> {
    /// Prepares paths of a network.
    pub fn new(network: &'a Network) -> Ideal<'a> {
        Ideal { network, routes: Routes::new(network), known: HashMap::new() }
    }

    /// From `connect()` to the last of `bytes`: a round trip for the handshake, then all of it at the rate of the slowest
    /// link, headers included, and the way there. Propagation alone counts for small packets, and of several equally
    /// short paths any one is taken.
    ///
    /// # Errors
    /// If there is no way.
    pub fn transfer(&mut self, from: NodeId, to: NodeId, bytes: u64) -> Result<Duration, Error> {
        let way = self.way(from, to)?;
        Ok(way.base_rtt + self.sending(from, way, bytes) + way.delay)
    }

    /// How long bytes and their headers take at the rate of the slowest link.
    fn sending(&self, from: NodeId, way: PathProperties, bytes: u64) -> Duration {
        let host = self.network.nodes.get(from as usize).and_then(|node| node.host.as_ref());
        let (extra, mss) = host.map_or((0, 1), |h| (h.extra_header_bytes(), h.mss_bytes()));
        let header_bytes = u64::from(HEADER_BYTES + extra);
        let frames = bytes.div_ceil(u64::from(mss.max(1)));
        let sending = way.bottleneck.map_or(0, |slowest| {
            let wire_bytes = bytes + frames * (header_bytes + u64::from(slowest.overhead_bytes));
            let bits = u128::from(wire_bytes.saturating_sub(slowest.at_once_bytes.into())) * 8;
            // A thousand terabytes at 1 kbps are longer than a time can be.
            let ps = bits * u128::from(PS_PER_S) / u128::from(slowest.rate.bps());
            u64::try_from(ps).unwrap_or(u64::MAX)
        });
        Duration::from_ps(sending)
    }

    fn way(&mut self, from: NodeId, to: NodeId) -> Result<PathProperties, Error> {
        if let Some(way) = self.known.get(&(from, to)) {
            return Ok(*way);
        }
        let mut path = |from: NodeId, to: NodeId| {
            let name = |node: NodeId| &*self.network.nodes[node as usize].name;
            self.routes.path(from, to, 0).ok_or_else(|| no_path(name(from), name(to)))
        };
        let there = path(from, to)?;
        let back = path(to, from)?;
        let links = &self.network.links;
        let delay_of = |path: &[u32]| -> u64 {
            path.iter().map(|link| links[*link as usize].delay.ps()).sum()
        };
        let delay = delay_of(&there);
        let rated = there.iter().filter_map(|link| {
            let link = &links[*link as usize];
            let at_once_bytes = match link.serialisation {
                Serialisation::TokenBucket { burst_bytes } => burst_bytes,
                Serialisation::StoreAndForward => 0,
            };
            let overhead_bytes = link.overhead_bytes;
            Some(Bottleneck { rate: link.rate?, at_once_bytes, overhead_bytes })
        });
        let way = PathProperties {
            base_rtt: Duration::from_ps(delay + delay_of(&back)),
            delay: Duration::from_ps(delay),
            bottleneck: rated.min_by_key(|link| (link.rate.bps(), Reverse(link.overhead_bytes))),
        };
        self.known.insert((from, to), way);
        Ok(way)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{HostConfig, LinuxVersion};
    use crate::topology::{Cable, ParkingLot};
    use knee_queue::{DropTailConfig, Limit, QueueConfig};

    fn cable(mbps: u64, us: u64) -> Cable {
        Cable {
            delay: Duration::from_us(us),
            ..Cable::new(
                Rate::from_bps(mbps * 1_000_000),
                QueueConfig::DropTail(DropTailConfig { limit: Limit::Bytes(u64::MAX) }),
            )
        }
    }

    fn lot() -> Network {
        ParkingLot {
            hops: 3,
            through: 2,
            cross: 1,
            host: HostConfig::new(LinuxVersion(6, 1)),
            access: cable(10_000, 1),
            bottleneck: cable(1_000, 10),
            back: cable(1_000, 10),
        }
        .build()
    }

    fn id(network: &Network, name: &str) -> NodeId {
        network.nodes.iter().position(|node| node.name == name).unwrap() as NodeId
    }

    #[test]
    fn it_is_the_round_trips_and_the_bytes_at_the_slowest_rate() {
        let network = lot();
        let mut ideal = Ideal::new(&network);
        let (s, r) = (id(&network, "s1"), id(&network, "r2"));
        // 32 us there: 1.5 round trips are 96 us; 1448 bytes are 1514 on the wire, 12.112 us.
        assert_eq!(ideal.transfer(s, r, 1448), Ok(Duration::from_ns(96_000 + 12_112)));
        // One hop: 12 us there, 36 us in all.
        let (x, y) = (id(&network, "x2.1"), id(&network, "y2.1"));
        assert_eq!(ideal.transfer(x, y, 1448), Ok(Duration::from_ns(36_000 + 12_112)));
    }
}
