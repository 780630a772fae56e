//! The guest's kernel, as its program uses it: one thread, one epoll, one clock, as time stands still while anything computes.
//!
//! Numbers are those of Linux on x86-64; the guest is IPv4 alone. What the kernel refuses ends the guest.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::convert::Infallible;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use knee_traffic::{Errno, FlowPlan, SocketEvent, Moment, Opened, Os, PingPlan, PingSocket};

use crate::guest::{Orders, QueueAnswer, QueueOrder};
use crate::sys::{self, Fd, call, fail, monotonic_ns, need, plain_call};

/// Namespaces are open at these descriptors, one after the other.
const FIRST_NAMESPACE_FD: usize = 16;
const NEW_NETWORK: usize = 0x4000_0000;

const AF_INET: usize = 2;
const AF_NETLINK: usize = 16;
const STREAM: usize = 1;
const RAW: usize = 3;
const NONBLOCK: usize = 0o4000;
const IPPROTO_IP: usize = 0;
const IPPROTO_ICMP: usize = 1;
const IPPROTO_TCP: usize = 6;
const SOL_SOCKET: usize = 1;
const SOL_RAW: usize = 255;
const IP_TOS: usize = 1;
const ICMP_FILTER: usize = 1;
const SO_REUSEADDR: usize = 2;
const SO_ERROR: usize = 4;
const SO_LINGER: usize = 13;
const SO_RCVLOWAT: usize = 18;
const SO_MAX_PACING_RATE: usize = 47;
const TCP_INFO: usize = 11;
const TCP_QUICKACK: usize = 12;
const TCP_CONGESTION: usize = 13;
const MSG_TRUNC: usize = 0x20;
const MSG_DONTWAIT: usize = 0x40;
const MSG_NOSIGNAL: usize = 0x4000;
const MSG_MORE: usize = 0x8000;
const EINPROGRESS: Errno = Errno(115);
const EPOLL_CTL_ADD: usize = 1;
const EPOLL_CTL_DEL: usize = 2;
const EPOLL_CTL_MOD: usize = 3;
/// Of netlink's messages and routes.
const NLMSG_ERROR: u16 = 2;
const RTM_NEWLINK: u16 = 16;
const RTM_NEWQDISC: u16 = 36;

/// As `kernel/knee_inside.c` has them.
const INSIDE_VALUES_OF: usize = 0x6b00;
const INSIDE_BASE_RTT: usize = 0x6b01;
const INSIDE_VALUES: usize = 32;

const WRITE_BYTES: usize = 1 << 18;
const READ_BYTES: usize = 1 << 28;
const INFO_BYTES: usize = 512;
/// Where `tcpi_bytes_received` is.
const BYTES_RECEIVED: usize = 128;
const EVENTS: usize = 64;
const TIMER: u64 = u64::MAX;

/// As epoll has it.
#[repr(C, packed)]
#[derive(Clone, Copy, Default)]
struct Event {
    events: u32,
    token: u64,
}

/// As `kernel/knee_inside.c` has it.
#[repr(C)]
struct Question {
    values: u64,
    socket: u32,
    room: u32,
}

/// What the program has of its kernel.
pub(crate) struct Kernel {
    /// Time 0 of the run.
    pub(crate) zero_ns: u64,
    /// What was told of queues.
    pub(crate) queues: Vec<QueueAnswer>,
    orders: Vec<(QueueOrder, Fd)>,
    /// The namespace that it is in.
    current: Option<u32>,
    /// Of each namespace, for requests.
    netlink: Vec<Option<Fd>>,
    epoll: Fd,
    timer: Fd,
    armed_ns: Option<u64>,
    /// `/proc/knee_inside`.
    inside: Fd,
    answer: Vec<u8>,
    /// What is sent.
    zeros: Vec<u8>,
}

impl Kernel {
    /// Makes its namespaces, with room for so many connections and echoes.
    pub(crate) fn new(orders: &Orders, connections: usize) -> Kernel {
        let namespaces = orders.namespaces as usize;
        let files =
            FIRST_NAMESPACE_FD + 2 * namespaces + 3 * connections + orders.queues.len() + 64;
        let limit = [files as u64; 2];
        let room = [0, 7 /* RLIMIT_NOFILE */, limit.as_ptr() as usize, 0];
        // SAFETY: a struct rlimit64 is two numbers.
        need("room for files", unsafe { call(sys::PRLIMIT64, &room) });
        // The guest's first one, behind those of the plan.
        keep_namespace(namespaces);
        for number in 0..namespaces {
            need("a network namespace", plain_call(sys::UNSHARE, &[NEW_NETWORK]));
            keep_namespace(number);
        }
        let timer = [1 /* CLOCK_MONOTONIC */, NONBLOCK];
        let mut kernel = Kernel {
            zero_ns: 0,
            queues: Vec::new(),
            orders: Vec::new(),
            current: None,
            netlink: (0..namespaces).map(|_| None).collect(),
            epoll: Fd::new("epoll", plain_call(sys::EPOLL_CREATE1, &[0])),
            timer: Fd::new("a timer", plain_call(sys::TIMERFD_CREATE, &timer)),
            armed_ns: None,
            inside: Fd::open(c"/proc/knee_inside", 0),
            answer: vec![0; 8192],
            zeros: vec![0; WRITE_BYTES],
        };
        let added = kernel.control(EPOLL_CTL_ADD, &kernel.timer, knee_traffic::events::IN, TIMER);
        need("epoll", added);
        kernel.queues.reserve(1024);
        kernel
    }

