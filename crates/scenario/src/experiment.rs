//! An experiment: one file with its cases, its varied values, and the resulting list of runs.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use knee_algo::Algorithm;
use knee_algo::module::{self, Modules};
use knee_file::keys::{Below, Key, List, Name, Shape, Text};
use knee_file::{Node, Origin, Reader, Reason, Resolved, keys, one_of, schema};
use knee_results::manifest::InputFile;
use knee_results::{Cell, manifest};
use knee_run::spec::{Cc, KERNELS_OWN, Run};
use serde_json::{Map, Value as Json};

use crate::cases::{
    Axis, Case, Column, Configuration, MAX_CONFIGURATIONS, MAX_RUNS, Rows, RunId, SET, read_axes,
    varied_path,
};
use crate::cc::{Given, NoAlgorithm, PARAMS, cc_named, not_built, read_cc};
use crate::chart::{self, Chart, read_charts};
use crate::claim::{self, Claim, read_claims};
use crate::error::Error;
use crate::inputs;
use crate::inside;
use crate::kind;
use crate::memory::{MOST_BYTES, Memory};
use crate::modules;
use crate::network;
use crate::output::{Output, OutputKeys, read_stats};
use crate::overrides::{
    Words, apply_set, apply_vary, parse_set, parse_vary, set_params, split_params,
};
use crate::published::{self, Published, Stat, read_published};
use crate::quick::{self, Quick, read_quick};
use crate::random::run_seed;
use crate::scale::Scale;
use crate::scenario::remarks::Remarks;
use crate::scenario::{RUN, RunKeys, SAMPLE_TABLE, Scenario};
use crate::scenarios::Scenarios;
use crate::unused;

/// Largest experiment file, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Bound on the rows that are checked while a file is read, about half a second of work. It limits the sum of
/// [`Scenario::size`] and a 16th of the text, which takes about as long. The other rows are checked before the first
/// run.
const MOST_AT_ONCE: usize = 2_500_000;
const TEXT_PER_THING: usize = 16;

keys! {
    /// An experiment: one question to a network, its hosts and its traffic.
    pub(crate) static TOP: TopKeys = "experiment" {
        /// The question; heads the tables.
        question: Key<Text>,
        /// The expected answer.
        expect: Key<Text>,
        /// Source of the experiment.
        source: Key<Text>,
        /// Choices that the source does not state.
        notes: Key<Text>,
        /// Published figures.
        published: Below = list(&published::PublishedKeys::TABLE),
        /// Claims, as checks.
        claim: Below = list(&claim::ClaimKeys::TABLE),
        /// The quick set.
        quick: Below = table(&quick::QuickKeys::TABLE),
        /// Charts of a report.
        chart: Below = list(&chart::ChartKeys::TABLE),
        /// Hosts, switches and links.
        network: Below = table(&network::TABLE).needed(),
        /// Settings of all hosts.
        hosts: Below = table(&network::HOSTS_TABLE),
        /// Settings of some hosts.
        host: Below = list(&network::HOST_TABLE),
        /// The traffic.
        traffic: Below = list(&kind::TABLE).needed(),
        /// Cases to compare.
        case: Below = list(&CaseKeys::TABLE),
        /// Algorithms to compare, one case each.
        cc: Key<List<Text>>,
        /// Compiler options for algorithm files.
        module: Below = table(&modules::ModuleKeys::TABLE),
        /// Varied keys.
        vary: Below = table(&VARY),
        /// Duration and repeats.
        run: Below = table(&RunKeys::TABLE).needed(),
        /// Sampling periods.
        sample: Below = table(&SAMPLE_TABLE),
        /// Rows of results.
        output: Below = table(&OutputKeys::TABLE),
    }
}

keys! {
    /// A case to compare. It runs at every combination of `[vary]`.
    static CASE: CaseKeys = "case" {
        /// Name in paths and columns.
        name: Key<Name> = needed("dctcp"),
        /// Algorithm, or file of a Linux module.
        cc: Key<Text> = usually("that of each traffic entry"),
        /// Its parameters.
        params: Below = table(&PARAMS),
        /// Changed keys.
        set: Below = table(&SET),
    }
}

static VARY: keys::Table = keys::Table {
    name: "vary",
    says: "Varied keys: `\"traffic.short.size\" = [\"10 kB\", \"800 kB\"]`, `\"params.shift_g\" = \
        \"3..5\"`.",
    shape: || {
        Shape::Any(
            "paths of keys. Values are lists, or ranges as `\"2..64 times 2 pkts\"` and `\"1 Gbps..100 Gbps log 5\"`. A name \
            with a table of such keys varies them together",
        )
    },
};

