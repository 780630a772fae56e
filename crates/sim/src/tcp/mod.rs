//! One end of a TCP connection, with the behaviour of Linux.
//!
//! [`Sock`] is the state. Its methods are in one file per event: `handshake` (connect, accept),
//! `ack` (an ACK arrives), `recovery` (states, PRR, RACK, undo), `output` (segments leave),
//! `receive` (data arrives, ACKs leave), `close` (FIN and RST), `options` (set by the application),
//! `gro`, `timers`, `rtt`, `rehash`. `docs/tcp.md` lists what is modelled and what is left out.

mod accecn;
mod ack;
mod close;
mod fq;
mod gro;
mod handshake;
#[cfg(test)]
mod hostile;
mod options;
mod out_of_order;
mod output;
mod pacing;
mod receive;
mod recovery;
mod rehash;
mod retransmit;
mod rtt;
mod rtx_queue;
mod seq;
mod timers;
mod write;
mod write_queue;

use crate::clock::Jiffies;
use crate::endpoint::Numbers;
use crate::net::Net;
use crate::nic::WindowMerges;
use crate::packet::{HEADER_BYTES, Packet, TIMESTAMP_BYTES};
use crate::tap::CoarseClock;
use knee_algo::module::LoadedModules;
use knee_algo::{
    Algorithm, INFINITE_SSTHRESH, Instance, Observer, TcpSock, Warning, ca_state, ecn_flags,
    tcp_state,
};
use knee_prefetch::LINE_BYTES;
use knee_queue::Ecn;
use knee_queue::time::{Duration, Time};
use knee_run::outcome::{Counters, FlowSample};
use knee_run::spec::{Cc, HostConfig};
use receive::Receiver;
use rtt::{MinRtt, RttEstimator};
use rtx_queue::{RtxQueue, SegmentId};
use std::cell::Cell;
use std::collections::VecDeque;
use std::mem::offset_of;
use std::rc::Rc;
use std::sync::Arc;
use timers::{LazyTimer, RetransmitTimer};
use write_queue::WriteQueue;

/// `gso_max_size` of a socket: 64 KiB less room for headers.
const GSO_MAX_BYTES: u32 = 65_343;

/// cwnd until the connection is established, packets (`TCP_INIT_CWND`).
const CWND_WHILE_CONNECTING: u32 = 10;

/// State that all sockets of a host share.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct HostState {
    /// Hosts with the same configuration share it, so that it stays in the near cache.
    pub(crate) config: Arc<HostConfig>,
    pub(crate) jiffies: Jiffies,
    /// Modules in use on this host.
    pub(crate) modules: LoadedModules,
    /// Counts of GRO's time windows.
    pub(crate) gro: Cell<WindowMerges>,
}

/// The state of a socket. Segments are exchanged from [`State::Established`] to [`State::LastAck`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    /// The socket has not started to connect.
    Closed,
    Listen,
    SynSent,
    SynReceived,
    Established,
    /// The application has closed the connection.
    FinWait1,
    /// The peer has acknowledged the FIN.
    FinWait2,
    /// Both ends have closed, and the peer has not acknowledged our FIN.
    Closing,
    /// The peer has closed the connection.
    CloseWait,
    /// The peer has closed the connection, and then the application.
    LastAck,
    /// Both ends have closed; the socket answers a repeated FIN.
    TimeWait,
    /// The socket no longer exists; arriving packets are answered with RST.
    Gone,
    /// The application is done; arriving packets are ignored.
    Ended,
}

impl State {
    /// Reports whether segments are exchanged: data, or the end of the connection.
    #[inline]
    pub(crate) fn is_synchronised(self) -> bool {
        State::Established <= self && self <= State::LastAck
    }

    /// Reports whether the application may write.
    pub(crate) fn is_writable(self) -> bool {
        matches!(self, State::Established | State::CloseWait)
    }

