//! Algorithms compiled from users' files: the unmodified source of a Linux module, or a file on the
//! contract like those of `algorithms/`.
//!
//! [`load`] and [`Modules`] compile a file into a shared object, once for the same content (`compile`). It reads
//! the operations, parameters and internal values from a first copy. Each host of a simulation then
//! loads its own copy ([`LoadedModules`]). A module's parameters are global variables, and it may
//! have others. As in the kernel, all connections of one host share them, and no other host does.
//! Results therefore do not depend on the threads of a sweep or on earlier runs, and variants of a
//! module run side by side.
//!
//! The file's native code runs inside the process and can do whatever the process may.

mod api;
mod area;
mod blame;
pub mod bounded;
mod cache;
mod checked;
mod clang;
mod compile;
mod complaints;
pub mod confine;
mod fault;
mod for_bpf;
mod guard;
mod handlers;
mod image;
pub mod job;
mod line;
mod log;
mod options;
mod running;
mod shown;
mod source;
mod symbols;
mod writes;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use api::Api;
pub use area::{private_types, stated_type};
pub use blame::carry_out;
pub use cache::{Cache, Work};
use checked::{Checked, checked};
pub use checked::{Inspected, inspect};
pub use clang::{OLDEST_CLANG, find_clang};
pub use compile::{CONTROL_FORMS, find_compiler, header_texts};
pub(crate) use compile::{Headers, fields, headers};
pub use complaints::{Target, explain};
pub(crate) use complaints::{lacks, plainer};
pub use fault::Fault;
pub(crate) use fault::{NO_FLOW, Place, seconds};
pub use for_bpf::{ForBpf, INIT_PROGRAM, PARAM_TYPE, PARAMS_TOLD, STATE_TYPE, for_bpf};
pub use guard::InRun;
pub use log::Printed;
pub use options::{LinuxApi, Options};
pub use running::LoadedModules;
pub(crate) use running::Running;

use crate::dwarf::{self, State};
use crate::{
    Algorithm, DiagInfo, Error, Field, FieldKind, Has, Origin, ParamInfo, diag_infos, param_infos,
    sha256,
};
pub use image::ParamType as ModuleParam;
use image::{FileTable, Image, ModuleTable, ParamType};
use source::{Info, Kind};

/// Largest size of a source file, in bytes.
pub const MAX_SOURCE_BYTES: u64 = 4 << 20;
/// Description of such a file in messages.
pub const WHAT: &str = "algorithm's source";

/// Most columns of internal values. Further ones are omitted.
const MOST_COLUMNS: usize = 128;

/// A module: the file or files from which an algorithm was compiled.
#[derive(Debug)]
pub struct Module {
    /// Path as the user gave it; the first one of several.
    path: PathBuf,
    sha256: String,
    /// The further files of the module, and the user's headers, each with its SHA-256.
    others_read: Vec<(PathBuf, String)>,
    /// Number of source files.
    files: u32,
    /// Text of the first file.
    text: &'static str,
    options: Options,
    /// Path of the shared object.
    object: PathBuf,
    compiler: String,
    limits: Vec<String>,
    /// The `.name` in the table, which is the kernel's name of the algorithm.
    kernel_name: String,
    is_kernel_module: bool,
    /// The API that its names belong to.
    api: Api,
    info: Option<Info>,
    /// Fields of the private area that are shown as columns, after those of `info`.
    shown: Vec<Field>,
    /// Types of the parameters' variables; empty for a file on the contract.
    param_types: Vec<ParamType>,
    /// Distance of the first table of operations from the symbol, which every copy has.
    first: isize,
    /// Copies that no host uses at present.
    idle: Mutex<Vec<Image>>,
    /// Other tables to which connections fell back, by their distance.
    others: Mutex<HashMap<isize, &'static Algorithm>>,
    /// Lines at which functions of operations begin, as far as they were looked up.
    lines: Mutex<HashMap<&'static str, Option<line::Line>>>,
}

