//! Rules that every algorithm must follow for any calls. The tests and the fuzzer turn arbitrary
//! bytes into a list of operations: plausible ones in the kernel's order, and implausible ones in
//! any order.
//!
//! After every call these rules hold: cwnd is at least 1 and at most its clamp. A pacing rate that
//! was set is not 0. Only fields that the kernel lets an algorithm write were written. The state
//! stays within its size. ssthresh and the cwnd to restore are at least 1. The recording has room
//! for the values that the host gave. The same bytes give the same calls and the same sockets, with
//! and without an observer and inspection after each step.

use std::collections::VecDeque;

use crate::{
    AckSample, Algorithm, Call, GivenLog, Host, INFINITE_SSTHRESH, Instance, Params, RateSample,
    TcpSock, ca_event, ca_state, ecn_flags,
};

/// Largest cwnd in packets. No socket exceeds a billion, and the sum of two still fits 32 bits.
const CWND_MAX: u32 = 1 << 30;
/// Most packets that one ACK covers: 4 GB of the smallest segments.
const ACKED_MAX: u32 = 1 << 24;
/// Most packets of a round that is played completely.
const ROUND_MAX: u32 = 128;
/// A week in seconds.
const WEEK_S: u64 = 7 * 24 * 3600;
/// Value of `sk_state` of a connection that carries data.
const ESTABLISHED: u8 = 1;
/// Number of ACKs whose marks are kept, above the number in any completely played round.
const ACKS_KEPT: usize = 4096;
/// Fill pattern of bytes that no algorithm may write.
const CANARY: u64 = 0xa5c3_96f0_0f69_3c5a;

/// The bytes that choose the operations. After the last byte it yields zeros.
struct Script<'a> {
    bytes: &'a [u8],
}

impl Script<'_> {
    fn is_over(&self) -> bool {
        self.bytes.is_empty()
    }

    fn u8(&mut self) -> u8 {
        match self.bytes.split_first() {
            Some((first, rest)) => {
                self.bytes = rest;
                *first
            }
            None => 0,
        }
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes([(); 4].map(|()| self.u8()))
    }

    fn u64(&mut self) -> u64 {
        u64::from(self.u32()) << 32 | u64::from(self.u32())
    }

    /// Draws a number from 1 to `max`. Small numbers are more frequent: a random width up to that
    /// of `max` limits the bits.
    fn up_to(&mut self, max: u32) -> u32 {
        let width = 32 - max.leading_zeros();
        let bits = u32::from(self.u8()) % (width + 1);
        let value = if bits == 0 { 0 } else { self.u32() >> (32 - bits) };
        value.clamp(1, max)
    }

    /// Draws the value of a counter: at the start, anywhere, or shortly before it wraps.
    fn counter(&mut self) -> u32 {
        match self.u8() % 4 {
            0 => 0,
            1 => self.u32(),
            _ => u32::MAX - u32::from(self.u8()) * 64,
        }
    }
}

/// A connection under an algorithm, with the values that only its host knows.
struct Machine {
    instance: Instance,
    sock: TcpSock,
    host: Host,
    /// Calls go through the recorder.
    observed: bool,
    /// Packets of the last ACKs and the number of them that were marked, latest first.
    acked: VecDeque<(u32, u32)>,
    /// Number of packets that the next ACK reports as lost for the first time.
    losses: u32,
    /// Result of each call.
    results: Vec<u32>,
    error: Option<String>,
}

