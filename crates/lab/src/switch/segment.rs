//! Large frames, which hosts with segmentation offload hand over, become packets as they are on a wire.

use super::frame::{self, ETHERNET_BYTES, Header, TCP, Version, be16, checksum_after};

/// `struct virtio_net_hdr` in the machine's byte order: prefix of each frame of a packet socket with PACKET_VNET_HDR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Offload {
    flags: u8,
    gso_type: u8,
    hdr_len: u16,
    gso_size: u16,
    csum_start: u16,
    csum_offset: u16,
}

/// Length of an [`Offload`] before a frame.
pub(super) const OFFLOAD_BYTES: usize = 10;
/// The checksum holds that of the pseudo-header only.
const NEEDS_CSUM: u8 = 1;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
/// Beside the type: the first packet has CWR.
const GSO_ECN: u8 = 0x80;
const TCP_HEADER_BYTES: usize = 20;
/// Offset of the checksum in a TCP header.
const TCP_CHECKSUM_AT: usize = 16;
const FIN: u8 = 1;
const PSH: u8 = 8;
const CWR: u8 = 0x80;

impl Offload {
    pub(super) fn from_bytes(bytes: &[u8; OFFLOAD_BYTES]) -> Offload {
        let word = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        Offload {
            flags: bytes[0],
            gso_type: bytes[1],
            hdr_len: word(2),
            gso_size: word(4),
            csum_start: word(6),
            csum_offset: word(8),
        }
    }

    pub(super) fn to_bytes(self) -> [u8; OFFLOAD_BYTES] {
        let mut bytes = [self.flags, self.gso_type, 0, 0, 0, 0, 0, 0, 0, 0];
        for (at, word) in
            [(2, self.hdr_len), (4, self.gso_size), (6, self.csum_start), (8, self.csum_offset)]
        {
            bytes[at..at + 2].copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// Whether the frame is several packets in one.
    pub(super) fn is_large(self) -> bool {
        self.gso_type != 0
    }

    /// The header for one packet: the receiver need not compute the checksum that the sender left out.
    pub(super) fn of_one_packet(self) -> Offload {
        if self.flags & NEEDS_CSUM == 0 {
            return Offload::default();
        }
        Offload { flags: NEEDS_CSUM, gso_type: 0, hdr_len: 0, gso_size: 0, ..self }
    }
}

/// A large frame that is being cut.
pub(super) struct Cut<'a> {
    frame: &'a [u8],
    header: Header,
    offload: Offload,
    /// Where the payload begins.
    payload_at: usize,
}

/// Prepares a cut; `None`: the kernel cannot have made this frame as a large TCP frame.
pub(super) fn cut<'a>(frame: &'a [u8], header: &Header, offload: Offload) -> Option<Cut<'a>> {
    let wanted = match header.version {
        Version::V4 => GSO_TCPV4,
        Version::V6 => GSO_TCPV6,
    };
    let transport_at = header.transport_at;
    let data_offset = frame.get(transport_at + 12)?;
    let tcp_bytes = usize::from(data_offset >> 4) * 4;
    let payload_at = transport_at + tcp_bytes;
    let is_whole = offload.gso_type & !GSO_ECN == wanted
        && header.protocol == TCP
        && offload.flags & NEEDS_CSUM != 0
        && usize::from(offload.csum_start) == transport_at
        && usize::from(offload.csum_offset) == TCP_CHECKSUM_AT
        && tcp_bytes >= TCP_HEADER_BYTES
        && payload_at < frame.len()
        && offload.gso_size > 0;
    is_whole.then_some(Cut { frame, header: *header, offload, payload_at })
}

