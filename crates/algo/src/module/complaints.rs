//! Explains compiler messages: it shows the causes, one line each, and omits the errors that follow
//! from them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::compile::{fields, header_texts};
use super::source::{self, Kind};
use super::{file_name, without_comments};
use crate::instead::{LOOK, instead_of, no_function};

/// Largest number of lines shown.
const MOST_LINES: usize = 40;
/// Largest number of characters of compiler output shown.
const MOST_SHOWN: usize = 8000;
/// Reference to the list of what the contract provides.
const SEE: &str = "see docs/modules.md#contract";
const SEE_BPF: &str = "see docs/modules.md#in-the-running-kernel";

/// Target of a compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Simulator,
    /// The BPF of a running kernel, which offers less.
    Bpf,
}

static SHOWS_COMPILER: AtomicBool = AtomicBool::new(false);

/// Sets whether the compiler's own words follow the explanation from now on.
pub fn show_compiler(shows: bool) {
    SHOWS_COMPILER.store(shows, Ordering::Relaxed);
}

/// C features that BPF lacks and whose compiler messages are unclear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BpfLimit {
    SignedDivision,
    Stack,
    Arguments,
}

impl BpfLimit {
    /// Returns the limit that a message is about.
    pub(crate) fn of(what: &str) -> Option<BpfLimit> {
        let what = what.to_lowercase();
        let says = |any: &[&str]| any.iter().any(|said| what.contains(said));
        match () {
            () if says(&["unsupported signed division", "signed div"]) => {
                Some(BpfLimit::SignedDivision)
            }
            () if says(&["stack limit", "frame size", "stack frame"]) => Some(BpfLimit::Stack),
            // A call with too many arguments for its function is a different mistake.
            () if says(&["function call"]) => None,
            () if says(&["too many arg", "too many param"]) => Some(BpfLimit::Arguments),
            () => None,
        }
    }

    pub(crate) fn words(self) -> &'static str {
        match self {
            BpfLimit::SignedDivision => {
                "a signed division or remainder, which BPF has only from cpu v4 on: make both sides unsigned, or shift"
            }
            BpfLimit::Stack => {
                "more than 512 bytes of local variables, and a BPF program has no more for all its calls: keep arrays in the state struct"
            }
            BpfLimit::Arguments => {
                "more than five arguments, and BPF passes five: give it a pointer to a struct"
            }
        }
    }
}

/// One error message of a compiler.
#[derive(Debug)]
struct Message<'a> {
    file: &'a str,
    line: u32,
    what: &'a str,
}

/// An item that a file needs and the contract lacks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Missing {
    Header(String),
    Function(String),
    Macro(String),
    Type(String),
    Field { of: String, name: String },
    Name(String),
}

impl Missing {
    /// Returns the item that a message reports as missing.
    fn of(what: &str) -> Option<Missing> {
        let quoted = |after: &str| Some(quoted(what.split_once(after)?.1)?.to_owned());
        let first = || Some(quoted_at(what, 0)?.to_owned());
        let header = what.strip_suffix(": No such file or directory").map(str::to_owned);
        if let Some(header) =
            header.or_else(|| first().filter(|_| what.ends_with("file not found")))
        {
            return Some(Missing::Header(header));
        }
        for said in [
            "implicit declaration of function",
            "call to undeclared function",
            "call to undeclared library function",
        ] {
            if let Some(name) = quoted(said) {
                return Some(Missing::Function(name));
            }
        }
        if let Some(name) = quoted("no member named") {
            // In this message gcc names the struct before the field, clang after it.
            let before = first().filter(|first| *first != name);
            let of = before.or_else(|| Some(quoted_at(what, 1)?.to_owned()))?;
            return Missing::field(&plain(&of), name);
        }
        if let Some(name) = quoted("field designator") {
            let of = quoted("any field in type").unwrap_or_default();
            return Missing::field(&plain(&of), name);
        }
        if let Some(name) = quoted("unknown type name") {
            return Some(Missing::Type(name));
        }
        if what.contains("that is never completed")
            || what.contains("incomplete type")
            || what.contains("undefined type")
            || what.contains("incomplete definition")
        {
            let all = (0..3).filter_map(|at| quoted_at(what, at));
            let found = all
                .map(plain)
                .find(|name| name.starts_with("struct ") || name.starts_with("union "))?;
            return Some(Missing::Type(found));
        }
        if let Some(name) = quoted("use of undeclared identifier") {
            return Some(Missing::Name(name));
        }
        first().filter(|_| what.contains("' undeclared")).map(Missing::Name)
    }

