//! Sorts the runs of a store.

use std::io;

use knee_files::Dir;

use super::MOST_PART_BYTES;
use super::index::Index;
use super::part::{Part, PartName};
use crate::run_name::RunName;
use crate::stored_run::reframed;

/// Writes parts with all runs in the order of their names, and removes the others. Each part ends where it becomes too long, so the
/// bytes depend on the runs alone. A reader finds each run at any time.
///
/// # Errors
/// Those of reading and writing. Then all runs are there as before.
pub(super) fn compact(dir: &Dir) -> io::Result<Index> {
    let mut index = Index::of(dir)?;
    index.check_same()?;
    let new = cut(&index);
    for names in &new {
        let part = PartName::of(names);
        if !index.parts().contains(&part) {
            let mut part = Part::default();
            for name in names {
                let place = index.place(*name).ok_or(io::ErrorKind::NotFound)?;
                part.add(*name, reframed(&index.message(dir, place)?));
            }
            part.write(dir)?;
            continue;
        }
        part.list(dir, names)?;
    }
    let new: Vec<_> = new.iter().map(|names| PartName::of(names)).collect();
    let old = index.parts().iter().filter(|old| !new.contains(old));
    old.into_iter().try_for_each(|old| old.remove(dir))?;
    Index::of(dir)
}

/// Returns the names of the runs of each new part.
fn cut(index: &Index) -> Vec<Vec<RunName>> {
    let mut parts: Vec<Vec<RunName>> = Vec::new();
    let mut bytes = u64::MAX;
    for name in index.names() {
        let more = index.place(name).map_or(0, |place| place.bytes());
        if bytes.saturating_add(more) > MOST_PART_BYTES as u64 {
            parts.push(Vec::new());
            bytes = 0;
        }
        bytes += more;
        parts.last_mut().into_iter().for_each(|part| part.push(name));
    }
    parts
}
