//! Sizes of transfers: one size, or a distribution.

use std::path::Path;

use knee_file::keys::{self, Special};
use knee_file::units::{Quantity, Share, Size};
use knee_file::{Error, Node, Origin, Reader, Table, Value, one_of};
use knee_run::sizes::PUBLISHED;

use serde_json::{Value as Json, json};

use crate::inputs;
use crate::random::Random;

/// Largest file of a distribution, bytes, and most of its points.
const MAX_BYTES: u64 = 4 << 20;
const MAX_POINTS: usize = 100_000;

/// Values of the key, in words and as JSON Schema.
pub(crate) fn takes() -> (String, Json) {
    let (size, pattern) = Size::written();
    let (names, named) = keys::words(PUBLISHED.iter().map(|(name, _)| *name));
    let one = json!({ "type": "string", "pattern": pattern });
    let pairs = json!({ "type": "array", "minItems": 1, "items": { "type": "array", "items": { "type": "string" } } });
    let file = json!({ "type": "string", "pattern": "\\.(csv|txt)$" });
    let mix = json!({
        "type": "object", "properties": { "mix": pairs }, "required": ["mix"], "additionalProperties": false
    });
    let words = format!(
        "{names}, {size}, `{{ mix = list of pairs of size and its share }}`, list of pairs of size and cumulative share (linear \
         between), or file (`.csv` or `.txt`) of bytes and cumulative shares"
    );
    (words, json!({ "anyOf": [named, one, mix, pairs, file] }))
}

/// Smallest share that is shown: 0.0001 %.
const SHOWN: f64 = 1e-6;

/// A distribution of sizes, linear between points. Below the first point's share, the size is that of the first
/// point.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sizes {
    /// Points whose sizes and shares never fall. The last share is 1.
    points: Vec<(u64, f64)>,
}

impl Sizes {
    /// Reads the key.
    pub(crate) fn read(reader: &Reader<'_>, key: &Special) -> Result<Sizes, Error> {
        let Some(node) = reader.node(key) else {
            return Err(reader.missing(key, "\"web-search\""));
        };
        let text = node.text().unwrap_or("");
        let points = match &node.value {
            Value::List(items) => listed(items),
            Value::Table(table) => mixed(table),
            _ if is_file(text) => {
                let points = filed(reader, key, text)?;
                reader.note(key, node.json());
                return Ok(Sizes { points });
            }
            _ => named(text),
        };
        let points = points.map_err(|why| reader.error(key, why))?;
        reader.note(key, node.json());
        Ok(Sizes { points })
    }

    #[cfg(test)]
    pub(crate) fn read_text(text: &str) -> Sizes {
        Sizes { points: named(text).unwrap_or_default() }
    }

    pub(crate) fn draw(&self, random: &mut Random) -> u64 {
        let share = random.unit();
        let above = self.points.partition_point(|(_, up_to)| *up_to <= share);
        let Some(&(larger, up_to)) = self.points.get(above) else { return self.largest() };
        let Some(&(smaller, from)) = above.checked_sub(1).and_then(|i| self.points.get(i)) else {
            return larger;
        };
        let within = (share - from) / (up_to - from);
        smaller + ((larger - smaller) as f64 * within).round() as u64
    }

    pub(crate) fn mean_bytes(&self) -> f64 {
        let first = self.points.first().map_or(0.0, |(size, share)| *size as f64 * share);
        let between = self.points.windows(2).map(|pair| {
            let ((a, from), (b, to)) = (pair[0], pair[1]);
            (to - from) * (a as f64 + b as f64) / 2.0
        });
        first + between.sum::<f64>()
    }

    /// Describes the distribution. `None` for a single size.
    pub(crate) fn words(&self) -> Option<String> {
        let named = PUBLISHED.iter().find(|(_, points)| *points == self.points);
        sizes_words(&self.points, named.map(|(name, _)| *name), self.mean_bytes())
    }

    pub(crate) fn smallest(&self) -> u64 {
        self.points.first().map_or(1, |(size, _)| *size)
    }

    pub(crate) fn largest(&self) -> u64 {
        self.points.last().map_or(1, |(size, _)| *size)
    }
}

