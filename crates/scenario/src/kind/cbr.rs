//! `kind = "cbr"`: packets at a constant rate, as UDP sends them: without answers, retransmissions and congestion control.

use std::sync::Arc;

use knee_file::keys::{Choice, Key};
use knee_file::units::Size;
use knee_file::{Error, keys};
use knee_queue::Ecn;
use knee_queue::time::{Duration, PS_PER_S, Rate, Time};
use knee_run::spec::{Ping, Run};

use super::pairs::BETWEEN;
use super::ping::{ECN, Stream, header_bytes};
use super::{
    COMMON, Described, EntryInRun, EntryParts, EntryReader, Group, NAMED, Pattern, TIMED,
    TrafficSpec, cut_off,
};
use crate::metric::{Kind, Known, Measured, Metric as M};

keys! {
    /// Packets at a constant rate, without answers.
    static KEYS: CbrKeys = "cbr" {
        /// Payload a second of each pair.
        rate: Key<Rate> = needed("10 Mbps"),
        /// Payload of a packet; with its headers it fits the MTU of both hosts.
        size: Key<Size> = or(Size(1000)).at_least("1 B").like("1000 B"),
        /// ECN field.
        ecn: Choice<Ecn> = of(ECN).or("not-ect"),
        /// Stop time.
        stop: Key<Duration> = usually("end of the run"),
    }
}

pub(super) static CBR: Described =
    Described { keys: &[&NAMED, &BETWEEN, &COMMON, &TIMED, &KEYS], read };

#[derive(Debug)]
struct Cbr {
    stream: Stream,
    payload_bytes: u32,
    stop: Option<Duration>,
}

fn read(entry: &EntryReader<'_>) -> Result<EntryParts, Error> {
    let (reader, pairs) = (entry.reader, entry.pairs()?);
    let rate = reader.read(&KEYS.rate)?;
    let size = reader.read(&KEYS.size)?.0;
    let headers = header_bytes(entry.network);
    let nodes = &entry.network.network().nodes;
    let hosts = pairs.iter().flat_map(|(from, to)| [*from, *to]);
    let mtus = hosts.filter_map(|host| Some(nodes[host as usize].host.as_ref()?.mtu_bytes));
    let most = mtus.min().map_or(0, u64::from) + u64::from(knee_queue::ETHERNET_BYTES) - headers;
    if size > most {
        let why = format!("must be at most {most} B, the MTU without headers of IP and UDP");
        return Err(reader.error(&KEYS.size, why));
    }
    let interval_ps = u128::from(size) * 8 * u128::from(PS_PER_S) / u128::from(rate.bps());
    let cbr = Cbr {
        stream: Stream {
            interval: Duration::from_ps(u64::try_from(interval_ps).unwrap_or(u64::MAX).max(1)),
            wire_bytes: (size + headers) as u32,
            ecn: reader.choose(&KEYS.ecn)?,
            dscp: reader.read(&COMMON.dscp)? as u8,
        },
        payload_bytes: size as u32,
        stop: reader.get(&KEYS.stop)?,
    };
    if cbr.stop.is_some_and(|stop| stop <= entry.start) {
        return Err(reader.error(&KEYS.stop, "must be later than the start"));
    }
    Ok(EntryParts { kind: Kind::Cbr, pairs, connections: None, pattern: Arc::new(cbr) })
}

impl Pattern for Cbr {
    fn ping_interval(&self) -> Option<Duration> {
        Some(self.stream.interval)
    }

    fn build(&self, entry: &TrafficSpec, in_run: &EntryInRun, run: &mut Run) {
        let stop = self.stop.map_or(run.end, |stop| Time::ZERO + stop);
        self.stream.add(entry, in_run, run, Some(stop));
    }

    /// Measures the packets that were sent in the window. Those in flight when the run ended were neither received nor lost: they
    /// do not count as sent, and have taken at least their age if that is more than any other took, or a later one came first.
    fn measure(&self, measured: &mut Measured, group: &Group<'_>) {
        let (run, outcome) = (group.facts.run, group.facts.outcome);
        let groups = &group.facts.ping_groups;
        if group.facts.is_window_empty() {
            return;
        }
        let arrived = cut_off::answered_pings(outcome, groups.len());
        let mut received_pkts = vec![0_u64; groups.len()];
        let (mut sent, mut lost) = (0, 0);
        for packet in &outcome.pings {
            let stream = packet.ping as usize;
            if groups.get(stream) != Some(&group.number) {
                continue;
            }
            if packet.rtt.is_some_and(|delay| group.facts.holds(packet.sent + delay)) {
                received_pkts[stream] += 1;
            }
            match packet.rtt {
                _ if !group.facts.holds(packet.sent) => {}
                Some(delay) => {
                    sent += 1;
                    measured.record(M::Delay, delay.ns());
                }
                None if !packet.in_flight => {
                    sent += 1;
                    lost += 1;
                }
                None if arrived[stream].waits(packet, outcome.end) => {
                    let age = Known::between(packet.sent, None, outcome.end);
                    measured.record_time(M::Delay, age);
                }
                None => {}
            }
        }
        let received = received_pkts.iter().sum::<u64>();
        measured.record(M::SentPkts, sent);
        measured.record(M::ReceivedPkts, received);
        measured.record(M::LostPkts, lost);
        Group::record_share(measured, M::LossShare, lost, sent);
        let per_second = |stream: &Ping, pkts: u64| {
            let until = stream.one_way_until.map_or(outcome.end, |stop| stop.min(outcome.end));
            let (from, until) = match group.facts.window {
                Some(window) => (stream.start.max(window.from), until.min(window.until)),
                None => (stream.start, until),
            };
            let span_ps = until.max(from).since(from).ps();
            let bits = pkts as f64 * f64::from(self.payload_bytes) * 8.0;
            (span_ps > 0).then(|| bits * PS_PER_S as f64 / span_ps as f64)
        };
        let of_group = groups.iter().zip(&run.pings).zip(received_pkts);
        let of_group = of_group.filter(|((number, _), _)| **number == group.number);
        let rates = of_group.filter_map(|((_, stream), pkts)| per_second(stream, pkts));
        let mut sum = 0.0;
        for rate in rates {
            measured.measure(M::Goodput, rate);
            sum += rate;
        }
        measured.measure(M::GoodputSum, sum);
    }
}
