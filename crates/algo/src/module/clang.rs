//! Finds the clang that compiles for BPF. This library uses it, and the build of knee-bpf includes
//! this file.

use std::process::{Command, Stdio};

const CLANGS: [&str; 6] = ["clang", "clang-21", "clang-20", "clang-19", "clang-18", "clang-17"];
/// Oldest usable version of clang. Older ones lack features that the programs need.
pub const OLDEST_CLANG: u32 = 17;

/// Finds a clang that compiles for BPF and is new enough. The order is `named`, `KNEE_CLANG`, then
/// the first one installed. Returns the command and its version line.
///
/// # Errors
/// A sentence with the way out.
pub fn find_clang(named: Option<&str>) -> Result<(String, String), String> {
    if let Some(named) = named {
        return version_of(named).ok_or_else(|| {
            format!("\"{named}\" is no clang {OLDEST_CLANG} or later with a BPF target")
        });
    }
    let preferred = std::env::var("KNEE_CLANG").ok().filter(|name| !name.trim().is_empty());
    let mut all = preferred.into_iter().chain(CLANGS.map(str::to_owned));
    all.find_map(|clang| version_of(&clang)).ok_or_else(|| {
        format!(
            "there is no clang {OLDEST_CLANG} or later with a BPF target to compile it with: apt-get install clang-19, or name one in \
             KNEE_CLANG"
        )
    })
}

/// Returns the command and its version line if it can compile for BPF.
fn version_of(clang: &str) -> Option<(String, String)> {
    let output = Command::new(clang).arg("--version").stdin(Stdio::null()).output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let first = said.lines().next()?.trim().to_owned();
    let version = Command::new(clang).arg("-dumpversion").output().ok()?;
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    let major: u32 = version.trim().split('.').next()?.parse().ok()?;
    let arguments = ["-target", "bpf", "-mcpu=v3", "-c", "-x", "c", "/dev/null", "-o", "-"];
    let has_bpf = || Command::new(clang).args(arguments).output().is_ok_and(|o| o.status.success());
    (first.contains("clang") && major >= OLDEST_CLANG && has_bpf())
        .then(|| (clang.to_owned(), first))
}
