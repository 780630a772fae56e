//! Settings of a part of a run, described once. A [`Visit`] reads, checks, scales, seeds or lists them.
//!
//! ```
//! use knee_units::settings::{About, Setting, Visit};
//! use knee_units::time::Duration;
//!
//! knee_units::settings! {
//!     /// What the other end of a line does.
//!     #[derive(Debug)]
//!     pub struct Echo as (_echo, _v) {
//!         /// Longest wait for an answer.
//!         pub wait: Duration = Duration::from_ms(10) => "wait": Time;
//!         /// Bytes of an answer.
//!         pub size_bytes: u32 = 100 => "size": Bytes.within(1, 1500);
//!         /// Answers so far.
//!         pub answers: u32 = 0;
//!     }
//! }
//!
//! /// Makes every time ten times as long.
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
//! let mut echo = Echo::default();
//! echo.fields(&mut Slower);
//! assert_eq!((echo.wait, echo.size_bytes), (Duration::from_ms(100), 100));
//! ```

use std::borrow::Cow;

use crate::time::{Duration, Rate};
use crate::{Limit, Threshold};

/// Description of a key, apart from the type of its value.
#[derive(Clone, Copy, Debug)]
pub struct About {
    name: &'static str,
    /// Meaning of the key, in one line.
    pub says: &'static str,
    /// A value, for the message of who leaves it out.
    pub example: &'static str,
    /// Default in words, if it is not one value.
    pub default: &'static str,
    /// Bounds of a quantity, as written; empty: none but the unit's own.
    pub least: &'static str,
    pub most: &'static str,
    /// Whether the lower bound is too little itself.
    pub is_above: bool,
    /// Bounds of a whole number.
    pub from: u64,
    pub to: u64,
    pub is_needed: bool,
    /// Another key that must be written, too.
    pub with: &'static str,
    /// Why it has no meaning beside the other values; empty: it has one.
    pub lacks: &'static str,
}

/// Builders of a description; others have the same methods, as they hold one in a field `about`.
#[macro_export]
macro_rules! about_builders {
    ($($path:ident)*) => {
        /// Marks the key as required, with this example.
        #[must_use]
        pub const fn needed(mut self, example: &'static str) -> Self {
            self$(.$path)*.example = example;
            self$(.$path)*.is_needed = true;
            self
        }

        /// Sets the default in words, if it is not one value.
        #[must_use]
        pub const fn usually(mut self, words: &'static str) -> Self {
            self$(.$path)*.default = words;
            self
        }

        /// An example, for messages.
        #[must_use]
        pub const fn like(mut self, example: &'static str) -> Self {
            self$(.$path)*.example = example;
            self
        }

        /// The whole numbers that are allowed.
        #[must_use]
        pub const fn within(mut self, from: u64, to: u64) -> Self {
            self$(.$path)*.from = from;
            self$(.$path)*.to = to;
            self
        }

        /// The least quantity that is allowed.
        #[must_use]
        pub const fn at_least(mut self, least: &'static str) -> Self {
            self$(.$path)*.least = least;
            self
        }

        /// The most that is allowed.
        #[must_use]
        pub const fn at_most(mut self, most: &'static str) -> Self {
            self$(.$path)*.most = most;
            self
        }

        /// Sets the exclusive lower bound.
        #[must_use]
        pub const fn above(mut self, least: &'static str) -> Self {
            self$(.$path)*.least = least;
            self$(.$path)*.is_above = true;
            self
        }
    };
}

/// A key of this name and meaning.
pub const fn key(name: &'static str, says: &'static str) -> About {
    About::new(name, says)
}

impl About {
    /// A key of this name and meaning.
    pub const fn new(name: &'static str, says: &'static str) -> About {
        About {
            name,
            says,
            example: "",
            default: "",
            least: "",
            most: "",
            is_above: false,
            from: 0,
            to: i64::MAX as u64,
            is_needed: false,
            with: "",
            lacks: "",
        }
    }

