//! One configuration of an experiment with every value resolved. It builds the run of each repeat.

mod amounts;
pub(crate) mod remarks;

use std::cell::RefCell;
use std::collections::HashSet;
use std::path::Path;

use knee_algo::Algorithm;
use knee_file::keys::{Choice, Key, List, Shape, Table, Text, entries};
use knee_file::units::Quantity as _;
use knee_file::{Error, Fields, Node, Reader, Resolved, keys};
use knee_queue::time::{Duration, Time};
use knee_run::outcome::Outcome;
use knee_run::spec::{Flow, MeasuredWindow, NodeId, Run, Sampling, Schedule};

use crate::cases::MAX_RUNS;
use crate::cc::Given;
use crate::kind::{self, Converged, EntryInRun, Facts, TrafficSpec};
use crate::memory::Memory;
use crate::metric::{Kind, Metric, SizeClass, Window};
use crate::network::NetworkSpec;
use crate::output::Output;
use crate::random::run_seed;
use crate::scale::Scale;
use crate::switches;

/// Default sampling period of goodput, for convergence times.
const GOODPUT_PERIOD: Duration = Duration::from_ms(10);

/// A network with its traffic and measurements.
#[derive(Clone, Debug)]
pub struct Scenario {
    network: NetworkSpec,
    traffic: Vec<TrafficSpec>,
    end: Time,
    until_done: bool,
    sampling: Sampling,
    measure: Measure,
    /// Which rows results have.
    pub output: Output,
    /// Additional plots of connections.
    pub(crate) plot: Vec<String>,
    /// Memory of a run.
    pub(crate) memory: Memory,
    /// Scale of runs and window, relative to the other fields.
    pub(crate) scale: Scale,
    /// Every used value, by its path.
    pub(crate) resolved: Resolved,
}

keys! {
    /// Duration and repeats.
    pub(crate) static RUN: RunKeys = "run" {
        /// Length of a run.
        duration: Key<Duration> = needed("2 s").above("0 s"),
        /// End when all finite traffic is complete.
        until_done: Key<bool> = or(false),
        /// Which part of a run is measured: that from `measure_from` to `measure_until`, or that in which all bulk transfers
        /// run, from the last start to the first end. The second runs each run twice.
        measure: Choice<Part> = of(PARTS).or("from until"),
        /// Start of measurement, for goodput, queues, exchanges and pings.
        measure_from: Key<Duration> = usually("the beginning"),
        /// End of measurement.
        measure_until: Key<Duration> = usually("the end"),
        /// Runs per case and value.
        repeat: Key<u32> = or(1).within(1, MAX_RUNS as u64),
        /// Seed of the first run; later seeds follow from it.
        seed: Key<u64> = or(1).within(0, i64::MAX as u64),
    }
}

/// Sampling periods of time series.
static SAMPLE: Fields = Fields { show: |v| Sampling::default().fields(v), tables: |below| below };

keys! {
    /// What is plotted of samples.
    static PLOT: PlotKeys = "plot" {
        /// Plots besides cwnd and RTT: internal values (`knee algorithms NAME`), or columns of `series-flows.csv`.
        plot: Key<List<Text>> = like("velocity").usually("none"),
    }
}

/// The table `[sample]`.
pub(crate) static SAMPLE_TABLE: Table = Table {
    name: "sample",
    says: "Sampling periods of time series.",
    shape: || Shape::Keys(entries(&[&SAMPLE, &PLOT])),
};

/// The part of a run that is measured, as a file has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    FromUntil,
    WhileAllRun,
}

const PARTS: &[(&str, Part)] =
    &[("from until", Part::FromUntil), ("while all run", Part::WhileAllRun)];

/// The part of a run that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measure {
    WholeRun,
    Window(Window),
    /// While all bulk transfers run.
    WhileAllRun,
}

/// Steps of a window that follows from a run, at least: hosts that look at regular times look so often.
const WINDOW_STEPS: u64 = 100;

