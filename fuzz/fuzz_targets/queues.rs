//! Any bytes as the settings of a queue discipline and a list of operations on it: it accounts for every packet as the model of the
//! property tests wants it, alone or below a shaper, and twice the same.
#![no_main]

#[path = "../../crates/queue/tests/model/mod.rs"]
mod model;

use knee_fuzz::{Numbers, check_message};
use knee_queue::time::Duration;
use knee_queue::{
    Alternate, CeThresholdFor, ClassConfig, ClassService, ClassesConfig, CodelConfig, CodelParams,
    Condition, DropTailConfig, DualPi2Config, Ecn, FqCodelConfig, Limit, LimitPer, LowLatency,
    MarkAt, MarkShare, MarkWhen, NotEctAbove, PieConfig, PieDelay, QueueConfig, RedConfig,
    ShareConfig, StepConfig, StepThreshold, Threshold, TwoBuffersConfig,
};
use model::{Model, Operation, shaped};

/// Shorter intervals between updates are refused or take a case too long.
const SHORTEST_UPDATE: Duration = Duration::from_us(20);
/// How long all waits of a case may be together.
const MOST_WAIT_NS: u64 = 2_000_000_000;
const MOST_CLASSES: u8 = 4;

fn us(n: &mut Numbers<'_>) -> Duration {
    Duration::from_us(u64::from(n.edgy()))
}

fn update_interval(n: &mut Numbers<'_>) -> Duration {
    us(n).max(SHORTEST_UPDATE)
}

/// From a little below 0 to a little above 1, or nothing at all.
fn share_of_one(n: &mut Numbers<'_>) -> f64 {
    match n.u8() {
        255 => f64::NAN,
        at => (f64::from(at) - 10.0) / 230.0,
    }
}

fn bytes(n: &mut Numbers<'_>) -> u64 {
    u64::from(n.edgy()) * 256
}

fn limit(n: &mut Numbers<'_>) -> Limit {
    if n.is_odd() { Limit::Pkts(n.edgy()) } else { Limit::Bytes(bytes(n)) }
}

fn not_ect(n: &mut Numbers<'_>) -> NotEctAbove {
    n.one_of(&[NotEctAbove::Queue, NotEctAbove::Drop])
}

fn codel(n: &mut Numbers<'_>) -> CodelParams {
    CodelParams {
        target: us(n),
        interval: us(n),
        ecn: n.is_odd(),
        ce_threshold: if n.is_odd() { Some(us(n)) } else { None },
        ce_threshold_for: n.one_of(&[CeThresholdFor::Ect1, CeThresholdFor::EctAny]),
        mtu_bytes: n.edgy(),
    }
}

fn single(n: &mut Numbers<'_>) -> QueueConfig {
    match n.u8() % 8 {
        0 => QueueConfig::DropTail(DropTailConfig { limit: limit(n) }),
        1 => QueueConfig::Step(StepConfig {
            limit: limit(n),
            threshold: match n.u8() % 3 {
                0 => Threshold::Pkts(n.edgy()),
                1 => Threshold::Bytes(bytes(n)),
                _ => Threshold::Sojourn(us(n)),
            },
            mark_at: n.one_of(&[MarkAt::AtLeast, MarkAt::Above]),
            when: n.one_of(&[MarkWhen::Enqueue, MarkWhen::Dequeue]),
            not_ect: not_ect(n),
        }),
        2 => QueueConfig::Pie(PieConfig {
            limit_pkts: n.edgy(),
            target: us(n),
            update_interval: update_interval(n),
            first_update: us(n),
            alpha: n.edgy(),
            beta: n.edgy(),
            burst_allowance: us(n),
            ecn: n.is_odd(),
            byte_mode: n.is_odd(),
            mtu_bytes: n.edgy(),
            delay: n.one_of(&[PieDelay::Timestamps, PieDelay::DepartureRate]),
            derandomise: n.is_odd(),
            seed: u64::from(n.u8()),
        }),
        3 => QueueConfig::Share(ShareConfig {
            limit: limit(n),
            mark: if n.is_odd() {
                MarkShare::Probability(share_of_one(n))
            } else {
                MarkShare::Every(n.edgy())
            },
            seed: u64::from(n.u8()),
        }),
        4 => QueueConfig::Red(RedConfig {
            limit: limit(n),
            min_bytes: bytes(n),
            max_bytes: bytes(n),
            max_p: share_of_one(n),
            wlog: n.u8().into(),
            packet_time: us(n),
            ecn: n.is_odd(),
            not_ect: not_ect(n),
            harddrop: n.is_odd(),
            gentle: n.is_odd(),
            adapt_interval: if n.is_odd() { Some(update_interval(n)) } else { None },
            seed: u64::from(n.u8()),
        }),
        5 => QueueConfig::Codel(CodelConfig { limit_pkts: n.edgy(), codel: codel(n) }),
        6 => QueueConfig::FqCodel(FqCodelConfig {
            limit_pkts: n.edgy(),
            memory_limit_bytes: bytes(n),
            flows: n.edgy() % 300,
            quantum_bytes: n.edgy(),
            drop_batch_pkts: n.edgy(),
            codel: codel(n),
            seed: u64::from(n.u8()),
        }),
        _ => QueueConfig::DualPi2(DualPi2Config {
            limit_pkts: n.edgy(),
            target: us(n),
            update_interval: update_interval(n),
            alpha_ppm: n.edgy(),
            beta_ppm: n.edgy(),
            coupling_factor: n.edgy(),
            step: if n.is_odd() {
                StepThreshold::Pkts(n.edgy())
            } else {
                StepThreshold::Sojourn(us(n))
            },
            low_latency: n.one_of(&[LowLatency::Ect1, LowLatency::EctAny]),
            c_weight_pct: n.u8().into(),
            drop_on_overload: n.is_odd(),
            drop_early: n.is_odd(),
            mtu_bytes: n.edgy(),
            seed: u64::from(n.u8()),
        }),
    }
}

