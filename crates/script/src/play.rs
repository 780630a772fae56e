//! Plays a script: its clock, its calls, and the order in which things must happen.

mod expected;
pub(crate) mod live;
mod peer;
mod reads;

pub(crate) use peer::WINDOW_SCALE;

use crate::account::Account;
use crate::expression::Expr;
use crate::parse::CONSTANTS;
use crate::script::{CallEvent, Condition, Error, Event, Line, Pattern, Script, Statement, When};
use crate::show;
use crate::stack::{Call, Given, Info, MakeStack, Refusal, SocketOption, Stack};
use expected::OutRange;
use knee_queue::time::{Duration, Time};
use knee_run::spec::LinuxVersion;
use knee_sim::tap::Tapped;
use knee_wire::Segment;
use peer::Peer;
use reads::WaitingRead;
use std::collections::{BTreeMap, VecDeque};

/// Segments that are kept.
const SEGMENTS: usize = 100_000;

/// Bounds of a script's run.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Events, each turn of a loop and each condition counted.
    pub events: u64,
    /// Longest time on the script's clock.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { events: 200_000, time: Duration::from_ms(600_000) }
    }
}

/// Result of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptOutcome {
    /// All segments and values were as written.
    Passed,
    /// The script does not apply to this version of Linux, or to the kernel's own algorithm.
    NotForThis(String),
    /// The file is about something that no script of one connection has: where, and what.
    NotApplicable(Error),
    /// A segment or value differs: where, and how.
    Differs(Error),
}

/// A script that was played.
#[derive(Clone, Debug)]
pub struct Played {
    /// Result of the script.
    pub outcome: ScriptOutcome,
    /// Each segment and call with its time, the newest last.
    pub account: Vec<String>,
    /// Lines that a long account leaves out in the middle, where it says so.
    pub account_left_out: u64,
    /// The segments alone, `out` those of the stack.
    pub segments: Vec<Tapped>,
    /// Segments beyond those.
    pub segments_left_out: u64,
    /// Largest lateness of the machine: of the script itself, or of the stack's timers.
    pub lateness: Duration,
    /// Duration on the script's clock.
    pub took: Duration,
}

impl Played {
    /// A script that does not apply to this version.
    pub fn not_for(linux: LinuxVersion) -> Played {
        Played::not_for_this(format!("it does not apply to Linux {linux}"))
    }

    /// A script that was not played, and why.
    pub fn not_for_this(why: String) -> Played {
        Played::not_played(ScriptOutcome::NotForThis(why))
    }

    /// A file that no script of one connection can stand for, and why.
    pub fn not_applicable(why: Error) -> Played {
        Played::not_played(ScriptOutcome::NotApplicable(why))
    }

    fn not_played(outcome: ScriptOutcome) -> Played {
        Played {
            outcome,
            account: Vec::new(),
            account_left_out: 0,
            segments: Vec::new(),
            segments_left_out: 0,
            lateness: Duration::ZERO,
            took: Duration::ZERO,
        }
    }
}

/// Plays a script against a stack.
///
/// # Errors
/// What the script asks for and the stack does not have, or an end that would not come, with its line.
pub fn play(script: &Script, stack: &mut dyn Stack, limits: Limits) -> Result<Played, Error> {
    let linux = stack.linux();
    if !script.is_for(linux) {
        return Ok(Played::not_for(linux));
    }
    let mut player = Player::new(script, stack, limits);
    let ended = player.lines(&script.body).and_then(|()| player.ends());
    let outcome = match ended {
        Ok(()) => ScriptOutcome::Passed,
        Err(Stop::Differs(text)) => ScriptOutcome::Differs(player.error(text)),
        Err(Stop::Cannot(text)) => return Err(player.error(text)),
    };
    let (account, account_left_out) = player.account.finish();
    Ok(Played {
        outcome,
        lateness: player.lateness.max(player.stack.lateness()),
        took: player.stack.now().since(Time::ZERO),
        account,
        account_left_out,
        segments: player.segments,
        segments_left_out: player.segments_left_out,
    })
}

/// Lateness that does not excuse a difference.
const EXCUSED_FROM: Duration = Duration::from_ms(1);

/// A script that was played until it was settled.
#[derive(Clone, Debug)]
pub struct Settled {
    /// The last time.
    pub played: Played,
    /// How often it was played.
    pub attempts: u32,
    /// Largest lateness of the machine over all attempts.
    pub lateness: Duration,
}

impl Settled {
    /// A script that was not played.
    pub fn not_played(played: Played) -> Settled {
        Settled { played, attempts: 0, lateness: Duration::ZERO }
    }
}

