//! What the two applications of a connection do: the counterpart of the simulator's, on sockets.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendFlags, SocketFlags, sockopt};

use super::{FlowPlan, Look, SideReport, TrafficKind, clock, sys};

/// What is sent, as much as one connection may write before others have their turn: to make segments of 64 KiB takes some tens of
/// us, in which those of a host of its own would not have to wait.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
/// Bytes without end.
const ENDLESS: u64 = u64::MAX;
/// By how much the clocks of two machines may differ: a connection that the other side was to stop may be gone that long before
/// this side's own moment for it.
const CLOCKS_DIFFER_NS: u64 = 50_000_000;

/// What both sides work with.
pub(super) struct Desk<'a> {
    pub(super) epoll: &'a OwnedFd,
    pub(super) zero_ns: u64,
    /// Completed exchanges.
    pub(super) rpcs: &'a mut Vec<(u32, u64, u64)>,
    /// For data that is read and not looked at: the kernel writes nothing into it.
    pub(super) sink: &'a mut [u8],
}

impl Desk<'_> {
    /// Since time 0 of the run.
    pub(super) fn now_ns(&self) -> u64 {
        clock::now_ns().saturating_sub(self.zero_ns)
    }
}

/// A socket, and what epoll is to tell of it.
struct Watched {
    socket: OwnedFd,
    token: u64,
    interest: Option<EventFlags>,
}

impl Watched {
    fn new(socket: OwnedFd, token: u64) -> Watched {
        Watched { socket, token, interest: None }
    }

    fn wait_for(&mut self, flags: EventFlags, epoll: &OwnedFd) -> io::Result<()> {
        let data = EventData::new_u64(self.token);
        match self.interest {
            Some(same) if same == flags => {}
            Some(_) => epoll::modify(epoll, &self.socket, data, flags)?,
            None => epoll::add(epoll, &self.socket, data, flags)?,
        }
        self.interest = Some(flags);
        Ok(())
    }

    /// Nothing of it matters any more.
    fn ignore(&mut self, epoll: &OwnedFd) {
        if self.interest.take().is_some() {
            let _ = epoll::delete(epoll, &self.socket);
        }
    }
}

/// A side, as far as both have the same.
struct Side {
    /// The connection, or what will be one.
    socket: Option<Watched>,
    /// Bytes that wait to be written.
    to_write: u64,
    /// It has finished, was stopped, or has failed.
    is_over: bool,
    report: SideReport,
}

impl Side {
    fn new(flow: u32, listens: bool, socket: Option<Watched>) -> Side {
        let report = SideReport { flow, listens, ..SideReport::default() };
        Side { socket, to_write: 0, is_over: false, report }
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(|watched| watched.socket.as_fd())
    }

    /// Writes what there is room for, and waits for more room, and for what the other side sends if it does.
    fn write(&mut self, reads: bool, epoll: &OwnedFd) -> io::Result<()> {
        let Some(watched) = &mut self.socket else { return Ok(()) };
        let is_blocked = write_some(watched.socket.as_fd(), &mut self.to_write)?;
        let wanted = [(reads, EventFlags::IN), (is_blocked, EventFlags::OUT)];
        let flags = wanted.into_iter().filter(|(is, _)| *is).map(|(_, flag)| flag).collect();
        watched.wait_for(flags, epoll)
    }

    /// Leaves the connection alone from now on. It stays open: to close it would send packets that belong to nothing.
    fn rest(&mut self, epoll: &OwnedFd) {
        self.is_over = true;
        if let Some(watched) = &mut self.socket {
            watched.ignore(epoll);
        }
    }

    /// Notes how the connection stands, the ACKs of the last segments counted if they are there, and leaves it alone.
    fn end(&mut self, epoll: &OwnedFd) {
        self.rest(epoll);
        let Some(watched) = &mut self.socket else { return };
        if !self.report.info.is_empty() {
            return;
        }
        if !self.report.listens && self.report.connected_ns.is_none() {
            return;
        }
        self.report.info = sys::tcp_info(watched.socket.as_fd()).unwrap_or_default();
        self.report.algorithm = sockopt::tcp_congestion(&watched.socket).unwrap_or_default();
    }
}

