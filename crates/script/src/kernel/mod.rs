//! The running kernel's TCP as a stack: a socket in a network namespace of its own, whose only way out is a
//! TUN device that the script reads and writes.
//!
//! Nothing is left behind: the device goes with its descriptor, the namespace with its thread and its sockets, the
//! algorithm with its link, in whatever way the process ends. Only a connection that the script closed needs the
//! process: when the play ends, its peer resets it. If the process is killed after a `close` and before that, the
//! kernel keeps retransmitting for minutes to a removed device, and keeps the namespace for that time. Shorter
//! timeouts would end that sooner, but would be visible to scripts.

mod algorithms;
mod clock;
mod cpu;
mod device;
mod info;
mod lateness_probe;
#[expect(unsafe_code, reason = "calls of the kernel's that no crate wraps")]
mod sys;
mod wire;

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use knee_bpf::KernelApi;
use knee_netns::{Id, Namespace};
use knee_queue::time::{Duration, Time};
use knee_wire::Segment;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, sockopt};

use self::algorithms::Chosen;
pub use self::algorithms::{Algorithms, not_for_kernels_own};
use self::clock::{Clock, Tap};
use self::lateness_probe::LatenessProbe;
use self::wire::Wire;
use crate::wire::sides;
use crate::{Call, Given, Info, LinuxVersion, Refusal, Settings, SocketOption, Stack};

/// Written by one call at most: more than any socket takes at once.
const WRITE_BYTES: usize = 16 << 20;
/// Read by one call at most.
const READ_BYTES: usize = 1 << 20;
/// Time before a deadline when waiting polls instead of sleeping, since a sleep may end late.
const SPIN_NS: u64 = 100_000;
/// An accepted connection is there at once; on a busy machine a little later.
const ACCEPT_NS: u64 = 5_000_000;
/// Tolerance on top of one jiffy, the resolution of the kernel's timers.
const SLACK_US: u64 = 1000;

/// Socket of the application.
enum Socket {
    /// Not connected, or connecting, or connected.
    Own(OwnedFd),
    /// Waits for its first connection.
    Listener(OwnedFd),
    Closed,
}

/// The running kernel's TCP.
pub struct KernelStack {
    // Fields are dropped in this order: the socket before its algorithm and its device.
    socket: Socket,
    /// Stays open beside the connection that it accepted.
    _listener: Option<OwnedFd>,
    chosen: Chosen,
    tun: File,
    tap: Option<Tap>,
    wire: Wire,
    clock: Clock,
    /// Segments that were read and not asked for yet.
    left: VecDeque<(Time, Segment)>,
    /// Remaining bytes of each blocked write.
    writes: VecDeque<(u64, SendFlags)>,
    /// The next byte that the stack expects, as far as it has said.
    expects: u32,
    /// The next byte that the peer has not sent.
    peer_next: u32,
    /// Zeros to send; never written to, so they take no memory.
    zeros: Vec<u8>,
    /// Room to read.
    buffer: Vec<u8>,
    addresses: [SocketAddr; 2],
    namespace: Id,
    _thread: Namespace,
    _hurry: Option<sys::Ordinary>,
    _unpinned: Option<cpu::Unpinned>,
    lateness_probe: LatenessProbe,
}

/// The version of the running kernel.
pub fn running() -> LinuxVersion {
    KernelApi::running().version
}

fn refused<E: Into<io::Error>>(what: &str) -> impl Fn(E) -> Refusal {
    move |why| Refusal(format!("{what}: {}", why.into()))
}

/// Something would have to wait.
fn waits(why: Errno) -> bool {
    matches!(why, Errno::AGAIN | Errno::INTR | Errno::INPROGRESS)
}

