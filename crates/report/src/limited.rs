//! Runs that a host limited, and why: figures of these are the host's.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use knee_results::rows::Run;
use knee_results::{CASE, Error, HOST_LIMITED, Manifest, ResultFile};

use crate::text::escaped;

/// Cases that are named; more are counted.
const MOST_CASES: usize = 12;
/// A reason is a sentence; what is longer is cut.
const LONGEST_REASON: usize = 1000;

/// Host-limited runs by case.
#[derive(Default)]
pub(crate) struct Limited {
    cases: BTreeMap<String, LimitedCase>,
}

#[derive(Default)]
struct LimitedCase {
    runs: u64,
    limited: u64,
    /// Reason of the first limited run.
    reason: String,
}

impl Limited {
    /// Reads the runs of a results directory; those of an older knee have no verdicts.
    pub(crate) fn read(manifest: &Manifest) -> Result<Limited, Error> {
        let mut limited = Limited::default();
        let Some(mut table) = ResultFile::Run.open(&manifest.dir)? else {
            return Ok(limited);
        };
        let columns = (table.find(CASE), table.find(Run::verdict), table.find(Run::limits));
        let (Some(case), Some(verdict), Some(limits)) = columns else { return Ok(limited) };
        while let Some(row) = table.next()? {
            let of_case = limited.cases.entry(row.text(case).to_owned()).or_default();
            of_case.runs += 1;
            if row.text(verdict) != HOST_LIMITED {
                continue;
            }
            if of_case.limited == 0 {
                of_case.reason = row.text(limits).chars().take(LONGEST_REASON).collect();
            }
            of_case.limited += 1;
        }
        limited.cases.retain(|_, of_case| of_case.limited > 0);
        Ok(limited)
    }

    /// Nothing where there are none.
    pub(crate) fn html(&self) -> String {
        if self.cases.is_empty() {
            return String::new();
        }
        let mut out = String::from(
            "<div class=\"warn\"><p>The host limited some runs. Figures leave these out. Without \
             other runs, figures show the host, not algorithms and queues.</p><ul>",
        );
        for (case, of_case) in self.cases.iter().take(MOST_CASES) {
            let _ = write!(
                out,
                "<li>{}: {} of {} runs: {}</li>",
                escaped(case),
                of_case.limited,
                of_case.runs,
                escaped(&of_case.reason)
            );
        }
        if self.cases.len() > MOST_CASES {
            let _ = write!(out, "<li>and {} more cases</li>", self.cases.len() - MOST_CASES);
        }
        out.push_str("</ul></div>");
        out
    }
}
