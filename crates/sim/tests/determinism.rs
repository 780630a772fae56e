//! Same inputs, same bytes.

use crate::common::*;
use knee_queue::{Limit, NotEctAbove, QueueConfig, StepConfig};
use knee_run::spec::{Flow, Run, Sampling};

/// Losses, jitter, marks, ten flows, pings, all samples.
fn run(seed: u64) -> Run {
    let QueueConfig::Step(step) = marking(8, NotEctAbove::Drop) else { unreachable!() };
    let queue = QueueConfig::Step(StepConfig { limit: Limit::Pkts(30), ..step });
    let path = Path { senders: 5, queue, loss: 0.005, jitter: us(20), ..Path::new(us(200)) };
    let path = path.hosts(|host| host.jiffies_at_start = None);
    let cc = ["reno", "cubic", "dctcp"];
    let flows = (0..10).map(|i| Flow {
        from: i % 5,
        start: at_us(u64::from(i) * 13),
        ..path.bulk(cc[i as usize % 3], 300_000)
    });
    let mut run = Run { seed, end: at_ms(2_000), ..path.run(flows.collect()) };
    run.pings = path.crowd(at_ms(3), 2);
    run.sampling = Sampling {
        flows: Some(us(500)),
        queues: Some(us(500)),
        goodput: Some(ms(1)),
        ..Sampling::default()
    };
    run
}

fn trace(seed: u64) -> String {
    format!("{:?}", simulate(&run(seed)))
}

#[test]
fn the_same_seed_gives_the_same_outcome() {
    for seed in [0, 1, u64::MAX] {
        assert!(trace(seed) == trace(seed), "seed {seed}");
    }
}

#[test]
fn another_seed_gives_another_outcome() {
    assert!(trace(1) != trace(2));
}

#[test]
fn other_threads_change_nothing() {
    let alone = trace(7);
    let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(|| trace(7))).collect();
    for thread in threads {
        assert!(thread.join().expect("it does not panic") == alone);
    }
}

#[test]
fn sampling_changes_nothing_but_the_samples() {
    let seen = simulate(&run(3));
    let unseen = simulate(&Run { sampling: Sampling::default(), ..run(3) });
    assert_eq!(format!("{:?}", seen.flows), format!("{:?}", unseen.flows));
    assert_eq!(format!("{:?}", seen.queues), format!("{:?}", unseen.queues));
    assert!(unseen.flow_samples.is_empty() && unseen.queue_samples.is_empty());
}

#[test]
fn a_flow_that_never_starts_changes_no_timing_without_chance() {
    // No loss, no jitter, clocks fixed: flows before it behave the same.
    let path = Path { queue: droptail(Limit::Pkts(20)), ..Path::new(us(200)) };
    let flow = path.bulk("cubic", 1_000_000);
    let never = Flow { start: at_ms(90_000), ..flow.clone() };
    // Both runs go on after the flow: its client gets the last ACKs.
    let until_80_s = |flows| Run { end: at_ms(80_000), until_done: false, ..path.run(flows) };
    let alone = simulate(&until_80_s(vec![flow.clone()])).flows.remove(0);
    let beside = simulate(&until_80_s(vec![flow, never])).flows.remove(0);
    assert_eq!(format!("{alone:?}"), format!("{beside:?}"));
}
