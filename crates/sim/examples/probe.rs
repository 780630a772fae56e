use knee_queue::time::{Duration, Rate, Time};
use knee_queue::*;
use knee_sim::spec::*;
use knee_sim::topology::Cable;

fn wire(rate: Option<u64>, burst: u32, delay_us: u64, queue: QueueConfig, sampled: bool) -> Cable {
    Cable { rate: rate.and_then(Rate::from_bps), serialisation: Serialisation::TokenBucket { burst_bytes: burst },
        delay: Duration::from_us(delay_us), jitter: Duration::ZERO, loss: 0.0, queue, sampled }
}
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let which = args[1].as_str();
    let dt = |l| QueueConfig::DropTail(DropTailConfig { limit: Limit::Bytes(l) });
    let step = |k: u64, l: u64| QueueConfig::Step(StepConfig { limit: Limit::Bytes(l), threshold: Threshold::Bytes(k*1514), mark_at: MarkAt::AtLeast, when: MarkWhen::Enqueue, not_ect: NotEctAbove::Queue });
    let (rate, access, aburst, rtt, q, cc, ecn, secs, samp, qs) = match which {
        "dctcp" => (1_000_000_000, 10_000_000_000, 1600, 200, step(20, 757000), "dctcp", 1, 5.0, 1000, 1000),
        "renoecn" => (1_000_000_000, 10_000_000_000, 1600, 200, step(20, 757000), "reno", 1, 5.0, 1000, 1000),
        "start-dctcp" => (1_000_000_000, 10_000_000_000, 1600, 200, step(20, 757000), "dctcp", 1, 0.05, 20, 20),
        "start-renoecn" => (1_000_000_000, 10_000_000_000, 1600, 200, step(20, 757000), "reno", 1, 0.05, 20, 20),
        "cubic" => (100_000_000, 1_000_000_000, 1600, 20000, dt(302800), "cubic", 0, 60.0, 5000, 5000),
        "reno" => (100_000_000, 1_000_000_000, 1600, 20000, dt(302800), "reno", 0, 60.0, 5000, 5000),
        "start-cubic" => (100_000_000, 1_000_000_000, 1600, 20000, dt(302800), "cubic", 0, 1.0, 500, 500),
        "start-reno" => (100_000_000, 1_000_000_000, 1600, 20000, dt(302800), "reno", 0, 1.0, 500, 500),
        _ => panic!(),
    };
    let mut n = Network::default();
    let mut h = HostConfig::new(LinuxVersion::V6_1);
    h.jiffies_at_start = Some(48); h.tcp_ecn = ecn; h.skb_overhead_bytes = 768;
    h.rcvbuf_initial_bytes = 8 << 20; h.rcvbuf_max_bytes = 512 << 20;
    let s = n.host("s1", h.clone()); let r = n.host("r", h); let sw = n.switch("sw");
    n.link(s, sw, wire(Some(access), aburst, 0, dt(1<<40), false));
    n.link(sw, r, wire(Some(rate), 1600, 0, q, true));
    n.link(r, sw, wire(None, 1600, 0, dt(1<<40), false));
    n.link(sw, s, wire(None, 1600, rtt, dt(1<<40), false));
    let run = Run { seed: 1, end: Time::from_us((secs*1e6) as u64), until_done: false, network: n, flows: vec![Flow { group: 0, from: s, to: r, cc: Cc::by_name(cc).unwrap(), peer_cc: None, start: Time::ZERO, first_write: None, stop: None, traffic: Traffic::Bulk{bytes:None}, read_at_bytes: 65536, sampled: true }], pings: vec![], sampling: Sampling { flows: Some(Duration::from_us(samp)), queues: Some(Duration::from_us(qs)), goodput: None } };
    let t = std::time::Instant::now();
    let o = knee_sim::simulate(&run).unwrap();
    let el = t.elapsed().as_secs_f64();
    for f in &o.flow_samples {
        println!("{:.6},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{:?}", f.at.as_secs_f64(), f.ca_state, f.cwnd, f.ssthresh, f.srtt_us, f.rttvar_us, f.min_rtt_us, f.unacked, f.lost, f.retrans_out, f.total_retrans, f.delivered, f.delivered_ce, f.pacing_rate_bytes_per_sec, f.rto_us, f.diag);
    }
    eprintln!("{:?}", o.flows[0]);
    eprintln!("{:?}", o.queues);
    eprintln!("{:?} {:.3}s {:.0} data pkts/s", o.work, el, o.work.data_pkts as f64 / el);
}
