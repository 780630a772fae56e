//! The journal of a sweep: each finished run, whole, from the moment at which it ends.
//!
//! When the sweep ends, all results are written from here, in the order of their numbers. So a sweep that was killed and
//! continued has the same bytes as one that was not disturbed.
//!
//! A frame is a length, a checksum and a [`prost`] message. The first one describes the experiment, each other one is a
//! run. A frame that was torn when its writer died is cut off.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use knee_files::Dir;
use knee_run::Budget;
use prost::Message;
use rustix::fs::{FlockOperation, flock};

use crate::run_name::RunName;
use knee_scenario::stored::StoredMeasured;

/// Name of the file in a results directory.
pub(crate) const JOURNAL: &str = "runs.journal";
/// Length and checksum before each message, bytes.
const FRAME_BYTES: usize = 8;
/// Largest message, bytes.
const MOST_BYTES: u32 = 1 << 30;
/// Time between two waits for the disk: what a loss of power may cost.
const BETWEEN_SYNCS: Duration = Duration::from_secs(2);

/// A finished run as the journal holds it.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct StoredRun {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) name: Vec<u8>,
    /// Labels of its rows: the run with its case, varied values and repeat.
    #[prost(string, tag = "2")]
    pub(crate) label: String,
    /// Number of the run, the label of rows without case.
    #[prost(string, tag = "3")]
    pub(crate) index: String,
    #[prost(message, repeated, tag = "4")]
    pub(crate) measured: Vec<StoredMeasured>,
    /// Limits of its validity. `None`: no host has a part in it.
    #[prost(message, optional, tag = "5")]
    pub(crate) limits: Option<StoredLimits>,
    #[prost(message, repeated, tag = "6")]
    pub(crate) rows: Vec<StoredRows>,
    #[prost(uint64, tag = "7")]
    pub(crate) events: u64,
    #[prost(uint64, tag = "8")]
    pub(crate) data_pkts: u64,
    #[prost(uint64, tag = "9")]
    pub(crate) pkt_hops: u64,
    #[prost(string, optional, tag = "10")]
    pub(crate) warning: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StoredLimits {
    #[prost(string, repeated, tag = "1")]
    pub(crate) limits: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StoredRows {
    #[prost(string, tag = "1")]
    pub(crate) file: String,
    #[prost(string, tag = "2")]
    pub(crate) text: String,
}

/// First frame.
#[derive(Clone, PartialEq, Message)]
struct Head {
    #[prost(uint32, tag = "1")]
    format: u32,
    /// Description of the experiment, as JSON.
    #[prost(string, tag = "2")]
    about: String,
}

const FORMAT: u32 = 1;

/// The runs of a results directory. Only one process at a time holds it.
#[derive(Debug)]
pub(crate) struct Journal {
    reader: File,
    state: Mutex<State>,
    /// Description of the experiment whose runs these are, as JSON.
    pub(crate) about: String,
    /// Number of runs that an earlier process left.
    pub(crate) earlier: usize,
    /// Bytes that an earlier process left.
    earlier_bytes: u64,
}

#[derive(Debug)]
struct State {
    file: File,
    /// Bytes of whole frames.
    len: u64,
    synced: Instant,
    runs: HashMap<RunName, Slot>,
    is_closed: bool,
}

#[derive(Clone, Copy, Debug)]
enum Slot {
    /// The run with this number has begun.
    Begun(usize),
    /// Place of its message.
    At { offset: u64, len: u32 },
}

impl Journal {
    /// Starts a journal in a new file, and holds it.
    pub(crate) fn create(dir: &Dir, file: File, about: String) -> io::Result<Journal> {
        let reader = hold(dir)?;
        let state =
            State { file, len: 0, synced: Instant::now(), runs: HashMap::new(), is_closed: false };
        let journal =
            Journal { reader, state: Mutex::new(state), about, earlier: 0, earlier_bytes: 0 };
        let head = Head { format: FORMAT, about: journal.about.clone() };
        journal.state().append(&frame(&head)?)?;
        Ok(journal)
    }

    /// Opens the journal that an earlier process left. `None` if there is none. What is no whole frame is cut off.
    ///
    /// # Errors
    /// The system's, or that another process holds it.
    pub(crate) fn open(dir: &Dir) -> io::Result<Option<Journal>> {
        if !dir.is_file(OsStr::new(JOURNAL)) {
            return Ok(None);
        }
        let reader = hold(dir)?;
        let file = dir.append(OsStr::new(JOURNAL))?;
        let all = reader.metadata()?.len();
        let (mut len, mut runs, mut head) = (0, HashMap::new(), None);
        let mut bytes = Vec::new();
        while let Some(message) = next_frame(&reader, len, all, &mut bytes)? {
            let offset = len + FRAME_BYTES as u64;
            match &head {
                None => head = Some(Head::decode(message).map_err(damaged)?),
                Some(_) => {
                    let Some(name) = name_of(message) else { break };
                    runs.insert(name, Slot::At { offset, len: message.len() as u32 });
                }
            }
            len = offset + message.len() as u64;
        }
        let Some(head) = head else {
            // Its writer died before it held anything.
            dir.remove(OsStr::new(JOURNAL))?;
            return Ok(None);
        };
        if head.format != FORMAT {
            return Err(io::Error::other(format!(
                "another version of knee wrote it (format {}, here {FORMAT}): choose another directory with -o",
                head.format
            )));
        }
        if len < all {
            file.set_len(len)?;
        }
        let earlier = runs.len();
        let state = Mutex::new(State { file, len, synced: Instant::now(), runs, is_closed: false });
        Ok(Some(Journal { reader, state, about: head.about, earlier, earlier_bytes: len }))
    }

    /// Number of runs that it holds.
    pub(crate) fn len(&self) -> usize {
        self.state().runs.values().filter(|slot| matches!(slot, Slot::At { .. })).count()
    }

    /// Whether an earlier process left this run.
    pub(crate) fn is_earlier(&self, name: RunName) -> bool {
        matches!(self.state().runs.get(&name), Some(Slot::At { offset, .. }) if *offset < self.earlier_bytes)
    }

    /// Whether the run of this number shall be carried out: nobody did, or has begun to.
    pub(crate) fn begins(&self, index: usize, name: RunName) -> bool {
        match self.state().runs.entry(name).or_insert(Slot::Begun(index)) {
            Slot::Begun(by) => *by == index,
            Slot::At { .. } => false,
        }
    }

    /// Appends a finished run, unless it has taken more memory than its budget: its rows may be cut short then.
    pub(crate) fn append(&self, name: RunName, run: &StoredRun, budget: &Budget) -> io::Result<()> {
        let frame = frame(run)?;
        if budget.is_exceeded() {
            return Ok(());
        }
        let mut state = self.state();
        if state.is_closed {
            return Err(io::Error::other("the sweep has ended"));
        }
        let offset = state.append(&frame)?;
        state.runs.insert(name, Slot::At { offset, len: (frame.len() - FRAME_BYTES) as u32 });
        if state.synced.elapsed() > BETWEEN_SYNCS {
            state.file.sync_data()?;
            state.synced = Instant::now();
        }
        Ok(())
    }

    /// Returns a finished run. `None` if it has not finished.
    pub(crate) fn read(&self, name: RunName) -> io::Result<Option<StoredRun>> {
        let Some(Slot::At { offset, len }) = self.state().runs.get(&name).copied() else {
            return Ok(None);
        };
        let mut bytes = vec![0; len as usize];
        self.reader.read_exact_at(&mut bytes, offset)?;
        StoredRun::decode(&bytes[..]).map(Some).map_err(damaged)
    }

    /// Lets other processes have it. Runs that end later are not kept.
    pub(crate) fn close(&self) {
        self.state().is_closed = true;
        // The system takes the lock away in any case, when the last thread that has the file ends.
        let _ = flock(&self.reader, FlockOperation::Unlock);
    }

    /// Waits until all is on disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.state().file.sync_all()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Appends a [`frame`], whole or not at all, and returns the place of its message.
    fn append(&mut self, frame: &[u8]) -> io::Result<u64> {
        if let Err(why) = self.file.write_all_at(frame, self.len) {
            // A part of it may be there: what follows must not come behind it.
            let _ = self.file.set_len(self.len);
            return Err(why);
        }
        let offset = self.len + FRAME_BYTES as u64;
        self.len += frame.len() as u64;
        Ok(offset)
    }
}

/// Returns a message with its length and checksum.
fn frame(message: &impl Message) -> io::Result<Vec<u8>> {
    let len = u32::try_from(message.encoded_len()).ok().filter(|len| *len <= MOST_BYTES);
    let len = len.ok_or_else(|| io::Error::other("a run has more than 1 GiB of results"))?;
    let mut frame = Vec::with_capacity(FRAME_BYTES + len as usize);
    frame.extend_from_slice(&[0; FRAME_BYTES]);
    message.encode(&mut frame).map_err(io::Error::other)?;
    let (head, message) = frame.split_at_mut(FRAME_BYTES);
    head[..4].copy_from_slice(&len.to_le_bytes());
    head[4..].copy_from_slice(&crc32fast::hash(message).to_le_bytes());
    Ok(frame)
}

/// Opens the file for reading, and holds it against other processes.
fn hold(dir: &Dir) -> io::Result<File> {
    let file = dir.open_file(OsStr::new(JOURNAL))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(io::Error::other(
            "another knee run writes here: wait for it, or choose another directory with -o",
        )),
        // A file system without locks.
        Err(_) => Ok(file),
    }
}

