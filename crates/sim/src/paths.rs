//! The paths of a run: lists of links. Domains share those that are known when the run starts.

use knee_run::Error;
use knee_run::routes::PATH_END;
use std::collections::HashMap;
use std::sync::Arc;

/// The switch at this position of a path chooses the next link; see [`balance`](crate::balance).
pub(crate) const CHOOSE: u32 = PATH_END - 1;

/// Paths one after the other, each with [`PATH_END`] at its end. A packet has a position in them.
#[derive(Debug)]
pub(crate) struct Paths {
    /// Paths that are known when the run starts.
    first: Arc<[u32]>,
    /// Paths that this domain found later; their positions follow those of the first ones.
    later: Vec<u32>,
    /// Start of each later path. There are only so many, and packets may be on any of them.
    starts: HashMap<Vec<u32>, u32>,
    /// Links of all paths for which there are positions.
    room: u32,
    /// Whether a path had no room.
    is_full: bool,
}

impl Paths {
    pub(crate) fn new(first: Arc<[u32]>) -> Paths {
        Paths { first, later: Vec::new(), starts: HashMap::new(), room: u32::MAX, is_full: false }
    }

    /// Keeps no more links than this.
    #[cfg(test)]
    pub(crate) fn limit(&mut self, room: u32) {
        self.room = room;
    }

    /// Refuses a run in which a path had no room.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.is_full { Err(too_long()) } else { Ok(()) }
    }

    /// Returns the link at a position.
    #[inline]
    pub(crate) fn link(&self, position: u32) -> u32 {
        match self.first.get(position as usize) {
            Some(link) => *link,
            None => self.later_link(position),
        }
    }

    /// Fetches the link at a position into the near cache.
    #[inline]
    pub(crate) fn fetch(&self, position: u32) {
        if let Some(link) = self.first.get(position as usize) {
            knee_prefetch::fetch(link, 0..1);
        }
    }

    #[cold]
    fn later_link(&self, position: u32) -> u32 {
        self.later[position as usize - self.first.len()]
    }

    /// Returns the link before a position; `None` at the start of a path.
    pub(crate) fn link_before(&self, position: u32) -> Option<u32> {
        let before = position.checked_sub(1).map(|before| self.link(before));
        before.filter(|link| *link < CHOOSE)
    }

    /// Iterates over the links from a position to the end of its path.
    pub(crate) fn links(&self, position: u32) -> impl Iterator<Item = u32> + Clone {
        (position..).map(|at| self.link(at)).take_while(|link| *link != PATH_END)
    }

    /// Returns the start of a path. Adds it, unless a later path has the same links. `None`: there are no positions left
    /// for it, and [`check`](Paths::check) refuses the run at its end.
    pub(crate) fn add(&mut self, links: Vec<u32>) -> Option<u32> {
        if let Some(start) = self.starts.get(&links) {
            return Some(*start);
        }
        let start = self.first.len() + self.later.len();
        if start + links.len() + 1 > self.room as usize {
            self.is_full = true;
            return None;
        }
        let start = start as u32;
        self.later.extend(&links);
        self.later.push(PATH_END);
        self.starts.insert(links, start);
        Some(start)
    }

    /// For a position in a later path, returns the path and the number of links before the position.
    /// Other domains know it under another position.
    pub(crate) fn later_path(&self, position: u32) -> Option<(Vec<u32>, u32)> {
        if (position as usize) < self.first.len() {
            return None;
        }
        let mut start = position;
        while start as usize > self.first.len() && self.link_before(start).is_some() {
            start -= 1;
        }
        Some((self.links(start).collect(), position - start))
    }
}

/// The error of a run whose paths have more links than there are positions.
pub(crate) fn too_long() -> Error {
    Error::Refused("the paths of all flows have more than 2^32 links: take fewer flows".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_paths_are_kept_once_and_known_from_any_position() {
        let mut paths = Paths::new(vec![7, 8, PATH_END].into());
        assert_eq!(paths.later_path(2), None);
        let one = paths.add(vec![1, 2]).unwrap();
        let other = paths.add(vec![3, 4, 5]).unwrap();
        assert_eq!((one, other, paths.add(vec![1, 2])), (3, 6, Some(3)));
        assert_eq!(paths.later_path(one), Some((vec![1, 2], 0)));
        assert_eq!(paths.later_path(one + 2), Some((vec![1, 2], 2)));
        assert_eq!(paths.later_path(other + 1), Some((vec![3, 4, 5], 1)));
        assert_eq!((paths.link_before(3), paths.link_before(2)), (None, Some(8)));
        assert_eq!(paths.links(other + 1).collect::<Vec<_>>(), [4, 5]);
    }

    #[test]
    fn a_path_without_room_is_not_added_and_refuses_the_run() {
        let mut paths = Paths::new(vec![7, 8, PATH_END].into());
        // Two paths of two links fit, each with its end; the third does not.
        paths.limit(9);
        assert_eq!((paths.add(vec![1, 2]), paths.add(vec![3, 4])), (Some(3), Some(6)));
        assert_eq!(paths.check(), Ok(()));
        assert_eq!((paths.add(vec![5, 6]), paths.add(vec![3, 4])), (None, Some(6)));
        assert_eq!(paths.links(6).collect::<Vec<_>>(), [3, 4]);
        assert_eq!(paths.check(), Err(too_long()));
    }
}
