//! Tables `queue` of cables: the discipline and its settings.

use knee_file::keys::{Below, Entry, Key, List, Name, Shape, Table};
use knee_file::units::{Quantity as _, Size};
use knee_file::{Error, Node, Reader, entries_of, keys};
use knee_queue::time::Rate;
use knee_queue::{ClassConfig, ClassService, Condition, PortProperties, QueueConfig};

use crate::classes::MAX_DSCP;
use crate::names::expand_all;

/// Largest number of classes, and largest weight of a class.
const MAX_CLASSES: usize = 64;
const MAX_WEIGHT: u32 = 1_000_000;
/// Largest number of inputs of a port's second buffer, because each port of a network has its own list.
const MAX_INPUTS: usize = 200;

/// Frame length for which schema and page show a queue's defaults.
const SHOWN_FRAME_BYTES: u32 = 1514;
const SHOWN_RATE: &str = "1 Gbps";

/// A table `queue`.
pub(crate) static TABLE: Table = Table {
    name: "queue",
    says: "A queue discipline and its settings: docs/queues.md. Defaults are for 1 Gbps and an MTU \
        of 1500.",
    shape: || {
        let rate = Rate::parse(SHOWN_RATE).ok();
        let place = rate.map(|rate| PortProperties {
            frame_bytes: SHOWN_FRAME_BYTES,
            rate,
            has_burst: false,
        });
        let all = place.map(QueueConfig::each).unwrap_or_default();
        let kinds: Vec<&'static str> = all.iter().map(QueueConfig::kind).collect();
        let variants = all.into_iter().map(|mut queue| {
            let kind = Entry::new("kind", "Discipline.", keys::words(kinds.iter().copied()));
            let entries = entries_of(tables, |v| queue.settings_mut().fields(v));
            (queue.kind(), std::iter::once(kind.needed()).chain(entries).collect())
        });
        Shape::By("kind", variants.collect())
    },
};

pub(crate) fn read_queue(reader: &Reader<'_>, place: PortProperties) -> Result<QueueConfig, Error> {
    let mut all = QueueConfig::each(place);
    let kinds: Vec<_> = all.iter().zip(0..).map(|(queue, at)| (queue.kind(), at)).collect();
    if !reader.has("kind") {
        return Err(reader.missing("kind", "\"droptail\""));
    }
    let mut queue = all.swap_remove(reader.choose_of("kind", &kinds, "")?);
    let keys: Vec<_> = std::iter::once("kind").chain(queue.keys()).collect();
    reader.check_names(&keys)?;
    match &mut queue {
        QueueConfig::Classes(config) => config.classes = read_classes(reader, place)?,
        QueueConfig::TwoBuffers(config) => {
            *config.queue = read_queue(&reader.need_child("queue")?, place)?;
        }
        _ => {}
    }
    reader.fill(place.frame_bytes, |v| queue.settings_mut().fields(v))?;
    if let QueueConfig::TwoBuffers(config) = &mut queue {
        config.second_names = inputs(reader, "second", &config.second_names)?;
    }
    Ok(queue)
}

/// Says what the tables of a queue are.
fn tables(below: Below) -> Below {
    match below.as_ref() {
        "class" => below.list(&ClassKeys::TABLE),
        _ => below.table(&TABLE),
    }
}

/// Reads the classes of a port, in order.
fn read_classes(reader: &Reader<'_>, place: PortProperties) -> Result<Vec<ClassConfig>, Error> {
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
            let message = format!("must differ from the other classes' names (\"{}\")", class.name);
            return Err(reader.error(&CLASS.name, message));
        }
        classes.push(class);
    }
    Ok(classes)
}

keys! {
    /// A queue of `kind = "classes"`.
    static CLASS: ClassKeys = "class" {
        /// Name in results.
        name: Key<Name> = usually("its number, from 1").like("ect"),
        /// Packets with these DSCPs.
        dscp: Key<List<u64>> = within(0, MAX_DSCP).usually("any"),
        /// Only pure ACKs.
        acks: Key<bool> = or(false),
        /// Only packets up to this length.
        up_to: Key<Size> = usually("any"),
        /// DRR weight.
        weight: Key<u32> = or(1).within(1, MAX_WEIGHT as u64),
        /// Strict priority over later classes.
        strict: Key<bool> = or(false),
        /// Its queue.
        queue: Below = table(&TABLE).needed(),
    }
}

fn read_class(
    reader: &Reader<'_>,
    number: u32,
    all_strict: bool,
    place: PortProperties,
) -> Result<ClassConfig, Error> {
    reader.check(&[&CLASS])?;
    let name = match reader.has(&CLASS.name) {
        true => reader.need_name(&CLASS.name)?.to_owned(),
        false => number.to_string(),
    };
    let up_to = reader.get(&CLASS.up_to)?;
    let dscps = reader.numbers(&CLASS.dscp)?;
    let dscps = dscps.map(|dscps| Condition::set_of(dscps.into_iter().map(|dscp| dscp as u8)));
    let acks = reader.has(&CLASS.acks) && reader.read(&CLASS.acks)?;
    if all_strict && reader.has(&CLASS.strict) {
        let message =
            "conflicts with service = \"strict\", which applies to all classes: leave one out";
        return Err(reader.error(&CLASS.strict, message));
    }
    let is_strict = all_strict || (reader.has(&CLASS.strict) && reader.read(&CLASS.strict)?);
    if is_strict && reader.has(&CLASS.weight) {
        let message = "conflicts with strict priority: leave one out";
        return Err(reader.error(&CLASS.weight, message));
    }
    let service = match is_strict {
        true => ClassService::Strict,
        false => ClassService::Weighted(reader.read(&CLASS.weight)?),
    };
    let up_to_bytes = up_to.map(|size| u32::try_from(size.0).unwrap_or(u32::MAX));
    Ok(ClassConfig {
        name,
        condition: Condition { dscps, acks, up_to_bytes },
        service,
        queue: read_queue(&reader.need_child(&CLASS.queue)?, place)?,
    })
}

/// Returns the names of the inputs of the second buffer. `find_inputs` resolves them to numbers.
fn inputs(reader: &Reader<'_>, key: &str, texts: &[String]) -> Result<Vec<String>, Error> {
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut names = expand_all(&texts).map_err(|why| reader.error(key, why))?;
    names.sort_unstable();
    names.dedup();
    if names.len() > MAX_INPUTS {
        let message = format!("must name at most {MAX_INPUTS} inputs, not {}", names.len());
        return Err(reader.error(key, message));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_every_discipline_is_described_with_what_it_means() {
        let rate = Rate::parse(SHOWN_RATE).expect("a rate");
        let place = PortProperties { frame_bytes: 1514, rate, has_burst: false };
        for mut queue in QueueConfig::each(place) {
            let entries = entries_of(tables, |v| queue.settings_mut().fields(v));
            let keys: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
            assert_eq!(keys, queue.keys(), "{}", queue.kind());
            let mut says: Vec<&str> = entries.iter().map(|entry| entry.says.as_str()).collect();
            says.sort_unstable();
            says.dedup();
            assert_eq!(says.len(), keys.len(), "{}: each key means something else", queue.kind());
        }
    }
}