impl Machine {
    fn new(algorithm: &'static Algorithm, script: &mut Script<'_>, observed: bool) -> Machine {
        let hz = [100, 250, 1000][usize::from(script.u8() % 3)];
        let mut host = Host::new(hz, script.u64());
        host.jiffies = script.counter();
        host.base_rtt_us = if script.u8() % 2 == 0 { 0 } else { script.u32() };
        let seq = script.counter();
        let clamp = if script.u8() % 2 == 0 { u32::MAX } else { script.up_to(CWND_MAX).max(2) };
        let sock = TcpSock {
            snd_cwnd: 10.min(clamp),
            snd_cwnd_clamp: clamp,
            mss_cache: script.up_to(65_535),
            snd_una: seq,
            snd_nxt: seq,
            delivered: script.counter(),
            delivered_ce: script.counter(),
            lost: script.counter(),
            rcv_nxt: script.counter(),
            tcp_mstamp: u64::from(script.counter()),
            ecn_flags: if script.u8() % 4 == 0 { 0 } else { ecn_flags::OK },
            is_cwnd_limited: 1,
            reordering: 3,
            sk_gso_max_size: 65_343,
            sk_gso_max_segs: 65_535,
            sk_state: ESTABLISHED,
            ..TcpSock::default()
        };
        let params = params(algorithm, script);
        let instance = algorithm.instance(params);
        let mut machine = Machine {
            instance,
            sock,
            host,
            observed,
            acked: VecDeque::new(),
            losses: 0,
            results: Vec::new(),
            error: None,
        };
        machine.assign();
        machine
    }

    /// Assigns the algorithm to the connection and initializes it.
    fn assign(&mut self) {
        self.instance.assign(&mut self.sock);
        plant_canaries(self.instance.algorithm(), &mut self.sock);
        self.call(Call::Init);
    }

    fn call(&mut self, call: Call) -> u32 {
        let before = self.sock.clone();
        let (result, log) = match self.observed {
            true => {
                let nothing = GivenLog::default();
                self.instance.replay(&call, &mut self.sock, &mut self.host, &nothing)
            }
            false => {
                (self.instance.call(&call, &mut self.sock, &mut self.host), GivenLog::default())
            }
        };
        self.results.push(result);
        if self.error.is_none() {
            self.error = self.broken_rule(&call, result, &before, &log).map(|rule| {
                let name = self.instance.algorithm().name();
                format!("{name}: call {} {call:?}: {rule}\nbefore {before:?}", self.results.len())
            });
        }
        self.answer();
        result
    }

    fn broken_rule(
        &self,
        call: &Call,
        result: u32,
        before: &TcpSock,
        log: &GivenLog,
    ) -> Option<String> {
        let after = &self.sock;
        if after.snd_cwnd == 0 || after.snd_cwnd > after.snd_cwnd_clamp {
            return Some(format!("cwnd {} of {}", after.snd_cwnd, after.snd_cwnd_clamp));
        }
        if before.sk_pacing_rate > 0 && after.sk_pacing_rate == 0 {
            return Some("the pacing rate became 0".to_owned());
        }
        let is_window = matches!(call, Call::Ssthresh | Call::UndoCwnd);
        if is_window && result == 0 {
            return Some("a window of 0 was returned".to_owned());
        }
        if log.overflowed() {
            return Some(format!("the host gave {} values", log.count));
        }
        if !has_canaries(self.instance.algorithm(), after) {
            return Some("the state passed its size".to_owned());
        }
        written(before, after).map(|field| format!("it wrote {field}"))
    }

    /// Carries out the requests of the algorithm to its host.
    fn answer(&mut self) {
        let asked = self.host.take_asked_acks().count();
        self.results.push(asked as u32);
        let Some(name) = self.host.take_fallback() else { return };
        if Algorithm::by_name(&name).is_err() && self.error.is_none() {
            self.error = Some(format!("{:?} leaves for {name}", self.instance.algorithm()));
        }
    }

    /// Advances the time.
    fn wait_us(&mut self, us: u64) {
        self.sock.tcp_mstamp = self.sock.tcp_mstamp.wrapping_add(us);
        let ticks = self.sock.tcp_mstamp / (1_000_000 / u64::from(self.host.hz))
            - (self.sock.tcp_mstamp - us) / (1_000_000 / u64::from(self.host.hz));
        self.host.jiffies = self.host.jiffies.wrapping_add(ticks as u32);
        self.sock.tcp_clock_cache = self.sock.tcp_mstamp.wrapping_mul(1000);
    }

