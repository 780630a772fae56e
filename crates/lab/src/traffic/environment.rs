//! Environment of a traffic program: network namespaces of its hosts, algorithms of its connections.

use std::collections::HashMap;
use std::io;
use std::num::NonZeroU32;
use std::os::fd::{BorrowedFd, OwnedFd};

use knee_bpf::{Inside, Loaded, Watch};
use knee_netns::Namespace;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, ipproto, sockopt};

use super::FlowPlan;
use crate::Error;

/// A socket that a traffic program needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketKind {
    /// TCP socket, to connect or to listen.
    Tcp {
        /// IPv6 instead of IPv4.
        ipv6: bool,
    },
    /// Socket for ICMP echoes.
    Ping {
        /// IPv6 instead of IPv4.
        ipv6: bool,
    },
}

impl SocketKind {
    /// Opens one in the namespace of this thread; it does not block.
    ///
    /// # Errors
    /// If the kernel refuses. Pings need CAP_NET_RAW, or for ping sockets a group in `net.ipv4.ping_group_range`.
    pub fn open(self) -> io::Result<OwnedFd> {
        let family = |ipv6: bool| if ipv6 { AddressFamily::INET6 } else { AddressFamily::INET };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let open = |ipv6, kind, protocol| net::socket_with(family(ipv6), kind, flags, protocol);
        Ok(match self {
            SocketKind::Tcp { ipv6 } => open(ipv6, SocketType::STREAM, Some(ipproto::TCP))?,
            SocketKind::Ping { ipv6 } => {
                let protocol = Some(if ipv6 { ipproto::ICMPV6 } else { ipproto::ICMP });
                match open(ipv6, SocketType::RAW, protocol) {
                    Err(_) => open(ipv6, SocketType::DGRAM, protocol)?,
                    Ok(raw) => raw,
                }
            }
        })
    }
}

/// Sockets and algorithms for a traffic program.
pub trait Environment {
    /// Opens sockets in the network namespace of a host.
    ///
    /// # Errors
    /// What the kernel answers, or that there is no such host.
    fn open(&mut self, host: u32, kinds: &[SocketKind]) -> io::Result<Vec<OwnedFd>>;

    /// Sets algorithm and base RTT of a socket. On the listening side it is the listener, from which connections inherit both.
    ///
    /// # Errors
    /// What the kernel refuses, with the name of the algorithm.
    fn give(&mut self, flow: &FlowPlan, listens: bool, socket: BorrowedFd<'_>)
    -> Result<(), Error>;

    /// Adds this connecting socket to [`Environment::inside`].
    ///
    /// # Errors
    /// What the kernel refuses.
    fn watch(&mut self, _flow: &FlowPlan, _socket: BorrowedFd<'_>) -> Result<(), Error> {
        Ok(())
    }

    /// Removes a socket from [`Environment::inside`]: its flow is over.
    fn leave(&mut self, _socket: BorrowedFd<'_>) {}

    /// Whether the kernel called `init` of this algorithm for this established connection; `None`: that is not known.
    fn init_called(&self, _algorithm: &str, _socket: BorrowedFd<'_>) -> Option<bool> {
        None
    }

    /// Current diagnostic values of all watched sockets, by flow, in the order of the algorithm's list. Flows with a kernel's
    /// own algorithm, or one without a list, are left out.
    fn inside(&mut self) -> Vec<(u32, Vec<u64>)> {
        Vec::new()
    }
}

/// The algorithms of connections, by the names that the kernel has for them.
#[derive(Default)]
pub struct Algorithms<'a> {
    /// Algorithms that knee has loaded; others are the kernel's own.
    loaded: Vec<&'a Loaded>,
    /// Base RTTs, by flow and whether the side listens.
    base_rtts_us: HashMap<(u32, bool), NonZeroU32>,
    look: Option<(Watch, Inside)>,
    /// Flow of each watched socket, by its cookie.
    watched: HashMap<u64, u32>,
}

impl<'a> Algorithms<'a> {
    /// With the algorithms that knee has loaded, and base RTTs by flow and whether the side listens.
    pub fn new(
        loaded: Vec<&'a Loaded>,
        base_rtts_us: HashMap<(u32, bool), NonZeroU32>,
    ) -> Algorithms<'a> {
        Algorithms { loaded, base_rtts_us, ..Algorithms::default() }
    }

