//! Tables of the page.

use std::fmt::Write as _;

/// A column by its heading, which stands beside each cell where the screen is narrow, unless it is bare.
#[derive(Clone, Copy)]
pub(crate) enum Column {
    Bare(&'static str),
    Text(&'static str),
    Number(&'static str),
}

use Column::{Bare, Number, Text};

/// The head of a table, and the begin of its body.
pub(crate) fn head(columns: &[Column]) -> String {
    let mut out = String::from("<thead><tr>");
    for column in columns {
        let _ = match column {
            Bare(name) | Text(name) => write!(out, "<th>{name}</th>"),
            Number(name) => write!(out, "<th class=\"n\">{name}</th>"),
        };
    }
    out + "</tr></thead><tbody>"
}

/// A row: the HTML of each cell.
pub(crate) fn row<const N: usize>(columns: &[Column; N], cells: [String; N]) -> String {
    let mut out = String::from("<tr>");
    for (column, cell) in columns.iter().zip(cells) {
        let _ = match column {
            Bare(_) => write!(out, "<td>{cell}</td>"),
            Text(name) => write!(out, "<td data-label=\"{name}\">{cell}</td>"),
            Number(name) => write!(out, "<td class=\"n\" data-label=\"{name}\">{cell}</td>"),
        };
    }
    out + "</tr>"
}
