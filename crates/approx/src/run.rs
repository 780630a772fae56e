//! One run: paths, times of flows alone, simulations of each link, and their sums.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

use knee_queue::time::{Duration, PS_PER_S, Rate, Time};
use knee_run::outcome::{FlowOutcome, Outcome, Work};
use knee_run::spec::{Flow, HostConfig, LinkId, Network, NodeId, Run, Traffic};
use knee_run::{Error, validate};

use crate::alone::{self, Alone};
use crate::link::{self, Segment};
use crate::links::{Links, NEVER, Round};
use crate::paths::Paths;
use crate::random::Random;
use crate::{parallel, refuse};

/// A flow that has not completed at its link this long after the end of the run counts as unfinished. Flows alone are
/// simulated as long.
pub(crate) const AFTERWARDS: Duration = Duration::from_ms(2_000);
/// What random numbers are for.
pub(crate) const OF_LINKS: u64 = 1;
const OF_ALONE: u64 = 2;

/// Options of an approximate run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Threads; 0 means one per core. Results do not depend on it.
    pub threads: usize,
}

/// What an approximate run took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// Links that carry flows.
    pub links: usize,
    /// Links on which no two flows meet; they need no simulation.
    pub quiet: usize,
    /// Simulations of links in the first round.
    pub simulated: usize,
    /// Simulations of links in the second round: those with flows that other links hold up.
    pub again: usize,
    /// Simulations of a flow alone.
    pub alone: usize,
    /// Time of its parts on this machine: paths, flows alone, links.
    pub wall: [std::time::Duration; 3],
}

/// Returns the bytes of a transfer. Others are refused before.
pub(crate) fn bytes(flow: &Flow) -> u64 {
    match flow.traffic {
        Traffic::Bulk { bytes } => bytes.unwrap_or(0),
        Traffic::Rpc { .. } => 0,
    }
}

/// Approximates a run.
///
/// # Errors
/// [`Error::Refused`] for what it does not know; errors of the simulator.
pub fn approximate(
    run: &Run,
    options: Options,
    stop: &AtomicBool,
) -> Result<(Outcome, Effort), Error> {
    validate(run)?;
    refuse::check(run)?;
    let threads = match options.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let mut effort = Effort::default();
    let started = std::time::Instant::now();
    let paths = Paths::new(run)?;
    let flows = FlowClasses::new(run, &paths);
    effort.wall[0] = started.elapsed();
    let started = std::time::Instant::now();
    let mut work = Work::default();
    let alone = AloneTimes::new(run, &paths, &flows, (threads, stop))?;
    effort.alone = alone.simulated;
    effort.wall[1] = started.elapsed();
    let started = std::time::Instant::now();
    let known = Known { run, paths: &paths, flows: &flows, alone: &alone };
    let links = Links::new(known);
    let first = links.first((threads, stop))?;
    let second = links.second(&first, (threads, stop))?;
    effort.links = links.count();
    effort.quiet = effort.links - first.simulated;
    (effort.simulated, effort.again) = (first.simulated, second.simulated);
    for round in [&first, &second] {
        work.events += round.work.events;
        work.data_pkts += round.work.data_pkts;
        work.pkt_hops += round.work.pkt_hops;
    }
    let outcomes = (0..run.flows.len()).map(|index| {
        let flow = &run.flows[index];
        let alone_ps = alone.whole(&flows, index, bytes(flow));
        outcome(run, flow, alone_ps, delay(known, index, &first, &second))
    });
    let flows: Vec<FlowOutcome> = outcomes.collect();
    effort.wall[2] = started.elapsed();
    let last =
        flows.iter().map(|flow| flow.done_at).try_fold(Time::ZERO, |last, at| Some(last.max(at?)));
    let end = last.filter(|_| run.until_done).unwrap_or(run.end);
    Ok((Outcome { end, flows, work, completions_only: true, ..Outcome::default() }, effort))
}

fn outcome(run: &Run, flow: &Flow, alone_ps: u64, extra: Option<i64>) -> FlowOutcome {
    let connected_at = Some(flow.start).filter(|start| *start < run.end);
    let took = extra.map(|extra| Duration::from_ps(alone_ps.saturating_add_signed(extra)));
    let done_at = took.map(|took| flow.start + took).filter(|at| *at <= run.end);
    let algorithm = flow.cc.algorithm.name();
    FlowOutcome {
        connected_at,
        done_at: done_at.filter(|_| connected_at.is_some()),
        algorithm,
        ..FlowOutcome::default()
    }
}

