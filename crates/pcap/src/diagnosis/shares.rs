//! Shares of a port that follow its inputs.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::{Kind, View, per_cent, rate};
use crate::model::{Analysis, Evidence, Finding, Flow, Severity};

pub(super) const BY_INPUT: Kind = Kind {
    name: "shares-by-input",
    usually_means: "The switch's output port serves several buffers in turn, and each input is wired to one of them.",
    try_this: "Spread heavy senders over the switch's port groups; no congestion control can fix this.",
    severity: Severity::Costs,
};

/// Two senders that differ may be anything; of three, two groups of other sizes and equal sums are hardly chance.
const SENDERS: usize = 3;
/// Round trips of all senders together that are compared.
const ROUND_TRIPS: u64 = 20;
/// Sums of groups differ by less than this: turns are exact, what is captured at its ends is not.
const SUMS: f64 = 1.1;
/// Senders of different groups differ by more than this, and by more than those of one: groups of one and two differ by 2, of two and
/// three by 1.5, of three and four by 1.33.
const BETWEEN: f64 = 1.3;

struct Sender {
    from: IpAddr,
    bytes: u64,
    flow: u32,
    number: u64,
}

/// Senders to one receiver in two groups of different sizes that get the same.
pub(super) fn by_input(analysis: &Analysis) -> Vec<Finding> {
    let mut receivers: BTreeMap<(usize, IpAddr), Vec<(IpAddr, View<'_>)>> = BTreeMap::new();
    // Views nearest to the senders may be of several points, but one point sees all that comes.
    for flow in &analysis.flows {
        let both = View::both(flow).into_iter().zip(ends(flow));
        for (view, (from, to)) in both {
            // Every sender to a full port gets its marks or losses.
            let meets = view.losses() > 0 || view.data.ecn.ce > 0 || view.data.ecn.ece > 0;
            if meets && view.data.rounds.len() >= SENDERS {
                receivers.entry((flow.point, to)).or_default().push((from, view));
            }
        }
    }
    let mut found: BTreeMap<IpAddr, Finding> = BTreeMap::new();
    for ((_, to), views) in &receivers {
        let Some(finding) = of_receiver(*to, views) else { continue };
        match found.get(to) {
            Some(other) if other.flows.len() >= finding.flows.len() => {}
            _ => _ = found.insert(*to, finding),
        }
    }
    found.into_values().collect()
}

fn ends(flow: &Flow) -> [(IpAddr, IpAddr); 2] {
    [(flow.a.ip(), flow.b.ip()), (flow.b.ip(), flow.a.ip())]
}

fn of_receiver(to: IpAddr, views: &[(IpAddr, View<'_>)]) -> Option<Finding> {
    // The second half of the time in which all of them send: the first is for coming together.
    let begin = views.iter().map(|(_, view)| view.flow.begin_ns).max()?;
    let end = views.iter().map(|(_, view)| view.flow.end_ns).min()?;
    let longest_rtt = views.iter().filter_map(|(_, view)| view.base_rtt_ns()).max()?;
    let lasted = end.checked_sub(begin)?;
    if lasted < longest_rtt.saturating_mul(2 * ROUND_TRIPS) {
        return None;
    }
    let from_ns = begin + lasted / 2;
    let mut senders: BTreeMap<IpAddr, Sender> = BTreeMap::new();
    for (from, view) in views {
        let rounds = view.data.rounds.iter();
        let counted = rounds.filter(|round| round.begin_ns >= from_ns && round.begin_ns < end);
        let first =
            counted.clone().next().map_or(view.flow.first_number, |round| round.first_number);
        let bytes: u64 = counted.map(|round| round.bytes).sum();
        let fresh = || Sender { from: *from, bytes: 0, flow: view.flow.id, number: first };
        senders.entry(*from).or_insert_with(fresh).bytes += bytes;
    }
    let mut senders: Vec<Sender> = senders.into_values().collect();
    if senders.len() < SENDERS {
        return None;
    }
    senders.sort_by_key(|sender| (sender.bytes, sender.from));
    let sum = |group: &[Sender]| group.iter().map(|sender| sender.bytes).sum::<u64>() as f64;
    let ratio = |large: f64, small: f64| large / small.max(1.0);
    let spread = |group: &[Sender]| {
        let ends = group.last().zip(group.first());
        ends.map_or(1.0, |(most, least)| ratio(most.bytes as f64, least.bytes as f64))
    };
    let boundary = (1..senders.len()).find(|at| {
        let (low, high) = senders.split_at(*at);
        let sums = ratio(sum(low).max(sum(high)), sum(low).min(sum(high)));
        let between = ratio(high[0].bytes as f64, low[low.len() - 1].bytes as f64);
        sums < SUMS && between > BETWEEN && between > spread(low).max(spread(high))
    })?;
    let (low, high) = senders.split_at(boundary);
    let all = sum(&senders);
    let of = |group: &[Sender]| per_cent(sum(group) / group.len() as f64 / all);
    let bps = all * 8e9 / (end - from_ns) as f64;
    let summary = format!(
        "Of {} to {to}, {} senders get {} each and {} get {} each: both groups get the same total, although one is larger.",
        rate(bps),
        low.len(),
        of(low),
        high.len(),
        of(high),
    );
    let evidence = senders.iter().map(|sender| Evidence {
        flow: sender.flow,
        number: sender.number,
        says: format!("{} sends {} from here on", sender.from, per_cent(sender.bytes as f64 / all)),
    });
    let flows = senders.iter().map(|sender| sender.flow).collect();
    Some(BY_INPUT.finding(flows, summary, evidence.collect(), 0.8))
}
