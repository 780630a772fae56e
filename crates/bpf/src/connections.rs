//! Every TCP connection of a network namespace, as the kernel has it. `programs/connections.bpf.c`
//! is the BPF part.

use std::collections::HashSet;
use std::fmt;
use std::io::{self, Read as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd as _, BorrowedFd};

use knee_algo::{NEEDS_ECN, TcpSock, ecn_flags};
use knee_netns::{FoundNamespace, Id};
use libbpf_rs::{
    AsRawLibbpf as _, Iter, Link, Map, MapCore as _, MapFlags, Object, OpenObject, ProgramMut,
};

use crate::load::{open_object, with_log};
use crate::probe::tick_hz;
use crate::raw_sock::RawSock;
use crate::{Error, Rights, program};

/// Linux's number of the IPv6 address family.
const AF_INET6: u16 = 10;
/// Bytes of one read; the kernel never returns more at once.
const READ_BYTES: usize = 1 << 15;

/// The state of a TCP socket, in the kernel's order from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    Established,
    SynSent,
    SynReceived,
    FinWait1,
    FinWait2,
    TimeWait,
    Closed,
    CloseWait,
    LastAck,
    Listen,
    Closing,
    NewSynReceived,
    /// A state of a newer kernel, by its number.
    Other(u8),
}

impl State {
    fn of(number: u8) -> State {
        const STATES: [State; 12] = [
            State::Established,
            State::SynSent,
            State::SynReceived,
            State::FinWait1,
            State::FinWait2,
            State::TimeWait,
            State::Closed,
            State::CloseWait,
            State::LastAck,
            State::Listen,
            State::Closing,
            State::NewSynReceived,
        ];
        let found = usize::from(number).checked_sub(1).and_then(|index| STATES.get(index));
        found.copied().unwrap_or(State::Other(number))
    }
}

impl fmt::Display for State {
    /// Writes the state as `ss` does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            State::Established => "ESTAB",
            State::SynSent => "SYN-SENT",
            State::SynReceived | State::NewSynReceived => "SYN-RECV",
            State::FinWait1 => "FIN-WAIT-1",
            State::FinWait2 => "FIN-WAIT-2",
            State::TimeWait => "TIME-WAIT",
            State::Closed => "UNCONN",
            State::CloseWait => "CLOSE-WAIT",
            State::LastAck => "LAST-ACK",
            State::Listen => "LISTEN",
            State::Closing => "CLOSING",
            State::Other(number) => return write!(f, "state {number}"),
        };
        f.pad(name)
    }
}

/// A TCP socket at one moment. All fields were read under the socket's lock and are consistent.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The socket's network namespace.
    pub netns: Id,
    /// The socket cookie: no other socket has it while the system runs. `ss -e` shows it as `sk:`,
    /// in hexadecimal.
    pub cookie: u64,
    /// The inode of the socket's cgroup (version 2), if it has one.
    pub cgroup_id: Option<u64>,
    /// The user that opened the socket.
    pub uid: u32,
    /// The local address and port. An IPv4 connection of an IPv6 socket has its IPv4 addresses.
    pub local: SocketAddr,
    /// The peer's address and port; all zeros for a listener.
    pub remote: SocketAddr,
    pub state: State,
    /// The name of the socket's congestion control.
    pub algorithm: String,
    /// Whether that algorithm asks for ECN.
    pub needs_ecn: bool,
    /// The kernel's number of the BPF map that holds the algorithm's operations; `None` for an
    /// algorithm of the kernel's own. It tells two algorithms of one name apart: after a live
    /// update old connections keep the old one.
    pub map_id: Option<u32>,
    /// The fields that the algorithm reads, private state included.
    pub sock: TcpSock,
    /// Bytes acknowledged since the connection began.
    pub bytes_acked: u64,
    /// Segments retransmitted since the connection began.
    pub total_retrans: u32,
    /// The newest delivery rate sample, in payload bytes per second, as in `TCP_INFO`.
    pub delivery_rate_bytes_per_sec: Option<u64>,
    /// Whether the application limited that sample.
    pub delivery_rate_is_app_limited: bool,
    /// The kernel's coarse clock at the time of reading, in ticks of 1/`hz` s.
    pub jiffies: u32,
    /// Ticks of `jiffies` per second.
    pub hz: u32,
}

