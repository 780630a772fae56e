//! Time series of the first run of each case, read once, in bounded memory, without losing spikes.
//!
//! Time is cut into buckets; of each line the least and the largest value of a bucket are kept, in the order in
//! which they came. Where no bucket has two samples these are the samples themselves.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use knee_results::rows::{Flow, FlowSample, GoodputSample, QueueSample, Run};
use knee_results::{CASE, Error, Manifest, RUN, ResultFile, manifest};

use crate::palette::{SHADES, Style};

/// Buckets while reading; fewer are written where there is much.
const BUCKETS: usize = 1440;
/// At most so many neighbours become one.
const COARSEST: usize = 12;
/// Configurations whose series are shown.
const MOST_GROUPS: usize = 96;
/// Flows of a run that are looked at when some are chosen.
const MOST_SEEN: usize = 100_000;
/// Queues of a run that are drawn.
const MOST_LINKS: usize = 4;
/// The plot of queues.
const QUEUES: &str = "Packets waiting";
/// Plots that an experiment asks for.
const MOST_WANTED: usize = 32;
/// The kernel's "no ssthresh yet".
const NO_SSTHRESH: f64 = 2_147_483_647.0;

/// Series of the first run of one configuration.
pub(crate) struct Group {
    pub(crate) case: String,
    pub(crate) at: Vec<String>,
    pub(crate) run: u64,
    pub(crate) end_s: f64,
    pub(crate) plots: Vec<Plot>,
    /// Flows shown, of how many.
    pub(crate) flows: (usize, usize),
    /// Recorded queues shown, of how many.
    pub(crate) links: (usize, usize),
    flow_lines: HashMap<u64, usize>,
    /// The plot of the first of [`FLOW_COLUMNS`].
    first_of_flows: usize,
}

/// A plot in one frame.
pub(crate) struct Plot {
    pub(crate) title: Cow<'static, str>,
    pub(crate) unit: Cow<'static, str>,
    /// Names of the values 0, 1, ...; of most plots none.
    pub(crate) names: Vec<String>,
    pub(crate) lines: Vec<Line>,
}

/// One flow or queue.
pub(crate) struct Line {
    pub(crate) label: String,
    pub(crate) style: Style,
    /// Least, largest; NaN where there is nothing.
    ends: Vec<[f32; 2]>,
    /// Whether the largest came first.
    falls: Vec<bool>,
    /// When the first sample of each bucket was.
    first_s: Vec<f32>,
    /// Whether some bucket has two samples.
    several: bool,
}

/// A line as points.
pub(crate) struct Points {
    pub(crate) x: Vec<f32>,
    /// For each line; NaN where there is nothing.
    pub(crate) y: Vec<Vec<f32>>,
}

impl Line {
    pub(crate) fn new(label: String, style: Style) -> Line {
        Line {
            label,
            style,
            ends: Vec::new(),
            falls: Vec::new(),
            first_s: Vec::new(),
            several: false,
        }
    }

    pub(crate) fn add(&mut self, at_s: f64, end_s: f64, value: f64) {
        if self.ends.is_empty() {
            self.ends = vec![[f32::NAN; 2]; BUCKETS];
            self.falls = vec![false; BUCKETS];
            self.first_s = vec![f32::NAN; BUCKETS];
        }
        let share = (at_s / end_s).clamp(0.0, 1.0) * BUCKETS as f64;
        // A sample on a boundary is of the bucket before it, whatever its last bit.
        let bucket = (share - 1e-6).floor().max(0.0) as usize;
        let bucket = bucket.min(BUCKETS - 1);
        let (value, [low, high]) = (value as f32, &mut self.ends[bucket]);
        if low.is_nan() {
            (*low, *high) = (value, value);
            self.first_s[bucket] = at_s as f32;
            return;
        }
        self.several = true;
        if value < *low {
            *low = value;
            self.falls[bucket] = true;
        }
        if value > *high {
            *high = value;
            self.falls[bucket] = false;
        }
    }

