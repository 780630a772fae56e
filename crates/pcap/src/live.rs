//! A connection while its packets come.

use std::net::SocketAddr;

use knee_queue::Ecn;
use knee_wire::Compact;
use knee_wire::Segment;
use knee_wire::packet::MAX_SCALE;

use crate::data::{Data, Now};
use crate::input::Seen;
use crate::model::{
    Direction, EcnAgreed, Ended, Flow, Handshake, Location, LocationEvidence, PacketRow,
    PointPosition,
};
use crate::rows::{NO_ROW, Rows, letters};

/// Bytes of the timestamp option in each segment.
const TIMESTAMP_BYTES: u32 = 12;
/// MSS of a path of Ethernet, and of one with jumbo frames of 9000 bytes, for IPv4; 20 less for IPv6.
const ETHERNET_MSS: u32 = 1460;
const JUMBO_MSS: u32 = 8960;
/// Numbers that are so far ahead of what was acknowledged are of no window that TCP allows (RFC 7323, section 2.3).
const MOST_AHEAD: u64 = 1 << 30;
/// A point is at an end if the way there and back is at most this part of the whole: one hop of at least five.
const NEAR_PART: u64 = 5;
/// Values of timestamps that wait for their echo.
const MOST_STAMPS: usize = 64;
/// A value that waits longer than this is forgotten where room is short, ns.
const STALE_STAMP_NS: u64 = 1_000_000_000;

/// Packets of an end among which a copy is looked for: a capture of several devices has them close to each other.
const COPIES: usize = 4;
/// A copy of a packet within this is the capture's, ns: it was seen at several devices of one machine.
const COPY_NS: u64 = 1_000_000;

/// State that all flows of a point share.
pub(crate) struct Shared<'a> {
    pub(crate) link_rate_bps: &'a mut f64,
    pub(crate) fresh: &'a mut Vec<(u64, u64)>,
    pub(crate) rows: Option<&'a mut Rows>,
    pub(crate) most_rounds: usize,
}

/// The last packets of an end, by their header fields in short: a copy of one within [`COPY_NS`] is the capture's.
#[derive(Clone, Copy, Debug, Default)]
struct Copies {
    /// Fields and time; the newest is written over the oldest.
    last: [(u64, u64); COPIES],
    at: u8,
    /// Copies so far.
    count: u64,
}

/// One end of a connection.
#[derive(Clone, Debug, Default)]
struct Side {
    /// Initial sequence number, once known.
    origin: Option<u32>,
    /// Next sequence number to send, SYN and FIN included.
    next: u64,
    is_syn_seen: bool,
    fin: Option<u64>,
    mss_option: Option<u16>,
    window_scale: Option<u8>,
    sack_ok: bool,
    has_timestamps: bool,
    /// The capture cut the options of its SYN: those that it does not show may have been there.
    is_syn_cut: bool,
    ttl: u8,
    packets: u64,
    /// Time of its last packet.
    last_ns: Option<u64>,
    control_ect: u64,
    largest: u32,
    /// Smallest time from the point to this end and back, by timestamps, ns.
    rtt_ns: Option<u64>,
    /// Values of its timestamps that were not echoed yet: value, time, whether with data.
    stamps: Vec<(u32, u64, bool)>,
    /// The newest that waited: what has it too was sent later, and its echo may be of the first.
    last_stamp: Option<u32>,
    /// When it sent data last.
    data_at_ns: Option<u64>,
    /// The last packets, to know those that are captured again.
    copies: Copies,
    data: Option<Box<Data>>,
}

/// A connection at a point.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    pub(crate) id: u32,
    pub(crate) connection: u32,
    pub(crate) point: usize,
    pub(crate) last_ns: u64,
    /// How it ended, if both sides have sent a FIN, or one a reset.
    pub(crate) ended: Ended,
    /// The connecting end, and the other.
    ends: [SocketAddr; 2],
    sides: [Side; 2],
    handshake: Handshake,
    syn_at_ns: Option<u64>,
    syn_ack_at_ns: Option<u64>,
    begin_ns: u64,
    first_number: u64,
    last_number: u64,
    packets: u64,
    /// SYN's flags and the SYN-ACK's, as far as they are about ECN.
    ecn_asked: Option<u16>,
    ecn_answered: Option<u16>,
}

