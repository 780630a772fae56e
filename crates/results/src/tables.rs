//! The tables of a results directory: each column is named once, for its header, its rows and its readers.

use std::io;
use std::path::{Path, PathBuf};

use crate::cell::Cell;
use crate::error::Error;
use crate::format::{Format, PARQUET};
use crate::manifest::Manifest;
use crate::schema::{Column, Schema, Type};
use crate::sink::Sink;
use crate::table::Table;

/// First columns of a table.
#[derive(Clone, Copy)]
enum Labels {
    /// The run's number.
    Run,
    /// The same with case, varied values and repeat.
    RunAndCase,
    /// Case and varied values.
    Case,
}

/// The first column of all tables but the summary: the run's number, from 0.
pub const RUN: &str = "run";
/// The case, before a column for each varied value.
pub const CASE: &str = "case";
/// The repeat, behind these.
pub const REPEAT: &str = "repeat";

/// The verdict on a run, in `runs.csv`, whose results are those of its host.
pub const HOST_LIMITED: &str = "host-limited";

/// Tables: the row, the file, what begins each row, and the further columns with what they hold. A row is a struct with a cell for
/// each column. Its readers name a column as `Flow::algorithm`.
macro_rules! tables {
    ($($(#[doc = $doc:literal])* $row:ident $file:literal $labels:ident [$($column:ident: $kind:ident),* $(,)?])*) => {
        /// A table of a results directory.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ResultFile { $($(#[doc = $doc])* $row,)* }

        impl ResultFile {
            /// All of them.
            pub const ALL: [ResultFile; [$($file),*].len()] = [$(ResultFile::$row),*];

            /// The name of the file.
            pub const fn name(self) -> &'static str {
                match self { $(ResultFile::$row => $file,)* }
            }

            /// First columns of each row.
            const fn labels(self) -> Labels {
                match self { $(ResultFile::$row => Labels::$labels,)* }
            }

            /// The columns behind the labels.
            pub const fn columns(self) -> &'static [&'static str] {
                match self { $(ResultFile::$row => &[$(stringify!($column)),*],)* }
            }

            /// What these columns hold.
            pub const fn types(self) -> &'static [Type] {
                match self { $(ResultFile::$row => &[$(Type::$kind),*],)* }
            }
        }

        /// Rows of the tables, each with a cell for every column.
        pub mod rows {
            use super::Cell;

            $(
                $(#[doc = $doc])*
                #[derive(Clone, Debug, PartialEq)]
                pub struct $row<'a> { $(pub $column: Cell<'a>,)* }

                #[expect(non_upper_case_globals, reason = "these are names of columns")]
                impl<'a> $row<'a> {
                    $(pub const $column: &'static str = stringify!($column);)*

                    /// The cells in the order of the columns.
                    pub fn cells(self) -> [Cell<'a>; [$(stringify!($column)),*].len()] {
                        [$(self.$column),*]
                    }
                }
            )*
        }
    };
}

