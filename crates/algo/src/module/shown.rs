//! The text of a Linux module with what the verifier must be shown: indices that lie within their arrays, and loops that end.
//!
//! The kernel's own modules know both by reasons that stand in no single line. Here each index that is no constant goes through a check,
//! and each `while` through a count (`module_bpf.h`). Neither changes what a correct module computes; what they had to stop is counted.

use std::collections::{BTreeMap, BTreeSet};

use super::without_comments;

/// Before an array of its own, and before one that lies behind a pointer: what the kernel keeps of a connection is reached by constant
/// offsets only.
const TABLE: &str = "KNEE_AT(";
const AREA: &str = "KNEE_AREA_AT(";
const WHILE: &str = "KNEE_WHILE";
/// The one field that modules set, and BPF sets by a call.
const CLAMP: &str = "snd_cwnd_clamp";
const SET_CLAMP: &str = "knee_set_cwnd_clamp";
/// A table of operations that a connection is handed to: the other tables of a file are looked at before.
const OPS: &str = "icsk_ca_ops";
const FALL_BACK: &str = "knee_fall_back_to_reno";
/// Words that stand before a bracket and name no array.
const KEYWORDS: [&str; 6] = ["return", "case", "else", "do", "sizeof", "typeof"];

struct Text {
    written: Vec<char>,
    /// Words, and signs of one character or `->`, with where they begin.
    pieces: Vec<(String, usize)>,
}

/// A member that is set.
struct Set {
    /// The first piece of whose member it is.
    first: usize,
    /// The semicolon, or the bracket of `WRITE_ONCE`.
    end: usize,
    written_once: Option<usize>,
}

/// The text with these in their places; lines stay where they are.
pub(super) fn shown(text: &str) -> String {
    let text = Text::read(text);
    // What comes before a character, and what takes its place.
    let (mut before, mut instead) = (BTreeMap::new(), BTreeMap::new());
    let mut removed = BTreeSet::new();
    let mut depth = 0_usize;
    for at in 0..text.pieces.len() {
        match text.word(at) {
            "{" => depth += 1,
            "}" => depth = depth.saturating_sub(1),
            "while" if depth > 0 && !text.ends_a_do(at) => {
                instead.insert(text.begin(at), WHILE);
                removed.extend(text.begin(at) + 1..text.begin(at) + "while".len());
            }
            "[" if depth > 0 => {
                let Some((first, end)) = text.subscript(at) else { continue };
                let is_area = (first..at).any(|piece| matches!(text.word(piece), "->" | "."));
                let known: &mut String = before.entry(text.begin(first)).or_default();
                known.insert_str(0, if is_area { AREA } else { TABLE });
                instead.insert(text.begin(at), ", ");
                instead.insert(text.begin(end), ")");
            }
            OPS | CLAMP => {
                let Some(set) = text.set(at) else { continue };
                let is_ops = text.word(at) == OPS;
                let call = if is_ops { FALL_BACK } else { SET_CLAMP };
                // The arrow and the member, and of a table what it is set to.
                let last = if is_ops { set.end } else { at + 1 };
                removed.extend(text.begin(at - 1)..text.begin(last));
                match set.written_once {
                    Some(word) => {
                        instead.insert(text.begin(word), call);
                        removed.extend(text.begin(word) + 1..text.begin(word + 1));
                    }
                    None => {
                        let known: &mut String = before.entry(text.begin(set.first)).or_default();
                        known.insert_str(0, &format!("{call}("));
                        if !is_ops {
                            instead.insert(text.begin(at + 1), ",");
                        }
                        instead.insert(text.begin(set.end), ");");
                    }
                }
            }
            _ => {}
        }
    }
    let mut out = String::with_capacity(text.written.len());
    for (at, c) in text.written.iter().enumerate() {
        out.push_str(before.get(&at).map_or("", String::as_str));
        match instead.get(&at) {
            Some(other) => out.push_str(other),
            None if removed.contains(&at) => {}
            None => out.push(*c),
        }
    }
    out
}

impl Text {
    fn read(text: &str) -> Text {
        let blank: Vec<char> = without_comments(text).chars().collect();
        let written: Vec<char> = text.chars().collect();
        let mut pieces = Vec::new();
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (mut at, mut is_line_begun) = (0, false);
        // Both have as many characters, but for a file that ends within a comment.
        while at < blank.len().min(written.len()) {
            let c = blank[at];
            let begin = at;
            at += 1;
            if c == '\n' {
                is_line_begun = false;
            }
            if c.is_whitespace() {
                continue;
            }
            if c == '#' && !is_line_begun {
                // Directives, with the lines that go on.
                while at < blank.len() && !(blank[at] == '\n' && blank[at - 1] != '\\') {
                    at += 1;
                }
                continue;
            }
            is_line_begun = true;
            if is_word(c) {
                while at < blank.len() && is_word(blank[at]) {
                    at += 1;
                }
            } else if c == '"' || c == '\'' {
                while at < blank.len() && blank[at] != c {
                    at += 1;
                }
                at = (at + 1).min(blank.len());
            } else if c == '-' && blank.get(at) == Some(&'>') {
                at += 1;
            }
            pieces.push((blank[begin..at].iter().collect(), begin));
        }
        Text { written, pieces }
    }

    fn word(&self, at: usize) -> &str {
        self.pieces.get(at).map_or("", |(word, _)| word)
    }

    fn begin(&self, at: usize) -> usize {
        self.pieces.get(at).map_or(self.written.len(), |(_, begin)| *begin)
    }

    fn is_name(&self, at: usize) -> bool {
        let word = self.word(at);
        let begins = |c: char| c.is_ascii_alphabetic() || c == '_';
        word.starts_with(begins) && !KEYWORDS.contains(&word)
    }

