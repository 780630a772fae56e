//! A sender as the analysis shows it packet by packet: what it would say of itself at a moment.
#![allow(dead_code, reason = "each test takes what it needs")]

use std::collections::{BTreeMap, BTreeSet};

use knee_pcap::model::{EventKind, PacketRow};

/// RTT samples after which an unknown first RTT has no weight in the smoothed one: (7/8)^64 of some ms.
const FORGOTTEN: u32 = 64;

/// A sender, as far as its packets tell.
pub(crate) struct Sender<'a> {
    /// Data by the number of the ACK of it.
    acked_by: BTreeMap<u64, Vec<&'a PacketRow>>,
    mss: u64,
    handshake_ns: Option<u64>,
    /// Acknowledged up to here.
    pub(crate) una: u64,
    inflight_bytes: u64,
    /// Segments retransmitted, by the sender's log.
    pub(crate) again: u64,
    repeated: BTreeSet<u64>,
    /// As Linux has it, us times 8.
    srtt: Option<i64>,
    pub(crate) min_rtt_us: Option<u64>,
    /// RTTs since one that cannot be known, and whether there was one.
    known: u32,
    pub(crate) has_unknown: bool,
}

impl<'a> Sender<'a> {
    /// Before the first of a flow's packets at its sender, which is `a`.
    pub(crate) fn new(rows: &[&'a PacketRow], handshake_ns: Option<u64>, mss: u32) -> Sender<'a> {
        let mut acked_by: BTreeMap<u64, Vec<&PacketRow>> = BTreeMap::new();
        for row in rows.iter().filter(|row| row.is_from_a) {
            if let Some(number) = row.acked_by {
                acked_by.entry(number).or_default().push(row);
            }
        }
        Sender {
            acked_by,
            mss: mss.into(),
            handshake_ns,
            una: 0,
            inflight_bytes: 0,
            again: 0,
            repeated: BTreeSet::new(),
            srtt: None,
            min_rtt_us: None,
            known: FORGOTTEN,
            has_unknown: false,
        }
    }

    /// A packet passes.
    pub(crate) fn row(&mut self, row: &PacketRow) {
        match (row.is_from_a, row.ack) {
            (true, _) if row.len > 0 => self.sends(row),
            (false, Some(ack)) if row.flags.contains('S') => {
                self.una = ack;
                match self.handshake_ns {
                    Some(ns) => {
                        let us = row.at_ns / 1000 - (row.at_ns - ns) / 1000;
                        self.sample(us, us);
                    }
                    // The SYN was retransmitted.
                    None => (self.known, self.has_unknown) = (0, true),
                }
            }
            (false, Some(ack)) => self.hears(row, ack),
            _ => {}
        }
    }

    /// Sent, and neither acknowledged nor selectively so.
    pub(crate) fn in_flight_pkts(&self) -> u64 {
        self.inflight_bytes.div_ceil(self.mss)
    }

    /// The smoothed RTT, if all that it is made from is known.
    pub(crate) fn srtt_us(&self) -> Option<u64> {
        self.srtt.filter(|_| self.known >= FORGOTTEN).map(|srtt| (srtt >> 3) as u64)
    }

    fn sends(&mut self, row: &PacketRow) {
        let is_again = row.why.is_some_and(|why| why != EventKind::OutOfOrder);
        if is_again {
            self.again += u64::from(row.len).div_ceil(self.mss);
            self.repeated.insert(row.seq);
        }
        self.inflight_bytes = row.inflight_bytes.unwrap_or(self.inflight_bytes);
    }

    /// An ACK: takes what it covers off, and its RTT as Linux does (RFC 6298 with alpha 1/8): of the first segment that it covers and
    /// that was sent once; if it covers one that was retransmitted, of the first that its SACKs report.
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
