//! Compiles every `algorithms/*.c` and every program of `programs/` for BPF, and writes tables of
//! the objects. The folders are the lists. Without clang the tables are empty and everything else
//! still builds.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The libraries share this module: they compile files of other people.
#[allow(unreachable_pub, reason = "it is the library's, where others use it")]
#[path = "../algo/src/module/clang.rs"]
mod clang;
#[path = "src/outside/flag.rs"]
mod flag;

use clang::{OLDEST_CLANG, find_clang};

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let libbpf = PathBuf::from(env::var_os("DEP_BPF_INCLUDE").expect("libbpf-sys sets it"));
    let algorithms = root.join("../../algorithms");
    let include = [algorithms.join("include"), root.join("src"), libbpf.clone()];

    println!("cargo::rerun-if-env-changed=KNEE_CLANG");
    println!("cargo::rerun-if-changed={}", algorithms.display());
    println!("cargo::rerun-if-changed=src/record.h");
    println!("cargo::rerun-if-changed=src/sock.h");
    println!("cargo::rerun-if-changed=src/outside/flag.rs");
    println!("cargo::rerun-if-changed=../algo/src/module/clang.rs");
    println!("cargo::rerun-if-changed=programs");
    println!("cargo::rerun-if-changed=../algo/src/testing");
    println!("cargo::rerun-if-changed=build.rs");

    let testing = root.join("../algo/src/testing");
    let mut table = String::new();
    let mut programs = String::from("static PROGRAMS: &[(&str, &[u8])] = &[\n");
    let clang = find_clang(None).ok().map(|(clang, _)| clang);
    for (list, folder) in [("EMBEDDED", &algorithms), ("EMBEDDED_FOR_TESTS", &testing)] {
        writeln!(table, "static {list}: &[Embedded] = &[").expect("a String takes all");
        let Some(clang) = &clang else {
            table.push_str("];\n");
            continue;
        };
        for name in names(folder) {
            let source = folder.join(format!("{name}.c"));
            let object = out.join(format!("{name}.bpf.o"));
            compile(clang, &include, &source, &object, &[]);
            let bare = out.join(format!("{name}.bare.o"));
            compile(clang, &include, &source, &bare, &["-DCC_BARE"]);
            let looks_at_flag = flag::is_in(&fs::read(&bare).expect("it was just compiled"));
            writeln!(
                table,
                "    Embedded {{ name: {name:?}, object: aligned!({object:?}), \
                 looks_at_flag: {looks_at_flag}, outside: None }},"
            )
            .expect("a String takes all");
        }
        table.push_str("];\n");
    }
    if let Some(clang) = clang {
        for name in names(&root.join("programs")) {
            let object = out.join(format!("{name}.o"));
            compile(&clang, &include, &root.join(format!("programs/{name}.c")), &object, &[]);
            let name = name.trim_end_matches(".bpf");
            writeln!(programs, "    ({name:?}, aligned!({object:?})),").expect("as above");
        }
    } else {
        println!(
            "cargo::warning=no clang {OLDEST_CLANG} or later with a BPF target found (apt-get install \
             clang-19, or set KNEE_CLANG): knee is built without its eBPF programs"
        );
    }
    programs.push_str("];\n");
    table.push_str(&programs);
    fs::write(out.join("embedded.rs"), table).expect("OUT_DIR is writable");
    fs::write(out.join("headers.rs"), headers(&root, &libbpf)).expect("OUT_DIR is writable");
}

/// The table of the headers, beside the contract's own, for compiling files of other people.
fn headers(root: &Path, libbpf: &Path) -> String {
    let ours =
        ["record.h", "sock.h"].map(|name| (format!("knee/{name}"), root.join("src").join(name)));
    let libbpfs = ["bpf_helpers.h", "bpf_helper_defs.h", "bpf_core_read.h"]
        .map(|name| (format!("knee/bpf/{name}"), libbpf.join("bpf").join(name)));
    let mut text = String::from("static HEADERS: &[(&str, &str)] = &[\n");
    for (name, path) in ours.into_iter().chain(libbpfs) {
        writeln!(text, "    ({name:?}, include_str!({path:?})),").expect("a String takes all");
    }
    text + "];\n"
}

fn names(folder: &Path) -> Vec<String> {
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

/// Removes the tree's path from the source lines that objects name. The path is private, and the
/// same source would give other bytes in another tree.
fn without_root() -> String {
    let own = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let root = own.ancestors().nth(2).unwrap_or(&own);
    format!("-ffile-prefix-map={}=knee", root.display())
}

fn compile(clang: &str, include: &[PathBuf], source: &Path, object: &Path, more: &[&str]) {
    let output = Command::new(clang)
        .args(["-target", "bpf", "-mcpu=v3", "-std=gnu11", "-O2", "-g", "-Wall", "-Werror"])
        .args(include.iter().map(|folder| format!("-I{}", folder.display())))
        .arg(without_root())
        .args(more)
        .arg("-c")
        .arg(source)
        .arg("-o")
        .arg(object)
        .output()
        .expect("it ran a moment ago");
    assert!(
        output.status.success(),
        "{} does not compile for BPF:\n{}",
        source.display(),
        String::from_utf8_lossy(&output.stderr)
    );
}
