//! How much a flow costs; in a process of its own, since it looks at that of the whole process.

mod common;

use common::*;
use knee_run::spec::{Flow, Run};

#[test]
#[cfg(target_os = "linux")]
fn an_idle_established_flow_takes_less_than_4_kib() {
    let path = Path::new(us(100));
    let idle = |n: u64| {
        let flows = (0..n)
            .map(|i| Flow {
                start: at_us(i),
                first_write: Some(at_ms(90_000)),
                sampled: false,
                ..path.bulk("cubic", 1000)
            })
            .collect();
        Run { end: at_ms(1000), ..path.run(flows) }
    };
    let n = 10_000;
    simulate(&idle(10));
    let run = idle(n);
    let before = peak_bytes();
    let outcome = simulate(&run);
    let per_flow = (peak_bytes() - before) / n;
    assert!(outcome.flows.iter().all(|flow| flow.established_at.is_some()));
    // Two sockets, the application, the outcome.
    assert!(per_flow < 4096, "{per_flow} bytes per flow");
}