    /// The last bucket with something and everything before it, with neighbours made one.
    fn merged(&self, every: usize) -> Vec<Option<[f32; 2]>> {
        let chunks = self.ends.chunks(every).zip(self.falls.chunks(every));
        let merge = |(ends, falls): (&[[f32; 2]], &[bool])| {
            let mut of_all: Option<([f32; 2], bool)> = None;
            for ([low, high], falls) in ends.iter().zip(falls).filter(|([low, _], _)| !low.is_nan())
            {
                of_all = Some(match of_all {
                    None => ([*low, *high], *falls),
                    Some((ends, was)) => {
                        let falls = match (*low < ends[0], *high > ends[1]) {
                            (true, true) => *falls,
                            (true, false) => true,
                            (false, true) => false,
                            (false, false) => was,
                        };
                        ([ends[0].min(*low), ends[1].max(*high)], falls)
                    }
                });
            }
            // In the order of time.
            of_all.map(|([low, high], falls)| if falls { [high, low] } else { [low, high] })
        };
        chunks.map(merge).collect()
    }
}

impl Group {
    /// The same configuration but for its case, with this plot.
    pub(crate) fn with(self, plot: Plot) -> Group {
        Group { case: String::new(), plots: vec![plot], ..self }
    }

    /// Says which flows and queues are not drawn.
    pub(crate) fn left_out(&self) -> String {
        let words = |(shown, all): (usize, usize), what: &str| match shown < all {
            true => format!("{shown} of {all} {what} "),
            false => String::new(),
        };
        let queues = "recorded queues are drawn: those with the most packets waiting.";
        words(self.flows, "flows are drawn.") + &words(self.links, queues)
    }
}

impl Plot {
    /// Points of all lines at common times, with `every` buckets made one; and whether they are the samples themselves.
    pub(crate) fn points(&self, end_s: f64, every: usize) -> (Points, bool) {
        let several = self.lines.iter().any(|line| line.several);
        let is_filled = |bucket: &usize| {
            self.lines
                .iter()
                .any(|line| line.ends.get(*bucket).is_some_and(|ends| !ends[0].is_nan()))
        };
        // Samples that take no more room than the ends of coarser buckets are drawn as they are.
        let few = !several && (0..BUCKETS).filter(is_filled).count() <= 2 * BUCKETS / every;
        let every = if few { 1 } else { every };
        let all: Vec<Vec<Option<[f32; 2]>>> =
            self.lines.iter().map(|line| line.merged(every)).collect();
        let buckets = all.iter().map(Vec::len).max().unwrap_or(0);
        let exact = every == 1 && !several;
        let width = end_s / BUCKETS as f64 * every as f64;
        let mut points = Points { x: Vec::new(), y: vec![Vec::new(); self.lines.len()] };
        for bucket in 0..buckets {
            let values: Vec<Option<[f32; 2]>> =
                all.iter().map(|line| line.get(bucket).copied().flatten()).collect();
            if values.iter().all(Option::is_none) {
                continue;
            }
            if exact {
                let first = self.lines.iter().filter_map(|line| line.first_s.get(bucket)).copied();
                points.x.push(first.fold(f32::NAN, f32::min));
                for (y, value) in points.y.iter_mut().zip(&values) {
                    y.push(value.map_or(f32::NAN, |[first, _]| first));
                }
                continue;
            }
            for (half, quarter) in [(0, 0.25), (1, 0.75)] {
                points.x.push(((bucket as f64 + quarter) * width) as f32);
                for (y, value) in points.y.iter_mut().zip(&values) {
                    y.push(value.map_or(f32::NAN, |ends| ends[half]));
                }
            }
        }
        (points, exact)
    }
}

/// Series of a directory.
pub(crate) struct Series {
    pub(crate) groups: Vec<Group>,
    /// Configurations left out.
    pub(crate) left_out: usize,
    /// So many buckets become one.
    pub(crate) every: usize,
}

impl Series {
    /// Reads what a directory has, to be written in about so many bytes.
    pub(crate) fn read(
        manifest: &Manifest,
        most_flows: usize,
        budget: usize,
    ) -> Result<Series, Error> {
        let (mut groups, left_out) = first_runs(manifest)?;
        let by_run: HashMap<u64, usize> =
            groups.iter().enumerate().map(|(i, group)| (group.run, i)).collect();
        queues(manifest, &mut groups, &by_run)?;
        choose_flows(manifest, &mut groups, &by_run, most_flows)?;
        flows(manifest, &mut groups, &by_run)?;
        goodput(manifest, &mut groups, &by_run)?;
        for group in &mut groups {
            group.plots.iter_mut().for_each(|plot| plot.lines.retain(|line| !line.ends.is_empty()));
            group.plots.retain(|plot| !plot.lines.is_empty());
        }
        groups.retain(|group| !group.plots.is_empty());
        for group in &mut groups {
            let of_queues = group.plots.iter().filter(|plot| plot.title == QUEUES);
            group.links.0 = of_queues.map(|plot| plot.lines.len()).sum();
        }
        let mut series = Series { groups, left_out, every: 1 };
        while series.size() > budget && series.every < COARSEST {
            series.every += 1;
        }
        Ok(series)
    }

