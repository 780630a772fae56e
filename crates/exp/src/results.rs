//! The directory that a sweep leaves behind.
//!
//! Every file is written under another name and renamed when all of them are complete and on disk,
//! the manifest last: a directory with a `manifest.json` holds whole files, and a disk that fills up
//! leaves none.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::csv::{RowFile, Rows};
use crate::error::Error;
use crate::experiment::Experiment;
use crate::report;
use crate::runner::Swept;

const MANIFEST: &str = "manifest.json";
const SUMMARY: &str = "summary.csv";
/// Ends the name of a file that is not complete.
const PARTIAL: &str = ".partial";
/// `results/NAME`, `results/NAME-2`, ... up to this.
const MAX_NUMBER: u32 = 99_999;

/// Where result files are written; a test can put a full disk here.
pub trait Storage {
    /// Opens a new file for writing.
    ///
    /// # Errors
    /// What the system says.
    fn create(&self, path: &Path) -> io::Result<File>;
}

/// The file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Storage for Disk {
    fn create(&self, path: &Path) -> io::Result<File> {
        OpenOptions::new().write(true).create(true).truncate(true).open(path)
    }
}

/// Files being written; nothing of them stays if this is dropped before [`Results::finish`].
pub struct Results {
    dir: PathBuf,
    /// Whether the directory is ours to remove if it stays empty.
    made_dir: bool,
    storage: Box<dyn Storage>,
    /// By the name that they will have.
    open: BTreeMap<&'static str, BufWriter<File>>,
    finished: bool,
}

impl std::fmt::Debug for Results {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Results").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl Results {
    /// A new directory `NAME` below `parent`, or `NAME-2`, `NAME-3`, ... if there is one.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be made.
    pub fn numbered(parent: &Path, name: &str) -> Result<Results, Error> {
        fs::create_dir_all(parent).map_err(|why| Error::io(parent, "cannot make", why))?;
        for number in 1..=MAX_NUMBER {
            let dir = match number {
                1 => parent.join(name),
                _ => parent.join(format!("{name}-{number}")),
            };
            match fs::create_dir(&dir) {
                Ok(()) => return Ok(Results::new(dir, true)),
                Err(why) if why.kind() == ErrorKind::AlreadyExists => {}
                Err(why) => return Err(Error::io(&dir, "cannot make", why)),
            }
        }
        let why = io::Error::other(format!("there are {MAX_NUMBER} of them already"));
        Err(Error::io(&parent.join(name), "cannot make", why))
    }

    /// This directory, which is made if it is not there and must not hold results.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be made, or holds results already.
    pub fn at(dir: &Path) -> Result<Results, Error> {
        let made_dir = !dir.exists();
        fs::create_dir_all(dir).map_err(|why| Error::io(dir, "cannot make", why))?;
        let ours = RowFile::ALL.iter().map(|file| file.name()).chain([MANIFEST, SUMMARY]);
        for name in ours {
            if dir.join(name).exists() {
                let why = format!("holds results already ({name}): remove it or name another");
                return Err(Error::io(dir, "cannot write here", io::Error::other(why)));
            }
        }
        Ok(Results::new(dir.to_owned(), made_dir))
    }

    fn new(dir: PathBuf, made_dir: bool) -> Results {
        let (open, storage) = (BTreeMap::new(), Box::new(Disk));
        Results { dir, made_dir, storage, open, finished: false }
    }

    /// Writes through this instead of to the disk.
    #[must_use]
    pub fn on(mut self, storage: Box<dyn Storage>) -> Results {
        self.storage = storage;
        self
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Adds the rows of one run.
    pub(crate) fn append(&mut self, experiment: &Experiment, rows: &Rows) -> Result<(), Error> {
        for (file, rows) in RowFile::ALL.into_iter().zip(rows) {
            if !rows.is_empty() {
                self.write(file.name(), rows, || file.header(experiment))?;
            }
        }
        Ok(())
    }

    /// Writes the summary and the manifest, and gives every file its name. Gives the directory.
    ///
    /// # Errors
    /// [`Error::Io`] if anything cannot be written; then there are no files.
    pub fn finish(mut self, experiment: &Experiment, swept: &Swept) -> Result<PathBuf, Error> {
        self.write(SUMMARY, &report::summary_csv(experiment, swept), String::new)?;
        let files: Vec<_> = self.open.keys().copied().collect();
        let manifest = report::manifest(experiment, swept, &files)?;
        self.write(MANIFEST, &format!("{manifest:#}\n"), String::new)?;
        for (name, writer) in &mut self.open {
            let written = writer.flush().and_then(|()| sync(writer.get_ref()));
            written.map_err(|why| Error::io(&self.dir.join(name), "cannot write", why))?;
        }
        let names = self.open.keys().filter(|name| **name != MANIFEST).chain([&MANIFEST]);
        for name in names {
            let path = self.dir.join(name);
            fs::rename(partial(&self.dir, name), &path)
                .map_err(|why| Error::io(&path, "cannot write", why))?;
        }
        self.finished = true;
        Ok(self.dir.clone())
    }

    fn write(
        &mut self,
        name: &'static str,
        text: &str,
        header: impl FnOnce() -> String,
    ) -> Result<(), Error> {
        let failed = |why| Error::io(&self.dir.join(name), "cannot write", why);
        let writer = match self.open.entry(name) {
            std::collections::btree_map::Entry::Occupied(open) => open.into_mut(),
            std::collections::btree_map::Entry::Vacant(new) => {
                let file = self.storage.create(&partial(&self.dir, name)).map_err(failed)?;
                let writer = new.insert(BufWriter::new(file));
                writer.write_all(header().as_bytes()).map_err(failed)?;
                writer
            }
        };
        writer.write_all(text.as_bytes()).map_err(failed)
    }
}

/// Waits until the disk has it; what is no file on a disk has nothing to wait for.
fn sync(file: &File) -> io::Result<()> {
    match file.sync_all() {
        Err(why) if why.kind() == ErrorKind::InvalidInput => Ok(()),
        done => done,
    }
}

fn partial(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!(".{name}{PARTIAL}"))
}

impl Drop for Results {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        // Whatever went wrong has been reported; what cannot be removed now stays under its partial name.
        for (name, writer) in std::mem::take(&mut self.open) {
            let (_file, _unwritten) = writer.into_parts();
            let _ = fs::remove_file(partial(&self.dir, name));
            let _ = fs::remove_file(self.dir.join(name));
        }
        if self.made_dir {
            let _ = fs::remove_dir(&self.dir);
        }
    }
}
