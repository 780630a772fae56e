//! The results directory of a sweep.
//!
//! Each finished run goes into the directory's journal at once, or into its store within seconds, so that a killed process and a full
//! disk cost little. One writer at a time holds the journal. All other files are written from there when the sweep ends.
//!
//! Every such file is written under another name. All are renamed when they are complete and on disk, the manifest last.
//! Thus a directory with a `manifest.json` holds complete files, and a full disk leaves none.
//!
//! The temporary names belong to one writer, and nobody can guess them. As root, it refuses directories in which others can
//! create links.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use knee_files::{Dir, PARTIAL, trust};
use knee_results::format::{self, PARQUET};
use knee_results::{Format, Manifest, ResultFile, Schema, Sink, Sinks, manifest};
use knee_scenario::error::Error;
use knee_scenario::experiment::Experiment;

use crate::flight::Recording;
use crate::journal::{JOURNAL, Journal};
use crate::report;
use crate::rows::{self, Rows};
use crate::run_store::RunStore;
use crate::sweep_result::SweepResult;

const MANIFEST: &str = Manifest::FILE;
/// Largest number in `results/NAME`, `results/NAME-2`, ...
const MAX_NUMBER: u32 = 99_999;

/// Storage of result files. A test can simulate a full disk here.
pub trait Storage {
    /// Opens a new file for writing. An existing file is an error.
    ///
    /// # Errors
    /// The system's error.
    fn create(&self, path: &Path) -> io::Result<File>;
}

/// The file system as storage.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Storage for Disk {
    fn create(&self, path: &Path) -> io::Result<File> {
        knee_files::create_new(path)
    }
}

/// Location of incomplete captures: a directory per run, with one file per host.
#[derive(Clone, Debug)]
pub struct CaptureDir {
    dir: PathBuf,
    mark: String,
}

impl CaptureDir {
    /// Returns the directory for a run.
    pub fn of(&self, run: usize) -> PathBuf {
        partial(&self.dir, &format!("captures-run-{run}"), &self.mark)
    }

    /// Creates the directory for a run.
    pub(crate) fn make(&self, run: usize) -> Result<PathBuf, Error> {
        let dir = self.of(run);
        knee_files::make_dir(&dir).map_err(|why| Error::io(&dir, "cannot make", why))?;
        Ok(dir)
    }
}

/// Removes captures in a directory that [`CaptureDir`] created, and nothing else.
pub(crate) fn empty_captures(dir: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (dir.parent(), dir.file_name()) else { return Ok(()) };
    let dir = Dir::open(parent)?.open_own(name)?;
    captures_in(&dir)?.iter().try_for_each(|name| dir.remove(name))
}

/// Returns the names of captures in a directory, sorted.
fn captures_in(dir: &Dir) -> io::Result<Vec<OsString>> {
    let is_capture = |name: &OsString| {
        Path::new(name).extension().is_some_and(|extension| extension == "pcapng")
            && dir.is_file(name)
    };
    let mut names: Vec<_> = dir.names()?.into_iter().filter(is_capture).collect();
    names.sort();
    Ok(names)
}

/// A file that is written.
struct Open {
    file: File,
    table: Option<Table>,
}

/// Rows on their way into a file.
struct Table {
    schema: Schema,
    sink: Box<dyn Sink + Send>,
}

/// Result files while they are written. Dropping this before [`Results::finish`] removes them all.
pub struct Results {
    dir: PathBuf,
    /// The directory, held open.
    held: Dir,
    /// Whether this writer created the directory, and removes it if it stays empty.
    made_dir: bool,
    storage: Box<dyn Storage>,
    format: &'static dyn Format,
    /// Open tables, and what is complete of others, by their final name.
    open: BTreeMap<String, Open>,
    /// Complete flight recordings and captures, by their final name.
    recordings: Vec<String>,
    /// Files that have their final name.
    named: Vec<String>,
    /// Suffix that distinguishes this writer's partial files from all others.
    mark: String,
    store: Option<Arc<dyn RunStore>>,
    /// Whether results in the directory are of the same sweep, and are replaced.
    replaces: bool,
    /// Whether nobody wants them after this process: then nothing waits for the disk.
    is_temporary: bool,
    finished: bool,
}

