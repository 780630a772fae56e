//! Receive merging on the running kernel: that it takes place, and that marks end it.
#![allow(clippy::unwrap_used, reason = "it is a test")]

use std::sync::atomic::AtomicBool;

use knee_lab::site::Offloads;
use knee_lab::{LabOptions, run};
use knee_queue::time::{Duration, Rate, Time};
use knee_queue::{DropTailConfig, Limit, MarkShare, QueueConfig, ShareConfig};
use knee_run::Run;
use knee_run::outcome::Received;
use knee_run::spec::{Cc, Flow, HostConfig, LinuxVersion, Sampling, Traffic};
use knee_run::topology::{Cable, Star};
use knee_testbed::kernel_is_ready;

const PAYLOAD_BYTES: u64 = 1448;

/// One transfer at 300 Mbps; `None`: nothing is marked. BBR takes no notice of marks.
fn one_transfer(mark: Option<MarkShare>, gro_window: Duration) -> Run {
    let limit = Limit::Pkts(2000);
    let cable =
        Cable::new(None, QueueConfig::DropTail(DropTailConfig { limit: Limit::Bytes(u64::MAX) }));
    let down = Cable {
        rate: Rate::from_bps(300_000_000),
        queue: match mark {
            Some(mark) => QueueConfig::Share(ShareConfig { limit, mark, seed: 1 }),
            None => QueueConfig::DropTail(DropTailConfig { limit }),
        },
        ..cable.clone()
    };
    let host = HostConfig {
        tcp_ecn: 1,
        gso_max_segs: 44,
        gro_window,
        ..HostConfig::new(LinuxVersion(6, 18))
    };
    let flow = Flow {
        group: 0,
        from: 0,
        to: 1,
        cc: Cc::by_name("bbr").unwrap(),
        peer_cc: Some(Cc::by_name("dctcp").unwrap()),
        start: Time::ZERO,
        first_write: None,
        stop: None,
        traffic: Traffic::Bulk { bytes: None },
        read_at_bytes: 1,
        base_rtt: None,
        dscp: 0,
        peer_dscp: 0,
        max_pacing_rate: None,
        sampled: false,
    };
    let hosts = vec![("a".to_owned(), host.clone()), ("b".to_owned(), host)];
    Run {
        seed: 1,
        end: Time::from_ms(1000),
        until_done: false,
        network: Star { hosts, up: cable, down }.build(),
        flows: vec![flow],
        pings: Vec::new(),
        sampling: Sampling::default(),
        schedule: Default::default(),
    }
}

/// The receiver's counters, and its payload bytes.
fn received(run_: &Run) -> (Received, u64) {
    let options = LabOptions { offloads: Offloads::On, ..LabOptions::default() };
    let ran = run(run_, &options, &AtomicBool::new(false)).unwrap();
    let receiver = run_.flows[0].to;
    let of_host = ran.outcome.host_counts.iter().find(|count| count.node == receiver);
    (of_host.unwrap().received, ran.outcome.flows[0].received_bytes)
}

fn pkts_per_merge(received: Received) -> f64 {
    received.wire_pkts.unwrap() as f64 / received.merged_pkts.unwrap() as f64
}

const WINDOW: Duration = Duration::from_us(100);

#[test]
fn packets_are_merged_and_each_change_of_marks_ends_a_merge() {
    if !kernel_is_ready() {
        return;
    }
    let (plain, bytes) = received(&one_transfer(None, WINDOW));
    assert!(pkts_per_merge(plain) > 1.5, "{plain:?}");
    // What is counted as on the wire is what brought the payload: full segments, and a few more.
    let (segments, wire) = (bytes / PAYLOAD_BYTES, plain.wire_pkts.unwrap());
    assert!((segments..segments * 11 / 10 + 100).contains(&wire), "{wire} for {segments}");
    // 6.8 and later tell which thread it is, by a number that a namespace of process numbers does not have.
    let sees_kernel_threads =
        std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n");
    match plain.cpu_ns {
        Some(cpu_ns) => assert!(cpu_ns > 0 && cpu_ns < 1_500_000_000, "{cpu_ns}"),
        None => assert!(!sees_kernel_threads, "whose CPU time it is was not told"),
    }
    let (all, _) = received(&one_transfer(Some(MarkShare::Every(1)), WINDOW));
    assert!(pkts_per_merge(all) > 1.5, "equal marks do not end a merge: {all:?}");
    let (alternating, _) = received(&one_transfer(Some(MarkShare::Every(2)), WINDOW));
    assert!(pkts_per_merge(alternating) < 1.1, "{alternating:?}");
}

#[test]
fn without_a_window_nothing_is_merged() {
    if !kernel_is_ready() {
        return;
    }
    let (plain, _) = received(&one_transfer(None, Duration::ZERO));
    assert!(plain.wire_pkts.unwrap() > 1000, "{plain:?}");
    assert!(pkts_per_merge(plain) < 1.01, "{plain:?}");
    assert_eq!(plain.cpu_ns, None, "no thread does its receiving work");
}
