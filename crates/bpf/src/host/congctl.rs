//! Routes that name an algorithm (`ip route ... congctl NAME`), over rtnetlink.
//!
//! The kernel's messages are kept unchanged, so a route that is written back differs only in that
//! attribute. Other routes stay as they are, including those of the same destination, and the
//! destination always has a route.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use knee_netns::FoundNamespace;
use knee_netns::netlink::{Attributes, Message, Netlink, attributes};
use rustix::io::Errno;
use rustix::net::AddressFamily;

use crate::Error;

// From the kernel's user API: netlink.h and rtnetlink.h.
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const RTM_GETROUTE: u16 = 26;
const NLM_F_REPLACE: u16 = 0x100;
const NLM_F_EXCL: u16 = 0x200;
const NLM_F_DUMP: u16 = 0x300;
const NLM_F_CREATE: u16 = 0x400;
const NLM_F_APPEND: u16 = 0x800;
const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_METRICS: u16 = 8;
const RTA_MULTIPATH: u16 = 9;
const RTA_CACHEINFO: u16 = 12;
const RTA_TABLE: u16 = 15;
const RTA_VIA: u16 = 18;
const RTA_ENCAP_TYPE: u16 = 21;
const RTA_ENCAP: u16 = 22;
const RTA_EXPIRES: u16 = 23;
const RTA_NH_ID: u16 = 30;
const RTAX_LOCK: u16 = 1;
const RTAX_CC_ALGO: u16 = 16;
const RTM_F_CLONED: u32 = 0x200;
/// The only flag of a next hop that a request may carry; the others report its state.
const RTNH_F_ONLINK: u32 = 4;
/// `rta_expires` counts in hundredths of a second, `RTA_EXPIRES` in seconds.
const TICKS_PER_SECOND: u32 = 100;

/// Routes that are written back by one dump: it is not much older than they are.
const MOST_PER_DUMP: usize = 1000;

/// Bytes of `struct rtmsg`.
const ROUTE_BYTES: usize = 12;
/// Bytes of `struct rtnexthop`.
const HOP_BYTES: usize = 8;

/// A route of some namespace that names an algorithm.
pub struct Route {
    /// A `struct rtmsg` and the attributes behind it.
    body: Vec<u8>,
    /// The destination, as `ip route` shows it.
    pub to: String,
}

/// Lists the routes of a namespace that name an algorithm, each with that name.
///
/// # Errors
/// [`Error::File`] with the kernel's answer.
pub(super) fn routes_with_algorithms(
    namespace: &FoundNamespace,
) -> Result<Vec<(String, Route)>, Error> {
    let all = namespace.run(dump).and_then(|all| all).map_err(failed)?;
    let with_name = |body: Vec<u8>| {
        let request = Request::of(&body);
        let name = String::from_utf8_lossy(request.algorithm()?).into_owned();
        Some((name, Route { to: destination(&body), body }))
    };
    Ok(all.into_iter().filter_map(with_name).collect())
}

/// Lists the routes that name `algorithm`.
///
/// # Errors
/// [`Error::File`] with the kernel's answer.
pub fn routes_naming(namespace: &FoundNamespace, algorithm: &str) -> Result<Vec<Route>, Error> {
    let all = routes_with_algorithms(namespace)?.into_iter();
    Ok(all.filter(|(name, _)| name == algorithm).map(|(_, route)| route).collect())
}

/// Writes routes back without the algorithm. The caller passes the routes of one destination in the order of [`routes_naming`].
/// Returns what became of each. A route that no longer exists is no failure.
///
/// # Errors
/// Of a route, [`Error::Host`]: it is unchanged. The kernel no longer accepts it (a next hop's device is down), or could not tell it
/// from another one.
pub fn forget(namespace: &FoundNamespace, routes: &[Route]) -> Vec<Result<(), Error>> {
    let mut done = Vec::new();
    while let Some(rest) = routes.get(done.len()..).filter(|rest| !rest.is_empty()) {
        match namespace.run(|| write_back(rest)).and_then(|written| written) {
            Ok(written) => {
                let results = written.into_iter().zip(rest);
                done.extend(
                    results
                        .map(|(result, route)| result.map_err(|why| left(namespace, route, why))),
                );
            }
            Err(why) => {
                let again = || io::Error::new(why.kind(), why.to_string());
                done.extend(rest.iter().map(|route| Err(left(namespace, route, again()))));
            }
        }
    }
    done
}

