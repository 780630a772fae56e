//! Explains why a file does not compile: the names that the contract lacks, each with its lines and the way out, then the
//! first messages of the compiler about other lines.

use std::collections::BTreeSet;
use std::path::Path;

use super::compile::{fields, header_texts};
use super::file_name;
use super::source::{self, Kind};
use crate::instead::{instead_of, no_such};
use crate::tokens::{self, without_comments};

/// Largest number of missing names shown.
const MOST_NAMES: usize = 40;
/// Number of the compiler's messages shown, and largest number of characters of each.
const MOST_MESSAGES: usize = 10;
const MOST_CHARS: usize = 800;
/// Reference to the list of what the contract provides.
const SEE: &str = "see docs/modules.md#contract";
const SEE_BPF: &str = "see docs/modules.md#in-the-running-kernel";

/// Words of gcc and clang about a name that is not there, a field that is not there, and a struct without its definition.
const NO_NAME: [&str; 3] = ["undeclared", "implicit declaration of function", "unknown type name"];
const NO_FIELD: [&str; 2] = ["no member named", "field designator"];
const NO_STRUCT: [&str; 4] = ["undefined type", "incomplete", "never completed", "storage size"];

const FLOAT: &str = "no floating point, as in the kernel: use integers with a scale";
const ARGUMENTS: &str =
    "more than five arguments, and BPF passes five: give it a pointer to a struct";
/// Beginnings and ends of messages that do not help, and what to do.
const PLAINER: [(&str, &str); 6] = [
    ("SSE register", FLOAT),
    ("'-mgeneral-regs-only'", FLOAT),
    (
        "unsupported signed division",
        "a signed division or remainder, which BPF has only from cpu v4 on: make both sides unsigned, or shift",
    ),
    (
        "Looks like the BPF stack limit",
        "more than 512 bytes of local variables, and a BPF program has no more for all its calls: keep arrays in the state struct",
    ),
    (" too many arguments", ARGUMENTS),
    ("stack arguments are not supported", ARGUMENTS),
];

/// Returns a message of a compiler in plain words, if there are some for it.
pub(crate) fn plainer(what: &str) -> &str {
    let is_about = |said: &str| what.starts_with(said) || what.ends_with(said);
    PLAINER.iter().find(|(said, _)| is_about(said)).map_or(what, |(_, plain)| plain)
}

/// Target of a compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Simulator,
    /// The BPF of a running kernel, which offers less.
    Bpf,
}

/// One error message of a compiler.
#[derive(Debug)]
struct Message<'a> {
    file: &'a str,
    line: u32,
    what: &'a str,
}

/// An item that a file needs and the contract lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Missing {
    Header(String),
    Field {
        of: String,
        name: String,
    },
    /// A function, macro, type, variable or constant.
    Name(String),
}

impl Missing {
    /// Returns the item that a message reports as missing, in this line of the file.
    fn of(what: &str, line: &str) -> Option<Missing> {
        let of_clang = || what.strip_suffix("' file not found")?.strip_prefix('\'');
        if let Some(header) = what.strip_suffix(": No such file or directory").or_else(of_clang) {
            return Some(Missing::Header(header.to_owned()));
        }
        let says = |any: &[&str]| any.iter().any(|said| what.contains(said));
        let of_struct = quoted(what)
            .map(|word| word.trim_start_matches("const ").trim_end_matches([' ', '*']))
            .find(|word| is_struct(word));
        if says(&NO_FIELD) {
            // A field of the file's own struct is the author's, and the compiler's message is clearer.
            let of = of_struct.filter(|of| !fields_of(of).is_empty())?;
            let name = quoted(what).find(|word| !word.contains(of))?;
            return Some(Missing::Field { of: of.to_owned(), name: name.to_owned() });
        }
        let name = match () {
            () if says(&NO_STRUCT) => of_struct.or_else(|| struct_in(line))?,
            () if says(&NO_NAME) => quoted(what).next()?,
            () => return None,
        };
        Some(Missing::Name(name.to_owned()))
    }

    fn name(&self) -> &str {
        let (Missing::Header(name) | Missing::Field { name, .. } | Missing::Name(name)) = self;
        name
    }

