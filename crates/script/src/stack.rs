//! The stack under test: a TCP end point, its clock, and its wire.

use crate::Settings;
use knee_queue::time::{Duration, Time};
use knee_run::spec::LinuxVersion;
use knee_wire::Segment;

/// Call of the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Begins a connection to the script's peer.
    Connect,
    /// Waits for a connection; it is accepted when the next call needs it.
    Listen,
    /// Writes this many bytes, without blocking for ever.
    Write(u64),
    /// Writes this many bytes with `MSG_MORE`: more will follow.
    WriteBeforeMore(u64),
    /// Ends writing (`SHUT_WR`); reading goes on.
    ShutDown,
    /// Reads at most this many bytes; `None`: all available.
    Read(Option<u64>),
    /// Closes the connection.
    Close,
    /// Sets an option of the socket; before [`Call::Connect`] or [`Call::Listen`] it holds from the beginning.
    Set(SocketOption),
}

/// Options of sockets that scripts may set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketOption {
    /// `TCP_CONGESTION`: an algorithm's name as in `knee algorithms`.
    Congestion(String),
    /// `TCP_NODELAY`, which disables Nagle's algorithm.
    NoDelay(bool),
    /// `TCP_CORK`, which holds back partial segments.
    Cork(bool),
    /// `TCP_QUICKACK`, which disables delayed ACKs.
    QuickAck(bool),
    /// `SO_RCVLOWAT`, in bytes.
    ReceiveLowWater(u32),
    /// `SO_RCVBUF`, bytes as asked for (Linux doubles them).
    ReceiveBuffer(u32),
    /// `SO_SNDBUF`, bytes as asked for (Linux doubles them).
    SendBuffer(u32),
    /// `SO_MAX_PACING_RATE`, bytes per second.
    MaxPacingRate(u64),
}

/// Values for `expect`, with the unit: fields of `TCP_INFO` under its names, times in ns.
pub const INFO: &[(&str, &str)] = &[
    ("cwnd", "tcpi_snd_cwnd, packets"),
    ("ssthresh", "tcpi_snd_ssthresh, packets; 2147483647: none yet"),
    ("ca_state", "tcpi_ca_state: Open, Disorder, CWR, Recovery or Loss"),
    ("retransmits", "tcpi_retransmits: timeouts in a row"),
    ("backoff", "tcpi_backoff: doublings of the timeout"),
    ("probes", "tcpi_probes: window probes without an answer"),
    ("rto", "tcpi_rto, time"),
    ("ato", "tcpi_ato, time"),
    ("rtt", "tcpi_rtt, time"),
    ("rttvar", "tcpi_rttvar, time"),
    ("min_rtt", "tcpi_min_rtt, time"),
    ("unacked", "tcpi_unacked: packets sent and not cumulatively acknowledged"),
    ("sacked", "tcpi_sacked, packets"),
    ("lost", "tcpi_lost: packets marked lost"),
    ("retrans", "tcpi_retrans: packets retransmitted and not acknowledged"),
    ("total_retrans", "tcpi_total_retrans, packets"),
    ("reordering", "tcpi_reordering, packets"),
    ("delivered", "tcpi_delivered, packets"),
    ("delivered_ce", "tcpi_delivered_ce, packets"),
    ("bytes_acked", "tcpi_bytes_acked"),
    ("bytes_received", "tcpi_bytes_received"),
    ("notsent_bytes", "tcpi_notsent_bytes"),
    ("pacing_rate", "tcpi_pacing_rate, bytes per second"),
    ("snd_mss", "tcpi_snd_mss, bytes"),
    ("rcv_mss", "tcpi_rcv_mss, bytes"),
    ("rcv_ssthresh", "tcpi_rcv_ssthresh, bytes: the most that is offered"),
    ("rcv_space", "tcpi_rcv_space, bytes: the most read in a round trip"),
    ("ecn", "1 if ECN was negotiated (TCPI_OPT_ECN)"),
    ("last_data_recv", "tcpi_last_data_recv, time"),
    ("unread", "SIOCINQ: bytes in order that the application has not read"),
];

/// State of a stack's socket: values of [`INFO`] by name, and `cc.NAME` for the algorithm's diagnostic values. Unknown values
/// are left out.
#[derive(Clone, Debug, Default)]
pub struct Info {
    /// Names with their values; times in ns.
    pub values: Vec<(String, i128)>,
    /// The algorithm in use, without the prefix under which it is loaded.
    pub algorithm: String,
}

/// Why a stack cannot do what it is asked, in one sentence with the way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub String);

impl From<knee_wire::Error> for Refusal {
    fn from(why: knee_wire::Error) -> Refusal {
        Refusal(why.to_string())
    }
}

/// What a call of the application gave it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// Bytes of a read.
    pub bytes: u64,
    /// The application has now read all that the peer sent before its FIN.
    pub at_end: bool,
}

/// A TCP end point with a wire that ends at the script.
///
/// Its clock counts from 0, which is when it was made. Sequence numbers of segments count from the initial ones
/// of their direction.
pub trait Stack {
    /// How it calls itself in messages: "the simulator", "the kernel".
    fn name(&self) -> &'static str;

    /// Version of Linux that it is, or models.
    fn linux(&self) -> LinuxVersion;

    /// Time on the stack's clock.
    fn now(&self) -> Time;

    /// Executes a call of the application.
    ///
    /// # Errors
    /// If the stack lacks it, or the kernel refuses it.
    fn call(&mut self, call: &Call) -> Result<Given, Refusal>;

    /// A segment arrives from the peer.
    ///
    /// # Errors
    /// If the stack cannot accept it.
    fn receive(&mut self, segment: &Segment) -> Result<(), Refusal>;

    /// The next segment that the stack sends and when it did, or `None` once the clock is at `until`. Those
    /// that have left already come at once, whatever `until`.
    ///
    /// # Errors
    /// If the stack can go on no more.
    fn next_segment(&mut self, until: Time) -> Result<Option<(Time, Segment)>, Refusal>;

    /// Reads the state of the socket.
    ///
    /// # Errors
    /// If there is no connection.
    fn info(&mut self) -> Result<Info, Refusal>;

    /// Tolerance added to a script's ranges of times.
    fn slack(&self) -> Duration;

    /// Largest lateness so far, of the script itself or of a timer of the stack's kind: a difference may then be the
    /// machine's fault.
    fn lateness(&self) -> Duration;

    /// Whether the kernel may have skipped calls of the algorithm unseen ([`KernelApi::spares_process_1`]): a difference may
    /// then be the kernel's fault.
    ///
    /// [`KernelApi::spares_process_1`]: knee_bpf::KernelApi::spares_process_1
    fn leaves_out_calls(&self) -> bool {
        false
    }
}

/// Makes a stack for a script.
pub type MakeStack<'a> = dyn FnMut(&Settings) -> Result<Box<dyn Stack>, Refusal> + 'a;
