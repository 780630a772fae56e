//! Estimates the memory in bytes that a scenario's keys make a run use.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use knee_algo::Algorithm;
use knee_file::{Error, Reader};
use knee_queue::time::{Duration, PS_PER_S, Time};
use knee_queue::{QueueConfig, Threshold};
use knee_run::Ideal;
use knee_run::outcome::{
    FlowOutcome, FlowSample, FlowWindow, GoodputSample, LinkSample, PingRecord, QueueOutcome,
    QueueSample, RpcRecord,
};
use knee_run::spec::{Balance, Cable, Flow, HEADER_BYTES, Link, Network, Node, NodeId, Traffic};

use super::Scenario;
use crate::memory::{MOST_LISTED_LINKS, Memory, shown};
use crate::traffic::TrafficSpec;

/// Length of cells in a row of text, with their commas: a time to the nanosecond, and a number.
const TIME_TEXT: u64 = 14;
const NUMBER_TEXT: u64 = 8;
/// Overhead of the allocator per small allocation, bytes.
const PIECE: u64 = 16;
/// Bytes of two established sockets and their state in the simulator, whose memory test checks this bound.
const FLOW: u64 = 4096;
/// Bytes of a message or computation, with two tasks before it.
const TASK: u64 = 256;
/// Bytes that two sockets usually take less.
const FLOW_LESS: u64 = 600;
/// Bytes of a link in the simulator, besides its description twice: its state, and its place in the lists of routes.
const LINK: u64 = 280;
/// Bytes that a link takes more if its queue decides at departure: that queue, and the rare part of the link's state.
const DEPARTURES: u64 = 640;
/// Bytes of a node, besides its description twice: names, and its place in lists.
const NODE: u64 = 136;
/// Bytes of a packet in flight: itself, its event, and its place in a queue.
const PACKET: u64 = 144;
/// Bytes of an unacknowledged segment at its sender, in a ring that doubles.
const SEGMENT: u64 = 96;
/// Factor for segments held by repeated losses: each lost retransmission holds all later segments for another round
/// trip. At 2 % loss, BBR's list holds about 4 times the path's capacity.
const HELD: u64 = 6;
/// Bytes of a link in a manifest, as values and as text.
const LISTED: u64 = 500;
/// Bytes of a process besides its run.
const PROCESS: u64 = 4_000_000;
/// Bytes of a further thread: its event list, and what it keeps for each flow of the run, and for each node and link. Fitted
/// to the fabrics of tests/small_files.rs on 4 threads.
const THREAD: u64 = 100_000;
const THREAD_PER_FLOW: u64 = 16;
const THREAD_PER_NODE: u64 = 24;
/// Part of the memory of packets that a further thread takes more, since its lists double by themselves.
const THREAD_PER_PACKETS: u64 = 32;
/// Number of entries whose paths give the round trip for the likely number of packets.
const TIMED_ENTRIES: usize = 16;
/// Largest number of ACK queues on a path.
const HOPS: u64 = 8;
/// Memory of a metric without values, bytes.
const METRIC: u64 = 128;
/// Number of metrics of a subject, and of those that may have many values.
const METRICS: u64 = 33;
const WITH_VALUES: u64 = 7;
/// Bytes of a run's mean in a growing list.
const MEAN: u64 = 16;
/// Number of values of a metric that are kept one by one, and the bytes of the histogram that follows.
const ONE_BY_ONE: u64 = 4096;
const HISTOGRAM: u64 = 256 << 10;
/// Bytes of a sketch with its rows: a thousand buckets, some fifteen powers of two.
const SKETCH: u64 = 128 << 10;
/// Bytes of a table of routes besides its distances: its key, and its place in a map.
const ROUTE_TABLE: u64 = 96;
/// Distances from here on take 4 bytes instead of 1.
const WIDE_DISTANCE: u64 = 255;
/// Bytes of a node or link in the routes that a run keeps because its paths change.
const ROUTED: u64 = 64;
/// Bytes of a flowlet, and of those that are allocated together.
const FLOWLET: u64 = 16;
const FLOWLET_PAGE: u64 = 64 * FLOWLET;
/// Number of host pairs for which the duration of exchanges is computed. Only the links bound the others.
const MOST_PAIRS: usize = 200;

