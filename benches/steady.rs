//! The share of packets that skipping steady states could save at most.
//!
//! Flows that share links, directly or through other flows, are coupled. While none of them starts or ends, their rates may
//! settle, and packets after that may be skipped. This runs an experiment in full, and prints the share of its data packets,
//! each times the links of its path, that lie in such intervals: 1 / (1 - share) bounds the speedup.
//!
//! `cargo bench -p knee-scenario --bench steady -- EXPERIMENT [KEY=VALUE]...`, with a path from the root of the clone. Keys are those of
//! `knee run --set`, and `cc`, `seed` and `period`: how often goodput is sampled, us.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::collections::HashSet;
use std::path::Path;

use knee_queue::time::Duration;
use knee_run::outcome::Outcome;
use knee_run::routes::Routes;
use knee_run::spec::{HEADER_BYTES, LinkId, Run};
use knee_scenario::{Experiment, Overrides};
use knee_units::Random;

/// Settling times, base RTTs of the longest path among coupled flows.
const SETTLING_RTTS: [u64; 4] = [0, 5, 20, 100];
/// A flow is steady once its goodput in so many periods in a row is within these shares of their mean, largest minus least.
const STEADY_PERIODS: usize = 5;
const STEADY_WITHIN: [f64; 3] = [0.05, 0.1, 0.2];

fn main() {
    std::env::set_current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap();
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let Some((file, keys)) = args.split_first() else {
        return println!(
            "steady: name an experiment: cargo bench -p knee-scenario --bench steady -- EXPERIMENT KEY=VALUE..."
        );
    };
    let own = |key: &str| keys.iter().find_map(|arg| arg.strip_prefix(&format!("{key}=")));
    let is_own = |arg: &&String| ["cc=", "seed=", "period="].iter().any(|key| arg.starts_with(key));
    let overrides = Overrides {
        cc: own("cc").map(str::to_owned).into_iter().collect(),
        seed: own("seed").map(|seed| seed.parse().unwrap()),
        set: keys.iter().filter(|arg| !is_own(arg)).cloned().collect(),
        repeat: Some(1),
        memory_bytes: Some(u64::MAX),
        ..Overrides::default()
    };
    let experiment = Experiment::load(Path::new(file), &overrides).unwrap();
    let period = Duration::from_us(own("period").map_or(50, |us| us.parse().unwrap()));
    for index in 0..experiment.runs() {
        let id = experiment.run_id(index);
        let mut run = experiment.run(id).unwrap();
        run.sampling.goodput = Some(period);
        println!("{}", experiment.describe(&experiment.row(id.configuration)));
        show(&run);
    }
}

fn show(run: &Run) {
    assert!(run.flows.iter().all(|flow| !flow.traffic.is_rpc()), "transfers and messages only");
    let network = &run.network;
    let is_by_hash = network.balance.is_empty() && network.changes.routes.is_empty();
    assert!(is_by_hash, "each flow must keep its path");
    let outcome = knee_sim::simulate(run).unwrap();
    let flows = flows(run, &outcome);
    println!(
        "  {} flows, {} data packets, {} events, base RTT {:.1} us",
        flows.len(),
        outcome.work.data_pkts,
        outcome.work.events,
        flows.iter().map(|flow| flow.rtt_ps).max().unwrap_or(0) as f64 / 1e6,
    );
    print!("  {:<14}", "coupled by");
    SETTLING_RTTS.iter().for_each(|rtts| print!(" {rtts:>4} RTT"));
    STEADY_WITHIN.iter().for_each(|within| print!(" {:>5} %", 100.0 * within));
    println!(" {:>12} {:>13}", "interval, us", "flows coupled");
    for coupling in [Coupling::All, Coupling::Data, Coupling::Contended] {
        let saved = Coupled::new(run, &flows, coupling).saved();
        print!("  {:<14}", format!("{coupling:?}"));
        saved.settled.iter().for_each(|share| print!(" {:>8.1}", 100.0 * share));
        saved.steady.iter().for_each(|share| print!(" {:>7.1}", 100.0 * share));
        println!(" {:>12.1} {:>13.1}", saved.interval_ps as f64 / 1e6, saved.coupled);
        if coupling == Coupling::Contended {
            continue;
        }
        for (errors, within) in saved.errors.into_iter().zip(STEADY_WITHIN) {
            let errors = Weighted(errors);
            let [p50, p90, p99] = [0.5, 0.9, 0.99].map(|q| 100.0 * errors.at(q).abs());
            let mean = 100.0 * errors.mean();
            println!(
                "    within {:.0} %, coupled flows' goodput in the rest is off by p50 {p50:.1}, p90 {p90:.1}, p99 {p99:.1}, mean {mean:+.2} %",
                100.0 * within
            );
        }
    }
}