/// Plays a script, again on a new stack as long as it differs while the machine was late or the stack is one that leaves out
/// calls of the algorithm, at most `attempts` times.
///
/// # Errors
/// As [`play`], and if a stack cannot be made.
pub fn play_again_if_late(
    script: &Script,
    limits: Limits,
    attempts: u32,
    make_stack: &mut MakeStack<'_>,
) -> Result<Settled, Error> {
    let mut attempt = 1;
    let mut worst = Duration::ZERO;
    loop {
        let mut stack = make_stack(&script.settings).map_err(|why| Error {
            file: script.file.clone(),
            line: 0,
            text: why.0,
        })?;
        let played = play(script, stack.as_mut(), limits);
        let lateness = played.as_ref().map_or(stack.lateness(), |played| played.lateness);
        worst = worst.max(lateness);
        // What could not be played may be late as well: a connection was not there yet, for instance.
        let has_passed = played
            .as_ref()
            .is_ok_and(|played| !matches!(played.outcome, ScriptOutcome::Differs(_)));
        let is_excused = lateness > EXCUSED_FROM || stack.leaves_out_calls();
        if has_passed || !is_excused || attempt >= attempts {
            return played.map(|played| Settled { played, attempts: attempt, lateness: worst });
        }
        attempt += 1;
    }
}

/// Why a script does not go on.
enum Stop {
    Differs(String),
    Cannot(String),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Stop {
        Stop::Cannot(refusal.0)
    }
}

struct Player<'a> {
    script: &'a Script,
    stack: &'a mut dyn Stack,
    limits: Limits,
    line: u32,
    events: u64,
    /// When the event before happened.
    last: Time,
    variables: BTreeMap<String, i128>,
    peer: Peer,
    /// Segments that have left and that no line has named yet.
    left: VecDeque<(Time, Segment)>,
    /// A read that waits for data.
    read: Option<WaitingRead>,
    /// Timestamp values of segments that have names.
    named: BTreeMap<String, u32>,
    /// `TCP_INFO` of the socket, cached until the next event.
    info: Option<Info>,
    /// The longest that a packet or a call took by itself.
    lateness: Duration,
    account: Account,
    segments: Vec<Tapped>,
    segments_left_out: u64,
}

impl<'a> Player<'a> {
    fn new(script: &'a Script, stack: &'a mut dyn Stack, limits: Limits) -> Player<'a> {
        Player {
            script,
            stack,
            limits,
            line: 0,
            events: 0,
            last: Time::ZERO,
            variables: BTreeMap::new(),
            peer: Peer::default(),
            left: VecDeque::new(),
            read: None,
            named: BTreeMap::new(),
            info: None,
            lateness: Duration::ZERO,
            account: Account::default(),
            segments: Vec::new(),
            segments_left_out: 0,
        }
    }
}