const ECN_FLAGS: u16 = Segment::AE | Segment::CWR | Segment::ECE;

impl Live {
    /// A connection that begins with this packet.
    pub(crate) fn new(id: u32, connection: u32, point: usize, seen: &Seen) -> Live {
        let tcp = &seen.tcp;
        let is_from_b = tcp.has(Segment::SYN) && tcp.has(Segment::ACK);
        let mut ends = [tcp.source, tcp.destination];
        if is_from_b {
            ends.reverse();
        }
        Live {
            id,
            connection,
            point,
            last_ns: seen.at_ns,
            ended: Ended::Open,
            ends,
            sides: Default::default(),
            handshake: Handshake::default(),
            syn_at_ns: None,
            syn_ack_at_ns: None,
            begin_ns: seen.at_ns,
            first_number: seen.number,
            last_number: seen.number,
            packets: 0,
            ecn_asked: None,
            ecn_answered: None,
        }
    }

    /// Whether a SYN is of another connection with the same ports.
    pub(crate) fn is_another(&self, tcp: &Compact) -> bool {
        if !tcp.has(Segment::SYN) || tcp.has(Segment::ACK) {
            return false;
        }
        let side = &self.sides[usize::from(tcp.source != self.ends[0])];
        side.origin.is_some_and(|origin| origin != tcp.seq)
    }

    /// Segments kept in memory.
    pub(crate) fn kept(&self) -> usize {
        self.sides.iter().filter_map(|side| side.data.as_ref()).map(|data| data.kept()).sum()
    }

    /// Processes a packet. Returns the MSS of its sender.
    pub(crate) fn packet(&mut self, seen: &Seen, shared: &mut Shared<'_>) -> u32 {
        let tcp = &seen.tcp;
        let from = usize::from(tcp.source != self.ends[0]);
        self.last_ns = seen.at_ns;
        self.last_number = seen.number;
        if self.is_copy(from, seen) {
            return u32::MAX;
        }
        self.packets += 1;
        self.note_headers(from, tcp, seen.at_ns);
        if tcp.has(Segment::SYN) {
            self.note_syn(from, seen);
        } else {
            self.note_third(from, seen);
        }
        let Some((seq, ack)) = self.numbers(from, tcp) else { return u32::MAX };
        self.note_stamps(from, seen);
        let row = self.add_row(from, seq, ack, seen, shared);
        let mss = [self.mss(0), self.mss(1)];
        let to_end = [self.rtt_to(0), self.rtt_to(1)];
        let window_bytes = self.window_bytes(from, tcp);
        let other_data = [self.sides[1].data_at_ns, self.sides[0].data_at_ns];
        let mut now = Now {
            tcp,
            at_ns: seen.at_ns,
            number: seen.number,
            to_sender_ns: to_end[1 - from],
            to_receiver_ns: to_end[from],
            mss: mss[1 - from],
            has_sack: self.handshake.has_sack,
            is_accurate: self.handshake.ecn == EcnAgreed::Accurate,
            window_bytes,
            fresh: shared.fresh,
            link_rate_bps: shared.link_rate_bps,
            rows: shared.rows.as_deref_mut(),
            row,
            most_rounds: shared.most_rounds,
            other_data_at_ns: other_data[1 - from],
        };
        let has_data = tcp.len > 0 || tcp.has(Segment::SYN | Segment::FIN);
        if let Some(ack) = ack {
            acknowledge(&mut self.sides[1 - from], ack, has_data, &mut now);
        }
        (now.to_sender_ns, now.to_receiver_ns) = (to_end[from], to_end[1 - from]);
        now.mss = mss[from];
        now.other_data_at_ns = other_data[from];
        send(&mut self.sides[from], seq, &mut now);
        self.note_end(from, tcp);
        mss[from]
    }