/// The kernel keeps the ECN bits of TCP to itself.
fn set_dscp(socket: BorrowedFd<'_>, own: IpAddr, dscp: u8) -> io::Result<()> {
    if dscp == 0 { Ok(()) } else { sys::set_tos(socket, own, dscp << 2) }
}

/// Writes up to [`ENDLESS`] bytes; whether there is more to write.
fn write_some(socket: BorrowedFd<'_>, left: &mut u64) -> io::Result<bool> {
    if *left == 0 {
        return Ok(false);
    }
    let len = (*left).min(ZEROS.len() as u64) as usize;
    // The simulator's application writes all at once: no segment may be short where one write ends.
    let more = if *left > len as u64 { SendFlags::MORE } else { SendFlags::empty() };
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT | more;
    match net::send(socket, &ZEROS[..len], flags) {
        Ok(written) if *left != ENDLESS => *left -= written as u64,
        Ok(_) | Err(Errno::INTR | Errno::AGAIN) => {}
        Err(why) => return Err(why.into()),
    }
    Ok(*left > 0)
}

/// Reads all that is there, without copying it.
fn read_all(socket: BorrowedFd<'_>, sink: &mut [u8]) -> io::Result<u64> {
    match net::recv(socket, sink, RecvFlags::TRUNC | RecvFlags::DONTWAIT) {
        Ok((_, 0)) => Err(io::Error::other("the other side has closed the connection")),
        Ok((_, read)) => Ok(read as u64),
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        Err(why) => Err(why.into()),
    }
}

/// The side that connects.
struct Connecting {
    side: Side,
    is_established: bool,
    writing_begun: bool,
    response_left: u64,
    request_started_ns: u64,
    exchanges: u64,
}

/// The side that listens.
struct Listening {
    side: Side,
    listener: Option<Watched>,
    request_left: u64,
    low_water: u32,
    /// Of [`SideReport::read_bytes`], what the samples of goodput have had.
    sampled_bytes: u64,
}

/// A connection, with the sides of it that are here.
pub(super) struct Conversation {
    pub(super) plan: FlowPlan,
    connecting: Option<Connecting>,
    listening: Option<Listening>,
    /// It will not complete any more, since it has, was stopped, or has failed.
    pub(super) is_over: bool,
}

/// Tokens of epoll: two for each conversation.
const SIDES: u64 = 2;

/// Which conversation a token is of, and whether it is of the listening side.
pub(super) fn of_token(token: u64) -> (usize, bool) {
    ((token / SIDES) as usize, token % SIDES == 1)
}

/// With what a socket begins: killed or not, this program leaves no connection behind.
fn abort_when_closed(socket: BorrowedFd<'_>) -> io::Result<()> {
    Ok(sockopt::set_socket_linger(socket, Some(std::time::Duration::ZERO))?)
}

impl Conversation {
    /// With the sockets of the sides that are here, which have their algorithms; the listening one listens from now on.
    pub(super) fn new(
        index: usize,
        plan: FlowPlan,
        connecting: Option<OwnedFd>,
        listening: Option<OwnedFd>,
        epoll: &OwnedFd,
    ) -> io::Result<Conversation> {
        let token = index as u64 * SIDES;
        let request_bytes = plan.traffic.request_bytes();
        let connecting = connecting
            .map(|socket| {
                abort_when_closed(socket.as_fd())?;
                set_dscp(socket.as_fd(), plan.from_address, plan.dscp)?;
                let side = Side::new(plan.flow, false, Some(Watched::new(socket, token)));
                Ok::<_, io::Error>(Connecting {
                    side,
                    is_established: false,
                    writing_begun: false,
                    response_left: 0,
                    request_started_ns: 0,
                    exchanges: 0,
                })
            })
            .transpose()?;
        let listening = listening
            .map(|socket| {
                abort_when_closed(socket.as_fd())?;
                // Its connection inherits it, and so does the SYN-ACK.
                set_dscp(socket.as_fd(), plan.to_address, plan.peer_dscp)?;
                sockopt::set_socket_reuseaddr(&socket, true)?;
                let low_water = low_water(&plan, request_bytes);
                sys::set_receive_low_water(socket.as_fd(), low_water)?;
                net::bind(&socket, &SocketAddr::new(plan.to_address, plan.port))?;
                net::listen(&socket, 1)?;
                let mut listener = Watched::new(socket, token + 1);
                listener.wait_for(EventFlags::IN, epoll)?;
                Ok::<_, io::Error>(Listening {
                    side: Side::new(plan.flow, true, None),
                    listener: Some(listener),
                    request_left: request_bytes,
                    low_water,
                    sampled_bytes: 0,
                })
            })
            .transpose()?;
        Ok(Conversation { plan, connecting, listening, is_over: false })
    }

