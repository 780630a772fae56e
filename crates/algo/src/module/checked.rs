//! Checks of files that run none of their code. Both loading and inspecting use them.

use std::fs;
use std::path::{Path, PathBuf};

use super::api::{self, Api};
use super::compile::{self, Compiled};
use super::source::{self, Kind};
use super::{Options, area, bounded, files_of, read, says, state_fields, symbols};
use crate::{Error, Field};

/// Files that passed the checks and may be loaded.
pub(super) struct Checked {
    pub(super) kind: Kind,
    pub(super) api: Api,
    pub(super) limits: Vec<String>,
    pub(super) compiled: Compiled,
}

/// Compiles the files of a module and refuses what no module may contain.
pub(super) fn checked(
    paths: &[PathBuf],
    texts: &[String],
    options: &Options,
) -> Result<Checked, Error> {
    let path = &*paths[0];
    let of_first = |why: String| says(path, &why);
    let kind = source::kind(&texts[0]).map_err(of_first)?;
    let mut api = Api::Linux;
    let mut limits = Vec::new();
    if matches!(kind, Kind::KernelModule) {
        for (path, text) in paths.iter().zip(texts) {
            api::refusal(text).map_or(Ok(()), |why| Err(says(path, &why)))?;
        }
        api = options.api.unwrap_or_else(|| Api::used_by(texts));
        limits = api::limits(texts, api);
    } else if paths.len() > 1 {
        let why = "is a file on knee's contract, which is one file: include what it needs";
        return Err(says(path, why));
    }
    let files: Vec<compile::File<'_>> =
        paths.iter().zip(texts).map(|(path, text)| compile::File { path, text }).collect();
    let compiled = compile::compile(&files, &kind, api, options).map_err(of_first)?;
    check_object(&compiled, paths.len(), api).map_err(of_first)?;
    Ok(Checked { kind, api, limits, compiled })
}

fn check_object(compiled: &Compiled, files: usize, api: Api) -> Result<(), String> {
    let path = &compiled.object;
    let bytes = knee_files::read_bounded(path, bounded::MOST_OBJECT, "object")
        .map_err(|why| format!("its object {} {why}", path.display()))?;
    symbols::check(&bytes)?;
    area::check_sizes(&bytes, files, &compiled.private_types, api.private_area_bytes())
}

/// Result of inspecting a Linux module.
#[derive(Debug)]
pub struct Inspected {
    /// Numeric fields of its state per connection.
    pub fields: Vec<Field>,
    /// Limits of its runs that the author may not expect: one sentence each, with the file's path
    /// in front.
    pub limits: Vec<String>,
}

/// Compiles a file for the simulator, or several as in `tcp_yeah.c+tcp_vegas.c`, and makes all
/// checks that precede its execution. It loads and runs nothing.
///
/// # Errors
/// [`Error::File`], which states the defect, in the compiler's words where these suffice.
pub fn inspect(name: &str, options: &Options) -> Result<Inspected, Error> {
    let paths = files_of(name, Path::new(""));
    let texts: Vec<String> = paths.iter().map(|path| read(path)).collect::<Result<_, _>>()?;
    let Checked { compiled, limits, .. } = checked(&paths, &texts, options)?;
    let object = fs::read(&compiled.object).unwrap_or_default();
    Ok(Inspected { fields: state_fields(&object, &compiled.private_types), limits })
}
