//! Checks that need only the tokens. Each rule states what to write instead; none guesses at types.

use std::collections::{HashMap, HashSet};

use super::contract::Contract;
use super::{Finding, Rule};
use crate::instead::no_such;
use crate::tokens::{Source, Token};

/// Number of arguments that BPF passes in registers.
const MAX_ARGUMENTS: usize = 5;

/// Words that may precede a parenthesis without being a call.
const NO_CALLS: &[&str] = &[
    "if",
    "for",
    "while",
    "switch",
    "return",
    "sizeof",
    "typeof",
    "__typeof__",
    "do",
    "case",
    "defined",
    "asm",
    "__asm__",
];

/// Functions that the compiler replaces by instructions.
const BUILT_IN: &[&str] =
    &["memcpy", "memset", "likely", "unlikely", "_Static_assert", "__attribute__"];

/// Fields that the kernel lets a BPF program write.
const WRITABLE: &[&str] = &[
    "snd_cwnd",
    "snd_cwnd_cnt",
    "snd_ssthresh",
    "ecn_flags",
    "sk_pacing_rate",
    "sk_pacing_status",
    "icsk_ca_priv",
    "icsk_ack",
];

const ASSIGNMENTS: &[&str] =
    &["=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--"];

/// A function of the file.
struct Function<'a> {
    name: &'a str,
    line: u32,
    arguments: usize,
    /// Tokens between the function's braces.
    body: &'a [Token],
}

pub(super) fn all(source: &Source, contract: &Contract) -> Vec<Finding> {
    let tokens = source.tokens.as_slice();
    let functions = functions(tokens);
    let mut found = Vec::new();
    directives(source, contract, &mut found);
    types(tokens, &mut found);
    types(&source.bodies, &mut found);
    file_level(tokens, &mut found);
    for function in &functions {
        if function.arguments > MAX_ARGUMENTS {
            found.push(Finding::new(
                Rule::Arguments,
                function.line,
                format!(
                    "{} has {} arguments, and BPF passes {MAX_ARGUMENTS}: give it a pointer to a struct",
                    function.name, function.arguments
                ),
            ));
        }
        loops(function.body, &mut found);
        back_jumps(function.body, &mut found);
        static_locals(function.body, &mut found);
        writes(function.body, contract, &mut found);
    }
    calls(source, &functions, contract, &mut found);
    recursion(&functions, &mut found);
    found
}

fn text(tokens: &[Token], index: usize) -> &str {
    tokens.get(index).map_or("", |token| token.text.as_str())
}

/// Returns the index of the token that closes the bracket at `open`, or the end.
fn closing(tokens: &[Token], open: usize) -> usize {
    let (begin, end) = match text(tokens, open) {
        "(" => ("(", ")"),
        "[" => ("[", "]"),
        _ => ("{", "}"),
    };
    let mut depth = 0usize;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        if token.text == begin {
            depth += 1;
        } else if token.text == end {
            depth = depth.saturating_sub(1);
            if depth == 0 {
                return index;
            }
        }
    }
    tokens.len()
}

/// Counts the items of a list in parentheses; `(void)` and `()` have none.
fn items(tokens: &[Token]) -> usize {
    if tokens.is_empty() || (tokens.len() == 1 && tokens[0].text == "void") {
        return 0;
    }
    let mut depth = 0i32;
    let commas = tokens.iter().filter(|token| {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        depth == 0 && token.text == ","
    });
    commas.count() + 1
}

/// Finds the functions `type name(args) { ... }` and `CC_OP(type, name, args) { ... }`.
fn functions(tokens: &[Token]) -> Vec<Function<'_>> {
    let mut all = Vec::new();
    let mut index = 0;
    while index < tokens.len() {
        match text(tokens, index) {
            "{" => index = closing(tokens, index) + 1,
            "(" => {
                let end = closing(tokens, index);
                let list = tokens.get(index + 1..end).unwrap_or_default();
                let opens = text(tokens, end + 1) == "{";
                if let (true, Some(name)) = (opens, index.checked_sub(1).map(|at| &tokens[at])) {
                    let close = closing(tokens, end + 1);
                    let body = tokens.get(end + 2..close).unwrap_or_default();
                    let mut function = Function {
                        name: &name.text,
                        line: name.line,
                        arguments: items(list),
                        body,
                    };
                    if name.text == "CC_OP" {
                        let comma = list.iter().position(|token| token.text == ",").unwrap_or(0);
                        function.name = list.get(comma + 1).map_or("", |token| &token.text);
                        function.arguments = items(list).saturating_sub(2);
                    }
                    all.push(function);
                    index = close + 1;
                } else {
                    index = end + 1;
                }
            }
            _ => index += 1,
        }
    }
    all
}

