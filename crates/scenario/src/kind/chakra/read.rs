//! Reads the files of a Chakra execution trace: bounded, and errors name file and node.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use knee_file::{Error, Origin, Reason};
use prost::Message as _;
use prost::encoding::decode_varint;
use serde_json::Value as Json;

use super::schema::{
    Attribute, AttributeValue, CollectiveCommType, GlobalMetadata, Node as Encoded, NodeType,
};
use crate::inputs::shown;
use crate::kind::jobs::MAX_TASKS;

/// Largest file of a rank, bytes.
pub(super) const MAX_FILE_BYTES: u64 = 64 << 20;
/// Largest node, bytes.
const MAX_NODE_BYTES: usize = 1 << 20;
/// Largest number of nodes of all ranks.
const MAX_NODES: usize = MAX_TASKS as usize;
/// Largest number of nodes that all of them together wait for.
const MAX_DEPENDENCIES: usize = 2 * MAX_NODES;
/// Longest name of a process group, bytes, and most ranks of all groups together.
const MAX_GROUP_BYTES: usize = 64;
const MAX_MEMBERS: usize = 4 << 20;
/// Longest time of a node, us: eleven days. Largest message, bytes.
const MAX_US: u64 = 1_000_000_000_000;
const MAX_MESSAGE_BYTES: u64 = 1 << 50;

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Does {
    /// Takes time on one of the rank's streams or threads.
    Computes { ns: u64, on: Stream },
    /// Sends to another rank.
    Sends { to: u32, tag: u64, bytes: u64 },
    /// Waits for a message of another rank.
    Receives { from: u32, tag: u64, bytes: u64 },
    /// Takes part in an operation of a group.
    Collective { kind: CollectiveCommType, bytes: u64, root: Option<u32>, group: u32 },
}

/// A stream of the accelerator, or a thread of the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Stream {
    pub(super) is_cpu: bool,
    pub(super) number: u64,
}

/// A node. The nodes that it waits for are a part of its trace's `after`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) id: u64,
    pub(super) does: Does,
    first_after: u32,
}

/// The nodes of all ranks.
#[derive(Debug, Default)]
pub(super) struct Traces {
    /// Nodes of rank 0, then those of rank 1 and so on, in the order of the files.
    pub(super) nodes: Vec<Node>,
    /// Where the nodes of each rank begin, and where the last ones end.
    pub(super) first: Vec<usize>,
    after: Vec<u32>,
    /// Ranks of each group.
    pub(super) groups: Vec<Vec<u32>>,
    paths: Vec<PathBuf>,
}

impl Traces {
    /// Returns the nodes that a node waits for.
    pub(super) fn after(&self, node: usize) -> &[u32] {
        let until = self.nodes.get(node + 1).map_or(self.after.len(), |n| n.first_after as usize);
        &self.after[self.nodes[node].first_after as usize..until]
    }

    /// Returns the rank of a node.
    pub(super) fn rank(&self, node: usize) -> usize {
        self.first.partition_point(|first| *first <= node) - 1
    }

    /// Returns an error about a node.
    pub(super) fn error(&self, node: usize, why: impl AsRef<str>) -> Error {
        let path = &self.paths[self.rank(node)];
        about(path, format!("node {}: {}", self.nodes[node].id, why.as_ref()))
    }
}

/// Returns an error about a file.
fn about(path: &Path, why: impl Into<Reason>) -> Error {
    Error::new(path, Origin::Nowhere, "", why)
}

/// Ranks of process groups by name. No ranks are all ranks.
pub(super) type Groups = HashMap<String, Vec<u32>>;

/// Reads the files of the ranks one by one.
pub(super) struct Traced<'a> {
    ranks: u32,
    /// Groups that hold for all ranks, from a file of their own.
    common: &'a Groups,
    traces: Traces,
    /// Number of each group, by name and ranks: two groups of the same ranks are two communicators.
    numbers: HashMap<(String, Vec<u32>), u32>,
    members: usize,
}

/// A file while it is read.
struct OfRank<'p> {
    path: &'p Path,
    rank: u32,
    /// Groups that the file's own metadata name.
    groups: Groups,
    /// Nodes by id.
    places: HashMap<u64, u32>,
    /// The ids that each node waits for.
    after: Vec<u64>,
    /// The group that each collective operation names.
    named: Vec<(usize, String)>,
}

