//! What the recording build leaves, and its reader. `record.h` is the other half.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use knee_algo::{AckSample, Algorithm, AskedAck, Params, RateSample, TcpSock};
use libbpf_rs::{MapCore as _, MapFlags, RingBuffer, RingBufferBuilder};

use crate::{Build, Embedded, Error, Loaded};

/// Names of the states, in the kernel's order.
const CA_STATES: [&str; 5] = ["Open", "Disorder", "CWR", "Recovery", "Loss"];
/// Names of the events, in the kernel's order.
const CA_EVENTS: [&str; 6] =
    ["TX_START", "CWND_RESTART", "COMPLETE_CWR", "LOSS", "ECN_NO_CE", "ECN_IS_CE"];

/// An operation with the arguments of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the kernel's operations and arguments, under its names")]
pub enum Call {
    Ssthresh,
    CongAvoid { ack: u32, acked: u32 },
    SetState { new_state: u8 },
    CwndEvent { event: u32 },
    InAckEvent { flags: u32 },
    PktsAcked { sample: AckSample },
    MinTsoSegs,
    CongControl { ack: u32, flag: i32, rs: RateSample },
    UndoCwnd,
    SndbufExpand,
    Init,
    Release,
}

impl Call {
    /// The operation's name, with the event or the state where that says more: `cwnd_event(LOSS)`.
    pub fn kind(&self) -> String {
        let named = |operation: &str, names: &[&str], index: usize| match names.get(index) {
            Some(name) => format!("{operation}({name})"),
            None => format!("{operation}({index})"),
        };
        match self {
            Call::Ssthresh => "ssthresh".to_owned(),
            Call::CongAvoid { .. } => "cong_avoid".to_owned(),
            Call::SetState { new_state } => named("set_state", &CA_STATES, usize::from(*new_state)),
            Call::CwndEvent { event } => named("cwnd_event", &CA_EVENTS, *event as usize),
            Call::InAckEvent { .. } => "in_ack_event".to_owned(),
            Call::PktsAcked { .. } => "pkts_acked".to_owned(),
            Call::MinTsoSegs => "min_tso_segs".to_owned(),
            Call::CongControl { .. } => "cong_control".to_owned(),
            Call::UndoCwnd => "undo_cwnd".to_owned(),
            Call::SndbufExpand => "sndbuf_expand".to_owned(),
            Call::Init => "init".to_owned(),
            Call::Release => "release".to_owned(),
        }
    }

    /// From the name of the member of `tcp_congestion_ops` through which the kernel called.
    fn of(member: &str, raw: &Raw) -> Option<Call> {
        let [first, second, _] = raw.arguments;
        // The kernel passes narrower numbers in 64-bit slots, whose upper bits mean nothing.
        Some(match member {
            "ssthresh" => Call::Ssthresh,
            "cong_avoid" => Call::CongAvoid { ack: first as u32, acked: second as u32 },
            "set_state" => Call::SetState { new_state: first as u8 },
            "cwnd_event" => Call::CwndEvent { event: first as u32 },
            "in_ack_event" => Call::InAckEvent { flags: first as u32 },
            "pkts_acked" => Call::PktsAcked { sample: raw.ack_sample },
            "min_tso_segs" => Call::MinTsoSegs,
            "cong_control" => {
                Call::CongControl { ack: first as u32, flag: second as i32, rs: raw.rate_sample }
            }
            "undo_cwnd" => Call::UndoCwnd,
            "sndbuf_expand" => Call::SndbufExpand,
            "init" => Call::Init,
            "release" => Call::Release,
            _ => return None,
        })
    }
}

/// One call of an algorithm in the kernel: what it was given, what it did.
#[derive(Clone, Debug)]
pub struct Record {
    /// Number of the socket, from 1 in order of appearance.
    pub flow: u64,
    /// Number of the call on this socket, from 0.
    pub number: u64,
    /// Operation and arguments.
    pub call: Call,
    /// What it returned; 0 if it returns nothing.
    pub result: u32,
    /// The socket before the call.
    pub before: TcpSock,
    /// The socket after it.
    pub after: TcpSock,
    /// The coarse clock before the call, in ticks of 1/`hz` s.
    pub jiffies: u32,
    /// The same after the call: it may tick in between.
    pub jiffies_after: u32,
    /// Ticks per second.
    pub hz: u32,
    /// State of the native random numbers that draws the same as the call did.
    pub random_state: u64,
    /// The ACKs it asked for, in order.
    pub asked_acks: Vec<AskedAck>,
    /// The algorithm it asked to be replaced by.
    pub fallback: Option<String>,
}