fn directives(source: &Source, contract: &Contract, found: &mut Vec<Finding>) {
    for directive in &source.directives {
        if directive.name == "include" {
            let name = directive.rest.trim_matches(['"', '<', '>', ' ']);
            if !contract.has_header(name) {
                found.push(Finding::new(
                    Rule::Include,
                    directive.line,
                    format!(
                        "{} is not part of the contract: include \"tcp.h\" alone",
                        directive.rest
                    ),
                ));
            }
        } else if directive.name.starts_with("if") {
            found.push(Finding::new(
                Rule::Include,
                directive.line,
                "#if makes two programs of one: what differs between hosts belongs into include/"
                    .to_owned(),
            ));
        }
    }
}

fn types(tokens: &[Token], found: &mut Vec<Finding>) {
    for token in tokens {
        let word = token.text.as_str();
        let is_float_type = matches!(word, "float" | "double") || word.starts_with("_Float");
        if is_float_type || is_float(token) {
            found.push(Finding::new(
                Rule::Float,
                token.line,
                format!("{word} is floating point, which neither the kernel nor BPF has: use an integer in 1/1024 or the like"),
            ));
        }
        if matches!(word, "__int128" | "__int128_t" | "__uint128_t" | "u128" | "s128") {
            found.push(Finding::new(
                Rule::Wide,
                token.line,
                format!("{word} has 128 bits, and BPF multiplies and divides 64: shift before the product, or split it"),
            ));
        }
        if matches!(word, "asm" | "__asm__" | "__asm") {
            let why = "is another machine's language in one of the hosts: write C";
            found.push(Finding::new(Rule::Assembly, token.line, format!("{word} {why}")));
        }
    }
}

fn is_float(token: &Token) -> bool {
    let word = token.text.as_str();
    let is_hex = word.starts_with("0x") || word.starts_with("0X");
    token.is_number() && !is_hex && word.contains(['.', 'e', 'E', 'f', 'F'])
}

/// Finds writable variables outside functions.
fn file_level(tokens: &[Token], found: &mut Vec<Finding>) {
    let mut index = 0;
    let mut statement: Vec<&Token> = Vec::new();
    let mut has_value = false;
    while index < tokens.len() {
        match text(tokens, index) {
            ";" => {
                check_variable(&statement, has_value, found);
                statement.clear();
                has_value = false;
                index += 1;
            }
            "{" => {
                // The closing brace of a function's body ends a statement. That of a struct or a
                // table does not.
                let after_list = statement.last().is_some_and(|token| token.text == ")");
                index = closing(tokens, index) + 1;
                if after_list {
                    statement.clear();
                }
            }
            open @ ("(" | "[") => {
                let is_list = open == "(";
                let end = closing(tokens, index);
                // A macro of the contract expands to a whole declaration.
                let is_macro = is_list
                    && statement.last().is_some_and(|token| {
                        token.text.starts_with("CC_") && token.text != "CC_ALGORITHM"
                    })
                    && statement.last().is_some_and(|token| token.text != "CC_OP");
                index = end + 1;
                if is_macro {
                    statement.clear();
                } else if let (true, Some(last)) = (is_list, tokens.get(end)) {
                    statement.push(last);
                }
            }
            "=" => {
                has_value = true;
                index += 1;
            }
            _ => {
                if !has_value {
                    statement.push(&tokens[index]);
                }
                index += 1;
            }
        }
    }
}

