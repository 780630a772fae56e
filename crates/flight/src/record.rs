//! One call of an algorithm, and its encoding.

use std::fmt;

use knee_algo::{
    AckSample, AskedAck, Call, Given, GivenLog, OPERATIONS, RateSample, TcpSock, with_fields,
};

use crate::bytes::{Bytes, Number, put, put_signed, put_text};
use crate::error::Malformed;

/// The most ACKs that one call can ask for.
const MAX_ACKS: u64 = 2;
/// The most words of a state in socket storage that a record can hold: 512 bytes, as in the kernel.
pub(crate) const MAX_LARGE_WORDS: u64 = 64;
/// The longest name of an algorithm, bytes.
const MAX_NAME_BYTES: usize = 15;

/// One call of an algorithm: its inputs and its effects.
#[derive(Clone, Debug)]
pub struct Record {
    /// Number of the socket, from 1, in order of first calls.
    pub flow: u64,
    /// Number of the call on this socket, from 0. A missing number means a lost record.
    pub number: u64,
    pub call: Call,
    /// The return value; 0 if the operation returns nothing.
    pub result: u32,
    /// The coarse clock when the call began, in ticks of 1/`hz` s (see [`crate::Header`]).
    pub jiffies: u32,
    pub before: TcpSock,
    pub after: TcpSock,
    /// Values that the host gave during the call, in order.
    pub given: GivenLog,
    /// ACKs that the call asked for, in order.
    pub asked_acks: Vec<AskedAck>,
    /// How often the call asked for another path.
    pub rehashes: u32,
    /// The algorithm that the call asked to be replaced by.
    pub fallback: Option<String>,
    /// State in socket storage before the call, in words of 8 bytes, without the zeroes at its end.
    pub large_before: Vec<u64>,
    pub large_after: Vec<u64>,
}

macro_rules! define_sock {
    (TcpSock: [$($head:ident: $_head:ty,)*] [$($tail:ident: $_tail:ty,)*] $_rest:tt) => {
        /// Names of all fields except the private state, in the order of the encoding.
        pub(crate) const SOCK_FIELDS: &[&str] = &[$(stringify!($head),)* $(stringify!($tail),)*];

        /// Names of the fields that come before the private state.
        #[cfg(test)]
        const HEAD_FIELDS: &[&str] = &[$(stringify!($head)),*];

        fn put_sock(to: &mut Vec<u8>, sock: &TcpSock) {
            $(sock.$head.put(to);)*
            for word in &sock.icsk_ca_priv {
                put(to, *word);
            }
            $(sock.$tail.put(to);)*
        }

        fn take_sock(from: &mut Bytes<'_>) -> Result<TcpSock, Malformed> {
            let mut sock = TcpSock::default();
            $(sock.$head = Number::take(from, stringify!($head))?;)*
            for word in &mut sock.icsk_ca_priv {
                *word = from.take()?;
            }
            $(sock.$tail = Number::take(from, stringify!($tail))?;)*
            // Algorithms shift a 64-bit number by this value.
            if sock.sk_pacing_shift >= u64::BITS {
                let value = sock.sk_pacing_shift.into();
                return Err(Malformed::TooLarge { what: "sk_pacing_shift", value });
            }
            Ok(sock)
        }

        /// Returns all fields except the private state, by name.
        pub(crate) fn sock_fields(sock: &TcpSock) -> Vec<(&'static str, u64)> {
            vec![
                $((stringify!($head), u64::from(sock.$head)),)*
                $((stringify!($tail), u64::from(sock.$tail)),)*
            ]
        }
    };
}

with_fields!(TcpSock, define_sock);

/// The requests that a call can make to its host, in the order of the encoding.
pub(crate) const ASKED: &[&str] = &["acks", "rehashes", "fallback"];

/// A sample in the encoding: all its fields in order.
pub(crate) trait Sample: Sized {
    /// Names of the fields.
    const FIELDS: &'static [&'static str];

    fn put(&self, to: &mut Vec<u8>);

    fn take(from: &mut Bytes<'_>) -> Result<Self, Malformed>;

    /// Values of the fields.
    fn numbers(&self) -> Vec<i128>;
}

macro_rules! define_sample {
    ($sample:ident: [$($field:ident: $_type:ty,)*]) => {
        impl Sample for $sample {
            const FIELDS: &'static [&'static str] = &[$(stringify!($field)),*];

            fn put(&self, to: &mut Vec<u8>) {
                $(self.$field.put(to);)*
            }

            fn take(from: &mut Bytes<'_>) -> Result<$sample, Malformed> {
                // Recordings do not hold the fields that only modules see.
                let mut sample = $sample::default();
                $(sample.$field = Number::take(from, stringify!($field))?;)*
                Ok(sample)
            }

            fn numbers(&self) -> Vec<i128> {
                vec![$(i128::from(self.$field)),*]
            }
        }
    };
}

with_fields!(AckSample, define_sample);
with_fields!(RateSample, define_sample);

