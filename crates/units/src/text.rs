//! Rows of cells as text: for people, and as CSV.

use std::borrow::Cow;

/// Rows as lines: columns are as wide as they need and two blanks apart, and those that `is_right` names are set to the right.
pub fn aligned(rows: &[impl AsRef<[String]>], is_right: impl Fn(usize) -> bool) -> Vec<String> {
    let rows: Vec<&[String]> = rows.iter().map(AsRef::as_ref).collect();
    let count = rows.iter().map(|row| row.len()).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let line = |row: &&[String]| {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(column, (cell, width))| match is_right(column) {
            true => format!("{cell:>width$}"),
            false => format!("{cell:<width$}"),
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// A cell of a CSV file, in quotes if it must be.
pub fn quoted(text: &str) -> Cow<'_, str> {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")).into(),
        false => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_by_characters() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let rows = [row(["µ", "1"]), Vec::new(), row(["dctcp", "22"])];
        assert_eq!(aligned(&rows, |column| column > 0), ["µ       1", "", "dctcp  22"]);
    }

    #[test]
    fn quotes_stand_only_where_they_must() {
        assert_eq!([quoted("a b"), quoted("a,b"), quoted("\"")], ["a b", "\"a,b\"", "\"\"\"\""]);
    }
}
