//! Segments below the highest sequence number: out of order or retransmitted, and the cause of retransmission.
//!
//! The packets before a retransmission show its cause: ACKs that report a gap trigger it at once, and a timer fires after
//! silence. A point on the path sees both later by the time to the sender and back.

use std::collections::VecDeque;

use crate::data::{Data, Now, Sent};
use crate::model::{Direction, Event, EventKind};
use crate::spans;

/// Retransmissions remembered for later reports of the receiver (DSACK).
const MOST_REPEATS: usize = 64;
/// Most segments of one retransmission: 64 KiB of the usual size.
const MOST_COVERED: usize = 64;
/// Lists up to this length are split where a gap is filled in part.
const SPLIT_BELOW: usize = 4096;
/// Smallest part of Linux's RTO beyond the RTT, ns (`TCP_RTO_MIN`).
const LINUX_RTO_FLOOR_NS: u64 = 200_000_000;
/// A timer fires after two RTTs of silence (a tail loss probe) or more; what ACKs let go, at once. Between them, in quarters of an RTT.
const TIMER_QUARTERS: u64 = 6;
/// A sender that knows of a loss sends again when its own RACK timer or its pacing lets it, and a timeout is what takes longer than
/// both. It has the floor that Linux has, less a tick of 100 Hz, ns.
const KNOWN_LOST_RTO_NS: u64 = LINUX_RTO_FLOOR_NS - 10_000_000;
/// Longest timeout of Linux (`TCP_RTO_MAX`), with a round trip and a tick; what comes later has another reason, ns.
const MOST_RTO_NS: u64 = 130_000_000_000;
/// A probe waits two RTTs and a delayed ACK at most, and never longer than the first timeout of a connection; twice that, ns.
const MOST_PROBE_NS: u64 = 2_000_000_000;
const MOST_PROBE_RTTS: u64 = 4;
/// Where a repetition may have been lost before the point, the sender may know of less than the point does: then only RACK's timer is
/// allowed for, which is an RTT and four ticks of 100 Hz at most (two that it waits at least, and what the clock rounds up), ns.
const RACK_TIMER_NS: u64 = 40_000_000;
/// Without SACK duplicate ACKs let a segment go at once, and it comes when queues let it, which hold some ms, ns.
const QUEUES_NS: u64 = 8_000_000;
/// Least wait of a probe with new data, ns: two ticks of the fastest clock, the first maybe partial. Pacing waits less.
const PROBE_LEAST_NS: u64 = 1_000_000;
/// Where no RTT is known, a gap that is filled within this is reordering, ns: within what queues of different paths differ by, and
/// shorter than the RTT of most paths longer than a data center's.
const REORDERING_NS: u64 = 3_000_000;
/// IP identifications that differ by less are of packets sent about the same time, if the sender counts.
const NEAR_IDS: i16 = 1024;

/// A retransmission that later reports may concern.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Repeat {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) number: u64,
    pub(crate) tsval: Option<u32>,
    pub(crate) segments: u64,
    /// Counted as spurious; the receiver may still report it.
    pub(crate) is_spurious: bool,
    /// Time of the previous transmission, ns.
    pub(crate) sent_ns: Option<u64>,
    /// When an ACK first covered it, ns.
    pub(crate) acked_ns: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Open,
    /// After duplicate ACKs or SACKs.
    Fast,
    /// After a timeout.
    Loss,
}

/// Loss recovery state of a sender, and its retransmissions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recovery {
    state: State,
    /// Recovery point: `next` when recovery began.
    point: u64,
    /// Time of the last timeout, ns.
    timeout_at_ns: u64,
    /// Whether a probe was sent since the last new ACK.
    is_probed: bool,
    /// New data that may be a tail loss probe: an ACK of it with a gap before it proves it.
    new_probe: Option<Event>,
    repeats: VecDeque<Repeat>,
    /// How many of them no ACK covers yet.
    uncovered: usize,
    /// Event that the last ACK revealed.
    pub(crate) event: Option<Event>,
}

