//! Tables `queue` of cables: the discipline and its settings.

use std::ops::RangeInclusive;

use knee_file::keys::{Below, Describe as _, Entry, Key, List, Name, Shape, Table, Text};
use knee_file::units::{Burst, Pkts, Quantity as _, Share, Size};
use knee_file::{Error, Node, Reader, keys};
use knee_queue::time::{Duration, Rate};
use knee_queue::{
    ClassConfig, ClassService, Condition, Limit, PortProperties, QueueConfig, Setting, Threshold,
    Visit,
};

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
        let variants = all.iter().map(|queue| {
            let kind = Entry::new("kind", "Discipline.", keys::words(kinds.iter().copied()));
            (queue.kind(), std::iter::once(kind.needed()).chain(described(queue)).collect())
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
    let mut read = Read { reader, place, example: "", failed: None };
    queue.settings_mut().fields(&mut read);
    match read.failed {
        Some(error) => Err(error),
        None => Ok(queue),
    }
}

/// Fills in the keys of a table in place of defaults, up to the first error.
struct Read<'a, 'r> {
    reader: &'a Reader<'r>,
    place: PortProperties,
    /// Example of the last required key.
    example: &'static str,
    failed: Option<Error>,
}

impl Visit for Read<'_, '_> {
    fn key(&mut self, key: &'static str, setting: Setting<'_>) {
        if self.failed.is_none() {
            self.failed = self.read(key, setting).err();
        }
    }

    fn need(&mut self, key: &'static str, example: &'static str) {
        self.example = example;
        if !self.reader.has(key) {
            self.fail(self.reader.missing(key, &format!("{example:?}")));
        }
    }

    fn without(&mut self, key: &'static str, why: &'static str) {
        if self.reader.has(key) {
            self.refuse(key, why);
        }
    }

    fn refuse(&mut self, key: &'static str, why: &'static str) {
        self.fail(self.reader.error(key, why));
    }
}

impl Read<'_, '_> {
    fn fail(&mut self, error: Error) {
        self.failed.get_or_insert(error);
    }

    fn read(&self, key: &'static str, setting: Setting<'_>) -> Result<(), Error> {
        let reader = self.reader;
        match setting {
            Setting::Limit(limit) => {
                *limit = reader.get_or(&Key::new(key, ""), *limit)?;
                if let Limit::Bytes(bytes) = *limit {
                    self.holds_a_packet(key, bytes)?;
                }
            }
            Setting::Room(bytes) => {
                *bytes = reader.get_or(&Key::new(key, ""), Size(*bytes))?.0;
                self.holds_a_packet(key, *bytes)?;
            }
            Setting::Pkts(pkts) => *pkts = reader.get_or(&Key::new(key, ""), Pkts(*pkts))?.0,
            Setting::Bytes(bytes, allowed) => {
                let size = reader.get_or(&Key::new(key, ""), Size(u64::from(*bytes)))?.0;
                let fits = u32::try_from(size).ok().filter(|size| allowed.contains(size));
                *bytes = fits.ok_or_else(|| reader.error(key, sizes(&allowed)))?;
            }
            Setting::Backlog(bytes) => {
                *bytes = match reader.get_or(&Key::new(key, ""), Threshold::Bytes(*bytes))? {
                    // Packets are assumed to be full.
                    Threshold::Pkts(pkts) => u64::from(pkts) * u64::from(self.place.frame_bytes),
                    Threshold::Bytes(bytes) => bytes,
                    Threshold::Sojourn(_) => {
                        let why = format!("must be packets or a size, as in {:?}", self.example);
                        return Err(reader.error(key, why));
                    }
                }
            }
            Setting::Threshold(threshold) => {
                *threshold = reader.get_or(&Key::new(key, ""), *threshold)?
            }
            Setting::Time(time) => *time = reader.get_or(&Key::new(key, ""), *time)?,
            Setting::MaybeTime(time) => *time = reader.get(&Key::new(key, ""))?,
            Setting::Share(share) => *share = reader.get_or(&Key::new(key, ""), Share(*share))?.0,
            Setting::MaybeShare(share) => {
                *share = reader.get(&Key::new(key, ""))?.map(|Share(share)| share)
            }
            Setting::Number(number, allowed) | Setting::Gain(number, allowed) => {
                *number = reader.get_or(&number_key(key, "", allowed), *number)?;
            }
            Setting::MaybeNumber(number, allowed) => {
                *number = reader.get(&number_key(key, "", allowed))?;
            }
            Setting::Flag(flag) => *flag = reader.get_or(&Key::new(key, ""), *flag)?,
            Setting::Word(word, words) => {
                let numbered: Vec<_> = words.iter().copied().zip(0..).collect();
                *word = reader.choose_of(key, &numbered, words.get(*word).unwrap_or(&""))?;
            }
            Setting::Names(names) => *names = read_inputs(reader, key)?,
            Setting::Parts => {}
        }
        Ok(())
    }

    fn holds_a_packet(&self, key: &str, bytes: u64) -> Result<(), Error> {
        let full = self.place.frame_bytes;
        if bytes < u64::from(full) {
            let why = format!("must hold one full packet ({full} B)");
            return Err(self.reader.error(key, why));
        }
        Ok(())
    }
}

fn sizes(allowed: &RangeInclusive<u32>) -> String {
    let size = |bytes: &u32| Size(u64::from(*bytes)).show();
    let sizes = match allowed.end() {
        &u32::MAX => "at most 4 GB".to_owned(),
        most => format!("from {} to {}", size(allowed.start()), size(most)),
    };
    format!("must be {sizes}, as in \"1514 B\"")
}

/// Schema entries of a queue's keys.
fn described(queue: &QueueConfig) -> Vec<Entry> {
    let mut all = Describing::default();
    queue.clone().settings_mut().fields(&mut all);
    // Some keys exist only beside a flag or a word.
    for turn in 0..4 {
        all.turn = Some(turn);
        queue.clone().settings_mut().fields(&mut all);
    }
    let order = queue.keys();
    all.entries.sort_by_key(|entry| order.iter().position(|key| *key == entry.key));
    all.entries
}

/// Records each key that it has not seen.
#[derive(Default)]
struct Describing {
    entries: Vec<Entry>,
    /// Description of the next key.
    says: &'static str,
    is_needed: bool,
    /// Selects another value for flags and words, so that other keys appear.
    turn: Option<usize>,
}

impl Visit for Describing {
    fn key(&mut self, key: &'static str, mut setting: Setting<'_>) {
        let is_needed = std::mem::take(&mut self.is_needed);
        if !self.entries.iter().any(|entry| entry.key == key) {
            let entry = described_as(key, self.says, &setting);
            self.entries.push(if is_needed { entry.needed() } else { entry });
        }
        match (&mut setting, self.turn) {
            (Setting::Flag(flag), Some(turn)) => **flag = turn % 2 == 0,
            (Setting::Word(word, words), Some(turn)) => **word = turn % words.len(),
            (Setting::MaybeTime(time), Some(_)) => **time = Some(Duration::from_ms(1)),
            _ => {}
        }
    }

    fn says(&mut self, words: &'static str) {
        self.says = words;
    }

    fn need(&mut self, _key: &'static str, _example: &'static str) {
        self.is_needed = true;
    }
}

fn described_as(name: &'static str, says: &'static str, setting: &Setting<'_>) -> Entry {
    match setting {
        Setting::Limit(limit) => Key::new(name, says).or(**limit).entry(),
        Setting::Room(bytes) => Key::new(name, says).or(Size(**bytes)).entry(),
        Setting::Pkts(pkts) => Key::new(name, says).or(Pkts(**pkts)).entry(),
        Setting::Bytes(bytes, _) => Key::new(name, says).or(Size(u64::from(**bytes))).entry(),
        Setting::Backlog(_) => Key::<Burst>::new(name, says).entry(),
        Setting::Threshold(threshold) => Key::new(name, says).or(**threshold).entry(),
        Setting::Time(time) => Key::new(name, says).or(**time).entry(),
        Setting::MaybeTime(_) => Key::<Duration>::new(name, says).usually("none").entry(),
        Setting::Share(share) => Key::new(name, says).or(Share(**share)).entry(),
        Setting::MaybeShare(_) => Key::<Share>::new(name, says).usually("none").entry(),
        Setting::Number(number, allowed) | Setting::Gain(number, allowed) => {
            number_key(name, says, allowed.clone()).or(**number).entry()
        }
        Setting::MaybeNumber(_, allowed) => {
            number_key(name, says, allowed.clone()).usually("none").entry()
        }
        Setting::Flag(flag) => Key::new(name, says).or(**flag).entry(),
        Setting::Word(word, words) => {
            let entry = Entry::new(name, says, keys::words(words.iter().copied()));
            entry.or(words.get(**word).unwrap_or(&""))
        }
        Setting::Names(_) => Key::<List<Text>>::new(name, says).entry(),
        Setting::Parts if name == "class" => {
            Below::new(name, says).list(&ClassKeys::TABLE).entry().needed()
        }
        Setting::Parts => Below::new(name, says).table(&TABLE).entry().needed(),
    }
}

fn number_key(key: &'static str, says: &'static str, allowed: RangeInclusive<u32>) -> Key<u32> {
    Key::new(key, says).within(u64::from(*allowed.start()), u64::from(*allowed.end()))
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

/// Reads the inputs of the second buffer as names. `find_inputs` resolves them to numbers.
fn read_inputs(reader: &Reader<'_>, key: &str) -> Result<Vec<String>, Error> {
    let texts = reader.texts_of(key)?.unwrap_or_default();
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
        for queue in QueueConfig::each(PortProperties { frame_bytes: 1514, rate, has_burst: false })
        {
            let entries = described(&queue);
            let keys: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
            assert_eq!(keys, queue.keys(), "{}", queue.kind());
            let mut says: Vec<&str> = entries.iter().map(|entry| entry.says.as_str()).collect();
            says.sort_unstable();
            says.dedup();
            assert_eq!(says.len(), keys.len(), "{}: each key means something else", queue.kind());
        }
    }
}