/// Returns the number of links from the first node that has one to the node farthest from it: about the
/// length of long paths.
fn farthest(network: &Network) -> u64 {
    let mut links: Vec<(NodeId, NodeId)> =
        network.links.iter().map(|link| (link.from, link.to)).collect();
    links.sort_unstable();
    let Some(&(first, _)) = links.first() else { return 0 };
    let mut seen = vec![false; network.nodes.len()];
    seen[first as usize] = true;
    let (mut hops, mut reached) = (0, vec![first]);
    loop {
        let mut next = Vec::new();
        for node in reached {
            let begin = links.partition_point(|(from, _)| *from < node);
            for (_, to) in links[begin..].iter().take_while(|(from, _)| *from == node) {
                if !std::mem::replace(&mut seen[*to as usize], true) {
                    next.push(*to);
                }
            }
        }
        if next.is_empty() {
            return hops;
        }
        (hops, reached) = (hops + 1, next);
    }
}

/// Options that decide the memory of runs, besides the scenario.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryInputs {
    /// Memory limit of a run, bytes.
    pub(crate) most_bytes: u64,
    /// Bytes of text that name the run in rows of results.
    pub(crate) label_bytes: u64,
    /// Number of runs whose values are combined.
    pub(crate) repeat: u32,
}

/// Memory that one key needs.
struct Part<'a> {
    table: Reader<'a>,
    key: &'static str,
    things: u64,
    /// Description of the key, and advice to reduce its memory.
    of: (&'static str, &'static str),
    bytes: u64,
}

impl Part<'_> {
    fn words(&self) -> String {
        format!("{} {}", self.things, self.of.0)
    }
}

/// Estimates the memory, and refuses a scenario above the limit.
pub(super) fn check(
    scenario: &Scenario,
    root: &Reader<'_>,
    asked: MemoryInputs,
) -> Result<Memory, Error> {
    let amounts = Amounts::new(scenario, root, asked);
    let mut parts = amounts.series()?;
    parts.extend(amounts.traffic()?);
    let sum = |parts: &[Part<'_>]| parts.iter().map(|part| part.bytes).fold(0, u64::saturating_add);
    let [lists, packets, paths] = amounts.network()?;
    parts.extend([lists, paths]);
    let likely_packets = amounts.likely_in_flight().saturating_mul(PACKET + SEGMENT);
    let links = amounts.network.links.len();
    let listed = if links > MOST_LISTED_LINKS { 0 } else { links as u64 * LISTED };
    let besides = likely_packets.min(packets.bytes).saturating_add(listed + PROCESS);
    let less = amounts.flows.saturating_mul(FLOW_LESS);
    let likely_bytes = sum(&parts).saturating_add(besides).saturating_sub(less);
    let nodes = (amounts.network.nodes.len() + links) as u64;
    let of_flows = amounts.flows.saturating_mul(THREAD_PER_FLOW);
    let of_packets = likely_packets.min(packets.bytes) / THREAD_PER_PACKETS;
    let of_routes = if amounts.changes_paths() { ROUTED } else { 0 };
    let of_nodes = THREAD + nodes * (THREAD_PER_NODE + of_routes);
    let thread_bytes = of_flows.saturating_add(of_nodes).saturating_add(of_packets);
    parts.push(packets);
    let kept = amounts.kept()?;
    let (run_bytes, kept_bytes) = (sum(&parts), kept.bytes);
    parts.push(kept);
    let Some(most) = parts.iter().max_by_key(|part| part.bytes) else {
        return Ok(Memory::default());
    };
    let words = most.words();
    let most_words = format!("{words} ({})", most.table.key(most.key));
    let memory = Memory { run_bytes, likely_bytes, thread_bytes, kept_bytes, most: most_words };
    if memory.bytes() <= asked.most_bytes {
        return Ok(memory);
    }
    let (all, of_most, allowed) =
        (shown(memory.bytes()), shown(most.bytes), shown(asked.most_bytes));
    let message = format!(
        "gives {words}, up to {of_most} of the {all} of memory per run, but {allowed} is allowed: \
         use {}, or allow more with knee run --memory",
        most.of.1
    );
    Err(most.table.error(most.key, message))
}

struct Amounts<'a> {
    scenario: &'a Scenario,
    root: &'a Reader<'a>,
    asked: MemoryInputs,
    network: Cow<'a, Network>,
    flows: u64,
    /// Length of the longest name of a traffic entry.
    name_text: u64,
    /// Bytes that the links to each node carry until the end. `None` if one of them has no rate.
    into_host: Vec<Option<u128>>,
}