    /// Returns whether the simulator has the item, although BPF lacks it.
    fn is_in_simulator(&self) -> bool {
        match self {
            Missing::Header(_) => false,
            Missing::Field { of, name } => fields_of(of).contains(&name.as_str()),
            Missing::Name(name) => {
                let name = name.rsplit(' ').next().unwrap_or(name);
                let has = |text: &str| {
                    without_comments(text).split(|c| !is_of_name(c)).any(|word| word == name)
                };
                header_texts().iter().any(|(_, text)| has(text))
            }
        }
    }

    /// Returns the item's name as shown, and the sentence about it with the way out. A file on the contract sees less than a
    /// module.
    fn sentence(
        &self,
        target: Target,
        is_on_contract: bool,
        texts: &[(&Path, &str)],
    ) -> (String, String) {
        let (shown, kind) = match self {
            Missing::Header(name) => {
                (format!("<{name}>"), "header; one of your own stands beside the file".to_owned())
            }
            Missing::Field { of, name } => {
                let mut known = fields_of(of);
                // These members hold the kernel's nested structs.
                known.retain(|field| !matches!(*field, "inet_conn" | "icsk_inet" | "sk"));
                (format!("{of}.{name}"), format!("field; it has {}", known.join(", ")))
            }
            // Macros for kernel functions expand to these names.
            Missing::Name(name) if name == "knee_alloc" => ("kmalloc".into(), "function".into()),
            Missing::Name(name) if name == "knee_free" => ("kfree".into(), "function".into()),
            Missing::Name(name) => {
                let is_called = texts.iter().any(|(_, text)| calls(text, name));
                (name.clone(), if is_called { "function" } else { "name" }.to_owned())
            }
        };
        let is_of_bpf = target == Target::Bpf && self.is_in_simulator();
        let sentence = match () {
            () if is_on_contract && (!is_of_bpf || instead_of(&shown).is_some()) => {
                no_such(&kind, &shown)
            }
            () if is_of_bpf => {
                format!("the simulator has it, and BPF in a running kernel has not; {SEE_BPF}")
            }
            () => format!("knee's contract has no such {kind}; {SEE}"),
        };
        (shown, sentence)
    }
}

/// Returns the sentence about a compiler's message, if it says that a file on the contract lacks something.
pub(crate) fn lacks(what: &str, text: &str) -> Option<String> {
    let (shown, sentence) = Missing::of(without_hints(what), "")?.sentence(
        Target::Simulator,
        true,
        &[(Path::new(""), text)],
    );
    Some(format!("uses `{shown}`: {sentence}"))
}

/// Returns a message without the name of the warning option and the suggested alternative.
fn without_hints(what: &str) -> &str {
    let what = what.split(" [-W").next().unwrap_or(what);
    what.split("; did you mean").next().unwrap_or(what)
}

fn quoted(what: &str) -> impl Iterator<Item = &str> {
    what.split('\'').skip(1).step_by(2)
}

fn is_struct(name: &str) -> bool {
    name.starts_with("struct ") || name.starts_with("union ")
}

/// Returns the fields of a struct of the contract.
fn fields_of(name: &str) -> Vec<&'static str> {
    name.strip_prefix("struct ").map(fields).unwrap_or_default()
}

/// Returns the missing headers, so that the compilation can go on without them.
pub(super) fn missing_headers(said: &str) -> Vec<String> {
    let all = messages(said).filter_map(|message| Missing::of(message.what, ""));
    all.filter_map(|missing| match missing {
        Missing::Header(name) => Some(name),
        _ => None,
    })
    .collect()
}

/// Returns the errors in a compiler's output.
fn messages(said: &str) -> impl Iterator<Item = Message<'_>> {
    said.lines().filter_map(|line| {
        let (place, what) =
            [": fatal error: ", ": error: "].iter().find_map(|kind| line.split_once(kind))?;
        let mut parts = place.rsplitn(3, ':');
        let (last, before, first) = (parts.next()?, parts.next(), parts.next());
        let (file, line) = match (first, before.and_then(|number| number.parse().ok())) {
            (Some(file), Some(line)) => (file, line),
            // The place has no column.
            _ => (place.strip_suffix(last)?.strip_suffix(':')?, last.parse().ok()?),
        };
        Some(Message { file, line, what: without_hints(what) })
    })
}

