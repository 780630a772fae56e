//! The records of a run, in the simulator's shape.

use std::collections::BTreeSet;

use knee_linux::Chosen;
use knee_linux::counts;
use knee_linux::side::{counters_then, flow_outcome};
use knee_queue::time::{Duration, Time};
use knee_run::Run;
use knee_run::outcome::{
    GoodputSample, HostCount, Outcome, PingRecord, QueueOutcome, QueueSample, RpcRecord,
    WindowLooks,
};
use knee_run::spec::Traffic;

use crate::plan::Plan;
use crate::site::{HostCounts, SiteCounts};
use crate::switch::SwitchReport;
use crate::traffic::{TcpInfo, TrafficReport};

/// What Linux has for `snd_ssthresh` where there is none yet.
const NO_SSTHRESH: u32 = 0x7fff_ffff;
/// Well above any initial window that a route may be given.
const POSSIBLE_AT_ONCE_PKTS: u64 = 10_000;

/// Everything that was recorded, put together. What nobody measured is absent.
pub(crate) fn assemble(
    run: &Run,
    plan: &Plan,
    chosen: &Chosen,
    report: &TrafficReport,
    switch: &SwitchReport,
    (before, after): (&SiteCounts, &SiteCounts),
) -> Outcome {
    let of_queues = switch.window.clone();
    let hosts = plan.hosts.iter().zip(before.hosts.iter().zip(&after.hosts));
    Outcome {
        queues: switch.queues.clone(),
        // The switch goes on while the applications end.
        queue_samples: samples_until(&switch.queue_samples, Time::from_ns(report.end_ns)),
        host_counts: hosts.map(|(host, counts)| host_count(host.node, counts)).collect(),
        ..of_applications(run, &|name| chosen.own_name(name), report, of_queues)
    }
}

/// What applications recorded; `own_name` is what experiments call the algorithm that the kernel calls so, `queues` what queues
/// had counted at the ends of the measured window.
pub(crate) fn of_applications(
    run: &Run,
    own_name: &dyn Fn(&str) -> &'static str,
    report: &TrafficReport,
    queues: Option<[Vec<QueueOutcome>; 2]>,
) -> Outcome {
    let at = Time::from_ns;
    let mut sides = vec![[None; 2]; run.flows.len()];
    for side in &report.sides {
        if let Some(of_flow) = sides.get_mut(side.flow as usize) {
            of_flow[usize::from(side.listens)] = Some(side);
        }
    }
    let flows = run.flows.iter().zip(&sides).map(|(flow, [client, server])| {
        let is_rpc = matches!(flow.traffic, Traffic::Rpc { .. });
        flow_outcome(is_rpc, own_name, *client, *server)
    });
    let rpcs = report.rpcs.iter().map(|(flow, start_ns, latency_ns)| RpcRecord {
        flow: *flow,
        start: at(*start_ns),
        latency: Duration::from_ns(*latency_ns),
        timeouts: None,
    });
    let pings = report.pings.iter().map(|(ping, sent_ns, rtt_ns)| PingRecord {
        ping: *ping,
        sent: at(*sent_ns),
        rtt: rtt_ns.map(Duration::from_ns),
    });
    let flow_samples = report.flow_samples.iter();
    let goodput_samples = report.goodput_samples.iter().map(|(at_ns, flow, bytes)| GoodputSample {
        at: at(*at_ns),
        flow: *flow,
        bytes: *bytes,
    });
    let mut outcome = Outcome {
        end: at(report.end_ns),
        flows: flows.collect(),
        rpcs: rpcs.collect(),
        pings: pings.collect(),
        flow_samples: flow_samples
            .filter_map(|(at_ns, flow, info, diag)| {
                TcpInfo::new(info).flow_sample(at(*at_ns), *flow, diag.clone())
            })
            .collect(),
        goodput_samples: goodput_samples.collect(),
        ..Outcome::default()
    };
    let is_rpc = |flow: u32| {
        let flow = run.flows.get(flow as usize);
        flow.is_some_and(|flow| matches!(flow.traffic, Traffic::Rpc { .. }))
    };
    let flows = report.window.as_ref();
    let flows = flows.map(|ends| ends.each_ref().map(|looks| counters_then(looks, is_rpc)));
    outcome.count_window(&run.sampling, run.flows.len(), &WindowLooks { flows, queues });
    outcome
}

