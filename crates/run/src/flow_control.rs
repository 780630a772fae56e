//! Which links flow control stops, what it tells apart, and how long a pause is.

use crate::spec::{FlowControl, Link, LinkId, Network, StoppedClass, Stops, Thresholds};
use knee_queue::QueueConfig;
use knee_queue::time::{Duration, Rate};
use std::collections::{HashMap, VecDeque};

/// A control frame: 64 bytes, less the checksum, which queues do not count either.
pub const CONTROL_FRAME_BYTES: u32 = 60;
/// A quantum is 512 bit times.
const QUANTUM_BYTES: u32 = 64;

/// Duration of a pause of `quanta` at this rate.
pub fn pause_time(quanta: u16, rate: Rate) -> Duration {
    rate.time_of(QUANTUM_BYTES * u32::from(quanta))
}

/// For each node, whether it is a switch that pauses links.
pub fn stopping(network: &Network) -> Vec<bool> {
    let Some(spec) = &network.flow_control else { return vec![false; network.nodes.len()] };
    let all = spec.switches.is_none();
    let nodes = network.nodes.iter();
    let mut stopping: Vec<bool> = nodes.map(|node| all && node.host.is_none()).collect();
    for switch in spec.switches.iter().flatten() {
        stopping[*switch as usize] = true;
    }
    stopping
}

/// For each link, the other direction of its cable. Of several cables between two nodes the first has the first way back.
pub fn ways_back(network: &Network) -> Vec<Option<LinkId>> {
    let mut ways: HashMap<(u32, u32), VecDeque<LinkId>> = HashMap::new();
    for (link, id) in network.links.iter().zip(0..) {
        ways.entry((link.from, link.to)).or_default().push_back(id);
    }
    let links = network.links.iter();
    links.map(|link| ways.get_mut(&(link.to, link.from))?.pop_front()).collect()
}

/// The links that flow control can stop, each with the one that its receiver tells it by: those with a rate that lead
/// into a switch that does so, and the other direction of their cable.
pub fn controlled(network: &Network) -> Vec<Option<LinkId>> {
    let stopping = stopping(network);
    let stops = |link: &Link| link.rate.is_some() && stopping[link.to as usize];
    let links = network.links.iter().zip(ways_back(network));
    links.map(|(link, back)| back.filter(|_| stops(link))).collect()
}

impl FlowControl {
    /// The classes that are stopped each by itself; none: links are stopped.
    pub fn classes(&self) -> &[StoppedClass] {
        if let Stops::Classes(classes) = &self.stops { classes } else { &[] }
    }

    /// Those of each priority.
    pub fn thresholds(&self) -> Vec<Thresholds> {
        match &self.stops {
            Stops::Links(thresholds) => vec![*thresholds],
            Stops::Classes(classes) => classes.iter().map(|class| class.thresholds).collect(),
        }
    }

    /// The numbers that the classes that are stopped have in a queue, in the order of priorities; `None`: one is not there.
    pub fn numbers_in(&self, queue: &QueueConfig) -> Option<Vec<usize>> {
        let QueueConfig::Classes(config) = queue else { return None };
        let number =
            |class: &StoppedClass| config.classes.iter().position(|c| c.name == class.name);
        self.classes().iter().map(number).collect()
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
}
