//! The project's scripts against the running kernel, with our algorithms and with its own.

#![allow(clippy::unwrap_used, reason = "all of this is test code")]

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use knee_script::random::conversation;
use knee_script::{
    Algorithms, KernelStack, Limits, Linux, LinuxVersion, Profile, Script, Stack, Verdict,
    not_for_kernels_own, play_again_if_late, running,
};
use knee_testbed::kernel_is_ready;

/// Scripts wait most of their time; more at once make each other late.
const AT_ONCE: usize = 3;
const ATTEMPTS: u32 = 8;
/// Of the random conversations.
const FIRST_SEED: u64 = 2_000;

/// Plays all of the project's that `is_for` and returns what differs.
fn differing(whose: Algorithms, is_for: impl Fn(&Script) -> bool) -> Vec<String> {
    // A kernel that a script is not about may lack the sysctls that it sets.
    let is_for = |script: &Script| script.is_for(running()) && is_for(script);
    differing_of(whose, &common::scripts().into_iter().filter(is_for).collect::<Vec<_>>())
}

fn differing_of(whose: Algorithms, scripts: &[Script]) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let differ = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(script) = scripts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut make = |settings: &_| -> Result<Box<dyn Stack>, _> {
                        Ok(Box::new(KernelStack::new(settings, whose)?))
                    };
                    let played = play_again_if_late(script, Limits::default(), ATTEMPTS, &mut make);
                    let said = match played {
                        Ok(settled) => match settled.played.verdict {
                            Verdict::Differs(why) => {
                                let account = settled.played.account.join("\n    ");
                                let attempts = settled.attempts;
                                Some(format!("{why} (attempt {attempts})\n    {account}"))
                            }
                            Verdict::Passed | Verdict::NotForThis(_) => None,
                        },
                        Err(why) => Some(why.to_string()),
                    };
                    if let Some(said) = said {
                        differ.lock().unwrap_or_else(PoisonError::into_inner).push(said);
                    }
                }
            });
        }
    });
    differ.into_inner().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn the_kernel_passes_every_script_with_our_algorithms() {
    if !kernel_is_ready() {
        return;
    }
    let differ = differing(Algorithms::Ours, |_| true);
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ.join("\n"));
}

#[test]
fn the_kernel_passes_every_script_with_its_own_algorithms() {
    if !kernel_is_ready() {
        return;
    }
    let differ =
        differing(Algorithms::Kernels, |script| not_for_kernels_own(script).unwrap().is_none());
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ.join("\n"));
}

#[test]
fn the_kernel_holds_random_conversations_as_the_simulator_does() {
    if !kernel_is_ready() {
        return;
    }
    let linux = running();
    if linux != Linux(6, 18) {
        eprintln!("not compared: conversations are those of Linux 6.18, this is {linux}");
        return;
    }
    let profile = Profile { linux: LinuxVersion::V6_18, hz: 250 };
    let scripts: Vec<_> = (0..30)
        .map(|turn| {
            let algorithm = ["reno", "cubic", "dctcp", "bbr"][turn % 4];
            let text = conversation(algorithm, FIRST_SEED + turn as u64, profile).unwrap();
            Script::parse(&format!("{algorithm}-{}", FIRST_SEED + turn as u64), &text).unwrap()
        })
        .collect();
    let differ = differing_of(Algorithms::Ours, &scripts);
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ.join("\n"));
}
