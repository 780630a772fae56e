//! The same calls on the native build, compared field by field with what the kernel did.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use knee_algo::{Algorithm, AskedAck, Host, Instance, Params, TcpSock};

use crate::{Call, Record};

/// A call that came out differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Number of the record, from 0 over all sockets.
    pub record: usize,
    /// The socket's number.
    pub flow: u64,
    /// Number of the call on this socket.
    pub number: u64,
    /// The operation, as [`Call::kind`] names it.
    pub kind: String,
    /// What differs: a field of the socket, the return value, ...
    pub field: String,
    /// Its value in the kernel.
    pub kernel: String,
    /// Its value in the native build.
    pub native: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "callback {} (socket {}, its call {}), {}: {} is {} in the kernel and {} natively",
            self.record, self.flow, self.number, self.kind, self.field, self.kernel, self.native
        )
    }
}

/// What a replay found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Calls replayed, by [`Call::kind`].
    pub calls: BTreeMap<String, usize>,
    /// Sockets seen.
    pub flows: usize,
    /// ACKs that the calls asked for.
    pub acks_asked: usize,
    /// Calls during which the coarse clock ticked: equal for one of the two times is equal.
    pub ticked: usize,
    /// Times that records of a socket were missing, so that its state had to be taken from the
    /// record instead of from the call before.
    pub gaps: usize,
    /// Calls that came out differently.
    pub differences: usize,
    /// The first of them.
    pub first_difference: Option<Difference>,
}

impl Report {
    /// Calls replayed.
    pub fn total(&self) -> usize {
        self.calls.values().sum()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} callbacks of {} sockets", self.total(), self.flows)?;
        writeln!(
            f,
            ", {} ACKs asked, {} clock ticks, {} gaps, {} differences",
            self.acks_asked, self.ticked, self.gaps, self.differences
        )?;
        for (kind, calls) in &self.calls {
            writeln!(f, "  {calls:7} {kind}")?;
        }
        self.first_difference.as_ref().map_or(Ok(()), |first| writeln!(f, "  first: {first}"))
    }
}

/// Makes each recorded call on the native build of `algorithm`, and compares what it did.
///
/// The socket's fields and the host's answers come from the record. The private state does not: it
/// is carried from call to call, so an error would have to stay hidden for a whole connection.
pub fn replay(algorithm: &'static Algorithm, params: &Params, records: &[Record]) -> Report {
    let mut report = Report::default();
    let mut states: HashMap<u64, (u64, [u64; 13])> = HashMap::new();
    for (index, record) in records.iter().enumerate() {
        *report.calls.entry(record.call.kind()).or_default() += 1;
        report.acks_asked += record.asked_acks.len();
        report.ticked += usize::from(record.jiffies != record.jiffies_after);

        let known = states.get(&record.flow).copied();
        let mut before = record.before.clone();
        match known {
            Some((next, state)) if next == record.number && record.call != Call::Init => {
                before.icsk_ca_priv = state;
            }
            Some((next, _)) => report.gaps += usize::from(next != record.number),
            None => report.gaps += usize::from(record.number != 0),
        }
        let mut instance = algorithm.instance(params.clone());
        let (native, found) = compare(&mut instance, record, &before);
        if let Some((field, kernel, native)) = found {
            report.differences += 1;
            report.first_difference.get_or_insert_with(|| Difference {
                record: index,
                flow: record.flow,
                number: record.number,
                kind: record.call.kind(),
                field,
                kernel,
                native,
            });
        }
        states.insert(record.flow, (record.number + 1, native));
    }
    report.flows = states.len();
    report
}

/// A field and its two values.
type Found = (String, String, String);

/// The native private state after the call, and what differs. Where the clock ticked during the
/// call, either time may explain what it did.
fn compare(
    instance: &mut Instance,
    record: &Record,
    before: &TcpSock,
) -> ([u64; 13], Option<Found>) {
    let (state, found) = compare_at(instance, record, before, record.jiffies);
    if found.is_some() && record.jiffies != record.jiffies_after {
        let (later_state, later) = compare_at(instance, record, before, record.jiffies_after);
        if later.is_none() {
            return (later_state, None);
        }
    }
    (state, found)
}

