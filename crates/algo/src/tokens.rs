//! C source as a list of tokens. Comments are removed, and each string is
//! one token.

/// A word, number, string or operator, and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) line: u32,
}

impl Token {
    pub(crate) fn is_word(&self) -> bool {
        self.text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
    }

    pub(crate) fn is_number(&self) -> bool {
        self.text.starts_with(|c: char| c.is_ascii_digit())
            || (self.text.starts_with('.') && self.text.len() > 1 && self.text != "...")
    }
}

/// A preprocessor directive: a line that begins with `#`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Directive {
    pub(crate) name: String,
    pub(crate) rest: String,
    pub(crate) line: u32,
}

/// The tokens and directives of a file.
pub(crate) struct Source {
    pub(crate) tokens: Vec<Token>,
    /// Tokens in the bodies of `#define`s.
    pub(crate) bodies: Vec<Token>,
    pub(crate) directives: Vec<Directive>,
    /// Names that `#define`s declare.
    pub(crate) macros: Vec<String>,
}

/// Operators of more than one character, longest first.
const SIGNS: &[&str] = &[
    "<<=", ">>=", "...", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "+=",
    "-=", "*=", "/=", "%=", "&=", "|=", "^=", "##",
];

pub(crate) fn read(text: &str) -> Source {
    let blank = without_comments(text);
    // Names of included files are in quotes, and the text above has blanks there.
    let written: Vec<&str> = text.lines().collect();
    let mut source = Source {
        tokens: Vec::new(),
        bodies: Vec::new(),
        directives: Vec::new(),
        macros: Vec::new(),
    };
    let mut in_define = false;
    for (index, line) in blank.lines().enumerate() {
        let number = index as u32 + 1;
        let goes_on = line.trim_end().ends_with('\\');
        let code = line.trim_end().trim_end_matches('\\');
        if in_define {
            in_define = goes_on;
            push_tokens(&mut source.bodies, code, number);
            continue;
        }
        let Some(directive) = code.trim_start().strip_prefix('#') else {
            push_tokens(&mut source.tokens, code, number);
            continue;
        };
        let directive = directive.trim_start();
        let end = directive.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(directive.len());
        let (name, rest) = directive.split_at(end);
        if name == "define" {
            in_define = goes_on;
            let rest = rest.trim_start();
            let end = rest.find(|c: char| !is_word_char(c)).unwrap_or(rest.len());
            source.macros.push(rest[..end].to_owned());
            let mut body = &rest[end..];
            if body.starts_with('(') {
                body = body.split_once(')').map_or("", |(_, body)| body);
            }
            push_tokens(&mut source.bodies, body, number);
            continue;
        }
        let written = written.get(index).copied().unwrap_or_default();
        let rest = written.split_once(name).map_or("", |(_, rest)| rest).trim();
        source.directives.push(Directive {
            name: name.to_owned(),
            rest: rest.to_owned(),
            line: number,
        });
    }
    source
}

fn is_word_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn push_tokens(tokens: &mut Vec<Token>, line: &str, number: u32) {
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let len = if first.is_whitespace() {
            rest = &rest[first.len_utf8()..];
            continue;
        } else if first.is_ascii_digit()
            || (first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit()))
        {
            number_len(rest)
        } else if is_word_char(first) {
            rest.find(|c: char| !is_word_char(c)).unwrap_or(rest.len())
        } else if first == '"' || first == '\'' {
            rest[1..].find(first).map_or(rest.len(), |end| end + 2)
        } else {
            SIGNS.iter().find(|sign| rest.starts_with(**sign)).map_or(first.len_utf8(), |s| s.len())
        };
        tokens.push(Token { text: rest[..len].to_owned(), line: number });
        rest = &rest[len..];
    }
}

/// Returns the length of a number: digits, letters, dots, and a sign after the exponent.
fn number_len(text: &str) -> usize {
    let is_hex = text.starts_with("0x") || text.starts_with("0X");
    let mut prior = ' ';
    for (at, c) in text.char_indices() {
        let exponent = (c == '+' || c == '-') && !is_hex && matches!(prior, 'e' | 'E');
        if !is_word_char(c) && c != '.' && !exponent {
            return at;
        }
        prior = c;
    }
    text.len()
}

/// Returns the text with comments and the contents of strings replaced by blanks. Line and column
/// numbers do not change.
pub(crate) fn without_comments(text: &str) -> String {
    #[derive(PartialEq)]
    enum In {
        Code,
        Line,
        Block,
        Text(char),
    }
    let mut out = String::with_capacity(text.len());
    let mut state = In::Code;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let next = chars.peek().copied();
        match (&state, c, next) {
            (In::Code, '/', Some('/')) => state = In::Line,
            (In::Code, '/', Some('*')) => {
                state = In::Block;
                chars.next();
                out.push_str("  ");
                continue;
            }
            (In::Code, '"' | '\'', _) => {
                state = In::Text(c);
                out.push(c);
                continue;
            }
            (In::Block, '*', Some('/')) => {
                state = In::Code;
                chars.next();
                out.push_str("  ");
                continue;
            }
            (In::Text(_), '\\', Some(escaped)) => {
                chars.next();
                out.push(' ');
                out.push(if escaped == '\n' { '\n' } else { ' ' });
                continue;
            }
            (In::Text(end), c, _) if c == *end => {
                state = In::Code;
                out.push(c);
                continue;
            }
            (In::Line | In::Text(_), '\n', _) => state = In::Code,
            _ => {}
        }
        match c {
            '\n' | '\t' => out.push(c),
            c if state == In::Code => out.push(c),
            _ => out.push(' '),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_texts_become_blanks_and_lines_stay() {
        let text = "a /* b\n c */ d // e\n\"f\\\" g\" 'h' i";
        assert_eq!(without_comments(text), "a     \n      d     \n\"     \" ' ' i");
    }
}
