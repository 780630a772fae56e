//! An experiment: one file with its cases and what is varied, and the list of runs it asks for.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use knee_algo::{Algorithm, module};
use knee_file::keys::{Below, Key, List, Name, Shape, Text};
use knee_file::{
    Node, Origin, Reader, Resolved, Table, did_you_mean, keys, one_of, parse_override, schema,
};
use knee_results::{Cell, manifest};
use knee_run::spec::{KERNELS_OWN, Run};
use serde_json::{Map, Value as Json};

use crate::cases::{
    Axis, Case, Column, Configuration, MAX_RUNS, RunId, SET, axis_values, varied_path,
};
use crate::cc::{NoAlgorithm, PARAMS, cc_named, not_built, read_cc, set_param};
use crate::chart::{self, Chart, read_charts};
use crate::claim::{self, Claim, read_claims};
use crate::error::Error;
use crate::inside;
use crate::memory::{MOST_BYTES, Memory};
use crate::modules;
use crate::network;
use crate::published::{self, Published, read_published};
use crate::quick::{self, Quick, read_quick};
use crate::random::run_seed;
use crate::scale::Scale;
use crate::scenario::{MemoryInputs, RUN, RunKeys, SampleKeys, Scenario};
use crate::traffic;

/// No experiment file is longer than this.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Cases times varied values.
const MAX_CONFIGURATIONS: usize = 10_000;
/// Rows are checked as a file is read until they are so large together ([`Scenario::size`], and a 16th of the text, which takes about as
/// long): half a second. The others are checked before the first run.
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
        traffic: Below = list(&traffic::TABLE).needed(),
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
        sample: Below = table(&SampleKeys::TABLE),
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
    shape: || Shape::Any("paths of keys. Values are lists, or ranges as `\"2..64 times 2 pkts\"`"),
};

/// The file as schema and page show it.
pub const FILE: schema::File = schema::File {
    name: "experiment",
    root: &TopKeys::TABLE,
    filled_in: &["network", "hosts", "host", "traffic", "run", "sample"],
};

/// Changes of the command line to a file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Names of cases or algorithms to compare, in place of the file's; empty: the file's.
    pub cc: Vec<String>,
    /// `key=value`, each applied after everything that the file says.
    pub set: Vec<String>,
    /// In place of `run.repeat`.
    pub repeat: Option<u32>,
    /// In place of `run.seed`.
    pub seed: Option<u64>,
    /// Slower links, longer times.
    pub scale: Scale,
    /// Only what the file's `[quick]` names of it, if it has that; the rest of this comes after.
    pub quick: bool,
    /// Memory limit of a run, bytes, instead of [`MOST_BYTES`].
    pub memory_bytes: Option<u64>,
    /// Compiler options for algorithm files, added to the file's.
    pub modules: module::Options,
}

/// A file as read and checked, ready to be run.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The file's name without directory and extension.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// The file as it was.
    pub text: String,
    /// The question it asks.
    pub question: String,
    /// The answer expected, where the file has one.
    pub expect: Option<String>,
    /// Where it comes from.
    pub source: Option<String>,
    /// Choices that the source does not state.
    pub notes: Option<String>,
    /// Figures that others published.
    pub published: Vec<Published>,
    /// Claims, with checks.
    pub claims: Vec<Claim>,
    /// Its part in the quick set.
    pub quick: Option<Quick>,
    /// Whether this is that part alone.
    pub is_quick: bool,
    /// Charts of a report.
    pub charts: Vec<Chart>,
    /// Cases to compare.
    pub cases: Vec<Case>,
    /// Varied keys.
    pub axes: Vec<Axis>,
    /// How tables show it.
    pub(crate) columns: Vec<Column>,
    /// Every case at every point; cases of one point are neighbours.
    pub configurations: Vec<Configuration>,
    /// Runs of each configuration.
    pub repeat: u32,
    pub seed: u64,
    /// How its runs differ from what the file says.
    pub scale: Scale,
    /// Changes of the command line to the file.
    pub asked: Overrides,
    /// Algorithms of its flows, each once; this and what follows is of the rows that are checked.
    pub algorithms: Vec<&'static Algorithm>,
    /// Algorithms of either side that were compiled from files, each once.
    pub modules: Vec<&'static Algorithm>,
    /// Memory of the row that needs most.
    pub memory: Memory,
    /// Whether a network of it has flow control, which results then tell of.
    pub(crate) has_flow_control: bool,
    /// Rows that are not checked yet, in the order in which they will be.
    unchecked: VecDeque<usize>,
    root: Node,
    /// Applied after everything else.
    set: Vec<(String, Node)>,
}