impl<'a> Traced<'a> {
    pub(super) fn new(ranks: u32, common: &'a Groups) -> Traced<'a> {
        Traced { ranks, common, traces: Traces::default(), numbers: HashMap::new(), members: 0 }
    }

    pub(super) fn finish(mut self) -> Traces {
        self.traces.first.push(self.traces.nodes.len());
        self.traces
    }

    /// Adds the file of the next rank.
    pub(super) fn add(&mut self, path: PathBuf, mut bytes: &[u8]) -> Result<(), Error> {
        if bytes.starts_with(&[0x1f, 0x8b]) {
            return Err(about(&path, "is compressed: unpack it with gunzip"));
        }
        let rank = self.traces.first.len() as u32;
        self.traces.first.push(self.traces.nodes.len());
        self.traces.paths.push(path.clone());
        let mut of_rank = OfRank {
            path: &path,
            rank,
            groups: Groups::new(),
            places: HashMap::new(),
            after: Vec::new(),
            named: Vec::new(),
        };
        let mut number = 0;
        while let Some(message) =
            next_message(&mut bytes, number).map_err(|why| about(&path, why))?
        {
            if number == 0 {
                GlobalMetadata::decode(message).map_err(|why| {
                    about(&path, format!("is no Chakra execution trace: GlobalMetadata: {why}"))
                })?;
            } else {
                let node = Encoded::decode(message).map_err(|why| {
                    about(&path, format!("message {number}, which should be a node: {why}"))
                })?;
                self.add_node(&mut of_rank, &node)?;
            }
            number += 1;
        }
        if number == 0 {
            return Err(about(
                &path,
                "is empty: a Chakra execution trace begins with GlobalMetadata",
            ));
        }
        self.name_groups(&of_rank)?;
        self.resolve(&of_rank)
    }

    fn add_node(&mut self, of_rank: &mut OfRank<'_>, node: &Encoded) -> Result<(), Error> {
        let fail = |why: String| {
            about(of_rank.path, format!("node {} {}: {why}", node.id, shown(&node.name)))
        };
        let place = self.traces.nodes.len();
        if place >= MAX_NODES {
            return Err(fail(format!("all ranks together have more than {MAX_NODES} nodes")));
        }
        let does = match does(node, of_rank.rank, self.ranks).map_err(fail)? {
            (does, None) => does,
            (does, Some(group)) => {
                of_rank.named.push((place, group));
                does
            }
        };
        if node.kind() == NodeType::Metadata {
            let inputs = node.inputs.as_ref().map_or("", |inputs| inputs.values.as_str());
            let groups = groups_of(inputs, self.ranks).map_err(fail)?;
            of_rank.groups.extend(groups);
        }
        let first_after = self.traces.after.len() + of_rank.after.len();
        let both = node.ctrl_deps.iter().chain(&node.data_deps);
        let before = of_rank.after.len();
        of_rank.after.extend(both);
        of_rank.after[before..].sort_unstable();
        let mut kept = before;
        for i in before..of_rank.after.len() {
            if i == before || of_rank.after[i] != of_rank.after[kept - 1] {
                of_rank.after[kept] = of_rank.after[i];
                kept += 1;
            }
        }
        of_rank.after.truncate(kept);
        if self.traces.after.len() + of_rank.after.len() > MAX_DEPENDENCIES {
            return Err(fail(format!(
                "all nodes together have more than {MAX_DEPENDENCIES} dependencies"
            )));
        }
        if of_rank.places.insert(node.id, place as u32).is_some() {
            return Err(fail("has the id of an earlier node".into()));
        }
        self.traces.nodes.push(Node { id: node.id, does, first_after: first_after as u32 });
        Ok(())
    }

    /// Replaces names of groups by numbers.
    fn name_groups(&mut self, of_rank: &OfRank<'_>) -> Result<(), Error> {
        let mut known: HashMap<&str, u32> = HashMap::new();
        for (place, name) in &of_rank.named {
            let number = match known.get(name.as_str()) {
                Some(number) => *number,
                None => {
                    let number = self.group(of_rank, name);
                    let number = number.map_err(|why| self.traces.error(*place, why))?;
                    known.insert(name, number);
                    number
                }
            };
            let Does::Collective { group, root, .. } = &mut self.traces.nodes[*place].does else {
                continue;
            };
            *group = number;
            let members = &self.traces.groups[number as usize];
            if let Some(root) = root.filter(|root| !members.contains(root)) {
                let why = format!("its root, rank {root} (comm_src), is not in its process group");
                return Err(self.traces.error(*place, why));
            }
        }
        Ok(())
    }

    /// Returns the number of the group that a rank calls by this name.
    fn group(&mut self, of_rank: &OfRank<'_>, name: &str) -> Result<u32, String> {
        let ranks = match of_rank.groups.get(name).or_else(|| self.common.get(name)) {
            Some(ranks) => ranks.as_slice(),
            None if name.is_empty() => &[],
            None => {
                return Err(format!(
                    "its process group {} is in no metadata node of the file: list its ranks in a file that `groups` names",
                    shown(name)
                ));
            }
        };
        if !ranks.is_empty() && !ranks.contains(&of_rank.rank) {
            return Err(format!(
                "its process group {} does not have rank {} among its ranks",
                shown(name),
                of_rank.rank
            ));
        }
        let key = (name.to_owned(), ranks.to_vec());
        let new = self.traces.groups.len() as u32;
        let number = *self.numbers.entry(key).or_insert(new);
        if number == new {
            let ranks: Vec<u32> =
                if ranks.is_empty() { (0..self.ranks).collect() } else { ranks.to_vec() };
            self.members += ranks.len();
            if self.members > MAX_MEMBERS {
                return Err(format!("process groups have more than {MAX_MEMBERS} ranks in all"));
            }
            self.traces.groups.push(ranks);
        }
        Ok(number)
    }

    /// Replaces ids of dependencies by places.
    fn resolve(&mut self, of_rank: &OfRank<'_>) -> Result<(), Error> {
        let first = self.traces.first[of_rank.rank as usize];
        let base = self.traces.after.len();
        for place in first..self.traces.nodes.len() {
            let from = self.traces.nodes[place].first_after as usize - base;
            let until = self.traces.nodes.get(place + 1);
            let until = until.map_or(of_rank.after.len(), |node| node.first_after as usize - base);
            for id in &of_rank.after[from..until] {
                let Some(before) = of_rank.places.get(id) else {
                    let why = format!("waits for node {id}, which the file does not have");
                    return Err(self.traces.error(place, why));
                };
                self.traces.after.push(*before);
            }
        }
        Ok(())
    }
}

/// Cuts off the next message, which its length precedes. `number` counts them from 0.
fn next_message<'b>(bytes: &mut &'b [u8], number: usize) -> Result<Option<&'b [u8]>, String> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let length = decode_varint(bytes).ok().and_then(|length| usize::try_from(length).ok());
    match length.filter(|length| *length <= bytes.len()) {
        Some(length) if length <= MAX_NODE_BYTES => {
            let (message, rest) = bytes.split_at(length);
            *bytes = rest;
            Ok(Some(message))
        }
        Some(length) => Err(format!(
            "message {number} has {length} bytes, but at most {MAX_NODE_BYTES} are allowed"
        )),
        None if number == 0 => {
            Err("is no Chakra execution trace: it does not begin with a message and its length"
                .into())
        }
        None => Err(format!("ends within message {number}: it was cut off")),
    }
}

