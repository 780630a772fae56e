//! The running kernel as a stack, driven by hand.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "all of this is test code, also outside of the functions marked so"
)]

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use knee_queue::Ecn;
use knee_queue::time::{Duration, Time};
use knee_script::{Algorithms, Call, KernelStack, Refusal, Settings, SocketOption, Stack};
use knee_testbed::sandbox::available;
use knee_wire::Segment;

/// Longest wait for an answer on a busy machine.
const SOON: Duration = Duration::from_ms(500);
/// Long enough that no loss probe comes in between on a busy machine.
const RTT: Duration = Duration::from_ms(30);
const WINDOW: u32 = 1 << 20;
const SCALE: u8 = 7;

fn stack_with(settings: &Settings) -> KernelStack {
    KernelStack::new(settings, Algorithms::Ours).unwrap()
}

fn of(algorithm: &str) -> Settings {
    Settings { algorithm: algorithm.to_owned(), ..Settings::default() }
}

fn after(stack: &KernelStack, time: Duration) -> Time {
    Time::from_ps(stack.now().ps() + time.ps())
}

fn next(stack: &mut KernelStack) -> (Time, Segment) {
    let until = after(stack, SOON);
    stack.next_segment(until).unwrap().expect("it sends a segment")
}

/// All that is sent within this time.
fn all(stack: &mut KernelStack, time: Duration) -> Vec<(Time, Segment)> {
    let until = after(stack, time);
    std::iter::from_fn(|| stack.next_segment(until).unwrap()).collect()
}

fn value(stack: &mut KernelStack, name: &str) -> i128 {
    let info = stack.info().unwrap();
    let found = info.values.iter().find(|(found, _)| found == name);
    found.unwrap_or_else(|| panic!("no {name} in {info:?}")).1
}

/// The peer of a connection, with its clock of 1 kHz.
struct Peer {
    seq: u32,
    ts: u32,
    echo: u32,
}

impl Peer {
    fn segment(&mut self, flags: u16, ack: u32) -> Segment {
        self.ts += 1;
        Segment {
            flags,
            seq: self.seq,
            ack,
            window_bytes: WINDOW,
            timestamps: Some((self.ts, self.echo)),
            ..Segment::default()
        }
    }

    fn ack(&mut self, stack: &mut KernelStack, ack: u32) {
        let segment = self.segment(Segment::ACK, ack);
        stack.receive(&segment).unwrap();
    }

    /// Data of its own.
    fn data(&mut self, stack: &mut KernelStack, len: u32, ecn: Ecn) {
        let segment = Segment { len, ecn, ..self.segment(Segment::ACK, 1) };
        self.seq += len;
        stack.receive(&segment).unwrap();
    }
}

fn syn(flags: u16, ack: u32, echo: u32) -> Segment {
    Segment {
        flags: Segment::SYN | flags,
        ack,
        window_bytes: 65_535,
        mss: Some(1012),
        window_scale: Some(SCALE),
        sack_ok: true,
        timestamps: Some((100, echo)),
        ..Segment::default()
    }
}

/// The stack connects; its SYN, and the peer after the handshake.
fn connect(stack: &mut KernelStack, syn_ack_flags: u16) -> (Segment, Peer) {
    connect_slowly(stack, syn_ack_flags, Duration::ZERO)
}

/// The same with this RTT.
fn connect_slowly(stack: &mut KernelStack, syn_ack_flags: u16, rtt: Duration) -> (Segment, Peer) {
    stack.call(&Call::Connect).unwrap();
    let (_, sent) = next(stack);
    assert!(all(stack, rtt).is_empty());
    let echo = sent.timestamps.unwrap().0;
    stack.receive(&syn(Segment::ACK | syn_ack_flags, 1, echo)).unwrap();
    let (_, ack) = next(stack);
    assert_eq!((ack.flags, ack.seq, ack.ack, ack.len), (Segment::ACK, 1, 1, 0));
    (sent, Peer { seq: 1, ts: 100, echo: ack.timestamps.unwrap().0 })
}

/// A peer connects to the stack; its SYN-ACK, and the peer after the handshake.
fn accept(stack: &mut KernelStack, syn_flags: u16) -> (Segment, Peer) {
    stack.call(&Call::Listen).unwrap();
    stack.receive(&syn(syn_flags, 0, 0)).unwrap();
    let (_, sent) = next(stack);
    let mut peer = Peer { seq: 1, ts: 100, echo: sent.timestamps.unwrap().0 };
    peer.ack(stack, 1);
    (sent, peer)
}

