//! Routes that name an algorithm (`ip route ... congctl NAME`), by rtnetlink.
//!
//! The kernel's messages are kept as they came, so that a route that is written back differs in
//! that attribute only, whatever else it has.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use knee_netns::Found;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::Error;

// From the kernel's user API: netlink.h and rtnetlink.h.
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_REPLACE: u16 = 0x100;
const NLM_F_DUMP: u16 = 0x300;
const NLA_TYPE_MASK: u16 = 0x3fff;
const RTA_DST: u16 = 1;
const RTA_METRICS: u16 = 8;
const RTA_CACHEINFO: u16 = 12;
const RTAX_LOCK: u16 = 1;
const RTAX_CC_ALGO: u16 = 16;
const RTM_F_CLONED: u32 = 0x200;
/// The one flag of a next hop that a request may carry; the others tell its state.
const RTNH_F_ONLINK: u32 = 4;

const HEADER_BYTES: usize = 16;
/// `struct rtmsg`.
const ROUTE_BYTES: usize = 12;
/// The kernel fills no more than 32 kB at once.
const BUFFER_BYTES: usize = 1 << 16;

/// A route of some namespace that names an algorithm.
pub(super) struct Route {
    /// `struct rtmsg` and the attributes behind it.
    body: Vec<u8>,
    /// Its destination, as `ip route` shows it.
    pub(super) to: String,
}

/// The routes of a namespace that name `algorithm`.
pub(super) fn routes_naming(namespace: &Found, algorithm: &str) -> Result<Vec<Route>, Error> {
    let all = namespace.run(dump).and_then(|all| all).map_err(failed)?;
    let named = |body: &Vec<u8>| {
        let mut metrics = metrics(body);
        metrics.any(|(kind, value)| {
            let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
            kind == RTAX_CC_ALGO && &value[..end] == algorithm.as_bytes()
        })
    };
    Ok(all.into_iter().filter(named).map(|body| Route { to: destination(&body), body }).collect())
}

/// Writes the route back without the algorithm.
pub(super) fn forget(namespace: &Found, route: &Route) -> Result<(), Error> {
    let request = message(
        RTM_NEWROUTE,
        NLM_F_REQUEST | NLM_F_ACK | NLM_F_REPLACE,
        &without_algorithm(&route.body),
    );
    let send = || {
        let socket = open()?;
        rustix::net::send(&socket, &request, SendFlags::empty())?;
        receive(&socket, |_, _| ())
    };
    namespace.run(send).and_then(|sent| sent).map_err(failed)
}

fn failed(source: io::Error) -> Error {
    Error::File { path: "the routing tables".into(), source }
}

fn open() -> io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        // Protocol 0 is NETLINK_ROUTE.
        None,
    )?;
    rustix::net::bind(&socket, &SocketAddrNetlink::new(0, 0))?;
    Ok(socket)
}

/// All routes of the thread's namespace, of both families and all tables.
fn dump() -> io::Result<Vec<Vec<u8>>> {
    let socket = open()?;
    let request = message(RTM_GETROUTE, NLM_F_REQUEST | NLM_F_DUMP, &[0; ROUTE_BYTES]);
    rustix::net::send(&socket, &request, SendFlags::empty())?;
    let mut routes = Vec::new();
    receive(&socket, |kind, body| {
        let is_route = kind == RTM_NEWROUTE && body.len() >= ROUTE_BYTES;
        if is_route && u32_at(body, 8) & RTM_F_CLONED == 0 {
            routes.push(body.to_vec());
        }
    })?;
    Ok(routes)
}

/// Reads answers up to the end of the dump or the acknowledgement.
fn receive(socket: &OwnedFd, mut each: impl FnMut(u16, &[u8])) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let (len, _) = rustix::net::recv(socket, &mut buffer[..], RecvFlags::empty())?;
        let mut rest = &buffer[..len];
        if rest.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        while rest.len() >= HEADER_BYTES {
            let len = (u32_at(rest, 0) as usize).clamp(HEADER_BYTES, rest.len());
            let (kind, body) = (u16_at(rest, 4), &rest[HEADER_BYTES..len]);
            match kind {
                NLMSG_DONE => return Ok(()),
                NLMSG_ERROR if body.len() >= 4 => {
                    return match u32_at(body, 0) as i32 {
                        0 => Ok(()),
                        error => Err(io::Error::from_raw_os_error(-error)),
                    };
                }
                _ => each(kind, body),
            }
            rest = rest.get(padded(len)..).unwrap_or(&[]);
        }
    }
}

fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES + body.len());
    out.extend(((HEADER_BYTES + body.len()) as u32).to_ne_bytes());
    out.extend(kind.to_ne_bytes());
    out.extend(flags.to_ne_bytes());
    out.extend([0; 8]);
    out.extend(body);
    out
}

/// Type and value of each attribute.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(u16_at(bytes.get(..4)?, 0));
        let value = bytes.get(4..len)?;
        let kind = u16_at(bytes, 2) & NLA_TYPE_MASK;
        bytes = bytes.get(padded(len)..).unwrap_or(&[]);
        Some((kind, value))
    })
}

fn metrics(body: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let all = attributes(&body[ROUTE_BYTES..]);
    all.filter(|(kind, _)| *kind == RTA_METRICS).flat_map(|(_, metrics)| attributes(metrics))
}

fn without_algorithm(body: &[u8]) -> Vec<u8> {
    let mut out = body[..ROUTE_BYTES].to_vec();
    let flags = u32_at(body, 8) & RTNH_F_ONLINK;
    out[8..12].copy_from_slice(&flags.to_ne_bytes());
    for (kind, value) in attributes(&body[ROUTE_BYTES..]) {
        match kind {
            RTA_CACHEINFO => {}
            RTA_METRICS => {
                let mut kept = Vec::new();
                for (kind, value) in metrics(body) {
                    match kind {
                        RTAX_CC_ALGO => {}
                        RTAX_LOCK if value.len() == 4 => {
                            let locks = u32_at(value, 0) & !(1 << RTAX_CC_ALGO);
                            push(&mut kept, kind, &locks.to_ne_bytes());
                        }
                        _ => push(&mut kept, kind, value),
                    }
                }
                if !kept.is_empty() {
                    push(&mut out, kind, &kept);
                }
            }
            _ => push(&mut out, kind, value),
        }
    }
    out
}

fn push(out: &mut Vec<u8>, kind: u16, value: &[u8]) {
    out.extend(((4 + value.len()) as u16).to_ne_bytes());
    out.extend(kind.to_ne_bytes());
    out.extend(value);
    out.resize(padded(out.len()), 0);
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

/// Messages and attributes begin at multiples of four.
fn padded(len: usize) -> usize {
    len.next_multiple_of(4)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
