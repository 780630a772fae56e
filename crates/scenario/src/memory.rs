//! Memory of runs: their limit, and what their samples take.
//!
//! The back end counts what a run takes, and ends one that exceeds its limit ([`knee_run::Budget`]). Only samples are counted before
//! the run, because their number is known.

use knee_file::units::{Quantity, Size};

/// Default memory limit of a run, bytes.
pub const MOST_BYTES: u64 = 4 << 30;
/// Memory in bytes from which that of samples is printed.
const LARGE_BYTES: u64 = 500_000_000;

/// Memory of a run's samples, until they are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Bytes of all samples, if the run does not end early.
    pub bytes: u64,
    /// Largest part, in words.
    pub most: String,
}

impl Memory {
    /// Returns the memory of the row that needs more.
    pub(crate) fn with(self, other: &Memory) -> Memory {
        if other.bytes > self.bytes { other.clone() } else { self }
    }

    /// Returns whether it is worth printing.
    pub fn is_large(&self) -> bool {
        self.bytes >= LARGE_BYTES
    }

    /// Describes it, as `up to 1.2 GB of memory per run for samples, mostly for 3000000 samples of flows (sample.flows)`.
    pub fn words(&self) -> String {
        format!(
            "up to {} of memory per run for samples, mostly for {}",
            shown(self.bytes),
            self.most
        )
    }

    /// Returns an alternative that needs less memory. Empty if none is known.
    pub fn other_way(&self) -> &'static str {
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
pub fn shown(bytes: u64) -> String {
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
