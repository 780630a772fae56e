//! Tables as Parquet files, written and read a group of rows at a time.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use knee_results::{Cell, Column, Error, Format, Schema, Sink, Type, format};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type as Node, TypePtr};

use crate::arrow::misfit;
use crate::cells::{number, text, unsigned, whole};
use crate::guard;

/// Rows of a group, which are in memory until it is written: some 20 MB of the widest table.
const GROUP_ROWS: usize = 1 << 16;
/// Rows that are read at once.
const READ_ROWS: usize = 4096;
/// The key under which a file has the types of its columns.
const TYPES: &str = "knee.types";
/// Most texts of a column that are remembered while a group is written.
const MOST_WORDS: usize = 1 << 12;
/// Longest text, bytes: that of a line of CSV.
const LONGEST_TEXT: usize = 64 * 1024;
/// Most rows in a file for each of its bytes. Thousands of equal values take one.
const MOST_ROWS_PER_BYTE: u64 = 64;

/// Types with the names that files have of them.
const NAMES: [(Type, &str); 7] = [
    (Type::Whole, "whole"),
    (Type::Unsigned, "unsigned"),
    (Type::Number, "number"),
    (Type::Seconds, "seconds"),
    (Type::Flag, "flag"),
    (Type::Word, "word"),
    (Type::Text, "text"),
];

/// Parquet as a format of results: `knee run --format parquet`. [`add`] makes it known to all readers of results.
#[derive(Clone, Copy, Debug)]
pub struct Parquet;

/// Makes Parquet known to all readers of results in this process.
pub fn add() {
    format::add(&Parquet);
}

impl Format for Parquet {
    fn name(&self) -> &'static str {
        format::PARQUET
    }

    fn sink(&self, file: File) -> Box<dyn Sink + Send> {
        Box::new(ParquetSink::new(file))
    }

    fn open(&self, path: &Path, file: &File) -> Result<Option<Box<dyn format::Rows>>, Error> {
        Ok(Some(Box::new(caught(path, || ParquetRows::open(path, file))?)))
    }
}

fn other(why: ParquetError) -> io::Error {
    match why {
        ParquetError::External(why) => match why.downcast::<io::Error>() {
            Ok(why) => *why,
            Err(why) => io::Error::other(why),
        },
        why => io::Error::other(why),
    }
}

/// Values of a column without its empty cells, and for each row whether there is one.
#[derive(Default)]
struct Values<T> {
    values: Vec<T>,
    levels: Vec<i16>,
}

impl<T> Values<T> {
    fn push(&mut self, value: Option<T>) {
        self.levels.push(i16::from(value.is_some()));
        self.values.extend(value);
    }
}

/// A column in memory.
enum Buffer {
    /// Numbers of 64 bits, with or without a sign.
    Whole(Values<i64>),
    Number(Values<f64>),
    Flag(Values<bool>),
    Text(Values<ByteArray>),
}

impl Buffer {
    fn new(kind: Type) -> Buffer {
        match physical(kind) {
            Physical::INT64 => Buffer::Whole(Values::default()),
            Physical::DOUBLE => Buffer::Number(Values::default()),
            Physical::BOOLEAN => Buffer::Flag(Values::default()),
            _ => Buffer::Text(Values::default()),
        }
    }
}

fn physical(kind: Type) -> Physical {
    match kind {
        Type::Whole | Type::Unsigned => Physical::INT64,
        Type::Number | Type::Seconds => Physical::DOUBLE,
        Type::Flag => Physical::BOOLEAN,
        Type::Word | Type::Text => Physical::BYTE_ARRAY,
    }
}

/// A column that grows.
struct Growing {
    column: Column,
    buffer: Buffer,
    /// Texts that it has.
    words: HashMap<Box<str>, ByteArray>,
}

