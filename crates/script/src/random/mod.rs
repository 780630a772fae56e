//! Random conversations: scripts whose answers are the simulator's, to be compared with a kernel's.
//!
//! The peer loses, reorders and marks segments, acknowledges them with SACK and DSACK, seldom or late, opens and
//! closes its window, and sends data itself; the application writes, reads and waits. The simulator executes each line
//! as it is generated, and its segments and state become the script's expectations. Parts that would differ on a
//! machine that is some ms late are removed.

mod dice;
mod late;
mod peer;
mod plan;

use crate::play::live::Live;
use crate::script::{Error, Script};
use crate::show;
use crate::sim::{Profile, SimStack};
use crate::stack::Refusal;
use dice::Dice;
use knee_queue::Ecn;
use knee_queue::time::{Duration, Time};
use knee_wire::Segment;
use peer::{Arrival, Echo};
use plan::Plan;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Longest conversation, lines and time.
const MAX_LINES: usize = 160;
const MAX_TIME: Time = Time::from_ms(2_500);
/// Time without events that ends the conversation.
const SILENCE: Duration = Duration::from_ms(900);
/// Wait of the peer after a segment sent by a timer or by pacing.
const QUIET: Duration = Duration::from_ms(8);

/// Values that are checked after every event.
const LOOKED_AT: &[&str] = &[
    "cwnd",
    "ssthresh",
    "ca_state",
    "lost",
    "retrans",
    "sacked",
    "reordering",
    "delivered",
    "delivered_ce",
    "unacked",
    "retransmits",
    "backoff",
    "total_retrans",
    "bytes_acked",
    "bytes_received",
    "rcv_mss",
];

#[derive(Clone, Debug)]
enum Action {
    /// A segment reaches the peer.
    Arrive(Arrival),
    /// The peer's delayed ACK.
    Delayed,
    /// The peer's application reads.
    PeerReads,
    /// A segment of the peer: first byte, length.
    PeerData(u32, u32),
    Write(u64),
    Read(Option<u64>),
    Close,
}

/// A conversation of an algorithm with a random peer, as the text of a script. The same seed gives the same text.
///
/// # Errors
/// What the simulator does not have.
pub fn conversation(algorithm: &str, seed: u64, profile: Profile) -> Result<String, Error> {
    // Other algorithms have other conversations.
    let mut dice = algorithm
        .bytes()
        .fold(Dice::new(seed), |mut dice, byte| Dice::new(dice.below(u64::MAX) ^ u64::from(byte)));
    let plan = Plan::new(algorithm, &mut dice);
    let head = plan.head(algorithm, seed, profile);
    // A script has an event.
    let read = Script::parse("random", &(head.join("\n") + "\nwait\n"))?;
    let refused = |why: Refusal| Error { file: "random".to_owned(), line: 0, text: why.0 };
    let mut stack = SimStack::new(&read.settings, profile).map_err(refused)?;
    let mut talk = Talk {
        live: Live::new(&read, &mut stack),
        lines: head,
        agenda: BTreeMap::new(),
        entries: 0,
        sent: Vec::new(),
        script_recent: None,
        script_ack: 1,
        told: BTreeMap::new(),
        peer: plan.peer(),
        peer_sent: 1,
        script_next: 1,
        peer_must_reduce: false,
        read_bytes: 0,
        is_closed: false,
        plan,
        dice,
    };
    talk.hold()?;
    let Talk { lines, mut dice, .. } = talk;
    let lines = late::firm(lines, profile, &mut dice)?;
    Ok(lines.join("\n") + "\n")
}

struct Sent {
    line: usize,
    is_named: bool,
}

struct Talk<'a> {
    live: Live<'a>,
    plan: Plan,
    dice: Dice,
    lines: Vec<String>,
    /// Future actions by time.
    agenda: BTreeMap<(Time, u64), Action>,
    entries: u64,
    /// Segments that the stack has sent.
    sent: Vec<Sent>,
    /// The segment that the script's player would echo, and the highest ACK that it knows.
    script_recent: Option<usize>,
    script_ack: u32,
    /// The last expected values.
    told: BTreeMap<&'static str, i128>,
    peer: peer::Peer,
    /// Next byte that the peer sends, and the one that the script's player would fill in.
    peer_sent: u32,
    script_next: u32,
    /// The peer has got ECE.
    peer_must_reduce: bool,
    read_bytes: u64,
    is_closed: bool,
}

