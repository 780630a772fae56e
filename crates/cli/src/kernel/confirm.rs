//! `knee confirm`.

use knee_bpf::host::Host;
use serde_json::json;

use super::{entry_json, mounted, mounted_json, set_to};
use crate::{DONE, Failure, print};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The algorithm, if several are on trial.
    name: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    let host = Host::here();
    let entry = host.confirm(args.name.as_deref())?;
    if args.json {
        let mounted = mounted_json(&host);
        let answer =
            json!({ "done": "confirmed", "loaded": entry_json(&entry), "mounted": mounted });
        return print(&format!("{answer}\n")).map(|()| DONE);
    }
    let name = &entry.name;
    print(&format!(
        "{name}: confirmed{}\n{}  knee unload {name} undoes it\n",
        set_to(&entry),
        mounted(&host)
    ))?;
    Ok(DONE)
}
