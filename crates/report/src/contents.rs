//! The list of contents beside the page.

use std::fmt::Write as _;

use crate::text::escaped;

/// Where something is, and its title.
type Place = (String, String);

/// Parts of the page with what is in them.
#[derive(Default)]
pub(crate) struct Contents(Vec<(Place, Vec<Place>)>);

impl Contents {
    /// Adds a part.
    pub(crate) fn part(&mut self, id: impl Into<String>, title: impl Into<String>) {
        self.0.push(((id.into(), title.into()), Vec::new()));
    }

    /// Adds something to the last part.
    pub(crate) fn within(&mut self, id: impl Into<String>, title: impl Into<String>) {
        if let Some((_, within)) = self.0.last_mut() {
            within.push((id.into(), title.into()));
        }
    }

    /// The list; nothing where one part is all there is.
    pub(crate) fn html(&self) -> String {
        if self.0.len() < 2 {
            return String::new();
        }
        let link = |id: &str, title: &str| format!("<a href=\"#{id}\">{}</a>", escaped(title));
        let mut out = String::from(
            "<nav class=\"contents\" aria-label=\"Contents\"><details open><summary>Contents</summary><ol>",
        );
        for ((id, title), within) in &self.0 {
            let _ = write!(out, "<li>{}", link(id, title));
            if !within.is_empty() {
                out.push_str("<ol>");
                for (id, title) in within {
                    let _ = write!(out, "<li>{}</li>", link(id, title));
                }
                out.push_str("</ol>");
            }
            out.push_str("</li>");
        }
        out + "</ol></details></nav>"
    }
}
