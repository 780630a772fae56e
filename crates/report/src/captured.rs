//! Captures of the runs of a results directory: what was found in each, and a directory beside the report with all of it.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs;
use std::path::{Component, Path, PathBuf};

use knee_files::{Dir, PARTIAL};
use knee_results::manifest::Axis;
use knee_results::rows::Run as Columns;
use knee_results::{CASE, Manifest, REPEAT, RUN, ResultFile};
use serde_json::Value;

use crate::capture::{FINDINGS, about, list};
use crate::findings::{chip, flows_of};
use crate::table::Column::{self, Bare, Number, Text};
use crate::table::{head, row};
use crate::text::{address, digits, escaped, short_path};
use knee_results::Error;

/// Analyses captures of one run into a directory that is there and empty: `findings.json`, its tables and `report.html`, as
/// `knee pcap --csv --report` writes them. Gives a sentence for each file that cannot be read; without any other the directory
/// stays as it is. Its error says why there can be no report, in one sentence.
pub type Analyse<'a> = dyn FnMut(&[PathBuf], &Path) -> Result<Vec<String>, String> + 'a;

/// The page of a run's captures.
const PAGE: &str = "report.html";
/// Files that identify a directory of knee.
const FILES: [&str; 5] = ["flows.csv", "rounds.csv", "events.csv", FINDINGS, PAGE];
/// Findings of a run that are seen at once; the others open by a click.
const SHOWN: usize = 5;

const RUNS: [Column; 9] = [
    Number("Run"),
    Text("Case"),
    Text("At"),
    Number("Repeat"),
    Number("Seed"),
    Number("Files"),
    Number("Packets"),
    Number("Flows"),
    Bare("Findings"),
];

/// The captures of a results directory.
pub(crate) struct Captured {
    runs: Vec<Run>,
    /// Written pages; empty if no capture could be read.
    pub(crate) pages: Fresh,
}

/// A run that was captured.
#[derive(Default)]
struct Run {
    number: u64,
    case: String,
    /// Varied values, in words.
    at: String,
    repeat: String,
    seed: String,
    files: Vec<PathBuf>,
    /// Why files could not be read, each in a sentence.
    unread: Vec<String>,
    found: Option<CaptureFindings>,
}

/// Findings in the captures of a run.
struct CaptureFindings {
    /// The address of their page.
    link: String,
    files: usize,
    packets: f64,
    /// Each connection once.
    flows: u64,
    findings: Vec<Value>,
    /// Files that are not whole, each in a sentence.
    broken: Vec<String>,
}

impl Captured {
    /// Has the captures of a directory analysed; `None`: there are none.
    pub(crate) fn read(
        m: &Manifest,
        html: &Path,
        analyse: &mut Analyse<'_>,
    ) -> Result<Option<Captured>, crate::Error> {
        let mut runs = runs(m)?;
        if runs.is_empty() {
            return Ok(None);
        }
        let mut name = html.file_stem().unwrap_or_default().to_owned();
        name.push("-captures");
        let mut pages = Fresh::make(html.with_file_name(&name))?;
        for run in &mut runs {
            let of_run = format!("run-{}", run.number);
            let dir = pages.held.path().join(&of_run);
            pages.held.make(of_run.as_ref()).map_err(|why| Error::io(&dir, "cannot make", why))?;
            if !run.files.is_empty() {
                run.unread.extend(analyse(&run.files, &dir).map_err(crate::Error::Analysis)?);
            }
            match dir.join(FINDINGS).is_file() {
                true => run.found = Some(CaptureFindings::read(&dir, link(&name, &of_run))?),
                false => {
                    let removed = pages.held.remove_dir(of_run.as_ref());
                    removed.map_err(|why| Error::io(&dir, "cannot remove", why))?;
                }
            }
        }
        pages.is_empty = runs.iter().all(|run| run.found.is_none());
        Ok(Some(Captured { runs, pages }))
    }