impl Recovery {
    /// A timeout that nothing says otherwise about, ns.
    pub(crate) fn timeout_ns(&self, srtt_ns: Option<u64>) -> u64 {
        srtt_ns.unwrap_or(0).saturating_add(LINUX_RTO_FLOOR_NS)
    }

    /// Whether losses are being repaired.
    pub(crate) fn is_repairing(&self) -> bool {
        self.state != State::Open
    }

    /// Whether what is in flight is repeated since a timeout.
    pub(crate) fn is_after_timeout(&self) -> bool {
        self.state == State::Loss
    }

    /// A new ACK up to here.
    pub(crate) fn acked(&mut self, una: u64, at_ns: u64) {
        self.is_probed = false;
        if self.uncovered > 0 {
            for repeat in self.repeats.iter_mut().filter(|repeat| repeat.end <= una) {
                repeat.acked_ns.get_or_insert(at_ns);
            }
            let open = |repeat: &&Repeat| repeat.acked_ns.is_none();
            self.uncovered = self.repeats.iter().filter(open).count();
        }
        if una >= self.point {
            self.state = State::Open;
        }
    }

    pub(crate) fn remember(&mut self, repeat: Repeat) {
        if self.repeats.len() >= MOST_REPEATS {
            self.repeats.pop_front();
        }
        self.uncovered += 1;
        self.repeats.push_back(repeat);
    }

    /// The receiver had a range twice (DSACK).
    pub(crate) fn reported_twice(
        &mut self,
        start: u64,
        end: u64,
        now: &Now<'_>,
        out: &mut Direction,
    ) {
        let is_it = |repeat: &Repeat| repeat.start < end && start < repeat.end;
        // It may be the report of one that is known to be needless already, and then says nothing of others of the same bytes.
        let is_known = |repeat: &Repeat| is_it(repeat) && repeat.is_spurious;
        let known = self.repeats.iter().position(is_known);
        match known.or_else(|| self.repeats.iter().position(is_it)) {
            Some(at) => {
                self.was_spurious(at, now, out);
                self.repeats.remove(at);
            }
            None => out.duplicates_by_network += 1,
        }
    }

    /// The first segment is acknowledged, with an echo of a time before it was retransmitted: the original had arrived (RFC 3522).
    pub(crate) fn check_eifel(&mut self, una: u64, ack: u64, now: &Now<'_>, out: &mut Direction) {
        let Some((_, echo)) = now.tcp.timestamps else { return };
        let is_before = |tsval: u32| (tsval.wrapping_sub(echo) as i32) > 0;
        let is_it = |repeat: &Repeat| {
            !repeat.is_spurious
                && repeat.start == una
                && repeat.end <= ack
                && repeat.tsval.is_some_and(is_before)
        };
        if let Some(at) = self.repeats.iter().position(is_it) {
            // This ACK is the original's own.
            self.repeats[at].acked_ns.get_or_insert(now.at_ns);
            self.was_spurious(at, now, out);
        }
    }

    /// Whether a tail loss probe may be sent: one, while no ACK reports a loss (RFC 8985 7.3).
    fn can_probe(&self, has_sack: Option<bool>, sacked_bytes: u64) -> bool {
        self.state == State::Open && !self.is_probed && has_sack != Some(false) && sacked_bytes == 0
    }

    /// The last retransmission was of data that an ACK seen here had covered.
    fn was_acked(&mut self, now: &Now<'_>, out: &mut Direction) {
        if let Some(last) = self.repeats.len().checked_sub(1) {
            self.was_spurious(last, now, out);
        }
    }

    /// Counts it once, whatever else says so later.
    fn was_spurious(&mut self, at: usize, now: &Now<'_>, out: &mut Direction) {
        let Some(repeat) = self.repeats.get_mut(at).filter(|repeat| !repeat.is_spurious) else {
            return;
        };
        repeat.is_spurious = true;
        out.retransmitted.spurious += repeat.segments;
        if let Some(sent_ns) = repeat.sent_ns {
            spans::remove(&mut out.losses, sent_ns, repeat.end - repeat.start, repeat.segments);
        }
        self.event = Some(Event {
            kind: EventKind::Spurious,
            at_ns: now.at_ns,
            number: now.number,
            earlier: Some(repeat.number),
            seq: repeat.start,
            bytes: repeat.end - repeat.start,
            lasted_ns: match (repeat.sent_ns, repeat.acked_ns) {
                (Some(sent_ns), Some(acked_ns)) => acked_ns.saturating_sub(sent_ns),
                _ => 0,
            },
            inflight_bytes: 0,
            duplicate_acks: 0,
            is_tail: false,
        });
    }
}

