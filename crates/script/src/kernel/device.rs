//! The TUN device in a namespace of its own, and what the namespace is set to.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, RawProtocol, RecvFlags, SendFlags, SocketFlags, SocketType, netdevice,
};

use super::sys;
use crate::settings::TIMESTAMPS_BYTES;
use crate::{Refusal, SYSCTLS, Settings};

const NAME: &str = "knee";
const TUN: &str = "/dev/net/tun";
/// Packets that wait in the device for somebody to read them: more than any window of a script.
const QUEUE_PKTS: u32 = 10_000;
/// IPv6 does without links that carry less (RFC 8200, section 5).
const IPV6_MTU: u32 = 1280;

// From the kernel's user API: netlink.h, rtnetlink.h, if_link.h, if_addr.h and if_ether.h.
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_CREATE: u16 = 0x400;
const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
const IFLA_MTU: u16 = 4;
const IFLA_TXQLEN: u16 = 13;
const IFLA_GSO_MAX_SEGS: u16 = 40;
const IFF_UP: u32 = 1;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_F_NODAD: u8 = 2;
const ETH_P_ALL: u16 = 3;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const HEADER_BYTES: usize = 16;

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
    set_link(mtu, settings).map_err(|why| {
        Refusal(format!(
            "mss = {} with gso_max_segs = {}: the kernel does not take them for the TUN device: {why}",
            settings.mss_bytes, settings.gso_max_segs
        ))
    })?;
    add_address(address)
        .map_err(|why| Refusal(format!("the TUN device does not get its address: {why}")))?;
    Ok(Device { tun, tap, max_segment })
}

fn cannot_open(why: io::Error) -> Refusal {
    Refusal(match why.kind() {
        io::ErrorKind::NotFound => format!(
            "there is no {TUN}: \"modprobe tun\" brings it, or the container must be given the device"
        ),
        io::ErrorKind::PermissionDenied => {
            format!("{TUN} needs root (CAP_NET_ADMIN): run it with sudo, or use the simulator")
        }
        _ => format!("{TUN} gives no device: {why}"),
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

/// In the namespace of the thread.
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

fn set_link(mtu: u32, settings: &Settings) -> io::Result<()> {
    // struct ifinfomsg: family, type, index, flags, and which of them.
    let mut body = vec![0; 4];
    body.extend(index()?.to_ne_bytes());
    body.extend(IFF_UP.to_ne_bytes());
    body.extend(IFF_UP.to_ne_bytes());
    let numbers =
        [(IFLA_MTU, mtu), (IFLA_TXQLEN, QUEUE_PKTS), (IFLA_GSO_MAX_SEGS, settings.gso_max_segs)];
    for (kind, value) in numbers {
        attribute(&mut body, kind, &value.to_ne_bytes());
    }
    ask(RTM_NEWLINK, 0, &body)
}

fn add_address(address: IpAddr) -> io::Result<()> {
    let (family, prefix_len, bytes) = match address {
        IpAddr::V4(ip) => (AF_INET, 24, ip.octets().to_vec()),
        IpAddr::V6(ip) => (AF_INET6, 64, ip.octets().to_vec()),
    };
    // struct ifaddrmsg: family, length of the prefix, flags, scope, index.
    let mut body = vec![family, prefix_len, IFA_F_NODAD, 0];
    body.extend(index()?.to_ne_bytes());
    attribute(&mut body, IFA_LOCAL, &bytes);
    attribute(&mut body, IFA_ADDRESS, &bytes);
    ask(RTM_NEWADDR, NLM_F_CREATE, &body)
}

fn index() -> io::Result<u32> {
    Ok(netdevice::name_to_index(netlink()?, NAME)?)
}

fn netlink() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    // Protocol 0 is NETLINK_ROUTE.
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrNetlink::new(0, 0))?;
    Ok(socket)
}

/// All values here are whole words, so that there is no padding.
fn attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend((4 + value.len() as u16).to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
}

/// Sends one request and waits for the kernel's answer.
fn ask(kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
    let socket = netlink()?;
    let mut request = Vec::with_capacity(HEADER_BYTES + body.len());
    request.extend(((HEADER_BYTES + body.len()) as u32).to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend((NLM_F_REQUEST | NLM_F_ACK | flags).to_ne_bytes());
    request.extend([0; 8]);
    request.extend(body);
    rustix::net::send(&socket, &request, SendFlags::empty())?;
    let mut answer = [0; 1 << 12];
    let (len, _) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty())?;
    let answer = &answer[..len];
    let is_error = answer.get(4..6).is_some_and(|kind| kind == NLMSG_ERROR.to_ne_bytes());
    let code = answer.get(HEADER_BYTES..HEADER_BYTES + 4).and_then(|code| code.try_into().ok());
    match code.map(i32::from_ne_bytes) {
        Some(0) if is_error => Ok(()),
        Some(error) if is_error => Err(io::Error::from_raw_os_error(-error)),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}
