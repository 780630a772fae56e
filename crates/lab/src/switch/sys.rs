//! Calls of the kernel's that rustix does not have: the one place of the switch with unsafe code.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_int, c_uint, c_void, socklen_t};

use super::segment::OFFLOAD_BYTES;

/// Bytes of a ring slot before the frame: the kernel's header, the address, alignment.
const SLOT_HEAD_BYTES: usize = 128;
const TPACKET_V2: c_int = 1;
/// The kernel's stamp of when a packet passed, as PACKET_TIMESTAMP names it.
const STAMP_OF_SOFTWARE: c_int = 1 << 4;
/// Least size of a block; a slot does not reach over the end of its block.
const BLOCK_BYTES: usize = 1 << 20;
/// Frames that one call sends at most. Each is taken by its host before the next: more at once would be late.
pub(super) const BATCH: usize = 32;
/// `SO_SNDBUF` of the sending socket.
const SEND_BUFFER_BYTES: c_int = 32 << 20;

fn done(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn set<T>(socket: &OwnedFd, level: c_int, option: c_int, value: &T) -> io::Result<()> {
    let pointer = ptr::from_ref(value).cast::<c_void>();
    // SAFETY: the pointer and the length are those of the value.
    done(unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, pointer, size_of::<T>() as socklen_t)
    })
}

/// A packet socket that receives nothing until it is bound.
fn packet_socket() -> io::Result<OwnedFd> {
    // SAFETY: it makes a new descriptor, which this function owns.
    unsafe {
        let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
        done(fd)?;
        let socket = OwnedFd::from_raw_fd(fd);
        set(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1_i32)?;
        Ok(socket)
    }
}

/// Memory that the kernel fills with frames of all devices of a namespace.
pub(super) struct Ring {
    socket: OwnedFd,
    memory: *mut u8,
    bytes: usize,
    slot_bytes: usize,
    slots: usize,
    next: usize,
}

// SAFETY: the memory is this value's alone, wherever it is.
unsafe impl Send for Ring {}

/// A frame in the ring.
pub(super) struct Received<'a> {
    /// When the kernel took it from its device, ns of CLOCK_REALTIME.
    pub(super) realtime_ns: u64,
    /// The device that it came from.
    pub(super) device: u32,
    /// The kernel's `struct virtio_net_hdr`.
    pub(super) offload: &'a [u8; OFFLOAD_BYTES],
    /// The frame from its Ethernet header on.
    pub(super) bytes: &'a [u8],
    /// Whether it was longer than the ring has room for.
    pub(super) is_cut_off: bool,
}

impl Ring {
    /// A ring of about `bytes` for frames of up to `frame_bytes`, for all devices of this thread's namespace.
    pub(super) fn new(frame_bytes: usize, bytes: usize) -> io::Result<Ring> {
        let socket = packet_socket()?;
        let slot_bytes = (frame_bytes + SLOT_HEAD_BYTES).next_power_of_two();
        let block_bytes = slot_bytes.max(BLOCK_BYTES);
        let blocks = bytes.div_ceil(block_bytes);
        let slots = blocks * (block_bytes / slot_bytes);
        set(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, &TPACKET_V2)?;
        set(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1_i32)?;
        // The first makes the kernel stamp packets as devices hand them over, the second takes that stamp.
        set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1_i32)?;
        set(&socket, libc::SOL_PACKET, libc::PACKET_TIMESTAMP, &STAMP_OF_SOFTWARE)?;
        let request = libc::tpacket_req {
            tp_block_size: block_bytes as c_uint,
            tp_block_nr: blocks as c_uint,
            tp_frame_size: slot_bytes as c_uint,
            tp_frame_nr: slots as c_uint,
        };
        set(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let bytes = blocks * block_bytes;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: the kernel chooses where, and the result is looked at.
        let memory =
            unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, socket.as_raw_fd(), 0) };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let ring = Ring { socket, memory: memory.cast(), bytes, slot_bytes, slots, next: 0 };
        ring.bind()?;
        Ok(ring)
    }

    /// Binds the socket: frames arrive from now on.
    fn bind(&self) -> io::Result<()> {
        let address = address_of(0, (libc::ETH_P_ALL as u16).to_be());
        let len = size_of::<libc::sockaddr_ll>() as socklen_t;
        // SAFETY: the pointer and the length are those of the address.
        done(unsafe { libc::bind(self.socket.as_raw_fd(), ptr::from_ref(&address).cast(), len) })
    }

    /// Shows the next frame to `look`, then gives its place back; `None`: there is none.
    pub(super) fn next<T>(&mut self, look: impl FnOnce(Received<'_>) -> T) -> Option<T> {
        let slot_bytes = self.slot_bytes;
        // SAFETY: slots lie one after the other in the memory: blocks are multiples of them.
        let slot = unsafe { self.memory.add(self.next * slot_bytes) };
        // SAFETY: a slot begins with its status, aligned, which the kernel writes at any time.
        let status = unsafe { AtomicU32::from_ptr(slot.cast()) };
        if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the slot is this side's until its status is given back, and the kernel has filled in header and address.
        let (header, device, slot) = unsafe {
            let header = ptr::read(slot.cast::<libc::tpacket2_hdr>());
            let at = (size_of::<libc::tpacket2_hdr>() + 15) & !15;
            let address = ptr::read(slot.add(at).cast::<libc::sockaddr_ll>());
            (header, address.sll_ifindex, std::slice::from_raw_parts(slot, slot_bytes))
        };
        let frame_at = usize::from(header.tp_mac);
        let frame = slot.get(frame_at..frame_at + header.tp_snaplen as usize);
        let offload = slot.get(frame_at.wrapping_sub(OFFLOAD_BYTES)..frame_at);
        let offload = offload.and_then(|bytes| bytes.first_chunk());
        let seen = look(Received {
            realtime_ns: u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec),
            device: device as u32,
            offload: offload.unwrap_or(&[0; OFFLOAD_BYTES]),
            bytes: frame.unwrap_or(&[]),
            is_cut_off: header.tp_snaplen < header.tp_len,
        });
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.slots;
        Some(seen)
    }

    /// Frames that did not fit since the last call.
    pub(super) fn dropped(&self) -> io::Result<u64> {
        // SAFETY: zeros are a struct of numbers.
        let mut counts: libc::tpacket_stats = unsafe { mem::zeroed() };
        let mut len = size_of::<libc::tpacket_stats>() as socklen_t;
        // SAFETY: the pointers are those of the counts and their length.
        done(unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut counts).cast(),
                &raw mut len,
            )
        })?;
        Ok(u64::from(counts.tp_drops))
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the memory was mapped with this length, and nothing of it is lent out.
        unsafe { libc::munmap(self.memory.cast(), self.bytes) };
    }
}

