//! Calls into code of files, which may crash, recurse or loop for ever: such a call is abandoned, and the run with it.
//!
//! A crash is a signal of the thread that makes the call. Its handler notes where the thread was and jumps to behind the call; the
//! sentence is made there, outside of the handler, which may not allocate. A call that does not return is found by a thread of its own,
//! which sends the same kind of signal; a call pays for that with a few stores. Only a call that is in the allocator cannot be
//! abandoned, as others wait for its lock: then the other thread makes the sentence, and the process ends.
//!
//! [Decision 17](../../../../docs/decisions/0017-a-file-that-crashes-ends-its-run.md) says why this and not processes.

use std::cell::{Cell, UnsafeCell};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::Once;
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
use std::time::Duration;

use super::Module;
use super::fault::{Cause, Fault, Place};

/// CPU time of one call. One takes a few microseconds at most.
pub(super) const MOST_CPU_S: u64 = 2;
/// How often the watchdog looks.
const LOOKS: Duration = Duration::from_millis(100);
/// How long a thread that cannot go on waits for the sentence about it.
const MOST_WAITS: u32 = 50;
/// What a frame may reach beyond the stack pointer; what is compiled here touches each page in its turn.
const NEAR_BYTES: usize = 64 << 10;
/// Less than this is no stack that has overflowed.
const DEEP_BYTES: usize = 128 << 10;
/// Words of the stack that are looked through for the caller of what is none of the file's.
const MOST_WORDS: usize = 4096;
/// What the watchdog sends. Nothing else does.
const LOOPS: c_int = libc::SIGVTALRM;
const SIGNALS: [c_int; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGABRT, LOOPS];

unsafe extern "C" {
    fn knee_guarded(
        env: *mut u64,
        calls: *mut u64,
        run: extern "C" fn(*mut c_void),
        data: *mut c_void,
    ) -> c_int;
    fn knee_abandon(env: *mut u64) -> !;
}

/// Where a copy of a file's code lies. It is never unloaded.
#[derive(Debug)]
pub(super) struct Code {
    /// What the addresses in its object begin from.
    pub(super) base: usize,
    /// The end of all of it, what is no code too.
    pub(super) object_end: usize,
    pub(super) begin: usize,
    pub(super) end: usize,
    /// Is not 0 while it allocates; null: it cannot.
    pub(super) is_allocating: *const u32,
    /// What it said of a condition that ends it; null: it says none.
    pub(super) said: *const std::ffi::c_char,
}

// SAFETY: the pointers are to variables of a copy that is never unloaded.
unsafe impl Sync for Code {}
// SAFETY: as above.
unsafe impl Send for Code {}

/// A thread that calls code of files. They are never freed, as a handler may be reading them.
struct Slot {
    next: *const Slot,
    /// 0: it has ended, and another may have this.
    thread: AtomicI32,
    /// Odd while a call is on: `knee_guarded` says from when until when.
    calls: AtomicU64,
    env: UnsafeCell<[u64; 64]>,
    /// An address in the frame that makes the call.
    stack: AtomicUsize,
    code: AtomicPtr<Code>,

    // For a sentence of somebody else's.
    module: AtomicPtr<Module>,
    operation: AtomicPtr<&'static str>,
    flow: AtomicU32,
    at_ns: AtomicU64,

    /// The call that the watchdog has given up.
    condemned: AtomicU64,
    signal: AtomicI32,
    pc: AtomicUsize,
    address: AtomicUsize,
    is_deep: AtomicBool,
    /// It cannot go on, and waits for the sentence.
    is_dying: AtomicBool,
    is_told: AtomicBool,
}

// SAFETY: `env` is its thread's alone; all else is atomic, or never written again.
unsafe impl Sync for Slot {}

static SLOTS: AtomicPtr<Slot> = AtomicPtr::new(null_mut());

fn slots() -> impl Iterator<Item = &'static Slot> {
    let first = SLOTS.load(Ordering::Acquire).cast_const();
    // SAFETY: null, or a slot that is never freed.
    std::iter::successors(unsafe { first.as_ref() }, |slot| unsafe { slot.next.as_ref() })
}

