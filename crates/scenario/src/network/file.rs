//! `topology = "file"`: nodes and cables from CSV files, as an inventory or a drawing of a real fabric gives them.

mod csv;

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use knee_file::keys::{Below, Key, Name, Shape, Table, Text, entries};
use knee_file::{Error, Node, Origin, Reader, Value, keys, one_of};
use knee_run::spec::{Network, NodeId};
use knee_run::topology::Cable;

use self::csv::{Csv, Row};
use super::{CABLE, Cables, End, Hosts, MAX_HOSTS, MAX_LINKS};
use crate::paths;

keys! {
    /// Nodes and cables of CSV files.
    pub(super) static KEYS: FileKeys = "file" {
        /// CSV file of nodes: columns `name` and `kind`, `host` or `switch`.
        nodes: Key<Text> = needed("nodes.csv"),
        /// CSV file of links: columns `from` and `to`; `cable`, `back`, `oneway`, `rate`, `delay`, `jitter`, `loss`, `limit` if needed.
        links: Key<Text> = needed("links.csv"),
        /// Kinds of links.
        cable: Below = list(&CABLE_TABLE).needed(),
    }
}

keys! {
    /// A kind of cable.
    static NAMED: NamedKeys = "kind-of-cable" {
        /// Name in the CSV file.
        name: Key<Name> = needed("uplink"),
    }
}

static CABLE_TABLE: Table = Table {
    name: "named-cable",
    says: "A kind of cable, which rows of the CSV file name.",
    shape: || Shape::Keys(entries(&[&NAMED, &CABLE])),
};

/// Longest name of a node.
const MAX_NAME_BYTES: usize = 40;

/// Columns of cables. Those of `CHANGES` replace values of the kind of cable.
const LINK_COLUMNS: [&str; 10] =
    ["from", "to", "cable", "back", "oneway", "rate", "delay", "jitter", "loss", "limit"];
const FIRST_CHANGE: usize = 5;

/// Reads the network, and the ports that are recorded if traffic goes to their hosts.
pub(super) fn read(
    reader: &Reader<'_>,
    cables: &Cables<'_, '_>,
    hosts: &Hosts,
) -> Result<(Network, Vec<usize>), Error> {
    let kinds = read_kinds(reader)?;
    let nodes = Csv::open(reader, &KEYS.nodes)?;
    let links = Csv::open(reader, &KEYS.links)?;
    let mut network = Network::default();
    let ids = add_nodes(&mut network, &nodes, hosts)?;
    let recorded_if_used = Links {
        kinds,
        cables,
        ids: &ids,
        network,
        joined: HashMap::new(),
        recorded_if_used: Vec::new(),
        known: HashMap::new(),
    }
    .add_all(&links)?;
    Ok(recorded_if_used)
}

/// A kind of cable, as written.
struct CableKind<'a> {
    name: &'a str,
    reader: Reader<'a>,
    node: &'a Node,
}

fn read_kinds<'a>(reader: &Reader<'a>) -> Result<Vec<CableKind<'a>>, Error> {
    let mut kinds: Vec<CableKind<'a>> = Vec::new();
    let items = match reader.node(&KEYS.cable).map(|node| &node.value) {
        Some(Value::List(items)) => items.as_slice(),
        _ => &[],
    };
    for (reader, node) in reader.children(&KEYS.cable)?.into_iter().zip(items) {
        reader.check(&[&NAMED, &CABLE])?;
        let name = reader.need_name(&NAMED.name)?;
        if kinds.iter().any(|kind| kind.name == name) {
            return Err(reader.error(&NAMED.name, "is the name of two kinds of link: change one"));
        }
        kinds.push(CableKind { name, reader, node });
    }
    if kinds.is_empty() {
        let message = "missing, as in [[network.cable]] name = \"any\", rate = \"10 Gbps\"";
        return Err(reader.error(&KEYS.cable, message));
    }
    Ok(kinds)
}