/// What is known of a run before its links are simulated.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub(crate) run: &'a Run,
    pub(crate) paths: &'a Paths,
    flows: &'a FlowClasses,
    alone: &'a AloneTimes,
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
    pub(crate) fn segment(self, flow: usize, position: usize) -> Option<Segment> {
        segment(self.run, self.paths, flow, position)
    }
}

/// Returns how much longer a flow takes than alone, ps. `None`: it does not complete.
///
/// What the link costs that holds it up most counts in full. At the others a flow comes as slowly as that link lets it, and
/// only what is added there counts. Its SYN-ACK waits at the links of the way back.
fn delay(known: Known<'_>, flow: usize, first: &Round, second: &Round) -> Option<i64> {
    // Where it is held up most, and how long it takes there: in the round in which it takes longer.
    let worst = first.worst(known, flow);
    let worst = worst.map(|(at, took_ps)| (at, took_ps.max(second.time_ps(flow, at))));
    let mut sum = i64::try_from(second.wait_back_ps(known, flow)).ok()?;
    for position in 0..known.paths.there(flow).len() {
        let took_ps = Some(second.time_ps(flow, position)).filter(|took| *took < NEVER)?;
        let alone_ps = known.alone_ps(flow, position);
        let longer_than = |least_ps: u64| i64::try_from(i128::from(took_ps) - i128::from(least_ps));
        let delay = match worst {
            Some((at, time_ps)) if at != position => {
                longer_than(alone_ps.max(time_ps)).ok()?.max(0)
            }
            _ => longer_than(alone_ps).ok()?,
        };
        sum = sum.saturating_add(delay);
    }
    Some(sum)
}

/// Flows by what decides their time alone, beside their size.
struct FlowClasses {
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
    fn new(run: &Run, paths: &Paths) -> FlowClasses {
        let mut numbers = Numbers::default();
        let network = &run.network;
        let links: Vec<u32> = network
            .links
            .iter()
            .map(|link| {
                let (rate, around) = (link.rate, link.overhead_bytes);
                let mut queue = link.queue.clone();
                // Each queue has random numbers of its own, which make it no other kind.
                queue.seed(&mut || 0);
                let own = (rate, link.serialisation, around, link.delay, queue);
                numbers.of(format!("{own:?}"))
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
    run.network.nodes[node as usize].host.as_ref()
}

/// Returns a flow at the link at this position of its path.
fn segment(run: &Run, paths: &Paths, flow: usize, position: usize) -> Option<Segment> {
    let host = host(run, run.flows[flow].from)?;
    let both = (paths.there(flow), paths.back(flow));
    Some(link::segment(&run.network, both, position, host))
}

/// Returns how many bytes the slowest of these links carries until `end`.
fn most_bytes(network: &Network, links: &[LinkId], end: Time) -> u64 {
    let rates = links.iter().filter_map(|link| network.links[*link as usize].rate);
    let slowest = rates.map(Rate::bps).min().unwrap_or(u64::MAX);
    let bytes = u128::from(slowest) * u128::from(end.ps()) / u128::from(8 * PS_PER_S);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Times of flows alone, over their whole path and at each of its links.
struct AloneTimes {
    /// By class: the whole path, then each position.
    of: Vec<Vec<Alone>>,
    /// When a flow is established, ps after its start, likewise. `None`: no size completes.
    established: Vec<Vec<Option<u64>>>,
    simulated: usize,
}

impl AloneTimes {
    fn new(
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
            let flow = &run.flows[example];
            let seed = Random::of(run.seed, OF_ALONE, bytes).u64();
            alone::time(flow, bytes, |flow| {
                let segment = place.checked_sub(1).and_then(|at| segment(run, paths, example, at));
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
        // Sizes descend.
        for ((class, place, bytes), time) in tasks.iter().zip(times).rev() {
            let Some((took_ps, established_ps)) = time else { continue };
            points[*class][*place].push((*bytes, took_ps));
            established[*class][*place] = Some(established_ps);
        }
        let of = points.into_iter().map(|class| class.into_iter().map(Alone::new).collect());
        Ok(AloneTimes { of: of.collect(), established, simulated: tasks.len() })
    }

    /// Returns the time of a flow over its whole path.
    fn whole(&self, flows: &FlowClasses, flow: usize, bytes: u64) -> u64 {
        self.of[flows.of[flow] as usize][0].ps(bytes)
    }

    /// Returns the time of a flow in the simulation of the link at this position.
    fn at(&self, flows: &FlowClasses, flow: usize, position: usize, bytes: u64) -> u64 {
        self.of[flows.of[flow] as usize][position + 1].ps(bytes)
    }
}
