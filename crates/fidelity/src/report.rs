//! Tables of what was found: for a terminal, as Markdown, as JSON.

use crate::compare::{Line, Verdict};
use crate::exceptions::Exception;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Results of all cases.
#[derive(Debug, Default)]
pub struct Report {
    /// Cases with their lines, in the order of the tables.
    pub cases: Vec<(String, Vec<Line>)>,
    /// Algorithms of the tables that do not exist, with their rows.
    pub skipped: BTreeMap<String, usize>,
}

impl Line {
    /// The verdict in a word: of a difference that an exception covers, `known`.
    fn word(&self) -> &'static str {
        match (&self.cause, self.verdict) {
            (Some(_), _) => "known",
            (None, Verdict::Ok) => "ok",
            (None, Verdict::Differs) => "DIFFERS",
            (None, Verdict::Undecided) => "undecided",
        }
    }

    fn cells(&self) -> [String; 8] {
        let percent = |value: f64| match self.scale {
            0.0 => "-".to_owned(),
            scale => format!("{:.1}", 100.0 * value / scale),
        };
        let separator = if self.note.is_empty() { "" } else { "; " };
        let cause = self.cause.as_ref().map(|cause| format!("{separator}known: {cause}"));
        [
            self.metric.clone(),
            number(self.theirs),
            number(self.ours),
            percent(self.difference()),
            self.half_width.map_or("-".to_owned(), percent),
            format!("{}/{}", self.theirs_runs, self.ours_runs),
            self.word().to_owned(),
            format!("{}{}", self.note, cause.unwrap_or_default()),
        ]
    }
}

impl Report {
    /// Adds a case; differences that an exception covers have its cause.
    pub fn add(&mut self, case: &str, mut lines: Vec<Line>, exceptions: &[Exception]) {
        for line in lines.iter_mut().filter(|line| line.verdict == Verdict::Differs) {
            let known = exceptions.iter().find(|known| known.covers(case, &line.metric));
            line.cause = known.map(|known| known.cause.clone());
        }
        self.cases.push((case.to_owned(), lines));
    }

    /// How many lines are outside of the rule, without a known cause.
    pub fn differs(&self) -> usize {
        self.counts()[1]
    }

    /// How many lines are within the rule, outside of it, undecided, and outside of it with a known cause.
    fn counts(&self) -> [usize; 4] {
        let words = || self.cases.iter().flat_map(|case| &case.1).map(Line::word);
        ["ok", "DIFFERS", "undecided", "known"].map(|word| words().filter(|of| *of == word).count())
    }

