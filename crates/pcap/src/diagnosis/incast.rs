//! Many senders to one receiver that lose whole windows together.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::{Kind, SHOWN, View, per_cent, share, time};
use crate::model::{Analysis, Event, EventKind, Evidence, Finding, Severity};

pub(super) const COLLAPSE: Kind = Kind {
    name: "incast-collapse",
    usually_means: "Many servers answer one client at once. Their first windows overflow the port's buffer, and all wait for \
                    timers while the port is idle.",
    try_this: "Mark early with DCTCP, lower rto_min, limit simultaneous answers, or share more buffer (dynamic thresholds).",
    severity: Severity::Severe,
};

/// Senders that wait at once: two may do so by chance.
const WAITING: usize = 3;
/// Least share of the senders that wait, of all senders to the receiver.
const WAITING_SHARE: f64 = 0.1;
/// A timeout without a floor is two or three RTTs.
const ROUND_TRIPS_WAITED: u64 = 10;
/// Largest rate of arrivals during the wait, as a share of the mean rate of busy times.
const IDLE: f64 = 0.1;

struct Wait<'a> {
    flow: u32,
    from: IpAddr,
    event: &'a Event,
}

impl Wait<'_> {
    /// When the silence begins that the timer ends.
    fn begin_ns(&self) -> u64 {
        self.event.at_ns.saturating_sub(self.event.lasted_ns)
    }

    fn is_at(&self, moment_ns: u64) -> bool {
        (self.begin_ns()..self.event.at_ns).contains(&moment_ns)
    }
}

/// The first moment at which most senders wait: just when one of the silences begins.
fn fullest_moment(waits: &[Wait<'_>]) -> Option<u64> {
    // Ends come before the beginnings of the same time, as they are no part of their waits.
    let waits = waits.iter().filter(|wait| wait.begin_ns() < wait.event.at_ns);
    let ends = |wait: &Wait<'_>| {
        [(wait.begin_ns(), true, wait.from), (wait.event.at_ns, false, wait.from)]
    };
    let mut changes: Vec<(u64, bool, IpAddr)> = waits.flat_map(ends).collect();
    changes.sort_unstable();
    // Of each sender that waits, how many of its flows do.
    let mut waiting: BTreeMap<IpAddr, u32> = BTreeMap::new();
    let mut fullest: Option<(usize, u64)> = None;
    for (at_ns, is_begin, from) in changes {
        let flows = waiting.entry(from).or_default();
        if is_begin {
            *flows += 1;
            if fullest.is_none_or(|(most, _)| waiting.len() > most) {
                fullest = Some((waiting.len(), at_ns));
            }
        } else if *flows > 1 {
            *flows -= 1;
        } else {
            waiting.remove(&from);
        }
    }
    fullest.map(|(_, at_ns)| at_ns)
}

/// Timeouts of several senders to one receiver at the same time, while next to nothing comes.
pub(super) fn collapse(analysis: &Analysis) -> Vec<Finding> {
    let mut receivers: BTreeMap<(usize, IpAddr), (BTreeSet<IpAddr>, Vec<Wait<'_>>)> =
        BTreeMap::new();
    // Views nearest to the senders may be of several points, but one point sees all that comes.
    for flow in &analysis.flows {
        for view in View::both(flow) {
            if view.data.bytes_sent == 0 {
                continue;
            }
            let is_a = std::ptr::eq(view.data, &flow.a_to_b);
            let (from, to) = if is_a { (flow.a, flow.b) } else { (flow.b, flow.a) };
            let (senders, waits) = receivers.entry((flow.point, to.ip())).or_default();
            senders.insert(from.ip());
            let base = view.base_rtt_ns().unwrap_or_default();
            let long = view
                .events(EventKind::Rto)
                .filter(|event| event.lasted_ns >= base.saturating_mul(ROUND_TRIPS_WAITED));
            waits.extend(long.map(|event| Wait { flow: flow.id, from: from.ip(), event }));
        }
    }
    let mut found: BTreeMap<IpAddr, Finding> = BTreeMap::new();
    for ((point, to), (senders, waits)) in &receivers {
        let Some(finding) = of_receiver(analysis, *point, *to, senders, waits) else { continue };
        match found.get(to) {
            Some(other) if other.flows.len() >= finding.flows.len() => {}
            _ => _ = found.insert(*to, finding),
        }
    }
    found.into_values().collect()
}

fn of_receiver(
    analysis: &Analysis,
    point: usize,
    to: IpAddr,
    senders: &BTreeSet<IpAddr>,
    waits: &[Wait<'_>],
) -> Option<Finding> {
    if senders.len() < WAITING {
        return None;
    }
    let moment = fullest_moment(waits)?;
    let at = |moment: u64| waits.iter().filter(move |wait| wait.is_at(moment));
    let waiting: BTreeSet<IpAddr> = at(moment).map(|wait| wait.from).collect();
    if waiting.len() < WAITING || share(waiting.len() as u64, senders.len() as u64) < WAITING_SHARE
    {
        return None;
    }
    let until = at(moment).map(|wait| wait.event.at_ns).min()?;
    let arrivals = analysis
        .whole
        .arrivals
        .iter()
        .find(|arrivals| arrivals.point == point && arrivals.to == to)?;
    let bin = |at_ns: u64| (at_ns.saturating_sub(arrivals.begin_ns) / arrivals.bin_ns) as usize;
    // Bins that lie within the wait altogether.
    let meanwhile =
        arrivals.bytes.get(bin(moment) + 1..bin(until)).filter(|bins| !bins.is_empty())?;
    let mean = |bins: &[u64]| share(bins.iter().sum(), bins.len() as u64);
    let busy: Vec<u64> = arrivals.bytes.iter().copied().filter(|bytes| *bytes > 0).collect();
    if mean(meanwhile) > IDLE * mean(&busy) {
        return None;
    }
    let mut flows: Vec<u32> = at(moment).map(|wait| wait.flow).collect();
    flows.dedup();
    let summary = format!(
        "{} of {} senders to {to} wait for retransmission timers at once, {} in all, while data arrives at {} of the usual rate.",
        waiting.len(),
        senders.len(),
        time(until - moment),
        per_cent(mean(meanwhile) / mean(&busy).max(1.0)),
    );
    let evidence = at(moment).take(2 * SHOWN).map(|wait| Evidence {
        flow: wait.flow,
        number: wait.event.number,
        says: format!("retransmitted after a silence of {}", time(wait.event.lasted_ns)),
    });
    Some(COLLAPSE.finding(flows, summary, evidence.collect(), 0.9))
}