impl Growing {
    fn push(&mut self, cell: &Cell<'_>) -> io::Result<()> {
        let is_empty = matches!(cell, Cell::Empty);
        let misfit = || misfit(&self.column, cell);
        match &mut self.buffer {
            Buffer::Whole(to) if is_empty => to.push(None),
            Buffer::Number(to) if is_empty => to.push(None),
            Buffer::Flag(to) if is_empty => to.push(None),
            Buffer::Text(to) if is_empty => to.push(None),
            Buffer::Whole(to) => to.push(Some(match self.column.kind {
                Type::Unsigned => unsigned(cell).ok_or_else(misfit)? as i64,
                _ => whole(cell).ok_or_else(misfit)?,
            })),
            Buffer::Number(to) => to.push(Some(number(cell).ok_or_else(misfit)?)),
            Buffer::Flag(to) => to.push(Some(unsigned(cell).ok_or_else(misfit)? != 0)),
            Buffer::Text(to) => {
                let word = text(cell).ok_or_else(misfit)?;
                let known = self.words.get(word).cloned();
                to.push(Some(known.unwrap_or_else(|| {
                    let bytes = ByteArray::from(word.as_bytes().to_vec());
                    if self.words.len() < MOST_WORDS {
                        self.words.insert(word.into(), bytes.clone());
                    }
                    bytes
                })));
            }
        }
        Ok(())
    }

    /// Writes what there is, and forgets it.
    fn write(&mut self, to: &mut ColumnWriter<'_>) -> Result<(), ParquetError> {
        fn write<T: DataType>(
            to: &mut parquet::column::writer::ColumnWriterImpl<'_, T>,
            from: &mut Values<T::T>,
        ) -> Result<(), ParquetError> {
            to.write_batch(&from.values, Some(&from.levels), None)?;
            from.values.clear();
            from.levels.clear();
            Ok(())
        }
        match (to, &mut self.buffer) {
            (ColumnWriter::Int64ColumnWriter(to), Buffer::Whole(from)) => write(to, from),
            (ColumnWriter::DoubleColumnWriter(to), Buffer::Number(from)) => write(to, from),
            (ColumnWriter::BoolColumnWriter(to), Buffer::Flag(from)) => write(to, from),
            (ColumnWriter::ByteArrayColumnWriter(to), Buffer::Text(from)) => write(to, from),
            _ => Err(ParquetError::General("a column of another type".to_owned())),
        }
    }
}

/// A sink that writes a Parquet file. At most a group of rows is in memory.
struct ParquetSink {
    /// Until the table begins.
    file: Option<File>,
    writer: Option<SerializedFileWriter<BufWriter<File>>>,
    columns: Vec<Growing>,
    label: Vec<Cell<'static>>,
    rows: usize,
}

impl ParquetSink {
    fn new(file: File) -> ParquetSink {
        let (columns, label) = (Vec::new(), Vec::new());
        ParquetSink { file: Some(file), writer: None, columns, label, rows: 0 }
    }

    fn write_group(&mut self) -> io::Result<()> {
        let Some(writer) = self.writer.as_mut().filter(|_| mem::take(&mut self.rows) > 0) else {
            return Ok(());
        };
        let mut group = writer.next_row_group().map_err(other)?;
        for column in &mut self.columns {
            let missing = || io::Error::other("a column is missing");
            let mut to = group.next_column().map_err(other)?.ok_or_else(missing)?;
            column.write(to.untyped()).and_then(|()| to.close()).map_err(other)?;
        }
        group.close().map(drop).map_err(other)
    }
}

fn node(column: &Column) -> Result<TypePtr, ParquetError> {
    let logical = match column.kind {
        Type::Whole => Some(LogicalType::integer(64, true)),
        Type::Unsigned => Some(LogicalType::integer(64, false)),
        Type::Word | Type::Text => Some(LogicalType::String),
        Type::Number | Type::Seconds | Type::Flag => None,
    };
    let node = Node::primitive_type_builder(&column.name, physical(column.kind));
    let node = node.with_repetition(Repetition::OPTIONAL).with_logical_type(logical);
    node.build().map(Arc::new)
}

