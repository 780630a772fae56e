//! `[network.balance]` and `[[network.balances]]`: how switches choose among equally short ways.

use std::collections::HashMap;

use knee_file::keys::{Below, Choice, Key, Keys, List, Shape, Table, Text, entries};
use knee_file::units::Quantity;
use knee_file::{Error, Reader, keys};
use knee_queue::time::Duration;
use knee_run::spec::{
    Balance, LinkId, MAX_FLOWLETS, MAX_WEIGHT, Network, NodeId, Order, SwitchBalance, Weights,
};

use crate::names::{expand_all, few};
use crate::switches::{self, SWITCHES};

/// Usual size of a table of flowlets, as in the switches of CONGA and LetFlow.
const FLOWLETS: u64 = 65_536;

keys! {
    /// Choice among equally short ways, for every topology.
    pub(crate) static KEYS: BalanceKeys = "balancing" {
        /// Choice among equally short paths, of each switch: docs/balance.md.
        balance: Below = table(&BALANCE_TABLE).usually("by hash (ECMP)"),
        /// Choice of some switches.
        balances: Below = list(&BALANCES_TABLE),
    }
}

#[derive(Clone, Copy)]
enum BalanceKind {
    Ecmp,
    Weighted,
    Flowlet,
    Spray,
}

const KINDS: &[(&str, BalanceKind)] = &[
    ("ecmp", BalanceKind::Ecmp),
    ("weighted", BalanceKind::Weighted),
    ("flowlet", BalanceKind::Flowlet),
    ("spray", BalanceKind::Spray),
];

static BALANCE_TABLE: Table = Table {
    name: "balance",
    says: "How a switch chooses among equally short paths.",
    shape: || {
        let keys = |&(word, kind)| (word, entries(&keys_of(kind)));
        Shape::By("kind", KINDS.iter().map(keys).collect())
    },
};

static BALANCES_TABLE: Table = Table {
    name: "balances",
    says: "How some switches choose among equally short paths, instead of `balance`.",
    shape: || {
        let keys = |&(word, kind)| {
            (word, entries(&keys_of(kind)).into_iter().chain(entries(&[&SWITCHES])).collect())
        };
        Shape::By("kind", KINDS.iter().map(keys).collect())
    },
};

/// Returns the keys of a kind.
fn keys_of(kind: BalanceKind) -> Vec<&'static dyn Keys> {
    let own: &dyn Keys = match kind {
        BalanceKind::Ecmp => return vec![&KIND],
        BalanceKind::Weighted => &WEIGHTED,
        BalanceKind::Flowlet => &FLOWLET,
        BalanceKind::Spray => &SPRAY,
    };
    vec![&KIND, own]
}

keys! {
    /// Choice of any kind.
    static KIND: KindKeys = "kind-of-balance" {
        /// Hash of the flow, weighted hash, flowlets, or each packet.
        kind: Choice<BalanceKind> = of(KINDS).needed("flowlet"),
    }
}

keys! {
    /// Weighted ECMP.
    static WEIGHTED: WeightedKeys = "weighted" {
        /// Weights by capacity to the destination's switch, or by the rate of the next link.
        by: Choice<WeightsBy> = of(&[("capacity", WeightsBy::Capacity), ("rate", WeightsBy::Rate)]).or("capacity"),
        /// Weights of links, instead; others have 1.
        weight: Below = list(&WeightKeys::TABLE),
    }
}

#[derive(Clone, Copy)]
enum WeightsBy {
    Capacity,
    Rate,
}

keys! {
    /// Weight of some links.
    static WEIGHT: WeightKeys = "weight" {
        /// Switches, or ranges.
        from: Key<List<Text>> = needed("leaf0..leaf3"),
        /// Their neighbours.
        to: Key<List<Text>> = needed("spine0"),
        /// Weight of each of these links.
        weight: Key<u64> = needed("2").within(1, MAX_WEIGHT as u64),
    }
}

keys! {
    /// Flowlets.
    static FLOWLET: FlowletKeys = "flowlet" {
        /// A flow that was quiet for longer chooses anew.
        gap: Key<Duration> = needed("100 us"),
        /// Size of the table of flowlets.
        entries: Key<u64> = or(FLOWLETS).within(1, MAX_FLOWLETS as u64),
    }
}

