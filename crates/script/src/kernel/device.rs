//! The TUN device in a namespace of its own, and what the namespace is set to.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;

use knee_netns::netlink::{self, LinkSettings, Netlink, Queue};
use knee_run::spec::HostConfig;
use rustix::net::{AddressFamily, Protocol, RawProtocol, SocketFlags, SocketType};

use super::sys;
use crate::settings::TIMESTAMPS_BYTES;
use crate::{LinuxVersion, Refusal, SYSCTLS, Settings};

const NAME: &str = "knee";
const TUN: &str = "/dev/net/tun";
/// Queue length of the device, in packets: more than any window of a script.
const QUEUE_PKTS: u32 = 10_000;
/// IPv6 does without links that carry less (RFC 8200, section 5).
const IPV6_MTU: u32 = 1280;

/// From the kernel's user API: if_ether.h.
const ETH_P_ALL: u16 = 3;

/// The device, and who notes when packets leave.
pub(super) struct Device {
    pub(super) tun: File,
    /// A packet socket on it, where the kernel has them.
    pub(super) tap: Option<OwnedFd>,
    /// `TCP_MAXSEG`, where the MTU cannot be as small as the segments.
    pub(super) max_segment: Option<u32>,
}

/// Sets up the namespace that the thread is in.
pub(super) fn set_up(settings: &Settings, address: IpAddr) -> Result<Device, Refusal> {
    set_sysctls(settings)?;
    let wanted = settings.mtu_bytes();
    let mtu = if settings.ipv6 { wanted.max(IPV6_MTU) } else { wanted };
    let max_segment = (mtu > wanted).then_some(settings.mss_bytes + TIMESTAMPS_BYTES);
    let tun = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(TUN)
        .map_err(cannot_open)?;
    sys::make_tun(tun.as_fd(), NAME).map_err(cannot_open)?;
    // Before it is up, so that the tap misses nothing.
    let tap = tap();
    let no_netlink = |why| Refusal(format!("the kernel does not configure the TUN device: {why}"));
    let kernel = Netlink::open().map_err(no_netlink)?;
    let index = kernel.index_of(NAME).map_err(no_netlink)?;
    set_link(&kernel, index, mtu, settings).map_err(|why| {
        Refusal(format!(
            "mss = {} with gso_max_segs = {}: the kernel refuses them for the TUN device: {why}",
            settings.mss_bytes, settings.gso_max_segs
        ))
    })?;
    set_qdisc(&kernel, index).map_err(|why| {
        Refusal(format!("the kernel does not add the queue pfifo_fast to the TUN device: {why}"))
    })?;
    add_address(&kernel, index, address).map_err(|why| {
        Refusal(format!("the kernel does not set the TUN device's address: {why}"))
    })?;
    Ok(Device { tun, tap, max_segment })
}

fn cannot_open(why: io::Error) -> Refusal {
    Refusal(match why.kind() {
        io::ErrorKind::NotFound => {
            format!("{TUN} is missing: run \"modprobe tun\", or pass the device to the container")
        }
        io::ErrorKind::PermissionDenied => {
            format!("{TUN} needs root (CAP_NET_ADMIN): run it with sudo, or use the simulator")
        }
        _ => format!("{TUN} creates no device: {why}"),
    })
}

fn set_sysctls(settings: &Settings) -> Result<(), Refusal> {
    // Nobody else talks on this device: no link-local addresses, no looking for routers. A kernel without
    // IPv6 has no such files.
    let key = if settings.ipv6 { "addr_gen_mode" } else { "disable_ipv6" };
    for (key, value) in [(key, "1"), ("router_solicitations", "0"), ("accept_dad", "0")] {
        let _ = fs::write(format!("/proc/sys/net/ipv6/conf/default/{key}"), value);
    }
    // One connection teaches the next nothing; timestamps count from the same moment for all.
    for (key, value) in [("tcp_no_metrics_save", "1"), ("tcp_timestamps", "2")] {
        let _ = fs::write(path(key), value);
    }
    // A new namespace takes these two from the first one, where they may be tuned.
    for (key, value) in default_buffers(super::running()) {
        fs::write(path(key), &value).map_err(|why| {
            Refusal(format!("sysctl {key} = \"{value}\": the kernel does not take it: {why}"))
        })?;
    }
    for (key, value) in &settings.sysctls {
        if !SYSCTLS.contains(&key.as_str()) {
            return Err(Refusal(format!("sysctl {key}: scripts may set {}", SYSCTLS.join(", "))));
        }
        fs::write(path(key), value).map_err(|why| {
            Refusal(match why.kind() {
                io::ErrorKind::NotFound => {
                    format!(
                        "sysctl {key}: Linux {} has none",
                        knee_bpf::KernelApi::running().release
                    )
                }
                _ => format!("sysctl {key} = \"{value}\": the kernel does not take it: {why}"),
            })
        })?;
    }
    Ok(())
}

/// Least, first and largest size of the buffers, bytes, as Linux has them where there is memory enough.
fn default_buffers(linux: LinuxVersion) -> [(&'static str, String); 2] {
    let rmem = format!("4096 131072 {}", HostConfig::new(linux).rcvbuf_max_bytes);
    [("tcp_rmem", rmem), ("tcp_wmem", "4096 16384 4194304".to_owned())]
}

/// Path of a sysctl in the thread's namespace.
fn path(key: &str) -> String {
    format!("/proc/sys/net/ipv4/{key}")
}

/// A socket that sees what passes the devices of the namespace, with the time.
fn tap() -> Option<OwnedFd> {
    let protocol = RawProtocol::new(u32::from(ETH_P_ALL.to_be()))?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let all = Some(Protocol::from_raw(protocol));
    let tap =
        rustix::net::socket_with(AddressFamily::PACKET, SocketType::DGRAM, flags, all).ok()?;
    // Scripts whose packets do not fit go without the times of some.
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size_force(&tap, 16 << 20);
    // Nothing was read, so this gives no time, but has them noted from here on.
    let _ = sys::stamp_ns(tap.as_fd());
    Some(tap)
}

fn set_link(kernel: &Netlink, index: u32, mtu: u32, settings: &Settings) -> io::Result<()> {
    let link = LinkSettings {
        mtu_bytes: Some(mtu),
        tx_queue_pkts: Some(QUEUE_PKTS),
        gso_max_segs: Some(settings.gso_max_segs),
        up: true,
        ..LinkSettings::default()
    };
    kernel.ask(&netlink::set_link(index, &link))
}

/// A plain queue, whatever `net.core.default_qdisc` says: fq, for instance, would do the pacing that the TCP does
/// itself otherwise.
fn set_qdisc(kernel: &Netlink, index: u32) -> io::Result<()> {
    match kernel.ask(&netlink::add_queue(index, 0, netlink::ROOT, Queue::PfifoFast)) {
        // A kernel without queueing disciplines has no other either.
        Err(why) if why.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(()),
        done => done,
    }
}

fn add_address(kernel: &Netlink, index: u32, address: IpAddr) -> io::Result<()> {
    let prefix_len = if address.is_ipv4() { 24 } else { 64 };
    kernel.ask(&netlink::add_address(index, address, prefix_len, true))
}