/// This thread's hold on its slot.
struct Own(&'static Slot);

impl Own {
    fn new() -> Own {
        install();
        // SAFETY: it has no arguments and cannot fail.
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
    /// Whether there is one: asking itself would make it.
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
            // SAFETY: nobody else knows it yet.
            unsafe { (*own).next = first };
            match SLOTS.compare_exchange(first, own, Ordering::AcqRel, Ordering::Acquire) {
                // SAFETY: it is never freed.
                Ok(_) => return unsafe { &*own },
                Err(now) => first = now,
            }
        }
    }

    fn is_in_call(&self) -> bool {
        self.calls.load(Ordering::Relaxed) % 2 == 1
    }

    /// What was noted of the end of its call.
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
        // SAFETY: null, or that of a copy that is never unloaded.
        unsafe { self.code.load(Ordering::Acquire).as_ref() }
    }

    /// The sentence about a thread that waits for it.
    fn fault(&self) -> Option<Fault> {
        self.fault_of(&self.cause(), Some(self.pc.load(Ordering::Relaxed)))
    }

    /// A sentence about its call, or the one that was its last.
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
        // SAFETY: null, or a variable of a copy that is never unloaded.
        !self.is_allocating.is_null() && unsafe { self.is_allocating.read_volatile() } != 0
    }

    /// What it said last of a condition that ends it.
    fn said(&self) -> Option<String> {
        if self.said.is_null() {
            return None;
        }
        // SAFETY: a text of the copy, which support.c ends with a zero.
        let said = unsafe { std::ffi::CStr::from_ptr(self.said) }.to_string_lossy();
        (!said.is_empty()).then(|| said.into_owned())
    }
}

/// Runs `run`, which calls the code of a file and has nothing to tidy up.
///
/// # Errors
/// How it failed; the copy of the file is not to be used again.
#[inline]
pub(super) fn call<R>(
    module: &Module,
    code: &'static Code,
    place: &Place,
    run: impl FnOnce() -> R,
) -> Result<R, Fault> {
    extern "C" fn in_c<R, F: FnOnce() -> R>(data: *mut c_void) {
        // SAFETY: what `call` has given, which outlives this.
        let (run, result) = unsafe { &mut *data.cast::<(Option<F>, Option<R>)>() };
        *result = run.take().map(|run| run());
    }
    fn in_c_of<R, F: FnOnce() -> R>(_: &(Option<F>, Option<R>)) -> extern "C" fn(*mut c_void) {
        in_c::<R, F>
    }
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
        // SAFETY: the buffer is this thread's; `in_c` gets what it expects. What is abandoned are frames of C, that of `in_c` and of
        // `run`, which by the promise of whoever calls this has nothing to tidy up.
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

/// This thread has called no code of files yet.
pub(super) fn forget_last() {
    if IS_OWN.get() {
        OWN.with(|own| own.0.module.store(null_mut(), Ordering::Relaxed));
    }
}

/// Whether it has since.
pub(super) fn has_called() -> bool {
    IS_OWN.get() && OWN.with(|own| !own.0.module.load(Ordering::Relaxed).is_null())
}

/// The sentence about what this thread called last, behind which the simulator ended with these words.
pub(super) fn last_call(said: String) -> Option<Fault> {
    has_called().then(|| OWN.with(|own| own.0.fault_of(&Cause::Simulator(said), None)))?
}

/// Where a stack overflows there is no room for its handler: threads of Rust's have another stack for that, others get one.
fn own_signal_stack() {
    const BYTES: usize = 64 << 10;
    // SAFETY: the structs are plain data; the memory is mapped, and stays while the thread may use it.
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

/// What was there before: for signals that are none of ours.
static BEFORE: [BeforeAction; SIGNALS.len()] =
    [const { BeforeAction(UnsafeCell::new(None)) }; SIGNALS.len()];

struct BeforeAction(UnsafeCell<Option<libc::sigaction>>);

// SAFETY: it is written before the handler that reads it is there.
unsafe impl Sync for BeforeAction {}

/// The handler and the watchdog, once.
fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        for (signal, before) in SIGNALS.iter().zip(&BEFORE) {
            // SAFETY: all zeros is a valid struct with an empty mask; the handler keeps to what is safe in a signal. On the alternative
            // stack, as a stack that has overflowed has no room; not masked meanwhile, as it may not return.
            unsafe {
                let mut old: libc::sigaction = std::mem::zeroed();
                libc::sigaction(*signal, std::ptr::null(), &raw mut old);
                *before.0.get() = Some(old);
                let mut action: libc::sigaction = std::mem::zeroed();
                let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_signal;
                action.sa_sigaction = handler as libc::sighandler_t;
                action.sa_flags =
                    libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_RESTART;
                libc::sigaction(*signal, &raw const action, null_mut());
            }
        }
        // Without a watchdog a loop is what it was.
        let _ = std::thread::Builder::new().name("watchdog".to_owned()).spawn(watch);
    });
}

