//! Keys of tables, each described once. Reading takes name, range and default from here; so do the refusal of unknown keys, the
//! JSON Schema and the page of all keys.

use std::marker::PhantomData;

use serde_json::{Value as Json, json};

use knee_units::settings::About;

use crate::tree::{Node, Value as Tree};
use crate::units::Quantity;

/// A key as schema and page show it.
#[derive(Clone, Debug)]
pub struct Entry {
    pub key: String,
    /// Meaning of the key, in one line.
    pub says: String,
    /// Allowed values, in words.
    pub value: String,
    /// Allowed values, as JSON Schema.
    pub schema: Json,
    /// Default in words; may be empty.
    pub default: String,
    /// Whether it must be written.
    pub is_needed: bool,
    /// The table that it is, or each of the list that it is.
    pub below: Option<&'static Table>,
}

impl Entry {
    /// Entry of a key with these allowed values, in words and as JSON Schema.
    pub fn new(key: &'static str, says: &'static str, takes: (String, Json)) -> Entry {
        Entry::of(&About::new(key, says), None, takes)
    }

    /// As `new`, with all that is said of the key and its default.
    pub(crate) fn of(
        about: &About,
        default: Option<String>,
        (value, schema): (String, Json),
    ) -> Entry {
        let default = match default.filter(|_| about.default.is_empty() && !about.is_needed) {
            Some(default) => format!("`{default}`"),
            None => about.default.to_owned(),
        };
        Entry {
            key: about.name().to_owned(),
            says: about.says.trim().to_owned(),
            value,
            schema,
            is_needed: about.is_needed,
            default,
            below: None,
        }
    }

    /// Marks the key as required.
    #[must_use]
    pub fn needed(self) -> Entry {
        Entry { is_needed: true, default: String::new(), ..self }
    }
}

fn shown(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A table, or each of a list of tables.
#[derive(Debug)]
pub struct Table {
    /// Name in schema and page.
    pub name: &'static str,
    pub says: &'static str,
    pub shape: fn() -> Shape,
}

/// Keys of a table.
#[derive(Debug)]
pub enum Shape {
    Keys(Vec<Entry>),
    /// Those of the word that one of them has.
    By(&'static str, Vec<(&'static str, Vec<Entry>)>),
    /// Any, with any value: what they are, in words.
    Any(&'static str),
}

/// A key of any type.
pub trait Describe: Sync {
    /// Name of the key in files.
    fn name(&self) -> &'static str;
    /// Entry for schema and page.
    fn entry(&self) -> Entry;
}

/// Keys that tables have together.
pub trait Keys: Sync {
    /// Names in the order of messages.
    fn names(&self) -> Vec<&'static str>;
    /// Entries for schema and page.
    fn entries(&self) -> Vec<Entry>;
}

/// Entries of all keys of these groups, for schema and page.
pub fn entries(groups: &[&dyn Keys]) -> Vec<Entry> {
    groups.iter().flat_map(|keys| keys.entries()).collect()
}

/// A type that the value of a key has.
pub trait Kind: Copy + Sync + 'static {
    /// Allowed values, in words and as JSON Schema.
    fn takes(about: &About) -> (String, Json);

    /// A default, for manifests.
    fn json(&self) -> Json {
        Json::Null
    }
}

/// A kind whose values need no further parsing.
pub trait Single: Kind {
    /// The value.
    ///
    /// # Errors
    /// What would have been allowed.
    fn take(about: &About, node: &Node) -> Result<Self, String>;
}

impl<T: Quantity + Copy + Sync + 'static> Kind for T {
    fn takes(about: &About) -> (String, Json) {
        let (what, pattern) = T::written();
        let bounds = about.bounds();
        let words = if bounds.is_empty() { what.to_owned() } else { format!("{what} {bounds}") };
        (words, json!({ "type": "string", "pattern": pattern }))
    }

    fn json(&self) -> Json {
        self.show().into()
    }
}

