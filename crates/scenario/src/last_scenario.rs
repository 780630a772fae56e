//! The scenario of an experiment that was read last.
//!
//! A row is checked, estimated, validated, run and reported. Each of these asks for its scenario, and to read a large
//! network takes seconds.

use std::sync::{Arc, Mutex, PoisonError};

use crate::cases::Configuration;
use crate::scenario::Scenario;

#[derive(Debug, Default)]
pub(crate) struct LastScenario(Mutex<Option<(Configuration, Arc<Scenario>)>>);

impl Clone for LastScenario {
    /// A copy of an experiment may be changed, so it reads its own.
    fn clone(&self) -> LastScenario {
        LastScenario::default()
    }
}

impl LastScenario {
    /// Returns the scenario of this configuration. Forgets that of another one, so that two of them are never held.
    pub(crate) fn get(&self, configuration: &Configuration) -> Option<Arc<Scenario>> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref().is_some_and(|(of, _)| of != configuration) {
            *last = None;
        }
        last.as_ref().map(|(_, scenario)| Arc::clone(scenario))
    }

    pub(crate) fn keep(&self, configuration: &Configuration, scenario: &Arc<Scenario>) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some((configuration.clone(), Arc::clone(scenario)));
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
    fn a_row_is_read_once_until_another_one_is() {
        let experiment = Experiment::parse(Path::new("a.toml"), TEXT, &Overrides::default());
        let experiment = experiment.unwrap().whole().unwrap();
        let [cubic, dctcp] = [0, 1].map(|row| experiment.configurations[row].clone());
        let first = experiment.scenario(&cubic).unwrap();
        assert!(Arc::ptr_eq(&first, &experiment.scenario(&cubic).unwrap()));
        let of_copy = experiment.clone().scenario(&cubic).unwrap();
        assert!(!Arc::ptr_eq(&first, &of_copy));
        // Nobody but this test holds the first one any more.
        experiment.scenario(&dctcp).unwrap();
        assert_eq!(Arc::strong_count(&first), 1);
        assert!(!Arc::ptr_eq(&first, &experiment.scenario(&cubic).unwrap()));
    }
}
