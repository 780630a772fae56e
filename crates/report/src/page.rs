//! The document: overview, sections, and everything that it needs inside.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use knee_files::{Dir, NewFile};
use knee_results::reproduction::Reproduction;
use knee_results::{self as results, Manifest};

use crate::capture::{Capture, FINDINGS};
use crate::captured::{Analyse, Captured, Fresh};
use crate::contents::Contents;
use crate::error::Error;
use crate::figure::{Figure, Paper};
use crate::findings;
use crate::overview::{dirs, overview};
use crate::palette;
use crate::section::{Limits, Section};
use crate::text::{escaped, slug};

/// Size limits of series, bytes: of a single directory, and of all experiments of a reproduction.
const SERIES_BYTES: usize = 5_000_000;
const ALL_SERIES_BYTES: usize = 6_000_000;

const CSS: &str = include_str!("../assets/report.css");
const JS: &str = include_str!("../assets/report.js");
const CAPTURE_JS: &str = include_str!("../assets/capture.js");
const HEAT_JS: &str = include_str!("../assets/heat.js");
const HEAT_CSS: &str = include_str!("../assets/heat.css");
const UPLOT_JS: &str = include_str!("../assets/uplot/uPlot.iife.min.js");
const UPLOT_CSS: &str = include_str!("../assets/uplot/uPlot.min.css");
const UPLOT_LICENSE: &str = include_str!("../assets/uplot/LICENSE");

/// More experiments are no page that anybody reads.
const MOST_SETS: usize = 32;

/// Results directories in a directory, and the reproduction that made them if one did.
type Found = (Option<Reproduction>, Vec<(String, PathBuf)>);

/// Directories of results in this one, as `knee run A B -o DIR` makes them, in order of their names.
fn sets(dir: &Path) -> Result<Vec<(String, PathBuf)>, results::Error> {
    let failed = |why| results::Error::io(dir, "cannot read", why);
    let mut sets = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        // A link is none: it may lead anywhere.
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_dir && entry.path().join(Manifest::FILE).is_file() {
            sets.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
        }
    }
    sets.sort();
    match sets.len() > MOST_SETS {
        false => Ok(sets),
        true => {
            let some: Vec<&str> = sets.iter().take(3).map(|(name, _)| name.as_str()).collect();
            let why = format!(
                "holds results of {} experiments ({}, ...), but a report takes at most \
                    {MOST_SETS}: choose one of them",
                sets.len(),
                some.join(", ")
            );
            Err(results::Error::input(dir, 0, why))
        }
    }
}

fn find(dir: &Path) -> Result<Found, results::Error> {
    if dir.join(Reproduction::FILE).is_file() {
        let reproduction = Reproduction::read(dir)?;
        let dirs = dirs(&reproduction, dir)?;
        return Ok((Some(reproduction), dirs));
    }
    if dir.join(Manifest::FILE).is_file() {
        return Ok((None, vec![(String::new(), dir.to_owned())]));
    }
    let why = match dir.is_dir() {
        true => {
            let sets = sets(dir)?;
            if !sets.is_empty() {
                return Ok((None, sets));
            }
            "holds no manifest.json, reproduce.json or findings.json: choose a directory of knee \
                run, knee reproduce or knee pcap --csv"
        }
        false => "is not a directory: choose one of knee run, knee reproduce or knee pcap --csv",
    };
    Err(results::Error::input(dir, 0, why))
}

/// Writes the report of a results directory, a reproduction or an analysis of captures into one HTML file.
///
/// # Errors
/// [`Error`] if the directory is none of ours or its files are damaged, or the file cannot be written; then what was
/// there before stays.
pub fn write(dir: &Path, html: &Path) -> Result<(), Error> {
    write_with(dir, html, None)
}

/// As [`write()`]; captures of the runs of a results directory are analysed, and what was found in each is in the report and in a
/// directory beside it: `report-captures/run-N` of `report.html`.
///
/// # Errors
/// As of [`write()`], or what `analyse` gives. A capture that cannot be read is none.
pub fn write_analysed(dir: &Path, html: &Path, analyse: &mut Analyse<'_>) -> Result<(), Error> {
    write_with(dir, html, Some(analyse))
}

