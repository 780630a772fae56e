//! What a link can send in a time: the whole that its utilisation is a share of.

use knee_queue::time::{PS_PER_S, Time};

use crate::spec::{Link, LinkId, Network, NewState, Serialisation};

/// What a link can send, from one moment to the next: its rate over time, which may change, nothing while it is down, and
/// what its token bucket lets through at once.
#[derive(Clone, Debug)]
pub struct Capacity {
    /// Bits per second from each moment on.
    rates: Vec<(Time, u64)>,
    /// What the bucket holds, in bits; 0: there is none.
    depth: f64,
    /// What is in the bucket, at most.
    tokens: f64,
    at: Time,
}

impl Network {
    /// Returns what a link can send from the start of a run on. `None`: it has no rate.
    pub fn capacity(&self, link: LinkId) -> Option<Capacity> {
        Capacity::new(self.links.get(link as usize)?, link, self)
    }
}

impl Capacity {
    fn new(link: &Link, id: LinkId, network: &Network) -> Option<Capacity> {
        let mut rate = link.rate?.bps();
        let depth = match link.serialisation {
            Serialisation::TokenBucket { burst_bytes } => {
                8.0 * (f64::from(burst_bytes) + f64::from(link.overhead_bytes))
            }
            Serialisation::StoreAndForward => 0.0,
        };
        let mut rates = vec![(Time::ZERO, rate)];
        let mut is_down = false;
        for change in network.changes.links.iter().filter(|change| change.link == id) {
            match change.to {
                NewState::Rate(new) => rate = new.bps(),
                NewState::Down => is_down = true,
                NewState::Up => is_down = false,
                NewState::Delay(_) | NewState::Loss(_) => continue,
            }
            // A bucket fills while its link is down.
            let can_send = depth > 0.0 || !is_down;
            rates.push((change.at, if can_send { rate } else { 0 }));
        }
        Some(Capacity { rates, depth, tokens: depth, at: Time::ZERO })
    }

    /// Goes on to a later moment, by which the link has sent so many bits more, with everything around its frames. Returns
    /// how many it could have sent.
    pub fn advance(&mut self, until: Time, sent_bits: f64) -> f64 {
        let could = self.tokens + self.at_rate(self.at, until);
        self.tokens = (could - sent_bits).clamp(0.0, self.depth);
        self.at = self.at.max(until);
        could
    }

    /// Bits at the rates between two moments.
    fn at_rate(&self, from: Time, until: Time) -> f64 {
        let ends = self.rates[1..].iter().map(|(at, _)| *at).chain([Time::MAX]);
        let bits = self.rates.iter().zip(ends).map(|((begin, bps), end)| {
            let (begin, end) = ((*begin).max(from), end.min(until));
            let ps = end.ps().saturating_sub(begin.ps());
            *bps as f64 * ps as f64 / PS_PER_S as f64
        });
        bits.sum()
    }
}

#[cfg(test)]
mod tests {
    use knee_queue::time::Rate;
    use knee_queue::{DropTailConfig, Limit, QueueConfig};

    use super::*;
    use crate::spec::{Cable, Changes, LinkChange};

    fn capacity(serialisation: Serialisation, changes: &[(u64, NewState)]) -> Capacity {
        let cable = Cable {
            serialisation,
            ..Cable::new(
                Rate::from_bps(1_000_000),
                QueueConfig::DropTail(DropTailConfig { limit: Limit::Pkts(10) }),
            )
        };
        let link = Link { from: 0, to: 1, parallel: 1, sampled: false, cable: cable.into() };
        let to =
            |(ms, to): &(u64, NewState)| LinkChange { at: Time::from_ms(*ms), link: 0, to: *to };
        let changes = Changes { links: changes.iter().map(to).collect(), ..Changes::default() };
        Network { links: vec![link], changes, ..Network::default() }.capacity(0).expect("a rate")
    }

    #[test]
    fn a_rate_that_changes_counts_while_it_lasts() {
        let to = |bps: u64| NewState::Rate(Rate::from_bps(bps).expect("above 0"));
        let steps = [
            (100, to(10_000_000)),
            (200, NewState::Down),
            (300, to(2_000_000)),
            (400, NewState::Up),
        ];
        let mut capacity = capacity(Serialisation::StoreAndForward, &steps);
        assert_eq!(capacity.advance(Time::from_ms(50), 0.0), 50_000.0);
        // 50 ms at 1 Mbps, and 100 ms at 10 Mbps; then nothing, and what it was given while it was down.
        assert_eq!(capacity.advance(Time::from_ms(200), 0.0), 1_050_000.0);
        assert_eq!(capacity.advance(Time::from_ms(400), 0.0), 0.0);
        assert_eq!(capacity.advance(Time::from_ms(500), 0.0), 200_000.0);
    }

    #[test]
    fn a_bucket_lets_through_what_it_holds_and_is_empty_then() {
        let mut capacity = capacity(Serialisation::TokenBucket { burst_bytes: 1000 }, &[]);
        // 8,000 bits of burst, and 10,000 at the rate; all of it is sent.
        assert_eq!(capacity.advance(Time::from_ms(10), 18_000.0), 18_000.0);
        assert_eq!(capacity.advance(Time::from_ms(20), 10_000.0), 10_000.0);
        // It is full again after a time without packets.
        assert_eq!(capacity.advance(Time::from_ms(120), 0.0), 100_000.0);
        assert_eq!(capacity.advance(Time::from_ms(121), 0.0), 9_000.0);
    }
}
