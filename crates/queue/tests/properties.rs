//! Properties of every discipline, alone and below a shaper, for random packets and times.

use crate::model::{DSCPS, Draw, Model, Operation, Pkt, shaped};
use knee_queue::time::{Duration, Rate, Time};
use knee_queue::{
    Admission, Alternate, AnyQdisc, Backlog, CeThresholdFor, ClassConfig, ClassService,
    ClassesConfig, CodelConfig, CodelParams, Condition, Departure, DropReason, DropTailConfig,
    DualPi2Config, Ecn, Fifo, FqCodelConfig, Limit, LimitPer, LowLatency, MarkAt, MarkShare,
    MarkWhen, NotEctAbove, PieConfig, PieDelay, Qdisc, QueueAction, QueueConfig, RedConfig,
    ShareConfig, StepConfig, StepThreshold, Threshold, TokenBucket, TrimConfig, TwoBuffersConfig,
};
use knee_units::Random;
use proptest::prelude::*;

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let wait = prop_oneof![0..2_000_000_u64, 0..50_000_000_000_u64];
    let len_bytes = prop_oneof![Just(1514_u32), 60..=2000_u32];
    let operation = prop_oneof![
        2 => wait.prop_map(|ps| Operation::Wait { ps }),
        4 => (len_bytes, 0..4_u8)
            .prop_map(|(len_bytes, tos)| Operation::Enqueue { len_bytes, ecn: Ecn::from_tos(tos) }),
        3 => Just(Operation::Dequeue),
    ];
    prop::collection::vec(operation, 0..400)
}

fn limit() -> impl Strategy<Value = Limit> {
    prop_oneof![(0..40_u32).prop_map(Limit::Pkts), (0..60_000_u64).prop_map(Limit::Bytes)]
}

fn step() -> impl Strategy<Value = QueueConfig> {
    let threshold = prop_oneof![
        (0..20_u32).prop_map(Threshold::Pkts),
        (0..30_000_u64).prop_map(Threshold::Bytes),
        (0..1000_u64).prop_map(|us| Threshold::Sojourn(Duration::from_us(us))),
    ];
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (limit(), threshold, flags).prop_map(|(limit, threshold, (above, dequeue, drop))| {
        let is_sojourn = matches!(threshold, Threshold::Sojourn(_));
        QueueConfig::Step(StepConfig {
            limit,
            threshold,
            mark_at: if above { MarkAt::Above } else { MarkAt::AtLeast },
            when: if dequeue || is_sojourn { MarkWhen::Dequeue } else { MarkWhen::Enqueue },
            not_ect: if drop { NotEctAbove::Drop } else { NotEctAbove::Queue },
        })
    })
}

/// PIE with a short fuse, so that it acts within a short run.
fn pie() -> impl Strategy<Value = QueueConfig> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (0..40_u32, 0..2000_u64, any::<u64>(), flags).prop_map(
        |(limit_pkts, burst_us, seed, (ecn, byte_mode, timestamps, derandomise))| {
            QueueConfig::Pie(PieConfig {
                limit_pkts,
                target: Duration::from_us(100),
                update_interval: Duration::from_ms(1),
                first_update: Duration::ZERO,
                alpha: 2000,
                beta: 20_000,
                burst_allowance: Duration::from_us(burst_us),
                ecn,
                byte_mode,
                delay: if timestamps { PieDelay::Timestamps } else { PieDelay::DepartureRate },
                derandomise,
                seed,
                ..PieConfig::default()
            })
        },
    )
}

fn share() -> impl Strategy<Value = QueueConfig> {
    let mark = prop_oneof![
        (0.0..=1.0).prop_map(MarkShare::Probability),
        (1..20_u32).prop_map(MarkShare::Every)
    ];
    (limit(), mark, any::<u64>())
        .prop_map(|(limit, mark, seed)| QueueConfig::Share(ShareConfig { limit, mark, seed }))
}

