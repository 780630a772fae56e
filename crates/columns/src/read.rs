//! Columns of tables in a results directory, in whatever format.

use std::path::Path;

use knee_results::manifest::Axis;
use knee_results::{Column, Error, ResultFile, Table, Type};

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
