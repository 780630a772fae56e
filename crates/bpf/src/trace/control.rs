//! The switch, the filter and the counts, in memory shared with the programs: `struct cc_trace`.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use knee_flight::Ending;
use libbpf_rs::{MapCore as _, MapHandle};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::time::{ClockId, clock_gettime};

use super::TraceFilter;
use super::raw::{Mirror, mirror};
use crate::Error;

/// The section, and so the map, of record.h.
pub(crate) const MAP: &str = ".data.trace";
/// The time for which the programs record without a sign from the tracer.
const LEASE: Duration = Duration::from_secs(2);

/// Values of `state`.
const OFF: u32 = 0;
const ON: u32 = 1;
const CLOSING: u32 = 2;

/// `struct cc_trace` of record.h.
#[repr(C)]
pub(super) struct Shared {
    state: AtomicU32,
    family: AtomicU32,
    owner: AtomicU64,
    lease_ns: AtomicU64,
    number: AtomicU64,
    flows: AtomicU64,
    local_port: AtomicU32,
    remote_port: AtomicU32,
    remote: [AtomicU32; 4],
    remote_mask: [AtomicU32; 4],
    lost_ring_full: AtomicU64,
    lost_no_memory: AtomicU64,
    lost_nested: AtomicU64,
    lost_interrupted: AtomicU64,
}

pub(super) const MIRROR: Mirror = mirror!("cc_trace", Shared:
    state, family, owner, lease_ns, number, flows, local_port, remote_port, remote, remote_mask,
    lost_ring_full, lost_no_memory, lost_nested, lost_interrupted);

/// The map, mapped into this process.
pub(super) struct Control {
    shared: NonNull<Shared>,
}

/// The right to record for some time. Dropping the value gives it back.
pub(super) struct Lease {
    control: Control,
    /// The end of the lease, in ns, which also tells it from all other leases.
    until_ns: u64,
}

impl Control {
    pub(super) fn of(map: &MapHandle) -> Result<Control, Error> {
        if map.value_size() as usize != size_of::<Shared>() {
            return Err(Error::BadObject {
                what:
                    "its switch for traces is not this version's: another version of knee loaded it"
                        .to_owned(),
            });
        }
        Control::at(map.as_fd()).map_err(|why| Error::Read {
            what: "the switch of an algorithm's traces",
            source: why.into(),
        })
    }

    /// Maps memory of the size of [`Shared`].
    fn at(memory: BorrowedFd<'_>) -> rustix::io::Result<Control> {
        let flags = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the mapping is new, and this process uses its pages only as atomics.
        let mapped = unsafe {
            mmap(std::ptr::null_mut(), size_of::<Shared>(), flags, MapFlags::SHARED, memory, 0)?
        };
        let shared = NonNull::new(mapped.cast::<Shared>()).expect("nothing is mapped at 0");
        Ok(Control { shared })
    }

    fn shared(&self) -> &Shared {
        // SAFETY: the memory is mapped until `self` is dropped, aligned to a page, and all atomic.
        unsafe { self.shared.as_ref() }
    }

    /// Becomes the only tracer, if there is none or its lease is over. Simultaneous callers compete
    /// for the lease with one atomic exchange, so exactly one wins.
    pub(super) fn take_lease(self, name: &str) -> Result<Lease, Error> {
        let shared = self.shared();
        let found = shared.lease_ns.load(Ordering::SeqCst);
        let until_ns = lease_from_now();
        let traced = || Error::Traced {
            name: name.to_owned(),
            process: shared.owner.load(Ordering::SeqCst),
        };
        if found > now_ns() {
            return Err(traced());
        }
        let swapped =
            shared.lease_ns.compare_exchange(found, until_ns, Ordering::SeqCst, Ordering::SeqCst);
        swapped.map_err(|_| traced())?;
        // The owner is valid during the lease only, and is not cleared afterwards.
        shared.owner.store(std::process::id().into(), Ordering::SeqCst);
        Ok(Lease { control: self, until_ns })
    }

