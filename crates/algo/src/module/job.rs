//! What the compilations for the simulator and for BPF have in common: the order of checks, the choice among several ways to
//! compile a file, and the headers that are missing.

use std::path::{Component, Path};

use super::bounded::{self, Includes, Ran};
use super::{Cache, complaints};

/// Largest number of missing headers that are reported.
const MOST_MISSING_HEADERS: usize = 32;

/// The reason why there is no object.
#[derive(Debug)]
pub enum Refusal {
    /// A complete sentence.
    Says(String),
    /// Messages of the compiler.
    Compiler(String),
}

/// One way to compile a file.
pub trait CompileJob {
    /// What the preprocessor says of the file.
    type Key;
    /// What the compiler makes of it.
    type Object;

    /// Runs the preprocessor.
    ///
    /// # Errors
    /// What it, or a check of its output, refuses.
    fn key(&self) -> Result<Self::Key, Refusal>;

    /// Returns the object in the cache, if it is there.
    fn existing(&self, key: &Self::Key) -> Option<Result<Self::Object, String>>;

    /// Compiles the file and puts the object into the cache.
    ///
    /// # Errors
    /// What the compiler refuses.
    fn make(&self, key: &Self::Key) -> Result<Self::Object, Refusal>;

    /// Returns the compiler's messages about the file, with one more folder of headers.
    fn messages(&self, stubs: &Path) -> String;

    /// Explains the compiler's messages.
    fn explain(&self, said: &str) -> String;
}

/// Compiles a file in the first of these ways that works, or finds the object of one in the cache.
///
/// # Errors
/// The sentence about the way that its author meant.
pub fn compile<J: CompileJob>(jobs: &[J], cache: &Cache) -> Result<J::Object, String> {
    let mut keys = Vec::new();
    for job in jobs {
        match job.key() {
            Err(Refusal::Says(why)) => return Err(why),
            key => keys.push(key),
        }
    }
    let existing = |(job, key): (&J, &Result<J::Key, Refusal>)| job.existing(key.as_ref().ok()?);
    if let Some(object) = jobs.iter().zip(&keys).find_map(existing) {
        return object;
    }
    let (mut says, mut refused) = (None, Vec::new());
    for (job, key) in jobs.iter().zip(keys) {
        match key.and_then(|key| job.make(&key)) {
            Ok(object) => return Ok(object),
            Err(Refusal::Says(why)) => says = says.or(Some(why)),
            Err(Refusal::Compiler(said)) => refused.push((job, said)),
        }
    }
    // The way with the fewest errors is the one that the author meant. None repairs what knee itself refuses.
    let fewest = refused.into_iter().min_by_key(|(_, said)| said.matches("error:").count());
    Err(match (says, fewest) {
        (Some(why), _) => why,
        (None, Some((job, said))) => job.explain(&with_all_headers(job, cache, said)),
        (None, None) => String::new(),
    })
}

/// Checks what a compiler has read, before any of its output is shown, and whether it came to its end.
///
/// # Errors
/// [`Refusal::Says`] for a forbidden header or a limit, else the compiler's messages.
pub fn checked(ran: Ran, includes: &Includes, ran_in: &Path) -> Result<Ran, Refusal> {
    includes.check(&ran.stderr, ran_in).map_err(Refusal::Says)?;
    match (ran.is_done, &ran.limit) {
        (true, _) => Ok(ran),
        (false, Some(limit)) => Err(Refusal::Says(limit.clone())),
        (false, None) => Err(Refusal::Compiler(bounded::without_list(&ran.stderr))),
    }
}

/// Repeats a compilation with empty headers in place of the missing ones. A missing header stops the compiler before it has
/// seen the rest.
fn with_all_headers<J: CompileJob>(job: &J, cache: &Cache, said: String) -> String {
    let mut missing = complaints::missing_headers(&said);
    let Some(stubs) = (!missing.is_empty()).then(|| cache.unique("missing")) else {
        return said;
    };
    let mut all = said;
    for _ in 0..MOST_MISSING_HEADERS {
        if missing.is_empty() || missing.iter().any(|name| make_stub(&stubs, name).is_err()) {
            break;
        }
        let more = job.messages(&stubs);
        missing = complaints::missing_headers(&more);
        all.push_str(&more);
    }
    let _ = knee_files::remove_tree(&stubs);
    all
}

/// Creates an empty header in place of a missing one. Its name must not lead out of the folder.
fn make_stub(folder: &Path, name: &str) -> std::io::Result<()> {
    let name = Path::new(name);
    if !name.components().all(|part| matches!(part, Component::Normal(_))) {
        return Err(std::io::ErrorKind::InvalidInput.into());
    }
    let path = folder.join(name);
    knee_files::Dir::make_all(path.parent().unwrap_or(folder))?;
    knee_files::write(&path, "")
}
