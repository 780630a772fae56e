//! Compiles C on the contract to an object for BPF, as the build script does for knee's own files.
//! A cache keeps the object under a hash of all its inputs.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use knee_algo::module::bounded::{self, Includes, Ran};
use knee_algo::module::confine::Room;
use knee_algo::module::job::{self, CompileJob, Refusal};
use knee_algo::module::{Cache, ForBpf, Target, find_clang};
use knee_algo::{module, sha256};

use super::object::{IS_MODULE, LOOKS_AT_FLAG};
use super::{MOST_OBJECT_BYTES, OBJECT, flag, hash};

include!(concat!(env!("OUT_DIR"), "/headers.rs"));

/// The flags of `build.rs`. Nobody would see a warning, so the warnings that mean a wrong program
/// are errors.
const FLAGS: &[&str] = &[
    "-target",
    "bpf",
    "-std=gnu11",
    "-nostdinc",
    "-O2",
    "-g",
    "-Wno-everything",
    "-ferror-limit=0",
    "-fno-caret-diagnostics",
    "-Werror=implicit-function-declaration",
    "-Werror=implicit-int",
    "-Werror=int-conversion",
    "-Werror=incompatible-pointer-types",
    "-Werror=return-type",
];
/// The flags of the kernel's own build that Linux modules rely on.
const MODULE_FLAGS: &[&str] = &[
    "-fwrapv",
    "-fno-strict-aliasing",
    "-fno-delete-null-pointer-checks",
    "-funsigned-char",
    "-DMODULE",
    "-DKNEE_MODULE",
];
/// Divisions of signed values need the second one, which needs Linux 6.6. Knee's own algorithms
/// have none.
const CPUS: [&str; 2] = ["-mcpu=v3", "-mcpu=v4"];
/// Bytes of a file's name in its object, including the final zero (bpf.h).
const FILE_BYTES: usize = 64;
/// The options to preprocess and list all headers that a file reads, including system headers.
const LISTING: &[&str] = &["-E", "-H", "-Xclang", "-sys-header-deps"];

/// The kind of file to compile: a file on the contract as it is, or a Linux module with knee's code
/// around it.
pub(super) enum Kind {
    Contract,
    Module(ForBpf),
}

/// Compiles a file, or finds its object in the cache.
pub(super) fn compile(
    path: &Path,
    text: &str,
    kind: &Kind,
    clang: Option<&str>,
) -> Result<Vec<u8>, String> {
    let found = find_clang(clang).map_err(|why| {
        format!("{why}; where there is none, load what knee check FILE.c --object FILE.bpf.o made on a machine that has one")
    })?;
    let cache = Cache::open()?;
    let file = File::new(&cache, found, path, text, kind)?;
    let jobs: Vec<Job<'_>> = ways(kind).into_iter().map(|way| Job { file: &file, way }).collect();
    job::compile(&jobs, &cache)
}

/// One way to compile a file.
struct Job<'a> {
    file: &'a File<'a>,
    way: Way,
}

impl CompileJob for Job<'_> {
    type Key = Key;
    type Object = Vec<u8>;

    fn key(&self) -> Result<Key, Refusal> {
        self.file.key(&self.way)
    }

    fn existing(&self, key: &Key) -> Option<Result<Vec<u8>, String>> {
        let object = self.file.cache.existing(&key.hash, "bpf.o")?;
        let bytes = knee_files::read_bounded(&object, MOST_OBJECT_BYTES, OBJECT);
        Some(bytes.map_err(|why| format!("its object {} {why}", object.display())))
    }

    fn make(&self, key: &Key) -> Result<Vec<u8>, Refusal> {
        let (cache, bytes) = (self.file.cache, self.file.compile(&self.way, key)?);
        let object = cache.object(&key.hash, "bpf.o");
        knee_files::write(&object, &bytes).map_err(|why| Refusal::Says(cache.failed(&why)))?;
        cache.remove_unused();
        Ok(bytes)
    }

    fn messages(&self, stubs: &Path) -> String {
        let file = self.file;
        let folder = file.folder.as_deref().into_iter();
        let room = Room::reading(folder.chain([file.include.as_path(), stubs]));
        let only_looks = ["-fsyntax-only", "-H"];
        let most = bounded::MOST_PREPROCESSED;
        match file.run_with(&self.way, &only_looks, most, &room, Some(stubs)) {
            Err(Refusal::Compiler(said)) => said,
            _ => String::new(),
        }
    }

    fn explain(&self, said: &str) -> String {
        let File { path, text, version, no_folder, .. } = self.file;
        let why = module::explain(Target::Bpf, version, said, &[(path, text)]);
        match no_folder {
            Some(untrusted) if said.contains("file not found") => {
                format!("{why}\nheaders beside the file are not taken: {untrusted}")
            }
            _ => why,
        }
    }
}