    fn send(&mut self, pkts: u32) {
        if self.sock.packets_out == 0 {
            self.call(Call::CwndEvent { event: ca_event::TX_START });
        }
        let sock = &mut self.sock;
        let pkts = pkts.min(sock.snd_cwnd.saturating_sub(sock.packets_out)).max(1);
        sock.snd_nxt = sock.snd_nxt.wrapping_add(pkts.wrapping_mul(sock.mss_cache));
        sock.packets_out = sock.packets_out.saturating_add(pkts);
        sock.max_packets_out = sock.max_packets_out.max(sock.packets_out);
        sock.is_cwnd_limited = u8::from(sock.packets_out >= sock.snd_cwnd);
        sock.lsndtime = self.host.jiffies;
        sock.tcp_wstamp_ns = sock.tcp_wstamp_ns.max(sock.tcp_clock_cache);
    }

    /// Lets the application run out of data for now.
    fn limit_by_application(&mut self) {
        let sock = &mut self.sock;
        if sock.packets_out < sock.snd_cwnd {
            sock.app_limited = sock.delivered.wrapping_add(sock.packets_out).max(1);
        }
    }

    /// Counts the marks among the last packets that were delivered.
    fn marks_among(&self, pkts: u32) -> u32 {
        let mut left = pkts;
        let mut marks: u32 = 0;
        for (acked, marked) in &self.acked {
            if left == 0 {
                break;
            }
            marks = marks.saturating_add(*marked.min(&left));
            left = left.saturating_sub(*acked);
        }
        marks
    }

    /// Plays an ACK for `pkts` packets in the kernel's order of calls. With `marked`, all of them
    /// have CE and the ACK carries ECE.
    fn ack(&mut self, pkts: u32, marked: bool, rtt_us: u32) {
        let in_flight_before = self.sock.packets_out;
        let sock = &mut self.sock;
        let pkts = pkts.min(sock.packets_out);
        sock.packets_out -= pkts;
        sock.lost_out = sock.lost_out.min(sock.packets_out);
        sock.retrans_out = sock.retrans_out.min(sock.lost_out);
        sock.delivered = sock.delivered.wrapping_add(pkts);
        sock.delivered_ce = sock.delivered_ce.wrapping_add(if marked { pkts } else { 0 });
        sock.snd_una = sock.snd_una.wrapping_add(pkts.wrapping_mul(sock.mss_cache));
        sock.srtt_us = rtt_us << 3;
        sock.min_rtt_us = sock.min_rtt_us.min(rtt_us).max(1);
        sock.delivered_mstamp = sock.tcp_mstamp;
        let was_limited = sock.app_limited != 0;
        // Matches `after` of the core: all packets of the application-limited phase have been
        // delivered.
        if was_limited && (sock.app_limited.wrapping_sub(sock.delivered) as i32) < 0 {
            sock.app_limited = 0;
        }
        self.acked.push_front((pkts, if marked { pkts } else { 0 }));
        self.acked.truncate(ACKS_KEPT);
        let marks = self.marks_among(in_flight_before);
        let losses = std::mem::take(&mut self.losses);
        let sock = &self.sock;
        let sample = AckSample {
            pkts_acked: pkts,
            rtt_us: rtt_us as i32,
            in_flight: in_flight_before.wrapping_mul(sock.mss_cache),
        };
        let rs = RateSample {
            prior_mstamp: sock.tcp_mstamp.wrapping_sub(u64::from(rtt_us)),
            prior_delivered: sock.delivered.wrapping_sub(in_flight_before),
            prior_delivered_ce: sock.delivered_ce.wrapping_sub(marks),
            delivered_ce: marks as i32,
            losses: losses as i32,
            is_app_limited: was_limited,
            delivered: in_flight_before as i32,
            interval_us: i64::from(rtt_us),
            snd_interval_us: rtt_us,
            rcv_interval_us: rtt_us,
            rtt_us: i64::from(rtt_us),
            acked_sacked: pkts,
            prior_in_flight: in_flight_before,
            last_end_seq: sock.snd_una,
            ..RateSample::default()
        };
        let ack = sock.snd_una;
        self.call(Call::PktsAcked { sample });
        self.call(Call::InAckEvent { flags: if marked { 5 } else { 1 } });
        let is_growing = matches!(self.sock.icsk_ca_state, 0 | 1 | 4);
        if self.instance.algorithm().has_cong_control() {
            self.call(Call::CongControl { ack, flag: 0, rs });
        } else if is_growing {
            self.call(Call::CongAvoid { ack, acked: pkts });
        }
    }

