//! Whether flow control stops links early enough that nothing is dropped.
//!
//! A frame over XOFF makes a pause frame, which waits for a frame that is being sent, takes its time on the wire and its
//! delay, and takes effect; what the sender had begun it finishes, and all of it is on its way until the delay of the link
//! has passed too. With the link at `rate` and frames of `F` bytes, so much still comes:
//!
//! ```text
//! rate * (F / back rate + n * control frame / back rate + back delay + reaction + delay) + F
//! ```
//!
//! `n` is how many classes are stopped each by itself: the pause frames of the others may be before this one. With 802.3x it is 1.
//! An input may so have XOFF, the frame over it, and this, of all that it carries or of each class.

use crate::Error;
use crate::flow_control::{CONTROL_FRAME_BYTES, controlled, pause_time, stopping, ways_back};
use crate::spec::{
    FlowControl, Link, LinkId, Network, NodeId, Run, Serialisation, SharedBuffer, Stops, Thresholds,
};
use knee_queue::time::{Duration, PS_PER_S, Rate};
use knee_queue::{ClassesConfig, Condition, Limit, LimitPer, QueueConfig};

/// IEEE 802.1Q has so many priorities.
const MAX_CLASSES: usize = 8;

fn fail<T>(message: impl AsRef<str>) -> Result<T, Error> {
    Err(Error::Refused(format!("flow control: {}", message.as_ref())))
}

/// Refuses flow control that cannot work, or is not lossless where it has to be.
pub(crate) fn check(run: &Run, frame_bytes: u32) -> Result<(), Error> {
    let network = &run.network;
    let Some(spec) = &network.flow_control else { return Ok(()) };
    for Thresholds { xoff_bytes, xon_bytes } in spec.thresholds() {
        if xon_bytes > xoff_bytes {
            return fail(format!("xon, {xon_bytes} bytes, must not be above xoff, {xoff_bytes}"));
        }
    }
    if spec.quanta == 0 {
        return fail("a pause of 0 quanta has no effect: use 1 to 65535");
    }
    check_switches(network, spec)?;
    let stopping = stopping(network);
    let stops = |node: NodeId| stopping[node as usize];
    let takes_part = |link: &&Link| stops(link.from) || stops(link.to);
    let with_queue: Vec<&Link> =
        network.links.iter().filter(takes_part).filter(|link| link.rate.is_some()).collect();
    for link in &with_queue {
        if let Serialisation::TokenBucket { .. } = link.serialisation {
            return fail(format!(
                "the link {} has a burst, which flow control does not support: leave the burst out",
                network.link_name(link)
            ));
        }
    }
    if let Stops::Classes(_) = spec.stops {
        classes(network, spec, &with_queue)?;
    }
    if !spec.lossless {
        return Ok(());
    }
    let sources =
        run.flows.iter().map(|flow| flow.from).chain(run.pings.iter().map(|ping| ping.from));
    for source in sources {
        let mut out = network.links.iter().filter(|link| link.from == source && stops(link.to));
        if let Some(link) = out.find(|link| link.rate.is_none()) {
            return fail(format!(
                "the link {} has no rate, so it cannot be paused: give it one, or lossless = false",
                network.link_name(link)
            ));
        }
    }
    room(network, spec, frame_bytes)
}

/// Refuses nodes that are not switches, and software routers.
fn check_switches(network: &Network, spec: &FlowControl) -> Result<(), Error> {
    let is_switch =
        |id: NodeId| network.nodes.get(id as usize).is_some_and(|node| node.host.is_none());
    if let Some(node) = spec.switches.iter().flatten().find(|node| !is_switch(**node)) {
        return fail(format!("node {node} is not a switch: only switches pause links"));
    }
    let stopping = stopping(network);
    let switches = network.ports.iter().map(|port| network.links[port.link as usize].to);
    match switches.map(|switch| switch as usize).find(|switch| stopping[*switch]) {
        Some(router) => fail(format!(
            "{} is a software router (network.coalesce), which pauses no links: leave it out \
             there, or in flow_control",
            network.nodes[router].name
        )),
        None => Ok(()),
    }
}

