//! `knee algorithms`.

use std::fmt::Write as _;
use std::path::Path;

use knee_algo::{Algorithm, ParamInfo};
use serde_json::{Value as Json, json};

use crate::{Failure, print};

/// Bytes of private state that the kernel holds per socket.
const PRIVATE_BYTES: u32 = 104;
/// Width at which the list's text is broken, in columns.
const WIDTH: usize = 110;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Show one algorithm in full: a name, or a file to compile, as ./tcp_foo.c.
    name: Option<String>,
    #[command(flatten)]
    module: crate::module_args::ModuleArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// State of an algorithm in the running kernel.
struct InKernel {
    /// Name under which it is loaded.
    name: Option<String>,
    /// Reason why it cannot be loaded, or another remark.
    why_not: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let chosen: Vec<&'static Algorithm> = match &args.name {
        None => Algorithm::all().iter().collect(),
        Some(name) => {
            let named = Algorithm::named_with(name, Path::new(""), &args.module.options());
            vec![named.map_err(|why| Failure::Says(why.to_string()))?]
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

/// Returns the algorithm's file.
fn file(algorithm: &Algorithm) -> String {
    match algorithm.module() {
        Some(module) => module.path().display().to_string(),
        None => format!("algorithms/{}.c", algorithm.name()),
    }
}

#[cfg(feature = "kernel")]
fn in_kernel(algorithm: &'static Algorithm) -> InKernel {
    let embedded = knee_bpf::Embedded::of_algorithm(algorithm);
    match embedded.and_then(|embedded| knee_bpf::check_fits(embedded).map(|()| embedded)) {
        Ok(embedded) => InKernel { name: Some(format!("knee_{}", embedded.name())), why_not: None },
        Err(why) => InKernel { name: None, why_not: Some(why.to_string()) },
    }
}

#[cfg(not(feature = "kernel"))]
fn in_kernel(_algorithm: &'static Algorithm) -> InKernel {
    InKernel { name: None, why_not: Some("this knee has no kernel side".to_owned()) }
}

fn as_json(algorithm: &'static Algorithm) -> Json {
    let param = |param: &ParamInfo| {
        json!({
            "name": param.name,
            "default": param.show(param.default),
            "min": param.show(param.min).parse::<i64>().unwrap_or(i64::from(param.min)),
            "max": param.show(param.max).parse::<i64>().unwrap_or(i64::from(param.max)),
            "choices": param.choices,
            "meaning": param.meaning,
        })
    };
    let params: Vec<Json> = algorithm.params().iter().map(param).collect();
    let diag: Vec<Json> = algorithm
        .diag()
        .iter()
        .map(|diag| json!({ "name": diag.name, "unit": diag.unit }))
        .collect();
    let kernel = in_kernel(algorithm);
    let mut runs_on = vec!["sim"];
    if kernel.name.is_some() {
        runs_on.push("kernel");
    }
    json!({
        "name": algorithm.name(),
        "title": algorithm.title(),
        "source": file(algorithm),
        "sources": algorithm.sources(),
        "sha256": algorithm.module().map(|module| module.sha256()),
        "operations": algorithm.operations(),
        "state_bytes": state_bytes(algorithm),
        "needs_ecn": algorithm.needs_ecn(),
        "parameters": params,
        "diagnostics": diag,
        "runs_on": runs_on,
        "kernel_name": kernel.name,
        "kernel_lacks": kernel.why_not,
    })
}

/// Returns the bytes of private state to show. `None` for a module, whose size only its file defines.
fn state_bytes(algorithm: &Algorithm) -> Option<u32> {
    let is_module = algorithm.module().is_some_and(|module| module.is_kernel_module());
    (!is_module).then(|| algorithm.state_bytes())
}

fn list(algorithms: &[&'static Algorithm]) -> String {
    let mut out = String::new();
    let mut reasons: Vec<String> = Vec::new();
    for algorithm in algorithms {
        let kernel = in_kernel(algorithm);
        let loaded = kernel.name.as_deref().unwrap_or("not this kernel");
        let state = state_bytes(algorithm).map_or_else(|| "?".to_owned(), |n| n.to_string());
        let ecn = if algorithm.needs_ecn() { ", needs ECN" } else { "" };
        let _ = writeln!(
            out,
            "{:10} {}: {state} bytes of state{ecn}; runs in the simulator, kernel: {loaded}",
            algorithm.name(),
            file(algorithm)
        );
        let params: Vec<String> = algorithm
            .params()
            .iter()
            .map(|param| format!("{}={}", param.name, param.show(param.default)))
            .collect();
        for (what, text) in [
            ("source", algorithm.sources()),
            ("callbacks", algorithm.operations().join(", ")),
            ("parameters", params.join(" ")),
        ] {
            if !text.is_empty() {
                let _ = writeln!(out, "{:10} {what:10} {}", "", broken(&text, 22));
            }
        }
        reasons.extend(kernel.why_not);
    }
    reasons.sort();
    reasons.dedup();
    for reason in reasons {
        let _ = writeln!(out, "\nkernel: {reason}");
    }
    out.push_str(
        "\nknee algorithms NAME shows one in full. For a file of your own, write ./NAME.c \
        there and in --cc.\n",
    );
    out
}

/// Breaks a text into lines that begin at a column.
fn broken(text: &str, column: usize) -> String {
    let mut out = String::new();
    let mut width = column;
    for word in text.split(' ') {
        if width + word.len() > WIDTH {
            let _ = write!(out, "\n{:column$}", "");
            width = column;
        } else if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
        width += word.len() + 1;
    }
    out
}

fn in_full(algorithm: &'static Algorithm) -> String {
    let mut out = format!("{}\n", algorithm.name());
    let mut row = |what: &str, text: &str| {
        if !text.is_empty() {
            let _ = writeln!(out, "  {what:11} {}", broken(text, 14));
        }
    };
    row("is", &algorithm.title());
    row("file", &file(algorithm));
    if let Some(module) = algorithm.module() {
        row("sha256", module.sha256());
    }
    row("source", &algorithm.sources());
    row("operations", &algorithm.operations().join(", "));
    match state_bytes(algorithm) {
        Some(bytes) if bytes > PRIVATE_BYTES => {
            row("state", &format!("{bytes} bytes per connection, in socket storage"));
        }
        Some(bytes) => row(
            "state",
            &format!("{bytes} bytes per connection; the kernel has room for {PRIVATE_BYTES}"),
        ),
        None => row("state", &format!("within the kernel's {PRIVATE_BYTES} bytes")),
    }
    row(
        "ECN",
        if algorithm.needs_ecn() {
            "required, and ECT set on every packet"
        } else {
            "used if negotiated"
        },
    );
    row("runs on", "the simulator (knee run)");
    let kernel = in_kernel(algorithm);
    match (kernel.name, kernel.why_not) {
        (Some(name), _) => {
            let what = match algorithm.module() {
                Some(module) => module.path().display().to_string(),
                None => algorithm.name().to_owned(),
            };
            row("", &format!("this kernel (sudo knee load {what}), as {name}"));
        }
        (None, why_not) => row("not on", &format!("this kernel: {}", why_not.unwrap_or_default())),
    }
    if !algorithm.params().is_empty() {
        let _ = writeln!(out, "\n  parameters, as in params = {{ name = value }} of a case:");
        for param in algorithm.params() {
            let _ = writeln!(
                out,
                "    {:16} default {}, {}",
                param.name,
                param.show(param.default),
                param.range()
            );
            if !param.meaning.is_empty() {
                let _ = writeln!(out, "{:21}{}", "", param.meaning);
            }
        }
    }
    if !algorithm.diag().is_empty() {
        let _ = writeln!(out, "\n  internal values, as columns of series-flows.csv:");
        for diag in algorithm.diag() {
            let unit =
                if diag.unit.is_empty() { String::new() } else { format!(" ({})", diag.unit) };
            let _ = writeln!(out, "    {}{unit}", diag.name);
        }
    }
    out
}
