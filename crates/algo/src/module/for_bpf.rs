//! Converts the source of a Linux module for BPF. The table of operations that the module registers
//! becomes a table of the contract, whose entry points call the module's own functions.
//!
//! A kernel that loads the result does not run `module_init` itself. If `module_init` does more
//! than register, it becomes a separate program. The loader runs that program once, in the kernel,
//! after the verifier has accepted it.

use std::fmt::Write as _;

use super::shown::shown;
use crate::tokens::{self, Token};

/// Name of the program that `module_init` becomes, and the kernel's name of its kind.
pub const INIT_PROGRAM: &str = "knee_module_init";
const INIT_SECTION: &str = "syscall";
/// Name of the variable that describes the parameters. A kernel keeps its type but not its values,
/// so the type alone must suffice. Its members have the parameters' names. Their types have names
/// that consist of [`PARAM_TYPE`], a number and the variable's name.
pub const PARAMS_TOLD: &str = "knee_params_told";
/// Prefix of the name of such a member's type.
pub const PARAM_TYPE: &str = "knee_param_";

/// Name of the macro that expands to the type of the private area, if it is known.
pub const STATE_TYPE: &str = "KNEE_STATE_TYPE";

/// The converted module: code around its text, and its properties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForBpf {
    /// Code before the module's text.
    pub before: &'static str,
    /// The module's text with the checks that the verifier needs.
    pub text: String,
    /// Code after the module's text.
    pub behind: String,
    /// Name of the algorithm.
    pub name: String,
}

/// Operations: name, return type, parameters, and the arguments passed on.
const OPERATIONS: [(&str, &str, &str, &str); 12] = [
    ("ssthresh", "u32", "struct sock *sk", "sk"),
    ("cong_avoid", "void", "struct sock *sk, u32 ack, u32 acked", "sk, ack, acked"),
    ("set_state", "void", "struct sock *sk, u8 new_state", "sk, new_state"),
    ("cwnd_event", "void", "struct sock *sk, u32 event", "sk, event"),
    ("in_ack_event", "void", "struct sock *sk, u32 flags", "sk, flags"),
    ("pkts_acked", "void", "struct sock *sk, const struct ack_sample *sample", "sk, sample"),
    ("min_tso_segs", "u32", "struct sock *sk", "sk"),
    (
        "cong_control",
        "void",
        "struct sock *sk, u32 ack, s32 flag, const struct rate_sample *rs",
        "KNEE_CONTROLLED(sk, ack, flag, rs)",
    ),
    ("undo_cwnd", "u32", "struct sock *sk", "sk"),
    ("sndbuf_expand", "u32", "struct sock *sk", "sk"),
    ("init", "void", "struct sock *sk", "sk"),
    ("release", "void", "struct sock *sk", "sk"),
];

/// Functions that a `module_init` may call and still count as one that only registers.
const HARMLESS: [&str; 14] = [
    "tcp_register_congestion_control",
    "register_btf_kfunc_id_set",
    "BUILD_BUG_ON",
    "BUILD_BUG_ON_MSG",
    "static_assert",
    "WARN_ON",
    "sizeof",
    "sizeof_field",
    "if",
    "return",
    "unlikely",
    "pr_info",
    "pr_err",
    "printk",
];

/// Hides the module's functions. The verifier checks a visible function as a program of its own,
/// with stricter rules.
const BEFORE: &str = "#include <net/tcp.h>\n#pragma GCC visibility push(hidden)\n";
const BEHIND: &str = "
#pragma GCC visibility pop
#line 1 \"knee\"
#undef tcp_congestion_ops
#if KNEE_CONG_CONTROL_ARGUMENTS == 2
#define KNEE_CONTROLLED(sk, ack, flag, rs) sk, rs
#else
#define KNEE_CONTROLLED(sk, ack, flag, rs) sk, ack, flag, rs
#endif
";

/// Types of parameters, with their numbers in `module_linux.h`. A text parameter cannot be set.
const KINDS: [(&str, u32); 11] = [
    ("bool", 1),
    ("invbool", 1),
    ("byte", 2),
    ("short", 3),
    ("ushort", 4),
    ("int", 5),
    ("uint", 6),
    ("hexint", 6),
    ("long", 7),
    ("ulong", 8),
    ("ullong", 9),
];