fn red() -> impl Strategy<Value = QueueConfig> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let range = (0..20_000_u64, 0..30_000_u64);
    (limit(), range, 0.0..=1.0, 0..12_u32, 0..20_u64, any::<u64>(), flags).prop_map(
        |(limit, (min_bytes, more), max_p, wlog, us, seed, flags)| {
            let (ecn, drop, harddrop, gentle, adaptive) = flags;
            QueueConfig::Red(RedConfig {
                limit,
                min_bytes,
                max_bytes: min_bytes + more,
                max_p,
                wlog,
                packet_time: Duration::from_us(us),
                ecn,
                not_ect: if drop { NotEctAbove::Drop } else { NotEctAbove::Queue },
                harddrop,
                gentle,
                adapt_interval: adaptive.then_some(Duration::from_ms(1)),
                seed,
            })
        },
    )
}

fn codel_params() -> impl Strategy<Value = CodelParams> {
    let threshold = prop::option::of((0..2000_u64).prop_map(Duration::from_us));
    let flags = (any::<bool>(), any::<bool>());
    (0..200_u64, 2..2000_u64, threshold, flags).prop_map(
        |(target, more, ce_threshold, (ecn, ect1))| CodelParams {
            target: Duration::from_us(target),
            interval: Duration::from_us(target + more),
            ecn,
            ce_threshold,
            ce_threshold_for: if ect1 { CeThresholdFor::Ect1 } else { CeThresholdFor::EctAny },
            mtu_bytes: 1514,
        },
    )
}

fn codel() -> impl Strategy<Value = QueueConfig> {
    (0..40_u32, codel_params())
        .prop_map(|(limit_pkts, codel)| QueueConfig::Codel(CodelConfig { limit_pkts, codel }))
}

fn fq_codel() -> impl Strategy<Value = QueueConfig> {
    let sizes = (0..40_u32, 1..20_u32, 1..4000_u32, 1..8_u32);
    (sizes, codel_params(), any::<u64>()).prop_map(
        |((limit_pkts, flows, quantum_bytes, drop_batch_pkts), codel, seed)| {
            QueueConfig::FqCodel(FqCodelConfig {
                limit_pkts,
                flows,
                quantum_bytes,
                drop_batch_pkts,
                codel,
                seed,
                ..FqCodelConfig::default()
            })
        },
    )
}

/// DualPI2 with gains that make it act within a short run.
fn dualpi2() -> impl Strategy<Value = QueueConfig> {
    let step = prop_oneof![
        (0..10_u32).prop_map(StepThreshold::Pkts),
        (0..2000_u64).prop_map(|us| StepThreshold::Sojourn(Duration::from_us(us))),
    ];
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (0..40_u32, step, 1..=99_u32, 1..4_u32, any::<u64>(), flags).prop_map(
        |(limit_pkts, step, c_weight_pct, coupling_factor, seed, flags)| {
            let (any_ect, drop_on_overload, drop_early) = flags;
            QueueConfig::DualPi2(DualPi2Config {
                limit_pkts,
                target: Duration::from_us(500),
                update_interval: Duration::from_us(300),
                alpha_ppm: 50_000_000,
                beta_ppm: 500_000_000,
                coupling_factor,
                step,
                low_latency: if any_ect { LowLatency::EctAny } else { LowLatency::Ect1 },
                c_weight_pct,
                drop_on_overload,
                drop_early,
                seed,
                ..DualPi2Config::default()
            })
        },
    )
}

/// A queue of one kind.
fn single() -> impl Strategy<Value = QueueConfig> {
    prop_oneof![
        limit().prop_map(|limit| QueueConfig::DropTail(DropTailConfig { limit })),
        step(),
        pie(),
        share(),
        red(),
        codel(),
        fq_codel(),
        dualpi2()
    ]
}

fn classes() -> impl Strategy<Value = QueueConfig> {
    let service =
        prop_oneof![Just(ClassService::Strict), (1..5_u32).prop_map(ClassService::Weighted)];
    let condition = prop_oneof![
        (0..DSCPS).prop_map(|dscp| Condition { dscps: Some(1 << dscp), ..Condition::default() }),
        Just(Condition { acks: true, ..Condition::default() }),
        (60..2000_u32)
            .prop_map(|most| Condition { up_to_bytes: Some(most), ..Condition::default() }),
    ];
    let class = (condition, service, single());
    (prop::collection::vec(class, 1..4), 64..4000_u32).prop_map(|(mut classes, quantum_bytes)| {
        if let Some((condition, ..)) = classes.last_mut() {
            *condition = Condition::default();
        }
        let classes = classes.into_iter().map(|(condition, service, queue)| ClassConfig {
            name: String::new(),
            condition,
            service,
            queue,
        });
        QueueConfig::Classes(ClassesConfig { classes: classes.collect(), quantum_bytes })
    })
}

