//! Facts that an algorithm's file states about itself, in its header and by its private struct.

use crate::{Algorithm, Field, FieldKind};

impl Algorithm {
    /// Returns the numeric fields of the private state, under the names in the file; empty if
    /// unknown.
    pub fn state_fields(&self) -> &[Field] {
        &self.fields
    }

    /// Returns whether the private state contains an address, which a recording cannot pass on.
    pub fn keeps_addresses(&self) -> bool {
        self.fields.iter().any(|field| *field.kind() == FieldKind::Pointer)
    }

    /// Returns the first sentence of the file's header; empty if there is no header.
    pub fn title(&self) -> String {
        let paragraphs = header(self.text());
        let first = paragraphs.first().map_or("", String::as_str);
        first.split_once(". ").map_or(first, |(first, _)| first).trim_end_matches('.').to_owned()
    }

    /// Returns the header paragraph that begins with "Sources:" or "Source:"; empty if there is
    /// none.
    pub fn sources(&self) -> String {
        let paragraphs = header(self.text());
        let sources = paragraphs.iter().find_map(|paragraph| {
            paragraph.strip_prefix("Sources:").or_else(|| paragraph.strip_prefix("Source:"))
        });
        sources.unwrap_or_default().trim().trim_end_matches('.').to_owned()
    }
}

/// Returns the paragraphs of the first block comment that is not the licence.
fn header(text: &str) -> Vec<String> {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("/*") {
        let Some((comment, after)) = after.split_once("*/") else { break };
        if !comment.contains("SPDX-License-Identifier") {
            return paragraphs(comment);
        }
        rest = after;
    }
    Vec::new()
}

fn paragraphs(comment: &str) -> Vec<String> {
    let lines = comment.lines().map(|line| line.trim().trim_start_matches('*').trim());
    let mut all = vec![String::new()];
    for line in lines {
        match (line.is_empty(), all.last_mut()) {
            (true, Some(last)) if !last.is_empty() => all.push(String::new()),
            (false, Some(last)) => {
                if !last.is_empty() {
                    last.push(' ');
                }
                last.push_str(line);
            }
            _ => {}
        }
    }
    all.retain(|paragraph| !paragraph.is_empty());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_says_what_it_is_and_where_it_comes_from() {
        for algorithm in Algorithm::all() {
            assert!(!algorithm.title().is_empty(), "{}", algorithm.name());
            assert!(!algorithm.sources().is_empty(), "{}", algorithm.name());
        }
        let reno = Algorithm::by_name("reno").unwrap();
        assert!(reno.title().starts_with("Reno: double the window"), "{}", reno.title());
        assert!(reno.sources().starts_with("RFC 5681"), "{}", reno.sources());
    }

    #[test]
    fn a_header_is_the_first_comment_after_the_licence() {
        let text =
            "/* SPDX-License-Identifier: MIT */\n/*\n * One\n * two.\n *\n * Sources: three\n */";
        assert_eq!(header(text), ["One two.", "Sources: three"]);
        assert!(header("int x;").is_empty() && header("/* open").is_empty());
    }
}