fn samples_until(samples: &[QueueSample], end: Time) -> Vec<QueueSample> {
    samples.iter().filter(|sample| sample.at <= end).copied().collect()
}

/// Flows with an impossible window, in a sample or at the end of either side.
pub(crate) fn impossible_windows(report: &TrafficReport) -> u64 {
    let at_end = report.sides.iter().map(|side| (side.flow, &side.info));
    let sampled = report.flow_samples.iter().map(|(_, flow, info, _)| (*flow, info));
    let of_flows = at_end.chain(sampled).filter(|(_, info)| has_impossible_window(info));
    of_flows.map(|(flow, _)| flow).collect::<BTreeSet<_>>().len() as u64
}

/// A window grows by what is acked, so it does not get far beyond what was ever sent. A return address taken for an answer is
/// beyond it, and so is what grows out of that.
fn has_impossible_window(info: &[u8]) -> bool {
    let info = TcpInfo::new(info);
    let possible = 2 * u64::from(info.segs_out().unwrap_or(u32::MAX)) + POSSIBLE_AT_ONCE_PKTS;
    let ssthresh = info.snd_ssthresh().filter(|ssthresh| *ssthresh != NO_SSTHRESH);
    ssthresh.into_iter().chain(info.snd_cwnd()).any(|window| u64::from(window) > possible)
}

/// What a host's MIBs say of the time between two looks, and the CPU time of its receiving.
fn host_count(node: u32, (before, after): (&HostCounts, &HostCounts)) -> HostCount {
    let mut count = counts::host_count(node, &before.mib, &after.mib);
    let cpu_ns = after.receive_cpu_ns.zip(before.receive_cpu_ns);
    count.received.cpu_ns = cpu_ns.map(|(after, before)| after.saturating_sub(before));
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::SideReport;

    /// As the kernel lays them out: `tcpi_snd_ssthresh`, `tcpi_snd_cwnd`, `tcpi_segs_out`.
    fn info(ssthresh: u32, cwnd: u32, segs_out: u32) -> Vec<u8> {
        let mut info = vec![0; 256];
        for (offset, value) in [(76, ssthresh), (80, cwnd), (136, segs_out)] {
            info[offset..offset + 4].copy_from_slice(&value.to_ne_bytes());
        }
        info
    }

    #[test]
    fn garbage_in_the_place_of_an_answer_is_told_from_windows() {
        assert!(!has_impossible_window(&info(NO_SSTHRESH, 10, 1)), "a new connection");
        assert!(!has_impossible_window(&info(2, 70_000, 60_000)), "a long one");
        // The low half of a return address in the kernel; half of such a window; a window that grew towards it.
        assert!(has_impossible_window(&info(0x8220_5665, 26, 271)));
        assert!(has_impossible_window(&info(365_858_794, 5, 271)));
        assert!(has_impossible_window(&info(20, 77_969_987, 271)));
        assert!(!has_impossible_window(&[]), "there was no connection");
    }

    #[test]
    fn a_flow_with_an_impossible_window_counts_once() {
        let side = |flow, info| SideReport { flow, info, ..SideReport::default() };
        let sample = |flow, info| (0, flow, info, Vec::new());
        let garbage = || info(0x8220_5665, 26, 271);
        let report = TrafficReport {
            sides: vec![side(0, garbage()), side(1, info(20, 26, 271)), side(2, Vec::new())],
            flow_samples: vec![sample(0, garbage()), sample(1, garbage()), sample(1, garbage())],
            ..TrafficReport::default()
        };
        assert_eq!(impossible_windows(&report), 2);
    }
}
