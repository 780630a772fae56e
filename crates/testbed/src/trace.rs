//! Recordings of the calls during a test, written to a file and read back.

use std::thread;
use std::time::Duration;

use knee_algo::{Algorithm, Params};
use knee_bpf::Tracer;
use knee_flight::{Ending, Origin, Reader, Record, Replay, Report, Writer};

/// Records the calls during `run` and returns the records from the file.
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
    // The last calls are still in the ring buffer.
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

/// Reads the records of a recording file.
pub fn read(file: &[u8]) -> Vec<Record> {
    let mut reader = Reader::new(file).unwrap();
    let mut records = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        records.push(record);
    }
    records
}

/// Replays recorded calls on the native build.
pub fn replay(algorithm: &'static Algorithm, params: &Params, records: &[Record]) -> Report {
    let hz = knee_bpf::KernelApi::running().hz;
    let mut replay = Replay::new(algorithm, params.clone(), hz).unwrap().of(Origin::Kernel);
    records.iter().for_each(|record| replay.step(record));
    replay.finish()
}