/// One set of compiler arguments with which the file may compile.
type Way = Vec<String>;

/// The facts about a file that its preprocessor gives.
struct Key {
    /// The hash under which the cache keeps its object.
    hash: String,
    /// The compiler option that names the type of a Linux module's private state.
    state: Option<String>,
    /// Headers in the file's folder that the preprocessor has read. The compiler reads no others there.
    read: Vec<PathBuf>,
}

fn ways(kind: &Kind) -> Vec<Way> {
    if matches!(kind, Kind::Contract) {
        return vec![vec![CPUS[0].to_owned()]];
    }
    let way = |cpu: &str, (arguments, version): (&str, &str)| {
        let own = MODULE_FLAGS.iter().map(|flag| (*flag).to_owned());
        let form = [
            cpu.to_owned(),
            format!("-DKNEE_CONG_CONTROL_ARGUMENTS={arguments}"),
            format!("-DKNEE_LINUX_VERSION={version}"),
        ];
        own.chain(form).collect()
    };
    CPUS.iter().flat_map(|cpu| module::CONTROL_FORMS.map(|form| way(cpu, form))).collect()
}

/// One file to compile.
struct File<'a> {
    cache: &'a Cache,
    program: PathBuf,
    version: String,
    include: PathBuf,
    /// The folder of the file's own headers, if only trusted users can write to it.
    folder: Option<PathBuf>,
    /// The reason why there is no such folder.
    no_folder: Option<String>,
    path: &'a Path,
    /// The file's name in its object.
    file: String,
    text: &'a str,
    hash: String,
    kind: &'a Kind,
}