impl KernelStack {
    /// Makes one, with algorithms as `which` says.
    ///
    /// Where that is permitted, the calling thread comes before all ordinary ones (`SCHED_FIFO`) while the stack
    /// lives, on one CPU: on a machine of two cores with 16 busy threads, one deadline of 100 was seen 25 ms late or
    /// more without it, and 0.05 ms with it. The kernel's own work is not kept waiting: the thread sleeps but for
    /// the last 0.1 ms before a deadline. Beside it is another that watches the kernel's timers there.
    ///
    /// # Errors
    /// What the kernel lacks or does not permit, what the algorithm lacks, and settings that the kernel does not
    /// take.
    pub fn new(settings: &Settings, which: Algorithms) -> Result<KernelStack, Refusal> {
        if settings.fq {
            return Err(Refusal(
                "fq as the host's queue is for the simulator: leave out --on kernel".to_owned(),
            ));
        }
        if settings.merged_mss.is_some() {
            return Err(Refusal(
                "--mss, of which a device merges segments, is for the simulator: leave out --on kernel".to_owned(),
            ));
        }
        let thread = Namespace::new().map_err(|why| {
            Refusal(format!(
                "the kernel creates no network namespace: {why}; it needs root (CAP_SYS_ADMIN and CAP_NET_ADMIN): use sudo, or \
                 the simulator"
            ))
        })?;
        let addresses = sides(settings.ipv6);
        let given = settings.clone();
        let inside = thread.run(move || {
            let device = device::set_up(&given, addresses[0].ip())?;
            let family = if given.ipv6 { AddressFamily::INET6 } else { AddressFamily::INET };
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let tcp = Some(ipproto::TCP);
            let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, tcp)
                .map_err(refused("the kernel opens no socket"))?;
            let namespace = knee_netns::current().map_err(refused("cannot read the namespace"))?;
            Ok::<_, Refusal>((device, socket, namespace.id()))
        });
        let (device, socket, namespace) = inside?;
        // A process that is killed leaves no connection that goes on sending.
        set_abort(socket.as_fd(), true)?;
        if let Some(bytes) = device.max_segment {
            sys::set_max_segment(socket.as_fd(), bytes).map_err(refused("TCP_MAXSEG"))?;
        }
        let mut chosen = Chosen::new(settings, which)?;
        chosen.give(&settings.algorithm, socket.as_fd())?;
        let hurry = sys::hurry();
        // An ordinary thread would wait for its turn there.
        let unpinned = hurry.as_ref().and_then(|_| cpu::pin());
        let lateness_probe =
            LatenessProbe::start(hz()).map_err(refused("cannot start a thread"))?;
        Ok(KernelStack {
            socket: Socket::Own(socket),
            _listener: None,
            chosen,
            tun: device.tun,
            tap: device.tap.map(Tap::new),
            wire: Wire::new(addresses),
            clock: Clock::start(),
            left: VecDeque::new(),
            writes: VecDeque::new(),
            expects: 0,
            peer_next: 0,
            zeros: vec![0; WRITE_BYTES],
            buffer: vec![0; READ_BYTES],
            addresses,
            namespace,
            _thread: thread,
            _hurry: hurry,
            _unpinned: unpinned,
            lateness_probe,
        })
    }

    /// Reads what the device holds.
    fn look(&mut self) -> Result<(), Refusal> {
        loop {
            let len = match rustix::io::read(&self.tun, &mut self.buffer[..]) {
                Ok(len) => len,
                Err(why) if waits(why) => return Ok(()),
                Err(why) => return Err(refused("the TUN device")(why)),
            };
            let now = self.clock.now();
            let packet = &self.buffer[..len];
            let mut at = now;
            if let Some(tap) = &mut self.tap {
                tap.look(&self.clock);
                at = tap.when(packet).unwrap_or(now);
            }
            let Some(segment) = self.wire.decode(packet) else { continue };
            if segment.has(Segment::ACK) {
                self.expects = segment.ack;
            }
            // Two packets may not change places because clocks were read one after the other.
            let at = self.left.back().map_or(at, |(before, _)| at.max(*before));
            self.left.push_back((at, segment));
        }
    }

    /// The connection, or the socket that is to be one, or that waits for one.
    fn socket(&self) -> Result<BorrowedFd<'_>, Refusal> {
        match &self.socket {
            Socket::Own(socket) | Socket::Listener(socket) => Ok(socket.as_fd()),
            Socket::Closed => Err(Refusal("the connection is closed".to_owned())),
        }
    }

    /// The connection's socket; waits up to `patience_ns` until it is accepted.
    fn connection(&mut self, patience_ns: u64) -> Result<BorrowedFd<'_>, Refusal> {
        if let Socket::Listener(listener) = &self.socket {
            let until_ns = self.clock.now().ns() + patience_ns;
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let accepted = loop {
                match rustix::net::accept_with(listener, flags) {
                    Ok(accepted) => break accepted,
                    Err(why) if waits(why) && self.clock.now().ns() < until_ns => {
                        std::thread::yield_now();
                    }
                    Err(why) if waits(why) => {
                        return Err(Refusal("no connection is established yet".to_owned()));
                    }
                    Err(why) => return Err(refused("accept")(why)),
                }
            };
            let listener = std::mem::replace(&mut self.socket, Socket::Own(accepted));
            if let Socket::Listener(listener) = listener {
                self._listener = Some(listener);
            }
        }
        self.socket()
    }

    fn connect(&mut self) -> Result<(), Refusal> {
        let [stack, peer] = self.addresses;
        let socket = self.socket()?;
        rustix::net::bind(socket, &stack).map_err(refused("bind"))?;
        match rustix::net::connect(socket, &peer) {
            Err(why) if !waits(why) => Err(refused("connect")(why)),
            _ => Ok(()),
        }
    }

    fn listen(&mut self) -> Result<(), Refusal> {
        let Socket::Own(socket) = std::mem::replace(&mut self.socket, Socket::Closed) else {
            return Err(Refusal("a script has one connection".to_owned()));
        };
        let listened = rustix::net::bind(&socket, &self.addresses[0])
            .and_then(|()| rustix::net::listen(&socket, 1));
        self.socket = Socket::Listener(socket);
        listened.map_err(refused("listen"))
    }

    fn begin_write(&mut self, bytes: u64, flags: SendFlags) -> Result<(), Refusal> {
        // A blocked application cannot write more: it goes on when the first write is done.
        let is_free = self.writes.is_empty();
        self.writes.push_back((bytes, flags));
        if is_free { self.write() } else { Ok(()) }
    }

    fn shut_down(&mut self) -> Result<(), Refusal> {
        let socket = self.connection(ACCEPT_NS)?;
        rustix::net::shutdown(socket, rustix::net::Shutdown::Write).map_err(refused("shutdown"))
    }

    /// Gives the kernel what it takes of the writes that wait.
    fn write(&mut self) -> Result<(), Refusal> {
        self.connection(ACCEPT_NS)?;
        while let (Some((bytes, flags)), Socket::Own(socket)) =
            (self.writes.front_mut(), &self.socket)
        {
            // Each write is one call as long as it fits, so that it ends as an application's would.
            let len = usize::try_from(*bytes).unwrap_or(WRITE_BYTES).min(WRITE_BYTES);
            match rustix::net::send(socket, &self.zeros[..len], *flags | SendFlags::NOSIGNAL) {
                Ok(sent) => *bytes -= sent as u64,
                Err(why) if waits(why) => return Ok(()),
                Err(why) => {
                    self.writes.clear();
                    return Err(refused("write")(why));
                }
            }
            if *bytes == 0 {
                self.writes.pop_front();
            }
        }
        Ok(())
    }

    fn read(&mut self, most: Option<u64>) -> Result<Given, Refusal> {
        self.connection(ACCEPT_NS)?;
        let most = most.unwrap_or(u64::MAX);
        let mut given = Given::default();
        while given.bytes < most {
            let len = usize::try_from(most - given.bytes).unwrap_or(READ_BYTES).min(READ_BYTES);
            let Socket::Own(socket) = &self.socket else { break };
            match rustix::net::recv(socket, &mut self.buffer[..len], RecvFlags::empty()) {
                Ok((0, _)) => {
                    given.at_end = true;
                    break;
                }
                Ok((read, _)) => given.bytes += read as u64,
                Err(why) if waits(why) => break,
                Err(why) => return Err(refused("read")(why)),
            }
        }
        Ok(given)
    }

    fn close(&mut self) -> Result<(), Refusal> {
        // If there is a connection by now, that one is meant.
        let _ = self.connection(0);
        if let Socket::Own(socket) = std::mem::replace(&mut self.socket, Socket::Closed) {
            set_abort(socket.as_fd(), false)?;
        }
        self.writes.clear();
        Ok(())
    }

    fn set(&mut self, option: &SocketOption) -> Result<(), Refusal> {
        // Before there is a connection, the listener's are what it begins with.
        let _ = self.connection(0);
        let (Socket::Own(socket) | Socket::Listener(socket)) = &self.socket else {
            return Err(Refusal("the connection is closed".to_owned()));
        };
        let done = match option {
            SocketOption::Congestion(name) => return self.chosen.give(name, socket.as_fd()),
            SocketOption::NoDelay(on) => sockopt::set_tcp_nodelay(socket, *on).map_err(Into::into),
            SocketOption::Cork(on) => sockopt::set_tcp_cork(socket, *on).map_err(Into::into),
            SocketOption::QuickAck(on) => {
                sockopt::set_tcp_quickack(socket, *on).map_err(Into::into)
            }
            SocketOption::ReceiveLowWater(bytes) => {
                sys::set_receive_low_water(socket.as_fd(), *bytes)
            }
            SocketOption::ReceiveBuffer(bytes) => {
                sockopt::set_socket_recv_buffer_size(socket, *bytes as usize).map_err(Into::into)
            }
            SocketOption::SendBuffer(bytes) => {
                sockopt::set_socket_send_buffer_size(socket, *bytes as usize).map_err(Into::into)
            }
            SocketOption::MaxPacingRate(bytes_per_sec) => {
                sys::set_max_pacing_rate(socket.as_fd(), *bytes_per_sec)
            }
        };
        done.map_err(|why: io::Error| Refusal(format!("{option:?}: the kernel refuses it: {why}")))
    }

    /// Waits until the device or the socket has something, or for so long.
    fn wait(&self, ns: u64) -> Result<(), Refusal> {
        let timeout = Timespec {
            tv_sec: i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (ns % 1_000_000_000) as i64,
        };
        let mut of = vec![PollFd::new(&self.tun, PollFlags::IN)];
        if let (Socket::Own(socket), false) = (&self.socket, self.writes.is_empty()) {
            of.push(PollFd::new(socket, PollFlags::OUT));
        }
        match poll(&mut of, Some(&timeout)) {
            Err(why) if !waits(why) => Err(refused("poll")(why)),
            _ => Ok(()),
        }
    }

    /// Ends a connection that was closed, which would keep sending, and its namespace, for minutes: its peer
    /// resets it.
    fn end(&mut self) -> Result<(), Refusal> {
        if !matches!(self.socket, Socket::Closed) {
            return Ok(());
        }
        // A reset counts only at the very byte that is expected next. That is what the last ACK said, or,
        // while an ACK is delayed, what the peer has sent.
        for seq in [self.expects, self.peer_next] {
            self.receive(&Segment { flags: Segment::RST, seq, ..Segment::default() })?;
        }
        // Otherwise there was an answer that says what is.
        let seq = self.expects;
        self.receive(&Segment { flags: Segment::RST, seq, ..Segment::default() })
    }

    /// Whether the socket has room for an application that waits for it.
    fn has_room(&self) -> bool {
        let Socket::Own(socket) = &self.socket else { return false };
        let mut of = [PollFd::new(socket, PollFlags::OUT)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut of, Some(&now)).is_ok_and(|ready| ready > 0)
    }
}