impl Player<'_> {
    fn error(&self, text: String) -> Error {
        Error { file: self.script.file.clone(), line: self.line, text }
    }

    fn note(&mut self, at: Time, text: &str) {
        self.account.push(format!("{:>12}  {text}", show::time(at)));
    }

    /// A segment goes over the wire.
    fn note_segment(&mut self, at: Time, is_out: bool, segment: &Segment) {
        let word = if is_out { "out" } else { "in " };
        self.note(at, &format!("{word} {}", show::segment(segment)));
        if self.segments.len() < SEGMENTS {
            self.segments.push(Tapped { at, is_out, segment: segment.clone() });
        } else {
            self.segments_left_out += 1;
        }
    }

    fn lines(&mut self, lines: &[Line]) -> Result<(), Stop> {
        for line in lines {
            self.line = line.number;
            self.count()?;
            match &line.statement {
                Statement::Event { when, event } => self.event(when, event)?,
                Statement::Let { name, value } => {
                    let value = self.value(value)?;
                    self.variables.insert(name.clone(), value);
                }
                Statement::Repeat { count, variable, body } => {
                    let count = self.number(count, "the number of turns", u64::MAX)?;
                    for turn in 0..count {
                        if let Some(name) = variable {
                            self.variables.insert(name.clone(), i128::from(turn));
                        }
                        self.count()?;
                        self.lines(body)?;
                    }
                }
                Statement::If { linux: (comparison, version), then, otherwise } => {
                    let is = comparison.holds(&self.stack.linux(), version);
                    self.lines(if is { then } else { otherwise })?;
                }
            }
        }
        Ok(())
    }

    fn count(&mut self) -> Result<(), Stop> {
        self.events += 1;
        if self.events > self.limits.events {
            let most = self.limits.events;
            return Err(Stop::Cannot(format!(
                "the script does not end within {most} events: repeat less often"
            )));
        }
        Ok(())
    }

    fn event(&mut self, when: &When, event: &Event) -> Result<(), Stop> {
        let start = if when.from_start { Time::ZERO } else { self.last };
        let earliest = self.moment(start, &when.earliest)?;
        if let Event::Out(pattern) = event {
            let latest = match &when.latest {
                Some(latest) => self.moment(start, latest)?,
                None => earliest,
            };
            if latest < earliest {
                return Err(Stop::Cannot(
                    "the end of the time range is before its start".to_owned(),
                ));
            }
            let range = OutRange { earliest, latest, is_any: when.is_any };
            return self.expect_segment(pattern, range);
        }
        self.wait_until(earliest)?;
        // What a packet or a call leads to may come before the clock can be read again.
        self.last = self.stack.now();
        match event {
            Event::Out(_) | Event::Wait => {}
            Event::In(pattern) => self.send(pattern)?,
            Event::Call(CallEvent::Read(read)) => self.read(read, start)?,
            Event::Call(call) => self.call(call)?,
            Event::Expect(conditions) => self.check(conditions)?,
            Event::Show => self.show()?,
        }
        self.lateness = self.lateness.max(self.stack.now().since(self.last));
        Ok(())
    }

    fn moment(&mut self, start: Time, offset: &Expr) -> Result<Time, Stop> {
        let ns = self.value(offset)?;
        let most = self.limits.time;
        let at = u64::try_from(ns)
            .ok()
            .filter(|ns| *ns <= most.ns())
            .map(|ns| start + Duration::from_ns(ns))
            .filter(|at| at.since(Time::ZERO) <= most);
        at.ok_or_else(|| {
            let most = show::span(most);
            Stop::Cannot(format!("the time is negative, or the script takes longer than {most}"))
        })
    }

    /// Time passes; nothing may come.
    fn wait_until(&mut self, until: Time) -> Result<(), Stop> {
        self.nothing_comes(until, "before this line,")
    }

    /// After the last line: what has left by then must have been written, and reads must have returned.
    fn ends(&mut self) -> Result<(), Stop> {
        self.no_read_waits()?;
        if self.script.rules.is_packetdrill {
            return Ok(());
        }
        self.nothing_comes(self.stack.now(), "after this line, the last,")
    }

    fn nothing_comes(&mut self, until: Time, place: &str) -> Result<(), Stop> {
        while let Some((at, segment)) = self.next_from_stack(until)? {
            if self.script.rules.is_packetdrill {
                self.count()?;
                self.left.push_back((at, segment));
                continue;
            }
            return Err(Stop::Differs(format!(
                "the script expects no segment {place} but at {} came {}",
                show::time(at),
                show::segment(&segment)
            )));
        }
        Ok(())
    }

    /// The next segment that leaves the stack, noted.
    fn next_from_stack(&mut self, until: Time) -> Result<Option<(Time, Segment)>, Stop> {
        self.info = None;
        let came = self.stack.next_segment(until)?;
        if let Some((at, segment)) = &came {
            self.note_segment(*at, true, segment);
        }
        Ok(came)
    }

    // ---- numbers ----

    fn value(&mut self, expr: &Expr) -> Result<i128, Stop> {
        let mut needs_info = false;
        expr.names(&mut |name| {
            needs_info |= name != "mss"
                && !self.variables.contains_key(name)
                && !CONSTANTS.iter().any(|(known, _)| *known == name);
        });
        if needs_info && self.info.is_none() {
            self.info = Some(self.stack.info()?);
        }
        let (variables, info) = (&self.variables, &self.info);
        let mss = i128::from(self.script.settings.mss_bytes);
        let stack = self.stack.name();
        expr.value(&mut |name| {
            if name == "mss" {
                return Ok(mss);
            }
            if let Some(value) = variables.get(name) {
                return Ok(*value);
            }
            if let Some((_, value)) = CONSTANTS.iter().find(|(known, _)| *known == name) {
                return Ok(*value);
            }
            let told = info.iter().flat_map(|info| &info.values);
            let mut names = Vec::new();
            for (known, value) in told {
                if known == name {
                    return Ok(*value);
                }
                names.push(known.as_str());
            }
            if name.starts_with("cc.") {
                let own: Vec<_> =
                    names.into_iter().filter(|name| name.starts_with("cc.")).collect();
                let own = if own.is_empty() { "none".to_owned() } else { own.join(", ") };
                return Err(format!("the algorithm shows no `{name}` on {stack}: {own}"));
            }
            Err(format!("{stack} does not report `{name}`, or it has no value here"))
        })
        .map_err(Stop::Cannot)
    }

    fn number(&mut self, expr: &Expr, what: &str, most: u64) -> Result<u64, Stop> {
        let value = self.value(expr)?;
        u64::try_from(value)
            .ok()
            .filter(|value| *value <= most)
            .ok_or_else(|| Stop::Cannot(format!("{what} is {value}: the range is 0 to {most}")))
    }

    fn number_or(&mut self, expr: Option<&Expr>, what: &str, or: u32) -> Result<u32, Stop> {
        match expr {
            Some(expr) => Ok(self.number(expr, what, u64::from(u32::MAX))? as u32),
            None => Ok(or),
        }
    }

    fn ranges(&mut self, ranges: &[(Expr, Expr)]) -> Result<Vec<(u32, u32)>, Stop> {
        let mut values = Vec::new();
        for (start, end) in ranges {
            values.push((
                self.number_or(Some(start), "the start of a range", 0)?,
                self.number_or(Some(end), "the end of a range", 0)?,
            ));
        }
        Ok(values)
    }

    /// First byte and payload; `next` if it is not said where it begins.
    fn payload(&mut self, pattern: &Pattern, next: u32) -> Result<(u32, u32), Stop> {
        let seq = self.number_or(pattern.seq.as_ref(), "seq", next)?;
        let len = match (&pattern.end, &pattern.len) {
            (Some(end), _) => {
                let end = self.number_or(Some(end), "the end of seq", 0)?;
                end.checked_sub(seq)
                    .ok_or_else(|| Stop::Cannot(format!("seq {seq}:{end} ends before it begins")))?
            }
            (None, Some(len)) => self.number_or(Some(len), "len", 0)?,
            (None, None) => 0,
        };
        Ok((seq, len))
    }

    // ---- the application ----

    /// Executes a call and returns what it gave.
    fn call_for(&mut self, call: &CallEvent) -> Result<Given, Stop> {
        let bytes = 1 << 40;
        let call = match call {
            CallEvent::Connect => Call::Connect,
            CallEvent::Listen => Call::Listen,
            CallEvent::Close => Call::Close,
            CallEvent::Write(count) => Call::Write(self.number(count, "the write", bytes)?),
            CallEvent::WriteBeforeMore(count) => {
                Call::WriteBeforeMore(self.number(count, "the write", bytes)?)
            }
            CallEvent::ShutDown => Call::ShutDown,
            CallEvent::Read(read) => Call::Read(match &read.most {
                Some(count) => Some(self.number(count, "the read", bytes)?),
                None => None,
            }),
            CallEvent::SetCongestion(name) => Call::Set(SocketOption::Congestion(name.clone())),
            CallEvent::Set { option, value } => {
                let most =
                    if *option == "max_pacing_rate" { u64::MAX } else { u64::from(u32::MAX) };
                let value = self.number(value, option, most)?;
                let word = value as u32;
                Call::Set(match *option {
                    "nodelay" => SocketOption::NoDelay(value != 0),
                    "cork" => SocketOption::Cork(value != 0),
                    "quickack" => SocketOption::QuickAck(value != 0),
                    "rcvlowat" => SocketOption::ReceiveLowWater(word),
                    "rcvbuf" => SocketOption::ReceiveBuffer(word),
                    "sndbuf" => SocketOption::SendBuffer(word),
                    _ => SocketOption::MaxPacingRate(value),
                })
            }
        };
        self.note(self.stack.now(), &format!("{call:?}"));
        self.info = None;
        Ok(self.stack.call(&call)?)
    }

    fn call(&mut self, call: &CallEvent) -> Result<(), Stop> {
        self.no_read_waits()?;
        self.call_for(call).map(|_| ())
    }

    fn check(&mut self, conditions: &[Condition]) -> Result<(), Stop> {
        for condition in conditions {
            self.count()?;
            match condition {
                Condition::Compare { left, comparison, right, text } => {
                    let (left, right) = (self.value(left)?, self.value(right)?);
                    if !comparison.holds(&left, &right) {
                        let at = show::time(self.stack.now());
                        return Err(Stop::Differs(format!(
                            "expected {text}: the left side is {left}, the right side {right} (at {at})"
                        )));
                    }
                }
                Condition::Algorithm { comparison, name } => {
                    let used = self.stack.info()?.algorithm;
                    if !comparison.holds(&used.as_str(), &name.as_str()) {
                        return Err(Stop::Differs(format!("the algorithm in use is {used}")));
                    }
                }
            }
        }
        Ok(())
    }

    fn show(&mut self) -> Result<(), Stop> {
        let info = self.stack.info()?;
        let values = info.values.iter().map(|(name, value)| format!("{name} {value}"));
        let text = format!("{}: {}", info.algorithm, values.collect::<Vec<_>>().join(", "));
        self.note(self.stack.now(), &text);
        Ok(())
    }
}
