//! Netlink in namespaces of the test's own.

#![allow(
    clippy::unwrap_used,
    reason = "all of this is test code, also outside of marked functions"
)]

use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;

use knee_netns::Namespace;
use knee_netns::netlink::{
    Features, LinkSettings, Message, Netlink, Queue, ROOT, Route, VethEnd, add_address,
    add_neighbour, add_queue, add_route, new_veth, set_link,
};

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];
const UP: LinkSettings = LinkSettings {
    mtu_bytes: None,
    tx_queue_pkts: None,
    gso_max_segs: None,
    mac: None,
    no_arp: false,
    up: true,
};

fn ip(number: usize) -> IpAddr {
    Ipv4Addr::new(198, 18, (number / 250) as u8, (number % 250 + 1) as u8).into()
}

fn said(namespace: &Namespace, line: &'static str) -> String {
    let words = line.split(' ').collect::<Vec<_>>();
    let output = namespace.run(move || Command::new(words[0]).args(&words[1..]).output().unwrap());
    String::from_utf8(output.stdout).unwrap()
}

/// A namespace with the device `near`, whose other end is in another.
fn joined() -> Option<(Namespace, Namespace, Netlink, u32)> {
    // It takes root.
    let (one, other) = (Namespace::new().ok()?, Namespace::new().ok()?);
    let kernel = one.run(Netlink::open).unwrap();
    let settings = LinkSettings { mtu_bytes: Some(4000), ..LinkSettings::default() };
    let near = LinkSettings { mac: Some(MAC), ..settings };
    let near = VethEnd { name: "near", namespace_of: None, settings: near };
    let far = VethEnd { name: "far", namespace_of: Some(other.tid()), settings };
    kernel.ask(&new_veth(&near, &far)).unwrap();
    let index = kernel.index_of("near").unwrap();
    Some((one, other, kernel, index))
}

#[test]
fn a_cable_joins_two_namespaces() {
    let Some((one, other, kernel, index)) = joined() else { return };
    kernel.ask(&set_link(index, &UP)).unwrap();
    let far = other.run(Netlink::open).unwrap();
    far.ask(&set_link(far.index_of("far").unwrap(), &UP)).unwrap();
    assert!(far.index_of("near").is_err());
    let link = said(&one, "ip link show near");
    assert!(link.contains("mtu 4000") && link.contains("state UP"), "{link}");
    assert!(link.contains("02:00:00:00:00:09"), "{link}");
    kernel.ask(&add_address(index, ip(0), 16, false)).unwrap();
    let route = Route {
        to: ip(300),
        prefix_len: 16,
        from: Some(ip(0)),
        initcwnd_pkts: Some(7),
        rto_min_ms: Some(5),
    };
    kernel.ask(&add_route(&[index], &route)).unwrap();
    let routes = said(&one, "ip route show");
    assert_eq!(routes.lines().count(), 1, "{routes}");
    assert!(routes.contains("198.18.0.0/16 dev near"), "{routes}");
    assert!(routes.contains("initcwnd 7") && routes.contains("rto_min lock 5ms"), "{routes}");
}

#[test]
fn many_requests_are_done_at_once_and_the_first_refusal_is_told() {
    let Some((one, _other, kernel, index)) = joined() else { return };
    kernel.ask(&set_link(index, &UP)).unwrap();
    let add = |number| add_neighbour(index, ip(number), MAC);
    let mut all: Vec<Message> = (0..2000).map(add).collect();
    kernel.ask_all(&all).unwrap();
    let neighbours = said(&one, "ip neigh show nud permanent");
    assert_eq!(neighbours.lines().count(), 2000);
    assert!(neighbours.contains("198.18.7.250 dev near lladdr 02:00:00:00:00:09"));
    // No such device, then no such queue.
    all[1500] = add_neighbour(999, ip(0), MAC);
    all.push(add_queue(index, 0, 0x77_0001, Queue::PfifoFast));
    let why = kernel.ask_all(&all).unwrap_err();
    assert_eq!(why.raw_os_error(), Some(19), "{why}");
    // The answers to what was refused are not taken for those of the next.
    kernel.ask_all(&[]).unwrap();
    kernel.ask(&add(1)).unwrap();
}

#[test]
fn queues_are_as_they_are_told() {
    let Some((one, _other, kernel, index)) = joined() else { return };
    let tbf = Queue::Tbf {
        rate_bytes_per_sec: 5_000_000_000,
        burst_bytes: 9014,
        overhead_bytes: 24,
        limit_bytes: 1 << 20,
    };
    kernel.ask(&add_queue(index, 0x1_0000, ROOT, tbf)).unwrap();
    let shown = said(&one, "tc qdisc show dev near");
    assert!(shown.contains("qdisc tbf 1: root") && shown.contains("rate 40Gbit"), "{shown}");
    let inside = Queue::Pfifo { limit_pkts: 77 };
    kernel.ask(&add_queue(index, 0, 0x1_0001, inside)).unwrap();
    let shown = said(&one, "tc qdisc show dev near");
    assert!(shown.contains("pfifo") && shown.contains("limit 77p"), "{shown}");
    let stats = kernel.queue_stats().unwrap();
    let root = stats.iter().find(|stats| stats.index == index && stats.parent == ROOT).unwrap();
    assert_eq!((&*root.kind, root.handle, root.dropped_pkts), ("tbf", 0x1_0000, 0));
    kernel.ask(&add_queue(index, 0, ROOT, Queue::Bfifo { limit_bytes: 5000 })).unwrap();
    assert!(said(&one, "tc qdisc show dev near").contains("limit 5000b"));
}

#[test]
fn features_are_switched_by_name() {
    let Some((one, _other, _kernel, index)) = joined() else { return };
    let features = one.run(Features::open).unwrap();
    let name = "tx-tcp-segmentation";
    for on in [true, false, true] {
        features.set(index, &[(name, on), ("rx-gro", !on)]).unwrap();
        let active = features.active(index).unwrap();
        assert_eq!(active.iter().any(|active| active == name), on, "{active:?}");
        assert_eq!(active.iter().any(|active| active == "rx-gro"), !on, "{active:?}");
    }
    assert!(features.set(index, &[("no-such-feature", true)]).is_err());
}
