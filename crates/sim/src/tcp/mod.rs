//! One end of a TCP connection, as Linux behaves.
//!
//! [`Sock`] is the state; its methods are spread over the files by what happens:
//! `handshake` (connect, accept), `ack` (an ACK arrives), `recovery` (states, PRR, RACK, undo),
//! `output` (segments leave), `receive` (data arrives, ACKs leave), `close` (FIN and RST), `options` (of the
//! application), `gro`, `timers`, `rtt`, `rehash`.
//! `docs/tcp.md` says what it does of Linux and what it leaves out.

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
mod receive;
mod recovery;
mod rehash;
mod retransmit;
mod rtt;
mod rtx_queue;
mod seq;
mod timers;

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
use knee_queue::Ecn;
use knee_queue::time::{Duration, Time};
use knee_run::outcome::{Counters, FlowSample};
use knee_run::spec::{Cc, HostConfig};
use receive::Receiver;
use rtt::{MinRtt, RttEstimator};
use rtx_queue::{RtxQueue, SegmentId};
use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use timers::{LazyTimer, RetransmitTimer};

/// `gso_max_size` of a socket: 64 KiB less room for headers.
const GSO_MAX_BYTES: u32 = 65_343;

/// What all sockets of a host share.
#[derive(Debug)]
pub(crate) struct HostState {
    pub(crate) config: HostConfig,
    pub(crate) jiffies: Jiffies,
    /// Modules in use on this host.
    pub(crate) modules: LoadedModules,
    /// What windows of merging did.
    pub(crate) gro: Cell<WindowMerges>,
}

/// In this order: from [`State::Established`] to [`State::LastAck`] segments are exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    /// Not yet connecting.
    Closed,
    Listen,
    SynSent,
    SynReceived,
    Established,
    /// Its application has closed it.
    FinWait1,
    /// And the peer has acknowledged that.
    FinWait2,
    /// Both ends have closed, and the peer has not acknowledged ours.
    Closing,
    /// The peer has closed it.
    CloseWait,
    /// And then the application.
    LastAck,
    /// Closed by both: answers a FIN that comes again.
    TimeWait,
    /// There is no socket any more: what arrives is answered with RST.
    Gone,
    /// Its application is done: what still arrives is ignored.
    Ended,
}

impl State {
    /// Whether segments are exchanged: data, or what is left of the end.
    #[inline]
    pub(crate) fn is_synchronised(self) -> bool {
        State::Established <= self && self <= State::LastAck
    }

    /// Whether the application may still write.
    pub(crate) fn is_writable(self) -> bool {
        matches!(self, State::Established | State::CloseWait)
    }

    /// Whether the application has closed it.
    fn is_orphan(self) -> bool {
        matches!(self, State::FinWait1 | State::FinWait2 | State::Closing | State::LastAck)
    }
}

/// RACK's memory (RFC 8985).
#[derive(Debug, Default)]
struct Rack {
    /// Send time, end and RTT of the segment sent last among those delivered.
    sent_us: u64,
    end_seq: u32,
    rtt_us: u32,
    /// Something was delivered since losses were last looked for.
    advanced: bool,
    dsack_seen: bool,
    reo_wnd_steps: u8,
    reo_wnd_persist: u8,
    /// `delivered` when the reordering window last grew.
    last_delivered: u32,
}

/// Proportional rate reduction, as counted since the episode began.
#[derive(Debug, Default)]
struct Prr {
    delivered: u32,
    out: u32,
}

/// How the application feeds the connection.
#[derive(Debug, Default)]
struct Writer {
    /// Bytes of the current write that are not in the socket yet.
    pending_bytes: u64,
    /// The send buffer, which only grows, bytes of memory.
    sndbuf_bytes: u32,
    /// It was full, and the application waits until a third of it is free.
    is_waiting: bool,
    /// Ends of what was written whenever the buffer was full, and is not sent.
    full_at: VecDeque<u32>,
    /// The buffer limits the application.
    is_limited: bool,
    /// The application has set its size.
    is_locked: bool,
    /// The application closes the connection once all is written.
    closes: bool,
    fin: close::Fin,
    /// `TCP_NODELAY`.
    no_delay: bool,
    /// `TCP_CORK`.
    cork: bool,
}

