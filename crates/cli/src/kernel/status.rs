//! `knee status`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use knee_bpf::LabelsSeen;
use knee_bpf::host::policies::Attached;
use knee_bpf::host::{Entry, Held, Host, InUse, Note, Origin, Status};
use serde_json::{Map, Value as Json, json};

use super::{made_of, plb, shown, source_json};
use crate::{CHECK_FAILED, DONE, Failure, print};

/// Listeners to list. The rest is only counted.
const LISTED: usize = 10;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    let host = Host::here();
    let status = host.status()?;
    // The status of algorithms is printed even if labels cannot be read.
    let labels = host.labels().unwrap_or_else(|error| LabelsSeen {
        at: Vec::new(),
        unknown: vec![("the host".to_owned(), error.to_string())],
    });
    match args.json {
        true => {
            let mut all = as_json(&status);
            all["labels"] = plb::as_json(&labels.at).into();
            all["labels_unknown"] = plb::unknown_json(&labels.unknown).into();
            print(&format!("{all}\n"))?;
        }
        false => print(&(in_words(&status) + &plb::in_words(&labels)))?,
    }
    Ok(match status.is_as_left() && labels.unknown.is_empty() {
        true => DONE,
        false => CHECK_FAILED,
    })
}

fn as_json(status: &Status) -> Json {
    let pairs = |pairs: &[(String, String)]| -> Vec<Json> {
        pairs.iter().map(|(ns, to)| json!({ "namespace": ns, "to": to })).collect()
    };
    let registered: Vec<Json> = status
        .registered
        .iter()
        .map(|one| {
            let params: Map<String, Json> =
                shown_params(one).map(|(name, value)| (name, Json::from(value))).collect();
            let refusing: Vec<Json> = one
                .refusing
                .iter()
                .map(|(ns, at)| json!({ "namespace": ns, "address": at.to_string() }))
                .collect();
            let mut object = json!({
                "name": one.name,
                "algorithm": one.algorithm,
                "params": params,
                "default_of": one.defaults,
                "routes": pairs(&one.routes),
                "connections": one.connections,
                "connections_of_replaced_program": one.old_connections,
                "listeners": one.listeners,
                "listeners_of_replaced_program": one.old_listeners,
                "left_without_ecn": one.without_ecn,
                "cgroup_is_gone": one.cgroup_is_gone,
                "fallback": one.fallback,
                "handed_to_fallback": one.fallbacks,
                "listeners_that_refuse_ecn": refusing,
                "stopped_indices": one.stopped.map(|(indices, _)| indices),
                "stopped_loops": one.stopped.map(|(_, loops)| loops),
            });
            if let Some(source) = &one.source {
                object["source"] = source_json(source);
            }
            match &one.origin {
                Origin::Loaded(entry) => {
                    object["origin"] = "loaded".into();
                    object["loaded_at_unix_s"] = entry.loaded_at_unix_s.into();
                    object["cgroup"] = cgroup_json(entry);
                }
                Origin::Trial(note) => {
                    object["origin"] = "trial".into();
                    object["pid"] = note.pid.into();
                    object["seconds_left"] = note.seconds_left().into();
                    object["cgroup"] = cgroup_json(&note.entry);
                }
                Origin::Pinned => object["origin"] = "pinned".into(),
                Origin::Elsewhere => object["origin"] = "elsewhere".into(),
                Origin::Process => object["origin"] = "process".into(),
            }
            object
        })
        .collect();
    let names = |entries: &[Entry]| -> Vec<Json> {
        entries.iter().map(|entry| Json::from(entry.name.as_str())).collect()
    };
    json!({
        "registered": registered,
        "is_as_left": status.is_as_left(),
        "unregistered": status.held.iter().map(held_json).collect::<Vec<_>>(),
        "policies": status.policies.iter().map(policy_json).collect::<Vec<_>>(),
        "journal": status.journal,
        "interrupted": names(&status.interrupted),
        "vanished": names(&status.vanished),
        "unknown": plb::unknown_json(&status.unknown),
    })
}

