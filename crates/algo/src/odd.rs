//! Warnings about values that no correct algorithm sets. A user's file with such values does not
//! crash, but its results are wrong.

use std::fmt;

use crate::TcpSock;
use crate::module::{Running, seconds};

/// Largest plausible cwnd, in packets. A larger one means some 25 GB in flight, or a number below
/// zero.
pub const MOST_CWND_PKTS: u32 = 1 << 24;
/// Round trips without growth of cwnd that count as an oddity.
pub const RTTS_WITHOUT_GROWTH: u64 = 100;

/// Behaviour that no correct algorithm shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oddity {
    /// The algorithm set cwnd to 0, so the sender stops.
    CwndZero,
    /// The algorithm set cwnd above [`MOST_CWND_PKTS`].
    CwndHuge,
    /// The algorithm set ssthresh below 2 packets, which the kernel never does.
    SsthreshSmall,
    /// The algorithm set the pacing rate to 0 while data waited to be sent.
    PacingZero,
    /// For [`RTTS_WITHOUT_GROWTH`], only cwnd limited the sender and no loss or mark occurred, but
    /// cwnd did not grow.
    NoGrowth,
}

impl Oddity {
    /// All oddities.
    pub const ALL: [Oddity; 5] = [
        Oddity::CwndZero,
        Oddity::CwndHuge,
        Oddity::SsthreshSmall,
        Oddity::PacingZero,
        Oddity::NoGrowth,
    ];

    /// Returns the name in results.
    pub fn name(self) -> &'static str {
        match self {
            Oddity::CwndZero => "cwnd_zero",
            Oddity::CwndHuge => "cwnd_huge",
            Oddity::SsthreshSmall => "ssthresh_small",
            Oddity::PacingZero => "pacing_zero",
            Oddity::NoGrowth => "no_growth",
        }
    }
}

/// An oddity of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The file, as the user named it.
    pub path: String,
    /// The kind of oddity.
    pub oddity: Oddity,
    /// Number of occurrences.
    pub count: u64,
    /// Simulated time of the first occurrence, in ns.
    pub first_at_ns: u64,
    /// The value after the first occurrence.
    pub value: u64,
    /// The operation after which the first occurrence was found; the kernel's ACK if it followed no
    /// operation.
    pub operation: &'static str,
    /// The place of that operation's function, and the lines of the file that set the field:
    /// `foo_cong_avoid, tcp_foo.c:81; line 87 sets snd_cwnd`.
    pub line: Option<String>,
}

impl Warning {
    /// Formats the simulated time of the first occurrence.
    pub fn at(&self) -> String {
        seconds(self.first_at_ns)
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, operation) = (self.value, self.operation);
        match self.oddity {
            Oddity::CwndZero => write!(f, "{operation} left cwnd at 0, so nothing is sent")?,
            Oddity::CwndHuge => write!(
                f,
                "{operation} left cwnd at {value} packets, more than {MOST_CWND_PKTS}: a difference below zero?"
            )?,
            Oddity::SsthreshSmall => {
                write!(f, "{operation} made ssthresh {value}, below 2 packets")?
            }
            Oddity::PacingZero => {
                write!(f, "the pacing rate is 0 while data waits, so nothing is paced")?
            }
            Oddity::NoGrowth => write!(
                f,
                "cwnd stayed at {value} packets or below for {RTTS_WITHOUT_GROWTH} RTTs without loss or mark, and limited the sender (delay-based algorithms do this at their target)"
            )?,
        }
        if let Some(line) = &self.line {
            write!(f, " ({line})")?;
        }
        Ok(())
    }
}

/// Checks the values of one connection.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    found: [Option<Box<Warning>>; Oddity::ALL.len()],
    /// Oddities present after the last call, as bits of [`Oddity`]. Only a new one is counted; one
    /// that lasts is not.
    last: u8,
    /// The operation called last.
    operation: &'static str,
    growth: Growth,
}

/// Time since which cwnd could have grown but did not.
#[derive(Debug, Default)]
struct Growth {
    since_ns: u64,
    most_cwnd: u32,
    /// Number of packets lost or marked.
    congestion: u32,
}

