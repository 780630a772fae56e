//! One run: paths, times of flows alone, a simulation of each link, and their sums.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

use knee_queue::time::{Duration, PS_PER_S, Rate, Time};
use knee_run::outcome::{FlowOutcome, Outcome, Work};
use knee_run::spec::{Flow, HostConfig, LinkId, Network, NodeId, Run, Traffic};
use knee_run::{Error, validate};

use crate::alone::{self, Alone};
use crate::delays::{Delays, Sample, convolve};
use crate::link::{self, Segment};
use crate::paths::Paths;
use crate::random::Random;
use crate::{cluster, parallel, refuse};

/// A flow that has not completed at its link this long after the end of the run counts as unfinished. Flows alone are
/// simulated as long.
const AFTERWARDS: Duration = Duration::from_ms(2_000);
/// What random numbers are for.
const OF_LINKS: u64 = 1;
const OF_ALONE: u64 = 2;
const OF_DRAWS: u64 = 3;

/// Options of an approximate run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Threads; 0 means one per core. Results do not depend on it.
    pub threads: usize,
    /// Whether links with alike traffic share one simulation.
    pub cluster: bool,
}

/// What an approximate run took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// Links that carry flows.
    pub links: usize,
    /// Links on which no two flows meet; they need no simulation.
    pub quiet: usize,
    /// Links that share the simulation of another.
    pub shared: usize,
    /// Simulations of links.
    pub simulated: usize,
    /// Simulations of a flow alone.
    pub alone: usize,
    /// Time of its parts on this machine: paths, flows alone, links.
    pub wall: [std::time::Duration; 3],
}

