//! A host: its TCP and its network device.

use knee_queue::ETHERNET_BYTES;
use knee_queue::time::Duration;
use knee_units::LinuxVersion;
use knee_units::settings::{Setting, Visit, key};

use crate::receiving::{Coalesce, CpuCosts};
use crate::sysctls::Sysctls;

/// Versions of Linux that hosts can behave like, with their names in experiments, oldest first. Of a long-term version it is a
/// late release, with what that has taken over from later versions: 6.1.192, the kernel of the reference data, and 6.12.117. 7.3 is 7.3.4.
pub const PROFILES: [(&str, LinuxVersion); 4] = [
    ("6.1", LinuxVersion(6, 1)),
    ("6.12", LinuxVersion(6, 12)),
    ("6.18", LinuxVersion(6, 18)),
    ("7.3", LinuxVersion(7, 3)),
];

/// The first version that has a sysctl, if not all versions have it.
pub fn sysctl_since(name: &str) -> Option<LinuxVersion> {
    match name {
        "tcp_syn_linear_timeouts" => Some(LinuxVersion(6, 5)),
        "tcp_rto_min_us" => Some(LinuxVersion(6, 11)),
        _ => None,
    }
}

/// Bytes of a frame before the payload: Ethernet's header, IPv4 20, TCP 20, timestamps 12.
pub const HEADER_BYTES: u32 = ETHERNET_BYTES + 52;

/// A port must take a full frame; hosts here have at least this MTU.
const MTU_MIN_BYTES: u32 = 576;
const MTU_MAX_BYTES: u32 = 65_535;
/// Largest socket buffer, in bytes.
const MAX_BUFFER_BYTES: u32 = 1 << 30;
/// Largest overhead in bytes that a kernel charges for a packet besides its payload.
const MAX_OVERHEAD_BYTES: u64 = 64 << 10;
/// The most that a kernel can be built with.
const MAX_SKB_FRAGS: u64 = 45;
/// Largest number of receive queues, more than any NIC has.
const MAX_RECEIVE_QUEUES: u64 = 1024;

