//! The document: overview, sections, and everything that it needs inside.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Component, Path, PathBuf};

use serde_json::Value as Json;

use crate::claims;
use crate::error::Error;
use crate::figure::{Figure, Painter};
use crate::manifest::{MANIFEST, Manifest, Verdict, items, number, read_json, some_text, text};
use crate::palette;
use crate::section::{Limits, Section};
use crate::text::{escaped, slug, took};

const REPRODUCTION: &str = "reproduce.json";
/// Of a single directory's series; a reproduction's experiments share the second.
const SERIES_BYTES: usize = 5_000_000;
const ALL_SERIES_BYTES: usize = 6_000_000;

const CSS: &str = include_str!("../assets/report.css");
const JS: &str = include_str!("../assets/report.js");
const UPLOT_JS: &str = include_str!("../assets/uplot/uPlot.iife.min.js");
const UPLOT_CSS: &str = include_str!("../assets/uplot/uPlot.min.css");
const UPLOT_LICENSE: &str = include_str!("../assets/uplot/LICENSE");

/// A section of a reproduction.
struct Part {
    title: String,
    about: String,
    experiments: Vec<Entry>,
}

/// An experiment of a reproduction.
struct Entry {
    name: String,
    dir: Option<String>,
    skipped: Option<String>,
    wall_s: Option<f64>,
    cpu_s: Option<f64>,
}

/// What could not be run at all.
struct Absent {
    title: String,
    source: String,
    why: String,
}

/// `reproduce.json`.
struct Reproduction {
    full: bool,
    wall_s: Option<f64>,
    cpu_s: Option<f64>,
    parts: Vec<Part>,
    absent: Vec<Absent>,
}

impl Reproduction {
    fn read(dir: &Path) -> Result<Reproduction, Error> {
        let json = read_json(&dir.join(REPRODUCTION))?;
        let entry = |entry: &Json| Entry {
            name: text(entry, "name"),
            dir: some_text(entry, "dir"),
            skipped: some_text(entry, "skipped"),
            wall_s: number(entry, "wall_s"),
            cpu_s: number(entry, "cpu_s"),
        };
        let part = |part: &Json| Part {
            title: text(part, "title"),
            about: text(part, "about"),
            experiments: items(part, "experiments").map(entry).collect(),
        };
        let absent = |absent: &Json| Absent {
            title: text(absent, "title"),
            source: text(absent, "source"),
            why: text(absent, "why"),
        };
        Ok(Reproduction {
            full: json.get("full").and_then(Json::as_bool).unwrap_or(false),
            wall_s: number(&json, "wall_s"),
            cpu_s: number(&json, "cpu_s"),
            parts: items(&json, "sections").map(part).collect(),
            absent: items(&json, "absent").map(absent).collect(),
        })
    }

    /// Directories of its experiments; none leads out of the reproduction's own.
    fn dirs(&self, dir: &Path) -> Result<Vec<(String, PathBuf)>, Error> {
        let entries = self.parts.iter().flat_map(|part| &part.experiments);
        let named = entries.filter_map(|entry| Some((entry, entry.dir.as_ref()?)));
        named
            .map(|(entry, name)| {
                let inside =
                    Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
                match inside {
                    true => Ok((entry.name.clone(), dir.join(name))),
                    false => {
                        let why = format!("dir = {name:?}: must be a directory inside this one");
                        Err(Error::input(&dir.join(REPRODUCTION), 0, why))
                    }
                }
            })
            .collect()
    }
}

/// Results directories in a directory, and the reproduction that made them if one did.
type Found = (Option<Reproduction>, Vec<(String, PathBuf)>);

fn find(dir: &Path) -> Result<Found, Error> {
    if dir.join(REPRODUCTION).is_file() {
        let reproduction = Reproduction::read(dir)?;
        let dirs = reproduction.dirs(dir)?;
        return Ok((Some(reproduction), dirs));
    }
    if dir.join(MANIFEST).is_file() {
        return Ok((None, vec![(String::new(), dir.to_owned())]));
    }
    let why = match dir.is_dir() {
        true => {
            "holds no manifest.json and no reproduce.json: name a directory that knee run or knee reproduce has written"
        }
        false => "is no directory: name one that knee run or knee reproduce has written",
    };
    Err(Error::input(dir, 0, why))
}

