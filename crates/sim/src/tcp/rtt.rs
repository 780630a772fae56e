//! RTT estimation: the retransmission timeout and the windowed minimum.

use super::HostState;
use super::seq::after;
use knee_queue::time::{Duration, Time};

/// The longest retransmission timeout.
pub(super) const RTO_MAX_MS: u64 = 120_000;
/// The retransmission timeout before the first RTT sample.
pub(super) const RTO_INITIAL_MS: u64 = 1_000;
/// The retransmission timeout if the handshake gave no sample.
const RTO_FALLBACK_MS: u64 = 3_000;

/// Converts an RTT by timestamps: ticks of 1 ms, at least one. An echo from the future, or older
/// than any packet can be, is no sample. Linux: `tcp_rtt_tsopt_us`.
pub(super) fn from_ticks(ticks: u32) -> Option<u32> {
    const TICKS_MAX: u32 = 500_000;
    (ticks <= TICKS_MAX).then(|| ticks.max(1) * 1000)
}

/// The RTT estimator of RFC 6298 as in Linux: the deviation takes the largest value of each round
/// trip, and falls slowly.
#[derive(Debug)]
pub(crate) struct RttEstimator {
    /// Deviation, us << 2.
    mdev_us: u32,
    /// The largest deviation in this round trip, us << 2.
    mdev_max_us: u32,
    /// The deviation that the timeout adds to srtt, us.
    rttvar_us: u32,
    /// The round trip ends when this number is acknowledged.
    rtt_seq: u32,
    rto_min_us: u32,
    pub(super) rto_jiffies: u32,
}

impl RttEstimator {
    pub(super) fn new(host: &HostState) -> RttEstimator {
        RttEstimator {
            mdev_us: 1_000_000,
            mdev_max_us: 0,
            rttvar_us: 0,
            rtt_seq: 0,
            // The kernel stores the minimum in ticks.
            rto_min_us: host.jiffies.in_us(host.jiffies.of_us(host.config.rto_min.us())) as u32,
            rto_jiffies: host.jiffies.of_ms(RTO_INITIAL_MS),
        }
    }

    pub(super) fn mdev_us(&self) -> u32 {
        self.mdev_us
    }

    pub(super) fn rto_min_us(&self) -> u32 {
        self.rto_min_us
    }

    /// Takes one sample. `srtt_us` is us << 3; returns its new value. Linux: `tcp_rtt_estimator`.
    pub(super) fn sample(
        &mut self,
        srtt_us: u32,
        rtt_us: u32,
        (snd_una, snd_nxt): (u32, u32),
    ) -> u32 {
        if srtt_us == 0 {
            self.mdev_us = rtt_us << 1;
            self.rttvar_us = self.mdev_us.max(self.rto_min_us);
            self.mdev_max_us = self.rttvar_us;
            self.rtt_seq = snd_nxt;
            return (rtt_us << 3).max(1);
        }
        let error = i64::from(rtt_us) - i64::from(srtt_us >> 3);
        let deviation = i64::from(self.mdev_us >> 2);
        let mut change = error.abs() - deviation;
        if error < 0 && change > 0 {
            // A falling RTT does not lengthen the timeout.
            change >>= 3;
        }
        self.mdev_us = (i64::from(self.mdev_us) + change) as u32;
        if self.mdev_us > self.mdev_max_us {
            self.mdev_max_us = self.mdev_us;
            self.rttvar_us = self.rttvar_us.max(self.mdev_max_us);
        }
        if after(snd_una, self.rtt_seq) {
            if self.mdev_max_us < self.rttvar_us {
                self.rttvar_us -= (self.rttvar_us - self.mdev_max_us) >> 2;
            }
            self.rtt_seq = snd_nxt;
            self.mdev_max_us = self.rto_min_us;
        }
        ((i64::from(srtt_us) + error) as u32).max(1)
    }

    /// Sets the timeout from the estimate, without earlier doublings. Linux: `tcp_set_rto`,
    /// `__tcp_set_rto`, `tcp_bound_rto`.
    #[inline]
    pub(super) fn set_rto(&mut self, srtt_us: u32, host: &HostState) {
        let rto = host.jiffies.of_us(u64::from(srtt_us >> 3) + u64::from(self.rttvar_us));
        self.rto_jiffies = rto.min(host.jiffies.of_ms(RTO_MAX_MS));
    }

    /// Sets the timeout of an established connection without an RTT sample. Linux:
    /// `tcp_init_metrics`.
    pub(super) fn fall_back(&mut self, host: &HostState) {
        self.rto_jiffies = host.jiffies.of_ms(RTO_FALLBACK_MS);
        self.rttvar_us = RTO_FALLBACK_MS as u32 * 1000;
        self.mdev_us = self.rttvar_us;
        self.mdev_max_us = self.rttvar_us;
    }

