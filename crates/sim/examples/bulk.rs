use knee_queue::time::{Duration, Rate, Time};
use knee_queue::*;
use knee_sim::spec::*;
use knee_sim::topology::Cable;

fn wire(rate: Option<u64>, burst: u32, delay_us: u64, queue: QueueConfig, sampled: bool) -> Cable {
    Cable { rate: rate.and_then(Rate::from_bps), serialisation: Serialisation::TokenBucket { burst_bytes: burst },
        delay: Duration::from_us(delay_us), jitter: Duration::ZERO, loss: 0.0, queue, sampled }
}
fn rnd(s: &mut u64) -> f64 { *s = s.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407); (*s >> 33) as f64 / (1u64<<31) as f64 }
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let (cc, ecn, short_kb, start_ms, seed): (&str, u8, u64, f64, u64) = (&args[1], args[2].parse().unwrap(), args[3].parse().unwrap(), args[4].parse().unwrap(), args[5].parse().unwrap());
    let dt = |l| QueueConfig::DropTail(DropTailConfig { limit: Limit::Bytes(l) });
    let q = if ecn == 1 { QueueConfig::Step(StepConfig { limit: Limit::Bytes(757000), threshold: Threshold::Bytes(15140), mark_at: MarkAt::AtLeast, when: MarkWhen::Enqueue, not_ect: NotEctAbove::Queue }) } else { dt(757000) };
    let mut n = Network::default();
    let mut h = HostConfig::new(LinuxVersion::V6_1);
    h.jiffies_at_start = Some(48); h.tcp_ecn = ecn; h.skb_overhead_bytes = 768;
    h.rcvbuf_initial_bytes = 8 << 20; h.rcvbuf_max_bytes = 512 << 20;
    let g = 1_000_000_000;
    let s: Vec<_> = (1..=3).map(|i| n.host(format!("s{i}"), h.clone())).collect();
    let r = n.host("r", h); let sw = n.switch("sw");
    for &x in &s { n.link(x, sw, wire(Some(g), 1600, 0, dt(1<<40), false)); n.link(sw, x, wire(None, 1600, 100, dt(1<<40), false)); }
    n.link(sw, r, wire(Some(g), 1600, 0, q, true));
    n.link(r, sw, wire(None, 1600, 0, dt(1<<40), false));
    let mut rs = seed * 7919;
    let mut flows = vec![];
    let mk = |from, start: f64, bytes| Flow { group: 0, from, to: r, cc: Cc::by_name(cc).unwrap(), peer_cc: None, start: Time::from_ns((start*1e6) as u64), first_write: None, stop: None, traffic: Traffic::Bulk{bytes:Some(bytes)}, read_at_bytes: 65536, sampled: false };
    flows.push(mk(s[0], 0.0, 40_000_000)); flows.push(mk(s[1], rnd(&mut rs), 40_000_000));
    for _ in 0..10 { flows.push(mk(s[2], start_ms + 0.1*rnd(&mut rs), short_kb*1000)); }
    let run = Run { seed, end: Time::from_ms(60000), until_done: true, network: n, flows, pings: vec![], sampling: Sampling::default() };
    let o = knee_sim::simulate(&run).unwrap();
    let f: Vec<f64> = o.flows.iter().map(|f| f.completion_time().unwrap().as_secs_f64()*1e3).collect();
    let mut sh = f[2..].to_vec(); sh.sort_by(f64::total_cmp);
    println!("{:.4},{:.4},{:.4},{:.4},{},{:.4},{},{},{}", sh.iter().sum::<f64>()/10.0, sh[0], (sh[4]+sh[5])/2.0, sh[9], sh.iter().filter(|x| **x>190.0).count(), (f[0]+f[1])/2.0, o.flows.iter().map(|f| f.counters.timeouts).sum::<u64>(), o.flows.iter().map(|f| f.counters.tail_loss_probes).sum::<u64>(), o.queues[0].dropped_pkts());
}
