//! Any text as a packet script, and as a file of packetdrill: played against the simulator, or refused in one line; never a panic. An end point has no link with a
//! queue: those are the targets `simulate` and `queues`.
#![no_main]

use knee_fuzz::check_message;
use knee_script::{Limits, LinuxVersion, Packetdrill, Profile, Script, SimStack, play};

knee_fuzz::target!(|text: &str| {
    let limits = Limits { events: 1_000, ..Limits::default() };
    let profile = Profile { linux: LinuxVersion(6, 18), hz: 250 };
    let own = Script::parse("x", text).map(|script| Packetdrill::Script(Box::new(script)));
    for read in [own, Script::parse_packetdrill("x", text)] {
        match read {
            Ok(Packetdrill::Script(script)) => {
                if let Ok(mut stack) = SimStack::new(&script.settings, profile) {
                    let _ = play(&script, &mut stack, limits);
                }
            }
            Ok(Packetdrill::NotApplicable(error)) | Err(error) => {
                check_message(&error.to_string());
            }
        }
    }
});
