//! `[[traffic]]`: hosts, amounts and times of traffic.

mod attempts;
mod chakra;
mod collective;
mod converged;
mod facts;
mod jobs;
mod ping;
mod trace;
mod waiting;

use std::collections::HashMap;
use std::sync::Arc;

use knee_algo::Algorithm;
use knee_file::keys::{Below, Choice, Key, Keys, List, Name, Shape, Table, Text, entries};
use knee_file::units::Size;
use knee_file::{Error, Reader, keys, one_of};
use knee_queue::Ecn;
use knee_queue::time::{Duration, Rate, Time};
use knee_run::spec::{Cc, Flow, NodeId, Ping, Schedule, Traffic};

use crate::arrivals::{self, Arrivals};
use crate::cc::{Given, PARAMS, read_cc};
use crate::classes::MAX_DSCP;
use crate::metric::{Kind, Metric};
use crate::network::NetworkSpec;
use crate::random::Random;

use attempts::Attempts;
pub(crate) use converged::Converged;
use jobs::Jobs;
use waiting::Waiting;

/// Largest number of connections in one run.
const MAX_FLOWS: u64 = 1_000_000;

/// Each table `[[traffic]]`.
pub(crate) static TABLE: Table = Table {
    name: "traffic",
    says: "Senders, receivers, sizes and times. Results combine entries with the same name.",
    shape: || {
        let keys = |&(word, kind)| (word, entries(&keys_of(kind)));
        Shape::By("kind", KINDS.iter().map(keys).collect())
    },
};

const KINDS: &[(&str, Kind)] = &[
    ("bulk", Kind::Bulk),
    ("incast", Kind::Incast),
    ("rpc", Kind::Rpc),
    ("ping", Kind::Ping),
    ("poisson", Kind::Poisson),
    ("query", Kind::Query),
    ("shuffle", Kind::Shuffle),
    ("attempts", Kind::Attempts),
    ("trace", Kind::Trace),
    ("collective", Kind::Collective),
    ("chakra", Kind::Chakra),
];

/// Keys of an entry, in the order of messages.
fn keys_of(kind: Kind) -> Vec<&'static dyn Keys> {
    let own: &dyn Keys = match kind {
        Kind::Incast => &INCAST,
        Kind::Rpc => &RPC,
        Kind::Ping => &ping::KEYS,
        Kind::Poisson => &arrivals::KEYS,
        Kind::Query => &waiting::QUERY,
        Kind::Shuffle => &waiting::SHUFFLE,
        Kind::Attempts => &attempts::KEYS,
        Kind::Trace => &trace::KEYS,
        Kind::Collective => &collective::KEYS,
        Kind::Chakra => &chakra::KEYS,
        _ => &BULK,
    };
    match kind {
        Kind::Ping => vec![&NAMED, &BETWEEN, &COMMON, &TIMED, own],
        Kind::Poisson | Kind::Attempts => vec![&NAMED, &BETWEEN, &COMMON, &CONNECTIONS, own],
        Kind::Query | Kind::Shuffle => {
            vec![&NAMED, &BETWEEN, &COMMON, &TIMED, &CONNECTIONS, own]
        }
        Kind::Trace | Kind::Collective | Kind::Chakra => vec![&NAMED, &COMMON, &CONNECTIONS, own],
        _ => vec![&NAMED, &BETWEEN, &COMMON, &TIMED, &TIMED_CONNECTIONS, &CONNECTIONS, own],
    }
}

keys! {
    /// Traffic of any kind.
    static NAMED: NamedKeys = "named-traffic" {
        /// Name in results.
        name: Key<Name> = needed("short"),
        /// Kind of traffic.
        kind: Choice<Kind> = of(KINDS).needed("bulk"),
    }
}

