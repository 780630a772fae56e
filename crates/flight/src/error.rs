use std::{fmt, io};

use crate::source::SourceFile;

/// Why a recording cannot be read, written or replayed, in one sentence.
#[derive(Debug)]
pub enum Error {
    /// The system's reason.
    Io(io::Error),
    /// The file is something else.
    Foreign,
    /// Another version of the format.
    Version {
        found: u32,
        /// The one that this knee reads.
        known: u32,
    },
    /// The header contradicts this version of knee, or itself.
    Header { what: String },
    /// It is of an algorithm of somebody's own file, which has to be named.
    OfFile {
        source: SourceFile,
        /// The SHA-256 of the file that was named, which is another one.
        given: Option<String>,
    },
    /// The file ends in the middle of something.
    Truncated {
        /// Byte at which it ends.
        offset: u64,
    },
    /// All records are whole, and the one that closes the file is missing.
    Unfinished {
        /// Byte at which it ends.
        offset: u64,
    },
    /// A checksum is not that of the bytes.
    Checksum {
        /// Where the record (or, at 0, the header) begins.
        offset: u64,
    },
    /// The checksum is right, and the content is not.
    BadRecord {
        /// Where the record begins.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// The algorithm's state does not fit a record, so it cannot be replayed.
    LargeState {
        /// Its name.
        algorithm: &'static str,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io(why) => why.fmt(f),
            Error::Foreign => f.write_str("is no flight recording of knee"),
            Error::Version { found, known } => {
                write!(f, "has version {found} of the format; this knee reads version {known}")
            }
            Error::Header { what } => write!(f, "its header does not fit this knee: {what}"),
            Error::OfFile { source, given: None } => write!(
                f,
                "is of the algorithm in {}, which is none of knee's own (its SHA-256 is {}): name that file with --source",
                source.name, source.sha256
            ),
            Error::OfFile { source, given: Some(given) } => write!(
                f,
                "is of a file {} whose SHA-256 is {}; that of the one named is {given}",
                source.name, source.sha256
            ),
            Error::Truncated { offset } => {
                write!(f, "ends at byte {offset}, in the middle of a record: it was cut off")
            }
            Error::Unfinished { offset } => write!(
                f,
                "ends at byte {offset} without its closing record: its writer was killed, or it \
                 was cut off"
            ),
            Error::Checksum { offset: 0 } => {
                f.write_str("the header has been changed: its checksum is wrong")
            }
            Error::Checksum { offset } => write!(
                f,
                "the record at byte {offset}, or the one before, has been changed: its checksum is \
                 wrong"
            ),
            Error::BadRecord { offset, what } => {
                write!(f, "the record at byte {offset} makes no sense: {what}")
            }
            Error::LargeState { algorithm } => write!(
                f,
                "{algorithm} keeps more state than the 512 bytes that a record has room for: it \
                 cannot be replayed"
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io(why) => Some(why),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(why: io::Error) -> Error {
        Error::Io(why)
    }
}
