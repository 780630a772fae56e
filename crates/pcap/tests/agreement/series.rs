//! Samples of TCP_INFO beside what the analysis says of packets before these moments.

use knee_pcap::model::PacketRow;
use knee_run::outcome::FlowSample;

use super::sender::Sender;
use super::table::{Pair, same, within};

/// Tolerated error of an RTT from timestamps, us: a tick of their clock.
const TICK_US: u64 = 1000;

/// Pairs of all samples of a flow.
#[derive(Default)]
pub(crate) struct Series {
    pub(crate) srtt_us: Vec<Pair>,
    pub(crate) min_rtt_us: Vec<Pair>,
    pub(crate) in_flight: Vec<Pair>,
    pub(crate) bytes_acked: Vec<Pair>,
    pub(crate) again: Vec<Pair>,
}

impl Series {
    /// Those of another flow.
    pub(crate) fn add(&mut self, other: Series) {
        self.srtt_us.extend(other.srtt_us);
        self.min_rtt_us.extend(other.min_rtt_us);
        self.in_flight.extend(other.in_flight);
        self.bytes_acked.extend(other.bytes_acked);
        self.again.extend(other.again);
    }
}

/// Goes through a flow's packets at its sender and its samples side by side. A moment at which a packet passed is left out: which of
/// both was first is not known.
pub(crate) fn of(
    rows: &[&PacketRow],
    samples: &[&FlowSample],
    handshake_ns: Option<u64>,
    mss: u32,
    has_sack: bool,
) -> Series {
    let mut sender = Sender::new(rows, handshake_ns, mss);
    let mut all = Series::default();
    let mut next = 0;
    for sample in samples {
        let at_ns = sample.at.ns();
        while let Some(row) = rows.get(next).filter(|row| row.at_ns < at_ns) {
            next += 1;
            sender.row(row);
        }
        if rows.get(next).is_none_or(|row| row.at_ns > at_ns) {
            compare(&sender, sample, has_sack, &mut all);
        }
    }
    all
}

fn compare(sender: &Sender<'_>, sample: &FlowSample, has_sack: bool, all: &mut Series) {
    if let Some(srtt_us) = sender.srtt_us() {
        all.srtt_us.push(within(srtt_us, sample.srtt_us.into(), 1, 1));
    }
    if let Some(least) = sender.min_rtt_us {
        let ticks_us = if sender.has_unknown { TICK_US } else { 0 };
        all.min_rtt_us.push(within(least, sample.min_rtt_us.into(), 0, ticks_us));
    }
    // Without SACK the kernel counts duplicate ACKs as arrived packets, without knowing which.
    let sacked = if has_sack { sample.sacked } else { 0 };
    all.in_flight.push(same(sender.in_flight_pkts(), u64::from(sample.unacked - sacked)));
    all.bytes_acked.push(same(sender.una, sample.bytes_acked));
    all.again.push(same(sender.again, sample.total_retrans));
}
