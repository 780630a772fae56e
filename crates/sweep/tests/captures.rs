//! Captures of simulated hosts say what the simulator did: handshakes, marks, drops and queueing delays.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::fs::{self, File};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use knee_queue::Ecn;
use knee_run::Outcome;
use knee_run::addresses::{address, connecting_port, listening_port, mac};
use knee_run::spec::Run;
use knee_scenario::{Experiment, Overrides};
use knee_sim::{Simulator, captures};
use knee_sweep::results::Results;
use knee_sweep::runner::sweep;
use knee_sweep::runs::Options;
use knee_wire::Segment;
use knee_wire::host::{AT_HOST, AT_PORT, SNAP_BYTES};
use knee_wire::packet::{Packet, decode};
use knee_wire::{link, read};
use tempfile::TempDir;

/// Two senders and a ping share a queue that drops and marks.
const TEXT: &str = r#"question = "Is it all there?"
cc = ["cubic", "dctcp"]

[hosts]
HOSTS

[network]
topology = "many-to-one"
senders = 3
access = { rate = "10 Gbps" }
return = { delay = "50 us" }
bottleneck = { rate = "1 Gbps", queue = QUEUE, record = true }

[[traffic]]
name = "bulk"
kind = "bulk"
from = "s1..s2"
to = "r"
size = "3 MB"
start_jitter = "1 ms"

[[traffic]]
name = "ping"
kind = "ping"
from = "s3"
to = "r"
interval = "1 ms"

[run]
duration = "999500 us"
"#;

const STEP: &str = r#"{ kind = "step", limit = "60 pkts", k = "20 pkts" }"#;

struct Scratch(TempDir);

impl Scratch {
    fn new() -> Scratch {
        Scratch(tempfile::tempdir().unwrap())
    }
}

/// A frame of a file.
struct Frame {
    at_ns: u64,
    interface: u32,
    original_len: u32,
    data: Vec<u8>,
    tcp: Option<Packet>,
}

impl Frame {
    fn ecn(&self) -> Ecn {
        let is_ipv6 = self.data[12..14] == [0x86, 0xdd];
        Ecn::from_tos(if is_ipv6 { self.data[15] >> 4 } else { self.data[15] })
    }

    fn is_from(&self, host: usize) -> bool {
        self.data[6..12] == mac(host)
    }
}

fn frames(path: &Path) -> Vec<Frame> {
    let mut frames = Vec::new();
    let ending = read(File::open(path).unwrap(), |packet| {
        assert_eq!(packet.link, link::ETHERNET);
        assert_eq!(packet.data.len(), packet.original_len.min(SNAP_BYTES) as usize);
        let (ip, len) = packet.ip().unwrap();
        assert_checksum(ip, len);
        frames.push(Frame {
            at_ns: packet.at_ns,
            interface: packet.interface,
            original_len: packet.original_len,
            data: packet.data.to_vec(),
            tcp: decode(ip, len),
        });
        ControlFlow::Continue(())
    });
    assert_eq!(ending.unwrap().broken, None);
    assert!(frames.is_sorted_by_key(|frame| frame.at_ns), "in the order of their times");
    frames
}

/// Of TCP and ICMP; what was cut off is zeros.
fn assert_checksum(ip: &[u8], len: u32) {
    let sum = |bytes: &[u8]| -> u64 {
        let pairs = bytes.chunks(2);
        pairs.map(|pair| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0))).sum()
    };
    let is_ipv6 = ip[0] >> 4 == 6;
    let (protocol, begins) = if is_ipv6 { (ip[6], 40) } else { (ip[9], 20) };
    let addresses = if is_ipv6 { &ip[8..40] } else { &ip[12..20] };
    let pseudo = sum(addresses) + u64::from(protocol) + u64::from(len) - begins as u64;
    let mut total = sum(&ip[begins..]) + if protocol == 1 { 0 } else { pseudo };
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    assert_eq!(total, 0xffff, "protocol {protocol}, {len} bytes");
}

