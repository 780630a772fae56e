//! What a reproduction found, at a glance: verdicts by source, then every claim.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

use knee_results::reproduction::{Entry, Reproduction, Section};
use knee_results::{ClaimVerdict, Error, Manifest};

use crate::claims;
use crate::section::paragraphs;
use crate::text::{escaped, slug, took};

/// Directories of its experiments; none leads out of the reproduction's own.
pub(crate) fn dirs(of: &Reproduction, dir: &Path) -> Result<Vec<(String, PathBuf)>, Error> {
    let entries = of.sections.iter().flat_map(|part| &part.experiments);
    let named = entries.filter_map(|entry| Some((entry, entry.dir.as_ref()?)));
    named
        .map(|(entry, name)| {
            let inside =
                Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
            match inside {
                true => Ok((entry.name.clone(), dir.join(name))),
                false => {
                    let why = format!("dir = {name:?}: must be a directory inside this one");
                    Err(Error::input(&dir.join(Reproduction::FILE), 0, why))
                }
            }
        })
        .collect()
}

/// All claims, by source and experiment, and what it took.
pub(crate) fn overview(
    reproduction: &Reproduction,
    manifests: &BTreeMap<String, Manifest>,
) -> String {
    let set =
        if reproduction.full { "the full set" } else { "the quick set: part of each experiment" };
    let mut out = format!(
        "<header class=\"top\"><h1>Published experiments on data-center congestion control, \
         re-run</h1><p class=\"lead\">knee re-runs published experiments on its simulated Linux \
         TCP and checks their claims, figure by figure. This report covers {set}. Every row links \
         to the experiment, its figures and the command that repeats it.</p><p>In a small \
         drawing, the shaded part holds the values with which a claim stands. A filled mark is \
         our figure, with its 95 % confidence interval. A hollow diamond is the published figure. \
         A verdict gives the number of checks in this set, and \"one run\" for a figure measured \
         once. \"Derived by us\" marks claims that we derived from the source's \
         figures.</p></header>"
    );
    if manifests.values().any(|m| !m.back_end.is_simulated()) {
        out = out.replace("knee's simulated Linux TCP", "real Linux TCP");
    }
    if reproduction.interrupted {
        out.push_str(
            "<p class=\"warn\">Stopped before the end: this report covers the finished runs.</p>",
        );
    }
    out.push_str(&glance(reproduction, manifests));
    for (i, part) in reproduction.sections.iter().enumerate() {
        let _ = write!(
            out,
            "<section class=\"part\" id=\"part-{i}\"><h2>{}</h2><p>{}</p>",
            escaped(&part.title),
            escaped(&part.about)
        );
        let of_part = || part.experiments.iter().filter_map(|entry| manifests.get(&entry.name));
        if of_part().any(|m| !m.claims.is_empty()) {
            out.push_str(
                "<table class=\"claims \
                    flows\"><thead><tr><th>Verdict</th><th>Claim</th><th>Ours</th><th>Expected</th><th>Published</th><th></th></tr></thead>",
            );
            of_part().filter(|m| !m.claims.is_empty()).for_each(|m| out.push_str(&rows(m)));
            out.push_str("</table>");
        }
        let without: Vec<String> = of_part()
            .filter(|m| m.claims.is_empty())
            .map(|m| format!("<a href=\"#{}\">{}</a>", slug(&m.experiment), escaped(&m.experiment)))
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
        out.push_str("<section class=\"part\"><h2>Not re-runnable</h2><dl class=\"absent\">");
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

/// Verdicts of each source, counted.
fn glance(reproduction: &Reproduction, manifests: &BTreeMap<String, Manifest>) -> String {
    let claims_of = |part: &Section| {
        let found = part.experiments.iter().filter_map(|entry| manifests.get(&entry.name));
        found.flat_map(|m| m.claims.iter().map(|claim| claim.verdict)).collect::<Vec<_>>()
    };
    let all: Vec<ClaimVerdict> = reproduction.sections.iter().flat_map(claims_of).collect();
    let count = |of: &[ClaimVerdict], verdict| of.iter().filter(|one| **one == verdict).count();
    let there: Vec<ClaimVerdict> =
        ClaimVerdict::ALL.iter().copied().filter(|verdict| count(&all, *verdict) > 0).collect();
    if there.is_empty() {
        return String::new();
    }
    let mut out = String::from("<table class=\"glance\"><thead><tr><th>Source</th>");
    for verdict in &there {
        let _ = write!(out, "<th class=\"n\">{}</th>", claims::chip(*verdict));
    }
    out.push_str("<th></th></tr></thead><tbody>");
    let most = reproduction.sections.iter().map(|part| claims_of(part).len()).max().unwrap_or(1);
    let mut row = |name: &str, of: &[ClaimVerdict], bar: bool| {
        let _ = write!(out, "<tr><td>{name}</td>");
        for verdict in &there {
            let n = count(of, *verdict);
            let shown = if n > 0 { n.to_string() } else { "–".into() };
            let _ = write!(out, "<td class=\"n\"><b>{shown}</b></td>");
        }
        out.push_str("<td class=\"bars\">");
        for verdict in there.iter().filter(|_| bar) {
            let width = count(of, *verdict) as f64 / most.max(1) as f64 * 100.0;
            let _ = write!(
                out,
                "<span class=\"{}\" style=\"width:{width:.1}%\"></span>",
                claims::class(*verdict)
            );
        }
        out.push_str("</td></tr>");
    };
    for (i, part) in reproduction.sections.iter().enumerate() {
        let name = format!("<a href=\"#part-{i}\">{}</a>", escaped(&part.title));
        row(&name, &claims_of(part), true);
    }
    if reproduction.sections.len() > 1 {
        row("All", &all, false);
    }
    out.push_str("</tbody></table>");
    out
}

/// An experiment in the overview: its question, what was not stated, and a row for each claim.
fn rows(m: &Manifest) -> String {
    let id = slug(&m.experiment);
    let mut out = format!(
        "<tbody><tr class=\"group\"><th colspan=\"6\"><a href=\"#{id}\">{}</a> {}",
        escaped(&m.experiment),
        escaped(&m.question)
    );
    if let Some(notes) = &m.about.notes {
        let _ = write!(
            out,
            "<details class=\"more\"><summary>Not stated in the source, and chosen \
                here</summary>{}</details>",
            paragraphs(notes)
        );
    }
    out.push_str("</th></tr>");
    let label = if m.quick { "Cause, in the full set" } else { "Why" };
    for claim in &m.claims {
        let found = claims::found(m, claim);
        let is_derived = claim.by == "us" && m.about.source.is_some();
        let by = if is_derived { " <small>(derived by us)</small>" } else { "" };
        let because =
            claim.cause().into_iter().chain(&claim.cannot).fold(String::new(), |all, why| {
                format!(
                    "{all}<details class=\"more\"><summary>{label}</summary><p>{}</p></details>",
                    escaped(why)
                )
            });
        let _ = write!(
            out,
            "<tr class=\"{}\"><td>{}</td><td><a \
             href=\"#{id}-claim-{}\">{}</a>{by}{because}</td><td data-label=\"Ours\">{}</td><td \
             data-label=\"Expected\">{}</td><td data-label=\"Published\">{}</td><td>{}</td></tr>",
            claims::class(claim.verdict),
            claims::chip_of(claim),
            slug(&claim.name),
            escaped(&claim.says),
            escaped(&found.ours),
            escaped(&found.wanted),
            escaped(&found.published),
            found.strip
        );
    }
    out.push_str("</tbody>");
    out
}

/// Time per experiment, and commands to re-run all.
fn costs(reproduction: &Reproduction) -> String {
    let mut out = String::from("<section class=\"part\"><h2>Time taken, and how to re-run</h2>");
    if let (Some(wall), Some(cpu)) = (reproduction.wall_s, reproduction.cpu_s) {
        let _ = write!(out, "<p>All runs took {} ({} of CPU time). ", took(wall), took(cpu));
    } else {
        out.push_str("<p>");
    }
    let flags = if reproduction.full { " --full" } else { "" };
    let _ = write!(
        out,
        "Re-run all: <code>knee reproduce{flags}</code>; re-run one: <code>knee reproduce \
            NAME{flags}</code>.</p>"
    );
    let entries: Vec<&Entry> = reproduction
        .sections
        .iter()
        .flat_map(|part| &part.experiments)
        .filter(|entry| entry.cpu_s.is_some())
        .collect();
    let most = entries.iter().filter_map(|entry| entry.cpu_s).fold(0.0, f64::max);
    if most > 0.0 {
        out.push_str(
            "<details><summary>Per experiment</summary><table \
            class=\"costs\"><thead><tr><th>Experiment</th><th class=\"n\">took</th><th \
            class=\"n\">CPU</th><th></th></tr></thead><tbody>",
        );
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
