//! What the figures of a scenario are for: offloads of hosts, ECN, drawn sizes, the measured part of a run, and runs too short
//! for a timeout.

use std::collections::BTreeMap;
use std::sync::Arc;

use knee_file::units::Quantity;
use knee_queue::time::{Duration, Time};
use knee_run::ecn::negotiates;
use knee_run::spec::{HostConfig, Network, NodeId};

use super::Scenario;
use crate::names::few;
use crate::traffic::TrafficSpec;

/// Hosts by their minimum retransmission timeout.
type SlowHosts = BTreeMap<Duration, Vec<NodeId>>;

/// First retransmission timeout of a SYN.
const SYN_TIMEOUT: Duration = Duration::from_ms(1000);

/// Subject of a remark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// TSO and GRO of hosts.
    Offloads,
    /// Connections that negotiate ECN.
    Ecn,
    /// Distributions of sizes.
    Sizes,
    /// The part of a run that figures are means over.
    Measured,
    /// Runs that end before a retransmission timeout could.
    Timeouts,
}

impl Topic {
    /// Name in manifests.
    pub fn name(self) -> &'static str {
        match self {
            Topic::Offloads => "offloads",
            Topic::Ecn => "ecn",
            Topic::Sizes => "sizes",
            Topic::Measured => "measured",
            Topic::Timeouts => "timeouts",
        }
    }
}

/// Remarks on the rows that were checked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Remarks {
    /// Rows of each sentence.
    pub(crate) rows: BTreeMap<(Topic, String), Vec<usize>>,
    /// Rows that were checked.
    pub(crate) checked: Vec<usize>,
}

impl Remarks {
    pub(crate) fn add(&mut self, row: usize, scenario: &Scenario) {
        self.checked.push(row);
        for remark in scenario.remarks() {
            self.rows.entry(remark).or_default().push(row);
        }
    }
}

impl Scenario {
    /// Returns remarks, each in a sentence or a few.
    pub(crate) fn remarks(&self) -> Vec<(Topic, String)> {
        let network = self.network.network();
        let mut all = vec![(Topic::Offloads, offloads(network))];
        all.extend(ecn(network, &self.traffic).map(|says| (Topic::Ecn, says)));
        let sizes = self.traffic.iter().filter_map(|entry| Some((entry, entry.sizes_words()?)));
        for (entry, words) in sizes {
            let classes = self.size_classes(&entry.name);
            let classes: Vec<String> =
                classes.iter().map(|class| class.words(&entry.name)).collect();
            let mut says = format!("{}: {words}", entry.name);
            if !classes.is_empty() {
                says.push_str(&format!(
                    ". Results also show the size classes that this range spans: {}",
                    classes.join(", ")
                ));
            }
            if !all.contains(&(Topic::Sizes, says.clone())) {
                all.push((Topic::Sizes, says));
            }
        }
        all.push((Topic::Measured, self.measured_part()));
        all.extend(self.short().into_iter().map(|says| (Topic::Timeouts, says)));
        all
    }

    /// Describes entries whose last transfers have less time than a retransmission timeout takes.
    fn short(&self) -> Vec<String> {
        let network = self.network.network();
        let end = self.scale.moment(self.end);
        // Entries and their hosts with a long minimum, by the time of the last start.
        let mut late: BTreeMap<Time, (Vec<&str>, SlowHosts)> = BTreeMap::new();
        for entry in &self.traffic {
            let Some(last) = entry.last_start() else { continue };
            let last = self.scale.moment(Time::ZERO + last);
            let left = end.since(last.min(end));
            let slow = entry.senders().filter_map(|host| {
                let rto_min = network.nodes[host as usize].host.as_ref()?.rto_min;
                (rto_min > left).then_some((rto_min, host))
            });
            let slow: Vec<(Duration, NodeId)> = slow.collect();
            if slow.is_empty() && SYN_TIMEOUT <= left {
                continue;
            }
            let (names, hosts) = late.entry(last).or_default();
            if !names.contains(&entry.name.as_str()) {
                names.push(&entry.name);
            }
            for (rto_min, host) in slow {
                hosts.entry(rto_min).or_default().push(host);
            }
        }
        let words = late.into_iter().map(|(last, (names, mut slow))| {
            let left = end.since(last.min(end));
            let mut takes: Vec<String> = slow
                .iter_mut()
                .map(|(rto_min, hosts)| {
                    hosts.sort_unstable();
                    hosts.dedup();
                    format!("at least {} on {}", rto_min.show(), runs_of(network, hosts))
                })
                .collect();
            let longest = slow.keys().copied().chain([SYN_TIMEOUT]).max().unwrap_or(SYN_TIMEOUT);
            if SYN_TIMEOUT > left {
                takes.push(format!("{} for a lost SYN", SYN_TIMEOUT.show()));
            }
            let names = names.join(", ");
            let until_done = if self.until_done { "" } else { "run.until_done = true and " };
            format!(
                "{names}: the run ends {} after the last start (at {} of {}). A retransmission timeout takes {}. What waits for one \
                 is cut off. The way out: {until_done}run.duration above {}",
                left.show(),
                last.since(Time::ZERO).show(),
                end.since(Time::ZERO).show(),
                takes.join(", and "),
                (last.since(Time::ZERO) + longest).show(),
            )
        });
        words.collect()
    }
}

