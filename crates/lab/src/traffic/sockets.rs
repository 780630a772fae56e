//! This machine's kernel, as the traffic program uses it: one epoll, one timer.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

use knee_traffic::{AGAIN, Errno, Opened, Os, PingSocket, SocketEvent};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno as Answer;
use rustix::net::{self, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::{Environment, FlowPlan, PingPlan, SocketKind, clock, sys};
use crate::Error;
use crate::error::failed;

/// What is sent, as much as one connection may write before others have their turn: to make segments of 64 KiB takes some tens of
/// us, in which those of a host of its own would not have to wait.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
/// Room for what one read takes. The kernel drops the data and writes nothing, so no page of it is ever touched.
const SINK_BYTES: usize = 16 << 20;
/// Events of epoll at a time.
const EVENTS: usize = 64;
/// Period of checks of the stop flag, ns.
const LOOK_NS: i64 = 20_000_000;
/// Time for the first setting of the timer before the run ([`Sockets::warm_up`]).
const LATER_NS: u64 = 1_000_000_000;
/// The timer's token; others are smaller.
const TIMER: u64 = u64::MAX;
/// Time before an urgent event when the program polls instead of sleeping, ns: waking up takes a few us, some tens on a busy
/// machine.
const SPIN_NS: u64 = 50_000;

/// The kernel for a traffic program: sockets of its environment, one epoll, one timer.
pub(super) struct Sockets<S> {
    pub(super) environment: S,
    /// Time 0 of the run, by CLOCK_MONOTONIC.
    pub(super) zero_ns: u64,
    /// Called once when all transfers have completed.
    pub(super) on_done: Option<Box<dyn FnOnce() + Send>>,
    epoll: OwnedFd,
    timer: Timer,
    sink: Vec<u8>,
    /// Values of algorithms from the last reading, by flow, until they are asked for.
    inside: HashMap<u32, Vec<u64>>,
}

impl<S: Environment> Sockets<S> {
    pub(super) fn new(environment: S) -> Result<Sockets<S>, Error> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed("epoll"))?;
        let timer = Timer::new().map_err(failed("a timer"))?;
        let data = EventData::new_u64(TIMER);
        epoll::add(&epoll, &timer.timer, data, EventFlags::IN).map_err(failed("epoll"))?;
        Ok(Sockets {
            environment,
            zero_ns: 0,
            on_done: None,
            epoll,
            timer,
            sink: vec![0; SINK_BYTES],
            inside: HashMap::new(),
        })
    }

    /// Sets the timer once before the run: the first call takes longest.
    pub(super) fn warm_up(&mut self) {
        self.environment.inside();
        self.timer.arm(clock::now_ns().saturating_add(LATER_NS), false);
        let _ = clock::realtime_ahead_ns();
    }

    /// A socket for each flow that has one at `host`. Each host is entered once.
    fn open_sockets(
        &mut self,
        flows: &[FlowPlan],
        host: impl Fn(&FlowPlan) -> Option<u32>,
    ) -> Result<Vec<Option<OwnedFd>>, Error> {
        let mut sockets: Vec<Option<OwnedFd>> = flows.iter().map(|_| None).collect();
        let mut by_host = BTreeMap::<u32, Vec<usize>>::new();
        for (index, flow) in flows.iter().enumerate() {
            if let Some(host) = host(flow) {
                by_host.entry(host).or_default().push(index);
            }
        }
        for (host, indices) in by_host {
            let kind = |index: &usize| SocketKind::Tcp { ipv6: flows[*index].to_address.is_ipv6() };
            let kinds: Vec<_> = indices.iter().map(kind).collect();
            let opened = self.environment.open(host, &kinds);
            let opened = opened.map_err(failed(format!("sockets of host {host}")))?;
            for (index, socket) in indices.into_iter().zip(opened) {
                sockets[index] = Some(socket);
            }
        }
        Ok(sockets)
    }
}

/// Raises the limit on open files as far as permitted; a socket that does not open reports the rest.
pub(super) fn raise_file_limit(needed: u64) {
    let now = getrlimit(Resource::Nofile);
    if now.current.is_some_and(|current| current < needed) {
        let wanted = |maximum| Rlimit { current: Some(needed), maximum };
        let higher = setrlimit(Resource::Nofile, wanted(now.maximum.map(|max| max.max(needed))));
        if higher.is_err() {
            let _ = setrlimit(Resource::Nofile, Rlimit { current: now.maximum, ..now });
        }
    }
}

