//! The algorithms in a Linux source tree: what `scripts/builtin-kernel` makes of one, and that every
//! file compiles against a kernel's own headers. `docs/builtin.md` says how to install such headers.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use knee_algo::Algorithm;
use knee_units::LinuxVersion;

/// An algorithm of `src/testing` that kernels before 6.10 cannot run.
const LOOKS_AT_THE_FLAG: &str = "flagged";
const BUILD_MODULES: &str = "CONFIG_TCP_CONG_KNEE=m";

fn manifest() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// An empty directory of this test's own.
fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("linux_tree").join(name);
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).expect("the target directory is writable");
    dir
}

fn script(args: &[&str]) -> Output {
    let script = manifest().join("../../scripts/builtin-kernel");
    Command::new(script).args(args).output().expect("the script is there")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Fails with what the script said unless it did what was asked.
fn done(output: &Output) {
    assert!(output.status.success(), "{}", text(&output.stderr));
}

fn utf8(path: &Path) -> &str {
    path.to_str().expect("paths here are UTF-8")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What of a tree the script looks at.
fn tree(name: &str, version: &str) -> PathBuf {
    let tree = scratch(name);
    for dir in ["include/net", "net/ipv4"] {
        fs::create_dir_all(tree.join(dir)).expect("it is empty");
    }
    let (major, minor) = version.split_once('.').expect("MAJOR.MINOR");
    let head = format!("# SPDX\nVERSION = {major}\nPATCHLEVEL = {minor}\nSUBLEVEL = 0\n");
    for (file, text) in [
        ("Makefile", head.as_str()),
        ("include/net/tcp.h", ""),
        ("net/ipv4/tcp_cong.c", ""),
        ("net/ipv4/Makefile", "obj-y := tcp_cong.o\n\nobj-$(CONFIG_X) += x.o\n"),
        ("net/ipv4/Kconfig", "config X\n\tbool \"X\"\n"),
    ] {
        fs::write(tree.join(file), text).expect("its directory is there");
    }
    tree
}

/// Every file below, with its text and when it was written.
fn snapshot(dir: &Path) -> Vec<(PathBuf, String, std::time::SystemTime)> {
    let mut files = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).expect("it is there").flatten() {
            let path = entry.path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                let written = entry.metadata().and_then(|of| of.modified());
                files.push((path.clone(), read(&path), written.expect("files have times")));
            }
        }
    }
    files.sort();
    files
}

#[test]
fn a_tree_gets_a_folder_and_two_lines_and_gives_them_back() {
    let tree = tree("given-back", "6.1");
    let before = snapshot(&tree);
    done(&script(&[utf8(&tree)]));

    let folder = tree.join("net/ipv4/knee");
    let makefile = read(&folder.join("Makefile"));
    for algorithm in Algorithm::all() {
        let name = algorithm.name();
        assert!(makefile.contains(&format!("knee_{name}-y := {name}.o\n")), "{makefile}");
        let source = manifest().join(format!("../../algorithms/{name}.c"));
        assert_eq!(read(&folder.join(format!("{name}.c"))), read(&source), "unchanged");
    }
    let parent = read(&tree.join("net/ipv4/Makefile"));
    assert!(parent.ends_with("obj-$(CONFIG_TCP_CONG_KNEE) += knee/\n"), "{parent}");
    let kconfig = read(&tree.join("net/ipv4/Kconfig"));
    assert!(kconfig.ends_with("source \"net/ipv4/knee/Kconfig\"\n"), "{kconfig}");

    let once = snapshot(&tree);
    done(&script(&[utf8(&tree)]));
    assert_eq!(snapshot(&tree), once, "twice is as once, and nothing is to be compiled again");

    fs::write(folder.join("gone.c"), "an algorithm that was removed").expect("it is ours");
    done(&script(&[utf8(&tree)]));
    assert_eq!(snapshot(&tree), once, "what is no algorithm any more goes");

    done(&script(&["--remove", utf8(&tree)]));
    let contents = |files: Vec<(PathBuf, String, _)>| {
        files.into_iter().map(|(path, text, _)| (path, text)).collect::<Vec<_>>()
    };
    assert_eq!(contents(snapshot(&tree)), contents(before));
}

#[test]
fn what_is_no_tree_of_ours_is_refused_in_one_sentence() {
    let headers = scratch("headers");
    fs::create_dir_all(headers.join("include/net")).expect("it is empty");
    fs::write(headers.join("Makefile"), "VERSION = 6\nPATCHLEVEL = 1\n").expect("it is there");
    fs::write(headers.join("include/net/tcp.h"), "").expect("it is there");
    let old = tree("old", "5.15");
    let taken = tree("taken", "6.1");
    fs::create_dir(taken.join("net/ipv4/knee")).expect("it is not there");
    fs::write(taken.join("net/ipv4/knee/Makefile"), "obj-y := mine.o\n").expect("it is there");
    let nameless = tree("nameless", "6.1");
    fs::write(nameless.join("Makefile"), "all:\n").expect("it is there");
    let nowhere = scratch("nowhere").join("linux");

    for (args, sentence) in [
        (vec![utf8(&nowhere)], "is no Linux source tree: it has no Makefile. Name the folder"),
        (vec![utf8(&headers)], "it has no net/ipv4/tcp_cong.c"),
        (vec![utf8(&old)], "is Linux 5.15: the algorithms need 6.1 or later"),
        (vec![utf8(&taken)], "was not made by this script: move it away"),
        (vec!["--remove", utf8(&taken)], "was not made by this script: move it away"),
        (vec![utf8(&nameless)], "does not say which Linux it is"),
        (vec![], "usage: scripts/builtin-kernel TREE"),
        (vec!["--undo", utf8(&old)], "usage: scripts/builtin-kernel TREE"),
    ] {
        let output = script(&args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(sentence), "{args:?}: {said}");
    }
    assert_eq!(read(&taken.join("net/ipv4/knee/Makefile")), "obj-y := mine.o\n");
}

