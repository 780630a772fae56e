//! Columns and their types.

use std::borrow::Cow;
use std::fmt::Write as _;

use knee_units::quoted;

use crate::cell::Cell;

/// What the cells of a column are. Any of them may be empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A whole number below 2^63, perhaps negative.
    Whole,
    /// A whole number of 64 bits: a seed, or an algorithm's own value.
    Unsigned,
    Number,
    /// Seconds.
    Seconds,
    /// 0 or 1.
    Flag,
    /// One of few texts: a dictionary, where there are such.
    Word,
    Text,
}

impl Type {
    /// Reads a cell of CSV, without its quotes. `None`: it is of another type.
    pub fn cell(self, text: &str) -> Option<Cell<'_>> {
        if text.is_empty() {
            return Some(Cell::Empty);
        }
        match self {
            Type::Whole => match text.parse() {
                Ok(number @ 0..) => Some(Cell::Whole(number as u64)),
                number => number.ok().map(Cell::Negative),
            },
            Type::Unsigned => text.parse().ok().map(Cell::Whole),
            Type::Number | Type::Seconds => {
                text.parse().ok().filter(|number: &f64| number.is_finite()).map(Cell::Number)
            }
            Type::Flag => match text {
                "0" => Some(Cell::Whole(0)),
                "1" => Some(Cell::Whole(1)),
                _ => None,
            },
            Type::Word | Type::Text => Some(text.into()),
        }
    }

    /// What a cell must be, for messages.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Type::Whole | Type::Unsigned => "a whole number",
            Type::Number | Type::Seconds => "a number",
            Type::Flag => "0 or 1",
            Type::Word | Type::Text => "a text",
        }
    }

    /// Adds a cell as CSV has it, without quotes.
    pub(crate) fn push(self, text: &mut String, cell: &Cell<'_>) {
        // Writing to a `String` cannot fail.
        let _ = match (self, cell) {
            (Type::Seconds, Cell::Number(seconds)) => write!(text, "{seconds:.9}"),
            (_, Cell::Text(word)) => text.write_str(word),
            (_, cell) => write!(text, "{cell}"),
        };
    }
}

/// A column: its name, with the unit, and what its cells are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: Cow<'static, str>,
    pub kind: Type,
}

impl Column {
    /// A column of this name, which ends in its unit.
    pub fn new(name: impl Into<Cow<'static, str>>, kind: Type) -> Column {
        Column { name: name.into(), kind }
    }
}

/// The columns of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// Labels first: the run, its case and so on.
    pub columns: Vec<Column>,
    /// How many of them are labels.
    pub labels: usize,
}

impl Schema {
    /// The first line of CSV, without its end.
    pub fn header(&self) -> String {
        let names = self.columns.iter().map(|column| quoted(&column.name));
        names.collect::<Vec<_>>().join(",")
    }
}
