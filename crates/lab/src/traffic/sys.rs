//! Calls of the kernel's that rustix does not have: unsafe code of traffic programs is here alone.

use std::io;
use std::mem;
use std::net::IpAddr;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::ptr;

use libc::{c_int, c_void, socklen_t};
use rustix::net::sockopt;

/// More than the `struct tcp_info` of any kernel so far.
const INFO_BYTES: usize = 512;
/// Room for the control messages of a packet: one with a stamp.
const CONTROL_WORDS: usize = 16;
/// `ICMP_FILTER` of raw sockets, and `ICMPV6_FILTER`: both are 1.
const ECHO_FILTER: c_int = 1;
const SIOCETHTOOL: libc::c_ulong = 0x8946;

fn done(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sets an option that is plain numbers.
fn set<T: Copy>(socket: BorrowedFd<'_>, level: c_int, option: c_int, value: T) -> io::Result<()> {
    let len = size_of::<T>() as socklen_t;
    let value = (&raw const value).cast::<c_void>();
    // SAFETY: the pointer and the length are those of the value.
    done(unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value, len) })
}

/// Sets `SO_RCVLOWAT`, in bytes.
pub(super) fn set_receive_low_water(socket: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT, bytes.min(i32::MAX as u32))
}

/// Sets `SO_MAX_PACING_RATE`, in bytes per second.
pub(super) fn set_max_pacing_rate(socket: BorrowedFd<'_>, bytes_per_sec: u64) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, bytes_per_sec)
}

/// `SO_TIMESTAMPNS`: packets come with the time at which the host got them.
pub(super) fn set_stamps(socket: BorrowedFd<'_>) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1_i32)
}

/// A raw ICMP socket shall get echoes only. A set bit keeps a type away.
pub(super) fn set_echo_filter(socket: BorrowedFd<'_>, of: IpAddr) -> io::Result<()> {
    match of {
        IpAddr::V4(_) => set(socket, libc::SOL_RAW, ECHO_FILTER, !1_u32),
        IpAddr::V6(_) => {
            let mut away = [u32::MAX; 8];
            away[129 / 32] &= !(1 << (129 % 32));
            set(socket, libc::IPPROTO_ICMPV6, ECHO_FILTER, away)
        }
    }
}

/// `TCP_INFO`, as much of it as this kernel has.
pub(super) fn tcp_info(socket: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    let mut info = [0_u8; INFO_BYTES];
    let mut len = INFO_BYTES as socklen_t;
    let buffer = info.as_mut_ptr().cast::<c_void>();
    let (level, option) = (libc::IPPROTO_TCP, libc::TCP_INFO);
    // SAFETY: the pointers are to the buffer and its length.
    done(unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, buffer, &raw mut len) })?;
    Ok(info[..INFO_BYTES.min(len as usize)].to_vec())
}

/// The next packet of a socket with [`set_stamps`]: its length, and when the host got it, by CLOCK_REALTIME in ns.
pub(super) fn receive_stamped(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
) -> io::Result<(usize, Option<u64>)> {
    let mut control = [0_u64; CONTROL_WORDS];
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all zeros is an empty message.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    let flags = libc::MSG_DONTWAIT;
    // SAFETY: the message points to the two buffers and has their lengths.
    let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
    if len < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has filled in the message, and the control buffer still lives.
    Ok((len as usize, unsafe { stamp_of(&message) }))
}

/// # Safety
/// The message was filled in by `recvmsg`, and its control buffer lives.
unsafe fn stamp_of(message: &libc::msghdr) -> Option<u64> {
    // SAFETY: as the caller says; the macros stay inside of the control buffer.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while let Some(found) = header.as_ref() {
            if (found.cmsg_level, found.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
                let stamp: libc::timespec =
                    ptr::read_unaligned(libc::CMSG_DATA(header).cast_const().cast());
                return Some(stamp.tv_sec as u64 * 1_000_000_000 + stamp.tv_nsec as u64);
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    None
}

/// The TOS or traffic class of what a socket sends.
pub(super) fn set_tos(socket: BorrowedFd<'_>, family_of: IpAddr, tos: u8) -> io::Result<()> {
    match family_of {
        IpAddr::V4(_) => sockopt::set_ip_tos(socket, tos)?,
        IpAddr::V6(_) => sockopt::set_ipv6_tclass(socket, tos.into())?,
    }
    Ok(())
}

/// Asks a device of this namespace by `ethtool`'s call: the request begins with the number of the command, and the answer takes
/// its place.
pub(super) fn ethtool<const WORDS: usize>(
    socket: BorrowedFd<'_>,
    device: &str,
    mut request: [u32; WORDS],
) -> io::Result<[u32; WORDS]> {
    // SAFETY: all zeros is a request.
    let mut call: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in call.ifr_name.iter_mut().zip(device.bytes().take(libc::IFNAMSIZ - 1)) {
        *to = from as libc::c_char;
    }
    call.ifr_ifru.ifru_data = request.as_mut_ptr().cast();
    // SAFETY: both requests outlive the call; the caller passes one of its command's length.
    done(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut call) })?;
    Ok(request)
}
