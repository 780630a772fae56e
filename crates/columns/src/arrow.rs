//! Tables as Arrow record batches.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::mem;
use std::sync::Arc;

use arrow_array::builder::{
    ArrayBuilder, BooleanBuilder, Float64Builder, Int64Builder, StringBuilder,
    StringDictionaryBuilder, UInt64Builder,
};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, SchemaRef};
use knee_results::{Cell, Column, ResultFile, Schema, Sink, Sinks, Type};

use crate::cells::{number, text, unsigned, whole};

/// Rows of a batch.
pub const BATCH_ROWS: usize = 1 << 16;

/// Returns the Arrow type of a column. Keys of dictionaries are `Int32`, which pandas takes, too.
fn data_type(kind: Type) -> DataType {
    match kind {
        Type::Whole => DataType::Int64,
        Type::Unsigned => DataType::UInt64,
        Type::Number | Type::Seconds => DataType::Float64,
        Type::Flag => DataType::Boolean,
        Type::Word => DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
        Type::Text => DataType::Utf8,
    }
}

/// Returns a table's columns as Arrow has them. All may be null.
pub fn arrow_schema(schema: &Schema) -> SchemaRef {
    let field = |column: &Column| Field::new(&*column.name, data_type(column.kind), true);
    Arc::new(arrow_schema::Schema::new(schema.columns.iter().map(field).collect::<Vec<_>>()))
}

/// A column that grows.
enum Builder {
    Whole(Int64Builder),
    Unsigned(UInt64Builder),
    Number(Float64Builder),
    Flag(BooleanBuilder),
    Word(StringDictionaryBuilder<Int32Type>),
    Text(StringBuilder),
}

impl Builder {
    fn new(kind: Type) -> Builder {
        match kind {
            Type::Whole => Builder::Whole(Int64Builder::new()),
            Type::Unsigned => Builder::Unsigned(UInt64Builder::new()),
            Type::Number | Type::Seconds => Builder::Number(Float64Builder::new()),
            Type::Flag => Builder::Flag(BooleanBuilder::new()),
            Type::Word => Builder::Word(StringDictionaryBuilder::new()),
            Type::Text => Builder::Text(StringBuilder::new()),
        }
    }

    /// Adds a cell. `None`: it is not of this type.
    fn push(&mut self, cell: &Cell<'_>) -> Option<()> {
        match (self, cell) {
            (Builder::Whole(to), Cell::Empty) => to.append_null(),
            (Builder::Whole(to), cell) => to.append_value(whole(cell)?),
            (Builder::Unsigned(to), Cell::Empty) => to.append_null(),
            (Builder::Unsigned(to), cell) => to.append_value(unsigned(cell)?),
            (Builder::Number(to), Cell::Empty) => to.append_null(),
            (Builder::Number(to), cell) => to.append_value(number(cell)?),
            (Builder::Flag(to), Cell::Empty) => to.append_null(),
            (Builder::Flag(to), cell) => to.append_value(unsigned(cell)? != 0),
            (Builder::Word(to), Cell::Empty) => to.append_null(),
            (Builder::Word(to), cell) => to.append(text(cell)?).map(drop).ok()?,
            (Builder::Text(to), Cell::Empty) => to.append_null(),
            (Builder::Text(to), cell) => to.append_value(text(cell)?),
        }
        Some(())
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Builder::Whole(from) => Arc::new(from.finish()),
            Builder::Unsigned(from) => Arc::new(from.finish()),
            Builder::Number(from) => Arc::new(from.finish()),
            Builder::Flag(from) => Arc::new(from.finish()),
            // Keys mean the same in all batches.
            Builder::Word(from) => Arc::new(from.finish_preserve_values()),
            Builder::Text(from) => Arc::new(from.finish()),
        }
    }

    fn len(&self) -> usize {
        match self {
            Builder::Whole(from) => from.len(),
            Builder::Unsigned(from) => from.len(),
            Builder::Number(from) => from.len(),
            Builder::Flag(from) => from.len(),
            Builder::Word(from) => from.len(),
            Builder::Text(from) => from.len(),
        }
    }
}

/// A table in memory.
#[derive(Clone, Debug)]
pub struct ArrowTable {
    /// The columns, also where there is no batch.
    pub schema: SchemaRef,
    /// The rows, in order: at most 65,536 each.
    pub batches: Vec<RecordBatch>,
}

