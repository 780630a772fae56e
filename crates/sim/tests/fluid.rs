//! DCTCP against the fluid model of its paper (section 3.3: N synchronised flows, one queue).

use crate::common::*;
use knee_queue::NotEctAbove;
use knee_run::outcome::QueueSample;
use knee_run::spec::{Flow, Run};

/// What the model says of N flows: packets, packets, round trips.
struct Model {
    q_max: f64,
    amplitude: f64,
    period_rtts: f64,
}

fn model(flows: u32, bdp_pkts: f64, k: u32) -> Model {
    let held = bdp_pkts + f64::from(k);
    Model {
        q_max: f64::from(k + flows),
        amplitude: 0.5 * (2.0 * f64::from(flows) * held).sqrt(),
        period_rtts: 0.5 * (2.0 * held / f64::from(flows)).sqrt(),
    }
}

/// The teeth of the queue's saw: highest and lowest of each, and their mean length in us.
fn teeth(samples: &[QueueSample]) -> (f64, f64, f64) {
    let len = |sample: &QueueSample| f64::from(sample.len_pkts);
    let mean = samples.iter().map(len).sum::<f64>() / samples.len() as f64;
    // A tooth begins where the queue has fallen well below the mean after having been well above it.
    let spread =
        samples.iter().map(|sample| (len(sample) - mean).abs()).sum::<f64>() / samples.len() as f64;
    let (mut was_above, mut begins) = (false, Vec::new());
    for (i, sample) in samples.iter().enumerate() {
        if len(sample) > mean + spread / 2.0 {
            was_above = true;
        } else if was_above && len(sample) < mean - spread / 2.0 {
            was_above = false;
            begins.push(i);
        }
    }
    let teeth: Vec<&[QueueSample]> =
        begins.windows(2).map(|pair| &samples[pair[0]..pair[1]]).collect();
    assert!(teeth.len() >= 10, "{} teeth", teeth.len());
    let of = |extreme: fn(&[QueueSample]) -> f64| {
        teeth.iter().map(|tooth| extreme(tooth)).sum::<f64>() / teeth.len() as f64
    };
    let highest = of(|tooth| tooth.iter().map(|s| f64::from(s.len_pkts)).fold(0.0, f64::max));
    let lowest = of(|tooth| tooth.iter().map(|s| f64::from(s.len_pkts)).fold(f64::MAX, f64::min));
    let took = samples[begins[begins.len() - 1]].at.since(samples[begins[0]].at).us();
    (highest, lowest, took as f64 / teeth.len() as f64)
}

#[test]
fn synchronised_flows_make_the_saw_of_the_fluid_model() {
    // 1 Gbps and 1514 B: 82.6 packets in 1 ms.
    for (flows, rtt_us, k) in [(1, 1000_u32, 20), (2, 1000, 40), (4, 1000, 40), (2, 2000, 60)] {
        let bdp = 1e9 * f64::from(rtt_us) * 1e-6 / 8.0 / f64::from(FULL);
        let queue = marking(k, NotEctAbove::Queue);
        let path = Path {
            senders: flows,
            access: Some(mbps(10_000)),
            queue,
            ..Path::new(us(u64::from(rtt_us)))
        };
        let all = (0..flows).map(|from| Flow { from, ..path.bulk("dctcp", None) }).collect();
        let mut run = Run { end: at_ms(1500), ..path.run(all) };
        run.sampling.queues = Some(us(20));
        let outcome = simulate(&run);
        let bottleneck = outcome.queues[0].link;
        let late = |sample: &&QueueSample| sample.at > at_ms(500) && sample.link == bottleneck;
        let samples: Vec<QueueSample> =
            outcome.queue_samples.iter().filter(late).copied().collect();
        let (highest, lowest, period_us) = teeth(&samples);
        let model = model(flows, bdp, k);
        let rtt_us = f64::from(rtt_us) + (highest + lowest) / 2.0 * f64::from(FULL) * 8e-3;
        let period = period_us / rtt_us;
        println!(
            "N {flows} K {k}: Qmax {highest:.1} ({}), amplitude {:.1} ({:.1}), period {period:.1} ({:.1})",
            model.q_max,
            highest - lowest,
            model.amplitude,
            model.period_rtts
        );
        let case = format!("N {flows}, K {k}, {rtt_us:.0} us");
        assert!((highest - model.q_max).abs() < 1.5, "{case}: Qmax {highest}");
        // In the model a cut takes effect at once and growth goes on beside it. Linux lowers the window over a
        // round trip (PRR), in which it does not grow and in which marks mostly bring a second cut.
        let stretch = (highest - lowest) / model.amplitude;
        assert!((1.0..1.45).contains(&stretch), "{case}: amplitude {}", highest - lowest);
        assert!((1.5..4.0).contains(&(period - model.period_rtts)), "{case}: period {period}");
    }
}
