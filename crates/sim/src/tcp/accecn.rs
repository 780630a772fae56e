//! Accurate ECN (RFC 9768), without its option. The three flags AE, CWR and ECE of every segment
//! count the packets that arrived with CE. It is used only if the algorithms of both ends ask for
//! it, as in TCP Prague's kernels.

use super::Sock;
use super::ack::Progress;
use crate::packet::{Packet, flags};
use knee_algo::ecn_flags;
use knee_queue::Ecn;

/// Initial value of the count, so that zeroed flags are detected (RFC 9768).
const ACE_AT_FIRST: u32 = 5;
const ACE_MASK: u32 = 7;

const ACE_FLAGS: u16 = flags::AE | flags::CWR | flags::ECE;

/// Encodes a number in the three flags.
fn flags_of(number: u32) -> u16 {
    let bits = [(4, flags::AE), (2, flags::CWR), (1, flags::ECE)];
    bits.into_iter().filter(|(bit, _)| number & bit != 0).map(|(_, flag)| flag).sum()
}

/// Returns the number in the three flags of a packet. Linux: `tcp_accecn_ace`.
fn number_in(packet: &Packet) -> u32 {
    let bits = [(4, flags::AE), (2, flags::CWR), (1, flags::ECE)];
    bits.into_iter().filter(|(_, flag)| packet.has(*flag)).map(|(bit, _)| bit).sum()
}

impl Sock {
    /// Reports whether this end's segments count packets with CE.
    #[inline]
    pub(super) fn counts_ce(&self) -> bool {
        self.tp.ecn_flags & ecn_flags::ACCECN != 0
    }

    /// Returns the flags of a SYN that asks for Accurate ECN.
    pub(super) fn accecn_syn_flags(&self) -> u16 {
        if self.cc.algorithm().needs_accecn() { flags::AE } else { 0 }
    }

    /// Grants Accurate ECN if a SYN and this end's algorithm ask for it. The SYN-ACK reports the
    /// ECN field of the SYN. Linux: `tcp_ecn_create_request`, `tcp_accecn_reflector_flags`.
    pub(super) fn grant_accecn(&mut self, syn: &Packet) {
        if !syn.has(flags::AE) || !self.cc.algorithm().needs_accecn() {
            return;
        }
        self.tp.ecn_flags |= ecn_flags::ACCECN;
        self.accecn_answer = flags_of(match syn.tos.ecn() {
            Ecn::NotEct => 2,
            Ecn::Ect1 => 3,
            Ecn::Ect0 => 4,
            Ecn::Ce => 6,
        });
    }

    /// Handles the SYN-ACK's answer: Accurate ECN, classic ECN, or none. Linux:
    /// `tcp_ecn_rcv_synack`.
    pub(super) fn on_accecn_answer(&mut self, packet: &Packet) {
        self.tp.ecn_flags = match number_in(packet) {
            2 | 3 | 4 | 6 => ecn_flags::OK | ecn_flags::ACCECN,
            1 => ecn_flags::OK,
            _ => 0,
        };
    }

    /// Returns the flags of a segment, including the count. Linux: `tcp_accecn_set_ace`.
    #[inline]
    pub(super) fn with_ce_count(&self, of_packet: u16) -> u16 {
        let number = self.tp.received_ce.wrapping_add(ACE_AT_FIRST) & ACE_MASK;
        (of_packet & !ACE_FLAGS) | flags_of(number)
    }

    /// Counts how many of the `delivered` packets of an ACK came with CE. The count has three bits.
    /// If an ACK delivers more than seven packets, the largest number that fits the count is taken.
    /// An ACK that delivers nothing and has no newer timestamp may be older than the last; its
    /// count is ignored (RFC 9768 sec. 3.2.2.5.1). Linux: `tcp_accecn_process`,
    /// `__tcp_accecn_process`.
    pub(super) fn take_ce_count(
        &mut self,
        packet: &Packet,
        delivered: u32,
        progress: &mut Progress,
    ) {
        let is_newer = progress.advanced || progress.data_sacked || self.receiver.ts_advanced;
        if !is_newer {
            return;
        }
        let told = number_in(packet).wrapping_sub(ACE_AT_FIRST);
        let least = told.wrapping_sub(self.tp.delivered_ce) & ACE_MASK;
        let newly = match delivered > ACE_MASK {
            true => delivered - (delivered.wrapping_sub(least) & ACE_MASK),
            false => least,
        };
        self.tp.delivered_ce = self.tp.delivered_ce.wrapping_add(newly);
        progress.ece = newly > 0;
    }
}
