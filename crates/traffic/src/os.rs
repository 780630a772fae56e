//! What a traffic program asks of wherever it runs.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;

use crate::bytes::{Plain, Sink};
use crate::{FlowPlan, PingPlan};

/// What the kernel answers, by its number of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

/// There is nothing now, or no room: later.
pub const AGAIN: Errno = Errno(11);
/// The other side has closed the connection.
pub(crate) const CLOSED: Errno = Errno(0);

/// Bits of epoll.
pub mod events {
    /// There is something to read.
    pub const IN: u32 = 1;
    /// There is room to write.
    pub const OUT: u32 = 4;
    /// It has failed, which is told in any case.
    pub const ERR: u32 = 8;
    /// It is closed, which is told in any case.
    pub const HUP: u32 = 16;
}

/// What happened at a socket that is watched.
#[derive(Clone, Copy, Debug)]
pub struct Happened {
    /// As it was given.
    pub token: u64,
    /// Of [`events`].
    pub events: u32,
}

/// The sockets of a flow whose sides are here.
pub struct Opened<S> {
    /// It listens.
    pub listener: Option<S>,
    /// It has its address, and connects when it is asked to.
    pub connecting: Option<S>,
}

/// A socket for ICMP echoes, connected to whoever answers.
pub struct PingSocket<S> {
    pub socket: S,
    /// It sees every echo of the address, and with IPv4 the header of its packets.
    pub is_raw: bool,
    /// Identifier of its packets.
    pub id: u16,
}

/// When queues are looked at, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    Sample,
    WindowBegin,
    WindowEnd,
    /// Of the run.
    End,
}

impl Moment {
    const ALL: [Moment; 4] = [Moment::Sample, Moment::WindowBegin, Moment::WindowEnd, Moment::End];
}

impl Plain for Moment {
    fn put(&self, to: &mut impl Sink) {
        (*self as u8).put(to);
    }

    fn take(from: &mut &[u8]) -> Option<Moment> {
        Moment::ALL.get(usize::from(u8::take(from)?)).copied()
    }
}

/// The kernel, as a traffic program sees it. Sockets do not block, are aborted when they are dropped, and are told nothing twice.
pub trait Os {
    type Socket;
    /// Why there is no program.
    type Error;

    /// What one call writes at most.
    const WRITE_BYTES: u64;
    /// A connection writes until the kernel takes no more; or else once, and then others have their turn.
    const WRITES_ALL: bool;
    /// Of what is due, done before sockets are looked at.
    const DUE_AT_ONCE: usize;
    /// The program may be late: what came before the end of the run, and was not looked at then, counts all the same.
    const IS_LATE: bool;

    // ---- before the run ----

    /// Opens the sockets of all flows whose sides are here, with everything that a plan says of them.
    ///
    /// # Errors
    /// What the kernel refuses.
    fn open(&mut self, flows: &[FlowPlan]) -> Result<Vec<Opened<Self::Socket>>, Self::Error>;

    /// # Errors
    /// What the kernel refuses.
    fn open_ping(&mut self, ping: &PingPlan) -> Result<PingSocket<Self::Socket>, Self::Error>;

    /// Makes [`Os::inside`] tell of this connecting socket, too.
    ///
    /// # Errors
    /// What the kernel refuses.
    fn look_into(&mut self, _flow: &FlowPlan, _socket: &Self::Socket) -> Result<(), Self::Error> {
        Ok(())
    }

    // ---- time ----

    /// Whether time 0 has come; [`Os::wait`] may end before it.
    fn has_begun(&mut self) -> bool {
        true
    }

    /// Since the run's time 0.
    fn now_ns(&mut self) -> u64;

    /// Waits until something happens at a socket that is watched, or that time comes; it may end earlier.
    fn wait(&mut self, until_ns: u64, is_urgent: bool, happened: &mut Vec<Happened>);

    /// Every transfer that can complete, and whose end is seen here, has done so.
    fn on_done(&mut self) {}

    // ---- sockets ----

    /// Has [`Os::wait`] tell what happens at a socket; `is_known`: it tells something already.
    ///
    /// # Errors
    /// What the kernel answers; so below.
    fn watch(
        &mut self,
        socket: &Self::Socket,
        token: u64,
        events: u32,
        is_known: bool,
    ) -> Result<(), Errno>;

    /// Ends that.
    fn ignore(&mut self, socket: &Self::Socket);

    /// Begins to connect; whether it has at once.
    fn connect(&mut self, socket: &Self::Socket, to: SocketAddr) -> Result<bool, Errno>;

    /// Whether a connection has come about.
    fn connected(&mut self, socket: &Self::Socket) -> Result<(), Errno>;

    /// Takes the connection of a flow; `None`: it was another, or is gone again.
    fn accept(
        &mut self,
        listener: &Self::Socket,
        flow: &FlowPlan,
    ) -> Result<Option<Self::Socket>, Errno>;

    /// Writes; how much. `more`: no segment may be short where this ends.
    fn send(&mut self, socket: &Self::Socket, bytes: u64, more: bool) -> Result<u64, Errno>;

    /// Reads all that is there and drops it; 0: the other side has closed the connection.
    fn receive(&mut self, socket: &Self::Socket) -> Result<u64, Errno>;

    /// `SO_RCVLOWAT`.
    fn set_low_water(&mut self, socket: &Self::Socket, bytes: u32) -> Result<(), Errno>;

    /// Has what was read acknowledged now, if that can be.
    fn acknowledge(&mut self, socket: &Self::Socket);

    /// In words.
    fn say(&self, why: Errno) -> String;

    // ---- what sockets tell ----

    /// `TCP_INFO`, as much of it as the kernel has; empty: it does not tell.
    fn info(&mut self, socket: &Self::Socket) -> Vec<u8>;

    /// Payload bytes that have arrived in order; `None`: to ask costs too much, and what was read has to do.
    fn received_bytes(&mut self, _socket: &Self::Socket) -> Option<u64> {
        None
    }

    /// The algorithm, as the kernel calls it.
    fn algorithm(&mut self, socket: &Self::Socket) -> String;

    /// Whether the kernel called `init` of its algorithm for an established connection; `None`: that is not known.
    fn init_called(&mut self, _socket: &Self::Socket) -> Option<bool> {
        None
    }

    /// [`Os::inside`] is asked next, of several sockets.
    fn look_inside(&mut self) {}

    /// The values of a connection's algorithm, in the order of its diagnostic list; of one that has none, none.
    fn inside(&mut self, _flow: &FlowPlan, _socket: &Self::Socket) -> Vec<u64> {
        Vec::new()
    }

    /// Nobody will ask for them again: the flow is over.
    fn leave(&mut self, _socket: &Self::Socket) {}

    /// Queues are looked at, if they are the program's to look at.
    fn record_queues(&mut self, _at_ns: u64, _moment: Moment) {}

    // ---- pings ----

    /// Sends a packet. What the host itself does not take counts as sent and lost.
    fn send_ping(&mut self, socket: &Self::Socket, packet: &[u8]);

    /// The next packet that is there: its length, and when the host got it if the kernel says so.
    fn receive_ping(
        &mut self,
        socket: &Self::Socket,
        buffer: &mut [u8],
    ) -> Option<(usize, Option<u64>)>;
}
