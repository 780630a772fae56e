//! What the figures of a scenario are for: offloads of hosts, ECN, drawn sizes, the measured part of a run, and runs too short
//! for a timeout.

use std::collections::BTreeMap;
use std::sync::Arc;

use knee_file::units::Quantity;
use knee_queue::time::{Duration, Time};
use knee_run::ecn::negotiates;
use knee_run::spec::{HostConfig, Network, NodeId};

use super::Scenario;
use crate::kind::TrafficSpec;
use crate::names::{expand, few};

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
        let sizes =
            self.traffic.iter().filter_map(|entry| Some((entry, entry.pattern.sizes_words()?)));
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

    /// Returns whether a longer run with `until_done` lets transfers or exchanges of this name finish.
    pub fn can_end(&self, name: &str) -> bool {
        self.traffic.iter().any(|entry| entry.name == name && entry.can_end())
    }

    /// Returns whether requests of this name arrive at times of their own.
    fn is_open_loop(&self, name: &str) -> bool {
        self.traffic.iter().any(|entry| entry.name == name && entry.requests(self.end) > 0)
    }

    /// Describes entries whose last transfers have less time than a retransmission timeout takes.
    fn short(&self) -> Vec<String> {
        let network = self.network.network();
        let end = self.scale.moment(self.end);
        // Entries and their hosts with a long minimum, by the time of the last start, and by whether they end.
        let mut late: BTreeMap<(Time, bool), (Vec<&str>, SlowHosts)> = BTreeMap::new();
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
            let (names, hosts) = late.entry((last, self.can_end(&entry.name))).or_default();
            if !names.contains(&entry.name.as_str()) {
                names.push(&entry.name);
            }
            for (rto_min, host) in slow {
                hosts.entry(rto_min).or_default().push(host);
            }
        }
        let words = late.into_iter().map(|((last, can_end), (names, mut slow))| {
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
            let [last, end, left] =
                [last.since(Time::ZERO), end.since(Time::ZERO), left].map(|time| (time, time.show()));
            let when = match last.0 < end.0 {
                true => format!("the run ends {} after the last start (at {} of {})", left.1, last.1, end.1),
                false => format!("the last of them start at {}, and the run ends at {}", last.1, end.1),
            };
            let duration = format!("run.duration above {}", (last.0 + longest).show());
            // Without an end of its own there is nothing for `until_done` to wait for.
            let (what, set) = match (can_end, self.until_done) {
                (true, true) => ("A transfer", duration),
                (true, false) => ("A transfer", format!("run.until_done = true and {duration}")),
                (false, _) if names.iter().any(|name| self.is_open_loop(name)) => {
                    ("A request", format!("{duration}, or an earlier stop"))
                }
                (false, _) => ("An exchange", format!("{duration}, or a count")),
            };
            let (names, takes) = (names.join(", "), takes.join(", and "));
            format!(
                "{names}: {when}. {what} that needs a retransmission timeout ({takes}) is cut off. Set {set}"
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

/// Names hosts in the order of the network, as ranges that a file can have.
fn runs_of(network: &Network, ids: &[NodeId]) -> String {
    let mut adjacent: Vec<(NodeId, Vec<&str>)> = Vec::new();
    for id in ids {
        let name = network.nodes[*id as usize].name.as_str();
        match adjacent.last_mut() {
            Some((last, names)) if *last + 1 == *id => (*last, _) = (*id, names.push(name)),
            _ => adjacent.push((*id, vec![name])),
        }
    }
    let names: Vec<String> = adjacent.iter().flat_map(|(_, names)| ranges_of(names)).collect();
    few(&names)
}

/// Returns names as ranges, in their order: `s1..s4`, `h0.1..h1.2`. Three or more make a range.
fn ranges_of(names: &[&str]) -> Vec<String> {
    let is_range = |names: &[&str]| {
        let [first, .., last] = names else { return false };
        expand(&format!("{first}..{last}")).is_ok_and(|all| all == names)
    };
    let mut ranges = Vec::new();
    if is_range(names) {
        ranges.push(names);
    } else {
        // Those of one number, which follow each other.
        let split = |name: &str| {
            let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
            let number: Option<u64> = name[prefix.len()..].parse().ok();
            (prefix.to_owned(), number)
        };
        let follows = |a: &&str, b: &&str| {
            let (a, b) = (split(a), split(b));
            a.0 == b.0 && a.1.zip(b.1).is_some_and(|(a, b)| a.checked_add(1) == Some(b))
        };
        ranges.extend(names.chunk_by(follows));
    }
    let words = ranges.into_iter().flat_map(|range| match range {
        [first, .., last] if range.len() > 2 && is_range(range) => vec![format!("{first}..{last}")],
        _ => range.iter().map(|name| (*name).to_owned()).collect(),
    });
    words.collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_named_by_ranges_that_exist() {
        let ranges = |names: &str| ranges_of(&names.split(' ').collect::<Vec<_>>()).join(", ");
        assert_eq!(ranges("s1 s2 s3 s4"), "s1..s4");
        assert_eq!(ranges("s1 s2 s3 r"), "s1..s3, r");
        assert_eq!(ranges("s1 r"), "s1, r");
        assert_eq!(ranges("s1 s2"), "s1, s2");
        assert_eq!(ranges("s8 s9 s10 t11 t13"), "s8..s10, t11, t13");
        assert_eq!(ranges("h0.1 h0.2 h1.1 h1.2"), "h0.1..h1.2");
        // A range has no leading zeros.
        assert_eq!(ranges("s01 s02 s03"), "s01, s02, s03");
    }
}
