//! Captures of packets: files of them, read and written, and TCP packets as bytes.
//!
//! | part | what it is |
//! | --- | --- |
//! | [`mod@read`] | pcap and pcapng files, packet by packet |
//! | [`mod@write`] | pcapng files, as they come |
//! | [`packet`] | the bytes of a TCP packet, decoded and encoded |
//! | [`compact`] | its headers decoded without any memory, for speed |
//! | [`frame`] | Ethernet frames of the simulator's packets |
//! | [`host`] | one file for each host of a run, as results have them |
#![forbid(unsafe_code)]

pub mod compact;
pub mod frame;
pub mod host;
pub mod packet;
pub mod read;
pub mod write;

pub use compact::Compact;
pub use read::{Captured, Ending, link, read};
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
