//! A rate limit over any discipline, in the manner of Linux's `tbf` without a peak rate (Linux 6.1).
//!
//! A packet leaves when the bucket holds tokens for all of *it*: packets are spaced by serialisation,
//! but an idle link adds no delay to the first. Time and tokens are whole nanoseconds:
//!
//! ```text
//! cost(len) = floor((len + overhead) * 8e9 / rate)
//! tokens at a try = min(depth, tokens + min(now - last release, depth)),  depth = cost(burst)
//! ```
//!
//! The rounding makes fast links a little faster: 1514 bytes take 1211 ns, not 1211.2, at 10 Gb/s.

use std::marker::PhantomData;

use crate::packet::Packet;
use crate::qdisc::{Inside, Part, Qdisc, QueueAction, Stats};
use crate::time::{Rate, Time};

/// A token bucket; it starts full.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    rate: Rate,
    burst_bytes: u32,
    /// Bytes added to each packet's length (`tc ... overhead`).
    overhead_bytes: u32,
    /// `cost(burst)`: the most that the bucket holds, in ns.
    depth_ns: u64,
    /// Tokens just after the last release.
    tokens_ns: u64,
    /// The last release.
    released_at_ns: u64,
}

impl TokenBucket {
    /// A full bucket that fills at `rate` and holds tokens for `burst_bytes`: at least the longest packet,
    /// as longer ones can never leave. (The reference runs have 1600.)
    pub const fn new(rate: Rate, burst_bytes: u32) -> TokenBucket {
        let depth_ns = rate.time_of(burst_bytes).ns();
        TokenBucket {
            rate,
            burst_bytes,
            overhead_bytes: 0,
            depth_ns,
            tokens_ns: depth_ns,
            released_at_ns: 0,
        }
    }

    /// A full bucket with these bytes added to each packet's length. The burst does not count them.
    #[must_use]
    pub const fn with_overhead(mut self, overhead_bytes: u32) -> TokenBucket {
        self.overhead_bytes = overhead_bytes;
        self.depth_ns = self.cost_ns(self.burst_bytes);
        self.tokens_ns = self.depth_ns;
        self
    }

    /// The length in bytes of the longest packet that can ever leave.
    pub const fn burst_bytes(&self) -> u32 {
        self.burst_bytes
    }

    /// When a packet of `len_bytes` may leave if none leaves before it; `now` if it may already, and
    /// [`Time::MAX`] if it is longer than the burst.
    pub fn ready_at(&self, len_bytes: u32, now: Time) -> Time {
        if len_bytes > self.burst_bytes {
            return Time::MAX;
        }
        let missing_ns = self.cost_ns(len_bytes).saturating_sub(self.tokens_ns_at(now));
        if missing_ns == 0 { now } else { Time::from_ns(now.ns().saturating_add(missing_ns)) }
    }

    /// Pays for a packet of `len_bytes` that leaves now, which [`ready_at`](TokenBucket::ready_at) allowed.
    pub fn take(&mut self, len_bytes: u32, now: Time) {
        let tokens_ns = self.tokens_ns_at(now);
        let cost_ns = self.cost_ns(len_bytes);
        debug_assert!(cost_ns <= tokens_ns, "{len_bytes} bytes left {now} without tokens");
        self.tokens_ns = tokens_ns.saturating_sub(cost_ns);
        self.released_at_ns = now.ns();
    }

    /// Fills at another rate from now on. Tokens that are there stay, in bytes.
    pub fn set_rate(&mut self, rate: Rate, now: Time) {
        let tokens_ns = u128::from(self.tokens_ns_at(now)) * u128::from(self.rate.bps());
        let tokens_ns = u64::try_from(tokens_ns / u128::from(rate.bps())).unwrap_or(u64::MAX);
        self.rate = rate;
        self.depth_ns = self.cost_ns(self.burst_bytes);
        self.tokens_ns = tokens_ns.min(self.depth_ns);
        self.released_at_ns = now.ns();
    }

    const fn cost_ns(&self, len_bytes: u32) -> u64 {
        self.rate.time_of(len_bytes.saturating_add(self.overhead_bytes)).ns()
    }

    fn tokens_ns_at(&self, now: Time) -> u64 {
        let elapsed_ns = now.ns().saturating_sub(self.released_at_ns);
        self.depth_ns.min(self.tokens_ns + elapsed_ns.min(self.depth_ns))
    }
}