#[test]
fn it_connects() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let mut stack = stack_with(&of("reno"));
    let (sent, _) = connect(&mut stack, 0);
    assert_eq!((sent.flags, sent.seq, sent.len, sent.mss), (Segment::SYN, 0, 0, Some(1012)));
    assert!(sent.sack_ok && sent.window_scale.is_some() && sent.timestamps.is_some());
    assert_eq!(sent.ecn, Ecn::NotEct);
    let info = stack.info().unwrap();
    assert_eq!(info.algorithm, "reno");
    assert_eq!(value(&mut stack, "snd_mss"), 1000);
    assert_eq!(value(&mut stack, "cwnd"), 10);
    assert_eq!(value(&mut stack, "ecn"), 0);
    assert!(stack.slack() > Duration::from_ms(1));
}

#[test]
fn it_is_connected_to() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let mut stack = stack_with(&of("cubic"));
    stack.call(&Call::Listen).unwrap();
    assert_eq!(stack.info().unwrap_err(), Refusal("no connection is established yet".to_owned()));
    drop(stack);
    let mut stack = stack_with(&of("cubic"));
    let (sent, mut peer) = accept(&mut stack, 0);
    assert_eq!((sent.flags, sent.seq, sent.ack), (Segment::SYN | Segment::ACK, 0, 1));
    assert_eq!(stack.info().unwrap().algorithm, "cubic");
    // What it advertises is scaled as its SYN-ACK said.
    peer.data(&mut stack, 1000, Ecn::NotEct);
    let (_, ack) = next(&mut stack);
    assert_eq!((ack.ack, ack.len), (1001, 0), "the first segments are acknowledged at once");
    peer.data(&mut stack, 1000, Ecn::NotEct);
    let (_, ack) = next(&mut stack);
    assert_eq!((ack.ack, ack.len), (2001, 0));
    assert!((30_000..WINDOW).contains(&ack.window_bytes), "{ack:?}");
    assert_eq!(value(&mut stack, "bytes_received"), 2000);
    stack.call(&Call::Read(None)).unwrap();
}

#[test]
fn ipv6_does_the_same_with_segments_smaller_than_its_least_mtu() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    for mss_bytes in [1000, 1440] {
        let mut stack = stack_with(&Settings { ipv6: true, mss_bytes, ..of("reno") });
        stack.call(&Call::Connect).unwrap();
        let (_, sent) = next(&mut stack);
        assert_eq!(sent.mss, Some(mss_bytes as u16 + 12));
        assert!(all(&mut stack, RTT).is_empty());
        let answer = Segment { mss: sent.mss, ..syn(Segment::ACK, 1, sent.timestamps.unwrap().0) };
        stack.receive(&answer).unwrap();
        next(&mut stack);
        assert_eq!(value(&mut stack, "snd_mss"), mss_bytes.into());
        stack.call(&Call::Write(3 * u64::from(mss_bytes))).unwrap();
        let data = all(&mut stack, Duration::from_ms(1));
        assert_eq!(data.iter().map(|(_, s)| s.len).collect::<Vec<_>>(), [mss_bytes; 3]);
    }
}

#[test]
fn ecn_is_negotiated_by_the_algorithm_that_needs_it() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let mut stack = stack_with(&of("dctcp"));
    let (sent, mut peer) = connect(&mut stack, Segment::ECE);
    assert_eq!(sent.flags, Segment::SYN | Segment::ECE | Segment::CWR);
    assert_eq!(sent.ecn, Ecn::Ect0, "a SYN of DCTCP is ECT");
    assert_eq!(value(&mut stack, "ecn"), 1);
    assert_eq!(value(&mut stack, "cc.alpha"), 1024);
    stack.call(&Call::Write(1000)).unwrap();
    let (_, data) = next(&mut stack);
    assert_eq!((data.len, data.ecn), (1000, Ecn::Ect0));
    // Every CE is echoed, and a change of CE is acknowledged at once.
    peer.ack(&mut stack, 1001);
    let echoes: Vec<bool> = [Ecn::Ect0, Ecn::Ce, Ecn::Ect0]
        .map(|ecn| {
            let before = all(&mut stack, Duration::ZERO).len();
            peer.data(&mut stack, 1000, ecn);
            let sent = all(&mut stack, Duration::from_ms(60));
            assert!(before + sent.len() > 0);
            sent.last().unwrap().1.has(Segment::ECE)
        })
        .into();
    assert_eq!(echoes, [false, true, false]);
}

