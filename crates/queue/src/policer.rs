//! A policer: a token bucket that drops what exceeds it, and lets nothing wait for tokens.
//!
//! A packet passes if the bucket holds tokens for all of it, which it takes; else it is dropped and takes none (single rate, two
//! colours, as in RFC 2697 without an excess burst). In any time t no more passes than `burst + rate * t`, and what passes is not
//! delayed. Behind it packets wait for the link alone.

use crate::packet::Ecn;
use crate::qdisc::{Admission, DropReason, QueueAction};
use crate::settings::{PortProperties, Settings, drain};
use crate::shaper::TokenBucket;
use crate::time::{Duration, Rate, Time};
use knee_units::settings::{Setting, Visit, key};
use knee_units::{Backlog, Limit};

/// Settings of a policer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicerConfig {
    /// Rate of the tokens; a config that is built has one.
    pub rate: Option<Rate>,
    /// Tokens that the bucket holds: what may pass at once.
    pub burst_bytes: u64,
    /// How much may wait for the link.
    pub limit: Limit,
}

impl Settings for PolicerConfig {
    fn kind(&self) -> &'static str {
        "policer"
    }

    fn at(place: PortProperties) -> PolicerConfig {
        PolicerConfig {
            rate: Some(place.rate),
            burst_bytes: u64::from(u32::MAX),
            limit: Limit::UNLIMITED,
        }
    }

    fn fields(&mut self, v: &mut dyn Visit) {
        v.key(
            key("rate", "Rate above which packets are dropped.").needed("5 Gbps"),
            Setting::MaybeRate(&mut self.rate),
        );
        v.key(
            key("burst", "What may pass at once after a pause.").needed("100 kB"),
            Setting::Room(&mut self.burst_bytes),
        );
        v.key(
            key("limit", "Limit of what waits for the link, in packets or bytes.")
                .usually("none: where the link has at least `rate`, no more than `burst` waits"),
            Setting::Limit(&mut self.limit),
        );
        if self.rate.is_none() {
            v.refuse("rate", "missing, as in rate = \"5 Gbps\"");
        }
        if self.burst_bytes > u64::from(u32::MAX) {
            v.refuse("burst", "must be at most 4 GB, as in \"100 kB\"");
        }
    }

    /// A burst that is longer than its allowance loses packets once it has waited so long.
    fn acts_at(&self, rate: Rate) -> Option<Duration> {
        Some(drain(rate, self.burst_bytes))
    }
}

/// Drop of what exceeds a token bucket.
#[derive(Clone, Debug)]
pub struct Policer {
    bucket: TokenBucket,
    limit: Limit,
}

impl Policer {
    /// A policer with these settings, whose bucket is full.
    pub fn new(config: PolicerConfig) -> Policer {
        // Settings without a rate are refused; built all the same, they let pass next to nothing.
        let rate = config.rate.unwrap_or(Rate::from_bps(1).expect("above 0"));
        let burst_bytes = u32::try_from(config.burst_bytes).unwrap_or(u32::MAX);
        Policer { bucket: TokenBucket::new(rate, burst_bytes), limit: config.limit }
    }
}

impl Admission for Policer {
    /// A packet for which the buffer has no room has paid: the bucket comes before the buffer.
    fn admit(&mut self, backlog: Backlog, len_bytes: u32, _ecn: Ecn, now: Time) -> QueueAction {
        if self.bucket.ready_at(len_bytes, now) > now {
            return QueueAction::Dropped(DropReason::Early);
        }
        self.bucket.take(len_bytes, now);
        match self.limit.has_room(backlog, len_bytes) {
            true => QueueAction::Queued,
            false => QueueAction::Dropped(DropReason::Full),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXCESS: QueueAction = QueueAction::Dropped(DropReason::Early);

    fn policer(bps: u64, burst_bytes: u64) -> Policer {
        let rate = Rate::from_bps(bps);
        Policer::new(PolicerConfig { rate, burst_bytes, limit: Limit::UNLIMITED })
    }

    fn admit(policer: &mut Policer, len_bytes: u32, at_ns: u64) -> QueueAction {
        policer.admit(Backlog::default(), len_bytes, Ecn::Ect0, Time::from_ns(at_ns))
    }

    #[test]
    fn a_burst_passes_whole_and_what_exceeds_it_is_dropped() {
        let mut policer = policer(1_000_000_000, 3 * 1514);
        let actions = [(); 4].map(|()| admit(&mut policer, 1514, 0));
        assert_eq!(
            actions,
            [QueueAction::Queued, QueueAction::Queued, QueueAction::Queued, EXCESS]
        );
        // 1514 bytes are 12,112 ns at 1 Gbps; what was dropped took no tokens.
        assert_eq!(admit(&mut policer, 1514, 12_111), EXCESS);
        assert_eq!(admit(&mut policer, 1514, 12_112), QueueAction::Queued);
        // A short packet needs fewer: 66 bytes are 528 ns.
        assert_eq!(admit(&mut policer, 1514, 12_112 + 528), EXCESS);
        assert_eq!(admit(&mut policer, 66, 12_112 + 528), QueueAction::Queued);
        // However long the pause, the bucket holds no more than the burst.
        let actions = [(); 4].map(|()| admit(&mut policer, 1514, 1_000_000_000));
        assert_eq!(
            actions,
            [QueueAction::Queued, QueueAction::Queued, QueueAction::Queued, EXCESS]
        );
    }

    #[test]
    fn twice_the_rate_passes_by_half() {
        let mut policer = policer(1_000_000_000, 10 * 1514);
        let passes = |at: &u64| admit(&mut policer, 1514, at * 6_056) == QueueAction::Queued;
        let passed = (0..10_000).filter(passes).count();
        // Tokens of 10,000 gaps of half a packet's time, and the burst.
        assert!((5_009..=5_010).contains(&passed), "{passed}");
    }

    #[test]
    fn a_full_buffer_drops_what_has_paid() {
        let config = PolicerConfig {
            rate: Rate::from_bps(1_000_000_000),
            burst_bytes: 2 * 1514,
            limit: Limit::Pkts(1),
        };
        let mut policer = Policer::new(config);
        let full = Backlog { pkts: 1, bytes: 1514 };
        let action = policer.admit(full, 1514, Ecn::NotEct, Time::ZERO);
        assert_eq!(action, QueueAction::Dropped(DropReason::Full));
        assert_eq!(admit(&mut policer, 1514, 0), QueueAction::Queued);
        assert_eq!(admit(&mut policer, 1514, 0), EXCESS);
    }
}