/// Simulates until nothing is on its way any more.
fn captured(hosts: &str, queue: &str, case: usize, dir: &Path) -> (Run, Outcome) {
    let text = TEXT.replace("HOSTS", hosts).replace("QUEUE", queue);
    let experiment = Experiment::parse(Path::new("x.toml"), &text, &Overrides::default()).unwrap();
    let mut run = experiment.run(experiment.run_id(case)).unwrap();
    run.until_done = false;
    let outcome = captures::simulate(&run, dir).unwrap();
    assert!(outcome.flows.iter().all(|flow| flow.done_at.is_some()));
    (run, outcome)
}

/// Frames of senders towards the receiver, the last host.
fn to_receiver(dir: &Path, host: &str, interface: u32) -> Vec<Frame> {
    let mut frames = frames(&dir.join(format!("{host}.pcapng")));
    frames.retain(|frame| frame.interface == interface && !frame.is_from(3));
    frames
}

#[test]
fn a_handshake_is_as_on_a_wire() {
    for ipv6 in [false, true] {
        let scratch = Scratch::new();
        captured(&format!("tcp_ecn = 1\nipv6 = {ipv6}"), STEP, 1, scratch.0.path());
        let all = frames(&scratch.0.path().join("s1.pcapng"));
        let at_host = all.iter().filter(|frame| frame.interface == AT_HOST);
        let tcp: Vec<&Packet> = at_host.filter_map(|frame| frame.tcp.as_ref()).collect();
        let [syn, syn_ack, ack] = tcp[..3] else { panic!("a handshake has three") };
        let ends = (address(0, ipv6), connecting_port(0));
        assert_eq!((syn.source.ip(), syn.source.port()), ends);
        let ends = (address(3, ipv6), listening_port(0));
        assert_eq!((syn.destination.ip(), syn.destination.port()), ends);
        assert_eq!((syn_ack.source, syn_ack.destination), (syn.destination, syn.source));
        assert_eq!(syn.flags, Segment::SYN | Segment::ECE | Segment::CWR);
        assert_eq!(syn_ack.flags, Segment::SYN | Segment::ACK | Segment::ECE);
        assert_eq!(ack.flags, Segment::ACK);
        assert_eq!((syn_ack.ack, ack.seq), (syn.seq.wrapping_add(1), syn.seq.wrapping_add(1)));
        assert_eq!(ack.ack, syn_ack.seq.wrapping_add(1));
        for first in [syn, syn_ack] {
            assert_eq!(first.mss, Some(if ipv6 { 1440 } else { 1460 }));
            assert!(first.sack_ok && first.window_scale.is_some() && first.timestamps.is_some());
        }
        assert!(ack.mss.is_none() && ack.timestamps.is_some());
        assert!(!syn.are_options_cut && !ack.are_options_cut);
        let longest = all.iter().map(|frame| frame.original_len).max();
        assert_eq!(longest, Some(1514));
        assert!(all.iter().all(|frame| frame.is_from(0) != frame.is_from(3)));
    }
}

#[test]
fn marks_and_drops_are_those_of_the_queue() {
    let pie = r#"{ kind = "pie", limit = "60 pkts", target = "100 us", ecn = true }"#;
    for (queue, case, hosts) in [(STEP, 1, "ipv6 = true"), (STEP, 0, ""), (pie, 1, "")] {
        let scratch = Scratch::new();
        let (_, outcome) = captured(hosts, queue, case, scratch.0.path());
        let counts = &outcome.queues[0];
        let senders = ["s1", "s2", "s3"];
        let sent = |interface| -> Vec<Frame> {
            senders.iter().flat_map(|host| to_receiver(scratch.0.path(), host, interface)).collect()
        };
        let (offered, left) = (sent(AT_PORT), to_receiver(scratch.0.path(), "r", AT_PORT));
        assert_eq!(sent(AT_HOST).len(), offered.len(), "nothing is lost before the switch");
        assert_eq!(offered.len() as u64, counts.offered_pkts);
        assert_eq!((offered.len() - left.len()) as u64, counts.dropped_pkts(), "{queue}");
        assert_eq!(left.len() as u64, counts.sent_pkts);
        let bytes: u64 = left.iter().map(|frame| u64::from(frame.original_len)).sum();
        assert_eq!(bytes, counts.sent_bytes, "frames are as long as the simulator has them");
        let marked =
            |frames: &[Frame]| frames.iter().filter(|frame| frame.ecn() == Ecn::Ce).count();
        assert_eq!(marked(&offered), 0);
        assert_eq!(marked(&left) as u64, counts.marked_pkts, "{queue}");
        assert_eq!(marked(&to_receiver(scratch.0.path(), "r", AT_HOST)) as u64, counts.marked_pkts);
        let some = counts.marked_pkts > 0 || counts.dropped_pkts() > 0;
        assert!(some, "{queue}: {counts:?}");
    }
}

