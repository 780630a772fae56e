//! Two network namespaces joined by a veth pair, with a [`Path`] in each direction.
//!
//! A namespace here has no name and no file: it lives in the thread that made it and in its
//! sockets, so it is gone when they are, in whatever way the test ends.

use std::ffi::CString;
use std::fs;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd as _, AsRawFd};
use std::process::Command;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use libbpf_rs::{ObjectBuilder, TC_INGRESS, TcHookBuilder};

type Job = Box<dyn FnOnce() + Send>;

/// A thread in a network namespace of its own.
pub(crate) struct Namespace {
    tid: libc::pid_t,
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Namespace {
    pub(crate) fn new() -> io::Result<Namespace> {
        let (jobs, todo) = mpsc::channel::<Job>();
        let (tell, told) = mpsc::channel();
        let thread = thread::spawn(move || {
            // SAFETY: it changes the namespace of this thread, which does nothing else.
            let made = match unsafe { libc::unshare(libc::CLONE_NEWNET) } {
                // SAFETY: it only asks.
                0 => Ok(unsafe { libc::gettid() }),
                _ => Err(io::Error::last_os_error()),
            };
            tell.send(made).unwrap();
            for job in todo {
                job();
            }
        });
        let tid = told.recv().expect("it tells in any case")?;
        Ok(Namespace { tid, jobs: Some(jobs), thread: Some(thread) })
    }

    /// Runs `job` inside and waits for it.
    pub(crate) fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        let (tell, told) = mpsc::channel();
        let job = Box::new(move || tell.send(job()).unwrap());
        self.jobs.as_ref().unwrap().send(job).expect("the namespace's thread lives");
        told.recv().expect("the job did not panic")
    }

    fn ip(&self, arguments: String) {
        self.run(move || {
            let output = Command::new("ip").args(arguments.split(' ')).output().expect("iproute2");
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "ip {arguments}: {error}");
        });
    }

    fn sysctl(&self, key: &'static str, value: &str) {
        let value = value.to_owned();
        self.run(move || {
            let file = format!("/proc/sys/net/ipv4/{key}");
            fs::write(&file, &value).unwrap_or_else(|error| panic!("{file} = {value}: {error}"));
        });
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.jobs.take());
        // A panic of that thread has been told by the job that failed.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// How one direction treats its packets: see `path.bpf.c`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Path {
    pub(crate) mark_period: u32,
    pub(crate) mark_burst: u32,
    pub(crate) drop_period: u32,
    pub(crate) outage_at: u32,
    pub(crate) outage_ms: u32,
    pub(crate) count_acks: bool,
}

impl Path {
    /// Puts it on the ingress of `device` in the namespace of this thread.
    fn attach(self, device: &str) {
        let object = concat!(env!("OUT_DIR"), "/path.bpf.o");
        let mut open = ObjectBuilder::default().open_file(object).unwrap();
        let mut settings = open.maps_mut().find(|map| map.name() == ".rodata.path").unwrap();
        let values = [
            self.mark_period,
            self.mark_burst,
            self.drop_period,
            self.outage_at,
            self.outage_ms,
            u32::from(self.count_acks),
        ];
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        settings.initial_value_mut().unwrap().copy_from_slice(&bytes);
        let object = open.load().unwrap();
        let program = object.progs().next().unwrap();
        let device = CString::new(device).unwrap();
        // SAFETY: the name is a C string; it only asks.
        let index = unsafe { libc::if_nametoindex(device.as_ptr()) };
        let mut hook = TcHookBuilder::new(program.as_fd()).ifindex(index as i32).hook(TC_INGRESS);
        // The filter keeps the program; both go with the device.
        hook.create().unwrap().attach().unwrap();
    }
}

/// What a [`Pair`] needs and this machine lacks.
pub(crate) fn missing() -> Option<&'static str> {
    let Ok(namespace) = Namespace::new() else {
        return Some("network namespaces are refused here");
    };
    let works = |line: &'static str| {
        namespace.run(move || {
            let mut words = line.split(' ');
            let command = Command::new(words.next().unwrap()).args(words).output();
            command.is_ok_and(|output| output.status.success())
        })
    };
    if !works("ip link show") {
        Some("there is no ip (package iproute2)")
    } else if !works("ip link add knee-c type veth peer name knee-s") {
        Some("the kernel has no veth devices (CONFIG_VETH)")
    } else if !works("tc qdisc add dev knee-c clsact") {
        Some("the kernel has no clsact queue discipline (CONFIG_NET_SCH_INGRESS)")
    } else {
        None
    }
}

/// The two hosts.
pub(crate) struct Pair {
    pub(crate) client: Namespace,
    pub(crate) server: Namespace,
}

/// The server's address; the client has 10.99.0.1.
pub(crate) const SERVER: &str = "10.99.0.2";

impl Pair {
    /// Both hosts use `congestion_control` unless a socket says otherwise. Frames hold one segment
    /// each, so that a mark or a drop hits one.
    pub(crate) fn new(congestion_control: &str, to_server: Path, to_client: Path) -> Pair {
        let pair = Pair { client: Namespace::new().unwrap(), server: Namespace::new().unwrap() };
        let tid = pair.server.tid;
        pair.client.ip(format!(
            "link add knee-c gso_max_segs 1 type veth peer name knee-s gso_max_segs 1 netns {tid}"
        ));
        for (host, device, address, path) in [
            (&pair.client, "knee-c", "10.99.0.1/24", to_client),
            (&pair.server, "knee-s", "10.99.0.2/24", to_server),
        ] {
            host.ip("link set lo up".to_owned());
            host.ip(format!("addr add {address} dev {device}"));
            host.ip(format!("link set {device} up"));
            host.sysctl("tcp_ecn", "1");
            host.sysctl("tcp_congestion_control", congestion_control);
            host.run(move || path.attach(device));
        }
        pair
    }
}

/// Sets the congestion control of a socket.
pub(crate) fn choose(socket: &impl AsRawFd, name: &str) {
    // SAFETY: the pointer and the length are those of the name.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_ptr().cast(),
            name.len() as libc::socklen_t,
        )
    };
    assert_eq!(result, 0, "{name}: {}", io::Error::last_os_error());
}

/// The congestion control of a connection.
pub(crate) fn chosen(socket: &TcpStream) -> String {
    let mut name = [0_u8; 16];
    let mut len = 16;
    // SAFETY: the pointer and the length are those of the array.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
    String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned()
}
