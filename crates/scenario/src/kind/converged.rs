//! The criterion for fair sharing of endless transfers, and the time until they meet it.

use knee_file::keys::{Below, Key};
use knee_file::units::Share;
use knee_file::{Error, Reader, keys};
use knee_queue::time::{Duration, Time};
use knee_run::outcome::Outcome;
use knee_run::spec::Run;

use crate::metric::Known;

keys! {
    /// Criterion for fair sharing of endless transfers.
    pub(super) static KEYS: ConvergedKeys = "converged" {
        /// Largest distance of each goodput from the fair share.
        within: Key<Share> = needed("20 %"),
        /// Averaging time of goodput.
        over: Key<Duration> = needed("100 ms").above("0 s"),
        /// Time to stay within.
        hold: Key<Duration> = usually("`over`"),
    }
}

/// Largest distance of each transfer from its fair share, and the time to stay within it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Converged {
    /// Tolerance, as a share of the fair share, 0 to 1.
    within: f64,
    /// Averaging time of goodput.
    pub(crate) over: Duration,
    /// Time for which goodput must stay near the fair share.
    pub(crate) hold: Duration,
}

impl Converged {
    /// Reads `converged = { within = "20 %", over = "100 ms", hold = "500 ms" }` of an entry.
    pub(crate) fn read(reader: &Reader<'_>, key: &Below) -> Result<Option<Converged>, Error> {
        let Some(rule) = reader.child(key)? else { return Ok(None) };
        rule.check(&[&KEYS])?;
        let within = rule.read(&KEYS.within)?.0;
        let over = rule.read(&KEYS.over)?;
        Ok(Some(Converged { within, over, hold: rule.get_or(&KEYS.hold, over)? }))
    }

    /// Returns whether its times are multiples of a period.
    pub(crate) fn fits(&self, period: Duration) -> bool {
        [self.over, self.hold].iter().all(|time| time.ps() % period.ps() == 0)
    }

    /// Returns the time from the last start until all these flows meet the criterion and keep meeting it, or the time after
    /// which they may do so only beyond what was seen. `None` if not all have begun. The criterion's times are counted in
    /// periods of goodput, of length `period` as in the file.
    pub(crate) fn time(
        &self,
        period: Duration,
        run: &Run,
        outcome: &Outcome,
        members: &[usize],
    ) -> Option<Known> {
        let in_run = run.sampling.goodput?;
        let flows = members.iter().map(|i| outcome.flows.get(*i)).collect::<Option<Vec<_>>>()?;
        let starts = flows.iter().map(|flow| flow.connected_at).collect::<Option<Vec<_>>>()?;
        let last_start = starts.into_iter().max()?;
        let end = flows.iter().filter_map(|flow| flow.stopped_at).min().unwrap_or(outcome.end);
        let periods = |time: Time| time.ps() / in_run.ps();
        let received = received_by_period(outcome, members, in_run, periods(end) as usize);
        let (over, hold) = ((self.over.ps() / period.ps()) as usize, self.hold.ps() / period.ps());
        let first = last_start.ps().div_ceil(in_run.ps()) as usize;
        let mut near_since = None;
        let after_last = (periods(end) as usize + 1).saturating_sub(over).max(first);
        let moment = |at: usize| Time::ZERO + Duration::from_ps(in_run.ps() * at as u64);
        for at in first..after_last {
            let got = received.iter().map(|bytes| bytes[at + over] - bytes[at]);
            if !self.is_fair(got) {
                near_since = None;
                continue;
            }
            let since = *near_since.get_or_insert(at);
            if (at - since) as u64 >= hold {
                return Some(Known::Took(moment(since).since(last_start)));
            }
        }
        let earliest = near_since.unwrap_or(after_last);
        Some(Known::AtLeast(moment(earliest).max(last_start).since(last_start)))
    }

    fn is_fair(&self, bytes: impl Iterator<Item = u64> + Clone) -> bool {
        let count = bytes.clone().count() as f64;
        let fair = bytes.clone().sum::<u64>() as f64 / count;
        fair > 0.0
            && bytes.into_iter().all(|bytes| (bytes as f64 - fair).abs() <= self.within * fair)
    }
}

/// Returns the bytes that each of these flows received until the end of each period, from 0 on.
fn received_by_period(
    outcome: &Outcome,
    members: &[usize],
    period: Duration,
    periods: usize,
) -> Vec<Vec<u64>> {
    let mut received = vec![vec![0; periods + 1]; members.len()];
    for sample in &outcome.goodput_samples {
        let place = members.binary_search(&(sample.flow as usize));
        let at = (sample.at.ps() / period.ps()) as usize;
        if let (Ok(place), true) = (place, at <= periods) {
            received[place][at] += sample.bytes;
        }
    }
    for bytes in &mut received {
        for i in 1..bytes.len() {
            bytes[i] += bytes[i - 1];
        }
    }
    received
}