/// Adds the nodes of a file. Returns their numbers by name.
fn add_nodes<'c>(
    network: &mut Network,
    csv: &'c Csv,
    hosts: &Hosts,
) -> Result<HashMap<&'c str, NodeId>, Error> {
    let mut ids = HashMap::new();
    let mut rows = csv.rows(&["name", "kind"], 2)?;
    while let Some(row) = rows.next_row()? {
        let (name, kind) = (row.cell(0), row.cell(1));
        if !is_name(name) {
            let message = format!(
                "must be a name of 1 to {MAX_NAME_BYTES} letters, digits, \"-\", \"_\", \"+\" and \".\""
            );
            return Err(row.error(0, message));
        }
        if network.nodes.len() as u64 >= MAX_HOSTS {
            return Err(row.error(0, format!("must be one of at most {MAX_HOSTS} nodes")));
        }
        let id = match kind {
            "host" => network.host(name, hosts.base.clone()),
            "switch" => network.switch(name),
            _ => return Err(row.error(1, one_of(kind, ["host", "switch"].into_iter()))),
        };
        if ids.insert(name, id).is_some() {
            return Err(row.error(0, "is the name of an earlier node: change one"));
        }
    }
    if network.nodes.iter().filter(|node| node.host.is_some()).count() < 2 {
        return Err(csv.error("must have at least two rows of kind host"));
    }
    Ok(ids)
}

/// Whether a text is a name that ranges such as `h0.1..h0.9` can give. Two dots would be a range.
fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_+.".contains(c);
    (1..=MAX_NAME_BYTES).contains(&text.len()) && text.chars().all(fits) && !text.contains("..")
}

/// A cable, and whether its kind says what is recorded.
type Known = (Arc<Cable>, bool);

/// A kind of cable, its sending end, and the values that a row changes.
type CableKey<'c> = (usize, End, [&'c str; LINK_COLUMNS.len() - FIRST_CHANGE]);

struct Links<'r, 'a, 'c> {
    kinds: Vec<CableKind<'a>>,
    cables: &'r Cables<'r, 'a>,
    ids: &'r HashMap<&'c str, NodeId>,
    network: Network,
    /// Number of links from each node to each other.
    joined: HashMap<(NodeId, NodeId), u32>,
    recorded_if_used: Vec<usize>,
    /// Cables read so far: a fabric has thousands of few kinds.
    known: HashMap<CableKey<'c>, Known>,
}

impl<'c> Links<'_, '_, 'c> {
    fn add_all(mut self, csv: &'c Csv) -> Result<(Network, Vec<usize>), Error> {
        let mut rows = csv.rows(&LINK_COLUMNS, 2)?;
        while let Some(row) = rows.next_row()? {
            self.add(&row)?;
        }
        Ok((self.network, self.recorded_if_used))
    }

    /// Adds the links of a row: both directions, or one.
    fn add(&mut self, row: &Row<'c, '_>) -> Result<(), Error> {
        let (a, b) = (self.node(row, 0)?, self.node(row, 1)?);
        if a == b {
            return Err(row.error(1, "must be another node than \"from\""));
        }
        let is_oneway = match row.cell(4) {
            "" | "false" => false,
            "true" => true,
            word => return Err(row.error(4, one_of(word, ["true", "false"].into_iter()))),
        };
        if is_oneway && !row.cell(3).is_empty() {
            return Err(row.error(3, "conflicts with oneway = true: leave one out"));
        }
        let forth = self.kind(row, 2)?;
        let back = if row.cell(3).is_empty() { forth } else { self.kind(row, 3)? };
        self.add_link(row, (a, b), forth)?;
        if !is_oneway {
            self.add_link(row, (b, a), back)?;
        }
        Ok(())
    }

