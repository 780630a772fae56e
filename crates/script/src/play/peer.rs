//! The peer of a script: what it fills in where a line leaves something out.

use super::{Player, Stop};
use crate::script::Pattern;
use crate::settings::{Settings, TIMESTAMPS_BYTES};
use crate::wire::MAX_SCALE;
use knee_queue::Ecn;
use knee_wire::Segment;

/// Window scale that the peer announces.
pub(crate) const WINDOW_SCALE: u8 = 10;
/// First value of the peer's timestamps, ms.
const TS_START: u32 = 1_000;

/// The script's side of the connection: what `in` fills in.
#[derive(Default)]
pub(super) struct Peer {
    /// Next byte that it sends.
    next_seq: u32,
    /// The highest it has acknowledged.
    ack: u32,
    /// Timestamp to echo (RFC 7323, section 4.3).
    ts_recent: u32,
    /// Highest end of what the stack has sent.
    pub(super) sent_end: u32,
    without_timestamps: bool,
    /// Shifts its windows, as its SYN said.
    scale: u32,
    /// Shifts the stack's windows.
    pub(super) scale_of_stack: u32,
    /// The MSS option of its SYN.
    mss: Option<u32>,
    /// What is added to timestamp values of a script where they are compared.
    pub(super) ts_offset: Option<u32>,
}

impl Peer {
    /// Payload of a full segment of the stack at most.
    pub(super) fn full_bytes(&self, settings: &Settings) -> u32 {
        let own = settings.mss_bytes + TIMESTAMPS_BYTES;
        let options = if self.without_timestamps { 0 } else { TIMESTAMPS_BYTES };
        own.min(self.mss.unwrap_or(own)).saturating_sub(options)
    }
}

impl Player<'_> {
    /// Sends a segment to the stack.
    pub(super) fn send(&mut self, pattern: &Pattern) -> Result<(), Stop> {
        let syn = pattern.flags & Segment::SYN != 0;
        let (seq, len) = self.payload(pattern, self.peer.next_seq)?;
        if len > 65_000 {
            return Err(Stop::Cannot(format!("a segment cannot carry {len} bytes")));
        }
        let mss = self.script.settings.mss_bytes;
        if pattern.no_timestamps && syn {
            self.peer.without_timestamps = true;
        }
        let window_scale = if !syn || pattern.no_window_scale {
            None
        } else {
            let scale = pattern.window_scale.as_ref();
            Some(self.number_or(scale, "wscale", u32::from(WINDOW_SCALE))?.min(255) as u8)
        };
        if syn {
            self.peer.scale = window_scale.map_or(0, |scale| u32::from(scale.min(MAX_SCALE)));
        }
        let mss_option = if !syn || pattern.no_mss {
            None
        } else {
            let option = self.number_or(pattern.mss.as_ref(), "mss", mss + TIMESTAMPS_BYTES)?;
            self.peer.mss = Some(option);
            Some(option.min(65_535) as u16)
        };
        // A SYN that acknowledges nothing yet still acknowledges the other's SYN if it answers one.
        let has_ack = pattern.flags & Segment::ACK != 0;
        let ack = self.number_or(pattern.ack.as_ref(), "ack", self.peer.ack.max(1))?;
        let window_bytes = self.window_bytes(pattern, syn)?;
        let now = self.stack.now();
        let timestamps = if self.peer.without_timestamps || pattern.no_timestamps {
            None
        } else if let Some((value, echo)) = &pattern.ts {
            Some((self.number_or(Some(value), "ts", 0)?, self.number_or(Some(echo), "ts", 0)?))
        } else {
            let echo = match &pattern.echo {
                Some(name) => *self.named.get(name).ok_or_else(|| {
                    Stop::Cannot(format!("no segment named `{name}` has arrived"))
                })?,
                None => self.peer.ts_recent,
            };
            let value = TS_START + (now.us() / 1000) as u32;
            let value = self.number_or(pattern.ts_value.as_ref(), "ts", value)?;
            Some((value, if has_ack { echo } else { 0 }))
        };
        let segment = Segment {
            flags: pattern.flags,
            ecn: pattern.ecn.unwrap_or(Ecn::NotEct),
            seq,
            len,
            ack: if has_ack { ack } else { 0 },
            window_bytes,
            mss: mss_option,
            window_scale,
            sack_ok: syn && pattern.sack_ok != Some(false),
            timestamps,
            sacks: self.ranges(&pattern.sacks)?,
        };
        let fin = pattern.flags & Segment::FIN != 0;
        let end = seq.wrapping_add(len + u32::from(syn) + u32::from(fin));
        self.peer.next_seq = self.peer.next_seq.max(end);
        if has_ack {
            self.peer.ack = self.peer.ack.max(ack);
        }
        self.note_segment(now, false, &segment);
        self.info = None;
        self.stack.receive(&segment)?;
        self.goes_on_reading()
    }

    /// The window as the other side sees it: rounded down to what the header can say.
    fn window_bytes(&mut self, pattern: &Pattern, syn: bool) -> Result<u32, Stop> {
        let shift = if syn { 0 } else { self.peer.scale };
        let most = u32::from(u16::MAX) << shift;
        let or = self.script.window_bytes.min(most);
        let bytes = match &pattern.window_field {
            Some(field) => self.number_or(Some(field), "win", or)?.checked_shl(shift),
            None => Some(self.number_or(pattern.window.as_ref(), "win", or)?),
        };
        let bytes = bytes.unwrap_or(u32::MAX);
        if bytes > most {
            return Err(Stop::Cannot(format!(
                "a window of {bytes} bytes does not fit the header: the peer's window scale allows at most {most}"
            )));
        }
        Ok(bytes >> shift << shift)
    }

    /// The peer has got it, unless it was lost.
    pub(super) fn note_received(&mut self, pattern: &Pattern, segment: &Segment) {
        let ends = u32::from(segment.has(Segment::SYN)) + u32::from(segment.has(Segment::FIN));
        let end = segment.seq.wrapping_add(segment.len + ends);
        self.peer.sent_end = self.peer.sent_end.max(end);
        if let Some(scale) = segment.window_scale {
            self.peer.scale_of_stack = u32::from(scale.min(MAX_SCALE));
        }
        let Some((value, _)) = segment.timestamps else {
            return;
        };
        if let Some(name) = &pattern.name {
            self.named.insert(name.clone(), value);
        }
        if !pattern.is_lost && segment.seq <= self.peer.ack {
            self.peer.ts_recent = value;
        }
    }
}
