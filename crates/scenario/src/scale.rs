//! Slows an experiment down: every rate is multiplied by a scale, and every time divided by it.
//!
//! Queues, windows and sizes keep their values in packets and bytes, and so do the events within a round trip. A
//! machine that is too slow for an experiment can thus run it. docs/compare.md lists what does not
//! scale.

use knee_queue::Threshold;
use knee_queue::time::{Duration, Rate, Time};
use knee_run::spec::{
    Adaptive, Balance, Cable, Changes, Coalesce, Flow, HostConfig, Link, NewState, Ping, Run,
};
use knee_units::settings::{About, Setting, Visit};

/// The scale 1, in millionths.
const UNIT: u32 = 1_000_000;
/// Longest run. Longer ones are untested.
const LONGEST: Duration = Duration::from_ms(7 * 86_400 * 1000);
/// Slowest link, in bit/s.
const SLOWEST_BPS: u64 = 1000;

/// The scale of an experiment, above 0 and at most 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// In millionths, so that scaled times are exact.
    millionths: u32,
}

impl Default for Scale {
    fn default() -> Scale {
        Scale::ONE
    }
}

impl Scale {
    /// The scale of an experiment as written.
    pub const ONE: Scale = Scale { millionths: UNIT };

    /// Returns a scale from a share of 0.000001 to 1.
    ///
    /// # Errors
    /// Describes the allowed range.
    pub fn new(share: f64) -> Result<Scale, String> {
        let millionths = (share * f64::from(UNIT)).round();
        match (1.0..=f64::from(UNIT)).contains(&millionths) {
            true => Ok(Scale { millionths: millionths as u32 }),
            false => Err("must be above 0 and at most 1, as in 0.1".into()),
        }
    }

    /// Returns the scale as a share.
    pub fn share(self) -> f64 {
        f64::from(self.millionths) / f64::from(UNIT)
    }

    /// Returns whether the scale is 1.
    pub fn is_one(self) -> bool {
        self == Scale::ONE
    }

    /// Lengthens a time. It rounds down, so that a period that divides a span still fits as often.
    pub fn time(self, time: Duration) -> Duration {
        let ps = u128::from(time.ps()) * u128::from(UNIT) / u128::from(self.millionths);
        Duration::from_ps(u64::try_from(ps).unwrap_or(u64::MAX))
    }

    /// Delays a moment.
    pub fn moment(self, at: Time) -> Time {
        Time::ZERO + self.time(at.since(Time::ZERO))
    }

    /// Reduces a rate.
    pub fn rate(self, rate: Rate) -> Rate {
        let bps = u128::from(rate.bps()) * u128::from(self.millionths) / u128::from(UNIT);
        u64::try_from(bps).ok().and_then(Rate::from_bps).unwrap_or(rate)
    }

    /// Refuses a run that would become too long or too slow.
    ///
    /// # Errors
    /// Describes the excess in one sentence.
    pub(crate) fn check(self, run: &Run) -> Result<(), String> {
        let share = self.share();
        if self.time(run.end.since(Time::ZERO)) > LONGEST {
            return Err(format!("{share} makes runs longer than 7 days"));
        }
        let slow = |link: &&Link| {
            let scaled = link.rate.map(|rate| (rate.bps() as f64 * share) as u64);
            scaled.is_some_and(|bps| bps < SLOWEST_BPS)
        };
        match run.network.links.iter().find(slow) {
            Some(link) => {
                let name = run.network.link_name(link);
                Err(format!("{share} makes the link {name} slower than 1 kbps"))
            }
            None => Ok(()),
        }
    }

    /// Applies the scale to a run.
    pub(crate) fn apply(self, run: &mut Run) {
        if self.is_one() {
            return;
        }
        self.set_moment(&mut run.end);
        run.network.change_cables(|cable| self.cable(cable));
        if let Some(flow_control) = &mut run.network.flow_control {
            self.set(&mut flow_control.reaction);
        }
        for at in &mut run.network.balance {
            if let Balance::Flowlet { gap, .. } = &mut at.balance {
                self.set(gap);
            }
        }
        run.network.ports.iter_mut().for_each(|port| self.coalesce(&mut port.coalesce));
        self.changes(&mut run.network.changes);
        run.network.change_hosts(|host| self.host(host));
        run.flows.iter_mut().for_each(|flow| self.flow(flow));
        for task in &mut run.schedule.tasks {
            let mut gap = Duration::from_ns(task.gap_ns);
            self.set(&mut gap);
            task.gap_ns = gap.ns();
        }
        for at_ns in run.schedule.pools.iter_mut().flat_map(|pool| &mut pool.arrivals_ns) {
            *at_ns = self.time(Duration::from_ns(*at_ns)).ns();
        }
        run.pings.iter_mut().for_each(|ping| self.ping(ping));
        run.sampling.fields(&mut { self });
        if let Some(window) = &mut run.sampling.window {
            self.set_moment(&mut window.from);
            self.set_moment(&mut window.until);
            self.set(&mut window.period);
        }
    }

