//! The switch, the filter and the counts, in memory that the programs share: `struct cc_trace`.

use std::os::fd::AsFd as _;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use knee_flight::Ending;
use libbpf_rs::{MapCore as _, MapHandle};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::time::{ClockId, clock_gettime};

use super::TraceFilter;
use crate::Error;

/// The section, and so the map, of record.h.
pub(super) const MAP: &str = ".data.trace";
/// For so long the programs record without hearing from the tracer.
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

/// The map, mapped into this process.
pub(super) struct Control {
    shared: NonNull<Shared>,
}

/// The right to record until some moment; its value is that moment.
pub(super) struct Lease(u64);

impl Control {
    pub(super) fn of(map: &MapHandle) -> Result<Control, Error> {
        if map.value_size() as usize != size_of::<Shared>() {
            return Err(Error::BadObject {
                what:
                    "its switch for traces is not this version's: another version of knee loaded it"
                        .to_owned(),
            });
        }
        let flags = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, whose pages nothing else in this process uses; the kernel refuses it
        // unless the map holds as many bytes.
        let mapped = unsafe {
            mmap(std::ptr::null_mut(), size_of::<Shared>(), flags, MapFlags::SHARED, map.as_fd(), 0)
        };
        let mapped = mapped.map_err(|why| Error::Read {
            what: "the switch of an algorithm's traces",
            source: why.into(),
        })?;
        let shared = NonNull::new(mapped.cast::<Shared>()).expect("nothing is mapped at 0");
        Ok(Control { shared })
    }

    fn shared(&self) -> &Shared {
        // SAFETY: it is mapped until `self` is dropped, aligned to a page, and all atomic.
        unsafe { self.shared.as_ref() }
    }

    /// Becomes the one tracer, if there is none or its lease is over. The lease itself is what two
    /// that try at once fight for, so one of them wins.
    pub(super) fn take_lease(&self, name: &str) -> Result<Lease, Error> {
        let shared = self.shared();
        let found = shared.lease_ns.load(Ordering::SeqCst);
        let until = lease_from_now();
        let traced = || Error::Traced {
            name: name.to_owned(),
            process: shared.owner.load(Ordering::SeqCst),
        };
        if found > now_ns() {
            return Err(traced());
        }
        let swapped =
            shared.lease_ns.compare_exchange(found, until, Ordering::SeqCst, Ordering::SeqCst);
        swapped.map_err(|_| traced())?;
        shared.owner.store(std::process::id().into(), Ordering::SeqCst);
        Ok(Lease(until))
    }

    /// Makes the lease last longer; false if it is another's by now.
    pub(super) fn renew(&self, lease: &mut Lease) -> bool {
        let until = lease_from_now();
        let lease_ns = &self.shared().lease_ns;
        let renewed =
            lease_ns.compare_exchange(lease.0, until, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if renewed {
            lease.0 = until;
        }
        renewed
    }

    /// Gives the lease back, if it is still this one.
    pub(super) fn give_back(&self, lease: &Lease) {
        let shared = self.shared();
        shared.owner.store(0, Ordering::SeqCst);
        let _ = shared.lease_ns.compare_exchange(lease.0, 0, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Makes sure that it is off, and that nothing that was recorded so far counts any more.
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

    /// On, with the filter and the numbers of sockets as they are.
    pub(super) fn resume(&self) {
        self.shared().state.store(ON, Ordering::SeqCst);
    }

    /// Whether it is off, as the programs make it when the lease is over.
    pub(super) fn is_off(&self) -> bool {
        self.shared().state.load(Ordering::SeqCst) == OFF
    }

    /// No new records; calls that are being recorded go on.
    pub(super) fn close(&self) {
        self.shared().state.store(CLOSING, Ordering::SeqCst);
    }

    pub(super) fn switch_off(&self) {
        self.shared().state.store(OFF, Ordering::SeqCst);
    }

    /// All that was ever lost.
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

impl Drop for Control {
    fn drop(&mut self) {
        // SAFETY: mapped by `of` with this length, and no reference to it is left.
        let _ = unsafe { munmap(self.shared.as_ptr().cast(), size_of::<Shared>()) };
    }
}

/// The clock of the programs' `bpf_ktime_get_ns`.
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
    use std::mem::offset_of;

    #[test]
    fn the_mirror_has_the_layout_that_the_programs_use() {
        crate::trace::raw::assert_layout(
            "cc_trace",
            size_of::<Shared>(),
            crate::trace::raw::offsets!(Shared:
                state, family, owner, lease_ns, number, flows, local_port, remote_port, remote,
                remote_mask, lost_ring_full, lost_no_memory, lost_nested, lost_interrupted),
        );
    }
}
