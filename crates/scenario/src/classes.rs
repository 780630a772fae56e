//! Ports with several queues: the links that feed them, and their names in results.

use std::collections::HashMap;
use std::sync::Arc;

use knee_file::{Error, Node, Reader, Value};
use knee_queue::QueueConfig;
use knee_run::spec::{Link, LinkId, Network, NodeId};

use crate::names::expand_all;

/// The largest DSCP.
pub(crate) const MAX_DSCP: u64 = 63;

/// Finds the input links of each port with two buffers: those from the named nodes to its switch. `reader` is that of
/// `[network]`.
pub(crate) fn find_inputs(network: &mut Network, reader: &Reader<'_>) -> Result<(), Error> {
    // Most networks have no such port, and some are large.
    let mut known = HashMap::new();
    let mut has_two = |link: &Link| {
        let of_cable = known.entry(Arc::as_ptr(&link.cable));
        *of_cable.or_insert_with(|| has_two_buffers(&link.queue))
    };
    let ports = (0..).zip(&network.links).filter(|(_, link)| has_two(link));
    let ports: Vec<usize> = ports.map(|(id, _)| id).collect();
    if ports.is_empty() {
        return Ok(());
    }
    // For each name at all such ports: whether a cable leads from it to one of the switches, and its place in the order
    // of appearance. The error reports the first name without a cable.
    let mut seen: HashMap<String, (bool, usize)> = HashMap::new();
    let Network { nodes, links, .. } = network;
    let mut inputs: HashMap<(NodeId, &str), Vec<LinkId>> = HashMap::new();
    for (link, id) in links.iter().zip(0..) {
        let name = nodes[link.from as usize].name.as_str();
        inputs.entry((link.to, name)).or_default().push(id);
    }
    for port in ports {
        let link = &mut links[port];
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
    let message =
        format!("must name hosts or switches linked to the switch of this port: \"{name}\" is not");
    let mut path = reader.key("second");
    let mut origin = reader.origin();
    for (key, node) in reader.entries() {
        if let Some((below, at)) = find_second(node, &reader.key(key), &name) {
            (path, origin) = (below, at.origin);
        }
    }
    Err(Error::new(reader.file(), origin, path, message))
}

/// Returns whether a queue, or one that it consists of, has two buffers.
fn has_two_buffers(queue: &QueueConfig) -> bool {
    queue.any(|queue| matches!(queue, QueueConfig::TwoBuffers(_)))
}

/// Finds a list `second` with a name or a range that includes `name`. Returns its path and value.
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

/// Returns the name in results of a link's queue, of a part of it, or of a shared memory.
pub fn queue_name(network: &Network, link: LinkId, part: Option<u32>) -> Option<String> {
    let index = link as usize;
    let Some(link) = network.links.get(index) else {
        // Shared buffers are numbered after the links.
        let buffer = network.buffers.get(index.checked_sub(network.links.len())?)?;
        return Some(buffer.name.clone());
    };
    let name = network.link_name(link);
    match part {
        None => Some(name),
        Some(part) => {
            let parts = link.queue.part_names();
            Some(format!("{name}/{}", parts.get(part as usize)?))
        }
    }
}