/// The discipline `Q` below a [`TokenBucket`].
///
/// The packet at the head stays in `Q`'s backlog until it is released, but `Q` has let it go as soon as it
/// became the head: see [`Qdisc::peek`]. A packet longer than the burst is dropped on arrival. The limit is
/// `Q`'s; the bucket has none.
#[derive(Clone, Debug)]
pub struct Shaped<Q, P> {
    child: Q,
    bucket: TokenBucket,
    /// Length of the packet that `child` has let go, in bytes.
    head_len_bytes: Option<u32>,
    packet: PhantomData<fn() -> P>,
}

impl<P: Packet, Q: Qdisc<P>> Shaped<Q, P> {
    /// The empty queue `child` below a full `bucket`.
    pub fn new(child: Q, bucket: TokenBucket) -> Shaped<Q, P> {
        Shaped { child, bucket, head_len_bytes: None, packet: PhantomData }
    }

    /// The discipline below.
    pub fn child(&self) -> &Q {
        &self.child
    }

    /// Changes the rate of the bucket.
    pub fn set_rate(&mut self, rate: Rate, now: Time) {
        self.bucket.set_rate(rate, now);
    }

    /// Takes the next packet out without tokens: it does not go over the link.
    pub fn dequeue_free(&mut self, now: Time) -> Option<P> {
        self.head_len_bytes = None;
        self.child.dequeue(now)
    }

    /// Makes the child let its next packet go if it has not yet, and gives that packet's length.
    fn peek_child(&mut self, now: Time) -> Option<u32> {
        if self.head_len_bytes.is_none() {
            self.head_len_bytes = self.child.peek(now);
        }
        self.head_len_bytes
    }
}

impl<P: Packet, Q: Qdisc<P>> Qdisc<P> for Shaped<Q, P> {
    fn enqueue(&mut self, pkt: P, now: Time) -> QueueAction {
        if pkt.len_bytes() > self.bucket.burst_bytes {
            return self.child.refuse(pkt.len_bytes());
        }
        let action = self.child.enqueue(pkt, now);
        self.peek_child(now);
        action
    }

    /// Gives the head if there are tokens for it now. The host repeats this until it returns `None`: the
    /// link below a shaper is never busy.
    fn dequeue(&mut self, now: Time) -> Option<P> {
        let len_bytes = self.peek(now)?;
        self.bucket.take(len_bytes, now);
        self.head_len_bytes = None;
        let pkt = self.child.dequeue(now);
        self.peek_child(now);
        pkt
    }

    /// The head's length once there are tokens for it; they are taken only when it is dequeued.
    fn peek(&mut self, now: Time) -> Option<u32> {
        let len_bytes = self.peek_child(now)?;
        (self.bucket.ready_at(len_bytes, now) <= now).then_some(len_bytes)
    }

    fn refuse(&mut self, len_bytes: u32) -> QueueAction {
        self.child.refuse(len_bytes)
    }

    /// The earlier of the head's release and the child's next event.
    fn next_event(&self, now: Time) -> Option<Time> {
        let release = self.head_len_bytes.map(|len_bytes| self.bucket.ready_at(len_bytes, now));
        release.into_iter().chain(self.child.next_event(now)).min()
    }

    fn tick(&mut self, now: Time) {
        self.child.tick(now);
        self.peek_child(now);
    }

    fn len_pkts(&self) -> u32 {
        self.child.len_pkts()
    }

    fn len_bytes(&self) -> u64 {
        self.child.len_bytes()
    }

    fn stats(&self) -> &Stats {
        self.child.stats()
    }

    fn inside(&self) -> Option<Inside> {
        self.child.inside()
    }

