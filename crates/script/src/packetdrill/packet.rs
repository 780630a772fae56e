//! Packets: `P. 1:1001(1000) ack 1 win 257 <nop,nop,TS val 100 ecr 200>`.

use super::Reader;
use super::scan::Trouble;
use crate::expression::Expr;
use crate::script::Pattern;
use knee_queue::Ecn;
use knee_wire::Segment;

/// Flags as packetdrill writes them.
const FLAGS: [(char, u16); 7] = [
    ('S', Segment::SYN),
    ('F', Segment::FIN),
    ('R', Segment::RST),
    ('P', Segment::PSH),
    ('.', Segment::ACK),
    ('E', Segment::ECE),
    ('W', Segment::CWR),
];

/// The ECN field in brackets before the flags.
const ECN: [(&str, Ecn); 4] =
    [("noecn", Ecn::NotEct), ("ect0", Ecn::Ect0), ("ect1", Ecn::Ect1), ("ce", Ecn::Ce)];

/// Options that a script has not, by the start of their names.
const LACKING: [(&str, &str); 9] = [
    ("FOEXP", "Fast Open"),
    ("FO", "Fast Open"),
    ("ECN", "the option of Accurate ECN"),
    ("md5", "MD5 signatures"),
    ("mp_", "MPTCP"),
    ("mpcapable", "MPTCP"),
    ("add_", "MPTCP"),
    ("dss", "MPTCP"),
    ("ao", "TCP-AO"),
];

/// The options of a packet.
#[derive(Default)]
struct Options {
    mss: Option<u32>,
    scale: Option<u32>,
    sack_ok: bool,
    sacks: Vec<(u32, u32)>,
    stamps: Option<(u32, u32)>,
    any: bool,
}

