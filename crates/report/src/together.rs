//! Charts over time: samples of the first run of each configuration, the cases over one another.

use std::collections::{BTreeMap, HashMap};

use knee_results::manifest::Chart;
use knee_results::rows::{FlowSample, GoodputSample, QueueSample};
use knee_results::{Error, Manifest, Metric, RUN, ResultFile};

use crate::palette::{SHADES, Style};
use crate::panels::chart_id;
use crate::series::{Group, Line, Plot, first_runs};

/// The kind of chart that asks for one.
pub(crate) const TIME: &str = "time";
/// Lines of a case; more cannot be told apart.
const MOST_LINES: usize = 8;
/// Sums and rates of moments that are kept of a chart.
const MOST_MOMENTS: usize = 4_000_000;

/// A chart over time: a group for each combination of varied values.
pub(crate) struct Together {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) groups: Vec<Group>,
}

/// Rates of connections at one moment, or values of one connection or queue.
#[derive(Clone, Copy, PartialEq)]
enum Draws {
    Each,
    Sum,
    Jain,
}

/// Where the values of a metric are: the file, the column, the factor to the plot's unit, and what is drawn of them.
fn source(metric: Metric) -> Option<(ResultFile, &'static str, f64, Draws)> {
    let goodput = |draws| (ResultFile::GoodputSample, GoodputSample::bytes, 8.0, draws);
    Some(match metric {
        Metric::Queue => (ResultFile::QueueSample, QueueSample::len_pkts, 1.0, Draws::Each),
        Metric::Occupancy => (ResultFile::QueueSample, QueueSample::len_bytes, 1.0, Draws::Each),
        Metric::Cwnd => (ResultFile::FlowSample, FlowSample::cwnd_pkts, 1.0, Draws::Each),
        Metric::Srtt => (ResultFile::FlowSample, FlowSample::srtt_us, 1e-6, Draws::Each),
        Metric::Goodput => goodput(Draws::Each),
        Metric::GoodputSum => goodput(Draws::Sum),
        Metric::Jain => goodput(Draws::Jain),
        _ => return None,
    })
}

/// Reads what these charts draw.
pub(crate) fn read(
    manifest: &Manifest,
    styles: &[Style],
    charts: &[Chart],
) -> Result<Vec<Together>, Error> {
    let mut all = Vec::new();
    for chart in charts {
        let Some(metric) = Metric::by_name(&chart.metric) else { continue };
        let Some(source) = source(metric) else { continue };
        let groups = groups(manifest, styles, (chart, metric), source)?;
        if !groups.is_empty() {
            let id = chart_id(manifest, &chart.title, TIME);
            all.push(Together { id, title: chart.title.clone(), groups });
        }
    }
    Ok(all)
}

/// A run that is drawn: its group, its place among the cases, and when it ends.
struct Of {
    group: usize,
    case: usize,
    end_s: f64,
}

