//! `knee doctor`: quick checks that change nothing.

use std::fmt::Write as _;

use knee_algo::Algorithm;
use knee_algo::module::{OLDEST_CLANG, find_clang};
use knee_sweep::machine::{self, Build};
use serde_json::{Value as Json, json};

use crate::{CHECK_FAILED, DONE, Failure, print};

/// Parts of knee, with the heading of their findings.
const PARTS: [(&str, &str); 5] = [
    ("machine", "this machine"),
    ("simulator", "the simulator (needs no root, no kernel feature)"),
    ("kernel", "loading algorithms into this kernel"),
    ("network", "TCP settings of this host that affect them"),
    ("build", "building knee"),
];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Result of one check.
struct Finding {
    /// The part of knee that needs it: one of [`PARTS`].
    part: &'static str,
    what: &'static str,
    /// Whether the check passed. `None` means that it only informs.
    ok: Option<bool>,
    found: String,
    /// How to get what is missing. Empty if nothing is missing.
    remedy: String,
}

/// The parts to check.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parts {
    /// All that a whole knee needs.
    All,
    /// Only requirements for loading algorithms.
    Host,
}

/// Prints the findings. The exit code says whether this kernel takes algorithms without a lack.
pub(crate) fn run(args: &Args, parts: Parts) -> Result<u8, Failure> {
    let mut findings = look();
    if parts == Parts::Host {
        findings.retain(|finding| !matches!(finding.part, "simulator" | "build"));
    }
    if args.json {
        let all: Vec<Json> = findings
            .iter()
            .map(|f| {
                let remedy = (!f.remedy.is_empty()).then_some(&f.remedy);
                json!({ "part": f.part, "what": f.what, "ok": f.ok, "found": f.found, "remedy": remedy })
            })
            .collect();
        let build = Build::this();
        let answer = json!({ "knee": build.version, "commit": build.commit, "findings": all });
        print(&format!("{answer}\n"))?;
    } else {
        print(&in_words(&findings))?;
    }
    let is_lack = |finding: &Finding| finding.part == "kernel" && finding.ok == Some(false);
    Ok(if findings.iter().any(is_lack) { CHECK_FAILED } else { DONE })
}

fn look() -> Vec<Finding> {
    let finding = |part, what, ok, found| Finding { part, what, ok, found, remedy: String::new() };
    let unknown = || "unknown".to_owned();
    let names: Vec<_> = Algorithm::all().iter().map(Algorithm::name).collect();
    let cores = std::thread::available_parallelism().map_or_else(|_| unknown(), |n| n.to_string());
    let memory = machine::available_memory_bytes()
        .map_or_else(unknown, |bytes| format!("{:.1} GB available", bytes as f64 / 1e9));
    let mut all = vec![
        finding("machine", "cores", None, cores),
        finding("machine", "memory", None, memory),
        finding("machine", "system", None, machine::kernel().unwrap_or_else(unknown)),
        finding("simulator", "knee run", Some(true), format!("ready, with {}", names.join(", "))),
    ];
    let compiler = knee_algo::module::find_compiler();
    all.push(Finding {
        part: "simulator",
        what: "--cc ./tcp_foo.c",
        ok: compiler.is_some().then_some(true),
        remedy: if compiler.is_some() {
            ""
        } else {
            "apt-get install gcc, or name a compiler in CC"
        }
        .to_owned(),
        found: compiler.map_or_else(
            || "no C compiler (needed only to run algorithms from files)".to_owned(),
            |(name, about)| format!("{name}: {about}"),
        ),
    });
    all.extend(kernel_side());
    let clang = find_clang(None).ok().map(|(clang, about)| format!("{clang}: {about}"));
    all.push(Finding {
        part: "build",
        what: "clang",
        ok: clang.is_some().then_some(true),
        remedy: if clang.is_some() { "" } else { "apt-get install clang-19, or set KNEE_CLANG" }
            .to_owned(),
        found: clang.unwrap_or_else(|| {
            format!(
                "no clang from {OLDEST_CLANG} on that compiles for BPF (needed only to build knee)"
            )
        }),
    });
    all
}

#[cfg(feature = "kernel")]
fn kernel_side() -> Vec<Finding> {
    use knee_bpf::doctor;
    let of = |part| {
        move |found: doctor::Finding| {
            let doctor::Finding { what, ok, found, remedy } = found;
            Finding { part, what, ok, found, remedy }
        }
    };
    let kernel = doctor::kernel().into_iter().map(of("kernel"));
    kernel.chain(doctor::network().into_iter().map(of("network"))).collect()
}

#[cfg(not(feature = "kernel"))]
fn kernel_side() -> Vec<Finding> {
    vec![Finding {
        part: "kernel",
        what: "knee load, status",
        ok: Some(false),
        found: "missing: this knee has no kernel side".to_owned(),
        remedy: if cfg!(feature = "tools") {
            "apt-get install clang-19 libelf-dev zlib1g-dev pkg-config && make build"
        } else {
            "make build"
        }
        .to_owned(),
    }]
}

fn in_words(findings: &[Finding]) -> String {
    let mut out = format!("knee {}\n", Build::this());
    for (part, title) in PARTS {
        let of_part: Vec<_> = findings.iter().filter(|finding| finding.part == part).collect();
        if of_part.is_empty() {
            continue;
        }
        let _ = writeln!(out, "\n{title}");
        for finding in of_part {
            let sign = match finding.ok {
                None => " ",
                Some(true) => "+",
                Some(false) => "-",
            };
            let _ = writeln!(out, " {sign} {:18} {}", finding.what, finding.found);
            if !finding.remedy.is_empty() {
                let _ = writeln!(out, "   {:18} to get it: {}", "", finding.remedy);
            }
        }
    }
    out
}
