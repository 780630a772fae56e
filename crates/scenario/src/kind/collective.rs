//! `kind = "collective"`: collective operations of distributed computations: iterations of computing and of communicating.

use knee_file::keys::{Choice, Key, List, Text};
use knee_file::units::Size;
use knee_file::{Error, Reader, keys};
use knee_queue::time::{Duration, Time};
use knee_run::spec::{NodeId, Run, Task};

use super::connections::{CONNECTIONS, Connections};
use super::jobs::{self, Job, MAX_TASKS};
use super::messages::Messages;
use super::{
    COMMON, Described, EntryInRun, EntryParts, EntryReader, Group, MAX_FLOWS, NAMED, Pattern,
    TrafficSpec,
};
use crate::metric::{Kind, Measured};

keys! {
    /// Collective operations, in iterations, on connections that stay open.
    static KEYS: CollectiveKeys = "collective" {
        /// Hosts of the ranks, in order.
        hosts: Key<List<Text>> = needed("h1..h8"),
        /// The operation and its algorithm.
        operation: Choice<Operation> = of(OPERATIONS).needed("ring-all-reduce"),
        /// Data of each rank; of an all-gather, the result.
        size: Key<Size> = needed("64 MB"),
        /// Operations, one after another.
        iterations: Key<u64> = or(1).within(1, MAX_TASKS),
        /// Computation of each rank before each operation.
        compute: Key<Duration> = or(Duration::ZERO),
        /// Random extra computation of each rank and iteration, 0 to this.
        compute_jitter: Key<Duration> = or(Duration::ZERO),
        /// Largest part of a message that a rank passes on before the rest has arrived.
        chunk: Key<Size> = or(Size(512 << 10)),
        /// Rings or trees in parallel, each with its share of the data.
        channels: Key<u64> = or(1).within(1, 64),
    }
}

pub(super) static COLLECTIVE: Described =
    Described { keys: &[&NAMED, &COMMON, &CONNECTIONS, &KEYS], read };

/// An operation and its algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Operation {
    RingAllReduce,
    ReduceScatter,
    AllGather,
    Broadcast,
    TreeAllReduce,
    AllToAll,
}

const OPERATIONS: &[(&str, Operation)] = &[
    ("ring-all-reduce", Operation::RingAllReduce),
    ("ring-reduce-scatter", Operation::ReduceScatter),
    ("ring-all-gather", Operation::AllGather),
    ("ring-broadcast", Operation::Broadcast),
    ("tree-all-reduce", Operation::TreeAllReduce),
    ("all-to-all", Operation::AllToAll),
];

/// A collective operation, repeated.
#[derive(Debug)]
pub(super) struct Collective {
    operation: Operation,
    ranks: Vec<NodeId>,
    bytes: u64,
    iterations: u64,
    compute: Duration,
    compute_jitter: Duration,
    chunk: u64,
    channels: usize,
}

/// Tasks of an iteration.
struct Iteration<'a> {
    tasks: &'a mut Vec<Task>,
    /// The computation of each rank.
    computed: Vec<u32>,
    /// A message without flow, size and dependencies.
    empty: Task,
    /// Number of the entry's first flow.
    first_flow: u32,
    /// The last messages that each rank waits for.
    last: Vec<Vec<u32>>,
}

impl Iteration<'_> {
    /// Adds a message on a connection.
    fn message(&mut self, connection: usize, bytes: u64, after: Vec<u32>) -> u32 {
        let index = self.tasks.len() as u32;
        let flow = Some(self.first_flow + connection as u32);
        self.tasks.push(Task { flow, bytes, after, ..self.empty.clone() });
        index
    }
}

/// Divides an amount into parts that differ by at most 1.
fn parts(all: u64, count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(move |i| all / count + u64::from(i < all % count))
}

