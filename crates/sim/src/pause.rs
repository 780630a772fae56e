//! IEEE 802.3x: a switch that holds too much of what came by a link tells the link's sender to stop.
//!
//! Each link into a switch has an [`Input`] there: the bytes of packets that came by it and wait for another link. Above
//! XOFF a pause frame goes back over the cable, and again at half of each pause for as long as they are not down to XON; then one of
//! no time ends it. Frames that are being sent are finished first, in either direction; pause frames are never paused.
//! Links that take part have queues whose packets leave one after the other, since nobody knows when they will.

use crate::events::{Event, Events};
use crate::link::LinkState;
use crate::net::Net;
use crate::packet::{Packet, flags};
use crate::spec::{FlowControl, Link, LinkId, Network};
use knee_queue::Packet as QueuePacket;
use knee_queue::time::{Duration, Rate, Time};
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

/// A control frame: 64 bytes, less the checksum, which queues do not count either.
pub(crate) const CONTROL_FRAME_BYTES: u32 = 60;
/// A quantum is 512 bit times.
const QUANTUM_BYTES: u32 = 64;

/// What so many quanta are at this rate.
pub(crate) fn pause_time(quanta: u16, rate: Rate) -> Duration {
    rate.time_of(QUANTUM_BYTES * u32::from(quanta))
}

/// The links that flow control can stop, each with the one that its receiver tells it by: those with a rate that lead
/// into a switch, and the other direction of their cable.
pub(crate) fn controlled(network: &Network) -> Vec<Option<LinkId>> {
    let is_switch = |node: u32| network.nodes[node as usize].host.is_none();
    // Of several cables between two nodes the first has the first way back.
    let mut ways: HashMap<(u32, u32), VecDeque<LinkId>> = HashMap::new();
    for (link, id) in network.links.iter().zip(0..) {
        ways.entry((link.from, link.to)).or_default().push_back(id);
    }
    let links = network.links.iter();
    let backs = links.map(|link| ways.get_mut(&(link.to, link.from))?.pop_front());
    let backs: Vec<_> = backs.collect();
    let stops = |link: &Link| link.rate.is_some() && is_switch(link.to);
    network.links.iter().zip(backs).map(|(link, back)| back.filter(|_| stops(link))).collect()
}

/// What a switch has of the packets of a link.
struct Input {
    back: LinkId,
    /// How long one of its pauses is.
    pause: Duration,
    held_bytes: u64,
    is_off: bool,
    /// When the next pause frame is due, while it is off.
    refresh_at: Time,
}

/// Flow control at work.
pub(crate) struct Control {
    spec: FlowControl,
    inputs: Vec<Option<Input>>,
    /// Inputs that hold more or less than when they were last looked at.
    changed: Vec<LinkId>,
}

/// Flow control that is known to the links that take part.
pub(crate) type ControlHandle = Rc<RefCell<Control>>;

/// A packet's place in what a switch has of its link; given back when the packet leaves the queue, however it does.
pub(crate) struct Ticket {
    control: ControlHandle,
    input: LinkId,
    len_bytes: u32,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.control.borrow_mut().change(self.input, |held| held - u64::from(self.len_bytes));
    }
}

/// When a link may not send.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gate {
    since: Time,
    until: Time,
    /// Of pauses before.
    total: Duration,
    frames: u64,
}

impl Gate {
    pub(crate) fn is_closed(&self, now: Time) -> bool {
        self.until > now
    }

    /// When it is open again.
    pub(crate) fn opens(&self) -> Time {
        self.until
    }

    /// A pause frame says so; one of no time opens it.
    pub(crate) fn close(&mut self, now: Time, time: Duration) {
        if !self.is_closed(now) {
            self.total = self.total + self.until.since(self.since);
            self.since = now;
        }
        self.until = now + time;
        self.frames += u64::from(time > Duration::ZERO);
    }

    /// Pause frames that it was told, and how long it has been closed.
    pub(crate) fn figures(&self, now: Time) -> (u64, Duration) {
        (self.frames, self.total + self.until.min(now).since(self.since))
    }
}

/// A data segment that waited in its host's queue and does no more.
pub(crate) struct LeftHost {
    pub(crate) packet: u32,
    pub(crate) sock: u32,
    pub(crate) seq: u32,
}

impl LeftHost {
    /// Nothing of packets that their sockets do not keep count of.
    pub(crate) fn of(id: u32, packet: &Packet) -> Option<LeftHost> {
        let is_data = !packet.has(flags::PING | flags::SYN) && packet.sequence_len() > 0;
        is_data.then_some(LeftHost { packet: id, sock: packet.to ^ 1, seq: packet.seq })
    }
}