/// Socket options of both sides of a flow.
fn set_up(socket: BorrowedFd<'_>, own: IpAddr, dscp: u8, flow: &FlowPlan) -> io::Result<()> {
    // Killed or not, this program leaves no connection behind.
    sockopt::set_socket_linger(socket, Some(Duration::ZERO))?;
    if dscp > 0 {
        // The kernel keeps the ECN bits of TCP to itself.
        sys::set_tos(socket, own, dscp << 2)?;
    }
    flow.max_pacing_rate.map_or(Ok(()), |rate| sys::set_max_pacing_rate(socket, rate))
}

/// The listening side. Its connection inherits what it has, and so does the SYN-ACK.
fn listen(socket: &OwnedFd, flow: &FlowPlan) -> io::Result<()> {
    set_up(socket.as_fd(), flow.to_address, flow.peer_dscp, flow)?;
    sockopt::set_socket_reuseaddr(socket, true)?;
    let low_water = flow.low_water(flow.traffic.request_bytes());
    sys::set_receive_low_water(socket.as_fd(), low_water)?;
    net::bind(socket, &SocketAddr::new(flow.to_address, flow.port))?;
    Ok(net::listen(socket, 1)?)
}

fn number(why: &io::Error) -> Errno {
    why.raw_os_error().map_or(Errno(Answer::IO.raw_os_error()), Errno)
}

/// Later is good enough for what was interrupted.
fn answer(why: Answer) -> Errno {
    if why == Answer::INTR { AGAIN } else { Errno(why.raw_os_error()) }
}

impl<S: Environment> Os for Sockets<S> {
    type Socket = OwnedFd;
    type Error = Error;

    const WRITE_BYTES: u64 = ZEROS.len() as u64;
    const WRITES_ALL: bool = false;
    const DUE_AT_ONCE: usize = 256;
    const IS_LATE: bool = true;

    fn open(&mut self, flows: &[FlowPlan]) -> Result<Vec<Opened<OwnedFd>>, Error> {
        let mut connecting = self.open_sockets(flows, |flow| flow.from)?;
        let mut listening = self.open_sockets(flows, |flow| flow.to)?;
        for (index, flow) in flows.iter().enumerate() {
            let (one, other) = (&connecting[index], &listening[index]);
            for (socket, listens) in [(one, false), (other, true)] {
                if let Some(socket) = socket {
                    self.environment.give(flow, listens, socket.as_fd())?;
                }
            }
            let what = format!("flow {}, {} port {}", flow.flow, flow.to_address, flow.port);
            if let Some(socket) = one {
                set_up(socket.as_fd(), flow.from_address, flow.dscp, flow)
                    .map_err(failed(&what))?;
            }
            if let Some(socket) = other {
                listen(socket, flow).map_err(failed(&what))?;
            }
        }
        // A port of the kernel's choice must not be one that a flow listens at: all of them listen before.
        let bind = |(index, flow): (usize, &FlowPlan)| {
            if let Some(socket) = &connecting[index] {
                let what = format!("flow {}, from {}", flow.flow, flow.from_address);
                let from = SocketAddr::new(flow.from_address, flow.from_port);
                net::bind(socket, &from).map_err(failed(what))?;
                let _ = sys::tcp_info(socket.as_fd());
            }
            let (listener, connecting) = (listening[index].take(), connecting[index].take());
            Ok(Opened { listener, connecting })
        };
        flows.iter().enumerate().map(bind).collect()
    }

    fn open_ping(&mut self, ping: &PingPlan) -> Result<PingSocket<OwnedFd>, Error> {
        let kind = SocketKind::Ping { ipv6: ping.to_address.is_ipv6() };
        let what = format!("ping {}: a socket for ICMP at host {}", ping.ping, ping.from);
        let opened = self.environment.open(ping.from, &[kind]).map_err(failed(&what))?;
        let socket = opened.into_iter().next().ok_or(Error::Failed(what))?;
        let is_raw = set_up_ping(ping, socket.as_fd())
            .map_err(failed(format!("ping {} to {}", ping.ping, ping.to_address)))?;
        // Each stream of each process has its own.
        let id = (std::process::id() as u16).wrapping_mul(64).wrapping_add(ping.ping as u16);
        Ok(PingSocket { socket, is_raw, id })
    }

