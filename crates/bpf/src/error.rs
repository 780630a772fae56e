use std::fmt;

/// Why something could not be done in the kernel.
#[derive(Debug)]
pub enum Error {
    /// There is no BPF object of this algorithm.
    NotBuilt {
        /// The algorithm asked for.
        algorithm: String,
    },
    /// The kernel cannot take this name.
    BadName {
        /// The name given.
        name: String,
    },
    /// The parameters are not those of the object.
    BadParams {
        /// The algorithm.
        algorithm: String,
        /// How many parameters the object has.
        expected: usize,
        /// How many were given.
        given: usize,
    },
    /// The algorithm needs what this kernel does not have.
    Lacks {
        /// The algorithm.
        algorithm: String,
        /// What it needs.
        what: String,
        /// The first version of Linux that has it.
        since: crate::Version,
        /// The running kernel's release.
        release: String,
    },
    /// It takes more rights.
    NotPermitted {
        /// What was to be done.
        what: &'static str,
        /// The capabilities for it.
        needs: &'static str,
    },
    /// The kernel is set such that it does not take the algorithm.
    Closed {
        /// The algorithm.
        algorithm: String,
        /// What is set.
        why: &'static str,
        /// How to change it.
        remedy: &'static str,
    },
    /// The kernel refused the programs.
    Load {
        /// The algorithm.
        algorithm: String,
        /// What the kernel answered.
        source: libbpf_rs::Error,
        /// What libbpf and the verifier said.
        log: String,
    },
    /// The kernel refused to register the algorithm.
    Register {
        /// The name it should have had.
        name: String,
        /// What the kernel answered.
        source: libbpf_rs::Error,
    },
    /// The kernel's account of a loaded object could not be read.
    Inspect {
        /// What was wanted.
        what: &'static str,
        /// What the kernel answered.
        source: libbpf_rs::Error,
    },
    /// An object, or a record of it, is not as this library was built to read it.
    BadObject {
        /// What is wrong with it.
        what: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotBuilt { algorithm } if crate::Embedded::all().is_empty() => {
                write!(f, "{algorithm} is not in this knee: it was built without clang")
            }
            Error::NotBuilt { algorithm } => {
                let known: Vec<_> = crate::Embedded::all().iter().map(|e| e.name()).collect();
                write!(f, "no BPF object of \"{algorithm}\"; there are {}", known.join(", "))
            }
            Error::BadName { name } => {
                write!(f, "\"{name}\" cannot name an algorithm: 1 to 15 of a-z, A-Z, 0-9, _ and -")
            }
            Error::BadParams { algorithm, expected, given } => {
                write!(f, "{algorithm} has {expected} parameters, {given} were given")
            }
            Error::Lacks { algorithm, what, since: (major, minor), release } => {
                write!(
                    f,
                    "{algorithm} needs {what}, which Linux has from {major}.{minor} on; this is {release}"
                )
            }
            Error::NotPermitted { what, needs } => {
                write!(f, "{what} takes {needs}: run it as root of the host, with sudo")
            }
            Error::Closed { algorithm, why, remedy } => {
                write!(f, "the kernel does not take {algorithm}, as {why}: {remedy}")
            }
            Error::Load { algorithm, source, log } => {
                write!(f, "the kernel does not take {algorithm}: {source}")?;
                if log.is_empty() { Ok(()) } else { write!(f, "\n{}", log.trim_end()) }
            }
            Error::Register { name, source }
                if source.kind() == libbpf_rs::ErrorKind::AlreadyExists =>
            {
                write!(f, "an algorithm named \"{name}\" is registered already")
            }
            Error::Register { name, source } => {
                write!(f, "the kernel does not register \"{name}\": {source}")
            }
            Error::Inspect { what, source } => write!(f, "cannot read {what}: {source}"),
            Error::BadObject { what } => write!(f, "unreadable object or record: {what}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Load { source, .. }
            | Error::Register { source, .. }
            | Error::Inspect { source, .. } => Some(source),
            _ => None,
        }
    }
}
