//! The whole network over time: every link as a cell whose colour is its utilisation, marks or drops in a period, grouped
//! by tiers of the network. The page's script draws it on a canvas, so that a hundred thousand links are no elements.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Write as _;

use knee_results::manifest::{Network, NodeKind};
use knee_results::rows::LinkSample;
use knee_results::{Error, Manifest, RUN, ResultFile};
use serde_json::json;

use crate::series::first_runs;
use crate::table::Column::{self, Bare, Number, Text};
use crate::table::{head, row};
use crate::text::{base64, configuration, digits, escaped};

/// Configurations that are shown.
const MOST_RUNS: usize = 12;
/// Fewer steps of time are no movement: rather fewer configurations.
const FEW_STEPS: usize = 60;
/// No slider has more steps.
const MOST_STEPS: usize = 1000;
/// Links beyond are not drawn.
const MOST_LINKS: usize = 400_000;
/// Bytes of the page for each link and step: three numbers in base64.
const CELL_BYTES: usize = 4;
/// Steps of a byte for full utilisation.
const FULL: f32 = 250.0;

/// Columns of the figures of each tier.
const TIERS: [Column; 7] = [
    Bare("Case"),
    Text("Tier"),
    Number("Links"),
    Number("Mean utilisation"),
    Number("Busiest link"),
    Number("Marks"),
    Number("Drops"),
];

/// Links of one direction between two levels of the network.
struct Tier {
    /// As `leaf → spine`.
    name: String,
    /// Switches with the number of their links, in the order of [`Heat::links`].
    columns: Vec<(String, usize)>,
}

/// Counts of all links in the first run of a configuration.
struct Pictured {
    /// Case and varied values.
    label: String,
    run: u64,
    end_s: f64,
    /// Periods of the file, of which `every` are one step.
    period_s: f64,
    every: usize,
    steps: usize,
    /// By step, then by link: share of the step, marks, drops.
    sent: Vec<f32>,
    marks: Vec<u64>,
    drops: Vec<u64>,
}

/// The picture of an experiment's network.
pub(crate) struct Heat {
    tiers: Vec<Tier>,
    /// Names of links, tier by tier and column by column.
    links: Vec<String>,
    runs: Vec<Pictured>,
    left_out: usize,
    /// Rows about links that the network of the manifest does not have.
    unknown: u64,
}

/// Periods of a run, while they are looked for.
struct Periods {
    last_s: f64,
    least_s: f64,
}

impl Heat {
    /// Reads `series-links.csv`; `None` where there is none, or no network. The page takes about `budget` bytes of it.
    pub(crate) fn read(manifest: &Manifest, budget: usize) -> Result<Option<Heat>, Error> {
        let Some(network) = &manifest.network else { return Ok(None) };
        if ResultFile::LinkSample.open(&manifest.dir)?.is_none() {
            return Ok(None);
        }
        let (tiers, links) = tiers(network);
        if links.is_empty() || links.len() > MOST_LINKS {
            return Ok(None);
        }
        let periods = periods(manifest)?;
        let (mut groups, _) = first_runs(manifest)?;
        groups.retain(|group| periods.contains_key(&group.run));
        let cells = (budget / CELL_BYTES).max(links.len());
        let shown = (cells / (links.len() * FEW_STEPS)).clamp(1, MOST_RUNS);
        let left_out = groups.len().saturating_sub(shown);
        groups.truncate(shown);
        let most = (cells / groups.len().max(1) / links.len()).clamp(1, MOST_STEPS);
        let runs = groups.iter().map(|group| {
            let least_s = periods[&group.run].least_s;
            let period_s = period_s(manifest, &group.case, &group.at).unwrap_or(least_s);
            let all = ((group.end_s / period_s - 1e-6).ceil().max(1.0)) as usize;
            let every = all.div_ceil(most);
            let steps = all.div_ceil(every);
            Pictured {
                label: configuration(&group.case, &manifest.axes, &group.at),
                run: group.run,
                end_s: group.end_s,
                period_s,
                every,
                steps,
                sent: vec![0.0; steps * links.len()],
                marks: vec![0; steps * links.len()],
                drops: vec![0; steps * links.len()],
            }
        });
        let mut heat = Heat { runs: runs.collect(), tiers, links, left_out, unknown: 0 };
        heat.fill(manifest)?;
        Ok(Some(heat).filter(|heat| !heat.runs.is_empty()))
    }

