//! `knee algorithms`.

use std::fmt::Write as _;

use knee_algo::Algorithm;
use serde_json::{Value as Json, json};

use crate::{Failure, print};

/// Private state that the kernel has room for beside each socket.
const PRIVATE_BYTES: u32 = 104;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// One algorithm, in full.
    name: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let chosen: Vec<&Algorithm> = match &args.name {
        None => Algorithm::all().iter().collect(),
        Some(name) => {
            vec![Algorithm::by_name(name).map_err(|why| Failure::Says(why.to_string()))?]
        }
    };
    if args.json {
        let all: Vec<Json> = chosen.iter().map(|algorithm| as_json(algorithm)).collect();
        let answer = if args.name.is_some() {
            all.into_iter().next().unwrap_or_default()
        } else {
            Json::from(all)
        };
        return print(&format!("{answer}\n"));
    }
    match args.name {
        Some(_) => print(&chosen.iter().map(|algorithm| in_full(algorithm)).collect::<String>()),
        None => print(&list(&chosen)),
    }
}

fn source(algorithm: &Algorithm) -> String {
    format!("algorithms/{}.c", algorithm.name())
}

fn as_json(algorithm: &Algorithm) -> Json {
    let params: Vec<Json> = algorithm
        .params()
        .iter()
        .map(|param| {
            json!({
                "name": param.name,
                "default": param.show(param.default),
                "min": param.min,
                "max": param.max,
                "choices": param.choices,
                "meaning": param.meaning,
            })
        })
        .collect();
    let diag: Vec<Json> = algorithm
        .diag()
        .iter()
        .map(|diag| json!({ "name": diag.name, "unit": diag.unit }))
        .collect();
    json!({
        "name": algorithm.name(),
        "source": source(algorithm),
        "operations": algorithm.operations(),
        "state_bytes": algorithm.state_bytes(),
        "needs_ecn": algorithm.needs_ecn(),
        "parameters": params,
        "diagnostics": diag,
        "runs_on": ["sim"],
    })
}

fn list(algorithms: &[&Algorithm]) -> String {
    let width = algorithms.iter().map(|algorithm| algorithm.name().len()).max().unwrap_or(0);
    let mut out = format!("{:width$}  source              state   ECN    parameters\n", "name");
    for algorithm in algorithms {
        let params: Vec<_> = algorithm
            .params()
            .iter()
            .map(|param| format!("{}={}", param.name, param.show(param.default)))
            .collect();
        let ecn = if algorithm.needs_ecn() { "needs" } else { "can" };
        let _ = writeln!(
            out,
            "{:width$}  {:18}  {:>3} B   {ecn:5}  {}",
            algorithm.name(),
            source(algorithm),
            algorithm.state_bytes(),
            params.join(" ")
        );
    }
    out.push_str("\nAll of them run in the simulator. knee algorithms NAME shows one in full.\n");
    out
}

fn in_full(algorithm: &Algorithm) -> String {
    let mut out = format!("{}\n  source      {}\n", algorithm.name(), source(algorithm));
    let _ = writeln!(out, "  operations  {}", algorithm.operations().join(", "));
    let _ = writeln!(
        out,
        "  state       {} bytes per connection, of {PRIVATE_BYTES} that the kernel has room for",
        algorithm.state_bytes()
    );
    let ecn = if algorithm.needs_ecn() {
        "needed, and sent on every packet"
    } else {
        "used if negotiated"
    };
    let _ = writeln!(out, "  ECN         {ecn}");
    let _ = writeln!(out, "  runs on     the simulator (knee run)");
    if !algorithm.params().is_empty() {
        let _ = writeln!(out, "\n  parameters, as in params = {{ name = value }} of a case:");
        for param in algorithm.params() {
            let range = match param.choices.as_slice() {
                [] => format!("{} to {}", param.min, param.max),
                choices => choices.join(" | "),
            };
            let _ = writeln!(
                out,
                "    {:16} default {}, {range}\n{:21}{}",
                param.name,
                param.show(param.default),
                "",
                param.meaning
            );
        }
    }
    if !algorithm.diag().is_empty() {
        let _ = writeln!(out, "\n  shows of itself, as columns of series-flows.csv:");
        for diag in algorithm.diag() {
            let unit =
                if diag.unit.is_empty() { String::new() } else { format!(" ({})", diag.unit) };
            let _ = writeln!(out, "    {}{unit}", diag.name);
        }
    }
    out
}
