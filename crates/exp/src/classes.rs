//! Queues of several queues in a file: classes, and the two buffers of a port.

use knee_queue::{
    Alternate, ClassConfig, ClassService, ClassesConfig, Condition, LimitPer, QueueConfig,
    TwoBuffersConfig,
};
use knee_sim::spec::{LinkId, Network};

use crate::error::Error;
use crate::network::expand;
use crate::reader::Reader;
use crate::tree::{Node, Value};
use crate::units::Size;

/// Of a class or a weight: more is a mistake.
const MAX_CLASSES: usize = 64;
const MAX_WEIGHT: u32 = 1_000_000;
/// The largest DSCP.
pub(crate) const MAX_DSCP: u64 = 63;

/// Reads the queue of a class or a buffer.
type ReadQueue<'f> = &'f dyn Fn(&Reader<'_>) -> Result<QueueConfig, Error>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Service {
    Weighted,
    Strict,
}

pub(crate) fn read_classes(
    reader: &Reader<'_>,
    frame_bytes: u32,
    read_queue: ReadQueue<'_>,
) -> Result<ClassesConfig, Error> {
    reader.check(&["kind", "service", "quantum", "class"])?;
    let services = [("weighted", Service::Weighted), ("strict", Service::Strict)];
    let service = reader.choice_or("service", &services, "weighted")?;
    let readers = reader.children("class")?;
    if readers.is_empty() || readers.len() > MAX_CLASSES {
        let example = "class = [{ dscp = 1, queue = { ... } }, { queue = { ... } }]";
        let message = format!("must have 1 to {MAX_CLASSES} classes, as in {example}");
        return Err(reader.error("class", message));
    }
    let mut classes: Vec<ClassConfig> = Vec::with_capacity(readers.len());
    for (number, reader) in (1..).zip(&readers) {
        let class = read_class(reader, number, service, read_queue)?;
        if classes.iter().any(|prior| prior.name == class.name) {
            let message = format!("must differ from that of another class (\"{}\")", class.name);
            return Err(reader.error("name", message));
        }
        classes.push(class);
    }
    let quantum = reader.get_or("quantum", Size(u64::from(frame_bytes)))?;
    let quantum_bytes = u32::try_from(quantum.0)
        .map_err(|_| reader.error("quantum", "must be at most 4 GB, as in \"1514 B\""))?;
    Ok(ClassesConfig { classes, quantum_bytes })
}

fn read_class(
    reader: &Reader<'_>,
    number: u32,
    service: Service,
    read_queue: ReadQueue<'_>,
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
    if service == Service::Strict && reader.has("strict") {
        let message = "has no meaning beside service = \"strict\", which says it of all classes";
        return Err(reader.error("strict", message));
    }
    let is_strict =
        service == Service::Strict || (reader.has("strict") && reader.flag_or("strict", false)?);
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
        queue: read_queue(&reader.need_child("queue")?)?,
    })
}

/// The inputs of the second buffer are names still: [`find_inputs`] numbers them.
pub(crate) fn read_two_buffers(
    reader: &Reader<'_>,
    read_queue: ReadQueue<'_>,
) -> Result<TwoBuffersConfig, Error> {
    reader.check(&["kind", "second", "alternate", "limit_per", "queue"])?;
    let alternate = [("packets", Alternate::Packets), ("bytes", Alternate::Bytes)];
    let limit_per = [("buffer", LimitPer::Buffer), ("port", LimitPer::Port)];
    let mut second_names = Vec::new();
    for text in reader.need_texts("second", "s3")? {
        second_names.extend(expand(text).map_err(|why| reader.error("second", why))?);
    }
    Ok(TwoBuffersConfig {
        second: Vec::new(),
        second_names,
        queue: Box::new(read_queue(&reader.need_child("queue")?)?),
        alternate: reader.choice_or("alternate", &alternate, "packets")?,
        limit_per: reader.choice_or("limit_per", &limit_per, "buffer")?,
    })
}

/// Gives each port with two buffers the links that lead from the named nodes to its switch. `reader` is that of `[network]`.
pub(crate) fn find_inputs(network: &mut Network, reader: &Reader<'_>) -> Result<(), Error> {
    // Names of all such ports, and whether there is a cable from them to one of the switches.
    let mut seen: Vec<(String, bool)> = Vec::new();
    let ends: Vec<_> = network.links.iter().map(|link| (link.from, link.to)).collect();
    let Network { nodes, links, .. } = network;
    for link in links.iter_mut() {
        let here = link.from;
        let inputs = |name: &str| -> Vec<LinkId> {
            let is_input =
                |(from, to): &(u32, u32)| *to == here && nodes[*from as usize].name == name;
            ends.iter().zip(0..).filter(|(ends, _)| is_input(ends)).map(|(_, id)| id).collect()
        };
        link.queue.each_mut(&mut |queue| {
            let QueueConfig::TwoBuffers(buffers) = queue else { return };
            buffers.second.clear();
            for name in &buffers.second_names {
                let found = inputs(name);
                match seen.iter_mut().find(|(seen, _)| seen == name) {
                    Some((_, is_input)) => *is_input |= !found.is_empty(),
                    None => seen.push((name.clone(), !found.is_empty())),
                }
                buffers.second.extend(found);
            }
        });
    }
    let Some((name, _)) = seen.into_iter().find(|(_, is_input)| !is_input) else { return Ok(()) };
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
    Err(Error::input(reader.file(), origin, path, message))
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
    texts.into_iter().flat_map(|text| expand(text).unwrap_or_default()).collect()
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
