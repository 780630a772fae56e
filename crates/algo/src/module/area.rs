//! Sizes of the types that a module's file puts into the private area of 104 bytes. A larger type
//! would write past it into the simulator's own memory, and the results would be silently wrong.
//! Not every module has a `BUILD_BUG_ON`.

use std::collections::BTreeSet;

use object::{Object as _, ObjectSection as _, ObjectSymbol as _};

use crate::tokens::{self, Token};

/// Names that access the area: the kernel's function, and the field itself.
const AREA: &[&str] = &["inet_csk_ca", "icsk_ca_priv"];

/// Types of the contract that appear in the same statements but are not private state.
const SOCKETS: &[&str] = &["sock", "inet_connection_sock", "tcp_sock"];

/// Returns the symbol of [`table_of_sizes`] for a module's file number `file`.
pub(super) fn symbol(file: u32) -> String {
    format!("knee_private_types_{file}")
}

/// Returns the types to which a preprocessed file has pointers in the area: `struct foo`, or the
/// name of a typedef. A type stated in a comment of the file replaces those found. A type that is
/// not defined outside functions is omitted, because C outside that function cannot take its size.
pub fn private_types(preprocessed: &str, stated: Option<String>) -> BTreeSet<String> {
    let source = tokens::read(preprocessed);
    let tokens = source.tokens.as_slice();
    let mut found = BTreeSet::new();
    for (at, token) in tokens.iter().enumerate() {
        if !AREA.contains(&token.text.as_str()) {
            continue;
        }
        let begin = statement_begin(tokens, at);
        let statement = &tokens[begin..at];
        found.extend(pointed_to(statement));
        match statement {
            // The return type of the function is the type of the area.
            [first, ..] if first.text == "return" => {
                let head = head_of_function(tokens, begin);
                found.extend(pointed_to(head));
            }
            // The variable was declared earlier.
            [variable, sign, ..] if variable.is_word() && sign.text == "=" => {
                found.extend(declared_type(&tokens[..begin], &variable.text));
            }
            _ => {}
        }
    }
    if let Some(stated) = stated {
        found = BTreeSet::from([stated]);
    }
    found.retain(|name| is_defined(tokens, name));
    found
}

/// Returns the type of the private area that a comment of the file states on its own line: `knee:
/// state struct foo`.
pub fn stated_type(text: &str) -> Option<String> {
    let said = text.lines().find_map(|line| {
        let line = line.trim_start_matches([' ', '\t', '*', '/']);
        line.strip_prefix("knee: state ")
    })?;
    Some(
        said.trim_end_matches(['*', '/', ' ', '\t'])
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" "),
    )
}

/// Returns C code that exports the sizes of the types. It follows the file in the same translation
/// unit.
pub(super) fn table_of_sizes(types: &BTreeSet<String>, symbol: &str) -> String {
    let mut out = format!(
        "\n__attribute__((visibility(\"default\"))) const struct {{ const char *name; unsigned long bytes; }} {symbol}[] = {{\n"
    );
    for name in types {
        out.push_str(&format!("\t{{ \"{name}\", sizeof({name}) }},\n"));
    }
    out.push_str("\t{ 0, 0 },\n};\n");
    // A variable of each type keeps it in the debug information; a `sizeof` alone does not.
    for (number, name) in types.iter().enumerate() {
        out.push_str(&format!(
            "static const {name} *const knee_type_{number} __attribute__((used));\n"
        ));
    }
    out
}

/// Compares the sizes in an object's tables, one per file, with that of the area. The tables are
/// only read; no code of the object runs. The types are known from the source.
pub(super) fn check_sizes(
    object: &[u8],
    files: usize,
    types: &[String],
    area_bytes: u32,
) -> Result<(), String> {
    const ROW: usize = 16;
    let object =
        object::File::parse(object).map_err(|why| format!("its object cannot be read: {why}"))?;
    let mut names = types.iter();
    for file in 1..=files {
        let wanted = symbol(file as u32);
        let found = object.dynamic_symbols().find(|found| found.name() == Ok(&*wanted));
        // A file on the contract has no table.
        let Some(found) = found else { continue };
        let section = found.section_index().and_then(|at| object.section_by_index(at).ok());
        let table = section
            .and_then(|section| section.data_range(found.address(), found.size()).ok().flatten())
            .ok_or("the object that was compiled from it has lost a table")?;
        // The last row marks the end.
        let rows = (table.len() / ROW).saturating_sub(1);
        for (row, name) in table.chunks_exact(ROW).take(rows).zip(names.by_ref()) {
            let bytes = row[ROW / 2..].try_into().map_or(0, u64::from_ne_bytes);
            if bytes > u64::from(area_bytes) {
                return Err(format!(
                    "its {name} has {bytes} bytes, and a connection's private area (inet_csk_ca) has {area_bytes}: keep the \
                     rest in memory of kzalloc, and a pointer to it there"
                ));
            }
        }
    }
    Ok(())
}

