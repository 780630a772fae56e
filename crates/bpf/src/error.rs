use std::path::PathBuf;

use knee_units::LinuxVersion;

/// The reason why an operation in the kernel failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No BPF object of this algorithm exists.
    #[error("{}", not_built(algorithm, known))]
    NotBuilt {
        /// The requested algorithm.
        algorithm: String,
        /// The available algorithms; empty if knee was built without clang.
        known: Vec<&'static str>,
    },
    /// A file that the user named as an algorithm cannot be one.
    #[error("{}: {what}", path.display())]
    Outside {
        path: PathBuf,
        /// The reason, in the compiler's words where it gives one, and the remedy.
        what: String,
    },
    /// The kernel cannot take this name.
    #[error("\"{name}\" cannot name an algorithm: 1 to 15 of a-z, A-Z, 0-9, _ and -")]
    BadName {
        /// The given name.
        name: String,
    },
    /// The parameters do not match those of the object.
    #[error("{algorithm} has {expected} parameters, {given} were given")]
    BadParams {
        algorithm: String,
        /// The number of parameters in the object.
        expected: usize,
        given: usize,
    },
    /// This kernel lacks a feature that the algorithm needs.
    #[error("{algorithm} needs {what}, which takes Linux {since} or later; this is {release}")]
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
    #[error("{what} takes {needs}: run it as root of the host, with sudo")]
    NotPermitted {
        /// The operation that failed.
        what: &'static str,
        /// The capabilities that it needs.
        needs: &'static str,
    },
    /// A setting of the kernel keeps the algorithm out.
    #[error("the kernel does not take {algorithm}, as {why}: {remedy}")]
    Closed {
        algorithm: String,
        /// The setting.
        why: &'static str,
        /// How to change it.
        remedy: &'static str,
    },
    /// The kernel refused the programs.
    #[error("the kernel does not take {algorithm}: {source}{}", if log.is_empty() { "" } else { " (-v shows its words)" })]
    Load {
        algorithm: String,
        /// The kernel's answer.
        source: libbpf_rs::Error,
        /// The messages of libbpf and the verifier.
        log: String,
    },
    /// The `module_init` of a Linux module's source cannot run, or returned an error.
    #[error("{algorithm} is not registered: its module_init {why}")]
    Init {
        algorithm: String,
        /// The reason.
        why: String,
    },
    /// The kernel refused to register the algorithm.
    #[error("{}", not_registered(name, source))]
    Register {
        /// The name to register.
        name: String,
        /// The kernel's answer.
        source: libbpf_rs::Error,
    },
    /// An algorithm of this name is registered, and `load` must not replace it.
    #[error("{}", name_taken(name, *on_trial))]
    NameTaken {
        name: String,
        /// Whether a trial holds the name.
        on_trial: bool,
    },
    /// A trial wants a name under which an algorithm is loaded permanently.
    #[error(
        "\"{name}\" is loaded for good: try this under another name with --as, or load it without --confirm-within"
    )]
    LoadedAlready { name: String },
    /// Another algorithm is loaded under this name.
    #[error(
        "\"{name}\" is {algorithm}: choose another name with --as, or knee unload {name} first"
    )]
    OtherAlgorithm { name: String, algorithm: String },
    /// An algorithm of the same name is loaded from another file.
    #[error(
        "\"{name}\" is loaded of {}: choose another name with --as, or knee unload {name} first",
        path.as_ref().map_or("knee".into(), |path| path.display().to_string())
    )]
    OtherFile {
        name: String,
        /// The file of the loaded algorithm; `None` for one of knee's own.
        path: Option<PathBuf>,
    },
    /// The request would give an algorithm that needs ECN to connections that may leave the data
    /// center.
    #[error(
        "--default and --cgroup give {algorithm} to connections that leave the data center, too, where its marks mean something else \
         (RFC 8257, section 5): knee policy apply gives it to some prefixes only, --i-know does it all the same"
    )]
    MeetsInternet { algorithm: String },
    /// A command that worked on this name was interrupted.
    #[error("a command that loaded or unloaded \"{name}\" was cut short: knee unload {name} first")]
    CutShort { name: String },
    /// Knee has loaded nothing under this name.
    #[error("{}", not_loaded(name, *registered, loaded_as))]
    NotLoaded {
        name: String,
        /// Whether someone else has registered an algorithm of this name.
        registered: bool,
        /// The names under which knee has loaded the algorithm that is called so.
        loaded_as: Vec<String>,
    },
    /// The kernel still has the name after knee undid everything that it knows of.
    #[error(
        "\"{name}\" is still registered, though nothing that knee knows of keeps it: another process or another BPF file system holds \
         a link to it (bpftool link show)"
    )]
    StillRegistered { name: String },
    /// `knee load` registered the algorithm, and its pin is not in this mount namespace, or a process
    /// keeps it.
    #[error(
        "\"{name}\" was loaded in another mount namespace, or with another KNEE_RUN_DIR or KNEE_BPFFS: its pin is not here. Run it \
         there, as nsenter --mount --target 1 knee unload {name}. Nothing was changed"
    )]
    PinnedElsewhere { name: String },
    /// No trial of this name, or no trial at all, waits for confirmation.
    #[error("{}", no_trial(name.as_deref()))]
    NoTrial { name: Option<String> },
    /// More than one trial waits for confirmation.
    #[error("several are on trial, say which to confirm: {}", names.join(", "))]
    WhichTrial { names: Vec<String> },
    /// No BPF file system is mounted.
    #[error(
        "no BPF file system is mounted to keep it in: mount -t bpf -o mode=0700 bpf /sys/fs/bpf"
    )]
    NoBpffs,
    /// The path named as the BPF file system is not one.
    #[error("KNEE_BPFFS: {} is not a BPF file system: mount -t bpf -o mode=0700 bpf DIRECTORY", path.display())]
    NotBpffs {
        /// The directory.
        path: PathBuf,
    },
    /// A BPF file system that knee mounts here would be invisible outside of this mount namespace.
    #[error(
        "no BPF file system is mounted, and this is a private mount namespace: one that knee mounts here would vanish with it, and \
         every algorithm too. Run knee in the host's: nsenter --net=/run/netns/NAME knee ... (not ip netns exec). Or mount one on the \
         host first: mount -t bpf -o mode=0700 bpf /sys/fs/bpf"
    )]
    PrivateMounts,
    /// Users other than root may be able to change the pins or the journal.
    #[error("{} {}", path.display(), untrusted(*owner))]
    Untrusted {
        /// The file or directory that they can change.
        path: PathBuf,
        /// The path's user and mode; `None` if it is not a directory.
        owner: Option<(u32, u32)>,
    },
    /// A pin cannot be made or opened.
    #[error("{}: {source}", path.display())]
    Pin {
        path: PathBuf,
        /// The kernel's answer.
        source: libbpf_rs::Error,
    },
    /// Another command holds the lock.
    #[error(
        "another knee command is changing this host and has not finished: {} is locked (fuser -v shows by whom)",
        path.display()
    )]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The kernel's information about a loaded object could not be read.
    #[error("cannot read {what}: {source}")]
    Inspect {
        /// The requested information.
        what: &'static str,
        /// The kernel's answer.
        source: libbpf_rs::Error,
    },
    /// The kernel has no congestion control of this name.
    #[error(
        "no algorithm named \"{name}\" is registered: load it first (knee load), or choose one of {}",
        known.join(", ")
    )]
    NoSuchAlgorithm {
        /// The given name.
        name: String,
        known: Vec<String>,
    },
    /// Some information about the host could not be read.
    #[error("cannot read {what}: {source}")]
    Read {
        /// The requested information.
        what: &'static str,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// The rules cannot be applied.
    #[error("{what}")]
    Policy {
        /// The fault, and the remedy.
        what: String,
    },
    /// Flow labels cannot be written, or removed, at the requested place.
    #[error("{what}")]
    Labels {
        /// The reason, and the remedy.
        what: String,
    },
    /// A part of the host's state could not be read or changed.
    #[error("{what}: {source}")]
    Host {
        /// The operation that failed, and the remedy where there is one.
        what: String,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// Another process records the calls of this algorithm.
    #[error("\"{name}\" is being traced already, by process {process}")]
    Traced {
        /// The algorithm's name.
        name: String,
        process: u64,
    },
    /// Another process has taken over a recording, because this one was silent for too long.
    #[error(
        "the trace of \"{name}\" was taken over by another process, because this one stood still for too long"
    )]
    TakenOver {
        /// The algorithm's name.
        name: String,
    },
    /// An object, or a record of it, does not have the layout that this library was built for.
    #[error("unreadable object or record: {what}")]
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