impl std::fmt::Debug for Results {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Results").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl Results {
    /// Creates a directory `NAME` below `parent`, or `NAME-2`, `NAME-3`, ... if it exists.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be created.
    pub fn numbered(parent: &Path, name: &str) -> Result<Results, Error> {
        check_trusted(parent)?;
        Dir::make_all(parent).map_err(|why| Error::io(parent, "cannot make", why))?;
        for number in 1..=MAX_NUMBER {
            let dir = match number {
                1 => parent.join(name),
                _ => parent.join(format!("{name}-{number}")),
            };
            match knee_files::make_dir(&dir) {
                Ok(_) => return Results::new(dir, true),
                Err(why) if why.kind() == ErrorKind::AlreadyExists => {}
                Err(why) => return Err(Error::io(&dir, "cannot make", why)),
            }
        }
        let why = io::Error::other(format!(
            "{MAX_NUMBER} of them exist: remove some, or choose a directory with -o"
        ));
        Err(Error::io(&parent.join(name), "cannot make", why))
    }

    /// Uses this directory, created if missing. It must not hold results.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be created, or already holds results.
    pub fn at(dir: &Path) -> Result<Results, Error> {
        let failed = |why| Error::io(dir, "cannot make", why);
        check_trusted(dir)?;
        if let Some(parent) = dir.parent().filter(|parent| *parent != Path::new("")) {
            Dir::make_all(parent).map_err(failed)?;
        }
        let made_dir = match knee_files::make_dir(dir) {
            Ok(_) => true,
            Err(_) if dir.is_dir() => false,
            Err(why) => return Err(failed(why)),
        };
        check_free(dir)?;
        let results = Results::new(dir.to_owned(), made_dir)?;
        if results.held.is_file(OsStr::new(JOURNAL)) {
            let why = "it holds runs of a sweep that did not end: --continue carries out the others, or choose another directory \
                 with -o";
            return Err(Error::io(dir, "cannot write here", io::Error::other(why)));
        }
        Ok(results)
    }

    /// Uses this directory, created if missing, and goes on with the sweep in it, if there is one: runs that it holds are not
    /// carried out again.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be created, or if another process writes there.
    pub fn continued(dir: &Path) -> Result<Results, Error> {
        check_trusted(dir)?;
        if !Dir::open(dir).is_ok_and(|held| held.is_file(OsStr::new(JOURNAL))) {
            return Results::at(dir);
        }
        let mut results = Results::new(dir.to_owned(), false)?;
        let journal = Journal::open(&results.held)
            .map_err(|why| Error::io(&dir.join(JOURNAL), "cannot go on", why))?;
        results.store = journal.map(|journal| Arc::new(journal) as Arc<dyn RunStore>);
        results.replaces = results.store.as_ref().is_some_and(|store| store.earlier() > 0);
        // Unless another format is asked for, what was one stays it.
        results.format = results.earlier_format()?;
        // Whoever left other partial files does not write here any more: it would hold the journal.
        results.remove_partial_of(None);
        Ok(results)
    }

    /// Uses this directory for tables of the runs of a store with this name in it, which `open` opens at its path. It replaces
    /// results of the same sweep.
    ///
    /// # Errors
    /// [`Error::Io`] if it holds other results, or cannot be written, and what `open` returns.
    pub(crate) fn of_store(
        dir: &Path,
        name: &str,
        open: impl FnOnce(&Path) -> Result<Arc<dyn RunStore>, Error>,
    ) -> Result<Results, Error> {
        check_trusted(dir)?;
        if Dir::open(dir).is_ok_and(|held| held.is_file(OsStr::new(JOURNAL))) {
            let why = "it holds runs of knee run: choose another directory with -o";
            return Err(Error::io(dir, "cannot write here", io::Error::other(why)));
        }
        let path = dir.join(name);
        if !path.is_dir() {
            check_free(dir)?;
        }
        let store = open(&path)?;
        let mut results = Results::new(dir.to_owned(), false)?;
        results.replaces = store.earlier() > 0;
        if !results.replaces {
            check_free(dir)?;
        }
        results.format = results.earlier_format()?;
        results.store = Some(store);
        Ok(results)
    }

