//! Facts that the text of a source file shows without a compiler.

use crate::tokens::without_comments;

/// Kind of a source file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The source of a Linux module.
    KernelModule,
    /// A file on the contract. Holds the name in `CC_ALGORITHM(name)`.
    Contract { algorithm: String },
}

/// The struct of `union tcp_cc_info` that a module's `get_info` fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Info {
    Vegas,
    Dctcp,
    Bbr,
}

impl Info {
    /// Returns the kernel's number of the struct (`INET_DIAG_...`).
    pub(super) fn attribute(self) -> i32 {
        match self {
            Info::Vegas => 3,
            Info::Dctcp => 9,
            Info::Bbr => 16,
        }
    }

    /// Returns whether the struct's names fit the module's values. Those of Vegas do not: many
    /// modules fill its struct because they have none of their own.
    pub(super) fn is_its_own(self) -> bool {
        self != Info::Vegas
    }

    /// Returns the names and units of the columns, as `info_of` in `support.c` fills them. The
    /// names are those of `ss`.
    pub(super) fn names_and_units(self) -> [(&'static str, &'static str); 4] {
        match self {
            Info::Vegas => [("enabled", ""), ("rttcnt", ""), ("rtt", "us"), ("minrtt", "us")],
            Info::Dctcp => {
                [("alpha", "1/1024"), ("ce_state", ""), ("ab_ecn", "bytes"), ("ab_tot", "bytes")]
            }
            Info::Bbr => [
                ("bw", "bytes/s"),
                ("mrtt", "us"),
                ("pacing_gain", "1/256"),
                ("cwnd_gain", "1/256"),
            ],
        }
    }
}

/// Returns the kind of a file, or the reason why it has none.
pub(super) fn kind(text: &str) -> Result<Kind, String> {
    let code = without_comments(text);
    if let Some((_, rest)) = code.split_once("CC_ALGORITHM") {
        let name = rest.trim_start().strip_prefix('(').and_then(|rest| rest.split_once(')'));
        if let Some((name, _)) = name.filter(|(name, _)| is_identifier(name.trim())) {
            return Ok(Kind::Contract { algorithm: name.trim().to_owned() });
        }
        return Err(
            "CC_ALGORITHM must name the algorithm, as in CC_ALGORITHM(mine) = { ... };".into()
        );
    }
    if code.contains("tcp_register_congestion_control") {
        return Ok(Kind::KernelModule);
    }
    if is_bpf_program(text) {
        return Err("is a BPF program (SEC(\"struct_ops\")), and knee takes the source of a Linux module: make its programs static \
             functions, its maps a private struct, and register the table in module_init; docs/modules.md#from-bpf-struct_ops \
             shows how"
            .into());
    }
    Err("is no congestion control: the source of a Linux module calls tcp_register_congestion_control, \
         a file on knee's contract ends in CC_ALGORITHM(NAME) = { ... } (knee new algorithm writes one)"
        .into())
}

/// Returns the struct that `get_info` fills, if it is exactly one.
pub(super) fn info(text: &str) -> Option<Info> {
    let code = without_comments(text);
    let named = [
        ("INET_DIAG_VEGASINFO", Info::Vegas),
        ("INET_DIAG_DCTCPINFO", Info::Dctcp),
        ("INET_DIAG_BBRINFO", Info::Bbr),
    ];
    // A module may test for several structs. The value that it assigns to `*attr` names the one it
    // fills.
    let is_set = |name: &str| {
        let mut before = code.match_indices(name).map(|(at, _)| code[..at].trim_end());
        before.any(|before| before.ends_with('=') && !before.ends_with("=="))
    };
    let mut found = named.into_iter().filter(|(name, _)| is_set(name));
    match (found.next(), found.next()) {
        (Some((_, info)), None) => Some(info),
        _ => None,
    }
}

/// Returns whether a text has programs for struct_ops. The section's name is in a string.
pub(super) fn is_bpf_program(text: &str) -> bool {
    let code = without_comments(text);
    let sections = code.match_indices("SEC(").map(|(at, _)| at);
    let lines = |at: usize| code[..at].matches('\n').count();
    sections
        .map(lines)
        .any(|line| text.lines().nth(line).is_some_and(|line| line.contains("struct_ops")))
}

fn is_identifier(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_told_by_what_it_registers() {
        let module = "/* CC_ALGORITHM(no) */ static int __init r(void)\n\
                      { return tcp_register_congestion_control(&foo); }";
        assert_eq!(kind(module), Ok(Kind::KernelModule));
        let ours = "CC_ALGORITHM ( mine ) = { };";
        assert_eq!(kind(ours), Ok(Kind::Contract { algorithm: "mine".into() }));
        assert!(kind("// tcp_register_congestion_control\nint x;").is_err());
        assert!(kind("").is_err());
        assert!(kind("CC_ALGORITHM(3)").is_err());
    }

    #[test]
    fn a_bpf_program_is_told_how_to_become_a_module() {
        let text = "#include \"vmlinux.h\"\nSEC(\"struct_ops/foo_init\")\nvoid BPF_PROG(foo_init, struct sock *sk) {}\n\
                    SEC(\".struct_ops\")\nstruct tcp_congestion_ops foo = { .init = (void *)foo_init };";
        let why = kind(text).unwrap_err();
        assert!(why.contains("BPF program") && why.contains("#from-bpf-struct_ops"), "{why}");
        let only_said = "/* SEC(\"struct_ops/x\") */ int x;";
        assert!(kind(only_said).unwrap_err().starts_with("is no congestion control"));
    }

    #[test]
    fn what_get_info_fills_is_one_thing_or_unknown() {
        let asked = "if (ext & (1 << (INET_DIAG_VEGASINFO - 1)))";
        assert_eq!(info(&format!("{asked} *attr = INET_DIAG_BBRINFO;")), Some(Info::Bbr));
        assert_eq!(info(asked), None);
        assert_eq!(info("/* *attr = INET_DIAG_BBRINFO */"), None);
        assert_eq!(info("*a = INET_DIAG_BBRINFO; *a = INET_DIAG_VEGASINFO;"), None);
    }
}
