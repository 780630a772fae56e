//! Measures hosts and their sockets: merging, ACKs, CPU time, windows and RTTs.

use Metric as M;
use knee_queue::time::{Duration, PS_PER_S, Time};
use knee_run::outcome::{FlowCounters, FlowOutcome, HostCount, Outcome};
use knee_run::spec::Run;
use knee_scenario::metric::{Measured, Metric, Window};

/// Measures the cost of marks for hosts: packets per merge, ACKs, and CPU time of both ends.
pub(crate) fn measure_receiving(
    measured: &mut Measured,
    flows: &[&FlowOutcome],
    receivers: &[&HostCount],
    senders: Option<&[&HostCount]>,
) {
    let total = |of: fn(&HostCount) -> Option<u64>| receivers.iter().map(|host| of(host)).sum();
    let wire: Option<u64> = total(|host| host.received.wire_pkts);
    let merged: Option<u64> = total(|host| host.received.merged_pkts);
    let Some((wire, merged)) = wire.zip(merged).filter(|(_, merged)| *merged > 0) else { return };
    measured.measure(M::PktsPerMerge, wire as f64 / merged as f64);
    let mb = flows.iter().map(|flow| flow.received_bytes).sum::<u64>() as f64 / 1e6;
    if mb <= 0.0 {
        return;
    }
    let acks = flows.iter().map(|flow| flow.counters.acks_sent).sum::<Option<u64>>();
    if let Some(acks) = acks {
        measured.measure(M::AcksPerMb, acks as f64 / mb);
    }
    let cpu_ns = |hosts: &[&HostCount]| hosts.iter().map(|host| host.received.cpu_ns).sum();
    let of_both: [(Metric, Option<u64>); 2] =
        [(M::ReceiveCpuPerMb, cpu_ns(receivers)), (M::AckCpuPerMb, senders.and_then(cpu_ns))];
    for (metric, cpu_ns) in of_both {
        if let Some(cpu_ns) = cpu_ns {
            measured.record(metric, (cpu_ns as f64 / mb).round() as u64);
        }
    }
}

/// Measures the CPU time of both ends in the whole run, as a share of one core. A host that sends and receives counts
/// at both.
pub(crate) fn measure_cpu_shares(
    measured: &mut Measured,
    outcome: &Outcome,
    receivers: &[&HostCount],
    senders: Option<&[&HostCount]>,
) {
    let share = |hosts: &[&HostCount]| -> Option<f64> {
        let cpu_ns = hosts.iter().map(|host| host.received.cpu_ns).sum::<Option<u64>>()?;
        let run_ns = outcome.end.since(Time::ZERO).ns() * hosts.len() as u64;
        (run_ns > 0).then(|| cpu_ns as f64 / run_ns as f64)
    };
    let of_both =
        [(M::ReceiveCpuShare, share(receivers)), (M::AckCpuShare, senders.and_then(share))];
    for (metric, share) in of_both {
        if let Some(share) = share {
            measured.measure(metric, share);
        }
    }
}

/// Averages each flow's samples in the window.
pub(crate) fn measure_samples(
    measured: &mut Measured,
    run: &Run,
    outcome: &Outcome,
    members: &[usize],
    window: Option<Window>,
) {
    if outcome.flow_samples.is_empty() {
        return;
    }
    // One pass over the samples serves all flows of the entry.
    let mut sums = vec![Sums::default(); run.flows.len()];
    let holds = |at: Time| window.is_none_or(|window| window.holds(at));
    for sample in outcome.flow_samples.iter().filter(|sample| holds(sample.at)) {
        let Some(flow) = run.flows.get(sample.flow as usize) else { continue };
        let sums = &mut sums[sample.flow as usize];
        sums.samples += 1;
        sums.cwnd += u64::from(sample.cwnd);
        if sample.srtt_us > 0 {
            let srtt = Duration::from_us(u64::from(sample.srtt_us));
            let host = run.network.nodes[flow.from as usize].host.as_ref();
            let hz = host.map_or(1000, |host| host.hz);
            sums.rtts += 1;
            sums.srtt_ns += srtt.ns();
            sums.shown_ns += shown(srtt, hz).ns();
        }
    }
    for sums in members.iter().filter_map(|member| sums.get(*member)) {
        if sums.samples > 0 {
            measured.measure(M::Cwnd, sums.cwnd as f64 / sums.samples as f64);
        }
        if sums.rtts > 0 {
            let mean_ns = |sum_ns: u64| (sum_ns as f64 / sums.rtts as f64).round() as u64;
            measured.record(M::Srtt, mean_ns(sums.srtt_ns));
            measured.record(M::RttShown, mean_ns(sums.shown_ns));
        }
    }
}

/// Measures the packets per second that rate-limited flows pass to devices, from the first connect to the end of the
/// run.
pub(crate) fn measure_sending(
    measured: &mut Measured,
    run: &Run,
    outcome: &Outcome,
    members: &[usize],
) {
    let paced = members.iter().filter(|i| run.flows[**i].max_pacing_rate.is_some());
    let flows: Vec<&FlowOutcome> = paced.filter_map(|i| outcome.flows.get(*i)).collect();
    let Some(first) = flows.iter().filter_map(|flow| flow.connected_at).min() else { return };
    let seconds = outcome.end.since(first).ps() as f64 / PS_PER_S as f64;
    if seconds <= 0.0 {
        return;
    }
    let total = |counter: fn(&FlowCounters) -> Option<u64>| {
        flows.iter().map(|flow| counter(&flow.counters)).sum::<Option<u64>>()
    };
    let (bursts, pkts) = (total(|c| c.bursts), total(|c| c.data_segs_sent));
    let rates = [
        (M::PacingTimers, total(|c| c.pacing_timers)),
        (M::Bursts, bursts),
        (M::DataPktsRate, pkts),
        (M::AcksRate, total(|c| c.acks_sent)),
    ];
    for (metric, count) in rates {
        if let Some(count) = count {
            measured.measure(metric, count as f64 / seconds);
        }
    }
    if let Some((bursts, pkts)) = bursts.zip(pkts).filter(|(bursts, _)| *bursts > 0) {
        let per_burst = pkts as f64 / bursts as f64;
        measured.measure(M::PktsPerBurst, per_burst);
    }
}

#[derive(Clone, Default)]
struct Sums {
    samples: u64,
    cwnd: u64,
    rtts: u64,
    srtt_ns: u64,
    shown_ns: u64,
}

/// Returns the smoothed RTT as a kernel shows it that measures in ticks (Linux up to 3.14). It subtracts two readings
/// of the tick counter, counts at least 1, and keeps eighths of a tick. The average is right from one tick on.
fn shown(srtt: Duration, hz: u32) -> Duration {
    let eighth_ps = PS_PER_S / u64::from(hz) / 8;
    Duration::from_ps((srtt.ps() / eighth_ps).max(8) * eighth_ps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_rtt_is_shown_as_one_tick_and_a_longer_one_in_eighths() {
        assert_eq!(shown(Duration::from_us(60), 1000), Duration::from_ms(1));
        assert_eq!(shown(Duration::from_us(1000), 1000), Duration::from_ms(1));
        assert_eq!(shown(Duration::from_us(2249), 1000), Duration::from_us(2125));
        assert_eq!(shown(Duration::from_us(60), 250), Duration::from_ms(4));
    }
}