#[test]
fn one_window_leaves_at_once_and_sacks_and_probes_are_told() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let mut stack = stack_with(&of("reno"));
    let (_, mut peer) = connect_slowly(&mut stack, 0, RTT);
    stack.call(&Call::Write(10_000)).unwrap();
    let data = all(&mut stack, Duration::from_ms(2));
    let seqs: Vec<u32> = data.iter().map(|(_, segment)| segment.seq).collect();
    assert_eq!(seqs, (0..10).map(|n| 1 + n * 1000).collect::<Vec<_>>());
    assert!(data.iter().all(|(_, segment)| segment.len == 1000));
    assert!(data.last().unwrap().1.has(Segment::PSH));
    assert!(data.windows(2).all(|two| two[0].0 <= two[1].0));
    assert_eq!(value(&mut stack, "unacked"), 10);
    // Half of it is acknowledged, and some of the rest is reported.
    let sack = Segment { sacks: vec![(6001, 8001)], ..peer.segment(Segment::ACK, 5001) };
    stack.receive(&sack).unwrap();
    assert_eq!(value(&mut stack, "sacked"), 2);
    assert_eq!(value(&mut stack, "unacked"), 5);
    // Nothing more comes: RACK's reordering timer or a loss probe sends something again.
    let (at, again) = next(&mut stack);
    assert!(again.len == 1000 && again.seq >= 5001, "{again:?}");
    assert!(at <= stack.now());
    assert!(value(&mut stack, "total_retrans") >= 1);
}

#[test]
fn a_tail_loss_probe_comes_when_it_should() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let mut stack = stack_with(&of("reno"));
    let _ = connect_slowly(&mut stack, 0, RTT);
    let srtt_ns = value(&mut stack, "rtt") as u64;
    assert!(srtt_ns >= RTT.ns(), "{srtt_ns}");
    stack.call(&Call::Write(2000)).unwrap();
    let data = all(&mut stack, Duration::from_ms(5));
    assert_eq!(data.len(), 2);
    let (at, probe) = next(&mut stack);
    assert_eq!((probe.seq, probe.len), (1001, 1000), "the last segment again");
    // Two RTTs and two jiffies, rounded up to the next jiffy.
    let waited_ns = at.since(data[1].0).ns();
    let jiffy_ns = stack.slack().ns() - 1_000_000;
    let allowed = 2 * srtt_ns..2 * srtt_ns + 4 * jiffy_ns + stack.slack().ns();
    assert!(allowed.contains(&waited_ns), "{waited_ns} is not in {allowed:?}");
}

#[test]
fn a_big_write_goes_on_as_there_is_room() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let mut stack = stack_with(&Settings {
        sysctls: vec![("tcp_wmem".to_owned(), "4096 16384 16384".to_owned())],
        ..of("reno")
    });
    let (_, mut peer) = connect(&mut stack, 0);
    const BYTES: u32 = 300_000;
    stack.call(&Call::Write(BYTES.into())).unwrap();
    let mut next_seq = 1;
    while next_seq < 1 + BYTES {
        let (_, segment) = next(&mut stack);
        assert!(segment.seq <= next_seq, "{segment:?} leaves out what follows {next_seq}");
        // On a busy machine a loss probe may come before the ACK.
        next_seq = next_seq.max(segment.seq + segment.len);
        peer.ack(&mut stack, next_seq);
    }
    assert_eq!(value(&mut stack, "bytes_acked"), i128::from(BYTES) + 1);
}

#[test]
fn large_sends_are_cut_into_segments_that_leave_together() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let mut stack = stack_with(&Settings { gso_max_segs: 64, ..of("reno") });
    let _ = connect_slowly(&mut stack, 0, RTT);
    stack.call(&Call::Write(10_000)).unwrap();
    let data = all(&mut stack, Duration::from_ms(2));
    let lens: Vec<u32> = data.iter().map(|(_, segment)| segment.len).collect();
    assert_eq!(lens, [1000; 10]);
    // At the rate of ten segments in 30 ms they leave by twos, the last of which is pushed.
    let pushes = data.iter().map(|(_, segment)| segment.has(Segment::PSH));
    assert!(pushes.eq([false, true].into_iter().cycle().take(10)), "{data:?}");
}

#[test]
fn a_deadline_that_was_missed_is_told() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let mut stack = stack_with(&of("reno"));
    let until = after(&stack, Duration::from_ms(1));
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert_eq!(stack.next_segment(until).unwrap(), None);
    let late = stack.lateness();
    assert!(late >= Duration::from_ms(4), "{late:?}");
}

