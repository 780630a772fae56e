//! What is known of a run before its links are simulated: classes of flows, and their times alone.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use knee_queue::time::{Duration, PS_PER_S, Rate, Time};
use knee_run::Error;
use knee_run::spec::{Flow, HostConfig, LinkId, Network, NodeId, Run, Traffic};

use crate::alone::{self, Alone};
use crate::link::{self, Segment};
use crate::parallel;
use crate::paths::Paths;
use crate::random::Random;
use crate::said::Said;

/// A flow that has not completed at its link this long after the end of the run counts as unfinished. Flows alone are
/// simulated as long.
pub(crate) const AFTERWARDS: Duration = Duration::from_ms(2_000);
/// What random numbers are for.
pub(crate) const OF_LINKS: u64 = 1;
const OF_ALONE: u64 = 2;

/// Returns the bytes of a transfer. Others are refused before.
pub(crate) fn bytes(flow: &Flow) -> u64 {
    match flow.traffic {
        Traffic::Bulk { bytes } => bytes.unwrap_or(0),
        Traffic::Rpc { .. } => 0,
    }
}

/// What is known of a run before its links are simulated.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub(crate) run: &'a Run,
    pub(crate) paths: &'a Paths,
    pub(crate) flows: &'a FlowClasses,
    pub(crate) alone: &'a AloneTimes,
}

impl Known<'_> {
    /// Returns the time of a flow that is alone at the link at this position of its path, ps.
    pub(crate) fn alone_ps(self, flow: usize, position: usize) -> u64 {
        self.alone.at(self.flows, flow, position, bytes(&self.run.flows[flow]))
    }

    /// Returns the time of a flow that is alone at the link that takes longest, ps.
    pub(crate) fn slowest_alone_ps(self, flow: usize) -> u64 {
        let positions = 0..self.paths.there(flow).len();
        positions.map(|position| self.alone_ps(flow, position)).max().unwrap_or(0)
    }

    /// Returns when a flow that is alone at this position is established, ps after its start.
    pub(crate) fn established_ps(self, flow: usize, position: usize) -> Option<u64> {
        self.alone.established[self.flows.of[flow] as usize][position + 1]
    }

    /// Reports whether a flow has more packets than its initial window, so waits for ACKs.
    pub(crate) fn waits_for_acks(self, flow: usize) -> bool {
        let host = host(self.run, self.run.flows[flow].from);
        self.flows.pkts[flow] > host.map_or(0, |host| host.initial_cwnd_pkts.into())
    }

    /// Returns the rate of the slowest link of a flow's path.
    pub(crate) fn rate(self, flow: usize) -> Option<Rate> {
        let links = self.paths.there(flow).iter();
        links
            .filter_map(|link| self.run.network.links[*link as usize].rate)
            .min_by_key(|rate| rate.bps())
    }

    /// Returns a flow at the link at this position of its path.
    pub(crate) fn segment(self, flow: usize, position: usize) -> Segment {
        segment(self.run, self.paths, flow, position)
    }
}

/// Flows by what decides their time alone, beside their size.
pub(crate) struct FlowClasses {
    /// Class of each flow.
    of: Vec<u32>,
    /// First flow and largest transfer of each class.
    classes: Vec<(usize, u64)>,
    /// Packets of each flow.
    pkts: Vec<u64>,
}

/// Numbers of equal texts.
#[derive(Default)]
struct Numbers(HashMap<String, u32>);

impl Numbers {
    fn of(&mut self, text: String) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(text).or_insert(next)
    }
}

impl FlowClasses {
    pub(crate) fn new(run: &Run, paths: &Paths) -> FlowClasses {
        let mut numbers = Numbers::default();
        let network = &run.network;
        let mut of_cables = HashMap::new();
        let links: Vec<u32> = network
            .links
            .iter()
            .map(|link| {
                *of_cables.entry(Arc::as_ptr(&link.cable)).or_insert_with(|| {
                    let (rate, around) = (link.rate, link.overhead_bytes);
                    let mut queue = link.queue.clone();
                    // Each queue has random numbers of its own, which make it no other kind.
                    queue.seed(&mut || 0);
                    let own = (rate, link.serialisation, around, link.delay, queue);
                    numbers.of(format!("{own:?}"))
                })
            })
            .collect();
        let hosts: Vec<u32> = network
            .nodes
            .iter()
            .map(|node| node.host.as_ref().map_or(u32::MAX, |host| numbers.of(format!("{host:?}"))))
            .collect();
        let mut known: HashMap<Vec<u32>, u32> = HashMap::new();
        let mut all = FlowClasses { of: Vec::new(), classes: Vec::new(), pkts: Vec::new() };
        for (index, flow) in run.flows.iter().enumerate() {
            let cc = |cc: &knee_run::spec::Cc| format!("{} {:?}", cc.name(), cc.params);
            let options = (flow.read_at_bytes, flow.base_rtt, flow.dscp, flow.peer_dscp);
            let kind = format!(
                "{} {:?} {options:?} {:?}",
                cc(&flow.cc),
                flow.peer_cc.as_ref().map(cc),
                flow.max_pacing_rate
            );
            let (there, back) = (paths.there(index), paths.back(index));
            let mut key =
                vec![numbers.of(kind), hosts[flow.from as usize], hosts[flow.to as usize]];
            key.push(there.len() as u32);
            key.extend(there.iter().chain(back).map(|link| links[*link as usize]));
            let class = *known.entry(key).or_insert_with(|| {
                all.classes.push((index, 0));
                all.classes.len() as u32 - 1
            });
            let size = bytes(flow);
            let most = &mut all.classes[class as usize].1;
            *most = (*most).max(size);
            all.of.push(class);
            let mss = host(run, flow.from).map_or(1, HostConfig::mss_bytes).max(1);
            all.pkts.push(size.div_ceil(mss.into()).max(1));
        }
        all
    }
}