    /// Reports whether the application has closed the socket.
    fn is_orphan(self) -> bool {
        matches!(self, State::FinWait1 | State::FinWait2 | State::Closing | State::LastAck)
    }
}

/// State of RACK (RFC 8985).
#[derive(Debug, Default)]
struct Rack {
    /// Send time, end and RTT of the delivered segment that was sent last.
    sent_us: u64,
    end_seq: u32,
    rtt_us: u32,
    /// A segment was delivered since the last search for losses.
    advanced: bool,
    dsack_seen: bool,
    reo_wnd_steps: u8,
    reo_wnd_persist: u8,
    /// The value of `delivered` when the reordering window last grew.
    last_delivered: u32,
}

/// Proportional rate reduction (PRR); counts since the start of the episode.
#[derive(Debug, Default)]
struct Prr {
    delivered: u32,
    out: u32,
}

/// The application's writes.
#[derive(Debug, Default)]
#[repr(C)]
struct Writer {
    /// End of the written data at each time the buffer was full, until that data is sent.
    full_at: VecDeque<u32>,
    /// Bytes of the current write that are not in the socket yet.
    pending_bytes: u64,
    /// Size of the send buffer, bytes of memory. It only grows.
    sndbuf_bytes: u32,
    /// End of the last segment sent with PSH.
    psh_seq: u32,
    /// The buffer was full, and the application waits until a third of it is free.
    is_waiting: bool,
    /// The buffer limits the application.
    is_limited: bool,
    /// The application has set the buffer's size.
    is_locked: bool,
    /// The application closes the connection after its last write.
    closes: bool,
    fin: close::Fin,
    /// `TCP_NODELAY`.
    no_delay: bool,
    cork: bool,
    /// The last write had `MSG_MORE`, so that its end carries no PSH.
    more_follows: bool,
}

/// What each packet touches comes first, and what belongs together shares cache lines.
#[repr(C, align(64))]
pub(crate) struct Sock {
    /// The state that algorithms see. The rest belongs to the simulator.
    pub(crate) tp: TcpSock,

    // Both ends, for each segment.
    pub(crate) host: Rc<HostState>,
    id: u32,
    peer: u32,
    /// Start of the path of the socket's packets in [`Net::paths`].
    path: u32,
    /// Headers before the payload on the wire, bytes.
    header_bytes: u32,
    pub(crate) state: State,
    /// DSCP of all packets of the socket.
    dscp: u8,
    /// Both ends use timestamps.
    timestamps: bool,
    /// The requested algorithm needs ECN, and therefore decides about the handshake.
    wants_ecn: bool,
    /// Unanswered window probes.
    probes_out: u8,
    /// Doublings of the retransmission or probe timer (`icsk_backoff`).
    backoff: u8,
    throttled: bool,
    frto: bool,
    /// Whether an undo would take back a timeout's reduction.
    undoes_timeout: bool,
    reord_seen: bool,
    tlp_retrans: bool,
    /// Flags of the SYN-ACK that grants Accurate ECN.
    accecn_answer: u16,
    /// Base RTT for algorithms that ask for it, us; 0: unknown.
    base_rtt_us: u32,
    /// Offset that algorithms see added to the peer's timestamps.
    peer_ts_offset: u32,
    /// End of the last short segment sent (Nagle, Minshall's variant).
    snd_sml: u32,
    cwnd_usage_seq: u32,
    /// The algorithm in use. After a fallback it differs from the requested one.
    cc: Instance,
    pub(crate) receiver: Receiver,

    // The sender, for each segment.
    writer: Writer,
    rtx: RtxQueue,
    retransmit: RetransmitTimer,
    rack: Rack,
    rtt: RttEstimator,
    prr: Prr,
    /// The socket's packets in the host's queue: departure time and charged bytes.
    in_host: VecDeque<(Time, u32)>,
    in_host_bytes: u64,
    min_rtt: MinRtt,
    pub(crate) counters: Counters,