/// Returns the bytes of a transfer. Others are refused before.
fn bytes(flow: &Flow) -> u64 {
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
    let links = Links::new(run, &paths);
    effort.links = links.links.len();
    let simulated =
        links.simulate((run, &paths, &flows, &alone), options.cluster, (threads, stop))?;
    (effort.quiet, effort.shared) = (simulated.quiet, simulated.shared);
    effort.simulated = effort.links - effort.quiet - effort.shared;
    for part in &simulated.work {
        work.events += part.events;
        work.data_pkts += part.data_pkts;
        work.pkt_hops += part.pkt_hops;
    }
    let outcomes = (0..run.flows.len()).map(|index| {
        let flow = &run.flows[index];
        let seed = Random::of(run.seed, OF_DRAWS, index as u64).u64();
        let of_links = paths.there(index).iter().map(|link| simulated.delays(*link));
        let extra = convolve(of_links, flows.pkts[index], seed);
        outcome(run, flow, alone.whole(&flows, index, bytes(flow)), extra)
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
        // Sizes descend.
        for ((class, place, bytes), time) in tasks.iter().zip(times).rev() {
            points[*class][*place].extend(time.map(|time| (*bytes, time)));
        }
        let of = points.into_iter().map(|class| class.into_iter().map(Alone::new).collect());
        Ok(AloneTimes { of: of.collect(), simulated: tasks.len() })
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

/// Links that carry flows.
pub(crate) struct Links {
    /// Each with its flows and their positions on it.
    links: Vec<(LinkId, Vec<(u32, u32)>)>,
}

/// Delays of all links.
struct Simulated {
    /// Index into `all` of each link; those without flows have none.
    of: Vec<u32>,
    all: Vec<Delays>,
    work: Vec<Work>,
    quiet: usize,
    shared: usize,
}

impl Simulated {
    fn delays(&self, link: LinkId) -> &Delays {
        &self.all[self.of[link as usize] as usize]
    }
}

type Known<'a> = (&'a Run, &'a Paths, &'a FlowClasses, &'a AloneTimes);

impl Links {
    fn new(run: &Run, paths: &Paths) -> Links {
        let mut of: Vec<Vec<(u32, u32)>> = vec![Vec::new(); run.network.links.len()];
        for flow in 0..run.flows.len() {
            for (position, link) in paths.there(flow).iter().enumerate() {
                of[*link as usize].push((flow as u32, position as u32));
            }
        }
        let all = (0..).zip(of).filter(|(_, members)| !members.is_empty());
        Links { links: all.collect() }
    }

    /// Simulates all links.
    fn simulate(
        &self,
        known: Known<'_>,
        cluster: bool,
        (threads, stop): (usize, &AtomicBool),
    ) -> Result<Simulated, Error> {
        let (run, _, flows, _) = known;
        let size = |(flow, _): &(u32, u32)| bytes(&run.flows[*flow as usize]);
        let loads: Vec<u64> =
            self.links.iter().map(|(_, members)| members.iter().map(size).sum()).collect();
        let meet: Vec<bool> = self.links.iter().map(|(_, all)| do_meet(known, all)).collect();
        // The link whose simulation stands for each.
        let leaders: Vec<usize> = match cluster {
            false => (0..self.links.len()).collect(),
            true => {
                let kind = |index: usize| {
                    let members = self.links[index].1.iter();
                    members.map(|(flow, at)| {
                        ((flows.of[*flow as usize], *at), flows.pkts[*flow as usize])
                    })
                };
                cluster::leaders(
                    self.links.len(),
                    |index| meet[index],
                    |index| kind(index).collect(),
                )
            }
        };
        let mut tasks: Vec<usize> =
            (0..self.links.len()).filter(|link| meet[*link] && leaders[*link] == *link).collect();
        tasks.sort_by_key(|link| std::cmp::Reverse(loads[*link]));
        let done = parallel::map(threads, tasks.len(), stop, |index| {
            simulate(known, &self.links[tasks[index]])
        })?;
        let mut of = vec![0; run.network.links.len()];
        // The first delays nobody.
        let (mut all, mut work) = (vec![Delays::default()], Vec::new());
        let mut of_leader = vec![0; self.links.len()];
        for (link, (delays, of_link)) in tasks.iter().zip(done) {
            of_leader[*link] = all.len() as u32;
            all.push(delays);
            work.push(of_link);
        }
        for (index, (link, _)) in self.links.iter().enumerate() {
            of[*link as usize] = of_leader[leaders[index]];
        }
        let quiet = meet.iter().filter(|meet| !**meet).count();
        let shared = (0..self.links.len()).filter(|link| leaders[*link] != *link).count();
        Ok(Simulated { of, all, work, quiet, shared })
    }
}

/// Returns whether any two flows of a link are there at the same time, by their times alone. If none are, each takes the
/// time that it takes alone.
fn do_meet((run, _, flows, alone): Known<'_>, members: &[(u32, u32)]) -> bool {
    let mut times: Vec<(u64, u64)> = members
        .iter()
        .map(|(flow, position)| {
            let spec = &run.flows[*flow as usize];
            let start = spec.start.ps();
            let took = alone.at(flows, *flow as usize, *position as usize, bytes(spec));
            (start, start.saturating_add(took))
        })
        .collect();
    times.sort_unstable();
    times.windows(2).any(|pair| pair[1].0 <= pair[0].1)
}

/// Simulates one link.
fn simulate(
    (run, paths, flows, alone): Known<'_>,
    (link, members): &(LinkId, Vec<(u32, u32)>),
) -> Result<(Delays, Work), Error> {
    let with_segment = members.iter().filter_map(|(flow, position)| {
        let segment = segment(run, paths, *flow as usize, *position as usize)?;
        Some((&run.flows[*flow as usize], segment))
    });
    let with_segment: Vec<(&Flow, Segment)> = with_segment.collect();
    let seed = Random::of(run.seed, OF_LINKS, (*link).into()).u64();
    let small = link::run(&run.network, seed, run.end + AFTERWARDS, &with_segment);
    let outcome = knee_sim::simulate(&small)?;
    let samples = members.iter().zip(&outcome.flows).map(|((flow, position), got)| {
        let (flow, position) = (*flow as usize, *position as usize);
        let least = alone.at(flows, flow, position, bytes(&run.flows[flow]));
        let delay = |took: Duration| i64::try_from(i128::from(took.ps()) - i128::from(least)).ok();
        Sample { pkts: flows.pkts[flow], delay_ps: got.completion_time().and_then(delay) }
    });
    Ok((Delays::new(samples.collect()), outcome.work))
}
