//! `knee unload`.

use std::fmt::Write as _;

use knee_bpf::host::{Host, Restored, Unloaded, policies};
use knee_bpf::{Error, LabelsDropped};
use serde_json::{Value as Json, json};

use super::plb;
use crate::{CHECK_FAILED, COULD_NOT, DONE, Failure, complain, print};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Registered names, as knee status shows them.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    names: Vec<String>,
    /// Unload everything that knee loaded, and clear policies and labels.
    #[arg(long)]
    all: bool,
    /// Exit 0 for a name that is not loaded.
    #[arg(long)]
    if_loaded: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Unloads algorithms. One that cannot be unloaded does not keep the others.
pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    let host = Host::here();
    let (mut undone, mut failed, mut left) = (Vec::new(), Vec::new(), false);
    // An algorithm that a rule names is not unloaded, so the rules go first.
    let cleared = if args.all { policies::clear(&host) } else { Ok(0) };
    let cleared = cleared.unwrap_or_else(|error| {
        complain(&format!("knee: the policy is not cleared: {error}"));
        failed.push(json!({ "policy": "all cgroups", "why": error.to_string() }));
        0
    });
    if cleared > 0 && !args.json {
        let cgroups =
            if cleared == 1 { "1 cgroup".to_owned() } else { format!("{cleared} cgroups") };
        print(&format!("policy: cleared the rules of {cgroups}\n"))?;
    }
    // What was cleared is told, whatever happens to the rest.
    let names = if args.all { host.names() } else { Ok(args.names.clone()) };
    let names = names.unwrap_or_else(|error| {
        complain(&format!("knee: {error}"));
        failed.push(json!({ "name": Json::Null, "why": error.to_string() }));
        Vec::new()
    });
    let mut absent = Vec::new();
    for name in &names {
        match host.unload(name) {
            Ok(one) => {
                left |= !one.is_all();
                match args.json {
                    true => undone.push(as_json(name, &one)),
                    false => print(&in_words(name, &one))?,
                }
            }
            // Neither registered by another program nor loaded under a different name.
            Err(Error::NotLoaded { registered: false, loaded_as, .. })
                if args.if_loaded && loaded_as.is_empty() =>
            {
                absent.push(name.as_str());
                if !args.json {
                    print(&format!("{name}: not loaded\n"))?;
                }
            }
            Err(error) => {
                complain(&format!("knee: {error}"));
                failed.push(json!({ "name": name, "why": error.to_string() }));
            }
        }
    }
    // Labels only serve algorithms that knee has loaded.
    let labels = match args.all {
        true => host.drop_labels(None),
        false => Ok(LabelsDropped::default()),
    };
    // Earlier changes are reported even if this step fails.
    let labels = labels.unwrap_or_else(|error| LabelsDropped {
        failed: vec![("all devices".to_owned(), error)],
        ..LabelsDropped::default()
    });
    for (complaint, (what, why)) in plb::not_left_alone(&labels).iter().zip(&labels.failed) {
        complain(complaint);
        failed.push(json!({ "labels": what, "why": why.to_string() }));
    }
    let code = match (failed.is_empty(), left) {
        (false, _) => COULD_NOT,
        (true, true) => CHECK_FAILED,
        (true, false) => DONE,
    };
    if args.json {
        print(&format!(
            "{}\n",
            json!({
                "unloaded": undone,
                "not_loaded": absent,
                "failed": failed,
                "policies_cleared": cleared,
                "labels": plb::as_json(&labels.at),
                "labels_held": plb::as_json(&labels.held),
            })
        ))?;
    } else {
        if names.is_empty() && cleared == 0 && labels.at.is_empty() && labels.failed.is_empty() {
            print("nothing is loaded\n")?;
        }
        print(&plb::left_alone(&labels))?;
    }
    Ok(code)
}