/// Converts a module's source. If `is_taken` holds for the module's own name, the algorithm is
/// named `file`, the file's name without extension.
///
/// # Errors
/// The reason why the module cannot be converted.
pub fn for_bpf(text: &str, file: &str, is_taken: &dyn Fn(&str) -> bool) -> Result<ForBpf, String> {
    let source = tokens::read(text);
    let tokens = source.tokens.as_slice();
    let init = init(tokens)?;
    let (table, line) = table(tokens).ok_or(
        "registers no table of operations that is written in it, as struct tcp_congestion_ops foo = { ... }",
    )?;
    check_fallbacks(tokens)?;
    let value = |member: &str| {
        let found = table.iter().find(|(name, _)| *name == member);
        found.map(|(_, value)| value.iter().map(|token| token.text.as_str()).collect::<Vec<_>>())
    };
    let own = name_in(text, line).unwrap_or_default();
    let name = if is_taken(&own) { file.to_owned() } else { own };
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Err("its .name must be a word in quotes: letters, digits and _".to_owned());
    }
    let mut behind = String::from(BEHIND);
    let mut entries = String::new();
    for (operation, kind, arguments, handed_on) in OPERATIONS {
        let Some(function) = value(operation) else { continue };
        let function = function.join(" ");
        let result = if kind == "void" { "" } else { "return " };
        let _ = write!(
            behind,
            "CC_OP({kind}, knee_{operation}, {arguments})\n{{\n\t{result}{function}({handed_on});\n}}\n"
        );
        let _ = writeln!(entries, "\t.{operation} = CC_FN(knee_{operation}),");
    }
    if let Init::Computes(function) = init {
        let _ = write!(
            behind,
            "SEC(\"{INIT_SECTION}\") int {INIT_PROGRAM}(void *context)\n{{\n\treturn {function}();\n}}\n"
        );
    }
    let _ = write!(behind, "#ifdef {STATE_TYPE}\nCC_STATE_LAYOUT({STATE_TYPE})\n#endif\n");
    let flags = value("flags").map_or("0".to_owned(), |flags| flags.join(" "));
    let _ = write!(
        behind,
        "CC_NO_STATE({name})\n{}CC_ALGORITHM({name}) = {{\n{entries}\t.flags = {flags},\n\t.name = \"{name}\",\n}};\n",
        params(tokens, text)
    );
    Ok(ForBpf { before: BEFORE, text: shown(text), behind, name })
}

type Member<'a> = (&'a str, &'a [Token]);

/// Returns the members of the table that the module registers first, and its line.
fn table(tokens: &[Token]) -> Option<(Vec<Member<'_>>, u32)> {
    let registers =
        tokens.iter().position(|token| token.text == "tcp_register_congestion_control")?;
    let mut argument = tokens[registers + 1..].iter().filter(|token| !"(&".contains(&token.text));
    table_of(tokens, &argument.next()?.text)
}

/// Returns the members of the table with this name, and its line.
fn table_of<'a>(tokens: &'a [Token], name: &str) -> Option<(Vec<Member<'a>>, u32)> {
    let is_it = |at: &usize| {
        tokens[*at].text == "tcp_congestion_ops"
            && tokens.get(at + 1).is_some_and(|token| token.text == name)
    };
    // Skips a declaration without values in front of the definition.
    let open = (0..tokens.len()).filter(is_it).find_map(|at| {
        let end = tokens[at..].iter().position(|token| token.text == "{" || token.text == ";")?;
        (tokens[at + end].text == "{").then_some(at + end)
    })?;
    let mut members = Vec::new();
    let mut rest = tokens.get(open + 1..)?;
    // Each member has the form `.member = value,`.
    while let [dot, member, sign, value @ ..] = rest {
        if dot.text != "." || sign.text != "=" {
            break;
        }
        let mut depth = 0;
        let end = value.iter().position(|token| {
            match token.text.as_str() {
                "(" | "{" => depth += 1,
                ")" => depth -= 1,
                "}" if depth > 0 => depth -= 1,
                "," | "}" if depth == 0 => return true,
                _ => {}
            }
            false
        })?;
        members.push((member.text.as_str(), &value[..end]));
        rest = value.get(end + 1..)?;
    }
    (!members.is_empty()).then_some((members, tokens[open].line))
}