/// Describes points of a distribution of sizes, linear between them.
fn sizes_words(points: &[(u64, f64)], name: Option<&str>, mean_bytes: f64) -> Option<String> {
    const FEW: usize = 4;
    let (first, last) = (points.first()?, points.last()?);
    if first.0 == last.0 {
        return None;
    }
    let size = |bytes: u64| Size(bytes).show();
    let percent = |share: f64| format!("{} %", (share * 1e6).round() / 1e4);
    let mean = shown_mean(mean_bytes);
    let only = mix_of(points);
    let (count, smallest, largest) = (points.len(), size(first.0), size(last.0));
    if let Some(only) = only.as_ref().filter(|only| name.is_none() && only.len() <= FEW) {
        let all =
            only.iter().map(|(bytes, share)| format!("{} ({})", size(*bytes), percent(*share)));
        let all = all.collect::<Vec<_>>().join(", ");
        return Some(format!("sizes are only those of the mix {all}; mean {mean}"));
    }
    let given = match (name, count <= FEW) {
        (Some(name), _) => format!("the {count} points of {name}, {smallest} to {largest}"),
        (None, true) => {
            let points = points
                .iter()
                .map(|(bytes, share)| format!("{} ({})", size(*bytes), percent(*share)));
            format!("the points {}", points.collect::<Vec<_>>().join(", "))
        }
        (None, false) => format!("the {count} points from {smallest} to {largest}"),
    };
    if only.is_some() {
        return Some(format!("sizes are only those of {given}; mean {mean}"));
    }
    let mut words = format!("sizes are interpolated: any size between {given}; mean {mean}");
    if name.is_none() && count <= FEW {
        let mut before = 0.0;
        let exact = points.iter().filter_map(|(bytes, share)| {
            let own = share - std::mem::replace(&mut before, *share);
            (own >= SHOWN).then(|| format!("[{:?}, {:?}]", size(*bytes), percent(own)))
        });
        let exact = exact.collect::<Vec<_>>().join(", ");
        words.push_str(&format!(". For these sizes alone: sizes = {{ mix = [{exact}] }}"));
    }
    Some(words)
}

/// Returns the sizes with their own shares if none between is possible.
fn mix_of(points: &[(u64, f64)]) -> Option<Vec<(u64, f64)>> {
    let is_between = |pair: &[(u64, f64)]| pair[1].0 > pair[0].0 && pair[1].1 > pair[0].1;
    if points.windows(2).any(is_between) {
        return None;
    }
    let mut all: Vec<(u64, f64)> = Vec::new();
    let mut before = 0.0;
    for (size, share) in points {
        let own = share - std::mem::replace(&mut before, *share);
        match all.last_mut() {
            Some((last, sum)) if last == size => *sum += own,
            _ => all.push((*size, own)),
        }
    }
    all.retain(|(_, share)| *share > 0.0);
    Some(all)
}

/// A mean of sizes with four digits.
fn shown_mean(bytes: f64) -> String {
    let units = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let (scale, unit) = units.into_iter().find(|(scale, _)| bytes >= *scale).unwrap_or((1.0, "B"));
    let value = bytes / scale;
    let digits = 3_usize.saturating_sub(value.max(1.0).log10() as usize);
    format!("{value:.digits$} {unit}")
}

/// Returns whether the text names a file.
fn is_file(text: &str) -> bool {
    let extension = Path::new(text).extension();
    extension.is_some_and(|extension| extension == "csv" || extension == "txt")
}

/// Reads a file with a size in bytes and a cumulative share in each line.
fn filed(reader: &Reader<'_>, key: &Special, name: &str) -> Result<Vec<(u64, f64)>, Error> {
    let file = inputs::read_text(reader, key, name, MAX_BYTES, "distribution of sizes")?;
    points_of(&file.text).map_err(|(line, why)| Error::new(&file.path, Origin::Line(line), "", why))
}