    /// Sends a window, or its first [`ROUND_MAX`] packets, and plays an ACK for each `pkts` of
    /// them.
    fn round(&mut self, rtt_us: u32, pkts: u32, marked: bool) {
        self.sock.packets_out = self.sock.packets_out.min(ROUND_MAX);
        while self.sock.packets_out < self.sock.snd_cwnd.min(ROUND_MAX) {
            self.send(pkts);
        }
        self.call(Call::SndbufExpand);
        let acks = self.sock.packets_out.div_ceil(pkts);
        for _ in 0..acks {
            self.wait_us(u64::from(rtt_us / acks));
            self.ack(pkts, marked, rtt_us);
        }
    }

    /// Starts CWR, Recovery or Loss.
    fn reduce(&mut self, state: u8) {
        let lost = match state {
            ca_state::RECOVERY => (self.sock.packets_out / 8).max(1).min(self.sock.packets_out),
            ca_state::LOSS => self.sock.packets_out,
            _ => 0,
        };
        let newly_lost = lost.saturating_sub(self.sock.lost_out);
        self.sock.lost = self.sock.lost.wrapping_add(newly_lost);
        self.sock.lost_out = self.sock.lost_out.max(lost);
        self.losses = self.losses.saturating_add(newly_lost);
        self.sock.prior_cwnd = self.sock.snd_cwnd;
        self.sock.prior_ssthresh = self.sock.snd_ssthresh;
        self.sock.snd_ssthresh = self.call(Call::Ssthresh);
        if state == ca_state::LOSS {
            self.call(Call::CwndEvent { event: ca_event::LOSS });
            self.sock.snd_cwnd = 1;
            self.sock.snd_cwnd_cnt = 0;
        }
        self.call(Call::SetState { new_state: state });
        self.sock.icsk_ca_state = state;
    }

    /// Ends the episode, or undoes it as spurious.
    fn recover(&mut self, is_undone: bool) {
        if self.sock.icsk_ca_state == ca_state::OPEN {
            return;
        }
        let cwnd = match is_undone {
            true => self.call(Call::UndoCwnd),
            false => self.sock.snd_ssthresh,
        };
        self.sock.snd_cwnd = cwnd.clamp(1, self.sock.snd_cwnd_clamp.min(CWND_MAX));
        if !is_undone {
            self.call(Call::CwndEvent { event: ca_event::COMPLETE_CWR });
        }
        self.call(Call::SetState { new_state: ca_state::OPEN });
        self.sock.icsk_ca_state = ca_state::OPEN;
        (self.sock.lost_out, self.sock.retrans_out) = (0, 0);
    }

    /// Sets fields to values that no kernel produces but that fit the type.
    fn distort(&mut self, script: &mut Script<'_>) {
        let clamp = self.sock.snd_cwnd_clamp.min(CWND_MAX);
        let sock = &mut self.sock;
        match script.u8() % 16 {
            0 => sock.snd_cwnd = script.up_to(clamp),
            1 => sock.snd_ssthresh = script.up_to(INFINITE_SSTHRESH),
            2 => sock.snd_una = script.u32(),
            3 => sock.snd_nxt = script.u32(),
            4 => sock.delivered = script.u32(),
            5 => sock.delivered_ce = script.u32(),
            6 => sock.packets_out = script.u32(),
            7 => (sock.sacked_out, sock.lost_out) = (script.u32(), script.u32()),
            8 => sock.srtt_us = script.u32(),
            9 => sock.min_rtt_us = script.u32(),
            10 => sock.mss_cache = script.up_to(65_535),
            11 => (sock.lsndtime, self.host.jiffies) = (script.u32(), script.u32()),
            12 => sock.snd_cwnd_cnt = script.u32(),
            13 => sock.prior_cwnd = script.up_to(CWND_MAX),
            // No host uses the limit 0, which would disable pacing.
            14 => {
                (sock.sk_pacing_rate, sock.sk_max_pacing_rate) =
                    (script.u64(), script.u64().max(1));
            }
            _ => sock.icsk_ca_state = script.u8() % 5,
        }
    }

