//! The scenarios of an experiment that were read last.
//!
//! A row is checked, estimated, validated, run and reported, and run again for each repeat. Each of these asks for its scenario: to
//! read a small one takes as long as a short run, and to read a large network takes seconds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cases::Configuration;
use crate::scenario::Scenario;

/// Most of what is kept, by [`Scenario::size`] and text: some tens of megabytes. A larger one is kept alone.
const MOST_KEPT: usize = 200_000;

#[derive(Debug, Default)]
pub(crate) struct Scenarios(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    size: usize,
    by_row: HashMap<Configuration, Arc<Scenario>>,
}

impl Clone for Scenarios {
    /// A copy of an experiment may be changed, so it reads its own.
    fn clone(&self) -> Scenarios {
        Scenarios::default()
    }
}

impl Scenarios {
    /// Returns the scenario of this configuration. Forgets a large one of another, so that two of them are not held here.
    pub(crate) fn get(&self, configuration: &Configuration) -> Option<Arc<Scenario>> {
        let mut kept = self.kept();
        let found = kept.by_row.get(configuration).map(Arc::clone);
        if found.is_none() && kept.size > MOST_KEPT {
            *kept = Kept::default();
        }
        found
    }

    pub(crate) fn keep(
        &self,
        configuration: &Configuration,
        scenario: &Arc<Scenario>,
        size: usize,
    ) {
        let mut kept = self.kept();
        // Threads that miss a row at the same time each read it.
        if kept.by_row.contains_key(configuration) {
            return;
        }
        if kept.size + size > MOST_KEPT {
            *kept = Kept::default();
        }
        kept.size += size;
        kept.by_row.insert(configuration.clone(), Arc::clone(scenario));
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{Experiment, Overrides};

    const TEXT: &str = r#"
question = "?"
cc = ["cubic", "dctcp"]
[network]
topology = "many-to-one"
senders = 2
access = { rate = "10 Gbps" }
bottleneck = { rate = "1 Gbps", queue = { kind = "droptail", limit = "100 pkts" } }
[[traffic]]
name = "a"
kind = "bulk"
from = "s1..s2"
to = "r"
size = "20 kB"
[run]
duration = "20 ms"
"#;

    #[test]
    fn a_row_is_read_once_and_large_ones_are_held_one_at_a_time() {
        let experiment = Experiment::parse(Path::new("a.toml"), TEXT, &Overrides::default());
        let experiment = experiment.unwrap().whole().unwrap();
        let [cubic, dctcp] = [0, 1].map(|row| experiment.row(row));
        let first = experiment.scenario(&cubic).unwrap();
        let second = experiment.scenario(&dctcp).unwrap();
        assert!(Arc::ptr_eq(&first, &experiment.scenario(&cubic).unwrap()));
        assert!(Arc::ptr_eq(&second, &experiment.scenario(&dctcp).unwrap()));
        let of_copy = experiment.clone().scenario(&cubic).unwrap();
        assert!(!Arc::ptr_eq(&first, &of_copy));
        let scenarios = Scenarios::default();
        scenarios.keep(&cubic, &of_copy, MOST_KEPT + 1);
        assert!(scenarios.get(&cubic).is_some() && scenarios.get(&dctcp).is_none());
        // Nobody but this test holds the first one any more.
        assert_eq!(Arc::strong_count(&of_copy), 1);
        scenarios.keep(&dctcp, &second, MOST_KEPT + 1);
        assert!(scenarios.get(&cubic).is_none());
    }
}