    /// Returns a missing field if its struct belongs to the contract. For the file's own structs
    /// the compiler's message is clearer.
    fn field(of: &str, name: String) -> Option<Missing> {
        let known = of.strip_prefix("struct ").map(fields).unwrap_or_default();
        (!known.is_empty()).then(|| Missing::Field { of: of.to_owned(), name })
    }

    fn name(&self) -> &str {
        match self {
            Missing::Header(name) | Missing::Function(name) | Missing::Macro(name) => name,
            Missing::Type(name) | Missing::Field { name, .. } | Missing::Name(name) => name,
        }
    }

    /// Returns whether the simulator has the item, although BPF lacks it.
    fn is_in_simulator(&self) -> bool {
        if let Missing::Field { of, name } = self {
            let known = of.strip_prefix("struct ").map(fields).unwrap_or_default();
            return known.contains(&name.as_str());
        }
        let name = self.name().trim_start_matches("struct ").trim_start_matches("union ");
        let has = |text: &str| {
            let text = without_comments(text);
            text.split(|c| !is_of_name(c)).any(|word| word == name)
        };
        !matches!(self, Missing::Header(_)) && header_texts().iter().any(|(_, text)| has(text))
    }

    /// Returns whether the item is a macro of the headers. A line that calls it does not lack it.
    fn is_known_macro(&self) -> bool {
        matches!(self, Missing::Macro(_)) && self.is_in_simulator()
    }

    /// Returns the item's name as shown, and the sentence about it with the page to read. A file on the contract sees less
    /// than a module.
    fn sentence(&self, target: Target, is_on_contract: bool) -> (String, String) {
        let (shown, not) = self.words();
        let is_of_bpf = target == Target::Bpf && self.is_in_simulator();
        match self {
            Missing::Function(name)
                if is_on_contract && (!is_of_bpf || instead_of(name).is_some()) =>
            {
                return (shown, no_function(name));
            }
            _ if is_on_contract && !is_of_bpf => {
                return (shown, format!("knee's contract has {not}; {LOOK}"));
            }
            _ => {}
        }
        if target == Target::Simulator || !self.is_in_simulator() {
            return (shown, format!("knee's contract has {not}; {SEE}"));
        }
        (shown, format!("the simulator has it, and BPF in a running kernel has not; {SEE_BPF}"))
    }

    /// Returns the item's name as shown, and the kind of item that the contract lacks.
    fn words(&self) -> (String, String) {
        match self {
            Missing::Header(name) => (
                format!("<{name}>"),
                "no such header; one of your own stands beside the file".into(),
            ),
            // Macros for kernel functions expand to these names.
            Missing::Function(name) if name == "knee_alloc" => {
                ("kmalloc".into(), "no memory".into())
            }
            Missing::Function(name) if name == "knee_free" => ("kfree".into(), "no memory".into()),
            Missing::Function(name) => (name.clone(), "no such function".into()),
            Missing::Macro(name) => (name.clone(), "no such macro".into()),
            Missing::Type(name) => (name.clone(), "no such type".into()),
            Missing::Name(name) => (name.clone(), "no such variable, constant or macro".into()),
            Missing::Field { of, name } => {
                let mut known = of.strip_prefix("struct ").map(fields).unwrap_or_default();
                // These members hold the kernel's nested structs.
                known.retain(|field| !matches!(*field, "inet_conn" | "icsk_inet" | "sk"));
                let known = match known.is_empty() {
                    true => String::new(),
                    false => format!("; it has {}", known.join(", ")),
                };
                (format!("{of}.{name}"), format!("no such field{known}"))
            }
        }
    }
}

/// Returns the sentence of a file on the contract about a compiler's message, if the contract lacks something.
pub(crate) fn lacks(what: &str) -> Option<String> {
    let what = without_hints(what);
    let (shown, sentence) = Missing::of(what)?.sentence(Target::Simulator, true);
    Some(format!("uses `{shown}`: {sentence}"))
}

/// Returns a message without the name of the warning option and the suggested alternative.
fn without_hints(what: &str) -> &str {
    let what = what.split(" [-W").next().unwrap_or(what);
    what.split("; did you mean").next().unwrap_or(what)
}

