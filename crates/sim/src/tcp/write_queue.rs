//! Where the skbs of unsent data end. What the congestion window permits is cut from the front one, and what is left of it is an skb by
//! itself.

use super::seq::{after, before};
use std::collections::VecDeque;

/// The skbs that wait to be sent. Hosts without TSO have skbs of one segment, which are not listed.
#[derive(Debug, Default)]
pub(super) struct WriteQueue(Option<Box<Skbs>>);

#[derive(Debug, Default)]
struct Skbs {
    /// Where each ends, in order.
    ends: VecDeque<u32>,
    /// First number of the skb that was sent last.
    newest_seq: Option<u32>,
    /// A write goes on, so nothing else adds data.
    is_filling: bool,
}

impl WriteQueue {
    /// Adds `bytes` written at `write_seq`: what the last skb lacks to `goal`, then new skbs of
    /// `goal` bytes. The first skb begins at `head_seq`. Linux: `tcp_sendmsg_locked`.
    pub(super) fn append(&mut self, head_seq: u32, write_seq: u32, bytes: u32, goal: u32) {
        let end = write_seq.wrapping_add(bytes);
        let mut filled = write_seq;
        let tail_bytes = self.tail_bytes(head_seq);
        let ends = &mut self.0.get_or_insert_default().ends;
        if let Some(tail) = ends.back_mut() {
            filled = filled.wrapping_add(goal.saturating_sub(tail_bytes).min(bytes));
            *tail = filled;
        }
        while before(filled, end) {
            filled = filled.wrapping_add(goal.min(end.wrapping_sub(filled)));
            ends.push_back(filled);
        }
    }

    pub(super) fn set_filling(&mut self, is_filling: bool) {
        self.0.get_or_insert_default().is_filling = is_filling;
    }

    pub(super) fn is_filling(&self) -> bool {
        self.0.as_ref().is_some_and(|skbs| skbs.is_filling)
    }

    fn ends(&self) -> Option<&VecDeque<u32>> {
        self.0.as_ref().map(|skbs| &skbs.ends)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends().is_none_or(VecDeque::is_empty)
    }

    /// Reports whether exactly one skb waits.
    pub(super) fn has_one(&self) -> bool {
        self.ends().is_some_and(|ends| ends.len() == 1)
    }

    /// Returns the length of the last skb, bytes; 0 if nothing waits.
    pub(super) fn tail_bytes(&self, head_seq: u32) -> u32 {
        let mut from_last = self.ends().into_iter().flat_map(|ends| ends.iter().rev());
        let Some(end) = from_last.next() else { return 0 };
        end.wrapping_sub(from_last.next().copied().unwrap_or(head_seq))
    }

    /// Returns the length of the first skb, bytes.
    #[inline]
    pub(super) fn head_bytes(&self, head_seq: u32) -> Option<u32> {
        self.ends()?.front().map(|end| end.wrapping_sub(head_seq))
    }

    /// Moves data of the second skb to the first until that has `bytes`. Linux: `tcp_grow_skb`
    /// (6.10).
    pub(super) fn grow_head(&mut self, head_seq: u32, bytes: u32) {
        let Some(Skbs { ends, .. }) = self.0.as_deref_mut() else { return };
        let (Some(&head), Some(&next)) = (ends.front(), ends.get(1)) else { return };
        let wanted = head_seq.wrapping_add(bytes);
        if !after(wanted, head) {
            return;
        }
        if before(wanted, next) {
            ends[0] = wanted;
        } else {
            ends.pop_front();
        }
    }

    /// Ends the first skb at `end`.
    pub(super) fn cut_head(&mut self, end: u32) {
        self.0.get_or_insert_default().ends.push_front(end);
    }

    /// Sends what is below `end`, as an skb that begins at `seq`.
    #[inline]
    pub(super) fn send(&mut self, seq: u32, end: u32) {
        let Some(skbs) = self.0.as_deref_mut() else { return };
        skbs.newest_seq = Some(seq);
        while skbs.ends.front().is_some_and(|head| !before(end, *head)) {
            skbs.ends.pop_front();
        }
    }

    /// Reports whether all that is unacknowledged, from `snd_una` on, is in the skb that was sent last.
    /// Linux: `tcp_rtx_queue_empty_or_single_skb`.
    pub(super) fn one_is_out(&self, snd_una: u32) -> bool {
        let newest = self.0.as_ref().and_then(|skbs| skbs.newest_seq);
        newest.is_some_and(|seq| !before(snd_una, seq))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(queue: &WriteQueue) -> Vec<u32> {
        queue.ends().into_iter().flatten().copied().collect()
    }

    #[test]
    fn a_write_fills_the_last_skb_first() {
        let mut queue = WriteQueue::default();
        queue.append(0, 0, 250, 100);
        assert_eq!(ends(&queue), [100, 200, 250]);
        queue.append(0, 250, 70, 100);
        assert_eq!(ends(&queue), [100, 200, 300, 320]);
        assert_eq!((queue.head_bytes(0), queue.tail_bytes(0)), (Some(100), 20));
        // A smaller goal changes nothing that is there.
        queue.append(0, 320, 25, 10);
        assert_eq!(ends(&queue), [100, 200, 300, 320, 330, 340, 345]);
    }

    #[test]
    fn what_is_left_of_an_skb_ends_where_it_ended() {
        let mut queue = WriteQueue::default();
        queue.append(0, 0, 200, 100);
        queue.send(0, 60);
        assert_eq!(queue.head_bytes(60), Some(40));
        queue.send(0, 100);
        assert_eq!(ends(&queue), [200]);
        // The rest of the last skb is filled again.
        queue.append(150, 200, 100, 100);
        assert_eq!(ends(&queue), [250, 300]);
    }

    #[test]
    fn the_head_grows_by_the_second_skb_alone() {
        let mut queue = WriteQueue::default();
        queue.append(0, 0, 300, 100);
        queue.grow_head(0, 150);
        assert_eq!(ends(&queue), [150, 200, 300]);
        queue.grow_head(0, 260);
        assert_eq!(ends(&queue), [200, 300]);
        queue.grow_head(0, 120);
        assert_eq!(ends(&queue), [200, 300]);
        queue.send(0, 200);
        queue.grow_head(200, 500);
        assert_eq!(ends(&queue), [300]);
    }

    #[test]
    fn numbers_wrap() {
        let mut queue = WriteQueue::default();
        let seq = u32::MAX - 49;
        queue.append(seq, seq, 150, 100);
        assert_eq!(ends(&queue), [50, 100]);
        queue.send(0, seq.wrapping_add(10));
        assert_eq!(queue.head_bytes(seq.wrapping_add(10)), Some(90));
    }
}