keys! {
    /// Hosts of traffic.
    static BETWEEN: BetweenKeys = "between" {
        /// Connecting hosts: names, or ranges as `s1..s10`.
        from: Key<List<Text>> = needed("s1..s10"),
        /// Listening hosts: one, all from one, or pair by pair.
        to: Key<List<Text>> = needed("s1..s10"),
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

keys! {
    /// Connections that start when the file says.
    static TIMED_CONNECTIONS: TimedConnectionKeys = "timed-connections" {
        /// Connections per pair.
        flows: Key<u64> = or(1).within(0, MAX_FLOWS),
        /// Random shift of the whole entry, plus or minus this.
        start_shift: Key<Duration> = or(Duration::ZERO),
        /// Time between starts.
        stagger: Key<Duration> = or(Duration::ZERO),
        /// Repeat the entry for each host of `from`.
        each: Key<bool> = or(false),
    }
}

keys! {
    /// TCP connections.
    static CONNECTIONS: ConnectionKeys = "connections" {
        /// Algorithm.
        cc: Key<Text> = usually("the case's"),
        /// Its parameters.
        params: Below = table(&PARAMS),
        /// Algorithm of the listening side.
        peer_cc: Key<Text> = usually("`cc`"),
        /// Its parameters.
        peer_params: Below = table(&PARAMS),
        /// The receiver reads at this amount.
        read_at: Key<Size> = or(Size(65_536)),
        /// RTT without queues, for both ends.
        base_rtt: Key<Duration> = at_least("1 us").at_most("60000 ms").like("50 us").usually("as their hosts"),
        /// `SO_MAX_PACING_RATE` of both ends.
        max_pacing_rate: Key<Rate> = usually("no limit"),
        /// Include in `sample.flows`.
        sample: Key<bool> = or(true),
        /// DSCP of the listening side.
        peer_dscp: Key<u64> = or(0).within(0, MAX_DSCP),
    }
}

keys! {
    /// Transfers.
    static BULK: BulkKeys = "bulk" {
        /// Transfer size, or one per flow.
        size: Key<List<Size>> = usually("without end"),
        /// Stop time, for transfers without size.
        stop: Key<Duration> = usually("end of the run"),
        /// Time between stops.
        stop_stagger: Key<Duration> = or(Duration::ZERO),
        /// Criterion for fair sharing of endless transfers.
        converged: Below = table(&converged::ConvergedKeys::TABLE),
    }
}

keys! {
    /// Transfers at once, in rounds.
    static INCAST: IncastKeys = "incast" {
        /// Transfer size, or one per flow.
        size: Key<List<Size>> = needed("10 kB"),
        /// Rounds, on new connections.
        rounds: Key<u64> = or(1).within(1, MAX_FLOWS),
        /// Time between rounds.
        every: Key<Duration> = usually("after the previous one"),
        /// Each of `from` sends to each other of `to`.
        all_to_all: Key<bool> = or(false),
    }
}

keys! {
    /// Requests and answers, one after the other.
    static RPC: RpcKeys = "rpc" {
        /// Request size, or one per flow.
        request: Key<List<Size>> = usually("`100 B`"),
        /// Response size, or one per flow.
        response: Key<List<Size>> = usually("`100 B`"),
        /// Exchanges per connection.
        count: Key<u64> = within(1, 1_000_000_000).usually("without end"),
        /// Stop time.
        stop: Key<Duration> = usually("end of the run"),
        /// Time between stops.
        stop_stagger: Key<Duration> = or(Duration::ZERO),
    }
}

/// Hosts of `from` and of `to`.
type FromTo = (Vec<NodeId>, Vec<NodeId>);
type FromToRef<'a> = (&'a [NodeId], &'a [NodeId]);

/// A traffic entry, ready to build the flows of any repeat.
#[derive(Clone, Debug)]
pub(crate) struct TrafficSpec {
    /// Index of its `[[traffic]]` table in the file.
    pub(crate) table: usize,
    /// Whether that names no algorithm.
    takes_case_cc: bool,
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// Metrics in the table.
    pub(crate) show: Vec<Metric>,
    /// Sending and receiving host of each connection of a round.
    pairs: Vec<(NodeId, NodeId)>,
    start: Duration,
    start_jitter: Duration,
    what: EntryKind,
    /// Criterion for fair sharing of its transfers.
    converged: Option<Converged>,
}

#[derive(Clone, Debug)]
enum EntryKind {
    Connections(Box<Connections>),
    Ping { interval: Duration, wire_bytes: u32, ecn: Ecn, dscp: u8 },
}

#[derive(Clone, Debug)]
struct Connections {
    cc: Cc,
    peer_cc: Option<Cc>,
    start_shift: Duration,
    stagger: Duration,
    stop: Option<Duration>,
    stop_stagger: Duration,
    rounds: u64,
    every: Duration,
    /// Places and times of connections, if they are not those of the entry.
    arrivals: Option<Arrivals>,
    /// Connection attempts without data.
    attempts: Option<Attempts>,
    /// Dependencies between its flows.
    waiting: Option<Waiting>,
    /// Messages of its flows and what they wait for.
    jobs: Option<Jobs>,
    /// Whether every host of `from` sends to every host of `to`.
    all_to_all: bool,
    /// Traffic per connection: connection i takes item i modulo the length.
    traffic: Arc<[Traffic]>,
    read_at_bytes: u32,
    sampled: bool,
    base_rtt: Option<Duration>,
    dscp: u8,
    peer_dscp: u8,
    max_pacing_rate: Option<Rate>,
}

/// Reads every entry. Its own congestion control overrides the case's.
pub(crate) fn read(
    root: &Reader<'_>,
    network: &NetworkSpec,
    given: Given<'_>,
) -> Result<Vec<TrafficSpec>, Error> {
    let mut entries: Vec<TrafficSpec> = Vec::new();
    for (table, reader) in root.children("traffic")?.iter().enumerate() {
        let takes_case_cc = !reader.has(&CONNECTIONS.cc);
        let of_table = read_entry(reader, network, given)?.into_iter();
        entries.extend(of_table.map(|entry| TrafficSpec { table, takes_case_cc, ..entry }));
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
    reader: &Reader<'_>,
    network: &NetworkSpec,
    given: Given<'_>,
) -> Result<Vec<TrafficSpec>, Error> {
    let name = reader.need_name(&NAMED.name)?;
    let mut kind = reader.choose(&NAMED.kind)?;
    reader.check(&keys_of(kind))?;
    if kind == Kind::Bulk && !reader.has(&BULK.size) {
        kind = Kind::Endless;
    } else if kind == Kind::Bulk && reader.has(&BULK.converged) {
        return Err(
            reader.error(&BULK.converged, "is only for transfers without size: leave \"size\" out")
        );
    }
    let has_jobs = jobs::has_jobs(kind);
    let hosts = if has_jobs { FromTo::default() } else { read_hosts(reader, network)? };
    let senders = hosts.0.len();
    let start = reader.read(&COMMON.start)?;
    let (pairs, what) = match kind {
        Kind::Ping => (pair_up(reader, network, hosts)?, ping::read(reader, network)?),
        Kind::Poisson => (Vec::new(), read_poisson(reader, network, (hosts, start), given)?),
        Kind::Query | Kind::Shuffle => {
            let pairs = all_pairs(reader, hosts)?;
            let connections = read_connections(reader, kind, given)?;
            let what = waiting::read(reader, kind, &pairs, connections)?;
            (pairs, EntryKind::Connections(Box::new(what)))
        }
        _ if has_jobs => {
            let mut connections = read_connections(reader, kind, given)?;
            let (pairs, jobs) = Jobs::read(reader, kind, network)?;
            connections.traffic = jobs.traffic();
            connections.jobs = Some(jobs);
            (pairs, EntryKind::Connections(Box::new(connections)))
        }
        Kind::Attempts => {
            let mut connections = read_connections(reader, kind, given)?;
            connections.attempts = Some(Attempts::read(reader, start)?);
            (pair_up(reader, network, hosts)?, EntryKind::Connections(Box::new(connections)))
        }
        Kind::Incast if reader.read(&INCAST.all_to_all)? => {
            let pairs = repeat_pairs(reader, &all_pairs(reader, hosts)?)?;
            let mut connections = read_connections(reader, kind, given)?;
            connections.all_to_all = true;
            (pairs, EntryKind::Connections(Box::new(connections)))
        }
        _ => {
            let pairs = repeat_pairs(reader, &pair_up(reader, network, hosts)?)?;
            (pairs, EntryKind::Connections(Box::new(read_connections(reader, kind, given)?)))
        }
    };
    let is_timed = !has_jobs && !matches!(kind, Kind::Poisson | Kind::Attempts);
    let entry = TrafficSpec {
        // The caller, which reads all entries, sets these two.
        table: 0,
        takes_case_cc: false,
        name: name.to_owned(),
        kind,
        show: read_show(reader, kind)?,
        pairs,
        start,
        start_jitter: if is_timed { reader.read(&TIMED.start_jitter)? } else { Duration::ZERO },
        what,
        converged: Converged::read(reader, &BULK.converged)?,
    };
    if !reader.has(&TIMED_CONNECTIONS.each) || !reader.read(&TIMED_CONNECTIONS.each)? {
        return Ok(vec![entry]);
    }
    if reader.has(&INCAST.all_to_all) {
        return Err(
            reader.error(&TIMED_CONNECTIONS.each, "conflicts with \"all_to_all\": leave one out")
        );
    }
    Ok(entry.of_each(senders))
}

/// Reads the hosts of `from` and `to`.
fn read_hosts(reader: &Reader<'_>, network: &NetworkSpec) -> Result<FromTo, Error> {
    let hosts = |key: &Key<List<Text>>| -> Result<Vec<NodeId>, Error> {
        let texts = reader.need_texts(key)?;
        network.hosts_of(&texts).map_err(|why| reader.error(key, why))
    };
    Ok((hosts(&BETWEEN.from)?, hosts(&BETWEEN.to)?))
}

/// Pairs hosts one to one, all to one, or one to all.
fn pair_up(
    reader: &Reader<'_>,
    network: &NetworkSpec,
    (from, to): FromTo,
) -> Result<Vec<(NodeId, NodeId)>, Error> {
    let pairs: Vec<_> = match (from.as_slice(), to.as_slice()) {
        (from, [to]) => from.iter().map(|from| (*from, *to)).collect(),
        ([from], to) => to.iter().map(|to| (*from, *to)).collect(),
        (from, to) if from.len() == to.len() => {
            from.iter().copied().zip(to.iter().copied()).collect()
        }
        (from, to) => {
            return Err(reader.error(
                &BETWEEN.to,
                format!(
                    "must name one host, or as many as \"from\" ({}), not {}",
                    from.len(),
                    to.len()
                ),
            ));
        }
    };
    match pairs.iter().find(|(from, to)| from == to) {
        Some((host, _)) => {
            let message =
                format!("must not name {}, which is in \"from\" too", network.name(*host));
            Err(reader.error(&BETWEEN.to, message))
        }
        None => Ok(pairs),
    }
}

/// Pairs every host of `from` with every other host of `to`.
fn all_pairs(reader: &Reader<'_>, (from, to): FromTo) -> Result<Vec<(NodeId, NodeId)>, Error> {
    if (from.len() as u64).saturating_mul(to.len() as u64) > 2 * MAX_FLOWS {
        let message = format!("must give at most {MAX_FLOWS} flows in all, from each to each");
        return Err(reader.error(&BETWEEN.to, message));
    }
    let pairs = from.iter().flat_map(|from| to.iter().map(move |to| (*from, *to)));
    let pairs: Vec<_> = pairs.filter(|(from, to)| from != to).collect();
    if pairs.is_empty() {
        return Err(reader.error(&BETWEEN.to, "must name a host that is not in \"from\""));
    }
    Ok(pairs)
}

/// Repeats the pairs `flows` times. Flow i of each pair comes before flow i + 1 of any pair.
fn repeat_pairs(
    reader: &Reader<'_>,
    pairs: &[(NodeId, NodeId)],
) -> Result<Vec<(NodeId, NodeId)>, Error> {
    let flows = reader.read(&TIMED_CONNECTIONS.flows)?;
    if flows.saturating_mul(pairs.len() as u64) > MAX_FLOWS {
        let message = format!("must give at most {MAX_FLOWS} flows in all ({} pairs)", pairs.len());
        return Err(reader.error(&TIMED_CONNECTIONS.flows, message));
    }
    Ok((0..flows).flat_map(|_| pairs.iter().copied()).collect())
}

/// Reads transfers at random times, between random pairs, of random sizes.
fn read_poisson(
    reader: &Reader<'_>,
    network: &NetworkSpec,
    (hosts, start): (FromTo, Duration),
    given: Given<'_>,
) -> Result<EntryKind, Error> {
    let arrivals = Arrivals::read(reader, network, hosts, (start, MAX_FLOWS))?;
    let mut connections = read_connections(reader, Kind::Poisson, given)?;
    connections.arrivals = Some(arrivals);
    Ok(EntryKind::Connections(Box::new(connections)))
}

fn read_connections(
    reader: &Reader<'_>,
    kind: Kind,
    given: Given<'_>,
) -> Result<Connections, Error> {
    let own = read_cc(reader, (&CONNECTIONS.cc, &CONNECTIONS.params), given.modules)?;
    let cc = own.or_else(|| given.cc.cloned()).ok_or_else(|| {
        reader.error(
            &CONNECTIONS.cc,
            "missing: give it here, or give the file cases: cc = [\"cubic\", \"dctcp\"]",
        )
    })?;
    let read_at = reader.read(&CONNECTIONS.read_at)?;
    let stop = reader.get(&BULK.stop)?;
    if stop.is_some() && reader.has(&BULK.size) {
        return Err(reader.error(&BULK.stop, "conflicts with \"size\": leave one out"));
    }
    let rounds = match kind {
        Kind::Incast | Kind::Shuffle => reader.read(&INCAST.rounds)?,
        _ => 1,
    };
    let every = reader.get(&INCAST.every)?;
    let one_by_one = kind == Kind::Incast && rounds > 1 && every.is_none();
    Ok(Connections {
        cc,
        peer_cc: read_cc(reader, (&CONNECTIONS.peer_cc, &CONNECTIONS.peer_params), given.modules)?,
        start_shift: reader.read(&TIMED_CONNECTIONS.start_shift)?,
        stagger: reader.read(&TIMED_CONNECTIONS.stagger)?,
        stop,
        stop_stagger: reader.read(&BULK.stop_stagger)?,
        rounds,
        every: every.unwrap_or(Duration::ZERO),
        arrivals: None,
        attempts: None,
        waiting: one_by_one.then_some(Waiting::Rounds),
        jobs: None,
        all_to_all: false,
        traffic: read_traffic(reader, kind)?.into(),
        read_at_bytes: u32::try_from(read_at.0).map_err(|_| {
            reader.error(&CONNECTIONS.read_at, "must be at most 4 GB, as in \"64 KiB\"")
        })?,
        sampled: reader.read(&CONNECTIONS.sample)?,
        base_rtt: reader.get(&CONNECTIONS.base_rtt)?,
        dscp: reader.read(&COMMON.dscp)? as u8,
        peer_dscp: reader.read(&CONNECTIONS.peer_dscp)? as u8,
        max_pacing_rate: reader.get(&CONNECTIONS.max_pacing_rate)?,
    })
}

fn read_traffic(reader: &Reader<'_>, kind: Kind) -> Result<Vec<Traffic>, Error> {
    if jobs::has_jobs(kind) {
        return Ok(Vec::new());
    }
    match kind {
        Kind::Rpc => {
            let requests = reader.list(&RPC.request)?.unwrap_or_else(|| vec![Size(100)]);
            let responses = reader.list(&RPC.response)?.unwrap_or_else(|| vec![Size(100)]);
            let count = reader.get(&RPC.count)?;
            // Flow i takes size i of each list. The shorter list repeats.
            let mixes = requests.len().max(responses.len());
            Ok((0..mixes)
                .map(|i| Traffic::Rpc {
                    request_bytes: requests[i % requests.len()].0,
                    response_bytes: responses[i % responses.len()].0,
                    count,
                })
                .collect())
        }
        Kind::Endless => Ok(vec![Traffic::Bulk { bytes: None }]),
        // Arrivals bring their own traffic, and queries define it for all servers.
        Kind::Poisson | Kind::Query | Kind::Attempts => Ok(Vec::new()),
        _ => {
            let sizes = reader.list(&INCAST.size)?;
            let sizes = sizes.ok_or_else(|| reader.missing(&INCAST.size, "\"10 kB\""))?;
            Ok(sizes.iter().map(|size| Traffic::Bulk { bytes: Some(size.0) }).collect())
        }
    }
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

impl TrafficSpec {
    /// Splits an entry with `each` into one entry per sender.
    fn of_each(self, senders: usize) -> Vec<TrafficSpec> {
        if senders == 1 {
            return vec![self];
        }
        // Pair i belongs to sender i modulo their number.
        let all = &self.pairs;
        let common = TrafficSpec { pairs: Vec::new(), ..self.clone() };
        let entry = |sender| {
            let pairs = all.get(sender..).unwrap_or_default().iter();
            TrafficSpec { pairs: pairs.step_by(senders).copied().collect(), ..common.clone() }
        };
        (0..senders).map(entry).collect()
    }

    /// Returns the largest number of connections that it makes in a run.
    pub(crate) fn flows(&self) -> u64 {
        match &self.what {
            EntryKind::Connections(c) => match (&c.arrivals, &c.attempts) {
                (Some(arrivals), _) => arrivals.most(),
                (None, Some(attempts)) => attempts.count,
                (None, None) => (self.pairs.len() as u64).saturating_mul(c.rounds),
            },
            EntryKind::Ping { .. } => 0,
        }
    }

    /// Returns the number of host pairs, or of hosts that are paired at random.
    pub(crate) fn size(&self) -> usize {
        let drawn = |drawn: &Arrivals| drawn.sources().len() + drawn.destinations().len();
        self.pairs.len() + self.arrivals().map_or(0, drawn)
    }

    /// Returns the number of pings that it sends until `end`.
    pub(crate) fn pings(&self, end: Time) -> u64 {
        match &self.what {
            EntryKind::Connections(_) => 0,
            EntryKind::Ping { interval, .. } => {
                (end.ps() / interval.ps()).saturating_mul(self.pairs.len() as u64)
            }
        }
    }

    /// Returns the number of its ping streams.
    pub(crate) fn ping_streams(&self) -> usize {
        match &self.what {
            EntryKind::Connections(_) => 0,
            EntryKind::Ping { .. } => self.pairs.len(),
        }
    }

    /// Returns the number of rounds.
    pub(crate) fn rounds(&self) -> u64 {
        match &self.what {
            EntryKind::Connections(connections) => connections.rounds,
            EntryKind::Ping { .. } => 1,
        }
    }

    /// Returns whether each receiver has its own rounds.
    pub(crate) fn is_all_to_all(&self) -> bool {
        matches!(&self.what, EntryKind::Connections(connections) if connections.all_to_all)
    }

    /// Returns whether a round begins when the previous one is done.
    pub(crate) fn is_one_by_one(&self) -> bool {
        matches!(&self.what, EntryKind::Connections(c) if matches!(c.waiting, Some(Waiting::Rounds)))
    }

    /// Returns the criterion for fair sharing of its transfers.
    pub(crate) fn converged(&self) -> Option<Converged> {
        self.converged
    }

    /// Returns whether any of its connections ends by itself.
    pub(crate) fn can_end(&self) -> bool {
        let EntryKind::Connections(connections) = &self.what else { return false };
        self.arrivals().is_some() || connections.traffic.iter().any(Traffic::ends)
    }

    /// Returns whether its connections are under an algorithm of its own.
    pub(crate) fn names_cc(&self) -> bool {
        self.algorithm().is_some() && !self.takes_case_cc
    }

    /// Returns whether any of its connections is under the case's algorithm.
    pub(crate) fn takes_case_cc(&self) -> bool {
        self.takes_case_cc && self.flows() > 0
    }

    /// Returns the algorithm of the connecting side.
    pub(crate) fn algorithm(&self) -> Option<&'static Algorithm> {
        match &self.what {
            EntryKind::Connections(connections) => Some(connections.cc.algorithm),
            EntryKind::Ping { .. } => None,
        }
    }

    /// Returns the algorithm of the listening side, if it has its own.
    pub(crate) fn peer_algorithm(&self) -> Option<&'static Algorithm> {
        match &self.what {
            EntryKind::Connections(connections) => {
                connections.peer_cc.as_ref().map(|cc| cc.algorithm)
            }
            EntryKind::Ping { .. } => None,
        }
    }

    /// Returns its start time without jitter.
    pub(crate) fn start(&self) -> Duration {
        self.start
    }

    /// Returns the number of sampled connections.
    pub(crate) fn sampled_flows(&self) -> u64 {
        match &self.what {
            EntryKind::Connections(connections) if connections.sampled => self.flows(),
            _ => 0,
        }
    }

    /// Returns the hosts whose switch port its data passes.
    pub(crate) fn destinations(&self) -> impl Iterator<Item = NodeId> + '_ {
        let answers = matches!(self.kind, Kind::Rpc | Kind::Query);
        let of_pairs = self
            .pairs
            .iter()
            .flat_map(move |(from, to)| [Some(*to), answers.then_some(*from)])
            .flatten();
        of_pairs.chain(self.arrivals().into_iter().flat_map(Arrivals::destinations).copied())
    }

    /// Returns the hosts that send data.
    pub(crate) fn senders(&self) -> impl Iterator<Item = NodeId> + '_ {
        let answers = matches!(self.kind, Kind::Rpc | Kind::Query);
        let of_pairs = self.pairs.iter().flat_map(move |(from, to)| {
            [Some(*from), answers.then_some(*to)].into_iter().flatten()
        });
        of_pairs.chain(self.arrivals().into_iter().flat_map(Arrivals::sources).copied())
    }

    /// Returns the pairs of hosts that send to each other, and the hosts of drawn pairs: any of the first may send to
    /// any other of the second.
    pub(crate) fn ways(&self) -> (&[(NodeId, NodeId)], Option<FromToRef<'_>>) {
        let drawn = self.arrivals().map(|arrivals| (arrivals.sources(), arrivals.destinations()));
        (&self.pairs, drawn)
    }

    fn arrivals(&self) -> Option<&Arrivals> {
        match &self.what {
            EntryKind::Connections(connections) => connections.arrivals.as_ref(),
            EntryKind::Ping { .. } => None,
        }
    }

    /// Returns the smallest and the largest transfer, if sizes are drawn.
    pub(crate) fn drawn_sizes(&self) -> Option<(u64, u64)> {
        let drawn = self.arrivals();
        let drawn = drawn.map(|drawn| (drawn.sizes.smallest(), drawn.sizes.largest()));
        drawn.or_else(|| self.jobs()?.sizes())
    }

    /// Returns the messages of its flows, if they are sent one by one.
    fn jobs(&self) -> Option<&Jobs> {
        match &self.what {
            EntryKind::Connections(connections) => connections.jobs.as_ref(),
            EntryKind::Ping { .. } => None,
        }
    }

    /// Returns the number of messages and computations.
    pub(crate) fn tasks(&self) -> u64 {
        self.jobs().map_or(0, Jobs::tasks)
    }

    /// Adds its flows or pings to a run. The jitter depends only on `entry` and `seed`.
    pub(crate) fn build(
        &self,
        (entry, group): (usize, u32),
        seed: u64,
        flows: &mut Vec<Flow>,
        pings: &mut Vec<Ping>,
        schedule: &mut Schedule,
    ) {
        let mut jitter = Random::new(seed, &[entry as u64, 1]);
        let start = Time::ZERO + self.start;
        match &self.what {
            EntryKind::Ping { interval, wire_bytes, ecn, dscp } => {
                pings.extend(self.pairs.iter().map(|&(from, to)| Ping {
                    from,
                    to,
                    start: start + jitter.up_to(self.start_jitter),
                    interval: *interval,
                    wire_bytes: *wire_bytes,
                    ecn: *ecn,
                    dscp: *dscp,
                }));
            }
            EntryKind::Connections(connections) if connections.arrivals.is_some() => {
                let arrivals = connections.arrivals.iter();
                let drawn =
                    arrivals.flat_map(|all| all.draw(Random::new(seed, &[entry as u64, 4])));
                flows.extend(drawn.map(|arrival| Flow {
                    from: arrival.from,
                    to: arrival.to,
                    start: arrival.start,
                    traffic: Traffic::Bulk { bytes: Some(arrival.bytes) },
                    ..connections.flow(group)
                }));
            }
            EntryKind::Connections(connections) if connections.attempts.is_some() => {
                let attempts = connections.attempts.iter();
                let drawn = attempts
                    .flat_map(|all| all.draw(&self.pairs, Random::new(seed, &[entry as u64, 5])));
                flows.extend(drawn.map(|attempt| Flow {
                    from: attempt.from,
                    to: attempt.to,
                    start: attempt.start,
                    // This connection never writes.
                    first_write: Some(Time::MAX),
                    stop: Some(attempt.deadline),
                    ..connections.flow(group)
                }));
            }
            EntryKind::Connections(connections) => {
                let first = flows.len();
                let shift = connections.start_shift;
                let both_ways = Duration::from_ps(shift.ps() * 2);
                let moved = start + Random::new(seed, &[entry as u64, 2]).up_to(both_ways) - shift;
                for round in 0..connections.rounds {
                    // The start time of a waiting flow counts from its turn.
                    let waits = connections.waiting.is_some() && round > 0;
                    let every = times(connections.every, round);
                    let round_start = if waits { Time::ZERO } else { moved + every };
                    flows.extend(self.pairs.iter().zip(0u64..).map(|(&(from, to), i)| {
                        Flow {
                            from,
                            to,
                            start: round_start
                                + times(connections.stagger, i)
                                + jitter.up_to(self.start_jitter),
                            stop: connections
                                .stop
                                .map(|stop| Time::ZERO + stop + times(connections.stop_stagger, i)),
                            traffic: connections.traffic[i as usize % connections.traffic.len()],
                            ..connections.flow(group)
                        }
                    }));
                }
                if let Some(waiting) = &connections.waiting {
                    let random = Random::new(seed, &[entry as u64, 6]);
                    let rounds = connections.rounds;
                    let per_target = connections.all_to_all;
                    let of_entry = waiting::Entry { first, start, rounds, per_target };
                    waiting.arrange(&mut flows[first..], &of_entry, random, schedule);
                }
                if let Some(jobs) = &connections.jobs {
                    let random = Random::new(seed, &[entry as u64, 7]);
                    let job = jobs::Job { number: entry as u32, first: first as u32, start };
                    jobs.arrange(&mut flows[first..], &job, random, schedule);
                }
            }
        }
    }
}

impl Connections {
    /// Returns a flow with the entry's common settings. Hosts, sizes and times are still missing.
    fn flow(&self, group: u32) -> Flow {
        Flow {
            group,
            from: 0,
            to: 0,
            cc: self.cc.clone(),
            peer_cc: self.peer_cc.clone(),
            start: Time::ZERO,
            first_write: None,
            stop: None,
            traffic: Traffic::Bulk { bytes: None },
            read_at_bytes: self.read_at_bytes,
            sampled: self.sampled,
            base_rtt: self.base_rtt,
            dscp: self.dscp,
            peer_dscp: self.peer_dscp,
            max_pacing_rate: self.max_pacing_rate,
        }
    }
}

fn times(duration: Duration, n: u64) -> Duration {
    Duration::from_ps(duration.ps().saturating_mul(n))
}