    /// Returns the format of the results that are there. CSV if there are none.
    fn earlier_format(&self) -> Result<&'static dyn Format, Error> {
        let is_there =
            |file: &ResultFile| self.dir.join(file.stem()).with_extension(PARQUET).is_file();
        if !ResultFile::ALL.iter().any(is_there) {
            return Ok(format::CSV);
        }
        format::named(PARQUET).ok_or_else(|| {
            let why = format!("{}; or choose another --format", format::WITHOUT_PARQUET);
            Error::io(&self.dir, "cannot go on", io::Error::other(why))
        })
    }

    fn new(dir: PathBuf, made_dir: bool) -> Result<Results, Error> {
        // Another process may have created it in the meantime.
        check_trusted(&dir)?;
        let failed = |why| Error::io(&dir, "cannot write here", why);
        let held = Dir::open(&dir).map_err(failed)?;
        let mark = knee_files::mark().map_err(failed)?;
        let (format, open, storage) = (format::CSV, BTreeMap::new(), Box::new(Disk));
        let (recordings, named) = (Vec::new(), Vec::new());
        let (store, replaces, is_temporary, finished) = (None, false, false, false);
        Ok(Results {
            dir,
            held,
            made_dir,
            storage,
            format,
            open,
            recordings,
            named,
            mark,
            store,
            replaces,
            is_temporary,
            finished,
        })
    }

    /// Writes tables in this format.
    #[must_use]
    pub fn in_format(mut self, format: &'static dyn Format) -> Results {
        self.format = format;
        self
    }

    /// Does not wait for the disk: these results go with the process.
    #[must_use]
    pub fn temporary(mut self) -> Results {
        self.is_temporary = true;
        self
    }

    /// Replaces the storage.
    #[must_use]
    pub fn on(mut self, storage: Box<dyn Storage>) -> Results {
        self.storage = storage;
        self
    }

    /// Returns the format of the tables.
    pub(crate) fn format(&self) -> &'static dyn Format {
        self.format
    }

    /// Returns the directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns where finished runs go: a new journal unless there is one already. `about` describes the experiment.
    pub(crate) fn store(&mut self, about: &str) -> Result<Arc<dyn RunStore>, Error> {
        if let Some(store) = &self.store {
            return Ok(store.clone());
        }
        let path = self.dir.join(JOURNAL);
        let failed = |why| Error::io(&path, "cannot write", why);
        let file = self.storage.create(&path).map_err(failed)?;
        let made = Journal::create(&self.held, file, about.to_owned());
        if made.is_err() {
            let _ = self.held.remove(OsStr::new(JOURNAL));
        }
        let journal: Arc<dyn RunStore> = Arc::new(made.map_err(failed)?);
        self.store = Some(journal.clone());
        Ok(journal)
    }

    /// Returns the error of a store that cannot be written.
    pub(crate) fn store_failed(&self, why: io::Error) -> Error {
        self.with_way_out(Error::io(&self.store_path(), "cannot write", why))
    }

    /// Returns the path of the store, for messages.
    pub(crate) fn store_path(&self) -> PathBuf {
        self.dir.join(self.store.as_ref().map_or(JOURNAL, |store| store.file_name()))
    }

    /// Adds to an error what is kept, and how to go on.
    pub(crate) fn with_way_out(&self, why: Error) -> Error {
        let kept = self.store.as_ref().filter(|store| !self.is_temporary && store.len() > 0);
        match (why, kept) {
            (Error::Io { path, action, source }, Some(store)) => {
                let (runs, file) = (store.len(), store.file_name());
                let way_on = store.way_on(&self.dir.display().to_string());
                let kept = format!(
                    "{source}; {runs} finished runs are kept in {file}: make room, then {way_on}"
                );
                Error::Io { path, action, source: io::Error::new(source.kind(), kept) }
            }
            (other, _) => other,
        }
    }

    /// Forgets the runs of a journal: they are not worth to go on with.
    pub(crate) fn forget_runs(&mut self) {
        if self.store.take_if(|store| !store.is_lasting() && store.earlier() == 0).is_some() {
            let _ = self.held.remove(OsStr::new(JOURNAL));
        }
    }

    /// Appends the rows of one run.
    pub(crate) fn append(&mut self, experiment: &Experiment, rows: &Rows) -> Result<(), Error> {
        for (file, rows) in rows {
            let table = self.table(experiment, *file)?;
            let written = table.sink.text(&table.schema, rows);
            written.map_err(|why| self.unwritten(*file, why))?;
        }
        Ok(())
    }

    /// Writes the summary and the manifest with the claims as judged, and gives every file its final name. Returns the
    /// directory.
    ///
    /// # Errors
    /// [`Error::Io`] if anything cannot be written. Then no files remain.
    pub fn finish(
        mut self,
        experiment: &Experiment,
        swept: &SweepResult,
        claims: &[manifest::Claim],
    ) -> Result<PathBuf, Error> {
        let written = self.write_all(experiment, swept, claims);
        written.map_err(|why| self.with_way_out(why))?;
        self.finished = true;
        self.remove_partial();
        if self.store.as_ref().is_some_and(|store| store.is_lasting()) {
            // What an earlier process left that was killed while it wrote tables: this one holds all of the store.
            self.remove_partial_of(None);
        }
        Ok(self.dir.clone())
    }

    fn write_all(
        &mut self,
        experiment: &Experiment,
        swept: &SweepResult,
        claims: &[manifest::Claim],
    ) -> Result<(), Error> {
        let last = ResultFile::Summary;
        let mut tables = Tables { experiment, results: self, last, failed: None };
        if let Err(why) = report::write_rows(experiment, swept, &mut tables) {
            let (last, failed) = (tables.last, tables.failed.take());
            return Err(failed.unwrap_or_else(|| self.unwritten(last, why)));
        }
        self.recordings.sort();
        let files = self.open.keys().chain(&self.recordings).map(String::as_str);
        let files: Vec<&str> = files.collect();
        let manifest = report::manifest(experiment, swept, claims, &files)?;
        let manifest = serde_json::to_string_pretty(&manifest).expect("keys are texts");
        self.write(MANIFEST, &format!("{manifest}\n"))?;
        let is_temporary = self.is_temporary;
        let sync = |file: &File| if is_temporary { Ok(()) } else { sync(file) };
        for (name, open) in &mut self.open {
            let ended = open.table.as_mut().map_or(Ok(()), |table| table.sink.finish());
            let written = ended.and_then(|()| sync(&open.file));
            written.map_err(|why| Error::io(&self.dir.join(name), "cannot write", why))?;
        }
        if let Some(store) = self.store.as_ref().filter(|_| !is_temporary) {
            store.sync().map_err(|why| Error::io(&self.store_path(), "cannot write", why))?;
        }
        self.replace_earlier()?;
        // A writer of an earlier version may have finished here in the meantime.
        check_free(&self.dir)?;
        let rows = self.open.keys().filter(|name| **name != MANIFEST).cloned();
        let names = rows.chain(self.recordings.clone()).chain([MANIFEST.to_owned()]);
        for name in names.collect::<Vec<_>>() {
            let path = self.dir.join(&name);
            self.held
                .rename_new(partial_name(&name, &self.mark).as_ref(), name.as_ref())
                .map_err(|why| Error::io(&path, "cannot write", why))?;
            self.named.push(name);
        }
        Ok(())
    }

    /// Removes the results that an earlier part of the same sweep left, the manifest first: their runs are stored.
    fn replace_earlier(&self) -> Result<(), Error> {
        if !self.replaces {
            return Ok(());
        }
        let names = [MANIFEST.to_owned()].into_iter().chain(tables()).map(OsString::from);
        for name in names.filter(|name| self.held.is_file(name)) {
            let path = self.dir.join(&name);
            self.held.remove(&name).map_err(|why| Error::io(&path, "cannot replace", why))?;
        }
        Ok(())
    }

    /// Returns a table, which begins if it has not.
    fn table(&mut self, experiment: &Experiment, file: ResultFile) -> Result<&mut Table, Error> {
        let name = file.name_in(self.format);
        if !self.open.contains_key(&name) {
            let schema = rows::schema(file, experiment);
            let made = self.storage.create(&self.partial(&name));
            let begun = made.and_then(|made| {
                let mut sink = self.format.sink(made.try_clone()?);
                sink.begin(&schema)?;
                Ok(Open { file: made, table: Some(Table { schema, sink }) })
            });
            let begun = begun.map_err(|why| self.unwritten(file, why))?;
            self.open.insert(name.clone(), begun);
        }
        let table = self.open.get_mut(&name).and_then(|open| open.table.as_mut());
        Ok(table.expect("files of these names are tables"))
    }

    fn unwritten(&self, file: ResultFile, why: io::Error) -> Error {
        Error::io(&self.dir.join(file.name_in(self.format)), "cannot write", why)
    }

    /// Writes a file that is no table.
    fn write(&mut self, name: &str, text: &str) -> Result<(), Error> {
        let failed = |why| Error::io(&self.dir.join(name), "cannot write", why);
        let mut file = self.storage.create(&self.partial(name)).map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)?;
        self.open.insert(name.to_owned(), Open { file, table: None });
        Ok(())
    }

    fn partial(&self, name: &str) -> PathBuf {
        partial(&self.dir, name, &self.mark)
    }

    /// Returns the recording of a traffic entry, to be written beside the other files.
    pub(crate) fn recording(&self, entry: &str) -> Recording {
        let (dir, mark) = (self.dir.clone(), self.mark.clone());
        Recording { entry: entry.to_owned(), partial, dir, mark }
    }

    /// Takes over a recording that was written under its partial name.
    pub(crate) fn add_recording(&mut self, name: String) -> Result<(), Error> {
        let partial = partial_name(&name, &self.mark);
        let written = self.held.open_file(partial.as_ref()).and_then(|file| sync(&file));
        written.map_err(|why| Error::io(&self.dir.join(&name), "cannot write", why))?;
        self.recordings.push(name);
        Ok(())
    }

    /// Returns the location of captures, with a directory per run.
    pub fn capture_dir(&self) -> CaptureDir {
        CaptureDir { dir: self.dir.clone(), mark: self.mark.clone() }
    }

    /// Takes over the captures of a run: `HOST.pcapng` of its directory becomes `HOST-run-N.pcapng` beside the other
    /// files.
    pub(crate) fn add_captures(&mut self, run: usize) -> Result<(), Error> {
        let shown = self.capture_dir().of(run);
        let failed = |why| Error::io(&shown, "cannot read captures", why);
        let name = shown.file_name().unwrap_or_default();
        let dir = self.held.open_own(name).map_err(failed)?;
        for file in captures_in(&dir).map_err(failed)? {
            let Some(host) = Path::new(&file).file_stem() else { continue };
            let name = format!("{}-run-{run}.pcapng", host.to_string_lossy());
            let partial = partial_name(&name, &self.mark);
            dir.rename(&file, &self.held, partial.as_ref()).map_err(failed)?;
            self.add_recording(name)?;
        }
        self.held.remove_dir(name).map_err(failed)
    }

    /// Removes recordings and captures of abandoned runs: every file with this writer's partial name.
    fn remove_partial(&self) {
        self.remove_partial_of(Some(&self.mark));
    }

    /// Removes partial files of the writer with this mark, or of all writers.
    fn remove_partial_of(&self, mark: Option<&str>) {
        let end = mark.map_or(PARTIAL.to_owned(), |mark| format!(".{mark}{PARTIAL}"));
        for name in self.held.names().unwrap_or_default() {
            let shown = name.to_string_lossy();
            if !(shown.starts_with('.') && shown.ends_with(&end)) {
                continue;
            }
            if self.held.is_dir(&name) {
                let emptied = self.held.open_own(&name).and_then(|dir| {
                    captures_in(&dir)?.iter().try_for_each(|capture| dir.remove(capture))
                });
                let _ = emptied.and_then(|()| self.held.remove_dir(&name));
            } else {
                let _ = self.held.remove(&name);
            }
        }
    }
}

