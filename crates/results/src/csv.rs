//! Lines of CSV.

use std::ops::Range;

use crate::cell::Cell;

/// Lines of CSV without their ends. Those in quotes end none.
pub(crate) fn lines(mut rows: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let mut is_quoted = false;
        let end = rows.bytes().position(|byte| {
            is_quoted ^= byte == b'"';
            byte == b'\n' && !is_quoted
        })?;
        let line = &rows[..end];
        rows = &rows[end + 1..];
        Some(line)
    })
}

/// Cells as CSV, without an end of the line.
pub fn line(cells: &[Cell<'_>]) -> String {
    let cells: Vec<String> = cells.iter().map(Cell::to_string).collect();
    cells.join(",")
}

/// Adds the cells of a line to `text`, and their places in it to `cells`. Returns whether the line is whole.
pub(crate) fn split(line: &str, to: &mut String, cells: &mut Vec<Range<usize>>) -> bool {
    let mut rest = line;
    loop {
        let from = to.len();
        if let Some(mut quoted) = rest.strip_prefix('"') {
            loop {
                let Some((text, after)) = quoted.split_once('"') else { return false };
                to.push_str(text);
                match after.strip_prefix('"') {
                    Some(after) => {
                        to.push('"');
                        quoted = after;
                    }
                    None => {
                        rest = after;
                        break;
                    }
                }
            }
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            to.push_str(&rest[..end]);
            rest = &rest[end..];
        }
        cells.push(from..to.len());
        match rest.strip_prefix(',') {
            Some(after) => rest = after,
            None => return rest.is_empty(),
        }
    }
}
