//! Compiles source files to a shared object. The cache keeps it under a hash of everything that
//! went into it.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::api::Api;
use super::bounded::{self, Includes, Ran};
use super::cache::{Cache, Work};
use super::complaints;
use super::confine::Room;
use super::job::{self, CompileJob, Refusal};
use super::options::{LinuxApi, Options};
use super::source::Kind;
use super::{MAX_SOURCE_BYTES, area};
use crate::sha256;

include!(concat!(env!("OUT_DIR"), "/headers.rs"));

/// Support code that is linked with every object. Several files are joined into one.
const SUPPORT: &str = concat!(
    include_str!("../../module/support.c"),
    include_str!("../../module/support_param.c"),
    include_str!("../../module/support_print.c"),
);
const FILE: &str = include_str!("../../module/file.c");
const HOST: &str = include_str!("../host.c");

/// Kernel headers that modules include, by folder and without `.h`. Many modules use nothing of them. Two files hold
/// everything that knee provides.
const KERNEL_HEADERS: [(&str, &str); 5] = [
    (
        "asm",
        "atomic barrier bitops bug byteorder cmpxchg current div64 errno page param processor timex types uaccess unaligned",
    ),
    (
        "linux",
        "args array_size atomic average bitfield bitmap bitops bits bpf btf btf_ids bug build_bug byteorder/generic cache \
         cgroup compiler compiler_attributes compiler_types completion const container_of cpu cpumask ctype debugfs delay \
         device err errno etherdevice export file filter fs gcd gfp hardirq hash hashtable hrtimer icmp if if_ether in in6 inet \
         inet_diag inetdevice init int_sqrt interrupt ip ipv6 irqflags jhash jiffies jump_label kconfig kernel kobject kthread \
         ktime lcm limits list lockdep log2 math math64 mempool minmax mm module moduleparam mutex net netdevice netlink \
         notifier once overflow param percpu poison prandom preempt printk proc_fs random ratelimit rbtree rculist rcupdate \
         reciprocal_div refcount rtnetlink sched sched/clock seq_file seqlock skbuff slab smp socket sockptr sort spinlock \
         static_key stddef string stringify swab sysctl sysfs tcp time timekeeping timer topology tracepoint types uaccess udp \
         uidgid unaligned utsname version vmalloc wait win_minmax workqueue",
    ),
    (
        "net",
        "addrconf busy_poll checksum dst dst_metadata flow genetlink inet_common inet_connection_sock inet_ecn inet_hashtables \
         inet_sock inet_timewait_sock ip ip6_route ipv6 mptcp net_namespace netlink netns/ipv4 pkt_sched proto_memory protocol \
         request_sock route rstreason sch_generic secure_seq snmp sock tcp tcp_ecn tcp_states transp_v6 udp xfrm",
    ),
    ("trace/events", "tcp"),
    ("uapi/linux", "bpf in inet_diag netlink pkt_sched tcp time types"),
];

/// Headers that modules expect next to their own file, and knee's replacement for each. A file next
/// to the module takes precedence.
const BESIDE_HEADERS: &[(&str, &str)] =
    &[("tcp_dctcp.h", "module_dctcp.h"), ("kernel_config.h", "module_config.h")];

/// C library headers that knee's headers need, under the names that they include. Headers of the
/// compiler and the system are hidden, so that none replaces a kernel header.
const C_HEADERS: &[(&str, &str)] = &[
    ("stdbool.h", "#pragma once\ntypedef _Bool bool;\n#define true 1\n#define false 0\n"),
    (
        "stddef.h",
        "#pragma once\ntypedef __SIZE_TYPE__ size_t;\ntypedef long ssize_t;\n#define NULL ((void *)0)\n\
         #define offsetof(type, member) __builtin_offsetof(type, member)\n",
    ),
    (
        "stdint.h",
        "#pragma once\ntypedef unsigned char uint8_t;\ntypedef unsigned short uint16_t;\n\
         typedef unsigned int uint32_t;\ntypedef unsigned long long uint64_t;\n\
         typedef signed char int8_t;\ntypedef short int16_t;\ntypedef int int32_t;\n\
         typedef long long int64_t;\n",
    ),
    (
        "string.h",
        "#pragma once\n#include <stddef.h>\nvoid *memcpy(void *to, const void *from, size_t bytes);\n\
         void *memmove(void *to, const void *from, size_t bytes);\n\
         void *memset(void *to, int value, size_t bytes);\n\
         int memcmp(const void *a, const void *b, size_t bytes);\nsize_t strlen(const char *text);\n\
         int strcmp(const char *a, const char *b);\nint strncmp(const char *a, const char *b, size_t n);\n\
         char *strncpy(char *to, const char *from, size_t n);\n",
    ),
];

