//! What can be wrong with a line of a script.

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
    #[error("it is larger than 1 MiB: no packet script")]
    FileTooLong,
    #[error("there is no event in it")]
    NoEvent,
    #[error("the block that begins here has no `end` (the file has {lines} lines)")]
    NoEnd { lines: u32 },
    #[error("the line is longer than {MAX_LINE_BYTES} bytes")]
    LineTooLong,
    #[error("there is a control character in this line")]
    Control,

    // Tokens.
    #[error("the bracket `[` is not closed")]
    Bracket,
    #[error("`{0}` means nothing here")]
    Symbol(char),
    #[error("`{0}`: the units are ns, us, ms and s")]
    Unit(String),
    #[error("`{0}` is too large")]
    TooLarge(String),
    #[error("expected {what}, not `{came}`")]
    Expected { what: &'static str, came: String },
    #[error("{0} is missing at the end of the line")]
    Missing(&'static str),
    #[error("`{0}` is too much here")]
    TooMuch(String),

    // Expressions.
    #[error("`{0}` is not a whole number")]
    NotWhole(String),
    #[error("parentheses are nested too deep")]
    Nested,
    #[error("a parenthesis is not closed")]
    Parenthesis,
    #[error("a comparison is missing: <, <=, ==, !=, >= or >")]
    NoComparison,
    #[error("a division by 0")]
    Division,
    #[error("a number grows too large")]
    Overflow,
    #[error(
        "`{0}` is not known: neither set by `let` or `repeat ... as` above, nor one of {names}, cc.NAME",
        names = INFO.iter().map(|(known, _)| *known).collect::<Vec<_>>().join(", ")
    )]
    Unknown(String),

    // Settings.
    #[error("`{0}` belongs before the first event")]
    TooLate(String),
    #[error("`{0}` says nothing")]
    Empty(String),
    #[error("`{0}`: parameters are NAME=VALUE")]
    Parameter(String),
    #[error("a sysctl is written NAME = VALUE")]
    Sysctl,
    #[error("the sysctl `{0}` is not one that scripts may set: {known}", known = SYSCTLS.join(", "))]
    OtherSysctl(String),
    #[error("`{name} = {value}`: the value is a number, or several")]
    SysctlValue { name: String, value: String },
    #[error("`{0}` is not known here")]
    UnknownHere(String),
    #[error("`{word} {value}`: it goes from {range}")]
    Outside { word: String, value: i128, range: String },
    #[error("`ip` is 4 or 6")]
    Ip,
    #[error("`base_rtt` is a time")]
    BaseRtt,
    #[error("`{0}` is no version such as 6.12")]
    Version(String),

    // Blocks.
    #[error("blocks are nested deeper than {MAX_DEPTH}")]
    Depth,
    #[error("`let {0}` is followed by `=` and a number")]
    Let(String),
    #[error("`{0}` means something already: choose another name")]
    Taken(String),
    #[error("`else` belongs after `if`")]
    Else,
    #[error("`end` ends nothing")]
    End,

    // Events.
    #[error(
        "`{0}` is no event: open, connect, listen, in, out, write, read, close, set, expect, wait, show, let, repeat, if"
    )]
    Event(String),
    #[error("a range of times is for `out` only")]
    Range,
    #[error("`{0}` is no option: algorithm, {known}", known = OPTIONS.join(", "))]
    Option(String),
    #[error("algorithms are compared with == or !=")]
    AlgorithmComparison,
    #[error("`{0}`: a handshake has `rtt TIME` and `ecn`")]
    Handshake(String),
    #[error("`open {0}`: it is `open active` or `open passive`")]
    Open(String),

    // Segments.
    #[error("`{letter}` in [{letters}] is no flag: S F R P . U E W e, as tcpdump writes them")]
    Flag { letter: char, letters: String },
    #[error(
        "`{0}` is no part of a segment: seq, len, ack, win, ect0, ect1, ce, not_ect, sack, ts, ecr, mss, wscale, \
         sack_ok, no_sack, no_wscale, no_ts, as, lost"
    )]
    Part(String),
    #[error("`{0}` is for a segment with the flag S only")]
    OfASyn(String),
    #[error("`{item}` is for `{which}` only")]
    OneWay { item: String, which: &'static str },
    #[error("`{0}` is said twice")]
    Twice(String),
    #[error("either `{before}` or `{item}`, not both")]
    Either { before: String, item: String },
    #[error("either `len` or the end of `seq`, not both")]
    LenOrEnd,
    #[error("a SACK range is START:END")]
    SackRange,
    #[error("a segment has room for 4 SACK ranges")]
    Sacks,
    #[error("no segment above is named `{0}` (`out ... as {0}`)")]
    NoSegment(String),
}

impl From<Mistake> for String {
    fn from(mistake: Mistake) -> String {
        mistake.to_string()
    }
}
