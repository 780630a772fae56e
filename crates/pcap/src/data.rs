//! Data of one direction: sent, in flight, acknowledged.

use std::collections::VecDeque;

use knee_queue::Ecn;
use knee_wire::Compact;
use knee_wire::Segment;

use crate::bursts::Bursts;
use crate::echo::Echo;
use crate::model::{Direction, Event, EventKind};
use crate::ranges::Ranges;
use crate::repeats::{Recovery, Repeat};
use crate::rounds::Rounds;
use crate::rows::{NO_ROW, Rows};
use crate::spans;
use crate::stamps::{Ids, Stamps};

/// Segments in flight that are known one by one; the oldest beyond are forgotten.
const MOST_SENT: usize = 1 << 18;
/// Events that are kept of a direction and kind: marks come by thousands, and must not hide a timeout.
pub(crate) const MOST_EVENTS: u32 = 128;
/// RTT where none is known, ns: that of RFC 6298's first timeout.
const UNKNOWN_RTT_NS: u64 = 1_000_000_000;
/// Excess over the smallest RTT that makes an ACK of all data in flight a delayed-ACK event, ns: more than the largest queues of
/// data centers hold, less than the shortest delayed-ACK timers.
const DELAYED_ACK_NS: u64 = 10_000_000;
/// Resolution of sending times, in parts of an RTT: a whole window may leave within one of them.
const SPANS_OF_RTT: u64 = 64;
/// Ranges that were acknowledged before they were captured and may still come: what the packets of a round trip leave where two queues
/// of a capture are apart. Ranges of less than this part of a round trip are one.
const MOST_MISSED: usize = 64;

/// Exact RTTs kept of each kind.
const MOST_SAMPLES: usize = 1024;

/// A segment in flight, or a gap that later segments left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Time and packet of its first transmission; for a gap, of the packet that left it.
    pub(crate) at_ns: u64,
    pub(crate) number: u64,
    /// Time and packet of its last transmission.
    pub(crate) last_at_ns: u64,
    pub(crate) last_number: u64,
    /// Number of transmissions, 0 for a gap.
    pub(crate) times: u8,
    /// Whether it came behind later ones: late, or lost before the point and sent again.
    pub(crate) has_filled_gap: bool,
    pub(crate) is_sacked: bool,
    pub(crate) is_ce: bool,
    /// Timestamp value and IP identification of the first packet; for a gap, of the packet that left it.
    pub(crate) tsval: Option<u32>,
    pub(crate) ip_id: Option<u16>,
    /// Row of the last transmission.
    pub(crate) row: u32,
}

impl Sent {
    /// A gap before a packet that was expected later.
    fn gap(start: u64, packet: &Sent) -> Sent {
        Sent { start, end: packet.start, times: 0, is_ce: false, row: NO_ROW, ..*packet }
    }
}

/// A packet with the state of its connection when it arrives.
pub(crate) struct Now<'a> {
    pub(crate) tcp: &'a Compact,
    pub(crate) at_ns: u64,
    pub(crate) number: u64,
    /// Smallest time from the point to the sender of the data and back, if known, ns.
    pub(crate) to_sender_ns: Option<u64>,
    /// Smallest time from the point to the receiver of the data and back, if known, ns.
    pub(crate) to_receiver_ns: Option<u64>,
    /// Largest segment that goes over the wire, bytes.
    pub(crate) mss: u32,
    pub(crate) has_sack: Option<bool>,
    /// Whether flags count marks (AccECN, RFC 9768).
    pub(crate) is_accurate: bool,
    /// Advertised window, bytes.
    pub(crate) window_bytes: Option<u64>,
    /// Scratch space for newly SACKed ranges.
    pub(crate) fresh: &'a mut Vec<(u64, u64)>,
    /// Highest rate of consecutive packets at the point, bits per second.
    pub(crate) link_rate_bps: &'a mut f64,
    pub(crate) rows: Option<&'a mut Rows>,
    pub(crate) row: u32,
    pub(crate) most_rounds: usize,
    /// When the other end last sent data.
    pub(crate) other_data_at_ns: Option<u64>,
}

