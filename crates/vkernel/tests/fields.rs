//! What a congestion control module sees of the simulator is what it sees of Linux: `tests/fields` has modules that print all
//! fields at each call, and what Linux has there. Where a kernel is built, it is compared with that record, too.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use knee_algo::module;
use knee_queue::time::{Duration, Rate, Time};
use knee_queue::{DropTailConfig, Limit, QueueConfig};
use knee_run::RunOptions;
use knee_run::spec::{Cc, Flow, HostConfig, LinuxVersion, Run, Sampling, Schedule, Traffic};
use knee_run::topology::{Cable, Star};
use knee_vkernel::kernel::{DEFAULT_HZ, find};
use knee_vkernel::{Options, console};

/// Versions of Linux of which there is a record in tests/fields.
const RECORDED: [&str; 2] = ["6.1", "6.12"];

const FILES: [&str; 2] = ["window", "rate"];

/// What both ends see: by end and number of the call, the operation, and the values of the fields.
type Seen = BTreeMap<(String, u32), Call>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Call {
    operation: String,
    values: BTreeMap<String, String>,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fields")
}

fn linux(version: &str) -> LinuxVersion {
    version.parse().expect("a version")
}

/// A host asks another three times, whose answers take as long as those of a third host on a slow link: so the connection is
/// idle for more than an RTO before the first request and between requests.
fn conversation(file: &str, version: &str, jiffies_at_start: Option<u32>) -> Run {
    let mut host = HostConfig::new(linux(version));
    host.jiffies_at_start = jiffies_at_start;
    // So that no window depends on what a segment is charged.
    host.rcvbuf_initial_bytes = 8 << 20;
    host.rcvbuf_max_bytes = 512 << 20;
    let hosts = ["asks", "slow", "answers"].map(|name| (name.to_owned(), host.clone())).to_vec();
    let cable = Cable {
        // Short enough that the pacing rate lets the host's own queue hold a whole window.
        delay: Duration::from_us(100),
        ..Cable::new(
            Rate::from_bps(1_000_000_000),
            QueueConfig::DropTail(DropTailConfig { limit: Limit::Bytes(u64::MAX) }),
        )
    };
    // Slower than hosts send, so that no ACK arrives while the host's own queue holds packets.
    let down = Cable { rate: Rate::from_bps(300_000_000), ..cable.clone() };
    let mut network = Star { hosts, up: cable, down }.build();
    for link in network.links.iter_mut().filter(|link| link.from == 1) {
        link.rate = Rate::from_bps(10_000_000);
    }
    let flow = |from: u32, cc: Cc, start: Time, request_bytes: u64| Flow {
        group: 0,
        from,
        to: 2,
        cc,
        peer_cc: None,
        start,
        first_write: None,
        stop: None,
        // Whole segments: a guest's device holds a packet until its last bit has left, and a short end waits for that.
        traffic: Traffic::Rpc { request_bytes, response_bytes: 4 * 1448, count: Some(3) },
        read_at_bytes: 1,
        sampled: false,
        base_rtt: None,
        dscp: 0,
        peer_dscp: 0,
        max_pacing_rate: None,
    };
    let path = folder().join(format!("{file}.c"));
    let probe = Cc::new(module::load(&path).expect("it compiles"));
    let reno = Cc::by_name("reno").expect("it is ours");
    let schedule = Schedule { together: vec![vec![0, 1]], ..Schedule::default() };
    Run {
        seed: 1,
        end: Time::from_ms(4000),
        until_done: true,
        network,
        flows: vec![
            flow(0, probe, Time::from_us(1300), 14 * 1448),
            flow(1, reno, Time::from_us(400_300), 700_000),
        ],
        pings: Vec::new(),
        sampling: Sampling::default(),
        schedule,
    }
}

/// Reads the lines of `probe.h`.
fn read<'a>(lines: impl Iterator<Item = &'a str>) -> Seen {
    let mut seen = Seen::new();
    for line in lines {
        let Some((_, line)) = line.split_once("PROBE ") else { continue };
        let mut words = line.split_whitespace();
        let mut next = || words.next().expect("probe.h prints it").to_owned();
        let (end, number, operation, group) = (next(), next(), next(), next());
        let call = seen.entry((end, number.parse().expect("a number"))).or_default();
        call.operation = operation;
        for word in words {
            let (name, value) = word.split_once('=').expect("probe.h prints it");
            call.values.insert(format!("{group}.{name}"), value.to_owned());
        }
    }
    seen
}