/// Earlier transmission of retransmitted bytes.
struct Earlier {
    number: Option<u64>,
    at_ns: Option<u64>,
    row: u32,
    /// Time when the point last saw them, or saw that they were missing, ns.
    seen_ns: u64,
    /// Whether they are the last that were sent.
    is_last: bool,
    /// Whether they are the first that are not acknowledged.
    is_first: bool,
}

impl Data {
    /// Handles bytes below `next`: out of order, or retransmitted.
    pub(crate) fn repeated(&mut self, start: u64, end: u64, now: &mut Now<'_>) {
        let at = self.sent.partition_point(|sent| sent.end <= start);
        let first = self.sent.get(at).copied().filter(|first| first.start < end);
        if let Some(first) = first {
            if first.times == 0 {
                return self.fills_gap(at, start, end, &first, now);
            }
        }
        let earlier = Earlier {
            number: first.map(|first| first.last_number),
            at_ns: first.map(|first| first.last_at_ns),
            seen_ns: first.map_or(0, |first| first.last_at_ns),
            row: first.map_or(crate::rows::NO_ROW, |first| first.row),
            is_last: end >= self.next,
            is_first: start <= self.una,
        };
        let is_below = end <= self.una;
        self.explain_retransmission(start, end, &earlier, is_below, now);
        self.mark_repeated(at, start, end, now);
    }

    fn mark_repeated(&mut self, at: usize, start: u64, end: u64, now: &Now<'_>) {
        let at = at + usize::from(self.split(at, start));
        let last = self.sent.partition_point(|sent| sent.end < end);
        self.split(last, end);
        for sent in self.sent.range_mut(at.min(self.sent.len())..).take(MOST_COVERED) {
            if sent.start >= end {
                break;
            }
            sent.times = sent.times.saturating_add(1);
            (sent.last_at_ns, sent.last_number) = (now.at_ns, now.number);
            sent.row = now.row;
            sent.is_ce = now.tcp.ecn == knee_queue::Ecn::Ce;
        }
    }

    /// Makes two of what was sent at once, where a part of it is retransmitted or reported by SACK: a host hands several segments over as
    /// one packet.
    pub(crate) fn split(&mut self, at: usize, start: u64) -> bool {
        let is_long = self.sent.len() > SPLIT_BELOW;
        let Some(whole) = self.sent.get_mut(at).filter(|whole| !is_long && whole.start < start)
        else {
            return false;
        };
        if start >= whole.end {
            return false;
        }
        let rest = Sent { start, ..*whole };
        whole.end = start;
        self.sent.insert(at + 1, rest);
        true
    }

    /// Bytes that later ones came before: reordered, or lost before the point and retransmitted.
    fn fills_gap(&mut self, at: usize, start: u64, end: u64, gap: &Sent, now: &mut Now<'_>) {
        self.explain_gap(start, end, gap, now);
        self.fill(at, start, end, gap, now);
    }

    /// Whether what fills a gap was late, or lost before the point and retransmitted.
    pub(crate) fn explain_gap(&mut self, start: u64, end: u64, gap: &Sent, now: &mut Now<'_>) {
        let lasted_ns = now.at_ns.saturating_sub(gap.at_ns);
        if self.is_late(gap, lasted_ns, now) {
            let segments = Data::segments(end - start, now.mss);
            self.out.out_of_order += segments;
            self.out.out_of_order_longest_ns = self.out.out_of_order_longest_ns.max(lasted_ns);
            if let Some(open) = &mut self.rounds.open {
                open.round.out_of_order += segments as u32;
            }
            let event = self.at(EventKind::OutOfOrder, now);
            let earlier = Some(gap.number);
            self.event(Event { earlier, seq: start, bytes: end - start, lasted_ns, ..event });
            if let Some(rows) = now.rows.as_deref_mut() {
                rows.why(now.row, EventKind::OutOfOrder);
            }
        } else {
            self.out.lost_before_point += Data::segments(end - start, now.mss);
            let earlier = Earlier {
                number: None,
                at_ns: None,
                seen_ns: gap.last_at_ns,
                row: crate::rows::NO_ROW,
                is_last: end >= self.next,
                is_first: start <= self.una,
            };
            self.explain_retransmission(start, end, &earlier, false, now);
        }
    }

