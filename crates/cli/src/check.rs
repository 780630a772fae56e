//! `knee check`.

use std::fmt::Write as _;
use std::path::PathBuf;

use knee_algo::check;
use serde_json::{Value as Json, json};

use crate::{CHECK_FAILED, COULD_NOT, DONE, Failure, complain, print};

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
    // What was found in the others is said before what could not be looked at.
    let mut not_looked_at: Vec<String> = Vec::new();
    for path in &args.files {
        let checked = match check::file(path) {
            Ok(checked) => checked,
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
    Ok(if found == 0 { DONE } else { CHECK_FAILED })
}
