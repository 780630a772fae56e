//! Observes the packets that hosts of a run send and receive, as a capture would show them. This
//! file observes one flow at one host; [`hosts`] observes all packets at all hosts.

pub mod frame;
pub mod hosts;

use crate::endpoint::Numbers;
use crate::packet::{Packet, flags};
use knee_queue::time::{Duration, Time};
use knee_run::spec::{LinkId, Run};
use knee_wire::Segment;

/// An end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Connecting,
    Listening,
}

/// The flow and the end at which its segments are observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TapAt {
    /// Index into [`Run::flows`].
    pub flow: usize,
    /// The side whose host is observed.
    pub side: Side,
}

/// A segment at the observed host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tapped {
    /// The time at which TCP (or fq, if it paces) sent the segment, or TCP received it.
    pub at: Time,
    /// Whether the host sent the segment; otherwise the host received it.
    pub is_out: bool,
    /// The segment; sequence numbers count from the initial ones.
    pub segment: Segment,
}

/// A host's coarse clock at the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoarseClock {
    pub ticks: u32,
    /// The part of the next tick that had passed.
    pub phase: Duration,
}

/// Observes packets inside a simulation.
pub(crate) trait Tap {
    /// A host puts a packet on its link.
    fn on_sent(&mut self, at: Time, link: LinkId, packet: &Packet);

    /// A packet arrives at its host over this link. `is_over`: the application there is done.
    fn on_delivered(&mut self, at: Time, link: LinkId, packet: &Packet, is_over: bool);

    /// A packet arrives at a switch over a link.
    fn on_passed(&mut self, _at: Time, _link: LinkId, _packet: &Packet) {}

    /// A packet leaves a link's queue at this time, which may be in the future.
    fn on_leaving(&mut self, _at: Time, _link: LinkId, _packet: &Packet) {}

    /// The run has ended.
    fn on_end(&mut self, _at: Time) {}
}

/// Observes one flow at one of its ends.
pub(crate) struct FlowTap {
    /// The socket at the host, and its peer.
    pub(crate) sock: u32,
    pub(crate) peer: u32,
    pub(crate) of_sock: Numbers,
    pub(crate) of_peer: Numbers,
    pub(crate) sink: Box<dyn FnMut(Tapped)>,
}

impl Tap for FlowTap {
    #[cold]
    fn on_sent(&mut self, at: Time, _link: LinkId, packet: &Packet) {
        if packet.to == self.peer && !packet.has(flags::PING) {
            let segment = self.of_sock.segment(packet, &self.of_peer);
            (self.sink)(Tapped { at, is_out: true, segment });
        }
    }

    #[cold]
    fn on_delivered(&mut self, at: Time, _link: LinkId, packet: &Packet, is_over: bool) {
        if packet.to == self.sock && !packet.has(flags::PING) && !is_over {
            let segment = self.of_peer.segment(packet, &self.of_sock);
            (self.sink)(Tapped { at, is_out: false, segment });
        }
    }
}

impl TapAt {
    /// Returns the node of the observed host.
    pub fn node(&self, run: &Run) -> Option<u32> {
        let flow = run.flows.get(self.flow)?;
        Some(if self.side == Side::Connecting { flow.from } else { flow.to })
    }
}
