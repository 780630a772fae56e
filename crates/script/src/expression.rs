//! Tokens of a line, and whole-number expressions. Times are numbers of nanoseconds.

use crate::mistake::Mistake;
use std::fmt;

/// Nesting of parentheses beyond this is a mistake, and would cost stack.
const MAX_DEPTH: u32 = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// A number with its unit worked in; nothing if it is not whole.
    Number {
        text: String,
        value: Option<i128>,
    },
    Word(String),
    /// Flags of a segment, the text between brackets.
    Flags(String),
    Symbol(&'static str),
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Number { text, .. } | Token::Word(text) => f.write_str(text),
            Token::Flags(flags) => write!(f, "[{flags}]"),
            Token::Symbol(symbol) => f.write_str(symbol),
        }
    }
}

/// Longer ones first.
const SYMBOLS: [&str; 18] =
    ["..", "<=", ">=", "==", "!=", "<", ">", "=", "+", "-", "*", "/", "%", "(", ")", ":", ",", "@"];

const UNITS: [(&str, i128); 4] =
    [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];

pub(crate) fn tokens(line: &str) -> Result<Vec<Token>, Mistake> {
    let mut found = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, after) = if first == '#' {
            break;
        } else if first == '[' {
            let (flags, after) = rest[1..].split_once(']').ok_or(Mistake::Bracket)?;
            (Token::Flags(flags.trim().to_owned()), after)
        } else if first.is_ascii_digit() {
            number(rest)?
        } else if first.is_alphabetic() || first == '_' {
            let end = rest
                .find(|c: char| !c.is_alphanumeric() && c != '_' && c != '.')
                .unwrap_or(rest.len());
            // A range may follow a name: `rtt..2*rtt`.
            let end = rest[..end].find("..").unwrap_or(end);
            (Token::Word(rest[..end].to_owned()), &rest[end..])
        } else {
            let symbol = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol));
            let symbol = symbol.ok_or(Mistake::Symbol(first))?;
            (Token::Symbol(symbol), &rest[symbol.len()..])
        };
        found.push(token);
        rest = after.trim_start();
    }
    Ok(found)
}

fn number(rest: &str) -> Result<(Token, &str), Mistake> {
    let whole_end = rest.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(rest.len());
    let mut end = whole_end;
    let after = &rest[whole_end..];
    if after.starts_with('.') && after[1..].starts_with(|c: char| c.is_ascii_digit()) {
        let digits = &after[1..];
        end += 1 + digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    }
    let unit_len = rest[end..].find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len() - end);
    let unit = &rest[end..end + unit_len];
    let text = &rest[..end + unit_len];
    let scale = if unit.is_empty() {
        1
    } else {
        let known = UNITS.iter().find(|(name, _)| *name == unit);
        known.ok_or_else(|| Mistake::Unit(text.to_owned()))?.1
    };
    let (whole, fraction) = rest[..end].split_once('.').unwrap_or((&rest[..end], ""));
    let too_large = || Mistake::TooLarge(text.to_owned());
    let digits = format!("{}{fraction}", whole.replace('_', ""));
    let places = u32::try_from(fraction.len()).ok().filter(|places| *places <= 18);
    let divisor = 10_i128.pow(places.ok_or_else(too_large)?);
    let value = digits.parse::<i64>().map_err(|_| too_large())?;
    let scaled = i128::from(value) * scale;
    let value = (scaled % divisor == 0).then_some(scaled / divisor);
    Ok((Token::Number { text: text.to_owned(), value }, &rest[end + unit_len..]))
}

/// A whole number, worked out when the script gets there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expr {
    Number(i128),
    Name(String),
    Negative(Box<Expr>),
    Binary(Operator, Box<Expr>, Box<Expr>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
    GreaterOrEqual,
    Greater,
}

impl Comparison {
    pub(crate) fn of(symbol: &str) -> Option<Comparison> {
        Some(match symbol {
            "<" => Comparison::Less,
            "<=" => Comparison::LessOrEqual,
            "==" => Comparison::Equal,
            "!=" => Comparison::NotEqual,
            ">=" => Comparison::GreaterOrEqual,
            ">" => Comparison::Greater,
            _ => return None,
        })
    }

