//! Reads a script: a line is a statement.

use crate::expression::{Comparison, Expr, Token, Tokens, expected};
use crate::mistake::{MAX_DEPTH, MAX_LINE_BYTES, Mistake, OPTIONS};
use crate::script::{
    CallEvent, Condition, Error, Event, Line, Pattern, ReadEvent, Rules, Script, Statement, When,
};
use crate::settings::{GSO_SEGS, MSS_BYTES, SYSCTLS, Settings};
use crate::stack::INFO;
use knee_queue::Ecn;
use knee_queue::time::Duration;
use knee_run::spec::LinuxVersion;
use knee_wire::Segment;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// Larger files are no packet scripts.
pub(crate) const MAX_BYTES: usize = Script::MAX_BYTES;
/// The peer's window in bytes if a script says nothing: no limit to what scripts are about.
const WINDOW_BYTES: u32 = 8 << 20;

/// Names that stand for numbers.
pub(crate) const CONSTANTS: &[(&str, i128)] = &[
    ("Open", 0),
    ("Disorder", 1),
    ("CWR", 2),
    ("Recovery", 3),
    ("Loss", 4),
    ("infinite", 0x7fff_ffff),
    ("yes", 1),
    ("no", 0),
];

/// Bits of the header and their letters, as tcpdump writes them.
pub(crate) const FLAGS: [(char, u16); 9] = [
    ('S', Segment::SYN),
    ('F', Segment::FIN),
    ('R', Segment::RST),
    ('P', Segment::PSH),
    ('.', Segment::ACK),
    ('U', Segment::URG),
    ('E', Segment::ECE),
    ('W', Segment::CWR),
    ('e', Segment::AE),
];

/// Parts that only a SYN has.
const OF_A_SYN: [&str; 5] = ["mss", "wscale", "no_wscale", "sack_ok", "no_sack"];

/// Parts of a segment of which one rules out the others.
const EITHER: [&[&str]; 4] = [
    &["ts", "ecr", "no_ts"],
    &["wscale", "no_wscale"],
    &["sack_ok", "no_sack"],
    &["not_ect", "ect0", "ect1", "ce"],
];

/// Whether a segment cannot have both.
fn exclude(one: &str, other: &str) -> bool {
    one == other || EITHER.iter().any(|parts| parts.contains(&one) && parts.contains(&other))
}

impl Script {
    /// The largest file that [`Script::parse`] takes.
    pub const MAX_BYTES: usize = 1 << 20;

    /// Reads a script; `file` is for messages.
    ///
    /// # Errors
    /// What is wrong, with its line.
    pub fn parse(file: &str, text: &str) -> Result<Script, Error> {
        let error =
            |line, why: Mistake| Error { file: file.to_owned(), line, text: why.to_string() };
        if text.len() > MAX_BYTES {
            return Err(error(0, Mistake::FileTooLong));
        }
        let mut parser = Parser {
            script: Script {
                file: file.to_owned(),
                title: String::new(),
                settings: Settings::default(),
                needs: Vec::new(),
                window_bytes: WINDOW_BYTES,
                rules: Rules::default(),
                looks_inside: false,
                body: Vec::new(),
            },
            names: BTreeSet::from(["mss".to_owned()]),
            segments: BTreeSet::new(),
            blocks: Vec::new(),
            is_begun: false,
        };
        let mut last = 0;
        for (number, line) in (1..).zip(text.lines()) {
            last = number;
            parser.line(number, line).map_err(|why| error(number, why))?;
        }
        if let Some(block) = parser.blocks.last() {
            return Err(error(block.number, Mistake::NoEnd { lines: last }));
        }
        if parser.script.body.is_empty() {
            return Err(error(0, Mistake::NoEvent));
        }
        Ok(parser.script)
    }
}

/// A block that is not closed yet.
struct Block {
    number: u32,
    kind: BlockKind,
    lines: Vec<Line>,
}

