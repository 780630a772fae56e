//! Table of open connections by address; finishes them when they end.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use foldhash::fast::RandomState;
use knee_wire::Segment;

use crate::input::Seen;
use crate::live::{Live, Shared};
use crate::model::{Ended, Flow};

/// How long a closed connection waits for what may still come, ns.
const LINGER_NS: u64 = 5_000_000_000;
/// And how long where connections take more than a part of the table: a server that opens tens of thousands a second has few that are
/// not closed yet.
const SHORT_LINGER_NS: u64 = 1_000_000_000;
const MANY_PART: usize = 8;
/// Most segments in memory; beyond it, the longest idle connections are finished.
const MOST_KEPT: usize = 4 << 20;
/// Part of the table that is finished when it is full.
const FINISHED_PART: usize = 4;
/// Packets between two looks at connections that are over, at least.
const FEWEST_BETWEEN: usize = 4096;

/// Addresses and ports in an order of their own, and the point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    low: (u128, u16),
    high: (u128, u16),
    /// Keeps IPv4 addresses apart from IPv6 addresses of the same number.
    is_ipv6: bool,
    point: u32,
}

impl Key {
    fn new(seen: &Seen, point: u32) -> Key {
        let end = |socket: &SocketAddr| match socket.ip() {
            IpAddr::V4(address) => (u128::from(u32::from(address)), socket.port()),
            IpAddr::V6(address) => (u128::from(address), socket.port()),
        };
        let (a, b) = (end(&seen.tcp.source), end(&seen.tcp.destination));
        let is_ipv6 = seen.tcp.source.is_ipv6();
        Key { low: a.min(b), high: a.max(b), is_ipv6, point }
    }
}

/// Bounds of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) most_live: usize,
    pub(crate) idle_ns: u64,
    pub(crate) most_rounds: usize,
}

/// Table of open connections.
pub(crate) struct Table {
    bounds: Bounds,
    live: HashMap<Key, Box<Live>, RandomState>,
    /// Connections that several points may see: identity, and initial sequence number.
    connections: HashMap<Key, (u32, u32), RandomState>,
    next_id: u32,
    /// Identities of connections so far: each is counted once, however many points see it.
    identities: u32,
    /// Segments that are kept of all.
    kept: usize,
    until_look: usize,
}

impl Table {
    pub(crate) fn new(bounds: Bounds) -> Table {
        Table {
            bounds,
            live: HashMap::default(),
            connections: HashMap::default(),
            next_id: 1,
            identities: 0,
            kept: 0,
            until_look: FEWEST_BETWEEN,
        }
    }

    /// A packet; connections that it shows to be over are handed to `done`. `wants` says whether the packets of one are listed. Gives
    /// the largest payload of a segment of its sender.
    pub(crate) fn packet(
        &mut self,
        seen: &Seen,
        point: u32,
        wants: impl FnOnce(u32) -> bool,
        shared: &mut Shared<'_>,
        done: &mut impl FnMut(Flow),
    ) -> u32 {
        let key = Key::new(seen, point);
        let is_begin = seen.tcp.has(Segment::SYN) && !seen.tcp.has(Segment::ACK);
        if is_begin && self.live.get(&key).is_some_and(|live| live.is_another(&seen.tcp)) {
            self.end(&key, Ended::Reused, done);
        }
        if !self.live.contains_key(&key) {
            self.begin(key, seen, point);
        }
        let Some(live) = self.live.get_mut(&key) else { return 0 };
        let before = live.kept();
        if !wants(live.id) {
            shared.rows = None;
        }
        let mss = live.packet(seen, shared);
        self.kept = (self.kept + live.kept()).saturating_sub(before);
        self.until_look = self.until_look.saturating_sub(1);
        if self.until_look == 0 || self.kept > MOST_KEPT || self.live.len() > self.bounds.most_live
        {
            self.look(seen.at_ns, done);
        }
        mss
    }

    fn begin(&mut self, key: Key, seen: &Seen, point: u32) {
        let id = self.next_id;
        self.next_id = self.next_id.saturating_add(1);
        let connection = self.connection(key, seen, id);
        self.identities += u32::from(connection == id);
        self.live.insert(key, Box::new(Live::new(id, connection, point as usize, seen)));
    }

    /// The identity that all views of a connection share: that of the first view, unless a SYN begins another connection.
    fn connection(&mut self, key: Key, seen: &Seen, id: u32) -> u32 {
        let is_begin = seen.tcp.has(Segment::SYN) && !seen.tcp.has(Segment::ACK);
        let any = Key { point: 0, ..key };
        let iss = seen.tcp.seq;
        let bound = 2 * self.bounds.most_live;
        if self.connections.len() >= bound {
            self.connections.clear();
        }
        let entry = self.connections.entry(any).or_insert((id, iss));
        if is_begin && entry.1 != iss {
            *entry = (id, iss);
        }
        entry.0
    }

    fn end(&mut self, key: &Key, ended: Ended, done: &mut impl FnMut(Flow)) {
        if let Some(live) = self.live.remove(key) {
            self.kept = self.kept.saturating_sub(live.kept());
            done(live.finish(ended, self.bounds.most_rounds));
        }
    }

    /// Finishes what is closed or idle, and of a full table what is idle longest.
    fn look(&mut self, now_ns: u64, done: &mut impl FnMut(Flow)) {
        let are_many = self.live.len() > self.bounds.most_live / MANY_PART;
        let linger_ns = if are_many { SHORT_LINGER_NS } else { LINGER_NS };
        let is_over = |live: &Live| {
            let idle_ns = now_ns.saturating_sub(live.last_ns);
            let is_closed = live.ended != Ended::Open && idle_ns > linger_ns;
            is_closed || idle_ns > self.bounds.idle_ns
        };
        let over = self.live.iter().filter(|(_, live)| is_over(live));
        let over: Vec<(u32, Key)> = over.map(|(key, live)| (live.id, *key)).collect();
        self.end_all(over, Ended::Idle, done);
        if self.kept > MOST_KEPT || self.live.len() > self.bounds.most_live {
            let mut all: Vec<(u64, u32, Key)> =
                self.live.iter().map(|(key, live)| (live.last_ns, live.id, *key)).collect();
            let some = (all.len() / FINISHED_PART).max(1).min(all.len());
            if some < all.len() {
                all.select_nth_unstable_by_key(some, |entry| (entry.0, entry.1));
            }
            let oldest = all[..some].iter().map(|entry| (entry.1, entry.2)).collect();
            self.end_all(oldest, Ended::TableFull, done);
        }
        self.until_look = self.live.len().max(FEWEST_BETWEEN);
    }

    /// Finishes these connections in the order of their identities.
    fn end_all(&mut self, mut keys: Vec<(u32, Key)>, ended: Ended, done: &mut impl FnMut(Flow)) {
        keys.sort_unstable_by_key(|entry| entry.0);
        for (_, key) in keys {
            self.end(&key, ended, done);
        }
    }

    /// Finishes all, at the end of the capture.
    pub(crate) fn finish(mut self, done: &mut impl FnMut(Flow)) {
        let all = self.live.iter().map(|(key, live)| (live.id, *key)).collect();
        self.end_all(all, Ended::Open, done);
    }

    /// Flows so far.
    pub(crate) fn flows(&self) -> u32 {
        self.next_id - 1
    }

    /// Connections so far.
    pub(crate) fn connections(&self) -> u32 {
        self.identities
    }
}