/// Returns the path of an incomplete file.
fn partial(dir: &Path, name: &str, mark: &str) -> PathBuf {
    dir.join(partial_name(name, mark))
}

fn partial_name(name: &str, mark: &str) -> String {
    format!(".{name}.{mark}{PARTIAL}")
}

/// Refuses, for root, a directory in which others can create links.
///
/// # Errors
/// [`Error::Io`] with the reason.
pub fn check_trusted(dir: &Path) -> Result<(), Error> {
    trust::check(dir).map_err(|why| {
        let why = format!(
            "as root, knee does not write where other users can place links ({why}): choose a \
                directory of root's with -o"
        );
        let why = io::Error::new(ErrorKind::PermissionDenied, why);
        Error::io(dir, "cannot write here", why)
    })
}

/// Waits until a file is on disk. Files that are not on a disk need no wait.
fn sync(file: &File) -> io::Result<()> {
    match file.sync_all() {
        Err(why) if why.kind() == ErrorKind::InvalidInput => Ok(()),
        done => done,
    }
}

/// Returns the names of tables, in all formats.
fn tables() -> impl Iterator<Item = String> {
    let both = |file: ResultFile| [file.name().to_owned(), format!("{}.{PARQUET}", file.stem())];
    ResultFile::ALL.into_iter().flat_map(both)
}

