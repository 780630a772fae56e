//! `[[traffic]]`: hosts, amounts and times of traffic. Each kind is a file: its keys, how an entry is read, what it adds to a run,
//! and what is measured of it alone.

mod attempts;
mod bulk;
mod cbr;
mod chakra;
mod collective;
mod connections;
mod converged;
mod cut_off;
mod entry;
mod group;
mod incast;
mod jobs;
mod messages;
mod open_loop;
mod pairs;
mod ping;
mod poisson;
mod query;
mod rounds;
mod rpc;
mod shuffle;
mod trace;

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

use knee_file::keys::{Choice, Key, Keys, List, Name, Shape, Table, Text, entries};
use knee_file::{Error, Reader, keys, one_of};
use knee_queue::time::{Duration, Time};
use knee_run::spec::{NodeId, Run};

use crate::cc::Given;
use crate::classes::MAX_DSCP;
use crate::metric::{Kind, Measured, Metric};
use crate::network::NetworkSpec;
use crate::random::Random;

use connections::{CONNECTIONS, Connections, TIMED_CONNECTIONS};
pub(crate) use converged::Converged;
pub use entry::TrafficSpec;
pub use group::{Facts, Group};
use pairs::{BETWEEN, FromTo, read_hosts};

/// Largest number of connections in one run.
const MAX_FLOWS: u64 = 1_000_000;

/// Kinds of traffic, as files name them.
static KINDS: &[(&str, &Described)] = &[
    ("bulk", &bulk::BULK),
    ("incast", &incast::INCAST),
    ("rpc", &rpc::RPC),
    ("ping", &ping::PING),
    ("cbr", &cbr::CBR),
    ("poisson", &poisson::POISSON),
    ("query", &query::QUERY),
    ("shuffle", &shuffle::SHUFFLE),
    ("attempts", &attempts::ATTEMPTS),
    ("trace", &trace::TRACE),
    ("collective", &collective::COLLECTIVE),
    ("chakra", &chakra::CHAKRA),
];

/// A kind of traffic, as files have it.
struct Described {
    /// Keys of an entry, in the order of messages.
    keys: &'static [&'static dyn Keys],
    read: fn(&EntryReader<'_>) -> Result<EntryParts, Error>,
}

impl Described {
    fn takes(&self, key: &str) -> bool {
        self.keys.iter().any(|keys| keys.names().contains(&key))
    }
}

/// What the file of an entry says around its own keys.
struct EntryReader<'a> {
    reader: &'a Reader<'a>,
    network: &'a NetworkSpec,
    given: Given<'a>,
    /// Hosts of `from` and `to`; none if its kind does not have these keys.
    hosts: FromTo,
    start: Duration,
}

/// An entry, apart from what all kinds have.
struct EntryParts {
    /// What is measured of it.
    kind: Kind,
    /// Sending and receiving host of each connection of a round, or of each stream of packets.
    pairs: Vec<(NodeId, NodeId)>,
    /// Settings of its connections, if it has any.
    connections: Option<Connections>,
    pattern: Arc<dyn Pattern>,
}

/// What entries of a kind do.
pub(crate) trait Pattern: Debug + Send + Sync {
    /// Adds flows or pings to a run.
    fn build(&self, entry: &TrafficSpec, in_run: &EntryInRun, run: &mut Run);

