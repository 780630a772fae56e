//! A port with two buffers: each input of the switch is wired to one of them, and the port takes from both in turn.
//!
//! Who shares a buffer with others shares its half of the port with them: of three senders with two on the one buffer, these
//! get a quarter each and the third gets half, whatever their congestion control does.

use crate::classes::{ClassService, Classes, Parts, Price, Selector};
use crate::config::QueueConfig;
use crate::droptail::DropTailConfig;
use crate::packet::Packet;
use crate::settings::{PortProperties, Settings};
use crate::time::{Duration, Rate};
use knee_units::Limit;
use knee_units::settings::{Setting, Visit, key};

/// Unit of the alternation between the two buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Alternate {
    /// One packet from each buffer in turn.
    #[default]
    Packets,
    /// The same number of bytes from each, in the long run.
    Bytes,
}

/// Scope of limits and thresholds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LimitPer {
    /// Each buffer has the queue that the settings say.
    #[default]
    Buffer,
    /// One limit and one threshold for the backlog of both buffers.
    Port,
}

/// Settings of a port with two buffers.
#[derive(Clone, Debug, PartialEq)]
pub struct TwoBuffersConfig {
    /// Inputs of the second buffer, as [`Packet::input`] counts them; all else is the first one's.
    pub second: Vec<u32>,
    /// The same inputs, by the names of the hosts and switches at their other ends.
    pub second_names: Vec<String>,
    /// The discipline of each buffer, or of both together.
    pub queue: Box<QueueConfig>,
    pub alternate: Alternate,
    pub limit_per: LimitPer,
}

impl Settings for TwoBuffersConfig {
    fn kind(&self) -> &'static str {
        "two-buffers"
    }

    fn at(place: PortProperties) -> TwoBuffersConfig {
        TwoBuffersConfig {
            second: Vec::new(),
            second_names: Vec::new(),
            queue: Box::new(QueueConfig::DropTail(DropTailConfig::at(place))),
            alternate: Alternate::Packets,
            limit_per: LimitPer::Buffer,
        }
    }

    fn fields(&mut self, v: &mut dyn Visit) {
        v.key(
            key("second", "Inputs of the second buffer: hosts and switches.").needed("s3"),
            Setting::Names(&mut self.second_names),
        );
        let alternate = [("packets", Alternate::Packets), ("bytes", Alternate::Bytes)];
        v.word(key("alternate", "Alternate by packets or bytes."), &mut self.alternate, &alternate);
        let limit_per = [("buffer", LimitPer::Buffer), ("port", LimitPer::Port)];
        v.word(
            key("limit_per", "Limit per buffer, or of both together."),
            &mut self.limit_per,
            &limit_per,
        );
        v.key(key("queue", "Queue of each buffer.").needed("{ ... }"), Setting::Parts);
        if self.limit_per == LimitPer::Port && self.queue.admission().is_none() {
            v.refuse(
                "limit_per",
                "one limit for both buffers needs a queue that decides at arrival by the backlog: take droptail, share, or step at enqueue",
            );
        }
    }

    fn acts_at(&self, _rate: Rate) -> Option<Duration> {
        None
    }
}

impl TwoBuffersConfig {
    /// Names of the two buffers in results.
    pub const NAMES: [&str; 2] = ["first", "second"];
    /// Quantum of a buffer for turns by bytes: a full packet (deficit round robin).
    const QUANTUM_BYTES: u32 = 1514;

