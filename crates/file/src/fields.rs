//! Parts of a run that show their settings: how a table of a file fills them in, and the entries of their keys.

use std::borrow::Cow;

use knee_units::settings::{About, Names, Setting, Visit};
use knee_units::time::{Duration, Rate};
use knee_units::{Limit, Threshold};

use crate::error::Error;
use crate::keys::{
    Below, Describe as _, Entry, Key, Keys, Kind, List, Single, Text, list_of, words,
};
use crate::reader::{Reader, one_of};
use crate::units::{Burst, Overhead, Pkts, Quantity as _, Share, Size};

/// Keys of a part, as tables have them together.
#[derive(Debug)]
pub struct Fields {
    /// Shows the part with its defaults.
    pub show: fn(&mut dyn Visit),
    /// Says what the table of a key is that is one.
    pub tables: fn(Below) -> Below,
}

impl Keys for Fields {
    fn names(&self) -> Vec<&'static str> {
        let mut names = Names::default();
        (self.show)(&mut names);
        names.0
    }

    fn entries(&self) -> Vec<Entry> {
        entries_of(self.tables, |v| (self.show)(v))
    }
}

/// Entries of the settings that are shown, with their values as defaults.
pub fn entries_of(tables: fn(Below) -> Below, show: impl FnOnce(&mut dyn Visit)) -> Vec<Entry> {
    let mut all = Describing { entries: Vec::new(), tables };
    show(&mut all);
    all.entries
}

struct Describing {
    entries: Vec<Entry>,
    tables: fn(Below) -> Below,
}

impl Visit for Describing {
    fn key(&mut self, about: About, setting: Setting<'_>) {
        self.entries.push(match setting {
            Setting::Limit(limit) => entry(about, Some(*limit)),
            Setting::Room(bytes) => entry(about, Some(Size(*bytes))),
            Setting::Pkts(pkts) => entry(about, Some(Pkts(*pkts))),
            Setting::Bytes(bytes) => entry(about, Some(Size(u64::from(*bytes)))),
            Setting::MaybeBytes(_) => entry::<Size>(about, None),
            Setting::Overhead(_) => entry::<Overhead>(about, None),
            Setting::Backlog(_) | Setting::MaybeBurst(_) => entry::<Burst>(about, None),
            Setting::Threshold(threshold) => entry(about, Some(*threshold)),
            Setting::Time(time) => entry(about, Some(*time)),
            Setting::MaybeTime(_) => entry::<Duration>(about, None),
            Setting::MaybeRate(_) => entry::<Rate>(about, None),
            Setting::Share(share) => entry(about, Some(Share(*share))),
            Setting::MaybeShare(_) => entry::<Share>(about, None),
            Setting::Number(number) | Setting::Gain(number) => entry(about, Some(*number)),
            Setting::Small(number) => entry(about, Some(u32::from(*number))),
            Setting::Large(number) => entry(about, Some(*number)),
            Setting::MaybeNumber(_) => entry::<u32>(about, None),
            Setting::Flag(flag) => entry(about, Some(*flag)),
            Setting::Flags(flags) => {
                Entry::of(&about, None, list_of(words(flags.iter().map(|(name, _)| *name))))
            }
            Setting::Word(word, all) => {
                let default = all.get(*word).map(|&word| word.to_owned());
                Entry::of(&about, default, words(all.iter().copied()))
            }
            Setting::Names(_) => entry::<List<Text>>(about, None),
            Setting::Parts => (self.tables)(Below::of(about)).entry(),
        });
    }
}

fn entry<T: Kind>(about: About, default: Option<T>) -> Entry {
    Key { about, default }.entry()
}

impl Reader<'_> {
    /// Fills in what this table says of the settings that are shown; a full packet has `frame_bytes`. What may be none is none
    /// where the table does not say it.
    pub fn fill(&self, frame_bytes: u32, show: impl FnOnce(&mut dyn Visit)) -> Result<(), Error> {
        Filling { reader: self, frame_bytes, keeps: false, failed: None }.fill(show)
    }

    /// As `fill`, for settings of which something else has said some: they are kept.
    pub fn fill_rest(
        &self,
        frame_bytes: u32,
        show: impl FnOnce(&mut dyn Visit),
    ) -> Result<(), Error> {
        Filling { reader: self, frame_bytes, keeps: true, failed: None }.fill(show)
    }
}

/// Fills in the keys of a table in place of defaults, up to the first error.
struct Filling<'a, 'r> {
    reader: &'a Reader<'r>,
    frame_bytes: u32,
    keeps: bool,
    failed: Option<Error>,
}

impl Visit for Filling<'_, '_> {
    fn key(&mut self, about: About, setting: Setting<'_>) {
        let (reader, key) = (self.reader, about.name());
        let is_written = reader.has(key);
        if self.failed.is_some() || (!is_written && !about.lacks.is_empty()) {
            return;
        }
        self.failed = if is_written && !about.lacks.is_empty() {
            Some(reader.error(key, about.lacks))
        } else if is_written && !about.with.is_empty() && !reader.has(about.with) {
            Some(reader.error(key, format!("needs {}", about.with)))
        } else if !is_written && about.is_needed {
            Some(reader.missing(key, &about.written()))
        } else {
            self.read(&about, setting).err()
        };
    }

    fn refused(&mut self, key: &'static str, why: Cow<'static, str>) {
        self.failed.get_or_insert_with(|| self.reader.error(key, why));
    }

    fn refused_if_written(&mut self, key: &'static str, why: &dyn Fn() -> String) {
        if self.reader.has(key) {
            self.refused(key, why().into());
        }
    }
}