    /// Measures what this kind alone has, of all entries of a name together.
    fn measure(&self, measured: &mut Measured, group: &Group<'_>);

    /// Returns the largest number of connections in a run. Else each pair has one in each round, if packets are not sent without
    /// connections.
    fn flows(&self, entry: &TrafficSpec) -> u64 {
        if self.ping_interval().is_some() { 0 } else { entry.flows_of_pairs() }
    }

    /// Returns the last start that the file gives to transfers or exchanges. `None` if they do not end, so that no run cuts
    /// them off. Else connections of pairs start when the keys of all kinds say.
    fn last_start(&self, entry: &TrafficSpec) -> Option<Duration> {
        if self.ping_interval().is_some() { None } else { entry.last_start_of_pairs() }
    }

    /// Returns the hosts of `from` and `to`, if each connection draws its own.
    fn drawn_hosts(&self) -> Option<(&[NodeId], &[NodeId])> {
        None
    }

    /// Returns the smallest and the largest transfer, if sizes are drawn.
    fn drawn_sizes(&self) -> Option<(u64, u64)> {
        None
    }

    /// Describes the sizes of its transfers, if they are drawn from several.
    fn sizes_words(&self) -> Option<String> {
        None
    }

    /// Returns the largest number of requests that arrive at times of their own until `end`.
    fn requests(&self, _entry: &TrafficSpec, _end: Time) -> u64 {
        0
    }

    /// Returns the number of messages and computations.
    fn tasks(&self) -> u64 {
        0
    }

    /// Returns the time between packets without connections.
    fn ping_interval(&self) -> Option<Duration> {
        None
    }
}

/// An entry's numbers in a run, and the run's seed.
#[derive(Clone, Copy)]
pub(crate) struct EntryInRun {
    /// Number of the entry.
    pub(crate) entry: usize,
    /// Number of its name.
    pub(crate) group: u32,
    pub(crate) seed: u64,
}

impl EntryInRun {
    /// Returns random numbers for a purpose. They depend only on entry and seed.
    fn random(self, purpose: u64) -> Random {
        Random::new(self.seed, &[self.entry as u64, purpose])
    }
}

/// Each table `[[traffic]]`.
pub(crate) static TABLE: Table = Table {
    name: "traffic",
    says: "Senders, receivers, sizes and times. Results combine entries with the same name.",
    shape: || {
        let keys = |(word, kind): &(_, &Described)| (*word, entries(kind.keys));
        Shape::By("kind", KINDS.iter().map(keys).collect())
    },
};

keys! {
    /// Traffic of any kind.
    static NAMED: NamedKeys = "named-traffic" {
        /// Name in results.
        name: Key<Name> = needed("short"),
        /// Kind of traffic.
        kind: Choice<&'static Described> = of(KINDS).needed("bulk"),
    }
}

keys! {
    /// Traffic of any kind.
    static COMMON: CommonKeys = "any-traffic" {
        /// Start time.
        start: Key<Duration> = or(Duration::ZERO),
        /// Metrics in the table.
        show: Key<List<Text>> = usually("by kind"),
        /// DSCP of the connecting side.
        dscp: Key<u64> = or(0).within(0, MAX_DSCP),
    }
}

keys! {
    /// Traffic with start times from the file; arrivals draw their own.
    static TIMED: TimedKeys = "timed" {
        /// Random extra delay per flow, 0 to this.
        start_jitter: Key<Duration> = or(Duration::ZERO),
    }
}

/// Reads every entry. Its own congestion control overrides the case's.
pub(crate) fn read(
    root: &Reader<'_>,
    network: &NetworkSpec,
    given: Given<'_>,
) -> Result<Vec<TrafficSpec>, Error> {
    let mut entries: Vec<TrafficSpec> = Vec::new();
    for (table, reader) in root.children("traffic")?.iter().enumerate() {
        entries.extend(read_entry(table, reader, network, given)?);
    }
    if entries.is_empty() {
        return Err(root.error("traffic", "missing: give at least one [[traffic]] entry"));
    }
    let flows: u64 = entries.iter().map(TrafficSpec::flows).fold(0, u64::saturating_add);
    if flows > MAX_FLOWS {
        return Err(Error::new(
            root.file(),
            root.node("traffic").map(|node| node.origin).unwrap_or_default(),
            "traffic",
            format!("must be at most {MAX_FLOWS} flows in all, not {flows}"),
        ));
    }
    jobs::check_tasks(root, entries.iter().map(TrafficSpec::tasks))?;
    let mut kinds: HashMap<&str, Kind> = HashMap::new();
    for entry in &entries {
        if *kinds.entry(&entry.name).or_insert(entry.kind) != entry.kind {
            return Err(root.error(
                "traffic",
                format!("entries of the name \"{}\" must be of one kind", entry.name),
            ));
        }
    }
    Ok(entries)
}

/// Reads an entry. With `each = true`, it gives one entry per host of `from`.
fn read_entry(
    table: usize,
    reader: &Reader<'_>,
    network: &NetworkSpec,
    given: Given<'_>,
) -> Result<Vec<TrafficSpec>, Error> {
    let name = reader.need_name(&NAMED.name)?;
    let described = reader.choose(&NAMED.kind)?;
    reader.check(described.keys)?;
    let hosts = match described.takes(BETWEEN.from.as_ref()) {
        true => read_hosts(reader, network)?,
        false => FromTo::default(),
    };
    let senders = hosts.0.len();
    let start = reader.read(&COMMON.start)?;
    let of_entry = EntryReader { reader, network, given, hosts, start };
    let EntryParts { kind, pairs, connections, pattern } = (described.read)(&of_entry)?;
    let entry = TrafficSpec {
        table,
        takes_case_cc: !reader.has(&CONNECTIONS.cc),
        name: name.to_owned(),
        kind,
        show: read_show(reader, kind)?,
        pairs,
        start,
        start_jitter: match described.takes(TIMED.start_jitter.as_ref()) {
            true => reader.read(&TIMED.start_jitter)?,
            false => Duration::ZERO,
        },
        // Of bulk transfers alone.
        converged: Converged::read(reader, &bulk::KEYS.converged)?,
        connections,
        pattern,
    };
    if !reader.has(&TIMED_CONNECTIONS.each) || !reader.read(&TIMED_CONNECTIONS.each)? {
        return Ok(vec![entry]);
    }
    if reader.has(&incast::KEYS.all_to_all) {
        return Err(
            reader.error(&TIMED_CONNECTIONS.each, "conflicts with \"all_to_all\": leave one out")
        );
    }
    Ok(entry.of_each(senders))
}

fn read_show(reader: &Reader<'_>, kind: Kind) -> Result<Vec<Metric>, Error> {
    let Some(words) = reader.texts(&COMMON.show)? else { return Ok(kind.shown()) };
    let known = kind.metrics();
    words
        .iter()
        .map(|word| {
            known.iter().copied().find(|metric| metric.name() == *word).ok_or_else(|| {
                reader.error(&COMMON.show, one_of(word, known.iter().map(|metric| metric.name())))
            })
        })
        .collect()
}
