//! Progress of a long command: on a terminal one line that is overwritten, elsewhere a line now and then.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Interval between updates on a terminal.
const ON_TERMINAL: Duration = Duration::from_millis(100);
/// Interval between lines in a file or pipe.
const ELSEWHERE: Duration = Duration::from_secs(30);

/// The progress line on stderr.
pub(crate) struct Line {
    pub(crate) started: Instant,
    shown: Option<Instant>,
    on_terminal: bool,
}

impl Line {
    pub(crate) fn new() -> Line {
        let on_terminal = io::stderr().is_terminal();
        Line { started: Instant::now(), shown: None, on_terminal }
    }

    /// Returns whether an update is due. Without a terminal, a short command prints nothing.
    pub(crate) fn is_due(&self) -> bool {
        match (self.shown, self.on_terminal) {
            (None, true) => true,
            (Some(shown), true) => shown.elapsed() >= ON_TERMINAL,
            (shown, false) => shown.unwrap_or(self.started).elapsed() >= ELSEWHERE,
        }
    }

    pub(crate) fn write(&mut self, text: &str) {
        // An error is ignored, because progress is not needed.
        let _ = self.write_to(&mut io::stderr().lock(), text);
    }

    fn write_to(&mut self, out: &mut dyn Write, text: &str) -> io::Result<()> {
        self.shown = Some(Instant::now());
        match self.on_terminal {
            true => write!(out, "\r\x1b[K{text}")?,
            false => writeln!(out, "{text}")?,
        }
        out.flush()
    }

    /// Removes the line from the terminal.
    pub(crate) fn clear(&mut self) {
        if self.on_terminal && self.shown.take().is_some() {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started_before(secs: u64, on_terminal: bool) -> Line {
        let started = Instant::now().checked_sub(Duration::from_secs(secs)).expect("long up");
        Line { started, shown: None, on_terminal }
    }

    #[test]
    fn where_there_is_no_terminal_a_whole_line_comes_every_half_minute() {
        let mut line = started_before(31, false);
        assert!(line.is_due());
        let mut out = Vec::new();
        line.write_to(&mut out, "x: 1 of 2 runs, 31 s").unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "x: 1 of 2 runs, 31 s\n");
        assert!(!line.is_due(), "the next in half a minute");
        assert!(!started_before(0, false).is_due(), "what is soon done is silent");
    }

    #[test]
    fn on_a_terminal_it_is_there_at_once_and_written_over() {
        let mut line = started_before(0, true);
        assert!(line.is_due());
        let mut out = Vec::new();
        line.write_to(&mut out, "x").unwrap();
        assert_eq!(out, b"\r\x1b[Kx");
    }
}
