//! Switches that choose among equally short ways packet by packet: weights, flowlets, spraying.
//!
//! Without them a flow's packets follow one list of links. With them each link has a list of its own: the
//! link, then [`CHOOSE`], or the end of the path if the link leads to a host. A packet's position says which
//! link brought it, and the switch there chooses the next one.

use crate::packet::{Packet, flags};
use crate::paths::CHOOSE;
use crate::stop::Stop;
use knee_queue::time::{Duration, Time};
use knee_run::balance::{Choice, NextHops};
use knee_run::routes::{PATH_END, Routes, mix};
use knee_run::spec::{Balance, LinkId, NodeId, Order, Run, SwitchBalance};
use knee_units::Random;
use std::sync::Arc;

/// Entries of a table of flowlets that are allocated together.
const PAGE: usize = 64;

/// A packet's flow: the host that it goes to, and the hash of its addresses and ports.
#[derive(Clone, Copy, Debug)]
struct Ends {
    to: NodeId,
    hash: u64,
}

/// The choices of all switches.
pub(crate) struct Balancer {
    hops: Arc<NextHops>,
    far_end: Vec<NodeId>,
    /// For each sending socket, where its packets go.
    socks: Vec<Ends>,
    /// For each ping, where it and its echo go.
    pings: Vec<[Ends; 2]>,
    /// Choosers of switches that do not go by hashes alone, by node.
    choosers: Vec<Option<Box<Chooser>>>,
    /// The next link in turn of each set of links.
    turns: Vec<u32>,
}

/// State of a switch.
struct Chooser {
    kind: Kind,
    random: Random,
}

enum Kind {
    Weighted,
    Flowlets { gap: Duration, table: Flowlets },
    Spray(Order),
}

/// The last packet of a flowlet, and the number that it drew.
#[derive(Clone, Copy)]
struct Flowlet {
    /// `Time::MAX`: none yet.
    last: Time,
    drawn: u64,
}

/// A table whose entries hashes pick. Pages are allocated when they are needed.
struct Flowlets {
    entries: u32,
    pages: Vec<Option<Box<[Flowlet; PAGE]>>>,
}

impl Flowlets {
    fn new(entries: u32) -> Flowlets {
        let pages = (entries as usize).div_ceil(PAGE);
        Flowlets { entries, pages: std::iter::repeat_with(|| None).take(pages).collect() }
    }

    fn of(&mut self, hash: u64) -> &mut Flowlet {
        let at = share(hash, self.entries.into()) as usize;
        let none = Flowlet { last: Time::MAX, drawn: 0 };
        let page = self.pages[at / PAGE].get_or_insert_with(|| Box::new([none; PAGE]));
        &mut page[at % PAGE]
    }
}

/// Reduces a number that is uniform over 64 bits to 0 to `bound` - 1.
fn share(hash: u64, bound: u64) -> u64 {
    ((u128::from(hash) * u128::from(bound)) >> 64) as u64
}

/// Returns the list of links as packets follow it: see the top of this file.
pub(crate) fn paths(run: &Run) -> Vec<u32> {
    let nodes = &run.network.nodes;
    let next = |to: NodeId| if nodes[to as usize].host.is_some() { PATH_END } else { CHOOSE };
    let links = run.network.links.iter().zip(0..);
    links.flat_map(|(link, id)| [id, next(link.to)]).collect()
}

/// Returns where the path begins whose first link this is.
pub(crate) fn path_by(first: LinkId) -> u32 {
    2 * first
}

/// Iterates over the ends of all flows, then of all ping streams.
fn ends(run: &Run) -> impl Iterator<Item = (NodeId, NodeId)> {
    let flows = run.flows.iter().map(|flow| (flow.from, flow.to));
    flows.chain(run.pings.iter().map(|ping| (ping.from, ping.to)))
}

