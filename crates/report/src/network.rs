//! The network of an experiment, drawn: hosts that are alike are one box, the queue that is recorded is shown.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use crate::figure::{Figure, Piece};
use knee_results::manifest::{Link, Manifest, Network, NodeKind};
use knee_results::quoted as cell;

use crate::label::{LINE, Label, VEIL};
use crate::plot::{fitted, through, width_of};
use crate::svg::{Align, Area, Svg, around};
use crate::text::{Unit, slug};

const BOX: (f64, f64) = (88.0, 30.0);
const SWITCH: f64 = 34.0;
/// From one switch to the next.
const HOP: f64 = 176.0;
const ROW: f64 = 74.0;
/// From one switch of a row to the next where there are several rows.
const PITCH: f64 = 136.0;
/// Labels may make a drawing so much higher.
const MOST_LOWER: f64 = 40.0;
/// Boxes and switches beyond are not drawn: nobody could read them.
const MOST_BOXES: usize = 40;
/// Cables between switches beyond have no labels of their own.
const MOST_LABELLED: usize = 4;
/// Parallel cables beyond are not drawn one by one; the label says how many there are.
const MOST_STROKES: usize = 4;
/// From one of parallel cables to the next.
const STROKES_APART: f64 = 4.0;
/// Kinds of parallel cables beyond are not labelled.
const MOST_KINDS: usize = 4;

/// All cables between two nodes. The first way there and the first way back are one cable, and so on.
struct Cables<'a> {
    there: Vec<&'a Link>,
    back: Vec<&'a Link>,
}

impl<'a> Cables<'a> {
    fn count(&self) -> usize {
        self.there.len().max(self.back.len())
    }

    fn both(&self) -> impl Iterator<Item = &'a Link> {
        self.there.iter().chain(&self.back).copied()
    }

    fn each(&self) -> impl Iterator<Item = Cable<'a>> {
        let of = |links: &[&'a Link], index: usize| links.get(index).copied();
        (0..self.count())
            .map(move |index| Cable { there: of(&self.there, index), back: of(&self.back, index) })
    }

    /// What a cable carries; of several, a line for each kind with their number.
    fn lines(&self) -> Vec<String> {
        let mut each = self.each();
        match (each.next(), self.count()) {
            (Some(only), 1) => only.lines(),
            _ => counted(self.each().map(|cable| cable.lines().join(", ")), "cables"),
        }
    }
}

/// Each text once, with its number if there are several, or with `bare` where a text is empty.
fn counted(texts: impl Iterator<Item = String>, bare: &str) -> Vec<String> {
    let mut kinds: Vec<(String, usize)> = Vec::new();
    for text in texts {
        match kinds.iter_mut().find(|(known, _)| *known == text) {
            Some((_, count)) => *count += 1,
            None => kinds.push((text, 1)),
        }
    }
    let words = |(text, count): (String, usize)| match (text.is_empty(), count) {
        (true, _) => format!("{count} {bare}"),
        (false, 1) => text,
        (false, _) => format!("{count} x {text}"),
    };
    let more = kinds.len().saturating_sub(MOST_KINDS);
    let shown = kinds.into_iter().take(MOST_KINDS).map(words);
    shown.chain((more > 0).then(|| format!("and {more} more kinds"))).collect()
}

/// Both directions of a cable.
struct Cable<'a> {
    there: Option<&'a Link>,
    back: Option<&'a Link>,
}

impl Cable<'_> {
    fn both(&self) -> impl Iterator<Item = &Link> {
        [self.there, self.back].into_iter().flatten()
    }

    /// Rate and round trip.
    fn lines(&self) -> Vec<String> {
        let rates: Vec<f64> = self.both().filter_map(|link| Some(link.rate_bps? as f64)).collect();
        let rtt: f64 = self.both().map(|link| link.delay_s).sum();
        let mut lines = Vec::new();
        if let Some(first) = rates.first() {
            let other = rates.iter().find(|rate| *rate != first);
            lines.push(match other {
                None => Unit::alone("bps", *first),
                Some(other) => {
                    format!("{} / {}", Unit::alone("bps", *first), Unit::alone("bps", *other))
                }
            });
        }
        let around = self.both().map(|link| link.overhead_bytes).max().filter(|bytes| *bytes > 0);
        lines.extend(around.map(|bytes| format!("{bytes} B around each frame")));
        lines.extend((rtt > 0.0).then(|| format!("RTT {}", Unit::alone("s", rtt))));
        lines
    }

    /// All of it, with its queues.
    fn words(&self) -> String {
        let mut parts = self.lines();
        let mut queues: Vec<&String> = self.both().map(|link| &link.queue).collect();
        queues.retain(|queue| !queue.is_empty());
        queues.dedup();
        parts.extend(queues.into_iter().map(|queue| format!("queue {queue}")));
        parts.join(", ")
    }
}