fn trim() -> impl Strategy<Value = QueueConfig> {
    (limit(), 0..20_u32, 1..20_u32).prop_map(|(limit, k, headers_pkts)| {
        QueueConfig::Trim(TrimConfig { limit, threshold: Threshold::Pkts(k), headers_pkts })
    })
}

fn two_buffers() -> impl Strategy<Value = QueueConfig> {
    let flags = (any::<bool>(), any::<bool>());
    (single(), flags).prop_map(|(queue, (bytes, port))| {
        let can_port = queue.admission().is_some();
        QueueConfig::TwoBuffers(TwoBuffersConfig {
            second: vec![1],
            second_names: Vec::new(),
            queue: Box::new(queue),
            alternate: if bytes { Alternate::Bytes } else { Alternate::Packets },
            limit_per: if port && can_port { LimitPer::Port } else { LimitPer::Buffer },
        })
    })
}

/// Any discipline, with any settings that can work.
fn drawn() -> impl Strategy<Value = QueueConfig> {
    any::<u64>().prop_filter_map("it cannot work", |seed| {
        let mut random = Random::new(seed);
        let config = Draw(&mut || random.below(2000) as u32).single();
        config.validate().is_ok().then_some(config)
    })
}

fn config() -> impl Strategy<Value = QueueConfig> {
    prop_oneof![4 => single(), 1 => classes(), 1 => two_buffers(), 1 => trim(), 2 => drawn()]
}

