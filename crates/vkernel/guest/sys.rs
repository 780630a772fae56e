//! Calls into the kernel, without a C library, and what a compiler wants of one.

use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};
use core::alloc::{GlobalAlloc, Layout};
use core::arch::{asm, global_asm};
use core::ffi::CStr;
use core::panic::PanicInfo;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use knee_traffic::Errno;
use knee_traffic::bytes::Sink;

/// A call whose arguments are numbers and descriptors alone.
#[derive(Clone, Copy)]
pub(crate) struct Harmless(usize);

// Numbers of calls on x86-64.
const READ: usize = 0;
const WRITE: usize = 1;
const CLOSE: Harmless = Harmless(3);
const MMAP: usize = 9;
const MUNMAP: usize = 11;
const MREMAP: usize = 25;
pub(crate) const DUP2: Harmless = Harmless(33);
pub(crate) const SOCKET: Harmless = Harmless(41);
pub(crate) const CONNECT: usize = 42;
pub(crate) const SENDTO: usize = 44;
pub(crate) const RECVFROM: usize = 45;
pub(crate) const BIND: usize = 49;
pub(crate) const LISTEN: Harmless = Harmless(50);
const SETSOCKOPT: usize = 54;
const GETSOCKOPT: usize = 55;
pub(crate) const IOCTL: usize = 16;
pub(crate) const MOUNT: usize = 165;
const REBOOT: usize = 169;
const CLOCK_GETTIME: usize = 228;
pub(crate) const EPOLL_WAIT: usize = 232;
pub(crate) const EPOLL_CTL: usize = 233;
const OPENAT: usize = 257;
pub(crate) const UNSHARE: Harmless = Harmless(272);
pub(crate) const TIMERFD_CREATE: Harmless = Harmless(283);
pub(crate) const TIMERFD_SETTIME: usize = 286;
pub(crate) const ACCEPT4: usize = 288;
pub(crate) const EPOLL_CREATE1: Harmless = Harmless(291);
pub(crate) const PRLIMIT64: usize = 302;
pub(crate) const SETNS: Harmless = Harmless(308);
pub(crate) const FINIT_MODULE: usize = 313;
const EXIT_GROUP: usize = 231;

/// Bytes of files at a time.
const CHUNK_BYTES: usize = 1 << 20;

// Where the program begins; the kernel leaves arguments on the stack, of which it needs none.
global_asm!(
    ".globl _start, rust_eh_personality, _Unwind_Resume",
    "_start:",
    "xor %ebp, %ebp",
    "and $-16, %rsp",
    "call begin",
    // The library that is linked names them. Nothing unwinds: a panic ends the guest.
    "rust_eh_personality:",
    "_Unwind_Resume:",
    "ud2",
    options(att_syntax)
);

/// # Safety
/// Arguments that are addresses are those of memory as the call has it.
pub(crate) unsafe fn call(number: usize, arguments: &[usize]) -> Result<usize, Errno> {
    let argument = |at: usize| arguments.get(at).copied().unwrap_or(0);
    let result: isize;
    // SAFETY: it is how the kernel is called; what it does to memory the caller answers for.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") argument(0),
            in("rsi") argument(1),
            in("rdx") argument(2),
            in("r10") argument(3),
            in("r8") argument(4),
            in("r9") argument(5),
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack)
        );
    }
    if result < 0 { Err(Errno(-result as i32)) } else { Ok(result as usize) }
}

/// A call that touches no memory, whatever its arguments.
pub(crate) fn plain_call(which: Harmless, arguments: &[usize]) -> Result<usize, Errno> {
    // SAFETY: it takes no address.
    unsafe { call(which.0, arguments) }
}

/// What must not fail: else the guest ends, with a reason for whoever started it.
pub(crate) fn need<T>(what: &str, result: Result<T, Errno>) -> T {
    match result {
        Ok(value) => value,
        Err(why) => fail(&format!("{what}: error {}", why.0)),
    }
}

// ---- memory ----

/// Small pieces come one after the other from a large one, and are not given back; each large one is the kernel's.
struct Memory;

static FREE: AtomicUsize = AtomicUsize::new(0);
static FREE_BYTES: AtomicUsize = AtomicUsize::new(0);
const LARGE_BYTES: usize = 1 << 16;
const PAGE_BYTES: usize = 1 << 12;

