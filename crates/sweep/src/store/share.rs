//! Which runs of an experiment a process carries out.

use std::str::FromStr;
use std::sync::Arc;

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
    /// One of several shards, from 1. Each run is in one, whichever cases and values the experiment has besides.
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
    /// Returns the numbers of its runs. `None`: all.
    ///
    /// A run's shard follows from the name of its row's first run and from its repeat. So rows that compute the same have the same
    /// shards, and a process names each row, but no runs of others.
    ///
    /// # Errors
    /// Those of resolving a row.
    pub fn numbers(
        self,
        experiment: &Experiment,
        back_end: &dyn BackEnd,
    ) -> Result<Option<Arc<[usize]>>, Error> {
        let Share::Shard { number, of } = self else { return Ok(None) };
        let repeat = experiment.repeat as usize;
        let mut numbers = Vec::new();
        for row in 0..experiment.rows() {
            let first = experiment.run(experiment.run_id(row * repeat))?;
            let name = RunName::of(&first, &experiment.modules, back_end);
            let is_own = |run: &usize| shard(name, experiment.run_id(*run).repeat, of) == number;
            numbers.extend((row * repeat..(row + 1) * repeat).filter(is_own));
        }
        Ok(Some(numbers.into()))
    }
}

/// The shard of a run, from 1.
fn shard(of_row: RunName, repeat: u32, of: u32) -> u32 {
    // A step of the golden ratio through all 64 bits, so that the repeats of a row are spread evenly.
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let place = of_row.first_bytes().wrapping_add(STEP.wrapping_mul(u64::from(repeat)));
    // The upper half of a product is a share of `of`.
    1 + ((u128::from(place) * u128::from(of)) >> 64) as u32
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

    #[test]
    fn repeats_of_a_row_are_spread_evenly() {
        let name = RunName::from_bytes(&[7; 16]).unwrap();
        let mut runs = [0; 10];
        (0..1000).for_each(|repeat| runs[shard(name, repeat, 10) as usize - 1] += 1);
        assert!(runs.iter().all(|runs| (95..=105).contains(runs)), "{runs:?}");
    }
}
