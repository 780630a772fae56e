//! BBR on whole paths: its modes, and the pacing around it.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "all of this is test code")]

use crate::common::{FULL, Path, at_ms, droptail, mbps, ms, sampled, simulate, steps};
use knee_queue::Limit;
use knee_queue::time::{Duration, Time};
use knee_run::outcome::{FlowSample, Outcome};
use knee_run::spec::Run;

const STARTUP: u64 = 0;
const DRAIN: u64 = 1;
const PROBE_BW: u64 = 2;
const PROBE_RTT: u64 = 3;

/// 10 Mbps, 40 ms: 33 packets; a buffer that is never full.
fn path() -> Path {
    Path { rate: mbps(10), ..Path::new(ms(40)) }
}

/// One endless flow until `end_ms`.
fn run(path: &Path, cc: &str, end_ms: u64) -> Run {
    let mut run = path.run(vec![path.bulk(cc, None)]);
    run.end = at_ms(end_ms);
    run.until_done = false;
    run
}

fn mode(sample: &FlowSample) -> u64 {
    sample.diag[0]
}

fn bw(sample: &FlowSample) -> u64 {
    sample.diag[1]
}

/// Payload received per second, of what the bottleneck can carry.
fn utilisation(outcome: &Outcome, rate_mbps: u64, seconds: u64) -> f64 {
    let bits = outcome.flows[0].received_bytes as f64 * 8.0;
    bits / (rate_mbps * seconds * 1_000_000) as f64 / (1448.0 / f64::from(FULL))
}

#[test]
fn startup_doubles_in_each_round_and_ends_three_rounds_after_the_pipe_is_full() {
    let path = Path { rate: mbps(100), ..Path::new(ms(40)) };
    let outcome = sampled(run(&path, "bbr", 2000), ms(1));
    let samples = &outcome.flow_samples;
    assert_eq!(steps(samples.iter().map(mode)), [STARTUP, DRAIN, PROBE_BW]);
    // The first rounds still show the initial window. Then each of 40 ms brings twice the rate, until
    // 100 Mbps are 11.96 MB/s of payload.
    let bw_at = |at: u64| bw(samples.iter().find(|s| s.at >= at_ms(at)).unwrap());
    for round in 5..8 {
        let growth = bw_at(40 * round + 40) as f64 / bw_at(40 * round) as f64;
        assert!((1.8..2.6).contains(&growth), "round {round}: {growth}");
    }
    let full = samples.iter().find(|s| bw(s) > 11_900_000).unwrap().at;
    let ended = samples.iter().find(|s| mode(s) == DRAIN).unwrap().at;
    // Three rounds, which a queue of up to 1.9 BDP makes 2.9 times as long.
    let rounds = ended.since(full).as_secs_f64() / 0.04;
    assert!((3.0..12.0).contains(&rounds), "{rounds} base RTTs");
    let drained = samples.iter().find(|s| mode(s) == PROBE_BW).unwrap().at;
    // What was too much by a factor of 1.9 drains at 1 - 0.34 of the rate.
    let rounds = drained.since(ended).as_secs_f64() / 0.04;
    assert!((1.0..4.0).contains(&rounds), "{rounds} base RTTs");
    // Then one flow keeps between one and 1.25 BDP of 331 packets in flight.
    let late = samples.iter().filter(|s| s.at > at_ms(1500));
    let flights: Vec<u32> = late.map(|s| s.unacked).collect();
    let mean = f64::from(flights.iter().sum::<u32>()) / flights.len() as f64;
    assert!((320.0..380.0).contains(&mean), "{mean} packets in flight");
}

/// A round trip after a timer let a segment go its ACK comes, just when the timer of another segment is due.
/// The timer goes first: in a host the first segment left a moment after its time, never before. So what that
/// ACK does to the rate counts from the segment after.
#[test]
fn an_ack_does_not_overtake_the_departure_that_is_due_with_it() {
    let path = Path { rate: mbps(100), ..Path::new(ms(100)) };
    let outcome = sampled(run(&path, "bbr", 500), Duration::from_us(10));
    let samples = &outcome.flow_samples;
    let rate = |sample: &FlowSample| sample.pacing_rate_bytes_per_sec;
    let sent = |sample: &FlowSample| sample.bytes_acked / 1448 + u64::from(sample.unacked);
    // The rate of the initial window, until a round has shown more.
    let first_rate = rate(samples.iter().find(|s| s.at >= at_ms(150)).unwrap());
    let raised = samples.iter().find(|s| s.at >= at_ms(150) && rate(s) > first_rate).unwrap();
    let next = samples.iter().find(|s| s.at > raised.at && sent(s) > sent(raised)).unwrap();
    let gap_us = next.at.since(raised.at).as_secs_f64() * 1e6;
    let (old_us, new_us) = (1448e6 / first_rate as f64, 1448e6 / rate(raised) as f64);
    assert!(old_us - new_us > 40.0, "{old_us} and {new_us}");
    assert!((gap_us - old_us).abs() <= 20.0, "{gap_us} us, at the old rate {old_us}, new {new_us}");
}

