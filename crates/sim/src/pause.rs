//! IEEE 802.3x and 802.1Qbb flow control. A switch that holds too many bytes from a link makes the
//! link's sender stop, either entirely or for one class.
//!
//! Each link into a switch has an [`Input`] there, which counts the bytes that came by the link and
//! wait for another link. Above XOFF the switch sends a pause frame back over the cable. It repeats
//! the frame after half of each pause until the count falls to XON, and then ends the pause with a
//! frame of time 0. Frames in transmission are finished first, in both directions. Pause frames are
//! never paused. The links have queues whose packets leave one after the other, because departure
//! times are not known in advance.
//!
//! With 802.1Qbb, each class that can be stopped has its own input, numbered by its *priority*: its
//! place in the list of these classes. A packet has the priority of the class in which it waits.
//! With 802.3x all packets have priority 0.

use crate::events::{Event, Events, NONE};
use crate::gate::Gates;
use crate::link::LinkState;
use crate::net::Net;
use crate::numbered::{Numbered, Numbering};
use crate::packet::{Packet, flags};
use knee_queue::time::{Duration, Time};
use knee_queue::{AnyQdisc, Packet as QueuePacket};
use knee_run::flow_control::{CONTROL_FRAME_BYTES, controlled, pause_time, stopping};
use knee_run::spec::{FlowControl, Link, LinkId, Network, Stops, Thresholds};
use std::cell::RefCell;
use std::rc::Rc;

/// The bytes that a switch holds from a link, or from one priority of it.
struct Input {
    link: LinkId,
    priority: u8,
    thresholds: Thresholds,
    back: LinkId,
    pause: Duration,
    held_bytes: u64,
    is_off: bool,
    /// The time of the next pause frame, while the sender is stopped.
    refresh_at: Time,
}

/// The flow control of a network.
pub(crate) struct Control {
    quanta: u16,
    reaction: Duration,
    /// The inputs of each link into the domain's nodes, by priority.
    inputs: Vec<Option<Input>>,
    numbering: Numbering,
    /// Number of priorities per link.
    priorities: u32,
    /// Inputs whose count has changed since the last check.
    changed: Vec<u32>,
}

/// Flow control, as the links that take part refer to it.
pub(crate) type ControlHandle = Rc<RefCell<Control>>;

/// A packet's share of an input's count. It is given back when the packet leaves the queue in any
/// way.
pub(crate) struct Ticket {
    control: ControlHandle,
    input: u32,
    len_bytes: u32,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.control.borrow_mut().change(self.input, |held| held - u64::from(self.len_bytes));
    }
}

/// A link's part in flow control.
pub(crate) struct LinkControl {
    control: ControlHandle,
    /// The gates that stop the link or its classes.
    pub(crate) gates: Gates,
    /// With 802.1Qbb, the priority of each class of the queue; `None` for a class that is never
    /// stopped.
    priorities: Option<Vec<Option<u8>>>,
}

impl LinkControl {
    /// Adds a packet that enters the link's queue to its input's count, if the input counts.
    pub(crate) fn ticket<P: QueuePacket>(
        &self,
        queue: &mut AnyQdisc<P>,
        packet: &P,
    ) -> Option<Ticket> {
        let (link, len_bytes) = (packet.input()?, packet.len_bytes());
        let priority = match &self.priorities {
            None => 0,
            Some(priorities) => (*priorities.get(queue.classes_mut()?.class_of(packet))?)?,
        };
        let mut control = self.control.borrow_mut();
        let input = control.input_of(link, priority);
        control.inputs[input as usize].as_ref()?;
        control.change(input, |held| held + u64::from(len_bytes));
        Some(Ticket { control: Rc::clone(&self.control), input, len_bytes })
    }
}

/// A data segment that has left its host's queue.
pub(crate) struct LeftHost {
    pub(crate) packet: u32,
    pub(crate) sock: u32,
    pub(crate) seq: u32,
}

impl LeftHost {
    /// Returns `None` for packets that sockets do not count.
    pub(crate) fn of(id: u32, packet: &Packet) -> Option<LeftHost> {
        let is_data = !packet.has(flags::PING | flags::SYN) && packet.sequence_len() > 0;
        is_data.then_some(LeftHost { packet: id, sock: packet.to ^ 1, seq: packet.seq })
    }
}