impl Scenario {
    /// Reads a document whose case and varied values are already in place. Samples may take so much memory.
    pub(crate) fn read(
        file: &Path,
        root: &Node,
        given: Given<'_>,
        most_bytes: u64,
    ) -> Result<Scenario, Error> {
        let resolved = RefCell::default();
        let mut scenario =
            Scenario::read_with(&Reader::root(file, root, &resolved), given, most_bytes)?;
        scenario.resolved = resolved.into_inner();
        Ok(scenario)
    }

    fn read_with(root: &Reader<'_>, given: Given<'_>, most_bytes: u64) -> Result<Scenario, Error> {
        let network = NetworkSpec::read(root)?;
        let traffic = kind::read(root, &network, given)?;
        if let Err((key, why)) = network.check_ways(traffic.iter().map(TrafficSpec::ways)) {
            return Err(root.need_child("network")?.error(key, why));
        }
        let run = root.need_child("run")?.only(&[&RUN])?;
        let duration = run.read(&RUN.duration)?;
        let end = Time::ZERO + duration;
        let measure = read_measure(&run, end)?;
        let has_bulk = traffic.iter().any(|entry| matches!(entry.kind, Kind::Bulk | Kind::Endless));
        if measure == Measure::WhileAllRun && !has_bulk {
            let why = "\"while all run\" needs traffic of kind \"bulk\"";
            return Err(run.error(&RUN.measure, why));
        }
        let rules: Vec<_> = traffic.iter().filter_map(TrafficSpec::converged).collect();
        let until_done = run.read(&RUN.until_done)?;
        let window = match measure {
            Measure::Window(window) => Some(window),
            Measure::WholeRun | Measure::WhileAllRun => None,
        };
        let sampling = read_sampling(root, window, until_done, &rules)?;
        let mut scenario = Scenario {
            network,
            traffic,
            end,
            until_done,
            sampling,
            measure,
            output: Output::read(root)?,
            plot: read_plot(root)?,
            memory: Memory::default(),
            scale: Scale::ONE,
            resolved: Resolved::new(),
        };
        if let Some(late) = scenario.traffic.iter().find(|entry| entry.start() >= duration) {
            let message = format!("must be later than the start of \"{}\"", late.name);
            return Err(run.error(&RUN.duration, message));
        }
        if until_done && !scenario.traffic.iter().any(TrafficSpec::can_end) {
            let why =
                "acts on nothing: no traffic ends by itself; leave it out, or give sizes or counts";
            return Err(run.error(&RUN.until_done, why));
        }
        switches::check_changes(&root.need_child("network")?, duration)?;
        scenario.memory = amounts::check(&scenario, root, most_bytes)?;
        Ok(scenario)
    }

    /// Returns the run of a repeat. All randomness depends on `seed` and `repeat`, so the same repeat starts its
    /// flows at the same times in every case.
    pub fn run(&self, seed: u64, repeat: u32) -> Run {
        let seed = run_seed(seed, repeat);
        let mut run = Run {
            seed,
            end: self.end,
            until_done: self.until_done,
            network: self.network.build(|| self.destinations(), seed),
            flows: Vec::new(),
            pings: Vec::new(),
            sampling: self.sampling,
            schedule: Schedule::default(),
        };
        let groups = self.group_of_entries();
        for (entry, (spec, group)) in self.traffic.iter().zip(groups).enumerate() {
            spec.build(&EntryInRun { entry, group, seed }, &mut run);
        }
        self.output.limit_series(&mut run);
        self.scale.apply(&mut run);
        run
    }

    fn destinations(&self) -> HashSet<NodeId> {
        self.traffic.iter().flat_map(TrafficSpec::destinations).collect()
    }

    /// Returns the names and kinds of traffic entries, without duplicates.
    pub fn groups(&self) -> Vec<(String, Kind)> {
        let mut groups: Vec<(String, Kind)> = Vec::new();
        for entry in &self.traffic {
            if !groups.iter().any(|(name, _)| *name == entry.name) {
                groups.push((entry.name.clone(), entry.kind));
            }
        }
        groups
    }