    // Retransmission.
    /// The segment at which the search for lost segments continues.
    retransmit_hint: Option<SegmentId>,
    /// End of the highest SACKed segment; valid only while something is SACKed.
    highest_sack_end: u32,
    /// Ranges of the last SACK, so that the same segments are not processed again.
    sack_cache: [(u32, u32); 4],
    /// Tick of 1 ms at the first retransmission of this episode.
    retrans_stamp: u32,

    write_queue: WriteQueue,

    // The host's own queue and pacing.
    tx_completion: LazyTimer,
    pacing: LazyTimer,
    fq: fq::FqFlow,
    fq_timer: LazyTimer,
    /// Segments that wait to be merged with later ones (GRO).
    merging: Vec<Packet>,
    gro: LazyTimer,

    // The handshake.
    iss: u32,
    /// The largest segment that the peer accepts, TCP options included, bytes.
    peer_mss: u32,
    syn_retries: u32,
    /// SYN retransmissions by the timer.
    syn_timeouts: u32,
    /// Send time of the SYN or SYN-ACK, us.
    syn_sent_us: u64,
    /// `Time::MAX`: not yet.
    pub(crate) established_at: Time,
}

// An idle flow should take 4 KiB at most. Two sockets are most of it.
const _: () = assert!(size_of::<Sock>() <= 1600);
// The lines that [`Sock::fetch`] names: from 8 on what both ends need, from 16 to 19 what the sender needs of an ACK.
const _: () = assert!(offset_of!(Sock, host) == 8 * LINE_BYTES);
const _: () = assert!(offset_of!(Sock, rtx) / LINE_BYTES == 16);
const _: () = assert!(offset_of!(Sock, counters) <= 20 * LINE_BYTES);

/// The identity of a new socket, and its place in the network.
pub(crate) struct Place {
    pub(crate) id: u32,
    pub(crate) peer: u32,
    pub(crate) path: u32,
    /// Base RTT, if the flow specifies it.
    pub(crate) base_rtt: Option<Duration>,
    /// DSCP of the packets that the socket sends.
    pub(crate) dscp: u8,
}

impl Sock {
    /// Creates a closed socket. Linux: `tcp_init_sock`.
    pub(crate) fn new(place: &Place, cc: &Cc, host: Rc<HostState>, iss: u32) -> Sock {
        let mss = host.config.mss_bytes();
        let tp = TcpSock {
            mss_cache: mss,
            snd_cwnd: CWND_WHILE_CONNECTING,
            min_rtt_us: u32::MAX,
            snd_una: iss,
            snd_nxt: iss,
            write_seq: iss,
            pushed_seq: iss,
            reordering: host.config.sysctls.reordering,
            app_limited: u32::MAX,
            sk_gso_max_size: GSO_MAX_BYTES,
            sk_gso_max_segs: host.config.gso_max_segs,
            // fq paces every packet, even if the algorithm does not ask for pacing.
            sk_pacing_status: if host.config.fq { fq::SK_PACING_FQ } else { 0 },
            // The advertised MSS does not subtract timestamps.
            advmss: mss + TIMESTAMP_BYTES,
            sk_rcv_saddr: place.id,
            sk_daddr: place.peer,
            sk_sport: (place.id as u16).to_be(),
            sk_dport: (place.peer as u16).to_be(),
            ..tcp_sock()
        };
        let receiver = Receiver::new(&host.config, false);
        let timestamp_bytes = if host.config.sysctls.timestamps { 0 } else { TIMESTAMP_BYTES };
        let mut instance = cc.algorithm.instance_on(cc.params.clone(), &host.modules);
        instance.set_socket(place.id);
        Sock {
            tp,
            wants_ecn: cc.algorithm.needs_ecn(),
            cc: instance,
            base_rtt_us: whole_us(place.base_rtt.or(host.config.base_rtt)),
            id: place.id,
            peer: place.peer,
            path: place.path,
            dscp: place.dscp,
            header_bytes: HEADER_BYTES + host.config.extra_header_bytes() - timestamp_bytes,
            state: State::Closed,
            iss,
            snd_sml: iss,
            writer: Writer {
                psh_seq: iss,
                sndbuf_bytes: host.config.sndbuf_initial_bytes,
                is_limited: host.config.sndbuf_max_bytes.is_some(),
                ..Writer::default()
            },
            write_queue: WriteQueue::default(),
            backoff: 0,
            probes_out: 0,
            timestamps: host.config.sysctls.timestamps,
            peer_ts_offset: 0,
            peer_mss: u32::MAX,
            accecn_answer: 0,
            rtx: RtxQueue::default(),
            retransmit_hint: None,
            highest_sack_end: iss,
            sack_cache: [(0, 0); 4],
            retrans_stamp: 0,
            frto: false,
            undoes_timeout: false,
            prr: Prr::default(),
            rack: Rack { reo_wnd_steps: 1, ..Rack::default() },
            reord_seen: false,
            tlp_retrans: false,
            rtt: RttEstimator::new(&host),
            min_rtt: MinRtt::default(),
            retransmit: RetransmitTimer::default(),
            cwnd_usage_seq: iss,
            in_host: VecDeque::new(),
            in_host_bytes: 0,
            throttled: false,
            tx_completion: LazyTimer::default(),
            pacing: LazyTimer::default(),
            fq: fq::FqFlow::default(),
            fq_timer: LazyTimer::default(),
            receiver,
            merging: Vec::new(),
            gro: LazyTimer::default(),
            syn_retries: 0,
            syn_timeouts: 0,
            syn_sent_us: 0,
            established_at: Time::MAX,
            counters: Counters::default(),
            host,
        }
    }

