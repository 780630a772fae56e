//! The links that carry flows, and two rounds of simulations of each.
//!
//! In the first round every flow comes to a link as fast as its hosts and the rest of its path allow when they carry
//! nothing else. In the second round a flow that another link holds up is paced: as many times more slowly as it takes longer
//! there than alone.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use knee_queue::time::{Duration, Rate};
use knee_run::Error;
use knee_run::outcome::{FlowOutcome, Work};
use knee_run::spec::{Flow, LinkId};

use crate::known::{AFTERWARDS, Known, OF_LINKS, bytes};
use crate::random::Random;
use crate::said::{Said, SaidOnce};
use crate::{link, parallel};

/// The time of a flow that does not complete.
pub(crate) const UNFINISHED: u64 = u64::MAX;
/// A link holds a flow up if the flow takes more than this times as long there as alone at any link. Below, to pace it would
/// change little at other links, and most of them would be simulated again.
const HELD_UP: f64 = 1.1;

/// Links that carry flows.
pub(crate) struct Links<'a> {
    known: Known<'a>,
    /// Each with its flows and their positions on it.
    links: Vec<(LinkId, Vec<(u32, u32)>)>,
    /// Those on which flows meet, as indices. On the others each takes the time that it takes alone.
    meeting: Vec<usize>,
}

/// What the simulations of all links say.
#[derive(Clone, Default)]
pub(crate) struct Round {
    /// Times of each flow at the links of its path, ps; [`UNFINISHED`] if it does not complete.
    times: Vec<Box<[u64]>>,
    /// By link of the network: when its flows start, and how long the SYN of each waits there, ps; ascending.
    syn_waits: Vec<Vec<(u64, u64)>>,
    /// What was said at links, where anything was.
    said: BTreeMap<LinkId, Said>,
    pub(crate) work: Work,
    /// Number of simulations.
    pub(crate) simulated: usize,
}

