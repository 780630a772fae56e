//! TCP-NV and BIC on a path: the standing queue, the end of slow start, changes of the path, base RTTs.

use crate::common::*;
use knee_run::outcome::Outcome;
use knee_run::spec::{Flow, Run, Sampling};

const RTT_US: u64 = 100;
/// Packets that the empty path holds: 10 Gbps for 100 us.
const BDP_PKTS: f64 = 82.6;

fn path(senders: u32) -> Path {
    let access = Some(mbps(40_000));
    Path { senders, access, rate: mbps(10_000), ..Path::new(us(RTT_US)) }
}

/// So many endless flows, one from each sender, a little apart, for this long.
fn flows(path: &Path, cc: &str, end_ms: u64) -> Run {
    let flow = |sender: u32| Flow {
        from: sender,
        start: at_us(u64::from(sender) * 37),
        ..path.bulk(cc, None)
    };
    let mut run = path.run((0..path.senders).map(flow).collect());
    (run.end, run.until_done) = (at_ms(end_ms), false);
    run.sampling = Sampling { flows: Some(us(50)), queues: Some(us(50)), ..Sampling::default() };
    run
}

/// Mean and largest length of the bottleneck's queue from a moment on, packets.
fn queue(outcome: &Outcome, from_ms: u64) -> (f64, u32) {
    let bottleneck = outcome.queues[0].link;
    let lengths: Vec<u32> = outcome
        .queue_samples
        .iter()
        .filter(|sample| sample.link == bottleneck && sample.at >= at_ms(from_ms))
        .map(|sample| sample.len_pkts)
        .collect();
    let mean = lengths.iter().map(|n| f64::from(*n)).sum::<f64>() / lengths.len() as f64;
    (mean, lengths.into_iter().max().unwrap_or(0))
}

fn diag(outcome: &Outcome, cc: &str, name: &str, at_ms_: u64) -> u64 {
    let algorithm = knee_algo::Algorithm::by_name(cc).expect("it is in the folder");
    let index = algorithm.diag().iter().position(|diag| diag.name == name).expect(name);
    sample_at(outcome, 0, at_ms(at_ms_)).diag[index]
}

#[test]
fn nv_queues_about_its_pad_for_each_flow() {
    for (senders, most) in [(1, 14.0), (4, 56.0)] {
        let outcome = simulate(&flows(&path(senders), "nv", 100));
        let (mean, _) = queue(&outcome, 60);
        let least = 5.0 * f64::from(senders);
        assert!((least..=most).contains(&mean), "{senders} flows: {mean} packets");
        assert_eq!(outcome.queues[0].dropped_pkts(), 0);
        let received: u64 = outcome.flows.iter().map(|flow| flow.received_bytes).sum();
        let gbps = received as f64 * 8.0 / 0.1 / 1e9;
        assert!(gbps > 9.0, "{senders} flows: {gbps} Gbps");
    }
}

#[test]
fn a_larger_pad_is_a_longer_queue() {
    let with_pad = |pad: &str| {
        let path = path(1);
        let mut run = flows(&path, "nv", 60);
        let cc = &mut run.flows[0].cc;
        cc.algorithm.set_param(&mut cc.params, "pad", pad).unwrap();
        queue(&simulate(&run), 40).0
    };
    let (short, long) = (with_pad("10"), with_pad("40"));
    assert!((long - short - 30.0).abs() <= 5.0, "{short} and {long} packets");
}

#[test]
fn nv_leaves_slow_start_at_thirty_samples_far_below_the_path() {
    let outcome = simulate(&flows(&path(1), "nv", 2));
    let samples = &outcome.flow_samples;
    let left = samples.iter().find(|sample| sample.ssthresh != INFINITE).unwrap();
    // While the window doubles, half of it was delivered per RTT: the rate looks half as large.
    assert!(f64::from(left.ssthresh) < BDP_PKTS / 2.0, "ssthresh {}", left.ssthresh);
    assert!(left.delivered > 30, "{} packets delivered", left.delivered);
}

#[test]
fn nv2010_keeps_the_queue_that_bic_fills() {
    let limited = Path { queue: droptail(knee_queue::Limit::Pkts(800)), ..path(2) };
    let [bic, nv2010] = ["bic", "nv2010"].map(|cc| simulate(&flows(&limited, cc, 100)));
    let [(bic_mean, _), (nv_mean, nv_most)] = [queue(&bic, 60), queue(&nv2010, 60)];
    assert!(bic_mean > 300.0, "{bic_mean} packets");
    assert!(nv_mean < 60.0 && nv_most < 120, "{nv_mean} packets, at most {nv_most}");
    assert!(bic.queues[0].dropped_pkts() > 0);
    assert_eq!(nv2010.queues[0].dropped_pkts(), 0);
    let received: u64 = nv2010.flows.iter().map(|flow| flow.received_bytes).sum();
    assert!(received as f64 * 8.0 / 0.1 / 1e9 > 8.5, "{received} bytes");
}

#[test]
fn nv_takes_the_standing_queue_of_others_for_the_path_unless_it_is_told() {
    // A queue that is always there: BIC fills it first; NV comes when it is full.
    let limited = Path { queue: droptail(knee_queue::Limit::Pkts(400)), ..path(2) };
    let with_base_rtt = |base_rtt| {
        let mut run = flows(&limited, "nv", 200);
        run.flows[1] = Flow { from: 1, ..limited.bulk("bic", None) };
        run.flows[0].start = at_ms(60);
        run.flows[0].base_rtt = base_rtt;
        let outcome = simulate(&run);
        diag(&outcome, "nv", "nv_min_rtt", 150)
    };
    let untold = with_base_rtt(None);
    assert!(untold > 2 * RTT_US, "{untold} us");
    assert_eq!(with_base_rtt(Some(us(RTT_US))), RTT_US);
}

#[test]
fn a_host_tells_the_base_rtt_where_the_flow_does_not() {
    let told = |host, flow| {
        let path = path(1).hosts(|config| config.base_rtt = host);
        let mut run = flows(&path, "nv", 2);
        run.flows[0].base_rtt = flow;
        diag(&simulate(&run), "nv", "base_rtt", 2)
    };
    assert_eq!(told(None, None), 0);
    assert_eq!(told(Some(us(80)), None), 80);
    assert_eq!(told(Some(us(80)), Some(us(60))), 60);
}

#[test]
fn nv_sees_a_path_that_has_become_longer_after_its_reset() {
    // The other flow's queue is a longer path to it: 150 packets that stay, for as long as that runs.
    let mut run = flows(&path(2), "nv", 9000);
    run.flows[1].start = at_ms(1000);
    let cc = &mut run.flows[1].cc;
    cc.algorithm.set_param(&mut cc.params, "pad", "150").unwrap();
    run.sampling = Sampling { flows: Some(ms(10)), queues: None, ..Sampling::default() };
    let outcome = simulate(&run);
    let before = diag(&outcome, "nv", "nv_min_rtt", 1500);
    assert!((99..=100).contains(&before), "{before} us");
    // Resets are due 2 s after the start and 3.75 to 6.25 s after that.
    let after = diag(&outcome, "nv", "nv_min_rtt", 8900);
    assert!(after > 150, "{after} us");
}