/// The file format, for schema and page.
pub const FILE: schema::File = schema::File {
    name: "experiment",
    root: &TopKeys::TABLE,
    filled_in: &["network", "hosts", "host", "traffic", "run", "sample", "output"],
    only_on: knee_run::support::only_on,
};

/// Changes to a file from the command line.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Cases or algorithms to compare instead of the file's. Empty means the file's.
    pub cc: Vec<String>,
    /// Settings `key=value`, applied after everything in the file.
    pub set: Vec<String>,
    /// Varied keys `key=list`, instead of the file's values or in addition to its varied keys.
    pub vary: Vec<String>,
    /// Replaces `run.repeat`.
    pub repeat: Option<u32>,
    /// Replaces `run.seed`.
    pub seed: Option<u64>,
    /// Slows links and lengthens times.
    pub scale: Scale,
    /// Reduces the file to its `[quick]` set, if it has one. The other overrides apply after that.
    pub quick: bool,
    /// Statistics of tables. Empty means the file's.
    pub stats: Vec<Stat>,
    /// Memory limit of a run, bytes, instead of [`MOST_BYTES`].
    pub memory_bytes: Option<u64>,
    /// Compiler options for algorithm files, added to the file's.
    pub modules: module::Options,
    /// Whether algorithm files are refused that only the experiment names: to load one runs its code. Those in `cc` are
    /// loaded.
    pub only_reads: bool,
    /// Whether the first row alone is checked at once, for [`Experiment::with_rows`].
    pub only_first_row: bool,
    /// The words for these in messages.
    pub words: &'static Words,
}

/// A file, read and checked, ready to run.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// File name without directory and extension.
    pub name: String,
    /// Path of the file.
    pub path: PathBuf,
    /// Text of the file.
    pub text: String,
    /// The question it asks.
    pub question: String,
    /// The expected answer, if the file gives one.
    pub expect: Option<String>,
    /// Source of the experiment.
    pub source: Option<String>,
    /// Choices that the source does not state.
    pub notes: Option<String>,
    /// Figures that others published.
    pub published: Vec<Published>,
    /// Claims, with checks.
    pub claims: Vec<Claim>,
    /// Part of the experiment in the quick set.
    pub quick: Option<Quick>,
    /// Whether this experiment is only its quick set.
    pub is_quick: bool,
    /// Charts of a report.
    pub charts: Vec<Chart>,
    /// Statistics of tables. Empty means the usual ones.
    pub stats: Vec<Stat>,
    /// Whether a report has default charts besides.
    pub has_default_charts: bool,
    /// Cases to compare.
    pub cases: Vec<Case>,
    /// Varied keys.
    pub axes: Vec<Axis>,
    /// Columns of the axes in tables.
    pub columns: Vec<Column>,
    /// Runs of each row.
    pub repeat: u32,
    pub seed: u64,
    /// Scale of its runs, relative to the file.
    pub scale: Scale,
    /// Changes of the command line to the file.
    pub asked: Overrides,
    /// Algorithms of its flows, without duplicates. This and the following fields only cover the checked rows.
    pub algorithms: Vec<&'static Algorithm>,
    /// Algorithms of either side that were compiled from files, without duplicates.
    pub modules: Vec<&'static Algorithm>,
    /// The files that it has read, and how.
    files: Arc<Modules>,
    /// By case: whether a connection of a checked row is under its algorithm.
    is_cc_taken: Vec<bool>,
    /// Files that it names, with the hashes that they had when it was read.
    pub inputs: Vec<InputFile>,
    /// Memory of samples of the row with most of them.
    pub memory: Memory,
    /// What the figures are for.
    pub(crate) remarks: Remarks,
    /// Whether any of its networks has flow control. If so, results report it.
    pub has_flow_control: bool,
    /// Additional plots of connections in the first row.
    plot: Vec<String>,
    /// Every case at every point.
    rows: Rows,
    /// By row: whether it is checked.
    is_checked: Vec<bool>,
    /// Rows in the order in which they will be checked, with some that are.
    unchecked: VecDeque<usize>,
    /// The document with `--set`, before cases and varied values.
    pub root: Node,
    /// The file without `--set`, for messages.
    pub(crate) as_written: Node,
    /// Keys and values that are applied last.
    pub(crate) set: Vec<(String, Node)>,
    scenarios: Scenarios,
}

