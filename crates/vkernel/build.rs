//! Takes what a kernel for guests is made of into the program: patches and algorithms; and the guest's own program.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
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
    for folder in ["patches", "kernel", "../../algorithms", "../../algorithms/include"] {
        println!("cargo::rerun-if-changed={folder}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("files.rs"), text).expect("the output directory can be written");
    make_guest(&own, &out);
}

/// The guest's program: crate `traffic` and `guest/main.rs`, by the compiler alone, as cargo has no profile for one program of many.
/// It is static, and without a C library or a place in memory of its own choice: the same calls in the same order are the same run.
fn make_guest(own: &Path, out: &Path) {
    let traffic = own.join("../traffic/src");
    for path in [&traffic, &own.join("guest"), &own.join("src/guest.rs")] {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    let target = env::var("TARGET").expect("cargo sets it");
    let guest = out.join("guest");
    let is = |what: &str, value: &str| {
        env::var(format!("CARGO_CFG_TARGET_{what}")).as_deref() == Ok(value)
    };
    if !(is("ARCH", "x86_64") && is("OS", "linux") && is("POINTER_WIDTH", "64")) {
        // Nobody can have a kernel to run it: `knee vkernel build` says so.
        return fs::write(guest, "").expect("the output directory can be written");
    }
    let root = own.join("../..").canonicalize().expect("the crate is in it");
    let compile = |kind: &str, name: &str, source: &Path, more: &[&str]| {
        let mut command = Command::new(env::var_os("RUSTC").expect("cargo sets it"));
        command.args(["--edition", "2024", "--target", &target, "--cap-lints", "warn"]);
        command.args(["--crate-type", kind, "--crate-name", name]).arg(source);
        command.args(["-C", "opt-level=2", "-C", "panic=abort", "-C", "relocation-model=static"]);
        command.arg("--remap-path-prefix").arg(format!("{}=.", root.display()));
        command.arg("--out-dir").arg(out).args(more);
        if let Some(linker) = env::var_os("RUSTC_LINKER") {
            command.arg("-C").arg(format!("linker={}", Path::new(&linker).display()));
        }
        let status = command.status().expect("the compiler of this program starts");
        assert!(status.success(), "the guest's program is not built");
    };
    let source = |path: &Path| path.canonicalize().expect("the source is in the tree");
    compile("rlib", "knee_traffic", &source(&traffic.join("lib.rs")), &[]);
    let library = format!("knee_traffic={}", out.join("libknee_traffic.rlib").display());
    let link = "link-args=-nostartfiles -nodefaultlibs -static -Wl,--build-id=none";
    let mut more = vec!["--extern", &library, "-C", "strip=symbols", "-C", link];
    if is("ENV", "musl") {
        // Else that target's own beginning of a program comes with it.
        more.extend(["-C", "link-self-contained=no"]);
    }
    compile("bin", "guest", &source(&own.join("guest/main.rs")), &more);
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