    /// About the bytes that it takes in the page.
    fn size(&self) -> usize {
        let plots =
            self.groups.iter().flat_map(|group| group.plots.iter().map(|plot| (group.end_s, plot)));
        let points = plots
            .map(|(end_s, plot)| plot.points(end_s, self.every).0.x.len() * (plot.lines.len() + 2));
        points.sum::<usize>() * 8 / 3
    }
}

/// The first run of each configuration.
pub(crate) fn first_runs(manifest: &Manifest) -> Result<(Vec<Group>, usize), Error> {
    let Some(mut table) = ResultFile::Run.open(&manifest.dir)? else {
        return Ok((Vec::new(), 0));
    };
    let [run, case, end] = table.columns([RUN, CASE, Run::end_s])?;
    let axes = table.axes(&manifest.axes)?;
    let mut groups: Vec<Group> = Vec::new();
    let mut left_out = 0;
    let mut seen = std::collections::HashSet::new();
    while let Some(row) = table.next()? {
        let at = axes.iter().zip(&manifest.axes);
        let at: Vec<String> =
            at.map(|(column, axis)| axis.value(row.text(*column)).to_owned()).collect();
        let case = row.text(case).to_owned();
        if seen.len() >= MOST_SEEN || !seen.insert((case.clone(), at.clone())) {
            continue;
        }
        let end_s = row.number(end)?.unwrap_or(0.0);
        if end_s <= 0.0 {
            continue;
        }
        if groups.len() == MOST_GROUPS {
            left_out += 1;
            continue;
        }
        let run = row.index(run)?;
        groups.push(Group {
            case,
            at,
            run,
            end_s,
            plots: Vec::new(),
            flows: (0, 0),
            links: (0, 0),
            flow_lines: HashMap::new(),
            first_of_flows: 0,
        });
    }
    Ok((groups, left_out))
}

fn queues(
    manifest: &Manifest,
    groups: &mut [Group],
    by_run: &HashMap<u64, usize>,
) -> Result<(), Error> {
    let Some(mut table) = ResultFile::QueueSample.open(&manifest.dir)? else {
        return Ok(());
    };
    let [run, at, link, len] =
        table.columns([RUN, QueueSample::at_s, QueueSample::link, QueueSample::len_pkts])?;
    let longest = longest_queues(manifest, groups, by_run)?;
    while let Some(row) = table.next()? {
        let Some(group) = by_run.get(&row.index(run)?) else { continue };
        let (Some(at_s), Some(len)) = (row.number(at)?, row.number(len)?) else { continue };
        let group = &mut groups[*group];
        let end_s = group.end_s;
        if group.plots.is_empty() {
            let (title, unit) = (QUEUES.into(), "pkts".into());
            group.plots.push(Plot { title, unit, names: Vec::new(), lines: Vec::new() });
        }
        let lines = &mut group.plots[0].lines;
        let name = row.text(link);
        let Some(place) = longest.iter().position(|known| known == name) else { continue };
        let known = lines.iter().position(|line| line.label == name);
        let line = known.unwrap_or_else(|| {
            // A queue has its colour in every case.
            lines.push(Line::new(name.to_owned(), Style::of("queue", place)));
            lines.len() - 1
        });
        lines[line].add(at_s, end_s, len);
    }
    Ok(())
}