tables! {
    /// A run.
    Run "runs.csv" RunAndCase [
        seed: Unsigned, end_s: Seconds, measured_from_s: Seconds, measured_until_s: Seconds, events: Whole,
        data_pkts: Whole, pkt_hops: Whole, verdict: Word, limits: Text,
    ]
    /// A connection.
    Flow "flows.csv" RunAndCase [
        flow: Whole, traffic: Word, from: Word, to: Word, size_bytes: Text, algorithm: Word, algorithm_at_end: Word,
        ecn: Flag, start_s: Seconds, connected_at_s: Seconds, established_at_s: Seconds, done_at_s: Seconds,
        stopped_at_s: Seconds, completion_s: Seconds, received_bytes: Whole, timeouts: Whole, syn_timeouts: Whole,
        retransmitted_segs: Whole, tail_loss_probes: Whole, fast_recoveries: Whole, undos: Whole,
        spurious_timeouts: Whole, reorderings: Whole, dsack_segs: Whole, cwr_reductions: Whole,
        timeout_rehashes: Whole, duplicate_rehashes: Whole, plb_rehashes: Whole, data_segs_sent: Whole,
        acks_sent: Whole, ce_segs_received: Whole, delivered_pkts: Whole, delivered_ce_pkts: Whole, srtt_s: Seconds,
        min_rtt_s: Seconds, cwnd_pkts: Whole, inits_left_out: Whole,
    ]
    /// A completed exchange.
    Rpc "rpcs.csv" RunAndCase [flow: Whole, traffic: Word, start_s: Seconds, latency_s: Seconds]
    /// A ping.
    Ping "pings.csv" RunAndCase [ping: Whole, traffic: Word, sent_s: Seconds, rtt_s: Seconds]
    /// A recorded link; where flow control cannot stop any, rows end before `pause_frames`.
    Queue "queues.csv" RunAndCase [
        link: Word, offered_pkts: Whole, sent_pkts: Whole, sent_bytes: Whole, marked_pkts: Whole,
        threshold_hits: Whole, dropped_full_pkts: Whole, dropped_not_ect_pkts: Whole, dropped_early_pkts: Whole,
        lost_pkts: Whole, pause_frames: Whole, paused_s: Seconds,
    ]
    /// A host whose receiving was counted.
    Host "hosts.csv" RunAndCase [
        host: Word, wire_pkts: Whole, merged_pkts: Whole, interrupts: Whole, cpu_s: Seconds,
    ]
    /// Counters of Linux modules on a host.
    ModuleCount "module-counters.csv" RunAndCase [host: Word, counter: Word, count: Unsigned]
    /// Lines printed by Linux modules.
    ModuleLine "module-log.csv" RunAndCase [
        at_s: Seconds, host: Word, flow: Whole, level: Word, module: Word, text: Text,
    ]
    /// A sample of a connection; what algorithms tell of their insides follows.
    FlowSample "series-flows.csv" Run [
        at_s: Seconds, flow: Whole, traffic: Word, ca_state: Whole, cwnd_pkts: Whole, ssthresh_pkts: Whole,
        srtt_us: Whole, rttvar_us: Whole, min_rtt_us: Whole, unacked_pkts: Whole, sacked_pkts: Whole,
        lost_pkts: Whole, retrans_out_pkts: Whole, total_retrans: Whole, delivered_pkts: Whole,
        delivered_ce_pkts: Whole, bytes_acked: Whole, pacing_rate_bytes_per_sec: Unsigned, rto_us: Whole,
        data_segs_out: Whole, fast_recoveries: Whole,
    ]
    /// A sample of a queue.
    QueueSample "series-queues.csv" Run [
        at_s: Seconds, link: Word, len_pkts: Whole, len_bytes: Whole, dropped_pkts: Whole, threshold_hits: Whole,
        drop_probability: Number, qdelay_s: Seconds,
    ]
    /// A period of a connection.
    GoodputSample "series-goodput.csv" Run [at_s: Seconds, flow: Whole, traffic: Word, bytes: Whole]
    /// A link with a rate in a period in which it did anything.
    LinkSample "series-links.csv" Run [
        at_s: Seconds, link: Word, sent_pkts: Whole, sent_bytes: Whole, marked_pkts: Whole, dropped_pkts: Whole,
        utilisation: Number,
    ]
    /// A metric of a traffic entry or queue in a run.
    Measure "measures.csv" Run [
        subject: Word, metric: Word, unit: Word, values: Whole, mean: Number, late: Whole, late_mean: Number,
        cut_off: Whole, mean_at_least: Number,
    ]
    /// A percentile of a metric in a run, or its bounds.
    RunPercentile "run-percentiles.csv" Run [
        subject: Word, metric: Word, unit: Word, share: Number, value: Number, at_least: Number, at_most: Number,
    ]
    /// A bucket of the values of a metric in a run.
    Sketch "sketches.csv" RunAndCase [
        subject: Word, metric: Word, unit: Word, bucket: Whole, from: Number, below: Number, count: Whole,
        cut_off: Whole,
    ]
    /// A percentile of a metric from sketches, over all repeats.
    Percentile "percentiles.csv" Case [
        subject: Word, metric: Word, unit: Word, values: Whole, share: Number, value: Number, relative_error: Number,
        cut_off: Whole, at_least: Number, at_most: Number,
    ]
    /// A bucket of the values of a metric, over all repeats that the summary is of.
    Distribution "distributions.csv" Case [
        subject: Word, metric: Word, unit: Word, bucket: Whole, from: Number, below: Number, count: Whole,
        cut_off: Whole,
    ]
    /// A fault of an algorithm from a file, on a connection.
    Warning "warnings.csv" RunAndCase [
        flow: Whole, traffic: Word, warning: Word, count: Whole, first_at_s: Seconds, value: Whole, operation: Word,
        line: Text,
    ]
    /// Something measured of the host in a run.
    Validity "validity.csv" Run [measure: Word, value: Number]
    /// A metric of a traffic entry or queue, over all repeats.
    Summary "summary.csv" Case [
        subject: Word, metric: Word, unit: Word, runs: Whole, values: Whole, mean: Number, ci95: Number, sd: Number,
        sd_of_runs: Number, min: Number, p50: Number, p95: Number, p99: Number, p999: Number, max: Number,
        published: Number, published_stat: Word, cut_off: Whole, mean_at_least: Number, p50_at_least: Number,
        p50_at_most: Number, p95_at_least: Number, p95_at_most: Number, p99_at_least: Number, p99_at_most: Number,
        p999_at_least: Number, p999_at_most: Number, max_at_least: Number, p50_ci95: Number, p95_ci95: Number,
        p99_ci95: Number, p999_ci95: Number,
    ]
}