enum BlockKind {
    Repeat { count: Expr, variable: Option<String> },
    If { linux: (Comparison, LinuxVersion), then: Option<Vec<Line>> },
}

struct Parser {
    script: Script,
    /// Variables so far.
    names: BTreeSet<String>,
    /// Names of segments so far.
    segments: BTreeSet<String>,
    blocks: Vec<Block>,
    is_begun: bool,
}

impl Parser {
    fn line(&mut self, number: u32, text: &str) -> Result<(), Mistake> {
        if text.len() > MAX_LINE_BYTES {
            return Err(Mistake::LineTooLong);
        }
        let stripped = text.trim();
        if stripped == "fq" {
            self.before_events("fq")?;
            self.script.settings.fq = true;
            return Ok(());
        }
        if stripped.chars().any(|c| c.is_control() && c != '\t') {
            return Err(Mistake::Control);
        }
        if stripped.is_empty() || stripped.starts_with('#') {
            return Ok(());
        }
        // Words that take the rest of their line as it is.
        let (first, rest) = stripped.split_once(char::is_whitespace).unwrap_or((stripped, ""));
        if matches!(first, "title" | "algorithm" | "sysctl") {
            return self.raw_setting(first, rest.trim());
        }
        let mut tokens = Tokens::of(stripped)?;
        self.script.looks_inside |= tokens.any_word(|word| word.starts_with("cc."));
        let when = when(&mut tokens)?;
        let word = tokens.word("what happens")?;
        if when.is_none() {
            match word.as_str() {
                "mss" | "ip" | "gso" | "window" | "base_rtt" | "needs" => {
                    self.setting(&word, &mut tokens)?;
                    return tokens.end();
                }
                "let" | "repeat" | "if" | "else" | "end" => {
                    self.is_begun = true;
                    self.block_statement(number, &word, &mut tokens)?;
                    return tokens.end();
                }
                _ => {}
            }
        }
        self.is_begun = true;
        let when = when.unwrap_or_else(now);
        if word == "open" {
            self.open(number, &when, &mut tokens)?;
            return tokens.end();
        }
        let event = self.event(&word, &mut tokens)?;
        tokens.end()?;
        if when.latest.is_some() && !matches!(event, Event::Out(_)) {
            return Err(Mistake::Range);
        }
        self.check_names(&when)?;
        self.push(number, Statement::Event { when, event });
        Ok(())
    }

    fn push(&mut self, number: u32, statement: Statement) {
        let lines = match self.blocks.last_mut() {
            Some(block) => &mut block.lines,
            None => &mut self.script.body,
        };
        lines.push(Line { number, statement });
    }

    fn before_events(&self, word: &str) -> Result<(), Mistake> {
        if self.is_begun {
            return Err(Mistake::TooLate(word.to_owned()));
        }
        Ok(())
    }

    fn raw_setting(&mut self, word: &str, rest: &str) -> Result<(), Mistake> {
        self.before_events(word)?;
        if rest.is_empty() {
            return Err(Mistake::Empty(word.to_owned()));
        }
        match word {
            "title" => self.script.title = rest.to_owned(),
            "algorithm" => {
                let rest = rest.split('#').next().unwrap_or_default();
                let mut words = rest.split_whitespace();
                self.script.settings.algorithm = words.next().unwrap_or_default().to_owned();
                for word in words {
                    let (name, value) =
                        word.split_once('=').ok_or_else(|| Mistake::Parameter(word.to_owned()))?;
                    self.script.settings.params.push((name.to_owned(), value.to_owned()));
                }
            }
            _ => {
                let rest = rest.split('#').next().unwrap_or_default();
                let (name, value) = rest.split_once('=').ok_or(Mistake::Sysctl)?;
                let name = name.trim();
                let name = name.strip_prefix("net.ipv4.").unwrap_or(name);
                let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
                if !SYSCTLS.contains(&name) {
                    return Err(Mistake::OtherSysctl(name.to_owned()));
                }
                if value.is_empty() || !value.split(' ').all(|part| part.parse::<i64>().is_ok()) {
                    return Err(Mistake::SysctlValue { name: name.to_owned(), value });
                }
                self.script.settings.sysctls.push((name.to_owned(), value));
            }
        }
        Ok(())
    }