keys! {
    /// Spraying.
    static SPRAY: SprayKeys = "spray" {
        /// Order of links.
        order: Choice<Order> = of(&[("random", Order::Random), ("round-robin", Order::RoundRobin)]).or("random"),
    }
}

/// Reads the choices of switches into a network.
pub(crate) fn read(network_reader: &Reader<'_>, network: &mut Network) -> Result<(), Error> {
    let all = switches::switches(network);
    let mut found: Vec<Option<Balance>> = vec![None; all.len()];
    if let Some(reader) = network_reader.child(&KEYS.balance)? {
        let kind = reader.choose(&KIND.kind)?;
        reader.check(&keys_of(kind))?;
        let ids: Vec<NodeId> = all.iter().map(|(id, _)| *id).collect();
        found = read_balances(&reader, kind, network, &ids)?;
    }
    for reader in network_reader.children(&KEYS.balances)? {
        let kind = reader.choose(&KIND.kind)?;
        let mut keys = keys_of(kind);
        keys.push(&SWITCHES);
        reader.check(&keys)?;
        reader.need_texts(&SWITCHES.switches)?;
        let places = switches::named(&reader, &all)?.unwrap_or_default();
        let ids: Vec<NodeId> = places.iter().map(|at| all[*at].0).collect();
        for (at, balance) in places.into_iter().zip(read_balances(&reader, kind, network, &ids)?) {
            found[at] = balance;
        }
    }
    let all = all.into_iter().zip(found);
    let balance = |((switch, _), balance): (_, Option<Balance>)| {
        balance.map(|balance| SwitchBalance { switch, balance })
    };
    network.balance = all.filter_map(balance).collect();
    Ok(())
}

/// Reads the choice of each of these switches; `None`: by hash.
fn read_balances(
    reader: &Reader<'_>,
    kind: BalanceKind,
    network: &Network,
    switches: &[NodeId],
) -> Result<Vec<Option<Balance>>, Error> {
    let balance = match kind {
        BalanceKind::Ecmp => None,
        BalanceKind::Weighted if reader.has(&WEIGHTED.weight) => {
            return read_weights(reader, network, switches);
        }
        BalanceKind::Weighted => {
            let weights = match reader.choose(&WEIGHTED.by)? {
                WeightsBy::Capacity => Weights::Capacity,
                WeightsBy::Rate => Weights::Rate,
            };
            Some(Balance::Weighted(weights))
        }
        BalanceKind::Flowlet => {
            let entries = reader.read(&FLOWLET.entries)?;
            let gap = reader.read(&FLOWLET.gap)?;
            if gap == Duration::ZERO {
                return Err(
                    reader.error(&FLOWLET.gap, "must be above 0; kind = \"spray\" has no gap")
                );
            }
            let entries = u32::try_from(entries).unwrap_or(MAX_FLOWLETS);
            Some(Balance::Flowlet { gap, entries })
        }
        BalanceKind::Spray => Some(Balance::Spray(reader.choose(&SPRAY.order)?)),
    };
    Ok(vec![balance; switches.len()])
}