    /// The part of an experiment's section.
    pub(crate) fn html(&self) -> String {
        let mut out = String::from(
            "<h3 id=\"captures\">Captures</h3><p class=\"small\">Packets that hosts sent and received in the first \
             run of each row. A run's number links to its flows and to packets that show each \
             finding. Each capture of a packet counts.</p><table class=\"flows captures\">",
        ) + &head(&RUNS);
        self.runs.iter().for_each(|run| out.push_str(&run.html()));
        out + "</tbody></table>"
    }
}

impl Run {
    fn html(&self) -> String {
        let number = match &self.found {
            Some(found) => format!("<a href=\"{}\">{}</a>", escaped(&found.link), self.number),
            None => self.number.to_string(),
        };
        let count = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), digits);
        let found = self.found.as_ref();
        let cells = [
            number,
            escaped(&self.case),
            escaped(&self.at),
            escaped(&self.repeat),
            escaped(&self.seed),
            found.map_or(0, |found| found.files).to_string(),
            count(found.map(|found| found.packets)),
            count(found.map(|found| found.flows as f64)),
            self.findings(),
        ];
        row(&RUNS, cells)
    }

    fn findings(&self) -> String {
        let mut out = String::new();
        let broken = self.found.iter().flat_map(|found| &found.broken);
        for sentence in self.unread.iter().chain(broken) {
            let _ = write!(out, "<p class=\"warn\">{}</p>", escaped(sentence));
        }
        let Some(found) = &self.found else { return out };
        if found.findings.is_empty() {
            return out + "No known problem found.";
        }
        let item = |finding: &Value| {
            let text = |key: &str| finding[key].as_str().unwrap_or("");
            format!(
                "<li>{} <strong>{}</strong>: {} <span class=\"small\">{}</span></li>",
                chip(finding),
                escaped(&text("kind").replace('-', " ")),
                escaped(text("summary")),
                escaped(&flows_of(finding))
            )
        };
        let items: Vec<String> = found.findings.iter().map(item).collect();
        let (shown, folded) = items.split_at(items.len().min(SHOWN));
        let _ = write!(out, "<ul>{}</ul>", shown.concat());
        if !folded.is_empty() {
            let _ = write!(
                out,
                "<details class=\"more\"><summary>{} more</summary><ul>{}</ul></details>",
                folded.len(),
                folded.concat()
            );
        }
        out
    }
}

impl CaptureFindings {
    fn read(dir: &Path, link: String) -> Result<CaptureFindings, Error> {
        let about = about(&dir.join(FINDINGS))?;
        let files = list(&about["files"]);
        let broken = files.iter().filter_map(|file| {
            let (name, why) = (file["name"].as_str()?, file["unread"]["broken"].as_str()?);
            Some(format!("{name}: cannot read: {why}."))
        });
        Ok(CaptureFindings {
            link,
            files: files.len(),
            packets: files.iter().filter_map(|file| file["packets"].as_f64()).sum(),
            flows: about["connections"].as_u64().unwrap_or(0),
            findings: list(&about["findings"]).to_vec(),
            broken: broken.collect(),
        })
    }
}

/// The address of a run's page, seen from the report.
fn link(captures: &OsString, of_run: &str) -> String {
    format!("{}/{of_run}/{PAGE}", address(captures.as_encoded_bytes()))
}

/// The run that a file is a capture of: 12 of `s1-run-12.pcapng`.
fn run_of(file: &str) -> Option<u64> {
    file.strip_suffix(".pcapng")?.rsplit_once("-run-")?.1.parse().ok()
}

