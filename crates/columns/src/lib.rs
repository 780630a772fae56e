//! Tables of results as columns: [Arrow](ArrowSink) in memory, and Parquet files.
//!
//! A table's [`Schema`](knee_results::Schema) says what each column holds, and rows of [`Cell`](knee_results::Cell)s go into a
//! [`Sink`](knee_results::Sink). Here numbers are numbers, times are seconds as `f64`, cases, metrics and other texts of few values are
//! dictionaries with `Int32` keys, and what CSV has as an empty cell is null. Columns have the names of CSV, with their units.
//!
//! ```
//! use knee_columns::{ArrowSink, ArrowTable};
//! use knee_results::{Column, ResultFile, Sink as _, Type, rows};
//!
//! // knee_sweep::rows::schema gives that of an experiment.
//! let varied = Column::new("network.bottleneck.rate_bps", Type::Number);
//! let mut sink = ArrowSink::new(&ResultFile::Rpc.schema([varied]));
//! sink.label(&[0u64.into(), "dctcp".into(), 1e10.into(), 0u64.into()])?;
//! for latency_us in [40u64, 60] {
//!     let row = rows::Rpc {
//!         flow: 3u32.into(),
//!         traffic: "short".into(),
//!         start_s: knee_results::Cell::Seconds(2_000_000_000),
//!         latency_s: knee_results::Cell::Seconds(latency_us * 1_000_000),
//!     };
//!     sink.row(&row.cells())?;
//! }
//! let ArrowTable { schema, batches } = sink.table()?;
//! assert_eq!(schema.field(6).name(), "start_s");
//! assert_eq!((batches.len(), batches[0].num_rows()), (1, 2));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! All tables of a run go into [`ArrowSinks`]: `knee_sweep::rows::write_rows(&experiment, &done, &done.measure(), &mut sinks)` for a
//! finished run, `knee_sweep::report::write_rows(&experiment, &swept, &mut sinks)` for what covers all runs (summary, percentiles,
//! distributions). Made with `ArrowSinks::new(|file| knee_sweep::rows::schema(file, &experiment))`, they give the tables that have rows.
//! [`columns_of`] gives those of a file of a results directory, whatever its format; [`add`] first makes Parquet known. [`ArrowSink::take`]
//! empties a sink while rows come, so that long series need bounded memory.
#![forbid(unsafe_code)]

mod arrow;
mod cells;
mod guard;
mod parquet;
mod read;

pub use arrow::{ArrowSink, ArrowSinks, ArrowTable, BATCH_ROWS, arrow_schema};
pub use parquet::{Parquet, add};
pub use read::columns_of;
