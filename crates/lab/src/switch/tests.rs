//! The switch without a kernel: frames in with their times, frames out.

use knee_queue::time::{Duration, Rate, Time};
use knee_queue::{Ecn, Limit, MarkAt, MarkWhen, NotEctAbove, QueueConfig, StepConfig, Threshold};
use knee_run::spec::{HostConfig, LinkId, LinuxVersion, Network};
use knee_run::topology::{Cable, Star};

use super::forward::{Forwarder, ForwarderReport};
use super::frame::tests::{frame_v4, frame_v6};
use super::segment::{OFFLOAD_BYTES, Offload};
use super::{Port, SwitchConfig};

/// From the switch to the second host, as [`Star`] numbers links.
const DOWN_TO_B: LinkId = 3;

/// Two hosts; the port to the second has 1 Gbps and marks at 2 packets waiting.
fn star() -> Network {
    let step = StepConfig {
        limit: Limit::Pkts(100),
        threshold: Threshold::Pkts(2),
        mark_at: MarkAt::AtLeast,
        when: MarkWhen::Enqueue,
        not_ect: NotEctAbove::Queue,
    };
    let down = Cable {
        delay: Duration::from_us(10),
        sampled: true,
        ..Cable::new(Rate::from_bps(1_000_000_000), QueueConfig::Step(step))
    };
    let up = Cable { rate: None, ..down.clone() };
    let host = |name: &str| (name.to_owned(), HostConfig::new(LinuxVersion(6, 18)));
    Star { hosts: vec![host("a"), host("b")], up, down }.build()
}

/// Host a behind device 7, b behind 8 with the address of [`frame_v4`].
fn forwarder(zero: Time) -> Forwarder {
    forwarder_with(zero, None)
}

fn forwarder_with(zero: Time, window: Option<[Time; 2]>) -> Forwarder {
    let ports = [
        Port { device: 7, node: 0, mac: [2, 0, 0, 0, 0, 1] },
        Port { device: 8, node: 1, mac: [2, 0, 0, 0, 0, 2] },
    ];
    let config = SwitchConfig {
        seed: 1,
        sampled: vec![DOWN_TO_B],
        sample: Some(Duration::from_us(10)),
        window,
        cpu: None,
        log: true,
        large_frames: false,
        captures: None,
    };
    Forwarder::new(&star(), &ports, &config, 1524, zero).unwrap()
}

fn with_ecn(mut frame: Vec<u8>, ecn: Ecn) -> Vec<u8> {
    frame[15] = ecn as u8;
    frame
}

#[test]
fn a_frame_arrives_when_the_network_says_at_the_device_of_its_host() {
    let mut forwarder = forwarder(Time::ZERO);
    let frame = frame_v6();
    forwarder.take(7, Offload::default(), &frame, Time::from_us(5));
    assert_eq!(forwarder.next_event(Time::from_ms(1)), Some(Time::from_us(15)));
    forwarder.advance(Time::from_ms(1));
    let due: Vec<_> = forwarder.due(9).collect();
    // 10 us, 74 bytes at 1 Gbps, 10 us.
    assert_eq!(due.len(), 1);
    assert_eq!((&due[0].0[OFFLOAD_BYTES..], due[0].1), (&frame[..], 8));
    forwarder.forget_due(1, |at| assert_eq!(at, Time::from_ns(25_592)));
    assert!(!forwarder.has_due());
}

#[test]
fn marks_of_the_queue_are_in_the_frames() {
    let mut forwarder = forwarder(Time::ZERO);
    for ecn in [Ecn::Ect0, Ecn::Ect0, Ecn::Ect0, Ecn::Ect1, Ecn::NotEct] {
        let frame = with_ecn(frame_v4(), ecn);
        forwarder.take(7, Offload::default(), &frame, Time::ZERO);
    }
    forwarder.advance(Time::from_ms(1));
    let seen = forwarder.due(9).map(|(bytes, _)| Ecn::from_tos(bytes[OFFLOAD_BYTES + 15]));
    // The first is being sent; the fourth finds two waiting.
    assert_eq!(seen.collect::<Vec<_>>(), [Ecn::Ect0, Ecn::Ect0, Ecn::Ect0, Ecn::Ce, Ecn::NotEct]);
    forwarder.forget_due(5, |_| {});
    let ForwarderReport { queues, log, .. } = forwarder.finish();
    assert_eq!((queues[0].offered_pkts, queues[0].marked_pkts), (5, 1));
    assert_eq!(
        log.iter().map(|offered| offered.marked).collect::<Vec<_>>(),
        [false, false, false, true, false]
    );
}

#[test]
fn what_is_for_nobody_is_foreign() {
    let mut forwarder = forwarder(Time::ZERO);
    let mut elsewhere = frame_v4();
    elsewhere[5] = 9;
    for (device, frame) in [(7, &elsewhere[..]), (7, &[0; 60]), (9, &frame_v4()), (8, &frame_v4())]
    {
        forwarder.take(device, Offload::default(), frame, Time::ZERO);
    }
    assert_eq!((forwarder.counts.frames, forwarder.counts.foreign), (4, 4));
    assert_eq!(forwarder.next_event(Time::from_ms(1)), None);
}

#[test]
fn a_window_ends_when_the_applications_do_and_no_later() {
    // Three packets, of which the window has the second.
    let sent = |mut ended_at: Option<Time>| {
        let window = [Time::from_us(50), Time::from_us(250)];
        let mut forwarder = forwarder_with(Time::from_us(100), Some(window));
        for at_us in [20, 120, 220, 320] {
            if at_us > 100 {
                forwarder.take(7, Offload::default(), &frame_v4(), Time::from_us(at_us));
            }
            forwarder.advance(Time::from_us(at_us + 50));
            if let Some(at) = ended_at.take_if(|at| *at <= Time::from_us(at_us + 50)) {
                forwarder.end_window(at);
            }
        }
        forwarder.advance(Time::from_us(390));
        let window = forwarder.finish().window.unwrap();
        window.map(|queues| queues[0].sent_pkts)
    };
    assert_eq!(sent(None), [1, 3], "it would go on until 350 us");
    assert_eq!(sent(Some(Time::from_us(60))), [1, 3], "it had not begun");
    assert_eq!(sent(Some(Time::from_us(260))), [1, 2]);
    assert_eq!(sent(Some(Time::from_us(360))), [1, 3], "it has ended before");
}

#[test]
fn samples_come_at_their_times_however_late_the_thread_is() {
    let mut forwarder = forwarder(Time::from_us(100));
    for _ in 0..4 {
        let frame = with_ecn(frame_v4(), Ecn::Ect0);
        forwarder.take(7, Offload::default(), &frame, Time::from_us(99));
    }
    forwarder.advance(Time::from_us(145));
    let ForwarderReport { samples, log, .. } = forwarder.finish();
    // At 109 us of its own time they are at the port, where each takes 1.032 us: at 110 us the first is being sent.
    let seen: Vec<_> = samples.iter().map(|sample| (sample.at.us(), sample.len_pkts)).collect();
    assert_eq!(seen, [(10, 3), (20, 0), (30, 0), (40, 0)]);
    assert!(log.iter().all(|offered| offered.at == Time::from_us(9)));
}
