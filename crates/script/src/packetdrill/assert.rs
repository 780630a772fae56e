//! Assertions in Python: `%{ assert tcpi_snd_cwnd == 10, tcpi_snd_cwnd }%`.

use super::Reader;
use super::scan::{JOINT, Trouble, joined};
use crate::expression::{Comparison, Expr, Operator, Token, Tokens};
use crate::script::Condition;

/// Fields of `TCP_INFO` that a script has under another name, and by how much its value is larger.
const FIELDS: &[(&str, &str, i128)] = &[
    ("snd_cwnd", "cwnd", 1),
    ("snd_ssthresh", "ssthresh", 1),
    ("rto", "rto", 1000),
    ("ato", "ato", 1000),
    ("rtt", "rtt", 1000),
    ("rttvar", "rttvar", 1000),
    ("min_rtt", "min_rtt", 1000),
    ("last_data_recv", "last_data_recv", 1_000_000),
];

/// Fields that a script has under their own names.
const SAME: &[&str] = &[
    "ca_state",
    "retransmits",
    "backoff",
    "probes",
    "unacked",
    "sacked",
    "lost",
    "retrans",
    "total_retrans",
    "reordering",
    "delivered",
    "delivered_ce",
    "bytes_acked",
    "bytes_received",
    "notsent_bytes",
    "pacing_rate",
    "snd_mss",
    "rcv_mss",
    "rcv_ssthresh",
    "rcv_space",
];

impl Reader<'_> {
    /// The assertions up to `}%`.
    pub(super) fn assertions(&mut self) -> Result<Vec<Condition>, Trouble> {
        let mut line = self.scan.line_within();
        let text = joined(self.scan.until("}%", "the Python in %{")?);
        let mut conditions = Vec::new();
        for part in text.split('\n') {
            let code = part.split('#').next().unwrap_or_default().replace(JOINT, " ");
            for statement in code.split(';').map(str::trim).filter(|it| !it.is_empty()) {
                assertion(line, statement, &mut conditions)?;
            }
            line += 1 + part.matches(JOINT).count() as u32;
        }
        Ok(conditions)
    }
}

fn assertion(line: u32, statement: &str, conditions: &mut Vec<Condition>) -> Result<(), Trouble> {
    let lacks = || Trouble::lacks(line, format!("the Python `{statement}`"));
    let asserted = statement.strip_prefix("assert").filter(|rest| rest.starts_with([' ', '(']));
    let asserted = condition_of(asserted.ok_or_else(lacks)?);
    let mut tokens = Tokens::of(asserted).map_err(|_| lacks())?;
    loop {
        // `a <= b <= c` is two comparisons.
        let mut left = side(line, &mut tokens, statement)?;
        let mut compared = false;
        while let Some(Token::Symbol(symbol)) = tokens.peek() {
            let Some(comparison) = Comparison::of(symbol) else { break };
            tokens.take();
            let right = side(line, &mut tokens, statement)?;
            let text = asserted.trim().to_owned();
            conditions.push(Condition::Compare { left, comparison, right: right.clone(), text });
            (left, compared) = (right, true);
        }
        if !compared {
            return Err(lacks());
        }
        if !tokens.take_word("and") {
            break;
        }
    }
    tokens.end().map_err(|_| lacks())
}

/// What is asserted, without the message after the comma.
fn condition_of(text: &str) -> &str {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ',' if depth == 0 => return &text[..at],
            _ => {}
        }
    }
    text
}

fn side(line: u32, tokens: &mut Tokens, statement: &str) -> Result<Expr, Trouble> {
    let expr =
        tokens.expr().map_err(|_| Trouble::lacks(line, format!("the Python `{statement}`")))?;
    named(line, expr)
}

/// An expression in a script's names.
fn named(line: u32, expr: Expr) -> Result<Expr, Trouble> {
    Ok(match expr {
        Expr::Number(_) => expr,
        Expr::Negative(of) => Expr::Negative(Box::new(named(line, *of)?)),
        Expr::Binary(operator, left, right) => {
            Expr::Binary(operator, Box::new(named(line, *left)?), Box::new(named(line, *right)?))
        }
        Expr::Name(name) => {
            if let Some(state) = name.strip_prefix("TCP_CA_") {
                return match crate::parse::CONSTANTS.iter().find(|(known, _)| *known == state) {
                    Some((_, value)) => Ok(Expr::Number(*value)),
                    None => Err(Trouble::lacks(line, format!("the state {name}"))),
                };
            }
            let field = name.strip_prefix("tcpi_").unwrap_or_default();
            if SAME.contains(&field) {
                return Ok(Expr::Name(field.to_owned()));
            }
            match FIELDS.iter().find(|(known, _, _)| *known == field) {
                Some((_, own, 1)) => Expr::Name((*own).to_owned()),
                Some((_, own, scale)) => Expr::Binary(
                    Operator::Divide,
                    Box::new(Expr::Name((*own).to_owned())),
                    Box::new(Expr::Number(*scale)),
                ),
                None => return Err(Trouble::lacks(line, format!("the value {name}"))),
            }
        }
    })
}
