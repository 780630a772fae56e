//! Parquet files, whole and broken, and both formats read as columns.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::fs::{self, File};
use std::path::Path;
use std::sync::{Arc, Once};

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use knee_columns::{ArrowSink, ArrowTable, Parquet, add, columns_of};
use knee_results::format::CSV;
use knee_results::manifest::Axis;
use knee_results::{Cell, Column, Error, Format, ResultFile, Schema, Sink as _, Table, Type, rows};
use parquet::basic::{Compression, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type as Node;
use tempfile::TempDir;

/// More than a group of rows, and a batch.
const ROWS: u64 = 70_000;

fn ready() {
    static ONCE: Once = Once::new();
    ONCE.call_once(add);
}

fn axis() -> Axis {
    Axis {
        path: "rate".into(),
        values: vec!["10 Gbps".into()],
        column: Some("rate_bps".into()),
        numbers: vec![1e10],
        ..Axis::default()
    }
}

/// Columns of `series-flows`, with an algorithm's own ones.
fn samples() -> Schema {
    let mut schema = ResultFile::FlowSample.schema([]);
    schema.columns.push(Column::new("alpha_1/1024", Type::Unsigned));
    schema.columns.push(Column::new("slope", Type::Whole));
    schema
}

fn write(dir: &Path, format: &dyn Format, rows: u64) {
    let file = File::create(dir.join(ResultFile::FlowSample.name_in(format))).unwrap();
    let mut sink = format.sink(file);
    sink.begin(&samples()).unwrap();
    sink.label(&[0u64.into()]).unwrap();
    for number in 0..rows {
        let row = rows::FlowSample {
            at_s: Cell::Seconds(number / 3 * 100_000_001),
            flow: (number % 3).into(),
            traffic: ["bulk, long", "short", "a \"b\""][number as usize % 3].into(),
            ca_state: 0u64.into(),
            cwnd_pkts: (10 + number % 7).into(),
            ssthresh_pkts: (number % 2 == 0).then_some(number).into(),
            srtt_us: number.into(),
            rttvar_us: number.into(),
            min_rtt_us: number.into(),
            unacked_pkts: Cell::Empty,
            sacked_pkts: Cell::Empty,
            lost_pkts: 0u64.into(),
            retrans_out_pkts: 0u64.into(),
            total_retrans: 0u64.into(),
            delivered_pkts: number.into(),
            delivered_ce_pkts: 0u64.into(),
            bytes_acked: (number * 1448).into(),
            pacing_rate_bytes_per_sec: (u64::MAX - 1).into(),
            rto_us: 200_000u64.into(),
            data_segs_out: number.into(),
            fast_recoveries: Cell::Empty,
        };
        let inside = [(u64::MAX - number).into(), (-(number as i64)).into()];
        sink.row(&row.cells().into_iter().chain(inside).collect::<Vec<_>>()).unwrap();
    }
    sink.finish().unwrap();
}

fn folder(format: &dyn Format, rows: u64) -> TempDir {
    ready();
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), format, rows);
    dir
}

fn texts(dir: &Path) -> Vec<Vec<String>> {
    let mut table = ResultFile::FlowSample.open(dir).unwrap().unwrap();
    let columns = table.header().len();
    let mut rows = vec![table.header().to_vec()];
    while let Some(row) = table.next().unwrap() {
        rows.push((0..columns).map(|column| row.text(column).to_owned()).collect());
    }
    rows
}

#[test]
fn a_reader_of_tables_sees_the_same_text_in_both_formats() {
    let [csv, parquet] = [CSV, &Parquet].map(|format| folder(format, ROWS));
    let [csv, parquet] = [csv, parquet].map(|dir| texts(dir.path()));
    assert_eq!(csv.len() as u64, ROWS + 1);
    assert!(csv == parquet);
}

#[test]
fn columns_are_the_same_whatever_the_format() {
    let tables = [CSV, &Parquet].map(|format| {
        let dir = folder(format, ROWS);
        read(dir.path(), ResultFile::FlowSample, &[]).unwrap().unwrap()
    });
    let [csv, parquet] = &tables;
    assert_eq!(csv.schema, parquet.schema);
    assert_eq!(csv.batches, parquet.batches);
    let ArrowTable { batches, .. } = parquet;
    assert_eq!(batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>(), ROWS);
    let (batch, row) = (batches.last().unwrap(), batches.last().unwrap().num_rows() - 1);
    let column = |name: &str| batch.column_by_name(name).unwrap();
    let last = ROWS - 1;
    let at = column("at_s").as_primitive::<Float64Type>().value(row);
    assert_eq!(at, (last / 3 * 100_000_001 / 1000) as f64 / 1e9);
    assert_eq!(column("slope").as_primitive::<Int64Type>().value(row), -(last as i64));
    assert_eq!(column("alpha_1/1024").as_primitive::<UInt64Type>().value(row), u64::MAX - last);
    assert_eq!(column("unacked_pkts").null_count(), batch.num_rows());
    let traffic = column("traffic").as_any_dictionary();
    assert_eq!(traffic.values().len(), 3);
}

