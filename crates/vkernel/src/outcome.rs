//! Assembles a run's records in the simulator's form.

use knee_linux::applications;
use knee_linux::counts::{Mib, add_pairs, host_count};
use knee_queue::time::Time;
use knee_run::Run;
use knee_run::outcome::{Outcome, QueueOutcome, QueueSample};
use knee_run::spec::{LinkId, SharedBuffer};
use knee_traffic::Moment;

use crate::Error;
use crate::guest::{QueueAnswer, Records};
use crate::plan::{Discipline, Figures, Plan, SampledQueue, figures};

/// Combines all records of a guest into an outcome. Values that were not measured are absent.
///
/// # Errors
/// Fails if an answer of the kernel is malformed.
pub(crate) fn assemble(run: &Run, plan: &Plan, records: &Records) -> Result<Outcome, Error> {
    let at = |moment| {
        let answers = records.queues.iter().filter(|answer| answer.moment == moment);
        known(plan, &answers.collect::<Vec<_>>())
    };
    let of_window = [at(Moment::WindowBegin)?, at(Moment::WindowEnd)?];
    let of_window = of_window.map(|known| queues(run, &known));
    let own_name = |name: &str| plan.chosen.own_name(name);
    let mut counts = vec![<[Mib; 2]>::default(); plan.hosts.len()];
    for (host, is_last, text) in &records.counts {
        if let Some(of_host) = counts.get_mut(*host as usize) {
            add_pairs(&mut of_host[usize::from(*is_last)], &String::from_utf8_lossy(text));
        }
    }
    let hosts = plan.hosts.iter().zip(&counts);
    Ok(Outcome {
        host_counts: hosts
            .map(|(node, [before, after])| host_count(*node, before, after))
            .collect(),
        queues: queues(run, &at(Moment::End)?),
        queue_samples: queue_samples(run, &at(Moment::Sample)?),
        ..applications::outcome(run, &own_name, &records.traffic, Some(of_window))
    })
}

/// State of a link's queue at one time.
struct Known {
    queue: SampledQueue,
    at: Time,
    /// Figures of the queue, or of each of its classes in order.
    parts: Vec<(SampledQueue, Figures)>,
    /// Figures of the entry device above the queue: random losses, and packets refused for lack of shared memory.
    entry: Figures,
}

/// Groups the answers by link and time.
fn known(plan: &Plan, answers: &[&QueueAnswer]) -> Result<Vec<Known>, Error> {
    let mut all: Vec<Known> = Vec::new();
    for (queue, at, figures) in each(plan, answers)? {
        let is_next = |before: &&mut Known| (before.queue.link, before.at) == (queue.link, at);
        match all.last_mut().filter(is_next) {
            Some(before) if queue.discipline == Discipline::Entry => before.entry = figures,
            Some(before) => before.parts.push((queue, figures)),
            None => {
                let (parts, entry) = (vec![(queue, figures)], Figures::default());
                all.push(Known { queue, at, parts, entry });
            }
        }
    }
    Ok(all)
}

impl Known {
    /// Returns the outcomes of the queue, then of its classes.
    fn outcomes(&self) -> Vec<QueueOutcome> {
        let parts = self.parts.iter().map(|(queue, figures)| queue_outcome(*queue, figures));
        let parts: Vec<QueueOutcome> = parts.collect();
        let mut own = sum(self.queue.link, parts.iter());
        own.lost_pkts += self.entry.lost_pkts;
        own.offered_pkts += self.entry.refused_pkts;
        own.dropped_full_pkts += self.entry.refused_pkts;
        let parts = parts.into_iter().filter(|part| part.part.is_some());
        std::iter::once(own).chain(parts).collect()
    }

    /// Returns the samples of the queue, then of its classes.
    fn samples(&self) -> Vec<QueueSample> {
        let at = self.at;
        let parts = self.parts.iter().map(|(queue, figures)| queue_sample(*queue, at, figures));
        let mut parts: Vec<QueueSample> = parts.collect();
        if self.queue.part.is_some() {
            let own = sum_of_samples(self.queue.link, at, parts.iter());
            parts.insert(0, own);
        }
        parts[0].dropped_pkts += self.entry.refused_pkts;
        parts
    }
}

/// Sums the outcomes of several queues into one.
fn sum<'a>(link: LinkId, parts: impl Iterator<Item = &'a QueueOutcome>) -> QueueOutcome {
    let threshold_hits = Some(0);
    let mut sum = QueueOutcome { link, threshold_hits, ..QueueOutcome::default() };
    parts.for_each(|part| sum.add(part));
    sum
}