/// Runs that were captured, with what `runs.csv` says of them.
fn runs(m: &Manifest) -> Result<Vec<Run>, Error> {
    let mut runs: Vec<Run> = Vec::new();
    for (name, number) in m.files.iter().filter_map(|name| Some((name, run_of(name)?))) {
        let at = runs.iter().position(|run| run.number == number).unwrap_or_else(|| {
            runs.push(Run { number, ..Run::default() });
            runs.len() - 1
        });
        let mut parts = Path::new(name).components();
        match (parts.next(), parts.next()) {
            (Some(Component::Normal(_)), None) => runs[at].files.push(m.dir.join(name)),
            _ => runs[at].unread.push(format!("{name}: must be a file of this directory.")),
        }
    }
    runs.sort_by_key(|run| run.number);
    if runs.is_empty() {
        return Ok(runs);
    }
    let Some(mut table) = ResultFile::Run.open(&m.dir)? else { return Ok(runs) };
    let [run, case] = table.columns([RUN, CASE])?;
    let (repeat, seed) = (table.find(REPEAT), table.find(Columns::seed));
    let axes = m.axes.iter().filter(|axis| axis.values.len() > 1);
    let axes: Vec<(&Axis, usize)> =
        axes.filter_map(|axis| Some((axis, table.find(axis.column())?))).collect();
    while let Some(row) = table.next()? {
        let number = row.index(run)?;
        let Some(run) = runs.iter_mut().find(|run| run.number == number) else { continue };
        let text = |column: usize| row.text(column).to_owned();
        let at = axes.iter().map(|(axis, column)| {
            format!("{} {}", short_path(&axis.path), axis.value(row.text(*column)))
        });
        run.case = text(case);
        run.at = at.collect::<Vec<_>>().join(", ");
        run.repeat = repeat.map(text).unwrap_or_default();
        run.seed = seed.map(text).unwrap_or_default();
    }
    Ok(runs)
}

/// A directory that gets its name when all in it is complete; without, nothing of it stays.
pub(crate) struct Fresh {
    /// Where both names are, held.
    parent: Dir,
    /// Temporary name until it is complete.
    name: OsString,
    /// The same, held: what is put in the place of its name is not written into.
    held: Dir,
    target: PathBuf,
    /// Then nothing has the name, and what an earlier report left goes.
    is_empty: bool,
}

impl Fresh {
    /// One that will be there under this name, in the place of one that an earlier report left.
    fn make(target: PathBuf) -> Result<Fresh, Error> {
        if !is_free(&target).map_err(|why| Error::io(&target, "cannot read", why))? {
            let why = "is not part of an earlier report: move it, or choose another report with -o";
            return Err(Error::input(&target, 0, why));
        }
        let failed = |why| Error::io(&target, "cannot make", why);
        let above = target.parent().filter(|parent| *parent != Path::new(""));
        let parent = Dir::open(above.unwrap_or(Path::new("."))).map_err(failed)?;
        let mark = knee_files::mark().map_err(failed)?;
        let mut name = OsString::from(".");
        name.push(target.file_name().unwrap_or_default());
        name.push(format!(".{mark}{PARTIAL}"));
        let held = parent.make(&name).map_err(failed)?;
        Ok(Fresh { held, parent, name, target, is_empty: true })
    }

    /// Gives it its name.
    pub(crate) fn keep(self) -> Result<(), Error> {
        let target = &self.target;
        let failed = |why| Error::io(target, "cannot write", why);
        let name = target.file_name().unwrap_or_default();
        let named = || match self.is_empty {
            true => Ok(()),
            false => self.parent.rename(&self.name, &self.parent, name),
        };
        if !self.parent.is_dir(name) {
            return named().map_err(failed);
        }
        let mut before = self.name.clone();
        before.push(".before");
        self.parent.rename(name, &self.parent, &before).map_err(failed)?;
        if let Err(why) = named() {
            // It goes back to where it was; both failing is the file system's failure, and it has its other name.
            let _ = self.parent.rename(&before, &self.parent, name);
            return Err(failed(why));
        }
        // What cannot be removed is hidden, and no part of the report.
        let _ = remove(&self.parent, &before);
        Ok(())
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        // Gone if it has its name; what cannot be removed is named as partial.
        let _ = remove(&self.parent, &self.name);
    }
}