fn left(namespace: &FoundNamespace, route: &Route, source: io::Error) -> Error {
    Error::Host {
        what: format!(
            "the route {} ({}) still names its algorithm (congctl): change or delete it by ip route",
            route.to,
            namespace.label()
        ),
        source,
    }
}

fn failed(source: io::Error) -> Error {
    Error::File { path: "the routing tables".into(), source }
}

/// Writes the first ones of some routes back in the calling thread's namespace, and returns what became of them: as many as one dump
/// of the routes is true for, which many have in common, because any user can have thousands in a namespace of their own.
fn write_back(routes: &[Route]) -> io::Result<Vec<io::Result<()>>> {
    let all: Vec<Request> = dump()?.iter().map(|body| Request::of(body)).collect();
    let mut by_key: HashMap<Key<'_>, Vec<&Request>> = HashMap::new();
    for request in &all {
        by_key.entry(request.key()).or_default().push(request);
    }
    let asked: Vec<Request> =
        routes.iter().take(MOST_PER_DUMP).map(|route| Request::of(&route.body)).collect();
    let mut done = Vec::new();
    for old in &asked {
        // The kernel tries the routes of one key in this order. Those of a key are written once per dump.
        let Some(peers) = by_key.insert(old.key(), Vec::new()) else {
            done.push(Ok(()));
            continue;
        };
        if peers.is_empty() {
            break;
        }
        done.push(write_one_back(old, &peers, &all));
    }
    Ok(done)
}

/// Writes one route back, of `peers` with its key.
fn write_one_back(old: &Request, peers: &[&Request], all: &[Request]) -> io::Result<()> {
    let Some(place) = peers.iter().position(|peer| peer.is(old)) else { return Ok(()) };
    if peers[..place].iter().any(|peer| old.deletion_hits(peer)) {
        return Err(io::Error::other("another route stands before it that looks the same"));
    }
    let new = old.without_algorithm();
    match (old.is_ipv4(), place) {
        // IPv6 replaces the first one.
        (false, 0) => unless(Errno::NOENT, change(NLM_F_REPLACE, &new)),
        (false, _) => swap_by_detour(old, &new, all),
        // IPv4 would replace it, too, but keeps routes side by side if they differ only in their
        // metrics. The new route is added at the same end before the old one is deleted, whatever
        // other processes do meanwhile.
        (true, _) => {
            let end = if place == 0 { 0 } else { NLM_F_APPEND };
            if !peers.iter().any(|peer| peer.is(&new)) {
                change(NLM_F_CREATE | end, &new)?;
            }
            delete(old)
        }
    }
}

/// Swaps the route by way of a route of another priority, so that the destination always has one.
fn swap_by_detour(old: &Request, new: &Request, all: &[Request]) -> io::Result<()> {
    let is_free = |priority: &u32| {
        let detour = old.at_priority(*priority);
        all.iter().all(|other| other.key() != detour.key())
    };
    let mut lower = old.priority().saturating_add(1)..=u32::MAX;
    let mut higher = (1..old.priority()).rev();
    let free = lower.find(is_free).or_else(|| higher.find(is_free));
    let detour = new.at_priority(free.ok_or(Errno::NOSPC)?);
    change(NLM_F_CREATE | NLM_F_EXCL, &detour)?;
    if let Err(error) = delete(old) {
        delete(&detour)?;
        return unless(Errno::SRCH, Err(error));
    }
    // If this fails, the detour stays.
    change(NLM_F_CREATE | NLM_F_APPEND, new)?;
    delete(&detour)
}

fn change(flags: u16, route: &Request) -> io::Result<()> {
    ask(RTM_NEWROUTE, flags, route)
}

fn delete(route: &Request) -> io::Result<()> {
    ask(RTM_DELROUTE, 0, route)
}

fn ask(kind: u16, flags: u16, route: &Request) -> io::Result<()> {
    Netlink::open()?.ask(&Message::new(kind, flags, &route.head, &all_of(&route.attributes)))
}

fn all_of(attributes: &[(u16, Vec<u8>)]) -> Attributes {
    attributes.iter().fold(Attributes::default(), |all, (kind, value)| all.with(*kind, value))
}