/// Data of one sender.
#[derive(Clone, Debug, Default)]
pub(crate) struct Data {
    /// The result so far.
    pub(crate) out: Direction,
    pub(crate) sent: VecDeque<Sent>,
    pub(crate) sacked: Ranges,
    /// Sequence numbers: next to send, and first unacknowledged.
    pub(crate) next: u64,
    pub(crate) una: u64,
    /// First byte that was seen or acknowledged.
    base: u64,
    pub(crate) rounds: Rounds,
    pub(crate) recovery: Recovery,
    pub(crate) srtt_ns: Option<u64>,
    pub(crate) last_data_at_ns: Option<u64>,
    pub(crate) last_data_number: u64,
    pub(crate) last_ack_at_ns: Option<u64>,
    /// RACK state: time of sending of the newest delivered segment, ns, and its end.
    pub(crate) delivered: (u64, u64),
    pub(crate) duplicate_acks: u32,
    /// Kept events of each kind.
    events: [u32; EventKind::COUNT],
    ids: Ids,
    pub(crate) stamps: Stamps,
    bursts: Bursts,
    echo: Echo,
    /// Time since which nothing is in flight.
    idle_since_ns: Option<u64>,
    begin_ns: Option<u64>,
    last_new_ack_ns: Option<u64>,
    last_ack_rate_at_ns: Option<u64>,
    /// Exact RTTs without and with a mark.
    every: [Every; 2],
    /// Length of spans of data and of losses after merging, ns.
    grown_ns: [u64; 2],
    initial: Initial,
    /// Bytes that were acknowledged before they were captured, the oldest first.
    missed: VecDeque<Missed>,
    /// Since when the receiver reports a gap at the first unacknowledged byte, ns.
    gap_since_ns: Option<u64>,
    pub(crate) window: Window,
}

/// Bytes that were acknowledged before they were captured.
#[derive(Clone, Copy, Debug)]
struct Missed {
    start: u64,
    end: u64,
    /// When the ACK of them came, ns.
    at_ns: u64,
    /// The gap that they are, if later ones had come before the ACK.
    gap: Option<Sent>,
}

/// Thins out values: keeps every n-th, and doubles n where there are too many.
#[derive(Clone, Copy, Debug, Default)]
struct Every {
    doubled: u32,
    count: u64,
}

impl Every {
    fn add(&mut self, list: &mut Vec<u64>, value: u64) {
        let is_taken = self.count & ((1 << self.doubled) - 1) == 0;
        self.count += 1;
        if !is_taken {
            return;
        }
        list.push(value);
        if list.len() >= MOST_SAMPLES {
            let every_second = list.iter().copied().step_by(2);
            *list = every_second.collect();
            self.doubled += 1;
        }
    }
}

/// The initial window as it is being found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Initial {
    /// No data yet, or no handshake to count from.
    #[default]
    None,
    /// No data was acknowledged yet; whether the beginning was seen.
    Growing,
    /// The first ACK of data passed; the sender may not know of it until then.
    Until(u64),
    Known,
}

/// The receiver's window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    pub(crate) bytes: Option<u64>,
    /// Since when it is closed, by which packet.
    closed: Option<(u64, u64)>,
}

impl Data {
    /// Data from `next` on. `has_begun_here`: its handshake was seen.
    pub(crate) fn new(next: u64, has_begun_here: bool) -> Data {
        let initial = if has_begun_here { Initial::Growing } else { Initial::None };
        Data { next, una: next, base: next, initial, ..Data::default() }
    }

    /// On its way: sent, and neither acknowledged nor selectively so.
    pub(crate) fn inflight(&self) -> u64 {
        (self.next - self.una).saturating_sub(self.sacked.bytes())
    }

    /// RTT of the whole path, as far as it is known, ns.
    pub(crate) fn full_rtt_ns(&self, now: &Now<'_>) -> u64 {
        // Before any data is acknowledged, that of the handshake.
        let ahead = self.srtt_ns.or(now.to_receiver_ns).unwrap_or(UNKNOWN_RTT_NS);
        ahead.saturating_add(now.to_sender_ns.unwrap_or(0))
    }

    /// Whether the IP identifications of new data have counted up so far, with few exceptions.
    pub(crate) fn has_counted_ids(&self) -> bool {
        self.ids.all >= 4 && self.ids.near >= self.ids.all - self.ids.all / 10
    }

    /// Number of segments for these bytes.
    pub(crate) fn segments(len: u64, mss: u32) -> u64 {
        len.div_ceil(u64::from(mss.max(1)))
    }

    pub(crate) fn event(&mut self, event: Event) {
        let count = &mut self.events[event.kind as usize];
        if *count < MOST_EVENTS {
            *count += 1;
            self.out.events.push(event);
        } else {
            self.out.events_not_kept += 1;
        }
    }

    /// An event at a packet, of what it shows by default.
    pub(crate) fn at(&self, kind: EventKind, now: &Now<'_>) -> Event {
        Event {
            kind,
            at_ns: now.at_ns,
            number: now.number,
            earlier: None,
            seq: self.una,
            bytes: 0,
            lasted_ns: 0,
            inflight_bytes: self.inflight(),
            duplicate_acks: self.duplicate_acks,
            is_tail: false,
        }
    }