    /// Makes any operation with any arguments.
    fn any_call(&mut self, script: &mut Script<'_>) {
        let call = match script.u8() % 12 {
            0 => Call::Ssthresh,
            1 => Call::CongAvoid { ack: script.u32(), acked: script.up_to(ACKED_MAX) },
            2 => Call::SetState { new_state: script.u8() % 5 },
            3 => Call::CwndEvent { event: u32::from(script.u8() % 8) },
            4 => Call::InAckEvent { flags: script.u32() },
            5 => Call::PktsAcked {
                sample: AckSample {
                    pkts_acked: script.u32(),
                    rtt_us: script.u32() as i32,
                    in_flight: script.u32(),
                },
            },
            6 => Call::MinTsoSegs,
            7 => Call::CongControl {
                ack: script.u32(),
                flag: script.u32() as i32,
                rs: any_rate_sample(script),
            },
            8 => Call::UndoCwnd,
            9 => Call::Init,
            10 => Call::SndbufExpand,
            _ => Call::Release,
        };
        self.call(call);
    }

    fn step(&mut self, script: &mut Script<'_>) {
        match script.u8() % 16 {
            0..=2 => {
                let rtt_us = script.up_to(1 << 21);
                self.wait_us(u64::from(rtt_us / 4));
                let pkts = script.up_to(ACKED_MAX);
                self.ack(pkts, script.u8() % 4 == 0, rtt_us);
            }
            3..=5 => {
                let (rtt_us, pkts) = (script.up_to(1 << 21), u32::from(script.u8() % 8));
                self.round(rtt_us, pkts.max(1), script.u8() % 8 == 0);
            }
            6..=8 => {
                let pkts = script.up_to(ACKED_MAX);
                self.send(pkts);
                if script.u8() % 4 == 0 {
                    self.limit_by_application();
                }
            }
            9 => self.reduce([ca_state::CWR, ca_state::RECOVERY][usize::from(script.u8() % 2)]),
            10 => self.reduce(ca_state::LOSS),
            11 => self.recover(script.u8() % 4 == 0),
            12 => {
                let weeks = u64::from(script.u8() % 5);
                self.wait_us(weeks * WEEK_S * 1_000_000 + u64::from(script.u32()));
                self.call(Call::CwndEvent { event: ca_event::CWND_RESTART });
            }
            13 => {
                let event = [ca_event::ECN_NO_CE, ca_event::ECN_IS_CE];
                self.sock.rcv_nxt = self.sock.rcv_nxt.wrapping_add(self.sock.mss_cache);
                self.call(Call::CwndEvent { event: event[usize::from(script.u8() % 2)] });
            }
            14 => self.distort(script),
            _ => self.any_call(script),
        }
    }
}

fn any_rate_sample(script: &mut Script<'_>) -> RateSample {
    RateSample {
        prior_mstamp: script.u64(),
        prior_delivered: script.u32(),
        prior_delivered_ce: script.u32(),
        delivered: script.u32() as i32,
        delivered_ce: script.u32() as i32,
        interval_us: script.u64() as i64,
        snd_interval_us: script.u32(),
        rcv_interval_us: script.u32(),
        rtt_us: script.u64() as i64,
        losses: script.u32() as i32,
        acked_sacked: script.u32(),
        prior_in_flight: script.u32(),
        last_end_seq: script.u32(),
        is_app_limited: script.u8() % 2 == 0,
        is_retrans: script.u8() % 2 == 0,
        is_ack_delayed: script.u8() % 2 == 0,
        ..RateSample::default()
    }
}

/// Draws parameters: each has its default, one of its bounds, or any value in between.
fn params(algorithm: &'static Algorithm, script: &mut Script<'_>) -> Params {
    let value = |info: &crate::ParamInfo| match script.u8() % 8 {
        0 => info.min,
        1 => info.max,
        2 => info.min + (u64::from(script.u32()) % (u64::from(info.max - info.min) + 1)) as u32,
        _ => info.default,
    };
    let values: Vec<u32> = algorithm.params().iter().map(value).collect();
    algorithm.params_of(&values).unwrap_or_else(|| algorithm.default_params())
}

