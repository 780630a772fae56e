//! Time, duration and rate as whole numbers.
//!
//! A byte at 100 Gb/s lasts 80 ps, so picoseconds hold every serialisation time exactly enough,
//! and 64 bits of them last 213 days. What is later is [`Time::MAX`], and what is longer as long as can be.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// Picoseconds per nanosecond.
pub const PS_PER_NS: u64 = 1_000;
/// Picoseconds per microsecond.
pub const PS_PER_US: u64 = 1_000_000;
/// Picoseconds per millisecond.
pub const PS_PER_MS: u64 = 1_000_000_000;
/// Picoseconds per second.
pub const PS_PER_S: u64 = 1_000_000_000_000;

/// A moment, in picoseconds since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

/// A span of time, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(u64);

/// A data rate, in bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Time {
    /// The start of the run.
    pub const ZERO: Time = Time(0);
    /// Later than everything that happens.
    pub const MAX: Time = Time(u64::MAX);

    /// `ps` picoseconds after time zero.
    pub const fn from_ps(ps: u64) -> Time {
        Time(ps)
    }
    /// `ns` nanoseconds after time zero.
    pub const fn from_ns(ns: u64) -> Time {
        Time(ns.saturating_mul(PS_PER_NS))
    }
    /// `us` microseconds after time zero.
    pub const fn from_us(us: u64) -> Time {
        Time(us.saturating_mul(PS_PER_US))
    }
    /// `ms` milliseconds after time zero.
    pub const fn from_ms(ms: u64) -> Time {
        Time(ms.saturating_mul(PS_PER_MS))
    }
    /// The value in picoseconds.
    pub const fn ps(self) -> u64 {
        self.0
    }
    /// In whole nanoseconds, rounded down.
    pub const fn ns(self) -> u64 {
        self.0 / PS_PER_NS
    }
    /// In whole microseconds, rounded down.
    pub const fn us(self) -> u64 {
        self.0 / PS_PER_US
    }
    /// In seconds, for tables and plots.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / PS_PER_S as f64
    }
    /// The span since `earlier`; zero if `earlier` is later.
    pub const fn since(self, earlier: Time) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Duration {
    /// No time at all.
    pub const ZERO: Duration = Duration(0);

    /// A span of `ps` picoseconds.
    pub const fn from_ps(ps: u64) -> Duration {
        Duration(ps)
    }
    /// A span of `ns` nanoseconds.
    pub const fn from_ns(ns: u64) -> Duration {
        Duration(ns.saturating_mul(PS_PER_NS))
    }
    /// A span of `us` microseconds.
    pub const fn from_us(us: u64) -> Duration {
        Duration(us.saturating_mul(PS_PER_US))
    }
    /// A span of `ms` milliseconds.
    pub const fn from_ms(ms: u64) -> Duration {
        Duration(ms.saturating_mul(PS_PER_MS))
    }
    /// From seconds, rounded to the nearest picosecond; `None` if negative, not finite or above 213 days.
    pub fn from_secs_f64(secs: f64) -> Option<Duration> {
        let ps = (secs * PS_PER_S as f64).round();
        (ps >= 0.0 && ps < u64::MAX as f64).then_some(Duration(ps as u64))
    }
    /// The value in picoseconds.
    pub const fn ps(self) -> u64 {
        self.0
    }
    /// In whole nanoseconds, rounded down.
    pub const fn ns(self) -> u64 {
        self.0 / PS_PER_NS
    }
    /// In whole microseconds, rounded down.
    pub const fn us(self) -> u64 {
        self.0 / PS_PER_US
    }
    /// In seconds, for tables and plots.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / PS_PER_S as f64
    }
}

impl Rate {
    /// From bits per second; `None` for zero, since nothing ever leaves a link of no rate.
    pub const fn from_bps(bps: u64) -> Option<Rate> {
        if bps == 0 { None } else { Some(Rate(bps)) }
    }
    /// In bits per second; never zero.
    pub const fn bps(self) -> u64 {
        self.0
    }
    /// How long `len_bytes` take, rounded down to a picosecond.
    pub const fn time_of(self, len_bytes: u32) -> Duration {
        Duration((len_bytes as u128 * 8 * PS_PER_S as u128 / self.0 as u128) as u64)
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, d: Duration) -> Time {
        Time(self.0.saturating_add(d.0))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, d: Duration) {
        *self = *self + d;
    }
}

impl Sub<Duration> for Time {
    type Output = Time;
    fn sub(self, d: Duration) -> Time {
        Time(self.0.saturating_sub(d.0))
    }
}

impl Add for Duration {
    type Output = Duration;
    fn add(self, d: Duration) -> Duration {
        Duration(self.0.saturating_add(d.0))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.9} s", self.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_at_100_gbps_is_80_ps() {
        let rate = Rate::from_bps(100_000_000_000).unwrap();
        assert_eq!(rate.time_of(1).ps(), 80);
        assert_eq!(Rate::from_bps(0), None);
    }

    #[test]
    fn seconds_that_do_not_fit_are_refused() {
        assert_eq!(Duration::from_secs_f64(f64::NAN), None);
        assert_eq!(Duration::from_secs_f64(-1.0), None);
        assert_eq!(Duration::from_secs_f64(1e300), None);
        assert_eq!(Duration::from_secs_f64(1e-6), Some(Duration::from_us(1)));
    }

    #[test]
    fn what_does_not_fit_is_the_latest_and_the_longest() {
        let (fits, not) = (u64::MAX / PS_PER_NS, u64::MAX / PS_PER_NS + 1);
        assert_eq!((Time::from_ns(fits).ns(), Time::from_ns(not)), (fits, Time::MAX));
        assert_eq!((Time::from_us(u64::MAX), Time::from_ms(u64::MAX)), (Time::MAX, Time::MAX));
        let longest = Duration::from_ps(u64::MAX);
        assert_eq!((Duration::from_ns(not), Duration::from_us(not)), (longest, longest));
        assert_eq!(Duration::from_ms(u64::MAX), longest);
    }
}
