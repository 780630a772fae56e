//! A finished run as a message in a frame: what journals and stores hold.
//!
//! A frame is a length, a checksum and a [`prost`] message.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use knee_scenario::stored::StoredMeasured;
use prost::Message;

use crate::run_name::RunName;

/// Length and checksum before each message, bytes.
pub(crate) const FRAME_BYTES: usize = 8;
/// Largest message, bytes.
const MOST_BYTES: u32 = 1 << 30;

/// A finished run with its rows.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct StoredRun {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) name: Vec<u8>,
    /// Labels of its rows: the run with its case, varied values and repeat.
    #[prost(string, tag = "2")]
    pub(crate) label: String,
    /// Number of the run, the label of rows without case.
    #[prost(string, tag = "3")]
    pub(crate) index: String,
    #[prost(message, repeated, tag = "4")]
    pub(crate) measured: Vec<StoredMeasured>,
    /// Limits of its validity. `None`: no host has a part in it.
    #[prost(message, optional, tag = "5")]
    pub(crate) limits: Option<StoredLimits>,
    #[prost(message, repeated, tag = "6")]
    pub(crate) rows: Vec<StoredRows>,
    #[prost(uint64, tag = "7")]
    pub(crate) events: u64,
    #[prost(uint64, tag = "8")]
    pub(crate) data_pkts: u64,
    #[prost(uint64, tag = "9")]
    pub(crate) pkt_hops: u64,
    #[prost(string, optional, tag = "10")]
    pub(crate) warning: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StoredLimits {
    #[prost(string, repeated, tag = "1")]
    pub(crate) limits: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StoredRows {
    #[prost(string, tag = "1")]
    pub(crate) file: String,
    #[prost(string, tag = "2")]
    pub(crate) text: String,
}

/// Returns a message with its length and checksum.
pub(crate) fn frame(message: &impl Message) -> io::Result<Vec<u8>> {
    let len = u32::try_from(message.encoded_len()).ok().filter(|len| *len <= MOST_BYTES);
    let len = len.ok_or_else(|| io::Error::other("a run has more than 1 GiB of results"))?;
    let mut frame = Vec::with_capacity(FRAME_BYTES + len as usize);
    frame.extend_from_slice(&[0; FRAME_BYTES]);
    message.encode(&mut frame).map_err(io::Error::other)?;
    fill_head(&mut frame);
    Ok(frame)
}

/// Returns a message that was read from a frame in one again.
pub(crate) fn reframed(message: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; FRAME_BYTES];
    frame.extend_from_slice(message);
    fill_head(&mut frame);
    frame
}

fn fill_head(frame: &mut [u8]) {
    let (head, message) = frame.split_at_mut(FRAME_BYTES);
    head[..4].copy_from_slice(&(message.len() as u32).to_le_bytes());
    head[4..].copy_from_slice(&crc32fast::hash(message).to_le_bytes());
}

/// Reads the message at an offset. `None` where no whole one follows.
pub(crate) fn next_frame<'b>(
    file: &File,
    offset: u64,
    all: u64,
    bytes: &'b mut Vec<u8>,
) -> io::Result<Option<&'b [u8]>> {
    let mut frame = [0; FRAME_BYTES];
    if offset + FRAME_BYTES as u64 > all {
        return Ok(None);
    }
    file.read_exact_at(&mut frame, offset)?;
    let [len, crc] = [0, 4].map(|at| u32::from_le_bytes([0, 1, 2, 3].map(|i| frame[at + i])));
    let offset = offset + FRAME_BYTES as u64;
    if len > MOST_BYTES || offset + u64::from(len) > all {
        return Ok(None);
    }
    bytes.resize(len as usize, 0);
    file.read_exact_at(bytes, offset)?;
    Ok((crc32fast::hash(bytes) == crc).then_some(&bytes[..]))
}

/// The name in a run's message, whose first field it is.
pub(crate) fn name_of(message: &[u8]) -> Option<RunName> {
    let [0x0a, len, rest @ ..] = message else { return None };
    RunName::from_bytes(rest.get(..usize::from(*len))?)
}

pub(crate) fn damaged(why: prost::DecodeError) -> io::Error {
    io::Error::other(format!(
        "it is damaged ({why}): remove it, or choose another directory with -o"
    ))
}
