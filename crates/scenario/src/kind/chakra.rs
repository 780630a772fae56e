//! `kind = "chakra"`: Chakra execution traces (MLCommons): what each rank of a training job computes, sends and waits for.

mod order;
mod read;
mod schema;

use std::collections::HashMap;

use knee_file::keys::{Choice, Key, List, Text};
use knee_file::units::Size;
use knee_file::{Error, Origin, Reader, keys};
use knee_run::spec::{NodeId, Run, Task};

use super::collective::{Collective, Operation};
use super::connections::{CONNECTIONS, Connections};
use super::jobs::{self, Job, MAX_TASKS};
use super::messages::Messages;
use super::{
    COMMON, Described, EntryInRun, EntryParts, EntryReader, Group, MAX_FLOWS, NAMED, Pattern,
    TrafficSpec,
};
use crate::inputs;
use crate::metric::{Kind, Measured};

use self::order::{Unit, Units};
use self::read::{Does, Groups, MAX_FILE_BYTES, Stream, Traced, Traces, parse_groups};
use self::schema::CollectiveCommType;

/// Largest file of process groups, bytes.
const MAX_GROUPS_BYTES: u64 = 4 << 20;

keys! {
    /// A training job that was recorded as Chakra execution traces.
    static KEYS: ChakraKeys = "chakra" {
        /// Beginning of the files' names, relative to the experiment's file: rank 0 is in `TRACE.0.et`.
        trace: Key<Text> = needed("traces/step"),
        /// Hosts of the ranks, in order.
        hosts: Key<List<Text>> = needed("h1..h8"),
        /// JSON file of process groups, as in `{"0": [0, 1]}`.
        groups: Key<Text> = like("groups.json").usually("those of the trace's metadata"),
        /// Algorithm of all-reduces.
        all_reduce: Choice<Operation> = of(ALL_REDUCES).or("ring"),
        /// Computations of a rank's stream or thread one by one, or as soon as dependencies allow.
        compute: Choice<bool> = of(&[("one-by-one", true), ("parallel", false)]).or("one-by-one"),
        /// The whole trace so many times, one after another.
        iterations: Key<u64> = or(1).within(1, MAX_TASKS),
        /// Largest part of a message that a rank passes on before the rest has arrived.
        chunk: Key<Size> = or(Size(512 << 10)),
        /// Rings or trees in parallel, each with its share of the data.
        channels: Key<u64> = or(1).within(1, 64),
    }
}

pub(super) static CHAKRA: Described =
    Described { keys: &[&NAMED, &COMMON, &CONNECTIONS, &KEYS], read };

const ALL_REDUCES: &[(&str, Operation)] =
    &[("ring", Operation::RingAllReduce), ("tree", Operation::TreeAllReduce)];

/// Connections that operations share: those of a group that send along the same pairs, and in the same direction.
type Shared = (u32, Operation, u32);

/// A job, as the tasks of one iteration.
#[derive(Debug)]
struct Chakra {
    /// Tasks of an iteration, with flows and tasks counted from its first ones. At first those that begin it at each
    /// rank, at last those that end it.
    tasks: Vec<Task>,
    ranks: usize,
    iterations: u64,
}

