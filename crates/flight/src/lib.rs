//! Flight recordings: every call of an algorithm, with its inputs and its effects.
//!
//! A [`Record`] is one call. knee records calls from a running kernel and from the simulator's
//! sockets, both into the same file format ([`Writer`], [`Reader`], `docs/flight-format.md`). A
//! [`Replay`] makes the same calls on the native build and compares all effects. [`OtherWay`] asks
//! another algorithm what it would have done in the same place.
//!
//! ```
//! use knee_algo::{Algorithm, Call, GivenLog, TcpSock};
//! use knee_flight::{Ending, Header, Origin, Reader, Record, Replay, Writer};
//!
//! let reno = Algorithm::by_name("reno")?;
//! let header = Header::new(reno, &reno.default_params(), Origin::Simulator, 1000);
//! let mut writer = Writer::new(Vec::new(), &header)?;
//! let sock = TcpSock { snd_cwnd: 10, ..TcpSock::default() };
//! let mut given = GivenLog { count: 1, ..GivenLog::default() };
//! given.given[0] = knee_algo::Given { kind: 5, value: 5, snd_cwnd: 10, snd_cwnd_cnt: 0 };
//! writer.write(&Record { result: 5, given, ..Record::new(Call::Ssthresh, &sock, &sock) })?;
//! let file = writer.finish(&Ending::default())?;
//!
//! let mut reader = Reader::new(file.as_slice())?;
//! let (algorithm, params) = reader.header().algorithm()?;
//! let mut replay = Replay::new(algorithm, params, reader.header().hz)?;
//! while let Some(record) = reader.next_record()? {
//!     replay.step(&record);
//! }
//! assert!(replay.finish().is_equal());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod bytes;
mod diff;
mod error;
mod header;
mod observed;
mod other;
mod reader;
mod record;
mod replay;
mod show;
mod source;
mod writer;

pub use diff::{Diff, Pair, Parted, TooFarApart};
pub use error::{Error, Malformed};
pub use header::{Header, Origin};
pub use observed::observer;
pub use other::{OtherWay, Outcome, Row, Tally};
pub use reader::Reader;
pub use record::{Record, without_last_zeroes};
pub use replay::{Difference, Replay, Report};
pub use show::{Change, Shown, View};
pub use source::SourceFile;
pub use writer::{Ending, Writer};
