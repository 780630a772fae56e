//! Values of metrics of a run. `knee_results` lists the metrics.

use knee_file::units::{Quantity as _, Size};
use knee_queue::time::{Duration, Time};
pub use knee_results::{Kind, Metric};
use knee_run::spec::Traffic;

use crate::stats::Samples;

/// A class of transfer sizes in bytes, from the first to below the second. An entry `web` whose sizes are drawn is
/// also measured as `web/small` and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeClass {
    name: &'static str,
    from: u64,
    below: u64,
}

impl SizeClass {
    const ALL: [SizeClass; 3] = [
        SizeClass { name: "small", from: 0, below: 100_000 },
        SizeClass { name: "medium", from: 100_000, below: 1_000_000 },
        SizeClass { name: "large", from: 1_000_000, below: u64::MAX },
    ];

    /// Returns the classes of sizes from `smallest` to `largest`. Empty if there is only one.
    pub(crate) fn of(smallest: u64, largest: u64) -> Vec<SizeClass> {
        let mut classes = SizeClass::ALL.to_vec();
        classes.retain(|class| smallest < class.below && largest >= class.from);
        if classes.len() > 1 { classes } else { Vec::new() }
    }

    /// Name as a part of a traffic entry, with the sizes.
    pub(crate) fn words(self, entry: &str) -> String {
        let sizes = match (self.from, self.below) {
            (0, below) => format!("below {}", Size(below).show()),
            (from, u64::MAX) => format!("from {}", Size(from).show()),
            (from, below) => format!("{} to {}", Size(from).show(), Size(below).show()),
        };
        format!("{} ({sizes})", self.subject(entry))
    }

    /// Name as a part of a traffic entry.
    pub fn subject(self, entry: &str) -> String {
        format!("{entry}/{}", self.name)
    }

    /// Returns whether this traffic is a transfer of the class.
    pub fn holds(self, traffic: Traffic) -> bool {
        matches!(traffic, Traffic::Bulk { bytes: Some(bytes) } if (self.from..self.below).contains(&bytes))
    }
}

/// What a run tells of the time that something took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    Took(Duration),
    /// The end of the run, or the application, cut it off at this age.
    AtLeast(Duration),
}

impl Known {
    /// Returns the least that it took.
    pub(crate) fn least(self) -> Duration {
        match self {
            Known::Took(time) | Known::AtLeast(time) => time,
        }
    }

    /// Returns the time from `begin` to `done`, or to `end` if it is not done.
    pub(crate) fn between(begin: Time, done: Option<Time>, end: Time) -> Known {
        match done {
            Some(done) => Known::Took(done.since(begin)),
            None => Known::AtLeast(end.max(begin).since(begin)),
        }
    }
}

/// Values of one run for one traffic entry or queue.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Name of the traffic entry or link.
    pub subject: String,
    pub kind: Kind,
    /// Values of each metric, in the order of [`Kind::metrics`]. Empty if it was not measured.
    pub values: Vec<(Metric, Samples)>,
    /// Times of transfers and exchanges that waited for a retransmission timer, kept as a separate mode.
    pub late: Vec<(Metric, Samples)>,
    /// Time from which a value is late, that is, has waited for a retransmission timer.
    late_from: Duration,
}

impl Measured {
    /// Makes one without values. Those from `late_from` on are late.
    pub fn new(subject: &str, kind: Kind, late_from: Duration) -> Measured {
        let none = |metric| (metric, Samples::default());
        let waiting = kind.metrics().into_iter().filter(|metric| metric.may_wait_for_a_timer());
        Measured {
            subject: subject.to_owned(),
            kind,
            values: kind.metrics().into_iter().map(none).collect(),
            late: waiting.map(none).collect(),
            late_from,
        }
    }

    /// Returns values as they were measured before. What was late is only in rows.
    pub fn read_again(subject: String, kind: Kind, values: Vec<(Metric, Samples)>) -> Measured {
        Measured { subject, kind, values, late: Vec::new(), late_from: Duration::ZERO }
    }

    /// Keeps sketches of metrics with many values, if `keeps` is set. Nothing may be recorded yet.
    pub fn sketched(mut self, keeps: bool) -> Measured {
        for (metric, samples) in self.values.iter_mut().filter(|_| keeps) {
            if metric.is_distribution() {
                *samples = Samples::sketched();
            }
        }
        self
    }

    /// Records a value in the metric's unit, as [`Measured::record`] does.
    pub fn measure(&mut self, metric: Metric, value: f64) {
        self.record(metric, (value * metric.scale()).round() as u64);
    }

    /// Records a value that the end of the run cut off, and that is at least `bound` in recorded units.
    pub(crate) fn record_cut_off(&mut self, metric: Metric, bound: u64) {
        if let Some((_, samples)) = self.values.iter_mut().find(|(m, _)| *m == metric) {
            samples.record_cut_off(bound);
        }
        if let Some(late) = self.late_of(metric, bound) {
            late.record_cut_off(bound);
        }
    }

    /// Records a value that the end of the run cut off, and that is at least `bound` in the metric's unit.
    pub(crate) fn measure_cut_off(&mut self, metric: Metric, bound: f64) {
        self.record_cut_off(metric, (bound * metric.scale()).round() as u64);
    }

    /// Records a time, or its age where the end of the run cut it off.
    pub(crate) fn record_time(&mut self, metric: Metric, time: Known) {
        match time {
            Known::Took(time) => self.record(metric, time.ns()),
            Known::AtLeast(age) => self.record_cut_off(metric, age.ns()),
        }
    }

    /// Records a value in recorded units, if this kind of traffic has the metric.
    pub fn record(&mut self, metric: Metric, value: u64) {
        if let Some((_, samples)) = self.values.iter_mut().find(|(m, _)| *m == metric) {
            samples.record(value);
        }
        if let Some(late) = self.late_of(metric, value) {
            late.record(value);
        }
    }

    /// Returns where this metric's late values are kept, if a value is late that is at least so large.
    fn late_of(&mut self, metric: Metric, least: u64) -> Option<&mut Samples> {
        let late = self.late.iter_mut().filter(|_| least >= self.late_from.ns());
        late.into_iter().find(|(m, _)| *m == metric).map(|(_, late)| late)
    }
}

/// The part of a run in which rates, queue lengths, exchanges and pings are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Start of the window, which is not part of it.
    pub from: Time,
    /// End of the window, at most that of the run.
    pub until: Time,
}

impl Window {
    /// Returns whether nothing is measured in it: there was no common time, or the run ended before.
    pub(crate) fn is_empty(self) -> bool {
        self.from >= self.until
    }

    /// Returns whether a moment is in the window, which begins after `from`.
    pub fn holds(self, at: Time) -> bool {
        self.from < at && at <= self.until
    }
}