impl<T: Quantity + Copy + Sync + 'static> Single for T {
    fn take(about: &About, node: &Node) -> Result<T, String> {
        // A value that is no text has no unit; so has the empty text, and its error says what is missing.
        let value = T::parse(node.text().unwrap_or(""))?;
        let fits = |bound: &str, fits: fn(&T, &T) -> bool| {
            bound.is_empty() || T::parse(bound).is_ok_and(|bound| fits(&value, &bound))
        };
        let is_enough =
            if about.is_above { |a: &T, b: &T| !b.holds(a) } else { |a: &T, b: &T| a.holds(b) };
        match fits(about.least, is_enough) && fits(about.most, |a, b| b.holds(a)) {
            true => Ok(value),
            false => Err(format!("must be {}, as in {:?}", about.bounds(), about.example)),
        }
    }
}

impl Kind for u64 {
    fn takes(about: &About) -> (String, Json) {
        let schema = json!({ "type": "integer", "minimum": about.from, "maximum": about.to });
        (about.whole_numbers(), schema)
    }

    fn json(&self) -> Json {
        (*self).into()
    }
}

impl Single for u64 {
    fn take(about: &About, node: &Node) -> Result<u64, String> {
        let number = match node.value {
            Tree::Integer(value) => u64::try_from(value).ok(),
            _ => None,
        };
        number
            .filter(|number| (about.from..=about.to).contains(number))
            .ok_or_else(|| format!("must be a {}", about.whole_numbers()))
    }
}

impl Kind for u32 {
    fn takes(about: &About) -> (String, Json) {
        u64::takes(&about.up_to(u32::MAX.into()))
    }

    fn json(&self) -> Json {
        (*self).into()
    }
}

impl Single for u32 {
    fn take(about: &About, node: &Node) -> Result<u32, String> {
        u64::take(&about.up_to(u32::MAX.into()), node)
            .map(|value| u32::try_from(value).unwrap_or(u32::MAX))
    }
}

impl Kind for bool {
    fn takes(_about: &About) -> (String, Json) {
        ("boolean".to_owned(), json!({ "type": "boolean" }))
    }

    fn json(&self) -> Json {
        (*self).into()
    }
}

impl Single for bool {
    fn take(_about: &About, node: &Node) -> Result<bool, String> {
        match node.value {
            Tree::Flag(flag) => Ok(flag),
            _ => Err("must be true or false".to_owned()),
        }
    }
}

/// Text in quotes.
#[derive(Clone, Copy, Debug)]
pub struct Text;

impl Kind for Text {
    fn takes(_about: &About) -> (String, Json) {
        ("text".to_owned(), json!({ "type": "string" }))
    }
}

/// A name that may stand in a path.
#[derive(Clone, Copy, Debug)]
pub struct Name;

impl Name {
    const MOST_CHARS: usize = 40;
    /// Characters allowed besides letters and digits; the last comes first in a pattern's character class.
    const MARKS: [char; 3] = ['-', '_', '+'];

    /// Whether a text is one.
    pub fn is_fit(text: &str) -> bool {
        let fits = |c: char| c.is_ascii_alphanumeric() || Name::MARKS.contains(&c);
        (1..=Name::MOST_CHARS).contains(&text.len()) && text.chars().all(fits)
    }

    /// Description of a name, with its marks in these quotes.
    pub fn words(quote: char) -> String {
        let [one, two, three] = Name::MARKS.map(|mark| format!("{quote}{mark}{quote}"));
        format!("1 to {} letters, digits, {one}, {two} and {three}", Name::MOST_CHARS)
    }
}

impl Kind for Name {
    fn takes(_about: &About) -> (String, Json) {
        let marks: String = Name::MARKS.iter().rev().collect();
        let pattern = format!("^[A-Za-z0-9{marks}]{{1,{}}}$", Name::MOST_CHARS);
        (Name::words('`'), json!({ "type": "string", "pattern": pattern }))
    }
}

/// One value or a list of at least one.
#[derive(Clone, Copy, Debug)]
pub struct List<T>(PhantomData<T>);

impl<T: Kind> Kind for List<T> {
    fn takes(about: &About) -> (String, Json) {
        list_of(T::takes(about))
    }
}

