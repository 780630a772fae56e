//! Whether the host, and not algorithms and queues, decided a result.

use knee_queue::time::{Duration, Rate};
use knee_queue::{Limit, QueueConfig};
use knee_run::outcome::Validity;
use knee_run::spec::{Link, Network};

use crate::site::machine::CpuShare;
use crate::switch::SwitchReport;
use crate::traffic::TrafficReport;

/// Share of frames that may leave the switch later than [`lateness_limit`] allows.
const LATE_SHARE_MAX: f64 = 0.001;
/// Share of a CPU's time that the hosts' applications and TCP may take before they are called saturated.
const BUSY_SHARE_MAX: f64 = 0.95;
/// Tolerated lateness of an application's actions.
const START_LATE_MAX: Duration = Duration::from_ms(1);
/// Lateness below this is within the time that a frame takes through the host.
const LATENESS_FLOOR: Duration = Duration::from_us(20);

/// Measurements of the host during a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostMeasurements {
    pub(crate) switch: SwitchReport,
    /// Packets that the kernel dropped where no queue is modelled.
    pub(crate) dropped_outside_queues: u64,
    /// Connections that failed, in words; `None`: none did.
    pub(crate) failed: Option<String>,
    /// Calls of algorithms that the kernel left out, and counted.
    pub(crate) calls_left_out: u64,
    /// Flows with a window that no algorithm can have asked for: calls were left out and not counted.
    pub(crate) impossible_windows: u64,
    /// Sides of connections that began without the `init` of their algorithm; `None`: of none it is known.
    pub(crate) inits_left_out: Option<u64>,
    /// Largest lateness of an application's action.
    pub(crate) start_late: Duration,
    /// CPU time of the applications, over the time of the run.
    pub(crate) traffic_cpu_share: f64,
    /// The use of the CPU that carries applications.
    pub(crate) cpu: CpuShare,
}

/// How late a frame may leave before it matters: half the time in which the smallest marking threshold drains, or half of the
/// target of PIE, CoDel and DualPI2; of a plain buffer a twentieth of what it holds. Never below [`LATENESS_FLOOR`].
pub(crate) fn lateness_limit(network: &Network) -> Duration {
    let limits = network.links.iter().filter_map(link_limit);
    limits.min().unwrap_or(Duration::from_ms(1)).max(LATENESS_FLOOR)
}

/// `None`: the link has no queue that could tell.
fn link_limit(link: &Link) -> Option<Duration> {
    let rate = link.rate?;
    // As if the smallest of several had the link for itself: it drains no faster than that.
    link.queue.all().into_iter().filter_map(|queue| queue_limit(queue, rate)).min()
}

/// `None`: the queues that it consists of have limits.
fn queue_limit(queue: &QueueConfig, rate: Rate) -> Option<Duration> {
    let part = |whole: Duration, divisor: u64| Duration::from_ps(whole.ps() / divisor);
    let drain = |bytes: u64| rate.time_of(u32::try_from(bytes).unwrap_or(u32::MAX));
    if let Some(wait) = queue.settings().acts_at(rate) {
        return Some(part(wait, 2));
    }
    Some(match queue.limit()? {
        Limit::Pkts(pkts) => part(drain(u64::from(pkts) * 1514), 20),
        Limit::Bytes(bytes) => part(drain(bytes), 20),
    })
}

/// Sentence on failed connections; `None` if none failed.
pub(crate) fn failed_sides(report: &TrafficReport) -> Option<String> {
    let failed: Vec<_> = report.sides.iter().filter(|side| side.error.is_some()).collect();
    let first = failed.first()?;
    Some(format!(
        "{} connection ends failed, the first of flow {}: {}",
        failed.len(),
        first.flow,
        first.error.as_deref().unwrap_or_default()
    ))
}

/// Sentence on flows with impossible windows.
pub(crate) fn impossible_in_words(flows: u64) -> String {
    format!(
        "{flows} flows had a window that no algorithm asked for: the kernel skipped calls of algorithms and used a garbage \
         result (docs/kernels.md)"
    )
}

/// Sentence on sides of connections that began without `init`.
pub(crate) fn without_init_in_words(sides: u64) -> String {
    format!(
        "{sides} connection ends began without the init of their algorithm, so their state was zero: the kernel skipped the \
         call (docs/kernels.md)"
    )
}

