//! Writes a recording, record by record.

use std::io::Write;

use crate::bytes::put;
use crate::header::{Header, VERSION};
use crate::{Error, Record};

/// The first bytes of every recording.
pub(crate) const MAGIC: [u8; 8] = *b"kneefly\n";
/// The longest header, bytes.
pub(crate) const MAX_HEADER_BYTES: u32 = 1 << 16;
/// The longest record, bytes. Two sockets and sixteen given values take at most 1500 bytes.
pub(crate) const MAX_RECORD_BYTES: u32 = 1 << 12;
/// First byte of a record that holds a call.
pub(crate) const TAG_CALL: u8 = 1;
/// First byte of the closing record.
pub(crate) const TAG_END: u8 = 2;

/// The closing record of a file: the counts of lost calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// Records lost because the reader was too slow and the ring was full.
    pub ring_full: u64,
    /// Calls lost because there was no memory for their socket.
    pub no_memory: u64,
    /// Calls lost because they ran within another call of the same socket.
    pub nested: u64,
    /// Calls that were running when the recording ended.
    pub interrupted: u64,
}

impl Ending {
    /// Returns the number of all lost calls.
    pub fn lost(&self) -> u64 {
        let all = [self.ring_full, self.no_memory, self.nested, self.interrupted];
        all.into_iter().fold(0, u64::saturating_add)
    }

    /// Returns the number of lost calls by reason, in words. Reasons without a loss are left out.
    pub fn reasons(&self) -> Vec<(&'static str, u64)> {
        let all = [
            ("for want of room in the ring", self.ring_full),
            ("for want of memory for their sockets", self.no_memory),
            ("within other calls", self.nested),
            ("at the end of the recording", self.interrupted),
        ];
        all.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}

/// Writes a recording. A file dropped before [`Writer::finish`] lacks its closing record, and a
/// reader reports that.
#[derive(Debug)]
pub struct Writer<W> {
    to: W,
    records: u64,
    /// Checksum of the record before. Each checksum covers it, so no record can be changed, removed
    /// or moved alone.
    checksum: u32,
    payload: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Writes the header. `to` should be buffered.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Header`] if the header is too long.
    pub fn new(mut to: W, header: &Header) -> Result<Writer<W>, Error> {
        let text = header.to_text();
        let len = u32::try_from(text.len()).ok().filter(|len| *len <= MAX_HEADER_BYTES);
        let len = len.ok_or_else(|| Error::Header { what: "it is too long".to_owned() })?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(len.to_le_bytes());
        bytes.extend(text.as_bytes());
        let checksum = checksum(0, &bytes);
        bytes.extend(checksum.to_le_bytes());
        to.write_all(&bytes)?;
        Ok(Writer { to, records: 0, checksum, payload: Vec::new() })
    }

    /// Writes one record.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write(&mut self, record: &Record) -> Result<(), Error> {
        self.payload.clear();
        self.payload.push(TAG_CALL);
        record.put(&mut self.payload);
        self.records += 1;
        self.frame()
    }

    /// Returns the number of records written so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Writes the closing record, flushes, and returns the underlying writer.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn finish(mut self, ending: &Ending) -> Result<W, Error> {
        self.payload.clear();
        self.payload.push(TAG_END);
        let Ending { ring_full, no_memory, nested, interrupted } = *ending;
        for number in [self.records, ring_full, no_memory, nested, interrupted] {
            put(&mut self.payload, number);
        }
        self.frame()?;
        self.to.flush()?;
        Ok(self.to)
    }

    /// Writes length, checksum and content.
    fn frame(&mut self) -> Result<(), Error> {
        let len = (self.payload.len() as u32).to_le_bytes();
        self.checksum = checksum(checksum(self.checksum, &len), &self.payload);
        self.to.write_all(&len)?;
        self.to.write_all(&self.checksum.to_le_bytes())?;
        self.to.write_all(&self.payload)?;
        Ok(())
    }
}

/// Continues a CRC-32 from an earlier one.
pub(crate) fn checksum(before: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(before);
    hasher.update(bytes);
    hasher.finalize()
}
