//! Plays a script: its peer, its clock, and the comparison of what comes with what is written.

use crate::expression::Expr;
use crate::parse::CONSTANTS;
use crate::script::{CallEvent, Condition, Error, Event, Line, Pattern, Script, Statement, When};
use crate::show;
use crate::stack::{Call, Info, MakeStack, Refusal, SocketOption, Stack};
use knee_queue::Ecn;
use knee_queue::time::{Duration, Time};
use knee_sim::endpoint::Segment;
use std::collections::BTreeMap;

/// Window scale that the peer announces.
const WINDOW_SCALE: u8 = 10;
/// First value of the peer's timestamps, ms.
const TS_START: u32 = 1_000;
/// Lines of the account that are kept.
const ACCOUNT_LINES: usize = 10_000;

/// Bounds of a script's run.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Events, each turn of a loop counted.
    pub events: u64,
    /// On the script's clock.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { events: 200_000, time: Duration::from_ms(600_000) }
    }
}

/// How a script ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All came as written.
    Passed,
    /// It is not about this version of Linux.
    NotForThis(String),
    /// Something else came than is written: where, and what.
    Differs(Error),
}

/// A script that was played.
#[derive(Clone, Debug)]
pub struct Played {
    /// How it ended.
    pub verdict: Verdict,
    /// Each segment and call with its time, the newest last.
    pub account: Vec<String>,
    /// By how much the script was late itself, at worst.
    pub lateness: Duration,
    /// How long it took on its own clock.
    pub took: Duration,
}

/// Plays a script against a stack.
///
/// # Errors
/// What the script asks for and the stack does not have, or an end that would not come, with its line.
pub fn play(script: &Script, stack: &mut dyn Stack, limits: Limits) -> Result<Played, Error> {
    let linux = stack.linux();
    for (comparison, version) in &script.needs {
        if !comparison.holds(&linux, version) {
            let why = format!("it is not for Linux {linux}");
            return Ok(Played {
                verdict: Verdict::NotForThis(why),
                account: Vec::new(),
                lateness: Duration::ZERO,
                took: Duration::ZERO,
            });
        }
    }
    let mut player = Player {
        script,
        stack,
        limits,
        line: 0,
        events: 0,
        last: Time::ZERO,
        variables: BTreeMap::new(),
        peer: Peer::default(),
        named: BTreeMap::new(),
        info: None,
        lateness: Duration::ZERO,
        account: Vec::new(),
    };
    let ended = player.lines(&script.body);
    let verdict = match ended {
        Ok(()) => Verdict::Passed,
        Err(Stop::Differs(text)) => Verdict::Differs(player.error(text)),
        Err(Stop::Cannot(text)) => return Err(player.error(text)),
    };
    Ok(Played {
        verdict,
        lateness: player.lateness.max(player.stack.lateness()),
        took: player.stack.now().since(Time::ZERO),
        account: player.account,
    })
}

/// Lateness that does not excuse a difference.
const EXCUSED_FROM: Duration = Duration::from_ms(1);

