//! Algorithms compiled from files that somebody names: the source of a Linux module, unmodified, or a
//! file on the contract as those of `algorithms/`.
//!
//! [`load`] compiles a file into a shared object, once for the same content (`compile`), and reads from
//! a first copy of it what there is: operations, parameters, inside views. To run, each host of a
//! simulation loads its own copy ([`LoadedModules`]), because parameters of a module are global
//! variables, and it may have others: as in the kernel they belong to all connections of one host and
//! to nobody else. So results depend neither on the threads of a sweep nor on what ran before, and
//! variants of a module run side by side.
//!
//! This runs the file's native code inside the process: it can do whatever the process may.

mod area;
pub mod bounded;
mod cache;
mod clang;
mod compile;
mod complaints;
mod fault;
mod for_bpf;
mod guard;
mod image;
mod line;
mod running;
mod source;
mod symbols;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use cache::Cache;
pub use clang::{OLDEST_CLANG, find_clang};
pub use compile::{CONTROL_FORMS, find_compiler, header_texts};
pub(crate) use compile::{Headers, fields, headers};
pub use complaints::show_compiler;
pub use fault::Fault;
pub(crate) use fault::{NO_FLOW, Place, seconds};
pub use for_bpf::{ForBpf, for_bpf};
pub use running::LoadedModules;
pub(crate) use running::Running;

use crate::{Algorithm, DiagInfo, Error, Has, Origin, ParamInfo, diag_infos, param_infos, sha256};
pub use image::ParamType as ModuleParam;
use image::{FileTable, Image, ModuleTable, ParamType};
pub(crate) use source::without_comments;
use source::{Info, Kind};

/// No source file is longer than this.
pub const MAX_SOURCE_BYTES: u64 = 4 << 20;
/// What it is.
pub const WHAT: &str = "algorithm's source";

/// A file that an algorithm was compiled from.
#[derive(Debug)]
pub struct Module {
    /// As it was named.
    path: PathBuf,
    sha256: String,
    /// The shared object.
    object: PathBuf,
    compiler: String,
    is_kernel_module: bool,
    info: Option<Info>,
    /// Type of each parameter's variable; empty for a file on the contract.
    param_types: Vec<ParamType>,
    /// Distance of the first table of operations from the symbol that every copy has.
    first: isize,
    /// Copies that no host uses at the moment.
    idle: Mutex<Vec<Image>>,
    /// Other tables that connections fell back to, by their distance.
    others: Mutex<HashMap<isize, &'static Algorithm>>,
    /// Where functions of operations begin, as far as somebody asked.
    lines: Mutex<HashMap<&'static str, Option<line::Line>>>,
}

impl Module {
    /// The file, as it was named.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What `sha256sum` says of the file.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// The compiler, as it calls itself.
    pub fn compiler(&self) -> &str {
        &self.compiler
    }

    /// Whether it is the source of a Linux module; else it is on the contract.
    pub fn is_kernel_module(&self) -> bool {
        self.is_kernel_module
    }
}

/// Whether a name is that of a file rather than of an algorithm of the folder.
pub fn is_path(name: &str) -> bool {
    name.contains('/') || name.ends_with(".c")
}

/// The name of the algorithm of a file on the contract, by its text; `None`: it is the source of a Linux module.
///
/// # Errors
/// Why it is neither.
pub fn contract_name(text: &str) -> Result<Option<String>, String> {
    Ok(match source::kind(text)? {
        Kind::Contract { algorithm } => Some(algorithm),
        Kind::KernelModule => None,
    })
}

/// Whether a text is the source of a Linux module.
pub(crate) fn is_kernel_module(text: &str) -> bool {
    matches!(source::kind(text), Ok(Kind::KernelModule))
}

/// Whether files that have not been loaded are refused.
static ONLY_READS: AtomicBool = AtomicBool::new(false);

/// From here on no file is compiled and loaded that has not been: loading alone runs code of it, and who only wants to know what an
/// experiment says has not decided to trust the files that it names.
pub fn only_read() {
    ONLY_READS.store(true, Ordering::Relaxed);
}

