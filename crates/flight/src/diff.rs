//! Finds where two recordings start to differ, socket by socket.

use std::collections::{BTreeMap, VecDeque};

use knee_algo::FieldKind;

use crate::show::View;
use crate::{Header, Record};

/// The most records of one file that may wait for those of the other: about 100 MB.
const MOST_WAITING: usize = 1 << 16;

/// The comparison of two recordings of one socket.
#[derive(Debug)]
pub struct Pair {
    /// Number of equal calls, counted from the first.
    pub equal: u64,
    /// The first two calls that differ.
    pub parted: Option<Box<Parted>>,
    /// Records of the file that is ahead, and the number of that file: 0 or 1.
    waiting: VecDeque<Record>,
    ahead: usize,
}

/// The first difference of a socket.
#[derive(Debug)]
pub struct Parted {
    /// The field that differs: `the operation`, `snd_cwnd before`, `ca.velocity after`, ...
    pub what: String,
    /// The value in each of the two files.
    pub values: [String; 2],
    /// The call in each of the two files.
    pub records: [Record; 2],
}

/// Takes the records of two files in turn, and compares those of each socket in order.
#[derive(Debug)]
pub struct Diff {
    view: View,
    /// Whether the private states have the same fields, so that they can be compared.
    same_state: bool,
    pairs: BTreeMap<u64, Pair>,
    waiting: usize,
}

/// One file is ahead of the other by more records than may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooFarApart;

impl Diff {
    /// Starts a comparison of recordings with these headers. Private states are compared if both
    /// have the same fields.
    pub fn new(one: &Header, other: &Header) -> Diff {
        let same_state = one.algorithm == other.algorithm && one.fields == other.fields;
        Diff { view: View::of(one), same_state, pairs: BTreeMap::new(), waiting: 0 }
    }

    /// Reports whether private states are compared.
    pub fn compares_states(&self) -> bool {
        self.same_state
    }

    /// Takes the next record of the file `side`, 0 or 1.
    ///
    /// # Errors
    /// [`TooFarApart`].
    pub fn take(&mut self, side: usize, record: Record) -> Result<(), TooFarApart> {
        let pair = self.pairs.entry(record.flow).or_insert_with(|| Pair {
            equal: 0,
            parted: None,
            waiting: VecDeque::new(),
            ahead: side,
        });
        if pair.parted.is_some() {
            return Ok(());
        }
        if pair.waiting.is_empty() || pair.ahead == side {
            pair.ahead = side;
            pair.waiting.push_back(record);
            self.waiting += 1;
            return if self.waiting > MOST_WAITING { Err(TooFarApart) } else { Ok(()) };
        }
        let Some(waited) = pair.waiting.pop_front() else { return Ok(()) };
        self.waiting -= 1;
        let records = if side == 1 { [waited, record] } else { [record, waited] };
        match difference(&self.view, self.same_state, &records) {
            None => pair.equal += 1,
            Some((what, values)) => {
                self.waiting -= pair.waiting.len();
                pair.waiting.clear();
                pair.parted = Some(Box::new(Parted { what, values, records }));
            }
        }
        Ok(())
    }

    /// Returns the comparison of each socket, by socket number.
    pub fn pairs(&self) -> &BTreeMap<u64, Pair> {
        &self.pairs
    }

    /// Reports whether all records so far are equal.
    pub fn is_equal(&self) -> bool {
        self.pairs.values().all(|pair| pair.parted.is_none() && pair.waiting.is_empty())
    }
}

impl Pair {
    /// Returns the file that has calls beyond the equal ones, and how many.
    pub fn more(&self) -> Option<(usize, usize)> {
        (!self.waiting.is_empty()).then_some((self.ahead, self.waiting.len()))
    }
}