/// Returns the quoted word number `at`.
fn quoted_at(text: &str, at: usize) -> Option<&str> {
    text.split('\'').skip(1).step_by(2).nth(at)
}

fn quoted(text: &str) -> Option<&str> {
    quoted_at(text, 0)
}

/// Returns a type's name without qualifiers, `struct` or pointer signs.
fn plain(name: &str) -> String {
    name.trim_start_matches("const ").trim_end_matches([' ', '*']).to_owned()
}

/// Returns the missing headers, so that the compilation can go on without them.
pub fn missing_headers(said: &str) -> Vec<String> {
    let all = messages(said).filter_map(|message| Missing::of(message.what));
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

/// Explains why a file does not compile: all causes, each once. `texts` are the compiled files, for
/// looking up lines.
pub fn explain(target: Target, compiler: &str, said: &str, texts: &[(&Path, &str)]) -> String {
    let line_of = |message: &Message<'_>| {
        let text = texts.iter().find(|(path, _)| path.display().to_string() == message.file)?.1;
        text.lines().nth(message.line.checked_sub(1)? as usize)
    };
    let mut causes: Vec<(Missing, &str, Vec<u32>)> = Vec::new();
    let mut others: Vec<Message<'_>> = Vec::new();
    for message in messages(said) {
        let in_line = || {
            let line = line_of(&message)?;
            let is_unsized = message.what.starts_with("storage size of");
            if is_unsized { struct_in(line) } else { macro_call(line) }
        };
        let is_limit = target == Target::Bpf && BpfLimit::of(message.what).is_some();
        let in_line = || in_line().filter(|found| !is_limit && !found.is_known_macro());
        let missing = Missing::of(message.what).or_else(in_line);
        match missing {
            None => others.push(message),
            Some(missing) => match causes.iter_mut().find(|(known, ..)| *known == missing) {
                Some((.., lines)) => lines.push(message.line),
                None => causes.push((missing, message.file, vec![message.line])),
            },
        }
    }
    let named: BTreeSet<String> =
        causes.iter().map(|(missing, ..)| missing.name().to_owned()).collect();
    // Clang reports both an unknown type and the name declared with it as undeclared identifiers.
    let mut declared: Vec<String> = Vec::new();
    for (missing, file, lines) in &mut causes {
        let Missing::Name(name) = missing else { continue };
        let at = lines.first().copied().unwrap_or_default();
        let Some(line) = line_of(&Message { file, line: at, what: "" }) else { continue };
        if let Some(variable) = declares(line, name) {
            declared.push(variable);
            *missing = Missing::Type(std::mem::take(name));
        }
    }
    causes
        .retain(|(missing, ..)| !matches!(missing, Missing::Name(name) if declared.contains(name)));
    // Clang reports a function as an undeclared identifier if it is an argument of another
    // function.
    for (missing, ..) in &mut causes {
        match missing {
            Missing::Name(name) if texts.iter().any(|(_, text)| calls(text, name)) => {
                *missing = Missing::Function(std::mem::take(name));
            }
            _ => {}
        }
    }
    let is_on_contract =
        texts.iter().any(|(_, text)| matches!(source::kind(text), Ok(Kind::Contract { .. })));
    let lines: BTreeSet<u32> =
        causes.iter().flat_map(|(.., lines)| lines.iter().copied()).collect();
    others.retain(|message| {
        let follows = lines.contains(&message.line)
            || named.iter().any(|name| quoted_words(message.what).any(|word| word == name));
        !follows && (causes.is_empty() || !is_syntax(message.what))
    });
    let mut out: Vec<String> = causes
        .iter()
        .map(|(missing, file, lines)| {
            let (name, sentence) = missing.sentence(target, is_on_contract);
            let file = file_name(Path::new(file));
            format!("{file} uses `{name}` ({}): {sentence}", numbered(lines))
        })
        .collect();
    let mut seen = BTreeSet::new();
    for message in &others {
        let limit = BpfLimit::of(message.what).filter(|_| target == Target::Bpf);
        let limit: Option<&str> = limit.map(BpfLimit::words);
        let what = match limit.unwrap_or(message.what) {
            what if what.contains("SSE register") || what.contains("general-regs-only") => {
                "no floating point, as in the kernel: use integers with a scale"
            }
            what => what,
        };
        if seen.insert((message.line, what)) {
            out.push(format!("{}:{}: {what}", file_name(Path::new(message.file)), message.line));
        }
    }
    let more = out.len().saturating_sub(MOST_LINES);
    out.truncate(MOST_LINES);
    if more > 0 {
        out.push(format!("and {more} more"));
    }
    let for_bpf = if target == Target::Bpf { " for BPF" } else { "" };
    let mut text = match out.as_slice() {
        [] if said.contains(": Error: ") => {
            "its inline assembly is none for this machine".to_owned()
        }
        [] => format!(
            "{compiler} refuses it{for_bpf} without a message that names a line (--verbose shows what it says)"
        ),
        [one] if !causes.is_empty() => one.clone(),
        _ => format!("does not compile{for_bpf} with {compiler}:\n  {}", out.join("\n  ")),
    };
    if SHOWS_COMPILER.load(Ordering::Relaxed) {
        let _ = write!(text, "\nthe compiler's words:\n{}", shown(said));
    }
    text
}