    /// Whether a packet is one that was captured just before. A retransmission has another IP identification; where there is none, it
    /// takes at least the path's round trip.
    fn is_copy(&mut self, from: usize, seen: &Seen) -> bool {
        let tcp = &seen.tcp;
        let fields = tcp.fingerprint();
        let side = &mut self.sides[from];
        let copies = &mut side.copies;
        let earlier = copies.last.iter().filter(|last| last.0 == fields).map(|last| last.1).max();
        copies.last[usize::from(copies.at)] = (fields, seen.at_ns);
        copies.at = (copies.at + 1) % COPIES as u8;
        let Some(earlier_ns) = earlier else { return false };
        let after_ns = seen.at_ns.saturating_sub(earlier_ns);
        if after_ns >= COPY_NS {
            return false;
        }
        // A SYN or a FIN is sent again after a timeout only.
        let has_id = tcp.ip_id.is_some_and(|id| id != 0) || tcp.has(Segment::SYN | Segment::FIN);
        let is_sure = has_id
            || match (tcp.len > 0, self.rtt_to(0), self.rtt_to(1)) {
                (true, a, b) => {
                    let known_ns = a.unwrap_or(0).saturating_add(b.unwrap_or(0));
                    (a, b) == (None, None) || after_ns < known_ns
                }
                // An ACK that says the same again is a duplicate ACK, unless the data was captured twice, too.
                (false, ..) => self.sides.iter().any(|side| side.copies.count > 0),
            };
        self.sides[from].copies.count += u64::from(is_sure);
        is_sure
    }

    fn note_headers(&mut self, from: usize, tcp: &Compact, at_ns: u64) {
        let side = &mut self.sides[from];
        if side.packets == 0 {
            side.ttl = tcp.ttl;
        }
        side.packets += 1;
        side.last_ns = Some(at_ns);
        side.has_timestamps |= tcp.timestamps.is_some();
        side.largest = side.largest.max(tcp.len);
        side.control_ect += u64::from(tcp.len == 0 && tcp.ecn != Ecn::NotEct);
    }

    fn note_syn(&mut self, from: usize, seen: &Seen) {
        let tcp = &seen.tcp;
        let is_answer = tcp.has(Segment::ACK);
        let side = &mut self.sides[from];
        self.handshake.repeats += u32::from(side.is_syn_seen);
        let is_repeat = std::mem::replace(&mut side.is_syn_seen, true);
        (side.mss_option, side.sack_ok) = (tcp.mss, tcp.sack_ok);
        side.window_scale = tcp.window_scale.map(|scale| scale.min(MAX_SCALE));
        side.is_syn_cut = tcp.are_options_cut;
        let is_ect = Some(tcp.ecn != Ecn::NotEct);
        let handshake = &mut self.handshake;
        if is_answer {
            handshake.syn_ack.get_or_insert(seen.number);
            handshake.is_syn_ack_ect = is_ect;
            self.ecn_answered = Some(tcp.flags & ECN_FLAGS);
            // A repetition cannot be told from the answer to one.
            let is_clear = handshake.repeats == 0;
            if let (Some(syn_ns), true) = (self.syn_at_ns, is_clear) {
                handshake.rtt_to_b_ns = Some(seen.at_ns.saturating_sub(syn_ns));
            }
            self.syn_ack_at_ns = (!is_repeat).then_some(seen.at_ns);
        } else {
            handshake.syn.get_or_insert(seen.number);
            handshake.is_syn_ect = is_ect;
            self.ecn_asked = Some(tcp.flags & ECN_FLAGS);
            self.syn_at_ns = (!is_repeat).then_some(seen.at_ns);
        }
        self.agree();
    }

    /// Derives the negotiated options once SYN and SYN-ACK were seen.
    fn agree(&mut self) {
        let [a, b] = &self.sides;
        if !(a.is_syn_seen && b.is_syn_seen) {
            return;
        }
        let handshake = &mut self.handshake;
        // An option that is missing on either side was not agreed on, unless the capture may have cut it.
        let agreed = |has: fn(&Side) -> bool| {
            let is_refused = [a, b].iter().any(|side| !has(side) && !side.is_syn_cut);
            if has(a) && has(b) { Some(true) } else { is_refused.then_some(false) }
        };
        handshake.has_window_scale = agreed(|side| side.window_scale.is_some());
        handshake.has_sack = agreed(|side| side.sack_ok);
        handshake.has_timestamps = agreed(|side| side.has_timestamps);
        let (Some(asked), Some(answered)) = (self.ecn_asked, self.ecn_answered) else { return };
        const CLASSIC: u16 = Segment::CWR | Segment::ECE;
        handshake.ecn = match (asked, answered) {
            // RFC 9768, table 2: without ECN, of RFC 3168, or one of four that say how the SYN arrived.
            (ECN_FLAGS, 0 | ECN_FLAGS) => EcnAgreed::Refused,
            (ECN_FLAGS | CLASSIC, Segment::ECE) => EcnAgreed::Classic,
            (ECN_FLAGS, answer) if answer != Segment::AE | Segment::ECE => EcnAgreed::Accurate,
            (ECN_FLAGS, _) => EcnAgreed::Classic,
            (CLASSIC, _) => EcnAgreed::Refused,
            _ => EcnAgreed::NotAsked,
        };
    }

