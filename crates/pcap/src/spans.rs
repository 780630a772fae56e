//! Data sent over time, in a bounded number of spans: neighbours merge where there are too many.

use crate::model::Span;

/// Spans that are kept of a list.
const MOST: usize = 1024;

/// Adds a segment that was sent at a time. Spans are `least_ns` long at most, and longer where there are too many: `grown_ns`.
pub(crate) fn add(
    list: &mut Vec<Span>,
    at_ns: u64,
    bytes: u64,
    segments: u64,
    least_ns: u64,
    grown_ns: &mut u64,
) {
    let one = Span { begin_ns: at_ns, end_ns: at_ns, bytes, segments };
    let most_ns = least_ns.max(*grown_ns);
    // They come nearly always in the order of time.
    let at = match list.last() {
        Some(last) if last.begin_ns > at_ns => list.partition_point(|span| span.begin_ns <= at_ns),
        _ => list.len(),
    };
    match at.checked_sub(1).map(|before| &mut list[before]) {
        Some(before) if at_ns.saturating_sub(before.begin_ns) <= most_ns => join(before, &one),
        _ => list.insert(at, one),
    }
    while list.len() > MOST {
        *grown_ns = most_ns.max(*grown_ns).saturating_mul(2).max(1);
        let most_ns = *grown_ns;
        list.dedup_by(|next, kept| {
            let is_near = next.end_ns.saturating_sub(kept.begin_ns) <= most_ns;
            if is_near {
                join(kept, next);
            }
            is_near
        });
    }
}

/// Takes back a segment that was sent at a time.
pub(crate) fn remove(list: &mut Vec<Span>, at_ns: u64, bytes: u64, segments: u64) {
    let at = list.partition_point(|span| span.begin_ns <= at_ns);
    let Some(before) = at.checked_sub(1) else { return };
    let span = &mut list[before];
    span.bytes = span.bytes.saturating_sub(bytes);
    span.segments = span.segments.saturating_sub(segments);
    if span.segments == 0 {
        list.remove(before);
    }
}

fn join(span: &mut Span, other: &Span) {
    span.end_ns = span.end_ns.max(other.end_ns);
    span.bytes += other.bytes;
    span.segments += other.segments;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_ones_are_merged_and_taken_back() {
        let (mut list, mut grown) = (Vec::new(), 0);
        for at in [100, 105, 110, 111, 200, 180] {
            add(&mut list, at, 1000, 1, 10, &mut grown);
        }
        let at = |begin_ns, end_ns, segments| Span {
            begin_ns,
            end_ns,
            bytes: 1000 * segments,
            segments,
        };
        assert_eq!(list, [at(100, 110, 3), at(111, 111, 1), at(180, 180, 1), at(200, 200, 1)]);
        remove(&mut list, 105, 1000, 1);
        remove(&mut list, 195, 1000, 1);
        remove(&mut list, 7, 1000, 1);
        assert_eq!(list, [at(100, 110, 2), at(111, 111, 1), at(200, 200, 1)]);
    }

    #[test]
    fn there_are_never_too_many_and_none_is_forgotten() {
        let (mut list, mut grown) = (Vec::new(), 0);
        for at in 0..10_000 {
            add(&mut list, at * 1000, 100, 1, 1, &mut grown);
        }
        assert!(list.len() <= MOST && list.len() > MOST / 4, "{}", list.len());
        assert_eq!(list.iter().map(|span| span.segments).sum::<u64>(), 10_000);
        assert!(list.windows(2).all(|pair| pair[0].end_ns < pair[1].begin_ns));
    }
}
