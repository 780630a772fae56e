//! The switch: frames in and out of the hosts' devices, and the network between them in real time.
//!
//! | part | what it is |
//! | --- | --- |
//! | `sys` | the ring that the kernel puts frames into, and the socket that they leave by |
//! | `frame`, `segment` | what is read and changed in frames; large ones become packets |
//! | `forward` | the network: frames in with the time at which they came, out with the time at which they are due |
//! | `engine` | the thread: takes, advances, sends, waits |
//!
//! The network uses the kernel's receive timestamps, not the times when the thread sees the frames. A delayed thread makes frames
//! late, which is recorded, but does not change what queues do.

mod buffers;
mod clock;
mod engine;
mod forward;
mod frame;
mod lateness;
mod priority;
mod segment;
mod sys;
#[cfg(test)]
mod tests;

pub mod capture;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use knee_netns::Namespace;
use knee_queue::ETHERNET_BYTES;
use knee_queue::time::{Duration, Time};
use knee_run::outcome::{QueueOutcome, QueueSample};
use knee_run::spec::{LinkId, Network, NodeId};
use knee_sim::fabric::Offered;
use rustix::event::{EventfdFlags, eventfd};

use crate::Error;
use crate::error::failed;
use crate::plan::Plan;
use crate::site::Site;
use capture::Captures;
use engine::{Engine, Tap};
use forward::Forwarder;
pub use lateness::Lateness;
use segment::OFFLOAD_BYTES;
use sys::{Outlet, Ring};

/// Memory of the ring: full packets of 1 Gbps in 190 ms, or 256 large frames.
const RING_BYTES: usize = 32 << 20;
/// The largest frame of a host with segmentation offload: 64 KiB and the Ethernet header.
const LARGE_FRAME_BYTES: usize = (1 << 16) + frame::ETHERNET_BYTES;

/// Settings of a switch.
#[derive(Clone, Debug)]
pub struct SwitchConfig {
    /// Seed of loss, jitter and queue disciplines.
    pub seed: u64,
    /// Links whose queues are sampled and reported.
    pub sampled: Vec<LinkId>,
    /// Period of the samples.
    pub sample: Option<Duration>,
    /// When the measured window begins, and when it ends.
    pub window: Option<[Time; 2]>,
    /// CPU of its thread.
    pub cpu: Option<usize>,
    /// Whether it logs each decision of its queues.
    pub log: bool,
    /// Whether hosts hand over frames larger than a packet.
    pub large_frames: bool,
    /// Where to write a capture of each port.
    pub captures: Option<PathBuf>,
}

/// A device of the switch, and the host behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Number of the device, in the switch's namespace.
    pub device: u32,
    /// The host's node in the network.
    pub node: NodeId,
    /// Address of the host's own device.
    pub mac: [u8; 6],
}

/// A switch at work, in a thread of its own.
pub struct Switch {
    stop: Arc<AtomicBool>,
    /// Shared with [`Engine::window_until_ns`].
    window_until_ns: Arc<AtomicU64>,
    /// Wakes the thread.
    wake: std::os::fd::OwnedFd,
    thread: Option<JoinHandle<Result<SwitchReport, Error>>>,
}

