//! Columns of tables: the statistics of a metric, each with its interval over runs.

use knee_scenario::published::Stat;
use knee_scenario::stats::Summary;

/// Statistics of tables where none are asked for, and whether their intervals are shown.
const USUAL: [(Stat, bool); 6] = [
    (Stat::Mean, true),
    (Stat::Sd, false),
    (Stat::P50, false),
    (Stat::P95, false),
    (Stat::P99, true),
    (Stat::Max, false),
];

/// Heading of half an interval's width.
const HALF: &str = "± 95 %";

/// A statistic, and whether half the width of its interval is in a column behind it.
pub(crate) type Column = (Stat, bool);

/// Returns the columns of a table with these summaries: those that are asked for, or the usual ones. A percentile that no row
/// resolves has no column, and neither has an interval that no row has.
pub(crate) fn columns<'a, S: Iterator<Item = &'a Summary>>(
    asked: &[Stat],
    summaries: impl Fn() -> S,
) -> Vec<Column> {
    let all: Vec<Column> = match asked {
        [] => USUAL.to_vec(),
        asked => asked.iter().map(|stat| (*stat, true)).collect(),
    };
    let is_known = |stat: Stat| summaries().any(|summary| stat.possible(summary).is_some());
    let has_half = |stat: Stat| summaries().any(|summary| half(stat, summary).is_some());
    let always = |stat: Stat| asked.is_empty() && matches!(stat, Stat::P50 | Stat::P95);
    all.into_iter()
        .filter(|(stat, _)| stat.share().is_none() || always(*stat) || is_known(*stat))
        .map(|(stat, with)| (stat, with && (stat == Stat::Mean || has_half(stat))))
        .collect()
}

/// Returns half the width of the interval of a statistic whose value is known.
pub(crate) fn half(stat: Stat, summary: &Summary) -> Option<f64> {
    stat.of(summary).and_then(|_| stat.half(summary))
}

/// Returns the headings of these columns and of the number of values.
pub(crate) fn heads(columns: &[Column]) -> Vec<String> {
    let of_column = |(stat, with): &Column| {
        let half = with.then(|| HALF.to_owned());
        std::iter::once(stat.heading().to_owned()).chain(half)
    };
    columns.iter().flat_map(of_column).chain(["values".to_owned()]).collect()
}

/// Returns the cells of a row in these columns, and the number of values.
pub(crate) fn cells(
    columns: &[Column],
    summary: Option<&Summary>,
    show: impl Fn(f64) -> String,
) -> Vec<String> {
    let Some(summary) = summary else { return vec![String::new(); heads(columns).len()] };
    let of_column = |(stat, with): &Column| {
        let value = stat.possible(summary).map_or_else(String::new, |bounds| bounds.show(&show));
        let half = with.then(|| half(*stat, summary).map_or_else(String::new, &show));
        std::iter::once(value).chain(half)
    };
    columns.iter().flat_map(of_column).chain([summary.values.to_string()]).collect()
}
