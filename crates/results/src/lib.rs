//! Results directories: what `knee run` writes, and what `knee compare`, `knee report` and others read.
//!
//! [`Manifest`] says what was run. Tables have a row for each run, connection, sample and so on: [`ResultFile`] lists them, [`rows`] has
//! their columns, [`Table`] reads one in bounded memory. [`Metric`] lists what is measured, and of which [`Kind`] of traffic.
//! `docs/results.md` says what everything means.
//!
//! ```
//! use knee_results::{Csv, Manifest, ResultFile, Sink as _, rows};
//!
//! let made = tempfile::tempdir()?;
//! let dir = made.path();
//! let manifest = r#"{ "experiment": "two-flows", "cases": ["cubic", "dctcp"] }"#;
//! knee_files::write(&dir.join(Manifest::FILE), manifest)?;
//! let mut csv = Csv::new(Vec::new());
//! csv.begin(&ResultFile::Rpc.schema([]))?;
//! let row = rows::Rpc {
//!     flow: 3u32.into(),
//!     traffic: "bulk, short".into(),
//!     start_s: knee_results::Cell::Seconds(2_000_000_000),
//!     latency_s: None::<f64>.into(),
//! };
//! csv.label(&[0u64.into(), "cubic".into(), 0u64.into()])?;
//! csv.row(&row.cells())?;
//! let text = csv.into_inner();
//! assert_eq!(text, b"run,case,repeat,flow,traffic,start_s,latency_s\n0,cubic,0,3,\"bulk, short\",0.002000000,\n");
//! knee_files::write(&dir.join(ResultFile::Rpc.name()), text)?;
//!
//! let manifest = Manifest::read(dir)?;
//! assert_eq!((manifest.cases[1].as_str(), manifest.seed), ("dctcp", None));
//! let mut table = ResultFile::Rpc.open(dir)?.expect("it is there");
//! let [traffic, latency] = table.columns([rows::Rpc::traffic, rows::Rpc::latency_s])?;
//! let row = table.next()?.expect("it has one");
//! assert_eq!((row.text(traffic), row.number(latency)?), ("bulk, short", None));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod cell;
mod csv;
mod error;
pub mod format;
pub mod manifest;
mod metric;
pub mod reproduction;
mod schema;
mod sink;
mod sketch;
mod table;
mod tables;
mod verdict;

pub use cell::Cell;
pub use csv::line;
pub use error::Error;
pub use format::Format;
pub use knee_units::quoted;
pub use manifest::{Manifest, read_json};
pub use metric::{Better, Kind, Metric};
pub use schema::{Column, Schema, Type};
pub use sink::{Csv, Sink};
pub use sketch::{Bucket, Sketch, Sketched};
pub use table::{Row, Table};
pub use tables::{CASE, HOST_LIMITED, REPEAT, RUN, ResultFile, Sinks, rows};
pub use verdict::{CheckVerdict, ClaimVerdict};
