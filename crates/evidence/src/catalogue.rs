//! The published experiments. `catalogue.toml` lists them in the order of a report, with publications that cannot be
//! rerun.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use knee_file::keys::{Below, Key, List, Text};
use knee_file::{Origin, Reader, keys, one_of};
use knee_scenario::error::Error;
use knee_scenario::experiment::{Experiment, Overrides};

use crate::golden;

/// Folder of the files in a clone. Messages use it for embedded files.
const FOLDER: &str = "scenarios/published";
const CATALOGUE: &str = "catalogue";
/// Title of the section for experiments from other folders.
const OTHERS: &str = "Other experiments";

keys! {
    /// Published experiments, in the order of the catalogue.
    static TOP: TopKeys = "catalogue" {
        /// Its parts.
        section: Below = list(&SectionKeys::TABLE),
        /// What was published and is not here.
        absent: Below = list(&AbsentKeys::TABLE),
    }
}

keys! {
    /// A part of the catalogue.
    static SECTION: SectionKeys = "section" {
        /// Its title.
        title: Key<Text> = needed("DCTCP in Linux, 2014"),
        /// What was published.
        about: Key<Text> = needed("What was published."),
        /// Names of files beside this one.
        experiments: Key<List<Text>>,
    }
}

keys! {
    /// A publication without an experiment here.
    static ABSENT: AbsentKeys = "absent" {
        /// Host or switch.
        title: Key<Text> = needed("CPU of internal pacing"),
        /// Where it was published.
        source: Key<Text> = needed("tcp: internal pacing"),
        /// Why it is not here.
        why: Key<Text> = needed("It is the host's CPU."),
    }
}

/// A section of related experiments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    pub title: String,
    /// Description of the publication.
    pub about: String,
    /// Names of the experiments' files, without `.toml`.
    pub experiments: Vec<String>,
}

/// A publication that cannot be rerun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absent {
    pub title: String,
    /// Place of publication.
    pub source: String,
    /// Reason.
    pub why: String,
}

/// The files of the published experiments by name, with their catalogue and golden results.
#[derive(Clone, Debug, Default)]
pub struct Library {
    /// Sections in the order of a report.
    pub sections: Vec<Section>,
    /// Publications that cannot be re-run.
    pub absent: Vec<Absent>,
    /// Files that the catalogue does not list. A test refuses them, and commands ignore them.
    pub unlisted: Vec<String>,
    files: BTreeMap<String, String>,
    golden: BTreeMap<String, String>,
    /// Paths of experiments from other folders.
    paths: BTreeMap<String, PathBuf>,
}

impl Library {
    /// Builds the library from the texts of all files of the folder and of the golden results. Both are keyed by name
    /// without extension.
    ///
    /// # Errors
    /// [`Error::Input`] if the catalogue is invalid, lists a file twice, or lists a missing file.
    pub fn new<'a>(
        files: impl IntoIterator<Item = (&'a str, &'a str)>,
        golden: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Library, Error> {
        let owned = |(name, text): (&str, &str)| (name.to_owned(), text.to_owned());
        let mut files: BTreeMap<String, String> = files.into_iter().map(owned).collect();
        let text = files.remove(CATALOGUE).unwrap_or_default();
        let golden = golden.into_iter().map(owned).collect();
        let library = Library { files, golden, ..Library::default() };
        library.read(&text)
    }

