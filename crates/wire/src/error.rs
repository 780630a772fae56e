//! What can go wrong with captures and packets.

use std::io;
use std::net::IpAddr;

use knee_files::Unreadable;

/// Why a capture cannot be read or written, or a packet has no bytes, in one sentence.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be opened.
    #[error("{name}: {source}")]
    Unopened { name: String, source: Unreadable },
    /// Its first bytes, or those that are packed in it, cannot be had.
    #[error("{name}: cannot read: {source}")]
    Unread { name: String, source: io::Error },
    #[error("{name}: cannot write: {source}")]
    Unwritten { name: String, source: io::Error },
    /// One of several captures.
    #[error("{name}: {source}")]
    Of { name: String, source: Box<Error> },
    #[error("it cannot be read: {0}")]
    Capture(#[source] io::Error),
    #[error("it is empty")]
    Empty,
    #[error("it ends within its header")]
    CutOff,
    #[error("it is no pcap and no pcapng file")]
    Foreign,
    #[error("{name}: there is no interface {interface}: it has {there}")]
    NoInterface { name: String, interface: u32, there: usize },
    #[error(
        "a window of {bytes} bytes does not fit the header: {most} is the most with the window scale that was agreed on"
    )]
    Window { bytes: u32, most: u32 },
    #[error("a segment's options take more than the 40 bytes of a header")]
    Options,
    #[error("a segment has room for {most} SACK ranges, not for {asked}")]
    Sacks { most: usize, asked: usize },
    #[error("{bytes} bytes do not fit one packet of at most 65535")]
    Segment { bytes: u32 },
    #[error("a ping of {bytes} bytes does not fit one packet")]
    Ping { bytes: u32 },
    #[error("{0} and {1} are of two families")]
    Families(IpAddr, IpAddr),
    /// A packet is to go from or to it.
    #[error("node {0} is no host and has no address")]
    NoHost(u32),
}
