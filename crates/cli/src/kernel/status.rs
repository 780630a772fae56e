//! `knee status`.

use std::fmt::Write as _;

use serde_json::{Value as Json, json};

use crate::{Failure, print};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let registered = knee_bpf::registered()?;
    if args.json {
        let all: Vec<Json> = registered
            .iter()
            .map(|one| json!({ "name": one.name, "algorithm": one.algorithm }))
            .collect();
        return print(&format!("{}\n", json!({ "registered": all })));
    }
    let mut out = String::new();
    for one in &registered {
        let _ = writeln!(out, "{:16} {}", one.name, one.algorithm);
    }
    print(&out)
}
