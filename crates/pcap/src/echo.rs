//! How a receiver echoes marks: in runs of ACKs with ECE, or by AccECN's counter.

use std::collections::VecDeque;

use knee_wire::Segment;

use crate::data::{Now, Taken};
use crate::model::{Direction, Event, EventKind, ReceiverKind};

/// CWRs in flight that are remembered: some senders send one with each segment.
const CWRS: usize = 256;
/// Round trips after which a run without a CWR is one that is held: the sender has seen it after one, and its CWR would be there
/// after two.
const HELD_RTTS: u64 = 3;
/// AccECN's counter starts at this (RFC 9768, section 3.2.1), and has this many values.
const ACE_START: u8 = 5;
const ACE_VALUES: u8 = 8;
/// Runs that end without a CWR before a receiver is called DCTCP's: one may be an ACK that came out of order.
const FEWEST_RUNS: u64 = 2;
/// ACKs beside marked data before these alone decide.
const FEWEST_ACKS: u64 = 10;

/// Follows the ACKs of one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Echo {
    run: Option<Run>,
    /// Ends of the last segments with CWR.
    cwrs: VecDeque<u64>,
    ace: Option<u8>,
    /// The newest timestamp of an ACK, and AccECN's counter of bytes.
    newest_stamp: Option<u32>,
    ce_bytes: Option<u32>,
    is_accurate: bool,
    /// Begin or end of a run of ECE at the last ACK.
    pub(crate) event: Option<Event>,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    begin_ns: u64,
    last_ns: u64,
    number: u64,
    acks: u64,
    /// Acknowledged up to here at the first and at the last ACK of the run.
    ack: u64,
    last_ack: u64,
    is_held: bool,
}

impl Echo {
    /// A segment with CWR, up to this number.
    pub(crate) fn cwr(&mut self, end: u64) {
        if self.cwrs.len() >= CWRS {
            self.cwrs.pop_front();
        }
        self.cwrs.push_back(end);
    }

    /// Follows one ACK.
    #[expect(clippy::too_many_arguments, reason = "all of it is of the one ACK")]
    pub(crate) fn ack(
        &mut self,
        is_ece: bool,
        ack: u64,
        newly: u64,
        taken: &Taken,
        srtt_ns: Option<u64>,
        now: &Now<'_>,
        out: &mut Direction,
    ) {
        if newly > 0 && out.ecn.ce > 0 && !self.is_accurate {
            self.compare(is_ece, taken, out);
        }
        match (&mut self.run, is_ece) {
            (None, true) => {
                let (begin_ns, number) = (now.at_ns, now.number);
                self.run = Some(Run {
                    begin_ns,
                    last_ns: begin_ns,
                    number,
                    acks: 1,
                    ack,
                    last_ack: ack,
                    is_held: false,
                });
                self.event = Some(event(EventKind::EceBegins, None, ack, 0, now));
            }
            (Some(run), true) => {
                run.acks += 1;
                run.last_ns = now.at_ns;
                run.last_ack = run.last_ack.max(ack);
                let lasted_ns = now.at_ns.saturating_sub(run.begin_ns);
                let full_ns = srtt_ns.map(|ns| ns.saturating_add(now.to_sender_ns.unwrap_or(0)));
                let is_long = full_ns.is_some_and(|ns| lasted_ns > ns.saturating_mul(HELD_RTTS));
                if is_long
                    && !self.is_accurate
                    && !run.is_held
                    && !self.cwrs.iter().any(|end| *end > run.ack)
                {
                    run.is_held = true;
                    out.receiver.held_without_cwr += 1;
                }
            }
            (Some(run), false) => {
                let run = *run;
                // A receiver that latches stops with the ACK of a CWR; one that does not may have told of marks behind it.
                let is_by_cwr = self.cwrs.iter().any(|end| *end > run.last_ack && *end <= ack);
                let of = &mut out.receiver;
                // A counter is neither latched nor ended.
                let is_flag = u64::from(!self.is_accurate);
                *if is_by_cwr { &mut of.ended_by_cwr } else { &mut of.ended_without_cwr } +=
                    is_flag;
                self.end_run(out);
                let lasted_ns = now.at_ns.saturating_sub(run.begin_ns);
                self.event = Some(event(EventKind::EceEnds, Some(run.number), ack, lasted_ns, now));
            }
            (None, false) => {}
        }
    }

