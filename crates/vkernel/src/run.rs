//! One run from beginning to end.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use knee_run::{Outcome, Run};

use crate::Error;
use crate::boot::{Guest, boot};
use crate::captures;
use crate::guest::Records;
use crate::kernel::{Built, DEFAULT_HZ};
use crate::outcome::assemble;
use crate::plan::{Algorithms, Plan};

/// How runs take place.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whose algorithms names mean.
    pub algorithms: Algorithms,
    /// So long a run may take, of the host's time.
    pub limit: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options { algorithms: Algorithms::Ours, limit: Duration::from_secs(3600) }
    }
}

/// Ticks per second of a run's hosts.
///
/// # Errors
/// If they are not the same on all.
pub fn hz(run: &Run) -> Result<u32, Error> {
    let mut all = run.network.nodes.iter().filter_map(|node| Some((node, node.host.as_ref()?.hz)));
    let Some((_, hz)) = all.next() else { return Ok(DEFAULT_HZ) };
    match all.find(|(_, other)| *other != hz) {
        None => Ok(hz),
        Some((node, other)) => Err(Error(format!(
            "{}: hz = {other}, and {hz} on others: all hosts are one kernel; give all the same, or use --on sim",
            node.name
        ))),
    }
}

/// Carries out one run on a guest's kernel, in virtual time.
///
/// # Errors
/// What the kernel cannot do, a guest that fails or hangs, and a `stop` that was set, each in one sentence.
pub fn run(
    run: &Run,
    kernel: &Built,
    options: &Options,
    stop: &AtomicBool,
) -> Result<Outcome, Error> {
    carry_out(run, kernel, options, (stop, None))
}

/// As [`run`](fn@run), and writes what each host sends and receives to `HOST.pcapng` ([`knee_wire::host`]) in a directory that
/// is there. What comes of the run is the same.
///
/// # Errors
/// As [`run`](fn@run), and captures that have no room.
pub fn run_captured(
    run: &Run,
    kernel: &Built,
    options: &Options,
    (stop, dir): (&AtomicBool, &Path),
) -> Result<Outcome, Error> {
    carry_out(run, kernel, options, (stop, Some(dir)))
}

fn carry_out(
    run: &Run,
    kernel: &Built,
    options: &Options,
    (stop, captures): (&AtomicBool, Option<&Path>),
) -> Result<Outcome, Error> {
    let wanted = hz(run)?;
    if wanted != kernel.hz {
        return Err(Error(format!(
            "hosts.hz = {wanted}: the kernel in {} has {} ticks per second",
            kernel.directory.display(),
            kernel.hz
        )));
    }
    let mut plan = Plan::new(run, options.algorithms, &kernel.version)?;
    plan.orders.captures = captures.is_some();
    let left = boot(
        &Guest {
            kernel: &kernel.linux(),
            program: &kernel.program(),
            orders: &plan.orders.to_bytes(),
            arguments: &plan.kernel_arguments,
            seed: run.seed,
            limit: options.limit,
        },
        stop,
    )?;
    let records = Records::read(&left.result, plan.hosts.len())?;
    if let Some(failed) = records.sides.iter().find(|side| side.error.is_some()) {
        let why = failed.error.as_deref().unwrap_or_default();
        return Err(Error(format!("flow {}: {why}", failed.flow)));
    }
    if let Some(dir) = captures {
        captures::write(run, &left.read("captures")?, records.zero_ns, dir)?;
    }
    assemble(run, &plan, &records)
}