/// When two flows are coupled.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Coupling {
    /// Their data or ACKs pass the same link.
    All,
    /// Their data pass the same link.
    Data,
    /// Their data pass the same link, and hosts' links together let more into it than it carries.
    Contended,
}

/// A flow of a run in full.
struct Flow {
    there: Vec<LinkId>,
    back: Vec<LinkId>,
    /// Propagation there and back, and a full packet and its ACK at each link.
    rtt_ps: u64,
    /// When it had something to send; apart by more than an RTT.
    busy: Vec<(u64, u64)>,
    /// Times and the payload received until then.
    received: Vec<(u64, u64)>,
}

impl Flow {
    /// Returns the payload received until a time, between two samples by a line.
    fn bytes(&self, at: u64) -> f64 {
        let next = self.received.partition_point(|(time, _)| *time <= at);
        let (t0, b0) = self.received[next.saturating_sub(1)];
        let Some((t1, b1)) = self.received.get(next).filter(|_| t0 <= at) else {
            return b0 as f64;
        };
        b0 as f64 + (b1 - b0) as f64 * (at - t0) as f64 / (t1 - t0) as f64
    }

    /// Returns the time in this interval from which its goodput is steady.
    fn steady_from(&self, (from, until): (u64, u64), within: f64, period: u64) -> Option<u64> {
        let ends = (from.div_ceil(period)..=until / period).map(|index| index * period);
        let ends: Vec<u64> = ends.collect();
        let goodput: Vec<f64> =
            ends.windows(2).map(|pair| self.bytes(pair[1]) - self.bytes(pair[0])).collect();
        let is_steady = |some: &[f64]| {
            let (least, most) = some.iter().fold((f64::MAX, 0.0_f64), |(least, most), bytes| {
                (least.min(*bytes), most.max(*bytes))
            });
            let sum: f64 = some.iter().sum();
            sum > 0.0 && (most - least) * some.len() as f64 <= within * sum
        };
        let first = goodput.windows(STEADY_PERIODS).position(is_steady)?;
        Some(ends[first + STEADY_PERIODS])
    }
}

/// Returns the hash of each flow, from the same draws as the simulator's.
fn hashes(run: &Run) -> Vec<u64> {
    let mut random = Random::new(run.seed);
    let mut draw = || random.u64();
    for host in run.network.nodes.iter().filter_map(|node| node.host.as_ref()) {
        draw();
        if host.jiffies_at_start.is_none() {
            draw();
        }
    }
    run.flows.iter().map(|_| draw()).collect()
}

fn flows(run: &Run, outcome: &Outcome) -> Vec<Flow> {
    let hashes = hashes(run);
    let mut routes = Routes::new(&run.network);
    let time_of = |links: &[LinkId], frame_bytes| -> u64 {
        let links = links.iter().map(|link| &run.network.links[*link as usize]);
        let times =
            links.map(|link| link.delay.ps() + link.time_of(frame_bytes).map_or(0, |t| t.ps()));
        times.sum()
    };
    let mut all: Vec<Flow> = run
        .flows
        .iter()
        .enumerate()
        .map(|(index, flow)| {
            let mut path = |from, to| routes.path(from, to, hashes[index]).unwrap();
            let (there, back) = (path(flow.from, flow.to), path(flow.to, flow.from));
            let host = run.network.nodes[flow.from as usize].host.as_ref();
            let frame_bytes = host.map_or(0, |host| host.mss_bytes()) + HEADER_BYTES;
            let rtt_ps = time_of(&there, frame_bytes) + time_of(&back, HEADER_BYTES);
            let got = &outcome.flows[index];
            let start = got.connected_at.map_or(outcome.end.ps(), |at| at.ps());
            let received = vec![(start, 0)];
            Flow { there, back, rtt_ps, busy: Vec::new(), received }
        })
        .collect();
    for sample in &outcome.goodput_samples {
        let received = &mut all[sample.flow as usize].received;
        let (at, bytes) = received[received.len() - 1];
        if sample.bytes > 0 && sample.at.ps() > at {
            // Nothing came in the periods before this one.
            let period = run.sampling.goodput.map_or(0, Duration::ps);
            if sample.at.ps() - at > period {
                received.push((sample.at.ps() - period, bytes));
            }
            received.push((sample.at.ps(), bytes + sample.bytes));
        }
    }
    let mut messages: Vec<Vec<(u64, u64)>> = vec![Vec::new(); all.len()];
    for message in &outcome.messages {
        let flow = run.schedule.tasks[message.task as usize].flow.unwrap();
        messages[flow as usize].push((message.start.ps(), message.done.ps()));
    }
    for ((flow, got), mut messages) in all.iter_mut().zip(&outcome.flows).zip(messages) {
        let start = flow.received[0].0;
        let end = got.done_at.or(got.stopped_at).unwrap_or(outcome.end).ps();
        let (at, bytes) = flow.received[flow.received.len() - 1];
        if end > at && got.received_bytes > bytes {
            flow.received.push((end, got.received_bytes));
        }
        messages.sort_unstable();
        if messages.is_empty() && end > start {
            messages.push((start, end));
        }
        for (from, until) in messages {
            match flow.busy.last_mut() {
                Some((_, last)) if from <= *last + flow.rtt_ps => *last = until.max(*last),
                _ => flow.busy.push((from, until)),
            }
        }
    }
    all
}