impl Module {
    /// Returns the path as the user gave it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the SHA-256 of the file, as `sha256sum` prints it.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Returns the other inputs, each with its SHA-256: further files named with the first, and
    /// headers that are not knee's.
    pub fn others_read(&self) -> &[(PathBuf, String)] {
        &self.others_read
    }

    /// Returns whether its files, of which these are the sources, and the user's headers are as they were.
    fn is_unchanged(&self, texts: &[String]) -> bool {
        let is_so = |(path, sha256): &(PathBuf, String)| {
            fs::read(path).is_ok_and(|bytes| sha256::hex(&bytes) == *sha256)
        };
        sha256::hex(texts[0].as_bytes()) == self.sha256 && self.others_read.iter().all(is_so)
    }

    /// Returns the options of the compilation.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Returns the number of source files.
    fn files(&self) -> u32 {
        self.files
    }

    /// Returns the name of the file.
    fn shown(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Returns the version line of the compiler.
    pub fn compiler(&self) -> &str {
        &self.compiler
    }

    /// Checks that a kernel can load the module: it is one file, compiled without options.
    ///
    /// # Errors
    /// The reason why a kernel cannot.
    pub fn check_plain(&self) -> Result<(), &'static str> {
        let is_source = |path: &Path| path.extension().is_some_and(|extension| extension == "c");
        let is_alone = !self.others_read.iter().any(|(path, _)| is_source(path));
        match is_alone && self.options.is_empty() {
            true => Ok(()),
            false => Err(
                "is made of several files, or with --cc-define, --cc-include, --linux or --api, which is for the simulator: \
                 a kernel takes one file that needs none of them",
            ),
        }
    }

    /// Returns the kernel API that it is compiled against.
    pub fn api(&self) -> Api {
        self.api
    }

    /// Returns the limits of its runs that its author may not expect: one sentence each, with the
    /// file's path in front.
    pub fn limits(&self) -> Vec<String> {
        self.limits.clone()
    }

    /// Returns the kernel's name of the algorithm: the `.name` in its table.
    pub fn kernel_name(&self) -> &str {
        &self.kernel_name
    }

    /// Returns whether the file is the source of a Linux module. Otherwise it is on the contract.
    pub fn is_kernel_module(&self) -> bool {
        self.is_kernel_module
    }
}

/// Returns whether a name denotes a file, not a built-in algorithm.
pub fn is_path(name: &str) -> bool {
    name.contains('/') || name.ends_with(".c")
}

/// Separator between the files of one module.
const AND: &str = ".c+";

/// Returns whether a name denotes several files that make one module.
pub fn is_of_several_files(name: &str) -> bool {
    files_of(name, Path::new("")).len() > 1
}

/// Returns the files that a name denotes: `a.c+b.c` are two files of one module. The second is in
/// the folder of the first, unless its own name has a folder.
pub fn files_of(name: &str, folder: &Path) -> Vec<PathBuf> {
    let mut names: Vec<String> = name.split(AND).map(|part| format!("{part}.c")).collect();
    if let Some(last) = names.last_mut() {
        last.truncate(last.len() - ".c".len());
    }
    let first = folder.join(&names[0]);
    let beside = first.parent().unwrap_or(Path::new("")).to_owned();
    let place = |name: &String| match name.contains('/') {
        true => folder.join(name),
        false => beside.join(name),
    };
    std::iter::once(first).chain(names[1..].iter().map(place)).collect()
}

/// Returns the name of the algorithm in a file on the contract. `None` if the text is the source of
/// a Linux module.
///
/// # Errors
/// The reason why it is neither.
pub fn contract_name(text: &str) -> Result<Option<String>, String> {
    Ok(match source::kind(text)? {
        Kind::Contract { algorithm } => Some(algorithm),
        Kind::KernelModule => None,
    })
}

