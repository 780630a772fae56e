//! Bursts: packets of a sender that follow each other as fast as a link lets them.

use crate::data::Now;
use crate::model::Direction;
use crate::rounds::Rounds;

/// Packets over which the rate of a link is taken: two alone may be close by chance, or by the clock.
const RATE_PACKETS: usize = 4;
/// Largest distance within a burst, in packet times at the link's rate: two packets of a burst leave room for one of another
/// flow.
const SLACK: f64 = 2.0;
/// Resolution of capture timestamps, ns.
const CLOCK_NS: u64 = 1_000;
/// While no rate is known, packets within this part of an RTT are one burst.
const PART_OF_RTT: u64 = 16;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bursts {
    /// Time and payload of the last packets, the newest last.
    last: [(u64, u64); RATE_PACKETS],
    count: usize,
    segments: u64,
    number: u64,
    begin_ns: u64,
}

impl Bursts {
    /// Notes a packet with data, and its burst in the round that is going on.
    pub(crate) fn packet(
        &mut self,
        len: u64,
        segments: u64,
        full_rtt_ns: u64,
        now: &mut Now<'_>,
        out: &mut Direction,
        rounds: &mut Rounds,
    ) {
        let (at_ns, is_first) = (now.at_ns, self.count == 0);
        let before_ns = self.last[RATE_PACKETS - 1].0;
        self.measure_rate(len, now, out);
        let most_ns = match *now.link_rate_bps {
            bps if bps > 0.0 => ((SLACK * len as f64 * 8e9 / bps) as u64).max(CLOCK_NS),
            _ => full_rtt_ns / PART_OF_RTT,
        };
        if is_first || at_ns.saturating_sub(before_ns) > most_ns {
            self.end(out);
            (self.segments, self.number, self.begin_ns) = (0, now.number, at_ns);
        }
        self.segments += segments;
        if let Some(open) = &mut rounds.open {
            let round = &mut open.round;
            if self.segments > round.largest_burst_segments.into() {
                round.largest_burst_segments = self.segments as u32;
                round.largest_burst_number = self.number;
                round.largest_burst_ns = at_ns.saturating_sub(self.begin_ns);
            }
        }
    }

    fn measure_rate(&mut self, len: u64, now: &mut Now<'_>, out: &mut Direction) {
        let gap_ns = now.at_ns.saturating_sub(self.last[RATE_PACKETS - 1].0);
        self.last.rotate_left(1);
        self.last[RATE_PACKETS - 1] = (now.at_ns, len);
        self.count += 1;
        let is_full = len >= now.mss.into();
        if self.count > 1 && is_full && gap_ns > 0 {
            out.data_rate_bps.add((len as f64 * 8e9 / gap_ns as f64) as u64, now.number);
        }
        let [first, rest @ ..] = &self.last;
        let took_ns = now.at_ns.saturating_sub(first.0);
        let are_full = rest.iter().all(|packet| packet.1 >= now.mss.into());
        if self.count >= RATE_PACKETS && are_full && took_ns > 0 {
            let bytes: u64 = rest.iter().map(|packet| packet.1).sum();
            let bps = bytes as f64 * 8e9 / took_ns as f64;
            out.link_rate_bps = Some(out.link_rate_bps.map_or(bps, |most| most.max(bps)));
            *now.link_rate_bps = now.link_rate_bps.max(bps);
        }
    }

    fn end(&mut self, out: &mut Direction) {
        if self.segments > 0 {
            out.bursts.add(self.segments, self.number);
        }
    }

    /// Counts the last one.
    pub(crate) fn finish(mut self, out: &mut Direction) {
        self.end(out);
    }
}