fn compare_at(
    instance: &mut Instance,
    record: &Record,
    before: &TcpSock,
    jiffies: u32,
) -> ([u64; 13], Option<Found>) {
    let mut sock = before.clone();
    let mut host = Host::new(record.hz, record.random_state);
    host.jiffies = jiffies;
    let result = call(instance, &record.call, &mut sock, &mut host);
    let acks: Vec<_> = host.take_asked_acks().collect();
    let fallback = host.take_fallback();
    // Once it has asked for another algorithm, the socket is that one's.
    let found = if record.fallback.is_some() || fallback.is_some() {
        differs("fallback", &record.fallback, &fallback)
    } else {
        differs("the return value", &record.result, &result)
            .or_else(|| differs("the ACKs asked for", &Acks(&record.asked_acks), &Acks(&acks)))
            .or_else(|| first_field(&record.after, &sock))
    };
    (sock.icsk_ca_priv, found)
}

/// Makes the call; what it returns, 0 if that is nothing.
fn call(instance: &mut Instance, call: &Call, sock: &mut TcpSock, host: &mut Host) -> u32 {
    match *call {
        Call::Ssthresh => return instance.ssthresh(sock, host),
        Call::CongAvoid { ack, acked } => instance.cong_avoid(sock, host, ack, acked),
        Call::SetState { new_state } => instance.set_state(sock, host, new_state),
        Call::CwndEvent { event } => instance.cwnd_event(sock, host, event),
        Call::InAckEvent { flags } => instance.in_ack_event(sock, host, flags),
        Call::PktsAcked { ref sample } => instance.pkts_acked(sock, host, sample),
        Call::MinTsoSegs => return instance.min_tso_segs(sock, host),
        Call::CongControl { ack, flag, ref rs } => {
            instance.cong_control(sock, host, (ack, flag), rs);
        }
        Call::UndoCwnd => return instance.undo_cwnd(sock, host),
        // knee-algo has no such call yet; no algorithm has the operation either.
        Call::SndbufExpand => {}
        Call::Init => instance.init(sock, host),
        Call::Release => instance.release(sock, host),
    }
    0
}

/// Asked ACKs, shown as a person would say them.
#[derive(PartialEq)]
struct Acks<'a>(&'a [AskedAck]);

impl fmt::Debug for Acks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |ack: &AskedAck| format!("{} with ecn_flags {}", ack.rcv_nxt, ack.ecn_flags);
        match self.0 {
            [] => f.write_str("none"),
            acks => f.write_str(&acks.iter().map(show).collect::<Vec<_>>().join(", ")),
        }
    }
}

fn differs<T: PartialEq + fmt::Debug>(field: &str, kernel: &T, native: &T) -> Option<Found> {
    (kernel != native).then(|| (field.to_owned(), format!("{kernel:?}"), format!("{native:?}")))
}

/// The first field, of those that an algorithm may write, that is not the same in both.
fn first_field(kernel: &TcpSock, native: &TcpSock) -> Option<Found> {
    macro_rules! fields {
        ($($field:ident),*) => {
            [$((stringify!($field), u64::from(kernel.$field), u64::from(native.$field))),*]
        };
    }
    fields!(
        snd_cwnd,
        snd_cwnd_cnt,
        snd_ssthresh,
        ecn_flags,
        icsk_ack_pending,
        snd_cwnd_stamp,
        app_limited,
        sk_pacing_rate,
        sk_pacing_status
    )
    .iter()
    .find_map(|(field, kernel, native)| differs(field, kernel, native))
    .or_else(|| first_state_word(&kernel.icsk_ca_priv, &native.icsk_ca_priv))
}