impl Experiment {
    /// Reads and checks a file. Of a sweep over many large networks it checks as many rows as half a second allows, those first that
    /// have each varied value once: [`Experiment::whole`] checks the others.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be read, [`Error::Input`] for anything it should not say.
    pub fn load(path: &Path, overrides: &Overrides) -> Result<Experiment, Error> {
        let text = read_text(path)?;
        Experiment::parse(path, &text, overrides)
    }

    /// What a text wants files of algorithms compiled with, and what the command line adds.
    pub(crate) fn module_options(
        path: &Path,
        text: &str,
        asked: &module::Options,
    ) -> Result<module::Options, Error> {
        let root = knee_file::parse(path, text)?;
        let resolved = RefCell::default();
        let reader = Reader::root(path, &root, &resolved);
        Ok(modules::with(modules::read(reader.child(&TOP.module)?)?, asked))
    }

    /// As [`Experiment::load`], from a text; `path` is for its name and for messages.
    ///
    /// # Errors
    /// As [`Experiment::load`].
    pub fn parse(path: &Path, text: &str, overrides: &Overrides) -> Result<Experiment, Error> {
        let mut root = knee_file::parse(path, text)?;
        if root.table().is_none_or(Vec::is_empty) {
            let message = "is empty: an experiment needs [network], [[traffic]] and [run]";
            return Err(Error::input(path, Origin::Nowhere, "", message));
        }
        let set = parse_set(path, &overrides.set)?;
        // Cases, axes and what is said of them are the file's, whatever the command line makes of them.
        let (own_axes, quick) = {
            let resolved = RefCell::default();
            let reader = Reader::root(path, &root, &resolved).only(&[&TOP])?;
            modules::set(path, modules::read(reader.child(&TOP.module)?)?, &overrides.modules);
            let axes = read_axes(&reader)?;
            let quick = match reader.has(&TOP.quick) {
                true => read_quick(&reader, &read_cases(&reader)?, &axes, &TOP.quick)?,
                false => None,
            };
            (axes, quick)
        };
        let chosen = quick.as_ref().filter(|_| overrides.quick);
        let set: Vec<_> = chosen.iter().flat_map(|quick| quick.overrides()).chain(set).collect();
        let mut axes = own_axes.clone();
        let (params, set) = split_params(set, &axes);
        let set = apply_set(path, &mut root, &mut axes, set)?;
        let resolved = RefCell::default();
        let reader = Reader::root(path, &root, &resolved).only(&[&TOP])?;
        let own_cases = read_cases(&reader)?;
        let published = read_published(&reader, &own_cases, &own_axes, &TOP.published)?;
        let claims = read_claims(&reader, &own_cases, &own_axes, &TOP.claim)?;
        let charts = read_charts(&reader, &own_axes, &TOP.chart)?;
        let of_quick = chosen.map_or(&[][..], |quick| quick.cases.as_slice());
        let names = if overrides.cc.is_empty() { of_quick } else { overrides.cc.as_slice() };
        let mut cases = choose_cases(path, own_cases, names)?;
        set_params(path, &mut cases, &params)?;
        let run = reader.need_child(&TOP.run)?.only(&[&RUN])?;
        let in_file = run.read(&RUN.repeat)?;
        let of_quick = chosen.and_then(|quick| quick.repeat);
        let repeat = overrides.repeat.or(of_quick).unwrap_or(in_file);
        let seed = run.read(&RUN.seed)?;
        let configurations = cross(path, &cases, &axes, repeat)?;
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
            cases,
            columns: axes.iter().map(Axis::column).collect(),
            axes,
            configurations,
            repeat,
            seed: overrides.seed.unwrap_or(seed),
            scale: overrides.scale,
            asked: overrides.clone(),
            algorithms: Vec::new(),
            modules: Vec::new(),
            memory: Memory::default(),
            has_flow_control: false,
            unchecked: VecDeque::new(),
            set,
            root: root.clone(),
        };
        experiment.unchecked = (0..experiment.configurations.len()).collect();
        let size = experiment.check_row()?;
        if size.saturating_mul(experiment.configurations.len()) > MOST_AT_ONCE {
            experiment.each_value_first();
        }
        experiment.check_rows(MOST_AT_ONCE.saturating_sub(size))?;
        experiment.check_published()?;
        experiment.check_claims()?;
        experiment.plots()?;
        Ok(experiment)
    }

    /// With all rows checked, as they must be before any is run: what one says wrong is said before hours of work.
    ///
    /// # Errors
    /// As [`Experiment::load`].
    pub fn whole(mut self) -> Result<Experiment, Error> {
        self.check_rows(usize::MAX)?;
        Ok(self)
    }

    /// Whether all rows are checked.
    pub fn is_whole(&self) -> bool {
        self.unchecked.is_empty()
    }

    /// How many rows are checked.
    pub(crate) fn checked_rows(&self) -> usize {
        self.configurations.len() - self.unchecked.len()
    }

    /// Puts those rows first that differ from the first in one value alone: most of what can be wrong is wrong in one value.
    fn each_value_first(&mut self) {
        let differs = |row: &usize| {
            let Configuration { case, point } = &self.configurations[*row];
            point.iter().chain([case]).filter(|value| **value != 0).count()
        };
        let (first, others): (VecDeque<_>, VecDeque<_>) =
            self.unchecked.iter().copied().partition(|row| differs(row) <= 1);
        self.unchecked = first.into_iter().chain(others).collect();
    }

    /// Checks rows that are not checked yet until they are so large together.
    fn check_rows(&mut self, most: usize) -> Result<(), Error> {
        let mut size = 0;
        while !self.unchecked.is_empty() && size < most {
            size += self.check_row()?;
        }
        Ok(())
    }

    /// Checks the next row, and takes up what is asked of all; says how large it is.
    fn check_row(&mut self) -> Result<usize, Error> {
        let Some(row) = self.unchecked.pop_front() else { return Ok(0) };
        let scenario = self.scenario(&self.configurations[row])?;
        self.has_flow_control |= scenario.has_flow_control();
        self.memory = std::mem::take(&mut self.memory).with(&scenario.memory);
        add_new(&mut self.algorithms, scenario.algorithms());
        add_new(&mut self.modules, scenario.modules());
        self.check_scale(&scenario)?;
        Ok(scenario.size() + self.text.len() / TEXT_PER_THING)
    }

    /// Refuses a scale that makes a run too long or too slow.
    fn check_scale(&self, scenario: &Scenario) -> Result<(), Error> {
        if self.scale.is_one() {
            return Ok(());
        }
        let mut as_written = scenario.clone();
        as_written.scale = Scale::ONE;
        let checked = self.scale.check(&as_written.run(self.seed, 0));
        checked.map_err(|why| Error::input(&self.path, Origin::Nowhere, "--scale", why))
    }

    /// Refuses figures of what is not measured.
    fn check_published(&self) -> Result<(), Error> {
        let scenario = self.scenario(&self.configurations[0])?;
        for published in &self.published {
            let wrong = |key: &str, message: String| {
                Err(Error::input(&self.path, published.origin, format!("published.{key}"), message))
            };
            let Some(metrics) = scenario.measured_of(&published.subject) else {
                let subject = published.subject.escape_debug();
                return wrong(
                    "subject",
                    format!("\"{subject}\" is neither a traffic entry nor a recorded link"),
                );
            };
            if !metrics.contains(&published.metric) {
                let name = published.metric.name();
                return wrong("metric", one_of(name, metrics.iter().map(|metric| metric.name())));
            }
        }
        Ok(())
    }

    /// What a report is to draw of connections. Names that other algorithms than the file's do not show are left out where
    /// these were asked for.
    ///
    /// # Errors
    /// If a name is none of a column.
    pub(crate) fn plots(&self) -> Result<Vec<manifest::Plot>, Error> {
        let names = self.scenario(&self.configurations[0])?.plot;
        let is_asked = !self.asked.cc.is_empty();
        let mut all = Vec::new();
        let varied = || self.columns.iter().map(|column| column.name.as_str());
        for name in names {
            match inside::plots(&name, &self.algorithms, varied()) {
                Ok(plots) => all.extend(plots),
                Err(_) if is_asked => {}
                Err(why) => {
                    return Err(Error::input(&self.path, Origin::Nowhere, "sample.plot", why));
                }
            }
        }
        Ok(all)
    }

    /// Refuses claims about what is not measured, and charts of it.
    fn check_claims(&self) -> Result<(), Error> {
        if self.claims.is_empty() && self.charts.is_empty() {
            return Ok(());
        }
        let scenario = self.scenario(&self.configurations[0])?;
        let wrong = |origin: Origin, key: String, why: String| {
            knee_file::Error::new(&self.path, origin, key, why)
        };
        claim::check_measured(&self.claims, &scenario, &wrong)?;
        Ok(chart::check_measured(&self.charts, &scenario, &wrong)?)
    }

    /// How many runs there are in all.
    pub fn runs(&self) -> usize {
        self.configurations.len() * self.repeat as usize
    }

    /// The run of a number below [`Experiment::runs`].
    pub fn run_id(&self, index: usize) -> RunId {
        let repeat = (index % self.repeat as usize) as u32;
        let configuration = index / self.repeat as usize;
        RunId { index, configuration, repeat, seed: run_seed(self.seed, repeat) }
    }

    /// What the simulator is given for a run.
    ///
    /// # Errors
    /// None of a row that is checked.
    pub fn run(&self, id: RunId) -> Result<Run, Error> {
        let scenario = self.scenario(&self.configurations[id.configuration])?;
        Ok(scenario.run(self.seed, id.repeat))
    }

    /// Names of the groups of traffic of a run, in the order of their numbers ([`knee_run::spec::Flow::group`]).
    ///
    /// # Errors
    /// None of a row that is checked.
    pub fn traffic_names(&self, id: RunId) -> Result<Vec<String>, Error> {
        let scenario = self.scenario(&self.configurations[id.configuration])?;
        Ok(scenario.groups().into_iter().map(|(name, _)| name).collect())
    }

    /// The configuration with every value in place.
    pub(crate) fn scenario(&self, configuration: &Configuration) -> Result<Scenario, Error> {
        let mut root = self.root.clone();
        let case = &self.cases[configuration.case];
        let mut cc = case.cc.clone();
        let put = |root: &mut Node, path: &str, key: &str, node: &Node| {
            root.set(path, node).map_err(|why| Error::input(&self.path, node.origin, key, why))
        };
        for (path, node) in &case.set {
            put(&mut root, path, &format!("case.{}.set.{path}", case.name), node)?;
        }
        for (axis, value) in self.axes.iter().zip(&configuration.point) {
            let node = &axis.values[*value];
            let key = format!("vary.{}", axis.path);
            match (axis.path.strip_prefix("params."), &mut cc) {
                (None, _) => put(&mut root, &axis.path, &key, node)?,
                (Some(param), Some(cc)) => set_param(cc, param, node)
                    .map_err(|why| Error::input(&self.path, axis.origin, key, why))?,
                (Some(_), None) => {
                    let why = "needs cases: cc = [\"dctcp\"] or [[case]]";
                    return Err(Error::input(&self.path, axis.origin, key, why));
                }
            }
        }
        for (path, node) in &self.set {
            put(&mut root, path, path, node)?;
        }
        let labels = self.point_labels(configuration).iter().map(String::len).sum::<usize>();
        let asked = MemoryInputs {
            most_bytes: self.asked.memory_bytes.unwrap_or(MOST_BYTES),
            // With its number, the repeat's and commas.
            label_bytes: (case.name.len() + labels + 2 * self.axes.len() + 16) as u64,
            repeat: self.repeat,
        };
        let mut scenario = Scenario::read(&self.path, &root, cc.as_ref(), asked)?;
        scenario.scale = self.scale;
        Ok(scenario)
    }

    /// Name of the case of a configuration.
    pub fn case_name(&self, configuration: &Configuration) -> &str {
        &self.cases[configuration.case].name
    }

    /// The varied values of a configuration, as text, in the order of [`Experiment::axes`].
    pub fn point_labels(&self, configuration: &Configuration) -> Vec<String> {
        let values = self.axes.iter().zip(&configuration.point);
        values.map(|(axis, value)| axis.values[*value].label()).collect()
    }

    /// The varied values of a configuration as tables have them.
    pub(crate) fn point_cells(
        &self,
        configuration: &Configuration,
    ) -> impl Iterator<Item = Cell<'_>> {
        let values = self.axes.iter().zip(&self.columns).zip(configuration.point.clone());
        values.map(|((axis, column), value)| match &column.numbers {
            Some(numbers) => numbers[value].into(),
            None => axis.values[value].label().into(),
        })
    }

    /// The same as JSON, each beside the name of its column.
    pub(crate) fn point_json(&self, configuration: &Configuration) -> Map<String, Json> {
        let values = self.axes.iter().zip(&self.columns).zip(&configuration.point);
        let json = values.map(|((axis, column), value)| match &column.numbers {
            Some(numbers) => (column.name.clone(), numbers[*value].into()),
            None => (column.name.clone(), axis.values[*value].json()),
        });
        json.collect()
    }

    /// A configuration in words: `case dctcp, traffic.short.size = 10 kB`.
    pub fn describe(&self, configuration: &Configuration) -> String {
        let mut words = format!("case {}", self.case_name(configuration));
        for (axis, label) in self.axes.iter().zip(self.point_labels(configuration)) {
            words.push_str(&format!(", {} = {label}", axis.path));
        }
        words
    }

    /// Topology, as the file names it.
    pub fn topology(&self) -> Option<&str> {
        self.root.get("network")?.get("topology")?.text()
    }

    /// Every value of every case, defaults included, at the first of the varied values.
    ///
    /// # Errors
    /// None that [`Experiment::load`] has not found before.
    pub fn resolved(&self) -> Result<Map<String, Json>, Error> {
        let flat = |resolved: Resolved| resolved.into_iter().collect::<Map<_, _>>();
        let first = self.configurations.iter().take(self.cases.len());
        first
            .map(|configuration| {
                let mut values = flat(self.scenario(configuration)?.resolved);
                if let Some(cc) = &self.cases[configuration.case].cc {
                    values.insert("case.cc".into(), cc.name().into());
                    for (info, value) in cc.algorithm.params().iter().zip(cc.params.values()) {
                        values
                            .insert(format!("case.params.{}", info.name), info.show(*value).into());
                    }
                }
                Ok((self.case_name(configuration).to_owned(), Json::Object(values)))
            })
            .collect()
    }

    /// The varied values, by path.
    pub fn varied(&self) -> Map<String, Json> {
        let values = |axis: &Axis| axis.values.iter().map(Node::json).collect::<Json>();
        self.axes.iter().map(|axis| (axis.path.clone(), values(axis))).collect()
    }
}