/// Hosts that hang at the same switch by the same kind of cable.
struct Hosts {
    names: Vec<String>,
    switch: String,
    x: f64,
    y: f64,
}

/// The drawing, or nothing where the manifest has no network.
pub(crate) fn figure(manifest: &Manifest) -> Option<Figure> {
    let network = manifest.network.as_ref()?;
    let piece = draw(network)?;
    let mut csv = String::from("from,to,rate_bps,delay_s,queue,recorded,overhead_bytes\n");
    for link in &network.links {
        let rate = link.rate_bps.map_or_else(String::new, |rate| rate.to_string());
        let _ = writeln!(
            csv,
            "{},{},{rate},{},{},{},{}",
            cell(&link.from),
            cell(&link.to),
            link.delay_s,
            cell(&link.queue),
            link.recorded,
            link.overhead_bytes
        );
    }
    Some(Figure {
        id: format!("{}-network", slug(&manifest.experiment)),
        title: "The network".into(),
        caption: format!(
            "RTT: both directions of a link together. The picture shows a recorded queue.{}",
            if manifest.axes.iter().any(|axis| axis.values.len() > 1) {
                " Varied values are those of the first case."
            } else {
                ""
            }
        ),
        legend: Vec::new(),
        pieces: vec![piece],
        csv,
    })
}

/// Why there is no drawing of a network that is there.
pub(crate) fn not_drawn(manifest: &Manifest) -> Option<String> {
    let all = manifest.network.as_ref()?.nodes.len();
    (all > MOST_BOXES).then(|| {
        format!(
            "The network of {all} hosts and switches is too large to draw: a drawing has at \
            most {MOST_BOXES} different ones."
        )
    })
}

