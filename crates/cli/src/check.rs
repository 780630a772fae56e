//! `knee check`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use knee_algo::{check, module};
use serde_json::{Value as Json, json};

use crate::module_args::ModuleArgs;
use crate::{CHECK_FAILED, COULD_NOT, DONE, Failure, complain, print};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Algorithm files that include algorithms/include/tcp.h, or sources of Linux modules (tcp_yeah.c+tcp_vegas.c is one of two files).
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// If the check passes, write the BPF object here. knee load FILE loads it on a machine without clang.
    #[arg(long, value_name = "OBJECT", conflicts_with = "json")]
    object: Option<PathBuf>,
    /// Compile with this clang [default: KNEE_CLANG, else the first of clang, clang-21, ...]
    #[arg(long, value_name = "PROGRAM", requires = "object")]
    clang: Option<String>,
    #[command(flatten)]
    module: ModuleArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    if args.object.is_some() && args.files.len() > 1 {
        return Err(Failure::Says(
            "--object takes one file: run knee check once for each".to_owned(),
        ));
    }
    let options = args.module.options();
    let has_several = |path: &Path| module::is_of_several_files(&path.to_string_lossy());
    if args.object.is_some() && (!options.is_empty() || has_several(&args.files[0])) {
        return Err(Failure::Says(
            "--object takes one file without --cc-define, --cc-include, --linux and --api: those are for the simulator"
                .to_owned(),
        ));
    }
    let mut all: Vec<Json> = Vec::new();
    let mut out = String::new();
    let mut found = 0;
    // Findings in other files are printed before the files that could not be checked.
    let mut not_looked_at: Vec<String> = Vec::new();
    for path in &args.files {
        let checked = match has_several(path) {
            true => Err(knee_algo::Error::KernelModule(path.display().to_string())),
            false => check::file(path),
        };
        let checked = match checked {
            Ok(_) if !options.is_empty() => {
                return Err(Failure::Says(format!(
                    "{}: includes algorithms/include/tcp.h: --cc-define, --cc-include, --linux and --api are for Linux modules",
                    path.display()
                )));
            }
            Ok(checked) => checked,
            Err(knee_algo::Error::KernelModule(_)) => {
                let looked = linux_module(path, &options, args.clang.as_deref());
                found += looked.findings.len();
                out += &looked.said;
                let shown = path.display().to_string();
                not_looked_at.extend(looked.missing.iter().map(|why| format!("{shown}: {why}")));
                all.push(json!({
                    "file": shown,
                    "findings": looked.findings,
                    "fields": looked.fields,
                    "limits": looked.limits,
                    "error": (!looked.missing.is_empty()).then(|| looked.missing.join("; ")),
                    "compiler": "cc for the simulator, clang for BPF",
                }));
                continue;
            }
            Err(why) => {
                let shown = path.display().to_string();
                all.push(json!({ "file": shown, "error": why.to_string() }));
                not_looked_at.push(why.to_string());
                continue;
            }
        };
        found += checked.findings.len();
        let shown = path.display().to_string();
        for finding in &checked.findings {
            let _ = writeln!(out, "{shown}:{finding}");
        }
        if checked.findings.is_empty() {
            let _ = writeln!(out, "{shown}: no construct that BPF is known to refuse");
        }
        if !checked.is_for_bpf {
            let _ = writeln!(
                out,
                "{shown}: signed divisions and stack were not checked, because no clang with a BPF \
                    target was found"
            );
        }
        let findings: Vec<Json> = checked
            .findings
            .iter()
            .map(|finding| {
                let rule = format!("{:?}", finding.rule);
                json!({ "rule": rule, "line": finding.line, "message": finding.message })
            })
            .collect();
        all.push(json!({ "file": shown, "findings": findings, "compiler": checked.compiler }));
    }
    match args.json {
        true => print(&format!("{}\n", Json::from(all)))?,
        false => print(&out)?,
    }
    if !not_looked_at.is_empty() {
        complain(&format!("knee: {}", not_looked_at.join("\nknee: ")));
        return Ok(COULD_NOT);
    }
    if found > 0 {
        return Ok(CHECK_FAILED);
    }
    if let Some(object) = &args.object {
        write_object(&args.files[0], args.clang.as_deref(), object)?;
    }
    Ok(DONE)
}