#[test]
fn every_ten_seconds_it_looks_for_the_lowest_rtt_for_200_ms() {
    let outcome = sampled(run(&path(), "bbr", 32_000), ms(1));
    let probes: Vec<(Time, Time)> = {
        let mut probes: Vec<(Time, Time)> = Vec::new();
        for pair in outcome.flow_samples.windows(2) {
            if mode(&pair[1]) == PROBE_RTT && mode(&pair[0]) != PROBE_RTT {
                probes.push((pair[1].at, pair[1].at));
            } else if mode(&pair[1]) == PROBE_RTT {
                probes.last_mut().unwrap().1 = pair[1].at;
            }
        }
        probes
    };
    assert_eq!(probes.len(), 3, "{probes:?}");
    for (from, to) in &probes {
        let held = to.since(*from);
        // 200 ms from when the flight has come down to 4 packets, which takes a round.
        assert!((ms(200)..ms(300)).contains(&held), "{held:?}");
        let inside = |s: &&FlowSample| s.at > *from + ms(60) && s.at < *to;
        let cwnds = outcome.flow_samples.iter().filter(inside).map(|s| s.cwnd);
        assert_eq!(steps(cwnds), [4]);
    }
    let between = probes[1].0.since(probes[0].0);
    assert!((ms(10_000)..ms(10_500)).contains(&between), "{between:?}");
    let share = utilisation(&outcome, 10, 32);
    assert!(share > 0.95, "{share}");
}

#[test]
fn random_loss_of_a_tenth_takes_little_of_the_rate() {
    let lossy = Path { loss: 0.1, ..path() };
    let goodput = |cc: &str| utilisation(&simulate(&run(&lossy, cc, 20_000)), 10, 20);
    let (bbr, cubic) = (goodput("bbr"), goodput("cubic"));
    println!("bbr {bbr:.3}, cubic {cubic:.3} of the link");
    // A tenth of what is sent is lost.
    assert!(bbr > 0.75, "{bbr}");
    assert!(cubic < 0.2, "{cubic}");
}

/// Tokens for 250 kB let a burst pass at the rate of the sender's link, then 10 Mbps, and no queue: a policer.
/// Where that is recognised it goes on at the rate that was left over, without probing.
#[test]
fn a_policer_is_not_sent_into_for_long() {
    let policed = Path {
        rate: mbps(10),
        access: Some(mbps(100)),
        burst_bytes: 250_000,
        queue: droptail(Limit::Bytes(2 * u64::from(FULL))),
        ..Path::new(ms(40))
    };
    let mut run = run(&policed, "bbr", 20_000);
    run.sampling.flows = Some(ms(10));
    let outcome = simulate(&run);
    let samples: Vec<_> = outcome.flow_samples.iter().filter(|s| mode(s) == PROBE_BW).collect();
    // All of 48 rounds at gain 1: no other phase is so long.
    let longest = samples
        .chunk_by(|a, b| a.diag[3] == 256 && b.diag[3] == 256)
        .map(|steady| steady.last().unwrap().at.since(steady[0].at))
        .max()
        .unwrap();
    assert!(longest > ms(48 * 40 - 100), "{longest:?}");
    let last = samples.last().unwrap();
    let share = last.total_retrans as f64 / f64::from(last.delivered);
    assert!(share < 0.15, "{share} sent again");
    let share = utilisation(&outcome, 10, 20);
    assert!(share > 0.75, "{share}");
}

/// TCP's own timer and fq let segments go at the same times; fq only holds them elsewhere.
#[test]
fn fq_and_tcps_own_pacing_come_to_the_same() {
    let own = Path { rate: mbps(100), ..Path::new(ms(20)) };
    let fq = own.clone().hosts(|host| host.fq = true);
    let of = |path: &Path| {
        let outcome = sampled(run(path, "bbr", 3000), ms(10));
        let queue = outcome.flow_samples.iter().filter(|s| s.at > at_ms(1000));
        let srtts: Vec<f64> = queue.map(|s| f64::from(s.srtt_us)).collect();
        let mean = srtts.iter().sum::<f64>() / srtts.len() as f64;
        (utilisation(&outcome, 100, 3), mean)
    };
    let ((own_share, own_srtt), (fq_share, fq_srtt)) = (of(&own), of(&fq));
    println!("own {own_share:.4} {own_srtt:.0} us, fq {fq_share:.4} {fq_srtt:.0} us");
    assert!((own_share - fq_share).abs() < 0.01, "{own_share} and {fq_share}");
    assert!((own_srtt / fq_srtt - 1.0).abs() < 0.02, "{own_srtt} and {fq_srtt}");
}

/// With fq every socket is paced, and TCP small queues see what fq holds: the host's device gets no
/// bursts, where without pacing a window of packets leaves at once.
#[test]
fn fq_paces_also_those_that_do_not_ask() {
    let longest = |fq: bool| {
        let path = Path { access: Some(mbps(1000)), rate: mbps(100), ..Path::new(ms(20)) };
        let path = path.hosts(|host| host.fq = fq);
        let mut run = run(&path, "reno", 300);
        run.sampling.queues = Some(Duration::from_us(10));
        let outcome = simulate(&run);
        // Links come in the order in which they are made: the sender's own is the third.
        let samples = outcome.queue_samples.iter().filter(|sample| sample.link == 2);
        samples.map(|sample| sample.len_pkts).max().unwrap()
    };
    let (paced, unpaced) = (longest(true), longest(false));
    println!("longest queue in the host: {paced} paced, {unpaced} not");
    assert!(paced < unpaced, "{paced} and {unpaced}");
}
