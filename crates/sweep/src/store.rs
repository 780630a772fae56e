//! The store of a sweep that several processes carry out, on one machine or on many: its finished runs, in parts.
//!
//! A store is a directory. `sweep.json` describes the experiment. Each part is `ID.part`, whole runs, and `ID.names`, their names:
//! 16 bytes each, sorted. ID is the hash of the names. A run is a function of its name, so ID names the content, too. A part is written
//! under another name and gets its own when it is whole, and `ID.names` after that. So who goes on with a sweep reads names only, and
//! processes need no other agreement.
//!
//! Rows are stored without the labels of a run: its number, its case and its varied values. They come back when tables are made.

mod batches;
mod compact;
mod index;
mod part;
mod share;
mod verify;

use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use knee_file::Origin;
use knee_files::{Dir, PARTIAL};
use knee_run::{BackEnd, Budget};
use knee_scenario::error::Error;
use knee_scenario::experiment::Experiment;
use rustix::fs::{FlockOperation, flock};
use serde_json::json;

pub use self::batches::{Batch, batches};
pub use self::share::Share;
pub use self::verify::{Verified, Wrong};

use self::index::Index;
use self::part::{Part, PartName};
use crate::plan;
use crate::results::{Results, check_trusted};
use crate::rows;
use crate::run_name::RunName;
use crate::run_store::RunStore;
use crate::stored_run::{StoredRun, frame};

/// Name of the store in the directory of results.
pub const STORE: &str = "store";
/// Name of the description of its experiment.
const HEAD: &str = "sweep.json";
const FORMAT: u64 = 1;
/// Ends the name of a shard's lock.
const LOCK: &str = ".lock";
/// Largest description, bytes.
const MOST_HEAD_BYTES: u64 = 64 << 20;
/// What the death of a process may cost.
const BETWEEN_PARTS: Duration = Duration::from_secs(4);
/// Size at which a part ends, bytes.
const MOST_PART_BYTES: usize = 64 << 20;

/// A store of finished runs.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    dir: Dir,
    about: String,
    /// Number of runs that other processes had left.
    earlier: usize,
    /// Held against other processes.
    locks: Mutex<Vec<Lock>>,
    /// Longest time until a part ends.
    between_parts: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    runs: HashMap<RunName, Slot>,
    part: Part,
    begun: Instant,
    is_closed: bool,
    /// Where the runs are, once they are read.
    index: Option<Index>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    /// The run with this number has begun.
    Begun(usize),
    Earlier,
    Finished,
}

/// What a store holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Number of parts.
    pub parts: usize,
    /// Number of runs in them.
    pub runs: usize,
    /// Size of the parts, bytes.
    pub bytes: u64,
}

impl Store {
    /// Opens the store in this directory for a share of an experiment's runs, or makes one.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be made or read, or if another process carries out the same runs. [`Error::Input`] if it holds the
    /// runs of another experiment, or if runs of the back end are no functions of their names.
    pub fn open(
        path: &Path,
        experiment: &Experiment,
        back_end: &dyn BackEnd,
        share: Share,
    ) -> Result<Store, Error> {
        if back_end.capabilities().has_host {
            let why = format!(
                "--on {}: a run has other results each time, so no other process can go on with it: use knee run",
                back_end.name()
            );
            return Err(Error::input(&experiment.path, Origin::Nowhere, "", why));
        }
        check_trusted(path)?;
        let failed = |why| Error::io(path, "cannot use this store", why);
        let head = Store::head(experiment, back_end)?;
        let dir = Dir::make_all(path).map_err(failed)?;
        write_head(&dir, &head).map_err(failed)?;
        let locks = lock(&dir, share).map_err(failed)?;
        let before = read_head(&dir).map_err(failed)?;
        check_same(path, &before, &about_of(&head).map_err(failed)?)?;
        Store::new(path, dir, before, locks).map_err(failed)
    }

    /// Returns the results of a sweep in this directory, whose store `open` opens at its path.
    ///
    /// # Errors
    /// [`Error::Io`] if the directory holds other results, or cannot be written, and what `open` returns.
    pub fn results(
        dir: &Path,
        open: impl FnOnce(&Path) -> Result<Store, Error>,
    ) -> Result<Results, Error> {
        Results::of_store(dir, STORE, |path| Ok(Arc::new(open(path)?)))
    }