/// Compile C as the kernel does: signed numbers wrap, pointers of different types may alias, and
/// floating point is unavailable. An undeclared name is an error.
const FLAGS: &[&str] = &[
    "-std=gnu11",
    "-O2",
    // Debug information gives the line of a crash and the fields of a private struct. It is not
    // compressed, because nothing here decompresses it.
    "-g",
    "-gz=none",
    // A stack overflow hits the guard page, whatever the size of a frame.
    "-fstack-clash-protection",
    "-fPIC",
    "-fvisibility=hidden",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-fno-delete-null-pointer-checks",
    "-fno-stack-protector",
    "-fno-math-errno",
    "-funsigned-char",
    "-mgeneral-regs-only",
    "-nostdinc",
    "-DMODULE",
    "-DCC_ONE_THREAD",
    "-Werror=implicit-function-declaration",
    "-Werror=implicit-int",
    "-Werror=int-conversion",
    "-Werror=incompatible-pointer-types",
    "-Werror=return-type",
];

/// Linker flags. Several copies of an object are loaded from different files. Their data is
/// restored between runs, so no part may be read-only or bound late.
const LINK_FLAGS: &[&str] = &["-shared", "-nostdlib", "-Wl,-z,norelro", "-Wl,-z,now"];

/// Forms of `cong_control`, by number of arguments, with a matching `LINUX_VERSION_CODE`. Since
/// 6.10 it receives the ACK and a flag. Modules for other kernels compile with only one form, and
/// with its version.
pub const CONTROL_FORMS: [(&str, &str); 2] = [("4", "0x060c00"), ("2", "0x060100")];

/// A source file to compile.
#[derive(Clone, Copy)]
pub(super) struct File<'a> {
    pub(super) path: &'a Path,
    pub(super) text: &'a str,
}
/// Flags that report all errors and omit source lines. Clang stops after twenty errors by default.
const GCC_FLAGS: [&str; 2] = ["-fmax-errors=0", "-fno-diagnostics-show-caret"];
const CLANG_FLAGS: [&str; 2] = ["-ferror-limit=0", "-fno-caret-diagnostics"];
/// A shared object, with its compiler and inputs.
pub(super) struct Compiled {
    pub(super) object: PathBuf,
    pub(super) compiler: String,
    /// The user's headers, each with its SHA-256.
    pub(super) headers: Vec<(PathBuf, String)>,
    /// Types in the private area, as [`area::private_types`] finds them; empty for a file on the
    /// contract.
    pub(super) private_types: Vec<String>,
}

/// Finds the C compiler: `CC` if set, else the first one installed. Returns the command and its
/// version line.
pub fn find_compiler() -> Option<(String, String)> {
    let named = std::env::var("CC").ok().filter(|name| !name.trim().is_empty());
    let known = ["cc", "gcc", "clang", "clang-21", "clang-20", "clang-19", "clang-18", "clang-17"];
    let candidates = match named {
        Some(named) => vec![named],
        None => known.map(str::to_owned).to_vec(),
    };
    candidates.into_iter().find_map(|name| {
        let output = Command::new(&name).arg("--version").output().ok()?;
        let first = String::from_utf8_lossy(&output.stdout).lines().next()?.trim().to_owned();
        output.status.success().then_some((name, first))
    })
}

