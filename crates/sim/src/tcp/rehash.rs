//! Changes of a socket's transmit hash, and so of the path of what it sends from now on. Packets that
//! are on the old path may arrive later than those behind them.

use super::Sock;
use crate::net::Net;

impl Sock {
    /// Only IPv6 has a label in which switches see the change.
    fn rehash(&mut self, net: &mut Net) {
        if self.host.config.ipv6 {
            self.path = net.another_path(self.path);
        }
    }

    /// The retransmission timer has run out: perhaps the path is broken.
    pub(super) fn rehash_at_timeout(&mut self, net: &mut Net) {
        self.counters.timeout_rehashes += 1;
        self.rehash(net);
    }

    /// Data came that was there already, all of it. When it is the same a second time, the sender has
    /// not heard of the first: perhaps the path back is broken.
    pub(super) fn on_duplicate(&mut self, seq: u32, end_seq: u32, net: &mut Net) {
        let again = self.receiver.out_of_order.last_duplicate() == Some(seq);
        self.receiver.out_of_order.note_duplicate(seq, end_seq);
        if again && self.receiver.peer_sack {
            self.counters.duplicate_rehashes += 1;
            self.rehash(net);
        }
    }

    /// The algorithm may have asked for another path in the call before, or to reduce cwnd.
    #[inline]
    pub(super) fn do_what_was_asked(&mut self, net: &mut Net) {
        if net.cc.asks_sender() {
            self.do_it(net);
        }
    }

    #[cold]
    fn do_it(&mut self, net: &mut Net) {
        if net.cc.take_asked_cwr() {
            self.enter_cwr(net);
        }
        if net.cc.asked_rehashes() > 0 {
            self.counters.plb_rehashes += u64::from(net.cc.take_asked_rehashes());
            self.rehash(net);
        }
    }
}