fn draw(network: &Network) -> Option<Piece> {
    let switches: Vec<&str> = network
        .nodes
        .iter()
        .filter(|node| node.kind == NodeKind::Switch)
        .map(|node| node.name.as_str())
        .collect();
    let is_switch = |name: &str| switches.contains(&name);
    // Before any are compared: of so many switches nothing is drawn.
    if switches.len() > MOST_BOXES {
        return None;
    }
    let mut groups = hosts(network, &is_switch);
    if switches.is_empty() || groups.len() + switches.len() > MOST_BOXES {
        return None;
    }
    let mut places: HashMap<String, (f64, f64)> = HashMap::new();
    let (width, mut height) = match chain(network, &switches) {
        Some(order) => place_chain(network, &order, &mut groups, &mut places),
        None => place_layers(network, &switches, &mut groups, &mut places),
    };
    let mut out = Svg::default();
    let mut to_hosts = Vec::new();
    for group in &groups {
        let Some(at) = places.get(&group.switch) else { continue };
        let cables = cables(network, &group.names[0], &group.switch);
        let ends = Ends { from: (group.x, group.y), to: *at, halves: (BOX.0 / 2.0, SWITCH / 2.0) };
        to_hosts.push((ends, cables, group.names.len()));
    }
    let mut between = Vec::new();
    for (i, one) in switches.iter().enumerate() {
        for other in &switches[i + 1..] {
            let cables = cables(network, one, other);
            let (Some(a), Some(b)) = (places.get(*one), places.get(*other)) else { continue };
            if cables.count() > 0 {
                let ends = Ends { from: *a, to: *b, halves: (SWITCH / 2.0, SWITCH / 2.0) };
                between.push((ends, cables, 1));
            }
        }
    }
    let boxes = groups.iter().map(|group| around((group.x, group.y), BOX));
    let symbols = places.values().map(|at| around(*at, (SWITCH, SWITCH)));
    let mut taken: Vec<Area> = boxes.chain(symbols).collect();
    // Names stand above their switches.
    taken.extend(switches.iter().filter_map(|name| {
        let (x, y) = places.get(*name)?;
        Some(around((*x, y - SWITCH / 2.0 - 10.0), (width_of(&switch_name(name)), 12.0)))
    }));
    let mut labels = Svg::default();
    let mut below: Vec<String> = Vec::new();
    for (what, all) in [("to hosts", &to_hosts), ("between switches", &between)] {
        for (ends, cables, _) in all {
            draw_strokes(&mut out, ends.from, ends.to, cables.count());
        }
        let texts: Vec<Label> =
            all.iter().flat_map(|(ends, cables, _)| ends.labels(cables)).collect();
        let whole = Area { left: 0.0, top: 0.0, right: width, bottom: height + MOST_LOWER };
        let areas: Vec<Area> = texts.iter().flat_map(Label::areas).collect();
        let fits = |(i, area): (usize, &Area)| {
            let others = areas[..i].iter().chain(&taken);
            area.is_inside(&whole) && !others.into_iter().any(|other| area.covers(other))
        };
        let is_between = what == "between switches";
        let is_many = is_between && all.len() > MOST_LABELLED;
        if !is_many && areas.iter().enumerate().all(fits) {
            texts.iter().for_each(|text| text.draw(&mut labels));
            all.iter().for_each(|(ends, cables, _)| ends.draw_queues(&mut labels, cables));
            height = areas.iter().fold(height, |height, area| height.max(area.bottom + 4.0));
            taken.extend(areas);
            continue;
        }
        // Labels would cover each other or run out of the picture: what cables carry stands below, once for each kind.
        all.iter().for_each(|(ends, cables, _)| ends.draw_queues(&mut labels, cables));
        below.extend(kinds_of_cables(what, all));
    }
    let most = ((width - 8.0) / 6.4) as usize;
    for line in below.iter().flat_map(|text| wrapped(text, most, &[','])) {
        let line = fitted(&line, width - 8.0);
        height += 16.0;
        labels.text("", (4.0, height - 6.0), Align::Start, &line);
    }
    out.0 += &labels.0;
    for name in &switches {
        let Some((x, y)) = places.get(*name) else { continue };
        let half = SWITCH / 2.0;
        let name = switch_name(name);
        // Cables that come from above do not cross the name.
        let behind = around((*x, y - half - 10.0), (width_of(&name) + 4.0, 13.0));
        out.rect("w", behind, VEIL);
        out.rect("h", around((*x, *y), (SWITCH, SWITCH)), "rx=\"3\"");
        let (to, back) = ((x - 9.0, y - 5.0), (x + 9.0, y + 6.0));
        let arrows = format!(
            "M{:.1} {:.1}h18m-5-4l5 4l-5 4M{:.1} {:.1}h-18m5-4l-5 4l5 4",
            to.0, to.1, back.0, back.1
        );
        out.path("a", arrows, "fill=\"none\" stroke-width=\"1.4\"");
        out.text("", (*x, y - half - 6.0), Align::Middle, &name);
    }
    for Hosts { names, x, y, .. } in &groups {
        if names.len() > 1 {
            out.rect("n", around((x + 4.0, y - 4.0), BOX), "rx=\"4\"");
        }
        out.rect("n", around((*x, *y), BOX), "rx=\"4\"");
        let label = fitted(&label(names, BOX.0 - 6.0), BOX.0 - 6.0);
        out.text("b", (*x, y + 4.0), Align::Middle, &label);
    }
    Some(Piece { width, height, body: out.0 })
}

/// Names as `s1..s40` where they are numbered and there is room, else with commas or their number.
fn label(names: &[String], room: f64) -> String {
    let split = |name: &String| {
        let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let number: Option<u64> = name[name.len() - digits..].parse().ok();
        (name[..name.len() - digits].to_owned(), number)
    };
    let parts: Vec<_> = names.iter().map(split).collect();
    let numbered = parts.windows(2).all(|pair| {
        let (a, b) = (&pair[0], &pair[1]);
        a.0 == b.0 && a.1.zip(b.1).is_some_and(|(a, b)| a + 1 == b)
    });
    let fits = |text: &str| width_of(text) <= room;
    match names {
        [only] => only.clone(),
        [first, .., last] if numbered && fits(&format!("{first}..{last}")) => {
            format!("{first}..{last}")
        }
        [a, b] if fits(&format!("{a}, {b}")) => format!("{a}, {b}"),
        [a, ..] => format!("{a} +{}", names.len() - 1),
        [] => String::new(),
    }
}

fn cables<'a>(network: &'a Network, from: &str, to: &str) -> Cables<'a> {
    let find = |from: &str, to: &str| {
        network.links.iter().filter(|link| link.from == from && link.to == to).collect()
    };
    Cables { there: find(from, to), back: find(to, from) }
}

