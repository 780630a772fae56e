//! How much memory a run may take, told before it is run.
//!
//! What a file asks for is estimated in bytes, key by key, from above: a run may end early, and a host may have less to tell. It
//! is an estimate all the same, good for a refusal in time and not for an account.

use std::fmt::Write as _;

use crate::back_end::BackEnd;
use crate::error::{Error, Origin};
use crate::experiment::Experiment;
use crate::machine;
use crate::units::{Quantity, Size};

/// What a run may take unless somebody allows more.
pub const MOST_BYTES: u64 = 4 << 30;
/// From here on it is worth a line.
const LARGE_BYTES: u64 = 500_000_000;
/// Of the memory that programs could still take, what runs are begun for, in per cent: others want some, too.
const SHARE_PCT: u64 = 75;

/// What a row of an experiment takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// A run of it while it goes on.
    pub run_bytes: u64,
    /// What is kept of all its runs until the last is done.
    pub kept_bytes: u64,
    /// What takes most of that, in words.
    pub most: String,
}

impl Memory {
    /// A run and what is kept of others.
    pub fn bytes(&self) -> u64 {
        self.run_bytes.saturating_add(self.kept_bytes)
    }

    /// Whether whoever runs it wants to know.
    pub fn is_large(&self) -> bool {
        self.bytes() >= LARGE_BYTES
    }

    /// As `about 1.2 GB of memory a run, most of it for 3000000 samples of flows (sample.flows)`.
    pub fn words(&self) -> String {
        format!("up to {} of memory a run, most of it for {}", shown(self.bytes()), self.most)
    }
}

/// Reads what somebody allows, as "8 GiB".
///
/// # Errors
/// What would have been a size.
pub fn parse(text: &str) -> Result<u64, String> {
    Size::parse(text).map(|size| size.0)
}

/// Bytes as people say them, rounded up.
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

/// How many runs go on at once: as many as asked for (0: as there are cores), or as many as fit into memory where nobody asked.
///
/// # Errors
/// [`Error::Input`] if as many as asked for do not fit, or not even one does.
pub fn threads(
    experiment: &Experiment,
    back_end: &dyn BackEnd,
    asked: usize,
) -> Result<usize, Error> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let wanted = if asked == 0 { cores } else { asked };
    let wanted = wanted.min(back_end.threads().unwrap_or(usize::MAX));
    let wanted = wanted.clamp(1, experiment.runs().max(1));
    let Some(free) = machine::available_memory_bytes() else { return Ok(wanted) };
    let memory = &experiment.memory;
    let fit = fit(memory, free);
    if fit >= wanted || asked == 0 && fit > 0 {
        return Ok(fit.min(wanted));
    }
    let mut why = memory.words();
    let _ = write!(why, "; {} of this machine's is free", shown(free));
    let key = match fit {
        0 => {
            why.push_str(": ask for less");
            ""
        }
        fit => {
            let _ = write!(why, ", enough for {fit} at once");
            "--threads"
        }
    };
    Err(Error::input(&experiment.path, Origin::Nowhere, key, why))
}

/// Runs that fit into memory that is free.
fn fit(memory: &Memory, free_bytes: u64) -> usize {
    let of_runs = (free_bytes / 100 * SHARE_PCT).saturating_sub(memory.kept_bytes);
    usize::try_from(of_runs / memory.run_bytes.max(1)).unwrap_or(usize::MAX)
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

    #[test]
    fn as_many_runs_as_fit_into_three_quarters_of_what_is_free() {
        let memory = |run_bytes, kept_bytes| Memory { run_bytes, kept_bytes, most: String::new() };
        assert_eq!(fit(&memory(1 << 30, 0), 4 << 30), 2);
        assert_eq!(fit(&memory(1 << 30, 2 << 30), 4 << 30), 0);
        assert_eq!(fit(&memory(0, 0), 4 << 30), 3_221_225_400);
    }
}
