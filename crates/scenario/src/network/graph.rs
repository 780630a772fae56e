//! `topology = "graph"`: any network, node by node and link by link.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use knee_file::keys::{Below, Choice, Key, List, Name, Shape, Table, Text, entries};
use knee_file::{Error, Reader, keys};
use knee_run::routes::Routes;
use knee_run::spec::{Network, NodeId};
use knee_run::topology::Cable;

use super::components::Components;
use super::{CABLE, CABLE_TABLE, Cables, End, Hosts, MAX_HOSTS, MAX_LINKS};
use crate::names::expand_all;

keys! {
    /// Any network, node by node and link by link.
    pub(super) static KEYS: GraphKeys = "graph" {
        /// Hosts and switches.
        node: Below = list(&NodeKeys::TABLE).needed(),
        /// Links between nodes.
        link: Below = list(&LINK_TABLE),
    }
}

keys! {
    /// A node of a graph, or several equal ones.
    static NODE: NodeKeys = "node" {
        /// Name.
        name: Key<Name> = needed("s"),
        /// Host or switch.
        kind: Choice<NodeKind> = of(&[("host", NodeKind::Host), ("switch", NodeKind::Switch)]).needed("host"),
        /// This many: `NAME1`, `NAME2`, ...
        count: Key<u64> = within(1, MAX_HOSTS).usually("one node, `NAME`"),
    }
}

keys! {
    /// Ends of a link.
    static LINK: LinkKeys = "ends" {
        /// Nodes, or ranges.
        from: Key<List<Text>> = needed("s1..s10"),
        /// Nodes: one, all from one, or as many as `from`.
        to: Key<List<Text>> = needed("s1..s10"),
        /// Link each of `from` to each of `to`.
        mesh: Key<bool> = or(false),
        /// No link back.
        oneway: Key<bool> = or(false),
        /// The link back.
        back: Below = table(&CABLE_TABLE).usually("as forward"),
    }
}