fn hosts(network: &Network, is_switch: &dyn Fn(&str) -> bool) -> Vec<Hosts> {
    // Switches by host, so that large networks are read once.
    let mut at: HashMap<&str, &str> = HashMap::new();
    let mut cables: HashMap<(&str, &str), Vec<&Link>> = HashMap::new();
    for link in &network.links {
        cables.entry((&link.from, &link.to)).or_default().push(link);
        match (is_switch(&link.from), is_switch(&link.to)) {
            (false, true) => at.entry(&link.from).or_insert(&link.to),
            (true, false) => at.entry(&link.to).or_insert(&link.from),
            _ => continue,
        };
    }
    let kind = |links: Option<&Vec<&Link>>| {
        let words = |link: &&Link| {
            let Link { rate_bps, delay_s, queue, recorded, overhead_bytes, .. } = link;
            format!("{rate_bps:?} {delay_s} {queue:?} {recorded} {overhead_bytes}")
        };
        links.into_iter().flatten().map(words).collect::<Vec<_>>().join("; ")
    };
    let mut alike: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut groups: Vec<Hosts> = Vec::new();
    for node in network.nodes.iter().filter(|node| node.kind == NodeKind::Host) {
        let Some(switch) = at.get(node.name.as_str()) else { continue };
        let (there, back) = (
            cables.get(&(node.name.as_str(), *switch)),
            cables.get(&(*switch, node.name.as_str())),
        );
        let key = ((*switch).to_owned(), format!("{}|{}", kind(there), kind(back)));
        let group = *alike.entry(key).or_insert_with(|| {
            groups.push(Hosts { names: Vec::new(), switch: (*switch).to_owned(), x: 0.0, y: 0.0 });
            groups.len() - 1
        });
        groups[group].names.push(node.name.clone());
    }
    groups
}

/// Switches in a row, if each is a neighbour of at most two others.
fn chain<'a>(network: &Network, switches: &[&'a str]) -> Option<Vec<&'a str>> {
    let near = |a: &str, b: &str| {
        network
            .links
            .iter()
            .any(|link| link.from == a && link.to == b || link.from == b && link.to == a)
    };
    let neighbours =
        |name: &str| switches.iter().filter(|other| **other != name && near(name, other)).count();
    if switches.len() > 12 || switches.iter().any(|name| neighbours(name) > 2) {
        return None;
    }
    let first = switches.iter().find(|name| neighbours(name) < 2)?;
    let mut order = vec![*first];
    while let Some(next) =
        switches.iter().find(|name| !order.contains(name) && near(order[order.len() - 1], name))
    {
        order.push(next);
    }
    (order.len() == switches.len()).then_some(order)
}

/// Switches from left to right; hosts left of the first and right of the last, below those between.
fn place_chain(
    network: &Network,
    order: &[&str],
    groups: &mut [Hosts],
    places: &mut HashMap<String, (f64, f64)>,
) -> (f64, f64) {
    let receives = |group: &Hosts| {
        let of_group = |link: &&Link| link.from == group.switch && link.to == group.names[0];
        network.links.iter().filter(of_group).any(|link| link.recorded)
    };
    let (first, last) = (order[0], order[order.len() - 1]);
    let mut sides: Vec<usize> = Vec::new();
    let any = groups.iter().any(receives) && !groups.iter().all(receives);
    for (i, group) in groups.iter().enumerate() {
        // 0: left, 1: right, 2: below.
        sides.push(match (group.switch.as_str() == first, group.switch.as_str() == last) {
            (true, true) if any => usize::from(receives(group)),
            (true, true) => usize::from(i > 0 && i + 1 == groups.len()),
            (true, false) => 0,
            (false, true) => 1,
            (false, false) => 2,
        });
    }
    let count = |side: usize| sides.iter().filter(|s| **s == side).count();
    let rows = count(0).max(count(1)).max(1) as f64;
    let top = 34.0;
    let middle = top + (rows * ROW).max(64.0) / 2.0;
    let left = 8.0 + BOX.0 / 2.0;
    let begin = if count(0) > 0 { left + HOP } else { 60.0 };
    for (i, name) in order.iter().enumerate() {
        places.insert((*name).to_owned(), (begin + i as f64 * HOP, middle));
    }
    let end = begin + (order.len() - 1) as f64 * HOP;
    let mut below: HashMap<String, usize> = HashMap::new();
    let mut placed = [0usize; 2];
    let totals = [count(0) as f64, count(1) as f64];
    let mut deepest = 0;
    for (group, side) in groups.iter_mut().zip(&sides) {
        if *side < 2 {
            group.x = if *side == 0 { left } else { end + HOP };
            group.y = middle + (placed[*side] as f64 - (totals[*side] - 1.0) / 2.0) * ROW;
            placed[*side] += 1;
        } else {
            let nth = below.entry(group.switch.clone()).or_default();
            group.x = places[&group.switch].0 + 6.0;
            group.y = middle + 104.0 + *nth as f64 * 50.0;
            *nth += 1;
            deepest = deepest.max(*nth);
        }
    }
    let right = if count(1) > 0 { end + HOP + BOX.0 / 2.0 } else { end + 60.0 };
    let sides_end = middle + (rows * ROW).max(76.0) / 2.0;
    let below_end = if deepest > 0 { middle + 104.0 + deepest as f64 * 50.0 } else { 0.0 };
    (right + 8.0, sides_end.max(below_end) + 10.0)
}

