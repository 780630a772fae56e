//! The end of a connection: FIN and RST, in both directions.

use super::seq::{after, before};
use super::{Sock, State};
use crate::net::Net;
use crate::packet::{HEADER_BYTES, NO_SACKS, Packet, Tos, flags};
use knee_queue::Ecn;

/// The FIN of the sending half. It follows the last written byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fin {
    #[default]
    Nothing,
    /// The FIN has the number `write_seq` and is not sent yet.
    Waits,
    /// The FIN is sent; `write_seq` is beyond it.
    Sent,
}

/// The fate of data that arrives after an end has closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LateData {
    Taken,
    Ignored,
    /// The data ends the connection.
    Fatal,
}

impl Sock {
    /// Closes the connection for the application. Written data is still sent. Linux: `__tcp_close`.
    pub(crate) fn close(&mut self, net: &mut Net) {
        self.enter(net);
        match self.state {
            State::Established | State::CloseWait if self.receiver.unread_bytes > 0 => {
                // A reset tells the peer that not all data was read (RFC 2525 sec. 2.17).
                let mut packet = self.packet();
                packet.flags |= flags::RST;
                packet.tos.set_ecn(self.ecn_of(false));
                let _ = net.transmit(packet);
                self.leave(State::Gone, net);
            }
            State::Established | State::CloseWait if self.writer.pending_bytes > 0 => {
                // The application is blocked in its last write until then.
                self.writer.closes = true;
            }
            State::Established | State::CloseWait => {
                self.append_fin();
                self.push_past_nagle(net);
            }
            State::Closed | State::Listen | State::SynSent | State::SynReceived => {
                self.leave(State::Gone, net);
            }
            _ => self.receiver.reads_on = false,
        }
    }

    /// Ends the writing half for the application, which may still read. Linux: `tcp_shutdown`.
    pub(crate) fn shut_down_writing(&mut self, net: &mut Net) {
        if !matches!(self.state, State::Established | State::CloseWait) {
            return;
        }
        self.enter(net);
        self.receiver.reads_on = true;
        if self.writer.pending_bytes > 0 {
            self.writer.closes = true;
        } else {
            self.append_fin();
            self.push_past_nagle(net);
        }
    }

    /// Appends the FIN after the last written byte and closes the socket. Linux: `tcp_close_state`,
    /// `tcp_send_fin`.
    pub(super) fn append_fin(&mut self) {
        self.writer.closes = false;
        self.writer.fin = Fin::Waits;
        self.enter_state(match self.state {
            State::CloseWait => State::LastAck,
            _ => State::FinWait1,
        });
    }

    /// Reports whether something was never sent.
    #[inline]
    pub(super) fn has_unsent(&self) -> bool {
        self.unsent_bytes() > 0 || self.writer.fin == Fin::Waits
    }

    /// Returns the window that the next segment needs: its payload, and the FIN if the segment
    /// carries it.
    #[inline]
    pub(super) fn next_segment_len(&self) -> u32 {
        let unsent = self.unsent_bytes();
        let fin = self.writer.fin == Fin::Waits && unsent <= self.mss();
        let head = self.write_queue.head_bytes(self.tp.snd_nxt).unwrap_or(u32::MAX);
        unsent.min(self.mss()).min(head) + u32::from(fin)
    }

    /// Reports whether the peer has acknowledged the whole stream, including the FIN.
    fn all_acked(&self) -> bool {
        self.writer.fin == Fin::Sent && self.tp.snd_una == self.tp.write_seq
    }

    /// Changes the state if the ACK covers the FIN. Returns false if the segment needs no more
    /// work. Linux: `tcp_rcv_state_process`.
    #[cold]
    pub(super) fn on_ack_while_closing(&mut self, net: &mut Net) -> bool {
        if !self.all_acked() {
            return true;
        }
        match self.state {
            State::FinWait1 => self.enter_state(State::FinWait2),
            State::Closing => self.leave(State::TimeWait, net),
            State::LastAck => self.leave(State::Gone, net),
            _ => {}
        }
        self.state.is_synchronised()
    }

