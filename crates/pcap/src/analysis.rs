//! Captures in, results out: reads files side by side and puts together what their flows say.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use knee_wire::Error;

use crate::crossings::Matcher;
use crate::input::{FileFacts, Input, Seen, packets};
use crate::keep::Keeper;
use crate::live::Shared;
use crate::model::{Analysis, Arrivals, FileSummary, Flow, Point};
use crate::rows::Rows;
use crate::table::{Bounds, Table};

/// Packets that a file's reader hands over at once, and how often it may be ahead.
const BATCH: usize = 256;
const BATCHES: usize = 4;
/// Receivers whose arrivals are kept, bins of each, and the width of the first ones, ns.
const MOST_RECEIVERS: usize = 256;
const MOST_BINS: usize = 4096;
const FIRST_BIN_NS: u64 = 1_000_000;

/// Settings of an analysis: flows to list, and limits on memory.
#[derive(Clone, Debug)]
pub struct AnalysisOptions {
    /// Flows whose packets are listed.
    pub flows: Vec<u32>,
    /// Most packets kept per flow.
    pub most_packets: usize,
    /// Flows kept: half the largest, half those with the longest stalls.
    pub most_flows: usize,
    /// Round trips kept per direction.
    pub most_rounds: usize,
    /// Most simultaneous connections; beyond it, the longest idle ones are finished.
    pub most_live: usize,
    /// Idle time after which a connection is finished, ns.
    pub idle_ns: u64,
}

impl Default for AnalysisOptions {
    fn default() -> AnalysisOptions {
        AnalysisOptions {
            flows: Vec::new(),
            most_packets: 1_000_000,
            most_flows: 2000,
            most_rounds: 1024,
            most_live: 250_000,
            idle_ns: 300_000_000_000,
        }
    }
}

/// Analyses captures. Each flow that is finished is shown to `each`, kept or not; whether it is its connection's primary one is
/// known only at the end.
///
/// # Errors
/// If a file cannot be opened, or is no capture. What cannot be read further is counted, and said in [`FileSummary::unread`].
pub fn analyse(
    inputs: Vec<Input>,
    options: &AnalysisOptions,
    each: &mut dyn FnMut(&Flow),
) -> Result<Analysis, Error> {
    let names: Vec<String> = inputs.iter().map(Input::name).collect();
    let mut running = Running::new(options, each);
    if inputs.len() > 1 {
        // One file's packets wait from the first on: another's clock may be behind.
        running.matcher = Some(Matcher::default());
    }
    let facts = match <[Input; 1]>::try_from(inputs) {
        Ok([input]) => {
            let opened = input.open()?;
            let facts = packets(&names[0], opened, |seen| {
                running.packet(0, seen);
                ControlFlow::Continue(())
            });
            vec![facts?]
        }
        Err(inputs) => side_by_side(inputs, &mut running)?,
    };
    Ok(running.finish(&names, facts))
}

/// Reads several files at once, each on its own thread, and takes their packets in the order of their times.
fn side_by_side(inputs: Vec<Input>, running: &mut Running<'_>) -> Result<Vec<FileFacts>, Error> {
    let mut opened = Vec::new();
    for input in inputs {
        opened.push((input.name(), input.open()?));
    }
    thread::scope(|scope| {
        let mut sources = Vec::new();
        let mut readers = Vec::new();
        for (name, input) in opened {
            let (sender, receiver) = sync_channel(BATCHES);
            readers.push(scope.spawn(move || read_into(&name, input, &sender)));
            sources.push(Source { receiver, batch: Vec::new(), next: 0 });
        }
        merge(&mut sources, running);
        drop(sources);
        let join =
            |reader: thread::ScopedJoinHandle<'_, Result<FileFacts, Error>>| match reader.join() {
                Ok(facts) => facts,
                Err(panic) => std::panic::resume_unwind(panic),
            };
        readers.into_iter().map(join).collect()
    })
}

