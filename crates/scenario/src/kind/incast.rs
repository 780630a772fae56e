//! `kind = "incast"`: transfers at once, in rounds.

use std::sync::Arc;

use knee_file::keys::{Key, List};
use knee_file::units::Size;
use knee_file::{Error, Reader, keys};
use knee_queue::time::Duration;
use knee_run::spec::{Run, Traffic};

use super::connections::{CONNECTIONS, Connections, Rounds, TIMED_CONNECTIONS};
use super::pairs::BETWEEN;
use super::{
    COMMON, Described, EntryInRun, EntryParts, EntryReader, Group, MAX_FLOWS, NAMED, Pattern, TIMED,
};
use super::{TrafficSpec, rounds};
use crate::metric::{Kind, Measured};

keys! {
    /// Transfers at once, in rounds.
    pub(super) static KEYS: IncastKeys = "incast" {
        /// Transfer size, or one per flow.
        size: Key<List<Size>> = needed("10 kB"),
        /// Rounds, on new connections.
        rounds: Key<u64> = or(1).within(1, MAX_FLOWS),
        /// Time between rounds.
        every: Key<Duration> = usually("after the previous one"),
        /// Each of `from` sends to each other of `to`.
        all_to_all: Key<bool> = or(false),
    }
}

pub(super) static INCAST: Described = Described {
    keys: &[&NAMED, &BETWEEN, &COMMON, &TIMED, &TIMED_CONNECTIONS, &CONNECTIONS, &KEYS],
    read,
};

#[derive(Debug)]
struct Incast;

fn read(entry: &EntryReader<'_>) -> Result<EntryParts, Error> {
    let are_per_target = entry.reader.read(&KEYS.all_to_all)?;
    let pairs = if are_per_target { entry.all_pairs()? } else { entry.pairs()? };
    let pairs = entry.repeated(&pairs)?;
    let rounds = |reader: &Reader<'_>| {
        let count = reader.read(&KEYS.rounds)?;
        let every = reader.get(&KEYS.every)?;
        let wait = count > 1 && every.is_none();
        Ok(Rounds { count, every: every.unwrap_or(Duration::ZERO), wait, are_per_target })
    };
    let connections = Some(Connections::read(entry, rounds, read_sizes)?);
    Ok(EntryParts { kind: Kind::Incast, pairs, connections, pattern: Arc::new(Incast) })
}

/// Reads the sizes of transfers.
pub(super) fn read_sizes(reader: &Reader<'_>) -> Result<Vec<Traffic>, Error> {
    let sizes = reader.list(&KEYS.size)?;
    let sizes = sizes.ok_or_else(|| reader.missing(&KEYS.size, "\"10 kB\""))?;
    Ok(sizes.iter().map(|size| Traffic::Bulk { bytes: Some(size.0) }).collect())
}

impl Pattern for Incast {
    fn build(&self, entry: &TrafficSpec, in_run: &EntryInRun, run: &mut Run) {
        let first = entry.connect(in_run, run);
        rounds::arrange(entry, first, run);
    }

    fn measure(&self, measured: &mut Measured, group: &Group<'_>) {
        group.measure_transfers(measured);
        rounds::measure(measured, group);
    }
}