    /// Gives the connecting socket its address and a port of the kernel's choice. That must not be one that a flow listens at:
    /// all of them listen before.
    pub(super) fn bind(&self) -> io::Result<()> {
        let Some(socket) = self.connecting_socket() else { return Ok(()) };
        Ok(net::bind(socket, &SocketAddr::new(self.plan.from_address, 0))?)
    }

    /// The connecting socket.
    pub(super) fn connecting_socket(&self) -> Option<BorrowedFd<'_>> {
        self.connecting.as_ref()?.side.socket()
    }

    /// Where the listening side does.
    pub(super) fn port(&self) -> Option<u16> {
        let listener = self.listening.as_ref()?.listener.as_ref()?;
        SocketAddr::try_from(net::getsockname(&listener.socket).ok()?).ok().map(|at| at.port())
    }

    /// Whether it completes by itself, and this program sees when.
    pub(super) fn completion_is_seen(&self) -> bool {
        match self.plan.traffic {
            TrafficKind::Bulk { .. } => self.listening.is_some(),
            TrafficKind::Rpc { .. } => self.connecting.is_some(),
        }
    }

    // ---- what time brings ----

    /// Calls `connect()`.
    pub(super) fn start(&mut self, desk: &mut Desk<'_>) {
        let to = SocketAddr::new(self.plan.to_address, self.plan.port);
        self.on_connecting(desk, |one, _, desk| {
            let Some(watched) = &mut one.side.socket else { return Ok(false) };
            one.side.report.connected_ns = Some(desk.now_ns());
            match net::connect(&watched.socket, &to) {
                Ok(()) => return Ok(true),
                Err(Errno::INPROGRESS) => {}
                Err(why) => return Err(why.into()),
            }
            watched.wait_for(EventFlags::OUT, desk.epoll)?;
            Ok(false)
        });
    }

    /// The application may write now.
    pub(super) fn first_write(&mut self, desk: &mut Desk<'_>) {
        self.on_connecting(desk, |one, plan, desk| {
            if one.is_established {
                one.begin_writing(plan, desk)?;
            }
            Ok(false)
        });
    }

    /// Ends a transfer as asked: what was written and not sent is never sent. Exchanges look at the time by themselves.
    pub(super) fn stop(&mut self, desk: &mut Desk<'_>) {
        if self.is_over || matches!(self.plan.traffic, TrafficKind::Rpc { .. }) {
            return;
        }
        self.read_what_is_there(desk);
        if self.is_over {
            return;
        }
        let now_ns = Some(desk.now_ns());
        for side in self.sides() {
            if !side.is_over {
                side.report.stopped_ns = now_ns;
            }
        }
        self.end(desk.epoll);
        // The other end stays, and answers nothing until it learns that there is no connection any more.
        if let Some(one) = &mut self.connecting {
            one.side.socket = None;
        }
    }

    // ---- what sockets tell ----

    /// The connecting socket has something.
    pub(super) fn on_connecting_event(&mut self, flags: EventFlags, desk: &mut Desk<'_>) {
        self.on_connecting(desk, |one, plan, desk| {
            let Some(socket) = one.side.socket() else { return Ok(false) };
            if !one.is_established {
                sockopt::socket_error(socket)??;
                return Ok(true);
            }
            if flags.intersects(EventFlags::IN | EventFlags::ERR | EventFlags::HUP) {
                one.read(plan, desk)?;
            }
            if flags.contains(EventFlags::OUT) && !one.side.is_over {
                one.side.write(is_rpc(plan), desk.epoll)?;
            }
            Ok(false)
        });
    }

    /// The listener, or the connection that it gave, has something.
    pub(super) fn on_listening_event(&mut self, flags: EventFlags, desk: &mut Desk<'_>) {
        let Some(one) = &mut self.listening else { return };
        if one.side.is_over {
            return;
        }
        let mut happens = || {
            if one.side.socket.is_none() {
                return one.accept(&self.plan, desk);
            }
            if flags.intersects(EventFlags::IN | EventFlags::ERR | EventFlags::HUP) {
                one.read(&self.plan, desk)?;
            }
            if flags.contains(EventFlags::OUT) && !one.side.is_over {
                one.side.write(true, desk.epoll)?;
            }
            Ok(())
        };
        let result = happens();
        self.after(result, true, desk);
    }

    /// Has the connecting side do something; what answers true has found the connection established.
    fn on_connecting(
        &mut self,
        desk: &mut Desk<'_>,
        what: impl FnOnce(&mut Connecting, &FlowPlan, &mut Desk<'_>) -> io::Result<bool>,
    ) {
        let Some(one) = &mut self.connecting else { return };
        if one.side.is_over {
            return;
        }
        let result = what(one, &self.plan, desk).and_then(|is_established| {
            if is_established { one.on_established(&self.plan, desk) } else { Ok(()) }
        });
        self.after(result, false, desk);
    }

    /// One side has failed, or done its last.
    fn after(&mut self, result: io::Result<()>, listens: bool, desk: &Desk<'_>) {
        let is_late = |stop_ns: u64| desk.now_ns() >= stop_ns.saturating_sub(CLOCKS_DIFFER_NS);
        let was_to_stop = !is_rpc(&self.plan) && self.plan.stop_ns.is_some_and(is_late);
        if let Err(why) = result {
            let side = self.sides().find(|side| side.report.listens == listens);
            let Some(side) = side else { return };
            if listens && was_to_stop {
                side.report.stopped_ns = Some(desk.now_ns());
            } else {
                side.report.error = Some(why.to_string());
            }
            side.end(desk.epoll);
            self.is_over = true;
            return;
        }
        let is_last = |side: &mut Side| side.report.done_ns.or(side.report.stopped_ns).is_some();
        if !self.is_over && self.sides().any(is_last) {
            self.is_over = true;
            self.sides().for_each(|side| side.rest(desk.epoll));
        }
    }

    fn sides(&mut self) -> impl Iterator<Item = &mut Side> {
        let connecting = self.connecting.iter_mut().map(|one| &mut one.side);
        connecting.chain(self.listening.iter_mut().map(|one| &mut one.side))
    }

    // ---- samples, and the end ----

    /// Whether the connecting side is here, and connected, and has something to do.
    pub(super) fn is_at_work(&self) -> bool {
        self.connecting.as_ref().is_some_and(|one| one.is_established && !one.side.is_over)
    }

    /// `TCP_INFO` of the connecting side.
    pub(super) fn info(&self) -> Option<Vec<u8>> {
        sys::tcp_info(self.connecting_socket()?).ok()
    }

    /// Has `ask` say of each established connection, by its algorithm, whether its `init` was called.
    pub(super) fn note_init(&mut self, ask: impl Fn(&str, BorrowedFd<'_>) -> Option<bool>) {
        let is_established = self.connecting.as_ref().is_some_and(|one| one.is_established);
        for side in self.sides().filter(|side| side.report.listens || is_established) {
            let Some(socket) = side.socket() else { continue };
            // One that has left for another algorithm is asked by that one's name.
            let algorithm = sockopt::tcp_congestion(socket).unwrap_or_default();
            side.report.init_called = ask(&algorithm, socket);
        }
    }

    /// `TCP_INFO` of the sides that are connections by now.
    pub(super) fn looks(&mut self) -> Vec<Look> {
        let flow = self.plan.flow;
        let has_begun =
            |side: &&mut Side| side.report.listens || side.report.connected_ns.is_some();
        let look = |side: &mut Side| {
            Some((flow, side.report.listens, sys::tcp_info(side.socket()?).ok()?))
        };
        self.sides().filter(has_begun).filter_map(look).collect()
    }

    /// What was read since the last sample; `None`: the listening side is not here.
    pub(super) fn goodput_bytes(&mut self) -> Option<u64> {
        let one = self.listening.as_mut()?;
        let read = one.side.report.read_bytes;
        Some(read - std::mem::replace(&mut one.sampled_bytes, read))
    }

    /// Takes what has arrived and waits for more to be read with it.
    pub(super) fn read_what_is_there(&mut self, desk: &mut Desk<'_>) {
        if self.listening.as_ref().is_some_and(|one| one.side.socket.is_some()) {
            self.on_listening_event(EventFlags::IN, desk);
        }
    }

    /// Both sides end here.
    pub(super) fn end(&mut self, epoll: &OwnedFd) {
        self.is_over = true;
        self.sides().for_each(|side| side.end(epoll));
    }

    /// What came of its sides.
    pub(super) fn take_reports(&mut self) -> impl Iterator<Item = SideReport> {
        self.sides().map(|side| std::mem::take(&mut side.report))
    }
}

impl Connecting {
    fn on_established(&mut self, plan: &FlowPlan, desk: &mut Desk<'_>) -> io::Result<()> {
        self.is_established = true;
        let now_ns = desk.now_ns();
        self.side.report.established_ns = Some(now_ns);
        if plan.first_write_ns.is_none_or(|at_ns| now_ns >= at_ns) {
            return self.begin_writing(plan, desk);
        }
        self.side.write(is_rpc(plan), desk.epoll)
    }

    fn begin_writing(&mut self, plan: &FlowPlan, desk: &mut Desk<'_>) -> io::Result<()> {
        if std::mem::replace(&mut self.writing_begun, true) {
            return Ok(());
        }
        self.begin_request(plan, desk)
    }

    /// Writes a request, or the whole of a transfer.
    fn begin_request(&mut self, plan: &FlowPlan, desk: &mut Desk<'_>) -> io::Result<()> {
        self.request_started_ns = desk.now_ns();
        self.side.to_write = plan.traffic.request_bytes();
        if let TrafficKind::Rpc { response_bytes, .. } = plan.traffic {
            self.response_left = response_bytes;
        }
        self.side.write(is_rpc(plan), desk.epoll)
    }

    fn read(&mut self, plan: &FlowPlan, desk: &mut Desk<'_>) -> io::Result<()> {
        let Some(socket) = self.side.socket() else { return Ok(()) };
        let read = read_all(socket, desk.sink)?;
        self.side.report.read_bytes += read;
        if read == 0 || self.response_left == 0 {
            return Ok(());
        }
        self.response_left = self.response_left.saturating_sub(read);
        if self.response_left == 0 { self.on_response(plan, desk) } else { Ok(()) }
    }

    /// A whole answer was read.
    fn on_response(&mut self, plan: &FlowPlan, desk: &mut Desk<'_>) -> io::Result<()> {
        let TrafficKind::Rpc { count, .. } = plan.traffic else { return Ok(()) };
        let now_ns = desk.now_ns();
        self.exchanges += 1;
        desk.rpcs.push((plan.flow, self.request_started_ns, now_ns - self.request_started_ns));
        if count.is_some_and(|count| self.exchanges >= count) {
            self.side.report.done_ns = Some(now_ns);
        } else if plan.stop_ns.is_some_and(|stop_ns| now_ns >= stop_ns) {
            self.side.report.stopped_ns = Some(now_ns);
        } else {
            return self.begin_request(plan, desk);
        }
        Ok(())
    }
}

impl Listening {
    /// Takes the connection of its flow; whoever else calls is sent away.
    fn accept(&mut self, plan: &FlowPlan, desk: &mut Desk<'_>) -> io::Result<()> {
        let Some(listener) = &mut self.listener else { return Ok(()) };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (socket, from) = match net::acceptfrom_with(&listener.socket, flags) {
            Ok(accepted) => accepted,
            // It was gone again.
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return Ok(()),
            Err(why) => return Err(why.into()),
        };
        let from = from.and_then(|from| SocketAddr::try_from(from).ok()).map(|from| from.ip());
        if from.is_none_or(|from| from != plan.from_address && !is_any(plan.from_address)) {
            return Ok(());
        }
        listener.ignore(desk.epoll);
        let token = listener.token;
        self.listener = None;
        let mut watched = Watched::new(socket, token);
        watched.wait_for(EventFlags::IN, desk.epoll)?;
        self.side.socket = Some(watched);
        Ok(())
    }

    fn read(&mut self, plan: &FlowPlan, desk: &mut Desk<'_>) -> io::Result<()> {
        let Some(socket) = self.side.socket() else { return Ok(()) };
        let read = read_all(socket, desk.sink)?;
        self.side.report.read_bytes += read;
        if self.request_left != ENDLESS {
            self.request_left = self.request_left.saturating_sub(read);
        }
        if self.request_left == 0 && read > 0 {
            self.on_request(plan, desk)?;
        }
        self.set_low_water(low_water(plan, self.request_left))
    }

    /// A whole request, or transfer, was read.
    fn on_request(&mut self, plan: &FlowPlan, desk: &mut Desk<'_>) -> io::Result<()> {
        match plan.traffic {
            TrafficKind::Bulk { .. } => {
                self.side.report.done_ns = Some(desk.now_ns());
                self.acknowledge();
            }
            TrafficKind::Rpc { request_bytes, response_bytes, .. } => {
                self.request_left = request_bytes;
                self.side.to_write = self.side.to_write.saturating_add(response_bytes);
                self.side.write(true, desk.epoll)?;
            }
        }
        Ok(())
    }

    /// The last segment is acknowledged now: a sender that waits for a delayed ACK sends it again as a probe, into the traffic of
    /// others.
    fn acknowledge(&self) {
        if let Some(socket) = self.side.socket() {
            // Without it there is a probe.
            let _ = sockopt::set_tcp_quickack(socket, true);
        }
    }

    fn set_low_water(&mut self, low_water: u32) -> io::Result<()> {
        if self.low_water == low_water {
            return Ok(());
        }
        self.low_water = low_water;
        let Some(socket) = self.side.socket() else { return Ok(()) };
        sys::set_receive_low_water(socket, low_water)
    }
}

/// When the listening side is to be woken: what it reads at, or what remains.
fn low_water(plan: &FlowPlan, left: u64) -> u32 {
    u64::from(plan.read_at_bytes).min(left).max(1) as u32
}

fn is_rpc(plan: &FlowPlan) -> bool {
    matches!(plan.traffic, TrafficKind::Rpc { .. })
}

fn is_any(address: IpAddr) -> bool {
    address.is_unspecified()
}

impl TrafficKind {
    /// Whether it completes by itself.
    pub(super) fn ends(&self) -> bool {
        matches!(
            self,
            TrafficKind::Bulk { bytes: Some(_) } | TrafficKind::Rpc { count: Some(_), .. }
        )
    }

    /// Bytes that the connecting side writes at a time.
    fn request_bytes(&self) -> u64 {
        match *self {
            TrafficKind::Bulk { bytes } => bytes.unwrap_or(ENDLESS),
            TrafficKind::Rpc { request_bytes, .. } => request_bytes,
        }
    }

    /// Whether there is something to send each time.
    pub(super) fn is_possible(&self) -> bool {
        match *self {
            TrafficKind::Bulk { bytes } => bytes != Some(0),
            TrafficKind::Rpc { request_bytes, response_bytes, count } => {
                request_bytes > 0 && response_bytes > 0 && count != Some(0)
            }
        }
    }
}
