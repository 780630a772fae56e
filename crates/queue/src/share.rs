//! Marking of a share of packets, whatever waits: a measuring instrument, not an AQM.
//!
//! A drop-tail buffer that marks every n-th ECN-capable packet, or each with a given probability. The sender's answer does
//! not change the share, so what marks cost a host can be measured at 0, 10, 50 and 100 % of them.

use crate::packet::Ecn;
use crate::qdisc::{Admission, DropReason, QueueAction};
use crate::settings::{PortProperties, Settings};
use crate::time::{Duration, Rate, Time};
use knee_units::settings::{Setting, Visit, key};
use knee_units::{Backlog, Limit, Random};

/// Selection of the ECN-capable packets to mark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MarkShare {
    /// Each with this probability, 0 to 1.
    Probability(f64),
    /// The n-th, the 2n-th and so on; 1 marks all. 0, which a config may not have, is taken as 1.
    Every(u32),
}

/// Settings of a queue that marks a share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShareConfig {
    /// How much may wait.
    pub limit: Limit,
    pub mark: MarkShare,
    /// Seed of the random draws; [`MarkShare::Every`] draws nothing.
    pub seed: u64,
}

impl Settings for ShareConfig {
    fn kind(&self) -> &'static str {
        "share"
    }

    fn at(_place: PortProperties) -> ShareConfig {
        ShareConfig { limit: Limit::UNLIMITED, mark: MarkShare::Every(1), seed: 0 }
    }

    fn fields(&mut self, v: &mut dyn Visit) {
        v.limit(&mut self.limit);
        let (mut share, mut every) = match self.mark {
            MarkShare::Probability(share) => (Some(share), None),
            MarkShare::Every(every) => (None, Some(every)),
        };
        v.key(
            key("mark", "Random share of packets to mark.").usually("none"),
            Setting::MaybeShare(&mut share),
        );
        v.key(
            key("every", "Mark every n-th packet instead.")
                .within(1, u32::MAX as u64)
                .usually("none"),
            Setting::MaybeNumber(&mut every),
        );
        match (share, every) {
            (Some(share), None) => self.mark = MarkShare::Probability(share),
            (None, Some(every)) => self.mark = MarkShare::Every(every),
            (Some(_), Some(_)) => v.refuse("every", "has no meaning beside \"mark\""),
            (None, None) => v.refuse("mark", "missing, as in mark = \"10 %\", or every = 10"),
        }
        v.seed(&mut self.seed);
        if share.is_some_and(|share| !(0.0..=1.0).contains(&share)) || every == Some(0) {
            v.refuse(
                "kind",
                "a queue marks a share from 0 to 1, or every n-th packet with n at least 1",
            );
        }
    }

    fn acts_at(&self, _rate: Rate) -> Option<Duration> {
        None
    }

    fn drops_early(&self) -> Option<&'static str> {
        None
    }
}

/// AQM that marks a fixed share of packets, whatever the backlog.
#[derive(Clone, Debug)]
pub struct Share {
    limit: Limit,
    mark: Marker,
}

#[derive(Clone, Debug)]
enum Marker {
    /// Marked if a 32-bit draw is below this: exact at 0 and 1, to 2^-32 between.
    Draw { below: u64, random: Random },
    /// Marked when none remains to be let by.
    Count { every: u32, remaining: u32 },
}

impl Marker {
    fn marks_next(&mut self) -> bool {
        match self {
            Marker::Draw { below, random } => random.u64() >> 32 < *below,
            Marker::Count { every, remaining } => {
                *remaining -= 1;
                if *remaining > 0 {
                    return false;
                }
                *remaining = *every;
                true
            }
        }
    }
}

impl Share {
    /// A queue with these settings.
    pub fn new(config: ShareConfig) -> Share {
        let mark = match config.mark {
            MarkShare::Probability(share) => Marker::Draw {
                below: (share.clamp(0.0, 1.0) * (1_u64 << 32) as f64).round() as u64,
                random: Random::new(config.seed),
            },
            MarkShare::Every(every) => {
                Marker::Count { every: every.max(1), remaining: every.max(1) }
            }
        };
        Share { limit: config.limit, mark }
    }
}