    /// Puts a segment in the place of a gap, and what is left of the gap beside it.
    fn fill(&mut self, at: usize, start: u64, end: u64, gap: &Sent, now: &Now<'_>) {
        let end = end.min(gap.end);
        let whole = Sent {
            start: start.max(gap.start),
            end,
            at_ns: now.at_ns,
            number: now.number,
            last_at_ns: now.at_ns,
            last_number: now.number,
            // This point saw it once, so that its RTT from here counts.
            times: 1,
            has_filled_gap: true,
            is_ce: now.tcp.ecn == knee_queue::Ecn::Ce,
            tsval: now.tcp.timestamps.map(|stamps| stamps.0),
            ip_id: now.tcp.ip_id,
            row: now.row,
            ..*gap
        };
        self.sent[at] = whole;
        // Splitting moves what is behind it: long lists are not split, and the gap is taken as filled.
        if self.sent.len() > SPLIT_BELOW {
            (self.sent[at].start, self.sent[at].end) = (gap.start, gap.end);
            return;
        }
        if end < gap.end {
            self.sent.insert(at + 1, Sent { start: end, ..*gap });
        }
        if gap.start < whole.start {
            self.sent.insert(at, Sent { end: whole.start, ..*gap });
        }
    }

    /// Whether a packet that fills a gap was sent before the one that left it.
    fn is_late(&self, gap: &Sent, lasted_ns: u64, now: &Now<'_>) -> bool {
        if let (Some(id), Some(later), true) = (now.tcp.ip_id, gap.ip_id, self.has_counted_ids()) {
            let ahead = later.wrapping_sub(id) as i16;
            if ahead != 0 && ahead.unsigned_abs() < NEAR_IDS.unsigned_abs() {
                return ahead > 0;
            }
        }
        if let (Some((tsval, _)), Some(later)) = (now.tcp.timestamps, gap.tsval) {
            let ahead = later.wrapping_sub(tsval) as i32;
            if ahead != 0 {
                return ahead > 0;
            }
        }
        // To be retransmitted, it takes the way of the ACK to the sender, and the way back.
        match (self.out.rtt.min(), now.to_sender_ns) {
            (Some(ahead), Some(behind)) => {
                // It would have a later timestamp then, if these are fine enough.
                let is_same_tick =
                    now.tcp.timestamps.is_some_and(|stamps| Some(stamps.0) == gap.tsval);
                let is_fine = |tick_ns: u64| tick_ns <= (ahead + behind) / 2;
                let is_told = is_same_tick && self.stamps.tick_ns().is_some_and(is_fine);
                is_told || lasted_ns < (ahead + behind) / 5 * 4
            }
            (None, None) => lasted_ns < REORDERING_NS,
            (ahead, behind) => lasted_ns < ahead.or(behind).unwrap_or(0) / 5 * 4,
        }
    }

