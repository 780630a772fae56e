//! The thread of the switch.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use knee_queue::time::{Duration, Time};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::Timespec;

use super::SwitchReport;
use super::capture::Captures;
use super::clock::{self, Offset};
use super::forward::Forwarder;
use super::lateness::Late;
use super::priority::Priority;
use super::segment::{OFFLOAD_BYTES, Offload};
use super::sys::{BATCH, Outlet, Ring};
use crate::Error;
use crate::error::failed;

/// Frames that are taken from the ring before those that are due are sent.
const TAKE: usize = 64;
/// Time to wake up, ns: the thread polls for events that are nearer.
const AWAKE_NS: u64 = 60_000;
/// Time of polling after each frame, ns.
const AWAKE_AFTER_FRAME_NS: u64 = 200_000;
/// Longest sleep, ns.
const SLEEP_NS: u64 = 100_000_000;

/// The switch's thread: sockets, clock and signals.
pub(super) struct Engine {
    pub(super) ring: Ring,
    pub(super) outlet: Outlet,
    /// Time 0 of the forwarder on CLOCK_MONOTONIC, ns.
    pub(super) origin_ns: u64,
    pub(super) cpu: Option<usize>,
    pub(super) stop: Arc<AtomicBool>,
    /// When the measured window ends at the latest, on CLOCK_MONOTONIC, ns; `u64::MAX`: as it was to.
    pub(super) window_until_ns: Arc<AtomicU64>,
    /// Readable when it is to stop.
    pub(super) wake: OwnedFd,
    /// Captures of the ports, if wanted.
    pub(super) tap: Option<Tap>,
}

/// Captures of the ports.
pub(super) struct Tap {
    pub(super) captures: Captures,
    /// Ports by device.
    pub(super) ports: HashMap<u32, usize>,
    /// Time 0 of the run on CLOCK_MONOTONIC, ns.
    pub(super) zero_ns: u64,
}

impl Tap {
    /// A frame has left a host.
    fn came(&mut self, device: u32, bytes: &[u8], monotonic_ns: u64) {
        if let Some(port) = self.ports.get(&device) {
            self.captures.frame_in(*port, bytes, monotonic_ns.saturating_sub(self.zero_ns));
        }
    }

    /// A frame, behind the bytes of its offloads, leaves the switch.
    fn left(&mut self, device: u32, carried: &[u8], monotonic_ns: u64) {
        if let Some(port) = self.ports.get(&device) {
            let bytes = carried.get(OFFLOAD_BYTES..).unwrap_or_default();
            self.captures.frame_out(*port, bytes, monotonic_ns.saturating_sub(self.zero_ns));
        }
    }
}

/// Counters of the thread.
struct Work {
    forwarder: Forwarder,
    offset: Offset,
    late: Late,
    send_failed: u64,
    ring_dropped: u64,
    last_frame_ns: u64,
    busy_ns: u64,
}

impl Work {
    fn report(self, (cpu_ns, wall_ns): (u64, u64), hurried: bool) -> SwitchReport {
        let counts = self.forwarder.counts;
        let recorded = self.forwarder.finish();
        SwitchReport {
            queues: recorded.queues,
            queue_samples: recorded.samples,
            window: recorded.window,
            lateness: self.late.report(),
            frames: counts.frames,
            foreign_frames: counts.foreign,
            ring_dropped: self.ring_dropped + counts.cut_off,
            without_room: counts.without_room,
            send_failed: self.send_failed,
            cpu_s: cpu_ns as f64 / 1e9,
            wall_s: wall_ns as f64 / 1e9,
            busy_s: self.busy_ns as f64 / 1e9,
            hurried,
            captures_left_out: 0,
            log: recorded.log,
        }
    }
}

impl Engine {
    /// Runs until `stop` is set.
    pub(super) fn run(mut self, forwarder: Forwarder) -> Result<SwitchReport, Error> {
        let priority = Priority::raise();
        let (started_ns, cpu_ns) = (clock::now_ns(), clock::thread_cpu_ns());
        let mut work = Work {
            forwarder,
            offset: Offset::new(),
            late: Late::new(),
            send_failed: 0,
            ring_dropped: 0,
            last_frame_ns: 0,
            busy_ns: 0,
        };
        while !self.stop.load(Ordering::Relaxed) {
            self.turn(&mut work)?;
        }
        work.ring_dropped += self.ring.dropped().map_err(failed("the ring's counts"))?;
        let wall_ns = clock::now_ns() - started_ns;
        let cpu_ns = clock::thread_cpu_ns() - cpu_ns;
        let captured = self.tap.take().map(|tap| tap.captures.finish()).transpose()?;
        let mut report = work.report((cpu_ns, wall_ns), priority.is_first);
        report.captures_left_out = captured.map_or(0, |counts| counts.left_out);
        Ok(report)
    }