impl Cut<'_> {
    /// How many packets it is.
    pub(super) fn packets(&self) -> usize {
        (self.frame.len() - self.payload_at).div_ceil(usize::from(self.offload.gso_size))
    }

    /// The longest of its packets, bytes with the Ethernet header.
    pub(super) fn longest_bytes(&self) -> usize {
        self.frame.len().min(self.payload_at + usize::from(self.offload.gso_size))
    }

    /// Appends packet `number`: sequence numbers, lengths and the IPv4 identification move on, FIN and PSH are the last
    /// one's and CWR is the first one's. The TCP checksum stays that of the pseudo-header, of the new length.
    pub(super) fn write(&self, number: usize, out: &mut Vec<u8>) {
        let gso_size = usize::from(self.offload.gso_size);
        let from = self.payload_at + number * gso_size;
        let to = self.frame.len().min(from + gso_size);
        let start = out.len();
        out.extend_from_slice(&self.frame[..self.payload_at]);
        out.extend_from_slice(&self.frame[from..to]);
        let out = &mut out[start..];
        match self.header.version {
            Version::V4 => write_ipv4(out, number),
            Version::V6 => write_ipv6(out),
        }
        let tcp = &mut out[self.header.transport_at..];
        let seq = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
        let seq = seq.wrapping_add((number * gso_size) as u32);
        tcp[4..8].copy_from_slice(&seq.to_be_bytes());
        if number + 1 < self.packets() {
            tcp[13] &= !(FIN | PSH);
        }
        if number > 0 {
            tcp[13] &= !CWR;
        }
        // The pseudo-header has the length of header and payload. Its sum is not complemented: the sum of the rest follows.
        let before = (self.frame.len() - self.header.transport_at) as u16;
        let after = tcp.len() as u16;
        let sum = u16::from_be_bytes([tcp[TCP_CHECKSUM_AT], tcp[TCP_CHECKSUM_AT + 1]]);
        let sum = !checksum_after(!sum, before, after);
        tcp[TCP_CHECKSUM_AT..TCP_CHECKSUM_AT + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

fn write_ipv4(out: &mut [u8], number: usize) {
    let total_bytes = (out.len() - ETHERNET_BYTES) as u16;
    let header_bytes = usize::from(out[ETHERNET_BYTES] & 15) * 4;
    let header = &mut out[ETHERNET_BYTES..ETHERNET_BYTES + header_bytes];
    let id = u16::from_be_bytes([header[4], header[5]]).wrapping_add(number as u16);
    header[2..4].copy_from_slice(&total_bytes.to_be_bytes());
    header[4..6].copy_from_slice(&id.to_be_bytes());
    header[10..12].fill(0);
    let words = (0..header_bytes).step_by(2).filter_map(|at| be16(header, at));
    let checksum = !frame::fold(words.map(u32::from).sum());
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
}

fn write_ipv6(out: &mut [u8]) {
    let payload_bytes = (out.len() - ETHERNET_BYTES - 40) as u16;
    out[ETHERNET_BYTES + 4..ETHERNET_BYTES + 6].copy_from_slice(&payload_bytes.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEADERS: usize = 54;

    /// 10.0.0.1 to 10.0.0.2, ports 1 and 2, seq 0xffffff00, CWR ACK PSH FIN, 2500 bytes of payload in packets of 1000.
    fn large() -> (Vec<u8>, Offload) {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00];
        // Total length 2540, identification 0xffff, DF, TTL 64, TCP.
        frame.extend([0x45, 0x02, 0x09, 0xec, 0xff, 0xff, 0x40, 0x00, 64, TCP, 0, 0]);
        frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0, 1, 0, 2, 0xff, 0xff, 0xff, 0, 0, 0, 0, 9, 0x50, 0x99, 0, 100]);
        // Pseudo-header: 0x0a00 + 1 + 0x0a00 + 2 + 6 + 2520 (0x09d8) = 0x1de1.
        frame.extend([0x1d, 0xe1, 0, 0]);
        frame.extend((0..2500).map(|at| (at / 1000) as u8 + 1));
        let offload = Offload {
            flags: NEEDS_CSUM,
            gso_type: GSO_TCPV4 | GSO_ECN,
            hdr_len: 54,
            gso_size: 1000,
            csum_start: 34,
            csum_offset: 16,
        };
        (frame, offload)
    }

    fn pieces(frame: &[u8], offload: Offload) -> Vec<Vec<u8>> {
        let header = frame::parse(frame).unwrap();
        let cut = cut(frame, &header, offload).unwrap();
        let piece = |number| {
            let mut out = Vec::new();
            cut.write(number, &mut out);
            out
        };
        (0..cut.packets()).map(piece).collect()
    }

    #[test]
    fn three_packets_of_ipv4_are_those_worked_by_hand() {
        let (frame, offload) = large();
        let pieces = pieces(&frame, offload);
        assert_eq!(
            pieces.iter().map(Vec::len).collect::<Vec<_>>(),
            [HEADERS + 1000, HEADERS + 1000, HEADERS + 500]
        );
        for (piece, payload) in pieces.iter().zip(1..) {
            assert!(piece[HEADERS..].iter().all(|byte| *byte == payload));
            assert_eq!(piece[..16], frame[..16], "addresses and TOS stay");
        }
        let at = |from: usize, to: usize| {
            pieces.iter().map(|piece| piece[from..to].to_vec()).collect::<Vec<_>>()
        };
        // Total lengths 1040, 1040, 540; identifications go on past 0xffff.
        assert_eq!(at(16, 18), [[0x04, 0x10], [0x04, 0x10], [0x02, 0x1c]]);
        assert_eq!(at(18, 20), [[0xff, 0xff], [0, 0], [0, 1]]);
        // 0x4502 + 0x0410 + id + 0x4000 + 0x4006 + 0x0a00 + 1 + 0x0a00 + 2 = 0xdd1b + id, complemented.
        // With id 0xffff the sum is 0xdd1b again: 0x22e4. The last: 0xdb27 + 1 = 0xdb28, so 0x24d7.
        assert_eq!(at(24, 26), [[0x22, 0xe4], [0x22, 0xe4], [0x24, 0xd7]]);
        // 0xffffff00, + 1000 = 0x2e8 past 2^32, + 2000 = 0x6d0.
        assert_eq!(at(38, 42), [[0xff, 0xff, 0xff, 0], [0, 0, 2, 0xe8], [0, 0, 6, 0xd0]]);
        // CWR ACK; ACK; ACK PSH FIN.
        assert_eq!(at(47, 48), [[0x90], [0x10], [0x19]]);
        // Pseudo-header sums with lengths 1020 (0x03fc) and 520 (0x0208) in place of 0x09d8.
        assert_eq!(at(50, 52), [[0x18, 0x05], [0x18, 0x05], [0x16, 0x11]]);
    }

    #[test]
    fn lengths_of_ipv6_are_those_of_its_payload() {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd];
        // 20 bytes of header and 1500 of payload.
        frame.extend([0x60, 0, 0, 0, 0x05, 0xf0, TCP, 64]);
        frame.extend([0; 32]);
        frame.extend([0, 1, 0, 2, 0, 0, 0, 7, 0, 0, 0, 9, 0x50, 0x18, 0, 100, 0x05, 0xf6, 0, 0]);
        frame.extend([5; 1500]);
        let offload = Offload { gso_type: GSO_TCPV6, csum_start: 54, gso_size: 1440, ..large().1 };
        let pieces = pieces(&frame, offload);
        assert_eq!(pieces.iter().map(Vec::len).collect::<Vec<_>>(), [74 + 1440, 74 + 60]);
        // 1460 and 80.
        assert_eq!([&pieces[0][18..20], &pieces[1][18..20]], [[0x05, 0xb4], [0, 80]]);
        assert_eq!([pieces[0][67], pieces[1][67]], [0x10, 0x18]);
        // 6 + 1460 = 0x5ba; 6 + 80 = 0x56.
        assert_eq!([&pieces[0][70..72], &pieces[1][70..72]], [[0x05, 0xba], [0, 0x56]]);
    }

    #[test]
    fn what_the_kernel_could_not_have_made_is_refused() {
        let (frame, offload) = large();
        let header = frame::parse(&frame).unwrap();
        let refused = |frame: &[u8], offload| cut(frame, &header, offload).is_none();
        assert!(!refused(&frame, offload));
        assert!(refused(&frame, Offload { gso_size: 0, ..offload }));
        assert!(refused(&frame, Offload { flags: 0, ..offload }));
        assert!(refused(&frame, Offload { gso_type: GSO_TCPV6, ..offload }));
        assert!(refused(&frame, Offload { csum_start: 33, ..offload }));
        assert!(refused(&frame[..HEADERS], offload));
    }

    #[test]
    fn a_header_of_offloads_survives_its_bytes() {
        let offload = large().1;
        assert_eq!(Offload::from_bytes(&offload.to_bytes()), offload);
        let one = offload.of_one_packet();
        assert!(!one.is_large() && offload.is_large());
        assert_eq!((one.flags, one.csum_start, one.csum_offset), (NEEDS_CSUM, 34, 16));
    }

    proptest! {
        /// And what it cuts has all of the payload, in order.
        #[test]
        fn no_large_frame_makes_it_panic(
            at in 0_usize..54,
            byte in any::<u8>(),
            len in 34_usize..2554,
            gso_size in any::<u16>(),
        ) {
            let (mut frame, offload) = large();
            frame[at] = byte;
            frame.truncate(len);
            let total_bytes = (len - ETHERNET_BYTES) as u16;
            frame[16..18].copy_from_slice(&total_bytes.to_be_bytes());
            let Some(header) = frame::parse(&frame) else { return Ok(()) };
            let Some(cut) = cut(&frame, &header, Offload { gso_size, ..offload }) else {
                return Ok(());
            };
            let mut payload = Vec::new();
            for number in 0..cut.packets() {
                let mut piece = Vec::new();
                cut.write(number, &mut piece);
                prop_assert!(piece.len() <= cut.longest_bytes());
                payload.extend_from_slice(&piece[cut.payload_at..]);
            }
            prop_assert_eq!(&payload[..], &frame[cut.payload_at..]);
        }
    }
}