impl File<'_> {
    fn new<'a>(
        cache: &'a Cache,
        (program, version): (String, String),
        path: &'a Path,
        text: &'a str,
        kind: &'a Kind,
    ) -> Result<File<'a>, String> {
        let mut headers = module::header_texts();
        headers.extend(HEADERS.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())));
        let include = cache.headers("bpf", &headers)?;
        let beside = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = fs::canonicalize(beside.unwrap_or(Path::new("."))).ok();
        let trusted = folder.as_ref().map_or(Ok(()), |folder| knee_files::trust::check(folder));
        let no_folder = trusted.err().map(|why| why.to_string());
        let folder = folder.filter(|_| no_folder.is_none());
        // The compiler runs in another directory.
        let program = match program.contains('/') {
            true => std::path::absolute(program).map_err(|why| why.to_string())?,
            false => program.into(),
        };
        let (file, hash) = (file_name(path), hash(text));
        Ok(File {
            cache,
            program,
            version,
            include,
            folder,
            no_folder,
            path,
            file,
            text,
            hash,
            kind,
        })
    }

    /// The compiler with the arguments that all runs have in common. It runs in the folder of
    /// knee's headers, so no header of the user's current directory can replace one of them.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env("LC_ALL", "C").current_dir(&self.include).args(FLAGS);
        command.arg("-I").arg(self.include.join("knee")).arg("-I").arg(&self.include);
        // Knee's headers come first, before those beside the file.
        command.arg("-iquote").arg(self.include.join("knee"));
        if let Some(folder) = &self.folder {
            command.arg("-iquote").arg(folder);
        }
        // The same file gives the same object wherever it lies.
        for (from, to) in [(Some(&self.include), ""), (self.folder.as_ref(), "")] {
            if let Some(from) = from {
                let mut map = OsString::from("-ffile-prefix-map=");
                map.push(from);
                map.push("/=");
                map.push(to);
                command.arg(map);
            }
        }
        command.args(["-fdebug-compilation-dir=.", "-x", "c", "-"]);
        command
    }

    /// Collects the file's facts from the preprocessor. An error is the preprocessor's.
    fn key(&self, way: &Way) -> Result<Key, Refusal> {
        let folder = self.folder.as_deref().into_iter();
        let room = Room::reading(folder.chain([self.include.as_path()]));
        let ran = self.run(way, LISTING, bounded::MOST_PREPROCESSED, &room)?;
        let text = String::from_utf8_lossy(&ran.stdout);
        bounded::check_text(self.text, &text).map_err(Refusal::Says)?;
        let read = self.includes(None).read(&ran.stderr, &self.include);
        let mut all = ran.stdout;
        let state = match self.kind {
            Kind::Contract => None,
            Kind::Module(_) => {
                let text = String::from_utf8_lossy(&all);
                state_type(&module::private_types(&text, module::stated_type(self.text)))
            }
        };
        for part in [&FLAGS.join(" "), &way.join(" "), &self.file, &self.version, &self.hash] {
            all.push(0);
            all.extend(part.as_bytes());
        }
        Ok(Key { hash: sha256::hex(&all), state, read })
    }

    fn compile(&self, way: &Way, key: &Key) -> Result<Vec<u8>, Refusal> {
        let room = Room::reading(key.read.iter().chain([&self.include]));
        let bare = ["-c", "-o", "-", "-DCC_BARE"];
        let bare = self.run(way, &bare, MOST_OBJECT_BYTES, &room)?.stdout;
        let looks = u8::from(flag::is_in(&bare)) * LOOKS_AT_FLAG;
        let kind = looks | if matches!(self.kind, Kind::Module(_)) { IS_MODULE } else { 0 };
        let source = [
            format!("-DCC_SOURCE_SHA256=\"{}\"", self.hash),
            format!("-DCC_SOURCE_FILE=\"{}\"", self.file),
            format!("-DCC_SOURCE_KIND={kind}"),
        ];
        let mut more = vec!["-c", "-o", "-"];
        more.extend(source.iter().map(String::as_str).chain(key.state.as_deref()));
        Ok(self.run(way, &more, MOST_OBJECT_BYTES, &room)?.stdout)
    }

    /// Runs the compiler, and reads at most `limit` bytes of its output.
    fn run(&self, way: &Way, more: &[&str], limit: u64, room: &Room) -> Result<Ran, Refusal> {
        self.run_with(way, more, limit, room, None)
    }

    /// The headers that the file may include; `stubs` is one more folder of them.
    fn includes(&self, stubs: Option<&Path>) -> Includes {
        Includes::new(&self.include, self.folder.as_deref().into_iter().chain(stubs))
    }

    /// Runs the compiler as `run` does, with another folder of headers.
    fn run_with(
        &self,
        way: &Way,
        more: &[&str],
        limit: u64,
        room: &Room,
        stubs: Option<&Path>,
    ) -> Result<Ran, Refusal> {
        let mut command = self.command();
        command.args(way).args(more);
        if let Some(stubs) = stubs {
            command.arg("-I").arg(stubs);
        }
        let (before, text, behind) = match self.kind {
            Kind::Contract => ("", self.text, ""),
            Kind::Module(made) => (made.before, made.text.as_str(), made.behind.as_str()),
        };
        let text = format!("{before}#line 1 \"{}\"\n{text}{behind}", self.file);
        let ran = bounded::run(&mut command, Some(text), limit, room).map_err(|why| {
            Refusal::Says(format!("{} cannot be run: {why}", self.program.display()))
        })?;
        // Messages show the name that the user gave.
        let (name, shown) = (format!("{}:", self.file), format!("{}:", self.path.display()));
        let named = |line: &str| match line.strip_prefix(&name) {
            Some(rest) => format!("{shown}{rest}\n"),
            None => format!("{line}\n"),
        };
        job::checked(ran, &self.includes(stubs), &self.include).map_err(|why| match why {
            Refusal::Compiler(said) => Refusal::Compiler(said.lines().map(named).collect()),
            says => says,
        })
    }
}

/// The largest number of private-area types that are compared for size: each further one doubles
/// the expression.
const MOST_PRIVATE_TYPES: usize = 8;

/// The option that names the type in the private area: the largest of `types`. `None` if there are
/// none or too many.
fn state_type(types: &BTreeSet<String>) -> Option<String> {
    if types.len() > MOST_PRIVATE_TYPES {
        return None;
    }
    let mut types = types.iter();
    let first = format!("({} *)0", types.next()?);
    let largest = types.fold(first, |largest, next| {
        format!(
            "__builtin_choose_expr(sizeof({next}) > sizeof(*{largest}), ({next} *)0, {largest})"
        )
    });
    Some(format!("-D{}=__typeof__(*{largest})", module::STATE_TYPE))
}

/// The file's name without the characters that a C string or a terminal would interpret.
fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let plain = |c: char| if c.is_ascii_graphic() && !"\"\\?".contains(c) { c } else { '_' };
    name.chars().map(plain).take(FILE_BYTES - 1).collect()
}
