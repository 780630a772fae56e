//! What ends a simulation early: nobody waits for it any more, or it takes too much memory.

use knee_queue::time::Time;
use knee_run::{Budget, Error, RunOptions};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Events between two checks: some ms, and too many for the checks to cost anything.
const BETWEEN_CHECKS: u64 = 1024;

/// What may end a simulation early.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stop<'a> {
    flag: Option<&'a AtomicBool>,
    budget: Option<&'a Budget>,
    /// Where to note how far the simulation has come.
    reached: Option<&'a AtomicU64>,
}

impl<'a> Stop<'a> {
    /// Stops as the options of a run say.
    pub(crate) fn of(ask: &RunOptions<'a>) -> Stop<'a> {
        Stop { flag: Some(ask.stop), budget: ask.budget, reached: ask.reached }
    }

    /// Notes how far the simulation has come.
    pub(crate) fn note(self, now: Time) {
        if let Some(reached) = self.reached {
            reached.store(now.ps(), Ordering::Relaxed);
        }
    }

    pub(crate) fn is_set(self) -> bool {
        self.flag.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    /// Returns whether too much memory is taken, with what will be taken `soon`.
    pub(crate) fn is_out_of_memory(self, soon: usize) -> bool {
        self.budget.is_some_and(|budget| !budget.check(soon))
    }

    /// Returns whether to check after so many events.
    #[inline]
    pub(crate) fn is_due(self, events: u64) -> bool {
        events % BETWEEN_CHECKS == 0
    }

    /// Fails if the simulation must end. `mostly` tells what takes most memory.
    pub(crate) fn check(self, soon: usize, mostly: impl FnOnce() -> String) -> Result<(), Error> {
        if self.is_set() {
            return Err(Error::Stopped);
        }
        if !self.is_out_of_memory(soon) {
            return Ok(());
        }
        Err(too_large(mostly()))
    }

    /// Fails if there is no room for so many bytes, which this thread takes next.
    pub(crate) fn reserve(
        self,
        bytes: usize,
        mostly: impl FnOnce() -> String,
    ) -> Result<(), Error> {
        match self.budget.is_none_or(|budget| budget.reserve(bytes)) {
            true => Ok(()),
            false => Err(too_large(mostly())),
        }
    }
}

fn too_large(mostly: String) -> Error {
    Error::Memory { limit: "its budget of memory".to_owned(), mostly }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::divided;
    use crate::sim::captured;
    use knee_queue::time::{Duration, Rate};
    use knee_queue::{DropTailConfig, Limit, QueueConfig};
    use knee_run::Run;
    use knee_run::spec::{Cc, Flow, HostConfig, LinuxVersion, Sampling, Schedule, Traffic};
    use knee_run::topology::{Cable, LeafSpine};
    use std::sync::Arc;
    use std::time::Duration as WallTime;

    /// Endless transfers between two leaves, in a run that takes hours.
    fn endless() -> Run {
        let cable = Cable {
            delay: Duration::from_us(1),
            ..Cable::new(
                Rate::from_bps(10_000_000_000),
                QueueConfig::DropTail(DropTailConfig { limit: Limit::Pkts(100) }),
            )
        };
        let network = LeafSpine {
            leaves: 2,
            spines: 2,
            hosts_per_leaf: 2,
            host: HostConfig::new(LinuxVersion(6, 1)),
            host_up: cable.clone(),
            host_down: cable.clone(),
            fabric: cable,
        };
        let flow = Flow {
            group: 0,
            from: 0,
            to: 2,
            cc: Cc::by_name("reno").unwrap(),
            peer_cc: None,
            start: Time::ZERO,
            first_write: None,
            stop: None,
            traffic: Traffic::Bulk { bytes: None },
            read_at_bytes: 1,
            base_rtt: None,
            dscp: 0,
            peer_dscp: 0,
            max_pacing_rate: None,
            sampled: false,
        };
        Run {
            seed: 1,
            end: Time::from_ms(10_000_000),
            until_done: false,
            network: network.build(),
            flows: vec![flow.clone(), Flow { from: 1, to: 3, ..flow }],
            pings: Vec::new(),
            sampling: Sampling::default(),
            schedule: Schedule::default(),
        }
    }

    #[test]
    fn a_run_ends_a_few_events_after_it_was_stopped() {
        let (flag, seen_after) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (sets, counts) = (Arc::clone(&flag), Arc::clone(&seen_after));
        let mut seen = 0;
        let ended = captured((&endless(), Stop::of(&RunOptions::outcome(&flag))), move |_| {
            seen += 1;
            if sets.load(Ordering::Relaxed) {
                counts.fetch_add(1, Ordering::Relaxed);
            }
            sets.fetch_or(seen == 20_000, Ordering::Relaxed);
        });
        assert_eq!(ended.map(drop), Err(Error::Stopped));
        // An event is a sighting at one or two places.
        assert!(seen_after.load(Ordering::Relaxed) <= 2 * BETWEEN_CHECKS, "{seen_after:?}");
    }

    #[test]
    fn a_run_notes_how_far_it_has_come() {
        let (flag, reached) = (Arc::new(AtomicBool::new(false)), AtomicU64::new(0));
        let (sets, mut seen) = (Arc::clone(&flag), 0);
        let ask = RunOptions { reached: Some(&reached), ..RunOptions::outcome(&flag) };
        let ended = captured((&endless(), Stop::of(&ask)), move |_| {
            seen += 1;
            sets.fetch_or(seen == 20_000, Ordering::Relaxed);
        });
        assert_eq!(ended.map(drop), Err(Error::Stopped));
        // Each link of 10 Gbps sends 0.8 packets in a us, and a packet has about ten sightings.
        let us = reached.load(Ordering::Relaxed) / 1_000_000;
        assert!((500..20_000).contains(&us), "{us}");
    }

    #[test]
    fn threads_of_a_run_end_together_when_it_is_stopped() {
        let flag = AtomicBool::new(false);
        let run = endless();
        let ended = std::thread::scope(|scope| {
            let ended = scope.spawn(|| divided((&run, Stop::of(&RunOptions::outcome(&flag))), 2));
            std::thread::sleep(WallTime::from_millis(50));
            flag.store(true, Ordering::Relaxed);
            ended.join().unwrap()
        });
        assert_eq!(ended.map(drop), Err(Error::Stopped));
    }
}