impl Experiment {
    /// Reads and checks a file. In a sweep over many large networks, it checks as many rows as half a second allows.
    /// Rows that show each varied value once come first. [`Experiment::whole`] checks the others.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be read, [`Error::Input`] if its content is invalid.
    pub fn load(path: &Path, overrides: &Overrides) -> Result<Experiment, Error> {
        let text = read_text(path)?;
        Experiment::parse(path, &text, overrides)
    }

    /// Works like [`Experiment::load`] on a text. `path` gives the name, for the experiment and for messages.
    ///
    /// # Errors
    /// The errors of [`Experiment::load`].
    pub fn parse(path: &Path, text: &str, overrides: &Overrides) -> Result<Experiment, Error> {
        Experiment::parse_all(path, text, overrides)
            .map_err(|why| inputs::without_content(path, why))
    }

    fn parse_all(path: &Path, text: &str, overrides: &Overrides) -> Result<Experiment, Error> {
        let mut root = knee_file::parse(path, text)?;
        if root.table().is_none_or(Vec::is_empty) {
            let message = "is empty: an experiment needs [network], [[traffic]] and [run]";
            return Err(Error::input(path, Origin::Nowhere, "", message));
        }
        let set = parse_set(path, &overrides.set, overrides.words)?;
        // Checks of cases and axes use the file's own, before the command line changes them.
        let (own_axes, quick, files) = {
            let resolved = RefCell::default();
            let reader = Reader::root(path, &root, &resolved).only(&[&TOP])?;
            let table = reader.child(&TOP.module)?;
            let trusted = overrides.only_reads.then_some(&overrides.cc[..]);
            let files = modules::files(path, table, &overrides.modules, trusted)?;
            let axes = reader.child(&TOP.vary)?.map_or(Ok(Vec::new()), |vary| read_axes(&vary))?;
            let quick = match reader.has(&TOP.quick) {
                true => read_quick(&reader, &read_cases(&reader, &files)?, &axes, &TOP.quick)?,
                false => None,
            };
            (axes, quick, files)
        };
        let chosen = quick.as_ref().filter(|_| overrides.quick);
        let vary = parse_vary(path, &overrides.vary, &set, overrides.words)?;
        let of_quick = chosen.iter().flat_map(|quick| quick.overrides());
        let of_quick = of_quick.filter(|(key, _)| !vary.iter().any(|(varied, _)| varied == key));
        let set: Vec<_> = of_quick.chain(set).collect();
        let mut axes = own_axes.clone();
        apply_vary(path, &mut axes, vary)?;
        let is_new = |axis: &&Axis| !own_axes.iter().any(|own| own.path == axis.path);
        let known_axes: Vec<Axis> =
            own_axes.iter().chain(axes.iter().filter(is_new)).cloned().collect();
        let (params, set) = split_params(set, &axes);
        let as_written = root.clone();
        let set = apply_set(path, &mut root, &mut axes, set)?;
        let resolved = RefCell::default();
        let reader = Reader::root(path, &root, &resolved).only(&[&TOP])?;
        let own_cases = read_cases(&reader, &files)?;
        let published = read_published(&reader, &own_cases, &own_axes, &TOP.published)?;
        let claims = read_claims(&reader, &own_cases, &own_axes, &TOP.claim)?;
        let charts = read_charts(&reader, &known_axes, &TOP.chart)?;
        let of_quick = chosen.map_or(&[][..], |quick| quick.cases.as_slice());
        let names = if overrides.cc.is_empty() { of_quick } else { overrides.cc.as_slice() };
        let mut cases = choose_cases(path, own_cases, (names, overrides.words.cc), &files)?;
        unused::check_set(path, &cases, &axes)?;
        set_params(path, &mut cases, &params)?;
        let run = reader.need_child(&TOP.run)?.only(&[&RUN])?;
        let in_file = run.read(&RUN.repeat)?;
        let of_quick = chosen.and_then(|quick| quick.repeat);
        let repeat = overrides.repeat.or(of_quick).unwrap_or(in_file);
        let seed = run.read(&RUN.seed)?;
        let rows = rows(path, &cases, &axes, repeat)?;
        let owned = |text: Option<&str>| text.map(|text| text.trim().to_owned());
        let mut experiment = Experiment {
            name: path
                .file_stem()
                .map_or_else(|| "experiment".into(), |s| s.to_string_lossy().into()),
            path: path.to_owned(),
            text: text.to_owned(),
            question: owned(reader.text(&TOP.question)?).unwrap_or_default(),
            expect: owned(reader.text(&TOP.expect)?),
            source: owned(reader.text(&TOP.source)?),
            notes: owned(reader.text(&TOP.notes)?),
            published,
            claims,
            is_quick: chosen.is_some(),
            quick,
            charts,
            stats: read_stats(&reader, &overrides.stats)?,
            has_default_charts: Output::read(&reader)?.has_default_charts,
            cases,
            columns: axes.iter().map(Axis::column).collect(),
            axes,
            repeat,
            seed: overrides.seed.unwrap_or(seed),
            scale: overrides.scale,
            asked: overrides.clone(),
            algorithms: Vec::new(),
            modules: Vec::new(),
            files: Arc::new(files),
            is_cc_taken: Vec::new(),
            inputs: Vec::new(),
            memory: Memory::default(),
            remarks: Remarks::default(),
            has_flow_control: false,
            plot: Vec::new(),
            is_checked: vec![false; rows.len()],
            unchecked: (0..rows.len()).collect(),
            rows,
            set,
            root: root.clone(),
            as_written,
            scenarios: Scenarios::default(),
        };
        experiment.is_cc_taken = vec![false; experiment.cases.len()];
        let (size, first) = experiment.check_row()?;
        if size.saturating_mul(experiment.rows()) > MOST_AT_ONCE {
            experiment.each_value_first();
        }
        if !overrides.only_first_row {
            experiment.check_rows(MOST_AT_ONCE.saturating_sub(size))?;
        }
        if let Some(first) = first {
            experiment.check_published(&first)?;
            experiment.check_claims(&first)?;
            experiment.plot = first.plot.clone();
        }
        experiment.plots()?;
        Ok(experiment)
    }