impl Connection {
    /// Whether this is a listening socket.
    pub fn is_listener(&self) -> bool {
        self.state == State::Listen
    }

    /// Whether the connection negotiated ECN.
    pub fn has_ecn(&self) -> bool {
        self.sock.ecn_flags & ecn_flags::OK != 0
    }

    /// Smoothed RTT in us; `None` before the first sample.
    pub fn srtt_us(&self) -> Option<u32> {
        Some(self.sock.srtt_us >> 3).filter(|_| self.sock.srtt_us > 0)
    }

    /// Minimum RTT over the kernel's window (five minutes by default), in us; `None` before the
    /// first sample.
    pub fn min_rtt_us(&self) -> Option<u32> {
        Some(self.sock.min_rtt_us).filter(|us| self.sock.srtt_us > 0 && *us != u32::MAX)
    }

    /// Pacing rate in bytes per second; `None` without pacing or without a limit.
    pub fn pacing_rate_bytes_per_sec(&self) -> Option<u64> {
        Some(self.sock.sk_pacing_rate).filter(|rate| !matches!(*rate, 0 | u64::MAX))
    }

    /// The share of delivered packets that were acknowledged with ECE, in 1/1000000; `None` if none
    /// was delivered.
    pub fn ce_ppm(&self) -> Option<u64> {
        (u64::from(self.sock.delivered_ce) * 1_000_000).checked_div(u64::from(self.sock.delivered))
    }

    fn of(raw: Raw, netns: Id, hz: u32) -> Connection {
        let address = |bytes: &[u8; 16], port| {
            let ip = if raw.family == AF_INET6 {
                Ipv6Addr::from(*bytes).to_canonical()
            } else {
                IpAddr::V4(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]))
            };
            SocketAddr::new(ip, port)
        };
        let sock = raw.sock.sock();
        let name = raw.algorithm.split(|byte| *byte == 0).next().unwrap_or_default();
        let rate = (u64::from(raw.rate_delivered) * u64::from(sock.mss_cache) * 1_000_000)
            .checked_div(u64::from(raw.rate_interval_us));
        Connection {
            netns,
            cookie: raw.cookie,
            cgroup_id: Some(raw.cgroup_id).filter(|id| *id != 0),
            uid: raw.uid,
            local: address(&raw.local_address, raw.local_port),
            remote: address(&raw.remote_address, raw.remote_port),
            state: State::of(sock.sk_state),
            algorithm: String::from_utf8_lossy(name).into_owned(),
            needs_ecn: raw.ca_flags & NEEDS_ECN != 0,
            map_id: Some(raw.map_id).filter(|id| *id != 0),
            sock,
            bytes_acked: raw.bytes_acked,
            total_retrans: raw.total_retrans,
            delivery_rate_bytes_per_sec: rate.filter(|rate| *rate > 0),
            delivery_rate_is_app_limited: raw.rate_app_limited != 0,
            jiffies: raw.jiffies,
            hz,
        }
    }
}

/// The sockets that the kernel runs an iterator program for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// Those of a namespace.
    Namespace,
    /// The open files of this process, its sockets among them.
    OwnFiles,
}

/// A BPF iterator: a program that the kernel runs during a read, once for each TCP socket of a
/// namespace or each open file of this process.
pub(crate) struct Iteration {
    // Declared first, so dropped first.
    link: Link,
    object: Object,
}

impl Iteration {
    /// Loads the iterator `name` over TCP sockets. `prepare` changes the object before the load;
    /// `what` names the purpose in error messages.
    pub(crate) fn load(
        name: &str,
        what: &'static str,
        prepare: impl FnOnce(&mut OpenObject) -> Result<(), Error>,
    ) -> Result<Iteration, Error> {
        Iteration::load_over(name, what, Over::Namespace, prepare)
    }

