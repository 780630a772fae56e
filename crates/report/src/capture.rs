//! Captures: the directory that `knee pcap --csv` writes, read in bounded memory.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use knee_results::{Error, Row, Table, read_json};
use serde_json::Value;

/// The file by which such a directory is known.
pub(crate) const FINDINGS: &str = "findings.json";
/// Flows of the table.
const LISTED: usize = 100;
/// Flows that are drawn.
const DRAWN: usize = 8;
/// Packets of the page, of both directions of a flow, and of all of them.
const FLOW_PACKETS: usize = 100_000;
const ALL_PACKETS: usize = 480_000;
/// Packets that are looked at; what comes behind them is counted.
const MOST_READ: usize = 2_000_000;
/// Kinds of repeated or late packets as `why` has them: the number in the page is the place here, counted from 1.
pub(crate) const KINDS: [&str; 6] = [
    "fast-retransmission",
    "rto",
    "retransmission-after-rto",
    "tail-loss-probe",
    "unclear-retransmission",
    "out-of-order",
];

/// Contents of a capture directory.
pub(crate) struct Capture {
    /// Contents of findings.json.
    pub(crate) about: Value,
    /// The larger direction of the largest flows, the largest first; views of other points are left out.
    pub(crate) flows: Vec<Flow>,
    /// Flows in all, each connection once.
    pub(crate) count: u64,
    /// Flows that are drawn, the largest first.
    pub(crate) drawn: Vec<Drawn>,
    /// First packet of those that are drawn, ns.
    pub(crate) begin_ns: u64,
    /// Whether the directory has packets at all.
    pub(crate) has_packets: bool,
    /// Rows of packets behind those that were looked at.
    pub(crate) not_read: u64,
}

/// One direction of a flow, as flows.csv has it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flow {
    pub(crate) id: u64,
    pub(crate) point: u64,
    pub(crate) direction: String,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
    /// Columns that are numbers, by name; what is missing was not seen.
    numbers: BTreeMap<&'static str, f64>,
    pub(crate) family: String,
}

/// Columns of flows.csv that the page shows.
const NUMBERS: [&str; 22] = [
    "bytes",
    "goodput_bps",
    "segments",
    "retransmitted",
    "fast",
    "rto",
    "after_rto",
    "tlp",
    "unclear",
    "spurious",
    "out_of_order",
    "rto_stall_ns",
    "zero_windows",
    "ce",
    "ece_bytes",
    "acked_bytes",
    "rtt_min_ns",
    "rtt_median_ns",
    "rtt_p99_ns",
    "rtt_max_ns",
    "max_inflight_bytes",
    "confidence",
];

impl Flow {
    /// A column; `None`: it was not seen.
    pub(crate) fn number(&self, column: &str) -> Option<f64> {
        self.numbers.get(column).copied()
    }

    /// Payload that was acknowledged.
    pub(crate) fn bytes(&self) -> f64 {
        self.number("bytes").unwrap_or(0.0)
    }
}

/// A flow with what is drawn of it.
pub(crate) struct Drawn {
    pub(crate) flow: Flow,
    pub(crate) rounds: Vec<Round>,
    /// Packets with data of the larger direction.
    pub(crate) data: Vec<Data>,
    /// Packets of the other direction that acknowledge.
    pub(crate) acks: Vec<Ack>,
    /// Packets of both before some were left out.
    pub(crate) whole: usize,
}

impl Drawn {
    /// Packets that are drawn.
    pub(crate) fn len(&self) -> usize {
        self.data.len() + self.acks.len()
    }
}

/// A round trip, as rounds.csv has it; NaN: not seen.
pub(crate) struct Round {
    pub(crate) begin_ns: u64,
    pub(crate) duration_ns: u64,
    pub(crate) inflight_bytes: f64,
    pub(crate) window_bytes: f64,
    pub(crate) rate_bps: f64,
    /// Share of the data that was marked.
    pub(crate) marked: f64,
    /// RTT by timestamps.
    pub(crate) stamped_min_ns: f64,
    pub(crate) stamped_mean_ns: f64,
}