/// Compiles the file or files of one module, or returns the cached object.
pub(super) fn compile(
    files: &[File<'_>],
    kind: &Kind,
    api: Api,
    options: &Options,
) -> Result<Compiled, String> {
    let (program, compiler) = find_compiler().ok_or_else(|| match std::env::var("CC") {
        Ok(named) if !named.trim().is_empty() => format!("CC is \"{named}\", which cannot be run"),
        _ => "there is no C compiler to compile it with (cc, gcc or clang): \
              apt-get install gcc, or name one in CC"
            .to_owned(),
    })?;
    let cache = &Cache::open()?;
    let include = &cache.headers("include", &header_texts())?;
    let forms: Vec<(&str, String)> = match (kind, options.linux) {
        (Kind::KernelModule, Some(linux)) => vec![(linux.cong_control_arguments(), linux.code())],
        (Kind::KernelModule, None) => CONTROL_FORMS.map(|(n, code)| (n, code.to_owned())).into(),
        (Kind::Contract { .. }, _) => vec![(CONTROL_FORMS[0].0, CONTROL_FORMS[0].1.to_owned())],
    };
    let (program, compiler) = (&program, &compiler);
    let job = |(arguments, version)| Job {
        program,
        compiler,
        files,
        kind,
        api,
        options,
        arguments,
        version,
        cache,
        include,
    };
    let jobs: Vec<Job<'_>> = forms.into_iter().map(job).collect();
    job::compile(&jobs, cache)
}

/// The key of an object in the cache, and the code appended to each file.
struct Key {
    hex: String,
    behind: Vec<String>,
    headers: Vec<(PathBuf, String)>,
    private_types: Vec<String>,
    /// Files that the preprocessor has read in the folders. The compiler reads no others there.
    read: Vec<PathBuf>,
}

/// One compilation: the files with one form of `cong_control`.
struct Job<'a> {
    program: &'a str,
    compiler: &'a str,
    files: &'a [File<'a>],
    kind: &'a Kind,
    api: Api,
    options: &'a Options,
    /// Number of arguments of `cong_control`; `version` holds the matching `LINUX_VERSION_CODE`.
    arguments: &'a str,
    version: String,
    cache: &'a Cache,
    include: &'a Path,
}

