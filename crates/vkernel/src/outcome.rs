//! The records of a run, in the simulator's shape.

use knee_linux::side::{SideReport, flow_outcome};
use knee_linux::{TcpInfo, counts};
use knee_queue::time::{Duration, Time};
use knee_sim::Run;
use knee_sim::outcome::{GoodputSample, Outcome, PingRecord, QueueOutcome, QueueSample, RpcRecord};
use knee_sim::spec::Traffic;

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
        queues: queues(plan, &records.queues)?,
        flow_samples: flow_samples.collect(),
        queue_samples: each(plan, &records.queue_samples, queue_sample)?,
        goodput_samples: goodput.collect(),
        ..Outcome::default()
    })
}

/// Queues at the end, with what was lost before them.
fn queues(plan: &Plan, answers: &[QueueAnswer]) -> Result<Vec<QueueOutcome>, Error> {
    let mut queues: Vec<QueueOutcome> = Vec::new();
    for (queue, outcome) in
        each(plan, answers, |queue, at, figures| (queue, queue_outcome(queue, at, figures)))?
    {
        match queue.discipline {
            Discipline::Loss => {
                let before = queues.iter_mut().filter(|before| before.link == outcome.link);
                before.for_each(|before| before.lost_pkts = outcome.lost_pkts);
            }
            _ => queues.push(outcome),
        }
    }
    Ok(queues)
}

/// Makes something of each answer about a queue.
fn each<T>(
    plan: &Plan,
    answers: &[QueueAnswer],
    make: fn(SampledQueue, Time, &Figures) -> T,
) -> Result<Vec<T>, Error> {
    let of = |answer: &QueueAnswer| {
        let queue = *plan.queues.get(answer.queue as usize)?;
        let figures = figures(&answer.answer, queue.discipline)?;
        Some(make(queue, Time::from_ns(answer.at_ns), &figures))
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
