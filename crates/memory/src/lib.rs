//! Counts the memory of runs, so that a run which takes too much ends with a sentence.
//!
//! A program that wants this makes [`Counting`] its global allocator. In any other program nothing is counted, and no
//! [`Budget`] is ever exceeded.
//!
//! What is as large as a huge page is mapped by itself, aligned to one, and the kernel is asked for them.
//!
//! Each thread counts for itself, and [`Budget::check`] collects the counts: an allocation costs an addition and a comparison.
//! Between two checks a list may double, so the largest possible excess is the memory in use.

mod huge;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicIsize};
use std::time::{Duration, Instant};

/// How long a run waits for the room that another one makes: that ends at its next check.
const MOST_WAIT: Duration = Duration::from_secs(30);

/// What a thread without a run may give back of what runs took before it counts, bytes: nobody else would count it.
const MOST_GIVEN_BACK: isize = 1 << 20;

thread_local! {
    /// Bytes that this thread has taken and not given back since its count was last collected.
    static TAKEN: Cell<isize> = const { Cell::new(0) };
    /// The least count that is not collected at once. A budget collects the counts of threads of runs.
    static LEAST: Cell<isize> = const { Cell::new(-MOST_GIVEN_BACK) };
}

/// Bytes that all threads have taken, as far as their counts were collected.
static ALL: AtomicIsize = AtomicIsize::new(0);

/// The system's allocator, with a count per thread, and with large memory in huge pages. If the system refuses memory, the process ends with a sentence.
#[derive(Clone, Copy, Debug)]
pub struct Counting;

// SAFETY: memory that is large by its layout is mapped and unmapped here; every other call is passed on to the system's allocator.
// Counting does not allocate: the thread's number is initialised at compile time and has no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let memory = match huge::is_large(layout) {
            true => huge::map(layout.size()),
            // SAFETY: the caller's layout is passed on.
            false => unsafe { System.alloc(layout) },
        };
        counted(memory, layout.size(), 0)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let memory = match huge::is_large(layout) {
            true => huge::map(layout.size()),
            // SAFETY: the caller's layout is passed on.
            false => unsafe { System.alloc_zeroed(layout) },
        };
        counted(memory, layout.size(), 0)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(0, layout.size());
        match huge::is_large(layout) {
            // SAFETY: with this layout the caller's memory was mapped.
            true => unsafe { huge::unmap(memory, layout.size()) },
            // SAFETY: with this layout the caller's memory came from the system's allocator.
            false => unsafe { System.dealloc(memory, layout) },
        }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the alignment is the caller's, who promises a size that does not overflow with it.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        let moved = match (huge::is_large(layout), huge::is_large(new)) {
            // SAFETY: with this layout the caller's memory came from the system's allocator.
            (false, false) => unsafe { System.realloc(memory, layout, size) },
            // SAFETY: with this layout the caller's memory was mapped.
            (true, true) => unsafe { huge::remap(memory, layout, size) },
            // SAFETY: both have at least the smaller size, and the old one is the caller's to give back.
            _ => unsafe {
                let moved = self.alloc(new);
                std::ptr::copy_nonoverlapping(memory, moved, size.min(layout.size()));
                self.dealloc(memory, layout);
                return moved;
            },
        };
        counted(moved, size, layout.size())
    }
}

#[inline]
fn count(more: usize, less: usize) {
    let taken = TAKEN.get().wrapping_add_unsigned(more).wrapping_sub_unsigned(less);
    TAKEN.set(taken);
    if taken < LEAST.get() {
        collect();
    }
}

#[inline]
fn counted(memory: *mut u8, more: usize, less: usize) -> *mut u8 {
    if memory.is_null() {
        refused(more);
    }
    count(more, less);
    memory
}

/// Ends the process without memory, locks or handlers: with them it might hang.
#[cold]
fn refused(bytes: usize) -> ! {
    let mut text = [0; 200];
    let mut rest = &mut text[..];
    let _ = writeln!(
        rest,
        "knee: the system gives this process no further {bytes} bytes of memory: free some, raise its limit \
         (ulimit -v), or run less"
    );
    let left = rest.len();
    let length = text.len() - left;
    // SAFETY: the call reads the bytes of `text`; nothing runs after the other one.
    unsafe {
        libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), length);
        libc::_exit(2)
    }
}

/// What the runs that go on at once may take together.
#[derive(Debug)]
pub struct Room {
    most_bytes: isize,
    /// Whether a run ends to make room, and has not given back its memory yet.
    is_being_made: AtomicBool,
}

impl Room {
    /// Room of so many bytes, besides what is in use.
    pub fn new(bytes: usize) -> Arc<Room> {
        collect();
        let most_bytes = ALL.load(Relaxed).saturating_add_unsigned(bytes);
        Arc::new(Room { most_bytes, is_being_made: AtomicBool::new(false) })
    }

    /// Notes what this thread has taken for other purposes than a run.
    pub fn note(&self) {
        collect();
    }

    /// Tells that a run which had to end has given back its memory.
    pub fn is_made(&self) {
        self.note();
        self.is_being_made.store(false, Relaxed);
    }
}

/// What one run may take, and has taken so far. Its threads share it.
#[derive(Debug)]
pub struct Budget {
    most_bytes: isize,
    taken: AtomicIsize,
    room: Arc<Room>,
    /// Whether the run takes too much by itself.
    is_own_exceeded: AtomicBool,
    /// Whether the run must end.
    is_exceeded: AtomicBool,
}