    fn look_into(&mut self, flow: &FlowPlan, socket: &OwnedFd) -> Result<(), Error> {
        self.environment.watch(flow, socket.as_fd())
    }

    fn has_begun(&mut self) -> bool {
        clock::now_ns() >= self.zero_ns
    }

    fn now_ns(&mut self) -> u64 {
        clock::now_ns().saturating_sub(self.zero_ns)
    }

    fn wait(&mut self, until_ns: u64, is_urgent: bool, happened: &mut Vec<SocketEvent>) {
        let sleeps = self.timer.arm(self.zero_ns.saturating_add(until_ns), is_urgent);
        let timeout = Timespec { tv_sec: 0, tv_nsec: if sleeps { LOOK_NS } else { 0 } };
        let nothing = epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let mut events = [nothing; EVENTS];
        // Interrupted: nothing has happened.
        let count = epoll::wait(&self.epoll, &mut events, Some(&timeout)).unwrap_or(0);
        // Copied: the struct is packed.
        let told = events[..count].iter().map(|event| (event.data.u64(), event.flags));
        let told = told.filter(|(token, _)| *token != TIMER);
        happened.extend(told.map(|(token, flags)| SocketEvent { token, events: flags.bits() }));
    }

    fn on_done(&mut self) {
        if let Some(tell) = self.on_done.take() {
            tell();
        }
    }

    fn watch(
        &mut self,
        socket: &OwnedFd,
        token: u64,
        events: u32,
        is_known: bool,
    ) -> Result<(), Errno> {
        let (data, flags) = (EventData::new_u64(token), EventFlags::from_bits_retain(events));
        let told = if is_known { epoll::modify::<_, _> } else { epoll::add };
        told(&self.epoll, socket, data, flags).map_err(answer)
    }

    fn ignore(&mut self, socket: &OwnedFd) {
        let _ = epoll::delete(&self.epoll, socket);
    }

    fn connect(&mut self, socket: &OwnedFd, to: SocketAddr) -> Result<bool, Errno> {
        match net::connect(socket, &to) {
            Ok(()) => Ok(true),
            Err(Answer::INPROGRESS) => Ok(false),
            Err(why) => Err(answer(why)),
        }
    }

    fn connected(&mut self, socket: &OwnedFd) -> Result<(), Errno> {
        sockopt::socket_error(socket).and_then(|error| error).map_err(answer)
    }