/// Removes a directory of runs and what a report has in those, and nothing else.
fn remove(parent: &Dir, name: &OsStr) -> std::io::Result<()> {
    let dir = parent.open_dir(name)?;
    for run in dir.names()? {
        let of_run = dir.open_dir(&run)?;
        FILES.iter().for_each(|file| drop(of_run.remove(OsStr::new(file))));
        dir.remove_dir(&run)?;
    }
    parent.remove_dir(name)
}

/// Whether there is nothing, or what an earlier report left and nothing else.
fn is_free(target: &Path) -> std::io::Result<bool> {
    let is_dir = |path: &Path| path.symlink_metadata().map(|found| found.is_dir());
    let is_there = match is_dir(target) {
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(true),
        found => found?,
    };
    if !is_there {
        return Ok(false);
    }
    for run in fs::read_dir(target)? {
        let run = run?;
        let name = run.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("run-"));
        let is_run = number.is_some_and(|number| number.parse::<u64>().is_ok());
        if !is_run || !is_dir(&run.path())? {
            return Ok(false);
        }
        for file in fs::read_dir(run.path())? {
            let file = file?;
            let is_ours = FILES.iter().any(|ours| file.file_name() == **ours);
            if !is_ours || is_dir(&file.path())? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestFile, file};

    /// A results directory with captures of two runs, and the path of its report.
    fn results() -> (TestFile, Manifest, PathBuf) {
        let runs =
            file("a b/runs.csv", "run,case,size,repeat,seed\n0,<i>,1 kB,0,7\n1,<i>,2 kB,1,8\n");
        let dir = runs.parent().expect("has one").to_owned();
        let values = vec!["1 kB".to_owned(), "2 kB".to_owned()];
        let files = ["runs.csv", "r-run-1.pcapng", "s-run-0.pcapng", "r-run-0.pcapng"];
        let manifest = Manifest {
            dir: dir.clone(),
            files: files.map(str::to_owned).to_vec(),
            axes: vec![Axis { path: "size".into(), values, ..Axis::default() }],
            ..Manifest::default()
        };
        (runs, manifest, dir.join("it's <new>.html"))
    }

    /// Names of the files of an analysis.
    fn found(files: &[PathBuf], dir: &Path) -> Result<Vec<String>, String> {
        let findings: Vec<Value> = (0..7)
            .map(|i| {
                serde_json::json!({ "kind": "tail-loss", "summary": format!("<b>{i}</b> lost."), "severity": "severe", "flows": [1, 2] })
            })
            .collect();
        let file = |path: &PathBuf| {
            let name = path.file_name().expect("has one").to_string_lossy();
            serde_json::json!({ "name": name, "packets": 10, "unread": { "broken": "it ends" } })
        };
        let files: Vec<Value> = files.iter().map(file).collect();
        let about = serde_json::json!({ "files": files, "flows": 6, "connections": 3, "views": [4, 5], "findings": findings });
        fs::write(dir.join(FINDINGS), about.to_string()).expect("is written");
        fs::write(dir.join(PAGE), "").expect("is written");
        Ok(Vec::new())
    }

    fn names(dir: &Path) -> Vec<String> {
        let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("is read").file_name();
        let entries = fs::read_dir(dir).expect("is there");
        let mut all: Vec<String> =
            entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect();
        all.sort();
        all
    }

    #[test]
    fn a_section_lists_runs_with_findings_and_says_what_cannot_be_read() {
        let (_runs, manifest, html) = results();
        let mut analyse = |files: &[PathBuf], dir: &Path| match files.len() {
            1 => Ok(vec!["r-run-1.pcapng: it is <empty>".to_owned()]),
            _ => found(files, dir),
        };
        let captured = Captured::read(&manifest, &html, &mut analyse)
            .expect("is read")
            .expect("there are captures");
        let text = captured.html();
        for wanted in [
            "<h3 id=\"captures\">Captures</h3>",
            "href=\"it%27s%20%3Cnew%3E-captures/run-0/report.html\">0</a>",
            "data-label=\"Run\">1</td>",
            "&lt;i&gt;</td><td data-label=\"At\">size 2 kB</td>",
            "data-label=\"Repeat\">1</td><td class=\"n\" data-label=\"Seed\">8</td>",
            "data-label=\"Files\">2</td><td class=\"n\" data-label=\"Packets\">20</td><td class=\"n\" data-label=\"Flows\">3</td>",
            "severe</span> <strong>tail loss</strong>: &lt;b&gt;0&lt;/b&gt; lost. <span class=\"small\">flows 1, 2</span>",
            "<summary>2 more</summary>",
            "<p class=\"warn\">r-run-0.pcapng: cannot read: it ends.</p>",
            "<p class=\"warn\">r-run-1.pcapng: it is &lt;empty&gt;</p>",
        ] {
            assert!(text.contains(wanted), "{wanted}\n{text}");
        }
        // What is not complete has another name.
        let dir = html.parent().expect("has one");
        assert!(!names(dir).contains(&"it's <new>-captures".to_owned()), "{:?}", names(dir));
        captured.pages.keep().expect("is named");
        assert_eq!(names(dir), ["it's <new>-captures", "runs.csv"]);
        assert_eq!(names(&dir.join("it's <new>-captures")), ["run-0"]);
    }

    #[test]
    fn what_fails_leaves_what_was_there_and_what_shows_nothing_takes_its_place() {
        let (_runs, manifest, html) = results();
        let dir = html.parent().expect("has one");
        let read = |analyse: &mut Analyse<'_>| Captured::read(&manifest, &html, analyse);
        let pages = read(&mut found).expect("is read").expect("has some").pages;
        pages.keep().expect("is named");
        let kept = dir.join("it's <new>-captures");
        let mut full = |files: &[PathBuf], dir: &Path| {
            found(files, dir)?;
            Err("the disk is full".to_owned())
        };
        let said = read(&mut full).err().expect("fails").to_string();
        assert_eq!(said, "the disk is full");
        assert_eq!(names(dir), ["it's <new>-captures", "runs.csv"]);
        assert_eq!(names(&kept), ["run-0", "run-1"]);
        // The same again takes its place, unless there is something else in it.
        let again = || read(&mut found).map(|read| read.expect("has some").pages);
        again().expect("is made").keep().expect("is named");
        fs::write(kept.join("run-0/notes.txt"), "mine").expect("is written");
        let said = again().err().expect("is refused").to_string();
        assert!(said.contains("is not part of an earlier report"), "{said}");
        assert_eq!(names(&kept.join("run-0")), [FINDINGS, "notes.txt", PAGE]);
        // Pages that no report leads to do not stay.
        fs::remove_file(kept.join("run-0/notes.txt")).expect("is removed");
        let none = read(&mut |_, _| Ok(vec!["gone".to_owned()])).expect("is read");
        none.expect("there are captures").pages.keep().expect("is done");
        assert_eq!(names(dir), ["runs.csv"]);
    }

    #[test]
    fn no_captures_are_no_section_and_none_leads_out_of_the_directory() {
        let (_runs, mut manifest, html) = results();
        manifest.files = vec!["runs.csv".into(), "s-run-x.pcapng".into(), "s.pcapng".into()];
        let mut never = |_: &[PathBuf], _: &Path| unreachable!("there is nothing to analyse");
        let read = Captured::read(&manifest, &html, &mut never).expect("is read");
        assert!(read.is_none() && names(html.parent().expect("has one")) == ["runs.csv"]);
        manifest.files = vec!["../s-run-0.pcapng".into(), "/s-run-0.pcapng".into()];
        let read = Captured::read(&manifest, &html, &mut never).expect("is read");
        let text = read.expect("has some").html();
        assert_eq!(text.matches("must be a file of this directory.").count(), 2, "{text}");
    }
}