    /// Loads the iterator as [`Iteration::load`] does, over other sockets.
    pub(crate) fn load_over(
        name: &str,
        what: &'static str,
        over: Over,
        prepare: impl FnOnce(&mut OpenObject) -> Result<(), Error>,
    ) -> Result<Iteration, Error> {
        let bytes = program(name)?;
        let refused = |source: libbpf_rs::Error, log: String| {
            if !Rights::now().load() {
                return Error::NotPermitted { what, needs: "CAP_BPF and CAP_PERFMON" };
            }
            Error::Load { algorithm: format!("the program for {what}"), source, log }
        };
        let (opened, log) = with_log(|| open_object(bytes));
        let mut open = opened.map_err(|source| refused(source, log))?;
        prepare(&mut open)?;
        let (loaded, log) = with_log(|| open.load());
        let object = loaded.map_err(|source| refused(source, log))?;
        let attach = |program: ProgramMut<'_>| match over {
            Over::Namespace => program.attach(),
            Over::OwnFiles => attach_to_own_files(&program),
        };
        let (attached, log) = with_log(|| object.progs_mut().next().map(attach).transpose());
        let link = attached.map_err(|source| refused(source, log))?;
        let link =
            link.ok_or_else(|| Error::BadObject { what: format!("no program for {what}") })?;
        Ok(Iteration { link, object })
    }

    pub(crate) fn object(&self) -> &Object {
        &self.object
    }

    /// Runs the program and returns the bytes that it wrote. Over the sockets of a namespace it runs
    /// in that of the calling thread.
    pub(crate) fn run(&self) -> Result<Vec<u8>, Error> {
        let mut iter = Iter::new(&self.link)
            .map_err(|source| Error::Inspect { what: "the connections", source })?;
        let mut bytes = Vec::new();
        let mut buffer = vec![0; READ_BYTES];
        loop {
            match iter.read(&mut buffer) {
                Ok(0) => return Ok(bytes),
                Ok(count) => bytes.extend_from_slice(&buffer[..count]),
                // After a million sockets without output the kernel asks for another read.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                    ) => {}
                Err(error) => return Err(cannot_read(error)),
            }
        }
    }
}

/// Attaches an iterator over the files of tasks to this process. libbpf-rs cannot.
fn attach_to_own_files(program: &ProgramMut<'_>) -> libbpf_rs::Result<Link> {
    let mut of = libbpf_sys::bpf_iter_link_info::default();
    of.task.pid = std::process::id();
    let options = libbpf_sys::bpf_iter_attach_opts {
        sz: size_of::<libbpf_sys::bpf_iter_attach_opts>() as _,
        link_info: &mut of,
        link_info_len: size_of::<libbpf_sys::bpf_iter_link_info>() as _,
        ..Default::default()
    };
    // SAFETY: the program is loaded, and the options live until the call returns.
    let link = unsafe {
        libbpf_sys::bpf_program__attach_iter(program.as_libbpf_object().as_ptr(), &options)
    };
    match std::ptr::NonNull::new(link) {
        // SAFETY: libbpf made it, and nobody else has it.
        Some(link) => Ok(unsafe { Link::from_ptr(link) }),
        None => Err(io::Error::last_os_error().into()),
    }
}

/// A reader of connections. The program is loaded once and runs only during a read.
pub struct Connections(Iteration);

impl Connections {
    /// Loads the program.
    ///
    /// # Errors
    /// [`Error::NotBuilt`] without clang, [`Error::NotPermitted`], [`Error::Load`] with the verifier's
    /// words.
    pub fn open() -> Result<Connections, Error> {
        Iteration::load("connections", "reading connections", |_| Ok(())).map(Connections)
    }

