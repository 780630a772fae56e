//! What a compiler's messages mean here: the causes, each in a line, in place of what follows from them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::compile::{fields, header_texts};
use super::{file_name, without_comments};

/// As many lines are shown.
const MOST_LINES: usize = 40;
/// Characters of what a compiler says, where that is shown.
const MOST_SHOWN: usize = 8000;
/// Where what there is is listed.
const SEE: &str = "see docs/modules.md#contract";
const SEE_BPF: &str = "see docs/modules.md#in-the-running-kernel";

/// What a file is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Simulator,
    /// A running kernel's BPF, which has less.
    Bpf,
}

static SHOWS_COMPILER: AtomicBool = AtomicBool::new(false);

/// From here on the compiler's own words follow what they mean.
pub fn show_compiler() {
    SHOWS_COMPILER.store(true, Ordering::Relaxed);
}

/// What BPF has not, though C has, and its compiler says in words that do not help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BpfLimit {
    SignedDivision,
    Stack,
    Arguments,
}

impl BpfLimit {
    /// The one that a message is about.
    pub(crate) fn of(what: &str) -> Option<BpfLimit> {
        let what = what.to_lowercase();
        let says = |any: &[&str]| any.iter().any(|said| what.contains(said));
        match () {
            () if says(&["unsupported signed division", "signed div"]) => {
                Some(BpfLimit::SignedDivision)
            }
            () if says(&["stack limit", "frame size", "stack frame"]) => Some(BpfLimit::Stack),
            // A call with more than its function takes is a mistake of another kind.
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

/// A message of a compiler.
#[derive(Debug)]
struct Message<'a> {
    file: &'a str,
    line: u32,
    what: &'a str,
}

/// What a file needs and the contract does not have.
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
    /// What a message says is missing.
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
            // gcc names the struct before it, clang behind.
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

    /// A field of the contract's structs; of a file's own the compiler says it better.
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

    /// Whether the simulator has it, of what BPF lacks.
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

    /// A macro of the headers, which no line lacks that calls it.
    fn is_known_macro(&self) -> bool {
        matches!(self, Missing::Macro(_)) && self.is_in_simulator()
    }

    /// The sentence behind who uses it, and the page to read.
    fn sentence(&self, target: Target) -> (String, String) {
        let (shown, not) = self.words();
        if target == Target::Simulator || !self.is_in_simulator() {
            return (shown, format!("knee's contract has {not}; {SEE}"));
        }
        (shown, format!("the simulator has it, and BPF in a running kernel has not; {SEE_BPF}"))
    }

    /// The name as it is shown, and what the contract has not.
    fn words(&self) -> (String, String) {
        match self {
            Missing::Header(name) => (
                format!("<{name}>"),
                "no such header; one of your own stands beside the file".into(),
            ),
            // What macros of the kernel's names become.
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
                // The kernel's struct within it.
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

/// The n-th word in quotes.
fn quoted_at(text: &str, at: usize) -> Option<&str> {
    text.split('\'').skip(1).step_by(2).nth(at)
}

fn quoted(text: &str) -> Option<&str> {
    quoted_at(text, 0)
}

/// A type without what stands before and behind its name.
fn plain(name: &str) -> String {
    name.trim_start_matches("const ").trim_end_matches([' ', '*']).to_owned()
}

/// Headers that are missing, to go on without them.
pub fn missing_headers(said: &str) -> Vec<String> {
    let all = messages(said).filter_map(|message| Missing::of(message.what));
    all.filter_map(|missing| match missing {
        Missing::Header(name) => Some(name),
        _ => None,
    })
    .collect()
}

/// The errors in what a compiler says.
fn messages(said: &str) -> impl Iterator<Item = Message<'_>> {
    said.lines().filter_map(|line| {
        let (place, what) =
            [": fatal error: ", ": error: "].iter().find_map(|kind| line.split_once(kind))?;
        let mut parts = place.rsplitn(3, ':');
        let (last, before, first) = (parts.next()?, parts.next(), parts.next());
        let (file, line) = match (first, before.and_then(|number| number.parse().ok())) {
            (Some(file), Some(line)) => (file, line),
            // Without a column.
            _ => (place.strip_suffix(last)?.strip_suffix(':')?, last.parse().ok()?),
        };
        // Which option made it an error, and what else might have been meant, says nothing here.
        let what = what.split(" [-W").next().unwrap_or(what);
        let what = what.split("; did you mean").next().unwrap_or(what);
        Some(Message { file, line, what })
    })
}

/// What a file that does not compile needs to be told: all causes, each once. `texts` are what is compiled, to look lines up in.
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
    // Clang says of a type that it is no identifier, and of what is declared with it.
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
    // Clang says of a function that it is no identifier where it is an argument of another.
    for (missing, ..) in &mut causes {
        match missing {
            Missing::Name(name) if texts.iter().any(|(_, text)| calls(text, name)) => {
                *missing = Missing::Function(std::mem::take(name));
            }
            _ => {}
        }
    }
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
            let (name, sentence) = missing.sentence(target);
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

/// What may be shown of a compiler's words: what an assembler quotes may be of any file.
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

/// Whether an error is of the kind that follows from a type or macro that is not known.
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

/// The macro that a line at the left edge calls, where no function's head stands: "DEFINE_FOO(bar);".
fn macro_call(line: &str) -> Option<Missing> {
    let end = line.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))?;
    let (name, rest) = line.split_at(end);
    let is_macro = name.len() > 2
        && name.bytes().any(|c| c.is_ascii_uppercase())
        && !name.bytes().any(|c| c.is_ascii_lowercase());
    (is_macro && rest.starts_with('(')).then(|| Missing::Macro(name.to_owned()))
}

/// The struct that a line names first.
fn struct_in(line: &str) -> Option<Missing> {
    let name = line.split_once("struct ")?.1.split(|c: char| !is_of_name(c)).next()?;
    (!name.is_empty()).then(|| Missing::Type(format!("struct {name}")))
}

/// The variable that a line declares with a type of this name: "foo_t now = 1;".
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

/// Whether a text calls a name.
fn calls(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| text[at + name.len()..].trim_start().starts_with('('))
}

/// "line 81", "lines 3, 9, 12 and 4 more".
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