impl Watch {
    pub(crate) fn warnings(&self) -> Vec<Warning> {
        self.found.iter().flatten().map(|warning| (**warning).clone()).collect()
    }

    /// Checks the values after a call.
    #[inline]
    pub(crate) fn after_call(
        &mut self,
        sock: &TcpSock,
        operation: &'static str,
        result: u32,
        running: &Running,
    ) {
        self.operation = operation;
        let ssthresh = if operation == "ssthresh" { result } else { sock.snd_ssthresh };
        let now = u8::from(sock.snd_cwnd == 0)
            | u8::from(sock.snd_cwnd > MOST_CWND_PKTS) << 1
            | u8::from(ssthresh < 2) << 2;
        let before = self.last;
        self.last = now | before & 8;
        if now & !before != 0 && sock.mss_cache != 0 {
            let values = [0, u64::from(sock.snd_cwnd), u64::from(ssthresh)];
            for (at, value) in values.into_iter().enumerate() {
                if now & !before & 1 << at != 0 {
                    self.count(Oddity::ALL[at], sock, value, running);
                }
            }
        }
    }

    /// Checks the values after an ACK has been processed.
    pub(crate) fn after_ack(&mut self, sock: &TcpSock, waits: bool, running: &Running) {
        // The pacing rate has no effect unless pacing is on.
        let is_stopped = sock.sk_pacing_rate == 0 && waits && sock.sk_pacing_status != 0;
        if is_stopped && self.last & 8 == 0 {
            self.count(Oddity::PacingZero, sock, 0, running);
        }
        self.last = self.last & !8 | u8::from(is_stopped) << 3;
        let congestion = sock.lost.wrapping_add(sock.delivered_ce);
        let growth = &mut self.growth;
        // The receiver's window must have room for one more packet, and the application must have
        // supplied it.
        let cwnd_bytes = u64::from(sock.snd_cwnd) * u64::from(sock.mss_cache);
        let has_room = u64::from(sock.snd_wnd) >= cwnd_bytes + u64::from(sock.mss_cache);
        let is_there = sock.write_seq.wrapping_sub(sock.snd_nxt) >= sock.mss_cache;
        let could_grow = waits
            && has_room
            && is_there
            && sock.is_cwnd_limited != 0
            && sock.icsk_ca_state == crate::ca_state::OPEN
            && sock.snd_cwnd < sock.snd_cwnd_clamp.min(MOST_CWND_PKTS);
        let rtt_ns = u64::from(sock.srtt_us >> 3) * 1000;
        if !could_grow || sock.snd_cwnd > growth.most_cwnd || congestion != growth.congestion {
            *growth =
                Growth { since_ns: sock.tcp_clock_cache, most_cwnd: sock.snd_cwnd, congestion };
        } else if sock.tcp_clock_cache - growth.since_ns > RTTS_WITHOUT_GROWTH * rtt_ns
            && rtt_ns > 0
        {
            growth.since_ns = sock.tcp_clock_cache;
            let value = u64::from(growth.most_cwnd);
            self.count(Oddity::NoGrowth, sock, value, running);
        }
    }

    #[cold]
    fn count(&mut self, oddity: Oddity, sock: &TcpSock, value: u64, running: &Running) {
        let operation = self.operation;
        let found = &mut self.found[oddity as usize];
        let warning = found.get_or_insert_with(|| {
            Box::new(Warning {
                path: running.path().display().to_string(),
                oddity,
                count: 0,
                first_at_ns: sock.tcp_clock_cache,
                value,
                operation,
                line: place(oddity, operation, running),
            })
        });
        warning.count += 1;
    }
}

fn place(oddity: Oddity, operation: &'static str, running: &Running) -> Option<String> {
    let function = running.line(operation).map(|line| line.to_string());
    let field = match oddity {
        Oddity::CwndZero | Oddity::CwndHuge | Oddity::NoGrowth => "snd_cwnd",
        Oddity::PacingZero => "sk_pacing_rate",
        // The function usually returns ssthresh without setting a field.
        Oddity::SsthreshSmall if operation == "ssthresh" => return function,
        Oddity::SsthreshSmall => "snd_ssthresh",
    };
    let parts: Vec<String> = function.into_iter().chain(running.setting(field)).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}
