//! What happened during a script, in lines: the first and the last ones, and how many are left out between them.

use std::collections::VecDeque;

/// Lines that are kept of the beginning, and of the end.
pub(crate) const LINES: usize = 5_000;

/// The account of a script that is played.
#[derive(Debug, Default)]
pub(crate) struct Account {
    first: Vec<String>,
    last: VecDeque<String>,
    left_out: u64,
}

impl Account {
    pub(crate) fn push(&mut self, line: String) {
        if self.first.len() < LINES {
            self.first.push(line);
            return;
        }
        if self.last.len() == LINES {
            self.last.pop_front();
            self.left_out += 1;
        }
        self.last.push_back(line);
    }

    /// Returns the lines, with a line in place of those left out, and the number of these.
    pub(crate) fn finish(self) -> (Vec<String>, u64) {
        let mut lines = self.first;
        if self.left_out > 0 {
            lines.push(format!("... {} lines are left out here ...", self.left_out));
        }
        lines.extend(self.last);
        (lines, self.left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_a_long_account_is_counted() {
        let of = |lines: usize| {
            let mut account = Account::default();
            (0..lines).for_each(|line| account.push(line.to_string()));
            account.finish()
        };
        assert_eq!(of(2 * LINES).1, 0);
        assert_eq!(of(2 * LINES).0.len(), 2 * LINES);
        let (lines, left_out) = of(2 * LINES + 7);
        assert_eq!((left_out, lines.len()), (7, 2 * LINES + 1));
        assert_eq!(lines[LINES], "... 7 lines are left out here ...");
        assert_eq!(lines[LINES + 1], (LINES + 7).to_string());
    }
}