    /// Fetches what a segment needs of the socket into the near cache.
    #[inline]
    pub(crate) fn fetch(&self, is_data: bool) {
        // The algorithm's guarded memory in between is not touched.
        knee_prefetch::fetch(self, 0..2);
        knee_prefetch::fetch(self, 4..14);
        knee_prefetch::fetch(self, if is_data { 16..17 } else { 16..20 });
        knee_prefetch::fetch(self, 21..22);
    }

    /// Fetches what the socket refers to, which [`Sock::fetch`] fetched before.
    #[inline]
    pub(crate) fn fetch_behind(&self, is_data: bool) {
        knee_prefetch::fetch(&*self.host, 0..1);
        if !is_data {
            self.rtx.fetch_ends();
            if let Some(first) = self.in_host.front() {
                knee_prefetch::fetch(first, 0..1);
            }
        }
    }

    /// Returns the values by which an observer turns the socket's packets into segments.
    pub(crate) fn numbers(&self) -> Numbers {
        Numbers {
            iss: self.iss,
            // The MSS option includes the timestamps of every segment.
            mss_option: (self.host.config.mss_bytes() + 12) as u16,
            window_scale: self.receiver.window_scale(),
        }
    }

    /// Returns the host's clock at the start of the run.
    pub(crate) fn coarse_clock(&self) -> CoarseClock {
        self.host.jiffies.start()
    }

    /// Makes `observer` see every call of the requested algorithm.
    pub(crate) fn observe(&mut self, observer: Box<dyn Observer>) {
        self.cc.observe(observer);
    }

    /// Starts work on this socket: sets the clocks that its algorithm sees to the present time.
    #[inline]
    fn enter(&mut self, net: &mut Net) {
        self.read_clock(net);
        self.attend(net);
    }

    /// Reads the fine clock. Linux: `tcp_mstamp_refresh`.
    #[inline]
    fn read_clock(&mut self, net: &Net) {
        self.tp.tcp_clock_cache = net.now.ns();
        self.tp.tcp_mstamp = net.now_us();
    }

    /// Starts work on this socket without a reading of the fine clock.
    #[inline]
    fn attend(&mut self, net: &mut Net) {
        net.cc.random_state = net.seed_of(self.id);
        net.cc.jiffies = self.host.jiffies.at(net.now);
        net.cc.hz = self.host.config.hz;
        net.cc.base_rtt_us = self.base_rtt_us;
    }

