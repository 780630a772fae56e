//! Calls of algorithms that the kernel leaves out, and that this is seen.
#![allow(clippy::unwrap_used, reason = "it is a test")]

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use knee_lab::{Algorithms, LabOptions, LabRun, run};
use knee_queue::time::{Rate, Time};
use knee_queue::{DropTailConfig, Limit, QueueConfig};
use knee_run::Run;
use knee_run::spec::{Cc, Flow, HostConfig, LinuxVersion, Sampling, Traffic};
use knee_run::topology::{Cable, Star};
use knee_testbed::kernel_is_ready;

/// A transfer of 300 kB and one that is stopped, at 100 Mbps.
fn two_flows(algorithm: &str) -> Run {
    let cable = Cable::new(
        Rate::from_bps(100_000_000),
        QueueConfig::DropTail(DropTailConfig { limit: Limit::Pkts(1000) }),
    );
    let host = HostConfig { tcp_ecn: 1, ..HostConfig::new(LinuxVersion(6, 18)) };
    let flow = |bytes: Option<u64>, stop: Option<Time>| Flow {
        group: 0,
        from: 0,
        to: 1,
        cc: Cc::by_name(algorithm).unwrap(),
        peer_cc: None,
        start: Time::ZERO,
        first_write: None,
        stop,
        traffic: Traffic::Bulk { bytes },
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
        end: Time::from_ms(10_000),
        until_done: true,
        network: Star { hosts, up: cable.clone(), down: cable }.build(),
        flows: vec![flow(Some(300_000), None), flow(None, Some(Time::from_ms(1000)))],
        pings: Vec::new(),
        sampling: Sampling::default(),
        schedule: Default::default(),
    }
}

/// One lab at a time: on a busy machine connections of several may not be there before they are stopped.
fn ran(algorithm: &str, options: &LabOptions) -> LabRun {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    run(&two_flows(algorithm), options, &AtomicBool::new(false)).unwrap()
}

fn measure(ran: &LabRun, name: &str) -> Option<f64> {
    let measures = &ran.validity.measures;
    measures.iter().find(|(measure, _)| *measure == name).map(|(_, value)| *value)
}

/// For each flow, how many of its two sides began without `init`.
fn left_out(ran: &LabRun) -> Vec<Option<u64>> {
    ran.outcome.flows.iter().map(|flow| flow.inits_left_out).collect()
}

/// On a kernel that leaves calls out by itself a run may rightly say so: of several in a row one does not.
#[test]
fn connections_whose_init_was_called_are_not_marked() {
    if !kernel_is_ready() {
        return;
    }
    for algorithm in ["dctcp", "nv", "cubic"] {
        let healthy = (0..5).map(|_| ran(algorithm, &LabOptions::default()));
        let healthy = healthy.into_iter().find(|ran| measure(ran, "inits_left_out") == Some(0.0));
        let healthy = healthy.expect("five runs in a row were marked");
        assert_eq!(left_out(&healthy), [Some(0), Some(0)], "{algorithm}");
        assert!(!healthy.validity.limits.iter().any(|limit| limit.contains("began without")));
    }
}

#[test]
fn what_cannot_be_known_is_absent() {
    if !kernel_is_ready() {
        return;
    }
    // Reno has no init; the kernel's own algorithms are no BPF.
    let reno = ran("reno", &LabOptions::default());
    let kernels =
        ran("cubic", &LabOptions { algorithms: Algorithms::Kernels, ..LabOptions::default() });
    for ran in [reno, kernels] {
        assert_eq!(left_out(&ran), [None, None]);
        assert_eq!(measure(&ran, "inits_left_out"), None);
    }
}