    /// A packet with data from `start` to `end`.
    pub(crate) fn sent(&mut self, start: u64, end: u64, now: &mut Now<'_>) {
        let (len, is_ce) = (end - start, now.tcp.ecn == Ecn::Ce);
        let segments = Data::segments(len, now.mss);
        let is_again = start < self.next;
        if is_again && self.is_probe(start, end) {
            return;
        }
        self.count(len, segments, is_again, now);
        self.note_idle(now);
        let mut fresh = start;
        if is_again {
            fresh = end.min(self.next);
            self.sent_again(start, fresh, now);
        }
        if fresh < end {
            self.may_probe(fresh, end, now);
            self.sent_new(fresh, end, now);
        }
        if let Some(open) = &mut self.rounds.open {
            open.data_marked(is_ce);
            let round = &mut open.round;
            round.bytes += len;
            round.segments += segments as u32;
            round.last_number = now.number;
            round.ce_segments += if is_ce { segments as u32 } else { 0 };
            let is_capable = now.tcp.ecn != Ecn::NotEct;
            round.ect_segments += if is_capable { segments as u32 } else { 0 };
            if round.first_number == 0 {
                round.first_number = now.number;
            }
        }
        self.measure_inflight();
        let full_rtt_ns = self.full_rtt_ns(now);
        self.bursts.packet(len, segments, full_rtt_ns, now, &mut self.out, &mut self.rounds);
        let (sending, grown_ns) = (&mut self.out.sending, &mut self.grown_ns[0]);
        spans::add(sending, now.at_ns, len, segments, full_rtt_ns / SPANS_OF_RTT, grown_ns);
        self.last_data_at_ns = Some(now.at_ns);
        self.last_data_number = now.number;
        if let Some(rows) = now.rows.as_deref_mut() {
            rows.inflight(now.row, self.inflight());
        }
    }

    /// Keepalives and probes of a closed window repeat a byte, and carry nothing.
    fn is_probe(&self, start: u64, end: u64) -> bool {
        let is_keepalive = end <= self.una && self.una == self.next;
        let is_window_probe = start == self.una && self.window.closed.is_some();
        end - start <= 1 && (is_keepalive || is_window_probe)
    }

    fn count(&mut self, len: u64, segments: u64, is_again: bool, now: &Now<'_>) {
        let out = &mut self.out;
        out.data_packets += 1;
        out.segments += segments;
        out.bytes_sent += len;
        out.super_packets += u64::from(segments > 1);
        let ecn = &mut out.ecn;
        match now.tcp.ecn {
            Ecn::NotEct => ecn.not_ect += segments,
            Ecn::Ect0 => ecn.ect0 += segments,
            Ecn::Ect1 => ecn.ect1 += segments,
            Ecn::Ce => ecn.ce += segments,
        }
        if is_again && now.tcp.ecn != Ecn::NotEct {
            ecn.ect_retransmitted += segments;
        }
        self.begin_ns.get_or_insert(now.at_ns);
    }

    fn note_idle(&mut self, now: &Now<'_>) {
        let since = self.idle_since_ns.take();
        let idle_ns = since.map_or(0, |since| now.at_ns.saturating_sub(since));
        let is_answered = since.is_some() && now.other_data_at_ns >= since;
        self.rounds.begin(now.at_ns, idle_ns, is_answered);
        if idle_ns > self.recovery.timeout_ns(self.srtt_ns) {
            let event = self.at(EventKind::AfterIdle, now);
            let earlier = Some(self.last_data_number);
            self.event(Event { earlier, lasted_ns: idle_ns, ..event });
        }
    }

    fn sent_new(&mut self, start: u64, end: u64, now: &mut Now<'_>) {
        let sent = Sent {
            start,
            end,
            at_ns: now.at_ns,
            number: now.number,
            last_at_ns: now.at_ns,
            last_number: now.number,
            times: 1,
            has_filled_gap: false,
            is_sacked: false,
            is_ce: now.tcp.ecn == Ecn::Ce,
            tsval: now.tcp.timestamps.map(|stamps| stamps.0),
            ip_id: now.tcp.ip_id,
            row: now.row,
        };
        self.ids.count(now.tcp.ip_id);
        if let Some((tsval, _)) = now.tcp.timestamps {
            self.stamps.note(tsval, now.at_ns);
        }
        self.measure_initial_window(start, end, now);
        if start > self.next {
            self.sent.push_back(Sent::gap(self.next, &sent));
        }
        self.sent.push_back(sent);
        if self.sent.len() > MOST_SENT {
            self.sent.pop_front();
        }
        self.next = end;
        self.rounds.sent(end);
    }

