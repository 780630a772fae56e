//! Guards calls into code of users' files. If the code crashes, recurses or loops for ever, the
//! call is abandoned, and the run with it.
//!
//! A crash raises a signal in the calling thread. The handler records where the thread was and
//! jumps to the instruction after the call. The sentence is built there, because a handler must not
//! allocate. A watchdog thread detects a call that does not return and sends it a signal. For this,
//! each call costs a few stores. A call inside the allocator cannot be abandoned, because other
//! threads wait for its lock. The watchdog then prints the sentence, and the process ends.
//!
//! [Decision 17](../../../../docs/decisions/0017-a-file-that-crashes-ends-its-run.md) explains why
//! knee does not use processes instead.

use std::cell::{Cell, RefCell, UnsafeCell};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
use std::time::Duration;

use super::Module;
use super::fault::{Cause, Fault, Place};
use super::handlers::{self, Held, LOOPS};

/// CPU time limit of one call, in seconds. A normal call takes a few microseconds at most.
pub(super) const MOST_CPU_S: u64 = 2;
/// Interval at which the watchdog checks the calls.
const LOOKS: Duration = Duration::from_millis(100);
/// Number of 100 ms intervals that a thread waits for the watchdog to print its sentence.
const MOST_WAITS: u32 = 50;
/// Largest distance from the stack pointer at which a frame may access memory. Code compiled here
/// touches each page in order.
const NEAR_BYTES: usize = 64 << 10;
/// Least stack depth, in bytes, at which a fault counts as a stack overflow.
const DEEP_BYTES: usize = 128 << 10;
/// Number of stack words searched for the caller when the fault lies outside the file's code.
const MOST_WORDS: usize = 4096;

unsafe extern "C" {
    fn knee_guarded(
        env: *mut u64,
        calls: *mut u64,
        run: extern "C" fn(*mut c_void),
        data: *mut c_void,
    ) -> c_int;
    fn knee_abandon(env: *mut u64) -> !;
}

/// Location of a loaded copy's code. The copy is never unloaded.
#[derive(Debug)]
pub(super) struct Code {
    /// Base address of the object; its own addresses are relative to this.
    pub(super) base: usize,
    /// End of the whole object, including its data.
    pub(super) object_end: usize,
    pub(super) begin: usize,
    pub(super) end: usize,
    /// Not 0 while the copy allocates memory. Null if it never does.
    pub(super) is_allocating: *const u32,
    /// Message of the last failed assertion. Null if the copy cannot have one.
    pub(super) said: *const std::ffi::c_char,
}

// SAFETY: the pointers are to variables of a copy that is never unloaded.
unsafe impl Sync for Code {}
// SAFETY: as above.
unsafe impl Send for Code {}

/// State of a thread that calls code of files. Slots are never freed, because a handler may be
/// reading them.
struct Slot {
    next: *const Slot,
    /// Thread number. 0 if the thread has ended, so that another thread may take the slot.
    thread: AtomicI32,
    /// Odd during a call; `knee_guarded` changes it at the start and the end.
    calls: AtomicU64,
    env: UnsafeCell<[u64; 64]>,
    /// An address in the stack frame that makes the call.
    stack: AtomicUsize,
    code: AtomicPtr<Code>,

    // The following fields serve the sentence that another thread builds.
    module: AtomicPtr<Module>,
    operation: AtomicPtr<&'static str>,
    flow: AtomicU32,
    at_ns: AtomicU64,

    /// Value of `calls` for the call that the watchdog has given up.
    condemned: AtomicU64,
    signal: AtomicI32,
    pc: AtomicUsize,
    address: AtomicUsize,
    is_deep: AtomicBool,
    /// The thread cannot continue, and waits for its sentence to be printed.
    is_dying: AtomicBool,
    is_told: AtomicBool,
}

// SAFETY: only its own thread uses `env`. All other fields are atomic, or are never written again.
unsafe impl Sync for Slot {}

static SLOTS: AtomicPtr<Slot> = AtomicPtr::new(null_mut());