fn unless(harmless: Errno, done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if Errno::from_io_error(&error) == Some(harmless) => Ok(()),
        done => done,
    }
}

/// Dumps all routes of the thread's namespace, of both families and all tables.
fn dump() -> io::Result<Vec<Vec<u8>>> {
    let all = Message::new(RTM_GETROUTE, NLM_F_DUMP, &[0; ROUTE_BYTES], &Attributes::default());
    let mut routes = Netlink::open()?.list(&all)?;
    routes.retain(|answer| {
        let is_route = answer.kind == RTM_NEWROUTE && answer.body.len() >= ROUTE_BYTES;
        is_route && u32_at(&answer.body, 8) & RTM_F_CLONED == 0
    });
    Ok(routes.into_iter().map(|answer| answer.body).collect())
}

/// What [`Request::key`] returns.
type Key<'r> = ([u8; 4], [Option<&'r [u8]>; 3], u32);

/// A route in the form of a request: a dump's content without the parts that only report state.
#[derive(Clone)]
struct Request {
    /// The `struct rtmsg`.
    head: [u8; ROUTE_BYTES],
    attributes: Vec<(u16, Vec<u8>)>,
}

impl Request {
    /// Makes a request from a dump's `struct rtmsg` and the attributes behind it.
    fn of(body: &[u8]) -> Request {
        let mut head = [0; ROUTE_BYTES];
        head.copy_from_slice(&body[..ROUTE_BYTES]);
        let dumped = || attributes(&body[ROUTE_BYTES..]);
        let has_object = dumped().any(|(kind, _)| kind == RTA_NH_ID);
        let flags = if has_object { 0 } else { u32_at(body, 8) & RTNH_F_ONLINK };
        head[8..].copy_from_slice(&flags.to_ne_bytes());
        let mut kept = Vec::new();
        for (kind, value) in dumped() {
            match kind {
                // The dump shows these along with the nexthop object that they belong to.
                RTA_OIF | RTA_GATEWAY | RTA_VIA | RTA_MULTIPATH | RTA_ENCAP | RTA_ENCAP_TYPE
                    if has_object => {}
                RTA_MULTIPATH => kept.push((kind, stateless_hops(value))),
                RTA_CACHEINFO if value.len() >= 12 => {
                    // The time of an expired route is negative until the kernel collects the route.
                    let ticks = u32_at(value, 8) as i32;
                    if ticks != 0 {
                        let seconds = (ticks.max(1) as u32).div_ceil(TICKS_PER_SECOND);
                        kept.push((RTA_EXPIRES, seconds.to_ne_bytes().to_vec()));
                    }
                }
                RTA_CACHEINFO => {}
                _ => kept.push((kind, value.to_vec())),
            }
        }
        Request { head, attributes: kept }
    }

    fn get(&self, wanted: u16) -> Option<&[u8]> {
        let mut all = self.attributes.iter();
        all.find(|(kind, _)| *kind == wanted).map(|(_, value)| value.as_slice())
    }

    fn is_ipv4(&self) -> bool {
        self.head[0] == AddressFamily::INET.as_raw() as u8
    }