    fn enter_state(&mut self, state: State) {
        self.state = state;
        self.tp.sk_state = match state {
            State::Listen => tcp_state::LISTEN,
            State::SynSent => tcp_state::SYN_SENT,
            State::SynReceived => tcp_state::SYN_RECV,
            State::Established => tcp_state::ESTABLISHED,
            State::FinWait1 => tcp_state::FIN_WAIT1,
            State::FinWait2 => tcp_state::FIN_WAIT2,
            State::Closing => tcp_state::CLOSING,
            State::CloseWait => tcp_state::CLOSE_WAIT,
            State::LastAck => tcp_state::LAST_ACK,
            State::TimeWait | State::Gone | State::Closed | State::Ended => tcp_state::CLOSE,
        };
    }

    /// Reports whether the peer's SYN is still outstanding.
    pub(crate) fn is_connecting(&self) -> bool {
        matches!(self.state, State::Listen | State::SynSent)
    }

    fn mss(&self) -> u32 {
        self.tp.mss_cache
    }

    /// Returns the timestamp clock, in ticks of 1 ms, never 0. Linux: `tcp_time_stamp_ts`.
    fn ts_now(&self) -> u32 {
        (self.tp.tcp_mstamp / 1000) as u32 + 1
    }

    /// Returns the packets in flight. Linux: `tcp_packets_in_flight`.
    #[inline]
    fn in_flight(&self) -> u32 {
        self.tp.packets_in_flight()
    }

    fn ecn_ok(&self) -> bool {
        self.tp.ecn_flags & ecn_flags::OK != 0
    }

    /// Returns the ECN field of a packet. All packets have ECT if the algorithm needs ECN or asks
    /// for it; otherwise only data sent for the first time has ECT. Linux: `tcp_ecn_send`.
    #[inline]
    fn ecn_of(&self, new_data: bool) -> Ecn {
        let flags = self.tp.ecn_flags;
        let is_open = flags & ecn_flags::OK != 0;
        let always = flags & ecn_flags::ECT_PERMANENT != 0;
        match self.cc.algorithm().needs_ecn() || (is_open && (new_data || always)) {
            true if flags & ecn_flags::ECT_1 != 0 => Ecn::Ect1,
            true => Ecn::Ect0,
            false => Ecn::NotEct,
        }
    }

    #[inline]
    fn unsent_bytes(&self) -> u32 {
        self.tp.write_seq.wrapping_sub(self.tp.snd_nxt)
    }

    /// Returns the end of the peer's window. Linux: `tcp_wnd_end`.
    fn wnd_end(&self) -> u32 {
        self.tp.snd_una.wrapping_add(self.tp.snd_wnd)
    }

    /// Sets the start of the path of the socket's packets.
    pub(crate) fn set_path(&mut self, path: u32) {
        self.path = path;
    }

    /// Returns the start of the path of the socket's packets.
    pub(crate) fn path(&self) -> u32 {
        self.path
    }

    /// Ends the connection's work: sends nothing more and frees memory.
    pub(crate) fn end(&mut self, net: &mut Net) {
        if self.ended() {
            return;
        }
        self.enter(net);
        self.leave(State::Ended, net);
    }

    /// Ends the connection. `state` determines the answer to later packets. Linux: `tcp_done`,
    /// `tcp_v4_destroy_sock`.
    fn leave(&mut self, state: State, net: &mut Net) {
        if self.state.is_synchronised() {
            self.cc.release(&mut self.tp, &mut net.cc);
        }
        self.enter_state(state);
        self.retransmit.disarm();
        self.rtx = RtxQueue::default();
        self.tp.packets_out = 0;
        self.tp.sacked_out = 0;
        self.tp.lost_out = 0;
        self.tp.retrans_out = 0;
        self.in_host = VecDeque::new();
        self.write_queue = WriteQueue::default();
        self.fq.forget();
        self.receiver.forget_data();
        self.merging = Vec::new();
    }

