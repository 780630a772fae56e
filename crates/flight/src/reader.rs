//! Reads a recording, record by record. Any bytes are safe as input.

use std::io::{ErrorKind, Read};

use crate::bytes::Bytes;
use crate::error::Malformed;
use crate::header::{Header, VERSION};
use crate::writer::{
    Ending, MAGIC, MAX_HEADER_BYTES, MAX_RECORD_BYTES, TAG_CALL, TAG_END, checksum,
};
use crate::{Error, Record};

/// Bytes before a record's content: its length and its checksum.
const FRAME_BYTES: usize = 8;

/// Reads a recording. It holds one record at a time.
#[derive(Debug)]
pub struct Reader<R> {
    from: R,
    header: Header,
    offset: u64,
    records: u64,
    checksum: u32,
    ending: Option<Ending>,
    payload: Vec<u8>,
}

impl<R: Read> Reader<R> {
    /// Reads the header. `from` should be buffered.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Version`], [`Error::Header`], [`Error::HeaderChecksum`],
    /// [`Error::Truncated`] and [`Error::Io`].
    pub fn new(mut from: R) -> Result<Reader<R>, Error> {
        let mut bytes = [0; 16];
        let got = fill(&mut from, &mut bytes)?;
        if got < MAGIC.len() || bytes[..MAGIC.len()] != MAGIC {
            return Err(Error::Foreign);
        }
        if got < bytes.len() {
            return Err(Error::Truncated { offset: got as u64 });
        }
        let found = number(&bytes[8..]);
        if found != VERSION {
            return Err(Error::Version { found, known: VERSION });
        }
        let len = number(&bytes[12..]);
        if len > MAX_HEADER_BYTES {
            return Err(Error::Header { what: format!("it has {len} bytes") });
        }
        let mut text = vec![0; len as usize + 4];
        let got = fill(&mut from, &mut text)?;
        if got < text.len() {
            return Err(Error::Truncated { offset: (bytes.len() + got) as u64 });
        }
        let (text, expected) = text.split_at(len as usize);
        let checksum = checksum(checksum(0, &bytes), text);
        if checksum != number(expected) {
            return Err(Error::HeaderChecksum);
        }
        let header = std::str::from_utf8(text)
            .map_err(|_| Error::Header { what: "it is not UTF-8".to_owned() })?;
        Ok(Reader {
            header: Header::of_text(header)?,
            from,
            offset: (bytes.len() + text.len() + expected.len()) as u64,
            records: 0,
            checksum,
            ending: None,
            payload: Vec::new(),
        })
    }

    /// Returns the header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Reads the next record; `None` after the last record of a whole file.
    ///
    /// # Errors
    /// [`Error::Truncated`], [`Error::Unfinished`], [`Error::Checksum`], [`Error::BadRecord`] and
    /// [`Error::Io`].
    pub fn next_record(&mut self) -> Result<Option<Record>, Error> {
        if self.ending.is_some() {
            return Ok(None);
        }
        let start = self.offset;
        self.read_frame()?;
        let bad = |source| Error::BadRecord { offset: start, source };
        let (&tag, content) = self.payload.split_first().ok_or(bad(Malformed::Empty))?;
        let mut bytes = Bytes(content);
        match tag {
            TAG_CALL => {
                let record = Record::take(&mut bytes).map_err(bad)?;
                if !bytes.0.is_empty() {
                    return Err(bad(Malformed::TooLong(bytes.0.len())));
                }
                self.records += 1;
                Ok(Some(record))
            }
            TAG_END => {
                let ending = self.take_ending(content).map_err(bad)?;
                let mut more = [0; 1];
                if fill(&mut self.from, &mut more)? > 0 {
                    return Err(bad(Malformed::Followed));
                }
                self.ending = Some(ending);
                Ok(None)
            }
            _ => Err(bad(Malformed::Kind(tag))),
        }
    }

    /// Returns the closing record, once it has been read.
    pub fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }

    fn take_ending(&self, content: &[u8]) -> Result<Ending, Malformed> {
        let mut bytes = Bytes(content);
        let records = bytes.take()?;
        let ending = Ending {
            ring_full: bytes.take()?,
            no_memory: bytes.take()?,
            nested: bytes.take()?,
            interrupted: bytes.take()?,
        };
        if !bytes.0.is_empty() {
            return Err(Malformed::TooLong(bytes.0.len()));
        }
        if records != self.records {
            return Err(Malformed::Count { counted: records, there: self.records });
        }
        Ok(ending)
    }

    /// Reads the next content and checks it.
    fn read_frame(&mut self) -> Result<(), Error> {
        let start = self.offset;
        let mut frame = [0; FRAME_BYTES];
        let got = fill(&mut self.from, &mut frame)?;
        self.offset += got as u64;
        match got {
            0 => return Err(Error::Unfinished { offset: start }),
            FRAME_BYTES => {}
            _ => return Err(Error::Truncated { offset: self.offset }),
        }
        let len = number(&frame);
        if len > MAX_RECORD_BYTES {
            return Err(Error::BadRecord { offset: start, source: Malformed::Length(len) });
        }
        self.payload.resize(len as usize, 0);
        let got = fill(&mut self.from, &mut self.payload)?;
        self.offset += got as u64;
        if got < self.payload.len() {
            return Err(Error::Truncated { offset: self.offset });
        }
        self.checksum = checksum(checksum(self.checksum, &frame[..4]), &self.payload);
        if self.checksum != number(&frame[4..]) {
            return Err(Error::Checksum { offset: start });
        }
        Ok(())
    }
}

/// Fills `to` as far as bytes are available, and returns their number.
fn fill(from: &mut impl Read, to: &mut [u8]) -> Result<usize, Error> {
    let mut got = 0;
    while got < to.len() {
        match from.read(&mut to[got..]) {
            Ok(0) => break,
            Ok(more) => got += more,
            Err(why) if why.kind() == ErrorKind::Interrupted => {}
            Err(why) => return Err(Error::Io(why)),
        }
    }
    Ok(got)
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}
