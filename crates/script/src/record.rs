//! The other way round: from what one end of a connection sent and received, a script that says so.
//!
//! What a capture cannot show is guessed and said to be: what the application wrote and read, which segments were
//! lost on their way, and when timers began. The script is one to begin with.

mod closing;
mod echo;
mod lines;
mod opening;
mod reads;
mod simulated;
mod writes;

pub use simulated::of_run;

use crate::parse;
use crate::play::WINDOW_SCALE;
use crate::script::Script;
use crate::settings::{GSO_SEGS, MSS_BYTES, Settings, TIMESTAMPS_BYTES};
use crate::show;
use crate::stack::Refusal;
use closing::Closing;
use echo::Echo;
use knee_queue::Ecn;
use knee_queue::time::Duration;
use knee_sim::tap::Tapped;
use knee_wire::Segment;
use lines::{Lines, Tolerance};
use reads::Reads;
use std::fmt::Write as _;

/// Segments of a connection that go into a script; longer ones are for other tools.
pub const MAX_SEGMENTS: usize = 10_000;
/// Segments after merged ones were taken apart: beyond this the rest is left out.
const MAX_STEPS: usize = 4 * MAX_SEGMENTS;

/// Description of a recording.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// Where it comes from: lines of the comment at the script's head.
    pub origin: Vec<String>,
    /// The script's title.
    pub title: String,
    /// Algorithm, offload and sysctls as far as they are known. MSS and IP version come from it only where
    /// `is_exact`.
    pub settings: Settings,
    /// When the script's first call is: where the coarse clock of the recorded host stood.
    pub first: Duration,
    /// Recorded from the simulator: times are exact, and the settings are the host's.
    pub is_exact: bool,
    /// More segments were there than were kept.
    pub is_cut: bool,
}

/// Writes the script of the connection of `segments`, as seen at the end that is under test: times in order, sequence
/// numbers from the initial ones of their direction.
///
/// # Errors
/// If there is nothing in it that a script could say.
pub fn record(about: &About, segments: &[Tapped]) -> Result<String, Refusal> {
    let mut most = segments.len().min(MAX_SEGMENTS);
    loop {
        let is_cut = about.is_cut || most < segments.len();
        let text = Recorder::new(about, &segments[..most])?.text(is_cut);
        if text.len() <= parse::MAX_BYTES {
            Script::parse("the script made of it", &text)
                .map_err(|why| Refusal(format!("no script can express this connection: {why}")))?;
            return Ok(text);
        }
        most /= 2;
    }
}

/// A segment with its place in the script.
#[derive(Clone, Debug)]
struct Step {
    at_ns: u64,
    is_out: bool,
    segment: Segment,
}

/// The peer's state as a script's player (`play.rs`) tracks it: fields that it fills in are not written.
#[derive(Default)]
struct Model {
    /// Next byte of the peer, and the end of what the stack has sent.
    next_seq: u32,
    sent_end: u32,
}

struct Recorder<'a> {
    about: &'a About,
    steps: Vec<Step>,
    settings: Settings,
    /// The peer's window was, or could have been, what held the sender back.
    window_matters: bool,
    has_timestamps: bool,
    has_ecn: bool,
    /// Packets were merged by an offload.
    is_merged: bool,
    /// Too many segments: some were left out.
    is_cut: bool,
}

