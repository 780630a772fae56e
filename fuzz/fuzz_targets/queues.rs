//! Any bytes as the settings of a queue discipline and a list of operations on it: it accounts for every packet as the model of the
//! property tests wants it, alone or below a shaper, and twice the same.
#![no_main]

#[path = "../../crates/queue/tests/model/mod.rs"]
mod model;

use knee_fuzz::{Numbers, check_message};
use knee_queue::{
    Alternate, ClassConfig, ClassService, ClassesConfig, Condition, Ecn, LimitPer, QueueConfig,
    TwoBuffersConfig,
};
use model::{Draw, Model, Operation, shaped};

/// How long all waits of a case may be together.
const MOST_WAIT_NS: u64 = 2_000_000_000;
const MOST_CLASSES: u8 = 4;

fn single(n: &mut Numbers<'_>) -> QueueConfig {
    Draw(&mut || n.edgy()).single()
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
