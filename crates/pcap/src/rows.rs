//! Packets of chosen flows, one by one.

use std::collections::BTreeMap;

use knee_wire::Segment;

use crate::model::{EventKind, PacketRow};

/// The row of a packet that has none.
pub(crate) const NO_ROW: u32 = u32::MAX;

/// Rows of the chosen flows, up to a limit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rows {
    pub(crate) list: Vec<PacketRow>,
    /// Most rows per flow.
    pub(crate) most: usize,
    /// Rows of each flow so far.
    pub(crate) counts: BTreeMap<u32, usize>,
    /// Packets beyond the limit.
    pub(crate) not_kept: u64,
}

impl Rows {
    /// Adds a packet; gives its row.
    pub(crate) fn add(&mut self, row: PacketRow) -> u32 {
        let count = self.counts.entry(row.flow).or_default();
        if *count >= self.most || self.list.len() >= NO_ROW as usize {
            self.not_kept += 1;
            return NO_ROW;
        }
        *count += 1;
        self.list.push(row);
        (self.list.len() - 1) as u32
    }

    fn at(&mut self, row: u32) -> Option<&mut PacketRow> {
        self.list.get_mut(row as usize)
    }

    /// Sets the bytes in flight at a packet.
    pub(crate) fn inflight(&mut self, row: u32, bytes: u64) {
        if let Some(row) = self.at(row) {
            row.inflight_bytes = Some(bytes);
        }
    }

    /// Sets the packet that acknowledged a row, and the RTT if known.
    pub(crate) fn acked(&mut self, row: u32, by: u64, rtt_ns: Option<u64>) {
        if let Some(row) = self.at(row) {
            row.acked_by.get_or_insert(by);
            row.rtt_ns = row.rtt_ns.or(rtt_ns);
        }
    }

    /// Records that a packet retransmits another, and why.
    pub(crate) fn repeats(
        &mut self,
        row: u32,
        why: EventKind,
        earlier: Option<u64>,
        earlier_row: u32,
    ) {
        let number = self.at(row).map(|row| {
            (row.why, row.repeats) = (Some(why), earlier);
            row.number
        });
        if let Some(row) = self.at(earlier_row) {
            row.repeated_by = row.repeated_by.or(number);
        }
    }

    /// Records the kind of a packet that retransmits nothing.
    pub(crate) fn why(&mut self, row: u32, why: EventKind) {
        if let Some(row) = self.at(row) {
            row.why = Some(why);
        }
    }
}

/// Flags as letters.
pub(crate) fn letters(flags: u16) -> String {
    const LETTERS: [(u16, char); 9] = [
        (Segment::SYN, 'S'),
        (Segment::FIN, 'F'),
        (Segment::RST, 'R'),
        (Segment::PSH, 'P'),
        (Segment::ACK, 'A'),
        (Segment::URG, 'U'),
        (Segment::ECE, 'E'),
        (Segment::CWR, 'C'),
        (Segment::AE, 'N'),
    ];
    LETTERS.iter().filter(|(flag, _)| flags & flag != 0).map(|(_, letter)| letter).collect()
}
