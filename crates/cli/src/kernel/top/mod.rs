//! `knee top`.

mod app;
mod live;
mod rows;
mod screen;
#[cfg(test)]
mod tests;

use std::io::IsTerminal as _;
use std::time::Duration;

use serde_json::json;

use self::rows::{Column, Row, Sampler};
use super::select::{FilterArgs, NetnsArgs};
use crate::{Failure, print};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print the table once and end.
    #[arg(long)]
    once: bool,
    /// Print JSON, with --once.
    #[arg(long, requires = "once")]
    json: bool,
    /// Connections of all algorithms, not of knee's alone.
    #[arg(long)]
    all: bool,
    /// Only those of this algorithm.
    #[arg(long, value_name = "NAME")]
    algorithm: Option<String>,
    /// Seconds between readings.
    #[arg(long, value_name = "SECONDS", default_value = "1",
          value_parser = clap::value_parser!(u32).range(1..=3600))]
    interval: u32,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    netns: NetnsArgs,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if !args.once && !std::io::stdout().is_terminal() {
        return Err(Failure::Says(
            "knee top needs a terminal: knee top --once prints the table".to_owned(),
        ));
    }
    let mut sampler = Sampler::open(args.filter.filter(args.algorithm.as_deref()))?;
    // Whoever names an algorithm means it.
    let all = args.all || args.algorithm.is_some();
    if !args.once {
        return live::run(sampler, &args.netns, all, Duration::from_secs(args.interval.into()));
    }
    let mut rows = sampler.sample(&args.netns, all)?;
    rows.sort_by(|a, b| Column::Delivery.order(a, b));
    if args.json {
        let connections: Vec<_> = rows.iter().map(rows::as_json).collect();
        return print(&format!("{}\n", json!({ "connections": connections })));
    }
    if rows.is_empty() {
        return print(match all {
            true => "no such connections\n",
            false => "no connections of knee's algorithms (--all shows others)\n",
        });
    }
    print(&table(&rows, args.netns.are_several()))
}

/// The table as text, each column as wide as it must be.
fn table(rows: &[Row], with_netns: bool) -> String {
    let columns: Vec<Column> = Column::ALL
        .into_iter()
        // One reading has no interval.
        .filter(|column| *column != Column::CeNow && (with_netns || *column != Column::Netns))
        .collect();
    let mut lines: Vec<Vec<String>> =
        vec![columns.iter().map(|column| column.title().to_owned()).collect()];
    lines.extend(rows.iter().map(|row| columns.iter().map(|column| column.cell(row)).collect()));
    let width = |at: usize| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut out = String::new();
    for line in &lines {
        let cells = columns.iter().zip(&widths).zip(line);
        let cells: Vec<String> = cells
            .map(|((column, width), cell)| match column.is_right_aligned() {
                true => format!("{cell:>width$}"),
                false => format!("{cell:width$}"),
            })
            .collect();
        out.push_str(cells.join("  ").trim_end());
        out.push('\n');
    }
    out
}
