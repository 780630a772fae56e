//! Writes the connections as JSON, straight into one text. A tree of values would cost most of the
//! CPU time of a reading.

use std::fmt::{Display, Write as _};

/// An object that is being written.
pub(super) struct Object<'a> {
    out: &'a mut String,
    is_first: bool,
}

impl<'a> Object<'a> {
    /// Begins an object at the end of `out`. [`Object::end`] ends it.
    pub(super) fn begin(out: &'a mut String) -> Object<'a> {
        out.push('{');
        Object { out, is_first: true }
    }

    /// Writes a number or a truth value. The key is one of this program's own and needs no escapes.
    pub(super) fn plain(&mut self, key: &str, value: impl Display) {
        let _ = write!(self.at(key), "{value}");
    }

    /// Writes a number, or null if it is not known.
    pub(super) fn known(&mut self, key: &str, value: Option<impl Display>) {
        match value {
            Some(value) => self.plain(key, value),
            None => self.plain(key, "null"),
        }
    }

    /// Writes a text that has no quotes, backslashes or control characters.
    pub(super) fn word(&mut self, key: &str, value: impl Display) {
        let _ = write!(self.at(key), "\"{value}\"");
    }

    /// Writes any text.
    pub(super) fn text(&mut self, key: &str, value: &str) {
        escape(self.at(key), value);
    }

    /// Writes an array of texts that need no escapes.
    pub(super) fn words(&mut self, key: &str, values: &[&str]) {
        self.list(key, values, |out, value| {
            let _ = write!(out, "\"{value}\"");
        });
    }

    /// Writes an array, each element by `write`.
    pub(super) fn list<T>(&mut self, key: &str, values: &[T], write: impl Fn(&mut String, &T)) {
        let out = self.at(key);
        out.push('[');
        for (index, value) in values.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            write(out, value);
        }
        out.push(']');
    }

    pub(super) fn end(self) {
        self.out.push('}');
    }

    fn at(&mut self, key: &str) -> &mut String {
        if !self.is_first {
            self.out.push(',');
        }
        self.is_first = false;
        let _ = write!(self.out, "\"{key}\":");
        self.out
    }
}

fn escape(out: &mut String, text: &str) {
    let is_plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
    match text.bytes().all(is_plain) {
        true => {
            let _ = write!(out, "\"{text}\"");
        }
        false => out.push_str(&serde_json::Value::from(text).to_string()),
    }
}