impl<'a> Amounts<'a> {
    fn new(scenario: &'a Scenario, root: &'a Reader<'a>, asked: MemoryInputs) -> Amounts<'a> {
        let flows = scenario.traffic.iter().map(TrafficSpec::flows);
        let names = scenario.traffic.iter().map(|entry| entry.name.len() as u64);
        let network = scenario.network.sampled(|| scenario.destinations());
        let mut into_host = vec![Some(0); network.nodes.len()];
        for link in &network.links {
            let bytes = link.rate.map(|rate| bits_until(scenario.end, rate.bps()) / 8);
            let sum = &mut into_host[link.to as usize];
            *sum = sum.zip(bytes).map(|(sum, bytes)| sum + bytes);
        }
        Amounts {
            scenario,
            root,
            asked,
            network,
            into_host,
            flows: flows.fold(0, u64::saturating_add),
            name_text: names.max().unwrap_or(0),
        }
    }

    fn periods(&self, period: Duration) -> u64 {
        self.scenario.end.ps() / period.ps().max(1)
    }

    /// Estimates series: records and rows.
    fn series(&self) -> Result<Vec<Part<'a>>, Error> {
        let sampling = &self.scenario.sampling;
        let sampled: u64 = self.scenario.traffic.iter().map(TrafficSpec::sampled_flows).sum();
        let sampled = sampled.min(self.scenario.output.most_series());
        let values = self.scenario.algorithms().map(|algorithm: &Algorithm| algorithm.diag().len());
        let values = values.max().unwrap_or(0) as u64;
        let of_flow = size_of::<FlowSample>() as u64
            + if values > 0 { PIECE + 8 * values } else { 0 }
            + TIME_TEXT
            + NUMBER_TEXT * (20 + values)
            + self.name_text;
        let name_len = |link: &Link| self.network.link_name_len(link) as u64;
        let parts = |link: &Link| 1 + link.queue.part_names().len() as u64;
        let queues = self.network.links.iter().filter(|link| link.sampled);
        let buffers = self.network.buffers.iter().filter(|buffer| buffer.sampled);
        let link_text = queues.clone().map(name_len).max().unwrap_or(0);
        let of_queue =
            size_of::<QueueSample>() as u64 + 2 * TIME_TEXT + NUMBER_TEXT * 6 + link_text;
        let of_goodput = size_of::<GoodputSample>() as u64
            + TIME_TEXT
            + NUMBER_TEXT * 3
            + self.name_text
            // Goodput sums per period for convergence.
            + if self.scenario.traffic.iter().any(|entry| entry.converged().is_some()) { 8 } else { 0 };
        let with_rate = self.network.links.iter().filter(|link| link.rate.is_some());
        let link_text = with_rate.clone().map(name_len).max().unwrap_or(0);
        let of_link = size_of::<LinkSample>() as u64 + TIME_TEXT + NUMBER_TEXT * 5 + link_text;
        let rows = [
            ("flows", sampling.flows, sampled, of_flow, "samples of flows"),
            (
                "queues",
                sampling.queues,
                queues.map(parts).sum::<u64>() + buffers.count() as u64,
                of_queue,
                "samples of queues",
            ),
            ("goodput", sampling.goodput, self.flows, of_goodput, "samples of goodput"),
            ("links", sampling.links, with_rate.count() as u64, of_link, "samples of links"),
        ];
        let mut all = Vec::new();
        for (key, period, each, bytes, what) in rows {
            let Some(period) = period else { continue };
            let things = self.periods(period).saturating_mul(each);
            let bytes = things.saturating_mul(bytes);
            let sample = self.root.child("sample")?.filter(|sample| sample.has(key));
            let (table, key, way_out) = match sample {
                Some(sample) => (sample, key, "a longer period"),
                // Convergence samples every 10 ms by default.
                None => (
                    self.root.need_child("run")?,
                    "duration",
                    "a shorter run, or sample.goodput with a longer period",
                ),
            };
            all.push(Part { table, key, things, of: (what, way_out), bytes });
        }
        Ok(all)
    }

