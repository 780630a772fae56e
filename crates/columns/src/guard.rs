//! What a Parquet file may make its reader allocate, looked at before it does.
//!
//! Sizes in such a file are claims: a page of some bytes may name gigabytes, and lists may nest. Footers and headers of pages are
//! structures of Thrift's compact protocol, which are walked here without anything being kept.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// First and last bytes of a file.
const MAGIC: &[u8; 4] = b"PAR1";
/// Length of the footer and the magic behind it, bytes.
const TAIL_BYTES: u64 = 8;
/// Largest footer, bytes: that of a hundred million samples.
const MOST_FOOTER_BYTES: u64 = 16 << 20;
/// Most structures in it, each of which takes some hundred bytes in memory.
const MOST_STRUCTS: usize = 1 << 19;
const MOST_DEPTH: usize = 12;
/// Most columns of a table.
pub(crate) const MOST_COLUMNS: usize = 4096;
/// Largest page, bytes. Those of knee have a MiB.
const MOST_PAGE_BYTES: i64 = 8 << 20;
/// Largest header of a page, bytes.
const MOST_HEADER_BYTES: usize = 4096;
/// Most pages of a column in a group of rows.
const MOST_PAGES: usize = 1 << 16;

/// Checks the footer of a file.
///
/// # Errors
/// A phrase that follows the file's name.
pub(crate) fn footer(file: &File) -> Result<(), String> {
    let failed = |why: io::Error| format!("cannot be read: {why}");
    let len = file.metadata().map_err(failed)?.len();
    let cut = || "has no end: the file is cut, or is being written".to_owned();
    let (mut begin, mut tail) = ([0; 4], [0; TAIL_BYTES as usize]);
    let least = MAGIC.len() as u64 + TAIL_BYTES;
    if len < least {
        return Err(cut());
    }
    file.read_exact_at(&mut begin, 0).map_err(failed)?;
    file.read_exact_at(&mut tail, len - TAIL_BYTES).map_err(failed)?;
    if begin != *MAGIC {
        return Err("is not Parquet".to_owned());
    }
    if tail[4..] != *MAGIC {
        return Err(cut());
    }
    let footer = u64::from(u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]));
    if footer > MOST_FOOTER_BYTES {
        return Err(format!("has a footer of {footer} bytes: this is not a results table"));
    }
    let from = (len - TAIL_BYTES).checked_sub(footer).ok_or_else(cut)?;
    let mut bytes = vec![0; footer as usize];
    file.read_exact_at(&mut bytes, from).map_err(failed)?;
    let (mut parents, mut walk) = (0, Walk::new(&bytes));
    let walked = walk.structure(0, &mut |at, value| {
        parents += usize::from(at == NUM_CHILDREN && value > 0);
    });
    walked.ok_or_else(|| "has a damaged footer".to_owned())?;
    // The table itself is one. Those below it would be read one within another.
    match parents {
        0 | 1 => Ok(()),
        _ => Err("has columns of lists or structures: this is not a results table".to_owned()),
    }
}

/// Checks the pages of a column in a group of rows, at this place of the file.
///
/// # Errors
/// A phrase that follows the file's name.
pub(crate) fn pages(file: &File, from: u64, len: u64) -> Result<(), String> {
    let damaged = || "is damaged: a page does not lie in its column".to_owned();
    let whole = file.metadata().map_err(|why| format!("cannot be read: {why}"))?.len();
    let end = from.checked_add(len).filter(|end| *end <= whole).ok_or_else(damaged)?;
    let mut at = from;
    let mut has_dictionary = false;
    let mut header = [0; MOST_HEADER_BYTES];
    for _ in 0..MOST_PAGES {
        if at == end {
            return Ok(());
        }
        let here = usize::try_from(end - at).unwrap_or(usize::MAX).min(MOST_HEADER_BYTES);
        file.read_exact_at(&mut header[..here], at).map_err(|_| damaged())?;
        let mut walk = Walk::new(&header[..here]);
        let (mut uncompressed, mut compressed, mut in_dictionary) = (-1, -1, None);
        let mut is_readable = true;
        let walked = walk.structure(0, &mut |at, value| match at {
            UNCOMPRESSED_SIZE => uncompressed = value,
            COMPRESSED_SIZE => compressed = value,
            DICTIONARY_VALUES => in_dictionary = Some(value),
            ENCODING | ENCODING_2 => {
                is_readable &=
                    VALUES.contains(&value) || (BY_DICTIONARY.contains(&value) && has_dictionary);
            }
            LEVELS | LEVELS_TOO => is_readable &= value == RLE,
            _ => {}
        });
        has_dictionary |= in_dictionary.is_some();
        let used = here - walk.rest.len();
        if walked.is_none() || uncompressed < 0 || compressed < 0 {
            return Err(damaged());
        }
        if uncompressed > MOST_PAGE_BYTES {
            return Err(format!("has a page of {uncompressed} bytes: this is not a results table"));
        }
        // Each value has a byte at least, and is allocated before it is read.
        if !is_readable || in_dictionary.is_some_and(|values| values > uncompressed) {
            return Err(
                "has values that knee does not write: this is not a results table".to_owned()
            );
        }
        at += used as u64 + compressed as u64;
        if at > end {
            return Err(damaged());
        }
    }
    Err("has too many pages: this is not a results table".to_owned())
}