impl Record {
    /// Creates the first call of socket 1, with no values given, no return value and no requests.
    pub fn new(call: Call, before: &TcpSock, after: &TcpSock) -> Record {
        Record {
            flow: 1,
            number: 0,
            call,
            result: 0,
            jiffies: 0,
            before: before.clone(),
            after: after.clone(),
            given: GivenLog::default(),
            asked_acks: Vec::new(),
            rehashes: 0,
            fallback: None,
            large_before: Vec::new(),
            large_after: Vec::new(),
        }
    }

    pub(crate) fn put(&self, to: &mut Vec<u8>) {
        put(to, self.flow);
        put(to, self.number);
        put_call(to, &self.call);
        put(to, u64::from(self.result));
        put(to, u64::from(self.jiffies));
        put(to, u64::from(self.given.count));
        for given in self.given.values() {
            let Given { kind, value, snd_cwnd, snd_cwnd_cnt } = *given;
            for number in [kind, value, snd_cwnd, snd_cwnd_cnt] {
                put(to, u64::from(number));
            }
        }
        put(to, self.asked_acks.len() as u64);
        for ack in &self.asked_acks {
            put(to, u64::from(ack.rcv_nxt));
            put(to, u64::from(ack.ecn_flags));
        }
        put(to, u64::from(self.rehashes));
        put_text(to, self.fallback.as_deref().unwrap_or(""));
        put_sock(to, &self.before);
        put_sock(to, &self.after);
        put_words(to, &self.large_before);
        put_words(to, &self.large_after);
    }

    pub(crate) fn take(from: &mut Bytes<'_>) -> Result<Record, Malformed> {
        let (flow, number) = (from.take()?, from.take()?);
        let call = take_call(from)?;
        let result = from.narrow("the result")?;
        let jiffies = from.narrow("jiffies")?;
        let mut given = GivenLog { count: from.narrow("the values given")?, ..GivenLog::default() };
        let room = given.values().len();
        for value in &mut given.given[..room] {
            *value = Given {
                kind: from.narrow("the kind of a value given")?,
                value: from.narrow("a value given")?,
                snd_cwnd: from.narrow("snd_cwnd")?,
                snd_cwnd_cnt: from.narrow("snd_cwnd_cnt")?,
            };
        }
        let acks = from.take()?;
        if acks > MAX_ACKS {
            return Err(Malformed::Acks(acks));
        }
        let mut asked_acks = Vec::new();
        for _ in 0..acks {
            let rcv_nxt = from.narrow("rcv_nxt")?;
            asked_acks.push(AskedAck { rcv_nxt, ecn_flags: from.narrow("ecn_flags")? });
        }
        let rehashes = from.narrow("the rehashes asked for")?;
        let fallback = Some(from.text(MAX_NAME_BYTES)?).filter(|name| !name.is_empty());
        let (before, after) = (take_sock(from)?, take_sock(from)?);
        let (large_before, large_after) = (take_words(from)?, take_words(from)?);
        Ok(Record {
            flow,
            number,
            call,
            result,
            jiffies,
            before,
            after,
            given,
            asked_acks,
            rehashes,
            fallback,
            large_before,
            large_after,
        })
    }
}

/// Returns a large state without the zeroes at its end, as a record stores it.
pub fn without_last_zeroes(words: &[u64]) -> Vec<u64> {
    let len = words.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
    words[..len].to_vec()
}

fn put_words(to: &mut Vec<u8>, words: &[u64]) {
    put(to, words.len() as u64);
    for word in words {
        put(to, *word);
    }
}

fn take_words(from: &mut Bytes<'_>) -> Result<Vec<u64>, Malformed> {
    let len = from.take()?;
    if len > MAX_LARGE_WORDS {
        return Err(Malformed::Words(len));
    }
    (0..len).map(|_| from.take()).collect()
}

fn put_call(to: &mut Vec<u8>, call: &Call) {
    let operation = OPERATIONS.iter().position(|name| *name == call.operation());
    put(to, operation.expect("a test compares the list with all calls") as u64);
    match *call {
        Call::CongAvoid { ack, acked } => {
            put(to, u64::from(ack));
            put(to, u64::from(acked));
        }
        Call::SetState { new_state } => put(to, u64::from(new_state)),
        Call::CwndEvent { event } => put(to, u64::from(event)),
        Call::InAckEvent { flags } => put(to, u64::from(flags)),
        Call::PktsAcked { ref sample } => sample.put(to),
        Call::CongControl { ack, flag, ref rs } => {
            put(to, u64::from(ack));
            put_signed(to, i64::from(flag));
            rs.put(to);
        }
        Call::Ssthresh
        | Call::MinTsoSegs
        | Call::UndoCwnd
        | Call::SndbufExpand
        | Call::Init
        | Call::Release => {}
    }
}

