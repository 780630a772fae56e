//! Queues of several queues in a file: classes, and the two buffers of a port.

use std::collections::HashMap;

use knee_file::units::Size;
use knee_file::{Error, Node, Reader, Value};
use knee_queue::{ClassConfig, ClassService, Condition, Place, QueueConfig};
use knee_sim::spec::{LinkId, Network, NodeId};

use crate::names::expand_all;
use crate::queues::read_queue;

/// Of a class or a weight: more is a mistake.
const MAX_CLASSES: usize = 64;
const MAX_WEIGHT: u32 = 1_000_000;
/// Inputs of a port's second buffer: each port of a network has a list of its own.
const MAX_INPUTS: usize = 200;
/// The largest DSCP.
pub(crate) const MAX_DSCP: u64 = 63;

/// The classes of a port in order.
pub(crate) fn read_classes(reader: &Reader<'_>, place: Place) -> Result<Vec<ClassConfig>, Error> {
    let all_strict = reader.node("service").and_then(Node::text) == Some("strict");
    let readers = reader.children("class")?;
    if readers.is_empty() || readers.len() > MAX_CLASSES {
        let example = "class = [{ dscp = 1, queue = { ... } }, { queue = { ... } }]";
        let message = format!("must have 1 to {MAX_CLASSES} classes, as in {example}");
        return Err(reader.error("class", message));
    }
    let mut classes: Vec<ClassConfig> = Vec::with_capacity(readers.len());
    for (number, reader) in (1..).zip(&readers) {
        let class = read_class(reader, number, all_strict, place)?;
        if classes.iter().any(|prior| prior.name == class.name) {
            let message = format!("must differ from that of another class (\"{}\")", class.name);
            return Err(reader.error("name", message));
        }
        classes.push(class);
    }
    Ok(classes)
}

fn read_class(
    reader: &Reader<'_>,
    number: u32,
    all_strict: bool,
    place: Place,
) -> Result<ClassConfig, Error> {
    reader.check(&["name", "dscp", "acks", "up_to", "weight", "strict", "queue"])?;
    let name = match reader.has("name") {
        true => reader.need_name("name", "ect")?.to_owned(),
        false => number.to_string(),
    };
    let up_to: Option<Size> = reader.get("up_to")?;
    let dscps = reader.integers("dscp", 0..=MAX_DSCP)?;
    let dscps = dscps.map(|dscps| Condition::set_of(dscps.into_iter().map(|dscp| dscp as u8)));
    let acks = reader.has("acks") && reader.flag_or("acks", false)?;
    if all_strict && reader.has("strict") {
        let message = "has no meaning beside service = \"strict\", which says it of all classes";
        return Err(reader.error("strict", message));
    }
    let is_strict = all_strict || (reader.has("strict") && reader.flag_or("strict", false)?);
    if is_strict && reader.has("weight") {
        let message = "has no meaning for a class that is served strictly";
        return Err(reader.error("weight", message));
    }
    let service = match is_strict {
        true => ClassService::Strict,
        false => ClassService::Weighted(reader.u32_or("weight", 1..=MAX_WEIGHT, 1)?),
    };
    let up_to_bytes = up_to.map(|size| u32::try_from(size.0).unwrap_or(u32::MAX));
    Ok(ClassConfig {
        name,
        condition: Condition { dscps, acks, up_to_bytes },
        service,
        queue: read_queue(&reader.need_child("queue")?, place)?,
    })
}

/// The inputs of the second buffer, as names: [`find_inputs`] numbers them.
pub(crate) fn read_inputs(reader: &Reader<'_>, key: &str) -> Result<Vec<String>, Error> {
    let texts = reader.texts(key)?.unwrap_or_default();
    let mut names = expand_all(&texts).map_err(|why| reader.error(key, why))?;
    names.sort_unstable();
    names.dedup();
    if names.len() > MAX_INPUTS {
        let message = format!("must name at most {MAX_INPUTS} inputs, not {}", names.len());
        return Err(reader.error(key, message));
    }
    Ok(names)
}

/// Gives each port with two buffers the links that lead from the named nodes to its switch. `reader` is that of `[network]`.
pub(crate) fn find_inputs(network: &mut Network, reader: &Reader<'_>) -> Result<(), Error> {
    // Names of all such ports, and whether there is a cable from them to one of the switches; the last so that the first that
    // was named without one is said.
    let mut seen: HashMap<String, (bool, usize)> = HashMap::new();
    let Network { nodes, links, .. } = network;
    let mut inputs: HashMap<(NodeId, &str), Vec<LinkId>> = HashMap::new();
    for (link, id) in links.iter().zip(0..) {
        let name = nodes[link.from as usize].name.as_str();
        inputs.entry((link.to, name)).or_default().push(id);
    }
    for link in links.iter_mut() {
        let here = link.from;
        link.queue.each_mut(&mut |queue| {
            let QueueConfig::TwoBuffers(buffers) = queue else { return };
            buffers.second.clear();
            for name in &buffers.second_names {
                let found = inputs.get(&(here, name.as_str()));
                match seen.get_mut(name) {
                    Some((is_input, _)) => *is_input |= found.is_some(),
                    None => {
                        let at = seen.len();
                        seen.insert(name.clone(), (found.is_some(), at));
                    }
                }
                buffers.second.extend(found.into_iter().flatten());
            }
        });
    }
    let without = seen.into_iter().filter(|(_, (is_input, _))| !is_input);
    let Some((name, _)) = without.min_by_key(|(_, (_, at))| *at) else { return Ok(()) };
    let message = format!(
        "must name hosts or switches with a cable to the switch of this port, and \"{name}\" has none"
    );
    let mut path = reader.key("second");
    let mut origin = reader.origin();
    for (key, node) in reader.entries() {
        if let Some((below, at)) = find_second(node, &reader.key(key), &name) {
            (path, origin) = (below, at.origin);
        }
    }
    Err(Error::new(reader.file(), origin, path, message))
}

/// A list `second` in which a range or name stands that is, or contains, `name`.
fn find_second<'a>(node: &'a Node, path: &str, name: &str) -> Option<(String, &'a Node)> {
    match &node.value {
        Value::Table(table) => table.iter().find_map(|(key, node)| {
            let path = format!("{path}.{key}");
            let here = key == "second" && names(node).iter().any(|named| named == name);
            if here { Some((path, node)) } else { find_second(node, &path, name) }
        }),
        Value::List(items) => items
            .iter()
            .zip(1..)
            .find_map(|(node, i)| find_second(node, &format!("{path}.{i}"), name)),
        _ => None,
    }
}

fn names(node: &Node) -> Vec<String> {
    let texts = match &node.value {
        Value::List(items) => items.iter().filter_map(Node::text).collect(),
        _ => node.text().into_iter().collect::<Vec<_>>(),
    };
    expand_all(&texts).unwrap_or_default()
}

/// What results call a link's queue, or one of the queues that it consists of, or memory that queues share, whose numbers come
/// after those of links.
pub(crate) fn queue_name(network: &Network, link: LinkId, part: Option<u32>) -> Option<String> {
    let index = link as usize;
    let Some(link) = network.links.get(index) else {
        // Shared buffers are numbered after the links.
        let buffer = network.buffers.get(index.checked_sub(network.links.len())?)?;
        return Some(buffer.name.clone());
    };
    match part {
        None => Some(link.name.clone()),
        Some(part) => {
            let parts = link.queue.part_names();
            Some(format!("{}/{}", link.name, parts.get(part as usize)?))
        }
    }
}