fn check_variable(statement: &[&Token], has_value: bool, found: &mut Vec<Finding>) {
    let has = |word: &str| statement.iter().any(|token| token.text == word);
    let Some(name) = statement.last().filter(|token| token.is_word()) else { return };
    let is_declaration = statement.iter().filter(|token| token.is_word()).count() >= 2;
    let defines_type_only = !has_value
        && statement.len() == 2
        && ["struct", "enum", "union"].iter().any(|kind| has(kind));
    let is_table = has("CC_ALGORITHM");
    if has("typedef") || has("extern") || has("const") || has(")") && !has_value || is_table {
        return;
    }
    if is_declaration && !defines_type_only {
        found.push(Finding::new(
            Rule::GlobalState,
            name.line,
            format!("{} is global and can be written, so connections would disturb each other: put it into the state struct, make it const, or a parameter (CC_PARAMS)", name.text),
        ));
    }
}

fn static_locals(body: &[Token], found: &mut Vec<Finding>) {
    for (index, token) in body.iter().enumerate() {
        let declaration =
            body[index..].iter().take_while(|token| token.text != ";" && token.text != "=");
        if token.text == "static" && !declaration.clone().any(|token| token.text == "const") {
            let name = declaration.filter(|token| token.is_word()).last();
            found.push(Finding::new(
                Rule::GlobalState,
                token.line,
                format!("static {} outlives its call and belongs to all connections: put it into the state struct", name.map_or("", |name| &name.text)),
            ));
        }
    }
}

fn loops(body: &[Token], found: &mut Vec<Finding>) {
    for (index, token) in body.iter().enumerate() {
        let open = index + 1;
        if text(body, open) != "(" {
            continue;
        }
        let head = body.get(open + 1..closing(body, open)).unwrap_or_default();
        match token.text.as_str() {
            "while" if text(head, 0) != "0" || head.len() > 1 => found.push(Finding::new(
                Rule::Loop,
                token.line,
                "a while loop shows the verifier no bound: write for (i = 0; i < LIMIT; i++) and break out of it".to_owned(),
            )),
            "for" => {
                let mut parts = head.split(|token| token.text == ";");
                let condition = parts.nth(1).unwrap_or_default();
                if !has_constant_bound(condition) {
                    found.push(Finding::new(
                        Rule::Loop,
                        token.line,
                        "the bound of this loop is no constant: add one to the condition, as in i < LIMIT && i < n".to_owned(),
                    ));
                }
            }
            _ => {}
        }
    }
}

/// Returns whether a term of a conjunction compares with a constant.
fn has_constant_bound(condition: &[Token]) -> bool {
    condition.split(|token| token.text == "&&").any(|part| {
        let Some(at) = part
            .iter()
            .position(|token| matches!(token.text.as_str(), "<" | "<=" | ">" | ">=" | "!="))
        else {
            return false;
        };
        is_constant(&part[..at]) || is_constant(&part[at + 1..])
    })
}

/// Returns whether the tokens are a constant: numbers, names in capitals, and arithmetic on these.
fn is_constant(tokens: &[Token]) -> bool {
    let capital = |word: &str| !word.chars().any(|c| c.is_ascii_lowercase());
    let mut any = false;
    tokens.iter().all(|token| {
        let is_value = token.is_number() || (token.is_word() && capital(&token.text));
        any |= is_value;
        is_value || !token.is_word()
    }) && any
}

fn back_jumps(body: &[Token], found: &mut Vec<Finding>) {
    let mut labels: HashSet<&str> = HashSet::new();
    for (index, token) in body.iter().enumerate() {
        let begins = index == 0 || matches!(text(body, index - 1), ";" | "{" | "}" | ":");
        if begins && token.is_word() && text(body, index + 1) == ":" && token.text != "default" {
            labels.insert(&token.text);
        }
        if token.text == "goto" && labels.contains(text(body, index + 1)) {
            found.push(Finding::new(
                Rule::Loop,
                token.line,
                format!(
                    "goto {} jumps back, a loop without a bound: write a for loop with one",
                    text(body, index + 1)
                ),
            ));
        }
    }
}