/// Jiffies per second.
fn hz() -> u64 {
    u64::from(KernelApi::running().hz.max(1))
}

/// Whether the connection ends at once with its descriptor, or as applications end theirs.
fn set_abort(socket: BorrowedFd<'_>, on: bool) -> Result<(), Refusal> {
    sockopt::set_socket_linger(socket, on.then_some(std::time::Duration::ZERO))
        .map_err(refused("SO_LINGER"))
}

impl Stack for KernelStack {
    fn name(&self) -> &'static str {
        "the kernel"
    }

    fn linux(&self) -> LinuxVersion {
        running()
    }

    fn now(&self) -> Time {
        self.clock.now()
    }

    fn call(&mut self, call: &Call) -> Result<Given, Refusal> {
        self.look()?;
        let mut given = Given::default();
        match call {
            Call::Connect => self.connect(),
            Call::Listen => self.listen(),
            Call::Write(bytes) => self.begin_write(*bytes, SendFlags::empty()),
            Call::WriteBeforeMore(bytes) => self.begin_write(*bytes, SendFlags::MORE),
            Call::ShutDown => self.shut_down(),
            Call::Read(most) => self.read(*most).map(|read| given = read),
            Call::Close => self.close(),
            Call::Set(option) => self.set(option),
        }?;
        self.look()?;
        Ok(given)
    }

    fn receive(&mut self, segment: &Segment) -> Result<(), Refusal> {
        self.look()?;
        let packet = self.wire.encode(segment)?;
        rustix::io::write(&self.tun, &packet)
            .map_err(refused("the TUN device refuses a packet"))?;
        let [syn, fin] = [Segment::SYN, Segment::FIN].map(|flag| u32::from(segment.has(flag)));
        let end = segment.seq.wrapping_add(segment.len).wrapping_add(syn + fin);
        if (end.wrapping_sub(self.peer_next) as i32).is_positive() {
            self.peer_next = end;
        }
        self.look()
    }

    fn next_segment(&mut self, until: Time) -> Result<Option<(Time, Segment)>, Refusal> {
        loop {
            self.look()?;
            if let Some(left) = self.left.pop_front() {
                return Ok(Some(left));
            }
            let writes = !self.writes.is_empty() && self.has_room();
            if writes {
                // An application that cannot write learns it from its next call.
                let _ = self.write();
                self.look()?;
                if !self.left.is_empty() {
                    continue;
                }
            }
            let now = self.clock.look(until);
            if now >= until {
                return Ok(None);
            }
            if writes {
                // A socket may say that it has room and yet take nothing.
                std::thread::yield_now();
                continue;
            }
            let left_ns = until.ns().saturating_sub(now.ns());
            if left_ns > SPIN_NS {
                self.wait(left_ns - SPIN_NS)?;
            }
        }
    }

    fn info(&mut self) -> Result<Info, Refusal> {
        self.look()?;
        self.connection(ACCEPT_NS)?;
        let (Socket::Own(socket) | Socket::Listener(socket)) = &self.socket else {
            return Err(Refusal("the connection is closed".to_owned()));
        };
        let tcp_info = sys::tcp_info(socket.as_fd()).map_err(refused("TCP_INFO"))?;
        let algorithm = sockopt::tcp_congestion(socket).map_err(refused("TCP_CONGESTION"))?;
        let mut values: Vec<_> = info::values(&tcp_info).collect();
        if let Ok(unread) = rustix::io::ioctl_fionread(socket) {
            values.push(("unread".to_owned(), unread.into()));
        }
        values.extend(self.chosen.inside(self.namespace, socket.as_fd())?);
        let algorithm = self.chosen.script_name(algorithm);
        self.look()?;
        Ok(Info { values, algorithm })
    }

    fn slack(&self) -> Duration {
        Duration::from_us(1_000_000 / hz() + SLACK_US)
    }

    fn lateness(&self) -> Duration {
        self.clock.late().max(self.lateness_probe.late())
    }

    fn leaves_out_calls(&self) -> bool {
        self.chosen.has_loaded() && KernelApi::running().spares_process_1
    }
}

