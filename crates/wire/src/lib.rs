//! TCP as it is on the wire: segments, packets as bytes, and captures of them, read and written.
//!
//! | part | what it is |
//! | --- | --- |
//! | [`Segment`] | a TCP segment, numbers relative to the initial ones |
//! | [`mod@read`] | pcap and pcapng files, packet by packet |
//! | [`mod@write`] | pcapng files, as they come |
//! | [`packet`] | the bytes of a TCP packet, decoded and encoded |
//! | [`compact`] | its headers decoded without any memory, for speed |
//! | [`frame`] | Ethernet frames of packets, with zeros for their payload |
//! | [`host`] | one file for each host of a run, as results have them |
#![forbid(unsafe_code)]

pub mod compact;
pub mod frame;
pub mod host;
pub mod packet;
pub mod read;
mod segment;
pub mod write;

pub use compact::Compact;
pub use read::{Captured, Ending, link, read};
pub use segment::Segment;
pub use write::{Direction, Interface, Record, Writer};

/// Why a capture cannot be read or written, or a packet has no bytes, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(pub String);

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}
