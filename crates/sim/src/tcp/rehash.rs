//! Changes of a socket's transmit hash, which move its later packets to another path. Packets on
//! the old path may arrive after later packets.

use super::Sock;
use crate::net::Net;

impl Sock {
    /// Only IPv6 has a flow label that shows the change to switches. Linux: `sk_rethink_txhash`.
    fn rehash(&mut self, net: &mut Net) {
        if self.host.config.ipv6 {
            self.path = net.another_path(self.path, self.id);
        }
    }

    /// Changes the hash when the retransmission timer expires, because the path may be broken.
    /// Linux: `tcp_write_timeout`.
    pub(super) fn rehash_at_timeout(&mut self, net: &mut Net) {
        self.counters.timeout_rehashes += 1;
        self.rehash(net);
    }

    /// Handles a segment without new data. If the same data comes a second time, the sender has not
    /// received our ACK, so the return path may be broken. Linux: `tcp_rcv_spurious_retrans`.
    pub(super) fn on_duplicate(&mut self, seq: u32, end_seq: u32, net: &mut Net) {
        let again = self.receiver.out_of_order.last_duplicate() == Some(seq);
        self.receiver.out_of_order.note_duplicate(seq, end_seq);
        if again && self.receiver.peer_sack {
            self.counters.duplicate_rehashes += 1;
            self.rehash(net);
        }
    }

    /// Does what the algorithm requested in the last call: another path, or a reduction of cwnd.
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
