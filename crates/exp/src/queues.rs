//! `queue` tables of cables: which discipline, and its settings.

use std::ops::RangeInclusive;

use knee_file::units::{Pkts, Quantity as _, QueueLimit, Share, Size};
use knee_file::{Error, Node, Reader};
use knee_queue::{
    ClassConfig, ClassService, Condition, Limit, Place, QueueConfig, Setting, Threshold, Visit,
};

use crate::classes::MAX_DSCP;
use crate::names::expand_all;

/// Of a class or a weight: more is a mistake.
const MAX_CLASSES: usize = 64;
const MAX_WEIGHT: u32 = 1_000_000;
/// Inputs of a port's second buffer: each port of a network has a list of its own.
const MAX_INPUTS: usize = 200;

pub(crate) fn read_queue(reader: &Reader<'_>, place: Place) -> Result<QueueConfig, Error> {
    let mut all = QueueConfig::each(place);
    let kinds: Vec<_> = all.iter().zip(0..).map(|(queue, at)| (queue.kind(), at)).collect();
    reader.need_text("kind", "droptail")?;
    let mut queue = all.swap_remove(reader.choice_or("kind", &kinds, "")?);
    let keys: Vec<_> = std::iter::once("kind").chain(queue.keys()).collect();
    reader.check(&keys)?;
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

/// Puts what a table says in the place of what it leaves out, up to the first mistake.
struct Read<'a, 'r> {
    reader: &'a Reader<'r>,
    place: Place,
    /// Of the key that was needed last.
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
                *limit = reader.get_or(key, QueueLimit(*limit))?.0;
                if let Limit::Bytes(bytes) = *limit {
                    self.holds_a_packet(key, bytes)?;
                }
            }
            Setting::Room(bytes) => {
                *bytes = reader.get_or(key, Size(*bytes))?.0;
                self.holds_a_packet(key, *bytes)?;
            }
            Setting::Pkts(pkts) => *pkts = reader.get_or(key, Pkts(*pkts))?.0,
            Setting::Bytes(bytes, allowed) => {
                let size = reader.get_or(key, Size(u64::from(*bytes)))?.0;
                let fits = u32::try_from(size).ok().filter(|size| allowed.contains(size));
                *bytes = fits.ok_or_else(|| reader.error(key, sizes(&allowed)))?;
            }
            Setting::Backlog(bytes) => {
                *bytes = match reader.get_or(key, Threshold::Bytes(*bytes))? {
                    // Packets are full ones.
                    Threshold::Pkts(pkts) => u64::from(pkts) * u64::from(self.place.frame_bytes),
                    Threshold::Bytes(bytes) => bytes,
                    Threshold::Sojourn(_) => {
                        let why = format!("must be packets or a size, as in {:?}", self.example);
                        return Err(reader.error(key, why));
                    }
                }
            }
            Setting::Threshold(threshold) => *threshold = reader.get_or(key, *threshold)?,
            Setting::Time(time) => *time = reader.get_or(key, *time)?,
            Setting::MaybeTime(time) => *time = reader.get(key)?,
            Setting::Share(share) => *share = reader.get_or(key, Share(*share))?.0,
            Setting::MaybeShare(share) => *share = reader.get(key)?.map(|Share(share)| share),
            Setting::Number(number, allowed) | Setting::Gain(number, allowed) => {
                *number = reader.u32_or(key, allowed, *number)?;
            }
            Setting::MaybeNumber(number, allowed) => {
                let allowed = u64::from(*allowed.start())..=u64::from(*allowed.end());
                let read = reader.integer(key, allowed)?;
                *number = read.map(|number| u32::try_from(number).unwrap_or(u32::MAX));
            }
            Setting::Flag(flag) => *flag = reader.flag_or(key, *flag)?,
            Setting::Word(word, words) => {
                let numbered: Vec<_> = words.iter().copied().zip(0..).collect();
                *word = reader.choice_or(key, &numbered, words.get(*word).unwrap_or(&""))?;
            }
            Setting::Names(names) => *names = read_inputs(reader, key)?,
            Setting::Parts => {}
        }
        Ok(())
    }

    fn holds_a_packet(&self, key: &str, bytes: u64) -> Result<(), Error> {
        let full = self.place.frame_bytes;
        if bytes < u64::from(full) {
            let why = format!("must hold one full packet ({full} B), or none ever passes");
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

/// The classes of a port in order.
fn read_classes(reader: &Reader<'_>, place: Place) -> Result<Vec<ClassConfig>, Error> {
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

/// The inputs of the second buffer, as names: `find_inputs` numbers them.
fn read_inputs(reader: &Reader<'_>, key: &str) -> Result<Vec<String>, Error> {
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
