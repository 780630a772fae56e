//! What the analysis infers from captures of simulated hosts, beside what the simulator recorded of the same connections: its counters,
//! its samples of TCP_INFO, and what became of each packet.

#![expect(clippy::unwrap_used, reason = "all of this is test code")]

mod sender;
mod series;
mod table;
mod truth;

use std::path::Path;

use crate::experiments::Temp;
use knee_pcap::model::PacketRow;
use knee_pcap::{Analysis, AnalysisOptions, Direction, Flow, Input, analyse};
use knee_run::outcome::{FlowCounters, FlowOutcome, Outcome};
use knee_run::spec::Run;
use knee_scenario::{Experiment, Overrides};
use knee_sim::captures;
use table::{Of, Pair, Table, same, within};
use truth::Way;

/// A path of 4.4 ms and 100 Mbps with a queue; `SENDERS` and what else is in capitals is put in.
const NETWORK: &str = r#"question = "Is it told as it was?"
cc = ["CC"]

[network]
topology = "many-to-one"
senders = SENDERS
access = { rate = "1 Gbps", delay = "100 us" }
return = { delay = "2 ms" }
bottleneck = { rate = "100 Mbps", CABLE }

[hosts]
HOSTS

[sample]
flows = "7 ms"
"#;

/// A transfer without end from each sender.
const BULK: &str = r#"
[[traffic]]
name = "bulk"
kind = "bulk"
from = "s1..sSENDERS"
to = "r"
start_jitter = "1 ms"
"#;

const DROPS: &str = r#"queue = { kind = "droptail", limit = "60 pkts" }"#;
const MARKS: &str = r#"queue = { kind = "step", limit = "200 pkts", k = "20 pkts" }"#;
const LOSES: &str = r#"queue = { kind = "droptail", limit = "500 pkts" }, loss = "0.5 %""#;
const WIDE: &str = r#"queue = { kind = "droptail", limit = "500 pkts" }"#;

/// One run and what it is captured at.
struct Case {
    name: &'static str,
    cc: &'static str,
    senders: u32,
    cable: &'static str,
    hosts: &'static str,
    traffic: &'static str,
    run: &'static str,
}

/// A transfer of 4 s.
const PLAIN: Case = Case {
    name: "",
    cc: "cubic",
    senders: 1,
    cable: DROPS,
    hosts: "",
    traffic: BULK,
    run: "duration = \"4 s\"",
};