/// Reads the message at an offset. `None` where no whole one follows.
fn next_frame<'b>(
    file: &File,
    offset: u64,
    all: u64,
    bytes: &'b mut Vec<u8>,
) -> io::Result<Option<&'b [u8]>> {
    let mut frame = [0; FRAME_BYTES];
    if offset + FRAME_BYTES as u64 > all {
        return Ok(None);
    }
    file.read_exact_at(&mut frame, offset)?;
    let [len, crc] = [0, 4].map(|at| u32::from_le_bytes([0, 1, 2, 3].map(|i| frame[at + i])));
    let offset = offset + FRAME_BYTES as u64;
    if len > MOST_BYTES || offset + u64::from(len) > all {
        return Ok(None);
    }
    bytes.resize(len as usize, 0);
    file.read_exact_at(bytes, offset)?;
    Ok((crc32fast::hash(bytes) == crc).then_some(&bytes[..]))
}

/// The name in a run's message, whose first field it is.
fn name_of(message: &[u8]) -> Option<RunName> {
    let [0x0a, len, rest @ ..] = message else { return None };
    RunName::from_bytes(rest.get(..usize::from(*len))?)
}

fn damaged(why: prost::DecodeError) -> io::Error {
    io::Error::other(format!(
        "it is damaged ({why}): remove it, or choose another directory with -o"
    ))
}