    /// Takes this thread to its CPU.
    pub(super) fn settle_in(&self) -> Result<(), Error> {
        if let Some(cpu) = self.cpu {
            if cpu >= CpuSet::MAX_CPU {
                return Err(Error::Failed(format!(
                    "the switch cannot run on CPU {cpu}: this machine has no such CPU"
                )));
            }
            let mut set = CpuSet::new();
            set.set(cpu);
            let what = format!("the switch cannot run on CPU {cpu}");
            sched_setaffinity(None, &set).map_err(failed(what))?;
        }
        Ok(())
    }

    fn turn(&mut self, work: &mut Work) -> Result<(), Error> {
        let now_ns = clock::now_ns();
        work.offset.refresh(now_ns);
        let window_until_ns = self.window_until_ns.load(Ordering::Relaxed);
        if window_until_ns <= now_ns {
            work.forwarder.end_window(self.time_of(window_until_ns));
        }
        let taken = self.take_frames(work);
        if taken > 0 {
            work.last_frame_ns = now_ns;
        }
        // What waits in the ring came before now: the network goes on only as far as it is known.
        if taken < TAKE {
            work.forwarder.advance(self.time_of(clock::now_ns()));
        }
        let has_due = work.forwarder.has_due();
        if has_due {
            self.send_due(work);
        }
        if has_due || taken > 0 {
            work.busy_ns += clock::now_ns() - now_ns;
            return Ok(());
        }
        self.wait(work)
    }

    /// The forwarder's time at a moment of CLOCK_MONOTONIC.
    fn time_of(&self, monotonic_ns: u64) -> Time {
        Time::from_ns(monotonic_ns.saturating_sub(self.origin_ns))
    }

    fn take_frames(&mut self, work: &mut Work) -> usize {
        let Engine { ring, origin_ns, tap, .. } = self;
        let Work { forwarder, offset, .. } = work;
        let mut taken = 0;
        while taken < TAKE {
            let next = ring.next(|frame| {
                if frame.is_cut_off {
                    forwarder.counts.cut_off += 1;
                    return;
                }
                let monotonic_ns = offset.monotonic_ns(frame.realtime_ns);
                let at = Time::from_ns(monotonic_ns.saturating_sub(*origin_ns));
                if let Some(tap) = tap {
                    tap.came(frame.device, frame.bytes, monotonic_ns);
                }
                let offload = Offload::from_bytes(frame.offload);
                forwarder.take(frame.device, offload, frame.bytes, at);
            });
            if next.is_none() {
                break;
            }
            taken += 1;
        }
        taken
    }

    /// Sends what is through, as many as one call takes. Within it they go one after the other: each counts as sent when its
    /// share of the call begins.
    fn send_due(&mut self, work: &mut Work) {
        let mut frames: [(&[u8], u32); BATCH] = [(&[], 0); BATCH];
        let mut count = 0;
        for (place, frame) in frames.iter_mut().zip(work.forwarder.due(BATCH)) {
            *place = frame;
            count += 1;
        }
        let begun_ns = clock::now_ns();
        match self.outlet.send(&frames[..count]) {
            Ok(sent) => {
                if let Some(tap) = &mut self.tap {
                    let sent = frames[..sent].iter();
                    sent.for_each(|(carried, device)| tap.left(*device, carried, begun_ns));
                }
                let each_ns = (clock::now_ns() - begun_ns) / sent.max(1) as u64;
                let mut turn_ns = begun_ns.saturating_sub(self.origin_ns);
                let Work { forwarder, late, .. } = work;
                forwarder.forget_due(sent, |due| {
                    late.record_ns(Time::from_ns(turn_ns).since(due).ns());
                    turn_ns += each_ns;
                });
            }
            // It is about the first; the others may go.
            Err(_) => {
                work.send_failed += 1;
                work.forwarder.forget_due(1, |_| {});
            }
        }
    }

    /// Waits for a frame or the next event; sleeps if the event is far off, otherwise polls.
    fn wait(&mut self, work: &mut Work) -> Result<(), Error> {
        let now_ns = clock::now_ns();
        if now_ns - work.last_frame_ns < AWAKE_AFTER_FRAME_NS {
            std::hint::spin_loop();
            return Ok(());
        }
        let now = self.time_of(now_ns);
        let next = work.forwarder.next_event(now + Duration::from_ns(SLEEP_NS));
        let sleep_ns = next.map_or(SLEEP_NS, |next| next.since(now).ns());
        if sleep_ns <= AWAKE_NS {
            std::hint::spin_loop();
            return Ok(());
        }
        // The kernel's count is of 32 bits.
        work.ring_dropped += self.ring.dropped().map_err(failed("the ring's counts"))?;
        let sleep_ns = (sleep_ns - AWAKE_NS).min(SLEEP_NS);
        let timeout = Timespec { tv_sec: 0, tv_nsec: sleep_ns as _ };
        let mut sources =
            [PollFd::new(&self.ring, PollFlags::IN), PollFd::new(&self.wake, PollFlags::IN)];
        match poll(&mut sources, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(why) => Err(failed("waiting for frames")(why)),
        }
    }
}
