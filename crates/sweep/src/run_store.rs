//! Where finished runs go, and come from when tables are made of them.

use std::fmt::Debug;
use std::io;

use knee_run::Budget;

use crate::run_name::RunName;
use crate::stored_run::StoredRun;

/// Finished runs by their names. Threads of runs use it at the same time.
pub(crate) trait RunStore: Debug + Send + Sync {
    /// Its name in the directory of results.
    fn file_name(&self) -> &'static str;

    /// How to go on with its runs after a failure, in words.
    fn way_on(&self, dir: &str) -> String;

    /// Description of the experiment whose runs these are, as JSON.
    fn about(&self) -> &str;

    /// Number of runs that other processes had left.
    fn earlier(&self) -> usize;

    /// Whether this run is one of them.
    fn is_earlier(&self, name: RunName) -> bool;

    /// Whether it holds this run.
    fn has(&self, name: RunName) -> bool;

    /// Number of runs that it holds.
    fn len(&self) -> usize;

    /// Whether the run of this number shall be carried out: nobody did, or has begun to.
    fn begins(&self, index: usize, name: RunName) -> bool;

    /// Adds a finished run, unless it has taken more memory than its budget: its rows may be cut short then.
    fn append(&self, run: StoredRun, name: RunName, budget: &Budget) -> io::Result<()>;

    /// Returns a finished run. `None` if it has not finished.
    fn read(&self, name: RunName) -> io::Result<Option<StoredRun>>;

    /// Is called several times a second.
    fn look(&self) {}

    /// Every run has finished.
    fn settle(&self) -> io::Result<()> {
        Ok(())
    }

    /// Waits until all is on disk.
    fn sync(&self) -> io::Result<()>;

    /// Lets other processes have it. Runs that end later are not kept.
    fn close(&self);

    /// Whether it stays when its runs are of no use, because the experiment cannot be carried out, or because there are none.
    fn is_lasting(&self) -> bool;
}
