//! Timed events of a traffic program.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

/// Action at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// `connect()` of a flow.
    Start(usize),
    FirstWrite(usize),
    /// The next request of a pool arrives.
    Request(usize),
    /// Stop of a flow at its `stop_ns`.
    Stop(usize),
    /// The next packet of a stream of pings.
    Ping(usize),
    /// Sample of `TCP_INFO`.
    SampleFlows,
    SampleGoodput,
    SampleQueues,
    WindowEnd,
    End,
}

impl Event {
    /// Whether results depend on its being on time; the others note when they were.
    fn is_urgent(self) -> bool {
        matches!(self, Event::Start(_) | Event::FirstWrite(_) | Event::Request(_))
    }
}

/// Events by time, in ns. Events at the same time happen in the order of [`EventQueue::push`]; the end of the run comes last.
#[derive(Default)]
pub(crate) struct EventQueue {
    heap: BinaryHeap<Reverse<(u64, u64, Event)>>,
    pushed: u64,
}

impl EventQueue {
    pub(crate) fn push(&mut self, at_ns: u64, event: Event) {
        self.pushed += 1;
        let order = if event == Event::End { u64::MAX } else { self.pushed };
        self.heap.push(Reverse((at_ns, order, event)));
    }

    /// Time of the next event, and whether it is urgent; `u64::MAX` if there is none.
    pub(crate) fn next(&self) -> (u64, bool) {
        let next = self.heap.peek();
        next.map_or((u64::MAX, false), |Reverse((at_ns, _, event))| (*at_ns, event.is_urgent()))
    }

    /// Removes and returns the next event that is due by now, with its time.
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
    fn events_come_by_time_then_by_push_and_the_end_is_last() {
        let mut queue = EventQueue::default();
        for (at_ns, event) in
            [(20, Event::End), (20, Event::Ping(0)), (10, Event::Stop(1)), (20, Event::Start(3))]
        {
            queue.push(at_ns, event);
        }
        assert_eq!((queue.next(), queue.pop(9)), ((10, false), None));
        let all: Vec<_> = core::iter::from_fn(|| queue.pop(20)).collect();
        let wanted =
            [(10, Event::Stop(1)), (20, Event::Ping(0)), (20, Event::Start(3)), (20, Event::End)];
        assert_eq!(all, wanted);
        assert_eq!(queue.next(), (u64::MAX, false));
    }
}