/// Returns the bytes of the private area outside the algorithm's state.
fn foreign_bytes(algorithm: &Algorithm) -> std::ops::Range<usize> {
    let state = algorithm.state_bytes() as usize;
    let all = size_of::<[u64; 13]>();
    if state > all { 0..all } else { state..all }
}

fn plant_canaries(algorithm: &Algorithm, sock: &mut TcpSock) {
    for i in foreign_bytes(algorithm) {
        let (word, shift) = (i / 8, i % 8 * 8);
        sock.icsk_ca_priv[word] |= (CANARY >> shift & 0xff) << shift;
    }
}

fn has_canaries(algorithm: &Algorithm, sock: &TcpSock) -> bool {
    foreign_bytes(algorithm).all(|i| {
        let (word, shift) = (i / 8, i % 8 * 8);
        sock.icsk_ca_priv[word] >> shift & 0xff == CANARY >> shift & 0xff
    })
}

/// Fields that the kernel's verifier lets an algorithm write.
const WRITABLE: [&str; 9] = [
    "sk_pacing_rate",
    "sk_pacing_status",
    "icsk_ack_pending",
    "snd_cwnd",
    "snd_cwnd_cnt",
    "snd_cwnd_stamp",
    "snd_ssthresh",
    "ecn_flags",
    "app_limited",
];

/// Returns a field that was written and is not one of these.
fn written(before: &TcpSock, after: &TcpSock) -> Option<&'static str> {
    macro_rules! changed {
        (TcpSock: $([$($field:ident: $type:ty,)*])*) => {
            [$($((stringify!($field), before.$field != after.$field)),*),*]
        };
    }
    let mut changed = with_fields!(TcpSock, changed).into_iter().filter(|(_, changed)| *changed);
    changed.find_map(|(field, _)| (!WRITABLE.contains(&field)).then_some(field))
}

fn run(algorithm: &'static Algorithm, bytes: &[u8], observed: bool) -> Result<Machine, String> {
    let mut script = Script { bytes };
    let mut machine = Machine::new(algorithm, &mut script, observed);
    while !script.is_over() && machine.error.is_none() {
        machine.step(&mut script);
        if observed {
            machine.instance.read_diag(&mut machine.sock, &mut machine.host);
        }
    }
    match machine.error.take() {
        Some(error) => Err(error),
        None => Ok(machine),
    }
}