fn address_of(device: u32, protocol: u16) -> libc::sockaddr_ll {
    // SAFETY: zeros are an address.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol;
    address.sll_ifindex = device as c_int;
    address
}

/// The way out: frames for any device of a namespace.
pub(super) struct Outlet {
    socket: OwnedFd,
}

impl Outlet {
    /// Opens one for the devices of this thread's namespace.
    pub(super) fn new() -> io::Result<Outlet> {
        let socket = packet_socket()?;
        set(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1_i32)?;
        set(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_BUFFER_BYTES)?;
        Ok(Outlet { socket })
    }

    /// Sends frames, each after the bytes of its offloads and with the number of its device; at most [`BATCH`]. Says how many
    /// of the first went out.
    pub(super) fn send(&self, frames: &[(&[u8], u32)]) -> io::Result<usize> {
        let count = frames.len().min(BATCH);
        // SAFETY: zeros are such structs.
        let (mut messages, mut parts, mut addresses): (
            [libc::mmsghdr; BATCH],
            [libc::iovec; BATCH],
            [libc::sockaddr_ll; BATCH],
        ) = unsafe { mem::zeroed() };
        for (at, (bytes, device)) in frames[..count].iter().enumerate() {
            parts[at].iov_base = bytes.as_ptr().cast_mut().cast();
            parts[at].iov_len = bytes.len();
            addresses[at] = address_of(*device, 0);
            let message = &mut messages[at].msg_hdr;
            message.msg_name = (&raw mut addresses[at]).cast();
            message.msg_namelen = size_of::<libc::sockaddr_ll>() as socklen_t;
            message.msg_iov = &raw mut parts[at];
            message.msg_iovlen = 1;
        }
        let socket = self.socket.as_raw_fd();
        // SAFETY: the messages point at bytes, parts and addresses that live as long as the call, which only reads them.
        let sent = unsafe {
            libc::sendmmsg(socket, messages.as_mut_ptr(), count as c_uint, libc::MSG_DONTWAIT)
        };
        done(sent)?;
        Ok(sent as usize)
    }
}

/// Puts this thread before the others of its autogroup, and keeps to memory what the process touches. Whether both are permitted.
pub(super) fn hurry() -> bool {
    // SAFETY: these calls take numbers only; who is 0 is this thread.
    unsafe {
        let nice = libc::setpriority(libc::PRIO_PROCESS, 0, -20) == 0;
        // Timers of ordinary threads may be 50 us late; of this one 1 ns.
        libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0);
        let flags = libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT;
        nice && libc::mlockall(flags) == 0
    }
}

/// Whether this process has called setsid, so that its autogroup is its own. Where that call was made outside the namespace of this
/// process's number, getsid says 0, which is not its own.
pub(super) fn has_called_setsid() -> bool {
    // SAFETY: these calls take numbers only; 0 is the caller.
    unsafe { libc::getsid(0) == libc::getpid() }
}

/// Takes back that memory is kept.
pub(super) fn unlock_memory() {
    // SAFETY: it takes nothing.
    unsafe { libc::munlockall() };
}
