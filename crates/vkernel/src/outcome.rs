//! The records of a run, in the simulator's shape.

use knee_linux::side::{SideReport, flow_outcome};
use knee_linux::{TcpInfo, counts};
use knee_queue::time::{Duration, Time};
use knee_sim::Run;
use knee_sim::outcome::{GoodputSample, Outcome, PingRecord, QueueOutcome, QueueSample, RpcRecord};
use knee_sim::spec::{SharedBuffer, Traffic};

use crate::Error;
use crate::guest::{QueueAnswer, Records};
use crate::plan::{Discipline, Figures, Plan, SampledQueue, figures};

/// Everything that a guest has told, put together. What nobody measured is absent.
///
/// # Errors
/// An answer of the kernel that is not what it should be.
pub(crate) fn assemble(run: &Run, plan: &Plan, records: &Records) -> Result<Outcome, Error> {
    let at = Time::from_ns;
    let own_name = |name: &str| plan.names.own_name(name);
    let mut sides: Vec<[Option<&SideReport>; 2]> = vec![[None; 2]; run.flows.len()];
    for side in &records.sides {
        if let Some(of_flow) = sides.get_mut(side.flow as usize) {
            of_flow[usize::from(side.listens)] = Some(side);
        }
    }
    let flows = run.flows.iter().zip(&sides).map(|(flow, [client, server])| {
        let is_rpc = matches!(flow.traffic, Traffic::Rpc { .. });
        flow_outcome(is_rpc, &own_name, *client, *server)
    });
    let rpcs = records.rpcs.iter().map(|(flow, start_ns, latency_ns)| RpcRecord {
        flow: *flow,
        start: at(*start_ns),
        latency: Duration::from_ns(*latency_ns),
        timeouts: None,
    });
    let pings = records.pings.iter().map(|(ping, sent_ns, rtt_ns)| PingRecord {
        ping: *ping,
        sent: at(*sent_ns),
        rtt: rtt_ns.map(Duration::from_ns),
    });
    let flow_samples = records.flow_samples.iter().filter_map(|sample| {
        let inside = sample.inside.clone();
        TcpInfo::new(&sample.info).flow_sample(at(sample.at_ns), sample.flow, inside)
    });
    let goodput = records.goodput_samples.iter().map(|(at_ns, flow, bytes)| GoodputSample {
        at: at(*at_ns),
        flow: *flow,
        bytes: *bytes,
    });
    let hosts = plan.hosts.iter().zip(&records.counts);
    Ok(Outcome {
        end: at(records.end_ns),
        flows: flows.collect(),
        host_counts: hosts
            .map(|(node, [before, after])| counts::host_count(*node, before, after))
            .collect(),
        rpcs: rpcs.collect(),
        pings: pings.collect(),
        queues: queues(run, &known(plan, &records.queues)?),
        flow_samples: flow_samples.collect(),
        queue_samples: queue_samples(run, &known(plan, &records.queue_samples)?),
        goodput_samples: goodput.collect(),
        ..Outcome::default()
    })
}

/// What is known of a queue at a time: what waits in it, and what has become of all that was to come there.
type Known = (SampledQueue, Time, Figures);

/// Answers about queues, each with what was lost and refused before it.
fn known(plan: &Plan, answers: &[QueueAnswer]) -> Result<Vec<Known>, Error> {
    let mut all: Vec<Known> = Vec::new();
    for (queue, at, figures) in each(plan, answers)? {
        match all.last_mut() {
            // The device above is asked after the queue.
            Some((before, _, known))
                if queue.discipline == Discipline::Entry && before.link == queue.link =>
            {
                known.lost_pkts = figures.lost_pkts;
                known.refused_pkts = figures.refused_pkts;
                known.dropped_pkts += figures.refused_pkts;
            }
            _ => all.push((queue, at, figures)),
        }
    }
    Ok(all)
}

