//! Estimates a run's memory before it starts.
//!
//! Two estimates add bytes key by key. The bound tends to be too high: a run may end early, and windows rarely fill. It
//! serves to refuse what a file may ask for. The likely amount decides whether a run fits the machine.

use knee_file::units::{Quantity, Size};

/// Default memory limit of a run, bytes.
pub const MOST_BYTES: u64 = 4 << 30;
/// Largest number of links in a manifest: 30 MB of it.
pub(crate) const MOST_LISTED_LINKS: usize = 120_000;
/// Memory in bytes from which the estimate is printed.
const LARGE_BYTES: u64 = 500_000_000;

/// Memory of a row, or of the row that needs most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Memory of a run while it runs, in bytes.
    pub run_bytes: u64,
    /// Memory that a run probably takes, in bytes: queues as full as at the end of slow start.
    pub likely_bytes: u64,
    /// Memory that each further thread of a run takes, in bytes.
    pub thread_bytes: u64,
    /// Memory of all runs' values until the last run ends, bytes.
    pub kept_bytes: u64,
    /// Largest part, in words.
    pub most: String,
}

impl Memory {
    /// Returns the memory of one run and of the values kept from others, in bytes.
    pub fn bytes(&self) -> u64 {
        self.run_bytes.saturating_add(self.kept_bytes)
    }

    /// Returns the memory that a run on so many threads probably takes, in bytes.
    pub fn likely_on(&self, threads: usize) -> u64 {
        let further = (threads as u64).saturating_sub(1).saturating_mul(self.thread_bytes);
        self.likely_bytes.saturating_add(further)
    }

    /// Returns the maximum of each part, because a run of one row may start while another's values are kept.
    pub(crate) fn with(self, other: &Memory) -> Memory {
        let most = if other.bytes() > self.bytes() { other.most.clone() } else { self.most };
        Memory {
            run_bytes: self.run_bytes.max(other.run_bytes),
            likely_bytes: self.likely_bytes.max(other.likely_bytes),
            thread_bytes: self.thread_bytes.max(other.thread_bytes),
            kept_bytes: self.kept_bytes.max(other.kept_bytes),
            most,
        }
    }

    /// Returns whether the estimate is worth printing.
    pub fn is_large(&self) -> bool {
        self.bytes() >= LARGE_BYTES
    }

    /// Describes it, as `up to 1.2 GB of memory a run, most of it for 3000000 samples of flows (sample.flows)`.
    pub fn words(&self) -> String {
        format!("up to {} of memory per run, mostly for {}", shown(self.bytes()), self.most)
    }

    /// Returns an alternative that needs less memory. Empty if none is known.
    pub(crate) fn other_way(&self) -> &'static str {
        match self.most.contains("sample.flows") {
            // A user who samples every microsecond wants to see every call, which a recording shows.
            true => {
                "; knee run --trace ENTRY records each call of an algorithm, and knee flight show prints them"
            }
            false => "",
        }
    }
}

/// Parses a memory limit, such as "8 GiB".
///
/// # Errors
/// Describes a valid size.
pub fn parse(text: &str) -> Result<u64, String> {
    Size::parse(text).map(|size| size.0)
}

/// Formats bytes with a unit, rounded up.
pub(crate) fn shown(bytes: u64) -> String {
    match bytes {
        0..1_000_000_000 => format!("{} MB", bytes.div_ceil(1_000_000)),
        1_000_000_000..10_000_000_000 => {
            let tenths = bytes.div_ceil(100_000_000);
            format!("{}.{} GB", tenths / 10, tenths % 10)
        }
        10_000_000_000..1_000_000_000_000_000 => format!("{} GB", bytes.div_ceil(1_000_000_000)),
        _ => "a million GB and more".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_rows_each_part_counts_that_takes_most() {
        let memory = |run_bytes, kept_bytes, most: &str| Memory {
            run_bytes,
            likely_bytes: run_bytes / 2,
            thread_bytes: run_bytes / 10,
            kept_bytes,
            most: most.to_owned(),
        };
        let all = memory(1000, 0, "a").with(&memory(100, 1000, "b"));
        assert_eq!(all, memory(1000, 1000, "b"));
        assert_eq!([1, 2, 4].map(|threads| all.likely_on(threads)), [500, 600, 800]);
    }

    #[test]
    fn bytes_are_said_in_the_unit_that_fits_and_never_less() {
        for (bytes, said) in [
            (1, "1 MB"),
            (999_999_999, "1000 MB"),
            (1_200_000_001, "1.3 GB"),
            (4 << 30, "4.3 GB"),
            (u64::MAX, "a million GB and more"),
        ] {
            assert_eq!(shown(bytes), said);
        }
    }
}
