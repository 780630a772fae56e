//! A link that changes during the run: what is to come, and the packet in transmission.
//!
//! All changes are known before the run. So a link knows when a packet begins its way whether the
//! wire fails before the packet's end, and no other domain has to be told.

use knee_queue::Stats;
use knee_queue::time::{Duration, Rate, Time};
use knee_run::spec::{Changes, NewState};

/// Packets that a failing link took out of its queue.
#[derive(Clone, Copy, Debug, Default)]
struct Flushed {
    pkts: u64,
    bytes: u64,
}

/// A packet whose bits are leaving.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sending {
    pub(crate) packet: u32,
    pub(crate) begun: Time,
    pub(crate) ends: Time,
    /// Where its arrival leads; see [`leads_to`](crate::events::leads_to).
    pub(crate) leads_to: u32,
}

/// The changing part of a link.
#[derive(Debug, Default)]
pub(crate) struct Varying {
    /// All changes, by time.
    steps: Vec<(Time, NewState)>,
    /// The first change that is still to come.
    next: usize,
    pub(crate) is_down: bool,
    /// Loss while the link is up, as [`LinkState`](crate::link::LinkState) counts it.
    pub(crate) loss: u64,
    pub(crate) sending: Option<Sending>,
    /// Of the queue, then of its parts.
    flushed: Vec<Flushed>,
}

/// Creates the changing part of each link that has one.
pub(crate) fn build(changes: &Changes) -> impl Iterator<Item = (u32, Varying)> + use<> {
    let mut all: std::collections::BTreeMap<u32, Varying> = std::collections::BTreeMap::new();
    for change in &changes.links {
        all.entry(change.link).or_default().steps.push((change.at, change.to));
    }
    all.into_iter()
}

impl Varying {
    /// Returns the times of all changes, each once.
    pub(crate) fn times(&self) -> Vec<Time> {
        let mut times: Vec<Time> = self.steps.iter().map(|(at, _)| *at).collect();
        times.dedup();
        times
    }

    /// Takes the next change that is due.
    pub(crate) fn take_due(&mut self, now: Time) -> Option<NewState> {
        let (_, to) = self.steps.get(self.next).filter(|(at, _)| *at <= now)?;
        self.next += 1;
        Some(*to)
    }

    /// Reports whether the link goes down before a packet on it arrives at this time.
    pub(crate) fn fails_by(&self, arrives: Time) -> bool {
        let mut to_come = self.steps[self.next..].iter().take_while(|(at, _)| *at <= arrives);
        self.is_down || to_come.any(|(_, to)| *to == NewState::Down)
    }

    /// Takes the packet whose last bit has left.
    pub(crate) fn take_sent(&mut self, now: Time) -> Option<Sending> {
        self.sending.take_if(|sending| sending.ends <= now)
    }

    /// Notes what a queue counted as sent while it was emptied. `part` 0 is the whole queue.
    pub(crate) fn note_flushed(&mut self, part: usize, before: &Stats, after: &Stats) {
        if self.flushed.len() <= part {
            self.flushed.resize(part + 1, Flushed::default());
        }
        self.flushed[part].pkts += after.dequeued_pkts - before.dequeued_pkts;
        self.flushed[part].bytes += after.dequeued_bytes - before.dequeued_bytes;
    }

    /// Returns the packets and bytes that [`Varying::note_flushed`] was told.
    pub(crate) fn flushed(&self, part: usize) -> (u64, u64) {
        self.flushed.get(part).map_or((0, 0), |flushed| (flushed.pkts, flushed.bytes))
    }
}

/// Returns when what would have ended at `ends` ends at another rate from now on, rounded down to a
/// ps.
pub(crate) fn at_rate(ends: Time, now: Time, (old, new): (Rate, Rate)) -> Time {
    let left = u128::from(ends.since(now).ps()) * u128::from(old.bps()) / u128::from(new.bps());
    now + Duration::from_ps(u64::try_from(left).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_takes_its_time_at_the_new_rate() {
        let rate = |mbps: u64| Rate::from_bps(mbps * 1_000_000).unwrap();
        let (ends, now) = (Time::from_us(12), Time::from_us(4));
        let at = |old, new| at_rate(ends, now, (rate(old), rate(new)));
        assert_eq!(at(1000, 100), Time::from_us(84));
        assert_eq!(at(1000, 4000), Time::from_us(6));
        assert_eq!(at_rate(now, now, (rate(1), rate(1000))), now);
    }
}