/// What could be saved, as shares.
#[derive(Default)]
struct Saved {
    /// By [`SETTLING_RTTS`].
    settled: [f64; 4],
    /// By [`STEADY_WITHIN`].
    steady: [f64; 3],
    /// Likewise, by coupled flow and interval: how far the goodput of the steady periods is from that of the rest, a share, and the
    /// packets of the rest.
    errors: [Vec<(f64, f64)>; 3],
    /// Half of all packets lie in intervals without a change that are at most so long.
    interval_ps: u64,
    /// Flows that a change concerns, a mean.
    coupled: f64,
}

/// A start or end of a flow, for each flow that is coupled to it.
#[derive(Clone, Copy)]
struct Change {
    at: u64,
    /// The longest among the flows that are coupled then.
    rtt: u64,
    /// Whether no other flow is left.
    is_alone: bool,
}

/// Values with weights.
struct Weighted(Vec<(f64, f64)>);

impl Weighted {
    /// Returns the value, regardless of its sign, up to which this share of the weight lies; 0 without any.
    fn at(&self, share: f64) -> f64 {
        let mut all: Vec<(f64, f64)> =
            self.0.iter().map(|(value, of)| (value.abs(), *of)).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut left = share * all.iter().map(|(_, of)| of).sum::<f64>();
        let found = all.iter().find(|(_, of)| {
            left -= of;
            left <= 0.0
        });
        found.or(all.last()).map_or(0.0, |(value, _)| *value)
    }

    fn mean(&self) -> f64 {
        let all: f64 = self.0.iter().map(|(_, of)| of).sum();
        self.0.iter().map(|(value, of)| value * of).sum::<f64>() / all.max(f64::MIN_POSITIVE)
    }
}

/// The flows that are busy, and how they are coupled.
struct Coupled<'a> {
    run: &'a Run,
    flows: &'a [Flow],
    coupling: Coupling,
    /// By link: the busy flows that pass it.
    on: Vec<Vec<u32>>,
    /// The search that saw each link, and each flow.
    links_seen: Vec<u32>,
    flows_seen: Vec<u32>,
    search: u32,
}