/// Returns the part of the compiler's output that may be shown. An assembler's quotation may come
/// from any file.
fn shown(said: &str) -> String {
    let lines = said
        .lines()
        .filter(|line| !line.contains(": Error: ") && !line.contains("Assembler messages"));
    let all = lines.collect::<Vec<_>>().join("\n");
    all.chars().take(MOST_SHOWN).collect()
}

fn quoted_words(what: &str) -> impl Iterator<Item = &str> {
    what.split('\'').skip(1).step_by(2)
}

/// Returns whether an error is a typical consequence of an unknown type or macro.
fn is_syntax(what: &str) -> bool {
    let begins = [
        "expected ",
        "type defaults to",
        "type specifier missing",
        "data definition has no type",
        "a parameter list without types",
        "parameter names",
        "request for member",
        "invalid type argument",
        "member reference",
        "control reaches",
    ];
    begins.iter().any(|begin| what.starts_with(begin))
        || what.contains("in something not a structure")
}

/// Returns the macro that a line without indentation calls outside a function: `DEFINE_FOO(bar);`.
fn macro_call(line: &str) -> Option<Missing> {
    let end = line.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))?;
    let (name, rest) = line.split_at(end);
    let is_macro = name.len() > 2
        && name.bytes().any(|c| c.is_ascii_uppercase())
        && !name.bytes().any(|c| c.is_ascii_lowercase());
    (is_macro && rest.starts_with('(')).then(|| Missing::Macro(name.to_owned()))
}

/// Returns the first struct that a line names.
fn struct_in(line: &str) -> Option<Missing> {
    let name = line.split_once("struct ")?.1.split(|c: char| !is_of_name(c)).next()?;
    (!name.is_empty()).then(|| Missing::Type(format!("struct {name}")))
}

/// Returns the variable that a line declares with a type of this name: `foo_t now = 1;`.
fn declares(line: &str, type_name: &str) -> Option<String> {
    let line = line.trim_start().trim_start_matches("static ").trim_start_matches("const ");
    let rest = line.strip_prefix(type_name)?;
    let rest = rest.strip_prefix([' ', '\t', '*'])?.trim_start_matches([' ', '\t', '*']);
    let end = rest.find(|c| !is_of_name(c))?;
    let (variable, rest) = rest.split_at(end);
    let is_declared = !variable.is_empty() && rest.trim_start().starts_with(['=', ';', ',', '[']);
    is_declared.then(|| variable.to_owned())
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Returns whether a text calls this function or macro.
fn calls(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| text[at + name.len()..].trim_start().starts_with('('))
}