    fn cable(self, cable: &mut Cable) {
        let mut slower = self;
        cable.fields(&mut slower);
        cable.queue.each_mut(&mut |queue| queue.settings_mut().fields(&mut slower));
    }

    fn changes(self, changes: &mut Changes) {
        for change in &mut changes.links {
            self.set_moment(&mut change.at);
            match &mut change.to {
                NewState::Rate(rate) => *rate = self.rate(*rate),
                NewState::Delay(delay) => self.set(delay),
                NewState::Down | NewState::Up | NewState::Loss(_) => {}
            }
        }
        changes.routes.iter_mut().for_each(|change| self.set_moment(&mut change.at));
    }

    fn host(self, host: &mut HostConfig) {
        host.fields(&mut { self });
        if let Some(coalesce) = &mut host.coalesce {
            self.coalesce(coalesce);
        }
    }

    fn coalesce(self, coalesce: &mut Coalesce) {
        self.set(&mut coalesce.time);
        match &mut coalesce.adaptive {
            Some(Adaptive::Rate(by_rate)) => {
                self.set(&mut by_rate.interval);
                let slower = |rate: u64| (rate as f64 * self.share()) as u64;
                by_rate.rate_low = slower(by_rate.rate_low);
                by_rate.rate_high = slower(by_rate.rate_high).max(by_rate.rate_low + 1);
            }
            Some(Adaptive::Dim(dim)) => self.set(&mut dim.us),
            None => {}
        }
    }

    fn flow(self, flow: &mut Flow) {
        self.set_moment(&mut flow.start);
        for at in [&mut flow.first_write, &mut flow.stop] {
            *at = at.map(|at| self.moment(at));
        }
        self.set_maybe(&mut flow.base_rtt);
        flow.max_pacing_rate = flow.max_pacing_rate.map(|rate| self.rate(rate));
    }

    fn ping(self, ping: &mut Ping) {
        self.set_moment(&mut ping.start);
        self.set(&mut ping.interval);
        ping.one_way_until = ping.one_way_until.map(|until| self.moment(until));
    }

    fn set(self, time: &mut Duration) {
        *time = self.time(*time);
    }

    fn set_maybe(self, time: &mut Option<Duration>) {
        *time = time.map(|time| self.time(time));
    }

    fn set_moment(self, at: &mut Time) {
        *at = self.moment(*at);
    }
}

impl Visit for Scale {
    fn key(&mut self, _about: About, setting: Setting<'_>) {
        match setting {
            Setting::Time(time) | Setting::Threshold(Threshold::Sojourn(time)) => self.set(time),
            Setting::MaybeTime(time) => self.set_maybe(time),
            Setting::MaybeRate(rate) => *rate = rate.map(|rate| self.rate(rate)),
            // The gain is per second of delay, and delays grow. A scale is at most 1, so the gain does not grow.
            Setting::Gain(gain) => {
                let scaled = u64::from(*gain) * u64::from(self.millionths) / u64::from(UNIT);
                *gain = u32::try_from(scaled).unwrap_or(u32::MAX);
            }
            _ => {}
        }
    }

    fn time(&mut self, time: &mut Duration) {
        self.set(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_grow_and_rates_shrink_exactly() {
        let tenth = Scale::new(0.1).unwrap();
        assert_eq!(tenth.time(Duration::from_us(50)), Duration::from_us(500));
        assert_eq!(tenth.rate(Rate::from_bps(10_000_000_000).unwrap()).bps(), 1_000_000_000);
        assert_eq!(tenth.share(), 0.1);
        // A third of a picosecond is rounded away, and a hundred periods still fit.
        let third = Scale::new(0.3).unwrap();
        let period = third.time(Duration::from_ms(10));
        assert!(period.ps() * 100 <= third.time(Duration::from_ms(1000)).ps());
        assert_eq!(Scale::new(1.0), Ok(Scale::ONE));
        assert!(Scale::default().is_one());
    }

    #[test]
    fn only_shares_are_scales() {
        for bad in [0.0, -0.1, 1.1, 1e-9, f64::NAN, f64::INFINITY] {
            assert_eq!(Scale::new(bad).unwrap_err(), "must be above 0 and at most 1, as in 0.1");
        }
    }
}