/// A packet with data; NaN: not known.
#[derive(Clone, Copy)]
pub(crate) struct Data {
    pub(crate) number: u64,
    pub(crate) at_ns: u64,
    pub(crate) seq: u64,
    pub(crate) len: u64,
    pub(crate) inflight_bytes: f64,
    pub(crate) rtt_ns: f64,
    pub(crate) acked_by: u64,
    /// 0, or the place in [`KINDS`] from 1.
    pub(crate) kind: u8,
    pub(crate) is_ce: bool,
    /// Whether the ACK of it says that there were marks.
    pub(crate) is_echoed: bool,
    pub(crate) is_spurious: bool,
}

impl Data {
    /// Whether it is kept whatever else is left out.
    fn is_special(&self) -> bool {
        self.kind > 0 || self.is_spurious
    }
}

/// A packet that acknowledges.
#[derive(Clone)]
pub(crate) struct Ack {
    pub(crate) number: u64,
    pub(crate) at_ns: u64,
    pub(crate) ack: u64,
    pub(crate) is_ece: bool,
    /// SACK ranges that the ACK before it did not have.
    pub(crate) sacks: Vec<(u64, u64)>,
}

/// Packets of a flow as they are read, both directions.
#[derive(Default)]
struct Packets {
    data: [Vec<Data>; 2],
    acks: [Vec<Ack>; 2],
    last_sacks: [Vec<(u64, u64)>; 2],
}

impl Capture {
    /// Reads a directory.
    pub(crate) fn read(dir: &Path) -> Result<Capture, Error> {
        let about = about(&dir.join(FINDINGS))?;
        let views: HashSet<u64> = list(&about["views"]).iter().filter_map(Value::as_u64).collect();
        let (mut packets, not_read) = packets(&dir.join("packets.csv"))?;
        let has_packets = !packets.is_empty();
        let (flows, count) = flows(&dir.join("flows.csv"), &views, &packets)?;
        // Which flows that were not kept are views of one connection is not in the table.
        let count = about["connections"].as_u64().unwrap_or(count);
        let chosen: Vec<&Flow> = flows
            .iter()
            .filter(|flow| !has_packets || packets.contains_key(&flow.id))
            .take(DRAWN)
            .collect();
        let mut drawn: Vec<Drawn> = chosen
            .into_iter()
            .map(|flow| {
                let of_flow = packets.remove(&flow.id).unwrap_or_default();
                let sender = usize::from(flow.direction != "a-to-b");
                let ([a, b], [from_a, from_b]) = (of_flow.data, of_flow.acks);
                let (data, acks) = if sender == 0 { (a, from_b) } else { (b, from_a) };
                let whole = data.len() + acks.len();
                Drawn { flow: flow.clone(), rounds: Vec::new(), data, acks, whole }
            })
            .collect();
        rounds(&dir.join("rounds.csv"), &mut drawn)?;
        spurious(&dir.join("events.csv"), &mut drawn)?;
        drawn.iter_mut().for_each(echoed);
        thin(&mut drawn);
        let begin_ns = drawn.iter().map(|one| one.flow.begin_ns).min().unwrap_or(0);
        let flows = flows.into_iter().take(LISTED).collect();
        Ok(Capture { about, flows, count, drawn, begin_ns, has_packets, not_read })
    }
}

/// The values of a list; none if it is no list.
pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Contents of findings.json.
pub(crate) fn about(path: &Path) -> Result<Value, Error> {
    let about: Value = read_json(path, "list of findings", "run knee pcap again")?;
    match about["findings"].is_array() {
        true => Ok(about),
        false => Err(Error::input(path, 0, "has no list of findings: run knee pcap again")),
    }
}

/// A column with a whole number; 0 where the cell is empty.
fn whole(row: Row<'_>, column: usize) -> Result<u64, Error> {
    if row.text(column).is_empty() { Ok(0) } else { row.index(column) }
}