    pub(crate) fn ended(&self) -> bool {
        matches!(self.state, State::TimeWait | State::Gone | State::Ended)
    }

    pub(crate) fn algorithm_name(&self) -> &'static str {
        self.cc.algorithm().name()
    }

    /// Returns what the algorithm from a file did and should not do.
    pub(crate) fn warnings(&self) -> Vec<Warning> {
        self.cc.warnings()
    }

    /// Initialises the algorithm, because the connection is established. Linux:
    /// `tcp_init_congestion_control`.
    fn init_algorithm(&mut self, net: &mut Net) {
        if self.host.config.ecn_low && self.ecn_ok() {
            self.tp.ecn_flags |= ecn_flags::LOW;
        }
        self.cc.init(&mut self.tp, &mut net.cc);
        if let Some(name) = net.cc.take_fallback() {
            self.cc.release(&mut self.tp, &mut net.cc);
            // An algorithm may only name an existing one; the native build's tests check that.
            if let Ok(fallback) = Algorithm::by_name(&name) {
                self.cc = fallback.instance(fallback.default_params());
                self.cc.assign(&mut self.tp);
                self.cc.init(&mut self.tp, &mut net.cc);
            }
        }
        self.do_what_was_asked(net);
    }

    pub(crate) fn ecn_negotiated(&self) -> bool {
        self.ecn_ok() && self.state >= State::Established
    }

    pub(crate) fn srtt_us(&self) -> Option<u32> {
        (self.tp.srtt_us != 0).then_some(self.tp.srtt_us >> 3)
    }

    pub(crate) fn min_rtt_us(&self) -> Option<u32> {
        self.min_rtt.get()
    }

    /// Returns what this end has counted.
    pub(crate) fn counts(&self) -> Counters {
        Counters {
            delivered: u64::from(self.tp.delivered),
            delivered_ce: u64::from(self.tp.delivered_ce),
            ..self.counters
        }
    }

    pub(crate) fn received_bytes(&self) -> u64 {
        self.receiver.received_bytes
    }

    /// Returns `TCP_INFO` and the algorithm's own values. Linux: `tcp_get_info`.
    pub(crate) fn sample(&mut self, flow: u32, net: &mut Net) -> FlowSample {
        FlowSample {
            at: net.now,
            flow,
            ca_state: self.tp.icsk_ca_state,
            cwnd: self.tp.snd_cwnd,
            ssthresh: self.tp.snd_ssthresh,
            srtt_us: self.tp.srtt_us >> 3,
            rttvar_us: self.rtt.mdev_us() >> 2,
            min_rtt_us: self.min_rtt.get().unwrap_or(0),
            unacked: self.tp.packets_out,
            sacked: self.tp.sacked_out,
            lost: self.tp.lost_out,
            retrans_out: self.tp.retrans_out,
            total_retrans: self.counters.retransmitted_segs,
            delivered: self.tp.delivered,
            delivered_ce: self.tp.delivered_ce,
            bytes_acked: self.tp.bytes_acked,
            pacing_rate_bytes_per_sec: self.tp.sk_pacing_rate,
            rto_us: self.host.jiffies.in_us(self.rtt.rto_jiffies) as u32,
            data_segs_out: Some(self.counters.data_segs_sent),
            fast_recoveries: Some(self.counters.fast_recoveries),
            diag: self.cc.read_diag(&mut self.tp, &mut net.cc),
        }
    }
}

fn tcp_sock() -> TcpSock {
    TcpSock { snd_ssthresh: INFINITE_SSTHRESH, icsk_ca_state: ca_state::OPEN, ..TcpSock::default() }
}

fn whole_us(base_rtt: Option<Duration>) -> u32 {
    base_rtt.map_or(0, |rtt| u32::try_from(rtt.ps() / 1_000_000).unwrap_or(u32::MAX))
}