    fn setting(&mut self, word: &str, tokens: &mut Tokens) -> Result<(), Mistake> {
        self.before_events(word)?;
        if word == "needs" {
            let (comparison, linux) = linux_condition(tokens)?;
            self.script.needs.push((comparison, linux));
            return Ok(());
        }
        let value = tokens.expr()?.value(&mut |name| Err(Mistake::UnknownHere(name.to_owned())))?;
        let outside = |range: String| Err(Mistake::Outside { word: word.to_owned(), value, range });
        let settings = &mut self.script.settings;
        match word {
            "mss" => match u32::try_from(value) {
                Ok(mss) if MSS_BYTES.contains(&mss) => settings.mss_bytes = mss,
                _ => return outside(format!("{} bytes", from_to(&MSS_BYTES))),
            },
            "ip" => match value {
                4 => settings.ipv6 = false,
                6 => settings.ipv6 = true,
                _ => return Err(Mistake::Ip),
            },
            "gso" => match u32::try_from(value) {
                Ok(segs) if GSO_SEGS.contains(&segs) => settings.gso_max_segs = segs,
                _ => return outside(format!("{} segments", from_to(&GSO_SEGS))),
            },
            "window" => match u32::try_from(value) {
                Ok(window) if window < 1 << 30 => self.script.window_bytes = window,
                _ => return outside("0 to 1073741823 bytes".to_owned()),
            },
            _ => match u64::try_from(value) {
                Ok(ns) if ns < 1 << 50 => settings.base_rtt = Some(Duration::from_ns(ns)),
                _ => return Err(Mistake::BaseRtt),
            },
        }
        Ok(())
    }

    fn block_statement(
        &mut self,
        number: u32,
        word: &str,
        tokens: &mut Tokens,
    ) -> Result<(), Mistake> {
        match word {
            "let" => {
                let name = self.new_name(tokens)?;
                if !tokens.take_symbol("=") {
                    return Err(Mistake::Let(name));
                }
                let value = self.expr(tokens)?;
                self.names.insert(name.clone());
                self.push(number, Statement::Let { name, value });
            }
            "repeat" => {
                let count = self.expr(tokens)?;
                let variable = if tokens.take_word("as") {
                    let name = self.new_name(tokens)?;
                    self.names.insert(name.clone());
                    Some(name)
                } else {
                    None
                };
                self.begin(number, BlockKind::Repeat { count, variable })?;
            }
            "if" => {
                let linux = linux_condition(tokens)?;
                self.begin(number, BlockKind::If { linux, then: None })?;
            }
            "else" => match self.blocks.last_mut() {
                Some(Block { kind: BlockKind::If { then: then @ None, .. }, lines, .. }) => {
                    *then = Some(std::mem::take(lines));
                }
                _ => return Err(Mistake::Else),
            },
            _ => {
                let Some(Block { number, kind, lines }) = self.blocks.pop() else {
                    return Err(Mistake::End);
                };
                let statement = match kind {
                    BlockKind::Repeat { count, variable } => {
                        Statement::Repeat { count, variable, body: lines }
                    }
                    BlockKind::If { linux, then: Some(then) } => {
                        Statement::If { linux, then, otherwise: lines }
                    }
                    BlockKind::If { linux, then: None } => {
                        Statement::If { linux, then: lines, otherwise: Vec::new() }
                    }
                };
                self.push(number, statement);
            }
        }
        Ok(())
    }

    fn begin(&mut self, number: u32, kind: BlockKind) -> Result<(), Mistake> {
        if self.blocks.len() >= MAX_DEPTH {
            return Err(Mistake::Depth);
        }
        self.blocks.push(Block { number, kind, lines: Vec::new() });
        Ok(())
    }

