//! Calls of the application: `write(4, ..., 1000) = 1000`.

use super::Reader;
use super::scan::Trouble;
use super::time::Timed;
use crate::expression::{Comparison, Expr};
use crate::script::{CallEvent, Condition, Event, ReadEvent};

/// Brackets within brackets of a call.
pub(super) const MAX_NESTING: usize = 32;

/// Options of sockets that a script sets too.
const OPTIONS: [(&str, &str); 7] = [
    ("TCP_NODELAY", "nodelay"),
    ("TCP_CORK", "cork"),
    ("TCP_QUICKACK", "quickack"),
    ("SO_RCVLOWAT", "rcvlowat"),
    ("SO_RCVBUF", "rcvbuf"),
    ("SO_SNDBUF", "sndbuf"),
    ("SO_MAX_PACING_RATE", "max_pacing_rate"),
];

/// Options that change nothing that the packets of one connection show.
const WITHOUT_EFFECT: [&str; 7] = [
    "SO_REUSEADDR",
    "SO_REUSEPORT",
    "SO_MARK",
    "IP_FREEBIND",
    "IP_MTU_DISCOVER",
    "IP_TOS",
    "IPV6_TCLASS",
];

/// What a script has not, by a word of the call.
const LACKING: [(&str, &str); 11] = [
    ("IPPROTO_MPTCP", "MPTCP"),
    ("FASTOPEN", "Fast Open"),
    ("ZEROCOPY", "zerocopy"),
    ("MD5SIG", "MD5 signatures"),
    ("TIMESTAMPING", "timestamps of the application's data"),
    ("MSG_ERRQUEUE", "the error queue"),
    ("TCP_INQ", "TCP_INQ"),
    ("MSG_OOB", "urgent data"),
    ("MSG_EOR", "MSG_EOR"),
    ("TCP_USER_TIMEOUT", "TCP_USER_TIMEOUT"),
    ("MSG_PEEK", "MSG_PEEK"),
];

/// Calls that a script has, but for `socket`: those that need the connection, and those of any socket.
const OF_CONNECTION: [&str; 12] = [
    "read", "recv", "recvfrom", "readv", "recvmsg", "write", "send", "sendto", "writev", "sendmsg",
    "shutdown", "ioctl",
];
const OF_SOCKET: [&str; 9] = [
    "bind",
    "listen",
    "connect",
    "accept",
    "accept4",
    "fcntl",
    "close",
    "setsockopt",
    "getsockopt",
];
/// Calls of which a script has no failure.
const ONLY_SUCCEED: [&str; 7] =
    ["socket", "bind", "listen", "fcntl", "close", "ioctl", "getsockopt"];

/// The sockets of a file, by their numbers.
#[derive(Default)]
pub(super) struct Sockets {
    /// The one that `socket` gave.
    made: Option<String>,
    listener: Option<String>,
    /// The socket of the connection, once there is one.
    connection: Option<String>,
}

impl Sockets {
    /// Whether a call of this name may have this descriptor. Of calls that a script has not, something else is said.
    fn has(&self, name: &str, descriptor: &str) -> bool {
        let is_connection = self.connection.as_deref() == Some(descriptor);
        if OF_CONNECTION.contains(&name) {
            return is_connection;
        }
        let is_socket = self.made.as_deref().is_none_or(|made| made == descriptor);
        !OF_SOCKET.contains(&name) || is_connection || is_socket
    }
}

/// A call as it is written.
struct Call {
    name: String,
    arguments: Vec<String>,
    /// Without it any result will do.
    result: Option<i64>,
    errno: String,
}

impl Call {
    fn argument(&self, number: usize) -> &str {
        self.arguments.get(number).map_or("", String::as_str)
    }

    fn has_failed(&self) -> bool {
        self.result.is_some_and(|result| result < 0)
    }

    /// Bytes of a call's buffers: those of its vector, or the number after its buffer.
    fn bytes(&self) -> Option<u64> {
        match self.name.as_str() {
            "readv" | "writev" => vector_bytes(self.argument(1)),
            "recvmsg" | "sendmsg" => vector_bytes(self.argument(1)),
            _ => self.argument(2).parse().ok(),
        }
    }
}

/// The sum of the lengths in `[{..., 40}, {..., 20}]`, which may be a part of a message.
fn vector_bytes(text: &str) -> Option<u64> {
    let from = text.find("[{")?;
    let vector = &text[from..from + text[from..].find(']')?];
    let lengths =
        vector.split('}').filter_map(|part| part.split_once(',').map(|(_, length)| length));
    // After the first, a part begins with the comma before its bracket.
    let mut sum = 0u64;
    for length in lengths {
        let length = length.rsplit(',').next()?.trim();
        sum = sum.checked_add(length.parse().ok()?)?;
    }
    Some(sum)
}