/// Writes the report of a results directory or a reproduction into one HTML file.
///
/// # Errors
/// [`Error`] if the directory is none of ours or its files are damaged, or the file cannot be written; then what was
/// there before stays.
pub fn write(dir: &Path, html: &Path) -> Result<(), Error> {
    let (reproduction, dirs) = find(dir)?;
    let limits = limits(dirs.len());
    let mut manifests: BTreeMap<String, Manifest> = BTreeMap::new();
    for (name, dir) in &dirs {
        manifests.insert(name.clone(), Manifest::read(dir)?);
    }
    let ids: BTreeMap<String, String> =
        manifests.values().map(|m| (m.name.clone(), slug(&m.name))).collect();
    let known = |name: &str| ids.get(name).cloned();
    let partial = partial(html);
    let file = File::create(&partial).map_err(|why| Error::io(html, "cannot write", why))?;
    let written = (|| {
        let mut out = BufWriter::new(file);
        let mut put = |text: &str| {
            out.write_all(text.as_bytes()).map_err(|why| Error::io(html, "cannot write", why))
        };
        let title = match (&reproduction, manifests.values().next()) {
            (None, Some(only)) => format!("{}: {}", only.name, only.question),
            _ => "What was published on data-center congestion control, run again".to_owned(),
        };
        put(&head(&title))?;
        if let Some(reproduction) = &reproduction {
            put(&overview(reproduction, &manifests))?;
        }
        for (name, dir) in &dirs {
            let Some(manifest) = manifests.remove(name) else { continue };
            let section = Section::read(manifest, limits)?;
            put(&section.html(&files_prefix(dir, html), &known))?;
        }
        put(&tail())?;
        out.flush().map_err(|why| Error::io(html, "cannot write", why))
    })();
    let named = written.and_then(|()| {
        fs::rename(&partial, html).map_err(|why| Error::io(html, "cannot write", why))
    });
    if named.is_err() {
        // What went wrong is reported; a partial file that cannot be removed is named as one.
        let _ = fs::remove_file(&partial);
    }
    named
}

fn limits(directories: usize) -> Limits {
    match directories {
        0 | 1 => Limits { series: SERIES_BYTES, flows: 8 },
        n => Limits { series: ALL_SERIES_BYTES / n, flows: 4 },
    }
}

/// The name of a file that is not complete.
fn partial(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.partial", std::process::id()))
}