    /// Reads every TCP socket of the calling thread's namespace, except those in TIME_WAIT and
    /// those before the handshake's last ACK. The order is that of the kernel's tables, listeners
    /// first.
    ///
    /// Connections may open and close during the read; one that lives throughout appears exactly
    /// once. (Kernels before 6.17 may miss it if its hash bucket changes at that moment.)
    ///
    /// # Errors
    /// [`Error::Read`].
    pub fn read(&self) -> Result<Vec<Connection>, Error> {
        let here = knee_netns::current().map_err(cannot_read)?.id();
        let bytes = self.0.run()?;
        let mut seen = HashSet::new();
        let connections = connections_of(&bytes, here);
        Ok(connections.filter(|connection| seen.insert(connection.cookie)).collect())
    }

    /// Reads the connections of `namespace`, as [`Connections::read`] does.
    ///
    /// # Errors
    /// [`Error::Read`]; entering a namespace takes CAP_SYS_ADMIN.
    pub fn read_in(&self, namespace: &FoundNamespace) -> Result<Vec<Connection>, Error> {
        let read = || if may_have_connections() { self.read() } else { Ok(Vec::new()) };
        namespace.run(read).map_err(cannot_read)?
    }

    /// Reads the connections of all namespaces that can be found.
    ///
    /// # Errors
    /// The errors of [`Connections::read_in`].
    pub fn read_all(&self) -> Result<Vec<Connection>, Error> {
        let mut all = Vec::new();
        for namespace in knee_netns::all().map_err(cannot_read)? {
            all.append(&mut self.read_in(&namespace)?);
        }
        Ok(all)
    }
}

/// Whether the calling thread's namespace may have TCP sockets that are connected or listen. A read
/// walks the kernel's table of the sockets of all namespaces, and any user can make many namespaces.
fn may_have_connections() -> bool {
    let number = |text: &str, protocol: &str| {
        let words = text.lines().find_map(|line| line.strip_prefix(protocol))?;
        words.trim_start().strip_prefix("inuse ")?.split(' ').next()?.parse::<u64>().ok()
    };
    ["", "6"].into_iter().any(|version| {
        match std::fs::read_to_string(format!("/proc/thread-self/net/sockstat{version}")) {
            Ok(text) => number(&text, &format!("TCP{version}:")) != Some(0),
            // A kernel without IPv6 has no such file.
            Err(error) => version.is_empty() || error.kind() != io::ErrorKind::NotFound,
        }
    })
}

/// A reader of chosen sockets of this process, in any namespace. It walks the files that the process
/// has open and not the kernel's table of all sockets, so a read takes microseconds where
/// [`Connections`] takes milliseconds. The
/// kernel does not lock the socket, so the values may come from the middle of its work.
pub struct Watch(Iteration);

impl Watch {
    /// The name of the map in watch.bpf.c.
    const SOCKETS: &'static str = "watched";

    /// Loads the program.
    ///
    /// # Errors
    /// The errors of [`Connections::open`].
    pub fn open() -> Result<Watch, Error> {
        let iteration =
            Iteration::load_over("watch", "watching sockets", Over::OwnFiles, |_| Ok(()))?;
        let has_map = iteration.object().maps().any(|map| map.name() == Watch::SOCKETS);
        match has_map {
            true => Ok(Watch(iteration)),
            false => Err(Error::BadObject { what: "no map of watched sockets".to_owned() }),
        }
    }

    /// Adds a TCP socket. It is watched until it closes or is removed.
    ///
    /// # Errors
    /// [`Error::Inspect`].
    pub fn add(&self, socket: BorrowedFd<'_>) -> Result<(), Error> {
        let (key, uid) = (socket.as_raw_fd().to_ne_bytes(), rustix::process::getuid().as_raw());
        self.sockets(|map| map.update(&key, &uid.to_ne_bytes(), MapFlags::ANY))
    }

