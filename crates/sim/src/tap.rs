//! What hosts of a run send and receive, as captures there would show it: of one flow at one host here, of all packets at all
//! hosts in [`hosts`].

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

/// What looks at the packets inside a simulation.
pub(crate) trait Tap {
    /// A host puts a packet on its link.
    fn on_sent(&mut self, at: Time, link: LinkId, packet: &Packet);

    /// A packet is at its host, by way of this link. `is_over`: the application there is done.
    fn on_delivered(&mut self, at: Time, link: LinkId, packet: &Packet, is_over: bool);

    /// A packet has come over a link to a switch.
    fn on_passed(&mut self, _at: Time, _link: LinkId, _packet: &Packet) {}

    /// A packet leaves the queue of a link at this time, which may be still to come.
    fn on_leaving(&mut self, _at: Time, _link: LinkId, _packet: &Packet) {}

    /// The run is over.
    fn on_end(&mut self, _at: Time) {}
}

/// Looks at one flow at one of its ends.
pub(crate) struct FlowTap {
    /// Socket at the host, and the one it talks to.
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
    /// The node of the host.
    pub fn node(&self, run: &Run) -> Option<u32> {
        let flow = run.flows.get(self.flow)?;
        Some(if self.side == Side::Connecting { flow.from } else { flow.to })
    }
}
