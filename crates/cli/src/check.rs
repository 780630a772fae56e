//! `knee check`.

use std::fmt::Write as _;
use std::path::PathBuf;

use knee_algo::check;
use serde_json::{Value as Json, json};

use crate::{CHECK_FAILED, DONE, Failure, print};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Algorithm files on the contract of algorithms/include/tcp.h.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    let mut all: Vec<Json> = Vec::new();
    let mut out = String::new();
    let mut found = 0;
    for path in &args.files {
        let checked = check::file(path).map_err(|why| Failure::Says(why.to_string()))?;
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
    Ok(if found == 0 { DONE } else { CHECK_FAILED })
}