impl Filling<'_, '_> {
    fn fill(mut self, show: impl FnOnce(&mut dyn Visit)) -> Result<(), Error> {
        show(&mut self);
        self.failed.map_or(Ok(()), Err)
    }

    fn read(&self, about: &About, setting: Setting<'_>) -> Result<(), Error> {
        let reader = self.reader;
        match setting {
            Setting::Limit(limit) => {
                *limit = self.or(about, *limit)?;
                if let Limit::Bytes(bytes) = *limit {
                    self.holds_a_packet(about, bytes)?;
                }
            }
            Setting::Room(bytes) => {
                *bytes = self.or(about, Size(*bytes))?.0;
                self.holds_a_packet(about, *bytes)?;
            }
            Setting::Pkts(pkts) => *pkts = self.or(about, Pkts(*pkts))?.0,
            Setting::Bytes(bytes) => {
                *bytes = self.fits(about, self.or(about, Size(u64::from(*bytes)))?)?;
            }
            Setting::MaybeBytes(bytes) => {
                let size = self.get(about)?.map(|size| self.fits(about, size)).transpose()?;
                self.put(bytes, size);
            }
            Setting::Overhead(bytes) => *bytes = self.get(about)?.map_or(*bytes, |Overhead(it)| it),
            Setting::Backlog(bytes) => {
                *bytes = match self.or(about, Threshold::Bytes(*bytes))? {
                    // Packets are assumed to be full.
                    Threshold::Pkts(pkts) => u64::from(pkts) * u64::from(self.frame_bytes),
                    Threshold::Bytes(bytes) => bytes,
                    Threshold::Sojourn(_) => {
                        let why = format!("must be packets or a size, as in {:?}", about.example);
                        return Err(reader.error(about.name(), why));
                    }
                }
            }
            Setting::MaybeBurst(burst) => {
                let bytes = self.get(about)?.map(|burst| match burst {
                    Burst::Bytes(bytes) => bytes,
                    Burst::Pkts(pkts) => pkts.saturating_mul(self.frame_bytes),
                });
                bytes.map_or(Ok(()), |bytes| self.holds_a_packet(about, bytes.into()))?;
                self.put(burst, bytes);
            }
            Setting::Threshold(threshold) => *threshold = self.or(about, *threshold)?,
            Setting::Time(time) => *time = self.or(about, *time)?,
            Setting::MaybeTime(time) => self.put(time, self.get(about)?),
            Setting::MaybeRate(rate) => self.put(rate, self.get(about)?),
            Setting::Share(share) => *share = self.or(about, Share(*share))?.0,
            Setting::MaybeShare(share) => self.put(share, self.get(about)?.map(|Share(it)| it)),
            Setting::Number(number) | Setting::Gain(number) => *number = self.or(about, *number)?,
            Setting::Small(number) => {
                let about = about.up_to(u8::MAX.into());
                *number = self.or(&about, u32::from(*number))? as u8;
            }
            Setting::Large(number) => *number = self.or(about, *number)?,
            Setting::MaybeNumber(number) => self.put(number, self.get(about)?),
            Setting::Flag(flag) => *flag = self.or(about, *flag)?,
            Setting::Flags(mut flags) => {
                let Some(names) = reader.texts_of(about.name())? else { return Ok(()) };
                let known: Vec<&str> = flags.iter().map(|(name, _)| *name).collect();
                if let Some(name) = names.iter().find(|name| !known.contains(name)) {
                    return Err(reader.error(about.name(), one_of(name, known.into_iter())));
                }
                flags.iter_mut().for_each(|(name, flag)| **flag = names.contains(name));
            }
            Setting::Word(word, words) => {
                let numbered: Vec<_> = words.iter().copied().zip(0..).collect();
                let default = words.get(*word).unwrap_or(&"");
                *word = reader.choose_of(about.name(), &numbered, default)?;
            }
            Setting::Names(names) => {
                let texts = reader.texts_of(about.name())?.unwrap_or_default();
                *names = texts.into_iter().map(str::to_owned).collect();
            }
            Setting::Parts => {}
        }
        Ok(())
    }

    fn put<T>(&self, place: &mut Option<T>, value: Option<T>) {
        if value.is_some() || !self.keeps {
            *place = value;
        }
    }

    /// The value of a key, if it is written.
    fn get<T: Single>(&self, about: &About) -> Result<Option<T>, Error> {
        self.reader.get(&Key { about: *about, default: None })
    }

    /// As `get`, with a default.
    fn or<T: Single>(&self, about: &About, default: T) -> Result<T, Error> {
        self.reader.get_or(&Key { about: *about, default: None }, default)
    }

    fn fits(&self, about: &About, size: Size) -> Result<u32, Error> {
        let about = about.up_to(u32::MAX.into());
        let fits = u32::try_from(size.0).ok().filter(|_| (about.from..=about.to).contains(&size.0));
        fits.ok_or_else(|| {
            let sizes = match about.to {
                4_294_967_295 => "at most 4 GB".to_owned(),
                most => format!("from {} to {}", Size(about.from).show(), Size(most).show()),
            };
            let example = if about.example.is_empty() { "1514 B" } else { about.example };
            self.reader.error(about.name(), format!("must be {sizes}, as in {example:?}"))
        })
    }

    fn holds_a_packet(&self, about: &About, bytes: u64) -> Result<(), Error> {
        let full = self.frame_bytes;
        match bytes < u64::from(full) {
            true => Err(self
                .reader
                .error(about.name(), format!("must hold one full packet ({full} B)"))),
            false => Ok(()),
        }
    }
}