/// The queues with the most packets waiting in any of the runs, by their means, in the order of the file. Also counts the
/// queues of each run.
fn longest_queues(
    manifest: &Manifest,
    groups: &mut [Group],
    by_run: &HashMap<u64, usize>,
) -> Result<Vec<String>, Error> {
    let Some(mut table) = ResultFile::QueueSample.open(&manifest.dir)? else {
        return Ok(Vec::new());
    };
    let [run, link, len] = table.columns([RUN, QueueSample::link, QueueSample::len_pkts])?;
    let mut places: HashMap<String, usize> = HashMap::new();
    // Sum and number of the samples of each queue in each run.
    let mut sums: HashMap<(usize, usize), (f64, f64)> = HashMap::new();
    while let Some(row) = table.next()? {
        let Some(group) = by_run.get(&row.index(run)?) else { continue };
        let Some(len) = row.number(len)? else { continue };
        let name = row.text(link);
        let place = match places.get(name) {
            Some(place) => *place,
            None if sums.len() >= MOST_SEEN => continue,
            None => {
                places.insert(name.to_owned(), places.len());
                places.len() - 1
            }
        };
        let (sum, count) = sums.entry((*group, place)).or_insert_with(|| {
            groups[*group].links.1 += 1;
            (0.0, 0.0)
        });
        (*sum, *count) = (*sum + len, *count + 1.0);
    }
    let mut longest = vec![0.0_f64; places.len()];
    for ((_, place), (sum, count)) in sums {
        longest[place] = longest[place].max(sum / count);
    }
    let mut chosen: Vec<(String, usize)> = places.into_iter().collect();
    chosen.sort_by(|a, b| longest[b.1].total_cmp(&longest[a.1]).then(a.1.cmp(&b.1)));
    chosen.truncate(MOST_LINKS);
    chosen.sort_by_key(|(_, place)| *place);
    Ok(chosen.into_iter().map(|(name, _)| name).collect())
}

/// Picks flows of each run that have samples: by turns of each traffic entry, then by number.
fn choose_flows(
    manifest: &Manifest,
    groups: &mut [Group],
    by_run: &HashMap<u64, usize>,
    most: usize,
) -> Result<(), Error> {
    // Flows by group and traffic entry.
    let mut sampled: Vec<BTreeMap<String, Vec<u64>>> =
        groups.iter().map(|_| BTreeMap::new()).collect();
    let mut seen = std::collections::HashSet::new();
    for file in [ResultFile::FlowSample, ResultFile::GoodputSample] {
        let Some(mut table) = file.open(&manifest.dir)? else { continue };
        let [run, flow, traffic] = table.columns([RUN, FlowSample::flow, FlowSample::traffic])?;
        while let Some(row) = table.next()? {
            let Some(group) = by_run.get(&row.index(run)?) else { continue };
            let flow = row.index(flow)?;
            if seen.len() < MOST_SEEN && seen.insert((*group, flow)) {
                sampled[*group].entry(row.text(traffic).to_owned()).or_default().push(flow);
            }
        }
    }
    let mut chosen: Vec<BTreeMap<u64, String>> = Vec::new();
    for (group, entries) in groups.iter_mut().zip(sampled) {
        let mut of_group = BTreeMap::new();
        for turn in 0..most {
            for (entry, flows) in &entries {
                if let Some(flow) = flows.get(turn).filter(|_| of_group.len() < most) {
                    of_group.insert(*flow, entry.clone());
                }
            }
        }
        group.flows = (of_group.len(), entries.values().map(Vec::len).sum());
        chosen.push(of_group);
    }
    let algorithms = flow_algorithms(manifest, by_run, &chosen)?;
    for (g, (group, chosen)) in groups.iter_mut().zip(chosen).enumerate() {
        if chosen.is_empty() {
            continue;
        }
        let of_case = manifest.algorithm(&group.case).unwrap_or_default();
        let mut used: HashMap<String, usize> = HashMap::new();
        let mut entries: Vec<&String> = chosen.values().collect();
        entries.sort();
        entries.dedup();
        let mut template: Vec<(String, Style)> = Vec::new();
        for (flow, entry) in &chosen {
            let (algorithm, ends) = algorithms.get(&(g, *flow)).cloned().unwrap_or_default();
            let algorithm = if algorithm.is_empty() { of_case.to_owned() } else { algorithm };
            let nth = used.entry(algorithm.clone()).or_default();
            group.flow_lines.insert(*flow, template.len());
            // Shades tell flows apart, dashes traffic entries and whoever shares a shade: the first entry's lines are whole.
            let of_entry = entries.iter().position(|known| *known == entry).unwrap_or(0);
            let style = Style { dash: of_entry + *nth / SHADES, ..Style::of(&algorithm, *nth) };
            template.push((format!("{entry} {flow}{ends}"), style));
            *nth += 1;
        }
        group.first_of_flows = group.plots.len();
        let always =
            FLOW_COLUMNS.map(|(_, _, title, unit, _)| (title.into(), unit.into(), Vec::new()));
        let wanted = wanted(manifest);
        let wanted = wanted.map(|of| (of.title, of.unit, of.names.to_vec()));
        for (title, unit, names) in always.into_iter().chain(wanted) {
            let lines =
                template.iter().map(|(label, style)| Line::new(label.clone(), *style)).collect();
            group.plots.push(Plot { title, unit, names, lines });
        }
    }
    Ok(())
}

