//! Traffic whose messages wait for each other: traces, collective operations and recorded jobs.

use std::sync::Arc;

use knee_file::{Error, Reader};
use knee_queue::time::Time;
use knee_run::spec::{Flow, NodeId, Schedule, Traffic};

use super::chakra::Chakra;
use super::collective::Collective;
use super::trace::Trace;
use crate::metric::Kind;
use crate::network::NetworkSpec;
use crate::random::Random;

/// Largest number of messages and computations of a run.
pub(crate) const MAX_TASKS: u64 = 2_000_000;

/// Whether messages of flows wait for each other.
pub(crate) fn has_jobs(kind: Kind) -> bool {
    matches!(kind, Kind::Trace | Kind::Collective | Kind::Chakra)
}

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

/// The messages of an entry.
#[derive(Clone, Debug)]
pub(crate) enum Jobs {
    Trace(Arc<Trace>),
    Collective(Arc<Collective>),
    Chakra(Arc<Chakra>),
}

/// An entry in a run.
pub(crate) struct Job {
    /// Number of the entry.
    pub(crate) number: u32,
    /// Number of its first flow.
    pub(crate) first: u32,
    pub(crate) start: Time,
}

impl Jobs {
    /// Reads the keys of such an entry. Also returns the hosts of each connection.
    pub(crate) fn read(
        reader: &Reader<'_>,
        kind: Kind,
        network: &NetworkSpec,
    ) -> Result<(Vec<(NodeId, NodeId)>, Jobs), Error> {
        if kind == Kind::Trace {
            let trace = Trace::read(reader, network)?;
            return Ok((trace.pairs().to_vec(), Jobs::Trace(Arc::new(trace))));
        }
        if kind == Kind::Chakra {
            let chakra = Chakra::read(reader, network)?;
            return Ok((chakra.pairs().to_vec(), Jobs::Chakra(Arc::new(chakra))));
        }
        let collective = Collective::read(reader, network)?;
        Ok((collective.pairs(), Jobs::Collective(Arc::new(collective))))
    }

    /// Returns the bytes of each connection.
    pub(crate) fn traffic(&self) -> Arc<[Traffic]> {
        let all = match self {
            Jobs::Trace(trace) => trace.bytes(),
            Jobs::Collective(collective) => collective.bytes(),
            Jobs::Chakra(chakra) => chakra.bytes(),
        };
        all.into_iter().map(|bytes| Traffic::Bulk { bytes: Some(bytes) }).collect()
    }

    /// Returns the smallest and the largest transfer, if each has its own connection.
    pub(crate) fn sizes(&self) -> Option<(u64, u64)> {
        match self {
            Jobs::Trace(trace) => trace.sizes(),
            Jobs::Collective(_) | Jobs::Chakra(_) => None,
        }
    }

    /// Returns the number of messages and computations.
    pub(crate) fn tasks(&self) -> u64 {
        match self {
            Jobs::Trace(trace) => trace.tasks(),
            Jobs::Collective(collective) => collective.tasks(),
            Jobs::Chakra(chakra) => chakra.tasks(),
        }
    }

    /// Adds the messages of the entry's flows to the run.
    pub(crate) fn arrange(
        &self,
        flows: &mut [Flow],
        job: &Job,
        random: Random,
        schedule: &mut Schedule,
    ) {
        match self {
            Jobs::Trace(trace) => trace.arrange(flows, job, schedule),
            Jobs::Collective(collective) => collective.arrange(job, random, schedule),
            Jobs::Chakra(chakra) => chakra.arrange(job, schedule),
        }
    }
}