fn map(bytes: usize) -> usize {
    let anywhere =
        [0, bytes, 3 /* read, write */, 0x22 /* private, anonymous */, usize::MAX, 0];
    // SAFETY: where nothing is yet.
    unsafe { call(MMAP, &anywhere).unwrap_or(0) }
}

// SAFETY: pieces are apart from each other, of their size or more, and at whole pages or multiples of 16. There is one thread.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let bytes = layout.size().next_multiple_of(16);
        if layout.align() > PAGE_BYTES {
            return null_mut();
        }
        if bytes >= LARGE_BYTES || layout.align() > 16 {
            return map(bytes) as *mut u8;
        }
        if FREE_BYTES.load(Relaxed) < bytes {
            let piece = map(CHUNK_BYTES);
            if piece == 0 {
                return null_mut();
            }
            FREE.store(piece, Relaxed);
            FREE_BYTES.store(CHUNK_BYTES, Relaxed);
        }
        FREE_BYTES.fetch_sub(bytes, Relaxed);
        FREE.fetch_add(bytes, Relaxed) as *mut u8
    }

    /// The kernel's memory is zero, and no piece is given twice. To touch a page costs more here than elsewhere.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller says.
        unsafe { self.alloc(layout) }
    }

    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        if layout.size().next_multiple_of(16) >= LARGE_BYTES || layout.align() > 16 {
            // SAFETY: the piece was mapped by itself, and nobody has it any more.
            let _ = unsafe { call(MUNMAP, &[piece as usize, layout.size()]) };
        }
    }

    unsafe fn realloc(&self, piece: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        let is_large = |bytes: usize| bytes.next_multiple_of(16) >= LARGE_BYTES;
        if is_large(layout.size()) && is_large(bytes) {
            let moved = [piece as usize, layout.size(), bytes, 1 /* it may move */];
            // SAFETY: the piece was mapped by itself, and the caller has its new place from here.
            return unsafe { call(MREMAP, &moved) }.unwrap_or(0) as *mut u8;
        }
        // SAFETY: the caller's layout, and both pieces are as long as is copied.
        unsafe {
            let to = self.alloc(Layout::from_size_align_unchecked(bytes, layout.align()));
            if !to.is_null() {
                memcpy(to, piece, layout.size().min(bytes));
                self.dealloc(piece, layout);
            }
            to
        }
    }
}

#[global_allocator]
static MEMORY: Memory = Memory;

