//! What the programs put into the ring. `record.h` is the other half.

use std::collections::HashMap;

use knee_algo::{AckSample, AskedAck, Call, GivenLog, RateSample, TcpSock};
use knee_flight::Record;

use super::RS_ONLY;
use crate::Error;

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
    missed: u32,
    acks_asked: u32,
    ack_rcv_nxt: [u32; 2],
    ack_ecn_flags: [u8; 2],
    is_open: u8,
    fallback_asked: u8,
    fallback_name: [u8; 16],
    ack_sample: AckSample,
    rate_sample: RateSample,
    before: TcpSock,
    after: TcpSock,
    jiffies: u32,
    given: GivenLog,
}

impl Raw {
    /// `None` if it has another length: the object is not of this version.
    pub(super) fn of(bytes: &[u8]) -> Option<Raw> {
        // SAFETY: as long as a Raw; any bits make one but for the three bools of rate_sample, which
        // the program stores as such or leaves zeroed; its one pointer, cc_params, is never followed
        // before knee-algo sets it.
        (bytes.len() == size_of::<Raw>())
            .then(|| unsafe { bytes.as_ptr().cast::<Raw>().read_unaligned() })
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
            before: self.before,
            after: self.after,
            given: self.given,
            asked_acks,
            fallback: (self.fallback_asked != 0).then(|| text(&self.fallback_name)),
        })
    }

    /// From the name of the member of `tcp_congestion_ops` through which the kernel called.
    fn call(&self, operation: &str) -> Option<Call> {
        let [first, second, _] = self.arguments;
        // The kernel passes narrower numbers in 64-bit slots, whose upper bits mean nothing.
        Some(match operation {
            "ssthresh" => Call::Ssthresh,
            "cong_avoid" => Call::CongAvoid { ack: first as u32, acked: second as u32 },
            "set_state" => Call::SetState { new_state: first as u8 },
            "cwnd_event" => Call::CwndEvent { event: first as u32 },
            "in_ack_event" => Call::InAckEvent { flags: first as u32 },
            "pkts_acked" => Call::PktsAcked { sample: self.ack_sample },
            "min_tso_segs" => Call::MinTsoSegs,
            "cong_control" => {
                Call::CongControl { ack: first as u32, flag: second as i32, rs: self.rate_sample }
            }
            "undo_cwnd" => Call::UndoCwnd,
            "sndbuf_expand" => Call::SndbufExpand,
            "init" => Call::Init,
            "release" => Call::Release,
            _ => return None,
        })
    }
}

/// The bytes up to the first 0.
fn text(bytes: &[u8]) -> String {
    let len = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..len]).into_owned()
}

#[cfg(test)]
macro_rules! offsets {
    ($kind:ty: $($field:ident),* $(,)?) => {
        &[$((stringify!($field), offset_of!($kind, $field))),*]
    };
}
#[cfg(test)]
pub(super) use offsets;

/// Compares a struct with that of this name in every object.
#[cfg(test)]
pub(super) fn assert_layout(name: &str, size: usize, fields: &[(&str, usize)]) {
    use libbpf_rs::HasSize as _;
    use libbpf_rs::btf::Btf;
    use libbpf_rs::btf::types::{MemberAttr, Struct};

    for embedded in crate::Embedded::all() {
        let btf = Btf::from_raw("x", embedded.object()).unwrap().unwrap();
        let c: Struct<'_> = btf.type_by_name(name).unwrap();
        assert_eq!(c.size(), size, "size of {name}");
        for (field, offset) in fields {
            let member = c.iter().find(|m| m.name.is_some_and(|n| n == *field)).expect(field);
            let MemberAttr::Normal { offset: bits } = member.attr else { panic!("{field}") };
            assert_eq!(bits as usize, offset * 8, "{name}.{field}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knee_algo::Given;
    use std::mem::offset_of;

    #[test]
    fn the_mirrors_have_the_layout_that_the_programs_write() {
        assert_layout(
            "cc_sock",
            size_of::<TcpSock>(),
            offsets!(TcpSock:
                sk_pacing_rate, sk_max_pacing_rate, sk_pacing_status, sk_gso_max_size,
                icsk_ca_state, icsk_retransmits, icsk_ack_pending, icsk_ca_priv, snd_una, snd_nxt,
                snd_cwnd, snd_cwnd_cnt, snd_cwnd_clamp, snd_ssthresh, prior_cwnd, prior_ssthresh,
                packets_out, sacked_out, lost_out, retrans_out, max_packets_out, delivered,
                delivered_ce, lost, app_limited, srtt_us, mss_cache, rcv_nxt, lsndtime, reordering,
                undo_marker, snd_cwnd_stamp, min_rtt_us, ecn_flags, is_cwnd_limited, tcp_mstamp,
                delivered_mstamp, first_tx_mstamp),
        );
        assert_layout(
            "rate_sample",
            size_of::<RateSample>(),
            offsets!(RateSample:
                prior_mstamp, prior_delivered, prior_delivered_ce, delivered, delivered_ce,
                interval_us, snd_interval_us, rcv_interval_us, rtt_us, losses, acked_sacked,
                prior_in_flight, last_end_seq, is_app_limited, is_retrans, is_ack_delayed),
        );
        assert_layout(
            "ack_sample",
            size_of::<AckSample>(),
            offsets!(AckSample: pkts_acked, rtt_us, in_flight),
        );
        assert_layout(
            "cc_given",
            size_of::<Given>(),
            offsets!(Given: kind, value, snd_cwnd, snd_cwnd_cnt),
        );
        assert_layout("cc_given_log", size_of::<GivenLog>(), offsets!(GivenLog: count, given));
        assert_layout(
            "cc_record",
            size_of::<Raw>(),
            offsets!(Raw:
                flow, call, function, arguments, result, recording, missed, acks_asked,
                ack_rcv_nxt, ack_ecn_flags, is_open, fallback_asked, fallback_name, ack_sample,
                rate_sample, before, after, jiffies, given),
        );
    }
}