fn cases() -> Vec<Case> {
    let drops = ["reno", "cubic", "bic"].map(|cc| Case { name: cc, cc, ..PLAIN });
    let mut all: Vec<Case> = drops.into();
    all.push(Case { name: "dctcp", cc: "dctcp", cable: MARKS, ..PLAIN });
    all.push(Case { name: "reno, ECN", cc: "reno", cable: MARKS, hosts: "tcp_ecn = 1", ..PLAIN });
    all.push(Case { name: "bbr", cc: "bbr", ..PLAIN });
    all.push(Case { name: "nv", cc: "nv", ..PLAIN });
    all.push(Case { name: "IPv6", hosts: "ipv6 = true", ..PLAIN });
    all.push(Case { name: "random loss", cable: LOSES, ..PLAIN });
    all.push(Case {
        name: "tail losses",
        cable: r#"queue = { kind = "droptail", limit = "500 pkts" }, loss = "3 %""#,
        traffic: TAILS,
        ..PLAIN
    });
    all.push(Case {
        name: "timeouts without SACK",
        cc: "reno",
        cable: r#"queue = { kind = "droptail", limit = "500 pkts" }, loss = "1 %""#,
        hosts: "sack = false",
        traffic: TAILS,
        ..PLAIN
    });
    all.push(Case {
        name: "incast",
        cc: "reno",
        senders: 8,
        hosts: "sack = false",
        cable: r#"queue = { kind = "droptail", limit = "10 pkts" }"#,
        traffic: INCAST,
        ..PLAIN
    });
    all.push(Case {
        name: "reordering",
        cable: r#"queue = { kind = "droptail", limit = "2000 pkts" }, jitter = "400 us""#,
        traffic: SIZED,
        ..PLAIN
    });
    all.push(Case {
        name: "changing delay",
        cable: r#"queue = { kind = "droptail", limit = "2000 pkts" }, jitter = "5 ms""#,
        traffic: SIZED,
        ..PLAIN
    });
    all.push(Case { name: "requests", cc: "dctcp", cable: MARKS, traffic: REQUESTS, ..PLAIN });
    all.push(Case { name: "three flows", senders: 3, ..PLAIN });
    all.push(Case {
        name: "offloads, losses",
        cable: LOSES,
        hosts: "gso_max_segs = 44\ngro_window = \"50 us\"",
        ..PLAIN
    });
    all.push(Case {
        name: "short timers",
        cable: r#"queue = { kind = "droptail", limit = "500 pkts" }, loss = "3 %""#,
        hosts: "rto_min = \"12 ms\"",
        traffic: TAILS,
        ..PLAIN
    });
    all.push(Case {
        name: "marks and losses",
        cc: "dctcp",
        cable: r#"queue = { kind = "step", limit = "200 pkts", k = "20 pkts" }, loss = "0.5 %""#,
        ..PLAIN
    });
    all.push(Case {
        name: "6.18, small receive buffer",
        hosts: "linux = \"6.18\"\nrcvbuf_initial = \"64 KiB\"\nrcvbuf_max = \"64 KiB\"",
        traffic: SIZED,
        ..PLAIN
    });
    all.push(Case { name: "delayed ACKs", cable: WIDE, traffic: SINGLE, ..PLAIN });
    all
}

/// Requests of a few segments, so that what is lost is often the last.
const TAILS: &str = r#"
[[traffic]]
name = "requests"
kind = "rpc"
from = "s1"
to = "r"
flows = 4
request = "12 kB"
response = "100 B"
start_jitter = "1 ms"
"#;

const INCAST: &str = r#"
[[traffic]]
name = "incast"
kind = "incast"
from = "s1..s8"
to = "r"
size = "60 kB"
rounds = 3
start_jitter = "100 us"
"#;

const SIZED: &str = r#"
[[traffic]]
name = "bulk"
kind = "bulk"
from = "s1"
to = "r"
size = "6 MB"
"#;

const REQUESTS: &str = r#"
[[traffic]]
name = "requests"
kind = "rpc"
from = "s1"
to = "r"
flows = 3
request = "40 kB"
response = "20 kB"
count = 60
start_jitter = "1 ms"
"#;

/// A segment every 60 ms: the receiver waits for a second one, until its timer.
const SINGLE: &str = r#"
[[traffic]]
name = "single"
kind = "bulk"
from = "s1"
to = "r"
size = "60 kB"
max_pacing_rate = "200 kbps"
"#;

/// A case that was run, with the truth.
struct Made {
    dir: Temp,
    run: Run,
    outcome: Outcome,
    truth: Vec<[Way; 2]>,
}

impl Case {
    fn make(&self) -> Made {
        let text = format!("{NETWORK}{}\n[run]\n{}\n", self.traffic, self.run);
        let text = text.replace("CC", self.cc).replace("SENDERS", &self.senders.to_string());
        let text = text.replace("CABLE", self.cable).replace("HOSTS", self.hosts);
        let experiment = Experiment::parse(Path::new("x.toml"), &text, &Overrides::default());
        let experiment = experiment.unwrap_or_else(|why| panic!("{}: {why}", self.name));
        let run = experiment.run(experiment.run_id(0)).unwrap();
        let dir = Temp::new("agreement");
        let outcome = captures::simulate(&run, &dir.path("")).unwrap();
        let truth = truth::of(&run);
        Made { dir, run, outcome, truth }
    }

