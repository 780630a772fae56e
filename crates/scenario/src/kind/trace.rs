//! `kind = "trace"`: transfers from a CSV file, which may wait for each other.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;

use knee_file::keys::{Choice, Key, List, Text};
use knee_file::{Error, Origin, Reason, did_you_mean, keys};
use knee_queue::time::{Duration, Time};
use knee_run::spec::{NodeId, Run, Task};

use super::connections::{CONNECTIONS, Connections};
use super::jobs::{self, Job, MAX_TASKS};
use super::messages::Messages;
use super::{
    COMMON, Described, EntryInRun, EntryParts, EntryReader, Group, MAX_FLOWS, NAMED, Pattern,
    TrafficSpec,
};
use crate::inputs;
use crate::metric::{Kind, Known, Measured, Metric as M};
use crate::network::NetworkSpec;

/// Largest file, bytes.
const MAX_BYTES: u64 = 64 << 20;
/// Largest number of rows that all rows together wait for.
const MAX_EDGES: u64 = 2 * MAX_TASKS;
/// Longest time in a file, ns: eleven days.
const MAX_NS: f64 = 1e15;

keys! {
    /// Transfers from a file.
    static KEYS: TraceKeys = "trace" {
        /// CSV file with columns `start_us`, `from`, `to`, `bytes` and more, relative to the experiment's file.
        file: Key<Text> = needed("flows.csv"),
        /// Hosts that numbers in `from` and `to` of the file stand for, from 0.
        hosts: Key<List<Text>> = like("h1..h16").usually("none: the file has names"),
        /// A new connection for each row, or one for all rows between two hosts in one direction.
        connections: Choice<bool> = of(&[("new", false), ("kept", true)]).or("new"),
    }
}

pub(super) static TRACE: Described =
    Described { keys: &[&NAMED, &COMMON, &CONNECTIONS, &KEYS], read };

/// Units of time in names of columns, in ns.
const UNITS: [(&str, f64); 4] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];

/// Rows of a file.
#[derive(Debug)]
struct Trace {
    rows: Vec<Row>,
    /// The rows in an order in which each waits only for rows before it.
    order: Vec<u32>,
    /// Whether rows share connections.
    is_kept: bool,
}

#[derive(Clone, Debug)]
struct Row {
    line: u32,
    /// Index of its connection.
    pair: u32,
    start: Duration,
    bytes: u64,
    /// Indices of the rows that it waits for.
    after: Vec<u32>,
    gap: Duration,
}

fn read(entry: &EntryReader<'_>) -> Result<EntryParts, Error> {
    let (reader, network) = (entry.reader, entry.network);
    let connections = Connections::read_alone(entry)?;
    let name = reader.need_text(&KEYS.file)?;
    let numbered = match reader.texts(&KEYS.hosts)? {
        None => None,
        Some(hosts) => {
            Some(network.hosts_of(&hosts).map_err(|why| reader.error(&KEYS.hosts, why))?)
        }
    };
    let is_kept = reader.choose(&KEYS.connections)?;
    let inputs::Text { path, text } =
        inputs::read_text(reader, &KEYS.file, name, MAX_BYTES, "trace")?;
    let source = Source { path, network, numbered, is_kept };
    let (trace, pairs) = source.parse(&text)?;
    let mut bytes = vec![0u64; pairs.len()];
    for row in &trace.rows {
        let sum = &mut bytes[row.pair as usize];
        *sum = sum.saturating_add(row.bytes);
    }
    Ok(jobs::parts(Kind::Trace, connections, (pairs, bytes), trace))
}

impl Trace {
    /// Whether its transfers are more than flows with start times.
    fn has_tasks(&self) -> bool {
        self.is_kept || self.rows.iter().any(|row| !row.after.is_empty())
    }
}

impl Pattern for Trace {
    /// Returns the smallest and the largest transfer, if each has its own connection.
    fn drawn_sizes(&self) -> Option<(u64, u64)> {
        let sizes = || self.rows.iter().map(|row| row.bytes);
        if self.is_kept { None } else { sizes().min().zip(sizes().max()) }
    }