/// Returns why a BPF program is refused, with the way out. `None` for other texts.
pub(crate) fn refusal_of_bpf(text: &str) -> Option<String> {
    source::kind(text).err().filter(|_| source::is_bpf_program(text))
}

/// Returns whether a text is the source of a Linux module.
pub(crate) fn is_kernel_module(text: &str) -> bool {
    matches!(source::kind(text), Ok(Kind::KernelModule))
}

/// Returns the algorithm of a file, and compiles the file if no other call has compiled the same content.
///
/// # Errors
/// [`Error::File`], which states the defect, in the compiler's words where these suffice.
pub fn load(path: &Path) -> Result<&'static Algorithm, Error> {
    Modules::default().load(vec![path.to_owned()])
}

/// The algorithm files of one experiment, or of one command. Each file is read once, so an edit during a sweep does not
/// change the rest of the sweep. Others read it anew.
#[derive(Debug, Default)]
pub struct Modules {
    options: Options,
    /// Whether files that are not here yet are refused.
    only_reads: bool,
    loaded: Mutex<Vec<(Vec<PathBuf>, &'static Algorithm)>>,
}

impl Modules {
    /// Creates an empty set, whose files are compiled with these options.
    pub fn new(options: Options) -> Modules {
        Modules { options, ..Modules::default() }
    }

    /// Returns what its files are compiled with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Refuses all files but those that were loaded. Loading alone runs code of the file, and a user who only reads an
    /// experiment has not decided to trust the files that it names.
    #[must_use]
    pub fn only_reading(self) -> Modules {
        Modules { only_reads: true, ..self }
    }

    /// Returns the built-in algorithm of this name, or that of the file or files at this path (`tcp_yeah.c+tcp_vegas.c`).
    /// Relative paths start from a folder.
    ///
    /// # Errors
    /// [`Error::UnknownAlgorithm`], which lists the known names, and the errors of [`load`].
    pub fn named(&self, name: &str, folder: &Path) -> Result<&'static Algorithm, Error> {
        match is_path(name) {
            true => self.load(files_of(name, folder)),
            false => Algorithm::by_name(name),
        }
    }

    fn load(&self, paths: Vec<PathBuf>) -> Result<&'static Algorithm, Error> {
        let mut loaded = lock(&self.loaded);
        let same = |all: &[(Vec<PathBuf>, &'static Algorithm)], paths: &[PathBuf]| {
            let found = all.iter().find(|(prior, _)| *prior == *paths);
            found.map(|(_, algorithm)| *algorithm)
        };
        if let Some(algorithm) = same(&loaded, &paths) {
            return Ok(algorithm);
        }
        let mut texts = Vec::new();
        let mut places = Vec::new();
        for path in &paths {
            texts.push(read(path)?);
            places.push(fs::canonicalize(path).map_err(|why| says(path, &why.to_string()))?);
        }
        let algorithm = match same(&loaded, &places) {
            Some(algorithm) => algorithm,
            None if self.only_reads => {
                let why = "is code that this command does not load, since that runs it: knee run does, for who trusts it; or name an \
                           algorithm of knee's";
                return Err(says(&paths[0], why));
            }
            None => {
                let taken: Vec<&str> =
                    loaded.iter().map(|(_, algorithm)| algorithm.name()).collect();
                let name = name_of(&paths[0], &taken);
                built(&paths, &places, texts, &name, &self.options)?
            }
        };
        loaded.extend([(paths, algorithm), (places, algorithm)]);
        Ok(algorithm)
    }
}