knee_units::settings! {
    /// Sysctls and offloads of a host: by default those of a stock host of a version at HZ 1000, with offloads off and large windows.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct HostConfig(linux: LinuxVersion) as (host, v) check check {
        /// Kernel differences that change results.
        pub linux: LinuxVersion = linux;
        /// Ticks per second: 100, 250, 300 or 1000.
        pub hz: u32 = 1000 => "hz": Number.within(100, 1000);
        // `None`: drawn per host from the seed.
        /// Jiffies at the start of a run.
        pub jiffies_at_start: Option<u32> = None => "jiffies_at_start": MaybeNumber.within(0, u32::MAX as u64);
        // With IPv6, headers have 20 bytes more, and another transmit hash is another path.
        /// Use IPv6, on all hosts or none.
        pub ipv6: bool = false => "ipv6": Flag;
        /// Sysctl. 0: no ECN; 1: request and accept; 2: accept.
        pub tcp_ecn: u8 = 2 => "tcp_ecn": Small.within(0, 2);
        // Marks mean a shallow threshold.
        /// Route feature ecn_low of kernels with BBRv3, for modules of API v3.
        pub ecn_low: bool = false => "ecn_low": Flag;
        /// Sysctl: retry a lost ECN SYN without ECN.
        pub tcp_ecn_fallback: bool = true => "tcp_ecn_fallback": Flag;
        /// ECT on SYN and SYN-ACK if the algorithm needs ECN; `false` before Linux 3.18.
        pub syn_ect: bool = true => "syn_ect": Flag;
        // The MSS follows: 52 bytes of headers with timestamps, 72 with IPv6.
        /// Largest IP packet; the same on all hosts.
        pub mtu_bytes: u32 = 1500 => "mtu": Bytes.at_least("576 B").at_most("65535 B").like("1500 B");
        /// Initial window.
        pub initial_cwnd_pkts: u32 = 10 => "initial_cwnd": Pkts;
        /// Minimum retransmission timeout.
        pub rto_min: Duration = Duration::from_ms(200) => "rto_min": Time.at_least("1 us").like("200 ms");
        /// Sysctl: reduce cwnd after idle time.
        pub slow_start_after_idle: bool = true => "slow_start_after_idle": Flag;
        /// Sysctl: selective acknowledgements.
        pub sack: bool = true => "sack": Flag;
        /// Segments per TSO packet; 1: offloads off. On the lab it needs `--offloads on`.
        pub gso_max_segs: u32 = 1 => "gso_max_segs": Number.within(1, 65_535);
        /// GRO merges packets of a flow within this time. On the lab it needs `--offloads on`.
        pub gro_window: Duration = Duration::ZERO => "gro_window": Time;
        /// Limit of TCP small queues: 4 MTU to 1 GiB.
        pub limit_output_bytes: u32 = if linux >= LinuxVersion(6, 18) { 4 << 20 } else { 1 << 20 } => "limit_output": Bytes.like("6 MiB");
        // 832: drivers that put payload into pages, and senders. 856: buffers of 2 KiB. 1216: TUN.
        /// truesize of a packet minus payload, at both ends; at most 64 KiB.
        pub skb_overhead_bytes: u32 = 832 => "skb_overhead": Bytes.within(1, MAX_OVERHEAD_BYTES).like("832 B");
        // `MAX_SKB_FRAGS`, 17 unless a kernel was built otherwise; not the sysctl of this name, which is for sending.
        /// Most full segments that join in one skb while they wait.
        pub max_skb_frags: u32 = 17 => "max_skb_frags": Number.within(1, MAX_SKB_FRAGS);
        // Until 6.5. By its options, 320 with wireless networks (as distributions have them), 256 without; 192 without tunnels either,
        // which plans the same as 320.
        /// The kernel's MAX_TCP_HEADER, for the receive buffer of Linux 6.1.
        pub max_tcp_header_bytes: u32 = 320 => "max_tcp_header": Bytes.at_least("128 B").at_most("512 B").like("320 B");
        // Whole us reach the algorithm. `None`: nobody has said it. A flow's own comes before it.
        /// RTT without queues, for algorithms that use it.
        pub base_rtt: Option<Duration> = None
            => "base_rtt": MaybeTime.at_least("1 us").at_most("60000 ms").like("50 us").usually("none");
        /// Pace with fq instead of TCP's timer.
        pub fq: bool = false => "fq": Flag;
        // Since 4.20 TCP gives fq departure times, by payload.
        /// fq counts headers, as before Linux 4.20.
        pub fq_counts_headers: bool = false => "fq_counts_headers": Flag;
        /// Sysctls that experiments leave alone, but for some.
        pub sysctls: Sysctls = Sysctls::of(linux) => { host.sysctls.fields(v) };
        // `tcp_rmem[1]`.
        /// Initial receive buffer. All four sizes: 4 MTU to 1 GiB.
        pub rcvbuf_initial_bytes: u32 = 131_072 => "rcvbuf_initial": Bytes.like("6 MiB");
        // `tcp_rmem[2]`.
        /// Its maximum.
        pub rcvbuf_max_bytes: u32 = if linux >= LinuxVersion(6, 16) { 32 << 20 } else { 6 << 20 } => "rcvbuf_max": Bytes.like("6 MiB");
        // `tcp_wmem[1]`.
        /// Initial send buffer; needs `sndbuf_max`.
        pub sndbuf_initial_bytes: u32 = 16_384 => "sndbuf_initial": Bytes.like("6 MiB");
        // `tcp_wmem[2]`. `None`: the sender never waits for memory.
        /// Its maximum.
        pub sndbuf_max_bytes: Option<u32> = None => "sndbuf_max": MaybeBytes.like("6 MiB").usually("no limit");
        /// Defects of older versions.
        pub defects: Defects = Defects::default() => {
            v.key(key("defects", "Defects of older kernels: docs/tcp.md.").usually("none"), Setting::Flags(host.defects.all()))
        };
        // `None`: each packet is handed over at once.
        /// Interrupt coalescing.
        pub coalesce: Option<Coalesce> = None => "coalesce": Parts.usually("no coalescing");
        // A flow's hash picks one (RSS).
        /// NIC queues, one interrupt each.
        pub receive_queues: u32 = 1
            => "receive_queues": Number.within(1, MAX_RECEIVE_QUEUES).usually("1").only_if(host.coalesce.is_some(), NEEDS_COALESCE);
        /// GRO merges packets of one interrupt.
        pub gro: bool = false => "gro": Flag.usually("`false`").only_if(host.coalesce.is_some(), NEEDS_COALESCE);
        // It is accounted for and takes no time.
        /// CPU time per operation.
        pub cpu: Option<CpuCosts> = None => "cpu": Parts.usually("none");
    }
}

impl HostConfig {
    /// Sets what a host with a NIC of 25 Gbps has if nobody changes it: TSO up to 64 KiB, GRO, and an interrupt at 128 frames or 8 us
    /// after the first of each of 8 queues (packets and time are those with which mlx5 begins). `false`: what a host here has without.
    pub fn set_offloads(&mut self, on: bool) {
        let stock = Coalesce::fixed(Some(128), Duration::from_us(8));
        self.gso_max_segs = if on { 65_535 } else { 1 };
        self.gro = on;
        self.coalesce = on.then_some(stock);
        self.receive_queues = if on { 8 } else { 1 };
    }
}