/// Returns what a node does, and the name of its process group if it is a collective operation.
fn does(node: &Encoded, rank: u32, ranks: u32) -> Result<(Does, Option<String>), String> {
    if node.duration_us > MAX_US {
        return Err(format!("takes {} us, but at most {MAX_US} are allowed", node.duration_us));
    }
    let kind = NodeType::try_from(node.kind)
        .map_err(|_| format!("has the type {}, which the schema does not have", node.kind))?;
    let attribute = |name: &str| node.attr.iter().find(|attribute| attribute.name == name);
    let number = |name: &str| attribute(name).map(number_of).transpose();
    let need = |name: &str| number(name)?.ok_or_else(|| format!("lacks the attribute {name}"));
    let other = |name: &str| {
        let other = number(name)?.map_or(Ok(rank.into()), Ok::<u64, String>)?;
        match u32::try_from(other) {
            Ok(other) if other < ranks => Ok(other),
            _ => Err(format!("{name} is {other}, but ranks are 0 to {}", ranks - 1)),
        }
    };
    let bytes = || {
        let bytes = need("comm_size")?;
        if bytes > MAX_MESSAGE_BYTES {
            return Err(format!("comm_size is {bytes}, but must be at most 2^50"));
        }
        Ok(bytes)
    };
    let tag = || Ok::<u64, String>(number("comm_tag")?.unwrap_or(0));
    let (from, to) = match kind {
        NodeType::CommSend | NodeType::CommRecv => (other("comm_src")?, other("comm_dst")?),
        _ => (0, 1),
    };
    if from == to {
        return Err(format!("is from rank {from} to itself: comm_src and comm_dst must differ"));
    }
    let does = match kind {
        NodeType::Metadata => Does::Computes { ns: 0, on: stream(node, &number)? },
        NodeType::Comp if node.duration_us == 0 && number("num_ops")?.is_some_and(|n| n > 0) => {
            return Err(
                "has num_ops and no duration_micros: knee does not know how fast the rank is"
                    .into(),
            );
        }
        NodeType::MemLoad | NodeType::MemStore if node.duration_us == 0 => {
            return Err("has no duration_micros: knee does not know how fast the memory is".into());
        }
        NodeType::Comp | NodeType::MemLoad | NodeType::MemStore => {
            Does::Computes { ns: node.duration_us * 1000, on: stream(node, &number)? }
        }
        NodeType::CommSend if from != rank => {
            return Err(format!("comm_src is {from}, but this is rank {rank}"));
        }
        NodeType::CommRecv if to != rank => {
            return Err(format!("comm_dst is {to}, but this is rank {rank}"));
        }
        NodeType::CommSend => Does::Sends { to, tag: tag()?, bytes: bytes()? },
        NodeType::CommRecv => Does::Receives { from, tag: tag()?, bytes: bytes()? },
        NodeType::CommColl => return collective(&attribute, &number, &bytes),
        _ => {
            return Err(format!(
                "is a node of type {}, which knee does not carry out: take it out of the trace",
                type_name(kind)
            ));
        }
    };
    Ok((does, None))
}

