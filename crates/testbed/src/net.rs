//! Two network namespaces joined by a veth pair, with a [`Path`] in each direction.
//!
//! The namespaces have no names and the BPF links are not pinned. The kernel therefore removes
//! everything when the test ends, even if it is killed.

use std::ffi::CString;
use std::fs;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd as _, AsRawFd};
use std::process::Command;

pub use knee_netns::Namespace;
use knee_netns::system_program;
use libbpf_rs::{ObjectBuilder, TC_EGRESS, TC_INGRESS, TcAttachPoint, TcHookBuilder};

pub fn ip(namespace: &Namespace, arguments: String) {
    namespace.run(move || {
        let ip = system_program("ip").expect("iproute2");
        let output = Command::new(ip).args(arguments.split(' ')).output().expect("iproute2");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "ip {arguments}: {error}");
    });
}

pub fn sysctl(namespace: &Namespace, key: &'static str, value: &str) {
    if key == DEFAULT {
        allow(value);
    }
    let value = value.to_owned();
    namespace.run(move || {
        let file = format!("/proc/sys/net/ipv4/{key}");
        fs::write(&file, &value).unwrap_or_else(|error| panic!("{file} = {value}: {error}"));
    });
}

/// Sets the default algorithm of a namespace.
pub fn set_default(namespace: &Namespace, name: &str) {
    sysctl(namespace, DEFAULT, name);
}

const DEFAULT: &str = "tcp_congestion_control";

/// Puts a name on the host's list of algorithms that every namespace may have, if it is missing there. The kernel keeps a reference, until
/// the next boot, to each algorithm that it refuses, so nothing is tried that it would refuse. Tests have run directories of their
/// own, and with them locks: one that changes the list just when another registers a name takes that name away.
fn allow(name: &str) {
    let file = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
    let list = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file}: {error}"));
    if !list.split_whitespace().any(|allowed| allowed == name) {
        let list = format!("{} {name}", list.trim());
        fs::write(file, &list).unwrap_or_else(|error| panic!("{file} = {list}: {error}"));
    }
}

/// The treatment of packets in one direction: see `path.bpf.c`.
#[derive(Clone, Copy, Default)]
pub struct Path {
    pub mark_period: u32,
    pub mark_burst: u32,
    pub drop_period: u32,
    pub outage_at: u32,
    pub outage_ms: u32,
    pub count_acks: bool,
}

impl Path {
    /// Attaches the program to the egress of `device` of a [`Pair`], where a filter of the host
    /// itself would be.
    pub fn attach_at_egress(self, namespace: &Namespace, device: &'static str) {
        namespace.run(move || self.attach(device, TC_EGRESS));
    }

    /// Attaches the program to one side of `device` in the namespace of this thread.
    fn attach(self, device: &str, side: TcAttachPoint) {
        let object = knee_bpf::program("path").unwrap();
        let mut open = ObjectBuilder::default().open_memory(object).unwrap();
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
        // SAFETY: the name is a C string; the call only reads it.
        let index = unsafe { libc::if_nametoindex(device.as_ptr()) };
        let mut hook = TcHookBuilder::new(program.as_fd()).ifindex(index as i32).hook(side);
        // The filter keeps the program loaded. Both go away with the device.
        hook.create().unwrap().attach().unwrap();
    }
}

