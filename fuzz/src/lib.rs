//! What targets have in common: bytes as numbers, errors in one line, directories for a case.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::{env, fs, process};

pub use libfuzzer_sys;
use libfuzzer_sys::Corpus;

/// As `libfuzzer_sys::fuzz_target`, by the rule of [`kept`].
#[macro_export]
macro_rules! target {
    (|$input:ident: $type:ty| $body:block) => {
        $crate::target!(|$input: $type| -> $crate::libfuzzer_sys::Corpus {
            let case = || $body;
            case();
            $crate::libfuzzer_sys::Corpus::Keep
        });
    };
    (|$input:ident: $type:ty| -> $kept:ty $body:block) => {
        $crate::libfuzzer_sys::fuzz_target!(|$input: $type| -> $crate::libfuzzer_sys::Corpus {
            let case = || -> $kept { $body };
            $crate::kept(case())
        });
    };
}

/// A counter for each input that the quick mode begins with, where the fuzzer looks for them: it mutates only inputs that have counted
/// something, and the targets have no other counters then.
#[used]
// SAFETY: the fuzzer takes the bytes of this section for counters, and any bits make an `AtomicU64`.
#[unsafe(link_section = "__libfuzzer_extra_counters")]
static BEGINNINGS: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];

/// Cases that are over.
static CASES: AtomicUsize = AtomicUsize::new(0);

/// How many of the first cases are the beginning of all others, in the quick mode: as many as `KNEE_FUZZ_STEADY` says.
fn steady() -> Option<usize> {
    static STEADY: OnceLock<Option<usize>> = OnceLock::new();
    *STEADY.get_or_init(|| env::var("KNEE_FUZZ_STEADY").ok()?.parse().ok())
}

/// Whether what follows is made of this case too: of each of the first as many as `KNEE_FUZZ_STEADY` says, and of none behind them. Then what
/// is tried depends on the inputs that the fuzzer begins with and on the seed, not on code, compiler or threads. Without it, of those that
/// reach something new.
pub fn kept(kept: Corpus) -> Corpus {
    let Some(steady) = steady() else { return kept };
    let case = CASES.fetch_add(1, Ordering::Relaxed);
    if case >= steady {
        return Corpus::Reject;
    }
    BEGINNINGS[case].store(1, Ordering::Relaxed);
    kept
}

/// Says once in the target's log that a case came so far; in the quick mode a kept one, and no mutation. Where `scripts/fuzz` names it for the
/// target, a kept one must.
#[expect(clippy::print_stderr, reason = "the log of a target is what it says there")]
pub fn reached(what: &str) {
    static REACHED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if steady().is_some_and(|steady| CASES.load(Ordering::Relaxed) >= steady) {
        return;
    }
    let Ok(mut reached) = REACHED.lock() else { return };
    if !reached.contains(what) {
        reached.insert(what.to_owned());
        eprintln!("reached: {what}");
    }
}

/// The bytes of a case as numbers; behind their end all are 0.
pub struct Numbers<'a>(pub &'a [u8]);

impl Numbers<'_> {
    /// Whether all bytes are used up.
    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte.
    pub fn u8(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// The next two bytes.
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.u8(), self.u8()])
    }

    /// The next four bytes.
    pub fn u32(&mut self) -> u32 {
        u32::from(self.u16()) | u32::from(self.u16()) << 16
    }

    /// A bit of the next byte.
    pub fn is_odd(&mut self) -> bool {
        self.u8() % 2 == 1
    }

    /// One of these, by the next byte.
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::from(self.u8()) % all.len()]
    }

    /// A small number mostly, any at times: the next byte says which.
    pub fn edgy(&mut self) -> u32 {
        match self.u8() {
            small @ 0..=199 => u32::from(small),
            200..=229 => u32::from(self.u16()),
            230..=249 => self.u32(),
            at => [0, 1, 1 << 31, (1 << 31) - 1, u32::MAX, 1 << 30][usize::from(at - 250)],
        }
    }
}

/// What a person is told of a bad file: one sentence, in one line.
pub fn check_message(message: &str) {
    assert!(!message.is_empty(), "an error without words");
    assert!(!message.contains(['\n', '\r', '\0']), "an error of several lines: {message:?}");
    // The list of all metrics is the longest; values that are shown are cut.
    assert!(message.chars().count() < 1500, "a long error: {message}");
}

/// An empty directory of this process; whoever runs the fuzzer names the one it is in, and removes that.
pub fn empty_dir() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    let dir = DIR.get_or_init(|| env::temp_dir().join(format!("knee-fuzz-{}", process::id())));
    // What is in it is a few files.
    let _ = fs::remove_dir_all(dir);
    fs::create_dir_all(dir).expect("a directory for temporary files");
    dir
}

/// Texts one after another, each begun by a line `%%% NAME`: what stands before the first has no name.
pub fn parts(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let whole = rest?;
        let (part, behind) = match whole.find("\n%%% ") {
            Some(at) => (&whole[..=at], Some(&whole[at + 1..])),
            None => (whole, None),
        };
        rest = behind;
        Some(match part.strip_prefix("%%% ") {
            Some(part) => part.split_once('\n').unwrap_or((part, "")),
            None => ("", part),
        })
    })
}