/// The first 32-bit word of the private state that differs, by its place in bytes.
fn first_state_word(kernel: &[u64; 13], native: &[u64; 13]) -> Option<Found> {
    let words = |state: &[u64; 13]| -> Vec<u32> {
        let bytes: Vec<u8> = state.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes
            .chunks_exact(4)
            .map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]))
            .collect()
    };
    words(kernel).iter().zip(words(native)).enumerate().find_map(|(i, (kernel, native))| {
        differs(&format!("private state at byte {}", i * 4), kernel, &native)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use knee_algo::{ack_pending, ca_event, ecn_flags};

    fn record(number: u64, call: Call, before: &TcpSock, after: &TcpSock, result: u32) -> Record {
        Record {
            flow: 1,
            number,
            call,
            result,
            before: before.clone(),
            after: after.clone(),
            jiffies: 1000,
            jiffies_after: 1000,
            hz: 250,
            random_state: 0,
            asked_acks: Vec::new(),
            fallback: None,
        }
    }

    fn algorithm(name: &str) -> (&'static Algorithm, Params) {
        let algorithm = Algorithm::by_name(name).unwrap();
        (algorithm, algorithm.default_params())
    }

    #[test]
    fn a_wrong_return_value_is_told_with_its_place() {
        let (reno, params) = algorithm("reno");
        let sock = TcpSock { snd_cwnd: 10, ..TcpSock::default() };
        let good = record(0, Call::Ssthresh, &sock, &sock, 5);
        let bad = record(1, Call::Ssthresh, &sock, &sock, 6);
        assert_eq!(replay(reno, &params, std::slice::from_ref(&good)).first_difference, None);
        let report = replay(reno, &params, &[good, bad]);
        assert_eq!(report.differences, 1);
        assert_eq!(
            report.first_difference.unwrap().to_string(),
            "callback 1 (socket 1, its call 1), ssthresh: the return value is 6 in the kernel \
             and 5 natively"
        );
    }

    #[test]
    fn private_state_is_carried_from_call_to_call_and_not_taken_from_the_record() {
        let (dctcp, params) = algorithm("dctcp");
        let sock = TcpSock { snd_cwnd: 10, ecn_flags: ecn_flags::OK, ..TcpSock::default() };
        let mut after = sock.clone();
        dctcp.instance(params.clone()).init(&mut after, &mut Host::new(250, 0));
        let init = record(0, Call::Init, &sock, &after, 0);
        // The kernel's alpha is half of what init left, before and after this call.
        let mut wrong = after.clone();
        wrong.icsk_ca_priv[1] = 512 << 32;
        let mut cut = wrong.clone();
        cut.icsk_ca_priv[3] = 10;
        let report = replay(dctcp, &params, &[init, record(1, Call::Ssthresh, &wrong, &cut, 8)]);
        assert_eq!(report.differences, 1);
        assert_eq!(report.first_difference.unwrap().field, "the return value");
    }

    #[test]
    fn a_clock_that_ticks_during_the_call_may_be_read_either_way() {
        let (cubic, params) = algorithm("cubic");
        let sock =
            TcpSock { snd_cwnd: 10, snd_ssthresh: 5, is_cwnd_limited: 1, ..TcpSock::default() };
        let call = Call::CongAvoid { ack: 0, acked: 1 };
        for jiffies in [1000, 1001, 1002] {
            let mut after = sock.clone();
            let mut host = Host::new(250, 0);
            host.jiffies = jiffies;
            cubic.instance(params.clone()).cong_avoid(&mut after, &mut host, 0, 1);
            let record = Record { jiffies_after: 1001, ..record(0, call, &sock, &after, 0) };
            let report = replay(cubic, &params, &[record]);
            assert_eq!(report.ticked, 1);
            assert_eq!(report.differences, usize::from(jiffies == 1002), "{report}");
        }
    }

    /// As a 6.18 kernel did: CE on a segment out of order, while a delayed ACK is owed for one that
    /// was in order. The ACK that is asked for then covers all there is, and ends the delayed ACK.
    #[test]
    fn an_ack_that_leaves_nothing_owed_ends_the_delayed_ack() {
        let (dctcp, params) = algorithm("dctcp");
        let mut before = TcpSock {
            snd_cwnd: 10,
            rcv_nxt: 1449,
            ecn_flags: ecn_flags::OK,
            icsk_ack_pending: ack_pending::SCHED | ack_pending::TIMER,
            ..TcpSock::default()
        };
        // prior_rcv_nxt is the third word.
        before.icsk_ca_priv[1] = 1449;
        let mut after = before.clone();
        after.ecn_flags |= ecn_flags::DEMAND_CWR;
        after.icsk_ack_pending = ack_pending::NOW;
        // ce_state is the sixth.
        after.icsk_ca_priv[2] = 1 << 32;
        let call = Call::CwndEvent { event: ca_event::ECN_IS_CE };
        let mut special = record(0, call, &before, &after, 0);
        special.asked_acks = vec![AskedAck { rcv_nxt: 1449, ecn_flags: ecn_flags::OK }];
        assert_eq!(replay(dctcp, &params, &[special]).first_difference, None);
    }

    #[test]
    fn missing_records_are_counted_and_do_not_spoil_what_follows() {
        let (reno, params) = algorithm("reno");
        let sock = TcpSock { snd_cwnd: 10, ..TcpSock::default() };
        let report = replay(
            reno,
            &params,
            &[
                record(0, Call::Ssthresh, &sock, &sock, 5),
                record(7, Call::Ssthresh, &sock, &sock, 5),
            ],
        );
        assert_eq!((report.gaps, report.differences, report.total()), (1, 0, 2));
    }
}
