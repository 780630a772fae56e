//! Settings of a machine's network devices, recorded with each experiment.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;

use rustix::net::{AddressFamily, SocketType, netdevice, socket};
use serde::{Deserialize, Serialize};

use super::sys;

/// Commands of `ethtool` that answer with one number.
const OFFLOADS: [(&str, u32); 5] =
    [("tso", 0x1e), ("gso", 0x23), ("gro", 0x2b), ("rx_checksum", 0x14), ("tx_checksum", 0x16)];
const GET_FLAGS: u32 = 0x25;
const FLAG_LRO: u32 = 1 << 15;
const GET_COALESCE: u32 = 0x0e;
/// Words of `struct ethtool_coalesce`.
const COALESCE_WORDS: usize = 23;
/// The recorded words, with their index.
const COALESCING: [(&str, usize); 6] = [
    ("rx_usecs", 1),
    ("rx_frames", 2),
    ("tx_usecs", 5),
    ("tx_frames", 6),
    ("adaptive_rx", 10),
    ("adaptive_tx", 11),
];
/// Files of `/sys/class/net/NAME` that are numbers.
const SETTINGS: [&str; 5] =
    ["mtu", "speed", "tx_queue_len", "gro_flush_timeout", "napi_defer_hard_irqs"];

/// A network device. Settings that it does not report are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Name on the machine.
    pub name: String,
    pub driver: Option<String>,
    /// `tso`, `gso`, `gro`, `lro`, checksums: whether they are on.
    pub offloads: BTreeMap<String, bool>,
    /// Interrupt coalescing, as of `ethtool -c`: times in us, frames.
    pub coalescing: BTreeMap<String, u32>,
    /// Settings of `/sys/class/net`: `mtu` in bytes, `speed` in Mbps, `gro_flush_timeout` in ns.
    pub settings: BTreeMap<String, u64>,
}

/// The devices of the network namespace of this thread, the loopback left out.
pub(super) fn all() -> Vec<Device> {
    let Ok(socket) = socket(AddressFamily::INET, SocketType::DGRAM, None) else {
        return Vec::new();
    };
    // Two lines of headings, then "NAME: counters".
    let text = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let names = text.lines().skip(2).filter_map(|line| line.split(':').next());
    let names = names.map(str::trim).filter(|name| *name != "lo");
    names.map(|name| Device::of(name, socket.as_fd())).collect()
}

impl Device {
    fn of(name: &str, socket: BorrowedFd<'_>) -> Device {
        let ask = |command| sys::ethtool(socket, name, [command, 0]).ok().map(|answer| answer[1]);
        let offload = |(what, command): (&str, u32)| Some((what.to_owned(), ask(command)? != 0));
        let mut offloads: BTreeMap<_, _> = OFFLOADS.into_iter().filter_map(offload).collect();
        if let Some(flags) = ask(GET_FLAGS) {
            offloads.insert("lro".to_owned(), flags & FLAG_LRO != 0);
        }
        let mut request = [0; COALESCE_WORDS];
        request[0] = GET_COALESCE;
        let coalesce = sys::ethtool(socket, name, request);
        let coalescing = coalesce.map_or_else(
            |_| BTreeMap::new(),
            |words| COALESCING.iter().map(|(what, at)| ((*what).to_owned(), words[*at])).collect(),
        );
        let mut device =
            Device { name: name.to_owned(), offloads, coalescing, ..Device::default() };
        let files = Path::new("/sys/class/net").join(name);
        let number = |what: &str| -> Option<u64> {
            fs::read_to_string(files.join(what)).ok()?.trim().parse().ok()
        };
        // In a namespace that was entered without its own /sys these are another device's.
        let index = netdevice::name_to_index(socket, name).ok().map(u64::from);
        if index.is_some() && number("ifindex") == index {
            let setting = |what: &str| Some((what.to_owned(), number(what)?));
            device.settings = SETTINGS.into_iter().filter_map(setting).collect();
            let driver = fs::read_link(files.join("device/driver")).ok();
            let driver = driver.as_deref().and_then(Path::file_name);
            device.driver = driver.map(|name| name.to_string_lossy().into_owned());
        }
        device
    }
}