/// Sinks of the tables of a results directory. A table without rows is not asked for.
pub trait Sinks {
    /// The sink of a table, which has begun.
    ///
    /// # Errors
    /// If it cannot be made.
    fn of(&mut self, file: ResultFile) -> io::Result<&mut dyn Sink>;
}

impl ResultFile {
    /// Whether its rows begin with the run, its case, varied values and repeat, and not with the run alone.
    pub fn has_case(self) -> bool {
        matches!(self.labels(), Labels::RunAndCase)
    }

    /// Whether each of its rows is of one run.
    pub fn is_of_runs(self) -> bool {
        !matches!(self.labels(), Labels::Case)
    }

    /// Its columns, with those of varied keys, each a number or a word.
    pub fn schema(self, axes: impl IntoIterator<Item = Column>) -> Schema {
        let (before, behind): (&[_], &[_]) = match self.labels() {
            Labels::Run => (&[(RUN, Type::Whole)], &[]),
            Labels::RunAndCase => {
                (&[(RUN, Type::Whole), (CASE, Type::Word)], &[(REPEAT, Type::Whole)])
            }
            Labels::Case => (&[(CASE, Type::Word)], &[]),
        };
        let has_case = !matches!(self.labels(), Labels::Run);
        let named = |(name, kind): &(&'static str, Type)| Column::new(*name, *kind);
        let mut columns: Vec<Column> = before.iter().map(named).collect();
        columns.extend(axes.into_iter().filter(|_| has_case));
        columns.extend(behind.iter().map(named));
        let labels = columns.len();
        let own = self.columns().iter().zip(self.types());
        columns.extend(own.map(|(name, kind)| Column::new(*name, *kind)));
        Schema { columns, labels }
    }

    /// The name of the file in a format.
    pub fn name_in(self, format: &dyn Format) -> String {
        format!("{}.{}", self.stem(), format.name())
    }

    /// The name of the file in the results that a manifest describes.
    pub fn name_by(self, manifest: &Manifest) -> String {
        match &manifest.tables {
            Some(format) => format!("{}.{format}", self.stem()),
            None => self.name().to_owned(),
        }
    }

    /// The name of the file without that of its format.
    pub fn stem(self) -> &'static str {
        self.name().trim_end_matches(".csv")
    }

    /// Opens the table of a results directory, in whatever format; `None` where there is none.
    ///
    /// # Errors
    /// [`Error`] as of [`Table::open`], and if there is one in each format.
    pub fn open(self, dir: &Path) -> Result<Option<Table>, Error> {
        self.path(dir)?.map(|path| Table::open(&path)).transpose()
    }

    /// Opens a table that must be there.
    ///
    /// # Errors
    /// [`Error`] as above, and if there is none.
    pub fn must_open(self, dir: &Path) -> Result<Table, Error> {
        let path = self.path(dir)?;
        Table::open(&path.unwrap_or_else(|| dir.join(self.name())))
    }

    /// The path of the table, in whatever format; `None` where there is none.
    ///
    /// # Errors
    /// [`Error`] if there is one in each format.
    pub fn path(self, dir: &Path) -> Result<Option<PathBuf>, Error> {
        let csv = dir.join(self.name());
        let parquet = csv.with_extension(PARQUET);
        let is_there = |path: &Path| path.symlink_metadata().is_ok();
        match (is_there(&csv), is_there(&parquet)) {
            (true, true) => {
                let why = format!(
                    "{} is there, too: which of them is of this run cannot be told; remove one",
                    self.name()
                );
                Err(Error::input(&parquet, 0, why))
            }
            (true, false) => Ok(Some(csv)),
            (false, true) => Ok(Some(parquet)),
            (false, false) => Ok(None),
        }
    }
}
