//! Captures of the running kernel's TCP: what `knee pcap` makes of them is what the kernel's TCP_INFO says of the same connections.
#![cfg(feature = "kernel")]
#![allow(clippy::unwrap_used, reason = "all of this is test code")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use knee_pcap::model::PacketRow;
use knee_pcap::{Analysis, AnalysisOptions, Flow, Input, analyse};
use knee_testbed::kernel_is_ready;
use sender::Sender;
use table::{Of, Pair, Table, between, same, within};

#[path = "../../pcap/tests/agreement/sender.rs"]
mod sender;
#[path = "../../pcap/tests/agreement/table.rs"]
mod table;

/// How often the lab is tried before the machine is taken for too busy to capture everything.
const ATTEMPTS: u32 = 5;
/// Flow i listens here + i; connecting ports are the kernel's choice.
const FIRST_PORT: u16 = 10_000;
/// What is done so long before the end of a run has had its last ACK, s: more than a receiver delays it.
const SETTLED_S: f64 = 0.25;
/// The network must not have stood still for longer, us: hosts have none of the time then, either.
const LATE_MAX_US: f64 = 100_000.0;
/// What a host and its reading of TCP_INFO take beside what the switch is measured to be late, us: a slice of a busy CPU.
const HOST_US: f64 = 4_000.0;
/// A tick of the kernel's timestamps, us.
const TICK_US: u64 = 1000;
/// Least share of samples that must be in their range: the others were read while the CPU had been taken away.
const IN_RANGE: f64 = 0.95;

/// Series of which all samples together must agree, too, within 5 %: too early and too late make up for each other, and a host adds a
/// few hundred us to an RTT of 10 ms.
const SUMS: [(&str, &str); 2] = [
    ("in flight, packets", "in flight, sum of all samples"),
    ("srtt, us", "srtt, us, sum of all samples"),
];

/// A row of a CSV file by the names of its columns.
type Record = BTreeMap<String, String>;

fn csv(path: &Path) -> Vec<Record> {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    let record = |line: &str| {
        let cells = line.split(',').map(str::to_owned);
        head.iter().map(|name| (*name).to_owned()).zip(cells).collect()
    };
    lines.map(record).collect()
}

fn number(record: &Record, name: &str) -> f64 {
    record[name].parse().unwrap_or_else(|_| panic!("{name}: {:?}", record[name]))
}

fn count(record: &Record, name: &str) -> u64 {
    number(record, name) as u64
}

/// One run of the experiment, and what was recorded of it.
struct Ran<'a> {
    dir: &'a Path,
    run: &'a str,
    case: &'a str,
    /// By how much the switch was late at most, and how far a sample may be from the capture's clock, us.
    late_us: f64,
    end_s: f64,
    flows: Vec<&'a Record>,
    samples: Vec<&'a Record>,
}

/// A connection at its sender, and what the kernel says of it.
struct One<'a> {
    flow: &'a Flow,
    rows: Vec<&'a PacketRow>,
    record: &'a Record,
    is_settled: bool,
}

impl One<'_> {
    fn sender(&self) -> Sender<'_> {
        let mss = self.flow.a_to_b.mss.unwrap();
        Sender::new(&self.rows, self.flow.handshake.rtt_to_b_ns, mss)
    }
}