static LINK_TABLE: Table = Table {
    name: "link",
    says: "A link of a graph, between these nodes.",
    shape: || Shape::Keys(entries(&[&LINK, &CABLE])),
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum NodeKind {
    Host,
    Switch,
}

/// Reads the network, and the ports that are recorded if traffic goes to their hosts.
pub(super) fn read(
    reader: &Reader<'_>,
    cables: &Cables<'_, '_>,
    hosts: &Hosts,
) -> Result<(Network, Vec<usize>), Error> {
    let mut graph = Graph::default();
    for node in reader.children(&KEYS.node)? {
        graph.add_nodes(&node, hosts)?;
    }
    let count = graph.network.nodes.iter().filter(|node| node.host.is_some()).count();
    if count < 2 {
        let message = "must have at least two hosts, as in [[network.node]] name = \"h\", kind = \"host\", count = 2";
        return Err(reader.error(&KEYS.node, message));
    }
    for link in reader.children(&KEYS.link)? {
        graph.add_links(&link, cables)?;
    }
    Ok((graph.network, graph.recorded_if_used))
}

#[derive(Default)]
struct Graph {
    network: Network,
    ids: HashMap<String, NodeId>,
    /// Linked pairs, to refuse duplicates.
    joined: HashSet<(NodeId, NodeId)>,
    recorded_if_used: Vec<usize>,
}

impl Graph {
    /// Adds one node, or `count` nodes numbered from 1.
    fn add_nodes(&mut self, reader: &Reader<'_>, hosts: &Hosts) -> Result<(), Error> {
        reader.check(&[&NODE])?;
        let name = reader.need_name(&NODE.name)?;
        let kind = reader.choose(&NODE.kind)?;
        let names = match reader.get(&NODE.count)? {
            None => vec![name.to_owned()],
            Some(count) => (1..=count).map(|i| format!("{name}{i}")).collect(),
        };
        if (self.network.nodes.len() + names.len()) as u64 > MAX_HOSTS {
            let has_count = reader.has(&NODE.count);
            let key = if has_count { NODE.count.as_ref() } else { NODE.name.as_ref() };
            return Err(reader.error(key, format!("must give at most {MAX_HOSTS} nodes in all")));
        }
        for name in names {
            let id = match kind {
                NodeKind::Host => self.network.host(&name, hosts.base.clone()),
                NodeKind::Switch => self.network.switch(&name),
            };
            if self.ids.insert(name.clone(), id).is_some() {
                return Err(reader.error(&NODE.name, format!("gives {name} twice")));
            }
        }
        Ok(())
    }

    /// Adds links in both directions, or in one, between nodes of `from` and nodes of `to`.
    fn add_links(&mut self, reader: &Reader<'_>, cables: &Cables<'_, '_>) -> Result<(), Error> {
        reader.check(&[&LINK, &CABLE])?;
        let (from, to) = (self.nodes(reader, &LINK.from)?, self.nodes(reader, &LINK.to)?);
        let pairs = self.pair_up(reader, &from, &to)?;
        let is_oneway = reader.read(&LINK.oneway)?;
        let back = reader.child(&LINK.back)?;
        if is_oneway && back.is_some() {
            return Err(reader.error(&LINK.back, "conflicts with oneway = true: leave one out"));
        }
        // Without its own `back`, the reverse link has the same queue, so a switch there needs one too.
        let both_alike = !is_oneway && back.is_none();
        let owners = if both_alike { [from.as_slice(), &to].concat() } else { from };
        let forth = Arc::new(cables.read_checked(reader, self.end_of(&owners), false)?);
        let says = reader.has("record");
        let back = match &back {
            Some(back) => {
                let cable = Arc::new(cables.read(back, self.end_of(&to), false)?);
                Some((cable, back.has("record")))
            }
            None => both_alike.then(|| (Arc::clone(&forth), says)),
        };
        for (a, b) in pairs {
            self.add_link(reader, (a, b), &forth, says)?;
            if let Some((back, says)) = &back {
                self.add_link(reader, (b, a), back, *says)?;
            }
        }
        Ok(())
    }

    fn add_link(
        &mut self,
        reader: &Reader<'_>,
        (a, b): (NodeId, NodeId),
        cable: &Arc<Cable>,
        says: bool,
    ) -> Result<(), Error> {
        if !self.joined.insert((a, b)) {
            let message = format!("links {} to {} twice", self.name(a), self.name(b));
            return Err(reader.error(&LINK.to, message));
        }
        if self.network.links.len() as u64 >= MAX_LINKS {
            let message = format!("must give at most {MAX_LINKS} links in all");
            return Err(reader.error(&LINK.to, message));
        }
        let is_port_to_host = self.is_host(b) && !self.is_host(a) && cable.rate.is_some();
        let sampled = if says { cable.sampled } else { is_port_to_host };
        let link = self.network.link(a, b, Arc::clone(cable));
        self.network.links[link as usize].sampled = sampled;
        if !says && sampled {
            self.recorded_if_used.push(link as usize);
        }
        Ok(())
    }

    /// Returns the kind of sending end: a switch if any of the nodes is one.
    fn end_of(&self, nodes: &[NodeId]) -> End {
        if nodes.iter().all(|node| self.is_host(*node)) { End::Host } else { End::Switch }
    }

    fn nodes(&self, reader: &Reader<'_>, key: &Key<List<Text>>) -> Result<Vec<NodeId>, Error> {
        let mut ids = Vec::new();
        let texts = reader.need_texts(key)?;
        for name in expand_all(&texts).map_err(|why| reader.error(key, why))? {
            let id = self.ids.get(&name).ok_or_else(|| {
                let shown: String = name.chars().take(40).collect();
                let message =
                    format!("must name nodes of this network: \"{shown}\" does not exist");
                reader.error(key, message)
            })?;
            ids.push(*id);
        }
        Ok(ids)
    }

    /// Pairs nodes one to all, all to one, or in order. With `mesh`, pairs each with each.
    fn pair_up(
        &self,
        reader: &Reader<'_>,
        from: &[NodeId],
        to: &[NodeId],
    ) -> Result<Vec<(NodeId, NodeId)>, Error> {
        let is_mesh = reader.read(&LINK.mesh)?;
        let most =
            if is_mesh { from.len().saturating_mul(to.len()) } else { from.len().max(to.len()) };
        if most as u64 > MAX_LINKS {
            let message = format!("must give at most {MAX_LINKS} links, not {most}");
            return Err(reader.error(&LINK.to, message));
        }
        let pairs: Vec<_> = if is_mesh || from.len() == 1 || to.len() == 1 {
            from.iter().flat_map(|a| to.iter().map(move |b| (*a, *b))).collect()
        } else if from.len() == to.len() {
            from.iter().copied().zip(to.iter().copied()).collect()
        } else {
            let message = format!(
                "must name one node, or as many as \"from\" ({}), not {}; mesh = true links each \
                    to each",
                from.len(),
                to.len()
            );
            return Err(reader.error(&LINK.to, message));
        };
        match pairs.iter().find(|(a, b)| a == b) {
            Some((node, _)) => {
                Err(reader.error(&LINK.to, format!("links {} to itself", self.name(*node))))
            }
            None => Ok(pairs),
        }
    }

    fn is_host(&self, node: NodeId) -> bool {
        self.network.nodes[node as usize].host.is_some()
    }

    fn name(&self, node: NodeId) -> &str {
        &self.network.nodes[node as usize].name
    }
}

/// Pairs of hosts with traffic, and those of drawn traffic: any of the first hosts and any other of the second.
pub(super) type Ways<'a> = (&'a [(NodeId, NodeId)], Option<(&'a [NodeId], &'a [NodeId])>);

