//! Tables, a row at a time in bounded memory.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::cell::Cell;
use crate::csv::split;
use crate::error::Error;
use crate::format::{self, Rows};
use crate::manifest::Axis;
use crate::schema::{Schema, Type};

/// Longer lines are no table of ours.
const LONGEST_LINE: u64 = 64 * 1024;

/// A table and the row that was read last.
pub struct Table {
    path: PathBuf,
    input: Input,
    header: Vec<String>,
    /// The row's cells, one after another.
    text: String,
    cells: Vec<Range<usize>>,
}

/// Where rows come from.
enum Input {
    Csv(Lines),
    /// Another format.
    Other(Typed),
}

/// Rows of another format, with the types of their columns and the number of the last one.
struct Typed {
    rows: Box<dyn Rows>,
    types: Vec<Type>,
    row: u64,
}

/// Lines of CSV.
struct Lines {
    input: BufReader<File>,
    line: u64,
    raw: Vec<u8>,
}

/// A row: cells by column.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    table: &'a Table,
}

impl Table {
    /// Opens a file and reads its header. The end of its name is that of its format.
    ///
    /// # Errors
    /// [`Error`] if it cannot be read or is no table.
    pub fn open(path: &Path) -> Result<Table, Error> {
        let file = knee_files::open_file(path, "table of results")
            .map_err(|why| Error::unreadable(path, why))?;
        let format = format::of(path)?;
        let input = match format.open(path, &file)? {
            Some(rows) => {
                let types = rows.schema().columns.iter().map(|column| column.kind).collect();
                Input::Other(Typed { rows, types, row: 0 })
            }
            None => {
                let input = BufReader::with_capacity(1 << 18, file);
                Input::Csv(Lines { input, line: 0, raw: Vec::new() })
            }
        };
        let mut table = Table {
            path: path.to_owned(),
            input,
            header: Vec::new(),
            text: String::new(),
            cells: Vec::new(),
        };
        if let Input::Other(typed) = &table.input {
            let names = typed.rows.schema().columns.iter();
            table.header = names.map(|column| column.name.clone().into_owned()).collect();
            return Ok(table);
        }
        if !table.read()? {
            return Err(table.wrong("is empty: run the experiment again"));
        }
        table.header = table.cells.iter().map(|cell| table.text[cell.clone()].to_owned()).collect();
        Ok(table)
    }

