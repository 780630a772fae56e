//! Checks, before an object is loaded, which symbols it needs from the process.

use object::{Object as _, ObjectSection as _, ObjectSymbol as _};

/// C library functions that `support.c` and compilers call, and prefixes of compiler, memory and
/// string functions.
const NAMES: [&str; 7] = ["calloc", "free", "malloc", "realloc", "snprintf", "vsnprintf", "qsort"];
const BEGINS: [&str; 3] = ["__", "mem", "str"];
/// Sections whose code runs when the object is loaded or the process ends.
const STARTS: [&str; 5] = [".init_array", ".preinit_array", ".ctors", ".fini_array", ".dtors"];

/// Refuses an object that calls functions which exist in a process but in no kernel, or that runs
/// code at load time. The check finds mistakes. It does not stop malicious code, which has other
/// ways.
pub(super) fn check(bytes: &[u8]) -> Result<(), String> {
    let object =
        object::File::parse(bytes).map_err(|why| format!("its object cannot be read: {why}"))?;
    let starts = |section: object::Section<'_, '_>| {
        section.name().is_ok_and(|name| STARTS.contains(&name)) && section.size() > 0
    };
    if object.sections().any(starts) {
        return Err(
            "runs code when it is loaded or unloaded (a constructor or destructor), which no kernel module does: module_init and module_exit are there for that"
                .to_owned(),
        );
    }
    let is_known =
        |name: &str| NAMES.contains(&name) || BEGINS.iter().any(|begin| name.starts_with(begin));
    let wanted =
        object.dynamic_symbols().filter(|symbol| symbol.is_undefined() && !symbol.is_weak());
    let names = wanted.filter_map(|symbol| Some(symbol.name().ok()?.to_owned()));
    let mut strange: Vec<String> = names
        .filter(|name| !name.is_empty() && !is_known(name))
        .map(|name| format!("`{name}`"))
        .collect();
    strange.sort();
    strange.dedup();
    match strange.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "uses {}: knee's contract has no such function; see docs/modules.md#contract",
            strange.join(", ")
        )),
    }
}
