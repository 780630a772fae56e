//! When the application may have read: a guess from what the stack acknowledged.

use super::{Step, end_of};
use crate::settings::Settings;
use knee_wire::Segment;

/// An application reads what is there at once. Whether an ACK that leaves at the same moment came before the read, or
/// because of it, does not show. Linux acknowledges by itself every second full segment, and each of the first ones
/// (quick ACKs); a read lets an ACK go for a single segment that came with PSH.
#[derive(Default)]
pub(super) struct Reads {
    /// Data has come that is not read yet; whether its last segment had PSH.
    unread: Option<bool>,
    /// Next byte that the stack has acknowledged, and that has come.
    acked: u32,
    received: u32,
    /// A data segment was not acknowledged at once: no more quick ACKs.
    has_delayed: bool,
    /// The connection is closed or reset: there is nothing to read from.
    has_ended: bool,
}

impl Reads {
    pub(super) fn is_waiting(&self) -> bool {
        self.unread.is_some()
    }

    /// The application reads no more.
    pub(super) fn end(&mut self) {
        self.has_ended = true;
        self.unread = None;
    }

    /// Whether the application reads before this step.
    pub(super) fn come_before(&mut self, step: &Step, settings: &Settings) -> bool {
        let Some(pushed) = self.unread else { return false };
        let one = self.received.wrapping_sub(self.acked) <= settings.mss_bytes;
        let is_ack = step.is_out && step.segment.len == 0;
        if is_ack && !(pushed && one && self.has_delayed) {
            return false;
        }
        self.has_delayed |= !is_ack;
        self.unread = None;
        true
    }

    /// Whether it reads behind this step.
    pub(super) fn come_behind(&mut self, step: &Step) -> bool {
        let segment = &step.segment;
        if step.is_out {
            self.acked = self.acked.max(segment.ack);
            return self.unread.take().is_some();
        }
        self.received = self.received.max(end_of(segment));
        if segment.has(Segment::RST) {
            self.end();
        } else if segment.len > 0 && !self.has_ended {
            self.unread = Some(segment.has(Segment::PSH));
        }
        false
    }
}