/// Algorithm of a flow, and from where to where it is.
type Ends = (String, String);

/// Algorithm and ends of the chosen flows, by group and flow.
fn flow_algorithms(
    manifest: &Manifest,
    by_run: &HashMap<u64, usize>,
    chosen: &[BTreeMap<u64, String>],
) -> Result<HashMap<(usize, u64), Ends>, Error> {
    let mut all = HashMap::new();
    let Some(mut table) = ResultFile::Flow.open(&manifest.dir)? else { return Ok(all) };
    let [run, flow, algorithm, from, to] =
        table.columns([RUN, Flow::flow, Flow::algorithm, Flow::from, Flow::to])?;
    while let Some(row) = table.next()? {
        let Some(group) = by_run.get(&row.index(run)?) else { continue };
        let flow = row.index(flow)?;
        if chosen[*group].contains_key(&flow) {
            let ends = format!(" {}→{}", row.text(from), row.text(to));
            all.insert((*group, flow), (row.text(algorithm).to_owned(), ends));
        }
    }
    Ok(all)
}

/// Plots of flows: column, file, title, unit, factor from the column's unit.
const FLOW_COLUMNS: [(&str, ResultFile, &str, &str, f64); 9] = [
    (FlowSample::cwnd_pkts, ResultFile::FlowSample, "cwnd", "pkts", 1.0),
    (FlowSample::srtt_us, ResultFile::FlowSample, "RTT, smoothed", "s", 1e-6),
    ("alpha_1/1024", ResultFile::FlowSample, "Inside: alpha", "", 1.0 / 1024.0),
    ("ecn_alpha_1/256", ResultFile::FlowSample, "Inside: alpha of ECN", "", 1.0 / 256.0),
    ("bw_bytes/s", ResultFile::FlowSample, "Inside: bandwidth", "bps", 8.0),
    ("nv_min_rtt_us", ResultFile::FlowSample, "Inside: minimum RTT", "s", 1e-6),
    ("nv_rtt_us", ResultFile::FlowSample, "Inside: RTT", "s", 1e-6),
    (FlowSample::ssthresh_pkts, ResultFile::FlowSample, "Inside: ssthresh", "pkts", 1.0),
    (GoodputSample::bytes, ResultFile::GoodputSample, "Goodput", "bps", 8.0),
];

/// Plots that the experiment asks for.
struct Wanted<'a> {
    column: &'a str,
    title: Cow<'static, str>,
    unit: Cow<'static, str>,
    names: &'a [String],
    factor: f64,
}

/// Those of which nothing is drawn anyway.
fn wanted(manifest: &Manifest) -> impl Iterator<Item = Wanted<'_>> {
    let is_new =
        |plot: &&manifest::Plot| !FLOW_COLUMNS.iter().any(|(column, ..)| *column == plot.column);
    manifest.plots.iter().filter(is_new).take(MOST_WANTED).map(|plot| {
        let (unit, factor) = match plot.unit.as_str() {
            "us" => ("s", 1e-6),
            "bytes" => ("B", 1.0),
            "bytes/s" => ("bps", 8.0),
            "packets" => ("pkts", 1.0),
            unit => (
                "",
                unit.strip_prefix("1/")
                    .and_then(|whole| whole.parse().ok())
                    .map_or(1.0, f64::recip),
            ),
        };
        let title = format!("Inside: {}", plot.name).into();
        Wanted { column: &plot.column, title, unit: unit.into(), names: &plot.names, factor }
    })
}