    fn fill(&mut self, manifest: &Manifest) -> Result<(), Error> {
        let Some(mut table) = ResultFile::LinkSample.open(&manifest.dir)? else { return Ok(()) };
        let [run, at, link, marks, drops, share] = table.columns([
            RUN,
            LinkSample::at_s,
            LinkSample::link,
            LinkSample::marked_pkts,
            LinkSample::dropped_pkts,
            LinkSample::utilisation,
        ])?;
        let links: HashMap<&str, usize> =
            self.links.iter().enumerate().map(|(i, name)| (name.as_str(), i)).collect();
        let by_run: HashMap<u64, usize> =
            self.runs.iter().enumerate().map(|(i, run)| (run.run, i)).collect();
        while let Some(row) = table.next()? {
            let Some(of) = by_run.get(&row.index(run)?) else { continue };
            let Some(link) = links.get(row.text(link)) else {
                self.unknown += 1;
                continue;
            };
            let of = &mut self.runs[*of];
            let at_s = row.number(at)?.unwrap_or(0.0);
            // The end of the run may cut the last period.
            let period = ((at_s / of.period_s - 1e-6).ceil().max(1.0)) as usize - 1;
            let step = (period / of.every).min(of.steps - 1);
            let cell = step * links.len() + link;
            of.sent[cell] +=
                row.number(share)?.unwrap_or(0.0) as f32 * of.share(period, step) as f32;
            of.marks[cell] = of.marks[cell].saturating_add(row.index(marks)?);
            of.drops[cell] = of.drops[cell].saturating_add(row.index(drops)?);
        }
        Ok(())
    }

    /// The part of the section, which `assets/heat.js` draws.
    pub(crate) fn html(&self, id: &str) -> String {
        let mut out = format!(
            "<h3 id=\"{id}-links\">The whole network over time</h3><div class=\"heat\" data-id=\"{id}\" \
             role=\"group\" aria-label=\"Links of the network over time\"><div class=\"choose\">\
             <label>show <select class=\"what\"><option value=\"sent\">utilisation</option><option \
             value=\"marks\">marks</option><option value=\"drops\">drops</option></select></label>"
        );
        let hidden = if self.runs.len() > 1 { "" } else { " hidden" };
        let _ = write!(out, "<label{hidden}>case <select class=\"which\">");
        for run in &self.runs {
            let _ = write!(out, "<option>{}</option>", escaped(&run.label));
        }
        out.push_str(
            "</select></label><label class=\"time\">time <input type=\"range\" min=\"0\" value=\"0\" \
             step=\"1\"></label><button type=\"button\" class=\"play\">Play</button><span \
             class=\"when\"></span></div><canvas class=\"strip\" role=\"img\"></canvas><div \
             class=\"scale\"></div><div class=\"tiers\"></div><output class=\"said\" \
             aria-live=\"polite\"></output><div class=\"hottest\"></div><p class=\"hint\">A cell is a \
             link. Arrow keys move along the time, or in a picture from link to link. The strip \
             above has the largest value of each tier.</p><noscript><p class=\"warn\">This picture \
             needs JavaScript. <code>series-links.csv</code> has the numbers.</p></noscript>",
        );
        out.push_str(&self.table());
        if self.runs.iter().any(|run| run.every > 1) {
            out.push_str(
                "<p class=\"small\">A step is the mean or the sum of several periods; \
                 series-links.csv has each.</p>",
            );
        }
        out.push_str(
            "<p class=\"small\">Utilisation is within 0.2 %, marks and drops of a step within 3 \
             %.</p>",
        );
        if self.left_out > 0 {
            let _ = write!(
                out,
                "<p class=\"small\">{} more configurations are left out; see series-links.csv.</p>",
                self.left_out
            );
        }
        if self.unknown > 0 {
            let _ = write!(
                out,
                "<p class=\"small\">{} rows are of links that the first case does not have, and are \
                 left out.</p>",
                self.unknown
            );
        }
        let _ = write!(
            out,
            "<script type=\"application/json\">{}</script></div>",
            self.json().to_string().replace('<', "\\u003c")
        );
        out
    }

