//! Adds to the text of a Linux module the checks that the verifier needs: array indices within
//! bounds, and loops that end.
//!
//! In the kernel's own modules both hold for reasons that no single line shows. Here each index
//! that is not a constant passes a check, and each `while` a counter (`module_bpf.h`). Neither
//! changes the results of a correct module. The checks that had to intervene are counted.

use std::collections::{BTreeMap, BTreeSet};

use crate::tokens::without_comments;

/// Macros in front of an array of the module's own, and of an array behind a pointer. A
/// connection's kernel memory is accessible at constant offsets only.
const TABLE: &str = "KNEE_AT(";
const AREA: &str = "KNEE_AREA_AT(";
const WHILE: &str = "KNEE_WHILE";
/// The field that modules set directly and BPF sets by a call.
const CLAMP: &str = "snd_cwnd_clamp";
const SET_CLAMP: &str = "knee_set_cwnd_clamp";
/// Field with the table of operations. Setting it switches the connection to another table;
/// `for_bpf` checks these tables first.
const OPS: &str = "icsk_ca_ops";
const FALL_BACK: &str = "knee_fall_back_to_reno";
/// Words that may precede a bracket without naming an array.
const KEYWORDS: [&str; 6] = ["return", "case", "else", "do", "sizeof", "typeof"];

struct Text {
    written: Vec<char>,
    /// Words, and operators of one character or `->`, each with its position.
    pieces: Vec<(String, usize)>,
}

/// An assignment to a member.
struct Set {
    /// First piece of the expression whose member is set.
    first: usize,
    /// The semicolon, or the closing bracket of `WRITE_ONCE`.
    end: usize,
    written_once: Option<usize>,
}

/// Returns the text with these macros inserted. Line numbers do not change.
pub(super) fn shown(text: &str) -> String {
    let text = Text::read(text);
    // Text to insert before a character, and text that replaces it.
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
                // Remove the arrow and the member, and for a table also the assigned value.
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
        // Both have the same number of characters, unless the file ends inside a comment.
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
                // Skip a directive with its continuation lines.
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

    /// Returns the bracket that closes the one at `at`.
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

    /// Returns the bracket that opens the one at `at`.
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

    /// For a subscript with a variable index, returns the first piece of the array and the closing
    /// bracket.
    fn subscript(&self, open: usize) -> Option<(usize, usize)> {
        let end = self.closed(open)?;
        // Constants have names in capitals. Array sizes in declarations do too.
        let is_variable = |at: usize| {
            self.is_name(at) && self.word(at).contains(|c: char| c.is_ascii_lowercase())
        };
        if !(open + 1..end).any(is_variable) {
            return None;
        }
        let first = self.first_of(open.checked_sub(1)?)?;
        // Two adjacent names form a declaration.
        let is_declared = first > 0 && self.is_name(first - 1);
        (!is_declared).then_some((first, end))
    }

    /// Returns the first piece of the expression that ends with this name or bracket:
    /// `f(sk)->a[1].b` counts as a whole.
    fn first_of(&self, last: usize) -> Option<usize> {
        let mut first = last;
        loop {
            // The expression is a name, or a bracketed group with the expression in front of it.
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

    /// Returns the assignment to this member of a struct behind a pointer, if there is one.
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

    /// Returns whether this `while` ends a `do`, or has no body.
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