fn held_json(held: &Held) -> Json {
    json!({
        "name": held.name,
        "is_own": held.is_own,
        "default_of": held.defaults,
        "listeners": held.listeners,
        "connections": held.connections,
        "references_elsewhere": held.elsewhere,
    })
}

fn policy_json(policy: &Attached) -> Json {
    let path =
        |path: &Option<PathBuf>| path.as_ref().map(|path| path.to_string_lossy().into_owned());
    json!({
        "cgroup": path(&policy.cgroup),
        "applied_to": path(&policy.applied_to),
        "rules": policy.rules.len(),
    })
}

fn cgroup_json(entry: &Entry) -> Json {
    entry.cgroup.as_ref().map(|path| path.to_string_lossy()).into()
}

fn in_words(status: &Status) -> String {
    let mut out = String::new();
    for one in &status.registered {
        describe(&mut out, one);
    }
    if status.registered.is_empty() {
        out += "knee has no algorithm registered with this kernel\n";
    }
    status.held.iter().for_each(|held| describe_held(&mut out, held));
    if let Some(why) = &status.journal {
        let _ = writeln!(
            out,
            "the journal cannot be used ({why}): this is what the kernel says. The next change moves \
             it aside"
        );
    }
    status.policies.iter().for_each(|policy| describe_policy(&mut out, policy));
    for entry in &status.interrupted {
        let name = &entry.name;
        let _ = writeln!(
            out,
            "{name}: a command was interrupted: load it again, or run knee unload {name}"
        );
    }
    for Entry { name, .. } in &status.vanished {
        let _ = writeln!(
            out,
            "{name}: loaded, but no longer registered: its pin is gone, by an unmounted BPF file \
             system or an interrupted knee unload. Load it again, or run knee unload {name}"
        );
    }
    out += &plb::unknown_in_words("which connections use what", &status.unknown);
    out
}

fn describe_held(out: &mut String, held: &Held) {
    let Held { name, is_own, defaults, listeners, connections, elsewhere } = held;
    let mut words = Vec::new();
    if *connections > 0 {
        words.push(counted(*connections, "connection", "connections"));
    }
    if *listeners > 0 {
        words.push(counted(*listeners, "listener", "listeners"));
    }
    words.extend(defaults.iter().map(|namespace| format!("the default of namespace {namespace}")));
    if let Some(more) = elsewhere.filter(|more| *more > 0) {
        words.push(format!(
            "{more} more (closed sockets, namespaces without a process, or defaults that the kernel refused; these end with a reboot)"
        ));
    }
    if words.is_empty() {
        return;
    }
    let way_out = match (held.is_given(), is_own) {
        (true, true) => format!("new connections still get it: knee unload {name}"),
        (true, false) => "new connections still get it: sysctl net.ipv4.tcp_congestion_control, \
                          knee migrate --listeners"
            .to_owned(),
        (false, _) if *connections == 0 => "new connections do not get it".to_owned(),
        (false, _) => "until closed or migrated (knee migrate)".to_owned(),
    };
    let _ =
        writeln!(out, "{name}: no longer registered, but kept by {}; {way_out}", words.join(", "));
}

fn describe_policy(out: &mut String, policy: &Attached) {
    let rules = counted(policy.rules.len(), "rule", "rules");
    let _ = match (&policy.cgroup, &policy.applied_to) {
        (Some(cgroup), _) => {
            writeln!(out, "policy: {rules} on {} (knee policy show)", cgroup.display())
        }
        (None, Some(was)) => {
            let is_again = if was.exists() { ", and was made again since" } else { "" };
            writeln!(
                out,
                "policy: {rules} on {} act on nothing: the cgroup was removed{is_again}. Run knee \
                 policy apply again, or knee policy clear",
                was.display()
            )
        }
        (None, None) => writeln!(
            out,
            "policy: {rules} on a removed cgroup act on nothing. Run knee policy apply again, or \
             knee policy clear"
        ),
    };
}