/// Returns the algorithm's name. It reads the text, because strings are blank among the tokens.
fn name_in(text: &str, line: u32) -> Option<String> {
    let lines = text.lines().skip(line.saturating_sub(1) as usize);
    let name = lines.filter_map(|line| line.split_once(".name")).next()?.1;
    Some(
        name.trim_start()
            .strip_prefix('=')?
            .trim_start()
            .strip_prefix('"')?
            .split_once('"')?
            .0
            .to_owned(),
    )
}

/// Checks the tables to which the module switches connections. BPF can switch a connection only to
/// an algorithm of the kernel, so each table must be Reno's.
fn check_fallbacks(tokens: &[Token]) -> Result<(), String> {
    let word = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    // The field is set by `=` or by `WRITE_ONCE(x->icsk_ca_ops, &other)`.
    let is_set = |at: &usize| word(*at) == "icsk_ca_ops" && matches!(word(at + 1), "=" | ",");
    for at in (0..tokens.len()).filter(is_set) {
        let name = word(at + 3);
        let is_reno = |(members, _): (Vec<Member<'_>>, u32)| {
            members.iter().all(|(member, value)| match *member {
                "owner" | "name" | "get_info" => true,
                _ => value.first().is_some_and(|token| token.text.starts_with("tcp_reno_")),
            })
        };
        let is_known = name == "tcp_reno" || table_of(tokens, name).is_some_and(is_reno);
        if word(at + 2) != "&" || !is_known {
            return Err(format!(
                "hands connections to another table (line {}) that is not Reno: a kernel that loads it for BPF has one table of it",
                tokens[at].line
            ));
        }
    }
    Ok(())
}

enum Init<'a> {
    /// It only registers the table, which the loader does instead.
    Registers,
    /// It does more. Holds the name of the function.
    Computes(&'a str),
}

/// Classifies the module's `module_init`.
fn init(tokens: &[Token]) -> Result<Init<'_>, String> {
    let word = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    let Some(init) = (0..tokens.len()).find(|at| word(*at) == "module_init").map(|at| word(at + 2))
    else {
        return Err("has no module_init, so nothing registers it".to_owned());
    };
    let body = |at: usize| {
        let end = at + 2 + usize::from(word(at + 2) == "void");
        let is_it = word(at) == init && word(at + 1) == "(" && word(end) == ")";
        (is_it && word(end + 1) == "{").then_some(end + 1)
    };
    let Some(body) = (0..tokens.len()).find_map(body) else {
        return Err(format!(
            "has a module_init ({}) whose body is not found, so what it computes is not known: write it as {}(void) {{ ... }}",
            init.escape_debug(),
            init.escape_debug()
        ));
    };
    let mut depth = 0;
    let mut own: Vec<&str> = Vec::new();
    for at in body..tokens.len() {
        match word(at) {
            "{" => depth += 1,
            "}" if depth == 1 => break,
            "}" => depth -= 1,
            "int" | "u32" | "u64" | "s32" => own.push(word(at + 1)),
            "=" | "+=" | "-=" | "*=" | "/=" | "<<=" | ">>=" | "|=" | "&=" | "++" | "--"
                if !own.contains(&word(at - 1)) =>
            {
                return Ok(Init::Computes(init));
            }
            "(" if tokens[at - 1].is_word() && !HARMLESS.contains(&word(at - 1)) => {
                return Ok(Init::Computes(init));
            }
            _ => {}
        }
    }
    Ok(Init::Registers)
}