/// Switches in rows by their distance from the hosts, which are at the bottom.
fn place_layers(
    network: &Network,
    switches: &[&str],
    groups: &mut [Hosts],
    places: &mut HashMap<String, (f64, f64)>,
) -> (f64, f64) {
    let mut near: HashMap<&str, Vec<&str>> = HashMap::new();
    for link in &network.links {
        near.entry(&link.from).or_default().push(&link.to);
        near.entry(&link.to).or_default().push(&link.from);
    }
    let mut rows: Vec<Vec<&str>> = Vec::new();
    let mut left: Vec<&str> = switches.to_vec();
    let mut row: Vec<&str> = left.clone();
    row.retain(|name| groups.iter().any(|group| group.switch == *name));
    while !left.is_empty() {
        // Those that no way leads to are the highest.
        if row.is_empty() {
            row.clone_from(&left);
        }
        left.retain(|name| !row.contains(name));
        let is_next = |name: &&str| {
            near.get(name).is_some_and(|near| near.iter().any(|other| row.contains(other)))
        };
        let next = left.iter().copied().filter(is_next).collect();
        rows.push(std::mem::replace(&mut row, next));
    }
    let widest = rows.iter().map(Vec::len).max().unwrap_or(1);
    let width = widest.max(3) as f64 * PITCH + 20.0;
    let lowest = 46.0 + (rows.len().max(1) - 1) as f64 * 104.0;
    for (level, row) in rows.iter().enumerate() {
        for (i, name) in row.iter().enumerate() {
            let x = width * (i as f64 + 0.5) / row.len() as f64;
            places.insert((*name).to_owned(), (x, lowest - level as f64 * 104.0));
        }
    }
    let mut below: HashMap<String, usize> = HashMap::new();
    let mut deepest = 1;
    for group in groups.iter_mut() {
        let nth = below.entry(group.switch.clone()).or_default();
        group.x = places.get(&group.switch).map_or(60.0, |place| place.0);
        group.y = lowest + 100.0 + *nth as f64 * 46.0;
        *nth += 1;
        deepest = deepest.max(*nth);
    }
    (width, lowest + 90.0 + deepest as f64 * 46.0)
}

/// A line for each of so many parallel cables.
fn draw_strokes(out: &mut Svg, from: (f64, f64), to: (f64, f64), count: usize) {
    let length = ((to.0 - from.0).powi(2) + (to.1 - from.1).powi(2)).sqrt().max(1.0);
    let aside = ((from.1 - to.1) / length, (to.0 - from.0) / length);
    let strokes = count.min(MOST_STROKES);
    for stroke in 0..strokes {
        let by = (stroke as f64 - (strokes as f64 - 1.0) / 2.0) * STROKES_APART;
        let (dx, dy) = (aside.0 * by, aside.1 * by);
        let path = through([from, to].map(|(x, y)| (x + dx, y + dy)).into_iter());
        out.path("a", path, "stroke-width=\"1.6\"");
    }
}

/// Where cables begin and end, and half the widths of what is there.
struct Ends {
    from: (f64, f64),
    to: (f64, f64),
    halves: (f64, f64),
}

impl Ends {
    fn is_steep(&self) -> bool {
        (self.to.1 - self.from.1).abs() > (self.to.0 - self.from.0).abs()
    }

    /// What the cables carry, and their recorded queues.
    fn labels(&self, cables: &Cables<'_>) -> Vec<Label> {
        let (from, to) = (self.from, self.to);
        let lines = cables.lines();
        // Between the boxes, above the cable; beside it where it is steep.
        let steep = self.is_steep();
        let (dx, dy) = ((to.0 - from.0).signum(), to.1 - from.1);
        let near = (from.0 + dx * self.halves.0, to.0 - dx * self.halves.1);
        // Cables that fan out are labelled nearer to their hosts, where they are apart.
        let share = match (steep, dy == 0.0) {
            (true, _) => 0.62,
            (false, true) => 0.5,
            (false, false) => 0.36,
        };
        let mid = if steep {
            (from.0 + (to.0 - from.0) * share, from.1 + dy * share)
        } else {
            (near.0 + (near.1 - near.0) * share, from.1 + dy * share)
        };
        // Above the queue's box.
        let lift = if cables.both().any(|link| link.recorded) { 12.0 } else { 7.0 };
        let above = mid.1 - lift - (lines.len() as f64 - 1.0) * LINE;
        let label = match steep {
            true => Label { lines, x: mid.0 + 6.0, y: mid.1 + 2.0, is_middle: false },
            false => Label { lines, x: mid.0, y: above, is_middle: true },
        };
        let queues = self.queues(cables).into_iter().map(|(queue, (x, y))| {
            // Below a cable that falls is its host.
            let lines = wrapped(&queue, if dy == 0.0 { 22 } else { 17 }, &[' ', ',']);
            let x = if steep { x + 20.0 } else { x - 16.0 };
            // Beside a cable that is level are boxes, down to 15 below it.
            let below = if dy == 0.0 { 26.0 } else { 21.0 };
            Label { lines, x, y: y + below, is_middle: false }
        });
        std::iter::once(label).chain(queues).filter(|label| !label.lines.is_empty()).collect()
    }

