use std::io;

use crate::source::SourceFile;

/// The reason why a recording cannot be read, written or replayed, in one sentence.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system reports an error.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file is not a recording.
    #[error("is no flight recording of knee")]
    Foreign,
    /// The file has another version of the format.
    #[error("has version {found} of the format; this knee reads version {known}")]
    Version { found: u32, known: u32 },
    /// The header contradicts this version of knee, or itself.
    #[error("its header does not fit this knee: {what}")]
    Header { what: String },
    /// The algorithm comes from a user's own file, which the caller must name.
    #[error("{}", of_file(file, given.as_deref()))]
    OfFile {
        file: SourceFile,
        /// SHA-256 of the file that the caller named, if it is not the recorded one.
        given: Option<String>,
    },
    /// The file ends in the middle of the header or a record.
    #[error("ends at byte {offset}, in the middle of a record: it was cut off")]
    Truncated { offset: u64 },
    /// All records are whole, but the closing record is missing.
    #[error(
        "ends at byte {offset} without its closing record: its writer was killed, or it was cut off"
    )]
    Unfinished { offset: u64 },
    /// The header's checksum does not match its bytes.
    #[error("the header has been changed: its checksum is wrong")]
    HeaderChecksum,
    /// A record's checksum does not match the bytes so far.
    #[error(
        "the record at byte {offset}, or the one before, has been changed: its checksum is wrong"
    )]
    Checksum { offset: u64 },
    /// The checksum is right, but the content makes no sense.
    #[error("the record at byte {offset} makes no sense: {source}")]
    BadRecord { offset: u64, source: Malformed },
    /// The algorithm's state does not fit a record, so it cannot be replayed.
    #[error(
        "{algorithm} keeps more state than the 512 bytes that a record has room for: it cannot be replayed"
    )]
    LargeState { algorithm: &'static str },
}

/// The part of a record that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("it is empty")]
    Empty,
    #[error("it is too short")]
    TooShort,
    #[error("{0} bytes too many")]
    TooLong(usize),
    #[error("it would have {0} bytes")]
    Length(u32),
    #[error("there is no kind {0}")]
    Kind(u8),
    #[error("it closes the file, and more follows")]
    Followed,
    #[error("it counts {counted} records and there are {there}")]
    Count { counted: u64, there: u64 },
    #[error("a number passes 64 bits")]
    Number,
    #[error("{what} is {value}, which is too large")]
    TooLarge { what: &'static str, value: u64 },
    #[error("{what} is {value}, which is out of range")]
    OutOfRange { what: &'static str, value: i64 },
    #[error("{what} is {value}")]
    Flag { what: &'static str, value: u64 },
    #[error("a text of {0} bytes")]
    Text(usize),
    #[error("a text that is not UTF-8")]
    NotText,
    #[error("there is no operation {0}")]
    Operation(u64),
    #[error("{0} ACKs asked for in one call")]
    Acks(u64),
    #[error("{0} words of state in socket storage")]
    Words(u64),
}

fn of_file(file: &SourceFile, given: Option<&str>) -> String {
    match given {
        None => format!(
            "is of the algorithm in {}, which is none of knee's own (its SHA-256 is {}): name that file with --source",
            file.name, file.sha256
        ),
        Some(given) => format!(
            "is of a file {} whose SHA-256 is {}; that of the one named is {given}",
            file.name, file.sha256
        ),
    }
}
