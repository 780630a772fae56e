//! Writes of the application, guessed from the segments.

use super::{Step, end_of};
use crate::settings::TIMESTAMPS_BYTES;
use knee_wire::Segment;
use std::collections::BTreeMap;

/// Delay after an ACK from which new data was not waiting for that ACK, ns.
const IDLE_NS: u64 = 50_000;

/// Writes before steps, by their index, in bytes. A write lasts until everything is acknowledged and the next data
/// comes unasked for, or until a segment that is not full: Linux sends such only at the end of a write.
pub(super) fn of(steps: &[Step], mss_bytes: u32) -> BTreeMap<usize, u64> {
    let mut writes = BTreeMap::new();
    let mut current: Option<usize> = None;
    let (mut sent_end, mut acked, mut last_in_ns) = (0_u32, 0_u32, 0);
    let mut ended = true;
    let full = full_bytes(steps, mss_bytes);
    for (index, step) in steps.iter().enumerate() {
        let segment = &step.segment;
        if !step.is_out {
            acked = if segment.has(Segment::ACK) { acked.max(segment.ack) } else { acked };
            last_in_ns = step.at_ns;
            continue;
        }
        let end = end_of(segment);
        let data_end = segment.seq.wrapping_add(segment.len);
        let new = data_end.wrapping_sub(sent_end.max(segment.seq)) as i32;
        if segment.len > 0 && new > 0 {
            let is_idle = acked >= sent_end && step.at_ns > last_in_ns + IDLE_NS;
            if ended || is_idle || current.is_none() {
                current = Some(index);
            }
            if let Some(current) = current {
                *writes.entry(current).or_insert(0) += u64::from(new.unsigned_abs());
            }
            ended = segment.len < full;
        }
        sent_end = sent_end.max(end);
    }
    writes
}

/// The least payload of a full segment: the SYNs may agree on less than the stack's own MSS.
fn full_bytes(steps: &[Step], mss_bytes: u32) -> u32 {
    let options = steps.iter().filter_map(|step| step.segment.mss);
    let agreed = options.map(|option| u32::from(option).saturating_sub(TIMESTAMPS_BYTES)).min();
    agreed.unwrap_or(mss_bytes).min(mss_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(at_us: u64, is_out: bool, seq: u32, len: u32, ack: u32) -> Step {
        let segment = Segment { flags: Segment::ACK, seq, len, ack, ..Segment::default() };
        Step { at_ns: at_us * 1000, is_out, segment }
    }

    #[test]
    fn data_after_silence_and_after_a_short_segment_is_a_new_write() {
        let steps = [
            step(0, true, 1, 1000, 1),
            step(0, true, 1001, 1000, 1),
            step(100, false, 1, 0, 2001),
            // The ACK lets it go: still the first.
            step(100, true, 2001, 1000, 1),
            // A retransmission writes nothing.
            step(300, true, 2001, 1000, 1),
            step(400, false, 1, 0, 3001),
            step(900, true, 3001, 200, 1),
            step(900, true, 3201, 1000, 1),
        ];
        let writes = of(&steps, 1000);
        assert_eq!(writes.into_iter().collect::<Vec<_>>(), [(0, 3000), (6, 200), (7, 1000)]);
    }
}