    fn senders(&self) -> Vec<String> {
        (1..=self.senders).map(|number| format!("s{number}")).collect()
    }
}

impl Made {
    fn analysed(&self, hosts: &[String]) -> Analysis {
        let file = |host: &String| Input::File(self.dir.path(&knee_wire::host::file_name(host)));
        // Each connection is seen at two points of each file.
        let flows = (1..=4 * self.run.flows.len() as u32).collect();
        let options = AnalysisOptions { flows, ..AnalysisOptions::default() };
        analyse(hosts.iter().map(file).collect(), &options, &mut |_| ()).unwrap()
    }
}

/// A connection at its host, what was recorded of it, and what became of its packets.
struct One<'a> {
    index: usize,
    flow: &'a Flow,
    way: &'a Direction,
    outcome: &'a FlowOutcome,
    truth: &'a [Way; 2],
    /// Whether both ends send data: counters are then of both together.
    is_exchange: bool,
}

impl One<'_> {
    fn known(&self, name: fn(&FlowCounters) -> Option<u64>) -> u64 {
        name(&self.outcome.counters).unwrap()
    }

    /// A count of the record less what the truth has of the end that is not looked at, if the record is of both.
    fn of_one_end(&self, name: fn(&FlowCounters) -> Option<u64>, of_other_end: u64) -> u64 {
        let other = if self.is_exchange { of_other_end } else { 0 };
        self.known(name) - other
    }

    /// Whether it is a transfer that has come to its end.
    fn is_done_transfer(&self) -> bool {
        self.outcome.done_at.is_some() && self.truth[1].sent == 0
    }
}

fn ones<'a>(analysis: &'a Analysis, made: &'a Made) -> Vec<One<'a>> {
    let is_host = |flow: &&Flow| {
        analysis.whole.points[flow.point].interfaces == [crate::experiments::AT_HOST]
    };
    let one = |flow: &'a Flow| {
        let index = usize::from(flow.a.port()) - 40_000;
        let (outcome, truth) = (&made.outcome.flows[index], &made.truth[index]);
        let is_exchange = made.run.flows[index].traffic.is_rpc();
        One { index, flow, way: &flow.a_to_b, outcome, truth, is_exchange }
    };
    let ones: Vec<One<'_>> = analysis.flows.iter().filter(is_host).map(one).collect();
    assert_eq!(ones.len(), made.outcome.flows.len());
    ones
}

const NOT_NEEDED: &str = "0; without SACK, less by all";

/// Retransmissions that were spurious: those that came to a receiver that had their bytes. Without SACK it does not say so. So many
/// `late` segments may be taken for them.
fn not_needed(one: &One<'_>, late: u64) -> Pair {
    let needless = one.truth[0].needless;
    let untold = if one.flow.handshake.has_sack == Some(true) { 0 } else { needless };
    within(one.way.retransmitted.spurious, needless, untold, late)
}

