//! How a connection begins: as it was seen, or invented where the recording begins later.

use super::Step;
use super::lines::{Lines, span};
use knee_queue::time::Duration;
use knee_wire::Segment;

/// The round trip if nothing was sent and acknowledged, ns.
const SOME_RTT_NS: u64 = 1_000_000;

pub(super) struct Begun {
    /// The first step that is still to be written.
    pub(super) next: usize,
    /// The handshake was not in the recording.
    pub(super) is_invented: bool,
}

/// Writes the call that begins the connection, or a handshake where the recording has none.
pub(super) fn write(steps: &[Step], first: Duration, lines: &mut Lines) -> Begun {
    let at = if first == Duration::ZERO {
        String::new()
    } else {
        lines.now("# Where the coarse clock of the recorded host stood.".to_owned());
        format!("+{} ", span(first.ns()))
    };
    let begins = &steps[0];
    if begins.segment.has(Segment::SYN) && !begins.segment.has(Segment::ACK) {
        lines.now(format!("{at}{}", if begins.is_out { "connect" } else { "listen" }));
        return Begun { next: 0, is_invented: false };
    }
    lines.now(
        "# The recording begins later than the connection: its handshake is made up, and so is"
            .to_owned(),
    );
    lines.now("# the state that the stack is in.".to_owned());
    lines.now(format!("{at}open active, rtt {}", span(rtt_ns(steps))));
    let next = steps.iter().position(|step| !step.segment.has(Segment::SYN));
    Begun { next: next.unwrap_or(steps.len()), is_invented: true }
}

/// The least time between a segment of the stack and an ACK that covers it.
fn rtt_ns(steps: &[Step]) -> u64 {
    let mut least: Option<u64> = None;
    let mut waiting: Option<(u64, u32)> = None;
    for step in steps {
        let end = step.segment.seq.wrapping_add(step.segment.len);
        match waiting {
            None if step.is_out && step.segment.len > 0 => waiting = Some((step.at_ns, end)),
            Some((sent_ns, end))
                if !step.is_out && step.segment.ack.wrapping_sub(end) as i32 >= 0 =>
            {
                let rtt_ns = step.at_ns - sent_ns;
                least = Some(least.map_or(rtt_ns, |least| least.min(rtt_ns)));
                waiting = None;
            }
            _ => {}
        }
    }
    least.unwrap_or(SOME_RTT_NS)
}