    fn sent_again(&mut self, start: u64, end: u64, now: &mut Now<'_>) {
        if end <= self.una && self.was_missed(start, end, now) {
            return;
        }
        self.repeated(start, end, now);
    }

    /// Whether these bytes are some that an ACK covered before they came: the capture has the packets of two queues in another order than
    /// they passed, or two clocks.
    fn was_missed(&mut self, start: u64, end: u64, now: &mut Now<'_>) -> bool {
        if self.missed.is_empty() {
            return false;
        }
        let round_trip_ns = self.full_rtt_ns(now);
        let is_old = |missed: &Missed| now.at_ns.saturating_sub(missed.at_ns) >= round_trip_ns;
        while self.missed.front().is_some_and(is_old) {
            self.missed.pop_front();
        }
        // A packet of several segments may be of several ACKs.
        let shared = |missed: &Missed| missed.start.max(start)..missed.end.min(end);
        let ends = self.missed.iter().map(shared);
        let found: u64 = ends.map(|ends| ends.end.saturating_sub(ends.start)).sum();
        if found < end - start {
            return false;
        }
        let mut gaps = Vec::new();
        for missed in std::mem::take(&mut self.missed) {
            let came = shared(&missed);
            if came.is_empty() {
                self.missed.push_back(missed);
                continue;
            }
            // What is beside it may come, too.
            let rest = [Missed { end: came.start, ..missed }, Missed { start: came.end, ..missed }];
            self.missed.extend(rest.into_iter().filter(|rest| rest.start < rest.end));
            gaps.extend(missed.gap.map(|gap| (came, gap)));
        }
        while self.missed.len() > MOST_MISSED {
            self.missed.pop_front();
        }
        self.out.bytes_not_captured = self.out.bytes_not_captured.saturating_sub(end - start);
        for (came, gap) in gaps {
            self.explain_gap(came.start, came.end, &gap, now);
        }
        true
    }

    fn note_missed_range(&mut self, start: u64, end: u64, gap: Option<Sent>, now: &Now<'_>) {
        self.out.bytes_not_captured += end - start;
        // Of several within a small part of a round trip the first one's time counts, so that none is waited for longer than others.
        let soon_ns = self.full_rtt_ns(now) / MOST_MISSED as u64;
        if let (Some(last), None) = (self.missed.back_mut(), gap) {
            let is_soon = now.at_ns.saturating_sub(last.at_ns) <= soon_ns;
            if last.end == start && last.gap.is_none() && is_soon {
                last.end = end;
                return;
            }
        }
        if self.missed.len() >= MOST_MISSED {
            self.missed.pop_front();
        }
        self.missed.push_back(Missed { start, end, at_ns: now.at_ns, gap });
    }

    fn measure_initial_window(&mut self, start: u64, end: u64, now: &Now<'_>) {
        match self.initial {
            Initial::Until(until_ns) if now.at_ns >= until_ns => {
                self.initial = Initial::Known;
                // More was waiting: it went out within a round trip of the first ACK.
                let soon = until_ns.saturating_add(self.full_rtt_ns(now));
                self.out.is_initial_window_full = now.at_ns <= soon;
            }
            Initial::Growing | Initial::Until(_) => {
                let most = self.out.initial_window_bytes.get_or_insert(0);
                *most += end - start;
            }
            _ => {}
        }
    }

    fn measure_inflight(&mut self) {
        let inflight = self.inflight();
        self.out.max_inflight_bytes = self.out.max_inflight_bytes.max(inflight);
        let window = self.window.bytes;
        let room = window.map(|bytes| self.una.saturating_add(bytes).saturating_sub(self.next));
        if let Some(open) = &mut self.rounds.open {
            let round = &mut open.round;
            round.inflight_bytes = round.inflight_bytes.max(inflight);
            round.window_bytes = round.window_bytes.into_iter().chain(window).min();
            round.room_bytes = round.room_bytes.into_iter().chain(room).min();
        }
    }