impl Ran<'_> {
    /// Captures of the senders.
    fn analysed(&self) -> Analysis {
        let file = |host| Input::File(self.dir.join(format!("{host}-run-{}.pcapng", self.run)));
        let inputs = ["s1", "s2", "s3"].map(file).into();
        let flows = (1..=2 * self.flows.len() as u32).collect();
        analyse(inputs, &AnalysisOptions { flows, ..AnalysisOptions::default() }, &mut |_| ())
            .unwrap()
    }

    fn ones<'a>(&'a self, analysis: &'a Analysis) -> Vec<One<'a>> {
        let one = |record: &&'a Record| {
            let port = FIRST_PORT + count(record, "flow") as u16;
            let flow = analysis.flows.iter().find(|flow| flow.b.port() == port).unwrap();
            let rows = analysis.packets.iter().filter(|row| row.flow == flow.id).collect();
            let done_s = record["done_at_s"].parse::<f64>().ok();
            let is_settled = done_s.is_some_and(|done_s| done_s + SETTLED_S < self.end_s);
            One { flow, rows, record, is_settled }
        };
        self.flows.iter().map(one).collect()
    }

    fn compare(&self, table: &mut Table) {
        let analysis = self.analysed();
        let all = self.ones(&analysis);
        let mut of = Of { table, case: self.case, at: "sender" };
        self.counts(&all, &mut of);
        self.times(&all, &mut of);
        self.in_range(&all, &mut of);
    }

    fn counts(&self, all: &[One<'_>], of: &mut Of<'_>) {
        let settled = |pair: &dyn Fn(&One<'_>) -> Pair| {
            all.iter().filter(|one| one.is_settled).map(pair).collect::<Vec<_>>()
        };
        of.count(
            "segments sent",
            "0",
            settled(&|one| same(one.flow.a_to_b.segments, count(one.record, "data_segs_sent"))),
        );
        of.count(
            "retransmitted, SYNs too",
            "0",
            settled(&|one| {
                let again = one.flow.a_to_b.retransmitted.segments;
                let all = again + u64::from(one.flow.handshake.repeats);
                same(all, count(one.record, "retransmitted_segs"))
            }),
        );
        of.count(
            "timeouts, SYNs too",
            "1 of a flow",
            settled(&|one| {
                let timeouts = one.flow.a_to_b.retransmitted.rto;
                let all = timeouts + u64::from(one.flow.handshake.repeats);
                within(all, count(one.record, "timeouts"), 1, 1)
            }),
        );
        of.count(
            "bytes",
            "0",
            settled(&|one| same(one.flow.a_to_b.bytes, count(one.record, "received_bytes"))),
        );
        of.count(
            "ACKs",
            "0",
            settled(&|one| same(one.flow.a_to_b.acks, count(one.record, "acks_sent"))),
        );
        of.count(
            "marked, packets by ECE",
            "less by segments that are not full",
            settled(&|one| {
                let of = &one.flow.a_to_b;
                let mss = of.mss.unwrap();
                let short =
                    one.rows.iter().filter(|row| row.is_from_a && (1..mss).contains(&row.len));
                let inferred = of.ecn.ece_bytes / u64::from(mss);
                within(inferred, count(one.record, "delivered_ce_pkts"), short.count() as u64, 0)
            }),
        );
    }

    /// Where an ACK covers what was retransmitted the kernel takes the RTT from timestamps, which may be the smallest.
    fn times(&self, all: &[One<'_>], of: &mut Of<'_>) {
        // By timestamps, too, is the RTT of a SYN that was retransmitted.
        let is_known = |one: &&One<'_>| one.is_settled && one.flow.handshake.repeats == 0;
        let least = all.iter().filter(is_known).map(|one| {
            let mut sender = one.sender();
            one.rows.iter().for_each(|row| sender.row(row));
            let by_numbers_us = sender.min_rtt_us.unwrap();
            let by_timestamps_us = one.flow.a_to_b.rtt_by_timestamps.min().map(|ns| ns / 1000);
            let (inferred_us, ticks_us) = match by_timestamps_us {
                Some(us) if sender.has_unknown => (us.min(by_numbers_us), 2 * TICK_US),
                _ => (by_numbers_us, 0),
            };
            let record_us = (number(one.record, "min_rtt_s") * 1e6).round() as u64;
            within(inferred_us, record_us, (self.late_us + HOST_US) as u64, ticks_us)
        });
        of.count("min RTT, us", "less by what the host took; two ticks of timestamps more", least);
    }

    /// What the kernel said of itself while it ran. The capture's clock is the network's, before which packets reach hosts late, and
    /// TCP_INFO is read after the moment that is noted: it must be what the capture says of some moment nearby.
    fn in_range(&self, all: &[One<'_>], of: &mut Of<'_>) {
        let near_ns = ((self.late_us + HOST_US) * 1000.0) as u64;
        let mut series: BTreeMap<&str, Vec<Pair>> = BTreeMap::new();
        for one in all {
            let steps = steps(one);
            let is_own = |sample: &&&Record| sample["flow"] == one.record["flow"];
            for sample in self.samples.iter().filter(is_own) {
                let at_ns = (number(sample, "at_s") * 1e9) as u64;
                let from = steps.partition_point(|step| step.at_ns + near_ns < at_ns);
                let to = steps.partition_point(|step| step.at_ns <= at_ns + near_ns);
                let here = steps.partition_point(|step| step.at_ns <= at_ns);
                let around = &steps[from.saturating_sub(1)..to];
                let Some(at) = here.checked_sub(1).map(|at| steps[at]) else { continue };
                let outstanding = count(sample, "unacked_pkts") - count(sample, "sacked_pkts");
                for (name, of, record) in [
                    ("in flight, packets", Step::in_flight as fn(&Step) -> u64, outstanding),
                    ("bytes acknowledged", Step::una, count(sample, "bytes_acked")),
                    ("retransmitted so far, SYNs too", Step::again, count(sample, "total_retrans")),
                ] {
                    let values = || around.iter().map(of);
                    let (low, high) = (values().min().unwrap(), values().max().unwrap());
                    series.entry(name).or_default().push(between(of(&at), record, low, high));
                }
                if let Some(srtt_us) = at.srtt_us {
                    let record = count(sample, "srtt_us");
                    let host_us = (self.late_us + HOST_US) as u64;
                    let pair = within(srtt_us, record, host_us, host_us);
                    series.entry("srtt, us").or_default().push(pair);
                }
            }
        }
        for (name, pairs) in series {
            if let Some(sum) = SUMS.iter().find(|sum| sum.0 == name) {
                let [inferred, record] = [|pair: &Pair| pair.inferred, |pair: &Pair| pair.record]
                    .map(|value| pairs.iter().map(value).sum::<f64>() as u64);
                of.count(sum.1, "5 %", [within(inferred, record, record / 20, record / 20)]);
            }
            of.share(name, "nearby, in 95 %", IN_RANGE, pairs);
        }
    }
}

/// A sender behind one of its packets.
#[derive(Clone, Copy)]
struct Step {
    at_ns: u64,
    in_flight: u64,
    una: u64,
    again: u64,
    srtt_us: Option<u64>,
}

impl Step {
    fn in_flight(&self) -> u64 {
        self.in_flight
    }

    fn una(&self) -> u64 {
        self.una
    }

    fn again(&self) -> u64 {
        self.again
    }
}

fn steps(one: &One<'_>) -> Vec<Step> {
    let mut sender = one.sender();
    let behind = |row: &&PacketRow| {
        sender.row(row);
        Step {
            at_ns: row.at_ns,
            in_flight: sender.in_flight_pkts(),
            una: sender.una,
            again: sender.again + u64::from(one.flow.handshake.repeats),
            srtt_us: sender.srtt_us(),
        }
    };
    let mut steps: Vec<Step> = one.rows.iter().map(behind).collect();
    // What leaves and what comes are noted as they pass two places, which may be late by turns.
    steps.sort_by_key(|step| step.at_ns);
    steps
}

/// Runs the experiment with captures; nothing if the machine could not capture all of it.
fn run(dir: &Path) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut knee = Command::new(env!("CARGO_BIN_EXE_knee"));
    knee.current_dir(root).args(["run", "tests/lab/captures.toml", "--on", "lab", "--pcap", "-o"]);
    let output = knee.arg(dir).stdin(Stdio::null()).output().unwrap();
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        // A machine that has no time at all; that the lab works otherwise is for its own tests.
        assert!(said.contains("forwards no packet"), "{said}");
        return Err(said.into_owned());
    }
    let lost = ["captures_left_out", "ring_dropped_pkts", "without_room_pkts", "send_failed_pkts"];
    let lost = [&lost[..], &["dropped_outside_pkts"]].concat();
    for record in csv(&dir.join("validity.csv")) {
        let most = match record["measure"].as_str() {
            "late_max_us" => LATE_MAX_US,
            name if lost.contains(&name) => 0.0,
            _ => continue,
        };
        if number(&record, "value") > most {
            return Err(format!("{} is {}", record["measure"], record["value"]));
        }
    }
    let flows = csv(&dir.join("flows.csv"));
    match flows.iter().filter(|flow| flow["done_at_s"].is_empty()).count() {
        unfinished if 2 * unfinished > flows.len() => {
            Err(format!("{unfinished} flows were not done"))
        }
        _ => Ok(()),
    }
}