fn groups(
    manifest: &Manifest,
    styles: &[Style],
    (chart, metric): (&Chart, Metric),
    (file, column, factor, draws): (ResultFile, &str, f64, Draws),
) -> Result<Vec<Group>, Error> {
    let Some(mut table) = file.open(&manifest.dir)? else { return Ok(Vec::new()) };
    let mut groups: Vec<Group> = Vec::new();
    let mut runs: HashMap<u64, Of> = HashMap::new();
    for first in first_runs(manifest)?.0 {
        let Some(case) = manifest.cases.iter().position(|case| *case == first.case) else {
            continue;
        };
        let known = groups.iter().position(|group| group.at == first.at);
        let group = known.unwrap_or(groups.len());
        runs.insert(first.run, Of { group, case, end_s: first.end_s });
        match known {
            Some(known) => groups[known].end_s = groups[known].end_s.max(first.end_s),
            None => {
                let plot = Plot {
                    title: chart.title.clone().into(),
                    unit: metric.unit().into(),
                    names: Vec::new(),
                    lines: Vec::new(),
                };
                groups.push(first.with(plot));
            }
        }
    }
    let is_queue = file == ResultFile::QueueSample;
    let [run, at, subject] = table.columns([
        RUN,
        QueueSample::at_s,
        if is_queue { QueueSample::link } else { GoodputSample::traffic },
    ])?;
    let column = table.columns([column])?[0];
    let flow = table.find(GoodputSample::flow);
    let is_rate = file == ResultFile::GoodputSample;
    let mut lines: HashMap<(usize, usize, u64), Option<usize>> = HashMap::new();
    let mut many: HashMap<(usize, usize), usize> = HashMap::new();
    let mut prior: HashMap<(u64, u64), f64> = HashMap::new();
    // Number, sum and sum of squares of the rates at a moment of a group's case, in picoseconds.
    let mut moments: BTreeMap<(usize, usize, u64), (f64, f64, f64)> = BTreeMap::new();
    while let Some(row) = table.next()? {
        if row.text(subject) != chart.subject {
            continue;
        }
        let number = row.index(run)?;
        let Some(of) = runs.get(&number) else { continue };
        let (Some(at_s), Some(value)) = (row.number(at)?, row.number(column)?) else { continue };
        let flow = flow.filter(|_| !is_queue).map_or(Ok(0), |column| row.index(column))?;
        let mut value = value * factor;
        if is_rate {
            let period = at_s - prior.insert((number, flow), at_s).unwrap_or(0.0);
            if period <= 0.0 {
                continue;
            }
            value /= period;
        }
        if draws != Draws::Each {
            let moment = (of.group, of.case, (at_s * 1e12).round() as u64);
            if moments.len() < MOST_MOMENTS || moments.contains_key(&moment) {
                let (count, sum, squares) = moments.entry(moment).or_default();
                (*count, *sum, *squares) = (*count + 1.0, *sum + value, *squares + value * value);
            }
            continue;
        }
        let group = &mut groups[of.group];
        let line = *lines.entry((of.group, of.case, flow)).or_insert_with(|| {
            let nth = many.entry((of.group, of.case)).or_default();
            group.flows.1 += 1;
            *nth += 1;
            (*nth <= MOST_LINES).then(|| {
                let of_lines = &mut group.plots[0].lines;
                of_lines.push(line(
                    manifest,
                    styles,
                    of.case,
                    (!is_queue).then_some((flow, *nth - 1)),
                ));
                group.flows.0 += 1;
                of_lines.len() - 1
            })
        });
        if let Some(line) = line {
            group.plots[0].lines[line].add(at_s.min(of.end_s), group.end_s, value);
        }
    }
    for ((g, case, at), (count, sum, squares)) in moments {
        let group = &mut groups[g];
        let known = *lines.entry((g, case, 0)).or_insert_with(|| {
            group.plots[0].lines.push(line(manifest, styles, case, None));
            Some(group.plots[0].lines.len() - 1)
        });
        // Jain's index: 1 where all rates are equal.
        let value = if draws == Draws::Sum { sum } else { sum * sum / (count * squares) };
        if let (Some(known), true) = (known, value.is_finite()) {
            let end_s = group.end_s;
            group.plots[0].lines[known].add(at as f64 / 1e12, end_s, value);
        }
    }
    groups.retain(|group| !group.plots[0].lines.is_empty());
    groups.iter_mut().for_each(|group| in_order_of_cases(manifest, group));
    Ok(groups)
}

/// The line of a case, or of a connection of it.
fn line(manifest: &Manifest, styles: &[Style], case: usize, flow: Option<(u64, usize)>) -> Line {
    let own = styles[case];
    match flow {
        // Connections of a case share its colour, and differ in shade and dashes.
        Some((flow, nth)) => {
            let first = own.colour - own.colour % SHADES;
            let shade = (own.colour + nth) % SHADES;
            let style = Style { colour: first + shade, dash: own.dash + nth, ..own };
            Line::new(format!("{} {flow}", manifest.cases[case]), style)
        }
        None => Line::new(manifest.cases[case].clone(), own),
    }
}

fn in_order_of_cases(manifest: &Manifest, group: &mut Group) {
    let place = |label: &str| {
        let of = |case: &String| {
            label == case
                || label.strip_prefix(case.as_str()).is_some_and(|rest| rest.starts_with(' '))
        };
        manifest.cases.iter().position(of)
    };
    group.plots[0].lines.sort_by_key(|line| place(&line.label));
}
