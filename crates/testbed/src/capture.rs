//! A packet capture on one device, for tests.

use std::ffi::CString;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use knee_netns::Namespace;

const ETH_P_ALL: u16 = 3;
const ETH_P_IP: [u8; 2] = [8, 0];
const ETH_P_IPV6: [u8; 2] = [0x86, 0xdd];
const IPV6_BYTES: usize = 40;
const ETHERNET_BYTES: usize = 14;
const IPPROTO_TCP: u8 = 6;
/// Receive buffer of the capture socket. It holds the packets that [`Capture::take`] has not read
/// yet.
static BUFFER_BYTES: libc::c_int = 64 << 20;

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const PSH: u8 = 8;
pub const ACK: u8 = 16;
pub const ECE: u8 = 64;
pub const CWR: u8 = 128;

/// Values of the ECN field of the IP header.
pub const NOT_ECT: u8 = 0;
pub const ECT0: u8 = 2;
pub const CE: u8 = 3;

/// A TCP packet over IPv4, or IPv6 without extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// True if the packet left through the device, false if it arrived there.
    pub out: bool,
    pub source_port: u16,
    pub destination_port: u16,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub ecn: u8,
    /// Payload length in bytes.
    pub payload: u32,
    /// Time at which the packet passed, by the system clock, in ns.
    pub at_ns: i64,
    /// Flow label of IPv6; 0 with IPv4.
    pub label: u32,
}

impl Packet {
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    pub fn end(&self) -> u32 {
        self.seq.wrapping_add(self.payload)
    }

    fn of(frame: &[u8], out: bool, at_ns: i64) -> Option<Packet> {
        let ip = frame.get(ETHERNET_BYTES..)?;
        let u16_at =
            |at: usize| Some(usize::from(u16::from_be_bytes([*ip.get(at)?, *ip.get(at + 1)?])));
        let first = u32::from_be_bytes(ip.get(..4)?.try_into().ok()?);
        let (header, total, protocol, ecn, label) = match frame.get(12..14)?.try_into().ok()? {
            ETH_P_IP => (usize::from(ip[0] & 15) * 4, u16_at(2)?, *ip.get(9)?, ip[1] & 3, 0),
            ETH_P_IPV6 => {
                let class = (first >> 20) as u8;
                (IPV6_BYTES, IPV6_BYTES + u16_at(4)?, *ip.get(6)?, class & 3, first & 0xf_ffff)
            }
            _ => return None,
        };
        let tcp = ip.get(header..total)?;
        if protocol != IPPROTO_TCP || tcp.len() < 20 {
            return None;
        }
        let u32_at =
            |at: usize| u32::from_be_bytes([tcp[at], tcp[at + 1], tcp[at + 2], tcp[at + 3]]);
        let offset = usize::from(tcp[12] >> 4) * 4;
        Some(Packet {
            out,
            source_port: u16::from_be_bytes([tcp[0], tcp[1]]),
            destination_port: u16::from_be_bytes([tcp[2], tcp[3]]),
            seq: u32_at(4),
            ack: u32_at(8),
            flags: tcp[13],
            ecn,
            payload: tcp.len().checked_sub(offset)? as u32,
            at_ns,
            label,
        })
    }
}

/// Captures the TCP packets of one device. It sees incoming packets before the device's filters do.
pub struct Capture {
    socket: OwnedFd,
}

impl Capture {
    /// Starts a capture on `device` of `namespace`.
    pub fn start(namespace: &Namespace, device: &'static str) -> Capture {
        Capture { socket: namespace.run(move || open(device)).unwrap() }
    }

    /// Returns the packets captured since the start or since the last call.
    ///
    /// # Panics
    /// If the buffer overflowed and packets are missing.
    pub fn take(&self) -> Vec<Packet> {
        let mut packets = Vec::new();
        let mut frame = vec![0_u8; 1 << 16];
        loop {
            // SAFETY: an all-zero `sockaddr_ll` is a valid value.
            let mut from: libc::sockaddr_ll = unsafe { mem::zeroed() };
            let mut len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            // SAFETY: the pointers and lengths are those of the buffer and of the address.
            let count = unsafe {
                libc::recvfrom(
                    self.socket.as_raw_fd(),
                    frame.as_mut_ptr().cast(),
                    frame.len(),
                    libc::MSG_DONTWAIT,
                    (&raw mut from).cast(),
                    &raw mut len,
                )
            };
            let Ok(count) = usize::try_from(count) else { break };
            let out = from.sll_pkttype == libc::PACKET_OUTGOING;
            let at_ns = stamp_ns(&self.socket).expect("a packet was read a moment ago");
            packets.extend(Packet::of(&frame[..count], out, at_ns));
        }
        assert_eq!(self.dropped(), 0, "packets that did not fit the capture's buffer");
        packets
    }

    fn dropped(&self) -> u32 {
        // `struct tpacket_stats` holds two counters: packets and drops.
        let mut stats = [0_u32; 2];
        let mut len = 8;
        // SAFETY: the pointer and the length are those of the array.
        let result = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                stats.as_mut_ptr().cast(),
                &raw mut len,
            )
        };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
        stats[1]
    }
}

/// Returns the time stamp of the packet read last, in ns. `None` means that no packet was read, or
/// that it passed before time stamps were enabled.
fn stamp_ns(socket: &OwnedFd) -> Option<i64> {
    // The older of the two calls, which fills a `struct timespec`.
    const SIOCGSTAMPNS: libc::c_ulong = 0x8907;
    let mut stamp = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to the struct that the call fills.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCGSTAMPNS as _, &raw mut stamp) };
    (result == 0).then_some(stamp.tv_sec * 1_000_000_000 + stamp.tv_nsec)
}

fn open(device: &str) -> io::Result<OwnedFd> {
    let check = |result: libc::c_int| match result {
        0.. => Ok(result),
        _ => Err(io::Error::last_os_error()),
    };
    let protocol = ETH_P_ALL.to_be();
    // SAFETY: the call takes no pointers.
    let fd = check(unsafe {
        libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol.into())
    })?;
    // SAFETY: the descriptor was just created and has no other owner.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: the pointer and the length are those of the number.
    check(unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_RCVBUFFORCE,
            (&raw const BUFFER_BYTES).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    })?;
    let name = CString::new(device)?;
    // SAFETY: an all-zero `sockaddr_ll` is a valid value.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol;
    // SAFETY: the name is a C string; the call only reads it.
    address.sll_ifindex = unsafe { libc::if_nametoindex(name.as_ptr()) } as i32;
    // SAFETY: the pointer and the length are those of the address.
    check(unsafe {
        libc::bind(
            fd,
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    })?;
    // The first request enables time stamps; the kernel stamps every packet from then on.
    let _ = stamp_ns(&socket);
    Ok(socket)
}