/// `struct cc_record` of record.h.
#[repr(C)]
#[derive(Clone)]
struct Raw {
    flow: u64,
    call: u64,
    function: [u8; 32],
    arguments: [u64; 3],
    result: u64,
    random_state: u64,
    random_now: u64,
    jiffies: u32,
    jiffies_after: u32,
    hz: u32,
    acks_asked: u32,
    ack_rcv_nxt: [u32; 2],
    ack_ecn_flags: [u8; 2],
    fallback_asked: u8,
    fallback_name: [u8; 16],
    ack_sample: AckSample,
    rate_sample: RateSample,
    before: TcpSock,
    after: TcpSock,
}

/// The recording build of an algorithm, registered, and the records of it so far.
pub struct Recorder {
    // Declared first, dropped first: it maps memory of a map that `loaded` owns.
    ring: RingBuffer<'static>,
    taken: Arc<Mutex<Vec<Box<[u8]>>>>,
    loaded: Loaded,
    /// Which operation each entry point is.
    members: HashMap<String, &'static str>,
}

impl Recorder {
    /// Loads the recording build and registers it as `name`.
    ///
    /// # Errors
    /// As [`Embedded::by_name`] and [`Loaded::register`].
    pub fn start(algorithm: &Algorithm, name: &str, params: &Params) -> Result<Recorder, Error> {
        Recorder::of(Embedded::by_name(algorithm.name())?, name, params)
    }

    /// As [`Recorder::start`], of an object at hand.
    ///
    /// # Errors
    /// As [`Loaded::register`].
    pub fn of(embedded: &Embedded, name: &str, params: &Params) -> Result<Recorder, Error> {
        let loaded = Loaded::register(embedded, Build::Recording, name, params)?;
        let inspect = |source| Error::Inspect { what: "the ring of records", source };
        let taken = Arc::new(Mutex::new(Vec::new()));
        let ring = {
            let map = map_named(&loaded, "cc_records")?;
            let sink = Arc::clone(&taken);
            let mut builder = RingBufferBuilder::new();
            builder
                .add(&map, move |bytes: &[u8]| {
                    sink.lock().unwrap_or_else(PoisonError::into_inner).push(bytes.into());
                    0
                })
                .map_err(inspect)?;
            builder.build().map_err(inspect)?
        };
        let members = loaded
            .entry_points()
            .map(|(function, operation)| (function.to_owned(), operation))
            .collect();
        Ok(Recorder { ring, taken, loaded, members })
    }

    /// The algorithm in the kernel.
    pub fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    /// Moves records out of the kernel's ring, which overflows if this is not called often enough,
    /// and waits up to `timeout` for the first.
    ///
    /// # Errors
    /// [`Error::Inspect`].
    pub fn poll(&self, timeout: Duration) -> Result<(), Error> {
        self.ring
            .poll(timeout)
            .map_err(|source| Error::Inspect { what: "the ring of records", source })
    }

    /// All records since the last call of this, in the order of the ring (which is that of the
    /// calls for each socket).
    ///
    /// # Errors
    /// [`Error::Inspect`]; [`Error::BadObject`] if the object and this library do not match.
    pub fn take(&self) -> Result<Vec<Record>, Error> {
        self.ring
            .consume()
            .map_err(|source| Error::Inspect { what: "the ring of records", source })?;
        let taken = std::mem::take(&mut *self.taken.lock().unwrap_or_else(PoisonError::into_inner));
        taken.iter().map(|bytes| self.decode(bytes)).collect()
    }

