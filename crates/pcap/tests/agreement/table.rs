//! The table of what was inferred beside what was recorded.
#![allow(dead_code, reason = "each test takes what it needs")]

use std::fmt::Write as _;

/// An inferred value, the recorded one, and the range allowed for the former.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) inferred: f64,
    pub(crate) record: f64,
    low: f64,
    high: f64,
}

/// Both are the same number.
pub(crate) fn same(inferred: u64, record: u64) -> Pair {
    within(inferred, record, 0, 0)
}

/// The inferred one may be less by `below`, and more by `above`.
pub(crate) fn within(inferred: u64, record: u64, below: u64, above: u64) -> Pair {
    let [inferred, record, below, above] = [inferred, record, below, above].map(|n| n as f64);
    Pair { inferred, record, low: record - below, high: record + above }
}

/// The record must be in a range, in which the inferred one is.
pub(crate) fn between(inferred: u64, record: u64, low: u64, high: u64) -> Pair {
    let [inferred, record, low, high] = [inferred, record, low, high].map(|n| n as f64);
    let (below, above) = (inferred - low, high - inferred);
    Pair { inferred, record, low: record - above, high: record + below }
}

impl Pair {
    fn holds(&self) -> bool {
        (self.low..=self.high).contains(&self.inferred)
    }
}

/// A row: several pairs, as their sums or their means.
struct Row {
    case: String,
    at: &'static str,
    quantity: &'static str,
    allowed: &'static str,
    pairs: Vec<Pair>,
    /// Samples over time: compare means, not sums.
    is_series: bool,
    /// How many of the pairs must hold, of 1.
    share: f64,
}

/// Rows as they come.
#[derive(Default)]
pub(crate) struct Table(Vec<Row>);

/// Where rows belong to: the case, and where its capture was made.
pub(crate) struct Of<'a> {
    pub(crate) table: &'a mut Table,
    pub(crate) case: &'a str,
    pub(crate) at: &'static str,
}

impl Of<'_> {
    /// A count of each flow; the row has the sums.
    pub(crate) fn count(
        &mut self,
        quantity: &'static str,
        allowed: &'static str,
        pairs: impl IntoIterator<Item = Pair>,
    ) {
        self.row(quantity, allowed, pairs.into_iter().collect(), false, 1.0);
    }

    /// Values at many moments; the row has the means.
    pub(crate) fn series(
        &mut self,
        quantity: &'static str,
        allowed: &'static str,
        pairs: impl IntoIterator<Item = Pair>,
    ) {
        self.row(quantity, allowed, pairs.into_iter().collect(), true, 1.0);
    }

    /// The same where a share of the values must hold.
    pub(crate) fn share(
        &mut self,
        quantity: &'static str,
        allowed: &'static str,
        share: f64,
        pairs: Vec<Pair>,
    ) {
        self.row(quantity, allowed, pairs, true, share);
    }

    fn row(
        &mut self,
        quantity: &'static str,
        allowed: &'static str,
        pairs: Vec<Pair>,
        is_series: bool,
        share: f64,
    ) {
        // Nothing beside nothing says nothing.
        let is_empty = pairs.iter().all(|pair| pair.inferred == 0.0 && pair.record == 0.0);
        if !is_empty {
            let case = self.case.to_owned();
            let at = self.at;
            self.table.0.push(Row { case, at, quantity, allowed, pairs, is_series, share });
        }
    }
}

impl Row {
    fn holds(&self) -> bool {
        let holding = self.pairs.iter().filter(|pair| pair.holds()).count();
        holding as f64 >= self.share * self.pairs.len() as f64
    }

    /// The sum, or the mean of a series, of what was inferred and of what was recorded.
    fn both(&self) -> [String; 2] {
        let over = if self.is_series { self.pairs.len() as f64 } else { 1.0 };
        let digits = if self.is_series { 1 } else { 0 };
        let of: [fn(&Pair) -> f64; 2] = [|pair| pair.inferred, |pair| pair.record];
        of.map(|of| format!("{:.digits$}", self.pairs.iter().map(of).sum::<f64>() / over))
    }

    fn largest_difference(&self) -> f64 {
        let differences = self.pairs.iter().map(|pair| pair.inferred - pair.record);
        differences.fold(0.0_f64, |a, b| if b.abs() > a.abs() { b } else { a })
    }

    fn line(&self) -> String {
        let [inferred, record] = self.both();
        format!(
            "| {} | {} | {} | {} | {inferred} | {record} | {} | {} |",
            self.case,
            self.at,
            self.quantity,
            self.pairs.len(),
            self.largest_difference(),
            self.allowed
        )
    }

    fn cell(&self) -> String {
        let [inferred, record] = self.both();
        match (self.largest_difference(), self.is_series) {
            (0.0, _) => record,
            (_, false) => format!("{inferred} of {record}"),
            (largest, true) => format!("{inferred} of {record}, at most {largest:+}"),
        }
    }
}

impl Table {
    /// The table as Markdown.
    pub(crate) fn text(&self) -> String {
        let mut out = String::from(
            "| case | captured at | quantity | of | inferred | recorded | largest difference | allowed |\n\
             | --- | --- | --- | ---: | ---: | ---: | ---: | --- |\n",
        );
        for row in &self.0 {
            let _ = writeln!(out, "{}", row.line());
        }
        out
    }

    /// A line for each case and a column for each quantity, of what was captured at one place, counts or series: one figure
    /// where all are equal, else what was inferred and what was recorded, of series with the largest difference.
    pub(crate) fn matrix(&self, at: &str, is_series: bool) -> String {
        let rows = || self.0.iter().filter(|row| row.at == at && row.is_series == is_series);
        let (mut quantities, mut cases) = (Vec::new(), Vec::new());
        for row in rows() {
            if !quantities.contains(&row.quantity) {
                quantities.push(row.quantity);
            }
            if !cases.contains(&&row.case) {
                cases.push(&row.case);
            }
        }
        let mut out = format!("| {at} | {} |\n| ---", quantities.join(" | "));
        out.push_str(&" | ---:".repeat(quantities.len()));
        out.push_str(" |\n");
        for case in cases {
            let _ = write!(out, "| {case}");
            for quantity in &quantities {
                let row = rows().find(|row| row.case == *case && row.quantity == *quantity);
                let _ = write!(out, " | {}", row.map_or_else(String::new, Row::cell));
            }
            out.push_str(" |\n");
        }
        out
    }

    /// Rows that do not hold.
    pub(crate) fn failed(&self) -> Vec<String> {
        self.0.iter().filter(|row| !row.holds()).map(Row::line).collect()
    }

    /// The recorded value of a quantity in a case.
    pub(crate) fn recorded(&self, case: &str, quantity: &str) -> f64 {
        let rows = self.0.iter().filter(|row| row.case == case && row.quantity == quantity);
        rows.flat_map(|row| &row.pairs).map(|pair| pair.record).sum()
    }
}
