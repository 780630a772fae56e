//! Data that arrived beyond a gap, and the ranges of it that SACK reports.

use super::seq::{after, before};

/// The most SACK ranges to remember.
const SACKS_KEPT: usize = 4;

/// Ranges of sequence numbers received out of order.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct OutOfOrder {
    /// The ranges in ascending order, with gaps between them.
    ranges: Vec<(u32, u32)>,
    sacks_len: usize,
    /// A range that arrived a second time, to be reported once.
    pub(super) dsack: Option<(u32, u32)>,
    /// Duplicates are not reported, because SACK or `tcp_dsack` is off.
    pub(super) hides_duplicates: bool,
    /// SACK ranges, newest first.
    sacks: [(u32, u32); SACKS_KEPT],
    /// The number after a FIN that arrived beyond a gap.
    pub(super) fin: Option<u32>,
    /// Start of the last duplicate range, reported or not.
    last_duplicate: Option<u32>,
}

impl OutOfOrder {
    /// Remembers a range that arrived a second time. Linux: `tcp_dsack_set`, `tcp_dsack_extend`.
    pub(super) fn note_duplicate(&mut self, seq: u32, end_seq: u32) {
        if self.hides_duplicates {
            return;
        }
        self.dsack = Some((seq, end_seq));
        self.last_duplicate = Some(seq);
    }