fn read(entry: &EntryReader<'_>) -> Result<EntryParts, Error> {
    let (reader, network) = (entry.reader, entry.network);
    let connections = Connections::read_alone(entry)?;
    let texts = reader.need_texts(&KEYS.hosts)?;
    let hosts = network.hosts_of(&texts).map_err(|why| reader.error(&KEYS.hosts, why))?;
    let mut sorted = hosts.clone();
    sorted.sort_unstable();
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        let why = format!("must name each host once: {} is there twice", network.name(pair[0]));
        return Err(reader.error(&KEYS.hosts, why));
    }
    if hosts.len() < 2 {
        return Err(reader.error(&KEYS.hosts, "must name at least two hosts"));
    }
    let iterations = reader.read(&KEYS.iterations)?;
    let mut build = Build {
        hosts: &hosts,
        all_reduce: reader.choose(&KEYS.all_reduce)?,
        is_one_by_one: reader.choose(&KEYS.compute)?,
        chunk: reader.read(&KEYS.chunk)?.0.max(1),
        channels: reader.read(&KEYS.channels)? as usize,
        most_tasks: MAX_TASKS / iterations,
        tasks: Vec::new(),
        pairs: Vec::new(),
        between: HashMap::new(),
        shared: HashMap::new(),
        busy: HashMap::new(),
    };
    let traces = read_traces(reader, hosts.len() as u32)?;
    let units = Units::of(&traces)?;
    build.add_all(&traces, &units)?;
    let Build { tasks, pairs, .. } = build;
    if pairs.is_empty() {
        return Err(reader.error(&KEYS.trace, "has no node that communicates"));
    }
    let mut bytes = vec![0u64; pairs.len()];
    for task in &tasks {
        if let Some(sum) = task.flow.and_then(|flow| bytes.get_mut(flow as usize)) {
            *sum = sum.saturating_add(task.bytes.saturating_mul(iterations));
        }
    }
    let chakra = Chakra { tasks, ranks: hosts.len(), iterations };
    Ok(jobs::parts(Kind::Chakra, connections, (pairs, bytes), chakra))
}

impl Pattern for Chakra {
    fn tasks(&self) -> u64 {
        (self.tasks.len() as u64).saturating_mul(self.iterations)
    }

    /// Adds all iterations to a run. A rank begins the next one when it has ended its own.
    fn build(&self, entry: &TrafficSpec, in_run: &EntryInRun, run: &mut Run) {
        let job = Job::of(entry, in_run, entry.connect(in_run, run));
        let each = self.tasks.len() as u32;
        let last = each - self.ranks as u32;
        for round in 0..self.iterations as u32 {
            let base = run.schedule.tasks.len() as u32;
            for (task, index) in self.tasks.iter().zip(0u32..) {
                let begins = index < self.ranks as u32;
                let mut after: Vec<u32> = task.after.iter().map(|before| base + before).collect();
                if begins && round > 0 {
                    after.push(base - each + last + index);
                }
                let waits_ns = if begins && round == 0 { job.start.ns() } else { 0 };
                run.schedule.tasks.push(Task {
                    flow: task.flow.map(|flow| job.first + flow),
                    after,
                    gap_ns: task.gap_ns + waits_ns,
                    job: job.number,
                    round,
                    ..task.clone()
                });
            }
        }
    }

    fn measure(&self, measured: &mut Measured, group: &Group<'_>) {
        if let Some(messages) = Messages::of(group, true) {
            messages.measure(measured, group.facts);
        }
    }
}

/// Reads the files of all ranks.
fn read_traces(reader: &Reader<'_>, ranks: u32) -> Result<Traces, Error> {
    let prefix = reader.need_text(&KEYS.trace)?;
    let common = match reader.text(&KEYS.groups)? {
        None => Groups::new(),
        Some(name) => {
            let what = "file of process groups";
            let file = inputs::read_text(reader, &KEYS.groups, name, MAX_GROUPS_BYTES, what)?;
            parse_groups(&file.text, ranks)
                .map_err(|why| Error::new(&file.path, Origin::Nowhere, "", why))?
        }
    };
    let path = |rank: u32| inputs::path(reader, &format!("{prefix}.{rank}.et"));
    let mut traced = Traced::new(ranks, &common);
    let mut hashes = inputs::Hashes::default();
    for rank in 0..ranks {
        let path = path(rank);
        let what = "Chakra execution trace";
        let bytes = knee_files::read_bounded(&path, MAX_FILE_BYTES, what).map_err(|why| {
            let why = match why.is_absent() {
                true => format!(
                    "there is no {}: each of the {ranks} hosts needs the file of its rank",
                    path.display()
                ),
                false => format!("{}: {why}", path.display()),
            };
            reader.error(&KEYS.trace, why)
        })?;
        hashes.add(&bytes);
        traced.add(path, &bytes)?;
    }
    if path(ranks).exists() {
        let why = format!(
            "must name a host for each rank: there is {}, but only {ranks} are named",
            path(ranks).display()
        );
        return Err(reader.error(&KEYS.hosts, why));
    }
    hashes.note(reader, &KEYS.trace, &format!("{prefix}.*.et"));
    Ok(traced.finish())
}

