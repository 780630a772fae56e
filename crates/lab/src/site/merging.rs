//! Receive merging (GRO) as on a real host: packets wait for each other for a while, and a thread of the kernel's, on the CPU of the
//! hosts, does all of a host's receiving work.
//!
//! Without that a veth hands each frame on as it comes, on the CPU that has sent it, and there is nothing to merge it with.
//! The device works like one that coalesces interrupts: after it has found something it looks again when `gro_flush_timeout`
//! is over. What it merges it keeps, while more comes each time, up to 64 KiB or a tick of the coarse clock.

use std::io;
use std::os::fd::OwnedFd;

use knee_netns::netlink::receive_threads;
use knee_queue::time::Duration;
use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use rustix::process::setpriority_process;
use rustix::thread::{CpuSet, Pid, sched_setaffinity};

use super::host::DEVICE;
use crate::Error;
use crate::error::failed;

/// Times in a row that a device may find nothing before it waits for a frame again.
const IDLE_LOOKS: &str = "1";
/// An interrupt would not wait for programs; and a veth has room for 256 frames until the thread comes to take them.
const NICE: i32 = -20;

/// Has the device of the calling thread's namespace, which is up and has GRO on, merge what comes within `window`. The thread
/// that does its receiving work, kept to `cpu`; `None`: the kernel does not tell which it is.
///
/// # Errors
/// If the kernel has no such thing.
pub(super) fn start(
    index: u32,
    window: Duration,
    cpu: Option<usize>,
) -> Result<Option<u32>, Error> {
    let sysfs = sysfs().map_err(failed("receive merging: the kernel does not mount sysfs"))?;
    let set = |name: &str, value: &str| {
        write(&sysfs, name, value).map_err(failed(format!(
            "receive merging: the kernel does not take {name} = {value} (Linux 5.12 or later); set hosts.gro_window = \"0\""
        )))
    };
    set("gro_flush_timeout", &window.ns().to_string())?;
    set("napi_defer_hard_irqs", IDLE_LOOKS)?;
    set("threaded", "1")?;
    let Some(thread) = receive_threads(index).ok().and_then(|threads| threads.first().copied())
    else {
        return Ok(None);
    };
    // In another PID namespace, the number may belong to another process, or to none.
    let name = std::fs::read_to_string(format!("/proc/{thread}/comm")).unwrap_or_default();
    if !name.starts_with("napi/") {
        return Ok(None);
    }
    let pid = Pid::from_raw(thread as i32);
    if let (Some(pid), Some(cpu)) = (pid, cpu.filter(|cpu| *cpu < CpuSet::MAX_CPU)) {
        let mut one = CpuSet::new();
        one.set(cpu);
        sched_setaffinity(Some(pid), &one).map_err(failed(format!(
            "receive merging: the kernel does not pin its thread to CPU {cpu}"
        )))?;
        setpriority_process(Some(pid), NICE).map_err(failed(
            "receive merging: the kernel does not raise the priority of its thread",
        ))?;
    }
    Ok(Some(thread))
}

/// Mounts a sysfs for the calling thread's namespace, without a path: /sys shows the devices of another namespace.
fn sysfs() -> io::Result<OwnedFd> {
    let sysfs = fsopen("sysfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&sysfs)?;
    Ok(fsmount(&sysfs, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?)
}

fn write(sysfs: &OwnedFd, name: &str, value: &str) -> io::Result<()> {
    let path = format!("class/net/{DEVICE}/{name}");
    let file = openat(sysfs, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, value.as_bytes())?;
    Ok(())
}
