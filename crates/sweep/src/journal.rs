//! The journal of a sweep: each finished run, whole, from the moment at which it ends.
//!
//! When the sweep ends, all results are written from here, in the order of their numbers. So a sweep that was killed and
//! continued has the same bytes as one that was not disturbed.
//!
//! The first frame describes the experiment, each other one is a run. A frame that was torn when its writer died is cut off.

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
use crate::run_store::RunStore;
use crate::stored_run::{FRAME_BYTES, StoredRun, damaged, frame, name_of, next_frame};

/// Name of the file in a results directory.
pub(crate) const JOURNAL: &str = "runs.journal";
/// Time between two waits for the disk: what a loss of power may cost.
const BETWEEN_SYNCS: Duration = Duration::from_secs(2);

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
    about: String,
    /// Number of runs that an earlier process left.
    earlier: usize,
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunStore for Journal {
    fn file_name(&self) -> &'static str {
        JOURNAL
    }

    fn way_on(&self, dir: &str) -> String {
        format!("go on with --continue -o {dir}")
    }

    fn about(&self) -> &str {
        &self.about
    }

    fn earlier(&self) -> usize {
        self.earlier
    }

    fn has(&self, name: RunName) -> bool {
        matches!(self.state().runs.get(&name), Some(Slot::At { .. }))
    }

    fn len(&self) -> usize {
        self.state().runs.values().filter(|slot| matches!(slot, Slot::At { .. })).count()
    }

    fn is_earlier(&self, name: RunName) -> bool {
        matches!(self.state().runs.get(&name), Some(Slot::At { offset, .. }) if *offset < self.earlier_bytes)
    }

    fn begins(&self, index: usize, name: RunName) -> bool {
        match self.state().runs.entry(name).or_insert(Slot::Begun(index)) {
            Slot::Begun(by) => *by == index,
            Slot::At { .. } => false,
        }
    }

    fn append(&self, run: StoredRun, name: RunName, budget: &Budget) -> io::Result<()> {
        let frame = frame(&run)?;
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

    fn read(&self, name: RunName) -> io::Result<Option<StoredRun>> {
        let Some(Slot::At { offset, len }) = self.state().runs.get(&name).copied() else {
            return Ok(None);
        };
        let mut bytes = vec![0; len as usize];
        self.reader.read_exact_at(&mut bytes, offset)?;
        StoredRun::decode(&bytes[..]).map(Some).map_err(damaged)
    }

    fn close(&self) {
        self.state().is_closed = true;
        // The system takes the lock away in any case, when the last thread that has the file ends.
        let _ = flock(&self.reader, FlockOperation::Unlock);
    }

    fn sync(&self) -> io::Result<()> {
        self.state().file.sync_all()
    }

    fn is_lasting(&self) -> bool {
        false
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
