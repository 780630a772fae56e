//! Captures of each pathology and of healthy hosts: each is found where it is, and nothing where nothing is.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "all of this is a test")]

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::common::{MS, MSS, Trace};
use crate::experiments::{Made, Temp, analysed, copy, simulate};
use knee_pcap::diagnosis::{KINDS, findings};
use knee_pcap::{Analysis, AnalysisOptions, Csv, Flow, Input, Severity, Show, analyse, text};
use knee_queue::Ecn;
use knee_wire::Segment;

/// A capture and what it shows.
struct Case {
    /// In the matrix.
    name: &'static str,
    /// Findings that must appear, and no others: the capture's purpose, and side effects for the reason in the comment.
    must: &'static [&'static str],
    also: &'static [&'static str],
    make: fn(&Temp) -> Vec<PathBuf>,
}

fn files(made: &Made, temp: &Temp, hosts: &[&str]) -> Vec<PathBuf> {
    hosts
        .iter()
        .map(|host| {
            let to = temp.path(&format!("{host}.pcapng"));
            std::fs::rename(made.file(host), &to).unwrap();
            to
        })
        .collect()
}

/// An experiment's captures of some hosts.
macro_rules! of {
    ($name:literal, [$($set:literal),+], $($host:literal),+) => {
        |temp| files(&simulate($name, &[$($set),+]), temp, &[$($host),+])
    };
    ($name:literal, $($host:literal),+) => {
        |temp| files(&simulate($name, &[]), temp, &[$($host),+])
    };
}

/// The capture of `never-marked`'s receiver, behind a device that clears ECN fields.
fn bleached(temp: &Temp) -> Vec<PathBuf> {
    let made = simulate("never-marked", &[]);
    let to = temp.path("bleached.pcapng");
    copy(&made.file("r"), &to, |packet| {
        packet.clear_ecn();
        true
    });
    vec![to]
}

/// The same and the sender's, which is before that device.
fn bleached_between(temp: &Temp) -> Vec<PathBuf> {
    let made = simulate("never-marked", &[]);
    let to = temp.path("bleached.pcapng");
    let sender = [198, 18, 0, 1];
    copy(&made.file("r"), &to, |packet| {
        if packet.source() == sender {
            packet.clear_ecn();
        }
        true
    });
    let mut all = files(&made, temp, &["s1"]);
    all.push(to);
    all
}

/// A sender that never sends CWR before a receiver that latches: the first ECE is followed by nothing else.
fn endless_ece(temp: &Temp) -> Vec<PathBuf> {
    let made = simulate("endless-ece", &[]);
    let to = temp.path("s1.pcapng");
    let sender = [198, 18, 0, 1];
    let mut is_latched = false;
    copy(&made.file("s1"), &to, |packet| {
        if packet.is_syn() {
            return true;
        }
        if packet.source() == sender {
            packet.clear_cwr();
        } else if is_latched {
            packet.set_ece();
        } else {
            is_latched = packet.has_ece();
        }
        true
    });
    vec![to]
}

/// A capture made by hand, as a file.
fn by_hand(temp: &Temp, make: impl FnOnce(&mut Trace)) -> Vec<PathBuf> {
    let mut trace = Trace::new([1000, 5000]);
    trace.handshake(0, 20 * MS, [0, 0]);
    make(&mut trace);
    let to = temp.path("by-hand.pcapng");
    std::fs::write(&to, trace.file()).unwrap();
    vec![to]
}

/// The last segment is sent again and again.
fn gone(temp: &Temp) -> Vec<PathBuf> {
    by_hand(temp, |trace| {
        trace.data(20 * MS, 0..10);
        trace.ack(40 * MS, 10);
        for at_ms in [40, 260, 700, 1600, 3400] {
            trace.segment(at_ms * MS, 10);
        }
    })
}