fn at_sender(case: &Case, made: &Made, table: &mut Table) {
    let analysis = made.analysed(&case.senders());
    let mut of = Of { table, case: case.name, at: "sender" };
    let all = ones(&analysis, made);
    let each = |pair: fn(&One<'_>) -> Pair| all.iter().map(pair).collect::<Vec<_>>();
    of.count(
        "segments sent",
        "0",
        each(|one| same(one.way.segments, one.of_one_end(|c| c.data_segs_sent, one.truth[1].sent))),
    );
    of.count(
        "retransmitted",
        "0",
        each(|one| {
            let again = one.of_one_end(|c| c.retransmitted_segs, one.truth[1].again);
            same(one.way.retransmitted.segments, again)
        }),
    );
    of.count(
        "timeouts",
        "0",
        each(|one| {
            let timeouts = one.known(|c| c.timeouts) - one.known(|c| c.syn_timeouts);
            same(one.way.retransmitted.rto, timeouts)
        }),
    );
    of.count(
        "probes",
        "0",
        each(|one| {
            let told = one.way.retransmitted.tlp + one.way.new_data_probes;
            same(told, one.known(|c| c.tail_loss_probes))
        }),
    );
    of.count("spurious", NOT_NEEDED, each(|one| not_needed(one, 0)));
    of.count("ACKs with ECE", "0", each(|one| same(one.way.ecn.ece, one.truth[0].ece)));
    of.count(
        "marked, packets by ECE",
        "less by segments that are not full",
        each(|one| {
            let packets = one.way.ecn.ece_bytes / u64::from(one.way.mss.unwrap());
            let marked = one.of_one_end(|c| c.delivered_ce, one.truth[1].ce);
            within(packets, marked, one.truth[0].short, 0)
        }),
    );
    of.count(
        "reductions by CWR",
        "less by 1, the last, with nothing left to send, and by recoveries within CWR",
        each(|one| {
            // For a loss, too, where ECN was agreed on; one that is found while cwnd is reduced reduces it no more.
            let losses = one.known(|c| c.fast_recoveries) + one.known(|c| c.timeouts);
            let losses = if one.outcome.ecn { losses } else { 0 };
            let marks = one.known(|c| c.cwr_reductions);
            within(one.way.ecn.cwr, marks + losses, 1 + marks.min(losses), 0)
        }),
    );
    times(&all, &mut of);
    samples(&all, made, &analysis, &mut of);
}

/// Time of the last ACK to the sender plus the receiver's delayed-ACK timer, us.
const ACK_US: u64 = 2_200 + 40_000;

fn times(all: &[One<'_>], of: &mut Of<'_>) {
    let done = || all.iter().filter(|one| one.is_done_transfer());
    of.count("bytes", "0", done().map(|one| same(one.way.bytes, one.outcome.received_bytes)));
    of.count(
        "completion, us",
        "more by the last ACK's way, and its delay",
        done().map(|one| {
            let end_ns = one.way.rounds[0].begin_ns + one.way.duration_ns;
            let inferred_us = (end_ns - one.flow.begin_ns) / 1000;
            within(inferred_us, one.outcome.completion_time().unwrap().us(), 0, ACK_US)
        }),
    );
    of.count(
        "goodput, kbit/s",
        "less, as its time is longer",
        done().map(|one| {
            let outcome = one.outcome;
            let us = outcome.done_at.unwrap().since(outcome.established_at.unwrap()).us();
            let kbps = |us: u64| outcome.received_bytes * 8000 / us;
            let inferred = (one.way.goodput_bps.unwrap() / 1000.0) as u64;
            within(inferred, kbps(us), kbps(us) - kbps(us + ACK_US) + 1, 1)
        }),
    );
}

fn samples(all: &[One<'_>], made: &Made, analysis: &Analysis, of: &mut Of<'_>) {
    let mut sum = series::Series::default();
    for one in all {
        let rows: Vec<&PacketRow> =
            analysis.packets.iter().filter(|row| row.flow == one.flow.id).collect();
        let samples = &made.outcome.flow_samples;
        let samples: Vec<_> =
            samples.iter().filter(|sample| sample.flow as usize == one.index).collect();
        let handshake = &one.flow.handshake;
        let mss = one.way.mss.unwrap();
        let has_sack = handshake.has_sack == Some(true);
        sum.add(series::of(&rows, &samples, handshake.rtt_to_b_ns, mss, has_sack));
    }
    of.series("srtt, us", "1", sum.srtt_us);
    of.series("min RTT, us", "0; behind an RTT by timestamps 1000 more", sum.min_rtt_us);
    of.series("in flight, packets", "0", sum.in_flight);
    of.series("bytes acknowledged", "0", sum.bytes_acked);
    of.series("retransmitted so far", "0", sum.again);
}

fn at_receiver(case: &Case, made: &Made, table: &mut Table) {
    let analysis = made.analysed(&["r".to_owned()]);
    let mut of = Of { table, case: case.name, at: "receiver" };
    let all = ones(&analysis, made);
    let each = |pair: fn(&One<'_>) -> Pair| all.iter().map(pair).collect::<Vec<_>>();
    of.count("segments arrived", "0", each(|one| same(one.way.segments, one.truth[0].arrived)));
    of.count(
        "with CE",
        "0",
        each(|one| same(one.way.ecn.ce, one.of_one_end(|c| c.ce_segs_received, one.truth[1].ce))),
    );
    let either = "retransmitted and there sooner than asked for; in the first 26 ms";
    of.count(
        "spurious",
        "0; without SACK, less by all; more by what is late in the first 26 ms and taken for retransmitted",
        each(|one| not_needed(one, one.truth[0].late_at_first)),
    );
    of.count(
        "late",
        either,
        each(|one| {
            let truth = &one.truth[0];
            within(one.way.out_of_order, truth.late, truth.late_at_first, truth.filled_soon)
        }),
    );
    of.count(
        "lost before, by gaps",
        either,
        each(|one| {
            let (truth, filled) = (&one.truth[0], one.truth[0].filled_again);
            within(one.way.lost_before_point, filled, truth.filled_soon, truth.late_at_first)
        }),
    );
    of.count(
        "bytes",
        "0; of what goes on, less by what waits for its ACK",
        each(|one| {
            let waiting =
                if one.is_done_transfer() { 0 } else { 2 * u64::from(one.way.mss.unwrap()) };
            within(one.way.bytes, one.outcome.received_bytes, waiting, 0)
        }),
    );
    of.count(
        "ACKs without data",
        "0",
        each(|one| {
            let alone = one.way.acks - one.flow.b_to_a.data_packets;
            same(alone, one.of_one_end(|c| c.acks_sent, one.truth[0].pure_acks))
        }),
    );
}

fn at_both(case: &Case, made: &Made, table: &mut Table) {
    let mut hosts = case.senders();
    hosts.push("r".to_owned());
    let analysis = made.analysed(&hosts);
    let mut of = Of { table, case: case.name, at: "both" };
    let between = analysis.whole.crossings.iter().filter(|crossing| !crossing.is_one_clock);
    let lost: u64 = between.map(|crossing| crossing.lost.iter().sum::<u64>()).sum();
    let record = &made.outcome.queues[0];
    // The last of a pair of hosts may be in flight, as far as captures tell.
    let allowed = "less by 1 of each sender, with nothing behind it";
    let dropped = record.dropped_pkts() + record.lost_pkts;
    of.count("lost between", allowed, [within(lost, dropped, case.senders.into(), 0)]);
}

#[test]
fn what_is_inferred_is_what_was() {
    let mut table = Table::default();
    for case in cases() {
        let made = case.make();
        at_sender(&case, &made, &mut table);
        at_receiver(&case, &made, &mut table);
        at_both(&case, &made, &mut table);
    }
    println!("{}", table.text());
    for (at, is_series) in
        [("sender", false), ("sender", true), ("receiver", false), ("both", false)]
    {
        println!("{}", table.matrix(at, is_series));
    }
    let failed = table.failed();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    // Each case has what it is there for.
    for (case, quantity) in [
        ("bic", "retransmitted"),
        ("dctcp", "with CE"),
        ("reno, ECN", "reductions by CWR"),
        ("random loss", "lost between"),
        ("tail losses", "probes"),
        ("tail losses", "timeouts"),
        ("timeouts without SACK", "timeouts"),
        ("incast", "timeouts"),
        ("reordering", "late"),
        ("changing delay", "spurious"),
        ("requests", "marked, packets by ECE"),
    ] {
        assert!(table.recorded(case, quantity) >= 5.0, "{case}: {quantity}");
    }
}