    /// Decides why bytes were retransmitted.
    fn explain_retransmission(
        &mut self,
        start: u64,
        end: u64,
        earlier: &Earlier,
        is_below: bool,
        now: &mut Now<'_>,
    ) {
        let silence_ns = self.silence_ns(now);
        let is_reported =
            self.duplicate_acks > 0 || self.sacked.end().is_some_and(|last| last > start);
        let is_silent = silence_ns >= self.timer_ns(start, earlier, is_below, now);
        let most_probe_ns =
            self.full_rtt_ns(now).saturating_mul(MOST_PROBE_RTTS).saturating_add(MOST_PROBE_NS);
        // Hosts that probe have SACK, and where the handshake is not seen timestamps show that they are not older than both.
        let may_have_sack = now.has_sack.unwrap_or(now.tcp.timestamps.is_some());
        let can_probe = self.recovery.can_probe(now.has_sack, self.sacked.bytes())
            && may_have_sack
            && silence_ns <= most_probe_ns;
        // Without any ACK nothing says which segment is the first.
        let is_first = earlier.is_first || self.out.acks == 0;
        let kind = if silence_ns > MOST_RTO_NS {
            EventKind::UnclearRetransmission
        } else if is_below {
            // Already acknowledged here: the ACK was in flight to the sender, or lost.
            match (is_silent, self.recovery.state) {
                (true, _) if can_probe && earlier.is_last => EventKind::TailLossProbe,
                (true, _) => EventKind::Rto,
                (false, State::Loss) => EventKind::RetransmissionAfterRto,
                (false, State::Fast) => EventKind::FastRetransmission,
                (false, State::Open) => EventKind::UnclearRetransmission,
            }
        } else if is_silent && earlier.is_last && can_probe {
            EventKind::TailLossProbe
        } else if is_silent && is_first {
            EventKind::Rto
        } else if self.recovery.state == State::Loss {
            EventKind::RetransmissionAfterRto
        } else if is_reported
            || self.recovery.state == State::Fast
            || self.is_overtaken(start, earlier, now)
        {
            EventKind::FastRetransmission
        } else {
            EventKind::UnclearRetransmission
        };
        self.enter(kind, now.at_ns);
        self.count_retransmission(start, end, kind, earlier, silence_ns, !is_reported, now);
        if is_below && self.was_acked(start) {
            self.recovery.was_acked(now, &mut self.out);
            if let Some(event) = self.recovery.event.take() {
                self.event(event);
            }
        }
    }

    /// Since the last packet with data or an ACK of it, ns.
    fn silence_ns(&self, now: &Now<'_>) -> u64 {
        let last = self.last_data_at_ns.max(self.last_ack_at_ns);
        last.map_or(0, |last| now.at_ns.saturating_sub(last))
    }

    /// Silence behind which nothing but a timer lets a sender send, ns.
    fn silent_ns(&self, now: &Now<'_>) -> u64 {
        let behind_ns = now.to_sender_ns.unwrap_or(0);
        if self.srtt_ns.is_none() && now.to_receiver_ns.is_none() {
            return KNOWN_LOST_RTO_NS;
        }
        let full_ns = self.full_rtt_ns(now);
        // Where RTTs are long, a timeout is still one of them and the floor; and clocks are coarse.
        let by_rtt_ns = (full_ns / 4).saturating_mul(TIMER_QUARTERS);
        by_rtt_ns.min(full_ns.saturating_add(KNOWN_LOST_RTO_NS)).saturating_add(behind_ns)
    }

    /// Whether something that was sent later was delivered, as RACK has it; without SACK a sender does not know.
    fn is_overtaken(&self, start: u64, earlier: &Earlier, now: &Now<'_>) -> bool {
        now.has_sack != Some(false) && self.delivered > (earlier.seen_ns, start)
    }

    /// Silence after which a timeout, or a probe, retransmits these bytes, ns.
    ///
    /// Only these retransmit data whose loss no ACK reports. Data known to be lost (sent before delivered data, or before a timeout)
    /// is retransmitted as soon as the RACK timer or pacing allows.
    fn timer_ns(&self, start: u64, earlier: &Earlier, is_below: bool, now: &Now<'_>) -> u64 {
        let is_behind_timeout = self.recovery.state == State::Loss
            && earlier.seen_ns < self.recovery.timeout_at_ns
            && earlier.at_ns.is_some();
        let silent_ns = self.silent_ns(now);
        let is_known = is_behind_timeout || self.is_overtaken(start, earlier, now);
        if now.has_sack == Some(false) && self.duplicate_acks > 0 {
            return silent_ns.saturating_add(QUEUES_NS);
        }
        if is_below || !is_known {
            return silent_ns;
        }
        let known_ns = match earlier.at_ns {
            Some(_) => KNOWN_LOST_RTO_NS,
            None => self.full_rtt_ns(now).saturating_add(RACK_TIMER_NS),
        };
        silent_ns.max(known_ns)
    }

