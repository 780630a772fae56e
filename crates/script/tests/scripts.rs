//! The project's scripts, against every profile of the simulator.

use knee_script::{Limits, LinuxVersion, Profile, Script, ScriptOutcome, SimStack, play};

fn all_pass_on(profile: Profile) {
    let mut differ = Vec::new();
    let scripts = crate::common::scripts();
    for script in &scripts {
        // Another version may lack the sysctls that it sets.
        if !script.is_for(profile.linux) {
            continue;
        }
        let mut stack = SimStack::new(&script.settings, profile)
            .unwrap_or_else(|why| panic!("{}: {}", script.file(), why.0));
        match play(script, &mut stack, Limits::default()) {
            Ok(played) => {
                if let ScriptOutcome::Differs(why) = played.outcome {
                    differ.push(format!("{why}\n    {}", played.account.join("\n    ")));
                }
            }
            Err(why) => differ.push(why.to_string()),
        }
    }
    assert!(
        differ.is_empty(),
        "{} of {} differ:\n{}",
        differ.len(),
        scripts.len(),
        differ.join("\n")
    );
}

#[test]
fn the_simulator_is_linux_6_1_in_every_script() {
    all_pass_on(Profile { linux: LinuxVersion(6, 1), hz: 1000 });
}

#[test]
fn the_simulator_is_linux_6_12_in_every_script() {
    all_pass_on(Profile { linux: LinuxVersion(6, 12), hz: 1000 });
}

#[test]
fn the_simulator_is_linux_6_18_in_every_script() {
    all_pass_on(Profile { linux: LinuxVersion(6, 18), hz: 250 });
}

/// A round trip below a tick of the timestamps counts as 1 ms in 6.1 (`tcp_rcv_rtt_measure_ts`). From 6.16 on, and in 6.12.117, it
/// is no sample, so the receive buffer has no round trip to be tuned by. On a kernel a tick may pass between two segments, so
/// this is no script of `tests/scripts`.
#[test]
fn a_round_trip_below_a_tick_tunes_the_receive_buffer_of_6_1_alone() {
    let script = |expected: &str| {
        let text = format!(
            "title t\nmss 1088\nsysctl tcp_rmem = 4096 50000 4000000\nlisten\nin [S]\nout [S.]\nin [.] ack 1\n\
             repeat 11\n  in [.] len mss\n  out [.] as last\n  read\nend\n\
             +30ms in [.] len mss, ecr last\nread\nexpect rcv_space == {expected}*mss\n"
        );
        Script::parse("below-a-tick", &text).expect("it is right")
    };
    for (linux, expected) in
        [(LinuxVersion(6, 1), "12"), (LinuxVersion(6, 12), "10"), (LinuxVersion(6, 18), "10")]
    {
        let script = script(expected);
        let profile = Profile { linux, hz: 1000 };
        let mut stack = SimStack::new(&script.settings, profile).expect("its settings are known");
        let played = play(&script, &mut stack, Limits::default()).expect("it is played");
        assert_eq!(played.outcome, ScriptOutcome::Passed, "{linux:?}");
    }
}