fn describe(out: &mut String, one: &InUse) {
    let params: Vec<String> =
        shown_params(one).map(|(name, value)| format!(" {name}={value}")).collect();
    let _ = writeln!(out, "{}: {}{}", one.name, one.algorithm, params.concat());
    if let Some(source) = &one.source {
        let _ = writeln!(out, "  of {}", made_of(source));
    }
    let _ = match &one.origin {
        Origin::Loaded(entry) => {
            writeln!(out, "  loaded {} ago", ago(entry.loaded_at_unix_s))
        }
        Origin::Trial(note) => writeln!(
            out,
            "  on trial by process {}: {} s left to run knee confirm {}",
            note.pid,
            note.seconds_left(),
            one.name
        ),
        Origin::Pinned => writeln!(out, "  pinned, but not in the journal"),
        Origin::Elsewhere => writeln!(
            out,
            "  loaded in another mount namespace, or with another KNEE_RUN_DIR (nsenter --mount --target \
             PID knee status)"
        ),
        Origin::Process => writeln!(out, "  held by a process, not loaded by knee load"),
    };
    let cgroup = match &one.origin {
        Origin::Loaded(entry) | Origin::Trial(Note { entry, .. }) => entry.cgroup.as_ref(),
        Origin::Pinned | Origin::Elsewhere | Origin::Process => None,
    };
    if let Some(cgroup) = cgroup {
        let gone = if one.cgroup_is_gone { ", a removed cgroup: load it again" } else { "" };
        let _ = writeln!(out, "  for sockets of {}{gone}", cgroup.display());
    }
    for namespace in &one.defaults {
        let _ = writeln!(out, "  default in namespace {namespace}");
    }
    for (namespace, to) in &one.routes {
        let _ = writeln!(out, "  used by the route {to} in namespace {namespace}");
    }
    let _ = write!(out, "  {}", counted(one.connections, "connection", "connections"));
    if one.old_connections > 0 {
        let _ = write!(out, ", {} with the old program", one.old_connections);
    }
    let _ = write!(out, ", {}", counted(one.listeners, "listener", "listeners"));
    if one.old_listeners > 0 {
        let _ = write!(out, ", {} with the old program", one.old_listeners);
    }
    out.push('\n');
    let left = one.without_ecn.unwrap_or(0);
    // A program that assigns the algorithm usually checks for ECN first, and the connections without ECN stay at the
    // default. Then a fallback count of 0 is not shown.
    if let Some(fallbacks) = one.fallbacks.filter(|fallbacks| *fallbacks > 0 || left == 0) {
        let to = one.fallback.as_deref().unwrap_or("its fallback");
        let _ = writeln!(
            out,
            "  {} without ECN moved to {to}",
            counted(fallbacks as usize, "connection", "connections")
        );
    }
    if let Some((indices, loops)) = one.stopped.filter(|stopped| *stopped != (0, 0)) {
        let _ = writeln!(
            out,
            "  {} out of bounds, {} stopped after 65536 turns: a fault of its source (docs/modules.md)",
            counted(indices as usize, "index", "indices"),
            counted(loops as usize, "loop", "loops")
        );
    }
    if left > 0 {
        let left = counted(left as usize, "connection", "connections");
        let of = if cgroup.is_some() { " of the cgroup" } else { "" };
        let _ = writeln!(out, "  {left}{of} without ECN left at the default");
    }
    for (namespace, at) in one.refusing.iter().take(LISTED) {
        let _ = writeln!(
            out,
            "  listener {at} in namespace {namespace} refuses ECN: it is older, or chose another \
             algorithm (knee migrate --listeners)"
        );
    }
    if one.refusing.len() > LISTED {
        let _ = writeln!(out, "  and {} more such listeners", one.refusing.len() - LISTED);
    }
}

fn shown_params(one: &InUse) -> impl Iterator<Item = (String, String)> {
    shown(&one.algorithm, &one.params, one.fallback.is_some())
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Returns the time since then, in the largest unit that fits.
fn ago(unix_s: u64) -> String {
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(unix_s, |now| now.as_secs());
    let seconds = now_s.saturating_sub(unix_s);
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_the_largest_unit_that_fits() {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        assert_eq!(ago(now_s - 1800), "30 min");
        assert_eq!(ago(now_s - 10 * 3600), "10 h");
        assert_eq!(ago(now_s - 30 * 86_400), "30 days");
        assert_eq!(ago(now_s + 5), "0 s");
    }
}