/// How a table is compressed. Counters repeat those of the row before or of the same connection some rows before, which Zstandard finds
/// in plain numbers better than behind a dictionary or as differences: by a third on samples of 19 connections.
fn properties(schema: &Schema) -> Result<WriterProperties, ParquetError> {
    let types: Vec<&str> = schema.columns.iter().map(|column| name_of(column.kind)).collect();
    let types = KeyValue::new(TYPES.to_owned(), types.join(","));
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("knee ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_dictionary_enabled(false)
        .set_data_page_row_count_limit(GROUP_ROWS)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_key_value_metadata(Some(vec![types]));
    for column in schema.columns.iter().filter(|column| column.kind == Type::Word) {
        let path = ColumnPath::new(vec![column.name.clone().into_owned()]);
        properties = properties.set_column_dictionary_enabled(path, true);
    }
    Ok(properties.build())
}

fn name_of(kind: Type) -> &'static str {
    NAMES.iter().find(|(of, _)| *of == kind).map_or("text", |(_, name)| name)
}

impl Sink for ParquetSink {
    fn begin(&mut self, schema: &Schema) -> io::Result<()> {
        let again = || io::Error::other("a table that has begun");
        let file = self.file.take().ok_or_else(again)?;
        let nodes = schema.columns.iter().map(node).collect::<Result<_, _>>().map_err(other)?;
        let root = Node::group_type_builder("table").with_fields(nodes).build().map_err(other)?;
        let properties = Arc::new(properties(schema).map_err(other)?);
        let out = BufWriter::new(file);
        let writer = SerializedFileWriter::new(out, Arc::new(root), properties).map_err(other)?;
        self.writer = Some(writer);
        let growing = |column: &Column| Growing {
            column: column.clone(),
            buffer: Buffer::new(column.kind),
            words: HashMap::new(),
        };
        self.columns = schema.columns.iter().map(growing).collect();
        Ok(())
    }

    fn label(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        // Rows of a journal bring theirs each.
        if self.label != cells {
            self.label = cells.iter().map(Cell::to_static).collect();
        }
        Ok(())
    }

    fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        let all = self.label.iter().chain(cells);
        self.columns.iter_mut().zip(all).try_for_each(|(column, cell)| column.push(cell))?;
        self.rows += 1;
        match self.rows {
            GROUP_ROWS => self.write_group(),
            _ => Ok(()),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        self.write_group()?;
        let Some(writer) = self.writer.take() else { return Ok(()) };
        // It writes the footer.
        let out = writer.into_inner().map_err(other)?;
        out.into_inner().map(drop).map_err(io::IntoInnerError::into_error)
    }
}

/// Values that were read, and the next of them.
struct Read<T: DataType> {
    from: ColumnReaderImpl<T>,
    values: Vec<T::T>,
    next: usize,
}

enum Reading {
    Whole(Read<Int64Type>),
    Number(Read<DoubleType>),
    Flag(Read<BoolType>),
    Text(Read<ByteArrayType>),
}

/// A column of the group that is read.
struct Reader {
    kind: Type,
    reading: Reading,
    levels: Vec<i16>,
}

impl Reader {
    fn new(kind: Type, from: ColumnReader) -> Option<Reader> {
        fn read<T: DataType>(from: ColumnReaderImpl<T>) -> Read<T> {
            Read { from, values: Vec::new(), next: 0 }
        }
        let reading = match from {
            ColumnReader::Int64ColumnReader(from) => Reading::Whole(read(from)),
            ColumnReader::DoubleColumnReader(from) => Reading::Number(read(from)),
            ColumnReader::BoolColumnReader(from) => Reading::Flag(read(from)),
            ColumnReader::ByteArrayColumnReader(from) => Reading::Text(read(from)),
            _ => return None,
        };
        Some(Reader { kind, reading, levels: Vec::new() })
    }

