//! Senders that neither the network nor their algorithm holds back.

use super::{Kind, SHOWN, View, median, per_cent, rate, share, sum, time};
use crate::model::{Finding, Round, Severity};

pub(super) const RECEIVER: Kind = Kind {
    name: "receiver-limited",
    usually_means: "The receiver's buffer is smaller than the path's BDP, or its application reads too slowly.",
    try_this: "Raise the third value of net.ipv4.tcp_rmem (and do not set SO_RCVBUF); if the window closes, check the reading \
               application.",
    severity: Severity::Costs,
};

/// As [`RECEIVER`], where the handshake agreed on no window scale.
const UNSCALED: Kind = Kind {
    usually_means: "The connection has no window scaling, so that no window is above 64 kB whatever the receiver's buffer. One host has \
                    it off, or a middlebox strips the option: then one end may scale windows and the other not.",
    try_this: "Check net.ipv4.tcp_window_scaling at both ends, and compare the SYN and the SYN-ACK in captures of both: what strips \
               their options is between.",
    ..RECEIVER
};

pub(super) const APPLICATION: Kind = Kind {
    name: "application-limited",
    usually_means: "The application has nothing to send most of the time, or something limits its rate (SO_MAX_PACING_RATE, a \
                    small send buffer, a slow disk). It may also be that the path carries less than it did before, and that the sender \
                    follows the rate without a queue (BBR).",
    try_this: "Nothing in the network, unless a link has become slower. Check what the application waits for, its rate limit, and net.ipv4.tcp_wmem.",
    severity: Severity::Note,
};

/// More than half of the data sent into a full window: what holds the sender most of the time.
const MOST: f64 = 0.5;
/// Round trips that tell what is usual.
const USUAL_ROUNDS: usize = 20;
/// Half of what the path has shown to carry, and half of the window that was there: less than any algorithm leaves unused without
/// a reason that the capture shows.
const HALF: f64 = 0.5;
/// Linux's initial window, segments: a window this large is there from the first packet on.
const INITIAL_WINDOW: u64 = 10;

/// Data sent into a window that the receiver had filled.
pub(super) fn receiver(view: &View<'_>) -> Option<Finding> {
    let mss = view.mss();
    let is_full = |round: &&Round| round.room_bytes.is_some_and(|room| room < mss);
    let full: Vec<&Round> = view.data.rounds.iter().filter(is_full).collect();
    let bytes: u64 = full.iter().map(|round| round.bytes).sum();
    let of_all = share(bytes, view.data.bytes_sent);
    let is_usual = full.len() >= USUAL_ROUNDS && of_all > MOST;
    if !is_usual && view.data.zero_windows == 0 {
        return None;
    }
    let filled = median(full.iter().map(|round| round.inflight_bytes)).unwrap_or_default();
    let closed = match view.data.zero_windows {
        0 => String::new(),
        times => {
            format!(" It closed {times} times, for {} in all.", time(view.data.zero_window_ns))
        }
    };
    let summary = format!(
        "The receiver's window was full for {} of the data, at {:.0} kB in flight.{closed}",
        per_cent(of_all),
        filled as f64 / 1000.0,
    );
    let of_rounds = full.iter().take(SHOWN).map(|round| {
        let room = round.room_bytes.unwrap_or_default();
        let said = format!("{} bytes in flight, room for {room} more", round.inflight_bytes);
        view.evidence(round.first_number, said)
    });
    let closings = view.events(crate::model::EventKind::ZeroWindow).take(SHOWN).map(|event| {
        view.evidence(event.number, format!("closes its window for {}", time(event.lasted_ns)))
    });
    let is_unscaled = view.flow.handshake.has_window_scale == Some(false);
    let kind = if is_unscaled && view.data.zero_windows == 0 { UNSCALED } else { RECEIVER };
    Some(view.finding(&kind, summary, closings.chain(of_rounds).collect(), 0.95))
}

/// A window that stays unused without losses, marks or requests that explain it.
pub(super) fn application(view: &View<'_>) -> Option<Finding> {
    let data = view.data;
    // Losses and marks would have made the window smaller, spurious timeouts too, and a sender that waits for an answer has nothing to
    // send.
    let is_cut = view.losses() + data.retransmitted.segments > 0 || data.ecn.ece > 0;
    if !view.is_near_sender || is_cut || receiver(view).is_some() {
        return None;
    }
    if view.back.bytes > 0 && data.rounds.iter().any(|round| round.was_idle_answered) {
        return None;
    }
    let fullest = data
        .rounds
        .iter()
        .enumerate()
        .max_by_key(|(at, round)| (round.inflight_bytes, std::cmp::Reverse(*at)))?;
    // In slow start the fullest round trip is the last one; what comes behind it tells.
    let after: Vec<&Round> =
        data.rounds[fullest.0 + 1..].iter().filter(|round| round.bytes > 0).collect();
    if after.len() < USUAL_ROUNDS {
        return None;
    }
    // What of the largest flight stood in a queue is none that the path had room for: a sender that empties the queue goes below it.
    let base = view.base_rtt_ns()?;
    let without_queue = fullest.1.rtt_max_ns.map_or(1.0, |rtt| share(base.min(rtt), rtt));
    let window = (data.max_inflight_bytes as f64 * without_queue) as u64;
    let window = window.max(INITIAL_WINDOW * view.mss());
    let inflight = median(after.iter().map(|round| round.inflight_bytes))?;
    let used_bps = median(after.iter().map(|round| round.rate_bps))?;
    // What the path carried of this flow at its best.
    let shown_bps = data.rounds.iter().map(|round| round.rate_bps).fold(0.0, f64::max);
    let idle_ns = sum(after.iter().map(|round| round.idle_ns));
    let lasted = view.flow.end_ns.saturating_sub(after[0].begin_ns);
    let is_idle = share(idle_ns, lasted) > MOST;
    let is_slow = inflight as f64 <= HALF * window as f64 && used_bps <= HALF * shown_bps;
    if !is_idle && !is_slow {
        return None;
    }
    let summary = format!(
        "The sender has {:.0} kB in flight and sends at {}, although its window is {:.0} kB and the path carried {}; nothing \
         was in flight for {} of the time.",
        inflight as f64 / 1000.0,
        rate(used_bps),
        window as f64 / 1000.0,
        rate(shown_bps),
        per_cent(share(idle_ns, lasted)),
    );
    let evidence = after.iter().take(SHOWN).map(|round| {
        let said = format!(
            "{} bytes in flight after {} without data in flight",
            round.inflight_bytes,
            time(round.idle_ns)
        );
        view.evidence(round.first_number, said)
    });
    Some(view.finding(&APPLICATION, summary, evidence.collect(), 0.7))
}
