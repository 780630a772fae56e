//! `topology = "fat-tree"`: pods of edge and aggregation switches below a core, all with the same number of ports.

use knee_file::keys::{Below, Key};
use knee_file::{Error, Reader, keys};
use knee_run::spec::Network;
use knee_run::topology::FatTree;

use super::{CABLE_TABLE, Cables, End, Hosts, MAX_HOSTS, port_to_host, ports_to_hosts};

keys! {
    /// Hosts `h0.0.0`.. (pod, edge, host) below `edge0.0`.., `aggregation0.0`.. and `core0`...
    pub(super) static KEYS: FatTreeKeys = "fat-tree" {
        /// Ports per switch, even: k^3 / 4 hosts.
        k: Key<u64> = or(4).within(2, LARGEST_K),
        /// Host to switch.
        up: Below = table(&CABLE_TABLE).needed(),
        /// Switch to host.
        down: Below = table(&CABLE_TABLE).needed(),
        /// Edge and aggregation, both ways.
        edge: Below = table(&CABLE_TABLE).needed(),
        /// Aggregation and core, both ways.
        core: Below = table(&CABLE_TABLE).needed(),
    }
}

/// Largest number of ports. The next even one would give 128,000 hosts, above the limit.
const LARGEST_K: u64 = 78;

/// Reads the network, and the ports that are recorded if traffic goes to their hosts.
pub(super) fn read(
    reader: &Reader<'_>,
    cables: &Cables<'_, '_>,
    hosts: &Hosts,
) -> Result<(Network, Vec<usize>), Error> {
    let k = reader.read(&KEYS.k)?;
    if k % 2 == 1 {
        return Err(
            reader.error(&KEYS.k, "must be even, because half of each switch's ports lead up")
        );
    }
    debug_assert!(k * k * k / 4 <= MAX_HOSTS);
    let (host_down, if_used) = port_to_host(reader, cables, &KEYS.down)?;
    let network = FatTree {
        k: k as u32,
        host: hosts.base.clone(),
        host_up: cables.need(&KEYS.up, End::Host, false)?,
        host_down,
        edge: cables.need(&KEYS.edge, End::Switch, false)?,
        core: cables.need(&KEYS.core, End::Switch, false)?,
    }
    .build();
    let ports = if if_used { ports_to_hosts(&network) } else { Vec::new() };
    Ok((network, ports))
}