    /// A name that is not taken for something else; a variable may be set again.
    fn new_name(&self, tokens: &mut Tokens) -> Result<String, Mistake> {
        let name = tokens.word("a name")?;
        let is_taken = name == "mss"
            || name.contains('.')
            || INFO.iter().any(|(known, _)| *known == name)
            || CONSTANTS.iter().any(|(known, _)| *known == name)
            || matches!(name.as_str(), "in" | "out" | "algorithm");
        if is_taken {
            return Err(Mistake::Taken(name));
        }
        Ok(name)
    }

    fn is_known(&self, name: &str) -> bool {
        self.names.contains(name)
            || name.strip_prefix("cc.").is_some_and(|rest| !rest.is_empty())
            || INFO.iter().any(|(known, _)| *known == name)
            || CONSTANTS.iter().any(|(known, _)| *known == name)
    }

    fn known(&self, expr: &Expr) -> Result<(), Mistake> {
        let mut unknown = None;
        expr.names(&mut |name| {
            if !self.is_known(name) {
                unknown = Some(name);
            }
        });
        match unknown {
            None => Ok(()),
            Some(name) => Err(Mistake::Unknown(name.to_owned())),
        }
    }

    fn expr(&self, tokens: &mut Tokens) -> Result<Expr, Mistake> {
        let expr = tokens.expr()?;
        self.known(&expr)?;
        Ok(expr)
    }

    fn check_names(&self, when: &When) -> Result<(), Mistake> {
        self.known(&when.earliest)?;
        when.latest.as_ref().map_or(Ok(()), |latest| self.known(latest))
    }

    fn event(&mut self, word: &str, tokens: &mut Tokens) -> Result<Event, Mistake> {
        Ok(match word {
            "in" => Event::In(Box::new(self.pattern(false, tokens)?)),
            "out" => Event::Out(Box::new(self.pattern(true, tokens)?)),
            "connect" => Event::Call(CallEvent::Connect),
            "listen" => Event::Call(CallEvent::Listen),
            "close" => Event::Call(CallEvent::Close),
            "shutdown" => Event::Call(CallEvent::ShutDown),
            "write" => {
                let bytes = self.expr(tokens)?;
                Event::Call(match tokens.take_word("more") {
                    true => CallEvent::WriteBeforeMore(bytes),
                    false => CallEvent::Write(bytes),
                })
            }
            "read" => {
                let mut read = ReadEvent::default();
                if tokens.peek().is_some() && !tokens.is_word("gives") {
                    read.most = Some(self.expr(tokens)?);
                }
                if tokens.take_word("gives") {
                    read.gives = Some(self.expr(tokens)?);
                }
                Event::Call(CallEvent::Read(read))
            }
            "set" => Event::Call(self.option(tokens)?),
            "expect" => Event::Expect(self.conditions(tokens)?),
            "wait" => Event::Wait,
            "show" => Event::Show,
            _ => return Err(Mistake::Event(word.to_owned())),
        })
    }

    fn option(&mut self, tokens: &mut Tokens) -> Result<CallEvent, Mistake> {
        let name = tokens.word("an option's name")?;
        if name == "algorithm" {
            let name = tokens.word("an algorithm's name")?;
            self.script.settings.later_algorithms.push(name.clone());
            return Ok(CallEvent::SetCongestion(name));
        }
        let known = OPTIONS.iter().find(|known| **known == name);
        let option = known.ok_or(Mistake::Option(name))?;
        Ok(CallEvent::Set { option, value: self.expr(tokens)? })
    }

    fn conditions(&self, tokens: &mut Tokens) -> Result<Vec<Condition>, Mistake> {
        let mut conditions = Vec::new();
        loop {
            if tokens.take_word("algorithm") {
                let comparison = tokens.comparison()?;
                if !matches!(comparison, Comparison::Equal | Comparison::NotEqual) {
                    return Err(Mistake::AlgorithmComparison);
                }
                let name = tokens.word("an algorithm's name")?;
                conditions.push(Condition::Algorithm { comparison, name });
            } else {
                let start = tokens.position();
                let left = self.expr(tokens)?;
                let comparison = tokens.comparison()?;
                let right = self.expr(tokens)?;
                let text = tokens.text_since(start);
                conditions.push(Condition::Compare { left, comparison, right, text });
            }
            if !tokens.take_symbol(",") {
                return Ok(conditions);
            }
        }
    }