    /// Returns the start of the last duplicate range.
    pub(super) fn last_duplicate(&self) -> Option<u32> {
        self.last_duplicate
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns the end of the highest range.
    pub(super) fn end(&self) -> Option<u32> {
        self.ranges.last().map(|range| range.1)
    }

    /// Returns the end of the highest range that SACK reports.
    pub(super) fn last_end(&self) -> Option<u32> {
        let reported = self.sacks[..self.sacks_len].iter();
        reported.map(|range| range.1).reduce(|a, b| if after(b, a) { b } else { a })
    }

    /// Removes the ranges that follow `rcv_nxt` without a gap. Returns the new `rcv_nxt`. Linux:
    /// `tcp_ofo_queue`.
    pub(super) fn take_in_order(&mut self, mut rcv_nxt: u32) -> u32 {
        let mut taken = 0;
        let mut duplicate = None;
        for &(start, end) in &self.ranges {
            if after(start, rcv_nxt) {
                break;
            }
            taken += 1;
            if before(start, rcv_nxt) {
                let end = if before(end, rcv_nxt) { end } else { rcv_nxt };
                // Linux reports the first, and what follows it without a gap.
                duplicate = match duplicate {
                    Some((first, until)) if !after(start, until) => Some((first, end)),
                    None => Some((start, end)),
                    first => first,
                };
            }
            if after(end, rcv_nxt) {
                rcv_nxt = end;
            }
        }
        self.ranges.drain(..taken);
        if let Some((start, end)) = duplicate {
            self.note_duplicate(start, end);
        }
        rcv_nxt
    }

    /// Reports whether there is a range to report.
    #[inline]
    pub(super) fn has_report(&self) -> bool {
        self.sacks_len > 0 || self.dsack.is_some()
    }

    /// Returns the ranges to report: the duplicate first, then the newest. Linux:
    /// `tcp_options_write`.
    pub(super) fn sack_blocks(&mut self, blocks: &mut [(u32, u32)]) -> u8 {
        let reported =
            self.dsack.take().into_iter().chain(self.sacks[..self.sacks_len].iter().copied());
        let mut n = 0;
        for (block, range) in blocks.iter_mut().zip(reported) {
            *block = range;
            n += 1;
        }
        n
    }

    /// Returns the length of each range, bytes.
    pub(super) fn lens(&self) -> impl Iterator<Item = u32> {
        self.ranges.iter().map(|(start, end)| end.wrapping_sub(*start))
    }

    /// Adds a range beyond the gap. Returns false if all of it was there already. Linux:
    /// `tcp_data_queue_ofo`.
    pub(super) fn insert(&mut self, seq: u32, end_seq: u32) -> bool {
        if let Some((_, end)) = self.ranges.last_mut().filter(|last| last.1 == seq) {
            *end = end_seq;
            return true;
        }
        let from = self.ranges.partition_point(|&(_, end)| before(end, seq));
        let to = self.ranges.partition_point(|&(start, _)| !after(start, end_seq));
        if from == to {
            self.ranges.insert(from, (seq, end_seq));
            return true;
        }
        let (first, last) = (self.ranges[from], self.ranges[to - 1]);
        if to - from == 1 && !before(seq, first.0) && !after(end_seq, first.1) {
            self.note_duplicate(seq, end_seq);
            return false;
        }
        // A range that only touches its neighbour is no duplicate; most holes are filled this way.
        let from_seq = if before(first.0, seq) { seq } else { first.0 };
        let to_seq = if before(end_seq, last.1) { end_seq } else { last.1 };
        if before(from_seq, first.1) && before(from_seq, to_seq) {
            self.note_duplicate(from_seq, to_seq);
        } else if to - from > 1 && before(self.ranges[from + 1].0, to_seq) {
            self.note_duplicate(self.ranges[from + 1].0, to_seq);
        }
        let start = if before(first.0, seq) { first.0 } else { seq };
        let end = if after(last.1, end_seq) { last.1 } else { end_seq };
        self.ranges.splice(from..to, [(start, end)]);
        true
    }

    /// Remembers a range for SACK, newest first. Linux: `tcp_sack_new_ofo_skb`.
    pub(super) fn note_sack(&mut self, seq: u32, end_seq: u32) {
        let touches = |range: &(u32, u32)| !after(seq, range.1) && !before(end_seq, range.0);
        if let Some(place) = self.sacks[..self.sacks_len].iter().position(touches) {
            let mut merged = self.sacks[place];
            if before(seq, merged.0) {
                merged.0 = seq;
            }
            if after(end_seq, merged.1) {
                merged.1 = end_seq;
            }
            self.sacks.copy_within(0..place, 1);
            self.sacks[0] = merged;
            self.coalesce_sacks();
        } else {
            let kept = self.sacks_len.min(SACKS_KEPT - 1);
            self.sacks.copy_within(0..kept, 1);
            self.sacks[0] = (seq, end_seq);
            self.sacks_len = kept + 1;
        }
    }

    /// Extends the range at `place`, if it exists, without moving it. Linux: `tcp_sack_extend`.
    pub(super) fn extend_sack(&mut self, place: usize, seq: u32, end_seq: u32) {
        let Some(range) = self.sacks[..self.sacks_len].get_mut(place) else { return };
        if before(seq, range.0) {
            range.0 = seq;
        }
        if after(end_seq, range.1) {
            range.1 = end_seq;
        }
    }

    /// Returns the range's present or future place in the list. A range far down makes a held ACK
    /// leave first.
    pub(super) fn sack_place(&self, seq: u32, end_seq: u32) -> usize {
        let touches = |range: &(u32, u32)| !after(seq, range.1) && !before(end_seq, range.0);
        self.sacks[..self.sacks_len].iter().position(touches).unwrap_or(self.sacks_len)
    }

    /// Merges the ranges that touch the first range, which has grown. Linux:
    /// `tcp_sack_maybe_coalesce`.
    fn coalesce_sacks(&mut self) {
        let mut place = 1;
        while place < self.sacks_len {
            let (first, other) = (self.sacks[0], self.sacks[place]);
            if !after(first.0, other.1) && !before(first.1, other.0) {
                if before(other.0, first.0) {
                    self.sacks[0].0 = other.0;
                }
                if after(other.1, first.1) {
                    self.sacks[0].1 = other.1;
                }
                self.sacks.copy_within(place + 1..self.sacks_len, place);
                self.sacks_len -= 1;
            } else {
                place += 1;
            }
        }
    }

    /// Drops all data beyond the gap, because the stream has ended before it.
    pub(super) fn clear(&mut self) {
        self.ranges.clear();
        self.sacks_len = 0;
        self.dsack = None;
    }

    /// Removes the SACK ranges that are now in order. Linux: `tcp_sack_remove`.
    pub(super) fn remove_sacks(&mut self, rcv_nxt: u32) {
        if self.ranges.is_empty() {
            self.sacks_len = 0;
            return;
        }
        let mut kept = 0;
        for place in 0..self.sacks_len {
            if before(rcv_nxt, self.sacks[place].0) {
                self.sacks[kept] = self.sacks[place];
                kept += 1;
            }
        }
        self.sacks_len = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_newest_range_is_reported_first_and_three_fit() {
        let mut received = OutOfOrder::default();
        for (seq, end) in [(10, 20), (30, 40), (50, 60), (70, 80)] {
            received.insert(seq, end);
            received.note_sack(seq, end);
        }
        let mut blocks = [(0, 0); 3];
        assert_eq!(received.sack_blocks(&mut blocks), 3);
        assert_eq!(blocks, [(70, 80), (50, 60), (30, 40)]);
        // The gap between two ranges closes: they become one, in front.
        received.insert(40, 50);
        received.note_sack(40, 50);
        assert_eq!(received.sack_blocks(&mut blocks), 3);
        assert_eq!(blocks, [(30, 60), (70, 80), (10, 20)]);
    }

    #[test]
    fn a_segment_that_is_there_already_is_reported_as_duplicate() {
        let mut received = OutOfOrder::default();
        assert!(received.insert(10, 20));
        assert!(!received.insert(12, 18));
        let mut blocks = [(0, 0); 3];
        assert_eq!(received.sack_blocks(&mut blocks), 1);
        assert_eq!(blocks[0], (12, 18));
        assert_eq!(received.sack_blocks(&mut blocks), 0, "reported once");
    }

    #[test]
    fn a_segment_that_fills_a_hole_is_no_duplicate() {
        let dsack_of = |seq, end_seq| {
            let mut received = OutOfOrder::default();
            for (seq, end) in [(10, 20), (30, 40), (50, 60)] {
                received.insert(seq, end);
            }
            assert!(received.insert(seq, end_seq));
            received.dsack
        };
        // The range touches the left one, the right one, both, the last one, none, and the first
        // one.
        for (seq, end_seq) in [(20, 25), (25, 30), (20, 30), (60, 65), (44, 47), (0, 10)] {
            assert_eq!(dsack_of(seq, end_seq), None, "{seq}..{end_seq}");
        }
        assert_eq!(dsack_of(15, 25), Some((15, 20)));
        assert_eq!(dsack_of(20, 35), Some((30, 35)));
        assert_eq!(dsack_of(5, 12), Some((10, 12)));
        assert_eq!(dsack_of(25, 55), Some((30, 55)), "what lies between counts with them");
    }

    proptest! {
        #[test]
        fn ranges_beyond_the_gap_are_what_arrived(
            segments in prop::collection::vec((0u32..60, 1u32..6), 1..40),
            base in any::<u32>(),
        ) {
            let mut received = OutOfOrder::default();
            let mut model = std::collections::BTreeSet::new();
            for (at, len) in segments {
                received.insert(base.wrapping_add(at), base.wrapping_add(at + len));
                model.extend(at..at + len);
                let mut ours = std::collections::BTreeSet::new();
                let mut previous_end = None;
                for &(start, end) in &received.ranges {
                    let (start, end) = (start.wrapping_sub(base), end.wrapping_sub(base));
                    prop_assert!(previous_end.is_none_or(|previous| previous < start));
                    previous_end = Some(end);
                    ours.extend(start..end);
                }
                prop_assert_eq!(&ours, &model);
            }
        }
    }
}
