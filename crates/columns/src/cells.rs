//! Cells as values of columns. `None`: the cell is of another type.

use knee_results::Cell;

const PS_PER_NS: u64 = 1_000;
const NS_PER_S: f64 = 1e9;

/// A whole number below 2^63.
pub(crate) fn whole(cell: &Cell<'_>) -> Option<i64> {
    match cell {
        Cell::Whole(number) => i64::try_from(*number).ok(),
        Cell::Negative(number) => Some(*number),
        _ => None,
    }
}

/// A whole number of 64 bits.
pub(crate) fn unsigned(cell: &Cell<'_>) -> Option<u64> {
    match cell {
        Cell::Whole(number) => Some(*number),
        _ => None,
    }
}

/// A number, or a time in seconds: whole nanoseconds, as CSV has them.
pub(crate) fn number(cell: &Cell<'_>) -> Option<f64> {
    match cell {
        Cell::Number(number) => Some(*number),
        Cell::Seconds(ps) => Some((ps / PS_PER_NS) as f64 / NS_PER_S),
        Cell::Whole(number) => Some(*number as f64),
        Cell::Negative(number) => Some(*number as f64),
        _ => None,
    }
}

pub(crate) fn text<'a>(cell: &'a Cell<'_>) -> Option<&'a str> {
    match cell {
        Cell::Text(text) => Some(text),
        _ => None,
    }
}