/// Sets up flow control, if the network has it.
pub(crate) fn build(network: &Network, links: &mut [LinkState]) -> Option<ControlHandle> {
    let spec = network.flow_control.clone()?;
    let controlled = controlled(network);
    let inputs = network.links.iter().zip(&controlled).map(|(link, back)| {
        Some(Input {
            back: (*back)?,
            pause: pause_time(spec.quanta, link.rate?),
            held_bytes: 0,
            is_off: false,
            refresh_at: Time::MAX,
        })
    });
    let inputs = inputs.collect();
    let control = Control { spec, inputs, changed: Vec::new() };
    let control = Rc::new(RefCell::new(control));
    let is_host = |node: u32| network.nodes[node as usize].host.is_some();
    for ((link, state), back) in network.links.iter().zip(links).zip(&controlled) {
        if back.is_some() || !is_host(link.from) {
            let tells_host = back.is_some() && is_host(link.from);
            state.take_part(Rc::clone(&control), link, back.is_some(), tells_host);
        }
    }
    Some(control)
}

impl Control {
    fn change(&mut self, input: LinkId, change: impl FnOnce(u64) -> u64) {
        if let Some(at) = &mut self.inputs[input as usize] {
            at.held_bytes = change(at.held_bytes);
            self.changed.push(input);
        }
    }

    /// What an input has to tell its link's sender now: a number of quanta.
    fn decide(&mut self, input: LinkId, now: Time) -> Option<(LinkId, u16)> {
        let at = self.inputs[input as usize].as_mut()?;
        let is_refreshed = at.is_off && at.refresh_at <= now;
        if at.is_off && at.held_bytes <= self.spec.xon_bytes {
            at.is_off = false;
            return Some((at.back, 0));
        }
        if is_refreshed || (!at.is_off && at.held_bytes > self.spec.xoff_bytes) {
            at.is_off = true;
            at.refresh_at = now + Duration::from_ps(at.pause.ps() / 2);
            return Some((at.back, self.spec.quanta));
        }
        None
    }

    fn refresh_at(&self, input: LinkId) -> Option<Time> {
        self.inputs[input as usize].as_ref().map(|at| at.refresh_at)
    }
}

/// The place of a packet in what the switch has of its link, if that can be stopped.
pub(crate) fn ticket(control: &ControlHandle, packet: &impl QueuePacket) -> Option<Ticket> {
    let (input, len_bytes) = (packet.input()?, packet.len_bytes());
    let mut inside = control.borrow_mut();
    inside.inputs[input as usize].as_ref()?;
    inside.change(input, |held| held + u64::from(len_bytes));
    Some(Ticket { control: Rc::clone(control), input, len_bytes })
}

impl Net {
    /// Sends the pause frames that have become due by what came and left.
    #[cold]
    pub(crate) fn settle_flow_control(&mut self) {
        let Some(control) = &self.flow_control else { return };
        let mut control = control.borrow_mut();
        if control.changed.is_empty() {
            return;
        }
        let mut changed = std::mem::take(&mut control.changed);
        for input in changed.drain(..) {
            control.tell(input, self.now, &mut self.links, &mut self.events);
        }
        control.changed = changed;
    }

    /// A pause may have to be told again.
    pub(crate) fn on_pause_refresh(&mut self, input: LinkId) {
        let Some(control) = &self.flow_control else { return };
        let mut control = control.borrow_mut();
        if control.refresh_at(input) == Some(self.now) {
            control.tell(input, self.now, &mut self.links, &mut self.events);
        }
    }

    /// A pause frame has reached the sender of a link.
    pub(crate) fn on_pause(&mut self, link: LinkId, quanta: u16) {
        let parts = (&mut self.events, &mut self.random);
        self.links[link as usize].pause(link, quanta, &mut self.packets, self.now, parts);
    }
}

impl Control {
    fn tell(&mut self, input: LinkId, now: Time, links: &mut [LinkState], events: &mut Events) {
        let Some((back, quanta)) = self.decide(input, now) else { return };
        let arrives = links[back as usize].send_control_frame(now, CONTROL_FRAME_BYTES);
        events.push(arrives + self.spec.reaction, Event::Pause { link: input, quanta });
        if let Some(at) = self.refresh_at(input).filter(|_| quanta > 0) {
            events.push(at, Event::PauseRefresh { link: input });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_quanta_are_33_ms_at_1_gbps_and_3_at_10() {
        let time = |bps| pause_time(65_535, Rate::from_bps(bps).expect("above 0")).ns();
        assert_eq!(time(1_000_000_000), 33_553_920);
        assert_eq!(time(10_000_000_000), 3_355_392);
    }

    #[test]
    fn a_gate_counts_the_time_that_it_is_closed_once() {
        let us = Duration::from_us;
        let at = Time::from_us;
        let mut gate = Gate::default();
        gate.close(at(10), us(100));
        assert!(gate.is_closed(at(109)) && !gate.is_closed(at(110)));
        // Refreshed, then opened; opened again, which is nothing; closed until it opens by itself.
        gate.close(at(60), us(100));
        assert_eq!(gate.figures(at(70)), (2, us(60)));
        gate.close(at(80), Duration::ZERO);
        gate.close(at(90), Duration::ZERO);
        gate.close(at(200), us(50));
        assert_eq!(gate.figures(at(1_000)), (3, us(70 + 50)));
    }
}