fn read(entry: &EntryReader<'_>) -> Result<EntryParts, Error> {
    let (reader, network) = (entry.reader, entry.network);
    let connections = Connections::read_alone(entry)?;
    let texts = reader.need_texts(&KEYS.hosts)?;
    let ranks = network.hosts_of(&texts).map_err(|why| reader.error(&KEYS.hosts, why))?;
    if ranks.len() < 2 {
        return Err(reader.error(&KEYS.hosts, "must name at least two hosts"));
    }
    let mut sorted = ranks.clone();
    sorted.sort_unstable();
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        let message = format!("must name each host once: {} is there twice", network.name(pair[0]));
        return Err(reader.error(&KEYS.hosts, message));
    }
    let collective = Collective {
        operation: reader.choose(&KEYS.operation)?,
        ranks,
        bytes: reader.get(&KEYS.size)?.ok_or_else(|| reader.missing(&KEYS.size, "\"64 MB\""))?.0,
        iterations: reader.read(&KEYS.iterations)?,
        compute: reader.read(&KEYS.compute)?,
        compute_jitter: reader.read(&KEYS.compute_jitter)?,
        chunk: reader.read(&KEYS.chunk)?.0.max(1),
        channels: reader.read(&KEYS.channels)? as usize,
    };
    collective.check(reader)?;
    let of = (collective.pairs(), collective.bytes());
    Ok(jobs::parts(Kind::Collective, connections, of, collective))
}

impl Pattern for Collective {
    fn tasks(&self) -> u64 {
        self.tasks()
    }

    fn build(&self, entry: &TrafficSpec, in_run: &EntryInRun, run: &mut Run) {
        let job = Job::of(entry, in_run, entry.connect(in_run, run));
        let (mut random, tasks) = (in_run.random(7), &mut run.schedule.tasks);
        let mut last: Vec<Vec<u32>> = vec![Vec::new(); self.ranks.len()];
        for round in 0..self.iterations {
            let empty = Task { job: job.number, round: round as u32, ..Task::default() };
            let first = tasks.len() as u32;
            let start = if round == 0 { job.start } else { Time::ZERO };
            for after in last {
                let takes = self.compute + random.up_to(self.compute_jitter);
                let gap_ns = (start + takes).ns();
                tasks.push(Task { after, gap_ns, ..empty.clone() });
            }
            let computed = (first..first + self.ranks.len() as u32).collect();
            last = self.add_iteration(tasks, empty, job.first, computed);
        }
    }

    fn measure(&self, measured: &mut Measured, group: &Group<'_>) {
        if let Some(messages) = Messages::of(group, false) {
            messages.measure(measured, group.facts);
        }
    }
}

impl Collective {
    /// Returns an operation of at least one byte in each message. `parts`: largest part of a message, and channels.
    pub(super) fn of(
        operation: Operation,
        ranks: Vec<NodeId>,
        bytes: u64,
        (chunk, channels): (u64, usize),
    ) -> Collective {
        let (compute, compute_jitter) = (Duration::ZERO, Duration::ZERO);
        let mut it = Collective {
            operation,
            ranks,
            bytes,
            iterations: 1,
            compute,
            compute_jitter,
            chunk,
            channels,
        };
        it.bytes = bytes.max(it.least_bytes());
        it
    }

    /// Returns the size with which each message has one byte.
    fn least_bytes(&self) -> u64 {
        match self.operation {
            Operation::TreeAllReduce | Operation::Broadcast => self.channels as u64,
            Operation::AllToAll => self.ranks.len() as u64,
            _ => self.ranks.len() as u64 * self.channels as u64,
        }
    }

    fn check(&self, reader: &Reader<'_>) -> Result<(), Error> {
        let is_all_to_all = self.operation == Operation::AllToAll;
        for key in [KEYS.chunk.as_ref(), KEYS.channels.as_ref()] {
            if is_all_to_all && reader.has(key) {
                return Err(reader.error(key, "is for rings and trees: leave it out"));
            }
        }
        let least = self.least_bytes();
        if self.bytes < least {
            let message = format!("must be at least {least} B, one byte in each message");
            return Err(reader.error(&KEYS.size, message));
        }
        let connections = self.connections();
        if connections > MAX_FLOWS {
            let message =
                format!("gives {connections} connections, but at most {MAX_FLOWS} are allowed");
            return Err(reader.error(&KEYS.hosts, message));
        }
        let tasks = self.tasks();
        if tasks > MAX_TASKS {
            let message = format!(
                "gives {tasks} messages and computations, but at most {MAX_TASKS} are allowed: fewer iterations or hosts, or a \
                 larger chunk"
            );
            let key = if reader.has(&KEYS.iterations) {
                KEYS.iterations.as_ref()
            } else {
                KEYS.hosts.as_ref()
            };
            return Err(reader.error(key, message));
        }
        Ok(())
    }

    /// Returns the number of connections.
    pub(super) fn connections(&self) -> u64 {
        let (ranks, channels) = (self.ranks.len() as u64, self.channels as u64);
        match self.operation {
            Operation::TreeAllReduce => channels * 2 * (ranks - 1),
            Operation::AllToAll => ranks * (ranks - 1),
            Operation::Broadcast => channels * (ranks - 1),
            _ => channels * ranks,
        }
    }