/// Queues at the end, then memories.
fn queues(run: &Run, known: &[Known]) -> Vec<QueueOutcome> {
    let all: Vec<_> =
        known.iter().map(|(queue, at, figures)| queue_outcome(*queue, *at, figures)).collect();
    let reported = known.iter().zip(&all).filter(|((queue, ..), _)| queue.is_reported);
    let reported = reported.map(|(_, outcome)| outcome.clone());
    let memories = memories(run).map(|(number, memory)| {
        let mut sum = QueueOutcome { link: number, ..QueueOutcome::default() };
        for of_link in all.iter().filter(|outcome| memory.links.contains(&outcome.link)) {
            sum.offered_pkts += of_link.offered_pkts;
            sum.sent_pkts += of_link.sent_pkts;
            sum.sent_bytes += of_link.sent_bytes;
            sum.marked_pkts += of_link.marked_pkts;
            sum.threshold_hits += of_link.threshold_hits;
            sum.dropped_full_pkts += of_link.dropped_full_pkts;
            sum.dropped_not_ect_pkts += of_link.dropped_not_ect_pkts;
            sum.dropped_early_pkts += of_link.dropped_early_pkts;
            sum.lost_pkts += of_link.lost_pkts;
        }
        sum
    });
    reported.chain(memories).collect()
}

/// Samples of queues, and at each time of memories behind them.
fn queue_samples(run: &Run, known: &[Known]) -> Vec<QueueSample> {
    let mut samples = Vec::new();
    for of_time in known.chunk_by(|a, b| a.1 == b.1) {
        let all: Vec<_> =
            of_time.iter().map(|(queue, at, figures)| queue_sample(*queue, *at, figures)).collect();
        let reported = of_time.iter().zip(&all).filter(|((queue, ..), _)| queue.is_reported);
        samples.extend(reported.map(|(_, sample)| sample.clone()));
        samples.extend(memories(run).map(|(number, memory)| {
            let of_memory = || all.iter().filter(|sample| memory.links.contains(&sample.link));
            QueueSample {
                at: of_time[0].1,
                link: number,
                part: None,
                len_pkts: of_memory().map(|sample| sample.len_pkts).sum(),
                len_bytes: of_memory().map(|sample| sample.len_bytes).sum(),
                dropped_pkts: of_memory().map(|sample| sample.dropped_pkts).sum(),
                threshold_hits: of_memory().map(|sample| sample.threshold_hits).sum(),
                drop_probability: None,
                qdelay: None,
            }
        }));
    }
    samples
}

/// Memories that are in results, with their numbers, which are behind those of links.
fn memories(run: &Run) -> impl Iterator<Item = (u32, &SharedBuffer)> {
    let first = run.network.links.len() as u32;
    (first..).zip(&run.network.buffers).filter(|(_, memory)| memory.sampled)
}

/// Each answer about a queue, read.
fn each(plan: &Plan, answers: &[QueueAnswer]) -> Result<Vec<Known>, Error> {
    let of = |answer: &QueueAnswer| {
        let queue = *plan.queues.get(answer.queue as usize)?;
        let figures = figures(&answer.answer, queue.discipline)?;
        Some((queue, Time::from_ns(answer.at_ns), figures))
    };
    let all = answers.iter().map(|answer| {
        of(answer).ok_or_else(|| {
            Error("the guest's kernel tells of a queue what nobody knows".to_owned())
        })
    });
    all.collect()
}

fn queue_outcome(queue: SampledQueue, _at: Time, figures: &Figures) -> QueueOutcome {
    let early = figures.dropped_early_pkts;
    let is_step = queue.discipline == Discipline::Step;
    QueueOutcome {
        link: queue.link,
        offered_pkts: figures.sent_pkts + u64::from(figures.len_pkts) + figures.dropped_pkts,
        sent_pkts: figures.sent_pkts,
        sent_bytes: figures.sent_bytes,
        marked_pkts: figures.marked_pkts,
        threshold_hits: figures.threshold_hits,
        dropped_full_pkts: figures.dropped_pkts.saturating_sub(early),
        dropped_not_ect_pkts: if is_step { early } else { 0 },
        dropped_early_pkts: if is_step { 0 } else { early },
        lost_pkts: figures.lost_pkts,
        ..QueueOutcome::default()
    }
}

fn queue_sample(queue: SampledQueue, at: Time, figures: &Figures) -> QueueSample {
    QueueSample {
        at,
        link: queue.link,
        part: None,
        len_pkts: figures.len_pkts,
        len_bytes: figures.len_bytes.into(),
        dropped_pkts: figures.dropped_pkts,
        threshold_hits: figures.threshold_hits,
        drop_probability: figures.drop_probability,
        qdelay: figures.qdelay,
    }
}