fn write_with(dir: &Path, html: &Path, mut analyse: Option<&mut Analyse<'_>>) -> Result<(), Error> {
    if is_capture(dir) {
        not_of_results(html, dir, &CAPTURE_FILES)?;
        let capture = Capture::read(dir)?;
        return save(html, |put| {
            put(&head(&findings::title(&capture)))?;
            put(&findings::page(&capture))?;
            put(&tail(&format!("\n<script>{CAPTURE_JS}</script>")))?;
            Ok(None)
        });
    }
    let (reproduction, dirs) = find(dir)?;
    not_of_results(html, dir, &[Reproduction::FILE])?;
    let limits = limits(dirs.len());
    let mut manifests: BTreeMap<String, Manifest> = BTreeMap::new();
    for (name, dir) in &dirs {
        let manifest = read(name, dir)?;
        not_of_results(html, dir, &[Manifest::FILE])?;
        not_of_results(html, dir, &manifest.files)?;
        manifests.insert(name.clone(), manifest);
    }
    let ids: BTreeMap<String, String> =
        manifests.values().map(|m| (m.experiment.clone(), slug(&m.experiment))).collect();
    let known = |name: &str| ids.get(name).cloned();
    let is_one = dirs.iter().all(|(name, _)| name.is_empty());
    save(html, |put| {
        let title = match (&reproduction, manifests.values().next()) {
            (None, Some(only)) if is_one => format!("{}: {}", only.experiment, only.question),
            (None, _) => ids.keys().cloned().collect::<Vec<_>>().join(", "),
            _ => "Published experiments on data-center congestion control, re-run".to_owned(),
        };
        put(&head(&title).replace("<main>", "<main class=\"wide\">"))?;
        if !is_one {
            let mut contents = Contents::default();
            ids.iter().for_each(|(name, id)| contents.part(id.as_str(), name.as_str()));
            put(&contents.html())?;
        }
        let (mut pages, mut has_heat) = (None, false);
        if let Some(reproduction) = &reproduction {
            put(&overview(reproduction, &manifests))?;
        } else if !is_one {
            put(&contents(manifests.values()))?;
        }
        for (name, dir) in &dirs {
            let Some(manifest) = manifests.remove(name) else { continue };
            let mut section = Section::read(manifest, limits)?;
            // A reproduction captures nothing, and pages of captures are beside the report of one experiment.
            if let (Some(analyse), true) = (&mut analyse, is_one) {
                section.captured = Captured::read(&section.manifest, html, *analyse)?;
            }
            let full = reproduction.as_ref().map(|reproduction| reproduction.full);
            has_heat |= section.has_heat();
            if is_one {
                put(&section.contents().html())?;
            }
            put(&section.html(&files_prefix(dir, html), &known, full))?;
            pages = section.captured.map(|captured| captured.pages);
        }
        put(&tail(&match has_heat {
            true => format!("\n<style>{HEAT_CSS}</style><script>{HEAT_JS}</script>"),
            false => String::new(),
        }))?;
        Ok(pages)
    })
}

/// The manifest of a directory. One of several is called as its directory, which no other is.
fn read(name: &str, dir: &Path) -> Result<Manifest, results::Error> {
    let mut manifest = Manifest::read(dir)?;
    if !name.is_empty() {
        name.clone_into(&mut manifest.experiment);
    }
    Ok(manifest)
}

/// Where several experiments are on the page.
fn contents<'a>(manifests: impl Iterator<Item = &'a Manifest>) -> String {
    let mut out = String::from(
        "<header class=\"top\"><h1>Several experiments</h1><p class=\"lead\">They ran separately: \
         compare figures only if network and traffic are the same.</p><ul>",
    );
    for m in manifests {
        let (id, name) = (slug(&m.experiment), escaped(&m.experiment));
        let question = escaped(&m.question);
        let _ = write!(out, "<li><a href=\"#{id}\">{name}</a>: {question}</li>");
    }
    out + "</ul></header>"
}

/// Whether a directory is one of captures.
fn is_capture(dir: &Path) -> bool {
    dir.join(FINDINGS).is_file() && !dir.join(Manifest::FILE).is_file()
}

/// Files that `knee pcap --csv` writes.
const CAPTURE_FILES: [&str; 5] = ["flows.csv", "rounds.csv", "events.csv", "packets.csv", FINDINGS];

/// Refuses to write over a file that the report is made from.
fn not_of_results(
    html: &Path,
    dir: &Path,
    files: &[impl AsRef<Path>],
) -> Result<(), results::Error> {
    let Ok(target) = fs::canonicalize(html) else { return Ok(()) };
    let is_target = |path: PathBuf| fs::canonicalize(path).is_ok_and(|path| path == target);
    match files.iter().any(|file| is_target(dir.join(file))) {
        true => Err(results::Error::input(
            html,
            0,
            "is one of the results: choose another file with -o",
        )),
        false => Ok(()),
    }
}

/// Receives each part of a file.
type Put<'a> = dyn FnMut(&str) -> Result<(), Error> + 'a;