    /// Recorded queues in words, each with its place: at the end that it is in.
    fn queues(&self, cables: &Cables<'_>) -> Vec<(String, (f64, f64))> {
        let (there, back) = ((self.from, self.to), (self.to, self.from));
        let ends = [(&cables.there, there, self.halves.0), (&cables.back, back, self.halves.1)];
        let places = ends.into_iter().filter_map(|(links, (end, toward), half)| {
            let recorded = links.iter().filter(|link| link.recorded && !link.queue.is_empty());
            let queue = counted(recorded.map(|link| link.queue.clone()), "").join(", ");
            let length = ((toward.0 - end.0).powi(2) + (toward.1 - end.1).powi(2)).sqrt().max(1.0);
            let (ux, uy) = ((toward.0 - end.0) / length, (toward.1 - end.1) / length);
            let place = (end.0 + ux * (half + 20.0), end.1 + uy * (half + 20.0));
            (!queue.is_empty()).then_some((queue, place))
        });
        places.collect()
    }

    fn draw_queues(&self, out: &mut Svg, cables: &Cables<'_>) {
        for (_, (x, y)) in self.queues(cables) {
            out.rect("n", around((x, y), (32.0, 16.0)), "");
            for bar in 0..4 {
                let bar = format!("M{:.1} {:.1}v10", x + 11.0 - f64::from(bar) * 6.0, y - 5.0);
                out.path("a", bar, "stroke-width=\"3\"");
            }
        }
    }
}

