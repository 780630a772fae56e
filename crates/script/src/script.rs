//! A script as it was read: statements with their lines.

use crate::expression::{Comparison, Expr};
use crate::settings::Settings;
use knee_queue::Ecn;
use knee_queue::time::Duration;
use knee_run::spec::LinuxVersion;
use std::fmt;

/// A packet script, read and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// The file's name as given, for messages.
    pub(crate) file: String,
    /// Title of the script.
    pub title: String,
    /// The end point that it is about.
    pub settings: Settings,
    /// Versions of Linux that it holds for.
    pub(crate) needs: Vec<(Comparison, LinuxVersion)>,
    /// The window that its peer advertises unless it says otherwise, bytes.
    pub(crate) window_bytes: u32,
    pub(crate) rules: Rules,
    /// Whether it uses diagnostic values of the algorithm (`cc.NAME`).
    pub(crate) looks_inside: bool,
    pub(crate) body: Vec<Line>,
}

impl Script {
    /// Whether only our own algorithm will do: its parameters are set, or its own values asked for.
    pub fn is_for_our_algorithm(&self) -> bool {
        self.looks_inside || !self.settings.params.is_empty()
    }

    /// Whether it is about this version.
    pub fn is_for(&self, linux: LinuxVersion) -> bool {
        self.needs.iter().all(|(comparison, version)| comparison.holds(&linux, version))
    }

    /// The file's name as it was given.
    pub fn file(&self) -> &str {
        &self.file
    }
}

/// How a script's events are compared with what happens. The default is that of our own scripts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    /// By how much a packet may be early or late.
    pub(crate) tolerance: Duration,
    /// packetdrill's: a packet waits for the line that names it, the last line ends the script, and PSH is compared.
    pub(crate) is_packetdrill: bool,
    /// The unit of timestamp values, if they are compared.
    pub(crate) ts_tick: Option<Duration>,
}

/// A sentence about a line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Path as given.
    pub file: String,
    /// Line number from 1; 0: the file as a whole.
    pub line: u32,
    /// The message.
    pub text: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.text),
            line => write!(f, "{}:{line}: {}", self.file, self.text),
        }
    }
}

impl std::error::Error for Error {}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) number: u32,
    pub(crate) statement: Statement,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Statement {
    Event { when: When, event: Event },
    Let { name: String, value: Expr },
    Repeat { count: Expr, variable: Option<String>, body: Vec<Line> },
    If { linux: (Comparison, LinuxVersion), then: Vec<Line>, otherwise: Vec<Line> },
}

/// When something happens: at a time after the event before it, or after the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct When {
    pub(crate) from_start: bool,
    pub(crate) earliest: Expr,
    /// End of a range of times.
    pub(crate) latest: Option<Expr>,
    /// An `out` may also have left before; an event of the script comes at once.
    pub(crate) is_any: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A segment of the peer.
    In(Box<Pattern>),
    /// A segment that must come.
    Out(Box<Pattern>),
    Call(CallEvent),
    Expect(Vec<Condition>),
    /// No segment may arrive until then.
    Wait,
    /// The socket's values go into the account of the run.
    Show,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallEvent {
    Connect,
    Listen,
    Write(Expr),
    /// With `MSG_MORE`.
    WriteBeforeMore(Expr),
    ShutDown,
    Read(ReadEvent),
    Close,
    Set {
        option: &'static str,
        value: Expr,
    },
    SetCongestion(String),
}

/// A read of the application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadEvent {
    /// Bytes at most; without it all there are.
    pub(crate) most: Option<Expr>,
    /// Bytes that it must give.
    pub(crate) gives: Option<Expr>,
    /// Whether it must find that the peer has ended (a read of 0), or that nothing is there yet (EAGAIN).
    pub(crate) at_end: Option<bool>,
    /// The read waits for data: when it returns, counted like the time of the event.
    pub(crate) returns: Option<(Expr, Expr)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Compare { left: Expr, comparison: Comparison, right: Expr, text: String },
    Algorithm { comparison: Comparison, name: String },
}

/// A segment as written: what is not said is filled in (`in`) or not looked at (`out`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pattern {
    pub(crate) flags: u16,
    pub(crate) seq: Option<Expr>,
    /// With a first byte: the next one; without: the payload's length.
    pub(crate) end: Option<Expr>,
    pub(crate) len: Option<Expr>,
    pub(crate) ack: Option<Expr>,
    pub(crate) window: Option<Expr>,
    /// The window as the header has it, in units of the scale.
    pub(crate) window_field: Option<Expr>,
    pub(crate) ecn: Option<Ecn>,
    pub(crate) mss: Option<Expr>,
    pub(crate) window_scale: Option<Expr>,
    pub(crate) sack_ok: Option<bool>,
    pub(crate) no_mss: bool,
    pub(crate) no_window_scale: bool,
    /// No option is compared.
    pub(crate) any_options: bool,
    pub(crate) no_timestamps: bool,
    pub(crate) ts: Option<(Expr, Expr)>,
    /// The value alone, beside an echo.
    pub(crate) ts_value: Option<Expr>,
    /// Echo of the timestamp of a segment that has a name.
    pub(crate) echo: Option<String>,
    /// Echo that must come, whatever the value beside it.
    pub(crate) echoed: Option<Expr>,
    pub(crate) sacks: Vec<(Expr, Expr)>,
    /// The name that `echo` uses.
    pub(crate) name: Option<String>,
    /// The peer never gets it.
    pub(crate) is_lost: bool,
}
