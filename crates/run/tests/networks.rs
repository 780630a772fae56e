//! Networks: what their links share, and how links are named.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

use std::sync::Arc;

use knee_queue::time::{Duration, Rate};
use knee_queue::{DropTailConfig, Limit, QueueConfig};
use knee_run::spec::{HostConfig, LinuxVersion, Network};
use knee_run::topology::{Cable, FatTree, Star};

fn cable(delay_us: u64) -> Cable {
    Cable {
        delay: Duration::from_us(delay_us),
        ..Cable::new(
            Rate::from_bps(10_000_000_000),
            QueueConfig::DropTail(DropTailConfig { limit: Limit::Pkts(10) }),
        )
    }
}

fn tree() -> Network {
    FatTree {
        k: 4,
        host: HostConfig::new(LinuxVersion(6, 1)),
        host_up: cable(1),
        host_down: cable(2),
        edge: cable(3),
        core: cable(4),
    }
    .build()
}

/// Number of different things behind these pointers.
fn distinct<T>(all: impl Iterator<Item = *const T>) -> usize {
    all.collect::<std::collections::HashSet<_>>().len()
}

fn cables(network: &Network) -> usize {
    distinct(network.links.iter().map(|link| Arc::as_ptr(&link.cable)))
}

fn configs(network: &Network) -> usize {
    distinct(network.nodes.iter().filter_map(|node| node.host.as_ref()).map(Arc::as_ptr))
}

#[test]
fn equal_links_and_hosts_are_described_once() {
    let network = tree();
    assert_eq!((network.links.len(), cables(&network), configs(&network)), (96, 4, 1));
    // Hosts that come one by one.
    let hosts = (0..5).map(|i| (format!("h{i}"), HostConfig::new(LinuxVersion(6, 1))));
    let star = Star { hosts: hosts.collect(), up: cable(1), down: cable(2) }.build();
    assert_eq!((star.links.len(), cables(&star), configs(&star)), (10, 2, 1));
}

#[test]
fn a_link_that_changes_alone_leaves_the_others_as_they_are() {
    let mut network = tree();
    network.links[0].delay = Duration::from_us(9);
    network.links[0].sampled = true;
    assert_eq!(cables(&network), 5);
    assert_eq!((network.links[0].delay.us(), network.links[2].delay.us()), (9, 1));
    assert!(!network.links[2].sampled);
}

#[test]
fn what_changes_everywhere_is_shared_as_before() {
    let mut network = tree();
    let mut changed = 0;
    network.change_cables(|cable| {
        changed += 1;
        cable.delay = Duration::from_us(10 * cable.delay.us());
    });
    network.change_hosts(|host| host.hz = 250);
    assert_eq!((changed, cables(&network), configs(&network)), (4, 4, 1));
    let delays: Vec<u64> = network.links.iter().take(6).map(|link| link.delay.us()).collect();
    assert_eq!(delays, [10, 20, 10, 20, 30, 30]);
    assert!(network.nodes.iter().flat_map(|node| &node.host).all(|host| host.hz == 250));
}

#[test]
fn links_are_named_after_their_ends() {
    let mut network = tree();
    let last = network.links.len() - 1;
    assert_eq!(network.link_name(&network.links[1]), "edge0.0-h0.0.0");
    assert_eq!(network.link_name(&network.links[last]), "core3-aggregation3.1");
    assert_eq!(network.link_named("core3-aggregation3.1"), Some(last as u32));
    network.links[last].parallel = 12;
    assert_eq!(network.link_name(&network.links[last]), "core3-aggregation3.1#12");
    assert_eq!(network.link_named("core3-aggregation3.1"), None);
    assert_eq!(network.link_named("core3-aggregation3.1#12"), Some(last as u32));
    for (link, name) in network.links.iter().zip(network.link_names()) {
        assert_eq!(network.link_name_len(link), name.len());
    }
}
