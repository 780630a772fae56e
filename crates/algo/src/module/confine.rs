//! Confines compilers: one reads and writes only what it is given.
//!
//! A C file can have its compiler read any file into the object (`.incbin`, `#embed`), or show it in a message. No list of
//! words finds all ways. So the kernel keeps the compiler to the system's programs and headers, knee's headers and the
//! algorithm's own ones, with Landlock, which needs no rights. A kernel without it leaves [`written_by_assembler`].

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a compiler may read and write besides the system's programs and headers.
#[derive(Clone, Debug, Default)]
pub struct Room {
    reads: Vec<PathBuf>,
    runs: Vec<PathBuf>,
    writes: Option<PathBuf>,
}

impl Room {
    /// Files, and directories with all that is below them, that may be read.
    pub fn reading<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Room {
        let not_empty = |path: P| match path.as_ref() {
            path if path.as_os_str().is_empty() => PathBuf::from("."),
            path => path.to_owned(),
        };
        Room { reads: paths.into_iter().map(not_empty).collect(), ..Room::default() }
    }

    /// One more directory to read, whose programs may run, such as those of a kernel's build.
    #[must_use]
    pub fn running(mut self, dir: &Path) -> Room {
        self.runs.push(dir.to_owned());
        self
    }

    /// The one directory that may be written below.
    #[must_use]
    pub fn writing(mut self, dir: &Path) -> Room {
        self.writes = Some(dir.to_owned());
        self
    }
}

/// Programs, libraries and headers of the system. What is not there is left out.
const SYSTEM: [&str; 16] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
    "/etc/alternatives",
    "/etc/clang",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/dev/urandom",
];
/// Folders beside the one of a compiler that lies elsewhere.
const OF_COMPILER: [&str; 6] = ["lib", "lib32", "lib64", "libexec", "include", "share"];

/// Rights on files and directories, as the kernel's header numbers them.
mod right {
    pub(super) const EXECUTE: u64 = 1;
    pub(super) const WRITE_FILE: u64 = 1 << 1;
    pub(super) const READ_FILE: u64 = 1 << 2;
    pub(super) const READ_DIR: u64 = 1 << 3;
    /// Removing, making and renaming of all kinds.
    pub(super) const CHANGE_DIR: u64 = 0x1ff0;
    /// Since version 2.
    pub(super) const REFER: u64 = 1 << 13;
    /// Since version 3.
    pub(super) const TRUNCATE: u64 = 1 << 14;
    /// Since version 5.
    pub(super) const IOCTL_DEV: u64 = 1 << 15;
    /// Those that a file can have.
    pub(super) const OF_FILE: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE;
    pub(super) const READ: u64 = READ_FILE | READ_DIR;
    /// All but devices.
    pub(super) const WRITE: u64 =
        READ | EXECUTE | WRITE_FILE | (CHANGE_DIR & !(1 << 6 | 1 << 11)) | REFER | TRUNCATE;
}

/// The kernel's `struct landlock_ruleset_attr`. Older kernels take it with zeros at its end.
#[repr(C)]
struct RulesetAttr {
    handled_access_fs: u64,
    handled_access_net: u64,
    scoped: u64,
}

/// The kernel's `struct landlock_path_beneath_attr`.
#[repr(C, packed)]
struct PathBeneath {
    allowed_access: u64,
    parent_fd: RawFd,
}

const CREATE_RULESET: libc::c_long = 444;
const ADD_RULE: libc::c_long = 445;
const RESTRICT_SELF: libc::c_long = 446;

/// The kernel's version of Landlock; `None` if it has none, or a container forbids it.
fn version() -> Option<u32> {
    // SAFETY: without a struct the call only answers with its version.
    let version = unsafe { libc::syscall(CREATE_RULESET, std::ptr::null::<u8>(), 0usize, 1u32) };
    u32::try_from(version).ok().filter(|version| *version > 0)
}

/// Reports whether the kernel confines compilers.
pub fn is_there() -> bool {
    version().is_some()
}