    /// Returns the experiment with all rows checked, as runs require. An error in any row thus appears before hours
    /// of work.
    ///
    /// # Errors
    /// The errors of [`Experiment::load`].
    pub fn whole(mut self) -> Result<Experiment, Error> {
        self.check_rows(usize::MAX)?;
        Ok(self)
    }

    /// Returns the experiment with these rows checked besides, for runs of them alone. Columns of what algorithms tell of their insides
    /// are those of checked rows.
    ///
    /// # Errors
    /// The errors of [`Experiment::load`].
    pub fn with_rows(mut self, rows: impl IntoIterator<Item = usize>) -> Result<Experiment, Error> {
        for row in rows {
            if row >= self.rows() {
                let why = format!("has no row {row}: its rows are 0 to {}", self.rows() - 1);
                return Err(Error::input(&self.path, Origin::Nowhere, "", why));
            }
            if !self.is_checked(row) {
                self.check_row_of(row)?;
            }
        }
        Ok(self)
    }

    /// Returns whether all rows are checked.
    pub fn is_whole(&self) -> bool {
        self.unchecked.is_empty()
    }

    /// Returns whether a row is checked.
    pub fn is_checked(&self, row: usize) -> bool {
        self.is_checked.get(row).is_some_and(|is_checked| *is_checked)
    }

    /// Returns the number of checked rows.
    pub fn checked_rows(&self) -> usize {
        self.is_checked.iter().filter(|is_checked| **is_checked).count()
    }

    /// Returns the number of rows: every case at every combination of varied values.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Returns a row by its number below [`Experiment::rows`]. Cases of one combination are adjacent, and the first varied key varies
    /// slowest.
    ///
    /// # Panics
    /// If there are not so many rows.
    pub fn row(&self, row: usize) -> Configuration {
        self.rows.get(row)
    }

    /// Returns all rows in their order.
    pub fn all_rows(&self) -> impl Iterator<Item = Configuration> {
        (0..self.rows()).map(|row| self.row(row))
    }

    /// Moves rows to the front that differ from the first one in a single value, because most errors depend on one
    /// value.
    fn each_value_first(&mut self) {
        let differs = |row: &usize| {
            let Configuration { case, point } = self.row(*row);
            point.into_iter().chain([case]).filter(|value| *value != 0).count()
        };
        let (first, others): (VecDeque<_>, VecDeque<_>) =
            self.unchecked.iter().copied().partition(|row| differs(row) <= 1);
        self.unchecked = first.into_iter().chain(others).collect();
    }