/// Returns the next links of each switch to the ends of all flows and pings, or of some if memory is short.
pub(crate) fn next_hops((run, stop): (&Run, Stop<'_>), routes: &mut Routes) -> NextHops {
    let ends = ends(run).take_while(|_| !stop.is_out_of_memory(0));
    NextHops::new(&run.network, routes, ends.flat_map(|(from, to)| [from, to]))
}

impl Balancer {
    /// Creates the choices of a run. `hashes` are those of flows, then of ping streams.
    pub(crate) fn new(
        run: &Run,
        hops: &Arc<NextHops>,
        hashes: impl Iterator<Item = u64>,
    ) -> Box<Balancer> {
        let (network, hops) = (&run.network, Arc::clone(hops));
        let both = |((from, to), hash)| [Ends { to, hash }, Ends { to: from, hash }];
        let mut ends = ends(run).zip(hashes).map(both);
        let socks = ends.by_ref().take(run.flows.len()).flatten().collect();
        let pings = ends.collect();
        let mut choosers: Vec<_> = network.nodes.iter().map(|_| None).collect();
        for SwitchBalance { switch, balance } in &network.balance {
            let kind = match balance {
                Balance::Weighted(_) => Kind::Weighted,
                Balance::Flowlet { gap, entries } => {
                    Kind::Flowlets { gap: *gap, table: Flowlets::new(*entries) }
                }
                Balance::Spray(order) => Kind::Spray(*order),
            };
            let random = Random::new(mix(run.seed, *switch));
            choosers[*switch as usize] = Some(Box::new(Chooser { kind, random }));
        }
        Box::new(Balancer {
            turns: vec![0; hops.sets()],
            hops,
            far_end: network.links.iter().map(|link| link.to).collect(),
            socks,
            pings,
            choosers,
        })
    }

    /// Gives the packets of a socket another hash, those on their way included.
    pub(crate) fn set_hash(&mut self, sock: u32, hash: u64) {
        self.socks[sock as usize].hash = hash;
    }

    /// Returns the host that the packets of a socket go to.
    pub(crate) fn to(&self, sock: u32) -> NodeId {
        self.socks[sock as usize].to
    }

    fn ends(&self, packet: &Packet) -> Ends {
        if packet.has(flags::PING) {
            return self.pings[packet.to as usize][usize::from(packet.has(flags::ACK))];
        }
        // Packets go to the other socket of their flow.
        self.socks[(packet.to ^ 1) as usize]
    }

    /// Returns the next link of a packet that has come to a switch by the link `behind`.
    pub(crate) fn choose(&mut self, packet: &Packet, behind: LinkId, now: Time) -> LinkId {
        let Ends { to, hash } = self.ends(packet);
        let switch = self.far_end[behind as usize];
        let Some(choice) = self.hops.of(switch, to) else {
            // There was a way when the run began.
            return self.hops.to_host(switch, to).unwrap_or(behind);
        };
        if let [only] = choice.links {
            return *only;
        }
        let Choice { set, links, sums } = choice;
        let count = links.len() as u64;
        let hash = mix(hash, switch);
        let Some(chooser) = &mut self.choosers[switch as usize] else {
            return links[(hash % count) as usize];
        };
        let Chooser { kind, random } = &mut **chooser;
        let at = match kind {
            Kind::Weighted => {
                let all = sums.last().copied().unwrap_or(0);
                sums.partition_point(|sum| *sum <= share(hash, all)) as u64
            }
            Kind::Flowlets { gap, table } => {
                let flowlet = table.of(hash);
                if flowlet.last == Time::MAX || now.since(flowlet.last) > *gap {
                    flowlet.drawn = random.u64();
                }
                flowlet.last = now;
                share(flowlet.drawn, count)
            }
            Kind::Spray(Order::Random) => random.below(count),
            Kind::Spray(Order::RoundRobin) => {
                let turn = &mut self.turns[set as usize];
                let at = *turn;
                *turn = (at + 1) % links.len() as u32;
                at.into()
            }
        };
        links[at as usize]
    }

    /// Returns the least delay of a socket's packets, whose first link this is.
    pub(crate) fn least_delay(&self, run: &Run, first: LinkId, sock: u32) -> Duration {
        let to = self.to(sock);
        let link = &run.network.links[first as usize];
        match run.network.nodes[link.to as usize].host {
            Some(_) => link.delay,
            None => link.delay + self.hops.least_delay(&run.network, link.to, to),
        }
    }
}
