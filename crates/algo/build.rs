//! Compiles every `algorithms/*.c` and writes the table of them: the folder is the list. Those of
//! `src/testing` have a table of their own.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let algorithms = root.join("../../algorithms");
    let testing = root.join("src/testing");
    let include = algorithms.join("include");

    let mut build = cc::Build::new();
    build
        .include(&include)
        .std("gnu11")
        .warnings(true)
        .extra_warnings(true)
        .flag_if_supported("-Wno-unused-parameter")
        .flag_if_supported("-Wno-unused-function")
        .opt_level(2)
        .file(root.join("src/host.c"));
    // What C leaves undefined traps where tests and fuzzers run; traps need no library.
    let fuzzes = env::var_os("CARGO_CFG_FUZZING").is_some();
    if fuzzes || env::var("PROFILE").is_ok_and(|profile| profile == "debug") {
        build
            .flag_if_supported("-fsanitize=undefined")
            .flag_if_supported("-fsanitize-undefined-trap-on-error");
    }
    // A fuzzer follows the C code too where clang compiles it (CC=clang); gcc cannot say it so.
    if fuzzes {
        build.flag_if_supported("-fsanitize-coverage=inline-8bit-counters,pc-table,trace-cmp");
    }
    let mut tables = String::new();
    for (table_name, folder) in [("RAW", &algorithms), ("RAW_TESTING", &testing)] {
        let names = algorithm_names(folder);
        for name in &names {
            build.file(folder.join(format!("{name}.c")));
        }
        tables.push_str(&table(table_name, folder, &names));
    }
    build.compile("knee_algorithms");

    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("table.rs"), tables).expect("OUT_DIR is writable");

    fs::write(out.join("headers.rs"), headers(&root.join("module"), &include))
        .expect("OUT_DIR is writable");

    println!("cargo::rerun-if-changed=module");
    println!("cargo::rerun-if-changed={}", algorithms.display());
    println!("cargo::rerun-if-changed={}", include.display());
    println!("cargo::rerun-if-changed=src/host.c");
    println!("cargo::rerun-if-changed=src/testing");
}

fn algorithm_names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .expect("the folder exists")
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let is_c = path.extension().is_some_and(|extension| extension == "c");
            is_c.then(|| path.file_stem()?.to_str().map(str::to_owned))?
        })
        .collect();
    names.sort();
    names
}

/// The symbols that the macros of native.h give each algorithm, and one row for each.
fn table(table_name: &str, folder: &Path, names: &[String]) -> String {
    let mut text = String::from("unsafe extern \"C\" {\n");
    for name in names {
        write!(
            text,
            "    static cc_ops_{name}: Ops;\n    static cc_state_bytes_{name}: u32;\n    \
             static cc_params_{name}: RawParam;\n    static cc_params_len_{name}: u32;\n    \
             static cc_diag_{name}: RawDiag;\n    static cc_diag_len_{name}: u32;\n    \
             fn cc_diag_read_{name}(sk: *const TcpSock, out: *mut u64);\n"
        )
        .expect("a String takes all");
    }
    writeln!(text, "}}\n\nstatic {table_name}: &[Raw] = &[").expect("as above");
    for name in names {
        let path = folder.join(format!("{name}.c"));
        let path = path.canonicalize().expect("it was listed a moment ago");
        writeln!(
            text,
            "    Raw {{ name: \"{name}\", text: include_str!({path:?}), ops: &raw const cc_ops_{name}, \
             state_bytes: &raw const cc_state_bytes_{name}, params: &raw const cc_params_{name}, \
             params_len: &raw const cc_params_len_{name}, diag: &raw const cc_diag_{name}, \
             diag_len: &raw const cc_diag_len_{name}, diag_read: cc_diag_read_{name} }},"
        )
        .expect("a String takes all");
    }
    text.push_str("];\n");
    text
}

/// The headers of modules, with the contract's native half among them, as name and text.
fn headers(own: &Path, contract: &Path) -> String {
    let mut text = String::from("static HEADERS: &[(&str, &str)] = &[\n");
    for folder in [own, contract] {
        let mut paths: Vec<PathBuf> = fs::read_dir(folder)
            .expect("the folder exists")
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "h"))
            .collect();
        paths.sort();
        for path in paths {
            let path = path.canonicalize().expect("it was listed a moment ago");
            let name = path.file_name().and_then(|name| name.to_str()).expect("ours are ASCII");
            writeln!(text, "    (\"knee/{name}\", include_str!({path:?})),").expect("as above");
        }
    }
    text.push_str("];\n");
    text
}
