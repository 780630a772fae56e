//! Packet trimming in front of a TCP that does not know of it.

use crate::common::*;
use knee_queue::{Limit, QueueConfig, Threshold, TrimConfig};
use knee_run::outcome::Outcome;

/// Ten segments reach a port at once that holds five beside the one that leaves.
fn ten_segments(queue: QueueConfig) -> Outcome {
    let path = Path { queue, ..Path::new(ms(1)) };
    simulate(&path.run(vec![path.bulk("reno", 10 * MSS)]))
}

#[test]
fn a_trimmed_segment_takes_the_time_of_its_headers_and_reaches_no_tcp() {
    let threshold = Threshold::Pkts(1000);
    let trim = TrimConfig { limit: Limit::Pkts(5), threshold, headers_pkts: 100 };
    let trimmed = ten_segments(QueueConfig::Trim(trim));
    let dropped = ten_segments(droptail(Limit::Pkts(5)));
    let port = |outcome: &Outcome| {
        let queues = outcome.queues.iter();
        queues.max_by_key(|queue| queue.trimmed_pkts + queue.dropped_full_pkts).cloned().unwrap()
    };
    let (with, without) = (port(&trimmed), port(&dropped));
    assert_eq!((with.trimmed_pkts, with.dropped_pkts()), (4, 0));
    assert_eq!((without.trimmed_pkts, without.dropped_pkts()), (0, 4));
    // Four headers of 66 bytes more went over the link, and nothing else.
    assert_eq!(with.sent_pkts, without.sent_pkts + 4);
    assert_eq!(with.sent_bytes, without.sent_bytes + 4 * 66);
    let flow = |outcome: &Outcome| {
        let flow = &outcome.flows[0];
        let counters = flow.counters.complete().expect("all are known");
        (flow.received_bytes, counters.retransmitted_segs, counters.timeouts)
    };
    assert_eq!(flow(&trimmed), flow(&dropped));
    assert_eq!(flow(&trimmed).0, 10 * MSS);
}
