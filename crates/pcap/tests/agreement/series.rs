//! Samples of TCP_INFO beside what the analysis says of packets before these moments.

use std::collections::{BTreeMap, BTreeSet};

use knee_pcap::model::{EventKind, PacketRow};
use knee_sim::outcome::FlowSample;

use crate::table::{Pair, same, within};

/// An RTT that is not known has no more weight in the smoothed one after so many more: (7/8)^64 of some ms.
const FORGOTTEN: u32 = 64;

/// What an RTT from timestamps may be less than the true one, us: a tick of their clock.
const TICK_US: u64 = 1000;

/// Pairs of all samples of a flow.
#[derive(Default)]
pub(crate) struct Series {
    pub(crate) srtt_us: Vec<Pair>,
    pub(crate) min_rtt_us: Vec<Pair>,
    pub(crate) in_flight: Vec<Pair>,
    pub(crate) bytes_acked: Vec<Pair>,
    pub(crate) again: Vec<Pair>,
}

impl Series {
    /// Those of another flow.
    pub(crate) fn add(&mut self, other: Series) {
        self.srtt_us.extend(other.srtt_us);
        self.min_rtt_us.extend(other.min_rtt_us);
        self.in_flight.extend(other.in_flight);
        self.bytes_acked.extend(other.bytes_acked);
        self.again.extend(other.again);
    }
}

/// A sender, as far as its packets tell.
struct Sender<'a> {
    /// Data by the number of the ACK of it.
    acked_by: BTreeMap<u64, Vec<&'a PacketRow>>,
    mss: u64,
    has_sack: bool,
    una: u64,
    inflight_bytes: u64,
    again: u64,
    repeated: BTreeSet<u64>,
    /// As Linux has it, us times 8.
    srtt: Option<i64>,
    min_rtt_us: Option<u64>,
    /// RTTs since one that cannot be known, and whether there was one.
    known: u32,
    has_unknown: bool,
}

impl Sender<'_> {
    fn sends(&mut self, row: &PacketRow) {
        let is_again = row.why.is_some_and(|why| why != EventKind::OutOfOrder);
        if is_again {
            self.again += u64::from(row.len).div_ceil(self.mss);
            self.repeated.insert(row.seq);
        }
        self.inflight_bytes = row.inflight_bytes.unwrap_or(self.inflight_bytes);
    }

    /// An ACK: takes what it covers off, and its RTT as Linux does (RFC 6298 with alpha 1/8): of the first segment that it covers and
    /// that was sent once; if it covers one that was sent again, of the first that its SACKs report.
    fn hears(&mut self, row: &PacketRow, ack: u64) {
        let taken = self.acked_by.remove(&row.number).unwrap_or_default();
        let bytes: u64 = taken.iter().map(|data| u64::from(data.len)).sum();
        self.inflight_bytes = self.inflight_bytes.saturating_sub(bytes);
        let is_covered = |data: &&&PacketRow| data.seq + u64::from(data.len) <= ack;
        let is_again = self.repeated.range(self.una..ack.max(self.una)).next().is_some();
        let mut covered: Vec<&PacketRow> =
            taken.iter().filter(is_covered).filter(|_| !is_again).copied().collect();
        let mut sacked: Vec<&PacketRow> =
            taken.iter().filter(|data| !is_covered(data)).copied().collect();
        for list in [&mut covered, &mut sacked] {
            list.retain(|data| data.rtt_ns.is_some());
            list.sort_by_key(|data| data.seq);
        }
        let first = covered.first().or(sacked.first());
        let last = sacked.last().or(covered.last());
        let rtt_us =
            |data: &&PacketRow| data.rtt_ns.map(|ns| row.at_ns / 1000 - (row.at_ns - ns) / 1000);
        match (first.and_then(rtt_us), last.and_then(rtt_us)) {
            (Some(first_us), Some(last_us)) => self.sample(first_us, last_us),
            // It takes the RTT from timestamps then, in ticks of its clock.
            _ if ack > self.una => (self.known, self.has_unknown) = (0, true),
            _ => {}
        }
        self.una = self.una.max(ack);
    }

    fn sample(&mut self, first_us: u64, last_us: u64) {
        self.known = self.known.saturating_add(1);
        self.min_rtt_us = self.min_rtt_us.into_iter().chain([last_us.max(1)]).min();
        let rtt = first_us as i64;
        self.srtt = Some(self.srtt.map_or(rtt << 3, |srtt| srtt + rtt - (srtt >> 3)));
    }
}

/// Goes through a flow's packets at its sender and its samples side by side. A moment at which a packet passed is left out: which of
/// both was first is not known.
pub(crate) fn of(
    rows: &[&PacketRow],
    samples: &[&FlowSample],
    handshake_ns: Option<u64>,
    mss: u32,
    has_sack: bool,
) -> Series {
    let mut acked_by: BTreeMap<u64, Vec<&PacketRow>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.is_from_a) {
        if let Some(number) = row.acked_by {
            acked_by.entry(number).or_default().push(row);
        }
    }
    let mut sender = Sender {
        acked_by,
        mss: mss.into(),
        una: 0,
        inflight_bytes: 0,
        again: 0,
        repeated: BTreeSet::new(),
        srtt: None,
        min_rtt_us: None,
        known: FORGOTTEN,
        has_unknown: false,
        has_sack,
    };
    let mut all = Series::default();
    let mut next = 0;
    for sample in samples {
        let at_ns = sample.at.ns();
        while let Some(row) = rows.get(next).filter(|row| row.at_ns < at_ns) {
            next += 1;
            match (row.is_from_a, row.ack) {
                (true, _) if row.len > 0 => sender.sends(row),
                (false, Some(ack)) if row.flags.contains('S') => {
                    sender.una = ack;
                    if let Some(us) =
                        handshake_ns.map(|ns| row.at_ns / 1000 - (row.at_ns - ns) / 1000)
                    {
                        sender.sample(us, us);
                    }
                }
                (false, Some(ack)) => sender.hears(row, ack),
                _ => {}
            }
        }
        if rows.get(next).is_none_or(|row| row.at_ns > at_ns) {
            compare(&sender, sample, &mut all);
        }
    }
    all
}

fn compare(sender: &Sender<'_>, sample: &FlowSample, all: &mut Series) {
    if let (Some(srtt), true) = (sender.srtt, sender.known >= FORGOTTEN) {
        all.srtt_us.push(within((srtt >> 3) as u64, sample.srtt_us.into(), 1, 1));
    }
    if let Some(least) = sender.min_rtt_us {
        let ticks_us = if sender.has_unknown { TICK_US } else { 0 };
        all.min_rtt_us.push(within(least, sample.min_rtt_us.into(), 0, ticks_us));
    }
    let in_flight = sender.inflight_bytes.div_ceil(sender.mss);
    // Without SACK the kernel counts duplicate ACKs as packets that have arrived; nobody knows which.
    let sacked = if sender.has_sack { sample.sacked } else { 0 };
    all.in_flight.push(same(in_flight, u64::from(sample.unacked - sacked)));
    all.bytes_acked.push(same(sender.una, sample.bytes_acked));
    all.again.push(same(sender.again, sample.total_retrans));
}