impl Talk<'_> {
    fn refused(&self, why: Refusal) -> Error {
        Error { file: "random".to_owned(), line: self.lines.len() as u32, text: why.0 }
    }

    fn add(&mut self, at: Time, action: Action) {
        self.entries += 1;
        self.agenda.insert((at, self.entries), action);
    }

    fn hold(&mut self) -> Result<(), Error> {
        for line in self.plan.opening() {
            self.live.line(&line, None)?;
            self.lines.push(line);
        }
        let start = self.live.now();
        for (after, action) in self.plan.actions(&mut self.dice) {
            self.add(start + after, action);
        }
        self.peer.window_end = if self.peer.buffer_bytes > 0 { 65_536 } else { 0 };
        while self.lines.len() < MAX_LINES && self.live.now() < MAX_TIME {
            let due = self.agenda.keys().next().map(|(at, _)| *at);
            let until = due.map_or(self.live.now() + SILENCE, |due| self.after_whole_ms(due));
            if let Some((at, segment)) = self.live.next(until).map_err(|why| self.refused(why))? {
                self.out(at, &segment);
                continue;
            }
            match self.agenda.pop_first() {
                Some((_, action)) => self.act(action)?,
                None => break,
            }
        }
        Ok(())
    }

    /// The first moment not before `due` that is a whole number of ms after the last event, and in some distance
    /// from it.
    fn after_whole_ms(&self, due: Time) -> Time {
        let last = self.live.last();
        // What a kernel does one after the other would have one time on the simulator.
        let quiet = if self.plan.is_paced { QUIET } else { Duration::from_ms(1) };
        let wait = due.since(last).max(quiet);
        last + Duration::from_ms(wait.us().div_ceil(1000))
    }

    /// Writes a line for now and does it.
    fn event(&mut self, text: &str, echoes: Option<usize>) -> Result<(), Error> {
        let wait_ms = self.live.now().since(self.live.last()).us() / 1000;
        let line = if wait_ms == 0 { text.to_owned() } else { format!("+{wait_ms}ms {text}") };
        let name = echoes.map(|index| format!("s{index}"));
        if let Some(index) = echoes {
            let sent = &mut self.sent[index];
            if !sent.is_named {
                sent.is_named = true;
                let _ = write!(self.lines[sent.line], ", as s{index}");
            }
        }
        self.live.line(&line, name.as_deref())?;
        self.lines.push(line);
        // What leaves at once.
        let now = self.live.now();
        while let Some((at, segment)) = self.live.next(now).map_err(|why| self.refused(why))? {
            self.out(at, &segment);
        }
        self.expect()
    }

    fn expect(&mut self) -> Result<(), Error> {
        if self.is_closed {
            return Ok(());
        }
        let info = self.live.info().map_err(|why| self.refused(why))?;
        let mut text = String::new();
        for name in LOOKED_AT {
            let Some((_, value)) = info.values.iter().find(|(known, _)| known == name) else {
                continue;
            };
            if self.told.insert(name, *value) != Some(*value) {
                let shown = match (*name, *value) {
                    ("ssthresh", 0x7fff_ffff) => "infinite".to_owned(),
                    ("ca_state", state @ 0..=4) => {
                        ["Open", "Disorder", "CWR", "Recovery", "Loss"][state as usize].to_owned()
                    }
                    _ => value.to_string(),
                };
                let comma = if text.is_empty() { "" } else { ", " };
                let _ = write!(text, "{comma}{name} == {shown}");
            }
        }
        if !text.is_empty() {
            self.lines.push(format!("expect {text}"));
        }
        Ok(())
    }

    /// The stack has sent a segment.
    fn out(&mut self, at: Time, segment: &Segment) {
        let flags = segment.flags & !Segment::PSH;
        let gap_us = at.since(self.live.last()).us();
        let mut line = String::new();
        if gap_us > 0 {
            // Timers of Linux are late by up to an eighth.
            let (low, high) = (gap_us - gap_us / 8, gap_us + gap_us / 8);
            let _ = write!(line, "+{}ms..{}ms ", (low / 1000).saturating_sub(3), high / 1000 + 4);
        }
        let _ = write!(line, "out {}", show::flags(flags));
        let has_fin = segment.has(Segment::FIN);
        if segment.len > 0 || has_fin {
            let _ = write!(line, " seq {}", show::range(segment.seq, segment.len));
        }
        let _ = write!(line, ", ack {}", segment.ack);
        if self.plan.echo != Echo::None {
            let _ = write!(line, ", {}", show::ecn(segment.ecn));
        }
        if !segment.sacks.is_empty() {
            let _ = write!(line, ", sack {}", show::sacks(&segment.sacks));
        }
        let index = self.sent.len();
        let has_data = segment.len > 0 || has_fin;
        let is_lost = has_data && self.dice.percent(self.plan.loss);
        if is_lost {
            line.push_str(", lost");
        }
        self.sent.push(Sent { line: self.lines.len(), is_named: false });
        self.lines.push(line);
        self.live.note(at, segment, format!("s{index}"), is_lost);
        if !is_lost && segment.timestamps.is_some() && segment.seq <= self.script_ack {
            self.script_recent = Some(index);
        }
        if is_lost || segment.has(Segment::RST) {
            return;
        }
        let arrival = Arrival {
            index,
            seq: segment.seq,
            end: segment.seq + segment.len + u32::from(has_fin),
            is_ce: segment.ecn != Ecn::NotEct && self.dice.percent(self.plan.mark),
            has_cwr: segment.has(Segment::CWR),
        };
        if segment.has(Segment::ECE) {
            self.peer_must_reduce = true;
        }
        if has_data {
            let late = if self.dice.percent(self.plan.reorder) {
                self.dice.of(&[6, 12, 24, 80])
            } else {
                0
            };
            let arrives = at + self.plan.rtt + Duration::from_ms(6 + late);
            self.add(arrives, Action::Arrive(arrival));
        } else {
            // It takes no part in what is acknowledged.
            if arrival.seq <= self.peer.next && segment.timestamps.is_some() {
                self.peer.recent = Some(index);
            }
        }
    }

    fn act(&mut self, action: Action) -> Result<(), Error> {
        match action {
            Action::Arrive(arrival) => {
                if self.peer.changes_mark(&arrival) {
                    self.acknowledge()?;
                }
                if self.peer.receive(&arrival) {
                    return self.acknowledge();
                }
                let delayed = self.live.now() + Duration::from_ms(40);
                self.add(delayed, Action::Delayed);
                Ok(())
            }
            Action::Delayed if self.peer.pending == 0 => Ok(()),
            Action::Delayed => self.acknowledge(),
            Action::PeerReads => {
                let was_full = self.peer.is_full();
                self.peer.unread_bytes = 0;
                if was_full { self.acknowledge() } else { Ok(()) }
            }
            Action::PeerData(seq, len) => self.peer_data(seq, len),
            Action::Write(_) | Action::Read(_) | Action::Close if self.is_closed => Ok(()),
            Action::Write(bytes) => self.event(&format!("write {bytes}"), None),
            Action::Read(most) => {
                let there = self.told.get("bytes_received").copied().unwrap_or(0);
                let unread = u64::try_from(there).unwrap_or(0).saturating_sub(self.read_bytes);
                if unread == 0 {
                    return Ok(());
                }
                self.read_bytes += most.unwrap_or(u64::MAX).min(unread);
                let text = most.map_or("read".to_owned(), |most| format!("read {most}"));
                self.event(&text, None)
            }
            Action::Close => {
                self.is_closed = true;
                self.event("close", None)
            }
        }
    }

    /// The peer sends an ACK, or it is lost.
    fn acknowledge(&mut self) -> Result<(), Error> {
        let flags = self.peer.flags();
        let may_lose = self.peer.may_lose_ack();
        let rest = self.peer.acknowledge();
        if may_lose && self.dice.percent(self.plan.ack_loss) {
            return Ok(());
        }
        self.send(&format!("[.{flags}]"), "", &rest)
    }

    /// A segment of the peer. `rest`: its ACK number, window and SACK.
    fn send(&mut self, flags: &str, seq: &str, rest: &str) -> Result<(), Error> {
        let mut text = format!("in {flags} ");
        if !seq.is_empty() {
            let _ = write!(text, "{seq}, ");
        } else if self.peer_sent != self.script_next {
            let _ = write!(text, "seq {}, ", self.peer_sent);
        }
        text.push_str(rest);
        let echoes = self
            .peer
            .recent
            .filter(|recent| self.plan.has_timestamps && Some(*recent) != self.script_recent);
        if let Some(index) = echoes {
            let _ = write!(text, ", ecr s{index}");
        }
        self.script_ack = self.script_ack.max(self.peer.next);
        self.peer.told = self.peer.next;
        self.event(&text, echoes)
    }

    fn peer_data(&mut self, seq: u32, len: u32) -> Result<(), Error> {
        let end = seq + len;
        self.peer_sent = self.peer_sent.max(end);
        let again = self.live.now() + self.dice.ms(150, 260);
        if self.plan.has_gaps && self.dice.percent(self.plan.loss) {
            self.add(again, Action::PeerData(seq, len));
            return Ok(());
        }
        if self.dice.percent(5) {
            // Sent again though it has arrived.
            self.add(again, Action::PeerData(seq, len));
        }
        self.script_next = self.script_next.max(end);
        let mut flags = format!("[P.{}", self.peer.flags());
        if self.plan.echo != Echo::None && self.peer_must_reduce && self.dice.percent(70) {
            self.peer_must_reduce = false;
            flags.push('W');
        }
        flags.push(']');
        let mark = if self.plan.echo == Echo::None {
            ""
        } else if self.dice.percent(self.plan.mark) {
            ", ce"
        } else {
            ", ect0"
        };
        let rest = self.peer.acknowledge();
        self.send(&flags, &format!("seq {seq}:{end}{mark}"), &rest)
    }
}
