//! What algorithms from files say in the simulations of links: warnings, and lines that modules print.
//!
//! A flow is in several simulations, and a host in as many as it has flows. Each warning of a flow, and each line of a flow or
//! a host, is kept once, at its earliest time.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use knee_algo::Warning;
use knee_queue::time::{Duration, Time};
use knee_run::outcome::{FlowOutcome, ModuleLine, Outcome};
use knee_run::spec::{NodeId, Run};

/// What was said in a simulation, of flows and nodes of the whole network.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said {
    /// Each with its flow.
    warnings: Vec<(usize, Warning)>,
    lines: Vec<ModuleLine>,
}

impl Said {
    /// Takes what was said in the run `made`, whose flows are these ones of `run`.
    pub(crate) fn of(outcome: &mut Outcome, made: &Run, run: &Run, flows: &[usize]) -> Said {
        let mut said = Said::default();
        for (got, flow) in outcome.flows.iter_mut().zip(flows) {
            said.warnings
                .extend(std::mem::take(&mut got.warnings).into_iter().map(|it| (*flow, it)));
        }
        if outcome.module_lines.is_empty() {
            return said;
        }
        let nodes: BTreeMap<NodeId, NodeId> = made
            .flows
            .iter()
            .zip(flows.iter().map(|flow| &run.flows[*flow]))
            .flat_map(|(made, flow)| [(made.from, flow.from), (made.to, flow.to)])
            .collect();
        let known = |line: ModuleLine| {
            let flow = line.flow.map(|flow| flows.get(flow as usize).map(|flow| *flow as u32));
            let (node, flow) = (*nodes.get(&line.node)?, flow.unwrap_or_default());
            Some(ModuleLine { node, flow, ..line })
        };
        said.lines =
            std::mem::take(&mut outcome.module_lines).into_iter().filter_map(known).collect();
        said
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.warnings.is_empty() && self.lines.is_empty()
    }

    /// Returns what another flow would have said that is like the flow of this simulation, but starts later.
    pub(crate) fn of_another(&self, run: &Run, (like, flow): (usize, usize)) -> Said {
        let (spec, of_like) = (&run.flows[flow], &run.flows[like]);
        let start = spec.start.since(Time::ZERO);
        let warning = |(_, found): &(usize, Warning)| {
            let first_at_ns = found.first_at_ns.saturating_add(start.ns());
            (flow, Warning { first_at_ns, ..found.clone() })
        };
        let line = |line: &ModuleLine| ModuleLine {
            // A host loads its modules when the run begins.
            at: line.at + line.flow.map_or(Duration::ZERO, |_| start),
            node: if line.node == of_like.from { spec.from } else { spec.to },
            flow: line.flow.map(|_| flow as u32),
            ..line.clone()
        };
        Said {
            warnings: self.warnings.iter().map(warning).collect(),
            lines: self.lines.iter().map(line).collect(),
        }
    }
}

/// What was said in all simulations, each once.
#[derive(Default)]
pub(crate) struct SaidOnce {
    /// By flow, file and kind.
    warnings: BTreeMap<(usize, String, &'static str), Warning>,
    /// By node, flow, level, file and text.
    lines: BTreeMap<(NodeId, Option<u32>, u8, String, String), Time>,
}

impl SaidOnce {
    pub(crate) fn add(&mut self, said: &Said) {
        for (flow, found) in &said.warnings {
            match self.warnings.entry((*flow, found.path.clone(), found.oddity.name())) {
                Entry::Vacant(place) => drop(place.insert(found.clone())),
                Entry::Occupied(mut known) if found.first_at_ns < known.get().first_at_ns => {
                    known.insert(found.clone());
                }
                Entry::Occupied(_) => {}
            }
        }
        for line in &said.lines {
            let ModuleLine { at, node, flow, level, module, text } = line.clone();
            let first = self.lines.entry((node, flow, level, module, text)).or_insert(at);
            *first = at.min(*first);
        }
    }

    /// Gives each flow its warnings, and returns the lines by time. What is said after the end of the run is left out: links
    /// are simulated longer.
    pub(crate) fn finish(mut self, flows: &mut [FlowOutcome], end: Time) -> Vec<ModuleLine> {
        self.warnings.retain(|_, found| found.first_at_ns <= end.ns());
        self.lines.retain(|_, at| *at <= end);
        for ((flow, ..), found) in self.warnings {
            flows[flow].warnings.push(found);
        }
        let line = |((node, flow, level, module, text), at)| ModuleLine {
            at,
            node,
            flow,
            level,
            module,
            text,
        };
        let mut lines: Vec<ModuleLine> = self.lines.into_iter().map(line).collect();
        lines.sort_by_key(|line| line.at);
        lines
    }
}