/// The algorithm of a file, compiled if it has not been. A file is read once in the life of the
/// process: who edits it while a sweep runs does not change the rest of the sweep.
///
/// # Errors
/// [`Error::File`]: what is wrong with it, in the compiler's words where these say it.
pub fn load(path: &Path) -> Result<&'static Algorithm, Error> {
    static LOADED: Mutex<Vec<(PathBuf, &'static Algorithm)>> = Mutex::new(Vec::new());
    let mut loaded = lock(&LOADED);
    if let Some((_, algorithm)) = loaded.iter().find(|(prior, _)| *prior == path) {
        return Ok(algorithm);
    }
    let text = read(path)?;
    let place = fs::canonicalize(path).map_err(|why| says(path, &why.to_string()))?;
    let algorithm = match loaded.iter().find(|(prior, _)| *prior == place) {
        Some((_, algorithm)) => *algorithm,
        None if ONLY_READS.load(Ordering::Relaxed) => {
            let why = "is code that this command does not load, since that runs it: knee run does, for who trusts it; or name an \
                       algorithm of knee's";
            return Err(says(path, why));
        }
        None => {
            let taken: Vec<&str> = loaded.iter().map(|(_, algorithm)| algorithm.name()).collect();
            let name = name_of(path, &taken);
            Box::leak(Box::new(build(path, text, name)?))
        }
    };
    loaded.extend([(path.to_owned(), algorithm), (place, algorithm)]);
    Ok(algorithm)
}

/// The last part of a path, as text.
fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The one sentence about a file.
fn says(path: &Path, why: &str) -> Error {
    Error::File(format!("{}: {why}", path.display()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read(path: &Path) -> Result<String, Error> {
    if path.extension().is_none_or(|extension| extension != "c") && path.is_file() {
        return Err(says(path, "must be C source, in a file whose name ends in .c"));
    }
    knee_files::read_text(path, MAX_SOURCE_BYTES, WHAT).map_err(|why| says(path, &why.to_string()))
}

/// The file's name without extension, or the whole path if that is another algorithm's.
fn name_of(path: &Path, taken: &[&str]) -> &'static str {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let is_taken = |name: &str| {
        taken.contains(&name) || Algorithm::all().iter().any(|algorithm| algorithm.name() == name)
    };
    if is_taken(&stem) { path.display().to_string().leak() } else { stem.leak() }
}

fn build(path: &Path, text: String, name: &'static str) -> Result<Algorithm, Error> {
    let kind = source::kind(&text).map_err(|why| says(path, &why))?;
    let compiled = compile::compile(path, &text, &kind).map_err(|why| says(path, &why))?;
    let mut module = Module {
        path: path.to_owned(),
        sha256: sha256::hex(text.as_bytes()),
        object: compiled.object,
        compiler: compiled.compiler,
        is_kernel_module: matches!(kind, Kind::KernelModule),
        info: None,
        param_types: Vec::new(),
        first: 0,
        idle: Mutex::default(),
        others: Mutex::default(),
        lines: Mutex::default(),
    };
    let image = Image::load(&module).map_err(|why| says(path, &why))?;
    let text: &'static str = text.leak();
    let algorithm = match kind {
        Kind::Contract { .. } => {
            let table = image.file_table();
            module.first = image.distance(table.ops);
            of_contract_file(path, name, text, &table)?
        }
        Kind::KernelModule => {
            let table = image.module_table();
            let (params, types) = params_of(path, &table)?;
            module.param_types = types;
            let defaults: Vec<u32> = params.iter().map(|param| param.default).collect();
            image.start(&module, &defaults).map_err(|why| says(path, &why))?;
            let ops = image.first_registered().ok_or_else(|| {
                says(path, "its module_init registers no congestion control: it must call tcp_register_congestion_control")
            })?;
            module.first = image.distance(ops);
            module.info = source::info(text);
            let table = image.operations(ops);
            Algorithm {
                name,
                text,
                // What it uses of it is known to nobody but the file.
                state_bytes: crate::PRIVATE_AREA_BYTES,
                params,
                diag: module.info.map_or_else(Vec::new, Info::columns),
                flags: table.flags,
                has: Has::of(&table),
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
        flags: ops.flags,
        has: Has::of(ops),
        origin: Origin::Other { of: &Algorithm::all()[0], at: 0 },
    })
}

/// A module's parameters with the values of its variables as defaults.
fn params_of(path: &Path, table: &ModuleTable) -> Result<(Vec<ParamInfo>, Vec<ParamType>), Error> {
    let mut infos = Vec::new();
    let mut types = Vec::new();
    for (name, variable, kind) in table.params() {
        // A text is what the file says, and is not shown: there is nothing that could be set.
        if kind == ParamType::Text {
            types.push(kind);
            continue;
        }
        let default = variable.get(kind).ok_or_else(|| {
            says(path, &format!("parameter {name}: its default must fit 32 bits here"))
        })?;
        infos.extend(kind.info(name, default, table.meaning(name)));
        types.push(kind);
    }
    Ok((infos, types))
}

impl Info {
    fn columns(self) -> Vec<DiagInfo> {
        let columns = self.names_and_units();
        columns.into_iter().map(|(name, unit)| DiagInfo { name, unit, choices: "" }).collect()
    }
}