    fn group_of_entries(&self) -> Vec<u32> {
        let groups = self.groups();
        let index = |entry: &TrafficSpec| groups.iter().position(|(name, _)| *name == entry.name);
        self.traffic.iter().map(|entry| index(entry).unwrap_or(0) as u32).collect()
    }

    /// Returns the group of each ping stream, in the order of [`Run::pings`].
    pub fn ping_groups(&self) -> Vec<u32> {
        let entries = self.traffic.iter().zip(self.group_of_entries());
        entries
            .flat_map(|(entry, group)| std::iter::repeat_n(group, entry.ping_streams()))
            .collect()
    }

    /// Returns the metrics of a traffic entry or a recorded link. `None` for an unknown name.
    pub fn measured_of(&self, subject: &str) -> Option<Vec<Metric>> {
        let entry = self.groups().into_iter().find(|(name, _)| name == subject);
        let queue = || self.network.has_sampled_queue(subject).then_some(Kind::Queue);
        let buffer = || self.network.has_sampled_buffer(subject).then_some(Kind::Buffer);
        let is_class = |(name, _): &(String, Kind)| {
            self.size_classes(name).iter().any(|c| c.subject(name) == subject)
        };
        let class = || self.groups().iter().any(is_class).then_some(Kind::SizeClass);
        Some(entry.map(|(_, kind)| kind).or_else(queue).or_else(buffer).or_else(class)?.metrics())
    }

    /// Whether this key of `[sample]` has a period.
    pub(crate) fn is_sampled(&self, key: &str) -> bool {
        let Sampling { flows, queues, goodput, .. } = self.sampling;
        match key {
            "flows" => flows.is_some(),
            "queues" => queues.is_some(),
            _ => goodput.is_some(),
        }
    }

    /// Returns the size classes that are measured separately, over all entries of this name.
    pub fn size_classes(&self, subject: &str) -> Vec<SizeClass> {
        let entries = self.traffic.iter().filter(|entry| entry.name == subject);
        let drawn: Vec<_> = entries.filter_map(TrafficSpec::drawn_sizes).collect();
        let smallest = drawn.iter().map(|(smallest, _)| *smallest).min();
        let largest = drawn.iter().map(|(_, largest)| *largest).max();
        smallest.zip(largest).map_or_else(Vec::new, |(small, large)| SizeClass::of(small, large))
    }

    /// Returns the metrics that a table shows for a traffic entry.
    pub fn shown(&self, subject: &str) -> Option<&[Metric]> {
        self.traffic.iter().find(|entry| entry.name == subject).map(|entry| entry.show.as_slice())
    }

    /// Returns the entries of this name, with their numbers.
    pub fn entries_of(&self, subject: &str) -> Vec<(usize, &TrafficSpec)> {
        let entries = self.traffic.iter().enumerate();
        entries.filter(|(_, entry)| entry.name == subject).collect()
    }