/// The verdict, with everything that led to it.
pub(crate) fn judge(network: &Network, seen: &HostMeasurements) -> Validity {
    let allowed = lateness_limit(network);
    let lateness = &seen.switch.lateness;
    let late_share = lateness.share_above(allowed);
    let us = |time: Duration| time.ps() as f64 / 1e6;
    let mut limits = Vec::new();
    let mut limit = |is_beyond: bool, why: String| {
        if is_beyond {
            limits.push(why);
        }
    };
    limit(
        late_share > LATE_SHARE_MAX,
        format!(
            "{:.2} % of packets left the switch more than {:.0} us late (allowed {:.1} %); the 99.9th percentile was {:.0} us",
            late_share * 100.0,
            us(allowed),
            LATE_SHARE_MAX * 100.0,
            us(lateness.p999)
        ),
    );
    let switch_lost = seen.switch.ring_dropped + seen.switch.without_room;
    let lost = switch_lost + seen.switch.send_failed + seen.dropped_outside_queues;
    limit(
        lost > 0,
        format!(
            "{lost} packets were lost outside the modelled queues ({switch_lost} at the switch, {} behind it, {} in the kernel)",
            seen.switch.send_failed, seen.dropped_outside_queues
        ),
    );
    limit(
        seen.cpu.busy > BUSY_SHARE_MAX,
        format!(
            "the CPUs of the hosts were busy for {:.0} % of the time (allowed {:.0} %)",
            seen.cpu.busy * 100.0,
            BUSY_SHARE_MAX * 100.0
        ),
    );
    limit(seen.failed.is_some(), seen.failed.clone().unwrap_or_default());
    limit(
        seen.calls_left_out > 0,
        format!(
            "the kernel skipped {} calls of algorithms that interrupted each other on the same CPU",
            seen.calls_left_out
        ),
    );
    limit(seen.impossible_windows > 0, impossible_in_words(seen.impossible_windows));
    let inits_left_out = seen.inits_left_out.unwrap_or(0);
    limit(inits_left_out > 0, without_init_in_words(inits_left_out));
    let start_late_max = START_LATE_MAX.max(allowed);
    limit(
        seen.start_late > start_late_max,
        format!(
            "an application acted {:.0} us late (allowed {:.0} us)",
            us(seen.start_late),
            us(start_late_max)
        ),
    );
    let busy_share = seen.switch.busy_s / seen.switch.wall_s.max(f64::MIN_POSITIVE);
    let per_frame = seen.switch.busy_s * 1e9 / seen.switch.frames.max(1) as f64;
    let mut measures = vec![
        ("late_limit_us", us(allowed)),
        ("late_share", late_share),
        ("late_p99_us", us(lateness.p99)),
        ("late_p999_us", us(lateness.p999)),
        ("late_max_us", us(lateness.max)),
        ("frames", seen.switch.frames as f64),
        ("foreign_frames", seen.switch.foreign_frames as f64),
        ("ring_dropped_pkts", seen.switch.ring_dropped as f64),
        ("without_room_pkts", seen.switch.without_room as f64),
        ("send_failed_pkts", seen.switch.send_failed as f64),
        ("dropped_outside_pkts", seen.dropped_outside_queues as f64),
        ("switch_hurried", f64::from(u8::from(seen.switch.hurried))),
        ("switch_busy_share", busy_share),
        ("switch_ns_per_frame", per_frame),
        ("captures_left_out", seen.switch.captures_left_out as f64),
        ("traffic_cpu_share", seen.traffic_cpu_share),
        ("hosts_busy_share", seen.cpu.busy),
        ("hosts_softirq_share", seen.cpu.softirq),
        ("steal_share", seen.cpu.steal),
        ("start_late_us", us(seen.start_late)),
        ("calls_left_out", seen.calls_left_out as f64),
        ("impossible_windows", seen.impossible_windows as f64),
    ];
    measures.extend(seen.inits_left_out.map(|count| ("inits_left_out", count as f64)));
    Validity { limits, measures }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_without_init_limit_a_run_and_are_measured_if_anybody_looked() {
        let judged = |inits_left_out| {
            let validity = judge(
                &Network::default(),
                &HostMeasurements { inits_left_out, ..HostMeasurements::default() },
            );
            let measured = validity.measures.iter().find(|(name, _)| *name == "inits_left_out");
            (measured.map(|(_, count)| *count), validity.limits)
        };
        assert_eq!(judged(None), (None, vec![]));
        assert_eq!(judged(Some(0)), (Some(0.0), vec![]));
        assert_eq!(judged(Some(4)), (Some(4.0), vec![without_init_in_words(4)]));
    }
}