#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
    // SAFETY: C's memcpy.
    unsafe {
        asm!("rep movsb", inout("rdi") to => _, inout("rsi") from => _, inout("rcx") bytes => _,
             options(nostack, preserves_flags));
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
    if (to as usize).wrapping_sub(from as usize) >= bytes {
        // SAFETY: where it is written nothing is read later.
        return unsafe { memcpy(to, from, bytes) };
    }
    // SAFETY: C's memmove, from the end.
    unsafe {
        asm!("std", "rep movsb", "cld", inout("rdi") to.wrapping_add(bytes).wrapping_sub(1) => _,
             inout("rsi") from.wrapping_add(bytes).wrapping_sub(1) => _, inout("rcx") bytes => _, options(nostack));
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, bytes: usize) -> *mut u8 {
    // SAFETY: C's memset.
    unsafe {
        asm!("rep stosb", inout("rdi") to => _, inout("rcx") bytes => _, in("al") byte as u8,
             options(nostack, preserves_flags));
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(one: *const u8, other: *const u8, bytes: usize) -> i32 {
    for at in 0..bytes {
        // SAFETY: C's memcmp.
        let (one, other) = unsafe { (*one.add(at), *other.add(at)) };
        if one != other {
            return i32::from(one) - i32::from(other);
        }
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(one: *const u8, other: *const u8, bytes: usize) -> i32 {
    // SAFETY: as the caller says.
    unsafe { memcmp(one, other, bytes) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strlen(text: *const u8) -> usize {
    let mut len = 0;
    // SAFETY: C's strlen.
    while unsafe { *text.add(len) } != 0 {
        len += 1;
    }
    len
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    fail(&format!("{info}"))
}

// ---- files, sockets, time ----

/// A descriptor, closed when it is dropped.
pub(crate) struct Fd(usize);

impl Fd {
    pub(crate) fn new(what: &str, result: Result<usize, Errno>) -> Fd {
        Fd(need(what, result))
    }

    pub(crate) fn number(&self) -> usize {
        self.0
    }

    pub(crate) fn open(path: &CStr, flags: usize) -> Fd {
        const HERE: usize = -100_isize as usize;
        let arguments = [HERE, path.as_ptr() as usize, flags, 0o644];
        // SAFETY: a path that ends with a zero byte.
        let result = unsafe { call(OPENAT, &arguments) };
        Fd::new(path.to_str().unwrap_or("a file"), result)
    }

    pub(crate) fn read(&self, to: &mut [u8]) -> Result<usize, Errno> {
        // SAFETY: the bytes of the slice.
        unsafe { call(READ, &[self.0, to.as_mut_ptr() as usize, to.len()]) }
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        // SAFETY: the bytes of the slice.
        unsafe { call(WRITE, &[self.0, bytes.as_ptr() as usize, bytes.len()]) }
    }

    /// All of it goes to `to`.
    pub(crate) fn each(&self, what: &str, mut to: impl FnMut(&[u8])) {
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            match need(what, self.read(&mut buffer)) {
                0 => return,
                read => to(&buffer[..read]),
            }
        }
    }

    pub(crate) fn set<T: Copy>(
        &self,
        level: usize,
        option: usize,
        value: &[T],
    ) -> Result<(), Errno> {
        let (at, len) = (value.as_ptr() as usize, size_of_val(value));
        // SAFETY: the values, which are plain numbers.
        unsafe { call(SETSOCKOPT, &[self.0, level, option, at, len]).map(drop) }
    }

    /// Into the buffer; its length.
    pub(crate) fn get(&self, level: usize, option: usize, to: &mut [u8]) -> Result<usize, Errno> {
        let mut len = to.len() as u32;
        let (at, at_len) = (to.as_mut_ptr() as usize, &raw mut len as usize);
        // SAFETY: the bytes of the slice, and their number.
        unsafe { call(GETSOCKOPT, &[self.0, level, option, at, at_len])? };
        Ok((len as usize).min(to.len()))
    }

    pub(crate) fn send(&self, bytes: &[u8], flags: usize) -> Result<usize, Errno> {
        // SAFETY: the bytes of the slice.
        unsafe { call(SENDTO, &[self.0, bytes.as_ptr() as usize, bytes.len(), flags]) }
    }

    pub(crate) fn receive(&self, to: &mut [u8]) -> Result<usize, Errno> {
        // SAFETY: the bytes of the slice.
        unsafe { call(RECVFROM, &[self.0, to.as_mut_ptr() as usize, to.len()]) }
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        let _ = plain_call(CLOSE, &[self.0]);
    }
}

/// CLOCK_MONOTONIC.
pub(crate) fn monotonic_ns() -> u64 {
    let mut time = [0_u64; 2];
    // SAFETY: a struct timespec is two numbers of 64 bits.
    let _ = unsafe { call(CLOCK_GETTIME, &[1, time.as_mut_ptr() as usize]) };
    time[0] * 1_000_000_000 + time[1]
}

// ---- the end ----

/// A file of results that is written piece by piece.
pub(crate) struct File {
    file: Fd,
    buffer: Vec<u8>,
}

impl File {
    pub(crate) fn create(path: &CStr) -> File {
        File { file: Fd::open(path, 0o1101 /* write, create, truncate */), buffer: vec![] }
    }

    /// There is nobody to tell that it fails: the end of the file is missing, and that is seen.
    pub(crate) fn flush(&mut self) {
        let mut rest = &self.buffer[..];
        while let Ok(written @ 1..) = self.file.write(rest) {
            rest = &rest[written..];
        }
        self.buffer.clear();
    }
}

impl Sink for File {
    fn put(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= CHUNK_BYTES {
            self.flush();
        }
    }
}

/// Ends the guest, with a reason for whoever started it.
pub(crate) fn fail(why: &str) -> ! {
    use knee_traffic::bytes::Plain as _;
    let mut result = File::create(c"/result");
    Some(String::from(why)).put(&mut result);
    result.flush();
    switch_off()
}

pub(crate) fn switch_off() -> ! {
    let power_off = [0xfee1_dead, 0x2812_1969, 0x4321_fedc];
    // SAFETY: numbers; nothing comes after it.
    let _ = unsafe { call(REBOOT, &power_off) };
    loop {
        // SAFETY: a number; nothing comes after it.
        let _ = unsafe { call(EXIT_GROUP, &[0]) };
    }
}
