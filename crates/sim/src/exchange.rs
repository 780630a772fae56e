//! Domains that work side by side: windows, and the exchange of packets between them.
//!
//! All domains work off the same window of simulated time. Then each hands over the packets that left
//! for others, and waits until all have done so. Mailboxes exist twice: while one set is read, the
//! next window fills the other. So one barrier per window is enough.

use crate::barrier::Barrier;
use crate::domains::{self, Division, Domain};
use crate::events::{Entry, Event};
use crate::merge::{self, Part};
use crate::packet::Packet;
use crate::plan::Plan;
use crate::sim::Simulation;
use crate::stop::Stop;
use knee_algo::module::carry_out;
use knee_queue::time::{Duration, Time};
use knee_run::outcome::Outcome;
use knee_run::spec::Run;
use knee_run::{Error, validate};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Simulates one run to its end.
///
/// # Errors
/// If the specification contradicts itself (no route, a flow from a switch, ...), in one sentence.
pub fn simulate(run: &Run) -> Result<Outcome, Error> {
    simulate_on(run, 1)
}

/// Like [`simulate`], on up to `threads` threads. The outcome does not depend on their number. A run
/// with a feature that spans the network uses one thread: flows that wait for others, algorithms from
/// files.
///
/// # Errors
/// The errors of [`simulate`].
pub fn simulate_on(run: &Run, threads: usize) -> Result<Outcome, Error> {
    divided((run, Stop::default()), threads)
}

