//! Unread data, and what it takes of the receive buffer.

use super::super::Sock;
use super::Receiver;
use super::window::share;

impl Receiver {
    /// Returns the room for payload as Linux counts it: a share of the free buffer. Linux:
    /// `tcp_space`.
    pub(super) fn space(&self) -> u32 {
        share(self.rcvbuf.saturating_sub(self.used()), self.window_ratio)
    }

    /// Returns the memory charged for unread data: its bytes, and what each skb takes beside them.
    /// Linux: `sk_rmem_alloc`, `tcp_try_coalesce`.
    pub(super) fn used(&self) -> u32 {
        // Mostly nothing waits, and never on a pure sender, so divisions are skipped.
        if self.unread_bytes == 0 && self.out_of_order.is_empty() {
            return 0;
        }
        let runs = self.out_of_order.lens().chain([self.unread_bytes]);
        let (payload, skbs) = runs.fold((0_u32, 0_u32), |(payload, skbs), bytes| {
            (payload + bytes, skbs + bytes.div_ceil(self.most_skb_bytes()))
        });
        payload.saturating_add(skbs.saturating_mul(self.skb_overhead_bytes))
    }

    /// Returns the most bytes of full segments that one waiting skb holds.
    pub(super) fn most_skb_bytes(&self) -> u32 {
        u32::from(self.max_skb_frags) * self.advmss
    }

    /// Reports whether less than an eighth of the buffer is left. Linux: `tcp_rmem_pressure`.
    pub(super) fn is_pressed(&self) -> bool {
        self.used() > self.rcvbuf - (self.rcvbuf >> 3)
    }

    /// Takes bytes of the first skb. The sizes of those behind it are not kept: they count as full.
    pub(super) fn take(&mut self, bytes: u32) {
        self.unread_bytes -= bytes;
        self.first_skb_bytes -= bytes;
        if self.first_skb_bytes == 0 {
            self.first_skb_bytes = self.unread_bytes.min(self.most_skb_bytes());
        }
    }
}

impl Sock {
    /// Passes all data below `rcv_nxt` to the application, because it is in order. Linux:
    /// `tcp_rcv_nxt_update`.
    pub(super) fn received(&mut self, rcv_nxt: u32) {
        let new_bytes = rcv_nxt.wrapping_sub(self.tp.rcv_nxt);
        let receiver = &mut self.receiver;
        let joined = receiver.unread_bytes + new_bytes;
        if receiver.unread_bytes == 0
            || receiver.first_skb_bytes == receiver.unread_bytes
                && joined <= receiver.most_skb_bytes()
        {
            receiver.first_skb_bytes = joined;
        }
        receiver.unread_bytes = joined;
        receiver.received_bytes += u64::from(new_bytes);
        self.tp.rcv_nxt = rcv_nxt;
    }
}