fn read_into(
    name: &str,
    input: Box<dyn std::io::Read + Send>,
    sender: &SyncSender<Vec<Seen>>,
) -> Result<FileFacts, Error> {
    let mut batch = Vec::with_capacity(BATCH);
    let facts = packets(name, input, |seen| {
        batch.push(*seen);
        if batch.len() < BATCH {
            return ControlFlow::Continue(());
        }
        match sender.send(std::mem::replace(&mut batch, Vec::with_capacity(BATCH))) {
            Ok(()) => ControlFlow::Continue(()),
            // Nobody reads any more: another file could not be read.
            Err(_) => ControlFlow::Break(()),
        }
    });
    let _ = sender.send(batch);
    facts
}

struct Source {
    receiver: Receiver<Vec<Seen>>,
    batch: Vec<Seen>,
    next: usize,
}

impl Source {
    fn next(&mut self) -> Option<Seen> {
        while self.next >= self.batch.len() {
            self.batch = self.receiver.recv().ok()?;
            self.next = 0;
        }
        self.next += 1;
        self.batch.get(self.next - 1).copied()
    }
}

fn merge(sources: &mut [Source], running: &mut Running<'_>) {
    let mut heads: Vec<Option<Seen>> = sources.iter_mut().map(Source::next).collect();
    let first = heads.iter().enumerate();
    let mut order: BinaryHeap<Reverse<(u64, usize)>> =
        first.filter_map(|(file, head)| Some(Reverse((head.as_ref()?.at_ns, file)))).collect();
    while let Some(Reverse((_, file))) = order.pop() {
        if let Some(seen) = heads[file].take() {
            running.packet(file, &seen);
        }
        heads[file] = sources[file].next();
        if let Some(head) = &heads[file] {
            order.push(Reverse((head.at_ns, file)));
        }
    }
}

/// An analysis while packets come.
struct Running<'a> {
    options: AnalysisOptions,
    each: &'a mut dyn FnMut(&Flow),
    table: Table,
    keeper: Keeper,
    rows: Rows,
    matcher: Option<Matcher>,
    /// File and the point within it, by point.
    points: Vec<(usize, u16)>,
    link_rates_bps: Vec<f64>,
    arrivals: BTreeMap<(usize, IpAddr), usize>,
    arrived: Vec<Arrivals>,
    fresh: Vec<(u64, u64)>,
}

