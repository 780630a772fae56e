//! What of a run's applications the lab and machines cannot do.

use knee_linux::algorithms::check_ports;
use knee_run::Run;

use crate::Error;

/// Flows that can each have a port of their own.
const MAX_FLOWS: usize = 30_000;

/// Refuses it.
///
/// # Errors
/// More flows than there are ports, and what nobody measures.
pub(crate) fn check(run: &Run) -> Result<(), Error> {
    check_ports(run, MAX_FLOWS)?;
    if run.flows.iter().any(|flow| flow.first_write.is_some_and(|at| at > run.end)) {
        return Err(Error::Refused(
            "attempts to connect: the lab does not measure when connections come about; use --on sim".to_owned(),
        ));
    }
    Ok(())
}