/// Returns the algorithm of a content. It is compiled once per process, because its memory is never freed.
fn built(
    paths: &[PathBuf],
    places: &[PathBuf],
    texts: Vec<String>,
    name: &str,
    options: &Options,
) -> Result<&'static Algorithm, Error> {
    type Built = (Vec<PathBuf>, &'static Algorithm);
    static BUILT: Mutex<Vec<Built>> = Mutex::new(Vec::new());
    let mut all = lock(&BUILT);
    let is_it = |(at, algorithm): &&Built| {
        let is_as_read = |module: &Module| {
            module.path == paths[0] && module.options == *options && module.is_unchanged(&texts)
        };
        *at == *places && algorithm.name() == name && algorithm.module().is_some_and(is_as_read)
    };
    if let Some((_, algorithm)) = all.iter().find(is_it) {
        return Ok(algorithm);
    }
    let algorithm: &Algorithm = Box::leak(Box::new(build(paths, texts, name, options)?));
    all.push((places.to_owned(), algorithm));
    Ok(algorithm)
}

/// Returns the last part of a path as text.
fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Builds the error about a file.
fn says(path: &Path, why: &str) -> Error {
    Error::File(format!("{}: {why}", path.display()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads a source, whose name ends in `.c`.
pub(crate) fn read(path: &Path) -> Result<String, Error> {
    if path.extension().is_none_or(|extension| extension != "c") && path.is_file() {
        return Err(says(path, "must be C source, in a file whose name ends in .c"));
    }
    knee_files::read_text(path, MAX_SOURCE_BYTES, WHAT).map_err(|why| says(path, &why.to_string()))
}

/// Returns the file's name without extension, or the whole path if another algorithm has that name.
fn name_of(path: &Path, taken: &[&str]) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let is_taken = |name: &str| {
        taken.contains(&name) || Algorithm::all().iter().any(|algorithm| algorithm.name() == name)
    };
    if is_taken(&stem) { path.display().to_string() } else { stem }
}

fn build(
    paths: &[PathBuf],
    mut texts: Vec<String>,
    name: &str,
    options: &Options,
) -> Result<Algorithm, Error> {
    let path = &*paths[0];
    let Checked { kind, api, limits, compiled } = checked(paths, &texts, options)?;
    let is_kernel_module = matches!(kind, Kind::KernelModule);
    let others = paths.iter().zip(&texts).skip(1);
    let mut others_read: Vec<(PathBuf, String)> =
        others.map(|(path, text)| (path.clone(), sha256::hex(text.as_bytes()))).collect();
    others_read.extend(compiled.headers);
    let text: &'static str = std::mem::take(&mut texts[0]).leak();
    let name: &'static str = name.to_owned().leak();
    let mut module = Module {
        path: path.to_owned(),
        sha256: sha256::hex(text.as_bytes()),
        others_read,
        files: paths.len() as u32,
        text,
        options: options.clone(),
        object: compiled.object,
        compiler: compiled.compiler,
        limits,
        is_kernel_module,
        api,
        kernel_name: String::new(),
        info: None,
        shown: Vec::new(),
        param_types: Vec::new(),
        first: 0,
        idle: Mutex::default(),
        others: Mutex::default(),
        lines: Mutex::default(),
    };
    let object = fs::read(&module.object).unwrap_or_default();
    let fields = state_fields(&object, &compiled.private_types);
    let image = Image::load(&module).map_err(|why| says(path, &why))?;
    let algorithm = match kind {
        Kind::Contract { .. } => {
            let table = image.file_table();
            module.kernel_name = table.operations().name();
            module.first = image.distance(table.ops);
            Algorithm { fields, ..of_contract_file(path, name, text, &table)? }
        }
        Kind::KernelModule => {
            let table = image.module_table();
            let (params, types) = params_of(path, &table, image.calls(&module))?;
            module.param_types = types;
            let defaults: Vec<u32> = params.iter().map(|param| param.default).collect();
            image
                .start(&module, &defaults, &[], &log::Log::default())
                .map_err(|why| says(path, &why))?;
            let ops = image.first_registered().ok_or_else(|| {
                says(path, "its module_init registers no congestion control: it must call tcp_register_congestion_control")
            })?;
            module.first = image.distance(ops);
            module.info = source::info(text).filter(|info| info.is_its_own() || fields.is_empty());
            let diag = columns(&mut module, &fields);
            let patched = image.patched_operations(ops);
            let table = image.operations(ops);
            module.kernel_name = table.name();
            Algorithm {
                name,
                text,
                // Only the file knows how much of the area it uses, so the whole area counts.
                state_bytes: api.private_area_bytes(),
                params,
                diag,
                fields,
                flags: table.flags,
                has: Has::of(&table).with_patched(api == Api::V3, patched),
                origin: Origin::Other { of: &Algorithm::all()[0], at: 0 },
            }
        }
    };
    lock(&module.idle).push(image);
    Ok(Algorithm { origin: Origin::File(Box::new(module)), ..algorithm })
}

fn of_contract_file(
    path: &Path,
    name: &'static str,
    text: &'static str,
    table: &FileTable,
) -> Result<Algorithm, Error> {
    let ops = table.operations();
    if ops.ssthresh.is_none()
        || ops.undo_cwnd.is_none()
        || ops.cong_avoid.is_some() == ops.cong_control.is_some()
    {
        return Err(says(
            path,
            "CC_ALGORITHM needs .ssthresh, .undo_cwnd, and one of .cong_avoid and .cong_control",
        ));
    }
    Ok(Algorithm {
        name,
        text,
        state_bytes: table.state_bytes(),
        params: param_infos(table.params()),
        diag: diag_infos(table.diag()),
        fields: Vec::new(),
        flags: ops.flags,
        has: Has::of(ops),
        origin: Origin::Other { of: &Algorithm::all()[0], at: 0 },
    })
}

/// Returns a module's parameters. The values of its variables are the defaults.
fn params_of(
    path: &Path,
    table: &ModuleTable,
    calls: image::Calls<'_>,
) -> Result<(Vec<ParamInfo>, Vec<ParamType>), Error> {
    let mut infos = Vec::new();
    let mut types = Vec::new();
    for param in table.params() {
        let (name, kind) = (param.name, param.kind);
        // A text parameter is not listed, because it cannot be set.
        if kind == ParamType::Text {
            types.push(kind);
            continue;
        }
        let default =
            param.get(table, calls).map_err(|why| says(path, &why))?.ok_or_else(|| {
                says(
                    path,
                    &format!("parameter {name}: its default must be a number of 32 bits here"),
                )
            })?;
        infos.extend(kind.info(name, default, table.meaning(name)));
        types.push(kind);
    }
    Ok((infos, types))
}

impl Info {
    fn columns(self) -> Vec<DiagInfo> {
        let columns = self.names_and_units();
        let column = |(name, unit)| DiagInfo { name, unit, choices: "", is_signed: false };
        columns.into_iter().map(column).collect()
    }
}

/// Returns the fields of a file's state per connection, from the object's debug information. It
/// runs no code of the object.
fn state_fields(object: &[u8], private_types: &[String]) -> Vec<Field> {
    let state = match private_types.is_empty() {
        true => State::ReturnedBy("cc_state"),
        false => State::OneOf(private_types),
    };
    dwarf::find(object, &state).unwrap_or_default().fields
}

/// Returns the columns that a module shows: the values of its `get_info`, then the fields of its
/// private struct with other names.
fn columns(module: &mut Module, fields: &[Field]) -> Vec<DiagInfo> {
    let mut columns = module.info.map_or_else(Vec::new, Info::columns);
    for field in fields {
        let is_known = columns.iter().any(|column| column.name == field.name());
        let (is_signed, choices) = match field.kind() {
            FieldKind::Pointer => continue,
            FieldKind::Signed => (true, ""),
            FieldKind::Named(names) => (false, names.as_str()),
            FieldKind::Unsigned => (false, ""),
        };
        if is_known || columns.len() >= MOST_COLUMNS {
            continue;
        }
        let (name, choices) = (field.name().to_owned().leak(), choices.to_owned().leak());
        columns.push(DiagInfo { name, unit: "", choices, is_signed });
        module.shown.push(field.clone());
    }
    columns
}