    /// Returns the number of messages, and of times that they wait for.
    fn tasks(&self) -> u64 {
        let timed = self.rows.iter().filter(|row| row.is_timed_and_waits()).count();
        if self.has_tasks() { (self.rows.len() + timed) as u64 } else { 0 }
    }

    fn build(&self, entry: &TrafficSpec, in_run: &EntryInRun, run: &mut Run) {
        let first = entry.connect(in_run, run);
        let job = Job::of(entry, in_run, first);
        if !self.is_kept {
            for (flow, row) in run.flows[first..].iter_mut().zip(&self.rows) {
                // The start time of waiting flows counts from the end of the others.
                flow.start = match row.after.is_empty() {
                    true => job.start + row.start,
                    false => Time::ZERO + row.gap,
                };
            }
        }
        if !self.has_tasks() {
            return;
        }
        let mut places = vec![0; self.rows.len()];
        for index in &self.order {
            let row = &self.rows[*index as usize];
            let start_ns = (job.start + row.start).ns();
            let of_job = Task { job: job.number, ..Task::default() };
            let mut after: Vec<u32> =
                row.after.iter().map(|before| places[*before as usize]).collect();
            if row.is_timed_and_waits() {
                after.push(run.schedule.tasks.len() as u32);
                run.schedule.tasks.push(Task { gap_ns: start_ns, ..of_job.clone() });
            }
            places[*index as usize] = run.schedule.tasks.len() as u32;
            run.schedule.tasks.push(Task {
                flow: Some(job.first + row.pair),
                bytes: row.bytes,
                connects: !self.is_kept,
                gap_ns: if after.is_empty() { start_ns } else { row.gap.ns() },
                after,
                ..of_job
            });
        }
    }

    fn measure(&self, measured: &mut Measured, group: &Group<'_>) {
        if let Some(messages) = Messages::of(group, false) {
            messages.measure(measured, group.facts);
            if messages.have_connections() {
                group.measure_slowdown(measured);
            }
            return;
        }
        group.measure_transfers(measured);
        group.measure_slowdown(measured);
        // The time of a trace whose transfers wait for no others.
        let end = group.facts.outcome.end;
        let all = group.flows().map(|(_, _, got)| got.done_at).collect::<Option<Vec<_>>>();
        let last = all.and_then(|all| all.into_iter().max());
        let starts = group.entries.iter().map(|(number, _)| group.facts.starts[*number]);
        let start = starts.min().unwrap_or(Time::ZERO);
        if start < end {
            measured.record_time(M::Job, Known::between(start, last, end));
        }
    }
}

impl Row {
    /// Whether it waits both for others and for its start time.
    fn is_timed_and_waits(&self) -> bool {
        !self.after.is_empty() && self.start > Duration::ZERO
    }
}

/// A file, and what its cells refer to.
struct Source<'a> {
    path: PathBuf,
    network: &'a NetworkSpec,
    numbered: Option<Vec<NodeId>>,
    is_kept: bool,
}

/// Places of the columns, and the units of times in ns.
struct Columns {
    count: usize,
    id: Option<usize>,
    start: (usize, f64),
    from: usize,
    to: usize,
    bytes: usize,
    after: Option<usize>,
    gap: Option<(usize, f64)>,
}

