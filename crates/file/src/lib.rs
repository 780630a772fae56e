//! TOML files that people write, as checked values.
//!
//! [`parse`] makes a tree of a text in which every value knows its line. A [`Reader`] takes typed values out of it, with their units
//! ([`units`]); what each key is stands in one place ([`keys`](mod@keys), or the settings that a part of a run shows: [`Fields`]), of which the reader, a JSON Schema and a page ([`schema`]) are
//! made. Whatever is wrong is one [`Error`]: file, line, key, value and what was allowed there. Every value that was read is
//! noted, defaults included, so that a run can record what it was of.
//!
//! ```
//! use std::cell::RefCell;
//! use std::path::Path;
//!
//! use knee_file::keys::Key;
//! use knee_file::{Error, Reader, parse};
//! use knee_units::time::{Duration, Rate};
//!
//! knee_file::keys! {
//!     /// What joins two machines.
//!     static CABLE: Cable = "cable" {
//!         /// What it carries.
//!         rate: Key<Rate> = needed("10 Gbps"),
//!         /// Propagation, one way.
//!         delay: Key<Duration> = or(Duration::ZERO),
//!     }
//! }
//!
//! fn read(text: &str) -> Result<(Rate, Duration), Error> {
//!     let path = Path::new("cable.toml");
//!     let root = parse(path, text)?;
//!     let notes = RefCell::default();
//!     let cable = Reader::root(path, &root, &notes).only(&[&CABLE])?;
//!     Ok((cable.read(&CABLE.rate)?, cable.read(&CABLE.delay)?))
//! }
//!
//! let (rate, delay) = read("rate = \"10 Gbps\"")?;
//! assert_eq!((rate.bps(), delay), (10_000_000_000, Duration::ZERO));
//! let typo = read("rate = \"10 Gbps\"\ndealy = \"1 us\"").unwrap_err();
//! assert_eq!(typo.to_string(), "cable.toml:2: dealy: unknown key; did you mean \"delay\"?");
//! let unit = read("rate = \"10 gbps\"").unwrap_err();
//! assert_eq!(
//!     unit.to_string(),
//!     "cable.toml:1: rate = \"10 gbps\": must be a rate with its unit; units are case-sensitive, did you mean \"Gbps\"?"
//! );
//! # Ok::<(), Error>(())
//! ```
#![forbid(unsafe_code)]

mod error;
mod fields;
pub mod keys;
mod reader;
pub mod schema;
mod tree;
pub mod units;

pub use error::{Error, More, Origin, Reason};
pub use fields::{Fields, entries_of};
pub use reader::{Reader, Resolved, one_of, shown, unmarked};
pub use tree::{
    Called, NO_WILDCARD, Names, Node, Table, Value, did_you_mean, parse, parse_override,
};