    /// A packet of the receiver, which acknowledges up to `ack`; `has_data`: it brings data of its own.
    pub(crate) fn acked(&mut self, ack: u64, has_data: bool, now: &mut Now<'_>) {
        let ack = self.note_missed(ack, now);
        let newly = ack.saturating_sub(self.una);
        let was_on_its_way = self.next > self.una;
        self.out.acks += 1;
        let inflight_before = self.inflight();
        if newly == 0 && !has_data && was_on_its_way && !self.is_about_the_window(now) {
            self.duplicate_acks += 1;
            self.out.duplicate_acks += 1;
        }
        let least_rtt_ns = self.out.rtt.min().unwrap_or_default();
        let mut taken = Taken { least_rtt_ns, ..Taken::default() };
        let (gap_end, was_sacked) = (self.gap_end(now), self.sacked.bytes());
        if ack >= self.una {
            self.sacked_by(ack, now, &mut taken);
        }
        if newly > 0 {
            self.close_gap(ack, gap_end, now);
            self.take(ack, now, &mut taken);
        }
        self.delivered = self.delivered.max(taken.last_sent);
        let largest = u32::try_from(taken.largest_bytes).unwrap_or(u32::MAX).min(now.mss);
        self.out.largest_acked_bytes = self.out.largest_acked_bytes.max(largest);
        self.check_probe();
        let delivered = inflight_before.saturating_sub(self.inflight());
        let is_forward = newly > 0 || self.sacked.bytes() > was_sacked;
        let marked_bytes = match now.is_accurate {
            true => self.echo.count(is_forward, delivered, now, &mut self.out),
            false if now.tcp.has(Segment::ECE) => Some(delivered),
            false => None,
        };
        let is_ece = marked_bytes.is_some();
        if let Some(ns) = taken.rtt_ns {
            self.measure_rtt(ns, is_ece, inflight_before, now);
            let duplicates = if newly == 0 { self.duplicate_acks } else { 0 };
            self.rounds.unheld(ns, duplicates, taken.has_repeats);
        }
        self.echo.ack(is_ece, ack, newly, &taken, self.srtt_ns, now, &mut self.out);
        if let Some(event) = self.echo.event.take() {
            self.event(Event { inflight_bytes: inflight_before, ..event });
        }
        self.count_acked(newly, delivered, marked_bytes, now);
        self.last_ack_at_ns = Some(now.at_ns);
        if newly > 0 {
            self.after_ack(now);
        }
        if self.gap_end(now).is_none() {
            self.gap_since_ns = None;
        } else {
            self.gap_since_ns.get_or_insert(now.at_ns);
        }
    }

    /// Where the gap ends that the receiver has reported at the first unacknowledged byte, if it has: a segment or more of later ones came
    /// before it. Without SACK a duplicate ACK tells of the first segment only.
    fn gap_end(&self, now: &Now<'_>) -> Option<u64> {
        match self.sacked.begin() {
            Some(begin) => Some(begin).filter(|begin| *begin > self.una),
            None if now.has_sack == Some(false) && self.duplicate_acks > 0 => {
                self.sent.front().map(|first| first.end.min(first.start + u64::from(now.mss)))
            }
            None => None,
        }
    }

    /// An ACK covers what the receiver had reported as missing: what was not sent again meanwhile has come late. What was missing here, too,
    /// waited before the point or was lost there, and is counted as that.
    fn close_gap(&mut self, ack: u64, gap_end: Option<u64>, now: &Now<'_>) {
        let (Some(gap_end), Some(since_ns)) = (gap_end, self.gap_since_ns) else { return };
        // Of more gaps than are kept it is unknown what arrived in them.
        if !self.sacked.has_all(self.una, ack) {
            return;
        }
        let in_gap = |sent: &&Sent| sent.start < gap_end.min(ack);
        let is_late = |sent: &&Sent| sent.times == 1 && !sent.is_sacked && !sent.has_filled_gap;
        let late = self.sent.iter().take_while(in_gap).filter(is_late);
        let (mut bytes, mut first) = (0, None);
        for sent in late {
            bytes += sent.end.min(gap_end).min(ack).saturating_sub(sent.start.max(self.una));
            first = first.or(Some((sent.number, sent.start)));
        }
        let Some((number, seq)) = first.filter(|_| bytes > 0 && !self.recovery.is_after_timeout())
        else {
            return;
        };
        let lasted_ns = now.at_ns.saturating_sub(since_ns);
        self.out.reordered_behind += Data::segments(bytes, now.mss);
        let longest_ns = &mut self.out.reordered_behind_longest_ns;
        *longest_ns = lasted_ns.max(*longest_ns);
        let event = self.at(EventKind::ReorderedBehind, now);
        self.event(Event { earlier: Some(number), seq, bytes, lasted_ns, ..event });
    }

    /// Data that was acknowledged and never captured counts as sent now.
    fn note_missed(&mut self, ack: u64, now: &Now<'_>) -> u64 {
        if ack > self.next {
            let event = self.at(EventKind::NotCaptured, now);
            self.event(Event { seq: self.next, bytes: ack - self.next, ..event });
            self.note_missed_range(self.next, ack, None, now);
            self.next = ack;
        }
        ack
    }

