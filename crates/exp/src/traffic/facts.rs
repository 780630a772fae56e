//! Facts of a traffic entry for remarks on an experiment.

use knee_queue::time::Duration;

use super::{EntryKind, TrafficSpec, times};
use crate::arrivals::Arrivals;
use crate::metric::Kind;

impl TrafficSpec {
    /// Returns the last start that the file gives to its transfers or exchanges. `None` if they do not end, so that no run
    /// cuts them off.
    pub(crate) fn last_start(&self) -> Option<Duration> {
        let EntryKind::Connections(connections) = &self.what else { return None };
        // Attempts have a deadline of their own.
        if matches!(self.kind, Kind::Endless | Kind::Attempts) {
            return None;
        }
        if let Some(arrivals) = &connections.arrivals {
            return Some(arrivals.until());
        }
        let last = (self.pairs.len() as u64).saturating_sub(1);
        let rounds = connections.rounds.saturating_sub(1);
        Some(
            self.start
                + self.start_jitter
                + times(connections.stagger, last)
                + times(connections.every, rounds),
        )
    }

    /// Describes the sizes of its transfers, if they are drawn from several.
    pub(crate) fn sizes_words(&self) -> Option<String> {
        self.arrivals().and_then(Arrivals::sizes_words)
    }
}