impl Job<'_> {
    /// Returns the compiler command with the flags common to all files.
    fn command(&self) -> Command {
        let mut command = Command::new(self.program);
        command.env("LC_ALL", "C").args(FLAGS);
        // Report all errors at once, with the same text in every locale.
        let is_clang = self.compiler.contains("clang");
        command.args(if is_clang { &CLANG_FLAGS[..] } else { &GCC_FLAGS[..] });
        command.arg(format!("-I{}", self.include.display()));
        command.arg(format!("-DKNEE_CONG_CONTROL_ARGUMENTS={}", self.arguments));
        command.arg(format!("-DKNEE_LINUX_VERSION={}", self.version));
        if self.options.linux.is_some_and(LinuxApi::takes_missing_returns) {
            command.arg("-Wno-error=return-type");
        }
        if self.api == Api::V3 {
            command.arg("-DKNEE_API_V3");
        }
        if let Kind::Contract { algorithm } = self.kind {
            command.arg(format!("-DKNEE_ALGORITHM={algorithm}"));
            command.arg(format!("-I{}", self.include.join("knee").display()));
        }
        command
    }

    /// Returns the compiler command for one file, with the user's options.
    fn command_for(&self, file: File<'_>) -> Command {
        let mut command = self.command();
        command.arg(format!("-DKNEE_MODULE_NAME=\"{}\"", identifier(file.path)));
        command.args(self.options.define.iter().map(|define| format!("-D{define}")));
        for folder in &self.options.include {
            command.arg("-I").arg(folder);
        }
        command
    }

    /// Returns the headers in a preprocessed text that are not knee's, each with its SHA-256.
    fn headers_in(&self, file: File<'_>, preprocessed: &str) -> Vec<(PathBuf, String)> {
        let named =
            preprocessed.lines().filter_map(|line| line.strip_prefix("# ")?.split('"').nth(1));
        let mut paths: Vec<&Path> = named
            .filter(|name| !name.starts_with('<'))
            .map(Path::new)
            .filter(|path| *path != file.path && !path.starts_with(self.include))
            // A `#line` can name any path, so only paths in the folders count.
            .filter(|path| self.folders().any(|folder| path.starts_with(folder)))
            .collect();
        paths.sort();
        paths.dedup();
        let hashed = |path: &Path| {
            let text = knee_files::read_text(path, MAX_SOURCE_BYTES, "header").ok()?;
            Some((path.to_owned(), sha256::hex(text.as_bytes())))
        };
        paths.into_iter().filter_map(hashed).collect()
    }

    /// Folders whose headers the files may include: the files' own, and those that the user names.
    fn folders(&self) -> impl Iterator<Item = &Path> {
        let own = self.files.iter().map(|file| folder_of(file.path));
        own.chain(self.options.include.iter().map(PathBuf::as_path))
    }

    /// What the preprocessor may read.
    fn room(&self) -> Room {
        let files = self.files.iter().map(|file| file.path);
        Room::reading(self.folders().chain(files).chain([self.include]))
    }

    /// The headers that the files may include; `more` is one more folder of them.
    fn includes(&self, more: Option<&Path>) -> Includes {
        Includes::new(self.include, more.into_iter().chain(self.folders()))
    }

    /// Runs the compiler within its bounds and checks the headers that it includes.
    fn carry_out(&self, command: &mut Command, room: &Room) -> Result<Ran, Refusal> {
        self.carry_out_with(command, room, None)
    }

    /// Like `carry_out`, with one more folder of headers.
    fn carry_out_with(
        &self,
        command: &mut Command,
        room: &Room,
        more: Option<&Path>,
    ) -> Result<Ran, Refusal> {
        let ran = bounded::run(command, None, bounded::MOST_PREPROCESSED, room)
            .map_err(|why| Refusal::Says(format!("the compiler cannot be run: {why}")))?;
        job::checked(ran, &self.includes(more), Path::new(""))
    }

    fn compiled(&self, object: PathBuf, key: &Key) -> Compiled {
        let (headers, private_types) = (key.headers.clone(), key.private_types.clone());
        Compiled { object, compiler: self.compiler.to_owned(), headers, private_types }
    }

    /// A directory that the compiler may write.
    fn work(&self) -> Result<Work, Refusal> {
        self.cache.work().map_err(Refusal::Says)
    }

    /// Compiles one file with its appended code. Messages show the file's own name and lines.
    fn compile_one(
        &self,
        file: File<'_>,
        behind: &str,
        number: u32,
        read: &[PathBuf],
        work: &Work,
    ) -> Result<PathBuf, Refusal> {
        let [whole, to] = ["c", "o"].map(|ending| work.path().join(format!("{number}.{ending}")));
        let failed = |why| Refusal::Says(self.cache.failed(&why));
        knee_files::write(&whole, with_behind(file, number, behind)).map_err(failed)?;
        let mut command = self.command_for(file);
        command.arg("-iquote").arg(folder_of(file.path));
        command.arg("-H").arg("-c").arg(&whole).arg("-o").arg(&to);
        let reads = read.iter().map(PathBuf::as_path).chain([self.include]);
        self.carry_out(&mut command, &Room::reading(reads).writing(work.path()))?;
        Ok(to)
    }

    /// Compiles the support code for every file, once for each form.
    fn support(&self) -> Result<Vec<PathBuf>, Refusal> {
        let support = match self.kind {
            Kind::KernelModule => "support.c",
            Kind::Contract { .. } => "file.c",
        };
        let flags = FLAGS.join(" ");
        let place = self.include.display().to_string();
        let failed = |why| Refusal::Says(self.cache.failed(&why));
        let mut objects = Vec::new();
        for name in [support, "host.c"] {
            let algorithm = match self.kind {
                Kind::Contract { algorithm } if name == "file.c" => algorithm,
                _ => "",
            };
            let api = self.api.name();
            let of_module = [name, self.arguments, &self.version, api, algorithm];
            let what = [&[self.compiler, &flags, &place][..], &of_module].concat();
            let key = sha256::hex(what.join("\0").as_bytes());
            let object = self.cache.object(&key, "o");
            if self.cache.existing(&key, "o").is_none() {
                let work = self.work()?;
                let partial = work.path().join("support.o");
                let mut command = self.command();
                command.arg("-I").arg(self.include.join("knee")).arg("-c");
                command.arg(self.include.join(name)).arg("-o").arg(&partial);
                let room = Room::reading([self.include]).writing(work.path());
                self.carry_out(&mut command, &room)?;
                knee_files::rename(&partial, &object).map_err(failed)?;
            }
            objects.push(object);
        }
        Ok(objects)
    }

    fn link(&self, objects: &[PathBuf], to: &Path, work: &Work) -> Result<(), Refusal> {
        let partial = work.path().join("module.so");
        let failed = |why| Refusal::Says(self.cache.failed(&why));
        let mut command = Command::new(self.program);
        command.env("LC_ALL", "C").args(LINK_FLAGS).args(objects).arg("-o").arg(&partial);
        let room = Room::reading(objects).writing(work.path());
        let outcome = self
            .carry_out(&mut command, &room)
            .and_then(|_| knee_files::rename(&partial, to).map_err(failed));
        self.cache.remove_unused();
        outcome
    }
}