    /// Takes what an ACK covers off the list.
    fn take(&mut self, ack: u64, now: &mut Now<'_>, taken: &mut Taken) {
        let before = self.una;
        self.recovery.check_eifel(before, ack, now, &mut self.out);
        if let Some(event) = self.recovery.event.take() {
            self.event(event);
        }
        while let Some(first) = self.sent.front_mut() {
            if first.start >= ack {
                break;
            }
            if first.end > ack {
                // Of a packet of several segments, some.
                if first.times > 0 && !first.is_sacked {
                    taken.segment(&Sent { end: ack, row: NO_ROW, ..*first }, now);
                }
                let part = Sent { end: ack, ..*first };
                first.start = ack;
                if part.times == 0 {
                    self.note_missed_range(part.start, ack, Some(part), now);
                }
                break;
            }
            if first.times > 0 && !first.is_sacked {
                taken.segment(first, now);
            }
            let gap = self.sent.pop_front().filter(|first| first.times == 0);
            if let Some(gap) = gap {
                self.note_missed_range(gap.start, gap.end, Some(gap), now);
            }
        }
        // What waited for one that was retransmitted has come long before this ACK, and without SACKs nothing told of it.
        if taken.has_repeats && now.has_sack == Some(false) {
            taken.rtt_ns = None;
        }
        self.una = ack;
        self.sacked.remove_below(ack);
    }

    fn sacked_by(&mut self, ack: u64, now: &mut Now<'_>, taken: &mut Taken) {
        let sacks = now.tcp.sacks();
        let Some(first) = sacks.first() else { return };
        let number = |raw: u32| {
            let ahead = raw.wrapping_sub(now.tcp.ack) as i32;
            ack.saturating_add_signed(ahead.into())
        };
        let range = |sack: &(u32, u32)| (number(sack.0), number(sack.1));
        let (start, end) = range(first);
        // The first range is a duplicate if it is below the ACK, or within the second (RFC 2883).
        let is_in_second = sacks.get(1).map(range).is_some_and(|(a, b)| a <= start && end <= b);
        let is_duplicate = end <= ack || is_in_second;
        if is_duplicate && start < end {
            self.recovery.reported_twice(start, end, now, &mut self.out);
            if let Some(event) = self.recovery.event.take() {
                self.event(event);
            }
        }
        for sack in &sacks[usize::from(is_duplicate)..] {
            let (start, end) = range(sack);
            let (start, end) = (start.max(ack), end.min(self.next));
            let Some(covered) = self.sacked.add(start, end, now.fresh) else { continue };
            for part in std::mem::take(now.fresh) {
                self.mark_sacked(part, covered, now, taken);
            }
        }
    }

    /// Marks segments of a newly reported part, as far as they are covered as a whole.
    fn mark_sacked(
        &mut self,
        part: (u64, u64),
        covered: (u64, u64),
        now: &mut Now<'_>,
        taken: &mut Taken,
    ) {
        let from = self.sent.partition_point(|sent| sent.end <= part.0);
        let from = from + usize::from(self.split_packet(from, covered.0));
        let last = self.sent.partition_point(|sent| sent.end < covered.1);
        self.split_packet(last, covered.1);
        for sent in self.sent.range_mut(from..) {
            if sent.start >= part.1 {
                break;
            }
            let is_covered = covered.0 <= sent.start && sent.end <= covered.1;
            if is_covered && sent.times > 0 && !sent.is_sacked {
                sent.is_sacked = true;
                taken.segment(sent, now);
            }
        }
    }

    /// Splits a packet of several segments where a SACK ends, not a gap.
    fn split_packet(&mut self, at: usize, edge: u64) -> bool {
        self.sent.get(at).is_some_and(|sent| sent.times > 0) && self.split(at, edge)
    }

    fn measure_rtt(&mut self, ns: u64, is_ece: bool, inflight_before: u64, now: &Now<'_>) {
        self.out.rtt.add(ns, now.number);
        if is_ece {
            self.out.rtt_marked.add(ns, now.number);
        }
        if self.out.ecn.ece > 0 || is_ece {
            let of = usize::from(is_ece);
            self.every[of].add(&mut self.out.exact_rtts[of], ns);
        }
        self.srtt_ns = Some(match self.srtt_ns {
            None => ns,
            Some(srtt) => srtt - srtt / 8 + ns / 8,
        });
        if let Some(open) = &mut self.rounds.open {
            open.rtt(ns);
        }
        let delay_ns = ns - self.out.rtt.min().unwrap_or(ns);
        let is_last = self.una == self.next && inflight_before <= 2 * u64::from(now.mss);
        if is_last {
            if let Some(open) = &mut self.rounds.open {
                open.round.ack_delay_ns = open.round.ack_delay_ns.max(Some(delay_ns));
            }
            if delay_ns >= DELAYED_ACK_NS {
                let event = self.at(EventKind::DelayedAck, now);
                let earlier = Some(self.last_data_number);
                let (lasted_ns, bytes) = (delay_ns, inflight_before);
                self.event(Event { earlier, lasted_ns, bytes, ..event });
            }
        }
    }