impl<'a> Recorder<'a> {
    fn new(about: &'a About, segments: &[Tapped]) -> Result<Recorder<'a>, Refusal> {
        let Some(first) = segments.first() else {
            return Err(Refusal("it contains no TCP segment".to_owned()));
        };
        let mut settings = about.settings.clone();
        if !about.is_exact {
            settings.mss_bytes = mss_of(segments);
            implied_sysctls(segments, &mut settings);
        }
        if !MSS_BYTES.contains(&settings.mss_bytes) {
            return Err(Refusal(format!(
                "its segments have {} bytes; scripts support {} to {}",
                settings.mss_bytes,
                MSS_BYTES.start(),
                MSS_BYTES.end()
            )));
        }
        let has_timestamps = segments
            .iter()
            .any(|tapped| !tapped.segment.has(Segment::SYN) && tapped.segment.timestamps.is_some());
        let full = if has_timestamps || about.is_exact {
            settings.mss_bytes
        } else {
            settings.mss_bytes + TIMESTAMPS_BYTES
        };
        let mut steps = Vec::with_capacity(segments.len());
        let mut is_merged = false;
        let mut last_ns = 0;
        let mut is_cut = false;
        for tapped in segments {
            if steps.len() >= MAX_STEPS {
                is_cut = true;
                break;
            }
            // Clocks of captures may step back.
            let at_ns = tapped.at.ns().saturating_sub(first.at.ns()).max(last_ns);
            last_ns = at_ns;
            is_merged |= tapped.segment.len > full;
            let parts = in_full_segments(&tapped.segment, full).take(MAX_STEPS);
            steps.extend(parts.map(|segment| Step { at_ns, is_out: tapped.is_out, segment }));
        }
        if !about.is_exact {
            let sent = segments.iter().filter(|tapped| tapped.is_out);
            let most = sent.map(|tapped| tapped.segment.len.div_ceil(full)).max().unwrap_or(1);
            settings.gso_max_segs = most.clamp(*GSO_SEGS.start(), *GSO_SEGS.end());
        }
        Ok(Recorder {
            about,
            window_matters: window_matters(&steps, settings.mss_bytes),
            has_ecn: steps.iter().any(|step| step.is_out && step.segment.ecn != Ecn::NotEct),
            has_timestamps,
            is_merged,
            is_cut,
            steps,
            settings,
        })
    }

    fn text(&self, is_cut: bool) -> String {
        let mut text = self.head();
        let mut lines = Lines::new(Tolerance { is_exact: self.about.is_exact });
        let writes = writes::of(&self.steps, self.settings.mss_bytes);
        let echo = Echo::of(&self.steps);
        let closing = Closing::of(&self.steps, &writes);
        let begun = opening::write(&self.steps, self.about.first, &mut lines);
        let mut model = Model::default();
        if begun.is_invented {
            model = Model { next_seq: 1, sent_end: 1 };
        }
        let mut reads = Reads::default();
        for index in begun.next..self.steps.len() {
            let step = &self.steps[index];
            let closes = closing.before == Some(index);
            if closing.unread_from == Some(index) {
                reads.end();
            }
            if reads.come_before(step, &self.settings) || (closes && reads.is_waiting()) {
                lines.now("read".to_owned());
            }
            if closes {
                reads.end();
            }
            if step.is_out {
                if let Some(bytes) = writes.get(&index) {
                    lines.exactly(step.at_ns, format!("write {}", self.bytes(*bytes)));
                }
                if closes {
                    lines.exactly(step.at_ns, "close".to_owned());
                }
                lines.out(step.at_ns, self.out_line(index, &echo, &mut model));
            } else {
                if closes {
                    lines.now("close".to_owned());
                }
                lines.exactly(step.at_ns, self.in_line(index, &echo, &mut model));
            }
            if reads.come_behind(step) {
                lines.now("read".to_owned());
            }
        }
        if reads.is_waiting() {
            lines.now("read".to_owned());
        }
        text.push_str(&lines.text());
        if is_cut || self.is_cut {
            text.push_str("\n# More followed than scripts are for.\n");
        }
        text
    }

    fn head(&self) -> String {
        let mut text = String::new();
        let mut comment = |line: &str| {
            let _ = writeln!(text, "# {}", one_line(line));
        };
        for line in &self.about.origin {
            comment(line);
        }
        comment("The application's writes, reads and close are a guess from the segments.");
        if !self.about.is_exact {
            comment("Times are those of the capture: the host's own if it was taken there.");
        }
        if self.is_merged {
            comment(
                "Offloads merged segments where it was taken: they appear here as full segments.",
            );
        }
        if self.window_matters {
            comment("The peer's window limited the sender, so each of its segments states it.");
        }
        text.push('\n');
        let settings = &self.settings;
        let title = one_line(&self.about.title);
        if !title.trim().is_empty() {
            let _ = writeln!(text, "title {title}\n");
        }
        let params = settings.params.iter().map(|(name, value)| format!(" {name}={value}"));
        let _ = writeln!(text, "algorithm {}{}", settings.algorithm, params.collect::<String>());
        let _ = writeln!(text, "mss {}", settings.mss_bytes);
        if settings.ipv6 {
            text.push_str("ip 6\n");
        }
        if settings.gso_max_segs != 1 {
            let _ = writeln!(text, "gso {}", settings.gso_max_segs);
        }
        if let Some(base_rtt) = settings.base_rtt {
            let _ = writeln!(text, "base_rtt {}", lines::span(base_rtt.ns()));
        }
        for (name, value) in &settings.sysctls {
            let _ = writeln!(text, "sysctl {name} = {value}");
        }
        text.push('\n');
        text
    }

    fn bytes(&self, bytes: u64) -> String {
        let mss = u64::from(self.settings.mss_bytes);
        match (bytes / mss, bytes % mss) {
            (1, 0) => "mss".to_owned(),
            (segments @ 2.., 0) => format!("{segments}*mss"),
            _ => bytes.to_string(),
        }
    }

    fn len(&self, len: u32) -> String {
        if len == self.settings.mss_bytes { "mss".to_owned() } else { len.to_string() }
    }

    fn out_line(&self, index: usize, echo: &Echo, model: &mut Model) -> String {
        let segment = &self.steps[index].segment;
        let syn = segment.has(Segment::SYN);
        // Where it asks for PSH says how the application wrote: that is a guess already.
        let mut line = format!("out {}", show::flags(segment.flags & !Segment::PSH));
        let mut parts = Vec::new();
        let end = end_of(segment);
        if syn {
            parts.push(format!("seq {}", segment.seq));
        } else if segment.len > 0 && segment.seq == model.sent_end {
            parts.push(format!("len {}", self.len(segment.len)));
        } else if segment.len > 0 || segment.seq != model.sent_end {
            parts.push(format!("seq {}", show::range(segment.seq, segment.len)));
        }
        if segment.has(Segment::ACK) && (segment.len == 0 || model.next_seq > 1) {
            parts.push(format!("ack {}", segment.ack));
        }
        if segment.ecn != Ecn::NotEct || (self.has_ecn && segment.len > 0) {
            parts.push(show::ecn(segment.ecn).to_owned());
        }
        if !segment.sacks.is_empty() {
            parts.push(format!("sack {}", show::sacks(&segment.sacks)));
        }
        if syn && !segment.sack_ok {
            parts.push("no_sack".to_owned());
        }
        if syn && segment.timestamps.is_none() {
            parts.push("no_ts".to_owned());
        }
        if echo.is_lost(index) {
            parts.push("lost".to_owned());
        }
        if let Some(name) = echo.name_of(index) {
            parts.push(format!("as {name}"));
        }
        model.sent_end = model.sent_end.max(end);
        join(&mut line, &parts);
        line
    }

    fn in_line(&self, index: usize, echo: &Echo, model: &mut Model) -> String {
        let segment = &self.steps[index].segment;
        let syn = segment.has(Segment::SYN);
        let mut line = format!("in {}", show::flags(segment.flags));
        let mut parts = Vec::new();
        if segment.len > 0 && segment.seq == model.next_seq {
            parts.push(format!("len {}", self.len(segment.len)));
        } else if segment.len > 0 || segment.seq != model.next_seq {
            parts.push(format!("seq {}", show::range(segment.seq, segment.len)));
        }
        if segment.has(Segment::ACK) && !(syn && segment.ack == 1) {
            parts.push(format!("ack {}", segment.ack));
        }
        if self.window_matters {
            parts.push(format!("win {}", segment.window_bytes));
        }
        if segment.ecn != Ecn::NotEct {
            parts.push(show::ecn(segment.ecn).to_owned());
        }
        if !segment.sacks.is_empty() {
            parts.push(format!("sack {}", show::sacks(&segment.sacks)));
        }
        if syn {
            let mss = segment.mss.map(u32::from);
            if mss.is_some_and(|mss| mss != self.settings.mss_bytes + TIMESTAMPS_BYTES) {
                parts.push(format!("mss {}", mss.unwrap_or_default()));
            }
            match segment.window_scale {
                None => parts.push("no_wscale".to_owned()),
                Some(scale) if self.window_matters && scale != WINDOW_SCALE => {
                    parts.push(format!("wscale {scale}"));
                }
                Some(_) => {}
            }
            if !segment.sack_ok {
                parts.push("no_sack".to_owned());
            }
            if segment.timestamps.is_none() {
                parts.push("no_ts".to_owned());
            }
        } else if self.has_timestamps && segment.timestamps.is_none() {
            parts.push("no_ts".to_owned());
        }
        if let Some(name) = echo.written(index) {
            parts.push(format!("ecr {name}"));
        }
        model.next_seq = model.next_seq.max(end_of(segment));
        join(&mut line, &parts);
        line
    }
}

/// Comments and titles are one line each, whatever names of files hold.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn join(line: &mut String, parts: &[String]) {
    if !parts.is_empty() {
        let _ = write!(line, " {}", parts.join(", "));
    }
}

