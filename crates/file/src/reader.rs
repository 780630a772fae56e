//! Typed, checked access to a tree: each error names file, line, key, value and what was allowed.

use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::path::Path;

use serde_json::Value as Json;

use crate::error::{Error, Origin};
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

    /// Refuses keys that are not in the list.
    pub fn only(self, known: &[&str]) -> Result<Reader<'a>, Error> {
        self.check(known)?;
        Ok(self)
    }

    /// As `only`, for a table whose known keys depend on one of its values.
    pub fn check(&self, known: &[&str]) -> Result<(), Error> {
        match self.table.iter().find(|(key, _)| !known.contains(&key.as_str())) {
            None => Ok(()),
            Some((key, node)) => {
                let near = did_you_mean(key, known.iter().copied());
                let message = if near.is_empty() {
                    format!("unknown key; known here: {}", known.join(", "))
                } else {
                    format!("unknown key{near}")
                };
                Err(Error::new(self.file, node.origin, self.key(&show_key(key)), message))
            }
        }
    }

    /// The file.
    pub fn file(&self) -> &'a Path {
        self.file
    }

    /// Where the table was written.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The value of a key as it is written, if it is.
    pub fn node(&self, key: &str) -> Option<&'a Node> {
        find(self.table, key)
    }

    /// Whether a key is written.
    pub fn has(&self, key: &str) -> bool {
        self.node(key).is_some()
    }

    /// The dotted path of a key of this table.
    pub fn key(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// An error about the value of a key of this table, whether it is written or not.
    pub fn error(&self, key: &str, message: impl Into<String>) -> Error {
        match self.node(key) {
            Some(node) => self.error_in(key, node, message),
            None => Error::new(self.file, self.origin, self.key(key), message),
        }
    }

    /// An error about one value of a key of this table.
    pub fn error_in(&self, key: &str, node: &Node, message: impl Into<String>) -> Error {
        Error::new(self.file, node.origin, self.key(key), message).with_value(node.show())
    }

    /// An error about this table as a whole.
    pub fn about(&self, message: impl Into<String>) -> Error {
        Error::new(self.file, self.origin, self.path.clone(), message)
    }

    /// Records the value that is used of a key.
    pub fn note(&self, key: &str, value: impl Into<Json>) {
        self.resolved.borrow_mut().push((self.key(key), value.into()));
    }

    /// The error of a key that must be written, as in `example`, and is not.
    pub fn missing(&self, key: &str, example: &str) -> Error {
        Error::new(
            self.file,
            self.origin,
            self.key(key),
            format!("missing, as in {key} = {example}"),
        )
    }

    /// A table below this one.
    pub fn child(&self, key: &str) -> Result<Option<Reader<'a>>, Error> {
        self.node(key).map(|node| self.child_of(key, node, self.key(key))).transpose()
    }

    /// A table below this one, as if it were there and empty where it is not.
    pub fn child_or_empty(&self, key: &str) -> Result<Reader<'a>, Error> {
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

    /// As `child`, and it must be there.
    pub fn need_child(&self, key: &str) -> Result<Reader<'a>, Error> {
        self.child(key)?.ok_or_else(|| self.missing(key, "{ ... }"))
    }

    /// A list of tables; each is named in messages by its `name` where it has one.
    pub fn children(&self, key: &str) -> Result<Vec<Reader<'a>>, Error> {
        self.children_called(key, |number, item| {
            let name = item.get("name").and_then(Node::text).map(show_key);
            let name = name.unwrap_or_else(|| number.to_string());
            format!("{}.{name}", self.key(key))
        })
    }

    /// A list of tables, each called in messages what `called` makes of its number, from 1, and itself.
    pub fn children_called(
        &self,
        key: &str,
        called: impl Fn(usize, &Node) -> String,
    ) -> Result<Vec<Reader<'a>>, Error> {
        let Some(node) = self.node(key) else { return Ok(Vec::new()) };
        let Value::List(items) = &node.value else {
            return Err(self.error_in(key, node, format!("must be a list of tables: [[{key}]]")));
        };
        let numbered = items.iter().zip(1..);
        numbered.map(|(item, number)| self.child_of(key, item, called(number, item))).collect()
    }

    /// A value, or each of a list; at least one.
    pub fn items(&self, key: &str) -> Result<Option<&'a [Node]>, Error> {
        let Some(node) = self.node(key) else { return Ok(None) };
        match &node.value {
            Value::List(items) if items.is_empty() => {
                Err(self.error_in(key, node, "must have at least one value"))
            }
            Value::List(items) => Ok(Some(items)),
            _ => Ok(Some(std::slice::from_ref(node))),
        }
    }

    /// A quantity, if it is written.
    pub fn get<T: Quantity>(&self, key: &str) -> Result<Option<T>, Error> {
        let Some(node) = self.node(key) else { return Ok(None) };
        let value = self.quantity(key, node)?;
        self.note(key, node.json());
        Ok(Some(value))
    }

    fn quantity<T: Quantity>(&self, key: &str, node: &Node) -> Result<T, Error> {
        // A value that is no text has no unit; so has the empty text, and its error says what is missing.
        T::parse(node.text().unwrap_or("")).map_err(|why| self.error_in(key, node, why))
    }

    /// As `get`, with a default.
    pub fn get_or<T: Quantity>(&self, key: &str, default: T) -> Result<T, Error> {
        match self.get(key)? {
            Some(value) => Ok(value),
            None => {
                self.note(key, default.show());
                Ok(default)
            }
        }
    }

    /// As `get`, and it must be written, as in `example`.
    pub fn need<T: Quantity>(&self, key: &str, example: &str) -> Result<T, Error> {
        self.get(key)?.ok_or_else(|| self.missing(key, &format!("{example:?}")))
    }

    /// One quantity or a list of them; at least one.
    pub fn one_or_more<T: Quantity>(&self, key: &str) -> Result<Option<Vec<T>>, Error> {
        let (Some(node), Some(items)) = (self.node(key), self.items(key)?) else { return Ok(None) };
        let values = items.iter().map(|item| self.quantity(key, item)).collect::<Result<_, _>>()?;
        self.note(key, node.json());
        Ok(Some(values))
    }

    /// A whole number of these, if it is written.
    pub fn integer(&self, key: &str, allowed: RangeInclusive<u64>) -> Result<Option<u64>, Error> {
        let Some(node) = self.node(key) else { return Ok(None) };
        let value = match &node.value {
            Value::Integer(value) => u64::try_from(*value).ok(),
            _ => None,
        };
        match value.filter(|value| allowed.contains(value)) {
            Some(value) => {
                self.note(key, value);
                Ok(Some(value))
            }
            None => Err(self.error_in(
                key,
                node,
                format!("must be a whole number from {} to {}", allowed.start(), allowed.end()),
            )),
        }
    }

    /// One whole number or a list of them; at least one.
    pub fn integers(
        &self,
        key: &str,
        allowed: RangeInclusive<u64>,
    ) -> Result<Option<Vec<u64>>, Error> {
        let Some(node) = self.node(key) else { return Ok(None) };
        let items = match &node.value {
            Value::List(items) => items.as_slice(),
            _ => std::slice::from_ref(node),
        };
        let value = |item: &Node| match item.value {
            Value::Integer(value) => u64::try_from(value).ok().filter(|v| allowed.contains(v)),
            _ => None,
        };
        let values: Option<Vec<u64>> = items.iter().map(value).collect();
        match values.filter(|values| !values.is_empty()) {
            Some(values) => {
                self.note(key, node.json());
                Ok(Some(values))
            }
            None => Err(self.error_in(
                key,
                node,
                format!(
                    "must be a whole number from {} to {}, or a list of at least one such",
                    allowed.start(),
                    allowed.end()
                ),
            )),
        }
    }

    /// As `integer`, with a default.
    pub fn integer_or(
        &self,
        key: &str,
        allowed: RangeInclusive<u64>,
        default: u64,
    ) -> Result<u64, Error> {
        match self.integer(key, allowed)? {
            Some(value) => Ok(value),
            None => {
                self.note(key, default);
                Ok(default)
            }
        }
    }

    /// As `integer_or`, for values of 32 bits.
    pub fn u32_or(
        &self,
        key: &str,
        allowed: RangeInclusive<u32>,
        default: u32,
    ) -> Result<u32, Error> {
        let allowed = u64::from(*allowed.start())..=u64::from(*allowed.end());
        let value = self.integer_or(key, allowed, u64::from(default))?;
        Ok(u32::try_from(value).unwrap_or(u32::MAX))
    }

    /// Yes or no.
    pub fn flag_or(&self, key: &str, default: bool) -> Result<bool, Error> {
        let value = match self.node(key) {
            None => default,
            Some(Node { value: Value::Flag(value), .. }) => *value,
            Some(node) => return Err(self.error_in(key, node, "must be true or false")),
        };
        self.note(key, value);
        Ok(value)
    }

    /// Text, if it is written.
    pub fn text(&self, key: &str) -> Result<Option<&'a str>, Error> {
        let Some(node) = self.node(key) else { return Ok(None) };
        let text = node.text().ok_or_else(|| self.error_in(key, node, "must be text in quotes"))?;
        self.note(key, text);
        Ok(Some(text))
    }

    /// As `text`, and it must be written, as in `example`.
    pub fn need_text(&self, key: &str, example: &str) -> Result<&'a str, Error> {
        self.text(key)?.ok_or_else(|| self.missing(key, &format!("{example:?}")))
    }

    /// A name that may stand in a path: letters, digits, `-`, `_` and `+`.
    pub fn need_name(&self, key: &str, example: &str) -> Result<&'a str, Error> {
        let name = self.need_text(key, example)?;
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+');
        if name.is_empty() || name.len() > 40 || !name.chars().all(fits) {
            return Err(self
                .error(key, "must be a name of 1 to 40 letters, digits, \"-\", \"_\" and \"+\""));
        }
        Ok(name)
    }

    /// One of a few words.
    pub fn choice_or<T: Copy>(
        &self,
        key: &str,
        choices: &[(&str, T)],
        default: &str,
    ) -> Result<T, Error> {
        let word = match self.node(key) {
            None => default,
            Some(_) => self.text(key)?.unwrap_or(default),
        };
        match choices.iter().find(|(name, _)| *name == word) {
            Some((name, value)) => {
                if !self.has(key) {
                    self.note(key, *name);
                }
                Ok(*value)
            }
            None => Err(self.error(key, one_of(word, choices.iter().map(|(name, _)| *name)))),
        }
    }

    /// Text, or a list of it.
    pub fn texts(&self, key: &str) -> Result<Option<Vec<&'a str>>, Error> {
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

    /// As `texts`, and they must be written, as in `example`.
    pub fn need_texts(&self, key: &str, example: &str) -> Result<Vec<&'a str>, Error> {
        self.texts(key)?.ok_or_else(|| self.missing(key, &format!("{example:?}")))
    }

    /// The entries of a table of free keys.
    pub fn entries(&self) -> impl Iterator<Item = (&'a str, &'a Node)> {
        self.table.iter().map(|(key, node)| (key.as_str(), node))
    }
}

/// `must be one of a, b; did you mean "a"?`
pub fn one_of<'a>(word: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let near = did_you_mean(word, known.clone());
    let names: Vec<_> = known.map(|name| format!("\"{name}\"")).collect();
    match names.as_slice() {
        [only] => format!("must be {only}{near}"),
        _ => format!("must be one of {}{near}", names.join(", ")),
    }
}

/// A key as it may stand in a message: on one line and not too long.
fn show_key(key: &str) -> String {
    const LONGEST: usize = 40;
    let shown: String = key.chars().take(LONGEST).collect();
    let dots = if key.chars().count() > LONGEST { "..." } else { "" };
    format!("{}{dots}", shown.escape_debug())
}
