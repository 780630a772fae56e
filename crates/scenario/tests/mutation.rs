//! Whatever is done to a valid file, it is either accepted or refused in one line, and quickly.

use std::path::Path;
use std::time::{Duration, Instant};

use knee_scenario::{Experiment, Overrides};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const BULK_MIX: &str = include_str!("../../../scenarios/published/bulk-mix.toml");
const MIXED: &str = include_str!("../../../scenarios/examples/rpc-beside-bulk.toml");
const ROUTER: &str = include_str!("../../../scenarios/examples/router-bursts.toml");
const LEAF_SPINE: &str = include_str!("../../../scenarios/examples/leaf-spine.toml");

/// Pieces that turn up in such files, and some that should not.
const PIECES: &[&str] = &[
    "\"",
    "'",
    "=",
    "[",
    "]",
    "[[",
    "]]",
    "{",
    "}",
    "\n",
    ",",
    ".",
    "..",
    "#",
    "\\",
    "\"\"\"",
    "1e300",
    "nan",
    "inf",
    "-1",
    "0",
    "99999999999999999999",
    "true",
    "1979-05-27",
    "\"1e300 Gbps\"",
    "\"-5 kB\"",
    "\"NaN s\"",
    "\"0 bps\"",
    "\"1..1000000\"",
    "\"1..9 times 0\"",
    "\"h1..h99999999\"",
    "\"10 pkts\"",
    "\"\"",
    "{}",
    "[]",
    "\u{0}",
    "é",
    "traffic",
    "network",
    "vary",
    "name",
    "\"params.x\" = 1\n",
    "[case.set]\n",
    "\"hosts.hz\" = 3\n",
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
    /// A value of one line is put in place of another's.
    Swap {
        from: usize,
        to: usize,
    },
    DropLine {
        line: usize,
    },
    RepeatLine {
        line: usize,
    },
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        (any::<usize>(), 1..30usize).prop_map(|(at, len)| Edit::Delete { at, len }),
        (any::<usize>(), 0..PIECES.len()).prop_map(|(at, piece)| Edit::Insert { at, piece }),
        (any::<usize>(), any::<usize>()).prop_map(|(from, to)| Edit::Swap { from, to }),
        any::<usize>().prop_map(|line| Edit::DropLine { line }),
        any::<usize>().prop_map(|line| Edit::RepeatLine { line }),
    ]
}

fn apply(text: &str, edit: &Edit) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if chars.is_empty() || lines.is_empty() {
        return text.to_owned();
    }
    match *edit {
        Edit::Delete { at, len } => {
            let at = at % chars.len();
            let end = (at + len).min(chars.len());
            chars.drain(at..end);
            chars.into_iter().collect()
        }
        Edit::Insert { at, piece } => {
            let at = at % chars.len();
            chars.splice(at..at, PIECES[piece].chars());
            chars.into_iter().collect()
        }
        Edit::Swap { from, to } => {
            let (from, to) = (from % lines.len(), to % lines.len());
            let value = lines[from].split_once(" = ").map(|(_, value)| value.to_owned());
            let key = lines[to].split_once(" = ").map(|(key, _)| key.to_owned());
            if let (Some(key), Some(value)) = (key, value) {
                lines[to] = format!("{key} = {value}");
            }
            lines.join("\n")
        }
        Edit::DropLine { line } => {
            let line = line % lines.len();
            lines.remove(line);
            lines.join("\n")
        }
        Edit::RepeatLine { line } => {
            let line = line % lines.len();
            lines.insert(line, lines[line].clone());
            lines.join("\n")
        }
    }
}

/// One line and not a long one, or a run that can be laid out.
fn check(text: &str, overrides: &Overrides) -> Result<(), TestCaseError> {
    let started = Instant::now();
    match Experiment::parse(Path::new("x.toml"), text, overrides) {
        Ok(experiment) => {
            let run = experiment.run(experiment.run_id(experiment.runs() - 1));
            prop_assert!(run.is_ok());
        }
        Err(error) => {
            let message = error.to_string();
            prop_assert!(message.starts_with("x.toml"), "{message}");
            prop_assert!(!message.contains(['\n', '\r', '\0']), "{message:?}");
            // The list of all metrics is the longest.
            prop_assert!(message.chars().count() < 1000, "{message}");
        }
    }
    prop_assert!(started.elapsed() < Duration::from_secs(5), "took {:?}", started.elapsed());
    Ok(())
}

proptest! {
    // The same cases every time; `fuzz/` looks for new ones.
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(2),
        ..ProptestConfig::with_cases(5000)
    })]

    #[test]
    fn edited_files_are_accepted_or_refused_in_one_line(
        file in prop_oneof![Just(BULK_MIX), Just(MIXED), Just(ROUTER), Just(LEAF_SPINE)],
        edits in prop::collection::vec(edit(), 1..6),
    ) {
        let text = edits.iter().fold(file.to_owned(), |text, edit| apply(&text, edit));
        check(&text, &Overrides::default())?;
    }

    #[test]
    fn any_text_is_accepted_or_refused_in_one_line(text in "\\PC{0,200}") {
        check(&text, &Overrides::default())?;
    }

    #[test]
    fn any_override_is_accepted_or_refused_in_one_line(
        key in "(network|traffic|hosts|run|vary|case|sample|[a-z]{1,8})(\\.[a-z0-9_]{0,12}){0,4}",
        value in prop_oneof![
            "\\PC{0,40}",
            (0..PIECES.len()).prop_map(|i| PIECES[i].to_owned()),
        ],
    ) {
        let overrides = Overrides { set: vec![format!("{key}={value}")], ..Overrides::default() };
        check(MIXED, &overrides)?;
    }
}
