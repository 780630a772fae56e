//! Calibration: latency and throughput of the lab on this machine, measured before the first run.

use std::sync::atomic::AtomicBool;

use knee_queue::time::{Duration, Time};
use knee_queue::{DropTailConfig, Ecn, Limit, QueueConfig};
use knee_run::Run;
use knee_run::spec::{Cc, Flow, HostConfig, LinuxVersion, Ping, Sampling, Traffic};
use knee_run::topology::{Cable, Star};

use crate::Error;
use crate::run::{LabOptions, run};

/// Length of each of the two runs: pings, then one transfer.
const LENGTH: Time = Time::from_ms(300);
const PING_INTERVAL: Duration = Duration::from_ms(1);

/// Latency and throughput between two hosts without a queue or a rate limit between them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Calibration {
    /// RTT of a ping: median and 99th percentile.
    pub idle_rtt: [Duration; 2],
    /// Lateness of the pings' packets at the switch: 99th percentile.
    pub idle_late_p99: Duration,
    /// Throughput of one transfer through the switch, bits per second on the wire.
    pub rate_bps: f64,
    /// Frames per second in both directions with it.
    pub frames_per_sec: f64,
    /// Time that the switch is busy with a frame, ns.
    pub switch_ns_per_frame: f64,
}

impl Calibration {
    /// Names with units, and values.
    pub fn values(&self) -> [(&'static str, f64); 6] {
        let us = |time: Duration| time.ps() as f64 / 1e6;
        [
            ("idle_rtt_p50_us", us(self.idle_rtt[0])),
            ("idle_rtt_p99_us", us(self.idle_rtt[1])),
            ("idle_late_p99_us", us(self.idle_late_p99)),
            ("rate_bps", self.rate_bps),
            ("frames_per_sec", self.frames_per_sec),
            ("switch_ns_per_frame", self.switch_ns_per_frame),
        ]
    }
}

/// Measures: half a second.
///
/// # Errors
/// As [`run`].
pub fn calibrate(options: &LabOptions, stop: &AtomicBool) -> Result<Calibration, Error> {
    let options = LabOptions { captures: None, log: false, ..options.clone() };
    let idle = run(&two_hosts(false)?, &options, stop)?;
    let mut rtts: Vec<Duration> = idle.outcome.pings.iter().filter_map(|ping| ping.rtt).collect();
    rtts.sort_unstable();
    let at = |share: f64| {
        let place = (rtts.len() as f64 * share) as usize;
        rtts.get(place.min(rtts.len().saturating_sub(1))).copied()
    };
    let lost =
        || Error::Failed("the lab's switch forwards no packet between two namespaces".to_owned());
    let busy = run(&two_hosts(true)?, &options, stop)?;
    let length_s = busy.outcome.end.as_secs_f64().max(f64::MIN_POSITIVE);
    let payload_bytes = busy.outcome.flows.iter().map(|flow| flow.received_bytes).sum::<u64>();
    Ok(Calibration {
        idle_rtt: [at(0.5).ok_or_else(lost)?, at(0.99).ok_or_else(lost)?],
        idle_late_p99: idle.switch.lateness.p99,
        // 1448 bytes of payload are 1514 on the wire.
        rate_bps: payload_bytes as f64 * 8.0 / length_s * 1514.0 / 1448.0,
        frames_per_sec: busy.switch.frames as f64 / length_s,
        switch_ns_per_frame: busy.switch.busy_s * 1e9 / busy.switch.frames.max(1) as f64,
    })
}

/// Two hosts that ping each other, or have a transfer without end between them.
fn two_hosts(is_busy: bool) -> Result<Run, Error> {
    let cable =
        Cable::new(None, QueueConfig::DropTail(DropTailConfig { limit: Limit::Bytes(u64::MAX) }));
    let host = HostConfig::new(LinuxVersion(6, 18));
    let hosts = vec![("a".to_owned(), host.clone()), ("b".to_owned(), host)];
    let flow = Flow {
        group: 0,
        from: 0,
        to: 1,
        cc: Cc::by_name("cubic").map_err(|why| Error::Failed(why.to_string()))?,
        peer_cc: None,
        start: Time::ZERO,
        first_write: None,
        stop: None,
        traffic: Traffic::Bulk { bytes: None },
        read_at_bytes: 1,
        base_rtt: None,
        dscp: 0,
        peer_dscp: 0,
        max_pacing_rate: None,
        sampled: false,
    };
    let ping = Ping {
        from: 0,
        to: 1,
        start: Time::ZERO,
        interval: PING_INTERVAL,
        wire_bytes: 106,
        ecn: Ecn::NotEct,
        dscp: 0,
        one_way_until: None,
    };
    Ok(Run {
        seed: 1,
        end: LENGTH,
        until_done: false,
        network: Star { hosts, up: cable.clone(), down: cable }.build(),
        flows: if is_busy { vec![flow] } else { Vec::new() },
        pings: if is_busy { Vec::new() } else { vec![ping] },
        sampling: Sampling::default(),
        schedule: Default::default(),
    })
}
