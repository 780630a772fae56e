//! Reads of the application: what they give, and when one that waits returns.

use super::{Player, Stop};
use crate::script::{CallEvent, ReadEvent};
use crate::show;
use knee_queue::time::{Duration, Time};

/// A read that has not returned.
pub(super) struct WaitingRead {
    call: CallEvent,
    gives: Option<u64>,
    /// When it must return.
    earliest: Time,
    latest: Time,
    /// The line of the call.
    line: u32,
}

impl Player<'_> {
    /// Reads, or begins a read that waits; `start` is what its times count from.
    pub(super) fn read(&mut self, read: &ReadEvent, start: Time) -> Result<(), Stop> {
        self.no_read_waits()?;
        let call = CallEvent::Read(ReadEvent { most: read.most.clone(), ..ReadEvent::default() });
        let gives = match &read.gives {
            Some(gives) => Some(self.number(gives, "what the read gives", u64::MAX)?),
            None => None,
        };
        let Some((earliest, latest)) = &read.returns else {
            let came = self.call_for(&call)?;
            return same(gives, came);
        };
        let (earliest, latest) = (self.moment(start, earliest)?, self.moment(start, latest)?);
        self.read = Some(WaitingRead { call, gives, earliest, latest, line: self.line });
        self.goes_on_reading()
    }

    /// Lets a read that waits return if there is data now.
    pub(super) fn goes_on_reading(&mut self) -> Result<(), Stop> {
        let Some(read) = self.read.take() else { return Ok(()) };
        let came = self.call_for(&read.call)?;
        let ends = read.gives == Some(0);
        if came == 0 && !ends {
            self.read = Some(read);
            return Ok(());
        }
        self.line = read.line;
        let now = self.stack.now();
        let tolerance = self.tolerance_after(read.latest.since(Time::ZERO));
        if now + tolerance < read.earliest || now > read.latest + tolerance {
            return Err(Stop::Differs(format!(
                "the read returned at {}: expected from {} to {}",
                show::time(now),
                show::time(read.earliest),
                show::time(read.latest)
            )));
        }
        same(read.gives, came)
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

fn same(gives: Option<u64>, came: u64) -> Result<(), Stop> {
    match gives {
        Some(gives) if gives != came => {
            Err(Stop::Differs(format!("the read: expected {gives} bytes, came {came}")))
        }
        _ => Ok(()),
    }
}