/// Rules for one compiler.
#[derive(Debug)]
pub(super) struct Rules {
    ruleset: OwnedFd,
}

impl Rules {
    /// Makes the rules for a command; `None` if the kernel has no Landlock. What the command keeps for a while goes into the
    /// directory that it may write.
    ///
    /// # Errors
    /// If the kernel has Landlock and refuses a rule.
    pub(super) fn of(command: &mut Command, room: &Room) -> io::Result<Option<Rules>> {
        // A cache of the compiler's own is out of reach, and knee has one.
        command.env("CCACHE_DISABLE", "1");
        if let Some(dir) = &room.writes {
            command.env("TMPDIR", dir);
        }
        let Some(version) = version() else { return Ok(None) };
        let rules = Rules::new(version)?;
        let system = SYSTEM.iter().map(PathBuf::from);
        let runs = room.runs.iter().cloned();
        for path in system.chain(compiler(command.get_program())).chain(runs) {
            rules.allow(&path, right::READ | right::EXECUTE, version)?;
        }
        for path in &room.reads {
            rules.allow(path, right::READ, version)?;
        }
        rules.allow(Path::new("/dev/null"), right::WRITE, version)?;
        if let Some(dir) = &room.writes {
            rules.allow(dir, right::WRITE, version)?;
        }
        Ok(Some(rules))
    }

    fn new(version: u32) -> io::Result<Rules> {
        let attr = RulesetAttr {
            handled_access_fs: known(u64::MAX >> 48, version),
            // TCP: a compiler needs no network.
            handled_access_net: if version >= 4 { 3 } else { 0 },
            // Abstract sockets and signals of other processes.
            scoped: if version >= 6 { 3 } else { 0 },
        };
        // SAFETY: the struct is the kernel's, and the call only reads it.
        let made = unsafe {
            libc::syscall(CREATE_RULESET, &raw const attr, size_of::<RulesetAttr>(), 0u32)
        };
        let number = RawFd::try_from(made).ok().filter(|number| *number >= 0);
        let Some(number) = number else { return Err(io::Error::last_os_error()) };
        // SAFETY: the call has just opened it, and nobody else has it.
        Ok(Rules { ruleset: unsafe { OwnedFd::from_raw_fd(number) } })
    }