/// Each tenth segment comes to the receiver behind the four after it.
fn overtaken(temp: &Temp) -> Vec<PathBuf> {
    by_hand(temp, |trace| {
        for round in 0..30 {
            let (at_ns, first) = ((20 + 20 * round) * MS, 10 * round);
            trace.data(at_ns, first..first + 10);
            for behind in 1..5 {
                let range = (first + 1, first + 1 + behind);
                trace.sack(at_ns + 20 * MS + 10_000 * behind, first, &[range]);
            }
            trace.ack(at_ns + 20 * MS + 60_000, first + 10);
        }
    })
}

/// Requests of 300 bytes are acknowledged, the large segments of an answer to them never, although the other end goes on.
fn too_large(temp: &Temp) -> Vec<PathBuf> {
    by_hand(temp, |trace| {
        for at_ms in [20, 60, 100] {
            let seq = 1 + 300 * (at_ms - 20) / 40;
            trace.add(at_ms * MS, 0, Segment::ACK, seq, 300, 1);
            trace.add((at_ms + 20) * MS, 1, Segment::ACK, 1, 0, seq + 300);
        }
        for at_ms in [140, 360, 800, 1700, 3500] {
            trace.add(at_ms * MS, 0, Segment::ACK, 901, MSS, 1);
        }
        trace.add(3600 * MS, 1, Segment::ACK, 1, 100, 901);
        trace.add(3600 * MS, 0, Segment::ACK, 2349, 0, 101);
    })
}

/// The packets of the receiver are missing.
fn one_side(temp: &Temp) -> Vec<PathBuf> {
    by_hand(temp, |trace| {
        trace.data(40 * MS, 0..20);
        let source = trace.packets[0].1.source;
        trace.packets.retain(|packet| packet.1.source == source);
    })
}