/// One of these values or a list of at least one, in words and as JSON Schema.
pub fn list_of((words, one): (String, Json)) -> (String, Json) {
    let list = json!({ "type": "array", "items": one.clone(), "minItems": 1 });
    (format!("{words}, or a list"), json!({ "anyOf": [one, list] }))
}

/// Methods of most kinds of descriptions.
macro_rules! descriptions {
    ($($of:ident $(<$value:ident>)?),*) => {$(
        impl $(<$value: Copy>)? $of $(<$value>)? {
            knee_units::about_builders!(about);
        }

        impl $(<$value>)? AsRef<str> for $of $(<$value>)? {
            fn as_ref(&self) -> &str {
                self.about.name()
            }
        }
    )*};
}

descriptions!(Key<T>, Choice<T>, Special);

/// A key and the type of its value.
#[derive(Clone, Copy, Debug)]
pub struct Key<T> {
    pub(crate) about: About,
    pub(crate) default: Option<T>,
}

impl<T: Copy> Key<T> {
    /// A key that may be left out.
    pub const fn new(name: &'static str, says: &'static str) -> Key<T> {
        Key { about: About::new(name, says), default: None }
    }

    /// Sets the default.
    #[must_use]
    pub const fn or(mut self, default: T) -> Key<T> {
        self.default = Some(default);
        self
    }
}

impl<T: Kind> Describe for Key<T> {
    fn name(&self) -> &'static str {
        self.about.name()
    }

    fn entry(&self) -> Entry {
        let default = self.default.map(|value| shown(&value.json()));
        Entry::of(&self.about, default, T::takes(&self.about))
    }
}

/// A key whose value is one of a few words.
#[derive(Clone, Copy, Debug)]
pub struct Choice<T: 'static> {
    pub(crate) about: About,
    pub(crate) default: &'static str,
    pub(crate) words: &'static [(&'static str, T)],
}

impl<T: Copy> Choice<T> {
    /// A key that has no words yet.
    pub const fn new(name: &'static str, says: &'static str) -> Choice<T> {
        Choice { about: About::new(name, says), default: "", words: &[] }
    }

    /// The words, and what each means to who reads it.
    #[must_use]
    pub const fn of(mut self, words: &'static [(&'static str, T)]) -> Choice<T> {
        self.words = words;
        self
    }

    /// The word where it is left out.
    #[must_use]
    pub const fn or(mut self, default: &'static str) -> Choice<T> {
        self.default = default;
        self
    }
}

impl<T: Copy + Sync> Describe for Choice<T> {
    fn name(&self) -> &'static str {
        self.about.name()
    }

    fn entry(&self) -> Entry {
        let default = Some(self.default.to_owned()).filter(|word| !word.is_empty());
        Entry::of(&self.about, default, words(self.words.iter().map(|(word, _)| *word)))
    }
}

/// One of these words, in words and as JSON Schema.
pub fn words<'a>(words: impl Iterator<Item = &'a str> + Clone) -> (String, Json) {
    let quoted: Vec<String> = words.clone().map(|word| format!("`\"{word}\"`")).collect();
    (quoted.join(", "), json!({ "enum": words.collect::<Vec<_>>() }))
}

/// A key that is a table, or a list of them.
#[derive(Clone, Copy, Debug)]
pub struct Below {
    about: About,
    table: Option<&'static Table>,
    is_list: bool,
}

impl Below {
    /// A table of any keys.
    pub const fn new(name: &'static str, says: &'static str) -> Below {
        Below { about: About::new(name, says), table: None, is_list: false }
    }

    pub(crate) fn of(about: About) -> Below {
        Below { about, table: None, is_list: false }
    }

    /// Sets the keys of the table.
    #[must_use]
    pub const fn table(mut self, table: &'static Table) -> Below {
        self.table = Some(table);
        self
    }

    /// A list of tables of this kind.
    #[must_use]
    pub const fn list(mut self, table: &'static Table) -> Below {
        self.table = Some(table);
        self.is_list = true;
        self
    }