    /// Where the bracket that opens at `at` is closed.
    fn closed(&self, at: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for end in at..self.pieces.len() {
            match self.word(end) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.checked_sub(1)?,
                _ => {}
            }
            if depth == 0 {
                return Some(end);
            }
        }
        None
    }

    /// Where the bracket that closes at `at` is opened.
    fn opened(&self, at: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for begin in (0..=at).rev() {
            match self.word(begin) {
                ")" | "]" | "}" => depth += 1,
                "(" | "[" | "{" => depth = depth.checked_sub(1)?,
                _ => {}
            }
            if depth == 0 {
                return Some(begin);
            }
        }
        None
    }

    /// The first piece of the array, and the bracket behind its index, of a subscript with an index that is no constant.
    fn subscript(&self, open: usize) -> Option<(usize, usize)> {
        let end = self.closed(open)?;
        // Constants are written in capitals, and so are sizes of arrays, which are declared so.
        let is_variable = |at: usize| {
            self.is_name(at) && self.word(at).contains(|c: char| c.is_ascii_lowercase())
        };
        if !(open + 1..end).any(is_variable) {
            return None;
        }
        let first = self.first_of(open.checked_sub(1)?)?;
        // Two names in a row declare something.
        let is_declared = first > 0 && self.is_name(first - 1);
        (!is_declared).then_some((first, end))
    }

    /// The first piece of what ends with this name or bracket: `f(sk)->a[1].b` as a whole.
    fn first_of(&self, last: usize) -> Option<usize> {
        let mut first = last;
        loop {
            // A name, or a group in brackets with what is before it.
            if matches!(self.word(first), ")" | "]") {
                first = self.opened(first)?;
                let is_part =
                    |before: usize| self.is_name(before) || matches!(self.word(before), ")" | "]");
                match first.checked_sub(1) {
                    Some(before) if is_part(before) => {
                        first = before;
                        continue;
                    }
                    _ => {}
                }
            } else if !self.is_name(first) {
                return None;
            }
            match first.checked_sub(2) {
                Some(before) if matches!(self.word(first - 1), "->" | ".") => first = before,
                _ => return Some(first),
            }
        }
    }

    /// How this member of what a pointer points to is set, if it is.
    fn set(&self, at: usize) -> Option<Set> {
        if at < 2 || self.word(at - 1) != "->" {
            return None;
        }
        let first = self.first_of(at)?;
        match self.word(at + 1) {
            "=" if self.word(at + 2) != "=" => {
                let end = (at..self.pieces.len()).find(|end| self.word(*end) == ";")?;
                Some(Set { first, end, written_once: None })
            }
            "," if first > 1 && self.word(first - 2) == "WRITE_ONCE" => {
                let end = self.closed(first - 1)?;
                Some(Set { first, end, written_once: Some(first - 2) })
            }
            _ => None,
        }
    }

    /// Whether this `while` ends a `do`, or has no body.
    fn ends_a_do(&self, at: usize) -> bool {
        let end = self.closed(at + 1).unwrap_or(at);
        self.word(end + 1) == ";"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_and_loops_go_through_checks() {
        for (written, expected) in [
            ("x = v[i];", "x = KNEE_AT(v, i);"),
            ("x = (u32)v[(u32)a] + 35;", "x = (u32)KNEE_AT(v, (u32)a) + 35;"),
            ("t[ca->ai-1].cwnd = 3;", "KNEE_AT(t, ca->ai-1).cwnd = 3;"),
            ("b->x[b->i] = 0;", "KNEE_AREA_AT(b->x, b->i) = 0;"),
            ("f(sk)->x[i]++;", "KNEE_AREA_AT(f(sk)->x, i)++;"),
            ("return v[w[i]];", "return KNEE_AT(v, KNEE_AT(w, i));"),
            ("x = m[i][j];", "x = KNEE_AT(KNEE_AT(m, i), j);"),
            (
                "tcp_sk(sk)->snd_cwnd_clamp = min(a, 3);",
                "knee_set_cwnd_clamp(tcp_sk(sk), min(a, 3));",
            ),
            ("inet_csk(sk)->icsk_ca_ops = &mine;", "knee_fall_back_to_reno(inet_csk(sk));"),
            (
                "WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, &mine);",
                "knee_fall_back_to_reno(inet_csk(sk));",
            ),
            ("WRITE_ONCE(tp->snd_cwnd_clamp, f(3, 4));", "knee_set_cwnd_clamp(tp, f(3, 4));"),
            ("while (x > 1)\n\tx--;", "KNEE_WHILE (x > 1)\n\tx--;"),
        ] {
            let function = |body: &str| format!("void f(void)\n{{\n\t{body}\n}}\n");
            assert_eq!(shown(&function(written)), function(expected));
        }
    }

    #[test]
    fn what_needs_no_check_stays_as_it_is() {
        for written in [
            "struct s {\n\tu16 x[2], y[CYCLE];\n};\nu8 v[] = { 1 };\n",
            "#define AT(i) v[i] \\\n\tw[i]\nvoid f(void)\n{\n\tx = v[3] + v[LAST];\n}\n",
            "void f(void)\n{\n\tu8 v[n];\n\tdo {\n\t\tx--;\n\t} while (x > y);\n}\n",
            "void f(void)\n{\n\t/* é: v[i] while */ g(\"v[i]\", '[', ca);\n}\n",
            "void f(void)\n{\n\tif (tp->snd_cwnd_clamp == 3)\n\t\treturn;\n}\n",
            "void f(void)\n{\n\tg(READ_ONCE(icsk->icsk_ca_ops) == &mine);\n}\n",
            "void f(void)\n{\n\tx = v[i",
            "] ) } [ while",
        ] {
            assert_eq!(shown(written), written);
        }
    }
}
