//! The least time that a transfer can take, and what the simulator takes.

use crate::common::*;
use knee_queue::time::{Duration, Time};
use knee_run::Ideal;
use knee_run::spec::{Flow, HostConfig, LinuxVersion, NodeId, Run, Sampling, Serialisation};
use knee_run::topology::{Cable, ParkingLot};

#[test]
fn a_transfer_alone_comes_close_to_it_and_never_below() {
    let cable = |rate, delay| Cable {
        rate: Some(mbps(rate)),
        serialisation: Serialisation::StoreAndForward,
        ..wire(us(delay))
    };
    let host = HostConfig {
        initial_cwnd_pkts: 2000,
        rcvbuf_initial_bytes: 64 << 20,
        rcvbuf_max_bytes: 64 << 20,
        ..HostConfig::new(LinuxVersion(6, 1))
    };
    let network = ParkingLot {
        hops: 3,
        through: 2,
        cross: 1,
        host,
        access: cable(10_000, 1),
        bottleneck: cable(1_000, 10),
        back: cable(1_000, 10),
    }
    .build();
    let id = |name| network.nodes.iter().position(|node| node.name == name).unwrap() as NodeId;
    let (from, to) = (id("s1"), id("r1"));
    for bytes in [1, 1448, 20_000, 1_000_000] {
        let flow = Path::new(us(0)).bulk("reno", bytes);
        let run = Run {
            seed: 1,
            end: Time::from_ms(1000),
            until_done: true,
            network: network.clone(),
            flows: vec![Flow { from, to, read_at_bytes: 65_536, ..flow }],
            pings: Vec::new(),
            sampling: Sampling::default(),
            schedule: Default::default(),
        };
        let took = simulate(&run).flows[0].completion_time().unwrap();
        let least = Ideal::new(&network).transfer(from, to, bytes).unwrap();
        // What it leaves out: the last packet at the other links, and the handshake's bytes.
        assert!(took >= least && took < least + Duration::from_us(40), "{took:?} {least:?}");
    }
}
