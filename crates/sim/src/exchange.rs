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
use crate::sim::Simulation;
use knee_algo::module::carry_out;
use knee_queue::time::{Duration, Time};
use knee_run::outcome::Outcome;
use knee_run::spec::Run;
use knee_run::{Error, validate};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Simulates one run to its end.
///
/// # Errors
/// If the specification contradicts itself (no route, a flow from a switch, ...), in one sentence.
pub fn simulate(run: &Run) -> Result<Outcome, Error> {
    simulate_on(run, 1)
}

/// Like [`simulate`], on up to `threads` threads. The outcome does not depend on their number. A run
/// with a feature that spans the network uses one thread: flow control, shared buffers, coalescing
/// of interrupts, flows that wait for others, IPv6, algorithms from files.
///
/// # Errors
/// The errors of [`simulate`].
pub fn simulate_on(run: &Run, threads: usize) -> Result<Outcome, Error> {
    validate(run)?;
    match Division::of(run, threads) {
        None => Simulation::build(run, Domain::default())?.run(),
        Some(division) => simulate_domains(run, &Arc::new(division)),
    }
}

/// Simulates a run, one thread per domain.
fn simulate_domains(run: &Run, division: &Arc<Division>) -> Result<Outcome, Error> {
    let exchange = Exchange::new(division);
    let parts = thread::scope(|scope| {
        let threads: Vec<_> = (0..division.domains)
            .map(|number| {
                let exchange = &exchange;
                let domain = Domain::new(division, number as u32);
                scope.spawn(move || part(run, domain, exchange, number))
            })
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        // A thread that panicked has said so; the others have stopped.
        joined.map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    let parts: Result<Vec<Option<Part>>, Error> = parts;
    Ok(merge::outcome(run, division, parts?.into_iter().flatten().collect()))
}

/// Simulates one domain. Returns `None` if another domain failed.
fn part(
    run: &Run,
    domain: Domain,
    exchange: &Exchange,
    number: usize,
) -> Result<Option<Part>, Error> {
    // The others must not wait for a domain that has failed.
    let alarm = Alarm(&exchange.barrier);
    let simulation = Simulation::build(run, domain)?;
    let done = carry_out(|| simulation.run_beside(exchange, number));
    let part = done.map_err(|fault| Error::Algorithm(fault.to_string()))?;
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

    fn mailbox(&self, set: usize, from: usize, to: usize) -> &Mutex<Vec<Message>> {
        &self.mailboxes[set][from * self.domains + to]
    }
}

impl Simulation<'_> {
    /// Simulates this domain beside the others. Returns `None` if another one failed.
    fn run_beside(mut self, exchange: &Exchange, number: usize) -> Option<Part> {
        let flows_to_end = self.flows_to_end();
        self.start();
        let mut set = 0;
        let mut window_end = Time::ZERO;
        let end = loop {
            self.hand_over_away(exchange, set, number);
            if !exchange.barrier.wait() {
                return None;
            }
            self.take_mail(exchange, set, number);
            let progress = &exchange.progress[set];
            let ended = progress.iter().map(|it| it.ended.load(Ordering::Relaxed)).sum();
            if flows_to_end == Some(ended) {
                break window_end.min(self.run.end);
            }
            let next = progress.iter().map(|it| it.next_ps.load(Ordering::Relaxed)).min();
            let next = Time::from_ps(next.unwrap_or(u64::MAX));
            if next > self.run.end {
                break self.run.end;
            }
            window_end = domains::next_on_grid(next, exchange.window);
            self.work_off_until(self.run.end.min(Time::from_ps(window_end.ps() - 1)), None);
            set = 1 - set;
        };
        self.net.now = end;
        Some(self.finish())
    }

    /// Puts what left for other domains into their mailboxes, and tells how far this domain is.
    fn hand_over_away(&mut self, exchange: &Exchange, set: usize, number: usize) {
        let away = self.net.events.take_away();
        let mut next = self.net.events.next_at(self.run.end).unwrap_or(Time::MAX);
        for (domain, entry) in &away {
            next = next.min(entry.at);
            let packet = match entry.code.event() {
                Event::Arrive { packet, .. } => {
                    self.net.packets.free(packet);
                    Some(*self.net.packets.get(packet))
                }
                _ => None,
            };
            let mailbox = exchange.mailbox(set, number, *domain as usize);
            let mut mailbox = mailbox.lock().unwrap_or_else(PoisonError::into_inner);
            mailbox.push(Message { entry: *entry, packet });
        }
        self.net.events.give_back(away);
        let progress = &exchange.progress[set][number];
        progress.next_ps.store(next.ps(), Ordering::Relaxed);
        progress.ended.store(self.ended, Ordering::Relaxed);
    }

    /// Takes what came from other domains.
    fn take_mail(&mut self, exchange: &Exchange, set: usize, number: usize) {
        for from in 0..exchange.domains {
            let mailbox = exchange.mailbox(set, from, number);
            let mut mailbox = mailbox.lock().unwrap_or_else(PoisonError::into_inner);
            for Message { mut entry, packet } in mailbox.drain(..) {
                if let Some(packet) = packet {
                    entry.code.set_packet(self.net.packets.insert(packet));
                }
                self.net.events.insert(entry);
            }
        }
    }
}
