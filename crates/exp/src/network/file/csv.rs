//! CSV files that an experiment names: bounded, and every error knows its line.

use std::path::{Path, PathBuf};

use knee_file::keys::{Key, Text};
use knee_file::{Error, Origin, Reader, one_of, unmarked};

/// Largest file, bytes: 400,000 cables of 80 bytes.
const MAX_FILE_BYTES: u64 = 32 << 20;
/// Largest number of cells in a line: some more than there can be columns.
const MAX_CELLS: usize = 100;
/// Longest value in a message, characters.
const SHOWN_CHARS: usize = 40;

/// A file, read whole.
pub(super) struct Csv {
    path: PathBuf,
    text: String,
}

impl Csv {
    /// Reads the file that a key names, relative to the experiment's file.
    pub(super) fn open(reader: &Reader<'_>, key: &Key<Text>) -> Result<Csv, Error> {
        let name = reader.need_text(key)?;
        let path = reader.file().parent().unwrap_or(Path::new("")).join(name);
        let text = knee_files::read_text(&path, MAX_FILE_BYTES, "CSV file");
        match text {
            Ok(text) => Ok(Csv { path, text }),
            Err(knee_files::Unreadable::NotText { line }) => {
                Err(Error::new(&path, Origin::Line(line), "", "is not text in UTF-8"))
            }
            Err(why) => Err(reader.error(key, format!("{}: {why}", path.display()))),
        }
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
            lines: unmarked(&self.text).lines(),
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
                return wrong(format!("the column \"{}\" {message}", shown(name)));
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
            self.cells.clear();
            for cell in line.split(',') {
                if self.cells.len() == MAX_CELLS {
                    let message = format!("has more than {MAX_CELLS} cells");
                    return Err(Error::new(&self.csv.path, Origin::Line(self.line), "", message));
                }
                let cell = cell.trim();
                let inner = cell.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
                let inner = inner.unwrap_or(cell);
                if inner.contains('"') {
                    let message = "has a quote within a cell: names and values have neither quotes nor commas";
                    return Err(Error::new(&self.csv.path, Origin::Line(self.line), "", message));
                }
                self.cells.push(inner.trim());
            }
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
    pub(super) fn error(&self, column: usize, message: impl Into<String>) -> Error {
        let value = shown(self.cell(column));
        Error::new(self.path(), self.origin(), self.rows.known[column], message)
            .with_value(format!("{value:?}"))
    }
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARS).collect()
}