    /// Checks further rows until their sizes add up to `most`.
    fn check_rows(&mut self, most: usize) -> Result<(), Error> {
        let mut size = 0;
        while !self.unchecked.is_empty() && size < most {
            size += self.check_row()?.0;
        }
        // Connections of any row of a case may be under its algorithm.
        let is_idle = |(case, is_taken): (&Case, &bool)| case.cc.is_some() && !is_taken;
        let idle = self.cases.iter().zip(&self.is_cc_taken).position(is_idle);
        match idle.filter(|_| self.is_whole()) {
            Some(case) => Err(self.idle_cc(case)?),
            None => Ok(()),
        }
    }

    /// Returns the error about the algorithm of a case under which no connection is.
    fn idle_cc(&self, case: usize) -> Result<Error, Error> {
        let mut rows = self.all_rows().filter(|row| row.case == case);
        let scenario = rows.next().map(|row| self.scenario(&row)).transpose()?;
        let own = scenario.iter().flat_map(|scenario| scenario.names_with_own_cc());
        Ok(unused::cc(&self.path, &self.cases[case], own.collect()))
    }

    /// Checks the next row, and adds its algorithms and memory to the experiment's. Returns its size and the row.
    fn check_row(&mut self) -> Result<(usize, Option<Arc<Scenario>>), Error> {
        let Some(row) = self.unchecked.pop_front() else { return Ok((0, None)) };
        if self.is_checked(row) {
            return Ok((0, None));
        }
        let (size, scenario) = self.check_row_of(row)?;
        Ok((size, Some(scenario)))
    }

    fn check_row_of(&mut self, number: usize) -> Result<(usize, Arc<Scenario>), Error> {
        let row = self.row(number);
        let scenario = self.scenario(&row)?;
        self.is_cc_taken[row.case] |= scenario.takes_case_cc();
        inputs::add(&mut self.inputs, inputs::noted(&scenario.resolved))
            .map_err(|file| self.changed(&file))?;
        self.has_flow_control |= scenario.has_flow_control();
        self.remarks.add(number, &scenario);
        self.memory = std::mem::take(&mut self.memory).with(&scenario.memory);
        add_new(&mut self.algorithms, scenario.algorithms());
        add_new(&mut self.modules, scenario.modules());
        self.check_scale(&scenario)?;
        self.is_checked[number] = true;
        Ok((self.size(&scenario), scenario))
    }

    /// Returns about how much work it is to read a scenario, and memory to keep it.
    fn size(&self, scenario: &Scenario) -> usize {
        scenario.size() + self.text.len() / TEXT_PER_THING
    }

    /// Refuses a scale that makes a run too long or too slow.
    fn check_scale(&self, scenario: &Scenario) -> Result<(), Error> {
        if self.scale.is_one() {
            return Ok(());
        }
        let mut as_written = Scenario::clone(scenario);
        as_written.scale = Scale::ONE;
        let checked = self.scale.check(&as_written.run(self.seed, 0));
        checked
            .map_err(|why| Error::input(&self.path, Origin::Nowhere, self.asked.words.scale, why))
    }

    /// Refuses published figures of metrics that are not measured.
    fn check_published(&self, scenario: &Scenario) -> Result<(), Error> {
        for published in &self.published {
            let wrong = |key: &str, reason: Reason| {
                Err(Error::input(&self.path, published.origin, format!("published.{key}"), reason))
            };
            let Some(metrics) = scenario.measured_of(&published.subject) else {
                let subject = published.subject.escape_debug();
                let why = format!("\"{subject}\" is neither a traffic entry nor a recorded link");
                return wrong("subject", why.into());
            };
            if !metrics.contains(&published.metric) {
                let name = published.metric.name();
                return wrong("metric", one_of(name, metrics.iter().map(|metric| metric.name())));
            }
        }
        Ok(())
    }

    /// Returns the plots of connections for a report. If the command line selects other algorithms, names that these
    /// do not have are left out.
    ///
    /// # Errors
    /// Fails if a name is no column.
    pub fn plots(&self) -> Result<Vec<manifest::Plot>, Error> {
        let is_asked = !self.asked.cc.is_empty();
        let mut all: Vec<manifest::Plot> = Vec::new();
        let varied = || self.columns.iter().map(|column| column.name.as_str());
        for name in &self.plot {
            match inside::plots(name, &self.algorithms, varied()) {
                Ok(plots) => all.extend(plots),
                Err(_) if is_asked => {}
                Err(why) => {
                    return Err(Error::input(&self.path, Origin::Nowhere, "sample.plot", why));
                }
            }
        }
        // The modes of our algorithms are drawn unasked: other plots are read by them.
        let ours = self.algorithms.iter().filter(|algorithm| algorithm.module().is_none());
        let modes = ours.flat_map(|algorithm| algorithm.diag()).filter(|of| !of.choices.is_empty());
        for mode in modes {
            if !all.iter().any(|plot| plot.name == mode.name) {
                all.extend(
                    inside::plots(mode.name, &self.algorithms, varied()).unwrap_or_default(),
                );
            }
        }
        Ok(all)
    }

