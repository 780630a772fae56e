//! Finds the lines of a file that write a field of the socket.

use crate::tokens::{self, Token};

/// Operators that change the operand in front of them.
const CHANGES: [&str; 13] =
    ["=", "+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "|=", "^=", "++", "--"];
/// Number of tokens before a field in which a macro that sets it may begin.
const NEAR: usize = 8;
/// Most lines named.
const MOST_LINES: usize = 6;

/// Describes the writes to a field for a message. `None` if no line writes it directly.
pub(super) fn words(text: &str, field: &str) -> Option<String> {
    let lines = lines(text, field);
    let (last, others) = lines.split_last()?;
    let shown = |lines: &[u32]| lines.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    Some(match others {
        [] => format!("line {last} sets {field}"),
        others if others.len() < MOST_LINES => {
            format!("lines {} and {last} set {field}", shown(others))
        }
        others => format!("lines {}, ... and {last} set {field}", shown(&others[..MOST_LINES])),
    })
}

fn lines(text: &str, field: &str) -> Vec<u32> {
    let source = tokens::read(text);
    let mut found: Vec<u32> = Vec::new();
    for tokens in [&source.tokens, &source.bodies] {
        let sets = (0..tokens.len()).filter(|at| is_set(tokens, *at, field));
        found.extend(sets.map(|at| tokens[at].line));
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn is_set(tokens: &[Token], at: usize, field: &str) -> bool {
    let text =
        |at: Option<usize>| at.and_then(|at| tokens.get(at)).map_or("", |token| &*token.text);
    let (this, next) = (text(Some(at)), text(Some(at + 1)));
    if this == "tcp_snd_cwnd_set" && field == "snd_cwnd" {
        return next == "(";
    }
    if this != field || !matches!(text(at.checked_sub(1)), "->" | ".") {
        return false;
    }
    let before = &tokens[at.saturating_sub(NEAR)..at];
    let is_in = |name: &str| before.iter().rposition(|token| token.text == name);
    let is_stepped = matches!(text(at.checked_sub(3)), "++" | "--");
    CHANGES.contains(&next) || is_stepped || (next == "," && is_in("WRITE_ONCE").is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_set_a_field_are_named() {
        let text = "/* tp->snd_cwnd = 1; */\n\
                    if (tp->snd_cwnd == 3)\n\
                    \ttp->snd_cwnd = 4;\n\
                    tcp_snd_cwnd_set(tp, 3);\n\
                    tp->snd_cwnd++; --tcp->snd_cwnd;\n\
                    WRITE_ONCE(sk->sk_pacing_rate, tp->snd_cwnd);\n\
                    x = tp->snd_cwnd_cnt = 3;\n";
        assert_eq!(lines(text, "snd_cwnd"), [3, 4, 5]);
        let said = words(text, "snd_cwnd");
        assert_eq!(said.as_deref(), Some("lines 3, 4 and 5 set snd_cwnd"));
        let said = words(text, "sk_pacing_rate");
        assert_eq!(said.as_deref(), Some("line 6 sets sk_pacing_rate"));
        assert_eq!(words(text, "snd_ssthresh"), None);
    }
}