impl CompileJob for Job<'_> {
    type Key = Key;
    type Object = Compiled;

    // The same preprocessed text, compiler and linked files give the same object.
    fn key(&self) -> Result<Key, Refusal> {
        let mut all = Vec::new();
        let mut behind = Vec::new();
        let mut headers = Vec::new();
        let mut private_types = Vec::new();
        let mut read = Vec::new();
        for (file, number) in self.files.iter().zip(1..) {
            let mut command = self.command_for(*file);
            command.args(["-E", "-H"]).arg(bounded::as_file(file.path));
            let output = self.carry_out(&mut command, &self.room())?;
            let text = String::from_utf8_lossy(&output.stdout);
            bounded::check_text(file.text, &text).map_err(Refusal::Says)?;
            read.extend(self.includes(None).read(&output.stderr, Path::new("")));
            behind.push(match self.kind {
                Kind::KernelModule => {
                    let types = area::private_types(&text, area::stated_type(file.text));
                    let table = area::table_of_sizes(&types, &area::symbol(number));
                    private_types.extend(types);
                    table
                }
                Kind::Contract { .. } => String::new(),
            });
            headers.extend(self.headers_in(*file, &text));
            all.extend(&output.stdout);
            all.push(0);
        }
        headers.sort();
        headers.dedup();
        let (flags, link_flags) = (FLAGS.join(" "), LINK_FLAGS.join(" "));
        let api = self.api.name();
        for part in [api, self.compiler, SUPPORT, FILE, HOST, &flags, &link_flags, &self.version] {
            all.push(0);
            all.extend(part.as_bytes());
        }
        all.extend(behind.concat().as_bytes());
        Ok(Key { hex: sha256::hex(&all), behind, headers, private_types, read })
    }

    fn existing(&self, key: &Key) -> Option<Result<Compiled, String>> {
        Some(Ok(self.compiled(self.cache.existing(&key.hex, "so")?, key)))
    }

    fn make(&self, key: &Key) -> Result<Compiled, Refusal> {
        let object = self.cache.object(&key.hex, "so");
        let mut objects = self.support()?;
        let work = self.work()?;
        for ((file, behind), number) in self.files.iter().zip(&key.behind).zip(1..) {
            objects.push(self.compile_one(*file, behind, number, &key.read, &work)?);
        }
        self.link(&objects, &object, &work)?;
        Ok(self.compiled(object, key))
    }

    fn messages(&self, stubs: &Path) -> String {
        let mut all = String::new();
        for file in self.files {
            let mut command = self.command_for(*file);
            // The macros are those of the real compilation.
            command.args(["-DKNEE_FILE=1", "-fsyntax-only", "-H", "-I"]).arg(stubs);
            command.arg(bounded::as_file(file.path));
            let room = Room::reading(self.folders().chain([file.path, self.include, stubs]));
            if let Err(Refusal::Compiler(said)) =
                self.carry_out_with(&mut command, &room, Some(stubs))
            {
                all.push_str(&said);
            }
        }
        all
    }

    fn explain(&self, said: &str) -> String {
        let texts: Vec<(&Path, &str)> =
            self.files.iter().map(|file| (file.path, file.text)).collect();
        complaints::explain(complaints::Target::Simulator, self.compiler, said, &texts)
    }
}