    /// Refuses claims and charts about metrics that are not measured.
    fn check_claims(&self, scenario: &Scenario) -> Result<(), Error> {
        let wrong = |origin: Origin, key: String, why: Reason| {
            knee_file::Error::new(&self.path, origin, key, why)
        };
        claim::check_measured(&self.claims, scenario, &wrong)?;
        Ok(chart::check_measured(&self.charts, scenario, &wrong)?)
    }

    /// Returns the number of runs.
    pub fn runs(&self) -> usize {
        self.rows() * self.repeat as usize
    }

    /// Returns the identity of a run, by its number below [`Experiment::runs`].
    pub fn run_id(&self, index: usize) -> RunId {
        let repeat = (index % self.repeat as usize) as u32;
        let configuration = index / self.repeat as usize;
        RunId { index, configuration, repeat, seed: run_seed(self.seed, repeat) }
    }

    /// Returns the description of a run for a back end.
    ///
    /// # Errors
    /// None for a checked row.
    pub fn run(&self, id: RunId) -> Result<Run, Error> {
        let scenario = self.scenario(&self.row(id.configuration))?;
        Ok(scenario.run(self.seed, id.repeat))
    }

    /// Returns the names of a run's traffic groups, by group number ([`knee_run::spec::Flow::group`]).
    ///
    /// # Errors
    /// None for a checked row.
    pub fn traffic_names(&self, id: RunId) -> Result<Vec<String>, Error> {
        let scenario = self.scenario(&self.row(id.configuration))?;
        Ok(scenario.groups().into_iter().map(|(name, _)| name).collect())
    }

    /// Returns the scenario of a configuration, with every value in place. Those that were read last are kept.
    ///
    /// # Errors
    /// None for a checked row.
    pub fn scenario(&self, configuration: &Configuration) -> Result<Arc<Scenario>, Error> {
        if let Some(kept) = self.scenarios.get(configuration) {
            return Ok(kept);
        }
        let scenario = self.read_scenario(configuration);
        let scenario = scenario.map_err(|why| inputs::without_content(&self.path, why))?;
        let scenario = Arc::new(scenario);
        // Files with a network, sizes or transfers may change, which the next reading notices.
        if inputs::noted(&scenario.resolved).is_empty() {
            self.scenarios.keep(configuration, &scenario, self.size(&scenario));
        }
        Ok(scenario)
    }

    fn read_scenario(&self, configuration: &Configuration) -> Result<Scenario, Error> {
        let read = |root: &Node, cc: Option<&Cc>| {
            let given = Given { cc, modules: &self.files };
            Scenario::read(&self.path, root, given, self.most_bytes())
        };
        let (root, cc) = self.document(configuration)?;
        let mut scenario = read(&root, cc.as_ref()).map_err(|error| {
            let again =
                |root: Node, cc: Option<Cc>| read(&root, cc.as_ref()).err().map(Error::from);
            self.with_setters(configuration, error.into(), &again)
        })?;
        if !self.inputs.is_empty() {
            inputs::add(&mut self.inputs.clone(), inputs::noted(&scenario.resolved))
                .map_err(|file| self.changed(&file))?;
        }
        scenario.scale = self.scale;
        Ok(scenario)
    }

    /// Memory limit of a run, bytes.
    pub fn most_bytes(&self) -> u64 {
        self.asked.memory_bytes.unwrap_or(MOST_BYTES)
    }

    fn changed(&self, file: &InputFile) -> Error {
        let why = format!("{} changed after the experiment was read: run it again", file.path);
        Error::input(&self.path, Origin::Nowhere, &file.key, why)
    }

    /// Returns the name of a configuration's case.
    pub fn case_name(&self, configuration: &Configuration) -> &str {
        &self.cases[configuration.case].name
    }

    /// Returns the varied values of a configuration as text, in the order of [`Experiment::axes`].
    pub fn point_labels(&self, configuration: &Configuration) -> Vec<String> {
        let values = self.axes.iter().zip(&configuration.point);
        values.map(|(axis, value)| axis.label(*value)).collect()
    }