    /// The report as aligned text; `only_remarkable` leaves out lines that are ok.
    pub fn text(&self, only_remarkable: bool) -> String {
        let mut out = String::new();
        for (case, lines) in &self.cases {
            let lines: Vec<&Line> = lines
                .iter()
                .filter(|line| !only_remarkable || line.verdict != Verdict::Ok)
                .collect();
            if lines.is_empty() {
                continue;
            }
            let mut rows = vec![HEAD.map(str::to_owned)];
            rows.extend(lines.iter().map(|line| line.cells()));
            let widths: Vec<usize> = (0..HEAD.len())
                .map(|i| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0))
                .collect();
            let _ = writeln!(out, "{case}");
            for row in &rows {
                let mut text = String::from("  ");
                for (i, (cell, width)) in row.iter().zip(&widths).enumerate() {
                    let is_text = i == 0 || i >= 6;
                    let _ = match is_text {
                        true => write!(text, "{cell:<width$}  "),
                        false => write!(text, "{cell:>width$}  "),
                    };
                }
                let _ = writeln!(out, "{}", text.trim_end());
            }
            out.push('\n');
        }
        out
    }

    /// The last lines: what was skipped, how many ended how.
    pub fn summary(&self) -> String {
        let [ok, differs, undecided, known] = self.counts();
        let mut out = String::new();
        if !self.skipped.is_empty() {
            let _ = writeln!(out, "skipped: {}", self.skipped_text());
        }
        let _ = writeln!(
            out,
            "{} cases, {} metrics: {ok} ok, {differs} differ, {undecided} undecided, \
             {known} known exceptions",
            self.cases.len(),
            ok + differs + undecided + known
        );
        out
    }

    fn skipped_text(&self) -> String {
        let rows = self.skipped.iter().map(|(name, rows)| format!("{name} ({rows} rows)"));
        format!("{}: no result yet", rows.collect::<Vec<_>>().join(", "))
    }

    /// The report as a page of the documentation.
    pub fn markdown(&self) -> String {
        let [ok, differs, undecided, known] = self.counts();
        let mut out = String::from(
            "# Fidelity\n\nMade by `make fidelity`: the simulator against the real TCP stack of Linux \
             6.1 (`tests/reference`).\n\nDifference and half-width of its 95 % interval are in percent \
             of theirs (of one event per run at least for counters; percentage points for shares). \
             Runs are theirs/ours. A line is ok if the difference is within 5 % or within its \
             interval, undecided if the interval is wider than 15 %.\n\n",
        );
        let _ = writeln!(out, "| ok | differ | undecided | known exceptions |");
        let _ = writeln!(out, "| ---: | ---: | ---: | ---: |");
        let _ = writeln!(out, "| {ok} | {differs} | {undecided} | {known} |\n");
        if !self.skipped.is_empty() {
            let _ = writeln!(out, "Skipped: {}.\n", self.skipped_text());
        }
        for (case, lines) in &self.cases {
            let _ = writeln!(out, "## {case}\n\n| {} |", HEAD.join(" | "));
            let _ = writeln!(out, "| --- | ---: | ---: | ---: | ---: | ---: | --- | --- |");
            for line in lines {
                let cells = line.cells().map(|cell| cell.replace('|', "\\|"));
                let _ = writeln!(out, "| {} |", cells.join(" | "));
            }
            out.push('\n');
        }
        out
    }

    /// The report as JSON.
    pub fn json(&self) -> Value {
        let line = |line: &Line| {
            json!({
                "metric": line.metric,
                "theirs": line.theirs,
                "theirs_runs": line.theirs_runs,
                "ours": line.ours,
                "ours_runs": line.ours_runs,
                "difference": line.difference(),
                "half_width_95": line.half_width,
                "scale": line.scale,
                "verdict": line.word().to_lowercase(),
                "cause": line.cause,
                "note": line.note,
            })
        };
        let case = |(case, lines): &(String, Vec<Line>)| json!({ "case": case, "lines": lines.iter().map(line).collect::<Vec<_>>() });
        let [ok, differs, undecided, known] = self.counts();
        json!({
            "ok": ok,
            "differs": differs,
            "undecided": undecided,
            "exceptions": known,
            "skipped": self.skipped,
            "cases": self.cases.iter().map(case).collect::<Vec<_>>(),
        })
    }
}

const HEAD: [&str; 8] =
    ["metric", "theirs", "ours", "diff %", "+- 95 %", "runs", "verdict", "note"];

/// Five significant digits, without a power of ten.
fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let digits = 4 - value.abs().log10().floor() as i32;
    format!("{value:.*}", digits.clamp(0, 9) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare;

    fn report() -> Report {
        let lines = vec![
            compare::exact("goodput_mbps", 100.0, 101.0, 0.0),
            compare::exact("cwnd", 100.0, 120.0, 0.0),
            compare::exact("drops", 100.0, 50.0, 0.0),
        ];
        let known = Exception {
            case: "one/*".to_owned(),
            metric: "drops".to_owned(),
            cause: "rounding".to_owned(),
        };
        let skipped = BTreeMap::from([("bbr".to_owned(), 3)]);
        let mut report = Report { skipped, ..Report::default() };
        report.add("one/dctcp", lines, &[known]);
        report
    }

    #[test]
    fn an_exception_is_counted_apart() {
        assert_eq!(report().counts(), [1, 1, 0, 1]);
        assert_eq!(report().json()["differs"], 1);
    }

    #[test]
    fn the_table_is_aligned() {
        let expected = "\
one/dctcp
  metric        theirs    ours  diff %  +- 95 %  runs  verdict  note
  goodput_mbps  100.00  101.00     1.0        -   1/1  ok
  cwnd          100.00  120.00    20.0        -   1/1  DIFFERS
  drops         100.00  50.000   -50.0        -   1/1  known    known: rounding

";
        assert_eq!(report().text(false), expected);
        assert!(!report().text(true).contains("goodput"));
        assert!(report().summary().starts_with("skipped: bbr (3 rows): no result yet\n1 cases"));
        assert!(
            report().markdown().contains("| drops | 100.00 | 50.000 | -50.0 | - | 1/1 | known |")
        );
    }

    #[test]
    fn numbers_have_five_digits() {
        assert_eq!(number(956.406), "956.41");
        assert_eq!(number(0.0189261), "0.018926");
        assert_eq!(number(412_776.0), "412776");
        assert_eq!(number(0.0), "0");
    }
}