/// Explains why a file does not compile. `texts` are the compiled files, for looking up lines.
pub fn explain(target: Target, compiler: &str, said: &str, texts: &[(&Path, &str)]) -> String {
    let line_of = |message: &Message<'_>| {
        let text = texts.iter().find(|(path, _)| path.display().to_string() == message.file)?.1;
        text.lines().nth(message.line.checked_sub(1)? as usize)
    };
    let sources: Vec<_> = texts.iter().map(|(_, text)| tokens::read(text)).collect();
    let mut missing: Vec<(Missing, &str, BTreeSet<u32>)> = Vec::new();
    let mut others: Vec<Message<'_>> = Vec::new();
    for message in messages(said) {
        let line = line_of(&message).unwrap_or_default();
        // No message names a macro that is not there. A call of one that is there has another mistake.
        let no_macro = || {
            let found = Missing::Name(macro_call(line)?.to_owned());
            let is_own =
                |source: &tokens::Source| source.macros.iter().any(|own| own == found.name());
            (!found.is_in_simulator() && !sources.iter().any(is_own)).then_some(found)
        };
        match Missing::of(message.what, line).or_else(no_macro) {
            None => others.push(message),
            Some(found) => match missing.iter_mut().find(|(known, ..)| *known == found) {
                Some((.., lines)) => drop(lines.insert(message.line)),
                None => missing.push((found, message.file, BTreeSet::from([message.line]))),
            },
        }
    }
    let names: Vec<String> = missing.iter().map(|(found, ..)| found.name().to_owned()).collect();
    others.retain(|message| {
        let follows = missing.iter().any(|(.., lines)| lines.contains(&message.line));
        !follows && !quoted(message.what).any(|word| names.iter().any(|name| name == word))
    });
    // Clang says of a variable with a missing type that it is undeclared, too.
    let is_variable =
        |name: &str| sources.iter().any(|source| is_declared_with(&source.tokens, name, &names));
    missing.retain(|(found, ..)| !matches!(found, Missing::Name(name) if is_variable(name)));
    let is_of_contract = |text: &str| matches!(source::kind(text), Ok(Kind::Contract { .. }));
    let is_on_contract = texts.iter().any(|(_, text)| is_of_contract(text));
    let all = missing.iter().map(|(found, file, lines)| {
        let (name, sentence) = found.sentence(target, is_on_contract, texts);
        format!("{} uses `{name}` ({}): {sentence}", file_name(Path::new(file)), numbered(lines))
    });
    let mut out = first(MOST_NAMES, all.collect());
    let others = others.iter().map(|message| {
        let what: String = plainer(message.what).chars().take(MOST_CHARS).collect();
        format!("{}:{}: {what}", file_name(Path::new(message.file)), message.line)
    });
    out.extend(first(MOST_MESSAGES, others.collect()));
    let for_bpf = if target == Target::Bpf { " for BPF" } else { "" };
    if out.is_empty() && said.contains(": Error: ") {
        return "its inline assembly is none for this machine".to_owned();
    }
    if out.is_empty() {
        // No message names a line. What an assembler quotes may come from any file.
        let lines = said.lines().filter(|line| !line.contains("Assembler messages"));
        out = first(
            MOST_MESSAGES,
            lines.map(|line| line.chars().take(MOST_CHARS).collect()).collect(),
        );
    }
    match out.as_slice() {
        [] => format!("{compiler} refuses it{for_bpf} without a message"),
        [one] if !missing.is_empty() => one.clone(),
        _ => format!("does not compile{for_bpf} with {compiler}:\n  {}", out.join("\n  ")),
    }
}

/// Returns the first lines, each once, and how many more there are.
fn first(most: usize, mut lines: Vec<String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    lines.retain(|line| seen.insert(line.clone()));
    let more = lines.len().saturating_sub(most);
    lines.truncate(most);
    lines.extend((more > 0).then(|| format!("and {more} more")));
    lines
}

/// Returns the macro that a line without indentation calls outside a function: `DEFINE_FOO(bar);`.
fn macro_call(line: &str) -> Option<&str> {
    let (name, rest) = line.split_at(line.find(|c| !is_of_name(c))?);
    let is_macro = name.len() > 2
        && name.bytes().any(|c| c.is_ascii_uppercase())
        && !name.bytes().any(|c| c.is_ascii_lowercase());
    (is_macro && rest.starts_with('(')).then_some(name)
}

/// Returns the first struct that a line names.
fn struct_in(line: &str) -> Option<&str> {
    let rest = &line[line.find("struct ")?..];
    let name = rest["struct ".len()..].find(|c| !is_of_name(c))?;
    (name > 0).then(|| &rest[.."struct ".len() + name])
}

