//! TCP segments, whatever becomes of them: bytes, or packets of the simulator.

use knee_queue::Ecn;

/// A TCP segment as it is on the wire. Sequence numbers count from the initial ones: a SYN is byte 0 of
/// its direction, the first byte of data is 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Bits of the header, [`Segment::SYN`] and its like.
    pub flags: u16,
    pub ecn: Ecn,
    /// Sequence number of the first byte.
    pub seq: u32,
    /// Payload in bytes.
    pub len: u32,
    /// The next byte that the sender expects; 0 without the ACK flag.
    pub ack: u32,
    /// Advertised window after scaling, bytes.
    pub window_bytes: u32,
    /// Option of a SYN: largest segment that may be sent, options and payload, bytes.
    pub mss: Option<u16>,
    /// Option of a SYN.
    pub window_scale: Option<u8>,
    /// Option of a SYN.
    pub sack_ok: bool,
    /// Value and echo.
    pub timestamps: Option<(u32, u32)>,
    /// First and next byte of each range, in the order of the option.
    pub sacks: Vec<(u32, u32)>,
}

impl Segment {
    /// Flag: the sender has no more data.
    pub const FIN: u16 = 0x001;
    /// Flag: opens a connection.
    pub const SYN: u16 = 0x002;
    /// Flag: aborts the connection.
    pub const RST: u16 = 0x004;
    /// Flag: deliver the data to the application.
    pub const PSH: u16 = 0x008;
    /// Flag: the acknowledgement number is valid.
    pub const ACK: u16 = 0x010;
    /// Flag: the urgent pointer is valid.
    pub const URG: u16 = 0x020;
    /// Flag: echo of CE (RFC 3168 6.1).
    pub const ECE: u16 = 0x040;
    /// Flag: congestion window reduced (RFC 3168 6.1).
    pub const CWR: u16 = 0x080;
    /// Header bits; accurate ECN's, the NS of old.
    pub const AE: u16 = 0x100;

    /// Whether a header bit is set.
    pub fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}