    /// Estimates connections, exchanges and pings of each entry.
    fn traffic(&self) -> Result<Vec<Part<'a>>, Error> {
        let mut all = Vec::new();
        let mut quickest = Quickest::new(&self.network);
        let row = self.asked.label_bytes + self.name_text;
        let of_flow = FLOW
            + (size_of::<Flow>() + size_of::<FlowOutcome>() + 2 * size_of::<FlowWindow>()) as u64;
        let of_row = row + 6 * TIME_TEXT + 30 * NUMBER_TEXT;
        let of_exchange = size_of::<RpcRecord>() as u64 + row + 2 * TIME_TEXT + NUMBER_TEXT;
        let of_ping = size_of::<PingRecord>() as u64 + 4 + row + 2 * TIME_TEXT + NUMBER_TEXT;
        let mut entries = self.scenario.traffic.iter().peekable();
        for (number, table) in self.root.children("traffic")?.into_iter().enumerate() {
            let (mut flows, mut pings, mut exchanges) = (0u64, 0u64, None::<u64>);
            let mut tasks = 0u64;
            // With `each`, one entry of the file becomes several.
            while let Some(entry) = entries.next_if(|entry| entry.table == number) {
                flows = flows.saturating_add(entry.flows());
                tasks = tasks.saturating_add(entry.tasks());
                pings = pings.saturating_add(entry.pings(self.scenario.end));
                if let Some(of_entry) = self.exchanges(entry, &mut quickest) {
                    exchanges = Some(exchanges.unwrap_or(0).saturating_add(of_entry));
                }
            }
            let rows = flows.min(self.scenario.output.most_rows());
            let of_rows = rows.saturating_mul(of_row);
            let of_flows =
                flows.saturating_mul(of_flow).saturating_add(tasks * TASK).saturating_add(of_rows);
            let part = if pings > 0 {
                let (things, of) = (pings, ("pings", "a longer interval"));
                let bytes = things.saturating_mul(of_ping);
                Part { table, key: "interval", things, of, bytes }
            } else if let Some(things) = exchanges {
                // Exchanges come in addition to their flows.
                let bytes = things.saturating_mul(of_exchange).saturating_add(of_flows);
                let of = ("exchanges", "a smaller count, or a shorter run");
                match table.has("count") {
                    true => Part { table, key: "count", things, of, bytes },
                    false => {
                        let table = self.root.need_child("run")?;
                        Part { table, key: "duration", things, of, bytes }
                    }
                }
            } else if tasks > 0 {
                let key = if table.has("file") { "file" } else { "hosts" };
                let of = ("messages and computations", "fewer of them");
                Part { table, key, things: tasks, of, bytes: of_flows }
            } else {
                let keys = ["rounds", "flows", "count", "until", "file"];
                let key = keys.into_iter().find(|key| table.has(key)).unwrap_or("from");
                let of = ("flows", "fewer of them");
                Part { table, key, things: flows, of, bytes: of_flows }
            };
            all.push(part);
        }
        Ok(all)
    }

    /// Returns an upper bound on the number of exchanges until the end. Each connection has at most as many as fit
    /// one after the other. Together, they have no more than the hosts' links carry.
    fn exchanges(&self, entry: &TrafficSpec, quickest: &mut Quickest<'_>) -> Option<u64> {
        let exchanges = entry.exchanges()?;
        let mut all = 0u64;
        // For each host, the smallest message that it receives.
        let (mut servers, mut clients) = (HashMap::new(), HashMap::new());
        for ((from, to), traffic) in exchanges {
            let Traffic::Rpc { request_bytes, response_bytes, count } = traffic else { continue };
            let fit = quickest.fit((from, to), (request_bytes, response_bytes), self.scenario.end);
            all = all.saturating_add(fit.min(count.unwrap_or(u64::MAX)));
            for (hosts, host, bytes) in
                [(&mut servers, to, request_bytes), (&mut clients, from, response_bytes)]
            {
                let least = hosts.entry(host).or_insert(bytes);
                *least = bytes.min(*least);
            }
        }
        let carried = |hosts: HashMap<NodeId, u64>| {
            let of_hosts = hosts.into_iter().map(|(host, bytes)| self.carried(host, bytes));
            of_hosts.fold(0, u64::saturating_add)
        };
        Some(all.min(carried(servers)).min(carried(clients)))
    }

    /// Returns how many messages of this size a host can receive until the end.
    fn carried(&self, host: NodeId, bytes: u64) -> u64 {
        let Some(sum) = self.into_host[host as usize] else { return u64::MAX };
        u64::try_from(sum / u128::from(bytes.max(1))).unwrap_or(u64::MAX)
    }

    /// Estimates queues that are lists themselves, and packets in flight.
    fn network(&self) -> Result<[Part<'a>; 3], Error> {
        let links = &self.network.links;
        let longest = farthest(&self.network);
        let empty = links.iter().map(|link| link.queue.empty_bytes()).fold(0, u64::saturating_add);
        let lists = Part {
            table: self.root.need_child("network")?,
            key: "topology",
            things: links.len() as u64,
            of: ("links and their queues", "fewer of them, or fewer flows of fq-codel"),
            bytes: empty
                .saturating_add(self.described_bytes())
                .saturating_add(self.routes_bytes(longest)),
        };
        let MaxInFlight { packets, segments, acks } = self.max_in_flight();
        let packets = Part {
            table: self.root.child_or_empty("hosts")?,
            key: "rcvbuf_max",
            things: segments.saturating_add(acks),
            of: ("packets in flight", "smaller windows, or limits of queues"),
            bytes: packets
                .saturating_add(acks)
                .saturating_mul(PACKET)
                .saturating_add(segments.saturating_mul(SEGMENT)),
        };
        let paths = Part {
            table: self.root.need_child("network")?,
            key: "topology",
            things: self.flows,
            of: ("the paths of flows", "fewer of them, or shorter paths"),
            // There and back, of 4 bytes each, in lists that double.
            bytes: self.flows.saturating_mul(2 * 4 * 3 / 2 * longest),
        };
        Ok([lists, packets, paths])
    }

    /// Nodes and links with their state, before anything is sent.
    fn described_bytes(&self) -> u64 {
        let Network { nodes, links, buffers, flow_control, changes, .. } = &*self.network;
        let all_depart = !buffers.is_empty() || flow_control.is_some() || !changes.links.is_empty();
        let mut departs = per_cable(|link| {
            link.rate.is_some() && (all_depart || link.queue.admission().is_none())
        });
        let departing = links.iter().filter(|link| departs(link)).count() as u64;
        let of_link = LINK + 2 * size_of::<Link>() as u64;
        let of_node = NODE + 2 * size_of::<Node>() as u64;
        links.len() as u64 * of_link + nodes.len() as u64 * of_node + departing * DEPARTURES
    }

    /// Returns whether a run keeps its routes, to find other paths.
    fn changes_paths(&self) -> bool {
        let mut hosts = self.network.nodes.iter().filter_map(|node| node.host.as_ref());
        !self.network.changes.routes.is_empty() || hosts.any(|host| host.ipv6)
    }

    /// Returns the number of places: sets of switches with links to hosts that have traffic. Each has a table of routes.
    fn places(&self) -> u64 {
        let senders = self.scenario.traffic.iter().flat_map(TrafficSpec::senders);
        let mut has_traffic = vec![false; self.network.nodes.len()];
        senders
            .chain(self.scenario.destinations())
            .for_each(|host| has_traffic[host as usize] = true);
        let mut into: Vec<(NodeId, NodeId)> = Vec::new();
        for link in self.network.links.iter().filter(|link| has_traffic[link.to as usize]) {
            if self.network.nodes[link.from as usize].host.is_none() {
                into.push((link.to, link.from));
            }
        }
        into.sort_unstable();
        into.dedup();
        let places = into.chunk_by(|one, other| one.0 == other.0);
        let places: HashSet<Vec<NodeId>> =
            places.map(|links| links.iter().map(|(_, switch)| *switch).collect()).collect();
        places.len() as u64
    }

    /// Distances of each switch to each place, next links of each switch to each place, and tables of flowlets, of which
    /// flows use a page in each direction. Paths have at most `longest` links.
    fn routes_bytes(&self, longest: u64) -> u64 {
        let balance = &self.network.balance;
        let nodes = &self.network.nodes;
        let switches = nodes.iter().filter(|node| node.host.is_none()).count() as u64;
        let distance = if longest < WIDE_DISTANCE { 1 } else { 4 };
        let places = self.places();
        let distances = places.saturating_mul(switches * distance + ROUTE_TABLE);
        let things = (nodes.len() + self.network.links.len()) as u64;
        let kept = if self.changes_paths() { things * ROUTED } else { 0 };
        let tables = balance.iter().map(|at| match at.balance {
            Balance::Flowlet { entries, .. } => {
                let pages = self.flows.saturating_mul(2 * FLOWLET_PAGE);
                pages.min(u64::from(entries) * FLOWLET) + u64::from(entries) / 8
            }
            _ => 0,
        });
        let next_links = if balance.is_empty() { 0 } else { places.saturating_mul(switches * 4) };
        let routes = distances.saturating_add(next_links).saturating_add(kept);
        tables.fold(routes, u64::saturating_add)
    }

    /// Likely largest number of packets in flight. Slow start fills each port to a receiver up to its limit, or up to
    /// twice what the path and the marking threshold hold. Before that, each flow sends its initial window.
    fn likely_in_flight(&self) -> u64 {
        let hosts = || self.network.nodes.iter().filter_map(|node| node.host.as_ref());
        let mtu = u64::from(hosts().map(|host| host.mtu_bytes).min().unwrap_or(1).max(1));
        let window = hosts().map(|host| host.rcvbuf_max_bytes.max(host.rcvbuf_initial_bytes)).max();
        let initial = hosts().map(|host| u64::from(host.initial_cwnd_pkts)).max().unwrap_or(0);
        let (mut of_windows, mut at_first) = (0u64, 0u64);
        for entry in &self.scenario.traffic {
            let most = entry.largest_transfer().unwrap_or(u64::MAX);
            let pkts = most.min(window.unwrap_or(0).into()).div_ceil(mtu);
            of_windows = of_windows.saturating_add(entry.flows().saturating_mul(pkts));
            at_first = at_first.saturating_add(entry.flows().saturating_mul(pkts.min(initial)));
        }
        let mut ideal = Ideal::new(&self.network);
        let entries = self.scenario.traffic.iter().take(TIMED_ENTRIES);
        let pairs = entries.filter_map(TrafficSpec::some_pair);
        let round_trips = pairs.filter_map(|pair| ideal.exchange(pair, (1, 1)).ok());
        let round_trip = Time::ZERO + round_trips.max().unwrap_or(Duration::ZERO);
        let marks = self.scenario.algorithms().any(Algorithm::needs_ecn);
        let destinations = self.scenario.destinations();
        let ports = self.network.links.iter().filter(|link| destinations.contains(&link.to));
        let mut most_pkts = per_cable(|link| link.queue.most_pkts(mtu as u32));
        let in_ports = ports.map(|link| {
            let Some(rate) = link.rate else { return u64::MAX };
            let path =
                u64::try_from(bits_until(round_trip, rate.bps()) / 8).unwrap_or(u64::MAX) / mtu;
            let limit = most_pkts(link).unwrap_or(u64::MAX);
            let threshold = match &link.queue {
                QueueConfig::Step(step) if marks => match step.threshold {
                    Threshold::Pkts(pkts) => u64::from(pkts),
                    Threshold::Bytes(bytes) => bytes / mtu,
                    Threshold::Sojourn(time) => {
                        let bytes = bits_until(Time::ZERO + time, rate.bps()) / 8;
                        u64::try_from(bytes).unwrap_or(u64::MAX) / mtu
                    }
                },
                _ => u64::MAX,
            };
            let marked = threshold.saturating_add(path).saturating_mul(2);
            path.saturating_add(limit).min(marked)
        });
        let in_ports = in_ports.fold(0, u64::saturating_add);
        of_windows.min(in_ports).max(at_first)
    }

    /// Largest number of packets in flight: the windows, but at most the capacity of queues and links, and at most the senders'
    /// data.
    fn max_in_flight(&self) -> MaxInFlight {
        let hosts = || self.network.nodes.iter().filter_map(|node| node.host.as_ref());
        let Some(mtu) = hosts().map(|host| host.mtu_bytes).min() else {
            return MaxInFlight::default();
        };
        let window = hosts().map(|host| host.rcvbuf_max_bytes.max(host.rcvbuf_initial_bytes)).max();
        let window = u64::from(window.unwrap_or(0));
        let at_host = hosts().map(|host| u64::from(host.limit_output_bytes)).max().unwrap_or(0);
        let mtu = u64::from(mtu.max(1));
        let of_windows = self.scenario.traffic.iter().map(|entry| {
            let most = entry.largest_transfer().unwrap_or(u64::MAX).min(window);
            entry.flows().saturating_mul(most.div_ceil(mtu))
        });
        let of_windows = of_windows.fold(0, u64::saturating_add);
        let senders: HashSet<NodeId> =
            self.scenario.traffic.iter().flat_map(TrafficSpec::senders).collect();
        let of_senders = self.network.links.iter().filter(|link| senders.contains(&link.from));
        let of_time = of_senders.map(|link| {
            let bytes = link.rate.map(|rate| bits_until(self.scenario.end, rate.bps()) / 8);
            bytes.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(u64::MAX) / mtu
        });
        let of_time = of_time.fold(0, u64::saturating_add);
        let fastest = self.network.links.iter().filter_map(|link| link.rate).max();
        let mut most_pkts = per_cable(|link| link.queue.most_pkts(mtu as u32));
        let of_links = self.network.links.iter().map(|link| {
            let is_host = self.network.nodes[link.from as usize].host.is_some();
            let waiting = match (link.rate, most_pkts(link)) {
                (None, _) => 0,
                (Some(_), Some(pkts)) => pkts,
                // TCP small queues limit these hosts.
                (Some(_), None) if is_host => self.flows.saturating_mul(at_host.div_ceil(mtu)),
                (Some(_), None) => u64::MAX,
            };
            let bps = link.rate.or(fastest).map_or(u64::MAX, |rate| rate.bps());
            let delay = Time::ZERO + link.delay + link.jitter;
            let flying = u64::try_from(bits_until(delay, bps) / 8).unwrap_or(u64::MAX) / mtu;
            waiting.saturating_add(flying)
        });
        let of_links = of_links.fold(0, u64::saturating_add);
        let sent = of_windows.min(of_time);
        MaxInFlight {
            packets: sent.min(of_links),
            segments: sent.min(of_links.saturating_mul(HELD)),
            acks: sent.min(self.acks(mtu)),
        }
    }

    /// Returns the ACKs that may wait in addition to data, because queues that count bytes hold more of them. ACKs
    /// arrive no faster than data reaches the receivers, for as long as the queues before them delay it.
    fn acks(&self, mtu: u64) -> u64 {
        let (mut room, mut slowest_ps) = (0u64, 0u128);
        let mut most = per_cable(|link| {
            let most = |bytes: u32| link.queue.most_pkts(bytes);
            most(mtu as u32).zip(most(HEADER_BYTES))
        });
        for link in &self.network.links {
            let Some(rate) = link.rate else { continue };
            let Some((data, acks)) = most(link) else { continue };
            if acks > data {
                room = room.saturating_add(acks - data);
                let bits = u128::from(data) * u128::from(mtu) * 8;
                slowest_ps = slowest_ps.max(bits * u128::from(PS_PER_S) / u128::from(rate.bps()));
            }
        }
        let waits = u64::try_from(slowest_ps * u128::from(HOPS)).unwrap_or(u64::MAX);
        let waits = Time::ZERO + Duration::from_ps(waits);
        let destinations = self.scenario.destinations();
        let arriving = self.network.links.iter().filter(|link| destinations.contains(&link.to));
        let arriving = arriving.map(|link| {
            let bits = link.rate.map(|rate| bits_until(waits, rate.bps()));
            bits.and_then(|bits| u64::try_from(bits / 8).ok()).unwrap_or(u64::MAX) / mtu
        });
        room.min(arriving.fold(0, u64::saturating_add))
    }

    /// Estimates the memory of a row's runs: per metric, a mean per run and all values.
    fn kept(&self) -> Result<Part<'a>, Error> {
        let sampling = &self.scenario.sampling;
        let series = [sampling.flows, sampling.queues].into_iter().flatten();
        let looks = series.map(|period| self.periods(period)).max().unwrap_or(0);
        let sampled = self.network.links.iter().filter(|link| link.sampled);
        let queues: u64 = sampled.map(|link| 1 + link.queue.part_names().len() as u64).sum();
        let runs = u64::from(self.asked.repeat);
        let of_values = |values: u64| if values > ONE_BY_ONE { HISTOGRAM } else { values * 8 };
        let flows = usize::try_from(self.flows).unwrap_or(usize::MAX);
        let of_sketch = if self.scenario.output.keeps_sketches(flows) { SKETCH } else { 0 };
        let of_subject = |values: u64| {
            METRICS * (METRIC + MEAN * runs + of_values(runs))
                + WITH_VALUES * (of_values(values.saturating_mul(runs)) + of_sketch)
        };
        let mut quickest = Quickest::new(&self.network);
        let of_entries = self.scenario.traffic.iter().map(|entry| {
            let exchanges = self.exchanges(entry, &mut quickest).unwrap_or(0);
            let values = entry.flows().max(exchanges).max(entry.pings(self.scenario.end));
            let values = values.max(entry.tasks());
            of_subject(values.max(if sampling.flows.is_some() { looks } else { 0 }))
        });
        let of_entries = of_entries.fold(0, u64::saturating_add);
        let flows_of = |name: &str| {
            let entries = self.scenario.traffic.iter().filter(|entry| entry.name == name);
            entries.map(TrafficSpec::flows).fold(0, u64::saturating_add)
        };
        let of_classes = self.scenario.groups().into_iter().map(|(name, _)| {
            let classes = self.scenario.size_classes(&name).len() as u64;
            classes.saturating_mul(of_subject(flows_of(&name)))
        });
        let of_classes = of_classes.fold(0, u64::saturating_add);
        let buffers = self.network.buffers.iter().filter(|buffer| buffer.sampled).count() as u64;
        let of_queues = queues.saturating_add(buffers).saturating_mul(
            of_subject(if sampling.queues.is_some() { looks } else { 0 })
                + size_of::<QueueOutcome>() as u64,
        );
        let each = of_entries.saturating_add(of_classes).saturating_add(of_queues);
        Ok(Part {
            table: self.root.need_child("run")?,
            key: "repeat",
            things: runs,
            of: ("values of runs", "fewer runs"),
            bytes: each,
        })
    }
}

