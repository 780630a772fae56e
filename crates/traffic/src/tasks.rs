//! Messages and computations that wait for each other: which of them begin, and when.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use crate::Task;

/// A message that begins at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    pub task: u32,
    /// Index of the flow that carries it.
    pub flow: u32,
    /// When it begins.
    pub at: u64,
}

/// Progress of tasks during a run. Times are whole numbers of any unit.
///
/// A computation takes no event: its end is known when it begins.
pub struct TaskState {
    tasks: Vec<Begins>,
    /// Tasks before each one that are not done.
    waits_for: Vec<u32>,
    /// The end of the last task before each one, of those that are done.
    ready: Vec<u64>,
    /// The tasks after task i are `after[first_after[i]..first_after[i + 1]]`.
    after: Vec<u32>,
    first_after: Vec<u32>,
    flows: Vec<Carrier>,
}

/// A task as it begins.
struct Begins {
    flow: Option<u32>,
    bytes: u64,
    /// From the end of the last task before it until it begins.
    gap: u64,
}

/// Messages of a flow.
#[derive(Default)]
struct Carrier {
    has_messages: bool,
    opens_later: bool,
    written: u64,
    read: u64,
    /// Messages that are written and not read whole, with the number of the byte after each.
    under_way: VecDeque<(u64, u32)>,
}

impl TaskState {
    /// For this number of flows, with times of `per_ns` units in a ns. A task waits only for tasks before it in the list.
    pub fn new(tasks: &[Task], flows: usize, per_ns: u64) -> TaskState {
        let mut carriers: Vec<Carrier> = (0..flows).map(|_| Carrier::default()).collect();
        let mut first_after = vec![0u32; tasks.len() + 1];
        for task in tasks {
            task.after.iter().for_each(|before| first_after[*before as usize + 1] += 1);
            if let Some(carrier) = task.flow.and_then(|flow| carriers.get_mut(flow as usize)) {
                carrier.opens_later |= task.connects && !carrier.has_messages;
                carrier.has_messages = true;
            }
        }
        for at in 1..first_after.len() {
            first_after[at] += first_after[at - 1];
        }
        let begins = |task: &Task| Begins {
            flow: task.flow,
            bytes: task.bytes,
            gap: task.gap_ns.saturating_mul(per_ns),
        };
        let mut next = first_after.clone();
        let mut after = vec![0u32; first_after[tasks.len()] as usize];
        for (task, index) in tasks.iter().zip(0..) {
            for before in &task.after {
                let place = &mut next[*before as usize];
                after[*place as usize] = index;
                *place += 1;
            }
        }
        TaskState {
            waits_for: tasks.iter().map(|task| task.after.len() as u32).collect(),
            ready: vec![0; tasks.len()],
            tasks: tasks.iter().map(begins).collect(),
            after,
            first_after,
            flows: carriers,
        }
    }

    /// Whether a flow carries messages.
    pub fn carries(&self, flow: usize) -> bool {
        self.flows.get(flow).is_some_and(|carrier| carrier.has_messages)
    }

    /// Whether a flow connects when its first message may begin.
    pub fn opens_later(&self, flow: usize) -> bool {
        self.flows.get(flow).is_some_and(|carrier| carrier.opens_later)
    }

    /// The messages that wait for none, or for computations alone.
    pub fn first(&mut self) -> Vec<Due> {
        let first = (0..self.tasks.len() as u32).filter(|task| self.waits_for[*task as usize] == 0);
        let first: Vec<u32> = first.collect();
        let mut due = Vec::new();
        first.into_iter().for_each(|task| self.begin(task, &mut due));
        due
    }

    /// A message was written to its connection.
    pub fn on_write(&mut self, task: u32) {
        let Some(Begins { flow: Some(flow), bytes, .. }) = self.tasks.get(task as usize) else {
            return;
        };
        let Some(carrier) = self.flows.get_mut(*flow as usize) else { return };
        carrier.written += bytes;
        carrier.under_way.push_back((carrier.written, task));
    }

    /// Size of a message.
    pub fn bytes(&self, task: u32) -> u64 {
        self.tasks.get(task as usize).map_or(0, |task| task.bytes)
    }

