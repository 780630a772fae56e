//! The tables of a results directory: each column is named once, for its header, its rows and its readers.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::path::Path;

use knee_units::quoted;

use crate::error::Error;
use crate::table::Table;

const PS_PER_S: u64 = 1_000_000_000_000;
const PS_PER_NS: u64 = 1_000;

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

/// A value in a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell<'a> {
    /// Not measured.
    Empty,
    /// A whole number.
    Whole(u64),
    Number(f64),
    /// A time of so many picoseconds, written as seconds with nine decimals.
    Seconds(u64),
    /// In quotes if it must be.
    Text(Cow<'a, str>),
}

impl fmt::Display for Cell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Empty => Ok(()),
            Cell::Whole(number) => write!(f, "{number}"),
            Cell::Number(number) => write!(f, "{number}"),
            Cell::Seconds(ps) => write!(f, "{}.{:09}", ps / PS_PER_S, ps % PS_PER_S / PS_PER_NS),
            Cell::Text(text) => f.write_str(&quoted(text)),
        }
    }
}

impl<'a> From<&'a str> for Cell<'a> {
    fn from(text: &'a str) -> Cell<'a> {
        Cell::Text(text.into())
    }
}

impl From<String> for Cell<'_> {
    fn from(text: String) -> Self {
        Cell::Text(text.into())
    }
}

impl From<f64> for Cell<'_> {
    fn from(number: f64) -> Self {
        Cell::Number(number)
    }
}

impl From<usize> for Cell<'_> {
    fn from(number: usize) -> Self {
        Cell::Whole(number as u64)
    }
}

impl<'a, T: Into<Cell<'a>>> From<Option<T>> for Cell<'a> {
    fn from(value: Option<T>) -> Cell<'a> {
        value.map_or(Cell::Empty, Into::into)
    }
}

macro_rules! whole {
    ($($number:ty)*) => {$(
        impl From<$number> for Cell<'_> {
            fn from(number: $number) -> Self {
                Cell::Whole(number.into())
            }
        }
    )*};
}
whole!(bool u8 u16 u32 u64);

/// Adds a row: its labels as they are, and cells.
pub fn write_row<'a>(out: &mut String, labels: &str, cells: impl IntoIterator<Item = Cell<'a>>) {
    out.push_str(labels);
    for cell in cells {
        // Writing to a `String` cannot fail.
        let _ = write!(out, ",{cell}");
    }
    out.push('\n');
}