/// Result of the check of a Linux module's source.
#[derive(Default)]
struct ModuleCheck {
    findings: Vec<Json>,
    said: String,
    /// Numbers that the module keeps per connection.
    fields: Vec<String>,
    /// Limits of simulated runs that the author may not expect.
    limits: Vec<String>,
    /// Skipped checks, with the reason.
    missing: Vec<String>,
}

/// Checks whether `knee run` can load a module, and whether it can be built for BPF. Nothing in it runs.
fn linux_module(path: &Path, options: &module::Options, clang: Option<&str>) -> ModuleCheck {
    let mut looked = ModuleCheck::default();
    let shown = path.display();
    match module::inspect(&path.to_string_lossy(), options) {
        Ok(inspected) => {
            let names = inspected.fields.iter().map(|field| field.name().to_owned());
            (looked.fields, looked.limits) = (names.collect(), inspected.limits);
            let _ = write!(looked.said, "{shown}: a Linux module that compiles for the simulator");
            let _ = match looked.fields.is_empty() {
                true => writeln!(looked.said, ", without a struct in the private area"),
                false => writeln!(looked.said, "; it keeps {}", looked.fields.join(", ")),
            };
            for limit in &looked.limits {
                let _ = writeln!(looked.said, "{shown} {limit}");
            }
        }
        Err(why) if module::find_compiler().is_none() => {
            looked.missing.push(format!("for the simulator: {why}"));
        }
        Err(why) => looked.refused(&why.to_string()),
    }
    match options.is_empty() && !module::is_of_several_files(&path.to_string_lossy()) {
        true => in_bpf(path, clang, &mut looked),
        false => {
            let _ = writeln!(
                looked.said,
                "{shown}: for BPF it was not looked at: several files, --cc-define, --cc-include, --linux and --api are for the simulator"
            );
        }
    }
    looked
}

impl ModuleCheck {
    fn refused(&mut self, why: &str) {
        self.findings.push(json!({ "rule": "Compiler", "message": why }));
        let _ = writeln!(self.said, "{why}");
    }
}

#[cfg(feature = "kernel")]
fn in_bpf(path: &Path, clang: Option<&str>, looked: &mut ModuleCheck) {
    if let Err(why) = can_compile(clang) {
        looked.missing.push(format!("for BPF: {why}"));
        return;
    }
    match embedded(path, clang) {
        Ok(_) => {
            let _ = writeln!(looked.said, "{}: it compiles for BPF", path.display());
        }
        Err(why) => looked.refused(&why.to_string()),
    }
}

#[cfg(not(feature = "kernel"))]
fn in_bpf(path: &Path, _clang: Option<&str>, looked: &mut ModuleCheck) {
    let _ = writeln!(
        looked.said,
        "{}: not checked for BPF, because this knee has no kernel side",
        path.display()
    );
}

/// Returns whether a refusal would be about the file. Without a compiler or a directory for its output, no file can
/// be checked.
#[cfg(feature = "kernel")]
fn can_compile(clang: Option<&str>) -> Result<(), String> {
    module::find_clang(clang)?;
    module::Cache::open().map(drop)
}

#[cfg(feature = "kernel")]
fn embedded(file: &Path, clang: Option<&str>) -> Result<knee_bpf::Embedded, knee_bpf::Error> {
    let text = knee_files::read_text(file, module::MAX_SOURCE_BYTES, module::WHAT);
    let unreadable = |why: knee_files::Unreadable| knee_bpf::Error::Outside {
        path: file.to_owned(),
        what: why.to_string(),
    };
    knee_bpf::Embedded::of_source(file, &text.map_err(unreadable)?, clang)
}

#[cfg(feature = "kernel")]
fn write_object(file: &Path, clang: Option<&str>, to: &Path) -> Result<(), Failure> {
    if to.extension().is_none_or(|extension| extension != "o") {
        let shown = to.display();
        return Err(Failure::Says(format!(
            "--object {shown}: its name must end in .o, as foo.bpf.o"
        )));
    }
    let embedded = embedded(file, clang)?;
    knee_files::write(to, embedded.object())
        .map_err(|why| Failure::Says(format!("{}: cannot write: {why}", to.display())))?;
    print(&format!(
        "{}: object written; load it with knee load, as {}\n",
        to.display(),
        embedded.name()
    ))
}

#[cfg(not(feature = "kernel"))]
fn write_object(_file: &Path, _clang: Option<&str>, _to: &Path) -> Result<(), Failure> {
    Err(Failure::Says("this knee has no kernel side".to_owned()))
}