    /// Steps of a ring.
    fn steps(&self) -> usize {
        let others = self.ranks.len() - 1;
        if self.operation == Operation::RingAllReduce { 2 * others } else { others }
    }

    /// Sizes of the parts in which a message is passed on.
    fn chunks(&self, bytes: u64) -> impl Iterator<Item = u64> + use<> {
        parts(bytes, bytes.div_ceil(self.chunk))
    }

    /// Returns the number of messages and computations.
    pub(crate) fn tasks(&self) -> u64 {
        let ranks = self.ranks.len() as u64;
        let messages = match self.operation {
            Operation::AllToAll => ranks * (ranks - 1),
            Operation::TreeAllReduce | Operation::Broadcast => {
                let chunks =
                    parts(self.bytes, self.channels as u64).map(|part| part.div_ceil(self.chunk));
                let both = if self.operation == Operation::Broadcast { 1 } else { 2 };
                chunks.sum::<u64>().saturating_mul(both * (ranks - 1))
            }
            _ => {
                let blocks =
                    parts(self.bytes, self.channels as u64).flat_map(|part| parts(part, ranks));
                // In each step, each block is on one of the connections.
                let chunks: u64 = blocks.map(|block| block.div_ceil(self.chunk)).sum();
                chunks.saturating_mul(self.steps() as u64)
            }
        };
        messages.saturating_add(ranks).saturating_mul(self.iterations)
    }

    /// Returns the hosts of each connection.
    pub(crate) fn pairs(&self) -> Vec<(NodeId, NodeId)> {
        let ranks = self.ranks.len();
        let hosts = |(from, to): (usize, usize)| (self.ranks[from], self.ranks[to]);
        let all: Vec<(usize, usize)> = match self.operation {
            Operation::AllToAll => {
                let to = |from| (1..ranks).map(move |apart| (from, (from + apart) % ranks));
                (0..ranks).flat_map(to).collect()
            }
            Operation::TreeAllReduce => (0..self.channels)
                .flat_map(|channel| {
                    let up = (1..ranks).map(move |i| (i, (i - 1) / 2));
                    let both = up.clone().chain(up.map(|(child, parent)| (parent, child)));
                    both.map(move |(from, to)| {
                        (rank_at(channel, from, ranks), rank_at(channel, to, ranks))
                    })
                })
                .collect(),
            Operation::Broadcast => {
                (0..self.channels).flat_map(|_| (1..ranks).map(|rank| (rank - 1, rank))).collect()
            }
            _ => (0..self.channels)
                .flat_map(|_| (0..ranks).map(|rank| (rank, (rank + 1) % ranks)))
                .collect(),
        };
        all.into_iter().map(hosts).collect()
    }

    /// Returns the bytes of each connection in all iterations.
    pub(crate) fn bytes(&self) -> Vec<u64> {
        let mut tasks = Vec::new();
        let mut bytes = vec![0u64; self.connections() as usize];
        self.add_iteration(&mut tasks, Task::default(), 0, vec![0; self.ranks.len()]);
        for task in tasks {
            if let Some(sum) = task.flow.and_then(|flow| bytes.get_mut(flow as usize)) {
                *sum = sum.saturating_add(task.bytes.saturating_mul(self.iterations));
            }
        }
        bytes
    }

    /// Adds the messages of an iteration. Returns the last messages that each rank waits for.
    pub(super) fn add_iteration(
        &self,
        tasks: &mut Vec<Task>,
        empty: Task,
        first_flow: u32,
        computed: Vec<u32>,
    ) -> Vec<Vec<u32>> {
        let last = vec![Vec::new(); self.ranks.len()];
        let mut iteration = Iteration { tasks, computed, empty, first_flow, last };
        let shares = parts(self.bytes, self.channels as u64);
        match self.operation {
            Operation::AllToAll => self.add_all_to_all(&mut iteration),
            Operation::TreeAllReduce => shares
                .enumerate()
                .for_each(|(channel, share)| self.add_tree(&mut iteration, channel, share)),
            Operation::Broadcast => shares
                .enumerate()
                .for_each(|(channel, share)| self.add_broadcast(&mut iteration, channel, share)),
            _ => shares
                .enumerate()
                .for_each(|(channel, share)| self.add_ring(&mut iteration, channel, share)),
        }
        iteration.last
    }