    /// Allows a path, if it is there.
    fn allow(&self, path: &Path, rights: u64, version: u32) -> io::Result<()> {
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path);
        let file = match opened {
            Err(why)
                if matches!(why.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
            {
                return Ok(());
            }
            file => file?,
        };
        let rights = if is_dir(&file)? { rights } else { rights & right::OF_FILE };
        let beneath =
            PathBeneath { allowed_access: known(rights, version), parent_fd: file.as_raw_fd() };
        // SAFETY: the struct is the kernel's, and the call only reads it. Both descriptors are open.
        let added = unsafe {
            libc::syscall(ADD_RULE, self.ruleset.as_raw_fd(), 1, &raw const beneath, 0u32)
        };
        if added == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Confines this process and its children for good. It is safe between fork and exec.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn enter(&self) -> io::Result<()> {
        // SAFETY: both calls change only this process, and nothing is allocated.
        let is_done = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::syscall(RESTRICT_SELF, self.ruleset.as_raw_fd(), 0u32) == 0
        };
        if is_done { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

fn is_dir(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.is_dir())
}

/// The rights that a version of Landlock knows.
fn known(rights: u64, version: u32) -> u64 {
    let since = [(2, right::REFER), (3, right::TRUNCATE), (5, right::IOCTL_DEV)];
    since
        .iter()
        .filter(|(first, _)| version < *first)
        .fold(rights, |rights, (_, new)| rights & !new)
}

/// Folders of a compiler that lies outside of the system's.
fn compiler(program: &OsStr) -> Vec<PathBuf> {
    let named = Path::new(program);
    let found = match named.components().count() > 1 {
        true => Some(named.to_owned()),
        false => std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
            .map(|folder| folder.join(named))
            .find(|path| path.is_file()),
    };
    let Some(real) = found.and_then(|path| path.canonicalize().ok()) else { return Vec::new() };
    let Some(folder) = real.parent() else { return Vec::new() };
    // One that lies in somebody's folder has nothing beside it that it needs.
    if !folder.ends_with("bin") {
        return vec![real];
    }
    let beside = folder.parent().unwrap_or(folder);
    let others = OF_COMPILER.iter().map(|name| beside.join(name));
    [real.clone(), folder.to_owned()].into_iter().chain(others).collect()
}

/// Finds text that the compiler hands to the assembler as the file has it, in a preprocessed text: an `asm` that is not empty, or
/// the name of a section or symbol with more than a name's characters. Assembler text can have any file read, in words that
/// nobody can list. This is for kernels that cannot confine the compiler.
pub fn written_by_assembler(text: &str) -> Option<String> {
    let words = words(text);
    // A raw string has quotes that end nothing, and none of C's other strings has such a prefix.
    let is_raw = |pair: &[&str]| pair[0].ends_with('R') && pair[1].starts_with('"');
    if words.windows(2).any(is_raw) {
        return Some("has a raw string, which is not C11".to_owned());
    }
    for (at, word) in words.iter().enumerate() {
        let strings = match *word {
            "asm" | "__asm" | "__asm__" => template(&words[at + 1..]),
            "section" | "__section__" | "symver" | "__symver__" | "alias" | "__alias__"
            | "ifunc" | "__ifunc__" | "weakref" | "__weakref__" | "visibility"
            | "__visibility__"
                if words.get(at + 1) == Some(&"(")
                    && words.get(at + 2).is_some_and(|next| next.starts_with('"')) =>
            {
                template(&words[at + 1..]).filter(|name| {
                    !name.chars().all(|c| c.is_ascii_alphanumeric() || "._-@/?+".contains(c))
                })
            }
            _ => continue,
        };
        let is_asm = word.contains("asm");
        let is_harmless = match (&strings, is_asm) {
            (Some(template), true) => template.trim().is_empty() || *template == OUR_TEMPLATE,
            (Some(_), false) => false,
            (None, is_asm) => !is_asm,
        };
        if !is_harmless {
            return Some(format!(
                "has {word} with text for the assembler, which could read other files: this kernel has no Landlock (Linux 5.13) to \
                 prevent it"
            ));
        }
    }
    None
}

/// The only template in knee's own headers (bpf.h).
const OUR_TEMPLATE: &str = "%0 = %1 ll";

/// The joined strings between the parenthesis that follows and the first colon or its end. `None` if there is anything else.
fn template(words: &[&str]) -> Option<String> {
    let qualifiers =
        ["volatile", "__volatile__", "__volatile", "goto", "inline", "__inline__", "__inline"];
    let mut words = words.iter().skip_while(|word| qualifiers.contains(word));
    if words.next() != Some(&"(") {
        return None;
    }
    let mut all = String::new();
    for word in words {
        match word.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            Some(string) => all.push_str(string),
            None if [":", ")"].contains(word) => return Some(all),
            None => return None,
        }
    }
    None
}

/// The words, strings and other characters of a preprocessed text, without its lines that begin with `#`.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
            let end = match first {
                '"' | '\'' => end_of_string(rest, first),
                _ if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
                _ => first.len_utf8(),
            };
            words.push(&rest[..end]);
            rest = rest[end..].trim_start();
        }
    }
    words
}

