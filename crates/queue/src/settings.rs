//! Settings of a discipline, described once. A [`Visit`] reads, checks, scales, seeds or lists them.
//!
//! ```
//! use knee_queue::time::{Duration, Rate};
//! use knee_queue::{PortProperties, QueueConfig, Setting, Visit};
//!
//! /// Makes every time of a queue ten times as long.
//! struct Slower;
//!
//! impl Visit for Slower {
//!     fn key(&mut self, _key: &'static str, setting: Setting<'_>) {
//!         if let Setting::Time(time) = setting {
//!             *time = Duration::from_ps(time.ps() * 10);
//!         }
//!     }
//! }
//!
//! let rate = Rate::from_bps(10_000_000_000).expect("above 0");
//! let place = PortProperties { frame_bytes: 1514, rate, has_burst: false };
//! let mut pie = QueueConfig::each(place).into_iter().find(|queue| queue.kind() == "pie").expect("it is there");
//! pie.settings_mut().fields(&mut Slower);
//! let QueueConfig::Pie(pie) = pie else { unreachable!() };
//! assert_eq!(pie.target, Duration::from_ms(150));
//! ```

use std::error::Error;
use std::fmt;
use std::ops::RangeInclusive;

use crate::time::{Duration, Rate};
use knee_units::{Limit, Threshold};

/// Port that a queue belongs to; defaults depend on it.
#[derive(Clone, Copy, Debug)]
pub struct PortProperties {
    /// The longest packet, Ethernet header included.
    pub frame_bytes: u32,
    /// Rate of the link.
    pub rate: Rate,
    /// Whether a token bucket stands before it.
    pub has_burst: bool,
}

/// The settings of a discipline.
pub trait Settings {
    /// The discipline's name in experiment files.
    fn kind(&self) -> &'static str;

    /// Default settings, mostly Linux's. A key without a default gets an arbitrary value.
    fn at(place: PortProperties) -> Self
    where
        Self: Sized;

    /// Shows all of them, in the order of the documentation, and refuses those that cannot work. Those of the queues that it
    /// consists of are not among them.
    fn fields(&mut self, v: &mut dyn Visit);

    /// The shortest queueing delay that leads to a mark or drop, on a link of this rate. `None`: nothing happens before the
    /// queue is full, or the queues that it consists of know.
    fn acts_at(&self, rate: Rate) -> Option<Duration>;

    /// Why it may drop packets before it is full, in words that follow its name; `None`: it does not.
    fn drops_early(&self) -> Option<&'static str> {
        Some("drops packets before it is full")
    }
}

/// How a file says a setting, and where its value is.
#[derive(Debug)]
pub enum Setting<'a> {
    /// Packets or bytes, at least a full packet.
    Limit(&'a mut Limit),
    /// Bytes, at least a full packet.
    Room(&'a mut u64),
    Pkts(&'a mut u32),
    Bytes(&'a mut u32, RangeInclusive<u32>),
    /// Bytes, or full packets.
    Backlog(&'a mut u64),
    /// Packets, bytes, or time waited.
    Threshold(&'a mut Threshold),
    Time(&'a mut Duration),
    /// A time, or none.
    MaybeTime(&'a mut Option<Duration>),
    /// 0 to 1.
    Share(&'a mut f64),
    /// 0 to 1, or none.
    MaybeShare(&'a mut Option<f64>),
    /// A whole number, from and to.
    Number(&'a mut u32, RangeInclusive<u32>),
    /// A whole number, from and to, or none.
    MaybeNumber(&'a mut Option<u32>, RangeInclusive<u32>),
    /// Millionths per second, as a whole number, from and to: Linux's 0.16 is 160000.
    Gain(&'a mut u32, RangeInclusive<u32>),
    /// Yes or no.
    Flag(&'a mut bool),
    /// The number of one of these words.
    Word(&'a mut usize, &'a [&'static str]),
    /// Names of hosts and switches, or ranges of them.
    Names(&'a mut Vec<String>),
    /// The queues that it consists of: tables of their own, which are no value of it.
    Parts,
}

/// Visitor of settings.
pub trait Visit {
    /// A setting and its key.
    fn key(&mut self, key: &'static str, setting: Setting<'_>);

    /// Meaning of the next key, in one line.
    fn says(&mut self, _words: &'static str) {}

    /// The key that comes next has no default, and is written as in `example`.
    fn need(&mut self, _key: &'static str, _example: &'static str) {}

    /// A key that has no meaning beside the others, and why; it is not shown by `key` then.
    fn without(&mut self, _key: &'static str, _why: &'static str) {}

    /// Refuses the settings: the key, and why.
    fn refuse(&mut self, _key: &'static str, _why: &'static str) {}

    /// A time that has no key.
    fn time(&mut self, _time: &mut Duration) {}

    /// A seed, which has no key: each run has its own.
    fn seed(&mut self, _seed: &mut u64) {}
}

impl dyn Visit + '_ {
    /// How much may wait, where there is no default.
    pub fn limit(&mut self, limit: &mut Limit) {
        self.says("Limit in packets or bytes.");
        self.need("limit", "500 pkts");
        self.key("limit", Setting::Limit(limit));
    }

    /// Shows a setting that takes one of a few words.
    pub fn word<T: Copy + PartialEq>(
        &mut self,
        key: &'static str,
        value: &mut T,
        words: &[(&'static str, T)],
    ) {
        let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
        let mut at = words.iter().position(|(_, word)| word == value).unwrap_or(0);
        self.key(key, Setting::Word(&mut at, &names));
        *value = words.get(at).map_or(*value, |(_, word)| *word);
    }
}

/// Settings that cannot work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The key that says so.
    pub key: &'static str,
    why: &'static str,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.why)
    }
}

impl Error for ConfigError {}

/// Keeps the first refusal.
#[derive(Default)]
pub(crate) struct Check(pub(crate) Option<ConfigError>);

impl Visit for Check {
    fn key(&mut self, _key: &'static str, _setting: Setting<'_>) {}

    fn refuse(&mut self, key: &'static str, why: &'static str) {
        self.0.get_or_insert(ConfigError { key, why });
    }
}

/// Lists all keys.
pub(crate) struct Keys(pub(crate) Vec<&'static str>);

impl Visit for Keys {
    fn key(&mut self, key: &'static str, _setting: Setting<'_>) {
        self.0.push(key);
    }

    fn without(&mut self, key: &'static str, _why: &'static str) {
        self.0.push(key);
    }
}

/// The limit on what may wait: the setting of this kind, or the packets of the key `limit`.
#[derive(Default)]
pub(crate) struct FindLimit(pub(crate) Option<Limit>);

impl Visit for FindLimit {
    fn key(&mut self, key: &'static str, setting: Setting<'_>) {
        match setting {
            Setting::Limit(limit) => self.0 = Some(*limit),
            Setting::Pkts(pkts) if key == "limit" => self.0 = Some(Limit::Pkts(*pkts)),
            _ => {}
        }
    }
}

/// Gives each seed the next of these.
pub(crate) struct Seeds<'a>(pub(crate) &'a mut dyn FnMut() -> u64);

impl Visit for Seeds<'_> {
    fn key(&mut self, _key: &'static str, _setting: Setting<'_>) {}

    fn seed(&mut self, seed: &mut u64) {
        *seed = (self.0)();
    }
}

/// Transmission time of `bytes`.
pub(crate) fn drain(rate: Rate, bytes: u64) -> Duration {
    rate.time_of(u32::try_from(bytes).unwrap_or(u32::MAX))
}
