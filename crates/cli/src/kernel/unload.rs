//! `knee unload`.

use std::fmt::Write as _;

use knee_bpf::host::{Host, Unloaded};
use serde_json::{Value as Json, json};

use crate::{Failure, print};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Names they are registered under, as knee status shows them.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    names: Vec<String>,
    /// All that knee loaded.
    #[arg(long)]
    all: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let host = Host::here();
    let names = if args.all { host.names()? } else { args.names.clone() };
    let mut all = Vec::new();
    for name in &names {
        let undone = host.unload(name)?;
        if args.json {
            all.push(as_json(name, &undone));
        } else {
            print(&in_words(name, &undone))?;
        }
    }
    if args.json {
        return print(&format!("{}\n", json!({ "unloaded": all })));
    }
    if names.is_empty() {
        return print("nothing is loaded\n");
    }
    Ok(())
}

fn as_json(name: &str, undone: &Unloaded) -> Json {
    let defaults: Vec<Json> = undone
        .defaults
        .iter()
        .map(|(namespace, to)| json!({ "namespace": namespace, "default": to }))
        .collect();
    let routes: Vec<Json> = undone
        .routes
        .iter()
        .map(|(namespace, to)| json!({ "namespace": namespace, "to": to }))
        .collect();
    let listeners: Vec<Json> = undone
        .listeners
        .iter()
        .map(|(namespace, at)| json!({ "namespace": namespace, "address": at.to_string() }))
        .collect();
    json!({
        "name": name,
        "trial": undone.trial,
        "defaults": defaults,
        "routes": routes,
        "listeners_left": listeners,
        "connections_left": undone.connections,
    })
}

fn in_words(name: &str, undone: &Unloaded) -> String {
    let mut out = match undone.trial {
        true => format!("{name}: its trial is ended\n"),
        false => format!("{name}: unloaded\n"),
    };
    for (namespace, to) in &undone.defaults {
        let _ = writeln!(out, "  default in namespace {namespace}: {to} again");
    }
    for (namespace, to) in &undone.routes {
        let _ = writeln!(
            out,
            "  route {to} in namespace {namespace} named it and names no algorithm now"
        );
    }
    for (namespace, at) in &undone.listeners {
        let _ = writeln!(
            out,
            "  listener {at} in namespace {namespace} still has it, and its connections will"
        );
    }
    if undone.connections > 0 {
        let _ = writeln!(out, "  {} connections keep it until they close", undone.connections);
    }
    if undone.connections > 0 || !undone.listeners.is_empty() {
        let _ = writeln!(out, "  knee migrate --from {name} --to NAME [--listeners] moves them");
    }
    out
}