/// Sets up the flow control of a domain, if the network has it. `into` has the links that lead to its
/// nodes.
pub(crate) fn build(
    network: &Network,
    links: &mut Numbered<LinkState>,
    into: Numbering,
) -> Option<ControlHandle> {
    let spec = network.flow_control.as_ref()?;
    let controlled = controlled(network);
    let thresholds = spec.thresholds();
    let mut inputs = Vec::new();
    for ((link, back), id) in network.links.iter().zip(&controlled).zip(0..) {
        if !into.has(id) {
            continue;
        }
        let stopped = back.zip(link.rate);
        inputs.extend(thresholds.iter().zip(0..).map(|(thresholds, priority)| {
            let (back, rate) = stopped?;
            Some(Input {
                link: id,
                priority,
                thresholds: *thresholds,
                back,
                pause: pause_time(spec.quanta, rate),
                held_bytes: 0,
                is_off: false,
                refresh_at: Time::MAX,
            })
        }));
    }
    let control = Rc::new(RefCell::new(Control {
        quanta: spec.quanta,
        reaction: spec.reaction,
        inputs,
        numbering: into,
        priorities: thresholds.len() as u32,
        changed: Vec::new(),
    }));
    let stopping = stopping(network);
    let is_host = |node: u32| network.nodes[node as usize].host.is_some();
    for (number, state) in links.numbered_mut() {
        let (link, back) = (&network.links[number as usize], controlled[number as usize]);
        if back.is_some() || stopping[link.from as usize] {
            let tells_host = back.is_some() && is_host(link.from);
            let part = part_of(spec, &control, link, back.is_some());
            state.take_part(part, link, tells_host);
        }
    }
    Some(control)
}

/// Creates a link's part in flow control. `can_be_stopped`: its receiver is a switch that sends
/// pause frames.
fn part_of(
    spec: &FlowControl,
    control: &ControlHandle,
    link: &Link,
    can_be_stopped: bool,
) -> LinkControl {
    // A link without a rate has no queue in which packets could wait.
    let numbers = spec.numbers_in(&link.queue).unwrap_or_default();
    let (gates, priorities) = match &spec.stops {
        Stops::Links(_) => (Gates::of_link(), None),
        Stops::Classes(_) => {
            let mut priorities = vec![None; link.queue.part_names().len()];
            for (number, priority) in numbers.iter().zip(0..) {
                priorities[*number] = Some(priority);
            }
            (Gates::of_classes(numbers), Some(priorities))
        }
    };
    let gates = if can_be_stopped { gates } else { Gates::None };
    LinkControl { control: Rc::clone(control), gates, priorities }
}

impl Control {
    fn input_of(&self, link: LinkId, priority: u8) -> u32 {
        let place = self.numbering.place(link as usize) as u32;
        place * self.priorities + u32::from(priority)
    }

    fn change(&mut self, input: u32, change: impl FnOnce(u64) -> u64) {
        if let Some(at) = &mut self.inputs[input as usize] {
            at.held_bytes = change(at.held_bytes);
            self.changed.push(input);
        }
    }

    /// Sends the pause frame that an input needs now, if any.
    fn tell(
        &mut self,
        input: u32,
        now: Time,
        links: &mut Numbered<LinkState>,
        events: &mut Events,
    ) {
        let Some(at) = &mut self.inputs[input as usize] else { return };
        let Some(pauses) = at.decide(now) else { return };
        let quanta = if pauses { self.quanta } else { 0 };
        let (link, priority) = (at.link, at.priority);
        let back = &mut links[at.back as usize];
        let pause = Event::Pause { link, quanta, priority };
        let arrives = back.send_control_frame(now, CONTROL_FRAME_BYTES);
        match (arrives.map(|at| at + self.reaction), back.leads_to()) {
            (Some(arrives), None) => events.push(arrives, pause),
            (Some(arrives), Some(domain)) => events.push_away(domain, (now, arrives), pause, NONE),
            (None, _) => {}
        }
        if pauses {
            events.push(at.refresh_at, Event::PauseRefresh { link, priority });
        }
    }
}

impl Input {
    /// Decides whether the sender must stop (true) or may go on (false); `None` if nothing changes.
    fn decide(&mut self, now: Time) -> Option<bool> {
        if self.is_off && self.held_bytes <= self.thresholds.xon_bytes {
            self.is_off = false;
            return Some(false);
        }
        let is_refreshed = self.is_off && self.refresh_at <= now;
        if is_refreshed || (!self.is_off && self.held_bytes > self.thresholds.xoff_bytes) {
            self.is_off = true;
            self.refresh_at = now + Duration::from_ps(self.pause.ps() / 2);
            return Some(true);
        }
        None
    }
}

impl Net {
    /// Sends the pause frames that arrivals and departures have made due.
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

    /// Repeats a pause if the input is still above XON.
    pub(crate) fn on_pause_refresh(&mut self, link: LinkId, priority: u8) {
        let Some(control) = &self.flow_control else { return };
        let mut control = control.borrow_mut();
        let input = control.input_of(link, priority);
        let at = control.inputs[input as usize].as_ref();
        if at.is_some_and(|at| at.refresh_at == self.now) {
            control.tell(input, self.now, &mut self.links, &mut self.events);
        }
    }

    /// Applies a pause frame that has reached the sender of a link.
    pub(crate) fn on_pause(&mut self, link: LinkId, priority: u8, quanta: u16) {
        let told = (priority, quanta);
        self.links[link as usize].pause(link, told, &mut self.packets, self.now, &mut self.events);
    }
}