/// Adds those that the list does not have.
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

/// The text of an experiment's file.
///
/// # Errors
/// [`Error::Io`] or [`Error::Input`], if it is none.
pub fn read_text(path: &Path) -> Result<String, Error> {
    knee_files::read_text(path, MAX_FILE_BYTES, "experiment file")
        .map_err(|why| Error::unreadable(path, why))
}

// ---- --set ----

fn parse_set(path: &Path, set: &[String]) -> Result<Vec<(String, Node)>, Error> {
    set.iter()
        .map(|assignment| {
            let (key, value) = assignment.split_once('=').ok_or_else(|| {
                let shown: String = assignment.chars().take(60).collect();
                let message = "must be KEY=VALUE, as in network.bottleneck.rate=\"10 Gbps\"";
                Error::input(path, Origin::CommandLine, shown.escape_debug().to_string(), message)
            })?;
            Ok((key.trim().to_owned(), parse_override(value.trim())))
        })
        .collect()
}

/// Applies what applies to the document as such, and gives back what must come after the cases and
/// the varied values. A varied key takes the value, or the list of them, in place of the file's.
fn apply_set(
    path: &Path,
    root: &mut Node,
    axes: &mut [Axis],
    set: Vec<(String, Node)>,
) -> Result<Vec<(String, Node)>, Error> {
    let mut later = Vec::new();
    for (key, node) in set {
        let wrong = |why| Error::input(path, Origin::CommandLine, key.clone(), why);
        if let Some(axis) = axes.iter_mut().find(|axis| axis.path == key) {
            axis.values = axis_values(&node).map_err(wrong)?;
            axis.origin = node.origin;
            continue;
        }
        if key.split('.').next() == Some("vary") {
            return Err(wrong(
                "is the path of [vary]: set the varied key itself, as in traffic.short.size='[\"1 \
                    kB\"]'"
                    .into(),
            ));
        }
        root.set(&key, &node).map_err(wrong)?;
        later.push((key, node));
    }
    Ok(later)
}