/// The byte behind a segment.
fn end_of(segment: &Segment) -> u32 {
    let ends = u32::from(segment.has(Segment::SYN)) + u32::from(segment.has(Segment::FIN));
    segment.seq.wrapping_add(segment.len).wrapping_add(ends)
}

/// Splits merged segments into those on the wire; `full` is above 0.
fn in_full_segments(segment: &Segment, full: u32) -> impl Iterator<Item = Segment> {
    let count = segment.len.div_ceil(full).max(1);
    (0..count).map(move |index| {
        let from = index * full;
        // What holds for the end of a merged segment holds for its last part only, and CWR for its first.
        let of_end = if index + 1 < count { Segment::PSH | Segment::FIN } else { 0 };
        let of_start = if index > 0 { Segment::CWR } else { 0 };
        Segment {
            flags: segment.flags & !of_end & !of_start,
            seq: segment.seq.wrapping_add(from),
            len: full.min(segment.len - from),
            ..segment.clone()
        }
    })
}

/// The stack's MSS: what its SYN says less the timestamps, else what its segments or the peer's hold.
fn mss_of(segments: &[Tapped]) -> u32 {
    let options = |is_out| {
        let ours = segments.iter().filter(move |tapped| tapped.is_out == is_out);
        ours.filter_map(|tapped| tapped.segment.mss).next()
    };
    let largest = segments.iter().map(|tapped| tapped.segment.len).max().unwrap_or(0);
    match options(true).or(options(false)) {
        Some(option) => u32::from(option).saturating_sub(TIMESTAMPS_BYTES),
        // Merged segments say nothing.
        None => largest.clamp(536, 1448),
    }
}