pub(crate) struct Sock {
    /// What algorithms see; the rest is the core's.
    pub(crate) tp: TcpSock,
    /// In use: another one than asked for after a fallback.
    cc: Instance,
    /// The algorithm asked for needs ECN: it decides about the handshake.
    wants_ecn: bool,
    pub(crate) host: Rc<HostState>,
    /// What an algorithm that asks for the RTT without queues is told, us; 0: unknown.
    base_rtt_us: u32,
    id: u32,
    peer: u32,
    /// Where its packets' path starts in [`Net::paths`].
    path: u32,
    /// Of all that it sends.
    dscp: u8,
    /// Before the payload, on the wire.
    header_bytes: u32,
    pub(crate) state: State,

    // Sequence space and window.
    iss: u32,
    /// End of the last short segment sent (Nagle, Minshall's variant).
    snd_sml: u32,
    writer: Writer,
    /// Where the segment ends that a window probe took a part of.
    cut_end: Option<u32>,
    /// Doublings of the retransmission or probe timer (`icsk_backoff`).
    backoff: u8,
    /// Window probes sent without an answer.
    probes_out: u8,
    /// Both ends put timestamps into their segments.
    timestamps: bool,
    /// What algorithms see added to the peer's.
    peer_ts_offset: u32,
    /// Largest segment that the peer takes, headers' options included; bytes.
    peer_mss: u32,
    /// Flags of the SYN-ACK that grants Accurate ECN.
    accecn_answer: u16,

    // Retransmission.
    rtx: RtxQueue,
    /// Where the search for lost segments to send again goes on.
    retransmit_hint: Option<SegmentId>,
    /// End of the highest SACKed segment; meaningful while something is SACKed.
    highest_sack_end: u32,
    /// Ranges of the last SACK, so that the same segments are not looked at again.
    sack_cache: [(u32, u32); 4],
    /// ms tick of the first retransmission of this episode.
    retrans_stamp: u32,
    frto: bool,
    prr: Prr,
    rack: Rack,
    reord_seen: bool,
    dsack_dups: u64,
    tlp_retrans: bool,
    rtt: RttEstimator,
    min_rtt: MinRtt,
    retransmit: RetransmitTimer,

    // Congestion window bookkeeping.
    cwnd_usage_seq: u32,

    // The host's own queue and pacing.
    /// Packets of this socket in the host's queue: when they leave and what they are charged.
    in_host: VecDeque<(Time, u32)>,
    in_host_bytes: u64,
    throttled: bool,
    tx_completion: LazyTimer,
    pacing: LazyTimer,
    fq: fq::FqFlow,
    fq_timer: LazyTimer,

    pub(crate) receiver: Receiver,
    /// Segments waiting to be merged with those behind them (GRO).
    merging: Vec<Packet>,
    gro: LazyTimer,
    syn_retries: u32,
    /// Of these, by its timer.
    syn_timeouts: u32,
    /// When the SYN or SYN-ACK was sent, us.
    syn_sent_us: u64,
    pub(crate) established_at: Option<Time>,
    pub(crate) counters: Counters,
}

/// Names and places of a new socket.
pub(crate) struct Place {
    pub(crate) id: u32,
    pub(crate) peer: u32,
    pub(crate) path: u32,
    /// RTT without queues, where the flow says it.
    pub(crate) base_rtt: Option<Duration>,
    /// Of what it sends.
    pub(crate) dscp: u8,
}