/// Where a number is: its field, how many structures and lists are around that, and the field of the outermost.
#[derive(Clone, Copy, PartialEq, Eq)]
struct At {
    top: i64,
    depth: usize,
    field: i64,
}

/// In a footer, how many nodes of the schema are below one of them.
const NUM_CHILDREN: At = At { top: 2, depth: 2, field: 5 };
/// In the header of a page.
const UNCOMPRESSED_SIZE: At = At { top: 2, depth: 0, field: 2 };
const COMPRESSED_SIZE: At = At { top: 3, depth: 0, field: 3 };
const DICTIONARY_VALUES: At = At { top: 7, depth: 1, field: 1 };
/// How values are encoded, in pages of the first and the second version, and the levels of the first.
const ENCODING: At = At { top: 5, depth: 1, field: 2 };
const ENCODING_2: At = At { top: 8, depth: 1, field: 4 };
const LEVELS: At = At { top: 5, depth: 1, field: 3 };
const LEVELS_TOO: At = At { top: 5, depth: 1, field: 4 };
/// By runs, as levels and flags are.
const RLE: i64 = 3;
/// Plain, by runs, split by bytes. Encodings by differences claim lengths that nothing here bounds.
const VALUES: [i64; 3] = [0, RLE, 9];
/// By the numbers of a dictionary, which must be there.
const BY_DICTIONARY: [i64; 2] = [2, 8];

/// What is left of a structure's bytes.
struct Walk<'a> {
    rest: &'a [u8],
    structs: usize,
    top: i64,
}

type Found<'a> = &'a mut dyn FnMut(At, i64);

impl<'a> Walk<'a> {
    fn new(rest: &'a [u8]) -> Walk<'a> {
        Walk { rest, structs: 0, top: 0 }
    }
}

/// Walks return `None` where bytes are none of the protocol, or too many.
impl Walk<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn skip(&mut self, bytes: u64) -> Option<()> {
        self.rest = self.rest.get(usize::try_from(bytes).ok()?..)?;
        Some(())
    }

    /// A number of seven bits a byte.
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn zigzag(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// A structure. Its whole numbers are handed over.
    fn structure(&mut self, depth: usize, found: Found<'_>) -> Option<()> {
        self.structs += 1;
        if depth > MOST_DEPTH || self.structs > MOST_STRUCTS {
            return None;
        }
        let mut field = 0;
        loop {
            let head = self.byte()?;
            let kind = head & 0x0f;
            if kind == 0 {
                return Some(());
            }
            field = match head >> 4 {
                0 => self.zigzag()?,
                more => field + i64::from(more),
            };
            if depth == 0 {
                self.top = field;
            }
            match kind {
                // A flag is its type.
                1 | 2 => {}
                4..=6 => found(At { top: self.top, depth, field }, self.zigzag()?),
                _ => self.value(kind, depth, found)?,
            }
        }
    }

    fn value(&mut self, kind: u8, depth: usize, found: Found<'_>) -> Option<()> {
        match kind {
            1..=3 => self.skip(1),
            4..=6 => self.varint().map(drop),
            7 => self.skip(8),
            8 => {
                let len = self.varint()?;
                self.skip(len)
            }
            9 | 10 => {
                let head = self.byte()?;
                let len = match head >> 4 {
                    15 => self.varint()?,
                    len => u64::from(len),
                };
                // Each element has a byte at least.
                if depth > MOST_DEPTH || len > self.rest.len() as u64 {
                    return None;
                }
                (0..len).try_for_each(|_| self.value(head & 0x0f, depth + 1, found))
            }
            12 => self.structure(depth + 1, found),
            // Parquet has no maps.
            _ => None,
        }
    }
}
