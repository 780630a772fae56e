//! Accurate ECN (RFC 9768), without its option: the three flags AE, CWR and ECE of every segment count the packets that arrived with CE.
//! Where the algorithms of both ends ask for it (TCP Prague's kernels do), and there alone.

use super::Sock;
use super::ack::Progress;
use crate::packet::{Packet, flags};
use knee_algo::ecn_flags;
use knee_queue::Ecn;

/// What the count begins with, so that zeroed flags are seen.
const ACE_AT_FIRST: u32 = 5;
const ACE_MASK: u32 = 7;

const ACE_FLAGS: u16 = flags::AE | flags::CWR | flags::ECE;

/// The three flags as they carry a number.
fn flags_of(number: u32) -> u16 {
    let bits = [(4, flags::AE), (2, flags::CWR), (1, flags::ECE)];
    bits.into_iter().filter(|(bit, _)| number & bit != 0).map(|(_, flag)| flag).sum()
}

fn number_in(packet: &Packet) -> u32 {
    let bits = [(4, flags::AE), (2, flags::CWR), (1, flags::ECE)];
    bits.into_iter().filter(|(_, flag)| packet.has(*flag)).map(|(bit, _)| bit).sum()
}

impl Sock {
    /// Whether its segments count what came with CE.
    #[inline]
    pub(super) fn counts_ce(&self) -> bool {
        self.tp.ecn_flags & ecn_flags::ACCECN != 0
    }

    /// The flags of a SYN that asks for it.
    pub(super) fn accecn_syn_flags(&self) -> u16 {
        if self.cc.algorithm().needs_accecn() { flags::AE } else { 0 }
    }

    /// A SYN asks for it, and so does this end's algorithm: the SYN-ACK says with which ECN field the SYN came.
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

    /// What a SYN-ACK grants of what was asked for: ECN with this, without, or none.
    pub(super) fn on_accecn_answer(&mut self, packet: &Packet) {
        self.tp.ecn_flags = match number_in(packet) {
            2 | 3 | 4 | 6 => ecn_flags::OK | ecn_flags::ACCECN,
            1 => ecn_flags::OK,
            _ => 0,
        };
    }

    /// The flags of a segment, with the count in them.
    #[inline]
    pub(super) fn with_ce_count(&self, of_packet: u16) -> u16 {
        let number = self.tp.received_ce.wrapping_add(ACE_AT_FIRST) & ACE_MASK;
        (of_packet & !ACE_FLAGS) | flags_of(number)
    }

    /// An ACK of `delivered` packets: how many of them came with CE. The count has three bits: of an ACK of more than seven packets as many
    /// are taken to have come so as can have. One that neither acknowledges or SACKs anything nor has a newer timestamp may be older than
    /// the last: its count is left alone (RFC 9768 sec. 3.2.2.5.1).
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