    pub(crate) fn build<P: Packet>(&self) -> Classes<P> {
        let unlimited = QueueConfig::DropTail(DropTailConfig { limit: Limit::UNLIMITED });
        let gate = match self.limit_per {
            LimitPer::Buffer => None,
            LimitPer::Port => self.queue.admission(),
        };
        let queue = if gate.is_some() { &unlimited } else { &*self.queue };
        let (price, quantum) = match self.alternate {
            Alternate::Packets => (Price::Packets, 1),
            Alternate::Bytes => (Price::Bytes, TwoBuffersConfig::QUANTUM_BYTES),
        };
        Classes::of_parts(Parts {
            queues: vec![(queue, ClassService::Weighted(1)); 2],
            selector: Selector::Inputs(self.second.clone()),
            gate,
            price,
            quantum,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Ecn;
    use crate::pie::PieConfig;
    use crate::qdisc::{DropReason, Qdisc, QueueAction};
    use crate::step::{MarkAt, MarkWhen, NotEctAbove, StepConfig};
    use crate::testing::{Pkt, full};
    use crate::time::Time;
    use knee_units::Threshold;

    fn config(queue: QueueConfig, limit_per: LimitPer) -> TwoBuffersConfig {
        let alternate = Alternate::Packets;
        let (second, second_names) = (vec![7, 9], Vec::new());
        TwoBuffersConfig { second, second_names, queue: Box::new(queue), alternate, limit_per }
    }

    fn droptail(pkts: u32) -> QueueConfig {
        QueueConfig::DropTail(DropTailConfig { limit: Limit::Pkts(pkts) })
    }

    fn by(input: u32, id: u64) -> Pkt {
        Pkt { input: Some(input), ..full(id, Ecn::Ect0) }
    }

    #[test]
    fn two_inputs_on_one_buffer_get_a_quarter_each() {
        let mut queue = config(droptail(500), LimitPer::Buffer).build();
        for round in 0..100 {
            for input in [1, 2, 7] {
                queue.enqueue(by(input, 10 * round + u64::from(input)), Time::ZERO);
            }
        }
        let sent: Vec<u64> = (0..100).map(|_| queue.dequeue(Time::ZERO).unwrap().id % 10).collect();
        let of = |input| sent.iter().filter(|of| **of == input).count();
        assert_eq!([of(1), of(2), of(7)], [25, 25, 50]);
        assert_eq!(sent[..4], [1, 7, 2, 7], "one from each buffer in turn");
    }

    #[test]
    fn who_is_alone_has_the_port() {
        let mut queue = config(droptail(500), LimitPer::Buffer).build();
        (0..3).for_each(|id| _ = queue.enqueue(by(1, id), Time::ZERO));
        let from_here = Pkt { input: None, ..full(3, Ecn::Ect0) };
        queue.enqueue(from_here, Time::ZERO);
        let ids: Vec<_> = std::iter::from_fn(|| queue.dequeue(Time::ZERO)).map(|p| p.id).collect();
        assert_eq!(ids, [0, 1, 2, 3]);
    }

    #[test]
    fn turns_of_bytes_give_short_packets_more_of_them() {
        let bytes = TwoBuffersConfig {
            alternate: Alternate::Bytes,
            ..config(droptail(900), LimitPer::Buffer)
        };
        let mut queue = bytes.build();
        for id in 0..300 {
            queue.enqueue(by(1, id), Time::ZERO);
            queue.enqueue(Pkt { len_bytes: 757, ..by(9, id) }, Time::ZERO);
        }
        let short =
            (0..300).filter(|_| queue.dequeue(Time::ZERO).unwrap().len_bytes == 757).count();
        // Two of 757 bytes for each of 1514.
        assert_eq!(short, 200);
    }

    #[test]
    fn a_limit_of_the_port_counts_both_buffers() {
        let step = QueueConfig::Step(StepConfig {
            limit: Limit::Pkts(4),
            threshold: Threshold::Pkts(2),
            mark_at: MarkAt::AtLeast,
            when: MarkWhen::Enqueue,
            not_ect: NotEctAbove::Queue,
        });
        let actions = |limit_per| {
            let mut queue = config(step.clone(), limit_per).build();
            let all: Vec<_> =
                [1, 7, 1, 7, 1].map(|input| queue.enqueue(by(input, 0), Time::ZERO)).to_vec();
            let marks = [0, 1].map(|part| queue.part(part).unwrap().stats.marked_pkts);
            let drops = [0, 1].map(|part| queue.part(part).unwrap().stats.dropped_full_pkts);
            (all, marks, drops, queue.stats().threshold_hits)
        };
        let (queued, marked) = (QueueAction::Queued, QueueAction::Marked);
        let full = QueueAction::Dropped(DropReason::Full);
        // Two in each buffer, the fifth is the third of its own.
        let per_buffer = vec![queued, queued, queued, queued, marked];
        assert_eq!(actions(LimitPer::Buffer), (per_buffer, [1, 0], [0, 0], 1));
        // The third and fourth find two and three, the fifth finds four.
        let per_port = vec![queued, queued, marked, marked, full];
        assert_eq!(actions(LimitPer::Port), (per_port, [1, 1], [1, 0], 3));
    }

    #[test]
    fn one_policy_for_both_must_decide_at_arrival() {
        let pie = || QueueConfig::Pie(PieConfig::default());
        let check = |limit_per| QueueConfig::TwoBuffers(config(pie(), limit_per)).validate();
        let error = check(LimitPer::Port).unwrap_err();
        let why = "one limit for both buffers needs a queue that decides at arrival by the backlog: take droptail, share, or step at enqueue";
        assert_eq!((error.key, error.to_string().as_str()), ("limit_per", why));
        assert_eq!(check(LimitPer::Buffer), Ok(()));
    }
}