    fn part(&self, index: usize) -> Option<Part> {
        self.child.part(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::droptail::{DropTail, DropTailConfig};
    use crate::fifo::Fifo;
    use crate::packet::Ecn;
    use crate::qdisc::DropReason;
    use crate::testing::{Pkt, full};
    use crate::time::Duration;
    use knee_units::Limit;

    fn bucket(bps: u64) -> TokenBucket {
        TokenBucket::new(Rate::from_bps(bps).unwrap(), 1600)
    }

    fn shaped(bps: u64, limit: Limit) -> Shaped<Fifo<DropTail, Pkt>, Pkt> {
        Shaped::new(Fifo::new(DropTail::new(DropTailConfig { limit })), bucket(bps))
    }

    #[test]
    fn costs_are_whole_nanoseconds_rounded_down() {
        let cost_ns = |bps| bucket(bps).cost_ns(1514);
        assert_eq!(cost_ns(10_000_000), 1_211_200);
        assert_eq!(cost_ns(40_000_000), 302_800);
        assert_eq!(cost_ns(1_000_000_000), 12_112);
        assert_eq!(cost_ns(10_000_000_000), 1_211);
        assert_eq!(cost_ns(40_000_000_000), 302);
    }

    #[test]
    fn after_idle_the_second_full_packet_leaves_86_bytes_early() {
        let mut bucket = bucket(1_000_000_000);
        let start = Time::from_ms(5);
        assert_eq!(bucket.ready_at(1514, start), start);
        bucket.take(1514, start);
        // 12 112 ns for the packet, less the 688 ns (86 bytes) of burst left over.
        let second = start + Duration::from_ns(11_424);
        assert_eq!(bucket.ready_at(1514, start), second);
        bucket.take(1514, second);
        // From then on one serialisation time apart.
        assert_eq!(bucket.ready_at(1514, second), second + Duration::from_ns(12_112));
    }

    #[test]
    fn what_goes_around_a_packet_costs_and_takes_nothing_of_the_burst() {
        let mut bucket = bucket(1_000_000_000).with_overhead(24);
        assert_eq!(bucket.cost_ns(1514), 12_304);
        // A packet of the burst's length still passes.
        assert_eq!(bucket.ready_at(1600, Time::ZERO), Time::ZERO);
        bucket.take(1600, Time::ZERO);
        assert_eq!(bucket.ready_at(1514, Time::ZERO), Time::from_ns(12_304));
    }

    #[test]
    fn a_short_packet_waits_for_its_own_time_only() {
        let mut bucket = bucket(1_000_000_000);
        bucket.take(1514, Time::ZERO);
        bucket.take(1514, Time::from_ns(11_424));
        // 66 bytes at 1 Gb/s.
        let expected = Time::from_ns(11_424 + 528);
        assert_eq!(bucket.ready_at(66, Time::from_ns(11_424)), expected);
    }

    #[test]
    fn parts_of_a_nanosecond_give_no_tokens() {
        let mut bucket = bucket(1_000_000_000);
        bucket.take(1600, Time::from_ps(999));
        let ready = Time::from_ns(528);
        assert_eq!(bucket.ready_at(66, Time::from_ps(999)), ready);
        assert_eq!(bucket.ready_at(66, ready - Duration::from_ps(1)), ready);
        assert_eq!(bucket.ready_at(66, ready), ready);
    }

    #[test]
    fn a_packet_longer_than_the_burst_is_dropped_on_arrival() {
        let mut queue = shaped(1_000_000_000, Limit::Pkts(10));
        let long = Pkt { len_bytes: 1601, ..full(0, Ecn::NotEct) };
        assert_eq!(queue.enqueue(long, Time::ZERO), QueueAction::Dropped(DropReason::Full));
        assert_eq!(queue.stats().dropped_full_pkts, 1);
        assert_eq!(queue.next_event(Time::ZERO), None);
        assert_eq!(bucket(1_000_000_000).ready_at(1601, Time::ZERO), Time::MAX);
    }

    #[test]
    fn the_head_counts_until_it_is_released() {
        let mut queue = shaped(1_000_000_000, Limit::Pkts(1));
        queue.enqueue(full(0, Ecn::Ect0), Time::ZERO);
        assert_eq!(queue.dequeue(Time::ZERO).unwrap().id, 0);
        // The bucket is spent: the next one waits, and fills the buffer while it does.
        assert_eq!(queue.enqueue(full(1, Ecn::Ect0), Time::ZERO), QueueAction::Queued);
        assert_eq!(queue.dequeue(Time::ZERO), None);
        assert_eq!(
            queue.enqueue(full(2, Ecn::Ect0), Time::ZERO),
            QueueAction::Dropped(DropReason::Full)
        );
        let release = Time::from_ns(11_424);
        assert_eq!(queue.next_event(Time::ZERO), Some(release));
        assert_eq!(queue.dequeue(release - Duration::from_ps(1)), None);
        assert_eq!(queue.dequeue(release).unwrap().id, 1);
        assert_eq!(queue.next_event(release), None);
    }
}
