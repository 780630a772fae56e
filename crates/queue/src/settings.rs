//! Settings of a discipline, described once. A [`Visit`] reads, checks, scales, seeds or lists them.
//!
//! ```
//! use knee_queue::time::{Duration, Rate};
//! use knee_queue::{PortProperties, QueueConfig};
//! use knee_units::settings::{About, Setting, Visit};
//!
//! /// Makes every time of a queue ten times as long.
//! struct Slower;
//!
//! impl Visit for Slower {
//!     fn key(&mut self, _about: About, setting: Setting<'_>) {
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

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use crate::time::{Duration, Rate};
use knee_units::Limit;
use knee_units::settings::{About, Setting, Visit};

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

/// Settings that cannot work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The key that says so.
    pub key: &'static str,
    why: Cow<'static, str>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl Error for ConfigError {}

/// Keeps the first refusal.
#[derive(Default)]
pub(crate) struct Check(pub(crate) Option<ConfigError>);

impl Visit for Check {
    fn key(&mut self, _about: About, _setting: Setting<'_>) {}

    fn refused(&mut self, key: &'static str, why: Cow<'static, str>) {
        self.0.get_or_insert(ConfigError { key, why });
    }
}

/// The limit on what may wait: the setting of this kind, or the packets of the key `limit`.
#[derive(Default)]
pub(crate) struct FindLimit(pub(crate) Option<Limit>);

impl Visit for FindLimit {
    fn key(&mut self, about: About, setting: Setting<'_>) {
        match setting {
            Setting::Limit(limit) => self.0 = Some(*limit),
            Setting::Pkts(pkts) if about.name() == "limit" => self.0 = Some(Limit::Pkts(*pkts)),
            _ => {}
        }
    }
}

/// Gives each seed the next of these.
pub(crate) struct Seeds<'a>(pub(crate) &'a mut dyn FnMut() -> u64);

impl Visit for Seeds<'_> {
    fn key(&mut self, _about: About, _setting: Setting<'_>) {}

    fn seed(&mut self, seed: &mut u64) {
        *seed = (self.0)();
    }
}

/// Transmission time of `bytes`.
pub(crate) fn drain(rate: Rate, bytes: u64) -> Duration {
    rate.time_of(u32::try_from(bytes).unwrap_or(u32::MAX))
}