impl<'a> Coupled<'a> {
    fn new(run: &'a Run, flows: &'a [Flow], coupling: Coupling) -> Coupled<'a> {
        let links = run.network.links.len();
        Coupled {
            run,
            flows,
            coupling,
            on: vec![Vec::new(); links],
            links_seen: vec![0; links],
            flows_seen: vec![0; flows.len()],
            search: 0,
        }
    }

    fn links(&self, flow: u32) -> impl Iterator<Item = LinkId> + 'a {
        let flow = &self.flows[flow as usize];
        let back = if self.coupling == Coupling::All { flow.back.as_slice() } else { &[] };
        flow.there.iter().chain(back).copied()
    }

    /// Whether a link couples the flows on it.
    fn couples(&self, link: LinkId) -> bool {
        let on = &self.on[link as usize];
        if self.coupling != Coupling::Contended || on.len() < 2 {
            return true;
        }
        let rate_of = |link: LinkId| self.run.network.links[link as usize].rate;
        let Some(rate) = rate_of(link) else { return false };
        let first: HashSet<LinkId> =
            on.iter().map(|flow| self.flows[*flow as usize].there[0]).collect();
        let into = first.iter().map(|first| rate_of(*first).map_or(u64::MAX, |rate| rate.bps()));
        first.contains(&link) || into.fold(0, u64::saturating_add) > rate.bps()
    }

    /// Returns the flows that are coupled to a flow, and itself.
    fn with(&mut self, flow: u32) -> Vec<u32> {
        self.search += 1;
        self.flows_seen[flow as usize] = self.search;
        let mut all = vec![flow];
        let mut next = 0;
        while let Some(flow) = all.get(next).copied() {
            next += 1;
            for link in self.links(flow) {
                if self.links_seen[link as usize] == self.search {
                    continue;
                }
                self.links_seen[link as usize] = self.search;
                if !self.couples(link) {
                    continue;
                }
                for &other in &self.on[link as usize] {
                    if self.flows_seen[other as usize] != self.search {
                        self.flows_seen[other as usize] = self.search;
                        all.push(other);
                    }
                }
            }
        }
        all
    }

    fn saved(mut self) -> Saved {
        let spells = self.flows.iter().zip(0..);
        let spells = spells.flat_map(|(flow, index)| flow.busy.iter().map(move |it| (*it, index)));
        // At one time those that end come first.
        let mut changes: Vec<(u64, bool, u32)> = spells
            .flat_map(|((from, until), index)| [(from, true, index), (until, false, index)])
            .collect();
        changes.sort_unstable();
        let mut saved = Saved::default();
        // By flow: the last change that concerned it.
        let mut last: Vec<Option<Change>> = vec![None; self.flows.len()];
        let mut intervals: Vec<(f64, f64)> = Vec::new();
        for &(at, starts, flow) in &changes {
            if starts {
                let links: Vec<LinkId> = self.links(flow).collect();
                links.iter().for_each(|link| self.on[*link as usize].push(flow));
            }
            let with = self.with(flow);
            saved.coupled += with.len() as f64 / changes.len() as f64;
            let rtt = with.iter().map(|flow| self.flows[*flow as usize].rtt_ps).max().unwrap_or(0);
            for &other in &with {
                if let Some(change) = last[other as usize] {
                    intervals.push(self.add(change, at, other, &mut saved));
                }
                let coupled = with.len() - usize::from(!starts);
                last[other as usize] = Some(Change { at, rtt, is_alone: coupled == 1 });
            }
            if !starts {
                last[flow as usize] = None;
                let links: Vec<LinkId> = self.links(flow).collect();
                links.iter().for_each(|link| self.on[*link as usize].retain(|it| *it != flow));
            }
        }
        let work =
            |flow: &Flow| flow.received[flow.received.len() - 1].1 as f64 * flow.there.len() as f64;
        let all: f64 = self.flows.iter().map(work).sum();
        saved.settled.iter_mut().chain(&mut saved.steady).for_each(|share| *share /= all);
        saved.interval_ps = Weighted(intervals).at(0.5) as u64;
        saved
    }

    /// Adds what could be saved of a flow in an interval without a change. Returns its length, and all of its packets.
    fn add(&self, last: Change, until: u64, flow: u32, saved: &mut Saved) -> (f64, f64) {
        let from = last.at;
        let flow = &self.flows[flow as usize];
        let after = |start: u64| match start < until {
            true => (flow.bytes(until) - flow.bytes(start)) * flow.there.len() as f64,
            false => 0.0,
        };
        for (share, rtts) in saved.settled.iter_mut().zip(SETTLING_RTTS) {
            *share += after(from + rtts * last.rtt);
        }
        let period = self.run.sampling.goodput.map_or(u64::MAX, Duration::ps);
        for (index, within) in STEADY_WITHIN.into_iter().enumerate() {
            let Some(steady) = flow.steady_from((from, until), within, period) else { continue };
            let rest = after(steady);
            saved.steady[index] += rest;
            let known = STEADY_PERIODS as u64 * period;
            let goodput = (flow.bytes(steady) - flow.bytes(steady - known)) / known as f64;
            if rest > 0.0 && !last.is_alone {
                let expected = goodput * (until - steady) as f64 * flow.there.len() as f64;
                saved.errors[index].push((expected / rest - 1.0, rest));
            }
        }
        ((until - from) as f64, after(from))
    }
}