const CASES: &[Case] = &[
    // K is no pathology, but good to know.
    Case {
        name: "healthy-dctcp",
        must: &[],
        also: &["marking-threshold"],
        make: of!("healthy-dctcp", "s1"),
    },
    Case { name: "healthy-dctcp, receiver", must: &[], also: &[], make: of!("healthy-dctcp", "r") },
    Case { name: "healthy-cubic", must: &[], also: &[], make: of!("healthy-cubic", "s1") },
    Case { name: "healthy-cubic, receiver", must: &[], also: &[], make: of!("healthy-cubic", "r") },
    Case { name: "healthy-bbr", must: &[], also: &[], make: of!("healthy-bbr", "s1") },
    Case { name: "healthy-bbr, receiver", must: &[], also: &[], make: of!("healthy-bbr", "r") },
    Case { name: "healthy-rpc", must: &[], also: &[], make: of!("healthy-rpc", "s1") },
    Case { name: "healthy-rpc, receiver", must: &[], also: &[], make: of!("healthy-rpc", "r") },
    Case {
        name: "healthy, fq paces",
        must: &[],
        also: &[],
        make: of!("healthy-cubic", ["hosts.fq=true"], "s1"),
    },
    // As in healthy-dctcp: K is where it is set, and here and in the next two enough data is marked to see it.
    Case {
        name: "healthy, 10 Gbps and jumbo frames",
        must: &[],
        also: &["marking-threshold"],
        make: of!(
            "healthy-dctcp",
            [
                "hosts.mtu=9000 B",
                "network.access.rate=10 Gbps",
                "network.bottleneck.rate=10 Gbps",
                "network.bottleneck.queue.k=65 pkts",
                "traffic.bulk.size=60 MB"
            ],
            "s1"
        ),
    },
    Case {
        name: "healthy, IPv6",
        must: &[],
        also: &["marking-threshold"],
        make: of!("healthy-dctcp", ["hosts.ipv6=true"], "s1"),
    },
    Case {
        name: "healthy, eight senders, all ends",
        must: &[],
        also: &["marking-threshold"],
        make: of!(
            "healthy-dctcp",
            ["network.senders=8", "traffic.bulk.from=s1..s8"],
            "s1",
            "s2",
            "r"
        ),
    },
    Case {
        name: "healthy, 20 Mbps and 30 ms with losses",
        must: &[],
        also: &[],
        make: of!(
            "healthy-cubic",
            [
                "network.bottleneck.rate=20 Mbps",
                "network.return.delay=30 ms",
                "network.bottleneck.queue.limit=50 pkts",
                "traffic.bulk.size=20 MB",
                "run.duration=20 s"
            ],
            "s1"
        ),
    },
    Case {
        name: "healthy, incast that marks",
        must: &[],
        also: &[],
        make: of!(
            "incast",
            [
                "cc=[\"dctcp\"]",
                "hosts.sack=true",
                "network.down.queue={kind=\"step\",limit=\"1 MB\",k=\"20 pkts\"}"
            ],
            "h1",
            "h2"
        ),
    },
    // The probe at the end of the transfer sends again what a queue of four packets behind the point dropped.
    Case {
        name: "lost behind the point",
        must: &[],
        also: &["tail-loss"],
        make: of!(
            "never-marked",
            ["network.bottleneck.queue.limit=4 pkts", "traffic.bulk.size=30 MB", "cc=[\"cubic\"]"],
            "s1"
        ),
    },
    Case {
        name: "timeouts without a floor",
        must: &[],
        also: &["tail-loss"],
        make: of!("rto-floor", ["hosts.rto_min=1 ms", "network.return.delay=2 ms"], "s1"),
    },
    Case { name: "random-loss", must: &[], also: &[], make: of!("random-loss", "s1") },
    // The application reads when all 32 packets of an interrupt are handled, and only then the window is open: one ACK answers
    // them, as in guests of Linux 6.1 and 6.12, and releases a burst.
    Case {
        name: "coalescing",
        must: &["rtt-bimodal"],
        also: &["sender-bursts", "stretch-acks"],
        make: of!("coalescing", "s1"),
    },
    // Its late ACKs let whole windows go, and the smallest windows of six flows exceed K.
    Case {
        name: "delayed-ack",
        must: &["delayed-ack"],
        // A request of 69 segments leaves at once.
        also: &["starved-by-marks", "sender-bursts"],
        make: of!("delayed-ack", "s1", "s2"),
    },
    // Without SACKs a sender cannot tell a lost packet from one whose ACK was left out.
    Case {
        name: "last-packet",
        must: &["rto-floor"],
        // A request of 34 segments leaves at once.
        also: &["tail-loss", "sender-bursts"],
        make: of!("last-packet", "s1"),
    },
    // The receiver's capture knows that it had arrived.
    Case {
        name: "last-packet, receiver",
        must: &["ack-left-out", "rto-floor"],
        also: &[],
        make: of!("last-packet", "r"),
    },
    // Losses at the end of requests wait for the timer.
    Case {
        name: "rto-floor",
        must: &["rto-floor"],
        also: &["tail-loss"],
        make: of!("rto-floor", "s1"),
    },
    Case { name: "tail-loss", must: &["tail-loss"], also: &[], make: of!("tail-loss", "s1") },
    // Behind a timeout the window is one packet, whose ACK waits 40 ms; answers lose their ends.
    Case {
        name: "incast",
        must: &["incast-collapse", "rto-floor"],
        also: &["delayed-ack", "tail-loss"],
        make: of!("incast", "h1"),
    },
    // It was alone before the other began, which shows K.
    Case {
        name: "marks-ignored, who heeds",
        must: &["starved-by-marks"],
        also: &["marking-threshold"],
        make: of!("marks-ignored", "s1"),
    },
    // What BBR has beyond a BDP stands in the queue.
    Case {
        name: "marks-ignored, who ignores",
        must: &["marks-ignored"],
        also: &["standing-queue"],
        make: of!("marks-ignored", "s2"),
    },
    Case { name: "endless-ece", must: &["endless-ece"], also: &[], make: endless_ece },
    Case {
        name: "one-sided",
        must: &["ece-overstates-marks"],
        also: &[],
        make: of!("endless-ece", "s1", "r"),
    },
    Case {
        name: "never-marked",
        must: &["ecn-never-marked"],
        also: &[],
        make: of!("never-marked", "s1"),
    },
    Case { name: "bleached, receiver", must: &["ecn-bleached"], also: &[], make: bleached },
    // What is bleached is not marked either.
    Case {
        name: "bleached, both ends",
        must: &["ecn-bleached"],
        also: &["ecn-never-marked"],
        make: bleached_between,
    },
    Case {
        name: "threshold",
        must: &["marking-threshold"],
        also: &[],
        make: of!("threshold", "s1"),
    },
    Case {
        name: "standing-queue",
        must: &["standing-queue"],
        also: &[],
        make: of!("standing-queue", "s1"),
    },
    Case { name: "policer", must: &["policer"], also: &[], make: of!("policer", "s1") },
    Case {
        name: "receiver-limited",
        must: &["receiver-limited"],
        also: &[],
        make: of!("receiver-limited", "s1"),
    },
    Case {
        name: "application-limited",
        must: &["application-limited"],
        also: &[],
        make: of!("application-limited", "s1"),
    },
    // The receiver merges, so that its ACKs let bursts go.
    Case {
        name: "bursts",
        must: &["sender-bursts"],
        also: &["stretch-acks"],
        make: of!("bursts", "s1"),
    },
    // At each change what went the long way comes behind what goes the short one.
    Case {
        name: "path-change",
        must: &["path-change"],
        also: &["reordering"],
        make: of!("path-change", "s1"),
    },
    Case {
        name: "two-buffers",
        must: &["shares-by-input"],
        also: &[],
        make: of!("two-buffers", "r"),
    },
    Case {
        name: "stretch-acks",
        must: &["stretch-acks"],
        also: &[],
        make: of!("stretch-acks", "s1"),
    },
    Case {
        name: "late-acks",
        must: &["spurious-timeout"],
        also: &[],
        make: of!("late-acks", "s1"),
    },
    Case {
        name: "late-acks, both ends",
        must: &["spurious-timeout"],
        also: &[],
        make: of!("late-acks", "s1", "r"),
    },
    // BBR goes on with the RTT of the shorter path.
    Case {
        name: "longer-path",
        must: &["path-change", "stale-min-rtt"],
        also: &[],
        make: of!(
            "longer-path",
            ["network.bottleneck.rate=50 Mbps", "network.bottleneck.queue.limit=500 pkts"],
            "s1"
        ),
    },
    Case {
        name: "marks-everything",
        must: &["marks-everything"],
        also: &[],
        make: of!("marks-everything", "s1"),
    },
    Case { name: "peer that is gone", must: &["peer-unreachable"], also: &[], make: gone },
    Case { name: "segments too large", must: &["mtu-black-hole"], also: &[], make: too_large },
    Case { name: "reordering", must: &["reordering"], also: &["stretch-acks"], make: overtaken },
    Case { name: "one side alone", must: &["one-sided-capture"], also: &[], make: one_side },
    // What still merges has stretch ACKs, which let bursts go.
    Case {
        name: "broken-gro",
        must: &["gro-broken-by-marks"],
        also: &["sender-bursts", "stretch-acks"],
        make: of!("broken-gro", "s1"),
    },
];

