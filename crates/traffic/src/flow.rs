//! State of a connection and of the applications at its two ends.

use alloc::string::String;

use crate::os::CLOSED;
use crate::plan::ENDLESS;
use crate::{AGAIN, Errno, FlowPlan, Os, SideReport, events};

/// A side of a connection.
pub(crate) struct Side<S> {
    /// Whether this program runs the side.
    pub(crate) is_here: bool,
    /// The connected socket, or the one that will connect.
    pub(crate) socket: Option<S>,
    token: u64,
    /// Events that [`Os::wait`] reports for the socket ([`events`]); 0: none.
    interest: u32,
    /// Bytes still to write.
    pub(crate) to_write: u64,
    pub(crate) report: SideReport,
}

impl<S> Side<S> {
    fn new(flow: u32, listens: bool, token: u64, is_here: bool) -> Side<S> {
        let report = SideReport { flow, listens, ..SideReport::default() };
        Side { is_here, socket: None, token, interest: 0, to_write: 0, report }
    }

    pub(crate) fn wait_for(
        &mut self,
        events: u32,
        os: &mut impl Os<Socket = S>,
    ) -> Result<(), Errno> {
        let Some(socket) = &self.socket else { return Ok(()) };
        if self.interest != events {
            os.watch(socket, self.token, events, self.interest != 0)?;
            self.interest = events;
        }
        Ok(())
    }

    /// Stops watching the socket. It stays open: to close it would send packets.
    pub(crate) fn rest(&mut self, os: &mut impl Os<Socket = S>) {
        if let (Some(socket), true) = (&self.socket, self.interest != 0) {
            os.ignore(socket);
        }
        self.interest = 0;
    }

    /// Writes what there is room for, and waits for more room, and for what the other side sends if it does.
    pub(crate) fn write<O: Os<Socket = S>>(
        &mut self,
        reads: bool,
        os: &mut O,
    ) -> Result<(), Errno> {
        let Some(socket) = &self.socket else { return Ok(()) };
        let mut wanted = if reads { events::IN } else { 0 };
        while self.to_write > 0 {
            let len = self.to_write.min(O::WRITE_BYTES);
            // The simulator's application writes all at once.
            match os.send(socket, len, self.to_write > len) {
                Ok(written) if self.to_write != ENDLESS => self.to_write -= written,
                Ok(_) => {}
                Err(AGAIN) => {
                    wanted |= events::OUT;
                    break;
                }
                Err(why) => return Err(why),
            }
            if !O::WRITES_ALL && self.to_write > 0 {
                wanted |= events::OUT;
                break;
            }
        }
        // Without either, the kernel reports errors only.
        self.wait_for(if wanted == 0 { events::ERR } else { wanted }, os)
    }

    /// Reads all that is there.
    pub(crate) fn read(&mut self, os: &mut impl Os<Socket = S>) -> Result<u64, Errno> {
        let Some(socket) = &self.socket else { return Ok(0) };
        match os.receive(socket) {
            Ok(0) => Err(CLOSED),
            Ok(read) => {
                self.report.read_bytes += read;
                Ok(read)
            }
            Err(AGAIN) => Ok(0),
            Err(why) => Err(why),
        }
    }

    pub(crate) fn fail(&mut self, why: Errno, os: &impl Os<Socket = S>) {
        self.report.error = Some(match why {
            CLOSED => String::from("the other side has closed the connection"),
            why => os.say(why),
        });
    }

    /// Whether there is, or has been, a connection.
    fn has_begun(&self) -> bool {
        self.socket.is_some() && (self.report.listens || self.report.connected_ns.is_some())
    }

    /// `TCP_INFO`, if there is a connection.
    pub(crate) fn info(&self, os: &mut impl Os<Socket = S>) -> Option<alloc::vec::Vec<u8>> {
        let socket = self.socket.as_ref().filter(|_| self.has_begun())?;
        Some(os.info(socket)).filter(|info| !info.is_empty())
    }

    /// Records `TCP_INFO` and the algorithm at the end.
    pub(crate) fn note(&mut self, os: &mut impl Os<Socket = S>) {
        let Some(socket) = &self.socket else { return };
        self.report.algorithm = os.algorithm(socket);
        self.report.info = self.info(os).unwrap_or_default();
    }
}