    /// New data behind a silence while other data waits for its ACK: a probe, if that data is lost.
    pub(crate) fn may_probe(&mut self, start: u64, end: u64, now: &Now<'_>) {
        let lasted_ns = self.silence_ns(now);
        let least_ns = self.silent_ns(now).saturating_add(PROBE_LEAST_NS);
        let is_timer = self.una < self.next && lasted_ns >= least_ns;
        let can_probe = self.recovery.can_probe(now.has_sack, self.sacked.bytes());
        if is_timer && can_probe && self.duplicate_acks == 0 && end - start <= u64::from(now.mss) {
            self.recovery.is_probed = true;
            let event = self.at(EventKind::NewDataProbe, now);
            self.recovery.new_probe =
                Some(Event { seq: start, bytes: end - start, lasted_ns, is_tail: true, ..event });
        }
    }

    /// Checks whether an ACK reports that a probe arrived and earlier data did not.
    pub(crate) fn check_probe(&mut self) {
        let Some(probe) = self.recovery.new_probe else { return };
        let has_come = self.sacked.end().is_some_and(|last| last >= probe.seq + probe.bytes);
        if self.una < probe.seq && !has_come {
            return;
        }
        self.recovery.new_probe = None;
        if self.una < probe.seq {
            self.out.new_data_probes += 1;
            self.event(probe);
        }
    }

    fn enter(&mut self, kind: EventKind, at_ns: u64) {
        let next = self.next;
        let recovery = &mut self.recovery;
        match kind {
            EventKind::TailLossProbe => recovery.is_probed = true,
            EventKind::Rto => {
                (recovery.state, recovery.point) = (State::Loss, next);
                recovery.timeout_at_ns = at_ns;
            }
            EventKind::FastRetransmission if recovery.state == State::Open => {
                (recovery.state, recovery.point) = (State::Fast, next);
            }
            _ => {}
        }
    }

    #[expect(clippy::too_many_arguments, reason = "all of it is of the one packet")]
    fn count_retransmission(
        &mut self,
        start: u64,
        end: u64,
        kind: EventKind,
        earlier: &Earlier,
        silence_ns: u64,
        is_tail: bool,
        now: &mut Now<'_>,
    ) {
        let segments = Data::segments(end - start, now.mss);
        let of = &mut self.out.retransmitted;
        of.segments += segments;
        of.bytes += end - start;
        match kind {
            EventKind::TailLossProbe => of.tlp += segments,
            EventKind::FastRetransmission => of.fast += segments,
            EventKind::RetransmissionAfterRto => of.after_rto += segments,
            EventKind::Rto => {
                of.rto += 1;
                // What goes out with it is of the same timeout.
                of.after_rto += segments - 1;
            }
            _ => of.unclear += segments,
        }
        let is_timer = matches!(kind, EventKind::Rto | EventKind::TailLossProbe);
        if kind == EventKind::Rto {
            self.out.rto_stall_ns = self.out.rto_stall_ns.saturating_add(silence_ns);
            self.out.longest_rto_stall_ns = self.out.longest_rto_stall_ns.max(silence_ns);
        }
        if let Some(open) = &mut self.rounds.open {
            open.round.retransmitted += segments as u32;
            open.round.rtos += u32::from(kind == EventKind::Rto);
        }
        let since_ns = earlier.at_ns.map(|at| now.at_ns.saturating_sub(at));
        let lasted_ns = if is_timer { silence_ns } else { since_ns.unwrap_or(0) };
        let event = Event {
            earlier: earlier.number,
            seq: start,
            bytes: end - start,
            lasted_ns,
            is_tail,
            ..self.at(kind, now)
        };
        self.event(event);
        if is_timer && is_tail && earlier.number.is_some() {
            self.event(Event { kind: EventKind::TailLoss, ..event });
        }
        self.remember(start, end, earlier.at_ns, now);
        if let Some(rows) = now.rows.as_deref_mut() {
            rows.repeats(now.row, kind, earlier.number, earlier.row);
        }
    }
}