impl<'a> Links<'a> {
    pub(crate) fn new(known: Known<'a>) -> Links<'a> {
        let mut of: Vec<Vec<(u32, u32)>> = vec![Vec::new(); known.run.network.links.len()];
        for flow in 0..known.run.flows.len() {
            for (position, link) in known.paths.there(flow).iter().enumerate() {
                of[*link as usize].push((flow as u32, position as u32));
            }
        }
        let links: Vec<_> = (0..).zip(of).filter(|(_, members)| !members.is_empty()).collect();
        let do_meet = |index: &usize| do_meet(known, &links[*index].1);
        let meeting = (0..links.len()).filter(do_meet).collect();
        Links { known, links, meeting }
    }

    pub(crate) fn count(&self) -> usize {
        self.links.len()
    }

    /// Simulates each link on which flows meet.
    pub(crate) fn first(&self, threads: usize, stop: &AtomicBool) -> Result<Round, Error> {
        let Known { run, paths, .. } = self.known;
        let alone =
            |flow| (0..paths.there(flow).len()).map(|at| self.known.alone_ps(flow, at)).collect();
        let round = Round {
            times: (0..run.flows.len()).map(alone).collect(),
            syn_waits: vec![Vec::new(); run.network.links.len()],
            ..Round::default()
        };
        self.round(self.meeting.clone(), round, |_, _| None, (threads, stop))
    }

    /// Simulates each link again that has flows which other links held up in the first round.
    pub(crate) fn second(
        &self,
        first: &Round,
        threads: usize,
        stop: &AtomicBool,
    ) -> Result<Round, Error> {
        let pace = |flow, position| first.pace(self.known, flow, position);
        let is_paced = |(flow, at): &(u32, u32)| pace(*flow as usize, *at as usize).is_some();
        let is_other = |index: &usize| self.links[*index].1.iter().any(is_paced);
        let others = self.meeting.iter().copied().filter(is_other).collect();
        let before = Round { work: Work::default(), simulated: 0, ..first.clone() };
        self.round(others, before, pace, (threads, stop))
    }

    /// Simulates these links, and replaces what an earlier round says of them. `pace` limits a flow at a position.
    fn round(
        &self,
        mut links: Vec<usize>,
        mut round: Round,
        pace: impl Fn(usize, usize) -> Option<Rate> + Sync,
        (threads, stop): (usize, &AtomicBool),
    ) -> Result<Round, Error> {
        let Known { run, .. } = self.known;
        // The largest first, or one thread would work alone at the end.
        links.sort_by_cached_key(|link| {
            let members = self.links[*link].1.iter();
            let bytes = members.map(|(flow, _)| u128::from(bytes(&run.flows[*flow as usize])));
            std::cmp::Reverse(bytes.sum::<u128>())
        });
        let done = parallel::map(threads, links.len(), stop, |index| {
            self.simulate(links[index], &pace, stop)
        })?;
        round.simulated = links.len();
        for (index, (flows, said, work)) in links.into_iter().zip(done) {
            let (link, members) = &self.links[index];
            round.said.remove(link);
            if !said.is_empty() {
                round.said.insert(*link, said);
            }
            round.work.events += work.events;
            round.work.data_pkts += work.data_pkts;
            round.work.pkt_hops += work.pkt_hops;
            let waits = &mut round.syn_waits[*link as usize];
            waits.clear();
            for ((flow, position), of_flow) in members.iter().zip(flows) {
                round.times[*flow as usize][*position as usize] = of_flow.took_ps;
                let start_ps = run.flows[*flow as usize].start.ps();
                waits.extend(of_flow.syn_waited_ps.map(|waited| (start_ps, waited)));
            }
            waits.sort_unstable();
        }
        Ok(round)
    }

    /// Simulates one link.
    fn simulate(
        &self,
        link: usize,
        pace: impl Fn(usize, usize) -> Option<Rate>,
        stop: &AtomicBool,
    ) -> Result<(Vec<AtLink>, Said, Work), Error> {
        let Known { run, .. } = self.known;
        let (link, members) = &self.links[link];
        let flows: Vec<Flow> = members
            .iter()
            .map(|(flow, position)| {
                let pace = pace(*flow as usize, *position as usize);
                let flow = run.flows[*flow as usize].clone();
                let slowest =
                    pace.into_iter().chain(flow.max_pacing_rate).min_by_key(|rate| rate.bps());
                Flow { max_pacing_rate: slowest, ..flow }
            })
            .collect();
        let segments = members.iter().zip(&flows).map(|((flow, position), spec)| {
            (spec, self.known.segment(*flow as usize, *position as usize))
        });
        let segments: Vec<_> = segments.collect();
        let seed = Random::of(run.seed, OF_LINKS, (*link).into()).u64();
        let made = link::run(&run.network, seed, run.end + AFTERWARDS, &segments);
        let mut outcome = knee_sim::simulate_until(&made, stop)?;
        let numbers: Vec<usize> = members.iter().map(|(flow, _)| *flow as usize).collect();
        let said = Said::of(&mut outcome, &made, run, &numbers);
        let at_link = |((flow, position), got): (&(u32, u32), &FlowOutcome)| {
            let established =
                got.established_at.map(|at| at.since(run.flows[*flow as usize].start));
            let alone_ps = self.known.established_ps(*flow as usize, *position as usize);
            AtLink {
                took_ps: got.completion_time().map_or(UNFINISHED, Duration::ps),
                syn_waited_ps: established
                    .zip(alone_ps)
                    .map(|(took, alone_ps)| took.ps().saturating_sub(alone_ps)),
            }
        };
        Ok((members.iter().zip(&outcome.flows).map(at_link).collect(), said, outcome.work))
    }

    /// Returns what the last simulation of each link said, and of flows that meet no others, what they say alone.
    pub(crate) fn said(&self, last: &Round) -> SaidOnce {
        let Known { run, flows, alone, .. } = self.known;
        let mut all = SaidOnce::default();
        last.said.values().for_each(|said| all.add(said));
        let mut do_meet = vec![false; run.flows.len()];
        let members = self.meeting.iter().flat_map(|link| &self.links[*link].1);
        members.for_each(|(flow, _)| do_meet[*flow as usize] = true);
        for flow in (0..run.flows.len()).filter(|flow| !do_meet[*flow]) {
            alone.said(run, flows, flow).iter().for_each(|said| all.add(said));
        }
        all
    }
}

/// Returns whether any two flows of a link are there at the same time, by their times alone.
fn do_meet(known: Known<'_>, members: &[(u32, u32)]) -> bool {
    let time = |(flow, position): &(u32, u32)| {
        let start = known.run.flows[*flow as usize].start.ps();
        let took = known.alone_ps(*flow as usize, *position as usize);
        (start, start.saturating_add(took))
    };
    let mut times: Vec<(u64, u64)> = members.iter().map(time).collect();
    times.sort_unstable();
    times.windows(2).any(|pair| pair[1].0 <= pair[0].1)
}

/// A flow at a link.
struct AtLink {
    took_ps: u64,
    /// `None`: it was not established.
    syn_waited_ps: Option<u64>,
}

impl Round {
    /// Returns the time of a flow at the link at this position of its path, ps.
    pub(crate) fn time_ps(&self, flow: usize, position: usize) -> u64 {
        self.times[flow][position]
    }