fn type_name(kind: NodeType) -> &'static str {
    match kind {
        NodeType::Storage => "STORAGE_NODE",
        NodeType::Batch => "BATCH_NODE",
        NodeType::Checkpoint => "CHECKPOINT_NODE",
        _ => "INVALID_NODE",
    }
}

/// Numbers of attributes by name.
type Number<'n> = dyn Fn(&str) -> Result<Option<u64>, String> + 'n;

fn number_of(attribute: &Attribute) -> Result<u64, String> {
    let number = attribute.value.as_ref().and_then(AttributeValue::number);
    number
        .ok_or_else(|| format!("its attribute {} must be a whole number from 0 on", attribute.name))
}

/// Returns where a computation runs. A node that does not say is one of the only stream.
fn stream(node: &Encoded, number: &Number<'_>) -> Result<Stream, String> {
    let cpu = node.attr.iter().find(|attribute| attribute.name == "is_cpu_op");
    let is_cpu = match cpu.map(|cpu| &cpu.value) {
        Some(Some(AttributeValue::Bool(is_cpu))) => *is_cpu,
        Some(_) => return Err("its attribute is_cpu_op must be true or false".into()),
        None => false,
    };
    let number = number(if is_cpu { "tid" } else { "stream" })?.unwrap_or(0);
    Ok(Stream { is_cpu, number })
}