fn as_json(name: &str, undone: &Unloaded) -> Json {
    let defaults: Vec<Json> = undone
        .defaults
        .iter()
        .map(|one| {
            let Restored { namespace, to, is_known } = one;
            json!({ "namespace": namespace, "default": to, "is_as_before": is_known })
        })
        .collect();
    let routes: Vec<Json> = undone
        .routes
        .iter()
        .map(|(namespace, to)| json!({ "namespace": namespace, "to": to }))
        .collect();
    let routes_left: Vec<Json> = undone
        .routes_left
        .iter()
        .map(|(namespace, to, why)| json!({ "namespace": namespace, "to": to, "why": why }))
        .collect();
    let listeners: Vec<Json> = undone
        .listeners
        .iter()
        .map(|(namespace, at, to)| {
            json!({ "namespace": namespace, "address": at.to_string(), "algorithm": to })
        })
        .collect();
    let left = undone.left.as_ref().map(|left| {
        let listeners: Vec<Json> = left
            .listeners
            .iter()
            .map(|(namespace, at)| json!({ "namespace": namespace, "address": at.to_string() }))
            .collect();
        json!({ "listeners": listeners, "connections": left.connections })
    });
    json!({
        "name": name,
        "trial": undone.trial,
        "defaults": defaults,
        "routes": routes,
        "routes_left": routes_left,
        "listeners": listeners,
        "left": left,
        "unread": undone.unread,
    })
}

fn in_words(name: &str, undone: &Unloaded) -> String {
    let mut out = match undone.trial {
        true => format!("{name}: trial ended\n"),
        false => format!("{name}: unloaded\n"),
    };
    for Restored { namespace, to, is_known } in &undone.defaults {
        let _ = match is_known {
            true => writeln!(out, "  default in namespace {namespace}: {to} again"),
            false => writeln!(
                out,
                "  default in namespace {namespace}: {to}, because the earlier one is not known: set \
                 yours (sysctl net.ipv4.tcp_congestion_control)"
            ),
        };
    }
    for (namespace, to) in &undone.routes {
        let _ = writeln!(out, "  route {to} in namespace {namespace} no longer has an algorithm");
    }
    for (namespace, to, why) in &undone.routes_left {
        let _ = writeln!(
            out,
            "  route {to} in namespace {namespace} still has it (run ip route change): {why}"
        );
    }
    for (namespace, at, to) in &undone.listeners {
        let _ = writeln!(out, "  listener {at} in namespace {namespace}: {to} again");
    }
    if let Some(why) = &undone.unread {
        let _ = writeln!(out, "  some of its users could not be read or moved: {why}");
    }
    let Some(left) = &undone.left else {
        return out + "  its remaining users are unknown (knee doctor)\n";
    };
    for (namespace, at) in &left.listeners {
        let _ = writeln!(
            out,
            "  listener {at} in namespace {namespace} still has it; so will its new connections"
        );
    }
    if left.connections > 0 {
        let _ = writeln!(out, "  {} connections keep it until they close", left.connections);
    }
    if left.connections > 0 || !left.listeners.is_empty() {
        let _ = writeln!(out, "  knee migrate --from {name} --to NAME [--listeners] moves them");
    }
    out
}

#[cfg(test)]
mod tests {
    use knee_bpf::host::Left;

    use super::*;

    #[test]
    fn what_is_not_known_is_not_taken_for_undone() {
        let mut undone = Unloaded { left: Some(Left::default()), ..Unloaded::default() };
        assert!(undone.is_all());
        let listener = ("host".to_owned(), ([127, 0, 0, 1], 80).into());
        undone.left = Some(Left { listeners: vec![listener], connections: 0 });
        assert!(!undone.is_all());
        undone.left = None;
        undone.unread = Some("cannot read the connections".to_owned());
        assert!(!undone.is_all());
        let said = in_words("knee_x", &undone);
        assert!(said.contains("read or moved: cannot read the connections\n"), "{said}");
        assert!(said.ends_with("  its remaining users are unknown (knee doctor)\n"), "{said}");
        assert_eq!(as_json("knee_x", &undone)["unread"], "cannot read the connections");
    }
}