/// Writes each figure and each series as SVG and PNG, with its numbers as CSV. Gives how many there are.
///
/// # Errors
/// [`Error`] as of [`write()`].
pub fn write_figures(dir: &Path, out: &Path) -> Result<usize, Error> {
    let (_, dirs) = find(dir)?;
    fs::create_dir_all(out).map_err(|why| Error::io(out, "cannot make", why))?;
    let painter = Painter::new();
    let mut count = 0;
    for (_, dir) in &dirs {
        let section = Section::read(Manifest::read(dir)?, limits(dirs.len()))?;
        let mut save = |figure: &Figure| {
            let svg = figure.file();
            let put = |ending: &str, bytes: &[u8]| {
                let path = out.join(format!("{}.{ending}", figure.id));
                fs::write(&path, bytes).map_err(|why| Error::io(&path, "cannot write", why))
            };
            let png = painter.png(&svg).map_err(|why| {
                Error::input(&out.join(&figure.id), 0, format!("cannot be drawn as PNG: {why}"))
            })?;
            put("svg", svg.as_bytes())?;
            put("png", &png)?;
            put("csv", figure.csv.as_bytes())?;
            count += 1;
            Ok(())
        };
        section.figures().try_for_each(&mut save)?;
        section.series_figures().try_for_each(|figure| save(&figure))?;
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

fn tail() -> String {
    format!(
        "<footer><p>Made by knee. This file needs no other one and asks nobody for anything; links to CSV files work where they are beside it.</p>\
         <details><summary>Licence of uPlot, which draws what moves here</summary><pre>{}</pre></details></footer></main>\
         <template id=\"svg-style\">{}</template>\n<script>{UPLOT_JS}</script>\n<script>{JS}</script></body></html>\n",
        escaped(UPLOT_LICENSE),
        escaped(&palette::file_style())
    )
}

fn overview(reproduction: &Reproduction, manifests: &BTreeMap<String, Manifest>) -> String {
    let set = if reproduction.full {
        "all of each experiment"
    } else {
        "the quick set, a part of each experiment"
    };
    let mut out = format!(
        "<header class=\"top\"><h1>What was published on data-center congestion control, run again</h1>\
         <p class=\"lead\">Experiments that others have published run here on knee's simulated Linux TCP, and what was claimed of them is \
         checked figure by figure. This report is of {set}; every row leads to the experiment, its figures and the command that repeats it.</p></header>"
    );
    if manifests.values().any(|m| !m.is_simulated()) {
        out = out.replace("knee's simulated Linux TCP", "real Linux TCP");
    }
    let all = || manifests.values().flat_map(|m| &m.claims);
    let count = |verdict: Verdict| all().filter(|claim| claim.verdict == verdict).count();
    out.push_str("<ul class=\"counts\">");
    for verdict in Verdict::ALL.into_iter().filter(|verdict| count(*verdict) > 0) {
        let _ = write!(
            out,
            "<li class=\"{}\">{}<b>{}</b> {}</li>",
            verdict.class(),
            claims::icon(verdict),
            count(verdict),
            verdict.words()
        );
    }
    out.push_str("</ul>");
    for part in &reproduction.parts {
        let _ = write!(
            out,
            "<section class=\"part\"><h2>{}</h2><p>{}</p>",
            escaped(&part.title),
            escaped(&part.about)
        );
        let of_part = || part.experiments.iter().filter_map(|entry| manifests.get(&entry.name));
        if of_part().any(|m| !m.claims.is_empty()) {
            out.push_str("<table class=\"claims\"><thead><tr><th>Verdict</th><th>Claim</th><th>Ours</th><th>Wanted</th><th></th></tr></thead><tbody>");
            for m in of_part() {
                for claim in &m.claims {
                    let (ours, wanted, strip) = claims::found(claim);
                    let id = slug(&m.name);
                    let _ = write!(
                        out,
                        "<tr class=\"{}\"><td>{}</td><td><a href=\"#{id}-claim-{}\">{}</a> <small>{}</small></td>\
                         <td data-label=\"Ours\">{}</td><td data-label=\"Wanted\">{}</td><td>{strip}</td></tr>",
                        claim.verdict.class(),
                        claims::chip(claim.verdict),
                        slug(&claim.name),
                        escaped(&claim.says),
                        escaped(&m.name),
                        escaped(&ours),
                        escaped(&wanted)
                    );
                }
            }
            out.push_str("</tbody></table>");
        }
        let without: Vec<String> = of_part()
            .filter(|m| m.claims.is_empty())
            .map(|m| format!("<a href=\"#{}\">{}</a>", slug(&m.name), escaped(&m.name)))
            .collect();
        if !without.is_empty() {
            let _ = write!(out, "<p>Without claims: {}.</p>", without.join(", "));
        }
        let skipped: Vec<_> = part.experiments.iter().filter(|entry| entry.dir.is_none()).collect();
        if !skipped.is_empty() {
            out.push_str("<ul class=\"skipped\">");
            for entry in skipped {
                let why = entry.skipped.as_deref().unwrap_or("not run");
                let _ = write!(
                    out,
                    "<li><b>{}</b> was not run: {}</li>",
                    escaped(&entry.name),
                    escaped(why)
                );
            }
            out.push_str("</ul>");
        }
        out.push_str("</section>");
    }
    if !reproduction.absent.is_empty() {
        out.push_str(
            "<section class=\"part\"><h2>What cannot be run again</h2><dl class=\"absent\">",
        );
        for absent in &reproduction.absent {
            let _ = write!(
                out,
                "<dt>{} <small>{}</small></dt><dd>{}</dd>",
                escaped(&absent.title),
                escaped(&absent.source),
                escaped(&absent.why)
            );
        }
        out.push_str("</dl></section>");
    }
    out.push_str(&costs(reproduction));
    out
}

/// What each experiment took, and how to run all again.
fn costs(reproduction: &Reproduction) -> String {
    let mut out =
        String::from("<section class=\"part\"><h2>What it took, and how to run it again</h2>");
    if let (Some(wall), Some(cpu)) = (reproduction.wall_s, reproduction.cpu_s) {
        let _ = write!(out, "<p>All of it took {} ({} of CPU time). ", took(wall), took(cpu));
    } else {
        out.push_str("<p>");
    }
    let flags = if reproduction.full { " --full" } else { "" };
    let _ = write!(
        out,
        "The same again: <code>knee reproduce{flags}</code>; one experiment: <code>knee reproduce NAME{flags}</code>.</p>"
    );
    let entries: Vec<&Entry> = reproduction
        .parts
        .iter()
        .flat_map(|part| &part.experiments)
        .filter(|entry| entry.cpu_s.is_some())
        .collect();
    let most = entries.iter().filter_map(|entry| entry.cpu_s).fold(0.0, f64::max);
    if most > 0.0 {
        out.push_str("<details><summary>Each experiment's share</summary><table class=\"costs\"><thead><tr><th>Experiment</th><th class=\"n\">took</th><th class=\"n\">CPU</th><th></th></tr></thead><tbody>");
        for entry in entries {
            let (wall, cpu) =
                (entry.wall_s.map_or_else(String::new, took), entry.cpu_s.unwrap_or(0.0));
            let _ = write!(
                out,
                "<tr><td><a href=\"#{}\">{}</a></td><td class=\"n\">{wall}</td><td class=\"n\">{}</td><td><span class=\"cost\" style=\"width:{:.0}px\"></span></td></tr>",
                slug(&entry.name),
                escaped(&entry.name),
                took(cpu),
                (cpu / most * 160.0).max(1.0)
            );
        }
        out.push_str("</tbody></table></details>");
    }
    out.push_str("</section>");
    out
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
