//! Calls of an algorithm from a flight recording, as a table.

use std::io::BufReader;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::builder::{Int64Builder, StringDictionaryBuilder};
use arrow_array::types::{Int32Type, UInt64Type};
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use knee_columns::BATCH_ROWS;
use knee_flight::{Reader, Shown, View};
use pyo3::prelude::*;

use crate::failure::{Failure, apart};
use crate::table::Table;

/// Every call of a recording: a row each, with time, flow, operation, arguments and every field before and after it.
#[pyfunction]
pub(crate) fn calls(py: Python<'_>, path: PathBuf) -> PyResult<Table> {
    apart(py, move || {
        let about =
            |why: &dyn std::fmt::Display| Failure::says(format!("{}: {why}", path.display()));
        let file = knee_files::open_file(&path, "recording").map_err(|why| about(&why))?;
        let mut reader = Reader::new(BufReader::new(file)).map_err(|why| about(&why))?;
        let mut view = View::of(reader.header());
        let names = view.columns(&|_| true);
        let mut kinds = vec![Kind::default(); names.len()];
        let mut builders = Builders::new(names.len());
        let mut batches = Vec::new();
        while let Some(record) = reader.next_record().map_err(|why| about(&why))? {
            let row = view.row(&record, &|_| true);
            kinds.iter_mut().zip(&row).for_each(|(kind, value)| kind.note(value));
            builders.add(row);
            if builders.rows == BATCH_ROWS {
                batches.push(builders.finish());
            }
        }
        if builders.rows > 0 || batches.is_empty() {
            batches.push(builders.finish());
        }
        let fields = names.iter().zip(&kinds).map(|(name, kind)| {
            let of = kind.data_type().map_err(|why| about(&format!("{name}: {why}")))?;
            Ok(Field::new(name, of, true))
        });
        let schema = Arc::new(Schema::new(fields.collect::<Result<Vec<_>, Failure>>()?));
        let made = batches.into_iter().map(|batch| {
            let arrays = batch.into_iter().enumerate().map(|(at, (numbers, words))| {
                match schema.field(at).data_type() {
                    DataType::Int64 => Arc::new(numbers) as ArrayRef,
                    DataType::UInt64 => {
                        Arc::new(numbers.unary::<_, UInt64Type>(|bits| bits as u64))
                    }
                    _ => words,
                }
            });
            RecordBatch::try_new(schema.clone(), arrays.collect()).map_err(|why| about(&why))
        });
        Ok(Table::of(schema.clone(), made.collect::<Result<_, _>>()?))
    })
}

/// What a column holds in all its batches.
#[derive(Clone, Debug, Default)]
struct Kind {
    has_words: bool,
    /// The least and the largest number, and 0.
    least: i128,
    largest: i128,
}

impl Kind {
    fn note(&mut self, value: &Shown) {
        match value {
            Shown::Nothing => {}
            Shown::Number(number) => {
                self.least = self.least.min(*number);
                self.largest = self.largest.max(*number);
            }
            Shown::Text(_) => self.has_words = true,
        }
    }

    /// The type that holds every value.
    fn data_type(&self) -> Result<DataType, &'static str> {
        if self.has_words {
            return Ok(DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)));
        }
        match (self.least >= i64::MIN.into(), self.largest <= i64::MAX.into()) {
            (true, true) => Ok(DataType::Int64),
            // Fields of the kernel without sign.
            _ if self.least == 0 && self.largest <= u64::MAX.into() => Ok(DataType::UInt64),
            _ => Err("has numbers that no column of 64 bits holds together"),
        }
    }
}

/// Both columns of each place: a call's values are numbers or words.
struct Builders {
    columns: Vec<(Int64Builder, StringDictionaryBuilder<Int32Type>)>,
    rows: usize,
}

type Batch = Vec<(Int64Array, ArrayRef)>;

impl Builders {
    fn new(columns: usize) -> Builders {
        let new = || (Int64Builder::new(), StringDictionaryBuilder::new());
        Builders { columns: (0..columns).map(|_| new()).collect(), rows: 0 }
    }

    fn add(&mut self, row: Vec<Shown>) {
        for ((numbers, words), value) in self.columns.iter_mut().zip(row) {
            match value {
                Shown::Nothing => {
                    numbers.append_null();
                    words.append_null();
                }
                Shown::Number(number) => {
                    // The lowest 64 bits, with or without sign as the column's type says.
                    numbers.append_value(number as i64);
                    words.append_null();
                }
                Shown::Text(text) => {
                    numbers.append_null();
                    words.append_value(text);
                }
            }
        }
        self.rows += 1;
    }

    fn finish(&mut self) -> Batch {
        let columns = self.columns.iter_mut();
        let batch: Batch = columns
            .map(|(numbers, words)| (numbers.finish(), Arc::new(words.finish()) as ArrayRef))
            .collect();
        *self = Builders::new(batch.len());
        batch
    }
}