/// `params.NAME` of the cases, unless the file varies it, and the rest.
fn split_params(set: Vec<(String, Node)>, axes: &[Axis]) -> (Table, Table) {
    set.into_iter().partition(|(key, _)| {
        key.starts_with("params.") && !axes.iter().any(|axis| axis.path == *key)
    })
}

/// Gives every case whose algorithm has the parameter this value of it.
fn set_params(
    path: &Path,
    cases: &mut [Case],
    params: &[(String, Node)],
) -> Result<(), knee_file::Error> {
    for (key, node) in params {
        let wrong = |message: String| {
            knee_file::Error::new(path, node.origin, key.clone(), message).with_value(node.show())
        };
        let name = key.strip_prefix("params.").unwrap_or(key);
        let mut known: Vec<&str> = Vec::new();
        let mut is_known = false;
        for cc in cases.iter_mut().filter_map(|case| case.cc.as_mut()) {
            let names = cc.algorithm.params().iter().map(|info| -> &str { info.name });
            known.extend(names.clone());
            if names.clone().any(|known| known == name) {
                is_known = true;
                set_param(cc, name, node).map_err(wrong)?;
            }
        }
        if !is_known {
            let near = did_you_mean(name, known);
            return Err(wrong(format!("no case has an algorithm with this parameter{near}")));
        }
    }
    Ok(())
}