    fn read(self, text: &str) -> Result<Library, Error> {
        let path = path_of(CATALOGUE);
        let root = knee_file::parse(&path, text)?;
        let resolved = RefCell::default();
        let reader = Reader::root(&path, &root, &resolved).only(&[&TOP])?;
        let (mut sections, mut seen): (_, Vec<&str>) = (Vec::new(), Vec::new());
        for section in reader.children(&TOP.section)? {
            let section = section.only(&[&SECTION])?;
            let experiments = section.texts(&SECTION.experiments)?.unwrap_or_default();
            for name in &experiments {
                if !self.files.contains_key(*name) {
                    let why = one_of(name, self.names());
                    return Err(section.error(&SECTION.experiments, why).into());
                }
                if seen.contains(name) {
                    let why = format!("lists \"{name}\" twice: list it in one section only");
                    return Err(section.error(&SECTION.experiments, why).into());
                }
                seen.push(name);
            }
            sections.push(Section {
                title: section.need_text(&SECTION.title)?.trim().to_owned(),
                about: section.need_text(&SECTION.about)?.trim().to_owned(),
                experiments: experiments.into_iter().map(str::to_owned).collect(),
            });
        }
        let unlisted =
            self.names().filter(|name| !seen.contains(name)).map(str::to_owned).collect();
        let mut absent = Vec::new();
        for reader in reader.children(&TOP.absent)? {
            let reader = reader.only(&[&ABSENT])?;
            absent.push(Absent {
                title: reader.need_text(&ABSENT.title)?.trim().to_owned(),
                source: reader.need_text(&ABSENT.source)?.trim().to_owned(),
                why: reader.need_text(&ABSENT.why)?.trim().to_owned(),
            });
        }
        Ok(Library { sections, absent, unlisted, ..self })
    }

    /// Adds an experiment from elsewhere and returns its name. It replaces one of the same name and drops its golden
    /// results.
    pub fn put(&mut self, path: &Path, text: String) -> String {
        let stem = path.file_stem().unwrap_or_default();
        let name = stem.to_string_lossy().into_owned();
        self.golden.remove(&name);
        self.files.insert(name.clone(), text);
        self.paths.insert(name.clone(), path.to_owned());
        if !self.sections.iter().any(|section| section.experiments.contains(&name)) {
            let others = match self.sections.iter_mut().find(|section| section.title == OTHERS) {
                Some(others) => others,
                None => {
                    let about = "Files of the command line.".to_owned();
                    self.sections.push(Section {
                        title: OTHERS.to_owned(),
                        about,
                        experiments: Vec::new(),
                    });
                    self.sections.last_mut().expect("pushed above")
                }
            };
            others.experiments.push(name.clone());
        }
        name
    }

    /// Returns the names of all experiments in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.files.keys().map(String::as_str)
    }

    /// Returns the text of an experiment's file.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.files.get(name).map(String::as_str)
    }

    /// Returns the golden text of an experiment's quick set.
    pub fn golden(&self, name: &str) -> Option<&str> {
        self.golden.get(name).map(String::as_str)
    }

    /// Returns the golden verdict on a claim.
    pub fn blessed(&self, experiment: &str, claim: &str) -> Option<&str> {
        golden::verdict(self.golden(experiment)?, claim)
    }

    /// Reads and checks an experiment.
    ///
    /// # Errors
    /// The errors of [`Experiment::parse`]. Also fails for an unknown name, or if the experiment refers to an unknown one.
    pub fn load(&self, name: &str, overrides: &Overrides) -> Result<Arc<Experiment>, Error> {
        let path = self.paths.get(name).cloned().unwrap_or_else(|| path_of(name));
        let Some(text) = self.text(name) else {
            let folder = Path::new(FOLDER);
            let why = format!("\"{}\": {}", name.escape_debug(), one_of(name, self.names()));
            return Err(Error::input(folder, Origin::Nowhere, "", why));
        };
        let experiment = Experiment::parse(&path, text, overrides)?.whole()?;
        for claim in &experiment.claims {
            if let Some(other) = claim.see.as_ref().filter(|other| self.text(other).is_none()) {
                let key = format!("claim.{}.see", claim.name);
                return Err(Error::input(&path, claim.origin, key, one_of(other, self.names())));
            }
        }
        Ok(Arc::new(experiment))
    }
}

fn path_of(name: &str) -> PathBuf {
    Path::new(FOLDER).join(format!("{name}.toml"))
}