    pub(crate) fn holds<T: Ord>(self, left: &T, right: &T) -> bool {
        match self {
            Comparison::Less => left < right,
            Comparison::LessOrEqual => left <= right,
            Comparison::Equal => left == right,
            Comparison::NotEqual => left != right,
            Comparison::GreaterOrEqual => left >= right,
            Comparison::Greater => left > right,
        }
    }
}

impl Expr {
    /// Evaluates the expression; `lookup` resolves names.
    pub(crate) fn value<E: From<Mistake>>(
        &self,
        lookup: &mut dyn FnMut(&str) -> Result<i128, E>,
    ) -> Result<i128, E> {
        match self {
            Expr::Number(number) => Ok(*number),
            Expr::Name(name) => lookup(name),
            Expr::Negative(of) => of.value(lookup)?.checked_neg().ok_or(Mistake::Overflow.into()),
            Expr::Binary(operator, left, right) => {
                let (left, right) = (left.value(lookup)?, right.value(lookup)?);
                if right == 0 && matches!(operator, Operator::Divide | Operator::Remainder) {
                    return Err(Mistake::Division.into());
                }
                match operator {
                    Operator::Add => left.checked_add(right),
                    Operator::Subtract => left.checked_sub(right),
                    Operator::Multiply => left.checked_mul(right),
                    Operator::Divide => left.checked_div(right),
                    Operator::Remainder => left.checked_rem(right),
                }
                .ok_or(Mistake::Overflow.into())
            }
        }
    }

    /// Every name in it.
    pub(crate) fn names<'a>(&'a self, tell: &mut dyn FnMut(&'a str)) {
        match self {
            Expr::Number(_) => {}
            Expr::Name(name) => tell(name),
            Expr::Negative(of) => of.names(tell),
            Expr::Binary(_, left, right) => {
                left.names(tell);
                right.names(tell);
            }
        }
    }
}

/// The tokens of a line, taken from the front.
pub(crate) struct Tokens {
    tokens: Vec<Token>,
    next: usize,
}

impl Tokens {
    pub(crate) fn of(line: &str) -> Result<Tokens, Mistake> {
        Ok(Tokens { tokens: tokens(line)?, next: 0 })
    }