/// Writes a file part by part; what was there before stays if that fails. What the parts lead to gets its name when they are written.
fn save(
    html: &Path,
    parts: impl FnOnce(&mut Put<'_>) -> Result<Option<Fresh>, Error>,
) -> Result<(), Error> {
    if html.is_dir() {
        return Err(results::Error::input(html, 0, "is a directory: give a file in it").into());
    }
    let failed = |why| Error::from(results::Error::io(html, "cannot write", why));
    let mut out = BufWriter::new(NewFile::create(html).map_err(failed)?);
    let beside = parts(&mut |text: &str| out.write_all(text.as_bytes()).map_err(failed))?;
    let file = out.into_inner().map_err(|why| failed(why.into_error()))?;
    beside.map_or(Ok(()), Fresh::keep)?;
    file.keep().map_err(failed)
}

fn limits(directories: usize) -> Limits {
    match directories {
        0 | 1 => Limits { series: SERIES_BYTES, flows: 8 },
        n => Limits { series: ALL_SERIES_BYTES / n, flows: 4 },
    }
}

/// Draws an SVG file as PNG, or says why it cannot be drawn.
pub type Draw<'a> = &'a dyn Fn(&str) -> Result<Vec<u8>, String>;

/// Writes each figure and each series as SVG and PNG, with its numbers as CSV; for a paper so many inches wide, without titles.
/// Gives how many there are.
///
/// # Errors
/// [`Error`] as of [`write()`].
pub fn write_figures(
    dir: &Path,
    out: &Path,
    inches: Option<f64>,
    draw: Draw<'_>,
) -> Result<usize, Error> {
    let paper = inches.map_or(Paper::Page, Paper::Inches);
    if is_capture(dir) {
        let why =
            "holds captures: leave out --figures, and save plots with the buttons of the report";
        return Err(results::Error::input(dir, 0, why).into());
    }
    let (_, dirs) = find(dir)?;
    Dir::make_all(out).map_err(|why| results::Error::io(out, "cannot make", why))?;
    let mut count = 0;
    for (name, dir) in &dirs {
        let section = Section::read(read(name, dir)?, limits(dirs.len()))?;
        let mut save = |figure: &Figure| -> Result<(), Error> {
            let svg = figure.file(paper);
            let put = |ending: &str, bytes: &[u8]| {
                let path = out.join(format!("{}.{ending}", figure.id));
                knee_files::write(&path, bytes)
                    .map_err(|why| results::Error::io(&path, "cannot write", why))
            };
            let png = draw(&svg).map_err(|why| {
                results::Error::input(
                    &out.join(&figure.id),
                    0,
                    format!("cannot be drawn as PNG: {why}"),
                )
            })?;
            put("svg", svg.as_bytes())?;
            put("png", &png)?;
            put("csv", figure.csv.as_bytes())?;
            count += 1;
            Ok(())
        };
        section.figures().try_for_each(&mut save)?;
        section.series_figures(paper.plots()).try_for_each(|figure| save(&figure))?;
    }
    Ok(count)
}

/// How the page names files of a directory: relative to itself where it can.
fn files_prefix(dir: &Path, html: &Path) -> String {
    let absolute = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let beside =
        html.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (dir, beside) = (absolute(dir), absolute(beside));
    let common = dir.components().zip(beside.components()).take_while(|(a, b)| a == b).count();
    let up = beside.components().skip(common).map(|_| "..".to_owned());
    let down =
        dir.components().skip(common).map(|part| part.as_os_str().to_string_lossy().into_owned());
    up.chain(down).fold(String::new(), |mut out, part| {
        let _ = write!(out, "{part}/");
        out
    })
}

fn head(title: &str) -> String {
    let title = escaped(title);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><meta name=\"color-scheme\" content=\"light dark\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:\">\
         <link rel=\"icon\" href=\"data:,\"><title>{title}</title>\n<style>:root{{{}}}@media(prefers-color-scheme:dark){{:root{{{}}}}}@media print{{:root{{{}}}}}\
         {}\n{UPLOT_CSS}\n{CSS}</style></head><body><main>\n",
        palette::variables(false),
        palette::variables(true),
        palette::variables(false),
        palette::classes(),
    )
}

/// The end of the document, with what its own plots need besides.
fn tail(scripts: &str) -> String {
    format!(
        "<footer><p>Made by knee. This file is complete and loads nothing from the network. Links \
         to CSV files work in the results directory.</p><details><summary>Licence of uPlot, the \
         plotting library</summary><pre>{}</pre></details></footer></main><template \
         id=\"svg-style\">{}</template>\n<script>{UPLOT_JS}</script>\n\
         <script>{JS}</script>{scripts}</body></html>\n",
        escaped(UPLOT_LICENSE),
        escaped(&palette::file_style())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_files_from_wherever_the_page_is() {
        let root = crate::testing::file("links/a/b/x.csv", "");
        let dir = root.parent().expect("has one");
        assert_eq!(files_prefix(dir, &dir.join("report.html")), "");
        assert_eq!(files_prefix(dir, &dir.parent().expect("has one").join("report.html")), "b/");
    }

    #[test]
    fn a_report_is_not_written_over_results() {
        let path = crate::testing::file("own/findings.json", r#"{"findings": []}"#);
        let said = write(path.parent().expect("has one"), &path).expect_err("is refused");
        assert!(said.to_string().ends_with("choose another file with -o"), "{said}");
        assert!(fs::read_to_string(&*path).expect("is there").starts_with("{\"findings\""));
    }

    #[test]
    fn a_reproduction_does_not_lead_out_of_its_directory() {
        let path = crate::testing::file(
            "outside/reproduce.json",
            r#"{"sections": [{"title": "t", "experiments": [{"name": "x", "dir": "../other"}]}]}"#,
        );
        let dir = path.parent().expect("has one");
        let said = write(dir, &dir.join("report.html")).expect_err("is refused").to_string();
        assert!(said.contains("must be a directory inside"), "{said}");
        assert!(!dir.join("report.html").exists());
    }
}