    /// Bytes until the end of the first message that is not read whole; `None`: nothing is under way.
    pub fn left_of_message(&self, flow: usize) -> Option<u64> {
        let carrier = self.flows.get(flow)?;
        Some(carrier.under_way.front()?.0 - carrier.read)
    }

    /// The receiver of a flow has read this many bytes more: adds the messages that are whole by that.
    pub fn on_read(&mut self, flow: usize, bytes: u64, whole: &mut Vec<u32>) {
        let Some(carrier) = self.flows.get_mut(flow) else { return };
        carrier.read += bytes;
        while let Some(&(end, task)) = carrier.under_way.front() {
            if end > carrier.read {
                return;
            }
            carrier.under_way.pop_front();
            whole.push(task);
        }
    }

    /// A message is done: the messages that begin by that.
    pub fn on_done(&mut self, task: u32, at: u64) -> Vec<Due> {
        let mut due = Vec::new();
        let mut done = vec![(task, at)];
        while let Some((task, at)) = done.pop() {
            let [from, until] = [task, task + 1].map(|at| self.first_after[at as usize] as usize);
            for place in from..until {
                let next = self.after[place];
                let index = next as usize;
                self.ready[index] = self.ready[index].max(at);
                self.waits_for[index] -= 1;
                if self.waits_for[index] == 0 {
                    done.extend(self.begun(next, &mut due));
                }
            }
        }
        due
    }

    /// Nothing is left that this task waits for.
    fn begin(&mut self, task: u32, due: &mut Vec<Due>) {
        if let Some((task, at)) = self.begun(task, due) {
            due.append(&mut self.on_done(task, at));
        }
    }

    /// Adds a message to `due`, or returns a computation with the time at which it is done.
    fn begun(&self, index: u32, due: &mut Vec<Due>) -> Option<(u32, u64)> {
        let task = &self.tasks[index as usize];
        let at = self.ready[index as usize].saturating_add(task.gap);
        match task.flow {
            Some(flow) => due.push(Due { task: index, flow, at }),
            None => return Some((index, at)),
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(flow: u32, after: &[u32]) -> Task {
        Task { flow: Some(flow), bytes: 100, after: after.to_vec(), ..Task::default() }
    }

    fn computation(after: &[u32], gap_ns: u64) -> Task {
        Task { after: after.to_vec(), gap_ns, ..Task::default() }
    }

    #[test]
    fn a_message_begins_when_all_before_it_are_done_and_its_gap_has_passed() {
        let tasks = [
            message(0, &[]),
            message(1, &[]),
            computation(&[0], 50),
            Task { connects: true, gap_ns: 3, ..message(2, &[1, 2]) },
            message(0, &[2]),
        ];
        let mut state = TaskState::new(&tasks, 4, 1000);
        assert_eq!((state.carries(0), state.carries(3)), (true, false));
        assert_eq!((state.opens_later(0), state.opens_later(2)), (false, true));
        let due = |task, flow, at| Due { task, flow, at };
        assert_eq!(state.first(), [due(0, 0, 0), due(1, 1, 0)]);
        // The computation lasts until 60,000; message 3 waits for message 1, too.
        assert_eq!(state.on_done(0, 10_000), [due(4, 0, 60_000)]);
        // Message 1 is done before the computation is.
        assert_eq!(state.on_done(1, 20_000), [due(3, 2, 63_000)]);
    }

    #[test]
    fn computations_before_the_first_message_take_their_time() {
        let tasks = [computation(&[], 5), computation(&[0], 7), message(0, &[1])];
        let mut state = TaskState::new(&tasks, 1, 1);
        assert_eq!(state.first(), [Due { task: 2, flow: 0, at: 12 }]);
    }

    #[test]
    fn messages_of_a_connection_are_whole_in_the_order_of_writing() {
        let mut state = TaskState::new(&[message(0, &[]), message(0, &[])], 1, 1);
        assert_eq!(state.left_of_message(0), None);
        state.on_write(1);
        state.on_write(0);
        let mut read = |bytes| {
            let mut whole = Vec::new();
            state.on_read(0, bytes, &mut whole);
            (whole, state.left_of_message(0))
        };
        assert_eq!(read(99), (vec![], Some(1)));
        assert_eq!(read(2), (vec![1], Some(99)));
        assert_eq!(read(99), (vec![0], None));
    }
}