    /// Returns the position at which a flow is held up most, and its time there, ps. `None`: no link holds it up, or it has
    /// no more packets than leave without an ACK.
    pub(crate) fn bottleneck(&self, known: Known<'_>, flow: usize) -> Option<(usize, u64)> {
        self.bottleneck_but(known, flow, None)
    }

    fn bottleneck_but(
        &self,
        known: Known<'_>,
        flow: usize,
        but: Option<usize>,
    ) -> Option<(usize, u64)> {
        if !known.waits_for_acks(flow) {
            return None;
        }
        let times = self.times[flow].iter().copied().enumerate();
        let others = times.filter(|(position, _)| Some(*position) != but);
        let (position, took_ps) = others.max_by_key(|(_, took_ps)| *took_ps)?;
        let held_up_ps = HELD_UP * known.slowest_alone_ps(flow) as f64;
        (took_ps as f64 > held_up_ps).then_some((position, took_ps))
    }

    /// Returns the pace at which other links let a flow come to the one at this position.
    fn pace(&self, known: Known<'_>, flow: usize, position: usize) -> Option<Rate> {
        let (_, took_ps) = self.bottleneck_but(known, flow, Some(position))?;
        // One that does not complete takes as long at least as it was simulated.
        let took_ps = took_ps.min((known.run.end + AFTERWARDS).ps());
        let share = known.slowest_alone_ps(flow) as f64 / took_ps as f64;
        Rate::from_bps((known.rate(flow)?.bps() as f64 * share) as u64)
    }

    /// Returns how long a flow's SYN-ACK waits on its way back, ps: at each link as long as the SYN of the flow there that
    /// started closest in time. SYNs come at random times, so they find what any packet finds.
    pub(crate) fn wait_back_ps(&self, known: Known<'_>, flow: usize) -> u64 {
        let start_ps = known.run.flows[flow].start.ps();
        let waited = |link: &LinkId| {
            let waits = &self.syn_waits[*link as usize];
            let after = waits.partition_point(|(at, _)| *at < start_ps);
            let around = &waits[after.saturating_sub(1)..waits.len().min(after + 1)];
            around
                .iter()
                .min_by_key(|(at, _)| at.abs_diff(start_ps))
                .map_or(0, |(_, waited)| *waited)
        };
        known.paths.back(flow).iter().map(waited).fold(0, u64::saturating_add)
    }
}
