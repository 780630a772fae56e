//! Text of files, made safe for a terminal.

use std::fmt;

/// Writes what may come from a file: a terminal obeys what is not text, but for what is `kept`.
///
/// # Errors
/// As the formatter has them.
pub fn write_as_text(f: &mut fmt::Formatter<'_>, text: &str, kept: &[char]) -> fmt::Result {
    text.chars().try_for_each(|c| match c.is_control() && !kept.contains(&c) {
        true => write!(f, "{}", c.escape_default()),
        false => write!(f, "{c}"),
    })
}