    /// An RTT by timestamps of a packet with data.
    pub(crate) fn measure_rtt_by_timestamps(&mut self, ns: u64, number: u64) {
        self.out.rtt_by_timestamps.add(ns, number);
        if let Some(open) = &mut self.rounds.open {
            open.rtt_by_timestamps(ns);
        }
    }

    /// Counts an ACK: bytes `newly` acknowledged, bytes newly `delivered` by it or its SACKs, and how many of these it tells to have been
    /// marked, if it tells of marks.
    fn count_acked(&mut self, newly: u64, delivered: u64, marked: Option<u64>, now: &Now<'_>) {
        let (is_ece, marked) = (marked.is_some(), marked.unwrap_or(0));
        let ecn = &mut self.out.ecn;
        ecn.ece += u64::from(is_ece);
        ecn.acked_bytes += newly;
        ecn.ece_bytes += marked;
        if let Some(open) = &mut self.rounds.open {
            open.ack_marked(is_ece);
            open.round.ece_bytes += marked;
        }
        if newly == 0 {
            return;
        }
        // Behind a loss an ACK covers what had come and was told of before: that is no ACK for much at once.
        let segments = Data::segments(newly.min(delivered), now.mss);
        let is_told =
            now.has_sack != Some(false) && self.sacked.has_all(self.una - newly, self.una);
        let is_jump = !is_told && self.recovery.is_repairing();
        if segments > 0 && !is_jump {
            self.out.ack_segments.add(segments, now.number);
        }
        let before = self.last_ack_rate_at_ns.replace(now.at_ns);
        if let Some(gap_ns) = before.map(|at| now.at_ns.saturating_sub(at)).filter(|ns| *ns > 0) {
            let bps = newly as f64 * 8e9 / gap_ns as f64;
            self.out.ack_rate_bps.add(bps as u64, now.number);
        }
        if let Some(open) = &mut self.rounds.open {
            let round = &mut open.round;
            round.acks += 1;
            round.acked_bytes += newly;
            if !is_jump {
                round.largest_ack_segments = round.largest_ack_segments.max(segments as u32);
            }
        }
    }

    fn after_ack(&mut self, now: &Now<'_>) {
        self.duplicate_acks = 0;
        self.out.bytes = self.una - self.base;
        self.last_new_ack_ns = Some(now.at_ns);
        self.recovery.acked(self.una, now.at_ns);
        if self.initial == Initial::Growing {
            self.initial = Initial::Until(now.at_ns.saturating_add(now.to_sender_ns.unwrap_or(0)));
        }
        self.rounds.acked(self.una, self.next, now.at_ns, now.mss, now.most_rounds);
        if self.una == self.next {
            self.idle_since_ns = Some(now.at_ns);
            self.last_ack_rate_at_ns = None;
        }
    }

    /// The sender says that it has reduced cwnd.
    pub(crate) fn cwr(&mut self, end: u64, now: &Now<'_>) {
        self.out.ecn.cwr += 1;
        self.echo.cwr(end);
        let event = self.at(EventKind::Cwr, now);
        self.event(Event { seq: end, ..event });
    }

    /// The receiver gives a window.
    pub(crate) fn windowed(&mut self, now: &Now<'_>) {
        let Some(bytes) = now.window_bytes else { return };
        self.window.bytes = Some(bytes);
        if self.out.data_packets > 0 {
            let least = &mut self.out.smallest_window_bytes;
            *least = Some(least.map_or(bytes, |least| least.min(bytes)));
        }
        match (bytes, self.window.closed) {
            (0, None) => {
                self.window.closed = Some((now.at_ns, now.number));
                self.out.zero_windows += 1;
            }
            (1.., Some(_)) => self.window_opened(now.at_ns, Some(now.number)),
            _ => {}
        }
    }

    /// Whether a packet that acknowledges nothing new is about the window: it gives another one, or answers a probe of a closed one.
    fn is_about_the_window(&self, now: &Now<'_>) -> bool {
        let is_other = self.window.bytes != now.window_bytes && now.tcp.sacks().is_empty();
        is_other || self.window.closed.is_some() || now.tcp.has(Segment::SYN | Segment::RST)
    }

    fn window_opened(&mut self, at_ns: u64, number: Option<u64>) {
        let Some((since_ns, by)) = self.window.closed.take() else { return };
        let lasted_ns = at_ns.saturating_sub(since_ns);
        self.out.zero_window_ns = self.out.zero_window_ns.saturating_add(lasted_ns);
        self.event(Event {
            kind: EventKind::ZeroWindow,
            at_ns,
            number: number.unwrap_or(by),
            earlier: Some(by),
            seq: self.una,
            bytes: 0,
            lasted_ns,
            inflight_bytes: self.inflight(),
            duplicate_acks: self.duplicate_acks,
            is_tail: false,
        });
    }

