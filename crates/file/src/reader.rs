//! Typed, checked access to a tree: each error names file, line, key, value and what was allowed.

use std::cell::RefCell;
use std::path::Path;

use serde_json::Value as Json;

use crate::error::{Error, Origin, Reason};
use crate::keys::{Choice, Key, Keys, Kind, List, Name, Single, Text};
use crate::tree::{Node, Table, Value, did_you_mean, find};
use crate::units::Quantity;

/// Every key that was read, with the value used, defaults included.
pub type Resolved = Vec<(String, Json)>;

const NOTHING: &Table = &Table::new();

/// One table of the file.
///
/// # Errors
/// Every method that fails says file, line, key, value and what is allowed there.
pub struct Reader<'a> {
    file: &'a Path,
    path: String,
    origin: Origin,
    table: &'a Table,
    resolved: &'a RefCell<Resolved>,
}

impl<'a> Reader<'a> {
    /// The whole document.
    pub fn root(file: &'a Path, node: &'a Node, resolved: &'a RefCell<Resolved>) -> Reader<'a> {
        let table = node.table().unwrap_or(NOTHING);
        Reader { file, path: String::new(), origin: Origin::Nowhere, table, resolved }
    }

    /// Refuses keys that are in none of these groups.
    pub fn only(self, known: &[&dyn Keys]) -> Result<Reader<'a>, Error> {
        self.check(known)?;
        Ok(self)
    }

    /// As `only`, for a table whose known keys depend on one of its values.
    pub fn check(&self, known: &[&dyn Keys]) -> Result<(), Error> {
        self.check_names(&known.iter().flat_map(|keys| keys.names()).collect::<Vec<_>>())
    }

    /// As `check`, for keys that are described elsewhere.
    pub fn check_names(&self, known: &[&str]) -> Result<(), Error> {
        match self.table.iter().find(|(key, _)| !known.contains(&key.as_str())) {
            None => Ok(()),
            Some((key, node)) => {
                let near = did_you_mean(key, known.iter().copied());
                let message = if near.is_empty() {
                    format!("unknown key; known here: {}", known.join(", "))
                } else {
                    format!("unknown key{near}")
                };
                let allowed = known.iter().map(|name| (*name).to_owned()).collect();
                let reason = Reason { message, allowed };
                Err(Error::new(self.file, node.origin, self.key(&shown(key)), reason))
            }
        }
    }