    /// How many records were lost because the ring was full or memory was short.
    ///
    /// # Errors
    /// [`Error::Inspect`].
    pub fn lost(&self) -> Result<u64, Error> {
        let value = map_named(&self.loaded, ".data.lost")?
            .lookup(&0_u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(|source| Error::Inspect { what: "the count of lost records", source })?;
        let bytes = value.as_deref().and_then(|value| value.get(..8)?.try_into().ok());
        Ok(bytes.map_or(0, u64::from_ne_bytes))
    }

    fn decode(&self, bytes: &[u8]) -> Result<Record, Error> {
        if bytes.len() != size_of::<Raw>() {
            return Err(Error::BadObject {
                what: format!("it has {} bytes and not {}", bytes.len(), size_of::<Raw>()),
            });
        }
        // SAFETY: as long as a Raw; any bits make one but for the three bools of rate_sample, which
        // the program stores as such or leaves zeroed; its one pointer, cc_params, is never followed
        // before knee-algo sets it.
        let raw = unsafe { bytes.as_ptr().cast::<Raw>().read_unaligned() };
        let function = text(&raw.function);
        let call = self
            .members
            .get(&function)
            .and_then(|member| Call::of(member, &raw))
            .ok_or_else(|| Error::BadObject { what: format!("no operation is {function}") })?;
        let asked = (raw.acks_asked as usize).min(raw.ack_rcv_nxt.len());
        let asked_acks = (0..asked)
            .map(|i| AskedAck { rcv_nxt: raw.ack_rcv_nxt[i], ecn_flags: raw.ack_ecn_flags[i] })
            .collect();
        Ok(Record {
            flow: raw.flow,
            number: raw.call,
            call,
            result: raw.result as u32,
            before: raw.before,
            after: raw.after,
            jiffies: raw.jiffies,
            jiffies_after: raw.jiffies_after,
            hz: raw.hz,
            random_state: raw.random_state,
            asked_acks,
            fallback: (raw.fallback_asked != 0).then(|| text(&raw.fallback_name)),
        })
    }
}

/// The bytes up to the first 0.
fn text(bytes: &[u8]) -> String {
    let len = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..len]).into_owned()
}

fn map_named<'a>(loaded: &'a Loaded, name: &'static str) -> Result<libbpf_rs::Map<'a>, Error> {
    loaded
        .object()
        .maps()
        .find(|map| map.name() == name)
        .ok_or_else(|| Error::BadObject { what: format!("the object has no map {name}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use libbpf_rs::HasSize as _;
    use libbpf_rs::btf::Btf;
    use libbpf_rs::btf::types::{MemberAttr, Struct};
    use std::mem::offset_of;

    fn assert_layout(btf: &Btf<'_>, name: &str, size: usize, fields: &[(&str, usize)]) {
        let c: Struct<'_> = btf.type_by_name(name).unwrap();
        assert_eq!(c.size(), size, "size of {name}");
        for (field, offset) in fields {
            let member = c.iter().find(|m| m.name.is_some_and(|n| n == *field)).expect(field);
            let MemberAttr::Normal { offset: bits } = member.attr else { panic!("{field}") };
            assert_eq!(bits as usize, offset * 8, "{name}.{field}");
        }
    }

    macro_rules! offsets {
        ($kind:ty: $($field:ident),* $(,)?) => {
            &[$((stringify!($field), offset_of!($kind, $field))),*]
        };
    }

    #[test]
    fn the_mirrors_have_the_layout_that_the_programs_write() {
        for embedded in Embedded::all() {
            let btf = Btf::from_raw("x", embedded.object(Build::Recording)).unwrap().unwrap();
            assert_layout(
                &btf,
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
                &btf,
                "rate_sample",
                size_of::<RateSample>(),
                offsets!(RateSample:
                prior_mstamp, prior_delivered, prior_delivered_ce, delivered, delivered_ce,
                interval_us, snd_interval_us, rcv_interval_us, rtt_us, losses, acked_sacked,
                prior_in_flight, last_end_seq, is_app_limited, is_retrans, is_ack_delayed),
            );
            assert_layout(
                &btf,
                "ack_sample",
                size_of::<AckSample>(),
                offsets!(AckSample:
                pkts_acked, rtt_us, in_flight),
            );
            assert_layout(
                &btf,
                "cc_record",
                size_of::<Raw>(),
                offsets!(Raw:
                flow, call, function, arguments, result, random_state, random_now, jiffies,
                jiffies_after, hz, acks_asked, ack_rcv_nxt, ack_ecn_flags, fallback_asked,
                fallback_name, ack_sample, rate_sample, before, after),
            );
        }
    }
}