const NEEDS_COALESCE: &str =
    "needs interrupt coalescing: add coalesce = { frames = 64, time = \"50 us\" }";

/// Refuses contradictory settings of a host.
fn check(host: &mut HostConfig, v: &mut dyn Visit) {
    if !(MTU_MIN_BYTES..=MTU_MAX_BYTES).contains(&host.mtu_bytes) {
        v.refuse("mtu", format!("must be {MTU_MIN_BYTES} to {MTU_MAX_BYTES} bytes"));
    }
    if ![100, 250, 300, 1000].contains(&host.hz) {
        v.refuse("hz", "must be 100, 250, 300 or 1000");
    }
    if host.linux >= LinuxVersion(6, 6) {
        let why = "has no effect since Linux 6.6: leave it out, or set linux = \"6.1\"";
        v.refused_if_written("max_tcp_header", &|| why.to_owned());
    }
    if host.sndbuf_max_bytes.is_none() {
        let why = "needs sndbuf_max: without it the sender never waits for memory";
        v.refused_if_written("sndbuf_initial", &|| why.to_owned());
    }
    if !host.fq {
        v.refused_if_written("fq_counts_headers", &|| "needs fq = true".to_owned());
    }
    // Defaults may be below four packets with an MTU of 64 KB.
    let least = 4 * host.mtu_bytes;
    for (key, bytes) in [
        ("limit_output", host.limit_output_bytes),
        ("rcvbuf_initial", host.rcvbuf_initial_bytes),
        ("rcvbuf_max", host.rcvbuf_max_bytes),
        ("sndbuf_initial", host.sndbuf_initial_bytes),
        ("sndbuf_max", host.sndbuf_max_bytes.unwrap_or(least)),
    ] {
        let why =
            || format!("must be from {least} B (4 packets of the MTU) to 1 GiB, as in \"6 MiB\"");
        match (least..=MAX_BUFFER_BYTES).contains(&bytes) {
            true => {}
            false if key == "rcvbuf_initial" => v.refuse(key, why()),
            false => v.refused_if_written(key, &why),
        }
    }
    if host.gro && host.coalesce.is_none() {
        v.refuse("gro", NEEDS_COALESCE);
    }
    if host.gro && host.gro_window > Duration::ZERO {
        v.refused_if_written("gro", &|| "conflicts with gro_window: leave one out".to_owned());
        v.refuse("gro_window", "conflicts with gro: leave one out");
    }
}

impl HostConfig {
    /// Bytes by which headers are longer than IPv4's.
    pub fn extra_header_bytes(&self) -> u32 {
        if self.ipv6 { 20 } else { 0 }
    }

    /// Payload of a full segment.
    pub fn mss_bytes(&self) -> u32 {
        self.mtu_bytes - 52 - self.extra_header_bytes()
    }
}

/// Defects of Linux from 2015 to 2018 in ACKs of DCTCP receivers, and features that older versions lack. "6.1" and later have
/// none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Defects {
    /// The algorithm takes a delayed ACK for owed although data sent since has carried it: its special
    /// ACK repeats an old one.
    pub stale_special_ack: bool,
    /// The special ACK for the segments before a change of CE counts as the ACK of all that arrived.
    pub special_ack_cancels_delack: bool,
    /// The segment that brings the change is not acknowledged at once.
    pub no_immediate_ack_on_ce_change: bool,
    /// The immediate ACK at a change comes by quick-ACK mode, which sets the delayed-ACK time back.
    pub ce_change_resets_ato: bool,
    /// A segment with CWR is not acknowledged at once.
    pub no_ack_on_cwr: bool,
    /// The special ACK carries ECE as it is after the change.
    pub ece_not_on_special_ack: bool,
    /// A socket hands its host all that the window lets, as before TCP small queues (Linux 3.6, 2012).
    pub no_small_queues: bool,
}

impl Defects {
    /// Each by its name in files.
    fn all(&mut self) -> Vec<(&'static str, &mut bool)> {
        let Defects {
            stale_special_ack,
            special_ack_cancels_delack,
            no_immediate_ack_on_ce_change,
            ce_change_resets_ato,
            no_ack_on_cwr,
            ece_not_on_special_ack,
            no_small_queues,
        } = self;
        vec![
            ("stale_special_ack", stale_special_ack),
            ("special_ack_cancels_delack", special_ack_cancels_delack),
            ("no_immediate_ack_on_ce_change", no_immediate_ack_on_ce_change),
            ("ce_change_resets_ato", ce_change_resets_ato),
            ("no_ack_on_cwr", no_ack_on_cwr),
            ("ece_not_on_special_ack", ece_not_on_special_ack),
            ("no_small_queues", no_small_queues),
        ]
    }
}
