//! The records of a run, in the simulator's shape.

use std::collections::BTreeSet;

use knee_linux::{Chosen, applications, counts};
use knee_queue::time::Time;
use knee_run::Run;
use knee_run::outcome::{HostCount, Outcome, QueueSample};

use crate::plan::Plan;
use crate::site::{HostCounts, SiteCounts};
use crate::switch::SwitchReport;
use crate::traffic::{TcpInfo, TrafficReport};

/// `TCP_INFINITE_SSTHRESH` of Linux: no ssthresh yet.
const NO_SSTHRESH: u32 = 0x7fff_ffff;
/// A window that no route's `initcwnd` reaches.
const POSSIBLE_AT_ONCE_PKTS: u64 = 10_000;

/// The outcome of a run from all records. A value that nobody measured is absent.
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
        ..applications::outcome(run, &|name| chosen.own_name(name), report, of_queues)
    }
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

/// Difference of a host's MIBs and of its receive CPU time between two readings.
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
