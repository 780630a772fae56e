//! Known differences with their causes.

use crate::Error;
use std::path::Path;

/// A known difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exception {
    /// Name of the case; a trailing `*` stands for any rest.
    pub case: String,
    /// Name of the metric; a trailing `*` stands for any rest.
    pub metric: String,
    /// Cause of the difference.
    pub cause: String,
}

impl Exception {
    /// Whether it speaks of this line.
    pub fn covers(&self, case: &str, metric: &str) -> bool {
        matches(&self.case, case) && matches(&self.metric, metric)
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

/// Reads the list: `[[exception]]` tables with `case`, `metric` and `cause`.
///
/// # Errors
/// If the file cannot be read, is not TOML, or has other keys.
pub fn read(path: &Path) -> Result<Vec<Exception>, Error> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| Error::Unread { path: path.to_owned(), source })?;
    parse(&text)
        .map_err(|error| Error::Exceptions { path: path.to_owned(), source: Box::new(error) })
}

fn parse(text: &str) -> Result<Vec<Exception>, Error> {
    let table: toml::Table = text.parse()?;
    if let Some(key) = table.keys().find(|key| *key != "exception") {
        return Err(Error::UnknownKey(key.clone()));
    }
    let entries = table.get("exception").and_then(toml::Value::as_array);
    entries.into_iter().flatten().map(entry).collect()
}

fn entry(value: &toml::Value) -> Result<Exception, Error> {
    let keys = ["case", "metric", "cause"];
    let table = value.as_table().ok_or(Error::NoTable)?;
    if let Some(key) = table.keys().find(|key| !keys.contains(&key.as_str())) {
        return Err(Error::UnknownPart(key.clone()));
    }
    let [case, metric, cause] = keys.map(|key| {
        let text = table.get(key).and_then(toml::Value::as_str).filter(|text| !text.is_empty());
        text.map(str::to_owned).ok_or(Error::NoText(key))
    });
    Ok(Exception { case: case?, metric: metric?, cause: cause? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_and_matched() {
        let list = parse(
            "[[exception]]\ncase = \"pie/*\"\nmetric = \"drops\"\ncause = \"another generator\"\n",
        )
        .unwrap();
        assert!(list[0].covers("pie/40mbit-reno", "drops"));
        assert!(!list[0].covers("pie/40mbit-reno", "drop"));
        assert!(!list[0].covers("incast10/reno", "drops"));
        assert_eq!(parse("").unwrap(), Vec::new());
    }

    #[test]
    fn mistakes_are_named() {
        let message = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(message("a = 1"), "unknown key a: only [[exception]] is known");
        assert_eq!(
            message("[[exception]]\ncase = \"x\"\nmetric = \"y\""),
            "exception: cause: must be a text"
        );
        assert!(parse("[[exception").is_err());
    }

    #[test]
    fn the_projects_own_list_can_be_read() {
        read(Path::new(crate::EXCEPTIONS)).unwrap();
    }
}