impl Budget {
    /// A budget of a run that starts on this thread.
    pub fn new(most_bytes: usize, room: &Arc<Room>) -> Arc<Budget> {
        collect();
        LEAST.set(isize::MIN);
        Arc::new(Budget {
            most_bytes: 0_isize.saturating_add_unsigned(most_bytes),
            taken: AtomicIsize::new(0),
            room: Arc::clone(room),
            is_own_exceeded: AtomicBool::new(false),
            is_exceeded: AtomicBool::new(false),
        })
    }

    /// Returns false if the run must end: with what it takes `soon` it exceeds its own budget, or all runs exceed their room and
    /// no other run is about to end for that.
    #[must_use]
    pub fn check(&self, soon: usize) -> bool {
        LEAST.set(isize::MIN);
        let new = collect();
        let taken = self.taken.fetch_add(new, Relaxed).wrapping_add(new);
        self.fits(taken, soon)
    }

    /// Returns false as [`Budget::check`]. Else so many bytes count as taken, and this thread must take them next: runs that begin
    /// together do not all see the same room. Waits while another run makes room.
    #[must_use]
    pub fn reserve(&self, bytes: usize) -> bool {
        if !self.check(0) {
            return false;
        }
        count(0, bytes);
        let more = 0_isize.saturating_add_unsigned(bytes);
        ALL.fetch_add(more, Relaxed);
        let taken = self.taken.fetch_add(more, Relaxed).wrapping_add(more);
        let end = Instant::now() + MOST_WAIT;
        while self.room.is_being_made.load(Relaxed)
            && exceeds(ALL.load(Relaxed), 0, self.room.most_bytes)
            && !self.is_exceeded()
            && Instant::now() < end
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.fits(taken, 0)
    }

    fn fits(&self, taken: isize, soon: usize) -> bool {
        if self.is_exceeded() {
            return false;
        }
        let is_own = exceeds(taken, soon, self.most_bytes);
        let is_exceeded = is_own
            || (exceeds(ALL.load(Relaxed), soon, self.room.most_bytes)
                && !self.room.is_being_made.swap(true, Relaxed));
        if is_exceeded {
            self.is_own_exceeded.store(is_own, Relaxed);
            self.is_exceeded.store(true, Relaxed);
        }
        !is_exceeded
    }

    /// Returns whether a check has failed.
    pub fn is_exceeded(&self) -> bool {
        self.is_exceeded.load(Relaxed)
    }

    /// Returns whether the run must end because it takes too much by itself.
    pub fn is_own_exceeded(&self) -> bool {
        self.is_own_exceeded.load(Relaxed)
    }
}

/// Collects the count of this thread, and returns it.
fn collect() -> isize {
    let new = TAKEN.take();
    ALL.fetch_add(new, Relaxed);
    new
}

fn exceeds(taken: isize, soon: usize, most: isize) -> bool {
    taken.saturating_add_unsigned(soon) > most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: Counting = Counting;

    /// One test, because all of them would share the room.
    #[test]
    fn a_run_ends_for_its_own_budget_or_makes_room_for_others() {
        const MB: usize = 1 << 20;
        let room = Room::new(10 * MB);
        let small = Budget::new(2 * MB, &room);
        assert!(small.check(0) && small.check(MB));
        let mut list = vec![1u8; MB];
        list.resize(3 * MB, 1);
        assert!(!small.check(0) && small.is_own_exceeded());
        drop(list);
        assert!(!small.check(0), "what is true once stays true");
        let [one, other] = [0; 2].map(|_| Budget::new(100 * MB, &room));
        let taken = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let list = vec![1u8; 11 * MB];
                (!one.check(0), list)
            });
            thread.join().unwrap()
        });
        assert!(taken.0 && !one.is_own_exceeded());
        assert!(other.check(0), "one makes room");
        // Whoever gives it back may be a thread that has no run, and never asks.
        std::thread::spawn(move || drop(taken)).join().unwrap();
        room.is_made();
        let reserved = Budget::new(100 * MB, &room);
        assert!(reserved.reserve(8 * MB));
        let fits = std::thread::scope(|scope| scope.spawn(|| other.check(3 * MB)).join().unwrap());
        assert!(!fits, "what is reserved counts at once");
        let list = vec![1u8; 8 * MB];
        room.is_made();
        assert!(reserved.check(0), "and once");
        drop(list);
        let other = Budget::new(100 * MB, &room);
        assert!(other.check(0) && !other.check(11 * MB));
    }

    /// This program again, which asks for more than there are addresses.
    #[test]
    fn what_the_system_refuses_ends_the_process_in_a_sentence() {
        const ASKS: &str = "KNEE_ASKS_FOR_MEMORY";
        if std::env::var(ASKS).is_ok() {
            drop(std::hint::black_box(Vec::<u8>::with_capacity(1 << 60)));
            return;
        }
        let mut child = std::process::Command::new(std::env::current_exe().expect("it runs"));
        let test = "tests::what_the_system_refuses_ends_the_process_in_a_sentence";
        let done = child.args(["--exact", test]).env(ASKS, "").output().expect("it runs again");
        let said = String::from_utf8_lossy(&done.stderr);
        let sentence = "knee: the system gives this process no further 1152921504606846976 bytes";
        assert!(done.status.code() == Some(2) && said.starts_with(sentence), "{said}");
    }
}