impl Source<'_> {
    fn error(&self, line: u32, message: impl Into<Reason>) -> Error {
        Error::new(&self.path, Origin::Line(line), "", message)
    }

    /// Returns the rows, and the hosts of each connection.
    fn parse(&self, text: &str) -> Result<(Trace, Vec<(NodeId, NodeId)>), Error> {
        let lines = text.lines().zip(1u32..).map(|(line, number)| (line.trim(), number));
        let mut lines = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
        let Some((header, number)) = lines.next() else {
            return Err(self
                .error(1, "is empty: the first line names columns, as in start_us,from,to,bytes"));
        };
        let columns = Columns::read(header).map_err(|why| self.error(number, why))?;
        let mut rows = Vec::new();
        let mut pairs = Vec::new();
        let mut pair_of: HashMap<(NodeId, NodeId), u32> = HashMap::new();
        let mut ids: HashMap<String, u32> = HashMap::new();
        let mut waits: Vec<(u32, &str)> = Vec::new();
        let most = if self.is_kept { MAX_TASKS } else { MAX_FLOWS };
        if let Some((_, number)) = lines.clone().nth(most as usize) {
            return Err(self.error(number, format!("has more than {most} rows: take a part")));
        }
        let mut cells = Vec::new();
        for (line, number) in lines {
            let index = rows.len() as u32;
            inputs::split(line, &mut cells).map_err(|why| self.error(number, why))?;
            let (row, pair) =
                self.row(&cells, &columns, number).map_err(|why| self.error(number, why))?;
            let id = columns.id.map_or_else(|| (index + 1).to_string(), |at| cells[at].to_owned());
            if id.is_empty() {
                return Err(
                    self.error(number, "id is empty: give each row one, or leave the column out")
                );
            }
            if let Some(before) = ids.insert(id, index) {
                let other = rows.get(before as usize).map_or(0, |row: &Row| row.line);
                return Err(self.error(number, format!("has the id of line {other}")));
            }
            let new = pairs.len() as u32;
            let of_row = if self.is_kept { *pair_of.entry(pair).or_insert(new) } else { new };
            if of_row == new {
                pairs.push(pair);
            }
            if pairs.len() as u64 > MAX_FLOWS {
                return Err(self.error(number, format!("gives more than {MAX_FLOWS} connections")));
            }
            if let Some(after) = columns.after.map(|at| cells[at]).filter(|cell| !cell.is_empty()) {
                waits.push((index, after));
            }
            rows.push(Row { pair: of_row, ..row });
        }
        if rows.is_empty() {
            return Err(self.error(number, "has no rows below the names of columns"));
        }
        let mut edges = 0;
        for (index, cell) in waits {
            let line = rows[index as usize].line;
            let mut after = Vec::new();
            for id in cell.split([' ', ';']).filter(|id| !id.is_empty()) {
                let Some(before) = ids.get(id) else {
                    let message =
                        format!("after: there is no row with the id {}", inputs::shown(id));
                    return Err(self.error(line, message));
                };
                after.push(*before);
            }
            after.sort_unstable();
            after.dedup();
            edges += after.len() as u64;
            if edges > MAX_EDGES {
                let message =
                    format!("after: the file names more than {MAX_EDGES} rows to wait for");
                return Err(self.error(line, message));
            }
            rows[index as usize].after = after;
        }
        let order = self.sorted(&rows)?;
        Ok((Trace { rows, order, is_kept: self.is_kept }, pairs))
    }

    /// Reads a row, whose connection and dependencies are still missing.
    fn row(
        &self,
        cells: &[&str],
        columns: &Columns,
        line: u32,
    ) -> Result<(Row, (NodeId, NodeId)), String> {
        if cells.len() != columns.count {
            let more = if cells.len() > columns.count { "more than " } else { "" };
            return Err(format!(
                "has {more}{} cells, but the first line names {}",
                cells.len().min(columns.count),
                columns.count
            ));
        }
        let (from, to) =
            (self.host("from", cells[columns.from])?, self.host("to", cells[columns.to])?);
        if from == to {
            return Err("from and to are the same host: its traffic crosses no network".into());
        }
        let bytes = cells[columns.bytes];
        let bytes = match bytes.parse::<u64>() {
            Ok(bytes) if (1..=1 << 50).contains(&bytes) => bytes,
            _ => {
                let bytes = inputs::shown(bytes);
                return Err(format!("{bytes} bytes: must be a whole number from 1 to 2^50"));
            }
        };
        let start = time("start", cells[columns.start.0], columns.start.1)?;
        let gap = match columns.gap {
            Some((at, unit)) => time("gap", cells[at], unit)?,
            None => Duration::ZERO,
        };
        let waits = columns.after.is_some_and(|at| !cells[at].is_empty());
        if gap > Duration::ZERO && !waits {
            return Err("gap needs after: it counts from the end of other rows".into());
        }
        Ok((Row { line, pair: 0, start, bytes, after: Vec::new(), gap }, (from, to)))
    }

    fn host(&self, column: &str, cell: &str) -> Result<NodeId, String> {
        match (&self.numbered, cell.parse::<usize>()) {
            (Some(hosts), Ok(number)) => hosts.get(number).copied().ok_or_else(|| {
                format!(
                    "{column} = {number}: must be 0 to {}, as \"hosts\" has {}",
                    hosts.len() - 1,
                    hosts.len()
                )
            }),
            _ => {
                match self.network.hosts_of(&[cell]).map_err(|why| format!("{column}: {why}"))?[..]
                {
                    [host] => Ok(host),
                    _ => Err(format!("{column} = {}: must be one host", inputs::shown(cell))),
                }
            }
        }
    }

    /// Sorts rows behind those that they wait for.
    fn sorted(&self, rows: &[Row]) -> Result<Vec<u32>, Error> {
        let mut waits_for: Vec<usize> = rows.iter().map(|row| row.after.len()).collect();
        let mut next: Vec<Vec<u32>> = vec![Vec::new(); rows.len()];
        for (row, index) in rows.iter().zip(0..) {
            row.after.iter().for_each(|before| next[*before as usize].push(index));
        }
        let free = (0..rows.len() as u32).filter(|index| waits_for[*index as usize] == 0);
        let mut free: VecDeque<u32> = free.collect();
        let mut order = Vec::with_capacity(rows.len());
        while let Some(index) = free.pop_front() {
            order.push(index);
            for later in &next[index as usize] {
                waits_for[*later as usize] -= 1;
                if waits_for[*later as usize] == 0 {
                    free.push_back(*later);
                }
            }
        }
        match waits_for.iter().position(|count| *count > 0) {
            Some(stuck) => Err(self.error(
                rows[stuck].line,
                "after: waits for rows that wait for it, too, or for others that do",
            )),
            None => Ok(order),
        }
    }
}