impl Admission for Share {
    /// A packet that the full buffer drops is not counted and takes no draw: the share is of what passes.
    #[inline(never)] // Inlined next to the small policies, it slows down every link of a simulation.
    fn admit(&mut self, backlog: Backlog, len_bytes: u32, ecn: Ecn, _now: Time) -> QueueAction {
        if !self.limit.has_room(backlog, len_bytes) {
            QueueAction::Dropped(DropReason::Full)
        } else if ecn.is_capable() && self.mark.marks_next() {
            QueueAction::Marked
        } else {
            QueueAction::Queued
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: ShareConfig =
        ShareConfig { limit: Limit::Pkts(4), mark: MarkShare::Every(3), seed: 1 };

    fn admit(policy: &mut Share, ecn: Ecn) -> QueueAction {
        policy.admit(Backlog::default(), 1514, ecn, Time::ZERO)
    }

    /// Marks among this many packets of one kind.
    fn marks(policy: &mut Share, ecn: Ecn, count: u32) -> u32 {
        (0..count).map(|_| u32::from(admit(policy, ecn) == QueueAction::Marked)).sum()
    }

    #[test]
    fn every_third_capable_packet_is_marked() {
        let mut policy = Share::new(CONFIG);
        let actions = [(); 6].map(|()| admit(&mut policy, Ecn::Ect0));
        use QueueAction::{Marked, Queued};
        assert_eq!(actions, [Queued, Queued, Marked, Queued, Queued, Marked]);
    }

    #[test]
    fn packets_that_are_not_capable_are_neither_marked_nor_counted() {
        let mut policy = Share::new(CONFIG);
        assert_eq!(marks(&mut policy, Ecn::Ect1, 2), 0);
        assert_eq!(marks(&mut policy, Ecn::NotEct, 100), 0);
        assert_eq!(admit(&mut policy, Ecn::Ect1), QueueAction::Marked);
    }

    #[test]
    fn what_a_full_buffer_drops_is_not_counted() {
        let mut policy = Share::new(ShareConfig { mark: MarkShare::Every(2), ..CONFIG });
        let full = Backlog { pkts: 4, bytes: 4 * 1514 };
        assert_eq!(admit(&mut policy, Ecn::Ect0), QueueAction::Queued);
        for _ in 0..3 {
            let action = policy.admit(full, 1514, Ecn::Ect0, Time::ZERO);
            assert_eq!(action, QueueAction::Dropped(DropReason::Full));
        }
        assert_eq!(admit(&mut policy, Ecn::Ect0), QueueAction::Marked);
    }

    #[test]
    fn none_and_all_are_exact() {
        let share =
            |share| Share::new(ShareConfig { mark: MarkShare::Probability(share), ..CONFIG });
        assert_eq!(marks(&mut share(0.0), Ecn::Ect0, 100_000), 0);
        assert_eq!(marks(&mut share(1.0), Ecn::Ect0, 100_000), 100_000);
        assert_eq!(marks(&mut share(1.0), Ecn::NotEct, 1000), 0);
        assert_eq!(
            marks(
                &mut Share::new(ShareConfig { mark: MarkShare::Every(1), ..CONFIG }),
                Ecn::Ce,
                10
            ),
            10
        );
    }

    #[test]
    fn a_tenth_is_a_tenth_and_its_seed_decides_which() {
        let tenth = |seed| {
            let mut policy =
                Share::new(ShareConfig { mark: MarkShare::Probability(0.1), seed, ..CONFIG });
            (0..100_000)
                .map(|_| admit(&mut policy, Ecn::Ect0) == QueueAction::Marked)
                .collect::<Vec<_>>()
        };
        let marked = tenth(1).iter().filter(|marked| **marked).count();
        // The standard deviation is 95.
        assert!((9_600..10_400).contains(&marked), "{marked}");
        assert_eq!(tenth(1), tenth(1));
        assert_ne!(tenth(1), tenth(2));
    }
}
