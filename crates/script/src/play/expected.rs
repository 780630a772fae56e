//! Segments that must come, and how those that came differ from them.

use super::{Player, Stop};
use crate::expression::Expr;
use crate::script::Pattern;
use crate::show;
use knee_queue::Ecn;
use knee_queue::time::{Duration, Time};
use knee_wire::Segment;
use std::fmt;

/// By how much a packet may come before its time where there is slack: clocks are read one after the other. The
/// rest of the slack is for lateness only, since no timer of Linux ends early.
const EARLY: Duration = Duration::from_us(200);

/// When a packet may leave.
pub(super) struct OutRange {
    pub(super) earliest: Time,
    pub(super) latest: Time,
    /// Or before it.
    pub(super) is_any: bool,
}

impl Player<'_> {
    /// Waits for a segment of the stack and compares it.
    pub(super) fn expect_segment(
        &mut self,
        pattern: &Pattern,
        range: OutRange,
    ) -> Result<(), Stop> {
        let OutRange { earliest, latest, is_any } = range;
        let wanted = self.wanted(pattern)?;
        self.info = None;
        let slack = self.tolerance_after(earliest.max(self.last).since(self.last));
        let early = if self.script.rules.is_packetdrill { slack } else { slack.min(EARLY) };
        let Some((at, first)) = self.next_segment(latest + slack)? else {
            let until = show::time(latest);
            return Err(Stop::Differs(format!("expected {wanted}, nothing came until {until}")));
        };
        let segment = self.with_rest_of_burst(first, wanted.len, latest + slack)?;
        let differences = wanted.differences(&segment, self.script.rules.is_packetdrill);
        if !differences.is_empty() {
            return Err(Stop::Differs(format!(
                "{}; at {} came {}",
                differences.join(", "),
                show::time(at),
                show::segment(&segment)
            )));
        }
        if (at + early < earliest && !is_any) || at > latest + slack {
            let range = if earliest == latest {
                format!("at {}", show::time(earliest))
            } else {
                format!("from {} to {}", show::time(earliest), show::time(latest))
            };
            return Err(Stop::Differs(format!(
                "time: expected {range}, came at {}: {}",
                show::time(at),
                show::segment(&segment)
            )));
        }
        self.last = if self.script.rules.is_packetdrill { self.stack.now() } else { at };
        self.timestamps_tick(pattern, &segment)?;
        self.note_received(pattern, &segment);
        Ok(())
    }

    /// The first segment that no line has named yet.
    fn next_segment(&mut self, until: Time) -> Result<Option<(Time, Segment)>, Stop> {
        match self.left.pop_front() {
            Some(left) => Ok(Some(left)),
            None => self.next_from_stack(until),
        }
    }

    /// A packet that is longer than a segment stands for those that follow each other in a burst. The header is the last one's,
    /// as that of a TSO packet.
    fn with_rest_of_burst(
        &mut self,
        first: Segment,
        wanted_bytes: u32,
        until: Time,
    ) -> Result<Segment, Stop> {
        let mut whole = first;
        let is_short = wanted_bytes <= self.peer.full_bytes(&self.script.settings);
        if is_short && !self.script.rules.is_packetdrill {
            return Ok(whole);
        }
        while whole.len < wanted_bytes {
            self.count()?;
            let Some((at, next)) = self.next_segment(until)? else { break };
            if next.seq != whole.seq.wrapping_add(whole.len) || next.len == 0 {
                self.left.push_front((at, next));
                break;
            }
            whole = Segment { seq: whole.seq, len: whole.len + next.len, ..next };
        }
        Ok(whole)
    }

    /// Compares the value of a timestamp with those before, where a tick's length is known.
    fn timestamps_tick(&mut self, pattern: &Pattern, segment: &Segment) -> Result<(), Stop> {
        let Some(tick) = self.script.rules.ts_tick else { return Ok(()) };
        let (Some(wanted), Some((came, _))) = (&pattern.ts_value, segment.timestamps) else {
            return Ok(());
        };
        let wanted = self.number_or(Some(wanted), "ts", 0)?;
        let offset = *self.peer.ts_offset.get_or_insert(came.wrapping_sub(wanted));
        let off = came.wrapping_sub(offset).wrapping_sub(wanted) as i32;
        let off_ns = u64::from(off.unsigned_abs()).saturating_mul(tick.ns());
        if off_ns > self.script.rules.tolerance.ns() {
            return Err(Stop::Differs(format!(
                "timestamp: expected {wanted}, came {} in the same count",
                came.wrapping_sub(offset)
            )));
        }
        Ok(())
    }

    fn wanted(&mut self, pattern: &Pattern) -> Result<ExpectedSegment, Stop> {
        let (seq, len) = self.payload(pattern, self.peer.sent_end)?;
        let says_where = pattern.seq.is_some() || pattern.len.is_some();
        let optional = |player: &mut Self, expr: &Option<Expr>, what| match expr {
            Some(expr) => player.number_or(Some(expr), what, 0).map(Some),
            None => Ok(None),
        };
        let ts = match &pattern.ts {
            Some((value, echo)) => {
                Some((self.number_or(Some(value), "ts", 0)?, self.number_or(Some(echo), "ts", 0)?))
            }
            None => None,
        };
        Ok(ExpectedSegment {
            flags: pattern.flags,
            seq: says_where.then_some(seq),
            len,
            ack: optional(self, &pattern.ack, "ack")?,
            window: optional(self, &pattern.window, "win")?,
            window_field: optional(self, &pattern.window_field, "win")?
                .map(|field| (field, self.peer.scale_of_stack)),
            any_options: pattern.any_options,
            mss: optional(self, &pattern.mss, "mss")?,
            window_scale: optional(self, &pattern.window_scale, "wscale")?,
            no_window_scale: pattern.no_window_scale,
            sack_ok: pattern.sack_ok,
            no_timestamps: pattern.no_timestamps,
            ecn: pattern.ecn,
            ts,
            echo: optional(self, &pattern.echoed, "ecr")?,
            sacks: self.ranges(&pattern.sacks)?,
        })
    }
}