    pub(crate) fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next)
    }

    pub(crate) fn any_word(&self, is: impl Fn(&str) -> bool) -> bool {
        self.tokens.iter().any(|token| matches!(token, Token::Word(word) if is(word)))
    }

    pub(crate) fn take(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.next).cloned();
        self.next += usize::from(token.is_some());
        token
    }

    pub(crate) fn take_symbol(&mut self, symbol: &str) -> bool {
        let is = matches!(self.peek(), Some(Token::Symbol(next)) if *next == symbol);
        self.next += usize::from(is);
        is
    }

    pub(crate) fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Some(Token::Word(next)) if next == word)
    }

    pub(crate) fn take_word(&mut self, word: &str) -> bool {
        let is = self.is_word(word);
        self.next += usize::from(is);
        is
    }

    pub(crate) fn word(&mut self, what: &'static str) -> Result<String, Mistake> {
        match self.take() {
            Some(Token::Word(word)) => Ok(word),
            other => Err(expected(what, other.as_ref())),
        }
    }

    /// A place to give to [`Tokens::text_since`].
    pub(crate) fn position(&self) -> usize {
        self.next
    }

    /// The text consumed since `position`, for messages.
    pub(crate) fn text_since(&self, position: usize) -> String {
        let words: Vec<_> =
            self.tokens[position..self.next].iter().map(ToString::to_string).collect();
        words.join(" ")
    }

    /// The rest must be nothing.
    pub(crate) fn end(&self) -> Result<(), Mistake> {
        self.peek().map_or(Ok(()), |token| Err(Mistake::TooMuch(token.to_string())))
    }

    pub(crate) fn comparison(&mut self) -> Result<Comparison, Mistake> {
        match self.take() {
            Some(Token::Symbol(symbol)) => Comparison::of(symbol),
            _ => None,
        }
        .ok_or(Mistake::NoComparison)
    }

    pub(crate) fn expr(&mut self) -> Result<Expr, Mistake> {
        self.sum(0)
    }

    fn sum(&mut self, depth: u32) -> Result<Expr, Mistake> {
        let mut left = self.product(depth)?;
        loop {
            let operator = if self.take_symbol("+") {
                Operator::Add
            } else if self.take_symbol("-") {
                Operator::Subtract
            } else {
                return Ok(left);
            };
            let right = self.product(depth)?;
            left = Expr::Binary(operator, Box::new(left), Box::new(right));
        }
    }

    fn product(&mut self, depth: u32) -> Result<Expr, Mistake> {
        let mut left = self.atom(depth)?;
        loop {
            let operator = if self.take_symbol("*") {
                Operator::Multiply
            } else if self.take_symbol("/") {
                Operator::Divide
            } else if self.take_symbol("%") {
                Operator::Remainder
            } else {
                return Ok(left);
            };
            let right = self.atom(depth)?;
            left = Expr::Binary(operator, Box::new(left), Box::new(right));
        }
    }

    fn atom(&mut self, depth: u32) -> Result<Expr, Mistake> {
        if depth > MAX_DEPTH {
            return Err(Mistake::Nested);
        }
        match self.take() {
            Some(Token::Number { value: Some(value), .. }) => Ok(Expr::Number(value)),
            Some(Token::Number { text, value: None }) => Err(Mistake::NotWhole(text)),
            Some(Token::Word(name)) => Ok(Expr::Name(name)),
            Some(Token::Symbol("-")) => Ok(Expr::Negative(Box::new(self.atom(depth + 1)?))),
            Some(Token::Symbol("(")) => {
                let inner = self.sum(depth + 1)?;
                if self.take_symbol(")") { Ok(inner) } else { Err(Mistake::Parenthesis) }
            }
            other => Err(expected("a number", other.as_ref())),
        }
    }
}

pub(crate) fn expected(what: &'static str, came: Option<&Token>) -> Mistake {
    match came {
        Some(token) => Mistake::Expected { what, came: token.to_string() },
        None => Mistake::Missing(what),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<i128, String> {
        let mut tokens = Tokens::of(text)?;
        let expr = tokens.expr()?;
        tokens.end()?;
        expr.value(&mut |name| if name == "mss" { Ok(1000) } else { Err(name.to_owned()) })
    }

    #[test]
    fn numbers_times_and_operators() {
        assert_eq!(value("1 + 2*mss"), Ok(2001));
        assert_eq!(value("(1+2) * -3 % 5"), Ok(-4));
        assert_eq!(value("1.5ms"), Ok(1_500_000));
        assert_eq!(value("10_000"), Ok(10_000));
        assert_eq!(value("0.2s/4"), Ok(50_000_000));
    }

    #[test]
    fn what_is_no_number_is_said() {
        assert_eq!(value("1.5"), Err("`1.5` is not a whole number".to_owned()));
        assert_eq!(
            value("3 min"),
            Err("`min` is unexpected: the line is complete before it".to_owned())
        );
        assert_eq!(value("3min"), Err("`3min`: the units are ns, us, ms and s".to_owned()));
        assert_eq!(value("1 / (1 - 1)"), Err("a division by 0".to_owned()));
        assert_eq!(
            value("99999999999999999999"),
            Err("`99999999999999999999` is too large".into())
        );
        assert!(value(&"(".repeat(10_000)).is_err());
        assert!(value(&"-".repeat(10_000)).is_err());
        assert!(value("9223372036854775807 * 9223372036854775807 * 9223372036854775807").is_err());
        assert_eq!(value("ü"), Err("ü".to_owned()));
        assert_eq!(value("1 + §"), Err("`§` is not allowed here".to_owned()));
    }

    #[test]
    fn a_range_after_a_name_is_a_range() {
        let tokens = tokens("+rtt..2*rtt out [.]").expect("they are tokens");
        assert_eq!(tokens[1], Token::Word("rtt".to_owned()));
        assert_eq!(tokens[2], Token::Symbol(".."));
    }
}