#[test]
fn a_varied_value_is_a_number_where_its_column_has_a_unit() {
    ready();
    for format in [CSV, &Parquet] {
        let dir = tempfile::tempdir().unwrap();
        let file = File::create(dir.path().join(ResultFile::Rpc.name_in(format))).unwrap();
        let mut sink = format.sink(file);
        sink.begin(&ResultFile::Rpc.schema([Column::new("rate_bps", Type::Number)])).unwrap();
        sink.label(&[0u64.into(), "dctcp".into(), 1e10.into(), 0u64.into()]).unwrap();
        let [flow, traffic] = [1u64.into(), "short".into()];
        let [start_s, latency_s] = [Cell::Seconds(0), Cell::Empty];
        sink.row(&rows::Rpc { flow, traffic, start_s, latency_s }.cells()).unwrap();
        sink.finish().unwrap();
        drop(sink);
        let table = read(dir.path(), ResultFile::Rpc, &[axis()]).unwrap().unwrap();
        let rate = table.batches[0].column_by_name("rate_bps").unwrap();
        assert_eq!(rate.as_primitive::<Float64Type>().value(0), 1e10);
        let mut rows = ResultFile::Rpc.open(dir.path()).unwrap().unwrap();
        let rate = rows.axes(&[axis()]).unwrap()[0];
        // The manifest finds the value as written by this text.
        assert_eq!(axis().value(rows.next().unwrap().unwrap().text(rate)), "10 Gbps");
    }
}

/// Reads a file to its end.
/// A table of a directory as Arrow.
fn read(dir: &Path, file: ResultFile, axes: &[Axis]) -> Result<Option<ArrowTable>, Error> {
    let Some(path) = file.path(dir)? else { return Ok(None) };
    let mut table = Table::open(&path)?;
    let schema = Schema { columns: columns_of(&path, &table, file, axes)?, labels: 0 };
    let mut sink = ArrowSink::new(&schema);
    while table.each(&schema, &mut |row| sink.row(row).unwrap())? {}
    Ok(Some(sink.table().unwrap()))
}

fn read_all(path: &Path) -> Result<u64, String> {
    let mut table = Table::open(path).map_err(|why| why.to_string())?;
    let mut rows = 0;
    while table.next().map_err(|why| why.to_string())?.is_some() {
        rows += 1;
    }
    Ok(rows)
}

#[test]
fn a_cut_file_is_said_to_be_cut() {
    let dir = folder(&Parquet, 5_000);
    let path = dir.path().join("series-flows.parquet");
    let whole = fs::read(&path).unwrap();
    assert_eq!(read_all(&path), Ok(5_000));
    for len in [0, 3, 8, 11, 100, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..len]).unwrap();
        let why = read_all(&path).unwrap_err();
        assert!(
            why.ends_with("series-flows.parquet: has no end: the file is cut, or is being written"),
            "{why}"
        );
    }
    fs::write(&path, "run,at_s\n0,1\n2,3\n").unwrap();
    assert!(read_all(&path).unwrap_err().ends_with(": is not Parquet"));
}

#[test]
fn a_table_in_both_formats_is_refused() {
    let dir = folder(&Parquet, 10);
    write(dir.path(), CSV, 10);
    let why = read(dir.path(), ResultFile::FlowSample, &[]).unwrap_err().to_string();
    assert!(why.contains("series-flows.csv is there, too") && why.ends_with("remove one"), "{why}");
}

#[test]
fn a_cell_that_does_not_fit_names_its_column() {
    let dir = tempfile::tempdir().unwrap();
    let mut sink = Parquet.sink(File::create(dir.path().join("x")).unwrap());
    sink.begin(&ResultFile::GoodputSample.schema([])).unwrap();
    sink.label(&[0u64.into()]).unwrap();
    let row = |bytes| [Cell::Seconds(0), 0u64.into(), "bulk".into(), bytes];
    sink.row(&row(1u64.into())).unwrap();
    for wrong in ["x".into(), u64::MAX.into(), 0.5.into()] {
        let why = sink.row(&row(wrong)).unwrap_err().to_string();
        assert!(why.starts_with("bytes = "), "{why}");
    }
    let text = ResultFile::GoodputSample.schema([]);
    assert!(sink.text(&text, "0,0.5,0,bulk\n").is_err());
    assert!(sink.text(&text, "0,0.5,0,bulk,12\n0,0.5,0,\"a\nb\",\n").is_ok());
}

