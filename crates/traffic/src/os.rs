//! The operating system as a traffic program sees it: sockets, clock, events.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;

use crate::bytes::{Plain, Sink};
use crate::{FlowPlan, PingPlan};

/// Error number of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

/// `EAGAIN`: no data, or no room in the send buffer, now.
pub const AGAIN: Errno = Errno(11);
/// A read of 0 bytes: the other side has closed the connection.
pub(crate) const CLOSED: Errno = Errno(0);

/// Event bits of `epoll`.
pub mod events {
    /// `EPOLLIN`: data to read.
    pub const IN: u32 = 1;
    /// `EPOLLOUT`: room to write.
    pub const OUT: u32 = 4;
    /// `EPOLLERR`: the connection failed; always reported.
    pub const ERR: u32 = 8;
    /// `EPOLLHUP`: the connection is closed; always reported.
    pub const HUP: u32 = 16;
}

/// Event at a watched socket.
#[derive(Clone, Copy, Debug)]
pub struct SocketEvent {
    /// The token passed to [`Os::watch`].
    pub token: u64,
    /// Bits of [`events`].
    pub events: u32,
}

/// Sockets of a flow, for the sides that this program runs.
pub struct Opened<S> {
    /// Listening socket.
    pub listener: Option<S>,
    /// Bound socket of the connecting side, not connected yet.
    pub connecting: Option<S>,
}

/// A socket for ICMP echoes, connected to the address that answers.
pub struct PingSocket<S> {
    pub socket: S,
    /// Raw socket: it receives every echo of the address, and with IPv4 also the IP header.
    pub is_raw: bool,
    /// ICMP identifier of its packets.
    pub id: u16,
}

/// Reason of a record of the queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    Sample,
    WindowBegin,
    WindowEnd,
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

/// The kernel, as a traffic program sees it. Sockets do not block and are aborted when dropped; events are edge-triggered.
pub trait Os {
    type Socket;
    /// Failure to set up sockets.
    type Error;

    /// Most bytes of one [`Os::send`].
    const WRITE_BYTES: u64;
    /// Whether a connection writes until the send buffer is full; otherwise once per event.
    const WRITES_ALL: bool;
    /// Most timed events handled before sockets are polled.
    const DUE_AT_ONCE: usize;
    /// Whether the program may be late: data that arrived before the end of the run counts even if it is read later.
    const IS_LATE: bool;

    // ---- before the run ----

    /// Opens the sockets of all flows that have a side here, with the options of their plans.
    ///
    /// # Errors
    /// What the kernel refuses.
    fn open(&mut self, flows: &[FlowPlan]) -> Result<Vec<Opened<Self::Socket>>, Self::Error>;

    /// # Errors
    /// What the kernel refuses.
    fn open_ping(&mut self, ping: &PingPlan) -> Result<PingSocket<Self::Socket>, Self::Error>;

    /// Prepares [`Os::inside`] for this connecting socket.
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

    /// Time since the run's time 0, in ns.
    fn now_ns(&mut self) -> u64;

    /// Waits for an event at a watched socket, at most until `until_ns`; it may return earlier.
    fn wait(&mut self, until_ns: u64, is_urgent: bool, happened: &mut Vec<SocketEvent>);

    /// Called when every transfer that can complete, and whose end this program sees, has completed.
    fn on_done(&mut self) {}

    // ---- sockets ----

    /// Makes [`Os::wait`] report `events` of a socket; `is_known`: the socket is watched already.
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

    /// Stops watching a socket.
    fn ignore(&mut self, socket: &Self::Socket);

    /// Begins to connect; returns whether the handshake is already complete.
    fn connect(&mut self, socket: &Self::Socket, to: SocketAddr) -> Result<bool, Errno>;

    /// Checks that the connection is established (`SO_ERROR`).
    fn connected(&mut self, socket: &Self::Socket) -> Result<(), Errno>;

    /// Accepts the connection of a flow; `None`: it belongs to another flow, or is gone again.
    fn accept(
        &mut self,
        listener: &Self::Socket,
        flow: &FlowPlan,
    ) -> Result<Option<Self::Socket>, Errno>;

    /// Writes; returns the bytes written. `more`: more data follows (`MSG_MORE`).
    fn send(&mut self, socket: &Self::Socket, bytes: u64, more: bool) -> Result<u64, Errno>;

    /// Reads and discards all data; returns the bytes read, 0 if the other side has closed the connection.
    fn receive(&mut self, socket: &Self::Socket) -> Result<u64, Errno>;

    /// Sets `SO_RCVLOWAT`, in bytes.
    fn set_low_water(&mut self, socket: &Self::Socket, bytes: u32) -> Result<(), Errno>;

    /// Sends an ACK at once if possible (`TCP_QUICKACK`).
    fn acknowledge(&mut self, socket: &Self::Socket);

    /// The error in words.
    fn say(&self, why: Errno) -> String;

    // ---- what sockets tell ----

    /// `TCP_INFO`, at the kernel's length; empty: the kernel reports none.
    fn info(&mut self, socket: &Self::Socket) -> Vec<u8>;

    /// Payload bytes that arrived in order; `None`: too costly to ask, use the bytes read.
    fn received_bytes(&mut self, _socket: &Self::Socket) -> Option<u64> {
        None
    }

    /// The algorithm, as the kernel calls it.
    fn algorithm(&mut self, socket: &Self::Socket) -> String;

    /// Whether the kernel called `init` of its algorithm for an established connection; `None`: that is not known.
    fn init_called(&mut self, _socket: &Self::Socket) -> Option<bool> {
        None
    }

    /// Called before [`Os::inside`] of several sockets.
    fn look_inside(&mut self) {}

    /// Diagnostic values of a connection's algorithm, in the order of its list.
    fn inside(&mut self, _flow: &FlowPlan, _socket: &Self::Socket) -> Vec<u64> {
        Vec::new()
    }

    /// The flow is over: nobody asks for its values again.
    fn leave(&mut self, _socket: &Self::Socket) {}

    /// Records the queues, if the program samples them.
    fn record_queues(&mut self, _at_ns: u64, _moment: Moment) {}

    // ---- pings ----

    /// Sends a packet. A packet that the host refuses counts as sent and lost.
    fn send_ping(&mut self, socket: &Self::Socket, packet: &[u8]);

    /// Receives the next packet: its length, and the kernel's receive timestamp in ns if there is one.
    fn receive_ping(
        &mut self,
        socket: &Self::Socket,
        buffer: &mut [u8],
    ) -> Option<(usize, Option<u64>)>;
}
