//! Times of events: `0.1`, `+.1`, `+.1~+.2`, `*`, and `+0...0.2` for a call that blocks.

use super::Reader;
use super::scan::{Scanner, Trouble};
use crate::expression::Expr;
use crate::script::When;

/// Latest time of an event that may come at any time, ns: a packet that is not there by then does not come.
const ANY_NS: u64 = 60_000_000_000;
/// Longest time that a file may give, s.
const MOST_S: u64 = 1 << 20;

/// When an event happens.
#[derive(Clone, Debug)]
pub(super) struct Timed {
    from_start: bool,
    earliest_ns: u64,
    latest_ns: Option<u64>,
    is_any: bool,
    /// A call that blocks returns then.
    pub(super) returns_ns: Option<u64>,
}

impl Timed {
    /// At once after the event before.
    pub(super) fn now() -> Timed {
        Timed {
            from_start: false,
            earliest_ns: 0,
            latest_ns: None,
            is_any: false,
            returns_ns: None,
        }
    }

    pub(super) fn is_now(&self) -> bool {
        !self.from_start && self.earliest_ns == 0
    }

    pub(super) fn when(&self) -> When {
        let number = |ns: u64| Expr::Number(i128::from(ns));
        When {
            from_start: self.from_start,
            earliest: number(self.earliest_ns),
            latest: self.latest_ns.map(number),
            is_any: self.is_any,
        }
    }
}

impl Reader<'_> {
    pub(super) fn time(&mut self) -> Result<Timed, Trouble> {
        let scan = &mut self.scan;
        if scan.take("*") {
            return Ok(Timed { latest_ns: Some(ANY_NS), is_any: true, ..Timed::now() });
        }
        let from_start = !scan.take("+");
        let earliest_ns = seconds(scan)?;
        let mut timed = Timed { from_start, earliest_ns, ..Timed::now() };
        if scan.take("~") {
            scan.take("+");
            timed.latest_ns = Some(seconds(scan)?);
        } else if scan.take("...") {
            scan.take("+");
            timed.returns_ns = Some(seconds(scan)?);
        }
        Ok(timed)
    }
}

/// A number of seconds with up to nine decimals, in ns.
fn seconds(scan: &mut Scanner<'_>) -> Result<u64, Trouble> {
    scan.skip();
    let whole = scan.take_digits();
    let fraction = if scan.begins_fraction() {
        scan.take(".");
        scan.take_digits()
    } else {
        ""
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(scan.expected("the time of an event, such as +.1"));
    }
    let too_long = |scan: &Scanner<'_>| {
        scan.mistake(format!(
            "the time {whole}.{fraction} s is too long or too fine: at most {MOST_S} s, in whole ns"
        ))
    };
    if fraction.len() > 9 {
        return Err(too_long(scan));
    }
    let whole_s = if whole.is_empty() { Ok(0) } else { whole.parse::<u64>() };
    match whole_s {
        Ok(whole_s) if whole_s <= MOST_S => {
            let ns = format!("{fraction:0<9}").parse::<u64>().unwrap_or(0);
            Ok(whole_s * 1_000_000_000 + ns)
        }
        _ => Err(too_long(scan)),
    }
}