proptest! {
    #[test]
    fn a_queue_accounts_for_every_packet(config in config(), operations in operations()) {
        prop_assert_eq!(config.validate(), Ok(()));
        Model::new(config.build(), &config).run(&operations);
    }

    #[test]
    fn a_shaped_queue_accounts_for_every_packet(
        config in config(),
        operations in operations(),
        mbps in 1..40_000_u64,
    ) {
        Model::new(shaped(&config, mbps * 1_000_000), &config).run(&operations);
    }

    #[test]
    fn the_same_seed_gives_the_same_run(config in config(), operations in operations()) {
        let run = || {
            let mut model = Model::new(config.build(), &config);
            model.run(&operations);
            (model.actions, model.delivered_ids)
        };
        prop_assert_eq!(run(), run());
    }

    /// The simulator relies on this: it asks the policy alone and computes departures without a queue.
    #[test]
    fn a_policy_alone_decides_as_its_queue_does(config in config(), operations in operations()) {
        let Some(mut policy) = config.admission() else { return Ok(()) };
        let mut queue = config.build::<Pkt>();
        for operation in operations {
            if let Operation::Enqueue { len_bytes, ecn } = operation {
                let backlog = Backlog { pkts: queue.len_pkts(), bytes: queue.len_bytes() };
                let alone = policy.admit(backlog, len_bytes, ecn, Time::ZERO);
                let queued = queue.enqueue(Pkt::new(0, len_bytes, ecn), Time::ZERO);
                prop_assert_eq!(alone, queued);
            } else {
                queue.dequeue(Time::ZERO);
            }
        }
        prop_assert_eq!(policy.threshold_hits(), queue.stats().threshold_hits);
    }

    /// Queues of which one may not send: it does not, the others do, and nothing is forgotten.
    #[test]
    fn who_is_held_sends_nothing_until_it_may(
        config in prop_oneof![classes(), two_buffers()],
        operations in operations(),
        holds in prop::collection::vec((0..4_usize, any::<bool>()), 1..50),
    ) {
        let mut model = Model::new(config.build(), &config);
        let mut held = vec![false; model.parts];
        let mut holds = holds.iter().cycle();
        for operation in &operations {
            let (part, is_held) = *holds.next().expect("they go round");
            model.queue.classes_mut().expect("it has classes").hold(part, is_held);
            if let Some(held) = held.get_mut(part) {
                *held = is_held;
            }
            let sent = |model: &Model<AnyQdisc<Pkt>>, part| {
                model.queue.part(part).expect("there is one").stats.dequeued_pkts
            };
            let before: Vec<u64> = (0..model.parts).map(|part| sent(&model, part)).collect();
            model.run(std::slice::from_ref(operation));
            for part in 0..model.parts {
                prop_assert!(!held[part] || sent(&model, part) == before[part]);
            }
            let has_sendable = model.queue.classes_mut().expect("it has classes").has_sendable();
            let of_others = (0..model.parts).filter(|part| !held[*part]);
            let waits = |part| model.queue.part(part).expect("there is one").backlog.pkts > 0;
            prop_assert_eq!(has_sendable, of_others.clone().any(waits));
        }
        let classes = model.queue.classes_mut().expect("it has classes");
        (0..held.len()).for_each(|part| classes.hold(part, false));
        while model.dequeue().is_some() {
            model.check();
        }
        prop_assert_eq!(model.queue.len_pkts(), 0);
    }

    #[test]
    fn step_counts_each_mark_and_each_hit(config in step(), operations in operations()) {
        let mut model = Model::new(config.build(), &config);
        model.run(&operations);
        let stats = *model.queue.stats();
        prop_assert!(stats.marked_pkts + stats.dropped_not_ect_pkts <= stats.threshold_hits);
        prop_assert_eq!(stats.dropped_early_pkts, 0);
        prop_assert!(stats.threshold_hits <= u64::from(model.offered.pkts));
    }

    /// Two classes that have always something to send share the link by their weights, to a quantum and a packet each.
    #[test]
    fn weights_hold_for_packets_of_any_length(
        weights in (1..8_u32, 1..8_u32),
        quantum_bytes in 64..4000_u32,
        lens_bytes in (60..9000_u32, 60..9000_u32),
        count in 1..400_usize,
    ) {
        let class = |dscps, weight| ClassConfig {
            name: String::new(),
            condition: Condition { dscps, ..Condition::default() },
            service: ClassService::Weighted(weight),
            queue: QueueConfig::DropTail(DropTailConfig { limit: Limit::Bytes(u64::MAX) }),
        };
        let classes = vec![class(Some(1), weights.0), class(None, weights.1)];
        let config = QueueConfig::Classes(ClassesConfig { classes, quantum_bytes });
        let mut queue = config.build::<Pkt>();
        for _ in 0..count {
            queue.enqueue(Pkt::new(0, lens_bytes.0, Ecn::NotEct), Time::ZERO);
            queue.enqueue(Pkt::new(1, lens_bytes.1, Ecn::NotEct), Time::ZERO);
        }
        let mut sent = [0_i64; 2];
        for _ in 0..count {
            let pkt = queue.dequeue(Time::ZERO).expect("both wait");
            sent[pkt.id as usize] += i64::from(pkt.len_bytes);
        }
        let [first, second] = [weights.0, weights.1].map(i64::from);
        // In rounds, which are a quantum times the weight.
        let apart = (sent[0] * second - sent[1] * first).abs();
        let allowed = first * second * i64::from(quantum_bytes)
            + second * i64::from(lens_bytes.0)
            + first * i64::from(lens_bytes.1);
        prop_assert!(apart <= allowed, "{sent:?}: {apart} of {allowed}");
    }

    /// In any stretch of time, what leaves is at most a burst ahead of the rate.
    #[test]
    fn a_token_bucket_is_never_more_than_a_burst_ahead(
        mbps in 1..100_000_u64,
        packets in prop::collection::vec((0..100_000_000_u64, 1..=1600_u32), 1..60),
    ) {
        let rate = Rate::from_bps(mbps * 1_000_000).expect("above 0");
        let cost_ns = |len_bytes| rate.time_of(len_bytes).ns();
        let mut bucket = TokenBucket::new(rate, 1600);
        let mut now = Time::ZERO;
        let mut released: Vec<(u64, u64)> = Vec::new();
        for (gap_ps, len_bytes) in packets {
            now += Duration::from_ps(gap_ps);
            let ready = bucket.ready_at(len_bytes, now);
            prop_assert!(ready >= now);
            now = ready;
            prop_assert_eq!(bucket.ready_at(len_bytes, now), now);
            bucket.take(len_bytes, now);
            released.push((now.ns(), cost_ns(len_bytes)));
        }
        for first in 0..released.len() {
            let mut sum_ns = 0;
            for (at_ns, cost) in &released[first..] {
                sum_ns += cost;
                prop_assert!(sum_ns <= cost_ns(1600) + at_ns - released[first].0);
            }
        }
    }

    /// A backlogged link runs at its rate exactly, each packet's time rounded down to a nanosecond.
    #[test]
    fn a_backlogged_shaper_keeps_its_rate(
        mbps in 1..100_000_u64,
        lens_bytes in prop::collection::vec(1..=1600_u32, 1..200),
    ) {
        let config = QueueConfig::DropTail(DropTailConfig { limit: Limit::Pkts(1000) });
        let mut queue = shaped(&config, mbps * 1_000_000);
        for (id, len_bytes) in lens_bytes.iter().enumerate() {
            queue.enqueue(Pkt::new(id as u64, *len_bytes, Ecn::NotEct), Time::ZERO);
        }
        let mut now = Time::ZERO;
        while queue.len_pkts() > 0 {
            now = queue.next_event(now).expect("packets wait");
            prop_assert!(queue.dequeue(now).is_some());
        }
        let rate = Rate::from_bps(mbps * 1_000_000).expect("above 0");
        let cost_ns = |len_bytes: &u32| rate.time_of(*len_bytes).ns();
        let sum_ns: u64 = lens_bytes.iter().map(cost_ns).sum();
        prop_assert_eq!(now.ns(), sum_ns.saturating_sub(cost_ns(&1600)));
        let exact_ns = lens_bytes.iter().map(|len| u64::from(*len)).sum::<u64>() * 8000 / mbps;
        prop_assert!(sum_ns <= exact_ns && exact_ns - sum_ns <= lens_bytes.len() as u64);
    }
}