fn slots() -> impl Iterator<Item = &'static Slot> {
    let first = SLOTS.load(Ordering::Acquire).cast_const();
    // SAFETY: the pointer is null, or to a slot that is never freed.
    std::iter::successors(unsafe { first.as_ref() }, |slot| unsafe { slot.next.as_ref() })
}

/// Ownership of a slot by this thread. Dropping it releases the slot.
struct Own(&'static Slot);

impl Own {
    fn new() -> Own {
        // SAFETY: the call has no arguments and cannot fail.
        let thread = unsafe { libc::gettid() };
        let take = |slot: &&Slot| {
            slot.thread.compare_exchange(0, thread, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let slot = slots().find(take).unwrap_or_else(|| Slot::add(thread));
        own_signal_stack();
        IS_OWN.set(true);
        Own(slot)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        IS_OWN.set(false);
        self.0.thread.store(0, Ordering::Release);
    }
}

thread_local! {
    static OWN: Own = Own::new();
    /// Whether this thread has a slot. Reading `OWN` itself would create one.
    static IS_OWN: Cell<bool> = const { Cell::new(false) };
}

impl Slot {
    fn add(thread: i32) -> &'static Slot {
        let slot = Box::leak(Box::new(Slot {
            next: std::ptr::null(),
            thread: AtomicI32::new(thread),
            calls: AtomicU64::new(0),
            env: UnsafeCell::new([0; 64]),
            stack: AtomicUsize::new(0),
            code: AtomicPtr::new(null_mut()),
            module: AtomicPtr::new(null_mut()),
            operation: AtomicPtr::new(null_mut()),
            flow: AtomicU32::new(0),
            at_ns: AtomicU64::new(0),
            condemned: AtomicU64::new(0),
            signal: AtomicI32::new(0),
            pc: AtomicUsize::new(0),
            address: AtomicUsize::new(0),
            is_deep: AtomicBool::new(false),
            is_dying: AtomicBool::new(false),
            is_told: AtomicBool::new(false),
        }));
        let own: *mut Slot = slot;
        let mut first = SLOTS.load(Ordering::Acquire);
        loop {
            // SAFETY: no other thread knows the slot yet.
            unsafe { (*own).next = first };
            match SLOTS.compare_exchange(first, own, Ordering::AcqRel, Ordering::Acquire) {
                // SAFETY: the slot is never freed.
                Ok(_) => return unsafe { &*own },
                Err(now) => first = now,
            }
        }
    }

    fn is_in_call(&self) -> bool {
        self.calls.load(Ordering::Relaxed) % 2 == 1
    }

    /// Returns the cause recorded when the call ended.
    fn cause(&self) -> Cause {
        let address = self.address.load(Ordering::Relaxed);
        match self.signal.load(Ordering::Relaxed) {
            LOOPS => Cause::Loop,
            libc::SIGFPE => Cause::Division,
            libc::SIGABRT => Cause::Abort,
            libc::SIGILL | libc::SIGTRAP => match self.code().and_then(Code::said) {
                Some(said) => Cause::Said(said),
                None => Cause::Trap,
            },
            _ if self.is_deep.load(Ordering::Relaxed) => Cause::Stack,
            _ => Cause::Memory { address },
        }
    }

    fn code(&self) -> Option<&'static Code> {
        // SAFETY: the pointer is null, or to the `Code` of a copy that is never unloaded.
        unsafe { self.code.load(Ordering::Acquire).as_ref() }
    }

    /// Returns the sentence about a thread that waits for it.
    fn fault(&self) -> Option<Fault> {
        self.fault_of(&self.cause(), Some(self.pc.load(Ordering::Relaxed)))
    }

    /// Returns the sentence about the current call or the last one.
    fn fault_of(&self, cause: &Cause, pc: Option<usize>) -> Option<Fault> {
        // SAFETY: modules are never freed, and the names are constants.
        let (module, operation) = unsafe {
            (
                self.module.load(Ordering::Acquire).as_ref()?,
                self.operation.load(Ordering::Acquire).as_ref()?,
            )
        };
        let place = Place {
            operation,
            flow: self.flow.load(Ordering::Relaxed),
            at_ns: self.at_ns.load(Ordering::Relaxed),
        };
        Some(Fault::new(module, self.code()?, &place, cause, pc))
    }
}

impl Code {
    fn holds(&self, address: usize) -> bool {
        (self.begin..self.end).contains(&address)
    }

    fn is_allocating(&self) -> bool {
        // SAFETY: the pointer is null, or to a variable of a copy that is never unloaded.
        !self.is_allocating.is_null() && unsafe { self.is_allocating.read_volatile() } != 0
    }

    /// Returns the message of the copy's last failed assertion.
    fn said(&self) -> Option<String> {
        if self.said.is_null() {
            return None;
        }
        // SAFETY: the text belongs to the copy, and `support.c` ends it with a zero.
        let said = unsafe { std::ffi::CStr::from_ptr(self.said) }.to_string_lossy();
        (!said.is_empty()).then(|| said.into_owned())
    }
}

/// Runs `run`, which calls the code of a file. `run` must own nothing that needs dropping.
///
/// # Errors
/// The fault of the call. The copy of the file must not be used again.
#[inline]
pub(super) fn call<R>(
    module: &Module,
    code: &'static Code,
    place: &Place,
    run: impl FnOnce() -> R,
) -> Result<R, Fault> {
    extern "C" fn in_c<R, F: FnOnce() -> R>(data: *mut c_void) {
        // SAFETY: `call` passes a pointer to this type, and the value outlives this function.
        let (run, result) = unsafe { &mut *data.cast::<(Option<F>, Option<R>)>() };
        *result = run.take().map(|run| run());
    }
    fn in_c_of<R, F: FnOnce() -> R>(_: &(Option<F>, Option<R>)) -> extern "C" fn(*mut c_void) {
        in_c::<R, F>
    }
    let _held = held_for_call();
    OWN.with(|own| {
        let slot = own.0;
        let mut data = (Some(run), None);
        slot.stack.store((&raw const data).addr(), Ordering::Relaxed);
        slot.code.store(std::ptr::from_ref(code).cast_mut(), Ordering::Relaxed);
        slot.module.store(std::ptr::from_ref(module).cast_mut(), Ordering::Relaxed);
        slot.operation.store(std::ptr::from_ref(place.operation).cast_mut(), Ordering::Relaxed);
        slot.flow.store(place.flow, Ordering::Relaxed);
        slot.at_ns.store(place.at_ns, Ordering::Relaxed);
        let in_c = in_c_of(&data);
        // SAFETY: the buffer belongs to this thread, and `in_c` gets the data that it expects. An
        // abandoned call skips frames of C, of `in_c` and of `run`. The caller promises that `run`
        // has nothing to drop.
        let abandoned = unsafe {
            knee_guarded(slot.env.get().cast(), slot.calls.as_ptr(), in_c, (&raw mut data).cast())
        };
        match (abandoned, data.1) {
            (0, Some(result)) => Ok(result),
            _ => {
                let pc = slot.pc.load(Ordering::Relaxed);
                Err(Fault::new(module, code, place, &slot.cause(), Some(pc)))
            }
        }
    })
}

thread_local! {
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
    /// Whether this thread holds the handlers.
    static IS_HELD: Cell<bool> = const { Cell::new(false) };
    static IS_IN_RUN: Cell<bool> = const { Cell::new(false) };
}

/// Holds the handlers if this thread does not yet: in a run until it ends, else for this call.
#[inline]
fn held_for_call() -> Option<Held> {
    #[cold]
    fn hold() -> Option<Held> {
        let held = Held::new(on_signal, watch);
        if !IS_IN_RUN.get() {
            return Some(held);
        }
        HELD.set(Some(held));
        IS_HELD.set(true);
        None
    }
    if IS_HELD.get() { None } else { hold() }
}

/// Many calls on this thread. When it is dropped, the handlers are put back that the first of them installed: without it each call
/// installs them and puts them back.
#[derive(Debug)]
pub struct InRun {
    outer: bool,
}

impl InRun {
    /// Begins, and forgets the last call.
    #[must_use]
    pub fn begin() -> InRun {
        forget_last();
        InRun { outer: IS_IN_RUN.replace(true) }
    }
}

impl Drop for InRun {
    fn drop(&mut self) {
        IS_IN_RUN.set(self.outer);
        if !self.outer && IS_HELD.replace(false) {
            HELD.take();
        }
    }
}

/// Forgets the last call of this thread.
fn forget_last() {
    if IS_OWN.get() {
        OWN.with(|own| own.0.module.store(null_mut(), Ordering::Relaxed));
    }
}

/// Returns whether this thread has called code of a file since [`forget_last`].
pub(super) fn has_called() -> bool {
    IS_OWN.get() && OWN.with(|own| !own.0.module.load(Ordering::Relaxed).is_null())
}

/// Returns the sentence about this thread's last call, after which the simulator panicked with this
/// message.
pub(super) fn last_call(said: String) -> Option<Fault> {
    has_called().then(|| OWN.with(|own| own.0.fault_of(&Cause::Simulator(said), None)))?
}

/// Gives the thread an alternative signal stack, because an overflowed stack has no room for the
/// handler. Threads that Rust starts already have one.
fn own_signal_stack() {
    const BYTES: usize = 64 << 10;
    // SAFETY: the structs are plain data. The memory is mapped, and stays mapped while the thread
    // may use it.
    unsafe {
        let mut now: libc::stack_t = std::mem::zeroed();
        libc::sigaltstack(std::ptr::null(), &raw mut now);
        if now.ss_flags & libc::SS_DISABLE == 0 {
            return;
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
        let (protection, nothing) = (libc::PROT_READ | libc::PROT_WRITE, null_mut());
        let memory = libc::mmap(nothing, BYTES, protection, flags, -1, 0);
        if memory != libc::MAP_FAILED {
            let stack = libc::stack_t { ss_sp: memory, ss_flags: 0, ss_size: BYTES };
            libc::sigaltstack(&raw const stack, null_mut());
        }
    }
}

/// Abandons the current call of this thread if possible.
extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the call has no arguments and cannot fail.
    let thread = unsafe { libc::gettid() };
    let own = slots().find(|slot| slot.thread.load(Ordering::Relaxed) == thread);
    let Some(slot) = own.filter(|slot| slot.is_in_call()) else {
        // SAFETY: the pointers are those that the kernel passes to a handler.
        return unsafe { handlers::pass_on(signal, info, context) };
    };
    let is_loop = signal == LOOPS;
    if is_loop && slot.condemned.load(Ordering::Relaxed) != slot.calls.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: the pointers are those that the kernel passes to a handler.
    let (address, (pc, sp)) = unsafe { ((*info).si_addr().addr(), registers(context)) };
    let Some(code) = slot.code() else { return };
    let depth = slot.stack.load(Ordering::Relaxed).saturating_sub(sp);
    let is_deep =
        signal == libc::SIGSEGV && depth > DEEP_BYTES && sp.abs_diff(address) < NEAR_BYTES;
    // A function that the file's code called may hold a lock. The watchdog tries again later.
    if is_loop && !code.holds(pc) {
        return;
    }
    // If the fault lies outside the file's code, report the place from which that code was called.
    let pc = match code.holds(pc) {
        true => pc,
        false => caller(code, sp, depth).unwrap_or(pc),
    };
    slot.signal.store(signal, Ordering::Relaxed);
    slot.pc.store(pc, Ordering::Relaxed);
    slot.address.store(address, Ordering::Relaxed);
    slot.is_deep.store(is_deep, Ordering::Relaxed);
    if signal != libc::SIGABRT && !code.is_allocating() {
        // SAFETY: the call is in progress, so its frame exists. No frame in between holds a lock.
        unsafe { knee_abandon(slot.env.get().cast()) }
    }
    // The watchdog tries again later.
    if is_loop {
        return;
    }
    slot.is_dying.store(true, Ordering::Release);
    let waits = libc::timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    for _ in 0..MOST_WAITS {
        if slot.is_told.load(Ordering::Acquire) {
            break;
        }
        // SAFETY: the call is safe in a handler.
        unsafe { libc::nanosleep(&raw const waits, null_mut()) };
    }
    // SAFETY: these calls are safe in a handler.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// Returns the instruction pointer and the stack pointer of a thread.
///
/// # Safety
/// `context` must be the pointer that the kernel passes to a handler.
unsafe fn registers(context: *mut c_void) -> (usize, usize) {
    // SAFETY: the caller guarantees it.
    let context = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext };
    #[cfg(target_arch = "x86_64")]
    return (
        context.gregs[libc::REG_RIP as usize] as usize,
        context.gregs[libc::REG_RSP as usize] as usize,
    );
    #[cfg(target_arch = "aarch64")]
    return (context.pc as usize, context.sp as usize);
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let _ = context;
        (0, 0)
    }
}