    /// The same; `None` where there is no such file.
    ///
    /// # Errors
    /// As of [`Table::open`].
    pub fn open_if_there(path: &Path) -> Result<Option<Table>, Error> {
        match Table::open(path) {
            Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// The names of its columns.
    pub fn header(&self) -> &[String] {
        &self.header
    }

    /// Its columns with their types, if its format has them. CSV does not.
    pub fn types(&self) -> Option<&Schema> {
        match &self.input {
            Input::Csv(_) => None,
            Input::Other(typed) => Some(typed.rows.schema()),
        }
    }

    /// Hands over the next row, with a cell for each column of `schema`, which has all of the table's in their order. Returns whether
    /// there was one.
    ///
    /// # Errors
    /// [`Error`] as of [`Table::next`], and if a cell is of another type.
    pub fn each(
        &mut self,
        schema: &Schema,
        to: &mut dyn FnMut(&[Cell<'_>]),
    ) -> Result<bool, Error> {
        if let Input::Other(typed) = &mut self.input {
            typed.row += 1;
            return typed.rows.next(to);
        }
        let Some(row) = self.next()? else { return Ok(false) };
        let mut cells = Vec::with_capacity(schema.columns.len());
        for (number, column) in schema.columns.iter().enumerate() {
            cells.push(column.kind.cell(row.text(number)).ok_or_else(|| {
                let shown: String = row.text(number).chars().take(40).collect();
                let wanted = column.kind.words();
                row.table.wrong(&format!("{} = {shown:?}: must be {wanted}", column.name))
            })?);
        }
        to(&cells);
        Ok(true)
    }

    /// The number of a column that may be missing.
    pub fn find(&self, column: &str) -> Option<usize> {
        self.header.iter().position(|name| name == column)
    }

    /// The numbers of columns.
    ///
    /// # Errors
    /// [`Error`] if one is missing.
    pub fn columns<const N: usize>(&self, names: [&str; N]) -> Result<[usize; N], Error> {
        let mut at = [0; N];
        for (at, name) in at.iter_mut().zip(names) {
            *at = self.column(name)?;
        }
        Ok(at)
    }

    /// The numbers of the columns of varied values.
    ///
    /// # Errors
    /// [`Error`] if one is missing.
    pub fn axes(&self, axes: &[Axis]) -> Result<Vec<usize>, Error> {
        axes.iter().map(|axis| self.column(axis.column())).collect()
    }

    fn column(&self, column: &str) -> Result<usize, Error> {
        self.find(column).ok_or_else(|| {
            Error::input(
                &self.path,
                1,
                format!(
                    "has no column \"{column}\": it comes from another version, or is not a \
                    results file"
                ),
            )
        })
    }

    /// The next row; `None`: there is none.
    ///
    /// # Errors
    /// [`Error`] if it is cut, too long or no text.
    #[expect(clippy::should_implement_trait, reason = "a row lasts until the next one is read")]
    pub fn next(&mut self) -> Result<Option<Row<'_>>, Error> {
        if !self.read()? {
            return Ok(None);
        }
        if self.cells.len() != self.header.len() {
            return Err(self.wrong(&format!(
                "has {} cells, but the header has {}: the file is cut or was changed",
                self.cells.len(),
                self.header.len()
            )));
        }
        Ok(Some(Row { table: self }))
    }

    /// An error about the row that was read last.
    pub fn wrong(&self, message: &str) -> Error {
        let line = match &self.input {
            Input::Csv(lines) => lines.line,
            Input::Other(typed) => typed.row,
        };
        Error::input(&self.path, line, message)
    }

    /// Reads a row's cells. Returns whether there was one.
    fn read(&mut self) -> Result<bool, Error> {
        self.text.clear();
        self.cells.clear();
        match &mut self.input {
            Input::Csv(lines) => lines.read(&self.path, &mut self.text, &mut self.cells),
            Input::Other(Typed { rows, types, row }) => {
                let (text, cells) = (&mut self.text, &mut self.cells);
                let is_there = rows.next(&mut |row| {
                    for (cell, kind) in row.iter().zip(&*types) {
                        let from = text.len();
                        kind.push(text, cell);
                        cells.push(from..text.len());
                    }
                })?;
                *row += u64::from(is_there);
                Ok(is_there)
            }
        }
    }
}

impl Lines {
    fn read(
        &mut self,
        path: &Path,
        text: &mut String,
        cells: &mut Vec<Range<usize>>,
    ) -> Result<bool, Error> {
        let inside = self.raw.iter().filter(|byte| **byte == b'\n').count();
        self.raw.clear();
        let mut limited = (&mut self.input).take(LONGEST_LINE);
        let mut quotes = 0;
        // A line that ends in quotes goes on.
        while self.raw.is_empty() || quotes % 2 == 1 {
            let from = self.raw.len();
            let read = limited.read_until(b'\n', &mut self.raw);
            if read.map_err(|why| Error::io(path, "cannot read", why))? == 0 {
                break;
            }
            quotes += self.raw[from..].iter().filter(|byte| **byte == b'"').count();
        }
        if self.raw.is_empty() {
            return Ok(false);
        }
        self.line += 1 + inside as u64;
        let wrong = |message: &str| Error::input(path, self.line, message);
        match self.raw.pop() {
            Some(b'\n') => {}
            _ if self.raw.len() as u64 + 1 >= LONGEST_LINE => {
                return Err(wrong("is longer than 64 KiB: this is not a results table"));
            }
            _ => return Err(wrong("has no end: the file is cut")),
        }
        if self.raw.last() == Some(&b'\r') {
            self.raw.pop();
        }
        match std::str::from_utf8(&self.raw).is_ok_and(|line| split(line, text, cells)) {
            true => Ok(true),
            false => Err(wrong("is not CSV: a quote does not end, or it is not text")),
        }
    }
}

impl<'a> Row<'a> {
    /// A cell.
    pub fn text(self, column: usize) -> &'a str {
        &self.table.text[self.table.cells[column].clone()]
    }

    /// Cells from one column to before another, with the names of their columns.
    pub fn between(self, from: usize, before: usize) -> impl Iterator<Item = (&'a str, &'a str)> {
        let names = self.table.header.iter().enumerate().take(before).skip(from);
        names.map(move |(column, name)| (name.as_str(), self.text(column)))
    }

    /// A number; `None`: the cell is empty.
    ///
    /// # Errors
    /// [`Error`] if it is something else.
    pub fn number(self, column: usize) -> Result<Option<f64>, Error> {
        let text = self.text(column);
        if text.is_empty() {
            return Ok(None);
        }
        let number = text.parse().ok().filter(|number: &f64| number.is_finite());
        number.map(Some).ok_or_else(|| {
            let shown: String = text.chars().take(40).collect();
            let name = &self.table.header[column];
            self.table.wrong(&format!("{name} = {shown:?}: must be a number"))
        })
    }

    /// A number that names something.
    ///
    /// # Errors
    /// [`Error`] if the cell is something else.
    pub fn index(self, column: usize) -> Result<u64, Error> {
        let number = self.text(column).parse();
        number.map_err(|_| {
            let name = &self.table.header[column];
            self.table.wrong(&format!("{name}: must be a whole number"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table that is gone from the disk as soon as it is open.
    fn table(name: &str, text: &str) -> Result<Table, Error> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join(name);
        std::fs::write(&path, text).expect("a temporary file");
        Table::open(&path)
    }

    #[test]
    fn quotes_hold_commas_quotes_and_ends_of_lines() {
        let mut table =
            table("quotes", "a,b,c\n1,\"x, \"\"y\"\"\",\n2,\"x\ny\",3\nz,,\n").expect("opens");
        assert_eq!(table.header, ["a", "b", "c"]);
        let row = table.next().expect("is whole").expect("is there");
        assert_eq!((row.text(1), row.number(0).expect("number")), ("x, \"y\"", Some(1.0)));
        assert_eq!(row.number(2).expect("empty"), None);
        assert!(row.number(1).is_err());
        assert_eq!(table.next().expect("is whole").expect("is there").text(1), "x\ny");
        let row = table.next().expect("is whole").expect("is there");
        let said = row.number(0).expect_err("is a word").to_string();
        assert!(said.ends_with(":5: a = \"z\": must be a number"), "{said}");
        assert!(table.next().expect("ends").is_none());
    }

    #[test]
    fn what_is_cut_is_said_with_its_line() {
        for (name, text, wanted) in [
            ("cells", "a,b\n1,2\n3\n", ":3: has 1 cells, but the header has 2"),
            ("line", "a,b\n1,2\n3,4", ":3: has no end"),
            ("quote", "a,b\n1,\"2\n", ":2: is not CSV"),
            ("none", "", "is empty"),
            // It is not read into memory.
            ("endless", &"x".repeat(200_000), "longer than 64 KiB"),
        ] {
            let read = || -> Result<(), Error> {
                let mut table = table(name, text)?;
                while table.next()?.is_some() {}
                Ok(())
            };
            let said = read().expect_err(name).to_string();
            assert!(said.contains(wanted), "{said}");
        }
    }
}
