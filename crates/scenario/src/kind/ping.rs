//! `kind = "ping"`: small packets back and forth.

use std::sync::Arc;

use knee_file::keys::{Choice, Key};
use knee_file::units::Size;
use knee_file::{Error, keys};
use knee_queue::time::{Duration, Time};
use knee_queue::{ETHERNET_BYTES, Ecn};
use knee_run::spec::{Ping, Run};

use super::pairs::BETWEEN;
use super::{
    COMMON, Described, EntryInRun, EntryParts, EntryReader, Group, NAMED, Pattern, TIMED,
    TrafficSpec,
};
use super::{cut_off, group::Facts};
use crate::metric::{Kind, Known, Measured, Metric as M};
use crate::network::NetworkSpec;

/// Bytes of Ethernet, IPv4 and UDP headers around a ping's payload. IPv6's header is longer.
const PING_HEADER_BYTES: u64 = ETHERNET_BYTES as u64 + 20 + 8;
const IPV6_EXTRA_BYTES: u64 = 20;

keys! {
    /// Small packets back and forth.
    static KEYS: PingKeys = "ping" {
        /// Time between pings.
        interval: Key<Duration> = needed("1 ms").at_least("1 us"),
        /// Payload.
        size: Key<Size> = or(Size(64)).at_most("1400 B").like("64 B"),
        /// ECN field.
        ecn: Choice<Ecn> = of(ECN).or("not-ect"),
    }
}

pub(super) const ECN: &[(&str, Ecn)] =
    &[("not-ect", Ecn::NotEct), ("ect0", Ecn::Ect0), ("ect1", Ecn::Ect1)];

pub(super) static PING: Described =
    Described { keys: &[&NAMED, &BETWEEN, &COMMON, &TIMED, &KEYS], read };

/// Packets without TCP that each pair sends at regular times.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) interval: Duration,
    pub(super) wire_bytes: u32,
    pub(super) ecn: Ecn,
    pub(super) dscp: u8,
}

impl Stream {
    /// Adds a stream of each pair to a run; it goes one way if it has an end.
    pub(super) fn add(
        &self,
        entry: &TrafficSpec,
        in_run: &EntryInRun,
        run: &mut Run,
        one_way_until: Option<Time>,
    ) {
        let mut jitter = in_run.random(1);
        run.pings.extend(entry.pairs.iter().map(|&(from, to)| Ping {
            from,
            to,
            start: Time::ZERO + entry.start + jitter.up_to(entry.start_jitter),
            interval: self.interval,
            wire_bytes: self.wire_bytes,
            ecn: self.ecn,
            dscp: self.dscp,
            one_way_until,
        }));
    }
}

/// Returns the bytes around the payload of a packet without TCP.
pub(super) fn header_bytes(network: &NetworkSpec) -> u64 {
    PING_HEADER_BYTES + if network.ipv6() { IPV6_EXTRA_BYTES } else { 0 }
}

fn read(entry: &EntryReader<'_>) -> Result<EntryParts, Error> {
    let (reader, pairs) = (entry.reader, entry.pairs()?);
    let interval = reader.read(&KEYS.interval)?;
    let size = reader.read(&KEYS.size)?.0;
    let pings = Stream {
        interval,
        wire_bytes: (size + header_bytes(entry.network)) as u32,
        ecn: reader.choose(&KEYS.ecn)?,
        dscp: reader.read(&COMMON.dscp)? as u8,
    };
    Ok(EntryParts { kind: Kind::Ping, pairs, connections: None, pattern: Arc::new(pings) })
}

impl Pattern for Stream {
    fn ping_interval(&self) -> Option<Duration> {
        Some(self.interval)
    }

    fn build(&self, entry: &TrafficSpec, in_run: &EntryInRun, run: &mut Run) {
        self.add(entry, in_run, run, None);
    }

    fn measure(&self, measured: &mut Measured, group: &Group<'_>) {
        let Facts { outcome, ping_groups, .. } = group.facts;
        if group.facts.is_window_empty() {
            return;
        }
        let answered = cut_off::answered_pings(outcome, ping_groups.len());
        let mut unanswered = 0;
        for ping in &outcome.pings {
            let is_of_group = ping_groups.get(ping.ping as usize) == Some(&group.number);
            match ping.rtt {
                _ if !is_of_group || !group.facts.holds(ping.sent) => {}
                Some(rtt) => measured.record(M::Rtt, rtt.ns()),
                None => {
                    unanswered += 1;
                    if answered[ping.ping as usize].waits(ping, outcome.end) {
                        let age = Known::between(ping.sent, None, outcome.end);
                        measured.record_time(M::Rtt, age);
                    }
                }
            }
        }
        measured.record(M::Unanswered, unanswered);
    }
}
