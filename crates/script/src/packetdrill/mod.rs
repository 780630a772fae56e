//! packetdrill's files, read into scripts: one player plays both.
//!
//! What a file says and a script of one connection cannot say ends the reading with its line and its name: the file is not
//! applicable. It is no mistake of the file, and nothing is guessed away.

mod assert;
mod call;
mod option_lines;
mod packet;
mod scan;
mod shell;
mod time;

use crate::mistake::{MAX_LINE_BYTES, Mistake};
use crate::script::{Error, Event, Line, Rules, Script, Statement, When};
use crate::settings::Settings;
use call::Sockets;
use knee_queue::time::Duration;
use scan::{Scanner, Trouble};
use std::collections::BTreeSet;

/// packetdrill's tolerance (`--tolerance_usecs`). An eighth of the time since the event before is allowed as well.
const TOLERANCE: Duration = Duration::from_ms(4);
/// MTU of packetdrill's device, bytes.
const MTU_BYTES: u32 = 1500;
/// Segments of a TSO packet, as a device without a limit of its own has them.
const TSO_SEGS: u32 = 65_535;
/// What the peer advertises if an inbound packet says nothing.
const WINDOW_BYTES: u32 = 65_535;

/// A file of packetdrill, read.
#[derive(Clone, Debug)]
pub enum Packetdrill {
    /// It is about one connection.
    Script(Box<Script>),
    /// It needs more than a script has: the first such thing, with its line.
    NotApplicable(Error),
}

impl Script {
    /// Reads a file of packetdrill; `file` is for messages.
    ///
    /// # Errors
    /// What is wrong, with its line.
    pub fn parse_packetdrill(file: &str, text: &str) -> Result<Packetdrill, Error> {
        let error = |line, text: String| Error { file: file.to_owned(), line, text };
        if text.len() > Script::MAX_BYTES {
            return Err(error(0, Mistake::FileTooLong.to_string()));
        }
        for (number, line) in (1..).zip(text.lines()) {
            if line.len() > MAX_LINE_BYTES {
                return Err(error(number, Mistake::LineTooLong.to_string()));
            }
            if line.chars().any(|c| c.is_control() && !matches!(c, '\t' | '\r')) {
                return Err(error(number, Mistake::Control.to_string()));
            }
        }
        let mut reader = Reader::new(file, text);
        match reader.read() {
            Err(Trouble { line, lacks: true, text }) => {
                Ok(Packetdrill::NotApplicable(error(line, text)))
            }
            Err(Trouble { line, lacks: false, text }) => Err(error(line, text)),
            Ok(()) if reader.script.body.is_empty() => {
                Err(error(0, "the file has no event: begin with `0 socket(...)`".to_owned()))
            }
            Ok(()) => Ok(Packetdrill::Script(Box::new(reader.script))),
        }
    }
}

/// A file on its way to a script.
struct Reader<'a> {
    scan: Scanner<'a>,
    script: Script,
    sockets: Sockets,
    /// `defaults.sh` has run.
    has_defaults: bool,
    /// `--mtu`, bytes.
    mtu_bytes: Option<u32>,
    /// Timestamp values that outbound packets have named.
    stamps: BTreeSet<u32>,
}

impl<'a> Reader<'a> {
    fn new(file: &str, text: &'a str) -> Reader<'a> {
        let mut settings = Settings {
            algorithm: "cubic".to_owned(),
            gso_max_segs: TSO_SEGS,
            ..Settings::default()
        };
        settings.set_mtu_bytes(MTU_BYTES);
        Reader {
            scan: Scanner::new(text),
            script: Script {
                file: file.to_owned(),
                title: String::new(),
                settings,
                needs: Vec::new(),
                window_bytes: WINDOW_BYTES,
                rules: Rules { tolerance: TOLERANCE, is_packetdrill: true, ..Rules::default() },
                looks_inside: false,
                body: Vec::new(),
            },
            sockets: Sockets::default(),
            has_defaults: false,
            mtu_bytes: None,
            stamps: BTreeSet::new(),
        }
    }

    fn read(&mut self) -> Result<(), Trouble> {
        loop {
            self.scan.skip();
            if let Some(line) = self.scan.open_comment {
                return Err(Trouble::mistake(line, "a comment has no end: close it with `*/`"));
            }
            if self.scan.is_at_end() {
                return Ok(());
            }
            if self.scan.peek_is("--") {
                self.option_line()?;
                continue;
            }
            // Commands at the beginning and at the end have no time.
            let timed = if self.scan.peek_is("`") || self.scan.peek_is("%{") {
                time::Timed::now()
            } else {
                self.time()?
            };
            let line = self.scan.line();
            if self.scan.take("<") {
                let pattern = self.packet(false)?;
                self.push(line, timed.when(), Event::In(Box::new(pattern)))?;
            } else if self.scan.take(">") {
                let pattern = self.packet(true)?;
                self.push(line, timed.when(), Event::Out(Box::new(pattern)))?;
            } else if self.scan.take("`") {
                self.commands()?;
                self.waits(line, &timed)?;
            } else if self.scan.take("%{") {
                let conditions = self.assertions()?;
                if conditions.is_empty() {
                    self.waits(line, &timed)?;
                } else {
                    self.push(line, timed.when(), Event::Expect(conditions))?;
                }
            } else {
                self.call(line, &timed)?;
            }
        }
    }

    fn push(&mut self, number: u32, mut when: When, event: Event) -> Result<(), Trouble> {
        if when.is_any && !matches!(event, Event::Out(_)) {
            when.latest = None;
        }
        if when.latest.is_some() && !matches!(event, Event::Out(_)) {
            return Err(Trouble::mistake(
                number,
                "a range of times is for outbound packets: give this event one time",
            ));
        }
        self.script.body.push(Line { number, statement: Statement::Event { when, event } });
        Ok(())
    }

    /// An event that leaves nothing to do but has a time.
    fn waits(&mut self, number: u32, timed: &time::Timed) -> Result<(), Trouble> {
        if timed.is_now() {
            return Ok(());
        }
        self.push(number, timed.when(), Event::Wait)
    }

    /// Whether the connection has begun.
    fn is_begun(&self) -> bool {
        !self.script.body.is_empty()
    }
}

/// A congestion control as the kernel names it. Such a file comes from others, so it names no file to compile.
fn algorithm(line: u32, name: &str) -> Result<String, Trouble> {
    let is_name = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
    match !name.is_empty() && name.chars().all(is_name) {
        true => Ok(name.to_owned()),
        false => Err(Trouble::lacks(line, "a congestion control that is no name")),
    }
}
