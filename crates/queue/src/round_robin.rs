//! Weighted round robin with a balance per member, as in deficit round robin.
//!
//! Members with packets stand in a row. The first may send while its balance is above 0, and pays after sending, so packet
//! lengths need not be known in advance; an overdraft reduces its next turn:
//!
//! ```text
//! at the head with balance > 0:   send a packet, balance -= cost
//! at the head with balance <= 0:  balance += quantum, to the end of the row
//! ```
//!
//! While two members always have packets, their payments have the ratio of their quanta, to within a quantum and a packet
//! each (Shreedhar and Varghese 1996, in the form of Linux's `fq_codel`).

use std::collections::VecDeque;

/// Members with packets, in the order of service; Linux `sch_drr` does the same.
#[derive(Clone, Debug)]
pub(crate) struct RoundRobin {
    row: VecDeque<u32>,
    members: Vec<Member>,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    quantum: i64,
    balance: i64,
    /// The member has packets.
    stands: bool,
    /// Held: the member may not send and is out of the row, although it has packets.
    held: bool,
}

impl RoundRobin {
    /// An empty row for as many members as there are quanta, each above 0.
    pub(crate) fn new(quanta: impl Iterator<Item = u64>) -> RoundRobin {
        let member = |quantum: u64| Member {
            quantum: quantum.clamp(1, 1 << 40) as i64,
            balance: 0,
            stands: false,
            held: false,
        };
        RoundRobin { row: VecDeque::new(), members: quanta.map(member).collect() }
    }

    /// The member has packets: it joins the end of the row with a full quantum, unless it is in the row.
    pub(crate) fn join(&mut self, index: usize) {
        let member = &mut self.members[index];
        if !member.stands {
            member.stands = true;
            member.balance = member.quantum;
            if !member.held {
                self.row.push_back(index as u32);
            }
        }
    }

    /// Holds or releases the member: held, it leaves the row; released, it joins the end with its old balance.
    pub(crate) fn hold(&mut self, index: usize, held: bool) {
        let member = &mut self.members[index];
        if std::mem::replace(&mut member.held, held) == held || !member.stands {
            return;
        }
        if held {
            self.row.retain(|other| *other != index as u32);
        } else {
            self.row.push_back(index as u32);
        }
    }

    /// The member to serve next; `None`: the row is empty.
    pub(crate) fn head(&mut self) -> Option<usize> {
        loop {
            let index = *self.row.front()? as usize;
            let member = &mut self.members[index];
            if member.balance > 0 {
                return Some(index);
            }
            member.balance += member.quantum;
            self.row.rotate_left(1);
        }
    }

    /// The head has sent something of this cost.
    pub(crate) fn pay(&mut self, index: usize, cost: u32) {
        self.members[index].balance -= i64::from(cost);
    }

    /// The head has nothing more to send: it leaves, with neither credit nor debt.
    pub(crate) fn leave(&mut self, index: usize) {
        debug_assert_eq!(self.row.front(), Some(&(index as u32)), "only the head leaves");
        self.members[index].stands = false;
        self.row.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Members served in `count` turns; each member always has packets of its entry of `costs`.
    fn turns(quanta: &[u64], costs: &[u32], count: usize) -> Vec<usize> {
        let mut row = RoundRobin::new(quanta.iter().copied());
        (0..quanta.len()).for_each(|index| row.join(index));
        let mut turn = || {
            let index = row.head().unwrap();
            row.pay(index, costs[index]);
            index
        };
        (0..count).map(|_| turn()).collect()
    }

    #[test]
    fn equal_quanta_of_one_packet_alternate() {
        assert_eq!(turns(&[1, 1], &[1, 1], 6), [0, 1, 0, 1, 0, 1]);
        assert_eq!(turns(&[2, 1], &[1, 1], 6), [0, 0, 1, 0, 0, 1]);
    }

    #[test]
    fn what_is_overdrawn_is_missing_at_the_next_turn() {
        // Quantum 1500 each; packets of 1000 against 1500. The first sends two (balance -500), then one (1000, then 0).
        assert_eq!(turns(&[1500, 1500], &[1000, 1500], 5), [0, 0, 1, 0, 1]);
        // 3000 bytes of each.
        assert_eq!(turns(&[1500, 1500], &[1000, 1500], 10), [0, 0, 1, 0, 1, 0, 0, 1, 0, 1]);
    }

    #[test]
    fn a_packet_of_many_quanta_waits_for_as_many_rounds() {
        // 300 bytes at 100 a round: after the first packet the balance is -200, and 100 again after three rounds.
        assert_eq!(turns(&[100, 100], &[300, 100], 8), [0, 1, 1, 1, 0, 1, 1, 1]);
    }

    #[test]
    fn who_leaves_comes_back_at_the_end_with_a_full_quantum() {
        let mut row = RoundRobin::new([1, 1].into_iter());
        row.join(0);
        row.join(1);
        assert_eq!(row.head(), Some(0));
        row.pay(0, 1);
        row.leave(0);
        row.join(0);
        row.join(0);
        assert_eq!(row.head(), Some(1));
        row.pay(1, 1);
        row.leave(1);
        assert_eq!(row.head(), Some(0));
        row.leave(0);
        assert_eq!(row.head(), None);
    }

    #[test]
    fn who_is_held_keeps_its_balance_and_comes_back_at_the_end() {
        let mut row = RoundRobin::new([2, 2, 2].into_iter());
        (0..3).for_each(|index| row.join(index));
        let turns = |row: &mut RoundRobin, count: usize| -> Vec<Option<usize>> {
            let mut turn = || row.head().inspect(|index| row.pay(*index, 1));
            (0..count).map(|_| turn()).collect()
        };
        assert_eq!(turns(&mut row, 1), [Some(0)]);
        row.hold(0, true);
        row.hold(0, true);
        row.join(0);
        assert_eq!(turns(&mut row, 5), [1, 1, 2, 2, 1].map(Some));
        row.hold(0, false);
        // What is left of its turn is one.
        assert_eq!(turns(&mut row, 6), [1, 2, 2, 0, 1, 1].map(Some));
        (0..3).for_each(|index| row.hold(index, true));
        assert_eq!(row.head(), None);
    }

    #[test]
    fn who_joins_while_it_is_held_has_a_full_quantum_afterwards() {
        let mut row = RoundRobin::new([1, 1].into_iter());
        row.hold(0, true);
        row.join(0);
        assert_eq!(row.head(), None);
        row.hold(0, false);
        assert_eq!(row.head(), Some(0));
    }
}