/// Parses the lines of a file. Shares go up to 1, or to 100 as per cent. An error has its line.
fn points_of(text: &str) -> Result<Vec<(u64, f64)>, (u32, String)> {
    let mut points: Vec<(u64, f64)> = Vec::new();
    let mut last_line = 1;
    let mut may_be_header = true;
    for (line, number) in text.lines().map(str::trim).zip(1u32..) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let is_header = std::mem::take(&mut may_be_header) && line.starts_with(char::is_alphabetic);
        if is_header {
            continue;
        }
        last_line = number;
        let mut cells = line.split([',', ' ', '\t']).filter(|cell| !cell.is_empty());
        let (Some(size), Some(share), None) = (cells.next(), cells.next(), cells.next()) else {
            return Err((
                number,
                "must have two numbers, bytes and cumulative share, as in 10000,0.15".into(),
            ));
        };
        let size = match size.parse::<f64>() {
            Ok(size) if (0.0..=1e15).contains(&size) => (size.round() as u64).max(1),
            _ => {
                let size = inputs::shown(size);
                return Err((number, format!("{size}: must be a size in bytes from 0 to 10^15")));
            }
        };
        let share = match share.parse::<f64>() {
            Ok(share) if (0.0..=100.0).contains(&share) => share,
            _ => {
                let share = inputs::shown(share);
                let why = format!("{share}: must be a cumulative share from 0 to 1, or to 100");
                return Err((number, why));
            }
        };
        if points.last().is_some_and(|last| last.0 > size || last.1 > share) {
            return Err((number, "must not be below the line before it, in size or share".into()));
        }
        if points.len() == MAX_POINTS {
            return Err((number, format!("has more than {MAX_POINTS} points: take fewer")));
        }
        points.push((size, share));
    }
    match points.last().copied() {
        Some((_, whole)) if (whole - 1.0).abs() < 1e-9 || (whole - 100.0).abs() < 1e-9 => {
            points.iter_mut().for_each(|(_, share)| *share /= whole);
            Ok(points)
        }
        _ => Err((
            last_line,
            "must end with the largest size and the share 1, or 100 for per cent".into(),
        )),
    }
}

/// Parses a built-in distribution, or one size.
fn named(text: &str) -> Result<Vec<(u64, f64)>, String> {
    if let Some((_, points)) = PUBLISHED.iter().find(|(name, _)| *name == text) {
        return Ok(points.to_vec());
    }
    match Size::parse(text) {
        Ok(size) => Ok(vec![(size.0, 1.0)]),
        Err(_) => {
            let names = PUBLISHED.iter().map(|(name, _)| *name);
            Err(format!(
                "must be a size (\"20 kB\"), a mix ({{ mix = [[\"10 kB\", \"90 %\"], [\"1 MB\", \"10 %\"]] }}), \
                 sizes with cumulative shares ([[\"1 kB\", \"50 %\"], [\"1 MB\", \"100 %\"]]), a file \
                 (\"sizes.csv\"), or a distribution, which {}",
                one_of(text, names)
            ))
        }
    }
}

/// Parses a pair of a size and a share.
fn pair(item: &Node, example: &str) -> Result<(u64, f64), String> {
    let pair = match &item.value {
        Value::List(pair) => pair.as_slice(),
        _ => &[],
    };
    let [size, share] = pair else {
        return Err(format!("must be a list of pairs, as in {example}"));
    };
    let text = |node: &Node| node.text().unwrap_or("").to_owned();
    Ok((Size::parse(&text(size))?.0, Share::parse(&text(share))?.0))
}

/// Parses sizes and the share of each. No other size is drawn.
fn mixed(table: &Table) -> Result<Vec<(u64, f64)>, String> {
    const EXAMPLE: &str = "{ mix = [[\"10 kB\", \"90 %\"], [\"1 MB\", \"10 %\"]] }";
    let items = match table.as_slice() {
        [(key, Node { value: Value::List(items), .. })] if key == "mix" => items,
        _ => return Err(format!("must be sizes with their shares, as in {EXAMPLE}")),
    };
    let parts = items.iter().map(|item| pair(item, EXAMPLE));
    let mut parts = parts.collect::<Result<Vec<_>, _>>()?;
    if parts.iter().any(|(_, share)| *share <= 0.0) {
        return Err("shares of a mix must be above 0 %".into());
    }
    let whole = parts.iter().fold(0.0, |sum, (_, share)| sum + share);
    if (whole - 1.0).abs() > SHOWN * parts.len() as f64 {
        let percent = (whole * 1e6).round() / 1e4;
        return Err(format!("shares of a mix must add up to 100 %, not {percent} %"));
    }
    parts.sort_by_key(|(size, _)| *size);
    let mut points: Vec<(u64, f64)> = Vec::new();
    let mut sum = 0.0;
    for (size, share) in parts {
        // A step: up to the sum before it are smaller ones.
        points.extend((sum > 0.0).then_some((size, sum)));
        sum += share;
        points.push((size, sum));
    }
    if let Some((_, last)) = points.last_mut() {
        *last = 1.0;
    }
    Ok(points)
}