impl Reader<'_> {
    pub(super) fn call(&mut self, line: u32, timed: &Timed) -> Result<(), Trouble> {
        let call = self.call_as_written()?;
        let name = call.name.as_str();
        let lacking = call
            .arguments
            .iter()
            .find_map(|text| LACKING.iter().find(|(word, _)| text.contains(word)))
            .map(|(_, what)| *what);
        if let Some(what) = lacking {
            return Err(Trouble::lacks(line, what));
        }
        if call.errno == "EFAULT" {
            return Err(Trouble::lacks(line, "a call with a bad address"));
        }
        if call.has_failed() && ONLY_SUCCEED.contains(&name) {
            return Err(Trouble::lacks(line, format!("a {name} that ends in {}", call.errno)));
        }
        if !self.sockets.has(name, call.argument(0)) {
            let what = format!("the descriptor {} in a {name}", call.argument(0));
            return Err(Trouble::lacks(line, what));
        }
        let event = match name {
            "socket" if self.sockets.made.is_some() => {
                return Err(Trouble::lacks(line, "a second connection"));
            }
            "socket" => {
                self.sockets.made = call.result.map(|number| number.to_string());
                None
            }
            "bind" | "fcntl" => None,
            "listen" => {
                self.sockets.listener = Some(call.argument(0).to_owned());
                Some(CallEvent::Listen)
            }
            "connect" => {
                if call.has_failed() && call.errno != "EINPROGRESS" {
                    return Err(Trouble::lacks(
                        line,
                        format!("a connect that ends in {}", call.errno),
                    ));
                }
                self.sockets.connection = Some(call.argument(0).to_owned());
                Some(CallEvent::Connect)
            }
            "accept" | "accept4" => self.accept(line, &call)?,
            "read" | "recv" | "recvfrom" | "readv" | "recvmsg" => {
                Some(self.read_of(line, &call, timed)?)
            }
            "write" | "send" | "sendto" | "writev" | "sendmsg" => Some(write_of(line, &call)?),
            "close" => self.close_of(&call),
            "setsockopt" => option_of(line, &call)?,
            "shutdown" => match call.argument(1) {
                "SHUT_WR" if !call.has_failed() => Some(CallEvent::ShutDown),
                other => return Err(Trouble::lacks(line, format!("a shutdown of {other}"))),
            },
            "ioctl" => return self.ioctl_of(line, &call, timed),
            "getsockopt" => match call.argument(2) {
                "SO_ERROR" if matches!(call.argument(3), "[0]" | "...") => None,
                other => return Err(Trouble::lacks(line, format!("a look at {other}"))),
            },
            name => return Err(Trouble::lacks(line, format!("the call {name}"))),
        };
        match event {
            Some(event) => self.push(line, timed.when(), Event::Call(event)),
            None => self.waits(line, timed),
        }
    }

    /// `name(arguments) = result ERRNO (its text)`.
    fn call_as_written(&mut self) -> Result<Call, Trouble> {
        let name = self.scan.word().to_owned();
        if name.is_empty() || !self.scan.take("(") {
            return Err(self.scan.expected("a packet (< or >), a call, a command in ` ` or %{ }%"));
        }
        let arguments = self.scan.arguments()?;
        let mut call = Call { name, arguments, result: None, errno: String::new() };
        if !self.scan.take("=") {
            return Ok(call);
        }
        if self.scan.take("?") {
            return Ok(call);
        }
        let negative = self.scan.take("-");
        let digits = self.scan.take_while(|c| c.is_ascii_alphanumeric());
        let value = match digits.strip_prefix("0x") {
            Some(digits) => i64::from_str_radix(digits, 16),
            None => digits.parse(),
        };
        let Ok(value) = value else {
            return Err(self.scan.mistake(format!("`{digits}` is not the result of a call")));
        };
        call.result = Some(if negative { -value } else { value });
        if negative {
            call.errno = self.scan.word().to_owned();
        }
        if self.scan.take("(") {
            // What the error says, or the flags of fcntl in words.
            self.scan.until(")", "the text of a result")?;
        }
        Ok(call)
    }

    fn accept(&mut self, line: u32, call: &Call) -> Result<Option<CallEvent>, Trouble> {
        if call.has_failed() {
            return Err(Trouble::lacks(line, format!("an accept that ends in {}", call.errno)));
        }
        if self.sockets.connection.is_some() {
            return Err(Trouble::lacks(line, "a second connection"));
        }
        self.sockets.connection = call.result.map(|number| number.to_string());
        Ok(None)
    }

    fn read_of(&mut self, line: u32, call: &Call, timed: &Timed) -> Result<CallEvent, Trouble> {
        let none = call.errno == "EAGAIN";
        if call.has_failed() && !none {
            return Err(Trouble::lacks(line, format!("a read that ends in {}", call.errno)));
        }
        let Some(most) = call.bytes() else {
            return Err(Trouble::mistake(
                line,
                format!("{}: how many bytes it reads is a number", call.name),
            ));
        };
        let number = |number: u64| Expr::Number(i128::from(number));
        let gives = if none { Some(0) } else { call.result.map(i64::unsigned_abs) };
        let at_end =
            if none { Some(false) } else { (gives == Some(0) && most > 0).then_some(true) };
        let returns = timed.returns_ns.map(|ns| (number(ns), number(ns)));
        Ok(CallEvent::Read(ReadEvent {
            most: Some(number(most)),
            gives: gives.map(number),
            at_end,
            returns,
        }))
    }

    /// `ioctl(4, SIOCINQ, [1000])` looks at what waits for a read.
    fn ioctl_of(&mut self, line: u32, call: &Call, timed: &Timed) -> Result<(), Trouble> {
        let value = call.argument(2).trim_matches(['[', ']']).trim().parse::<u32>();
        match (call.argument(1), value) {
            ("SIOCINQ" | "FIONREAD", Ok(bytes)) => {
                let condition = Condition::Compare {
                    left: Expr::Name("unread".to_owned()),
                    comparison: Comparison::Equal,
                    right: Expr::Number(bytes.into()),
                    text: format!("{} == {bytes}", call.argument(1)),
                };
                self.push(line, timed.when(), Event::Expect(vec![condition]))
            }
            (name, _) => Err(Trouble::lacks(line, format!("the ioctl {name}"))),
        }
    }

    fn close_of(&mut self, call: &Call) -> Option<CallEvent> {
        let number = call.argument(0);
        let of_listener = self.sockets.listener.as_deref() == Some(number);
        // The connection lives on without the socket that it came from.
        if of_listener && self.sockets.connection.is_some() {
            return None;
        }
        Some(CallEvent::Close)
    }
}