/// A sink that keeps rows as record batches. Batches can be [taken](ArrowSink::take) while rows come.
#[derive(Default)]
pub struct ArrowSink {
    columns: Vec<Column>,
    schema: Option<SchemaRef>,
    builders: Vec<Builder>,
    label: Vec<Cell<'static>>,
    batches: Vec<RecordBatch>,
}

impl fmt::Debug for ArrowSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArrowSink").field("columns", &self.columns).finish_non_exhaustive()
    }
}

impl ArrowSink {
    /// Returns a sink that has begun.
    pub fn new(schema: &Schema) -> ArrowSink {
        ArrowSink {
            columns: schema.columns.clone(),
            schema: Some(arrow_schema(schema)),
            builders: schema.columns.iter().map(|column| Builder::new(column.kind)).collect(),
            label: Vec::new(),
            batches: Vec::new(),
        }
    }

    /// Returns the rows so far, and forgets them.
    ///
    /// # Errors
    /// None, unless rows had too few cells.
    pub fn take(&mut self) -> io::Result<Vec<RecordBatch>> {
        self.close()?;
        Ok(mem::take(&mut self.batches))
    }

    /// Returns all rows that were not taken.
    ///
    /// # Errors
    /// As above.
    pub fn table(mut self) -> io::Result<ArrowTable> {
        let batches = self.take()?;
        let schema = self.schema.ok_or_else(|| io::Error::other("a table that has not begun"))?;
        Ok(ArrowTable { schema, batches })
    }

    /// Makes a batch of the rows that are in none.
    fn close(&mut self) -> io::Result<()> {
        let Some(schema) = self.schema.as_ref().filter(|_| self.rows() > 0) else { return Ok(()) };
        let columns = self.builders.iter_mut().map(Builder::finish).collect();
        self.batches.push(RecordBatch::try_new(schema.clone(), columns).map_err(io::Error::other)?);
        Ok(())
    }

    /// Number of rows in no batch.
    fn rows(&self) -> usize {
        self.builders.first().map_or(0, Builder::len)
    }
}

/// The error of a cell that is not of its column's type.
pub(crate) fn misfit(column: &Column, cell: &Cell<'_>) -> io::Error {
    let Column { name, kind } = column;
    io::Error::other(format!("{name} = {cell}: does not fit into a column of type {kind:?}"))
}

impl Sink for ArrowSink {
    fn begin(&mut self, schema: &Schema) -> io::Result<()> {
        *self = ArrowSink::new(schema);
        Ok(())
    }

    fn label(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        self.label.clear();
        self.label.extend(cells.iter().map(Cell::to_static));
        Ok(())
    }

    fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        let all = self.label.iter().chain(cells);
        for ((to, column), cell) in self.builders.iter_mut().zip(&self.columns).zip(all) {
            to.push(cell).ok_or_else(|| misfit(column, cell))?;
        }
        if self.rows() == BATCH_ROWS {
            self.close()?;
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.close()
    }
}

/// Sinks of all tables, in memory. `schema` gives the columns of each, as `knee_sweep::rows::schema` does.
pub struct ArrowSinks<F> {
    schema: F,
    tables: BTreeMap<&'static str, (ResultFile, ArrowSink)>,
}

impl<F> fmt::Debug for ArrowSinks<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArrowSinks").field("tables", &self.tables.keys()).finish_non_exhaustive()
    }
}

impl<F: FnMut(ResultFile) -> Schema> ArrowSinks<F> {
    /// Returns sinks without tables yet.
    pub fn new(schema: F) -> ArrowSinks<F> {
        ArrowSinks { schema, tables: BTreeMap::new() }
    }

    /// Returns the tables that have rows.
    ///
    /// # Errors
    /// Those of [`ArrowSink::table`].
    pub fn tables(self) -> io::Result<Vec<(ResultFile, ArrowTable)>> {
        let tables = self.tables.into_values();
        tables.map(|(file, sink)| Ok((file, sink.table()?))).collect()
    }
}

impl<F: FnMut(ResultFile) -> Schema> Sinks for ArrowSinks<F> {
    fn of(&mut self, file: ResultFile) -> io::Result<&mut dyn Sink> {
        let make = || (file, ArrowSink::new(&(self.schema)(file)));
        Ok(&mut self.tables.entry(file.name()).or_insert_with(make).1)
    }
}
