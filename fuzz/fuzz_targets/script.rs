//! Any text as a packet script: played against the simulator, or refused in one line; never a panic. An end point has no link with a
//! queue: those are the targets `simulate` and `queues`.
#![no_main]

use knee_fuzz::check_message;
use knee_script::{Limits, LinuxVersion, Profile, Script, SimStack, play};

knee_fuzz::target!(|text: &str| {
    let limits = Limits { events: 1_000, ..Limits::default() };
    let profile = Profile { linux: LinuxVersion(6, 18), hz: 250 };
    match Script::parse("x", text) {
        Ok(script) => {
            if let Ok(mut stack) = SimStack::new(&script.settings, profile) {
                let _ = play(&script, &mut stack, limits);
            }
        }
        Err(error) => check_message(&error.to_string()),
    }
});