fn collective<'n>(
    attribute: &dyn Fn(&str) -> Option<&'n Attribute>,
    number: &Number<'_>,
    bytes: &dyn Fn() -> Result<u64, String>,
) -> Result<(Does, Option<String>), String> {
    use CollectiveCommType as C;
    let kind = number("comm_type")?.ok_or("lacks the attribute comm_type")?;
    let kind = i32::try_from(kind).ok().and_then(|kind| C::try_from(kind).ok());
    let kind = kind.ok_or("its comm_type is none that the schema has")?;
    if let C::Reduce | C::Gather | C::Scatter = kind {
        let name = match kind {
            C::Reduce => "REDUCE",
            C::Gather => "GATHER",
            _ => "SCATTER",
        };
        return Err(format!(
            "is a {name}, which knee does not carry out: ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, BROADCAST and \
             BARRIER it does"
        ));
    }
    if let Some(dims) = attribute("involved_dim").or_else(|| attribute("involved_dims")) {
        match &dims.value {
            Some(AttributeValue::Bools(dims)) if dims.values.iter().all(|dim| *dim) => {}
            _ => {
                return Err("is of some dimensions only (involved_dim), which knee's networks do not have: name a process group \
                            (pg_name) instead"
                    .into());
            }
        }
    }
    let group = match attribute("pg_name").map(|group| &group.value) {
        None => String::new(),
        Some(Some(AttributeValue::Text(name))) => name.clone(),
        Some(value) => match value.as_ref().and_then(AttributeValue::number) {
            Some(number) => number.to_string(),
            None => return Err("its attribute pg_name must be a text".into()),
        },
    };
    if group.len() > MAX_GROUP_BYTES {
        return Err(format!("its pg_name is longer than {MAX_GROUP_BYTES} bytes"));
    }
    let root = number("comm_src")?.map(u32::try_from).transpose();
    let root = root.map_err(|_| "its comm_src is no rank")?;
    let bytes = if kind == C::Barrier { 1 } else { bytes()? };
    Ok((Does::Collective { kind, bytes, root, group: 0 }, Some(group)))
}

/// Returns the process groups that PyTorch's metadata list, if they do: a text with a list of objects that have
/// `pg_name` and `ranks`.
fn groups_of(inputs: &str, ranks: u32) -> Result<Groups, String> {
    let mut groups = Groups::new();
    if !inputs.contains("pg_name") {
        return Ok(groups);
    }
    let list = inputs.find("[{").zip(inputs.rfind("}]")).filter(|(from, until)| from < until);
    let text = list.map(|(from, until)| inputs[from..until + 2].replace("\\\"", "\""));
    let parsed: Option<Json> = text.and_then(|text| serde_json::from_str(&text).ok());
    let Some(Json::Array(items)) = parsed else {
        return Err("its inputs name process groups (pg_name), but are no JSON".into());
    };
    for item in items {
        let name = item.get("pg_name").and_then(Json::as_str);
        let name = name.ok_or("its inputs have a process group without pg_name")?;
        let of_group = ranks_of(item.get("ranks"), ranks)
            .map_err(|why| format!("its process group {} {why}", shown(name)))?;
        groups.insert(name.to_owned(), of_group);
    }
    Ok(groups)
}

/// Reads a list of different ranks.
fn ranks_of(list: Option<&Json>, ranks: u32) -> Result<Vec<u32>, String> {
    let Some(Json::Array(items)) = list else {
        return Err("must have a list of ranks".into());
    };
    let rank = |item: &Json| item.as_u64().and_then(|rank| u32::try_from(rank).ok());
    let mut all = Vec::with_capacity(items.len());
    let mut is_there = vec![false; ranks as usize];
    for item in items {
        let place = rank(item).and_then(|rank| Some((rank, is_there.get_mut(rank as usize)?)));
        let Some((rank, is_there)) = place else {
            return Err(format!("must have ranks from 0 to {}", ranks - 1));
        };
        if std::mem::replace(is_there, true) {
            return Err(format!("has rank {rank} twice"));
        }
        all.push(rank);
    }
    Ok(all)
}

/// Reads a file of process groups: a JSON object of names with lists of ranks.
pub(super) fn parse_groups(text: &str, ranks: u32) -> Result<Groups, String> {
    let parsed: Result<Json, _> = serde_json::from_str(text);
    let parsed = parsed.map_err(|why| format!("is no JSON: {why}"))?;
    let Json::Object(entries) = parsed else {
        return Err("must be an object of names with lists of ranks, as in {\"0\": [0, 1]}".into());
    };
    let group = |(name, list): (&String, &Json)| {
        let ranks = ranks_of(Some(list), ranks);
        let ranks = ranks.map_err(|why| format!("process group {} {why}", shown(name)))?;
        Ok((name.clone(), ranks))
    };
    entries.iter().map(group).collect()
}