fn class(n: &mut Numbers<'_>, is_last: bool) -> ClassConfig {
    let condition = match n.u8() % 4 {
        _ if is_last => Condition::default(),
        0 => Condition { dscps: Some(n.u8().into()), ..Condition::default() },
        1 => Condition { acks: true, ..Condition::default() },
        2 => Condition { up_to_bytes: Some(n.u16().into()), ..Condition::default() },
        _ => Condition { dscps: Some(n.u8().into()), acks: n.is_odd(), up_to_bytes: None },
    };
    let service = if n.is_odd() { ClassService::Strict } else { ClassService::Weighted(n.edgy()) };
    ClassConfig { name: String::new(), condition, service, queue: single(n) }
}

fn config(n: &mut Numbers<'_>) -> QueueConfig {
    match n.u8() % 8 {
        0 => {
            let count = n.u8() % MOST_CLASSES + 1;
            let classes = (1..=count).map(|at| class(n, at == count)).collect();
            QueueConfig::Classes(ClassesConfig { classes, quantum_bytes: n.u16().into() })
        }
        1 => QueueConfig::TwoBuffers(TwoBuffersConfig {
            second: vec![n.u8().into()],
            second_names: Vec::new(),
            alternate: n.one_of(&[Alternate::Bytes, Alternate::Packets]),
            limit_per: n.one_of(&[LimitPer::Port, LimitPer::Buffer]),
            queue: Box::new(single(n)),
        }),
        _ => single(n),
    }
}

fn operations(n: &mut Numbers<'_>) -> Vec<Operation> {
    let mut all = Vec::new();
    let mut left_ns = MOST_WAIT_NS;
    while !n.is_over() {
        let what = n.u8();
        all.push(match what % 8 {
            0..=3 => {
                let len_bytes = if what & 8 == 0 { 1514 } else { u32::from(n.u16()) % 9000 + 1 };
                Operation::Enqueue { len_bytes, ecn: Ecn::from_tos(what >> 4) }
            }
            4..=6 => Operation::Dequeue,
            _ => {
                let ns = if what & 8 == 0 { u64::from(n.u8()) * 4096 } else { n.edgy().into() };
                let ns = ns.min(left_ns);
                left_ns -= ns;
                Operation::Wait { ps: ns * 1000 }
            }
        });
    }
    all
}

knee_fuzz::target!(|bytes: &[u8]| {
    let mut n = Numbers(bytes);
    let mbps = if n.is_odd() { Some(u64::from(n.u16()).max(1)) } else { None };
    let config = config(&mut n);
    if let Err(error) = config.validate() {
        return check_message(&error.to_string());
    }
    let operations = operations(&mut n);
    if let Some(mbps) = mbps {
        Model::new(shaped(&config, mbps * 1_000_000), &config).run(&operations);
    } else {
        let run = || {
            let mut model = Model::new(config.build(), &config);
            model.run(&operations);
            (model.actions, model.delivered_ids, model.offered)
        };
        assert_eq!(run(), run());
    }
});