/// Returns whether a file declares a variable with one of these types: `foo_t now = 1;`.
fn is_declared_with(tokens: &[tokens::Token], name: &str, types: &[String]) -> bool {
    let begins = |at: usize| {
        at == 0 || matches!(&*tokens[at - 1].text, ";" | "{" | "}" | "static" | "const")
    };
    let declared = |at: usize| tokens[at + 1..].iter().find(|token| token.text != "*");
    (0..tokens.len())
        .filter(|at| begins(*at) && types.contains(&tokens[*at].text))
        .any(|at| declared(at).is_some_and(|token| token.text == name))
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Returns whether a text calls this function or macro.
fn calls(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| text[at + name.len()..].trim_start().starts_with('('))
}

/// Formats line numbers: "line 81", "lines 3, 9, 12 and 4 more".
fn numbered(lines: &BTreeSet<u32>) -> String {
    let first: Vec<String> = lines.iter().take(3).map(u32::to_string).collect();
    let more = lines.len() - first.len();
    let s = if lines.len() == 1 { "" } else { "s" };
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("line{s} {}{more}", first.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GCC: &str = "\
./tcp_foo.c: In function 'foo':
./tcp_foo.c:3:2: error: implicit declaration of function 'tcp_stamp_of'; did you mean 'x'? [-Werror=implicit-function-declaration]
./tcp_foo.c:9:2: error: implicit declaration of function 'tcp_stamp_of' [-Werror=implicit-function-declaration]
./tcp_foo.c:3:9: error: initialization of 'u32 *' from 'int' makes pointer from integer without a cast [-Werror=int-conversion]
./tcp_foo.c:4:4: error: 'struct tcp_sock' has no member named 'high_seq'
./tcp_foo.c:5:4: error: 'LINUX_MIB_NO' undeclared (first use in this function)
./tcp_foo.c:6:1: error: unknown type name 'foo_t'; did you mean 'x'?
./tcp_foo.c:7:1: error: expected ')' before '*' token
./tcp_foo.c:8:9: error: invalid use of undefined type 'struct sk_thing'
./tcp_foo.c:1:10: fatal error: net/own.h: No such file or directory
./tcp_foo.c:11:12: error: expected declaration specifiers or '...' before 'x'
./tcp_foo.c:12:5: error: returning 'u32 *' from a function with incompatible return type 'u64 *' [-Werror=incompatible-pointer-types]
";
    const CLANG: &str = "\
./tcp_foo.c:3:2: error: call to undeclared function 'tcp_stamp_of'; ISO C99 and later do not support implicit function declarations [-Wimplicit-function-declaration]
./tcp_foo.c:9:2: error: call to undeclared function 'tcp_stamp_of'; ISO C99 and later do not support implicit function declarations [-Wimplicit-function-declaration]
./tcp_foo.c:4:4: error: no member named 'high_seq' in 'struct tcp_sock'
./tcp_foo.c:5:4: error: use of undeclared identifier 'LINUX_MIB_NO'
./tcp_foo.c:6:1: error: unknown type name 'foo_t'
./tcp_foo.c:8:9: error: incomplete definition of type 'struct sk_thing'
./tcp_foo.c:1:10: fatal error: 'net/own.h' file not found
./tcp_foo.c:11:12: error: expected parameter declarator
./tcp_foo.c:12:5: error: incompatible pointer types returning 'u32 *' from a function with result type 'u64 *' [-Wincompatible-pointer-types]
";

    fn told(target: Target, said: &str, text: &str) -> Vec<String> {
        let why = explain(target, "cc", said, &[(Path::new("./tcp_foo.c"), text)]);
        why.lines().map(|line| line.trim().to_owned()).collect()
    }

    #[test]
    fn both_compilers_come_to_the_same_names_and_keep_their_words_about_other_lines() {
        let text =
            "\n\ntcp_stamp_of(3);\n\n\n\n\n\n\n\nDEFINE_FOO(x);\nMINE(x);\n#define MINE(x) 3\n";
        for said in [GCC, CLANG] {
            let lines = told(Target::Simulator, said, text);
            let contract = "knee's contract has no such";
            for expected in [
                format!("tcp_foo.c uses `tcp_stamp_of` (lines 3, 9): {contract} function; {SEE}"),
                format!("tcp_foo.c uses `LINUX_MIB_NO` (line 5): {contract} name; {SEE}"),
                format!("tcp_foo.c uses `foo_t` (line 6): {contract} name; {SEE}"),
                format!("tcp_foo.c uses `struct sk_thing` (line 8): {contract} name; {SEE}"),
                format!("tcp_foo.c uses `DEFINE_FOO` (line 11): {contract} function; {SEE}"),
                format!(
                    "tcp_foo.c uses `<net/own.h>` (line 1): {contract} header; one of your own stands beside the file; {SEE}"
                ),
            ] {
                assert!(lines.contains(&expected), "{expected}\n{lines:?}");
            }
            let field = |line: &&String| line.contains("`struct tcp_sock.high_seq` (line 4)");
            let field = lines.iter().find(field).unwrap();
            assert!(field.contains("no such field; it has snd_una,"), "{field}");
            assert!(lines.iter().any(|line| line.starts_with("tcp_foo.c:12: ")), "{lines:?}");
        }
        assert_eq!([missing_headers(GCC), missing_headers(CLANG)], [["net/own.h"]; 2]);
    }

    #[test]
    fn a_type_that_no_message_calls_one_is_found_in_its_line() {
        let text = "static struct gone kept;\n\tgone_t now = 1;\n\tif (now > 3)\n";
        let gcc = "./tcp_foo.c:1:20: error: storage size of 'kept' isn't known\n\
                   ./tcp_foo.c:2:2: error: unknown type name 'gone_t'\n";
        let clang = "./tcp_foo.c:1:20: error: tentative definition has type 'struct gone' that is never completed\n\
                     ./tcp_foo.c:2:2: error: use of undeclared identifier 'gone_t'\n\
                     ./tcp_foo.c:3:6: error: use of undeclared identifier 'now'\n";
        for said in [gcc, clang] {
            let lines = told(Target::Simulator, said, text);
            assert_eq!(lines.len(), 3, "{lines:?}");
            assert!(lines[1].contains("`struct gone` (line 1): knee's contract has no such"));
            assert!(lines[2].contains("`gone_t` (line 2): knee's contract has no such"));
        }
    }

    #[test]
    fn what_the_simulator_has_and_bpf_has_not_is_said_to_be_so() {
        let said = "./tcp_foo.c:3:2: error: no member named 'rx_opt' in 'struct tcp_sock'\n\
                    ./tcp_foo.c:4:2: error: call to undeclared function 'tcp_enter_cwr'; ISO C99 and later do not support it\n\
                    ./tcp_foo.c:9:1: error: unsupported signed division, please convert to unsigned div/mod.\n";
        let text = "\n".repeat(8) + "CC_OP(u32, foo, struct sock *sk) { return -3 / sk->x; }\n";
        let lines = told(Target::Bpf, said, &text);
        assert_eq!(lines[0], "does not compile for BPF with cc:");
        for (line, name) in lines[1..].iter().zip(["struct tcp_sock.rx_opt", "tcp_enter_cwr"]) {
            assert!(line.contains(&format!("tcp_foo.c uses `{name}` (line ")), "{line}");
            assert!(line.ends_with(&format!("BPF in a running kernel has not; {SEE_BPF}")));
        }
        assert!(lines[3].starts_with("tcp_foo.c:9: a signed division or remainder, which"));
        assert_eq!(lines.len(), 4, "{lines:?}");
    }

    #[test]
    fn one_missing_name_is_one_sentence_and_of_other_messages_the_first_are_shown() {
        let said =
            "./tcp_foo.c:81:2: error: implicit declaration of function 'tcp_stamp_of' [-W]\n";
        for target in [Target::Simulator, Target::Bpf] {
            let why = told(target, said, "tcp_stamp_of (3)").join("\n");
            let expected = "tcp_foo.c uses `tcp_stamp_of` (line 81): knee's contract has no such function; see";
            assert!(why.starts_with(expected) && !why.contains('\n'), "{why}");
        }
        let all: String = (1..=13).map(|n| format!("./tcp_foo.c:{n}:1: error: no\n")).collect();
        let lines = told(Target::Simulator, &all, "");
        assert_eq!((lines.len(), &*lines[10], &*lines[11]), (12, "tcp_foo.c:10: no", "and 3 more"));
        let quotes =
            "tcp_foo.c: Assembler messages:\n/etc/x:1: Error: no such instruction: `root'\n";
        assert_eq!(
            told(Target::Simulator, quotes, ""),
            ["its inline assembly is none for this machine"]
        );
        let other = told(Target::Simulator, "cc1: error: no such option\n", "");
        assert_eq!(other, ["does not compile with cc:", "cc1: error: no such option"]);
    }
}
