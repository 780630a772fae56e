//! Takes what a kernel for guests is made of into the program: patches, algorithms, the guest's program.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let own = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let root = own.join("../..");
    let mut text = String::new();
    let folder = |path: &str| files(&own.join(path));
    let mut list = |name: &str, comment: &str, files: Vec<(String, PathBuf)>| {
        writeln!(text, "/// {comment}\npub(super) static {name}: &[(&str, &str)] = &[")
            .expect("a String takes all");
        for (name, path) in files {
            let path = path.canonicalize().expect("it was listed a moment ago");
            println!("cargo::rerun-if-changed={}", path.display());
            writeln!(text, "    ({name:?}, include_str!({path:?})),").expect("as above");
        }
        text.push_str("];\n");
    };
    let mut patches = Vec::new();
    for version in fs::read_dir(own.join("patches")).expect("the folder exists") {
        let version = version.expect("it can be read").file_name();
        let version = version.to_str().expect("ours are ASCII");
        let of_version = folder(&format!("patches/{version}"));
        patches
            .extend(of_version.into_iter().map(|(name, path)| (format!("{version}/{name}"), path)));
    }
    patches.sort();
    list("PATCHES", "Patches, as VERSION/NAME.", patches);
    list("GUEST", "The guest's program.", folder("guest"));
    list("DEVICES", "What knee adds to the kernel's drivers.", folder("kernel"));
    let mut algorithms = Vec::new();
    for (place, folder) in
        [("algorithms", "algorithms"), ("algorithms/include", "algorithms/include")]
    {
        let of_folder = files(&root.join(folder));
        algorithms
            .extend(of_folder.into_iter().map(|(name, path)| (format!("{place}/{name}"), path)));
    }
    let script = root.join("scripts/builtin-kernel");
    algorithms.push(("scripts/builtin-kernel".to_owned(), script));
    list("ALGORITHMS", "Algorithms, and the script that puts them into a tree.", algorithms);
    for folder in ["patches", "guest", "kernel", "../../algorithms", "../../algorithms/include"] {
        println!("cargo::rerun-if-changed={folder}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("files.rs"), text).expect("the output directory can be written");
}

/// The C files, headers and patches of a folder, by name.
fn files(folder: &Path) -> Vec<(String, PathBuf)> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .expect("the folder exists")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| ["c", "h", "patch"].iter().any(|e| extension == *e))
        })
        .map(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).expect("ours are ASCII");
            (name.to_owned(), path)
        })
        .collect();
    files.sort();
    files
}
