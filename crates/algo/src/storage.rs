//! Storage for a connection's state that does not fit the private area.

/// Guard words before and after the state. They stay 0 unless a user's file writes outside its
/// state.
const BEFORE: usize = 1;
const BEHIND: usize = 7;

/// State in words of 8 bytes.
#[derive(Debug)]
pub(crate) struct Storage {
    /// The state with its guard words; empty if there is none.
    words: Box<[u64]>,
}

impl Storage {
    /// Creates a state of so many bytes, all 0.
    pub(crate) fn of(bytes: usize) -> Storage {
        let words = bytes.div_ceil(size_of::<u64>());
        let all = if words == 0 { 0 } else { BEFORE + words + BEHIND };
        Storage { words: vec![0; all].into_boxed_slice() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    pub(crate) fn words(&self) -> &[u64] {
        let end = self.words.len().saturating_sub(BEHIND);
        self.words.get(BEFORE..end).unwrap_or_default()
    }

    pub(crate) fn words_mut(&mut self) -> &mut [u64] {
        let end = self.words.len().saturating_sub(BEHIND);
        self.words.get_mut(BEFORE..end).unwrap_or_default()
    }

    /// Sets all words to 0, including the guard words.
    pub(crate) fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Returns the address that the algorithm gets; null if there is no state.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut u64 {
        match self.is_empty() {
            true => std::ptr::null_mut(),
            // The pointer comes from the whole allocation, so a write into a guard word stays
            // inside it.
            false => self.words.as_mut_ptr().wrapping_add(BEFORE),
        }
    }

    /// Returns whether a guard word was written: `Some(true)` before the state, `Some(false)` after
    /// it.
    #[inline]
    pub(crate) fn written_beside(&self) -> Option<bool> {
        let (first, behind) = (self.words.first()?, self.words.len() - BEHIND);
        let is_before = *first != 0;
        (is_before || self.words[behind..].iter().any(|word| *word != 0)).then_some(is_before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_beside_is_found() {
        let mut storage = Storage::of(212);
        assert_eq!(storage.words().len(), 27);
        storage.words_mut().fill(u64::MAX);
        assert_eq!(storage.written_beside(), None);
        for (at, expected) in [(0, Some(true)), (28, Some(false)), (34, Some(false))] {
            storage.words[at] = 1;
            assert_eq!(storage.written_beside(), expected);
            storage.clear();
        }
        let mut none = Storage::of(0);
        assert!(none.is_empty() && none.words().is_empty() && none.as_mut_ptr().is_null());
        assert_eq!(none.written_beside(), None);
    }
}