/// The same, until it is stopped.
pub(crate) fn divided((run, stop): (&Run, Stop<'_>), threads: usize) -> Result<Outcome, Error> {
    validate(run)?;
    let plan = Plan::new(run, stop)?;
    let division = Division::of(run, &plan, threads);
    simulate_divided((run, stop), plan, division)
}

/// Like [`simulate_on`], on as many threads as the run gains from.
pub(crate) fn simulate_on_up_to(
    (run, stop): (&Run, Stop<'_>),
    threads: usize,
) -> Result<Outcome, Error> {
    validate(run)?;
    let plan = Plan::new(run, stop)?;
    let division = Division::worth_it(run, &plan, threads);
    simulate_divided((run, stop), plan, division)
}

fn simulate_divided(
    (run, stop): (&Run, Stop<'_>),
    plan: Plan,
    division: Option<Division>,
) -> Result<Outcome, Error> {
    let Some(division) = division else {
        let simulation = Simulation::build((run, stop), &plan, Domain::default())?;
        drop(plan);
        return simulation.run();
    };
    let division = Arc::new(division);
    let parts = simulate_domains((run, stop), &plan, &division)?;
    drop(plan);
    Ok(merge::outcome(run, &division, parts))
}

/// The events of each domain in each window of a run.
#[derive(Clone, Debug)]
pub struct Loads {
    /// Length of a window.
    pub window: Duration,
    /// By domain, then by window. Windows in which nothing happens are not there.
    pub events: Vec<Vec<u32>>,
    /// Number of switches whose ports are in several domains.
    pub split_switches: usize,
}

/// Like [`simulate_on`], but the domains take turns on one thread: for tests, and to measure how evenly
/// they share the work. The loads are `None` if the run cannot be divided.
///
/// # Errors
/// The errors of [`simulate`].
pub fn simulate_in_turns(run: &Run, domains: usize) -> Result<(Outcome, Option<Loads>), Error> {
    validate(run)?;
    let plan = Plan::new(run, Stop::default())?;
    let Some(division) = Division::of(run, &plan, domains) else {
        let simulation = Simulation::build((run, Stop::default()), &plan, Domain::default())?;
        return Ok((simulation.run()?, None));
    };
    let division = Arc::new(division);
    let exchange = Exchange::new(&division);
    let domains = (0..division.domains as u32).map(|number| {
        let domain = Domain::new(&division, number);
        let mut domain = Simulation::build((run, Stop::default()), &plan, domain)?;
        domain.start();
        Ok(domain)
    });
    let mut domains = domains.collect::<Result<Vec<_>, Error>>()?;
    let mut loads = Loads {
        window: division.window,
        events: vec![Vec::new(); domains.len()],
        split_switches: division.split_switches(),
    };
    let mut steps = Steps::new(&domains[0]);
    let end = loop {
        for (number, domain) in domains.iter_mut().enumerate() {
            domain.hand_over_away(&exchange, steps.set, number);
        }
        let (mut next, mut end) = (steps.clone(), None);
        for (number, domain) in domains.iter_mut().enumerate() {
            next = steps.clone();
            let before = domain.net.events.taken;
            end = domain.next_window(&exchange, number, &mut next);
            // Samples that another domain counts are taken off.
            loads.events[number].push(domain.net.events.taken.saturating_sub(before) as u32);
        }
        steps = next;
        if let Some(end) = end {
            break end;
        }
    };
    let parts = domains.into_iter().map(|mut domain| {
        domain.net.now = end;
        domain.finish()
    });
    let parts = parts.collect::<Result<_, Error>>()?;
    Ok((merge::outcome(run, &division, parts), Some(loads)))
}

/// Simulates a run, one thread per domain. Returns the parts in the order of their domains.
fn simulate_domains(
    run: (&Run, Stop<'_>),
    plan: &Plan,
    division: &Arc<Division>,
) -> Result<Vec<Part>, Error> {
    let exchange = Exchange::new(division);
    let parts = thread::scope(|scope| {
        let threads: Vec<_> = (0..division.domains)
            .map(|number| {
                let exchange = &exchange;
                let domain = Domain::new(division, number as u32);
                scope.spawn(move || part((run, plan), domain, exchange, number))
            })
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        // A thread that panicked has said so; the others have stopped.
        joined.map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    let parts: Result<Vec<Option<Part>>, Error> = parts;
    Ok(parts?.into_iter().flatten().collect())
}

/// Simulates one domain. Returns `None` if another domain failed.
fn part(
    (run, plan): ((&Run, Stop<'_>), &Plan),
    domain: Domain,
    exchange: &Exchange,
    number: usize,
) -> Result<Option<Part>, Error> {
    // The others must not wait for a domain that has failed.
    let alarm = Alarm(&exchange.barrier);
    let simulation = Simulation::build(run, plan, domain)?;
    let done = carry_out(|| simulation.run_domain(exchange, number));
    let part = done.map_err(|fault| Error::Algorithm(fault.to_string()))?.transpose()?;
    std::mem::forget(alarm);
    Ok(part)
}

/// Stops the other domains when it is dropped.
struct Alarm<'a>(&'a Barrier);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        self.0.fail();
    }
}

/// An event for another domain, with its packet if it is an arrival.
struct Message {
    entry: Entry,
    packet: Option<Packet>,
    /// The packet's path and its place there, if the path was found during the run.
    path: Option<(Vec<u32>, u32)>,
}

/// A domain's progress at the end of a window.
#[derive(Default)]
struct Progress {
    /// Time of its next event, or of the earliest one that it sent, ps.
    next_ps: AtomicU64,
    /// Flows that have completed in it so far.
    ended: AtomicUsize,
}

/// What domains share.
pub(crate) struct Exchange {
    window: Duration,
    domains: usize,
    barrier: Barrier,
    /// Two sets, each with a mailbox from each domain to each.
    mailboxes: [Vec<Mutex<Vec<Message>>>; 2],
    progress: [Vec<Progress>; 2],
}

impl Exchange {
    fn new(division: &Division) -> Exchange {
        let domains = division.domains;
        let mailboxes = || (0..domains * domains).map(|_| Mutex::default()).collect();
        let progress = || (0..domains).map(|_| Progress::default()).collect();
        Exchange {
            window: division.window,
            domains,
            barrier: Barrier::new(domains),
            mailboxes: [mailboxes(), mailboxes()],
            progress: [progress(), progress()],
        }
    }

    fn open_mailbox(&self, set: usize, from: usize, to: usize) -> MutexGuard<'_, Vec<Message>> {
        let mailbox = &self.mailboxes[set][from * self.domains + to];
        mailbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a domain is between two windows.
#[derive(Clone)]
struct Steps {
    /// Number of flows whose completion ends the run, if it ends so.
    flows_to_end: Option<usize>,
    /// The set of mailboxes in use.
    set: usize,
    window_end: Time,
}

impl Steps {
    fn new(domain: &Simulation<'_>) -> Steps {
        Steps { flows_to_end: domain.flows_to_end(), set: 0, window_end: Time::ZERO }
    }
}

impl Simulation<'_> {
    /// Simulates this domain beside the others. Returns `None` if another one failed.
    fn run_domain(mut self, exchange: &Exchange, number: usize) -> Option<Result<Part, Error>> {
        let (stop, mut steps) = (self.stop, Steps::new(&self));
        self.start();
        let end = loop {
            self.hand_over_away(exchange, steps.set, number);
            if !exchange.barrier.wait() {
                return None;
            }
            if let Some(end) = self.next_window(exchange, number, &mut steps) {
                break end;
            }
            if let Err(stopped) = self.check() {
                return Some(Err(stopped));
            }
        };
        self.net.now = end;
        let part = self.check().and_then(|()| self.finish());
        // The count of this thread goes with it.
        stop.is_out_of_memory(0);
        Some(part)
    }

    /// Takes what came from other domains, and works off the next window with an event. Returns the
    /// end of the run if it has come.
    fn next_window(
        &mut self,
        exchange: &Exchange,
        number: usize,
        steps: &mut Steps,
    ) -> Option<Time> {
        self.take_mail(exchange, steps.set, number);
        let progress = &exchange.progress[steps.set];
        let ended = progress.iter().map(|it| it.ended.load(Ordering::Relaxed)).sum();
        if steps.flows_to_end == Some(ended) {
            return Some(steps.window_end.min(self.run.end));
        }
        let next = progress.iter().map(|it| it.next_ps.load(Ordering::Relaxed)).min();
        let next = Time::from_ps(next.unwrap_or(u64::MAX));
        if next > self.run.end {
            return Some(self.run.end);
        }
        steps.window_end = domains::next_on_grid(next, exchange.window);
        let until = Time::from_ps(steps.window_end.ps() - 1);
        self.work_off_until(self.run.end.min(until), None);
        steps.set = 1 - steps.set;
        None
    }

    /// Puts what left for other domains into their mailboxes, and tells how far this domain is.
    fn hand_over_away(&mut self, exchange: &Exchange, set: usize, number: usize) {
        let away = self.net.events.take_away();
        // Each mailbox is locked once per window: a lock costs as much as an event.
        let mut mailboxes: Vec<_> = (0..exchange.domains).map(|_| None).collect();
        let mut next = self.net.events.next_at(self.run.end).unwrap_or(Time::MAX);
        for (domain, entry) in &away {
            next = next.min(entry.at);
            let (mut packet, mut path) = (None, None);
            if let Event::Arrive { packet: id, .. } = entry.code.event() {
                self.net.packets.free(id);
                let it = *self.net.packets.get(id);
                path = self.net.paths.later_path(it.hop);
                packet = Some(it);
            }
            let to = *domain as usize;
            let mailbox =
                mailboxes[to].get_or_insert_with(|| exchange.open_mailbox(set, number, to));
            mailbox.push(Message { entry: *entry, packet, path });
        }
        self.net.events.give_back(away);
        let progress = &exchange.progress[set][number];
        progress.next_ps.store(next.ps(), Ordering::Relaxed);
        progress.ended.store(self.ended, Ordering::Relaxed);
    }

    /// Takes what came from other domains.
    fn take_mail(&mut self, exchange: &Exchange, set: usize, number: usize) {
        for from in 0..exchange.domains {
            let mut mailbox = exchange.open_mailbox(set, from, number);
            for Message { mut entry, packet, path } in mailbox.drain(..) {
                if let Some(mut packet) = packet {
                    if let Some((links, place)) = path {
                        // Without room for the path the run is refused at its end.
                        let Some(start) = self.net.paths.add(links) else { continue };
                        packet.hop = start + place;
                    }
                    entry.code.set_packet(self.net.packets.insert(packet));
                }
                self.net.events.insert(entry);
            }
        }
    }
}