/// Packets in queues and on links, unacknowledged segments at senders, and ACKs in queues in addition to data.
#[derive(Default)]
struct MaxInFlight {
    packets: u64,
    segments: u64,
    acks: u64,
}

/// Computes how many exchanges of a kind fit into a run one after the other.
struct Quickest<'a> {
    network: &'a Network,
    /// Created on first use, because it takes time for a large network.
    ideal: Option<Ideal<'a>>,
    known: HashMap<Exchange, u64>,
}

/// An exchange: its hosts, and the bytes of request and response.
type Exchange = ((NodeId, NodeId), (u64, u64));

impl<'a> Quickest<'a> {
    fn new(network: &'a Network) -> Quickest<'a> {
        Quickest { network, ideal: None, known: HashMap::new() }
    }

    fn fit(&mut self, hosts: (NodeId, NodeId), bytes: (u64, u64), end: Time) -> u64 {
        if let Some(fit) = self.known.get(&(hosts, bytes)) {
            return *fit;
        }
        if self.known.len() >= MOST_PAIRS {
            return u64::MAX;
        }
        let ideal = self.ideal.get_or_insert_with(|| Ideal::new(self.network));
        let time = ideal.exchange(hosts, bytes);
        let fit = time.map_or(0, |time| end.ps() / time.ps().max(1));
        self.known.insert((hosts, bytes), fit);
        fit
    }
}

/// Returns a function that computes something of each cable once.
fn per_cable<T: Copy>(of: impl Fn(&Link) -> T) -> impl FnMut(&Link) -> T {
    let mut known: HashMap<*const Cable, T> = HashMap::new();
    move |link| *known.entry(Arc::as_ptr(&link.cable)).or_insert_with(|| of(link))
}

/// Returns the bits that a link carries until a time.
fn bits_until(at: Time, bps: u64) -> u128 {
    u128::from(bps) * u128::from(at.ps()) / u128::from(PS_PER_S)
}