fn flows(
    manifest: &Manifest,
    groups: &mut [Group],
    by_run: &HashMap<u64, usize>,
) -> Result<(), Error> {
    let Some(mut table) = ResultFile::FlowSample.open(&manifest.dir)? else {
        return Ok(());
    };
    let [run, at, flow] = table.columns([RUN, FlowSample::at_s, FlowSample::flow])?;
    let always = FLOW_COLUMNS
        .iter()
        .enumerate()
        .filter(|(_, (_, file, ..))| *file == ResultFile::FlowSample)
        .map(|(i, (column, _, _, _, factor))| (i, *column, *factor));
    let wanted = wanted(manifest).enumerate();
    let wanted = wanted.map(|(i, wanted)| (FLOW_COLUMNS.len() + i, wanted.column, wanted.factor));
    let columns: Vec<(usize, usize, f64)> = always
        .chain(wanted)
        .filter_map(|(i, column, factor)| Some((i, table.find(column)?, factor)))
        .collect();
    while let Some(row) = table.next()? {
        let Some(group) = by_run.get(&row.index(run)?) else { continue };
        let group = &mut groups[*group];
        let Some(line) = group.flow_lines.get(&row.index(flow)?) else { continue };
        let Some(at_s) = row.number(at)? else { continue };
        let end_s = group.end_s;
        let first = group.first_of_flows;
        for (i, column, factor) in &columns {
            let Some(value) = row.number(*column)? else { continue };
            let is_ssthresh =
                FLOW_COLUMNS.get(*i).is_some_and(|(name, ..)| *name == FlowSample::ssthresh_pkts);
            if is_ssthresh && value >= NO_SSTHRESH {
                continue;
            }
            group.plots[first + i].lines[*line].add(at_s, end_s, value * *factor);
        }
    }
    // Only who has nothing better inside is shown by its ssthresh.
    for group in groups.iter_mut().filter(|group| !group.flow_lines.is_empty()) {
        let first = group.first_of_flows;
        let (inside, ssthresh) = (first + 2..first + 7, first + 7);
        for line in group.flow_lines.values() {
            if inside.clone().any(|plot| !group.plots[plot].lines[*line].ends.is_empty()) {
                group.plots[ssthresh].lines[*line].ends.clear();
            }
        }
    }
    Ok(())
}

fn goodput(
    manifest: &Manifest,
    groups: &mut [Group],
    by_run: &HashMap<u64, usize>,
) -> Result<(), Error> {
    let Some(mut table) = ResultFile::GoodputSample.open(&manifest.dir)? else {
        return Ok(());
    };
    let [run, at, flow, bytes] =
        table.columns([RUN, GoodputSample::at_s, GoodputSample::flow, GoodputSample::bytes])?;
    let mut prior: HashMap<(usize, u64), f64> = HashMap::new();
    while let Some(row) = table.next()? {
        let Some(g) = by_run.get(&row.index(run)?) else { continue };
        let (group, flow) = (&mut groups[*g], row.index(flow)?);
        let Some(line) = group.flow_lines.get(&flow) else { continue };
        let (Some(at_s), Some(bytes)) = (row.number(at)?, row.number(bytes)?) else { continue };
        let period = at_s - prior.insert((*g, flow), at_s).unwrap_or(0.0);
        let (end_s, last) = (group.end_s, group.first_of_flows + FLOW_COLUMNS.len() - 1);
        if period > 0.0 {
            group.plots[last].lines[*line].add(at_s, end_s, bytes * 8.0 / period);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_spike_is_lost_however_coarse() {
        let mut line = Line::new("a".into(), Style::default());
        for i in 0..100_000_u32 {
            let value = if i == 54_321 { 1000.0 } else { f64::from(i % 7) };
            line.add(f64::from(i + 1) * 1e-5, 1.0, value);
        }
        let plot = Plot { title: "".into(), unit: "".into(), names: Vec::new(), lines: vec![line] };
        for every in 1..=COARSEST {
            let (points, exact) = plot.points(1.0, every);
            assert!(!exact);
            assert!(points.x.len() <= 2 * BUCKETS.div_ceil(every));
            let at = points.y[0].iter().position(|y| *y == 1000.0).expect("the spike is there");
            assert!((points.x[at] - 0.543_22).abs() < 0.01, "{}", points.x[at]);
            assert!(points.y[0].contains(&0.0));
            assert!(points.x.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }

    #[test]
    fn few_samples_stay_what_they_are() {
        let mut line = Line::new("a".into(), Style::default());
        let samples: Vec<(f64, f64)> =
            (1..=400).map(|i| (f64::from(i) * 1e-3, f64::from(i * i))).collect();
        samples.iter().for_each(|(at, value)| line.add(*at, 0.4, *value));
        let plot = Plot { title: "".into(), unit: "".into(), names: Vec::new(), lines: vec![line] };
        let (points, exact) = plot.points(0.4, 1);
        assert!(exact);
        assert_eq!(points.x.len(), 400);
        let (coarse, exact) = plot.points(0.4, 7);
        assert!(exact && coarse.x == points.x, "fewer than the ends of 206 buckets");
        assert!(!plot.points(0.4, 12).1, "more than the ends of 120 buckets");
        let same = points.x.iter().zip(&points.y[0]).zip(&samples);
        assert!(
            same.into_iter().all(|((x, y), (at, value))| *x == *at as f32 && *y == *value as f32)
        );
    }
}