impl<'a> Running<'a> {
    fn new(options: &AnalysisOptions, each: &'a mut dyn FnMut(&Flow)) -> Running<'a> {
        let AnalysisOptions { most_live, idle_ns, most_rounds, .. } = *options;
        Running {
            options: options.clone(),
            each,
            table: Table::new(Bounds { most_live, idle_ns, most_rounds }),
            keeper: Keeper::new(options.most_flows),
            rows: Rows { most: options.most_packets, ..Rows::default() },
            matcher: None,
            points: Vec::new(),
            link_rates_bps: Vec::new(),
            arrivals: BTreeMap::new(),
            arrived: Vec::new(),
            fresh: Vec::new(),
        }
    }

    fn packet(&mut self, file: usize, seen: &Seen) {
        let point = self.point(file, seen.point);
        let wanted = &self.options.flows;
        let mut shared = Shared {
            link_rate_bps: &mut self.link_rates_bps[point],
            fresh: &mut self.fresh,
            rows: (!wanted.is_empty()).then_some(&mut self.rows),
            most_rounds: self.options.most_rounds,
        };
        let (keeper, each) = (&mut self.keeper, &mut self.each);
        let mut done = |flow: Flow| {
            each(&flow);
            keeper.take(flow);
        };
        let wants = |id: u32| wanted.contains(&id);
        let mss = self.table.packet(seen, point as u32, wants, &mut shared, &mut done);
        if seen.tcp.len > 0 {
            self.arrive(point, seen);
        }
        if let Some(matcher) = &mut self.matcher {
            matcher.packet(seen, point as u32, seen.tcp.len > mss);
        }
    }

    /// The point's index; a new one is added.
    fn point(&mut self, file: usize, within: u16) -> usize {
        let here = (file, within);
        if let Some(at) = self.points.iter().position(|point| *point == here) {
            return at;
        }
        self.points.push(here);
        self.link_rates_bps.push(0.0);
        if self.points.len() > 1 {
            self.matcher.get_or_insert_default();
        }
        self.points.len() - 1
    }

    fn arrive(&mut self, point: usize, seen: &Seen) {
        let to = seen.tcp.destination.ip();
        let is_room = self.arrived.len() < MOST_RECEIVERS;
        let arrived = &mut self.arrived;
        let at = self.arrivals.get(&(point, to)).copied();
        let at = match at {
            Some(at) => at,
            None if is_room => {
                let (begin_ns, bin_ns) = (seen.at_ns, FIRST_BIN_NS);
                arrived.push(Arrivals { point, to, begin_ns, bin_ns, bytes: Vec::new() });
                self.arrivals.insert((point, to), arrived.len() - 1);
                arrived.len() - 1
            }
            None => return,
        };
        let arrivals = &mut arrived[at];
        loop {
            let bin = seen.at_ns.saturating_sub(arrivals.begin_ns) / arrivals.bin_ns;
            if bin < MOST_BINS as u64 {
                let bin = bin as usize;
                if arrivals.bytes.len() <= bin {
                    arrivals.bytes.resize(bin + 1, 0);
                }
                arrivals.bytes[bin] += u64::from(seen.tcp.len);
                return;
            }
            arrivals.bin_ns = arrivals.bin_ns.saturating_mul(2);
            arrivals.bytes = arrivals.bytes.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
    }

    fn finish(self, names: &[String], facts: Vec<FileFacts>) -> Analysis {
        let Running { table, mut keeper, each, .. } = self;
        let (flows, connections) = (table.flows(), table.connections());
        table.finish(&mut |flow| {
            each(&flow);
            keeper.take(flow);
        });
        let (flows_kept, totals) = keeper.finish();
        let mut analysis = Analysis { flows: flows_kept, ..Analysis::default() };
        let whole = &mut analysis.whole;
        whole.flows = u64::from(flows);
        whole.connections = u64::from(connections);
        whole.flows_not_kept = whole.flows.saturating_sub(analysis.flows.len() as u64);
        whole.totals = totals;
        whole.briefs = analysis.flows.iter().map(Flow::brief).collect();
        whole.points =
            self.points.iter().map(|(file, within)| named(names, &facts, *file, *within)).collect();
        let points = &self.points;
        let file_of = |point: u32| points[point as usize].0;
        whole.crossings = self.matcher.map_or_else(Vec::new, |matcher| matcher.finish(file_of));
        whole.arrivals = self.arrived;
        let files = names.iter().zip(facts).map(|(name, facts)| FileSummary {
            name: name.clone(),
            packets: facts.packets,
            tcp_packets: facts.tcp_packets,
            begin_ns: facts.begin_ns,
            end_ns: facts.end_ns,
            inside: by_name(&facts),
            unread: facts.unread,
        });
        whole.files = files.collect();
        analysis.packets = self.rows.list;
        analysis.packets_not_kept = self.rows.not_kept;
        analysis
    }
}

/// Packets by the names of what they were wrapped in.
fn by_name(facts: &FileFacts) -> BTreeMap<String, u64> {
    facts.inside.iter().map(|(layers, count)| (layers.to_string(), *count)).collect()
}

fn named(names: &[String], facts: &[FileFacts], file: usize, within: u16) -> Point {
    let of_file = &facts[file];
    let places = of_file.points.get(usize::from(within)).cloned().unwrap_or_default();
    let places: Vec<_> = places.into_iter().map(|place| of_file.place(place)).collect();
    let mut interfaces: Vec<u32> = places.iter().map(|place| place.0).collect();
    interfaces.sort_unstable();
    interfaces.dedup();
    let mut name = names[file].clone();
    if of_file.points.len() > 1 {
        let list: Vec<String> = interfaces.iter().map(u32::to_string).collect();
        name += &format!(" interface {}", list.join(", "));
        let mut inside: Vec<String> = places
            .iter()
            .filter(|place| !place.1.is_empty())
            .map(|place| place.1.to_string())
            .collect();
        inside.dedup();
        if !inside.is_empty() {
            name += &format!(" in {}", inside.join(" and "));
        }
    }
    Point { file, interfaces, name }
}