/// Finds writes to socket fields that only the kernel may write.
fn writes(body: &[Token], contract: &Contract, found: &mut Vec<Finding>) {
    for (index, token) in body.iter().enumerate() {
        let name = token.text.as_str();
        let is_member = index > 1 && text(body, index - 1) == "->";
        if !is_member || !contract.has_socket_field(name) || !is_socket(body, index - 2) {
            continue;
        }
        let after = text(body, index + 1);
        let prefix = |sign: &str| {
            let first = expression_begin(body, index - 2);
            first > 0 && text(body, first - 1) == sign
        };
        let is_written = ASSIGNMENTS.contains(&after) || prefix("++") || prefix("--");
        if is_written && !WRITABLE.contains(&name) {
            const INSTEAD: &str = "keep what you need in the state struct";
            let why = match name {
                "snd_cwnd_stamp" => format!(
                    "kernels before 6.10 refuse an algorithm that writes {name} (docs/kernels.md): {INSTEAD}"
                ),
                "app_limited" => format!(
                    "the kernel lets no program write {name}: call cc_set_app_limited(sk, delivered)"
                ),
                _ => format!("the kernel lets no program write {name}: {INSTEAD}"),
            };
            found.push(Finding::new(Rule::ReadOnly, token.line, why));
        }
    }
}

/// Returns the start of the expression that ends at `last`, such as `tp` or `tcp_sk(sk)`.
fn expression_begin(body: &[Token], last: usize) -> usize {
    if text(body, last) != ")" {
        return last;
    }
    let mut depth = 0usize;
    for index in (0..=last).rev() {
        match text(body, index) {
            ")" => depth += 1,
            "(" if depth == 1 => return index.saturating_sub(1),
            "(" => depth -= 1,
            _ => {}
        }
    }
    0
}

/// Returns whether the expression that ends at `last` is a socket, by its conventional names.
fn is_socket(body: &[Token], last: usize) -> bool {
    let first = text(body, expression_begin(body, last));
    matches!(first, "tp" | "sk" | "icsk" | "tcp_sk" | "inet_csk")
}

fn calls(
    source: &Source,
    functions: &[Function<'_>],
    contract: &Contract,
    found: &mut Vec<Finding>,
) {
    let own: HashSet<&str> = functions.iter().map(|function| function.name).collect();
    for function in functions {
        for (index, token) in function.body.iter().enumerate() {
            let name = token.text.as_str();
            let is_call = token.is_word() && text(function.body, index + 1) == "(";
            let is_known = NO_CALLS.contains(&name)
                || BUILT_IN.contains(&name)
                || name.starts_with("__builtin_")
                || own.contains(name)
                || source.macros.iter().any(|known| known == name)
                || contract.has_function(name);
            // A cast, or the declaration of a function pointer, is not a call.
            let after_type =
                index > 0 && matches!(text(function.body, index - 1), "struct" | "enum");
            if !is_call || is_known || after_type {
                continue;
            }
            found.push(Finding::new(
                Rule::Call,
                token.line,
                format!("uses `{name}`: {}", no_such("function", name)),
            ));
        }
    }
}

fn recursion(functions: &[Function<'_>], found: &mut Vec<Finding>) {
    let index: HashMap<&str, usize> =
        functions.iter().enumerate().map(|(index, function)| (function.name, index)).collect();
    let called: Vec<Vec<(usize, u32)>> = functions
        .iter()
        .map(|function| {
            let body = function.body;
            let calls = body.iter().enumerate().filter(|(at, _)| text(body, at + 1) == "(");
            calls
                .filter_map(|(_, token)| Some((*index.get(token.text.as_str())?, token.line)))
                .collect()
        })
        .collect();
    for (start, function) in functions.iter().enumerate() {
        for (first, line) in &called[start] {
            let mut seen = HashSet::new();
            let mut open = vec![*first];
            while let Some(next) = open.pop() {
                if seen.insert(next) {
                    open.extend(called[next].iter().map(|(callee, _)| *callee));
                }
            }
            if seen.contains(&start) {
                found.push(Finding::new(
                    Rule::Recursion,
                    *line,
                    format!("{} comes back to itself through this call, and BPF has no recursion: write a loop with a bound", function.name),
                ));
                break;
            }
        }
    }
}