/// Parses pairs of a size and the share of transfers up to it.
fn listed(items: &[Node]) -> Result<Vec<(u64, f64)>, String> {
    let mut points: Vec<(u64, f64)> = Vec::new();
    for item in items {
        let point = pair(item, "[[\"1 kB\", \"50 %\"], [\"1 MB\", \"100 %\"]]")?;
        if points.last().is_some_and(|last| last.0 > point.0 || last.1 > point.1) {
            return Err("must increase from pair to pair, both sizes and shares".into());
        }
        points.push(point);
    }
    match points.last() {
        Some((_, 1.0)) => Ok(points),
        _ => Err("must end with the largest size and \"100 %\"".into()),
    }
}

#[cfg(test)]
mod tests {
    use knee_run::sizes::{CACHE_FOLLOWER, DATA_MINING, HADOOP, STORAGE, WEB_SEARCH};

    use super::*;

    fn sizes(points: &[(u64, f64)]) -> Sizes {
        Sizes { points: points.to_vec() }
    }

    /// Checks means computed by hand: the sum over pieces of share times middle.
    #[test]
    fn the_published_distributions_have_their_known_means() {
        // In kB: 0.75 + 0.75 + 2.5 + 4 + 8.45 + 9.8 + 60 + 150 + 350 + 525 + 600.
        let web = sizes(WEB_SEARCH).mean_bytes();
        assert!((web - 1_711_250.0).abs() < 1.0, "{web}");
        // In kB: 0.47 for the first seven, then 0.66, 20.5, 89, 2063.2 and 5500.
        let mining = sizes(DATA_MINING).mean_bytes();
        assert!((mining - 7_673_800.0).abs() < 1_000.0, "{mining}");
        // In kB: 0.08 up to 400 B, 0.26 to 2 kB, 0.51 to 30 kB, 4, 3.25, 3, 10.5, 16.25, 22.5 and 60.
        let hadoop = sizes(HADOOP).mean_bytes();
        assert!((hadoop - 120_400.0).abs() < 100.0, "{hadoop}");
        // In kB: 0.46, 2.78, 1.37, 2.37, 1.47, 3.11, 1.46 and 27.86.
        let storage = sizes(STORAGE).mean_bytes();
        assert!((storage - 40_870.0).abs() < 10.0, "{storage}");
        // In kB: 0.3 up to 1440 B, 0.6 to 28 kB, 21.3, 12.4, 18.2, 9.6, 543.4, 43.2 and 38.3.
        let cache = sizes(CACHE_FOLLOWER).mean_bytes();
        assert!((cache - 687_300.0).abs() < 300.0, "{cache}");
    }

