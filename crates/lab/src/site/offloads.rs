//! Offloads of the two ends of a host's veth pair.

use knee_netns::netlink::Features;
use knee_queue::time::Duration;
use knee_run::spec::HostConfig;

use super::{Offloads, SiteConfig};
use crate::Error;
use crate::error::failed;

/// Large packets are cut by the device.
const TSO: [&str; 3] = ["tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-tcp-ecn-segmentation"];
/// TSO with changed IP identifications: the fourth feature of the kernel's TSO group.
const TSO_WITHOUT_IDS: &str = "tx-tcp-mangleid-segmentation";
/// Large packets are cut just before the device.
const GSO: &str = "tx-generic-segmentation";
/// Received packets are merged.
const GRO: &str = "rx-gro";
const SCATTER_GATHER: &str = "tx-scatter-gather";
/// Checksums are left to the device.
const TX_CHECKSUM: &str = "tx-checksum-ip-generic";
const RX_CHECKSUM: &str = "rx-checksum";
/// More than the kernel takes, in `u16`.
const MOST_GSO_SEGS: u32 = 65_535;

/// Features wanted of a host's device.
pub(super) struct WantedOffloads {
    gso_max_segs: u32,
    gro: bool,
    tx_checksum: bool,
}

impl WantedOffloads {
    pub(super) fn new(site: &SiteConfig, host: &HostConfig) -> WantedOffloads {
        let on = site.offloads == Offloads::On;
        WantedOffloads {
            gso_max_segs: if on { host.gso_max_segs.clamp(1, MOST_GSO_SEGS) } else { 1 },
            gro: on && host.gro_window > Duration::ZERO,
            tx_checksum: site.tx_checksum,
        }
    }

    /// Segments in a packet that TCP hands down. It makes large packets whatever the features say, and has them cut
    /// below its queue: this is what keeps them small.
    pub(super) fn gso_max_segs(&self) -> u32 {
        self.gso_max_segs
    }

    /// Whether it merges received packets (GRO).
    pub(super) fn merges(&self) -> bool {
        self.gro
    }

    /// The far end never merges, since queues count what hosts sent, and leaves checksums alone, so that frames from and for hosts
    /// go through as they are. A veth merges nothing of a far end that has TSO, which it takes for merged already; frames of
    /// the switch are not: it cuts large ones itself.
    pub(super) fn set(
        &self,
        near: &Features,
        index: u32,
        far: &Features,
        far_index: u32,
    ) -> Result<(), Error> {
        let segmentation = self.gso_max_segs > 1;
        let mut of_host: Vec<(&str, bool)> = TSO.map(|name| (name, segmentation)).to_vec();
        of_host.extend([(GSO, segmentation), (GRO, self.gro), (TX_CHECKSUM, self.tx_checksum)]);
        near.set(index, &of_host)
            .map_err(failed("the kernel does not set the offloads of its device"))?;
        let mut of_port = TSO.map(|name| (name, segmentation && !self.gro)).to_vec();
        of_port.push((TSO_WITHOUT_IDS, false));
        of_port.extend([(GSO, segmentation), (GRO, false), (TX_CHECKSUM, true)]);
        far.set(far_index, &of_port)
            .map_err(failed("the kernel does not set the offloads of its port"))
    }
}

/// Features of a device, by the kernel's names.
pub(super) fn read(features: &Features, index: u32) -> Result<Vec<(&'static str, bool)>, Error> {
    let active = features.active(index).map_err(failed("cannot read its offloads"))?;
    let names = TSO.into_iter().chain([GSO, GRO, SCATTER_GATHER, TX_CHECKSUM, RX_CHECKSUM]);
    Ok(names.map(|name| (name, active.iter().any(|on| on == name))).collect())
}
