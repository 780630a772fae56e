//! Segments sent and not cumulatively acknowledged, in order of sequence and in order of their last
//! transmission.

use super::seq::{after, before};
use knee_queue::time::Time;
use std::collections::VecDeque;

/// Marks of a [`Segment`].
pub(crate) mod mark {
    /// The segment is SACKed.
    pub(crate) const SACKED: u8 = 1;
    /// The segment was retransmitted, and the retransmission counts as in flight.
    pub(crate) const RETRANS: u8 = 2;
    /// The segment counts as lost.
    pub(crate) const LOST: u8 = 4;
    /// The segment was retransmitted at some time.
    pub(crate) const EVER_RETRANS: u8 = 8;
    /// The segment was sent while the application limited the flow.
    pub(crate) const APP_LIMITED: u8 = 16;
    /// The segment is the last of a write.
    pub(crate) const PSH: u8 = 32;
    /// The segment is in the list by send time.
    pub(crate) const BY_TIME: u8 = 64;
    /// The segment carries the FIN.
    pub(crate) const FIN: u8 = 128;
}

/// Names a segment while it is in the queue.
pub(crate) type SegmentId = u32;

const NONE: SegmentId = u32::MAX;

/// One segment of at most an MSS.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Segment {
    pub(crate) seq: u32,
    pub(crate) end_seq: u32,
    pub(crate) marks: u8,
    /// Time of the last transmission, us.
    pub(crate) sent_us: u64,
    /// When that transmission leaves the host's own queue; `Time::MAX`: not known yet.
    pub(crate) leaves_host: Time,
    /// State of the rate sampler at the last transmission.
    pub(crate) first_tx_us: u64,
    pub(crate) delivered_us: u64,
    pub(crate) delivered: u32,
    pub(crate) delivered_ce: u32,
    pub(crate) lost: u32,
    /// Packets in flight, including this one. Three bytes keep a segment within one cache line.
    in_flight: [u8; 3],
    /// Neighbours in the list by send time.
    older: SegmentId,
    newer: SegmentId,
}

impl Segment {
    pub(crate) fn new(seq: u32, end_seq: u32, marks: u8) -> Segment {
        Segment {
            seq,
            end_seq,
            marks,
            sent_us: 0,
            leaves_host: Time::ZERO,
            first_tx_us: 0,
            delivered_us: 0,
            delivered: 0,
            delivered_ce: 0,
            lost: 0,
            in_flight: [0; 3],
            older: NONE,
            newer: NONE,
        }
    }

    #[inline]
    pub(crate) fn payload_bytes(&self) -> u32 {
        self.end_seq.wrapping_sub(self.seq) - u32::from(self.has(mark::FIN))
    }

    #[inline]
    pub(crate) fn in_flight(&self) -> u32 {
        let [low, middle, high] = self.in_flight;
        u32::from_le_bytes([low, middle, high, 0])
    }

    /// Sets the packets in flight; 2^24 or more count as 2^24 - 1.
    #[inline]
    pub(crate) fn set_in_flight(&mut self, packets: u32) {
        let [low, middle, high, _] = packets.min(0xff_ffff).to_le_bytes();
        self.in_flight = [low, middle, high];
    }

    #[inline]
    pub(crate) fn has(&self, marks: u8) -> bool {
        self.marks & marks != 0
    }
}

const _: () = assert!(size_of::<Segment>() == 64);

#[derive(Debug)]
pub(crate) struct RtxQueue {
    segments: VecDeque<Segment>,
    /// Name of the first segment.
    first: SegmentId,
    oldest: SegmentId,
    newest: SegmentId,
}

impl Default for RtxQueue {
    fn default() -> RtxQueue {
        RtxQueue { segments: VecDeque::new(), first: 0, oldest: NONE, newest: NONE }
    }
}

