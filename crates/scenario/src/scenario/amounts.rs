//! Counts the samples that a scenario asks for.

use knee_algo::Algorithm;
use knee_file::{Error, Reader};
use knee_results::ResultFile;
use knee_run::outcome::{
    FlowSample, GoodputSample, LinkSample, PingRecord, QueueSample, RpcRecord,
};

use super::Scenario;
use crate::kind::TrafficSpec;
use crate::memory::{Memory, shown};

/// Bytes of a value, as text in a row of results and as an algorithm's own value.
const VALUE: u64 = 8;

/// Samples that one key asks for.
struct Part<'a> {
    table: Reader<'a>,
    key: &'static str,
    things: u64,
    name: &'static str,
    /// What needs less memory.
    less: &'static str,
    bytes: u64,
}

/// Counts the samples, and refuses a scenario whose samples take more than the limit.
pub(super) fn check(
    scenario: &Scenario,
    root: &Reader<'_>,
    most_bytes: u64,
) -> Result<Memory, Error> {
    let mut parts = samples(scenario, root)?;
    parts.extend(pings(scenario, root)?);
    parts.extend(requests(scenario, root)?);
    let bytes = parts.iter().map(|part| part.bytes).fold(0, u64::saturating_add);
    let Some(most) = parts.iter().max_by_key(|part| part.bytes) else {
        return Ok(Memory::default());
    };
    let words = format!("{} {}", most.things, most.name);
    if bytes <= most_bytes {
        return Ok(Memory { bytes, most: format!("{words} ({})", most.table.key(most.key)) });
    }
    let (all, of_most, allowed) = (shown(bytes), shown(most.bytes), shown(most_bytes));
    let message = format!(
        "gives {words}, up to {of_most} of the {all} of memory per run, but {allowed} is allowed: \
         use {}, or allow more with knee run --memory",
        most.less
    );
    Err(most.table.error(most.key, message))
}

/// Bytes of a record and of its row in a file.
fn with_row<T>(file: ResultFile) -> u64 {
    size_of::<T>() as u64 + VALUE * file.columns().len() as u64
}

fn samples<'a>(scenario: &Scenario, root: &Reader<'a>) -> Result<Vec<Part<'a>>, Error> {
    let (sampling, traffic) = (&scenario.sampling, &scenario.traffic);
    let network = scenario.network.sampled(|| scenario.destinations());
    let flows = |of: fn(&TrafficSpec) -> u64| traffic.iter().map(of).fold(0, u64::saturating_add);
    let series = flows(TrafficSpec::sampled_flows).min(scenario.output.most_series());
    let values = scenario.algorithms().map(|algorithm: &Algorithm| algorithm.diag().len()).max();
    let of_flow =
        with_row::<FlowSample>(ResultFile::FlowSample) + 2 * VALUE * values.unwrap_or(0) as u64;
    let queues = network.links.iter().filter(|link| link.sampled);
    let queues = queues.map(|link| 1 + link.queue.part_names().len()).sum::<usize>()
        + network.buffers.iter().filter(|buffer| buffer.sampled).count();
    let links = network.links.iter().filter(|link| link.rate.is_some()).count();
    let of_queue = with_row::<QueueSample>(ResultFile::QueueSample);
    let of_goodput = with_row::<GoodputSample>(ResultFile::GoodputSample);
    let of_link = with_row::<LinkSample>(ResultFile::LinkSample);
    let asked = [
        ("flows", sampling.flows, series, of_flow, "samples of flows"),
        ("queues", sampling.queues, queues as u64, of_queue, "samples of queues"),
        ("goodput", sampling.goodput, flows(TrafficSpec::flows), of_goodput, "samples of goodput"),
        ("links", sampling.links, links as u64, of_link, "samples of links"),
    ];
    let mut parts = Vec::new();
    for (key, period, each, bytes, name) in asked {
        let Some(period) = period else { continue };
        let things = (scenario.end.ps() / period.ps().max(1)).saturating_mul(each);
        let sample = root.child("sample")?.filter(|sample| sample.has(key));
        let (table, key, less) = match sample {
            Some(sample) => (sample, key, "a longer period"),
            // Convergence samples every 10 ms by default.
            None => (
                root.need_child("run")?,
                "duration",
                "a shorter run, or sample.goodput with a longer period",
            ),
        };
        parts.push(Part { table, key, things, name, less, bytes: things.saturating_mul(bytes) });
    }
    Ok(parts)
}

fn pings<'a>(scenario: &Scenario, root: &Reader<'a>) -> Result<Vec<Part<'a>>, Error> {
    let of_ping = with_row::<PingRecord>(ResultFile::Ping);
    let tables = root.children("traffic")?.into_iter().enumerate().map(|(number, table)| {
        // With `each`, one entry of the file becomes several.
        let entries = scenario.traffic.iter().filter(|entry| entry.table == number);
        let things = entries.map(|entry| entry.pings(scenario.end)).fold(0, u64::saturating_add);
        let (key, name, less) = match table.has("rate") {
            true => ("rate", "packets", "a lower rate, or larger packets"),
            false => ("interval", "pings", "a longer interval"),
        };
        Part { table, key, things, name, less, bytes: things.saturating_mul(of_ping) }
    });
    Ok(tables.filter(|part| part.things > 0).collect())
}

fn requests<'a>(scenario: &Scenario, root: &Reader<'a>) -> Result<Vec<Part<'a>>, Error> {
    // Its arrival and its size, then its record.
    let of_request = 2 * VALUE + with_row::<RpcRecord>(ResultFile::Rpc);
    let tables = root.children("traffic")?.into_iter().enumerate().map(|(number, table)| {
        let entries = scenario.traffic.iter().filter(|entry| entry.table == number);
        let things = entries.map(|entry| entry.requests(scenario.end)).fold(0, u64::saturating_add);
        let given = ["load", "rate", "arrivals_per_sec"].into_iter().find(|key| table.has(key));
        let (key, less) = (given.unwrap_or("load"), "a lower one, or an earlier stop");
        let bytes = things.saturating_mul(of_request);
        Part { table, key, things, name: "requests", less, bytes }
    });
    Ok(tables.filter(|part| part.things > 0).collect())
}