    /// Returns the text of `sweep.json` for an experiment.
    ///
    /// # Errors
    /// Those of resolving it.
    pub fn head(experiment: &Experiment, back_end: &dyn BackEnd) -> Result<String, Error> {
        let about = plan::about(experiment, back_end)?;
        let about: serde_json::Value = serde_json::from_str(&about)
            .map_err(|why| Error::io(&experiment.path, "cannot describe", why.into()))?;
        Ok(json!({ "format": FORMAT, "about": about }).to_string())
    }

    /// Refuses to go on with the store of another experiment, whose `sweep.json` this is. `path` is its place, for messages.
    ///
    /// # Errors
    /// [`Error::Input`] with what has changed, [`Error::Io`] if the text is none of a store.
    pub fn check_head(
        path: &Path,
        head: &str,
        experiment: &Experiment,
        back_end: &dyn BackEnd,
    ) -> Result<(), Error> {
        let before = about_of(head).map_err(|why| Error::io(path, "cannot use this store", why))?;
        check_same(path, &before, &plan::about(experiment, back_end)?)
    }

    /// Opens a store whose experiment does not matter, and holds all of it.
    ///
    /// # Errors
    /// [`Error::Io`] if it is none, or cannot be read, or if another process carries runs out.
    pub fn open_any(path: &Path) -> Result<Store, Error> {
        Store::open_with(path, |dir| lock(dir, Share::Whole))
    }

    /// Opens a store to look at it, whoever writes there.
    ///
    /// # Errors
    /// [`Error::Io`] if it is none, or cannot be read.
    pub fn open_to_look(path: &Path) -> Result<Store, Error> {
        Store::open_with(path, |_| Ok(Vec::new()))
    }

    fn open_with(
        path: &Path,
        lock: impl FnOnce(&Dir) -> io::Result<Vec<Lock>>,
    ) -> Result<Store, Error> {
        check_trusted(path)?;
        let failed = |why| Error::io(path, "cannot use this store", why);
        let dir = Dir::open(path).map_err(failed)?;
        if !dir.is_file(OsStr::new(HEAD)) {
            return Err(failed(io::Error::other(format!("it is no store: it has no {HEAD}"))));
        }
        let locks = lock(&dir).map_err(failed)?;
        let about = read_head(&dir).map_err(failed)?;
        Store::new(path, dir, about, locks).map_err(failed)
    }

    fn new(path: &Path, dir: Dir, about: String, locks: Vec<Lock>) -> io::Result<Store> {
        let mut runs = HashMap::new();
        for part in parts(&dir)?.listed {
            runs.extend(part.names(&dir)?.into_iter().map(|name| (name, Slot::Earlier)));
        }
        let earlier = runs.len();
        let state = State {
            runs,
            part: Part::default(),
            begun: Instant::now(),
            is_closed: false,
            index: None,
        };
        Ok(Store {
            path: path.to_owned(),
            dir,
            about,
            earlier,
            locks: Mutex::new(locks),
            between_parts: BETWEEN_PARTS,
            state: Mutex::new(state),
        })
    }

    /// Makes one part of all runs, however long they take.
    #[must_use]
    pub fn in_one_part(mut self) -> Store {
        self.between_parts = Duration::MAX;
        self
    }

    /// Returns its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what it holds.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be read.
    pub fn contents(&self) -> Result<Contents, Error> {
        let failed = |why| Error::io(&self.path, "cannot read", why);
        let all = parts(&self.dir).map_err(failed)?.listed;
        let sizes = all.iter().map(|part| part.bytes(&self.dir));
        let bytes = sizes.sum::<io::Result<u64>>().map_err(failed)?;
        Ok(Contents { parts: all.len(), runs: self.state().runs.len(), bytes })
    }

    /// Returns the names of the runs that it holds, sorted.
    pub fn names(&self) -> Vec<RunName> {
        let mut names: Vec<_> = self.state().stored().collect();
        names.sort_unstable();
        names
    }