/// Writes a file without rows, or with one text.
fn foreign(path: &Path, root: Node, text: Option<Vec<u8>>) {
    let properties = WriterProperties::builder().set_dictionary_enabled(false);
    let zstd = Compression::ZSTD(ZstdLevel::default());
    let properties = properties.set_compression(zstd).build();
    let file = File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, Arc::new(root), Arc::new(properties)).unwrap();
    if let Some(text) = text {
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let values = [ByteArray::from(text)];
        column.typed::<ByteArrayType>().write_batch(&values, Some(&[1]), None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
    }
    writer.close().unwrap();
}

fn text_column() -> Node {
    let node = Node::primitive_type_builder("text", Physical::BYTE_ARRAY);
    node.with_repetition(Repetition::OPTIONAL).build().unwrap()
}

fn group(of: Vec<Node>) -> Node {
    let of = of.into_iter().map(Arc::new).collect();
    let node = Node::group_type_builder("group").with_fields(of);
    node.with_repetition(Repetition::OPTIONAL).build().unwrap()
}

#[test]
fn what_would_take_much_memory_is_refused_first() {
    ready();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("series-flows.parquet");
    let refused = |says: &str| {
        let why = read_all(&path).unwrap_err();
        assert!(why.contains(says) && why.ends_with("this is not a results table"), "{why}");
    };
    // Some kilobytes that become many.
    foreign(&path, group(vec![text_column()]), Some(vec![b'a'; 100 << 20]));
    assert!(fs::metadata(&path).unwrap().len() < 100_000);
    refused("has a page of 1048576");
    // A text that no line of CSV would hold.
    foreign(&path, group(vec![text_column()]), Some(vec![b'a'; 1 << 20]));
    assert!(read_all(&path).unwrap_err().contains("is too long"));
    let deep = (0..200).fold(text_column(), |inside, _| group(vec![inside]));
    foreign(&path, group(vec![deep]), None);
    refused("has columns of lists or structures");
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.len() - 8;
    bytes[at..at + 4].copy_from_slice(&(1_u32 << 31).to_le_bytes());
    fs::write(&path, &bytes).unwrap();
    refused("has a footer of 2147483648 bytes");
    let many = |columns: usize| {
        let named = |number| {
            let name = format!("c{number}");
            let node = Node::primitive_type_builder(&name, Physical::INT64);
            node.with_repetition(Repetition::OPTIONAL).build().unwrap()
        };
        group((0..columns).map(named).collect())
    };
    foreign(&path, many(5_000), None);
    refused("has 5000 columns");
}

#[test]
fn rows_that_take_no_bytes_are_refused() {
    let dir = folder(&Parquet, 300);
    let path = dir.path().join("series-flows.parquet");
    let whole = fs::read(&path).unwrap();
    // The number of rows, as a footer has it: the fields behind the schema and the columns.
    let three_hundred = [0xd8, 0x04];
    let places = whole.windows(2).enumerate().filter(|(_, bytes)| **bytes == three_hundred);
    let footer = whole.len()
        - 8
        - u32::from_le_bytes(whole[whole.len() - 8..][..4].try_into().unwrap()) as usize;
    let mut refused = 0;
    for (at, _) in places.filter(|(at, _)| *at > footer) {
        let mut bytes = whole.clone();
        // As many as two bytes can say in zigzag, of a file of a few kilobytes.
        bytes[at..at + 2].copy_from_slice(&[0xfe, 0x7f]);
        fs::write(&path, bytes).unwrap();
        refused += usize::from(read_all(&path).is_err());
    }
    assert!(refused > 0);
}

/// Numbers that look drawn, and are the same each time.
fn numbers() -> impl Iterator<Item = u64> {
    std::iter::successors(Some(0x9e37_79b9_7f4a_7c15_u64), |last| {
        let mut next = *last;
        next ^= next << 13;
        next ^= next >> 7;
        next ^= next << 17;
        Some(next)
    })
}

#[test]
fn a_changed_file_gives_rows_or_a_sentence() {
    let dir = folder(&Parquet, 300);
    let path = dir.path().join("series-flows.parquet");
    let whole = fs::read(&path).unwrap();
    let footer = u32::from_le_bytes(whole[whole.len() - 8..][..4].try_into().unwrap()) as usize;
    let mut numbers = numbers();
    let mut next = |below: usize| (numbers.next().unwrap() % below as u64) as usize;
    let mut refused = 0;
    for turn in 0..600 {
        let mut bytes = whole.clone();
        for _ in 0..=next(3) {
            // Half of them in the footer, whose sizes are believed first.
            let at = match turn % 2 {
                0 => whole.len() - 8 - 1 - next(footer),
                _ => next(whole.len()),
            };
            bytes[at] = [0, 0xff, 0x7f, 0x80, next(256) as u8][next(5)];
        }
        fs::write(&path, bytes).unwrap();
        match read_all(&path) {
            Ok(rows) => assert!(rows <= 300 * 64),
            Err(why) => {
                refused += 1;
                assert!(why.contains("series-flows.parquet: ") && why.len() < 500, "{why}");
            }
        }
    }
    assert!(refused > 100, "{refused}");
}
