//! Known differences with their causes.

use crate::Error;
use serde::Deserialize;
use std::path::Path;

/// A known difference.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Exception {
    /// Name of the case; a trailing `*` stands for any rest.
    pub case: String,
    /// Name of the metric; a trailing `*` stands for any rest.
    pub metric: String,
    /// Cause of the difference.
    pub cause: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(default)]
    exception: Vec<Exception>,
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
    parse(&text).map_err(|source| Error::Exceptions { path: path.to_owned(), source })
}

fn parse(text: &str) -> Result<Vec<Exception>, toml::de::Error> {
    Ok(toml::from_str::<List>(text)?.exception)
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
        assert!(message("a = 1").contains("unknown field `a`, expected `exception`"));
        let lacks = message("[[exception]]\ncase = \"x\"\nmetric = \"y\"");
        assert!(lacks.contains("missing field `cause`"), "{lacks}");
        assert!(parse("[[exception").is_err());
    }

    #[test]
    fn the_projects_own_list_can_be_read() {
        read(Path::new(crate::EXCEPTIONS)).unwrap();
    }
}