    /// Has what steps have built.
    pub(crate) fn prepare(&mut self, orders: &Orders) {
        for queue in &orders.queues {
            self.enter(queue.namespace);
            self.orders.push((queue.clone(), netlink()));
        }
        for (port, us) in &orders.base_rtts_us {
            let told = [u32::from(*port), *us];
            let arguments = [self.inside.number(), INSIDE_BASE_RTT, told.as_ptr() as usize];
            // SAFETY: the struct is two numbers.
            need("base_rtt", unsafe { call(sys::IOCTL, &arguments) });
        }
    }

    pub(crate) fn enter(&mut self, namespace: u32) {
        if self.current != Some(namespace) {
            let fd = FIRST_NAMESPACE_FD + namespace as usize;
            need("setns", plain_call(sys::SETNS, &[fd, NEW_NETWORK]));
            self.current = Some(namespace);
        }
    }

    /// Hands on a request, to which the kernel must agree.
    pub(crate) fn ask(&mut self, namespace: u32, request: &[u8], what: &str) {
        self.enter(namespace);
        let Some(socket) = self.netlink.get_mut(namespace as usize) else { fail("a namespace") };
        let len = ask(what, socket.get_or_insert_with(netlink), request, &mut self.answer);
        let refused = match self.answer[..len] {
            [_, _, _, _, low, high, ..] if u16::from_ne_bytes([low, high]) == NLMSG_ERROR => {
                self.answer.get(16..20).and_then(|bytes| bytes.try_into().ok())
            }
            _ => None,
        };
        let error = refused.map_or(0, i32::from_ne_bytes);
        if error < 0 {
            need(what, Err::<(), _>(Errno(-error)));
        }
    }

    /// What hosts have counted, before the run or after it.
    pub(crate) fn count(
        &mut self,
        hosts: u32,
        is_last: bool,
        counts: &mut Vec<(u32, bool, Vec<u8>)>,
    ) {
        for host in 0..hosts {
            self.enter(host);
            for path in [c"/proc/self/net/snmp", c"/proc/self/net/netstat"] {
                let mut text = Vec::new();
                Fd::open(path, 0).each("counts", |read| text.extend_from_slice(read));
                counts.push((host, is_last, text));
            }
        }
    }

    fn control(&self, what: usize, fd: &Fd, events: u32, token: u64) -> Result<(), Errno> {
        let event = Event { events, token };
        let arguments = [self.epoll.number(), what, fd.number(), &raw const event as usize];
        // SAFETY: the struct as epoll has it.
        unsafe { call(sys::EPOLL_CTL, &arguments).map(drop) }
    }

    /// A socket of a flow's side, bound to its address and port.
    fn open_side(
        &mut self,
        namespace: u32,
        address: SocketAddr,
        algorithm: &str,
        dscp: u8,
        max_pacing_rate: Option<u64>,
    ) -> Fd {
        self.enter(namespace);
        let socket = plain_call(sys::SOCKET, &[AF_INET, STREAM | NONBLOCK]);
        let socket = Fd::new("a socket", socket);
        need(algorithm, socket.set(IPPROTO_TCP, TCP_CONGESTION, algorithm.as_bytes()));
        need("SO_LINGER", socket.set(SOL_SOCKET, SO_LINGER, &[1_i32, 0]));
        need("SO_REUSEADDR", socket.set(SOL_SOCKET, SO_REUSEADDR, &[1_i32]));
        if dscp > 0 {
            need("IP_TOS", socket.set(IPPROTO_IP, IP_TOS, &[i32::from(dscp) << 2]));
        }
        if let Some(rate) = max_pacing_rate {
            need("SO_MAX_PACING_RATE", socket.set(SOL_SOCKET, SO_MAX_PACING_RATE, &[rate]));
        }
        need("bind", with_address(sys::BIND, &socket, address));
        socket
    }
}

fn keep_namespace(number: usize) {
    let file = Fd::open(c"/proc/self/ns/net", 0);
    let to = FIRST_NAMESPACE_FD + number;
    need("a namespace's descriptor", plain_call(sys::DUP2, &[file.number(), to]));
}

