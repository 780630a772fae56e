//! `knee migrate`.

use std::fmt::Write as _;

use knee_bpf::{Connections, Migration, Outcome, Planned};
use knee_netns::FoundNamespace;
use serde_json::{Value as Json, json};

use super::select::{FilterArgs, NetnsArgs};
use crate::{CHECK_FAILED, DONE, Failure, print};

/// Connections listed per outcome. --json lists all.
const SHOWN: usize = 20;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The connections' present algorithm.
    #[arg(long, value_name = "NAME")]
    from: String,
    /// The new algorithm.
    #[arg(long, value_name = "NAME")]
    to: String,
    /// Move listening sockets instead of connections. What they accept later gets the new algorithm.
    #[arg(long, conflicts_with_all = ["remote_port", "remote"])]
    listeners: bool,
    /// Change nothing; print what would change.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    netns: NetnsArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    let filter = args.filter.filter(Some(&args.from));
    let migration = Migration::new(&args.from, &args.to, filter, args.listeners)?;
    let reader = Connections::open()?;
    let (mut connections, mut namespaces): (_, Vec<FoundNamespace>) = (Vec::new(), Vec::new());
    let mut labels = Vec::new();
    for (namespace, label) in args.netns.find()? {
        connections.append(&mut reader.read_in(&namespace)?);
        labels.push((namespace.id(), label));
        namespaces.push(namespace);
    }
    let mut moved = migration.plan(connections);
    if !args.dry_run {
        moved = migration.run(moved, &namespaces)?;
    }
    let label = |one: &Planned| {
        let found = labels.iter().find(|(id, _)| *id == one.connection.netns);
        found.map_or("", |(_, label)| label.as_str())
    };
    if args.json {
        print(&format!("{}\n", as_json(args, &moved, label)))?;
    } else {
        print(&in_words(args, &moved, label))?;
    }
    Ok(if moved.iter().any(|one| one.outcome.is_failed()) { CHECK_FAILED } else { DONE })
}

/// Returns how many connections were moved (or would be), skipped, and failed.
fn counts(all: &[Planned]) -> [usize; 3] {
    let count = |is: fn(Outcome) -> bool| all.iter().filter(|one| is(one.outcome)).count();
    [
        count(|outcome| matches!(outcome, Outcome::Moved | Outcome::Planned)),
        count(Outcome::is_skipped),
        count(Outcome::is_failed),
    ]
}

fn in_words<'a>(args: &Args, all: &'a [Planned], label: impl Fn(&'a Planned) -> &'a str) -> String {
    let what = if args.listeners { "listeners" } else { "connections" };
    if all.is_empty() {
        return format!("no matching {what} of {}\n", args.from);
    }
    let mut out = String::new();
    let mut outcomes: Vec<String> = all.iter().map(|one| one.outcome.to_string()).collect();
    outcomes.sort_unstable();
    outcomes.dedup();
    for outcome in &outcomes {
        let of_it = || all.iter().filter(|one| one.outcome.to_string() == *outcome);
        for one in of_it().take(SHOWN) {
            let (local, remote) = (one.connection.local, one.connection.remote);
            let _ = write!(out, "{outcome}  {local}");
            if !one.connection.is_listener() {
                let _ = write!(out, " - {remote}");
            }
            if args.netns.are_several() {
                let _ = write!(out, "  in {}", label(one));
            }
            out.push('\n');
        }
        let more = of_it().count().saturating_sub(SHOWN);
        if more > 0 {
            let _ = writeln!(out, "{outcome}  and {more} more (--json prints all)");
        }
    }
    let [moved, skipped, failed] = counts(all);
    let would = if args.dry_run { "would move" } else { "moved" };
    let _ = writeln!(
        out,
        "{would} {moved} {what} from {} to {}, {skipped} skipped, {failed} failed",
        args.from, args.to
    );
    out
}

fn as_json<'a>(args: &Args, all: &'a [Planned], label: impl Fn(&'a Planned) -> &'a str) -> Json {
    let each: Vec<Json> = all
        .iter()
        .map(|one| {
            json!({
                "netns": label(one),
                "local": one.connection.local.to_string(),
                "remote": (!one.connection.is_listener())
                    .then(|| one.connection.remote.to_string()),
                "state": one.connection.state.to_string(),
                "cookie": one.connection.cookie,
                "outcome": one.outcome.to_string(),
            })
        })
        .collect();
    let [moved, skipped, failed] = counts(all);
    json!({
        "from": args.from,
        "to": args.to,
        "dry_run": args.dry_run,
        "moved": moved,
        "skipped": skipped,
        "failed": failed,
        "sockets": each,
    })
}