/// Tables: the row, the file, what begins each row, and the further columns. A row is a struct with a cell for each column. Its
/// readers name a column as `Flow::algorithm`.
macro_rules! tables {
    ($($(#[doc = $doc:literal])* $row:ident $file:literal $labels:ident [$($column:ident)*])*) => {
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
        seed end_s measured_from_s measured_until_s events data_pkts pkt_hops verdict limits
    ]
    /// A connection.
    Flow "flows.csv" RunAndCase [
        flow traffic from to size_bytes algorithm algorithm_at_end ecn start_s connected_at_s established_at_s done_at_s stopped_at_s
        completion_s received_bytes timeouts syn_timeouts retransmitted_segs tail_loss_probes fast_recoveries undos spurious_timeouts
        reorderings dsack_segs cwr_reductions timeout_rehashes duplicate_rehashes plb_rehashes data_segs_sent acks_sent ce_segs_received delivered_pkts
        delivered_ce_pkts srtt_s min_rtt_s cwnd_pkts inits_left_out
    ]
    /// A completed exchange.
    Rpc "rpcs.csv" RunAndCase [flow traffic start_s latency_s]
    /// A ping.
    Ping "pings.csv" RunAndCase [ping traffic sent_s rtt_s]
    /// A recorded link; where flow control cannot stop any, rows end before `pause_frames`.
    Queue "queues.csv" RunAndCase [
        link offered_pkts sent_pkts sent_bytes marked_pkts threshold_hits dropped_full_pkts dropped_not_ect_pkts dropped_early_pkts
        lost_pkts pause_frames paused_s
    ]
    /// A host whose receiving was counted.
    Host "hosts.csv" RunAndCase [host wire_pkts merged_pkts interrupts cpu_s]
    /// Counters of Linux modules on a host.
    ModuleCount "module-counters.csv" RunAndCase [host counter count]
    /// Lines printed by Linux modules.
    ModuleLine "module-log.csv" RunAndCase [at_s host flow level module text]
    /// A sample of a connection; what algorithms tell of their insides follows.
    FlowSample "series-flows.csv" Run [
        at_s flow traffic ca_state cwnd_pkts ssthresh_pkts srtt_us rttvar_us min_rtt_us unacked_pkts sacked_pkts lost_pkts
        retrans_out_pkts total_retrans delivered_pkts delivered_ce_pkts bytes_acked pacing_rate_bytes_per_sec rto_us data_segs_out
        fast_recoveries
    ]
    /// A sample of a queue.
    QueueSample "series-queues.csv" Run [at_s link len_pkts len_bytes dropped_pkts threshold_hits drop_probability qdelay_s]
    /// A period of a connection.
    GoodputSample "series-goodput.csv" Run [at_s flow traffic bytes]
    /// A link with a rate in a period in which it did anything.
    LinkSample "series-links.csv" Run [at_s link sent_pkts sent_bytes marked_pkts dropped_pkts utilisation]
    /// A metric of a traffic entry or queue in a run.
    Measure "measures.csv" Run [subject metric unit values mean late late_mean cut_off mean_at_least]
    /// A percentile of a metric in a run, or its bounds.
    RunPercentile "run-percentiles.csv" Run [subject metric unit share value at_least at_most]
    /// A bucket of the values of a metric in a run.
    Sketch "sketches.csv" RunAndCase [subject metric unit bucket from below count cut_off]
    /// A percentile of a metric from sketches, over all repeats.
    Percentile "percentiles.csv" Case [subject metric unit values share value relative_error cut_off at_least at_most]
    /// A bucket of the values of a metric, over all repeats that the summary is of.
    Distribution "distributions.csv" Case [subject metric unit bucket from below count cut_off]
    /// A fault of an algorithm from a file, on a connection.
    Warning "warnings.csv" RunAndCase [flow traffic warning count first_at_s value operation line]
    /// Something measured of the host in a run.
    Validity "validity.csv" Run [measure value]
    /// A metric of a traffic entry or queue, over all repeats.
    Summary "summary.csv" Case [
        subject metric unit runs values mean ci95 sd sd_of_runs min p50 p95 p99 p999 max published published_stat cut_off mean_at_least
        p50_at_least p50_at_most p95_at_least p95_at_most p99_at_least p99_at_most p999_at_least p999_at_most max_at_least
        p50_ci95 p95_ci95 p99_ci95 p999_ci95
    ]
}

impl ResultFile {
    /// Whether its rows begin with the run, its case, varied values and repeat, and not with the run alone.
    pub fn has_case(self) -> bool {
        matches!(self.labels(), Labels::RunAndCase)
    }

    /// The first line, with the paths of varied keys, without its end.
    pub fn header<'a>(self, axes: impl IntoIterator<Item = &'a str>) -> String {
        let (before, behind): (&[&str], &[&str]) = match self.labels() {
            Labels::Run => return [&[RUN], self.columns()].concat().join(","),
            Labels::RunAndCase => (&[RUN, CASE], &[REPEAT]),
            Labels::Case => (&[CASE], &[]),
        };
        let axes = axes.into_iter().map(quoted);
        let before = before.iter().map(|name| Cow::from(*name));
        let behind = behind.iter().chain(self.columns()).map(|name| Cow::from(*name));
        before.chain(axes).chain(behind).collect::<Vec<_>>().join(",")
    }

    /// Opens the table of a results directory; `None` where there is none.
    ///
    /// # Errors
    /// [`Error`] as of [`Table::open`].
    pub fn open(self, dir: &Path) -> Result<Option<Table>, Error> {
        Table::open_if_there(&dir.join(self.name()))
    }
}
