//! `knee check`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use knee_algo::check;
#[cfg(feature = "kernel")]
use knee_algo::module;
use serde_json::{Value as Json, json};

use crate::{CHECK_FAILED, COULD_NOT, DONE, Failure, complain, print};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Algorithm files on the contract of algorithms/include/tcp.h.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write the object that the running kernel takes here, if nothing was found: knee load FILE takes it on a machine without clang.
    #[arg(long, value_name = "OBJECT", conflicts_with = "json")]
    object: Option<PathBuf>,
    /// The clang that compiles it [default: KNEE_CLANG, else the first of clang, clang-21, ...]
    #[arg(long, value_name = "PROGRAM", requires = "object")]
    clang: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    if args.object.is_some() && args.files.len() > 1 {
        return Err(Failure::Says("--object is for one file: run it once for each".to_owned()));
    }
    let mut all: Vec<Json> = Vec::new();
    let mut out = String::new();
    let mut found = 0;
    // What was found in the others is said before what could not be looked at.
    let mut not_looked_at: Vec<String> = Vec::new();
    for path in &args.files {
        let checked = match check::file(path) {
            Ok(checked) => checked,
            #[cfg(feature = "kernel")]
            Err(knee_algo::Error::KernelModule(_)) => {
                let shown = path.display().to_string();
                if let Err(why) = can_compile(args.clang.as_deref()) {
                    all.push(json!({ "file": shown, "error": why }));
                    not_looked_at.push(format!("{shown}: {why}"));
                    continue;
                }
                let (finding, said) = match embedded(path, args.clang.as_deref()) {
                    Ok(_) => {
                        (Vec::new(), format!("{shown}: a Linux module that compiles for BPF\n"))
                    }
                    Err(why) => (
                        vec![json!({ "rule": "Compiler", "message": why.to_string() })],
                        format!("{why}\n"),
                    ),
                };
                found += finding.len();
                out += &said;
                all.push(
                    json!({ "file": shown, "findings": finding, "compiler": "clang for BPF" }),
                );
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
            let _ = writeln!(out, "{shown}: nothing that BPF is known to refuse");
        }
        if checked.compiler.is_none() {
            let _ = writeln!(
                out,
                "{shown}: signed divisions and the stack were not looked at, for want of a compiler"
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

/// Whether a refusal would be the file's: without a compiler, or a place for what it makes, nothing was looked at.
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
    print(&format!("{}: for knee load, as {}\n", to.display(), embedded.name()))
}

#[cfg(not(feature = "kernel"))]
fn write_object(_file: &Path, _clang: Option<&str>, _to: &Path) -> Result<(), Failure> {
    Err(Failure::Says("this knee was built without its kernel side".to_owned()))
}
