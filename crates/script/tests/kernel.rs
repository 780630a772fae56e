//! The project's scripts against the running kernel, with our algorithms and with its own.

#![allow(clippy::unwrap_used, reason = "all of this is test code")]

mod common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use knee_queue::time::Duration;
use knee_script::random::conversation;
use knee_script::{
    Algorithms, KernelStack, Limits, LinuxVersion, Profile, Script, ScriptOutcome, SimStack, Stack,
    not_for_kernels_own, play, play_again_if_late, running,
};
use knee_testbed::kernel_is_ready;

/// Scripts wait much of their time; more at once make each other late.
const AT_ONCE: usize = 3;
/// Those that take [`LONG`] and more do little but wait, so they are played beside the others.
const LONG_AT_ONCE: usize = 8;
const LONG: Duration = Duration::from_ms(1000);
const ATTEMPTS: u32 = 8;
/// First seed of the random conversations.
const FIRST_SEED: u64 = 2_000;
/// Algorithms of ours that Linux has under the same name.
const OWN: [&str; 3] = ["reno", "cubic", "bbr"];

/// Plays all of the project's that `is_for` and returns what differs.
fn differing(whose: Algorithms, is_for: impl Fn(&Script) -> bool) -> Vec<String> {
    // A kernel that a script is not about may lack the sysctls that it sets.
    let is_for = |script: &Script| script.is_for(running()) && is_for(script);
    differing_of(whose, &common::scripts().into_iter().filter(is_for).collect::<Vec<_>>())
}

fn differing_of(whose: Algorithms, scripts: &[Script]) -> Vec<String> {
    let mut timed: Vec<_> = scripts.iter().map(|script| (took(script), script)).collect();
    timed.sort_by_key(|(took, _)| std::cmp::Reverse(*took));
    let (long, short) = timed.split_at(timed.partition_point(|(took, _)| *took >= LONG));
    let differ = Mutex::new(Vec::new());
    let lanes = [(long, AtomicUsize::new(0), LONG_AT_ONCE), (short, AtomicUsize::new(0), AT_ONCE)];
    thread::scope(|scope| {
        for (scripts, next, at_once) in &lanes {
            for _ in 0..*at_once {
                scope.spawn(|| {
                    while let Some((_, script)) = scripts.get(next.fetch_add(1, Ordering::Relaxed))
                    {
                        let said = difference(whose, script);
                        differ.lock().unwrap_or_else(PoisonError::into_inner).extend(said);
                    }
                });
            }
        }
    });
    differ.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// How long it takes in the simulator, in simulated time, which is about what it takes on a kernel.
fn took(script: &Script) -> Duration {
    let profile = Profile { linux: LinuxVersion(6, 18), hz: 250 };
    let stack = SimStack::new(&script.settings, profile).ok();
    let played = stack.and_then(|mut stack| play(script, &mut stack, Limits::default()).ok());
    played.map_or(Duration::ZERO, |played| played.took)
}

fn difference(whose: Algorithms, script: &Script) -> Option<String> {
    let mut make = |settings: &_| -> Result<Box<dyn Stack>, _> {
        Ok(Box::new(KernelStack::new(settings, whose)?))
    };
    match play_again_if_late(script, Limits::default(), ATTEMPTS, &mut make) {
        Ok(settled) => match settled.played.outcome {
            ScriptOutcome::Differs(why) => {
                let account = settled.played.account.join("\n    ");
                Some(format!("{why} (attempt {})\n    {account}", settled.attempts))
            }
            ScriptOutcome::Passed
            | ScriptOutcome::NotForThis(_)
            | ScriptOutcome::NotApplicable(_) => None,
        },
        Err(why) => Some(why.to_string()),
    }
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
    // Only what the kernel has can be compared.
    let mut left_out = BTreeMap::new();
    for script in common::scripts().iter().filter(|script| script.is_for(running())) {
        let name = script.settings.algorithm.clone();
        if OWN.contains(&name.as_str()) && !script.is_for_our_algorithm() {
            let is_left_out = not_for_kernels_own(script).unwrap().is_some();
            *left_out.entry(name).or_insert(0) += usize::from(is_left_out);
        }
    }
    for (name, scripts) in left_out.iter().filter(|(_, scripts)| **scripts > 0) {
        println!("left out: {scripts} scripts about {name}, which this kernel does not have");
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
    if linux != LinuxVersion(6, 18) {
        eprintln!("not compared: conversations are those of Linux 6.18, this is {linux}");
        return;
    }
    let profile = Profile { linux: LinuxVersion(6, 18), hz: 250 };
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