impl Reader<'_> {
    pub(super) fn packet(&mut self, is_out: bool) -> Result<Pattern, Trouble> {
        let ecn = self.ecn()?;
        let flags = self.flags()?;
        let mut pattern = Pattern { flags, ecn, ..Pattern::default() };
        let seq = self.scan.number("a sequence number")?;
        self.scan.need(":")?;
        let end = self.scan.number("the sequence number after the packet")?;
        self.scan.need("(")?;
        let len = self.scan.number("the length of the packet")?;
        self.scan.need(")")?;
        if seq.checked_add(len) != Some(end) {
            return Err(self
                .scan
                .mistake(format!("{seq}:{end}({len}): {seq} and {len} are not {end}")));
        }
        if flags & Segment::SYN != 0 && (seq, len) != (0, 0) {
            let what =
                if len > 0 { "data in a SYN" } else { "a SYN whose sequence number is not 0" };
            return Err(self.scan.lacks(what));
        }
        (pattern.seq, pattern.end) = (number(seq), number(end));
        if self.scan.take_word("ack") {
            pattern.ack = number(self.scan.number("an acknowledgement")?);
        }
        if self.scan.take_word("win") {
            pattern.window_field = number(self.scan.number("a window")?);
        }
        if self.scan.take_word("urg") {
            return Err(self.scan.lacks("urgent data"));
        }
        let options = self.options()?;
        self.apply(options, is_out, &mut pattern);
        Ok(pattern)
    }

    fn ecn(&mut self) -> Result<Option<Ecn>, Trouble> {
        if !self.scan.take("[") {
            return Ok(None);
        }
        let name = self.scan.until("]", "an ECN field")?.trim();
        match ECN.iter().find(|(known, _)| *known == name) {
            Some((_, ecn)) => Ok(Some(*ecn)),
            None => Err(self.scan.lacks(format!("the IP field [{name}]"))),
        }
    }

    fn flags(&mut self) -> Result<u16, Trouble> {
        let letters = self.scan.take_while(|c| !c.is_whitespace());
        match letters {
            "icmp" | "icmpv6" => return Err(self.scan.lacks("ICMP")),
            "udp" => return Err(self.scan.lacks("UDP")),
            "-" => return Ok(0),
            "" => return Err(self.scan.expected("flags such as S. or P.")),
            _ => {}
        }
        let mut flags = 0;
        for letter in letters.chars() {
            match FLAGS.iter().find(|(known, _)| *known == letter) {
                Some((_, bit)) => flags |= bit,
                None if letter == 'A' || letter.is_ascii_digit() => {
                    return Err(self.scan.lacks(format!("the flags {letters} of Accurate ECN")));
                }
                None if letter == 'U' => return Err(self.scan.lacks("urgent data")),
                None => {
                    return Err(self.scan.mistake(format!(
                        "`{letter}` in `{letters}` is not a flag: S F R P . E W, or - for none"
                    )));
                }
            }
        }
        Ok(flags)
    }

    fn options(&mut self) -> Result<Options, Trouble> {
        let mut options = Options::default();
        if !self.scan.take("<") {
            return Ok(options);
        }
        if self.scan.take("...") {
            options.any = true;
            self.scan.need(">")?;
            return Ok(options);
        }
        loop {
            self.option(&mut options)?;
            if self.scan.take(">") {
                return Ok(options);
            }
            self.scan.need(",")?;
        }
    }

    fn option(&mut self, options: &mut Options) -> Result<(), Trouble> {
        let name = self.scan.word();
        match name {
            "nop" | "eol" => {}
            "mss" => options.mss = Some(self.scan.number("an MSS")?),
            "wscale" => options.scale = Some(self.scan.number("a window scale")?),
            "sackOK" => options.sack_ok = true,
            "TS" => {
                self.scan.need("val")?;
                let value = self.scan.number("a timestamp")?;
                self.scan.need("ecr")?;
                options.stamps = Some((value, self.scan.number("a timestamp")?));
            }
            "sack" => loop {
                let start = self.scan.number("the start of a SACK range")?;
                self.scan.need(":")?;
                options.sacks.push((start, self.scan.number("the end of a SACK range")?));
                if options.sacks.len() > 4 {
                    return Err(self.scan.mistake("a packet holds at most 4 SACK ranges"));
                }
                self.scan.skip();
                if self.scan.peek_is(",") || self.scan.peek_is(">") {
                    break;
                }
            },
            "" => return Err(self.scan.expected("an option such as mss, sackOK or TS")),
            _ => {
                let known = LACKING.iter().find(|(start, _)| name.starts_with(start));
                return Err(self.scan.lacks(match known {
                    Some((_, what)) => (*what).to_owned(),
                    None => format!("the TCP option `{name}`"),
                }));
            }
        }
        Ok(())
    }

    /// Options that are not written are not there: of a packet that comes, and of one that must leave.
    fn apply(&mut self, options: Options, is_out: bool, pattern: &mut Pattern) {
        if options.any && is_out {
            pattern.any_options = true;
            return;
        }
        let pair =
            |(start, end): (u32, u32)| (Expr::Number(start.into()), Expr::Number(end.into()));
        pattern.sacks = options.sacks.into_iter().map(pair).collect();
        if pattern.flags & Segment::SYN != 0 {
            pattern.mss = options.mss.and_then(number);
            pattern.no_mss = options.mss.is_none();
            pattern.window_scale = options.scale.and_then(number);
            pattern.no_window_scale = options.scale.is_none();
            pattern.sack_ok = Some(options.sack_ok);
        }
        let Some((value, echo)) = options.stamps else {
            pattern.no_timestamps = true;
            return;
        };
        let name = |value: u32| format!("ts {value}");
        if is_out {
            pattern.ts_value = number(value);
            pattern.echoed = number(echo);
            pattern.name = Some(name(value));
            self.stamps.insert(value);
        } else if self.stamps.contains(&echo) {
            pattern.ts_value = number(value);
            pattern.echo = Some(name(echo));
        } else {
            pattern.ts = number(value).zip(number(echo));
        }
    }
}

fn number(number: u32) -> Option<Expr> {
    Some(Expr::Number(number.into()))
}
