//! A plausible peer: what it has received, and how it acknowledges that.

use std::fmt::Write as _;

/// How a peer echoes CE marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Echo {
    None,
    /// ECE until CWR comes (RFC 3168).
    Classic,
    /// ECE as the last segment was marked (RFC 8257).
    Dctcp,
}

/// A segment that reaches the peer.
#[derive(Clone, Debug)]
pub(super) struct Arrival {
    /// Index among all sent segments.
    pub(super) index: usize,
    pub(super) seq: u32,
    /// Next byte; a FIN is one.
    pub(super) end: u32,
    pub(super) is_ce: bool,
    pub(super) has_cwr: bool,
}

/// The receiving half of the peer.
pub(super) struct Peer {
    pub(super) has_sack: bool,
    pub(super) has_dsack: bool,
    pub(super) echo: Echo,
    /// Segments in order for each ACK.
    pub(super) stretch: u32,
    /// Receive buffer, bytes; 0: as large as the script's window.
    pub(super) buffer_bytes: u32,
    /// Bytes that its application has not read.
    pub(super) unread_bytes: u32,
    pub(super) next: u32,
    /// Ranges beyond a gap, the newest first.
    ranges: Vec<(u32, u32)>,
    duplicate: Option<(u32, u32)>,
    is_ce: bool,
    latched: bool,
    pub(super) pending: u32,
    last_ack: u32,
    /// The highest ACK that was not lost.
    pub(super) told: u32,
    /// The segment whose timestamp it echoes (RFC 7323, section 4.3).
    pub(super) recent: Option<usize>,
    pub(super) window_end: u32,
}

impl Peer {
    pub(super) fn new(echo: Echo) -> Peer {
        Peer {
            has_sack: true,
            has_dsack: true,
            echo,
            stretch: 2,
            buffer_bytes: 0,
            unread_bytes: 0,
            next: 1,
            ranges: Vec::new(),
            duplicate: None,
            is_ce: false,
            latched: false,
            pending: 0,
            last_ack: 1,
            told: 1,
            recent: None,
            window_end: 0,
        }
    }

    /// Whether a segment is answered with two ACKs: one for what came before a change of marks.
    pub(super) fn changes_mark(&self, segment: &Arrival) -> bool {
        self.echo == Echo::Dctcp && self.pending > 0 && self.is_ce != segment.is_ce
    }

    /// Takes in a segment. Returns whether it is acknowledged at once.
    pub(super) fn receive(&mut self, segment: &Arrival) -> bool {
        if segment.seq <= self.last_ack {
            self.recent = Some(segment.index);
        }
        self.is_ce = segment.is_ce;
        if segment.has_cwr {
            self.latched = false;
        }
        self.latched |= segment.is_ce;
        let (start, end) = (segment.seq, segment.end);
        let is_known = end <= self.next || self.ranges.iter().any(|r| r.0 <= start && end <= r.1);
        if is_known {
            self.duplicate = Some((start, end));
            return true;
        }
        if start > self.next {
            let mut joined = (start, end);
            self.ranges.retain(|range| {
                let touches = range.0 <= joined.1 && joined.0 <= range.1;
                if touches {
                    joined = (joined.0.min(range.0), joined.1.max(range.1));
                }
                !touches
            });
            self.ranges.insert(0, joined);
            return true;
        }
        let had_gap = !self.ranges.is_empty();
        let before = self.next;
        self.next = end;
        while let Some(place) = self.ranges.iter().position(|range| range.0 <= self.next) {
            let range = self.ranges.remove(place);
            self.next = self.next.max(range.1);
        }
        self.unread_bytes += self.next - before;
        self.pending += 1;
        had_gap || self.pending >= self.stretch
    }

    /// The window that it offers: what it has offered once stays.
    fn window(&mut self) -> u32 {
        let room = self.buffer_bytes.saturating_sub(self.unread_bytes).div_ceil(1024) * 1024;
        self.window_end = self.window_end.max(self.next + room);
        (self.window_end - self.next).div_ceil(1024) * 1024
    }

    /// Whether an ACK may be lost. One that acknowledges the first segments of a burst and SACKs later ones decides
    /// by microseconds between the segments of one write, which have one time on the simulator.
    pub(super) fn may_lose_ack(&self) -> bool {
        self.ranges.is_empty() || self.next == self.told
    }

    /// Whether the window is closed or nearly so.
    pub(super) fn is_full(&self) -> bool {
        self.buffer_bytes > 0 && self.window_end.saturating_sub(self.next) < 3000
    }

    pub(super) fn flags(&self) -> &'static str {
        let ece = match self.echo {
            Echo::None => false,
            Echo::Classic => self.latched,
            Echo::Dctcp => self.is_ce,
        };
        if ece { "E" } else { "" }
    }

    /// ACK number, window and SACK of the segment that it sends now.
    pub(super) fn acknowledge(&mut self) -> String {
        self.pending = 0;
        self.last_ack = self.next;
        let mut text = format!("ack {}", self.next);
        if self.buffer_bytes > 0 {
            let _ = write!(text, ", win {}", self.window());
        }
        let duplicate = self.duplicate.take().filter(|_| self.has_dsack);
        if self.has_sack {
            let mut all: Vec<_> = duplicate.into_iter().collect();
            all.extend(&self.ranges);
            all.truncate(3);
            if !all.is_empty() {
                text.push_str(", sack");
            }
            for (start, end) in all {
                let _ = write!(text, " {start}:{end}");
            }
        }
        text
    }
}