/// Plays a script, again on a new stack as long as it differs while the script itself was late, at most `attempts`
/// times. Returns how often it was played, too.
///
/// # Errors
/// As [`play`], and if a stack cannot be made.
pub fn play_again_if_late(
    script: &Script,
    limits: Limits,
    attempts: u32,
    make_stack: &mut MakeStack<'_>,
) -> Result<(Played, u32), Error> {
    let mut attempt = 1;
    loop {
        let mut stack = make_stack(&script.settings).map_err(|why| Error {
            file: script.file.clone(),
            line: 0,
            text: why.0,
        })?;
        let played = play(script, stack.as_mut(), limits);
        let is_settled = match &played {
            Ok(played) => {
                !matches!(played.verdict, Verdict::Differs(_)) || played.lateness <= EXCUSED_FROM
            }
            // A connection that was not there yet, for instance.
            Err(_) => stack.lateness() <= EXCUSED_FROM,
        };
        if is_settled || attempt >= attempts {
            return played.map(|played| (played, attempt));
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

/// The script's side of the connection: what `in` fills in.
#[derive(Default)]
struct Peer {
    /// Next byte that it sends.
    next_seq: u32,
    /// The highest it has acknowledged.
    ack: u32,
    /// Timestamp to echo (RFC 7323, section 4.3).
    ts_recent: u32,
    /// Highest end of what the stack has sent.
    sent_end: u32,
    without_timestamps: bool,
    without_scale: bool,
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
    /// Timestamp values of segments that have names.
    named: BTreeMap<String, u32>,
    /// What the socket tells, until something happens again.
    info: Option<Info>,
    /// The longest that a packet or a call took by itself.
    lateness: Duration,
    account: Vec<String>,
}

impl Player<'_> {
    fn error(&self, text: String) -> Error {
        Error { file: self.script.file.clone(), line: self.line, text }
    }

    fn note(&mut self, at: Time, text: &str) {
        if self.account.len() < ACCOUNT_LINES {
            self.account.push(format!("{:>12}  {text}", show::time(at)));
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
                    let count = self.value(count)?;
                    for turn in 0..count {
                        if let Some(name) = variable {
                            self.variables.insert(name.clone(), turn);
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
                return Err(Stop::Cannot("the range of times ends before it begins".to_owned()));
            }
            return self.expect_segment(pattern, earliest, latest);
        }
        self.wait_until(earliest)?;
        // What a packet or a call leads to may come before the clock can be read again.
        self.last = self.stack.now();
        match event {
            Event::Out(_) | Event::Wait => {}
            Event::In(pattern) => self.send(pattern)?,
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
        self.info = None;
        if let Some((at, segment)) = self.stack.next_segment(until)? {
            self.note(at, &format!("out {}", show::segment(&segment)));
            return Err(Stop::Differs(format!(
                "nothing is expected before this line, but at {} came {}",
                show::time(at),
                show::segment(&segment)
            )));
        }
        Ok(())
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
            Err(format!("{stack} does not tell `{name}`, or it has no value here"))
        })
        .map_err(Stop::Cannot)
    }

    fn number(&mut self, expr: &Expr, what: &str, most: u64) -> Result<u64, Stop> {
        let value = self.value(expr)?;
        u64::try_from(value)
            .ok()
            .filter(|value| *value <= most)
            .ok_or_else(|| Stop::Cannot(format!("{what} is {value}: it goes from 0 to {most}")))
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

    // ---- the peer sends ----

    fn send(&mut self, pattern: &Pattern) -> Result<(), Stop> {
        let syn = pattern.flags & Segment::SYN != 0;
        let (seq, len) = self.payload(pattern, self.peer.next_seq)?;
        if len > 65_000 {
            return Err(Stop::Cannot(format!("a segment cannot carry {len} bytes")));
        }
        let mss = self.script.settings.mss_bytes;
        if pattern.no_timestamps && syn {
            self.peer.without_timestamps = true;
        }
        if pattern.no_window_scale && syn {
            self.peer.without_scale = true;
        }
        // A SYN that acknowledges nothing yet still acknowledges the other's SYN if it answers one.
        let has_ack = pattern.flags & Segment::ACK != 0;
        let ack = self.number_or(pattern.ack.as_ref(), "ack", self.peer.ack.max(1))?;
        let plain_window = syn || self.peer.without_scale;
        let window = if plain_window {
            self.script.window_bytes.min(65_535)
        } else {
            self.script.window_bytes
        };
        let now = self.stack.now();
        let timestamps = if self.peer.without_timestamps || pattern.no_timestamps {
            None
        } else if let Some((value, echo)) = &pattern.ts {
            Some((self.number_or(Some(value), "ts", 0)?, self.number_or(Some(echo), "ts", 0)?))
        } else {
            let echo = match &pattern.echo {
                Some(name) => *self
                    .named
                    .get(name)
                    .ok_or_else(|| Stop::Cannot(format!("no segment named `{name}` has come")))?,
                None => self.peer.ts_recent,
            };
            Some((TS_START + (now.us() / 1000) as u32, if has_ack { echo } else { 0 }))
        };
        let segment = Segment {
            flags: pattern.flags,
            ecn: pattern.ecn.unwrap_or(Ecn::NotEct),
            seq,
            len,
            ack: if has_ack { ack } else { 0 },
            window_bytes: self.number_or(pattern.window.as_ref(), "win", window)?,
            mss: if syn {
                Some(self.number_or(pattern.mss.as_ref(), "mss", mss + 12)?.min(65_535) as u16)
            } else {
                None
            },
            window_scale: if !syn || pattern.no_window_scale {
                None
            } else {
                let scale = pattern.window_scale.as_ref();
                Some(self.number_or(scale, "wscale", u32::from(WINDOW_SCALE))?.min(255) as u8)
            },
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
        self.note(now, &format!("in  {}", show::segment(&segment)));
        self.info = None;
        self.stack.receive(&segment)?;
        Ok(())
    }

    // ---- the stack sends ----

    fn expect_segment(
        &mut self,
        pattern: &Pattern,
        earliest: Time,
        latest: Time,
    ) -> Result<(), Stop> {
        let wanted = self.wanted(pattern)?;
        self.info = None;
        let slack = self.stack.slack();
        let came = self.stack.next_segment(latest + slack)?;
        let Some((at, segment)) = came else {
            let until = show::time(latest);
            return Err(Stop::Differs(format!("expected {wanted}, nothing came until {until}")));
        };
        self.note(at, &format!("out {}", show::segment(&segment)));
        let differences = wanted.differences(&segment);
        if !differences.is_empty() {
            return Err(Stop::Differs(format!(
                "{}; at {} came {}",
                differences.join(", "),
                show::time(at),
                show::segment(&segment)
            )));
        }
        if at + slack < earliest || at > latest + slack {
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
        self.last = at;
        self.note_received(pattern, &segment);
        Ok(())
    }

    /// The peer has got it, unless it was lost.
    fn note_received(&mut self, pattern: &Pattern, segment: &Segment) {
        let ends = u32::from(segment.has(Segment::SYN)) + u32::from(segment.has(Segment::FIN));
        let end = segment.seq.wrapping_add(segment.len + ends);
        self.peer.sent_end = self.peer.sent_end.max(end);
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

    fn wanted(&mut self, pattern: &Pattern) -> Result<Wanted, Stop> {
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
        Ok(Wanted {
            flags: pattern.flags,
            seq: says_where.then_some(seq),
            len,
            ack: optional(self, &pattern.ack, "ack")?,
            window: optional(self, &pattern.window, "win")?,
            mss: optional(self, &pattern.mss, "mss")?,
            window_scale: optional(self, &pattern.window_scale, "wscale")?,
            no_window_scale: pattern.no_window_scale,
            sack_ok: pattern.sack_ok,
            no_timestamps: pattern.no_timestamps,
            ecn: pattern.ecn,
            ts,
            sacks: self.ranges(&pattern.sacks)?,
        })
    }

    // ---- the application ----

    fn call(&mut self, call: &CallEvent) -> Result<(), Stop> {
        let bytes = 1 << 40;
        let call = match call {
            CallEvent::Connect => Call::Connect,
            CallEvent::Listen => Call::Listen,
            CallEvent::Close => Call::Close,
            CallEvent::Write(count) => Call::Write(self.number(count, "the write", bytes)?),
            CallEvent::Read(None) => Call::Read(None),
            CallEvent::Read(Some(count)) => {
                Call::Read(Some(self.number(count, "the read", bytes)?))
            }
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
        self.stack.call(&call)?;
        Ok(())
    }

    fn check(&mut self, conditions: &[Condition]) -> Result<(), Stop> {
        for condition in conditions {
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

/// A segment as it must come; nothing is asked of what is not there.
struct Wanted {
    flags: u16,
    seq: Option<u32>,
    len: u32,
    ack: Option<u32>,
    window: Option<u32>,
    mss: Option<u32>,
    window_scale: Option<u32>,
    no_window_scale: bool,
    sack_ok: Option<bool>,
    no_timestamps: bool,
    ecn: Option<Ecn>,
    ts: Option<(u32, u32)>,
    sacks: Vec<(u32, u32)>,
}

impl std::fmt::Display for Wanted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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

impl Wanted {
    fn differences(&self, came: &Segment) -> Vec<String> {
        let mut found = Vec::new();
        let mut differ = |what: &str, wanted: String, came: String| {
            if wanted != came {
                found.push(format!("{what}: expected {wanted}, came {came}"));
            }
        };
        // PSH is looked at only where it is asked for.
        let push = if self.flags & Segment::PSH == 0 { Segment::PSH } else { 0 };
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
        if self.no_timestamps && came.timestamps.is_some() {
            differ("timestamps", "none".to_owned(), "some".to_owned());
        }
        differ("sack", show::sacks(&self.sacks), show::sacks(&came.sacks));
        found
    }
}
