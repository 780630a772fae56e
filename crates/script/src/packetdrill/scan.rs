//! The characters of a file, taken from the front, with the line that they are in.

/// Why a file is not read to its end.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) line: u32,
    /// The file is right, but about something that a script of one connection has not.
    pub(super) lacks: bool,
    pub(super) text: String,
}

impl Trouble {
    pub(super) fn mistake(line: u32, text: impl Into<String>) -> Trouble {
        Trouble { line, lacks: false, text: sentence(&text.into()) }
    }

    pub(super) fn lacks(line: u32, text: impl Into<String>) -> Trouble {
        Trouble { line, lacks: true, text: sentence(&text.into()) }
    }
}

/// What is shown of a text in a message, characters.
const SHOWN: usize = 24;
/// Length of a message, characters.
const SENTENCE: usize = 200;

/// A message on one line: a file's own words in it may have several, or be long.
fn sentence(text: &str) -> String {
    let one_line = text.split(|c: char| c.is_whitespace() || c.is_control());
    let text = one_line.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    if text.chars().count() <= SENTENCE {
        return text;
    }
    text.chars().take(SENTENCE).chain("...".chars()).collect()
}

/// Where `\` has joined a line with the next one. No file has this character.
pub(super) const JOINT: char = '\u{1}';

/// The lines of commands, or of Python, those that `\` joins as one.
pub(super) fn joined(text: &str) -> String {
    text.replace("\\\n", "\u{1}")
}