    fn pattern(&mut self, is_out: bool, tokens: &mut Tokens) -> Result<Pattern, Mistake> {
        let mut pattern = Pattern { flags: flags(tokens)?, ..Pattern::default() };
        // The comma after the flags may be left out.
        let _ = tokens.take_symbol(",");
        let mut said: Vec<String> = Vec::new();
        while tokens.peek().is_some() {
            let item = tokens.word("a part of the segment")?;
            if pattern.flags & Segment::SYN == 0 && OF_A_SYN.contains(&item.as_str()) {
                return Err(Mistake::OfASyn(item));
            }
            if let Some(before) = said.iter().find(|before| exclude(before, &item)) {
                return Err(match *before == item {
                    true => Mistake::Twice(item),
                    false => Mistake::Either { before: before.clone(), item },
                });
            }
            said.push(item.clone());
            self.item(&item, is_out, &mut pattern, tokens)?;
            if tokens.peek().is_some() && !tokens.take_symbol(",") {
                return Err(expected("a comma", tokens.peek()));
            }
        }
        if pattern.len.is_some() && pattern.end.is_some() {
            return Err(Mistake::LenOrEnd);
        }
        Ok(pattern)
    }

    fn item(
        &mut self,
        item: &str,
        is_out: bool,
        pattern: &mut Pattern,
        tokens: &mut Tokens,
    ) -> Result<(), Mistake> {
        let only_out = || match is_out {
            true => Ok(()),
            false => Err(Mistake::OneWay { item: item.to_owned(), which: "out" }),
        };
        match item {
            "seq" => {
                pattern.seq = Some(self.expr(tokens)?);
                if tokens.take_symbol(":") {
                    pattern.end = Some(self.expr(tokens)?);
                }
            }
            "len" => pattern.len = Some(self.expr(tokens)?),
            "ack" => pattern.ack = Some(self.expr(tokens)?),
            "win" => pattern.window = Some(self.expr(tokens)?),
            "mss" => pattern.mss = Some(self.expr(tokens)?),
            "wscale" => pattern.window_scale = Some(self.expr(tokens)?),
            "sack_ok" => pattern.sack_ok = Some(true),
            "no_sack" => pattern.sack_ok = Some(false),
            "no_wscale" => pattern.no_window_scale = true,
            "no_ts" => pattern.no_timestamps = true,
            "not_ect" => pattern.ecn = Some(Ecn::NotEct),
            "ect0" => pattern.ecn = Some(Ecn::Ect0),
            "ect1" => pattern.ecn = Some(Ecn::Ect1),
            "ce" => pattern.ecn = Some(Ecn::Ce),
            "ts" => pattern.ts = Some((self.expr(tokens)?, self.expr(tokens)?)),
            "sack" => loop {
                let start = self.expr(tokens)?;
                if !tokens.take_symbol(":") {
                    return Err(Mistake::SackRange);
                }
                pattern.sacks.push((start, self.expr(tokens)?));
                if pattern.sacks.len() > 4 {
                    return Err(Mistake::Sacks);
                }
                if matches!(tokens.peek(), None | Some(Token::Symbol(","))) {
                    break;
                }
            },
            "ecr" if is_out => pattern.echoed = Some(self.expr(tokens)?),
            "ecr" => {
                let name = tokens.word("a segment's name")?;
                if !self.segments.contains(&name) {
                    return Err(Mistake::NoSegment(name));
                }
                pattern.echo = Some(name);
            }
            "as" => {
                only_out()?;
                let name = tokens.word("a name")?;
                self.segments.insert(name.clone());
                pattern.name = Some(name);
            }
            "lost" => {
                only_out()?;
                pattern.is_lost = true;
            }
            _ => return Err(Mistake::Part(item.to_owned())),
        }
        Ok(())
    }