    /// The third packet of the handshake, if this is it.
    fn note_third(&mut self, from: usize, seen: &Seen) {
        if from == 0 && seen.tcp.has(Segment::ACK) {
            if let Some(syn_ack_ns) = self.syn_ack_at_ns.take() {
                let is_clear = self.handshake.repeats == 0;
                let ns = seen.at_ns.saturating_sub(syn_ack_ns);
                self.handshake.rtt_to_a_ns = is_clear.then_some(ns);
            }
        }
    }

    /// The packet's numbers, counted from the initial ones; nothing if they are of no window.
    fn numbers(&mut self, from: usize, tcp: &Compact) -> Option<(u64, Option<u64>)> {
        let is_syn = tcp.has(Segment::SYN);
        let side = &mut self.sides[from];
        if side.origin.is_none() || (is_syn && side.data.is_none()) {
            side.origin = Some(if is_syn { tcp.seq } else { tcp.seq.wrapping_sub(1) });
            side.next = u64::from(!is_syn);
        }
        let seq = side.unwrap(tcp.seq)?;
        // Of a reset or a probe, a number may be anything.
        let known = side.data.as_ref().map_or(side.next, |data| data.una);
        if seq.saturating_sub(known) > MOST_AHEAD {
            return None;
        }
        let other = &mut self.sides[1 - from];
        let ack = tcp.has(Segment::ACK).then(|| {
            if other.origin.is_none() {
                other.origin = Some(tcp.ack.wrapping_sub(1));
                other.next = 1;
            }
            other.unwrap(tcp.ack)
        });
        let ack = match ack {
            None => None,
            Some(Some(ack)) if ack.saturating_sub(other.sent_up_to()) <= MOST_AHEAD => Some(ack),
            Some(_) => return None,
        };
        Some((seq, ack))
    }

    fn note_stamps(&mut self, from: usize, seen: &Seen) {
        let Some((value, echo)) = seen.tcp.timestamps else { return };
        let at_ns = seen.at_ns;
        let other = &mut self.sides[1 - from];
        if let Some(at) = other.stamps.iter().position(|stamp| stamp.0 == echo) {
            let (_, sent_ns, has_data) = other.stamps[at];
            other.stamps.drain(..=at);
            let ns = at_ns.saturating_sub(sent_ns);
            if let (true, Some(data)) = (has_data, &mut other.data) {
                data.measure_rtt_by_timestamps(ns, seen.number);
            }
            let side = &mut self.sides[from];
            side.rtt_ns = Some(side.rtt_ns.map_or(ns, |least| least.min(ns)));
        }
        let side = &mut self.sides[from];
        let is_new = side.last_stamp.is_none_or(|last| (value.wrapping_sub(last) as i32) > 0);
        if side.stamps.len() >= MOST_STAMPS
            && at_ns.saturating_sub(side.stamps[0].1) > STALE_STAMP_NS
        {
            side.stamps.clear();
        }
        if is_new && side.stamps.len() < MOST_STAMPS {
            side.last_stamp = Some(value);
            side.stamps.push((value, at_ns, seen.tcp.len > 0));
        }
    }

