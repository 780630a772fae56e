//! The congestion control of a flow, as a file names it.

use std::path::Path;

use knee_algo::Algorithm;
use knee_algo::module::{Modules, files_of};
use knee_file::keys::{Below, Key, Shape, Table, Text};
use knee_file::{Error, Node, Reader, Reason, Value, one_of};
use knee_run::kernels_own::OF_LINUX;
use knee_run::spec::{Cc, KERNELS_OWN};

use crate::inputs;

/// What a case gives its traffic entries.
#[derive(Clone, Copy)]
pub(crate) struct Given<'a> {
    /// Algorithm of the entries that name none.
    pub(crate) cc: Option<&'a Cc>,
    /// Algorithm files of the experiment.
    pub(crate) modules: &'a Modules,
}

/// A table of parameters.
pub(crate) static PARAMS: Table = Table {
    name: "params",
    says: "Parameters of an algorithm: `knee algorithms NAME` lists them.",
    shape: || Shape::Any("names of parameters"),
};

/// Reads a congestion control and its parameters from two keys of a table.
pub(crate) fn read_cc(
    reader: &Reader<'_>,
    (name_key, params_key): (&Key<Text>, &Below),
    modules: &Modules,
) -> Result<Option<Cc>, Error> {
    let Some(name) = reader.text(name_key)? else {
        return match reader.has(params_key) {
            true => Err(reader.error(params_key, format!("needs {:?} too", name_key.as_ref()))),
            false => Ok(None),
        };
    };
    let folder = reader.file().parent().unwrap_or(Path::new(""));
    let mut cc =
        cc_named(name, folder, modules).map_err(|why| why.at(reader, name_key, name, modules))?;
    if let Some(params) = reader.child(params_key)? {
        if cc.is_kernels_own {
            let why = "does not apply to the kernel's own algorithm: leave it out, or use knee's";
            return Err(reader.error(params_key, why));
        }
        for (name, node) in params.entries() {
            set_param(&mut cc, name, node).map_err(|why| params.error(name, why))?;
            params.note(name, node.json());
        }
    }
    Ok(Some(cc))
}

/// Error of an algorithm's name: a sentence, then the compiler's output.
pub(crate) struct NoAlgorithm(Reason);

impl NoAlgorithm {
    /// Converts this to an error. `at` makes it from the sentence.
    pub(crate) fn of(&self, at: impl FnOnce(Reason) -> Error) -> Error {
        let Reason { message, allowed } = &self.0;
        let (first, lines) = message.split_once('\n').unwrap_or((message, ""));
        let mut error = at(Reason { message: first.to_owned(), allowed: allowed.clone() });
        error.more.lines = lines.into();
        error
    }

    /// Converts this to an error of a key that names the algorithm in the experiment's file. A compiler quotes what it reads: its
    /// output stays out if that can lie outside of the experiment's directory, as in [`inputs::without_content`].
    pub(crate) fn at(
        &self,
        reader: &Reader<'_>,
        key: &impl AsRef<str>,
        name: &str,
        modules: &Modules,
    ) -> Error {
        let mut error = self.of(|first| reader.error(key, first));
        let file = reader.file();
        let sources = files_of(name, file.parent().unwrap_or(Path::new("")));
        let mut all = sources.iter().chain(&modules.options().include);
        if !error.more.lines.is_empty() && !all.all(|path| inputs::is_beside(file, path)) {
            error.more.lines = format!(
                "  what the compiler says of it is not shown, because files outside of the experiment's directory take part: knee \
                 check {name} shows it"
            );
        }
        error
    }
}

/// Returns a congestion control by its algorithm's name or its file's path relative to `folder`. `kernel:` before a
/// name selects the running kernel's own algorithm, and so does a name without a knee file.
pub(crate) fn cc_named(name: &str, folder: &Path, modules: &Modules) -> Result<Cc, NoAlgorithm> {
    match name.strip_prefix(KERNELS_OWN) {
        None => algorithm_named(name, folder, modules)
            .map(Cc::new)
            .or_else(|why| Cc::kernels_own(name).ok_or(why)),
        Some(own) => {
            Cc::kernels_own(own).ok_or_else(|| NoAlgorithm(one_of(own, OF_LINUX.into_iter())))
        }
    }
}

fn algorithm_named(
    name: &str,
    folder: &Path,
    modules: &Modules,
) -> Result<&'static Algorithm, NoAlgorithm> {
    modules.named(name, folder).map_err(|why| match why {
        knee_algo::Error::UnknownAlgorithm(_) => NoAlgorithm(not_built(name).map_or_else(
            || one_of(name, Algorithm::all().iter().map(Algorithm::name)),
            Reason::from,
        )),
        why => NoAlgorithm(why.to_string().into()),
    })
}

/// Advice for an algorithm whose file is in the current clone, but newer than this build.
pub(crate) fn not_built(name: &str) -> Option<String> {
    let root = knee_algo::template::clone_root(Path::new("."))?;
    let file = format!("algorithms/{name}.c");
    root.join(&file).is_file().then(|| {
        format!(
            "this knee lacks {file}: run make build, or use --cc {file} in the root of the clone"
        )
    })
}

/// Sets one parameter from a number or a word of the file. The error lists the allowed values.
pub(crate) fn set_param(cc: &mut Cc, name: &str, node: &Node) -> Result<(), String> {
    let text = match &node.value {
        Value::Text(text) => text.clone(),
        Value::Integer(value) => value.to_string(),
        _ => node.show(),
    };
    cc.algorithm.set_param(&mut cc.params, name, &text).map_err(|why| why.to_string())
}