    /// Each rank sends a block of its data to each other one.
    fn add_all_to_all(&self, iteration: &mut Iteration<'_>) {
        let ranks = self.ranks.len();
        let blocks: Vec<u64> = parts(self.bytes, ranks as u64).collect();
        for from in 0..ranks {
            for apart in 1..ranks {
                let to = (from + apart) % ranks;
                let connection = from * (ranks - 1) + apart - 1;
                let after = vec![iteration.computed[from]];
                let message = iteration.message(connection, blocks[to], after);
                iteration.last[to].push(message);
            }
        }
    }

    /// In each step, each rank sends a block to the next one: the block that it received in the step before.
    fn add_ring(&self, iteration: &mut Iteration<'_>, channel: usize, share: u64) {
        let ranks = self.ranks.len();
        let blocks: Vec<u64> = parts(share, ranks as u64).collect();
        // The messages that each rank received in the step before.
        let mut received: Vec<Vec<u32>> = vec![Vec::new(); ranks];
        for step in 0..self.steps() {
            let mut next = vec![Vec::new(); ranks];
            for rank in 0..ranks {
                let block = blocks[(rank + 2 * ranks - step) % ranks];
                for (chunk, bytes) in self.chunks(block).enumerate() {
                    let mut after: Vec<u32> =
                        received[rank].get(chunk).copied().into_iter().collect();
                    // In the steps after these, what it passes on has been at this rank before.
                    if step < ranks {
                        after.push(iteration.computed[rank]);
                    }
                    let message = iteration.message(channel * ranks + rank, bytes, after);
                    next[(rank + 1) % ranks].push(message);
                }
            }
            received = next;
        }
        for (rank, of_step) in received.into_iter().enumerate() {
            iteration.last[rank].extend(of_step.last());
        }
    }

    /// The first rank sends to the second, which passes on what it received, up to the last. The first one is done when the
    /// second has everything.
    fn add_broadcast(&self, iteration: &mut Iteration<'_>, channel: usize, share: u64) {
        let ranks = self.ranks.len();
        let mut received: Vec<u32> = Vec::new();
        for rank in 0..ranks - 1 {
            let mut next = Vec::new();
            for (chunk, bytes) in self.chunks(share).enumerate() {
                let mut after: Vec<u32> = received.get(chunk).copied().into_iter().collect();
                after.push(iteration.computed[rank]);
                next.push(iteration.message(channel * (ranks - 1) + rank, bytes, after));
            }
            if rank == 0 {
                iteration.last[0].extend(next.last());
            }
            iteration.last[rank + 1].extend(next.last());
            received = next;
        }
    }

    /// Sums go up a binary tree, and the result goes down.
    fn add_tree(&self, iteration: &mut Iteration<'_>, channel: usize, share: u64) {
        let ranks = self.ranks.len();
        let rank = |place| rank_at(channel, place, ranks);
        let first = channel * 2 * (ranks - 1);
        let sizes: Vec<u64> = self.chunks(share).collect();
        let children =
            |place: usize| (2 * place + 1..=2 * place + 2).filter(|child| *child < ranks);
        // The messages of each place to its parent, and from it.
        let (mut up, mut down) = (vec![Vec::new(); ranks], vec![Vec::new(); ranks]);
        for place in (1..ranks).rev() {
            for (chunk, bytes) in sizes.iter().enumerate() {
                let mut after: Vec<u32> = children(place).map(|child| up[child][chunk]).collect();
                after.push(iteration.computed[rank(place)]);
                let message = iteration.message(first + place - 1, *bytes, after);
                up[place].push(message);
            }
        }
        for place in 1..ranks {
            let parent = (place - 1) / 2;
            for (chunk, bytes) in sizes.iter().enumerate() {
                let after = match parent {
                    0 => {
                        let sums = children(0).map(|child| up[child][chunk]);
                        sums.chain([iteration.computed[rank(0)]]).collect()
                    }
                    _ => vec![down[parent][chunk]],
                };
                let message = iteration.message(first + ranks - 1 + place - 1, *bytes, after);
                down[place].push(message);
            }
            iteration.last[rank(place)].extend(down[place].last());
        }
        iteration.last[rank(0)].extend(children(0).filter_map(|child| up[child].last()));
    }
}

/// Returns the rank at a place of a tree. Every other tree is turned round, so that leaves of one are inside the other.
fn rank_at(channel: usize, place: usize, ranks: usize) -> usize {
    if channel % 2 == 0 { place } else { ranks - 1 - place }
}
