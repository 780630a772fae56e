//! Traffic whose messages wait for each other: traces, collective operations and recorded jobs.

use std::sync::Arc;

use knee_file::{Error, Reader};
use knee_queue::time::Time;
use knee_run::spec::{NodeId, Traffic};

use super::connections::Connections;
use super::{EntryInRun, EntryParts, Pattern, TrafficSpec};
use crate::metric::Kind;

/// Largest number of messages and computations of a run.
pub(super) const MAX_TASKS: u64 = 2_000_000;

/// Refuses too many messages and computations, by their numbers in all entries.
pub(super) fn check_tasks(
    root: &Reader<'_>,
    tasks: impl Iterator<Item = u64>,
) -> Result<(), Error> {
    let tasks = tasks.fold(0, u64::saturating_add);
    if tasks <= MAX_TASKS {
        return Ok(());
    }
    let message =
        format!("must be at most {MAX_TASKS} messages and computations in all, not {tasks}");
    Err(root.error("traffic", message))
}

/// Returns an entry whose connections carry so many bytes each, in all of its messages.
pub(super) fn parts(
    kind: Kind,
    mut connections: Connections,
    (pairs, bytes): (Vec<(NodeId, NodeId)>, Vec<u64>),
    pattern: impl Pattern + 'static,
) -> EntryParts {
    let traffic = bytes.into_iter().map(|bytes| Traffic::Bulk { bytes: Some(bytes) });
    connections.traffic = traffic.collect();
    EntryParts { kind, pairs, connections: Some(connections), pattern: Arc::new(pattern) }
}

/// An entry in a run.
pub(super) struct Job {
    /// Number of the entry.
    pub(super) number: u32,
    /// Number of its first flow.
    pub(super) first: u32,
    pub(super) start: Time,
}

impl Job {
    /// Returns the entry's job, whose first flow has this number.
    pub(super) fn of(entry: &TrafficSpec, in_run: &EntryInRun, first: usize) -> Job {
        Job { number: in_run.entry as u32, first: first as u32, start: Time::ZERO + entry.start }
    }
}
