//! CSV files that an experiment names: bounded, and every error knows its line.

use std::path::{Path, PathBuf};

use knee_file::keys::{Key, Text};
use knee_file::{Error, Origin, Reader, Reason, one_of};

use crate::inputs;

/// Largest file, bytes: 400,000 cables of 80 bytes.
const MAX_FILE_BYTES: u64 = 32 << 20;

/// A file, read whole.
pub(super) struct Csv {
    path: PathBuf,
    text: String,
}

impl Csv {
    /// Reads the file that a key names, relative to the experiment's file.
    pub(super) fn open(reader: &Reader<'_>, key: &Key<Text>) -> Result<Csv, Error> {
        let name = reader.need_text(key)?;
        let inputs::Text { path, text } =
            inputs::read_text(reader, key, name, MAX_FILE_BYTES, "CSV file")?;
        Ok(Csv { path, text })
    }

    /// An error about the whole file.
    pub(super) fn error(&self, message: &str) -> Error {
        Error::new(&self.path, Origin::Nowhere, "", message)
    }

    /// Reads the header, whose columns are some of `known`, each at most once, and at least the first `needed`.
    pub(super) fn rows<'c>(
        &'c self,
        known: &'static [&'static str],
        needed: usize,
    ) -> Result<Rows<'c>, Error> {
        let mut rows = Rows {
            csv: self,
            lines: self.text.lines(),
            line: 0,
            known,
            places: vec![None; known.len()],
            cells: Vec::new(),
        };
        if !rows.advance()? {
            let header = known[..needed].join(",");
            return Err(self.error(&format!("is empty: its first line must be {header}")));
        }
        let origin = Origin::Line(rows.line);
        let wrong = |message| Err(Error::new(&self.path, origin, "", message));
        for (place, name) in rows.cells.iter().enumerate() {
            let Some(column) = known.iter().position(|known| known == name) else {
                let message = one_of(name, known.iter().copied());
                return wrong(format!("the column {} {message}", inputs::shown(name)));
            };
            if rows.places[column].replace(place).is_some() {
                return wrong(format!("has the column {name} twice"));
            }
        }
        match rows.places[..needed].iter().position(Option::is_none) {
            Some(missing) => wrong(format!("has no column {}", known[missing])),
            None => Ok(rows),
        }
    }
}

/// Rows that are still to come.
pub(super) struct Rows<'c> {
    csv: &'c Csv,
    lines: std::str::Lines<'c>,
    line: u32,
    known: &'static [&'static str],
    /// Place of each known column in a line.
    places: Vec<Option<usize>>,
    cells: Vec<&'c str>,
}

impl<'c> Rows<'c> {
    /// The next row. Empty lines and those that begin with `#` are left out.
    pub(super) fn next_row(&mut self) -> Result<Option<Row<'c, '_>>, Error> {
        let width = self.cells.len();
        if !self.advance()? {
            return Ok(None);
        }
        if self.cells.len() != width {
            let message =
                format!("must have {width} cells, as the header, not {}", self.cells.len());
            return Err(Error::new(&self.csv.path, Origin::Line(self.line), "", message));
        }
        Ok(Some(Row { rows: self }))
    }

    /// Splits the next line. Returns whether there is one.
    fn advance(&mut self) -> Result<bool, Error> {
        loop {
            let Some(line) = self.lines.next() else { return Ok(false) };
            self.line = self.line.saturating_add(1);
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            inputs::split(line, &mut self.cells)
                .map_err(|why| Error::new(&self.csv.path, Origin::Line(self.line), "", why))?;
            return Ok(true);
        }
    }
}

/// A row: cells by known column.
pub(super) struct Row<'c, 'r> {
    rows: &'r Rows<'c>,
}

impl<'c> Row<'c, '_> {
    /// A cell; empty if the file has no such column.
    pub(super) fn cell(&self, column: usize) -> &'c str {
        self.rows.places[column].map_or("", |place| self.rows.cells[place])
    }

    pub(super) fn path(&self) -> &'c Path {
        &self.rows.csv.path
    }

    pub(super) fn origin(&self) -> Origin {
        Origin::Line(self.rows.line)
    }

    /// An error about a cell.
    pub(super) fn error(&self, column: usize, message: impl Into<Reason>) -> Error {
        Error::new(self.path(), self.origin(), self.rows.known[column], message)
            .with_value(inputs::shown(self.cell(column)))
    }
}