    /// Sorts all runs by their names, in as few parts as are sensible. The bytes depend on the runs alone. Runs without a list of
    /// names, whose writer died in between, are found.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be read or written, or if it holds a run twice with other results.
    pub fn compact(&self) -> Result<(), Error> {
        self.settle().map_err(|why| Error::io(&self.path, "cannot compact", why))
    }

    /// Removes the store: its own files, and the directory if nothing else is in it.
    ///
    /// # Errors
    /// [`Error::Io`] if something cannot be removed.
    pub fn remove(self) -> Result<(), Error> {
        let failed = |why| Error::io(&self.path, "cannot remove", why);
        self.remove_left();
        let Parts { listed, without_runs, without_list } = parts(&self.dir).map_err(failed)?;
        for part in listed.iter().chain(&without_runs).chain(&without_list) {
            part.remove(&self.dir).map_err(failed)?;
        }
        self.dir.remove(OsStr::new(HEAD)).map_err(failed)?;
        self.locks().clear();
        // What else is there is not ours.
        let _ = knee_files::remove_dir(&self.path);
        Ok(())
    }

    /// Removes what writers left that died. Only the one that holds the whole store may.
    fn remove_left(&self) {
        for name in self.dir.names().unwrap_or_default() {
            let shown = name.to_string_lossy();
            if shown.starts_with('.') && (shown.ends_with(PARTIAL) || shown.ends_with(LOCK)) {
                let _ = self.dir.remove(&name);
            }
        }
    }

    /// Writes the part that has begun.
    fn end_part(&self) -> io::Result<()> {
        let part = std::mem::take(&mut self.state().part);
        self.write(part)
    }

    fn write(&self, mut part: Part) -> io::Result<()> {
        if part.is_empty() {
            return Ok(());
        }
        let written = part.write(&self.dir);
        if written.is_err() {
            // Another attempt takes them along.
            self.state().part.take_back(part);
        }
        written
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn locks(&self) -> MutexGuard<'_, Vec<Lock>> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn stored(&self) -> impl Iterator<Item = RunName> {
        let is_stored = |slot: &Slot| matches!(slot, Slot::Earlier | Slot::Finished);
        self.runs.iter().filter(move |(_, slot)| is_stored(slot)).map(|(name, _)| *name)
    }
}

impl RunStore for Store {
    fn file_name(&self) -> &'static str {
        STORE
    }

    fn way_on(&self, _: &str) -> String {
        "give the same command again".to_owned()
    }

    fn about(&self) -> &str {
        &self.about
    }

    fn earlier(&self) -> usize {
        self.earlier
    }

    fn is_earlier(&self, name: RunName) -> bool {
        self.state().runs.get(&name) == Some(&Slot::Earlier)
    }

    fn has(&self, name: RunName) -> bool {
        matches!(self.state().runs.get(&name), Some(Slot::Earlier | Slot::Finished))
    }

    fn len(&self) -> usize {
        let state = self.state();
        state.stored().count().saturating_sub(state.part.len())
    }

    fn begins(&self, index: usize, name: RunName) -> bool {
        *self.state().runs.entry(name).or_insert(Slot::Begun(index)) == Slot::Begun(index)
    }

    fn append(&self, run: StoredRun, name: RunName, budget: &Budget) -> io::Result<()> {
        let frame = frame(&unlabelled(run))?;
        if budget.is_exceeded() {
            return Ok(());
        }
        let mut state = self.state();
        if state.is_closed {
            return Err(io::Error::other("the sweep has ended"));
        }
        if state.part.is_empty() {
            state.begun = Instant::now();
        }
        state.part.add(name, frame);
        state.runs.insert(name, Slot::Finished);
        if state.begun.elapsed() < self.between_parts && state.part.bytes() < MOST_PART_BYTES {
            return Ok(());
        }
        let part = std::mem::take(&mut state.part);
        // Others go on while it is written.
        drop(state);
        self.write(part)
    }

    fn read(&self, name: RunName) -> io::Result<Option<StoredRun>> {
        self.end_part()?;
        let mut state = self.state();
        if !matches!(state.runs.get(&name), Some(Slot::Earlier | Slot::Finished)) {
            return Ok(None);
        }
        if state.index.is_none() {
            let index = Index::of(&self.dir)?;
            index.check_same()?;
            state.index = Some(index);
        }
        let State { index, .. } = &mut *state;
        index.as_mut().map_or(Ok(None), |index| index.read(&self.dir, name))
    }

    fn look(&self) {
        let mut state = self.state();
        if state.part.is_empty() || state.begun.elapsed() < self.between_parts {
            return;
        }
        // If it cannot be written, the next run that ends says so.
        state.begun = Instant::now();
        drop(state);
        let _ = self.end_part();
    }

    fn settle(&self) -> io::Result<()> {
        self.end_part()?;
        self.remove_left();
        for list in parts(&self.dir)?.without_runs {
            list.remove(&self.dir)?;
        }
        let mut state = self.state();
        state.index = None;
        let index = compact::compact(&self.dir)?;
        // Those of a writer that died before it listed them are among them.
        for name in index.names() {
            state.runs.entry(name).or_insert(Slot::Earlier);
        }
        state.index = Some(index);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.end_part()
    }

    fn close(&self) {
        // What cannot be written now was reported when it was tried before, or is carried out again.
        let _ = self.end_part();
        self.state().is_closed = true;
        self.locks().clear();
    }

    fn is_lasting(&self) -> bool {
        true
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
    }
}

