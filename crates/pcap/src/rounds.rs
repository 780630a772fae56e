//! Round trips of a sender, as they go by: one lasts from a segment's sending until its ACK.

use crate::family::Habits;
use crate::model::Round;

/// Duplicate ACKs that Linux sends at once (`TCP_FASTRETRANS_THRESH`): it holds later ones back for a while, and sends one for several.
const DUPLICATES_AT_ONCE: u32 = 3;

/// A round trip in progress, with its sums.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Open {
    pub(crate) round: Round,
    rtt: Sum,
    rtt_by_timestamps: Sum,
    /// Whether the last data was marked, and the last ACK told of it.
    was_ce: Option<bool>,
    was_ece: Option<bool>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    sum: u64,
    count: u64,
}

impl Sum {
    fn add(&mut self, value: u64) {
        self.sum = self.sum.saturating_add(value);
        self.count += 1;
    }

    fn mean(self) -> Option<u64> {
        self.sum.checked_div(self.count)
    }
}

impl Open {
    /// Notes an RTT by sequence numbers.
    pub(crate) fn rtt(&mut self, ns: u64) {
        self.rtt.add(ns);
        let round = &mut self.round;
        round.rtt_min_ns = Some(round.rtt_min_ns.map_or(ns, |least| least.min(ns)));
        round.rtt_max_ns = round.rtt_max_ns.max(Some(ns));
    }

    /// Notes an RTT by timestamps.
    pub(crate) fn rtt_by_timestamps(&mut self, ns: u64) {
        self.rtt_by_timestamps.add(ns);
        let least = &mut self.round.rtt_by_timestamps_min_ns;
        *least = Some(least.map_or(ns, |least| least.min(ns)));
    }

    /// Notes marks of data.
    pub(crate) fn data_marked(&mut self, is_ce: bool) {
        self.round.ce_changes += u32::from(self.was_ce.is_some_and(|was| was != is_ce));
        self.was_ce = Some(is_ce);
    }

    /// Counts the marks that an ACK reports.
    pub(crate) fn ack_marked(&mut self, is_ece: bool) {
        self.round.ece_acks += u32::from(is_ece);
        self.round.ece_changes += u32::from(self.was_ece.is_some_and(|was| was != is_ece));
        self.was_ece = Some(is_ece);
    }
}

/// Round trips of one direction, in bounded number: neighbours merge where there are too many.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rounds {
    pub(crate) habits: Habits,
    done: Vec<Round>,
    /// The one going on.
    pub(crate) open: Option<Open>,
    /// Where it ends, and whether that is known: the number behind what was sent when it began.
    end: Option<u64>,
    /// Round trips in an entry of `done`, and the entry that is not full yet.
    per_entry: u32,
    partial: Option<Round>,
}

impl Rounds {
    /// Begins one with data that is about to be sent, if none is going on.
    pub(crate) fn begin(&mut self, at_ns: u64, idle_ns: u64, was_idle_answered: bool) -> &mut Open {
        self.open.get_or_insert_with(|| Open {
            round: Round {
                begin_ns: at_ns,
                idle_ns,
                was_idle_answered,
                round_trips: 1,
                ..Round::default()
            },
            ..Open::default()
        })
    }

    /// Notes the RTT of an ACK that is the duplicate of so many, or covers data that was sent again. A receiver holds late duplicates back,
    /// and what came behind a gap until the gap is filled.
    pub(crate) fn unheld(&mut self, ns: u64, duplicates: u32, has_repeats: bool) {
        let is_held = has_repeats || duplicates > DUPLICATES_AT_ONCE;
        if let Some(open) = self.open.as_mut().filter(|_| !is_held) {
            let longest = &mut open.round.rtt_max_unheld_ns;
            *longest = (*longest).max(Some(ns));
        }
    }

    /// Notes that data up to `end` was sent: it ends the round if it is the first of it.
    pub(crate) fn sent(&mut self, end: u64) {
        self.end.get_or_insert(end);
    }