/// Sysctls that the SYN of the stack implies.
fn implied_sysctls(segments: &[Tapped], settings: &mut Settings) {
    let syn_of = |is_out| {
        let syns = segments.iter().filter(|tapped| tapped.segment.has(Segment::SYN));
        syns.filter(|tapped| tapped.is_out == is_out).map(|tapped| &tapped.segment).next()
    };
    let Some(syn) = syn_of(true) else { return };
    let mut imply = |name: &str, value: &str| {
        if !settings.sysctls.iter().any(|(known, _)| known == name) {
            settings.sysctls.push((name.to_owned(), value.to_owned()));
        }
    };
    let asks = |segment: &Segment| segment.has(Segment::ECE) && segment.has(Segment::CWR);
    // An algorithm that needs ECN asks for it whatever the sysctl says, and marks even its SYN.
    if !syn.has(Segment::ACK) && asks(syn) && syn.ecn == Ecn::NotEct {
        imply("tcp_ecn", "1");
    } else if syn.has(Segment::ACK) && !syn.has(Segment::ECE) && syn_of(false).is_some_and(asks) {
        imply("tcp_ecn", "0");
    }
    let peer = syn_of(false).filter(|_| syn.has(Segment::ACK));
    if !syn.sack_ok && peer.is_none_or(|peer| peer.sack_ok) {
        imply("tcp_sack", "0");
    }
    if syn.timestamps.is_none() && peer.is_none_or(|peer| peer.timestamps.is_some()) {
        imply("tcp_timestamps", "0");
    }
}

/// Whether the stack ever came as near to the edge of the peer's window as a segment.
fn window_matters(steps: &[Step], mss_bytes: u32) -> bool {
    let mut edge: Option<u32> = None;
    for Step { is_out, segment, .. } in steps {
        if *is_out {
            let next = segment.seq.wrapping_add(segment.len).wrapping_add(mss_bytes);
            if segment.len > 0 && edge.is_some_and(|edge| edge.wrapping_sub(next) as i32 <= 0) {
                return true;
            }
        } else if segment.has(Segment::ACK) {
            edge = Some(segment.ack.wrapping_add(segment.window_bytes));
        }
    }
    false
}
