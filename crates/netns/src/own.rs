//! A namespace that lives as long as its value.

use std::io;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use rustix::thread::{UnshareFlags, gettid, unshare_unsafe};

type Job = Box<dyn FnOnce() + Send>;

/// A thread in a network namespace of its own. The namespace has no name and no file: it is gone
/// with this value and the sockets that were opened in it, in whatever way the process ends.
pub struct Namespace {
    tid: i32,
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Namespace {
    /// Makes one; its only device is a loopback that is down.
    ///
    /// # Errors
    /// What the kernel answers: it takes CAP_SYS_ADMIN.
    pub fn new() -> io::Result<Namespace> {
        let (jobs, todo) = mpsc::channel::<Job>();
        let (tell, told) = mpsc::channel();
        let builder = thread::Builder::new().name("knee-netns".to_owned());
        let thread = builder.spawn(move || {
            // SAFETY: it changes the network namespace of this thread alone, not its files.
            let made = unsafe { unshare_unsafe(UnshareFlags::NEWNET) }
                .map(|()| gettid().as_raw_nonzero().get());
            let failed = made.is_err();
            let _ = tell.send(made);
            if !failed {
                for job in todo {
                    job();
                }
                release_congestion_control();
            }
        })?;
        let tid = told.recv().map_err(io::Error::other)??;
        Ok(Namespace { tid, jobs: Some(jobs), thread: Some(thread) })
    }

    /// The thread that is in it, for commands that name a namespace by a process.
    pub fn tid(&self) -> i32 {
        self.tid
    }

    /// Runs `job` inside and waits for it. Processes that it starts are inside, too.
    ///
    /// # Panics
    /// If `job` does.
    pub fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        let (tell, told) = mpsc::channel();
        let job = Box::new(move || {
            // Nobody waits any more if the caller is gone.
            let _ = tell.send(job());
        });
        self.jobs.as_ref().expect("taken by drop only").send(job).expect("its thread lives");
        told.recv().expect("the job did not panic")
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.jobs.take());
        // A panic of that thread has been told by the job that failed.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Gives the namespace of this thread a default that no module and no BPF program holds. Linux was seen to keep a namespace after
/// its last process, for a request socket that still referred to it, and with it the algorithm of its connections.
fn release_congestion_control() {
    // Where it fails, the algorithm stays until the namespace goes.
    let _ = std::fs::write("/proc/sys/net/ipv4/tcp_congestion_control", "reno");
}