fn netlink() -> Fd {
    Fd::new("netlink", plain_call(sys::SOCKET, &[AF_NETLINK, RAW]))
}

/// Sends a request and takes the answer; its length.
fn ask(what: &str, socket: &Fd, request: &[u8], answer: &mut [u8]) -> usize {
    need(what, socket.send(request, 0));
    need(what, socket.receive(answer))
}

/// A call with a socket and an address.
fn with_address(number: usize, socket: &Fd, address: SocketAddr) -> Result<usize, Errno> {
    let host = match address.ip() {
        IpAddr::V4(host) => host,
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    };
    let mut bytes = [0_u8; 16];
    bytes[..2].copy_from_slice(&(AF_INET as u16).to_ne_bytes());
    bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
    bytes[4..8].copy_from_slice(&host.octets());
    // SAFETY: a struct sockaddr_in is so many bytes.
    unsafe { call(number, &[socket.number(), bytes.as_ptr() as usize, bytes.len()]) }
}

impl Os for Kernel {
    type Socket = Fd;
    type Error = Infallible;

    const WRITE_BYTES: u64 = WRITE_BYTES as u64;
    const WRITES_ALL: bool = true;
    const DUE_AT_ONCE: usize = usize::MAX;
    const IS_LATE: bool = false;

    fn open(&mut self, flows: &[FlowPlan]) -> Result<Vec<Opened<Fd>>, Infallible> {
        let open = |flow: &FlowPlan| {
            let (Some(from), Some(to)) = (flow.from, flow.to) else { fail("a flow's hosts") };
            let at = SocketAddr::new(flow.to_address, flow.port);
            let (peer, rate) = (&flow.peer_algorithm, flow.max_pacing_rate);
            let listener = self.open_side(to, at, peer, flow.peer_dscp, rate);
            let bytes = flow.low_water(flow.traffic.request_bytes());
            need("SO_RCVLOWAT", self.set_low_water(&listener, bytes));
            need("listen", plain_call(sys::LISTEN, &[listener.number(), 1]));
            let at = SocketAddr::new(flow.from_address, flow.from_port);
            let connecting = self.open_side(from, at, &flow.algorithm, flow.dscp, rate);
            Opened { listener: Some(listener), connecting: Some(connecting) }
        };
        Ok(flows.iter().map(open).collect())
    }

    fn open_ping(&mut self, ping: &PingPlan) -> Result<PingSocket<Fd>, Infallible> {
        self.enter(ping.from);
        let socket = plain_call(sys::SOCKET, &[AF_INET, RAW | NONBLOCK, IPPROTO_ICMP]);
        let socket = Fd::new("a ping's socket", socket);
        // All but echoes stay away.
        need("ICMP_FILTER", socket.set(SOL_RAW, ICMP_FILTER, &[!1_u32]));
        let tos = i32::from(ping.dscp << 2 | ping.ecn);
        need("IP_TOS", socket.set(IPPROTO_IP, IP_TOS, &[tos]));
        let to = SocketAddr::new(ping.to_address, 0);
        need("a ping's address", with_address(sys::CONNECT, &socket, to));
        Ok(PingSocket { socket, is_raw: true, id: ping.ping as u16 })
    }

    fn now_ns(&mut self) -> u64 {
        monotonic_ns().saturating_sub(self.zero_ns)
    }

    fn wait(&mut self, until_ns: u64, _is_urgent: bool, happened: &mut Vec<SocketEvent>) {
        if self.armed_ns != Some(until_ns) {
            let at_ns = until_ns.saturating_add(self.zero_ns);
            let at = [0, 0, at_ns / 1_000_000_000, at_ns % 1_000_000_000];
            let absolute = [self.timer.number(), 1, at.as_ptr() as usize, 0];
            // SAFETY: a struct itimerspec is four numbers.
            need("a timer", unsafe { call(sys::TIMERFD_SETTIME, &absolute) });
            self.armed_ns = Some(until_ns);
        }
        let mut events = [Event::default(); EVENTS];
        let for_ever = usize::MAX;
        let arguments = [self.epoll.number(), events.as_mut_ptr() as usize, EVENTS, for_ever];
        // SAFETY: so many events are what there is room for.
        let count = need("epoll", unsafe { call(sys::EPOLL_WAIT, &arguments) });
        let told = events[..count].iter().filter(|event| { event.token } != TIMER);
        happened.extend(told.map(|event| SocketEvent { token: event.token, events: event.events }));
    }

    fn watch(&mut self, socket: &Fd, token: u64, events: u32, known: bool) -> Result<(), Errno> {
        let what = if known { EPOLL_CTL_MOD } else { EPOLL_CTL_ADD };
        need("epoll", self.control(what, socket, events, token));
        Ok(())
    }