fn or_nan(row: Row<'_>, column: usize) -> Result<f64, Error> {
    Ok(row.number(column)?.unwrap_or(f64::NAN))
}

fn required(path: &Path) -> Result<Table, Error> {
    Table::open_if_there(path)?
        .ok_or_else(|| Error::input(path, 0, "is not there: run knee pcap with --csv again"))
}

/// The larger direction of flows, the largest first, and how many flows there are.
fn flows(
    path: &Path,
    views: &HashSet<u64>,
    wanted: &BTreeMap<u64, Packets>,
) -> Result<(Vec<Flow>, u64), Error> {
    let mut table = required(path)?;
    let at = table.columns([
        "flow",
        "point",
        "direction",
        "from",
        "to",
        "begin_ns",
        "end_ns",
        "family",
    ])?;
    let numbers = table.columns(NUMBERS)?;
    let mut all: Vec<Flow> = Vec::new();
    let mut count = 0;
    while let Some(row) = table.next()? {
        let id = row.index(at[0])?;
        if views.contains(&id) && !wanted.contains_key(&id) {
            continue;
        }
        let mut flow = Flow {
            id,
            point: whole(row, at[1])?,
            direction: row.text(at[2]).to_owned(),
            from: row.text(at[3]).to_owned(),
            to: row.text(at[4]).to_owned(),
            begin_ns: row.index(at[5])?,
            end_ns: row.index(at[6])?,
            family: row.text(at[7]).to_owned(),
            numbers: BTreeMap::new(),
        };
        for (name, column) in NUMBERS.iter().zip(&numbers) {
            if let Some(number) = row.number(*column)? {
                flow.numbers.insert(name, number);
            }
        }
        // Rows of one flow follow each other.
        match all.last_mut().filter(|last| last.id == id) {
            Some(last) if last.bytes() < flow.bytes() => *last = flow,
            Some(_) => {}
            None => {
                count += u64::from(!views.contains(&id));
                if all.len() >= 40 * LISTED {
                    largest(&mut all, wanted);
                }
                all.push(flow);
            }
        }
    }
    largest(&mut all, wanted);
    Ok((all, count))
}

/// Sorts flows, the largest first, and leaves out small ones that nobody asked for.
fn largest(flows: &mut Vec<Flow>, wanted: &BTreeMap<u64, Packets>) {
    flows.sort_by(|a, b| b.bytes().total_cmp(&a.bytes()).then(a.id.cmp(&b.id)));
    let mut place = 0;
    flows.retain(|flow| {
        place += 1;
        place <= LISTED || wanted.contains_key(&flow.id)
    });
}

fn packets(path: &Path) -> Result<(BTreeMap<u64, Packets>, u64), Error> {
    let mut all: BTreeMap<u64, Packets> = BTreeMap::new();
    let Some(mut table) = Table::open_if_there(path)? else { return Ok((all, 0)) };
    let [flow, number, at_ns, direction, seq, len, ack, flags, ecn, sacks, inflight, rtt, by, why] =
        table.columns([
            "flow",
            "number",
            "at_ns",
            "direction",
            "seq",
            "len",
            "ack",
            "flags",
            "ecn",
            "sacks",
            "inflight_bytes",
            "rtt_ns",
            "acked_by",
            "why",
        ])?;
    let (mut read, mut not_read) = (0, 0);
    while let Some(row) = table.next()? {
        read += 1;
        if read > MOST_READ {
            not_read += 1;
            continue;
        }
        let of_flow = all.entry(row.index(flow)?).or_default();
        let sender = usize::from(row.text(direction) != "a-to-b");
        let (number, at_ns) = (row.index(number)?, row.index(at_ns)?);
        let len = row.index(len)?;
        if len > 0 {
            of_flow.data[sender].push(Data {
                number,
                at_ns,
                seq: row.index(seq)?,
                len,
                inflight_bytes: or_nan(row, inflight)?,
                rtt_ns: or_nan(row, rtt)?,
                acked_by: whole(row, by)?,
                kind: KINDS
                    .iter()
                    .position(|kind| *kind == row.text(why))
                    .map_or(0, |at| at as u8 + 1),
                is_ce: row.text(ecn) == "ce",
                is_echoed: false,
                is_spurious: false,
            });
        }
        // A SYN has no meaning of its own for ECE.
        let is_syn = row.text(flags).contains('S');
        if row.text(ack).is_empty() || is_syn {
            continue;
        }
        let ranges = ranges(row.text(sacks));
        let last = &mut of_flow.last_sacks[sender];
        of_flow.acks[sender].push(Ack {
            number,
            at_ns,
            ack: row.index(ack)?,
            is_ece: row.text(flags).contains('E'),
            sacks: ranges.iter().filter(|range| !last.contains(range)).copied().collect(),
        });
        *last = ranges;
    }
    Ok((all, not_read))
}

