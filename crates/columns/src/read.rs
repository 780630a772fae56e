//! Tables of a results directory, in whatever format, as Arrow.

use std::path::Path;

use knee_results::manifest::Axis;
use knee_results::{Column, Error, ResultFile, Schema, Sink as _, Table, Type};

use crate::arrow::{ArrowSink, ArrowTable};

/// Reads a table of a results directory, CSV or Parquet; `None` where there is none. `axes` are the manifest's. It is whole in memory.
///
/// Both formats give the same [columns](columns_of).
///
/// # Errors
/// [`Error`] as of [`Table::open`], and if a cell is not of its column's type.
pub fn read(dir: &Path, file: ResultFile, axes: &[Axis]) -> Result<Option<ArrowTable>, Error> {
    let Some(path) = file.path(dir)? else { return Ok(None) };
    let mut table = Table::open(&path)?;
    let columns = columns_of(&path, &table, file, axes)?;
    let schema = Schema { columns, labels: 0 };
    let mut sink = ArrowSink::new(&schema);
    let failed = |why| Error::io(&path, "cannot read", why);
    let mut misfit = None;
    while table.each(&schema, &mut |row| {
        if let Err(why) = sink.row(row) {
            misfit.get_or_insert(why);
        }
    })? {
        if let Some(why) = misfit.take() {
            return Err(failed(why));
        }
    }
    sink.table().map(Some).map_err(failed)
}

/// Returns the columns of a table of a results directory, which was opened at this path, with their types. `axes` are the manifest's.
///
/// Both formats give the same ones. What algorithms tell of their insides CSV does not say the types of: whole numbers with a sign where
/// there is any below zero, else those without. A CSV file with such columns is read for that.
///
/// # Errors
/// [`Error`] if the file cannot be read.
pub fn columns_of(
    path: &Path,
    table: &Table,
    file: ResultFile,
    axes: &[Axis],
) -> Result<Vec<Column>, Error> {
    if let Some(schema) = table.types() {
        return Ok(schema.columns.clone());
    }
    let known = file.schema(axes.iter().map(|axis| {
        let kind = if axis.numbers.is_empty() { Type::Word } else { Type::Number };
        Column::new(axis.column().to_owned(), kind)
    }));
    let kind = |name: &String| known.columns.iter().find(|column| column.name == *name);
    let kinds: Vec<Option<Type>> =
        table.header().iter().map(|name| kind(name).map(|column| column.kind)).collect();
    let unknown = kinds.iter().enumerate().filter(|(_, kind)| kind.is_none());
    let unknown: Vec<usize> = unknown.map(|(at, _)| at).collect();
    let mut signed = vec![false; kinds.len()];
    if !unknown.is_empty() {
        let mut again = Table::open(path)?;
        while let Some(row) = again.next()? {
            unknown.iter().for_each(|at| signed[*at] |= row.text(*at).starts_with('-'));
        }
    }
    let inside = |at: usize| if signed[at] { Type::Whole } else { Type::Unsigned };
    let columns = table.header().iter().zip(kinds).enumerate();
    let column = |(at, (name, kind)): (usize, (&String, Option<Type>))| {
        Column::new(name.clone(), kind.unwrap_or_else(|| inside(at)))
    };
    Ok(columns.map(column).collect())
}
