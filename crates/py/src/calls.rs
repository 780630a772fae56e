//! Calls of an algorithm from a flight recording, as a table.

use std::io::BufReader;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::builder::{Int64Builder, StringDictionaryBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use knee_flight::{Reader, Shown, View};
use pyo3::prelude::*;

use crate::failure::{Failure, apart};
use crate::table::Table;

/// Rows of a batch.
const BATCH: usize = 65_536;

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
        let mut builders = Builders::new(names.len());
        let mut batches = Vec::new();
        while let Some(record) = reader.next_record().map_err(|why| about(&why))? {
            builders.add(view.row(&record, &|_| true));
            if builders.rows == BATCH {
                batches.push(builders.finish());
            }
        }
        if builders.rows > 0 || batches.is_empty() {
            batches.push(builders.finish());
        }
        // A column holds words if any of its batches does.
        let has_words = |at: usize| batches.iter().any(|batch| batch.has_words[at]);
        let fields = names.iter().enumerate().map(|(at, name)| {
            let word = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
            Field::new(name, if has_words(at) { word } else { DataType::Int64 }, true)
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let made = batches.into_iter().map(|batch| {
            let arrays = batch.columns.into_iter().enumerate().map(|(at, (numbers, words))| {
                match schema.field(at).data_type() {
                    DataType::Int64 => numbers,
                    _ => words,
                }
            });
            RecordBatch::try_new(schema.clone(), arrays.collect()).map_err(|why| about(&why))
        });
        Ok(Table::of(schema.clone(), made.collect::<Result<_, _>>()?))
    })
}

/// Both columns of each place: a call's values are numbers or words.
struct Builders {
    columns: Vec<(Int64Builder, StringDictionaryBuilder<Int32Type>, bool)>,
    rows: usize,
}

struct Batch {
    columns: Vec<(ArrayRef, ArrayRef)>,
    has_words: Vec<bool>,
}

impl Builders {
    fn new(columns: usize) -> Builders {
        let new = || (Int64Builder::new(), StringDictionaryBuilder::new(), false);
        Builders { columns: (0..columns).map(|_| new()).collect(), rows: 0 }
    }

    fn add(&mut self, row: Vec<Shown>) {
        for ((numbers, words, has_words), value) in self.columns.iter_mut().zip(row) {
            match value {
                Shown::Nothing => {
                    numbers.append_null();
                    words.append_null();
                }
                Shown::Number(number) => {
                    // Fields of the kernel have 64 bits at most: those without sign wrap.
                    numbers.append_value(number as i64);
                    words.append_null();
                }
                Shown::Text(text) => {
                    *has_words = true;
                    numbers.append_null();
                    words.append_value(text);
                }
            }
        }
        self.rows += 1;
    }

    fn finish(&mut self) -> Batch {
        let has_words = self.columns.iter().map(|column| column.2).collect();
        let columns = self.columns.iter_mut().map(|(numbers, words, _)| {
            (Arc::new(numbers.finish()) as ArrayRef, Arc::new(words.finish()) as ArrayRef)
        });
        let batch = Batch { columns: columns.collect(), has_words };
        *self = Builders::new(batch.columns.len());
        batch
    }
}
