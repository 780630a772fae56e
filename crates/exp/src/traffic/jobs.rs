//! Traffic whose messages wait for each other: traces and collective operations.

use std::sync::Arc;

use knee_file::{Error, Reader};
use knee_queue::time::Time;
use knee_run::spec::{Flow, NodeId, Schedule, Traffic};

use super::collective::Collective;
use super::trace::Trace;
use crate::metric::Kind;
use crate::network::NetworkSpec;
use crate::random::Random;

/// Largest number of messages and computations of a run.
pub(crate) const MAX_TASKS: u64 = 2_000_000;

/// The messages of an entry.
#[derive(Clone, Debug)]
pub(crate) enum Jobs {
    Trace(Arc<Trace>),
    Collective(Arc<Collective>),
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
        let collective = Collective::read(reader, network)?;
        Ok((collective.pairs(), Jobs::Collective(Arc::new(collective))))
    }

    /// Returns the bytes of each connection.
    pub(crate) fn traffic(&self) -> Arc<[Traffic]> {
        let all = match self {
            Jobs::Trace(trace) => trace.bytes(),
            Jobs::Collective(collective) => collective.bytes(),
        };
        all.into_iter().map(|bytes| Traffic::Bulk { bytes: Some(bytes) }).collect()
    }

    /// Returns the smallest and the largest transfer, if each has its own connection.
    pub(crate) fn sizes(&self) -> Option<(u64, u64)> {
        match self {
            Jobs::Trace(trace) => trace.sizes(),
            Jobs::Collective(_) => None,
        }
    }

    /// Returns the number of messages and computations.
    pub(crate) fn tasks(&self) -> u64 {
        match self {
            Jobs::Trace(trace) => trace.tasks(),
            Jobs::Collective(collective) => collective.tasks(),
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
        }
    }
}