fn compare(dir: &Path) -> Table {
    let [runs, flows, samples, validity] = ["runs", "flows", "series-flows", "validity"]
        .map(|name| csv(&dir.join(name.to_owned() + ".csv")));
    let mut table = Table::default();
    for run in &runs {
        let own = |record: &&Record| record["run"] == run["run"];
        let is_late = |record: &&Record| record["measure"] == "late_max_us";
        Ran {
            dir,
            run: &run["run"],
            case: &run["case"],
            late_us: number(validity.iter().filter(own).find(is_late).unwrap(), "value"),
            end_s: number(run, "end_s"),
            flows: flows.iter().filter(own).collect(),
            samples: samples.iter().filter(own).collect(),
        }
        .compare(&mut table);
    }
    table
}

#[test]
fn captures_of_the_kernels_tcp_say_what_its_tcp_info_says() {
    if !kernel_is_ready() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let mut whys = Vec::new();
    for attempt in 0..ATTEMPTS {
        let dir = scratch.path().join(attempt.to_string());
        if let Err(why) = run(&dir) {
            whys.push(why);
            continue;
        }
        let table = compare(&dir);
        println!("{}", table.text());
        let failed = table.failed();
        assert!(failed.is_empty(), "{}", failed.join("\n"));
        assert!(table.recorded("loss", "retransmitted, SYNs too") >= 5.0);
        assert!(table.recorded("dctcp", "marked, packets by ECE") >= 5.0);
        return;
    }
    let why = whys.join("; ");
    writeln!(std::io::stderr(), "SKIPPED: the machine is too busy to capture all: {why}").unwrap();
}