    fn ignore(&mut self, socket: &Fd) {
        let _ = self.control(EPOLL_CTL_DEL, socket, 0, 0);
    }

    fn connect(&mut self, socket: &Fd, to: SocketAddr) -> Result<bool, Errno> {
        match with_address(sys::CONNECT, socket, to) {
            // That it has is told all the same.
            Ok(_) | Err(EINPROGRESS) => Ok(false),
            Err(why) => Err(why),
        }
    }

    fn connected(&mut self, socket: &Fd) -> Result<(), Errno> {
        let mut error = [0; 4];
        socket.get(SOL_SOCKET, SO_ERROR, &mut error)?;
        match i32::from_ne_bytes(error) {
            0 => Ok(()),
            error => Err(Errno(error)),
        }
    }

    fn accept(&mut self, listener: &Fd, _flow: &FlowPlan) -> Result<Option<Fd>, Errno> {
        // SAFETY: no address of the other side is asked for.
        match unsafe { call(sys::ACCEPT4, &[listener.number(), 0, 0, NONBLOCK]) } {
            Err(knee_traffic::AGAIN) => Ok(None),
            accepted => Ok(Some(Fd::new("accept", accepted))),
        }
    }

    fn send(&mut self, socket: &Fd, bytes: u64, more: bool) -> Result<u64, Errno> {
        let flags = MSG_NOSIGNAL | MSG_DONTWAIT | if more { MSG_MORE } else { 0 };
        socket.send(&self.zeros[..bytes as usize], flags).map(|written| written as u64)
    }

    fn receive(&mut self, socket: &Fd) -> Result<u64, Errno> {
        let flags = MSG_TRUNC | MSG_DONTWAIT;
        // SAFETY: the kernel drops the data and writes nothing.
        let read = unsafe { call(sys::RECVFROM, &[socket.number(), 0, READ_BYTES, flags]) };
        read.map(|read| read as u64)
    }

    fn set_low_water(&mut self, socket: &Fd, bytes: u32) -> Result<(), Errno> {
        socket.set(SOL_SOCKET, SO_RCVLOWAT, &[bytes])
    }

    fn acknowledge(&mut self, socket: &Fd) {
        need("TCP_QUICKACK", socket.set(IPPROTO_TCP, TCP_QUICKACK, &[1_i32]));
    }

    fn say(&self, why: Errno) -> String {
        format!("{}", why.0)
    }

    fn info(&mut self, socket: &Fd) -> Vec<u8> {
        let mut info = [0; INFO_BYTES];
        let len = need("TCP_INFO", socket.get(IPPROTO_TCP, TCP_INFO, &mut info));
        info[..len].to_vec()
    }

    fn received_bytes(&mut self, socket: &Fd) -> Option<u64> {
        let mut info = [0; INFO_BYTES];
        socket.get(IPPROTO_TCP, TCP_INFO, &mut info).ok()?;
        Some(u64::from_ne_bytes(*info.get(BYTES_RECEIVED..)?.first_chunk()?))
    }

    fn algorithm(&mut self, socket: &Fd) -> String {
        let mut name = [0; 16];
        let _ = socket.get(IPPROTO_TCP, TCP_CONGESTION, &mut name);
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(name).into_owned()
    }

    fn inside(&mut self, _flow: &FlowPlan, socket: &Fd) -> Vec<u64> {
        let mut values = [0_u64; INSIDE_VALUES];
        let question = Question {
            values: values.as_mut_ptr() as u64,
            socket: socket.number() as u32,
            room: INSIDE_VALUES as u32,
        };
        let of = [self.inside.number(), INSIDE_VALUES_OF, &raw const question as usize];
        // SAFETY: the struct as the device has it, with room for so many values.
        let count = need("values inside", unsafe { call(sys::IOCTL, &of) });
        values[..count].to_vec()
    }

    fn record_queues(&mut self, at_ns: u64, moment: Moment) {
        for ((order, socket), queue) in self.orders.iter().zip(0..) {
            if order.only_counts && moment == Moment::Sample {
                continue;
            }
            let len = ask("a queue", socket, &order.request, &mut self.answer);
            let kind = u16::from_ne_bytes([self.answer[4], self.answer[5]]);
            if kind != RTM_NEWQDISC && kind != RTM_NEWLINK {
                fail("a queue is not told");
            }
            let answer = self.answer[..len].to_vec();
            self.queues.push(QueueAnswer { at_ns, moment, queue, answer });
        }
    }

    fn send_ping(&mut self, socket: &Fd, packet: &[u8]) {
        let _ = socket.send(packet, 0);
    }

    fn receive_ping(&mut self, socket: &Fd, to: &mut [u8]) -> Option<(usize, Option<u64>)> {
        Some((socket.receive(to).ok()?, None))
    }
}