/// Folders of installed headers that modules can be built with: `KNEE_LINUX_HEADERS`, or those of
/// the distribution.
fn headers() -> Vec<PathBuf> {
    if let Some(dir) = std::env::var_os("KNEE_LINUX_HEADERS") {
        return vec![dir.into()];
    }
    let sources = fs::read_dir("/usr/src").into_iter().flatten().flatten().map(|dir| dir.path());
    let mut found: Vec<PathBuf> = sources
        .filter(|dir| {
            let needed = ["Makefile", "include/generated/utsrelease.h", "scripts/mod/modpost"];
            needed.iter().all(|file| dir.join(file).exists())
        })
        .collect();
    found.sort();
    found
}

/// Version of the kernel that the headers belong to.
fn version(headers: &Path) -> LinuxVersion {
    let release = read(&headers.join("include/generated/utsrelease.h"));
    let number = release.split('"').nth(1).expect("#define UTS_RELEASE \"...\"");
    LinuxVersion::of_release(number).expect("two numbers")
}

/// Compiles everything that the folder's Makefile names into modules.
fn build_modules(headers: &Path, folder: &Path) -> Output {
    let mut make = Command::new("make");
    make.arg("-C").arg(headers).arg(format!("M={}", folder.display()));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    make.arg(format!("-j{cores}")).args([BUILD_MODULES, "KCFLAGS=-Werror", "W=1", "modules"]);
    // What `make test` hands on is not meant for the kernel's make.
    for name in ["MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES"] {
        make.env_remove(name);
    }
    make.env("LC_ALL", "C").output().expect("make is there, as cargo's build needs it")
}

fn add_to_makefile(folder: &Path, name: &str) {
    let mut makefile =
        fs::OpenOptions::new().append(true).open(folder.join("Makefile")).expect("it is there");
    writeln!(makefile, "obj-$(CONFIG_TCP_CONG_KNEE) += knee_{name}.o\nknee_{name}-y := {name}.o")
        .expect("it is writable");
}

#[test]
fn every_algorithm_compiles_against_a_kernels_headers() {
    let all = headers();
    if all.is_empty() {
        let is_required =
            std::env::var_os("KNEE_REQUIRE_HEADERS").is_some_and(|value| value == "1");
        assert!(
            !is_required,
            "KNEE_REQUIRE_HEADERS=1, but no kernel headers are in /usr/src: run make setup"
        );
        // Not eprintln!, whose text the harness keeps to itself when a test passes.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: no kernel headers in /usr/src (Debian: apt-get install linux-headers-amd64)"
        );
    }
    let testing = fs::read_dir(manifest().join("src/testing")).expect("it is there").flatten();
    let testing: Vec<PathBuf> = testing.map(|file| file.path()).collect();
    for headers in all {
        let folder = scratch("modules");
        done(&script(&["--folder", utf8(&folder)]));
        let mut expected: Vec<String> =
            Algorithm::all().iter().map(|one| one.name().to_owned()).collect();
        for source in &testing {
            let name = utf8(Path::new(source.file_stem().expect("NAME.c")));
            fs::copy(source, folder.join(format!("{name}.c"))).expect("it is there");
            if name != LOOKS_AT_THE_FLAG {
                add_to_makefile(&folder, name);
                expected.push(name.to_owned());
            }
        }
        let built = build_modules(&headers, &folder);
        assert!(built.status.success(), "{}{}", text(&built.stdout), text(&built.stderr));
        for name in &expected {
            let module = folder.join(format!("knee_{name}.ko"));
            assert!(module.exists(), "{} was not built", module.display());
        }
        for algorithm in Algorithm::all() {
            let module = fs::read(folder.join(format!("knee_{}.ko", algorithm.name())));
            let module = module.expect("it was built");
            for param in algorithm.params() {
                let entry = format!("parm={}:{}\0", param.name, param.meaning);
                assert!(
                    module.windows(entry.len()).any(|at| at == entry.as_bytes()),
                    "knee_{} has no parameter {}",
                    algorithm.name(),
                    param.name
                );
            }
        }

        add_to_makefile(&folder, LOOKS_AT_THE_FLAG);
        let built = build_modules(&headers, &folder);
        let said = text(&built.stderr);
        if version(&headers) >= LinuxVersion(6, 10) {
            assert!(built.status.success(), "{said}");
        } else {
            let reason = "looks at the flag of cong_control, which this kernel does not have";
            assert!(!built.status.success() && said.contains(reason), "{said}");
        }
    }
}