    /// The result, when the last packet has come.
    pub(crate) fn finish(
        mut self,
        at_ns: u64,
        mss: u32,
        most_rounds: usize,
        [to_sender_ns, to_receiver_ns]: [Option<u64>; 2],
    ) -> Direction {
        self.window_opened(at_ns, None);
        self.bursts.finish(&mut self.out);
        self.echo.finish(&mut self.out);
        let is_acked = self.out.acks > 0 && self.out.bytes > 0;
        if !is_acked {
            // Nobody was seen to acknowledge anything.
            self.out.bytes = self.out.bytes_sent.saturating_sub(self.out.retransmitted.bytes);
        }
        let end_ns = self.last_new_ack_ns.max(self.last_data_at_ns);
        if let (Some(begin_ns), Some(end_ns)) = (self.begin_ns, end_ns) {
            // What came within less than a round trip says how soon ACKs leave, and nothing of a rate.
            let round_trip_ns =
                to_sender_ns.unwrap_or(0).saturating_add(to_receiver_ns.unwrap_or(0));
            self.out.duration_ns = end_ns.saturating_sub(begin_ns).max(round_trip_ns);
        }
        let ns = self.out.duration_ns;
        self.out.goodput_bps =
            (is_acked && ns > 0).then(|| self.out.bytes as f64 * 8e9 / ns as f64);
        self.out.mss = (self.out.data_packets > 0).then_some(mss);
        self.out.family = self.rounds.habits.guess(&self.out, to_sender_ns);
        self.out.rounds = self.rounds.finish(at_ns, mss, most_rounds);
        self.out.events.sort_by_key(|event| (event.at_ns, event.number));
        self.out
    }

    /// How many segments are kept.
    pub(crate) fn kept(&self) -> usize {
        self.sent.len()
    }

    /// A repetition of what was sent at a time, for what the receiver may say of it later.
    pub(crate) fn remember(&mut self, start: u64, end: u64, sent_ns: Option<u64>, now: &Now<'_>) {
        let segments = Data::segments(end - start, now.mss);
        if let Some(sent_ns) = sent_ns {
            let least_ns = self.full_rtt_ns(now) / SPANS_OF_RTT;
            let (losses, grown_ns) = (&mut self.out.losses, &mut self.grown_ns[1]);
            spans::add(losses, sent_ns, end - start, segments, least_ns, grown_ns);
        }
        self.recovery.remember(Repeat {
            start,
            end,
            number: now.number,
            tsval: now.tcp.timestamps.map(|stamps| stamps.0),
            segments,
            is_spurious: false,
            sent_ns,
            acked_ns: None,
        });
    }

    /// Whether a byte below `una` was acknowledged: one from before the capture's first is not known to be.
    pub(crate) fn was_acked(&self, byte: u64) -> bool {
        self.last_new_ack_ns.is_some() && (self.base..self.una).contains(&byte)
    }
}

/// Segments that an ACK removed from the list.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    least_rtt_ns: u64,
    /// RTT of the newest that was sent once, ns.
    pub(crate) rtt_ns: Option<u64>,
    newest_ns: u64,
    has_repeats: bool,
    largest_bytes: u64,
    /// When the newest was sent, those that were retransmitted too, ns, and its end.
    last_sent: (u64, u64),
    pub(crate) marked: u32,
    pub(crate) unmarked: u32,
}

impl Taken {
    fn segment(&mut self, sent: &Sent, now: &mut Now<'_>) {
        if sent.is_ce {
            self.marked += 1;
        } else {
            self.unmarked += 1;
        }
        let ns = now.at_ns.saturating_sub(sent.at_ns);
        // What was retransmitted may have come the first time: in less than the path takes it did.
        let is_first =
            sent.times > 1 && now.at_ns.saturating_sub(sent.last_at_ns) < self.least_rtt_ns;
        let sent_ns = if is_first { sent.at_ns } else { sent.last_at_ns };
        self.has_repeats |= sent.times > 1;
        self.largest_bytes = self.largest_bytes.max(sent.end - sent.start);
        self.last_sent = self.last_sent.max((sent_ns, sent.end));
        if sent.times == 1 && (self.rtt_ns.is_none() || sent.at_ns >= self.newest_ns) {
            (self.rtt_ns, self.newest_ns) = (Some(ns), sent.at_ns);
        }
        if let Some(rows) = now.rows.as_deref_mut() {
            rows.acked(sent.row, now.number, (sent.times == 1).then_some(ns));
        }
    }
}