impl Columns {
    fn read(header: &str) -> Result<Columns, String> {
        let mut names = Vec::new();
        inputs::split(header, &mut names)?;
        let known = ["id", "from", "to", "bytes", "after"];
        for (at, name) in names.iter().enumerate() {
            let is_time = |what: &str| unit_of(name, what).is_some();
            if !known.contains(name) && !is_time("start") && !is_time("gap") {
                let hint = did_you_mean(name, known);
                return Err(format!(
                    "{} is no column: they are id, start_UNIT, from, to, bytes, after and gap_UNIT, where UNIT is s, \
                     ms, us or ns{hint}",
                    inputs::shown(name)
                ));
            }
            if names[..at].contains(name) {
                return Err(format!("names {name:?} twice"));
            }
        }
        let place = |wanted: &str| names.iter().position(|name| *name == wanted);
        let need =
            |wanted: &str| place(wanted).ok_or_else(|| format!("lacks the column {wanted:?}"));
        let time = |what: &str| {
            let mut all =
                names.iter().enumerate().filter_map(|(at, name)| Some((at, unit_of(name, what)?)));
            let first = all.next();
            if all.next().is_some() {
                return Err(format!("has two columns of {what}"));
            }
            Ok(first)
        };
        let start = time("start")?;
        Ok(Columns {
            count: names.len(),
            id: place("id"),
            start: start.ok_or("lacks a column of start times, as start_us or start_s")?,
            from: need("from")?,
            to: need("to")?,
            bytes: need("bytes")?,
            after: place("after"),
            gap: time("gap")?,
        })
    }
}

/// Returns the unit of a column such as `start_us`, in ns.
fn unit_of(name: &str, what: &str) -> Option<f64> {
    let unit = name.strip_prefix(what)?.strip_prefix('_')?;
    UNITS.iter().find(|(known, _)| *known == unit).map(|(_, ns)| *ns)
}

/// Reads a time, rounded to ns. An empty cell is 0.
fn time(what: &str, cell: &str, unit_ns: f64) -> Result<Duration, String> {
    if cell.is_empty() {
        return Ok(Duration::ZERO);
    }
    match cell.parse::<f64>().map(|number| (number * unit_ns).round()) {
        Ok(ns) if (0.0..=MAX_NS).contains(&ns) => Ok(Duration::from_ns(ns as u64)),
        _ => Err(format!("{what} = {}: must be a number from 0 to 11 days", inputs::shown(cell))),
    }
}