/// Tasks of an iteration, as they are made.
struct Build<'a> {
    hosts: &'a [NodeId],
    all_reduce: Operation,
    is_one_by_one: bool,
    chunk: u64,
    channels: usize,
    /// Largest number of tasks.
    most_tasks: u64,
    tasks: Vec<Task>,
    pairs: Vec<(NodeId, NodeId)>,
    /// Connections of messages from one rank to another.
    between: HashMap<(u32, u32), u32>,
    /// The first connection of each set that operations share.
    shared: HashMap<Shared, u32>,
    /// The last computation of each stream.
    busy: HashMap<(u32, Stream), u32>,
}

impl Build<'_> {
    fn add_all(&mut self, traces: &Traces, units: &Units) -> Result<(), Error> {
        let ranks = self.hosts.len();
        self.tasks.resize(ranks, Task::default());
        // The task whose end is that of each node.
        let mut done = vec![0; traces.nodes.len()];
        let mut is_waited_for = vec![false; traces.nodes.len()];
        for unit in &units.order {
            match unit {
                Unit::Alone(node) => {
                    let node = *node as usize;
                    self.check(traces, node, 1)?;
                    done[node] = self.add(traces, units, node, &done);
                }
                Unit::Together(operation) => {
                    let members = &units.operations[*operation as usize];
                    self.add_operation(traces, members, &mut done)?;
                }
            }
        }
        for node in 0..traces.nodes.len() {
            traces.after(node).iter().for_each(|before| is_waited_for[*before as usize] = true);
        }
        for (rank, from_until) in traces.first.windows(2).enumerate() {
            let nodes = (from_until[0]..from_until[1]).filter(|node| !is_waited_for[*node]);
            let mut after: Vec<u32> = nodes.map(|node| done[node]).chain([rank as u32]).collect();
            after.sort_unstable();
            after.dedup();
            self.tasks.push(Task { after, ..Task::default() });
        }
        Ok(())
    }

    /// Refuses tasks beyond the largest number.
    fn check(&self, traces: &Traces, node: usize, more: u64) -> Result<(), Error> {
        let tasks = (self.tasks.len() + self.hosts.len()) as u64;
        if tasks.saturating_add(more) <= self.most_tasks {
            return Ok(());
        }
        let why = format!(
            "with it, all iterations have more than {MAX_TASKS} messages and computations: fewer iterations, a larger chunk, or \
             a part of the trace"
        );
        Err(traces.error(node, why))
    }

    /// Returns the tasks that a node waits for: at least the beginning of the iteration at its rank.
    fn after(&self, traces: &Traces, node: usize, done: &[u32]) -> Vec<u32> {
        let before = traces.after(node);
        let mut after: Vec<u32> = before.iter().map(|before| done[*before as usize]).collect();
        if after.is_empty() {
            after.push(traces.rank(node) as u32);
        }
        after
    }

    /// Adds a node that is carried out alone. Returns the task with which it is done.
    fn add(&mut self, traces: &Traces, units: &Units, node: usize, done: &[u32]) -> u32 {
        let mut after = self.after(traces, node, done);
        let rank = traces.rank(node) as u32;
        let mut task = Task::default();
        match traces.nodes[node].does {
            Does::Computes { ns, on } => {
                task.gap_ns = ns;
                let next = self.tasks.len() as u32;
                if self.is_one_by_one && ns > 0 {
                    after.extend(self.busy.insert((rank, on), next));
                }
            }
            Does::Sends { to, bytes, .. } => {
                task.flow = Some(self.connection(rank, to));
                task.bytes = bytes.max(1);
            }
            Does::Receives { .. } => {
                after.extend(units.sender.get(&(node as u32)).map(|sender| done[*sender as usize]));
            }
            Does::Collective { .. } => {}
        }
        after.sort_unstable();
        after.dedup();
        if task == Task::default() && after.len() == 1 {
            return after[0];
        }
        self.push(Task { after, ..task })
    }

    fn push(&mut self, task: Task) -> u32 {
        self.tasks.push(task);
        self.tasks.len() as u32 - 1
    }

    fn connection(&mut self, from: u32, to: u32) -> u32 {
        let hosts = (self.hosts[from as usize], self.hosts[to as usize]);
        let pairs = &mut self.pairs;
        *self.between.entry((from, to)).or_insert_with(|| {
            pairs.push(hosts);
            pairs.len() as u32 - 1
        })
    }

    /// Adds an operation of a group, of which `members` are the nodes, in the order of the group's ranks.
    fn add_operation(
        &mut self,
        traces: &Traces,
        members: &[u32],
        done: &mut [u32],
    ) -> Result<(), Error> {
        let node = members[0] as usize;
        let Does::Collective { kind, bytes, root, group } = traces.nodes[node].does else {
            return Ok(());
        };
        // Joins of what each rank waits for.
        let mut begun = Vec::with_capacity(members.len());
        self.check(traces, node, 2 * members.len() as u64)?;
        for member in members {
            let mut after = self.after(traces, *member as usize, done);
            after.sort_unstable();
            after.dedup();
            let task = match after[..] {
                [only] => only,
                _ => self.push(Task { after, ..Task::default() }),
            };
            begun.push(task);
        }
        if let [node] = members {
            done[*node as usize] = begun[0];
            return Ok(());
        }
        let operation = match kind {
            CollectiveCommType::AllGather => Operation::AllGather,
            CollectiveCommType::AllToAll => Operation::AllToAll,
            CollectiveCommType::Broadcast => Operation::Broadcast,
            CollectiveCommType::ReduceScatter | CollectiveCommType::ReduceScatterBlock => {
                Operation::ReduceScatter
            }
            _ => self.all_reduce,
        };
        let ranks = &traces.groups[group as usize];
        // The data of an all-gather is the sum of what ranks give.
        let bytes = match operation {
            Operation::AllGather => bytes.saturating_mul(members.len() as u64),
            _ => bytes,
        };
        // A broadcast begins at its first rank.
        let turn = root.and_then(|root| ranks.iter().position(|rank| *rank == root));
        let turn = turn.filter(|_| operation == Operation::Broadcast).unwrap_or(0);
        begun.rotate_left(turn);
        let hosts: Vec<NodeId> = ranks.iter().map(|rank| self.hosts[*rank as usize]).collect();
        let hosts = [&hosts[turn..], &hosts[..turn]].concat();
        let collective = Collective::of(operation, hosts, bytes, (self.chunk, self.channels));
        self.check(traces, node, collective.tasks().saturating_add(members.len() as u64))?;
        let way = match operation {
            Operation::ReduceScatter | Operation::AllGather => Operation::RingAllReduce,
            other => other,
        };
        let first = match self.shared.get(&(group, way, turn as u32)) {
            Some(first) => *first,
            None => {
                let first = self.pairs.len() as u32;
                if u64::from(first).saturating_add(collective.connections()) > MAX_FLOWS {
                    let why = format!("with it, there are more than {MAX_FLOWS} connections");
                    return Err(traces.error(node, why));
                }
                self.pairs.extend(collective.pairs());
                self.shared.insert((group, way, turn as u32), first);
                first
            }
        };
        let empty = Task::default();
        let mut last = collective.add_iteration(&mut self.tasks, empty, first, begun.clone());
        last.rotate_right(turn);
        begun.rotate_right(turn);
        for ((member, mut after), begun) in members.iter().zip(last).zip(begun) {
            after.push(begun);
            done[*member as usize] = self.push(Task { after, ..Task::default() });
        }
        Ok(())
    }
}