    /// Decides about a segment's data once an end has closed. New data for an application that has
    /// closed ends the connection. Linux: `tcp_rcv_state_process`.
    #[cold]
    pub(super) fn take_late_data(&mut self, packet: &Packet, net: &mut Net) -> LateData {
        let peer_has_ended =
            matches!(self.state, State::CloseWait | State::Closing | State::LastAck);
        if peer_has_ended && !before(packet.seq, self.tp.rcv_nxt) {
            return LateData::Ignored;
        }
        let data_end = packet.end_seq.wrapping_sub(u32::from(packet.has(flags::FIN)));
        if self.receiver.reads_on || packet.sequence_len() == 0 || !after(data_end, self.tp.rcv_nxt)
        {
            return LateData::Taken;
        }
        self.answer_with_reset(packet, net);
        self.leave(State::Gone, net);
        LateData::Fatal
    }

    /// Handles the peer's FIN once it is in order. Linux: `tcp_fin`.
    #[cold]
    pub(super) fn on_fin(&mut self, net: &mut Net) {
        self.tp.icsk_ack_pending |= knee_algo::ack_pending::SCHED;
        self.receiver.has_ended = true;
        match self.state {
            State::Established => {
                self.enter_state(State::CloseWait);
                self.receiver.set_interactive(true);
            }
            State::FinWait1 => {
                self.send_ack(net);
                self.enter_state(State::Closing);
            }
            State::FinWait2 => {
                self.send_ack(net);
                self.leave(State::TimeWait, net);
            }
            _ => {}
        }
        self.receiver.out_of_order.clear();
    }

    /// Handles an RST in an established connection: accepts it at the expected number (RFC 5961
    /// sec. 3.2), else sends a challenge ACK. Linux: `tcp_validate_incoming`, `tcp_reset`.
    #[cold]
    pub(super) fn on_reset(&mut self, packet: &Packet, acceptable: bool, net: &mut Net) {
        let rcv_nxt = self.tp.rcv_nxt;
        let after_fin = packet.seq == rcv_nxt.wrapping_sub(1)
            && matches!(self.state, State::CloseWait | State::LastAck | State::Closing);
        let at_sack = self.receiver.out_of_order.last_end() == Some(packet.seq);
        if after_fin || (acceptable && (packet.seq == rcv_nxt || at_sack)) {
            self.leave(State::Gone, net);
        } else if acceptable {
            self.challenge(net);
        }
    }

    /// Sends a challenge ACK, which makes a peer prove itself; at most twice a second. Linux:
    /// `tcp_send_challenge_ack`.
    #[cold]
    pub(super) fn challenge(&mut self, net: &mut Net) {
        if self.may_answer_out_of_window(net) {
            self.send_ack(net);
        }
    }

    /// Handles a segment in TIME-WAIT, where the socket only waits for a repeated FIN of the peer.
    /// Linux: `tcp_timewait_state_process`.
    #[cold]
    pub(super) fn on_packet_in_time_wait(&mut self, packet: &Packet, net: &mut Net) {
        let in_place = packet.seq == self.tp.rcv_nxt;
        if packet.has(flags::RST) {
            if in_place {
                self.enter_state(State::Gone);
            }
            return;
        }
        if in_place && packet.sequence_len() == 0 {
            return;
        }
        if packet.sequence_len() > 0 || self.may_answer_out_of_window(net) {
            self.send_ack(net);
        }
    }

    /// Answers a packet for which there is no socket with RST. An RST is never answered. Linux:
    /// `tcp_v4_send_reset`.
    #[cold]
    pub(super) fn answer_with_reset(&mut self, packet: &Packet, net: &mut Net) {
        if packet.has(flags::RST) {
            return;
        }
        let acks = packet.has(flags::ACK);
        let seq = if acks { packet.ack_seq } else { 0 };
        let reset = Packet {
            to: self.peer,
            hop: self.path,
            wire_bytes: HEADER_BYTES - crate::packet::TIMESTAMP_BYTES
                + self.host.config.extra_header_bytes(),
            seq,
            end_seq: seq,
            ack_seq: if acks { 0 } else { packet.end_seq },
            window_bytes: 0,
            ts_val: 0,
            ts_ecr: 0,
            flags: flags::RST | flags::NO_TS | if acks { 0 } else { flags::ACK },
            tos: Tos::new(self.dscp, Ecn::NotEct),
            sacks_len: 0,
            sacks: NO_SACKS,
        };
        let _ = net.transmit(reset);
    }

    /// Reports whether the application has read the peer's whole stream.
    pub(crate) fn has_read_all(&self) -> bool {
        self.receiver.has_ended && self.receiver.unread_bytes == 0
    }
}