/// Takes the labels away: rows of equal runs are equal then, whatever file and row they come from.
fn unlabelled(run: StoredRun) -> StoredRun {
    let StoredRun { label, index, rows, .. } = run;
    let bare = |mut of: crate::stored_run::StoredRows| {
        let has_case = knee_results::ResultFile::ALL
            .into_iter()
            .any(|file| file.name() == of.file && file.has_case());
        of.text = rows::relabelled(&of.text, if has_case { &label } else { &index }, "");
        of
    };
    let rows = rows.into_iter().map(bare).collect();
    StoredRun { label: String::new(), index: String::new(), rows, ..run }
}

/// Files of parts.
#[derive(Debug, Default)]
struct Parts {
    /// Parts with runs and a list of their names, in the order of their names.
    listed: Vec<PartName>,
    /// Lists whose runs are not there: somebody has removed them, and they are carried out again.
    without_runs: Vec<PartName>,
    /// Runs without a list: their writer died, or writes it now.
    without_list: Vec<PartName>,
}

fn parts(dir: &Dir) -> io::Result<Parts> {
    let names = dir.names()?;
    let runs: BTreeSet<_> = names.iter().filter_map(|name| PartName::with_runs(name)).collect();
    let lists: BTreeSet<_> = names.iter().filter_map(|name| PartName::listed(name)).collect();
    Ok(Parts {
        listed: lists.intersection(&runs).cloned().collect(),
        without_runs: lists.difference(&runs).cloned().collect(),
        without_list: runs.difference(&lists).cloned().collect(),
    })
}

fn check_same(path: &Path, before: &str, now: &str) -> Result<(), Error> {
    let Some(changed) = plan::changed(before, now) else { return Ok(()) };
    let why = format!(
        "cannot go on, because {changed}: run the experiment as it was, or choose another place"
    );
    Err(Error::input(path, Origin::Nowhere, "", why))
}

