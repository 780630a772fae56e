//! Messages on connections: written when their time comes, done when they are read whole.

use knee_run::outcome::MessageRecord;
use knee_run::turns::Due;

use crate::events::Event;
use crate::sim::{Simulation, client_of};
use knee_queue::time::Time;

impl Simulation<'_> {
    /// Whether the flow's application writes messages.
    pub(crate) fn carries_messages(&self, flow: usize) -> bool {
        self.turns.as_ref().is_some_and(|turns| turns.carries_messages(flow))
    }

    /// Bytes until the end of the message that the flow's receiver waits for.
    pub(crate) fn left_of_message(&self, flow: usize) -> Option<u64> {
        self.turns.as_ref()?.left_of_message(flow)
    }

    /// Schedules the messages that wait for no other.
    pub(crate) fn begin_messages(&mut self) {
        let first = self.turns.as_mut().map(|turns| turns.first_messages());
        self.schedule_messages(&first.unwrap_or_default());
    }

    fn schedule_messages(&mut self, all: &[Due]) {
        for due in all {
            let at = Time::from_ps(due.at);
            self.net.events.push(at, Event::App { flow: due.flow });
        }
    }

    /// Writes the messages whose time has come.
    pub(crate) fn write_messages(&mut self, flow: usize) {
        let now = self.net.now;
        while let Some((due, bytes)) =
            self.turns.as_mut().and_then(|turns| turns.next_message(flow, now))
        {
            self.message_starts[due.task as usize] = Time::from_ps(due.at);
            self.socks[client_of(flow)].write(bytes, &mut self.net);
        }
    }

    /// The flow's receiver has read: records the messages that are whole, and schedules those that waited for them.
    pub(crate) fn on_messages(&mut self, flow: usize, read: u64) {
        let now = self.net.now;
        let Some(turns) = &mut self.turns else { return };
        for task in turns.on_read(flow, read) {
            let start = self.message_starts[task as usize];
            self.outcome.messages.push(MessageRecord { task, start, done: now });
            let Some(turns) = &mut self.turns else { return };
            let next = turns.on_message(task, now);
            self.schedule_messages(&next);
        }
    }
}