/// Ranges written as `1449-2897 4345-5793`.
fn ranges(text: &str) -> Vec<(u64, u64)> {
    let range = |text: &str| {
        let (from, to) = text.split_once('-')?;
        Some((from.parse().ok()?, to.parse().ok()?))
    };
    text.split(' ').filter_map(range).collect()
}

fn rounds(path: &Path, drawn: &mut [Drawn]) -> Result<(), Error> {
    let mut table = required(path)?;
    let at = table.columns([
        "begin_ns",
        "duration_ns",
        "inflight_bytes",
        "window_bytes",
        "rate_bps",
        "rtt_by_timestamps_min_ns",
        "rtt_by_timestamps_mean_ns",
        "segments",
        "ce_segments",
        "ece_bytes",
        "acked_bytes",
    ])?;
    let [flow, direction] = table.columns(["flow", "direction"])?;
    while let Some(row) = table.next()? {
        let (id, way) = (row.index(flow)?, row.text(direction));
        let Some(one) = drawn.iter_mut().find(|one| one.flow.id == id && one.flow.direction == way)
        else {
            continue;
        };
        let value = |i: usize| or_nan(row, at[i]);
        let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { f64::NAN };
        let (echoed, marked) = (share(value(9)?, value(10)?), share(value(8)?, value(7)?));
        one.rounds.push(Round {
            begin_ns: row.index(at[0])?,
            duration_ns: row.index(at[1])?,
            inflight_bytes: value(2)?,
            window_bytes: value(3)?,
            rate_bps: value(4)?,
            // ECE where it is seen: at the sender no data is marked yet.
            marked: if echoed > 0.0 { echoed } else { marked.max(echoed) },
            stamped_min_ns: value(5)?,
            stamped_mean_ns: value(6)?,
        });
    }
    Ok(())
}

/// Retransmissions that were shown not to have been needed.
fn spurious(path: &Path, drawn: &mut [Drawn]) -> Result<(), Error> {
    let Some(mut table) = Table::open_if_there(path)? else { return Ok(()) };
    let [flow, direction, kind, earlier] =
        table.columns(["flow", "direction", "kind", "earlier"])?;
    while let Some(row) = table.next()? {
        if row.text(kind) != "spurious" {
            continue;
        }
        let (id, way) = (row.index(flow)?, row.text(direction));
        let number = whole(row, earlier)?;
        let of_flow = drawn.iter_mut().filter(|one| one.flow.id == id && one.flow.direction == way);
        let packet = of_flow.flat_map(|one| &mut one.data).find(|packet| packet.number == number);
        if let Some(packet) = packet {
            packet.is_spurious = true;
        }
    }
    Ok(())
}

/// Finds out which data was acknowledged with ECE.
fn echoed(one: &mut Drawn) {
    let ece: HashSet<u64> =
        one.acks.iter().filter(|ack| ack.is_ece).map(|ack| ack.number).collect();
    for packet in &mut one.data {
        packet.is_echoed = ece.contains(&packet.acked_by);
    }
}

