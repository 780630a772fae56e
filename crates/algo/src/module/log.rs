//! Kernel log of modules: the output of `printk` and related functions.

use std::cell::RefCell;

/// Most log lines of one copy. A module that prints on every ACK would fill the memory.
const MOST_LINES: usize = 10_000;
/// Most bytes of a line, as in a kernel.
const MOST_BYTES: usize = 1024;

/// A line that a module printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Printed {
    /// Simulated time in ns.
    pub at_ns: u64,
    /// The flow whose call printed the line. `None` outside of flows, as in `module_init`.
    pub flow: Option<u32>,
    /// The kernel's log level, from 0 (emergency) to 7 (debug).
    pub level: u8,
    pub text: String,
}

/// The lines of one copy, in order.
#[derive(Debug, Default)]
pub(super) struct Log(RefCell<Lines>);

#[derive(Debug, Default)]
struct Lines {
    printed: Vec<Printed>,
    /// Number of lines that were dropped.
    left_out: u64,
}

/// Level of a text that continues the previous line.
const CONTINUED: u32 = 8;

impl Log {
    /// Adds a printed text, which may consist of several lines.
    pub(super) fn add(&self, at_ns: u64, flow: Option<u32>, level: u32, text: &str) {
        let mut lines = self.0.borrow_mut();
        let text = text.strip_suffix('\n').unwrap_or(text);
        if level == CONTINUED && lines.left_out == 0 {
            let fits = |last: &&mut Printed| {
                last.flow == flow && last.text.len() + text.len() <= MOST_BYTES
            };
            if let Some(last) = lines.printed.last_mut().filter(fits) {
                last.text.push_str(text);
                return;
            }
        }
        for line in text.lines() {
            if lines.printed.len() == MOST_LINES {
                lines.left_out += 1;
                continue;
            }
            let level = u8::try_from(level).unwrap_or(4).min(7);
            lines.printed.push(Printed { at_ns, flow, level, text: line.to_owned() });
        }
    }

    /// Takes all lines. A last line states how many were dropped.
    pub(super) fn take(&self) -> Vec<Printed> {
        let mut lines = std::mem::take(&mut *self.0.borrow_mut());
        if let Some(last) = lines.printed.last().filter(|_| lines.left_out > 0) {
            let text = format!("knee: {} more lines were left out", lines.left_out);
            lines.printed.push(Printed { flow: None, level: 4, text, ..*last });
        }
        lines.printed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_apart_and_goes_on_where_one_did() {
        let log = Log::default();
        log.add(5, Some(1), 6, "a\nb\n");
        log.add(6, Some(1), CONTINUED, " c\n");
        log.add(7, None, 4, "d");
        let printed = log.take();
        let shown: Vec<_> =
            printed.iter().map(|line| (line.at_ns, line.flow, &*line.text)).collect();
        assert_eq!(shown, [(5, Some(1), "a"), (5, Some(1), "b c"), (7, None, "d")]);
        assert_eq!(log.take(), []);
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let log = Log::default();
        for _ in 0..MOST_LINES + 3 {
            log.add(1, None, 6, "x");
        }
        let printed = log.take();
        assert_eq!(printed.len(), MOST_LINES + 1);
        assert_eq!(printed[MOST_LINES].text, "knee: 3 more lines were left out");
    }
}