    /// Returns the varied values of a configuration as cells of tables.
    pub fn point_cells<'a>(
        &'a self,
        configuration: &Configuration,
    ) -> impl Iterator<Item = Cell<'a>> + use<'a> {
        let values = self.axes.iter().zip(&self.columns).zip(configuration.point.clone());
        values.map(|((axis, column), value)| match &column.numbers {
            Some(numbers) => numbers[value].into(),
            None => axis.label(value).into(),
        })
    }

    /// Returns the varied values of a configuration as JSON, by the name of their column.
    pub fn point_json(&self, configuration: &Configuration) -> Map<String, Json> {
        let values = self.axes.iter().zip(&self.columns).zip(&configuration.point);
        let json = values.map(|((axis, column), value)| match &column.numbers {
            Some(numbers) => (column.name.clone(), numbers[*value].into()),
            None => (column.name.clone(), axis.json(*value)),
        });
        json.collect()
    }

    /// Describes a configuration: `case dctcp, traffic.short.size = 10 kB`.
    pub fn describe(&self, configuration: &Configuration) -> String {
        let mut words = format!("case {}", self.case_name(configuration));
        for (axis, label) in self.axes.iter().zip(self.point_labels(configuration)) {
            words.push_str(&format!(", {} = {label}", axis.path));
        }
        words
    }

    /// Returns the topology's name in the file.
    pub fn topology(&self) -> Option<&str> {
        self.root.get("network")?.get("topology")?.text()
    }

    /// Returns every value of every case, defaults included, at the first of the varied values.
    ///
    /// # Errors
    /// None beyond those of [`Experiment::load`].
    pub fn resolved(&self) -> Result<Map<String, Json>, Error> {
        let flat = |resolved: Resolved| resolved.into_iter().collect::<Map<_, _>>();
        let first = self.all_rows().take(self.cases.len());
        first
            .map(|configuration| {
                let mut values = flat(self.scenario(&configuration)?.resolved.clone());
                if let Some(cc) = &self.cases[configuration.case].cc {
                    values.insert("case.cc".into(), cc.name().into());
                    for (info, value) in cc.algorithm.params().iter().zip(cc.params.values()) {
                        values
                            .insert(format!("case.params.{}", info.name), info.show(*value).into());
                    }
                }
                Ok((self.case_name(&configuration).to_owned(), Json::Object(values)))
            })
            .collect()
    }

    /// Returns the varied values, by path.
    pub fn varied(&self) -> Map<String, Json> {
        let json = |values: &Vec<Node>| values.iter().map(Node::json).collect::<Json>();
        let keys = self.axes.iter().flat_map(|axis| &axis.keys);
        keys.map(|(path, values)| (path.clone(), json(values))).collect()
    }
}

/// Adds algorithms that the list lacks.
fn add_new(
    list: &mut Vec<&'static Algorithm>,
    algorithms: impl Iterator<Item = &'static Algorithm>,
) {
    for algorithm in algorithms {
        if !list.iter().any(|prior| std::ptr::eq(*prior, algorithm)) {
            list.push(algorithm);
        }
    }
}

/// Reads the text of an experiment's file.
///
/// # Errors
/// [`Error::Io`] or [`Error::Input`] if it is unreadable or no text.
pub fn read_text(path: &Path) -> Result<String, Error> {
    knee_files::read_text(path, MAX_FILE_BYTES, "experiment file")
        .map_err(|why| Error::unreadable(path, why))
}

// ---- [vary] ----

/// Returns every case at every point, unless these are too many.
fn rows(path: &Path, cases: &[Case], axes: &[Axis], repeat: u32) -> Result<Rows, Error> {
    let rows = Rows::new(cases.len(), axes);
    let points = rows.len();
    let runs = points.saturating_mul(repeat as usize);
    let too_many = |what: &str, n: usize, most: usize| {
        Err(Error::input(
            path,
            Origin::Nowhere,
            "",
            format!("has {n} {what}, but at most {most} are allowed"),
        ))
    };
    if points > MAX_CONFIGURATIONS {
        return too_many("cases times varied values", points, MAX_CONFIGURATIONS);
    }
    if runs > MAX_RUNS {
        return too_many("runs", runs, MAX_RUNS);
    }
    Ok(rows)
}

// ---- cases ----

