//! What one host of a run sends and receives of one flow, as a capture there would show it.

use crate::endpoint::{Numbers, Segment};
use crate::packet::Packet;
use crate::spec::Run;
use knee_queue::time::{Duration, Time};

/// An end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that connects.
    Connecting,
    /// The one that listens.
    Listening,
}

/// Which flow is looked at, and at which of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TapAt {
    /// Index into [`Run::flows`].
    pub flow: usize,
    /// The host.
    pub side: Side,
}

/// A segment at the host that is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tapped {
    /// When TCP let it go (or fq, if that paces), or got it.
    pub at: Time,
    /// The host sent it; else it received it.
    pub is_out: bool,
    /// Its sequence numbers count from the initial ones.
    pub segment: Segment,
}

/// Where the coarse clock of the host stood at the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoarseClock {
    /// Whole ticks.
    pub ticks: u32,
    /// What of the next tick had passed.
    pub phase: Duration,
}

/// The tap inside a simulation: it hears of every packet that is sent, and of those that its socket gets.
pub(crate) struct Tap {
    /// Socket at the host, and the one it talks to.
    pub(crate) sock: u32,
    pub(crate) peer: u32,
    pub(crate) of_sock: Numbers,
    pub(crate) of_peer: Numbers,
    pub(crate) sink: Box<dyn FnMut(Tapped)>,
}

impl Tap {
    #[cold]
    pub(crate) fn on_sent(&mut self, at: Time, packet: &Packet) {
        if packet.to == self.peer {
            let segment = self.of_sock.segment(packet, &self.of_peer);
            (self.sink)(Tapped { at, is_out: true, segment });
        }
    }

    #[cold]
    pub(crate) fn on_delivered(&mut self, at: Time, packet: &Packet) {
        if packet.to == self.sock {
            let segment = self.of_peer.segment(packet, &self.of_sock);
            (self.sink)(Tapped { at, is_out: false, segment });
        }
    }
}

impl TapAt {
    /// The node of the host.
    pub fn node(&self, run: &Run) -> Option<u32> {
        let flow = run.flows.get(self.flow)?;
        Some(if self.side == Side::Connecting { flow.from } else { flow.to })
    }
}