    /// Ends the round if an ACK covers it; `next` is behind what was sent, and is in flight unless it is acknowledged too.
    pub(crate) fn acked(&mut self, una: u64, next: u64, at_ns: u64, mss: u32, most: usize) {
        if self.end.is_none_or(|end| una < end) {
            return;
        }
        self.close(at_ns, mss, most);
        if next > una {
            self.begin(at_ns, 0, false);
            self.end = Some(next);
        }
    }

    fn close(&mut self, at_ns: u64, mss: u32, most: usize) {
        self.end = None;
        let Some(open) = self.open.take() else { return };
        let mut round = open.round;
        round.duration_ns = at_ns.saturating_sub(round.begin_ns);
        round.rtt_mean_ns = open.rtt.mean();
        round.rtt_by_timestamps_mean_ns = open.rtt_by_timestamps.mean();
        ratios(&mut round, mss);
        self.habits.round(&round, mss);
        self.push(round, most);
    }

    fn push(&mut self, round: Round, most: usize) {
        let entry = match self.partial.take() {
            Some(earlier) => merged(&earlier, &round),
            None => round,
        };
        if entry.round_trips < self.per_entry {
            self.partial = Some(entry);
            return;
        }
        if self.done.is_empty() {
            // Most connections have one.
            self.done.reserve_exact(1);
        }
        self.done.push(entry);
        if self.done.len() >= most.max(2) {
            let pairs = self.done.chunks(2).map(|pair| match pair {
                [a, b] => merged(a, b),
                _ => pair[0],
            });
            self.done = pairs.collect();
            self.per_entry = self.per_entry.max(1).saturating_mul(2);
        }
    }

    /// All round trips; the current one ends at the last packet.
    pub(crate) fn finish(mut self, at_ns: u64, mss: u32, most: usize) -> Vec<Round> {
        if self.open.is_some_and(|open| open.round.segments > 0 || open.round.acks > 0) {
            self.close(at_ns, mss, most);
        }
        self.done.extend(self.partial);
        self.done.shrink_to_fit();
        self.done
    }
}

fn ratios(round: &mut Round, mss: u32) {
    let segments = round.acked_bytes as f64 / f64::from(mss.max(1));
    round.ack_ratio = (round.acks > 0).then(|| segments / f64::from(round.acks));
    round.rate_bps = match round.duration_ns {
        0 => 0.0,
        ns => round.acked_bytes as f64 * 8e9 / ns as f64,
    };
}

