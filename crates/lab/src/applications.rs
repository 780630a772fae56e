//! Refusal of applications that neither the lab nor real machines can run.

use knee_linux::algorithms::check_ports;
use knee_run::Run;

use crate::Error;

/// Flows that can each have a port of their own.
const MAX_FLOWS: usize = 30_000;

/// Refuses traffic that real time cannot carry.
///
/// # Errors
/// If there are more flows than ports, or attempts to connect.
pub(crate) fn check(run: &Run) -> Result<(), Error> {
    check_ports(run, MAX_FLOWS)?;
    if run.flows.iter().any(|flow| flow.first_write.is_some_and(|at| at > run.end)) {
        return Err(Error::Refused(
            "attempts to connect: the lab does not measure when connections are established; use --on sim".to_owned(),
        ));
    }
    Ok(())
}
