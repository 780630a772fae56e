//! `knee doctor`: cheap looks that change nothing.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use knee_algo::Algorithm;
use knee_exp::machine::{self, Build};
use serde_json::{Value as Json, json};

use crate::{Failure, print};

/// Bits of `CapEff` in `/proc/self/status`.
const CAP_NET_ADMIN: u64 = 1 << 12;
const CAP_SYS_ADMIN: u64 = 1 << 21;
const CAP_BPF: u64 = 1 << 39;
/// The first kernel whose congestion controls knee can load.
const OLDEST_KERNEL: (u32, u32) = (6, 4);
/// As in `crates/bpf/build.rs`.
const CLANGS: [&str; 6] = ["clang", "clang-21", "clang-20", "clang-19", "clang-18", "clang-17"];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// One thing looked at.
struct Finding {
    /// Which part of knee needs it.
    part: &'static str,
    what: &'static str,
    /// `None`: just for information.
    ok: Option<bool>,
    found: String,
    /// How to get it where it is missing.
    remedy: &'static str,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let findings = look();
    if args.json {
        let all: Vec<Json> = findings
            .iter()
            .map(|f| {
                let remedy = (f.ok == Some(false)).then_some(f.remedy);
                json!({ "part": f.part, "what": f.what, "ok": f.ok, "found": f.found, "remedy": remedy })
            })
            .collect();
        let build = Build::this();
        let answer = json!({ "knee": build.version, "commit": build.commit, "findings": all });
        return print(&format!("{answer}\n"));
    }
    print(&in_words(&findings))
}

fn look() -> Vec<Finding> {
    let info = |what, found: String| Finding { part: "machine", what, ok: None, found, remedy: "" };
    let names: Vec<_> = Algorithm::all().iter().map(Algorithm::name).collect();
    let mut all = vec![
        info(
            "cores",
            std::thread::available_parallelism()
                .map_or_else(|_| "unknown".into(), |n| n.to_string()),
        ),
        info(
            "memory",
            machine::available_memory_bytes().map_or_else(
                || "unknown".into(),
                |b| format!("{:.1} GB available", b as f64 / 1e9),
            ),
        ),
        info("kernel", machine::kernel().unwrap_or_else(|| "unknown".into())),
        Finding {
            part: "simulator",
            what: "knee run",
            ok: Some(true),
            found: format!("ready, with {}", names.join(", ")),
            remedy: "",
        },
    ];
    all.extend(kernel_side());
    all
}

/// What loading the algorithms into this kernel will need.
fn kernel_side() -> Vec<Finding> {
    let part = "kernel";
    let capabilities = effective_capabilities().unwrap_or(0);
    let privileged = capabilities & CAP_SYS_ADMIN != 0
        || capabilities & (CAP_BPF | CAP_NET_ADMIN) == CAP_BPF | CAP_NET_ADMIN;
    let present = |ok| if ok { "yes".to_owned() } else { "no".to_owned() };
    let btf = Path::new("/sys/kernel/btf/vmlinux").exists();
    let clang = find_clang();
    let release = machine::kernel_release();
    let new_enough = release.as_deref().and_then(version_of).is_some_and(|v| v >= OLDEST_KERNEL);
    let bpffs = mounts("bpf");
    vec![
        Finding {
            part,
            what: "kernel version",
            ok: Some(new_enough),
            found: release.unwrap_or_else(|| "unknown".into()),
            remedy: "loading needs Linux 6.4 or later",
        },
        Finding {
            part,
            what: "BTF of the kernel",
            ok: Some(btf),
            found: present(btf),
            remedy: "needs a kernel built with CONFIG_DEBUG_INFO_BTF=y, as distributions' kernels are",
        },
        Finding {
            part,
            what: "rights to load BPF",
            ok: Some(privileged),
            found: present(privileged),
            remedy: "run as root, or with CAP_BPF and CAP_NET_ADMIN",
        },
        Finding {
            part,
            what: "BPF file system",
            ok: Some(bpffs.is_some()),
            found: bpffs.unwrap_or_else(|| "not mounted".into()),
            remedy: "mount -t bpf bpf /sys/fs/bpf",
        },
        Finding {
            part,
            what: "clang",
            ok: Some(clang.is_some()),
            found: clang.unwrap_or_else(|| "none that compiles for BPF".into()),
            remedy: "install the package clang, or set KNEE_CLANG, and build knee again",
        },
    ]
}

fn effective_capabilities() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(value.trim(), 16).ok()
}

/// Name and version of the first clang that compiles for BPF, sought as `crates/bpf/build.rs` does.
fn find_clang() -> Option<String> {
    let named = std::env::var("KNEE_CLANG").ok();
    let mut all = named.into_iter().chain(CLANGS.iter().map(|name| (*name).to_owned()));
    let output = |clang: &str, args: &[&str]| {
        let output = Command::new(clang).args(args).stdin(Stdio::null()).output().ok()?;
        output.status.success().then_some(output.stdout)
    };
    let args =
        ["-target", "bpf", "-mcpu=v3", "-E", "-x", "c", "/dev/null", "-o", "/dev/null"].as_slice();
    let clang = all.find(|clang| output(clang, args).is_some())?;
    let about = output(&clang, &["--version"]).unwrap_or_default();
    let about = String::from_utf8_lossy(&about);
    Some(format!("{clang}: {}", about.lines().next().unwrap_or("unknown version").trim()))
}

/// `6.18.4-generic` is (6, 18).
fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Where a file system of this type is mounted.
fn mounts(kind: &str) -> Option<String> {
    let text = fs::read_to_string("/proc/self/mounts").ok()?;
    text.lines().find_map(|line| {
        let mut words = line.split(' ');
        let (_device, dir, found) = (words.next()?, words.next()?, words.next()?);
        (found == kind).then(|| dir.to_owned())
    })
}

fn in_words(findings: &[Finding]) -> String {
    let mut out = format!("knee {}\n", Build::this());
    let mut part = "";
    for finding in findings {
        if finding.part != part {
            part = finding.part;
            let title = match part {
                "machine" => "this machine",
                "simulator" => "the simulator (needs no root, no compiler, no kernel feature)",
                _ => "loading algorithms into this kernel (not built yet; what it will need)",
            };
            let _ = writeln!(out, "\n{title}");
        }
        let sign = match finding.ok {
            None => " ",
            Some(true) => "+",
            Some(false) => "-",
        };
        let _ = writeln!(out, " {sign} {:20} {}", finding.what, finding.found);
        if finding.ok == Some(false) {
            let _ = writeln!(out, "   {:20} to get it: {}", "", finding.remedy);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_releases_are_compared_as_numbers() {
        assert_eq!(version_of("6.18.4-generic"), Some((6, 18)));
        assert_eq!(version_of("6.4-rc1"), Some((6, 4)));
        assert_eq!(version_of("next"), None);
        assert!(
            version_of("6.10.0") > Some(OLDEST_KERNEL) && version_of("5.15") < Some(OLDEST_KERNEL)
        );
    }
}