    fn node(&self, row: &Row<'c, '_>, column: usize) -> Result<NodeId, Error> {
        self.ids.get(row.cell(column)).copied().ok_or_else(|| {
            row.error(column, "must name a node of the file of nodes: there is none of this name")
        })
    }

    /// The kind of cable that a row names. It may be left out if there is one only.
    fn kind(&self, row: &Row<'c, '_>, column: usize) -> Result<usize, Error> {
        let name = row.cell(column);
        if name.is_empty() && self.kinds.len() == 1 {
            return Ok(0);
        }
        let names = || self.kinds.iter().map(|kind| kind.name);
        let found = names().position(|kind| kind == name);
        found.ok_or_else(|| row.error(column, one_of(name, names())))
    }

    fn add_link(
        &mut self,
        row: &Row<'c, '_>,
        (a, b): (NodeId, NodeId),
        kind: usize,
    ) -> Result<(), Error> {
        if self.network.links.len() as u64 >= MAX_LINKS {
            return Err(row.error(1, format!("must be one of at most {MAX_LINKS} links")));
        }
        let is_host = |node: NodeId| self.network.nodes[node as usize].host.is_some();
        let (from_host, to_host) = (is_host(a), is_host(b));
        let end = if from_host { End::Host } else { End::Switch };
        let (cable, says) = self.cable(row, kind, end)?;
        let sampled =
            if says { cable.sampled } else { to_host && !from_host && cable.rate.is_some() };
        let link = self.network.link(a, b, cable);
        self.network.links[link as usize].sampled = sampled;
        let parallel = self.joined.entry((a, b)).or_insert(0);
        *parallel += 1;
        if *parallel > 1 {
            self.network.links[link as usize].parallel = *parallel;
        }
        if !says && sampled {
            self.recorded_if_used.push(link as usize);
        }
        Ok(())
    }

    /// The cable of a row with its changes.
    fn cable(&mut self, row: &Row<'c, '_>, kind: usize, end: End) -> Result<Known, Error> {
        let changes = std::array::from_fn(|i| row.cell(FIRST_CHANGE + i));
        if let Some(known) = self.known.get(&(kind, end, changes)) {
            return Ok(known.clone());
        }
        let CableKind { reader, node, name } = &self.kinds[kind];
        let says = reader.has("record");
        let cable = if changes.iter().all(|change| change.is_empty()) {
            self.cables.read_checked(reader, end, false)?
        } else {
            let changed = changed(node, row, &changes)?;
            let resolved = RefCell::default();
            let reader = Reader::root(row.path(), &changed, &resolved);
            let read = self.cables.read_checked(&reader, end, false);
            // The value may be the row's, or that of the cable.
            read.map_err(|why| Error { key: format!("cable {name}: {}", why.key), ..why })?
        };
        let cable = Arc::new(cable);
        self.known.insert((kind, end, changes), (Arc::clone(&cable), says));
        Ok((cable, says))
    }
}

/// A kind of cable with the values of a row. All of it is taken to be written there, for messages.
fn changed(node: &Node, row: &Row<'_, '_>, changes: &[&str]) -> Result<Node, Error> {
    let mut changed = node.clone();
    set_origin(&mut changed, row.origin());
    for (i, value) in changes.iter().enumerate().filter(|(_, value)| !value.is_empty()) {
        let column = FIRST_CHANGE + i;
        let path = match LINK_COLUMNS[column] {
            "limit" => "queue.limit",
            column => column,
        };
        let new = Node { origin: row.origin(), value: Value::Text((*value).to_owned()) };
        paths::set(&mut changed, path, &new).map_err(|why| row.error(column, why))?;
    }
    Ok(changed)
}

fn set_origin(node: &mut Node, origin: Origin) {
    node.origin = origin;
    match &mut node.value {
        Value::Table(table) => table.iter_mut().for_each(|(_, node)| set_origin(node, origin)),
        Value::List(items) => items.iter_mut().for_each(|node| set_origin(node, origin)),
        _ => {}
    }
}