/// A segment that must come; absent fields match anything.
struct ExpectedSegment {
    flags: u16,
    seq: Option<u32>,
    len: u32,
    ack: Option<u32>,
    window: Option<u32>,
    /// As the header has it, and its scale.
    window_field: Option<(u32, u32)>,
    any_options: bool,
    mss: Option<u32>,
    window_scale: Option<u32>,
    no_window_scale: bool,
    sack_ok: Option<bool>,
    no_timestamps: bool,
    ecn: Option<Ecn>,
    ts: Option<(u32, u32)>,
    echo: Option<u32>,
    sacks: Vec<(u32, u32)>,
}

impl fmt::Display for ExpectedSegment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&show::flags(self.flags))?;
        if let Some(seq) = self.seq {
            write!(f, " seq {}", show::range(seq, self.len))?;
        }
        if let Some(ack) = self.ack {
            write!(f, ", ack {ack}")?;
        }
        if let Some(ecn) = self.ecn {
            write!(f, ", {}", show::ecn(ecn))?;
        }
        if !self.sacks.is_empty() {
            write!(f, ", sack {}", show::sacks(&self.sacks))?;
        }
        Ok(())
    }
}

impl ExpectedSegment {
    /// `exact`: PSH is looked at too.
    fn differences(&self, came: &Segment, exact: bool) -> Vec<String> {
        let mut found = Vec::new();
        let mut differ = |what: &str, wanted: String, came: String| {
            if wanted != came {
                found.push(format!("{what}: expected {wanted}, came {came}"));
            }
        };
        // Else PSH is looked at only where it is asked for.
        let push = if self.flags & Segment::PSH == 0 && !exact { Segment::PSH } else { 0 };
        differ("flags", show::flags(self.flags), show::flags(came.flags & !push));
        match self.seq {
            Some(seq) => differ("seq", show::range(seq, self.len), show::range(came.seq, came.len)),
            None => differ("payload", self.len.to_string(), came.len.to_string()),
        }
        if let Some(ack) = self.ack {
            differ("ack", ack.to_string(), came.ack.to_string());
        }
        if let Some(window) = self.window {
            differ("win", window.to_string(), came.window_bytes.to_string());
        }
        if let Some((field, scale)) = self.window_field {
            let scale = if came.has(Segment::SYN) { 0 } else { scale };
            differ("win", field.to_string(), (came.window_bytes >> scale).to_string());
        }
        let shown = |value: Option<u32>| value.map_or("none".to_owned(), |value| value.to_string());
        if self.mss.is_some() {
            differ("mss", shown(self.mss), shown(came.mss.map(u32::from)));
        }
        if self.window_scale.is_some() || self.no_window_scale {
            let scale = came.window_scale.map(u32::from);
            differ("wscale", shown(self.window_scale), shown(scale));
        }
        if let Some(wanted) = self.sack_ok {
            let word = |ok| if ok { "sack_ok" } else { "no_sack" }.to_owned();
            differ("SACK", word(wanted), word(came.sack_ok));
        }
        if let Some(ecn) = self.ecn {
            differ("ECN field", show::ecn(ecn).to_owned(), show::ecn(came.ecn).to_owned());
        }
        if let Some((value, echo)) = self.ts {
            let stamps = came.timestamps.unwrap_or_default();
            differ("ts", format!("{value} {echo}"), format!("{} {}", stamps.0, stamps.1));
        }
        if self.echo.is_some() {
            differ("echo", shown(self.echo), shown(came.timestamps.map(|stamps| stamps.1)));
        }
        if self.no_timestamps && came.timestamps.is_some() {
            differ("timestamps", "none".to_owned(), "some".to_owned());
        }
        if !self.any_options {
            differ("sack", show::sacks(&self.sacks), show::sacks(&came.sacks));
        }
        found
    }
}