/// Returns C code that describes the parameters to the loader: type, own bounds if any, name,
/// variable and meaning.
fn params(tokens: &[Token], text: &str) -> String {
    let (mut fields, mut values) = (String::new(), String::new());
    let word = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    let mut count = 0;
    for at in 0..tokens.len() {
        let mut bounds = None;
        let (name, variable, kind) = match word(at) {
            "module_param" | "module_param_unsafe" => (word(at + 2), word(at + 2), word(at + 4)),
            "module_param_named" => (word(at + 2), word(at + 4), word(at + 6)),
            // Accepts `module_param_cb(name, &functions, &variable, permissions)` only if its
            // bounds are found.
            "module_param_cb" => {
                bounds = bounds_of(tokens, word(at + 5));
                let kind = if bounds.is_some() { "uint" } else { "" };
                (word(at + 2), word(at + 8), kind)
            }
            _ => continue,
        };
        let Some((_, kind)) = KINDS.iter().find(|(known, _)| *known == kind) else { continue };
        if !tokens[at + 2].is_word() {
            continue;
        }
        let (min, max) = bounds.unwrap_or_default();
        // Separate string literals, because a digit after the zero would become part of its escape
        // sequence.
        let texts = format!("\"{name}\\0\" \"{variable}\\0\" \"{}\"", meaning(text, name));
        let _ = writeln!(
            fields,
            "\tstruct {PARAM_TYPE}{count}_{variable} {{ u32 numbers[3]; char texts[sizeof({texts})]; }} __attribute__((packed)) {name};"
        );
        let _ = writeln!(values, "\t{{ {{ {kind}, {min}, {max} }}, {texts} }},");
        count += 1;
    }
    match fields.is_empty() {
        true => String::new(),
        false => format!(
            "const struct {{\n{fields}}} __attribute__((packed)) {PARAMS_TOLD} SEC(\"knee_told\") = {{\n{values}}};\n"
        ),
    }
}

/// Returns the bounds of a parameter with these functions. They are known if `.set` is a function
/// that calls `param_set_uint_minmax` with two numbers.
fn bounds_of(tokens: &[Token], functions: &str) -> Option<(u32, u32)> {
    let word = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    let find = |words: &[&str], from: usize| {
        (from..tokens.len())
            .find(|at| words.iter().zip(*at..).all(|(known, at)| word(at) == *known))
    };
    let table = find(&["kernel_param_ops", functions, "="], 0)?;
    let set = word(find(&[".", "set", "="], table)? + 3);
    let body = find(&[set, "("], 0)?;
    let call = find(&["param_set_uint_minmax", "("], body)?;
    // The arguments are `(val, kp, min, max)`.
    Some((word(call + 6).parse().ok()?, word(call + 8).parse().ok()?))
}

