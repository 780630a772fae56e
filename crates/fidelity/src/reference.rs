//! Reading the reference tables and series.

use crate::Error;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

/// Where the reference data is.
#[derive(Clone, Debug)]
pub struct Reference {
    folder: PathBuf,
}

impl Reference {
    /// Reference data in this folder.
    pub fn new(folder: impl Into<PathBuf>) -> Reference {
        Reference { folder: folder.into() }
    }

    /// The rows of the table `NAME.csv`.
    ///
    /// # Errors
    /// If the file cannot be read or is not CSV.
    pub fn table(&self, name: &str) -> Result<Vec<Row>, Error> {
        let file = format!("{name}.csv");
        rows(open(self.folder.join(&file))?, &file)
    }

    /// The rows of `series/NAME.csv.gz`.
    ///
    /// # Errors
    /// If the file cannot be read, or is not CSV in gzip.
    pub fn series(&self, name: &str) -> Result<Vec<Row>, Error> {
        rows(flate2::read::GzDecoder::new(open(self.series_path(name))?), name)
    }

    /// Whether there is a series of this name.
    pub fn has_series(&self, name: &str) -> bool {
        self.series_path(name).is_file()
    }

    fn series_path(&self, name: &str) -> PathBuf {
        self.folder.join("series").join(format!("{name}.csv.gz"))
    }
}

fn open(path: PathBuf) -> Result<File, Error> {
    File::open(&path).map_err(|source| Error::Unread { path, source })
}

/// One row, by column name.
#[derive(Clone, Debug)]
pub struct Row {
    file: String,
    line: u64,
    cells: HashMap<String, String>,
}

fn rows(text: impl Read, file: &str) -> Result<Vec<Row>, Error> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text);
    let bad = |source| Error::Csv { file: file.to_owned(), source };
    let head = reader.headers().map_err(bad)?.clone();
    let row = |record: csv::StringRecord| Row {
        file: file.to_owned(),
        line: record.position().map_or(0, csv::Position::line),
        cells: head.iter().map(str::to_owned).zip(record.iter().map(str::to_owned)).collect(),
    };
    reader.records().map(|record| record.map(row).map_err(bad)).collect()
}

impl Row {
    /// A cell's text; empty if it is empty or the row is short.
    ///
    /// # Errors
    /// Never for a short row: columns that a row does not reach are empty.
    pub fn text(&self, column: &str) -> &str {
        self.cells.get(column).map_or("", String::as_str)
    }

    /// A cell's number.
    ///
    /// # Errors
    /// If the cell is empty or no number.
    pub fn number(&self, column: &str) -> Result<f64, Error> {
        let text = self.text(column);
        text.parse().map_err(|_| self.bad(column, "a number"))
    }

    /// A cell's number; `None` if it is empty or no number.
    pub fn maybe(&self, column: &str) -> Option<f64> {
        self.text(column).parse().ok()
    }

    /// A rate such as `10gbit` in bits per second.
    ///
    /// # Errors
    /// If the cell is no such rate.
    pub fn rate_bps(&self, column: &str) -> Result<u64, Error> {
        rate_bps(self.text(column))
            .ok_or_else(|| self.bad(column, "a rate such as 10mbit or 1gbit"))
    }

    /// An error about a cell.
    pub fn bad(&self, column: &str, wanted: &'static str) -> Error {
        let (file, value) = (self.file.clone(), self.text(column).to_owned());
        Error::Cell { file, line: self.line, column: column.to_owned(), value, wanted }
    }
}

fn rate_bps(text: &str) -> Option<u64> {
    let (number, unit) = match text.strip_suffix("gbit") {
        Some(number) => (number, 1_000_000_000),
        None => (text.strip_suffix("mbit")?, 1_000_000),
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

/// Rows grouped by the text of some columns, in the order of their first rows.
pub fn groups(rows: &[Row], columns: &[&str]) -> Vec<Vec<Row>> {
    let mut groups: Vec<(Vec<String>, Vec<Row>)> = Vec::new();
    for row in rows {
        let key: Vec<String> = columns.iter().map(|column| row.text(column).to_owned()).collect();
        match groups.iter_mut().find(|group| group.0 == key) {
            Some(group) => group.1.push(row.clone()),
            None => groups.push((key, vec![row.clone()])),
        }
    }
    groups.into_iter().map(|group| group.1).collect()
}

/// The numbers of one column of several rows; rows without one are left out.
pub fn numbers(rows: &[Row], name: &str) -> Vec<f64> {
    rows.iter().filter_map(|row| row.maybe(name)).collect()
}

/// One column of several rows.
///
/// # Errors
/// If a cell is empty or no number.
pub fn column(rows: &[Row], name: &str) -> Result<Vec<f64>, Error> {
    rows.iter().map(|row| row.number(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str =
        "kernel,bottleneck,algo,K_pkts,seed,x\nL,1gbit,dctcp,10,1,0.5\nL,40mbit,cubic,,2\n";

    #[test]
    fn cells_are_found_by_name() {
        let rows = rows(TABLE.as_bytes(), "t.csv").unwrap();
        assert_eq!(rows[0].rate_bps("bottleneck").unwrap(), 1_000_000_000);
        assert_eq!(rows[1].rate_bps("bottleneck").unwrap(), 40_000_000);
        assert_eq!(rows[0].number("x").unwrap(), 0.5);
        assert_eq!(rows[1].maybe("K_pkts"), None);
        assert_eq!(rows[1].text("x"), "");
        assert_eq!(
            rows[1].number("x").unwrap_err().to_string(),
            "t.csv: line 3: x = \"\": must be a number"
        );
        assert_eq!(
            rows[1].rate_bps("algo").unwrap_err().to_string(),
            "t.csv: line 3: algo = \"cubic\": must be a rate such as 10mbit or 1gbit"
        );
    }

    #[test]
    fn groups_keep_their_order() {
        let rows = rows("a,b\n2,1\n1,2\n2,3\n".as_bytes(), "t.csv").unwrap();
        let groups = groups(&rows, &["a"]);
        assert_eq!(groups.len(), 2);
        assert_eq!(column(&groups[0], "b").unwrap(), [1.0, 3.0]);
    }

    #[test]
    fn what_is_not_there_is_named() {
        let error = Reference::new("/nowhere").table("x").unwrap_err();
        assert!(error.to_string().starts_with("cannot read /nowhere/x.csv: "), "{error}");
    }

    #[test]
    fn the_projects_own_copy_can_be_read() {
        let reference = Reference::new(crate::REFERENCE);
        let runs = reference.table("runs_bulk_mix").unwrap();
        assert!(runs.len() >= 240 && runs.iter().all(|run| run.number("tlp").is_ok()));
        let series = reference.series("start-dctcp-1g-200us-K20-info").unwrap();
        assert_eq!(series[0].number("cwnd").unwrap(), 10.0);
        assert!(!reference.has_series("no-such"));
    }
}