/// Leaves out calls of `in_ack_event` for an established connection that has nothing outstanding. Whether Linux makes them
/// depends on memory: a segment with data alone takes the slow path if the socket's last page has no room for it.
fn comparable(seen: Seen) -> Seen {
    let mut left = Seen::new();
    let mut numbers: BTreeMap<String, u32> = BTreeMap::new();
    let mut before: BTreeMap<String, String> = BTreeMap::new();
    for ((end, _), call) in seen {
        let after = before.insert(end.clone(), call.operation.clone());
        let is_open = call.values.get("sock.sk_state").is_some_and(|state| state == "1");
        let of_ack = after.is_some_and(|operation| operation == "pkts_acked");
        if call.operation == "in_ack_event" && is_open && !of_ack {
            continue;
        }
        let number = numbers.entry(end.clone()).or_default();
        *number += 1;
        left.insert((end, *number), call);
    }
    left
}

/// The record's form: of each call what is not as in the call before.
fn write(seen: &Seen) -> String {
    let mut text = String::new();
    let mut before: BTreeMap<&str, BTreeMap<&str, &str>> = BTreeMap::new();
    for ((end, number), call) in seen {
        text += &format!("{end} {number} {}", call.operation);
        let before = before.entry(end).or_default();
        for (name, value) in &call.values {
            if before.insert(name, value) != Some(value) {
                text += &format!(" {name}={value}");
            }
        }
        text.push('\n');
    }
    text
}

fn recorded(file: &str, version: &str) -> Seen {
    let path = folder().join(format!("{file}-{version}.txt"));
    let text = fs::read_to_string(&path).expect("it is there");
    let mut before: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    let mut seen = Seen::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let mut next = || words.next().expect("it is in every line").to_owned();
        let (end, number, operation) = (next(), next(), next());
        let all = before.entry(end.clone()).or_default();
        for word in words {
            let (name, value) = word.split_once('=').expect("a field and its value");
            all.insert(name.to_owned(), value.to_owned());
        }
        let is_given = |name: &str| name.starts_with("given.") || name.starts_with("sample.");
        let of_call = |name: &str| match operation.as_str() {
            "cong_control" => !name.starts_with("given."),
            "cong_avoid" => !is_given(name) || ["given.ack", "given.acked"].contains(&name),
            "pkts_acked" => {
                !is_given(name)
                    || ["given.pkts_acked", "given.rtt_us", "given.in_flight"].contains(&name)
            }
            "set_state" | "cwnd_event" | "in_ack_event" => {
                !is_given(name) || name == "given.number"
            }
            _ => !is_given(name),
        };
        let values = all.iter().filter(|(name, _)| of_call(name));
        let values = values.map(|(name, value)| (name.clone(), value.clone())).collect();
        seen.insert((end, number.parse().expect("a number")), Call { operation, values });
    }
    seen
}

/// What the simulator does otherwise (docs/modules.md): a write is in the socket at once, where Linux sends while it copies; and
/// what depends on whether a segment with data takes the slow path.
fn is_known(operation: &str, name: &str) -> bool {
    match name {
        "counts.write_seq" | "counts.pushed_seq" => operation == "cwnd_event",
        "counts.snd_wl1" => true,
        _ => false,
    }
}

/// Whether two ages differ by a rounded part of a us or of a tick: each reading of a guest's clock takes 1 ns.
fn are_near(name: &str, ours: &str, linux: &str) -> bool {
    let numbers = [ours, linux].map(|text| text.parse::<i64>().ok());
    name.starts_with("times.")
        && matches!(numbers, [Some(ours), Some(linux)] if ours.abs_diff(linux) <= 1)
}

/// Each difference as a line.
fn differences(ours: &Seen, theirs: &Seen, is_known: fn(&str, &str) -> bool) -> Vec<String> {
    let (mut found, mut has_ended) = (Vec::new(), BTreeSet::new());
    for ((end, number), theirs) in theirs {
        let Some(ours) = ours.get(&(end.clone(), *number)) else {
            if has_ended.contains(end) {
                continue;
            }
            found.push(format!("{end} {number}: no call, Linux calls {}", theirs.operation));
            continue;
        };
        if ours.operation == "release" {
            // The simulator ends a connection with its last answer, and its last ACKs are not seen.
            has_ended.insert(end.clone());
            continue;
        }
        if ours.operation != theirs.operation {
            found.push(format!(
                "{end} {number}: calls {}, Linux {}",
                ours.operation, theirs.operation
            ));
            // What follows is of other calls.
            return found;
        }
        let names: BTreeSet<&String> = ours.values.keys().chain(theirs.values.keys()).collect();
        for name in names.into_iter().filter(|name| !is_known(&theirs.operation, name)) {
            let of = |call: &Call| call.values.get(name).map_or("-", String::as_str).to_owned();
            let (ours, linux) = (of(ours), of(theirs));
            if ours != linux && !are_near(name, &ours, &linux) {
                let operation = &theirs.operation;
                found.push(format!("{end} {number} {operation} {name}: {ours}, Linux {linux}"));
            }
        }
    }
    // A guest is switched off without closing its sockets.
    let more = ours
        .iter()
        .filter(|(call, ours)| ours.operation != "release" && !theirs.contains_key(call));
    found.extend(more.map(|((end, number), _)| format!("{end} {number}: a call, Linux has none")));
    found
}