// ---- [vary] ----

fn read_axes(root: &Reader<'_>) -> Result<Vec<Axis>, knee_file::Error> {
    let Some(vary) = root.child(&TOP.vary)? else { return Ok(Vec::new()) };
    vary.entries()
        .map(|(path, node)| {
            varied_path(path).map_err(|why| vary.error(path, why))?;
            let values = axis_values(node).map_err(|why| vary.error(path, why))?;
            Ok(Axis { path: path.to_owned(), origin: node.origin, values })
        })
        .collect()
}

/// Every case at every point, the first axis slowest.
fn cross(
    path: &Path,
    cases: &[Case],
    axes: &[Axis],
    repeat: u32,
) -> Result<Vec<Configuration>, Error> {
    let points = axes.iter().fold(cases.len(), |n, axis| n.saturating_mul(axis.values.len()));
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
    let mut all = vec![Vec::new()];
    for axis in axes {
        let longer = |point: &Vec<usize>| {
            let point = point.clone();
            (0..axis.values.len()).map(move |i| [point.as_slice(), &[i]].concat())
        };
        all = all.iter().flat_map(longer).collect();
    }
    let at = |point: Vec<usize>| {
        (0..cases.len()).map(move |case| Configuration { case, point: point.clone() })
    };
    Ok(all.into_iter().flat_map(at).collect())
}