    fn loaded(&self, name: &str) -> Option<&'a Loaded> {
        self.loaded.iter().copied().find(|loaded| loaded.name() == name)
    }

    fn give(
        &mut self,
        flow: &FlowPlan,
        listens: bool,
        socket: BorrowedFd<'_>,
    ) -> Result<(), Error> {
        let name = if listens { &flow.peer_algorithm } else { &flow.algorithm };
        let base_rtt_us = self.base_rtts_us.get(&(flow.flow, listens));
        if let (Some(loaded), Some(base_rtt_us)) = (self.loaded(name), base_rtt_us) {
            loaded
                .set_base_rtt(socket, *base_rtt_us)
                .map_err(|why| Error::Failed(why.to_string()))?;
        }
        sockopt::set_tcp_congestion(socket, name).map_err(|why| {
            Error::Failed(format!(
                "flow {}: the kernel does not set the algorithm {name}: {why} (available: \
                 /proc/sys/net/ipv4/tcp_available_congestion_control)",
                flow.flow
            ))
        })
    }

    fn init_called(&self, name: &str, socket: BorrowedFd<'_>) -> Option<bool> {
        self.loaded(name)?.init_called(socket).ok()?
    }

    fn watch(&mut self, flow: &FlowPlan, socket: BorrowedFd<'_>) -> Result<(), Error> {
        let Some(loaded) = self.loaded(&flow.algorithm) else { return Ok(()) };
        let failed = |why: knee_bpf::Error| Error::Failed(why.to_string());
        if self.look.is_none() {
            self.look = Some((Watch::open().map_err(failed)?, Inside::of_own_sockets()));
        }
        if let Some((watch, inside)) = &mut self.look {
            inside.prepare(loaded).map_err(failed)?;
            watch.add(socket).map_err(failed)?;
        }
        let cookie =
            sockopt::socket_cookie(socket).map_err(|why| Error::Failed(why.to_string()))?;
        self.watched.insert(cookie, flow.flow);
        Ok(())
    }

    fn leave(&self, socket: BorrowedFd<'_>) {
        if let Some((watch, _)) = &self.look {
            // It may not be among them.
            let _ = watch.remove(socket);
        }
    }

    fn inside(&mut self) -> Vec<(u32, Vec<u64>)> {
        let Some((watch, inside)) = &mut self.look else { return Vec::new() };
        // Only a label of what is read.
        let unused = knee_netns::Id { device: 0, inode: 0 };
        let connections = watch.read(unused).unwrap_or_default();
        let values = connections.iter().filter_map(|connection| {
            let flow = *self.watched.get(&connection.cookie)?;
            // It may have left for one of the kernel's, which has no diagnostic list.
            if !inside.is_knees(connection).unwrap_or(false) {
                return None;
            }
            let values = inside.of(connection).ok()?;
            // They were made of u64.
            Some((flow, values.into_iter().map(|value| value.number as u64).collect()))
        });
        values.collect()
    }
}

/// Environment with one host, number 0: the namespace of this process.
#[derive(Default)]
pub struct Here<'a>(Algorithms<'a>);

impl<'a> Here<'a> {
    /// With these algorithms; other names mean the kernel's own.
    pub fn new(algorithms: Algorithms<'a>) -> Here<'a> {
        Here(algorithms)
    }
}

impl Environment for Here<'_> {
    fn open(&mut self, host: u32, kinds: &[SocketKind]) -> io::Result<Vec<OwnedFd>> {
        if host != 0 {
            return Err(no_host(host, 1));
        }
        kinds.iter().map(|kind| kind.open()).collect()
    }

    fn give(
        &mut self,
        flow: &FlowPlan,
        listens: bool,
        socket: BorrowedFd<'_>,
    ) -> Result<(), Error> {
        self.0.give(flow, listens, socket)
    }

    fn watch(&mut self, flow: &FlowPlan, socket: BorrowedFd<'_>) -> Result<(), Error> {
        self.0.watch(flow, socket)
    }

    fn leave(&mut self, socket: BorrowedFd<'_>) {
        self.0.leave(socket);
    }

    fn init_called(&self, algorithm: &str, socket: BorrowedFd<'_>) -> Option<bool> {
        self.0.init_called(algorithm, socket)
    }

    fn inside(&mut self) -> Vec<(u32, Vec<u64>)> {
        self.0.inside()
    }
}

/// Environment with one network namespace per host.
pub struct InNamespaces<'a> {
    hosts: Vec<&'a Namespace>,
    algorithms: Algorithms<'a>,
}

impl<'a> InNamespaces<'a> {
    /// Hosts by their numbers, and the algorithms of their connections.
    pub fn new(hosts: Vec<&'a Namespace>, algorithms: Algorithms<'a>) -> InNamespaces<'a> {
        InNamespaces { hosts, algorithms }
    }
}

impl Environment for InNamespaces<'_> {
    fn open(&mut self, host: u32, kinds: &[SocketKind]) -> io::Result<Vec<OwnedFd>> {
        let namespace = self.hosts.get(host as usize);
        let namespace = namespace.ok_or_else(|| no_host(host, self.hosts.len()))?;
        let kinds = kinds.to_vec();
        namespace.run(move || kinds.into_iter().map(SocketKind::open).collect())
    }

    fn give(
        &mut self,
        flow: &FlowPlan,
        listens: bool,
        socket: BorrowedFd<'_>,
    ) -> Result<(), Error> {
        self.algorithms.give(flow, listens, socket)
    }

    fn watch(&mut self, flow: &FlowPlan, socket: BorrowedFd<'_>) -> Result<(), Error> {
        self.algorithms.watch(flow, socket)
    }

    fn leave(&mut self, socket: BorrowedFd<'_>) {
        self.algorithms.leave(socket);
    }

    fn init_called(&self, algorithm: &str, socket: BorrowedFd<'_>) -> Option<bool> {
        self.algorithms.init_called(algorithm, socket)
    }

    fn inside(&mut self) -> Vec<(u32, Vec<u64>)> {
        self.algorithms.inside()
    }
}

fn no_host(host: u32, there: usize) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("there is no host {host}, only {there} hosts"))
}
