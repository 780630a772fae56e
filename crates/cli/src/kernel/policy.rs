//! `knee policy`.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Subcommand;
use knee_bpf::host::Host;
use knee_bpf::host::policies::{self, Applied, Attached, Options};
use knee_bpf::policy::{Ecn, File, Hits, Ports, Rule};
use serde_json::{Value as Json, json};

use super::mounted;
use crate::{DONE, Failure, print};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Replace all rules, of every cgroup, by those of a file (docs/policy.md).
    Apply {
        /// The file.
        file: PathBuf,
        /// Apply it to the sockets of this cgroup [default: the root of cgroup2, so all].
        #[arg(long, value_name = "PATH")]
        cgroup: Option<PathBuf>,
        /// Allow algorithms that need ECN on connections to the Internet.
        #[arg(long)]
        i_know: bool,
        /// Check everything, change nothing.
        #[arg(long)]
        dry_run: bool,
    },
    /// Show the kernel's rules, and how many connections each decided.
    Show {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Remove all rules. Connections keep their algorithm.
    Clear,
}

pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    let host = Host::here();
    let text = match &args.action {
        Action::Apply { file, cgroup, i_know, dry_run } => {
            let file = File::read(file)?;
            let options = Options { cgroup: cgroup.clone(), i_know: *i_know, dry_run: *dry_run };
            let mut out = String::new();
            let Applied { cgroups, removed } = policies::apply(&host, &file, &options)?;
            let (apply, remove) = match dry_run {
                true => ("would apply", "would remove"),
                false => ("applied", "removed"),
            };
            for (cgroup, rules) in cgroups {
                let _ = writeln!(out, "{apply} {} to {}", count(rules, "rule"), cgroup.display());
            }
            // The file replaces all rules, also those of cgroups that it does not name.
            for (cgroup, rules) in removed {
                let from =
                    cgroup.map_or("a removed cgroup".into(), |path| path.display().to_string());
                let _ = writeln!(out, "{remove} {} from {from}", count(rules, "rule"));
            }
            out + &mounted(&host)
        }
        Action::Show { json: true } => {
            let all: Vec<Json> = policies::show(&host)?.iter().map(attached_json).collect();
            format!("{}\n", json!({ "policies": all }))
        }
        Action::Show { json: false } => text(&policies::show(&host)?),
        Action::Clear => format!("cleared {}\n", count(policies::clear(&host)?, "cgroup")),
    };
    print(&text)?;
    Ok(DONE)
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn text(all: &[Attached]) -> String {
    if all.is_empty() {
        return "no policy is applied\n".to_owned();
    }
    let mut out = String::new();
    for one in all {
        let _ = match &one.cgroup {
            Some(path) => writeln!(out, "{}", path.display()),
            None => writeln!(
                out,
                "{}: removed, so these rules act on nothing (the next apply or clear tidies up)",
                one.applied_to
                    .as_ref()
                    .map_or("a cgroup".into(), |path| path.display().to_string())
            ),
        };
        for (index, (rule, hits)) in one.rules.iter().enumerate() {
            let name = if rule.name.is_empty() { "" } else { " " };
            let _ = writeln!(out, "  rule {}{name}{}: {}", index + 1, rule.name, says(rule));
            let _ = writeln!(out, "    {}", did(hits));
        }
    }
    out
}

fn says(rule: &Rule) -> String {
    let mut parts = Vec::new();
    if !rule.to.is_empty() {
        let to: Vec<String> = rule.to.iter().map(ToString::to_string).collect();
        parts.push(format!("to {}", to.join(", ")));
    }
    if !rule.ports.is_empty() {
        parts.push(format!("ports {}", ports(&rule.ports).join(", ")));
    }
    if !rule.listen.is_empty() {
        parts.push(format!("listen {}", ports(&rule.listen).join(", ")));
    }
    parts.push(rule.algorithm.clone().unwrap_or_else(|| "default".to_owned()));
    parts.extend(Some(ecn(rule.ecn)).filter(|_| rule.ecn != Ecn::Host).map(|e| format!("ecn {e}")));
    parts.extend(Some(rule.base_rtt_us).filter(|us| *us > 0).map(|us| format!("base RTT {us} us")));
    parts.join("; ")
}

fn did(hits: &Hits) -> String {
    let mut parts = vec![
        format!("{} connected", hits.connected),
        format!("{} accepted", hits.accepted),
        format!("{} listening", hits.listened),
    ];
    let more = [
        (hits.without_ecn, "without ECN, left at the default"),
        (hits.yielded, "left to their program's choice"),
        (hits.failed, "refused by the kernel"),
    ];
    parts.extend(more.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")));
    parts.join(", ")
}

fn ports(ports: &[Ports]) -> Vec<String> {
    let one = |ports: &Ports| match (*ports.start(), *ports.end()) {
        (0, u16::MAX) => "all".to_owned(),
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}-{last}"),
    };
    ports.iter().map(one).collect()
}

fn ecn(ecn: Ecn) -> &'static str {
    match ecn {
        Ecn::Host => "host",
        Ecn::Accept => "grant",
        Ecn::PeersRunKnee => "peers run knee",
    }
}

fn attached_json(one: &Attached) -> Json {
    let rules: Vec<Json> = one.rules.iter().map(|(rule, hits)| rule_json(rule, hits)).collect();
    let path =
        |path: &Option<PathBuf>| path.as_ref().map(|path| path.to_string_lossy().into_owned());
    let (cgroup, applied_to) = (path(&one.cgroup), path(&one.applied_to));
    json!({ "cgroup": cgroup, "applied_to": applied_to, "rules": rules })
}

fn rule_json(rule: &Rule, hits: &Hits) -> Json {
    let mut all = json!({
        "name": rule.name,
        "to": rule.to.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "ports": ports(&rule.ports),
        "listen": ports(&rule.listen),
        "algorithm": rule.algorithm.as_deref().unwrap_or("default"),
        "ecn": ecn(rule.ecn),
        "hits": {
            "connected": hits.connected,
            "accepted": hits.accepted,
            "listened": hits.listened,
            "without_ecn": hits.without_ecn,
            "yielded": hits.yielded,
            "failed": hits.failed,
        },
    });
    if rule.base_rtt_us > 0 {
        all["base_rtt_us"] = rule.base_rtt_us.into();
    }
    all
}