    /// Path of the file.
    pub fn file(&self) -> &'a Path {
        self.file
    }

    /// Where the table was written.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The value of a key as it is written, if it is.
    pub fn node(&self, key: &(impl AsRef<str> + ?Sized)) -> Option<&'a Node> {
        find(self.table, key.as_ref())
    }

    /// Whether a key is written.
    pub fn has(&self, key: &(impl AsRef<str> + ?Sized)) -> bool {
        self.node(key).is_some()
    }

    /// The dotted path of a key of this table.
    pub fn key(&self, key: &(impl AsRef<str> + ?Sized)) -> String {
        let key = key.as_ref();
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// An error about the value of a key of this table, whether it is written or not.
    pub fn error(&self, key: &(impl AsRef<str> + ?Sized), reason: impl Into<Reason>) -> Error {
        let key = key.as_ref();
        match self.node(key) {
            Some(node) => self.error_in(key, node, reason),
            None => Error::new(self.file, self.origin, self.key(key), reason),
        }
    }

    /// An error about one value of a key of this table.
    pub fn error_in(
        &self,
        key: &(impl AsRef<str> + ?Sized),
        node: &Node,
        reason: impl Into<Reason>,
    ) -> Error {
        Error::new(self.file, node.origin, self.key(key), reason).with_value(node.show())
    }

    /// An error about this table as a whole.
    pub fn about(&self, reason: impl Into<Reason>) -> Error {
        Error::new(self.file, self.origin, self.path.clone(), reason)
    }

    /// Records the value that is used of a key.
    pub fn note(&self, key: &(impl AsRef<str> + ?Sized), value: impl Into<Json>) {
        self.resolved.borrow_mut().push((self.key(key), value.into()));
    }

    /// The error of a key that must be written, as in `example`, and is not.
    pub fn missing(&self, key: &(impl AsRef<str> + ?Sized), example: &str) -> Error {
        let key = key.as_ref();
        Error::new(
            self.file,
            self.origin,
            self.key(key),
            format!("missing, as in {key} = {example}"),
        )
    }

    /// A table below this one.
    pub fn child(&self, key: &(impl AsRef<str> + ?Sized)) -> Result<Option<Reader<'a>>, Error> {
        let key = key.as_ref();
        self.node(key).map(|node| self.child_of(key, node, self.key(key))).transpose()
    }

    /// A table below this one; a missing table reads as an empty one.
    pub fn child_or_empty(&self, key: &(impl AsRef<str> + ?Sized)) -> Result<Reader<'a>, Error> {
        let key = key.as_ref();
        Ok(self.child(key)?.unwrap_or_else(|| Reader {
            file: self.file,
            path: self.key(key),
            origin: self.origin,
            table: NOTHING,
            resolved: self.resolved,
        }))
    }

    fn child_of(&self, key: &str, node: &'a Node, path: String) -> Result<Reader<'a>, Error> {
        let table = node
            .table()
            .ok_or_else(|| self.error_in(key, node, "must be a table, as in { key = value }"))?;
        Ok(Reader { file: self.file, path, origin: node.origin, table, resolved: self.resolved })
    }

    /// As `child`, for a required table.
    pub fn need_child(&self, key: &(impl AsRef<str> + ?Sized)) -> Result<Reader<'a>, Error> {
        let key = key.as_ref();
        self.child(key)?.ok_or_else(|| self.missing(key, "{ ... }"))
    }

    /// A list of tables; each is named in messages by its `name` where it has one.
    pub fn children(&self, key: &(impl AsRef<str> + ?Sized)) -> Result<Vec<Reader<'a>>, Error> {
        let key = key.as_ref();
        self.children_called(key, |number, item| {
            let name = item.get("name").and_then(Node::text).map(shown);
            let name = name.unwrap_or_else(|| number.to_string());
            format!("{}.{name}", self.key(key))
        })
    }

    /// A list of tables, each called in messages what `called` makes of its number, from 1, and itself.
    pub fn children_called(
        &self,
        key: &(impl AsRef<str> + ?Sized),
        called: impl Fn(usize, &Node) -> String,
    ) -> Result<Vec<Reader<'a>>, Error> {
        let key = key.as_ref();
        let Some(node) = self.node(key) else { return Ok(Vec::new()) };
        let Value::List(items) = &node.value else {
            return Err(self.error_in(key, node, format!("must be a list of tables: [[{key}]]")));
        };
        let numbered = items.iter().zip(1..);
        numbered.map(|(item, number)| self.child_of(key, item, called(number, item))).collect()
    }

    /// A value, or each of a list; at least one.
    pub fn items(&self, key: &(impl AsRef<str> + ?Sized)) -> Result<Option<&'a [Node]>, Error> {
        let key = key.as_ref();
        let Some(node) = self.node(key) else { return Ok(None) };
        match &node.value {
            Value::List(items) if items.is_empty() => {
                Err(self.error_in(key, node, "must have at least one value"))
            }
            Value::List(items) => Ok(Some(items)),
            _ => Ok(Some(std::slice::from_ref(node))),
        }
    }

    /// The value of a key, if it is written.
    pub fn get<T: Single>(&self, key: &Key<T>) -> Result<Option<T>, Error> {
        let Some(node) = self.node(key) else { return Ok(None) };
        let value = T::take(&key.about, node).map_err(|why| self.error_in(key, node, why))?;
        self.note(key, node.json());
        Ok(Some(value))
    }

    /// As `get`, with the key's default; an error if it has none.
    pub fn read<T: Single>(&self, key: &Key<T>) -> Result<T, Error> {
        match key.default {
            Some(default) => self.get_or(key, default),
            None => self.get(key)?.ok_or_else(|| self.missing(key, &key.about.written())),
        }
    }

    /// As `get`, with a default that the caller chooses.
    pub fn get_or<T: Single>(&self, key: &Key<T>, default: T) -> Result<T, Error> {
        Ok(self.get(key)?.unwrap_or_else(|| {
            self.note(key, default.json());
            default
        }))
    }

    /// One quantity or a list of them, if they are written; at least one.
    pub fn list<T: Quantity + Kind>(&self, key: &Key<List<T>>) -> Result<Option<Vec<T>>, Error> {
        let (Some(node), Some(items)) = (self.node(key), self.items(key)?) else { return Ok(None) };
        let value =
            |item: &Node| T::take(&key.about, item).map_err(|why| self.error_in(key, item, why));
        let values = items.iter().map(value).collect::<Result<_, _>>()?;
        self.note(key, node.json());
        Ok(Some(values))
    }

    /// One whole number or a list of them; at least one.
    pub fn numbers(&self, key: &Key<List<u64>>) -> Result<Option<Vec<u64>>, Error> {
        let Some(node) = self.node(key) else { return Ok(None) };
        let items = match &node.value {
            Value::List(items) => items.as_slice(),
            _ => std::slice::from_ref(node),
        };
        let values: Result<Vec<u64>, _> =
            items.iter().map(|item| u64::take(&key.about, item)).collect();
        match values {
            Ok(values) if !values.is_empty() => {
                self.note(key, node.json());
                Ok(Some(values))
            }
            _ => {
                let why = format!(
                    "must be a {}, or a list of at least one such",
                    key.about.whole_numbers()
                );
                Err(self.error_in(key, node, why))
            }
        }
    }

    /// Text, if it is written.
    pub fn text(&self, key: &Key<impl Copy>) -> Result<Option<&'a str>, Error> {
        self.text_of(key)
    }

    /// As `text`, for a key that is described elsewhere.
    pub fn text_of(&self, key: &(impl AsRef<str> + ?Sized)) -> Result<Option<&'a str>, Error> {
        let Some(node) = self.node(key) else { return Ok(None) };
        let text = node.text().ok_or_else(|| self.error_in(key, node, "must be text in quotes"))?;
        self.note(key, text);
        Ok(Some(text))
    }

    /// As `text`, for a required key.
    pub fn need_text(&self, key: &Key<impl Copy>) -> Result<&'a str, Error> {
        self.text(key)?.ok_or_else(|| self.missing(key, &key.about.written()))
    }

    /// A name that may stand in a path: letters, digits, `-`, `_` and `+`.
    pub fn need_name(&self, key: &Key<Name>) -> Result<&'a str, Error> {
        let name = self.need_text(key)?;
        if Name::is_fit(name) {
            return Ok(name);
        }
        Err(self.error(key, format!("must be a name of {}", Name::words('"'))))
    }

    /// Value of a key that takes one of a few words.
    pub fn choose<T: Copy>(&self, key: &Choice<T>) -> Result<T, Error> {
        if key.default.is_empty() && !self.has(key) {
            return Err(self.missing(key, &key.about.written()));
        }
        self.choose_of(key, key.words, key.default)
    }

    /// As `choose`, for a key that is described elsewhere.
    pub fn choose_of<T: Copy>(
        &self,
        key: &(impl AsRef<str> + ?Sized),
        words: &[(&str, T)],
        default: &str,
    ) -> Result<T, Error> {
        let written = self.text_of(key)?;
        let word = written.unwrap_or(default);
        match words.iter().find(|(name, _)| *name == word) {
            Some((name, value)) => {
                if written.is_none() {
                    self.note(key, *name);
                }
                Ok(*value)
            }
            None => Err(self.error(key, one_of(word, words.iter().map(|(name, _)| *name)))),
        }
    }

    /// Text, or a list of it.
    pub fn texts(&self, key: &Key<List<Text>>) -> Result<Option<Vec<&'a str>>, Error> {
        self.texts_of(key)
    }

    /// As `texts`, for a key that is described elsewhere.
    pub fn texts_of(
        &self,
        key: &(impl AsRef<str> + ?Sized),
    ) -> Result<Option<Vec<&'a str>>, Error> {
        let Some(node) = self.node(key) else { return Ok(None) };
        let texts = match &node.value {
            Value::Text(text) => Some(vec![text.as_str()]),
            Value::List(items) => items.iter().map(Node::text).collect(),
            _ => None,
        };
        let texts = texts.filter(|texts| !texts.is_empty()).ok_or_else(|| {
            self.error_in(key, node, "must be text in quotes, or a list of at least one such")
        })?;
        self.note(key, node.json());
        Ok(Some(texts))
    }

    /// As `texts`, for a required key.
    pub fn need_texts(&self, key: &Key<List<Text>>) -> Result<Vec<&'a str>, Error> {
        self.texts(key)?.ok_or_else(|| self.missing(key, &key.about.written()))
    }

    /// The entries of a table of free keys.
    pub fn entries(&self) -> impl Iterator<Item = (&'a str, &'a Node)> {
        self.table.iter().map(|(key, node)| (key.as_str(), node))
    }
}

