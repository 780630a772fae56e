use std::fmt;
use std::path::PathBuf;

use knee_units::LinuxVersion;

/// The reason why an operation in the kernel failed.
#[derive(Debug)]
pub enum Error {
    /// No BPF object of this algorithm exists.
    NotBuilt {
        /// The requested algorithm.
        algorithm: String,
        /// The available algorithms; empty if knee was built without clang.
        known: Vec<&'static str>,
    },
    /// A file that the user named as an algorithm cannot be one.
    Outside {
        path: PathBuf,
        /// The reason, in the compiler's words where it gives one, and the remedy.
        what: String,
    },
    /// The kernel cannot take this name.
    BadName {
        /// The given name.
        name: String,
    },
    /// The parameters do not match those of the object.
    BadParams {
        algorithm: String,
        /// The number of parameters in the object.
        expected: usize,
        given: usize,
    },
    /// This kernel lacks a feature that the algorithm needs.
    Lacks {
        algorithm: String,
        /// The missing feature.
        what: String,
        /// The first version of Linux that has it.
        since: LinuxVersion,
        /// The running kernel's release.
        release: String,
    },
    /// The process lacks a capability.
    NotPermitted {
        /// The operation that failed.
        what: &'static str,
        /// The capabilities that it needs.
        needs: &'static str,
    },
    /// A setting of the kernel keeps the algorithm out.
    Closed {
        algorithm: String,
        /// The setting.
        why: &'static str,
        /// How to change it.
        remedy: &'static str,
    },
    /// The kernel refused the programs.
    Load {
        algorithm: String,
        /// The kernel's answer.
        source: libbpf_rs::Error,
        /// The messages of libbpf and the verifier.
        log: String,
    },
    /// The `module_init` of a Linux module's source cannot run, or returned an error.
    Init {
        algorithm: String,
        /// The reason.
        why: String,
    },
    /// The kernel refused to register the algorithm.
    Register {
        /// The name to register.
        name: String,
        /// The kernel's answer.
        source: libbpf_rs::Error,
    },
    /// An algorithm of this name is registered, and `load` must not replace it.
    NameTaken {
        name: String,
        /// Whether a trial holds the name.
        on_trial: bool,
    },
    /// A trial wants a name under which an algorithm is loaded permanently.
    LoadedAlready { name: String },
    /// Another algorithm is loaded under this name.
    OtherAlgorithm { name: String, algorithm: String },
    /// An algorithm of the same name is loaded from another file.
    OtherFile {
        name: String,
        /// The file of the loaded algorithm; `None` for one of knee's own.
        path: Option<PathBuf>,
    },
    /// The request would give an algorithm that needs ECN to connections that may leave the data
    /// center.
    MeetsInternet { algorithm: String },
    /// A command that worked on this name was interrupted.
    CutShort { name: String },
    /// Knee has loaded nothing under this name.
    NotLoaded {
        name: String,
        /// Whether someone else has registered an algorithm of this name.
        registered: bool,
        /// The names under which knee has loaded the algorithm that is called so.
        loaded_as: Vec<String>,
    },
    /// The kernel still has the name after knee undid everything that it knows of.
    StillRegistered { name: String },
    /// `knee load` registered the algorithm, and its pin is not in this mount namespace, or a process
    /// keeps it.
    PinnedElsewhere { name: String },
    /// No trial of this name, or no trial at all, waits for confirmation.
    NoTrial { name: Option<String> },
    /// More than one trial waits for confirmation.
    WhichTrial { names: Vec<String> },
    /// No BPF file system is mounted.
    NoBpffs,
    /// The path named as the BPF file system is not one.
    NotBpffs {
        /// The directory.
        path: PathBuf,
    },
    /// A BPF file system that knee mounts here would be invisible outside of this mount namespace.
    PrivateMounts,
    /// Users other than root may be able to change the pins or the journal.
    Untrusted {
        /// The file or directory that they can change.
        path: PathBuf,
        /// The path's user and mode; `None` if it is not a directory.
        owner: Option<(u32, u32)>,
    },
    /// A pin cannot be made or opened.
    Pin {
        path: PathBuf,
        /// The kernel's answer.
        source: libbpf_rs::Error,
    },
    /// Another command holds the lock.
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// A file could not be read or written.
    File {
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The kernel's information about a loaded object could not be read.
    Inspect {
        /// The requested information.
        what: &'static str,
        /// The kernel's answer.
        source: libbpf_rs::Error,
    },
    /// The kernel has no congestion control of this name.
    NoSuchAlgorithm {
        /// The given name.
        name: String,
        known: Vec<String>,
    },
    /// Some information about the host could not be read.
    Read {
        /// The requested information.
        what: &'static str,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// The rules cannot be applied.
    Policy {
        /// The fault, and the remedy.
        what: String,
    },
    /// Flow labels cannot be written, or removed, at the requested place.
    Labels {
        /// The reason, and the remedy.
        what: String,
    },
    /// A part of the host's state could not be read or changed.
    Host {
        /// The operation that failed, and the remedy where there is one.
        what: String,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// Another process records the calls of this algorithm.
    Traced {
        /// The algorithm's name.
        name: String,
        process: u64,
    },
    /// Another process has taken over a recording, because this one was silent for too long.
    TakenOver {
        /// The algorithm's name.
        name: String,
    },
    /// An object, or a record of it, does not have the layout that this library was built for.
    BadObject {
        /// The difference.
        what: String,
    },
}

impl Error {
    /// The unchanged messages of libbpf and the verifier; empty if there are none.
    pub fn log(&self) -> &str {
        match self {
            Error::Load { log, .. } => log.trim_end(),
            _ => "",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotBuilt { algorithm, known } if known.is_empty() => {
                write!(f, "{algorithm} is not in this knee: it was built without clang")
            }
            Error::NotBuilt { algorithm, known } => {
                write!(f, "no BPF object of \"{algorithm}\"; there are {}", known.join(", "))
            }
            Error::Outside { path, what } => write!(f, "{}: {what}", path.display()),
            Error::BadName { name } => {
                write!(f, "\"{name}\" cannot name an algorithm: 1 to 15 of a-z, A-Z, 0-9, _ and -")
            }
            Error::BadParams { algorithm, expected, given } => {
                write!(f, "{algorithm} has {expected} parameters, {given} were given")
            }
            Error::Lacks { algorithm, what, since, release } => {
                write!(
                    f,
                    "{algorithm} needs {what}, which takes Linux {since} or later; this is {release}"
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
                if log.is_empty() { Ok(()) } else { f.write_str(" (-v shows its words)") }
            }
            Error::Init { algorithm, why } => {
                write!(f, "{algorithm} is not registered: its module_init {why}")
            }
            Error::Register { name, source }
                if source.kind() == libbpf_rs::ErrorKind::AlreadyExists =>
            {
                write!(f, "an algorithm named \"{name}\" is registered already")
            }
            Error::Register { name, source } => {
                write!(f, "the kernel does not register \"{name}\": {source}")
            }
            Error::NameTaken { name, on_trial: true } => {
                write!(f, "\"{name}\" is on trial: knee confirm {name}, or knee unload {name}")
            }
            Error::NameTaken { name, on_trial: false } => write!(
                f,
                "an algorithm named \"{name}\" is registered already, and not by knee load: choose \
                 another name with --as"
            ),
            Error::LoadedAlready { name } => write!(
                f,
                "\"{name}\" is loaded for good: try this under another name with --as, or load it \
                 without --confirm-within"
            ),
            Error::OtherAlgorithm { name, algorithm } => write!(
                f,
                "\"{name}\" is {algorithm}: choose another name with --as, or knee unload {name} first"
            ),
            Error::OtherFile { name, path } => {
                let of = path.as_ref().map_or("knee".into(), |path| path.display().to_string());
                write!(
                    f,
                    "\"{name}\" is loaded of {of}: choose another name with --as, or knee unload {name} first"
                )
            }
            Error::MeetsInternet { algorithm } => write!(
                f,
                "--default and --cgroup give {algorithm} to connections that leave the data center, too, \
                 where its marks mean something else (RFC 8257, section 5): knee policy apply gives it \
                 to some prefixes only, --i-know does it all the same"
            ),
            Error::CutShort { name } => write!(
                f,
                "a command that loaded or unloaded \"{name}\" was cut short: knee unload {name} first"
            ),
            Error::NotLoaded { name, loaded_as, .. } if !loaded_as.is_empty() => write!(
                f,
                "nothing named \"{name}\" is loaded; the algorithm {name} is loaded as {}: knee unload {}",
                loaded_as.join(", "),
                loaded_as[0]
            ),
            Error::NotLoaded { name, registered: true, .. } => {
                write!(
                    f,
                    "\"{name}\" was not loaded by knee load: whoever registered it has to remove it"
                )
            }
            Error::NotLoaded { name, registered: false, .. } => {
                write!(f, "nothing named \"{name}\" is loaded: see knee status")
            }
            Error::StillRegistered { name } => write!(
                f,
                "\"{name}\" is still registered, though nothing that knee knows of keeps it: another \
                 process or another BPF file system holds a link to it (bpftool link show)"
            ),
            Error::PinnedElsewhere { name } => write!(
                f,
                "\"{name}\" was loaded in another mount namespace, or with another KNEE_RUN_DIR or \
                 KNEE_BPFFS: its pin is not here. Run it there, as nsenter --mount --target 1 knee \
                 unload {name}. Nothing was changed"
            ),
            Error::NoTrial { name: Some(name) } => {
                write!(f, "there is no trial of \"{name}\" (any more): see knee status")
            }
            Error::NoTrial { name: None } => {
                f.write_str("there is no trial to confirm: see knee status")
            }
            Error::WhichTrial { names } => {
                write!(f, "several are on trial, say which to confirm: {}", names.join(", "))
            }
            Error::NoBpffs => f.write_str(
                "no BPF file system is mounted to keep it in: mount -t bpf -o mode=0700 bpf /sys/fs/bpf",
            ),
            Error::NotBpffs { path } => write!(
                f,
                "KNEE_BPFFS: {} is not a BPF file system: mount -t bpf -o mode=0700 bpf DIRECTORY",
                path.display()
            ),
            Error::PrivateMounts => f.write_str(
                "no BPF file system is mounted, and this is a private mount namespace: one that knee \
                 mounts here would vanish with it, and every algorithm too. Run knee in the host's: \
                 nsenter --net=/run/netns/NAME knee ... (not ip netns exec). Or mount one on the host \
                 first: mount -t bpf -o mode=0700 bpf /sys/fs/bpf",
            ),
            Error::Untrusted { path, owner: Some((user, mode)) } => write!(
                f,
                "{} belongs to user {user} (mode {mode:04o}): other users could change what knee loads. \
                 chown root and chmod go-w it, or set KNEE_RUN_DIR or KNEE_BPFFS (docs/load.md)",
                path.display()
            ),
            Error::Untrusted { path, owner: None } => write!(
                f,
                "{} is not a directory: remove it, or set KNEE_RUN_DIR or KNEE_BPFFS (docs/load.md)",
                path.display()
            ),
            Error::Pin { path, source } => write!(f, "{}: {source}", path.display()),
            Error::Locked { path } => write!(
                f,
                "another knee command is changing this host and has not finished: {} is locked \
                 (fuser -v shows by whom)",
                path.display()
            ),
            Error::File { path, source } => write!(f, "{}: {source}", path.display()),
            Error::Inspect { what, source } => write!(f, "cannot read {what}: {source}"),
            Error::NoSuchAlgorithm { name, known } => write!(
                f,
                "no algorithm named \"{name}\" is registered: load it first (knee load), or choose \
                 one of {}",
                known.join(", ")
            ),
            Error::Read { what, source } => write!(f, "cannot read {what}: {source}"),
            Error::Policy { what } | Error::Labels { what } => f.write_str(what),
            Error::Host { what, source } => write!(f, "{what}: {source}"),
            Error::Traced { name, process } => {
                write!(f, "\"{name}\" is being traced already, by process {process}")
            }
            Error::TakenOver { name } => write!(
                f,
                "the trace of \"{name}\" was taken over by another process, because this one stood \
                 still for too long"
            ),
            Error::BadObject { what } => write!(f, "unreadable object or record: {what}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Load { source, .. }
            | Error::Register { source, .. }
            | Error::Pin { source, .. }
            | Error::Inspect { source, .. } => Some(source),
            Error::File { source, .. }
            | Error::Read { source, .. }
            | Error::Host { source, .. } => Some(source),
            _ => None,
        }
    }
}