#[test]
fn the_time_in_the_queue_can_be_seen() {
    let scratch = Scratch::new();
    let (run, _) = captured("", STEP, 0, scratch.0.path());
    let coming: Vec<Frame> = ["s1", "s2", "s3"]
        .iter()
        .flat_map(|host| to_receiver(scratch.0.path(), host, AT_PORT))
        .collect();
    let leaving = to_receiver(scratch.0.path(), "r", AT_PORT);
    let arrived = to_receiver(scratch.0.path(), "r", AT_HOST);
    assert_eq!(leaving.len(), arrived.len());
    // A full queue of 60 frames of 1514 bytes drains in 727 us; the link itself takes 12 us of them and has no delay.
    let mut longest_ns = 0;
    for (left, there) in leaving.iter().zip(&arrived) {
        // The latest of its like: one that was dropped and sent again within a millisecond has the same headers.
        let came = |frame: &Frame| frame.data == left.data && frame.at_ns <= left.at_ns;
        let came_ns = coming.iter().filter(|frame| came(frame)).map(|frame| frame.at_ns).max();
        let waited_ns = left.at_ns - came_ns.unwrap();
        longest_ns = longest_ns.max(waited_ns);
        assert!(there.at_ns - left.at_ns <= 12_112, "{}", there.at_ns - left.at_ns);
    }
    assert!((600_000..=727_000).contains(&longest_ns), "{longest_ns} ns");
    assert_eq!(run.network.nodes.iter().filter(|node| node.host.is_some()).count(), 4);
}

#[test]
fn captures_stand_beside_the_results_and_change_nothing() {
    let scratch = Scratch::new();
    let text = TEXT.replace("HOSTS", "").replace("QUEUE", STEP);
    let overrides = Overrides { repeat: Some(2), ..Overrides::default() };
    let experiment = Experiment::parse(Path::new("x.toml"), &text, &overrides).unwrap();
    let experiment = Arc::new(experiment);
    let run = |captures| {
        let mut results = Results::numbered(scratch.0.path(), "x").unwrap();
        let options = Options { captures, ..Options::new(Arc::new(Simulator)) };
        let swept = sweep(&experiment, &options, &mut results, &mut |_| {}).unwrap();
        results.finish(&experiment, &swept, &[]).unwrap()
    };
    let (with, without) = (run(true), run(false));
    let names = |dir: &Path| -> Vec<String> {
        let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    };
    let of_runs =
        |run: usize| ["r", "s1", "s2", "s3"].map(|host| format!("{host}-run-{run}.pcapng"));
    let mut expected = names(&without);
    expected.extend(of_runs(0).into_iter().chain(of_runs(2)));
    expected.sort();
    assert_eq!(names(&with), expected);
    for name in names(&without).iter().filter(|name| name.ends_with(".csv")) {
        let [a, b] = [&with, &without].map(|dir| fs::read(dir.join(name)).unwrap());
        assert_eq!(a, b, "{name}");
    }
    let manifest = fs::read_to_string(with.join("manifest.json")).unwrap();
    assert!(manifest.contains("s1-run-2.pcapng"));
    assert!(frames(&with.join("r-run-0.pcapng")).len() > 10_000);
}

#[test]
fn what_cannot_be_written_is_an_error_and_leaves_nothing() {
    let scratch = Scratch::new();
    fs::write(scratch.0.path().join("s2.pcapng"), "mine").unwrap();
    let text = TEXT.replace("HOSTS", "").replace("QUEUE", STEP);
    let experiment = Experiment::parse(Path::new("x.toml"), &text, &Overrides::default()).unwrap();
    let run = experiment.run(experiment.run_id(0)).unwrap();
    let why = captures::simulate(&run, scratch.0.path()).unwrap_err().to_string();
    assert!(why.contains("s2.pcapng: cannot write: File exists"), "{why}");
    assert_eq!(fs::read_dir(scratch.0.path()).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(scratch.0.path().join("s2.pcapng")).unwrap(), "mine");
}
