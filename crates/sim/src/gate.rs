//! Pauses at the sender of a link: what the link may not send, and until when.

use knee_queue::time::{Duration, Time};
use knee_queue::{AnyQdisc, Packet, Qdisc};
use knee_run::outcome::PauseOutcome;

/// One gate, closed for the length of a pause.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gate {
    since: Time,
    until: Time,
    /// Total time of earlier pauses.
    total: Duration,
    frames: u64,
}

impl Gate {
    fn is_closed(&self, now: Time) -> bool {
        self.until > now
    }

    /// Applies a pause frame. A frame with time 0 opens the gate.
    fn close(&mut self, now: Time, time: Duration) {
        if !self.is_closed(now) {
            self.total = self.total + self.until.since(self.since);
            self.since = now;
        }
        self.until = now + time;
        self.frames += u64::from(time > Duration::ZERO);
    }

    /// Returns the pause frames received and the time closed.
    fn figures(&self, now: Time) -> PauseOutcome {
        let paused = self.total + self.until.min(now).since(self.since);
        PauseOutcome { frames: self.frames, paused }
    }
}

/// The gate of one class.
#[derive(Clone, Debug)]
pub(crate) struct ClassGate {
    /// Number of the class in the link's queue.
    class: usize,
    gate: Gate,
    /// Whether the queue holds the class.
    is_held: bool,
}

/// The gates of a link.
#[derive(Clone, Debug)]
pub(crate) enum Gates {
    /// Nothing stops the link.
    None,
    /// A pause stops the whole link.
    Link(Gate),
    /// A pause stops one class; the gates are in the order of priorities.
    Classes(Vec<ClassGate>),
}

impl Gates {
    /// Creates one gate for the whole link.
    pub(crate) fn of_link() -> Gates {
        Gates::Link(Gate::default())
    }

    /// Creates one gate for each of these classes of the queue, in the order of priorities.
    pub(crate) fn of_classes(classes: Vec<usize>) -> Gates {
        let gate = |class| ClassGate { class, gate: Gate::default(), is_held: false };
        Gates::Classes(classes.into_iter().map(gate).collect())
    }

    /// Applies a pause frame to the gate of a priority, for this time.
    pub(crate) fn close(&mut self, priority: u8, now: Time, time: Duration) {
        match self {
            Gates::None => {}
            Gates::Link(gate) => gate.close(now, time),
            Gates::Classes(gates) => {
                if let Some(at) = gates.get_mut(usize::from(priority)) {
                    at.gate.close(now, time);
                }
            }
        }
    }

    /// Makes the queue hold the classes whose gates are closed. Returns whether the whole link is
    /// stopped.
    pub(crate) fn apply<P: Packet>(&mut self, queue: &mut AnyQdisc<P>, now: Time) -> bool {
        match self {
            Gates::None => false,
            Gates::Link(gate) => gate.is_closed(now),
            Gates::Classes(gates) => {
                let Some(classes) = queue.classes_mut() else { return false };
                for at in gates {
                    let is_closed = at.gate.is_closed(now);
                    if is_closed != at.is_held {
                        classes.hold(at.class, is_closed);
                        at.is_held = is_closed;
                    }
                }
                false
            }
        }
    }

    /// Makes the queue hold nothing, until gates are applied again.
    pub(crate) fn let_go<P: Packet>(&mut self, queue: &mut AnyQdisc<P>) {
        let (Gates::Classes(gates), Some(classes)) = (self, queue.classes_mut()) else { return };
        for at in gates {
            classes.hold(at.class, false);
            at.is_held = false;
        }
    }

    /// Returns the time from which these gates let a waiting packet leave; `None` if no packet
    /// waits.
    pub(crate) fn opens<P: Packet>(&self, queue: &AnyQdisc<P>) -> Option<Time> {
        if queue.len_pkts() == 0 {
            return None;
        }
        match (self, queue) {
            (Gates::Link(gate), _) => Some(gate.until),
            (Gates::Classes(gates), AnyQdisc::Classes(classes)) if !classes.has_sendable() => {
                gates.iter().filter(|at| at.is_held).map(|at| at.gate.until).min()
            }
            _ => Some(Time::ZERO),
        }
    }

    /// Returns the figures of the link; `None` if pauses stop single classes.
    pub(crate) fn link_figures(&self, now: Time) -> Option<PauseOutcome> {
        if let Gates::Link(gate) = self { Some(gate.figures(now)) } else { None }
    }

    /// Returns the figures of a class, if pauses can stop that class.
    pub(crate) fn class_figures(&self, class: usize, now: Time) -> Option<PauseOutcome> {
        let Gates::Classes(gates) = self else { return None };
        let at = gates.iter().find(|at| at.class == class)?;
        Some(at.gate.figures(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_counts_the_time_that_it_is_closed_once() {
        let us = Duration::from_us;
        let at = Time::from_us;
        let figures = |gate: &Gate, us| {
            let figures = gate.figures(at(us));
            (figures.frames, figures.paused)
        };
        let mut gate = Gate::default();
        gate.close(at(10), us(100));
        assert!(gate.is_closed(at(109)) && !gate.is_closed(at(110)));
        // The pause is refreshed, then opened, then opened again (no effect), then closed until it
        // expires.
        gate.close(at(60), us(100));
        assert_eq!(figures(&gate, 70), (2, us(60)));
        gate.close(at(80), Duration::ZERO);
        gate.close(at(90), Duration::ZERO);
        gate.close(at(200), us(50));
        assert_eq!(figures(&gate, 1_000), (3, us(70 + 50)));
    }
}