    about_builders!();

    /// Has a meaning only in a file that has another key, too.
    #[must_use]
    pub const fn with(mut self, key: &'static str) -> About {
        self.with = key;
        self
    }

    /// Has a meaning only if something is so of the other values; else why not.
    #[must_use]
    pub const fn only_if(mut self, is_so: bool, why: &'static str) -> About {
        self.lacks = if is_so { "" } else { why };
        self
    }

    /// Name of the key in files.
    pub fn name(&self) -> &'static str {
        // A key that is a word of Rust has this before it.
        self.name.strip_prefix("r#").unwrap_or(self.name)
    }

    /// Limits the range to that of a smaller type.
    #[must_use]
    pub fn up_to(&self, most: u64) -> About {
        About { to: self.to.min(most), ..*self }
    }

    /// "from 1 us to 60000 ms", or less.
    pub fn bounds(&self) -> String {
        match (self.least, self.most) {
            ("", "") => String::new(),
            (least, "") if self.is_above => format!("above {least}"),
            (least, "") => format!("at least {least}"),
            ("", most) => format!("at most {most}"),
            (least, most) => format!("from {least} to {most}"),
        }
    }

    /// Allowed whole numbers, in words.
    pub fn whole_numbers(&self) -> String {
        format!("whole number from {} to {}", self.from, self.to)
    }

    /// Example of a required key, as in a file.
    pub fn written(&self) -> String {
        match self.example.parse::<u64>() {
            Ok(_) => self.example.to_owned(),
            Err(_) if self.example.starts_with(['{', '[', '"']) => self.example.to_owned(),
            Err(_) => format!("{:?}", self.example),
        }
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
    Bytes(&'a mut u32),
    /// Bytes, or none.
    MaybeBytes(&'a mut Option<u32>),
    /// Bytes, 0 too, around each packet.
    Overhead(&'a mut u32),
    /// Bytes, or full packets.
    Backlog(&'a mut u64),
    /// Bytes, or full packets, at least one; or none.
    MaybeBurst(&'a mut Option<u32>),
    /// Packets, bytes, or time waited.
    Threshold(&'a mut Threshold),
    Time(&'a mut Duration),
    /// A time, or none.
    MaybeTime(&'a mut Option<Duration>),
    /// A rate, or none.
    MaybeRate(&'a mut Option<Rate>),
    /// 0 to 1.
    Share(&'a mut f64),
    /// 0 to 1, or none.
    MaybeShare(&'a mut Option<f64>),
    /// A whole number.
    Number(&'a mut u32),
    /// A small whole number.
    Small(&'a mut u8),
    /// A large whole number.
    Large(&'a mut u64),
    /// A whole number, or none.
    MaybeNumber(&'a mut Option<u32>),
    /// Millionths per second, as a whole number: Linux's 0.16 is 160000.
    Gain(&'a mut u32),
    /// Yes or no.
    Flag(&'a mut bool),
    /// Each is true whose name is listed.
    Flags(Vec<(&'static str, &'a mut bool)>),
    /// The number of one of these words.
    Word(&'a mut usize, &'a [&'static str]),
    /// Names of hosts and switches, or ranges of them.
    Names(&'a mut Vec<String>),
    /// A table or tables, which are visited by themselves.
    Parts,
}

/// Visitor of settings.
pub trait Visit {
    /// A setting and its key.
    fn key(&mut self, about: About, setting: Setting<'_>);

    /// Refuses the settings: the key, and why.
    fn refused(&mut self, _key: &'static str, _why: Cow<'static, str>) {}

    /// As `refused`, where a file has the key.
    fn refused_if_written(&mut self, _key: &'static str, _why: &dyn Fn() -> String) {}

    /// A time that has no key.
    fn time(&mut self, _time: &mut Duration) {}

    /// A seed, which has no key: each run has its own.
    fn seed(&mut self, _seed: &mut u64) {}
}

impl dyn Visit + '_ {
    /// How much may wait, where there is no default.
    pub fn limit(&mut self, limit: &mut Limit) {
        let about = About::new("limit", "Limit in packets or bytes.").needed("500 pkts");
        self.key(about, Setting::Limit(limit));
    }

    /// Shows a setting that takes one of a few words.
    pub fn word<T: Copy + PartialEq>(
        &mut self,
        about: About,
        value: &mut T,
        words: &[(&'static str, T)],
    ) {
        let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
        let mut at = words.iter().position(|(_, word)| word == value).unwrap_or(0);
        self.key(about, Setting::Word(&mut at, &names));
        *value = words.get(at).map_or(*value, |(_, word)| *word);
    }

    /// Refuses the settings: the key, and why.
    pub fn refuse(&mut self, key: &'static str, why: impl Into<Cow<'static, str>>) {
        self.refused(key, why.into());
    }
}

/// Lists the keys.
#[derive(Debug, Default)]
pub struct Names(pub Vec<&'static str>);

impl Visit for Names {
    fn key(&mut self, about: About, _setting: Setting<'_>) {
        self.0.push(about.name());
    }
}

/// A struct whose fields are settings: meaning, name, type and default of each, then its key, how a file says it, and more of
/// its description. A field may have no key, or a block that shows it. `Word` has its words in brackets. `fields` shows all in order, then calls what `check` names.
/// With arguments there is a `new`, without a `Default`. The names in `as` are those of the struct and of the visitor in blocks.
#[macro_export]
macro_rules! settings {
    ($(#[$attribute:meta])* $vis:vis struct $name:ident $(($($arg:ident: $arg_type:ty),+))? as ($it:ident, $v:ident)
        $(check $check:path)? {
        $($(#[doc = $says:literal])* $field_vis:vis $field:ident: $type:ty = $default:expr $(=> $key:tt $(: $kind:ident $([$($words:tt)*])? $(.$more:ident($($more_arg:expr),*))*)?)?;)*
    }) => {
        $(#[$attribute])*
        $vis struct $name {
            $($(#[doc = $says])* $field_vis $field: $type,)*
        }

        $crate::settings!(@new $name ($($($arg: $arg_type),+)?) { $($field: $default,)* });

        impl $name {
            /// Shows all settings, in the order of the documentation, and refuses those that cannot work.
            $vis fn fields(&mut self, $v: &mut dyn $crate::settings::Visit) {
                let $it = self;
                $($crate::settings!(@show $it, $v, $field, concat!($($says),*) $(, $key $(: $kind $([$($words)*])? $(.$more($($more_arg),*))*)?)?);)*
                $($check($it, $v);)?
            }
        }
    };
    (@new $name:ident () $fields:tt) => {
        impl Default for $name {
            fn default() -> $name {
                $name $fields
            }
        }
    };
    (@new $name:ident ($($arg:ident: $arg_type:ty),+) $fields:tt) => {
        impl $name {
            /// The defaults.
            pub fn new($($arg: $arg_type),+) -> $name {
                $name $fields
            }
        }
    };
    (@show $it:ident, $v:ident, $field:ident, $says:expr) => {};
    (@show $it:ident, $v:ident, $field:ident, $says:expr, $key:literal: Parts $($more:tt)*) => {
        $v.key($crate::settings::About::new($key, $says) $($more)*, $crate::settings::Setting::Parts)
    };
    (@show $it:ident, $v:ident, $field:ident, $says:expr, $key:literal: Word[$($words:tt)*] $($more:tt)*) => {
        $v.word($crate::settings::About::new($key, $says) $($more)*, &mut $it.$field, &[$($words)*])
    };
    (@show $it:ident, $v:ident, $field:ident, $says:expr, $key:literal: $kind:ident $($more:tt)*) => {
        $v.key($crate::settings::About::new($key, $says) $($more)*, $crate::settings::Setting::$kind(&mut $it.$field))
    };
    (@show $it:ident, $v:ident, $field:ident, $says:expr, $block:block) => { $block };
}
