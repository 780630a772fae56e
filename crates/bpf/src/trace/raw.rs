//! The records that the programs put into the ring. `record.h` is the C side.

use std::collections::HashMap;

use knee_algo::{
    AckSample, AskedAck, Call, Given, GivenLog, RECORDED_SOCK_BYTES, RateSample, TcpSock,
    recorded_offset, with_fields,
};
use knee_flight::{Record, without_last_zeroes};
use libbpf_rs::HasSize as _;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{MemberAttr, Struct};

use super::RS_ONLY;
use crate::Error;
use crate::raw_sock::RawSock;

/// Words of a state in socket storage that fit into a record.
const LARGE_STATE_WORDS: usize = 64;
/// Bytes of a record without state in socket storage.
const SMALL_BYTES: usize = std::mem::offset_of!(Raw, large_before);

/// `struct cc_record` of record.h.
#[repr(C)]
#[derive(Clone)]
pub(super) struct Raw {
    flow: u64,
    call: u64,
    function: [u8; 32],
    arguments: [u64; 3],
    result: u64,
    recording: u64,
    #[allow(dead_code, reason = "the programs' own")]
    serial: u64,
    missed: u32,
    acks_asked: u32,
    ack_rcv_nxt: [u32; 2],
    ack_ecn_flags: [u8; 2],
    rehashes_asked: u8,
    is_open: u8,
    fallback_asked: u8,
    fallback_name: [u8; 16],
    ack_sample: RawAckSample,
    rate_sample: RawRateSample,
    before: RawSock,
    after: RawSock,
    jiffies: u32,
    given: GivenLog,
    large_before: [u64; LARGE_STATE_WORDS],
    large_after: [u64; LARGE_STATE_WORDS],
}

/// The type of a field that a program has filled. A loader may be untrusted, so any bits are
/// possible.
trait Bits: Copy {
    /// A type for which any bits are a valid value.
    type Raw: Copy;

    fn of(raw: Self::Raw) -> Self;
}

macro_rules! any_bits {
    ($($type:ty)*) => {
        $(impl Bits for $type {
            type Raw = $type;

            fn of(raw: $type) -> $type {
                raw
            }
        })*
    };
}

any_bits! { u8 u32 u64 i32 i64 }

impl Bits for bool {
    type Raw = u8;

    fn of(raw: u8) -> bool {
        raw != 0
    }
}

macro_rules! raw_sample {
    ($raw:ident $sample:ident: [$($field:ident: $type:ty,)*]) => {
        #[repr(C)]
        #[derive(Clone, Copy)]
        struct $raw {
            $($field: <$type as Bits>::Raw,)*
        }

        impl $raw {
            fn sample(self) -> $sample {
                let mut sample = $sample::default();
                $(sample.$field = Bits::of(self.$field);)*
                sample
            }
        }
    };
}

with_fields!(AckSample, raw_sample, RawAckSample);
with_fields!(RateSample, raw_sample, RawRateSample);

impl Raw {
    /// Copies a record; `None` if it has another length, because the object has another version.
    pub(super) fn of(bytes: &[u8]) -> Option<Raw> {
        if bytes.len() != SMALL_BYTES && bytes.len() != size_of::<Raw>() {
            return None;
        }
        let mut raw = std::mem::MaybeUninit::<Raw>::zeroed();
        // SAFETY: the bytes fit into a `Raw`, and any bits make one: the bytes, and zeroes behind
        // them.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), raw.as_mut_ptr().cast(), bytes.len());
            Some(raw.assume_init())
        }
    }

    pub(super) fn record(self, operations: &HashMap<String, String>) -> Result<Record, Error> {
        let function = text(&self.function);
        let stands_in = operations.get(RS_ONLY);
        let operation = operations.get(&function).or(stands_in).map(String::as_str);
        let call = operation
            .and_then(|operation| self.call(operation))
            .ok_or_else(|| Error::BadObject { what: format!("no operation is {function}") })?;
        let asked = (self.acks_asked as usize).min(self.ack_rcv_nxt.len());
        let asked_acks = (0..asked)
            .map(|i| AskedAck { rcv_nxt: self.ack_rcv_nxt[i], ecn_flags: self.ack_ecn_flags[i] })
            .collect();
        Ok(Record {
            flow: self.flow,
            number: self.call,
            call,
            result: if call.returns() { self.result as u32 } else { 0 },
            jiffies: self.jiffies,
            before: self.before.sock(),
            after: self.after.sock(),
            given: self.given,
            asked_acks,
            rehashes: u32::from(self.rehashes_asked),
            fallback: (self.fallback_asked != 0).then(|| text(&self.fallback_name)),
            large_before: without_last_zeroes(&self.large_before),
            large_after: without_last_zeroes(&self.large_after),
        })
    }

    /// Decodes the call by the member of `tcp_congestion_ops` through which the kernel made it.
    fn call(&self, operation: &str) -> Option<Call> {
        let [first, second, _] = self.arguments;
        let mut call = Call::of(operation)?;
        // The kernel passes narrower numbers in 64-bit slots, whose upper bits are undefined.
        match &mut call {
            Call::CongAvoid { ack, acked } => (*ack, *acked) = (first as u32, second as u32),
            Call::SetState { new_state } => *new_state = first as u8,
            Call::CwndEvent { event } => *event = first as u32,
            Call::InAckEvent { flags } => *flags = first as u32,
            Call::PktsAcked { sample } => *sample = self.ack_sample.sample(),
            Call::CongControl { ack, flag, rs } => {
                (*ack, *flag, *rs) = (first as u32, second as i32, self.rate_sample.sample());
            }
            Call::Ssthresh
            | Call::MinTsoSegs
            | Call::UndoCwnd
            | Call::SndbufExpand
            | Call::Init
            | Call::Release => {}
        }
        Some(call)
    }
}