/// Leaves out packets until the page is small enough: of each short period the ends and the extremes stay, and whatever was sent
/// again or came late.
fn thin(drawn: &mut [Drawn]) {
    let mut most = FLOW_PACKETS;
    while drawn.iter().map(|one| one.len().min(most)).sum::<usize>() > ALL_PACKETS {
        most = most * 9 / 10;
    }
    for one in drawn.iter_mut().filter(|one| one.len() > most) {
        let share = most as f64 / one.len() as f64;
        thin_data(&mut one.data, share);
        let every = (1.0 / share).ceil() as usize;
        let is_kept = |i: usize, ack: &Ack| i % every == 0 || !ack.sacks.is_empty();
        let mut place = 0;
        // Neighbours that differ in ECE stay, so that no run of it begins elsewhere.
        let mut before = false;
        one.acks.retain(|ack| {
            let is_turn = ack.is_ece != before;
            (before, place) = (ack.is_ece, place + 1);
            is_turn || is_kept(place - 1, ack)
        });
    }
}

fn thin_data(data: &mut Vec<Data>, share: f64) {
    // Up to six of each group stay.
    let group = ((6.0 / share).ceil() as usize).max(7);
    let mut kept: Vec<Data> = Vec::new();
    for chunk in data.chunks(group) {
        let extreme = |value: fn(&Data) -> f64, sign: f64| {
            let known = (0..chunk.len()).filter(|i| !value(&chunk[*i]).is_nan());
            known.max_by(|i, j| (sign * value(&chunk[*i])).total_cmp(&(sign * value(&chunk[*j]))))
        };
        let rtt = |packet: &Data| packet.rtt_ns;
        let inflight = |packet: &Data| packet.inflight_bytes;
        let ends = [Some(0), Some(chunk.len() - 1)];
        let extremes = [
            extreme(rtt, 1.0),
            extreme(rtt, -1.0),
            extreme(inflight, 1.0),
            extreme(inflight, -1.0),
        ];
        let mut stays: HashSet<usize> = ends.into_iter().chain(extremes).flatten().collect();
        // Where extremes are the same packets, others at equal distances are as good.
        for i in (0..chunk.len()).step_by(chunk.len().div_ceil(6)) {
            if stays.len() < 6 {
                stays.insert(i);
            }
        }
        let of_chunk = chunk.iter().enumerate();
        kept.extend(
            of_chunk
                .filter(|(i, packet)| packet.is_special() || stays.contains(i))
                .map(|(_, packet)| *packet),
        );
    }
    *data = kept;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(number: u64) -> Data {
        Data {
            number,
            at_ns: number * 1000,
            seq: 1 + number * 1448,
            len: 1448,
            inflight_bytes: 14480.0,
            rtt_ns: 100_000.0,
            acked_by: number + 1,
            kind: 0,
            is_ce: false,
            is_echoed: false,
            is_spurious: false,
        }
    }

    #[test]
    fn thinning_loses_no_spike_and_no_retransmission() {
        let mut data: Vec<Data> = (0..100_000).map(packet).collect();
        data[40_321].rtt_ns = 5e6;
        data[51_777].rtt_ns = 20_000.0;
        data[60_003].kind = 2;
        data[70_001].inflight_bytes = 90_000.0;
        thin_data(&mut data, 0.1);
        assert!((2_000..=10_100).contains(&data.len()), "{}", data.len());
        let has = |number| data.iter().any(|packet| packet.number == number);
        for number in [0, 40_321, 51_777, 60_003, 70_001, 99_999] {
            assert!(has(number), "{number}");
        }
        assert!(data.is_sorted_by_key(|packet| packet.number));
    }

    #[test]
    fn ranges_are_read_and_what_is_none_is_left_out() {
        assert_eq!(ranges("1449-2897 4345-5793"), [(1449, 2897), (4345, 5793)]);
        assert_eq!(ranges(""), []);
        assert_eq!(ranges("x-1 7"), []);
    }
}
