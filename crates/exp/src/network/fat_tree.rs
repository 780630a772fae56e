//! `topology = "fat-tree"`: pods of edge and aggregation switches below a core, all switches of one size.

use knee_file::{Error, Reader};
use knee_run::spec::Network;
use knee_run::topology::FatTree;

use super::{Cables, End, Hosts, MAX_HOSTS, check, port_to_host, ports_to_hosts};

const KEYS: &[&str] = &["topology", "k", "up", "down", "edge", "core"];
/// The next even one would have 11,664 hosts.
const LARGEST_K: u64 = 34;

/// The network, and the ports that are recorded if traffic goes to their hosts.
pub(super) fn read(
    reader: &Reader<'_>,
    cables: &Cables<'_, '_>,
    hosts: &Hosts,
) -> Result<(Network, Vec<usize>), Error> {
    check(reader, KEYS)?;
    let k = reader.integer_or("k", 2..=LARGEST_K, 4)?;
    if k % 2 == 1 {
        return Err(reader.error("k", "must be even: half of each switch's ports lead up"));
    }
    debug_assert!(k * k * k / 4 <= MAX_HOSTS);
    let (host_down, if_used) = port_to_host(reader, cables)?;
    let network = FatTree {
        k: k as u32,
        host: hosts.base.clone(),
        host_up: cables.need("up", End::Host, false)?,
        host_down,
        edge: cables.need("edge", End::Switch, false)?,
        core: cables.need("core", End::Switch, false)?,
    }
    .build();
    let ports = if if_used { ports_to_hosts(&network) } else { Vec::new() };
    Ok((network, ports))
}
