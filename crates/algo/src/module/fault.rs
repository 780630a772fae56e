//! How code of a file fails, in one sentence: which file, operation and line, in which flow and when.

use std::fmt;
use std::path::Path;

use super::guard::{Code, MOST_CPU_S};
use super::{Module, line};

/// The sentence about a call that failed. The run that it belongs to cannot go on: [`crate::Instance`] unwinds with it, and whoever
/// carries out runs catches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(String);

impl Fault {
    /// What a panic holds, if it is one of these.
    ///
    /// # Errors
    /// The same if it is none.
    pub fn of(
        panic: Box<dyn std::any::Any + Send>,
    ) -> Result<Fault, Box<dyn std::any::Any + Send>> {
        panic.downcast::<Fault>().map(|fault| *fault)
    }

    /// Without the file's name, which whoever says it has said.
    pub(super) fn said(&self, path: &Path) -> String {
        let name = format!("{}: ", path.display());
        self.0.strip_prefix(&name).unwrap_or(&self.0).to_owned()
    }

    /// Leaves the run.
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

/// Nothing of a connection.
pub(crate) const NO_FLOW: u32 = u32::MAX;

/// Which call it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// A member of `tcp_congestion_ops`, or another function of the file.
    pub(crate) operation: &'static &'static str,
    /// The socket: twice the flow's number, and 1 for the listening side; or none.
    pub(crate) flow: u32,
    /// Simulated time.
    pub(crate) at_ns: u64,
}

/// What happened.
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
    /// A condition of the file's own or of the contract's does not hold.
    Said(String),
    /// It returned, and the simulator could not go on: what that said.
    Simulator(String),
    /// Bytes before the private area, or behind it, are not what they were.
    Outside {
        is_before: bool,
        /// The memory beside which it wrote.
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
    /// The sentence, with the line of the instruction at `pc`.
    pub(super) fn new(
        module: &Module,
        code: &Code,
        place: &Place,
        cause: &Cause,
        pc: Option<usize>,
    ) -> Fault {
        // What says where it stopped needs no line.
        let says_where = |said: &String| said.contains(".c:") || said.contains(".h:");
        let pc = pc.filter(|_| !matches!(cause, Cause::Said(said) if says_where(said)));
        let found = pc.and_then(|pc| line::of(module, code, pc));
        let found = found.map_or_else(String::new, |line| format!(" ({line})"));
        let path = module.path.display();
        Fault(format!("{path}: {} {cause}{found}{}", place.operation, place.words()))
    }
}

impl Place {
    /// Of which flow, and when.
    fn words(&self) -> String {
        if self.flow == NO_FLOW {
            return String::new();
        }
        let side = if self.flow % 2 == 1 { " (listening side)" } else { "" };
        format!("; flow {}{side}, at {} of simulated time", self.flow / 2, seconds(self.at_ns))
    }
}

/// A simulated time as it is shown.
pub(crate) fn seconds(ns: u64) -> String {
    format!("{}.{:06} s", ns / 1_000_000_000, ns % 1_000_000_000 / 1000)
}
