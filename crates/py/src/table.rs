//! Tables as Arrow streams: read as they are asked for, a batch at a time.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::path::PathBuf;

use arrow_array::cast::AsArray as _;
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt64Type};
use arrow_array::{Array as _, ArrayRef, RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use knee_columns::{ArrowSink, BATCH_ROWS, arrow_schema, columns_of};
use knee_results::{CASE, Cell, Column, Manifest, RUN, ResultFile, Schema, Sink as _};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};

use crate::failure::{Failure, apart};

/// Rows of results that any reader of Arrow takes.
#[pyclass(frozen, module = "knee._knee")]
pub(crate) struct Table {
    schema: SchemaRef,
    source: Source,
}

/// Where the rows are.
#[derive(Clone)]
enum Source {
    File { path: PathBuf, columns: Vec<Column>, keep: Vec<(usize, HashSet<String>)> },
    Memory(Vec<RecordBatch>),
}

impl Table {
    pub(crate) fn of(schema: SchemaRef, batches: Vec<RecordBatch>) -> Table {
        Table { schema, source: Source::Memory(batches) }
    }

    /// Rows of a file with these columns, as far as they have one of these cells in each of these.
    pub(crate) fn in_file(
        path: PathBuf,
        columns: Vec<Column>,
        keep: Vec<(usize, HashSet<String>)>,
    ) -> Table {
        let schema = arrow_schema(&Schema { columns: columns.clone(), labels: 0 });
        Table { schema, source: Source::File { path, columns, keep } }
    }

    fn reader(&self) -> Result<Reader, Failure> {
        Ok(match &self.source {
            Source::Memory(batches) => {
                let batches = batches.clone().into_iter().map(Ok);
                Reader { schema: self.schema.clone(), batches: Box::new(batches) }
            }
            Source::File { path, columns, keep } => {
                let schema = Schema { columns: columns.clone(), labels: 0 };
                let rows = Rows {
                    table: knee_results::Table::open(path)?,
                    sink: ArrowSink::new(&schema),
                    schema,
                    keep: keep.clone(),
                    ready: VecDeque::new(),
                    is_over: false,
                };
                Reader { schema: self.schema.clone(), batches: Box::new(rows) }
            }
        })
    }
}

#[pymethods]
impl Table {
    /// The Arrow PyCapsule interface.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A consumer casts what it wants otherwise.
        let _ = requested_schema;
        let reader = apart(py, || self.reader())?;
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// The same of its columns.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&*self.schema);
        let schema =
            schema.map_err(|why| pyo3::exceptions::PyRuntimeError::new_err(why.to_string()))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// Names of columns and their types.
    fn columns(&self) -> Vec<(String, String)> {
        let fields = self.schema.fields().iter();
        fields.map(|field| (field.name().clone(), words(field.data_type()).to_owned())).collect()
    }

    /// The number of rows: they are read for it.
    fn count(&self, py: Python<'_>) -> PyResult<usize> {
        apart(py, || {
            let mut rows = 0;
            for batch in self.reader()? {
                rows += batch.map_err(said)?.num_rows();
            }
            Ok(rows)
        })
    }

    /// Columns as lists of Python, the first so many rows.
    fn lists<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Bound<'py, PyDict>> {
        let (lists, mut left) = (PyDict::new(py), most);
        for field in self.schema.fields() {
            lists.set_item(field.name(), PyList::empty(py))?;
        }
        let mut reader = apart(py, || self.reader())?;
        while left > 0 {
            let Some(batch) = apart(py, || reader.next().transpose().map_err(said))? else {
                break;
            };
            let batch = batch.slice(0, left.min(batch.num_rows()));
            left -= batch.num_rows();
            for (field, column) in self.schema.fields().iter().zip(batch.columns()) {
                if let Some(list) = lists.get_item(field.name())? {
                    add(list.cast::<PyList>()?, column)?;
                }
            }
        }
        Ok(lists)
    }
}

/// The sentence of an error, without what Arrow puts before those of others.
fn said(why: ArrowError) -> Failure {
    match why {
        ArrowError::ExternalError(why) => Failure::says(why),
        why => Failure::says(why),
    }
}

