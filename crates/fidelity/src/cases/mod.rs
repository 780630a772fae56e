//! The reference cases, table by table.

mod bulk_mix;
mod completions;
mod convergence;
mod incast;
mod long_flow;
mod pie;
mod rpc;
mod series;

use crate::Error;
use crate::case::{Case, Measured};
use crate::compare::Line;
use crate::reference::{Reference, Row};
use crate::setup::Algo;
use knee_run::outcome::Outcome;
use knee_run::spec::Run;
use std::collections::BTreeMap;

/// Cases to rerun.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where the reference tables are.
    pub reference: Reference,
    /// Runs per case where chance plays a part and the reference does not say how many.
    pub seeds: usize,
    /// Leaves out what takes long.
    pub is_quick: bool,
    /// Only cases whose name contains this.
    pub only: Option<String>,
}

impl Plan {
    fn seeds(&self) -> Vec<f64> {
        (1..=self.seeds).map(|seed| seed as f64).collect()
    }
}

/// The cases, and what could not be one.
#[derive(Default)]
pub struct Cases {
    /// Cases in the order of the tables.
    pub cases: Vec<Case>,
    /// Algorithms in the tables that are not there, with their rows.
    pub skipped: BTreeMap<String, usize>,
}

impl Cases {
    /// The algorithm of a row; `None`, and noted, if it is not there.
    fn algo(&mut self, row: &Row) -> Option<Algo> {
        let name = row.text("algo");
        let algo = Algo::by_name(name);
        if algo.is_none() {
            *self.skipped.entry(name.to_owned()).or_default() += 1;
        }
        algo
    }

    fn add(
        &mut self,
        name: String,
        runs: Vec<Run>,
        measure: impl Fn(&Outcome) -> Measured + Send + Sync + 'static,
        judge: impl Fn(&[Measured]) -> Result<Vec<Line>, Error> + Send + Sync + 'static,
    ) {
        let measure = Box::new(move |outcome| measure(&outcome));
        self.cases.push(Case { name, runs, measure, judge: Box::new(judge) });
    }
}

/// All cases of a plan.
///
/// # Errors
/// If a reference table cannot be read.
pub fn build(plan: &Plan) -> Result<Cases, Error> {
    let mut cases = Cases::default();
    series::build(plan, &mut cases)?;
    bulk_mix::build(plan, &mut cases)?;
    incast::build(plan, &mut cases)?;
    convergence::build(plan, &mut cases)?;
    pie::build(plan, &mut cases)?;
    long_flow::build(plan, &mut cases)?;
    rpc::build(plan, &mut cases)?;
    if let Some(only) = &plan.only {
        cases.cases.retain(|case| case.name.contains(only.as_str()));
    }
    Ok(cases)
}
