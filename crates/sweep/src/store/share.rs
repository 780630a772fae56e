//! Which runs of an experiment a process carries out.

use std::str::FromStr;

use knee_run::BackEnd;
use knee_scenario::error::Error;
use knee_scenario::experiment::Experiment;

use crate::run_name::RunName;

/// Largest number of shards.
const MOST_SHARDS: u32 = 1_000_000;

/// Share of the runs of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Share {
    /// All of them.
    #[default]
    Whole,
    /// One of several shards, from 1. Each run is in one of them.
    Shard { number: u32, of: u32 },
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Share, String> {
        let wrong = || {
            format!(
                "{text}: must be a shard and their number, from 1/1 to {MOST_SHARDS}/{MOST_SHARDS}, as 3/100"
            )
        };
        let (number, of) = text.split_once('/').ok_or_else(wrong)?;
        let [number, of] = [number, of].map(|text| text.parse::<u32>());
        let (number, of) = number.ok().zip(of.ok()).ok_or_else(wrong)?;
        match (1..=of).contains(&number) && of <= MOST_SHARDS {
            true => Ok(Share::Shard { number, of }),
            false => Err(wrong()),
        }
    }
}

impl Share {
    /// Returns the numbers of its runs.
    ///
    /// The rows that differ are sorted by the names of their first runs, and their runs are dealt out in turn. So a process names each
    /// row, but no runs of others; rows that compute the same have the same shards; and shards differ by one run at most.
    ///
    /// # Errors
    /// Those of resolving a row.
    pub fn numbers(
        self,
        experiment: &Experiment,
        back_end: &dyn BackEnd,
    ) -> Result<Vec<usize>, Error> {
        let Share::Shard { number, of } = self else {
            return Ok((0..experiment.runs()).collect());
        };
        let repeat = experiment.repeat as usize;
        let first = |row: usize| Ok(RunName::of_number(experiment, row * repeat, back_end)?.0);
        let names = (0..experiment.rows()).map(first).collect::<Result<Vec<_>, Error>>()?;
        let mut sorted = names.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let mut numbers = Vec::new();
        for (row, name) in names.iter().enumerate() {
            let place = sorted.partition_point(|other| other < name) * repeat;
            let is_own = |run: &usize| (place + run % repeat) % of as usize + 1 == number as usize;
            numbers.extend((row * repeat..(row + 1) * repeat).filter(is_own));
        }
        Ok(numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_and_their_number_is_what_it_says() {
        assert_eq!("3/100".parse(), Ok(Share::Shard { number: 3, of: 100 }));
        for text in ["", "3", "0/3", "4/3", "-1/3", "3/", "1/1000001", "a/b"] {
            let why = Share::from_str(text).unwrap_err();
            assert!(why.contains("as 3/100"), "{text}: {why}");
        }
    }
}
