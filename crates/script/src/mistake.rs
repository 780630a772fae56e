//! Mistakes in a line of a script.

use crate::settings::SYSCTLS;
use crate::stack::INFO;

/// Options for `set`.
pub(crate) const OPTIONS: &[&str] =
    &["nodelay", "cork", "quickack", "rcvlowat", "rcvbuf", "sndbuf", "max_pacing_rate"];

/// Longer lines are no lines of a packet script: an expression costs stack, and conditions cost time.
pub(crate) const MAX_LINE_BYTES: usize = 4096;
/// Blocks in blocks.
pub(crate) const MAX_DEPTH: usize = 16;

/// In one sentence; texts are what the line says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Mistake {
    #[error("it is larger than 1 MiB, the limit for packet scripts")]
    FileTooLong,
    #[error("it contains no event")]
    NoEvent,
    #[error("this block has no `end` (the file has {lines} lines)")]
    NoEnd { lines: u32 },
    #[error("the line is longer than {MAX_LINE_BYTES} bytes")]
    LineTooLong,
    #[error("this line contains a control character")]
    Control,

    // Tokens.
    #[error("the bracket `[` is not closed")]
    Bracket,
    #[error("`{0}` is not allowed here")]
    Symbol(char),
    #[error("`{0}`: the units are ns, us, ms and s")]
    Unit(String),
    #[error("`{0}` is too large")]
    TooLarge(String),
    #[error("expected {what}, not `{came}`")]
    Expected { what: &'static str, came: String },
    #[error("{0} is missing at the end of the line")]
    Missing(&'static str),
    #[error("`{0}` is unexpected: the line is complete before it")]
    TooMuch(String),

    // Expressions.
    #[error("`{0}` is not a whole number")]
    NotWhole(String),
    #[error("parentheses are nested too deeply")]
    Nested,
    #[error("a parenthesis is not closed")]
    Parenthesis,
    #[error("a comparison is missing: <, <=, ==, !=, >= or >")]
    NoComparison,
    #[error("a division by 0")]
    Division,
    #[error("a number is too large")]
    Overflow,
    #[error(
        "`{0}` is unknown: neither set by `let` or `repeat ... as` above, nor one of {names}, cc.NAME",
        names = INFO.iter().map(|(known, _)| *known).collect::<Vec<_>>().join(", ")
    )]
    Unknown(String),

    // Settings.
    #[error("`{0}` belongs before the first event")]
    TooLate(String),
    #[error("`{0}` says nothing")]
    Empty(String),
    #[error("`{0}`: a parameter is written NAME=VALUE")]
    Parameter(String),
    #[error("a sysctl is written NAME = VALUE")]
    Sysctl,
    #[error("scripts cannot set the sysctl `{0}`, only {known}", known = SYSCTLS.join(", "))]
    OtherSysctl(String),
    #[error("`{name} = {value}`: the value is a number, or several")]
    SysctlValue { name: String, value: String },
    #[error("`{0}` is unknown here")]
    UnknownHere(String),
    #[error("`{word} {value}`: the range is {range}")]
    Outside { word: String, value: i128, range: String },
    #[error("`ip` is 4 or 6")]
    Ip,
    #[error("`base_rtt` is a time")]
    BaseRtt,
    #[error("`{0}` is not a version such as 6.12")]
    Version(String),

    // Blocks.
    #[error("blocks are nested deeper than {MAX_DEPTH}")]
    Depth,
    #[error("`let {0}` is followed by `=` and a number")]
    Let(String),
    #[error("the name `{0}` is taken: choose another")]
    Taken(String),
    #[error("`else` belongs after `if`")]
    Else,
    #[error("`end` ends nothing")]
    End,

    // Events.
    #[error(
        "`{0}` is not an event: open, connect, listen, in, out, write, read, shutdown, close, set, expect, wait, show, let, repeat, if"
    )]
    Event(String),
    #[error("a range of times is for `out` only")]
    Range,
    #[error("`{0}` is not an option: algorithm, {known}", known = OPTIONS.join(", "))]
    Option(String),
    #[error("algorithms are compared with == or !=")]
    AlgorithmComparison,
    #[error("`{0}`: a handshake has `rtt TIME` and `ecn`")]
    Handshake(String),
    #[error("`open {0}`: it is `open active` or `open passive`")]
    Open(String),

    // Segments.
    #[error("`{letter}` in [{letters}] is not a flag: S F R P . U E W e, as in tcpdump")]
    Flag { letter: char, letters: String },
    #[error(
        "`{0}` is not a part of a segment: seq, len, ack, win, ect0, ect1, ce, not_ect, sack, ts, ecr, mss, wscale, \
         sack_ok, no_sack, no_wscale, no_ts, as, lost"
    )]
    Part(String),
    #[error("`{0}` needs a segment with the flag S")]
    OfASyn(String),
    #[error("only `{which}` takes `{item}`")]
    OneWay { item: String, which: &'static str },
    #[error("`{0}` appears twice")]
    Twice(String),
    #[error("take either `{before}` or `{item}`, not both")]
    Either { before: String, item: String },
    #[error("take either `len` or the end of `seq`, not both")]
    LenOrEnd,
    #[error("a SACK range is START:END")]
    SackRange,
    #[error("a segment holds at most 4 SACK ranges")]
    Sacks,
    #[error("no segment above is named `{0}` (`out ... as {0}`)")]
    NoSegment(String),
}

impl From<Mistake> for String {
    fn from(mistake: Mistake) -> String {
        mistake.to_string()
    }
}