impl Switch {
    /// Starts one on the ports of a site. It forwards at once; its time 0 is `zero_ns` of CLOCK_MONOTONIC, and what it does before
    /// counts as time 0.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn start(
        plan: &Plan,
        site: &Site,
        config: SwitchConfig,
        zero_ns: u64,
    ) -> Result<Switch, Error> {
        let hosts = plan.hosts.iter().zip(site.ports());
        let port = |(host, device): (&crate::plan::Host, &u32)| Port {
            device: *device,
            node: host.node,
            mac: host.mac,
        };
        let ports: Vec<Port> = hosts.map(port).collect();
        Switch::start_on(&plan.network, &ports, site.switch(), config, zero_ns)
    }

    /// Starts one on devices of any namespace. It takes the frames of all devices there.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn start_on(
        network: &Network,
        ports: &[Port],
        namespace: &Namespace,
        config: SwitchConfig,
        zero_ns: u64,
    ) -> Result<Switch, Error> {
        let hosts = || network.nodes.iter().filter_map(|node| node.host.as_ref());
        let mtu_bytes = hosts().map(|host| host.mtu_bytes + ETHERNET_BYTES).max().unwrap_or(0);
        let packet_bytes = mtu_bytes as usize + OFFLOAD_BYTES;
        let frame_bytes = if config.large_frames { LARGE_FRAME_BYTES } else { packet_bytes };
        // Sockets belong to the namespace of the thread that makes them.
        let (ring, outlet) = namespace
            .run(move || Ok((Ring::new(frame_bytes, RING_BYTES)?, Outlet::new()?)))
            .map_err(|why: std::io::Error| {
                Error::Failed(format!("packet sockets of the switch: {why}; they take CAP_NET_RAW"))
            })?;
        // Before time 0 it forwards, too: its own time begins now.
        let origin_ns = clock::now_ns().min(zero_ns);
        let zero = Time::from_ns(zero_ns - origin_ns);
        let wake = eventfd(0, EventfdFlags::CLOEXEC).map_err(failed("an eventfd"))?;
        let stop = Arc::new(AtomicBool::new(false));
        let window_until_ns = Arc::new(AtomicU64::new(u64::MAX));
        let engine = Engine {
            ring,
            outlet,
            origin_ns,
            cpu: config.cpu,
            stop: Arc::clone(&stop),
            window_until_ns: Arc::clone(&window_until_ns),
            wake: wake.try_clone().map_err(failed("an eventfd"))?,
            tap: tap(network, ports, &config, zero_ns)?,
        };
        let (tell, told) = mpsc::channel();
        let (network, ports) = (network.clone(), ports.to_vec());
        // The network cannot move from thread to thread.
        let work = move || {
            let forwarder = Forwarder::new(&network, &ports, &config, packet_bytes, zero);
            let made = forwarder.and_then(|forwarder| engine.settle_in().map(|()| forwarder));
            // The starting thread waits.
            let _ = tell.send(made.as_ref().map(|_| ()).map_err(Clone::clone));
            engine.run(made?)
        };
        let thread = thread::Builder::new().name("knee-switch".to_owned());
        let thread = thread.spawn(work).map_err(failed("the thread of the switch"))?;
        told.recv().map_err(failed("the thread of the switch"))??;
        Ok(Switch { stop, window_until_ns, wake, thread: Some(thread) })
    }

    /// A function that ends the measured window when called, if it has begun and not ended: the applications are done, and
    /// later packets do not count.
    pub fn end_of_window(&self) -> impl FnOnce() + Send + 'static {
        let until_ns = Arc::clone(&self.window_until_ns);
        move || until_ns.store(clock::now_ns(), Ordering::Relaxed)
    }

    /// Stops it and hands over what it recorded. What is on its way is lost.
    ///
    /// # Errors
    /// If it failed on the way.
    pub fn stop(mut self) -> Result<SwitchReport, Error> {
        match self.halt() {
            Some(Ok(report)) => report,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Err(Error::Failed("the switch was stopped before".to_owned())),
        }
    }

    fn halt(&mut self) -> Option<thread::Result<Result<SwitchReport, Error>>> {
        self.stop.store(true, Ordering::Relaxed);
        // If it fails, the thread wakes up by itself soon.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        self.thread.take().map(JoinHandle::join)
    }
}

/// Captures, if they are asked for.
fn tap(
    network: &Network,
    ports: &[Port],
    config: &SwitchConfig,
    zero_ns: u64,
) -> Result<Option<Tap>, Error> {
    let Some(dir) = &config.captures else { return Ok(None) };
    let names: Vec<&str> =
        ports.iter().map(|port| network.nodes[port.node as usize].name.as_str()).collect();
    let devices = ports.iter().enumerate().map(|(number, port)| (port.device, number));
    Ok(Some(Tap { captures: Captures::create(dir, &names)?, ports: devices.collect(), zero_ns }))
}

impl Drop for Switch {
    fn drop(&mut self) {
        let _ = self.halt();
    }
}

/// Records of a switch.
#[derive(Clone, Debug, Default)]
pub struct SwitchReport {
    /// Figures of the sampled links.
    pub queues: Vec<QueueOutcome>,
    pub queue_samples: Vec<QueueSample>,
    /// Figures of the sampled links at the beginning of the measured window, and at its end.
    pub window: Option<[Vec<QueueOutcome>; 2]>,
    /// Lateness of the frames that left.
    pub lateness: Lateness,
    /// Frames missing in the captures because the disk was too slow.
    pub captures_left_out: u64,
    /// Frames that came in.
    pub frames: u64,
    /// Frames that were no packet of a host to another: neighbour discovery and the like.
    pub foreign_frames: u64,
    /// Frames that did not fit into the ring, by the kernel's count: the switch was away too long. Frames longer than what hosts
    /// are configured to send are among them.
    pub ring_dropped: u64,
    /// Packets dropped because 256 MiB of others were in the switch.
    pub without_room: u64,
    /// Frames that a device did not take.
    pub send_failed: u64,
    /// CPU time of its thread, s.
    pub cpu_s: f64,
    /// Running time, s.
    pub wall_s: f64,
    /// Time with frames to take or send, s; otherwise the thread polls or sleeps.
    pub busy_s: f64,
    /// Whether it went before all ordinary threads of the host and kept its memory. Where the scheduler has autogroups
    /// (sched_autogroup_enabled), that takes a process with one of its own: one that has called setsid.
    pub hurried: bool,
    /// Each decision of a queue, if [`SwitchConfig::log`] is set; times before time 0 are time 0.
    pub log: Vec<Offered>,
}