fn take_call(from: &mut Bytes<'_>) -> Result<Call, Malformed> {
    let operation = from.take()?;
    let name = usize::try_from(operation).ok().and_then(|index| OPERATIONS.get(index));
    let call = name.and_then(|name| Call::of(name));
    let mut call = call.ok_or(Malformed::Operation(operation))?;
    match &mut call {
        Call::CongAvoid { ack, acked } => {
            *ack = from.narrow("ack")?;
            *acked = from.narrow("acked")?;
        }
        Call::SetState { new_state } => *new_state = from.narrow("new_state")?,
        Call::CwndEvent { event } => *event = from.narrow("event")?,
        Call::InAckEvent { flags } => *flags = from.narrow("flags")?,
        Call::PktsAcked { sample } => *sample = Sample::take(from)?,
        Call::CongControl { ack, flag, rs } => {
            *ack = from.narrow("ack")?;
            *flag = from.signed("flag")?;
            *rs = Sample::take(from)?;
        }
        Call::Ssthresh
        | Call::MinTsoSegs
        | Call::UndoCwnd
        | Call::SndbufExpand
        | Call::Init
        | Call::Release => {}
    }
    Ok(call)
}

/// Formats the whole record over several lines.
impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "call {} of socket {}: {:?}", self.number, self.flow, self.call)?;
        writeln!(f, "  returned {}", self.result)?;
        writeln!(f, "  jiffies {}", self.jiffies)?;
        for given in self.given.values() {
            writeln!(f, "  given {given}")?;
        }
        for ack in &self.asked_acks {
            writeln!(f, "  asked for an ACK of {}, ecn_flags {}", ack.rcv_nxt, ack.ecn_flags)?;
        }
        if self.rehashes > 0 {
            writeln!(f, "  asked for another path")?;
        }
        if let Some(fallback) = &self.fallback {
            writeln!(f, "  asked to be replaced by {fallback}")?;
        }
        for ((name, before), (_, after)) in
            sock_fields(&self.before).into_iter().zip(sock_fields(&self.after))
        {
            match before == after {
                true => writeln!(f, "  {name} {before}")?,
                false => writeln!(f, "  {name} {before} -> {after}")?,
            }
        }
        fmt_words(f, "private state", &self.before.icsk_ca_priv, &self.after.icsk_ca_priv)?;
        fmt_words(f, "state in storage", &self.large_before, &self.large_after)
    }
}

fn fmt_words(f: &mut fmt::Formatter<'_>, what: &str, before: &[u64], after: &[u64]) -> fmt::Result {
    let word = |words: &[u64], i: usize| words.get(i).copied().unwrap_or(0);
    for i in 0..before.len().max(after.len()) {
        let (at, before, after) = (i * size_of::<u64>(), word(before, i), word(after, i));
        match before == after {
            true if before == 0 => {}
            true => writeln!(f, "  {what} at byte {at}: {before:#018x}")?,
            false => writeln!(f, "  {what} at byte {at}: {before:#018x} -> {after:#018x}")?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_before_the_private_state_is_told_by_its_name() {
        // The order that docs/flight-format.md specifies.
        let (head, tail) = SOCK_FIELDS.split_at(HEAD_FIELDS.len());
        let is_told = |name: &&str| name.starts_with("sk_") || name.starts_with("icsk_");
        assert!(head.iter().all(is_told) && !tail.iter().any(is_told));
    }

    #[test]
    fn a_shift_by_more_than_a_number_has_is_refused() {
        let taken = |sk_pacing_shift| {
            let mut bytes = Vec::new();
            put_sock(&mut bytes, &TcpSock { sk_pacing_shift, ..TcpSock::default() });
            take_sock(&mut Bytes(&bytes)).map(|sock| sock.sk_pacing_shift)
        };
        assert_eq!(taken(63), Ok(63));
        assert_eq!(taken(64), Err(Malformed::TooLarge { what: "sk_pacing_shift", value: 64 }));
    }

    #[test]
    fn every_operation_comes_back() {
        let rs = RateSample { rtt_us: -1, interval_us: -5, is_retrans: true, ..Default::default() };
        let sample = AckSample { pkts_acked: 3, rtt_us: -1, in_flight: 7 };
        let all = [
            Call::Ssthresh,
            Call::CongAvoid { ack: u32::MAX, acked: 2 },
            Call::SetState { new_state: 4 },
            Call::CwndEvent { event: 5 },
            Call::InAckEvent { flags: 6 },
            Call::PktsAcked { sample },
            Call::MinTsoSegs,
            Call::CongControl { ack: 1, flag: -2, rs },
            Call::UndoCwnd,
            Call::SndbufExpand,
            Call::Init,
            Call::Release,
        ];
        for (i, call) in all.into_iter().enumerate() {
            assert_eq!(call.operation(), OPERATIONS[i]);
            let mut bytes = Vec::new();
            put_call(&mut bytes, &call);
            let mut left = Bytes(&bytes);
            assert_eq!(take_call(&mut left), Ok(call));
            assert!(left.0.is_empty());
        }
        let mut unknown = Vec::new();
        put(&mut unknown, OPERATIONS.len() as u64);
        assert_eq!(take_call(&mut Bytes(&unknown)), Err(Malformed::Operation(12)));
    }
}