    pub(super) fn back_off(&mut self, host: &HostState) {
        self.rto_jiffies = (self.rto_jiffies * 2).min(host.jiffies.of_ms(RTO_MAX_MS));
    }
}

/// Windowed minimum by Kathleen Nichols' method: the best sample of the window, then the best after
/// it, twice.
#[derive(Debug)]
pub(crate) struct MinRtt {
    /// Times and samples, us; `u32::MAX`: none yet.
    best: [(Time, u32); 3],
}

impl Default for MinRtt {
    fn default() -> MinRtt {
        MinRtt { best: [(Time::ZERO, u32::MAX); 3] }
    }
}

impl MinRtt {
    pub(super) fn get(&self) -> Option<u32> {
        Some(self.best[0].1).filter(|us| *us < u32::MAX)
    }

    /// Takes a sample. Linux: `minmax_running_min`, `minmax_subwin_update`.
    #[inline]
    pub(super) fn update(&mut self, now: Time, rtt_us: u32, window: Duration) {
        let sample = (now, rtt_us);
        let age = |then: Time| now.since(then);
        let part = |n: u64| Duration::from_ps(window.ps() / n);
        if rtt_us <= self.best[0].1 || age(self.best[2].0) > window {
            self.best = [sample; 3];
            return;
        }
        if rtt_us <= self.best[1].1 {
            self.best[1] = sample;
            self.best[2] = sample;
        } else if rtt_us <= self.best[2].1 {
            self.best[2] = sample;
        }
        if age(self.best[0].0) > window {
            self.best = [self.best[1], self.best[2], sample];
            if age(self.best[0].0) > window {
                self.best = [self.best[1], self.best[2], sample];
            }
        } else if self.best[1].0 == self.best[0].0 && age(self.best[0].0) > part(4) {
            self.best[1] = sample;
            self.best[2] = sample;
        } else if self.best[2].0 == self.best[1].0 && age(self.best[0].0) > part(2) {
            self.best[2] = sample;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Jiffies;
    use knee_algo::module::LoadedModules;
    use knee_run::spec::{HostConfig, LinuxVersion};

    fn host() -> HostState {
        HostState {
            config: HostConfig::new(LinuxVersion(6, 1)).into(),
            jiffies: Jiffies::new(1000, 0, Duration::ZERO),
            modules: LoadedModules::default(),
            gro: Default::default(),
        }
    }

    #[test]
    fn the_timeout_of_any_short_rtt_is_201_ms() {
        let host = host();
        let mut rtt = RttEstimator::new(&host);
        assert_eq!(rtt.rto_jiffies, 1000);
        let mut srtt_us = 0;
        for _ in 0..100 {
            srtt_us = rtt.sample(srtt_us, 200, (1, 0));
            rtt.set_rto(srtt_us, &host);
            assert_eq!((srtt_us >> 3, rtt.rto_jiffies), (200, 201));
        }
    }

    #[test]
    fn the_least_timeout_is_in_whole_ticks() {
        let mut host = host();
        host.jiffies = Jiffies::new(250, 0, Duration::ZERO);
        std::sync::Arc::make_mut(&mut host.config).rto_min = Duration::from_ms(5);
        let mut rtt = RttEstimator::new(&host);
        let srtt_us = rtt.sample(0, 200, (1, 0));
        rtt.set_rto(srtt_us, &host);
        // Two ticks of 4 ms and the RTT, in ticks.
        assert_eq!((rtt.rto_min_us(), rtt.rto_jiffies), (8000, 3));
    }

    #[test]
    fn a_new_sample_takes_back_the_backoff() {
        let host = host();
        let mut rtt = RttEstimator::new(&host);
        let srtt_us = rtt.sample(0, 100_000, (1, 0));
        rtt.set_rto(srtt_us, &host);
        assert_eq!(rtt.rto_jiffies, 300, "RTT + 4 * RTT / 2 is 300 ms");
        rtt.back_off(&host);
        assert_eq!(rtt.rto_jiffies, 600);
        rtt.set_rto(srtt_us, &host);
        assert_eq!(rtt.rto_jiffies, 300);
    }

    #[test]
    fn the_minimum_is_forgotten_after_its_window() {
        let window = Duration::from_ms(300_000);
        let mut min = MinRtt::default();
        min.update(Time::ZERO, 100, window);
        for second in 1..299 {
            min.update(Time::from_ms(second * 1000), 200, window);
            assert_eq!(min.get(), Some(100));
        }
        min.update(Time::from_ms(301_000), 200, window);
        assert_eq!(min.get(), Some(200));
    }
}