/// Formats line numbers: "line 81", "lines 3, 9, 12 and 4 more".
fn numbered(lines: &[u32]) -> String {
    let all: BTreeSet<u32> = lines.iter().copied().collect();
    let first: Vec<String> = all.iter().take(3).map(u32::to_string).collect();
    let more = all.len() - first.len();
    let s = if all.len() == 1 { "" } else { "s" };
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

    #[test]
    fn both_compilers_come_to_the_same_causes_and_nothing_that_follows() {
        let text = "\n\n\n\n\n\n\n\n\n\nDEFINE_FOO(x);\n";
        for said in [GCC, CLANG] {
            let why = explain(Target::Simulator, "cc", said, &[(Path::new("./tcp_foo.c"), text)]);
            let lines: Vec<&str> = why.lines().skip(1).map(str::trim).collect();
            for expected in [
                "tcp_foo.c uses `tcp_stamp_of` (lines 3, 9): knee's contract has no such function; see docs/modules.md#contract",
                "tcp_foo.c uses `LINUX_MIB_NO` (line 5): knee's contract has no such variable, constant or macro; see docs/modules.md#contract",
                "tcp_foo.c uses `foo_t` (line 6): knee's contract has no such type; see docs/modules.md#contract",
                "tcp_foo.c uses `struct sk_thing` (line 8): knee's contract has no such type; see docs/modules.md#contract",
                "tcp_foo.c uses `DEFINE_FOO` (line 11): knee's contract has no such macro; see docs/modules.md#contract",
                "tcp_foo.c uses `<net/own.h>` (line 1): knee's contract has no such header; one of your own stands beside the file; see docs/modules.md#contract",
            ] {
                assert!(lines.contains(&expected), "{expected}\n{why}");
            }
            let field =
                lines.iter().find(|line| line.contains("`struct tcp_sock.high_seq` (line 4)"));
            assert!(
                field.is_some_and(|line| line.contains("no such field; it has snd_una,")),
                "{why}"
            );
            assert!(lines.iter().any(|line| line.starts_with("tcp_foo.c:12: ")), "{why}");
            assert_eq!(lines.len(), 8, "{why}");
        }
    }

    #[test]
    fn a_type_that_no_message_calls_one_is_found_in_its_line() {
        let text = "static struct gone kept;\n\tgone_t now = 1;\n\tif (now > 3)\n";
        let gcc = "a.c:1:20: error: storage size of 'kept' isn't known\n\
                   a.c:2:2: error: unknown type name 'gone_t'\n";
        let clang = "a.c:1:20: error: tentative definition has type 'struct gone' that is never completed\n\
                     a.c:2:2: error: use of undeclared identifier 'gone_t'\n\
                     a.c:3:6: error: use of undeclared identifier 'now'\n";
        for said in [gcc, clang] {
            let why = explain(Target::Simulator, "cc", said, &[(Path::new("a.c"), text)]);
            assert_eq!(why.lines().count(), 3, "{why}");
            assert!(
                why.contains("`struct gone` (line 1): knee's contract has no such type"),
                "{why}"
            );
            assert!(why.contains("`gone_t` (line 2): knee's contract has no such type"), "{why}");
        }
    }

    #[test]
    fn what_the_simulator_has_and_bpf_has_not_is_said_to_be_so() {
        let said = "a.c:3:2: error: no member named 'rx_opt' in 'struct tcp_sock'\n\
                    a.c:4:2: error: call to undeclared function 'tcp_enter_cwr'; ISO C99 and later do not support it\n\
                    a.c:9:1: error: unsupported signed division, please convert to unsigned div/mod.\n";
        let why = explain(Target::Bpf, "clang", said, &[]);
        let lines: Vec<&str> = why.lines().map(str::trim).collect();
        assert_eq!(lines[0], "does not compile for BPF with clang:");
        for (line, name) in lines[1..].iter().zip(["struct tcp_sock.rx_opt", "tcp_enter_cwr"]) {
            assert!(line.contains(&format!("a.c uses `{name}` (line ")), "{why}");
            assert!(
                line.ends_with(&format!("BPF in a running kernel has not; {SEE_BPF}")),
                "{why}"
            );
        }
        let text = "\n".repeat(8) + "CC_OP(u32, foo, struct sock *sk) { return -3 / sk->x; }\n";
        assert_eq!(explain(Target::Bpf, "clang", said, &[(Path::new("a.c"), &text)]), why);
        assert!(lines[3].starts_with("a.c:9: a signed division or remainder, which"), "{why}");
        assert_eq!(lines.len(), 4, "{why}");
    }

    #[test]
    fn one_cause_is_one_sentence() {
        let said = "a/b.c:81:2: error: implicit declaration of function 'tcp_stamp_of' [-W]\n";
        let why = explain(Target::Simulator, "cc", said, &[]);
        assert_eq!(
            why,
            "b.c uses `tcp_stamp_of` (line 81): knee's contract has no such function; see docs/modules.md#contract"
        );
        assert_eq!(explain(Target::Bpf, "clang", said, &[]), why);
        assert_eq!(missing_headers(GCC), ["net/own.h"]);
        assert_eq!(missing_headers(CLANG), ["net/own.h"]);
    }
}