/// The rest of a file.
pub(super) struct Scanner<'a> {
    rest: &'a str,
    line: u32,
    /// Where a comment without an end begins.
    pub(super) open_comment: Option<u32>,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Scanner<'a> {
        Scanner { rest: text, line: 1, open_comment: None }
    }

    /// The line of what comes next.
    pub(super) fn line(&mut self) -> u32 {
        self.skip();
        self.line
    }

    /// The present line, where `#` and `//` begin no comment.
    pub(super) fn line_within(&self) -> u32 {
        self.line
    }

    pub(super) fn mistake(&self, text: impl Into<String>) -> Trouble {
        Trouble::mistake(self.line, text)
    }

    pub(super) fn lacks(&self, text: impl Into<String>) -> Trouble {
        Trouble::lacks(self.line, text)
    }

    /// A mistake that shows what is in the place of `what`.
    pub(super) fn expected(&mut self, what: &str) -> Trouble {
        self.skip();
        let shown: String =
            self.rest.lines().next().unwrap_or_default().chars().take(SHOWN).collect();
        match shown.trim_end() {
            "" => self.mistake(format!("{what} is missing at the end of the file")),
            shown => self.mistake(format!("expected {what}, not `{shown}`")),
        }
    }

    /// Passes over spaces and comments.
    pub(super) fn skip(&mut self) {
        loop {
            let blank = self.rest.len() - self.rest.trim_start().len();
            self.pass(blank);
            if self.rest.starts_with('#') || self.rest.starts_with("//") {
                self.pass(self.rest.find('\n').unwrap_or(self.rest.len()));
            } else if self.rest.starts_with("/*") {
                let end = self.rest[2..].find("*/");
                if end.is_none() {
                    self.open_comment = Some(self.line);
                }
                self.pass(end.map_or(self.rest.len(), |end| end + 4));
            } else {
                return;
            }
        }
    }

    fn pass(&mut self, bytes: usize) -> &'a str {
        let (passed, rest) = self.rest.split_at(bytes);
        self.line += passed.matches('\n').count() as u32;
        self.rest = rest;
        passed
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn peek_is(&self, text: &str) -> bool {
        self.rest.starts_with(text)
    }

    /// Takes a text if it comes next.
    pub(super) fn take(&mut self, text: &str) -> bool {
        self.skip();
        let is = self.rest.starts_with(text);
        if is {
            self.pass(text.len());
        }
        is
    }

    pub(super) fn need(&mut self, text: &str) -> Result<(), Trouble> {
        if self.take(text) { Ok(()) } else { Err(self.expected(&format!("`{text}`"))) }
    }

    /// Takes the characters that `is` accepts; none if the first is another.
    pub(super) fn take_while(&mut self, is: impl Fn(char) -> bool) -> &'a str {
        self.skip();
        let end = self.rest.find(|c| !is(c)).unwrap_or(self.rest.len());
        self.pass(end)
    }

    /// A name of letters, digits and `_`, or nothing.
    pub(super) fn word(&mut self) -> &'a str {
        self.skip();
        if self.rest.starts_with(|c: char| c.is_ascii_digit()) {
            return "";
        }
        self.take_while(|c| c.is_ascii_alphanumeric() || c == '_')
    }

    /// Takes a word if it is this one.
    pub(super) fn take_word(&mut self, word: &str) -> bool {
        self.skip();
        let goes_on = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let is = self.rest.strip_prefix(word).is_some_and(|after| !after.starts_with(goes_on));
        if is {
            self.pass(word.len());
        }
        is
    }

    /// A whole number of 32 bits.
    pub(super) fn number(&mut self, what: &str) -> Result<u32, Trouble> {
        self.skip();
        let digits = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        match self.rest[..digits].parse() {
            Ok(number) => {
                self.pass(digits);
                Ok(number)
            }
            Err(_) if digits > 0 => {
                let shown: String = self.rest[..digits].chars().take(SHOWN).collect();
                Err(self.mistake(format!("{what} {shown} is too large: at most {}", u32::MAX)))
            }
            Err(_) => Err(self.expected(what)),
        }
    }

    /// The text before `end`, which is taken as well.
    pub(super) fn until(&mut self, end: &str, what: &str) -> Result<&'a str, Trouble> {
        match self.rest.find(end) {
            Some(at) => {
                let text = self.pass(at);
                self.pass(end.len());
                Ok(text)
            }
            None => Err(self.mistake(format!("{what} has no end: close it with `{end}`"))),
        }
    }

    /// The arguments of a call after its parenthesis, the closing one taken: texts between the commas outside of brackets.
    pub(super) fn arguments(&mut self) -> Result<Vec<String>, Trouble> {
        let mut arguments = vec![String::new()];
        let mut closing = vec![')'];
        let mut quoted = false;
        let mut last = 0;
        for (at, c) in self.rest.char_indices() {
            if closing.len() > super::call::MAX_NESTING {
                return Err(self.mistake("the brackets of a call are nested too deeply"));
            }
            if quoted {
                quoted = c != '"';
            } else {
                match c {
                    '"' => quoted = true,
                    '(' => closing.push(')'),
                    '[' => closing.push(']'),
                    '{' => closing.push('}'),
                    ',' if closing.len() == 1 => {
                        arguments.push(String::new());
                        continue;
                    }
                    ')' | ']' | '}' if closing.pop() != Some(c) => {
                        return Err(self.mistake(format!("`{c}` closes nothing in this call")));
                    }
                    _ => {}
                }
            }
            if closing.is_empty() {
                last = at + 1;
                break;
            }
            if let Some(argument) = arguments.last_mut() {
                argument.push(c);
            }
        }
        if last == 0 {
            return Err(self.mistake("a call has no end: close it with `)`"));
        }
        self.pass(last);
        Ok(arguments.iter().map(|argument| argument.trim().to_owned()).collect())
    }
}

impl<'a> Scanner<'a> {
    /// Digits that come next, without a space before them.
    pub(super) fn take_digits(&mut self) -> &'a str {
        let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        self.pass(end)
    }

    /// Whether `.` and a digit come next.
    pub(super) fn begins_fraction(&self) -> bool {
        self.rest
            .strip_prefix('.')
            .is_some_and(|after| after.starts_with(|c: char| c.is_ascii_digit()))
    }
}