impl RtxQueue {
    pub(crate) fn len(&self) -> usize {
        self.segments.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Frees memory that a large window needed.
    pub(crate) fn shrink(&mut self) {
        self.segments.shrink_to(32);
    }

    pub(crate) fn first_id(&self) -> SegmentId {
        self.first
    }

    /// Returns the name after the last segment.
    pub(crate) fn end_id(&self) -> SegmentId {
        self.first.wrapping_add(self.segments.len() as u32)
    }

    /// Reports whether a segment of this name is still in the queue.
    pub(crate) fn contains(&self, id: SegmentId) -> bool {
        (id.wrapping_sub(self.first) as usize) < self.segments.len()
    }

    #[inline]
    pub(crate) fn get(&self, id: SegmentId) -> &Segment {
        &self.segments[id.wrapping_sub(self.first) as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: SegmentId) -> &mut Segment {
        &mut self.segments[id.wrapping_sub(self.first) as usize]
    }

    /// Fetches the segments that the next ACK takes off, and the room for those that it lets leave.
    #[inline]
    pub(crate) fn fetch_ends(&self) {
        if let (Some(first), Some(last)) = (self.segments.front(), self.segments.back()) {
            knee_prefetch::fetch(first, 0..2);
            knee_prefetch::fetch(last, 0..3);
        }
    }

    pub(crate) fn front(&self) -> Option<&Segment> {
        self.segments.front()
    }

    /// Adds the newest segment, which is about to be sent.
    #[inline]
    pub(crate) fn push(&mut self, segment: Segment) -> SegmentId {
        let id = self.end_id();
        self.segments.push_back(segment);
        id
    }

    /// Removes the first segment, which was acknowledged.
    #[inline]
    pub(crate) fn pop_front(&mut self) {
        if self.segments.front().is_some_and(|segment| segment.has(mark::BY_TIME)) {
            self.unlink(self.first);
        }
        self.segments.pop_front();
        self.first = self.first.wrapping_add(1);
    }

    /// Removes the newest segment, which could not be sent.
    pub(crate) fn drop_last(&mut self) {
        if let Some(last) = self.segments.len().checked_sub(1) {
            self.unlink(self.first.wrapping_add(last as u32));
            self.segments.pop_back();
        }
    }

    /// Returns the segment that holds `seq`, or the first one after it; the end if there is none.
    pub(crate) fn find(&self, seq: u32) -> SegmentId {
        let place = self.segments.partition_point(|segment| !after(segment.end_seq, seq));
        self.first.wrapping_add(place as u32)
    }

    /// Returns the end of the names whose segments begin before `end_seq`.
    pub(crate) fn range_end(&self, end_seq: u32) -> SegmentId {
        let place = self.segments.partition_point(|segment| before(segment.seq, end_seq));
        self.first.wrapping_add(place as u32)
    }

    /// Returns the segment sent longest ago that RACK still watches.
    pub(crate) fn oldest(&self) -> Option<SegmentId> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    pub(crate) fn newer(&self, id: SegmentId) -> Option<SegmentId> {
        let newer = self.get(id).newer;
        (newer != NONE).then_some(newer)
    }

    /// Moves a segment that was just sent to the newest place.
    #[inline]
    pub(crate) fn move_to_newest(&mut self, id: SegmentId) {
        if self.get(id).has(mark::BY_TIME) {
            if self.newest == id {
                return;
            }
            self.unlink(id);
        }
        let newest = self.newest;
        let segment = self.get_mut(id);
        segment.older = newest;
        segment.newer = NONE;
        segment.marks |= mark::BY_TIME;
        if newest == NONE {
            self.oldest = id;
        } else {
            self.get_mut(newest).newer = id;
        }
        self.newest = id;
    }

    /// Removes a segment from the list that RACK checks.
    pub(crate) fn unlink(&mut self, id: SegmentId) {
        let segment = self.get_mut(id);
        if !segment.has(mark::BY_TIME) {
            return;
        }
        segment.marks &= !mark::BY_TIME;
        let (older, newer) = (segment.older, segment.newer);
        if older == NONE {
            self.oldest = newer;
        } else {
            self.get_mut(older).newer = newer;
        }
        if newer == NONE {
            self.newest = older;
        } else {
            self.get_mut(newer).older = older;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn queue(n: u32) -> RtxQueue {
        let mut queue = RtxQueue::default();
        for i in 0..n {
            let id = queue.push(Segment::new(i * 100, (i + 1) * 100, 0));
            queue.move_to_newest(id);
        }
        queue
    }

    fn by_time(queue: &RtxQueue) -> Vec<SegmentId> {
        let mut ids = Vec::new();
        let mut next = queue.oldest();
        while let Some(id) = next {
            ids.push(id);
            next = queue.newer(id);
        }
        ids
    }

    #[test]
    fn segments_are_found_by_sequence_number() {
        let mut queue = queue(5);
        queue.pop_front();
        assert_eq!(queue.find(100), 1);
        assert_eq!(queue.find(150), 1);
        assert_eq!(queue.find(200), 2);
        assert_eq!(queue.find(500), queue.end_id());
        assert_eq!(queue.range_end(300), 3);
    }

    proptest! {
        #[test]
        fn the_list_by_time_is_a_permutation_of_what_was_sent(
            steps in prop::collection::vec((0u8..3, 0u32..20), 0..60),
        ) {
            let mut queue = queue(20);
            let mut model: Vec<u32> = (0..20).collect();
            for (step, id) in steps {
                match step {
                    0 if queue.contains(id) => {
                        queue.move_to_newest(id);
                        model.retain(|other| *other != id);
                        model.push(id);
                    }
                    1 if queue.contains(id) => {
                        queue.unlink(id);
                        model.retain(|other| *other != id);
                    }
                    2 if !queue.is_empty() => {
                        let first = queue.first_id();
                        queue.pop_front();
                        model.retain(|other| *other != first);
                    }
                    _ => {}
                }
                prop_assert_eq!(by_time(&queue), model.clone());
            }
        }
    }
}
