//! Whether flow control stops links early enough that nothing is dropped.
//!
//! A frame over XOFF makes a pause frame, which waits for a frame that is being sent, takes its time on the wire and its
//! delay, and takes effect; what the sender had begun it finishes, and all of it is on its way until the delay of the link
//! has passed too. With the link at `rate` and frames of `F` bytes, so much still comes:
//!
//! ```text
//! rate * (F / back rate + control frame / back rate + back delay + reaction + delay) + F
//! ```

use crate::Error;
use crate::pause::{CONTROL_FRAME_BYTES, controlled, pause_time};
use crate::spec::{FlowControl, Link, Network, NodeId, Run, Serialisation};
use knee_queue::time::{Duration, PS_PER_S, Rate};
use knee_queue::{Limit, QueueConfig};

/// Refuses flow control that cannot work, or is not lossless where it has to be.
pub(crate) fn check(run: &Run, frame_bytes: u32) -> Result<(), Error> {
    let network = &run.network;
    let Some(spec) = &network.flow_control else { return Ok(()) };
    let fail = |message: String| Err(Error(format!("flow control: {message}")));
    if spec.xon_bytes > spec.xoff_bytes {
        return fail(format!(
            "xon, {} bytes, must not be above xoff, {}",
            spec.xon_bytes, spec.xoff_bytes
        ));
    }
    if spec.quanta == 0 {
        return fail("a pause of 0 quanta stops nothing: 1 to 65535".to_owned());
    }
    let is_switch = |node: NodeId| network.nodes[node as usize].host.is_none();
    let takes_part = |link: &&Link| is_switch(link.from) || is_switch(link.to);
    for link in network.links.iter().filter(takes_part).filter(|link| link.rate.is_some()) {
        if let Serialisation::TokenBucket { .. } = link.serialisation {
            return fail(format!(
                "the link {} has a burst, and a token bucket has no frames to finish: leave it out",
                link.name
            ));
        }
    }
    if !spec.lossless {
        return Ok(());
    }
    let sources =
        run.flows.iter().map(|flow| flow.from).chain(run.pings.iter().map(|ping| ping.from));
    for source in sources {
        let mut out = network.links.iter().filter(|link| link.from == source && is_switch(link.to));
        if let Some(link) = out.find(|link| link.rate.is_none()) {
            return fail(format!(
                "the link {} has no rate and cannot be stopped: give it one, or lossless = false",
                link.name
            ));
        }
    }
    room(network, spec, frame_bytes)
}

/// Refuses queues and buffers that cannot hold what may come.
fn room(network: &Network, spec: &FlowControl, frame_bytes: u32) -> Result<(), Error> {
    let fail = |message: String| Err(Error(format!("flow control: {message}")));
    let mut most = vec![0_u64; network.nodes.len()];
    let mut of_link = vec![0_u64; network.links.len()];
    let mut headroom_most = 0;
    for (index, (link, back)) in network.links.iter().zip(controlled(network)).enumerate() {
        let (Some(back), Some(rate)) = (back, link.rate) else { continue };
        let back = &network.links[back as usize];
        let frame_back = back.rate.map_or(Duration::ZERO, |rate| rate.time_of(frame_bytes));
        let pause = pause_time(spec.quanta, rate);
        if pause.ps() <= 2 * frame_back.ps() {
            return fail(format!(
                "{} quanta are {} ns at {}, over before they can be told again: give it more quanta",
                spec.quanta,
                pause.ns(),
                link.name
            ));
        }
        let headroom = headroom_bytes(link, back, spec, (rate, frame_bytes));
        headroom_most = headroom_most.max(headroom);
        of_link[index] = spec.xoff_bytes + u64::from(frame_bytes) + headroom;
        most[link.to as usize] += of_link[index];
    }
    let way_out = format!(
        "each input may have xoff, {} bytes, a frame, and {headroom_most} that still come; give it more, \
         a smaller xoff, or lossless = false",
        spec.xoff_bytes
    );
    for link in network.links.iter().filter(|link| link.rate.is_some()) {
        let from_there =
            network.links.iter().position(|back| (back.from, back.to) == (link.to, link.from));
        let most = most[link.from as usize] - from_there.map_or(0, |back| of_link[back]);
        match limit(&link.queue) {
            Some(Limit::Pkts(pkts)) if u64::from(pkts) * u64::from(CONTROL_FRAME_BYTES) < most => {
                return fail(format!(
                    "{most} bytes may wait for {}, in frames of any length, and its queue holds {pkts} packets: \
                     give its limit in bytes; {way_out}",
                    link.name
                ));
            }
            Some(Limit::Bytes(bytes)) if bytes < most => {
                return fail(format!(
                    "{most} bytes may wait for {}, and its queue holds {bytes}: {way_out}",
                    link.name
                ));
            }
            _ => {}
        }
    }
    for buffer in &network.buffers {
        let Some(link) = buffer.links.first() else { continue };
        let switch = network.links[*link as usize].from;
        let most = most[switch as usize];
        let shared = buffer.law.shared_bytes(buffer.links.len()).unwrap_or(0);
        // All of it may wait for one port: q < alpha * (B - q).
        let hot = (shared as f64 * buffer.law.alpha / (1.0 + buffer.law.alpha)) as u64;
        if most > hot + buffer.law.reserved_bytes {
            return fail(format!(
                "{most} bytes may wait for one port of {}, which gives it {hot}: {way_out}",
                buffer.name
            ));
        }
    }
    Ok(())
}

/// What still comes by `link` once the switch has decided to stop it.
fn headroom_bytes(
    link: &Link,
    back: &Link,
    spec: &FlowControl,
    (rate, frame_bytes): (Rate, u32),
) -> u64 {
    let on_back = |bytes| back.rate.map_or(Duration::ZERO, |rate| rate.time_of(bytes));
    let told = on_back(frame_bytes) + on_back(CONTROL_FRAME_BYTES) + back.delay + spec.reaction;
    let time = told + link.delay + link.jitter;
    let bits = u128::from(rate.bps()) * u128::from(time.ps()) / u128::from(PS_PER_S);
    u64::try_from(bits.div_ceil(8)).unwrap_or(u64::MAX) + u64::from(frame_bytes)
}

/// How much a queue holds, of those that drop for that alone.
fn limit(queue: &QueueConfig) -> Option<Limit> {
    match queue {
        QueueConfig::DropTail(queue) => Some(queue.limit),
        QueueConfig::Step(queue) => Some(queue.limit),
        QueueConfig::Share(queue) => Some(queue.limit),
        _ => None,
    }
}