    /// Figures of each tier over the whole run, as text.
    fn table(&self) -> String {
        let mut out = String::from(
            "<div class=\"scroll\"><table class=\"flows\"><caption>Whole run</caption>",
        ) + &head(&TIERS);
        for run in &self.runs {
            let mut first = 0;
            for tier in &self.tiers {
                let links = first..first + tier.links();
                let means: Vec<f64> = links.clone().map(|link| run.mean(link, self)).collect();
                let mean = means.iter().sum::<f64>() / means.len().max(1) as f64;
                let busiest = links.clone().zip(&means).max_by(|a, b| a.1.total_cmp(b.1));
                let busiest = busiest.map_or(String::new(), |(link, mean)| {
                    format!("{} {} %", self.links[link], digits(mean * 100.0))
                });
                let sum = |of: &[u64]| -> u64 {
                    let steps = of.chunks(self.links.len());
                    let all = steps.flat_map(|step| &step[links.clone()]);
                    all.fold(0, |sum, count| sum.saturating_add(*count))
                };
                let cells = [
                    escaped(&run.label),
                    escaped(&tier.name),
                    tier.links().to_string(),
                    format!("{} %", digits(mean * 100.0)),
                    escaped(&busiest),
                    sum(&run.marks).to_string(),
                    sum(&run.drops).to_string(),
                ];
                out += &row(&TIERS, cells);
                first = links.end;
            }
        }
        out.push_str("</tbody></table></div>");
        out
    }

    fn json(&self) -> serde_json::Value {
        let tiers: Vec<_> = self
            .tiers
            .iter()
            .map(|tier| json!({ "name": tier.name, "columns": tier.columns }))
            .collect();
        let runs = self.runs.iter().map(|run| {
            let sent = run.sent.iter().map(|share| (share.min(1.0) * FULL).round() as u8);
            let counts = |all: &[u64]| -> serde_json::Value {
                // Most runs have no drops, and their page nothing about them.
                match all.iter().any(|count| *count > 0) {
                    true => base64(&all.iter().map(|n| code(*n)).collect::<Vec<_>>()).into(),
                    false => serde_json::Value::Null,
                }
            };
            json!({
                "label": run.label, "run": run.run, "end": run.end_s, "step": run.step_s(),
                "steps": run.steps, "sent": base64(&sent.collect::<Vec<_>>()),
                "marks": counts(&run.marks), "drops": counts(&run.drops),
            })
        });
        json!({ "tiers": tiers, "links": self.links, "runs": runs.collect::<Vec<_>>() })
    }
}

impl Pictured {
    fn step_s(&self) -> f64 {
        self.period_s * self.every as f64
    }

    /// Length of a period as a share of its step.
    fn share(&self, period: usize, step: usize) -> f64 {
        let length = |from_s: f64, time_s: f64| time_s.min(self.end_s - from_s).max(0.0);
        let of_step = length(step as f64 * self.step_s(), self.step_s());
        let of_period = length(period as f64 * self.period_s, self.period_s);
        if of_step > 0.0 { (of_period / of_step).min(1.0) } else { 0.0 }
    }

    /// Mean utilisation of a link.
    fn mean(&self, link: usize, of: &Heat) -> f64 {
        let steps = self.sent.chunks(of.links.len()).enumerate();
        let sum = steps.map(|(step, all)| {
            let length = self.step_s().min(self.end_s - step as f64 * self.step_s());
            f64::from(all[link]) * length.max(0.0)
        });
        sum.sum::<f64>() / self.end_s
    }
}

impl Tier {
    fn links(&self) -> usize {
        self.columns.iter().map(|(_, links)| links).sum()
    }
}

/// A count as a byte: sixteen steps for each doubling, so that it is within 3 %; 255 is 63,000 and more.
fn code(count: u64) -> u8 {
    match count {
        0 => 0,
        _ => ((count as f64 + 1.0).log2() * 16.0).round().clamp(1.0, 255.0) as u8,
    }
}