    fn add_row(
        &self,
        from: usize,
        seq: u64,
        ack: Option<u64>,
        seen: &Seen,
        shared: &mut Shared<'_>,
    ) -> u32 {
        let Some(rows) = shared.rows.as_deref_mut() else { return NO_ROW };
        let tcp = &seen.tcp;
        let number = |raw: u32| {
            let ahead = i64::from(raw.wrapping_sub(tcp.ack) as i32);
            ack.unwrap_or(0).saturating_add_signed(ahead)
        };
        rows.add(PacketRow {
            flow: self.id,
            number: seen.number,
            at_ns: seen.at_ns,
            is_from_a: from == 0,
            seq,
            len: tcp.len,
            ack,
            flags: letters(tcp.flags),
            ecn: match tcp.ecn {
                Ecn::NotEct => "not-ect",
                Ecn::Ect0 => "ect0",
                Ecn::Ect1 => "ect1",
                Ecn::Ce => "ce",
            },
            window_bytes: self.window_bytes(from, tcp).unwrap_or_else(|| tcp.window.into()),
            sacks: tcp.sacks().iter().map(|(a, b)| (number(*a), number(*b))).collect(),
            ..PacketRow::default()
        })
    }

    /// The window that an end gives; nothing if its scale is not known.
    fn window_bytes(&self, from: usize, tcp: &Compact) -> Option<u64> {
        let window = u64::from(tcp.window);
        if tcp.has(Segment::SYN) || window == 0 {
            return Some(window);
        }
        match self.handshake.has_window_scale? {
            true => Some(window << self.sides[from].window_scale.unwrap_or(0)),
            false => Some(window),
        }
    }

    /// Largest payload of a segment on the wire that an end sends.
    fn mss(&self, from: usize) -> u32 {
        let (side, other) = (&self.sides[from], &self.sides[1 - from]);
        let options = if side.has_timestamps { TIMESTAMP_BYTES } else { 0 };
        if let Some(mss) = other.mss_option {
            // A path may allow less than what both hosts do: then packets show it.
            let mss = u32::from(mss).min(side.mss_option.map_or(u32::MAX, u32::from));
            return mss.saturating_sub(options).max(1);
        }
        let ipv6 = if self.ends[0].is_ipv6() { 20 } else { 0 };
        let [ethernet, jumbo] = [ETHERNET_MSS, JUMBO_MSS].map(|mss| mss - ipv6 - options);
        match side.largest {
            // Multiples of a segment are such as a host hands over.
            largest if largest > ethernet && largest <= jumbo && largest % ethernet != 0 => largest,
            _ => ethernet,
        }
    }

    /// Smallest time from the point to an end and back, as far as it is known, ns.
    fn rtt_to(&self, end: usize) -> Option<u64> {
        let of_handshake = match end {
            0 => self.handshake.rtt_to_a_ns,
            _ => self.handshake.rtt_to_b_ns,
        };
        let data = self.sides[1 - end].data.as_ref();
        let by_data = data.and_then(|data| data.out.rtt.min());
        of_handshake.into_iter().chain(by_data).chain(self.sides[end].rtt_ns).min()
    }

    fn note_end(&mut self, from: usize, tcp: &Compact) {
        if tcp.has(Segment::RST) {
            self.ended = Ended::Reset;
        } else if tcp.has(Segment::FIN) {
            let side = &mut self.sides[from];
            side.fin = side.data.as_ref().map_or(Some(side.next), |data| Some(data.next));
            if self.sides.iter().all(|side| side.fin.is_some()) && self.ended == Ended::Open {
                self.ended = Ended::Closed;
            }
        }
    }

    /// The finished flow.
    pub(crate) fn finish(self, ended: Ended, most_rounds: usize) -> Flow {
        let location = self.location();
        let mss = [self.mss(0), self.mss(1)];
        let mut handshake = self.handshake;
        if handshake.has_timestamps.is_none() {
            let has = self.sides.iter().any(|side| side.has_timestamps);
            handshake.has_timestamps = Some(has);
        }
        let last_ns = self.last_ns;
        let [to_a, to_b] = [location.rtt_to_a_ns, location.rtt_to_b_ns];
        let [a, b] = self.sides;
        Flow {
            id: self.id,
            connection: self.connection,
            is_primary: true,
            point: self.point,
            a: self.ends[0],
            b: self.ends[1],
            handshake,
            begin_ns: self.begin_ns,
            end_ns: last_ns.max(self.begin_ns),
            first_number: self.first_number,
            last_number: self.last_number,
            packets: self.packets,
            ended: if self.ended == Ended::Open { ended } else { self.ended },
            location,
            a_to_b: a.finish(last_ns, mss[0], most_rounds, [to_a, to_b]),
            b_to_a: b.finish(last_ns, mss[1], most_rounds, [to_b, to_a]),
        }
    }