    /// Reads the next rows, and returns how many there are.
    fn read(&mut self, rows: usize) -> Result<usize, ParquetError> {
        fn read<T: DataType>(
            read: &mut Read<T>,
            levels: &mut Vec<i16>,
            rows: usize,
        ) -> Result<usize, ParquetError> {
            read.values.clear();
            levels.clear();
            read.next = 0;
            let (records, values, _) =
                read.from.read_records(rows, Some(levels), None, &mut read.values)?;
            let there = levels.iter().filter(|level| **level == 1).count();
            match levels.len() == records && there == values && read.values.len() == values {
                true => Ok(records),
                false => Err(ParquetError::General("values are not of their rows".to_owned())),
            }
        }
        match &mut self.reading {
            Reading::Whole(from) => read(from, &mut self.levels, rows),
            Reading::Number(from) => read(from, &mut self.levels, rows),
            Reading::Flag(from) => read(from, &mut self.levels, rows),
            Reading::Text(from) => read(from, &mut self.levels, rows),
        }
    }

    /// The cell of a row. Rows come in order. `None`: it is no text.
    fn cell(&mut self, row: usize) -> Option<Cell<'_>> {
        fn next<T: DataType>(read: &mut Read<T>) -> Option<&T::T> {
            read.next += 1;
            read.values.get(read.next - 1)
        }
        if self.levels.get(row) != Some(&1) {
            return Some(Cell::Empty);
        }
        Some(match &mut self.reading {
            Reading::Whole(from) => {
                let number = *next(from)?;
                match self.kind {
                    Type::Unsigned => Cell::Whole(number as u64),
                    _ => number.into(),
                }
            }
            Reading::Number(from) => Cell::Number(*next(from)?),
            Reading::Flag(from) => Cell::Whole(u64::from(*next(from)?)),
            Reading::Text(from) => {
                let bytes = next(from)?.data();
                let text = std::str::from_utf8(bytes).ok();
                text.filter(|text| text.len() <= LONGEST_TEXT)?.into()
            }
        })
    }
}

/// Does what reads a file of a stranger: the library panics at some of what a damaged one may say.
fn caught<T>(path: &Path, read: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let read = catch_unwind(AssertUnwindSafe(read));
    read.unwrap_or_else(|_| Err(Error::input(path, 0, "is damaged".to_owned())))
}

/// The rows of a Parquet file.
struct ParquetRows {
    path: PathBuf,
    file: File,
    reader: SerializedFileReader<File>,
    schema: Schema,
    /// Groups that were begun.
    groups: usize,
    columns: Vec<Reader>,
    /// Rows of the group that were not read yet.
    left: usize,
    /// Number of rows in memory, and the next of them.
    read: usize,
    next: usize,
}

impl ParquetRows {
    fn open(path: &Path, file: &File) -> Result<ParquetRows, Error> {
        let wrong = |why: String| Error::input(path, 0, why);
        let io = |why| Error::io(path, "cannot read", why);
        guard::footer(file).map_err(wrong)?;
        let clone = || file.try_clone().map_err(io);
        let damaged = |why: ParquetError| wrong(format!("is damaged: {why}"));
        let reader = SerializedFileReader::new(clone()?).map_err(damaged)?;
        let schema = schema(&reader).map_err(wrong)?;
        let bytes = file.metadata().map_err(io)?.len();
        let metadata = reader.metadata();
        let groups = metadata.row_groups().iter();
        let rows = groups.map(|group| u64::try_from(group.num_rows()).unwrap_or(u64::MAX));
        let rows = rows.fold(0, u64::saturating_add);
        if rows > bytes.saturating_mul(MOST_ROWS_PER_BYTE) {
            let why = format!("has {rows} rows in {bytes} bytes: this is not a results table");
            return Err(wrong(why));
        }
        let (path, file) = (path.to_owned(), clone()?);
        let (columns, groups, left, read, next) = (Vec::new(), 0, 0, 0, 0);
        Ok(ParquetRows { path, file, reader, schema, groups, columns, left, read, next })
    }

    fn wrong(&self, why: impl std::fmt::Display) -> Error {
        Error::input(&self.path, 0, format!("is damaged: {why}"))
    }