/// Reads the weights of links of these switches.
fn read_weights(
    reader: &Reader<'_>,
    network: &Network,
    switches: &[NodeId],
) -> Result<Vec<Option<Balance>>, Error> {
    if reader.has(&WEIGHTED.by) {
        return Err(reader.error(&WEIGHTED.by, "conflicts with weight: leave one out"));
    }
    let nodes = network.nodes.iter().zip(0..);
    let ids: HashMap<&str, NodeId> = nodes.map(|(node, id)| (node.name.as_str(), id)).collect();
    let mut chooses = vec![false; network.nodes.len()];
    switches.iter().for_each(|switch| chooses[*switch as usize] = true);
    let mut weights: Vec<Option<u32>> = vec![None; network.links.len()];
    let entries = reader.children(&WEIGHTED.weight)?;
    if entries.is_empty() {
        let message = "must have at least one entry, as in \
                       [{ from = \"leaf0\", to = \"spine0\", weight = 2 }]: or leave it out";
        return Err(reader.error(&WEIGHTED.weight, message));
    }
    for reader in entries {
        reader.check(&[&WEIGHT])?;
        let weight = u32::try_from(reader.read(&WEIGHT.weight)?).unwrap_or(MAX_WEIGHT);
        let ends = [&WEIGHT.from, &WEIGHT.to].map(|key| read_nodes(&reader, key, &ids));
        let [from, to] = ends;
        let (from, to) = (from?, to?);
        if let Some(other) = from.keys().copied().filter(|id| !chooses[*id as usize]).min() {
            let name = shown(&network.nodes[other as usize].name);
            let message = format!("must name switches with this choice: {name} is not one");
            return Err(reader.error(&WEIGHT.from, message));
        }
        let mut unused = [from.clone(), to.clone()];
        for (link, weight_of) in network.links.iter().zip(&mut weights) {
            if from.contains_key(&link.from) && to.contains_key(&link.to) {
                if weight_of.replace(weight).is_some() {
                    let name = shown(&network.link_name(link));
                    let message = format!(
                        "must not name {name}, which has a weight already: leave it out of one entry"
                    );
                    return Err(reader.error(&WEIGHT.to, message));
                }
                unused[0].remove(&link.from);
                unused[1].remove(&link.to);
            }
        }
        for (unused, key) in unused.iter().zip([&WEIGHT.from, &WEIGHT.to]) {
            if let Some((_, name)) = unused.iter().min() {
                let message = format!("{} has no link between \"from\" and \"to\"", shown(name));
                return Err(reader.error(key, message));
            }
        }
    }
    let mut given: HashMap<NodeId, Vec<(LinkId, u32)>> = HashMap::new();
    for ((link, weight), id) in network.links.iter().zip(weights).zip(0..) {
        if let Some(weight) = weight {
            given.entry(link.from).or_default().push((id, weight));
        }
    }
    let mut weights = |switch: &NodeId| Weights::Given(given.remove(switch).unwrap_or_default());
    Ok(switches.iter().map(|switch| Some(Balance::Weighted(weights(switch)))).collect())
}

/// Reads nodes by name.
fn read_nodes(
    reader: &Reader<'_>,
    key: &Key<List<Text>>,
    ids: &HashMap<&str, NodeId>,
) -> Result<HashMap<NodeId, String>, Error> {
    let texts = reader.need_texts(key)?;
    let names = expand_all(&texts).map_err(|why| reader.error(key, why))?;
    let id = |name: String| match ids.get(name.as_str()) {
        Some(id) => Ok((*id, name)),
        None => {
            let message =
                format!("must name nodes of this network: \"{}\" does not exist", shown(&name));
            Err(reader.error(key, message))
        }
    };
    names.into_iter().map(id).collect()
}

fn shown(name: &str) -> String {
    name.chars().take(40).collect()
}

/// Describes the choices of switches.
pub fn words(network: &Network) -> Vec<String> {
    let mut kinds: Vec<(String, Vec<String>)> = Vec::new();
    for SwitchBalance { switch, balance } in &network.balance {
        let words = match balance {
            Balance::Weighted(Weights::Capacity) => {
                "weighted ECMP, by capacity to the destination".to_owned()
            }
            Balance::Weighted(Weights::Rate) => "weighted ECMP, by rate of links".to_owned(),
            Balance::Weighted(Weights::Given(_)) => "weighted ECMP, by given weights".to_owned(),
            Balance::Flowlet { gap, entries } => {
                format!("flowlets after {}, table of {entries}", gap.show())
            }
            Balance::Spray(Order::Random) => "packets sprayed at random".to_owned(),
            Balance::Spray(Order::RoundRobin) => "packets sprayed in turn".to_owned(),
        };
        let name = network.nodes[*switch as usize].name.clone();
        match kinds.iter_mut().find(|(kind, _)| *kind == words) {
            Some((_, names)) => names.push(name),
            None => kinds.push((words, vec![name])),
        }
    }
    let switches = network.nodes.iter().filter(|node| node.host.is_none()).count();
    let of = |names: &[String]| match names.len() == switches {
        true => "every switch".to_owned(),
        false => few(names),
    };
    kinds.into_iter().map(|(kind, names)| format!("paths of {}: {kind}", of(&names))).collect()
}