/// Refuses classes that are not the same everywhere: what one switch stops would not be what another had sent.
fn classes(network: &Network, spec: &FlowControl, links: &[&Link]) -> Result<(), Error> {
    let stopped = spec.classes();
    if stopped.is_empty() || stopped.len() > MAX_CLASSES {
        return fail(format!("1 to {MAX_CLASSES} classes can be paused, not {}", stopped.len()));
    }
    for (class, index) in stopped.iter().zip(0..) {
        if stopped[..index].iter().any(|before| before.name == class.name) {
            return fail(format!("the class \"{}\" is named twice", class.name));
        }
        let mut first: Option<(&Link, Vec<Condition>)> = None;
        for &link in links {
            let Some(conditions) = conditions(&link.queue, &class.name) else {
                return fail(format!(
                    "the queue of {} has no class \"{}\": every link with a rate at a pausing \
                     switch, and at its hosts, needs a queue of kind classes with this class",
                    network.link_name(link),
                    class.name
                ));
            };
            match &first {
                None => first = Some((link, conditions)),
                Some((_, others)) if *others == conditions => {}
                Some((other, _)) => {
                    return fail(format!(
                        "the class \"{}\" takes different packets at {} and {}: give it and the \
                         classes before it the same conditions everywhere",
                        class.name,
                        network.link_name(link),
                        network.link_name(other)
                    ));
                }
            }
        }
    }
    Ok(())
}

/// Conditions that select packets of a class: its own, and those of all classes before it.
fn conditions(queue: &QueueConfig, name: &str) -> Option<Vec<Condition>> {
    let QueueConfig::Classes(ClassesConfig { classes, .. }) = queue else { return None };
    let number = classes.iter().position(|class| class.name == name)?;
    Some(classes[..=number].iter().map(|class| class.condition).collect())
}

/// Largest backlog of one priority, per link.
struct MaxBacklog {
    bytes: Vec<u64>,
    /// For messages: what of that is on its way after XOFF, of the link with most.
    headroom_bytes: u64,
    xoff_bytes: u64,
}

impl MaxBacklog {
    fn new(
        network: &Network,
        spec: &FlowControl,
        xoff_bytes: u64,
        frame_bytes: u32,
    ) -> Result<MaxBacklog, Error> {
        let mut most =
            MaxBacklog { bytes: vec![0; network.links.len()], headroom_bytes: 0, xoff_bytes };
        for (index, (link, back)) in network.links.iter().zip(controlled(network)).enumerate() {
            let (Some(back), Some(rate)) = (back, link.rate) else { continue };
            let back = &network.links[back as usize];
            let frame_back = back.time_of(frame_bytes).unwrap_or(Duration::ZERO);
            let pause = pause_time(spec.quanta, rate);
            if pause.ps() <= 2 * frame_back.ps() {
                return fail(format!(
                    "{} quanta are {} ns at {}, and end before the switch can renew the pause: \
                        give more quanta",
                    spec.quanta,
                    pause.ns(),
                    network.link_name(link)
                ));
            }
            let headroom = headroom_bytes(link, back, spec, (rate, frame_bytes));
            most.headroom_bytes = most.headroom_bytes.max(headroom);
            most.bytes[index] = xoff_bytes + u64::from(frame_bytes) + headroom;
        }
        Ok(most)
    }

    /// The inputs of the switch that a link leaves, but for the link's own way back.
    fn inputs(&self, network: &Network, link: &Link, back: Option<LinkId>) -> Vec<(LinkId, u64)> {
        let ids = network.links.iter().zip(0..).filter(|(input, _)| input.to == link.from);
        let others = ids.filter(|(_, id)| back != Some(*id));
        others.map(|(_, id)| (id, self.bytes[id as usize])).collect()
    }