fn of_simulator(file: &str, version: &str) -> Seen {
    // Ticks begin with the run, as in a guest.
    let wanted = conversation(file, version, Some(300_000));
    let outcome = knee_sim::simulate(&wanted).expect("it can be simulated");
    read(outcome.module_lines.iter().map(|line| line.text.as_str()))
}

/// Compares with Linux's record, whatever is built.
#[test]
fn a_module_sees_of_the_simulator_what_it_sees_of_linux() {
    for version in RECORDED {
        for file in FILES {
            let [ours, theirs] =
                [of_simulator(file, version), recorded(file, version)].map(comparable);
            let found = differences(&ours, &theirs, is_known);
            assert!(found.is_empty(), "{file}.c, Linux {version}:\n{}", found.join("\n"));
        }
    }
}

/// `KNEE_WRITE_FIELDS` has the record written.
#[test]
fn the_record_of_what_linux_shows_is_true() {
    let required = std::env::var("KNEE_REQUIRE_VKERNEL").unwrap_or_default();
    for version in RECORDED {
        let kernel = match find(Some(version), Some(DEFAULT_HZ)) {
            Ok(kernel) => kernel,
            Err(why) if required.split_whitespace().any(|required| required == version) => {
                panic!("{why}")
            }
            Err(why) => {
                let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
                continue;
            }
        };
        for file in FILES {
            let (options, stop) = (Options::default(), AtomicBool::new(false));
            let ask = RunOptions::outcome(&stop);
            let text = console(&conversation(file, version, None), &kernel, &options, &ask)
                .expect("the guest runs");
            let seen = read(text.lines());
            if std::env::var_os("KNEE_WRITE_FIELDS").is_some() {
                let path = folder().join(format!("{file}-{version}.txt"));
                fs::write(path, write(&seen)).expect("there is room");
            }
            let found = differences(&recorded(file, version), &seen, |_, _| false);
            assert!(found.is_empty(), "{file}.c, Linux {version}:\n{}", found.join("\n"));
        }
    }
}

/// Fields of `fields.h` that `probe.h` does not print: what no mainline kernel has, and what is no number of the connection. All
/// times are told by `tcp_clock_cache`.
const NOT_PRINTED: [&str; 8] = [
    "cc_params",
    "icsk_ca_ops",
    "sk_prot",
    "sk_daddr",
    "sk_rcv_saddr",
    "sk_dport",
    "sk_sport",
    "tcp_clock_cache",
];

#[test]
fn the_probe_prints_every_field_that_linux_has() {
    let header = concat!(env!("CARGO_MANIFEST_DIR"), "/../../algorithms/include/fields.h");
    let header = fs::read_to_string(header).expect("it is there");
    let probe = fs::read_to_string(folder().join("probe.h")).expect("it is there");
    let (mut list, mut count, mut missing) = ("", 0, Vec::new());
    for line in header.lines() {
        let Some(entry) = line.trim().split_once('(') else { continue };
        if let Some(name) = entry.0.strip_prefix("#define ") {
            list = name;
        }
        let is_patched = ["CC_TCP_PATCHED_FIELDS", "CC_RATE_SAMPLE_OWN_FIELDS"].contains(&list);
        let is_field = ["FIELD", "NESTED", "VALUE", "OWN"].contains(&entry.0);
        if is_patched || !is_field {
            continue;
        }
        let parts: Vec<&str> = entry.1.split(',').map(str::trim).collect();
        let name = match (entry.0, parts[1]) {
            ("NESTED", "icsk_ack") => "icsk_ack.pending",
            ("NESTED", _) => parts[2],
            _ => parts[1],
        };
        count += 1;
        let forms = [format!("\"{name}\""), format!(" {name}=")];
        let is_printed = forms.iter().any(|form| probe.contains(form));
        if !is_printed && !NOT_PRINTED.contains(&name) {
            missing.push(name.to_owned());
        }
    }
    assert!(count > 80, "{count}");
    assert!(missing.is_empty(), "{missing:?}");
}