    /// Switches recording off, and makes all earlier records invalid.
    pub(super) fn begin(&self) {
        self.shared().state.store(OFF, Ordering::SeqCst);
        self.shared().number.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn switch_on(&self, filter: &TraceFilter) {
        let shared = self.shared();
        let set = |to: &AtomicU32, value: u32| to.store(value, Ordering::SeqCst);
        let (family, remote, mask) = filter.remote_words();
        set(&shared.family, family);
        for i in 0..4 {
            set(&shared.remote[i], remote[i]);
            set(&shared.remote_mask[i], mask[i]);
        }
        set(&shared.local_port, filter.local_port.unwrap_or(0).into());
        set(&shared.remote_port, filter.remote_port.unwrap_or(0).into());
        shared.flows.store(0, Ordering::SeqCst);
        self.resume();
    }

    /// Switches recording on, with the present filter and socket numbers.
    pub(super) fn resume(&self) {
        self.shared().state.store(ON, Ordering::SeqCst);
    }

    /// Whether recording is off. The programs switch it off when the lease is over.
    pub(super) fn is_off(&self) -> bool {
        self.shared().state.load(Ordering::SeqCst) == OFF
    }

    /// Stops new records; calls that are being recorded continue.
    pub(super) fn close(&self) {
        self.shared().state.store(CLOSING, Ordering::SeqCst);
    }

    pub(super) fn switch_off(&self) {
        self.shared().state.store(OFF, Ordering::SeqCst);
    }

    /// The total of records lost so far.
    pub(super) fn lost(&self) -> Ending {
        let shared = self.shared();
        let get = |from: &AtomicU64| from.load(Ordering::SeqCst);
        Ending {
            ring_full: get(&shared.lost_ring_full),
            no_memory: get(&shared.lost_no_memory),
            nested: get(&shared.lost_nested),
            interrupted: get(&shared.lost_interrupted),
        }
    }
}

impl Lease {
    pub(super) fn control(&self) -> &Control {
        &self.control
    }

    /// Extends the lease. Returns false if it was given back, or another process has it by now.
    pub(super) fn renew(&mut self) -> bool {
        let until_ns = lease_from_now();
        let renewed = self.swap(until_ns);
        if renewed {
            self.until_ns = until_ns;
        }
        renewed
    }

    /// Gives the lease back, if it is still this one.
    pub(super) fn give_back(&self) {
        self.swap(0);
    }

    fn swap(&self, until_ns: u64) -> bool {
        let lease_ns = &self.control.shared().lease_ns;
        lease_ns
            .compare_exchange(self.until_ns, until_ns, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // SAFETY: `of` mapped the memory with this length, and no reference to it is left.
        let _ = unsafe { munmap(self.shared.as_ptr().cast(), size_of::<Shared>()) };
    }
}

/// The clock of the programs' `bpf_ktime_get_ns`, in ns.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn lease_from_now() -> u64 {
    now_ns() + LEASE.as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use std::os::fd::OwnedFd;

    /// Makes memory for a test, like that of a map.
    fn memory() -> OwnedFd {
        let memory = memfd_create("control", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&memory, size_of::<Shared>() as u64).unwrap();
        memory
    }

    fn take(memory: &OwnedFd) -> Result<Lease, Error> {
        Control::at(memory.as_fd()).unwrap().take_lease("x")
    }

    #[test]
    fn a_lease_is_one_tracers_until_that_drops_it() {
        let memory = memory();
        let mut lease = take(&memory).unwrap();
        assert!(lease.renew());
        let process = u64::from(std::process::id());
        assert!(matches!(take(&memory), Err(Error::Traced { process: by, .. }) if by == process));
        drop(lease);
        let mut lease = take(&memory).unwrap();
        lease.give_back();
        assert!(!lease.renew());
        drop(take(&memory).unwrap());
    }

    #[test]
    fn what_is_anothers_by_now_is_left_alone() {
        let memory = memory();
        let mut late = take(&memory).unwrap();
        // The lease ended, and another process took it.
        let shared = late.control().shared();
        let until_ns = late.until_ns + 1;
        shared.lease_ns.store(until_ns, Ordering::SeqCst);
        shared.owner.store(1, Ordering::SeqCst);
        assert!(!late.renew());
        late.give_back();
        drop(late);
        assert!(matches!(take(&memory), Err(Error::Traced { process: 1, .. })));
    }
}