// ---- cases ----

/// The file's own: `[[case]]`, or a list `cc` of algorithms.
fn read_cases(root: &Reader<'_>) -> Result<Vec<Case>, knee_file::Error> {
    let mut cases: Vec<Case> = Vec::new();
    if let Some(names) = root.texts(&TOP.cc)? {
        if root.has(&TOP.case) {
            return Err(root.error(&TOP.cc, "conflicts with [[case]]: leave one out"));
        }
        for name in names {
            let folder = root.file().parent().unwrap_or(Path::new(""));
            let case = case_of_algorithm(name, folder, root.file()).unwrap_or_else(|why| {
                let wrong = why.of(|first| root.error(&TOP.cc, first));
                Case { wrong: Some(Box::new(wrong)), ..Case::without_cc(name) }
            });
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
        let (cc, wrong) = match read_cc(&reader, &CASE.cc, &CASE.params) {
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
        cases.push(Case { name, cc, wrong, set });
    }
    if cases.is_empty() {
        cases.push(Case::without_cc("as-written"));
    }
    Ok(cases)
}

fn case_of_algorithm(name: &str, folder: &Path, experiment: &Path) -> Result<Case, NoAlgorithm> {
    let cc = cc_named(name, folder, experiment)?;
    Ok(Case { cc: Some(cc.clone()), ..Case::without_cc(&cc.name()) })
}

/// The cases that `--cc` names: the file's own of that name, or else the algorithm alone.
fn choose_cases(path: &Path, own: Vec<Case>, names: &[String]) -> Result<Vec<Case>, Error> {
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
            None => case_of_algorithm(name, Path::new(""), path).map_err(|why| {
                let mut known: Vec<&str> = own.iter().map(|case| case.name.as_str()).collect();
                known.extend(Algorithm::all().iter().map(|algorithm| -> &str { algorithm.name() }));
                known.retain(|name| *name != "as-written");
                known.sort_unstable();
                known.dedup();
                let shown: String = name.chars().take(40).collect();
                // What there is of these is known to whoever looked for it.
                let says_itself = module::is_path(name) || name.starts_with(KERNELS_OWN);
                let wrong = |message: String| {
                    knee_file::Error::new(path, Origin::Nowhere, "--cc", message)
                        .with_value(format!("{shown:?}"))
                };
                match says_itself {
                    true => why.of(wrong),
                    false => {
                        wrong(not_built(name).unwrap_or_else(|| one_of(name, known.into_iter())))
                    }
                }
            })?,
        };
        if !chosen.iter().any(|prior| prior.name == case.name) {
            chosen.push(case);
        }
    }
    Ok(chosen)
}
