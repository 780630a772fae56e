//! Cuts from a conversation what a machine that is a little late would change.

use super::dice::Dice;
use crate::play::{Limits, ScriptOutcome, play};
use crate::script::{Error, Script};
use crate::settings::Settings;
use crate::sim::{Profile, SimStack};
use crate::stack::{Call, Given, Info, Refusal, Stack};
use knee_queue::time::{Duration, Time};
use knee_run::spec::LinuxVersion;
use knee_wire::Segment;

/// Plays in a row that must end well.
const PLAYS: u32 = 12;
/// Lines and conditions that are taken out before the conversation is given up.
const CUTS: u32 = 80;
/// How much later than written a line is played, us.
const LATE_US: u64 = 3_000;
/// Where the coarse clock and its wheel stand at the start, us.
const PHASE_US: u64 = 300_000;
/// Tolerance added to ranges of times: a tick of 250 Hz and 1 ms, as on a kernel.
const SLACK: Duration = Duration::from_ms(5);

/// The simulator on a machine that is late.
struct LateStack {
    inner: SimStack,
    dice: Dice,
    start: Duration,
}

impl LateStack {
    fn new(settings: &Settings, profile: Profile, mut dice: Dice) -> Result<LateStack, Refusal> {
        let mut inner = SimStack::new(settings, profile)?;
        let start = Duration::from_us(dice.below(PHASE_US));
        inner.next_segment(Time::ZERO + start)?;
        Ok(LateStack { inner, dice, start })
    }
}

impl Stack for LateStack {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn linux(&self) -> LinuxVersion {
        self.inner.linux()
    }

    fn now(&self) -> Time {
        Time::ZERO + self.inner.now().since(Time::ZERO + self.start)
    }

    fn call(&mut self, call: &Call) -> Result<Given, Refusal> {
        self.inner.call(call)
    }

    fn receive(&mut self, segment: &Segment) -> Result<(), Refusal> {
        self.inner.receive(segment)
    }

    fn next_segment(&mut self, until: Time) -> Result<Option<(Time, Segment)>, Refusal> {
        let mut until = until + self.start;
        if until > self.inner.now() {
            // Seldom much.
            let most = if self.dice.percent(30) { LATE_US } else { LATE_US / 10 };
            until += Duration::from_us(self.dice.below(most));
        }
        let came = self.inner.next_segment(until)?;
        Ok(came.map(|(at, segment)| (Time::ZERO + at.since(Time::ZERO + self.start), segment)))
    }

    fn info(&mut self) -> Result<Info, Refusal> {
        self.inner.info()
    }

    fn slack(&self) -> Duration {
        SLACK
    }

    fn lateness(&self) -> Duration {
        Duration::ZERO
    }
}

/// The lines that hold whenever the machine is late by some ms, and wherever its coarse clock stands.
pub(super) fn firm(
    mut lines: Vec<String>,
    profile: Profile,
    dice: &mut Dice,
) -> Result<Vec<String>, Error> {
    let (mut well, mut cuts) = (0, 0);
    while well < PLAYS {
        let script = Script::parse("random", &(lines.join("\n") + "\n"))?;
        let refused = |why: Refusal| Error { file: "random".to_owned(), line: 0, text: why.0 };
        let own = Dice::new(dice.below(u64::MAX));
        let mut stack = LateStack::new(&script.settings, profile, own).map_err(refused)?;
        let ScriptOutcome::Differs(why) = play(&script, &mut stack, Limits::default())?.outcome
        else {
            well += 1;
            continue;
        };
        well = 0;
        cuts += 1;
        let at = (why.line as usize).saturating_sub(1);
        let condition = why.text.strip_prefix("expected ").and_then(|text| text.split(": ").next());
        let rest = match (lines[at].strip_prefix("expect "), condition) {
            (Some(all), Some(cut)) if cuts < CUTS => {
                all.split(", ").filter(|one| *one != cut).collect::<Vec<_>>().join(", ")
            }
            _ => {
                lines.truncate(at);
                continue;
            }
        };
        if rest.is_empty() {
            lines.remove(at);
        } else {
            lines[at] = format!("expect {rest}");
        }
    }
    Ok(lines)
}
