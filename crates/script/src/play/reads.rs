//! Reads of the application: what they give, and when one that waits returns.

use super::{Player, Stop};
use crate::script::{CallEvent, ReadEvent};
use crate::show;
use crate::stack::Given;
use knee_queue::time::{Duration, Time};

/// A read that has not returned.
pub(super) struct WaitingRead {
    call: CallEvent,
    expected: Expected,
    /// When it began, and must return.
    began: Time,
    earliest: Time,
    latest: Time,
    /// The line of the call.
    line: u32,
}

/// What a read must give.
struct Expected {
    bytes: Option<u64>,
    at_end: Option<bool>,
}

impl Player<'_> {
    /// Reads, or begins a read that waits; `start` is what its times count from.
    pub(super) fn read(&mut self, read: &ReadEvent, start: Time) -> Result<(), Stop> {
        self.no_read_waits()?;
        let call = CallEvent::Read(ReadEvent { most: read.most.clone(), ..ReadEvent::default() });
        let bytes = match &read.gives {
            Some(gives) => Some(self.number(gives, "what the read gives", u64::MAX)?),
            None => None,
        };
        let expected = Expected { bytes, at_end: read.at_end };
        let Some((earliest, latest)) = &read.returns else {
            let came = self.call_for(&call)?;
            return expected.fits(came);
        };
        let (earliest, latest) = (self.moment(start, earliest)?, self.moment(start, latest)?);
        let began = self.stack.now();
        self.read = Some(WaitingRead { call, expected, began, earliest, latest, line: self.line });
        self.goes_on_reading()
    }

    /// Lets a read that waits return if there is data now, or the peer has ended.
    pub(super) fn goes_on_reading(&mut self) -> Result<(), Stop> {
        let Some(read) = self.read.take() else { return Ok(()) };
        let came = self.call_for(&read.call)?;
        if came.bytes == 0 && !came.at_end {
            self.read = Some(read);
            return Ok(());
        }
        self.line = read.line;
        let now = self.stack.now();
        let tolerance = self.tolerance_after(read.latest.since(read.began));
        if now + tolerance < read.earliest || now > read.latest + tolerance {
            return Err(Stop::Differs(format!(
                "the read returned at {}: expected from {} to {}",
                show::time(now),
                show::time(read.earliest),
                show::time(read.latest)
            )));
        }
        read.expected.fits(came)
    }

    /// A call comes, or the script ends: a read that still waits is a difference.
    pub(super) fn no_read_waits(&mut self) -> Result<(), Stop> {
        match self.read.take() {
            None => Ok(()),
            Some(read) => {
                self.line = read.line;
                Err(Stop::Differs("the read has not returned".to_owned()))
            }
        }
    }

    /// By how much an event may be early or late, which came so long after the one before it.
    pub(super) fn tolerance_after(&self, gap: Duration) -> Duration {
        let rules = self.script.rules;
        let share =
            if rules.is_packetdrill { Duration::from_ns(gap.ns() / 8) } else { rules.tolerance };
        self.stack.slack() + rules.tolerance.max(share)
    }
}

impl Expected {
    fn fits(&self, came: Given) -> Result<(), Stop> {
        match (self.bytes, self.at_end) {
            (Some(bytes), _) if bytes != came.bytes => {
                Err(Stop::Differs(format!("the read: expected {bytes} bytes, came {}", came.bytes)))
            }
            (_, Some(true)) if !came.at_end => Err(Stop::Differs(
                "the read: expected the end, and the peer has not ended".to_owned(),
            )),
            (_, Some(false)) if came.at_end => {
                Err(Stop::Differs("the read: expected EAGAIN, and the peer has ended".to_owned()))
            }
            _ => Ok(()),
        }
    }
}
