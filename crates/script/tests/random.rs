//! Random conversations: firm, and the same for the same seed.

use knee_script::random::conversation;
use knee_script::{Limits, LinuxVersion, Profile, Script, ScriptOutcome, SimStack, play};

const PROFILES: [Profile; 3] = [
    Profile { linux: LinuxVersion(6, 1), hz: 1000 },
    Profile { linux: LinuxVersion(6, 12), hz: 1000 },
    Profile { linux: LinuxVersion(6, 18), hz: 250 },
];
const ALGORITHMS: [&str; 6] = ["reno", "cubic", "dctcp", "bbr", "bic", "nv"];

#[test]
fn the_simulator_plays_what_it_has_said() {
    for seed in 0..60 {
        let algorithm = ALGORITHMS[seed as usize % ALGORITHMS.len()];
        let profile = PROFILES[seed as usize % PROFILES.len()];
        let text = conversation(algorithm, seed, profile).unwrap_or_else(|why| panic!("{why}"));
        let script = Script::parse("random", &text).unwrap_or_else(|why| panic!("{why}\n{text}"));
        let mut stack =
            SimStack::new(&script.settings, profile).unwrap_or_else(|why| panic!("{}", why.0));
        let played = play(&script, &mut stack, Limits::default())
            .unwrap_or_else(|why| panic!("{why}\n{text}"));
        assert_eq!(played.outcome, ScriptOutcome::Passed, "{text}");
    }
}

#[test]
fn the_same_seed_gives_the_same_conversation() {
    let profile = PROFILES[2];
    for seed in 0..12 {
        let make = || conversation("cubic", seed, profile).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(make(), make());
    }
}

#[test]
fn conversations_are_long_enough_to_say_something() {
    let lines: usize = (0..60)
        .map(|seed| conversation("reno", seed, PROFILES[2]).map_or(0, |text| text.lines().count()))
        .sum();
    assert!(lines > 60 * 30, "{lines} lines in 60 conversations");
}
