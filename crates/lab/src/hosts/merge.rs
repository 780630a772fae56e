//! Reports of all machines as one, on one clock.

use super::fleet::ClockAt;
use crate::traffic::TrafficReport;

/// Offsets of a machine's clock before and after a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ClockOver {
    pub(super) before: ClockAt,
    pub(super) after: ClockAt,
}

impl ClockOver {
    /// Time 0 of a run by that clock. The machine starts then, so that its times need no more than what the clock gains on the
    /// other meanwhile.
    pub(super) fn zero_there_ns(&self, zero_ns: u64) -> u64 {
        zero_ns.saturating_add_signed(self.before.ahead_ns)
    }

    /// Drift between the two measurements, in ns.
    pub(super) fn gained_ns(&self) -> i64 {
        self.after.ahead_ns - self.before.ahead_ns
    }

    /// Uncertainty of times that are converted to this machine's clock, in ns.
    pub(super) fn within_ns(&self) -> u64 {
        self.before.within_ns.max(self.after.within_ns)
    }

    /// Drift in parts per million.
    pub(super) fn drift_ppm(&self) -> f64 {
        let between_ns = self.after.at_ns.saturating_sub(self.before.at_ns).max(1);
        self.gained_ns() as f64 * 1e6 / between_ns as f64
    }

    /// A time since time 0 by that clock, as it is by this one: what is gained is spread evenly over the time between the two
    /// looks.
    fn here_ns(&self, zero_ns: u64, there_ns: u64) -> u64 {
        let between_ns = i128::from(self.after.at_ns.saturating_sub(self.before.at_ns).max(1));
        let since_ns = i128::from(zero_ns) + i128::from(there_ns) - i128::from(self.before.at_ns);
        let gained_ns = i128::from(self.gained_ns()) * since_ns / between_ns;
        u64::try_from((i128::from(there_ns) - gained_ns).max(0)).unwrap_or(u64::MAX)
    }
}

/// Everything that machines recorded, in the order in which it happened. `zero_ns` is time 0 by this machine's clock. Requests of flows
/// that are `planned` began when the plan says, which is the same for all.
pub(super) fn merge(
    zero_ns: u64,
    planned: &dyn Fn(u32) -> bool,
    reports: impl IntoIterator<Item = (TrafficReport, ClockOver)>,
) -> TrafficReport {
    let mut all = TrafficReport { window: Some(Default::default()), ..TrafficReport::default() };
    for (mut report, clock) in reports {
        let here = |ns: u64| clock.here_ns(zero_ns, ns);
        for side in &mut report.sides {
            for time_ns in [
                &mut side.connected_ns,
                &mut side.established_ns,
                &mut side.done_ns,
                &mut side.stopped_ns,
            ] {
                *time_ns = time_ns.map(here);
            }
        }
        let measured = report.rpcs.iter_mut().filter(|(flow, ..)| !planned(*flow));
        measured.for_each(|(_, start_ns, _)| *start_ns = here(*start_ns));
        report.pings.iter_mut().for_each(|(_, sent_ns, _)| *sent_ns = here(*sent_ns));
        report.flow_samples.iter_mut().for_each(|sample| sample.0 = here(sample.0));
        // Ends of periods are the same for all: they are what was asked for, and not when it was looked.
        all.end_ns = all.end_ns.max(report.end_ns);
        all.late_ns = all.late_ns.max(report.late_ns);
        all.cpu_s += report.cpu_s;
        all.sides.append(&mut report.sides);
        all.rpcs.append(&mut report.rpcs);
        all.pings.append(&mut report.pings);
        all.flow_samples.append(&mut report.flow_samples);
        all.goodput_samples.append(&mut report.goodput_samples);
        // Without the sides of one machine, the counters of the others' connections are incomplete.
        all.window = all
            .window
            .zip(report.window)
            .map(|([from, until], [more, after])| [[from, more].concat(), [until, after].concat()]);
    }
    all.rpcs.sort_by_key(|(flow, start_ns, latency_ns)| (start_ns + latency_ns, *flow));
    all.pings.sort_by_key(|(ping, sent_ns, _)| (*sent_ns, *ping));
    all.flow_samples.sort_by_key(|(at_ns, flow, ..)| (*at_ns, *flow));
    all.goodput_samples.sort_by_key(|(at_ns, flow, _)| (*at_ns, *flow));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::SideReport;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_clock_that_gains_is_brought_back_evenly() {
        // 5 s ahead, and 1 ms more ahead 10 s later.
        let at = |at_ns, ahead_ns| ClockAt { at_ns, ahead_ns, within_ns: 100 };
        let clock = ClockOver {
            before: at(100 * S, 5 * S as i64),
            after: at(110 * S, 5 * S as i64 + 1_000_000),
        };
        assert_eq!(clock.zero_there_ns(101 * S), 106 * S);
        assert_eq!((clock.drift_ppm(), clock.within_ns()), (100.0, 100));
        // At 105 s half of it has been gained.
        assert_eq!(clock.here_ns(101 * S, 4 * S), 4 * S - 500_000);
        // Before there was anything, nothing.
        assert_eq!(clock.here_ns(100 * S, 0), 0);
    }

    #[test]
    fn what_machines_report_is_one_in_the_order_of_time() {
        let side =
            |flow, listens, done_ns| SideReport { flow, listens, done_ns, ..SideReport::default() };
        let one = TrafficReport {
            end_ns: 9,
            sides: vec![side(0, false, None)],
            rpcs: vec![(3, 10, 5), (3, 15, 1)],
            cpu_s: 1.0,
            ..TrafficReport::default()
        };
        let other = TrafficReport {
            end_ns: 8,
            late_ns: 7,
            sides: vec![side(0, true, Some(6))],
            rpcs: vec![(4, 1, 14)],
            goodput_samples: vec![(2, 0, 1)],
            cpu_s: 2.0,
            ..TrafficReport::default()
        };
        let all =
            merge(0, &|_| false, [(one, ClockOver::default()), (other, ClockOver::default())]);
        assert_eq!(all.rpcs, [(3, 10, 5), (4, 1, 14), (3, 15, 1)]);
        assert_eq!((all.end_ns, all.late_ns, all.cpu_s, all.sides.len()), (9, 7, 3.0, 2));
        assert_eq!(all.sides[1].done_ns, Some(6));
    }

    #[test]
    fn planned_requests_begin_when_the_plan_says() {
        let report = TrafficReport { rpcs: vec![(3, S, 5), (4, S, 5)], ..TrafficReport::default() };
        let at = |at_ns, ahead_ns| ClockAt { at_ns, ahead_ns, within_ns: 100 };
        let clock = ClockOver { before: at(0, 0), after: at(10 * S, 1_000_000) };
        let all = merge(0, &|flow| flow == 3, [(report, clock)]);
        assert_eq!(all.rpcs, [(4, S - 100_000, 5), (3, S, 5)]);
    }
}
