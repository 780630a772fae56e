//! Drop-tail: accept while there is room.

use crate::packet::Ecn;
use crate::qdisc::{Admission, DropReason, QueueAction};
use crate::settings::{PortProperties, Settings};
use crate::time::{Duration, Rate, Time};
use knee_units::settings::Visit;
use knee_units::{Backlog, Limit};

/// Settings of a drop-tail queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropTailConfig {
    /// How much may wait.
    pub limit: Limit,
}

impl Settings for DropTailConfig {
    fn kind(&self) -> &'static str {
        "droptail"
    }

    fn at(_place: PortProperties) -> DropTailConfig {
        DropTailConfig { limit: Limit::UNLIMITED }
    }

    fn fields(&mut self, v: &mut dyn Visit) {
        v.limit(&mut self.limit);
    }

    fn acts_at(&self, _rate: Rate) -> Option<Duration> {
        None
    }

    fn drops_early(&self) -> Option<&'static str> {
        None
    }
}

/// Tail drop: a packet that does not fit is dropped.
#[derive(Clone, Copy, Debug)]
pub struct DropTail {
    limit: Limit,
}

impl DropTail {
    /// A queue with these settings.
    pub const fn new(config: DropTailConfig) -> DropTail {
        DropTail { limit: config.limit }
    }
}

impl Admission for DropTail {
    #[inline]
    fn admit(&mut self, backlog: Backlog, len_bytes: u32, _ecn: Ecn, _now: Time) -> QueueAction {
        if self.limit.has_room(backlog, len_bytes) {
            QueueAction::Queued
        } else {
            QueueAction::Dropped(DropReason::Full)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_limit_in_bytes_fits() {
        let limit = Limit::Bytes(2 * 1514);
        let one = Backlog { pkts: 1, bytes: 1514 };
        assert!(limit.has_room(one, 1514));
        assert!(!limit.has_room(one, 1515));
        assert!(!limit.has_room(Backlog { pkts: 1, bytes: u64::MAX }, 1));
    }

    #[test]
    fn packets_are_counted_whatever_their_length() {
        let limit = Limit::Pkts(2);
        assert!(limit.has_room(Backlog { pkts: 1, bytes: 1 << 40 }, 9014));
        assert!(!limit.has_room(Backlog { pkts: 2, bytes: 2 }, 1));
    }

    #[test]
    fn a_full_queue_drops_and_never_marks() {
        let mut policy = DropTail::new(DropTailConfig { limit: Limit::Pkts(1) });
        let full = Backlog { pkts: 1, bytes: 1514 };
        assert_eq!(
            policy.admit(Backlog::default(), 1514, Ecn::Ce, Time::ZERO),
            QueueAction::Queued
        );
        assert_eq!(
            policy.admit(full, 1514, Ecn::Ect0, Time::ZERO),
            QueueAction::Dropped(DropReason::Full)
        );
    }
}
