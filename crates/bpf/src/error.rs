use std::fmt;
use std::path::PathBuf;

/// Why something could not be done in the kernel.
#[derive(Debug)]
pub enum Error {
    /// There is no BPF object of this algorithm.
    NotBuilt {
        /// The algorithm asked for.
        algorithm: String,
        /// Those that there are; none if there was no clang when knee was built.
        known: Vec<&'static str>,
    },
    /// A file that was named as an algorithm cannot be one.
    Outside {
        path: PathBuf,
        /// Why, in the compiler's words where these say it, and the way out.
        what: String,
    },
    /// The kernel cannot take this name.
    BadName {
        /// The name given.
        name: String,
    },
    /// The parameters are not those of the object.
    BadParams {
        algorithm: String,
        /// How many parameters the object has.
        expected: usize,
        given: usize,
    },
    /// The algorithm needs what this kernel does not have.
    Lacks {
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
        algorithm: String,
        /// What is set.
        why: &'static str,
        /// How to change it.
        remedy: &'static str,
    },
    /// The kernel refused the programs.
    Load {
        algorithm: String,
        /// What the kernel answered.
        source: libbpf_rs::Error,
        /// What libbpf and the verifier said.
        log: String,
    },
    /// The `module_init` of a Linux module's source cannot be run, or refused to go on.
    Init {
        algorithm: String,
        /// What came of it.
        why: String,
    },
    /// The kernel refused to register the algorithm.
    Register {
        /// The name it should have had.
        name: String,
        /// What the kernel answered.
        source: libbpf_rs::Error,
    },
    /// An algorithm of this name is registered, and it is not for `load` to replace.
    NameTaken {
        name: String,
        /// A process holds it on trial.
        on_trial: bool,
    },
    /// What is to be tried under this name is loaded for good under it.
    LoadedAlready { name: String },
    /// Another algorithm is loaded under this name.
    OtherAlgorithm { name: String, algorithm: String },
    /// An algorithm of the same name is loaded, of another file.
    OtherFile {
        name: String,
        /// That file; `None`: it is knee's own.
        path: Option<PathBuf>,
    },
    /// An algorithm that needs ECN would be given to connections that may leave the data center.
    MeetsInternet { algorithm: String },
    /// A command that worked on this name was cut short.
    CutShort { name: String },
    /// Nothing of this name was loaded by knee.
    NotLoaded {
        name: String,
        /// There is an algorithm of this name, of somebody else's.
        registered: bool,
        /// Names under which knee has loaded the algorithm that is called so.
        loaded_as: Vec<String>,
    },
    /// The kernel still has the name after the last that knee knows of was undone.
    StillRegistered { name: String },
    /// No trial of this name, or none at all, is waiting to be confirmed.
    NoTrial { name: Option<String> },
    /// More than one trial is waiting to be confirmed.
    WhichTrial { names: Vec<String> },
    /// No BPF file system is mounted.
    NoBpffs,
    /// What was named as the BPF file system is none.
    NotBpffs {
        /// The directory.
        path: PathBuf,
    },
    /// What knee would mount for itself here, nobody outside of this mount namespace would see.
    PrivateMounts,
    /// Others than root may have a hand in what is pinned or written down.
    Untrusted {
        /// What is theirs.
        path: PathBuf,
        /// Its user and mode; `None`: it is no directory.
        owner: Option<(u32, u32)>,
    },
    /// Something cannot be pinned, or what is pinned cannot be opened.
    Pin {
        path: PathBuf,
        /// What the kernel answered.
        source: libbpf_rs::Error,
    },
    /// Another command holds the lock.
    Locked {
        /// The lock.
        path: PathBuf,
    },
    /// A file could not be read or written.
    File {
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The journal is not one.
    Journal {
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The kernel's account of a loaded object could not be read.
    Inspect {
        /// What was wanted.
        what: &'static str,
        /// What the kernel answered.
        source: libbpf_rs::Error,
    },
    /// The kernel has no congestion control of this name.
    NoSuchAlgorithm {
        /// The name given.
        name: String,
        known: Vec<String>,
    },
    /// Something of the host could not be read.
    Read {
        /// What was wanted.
        what: &'static str,
        /// What the kernel answered.
        source: std::io::Error,
    },
    /// Rules that cannot be carried out.
    Policy {
        /// What is wrong, and what to do.
        what: String,
    },
    /// Labels cannot be written, or taken away, where that was asked for.
    Labels {
        /// Why, and what to do.
        what: String,
    },
    /// Something of the host could not be read or changed.
    Host {
        /// What was to be done, and the way out where there is one.
        what: String,
        /// What the kernel answered.
        source: std::io::Error,
    },
    /// Somebody else records the calls of this algorithm.
    Traced {
        /// The algorithm's name.
        name: String,
        process: u64,
    },
    /// Another process has taken over a recording, because this one did not report for too long.
    TakenOver {
        /// The algorithm's name.
        name: String,
    },
    /// An object, or a record of it, is not as this library was built to read it.
    BadObject {
        /// What is wrong with it.
        what: String,
    },
}

impl Error {
    /// What libbpf and the verifier said, as they said it; empty: nothing.
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
            Error::Lacks { algorithm, what, since: (major, minor), release } => {
                write!(
                    f,
                    "{algorithm} needs {what}, which takes Linux {major}.{minor} or later; this is {release}"
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
            Error::Journal { path, what } => write!(
                f,
                "{}: not a journal of this knee's ({what}): use the knee that wrote it to unload, \
                 or move it away",
                path.display()
            ),
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
