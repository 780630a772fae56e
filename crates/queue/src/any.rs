//! Any discipline or policy by value: a port holds one without a box or a virtual call.

use crate::classes::Classes;
use crate::codel::CodelQueue;
use crate::droptail::DropTail;
use crate::dualpi2::DualPi2;
use crate::fifo::Fifo;
use crate::fq_codel::FqCodel;
use crate::packet::{Ecn, Packet};
use crate::pie::Pie;
use crate::policer::Policer;
use crate::qdisc::{Admission, Departure, Inside, Part, Qdisc, QueueAction, Stats};
use crate::red::Red;
use crate::share::Share;
use crate::step::Step;
use crate::time::Time;
use crate::trim::Trim;
use knee_units::Backlog;

/// Any queue discipline; see [`QueueConfig::build`](crate::QueueConfig::build).
#[derive(Clone, Debug)]
pub enum AnyQdisc<P> {
    DropTail(Fifo<DropTail, P>),
    Step(Fifo<Step, P>),
    Pie(Fifo<Pie, P>),
    /// Marking of a share.
    Share(Fifo<Share, P>),
    /// Drop of what exceeds a token bucket.
    Policer(Fifo<Policer, P>),
    Red(Box<Fifo<Red, P>>),
    Codel(CodelQueue<P>),
    FqCodel(FqCodel<P>),
    DualPi2(DualPi2<P>),
    /// Several queues behind one another or in turn: classes, or the two buffers of a port.
    Classes(Box<Classes<P>>),
    /// Headers of what finds no room.
    Trim(Box<Trim<P>>),
}

/// Runs `$call` on whichever discipline `$any` holds.
macro_rules! each_qdisc {
    ($any:expr, $qdisc:ident => $call:expr) => {
        match $any {
            AnyQdisc::DropTail($qdisc) => $call,
            AnyQdisc::Step($qdisc) => $call,
            AnyQdisc::Pie($qdisc) => $call,
            AnyQdisc::Share($qdisc) => $call,
            AnyQdisc::Policer($qdisc) => $call,
            AnyQdisc::Red($qdisc) => $call,
            AnyQdisc::Codel($qdisc) => $call,
            AnyQdisc::FqCodel($qdisc) => $call,
            AnyQdisc::DualPi2($qdisc) => $call,
            AnyQdisc::Classes($qdisc) => $call,
            AnyQdisc::Trim($qdisc) => $call,
        }
    };
}

impl<P: Packet> AnyQdisc<P> {
    /// The queues of which it consists, if it does, so that some of them can be held.
    pub fn classes_mut(&mut self) -> Option<&mut Classes<P>> {
        if let AnyQdisc::Classes(classes) = self { Some(classes) } else { None }
    }
}

impl<P: Packet> Qdisc<P> for AnyQdisc<P> {
    fn enqueue(&mut self, pkt: P, now: Time) -> QueueAction {
        each_qdisc!(self, qdisc => qdisc.enqueue(pkt, now))
    }
    fn dequeue(&mut self, now: Time) -> Option<P> {
        each_qdisc!(self, qdisc => qdisc.dequeue(now))
    }
    fn peek(&mut self, now: Time) -> Option<u32> {
        each_qdisc!(self, qdisc => qdisc.peek(now))
    }
    fn refuse(&mut self, len_bytes: u32) -> QueueAction {
        each_qdisc!(self, qdisc => qdisc.refuse(len_bytes))
    }
    fn next_event(&self, now: Time) -> Option<Time> {
        each_qdisc!(self, qdisc => qdisc.next_event(now))
    }
    fn tick(&mut self, now: Time) {
        each_qdisc!(self, qdisc => qdisc.tick(now))
    }
    fn len_pkts(&self) -> u32 {
        each_qdisc!(self, qdisc => qdisc.len_pkts())
    }
    fn len_bytes(&self) -> u64 {
        each_qdisc!(self, qdisc => qdisc.len_bytes())
    }
    fn stats(&self) -> &Stats {
        each_qdisc!(self, qdisc => qdisc.stats())
    }
    fn inside(&self) -> Option<Inside> {
        each_qdisc!(self, qdisc => qdisc.inside())
    }
    fn part(&self, index: usize) -> Option<Part> {
        each_qdisc!(self, qdisc => qdisc.part(index))
    }
}

/// Any policy that decides at arrival only; see [`QueueConfig::admission`](crate::QueueConfig::admission).
///
/// Its tag stands for itself: one hidden in a field takes ten instructions to read, for every packet of every link.
#[derive(Clone, Debug)]
#[repr(u8)]
pub enum AnyAdmission {
    DropTail(DropTail),
    /// Step marking at enqueue.
    Step(Step),
    /// Marking of a share.
    Share(Share),
}

impl Admission for AnyAdmission {
    #[inline]
    fn admit(&mut self, backlog: Backlog, len_bytes: u32, ecn: Ecn, now: Time) -> QueueAction {
        match self {
            AnyAdmission::DropTail(policy) => policy.admit(backlog, len_bytes, ecn, now),
            AnyAdmission::Step(policy) => policy.admit(backlog, len_bytes, ecn, now),
            AnyAdmission::Share(policy) => policy.admit(backlog, len_bytes, ecn, now),
        }
    }

    #[inline]
    fn release(&mut self, departure: Departure, now: Time) -> QueueAction {
        match self {
            AnyAdmission::DropTail(policy) => policy.release(departure, now),
            AnyAdmission::Step(policy) => policy.release(departure, now),
            AnyAdmission::Share(policy) => policy.release(departure, now),
        }
    }

    fn threshold_hits(&self) -> u64 {
        match self {
            AnyAdmission::DropTail(policy) => policy.threshold_hits(),
            AnyAdmission::Step(policy) => policy.threshold_hits(),
            AnyAdmission::Share(policy) => policy.threshold_hits(),
        }
    }
}
