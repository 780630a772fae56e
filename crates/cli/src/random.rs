//! `knee script --random`.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use knee_files::Dir;
use knee_script::random::conversation;
use knee_script::{
    Limits, Profile, Refusal, Script, ScriptOutcome, Settings, Stack, play_again_if_late,
};

use crate::{CHECK_FAILED, DONE, Failure, print};

/// Conversations played in parallel. They mostly wait, but more of them would delay each other.
const AT_ONCE: usize = 3;

/// Makes the stack that plays a conversation. Several threads call it.
type Make<'a> = dyn Fn(&Settings) -> Result<Box<dyn Stack>, Refusal> + Sync + 'a;

/// Options of the random conversations.
pub(crate) struct Wanted<'a> {
    pub(crate) algorithm: &'a str,
    pub(crate) count: u64,
    /// Seed of the first conversation.
    pub(crate) seed: u64,
    pub(crate) profile: Profile,
    pub(crate) attempts: u32,
    /// Folder for scripts whose results differ.
    pub(crate) output: Option<&'a Path>,
}

/// Writes random conversations and plays them on stacks that `make` returns.
pub(crate) fn run(wanted: &Wanted<'_>, make: &Make<'_>) -> Result<u8, Failure> {
    let next = AtomicU64::new(0);
    let totals = Mutex::new((0_u64, 0_u64));
    let failed = Mutex::new(None);
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let turn = next.fetch_add(1, Ordering::Relaxed);
                    if turn >= wanted.count {
                        return;
                    }
                    match one(wanted, wanted.seed.wrapping_add(turn), make) {
                        Ok(passed) => {
                            let mut totals = totals.lock().unwrap_or_else(PoisonError::into_inner);
                            totals.0 += u64::from(passed);
                            totals.1 += u64::from(!passed);
                        }
                        Err(why) => {
                            next.store(wanted.count, Ordering::Relaxed);
                            *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
                        }
                    }
                }
            });
        }
    });
    if let Some(why) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(why);
    }
    let (passed, differ) = totals.into_inner().unwrap_or_else(PoisonError::into_inner);
    print(&format!("{passed} agree, {differ} differ\n"))?;
    Ok(if differ == 0 { DONE } else { CHECK_FAILED })
}

/// Returns whether both agree.
fn one(wanted: &Wanted<'_>, seed: u64, make: &Make<'_>) -> Result<bool, Failure> {
    let says = |why: knee_script::Error| Failure::Says(format!("--seed {seed}: {why}"));
    let name = format!("{}-{seed}.script", wanted.algorithm);
    let text = conversation(wanted.algorithm, seed, wanted.profile).map_err(says)?;
    let script = Script::parse(&name, &text).map_err(says)?;
    let settled =
        play_again_if_late(&script, Limits::default(), wanted.attempts, &mut |settings| {
            make(settings)
        })
        .map_err(says)?;
    let lines = text.lines().count();
    let ScriptOutcome::Differs(why) = settled.played.outcome else {
        print(&format!("pass     {name} ({lines} lines)\n"))?;
        return Ok(true);
    };
    let (attempts, late) = (settled.attempts, settled.lateness.us());
    print(&format!("DIFFERS  {why} ({lines} lines; attempt {attempts}, up to {late} us late)\n"))?;
    if let Some(folder) = wanted.output {
        let path = folder.join(&name);
        Dir::make_all(folder)
            .and_then(|_| knee_files::write(&path, text))
            .map_err(|why| Failure::Says(format!("{}: cannot write: {why}", path.display())))?;
    }
    Ok(false)
}