/// Describes TSO and GRO of the hosts, each kind of host once.
fn offloads(network: &Network) -> String {
    let mut kinds: Vec<(String, Vec<NodeId>)> = Vec::new();
    let mut last: Option<(&Arc<HostConfig>, usize)> = None;
    for (id, node) in (0..).zip(&network.nodes) {
        let Some(host) = &node.host else { continue };
        let at = match last {
            // Most hosts share their configuration.
            Some((prior, at)) if Arc::ptr_eq(prior, host) => at,
            _ => {
                let words = offloads_of(host);
                let known = kinds.iter().position(|(kind, _)| *kind == words);
                known.unwrap_or_else(|| {
                    kinds.push((words, Vec::new()));
                    kinds.len() - 1
                })
            }
        };
        last = Some((host, at));
        kinds[at].1.push(id);
    }
    match kinds.as_slice() {
        [(kind, _)] => format!("offloads of hosts: {kind}"),
        _ => {
            let kinds =
                kinds.iter().map(|(kind, ids)| format!("{kind} on {}", runs_of(network, ids)));
            format!("offloads of hosts: {}", kinds.collect::<Vec<_>>().join("; "))
        }
    }
}

fn offloads_of(host: &HostConfig) -> String {
    let tso = match host.gso_max_segs {
        1 => "TSO off".to_owned(),
        segs => format!("TSO up to {segs} segments"),
    };
    let gro = match (host.gro_window, host.gro) {
        (Duration::ZERO, false) => "GRO off".to_owned(),
        (Duration::ZERO, true) => "GRO per interrupt".to_owned(),
        (window, _) => format!("GRO within {}", window.show()),
    };
    format!("{tso}, {gro}")
}

/// Names hosts in the order of the network, adjacent ones as a range.
fn runs_of(network: &Network, ids: &[NodeId]) -> String {
    let mut ranges: Vec<(NodeId, NodeId)> = Vec::new();
    for id in ids {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *id => *last = *id,
            _ => ranges.push((*id, *id)),
        }
    }
    let name = |id: NodeId| network.nodes[id as usize].name.as_str();
    let names = ranges.into_iter().map(|(first, last)| match last - first {
        0 => name(first).to_owned(),
        1 => format!("{}, {}", name(first), name(last)),
        _ => format!("{}..{}", name(first), name(last)),
    });
    few(&names.collect::<Vec<_>>())
}

/// Describes which entries negotiate ECN. `None` without connections.
fn ecn(network: &Network, traffic: &[TrafficSpec]) -> Option<String> {
    // Whether some connections of an entry negotiate it, and whether some do not.
    let mut entries: Vec<(&str, bool, bool)> = Vec::new();
    for entry in traffic {
        let Some(cc) = entry.algorithm() else { continue };
        let peer = entry.peer_algorithm().unwrap_or(cc);
        let mut known: Vec<(*const HostConfig, *const HostConfig)> = Vec::new();
        let (mut with, mut without) = (false, false);
        let mut look = |from: NodeId, to: NodeId| {
            let config = |id: NodeId| network.nodes[id as usize].host.as_ref();
            let Some((from, to)) = config(from).zip(config(to)) else { return };
            let pair = (Arc::as_ptr(from), Arc::as_ptr(to));
            if known.contains(&pair) {
                return;
            }
            known.push(pair);
            match negotiates((&**from, cc), (&**to, peer)) {
                true => with = true,
                false => without = true,
            }
        };
        let (pairs, drawn) = entry.ways();
        pairs.iter().for_each(|(from, to)| look(*from, *to));
        if let Some((from, to)) = drawn {
            let (from, to) = (one_of_each(network, from), one_of_each(network, to));
            from.iter().for_each(|from| to.iter().for_each(|to| look(*from, *to)));
        }
        match entries.iter_mut().find(|(name, ..)| *name == entry.name) {
            Some((_, some, others)) => (*some, *others) = (*some | with, *others | without),
            None => entries.push((&entry.name, with, without)),
        }
    }
    let named = |of: &dyn Fn(bool, bool) -> bool| {
        let names = entries.iter().filter(|(_, with, without)| of(*with, *without));
        names.map(|(name, ..)| *name).collect::<Vec<_>>().join(", ")
    };
    let (all, some, none) = (
        named(&|with, without| with && !without),
        named(&|with, without| with && without),
        named(&|with, _| !with),
    );
    let parts = [("by", &all), ("by some connections of", &some), ("not by", &none)];
    match (all.as_str(), some.as_str(), none.as_str()) {
        ("", "", "") => None,
        (_, "", "") => Some("ECN is negotiated by all connections".to_owned()),
        ("", "", _) => Some("ECN is negotiated by no connection".to_owned()),
        _ => {
            let parts = parts.into_iter().filter(|(_, names)| !names.is_empty());
            let parts: Vec<String> = parts.map(|(by, names)| format!("{by} {names}")).collect();
            Some(format!("ECN is negotiated {}", parts.join(", ")))
        }
    }
}

/// Returns a host of each configuration.
fn one_of_each(network: &Network, hosts: &[NodeId]) -> Vec<NodeId> {
    let mut known: Vec<*const HostConfig> = Vec::new();
    let mut is_new = |id: &&NodeId| {
        let Some(config) = &network.nodes[**id as usize].host else { return false };
        let at = Arc::as_ptr(config);
        let is_new = !known.contains(&at);
        if is_new {
            known.push(at);
        }
        is_new
    };
    hosts.iter().filter(&mut is_new).copied().collect()
}