    /// Begins the next group of rows. Returns whether there is one.
    fn begin(&mut self) -> Result<bool, Error> {
        let metadata = self.reader.metadata();
        let Some(group) = metadata.row_groups().get(self.groups) else { return Ok(false) };
        if group.num_columns() != self.schema.columns.len() {
            return Err(self.wrong("a group of rows has other columns"));
        }
        for column in group.columns() {
            let place = [column.data_page_offset(), column.compressed_size()];
            if place.iter().chain(&column.dictionary_page_offset()).any(|number| *number < 0) {
                return Err(self.wrong("a column lies before the file"));
            }
            let (from, len) = column.byte_range();
            guard::pages(&self.file, from, len).map_err(|why| Error::input(&self.path, 0, why))?;
        }
        let rows = usize::try_from(group.num_rows()).map_err(|why| self.wrong(why))?;
        let group = self.reader.get_row_group(self.groups).map_err(|why| self.wrong(why))?;
        let mut columns = Vec::new();
        for (number, column) in self.schema.columns.iter().enumerate() {
            let reader = group.get_column_reader(number).map_err(|why| self.wrong(why))?;
            let reader = Reader::new(column.kind, reader);
            columns.push(reader.ok_or_else(|| self.wrong("a column has another type"))?);
        }
        self.columns = columns;
        self.groups += 1;
        (self.left, self.read, self.next) = (rows, 0, 0);
        Ok(true)
    }

    /// Reads rows until there are some. Returns whether there are.
    fn fill(&mut self) -> Result<bool, Error> {
        while self.left == 0 {
            if !self.begin()? {
                return Ok(false);
            }
        }
        let wanted = self.left.min(READ_ROWS);
        for number in 0..self.columns.len() {
            let read = self.columns[number].read(wanted).map_err(|why| self.wrong(why))?;
            if read != wanted {
                return Err(self.wrong("it has fewer rows than it says"));
            }
        }
        self.left -= wanted;
        (self.read, self.next) = (wanted, 0);
        Ok(true)
    }
}

/// Returns the columns of a file.
///
/// # Errors
/// A phrase that follows the file's name, if they are not such as knee writes.
fn schema(reader: &SerializedFileReader<File>) -> Result<Schema, String> {
    let metadata = reader.metadata().file_metadata();
    let root = metadata.schema_descr().root_schema();
    let fields = root.get_fields();
    if fields.is_empty() || fields.len() > guard::MOST_COLUMNS {
        return Err(format!("has {} columns: this is not a results table", fields.len()));
    }
    let pairs = metadata.key_value_metadata().map_or(&[][..], |pairs| pairs);
    let types = pairs.iter().find(|pair| pair.key == TYPES).and_then(|pair| pair.value.as_deref());
    let types: Vec<&str> = types.unwrap_or_default().split(',').collect();
    let mut columns: Vec<Column> = Vec::new();
    for (number, field) in fields.iter().enumerate() {
        let wrong = |why| {
            let name: String = field.name().chars().take(40).collect();
            format!("has a column {name:?} {why}: this is not a results table")
        };
        if !field.is_primitive() || field.get_basic_info().repetition() != Repetition::OPTIONAL {
            return Err(wrong("of lists or structures, or without empty cells"));
        }
        if columns.iter().any(|column| column.name == field.name()) {
            return Err(wrong("twice"));
        }
        let named = types.get(number).and_then(|word| NAMES.iter().find(|(_, name)| name == word));
        let kind = named.map_or(Type::Text, |(kind, _)| *kind);
        if physical(kind) != field.get_physical_type() {
            return Err(wrong("whose type it does not say"));
        }
        columns.push(Column::new(field.name().to_owned(), kind));
    }
    Ok(Schema { columns, labels: 0 })
}

impl format::Rows for ParquetRows {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn next(&mut self, to: &mut dyn FnMut(&[Cell<'_>])) -> Result<bool, Error> {
        if self.next == self.read {
            let path = self.path.clone();
            if !caught(&path, || self.fill())? {
                return Ok(false);
            }
        }
        let row = self.next;
        self.next += 1;
        let cells = self.columns.iter_mut().map(|column| column.cell(row));
        match cells.collect::<Option<Vec<Cell<'_>>>>() {
            Some(cells) => {
                to(&cells);
                Ok(true)
            }
            None => Err(self.wrong("it has a text that is none, or is too long")),
        }
    }
}