    /// All inputs of a switch together.
    fn of_switch(&self, network: &Network, switch: NodeId) -> u64 {
        let links = network.links.iter().zip(&self.bytes);
        links.filter(|(link, _)| link.to == switch).map(|(_, bytes)| bytes).sum()
    }

    fn way_out(&self) -> String {
        format!(
            "each input may hold xoff, {} bytes, a frame, and {} in flight: give more memory, a \
             smaller xoff, or lossless = false",
            self.xoff_bytes, self.headroom_bytes
        )
    }
}

/// Refuses queues and buffers that cannot hold what may come.
fn room(network: &Network, spec: &FlowControl, frame_bytes: u32) -> Result<(), Error> {
    let most: Result<Vec<MaxBacklog>, Error> = spec
        .thresholds()
        .iter()
        .map(|thresholds| MaxBacklog::new(network, spec, thresholds.xoff_bytes, frame_bytes))
        .collect();
    let most = most?;
    let stopping = stopping(network);
    let stops = |node: NodeId| stopping[node as usize];
    let ports = network.links.iter().zip(ways_back(network));
    for (link, back) in ports.filter(|(link, _)| link.rate.is_some() && stops(link.from)) {
        let link_name = network.link_name(link);
        for (most, priority) in most.iter().zip(0..) {
            let queue = match spec.classes().get(priority) {
                None => Some((link_name.clone(), &link.queue)),
                Some(class) => class_of(&link.queue, &class.name)
                    .map(|queue| (format!("{link_name}/{}", class.name), queue)),
            };
            let Some((name, queue)) = queue else { continue };
            holds(queue, &name, &most.inputs(network, link, back), most)?;
        }
    }
    let of_stopping = |buffer: &&SharedBuffer| {
        buffer.links.first().is_some_and(|link| stops(network.links[*link as usize].from))
    };
    let mut buffers = network.buffers.iter().filter(of_stopping);
    buffers.try_for_each(|buffer| shared(network, spec, buffer, &most))
}

/// The queue of a class.
fn class_of<'a>(queue: &'a QueueConfig, name: &str) -> Option<&'a QueueConfig> {
    let QueueConfig::Classes(config) = queue else { return None };
    Some(&config.classes.iter().find(|class| class.name == name)?.queue)
}

/// Refuses a queue that drops although no more waits in it than these inputs may have, or of which that cannot be said.
fn holds(
    queue: &QueueConfig,
    name: &str,
    inputs: &[(LinkId, u64)],
    most: &MaxBacklog,
) -> Result<(), Error> {
    let bytes: u64 = inputs.iter().map(|(_, bytes)| bytes).sum();
    let limit = match queue {
        QueueConfig::Classes(config) => {
            // All that waits may be of one class.
            let mut classes = config.classes.iter();
            return classes.try_for_each(|class| {
                holds(&class.queue, &format!("{name}/{}", class.name), inputs, most)
            });
        }
        QueueConfig::TwoBuffers(config) if config.limit_per == LimitPer::Buffer => {
            let is_second = |(id, _): &&(LinkId, u64)| config.second.contains(id);
            let (second, first): (Vec<_>, Vec<_>) = inputs.iter().partition(is_second);
            holds(&config.queue, &format!("{name}/first"), &first, most)?;
            return holds(&config.queue, &format!("{name}/second"), &second, most);
        }
        QueueConfig::TwoBuffers(config) => return holds(&config.queue, name, inputs, most),
        queue => {
            if let Some(why) = queue.settings().drops_early() {
                let way_out = "give it droptail or step, or lossless = false";
                return fail(format!("{name} {why}: {way_out}"));
            }
            queue.limit()
        }
    };
    match limit {
        Some(Limit::Pkts(pkts)) if u64::from(pkts) * u64::from(CONTROL_FRAME_BYTES) < bytes => {
            fail(format!(
                "{bytes} bytes may queue at {name}, in frames of any length, but its queue holds \
                 {pkts} packets: give its limit in bytes; {}",
                most.way_out()
            ))
        }
        Some(Limit::Bytes(limit)) if limit < bytes => fail(format!(
            "{bytes} bytes may queue at {name}, but its queue holds {limit}: {}",
            most.way_out()
        )),
        _ => Ok(()),
    }
}

