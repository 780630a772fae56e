//! Whatever is done to a script, it is played to an end or refused in one line, and soon.

use std::time::{Duration, Instant};

use knee_script::{
    Error, Limits, LinuxVersion, Packetdrill, Profile, Script, ScriptOutcome, SimStack, play,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Pieces that turn up in scripts, and some that should not.
const PIECES: &[&str] = &[
    "in ",
    "out ",
    "[.]",
    "[S.]",
    "[F.]",
    "[R]",
    "[SEW]",
    "[",
    "]",
    " ack ",
    " seq ",
    " len ",
    ":",
    ",",
    "..",
    "+",
    "-",
    "*",
    "/",
    "%",
    "(",
    ")",
    "@",
    "=",
    "0",
    "1",
    "4294967295",
    "99999999999999999999",
    "1ns",
    "100s",
    "1e9",
    "\nrepeat 1000\n",
    "\nend\n",
    "\nelse\n",
    "\nif linux >= 6.12\n",
    "\nwrite 100000000\n",
    "\nread\n",
    "\nclose\n",
    "\nconnect\n",
    "\nlisten\n",
    "\nset nodelay 1\n",
    "\nset algorithm dctcp\n",
    "\nshow\n",
    " sack 1:2 3:4",
    "`",
    "%{ assert tcpi_rtt",
    "}%",
    "<",
    "...",
    "~",
    "1:1001(1000)",
    "<mss 1000,nop,wscale 7>",
    "= -1 EAGAIN",
    " win 0",
    " ce",
    " ect0",
    " mss 0",
    " wscale 255",
    " no_ts",
    " ts 0 0",
    " infinite",
    " cwnd",
    "\nexpect cwnd > 0\n",
    "\u{0}",
    "é",
    "#",
    "\n",
];

#[derive(Clone, Debug)]
enum Edit {
    Delete {
        at: usize,
        len: usize,
    },
    Insert {
        at: usize,
        piece: usize,
    },
    /// A line goes elsewhere.
    Move {
        from: usize,
        to: usize,
    },
    Repeat {
        line: usize,
    },
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        (any::<usize>(), 1..12usize).prop_map(|(at, len)| Edit::Delete { at, len }),
        (any::<usize>(), 0..PIECES.len()).prop_map(|(at, piece)| Edit::Insert { at, piece }),
        (any::<usize>(), any::<usize>()).prop_map(|(from, to)| Edit::Move { from, to }),
        any::<usize>().prop_map(|line| Edit::Repeat { line }),
    ]
}

fn apply(text: &str, edit: &Edit) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    let mut lines: Vec<&str> = text.lines().collect();
    if chars.is_empty() || lines.is_empty() {
        return text.to_owned();
    }
    match *edit {
        Edit::Delete { at, len } => {
            let at = at % chars.len();
            chars.drain(at..(at + len).min(chars.len()));
            chars.into_iter().collect()
        }
        Edit::Insert { at, piece } => {
            let at = at % chars.len();
            chars.splice(at..at, PIECES[piece].chars());
            chars.into_iter().collect()
        }
        Edit::Move { from, to } => {
            let line = lines.remove(from % lines.len());
            lines.insert(to % (lines.len() + 1), line);
            lines.join("\n")
        }
        Edit::Repeat { line } => {
            let line = line % lines.len();
            lines.insert(line, lines[line]);
            lines.join("\n")
        }
    }
}

/// Reads packetdrill's files too, which are or are not applicable.
fn packetdrill(text: &str) -> Result<Script, Error> {
    match Script::parse_packetdrill("x", text)? {
        Packetdrill::Script(script) => Ok(*script),
        Packetdrill::NotApplicable(why) => Err(why),
    }
}

fn own(text: &str) -> Result<Script, Error> {
    Script::parse("x", text)
}

fn check(text: &str, parse: fn(&str) -> Result<Script, Error>) -> Result<(), TestCaseError> {
    let started = Instant::now();
    let limits = Limits { events: 3_000, time: knee_queue::time::Duration::from_ms(60_000) };
    let profile = Profile { linux: LinuxVersion(6, 18), hz: 250 };
    let said = match parse(text) {
        Err(why) => why.to_string(),
        Ok(script) => match SimStack::new(&script.settings, profile) {
            Err(why) => format!("x {}", why.0),
            Ok(mut stack) => match play(&script, &mut stack, limits) {
                Err(why) => why.to_string(),
                Ok(played) => match played.outcome {
                    ScriptOutcome::Differs(why) | ScriptOutcome::NotApplicable(why) => {
                        why.to_string()
                    }
                    ScriptOutcome::Passed | ScriptOutcome::NotForThis(_) => "x".to_owned(),
                },
            },
        },
    };
    prop_assert!(said.starts_with('x'), "{said}");
    prop_assert!(!said.contains(['\n', '\r', '\0']), "{said:?}");
    prop_assert!(said.chars().count() < 1000, "{said}");
    prop_assert!(started.elapsed() < Duration::from_secs(20), "took {:?}", started.elapsed());
    Ok(())
}

proptest! {
    // The same cases every time; `fuzz/` looks for new ones.
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(5),
        ..ProptestConfig::with_cases(2000)
    })]

    #[test]
    fn edited_scripts_are_played_or_refused_in_one_line(
        which in any::<prop::sample::Index>(),
        edits in prop::collection::vec(edit(), 1..8),
    ) {
        let texts = crate::common::texts();
        let text = which.get(&texts).1.clone();
        let text = edits.iter().fold(text, |text, edit| apply(&text, edit));
        check(&text, own)?;
    }

    #[test]
    fn edited_files_of_packetdrill_are_played_or_refused_in_one_line(
        which in any::<prop::sample::Index>(),
        edits in prop::collection::vec(edit(), 1..8),
    ) {
        let texts = crate::packetdrill::texts();
        let text = which.get(&texts).1.clone();
        let text = edits.iter().fold(text, |text, edit| apply(&text, edit));
        check(&text, packetdrill)?;
    }

    #[test]
    fn any_text_is_played_or_refused_in_one_line(text in "\\PC{0,200}") {
        check(&text, own)?;
        check(&text, packetdrill)?;
    }
}