    /// The fields that several routes may share: family, lengths of the prefixes, type of service,
    /// table, destination, source and priority.
    fn key(&self) -> Key<'_> {
        let [family, to_len, from_len, tos, ..] = self.head;
        let prefixes = [RTA_TABLE, RTA_DST, RTA_SRC].map(|kind| self.get(kind));
        ([family, to_len, from_len, tos], prefixes, self.priority())
    }

    /// The priority, which `ip route` calls metric.
    fn priority(&self) -> u32 {
        self.get(RTA_PRIORITY).filter(|value| value.len() == 4).map_or(0, |value| u32_at(value, 0))
    }

    /// Whether both requests are equal apart from the remaining lifetime.
    fn is(&self, other: &Request) -> bool {
        let lasting = |route: &Request| {
            let mut all = route.attributes.clone();
            all.retain(|(kind, value)| *kind != RTA_EXPIRES && !value.is_empty());
            all
        };
        self.head == other.head && lasting(self) == lasting(other)
    }

    /// The algorithm that the route names.
    fn algorithm(&self) -> Option<&[u8]> {
        let (_, name) =
            attributes(self.get(RTA_METRICS)?).find(|(kind, _)| *kind == RTAX_CC_ALGO)?;
        name.split(|byte| *byte == 0).next()
    }

    /// The request without the algorithm. The metrics attribute stays, even if empty: without it, a
    /// route with a nexthop object gets the metrics of another route with that object.
    fn without_algorithm(&self) -> Request {
        let mut new = self.clone();
        for (_, metrics) in new.attributes.iter_mut().filter(|(kind, _)| *kind == RTA_METRICS) {
            let kept =
                attributes(metrics).fold(Attributes::default(), |kept, (kind, value)| match kind {
                    RTAX_CC_ALGO => kept,
                    RTAX_LOCK if value.len() == 4 => {
                        let locks = u32_at(value, 0) & !(1 << RTAX_CC_ALGO);
                        kept.with_some_u32(kind, Some(locks).filter(|locks| *locks != 0))
                    }
                    _ => kept.with(kind, value),
                });
            *metrics = kept.into_bytes();
        }
        new
    }

    fn at_priority(&self, priority: u32) -> Request {
        let mut new = self.clone();
        new.attributes.retain(|(kind, _)| *kind != RTA_PRIORITY);
        new.attributes.push((RTA_PRIORITY, priority.to_ne_bytes().to_vec()));
        new
    }

    /// Whether a request to delete this route would delete `other`, which has the same key and
    /// comes before it. The kernel takes the first route that has everything in the request.
    fn deletion_hits(&self, other: &Request) -> bool {
        if self.is_ipv4() {
            // The kernel compares metrics. Only routes that name another algorithm differ for
            // certain.
            return self.algorithm() == other.algorithm();
        }
        match (self.get(RTA_NH_ID), other.get(RTA_NH_ID)) {
            (Some(own), Some(others)) => own == others,
            (Some(_), None) => false,
            (None, Some(_)) => true,
            (None, None) => self.hops().iter().any(|(device, gateway)| {
                let is_hit = |(other_device, other_gateway): &(u32, Option<Vec<u8>>)| {
                    device == other_device && (gateway.is_none() || gateway == other_gateway)
                };
                other.hops().iter().any(is_hit)
            }),
        }
    }

    /// The device and gateway of each next hop.
    fn hops(&self) -> Vec<(u32, Option<Vec<u8>>)> {
        let device = self.get(RTA_OIF).filter(|value| value.len() == 4);
        let single = device.map(|value| (u32_at(value, 0), self.get(RTA_GATEWAY)));
        let single = single.map(|(device, gateway)| (device, gateway.map(<[u8]>::to_vec)));
        let several = hops(self.get(RTA_MULTIPATH).unwrap_or(&[])).map(|(_, hop)| {
            let gateway = attributes(&hop[HOP_BYTES..]).find(|(kind, _)| *kind == RTA_GATEWAY);
            (u32_at(hop, 4), gateway.map(|(_, value)| value.to_vec()))
        });
        single.into_iter().chain(several).collect()
    }
}

/// The offset and bytes of each `struct rtnexthop` with its attributes.
fn hops(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let len = usize::from(u16_at(bytes.get(at..at + HOP_BYTES)?, 0));
        let hop = bytes.get(at..at + len).filter(|hop| hop.len() >= HOP_BYTES)?;
        let place = at;
        at += len.next_multiple_of(4);
        Some((place, hop))
    })
}

fn stateless_hops(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    for (at, _) in hops(bytes) {
        out[at + 2] &= RTNH_F_ONLINK as u8;
    }
    out
}

fn destination(body: &[u8]) -> String {
    let prefix_len = body[1];
    let address = attributes(&body[ROUTE_BYTES..]).find(|(kind, _)| *kind == RTA_DST);
    match address.map(|(_, value)| value) {
        Some(value) if value.len() == 4 => {
            let bytes: [u8; 4] = value.try_into().unwrap_or_default();
            format!("{}/{prefix_len}", Ipv4Addr::from(bytes))
        }
        Some(value) if value.len() == 16 => {
            let bytes: [u8; 16] = value.try_into().unwrap_or_default();
            format!("{}/{prefix_len}", Ipv6Addr::from(bytes))
        }
        _ => "default".to_owned(),
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
