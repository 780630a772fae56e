//! Carries out one run from beginning to end.

use std::io;
use std::time::Duration;

use knee_linux::Algorithms;
use knee_run::{Outcome, Run, RunOptions};
use knee_traffic::SideReport;

use crate::Error;
use crate::boot::{Guest, Left, boot};
use crate::captures;
use crate::guest::Records;
use crate::kernel::{Built, DEFAULT_HZ, PROGRAM};
use crate::outcome::assemble;
use crate::plan::Plan;

/// Options of runs.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The algorithms that names refer to: knee's or the kernel's.
    pub algorithms: Algorithms,
    /// Longest duration of a run, on the host's clock.
    pub limit: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options { algorithms: Algorithms::Ours, limit: Duration::from_secs(3600) }
    }
}

/// Returns the ticks per second of a run's hosts.
///
/// # Errors
/// Fails if hosts differ.
pub(crate) fn hz(run: &Run) -> Result<u32, Error> {
    let mut all = run.network.nodes.iter().filter_map(|node| Some((node, node.host.as_ref()?.hz)));
    let Some((_, hz)) = all.next() else { return Ok(DEFAULT_HZ) };
    match all.find(|(_, other)| *other != hz) {
        None => Ok(hz),
        Some((node, other)) => Err(Error::Refused(format!(
            "{}: hz = {other}, and {hz} on others: all hosts are one kernel; give all the same, or use --on sim",
            node.name
        ))),
    }
}

/// Carries out one run on a guest's kernel, in virtual time. Captures do not change the results.
///
/// # Errors
/// Fails if the kernel cannot do something, if the guest fails or hangs, if captures have no room, or if `stop` is
/// set.
pub fn run(
    run: &Run,
    kernel: &Built,
    options: &Options,
    ask: &RunOptions<'_>,
) -> Result<Outcome, Error> {
    let (plan, left) = carry_out(run, kernel, options, ask)?;
    let records = Records::read(&left.result)?;
    let failed = |side: &SideReport| Some((side.flow, side.error.clone()?));
    if let Some((flow, why)) = records.traffic.sides.iter().find_map(failed) {
        return Err(Error::Failed(format!("flow {flow}: {}", in_words(why))));
    }
    if let Some(dir) = ask.captures {
        captures::write(run, &left.read("captures")?, records.zero_ns, dir)?;
    }
    assemble(run, &plan, &records)
}

/// Carries out one run and returns the guest's console: what the kernel and the files in it print as errors (`pr_err`)
/// or above.
///
/// # Errors
/// As [`run`].
pub fn console(
    run: &Run,
    kernel: &Built,
    options: &Options,
    ask: &RunOptions<'_>,
) -> Result<String, Error> {
    let (_, left) = carry_out(run, kernel, options, ask)?;
    Ok(String::from_utf8_lossy(&left.read("console")?).into_owned())
}

/// Has a guest carry out one run.
fn carry_out(
    run: &Run,
    kernel: &Built,
    options: &Options,
    ask: &RunOptions<'_>,
) -> Result<(Plan, Left), Error> {
    let wanted = hz(run)?;
    if wanted != kernel.hz {
        return Err(Error::Failed(format!(
            "hosts.hz = {wanted}: the kernel in {} has {} ticks per second",
            kernel.directory.display(),
            kernel.hz
        )));
    }
    let mut plan = Plan::new(run, options.algorithms, &kernel.version)?;
    plan.orders.captures = ask.captures.is_some();
    let modules: Vec<Vec<u8>> =
        plan.files.iter().map(|file| file.module(kernel)).collect::<Result<_, Error>>()?;
    let paths = plan.orders.modules.iter().map(|order| order.path.as_str());
    let files: Vec<(&str, &[u8])> = paths.zip(modules.iter().map(Vec::as_slice)).collect();
    let left = boot(
        &Guest {
            kernel: &kernel.linux(),
            program: PROGRAM,
            orders: &plan.orders.to_bytes(),
            files: &files,
            arguments: &plan.kernel_arguments,
            seed: run.seed,
            limit: options.limit,
        },
        ask.stop,
    )?;
    Ok((plan, left))
}

/// Translates a guest's message: it gives the kernel's error as a number.
fn in_words(why: String) -> String {
    why.parse().map_or(why, |number| io::Error::from_raw_os_error(number).to_string())
}