/// Abandons the call that this thread is in, if it can be.
extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: it has no arguments and cannot fail.
    let thread = unsafe { libc::gettid() };
    let own = slots().find(|slot| slot.thread.load(Ordering::Relaxed) == thread);
    let Some(slot) = own.filter(|slot| slot.is_in_call()) else { return not_ours(signal) };
    let is_loop = signal == LOOPS;
    if is_loop && slot.condemned.load(Ordering::Relaxed) != slot.calls.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: what the kernel gives a handler.
    let (address, (pc, sp)) = unsafe { ((*info).si_addr().addr(), registers(context)) };
    let Some(code) = slot.code() else { return not_ours(signal) };
    let depth = slot.stack.load(Ordering::Relaxed).saturating_sub(sp);
    let is_deep =
        signal == libc::SIGSEGV && depth > DEEP_BYTES && sp.abs_diff(address) < NEAR_BYTES;
    // What it called may hold a lock; another look will find it elsewhere.
    if is_loop && !code.holds(pc) {
        return;
    }
    // What is none of the file's was called by it.
    let pc = match code.holds(pc) {
        true => pc,
        false => caller(code, sp, depth).unwrap_or(pc),
    };
    slot.signal.store(signal, Ordering::Relaxed);
    slot.pc.store(pc, Ordering::Relaxed);
    slot.address.store(address, Ordering::Relaxed);
    slot.is_deep.store(is_deep, Ordering::Relaxed);
    if signal != libc::SIGABRT && !code.is_allocating() {
        // SAFETY: the call is on, so its frame is there; nothing between here and there holds a lock.
        unsafe { knee_abandon(slot.env.get().cast()) }
    }
    // Another look will find it elsewhere.
    if is_loop {
        return;
    }
    slot.is_dying.store(true, Ordering::Release);
    let waits = libc::timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    for _ in 0..MOST_WAITS {
        if slot.is_told.load(Ordering::Acquire) {
            break;
        }
        // SAFETY: safe in a handler.
        unsafe { libc::nanosleep(&raw const waits, null_mut()) };
    }
    // SAFETY: safe in a handler, as is what follows.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// A signal outside of the code of files goes its way.
fn not_ours(signal: c_int) {
    let before = SIGNALS.iter().zip(&BEFORE).find(|(known, _)| **known == signal);
    if signal == LOOPS {
        return;
    }
    // SAFETY: safe in a handler. The instruction that failed is run again, and the handler of before gets its signal.
    unsafe {
        match before.and_then(|(_, before)| *before.0.get()) {
            Some(action) => libc::sigaction(signal, &raw const action, null_mut()),
            None => 0,
        };
        if signal == libc::SIGABRT {
            libc::raise(signal);
        }
    }
}

/// Where a thread was: instruction and stack pointer.
///
/// # Safety
/// `context` is what the kernel gives a handler.
unsafe fn registers(context: *mut c_void) -> (usize, usize) {
    // SAFETY: by the caller's word.
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

/// The return address nearest to the top of the stack that lies in the code.
fn caller(code: &Code, sp: usize, depth: usize) -> Option<usize> {
    let words = (depth / size_of::<usize>()).min(MOST_WORDS);
    let first: *const usize = std::ptr::with_exposed_provenance(sp);
    // SAFETY: from the stack pointer to the frame of `call` is this thread's stack.
    let word = |at: usize| unsafe { first.wrapping_add(at).read_volatile() };
    // Behind the call instruction.
    (0..words).map(word).find(|word| code.holds(*word)).map(|word| word - 1)
}

/// Looks for calls that do not return, and for threads that wait for a sentence.
fn watch() {
    // Slot, call, and the CPU time of its thread when it was first seen.
    let mut seen: Vec<(*const Slot, u64, u64)> = Vec::new();
    loop {
        std::thread::sleep(LOOKS);
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
                // SAFETY: a signal to a thread of this process, whose handler ignores it if the call is over.
                unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, LOOPS) };
            }
            Some((std::ptr::from_ref(slot), call, since))
        });
        seen = now.collect();
    }
}

/// The CPU time of a thread of this process.
fn cpu_ns(thread: i32) -> Option<u64> {
    // As pthread_getcpuclockid makes it, for a thread by its number: CPUCLOCK_SCHED of one thread.
    let clock = (!thread << 3) | 6;
    // SAFETY: all zeros is a valid struct; the clock is looked up by the kernel.
    unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        let got = libc::clock_gettime(clock, &raw mut time) == 0;
        got.then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }
}

fn tell(text: &str) {
    // SAFETY: a text of this length.
    unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
}
