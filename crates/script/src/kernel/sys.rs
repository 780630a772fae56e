//! Calls of the kernel's that rustix does not have: the one place of this crate with unsafe code.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use libc::{c_int, c_void, socklen_t};

/// More than the `struct tcp_info` of any kernel so far.
const INFO_BYTES: usize = 512;
/// The older of the two calls of that name, with a `struct timespec`.
const SIOCGSTAMPNS: libc::c_ulong = 0x8907;

fn done(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Makes the device of an open `/dev/net/tun`: it gives and takes bare IP packets.
pub(super) fn make_tun(file: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    // SAFETY: all zeros is a request.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the descriptor is open, and the request lives as long as the call.
    done(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) })
}

/// Sets an option that is a plain number.
fn set<T: Copy>(socket: BorrowedFd<'_>, level: c_int, option: c_int, value: T) -> io::Result<()> {
    let len = size_of::<T>() as socklen_t;
    let value = (&raw const value).cast::<c_void>();
    // SAFETY: the pointer and the length are those of the number.
    done(unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value, len) })
}

/// Sets `SO_RCVLOWAT`, in bytes.
pub(super) fn set_receive_low_water(socket: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT, bytes)
}

/// Sets `SO_MAX_PACING_RATE`, in bytes per second.
pub(super) fn set_max_pacing_rate(socket: BorrowedFd<'_>, bytes_per_sec: u64) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, bytes_per_sec)
}

/// Sets `TCP_MAXSEG`, in bytes.
pub(super) fn set_max_segment(socket: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    set(socket, libc::IPPROTO_TCP, libc::TCP_MAXSEG, bytes)
}

/// `TCP_INFO`, as much of it as this kernel has.
pub(super) fn tcp_info(socket: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    let mut info = vec![0_u8; INFO_BYTES];
    let mut len = INFO_BYTES as socklen_t;
    let buffer = info.as_mut_ptr().cast::<c_void>();
    // SAFETY: the pointers are to the buffer and its length.
    done(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            buffer,
            &raw mut len,
        )
    })?;
    info.truncate(len as usize);
    Ok(info)
}

/// Scheduling policy of a thread before [`hurry`].
pub(super) struct Ordinary {
    thread: libc::pid_t,
    policy: c_int,
    param: libc::sched_param,
}

/// Puts this thread before all ordinary ones, with the lowest priority that does; `None`: it is not permitted, or
/// the thread is there already. Threads and processes that it starts are ordinary.
pub(super) fn hurry() -> Option<Ordinary> {
    // SAFETY: all zeros is a struct sched_param, and the calls fill and read it.
    unsafe {
        let thread = libc::gettid();
        let policy = libc::sched_getscheduler(thread);
        let mut param: libc::sched_param = mem::zeroed();
        if policy != libc::SCHED_OTHER || libc::sched_getparam(thread, &raw mut param) != 0 {
            return None;
        }
        let first = libc::sched_param { sched_priority: 1 };
        let fifo = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
        let done = libc::sched_setscheduler(thread, fifo, &raw const first) == 0;
        done.then_some(Ordinary { thread, policy, param })
    }
}

impl Drop for Ordinary {
    /// The thread may be gone, or be another than the one that drops this.
    fn drop(&mut self) {
        // SAFETY: it reads the parameters only.
        unsafe { libc::sched_setscheduler(self.thread, self.policy, &raw const self.param) };
    }
}

/// When the packet that was read last from a packet socket passed it, by the system's clock, in ns. The first
/// call makes the socket note times.
pub(super) fn stamp_ns(socket: BorrowedFd<'_>) -> Option<i64> {
    let mut stamp = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to what the call fills.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCGSTAMPNS as _, &raw mut stamp) };
    (result == 0).then_some(stamp.tv_sec * 1_000_000_000 + stamp.tv_nsec)
}