impl Drop for KernelStack {
    fn drop(&mut self) {
        // A peer that is gone needs no reset.
        let _ = self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection that the peer began, to the end of its handshake.
    fn established() -> KernelStack {
        let mut stack = KernelStack::new(&Settings::default(), Algorithms::Ours).unwrap();
        stack.call(&Call::Listen).unwrap();
        let syn = Segment { mss: Some(1012), sack_ok: true, ..segment(Segment::SYN, 0, 0, 0) };
        stack.receive(&syn).unwrap();
        assert!(stack.next_segment(Time::from_ms(10_000)).unwrap().is_some());
        stack.receive(&segment(Segment::ACK, 1, 0, 1)).unwrap();
        stack.connection(ACCEPT_NS).unwrap();
        stack
    }

    fn segment(flags: u16, seq: u32, len: u32, ack: u32) -> Segment {
        Segment { flags, seq, len, ack, window_bytes: 65_535, ..Segment::default() }
    }

    /// Sockets of the namespace that the kernel still works for.
    fn in_use(stack: &KernelStack) -> String {
        let text = stack._thread.run(|| std::fs::read_to_string("/proc/thread-self/net/sockstat"));
        let text = text.unwrap();
        let tcp = text.lines().find_map(|line| line.strip_prefix("TCP: inuse ")).unwrap();
        tcp.split(' ').next().unwrap().to_owned()
    }

    #[test]
    fn nothing_is_left_in_whatever_state_a_connection_was_closed() {
        if !knee_testbed::kernel_is_ready() {
            return;
        }
        let fin = Segment::FIN | Segment::ACK;
        let close = |stack: &mut KernelStack| stack.call(&Call::Close).unwrap();
        let data = |stack: &mut KernelStack| {
            stack.receive(&segment(Segment::ACK, 1, 1000, 1)).unwrap();
        };
        type Case<'a> = (&'a str, &'a dyn Fn(&mut KernelStack));
        let cases: [Case<'_>; 8] = [
            ("nothing sent", &|stack| {
                close(stack);
            }),
            ("something unacknowledged", &|stack| {
                stack.call(&Call::Write(5000)).unwrap();
                close(stack);
            }),
            ("more than the window lets go", &|stack| {
                stack.call(&Call::Write(100_000)).unwrap();
                close(stack);
            }),
            ("something unread", &|stack| {
                data(stack);
                close(stack);
            }),
            ("an ACK delayed", &|stack| {
                for n in 0..20 {
                    stack.receive(&segment(Segment::ACK, 1 + n * 1000, 1000, 1)).unwrap();
                    stack.call(&Call::Read(None)).unwrap();
                }
                stack.receive(&segment(Segment::ACK, 20_001, 100, 1)).unwrap();
                stack.call(&Call::Read(None)).unwrap();
                close(stack);
            }),
            ("its FIN acknowledged", &|stack| {
                close(stack);
                stack.receive(&segment(Segment::ACK, 1, 0, 2)).unwrap();
            }),
            ("the peer's FIN first", &|stack| {
                stack.receive(&segment(fin, 1, 0, 1)).unwrap();
                close(stack);
            }),
            ("a gap before what came last", &|stack| {
                stack.receive(&segment(Segment::ACK, 2001, 1000, 1)).unwrap();
                close(stack);
            }),
        ];
        for (what, happens) in cases {
            let mut stack = established();
            happens(&mut stack);
            stack._listener = None;
            stack.end().unwrap();
            assert_eq!(in_use(&stack), "0", "{what}");
        }
    }

    #[test]
    fn a_connection_that_nobody_closed_ends_with_its_descriptor() {
        if !knee_testbed::kernel_is_ready() {
            return;
        }
        let mut stack = established();
        stack.call(&Call::Write(5000)).unwrap();
        stack._listener = None;
        assert_eq!(in_use(&stack), "1");
        stack.socket = Socket::Closed;
        assert_eq!(in_use(&stack), "0");
    }
}