/// A policy that drops every other packet, at departure.
struct DropOdd(u64);

impl Admission for DropOdd {
    fn admit(&mut self, _: Backlog, _: u32, _: Ecn, _: Time) -> QueueAction {
        QueueAction::Queued
    }
    fn release(&mut self, _: Departure, _: Time) -> QueueAction {
        self.0 += 1;
        if self.0 % 2 == 1 { QueueAction::Dropped(DropReason::Early) } else { QueueAction::Queued }
    }
}

#[test]
fn a_policy_from_outside_can_drive_a_fifo() {
    let mut queue = Fifo::new(DropOdd(0));
    for id in 0..5 {
        queue.enqueue(Pkt::new(id, 100, Ecn::NotEct), Time::ZERO);
    }
    let ids: Vec<u64> =
        std::iter::from_fn(|| queue.dequeue(Time::ZERO)).map(|pkt| pkt.id).collect();
    assert_eq!(ids, [1, 3]);
    assert_eq!(queue.stats().dropped_early_pkts, 3);
    assert_eq!(queue.len_bytes(), 0);
}

fn qdelay_s(queue: &impl Qdisc<Pkt>) -> f64 {
    let qdelay = queue.inside().and_then(|inside| inside.qdelay);
    qdelay.expect("this one measures a delay").as_secs_f64()
}

/// One eleventh of what arrives is too much: PIE drops that, and holds the delay at 15 ms.
#[test]
fn pie_steers_an_overload_to_its_target() {
    let config = QueueConfig::Pie(PieConfig { seed: 1, ..PieConfig::default() });
    let mut queue = shaped(&config, 40_000_000);
    let (mut now, mut next_arrival) = (Time::ZERO, Time::ZERO);
    let gap = Duration::from_ns(302_800 * 10 / 11); // 10 % too much
    let (mut sum_s, mut samples) = (0.0, 0);
    while now < Time::from_ms(60_000) {
        let event = queue.next_event(now).expect("PIE always has an update to come");
        now = event.min(next_arrival);
        queue.tick(now);
        if now == next_arrival {
            queue.enqueue(Pkt::new(0, 1514, Ecn::NotEct), now);
            next_arrival += gap;
        }
        while queue.dequeue(now).is_some() {}
        if now > Time::from_ms(30_000) {
            sum_s += qdelay_s(&queue);
            samples += 1;
        }
    }
    let mean_ms = sum_s / f64::from(samples) * 1e3;
    assert!((13.0..17.0).contains(&mean_ms), "{mean_ms} ms");
    let stats = queue.stats();
    let dropped = stats.dropped_pkts() as f64 / (stats.dropped_pkts() + stats.dequeued_pkts) as f64;
    assert!((0.085..0.095).contains(&dropped), "{dropped}");
    assert_eq!(stats.dropped_full_pkts, 0);
}
