//! Counts of every link per period, for pictures of a whole network.
//!
//! The links count anyway. A look takes the difference to the look before, so that a run without looks pays nothing,
//! and links that did nothing take no memory.

use knee_queue::time::Time;
use knee_run::outcome::{LinkSample, Outcome};
use knee_run::spec::Run;

use crate::events::Event;
use crate::net::Net;

/// Counts of a link so far.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    sent_pkts: u64,
    sent_bytes: u64,
    marked_pkts: u64,
    dropped_pkts: u64,
}

/// Counts of all links at the last look.
#[derive(Debug, Default)]
pub(crate) struct LinkCounts {
    before: Vec<Count>,
    looked_at: Time,
}

impl LinkCounts {
    /// Adds what each link with a rate did since the last look, and schedules the next look. Does nothing in a run
    /// that asks for no looks.
    pub(crate) fn look(&mut self, run: &Run, net: &mut Net, outcome: &mut Outcome) {
        let Some(period) = run.sampling.links else { return };
        let now = net.now;
        // A run that ends with a period needs no second look.
        if now == self.looked_at {
            return;
        }
        self.looked_at = now;
        self.before.resize(net.links.len(), Count::default());
        for ((index, link), before) in net.links.numbered_mut().zip(&mut self.before) {
            if !link.has_rate() {
                continue;
            }
            let so_far = link.outcome(now);
            let count = Count {
                sent_pkts: so_far.sent_pkts,
                sent_bytes: so_far.sent_bytes,
                marked_pkts: so_far.marked_pkts,
                dropped_pkts: so_far.dropped_pkts(),
            };
            let marked_pkts = count.marked_pkts - before.marked_pkts;
            let sample = LinkSample {
                at: now,
                link: index,
                marked_pkts: u32::try_from(marked_pkts).unwrap_or(u32::MAX),
                sent_pkts: count.sent_pkts - before.sent_pkts,
                sent_bytes: count.sent_bytes - before.sent_bytes,
                dropped_pkts: count.dropped_pkts - before.dropped_pkts,
            };
            *before = count;
            if sample.sent_bytes > 0 || sample.marked_pkts > 0 || sample.dropped_pkts > 0 {
                outcome.link_samples.push(sample);
            }
        }
        net.events.push(now + period, Event::SampleLinks);
    }
}