/// Names that a message lists if one of them is near.
const MANY_NAMES: usize = 40;

/// `must be one of a, b; did you mean "a"?`
pub fn one_of<'a>(word: &str, known: impl Iterator<Item = &'a str> + Clone) -> Reason {
    let near = did_you_mean(word, known.clone());
    let allowed = known.clone().map(str::to_owned).collect();
    let names: Vec<_> = known.map(|name| format!("\"{name}\"")).collect();
    let message = match names.as_slice() {
        [only] => format!("must be {only}{near}"),
        many if many.len() > MANY_NAMES && !near.is_empty() => {
            format!("must be one of {} names{near}", many.len())
        }
        _ => format!("must be one of {}{near}", names.join(", ")),
    };
    Reason { message, allowed }
}

/// The text of a file without the mark by which spreadsheets say that it is UTF-8.
pub fn unmarked(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// A word of a file as it may stand in a message: on one line and not too long.
pub fn shown(word: &str) -> String {
    const LONGEST: usize = 40;
    let shown: String = word.chars().take(LONGEST).collect();
    let dots = if word.chars().nth(LONGEST).is_some() { "..." } else { "" };
    format!("{}{dots}", shown.escape_debug())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::path::Path;

    use knee_units::time::Duration;

    use super::*;
    use crate::parse;

    crate::keys! {
        /// Keys with bounds.
        static BOUNDED: BoundedKeys = "bounded" {
            /// Several quantities.
            waits: Key<List<Duration>> = at_most("1 s").like("1 ms").usually("none"),
            /// A 32-bit number.
            number: Key<u32> = usually("none"),
            /// A name of letters and digits.
            name: Key<Name> = needed("a"),
        }
    }

    fn said(text: &str, read: impl Fn(&Reader<'_>) -> Result<(), Error>) -> String {
        let table = parse(Path::new("x.toml"), text).expect("TOML");
        let notes = RefCell::default();
        let reader = Reader::root(Path::new("x.toml"), &table, &notes);
        read(&reader).err().map_or_else(String::new, |why| why.to_string())
    }

    #[test]
    fn bounds_are_those_of_each_of_a_list() {
        let of = |text: &str| said(text, |reader| reader.list(&BOUNDED.waits).map(drop));
        assert_eq!(of("waits = [\"1 s\", \"1 ms\"]"), "");
        assert!(of("waits = [\"1 ms\", \"2 s\"]").contains("must be at most 1 s"));
    }

    #[test]
    fn a_number_of_32_bits_is_not_cut() {
        let of = |text: &str| said(text, |reader| reader.get(&BOUNDED.number).map(drop));
        assert_eq!(of("number = 4294967295"), "");
        assert!(of("number = 4294967296").contains("from 0 to 4294967295"));
    }

    #[test]
    fn names_have_one_rule() {
        let of = |text: &str| said(text, |reader| reader.need_name(&BOUNDED.name).map(drop));
        assert_eq!(of(&format!("name = \"{}\"", "a-_+".repeat(10))), "");
        for bad in ["", "a b", "ä", &"a".repeat(41)] {
            let why = of(&format!("name = \"{bad}\""));
            let rule = "must be a name of 1 to 40 letters, digits, \"-\", \"_\" and \"+\"";
            assert!(why.ends_with(rule), "{why}");
        }
    }
}
