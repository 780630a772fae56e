//! The project's scripts, against every profile of the simulator.

mod common;

use knee_script::{Limits, LinuxVersion, Profile, ScriptOutcome, SimStack, play};

fn all_pass_on(profile: Profile) {
    let mut differ = Vec::new();
    let scripts = common::scripts();
    for script in &scripts {
        // Another version may lack the sysctls that it sets.
        if !script.is_for(profile.linux.into()) {
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
    all_pass_on(Profile { linux: LinuxVersion::V6_1, hz: 1000 });
}

#[test]
fn the_simulator_is_linux_6_12_in_every_script() {
    all_pass_on(Profile { linux: LinuxVersion::V6_12, hz: 1000 });
}

#[test]
fn the_simulator_is_linux_6_18_in_every_script() {
    all_pass_on(Profile { linux: LinuxVersion::V6_18, hz: 250 });
}
