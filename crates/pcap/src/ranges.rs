//! Ranges of sequence numbers that a receiver has reported.

/// Most ranges; of further ones only their hull is known.
const MOST: usize = 512;

/// Ranges that do not touch each other, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges {
    list: Vec<(u64, u64)>,
    bytes: u64,
    /// From the lowest begin to the highest end of those that are not in the list.
    left_out: Option<(u64, u64)>,
}

impl Ranges {
    /// How many bytes they cover.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where the first begins.
    pub(crate) fn begin(&self) -> Option<u64> {
        self.list.first().map(|range| range.0)
    }

    /// Where the last ends.
    pub(crate) fn end(&self) -> Option<u64> {
        self.list.last().map(|range| range.1)
    }

    /// Whether the list has all ranges between two numbers.
    pub(crate) fn has_all(&self, start: u64, end: u64) -> bool {
        self.left_out.is_none_or(|(first, last)| end <= first || last <= start)
    }

    /// Adds a range. Calls `fresh` for each part of it that was not covered. Returns the union with the ranges that it touches, if
    /// any part was new.
    pub(crate) fn add(
        &mut self,
        start: u64,
        end: u64,
        fresh: &mut Vec<(u64, u64)>,
    ) -> Option<(u64, u64)> {
        fresh.clear();
        let from = self.list.partition_point(|range| range.1 < start);
        let to = self.list.partition_point(|range| range.0 <= end);
        if start >= end {
            return None;
        }
        if from == to && self.list.len() >= MOST {
            let (first, last) = self.left_out.unwrap_or((start, end));
            self.left_out = Some((first.min(start), last.max(end)));
            return None;
        }
        let (mut first, mut last, mut covered) = (start, end, start);
        for range in &self.list[from..to] {
            first = first.min(range.0);
            last = last.max(range.1);
            if covered < range.0 {
                fresh.push((covered, range.0));
            }
            covered = covered.max(range.1);
        }
        if covered < end {
            fresh.push((covered, end));
        }
        if fresh.is_empty() {
            return None;
        }
        self.list.splice(from..to, [(first, last)]);
        self.bytes += fresh.iter().map(|part| part.1 - part.0).sum::<u64>();
        Some((first, last))
    }

    /// Forgets what is below a number.
    pub(crate) fn remove_below(&mut self, number: u64) {
        let gone = self.list.partition_point(|range| range.1 <= number);
        self.list.drain(..gone);
        if let Some(first) = self.list.first_mut() {
            first.0 = first.0.max(number);
        }
        self.bytes = self.list.iter().map(|range| range.1 - range.0).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_touches_is_joined_and_what_is_known_is_nothing_new() {
        let mut ranges = Ranges::default();
        let mut fresh = Vec::new();
        assert_eq!(ranges.add(10, 20, &mut fresh), Some((10, 20)));
        assert_eq!(ranges.add(30, 40, &mut fresh), Some((30, 40)));
        assert_eq!(ranges.add(12, 18, &mut fresh), None);
        assert_eq!(ranges.add(15, 25, &mut fresh), Some((10, 25)));
        assert_eq!(fresh, [(20, 25)]);
        assert_eq!(ranges.add(5, 50, &mut fresh), Some((5, 50)));
        assert_eq!(fresh, [(5, 10), (25, 30), (40, 50)]);
        assert_eq!((ranges.bytes(), ranges.end()), (45, Some(50)));
        ranges.remove_below(15);
        assert_eq!((ranges.bytes(), ranges.end()), (35, Some(50)));
        assert_eq!(ranges.add(70, 70, &mut fresh), None);
        ranges.remove_below(50);
        assert_eq!((ranges.bytes(), ranges.end()), (0, None));
    }

    #[test]
    fn there_are_never_more_than_a_bound() {
        let (mut ranges, mut fresh) = (Ranges::default(), Vec::new());
        for i in 0..10_000 {
            ranges.add(i * 10, i * 10 + 5, &mut fresh);
        }
        assert_eq!(ranges.bytes(), MOST as u64 * 5);
        let most = MOST as u64;
        assert!(ranges.has_all(0, most * 10) && ranges.has_all(99_995, 200_000));
        assert!(!ranges.has_all(0, most * 10 + 1) && !ranges.has_all(99_994, 200_000));
    }
}