/// What cables carry, a sentence for each kind with the number of its cables.
fn kinds_of_cables(what: &str, all: &[(Ends, Cables<'_>, usize)]) -> Vec<String> {
    let mut kinds: Vec<(String, usize)> = Vec::new();
    for (_, cables, times) in all {
        for words in cables.each().map(|cable| cable.words()) {
            match kinds.iter_mut().find(|(known, _)| *known == words) {
                Some((_, count)) => *count += times,
                None => kinds.push((words, *times)),
            }
        }
    }
    let more = kinds.len().saturating_sub(MOST_KINDS);
    let sentence = |(words, count): (String, usize)| {
        let links = if count == 1 { "link" } else { "links" };
        let words = if words.is_empty() { String::new() } else { format!(" of {words}") };
        format!("{what}: {count} {links}{words}")
    };
    let shown = kinds.into_iter().take(MOST_KINDS).map(sentence);
    shown.chain((more > 0).then(|| format!("{what}: {more} more kinds of links"))).collect()
}

/// The name of a switch, as far as there is room for it.
fn switch_name(name: &str) -> String {
    fitted(name, PITCH - 12.0)
}

/// Text in lines, cut behind these characters.
fn wrapped(text: &str, width: usize, behind: &[char]) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_inclusive(behind) {
        let last = lines.len() - 1;
        if !lines[last].is_empty()
            && lines[last].chars().count() + word.trim_end().chars().count() > width
        {
            lines.push(String::new());
        }
        let last = lines.len() - 1;
        lines[last].push_str(word);
    }
    lines.into_iter().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use knee_results::manifest::Node;

    fn link(from: &str, to: &str, recorded: bool) -> Link {
        let queue = if recorded { "droptail, limit 757 kB" } else { "" };
        Link {
            from: from.into(),
            to: to.into(),
            rate_bps: Some(1_000_000_000),
            delay_s: 5e-5,
            queue: queue.into(),
            recorded,
            ..Link::default()
        }
    }

    fn node(name: impl Into<String>, kind: NodeKind) -> Node {
        Node { name: name.into(), kind }
    }

    #[test]
    fn forty_hosts_are_one_box_and_the_queue_is_shown() {
        let mut network = Network::default();
        for i in 1..=40 {
            network.nodes.push(node(format!("s{i}"), NodeKind::Host));
            network.links.push(link(&format!("s{i}"), "switch", false));
            network.links.push(link("switch", &format!("s{i}"), false));
        }
        network.nodes.push(node("switch", NodeKind::Switch));
        network.nodes.push(node("r", NodeKind::Host));
        network.links.push(link("switch", "r", true));
        network.links.push(link("r", "switch", false));
        let piece = draw(&network).expect("is drawn");
        for wanted in [">s1..s40<", ">r<", ">switch<", "droptail", ">1 Gbps<", ">RTT 100 us<"] {
            assert!(piece.body.contains(wanted), "{wanted}: {}", piece.body);
        }
        assert!(!piece.body.contains(">s7<"));
    }

    /// Hosts at two switches, with parallel cables between these: of 1 Gbps, and a slower one.
    fn parallel(cables: usize) -> Network {
        let mut network = Network::default();
        for (name, kind) in [("a", NodeKind::Switch), ("b", NodeKind::Switch)] {
            network.nodes.push(node(name, kind));
        }
        for (host, switch) in [("h1", "a"), ("h2", "b")] {
            network.nodes.push(node(host, NodeKind::Host));
            network.links.push(Link { delay_s: 1e-6, ..link(host, switch, false) });
            network.links.push(Link { delay_s: 1e-6, ..link(switch, host, false) });
        }
        for at in 0..cables {
            let rate_bps = Some(if at == 2 { 10_000_000 } else { 1_000_000_000 });
            for (from, to) in [("a", "b"), ("b", "a")] {
                network.links.push(Link { rate_bps, ..link(from, to, from == "a") });
            }
        }
        network
    }

    #[test]
    fn parallel_cables_are_each_drawn_and_said() {
        let drawn = |cables: usize| draw(&parallel(cables)).expect("is drawn").body;
        let strokes = |body: &str| body.matches("stroke-width=\"1.6\"").count();
        let one = drawn(1);
        assert!(one.contains(">1 Gbps<") && !one.contains(" x "), "{one}");
        let three = drawn(3);
        for wanted in [">2 x 1 Gbps, RTT 100 us<", ">10 Mbps, RTT 100 us<", "3 x droptail"] {
            assert!(three.contains(wanted), "{wanted}: {three}");
        }
        assert_eq!(strokes(&three) - strokes(&one), 2);
        // So many are not told apart, but their number is.
        let many = drawn(100);
        assert!(many.contains(">99 x 1 Gbps, RTT 100 us<"), "{many}");
        assert_eq!(strokes(&many) - strokes(&one), MOST_STROKES - 1);
    }

    #[test]
    fn parallel_cables_of_many_switches_are_counted() {
        let mut network = parallel(3);
        for at in 0..5 {
            network.nodes.push(node(format!("c{at}"), NodeKind::Switch));
            network.links.push(link(&format!("c{at}"), "a", false));
            network.links.push(link(&format!("c{at}"), "a", false));
        }
        let body = draw(&network).expect("is drawn").body;
        assert!(body.contains("between switches: 10 links of 1 Gbps, RTT 50 us<"), "{body}");
        assert!(body.contains("between switches: 2 links of 1 Gbps, RTT 100 us, queue"), "{body}");
        assert!(body.contains("between switches: 1 link of 10 Mbps, RTT 100 us, queue"), "{body}");
    }

    #[test]
    fn a_network_that_nobody_could_read_is_not_drawn_and_that_is_said() {
        let mut network = Network::default();
        for i in 0..100_000 {
            // Every one a switch, each beside the next.
            network.nodes.push(node(format!("node-{i}"), NodeKind::Switch));
            network.links.push(link(&format!("node-{i}"), &format!("node-{}", i + 1), false));
        }
        let manifest = Manifest { network: Some(network), ..Manifest::default() };
        assert!(figure(&manifest).is_none());
        assert!(not_drawn(&manifest).expect("is said").contains("100000 hosts and switches"));
    }

    #[test]
    fn names_are_put_together_where_they_count_up() {
        let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(label(&names(&["s1", "s2", "s3"]), 80.0), "s1..s3");
        assert_eq!(label(&names(&["web", "db"]), 80.0), "web, db");
        assert_eq!(label(&names(&["a1", "a3", "a4"]), 80.0), "a1 +2");
        assert_eq!(label(&names(&["h0.0.0", "h0.0.1"]), 80.0), "h0.0.0 +1");
    }

    #[test]
    fn a_network_without_sense_is_not_drawn_and_breaks_nothing() {
        assert!(draw(&Network::default()).is_none());
        let ring: Vec<Link> =
            [("a", "b"), ("b", "c"), ("c", "a")].iter().map(|(a, b)| link(a, b, true)).collect();
        let nodes = ["a", "b", "c"].map(|name| node(name, NodeKind::Switch)).into();
        assert!(draw(&Network { nodes, links: ring, ..Network::default() }).is_some());
    }

    /// The areas of all texts of a drawing, with the texts.
    fn texts(piece: &Piece) -> Vec<(Area, String)> {
        let number = |element: &str, name: &str| -> f64 {
            let at = element.find(&format!(" {name}=\"")).expect("is there") + name.len() + 3;
            element[at..].split('"').next().and_then(|text| text.parse().ok()).expect("a number")
        };
        let elements = piece.body.split("<text").skip(1).map(|rest| {
            let (head, rest) = rest.split_once('>').expect("ends");
            let text = rest.split("</text>").next().expect("ends").to_owned();
            let (x, y, width) = (number(head, "x"), number(head, "y"), width_of(&text));
            let left = if head.contains("middle") { x - width / 2.0 } else { x };
            (Area { left, top: y - 9.0, right: left + width, bottom: y + 2.0 }, text)
        });
        elements.collect()
    }

    /// A fabric, whose ports to hosts have queues that are recorded, of so many kinds.
    fn fabric(leaves: usize, spines: usize, kinds: usize) -> Network {
        let mut network = Network::default();
        for leaf in 0..leaves {
            network.nodes.push(node(format!("leaf{leaf}"), NodeKind::Switch));
            for kind in 0..kinds {
                let name = format!("h{leaf}.{kind}");
                network.nodes.push(node(name.clone(), NodeKind::Host));
                let rate_bps = Some(1_000_000_000 * (kind as u64 + 1));
                let up = Link { rate_bps, ..link(&name, &format!("leaf{leaf}"), false) };
                let queue = "step, limit 757000 B, K 15140 B, ECN for all".to_owned();
                let down = Link { rate_bps, queue, ..link(&format!("leaf{leaf}"), &name, true) };
                network.links.extend([up, down]);
            }
        }
        for spine in 0..spines {
            network.nodes.push(node(format!("spine{spine}"), NodeKind::Switch));
            for leaf in 0..leaves {
                let (leaf, spine) = (format!("leaf{leaf}"), format!("spine{spine}"));
                network.links.push(link(&leaf, &spine, true));
                network.links.push(link(&spine, &leaf, true));
            }
        }
        network
    }

    #[test]
    fn labels_do_not_cover_each_other_and_stay_in_the_picture() {
        let mut parking_lot = fabric(3, 0, 2);
        for (from, to) in [("leaf0", "leaf1"), ("leaf1", "leaf2")] {
            parking_lot.links.extend([link(from, to, true), link(to, from, false)]);
        }
        let mut networks = vec![parking_lot, parallel(3)];
        for (leaves, spines) in [(1, 0), (2, 1), (2, 2), (3, 2), (4, 4), (8, 4)] {
            networks.extend((1..=3).map(|kinds| fabric(leaves, spines, kinds)));
        }
        for network in networks {
            let Some(piece) = draw(&network) else { continue };
            let names: Vec<&str> = network.nodes.iter().map(|node| node.name.as_str()).collect();
            let texts = texts(&piece);
            for (i, (area, text)) in texts.iter().enumerate() {
                let picture =
                    Area { left: 0.0, top: 0.0, right: piece.width, bottom: piece.height };
                assert!(area.is_inside(&picture), "{text} runs out of the picture of {names:?}");
                let under = texts[..i].iter().find(|(other, _)| area.covers(other));
                assert!(under.is_none(), "{text} covers {under:?} of {names:?}");
            }
            // What cables carry is said, beside them or below.
            assert!(piece.body.contains("1 Gbps") && piece.body.contains("757"), "{names:?}");
        }
    }

    #[test]
    fn a_fabric_of_three_stages_has_three_rows() {
        let mut network = fabric(4, 2, 1);
        network.nodes.push(node("core", NodeKind::Switch));
        network.links.extend([link("spine0", "core", false), link("spine1", "core", false)]);
        let body = draw(&network).expect("is drawn").body;
        let y = |name: &str| -> f64 {
            let end = body.find(&format!(">{name}<")).expect("has a name");
            let at = body[..end].rfind(" y=\"").expect("has a place") + 4;
            body[at..].split('"').next().and_then(|y| y.parse().ok()).expect("a number")
        };
        assert!(y("core") < y("spine0") && y("spine0") < y("leaf0") && y("leaf0") < y("h0.0"));
        assert_eq!(y("spine0"), y("spine1"));
    }
}
