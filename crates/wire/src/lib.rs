//! TCP as it is on the wire: segments, packets as bytes, and captures of them, read and written.
//!
//! | part | what it is |
//! | --- | --- |
//! | [`Segment`] | a TCP segment, numbers relative to the initial ones |
//! | [`mod@read`] | pcap and pcapng files, packet by packet |
//! | `overlay` | the packets inside of tunnels, mirrors and labels: [`Layers`] |
//! | [`mod@write`] | pcapng files, as they come |
//! | [`packet`] | the bytes of a TCP packet, decoded and encoded |
//! | [`compact`] | its headers decoded without any memory, for speed |
//! | [`frame`] | Ethernet frames of packets, with zeros for their payload |
//! | [`host`] | one file for each host of a run, as results have them |
#![forbid(unsafe_code)]

pub mod compact;
mod error;
pub mod frame;
pub mod host;
mod overlay;
pub mod packet;
pub mod read;
mod segment;
pub mod write;

pub use compact::Compact;
pub use error::Error;
pub use overlay::Layers;
pub use read::{Captured, Ending, Inner, link, read};
pub use segment::Segment;
pub use write::{Direction, Interface, Record, Writer};
