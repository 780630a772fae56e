//! Interrupts that wait for more packets (coalescing), of hosts and of switches that are software routers.
//!
//! What has come waits in the ring of a receive queue. Its interrupt comes when as many packets wait as `frames` says, or `time`
//! after the first of them, and hands over all that wait, in order.

use crate::events::{Event, Events};
use knee_queue::time::{Duration, PS_PER_S, Time};

/// Packets no longer than this on average are not worth waiting for (mlx4's `AVG_PKT_SMALL`).
const SMALL_PACKET_BYTES: u64 = 256;

/// When a NIC's receive queue raises its interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalesce {
    /// As soon as so many packets wait (`rx-frames`); `None`: time alone decides.
    pub frames: Option<u32>,
    /// So long after the first of them (`rx-usecs`).
    pub time: Duration,
    /// The time follows the packet rate.
    pub adaptive: Option<Adaptive>,
}

/// Adaptive coalescing by packet rate, as `ethtool -C` has it (`pkt-rate-low`, `pkt-rate-high`) and Linux's mlx4 fills it in:
/// up to the low rate the interrupt comes at once, from the high rate on after [`Coalesce::time`], between them after a
/// time that grows in proportion. Packets that are short on average count as a low rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adaptive {
    /// Packets per second of a queue.
    pub rate_low: u64,
    /// Packets per second of a queue.
    pub rate_high: u64,
    /// The rate is that of a period of at least this length; the packet that comes after it ends it.
    pub interval: Duration,
}

impl Default for Adaptive {
    /// mlx4's: 400,000 and 450,000 packets per second, looked at four times a second.
    fn default() -> Adaptive {
        Adaptive { rate_low: 400_000, rate_high: 450_000, interval: Duration::from_ms(250) }
    }
}

impl Adaptive {
    /// The time at a rate.
    fn time(&self, most: Duration, pkts: u64, bytes: u64, elapsed: Duration) -> Duration {
        if bytes <= pkts * SMALL_PACKET_BYTES {
            return Duration::ZERO;
        }
        let rate = u128::from(pkts) * u128::from(PS_PER_S) / u128::from(elapsed.ps().max(1));
        let (low, high) = (u128::from(self.rate_low), u128::from(self.rate_high));
        if rate <= low {
            Duration::ZERO
        } else if rate >= high {
            most
        } else {
            Duration::from_ps((u128::from(most.ps()) * (rate - low) / (high - low)) as u64)
        }
    }
}

/// What becomes of a packet that has come to a receive queue.
pub(crate) enum Arrival {
    /// It is not coalesced, and goes on.
    Passes,
    /// It waits for an interrupt.
    Waits,
    /// The interrupt of this queue comes now.
    Interrupt(u32),
}

/// A receive queue: what waits in it, and when its interrupt comes.
#[derive(Debug)]
pub(crate) struct Ring<T> {
    pending: Vec<T>,
    /// When the interrupt comes; [`Time::MAX`]: nothing waits.
    due: Time,
    /// An event is scheduled for then.
    event_at: Time,
    /// How long the first of the packets waits; follows the rate where that is asked for.
    time: Duration,
    /// The period whose rate is being measured.
    since: Time,
    pkts: u64,
    bytes: u64,
}

impl<T> Ring<T> {
    /// An empty one.
    pub(crate) fn new(coalesce: Option<Coalesce>) -> Ring<T> {
        let time = match coalesce {
            // Nothing is known of the rate yet.
            Some(Coalesce { adaptive: Some(_), .. }) | None => Duration::ZERO,
            Some(coalesce) => coalesce.time,
        };
        Ring {
            pending: Vec::new(),
            due: Time::MAX,
            event_at: Time::MAX,
            time,
            since: Time::ZERO,
            pkts: 0,
            bytes: 0,
        }
    }

    /// Takes a packet; whether the interrupt comes now.
    pub(crate) fn add(
        &mut self,
        packet: T,
        wire_bytes: u32,
        coalesce: Coalesce,
        now: Time,
    ) -> bool {
        if let Some(adaptive) = coalesce.adaptive {
            self.adapt(wire_bytes, coalesce.time, adaptive, now);
        }
        if self.pending.is_empty() {
            self.due = now + self.time;
        }
        self.pending.push(packet);
        let is_full = coalesce.frames.is_some_and(|frames| self.pending.len() >= frames as usize);
        is_full || self.due <= now
    }

    /// Schedules the event of its interrupt, unless it is.
    pub(crate) fn schedule(&mut self, event: Event, events: &mut Events) {
        if self.due < self.event_at {
            self.event_at = self.due;
            events.push(self.due, event);
        }
    }

    /// Its event came: whether the interrupt is due.
    pub(crate) fn is_due(&mut self, now: Time, event: Event, events: &mut Events) -> bool {
        if self.event_at != now {
            return false;
        }
        self.event_at = Time::MAX;
        if self.due > now {
            // What it was for has been handed over, and other packets wait meanwhile, or none.
            if self.due != Time::MAX {
                self.schedule(event, events);
            }
            return false;
        }
        true
    }

    /// The interrupt: all that waits.
    pub(crate) fn take(&mut self) -> Vec<T> {
        self.due = Time::MAX;
        std::mem::take(&mut self.pending)
    }

    /// Gives back the room of what an interrupt brought, for the next one.
    pub(crate) fn give_back(&mut self, mut packets: Vec<T>) {
        packets.clear();
        self.pending = packets;
    }

    /// Counts a packet, and sets the time if a period of measurement is over.
    fn adapt(&mut self, wire_bytes: u32, most: Duration, adaptive: Adaptive, now: Time) {
        let elapsed = now.since(self.since);
        if elapsed >= adaptive.interval {
            self.time = adaptive.time(most, self.pkts, self.bytes, elapsed);
            (self.since, self.pkts, self.bytes) = (now, 0, 0);
        }
        self.pkts += 1;
        self.bytes += u64::from(wire_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adaptive_time_grows_between_the_rates() {
        let adaptive = Adaptive::default();
        let most = Duration::from_us(128);
        let time = |pkts| adaptive.time(most, pkts, pkts * 1500, Duration::from_ms(250));
        // 100,000 packets in 250 ms are 400,000 a second, 112,500 are 450,000.
        assert_eq!(time(100_000), Duration::ZERO);
        assert_eq!(time(106_250), Duration::from_us(64));
        assert_eq!(time(112_500), most);
        assert_eq!(time(250_000), most);
        let of_acks = adaptive.time(most, 250_000, 250_000 * 66, Duration::from_ms(250));
        assert_eq!(of_acks, Duration::ZERO);
    }
}
