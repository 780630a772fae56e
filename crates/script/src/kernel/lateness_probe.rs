//! Lateness of the kernel's coarse timers while a script plays: a thread waits on one again and again.
//!
//! TCP's timers are in the timer wheel, which advances with the ticks of a CPU. The script itself waits on high-resolution
//! timers, whose lateness differs; the timeout of a socket uses the timer wheel.

use std::io::{self, ErrorKind, Read as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration as StdDuration, Instant};

use knee_queue::time::Duration;

use super::sys;

/// A timeout of one jiffy ends with the second tick: the first may come at once.
const TICKS: u64 = 2;

/// The waiting thread; it ends when this is dropped.
pub(super) struct LatenessProbe {
    noted: Arc<Measured>,
    /// Peer of the socket that the thread reads from; dropping it ends the thread.
    peer: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

/// Measurements of the thread.
struct Measured {
    jiffy_ns: u64,
    started: Instant,
    /// Begin of the current wait, ns since the start.
    since_ns: AtomicU64,
    /// Largest lateness of finished waits, ns.
    late_ns: AtomicU64,
}

impl Measured {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn begin(&self) {
        self.since_ns.store(self.now_ns(), Ordering::Relaxed);
    }

    fn end(&self) {
        self.late_ns.fetch_max(self.overdue_ns(), Ordering::Relaxed);
    }

    /// Lateness of the current wait, ns.
    fn overdue_ns(&self) -> u64 {
        let lasted_ns = self.now_ns().saturating_sub(self.since_ns.load(Ordering::Relaxed));
        lasted_ns.saturating_sub(TICKS * self.jiffy_ns)
    }
}

impl LatenessProbe {
    /// Begins to wait, on the CPU of this thread and with its priority.
    pub(super) fn start(hz: u64) -> io::Result<LatenessProbe> {
        let jiffy_ns = 1_000_000_000 / hz;
        let (peer, mut waiting) = UnixStream::pair()?;
        waiting.set_read_timeout(Some(StdDuration::from_nanos(jiffy_ns)))?;
        let noted = Arc::new(Measured {
            jiffy_ns,
            started: Instant::now(),
            since_ns: AtomicU64::new(0),
            late_ns: AtomicU64::new(0),
        });
        let tells = Arc::clone(&noted);
        let thread = thread::Builder::new().name("lateness-probe".to_owned()).spawn(move || {
            let _hurry = sys::hurry();
            loop {
                tells.begin();
                match waiting.read(&mut [0]) {
                    Err(why) if why.kind() == ErrorKind::WouldBlock => tells.end(),
                    _ => return,
                }
            }
        })?;
        Ok(LatenessProbe { noted, peer: Some(peer), thread: Some(thread) })
    }

    /// Largest lateness of such a timer, including one that is overdue now.
    pub(super) fn late(&self) -> Duration {
        let ended_ns = self.noted.late_ns.load(Ordering::Relaxed);
        Duration::from_ns(self.noted.overdue_ns().max(ended_ns))
    }
}

impl Drop for LatenessProbe {
    fn drop(&mut self) {
        self.peer = None;
        if let Some(thread) = self.thread.take() {
            // Whether it panicked does not matter any more.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_within_its_ticks_is_not_late() {
        let started = Instant::now().checked_sub(StdDuration::from_millis(100)).unwrap();
        let now_ns = || u64::try_from(started.elapsed().as_nanos()).unwrap();
        let noted = Measured {
            jiffy_ns: 1_000_000_000,
            started,
            since_ns: AtomicU64::new(0),
            late_ns: AtomicU64::new(0),
        };
        assert_eq!(noted.overdue_ns(), 0);
        let noted = Measured { jiffy_ns: 4_000_000, ..noted };
        noted.end();
        let late_ns = noted.late_ns.load(Ordering::Relaxed);
        assert!((92_000_000..=now_ns() - 8_000_000).contains(&late_ns), "{late_ns}");
    }

    #[test]
    fn the_thread_waits_and_ends() {
        let lateness_probe = LatenessProbe::start(250).unwrap();
        // It has waited several times, however busy the machine is.
        let until = Instant::now() + StdDuration::from_secs(10);
        let since = || lateness_probe.noted.since_ns.load(Ordering::Relaxed);
        let mut seen = vec![since()];
        while seen.len() < 4 && Instant::now() < until {
            thread::sleep(StdDuration::from_millis(1));
            if seen.last() != Some(&since()) {
                seen.push(since());
            }
        }
        // A timeout never ends before its time.
        assert_eq!(seen.len(), 4);
        assert!(seen.windows(2).skip(1).all(|two| two[1] - two[0] >= 4_000_000), "{seen:?}");
        drop(lateness_probe);
    }
}
