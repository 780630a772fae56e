//! Failures of code from users' files, in one sentence: the file, operation, line, flow and time.

use std::fmt;
use std::path::Path;

use super::guard::{Code, MOST_CPU_S};
use super::{Module, line};

/// The sentence about a failed call. The run cannot continue: [`crate::Instance`] unwinds with this
/// value, and the function that carries out runs catches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(String);

impl Fault {
    /// Extracts the fault from a panic's payload.
    ///
    /// # Errors
    /// The payload itself if it is not a fault.
    pub fn of(
        panic: Box<dyn std::any::Any + Send>,
    ) -> Result<Fault, Box<dyn std::any::Any + Send>> {
        panic.downcast::<Fault>().map(|fault| *fault)
    }

    /// Returns the sentence without the file's name, for callers that have already printed it.
    pub(super) fn said(&self, path: &Path) -> String {
        let name = format!("{}: ", path.display());
        self.0.strip_prefix(&name).unwrap_or(&self.0).to_owned()
    }

    /// Unwinds out of the run.
    pub(crate) fn unwind(self) -> ! {
        std::panic::resume_unwind(Box::new(self))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Fault {}

/// Flow number of a call that belongs to no connection.
pub(crate) const NO_FLOW: u32 = u32::MAX;

/// The call during which a fault occurs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// A member of `tcp_congestion_ops`, or another function of the file.
    pub(crate) operation: &'static &'static str,
    /// Number of the socket: twice the flow's number, plus 1 for the listening side. Or
    /// [`NO_FLOW`].
    pub(crate) flow: u32,
    /// Simulated time in ns.
    pub(crate) at_ns: u64,
}

/// The cause of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    Loop,
    Division,
    Trap,
    Abort,
    Stack,
    Memory {
        address: usize,
    },
    /// A condition of the file or of the contract does not hold.
    Said(String),
    /// The call returned, and the simulator panicked afterwards. Holds the panic's message.
    Simulator(String),
    /// Bytes before or after the private area have changed.
    Outside {
        is_before: bool,
        /// The memory next to which the code wrote.
        what: &'static str,
        bytes: u32,
    },
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Loop => write!(f, "has not returned after {MOST_CPU_S} s of CPU time: an endless loop"),
            Cause::Division => f.write_str("divided by zero"),
            Cause::Trap => f.write_str(
                "ran into a trap, which the compiler puts where C has no meaning (a division by a constant zero, a null pointer, a missing return)",
            ),
            Cause::Abort => f.write_str("ended the process, as the C library does where the memory of kmalloc is damaged"),
            Cause::Stack => f.write_str("used up the stack: recursion without end, or very large local variables"),
            Cause::Memory { address: 0..4096 } => f.write_str("followed a null pointer"),
            Cause::Memory { address } => write!(f, "read or wrote at {address:#x}, where it has no memory"),
            Cause::Said(said) => f.write_str(said),
            Cause::Simulator(said) => write!(
                f,
                "was the last call before the simulator could not go on, by values that the file left or by a bug of knee's: {said}"
            ),
            Cause::Outside { is_before, what, bytes } => {
                let side = if *is_before { "before the begin" } else { "behind the end" };
                write!(f, "wrote {side} of {what}, which has {bytes} bytes")
            }
        }
    }
}

impl Fault {
    /// Builds the sentence, with the line of the instruction at `pc`.
    pub(super) fn new(
        module: &Module,
        code: &Code,
        place: &Place,
        cause: &Cause,
        pc: Option<usize>,
    ) -> Fault {
        // A message that names its source file needs no line.
        let says_where = |said: &String| said.contains(".c:") || said.contains(".h:");
        let pc = pc.filter(|_| !matches!(cause, Cause::Said(said) if says_where(said)));
        let found = pc.and_then(|pc| line::of(module, code, pc));
        let found = found.map_or_else(String::new, |line| format!(" ({line})"));
        let path = module.path.display();
        Fault(format!("{path}: {} {cause}{found}{}", place.operation, place.words()))
    }
}

impl Place {
    /// Describes the flow and the time.
    fn words(&self) -> String {
        if self.flow == NO_FLOW {
            return String::new();
        }
        let side = if self.flow % 2 == 1 { " (listening side)" } else { "" };
        format!("; flow {}{side}, at {} of simulated time", self.flow / 2, seconds(self.at_ns))
    }
}

/// Formats a simulated time.
pub(crate) fn seconds(ns: u64) -> String {
    format!("{}.{:06} s", ns / 1_000_000_000, ns % 1_000_000_000 / 1000)
}