/// An experiment, its keys that are changed, and the policer's rate and burst.
type Policed = (&'static str, &'static [&'static str], Option<[f64; 2]>);

/// Experiments with these keys changed, and the policer's rate and burst, Mbps and kB, that are found in the capture of the first
/// sender, if there is one.
const POLICED: &[Policed] = &[
    ("policer", &["cc=[\"reno\"]"], Some([100.0, 90.0])),
    ("policer", &["cc=[\"bbr\"]"], Some([100.0, 90.0])),
    ("policer", &["network.bottleneck.rate=20 Mbps", "traffic.bulk.size=4 MB"], Some([20.0, 90.0])),
    (
        "policer",
        &["network.bottleneck.rate=300 Mbps", "traffic.bulk.size=30 MB"],
        Some([300.0, 90.0]),
    ),
    ("policer", &["network.bottleneck.burst=30 kB"], Some([100.0, 30.0])),
    ("policer", &["network.bottleneck.burst=300 kB"], Some([100.0, 300.0])),
    ("policer", &["traffic.bulk.flows=2"], Some([100.0, 90.0])),
    (
        "policer",
        &["traffic.bulk.flows=2", "cc=[\"bbr\"]", "traffic.bulk.size=8 MB"],
        Some([100.0, 90.0]),
    ),
    ("random-loss", &["traffic.bulk.size=40 MB"], None),
    ("random-loss", &["traffic.bulk.size=40 MB", "cc=[\"bbr\"]"], None),
    ("random-loss", &["traffic.bulk.size=10 MB", "traffic.bulk.flows=4"], None),
    ("random-loss", &["traffic.bulk.size=20 MB", "traffic.bulk.max_pacing_rate=50 Mbps"], None),
    ("random-loss", &["network.bottleneck.loss_per=burst", "network.bottleneck.loss=2 %"], None),
    ("random-loss", &["network.bottleneck.jitter=2 ms", "traffic.bulk.size=20 MB"], None),
    // Buffers of a tenth of a BDP and less, which a policer's RTTs would look like but for what packets wait in them.
    ("healthy-cubic", &["network.bottleneck.queue.limit=10 pkts", "traffic.bulk.size=80 MB"], None),
    ("never-marked", &[], None),
    ("never-marked", &["network.bottleneck.queue.limit=10 pkts"], None),
    ("healthy-bbr", &["network.bottleneck.queue.limit=10 pkts", "traffic.bulk.size=40 MB"], None),
    (
        "healthy-cubic",
        &[
            "network.bottleneck.queue={kind=\"red\",limit=\"100 pkts\",min=\"10 pkts\",max=\"30 pkts\"}",
            "traffic.bulk.size=40 MB",
        ],
        None,
    ),
    (
        "healthy-cubic",
        &["cc=[\"reno\"]", "network.bottleneck.queue.limit=10 pkts", "traffic.bulk.size=40 MB"],
        None,
    ),
    (
        "healthy-cubic",
        &[
            "traffic.bulk.flows=4",
            "network.bottleneck.queue.limit=20 pkts",
            "traffic.bulk.size=20 MB",
        ],
        None,
    ),
];

#[test]
fn policers_are_told_from_random_losses_and_from_short_queues() {
    let mut lossy = 0;
    for (name, set, truth) in POLICED {
        let set: Vec<&str> = set.iter().copied().chain(["run.duration=20 s"]).collect();
        let made = simulate(name, &set);
        let analysis = analysed(&[made.file("s1")]);
        let found = findings(&analysis);
        let policer = found.iter().find(|finding| finding.kind == "policer");
        assert_eq!(policer.is_some(), truth.is_some(), "{name} {set:?}: {policer:?}");
        if let (Some([rate, burst]), Some(policer)) = (truth, policer) {
            println!("{name} {set:?}: {}", policer.summary);
            let depth = policer.summary.split("nearly all with ").nth(1);
            let depth: Option<f64> =
                depth.map(|text| text.split(' ').next().unwrap().parse().unwrap());
            let rates: Vec<f64> = policer
                .summary
                .split(" Mbps")
                .filter_map(|before| before.rsplit(' ').next()?.parse().ok())
                .collect();
            // One rate, or a range of those that fit: the truth is within it, give or take. A window that leaves the host at once here
            // reaches the policer at the rate of the link between, and then more rates fit.
            let (low, high) = (
                rates.iter().fold(f64::MAX, |x, y| x.min(*y)),
                rates.iter().fold(0.0, |x: f64, y| x.max(*y)),
            );
            assert!(low <= 1.1 * rate && high >= 0.9 * rate, "{name} {set:?}: {}", policer.summary);
            // What was sent beyond a rate is known as well as the rate is.
            let is_told = !policer.summary.contains("cannot be told");
            let of_burst = if *rate > 100.0 || !is_told { 0.6 } else { 0.3 };
            let is_near = depth.is_none_or(|depth| (depth / burst - 1.0).abs() <= of_burst);
            assert!(is_near, "{name} {set:?}: {}", policer.summary);
        }
        lossy += u32::from(analysis.whole.totals.retransmitted.segments > 30);
    }
    // Without enough losses nothing would be found whatever they are like.
    assert!(lossy as usize >= POLICED.len() - 2, "{lossy}");
}

#[test]
fn flows_csv_says_which_view_of_a_connection_is_the_best() {
    let made = simulate("healthy-dctcp", &["traffic.bulk.size=1 MB"]);
    let temp = Temp::new("csv");
    let mut csv = Csv::create(&temp.path("csv")).unwrap();
    let inputs = vec![Input::File(made.file("s1"))];
    let mut each = |flow: &Flow| csv.flow(flow).unwrap();
    let analysis = analyse(inputs, &AnalysisOptions::default(), &mut each).unwrap();
    csv.finish(&analysis).unwrap();
    let text = std::fs::read_to_string(temp.path("csv").join("flows.csv")).unwrap();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines[0][2], "is_primary");
    let mut seen = BTreeSet::new();
    for line in &lines[1..] {
        assert_eq!(line.len(), lines[0].len());
        let flow = analysis.flows.iter().find(|flow| flow.id.to_string() == line[0]).unwrap();
        assert_eq!(line[2], flow.is_primary.to_string());
        seen.insert(flow.is_primary);
    }
    assert_eq!(seen.len(), 2, "{text}");
}

/// Headers of VXLAN (RFC 7348) in front of a frame: Ethernet, IPv4, UDP to port 4789, and network 7.
fn vxlan(frame_len: u32) -> Vec<u8> {
    let behind_ip = (frame_len + 16) as u16;
    let mut headers = [&[2; 12][..], &[0x08, 0, 0x45, 0]].concat();
    headers.extend((behind_ip + 20).to_be_bytes());
    headers.extend([0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    headers.extend(50_000_u16.to_be_bytes());
    headers.extend(4789_u16.to_be_bytes());
    headers.extend(behind_ip.to_be_bytes());
    headers.extend([0, 0, 8, 0, 0, 0, 0, 0, 7, 0]);
    headers
}

#[test]
fn a_flow_in_a_tunnel_is_the_flow_without_it() {
    let made = simulate("rto-floor", &[]);
    let temp = Temp::new("tunnel");
    let to = temp.path("vxlan.pcapng");
    copy(&made.file("s1"), &to, |packet| {
        let headers = vxlan(packet.original_len);
        packet.original_len += headers.len() as u32;
        packet.bytes.splice(..0, headers);
        true
    });
    let (plain, inner) = (analysed(&[made.file("s1")]), analysed(&[to]));
    let found = |analysis: &Analysis| {
        let flows = analysis.flows.iter();
        let flows: Vec<_> = flows
            .map(|flow| (flow.a, flow.b, flow.main().bytes, flow.main().retransmitted.segments))
            .collect();
        let kinds: Vec<&str> = findings(analysis).iter().map(|finding| finding.kind).collect();
        (flows, kinds)
    };
    assert_eq!(found(&inner), found(&plain));
    assert!(found(&inner).1.contains(&"rto-floor"));
    let said = text(&inner, Show::default());
    assert!(said.contains("packets of TCP in VXLAN: knee reads the inner packets"), "{said}");
    assert!(!text(&plain, Show::default()).contains("VXLAN"));
}

#[test]
fn packets_of_other_captures_do_not_stay_in_a_directory() {
    let mut trace = Trace::new([1000, 5000]);
    trace.handshake(0, MS, [0, 0]);
    let temp = Temp::new("again");
    let has_packets = |flows: Vec<u32>| {
        let options = AnalysisOptions { flows, ..AnalysisOptions::default() };
        let csv = Csv::create(&temp.path("csv")).unwrap();
        csv.finish(&crate::common::analysed(vec![trace.file()], &options)).unwrap();
        temp.path("csv").join("packets.csv").exists()
    };
    assert!(has_packets(vec![1]));
    assert!(!has_packets(Vec::new()));
}

/// Names of what is found in a capture made by hand.
fn names(trace: &Trace) -> Vec<&'static str> {
    findings(&trace.analysed()).iter().map(|finding| finding.kind).collect()
}

/// Round trips of two segments, and of the last one of all a second time.
fn last_sent_again() -> Trace {
    let mut trace = Trace::new([1000, 5000]);
    trace.handshake(0, MS, [0, 0]);
    for round in 0..20 {
        trace.data((10 + 2 * round) * MS, 2 * round..2 * round + 2);
        trace.ack((11 + 2 * round) * MS, 2 * round + 2);
    }
    trace.data(60 * MS, 40..42);
    trace.ack(61 * MS, 41);
    trace.segment(75 * MS, 41);
    trace
}

#[test]
fn a_sender_knows_by_dsack_that_an_ack_was_left_out() {
    // Two segments; the ACK of the second never comes, and the probe for it is reported as a duplicate, or is acknowledged.
    let with = |is_reported: bool| {
        let mut trace = last_sent_again();
        match is_reported {
            true => trace.sack(76 * MS, 42, &[(41, 42)]),
            false => _ = trace.ack(76 * MS, 42),
        }
        trace
    };
    assert_eq!(names(&with(true)), ["ack-left-out"]);
    assert_eq!(names(&with(false)), ["tail-loss"]);
}

#[test]
fn a_dsack_tells_of_the_repetition_that_is_known_to_be_needless() {
    // A probe repairs the loss of the last segment. It comes once more behind its ACK, and the receiver reports that one.
    let mut trace = last_sent_again();
    trace.ack(76 * MS, 42);
    trace.segment(76 * MS + 100_000, 41);
    trace.sack(77 * MS, 42, &[(41, 42)]);
    assert_eq!(names(&trace), ["tail-loss"]);
    assert_eq!(trace.analysed().flows[0].a_to_b.retransmitted.spurious, 1);
}

#[test]
fn delayed_acks_of_40_and_200_ms_are_found_at_a_window_of_one_segment() {
    let with = |delay_ms: u64| {
        let mut trace = Trace::new([1000, 5000]);
        trace.handshake(0, MS, [0, 0]);
        for round in 0..8 {
            let at_ns = (10 + (delay_ms + 1) * round) * MS;
            trace.segment(at_ns, round);
            // The first is acknowledged at once, so that the path's own RTT is known.
            let delay_ms = if round == 0 { 1 } else { delay_ms };
            trace.ack(at_ns + delay_ms * MS, round + 1);
        }
        trace
    };
    assert_eq!(names(&with(40)), ["delayed-ack"]);
    assert_eq!(names(&with(200)), ["delayed-ack"]);
    // A long path, and a receiver that has waited for something else.
    assert_eq!(names(&with(8)), [""; 0]);
    assert_eq!(names(&with(400)), [""; 0]);
}

#[test]
fn an_ack_behind_a_loss_is_no_ack_for_much_at_once() {
    // Of eight segments the first is lost: SACKs tell of the others two by two, and the ACK of its repetition covers them all.
    let with = |is_lost: bool| {
        let mut trace = Trace::new([1000, 5000]);
        trace.handshake(0, MS, [0, 0]);
        for round in 0..40 {
            let (at_ns, first) = ((10 + 5 * round) * MS, 8 * round);
            trace.data(at_ns, first..first + 8);
            if is_lost {
                for pair in 0..4 {
                    let range = (first + 1, first + 2 + 2 * pair);
                    trace.sack(at_ns + MS + pair * 50_000, first, &[range]);
                }
                trace.segment(at_ns + MS + 160_000, first);
            }
            trace.ack(at_ns + 3 * MS, first + 8);
        }
        trace
    };
    assert!(!names(&with(true)).contains(&"stretch-acks"));
    assert!(names(&with(false)).contains(&"stretch-acks"));
}

#[test]
fn timeouts_of_several_flows_are_counted_together() {
    let made = simulate("rto-floor", &[]);
    let analysis = analysed(&[made.file("s1")]);
    let timeouts: u64 = analysis
        .flows
        .iter()
        .filter(|flow| flow.is_primary)
        .map(|flow| flow.a_to_b.retransmitted.rto)
        .sum();
    let all = findings(&analysis);
    let floor = all.iter().find(|finding| finding.kind == "rto-floor").unwrap();
    assert!(floor.flows.len() > 1 && timeouts > floor.flows.len() as u64);
    let said = format!("{timeouts} retransmission timeouts in {} flows", floor.flows.len());
    assert!(floor.summary.starts_with(&said), "{} {said}", floor.summary);
    // Others have figures of one, and say so.
    let tail = all.iter().find(|finding| finding.kind == "tail-loss").unwrap();
    let said = format!("The clearest of {} connections.", tail.flows.len());
    assert!(tail.summary.ends_with(&said), "{}", tail.summary);
}

#[test]
fn marks_are_ignored_where_ecn_was_not_agreed_on() {
    let with = |ecn: Ecn| {
        let mut trace = Trace::new([1000, 5000]);
        trace.handshake(0, MS, [0, 0]);
        for round in 0..100 {
            let at_ns = (10 + 2 * round) * MS;
            trace.segment(at_ns, 2 * round).ecn = ecn;
            trace.segment(at_ns + 2000, 2 * round + 1).ecn = ecn;
            trace.ack(at_ns + MS, 2 * round + 2);
        }
        names(&trace)
    };
    assert!(with(Ecn::Ect0).contains(&"marks-ignored"));
    assert!(!with(Ecn::NotEct).contains(&"marks-ignored"));
}

#[test]
fn the_threshold_is_read_within_a_packet() {
    let at_10_gbps = [
        "network.access={rate=\"10 Gbps\",delay=\"5 us\"}",
        "network.bottleneck.rate=10 Gbps",
        "network.bottleneck.delay=5 us",
        "network.return.delay=20 us",
        "traffic.bulk.size=20 MB",
    ];
    for k in [5, 20, 65] {
        for fast in [&[][..], &at_10_gbps] {
            let key = format!("network.bottleneck.queue.k={k} pkts");
            let set: Vec<&str> = fast.iter().copied().chain([&key[..]]).collect();
            let all = findings(&analysed(&[simulate("threshold", &set).file("s1")]));
            let found = all.iter().find(|finding| finding.kind == "marking-threshold").unwrap();
            let read = found.summary.split("K is about ").nth(1).unwrap().split(' ').next();
            let read: f64 = read.unwrap().parse().unwrap();
            assert!((read - f64::from(k)).abs() <= 1.0, "{set:?}: {}", found.summary);
        }
    }
    // At 10 Gbps on a path of 1 ms the queue is empty or far beyond K, and where marks begin is not seen.
    let long = [
        "network.access.rate=10 Gbps",
        "network.bottleneck.rate=10 Gbps",
        "traffic.bulk.size=60 MB",
    ];
    let made = simulate("threshold", &long);
    assert!(made.outcome.flows[0].counters.delivered_ce > Some(50));
    let all = findings(&analysed(&[made.file("s1")]));
    assert!(all.iter().all(|finding| finding.kind != "marking-threshold"), "{all:?}");
}

#[test]
fn every_pathology_is_found_where_it_is_and_nowhere_else() {
    let mut wrong = Vec::new();
    let mut shown: BTreeSet<&str> = BTreeSet::new();
    println!("| capture | found | notes |\n| --- | --- | --- |");
    for case in CASES {
        let temp = Temp::new("diagnosis");
        let all = findings(&analysed(&(case.make)(&temp)));
        let names = |are_notes: bool| {
            let some = all.iter().filter(|one| (one.severity == Severity::Note) == are_notes);
            some.map(|finding| finding.kind).collect::<Vec<_>>().join(", ")
        };
        println!("| {} | {} | {} |", case.name, names(false), names(true));
        for finding in &all {
            assert!(
                !finding.evidence.is_empty(),
                "{}: {} has no evidence",
                case.name,
                finding.kind
            );
        }
        let kinds: BTreeSet<&str> = all.iter().map(|finding| finding.kind).collect();
        let expected: BTreeSet<&str> = case.must.iter().chain(case.also).copied().collect();
        for kind in expected.difference(&kinds) {
            wrong.push(format!("{}: {kind} is not found", case.name));
        }
        for kind in kinds.difference(&expected) {
            wrong.push(format!("{}: {kind} is found", case.name));
        }
        shown.extend(case.must);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for kind in KINDS {
        assert!(shown.contains(&kind.name), "no capture shows {}", kind.name);
    }
}
