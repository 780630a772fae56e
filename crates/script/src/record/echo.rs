//! Segments that the peer received, and timestamps that it echoes where the player's default differs.

use super::{Step, end_of};
use knee_wire::Segment;
use std::collections::{BTreeMap, BTreeSet};

/// Segments within which the answer to another comes, far beyond any window here: it bounds the work.
const LOOKED_AT: usize = 2_000;

pub(super) struct Echo {
    lost: BTreeSet<usize>,
    /// Segments that have names, and the segments that echo them.
    names: BTreeMap<usize, String>,
    written: BTreeMap<usize, usize>,
}

impl Echo {
    pub(super) fn of(steps: &[Step]) -> Echo {
        let mut echo = Echo { lost: lost(steps), names: BTreeMap::new(), written: BTreeMap::new() };
        echo.compare(steps);
        echo
    }

    pub(super) fn is_lost(&self, index: usize) -> bool {
        self.lost.contains(&index)
    }

    pub(super) fn name_of(&self, index: usize) -> Option<&str> {
        self.names.get(&index).map(String::as_str)
    }

    /// The name to echo in place of what the player would.
    pub(super) fn written(&self, index: usize) -> Option<&str> {
        self.name_of(*self.written.get(&index)?)
    }

    /// Follows the player's peer (`note_received` in `play.rs`), and notes where the recorded one differs.
    fn compare(&mut self, steps: &[Step]) {
        let mut ack = 0_u32;
        let mut recent: Option<u32> = None;
        // The last segment with each timestamp.
        let mut sent: BTreeMap<u32, usize> = BTreeMap::new();
        for (index, Step { is_out, segment, .. }) in steps.iter().enumerate() {
            let Some((value, echoed)) = segment.timestamps else { continue };
            if *is_out {
                sent.insert(value, index);
                if !self.lost.contains(&index) && segment.seq <= ack {
                    recent = Some(value);
                }
                continue;
            }
            if !segment.has(Segment::ACK) {
                continue;
            }
            ack = ack.max(segment.ack);
            if recent != Some(echoed) {
                if let Some(of) = sent.get(&echoed) {
                    let next = self.names.len() + 1;
                    self.names.entry(*of).or_insert_with(|| format!("s{next}"));
                    self.written.insert(index, *of);
                }
            }
        }
    }
}

/// Retransmitted segments whose original was lost: no ACK or SACK came before the second copy, and no DSACK (RFC 2883)
/// after it.
fn lost(steps: &[Step]) -> BTreeSet<usize> {
    let mut lost = BTreeSet::new();
    // Later transmissions by first byte.
    let mut later: BTreeMap<u32, (usize, u32)> = BTreeMap::new();
    for (index, step) in steps.iter().enumerate().rev() {
        let segment = &step.segment;
        let end = end_of(segment);
        if !step.is_out || end == segment.seq {
            continue;
        }
        let again = later.range(..=segment.seq).next_back();
        if let Some((_, (again, _))) = again.filter(|(_, (_, end))| *end > segment.seq) {
            let ins = |range: std::ops::Range<usize>| {
                steps[range]
                    .iter()
                    .take(LOOKED_AT)
                    .filter(|step| !step.is_out)
                    .map(|step| &step.segment)
            };
            let covers = |(start, next): &(u32, u32)| *start <= segment.seq && end <= *next;
            let arrived =
                ins(index..*again).any(|ack| ack.ack > segment.seq || ack.sacks.iter().any(covers));
            let duplicate = ins(*again..steps.len()).any(|ack| is_duplicate(ack, covers));
            if !arrived && !duplicate {
                lost.insert(index);
            }
        }
        later.insert(segment.seq, (index, end));
    }
    lost
}

/// Whether the first range is a DSACK (RFC 2883): below the acknowledgement or within the second range, and `covers` it.
fn is_duplicate(ack: &Segment, covers: impl Fn(&(u32, u32)) -> bool) -> bool {
    let Some(first) = ack.sacks.first() else { return false };
    let below = first.1 <= ack.ack;
    let within = ack.sacks.get(1).is_some_and(|second| second.0 <= first.0 && first.1 <= second.1);
    (below || within) && covers(first)
}
