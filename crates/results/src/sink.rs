//! Sinks of rows.

use std::io::{self, Write};

use crate::cell::Cell;
use crate::csv::{lines, split};
use crate::schema::Schema;

/// Where the rows of a table go. After [`begin`](Sink::begin) come labels and rows, then [`finish`](Sink::finish).
pub trait Sink {
    /// Begins a table.
    ///
    /// # Errors
    /// The system's, if it cannot be written; so below.
    fn begin(&mut self, schema: &Schema) -> io::Result<()>;

    /// Cells of the label columns, for all rows that follow.
    ///
    /// # Errors
    /// As above, and if a cell is not of its column's type.
    fn label(&mut self, cells: &[Cell<'_>]) -> io::Result<()>;

    /// A row: a cell for every other column.
    ///
    /// # Errors
    /// As above.
    fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()>;

    /// Rows of CSV, labels and all: those of a journal.
    ///
    /// # Errors
    /// As above, and if they are not of this schema.
    fn text(&mut self, schema: &Schema, rows: &str) -> io::Result<()> {
        let wrong = || io::Error::other("a row of the journal is not of its table");
        let (mut text, mut places) = (String::new(), Vec::new());
        for line in lines(rows) {
            text.clear();
            places.clear();
            if !split(line, &mut text, &mut places) || places.len() != schema.columns.len() {
                return Err(wrong());
            }
            let cells = places.iter().zip(&schema.columns);
            let cells = cells.map(|(at, column)| column.kind.cell(&text[at.clone()]));
            let cells: Vec<Cell<'_>> = cells.collect::<Option<_>>().ok_or_else(wrong)?;
            let (labels, cells) = cells.split_at(schema.labels);
            self.label(labels)?;
            self.row(cells)?;
        }
        Ok(())
    }

    /// Ends the table: all rows are written.
    ///
    /// # Errors
    /// As above.
    fn finish(&mut self) -> io::Result<()>;
}

/// Rows as CSV.
#[derive(Clone, Debug, Default)]
pub struct Csv<W> {
    out: W,
    label: Vec<u8>,
    line: Vec<u8>,
}

impl<W: Write> Csv<W> {
    /// A sink that writes there.
    pub fn new(out: W) -> Csv<W> {
        Csv { out, label: Vec::new(), line: Vec::new() }
    }

    /// What was written to.
    pub fn into_inner(self) -> W {
        self.out
    }
}

/// Appends cells with commas between them.
fn join(line: &mut Vec<u8>, cells: &[Cell<'_>]) -> io::Result<()> {
    for (number, cell) in cells.iter().enumerate() {
        if number > 0 {
            line.push(b',');
        }
        write!(line, "{cell}")?;
    }
    Ok(())
}

impl<W: Write> Sink for Csv<W> {
    fn begin(&mut self, schema: &Schema) -> io::Result<()> {
        writeln!(self.out, "{}", schema.header())
    }

    fn label(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        self.label.clear();
        join(&mut self.label, cells)?;
        if !cells.is_empty() {
            self.label.push(b',');
        }
        Ok(())
    }

    fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        self.line.clear();
        self.line.extend_from_slice(&self.label);
        join(&mut self.line, cells)?;
        self.line.push(b'\n');
        self.out.write_all(&self.line)
    }

    fn text(&mut self, _: &Schema, rows: &str) -> io::Result<()> {
        self.out.write_all(rows.as_bytes())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