    fn location(&self) -> Location {
        let [rtt_to_a_ns, rtt_to_b_ns] = [self.rtt_to(0), self.rtt_to(1)];
        let handshake = &self.handshake;
        let evidence = match (rtt_to_a_ns, rtt_to_b_ns) {
            (None, None) => LocationEvidence::None,
            (a, b) if a == handshake.rtt_to_a_ns && b == handshake.rtt_to_b_ns => {
                LocationEvidence::Handshake
            }
            _ => LocationEvidence::DataAndAcks,
        };
        let place = match (rtt_to_a_ns, rtt_to_b_ns) {
            (Some(a), Some(b)) if a < b && a <= a.saturating_add(b) / NEAR_PART => {
                PointPosition::NearA
            }
            (Some(a), Some(b)) if b < a && b <= a.saturating_add(b) / NEAR_PART => {
                PointPosition::NearB
            }
            (Some(_), Some(_)) => PointPosition::Between,
            _ => PointPosition::Unknown,
        };
        Location { place, rtt_to_a_ns, rtt_to_b_ns, evidence }
    }
}

impl Side {
    /// Behind what it has sent.
    fn sent_up_to(&self) -> u64 {
        self.data.as_ref().map_or(self.next, |data| data.next)
    }

    /// A number of this side, counted from the initial one; nothing if it is far below all that was seen.
    fn unwrap(&self, raw: u32) -> Option<u64> {
        let next = self.sent_up_to();
        let expected = self.origin?.wrapping_add(next as u32);
        next.checked_add_signed(i64::from(raw.wrapping_sub(expected) as i32))
    }

    /// `to_ends`: time from the point to this end and back, and to the other.
    fn finish(
        self,
        at_ns: u64,
        mss: u32,
        most_rounds: usize,
        to_ends: [Option<u64>; 2],
    ) -> Direction {
        let mut out = match self.data {
            Some(data) => data.finish(at_ns, mss, most_rounds, to_ends),
            None => Direction::default(),
        };
        (out.mss_option, out.window_scale) = (self.mss_option, self.window_scale);
        (out.ttl, out.packets, out.last_packet_ns) = (self.ttl, self.packets, self.last_ns);
        out.ecn.ect_without_data = self.control_ect;
        out.duplicates_captured += self.copies.count;
        out
    }
}

/// Hands an ACK to the data that it is about.
fn acknowledge(side: &mut Side, ack: u64, has_data: bool, now: &mut Now<'_>) {
    if side.data.is_none() {
        // A handshake's ACK, or one of a capture without the data.
        if ack <= side.next + u64::from(side.fin.is_some()) {
            return;
        }
        side.data = Some(Box::new(Data::new(side.next, side.is_syn_seen)));
    }
    let Some(data) = &mut side.data else { return };
    // A FIN takes a number too.
    let ack = if side.fin == Some(ack.wrapping_sub(1)) { ack - 1 } else { ack };
    data.acked(ack, has_data, now);
    // The window of a reset means nothing (RFC 9293, section 3.5.2).
    if !now.tcp.has(Segment::RST) {
        data.windowed(now);
    }
}

/// Takes what a packet brings.
fn send(side: &mut Side, seq: u64, now: &mut Now<'_>) {
    let tcp = now.tcp;
    let syn = u64::from(tcp.has(Segment::SYN));
    let start = seq + syn;
    side.next = side.next.max(syn);
    if tcp.len > 0 && !tcp.has(Segment::RST) {
        side.data_at_ns = Some(now.at_ns);
        let (next, has_begun) = (side.next.min(start), side.is_syn_seen && start == 1);
        let data = side.data.get_or_insert_with(|| Box::new(Data::new(next, has_begun)));
        data.sent(start, start + u64::from(tcp.len), now);
    }
    let is_cwr = tcp.has(Segment::CWR) && syn == 0 && !now.is_accurate;
    if let (true, Some(data)) = (is_cwr, &mut side.data) {
        data.cwr(start + u64::from(tcp.len), now);
    }
}
