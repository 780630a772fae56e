//! A flow of the simulator as a recording.

use super::{About, MAX_SEGMENTS};
use crate::settings::{Settings, headers_bytes};
use crate::sim::{TUN_OVERHEAD_BYTES, TUN_SKB_FRAGS};
use crate::stack::Refusal;
use knee_queue::time::{Duration, PS_PER_S, Time};
use knee_run::spec::{Cc, Flow, HostConfig, Run};
use knee_sim::simulate_tapped;
use knee_sim::tap::{CoarseClock, Side, TapAt, Tapped};
use std::cell::RefCell;
use std::rc::Rc;

/// Granularity in ticks of timers of up to 4 s (at 1000 Hz).
const CLOCK_TICKS: u64 = 64;

/// Simulates a run, and gives what a host of one of its flows sent and received. `from` says where the run is from.
///
/// # Errors
/// If the run cannot be simulated, or a script cannot have the host's MTU.
pub fn of_run(run: &Run, at: TapAt, from: &str) -> Result<(About, Vec<Tapped>), Refusal> {
    let kept: Rc<RefCell<(Vec<Tapped>, bool)>> = Rc::default();
    let sink = Rc::clone(&kept);
    let (_, clock) = simulate_tapped(run, at, move |tapped| {
        let (kept, is_cut) = &mut *sink.borrow_mut();
        if kept.len() < MAX_SEGMENTS {
            kept.push(tapped);
        } else {
            *is_cut = true;
        }
    })
    .map_err(|why| Refusal(why.to_string()))?;
    let (segments, is_cut) = kept.take();
    let flow = &run.flows[at.flow];
    let node = at.node(run).and_then(|node| run.network.nodes.get(node as usize));
    let host = node
        .and_then(|node| node.host.as_ref())
        .ok_or_else(|| Refusal("it has no host".to_owned()))?;
    let cc = match (at.side, &flow.peer_cc) {
        (Side::Listening, Some(cc)) => cc,
        _ => &flow.cc,
    };
    let (linux, hz) = (host.linux, host.hz);
    let side = match at.side {
        Side::Connecting => "connects",
        Side::Listening => "listens",
    };
    let mut origin = vec![
        format!("Recorded from the simulator: {from}, at the host that {side}."),
        format!(
            "It behaves like Linux {linux} at HZ {hz}: knee script --linux {linux} --hz {hz} FILE"
        ),
    ];
    origin.extend(not_in_scripts(host));
    let about = About {
        origin,
        title: format!("{from}: {}", cc.algorithm.name()),
        settings: settings(host, cc, flow),
        first: segments.first().map_or(Duration::ZERO, |first| first_call(clock, hz, first.at)),
        is_exact: true,
        is_cut,
    };
    Ok((about, segments))
}

/// A moment at which the coarse clock of the script's host, which starts at 0, stands as that of the recorded one
/// did at `at`, and the fine clock within its microsecond.
fn first_call(clock: CoarseClock, hz: u32, at: Time) -> Duration {
    let tick_ps = PS_PER_S / u64::from(hz);
    let stood_ps = u64::from(clock.ticks) % CLOCK_TICKS * tick_ps + clock.phase.ps();
    let ps = (stood_ps + at.ps() % (CLOCK_TICKS * tick_ps)) % (CLOCK_TICKS * tick_ps);
    Duration::from_ns(ps / 1_000_000 * 1000 + at.ns() % 1000)
}

fn settings(host: &HostConfig, cc: &Cc, flow: &Flow) -> Settings {
    let infos = cc.algorithm.params().iter().zip(cc.params.values());
    let params = infos
        .filter(|(info, value)| info.default != **value)
        .map(|(info, value)| (info.name.to_owned(), info.show(*value)))
        .collect();
    Settings {
        algorithm: cc.algorithm.name().to_owned(),
        params,
        later_algorithms: Vec::new(),
        mss_bytes: host.mtu_bytes.saturating_sub(headers_bytes(host.ipv6)),
        ipv6: host.ipv6,
        gso_max_segs: host.gso_max_segs,
        sysctls: sysctls(host),
        base_rtt: flow.base_rtt.or(host.base_rtt),
        merged_mss: None,
        fq: host.fq,
    }
}

/// Sysctls that differ from the defaults of the host's Linux.
fn sysctls(host: &HostConfig) -> Vec<(String, String)> {
    let stock = HostConfig::new(host.linux);
    let mut sysctls = Vec::new();
    let mut set = |differs: bool, name: &str, value: String| {
        if differs {
            sysctls.push((name.to_owned(), value));
        }
    };
    let switch = |on: bool| u8::from(on).to_string();
    set(host.tcp_ecn != stock.tcp_ecn, "tcp_ecn", host.tcp_ecn.to_string());
    let fallback = host.tcp_ecn_fallback;
    set(fallback != stock.tcp_ecn_fallback, "tcp_ecn_fallback", switch(fallback));
    set(host.sack != stock.sack, "tcp_sack", switch(host.sack));
    let restart = host.slow_start_after_idle;
    set(restart != stock.slow_start_after_idle, "tcp_slow_start_after_idle", switch(restart));
    let limit = host.limit_output_bytes;
    set(limit != stock.limit_output_bytes, "tcp_limit_output_bytes", limit.to_string());
    let rto_min_us = host.rto_min.ps() / 1_000_000;
    set(host.rto_min != stock.rto_min, "tcp_rto_min_us", rto_min_us.to_string());
    let (initial, max) = (host.rcvbuf_initial_bytes, host.rcvbuf_max_bytes);
    let differs = (initial, max) != (stock.rcvbuf_initial_bytes, stock.rcvbuf_max_bytes);
    set(differs, "tcp_rmem", format!("4096 {initial} {max}"));
    let (initial, max) = match host.sndbuf_max_bytes {
        Some(max) => (host.sndbuf_initial_bytes, max),
        // The sender never waits for memory.
        None => (4 << 20, 4 << 20),
    };
    set(true, "tcp_wmem", format!("4096 {initial} {max}"));
    sysctls
}

/// Settings of the host that scripts cannot express.
fn not_in_scripts(host: &HostConfig) -> Vec<String> {
    let stock = HostConfig::new(host.linux);
    let mut said = Vec::new();
    let mut say = |differs: bool, what: String| {
        if differs {
            said.push(format!("The recorded host had {what}, which a script cannot express."));
        }
    };
    let cwnd = host.initial_cwnd_pkts;
    say(cwnd != stock.initial_cwnd_pkts, format!("an initial window of {cwnd} packets"));
    let merges = host.gro_window != Duration::ZERO;
    say(merges, "receive merging (what it received is shown before it)".to_owned());
    say(host.fq, "an fq qdisc".to_owned());
    let overhead = host.skb_overhead_bytes;
    say(overhead != TUN_OVERHEAD_BYTES, format!("{overhead} bytes of bookkeeping per packet"));
    let frags = host.max_skb_frags;
    say(frags != TUN_SKB_FRAGS, format!("{frags} waiting segments in one skb"));
    say(host.defects != stock.defects, "defects of old versions of Linux".to_owned());
    said
}