fn add(list: &Bound<'_, PyList>, column: &ArrayRef) -> PyResult<()> {
    for row in 0..column.len() {
        if column.is_null(row) {
            list.append(list.py().None())?;
            continue;
        }
        match column.data_type() {
            DataType::Int64 => list.append(column.as_primitive::<Int64Type>().value(row))?,
            DataType::UInt64 => list.append(column.as_primitive::<UInt64Type>().value(row))?,
            DataType::Float64 => list.append(column.as_primitive::<Float64Type>().value(row))?,
            DataType::Boolean => list.append(column.as_boolean().value(row))?,
            DataType::Utf8 => list.append(column.as_string::<i32>().value(row))?,
            _ => {
                let words = column.as_dictionary::<Int32Type>();
                let key = usize::try_from(words.keys().value(row)).unwrap_or_default();
                list.append(words.values().as_string::<i32>().value(key))?;
            }
        }
    }
    Ok(())
}

fn words(of: &DataType) -> &'static str {
    match of {
        DataType::Int64 | DataType::UInt64 => "int",
        DataType::Float64 => "float",
        DataType::Boolean => "bool",
        _ => "str",
    }
}

/// Batches with their schema.
struct Reader {
    schema: SchemaRef,
    batches: Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>,
}

impl Iterator for Reader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batches.next()
    }
}

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// Rows of a file.
struct Rows {
    table: knee_results::Table,
    /// All columns in a row: none is a label, which a sink has for many rows.
    schema: Schema,
    sink: ArrowSink,
    /// Only rows whose cells in these columns are among these.
    keep: Vec<(usize, HashSet<String>)>,
    ready: VecDeque<RecordBatch>,
    is_over: bool,
}

impl Rows {
    /// Reads until there is a batch, or no more.
    fn read(&mut self) -> io::Result<()> {
        let Rows { table, schema, sink, keep, .. } = self;
        let mut rows = 0;
        while rows < BATCH_ROWS {
            let mut added = Ok(false);
            let mut add = |cells: &[Cell<'_>]| {
                if keep.iter().all(|(column, kept)| has(kept, &cells[*column])) {
                    added = sink.row(cells).map(|()| true);
                }
            };
            if !table.each(schema, &mut add).map_err(io::Error::other)? {
                self.is_over = true;
                break;
            }
            rows += usize::from(added?);
        }
        self.ready.extend(sink.take()?);
        Ok(())
    }
}

/// Whether a cell is among these, as CSV has them without quotes.
fn has(kept: &HashSet<String>, cell: &Cell<'_>) -> bool {
    match cell {
        Cell::Text(text) => kept.contains(&**text),
        cell => kept.contains(&cell.to_string()),
    }
}

impl Iterator for Rows {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.ready.is_empty() && !self.is_over {
            if let Err(why) = self.read() {
                self.is_over = true;
                return Some(Err(ArrowError::ExternalError(Box::new(why))));
            }
        }
        self.ready.pop_front().map(Ok)
    }
}

/// A table of a results directory, by the name of its file without extension: its rows with one of these cells in each of these columns.
/// A table without the column is restricted to the runs that have it. None: the results have no such table.
#[pyfunction]
pub(crate) fn table(
    py: Python<'_>,
    folder: PathBuf,
    name: String,
    cells: Vec<(String, Vec<String>)>,
) -> PyResult<Option<Table>> {
    apart(py, move || {
        let Some(file) = ResultFile::ALL.into_iter().find(|file| file.stem() == name) else {
            return Err(Failure::says(format!("{name:?} is no table of results")));
        };
        let manifest = Manifest::read(&folder)?;
        let Some(path) = file.path(&folder)? else { return Ok(None) };
        let opened = knee_results::Table::open(&path)?;
        let mut keep: Vec<(usize, HashSet<String>)> = Vec::new();
        for (column, cells) in cells {
            let cells = cells.into_iter().collect::<HashSet<_>>();
            match (opened.find(&column), opened.find(RUN)) {
                (Some(at), _) => keep.push((at, cells)),
                (None, Some(run)) => keep.push((run, runs_with(&folder, &column, &cells)?)),
                (None, None) => {
                    return Err(Failure::says(format!("{}: has no column {column}", file.name())));
                }
            }
        }
        let columns = columns_of(&path, &opened, file, &manifest.axes)?;
        Ok(Some(Table::in_file(path, columns, keep)))
    })
}

/// Numbers of the runs with one of these cells in a column.
fn runs_with(
    folder: &std::path::Path,
    column: &str,
    cells: &HashSet<String>,
) -> Result<HashSet<String>, Failure> {
    let mut found = HashSet::new();
    let mut runs = ResultFile::Run.must_open(folder)?;
    let [run, _] = runs.columns([RUN, CASE])?;
    let Some(at) = runs.find(column) else {
        return Err(Failure::says(format!("the runs have no column {column}")));
    };
    while let Some(row) = runs.next()? {
        if cells.contains(row.text(at)) {
            found.insert(row.text(run).to_owned());
        }
    }
    Ok(found)
}