    /// Sets ECE beside the marks of the data that it is about.
    fn compare(&self, is_ece: bool, taken: &Taken, out: &mut Direction) {
        let of = &mut out.receiver;
        match (is_ece, taken.marked, taken.unmarked) {
            (true, 0, 1..) => of.ece_of_unmarked += 1,
            (true, 1.., 0) | (false, 0, 1..) => of.ece_as_marked += 1,
            _ => {}
        }
    }

    /// AccECN: the three flags are a counter of packets, an option counts bytes. Gives the bytes of those that this ACK delivered that were
    /// marked, if any were. An ACK that brings nothing new and is no newer by its timestamp may have been overtaken, and its counter is an
    /// old one (RFC 9768, section 3.2.2.5).
    pub(crate) fn count(
        &mut self,
        is_forward: bool,
        delivered: u64,
        now: &Now<'_>,
        out: &mut Direction,
    ) -> Option<u64> {
        self.is_accurate = true;
        if now.tcp.has(Segment::SYN | Segment::RST) {
            return None;
        }
        let stamp = now.tcp.timestamps.map(|stamps| stamps.0);
        let ahead =
            stamp.zip(self.newest_stamp).map(|(stamp, newest)| stamp.wrapping_sub(newest) as i32);
        if ahead.is_some_and(|ahead| ahead < 0)
            || (!is_forward && ahead.is_none_or(|ahead| ahead == 0))
        {
            return None;
        }
        self.newest_stamp = stamp.or(self.newest_stamp);
        let bit = |flag, value| if now.tcp.has(flag) { value } else { 0_u8 };
        let ace = bit(Segment::AE, 4) | bit(Segment::CWR, 2) | bit(Segment::ECE, 1);
        let before = self.ace.replace(ace).unwrap_or(ACE_START);
        let counted = u64::from((ace + ACE_VALUES - before) % ACE_VALUES);
        let mss = u64::from(now.mss.max(1));
        // The option's counter begins at 0, and is in bytes: of those packets that the flags leave open it tells the right ones.
        let by_option = now.tcp.ce_bytes.map(|bytes| {
            let before = self.ce_bytes.replace(bytes).unwrap_or(0);
            u64::from(bytes.wrapping_sub(before) & 0xff_ffff)
        });
        let wraps = by_option.map_or(0, |bytes| {
            (bytes.div_ceil(mss).saturating_sub(counted) + u64::from(ACE_VALUES) / 2)
                / u64::from(ACE_VALUES)
        });
        let packets = counted + wraps * u64::from(ACE_VALUES);
        out.ecn.ace += packets;
        let bytes = by_option.unwrap_or(packets * mss).min(delivered);
        (packets > 0).then_some(bytes)
    }

    fn end_run(&mut self, out: &mut Direction) {
        let Some(run) = self.run.take() else { return };
        let of = &mut out.receiver;
        of.longest_run_acks = of.longest_run_acks.max(run.acks);
        of.longest_run_ns = of.longest_run_ns.max(run.last_ns.saturating_sub(run.begin_ns));
    }

    /// Says what kind of receiver it was.
    pub(crate) fn finish(mut self, out: &mut Direction) {
        self.end_run(out);
        let of = &mut out.receiver;
        let runs = of.ended_without_cwr + of.ended_by_cwr;
        let compared = of.ece_as_marked + of.ece_of_unmarked;
        let most_of = |part: u64, whole: u64| part * 10 >= whole * 9;
        of.kind = if self.is_accurate {
            ReceiverKind::Accurate
        } else if of.ended_without_cwr >= FEWEST_RUNS && of.ended_without_cwr * 10 >= runs {
            ReceiverKind::Dctcp
        } else if of.ece_of_unmarked >= FEWEST_RUNS && of.ece_of_unmarked * 10 >= compared {
            ReceiverKind::Classic
        } else if of.ece_as_marked >= FEWEST_ACKS
            && out.ecn.ece >= FEWEST_ACKS
            && most_of(of.ece_as_marked, compared)
        {
            ReceiverKind::Dctcp
        } else if of.ended_by_cwr >= FEWEST_RUNS || of.held_without_cwr > 0 {
            ReceiverKind::Classic
        } else {
            ReceiverKind::Unknown
        };
    }
}

fn event(kind: EventKind, earlier: Option<u64>, seq: u64, lasted_ns: u64, now: &Now<'_>) -> Event {
    Event {
        kind,
        at_ns: now.at_ns,
        number: now.number,
        earlier,
        seq,
        bytes: 0,
        lasted_ns,
        inflight_bytes: 0,
        duplicate_acks: 0,
        is_tail: false,
    }
}
