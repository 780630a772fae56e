//! Receive merging (GRO): TCP handles segments of a flow that arrive close together as one.
//!
//! The segments must be consecutive and agree in ECN field, flags, acknowledgement and timestamps.
//! A change from unmarked to CE therefore ends a merge. Until Linux 6.14 the first segment may have CWR
//! and the others not, as in a burst. One ACK answers a merged segment.

use super::{Sock, State};
use crate::events::Timer;
use crate::net::Net;
use crate::packet::{Packet, flags};
use knee_queue::time::Duration;
use knee_run::spec::LinuxVersion;

/// The largest merged segment, bytes: the largest IP packet.
const MERGED_MAX_BYTES: u32 = 65_535;

impl Sock {
    /// Holds a data segment for merging. Returns false if it is not held.
    #[inline]
    pub(super) fn merges(&mut self, packet: &Packet, net: &mut Net) -> bool {
        let window = self.host.config.gro_window;
        if window == Duration::ZERO || packet.payload_bytes() == 0 {
            return false;
        }
        if self.merging.is_empty() {
            self.gro.arm(net.now + window, self.id, Timer::Gro, net);
        }
        let mut merges = self.host.gro.get();
        merges.held += 1;
        let (linux, mss) = (self.host.config.linux, self.mss());
        match self.merging.last_mut() {
            Some(last) if continues(last, packet, mss, linux) => {
                join(last, packet);
                merges.merged_away += 1;
            }
            _ => self.merging.push(*packet),
        }
        self.host.gro.set(merges);
        true
    }

    /// Merges a packet for this socket into the one before it, if the two may be merged.
    pub(crate) fn joins(&self, last: &mut Packet, packet: &Packet) -> bool {
        let may_join = packet.payload_bytes() > 0
            && last.payload_bytes() > 0
            && continues(last, packet, self.mss(), self.host.config.linux);
        if may_join {
            join(last, packet);
        }
        may_join
    }

    pub(super) fn on_merged_segments(&mut self, net: &mut Net) {
        let mut merges = self.host.gro.get();
        merges.ended += 1;
        self.host.gro.set(merges);
        for packet in std::mem::take(&mut self.merging) {
            if self.state == State::Established {
                self.on_segment(&packet, net);
            }
        }
    }
}

fn join(last: &mut Packet, packet: &Packet) {
    last.end_seq = packet.end_seq;
    last.flags |= packet.flags & flags::PSH;
}

/// Reports whether a packet may be merged into the one before it. Linux: `tcp_gro_receive`.
fn continues(last: &Packet, packet: &Packet, mss: u32, linux: LinuxVersion) -> bool {
    let cwr_begins = linux < LinuxVersion(6, 15);
    let may_differ = flags::PSH | flags::IN_BURST | if cwr_begins { flags::CWR } else { 0 };
    let ends_merge = last.has(flags::PSH)
        || last.payload_bytes() % mss != 0
        || (cwr_begins && packet.has(flags::CWR));
    !ends_merge
        && packet.seq == last.end_seq
        && packet.tos == last.tos
        && packet.flags & !may_differ == last.flags & !may_differ
        && packet.ack_seq == last.ack_seq
        && (packet.ts_val, packet.ts_ecr) == (last.ts_val, last.ts_ecr)
        && *packet.sacks() == *last.sacks()
        && last.payload_bytes() + packet.payload_bytes() <= MERGED_MAX_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Tos;

    #[test]
    fn what_is_behind_cwr_merges_until_6_14() {
        let packet = |seq, has| Packet {
            seq,
            end_seq: seq + 1000,
            flags: flags::ACK | has,
            to: 0,
            hop: 0,
            wire_bytes: 1066,
            ack_seq: 0,
            window_bytes: 0,
            ts_val: 0,
            ts_ecr: 0,
            tos: Tos::default(),
            sacks_len: 0,
            sacks: Default::default(),
        };
        let merges =
            |linux, first, second| continues(&packet(0, first), &packet(1000, second), 1000, linux);
        for linux in [LinuxVersion(6, 1), LinuxVersion(6, 14)] {
            assert!(merges(linux, 0, 0) && merges(linux, flags::CWR, 0));
            assert!(!merges(linux, 0, flags::CWR) && !merges(linux, flags::CWR, flags::CWR));
        }
        let newer = LinuxVersion(6, 15);
        assert!(merges(newer, 0, 0) && merges(newer, flags::CWR, flags::CWR));
        assert!(!merges(newer, 0, flags::CWR) && !merges(newer, flags::CWR, 0));
    }
}