/// Returns the call site in the file's code that is nearest to the top of the stack.
fn caller(code: &Code, sp: usize, depth: usize) -> Option<usize> {
    let words = (depth / size_of::<usize>()).min(MOST_WORDS);
    let first: *const usize = std::ptr::with_exposed_provenance(sp);
    // SAFETY: this thread's stack extends from the stack pointer to the frame of `call`.
    let word = |at: usize| unsafe { first.wrapping_add(at).read_volatile() };
    // The return address lies after the call instruction.
    (0..words).map(word).find(|word| code.holds(*word)).map(|word| word - 1)
}

/// Looks for calls that do not return, and for threads that wait for their sentence, while there may be any.
fn watch() {
    let mut seen = Vec::new();
    loop {
        std::thread::sleep(LOOKS);
        if !handlers::while_held(|| look(&mut seen)) {
            return;
        }
    }
}

/// A call: its slot, its number, and the CPU time of its thread when it was first seen.
type Seen = (*const Slot, u64, u64);

fn look(seen: &mut Vec<Seen>) {
    for slot in slots() {
        if slot.is_dying.load(Ordering::Acquire) && !slot.is_told.load(Ordering::Relaxed) {
            if let Some(fault) = slot.fault() {
                tell(&format!(
                    "knee: {fault}; it cannot be left, so nothing of the other runs is kept\n"
                ));
            }
            slot.is_told.store(true, Ordering::Release);
        }
    }
    let on = slots().filter(|slot| slot.is_in_call());
    let now = on.filter_map(|slot| {
        let call = slot.calls.load(Ordering::Relaxed);
        let cpu_ns = cpu_ns(slot.thread.load(Ordering::Relaxed))?;
        let known = seen.iter().find(|(of, same, _)| std::ptr::eq(*of, slot) && *same == call);
        let since = known.map_or(cpu_ns, |(.., since)| *since);
        if cpu_ns.saturating_sub(since) > MOST_CPU_S * 1_000_000_000 {
            slot.condemned.store(call, Ordering::Release);
            let thread = slot.thread.load(Ordering::Relaxed);
            // SAFETY: the signal goes to a thread of this process, whose handler ignores it if
            // the call is over.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, LOOPS) };
        }
        Some((std::ptr::from_ref(slot), call, since))
    });
    *seen = now.collect();
}

/// Returns the CPU time of a thread of this process, in ns.
fn cpu_ns(thread: i32) -> Option<u64> {
    // The same value as from `pthread_getcpuclockid`, computed from the thread number:
    // `CPUCLOCK_SCHED` of one thread.
    let clock = (!thread << 3) | 6;
    // SAFETY: all zeros is a valid struct. The kernel checks the clock.
    unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        let got = libc::clock_gettime(clock, &raw mut time) == 0;
        got.then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }
}

fn tell(text: &str) {
    // SAFETY: the pointer and the length are those of the text.
    unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
}
