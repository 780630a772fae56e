//! Resolves the name of an experiment: an existing file, or else a built-in experiment.

use std::path::{Path, PathBuf};

use knee_file::{Origin, did_you_mean};

use crate::error::Error;
use crate::experiment::{Experiment, Overrides, read_text};

/// Folder of the built-in experiments in a clone. Messages use it for embedded ones.
const FOLDER: &str = "scenarios";
/// Number of names that an error suggests besides the nearest one.
const MOST_ALIKE: usize = 6;

/// A built-in experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltIn {
    /// Folder: `published`, `examples` or `hosts`.
    pub group: &'static str,
    /// File name without `.toml`.
    pub name: &'static str,
    /// Text of the file.
    pub text: &'static str,
}

impl BuiltIn {
    /// Returns the path of its file in a clone.
    pub fn path(&self) -> PathBuf {
        Path::new(FOLDER).join(self.group).join(format!("{}.toml", self.name))
    }

    /// Returns its unique name, as `published/incast`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.group, self.name)
    }
}

/// Meaning of a word of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolved<'a> {
    /// A file, which may be unreadable.
    File(&'a Path),
    BuiltIn(BuiltIn),
}

impl Resolved<'_> {
    /// Returns its path and text.
    ///
    /// # Errors
    /// The errors of [`Experiment::load`], but only errors of the file itself.
    pub fn read(&self) -> Result<(PathBuf, String), Error> {
        match self {
            Resolved::File(path) => Ok((path.to_path_buf(), read_text(path)?)),
            Resolved::BuiltIn(one) => Ok((one.path(), one.text.to_owned())),
        }
    }

    /// Reads and checks the experiment.
    ///
    /// # Errors
    /// The errors of [`Experiment::load`].
    pub fn load(&self, overrides: &Overrides) -> Result<Experiment, Error> {
        let (path, text) = self.read()?;
        Experiment::parse(&path, &text, overrides)
    }
}

/// Resolves a word: an existing path, or else a built-in name. `incast`, `published/incast` and, as in a clone,
/// `scenarios/published/incast.toml` name the same experiment. If two groups share a name, the first of `all` is
/// meant.
///
/// # Errors
/// [`Error::Input`] with the nearest names, if the word is neither and does not look like a path.
pub fn find<'a>(word: &'a Path, all: &[BuiltIn]) -> Result<Resolved<'a>, Error> {
    let text = word.to_string_lossy();
    let built_in = || {
        let is_it =
            |one: &&BuiltIn| *text == *one.name || *text == one.full_name() || *word == one.path();
        all.iter().find(is_it).copied()
    };
    let is_file = word.symlink_metadata().is_ok() && !word.is_dir();
    let is_path = text.contains('/') || text.ends_with(".toml") || text == "-";
    match (is_file, built_in()) {
        (false, Some(one)) => Ok(Resolved::BuiltIn(one)),
        // In a directory such as /tmp, another user can place a file under a name that root means as built-in.
        (true, Some(one)) if *word != one.path() => {
            check_own(word)?;
            Ok(Resolved::File(word))
        }
        _ if is_file || is_path || word.is_dir() => Ok(Resolved::File(word)),
        _ => Err(Error::input(
            Path::new(&format!("\"{}\"", shown(&text))),
            Origin::Nowhere,
            "",
            format!(
                "neither a file nor a built-in experiment (knee scenarios){}",
                near(&text, all)
            ),
        )),
    }
}

/// Refuses, for root, another user's file with the name of a built-in experiment, because root may have meant the
/// latter.
fn check_own(word: &Path) -> Result<(), Error> {
    let file = knee_files::open_file(word, "experiment file")
        .map_err(|why| Error::unreadable(word, why))?;
    knee_files::trust::check_file(&file, word).map_err(|why| {
        let message = format!(
            "is a built-in experiment, but also a file here that other users may have written \
                ({why}): remove the file, or write ./{} to use it",
            shown(&word.to_string_lossy())
        );
        Error::input(word, Origin::Nowhere, "", message)
    })
}

/// Suggests names: `; names like it are ...; did you mean "incast"?`. These are names that contain the word, and the
/// nearest.
fn near(word: &str, all: &[BuiltIn]) -> String {
    let mut names: Vec<&str> = all.iter().map(|one| one.name).collect();
    names.sort_unstable();
    names.dedup();
    let nearest = did_you_mean(word, names.iter().copied());
    let begins = word.split('-').next().filter(|begin| begin.len() > 2);
    let alike = |name: &&&str| begins.is_some_and(|begin| name.contains(begin));
    let alike: Vec<&str> = names.iter().filter(alike).take(MOST_ALIKE).copied().collect();
    match alike.is_empty() {
        true => nearest,
        false => format!("; names like it are {}{nearest}", alike.join(", ")),
    }
}

fn shown(word: &str) -> String {
    word.chars().take(60).collect::<String>().escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &[BuiltIn] = &[
        BuiltIn { group: "published", name: "plb", text: "" },
        BuiltIn { group: "published", name: "incast", text: "" },
        BuiltIn { group: "published", name: "incast-19", text: "" },
        BuiltIn { group: "examples", name: "plb", text: "" },
    ];

    #[test]
    fn one_rule_says_what_a_word_means() {
        let is = |word: &str, at: usize| {
            assert_eq!(find(Path::new(word), ALL).unwrap(), Resolved::BuiltIn(ALL[at]), "{word}");
        };
        is("incast", 1);
        is("published/incast", 1);
        is("scenarios/published/incast.toml", 1);
        is("plb", 0);
        is("examples/plb", 3);
        let here = tempfile::tempdir().unwrap();
        let path = here.path().join("plb");
        // Reading the file reports a missing path.
        assert_eq!(find(&path, ALL).unwrap(), Resolved::File(&path));
        for path in ["incast.toml", "./incast", "-", "."] {
            assert_eq!(
                find(Path::new(path), ALL).unwrap(),
                Resolved::File(Path::new(path)),
                "{path}"
            );
        }
        let why = find(Path::new("incats"), ALL).unwrap_err().to_string();
        assert!(why.contains("did you mean \"incast\"?"), "{why}");
        let why = find(Path::new("incast-of-many"), ALL).unwrap_err().to_string();
        assert!(why.contains("names like it are incast, incast-19"), "{why}");
        let why = find(Path::new("a\u{1b}"), ALL).unwrap_err().to_string();
        assert!(why.contains("knee scenarios") && !why.contains('\u{1b}'), "{why}");
    }
}