    /// Closes connections from other addresses.
    fn accept(&mut self, listener: &OwnedFd, flow: &FlowPlan) -> Result<Option<OwnedFd>, Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (socket, from) = match net::acceptfrom_with(listener, flags) {
            Ok(accepted) => accepted,
            // It was gone again.
            Err(Answer::AGAIN | Answer::INTR | Answer::CONNABORTED) => return Ok(None),
            Err(why) => return Err(answer(why)),
        };
        let from = from.and_then(|from| SocketAddr::try_from(from).ok()).map(|from| from.ip());
        let wanted = flow.from_address;
        let is_wanted = from.is_some_and(|from| from == wanted || wanted.is_unspecified());
        Ok(is_wanted.then_some(socket))
    }

    fn send(&mut self, socket: &OwnedFd, bytes: u64, more: bool) -> Result<u64, Errno> {
        let more = if more { SendFlags::MORE } else { SendFlags::empty() };
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT | more;
        let written = net::send(socket, &ZEROS[..bytes as usize], flags);
        written.map(|written| written as u64).map_err(answer)
    }

    fn receive(&mut self, socket: &OwnedFd) -> Result<u64, Errno> {
        let flags = RecvFlags::TRUNC | RecvFlags::DONTWAIT;
        let read = net::recv(socket, &mut self.sink[..], flags);
        read.map(|(_, read)| read as u64).map_err(answer)
    }

    fn set_low_water(&mut self, socket: &OwnedFd, bytes: u32) -> Result<(), Errno> {
        sys::set_receive_low_water(socket.as_fd(), bytes).map_err(|why| number(&why))
    }

    fn acknowledge(&mut self, socket: &OwnedFd) {
        // Without it there is a probe.
        let _ = sockopt::set_tcp_quickack(socket, true);
    }

    fn say(&self, why: Errno) -> String {
        io::Error::from_raw_os_error(why.0).to_string()
    }

    fn info(&mut self, socket: &OwnedFd) -> Vec<u8> {
        sys::tcp_info(socket.as_fd()).unwrap_or_default()
    }

    fn algorithm(&mut self, socket: &OwnedFd) -> String {
        sockopt::tcp_congestion(socket).unwrap_or_default()
    }

    fn init_called(&mut self, socket: &OwnedFd) -> Option<bool> {
        // One that has left for another algorithm is asked by that one's name.
        let algorithm = self.algorithm(socket);
        self.environment.init_called(&algorithm, socket.as_fd())
    }

    fn look_inside(&mut self) {
        self.inside = self.environment.inside().into_iter().collect();
    }

    fn inside(&mut self, flow: &FlowPlan, _socket: &OwnedFd) -> Vec<u64> {
        self.inside.remove(&flow.flow).unwrap_or_default()
    }

    fn leave(&mut self, socket: &OwnedFd) {
        self.environment.leave(socket.as_fd());
    }

    fn send_ping(&mut self, socket: &OwnedFd, packet: &[u8]) {
        let _ = net::send(socket, packet, SendFlags::DONTWAIT);
    }

    /// Receives a ping; its time is the kernel's receive timestamp.
    fn receive_ping(
        &mut self,
        socket: &OwnedFd,
        buffer: &mut [u8],
    ) -> Option<(usize, Option<u64>)> {
        let (len, stamp) = sys::receive_stamped(socket.as_fd(), buffer).ok()?;
        let at_ns = stamp.map(|stamp| {
            let at_ns = (stamp as i64 - clock::realtime_ahead_ns()).max(0) as u64;
            at_ns.min(clock::now_ns()).saturating_sub(self.zero_ns)
        });
        Some((len, at_ns))
    }
}

/// Makes a socket for pings ready; whether it is a raw one.
fn set_up_ping(plan: &PingPlan, socket: BorrowedFd<'_>) -> io::Result<bool> {
    let is_raw = sockopt::socket_type(socket)? == SocketType::RAW;
    if is_raw {
        sys::set_echo_filter(socket, plan.to_address)?;
    }
    sys::set_tos(socket, plan.to_address, plan.dscp << 2 | plan.ecn)?;
    sys::set_stamps(socket)?;
    // From no other address does it get anything then.
    net::connect(socket, &SocketAddr::new(plan.to_address, 0))?;
    Ok(is_raw)
}

/// The kernel's timer: to the ns, where the timeouts of `epoll_wait` have slack.
struct Timer {
    timer: OwnedFd,
    armed_ns: Option<u64>,
}

impl Timer {
    fn new() -> io::Result<Timer> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Timer { timer, armed_ns: None })
    }

    /// Sets it for a time on CLOCK_MONOTONIC. False: that is so near that there is no time to sleep.
    fn arm(&mut self, at_ns: u64, is_urgent: bool) -> bool {
        let wake_ns = if is_urgent { at_ns.saturating_sub(SPIN_NS) } else { at_ns };
        if wake_ns <= clock::now_ns() {
            return false;
        }
        if self.armed_ns != Some(wake_ns) {
            let at = |ns: u64| Timespec {
                tv_sec: (ns / 1_000_000_000) as i64,
                tv_nsec: (ns % 1_000_000_000) as i64,
            };
            let when = Itimerspec { it_interval: at(0), it_value: at(wake_ns) };
            // It fails for a bad descriptor or time only; the caller never sleeps for long without it.
            let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &when);
            // A timer that has expired is readable until it is set again, which is when there is another time to wake at.
            self.armed_ns = Some(wake_ns);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_no_sleep_just_before_a_start() {
        let mut timer = Timer::new().unwrap();
        let now_ns = clock::now_ns();
        assert!(timer.arm(now_ns + 60_000_000_000, true));
        assert!(!timer.arm(now_ns + SPIN_NS, true));
        assert!(!timer.arm(now_ns, false));
    }
}
