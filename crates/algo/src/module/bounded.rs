//! Runs compilers on untrusted files, with bounds on time, memory, output and included files. The
//! build for the simulator and that for BPF have the same bounds.

use std::fs;
use std::io::{self, Read, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use super::MAX_SOURCE_BYTES;
use super::confine::{self, Room, Rules};
use crate::tokens::without_comments;

/// Largest size of a file with all its includes, in bytes. knee's own files have some 300 kB.
pub const MOST_PREPROCESSED: u64 = 32 << 20;
/// Largest size of an object, in bytes.
pub const MOST_OBJECT: u64 = 64 << 20;
const MOST_MESSAGES: u64 = 1 << 20;
/// Memory limit of one compiler run, in bytes. A file can include itself, or an endless device.
const MOST_MEMORY: u64 = 2 << 30;
/// CPU time limit in seconds. Linux modules take one second.
const MOST_CPU_S: u64 = 20;
/// Wall-clock limit. A process that waits, for example for a pipe without a writer, uses no CPU
/// time.
const MOST_WALL: Duration = Duration::from_secs(120);
/// Messages of compilers that a limit ended.
const ENDED: [&str; 7] = [
    "signal terminated program",
    "CPU time limit exceeded",
    "virtual memory exhausted",
    "out of memory",
    "Cannot allocate memory",
    "frontend command failed due to signal",
    "File size limit exceeded",
];

/// Result of a compiler run.
#[derive(Debug)]
pub struct Ran {
    /// The compiler succeeded.
    pub is_done: bool,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Messages of the compiler.
    pub stderr: String,
    /// The limit that ended the run, in a sentence.
    pub limit: Option<String>,
}

/// Variables by which a compiler reads, writes or runs something else than it is told.
const READ_BY_COMPILERS: [&str; 10] = [
    "CPATH",
    "C_INCLUDE_PATH",
    "OBJC_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "COMPILER_PATH",
    "GCC_EXEC_PREFIX",
    "CCC_OVERRIDE_OPTIONS",
    "DEPENDENCIES_OUTPUT",
    "SUNPRO_DEPENDENCIES",
    "GCC_COMPARE_DEBUG",
];

/// Undoes what a parent process may have left: where SIGCHLD is ignored, no child can be waited for.
pub fn let_children_be_waited_for() {
    // SAFETY: the default is no function of this program.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Returns a path as a compiler takes it for a file: one that begins with `@` would be a list of options, one with `-` an option.
pub fn as_file(path: &Path) -> PathBuf {
    match path.as_os_str().as_bytes().first() {
        Some(b'@' | b'-') => Path::new(".").join(path),
        _ => path.to_owned(),
    }
}

/// Runs a compiler with optional input, confined to `room`. It may print at most `most_stdout` bytes.
///
/// # Errors
/// If the compiler cannot be started.
pub fn run(
    command: &mut Command,
    input: Option<String>,
    most_stdout: u64,
    room: &Room,
) -> io::Result<Ran> {
    // Compilers read more options from such a file, also within a name that they were given.
    if command.get_args().any(|arg| arg.as_bytes().starts_with(b"@")) {
        return Err(io::Error::other(
            "a file or folder is named @..., which is a list of options to it",
        ));
    }
    for name in READ_BY_COMPILERS {
        command.env_remove(name);
    }
    let rules = Rules::of(command, room)?;
    let stdin = if input.is_some() { Stdio::piped() } else { Stdio::null() };
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A separate process group lets all its children end with it.
    command.process_group(0);
    let confined = move || limit().and_then(|()| rules.as_ref().map_or(Ok(()), Rules::enter));
    // SAFETY: the calls are safe between fork and exec, and nothing is allocated.
    unsafe { command.pre_exec(confined) };
    let mut child = command.spawn()?;
    let group = i32::try_from(child.id()).unwrap_or(0);
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (input_pipe, Some(stdout), Some(stderr)) = pipes else {
        return Err(io::Error::other("the compiler has no output"));
    };
    let written = std::thread::spawn(move || {
        if let (Some(mut pipe), Some(input)) = (input_pipe, input) {
            // A compiler reads all input before it writes, or ends without reading it.
            let _ = pipe.write_all(input.as_bytes());
        }
    });
    let messages = std::thread::spawn(move || {
        let messages = read(stderr, MOST_MESSAGES);
        if messages.as_ref().is_ok_and(|bytes| bytes.len() as u64 > MOST_MESSAGES) {
            end(group);
        }
        messages
    });
    let (over, is_over) = mpsc::channel::<()>();
    let timer = std::thread::spawn(move || {
        let late = is_over.recv_timeout(MOST_WALL) == Err(mpsc::RecvTimeoutError::Timeout);
        if late {
            end(group);
        }
        late
    });
    let stdout = read(stdout, most_stdout);
    if stdout.as_ref().is_ok_and(|bytes| bytes.len() as u64 > most_stdout) {
        end(group);
    }
    let status = child.wait();
    let _ = written.join();
    let stderr = messages.join().unwrap_or_else(|_| Ok(Vec::new()))?;
    drop(over);
    let is_late = timer.join().unwrap_or(false);
    let (stdout, status) = (stdout?, status?);
    let is_too_much = stdout.len() as u64 > most_stdout || stderr.len() as u64 > MOST_MESSAGES;
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    let is_at_limit = matches!(status.signal(), Some(libc::SIGXCPU | libc::SIGKILL));
    let is_ended = is_at_limit || ENDED.iter().any(|said| stderr.contains(said));
    let limit = if is_too_much {
        Some(format!("makes the compiler write more than {} MiB", most_stdout >> 20))
    } else if is_late || (is_ended && !status.success()) {
        Some(format!(
            "does not come to an end in the compiler, which has {MOST_CPU_S} s of CPU time and {} GiB of memory",
            MOST_MEMORY >> 30
        ))
    } else {
        status.signal().map(|signal| format!("makes the compiler crash with signal {signal}"))
    };
    Ok(Ran { is_done: status.success() && limit.is_none(), stdout, stderr, limit })
}

/// Limits a compiler and its children.
fn limit() -> io::Result<()> {
    // What a compiler writes is executed, so nobody else may change it, whatever the caller's umask.
    // SAFETY: the call cannot fail.
    unsafe { libc::umask(0o077) };
    limit_process(MOST_MEMORY, MOST_CPU_S, MOST_OBJECT)
}

/// Limits the address space, CPU time and file sizes of this process and its children for good, and forbids core dumps. It is
/// safe between fork and exec.
///
/// # Errors
/// The system's error.
pub fn limit_process(memory_bytes: u64, cpu_s: u64, file_bytes: u64) -> io::Result<()> {
    let limits = [
        (libc::RLIMIT_AS, memory_bytes),
        (libc::RLIMIT_CPU, cpu_s),
        (libc::RLIMIT_FSIZE, file_bytes),
        (libc::RLIMIT_CORE, 0),
    ];
    for (resource, most) in limits {
        // SAFETY: the structs are plain data of this function.
        let is_set = unsafe {
            let mut now: libc::rlimit = std::mem::zeroed();
            libc::getrlimit(resource, &raw mut now);
            let most = now.rlim_max.min(most);
            // The hard limit is one second later, because compilers catch the signal of the soft
            // limit.
            let hard = if resource == libc::RLIMIT_CPU { most.saturating_add(1) } else { most };
            let limit = libc::rlimit { rlim_cur: most, rlim_max: now.rlim_max.min(hard) };
            libc::setrlimit(resource, &raw const limit) == 0
        };
        if !is_set {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Ends a compiler and all its children.
fn end(group: i32) {
    if group > 1 {
        // SAFETY: this process created the group. Its first process has not been waited for, so
        // nobody else has its number.
        unsafe { libc::kill(-group, libc::SIGKILL) };
    }
}

/// Reads one byte more than allowed, to tell output that is too long from output that just fits.
fn read(from: impl Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(limit + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Headers that a file may include: knee's own, and those in these folders.
#[derive(Clone, Debug)]
pub struct Includes {
    /// Folder of knee's headers, as passed to the compiler.
    ours: PathBuf,
    folders: Vec<PathBuf>,
}

impl Includes {
    /// Allows knee's headers, and those in these folders and their subfolders.
    pub fn new<'a>(ours: &Path, folders: impl IntoIterator<Item = &'a Path>) -> Includes {
        let real = |folder: &Path| {
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            fs::canonicalize(folder).ok()
        };
        Includes {
            ours: fs::canonicalize(ours).unwrap_or_else(|_| ours.to_owned()),
            folders: folders.into_iter().filter_map(real).collect(),
        }
    }

    /// Checks the headers that a compiler has read. `said` is its output with `-H`, which lists
    /// each header on a line that begins with dots. `ran_in` is the directory in which the compiler
    /// ran. As root, a header is accepted only if nobody else can have written it.
    ///
    /// # Errors
    /// A sentence about the first header that is not allowed. It never shows the header's content.
    pub fn check(&self, said: &str, ran_in: &Path) -> Result<(), String> {
        if said.lines().any(|line| line.starts_with("! ") || line.starts_with("x ")) {
            return Err(
                "includes a precompiled header (.gch): include the header itself".to_owned()
            );
        }
        listed(said).try_for_each(|name| self.check_named(name, &ran_in.join(name), true))?;
        said.lines().filter_map(denied).try_for_each(|name| {
            let real = fs::canonicalize(ran_in.join(name)).unwrap_or_default();
            match self.is_own(&real) || real.starts_with(&self.ours) {
                true => Ok(()),
                false => Err(elsewhere(name)),
            }
        })
    }

    /// Returns the headers in the folders that a compiler has read, from its output with `-H`.
    pub fn read(&self, said: &str, ran_in: &Path) -> Vec<PathBuf> {
        let real = listed(said).filter_map(|name| fs::canonicalize(ran_in.join(name)).ok());
        real.filter(|path| self.is_own(path)).collect()
    }

    /// Reports whether a path is in the folders, and not hidden there: keys and histories are.
    fn is_own(&self, real: &Path) -> bool {
        let is_hidden = |below: &Path| {
            below.components().any(|part| part.as_os_str().as_encoded_bytes().starts_with(b"."))
        };
        let mut below = self.folders.iter().filter_map(|folder| real.strip_prefix(folder).ok());
        below.any(|below| !is_hidden(below))
    }

    /// Checks one header in the folders before a compiler reads it.
    ///
    /// # Errors
    /// Like [`Includes::check`].
    pub fn check_one(&self, path: &Path) -> Result<(), String> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        self.check_named(&name, path, false)
    }

    fn check_named(&self, name: &str, path: &Path, takes_ours: bool) -> Result<(), String> {
        let Ok(real) = fs::canonicalize(path) else {
            return Err(format!("includes {name}, which is not there any more"));
        };
        if takes_ours && real.starts_with(&self.ours) {
            return Ok(());
        }
        if !self.is_own(&real) {
            return Err(elsewhere(name));
        }
        let file = knee_files::open_file(&real, "C header")
            .map_err(|why| format!("includes {name}, which {why}"))?;
        knee_files::trust::check_file(&file, &real).map_err(|why| {
            format!(
                "includes {name}, and root takes no header that others can have written: {why}: chown root and chmod go-w it"
            )
        })?;
        let text = knee_files::read_open(file, MAX_SOURCE_BYTES, "C header")
            .map_err(|why| format!("includes {name}, which {why}"))?;
        match reads_a_file(&String::from_utf8_lossy(&text)) {
            Some(why) => Err(format!("includes {name}, which {why}")),
            None => Ok(()),
        }
    }
}

/// Checks a file's text, and the same preprocessed, for what has a compiler read other files. A kernel that confines compilers
/// prevents it anyway; the check gives the better sentence, and is all there is on a kernel that cannot.
///
/// # Errors
/// A sentence about what is not allowed.
pub fn check_text(text: &str, preprocessed: &str) -> Result<(), String> {
    let written = || match confine::is_there() {
        true => None,
        false => confine::written_by_assembler(preprocessed),
    };
    reads_a_file(text).or_else(|| reads_a_file(preprocessed)).or_else(written).map_or(Ok(()), Err)
}

/// The sentence about a header that may not be included.
fn elsewhere(name: &str) -> String {
    format!(
        "includes {name}, which is neither one of knee's headers nor in the file's own folder: a header of your own stands beside the file"
    )
}

/// The file in a compiler's message that it may not read what the source includes.
fn denied(line: &str) -> Option<&str> {
    let (_, said) = line.split_once("fatal error: ")?;
    let name = said.strip_suffix(": Permission denied")?;
    let of_clang = name.strip_prefix("cannot open file '").and_then(|name| name.strip_suffix('\''));
    Some(of_clang.unwrap_or(name))
}

/// Returns the sentence about a source text that makes the compiler or assembler read files outside
/// the `-H` list.
pub fn reads_a_file(text: &str) -> Option<String> {
    let mut directives = [".incbin", ".include"].into_iter();
    let directives = directives.find(|word| text.contains("asm") && text.contains(word));
    // A directive may begin with a digraph, have comments in it, and go on in the next line.
    let plain = without_comments(&text.replace("\\\r\n", "").replace("\\\n", ""));
    let is_embed = |line: &str| {
        let line = line.trim_start();
        let rest = line.strip_prefix('#').or_else(|| line.strip_prefix("%:"));
        rest.is_some_and(|rest| rest.trim_start().starts_with("embed"))
    };
    let embeds = plain.lines().any(is_embed).then_some("#embed");
    let word = directives.or(embeds)?;
    Some(format!(
        "has {word}, which reads a file: only #include does, from knee's headers and the file's own folder"
    ))
}

/// Returns the header names in the list that `-H` prints.
fn listed(said: &str) -> impl Iterator<Item = &str> {
    said.lines().filter_map(|line| {
        let (dots, name) = line.split_once(' ')?;
        (!dots.is_empty() && dots.bytes().all(|byte| byte == b'.')).then_some(name)
    })
}

/// Returns the messages without the list that `-H` prints.
pub fn without_list(said: &str) -> String {
    let is_listed = |line: &&str| listed(line).next().is_some();
    said.lines().filter(|line| !is_listed(line)).map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_outside_of_the_folder_is_refused_by_whatever_name() {
        let dir = tempfile::tempdir().unwrap();
        let [ours, own] = ["ours", "own"].map(|name| dir.path().join(name));
        for folder in [&ours, &own] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("a.h"), "").unwrap();
        }
        fs::write(dir.path().join("secret.h"), "").unwrap();
        std::os::unix::fs::symlink(dir.path().join("secret.h"), own.join("link.h")).unwrap();
        let includes = Includes::new(&ours, [own.as_path()]);
        let check =
            |name: &Path| includes.check(&format!(". {}\nx: y\n", name.display()), dir.path());
        assert_eq!(check(&ours.join("a.h")), Ok(()));
        for name in
            [own.join("link.h"), own.join("../secret.h"), "/etc/passwd".into(), "secret.h".into()]
        {
            let why = check(&name).unwrap_err();
            assert!(why.contains("neither one of knee's headers"), "{why}");
        }
        assert!(check(Path::new("gone.h")).unwrap_err().contains("not there any more"));
    }

    #[test]
    fn a_compiler_that_writes_without_end_is_ended() {
        let room = &Room::default();
        let ran = run(&mut Command::new("yes"), None, 1 << 20, room).unwrap();
        assert!(!ran.is_done && ran.limit.unwrap().contains("more than 1 MiB"));
        let mut command = Command::new("sh");
        command.args(["-c", "cat; echo no >&2; exit 3"]);
        let ran = run(&mut command, Some("a".into()), 9, room).unwrap();
        assert_eq!((ran.is_done, &ran.stdout[..], &*ran.stderr), (false, &b"a"[..], "no\n"));
        assert_eq!(ran.limit, None);
    }
}