/// Reads the file's own cases: `[[case]]`, or a list `cc` of algorithms.
fn read_cases(root: &Reader<'_>, files: &Modules) -> Result<Vec<Case>, knee_file::Error> {
    let mut cases: Vec<Case> = Vec::new();
    if let Some(names) = root.texts(&TOP.cc)? {
        if root.has(&TOP.case) {
            return Err(root.error(&TOP.cc, "conflicts with [[case]]: leave one out"));
        }
        for name in names {
            let folder = root.file().parent().unwrap_or(Path::new(""));
            let mut case = case_of_algorithm(name, folder, files).unwrap_or_else(|why| {
                let wrong = why.at(root, &TOP.cc, name, files);
                Case { wrong: Some(Box::new(wrong)), ..Case::without_cc(name) }
            });
            case.cc_from = place_of(root, &TOP.cc);
            if cases.iter().any(|prior| prior.name == case.name) {
                return Err(root.error(&TOP.cc, format!("names \"{name}\" twice")));
            }
            cases.push(case);
        }
    }
    for reader in root.children(&TOP.case)? {
        let reader = reader.only(&[&CASE])?;
        let name = reader.need_name(&CASE.name)?.to_owned();
        if cases.iter().any(|prior| prior.name == name) {
            return Err(reader.error(&CASE.name, "must differ from the other cases' names"));
        }
        let cc_from = place_of(&reader, &CASE.cc);
        let (cc, wrong) = match read_cc(&reader, (&CASE.cc, &CASE.params), files) {
            Ok(cc) => (cc, None),
            Err(why) => (None, Some(Box::new(why))),
        };
        let mut set = Vec::new();
        if let Some(table) = reader.child(&CASE.set)? {
            for (path, node) in table.entries() {
                varied_path(path).map_err(|why| table.error(path, why))?;
                if path.starts_with("params.") {
                    return Err(table.error(path, "belongs to params = { ... } of the case"));
                }
                set.push((path.to_owned(), node.clone()));
            }
        }
        cases.push(Case { name, cc, cc_from, wrong, set });
    }
    if cases.is_empty() {
        cases.push(Case::without_cc("as-written"));
    }
    Ok(cases)
}

fn place_of(reader: &Reader<'_>, key: &impl AsRef<str>) -> (String, Origin) {
    (reader.key(key), reader.node(key).map(|node| node.origin).unwrap_or_default())
}

fn case_of_algorithm(name: &str, folder: &Path, files: &Modules) -> Result<Case, NoAlgorithm> {
    let cc = cc_named(name, folder, files)?;
    Ok(Case { cc: Some(cc.clone()), ..Case::without_cc(&cc.name()) })
}

/// Returns the cases that `--cc` names: the file's own of that name, or else the algorithm alone.
fn choose_cases(
    path: &Path,
    own: Vec<Case>,
    (names, by): (&[String], &'static str),
    files: &Modules,
) -> Result<Vec<Case>, Error> {
    let runnable = |case: Case| match case.wrong {
        Some(why) => Err(Error::Input(*why)),
        None => Ok(case),
    };
    if names.is_empty() {
        return own.into_iter().map(runnable).collect();
    }
    let mut chosen: Vec<Case> = Vec::new();
    for name in names {
        let case = match own.iter().find(|case| case.name == *name) {
            Some(case) => runnable(case.clone())?,
            None => case_of_algorithm(name, Path::new(""), files).map_err(|why| {
                let mut known: Vec<&str> = own.iter().map(|case| case.name.as_str()).collect();
                known.extend(Algorithm::all().iter().map(|algorithm| -> &str { algorithm.name() }));
                known.retain(|name| *name != "as-written");
                known.sort_unstable();
                known.dedup();
                let shown: String = name.chars().take(40).collect();
                // These errors are complete in themselves, without a list of cases and algorithms.
                let says_itself = module::is_path(name) || name.starts_with(KERNELS_OWN);
                let wrong = |reason: Reason| {
                    knee_file::Error::new(path, Origin::Nowhere, by, reason)
                        .with_value(format!("{shown:?}"))
                };
                match says_itself {
                    true => why.of(wrong),
                    false => wrong(
                        not_built(name)
                            .map_or_else(|| one_of(name, known.into_iter()), Reason::from),
                    ),
                }
            })?,
        };
        let case = match own.iter().any(|own| own.name == *name) {
            true => case,
            false => Case { cc_from: (by.to_owned(), Origin::Nowhere), ..case },
        };
        if !chosen.iter().any(|prior| prior.name == case.name) {
            chosen.push(case);
        }
    }
    Ok(chosen)
}
