//! Recordings of what a test does, on the way through the file.

use std::thread;
use std::time::Duration;

use knee_algo::{Algorithm, Params};
use knee_bpf::Tracer;
use knee_flight::{Ending, Origin, Reader, Record, Replay, Report, Writer};

/// Records `run`, and reads back what the file holds.
pub fn record(tracer: &mut Tracer, run: impl FnOnce() + Send) -> Vec<Record> {
    let mut file = Writer::new(Vec::new(), tracer.header()).unwrap();
    thread::scope(|scope| {
        let run = scope.spawn(run);
        while !run.is_finished() {
            for record in tracer.poll(Duration::from_millis(20)).unwrap() {
                file.write(&record).unwrap();
            }
        }
    });
    // What happened last is in the ring still.
    loop {
        let records = tracer.rest().unwrap();
        if records.is_empty() {
            break;
        }
        records.iter().for_each(|record| file.write(record).unwrap());
    }
    assert_eq!(tracer.lost(), Ending::default(), "records lost");
    read(&file.finish(&tracer.lost()).unwrap())
}

/// The records of a file.
pub fn read(file: &[u8]) -> Vec<Record> {
    let mut reader = Reader::new(file).unwrap();
    let mut records = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        records.push(record);
    }
    records
}

/// Replays recorded calls natively.
pub fn replay(algorithm: &'static Algorithm, params: &Params, records: &[Record]) -> Report {
    let hz = knee_bpf::KernelApi::running().hz;
    let mut replay = Replay::new(algorithm, params.clone(), hz).unwrap().of(Origin::Kernel);
    records.iter().for_each(|record| replay.step(record));
    replay.finish()
}
