//! The table of support as a page, and as the "Only on" of a key.

use std::fmt::Write as _;
use std::sync::Arc;

use knee_queue::time::{Rate, Time};
use knee_queue::{PortProperties, QueueConfig};

use super::{Facts, On, Row, Support, rows};
use crate::spec::{Cc, Flow, HostConfig, LinuxVersion, Network, Run, Sampling, Schedule, Traffic};
use crate::topology::Cable;

const ABOUT: &str = "\
# Support

**What does each back end do with a key?** `make bless` writes this page from
[support.rs](../crates/run/src/support.rs). Back ends take every key of [keys.md](keys.md) that is not here.

| word | meaning |
| --- | --- |
| yes | it acts as in the simulator |
| otherwise | it acts otherwise; `back_end.differences` in `manifest.json` says how |
| no effect | it does nothing; `back_end.differences` says so |
| refused | `--check` and `knee run` refuse the file, with the way out |
| - | real machines have their own |

What depends on a machine or its kernel, as a sysctl that it lacks, is refused by name, too: [lab.md](lab.md), [hosts.md](hosts.md),
[vkernel.md](vkernel.md).

";

/// The page of all rows that some back end does not take as they are.
pub fn page() -> String {
    let mut out = ABOUT.to_owned();
    let names: Vec<&str> = On::ALL.iter().map(|on| on.name()).collect();
    let _ = writeln!(out, "| key | {} | why |", names.join(" | "));
    let _ = writeln!(out, "| --- |{}", " --- |".repeat(names.len() + 1));
    for row in all(Facts::default()) {
        let mut whys: Vec<(Vec<&str>, &str)> = Vec::new();
        let words = On::ALL.map(|on| {
            let (word, why) = match row.answer(on) {
                Support::Yes => ("yes", ""),
                Support::Otherwise(why) => ("otherwise", why),
                Support::Inert(why) => ("no effect", why),
                Support::Refused(why) => ("refused", why),
                Support::NotApplicable => ("-", ""),
            };
            match whys.iter_mut().find(|(_, known)| *known == why) {
                Some((names, _)) => names.push(on.name()),
                None if why.is_empty() => {}
                None => whys.push((vec![on.name()], why)),
            }
            word
        });
        let whys: Vec<String> =
            whys.iter().map(|(names, why)| format!("{}: {why}", names.join(", "))).collect();
        let when = if row.when.is_empty() { String::new() } else { format!(" {}", row.when) };
        let _ =
            writeln!(out, "| `{}`{when} | {} | {} |", row.key, words.join(" | "), whys.join("; "));
    }
    out
}

/// The row of a key of docs/keys.md, with its table, that is about all values but the default.
pub fn find(key: &str) -> Option<Row> {
    let (table, key) = key.split_once('.')?;
    let table = match table {
        "host" => "hosts",
        "named-cable" | "link" => "cable",
        other => other,
    };
    let key = match key {
        "buffers" => "buffer",
        "balances" => "balance",
        other => other,
    };
    let key = format!("{table}.{key}");
    let facts = Facts { offloads: true, ..Facts::default() };
    all(facts).into_iter().find(|row| row.when.is_empty() && row.key == key)
}

/// The back ends on which a key of a table of docs/keys.md acts, where not all are.
pub fn only_on(table: &str, key: &str) -> String {
    let Some(row) = find(&format!("{table}.{key}")) else { return String::new() };
    let acts = |on: &On| matches!(row.answer(*on), Support::Yes | Support::Otherwise(_));
    let names: Vec<&str> = On::ALL.iter().filter(|on| acts(on)).map(|on| on.name()).collect();
    if names.len() < On::ALL.len() { names.join(", ") } else { String::new() }
}

/// Every row that some back end does not take as it is, once.
fn all(facts: Facts) -> Vec<Row> {
    let mut all: Vec<Row> = Vec::new();
    rows(&whole(), facts, &mut |row, _| {
        let is_known = all.iter().any(|other| (other.key, other.when) == (row.key, row.when));
        if !is_known && On::ALL.iter().any(|on| row.answer(*on) != Support::Yes) {
            all.push(row.clone());
        }
    });
    all
}

/// A run that has each part of the table: a host, a flow, and a link with each queue.
fn whole() -> Run {
    let rate = Rate::from_bps(10_000_000_000).expect("it is above 0");
    let mut network = Network::default();
    let host = network.host("h", HostConfig::new(LinuxVersion(6, 1)));
    let switch = network.switch("switch");
    for queue in QueueConfig::each(PortProperties { frame_bytes: 1514, rate, has_burst: false }) {
        let cable = Arc::new(Cable::new(Some(rate), queue));
        network.duplex(host, switch, Arc::clone(&cable), cable);
    }
    let flow = Flow {
        group: 0,
        from: host,
        to: switch,
        cc: Cc::by_name("reno").expect("there is a reno"),
        peer_cc: None,
        start: Time::ZERO,
        first_write: None,
        stop: None,
        traffic: Traffic::Bulk { bytes: None },
        read_at_bytes: 1,
        sampled: false,
        base_rtt: None,
        dscp: 0,
        peer_dscp: 0,
        max_pacing_rate: None,
    };
    Run {
        seed: 0,
        end: Time::ZERO,
        until_done: false,
        network,
        flows: vec![flow],
        pings: Vec::new(),
        sampling: Sampling::default(),
        schedule: Schedule::default(),
    }
}