/// Returns the folder of a file.
fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Converts a file's name to a module name, as the kernel does.
fn identifier(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

fn with_behind(file: File<'_>, number: u32, behind: &str) -> String {
    let shown = file.path.display().to_string();
    let named = shown.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', " ");
    format!(
        "#define KNEE_FILE {number}\n#line 1 \"{named}\"\n{}\n#line 1 \"knee\"{behind}",
        file.text
    )
}

/// The headers as files, for programs that compile against the contract.
pub(crate) struct Headers(PathBuf);

impl Headers {
    /// Returns the headers in the cache and writes them if necessary.
    pub(crate) fn kept() -> Result<Headers, String> {
        Ok(Headers(Cache::open()?.headers("include", &header_texts())?))
    }

    /// Folder of `tcp.h`.
    pub(crate) fn contract(&self) -> PathBuf {
        self.0.join("knee")
    }

    /// Folder of all headers.
    pub(crate) fn all(&self) -> &Path {
        &self.0
    }
}

/// Names and texts of the headers that are separate files.
pub(crate) fn headers() -> &'static [(&'static str, &'static str)] {
    HEADERS
}

/// Names and texts of all headers that a file may include. They are the contract's as `knee/NAME`,
/// the kernel's that modules name, and C's own.
pub fn header_texts() -> Vec<(String, String)> {
    let own = HEADERS.iter().chain(C_HEADERS).chain(&[
        ("support.c", SUPPORT),
        ("file.c", FILE),
        ("host.c", HOST),
    ]);
    let mut texts: Vec<(String, String)> =
        own.map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    let forward = "#include <knee/module_net.h>\n";
    for (folder, names) in KERNEL_HEADERS {
        let path = |name: &str| (format!("{folder}/{name}.h"), forward.to_owned());
        texts.extend(names.split_whitespace().map(path));
    }
    let of_own = |(name, own): &(&str, &str)| {
        ((*name).to_owned(), format!("{forward}#include <knee/{own}>\n"))
    };
    texts.extend(BESIDE_HEADERS.iter().map(of_own));
    texts
}

/// Returns the members of a struct in the contract's native header. A list of `fields.h` counts as
/// its fields.
pub(crate) fn fields(name: &str) -> Vec<&'static str> {
    let native = HEADERS.iter().find(|(header, _)| *header == "knee/native.h");
    let text = native.map_or("", |(_, text)| *text);
    let body = text.split_once(&format!("\nstruct {name} {{\n")).map_or("", |(_, rest)| rest);
    let body = body.split_once("\n}").map_or("", |(body, _)| body);
    let members = |line: &'static str| {
        let list = line.trim_start().strip_prefix("CC_").and_then(|rest| rest.split('(').next());
        let list = LISTS.iter().find(|(name, _)| list == Some(name));
        let member = || {
            let word = line.split_once(';')?.0.rsplit([' ', '\t', '*']).next()?;
            Some(word.split('[').next().unwrap_or(word))
        };
        list.map_or_else(|| member().into_iter().collect(), |(_, names)| names.to_vec())
    };
    body.lines().flat_map(members).filter(|name| !name.starts_with("cc_")).collect()
}