    /// Returns what measuring a run needs of it.
    pub fn facts<'a>(
        &self,
        run: &'a Run,
        outcome: &'a Outcome,
        window: Option<Window>,
    ) -> Facts<'a> {
        let start = |entry: &TrafficSpec| self.scale.moment(Time::ZERO + entry.start());
        let starts = self.traffic.iter().map(start).collect();
        Facts::new((run, outcome), window, starts, self.sampling.goodput, self.ping_groups())
    }

    /// Returns whether the measured part follows from the run itself.
    pub fn measures_while_all_run(&self) -> bool {
        self.measure == Measure::WhileAllRun
    }

    /// Returns the window in which all bulk transfers of a run ran. It is empty if there was no such time.
    pub fn while_all_run(&self, run: &Run, outcome: &Outcome) -> MeasuredWindow {
        let kinds: Vec<Kind> = self.groups().into_iter().map(|(_, kind)| kind).collect();
        let is_bulk =
            |flow: &Flow| matches!(kinds[flow.group as usize], Kind::Bulk | Kind::Endless);
        let flows = run.flows.iter().zip(&outcome.flows).filter(|(flow, _)| is_bulk(flow));
        let (mut from, mut until) = (Time::ZERO, outcome.end);
        for (_, got) in flows {
            from = from.max(got.connected_at.unwrap_or(outcome.end));
            until = until.min(got.done_at.or(got.stopped_at).unwrap_or(outcome.end));
        }
        let step = match run.sampling.goodput {
            Some(period) => period.ps(),
            // A power of ten, so that both ends have a common period that is not short.
            None => {
                let longest = until.max(from).since(from).ps() / WINDOW_STEPS;
                10_u64.pow(longest.max(1).ilog10())
            }
        };
        let from = Time::from_ps(from.ps().div_ceil(step) * step);
        let until = Time::from_ps(until.ps() / step * step).max(from);
        let period = common_period(from, until).max(Duration::from_ps(1));
        MeasuredWindow { from, until, period }
    }

    /// Describes over which part of a run figures are means.
    pub(crate) fn measured_part(&self) -> String {
        let show = |at: Time| at.since(Time::ZERO).show();
        let part = match self.measure {
            Measure::WholeRun if self.until_done => {
                return "all figures: over the whole run, until all traffic is done".to_owned();
            }
            Measure::WholeRun => return "all figures: over the whole run".to_owned(),
            Measure::Window(Window { from, until }) if until == self.end && self.until_done => {
                format!("from {} to the end", show(from))
            }
            Measure::Window(Window { from, until }) => {
                format!("from {} to {}", show(from), show(until))
            }
            Measure::WhileAllRun => "while all bulk transfers run".to_owned(),
        };
        format!(
            "goodput, queue lengths, exchanges, pings and window_*: {part}; everything else: over the whole run"
        )
    }

    /// Returns whether a run ends when all its traffic has.
    pub fn until_done(&self) -> bool {
        self.until_done
    }

    /// Returns whether any connection is under the case's algorithm.
    pub(crate) fn takes_case_cc(&self) -> bool {
        self.traffic.iter().any(TrafficSpec::takes_case_cc)
    }

    /// Returns the names of the entries that name an algorithm of their own.
    pub(crate) fn names_with_own_cc(&self) -> Vec<String> {
        let own = self.traffic.iter().filter(|entry| entry.names_cc());
        own.map(|entry| entry.name.clone()).collect()
    }

    /// Returns the algorithms of its connections.
    pub(crate) fn algorithms(&self) -> impl Iterator<Item = &'static Algorithm> + '_ {
        self.traffic.iter().filter_map(TrafficSpec::algorithm)
    }

    /// Returns the algorithms of either side that were compiled from files.
    pub(crate) fn modules(&self) -> impl Iterator<Item = &'static Algorithm> + '_ {
        let peers = self.traffic.iter().filter_map(TrafficSpec::peer_algorithm);
        self.algorithms().chain(peers).filter(|algorithm| algorithm.module().is_some())
    }

    /// Returns the number of nodes, links and pairs of hosts, which determines the time to read the scenario.
    pub(crate) fn size(&self) -> usize {
        self.network.size() + self.traffic.iter().map(TrafficSpec::size).sum::<usize>()
    }

    /// Returns the number of links.
    pub fn links(&self) -> usize {
        self.network.links()
    }

    pub(crate) fn has_flow_control(&self) -> bool {
        self.network.has_flow_control()
    }

    /// Returns the name of a host or switch, by its number.
    pub fn host_name(&self, id: u32) -> &str {
        self.network.name(id)
    }
}