impl Sock {
    pub(crate) fn new(place: &Place, cc: &Cc, host: Rc<HostState>, iss: u32) -> Sock {
        let mss = host.config.mss_bytes();
        let tp = TcpSock {
            mss_cache: mss,
            snd_cwnd: host.config.initial_cwnd_pkts,
            snd_una: iss,
            snd_nxt: iss,
            write_seq: iss,
            pushed_seq: iss,
            high_seq: iss,
            reordering: host.config.sysctls.reordering,
            app_limited: u32::MAX,
            sk_gso_max_size: GSO_MAX_BYTES,
            sk_gso_max_segs: host.config.gso_max_segs,
            // fq paces whatever comes by, whether its algorithm asks for it or not.
            sk_pacing_status: if host.config.fq { fq::SK_PACING_FQ } else { 0 },
            // Timestamps are no part of what is told.
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
                sndbuf_bytes: host.config.sndbuf_initial_bytes,
                is_limited: host.config.sndbuf_max_bytes.is_some(),
                ..Writer::default()
            },
            cut_end: None,
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
            prr: Prr::default(),
            rack: Rack { reo_wnd_steps: 1, ..Rack::default() },
            reord_seen: false,
            dsack_dups: 0,
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
            established_at: None,
            counters: Counters::default(),
            host,
        }
    }

    /// What a look at its packets from outside needs.
    pub(crate) fn numbers(&self) -> Numbers {
        Numbers {
            iss: self.iss,
            // The option counts the timestamps that every segment carries.
            mss_option: (self.host.config.mss_bytes() + 12) as u16,
            window_scale: self.receiver.window_scale(),
        }
    }

    /// Its host's clock at the start of the run.
    pub(crate) fn coarse_clock(&self) -> CoarseClock {
        self.host.jiffies.start()
    }

    /// Has `observer` told of every call of the algorithm that was asked for.
    pub(crate) fn observe(&mut self, observer: Box<dyn Observer>) {
        self.cc.observe(observer);
    }

    /// Work on this socket begins: the clocks that its algorithm sees are now's.
    #[inline]
    fn enter(&mut self, net: &mut Net) {
        self.tp.tcp_clock_cache = net.now.ns();
        self.tp.tcp_mstamp = net.now_us();
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

    /// Whether the peer's SYN is still to come.
    pub(crate) fn is_connecting(&self) -> bool {
        matches!(self.state, State::Listen | State::SynSent)
    }

    fn mss(&self) -> u32 {
        self.tp.mss_cache
    }

    /// Timestamp clock: ms ticks, never 0.
    fn ts_now(&self) -> u32 {
        (self.tp.tcp_mstamp / 1000) as u32 + 1
    }

    #[inline]
    fn in_flight(&self) -> u32 {
        self.tp.packets_in_flight()
    }

    fn ecn_ok(&self) -> bool {
        self.tp.ecn_flags & ecn_flags::OK != 0
    }

    /// The ECN field of a packet of this socket: ECT on all of an algorithm that needs ECN or asks for that, else
    /// only on data sent for the first time.
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

    fn wnd_end(&self) -> u32 {
        self.tp.snd_una.wrapping_add(self.tp.snd_wnd)
    }

    /// End of the connection's work: nothing more is sent, and memory is given back.
    pub(crate) fn end(&mut self, net: &mut Net) {
        if self.ended() {
            return;
        }
        self.enter(net);
        self.leave(State::Ended, net);
    }

    /// The connection is over: `state` says how what still arrives is answered.
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

    /// What the algorithm of a file did that none should.
    pub(crate) fn warnings(&self) -> Vec<Warning> {
        self.cc.warnings()
    }

    /// The algorithm is attached: the connection is established.
    fn init_algorithm(&mut self, net: &mut Net) {
        if self.host.config.ecn_low && self.ecn_ok() {
            self.tp.ecn_flags |= ecn_flags::LOW;
        }
        self.cc.init(&mut self.tp, &mut net.cc);
        if let Some(name) = net.cc.take_fallback() {
            self.cc.release(&mut self.tp, &mut net.cc);
            // An algorithm may only name one that exists: the native build's tests see to it.
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

    pub(crate) fn received_bytes(&self) -> u64 {
        self.receiver.received_bytes
    }

    /// `TCP_INFO` and the algorithm's own values.
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