fn difference(
    view: &View,
    same_state: bool,
    [one, other]: &[Record; 2],
) -> Option<(String, [String; 2])> {
    let differs = |what: &str, a: String, b: String| (a != b).then(|| (what.to_owned(), [a, b]));
    let texts = |record: &Record| record.given.values().iter().map(ToString::to_string).collect();
    let (given, other_given): (Vec<String>, Vec<String>) = (texts(one), texts(other));
    differs("the number of the call", one.number.to_string(), other.number.to_string())
        .or_else(|| differs("the operation", one.call.kind(), other.call.kind()))
        .or_else(|| {
            differs("the arguments", format!("{:?}", one.call), format!("{:?}", other.call))
        })
        .or_else(|| fields(view, same_state, [one, other], false))
        .or_else(|| differs("jiffies", one.jiffies.to_string(), other.jiffies.to_string()))
        .or_else(|| differs("what the host gave", given.join("; "), other_given.join("; ")))
        .or_else(|| differs("the return value", one.result.to_string(), other.result.to_string()))
        .or_else(|| {
            let asked =
                |r: &Record| format!("{:?}, {}, {:?}", r.asked_acks, r.rehashes, r.fallback);
            differs("what was asked for", asked(one), asked(other))
        })
        .or_else(|| fields(view, same_state, [one, other], true))
}

/// Finds the first field that differs, before or after the call.
fn fields(
    view: &View,
    same_state: bool,
    [one, other]: [&Record; 2],
    after: bool,
) -> Option<(String, [String; 2])> {
    let (one, other) = (view.changes(one), view.changes(other));
    one.iter().zip(&other).find_map(|(a, b)| {
        let (x, y) = if after { (a.after, b.after) } else { (a.before, b.before) };
        let kind = view.kind(a.name);
        if kind.is_some() && !same_state {
            return None;
        }
        // Addresses differ between processes, so only their presence is compared.
        let is_same = match kind {
            Some(FieldKind::Pointer) => (x == 0) == (y == 0),
            _ => x == y,
        };
        let when = if after { "after" } else { "before" };
        (!is_same).then(|| (format!("{} {when}", a.name), [x.to_string(), y.to_string()]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Origin;
    use knee_algo::{Algorithm, Call, TcpSock};

    fn diff() -> Diff {
        let dctcp = Algorithm::by_name("dctcp").unwrap();
        let header = Header::new(dctcp, &dctcp.default_params(), Origin::Simulator, 1000);
        Diff::new(&header, &header)
    }

    fn record(flow: u64, number: u64, cwnd: u32) -> Record {
        let sock = TcpSock { snd_cwnd: cwnd, ..TcpSock::default() };
        Record { flow, number, ..Record::new(Call::Ssthresh, &sock, &sock) }
    }

    #[test]
    fn sockets_are_compared_by_themselves_in_whatever_order_they_come() {
        let mut diff = diff();
        for record in [record(1, 0, 10), record(1, 1, 11), record(3, 0, 5)] {
            diff.take(0, record).unwrap();
        }
        for record in [record(3, 0, 5), record(1, 0, 10), record(1, 1, 12), record(1, 2, 13)] {
            diff.take(1, record).unwrap();
        }
        assert!(!diff.is_equal());
        let (one, three) = (&diff.pairs()[&1], &diff.pairs()[&3]);
        assert_eq!((three.equal, three.parted.is_none(), three.more()), (1, true, None));
        let parted = one.parted.as_ref().unwrap();
        assert_eq!((one.equal, parted.what.as_str()), (1, "snd_cwnd before"));
        assert_eq!(parted.values, ["11", "12"]);
    }

    #[test]
    fn a_file_that_has_more_is_told() {
        let mut diff = diff();
        diff.take(1, record(1, 0, 10)).unwrap();
        diff.take(0, record(1, 0, 10)).unwrap();
        assert!(diff.is_equal());
        diff.take(1, record(1, 1, 10)).unwrap();
        assert!(!diff.is_equal());
        assert_eq!(diff.pairs()[&1].more(), Some((1, 1)));
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut diff = diff();
        for number in 0..MOST_WAITING as u64 {
            diff.take(0, record(1, number, 10)).unwrap();
        }
        assert_eq!(diff.take(0, record(2, 0, 10)), Err(TooFarApart));
    }
}