    /// Removes a socket that was added.
    ///
    /// # Errors
    /// [`Error::Inspect`], for example if the socket is not watched.
    pub fn remove(&self, socket: BorrowedFd<'_>) -> Result<(), Error> {
        self.sockets(|map| map.delete(&socket.as_raw_fd().to_ne_bytes()))
    }

    fn sockets(&self, change: impl FnOnce(&Map<'_>) -> libbpf_rs::Result<()>) -> Result<(), Error> {
        let mut maps = self.0.object().maps();
        let map = maps.find(|map| map.name() == Watch::SOCKETS).expect("it was found before");
        change(&map).map_err(|source| Error::Inspect { what: "a socket", source })
    }

    /// Reads the watched sockets. Each [`Connection`] gets `netns` as its namespace.
    ///
    /// # Errors
    /// [`Error::Read`], [`Error::Inspect`].
    pub fn read(&self, netns: Id) -> Result<Vec<Connection>, Error> {
        Ok(connections_of(&self.0.run()?, netns).collect())
    }
}

/// Decodes the records that a program wrote.
fn connections_of(bytes: &[u8], netns: Id) -> impl Iterator<Item = Connection> {
    let hz = tick_hz();
    bytes.chunks_exact(size_of::<Raw>()).map(move |record| {
        // SAFETY: the record is as long as a `Raw`, and any bits make a `Raw` (its socket is
        // bytes).
        let raw = unsafe { record.as_ptr().cast::<Raw>().read_unaligned() };
        Connection::of(raw, netns, hz)
    })
}

pub(crate) fn cannot_read(source: io::Error) -> Error {
    Error::Read { what: "the connections", source }
}

/// `struct connection` of connection.h.
#[repr(C)]
struct Raw {
    cookie: u64,
    cgroup_id: u64,
    bytes_acked: u64,
    sock: RawSock,
    uid: u32,
    map_id: u32,
    ca_flags: u32,
    jiffies: u32,
    total_retrans: u32,
    rate_delivered: u32,
    rate_interval_us: u32,
    local_address: [u8; 16],
    remote_address: [u8; 16],
    algorithm: [u8; 16],
    family: u16,
    local_port: u16,
    remote_port: u16,
    rate_app_limited: u8,
}

#[cfg(test)]
mod tests {
    use super::*;
    use libbpf_rs::HasSize as _;
    use libbpf_rs::btf::Btf;
    use libbpf_rs::btf::types::{MemberAttr, Struct};
    use std::mem::offset_of;

    #[test]
    fn the_mirror_has_the_layout_that_the_program_writes() {
        let Ok(object) = program("connections") else { return };
        let btf = Btf::from_raw("connections", object).unwrap().unwrap();
        let c: Struct<'_> = btf.type_by_name("connection").unwrap();
        assert_eq!(c.size(), size_of::<Raw>());
        macro_rules! offsets {
            ($($field:ident),* $(,)?) => { [$((stringify!($field), offset_of!(Raw, $field))),*] };
        }
        let mirror = offsets!(
            cookie,
            cgroup_id,
            bytes_acked,
            sock,
            uid,
            map_id,
            ca_flags,
            jiffies,
            total_retrans,
            rate_delivered,
            rate_interval_us,
            local_address,
            remote_address,
            algorithm,
            family,
            local_port,
            remote_port,
            rate_app_limited,
        );
        let program: Vec<(String, usize)> = c
            .iter()
            .map(|member| {
                let MemberAttr::Normal { offset } = member.attr else { panic!("a bit-field") };
                (member.name.unwrap().to_string_lossy().into_owned(), offset as usize / 8)
            })
            .collect();
        let mirror: Vec<_> = mirror.map(|(name, offset)| (name.to_owned(), offset)).into();
        assert_eq!(mirror, program);
    }

    #[test]
    fn states_have_the_names_that_ss_gives_them() {
        assert_eq!(State::of(1).to_string(), "ESTAB");
        assert_eq!(State::of(10), State::Listen);
        assert_eq!(State::of(0).to_string(), "state 0");
    }
}