/// The length of a string or character constant.
fn end_of_string(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::module::bounded;

    fn shown(room: &Room, script: &str) -> bounded::Ran {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        bounded::run(&mut command, None, 1 << 20, room).unwrap()
    }

    #[test]
    fn a_compiler_reads_and_writes_only_what_it_is_given() {
        if !is_there() {
            let mut err = io::stderr();
            io::Write::write_all(&mut err, b"SKIPPED: this kernel has no Landlock\n").unwrap();
            return;
        }
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        for dir in ["given", "room", "other"] {
            fs::create_dir(at(dir)).unwrap();
            fs::write(at(dir).join("file"), dir).unwrap();
        }
        std::os::unix::fs::symlink(at("other/file"), at("given/link")).unwrap();
        fs::hard_link(at("given/file"), at("one")).unwrap();
        let room = Room::reading([at("given"), at("one")]).writing(&at("room"));
        let dir = scratch.path().display();
        let reads = |name: &str| shown(&room, &format!("cat {dir}/{name}")).is_done;
        assert!(reads("given/file") && reads("one") && reads("room/file"));
        for name in ["other/file", "given/link", "given/../other/file"] {
            assert!(!reads(name), "{name}");
        }
        assert!(!shown(&room, "cat /etc/passwd").is_done);
        assert!(!shown(&room, "cat /proc/self/environ").is_done);
        let writes = |name: &str| shown(&room, &format!("echo x > {dir}/{name}")).is_done;
        assert!(writes("room/new") && writes("../../../../dev/null"));
        for name in ["given/new", "given/file", "one", "other/new", "new", "room/../new"] {
            assert!(!writes(name), "{name}");
        }
        assert!(!shown(&room, &format!("mv {dir}/room/file {dir}/given/file")).is_done);
        let temporary = shown(&room, "mktemp");
        assert!(temporary.is_done, "{}", temporary.stderr);
    }

    #[test]
    fn nothing_that_is_read_runs_and_no_variable_asks_for_more() {
        if !is_there() {
            let mut err = io::stderr();
            io::Write::write_all(&mut err, b"SKIPPED: this kernel has no Landlock\n").unwrap();
            return;
        }
        let scratch = tempfile::tempdir().unwrap();
        let program = scratch.path().join("program");
        fs::write(&program, "#!/bin/sh\ntrue\n").unwrap();
        let all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&program, all).unwrap();
        let script = program.display().to_string();
        assert!(!shown(&Room::reading([scratch.path()]), &script).is_done);
        assert!(shown(&Room::default().running(scratch.path()), &script).is_done);
        let mut command = Command::new("sh");
        command.args(["-c", "echo \"$DEPENDENCIES_OUTPUT$CPATH\"; umask"]);
        command.env("DEPENDENCIES_OUTPUT", "/x").env("CPATH", "/y");
        let ran = bounded::run(&mut command, None, 1 << 20, &Room::default()).unwrap();
        assert_eq!(String::from_utf8_lossy(&ran.stdout), "\n0077\n");
        let mut command = Command::new("sh");
        let why = bounded::run(command.args(["-c", ":", "@x"]), None, 1 << 20, &Room::default());
        assert!(why.unwrap_err().to_string().contains("list of options"));
    }

    #[test]
    fn text_for_the_assembler_is_found_in_whatever_words() {
        for text in [
            r#"asm(".inc" "bin \"/etc/shadow\"");"#,
            r#"__asm__ __volatile__ (".inc%c0" : : "i"(x));"#,
            r#"asm("\x2eincbin");"#,
            "asm goto\n(\n\"nop\"\n);",
            r#"asm((x));"#,
            r#"asm"#,
            r#"int x asm("y\n.incbin");"#,
            r#"int x __attribute__((section(".data\n.incbin \"/etc/shadow\"\n")));"#,
            r#"int x [[gnu::section(".data,\"aw\"" "x")]];"#,
            r#"char c = '"'; asm(".incbin");"#,
            r##"char *s = R"(")"; asm(".incbin");"##,
        ] {
            assert!(written_by_assembler(text).is_some(), "{text}");
        }
        for text in [
            r#"asm volatile("" : : : "memory");"#,
            r#"asm ( " " );"#,
            r#"asm("%0 = %1 ll" : "=r"(flag) : "i"(x));"#,
            r#"int x __attribute__((section(".data.params")));"#,
            r#"char *s = "asm(\".incbin\")"; int plasma(int section);"#,
            "# 1 \"asm\"\nint x;",
            "section(3);",
        ] {
            assert_eq!(written_by_assembler(text), None, "{text}");
        }
    }
}
