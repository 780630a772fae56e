//! Lines of a script with the times between them.

use std::fmt::Write as _;

/// Events closer than this form one burst, ns.
const BURST_NS: u64 = 50_000;
/// A tick of the coarse clock of most kernels, ns: their timers are late by up to one.
const TICK_NS: u64 = 4_000_000;
/// Shortest run of equal lines that is written as a loop.
const LEAST_REPEAT: usize = 3;

/// How exactly the stack must keep the recorded times.
#[derive(Clone, Copy)]
pub(super) struct Tolerance {
    /// The recording is the simulator's.
    pub(super) is_exact: bool,
}

impl Tolerance {
    /// Text of the time of a segment sent `gap_ns` after the event before; empty: at once.
    fn of(self, gap_ns: u64) -> String {
        if gap_ns == 0 || (!self.is_exact && gap_ns <= BURST_NS) {
            return String::new();
        }
        let (below, above) = if self.is_exact {
            // A host's own queue holds back a few segments, which a script has nothing of.
            let below = if gap_ns <= BURST_NS { gap_ns } else { gap_ns / 20 };
            (below, gap_ns / 20 + 1_000)
        } else {
            // Timers of Linux are late by up to an eighth, and by a tick.
            let tick = if gap_ns >= TICK_NS { TICK_NS } else { 0 };
            (gap_ns / 8, gap_ns / 8 + tick)
        };
        let (earliest, latest) = (round(gap_ns - below, false), round(gap_ns + above, true));
        format!("+{}..{} ", span(earliest), span(latest))
    }
}

/// Three digits are enough of a range's end.
fn round(ns: u64, up: bool) -> u64 {
    let unit = 10_u64.pow(ns.max(1).ilog10().saturating_sub(2));
    if up { ns.div_ceil(unit).saturating_mul(unit) } else { ns / unit * unit }
}

/// A time as scripts write it, exactly.
pub(super) fn span(ns: u64) -> String {
    let (unit, digits, name) = match ns {
        1_000_000_000.. => (1_000_000_000, 9, "s"),
        1_000_000.. => (1_000_000, 6, "ms"),
        1_000.. => (1_000, 3, "us"),
        _ => return format!("{ns}ns"),
    };
    let text = format!("{}.{:0digits$}", ns / unit, ns % unit);
    format!("{}{name}", text.trim_end_matches('0').trim_end_matches('.'))
}

struct Line {
    text: String,
    is_out: bool,
}

pub(super) struct Lines {
    tolerance: Tolerance,
    /// When the event before was, ns since the first segment.
    last_ns: u64,
    lines: Vec<Line>,
}

impl Lines {
    pub(super) fn new(tolerance: Tolerance) -> Lines {
        Lines { tolerance, last_ns: 0, lines: Vec::new() }
    }

    /// Something at the time of the event before.
    pub(super) fn now(&mut self, text: String) {
        self.lines.push(Line { text, is_out: false });
    }

    /// Something that the script does at its time.
    pub(super) fn exactly(&mut self, at_ns: u64, text: String) {
        let gap_ns = at_ns.saturating_sub(self.last_ns);
        self.last_ns = at_ns;
        let text = if gap_ns == 0 { text } else { format!("+{} {text}", span(gap_ns)) };
        self.lines.push(Line { text, is_out: false });
    }

    /// Something that the stack must do.
    pub(super) fn out(&mut self, at_ns: u64, text: String) {
        let time = self.tolerance.of(at_ns.saturating_sub(self.last_ns));
        self.last_ns = at_ns;
        self.lines.push(Line { text: format!("{time}{text}"), is_out: true });
    }

    /// The lines, runs of equal segments of the stack as loops, and what a round trip holds as paragraphs.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let mut index = 0;
        let mut was_out = false;
        while let Some(line) = self.lines.get(index) {
            if was_out && !line.is_out && index > 0 {
                text.push('\n');
            }
            was_out = line.is_out;
            let run = self.lines[index..].iter().take_while(|next| next.text == line.text).count();
            if line.is_out && run >= LEAST_REPEAT {
                let _ = writeln!(text, "repeat {run}\n  {}\nend", line.text);
                index += run;
            } else {
                let _ = writeln!(text, "{}", line.text);
                index += 1;
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_exactly_in_the_largest_unit() {
        assert_eq!(span(0), "0ns");
        assert_eq!(span(999), "999ns");
        assert_eq!(span(12_340), "12.34us");
        assert_eq!(span(200_000_001), "200.000001ms");
        assert_eq!(span(3_000_000_000), "3s");
    }

    #[test]
    fn what_a_capture_shows_within_a_burst_has_no_time() {
        let capture = Tolerance { is_exact: false };
        assert_eq!(capture.of(49_000), "");
        assert_eq!(capture.of(800_000), "+700us..900us ");
        assert_eq!(capture.of(200_000_000), "+175ms..229ms ");
    }

    #[test]
    fn times_of_the_simulator_are_kept_to_a_twentieth() {
        let exact = Tolerance { is_exact: true };
        assert_eq!(exact.of(0), "");
        assert_eq!(exact.of(12_000), "+0ns..13.6us ");
        assert_eq!(exact.of(200_000_000), "+190ms..211ms ");
    }
}