/// The bytes up to the first 0.
fn text(bytes: &[u8]) -> String {
    let len = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..len]).into_owned()
}

/// A struct as this binary has it: its name in C, its size, and the offsets of its fields.
pub(super) type Mirror = (&'static str, usize, &'static [(&'static str, usize)]);

macro_rules! mirror {
    ($name:literal $kind:ident: $([$($field:ident: $_type:ty,)*])*) => {
        mirror!($name, $kind: $($($field,)*)*)
    };
    ($name:literal, $kind:ty: $($field:ident),* $(,)?) => {
        (
            $name,
            size_of::<$kind>(),
            &[$((stringify!($field), std::mem::offset_of!($kind, $field))),*],
        )
    };
}
pub(super) use mirror;

macro_rules! recorded {
    ($name:literal $kind:ident: $([$($field:ident: $_type:ty,)*])*) => {
        (
            $name,
            RECORDED_SOCK_BYTES,
            &[$($((stringify!($field), recorded_offset(std::mem::offset_of!($kind, $field)))),*),*],
        )
    };
}

macro_rules! mirror_of {
    ($name:literal $raw:ident $_kind:ident: $([$($field:ident: $_type:ty,)*])*) => {
        mirror!($name, $raw: $($($field,)*)*)
    };
}

/// The structs of which records consist.
const MIRRORS: &[Mirror] = &[
    with_fields!(TcpSock, recorded, "cc_sock"),
    with_fields!(RateSample, mirror_of, "rate_sample", RawRateSample),
    with_fields!(AckSample, mirror, "ack_sample"),
    mirror!("cc_given", Given: kind, value, snd_cwnd, snd_cwnd_cnt),
    mirror!("cc_given_log", GivenLog: count, given),
    mirror!("cc_record", Raw:
        flow, call, function, arguments, result, recording, serial, missed, acks_asked, ack_rcv_nxt,
        ack_ecn_flags, rehashes_asked, is_open, fallback_asked, fallback_name, ack_sample, rate_sample, before,
        after, jiffies, given, large_before, large_after),
    super::control::MIRROR,
];

/// The first struct that the programs with these types lay out differently from this binary.
pub(super) fn first_that_differs(btf: &Btf<'_>) -> Option<&'static str> {
    let same = |(name, size, fields): &Mirror| {
        let theirs: Struct<'_> = btf.type_by_name(name)?;
        let lies = |(field, offset): &(&str, usize)| {
            let mut members = theirs.iter();
            let member = members.find(|member| member.name.is_some_and(|name| name == *field));
            let MemberAttr::Normal { offset: bits } = member?.attr else { return None };
            (bits as usize == offset * 8).then_some(())
        };
        (theirs.size() == *size).then_some(())?;
        fields.iter().try_for_each(lies)
    };
    MIRRORS.iter().find(|mirror| same(mirror).is_none()).map(|(name, ..)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_object_lays_out_its_records_as_this_binary_does() {
        for embedded in crate::Embedded::all() {
            let btf = Btf::from_raw("x", embedded.object()).unwrap().unwrap();
            assert_eq!(first_that_differs(&btf), None, "{}", embedded.name());
        }
    }

    #[test]
    fn another_layout_is_seen() {
        for embedded in crate::Embedded::all() {
            // The test swaps two fields of one size by their names.
            let mut object = embedded.object().to_vec();
            let (a, b) = (*b"\0acks_asked\0", *b"\0asks_acked\0");
            let mut changed = 0;
            for at in 0..object.len() - a.len() {
                if object[at..at + a.len()] == a {
                    object[at..at + a.len()].copy_from_slice(&b);
                    changed += 1;
                }
            }
            assert!(changed > 0, "{}", embedded.name());
            let btf = Btf::from_raw("x", &object).unwrap().unwrap();
            assert_eq!(first_that_differs(&btf), Some("cc_record"), "{}", embedded.name());
        }
        // This program records nothing.
        if let Ok(object) = crate::program("label") {
            let btf = Btf::from_raw("x", object).unwrap().unwrap();
            assert_eq!(first_that_differs(&btf), Some("cc_sock"));
        }
    }

    /// A bool stays valid whatever bytes a program writes.
    #[test]
    fn any_bytes_make_a_record() {
        let raw = Raw::of(&[0xff; size_of::<Raw>()]).unwrap();
        let rs = raw.rate_sample.sample();
        assert!(rs.is_app_limited && rs.is_retrans && rs.is_ack_delayed);
        assert!(Raw::of(&[0; size_of::<Raw>() - 1]).is_none());
        let small = Raw::of(&[0xff; SMALL_BYTES]).unwrap();
        assert_eq!((small.jiffies, small.large_after[0]), (u32::MAX, 0));
    }
}