fn write_of(line: u32, call: &Call) -> Result<CallEvent, Trouble> {
    let Some(bytes) = call.bytes() else {
        return Err(Trouble::mistake(
            line,
            format!("{}: how many bytes it writes is a number", call.name),
        ));
    };
    match call.result {
        Some(result) if result < 0 => {
            Err(Trouble::lacks(line, format!("a write that ends in {}", call.errno)))
        }
        Some(result) if result.unsigned_abs() != bytes => {
            Err(Trouble::lacks(line, "a write of which the socket takes a part"))
        }
        _ => {
            let bytes = Expr::Number(i128::from(bytes));
            let is_more = call.arguments.iter().any(|argument| argument.contains("MSG_MORE"));
            Ok(if is_more { CallEvent::WriteBeforeMore(bytes) } else { CallEvent::Write(bytes) })
        }
    }
}

fn option_of(line: u32, call: &Call) -> Result<Option<CallEvent>, Trouble> {
    let name = call.argument(2);
    if call.has_failed() {
        return Err(Trouble::lacks(
            line,
            format!("a setsockopt of {name} that ends in {}", call.errno),
        ));
    }
    let value = call.argument(3).trim_start_matches('[').trim_end_matches(']').trim();
    if name == "TCP_CONGESTION" {
        let name = super::algorithm(line, value.trim_matches('"'))?;
        return Ok(Some(CallEvent::SetCongestion(name)));
    }
    if WITHOUT_EFFECT.contains(&name) {
        return Ok(None);
    }
    let Some((_, option)) = OPTIONS.iter().find(|(known, _)| *known == name) else {
        return Err(Trouble::lacks(line, format!("the socket option {name}")));
    };
    match value.parse::<u32>() {
        Ok(value) => Ok(Some(CallEvent::Set { option, value: Expr::Number(i128::from(value)) })),
        Err(_) => {
            Err(Trouble::mistake(line, format!("setsockopt of {name}: `{value}` is not a number")))
        }
    }
}