    /// A whole handshake, either way, in the lines that it stands for.
    fn open(&mut self, number: u32, when: &When, tokens: &mut Tokens) -> Result<(), Mistake> {
        let side = tokens.word("active or passive")?;
        let (mut rtt, mut ecn) = (Expr::Number(0), false);
        while tokens.take_symbol(",") || tokens.peek().is_some() {
            match tokens.word("rtt or ecn")?.as_str() {
                "rtt" => rtt = self.expr(tokens)?,
                "ecn" => ecn = true,
                other => return Err(Mistake::Handshake(other.to_owned())),
            }
        }
        let asks = if ecn { Segment::ECE | Segment::CWR } else { 0 };
        let grants = if ecn { Segment::ECE } else { 0 };
        let segment = |flags| Box::new(Pattern { flags, ..Pattern::default() });
        let zero = || Some(Expr::Number(0));
        let one = || Some(Expr::Number(1));
        let after_rtt = When { earliest: rtt, ..now() };
        let (syn, syn_ack) = (Segment::SYN | asks, Segment::SYN | Segment::ACK | grants);
        let events = match side.as_str() {
            "active" => [
                (when.clone(), Event::Call(CallEvent::Connect)),
                (now(), Event::Out(Box::new(Pattern { seq: zero(), ..*segment(syn) }))),
                (after_rtt, Event::In(segment(syn_ack))),
                (now(), Event::Out(Box::new(Pattern { ack: one(), ..*segment(Segment::ACK) }))),
            ],
            "passive" => [
                (when.clone(), Event::Call(CallEvent::Listen)),
                (now(), Event::In(segment(syn))),
                (now(), Event::Out(Box::new(Pattern { ack: one(), ..*segment(syn_ack) }))),
                (after_rtt, Event::In(segment(Segment::ACK))),
            ],
            _ => return Err(Mistake::Open(side)),
        };
        for (when, event) in events {
            self.push(number, Statement::Event { when, event });
        }
        Ok(())
    }
}

fn from_to(range: &RangeInclusive<u32>) -> String {
    format!("{} to {}", range.start(), range.end())
}

pub(crate) fn now() -> When {
    When { from_start: false, earliest: Expr::Number(0), latest: None, is_any: false }
}

fn when(tokens: &mut Tokens) -> Result<Option<When>, Mistake> {
    let from_start = if tokens.take_symbol("+") {
        false
    } else if tokens.take_symbol("@") {
        true
    } else {
        return Ok(None);
    };
    let earliest = tokens.expr()?;
    let latest = if tokens.take_symbol("..") { Some(tokens.expr()?) } else { None };
    Ok(Some(When { from_start, earliest, latest, is_any: false }))
}

fn linux_condition(tokens: &mut Tokens) -> Result<(Comparison, LinuxVersion), Mistake> {
    if !tokens.take_word("linux") {
        return Err(expected("`linux`", tokens.peek()));
    }
    let comparison = tokens.comparison()?;
    let version = match tokens.take() {
        Some(Token::Number { text, .. }) => text,
        other => return Err(expected("a version such as 6.12", other.as_ref())),
    };
    let linux = version.parse().map_err(|()| Mistake::Version(version))?;
    Ok((comparison, linux))
}

fn flags(tokens: &mut Tokens) -> Result<u16, Mistake> {
    let letters = match tokens.take() {
        Some(Token::Flags(letters)) => letters,
        other => return Err(expected("flags such as [S.] or [.]", other.as_ref())),
    };
    let mut flags = 0;
    for letter in letters.chars() {
        let known = FLAGS.iter().find(|(known, _)| *known == letter);
        let (_, bit) = known.ok_or_else(|| Mistake::Flag { letter, letters: letters.clone() })?;
        flags |= bit;
    }
    Ok(flags)
}
