//! When the application may have closed the connection: a guess from the first FIN or reset that the stack sent.

use super::Step;
use knee_wire::Segment;
use std::collections::BTreeMap;

/// How the stack's side of the connection ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Closing {
    /// The step before which `close` belongs; behind the write, if one is before the same step.
    pub(super) before: Option<usize>,
    /// Data from this step on stays unread: closing with unread data resets the connection.
    pub(super) unread_from: Option<usize>,
}

impl Closing {
    /// `writes` are the steps before which the application writes.
    pub(super) fn of(steps: &[Step], writes: &BTreeMap<usize, u64>) -> Closing {
        let ends = |step: &Step| step.segment.flags & (Segment::FIN | Segment::RST) != 0;
        let Some(last) = steps.iter().position(|step| step.is_out && ends(step)) else {
            return Closing::default();
        };
        if steps[last].segment.has(Segment::RST) {
            return Closing::with_reset(steps, last);
        }
        let before = match writes.range(..=last).next_back() {
            Some((write, _)) if steps[last].segment.len > 0 => with_data(steps, *write, last),
            _ => last,
        };
        Closing { before: Some(before), unread_from: None }
    }

    fn with_reset(steps: &[Step], reset: usize) -> Closing {
        // Linux resets of its own accord with an ACK; an answer to a segment that has one has none.
        let was_connected = steps[..reset].iter().any(|step| step.is_out);
        if !steps[reset].segment.has(Segment::ACK) || !was_connected {
            return Closing::default();
        }
        let has_data = |step: &Step| !step.is_out && step.segment.len > 0;
        match steps[..reset].iter().rposition(has_data) {
            Some(unread) => Closing { before: Some(reset), unread_from: Some(unread) },
            None => Closing::default(),
        }
    }
}

/// A FIN goes with the last data if that waits when the application closes: before the ACK that let it go, or, where
/// none came since the write, with the write.
fn with_data(steps: &[Step], write: usize, last: usize) -> usize {
    match steps[..last].iter().rposition(|step| !step.is_out) {
        Some(let_go) if let_go > write => {
            // Data that comes after the close would be answered with a reset.
            if steps[let_go].segment.len > 0 { last } else { let_go }
        }
        _ => write,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(is_out: bool, flags: u16, len: u32) -> Step {
        let flags = flags | Segment::ACK;
        Step { at_ns: 0, is_out, segment: Segment { flags, len, ..Segment::default() } }
    }

    #[test]
    fn a_fin_alone_leaves_when_the_application_closes() {
        let steps = [step(true, 0, 100), step(false, 0, 0), step(true, Segment::FIN, 0)];
        let closing = Closing::of(&steps, &BTreeMap::from([(0, 100)]));
        assert_eq!(closing, Closing { before: Some(2), unread_from: None });
    }

    #[test]
    fn a_fin_with_data_waited_for_an_ack() {
        let steps = [step(true, 0, 100), step(false, 0, 0), step(true, Segment::FIN, 50)];
        assert_eq!(Closing::of(&steps, &BTreeMap::from([(0, 150)])).before, Some(1));
        assert_eq!(Closing::of(&steps, &BTreeMap::from([(0, 100), (2, 50)])).before, Some(2));
        // The write and its last segment at one time.
        let steps = [step(false, 0, 0), step(true, 0, 100), step(true, Segment::FIN, 50)];
        assert_eq!(Closing::of(&steps, &BTreeMap::from([(1, 150)])).before, Some(1));
    }

    #[test]
    fn a_reset_with_an_ack_is_a_close_with_unread_data() {
        let none = BTreeMap::new();
        let mut steps = [step(true, 0, 0), step(false, 0, 100), step(true, Segment::RST, 0)];
        let closing = Closing::of(&steps, &none);
        assert_eq!(closing, Closing { before: Some(2), unread_from: Some(1) });
        // An answer to what should not have come.
        steps[2].segment.flags = Segment::RST;
        assert_eq!(Closing::of(&steps, &none), Closing::default());
    }
}