fn host(run: &Run, node: NodeId) -> Option<&HostConfig> {
    run.network.nodes[node as usize].host.as_deref()
}

/// Returns a flow at the link at this position of its path.
fn segment(run: &Run, paths: &Paths, flow: usize, position: usize) -> Segment {
    let both = (paths.there(flow), paths.back(flow));
    link::segment(&run.network, both, position, run.flows[flow].from)
}

/// Returns how many bytes the slowest of these links carries until `end`.
fn most_bytes(network: &Network, links: &[LinkId], end: Time) -> u64 {
    let rates = links.iter().filter_map(|link| network.links[*link as usize].rate);
    let slowest = rates.map(Rate::bps).min().unwrap_or(u64::MAX);
    let bytes = u128::from(slowest) * u128::from(end.ps()) / u128::from(8 * PS_PER_S);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Times of flows alone, over their whole path and at each of its links.
pub(crate) struct AloneTimes {
    /// By class: the whole path, then each position.
    of: Vec<Vec<Alone>>,
    /// When a flow is established, ps after its start, likewise: the same for all sizes. `None`: no size completes.
    established: Vec<Vec<Option<u64>>>,
    /// What flows said over their whole path, by class.
    said: Vec<SaidAlone>,
    pub(crate) simulated: usize,
}

/// What a flow of a class says alone over its whole path.
#[derive(Clone, Default)]
struct SaidAlone {
    /// The largest size that was simulated.
    most: u64,
    /// Sizes at which something was said, each with the next smaller one, ascending.
    at: Vec<(u64, u64, Said)>,
}

impl AloneTimes {
    pub(crate) fn new(
        run: &Run,
        paths: &Paths,
        flows: &FlowClasses,
        (threads, stop): (usize, &AtomicBool),
    ) -> Result<AloneTimes, Error> {
        let end = run.end + AFTERWARDS;
        // Each task: class, place (0: the whole path, else position + 1), size.
        let mut tasks = Vec::new();
        for (class, (example, most)) in flows.classes.iter().enumerate() {
            let mss = host(run, run.flows[*example].from).map_or(1, HostConfig::mss_bytes);
            let there = paths.there(*example);
            let most = (*most).min(most_bytes(&run.network, there, end));
            for place in 0..=there.len() {
                let of_size = |bytes| (class, place, bytes);
                tasks.extend(alone::sizes(mss, most).into_iter().map(of_size));
            }
        }
        // The largest first, or one thread would work alone at the end.
        tasks.sort_by_key(|(_, _, bytes)| std::cmp::Reverse(*bytes));
        let times = parallel::map(threads, tasks.len(), stop, |index| {
            let (class, place, bytes) = tasks[index];
            let example = flows.classes[class].0;
            let seed = Random::of(run.seed, OF_ALONE, bytes).u64();
            alone::time(run, (example, bytes), stop, |flow| {
                let segment = place.checked_sub(1).map(|at| segment(run, paths, example, at));
                match segment {
                    Some(segment) => link::run(&run.network, seed, end, &[(flow, segment)]),
                    None => {
                        let both = (paths.there(example), paths.back(example));
                        link::alone(&run.network, (seed, end), flow, both)
                    }
                }
            })
        })?;
        let places = |(example, _): &(usize, u64)| paths.there(*example).len() + 1;
        let mut points: Vec<Vec<Vec<(u64, u64)>>> =
            flows.classes.iter().map(|class| vec![Vec::new(); places(class)]).collect();
        let mut established: Vec<Vec<Option<u64>>> =
            flows.classes.iter().map(|class| vec![None; places(class)]).collect();
        let mut all_said = vec![SaidAlone::default(); flows.classes.len()];
        // Sizes descend.
        for ((class, place, bytes), (time, said)) in tasks.iter().zip(times).rev() {
            if *place == 0 {
                let of_class = &mut all_said[*class];
                if !said.is_empty() {
                    of_class.at.push((of_class.most, *bytes, said));
                }
                of_class.most = *bytes;
            }
            let Some((took_ps, established_ps)) = time else { continue };
            points[*class][*place].push((*bytes, took_ps));
            established[*class][*place] = Some(established_ps);
        }
        let of = points.into_iter().map(|class| class.into_iter().map(Alone::new).collect());
        let of = of.collect();
        Ok(AloneTimes { of, established, said: all_said, simulated: tasks.len() })
    }

    /// Returns what a flow says alone over its whole path: what one of the next larger size said. `None`: nothing.
    pub(crate) fn said(&self, run: &Run, flows: &FlowClasses, flow: usize) -> Option<Said> {
        let class = flows.of[flow] as usize;
        let SaidAlone { most, at } = &self.said[class];
        let bytes = bytes(&run.flows[flow]).min(*most);
        let (_, _, said) = at.iter().find(|(less, size, _)| *less < bytes && bytes <= *size)?;
        Some(said.of_another(run, (flows.classes[class].0, flow)))
    }

    /// Returns the time of a flow over its whole path.
    pub(crate) fn whole(&self, flows: &FlowClasses, flow: usize, bytes: u64) -> u64 {
        self.of[flows.of[flow] as usize][0].ps(bytes)
    }

    /// Returns the time of a flow in the simulation of the link at this position.
    fn at(&self, flows: &FlowClasses, flow: usize, position: usize, bytes: u64) -> u64 {
        self.of[flows.of[flow] as usize][position + 1].ps(bytes)
    }
}
