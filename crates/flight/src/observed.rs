//! Records calls of a native instance, which is how the simulator records.

use knee_algo::{Observed, Observer};

use crate::Record;
use crate::record::without_last_zeroes;

/// Returns an observer that passes a record of every call of socket `flow` to `sink`. Give it to
/// [`knee_algo::Instance::observe`].
pub fn observer(flow: u64, sink: impl FnMut(Record) + 'static) -> Box<dyn Observer> {
    Box::new(Recorder { flow, number: 0, sink })
}

struct Recorder<Sink> {
    flow: u64,
    number: u64,
    sink: Sink,
}

impl<Sink: FnMut(Record)> Observer for Recorder<Sink> {
    fn called(&mut self, observed: &Observed<'_>) {
        let Observed { call, result, before, after, host, acks_before, .. } = observed;
        let (rehashes_before, given) = (observed.rehashes_before, observed.given);
        (self.sink)(Record {
            flow: self.flow,
            number: self.number,
            result: *result,
            jiffies: host.jiffies,
            given: given.clone(),
            asked_acks: host.asked_acks().skip(*acks_before).collect(),
            rehashes: u32::from(host.asked_rehashes().wrapping_sub(rehashes_before)),
            fallback: host.asked_fallback(),
            large_before: without_last_zeroes(observed.large_before),
            large_after: without_last_zeroes(observed.large_after),
            ..Record::new(*call, before, after)
        });
        self.number += 1;
    }
}