    /// Sets the default in words.
    #[must_use]
    pub const fn usually(mut self, words: &'static str) -> Below {
        self.about.default = words;
        self
    }

    /// Marks the key as required.
    #[must_use]
    pub const fn needed(mut self) -> Below {
        self.about = self.about.needed("{ ... }");
        self
    }
}

impl Describe for Below {
    fn name(&self) -> &'static str {
        self.about.name()
    }

    fn entry(&self) -> Entry {
        let one = match self.table {
            Some(table) => json!({ "$ref": format!("#/$defs/{}", table.name) }),
            None => json!({ "type": "object" }),
        };
        let name = self
            .table
            .map_or("table".to_owned(), |table| format!("[{}](#{})", table.name, table.name));
        let takes = match self.is_list {
            true => (format!("list of {name}"), json!({ "type": "array", "items": one })),
            false => (name, one),
        };
        Entry { below: self.table, ..Entry::of(&self.about, None, takes) }
    }
}

impl AsRef<str> for Below {
    fn as_ref(&self) -> &str {
        self.about.name()
    }
}

/// A key whose value the reader parses itself.
#[derive(Clone, Copy, Debug)]
pub struct Special {
    about: About,
    takes: fn() -> (String, Json),
}

impl Special {
    /// A key that takes any text.
    pub const fn new(name: &'static str, says: &'static str) -> Special {
        Special { about: About::new(name, says), takes: || Text::takes(&About::new("", "")) }
    }

    /// Sets the allowed values, in words and as JSON Schema.
    #[must_use]
    pub const fn takes(mut self, takes: fn() -> (String, Json)) -> Special {
        self.takes = takes;
        self
    }
}

impl Describe for Special {
    fn name(&self) -> &'static str {
        self.about.name()
    }

    fn entry(&self) -> Entry {
        Entry::of(&self.about, None, (self.takes)())
    }
}

/// Describes keys in the order of messages: meaning, name, type of the value, default and range. Readers of the table use
/// `NAME.key`.
///
/// ```
/// use knee_file::keys::Key;
/// use knee_units::time::{Duration, Rate};
///
/// knee_file::keys! {
///     /// What joins two machines.
///     static CABLE: Cable = "cable" {
///         /// What it carries.
///         rate: Key<Rate> = needed("10 Gbps"),
///         /// Propagation, one way.
///         delay: Key<Duration> = or(Duration::ZERO).at_most("1 s"),
///     }
/// }
/// assert_eq!(knee_file::keys::entries(&[&CABLE])[1].default, "`0 s`");
/// ```
#[macro_export]
macro_rules! keys {
    ($(#[doc = $about:literal])+ $vis:vis static $all:ident: $keys:ident = $name:literal {
        $($(#[doc = $says:literal])+ $key:ident: $kind:ty
            $(= $first:ident($($arg:expr),*) $(. $more:ident($($more_arg:expr),*))*)?,)*
    }) => {
        $(#[doc = $about])+
        $vis struct $keys {
            $($(#[doc = $says])+ $vis $key: $kind,)*
        }

        $(#[doc = $about])+
        $vis static $all: $keys = $keys {
            $($key: <$kind>::new(stringify!($key), concat!($($says),+))
                $(.$first($($arg),*) $(.$more($($more_arg),*))*)?,)*
        };

        impl $crate::keys::Keys for $keys {
            fn names(&self) -> Vec<&'static str> {
                vec![$($crate::keys::Describe::name(&self.$key)),*]
            }

            fn entries(&self) -> Vec<$crate::keys::Entry> {
                vec![$($crate::keys::Describe::entry(&self.$key)),*]
            }
        }

        impl $keys {
            /// A table of these keys.
            #[allow(dead_code, reason = "some are parts of tables")]
            $vis const TABLE: $crate::keys::Table = $crate::keys::Table {
                name: $name,
                says: concat!($($about),+),
                shape: || $crate::keys::Shape::Keys($crate::keys::entries(&[&$all])),
            };
        }
    };
}
