//! How much an idle host of a large network costs; in a process of its own, since it looks at the memory of the whole process.

mod common;

use common::*;
use knee_run::spec::{Network, Run, Sampling, Schedule, Serialisation};
use knee_run::topology::{Cable, LeafSpine};

/// Leaves of 32 hosts below 32 spines: a host has two links, and two of the fabric's are its share.
fn fabric(leaves: u32) -> Network {
    let cable = Cable {
        rate: Some(mbps(10_000)),
        serialisation: Serialisation::StoreAndForward,
        ..wire(us(1))
    };
    LeafSpine {
        leaves,
        spines: 32,
        hosts_per_leaf: 32,
        host: host(),
        host_up: cable.clone(),
        host_down: cable.clone(),
        fabric: cable,
    }
    .build()
}

fn idle(leaves: u32) -> Run {
    Run {
        seed: 1,
        end: at_ms(1),
        until_done: false,
        network: fabric(leaves),
        flows: Vec::new(),
        pings: Vec::new(),
        sampling: Sampling::default(),
        schedule: Schedule::default(),
    }
}

#[test]
#[cfg(target_os = "linux")]
fn an_idle_host_takes_less_than_1300_bytes() {
    simulate(&idle(1));
    let leaves = 256;
    let before = peak_bytes();
    simulate(&idle(leaves));
    let per_host = (peak_bytes() - before) / u64::from(32 * leaves);
    // The host, four links, and the description of both.
    assert!(per_host < 1300, "{per_host} bytes per host");
}