/// Returns the one-line text of `MODULE_PARM_DESC`, without characters that have a special meaning
/// in a C string.
fn meaning(text: &str, name: &str) -> String {
    let said = text.lines().filter_map(|line| line.trim_start().strip_prefix("MODULE_PARM_DESC("));
    let said = said.filter_map(|rest| rest.strip_prefix(name)?.trim_start().strip_prefix(','));
    let said = said.filter_map(|rest| rest.trim_start().strip_prefix('"')?.split_once('"'));
    let plain = |c: &char| c.is_ascii() && !c.is_ascii_control() && !"\\\"?".contains(*c);
    said.map(|(meaning, _)| meaning.chars().filter(plain).take(200).collect())
        .next()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = "static int beta = 700;\nmodule_param(beta, int, 0644);\nMODULE_PARM_DESC(beta, \"how \\ much\");\n\
        static struct tcp_congestion_ops foo __read_mostly = {\n\t.init = foo_init,\n\t.ssthresh = tcp_reno_ssthresh,\n\
        \t.owner = THIS_MODULE,\n\t.name = \"foo\",\n};\n\
        static int __init foo_register(void)\n{\n\tint ret = 0;\n\tBUILD_BUG_ON(sizeof(struct foo) > 4);\n\
        \treturn tcp_register_congestion_control(&foo);\n}\nmodule_init(foo_register);\n";

    #[test]
    fn the_table_of_a_module_becomes_one_of_the_contract() {
        let made = for_bpf(MODULE, "tcp_foo", &|_| false).unwrap();
        assert_eq!(made.name, "foo");
        for expected in [
            "CC_OP(void, knee_init, struct sock *sk)\n{\n\tfoo_init(sk);\n}\n",
            "\treturn tcp_reno_ssthresh(sk);",
            "CC_ALGORITHM(foo) = {\n\t.ssthresh = CC_FN(knee_ssthresh),\n\t.init = CC_FN(knee_init),\n\t.flags = 0,\n\t.name = \"foo\",",
            "{ { 5, 0, 0 }, \"beta\\0\" \"beta\\0\" \"how  much\" },",
        ] {
            assert!(made.behind.contains(expected), "{expected}\n{}", made.behind);
        }
        assert_eq!(for_bpf(MODULE, "tcp_foo", &|name| name == "foo").unwrap().name, "tcp_foo");
    }

    #[test]
    fn a_module_init_that_computes_is_a_program() {
        let program = "SEC(\"syscall\") int knee_module_init(void *context)\n{\n\treturn foo_register();\n}\n";
        let behind = |text: &str| for_bpf(text, "tcp_foo", &|_| false).unwrap().behind;
        assert!(!behind(MODULE).contains("SEC(\"syscall\")"));
        let sets = MODULE.replace("int ret = 0;", "int ret = 0;\n\tscale = 8 * beta;");
        let calls = MODULE.replace("int ret = 0;", "prepare(3);");
        for computes in [behind(&sets), behind(&calls)] {
            assert!(computes.contains(program), "{computes}");
        }
    }

    #[test]
    fn a_parameter_with_functions_has_their_bounds() {
        let functions = "static int g_set(const char *val, const struct kernel_param *kp)\n{\n\treturn param_set_uint_minmax(val, kp, 2, 10);\n}\n\
            static const struct kernel_param_ops g_ops = {\n\t.set = g_set,\n\t.get = param_get_uint,\n};\n\
            module_param_cb(g, &g_ops, &shift_g, 0644);\n";
        let made = for_bpf(&format!("{functions}{MODULE}"), "tcp_foo", &|_| false).unwrap();
        assert!(
            made.behind.contains("{ { 6, 2, 10 }, \"g\\0\" \"shift_g\\0\" \"\" },"),
            "{}",
            made.behind
        );
        let other = functions.replace("10", "most");
        let made = for_bpf(&format!("{other}{MODULE}"), "tcp_foo", &|_| false).unwrap();
        assert!(!made.behind.contains("shift_g"), "{}", made.behind);
    }

    #[test]
    fn another_table_to_fall_back_to_must_be_reno() {
        let falls_back = |table: &str| {
            let more = format!(
                "static void f(struct sock *sk)\n{{\n\tinet_csk(sk)->icsk_ca_ops = &{table};\n}}\n"
            );
            let own = "static struct tcp_congestion_ops own = {\n\t.ssthresh = tcp_reno_ssthresh,\n\t.name = \"own\",\n};\n";
            for_bpf(&format!("{own}{MODULE}{more}"), "tcp_foo", &|_| false)
        };
        let once = MODULE.replace("int ret = 0;", "WRITE_ONCE(icsk->icsk_ca_ops, &foo);");
        assert!(for_bpf(&once, "tcp_foo", &|_| false).is_err());
        for table in ["own", "tcp_reno"] {
            let made = falls_back(table).unwrap();
            assert!(made.text.contains("knee_fall_back_to_reno(inet_csk(sk));"), "{}", made.text);
        }
        let why = falls_back("foo").unwrap_err();
        assert!(why.starts_with("hands connections to another table (line 23)"), "{why}");
    }

    #[test]
    fn what_registers_nothing_is_refused() {
        let none = MODULE.replace("module_init", "module_unit");
        assert!(for_bpf(&none, "tcp_foo", &|_| false).unwrap_err().contains("no module_init"));
        for (text, expected) in [
            ("module_init(x);", "body is not found"),
            ("static int x() { return 0; }\nmodule_init(x);", "registers no table"),
        ] {
            let why = for_bpf(text, "x", &|_| false).unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
    }
}
