//! Cells of tables.

use std::borrow::Cow;
use std::fmt;

use knee_units::quoted;

const PS_PER_S: u64 = 1_000_000_000_000;
const PS_PER_NS: u64 = 1_000;

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
    /// A whole number below zero.
    Negative(i64),
    /// In quotes if it must be.
    Text(Cow<'a, str>),
}

impl Cell<'_> {
    /// The same with a text of its own.
    pub fn to_static(&self) -> Cell<'static> {
        match self {
            Cell::Empty => Cell::Empty,
            Cell::Whole(number) => Cell::Whole(*number),
            Cell::Number(number) => Cell::Number(*number),
            Cell::Seconds(ps) => Cell::Seconds(*ps),
            Cell::Negative(number) => Cell::Negative(*number),
            Cell::Text(text) => Cell::Text(text.clone().into_owned().into()),
        }
    }
}

impl fmt::Display for Cell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Empty => Ok(()),
            Cell::Whole(number) => write!(f, "{number}"),
            Cell::Negative(number) => write!(f, "{number}"),
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

impl From<i64> for Cell<'_> {
    fn from(number: i64) -> Self {
        u64::try_from(number).map_or(Cell::Negative(number), Cell::Whole)
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