/// A connection, with those of its sides that this program runs.
pub(crate) struct Flow<S> {
    pub(crate) plan: FlowPlan,
    pub(crate) connecting: Side<S>,
    pub(crate) listening: Side<S>,
    /// Listening socket, until the connection is accepted.
    pub(crate) listener: Option<S>,
    pub(crate) is_established: bool,
    pub(crate) writing_begun: bool,
    pub(crate) response_left: u64,
    pub(crate) request_left: u64,
    pub(crate) request_started_ns: u64,
    pub(crate) exchanges: u64,
    /// When the flow begins; `None`: it waits for other flows.
    pub(crate) begin_ns: Option<u64>,
    /// Received bytes that samples of goodput have counted.
    pub(crate) sampled_bytes: u64,
    low_water: u32,
    /// Completed, stopped or failed.
    pub(crate) is_over: bool,
}

/// Tokens: two for each flow.
const SIDES: u64 = 2;

/// Index of the token's flow, and whether it is the listening side's.
pub(crate) fn flow_of_token(token: u64) -> (usize, bool) {
    ((token / SIDES) as usize, token % SIDES == 1)
}

impl FlowPlan {
    /// `SO_RCVLOWAT` of the listening side, in bytes: `read_at_bytes`, or what remains.
    pub fn low_water(&self, left: u64) -> u32 {
        u64::from(self.read_at_bytes).min(left).max(1) as u32
    }
}

impl<S> Flow<S> {
    /// The sides that are here, with the sockets that they have.
    pub(crate) fn new(
        index: usize,
        plan: FlowPlan,
        connecting: Option<S>,
        listener: Option<S>,
    ) -> Flow<S> {
        let token = index as u64 * SIDES;
        let side =
            |listens, is_here| Side::new(plan.flow, listens, token + u64::from(listens), is_here);
        let request_left = plan.traffic.request_bytes();
        Flow {
            connecting: Side { socket: connecting, ..side(false, plan.from.is_some()) },
            listening: side(true, plan.to.is_some()),
            listener,
            is_established: false,
            writing_begun: false,
            response_left: 0,
            request_left,
            request_started_ns: 0,
            exchanges: 0,
            begin_ns: None,
            sampled_bytes: 0,
            low_water: plan.low_water(request_left),
            is_over: false,
            plan,
        }
    }

    /// Whether it completes by itself, and this program sees when.
    pub(crate) fn completion_is_seen(&self) -> bool {
        let side = if self.plan.traffic.is_rpc() { &self.connecting } else { &self.listening };
        self.plan.traffic.ends() && side.is_here
    }

    /// Whether the connecting side is here, and connected, and has something to do.
    pub(crate) fn is_at_work(&self) -> bool {
        self.is_established && !self.is_over
    }

    /// Watches the listening socket.
    pub(crate) fn listen(&mut self, os: &mut impl Os<Socket = S>) -> Result<(), Errno> {
        let Some(listener) = &self.listener else { return Ok(()) };
        os.watch(listener, self.listening.token, events::IN, false)
    }

    /// Accepts the connection.
    pub(crate) fn accept(&mut self, os: &mut impl Os<Socket = S>) -> Result<(), Errno> {
        let Some(listener) = &self.listener else { return Ok(()) };
        let Some(socket) = os.accept(listener, &self.plan)? else { return Ok(()) };
        os.ignore(listener);
        self.listener = None;
        self.listening.socket = Some(socket);
        self.listening.wait_for(events::IN, os)
    }

    /// Updates `SO_RCVLOWAT` to [`FlowPlan::low_water`].
    pub(crate) fn set_low_water(&mut self, os: &mut impl Os<Socket = S>) -> Result<(), Errno> {
        let low_water = self.plan.low_water(self.request_left);
        if self.low_water == low_water {
            return Ok(());
        }
        self.low_water = low_water;
        let Some(socket) = &self.listening.socket else { return Ok(()) };
        os.set_low_water(socket, low_water)
    }

    pub(crate) fn sides(&mut self) -> [&mut Side<S>; 2] {
        [&mut self.connecting, &mut self.listening]
    }
}