/// Returns the first missing requirement of a [`Pair`].
pub fn missing() -> Option<&'static str> {
    let Ok(namespace) = Namespace::new() else {
        return Some("network namespaces are refused here");
    };
    let works = |line: &'static str| {
        namespace.run(move || {
            let mut words = line.split(' ');
            let program = words.next().and_then(system_program);
            let output = program.map(|program| Command::new(program).args(words).output());
            output.is_some_and(|output| output.is_ok_and(|output| output.status.success()))
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

/// Two hosts, a client and a server.
pub struct Pair {
    pub client: Namespace,
    pub server: Namespace,
}

/// IPv4 address of the server. The client has 10.99.0.1.
pub const SERVER: &str = "10.99.0.2";
/// IPv6 address of the server. The client has fd99::1.
pub const SERVER_IPV6: &str = "fd99::2";

/// MAC addresses of client and server.
const MACS: [&str; 2] = ["02:00:00:00:99:01", "02:00:00:00:99:02"];

impl Pair {
    /// Creates the two hosts. Both use `congestion_control` unless a socket sets another one.
    /// Frames hold one segment each, so that a mark or a drop affects exactly one.
    pub fn new(congestion_control: &str, to_server: Path, to_client: Path) -> Pair {
        let pair = Pair { client: Namespace::new().unwrap(), server: Namespace::new().unwrap() };
        let tid = pair.server.tid();
        ip(
            &pair.client,
            format!(
                "link add knee-c address {} gso_max_segs 1 type veth peer name knee-s address {} gso_max_segs 1 netns {tid}",
                MACS[0], MACS[1]
            ),
        );
        for (host, device, number, path) in
            [(&pair.client, "knee-c", 1, to_client), (&pair.server, "knee-s", 2, to_server)]
        {
            ip(host, "link set lo up".to_owned());
            ip(host, format!("addr add 10.99.0.{number}/24 dev {device}"));
            ip(host, format!("addr add fd99::{number}/64 dev {device} nodad"));
            ip(host, format!("link set {device} up"));
            // Where the machine is busy, a device may carry nothing for longer than the three seconds in which a host gives up
            // asking who has an address.
            let (peer, mac) = (3 - number, MACS[2 - number]);
            for address in [format!("10.99.0.{peer}"), format!("fd99::{peer}")] {
                ip(
                    host,
                    format!("neigh replace {address} lladdr {mac} nud permanent dev {device}"),
                );
            }
            sysctl(host, "tcp_ecn", "1");
            sysctl(host, "tcp_congestion_control", congestion_control);
            host.run(move || path.attach(device, TC_INGRESS));
        }
        pair
    }
}

/// Sets the congestion control of a socket.
pub fn choose(socket: &impl AsRawFd, name: &str) {
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

/// Returns the congestion control of a connection or a listener.
pub fn chosen(socket: &impl AsRawFd) -> String {
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

/// Opens a listener at the server's address. It waits for a connection for a minute, so that a test whose client fails ends.
pub fn listen(pair: &Pair) -> TcpListener {
    let listener = pair.server.run(|| TcpListener::bind((SERVER, 0)).unwrap());
    let patience = libc::timeval { tv_sec: 60, tv_usec: 0 };
    // SAFETY: the pointer and the length are those of the time.
    let result = unsafe {
        libc::setsockopt(
            listener.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVTIMEO,
            (&raw const patience).cast(),
            size_of::<libc::timeval>() as libc::socklen_t,
        )
    };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
    listener
}

/// Opens a connection to the listener and returns its two ends, the client's first.
pub fn connect(pair: &Pair, listener: &TcpListener) -> (TcpStream, TcpStream) {
    let port = listener.local_addr().unwrap().port();
    let client = pair.client.run(move || TcpStream::connect((SERVER, port)).unwrap());
    (client, listener.accept().unwrap().0)
}

/// Reads a 64-bit option of `SOL_SOCKET`, such as a cookie.
pub fn cookie(socket: &impl AsRawFd, option: libc::c_int) -> u64 {
    let (mut cookie, mut len) = (0_u64, 8);
    // SAFETY: the pointer and the length are those of the number.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw mut cookie).cast(),
            &raw mut len,
        )
    };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
    cookie
}

/// ECN state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EcnState {
    pub negotiated: bool,
    /// A packet with ECT or CE was received.
    pub seen: bool,
}

/// Reads the ECN state of a connection from `TCP_INFO`.
pub fn ecn_of(socket: &TcpStream) -> EcnState {
    // The struct begins with eight one-byte numbers. The sixth holds the options.
    let info: [u8; 8] = info_of(socket);
    EcnState { negotiated: info[5] & 8 != 0, seen: info[5] & 16 != 0 }
}

/// Reads the slow start threshold of a connection from `TCP_INFO`, in packets.
///
/// # Panics
/// If the kernel does not return it.
pub fn ssthresh_of(socket: &impl AsRawFd) -> u32 {
    const AT: usize = 76;
    let info: [u8; AT + 4] = info_of(socket);
    u32::from_ne_bytes(info[AT..].try_into().expect("four bytes"))
}

/// Reads the first `BYTES` bytes of `TCP_INFO`.
fn info_of<const BYTES: usize>(socket: &impl AsRawFd) -> [u8; BYTES] {
    let mut info = [0_u8; BYTES];
    let mut len = BYTES as libc::socklen_t;
    // SAFETY: the pointer and the length are those of the array.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
    info
}
