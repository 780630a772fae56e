//! What a traffic program is to do when.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// `connect()` of a flow.
    Start(usize),
    FirstWrite(usize),
    /// Its end, as asked.
    Stop(usize),
    /// The next packet of a stream of pings.
    Ping(usize),
    /// `TCP_INFO`.
    SampleFlows,
    SampleGoodput,
    SampleQueues,
    /// An end of the measured window.
    WindowEnd,
    /// The end of the run.
    End,
}

impl Event {
    /// Whether results depend on its being on time; the others note when they were.
    fn is_urgent(self) -> bool {
        matches!(self, Event::Start(_) | Event::FirstWrite(_))
    }
}

/// Events by time, in ns. Of those at the same time the first that was asked for is first, and the end of the run last.
#[derive(Default)]
pub(crate) struct Due {
    heap: BinaryHeap<Reverse<(u64, u64, Event)>>,
    asked: u64,
}

impl Due {
    pub(crate) fn push(&mut self, at_ns: u64, event: Event) {
        self.asked += 1;
        let order = if event == Event::End { u64::MAX } else { self.asked };
        self.heap.push(Reverse((at_ns, order, event)));
    }

    /// When the next is due, and whether it must be on time. Without any it is later than any run.
    pub(crate) fn next(&self) -> (u64, bool) {
        let next = self.heap.peek();
        next.map_or((u64::MAX, false), |Reverse((at_ns, _, event))| (*at_ns, event.is_urgent()))
    }

    /// The next that is due by now, and when it was.
    pub(crate) fn pop(&mut self, now_ns: u64) -> Option<(u64, Event)> {
        if self.next().0 > now_ns {
            return None;
        }
        self.heap.pop().map(|Reverse((at_ns, _, event))| (at_ns, event))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn events_come_in_the_order_of_their_times_and_of_asking_and_the_end_is_last() {
        let mut due = Due::default();
        for (at_ns, event) in
            [(20, Event::End), (20, Event::Ping(0)), (10, Event::Stop(1)), (20, Event::Start(3))]
        {
            due.push(at_ns, event);
        }
        assert_eq!((due.next(), due.pop(9)), ((10, false), None));
        let all: Vec<_> = core::iter::from_fn(|| due.pop(20)).collect();
        let wanted =
            [(10, Event::Stop(1)), (20, Event::Ping(0)), (20, Event::Start(3)), (20, Event::End)];
        assert_eq!(all, wanted);
        assert_eq!(due.next(), (u64::MAX, false));
    }
}