    #[test]
    fn every_published_distribution_rises_to_1_and_has_a_name() {
        for (name, points) in PUBLISHED {
            let rises =
                points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1);
            assert!(rises && points.last().is_some_and(|last| last.1 == 1.0), "{name}");
            assert_eq!(Sizes::read_text(name), sizes(points));
        }
    }

    #[test]
    fn draws_follow_the_distribution() {
        let web = sizes(WEB_SEARCH);
        let mut random = Random::new(7, &[]);
        let draws: Vec<u64> = (0..200_000).map(|_| web.draw(&mut random)).collect();
        let mean = draws.iter().sum::<u64>() as f64 / draws.len() as f64;
        // The standard deviation of one size is 4.0 MB, that of this mean 9 kB.
        assert!((mean - web.mean_bytes()).abs() < 36_000.0, "{mean}");
        for (size, share) in WEB_SEARCH {
            let below = draws.iter().filter(|draw| *draw <= size).count() as f64;
            assert!((below / 200_000.0 - share).abs() < 0.005, "{size}: {below}");
        }
    }

    #[test]
    fn a_first_share_above_zero_is_of_that_size_alone() {
        let two = sizes(&[(1000, 0.5), (1000, 0.5), (2000, 0.5), (2000, 1.0)]);
        let mut random = Random::new(1, &[]);
        let draws: Vec<u64> = (0..10_000).map(|_| two.draw(&mut random)).collect();
        assert!(draws.iter().all(|draw| [1000, 2000].contains(draw)));
        let small = draws.iter().filter(|draw| **draw == 1000).count();
        assert!((4800..5200).contains(&small), "{small}");
        assert!((two.mean_bytes() - 1500.0).abs() < 1e-9);
        assert_eq!(sizes(&[(70, 1.0)]).draw(&mut random), 70);
    }

    #[test]
    fn a_mix_draws_its_sizes_alone() {
        let mix = |text: &str| {
            let root = knee_file::parse(Path::new("x.toml"), &format!("sizes = {text}"))?;
            let node = &root.table().expect("a table")[0].1;
            Ok::<_, Error>(mixed(node.table().expect("a table")))
        };
        let points = mix(r#"{ mix = [["1 MB", "10 %"], ["10 kB", "90 %"]] }"#).unwrap().unwrap();
        let mixed = sizes(&points);
        assert!((mixed.mean_bytes() - 109_000.0).abs() < 1e-6, "{}", mixed.mean_bytes());
        let mut random = Random::new(3, &[]);
        let draws: Vec<u64> = (0..10_000).map(|_| mixed.draw(&mut random)).collect();
        assert!(draws.iter().all(|draw| [10_000, 1_000_000].contains(draw)));
        // The standard deviation is 30.
        let large = draws.iter().filter(|draw| **draw == 1_000_000).count();
        assert!((880..1120).contains(&large), "{large}");
        let words = mixed.words().unwrap();
        assert_eq!(
            words,
            "sizes are only those of the mix 10 kB (90 %), 1 MB (10 %); mean 109.0 kB"
        );
        // Thirds are not exact.
        let thirds = r#"{ mix = [["1 B", "33.3 %"], ["2 B", "33.3 %"], ["3 B", "33.4 %"]] }"#;
        assert_eq!(mix(thirds).unwrap().unwrap().last(), Some(&(3, 1.0)));
        for (text, says) in [
            (r#"{ mix = [["1 kB", "90 %"], ["1 MB", "20 %"]] }"#, "add up to 100 %, not 110 %"),
            (r#"{ mix = [["1 kB", "100 %"], ["1 MB", "0 %"]] }"#, "must be above 0 %"),
            (r#"{ mix = [] }"#, "add up to 100 %, not 0 %"),
            (r#"{ mix = ["1 kB"] }"#, "list of pairs"),
            (r#"{ mixed = [["1 kB", "100 %"]] }"#, "{ mix = [["),
        ] {
            let why = mix(text).unwrap().unwrap_err();
            assert!(why.contains(says), "{text}: {why}");
        }
    }

    #[test]
    fn a_file_has_shares_or_per_cent_and_errors_have_lines() {
        let wanted = vec![(1, 0.0), (1000, 0.5), (2000, 1.0)];
        assert_eq!(points_of("bytes,share\n0,0\n1000,0.5\n2000,1\n"), Ok(wanted.clone()));
        assert_eq!(points_of("# of a paper\n1 0\n1000 50\n\n2000\t100\n"), Ok(wanted));
        let said = |text: &str| points_of(text).unwrap_err();
        for (text, line, words) in [
            ("", 1, "must end with"),
            ("1,0\n2,0.9\n", 2, "must end with"),
            ("1,0\n2\n", 2, "two numbers"),
            ("1,0\nx,1\n", 2, "size in bytes"),
            ("1,0\n2,nan\n", 2, "cumulative share"),
            ("5,0.5\n4,1\n", 2, "not be below"),
            ("5,0.5\n6,0.4\n7,1\n", 2, "not be below"),
        ] {
            let (at, why) = said(text);
            assert!(at == line && why.contains(words), "{text:?}: {at} {why}");
        }
        let long = "9".repeat(1000);
        assert!(said(&format!("{long},1")).1.len() < 150);
        assert!(said(&format!("1,{long}")).1.len() < 150);
    }
}