/// Two that follow each other as one: sums, extremes, and means weighted by their ACKs.
fn merged(a: &Round, b: &Round) -> Round {
    let weights = [f64::from(a.acks.max(1)), f64::from(b.acks.max(1))];
    let mean = |of: [Option<f64>; 2]| match of {
        [Some(a), Some(b)] => Some((a * weights[0] + b * weights[1]) / (weights[0] + weights[1])),
        [a, b] => a.or(b),
    };
    let mean_ns = |a: Option<u64>, b: Option<u64>| {
        mean([a.map(|ns| ns as f64), b.map(|ns| ns as f64)]).map(|ns| ns.round() as u64)
    };
    let least = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
    let largest = if b.largest_burst_segments > a.largest_burst_segments { b } else { a };
    let end_ns = b.begin_ns.saturating_add(b.duration_ns);
    let duration_ns = end_ns.saturating_sub(a.begin_ns);
    let acked_bytes = a.acked_bytes + b.acked_bytes;
    Round {
        begin_ns: a.begin_ns,
        duration_ns,
        round_trips: a.round_trips.saturating_add(b.round_trips),
        first_number: a.first_number,
        last_number: a.last_number.max(b.last_number),
        // What it was idle between the two is idle time of the whole.
        idle_ns: a.idle_ns.saturating_add(b.idle_ns),
        was_idle_answered: a.was_idle_answered || b.was_idle_answered,
        bytes: a.bytes + b.bytes,
        acked_bytes,
        ece_bytes: a.ece_bytes + b.ece_bytes,
        segments: a.segments.saturating_add(b.segments),
        ce_segments: a.ce_segments.saturating_add(b.ce_segments),
        ect_segments: a.ect_segments.saturating_add(b.ect_segments),
        ce_changes: a.ce_changes.saturating_add(b.ce_changes),
        ece_acks: a.ece_acks.saturating_add(b.ece_acks),
        ece_changes: a.ece_changes.saturating_add(b.ece_changes),
        inflight_bytes: a.inflight_bytes.max(b.inflight_bytes),
        window_bytes: least(a.window_bytes, b.window_bytes),
        room_bytes: least(a.room_bytes, b.room_bytes),
        rate_bps: match duration_ns {
            0 => 0.0,
            ns => acked_bytes as f64 * 8e9 / ns as f64,
        },
        rtt_min_ns: least(a.rtt_min_ns, b.rtt_min_ns),
        rtt_mean_ns: mean_ns(a.rtt_mean_ns, b.rtt_mean_ns),
        rtt_max_ns: a.rtt_max_ns.max(b.rtt_max_ns),
        rtt_max_unheld_ns: a.rtt_max_unheld_ns.max(b.rtt_max_unheld_ns),
        rtt_by_timestamps_min_ns: least(a.rtt_by_timestamps_min_ns, b.rtt_by_timestamps_min_ns),
        rtt_by_timestamps_mean_ns: mean_ns(
            a.rtt_by_timestamps_mean_ns,
            b.rtt_by_timestamps_mean_ns,
        ),
        retransmitted: a.retransmitted.saturating_add(b.retransmitted),
        rtos: a.rtos.saturating_add(b.rtos),
        out_of_order: a.out_of_order.saturating_add(b.out_of_order),
        acks: a.acks.saturating_add(b.acks),
        ack_ratio: mean([a.ack_ratio, b.ack_ratio]),
        largest_ack_segments: a.largest_ack_segments.max(b.largest_ack_segments),
        largest_burst_segments: largest.largest_burst_segments,
        largest_burst_number: largest.largest_burst_number,
        largest_burst_ns: largest.largest_burst_ns,
        ack_delay_ns: a.ack_delay_ns.max(b.ack_delay_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hundred(most: usize) -> Vec<Round> {
        let mut rounds = Rounds::default();
        for i in 0..100_u64 {
            let open = rounds.begin(i * 1000, 0, false);
            open.round.first_number = i + 1;
            open.round.bytes = 100;
            open.round.segments = 1;
            open.round.inflight_bytes = i;
            open.rtt(500 + i);
            // Of four one is a late duplicate, and one of a repetition.
            rounds.unheld(500 + i, 3 + u32::from(i % 4 == 3), i % 4 == 2);
            rounds.sent((i + 1) * 100);
            let open = rounds.open.as_mut().unwrap();
            open.round.acks += 1;
            open.round.acked_bytes += 100;
            rounds.acked((i + 1) * 100, (i + 1) * 100, i * 1000 + 600, 100, most);
        }
        rounds.finish(99_600, 100, most)
    }

    #[test]
    fn a_round_lasts_until_the_ack_of_its_first_segment() {
        let rounds = hundred(1000);
        assert_eq!(rounds.len(), 100);
        let expected = (7000, 600, 1, Some(507), Some(1.0));
        let Round { begin_ns, duration_ns, round_trips, rtt_mean_ns, ack_ratio, .. } = rounds[7];
        assert_eq!((begin_ns, duration_ns, round_trips, rtt_mean_ns, ack_ratio), expected);
    }

    #[test]
    fn neighbours_are_merged_where_there_are_too_many() {
        let rounds = hundred(10);
        assert!(rounds.len() <= 10, "{}", rounds.len());
        assert_eq!(rounds.iter().map(|round| round.round_trips).sum::<u32>(), 100);
        assert_eq!(rounds.iter().map(|round| round.bytes).sum::<u64>(), 10_000);
        assert!(rounds.windows(2).all(|pair| pair[0].begin_ns < pair[1].begin_ns));
        let last = rounds.last().unwrap();
        assert_eq!((last.inflight_bytes, last.rtt_max_ns), (99, Some(599)));
        assert_eq!(last.rtt_max_unheld_ns, Some(597));
        assert_eq!(rounds[0].rtt_min_ns, Some(500));
    }
}