/// Refuses shared memory that may have no room for what must not be dropped.
///
/// With `B` the memory, `Q` what may wait in all queues and `q` in one of them, `q <= alpha * (B - Q)` must hold, reserves aside.
/// What flow control knows waits in one port at worst; of classes that are not stopped each port may be as full as its limits say.
fn shared(
    network: &Network,
    spec: &FlowControl,
    buffer: &SharedBuffer,
    most: &[MaxBacklog],
) -> Result<(), Error> {
    let Some(link) = buffer.links.first() else { return Ok(()) };
    let switch = network.links[*link as usize].from;
    let known: u64 = most.iter().map(|most| most.of_switch(network, switch)).sum();
    let mut unknown_most = 0;
    let mut unknown_sum = 0_u64;
    for &link in &buffer.links {
        let unknown = unknown_bytes(network, spec, &network.links[link as usize])?;
        unknown_most = unknown.max(unknown_most);
        unknown_sum = unknown_sum.saturating_add(unknown);
    }
    let shared = buffer.law.shared_bytes(buffer.links.len()).unwrap_or(0);
    let free = shared.saturating_sub(unknown_sum);
    // All that flow control knows may wait for one port, whose others are full: known + unknown < alpha * (free - known).
    let alpha = buffer.law.alpha;
    let hot = ((alpha * free as f64 - unknown_most as f64).max(0.0) / (1.0 + alpha)) as u64;
    if known > hot + buffer.law.reserved_bytes {
        let beside = match spec.stops {
            Stops::Links(_) => String::new(),
            Stops::Classes(_) => {
                format!(" besides the {unknown_sum} of classes without flow control")
            }
        };
        let way_out = most
            .iter()
            .max_by_key(|most| most.xoff_bytes)
            .map(MaxBacklog::way_out)
            .unwrap_or_default();
        return fail(format!(
            "{known} bytes may queue at one port of {}, which has {hot}{beside}: {way_out}",
            buffer.name
        ));
    }
    Ok(())
}

/// Largest backlog at a link in classes without flow control, bytes.
fn unknown_bytes(network: &Network, spec: &FlowControl, link: &Link) -> Result<u64, Error> {
    let (Stops::Classes(stopped), QueueConfig::Classes(config)) = (&spec.stops, &link.queue) else {
        return Ok(0);
    };
    let is_known = |name: &str| stopped.iter().any(|class| class.name == name);
    let mut bytes = 0_u64;
    for class in config.classes.iter().filter(|class| !is_known(&class.name)) {
        let Some(Limit::Bytes(limit)) = class.queue.limit() else {
            return fail(format!(
                "{}/{} shares memory with lossless traffic and has no byte limit: give it \
                 droptail, step or red with a limit in bytes, or lossless = false",
                network.link_name(link),
                class.name
            ));
        };
        bytes = bytes.saturating_add(limit);
    }
    Ok(bytes)
}

/// Headroom: bytes that still arrive by `link` after the switch decides to pause it.
fn headroom_bytes(
    link: &Link,
    back: &Link,
    spec: &FlowControl,
    (rate, frame_bytes): (Rate, u32),
) -> u64 {
    let on_back = |bytes| back.time_of(bytes).unwrap_or(Duration::ZERO);
    let control_frames = spec.thresholds().len() as u32 * CONTROL_FRAME_BYTES;
    let told = on_back(frame_bytes) + on_back(control_frames) + back.delay + spec.reaction;
    let time = told + link.delay + link.jitter;
    let bits = u128::from(rate.bps()) * u128::from(time.ps()) / u128::from(PS_PER_S);
    u64::try_from(bits.div_ceil(8)).unwrap_or(u64::MAX) + u64::from(frame_bytes)
}