/// Writes the description of the experiment, unless somebody did.
fn write_head(dir: &Dir, head: &str) -> io::Result<()> {
    if dir.is_file(OsStr::new(HEAD)) {
        return Ok(());
    }
    match write_new(dir, OsStr::new(HEAD), head.as_bytes()) {
        Err(why) if why.kind() == ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Returns the description of the experiment whose runs are here.
fn read_head(dir: &Dir) -> io::Result<String> {
    let mut head = String::new();
    dir.open_file(OsStr::new(HEAD))?.take(MOST_HEAD_BYTES).read_to_string(&mut head)?;
    about_of(&head)
}

fn about_of(head: &str) -> io::Result<String> {
    let damaged =
        |why| io::Error::other(format!("{HEAD} is damaged ({why}): choose another place"));
    let head: serde_json::Value = serde_json::from_str(head).map_err(damaged)?;
    if head["format"] != FORMAT {
        let why = format!(
            "another version of knee wrote it (format {}, here {FORMAT}): choose another place",
            head["format"]
        );
        return Err(io::Error::other(why));
    }
    Ok(head["about"].to_string())
}

/// Puts a file into the directory of a store, whole or not at all, unless it is there. Returns whether it was not.
///
/// # Errors
/// [`Error::Io`] if it cannot be written, or the name is that of another directory.
pub fn put(path: &Path, name: &str, bytes: &[u8]) -> Result<bool, Error> {
    check_trusted(path)?;
    let failed = |why| Error::io(&path.join(name), "cannot write", why);
    if name.contains('/') || name.starts_with('.') {
        return Err(failed(io::Error::other("it is no name of a file of a store")));
    }
    let dir = Dir::make_all(path).map_err(failed)?;
    // Who sorts the runs holds it alone, and takes files for those of dead writers.
    let head = if dir.is_file(OsStr::new(HEAD)) { dir.append(OsStr::new(HEAD)).ok() } else { None };
    let _ = head.as_ref().map(|head| flock(head, FlockOperation::LockShared));
    match write_new(&dir, OsStr::new(name), bytes) {
        Err(why) if why.kind() == ErrorKind::AlreadyExists => Ok(false),
        other => other.map(|()| true).map_err(failed),
    }
}

/// Writes a file of a store, whole or not at all, and waits for the disk.
fn write_new(dir: &Dir, name: &OsStr, bytes: &[u8]) -> io::Result<()> {
    let mut partial = OsString::from(".");
    partial.push(name);
    partial.push(format!(".{}{PARTIAL}", knee_files::mark()?));
    let written = dir.create(&partial).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    let named = written.and_then(|()| dir.rename_new(&partial, name));
    if named.is_err() {
        let _ = dir.remove(&partial);
    }
    named?;
    // A list of names must not outlive the runs in a loss of power. Some file systems cannot wait for a directory.
    let _ = File::open(dir.path()).and_then(|dir| dir.sync_all());
    Ok(())
}

/// A lock of the system on a file. It ends with the process.
#[derive(Debug)]
struct Lock {
    file: File,
    /// Its name in this directory, if it is there for the lock alone.
    own: Option<(Dir, OsString)>,
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Some((dir, name)) = &self.own {
            // While it is held: who has opened it sees that it is gone.
            let _ = dir.remove(name);
        }
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// Holds the whole store, or a shard beside others. On a file system without locks nothing is held.
fn lock(dir: &Dir, share: Share) -> io::Result<Vec<Lock>> {
    // Opened for writing, without which NFS does not lock it alone.
    let head = dir.append(OsStr::new(HEAD))?;
    let Share::Shard { number, of } = share else {
        let busy = "other processes run this sweep: wait for them, or choose another place";
        return Ok(vec![Lock {
            file: held(head, FlockOperation::NonBlockingLockExclusive, busy)?,
            own: None,
        }]);
    };
    let busy = "another process runs the whole sweep: wait for it, or choose another place";
    let shared = Lock { file: held(head, FlockOperation::NonBlockingLockShared, busy)?, own: None };
    let name = OsString::from(format!(".shard-{number}-of-{of}{LOCK}"));
    loop {
        let busy = format!("another process runs shard {number}/{of} of it: wait for it");
        // Who may not place links here was checked before.
        let file = dir.append(&name)?;
        let file = held(file, FlockOperation::NonBlockingLockExclusive, &busy)?;
        // Another one may have removed it in between.
        if file.metadata()?.nlink() > 0 {
            let own = Some((Dir::open(&dir.path())?, name));
            return Ok(vec![shared, Lock { file, own }]);
        }
    }
}

fn held(file: File, how: FlockOperation, busy: &str) -> io::Result<File> {
    match flock(&file, how) {
        Err(rustix::io::Errno::WOULDBLOCK) => Err(io::Error::other(busy.to_owned())),
        _ => Ok(file),
    }
}