/// Runs the operations that `bytes` encode twice, once with an observer.
///
/// # Errors
/// The first broken rule, with the call and the socket before it.
pub fn check(algorithm: &'static Algorithm, bytes: &[u8]) -> Result<(), String> {
    let (plain, observed) = (run(algorithm, bytes, false)?, run(algorithm, bytes, true)?);
    let sockets = [&plain, &observed].map(|machine| format!("{:?}", machine.sock));
    if plain.results != observed.results || sockets[0] != sockets[1] {
        return Err(format!("{}: the same calls gave other results", algorithm.name()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_list_of_operations_breaks_an_algorithm(
            bytes in proptest::collection::vec(any::<u8>(), 0..3000),
        ) {
            for algorithm in Algorithm::all() {
                prop_assert_eq!(check(algorithm, &bytes), Ok(()));
            }
        }
    }

    /// Plays a plausible connection from given counter values: transfers, marks, losses and a
    /// pause.
    fn life(algorithm: &'static Algorithm, begin: &dyn Fn(&mut Machine)) -> Vec<[u64; 4]> {
        let mut machine = Machine::new(algorithm, &mut Script { bytes: &[2] }, false);
        machine.sock.mss_cache = 1448;
        machine.sock.ecn_flags = ecn_flags::OK;
        machine.sock.snd_cwnd = 10;
        begin(&mut machine);
        machine.assign();
        let mut trace = Vec::new();
        for round in 0..400u32 {
            while machine.sock.packets_out < machine.sock.snd_cwnd.min(2000) {
                machine.send(2);
            }
            while machine.sock.packets_out > 0 {
                machine.wait_us(5);
                let queue_us = machine.sock.packets_out / 4;
                machine.ack(2, round % 7 == 3, 100 + queue_us);
            }
            machine.wait_us(97);
            match round % 50 {
                20 => machine.reduce(ca_state::CWR),
                30 => machine.reduce(ca_state::RECOVERY),
                40 => machine.reduce(ca_state::LOSS),
                22 | 32 | 44 => machine.recover(false),
                _ => {}
            }
            let sock = &machine.sock;
            trace.push([
                sock.snd_cwnd.into(),
                sock.snd_cwnd_cnt.into(),
                sock.snd_ssthresh.into(),
                sock.sk_pacing_rate,
            ]);
        }
        assert_eq!(machine.error, None);
        trace
    }

    #[test]
    fn a_counter_that_wraps_changes_nothing() {
        type Begin = Box<dyn Fn(&mut Machine)>;
        // Each counter wraps within the first rounds, where most happens.
        let counters: Vec<(&str, Begin)> = vec![
            (
                "sequence numbers",
                Box::new(|m| {
                    let seq = u32::MAX - 300_000;
                    (m.sock.snd_una, m.sock.snd_nxt, m.sock.rcv_nxt) = (seq, seq, seq);
                }),
            ),
            ("delivered", Box::new(|m| m.sock.delivered = u32::MAX - 500)),
            ("delivered_ce", Box::new(|m| m.sock.delivered_ce = u32::MAX - 100)),
            ("lost", Box::new(|m| m.sock.lost = u32::MAX)),
            // The base of 1,000,000 jiffies is not a multiple of any period that would shift a
            // tick.
            ("jiffies", Box::new(|m| m.host.jiffies = u32::MAX - 20)),
            (
                "the clock in us",
                Box::new(|m| m.sock.tcp_mstamp = (1 << 32) - (1 << 32) % 1000 - 4000),
            ),
        ];
        for algorithm in Algorithm::all() {
            let plain = life(algorithm, &|m| m.host.jiffies = 1_000_000);
            for (name, begin) in &counters {
                let wrapped = life(algorithm, &|m| {
                    m.host.jiffies = 1_000_000;
                    begin(m);
                });
                for (round, (a, b)) in plain.iter().zip(&wrapped).enumerate() {
                    assert_eq!(a, b, "{}: {name}: round {round}", algorithm.name());
                }
            }
        }
    }

    #[test]
    fn after_an_idle_week_nothing_strange_happens() {
        for algorithm in Algorithm::all() {
            let mut machine = Machine::new(algorithm, &mut Script { bytes: &[2] }, false);
            machine.sock.mss_cache = 1448;
            machine.sock.ecn_flags = ecn_flags::OK;
            machine.host.jiffies = 4_000_000_000;
            machine.assign();
            let round = |machine: &mut Machine| {
                while machine.sock.packets_out < machine.sock.snd_cwnd.min(500) {
                    machine.send(2);
                }
                while machine.sock.packets_out > 0 {
                    machine.wait_us(5);
                    machine.ack(2, false, 100);
                }
            };
            for i in 0..60 {
                round(&mut machine);
                if i == 20 {
                    machine.reduce(ca_state::RECOVERY);
                    machine.recover(false);
                }
            }
            let before = machine.sock.snd_cwnd;
            machine.wait_us(WEEK_S * 1_000_000);
            // The core halves cwnd for each RTO of idle time, down to the initial window.
            machine.call(Call::CwndEvent { event: ca_event::CWND_RESTART });
            machine.sock.snd_cwnd = machine.sock.snd_cwnd.min(10);
            for _ in 0..3 {
                let sent = machine.sock.snd_cwnd;
                round(&mut machine);
                let now = machine.sock.snd_cwnd;
                let name = algorithm.name();
                assert!(now <= 2 * sent.max(10), "{name}: {sent} packets became {now}");
                assert!(now >= 2 || before < 2, "{name}: {sent} packets became {now}");
            }
            assert_eq!(machine.error, None);
        }
    }
}