#[test]
fn a_closed_connection_sends_its_fin() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let mut stack = stack_with(&of("reno"));
    let (_, _) = accept(&mut stack, 0);
    stack.call(&Call::Write(500)).unwrap();
    stack.call(&Call::Close).unwrap();
    let sent = all(&mut stack, Duration::from_ms(2));
    assert_eq!(sent.iter().map(|(_, s)| s.len).sum::<u32>(), 500);
    assert!(sent.last().unwrap().1.has(Segment::FIN), "{sent:?}");
    assert!(stack.call(&Call::Write(1)).is_err());
}

#[test]
fn options_and_parameters_and_the_base_rtt_arrive() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let mut stack = stack_with(&Settings {
        params: vec![("alpha_on_init".to_owned(), "512".to_owned())],
        base_rtt: Some(Duration::from_us(100)),
        ..of("dctcp")
    });
    for option in [
        SocketOption::NoDelay(true),
        SocketOption::Cork(false),
        SocketOption::QuickAck(true),
        SocketOption::ReceiveLowWater(2000),
        SocketOption::ReceiveBuffer(100_000),
        SocketOption::SendBuffer(100_000),
        SocketOption::MaxPacingRate(1_000_000),
    ] {
        stack.call(&Call::Set(option)).unwrap();
    }
    let _ = accept(&mut stack, Segment::ECE | Segment::CWR);
    assert_eq!(value(&mut stack, "cc.alpha"), 512);
    stack.call(&Call::Set(SocketOption::Congestion("nv".to_owned()))).unwrap();
    assert_eq!(stack.info().unwrap().algorithm, "nv");
}

#[test]
fn the_kernels_own_are_told_from_ours() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let mut stack = KernelStack::new(&of("cubic"), Algorithms::Kernels).unwrap();
    let _ = connect(&mut stack, 0);
    assert_eq!(stack.info().unwrap().algorithm, "cubic");
    let why = KernelStack::new(&of("hardly_any"), Algorithms::Kernels).err().unwrap();
    assert!(why.0.contains("reno") && !why.0.contains("ks"), "{why:?}");
}

#[test]
fn what_the_kernel_does_not_have_is_refused() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let why = |key: &str, value: &str| {
        let sysctls = vec![(key.to_owned(), value.to_owned())];
        let settings = Settings { sysctls, ..Settings::default() };
        KernelStack::new(&settings, Algorithms::Ours).err().unwrap().0
    };
    assert!(why("ip_forward", "1").contains("ip_forward"));
    assert!(why("tcp_ecn", "many").contains("tcp_ecn = \"many\""));
    let settings = Settings { mss_bytes: 1_000_000, ..Settings::default() };
    let why = KernelStack::new(&settings, Algorithms::Ours).err().unwrap().0;
    assert!(why.contains("mss = 1000000"), "{why}");
}

/// Not a test of its own: the one below kills it.
#[test]
#[ignore = "the process that is killed"]
fn victim() {
    let mut stack = stack_with(&of("dctcp"));
    let _ = connect(&mut stack, Segment::ECE);
    stack.call(&Call::Write(1_000_000)).unwrap();
    let ours = format!("ks{}_", std::process::id());
    let name = available().into_iter().find(|name| name.starts_with(&ours)).unwrap();
    println!("\nloaded {name} {}", std::fs::read_link("/proc/self/ns/net").unwrap().display());
    std::thread::sleep(std::time::Duration::from_secs(60));
}

#[test]
#[allow(
    clippy::zombie_processes,
    reason = "where an assertion fails before the wait, this process ends"
)]
fn a_killed_process_leaves_nothing() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["victim", "--exact", "--ignored", "--nocapture"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let name = lines
        .find_map(|line| Some(line.unwrap().strip_prefix("loaded ")?.split(' ').next()?.to_owned()))
        .expect("it says what it loaded");
    assert!(available().contains(&name));
    // The thread that holds the namespace is another than the first one.
    let namespaces: Vec<_> = std::fs::read_dir(format!("/proc/{}/task", child.id()))
        .unwrap()
        .map(|task| knee_netns_of(&task.unwrap().path()))
        .collect();
    let here = knee_netns_of("/proc/self".as_ref());
    let theirs: Vec<_> = namespaces.into_iter().filter(|found| *found != here).collect();
    assert!(!theirs.is_empty());
    child.kill().unwrap();
    child.wait().unwrap();
    knee_testbed::wait_until("the algorithm is gone", || !available().contains(&name));
    let still: Vec<_> = knee_netns::all().unwrap().iter().map(|found| found.id().inode).collect();
    assert!(theirs.iter().all(|inode| !still.contains(inode)));
}

fn knee_netns_of(of: &std::path::Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(of.join("ns/net")).unwrap().ino()
}