/// Sums the backlogs of several queues into one sample.
fn sum_of_samples<'a>(
    link: LinkId,
    at: Time,
    parts: impl Iterator<Item = &'a QueueSample> + Clone,
) -> QueueSample {
    QueueSample {
        at,
        link,
        part: None,
        len_pkts: parts.clone().map(|part| part.len_pkts).sum(),
        len_bytes: parts.clone().map(|part| part.len_bytes).sum(),
        dropped_pkts: parts.clone().map(|part| part.dropped_pkts).sum(),
        threshold_hits: parts.map(|part| part.threshold_hits).sum(),
        drop_probability: None,
        qdelay: None,
    }
}

/// Returns the queues' outcomes at the end of the run, then those of shared memories.
fn queues(run: &Run, known: &[Known]) -> Vec<QueueOutcome> {
    let all: Vec<QueueOutcome> = known.iter().flat_map(Known::outcomes).collect();
    let reported = known.iter().filter(|of_link| of_link.queue.is_reported);
    let memories = memories(run).map(|(number, memory)| {
        let is_in =
            |queue: &&QueueOutcome| queue.part.is_none() && memory.links.contains(&queue.link);
        sum(number, all.iter().filter(is_in))
    });
    reported.flat_map(Known::outcomes).chain(memories).collect()
}

/// Returns the queues' samples, and at each time those of shared memories after them.
fn queue_samples(run: &Run, known: &[Known]) -> Vec<QueueSample> {
    let mut samples = Vec::new();
    for of_time in known.chunk_by(|a, b| a.at == b.at) {
        let all: Vec<QueueSample> = of_time.iter().flat_map(Known::samples).collect();
        let reported = of_time.iter().filter(|of_link| of_link.queue.is_reported);
        samples.extend(reported.flat_map(Known::samples));
        samples.extend(memories(run).map(|(number, memory)| {
            let is_in =
                |queue: &&QueueSample| queue.part.is_none() && memory.links.contains(&queue.link);
            sum_of_samples(number, of_time[0].at, all.iter().filter(is_in))
        }));
    }
    samples
}

/// Returns the shared memories in results, with their numbers, which follow those of links.
fn memories(run: &Run) -> impl Iterator<Item = (u32, &SharedBuffer)> {
    let first = run.network.links.len() as u32;
    (first..).zip(&run.network.buffers).filter(|(_, memory)| memory.sampled)
}

/// Parses each answer about a queue.
fn each(
    plan: &Plan,
    answers: &[&QueueAnswer],
) -> Result<Vec<(SampledQueue, Time, Figures)>, Error> {
    let of = |answer: &QueueAnswer| {
        let queue = *plan.queues.get(answer.queue as usize)?;
        let figures = figures(&answer.answer, queue.discipline)?;
        Some((queue, Time::from_ns(answer.at_ns), figures))
    };
    let all = answers.iter().map(|answer| {
        of(answer).ok_or_else(|| {
            Error::Failed("the guest's kernel tells of a queue what nobody knows".to_owned())
        })
    });
    all.collect()
}

fn queue_outcome(queue: SampledQueue, figures: &Figures) -> QueueOutcome {
    let early = figures.dropped_early_pkts;
    let is_step = queue.discipline == Discipline::Step;
    QueueOutcome {
        link: queue.link,
        part: queue.part,
        offered_pkts: figures.sent_pkts + u64::from(figures.len_pkts) + figures.dropped_pkts,
        sent_pkts: figures.sent_pkts,
        sent_bytes: figures.sent_bytes,
        marked_pkts: figures.marked_pkts,
        threshold_hits: figures.threshold_hits,
        dropped_full_pkts: figures.dropped_pkts.saturating_sub(early),
        dropped_not_ect_pkts: if is_step { early } else { 0 },
        dropped_early_pkts: if is_step { 0 } else { early },
        ..QueueOutcome::default()
    }
}

fn queue_sample(queue: SampledQueue, at: Time, figures: &Figures) -> QueueSample {
    QueueSample {
        at,
        link: queue.link,
        part: queue.part,
        len_pkts: figures.len_pkts,
        len_bytes: figures.len_bytes.into(),
        dropped_pkts: figures.dropped_pkts,
        threshold_hits: figures.threshold_hits,
        drop_probability: figures.drop_probability,
        qdelay: figures.qdelay,
    }
}