fn is_end(token: &Token) -> bool {
    matches!(token.text.as_str(), ";" | "{" | "}")
}

fn statement_begin(tokens: &[Token], at: usize) -> usize {
    tokens[..at].iter().rposition(is_end).map_or(0, |end| end + 1)
}

/// Returns the types followed by a `*`.
fn pointed_to(statement: &[Token]) -> Vec<String> {
    let mut types = Vec::new();
    for at in 1..statement.len() {
        let (name, star) = (&statement[at - 1], &statement[at]);
        if star.text != "*" || !name.is_word() || SOCKETS.contains(&name.text.as_str()) {
            continue;
        }
        let keyword = at.checked_sub(2).map_or("", |before| statement[before].text.as_str());
        types.push(match keyword {
            "struct" | "union" => format!("{keyword} {}", name.text),
            _ => name.text.clone(),
        });
    }
    types
}

/// Returns the head of the function around a statement: the tokens from the end of the previous
/// item to the `{`.
fn head_of_function(tokens: &[Token], statement: usize) -> &[Token] {
    let mut depth = 0;
    for at in (0..statement).rev() {
        match tokens[at].text.as_str() {
            "}" => depth += 1,
            "{" if depth == 0 && at > 0 && tokens[at - 1].text == ")" => {
                return &tokens[statement_begin(tokens, at)..at];
            }
            "{" if depth > 0 => depth -= 1,
            _ => {}
        }
    }
    &[]
}

/// Returns the type of the nearest preceding `type *variable`.
fn declared_type(before: &[Token], variable: &str) -> Vec<String> {
    let is_it = |pair: &[Token]| pair[0].text == "*" && pair[1].text == variable;
    let Some(at) = before.windows(2).rposition(is_it) else { return Vec::new() };
    let mut all = pointed_to(&before[statement_begin(before, at)..=at]);
    all.pop().into_iter().collect()
}

/// Returns whether a name is that of a type with a size, defined outside all functions.
fn is_defined(tokens: &[Token], name: &str) -> bool {
    let tagged = name.split_once(' ');
    let mut depth = 0;
    let mut is_typedef = false;
    for (at, token) in tokens.iter().enumerate() {
        let next = tokens.get(at + 1).map_or("", |token| token.text.as_str());
        match token.text.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            "typedef" if depth == 0 => is_typedef = true,
            ";" if depth == 0 => is_typedef = false,
            _ => {}
        }
        if depth != 0 {
            continue;
        }
        let is_here = match tagged {
            Some((keyword, tag)) => {
                let body = tokens.get(at + 2).map_or("", |token| token.text.as_str());
                token.text == keyword && next == tag && matches!(body, "{" | "__attribute__")
            }
            None => is_typedef && token.text == name && matches!(next, ";" | "[" | ","),
        };
        if is_here {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types_of(code: &str) -> Vec<String> {
        private_types(code, stated_type(code)).into_iter().collect()
    }

    #[test]
    fn a_comment_states_the_type() {
        let code = "/*\n * knee: state struct bar\n */\nstruct foo { int a; };\nstruct bar { int b; };\n\
                    void f(struct sock *sk) { struct foo *ca = inet_csk_ca(sk); }";
        assert_eq!(types_of(code), ["struct bar"]);
        assert_eq!(stated_type("// knee: state bar_t\n"), Some("bar_t".to_owned()));
        assert_eq!(stated_type("/* knee: state  struct bar */"), Some("struct bar".to_owned()));
        assert_eq!(stated_type("int a; /* knee: state struct bar */"), None);
    }

    #[test]
    fn the_types_in_the_private_area_are_found_however_it_is_named() {
        let defined = "struct foo { int a; };\ntypedef struct { int a; } foo_t;\n";
        for (code, expected) in [
            ("void f(struct sock *sk) { struct foo *ca = inet_csk_ca(sk); }", "struct foo"),
            ("void f(struct sock *sk) { const foo_t *ca = inet_csk_ca(sk); }", "foo_t"),
            ("void f(struct sock *sk) { g(1, (struct foo *)inet_csk_ca(sk)); }", "struct foo"),
            (
                "void f(struct sock *sk) { struct foo *ca; if (1) { ca = inet_csk_ca(sk); } }",
                "struct foo",
            ),
            ("static struct foo *ca_of(struct sock *sk) { return inet_csk_ca(sk); }", "struct foo"),
            (
                "void f(struct inet_connection_sock *icsk) { struct foo *ca = (void *)icsk->icsk_ca_priv; }",
                "struct foo",
            ),
        ] {
            assert_eq!(types_of(&format!("{defined}{code}")), [expected], "{code}");
        }
        // A type without a size, or local to a function, is omitted.
        assert_eq!(
            types_of("void f(struct sock *sk) { struct no *ca = inet_csk_ca(sk); }"),
            [""; 0]
        );
        assert_eq!(
            types_of(
                "void f(struct sock *sk) { struct in { int a; }; struct in *ca = inet_csk_ca(sk); }"
            ),
            [""; 0]
        );
    }
}