fn not_built(algorithm: &str, known: &[&str]) -> String {
    match known {
        [] => format!("{algorithm} is not in this knee: it was built without clang"),
        known => format!("no BPF object of \"{algorithm}\"; there are {}", known.join(", ")),
    }
}

fn not_registered(name: &str, source: &libbpf_rs::Error) -> String {
    match source.kind() {
        libbpf_rs::ErrorKind::AlreadyExists => {
            format!("an algorithm named \"{name}\" is registered already")
        }
        _ => format!("the kernel does not register \"{name}\": {source}"),
    }
}

fn name_taken(name: &str, on_trial: bool) -> String {
    match on_trial {
        true => format!("\"{name}\" is on trial: knee confirm {name}, or knee unload {name}"),
        false => format!(
            "an algorithm named \"{name}\" is registered already, and not by knee load: choose another name with --as"
        ),
    }
}

fn not_loaded(name: &str, registered: bool, loaded_as: &[String]) -> String {
    match loaded_as {
        [first, ..] => format!(
            "nothing named \"{name}\" is loaded; the algorithm {name} is loaded as {}: knee unload {first}",
            loaded_as.join(", ")
        ),
        [] if registered => {
            format!(
                "\"{name}\" was not loaded by knee load: whoever registered it has to remove it"
            )
        }
        [] => format!("nothing named \"{name}\" is loaded: see knee status"),
    }
}

fn no_trial(name: Option<&str>) -> String {
    match name {
        Some(name) => format!("there is no trial of \"{name}\" (any more): see knee status"),
        None => "there is no trial to confirm: see knee status".to_owned(),
    }
}

fn untrusted(owner: Option<(u32, u32)>) -> String {
    const WAY_OUT: &str = "set KNEE_RUN_DIR or KNEE_BPFFS (docs/load.md)";
    match owner {
        Some((user, mode)) => format!(
            "belongs to user {user} (mode {mode:04o}): other users could change what knee loads. chown root and chmod go-w it, or {WAY_OUT}"
        ),
        None => format!("is not a directory: remove it, or {WAY_OUT}"),
    }
}
