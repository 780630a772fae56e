//! `kind = "bulk"`: transfers of a size, or without end.

use std::sync::Arc;

use knee_file::keys::{Below, Key, List};
use knee_file::units::Size;
use knee_file::{Error, keys};
use knee_queue::time::Duration;
use knee_run::spec::{Run, Traffic};

use super::connections::{CONNECTIONS, Connections, Rounds, TIMED_CONNECTIONS};
use super::pairs::BETWEEN;
use super::{
    COMMON, Described, EntryInRun, EntryParts, EntryReader, Group, NAMED, Pattern, TIMED,
    TrafficSpec,
};
use super::{converged, incast};
use crate::metric::{Kind, Known, Measured, Metric as M};

keys! {
    /// Transfers.
    pub(super) static KEYS: BulkKeys = "bulk" {
        /// Transfer size, or one per flow.
        size: Key<List<Size>> = usually("without end"),
        /// Stop time, for transfers without size.
        stop: Key<Duration> = usually("end of the run"),
        /// Time between stops.
        stop_stagger: Key<Duration> = or(Duration::ZERO),
        /// Criterion for fair sharing of endless transfers.
        converged: Below = table(&converged::ConvergedKeys::TABLE),
    }
}

pub(super) static BULK: Described = Described {
    keys: &[&NAMED, &BETWEEN, &COMMON, &TIMED, &TIMED_CONNECTIONS, &CONNECTIONS, &KEYS],
    read,
};

#[derive(Debug)]
struct Bulk {
    is_endless: bool,
}

fn read(entry: &EntryReader<'_>) -> Result<EntryParts, Error> {
    let reader = entry.reader;
    let is_endless = !reader.has(&KEYS.size);
    if !is_endless && reader.has(&KEYS.converged) {
        let why = "is only for transfers without size: leave \"size\" out";
        return Err(reader.error(&KEYS.converged, why));
    }
    let pairs = entry.repeated(&entry.pairs()?)?;
    let connections = Connections::read(
        entry,
        |_| Ok(Rounds::ONE),
        |reader| match is_endless {
            true => Ok(vec![Traffic::Bulk { bytes: None }]),
            false => incast::read_sizes(reader),
        },
    )?;
    let kind = if is_endless { Kind::Endless } else { Kind::Bulk };
    let pattern = Arc::new(Bulk { is_endless });
    Ok(EntryParts { kind, pairs, connections: Some(connections), pattern })
}

impl Pattern for Bulk {
    fn last_start(&self, entry: &TrafficSpec) -> Option<Duration> {
        entry.last_start_of_pairs().filter(|_| !self.is_endless)
    }

    fn build(&self, entry: &TrafficSpec, in_run: &EntryInRun, run: &mut Run) {
        entry.connect(in_run, run);
    }

    fn measure(&self, measured: &mut Measured, group: &Group<'_>) {
        if !self.is_endless {
            group.measure_transfers(measured);
            return;
        }
        let facts = group.facts;
        let rule = group.entries.iter().find_map(|(_, entry)| entry.converged());
        let Some((rule, period)) = rule.zip(facts.goodput_period) else { return };
        let time = rule.time(period, facts.run, facts.outcome, &group.members);
        time.iter().for_each(|time| measured.record_time(M::Convergence, *time));
        let has_converged = matches!(time, Some(Known::Took(_)));
        measured.record(M::Unfinished, u64::from(!has_converged));
    }
}
