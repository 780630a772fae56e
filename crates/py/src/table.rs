//! Tables as Arrow streams: read as they are asked for, a batch at a time.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::builder::{
    Float64Builder, Int64Builder, StringDictionaryBuilder, UInt64Builder,
};
use arrow_array::cast::AsArray as _;
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use knee_results::{CASE, Manifest, RUN, Row, ResultFile};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};

use crate::failure::{Failure, apart};

/// Rows of a batch.
const BATCH: usize = 65_536;

/// Rows of results that any reader of Arrow takes.
#[pyclass(frozen, module = "knee._knee")]
pub(crate) struct Table {
    schema: SchemaRef,
    source: Source,
}

/// Where the rows are.
#[derive(Clone)]
enum Source {
    File { path: PathBuf, keep: Vec<(usize, HashSet<String>)> },
    Memory(Vec<RecordBatch>),
}

impl Table {
    pub(crate) fn of(schema: SchemaRef, batches: Vec<RecordBatch>) -> Table {
        Table { schema, source: Source::Memory(batches) }
    }

    fn reader(&self) -> Result<Reader, Failure> {
        Ok(match &self.source {
            Source::Memory(batches) => {
                let batches = batches.clone().into_iter().map(Ok);
                Reader { schema: self.schema.clone(), batches: Box::new(batches) }
            }
            Source::File { path, keep } => {
                let rows = Rows {
                    table: knee_results::Table::open(path)?,
                    schema: self.schema.clone(),
                    keep: keep.clone(),
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
        let schema = schema.map_err(|why| pyo3::exceptions::PyRuntimeError::new_err(why.to_string()))?;
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
                rows += batch.map_err(Failure::says)?.num_rows();
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
            let Some(batch) = apart(py, || reader.next().transpose().map_err(Failure::says))? else {
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
    schema: SchemaRef,
    /// Only rows whose cells in these columns are among these.
    keep: Vec<(usize, HashSet<String>)>,
    is_over: bool,
}

impl Rows {
    fn batch(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let mut columns: Vec<Column> =
            self.schema.fields().iter().map(|field| Column::of(field.data_type())).collect();
        let mut rows = 0;
        let failed = |why: knee_results::Error| ArrowError::ExternalError(Box::new(why));
        while rows < BATCH {
            let Some(row) = self.table.next().map_err(failed)? else {
                self.is_over = true;
                break;
            };
            if !self.keep.iter().all(|(column, cells)| cells.contains(row.text(*column))) {
                continue;
            }
            for (at, column) in columns.iter_mut().enumerate() {
                column.add(row, at).map_err(failed)?;
            }
            rows += 1;
        }
        if rows == 0 {
            return Ok(None);
        }
        let arrays = columns.into_iter().map(Column::finish).collect();
        RecordBatch::try_new(self.schema.clone(), arrays).map(Some)
    }
}

impl Iterator for Rows {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let batch = self.batch().transpose();
        self.is_over |= matches!(batch, Some(Err(_)));
        batch
    }
}

enum Column {
    Int(Int64Builder),
    Whole(UInt64Builder),
    Number(Float64Builder),
    Word(StringDictionaryBuilder<Int32Type>),
}

impl Column {
    fn of(data: &DataType) -> Column {
        match data {
            DataType::Int64 => Column::Int(Int64Builder::new()),
            DataType::UInt64 => Column::Whole(UInt64Builder::new()),
            DataType::Float64 => Column::Number(Float64Builder::new()),
            _ => Column::Word(StringDictionaryBuilder::new()),
        }
    }

    fn add(&mut self, row: Row<'_>, at: usize) -> Result<(), knee_results::Error> {
        let is_there = !row.text(at).is_empty();
        match self {
            Column::Int(all) => all.append_option(is_there.then(|| row.index(at)).transpose()?.map(|n| n as i64)),
            Column::Whole(all) => all.append_option(is_there.then(|| row.index(at)).transpose()?),
            Column::Number(all) => all.append_option(row.number(at)?),
            Column::Word(all) => all.append_option(is_there.then(|| row.text(at))),
        }
        Ok(())
    }

    fn finish(self) -> ArrayRef {
        match self {
            Column::Int(mut all) => Arc::new(all.finish()),
            Column::Whole(mut all) => Arc::new(all.finish()),
            Column::Number(mut all) => Arc::new(all.finish()),
            Column::Word(mut all) => Arc::new(all.finish()),
        }
    }
}

/// Columns of text. All others hold numbers.
const WORDS: [&str; 27] = [
    "case", "traffic", "from", "to", "algorithm", "algorithm_at_end", "subject", "metric", "unit", "link", "host", "verdict", "limits",
    "ca_state", "counter", "level", "module", "text", "measure", "operation", "warning", "published_stat", "direction", "kind", "receiver",
    "family", "flags",
];

fn type_of(name: &str, manifest: &Manifest) -> DataType {
    let word = || DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    if let Some(axis) = manifest.axes.iter().find(|axis| axis.column() == name) {
        let is_number = |value: &String| value.parse::<f64>().is_ok();
        return match !axis.numbers.is_empty() || axis.values.iter().all(is_number) {
            true => DataType::Float64,
            false => word(),
        };
    }
    match name {
        "run" | "repeat" | "flow" => DataType::Int64,
        "seed" => DataType::UInt64,
        _ if WORDS.contains(&name) => word(),
        _ => DataType::Float64,
    }
}

/// A table of a results directory, by the name of its file without extension: its rows with one of these cells in each of these columns.
/// A table without the column is restricted to the runs that have it. None: the results have no such table.
#[pyfunction]
pub(crate) fn table(
    py: Python<'_>,
    dir: PathBuf,
    name: String,
    cells: Vec<(String, Vec<String>)>,
) -> PyResult<Option<Table>> {
    apart(py, move || {
        let known = ResultFile::ALL.into_iter().find(|file| file.name() == format!("{name}.csv"));
        let Some(file) = known else {
            return Err(Failure::says(format!("{name:?} is no table of results")));
        };
        let manifest = Manifest::read(&dir)?;
        let path = dir.join(file.name());
        let Some(opened) = knee_results::Table::open_if_there(&path)? else { return Ok(None) };
        let mut keep: Vec<(usize, HashSet<String>)> = Vec::new();
        for (column, cells) in cells {
            let cells = cells.into_iter().collect::<HashSet<_>>();
            match (opened.find(&column), opened.find(RUN)) {
                (Some(at), _) => keep.push((at, cells)),
                (None, Some(run)) => keep.push((run, runs_with(&dir, &column, &cells)?)),
                (None, None) => {
                    return Err(Failure::says(format!("{}: has no column {column}", file.name())));
                }
            }
        }
        let fields = opened.header().iter().map(|name| Field::new(name, type_of(name, &manifest), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Ok(Some(Table { schema, source: Source::File { path, keep } }))
    })
}

/// Numbers of the runs with one of these cells in a column.
fn runs_with(
    dir: &std::path::Path,
    column: &str,
    cells: &HashSet<String>,
) -> Result<HashSet<String>, Failure> {
    let mut found = HashSet::new();
    let Some(mut runs) = ResultFile::Run.open(dir)? else { return Ok(found) };
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