fn read_measure(run: &Reader<'_>, end: Time) -> Result<Measure, Error> {
    let from = run.get(&RUN.measure_from)?;
    let until = run.get(&RUN.measure_until)?;
    let part = run.choose(&RUN.measure)?;
    if part == Part::WhileAllRun {
        if from.is_some() || until.is_some() {
            let why =
                "\"while all run\" has no other bounds: leave measure_from and measure_until out";
            return Err(run.error(&RUN.measure, why));
        }
        return Ok(Measure::WhileAllRun);
    }
    if from.is_none() && until.is_none() {
        return Ok(Measure::WholeRun);
    }
    let from = Time::ZERO + from.unwrap_or(Duration::ZERO);
    let until = until.map_or(end, |until| Time::ZERO + until);
    if until > end {
        return Err(run.error(&RUN.measure_until, "must not be later than run.duration"));
    }
    if from >= until {
        return Err(run.error(&RUN.measure_from, "must be earlier than run.measure_until"));
    }
    Ok(Measure::Window(Window { from, until }))
}

fn read_sampling(
    root: &Reader<'_>,
    measure: Option<Window>,
    until_done: bool,
    rules: &[Converged],
) -> Result<Sampling, Error> {
    let sample = root.child_or_empty("sample")?.only(&[&SAMPLE, &PLOT])?;
    let mut sampling = Sampling::default();
    sample.fill(0, |v| sampling.fields(v))?;
    let period = sampling.goodput.unwrap_or(GOODPUT_PERIOD);
    if let Some(rule) = rules.iter().find(|rule| !rule.fits(period)) {
        let message = format!(
            "must divide {:?} and {:?}, over and hold of \"converged\"; it is {:?}",
            knee_file::units::Quantity::show(&rule.over),
            knee_file::units::Quantity::show(&rule.hold),
            knee_file::units::Quantity::show(&period)
        );
        return Err(sample.error("goodput", message));
    }
    let goodput = if rules.is_empty() { sampling.goodput } else { Some(period) };
    let Some(window) = measure else { return Ok(Sampling { goodput, ..sampling }) };
    for (key, at) in [(&RUN.measure_from, window.from), (&RUN.measure_until, window.until)] {
        // The bounds need not be multiples without a series of goodput.
        if goodput.is_some() && at.ps() % period.ps() != 0 {
            let run = root.need_child("run")?;
            let key = if run.has(key) { key } else { &RUN.duration };
            let period = knee_file::units::Quantity::show(&period);
            let message = match sample.has("goodput") {
                true => format!(
                    "must be a multiple of sample.goodput = {period:?}, or leave sample.goodput \
                        out"
                ),
                false => {
                    format!("must be a multiple of {period}, the sampling period of \"converged\"")
                }
            };
            return Err(run.error(key, message));
        }
    }
    let (from, until) = (window.from, window.until);
    let common = common_period(from, until);
    let period = match until_done {
        // If the run ends early, counts after the last reading are lost, so readings are more frequent.
        true => finer(
            common,
            common_period(Time::ZERO + period, Time::ZERO + common),
            until.since(from),
        ),
        false => common,
    };
    Ok(Sampling { goodput, window: Some(MeasuredWindow { from, until, period }), ..sampling })
}

/// Reads `plot`, which requires samples of connections.
fn read_plot(root: &Reader<'_>) -> Result<Vec<String>, Error> {
    let sample = root.child_or_empty("sample")?;
    let plot = sample.texts(&PLOT.plot)?.unwrap_or_default();
    if !plot.is_empty() && !sample.has("flows") {
        let why = "needs sample.flows, as flows = \"1 ms\"";
        return Err(sample.error(&PLOT.plot, why));
    }
    Ok(plot.into_iter().map(str::to_owned).collect())
}

/// Returns the longest time that divides both.
fn common_period(from: Time, until: Time) -> Duration {
    let (mut a, mut b) = (until.ps(), from.ps());
    while b > 0 {
        (a, b) = (b, a % b);
    }
    Duration::from_ps(a)
}

/// Returns the longest divisor of `period` that is a multiple of `least` and at most a hundredth of `window`, or else
/// `least`.
fn finer(period: Duration, least: Duration, window: Duration) -> Duration {
    let steps = period.ps() / least.ps();
    let most = (window.ps() / 100 / least.ps()).clamp(1, steps);
    let fits = (1..=most).rev().find(|n| steps % n == 0);
    Duration::from_ps(least.ps() * fits.unwrap_or(1))
}