/// The key of the period, and the units of times.
const PERIOD: &str = "sample.links";
const UNITS: [(&str, f64); 6] =
    [("ps", 1e-12), ("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("min", 60.0)];

/// The period of a configuration, as its file says. `None` if it says none.
fn period_s(manifest: &Manifest, case: &str, at: &[String]) -> Option<f64> {
    let text = match manifest.axes.iter().position(|axis| axis.path == PERIOD) {
        Some(axis) => at.get(axis)?,
        None => manifest.resolved.get(case)?.get(PERIOD)?.as_str()?,
    };
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
    let (_, unit_s) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let period_s = number.trim().parse::<f64>().ok()? * unit_s / manifest.back_end.scale;
    (period_s > 0.0 && period_s.is_finite()).then_some(period_s)
}

/// The least time between samples of each run. It is the period, unless no two periods in a row have any. The end of a run
/// may be earlier than that of its last period, and periods in which nothing happened have no rows.
fn periods(manifest: &Manifest) -> Result<HashMap<u64, Periods>, Error> {
    let mut all: HashMap<u64, Periods> = HashMap::new();
    let ends: HashMap<u64, f64> =
        first_runs(manifest)?.0.iter().map(|group| (group.run, group.end_s)).collect();
    let Some(mut table) = ResultFile::LinkSample.open(&manifest.dir)? else { return Ok(all) };
    let [run, at] = table.columns([RUN, LinkSample::at_s])?;
    while let Some(row) = table.next()? {
        let run = row.index(run)?;
        let (Some(end_s), Some(at_s)) = (ends.get(&run), row.number(at)?) else { continue };
        let periods = all.entry(run).or_insert(Periods { last_s: 0.0, least_s: *end_s });
        let gap_s = at_s - periods.last_s;
        // Samples of one time follow each other.
        if gap_s > 0.0 && at_s < *end_s {
            periods.least_s = periods.least_s.min(gap_s);
        }
        periods.last_s = at_s;
    }
    Ok(all)
}

/// Tiers of a network, and its links in their order. The level of a switch is its distance from the nearest host.
fn tiers(network: &Network) -> (Vec<Tier>, Vec<String>) {
    let nodes: HashMap<&str, usize> =
        network.nodes.iter().enumerate().map(|(i, node)| (node.name.as_str(), i)).collect();
    let ends = |link: &knee_results::manifest::Link| {
        Some((*nodes.get(link.from.as_str())?, *nodes.get(link.to.as_str())?))
    };
    let mut near = vec![Vec::new(); nodes.len().max(network.nodes.len())];
    for (from, to) in network.links.iter().filter_map(ends) {
        near[from].push(to);
    }
    let mut levels: Vec<Option<usize>> =
        network.nodes.iter().map(|node| (node.kind == NodeKind::Host).then_some(0)).collect();
    let mut next: VecDeque<usize> = (0..levels.len()).filter(|i| levels[*i].is_some()).collect();
    while let Some(at) = next.pop_front() {
        let level = levels[at].unwrap_or(0);
        for to in &near[at] {
            if levels[*to].is_none() {
                levels[*to] = Some(level + 1);
                next.push_back(*to);
            }
        }
    }
    // Lower level, upwards first, higher level; then by the switch that the links are grouped by.
    let mut sorted: BTreeMap<(usize, bool, usize), BTreeMap<usize, Vec<String>>> = BTreeMap::new();
    for link in network.links.iter().filter(|link| link.rate_bps.is_some()) {
        let Some((from, to)) = ends(link) else { continue };
        let (Some(a), Some(b)) = (levels[from], levels[to]) else { continue };
        // A host has one link, so its switch is the group; of two switches the one nearer to the hosts.
        let lower = if a <= b { from } else { to };
        let higher = if a <= b { to } else { from };
        let by = if a.min(b) == 0 { higher } else { lower };
        let tier = sorted.entry((a.min(b), a > b, a.max(b))).or_default();
        tier.entry(by).or_default().push(link.name.clone());
    }
    let names = |level: usize| level_name(network, &levels, level);
    let mut links = Vec::new();
    let mut tiers = Vec::new();
    for ((lower, is_down, higher), columns) in sorted {
        let (from, to) = if is_down { (higher, lower) } else { (lower, higher) };
        let columns = columns.into_iter().map(|(node, of_node)| {
            let column = (network.nodes[node].name.clone(), of_node.len());
            links.extend(of_node);
            column
        });
        tiers.push(Tier {
            columns: columns.collect(),
            name: format!("{} → {}", names(from), names(to)),
        });
    }
    (tiers, links)
}

/// What nodes of a level are called: as their names begin, if all begin alike.
fn level_name(network: &Network, levels: &[Option<usize>], level: usize) -> String {
    if level == 0 {
        return "host".to_owned();
    }
    let of_level = network.nodes.iter().zip(levels).filter(|(_, of)| **of == Some(level));
    let mut stems = of_level
        .map(|(node, _)| node.name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.'));
    match stems.next() {
        Some(first) if !first.is_empty() && stems.all(|stem| stem == first) => first.to_owned(),
        _ if level == 1 => "switch".to_owned(),
        _ => format!("switch {level} links from hosts"),
    }
}

#[cfg(test)]
mod tests {
    use knee_results::manifest::{Link, Node};

    use super::*;

    /// Two leaves with two hosts each, two spines; hosts first.
    fn fabric() -> Network {
        let node = |name: &str| Node {
            name: name.into(),
            kind: if name.starts_with('h') { NodeKind::Host } else { NodeKind::Switch },
        };
        let names = ["h0.0", "h0.1", "h1.0", "h1.1", "leaf0", "leaf1", "spine0", "spine1"];
        let cables = [
            ("h0.0", "leaf0"),
            ("h0.1", "leaf0"),
            ("h1.0", "leaf1"),
            ("h1.1", "leaf1"),
            ("leaf0", "spine0"),
            ("leaf0", "spine1"),
            ("leaf1", "spine0"),
            ("leaf1", "spine1"),
        ];
        let link = |from: &str, to: &str| Link {
            name: format!("{from}-{to}"),
            from: from.into(),
            to: to.into(),
            rate_bps: Some(1_000_000_000),
            ..Link::default()
        };
        Network {
            topology: "leaf-spine".into(),
            nodes: names.into_iter().map(node).collect(),
            links: cables.into_iter().flat_map(|(a, b)| [link(a, b), link(b, a)]).collect(),
        }
    }

    #[test]
    fn links_are_grouped_by_tier_and_switch() {
        let (tiers, links) = tiers(&fabric());
        let names: Vec<&str> = tiers.iter().map(|tier| tier.name.as_str()).collect();
        assert_eq!(names, ["host → leaf", "leaf → host", "leaf → spine", "spine → leaf"]);
        assert_eq!(tiers[0].columns, [("leaf0".to_owned(), 2), ("leaf1".to_owned(), 2)]);
        assert_eq!(links.len(), 16);
        assert_eq!(links[..4], ["h0.0-leaf0", "h0.1-leaf0", "h1.0-leaf1", "h1.1-leaf1"]);
        assert_eq!(links[12..], ["spine0-leaf0", "spine1-leaf0", "spine0-leaf1", "spine1-leaf1"]);
    }

    #[test]
    fn each_of_parallel_cables_is_a_cell() {
        let mut network = fabric();
        for at in 2..4 {
            let mut more = network.links.iter().find(|link| link.name == "leaf0-spine1").cloned();
            more.iter_mut().for_each(|link| link.name = format!("leaf0-spine1#{at}"));
            network.links.extend(more);
        }
        let (tiers, links) = tiers(&network);
        assert_eq!(tiers[2].columns, [("leaf0".to_owned(), 4), ("leaf1".to_owned(), 2)]);
        let wanted = ["leaf0-spine0", "leaf0-spine1", "leaf0-spine1#2", "leaf0-spine1#3"];
        assert_eq!(links[8..12], wanted);
    }

    #[test]
    fn a_count_is_within_three_per_cent() {
        for count in (0..60_000u64).step_by(7) {
            let shown = (2f64.powf(f64::from(code(count)) / 16.0) - 1.0).round();
            let off = (shown - count as f64).abs();
            assert!(off <= 0.03 * count as f64 + 0.5, "{count}: {shown}");
        }
        assert_eq!((code(0), code(u64::MAX)), (0, 255));
    }
}