/// The tables of results as sinks.
struct Tables<'a> {
    experiment: &'a Experiment,
    results: &'a mut Results,
    /// The file that was asked for last.
    last: ResultFile,
    /// Why it could not be made.
    failed: Option<Error>,
}

impl Sinks for Tables<'_> {
    fn of(&mut self, file: ResultFile) -> io::Result<&mut dyn Sink> {
        self.last = file;
        match self.results.table(self.experiment, file) {
            Ok(table) => Ok(&mut *table.sink),
            Err(why) => {
                let said = why.to_string();
                self.failed = Some(why);
                Err(io::Error::other(said))
            }
        }
    }
}

/// Refuses a directory that holds results.
fn check_free(dir: &Path) -> Result<(), Error> {
    match tables()
        .chain([MANIFEST.to_owned()])
        .find(|name| dir.join(name).symlink_metadata().is_ok())
    {
        None => Ok(()),
        Some(name) => {
            let why = format!(
                "it already holds results ({name}): choose another directory with -o, or remove it"
            );
            Err(Error::io(dir, "cannot write here", io::Error::other(why)))
        }
    }
}

impl Drop for Results {
    fn drop(&mut self) {
        if let Some(store) = &self.store {
            store.close();
        }
        if self.finished {
            return;
        }
        // Errors were reported before. A file that cannot be removed keeps its partial name.
        self.open.clear();
        for name in &self.named {
            let _ = self.held.remove(OsStr::new(name));
        }
        self.remove_partial();
        if self.store.take_if(|store| !store.is_lasting() && store.len() == 0).is_some() {
            let _ = self.held.remove(OsStr::new(JOURNAL));
        }
        if self.made_dir {
            let _ = knee_files::remove_dir(&self.dir);
        }
    }
}