/// Checks that each pair of hosts with traffic has a path in both directions. The error names the missing one.
pub(super) fn check_ways<'a>(
    network: &Network,
    ways: impl Iterator<Item = Ways<'a>>,
) -> Result<(), String> {
    let mut routes = Routes::new(network);
    let components = Components::of(network);
    let mut places = None;
    for (pairs, drawn) in ways {
        let apart = pairs.iter().copied().filter(|(a, b)| !components.join(*a, *b));
        check_pairs(network, &mut routes, apart)?;
        let Some((from, to)) = drawn else { continue };
        let (Some(first), Some(other)) = (from.first(), to.first()) else { continue };
        let is_apart = |host: &&NodeId| !components.join(*first, **host);
        let Some(apart) = from.iter().chain(to).find(is_apart) else { continue };
        // This pair probably has no path. To find that among all pairs could take long.
        let pair = if to.contains(apart) { (*first, *apart) } else { (*apart, *other) };
        check_pairs(network, &mut routes, [pair].into_iter().filter(|(a, b)| a != b))?;
        let places = places.get_or_insert_with(|| places_of(network));
        check_pairs(network, &mut routes, pairs_of_places(places, from, to))?;
    }
    Ok(())
}

/// Returns for each node a number of its place: hosts of one place have the same paths, because they are linked to the
/// same switches and to nothing else.
fn places_of(network: &Network) -> Vec<usize> {
    let mut ends = vec![(Vec::new(), Vec::new()); network.nodes.len()];
    for link in &network.links {
        ends[link.from as usize].0.push(link.to);
        ends[link.to as usize].1.push(link.from);
    }
    let is_host = |node: &NodeId| network.nodes[*node as usize].host.is_some();
    let mut numbers = HashMap::new();
    let mut places = Vec::with_capacity(ends.len());
    for (node, (mut to, mut from)) in ends.into_iter().enumerate() {
        to.sort_unstable();
        from.sort_unstable();
        let is_alone = to.iter().chain(&from).any(is_host);
        let next = numbers.len();
        let key = (to, from, is_alone.then_some(node));
        places.push(*numbers.entry(key).or_insert(next));
    }
    places
}

/// Returns a pair of hosts for each pair of places between which any two hosts of these lists lie.
fn pairs_of_places<'a>(
    places: &'a [usize],
    from: &[NodeId],
    to: &'a [NodeId],
) -> impl Iterator<Item = (NodeId, NodeId)> + 'a {
    let firsts = |hosts: &[NodeId]| {
        let mut seen = HashSet::new();
        let mut hosts = hosts.to_vec();
        hosts.retain(|host| seen.insert(places[*host as usize]));
        hosts
    };
    let (first_from, first_to) = (firsts(from), firsts(to));
    // Two hosts of one place, of which the first may be the same in both lists.
    let by_place: HashMap<usize, NodeId> =
        first_from.iter().map(|host| (places[*host as usize], *host)).collect();
    let within = to.iter().filter_map(move |b| Some((*by_place.get(&places[*b as usize])?, *b)));
    // There may be too many pairs to keep them.
    let last = first_to.len();
    let of_all = first_from.into_iter().flat_map(move |a| (0..last).map(move |b| (a, b)));
    let of_all = of_all.map(move |(a, b)| (a, first_to[b]));
    of_all.chain(within).filter(|(a, b)| a != b)
}

fn check_pairs(
    network: &Network,
    routes: &mut Routes,
    pairs: impl IntoIterator<Item = (NodeId, NodeId)>,
) -> Result<(), String> {
    for (a, b) in pairs {
        let ways = [(a, b), (b, a)];
        let Some((from, to)) = ways.into_iter().find(|(from, to)| !routes.leads(*from, *to)) else {
            continue;
        };
        let name = |node: NodeId| &network.nodes[node as usize].name;
        let words = format!("there is no path from {} to {}", name(from), name(to));
        return Err(match host_between(network, from, to) {
            Some(host) => format!(
                "{words} except through the host {}, which does not forward: make it kind = \
                    \"switch\", or add links",
                name(host)
            ),
            None => format!("{words}: add links"),
        });
    }
    Ok(())
}

/// Returns the first host in between on the shortest path that would exist if hosts forwarded. `None` without such a
/// path.
fn host_between(network: &Network, from: NodeId, to: NodeId) -> Option<NodeId> {
    let mut into = vec![Vec::new(); network.nodes.len()];
    for link in network.links.iter().filter(|link| link.from != to) {
        into[link.to as usize].push(link.from);
    }
    let mut after = vec![None; network.nodes.len()];
    let mut reached = vec![to];
    let mut next = 0;
    while let Some(&node) = reached.get(next) {
        next += 1;
        for &before in &into[node as usize] {
            if after[before as usize].is_none() {
                after[before as usize] = Some(node);
                reached.push(before);
            }
        }
    }
    let way = std::iter::successors(Some(from), |node| after[*node as usize]).skip(1);
    let mut hosts = way.filter(|node| network.nodes[*node as usize].host.is_some());
    hosts.next().filter(|host| *host != to)
}
