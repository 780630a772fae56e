//! Traffic matrices: weights of pairs of groups of hosts, from a CSV file.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use knee_file::keys::{Key, Text};
use knee_file::{Error, Origin, Reader};
use knee_run::spec::NodeId;

use crate::inputs;
use crate::network::NetworkSpec;
use crate::random::Random;

/// Largest file, bytes, and most of its rows.
const MAX_BYTES: u64 = 16 << 20;
const MAX_ROWS: usize = 1_000_000;

/// Most hosts of all groups.
const MAX_MEMBERS: usize = 8_000_000;

/// How often which hosts send to which.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Matrix {
    rows: Vec<Row>,
}

#[derive(Clone, Debug, PartialEq)]
struct Row {
    from: Arc<[NodeId]>,
    to: Arc<[NodeId]>,
    /// Sum of the weights of all rows up to this one.
    up_to: f64,
}

impl Matrix {
    /// Reads the file that a key names. Its hosts must be among `from` and `to`.
    pub(crate) fn read(
        reader: &Reader<'_>,
        key: &Key<Text>,
        network: &NetworkSpec,
        (from, to): (&[NodeId], &[NodeId]),
    ) -> Result<Option<Matrix>, Error> {
        let Some(name) = reader.text(key)? else { return Ok(None) };
        let file = inputs::read_text(reader, key, name, MAX_BYTES, "traffic matrix")?;
        let hosts = |text: &str| network.hosts_of(&[text]);
        let sets = (from.iter().copied().collect(), to.iter().copied().collect());
        let matrix = parse(&file.text, &hosts, &sets);
        let matrix =
            matrix.map_err(|(line, why)| Error::new(&file.path, Origin::Line(line), "", why))?;
        Ok(Some(matrix))
    }

    /// Draws a row by its weight, and of it two hosts.
    pub(crate) fn pair(&self, random: &mut Random) -> (NodeId, NodeId) {
        let all = self.rows.last().map_or(0.0, |row| row.up_to);
        let at = random.unit() * all;
        let place = self.rows.partition_point(|row| row.up_to <= at);
        let row = &self.rows[place.min(self.rows.len() - 1)];
        loop {
            let from = row.from[random.below(row.from.len())];
            let to = row.to[random.below(row.to.len())];
            if from != to {
                return (from, to);
            }
        }
    }
}

/// The hosts that a cell names.
type Hosts<'a> = dyn Fn(&str) -> Result<Vec<NodeId>, String> + 'a;

/// Groups of hosts by what is written: rows repeat them.
struct Groups<'a> {
    hosts: &'a Hosts<'a>,
    known: HashMap<&'a str, Arc<[NodeId]>>,
    members: usize,
}

impl<'a> Groups<'a> {
    /// Returns the hosts of a cell, which must be among `all`.
    fn of(
        &mut self,
        column: &str,
        cell: &'a str,
        all: &HashSet<NodeId>,
    ) -> Result<Arc<[NodeId]>, String> {
        let group = match self.known.get(cell) {
            Some(group) => Arc::clone(group),
            None => {
                let named = (self.hosts)(cell).map_err(|why| format!("{column}: {why}"))?;
                self.members += named.len();
                if self.members > MAX_MEMBERS {
                    return Err(format!(
                        "{column}: the groups of all rows have more than {MAX_MEMBERS} hosts"
                    ));
                }
                let group: Arc<[NodeId]> = named.into();
                self.known.insert(cell, Arc::clone(&group));
                group
            }
        };
        match group.iter().all(|host| all.contains(host)) {
            true => Ok(group),
            false => Err(format!(
                "{column} = {}: names a host that the entry's {column:?} does not",
                inputs::shown(cell)
            )),
        }
    }
}

/// Parses a file. An error has its line.
fn parse<'a>(
    text: &'a str,
    hosts: &'a Hosts<'a>,
    (from, to): &(HashSet<NodeId>, HashSet<NodeId>),
) -> Result<Matrix, (u32, String)> {
    let lines = text.lines().map(str::trim).zip(1u32..);
    let mut lines = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
    let mut cells = Vec::new();
    let header = lines.next();
    if let Some((line, number)) = header {
        inputs::split(line, &mut cells).map_err(|why| (number, why))?;
    }
    if cells != ["from", "to", "weight"] {
        let line = header.map_or(1, |(_, line)| line);
        return Err((line, "must begin with from,to,weight".into()));
    }
    let mut groups = Groups { hosts, known: HashMap::new(), members: 0 };
    let mut rows: Vec<Row> = Vec::new();
    for (line, number) in lines {
        inputs::split(line, &mut cells).map_err(|why| (number, why))?;
        let row = parse_row(&cells, &mut groups, (from, to)).map_err(|why| (number, why))?;
        if rows.len() == MAX_ROWS {
            return Err((number, format!("has more than {MAX_ROWS} rows: take fewer")));
        }
        let before = rows.last().map_or(0.0, |last| last.up_to);
        rows.push(Row { up_to: before + row.up_to, ..row });
    }
    if rows.last().is_none_or(|last| last.up_to == 0.0) {
        return Err((1, "has no row with a weight above 0".into()));
    }
    Ok(Matrix { rows })
}

fn parse_row<'a>(
    cells: &[&'a str],
    groups: &mut Groups<'a>,
    (from, to): (&HashSet<NodeId>, &HashSet<NodeId>),
) -> Result<Row, String> {
    let [senders, receivers, weight] = cells[..] else {
        return Err(format!("has {} cells, not 3: from,to,weight", cells.len()));
    };
    let weight = match weight.parse::<f64>() {
        Ok(weight) if (0.0..=1e12).contains(&weight) => weight,
        _ => {
            let weight = inputs::shown(weight);
            return Err(format!("weight = {weight}: must be a number from 0 to 10^12"));
        }
    };
    let row = Row {
        from: groups.of("from", senders, from)?,
        to: groups.of("to", receivers, to)?,
        up_to: weight,
    };
    if !row.from.iter().any(|from| row.to.iter().any(|to| from != to)) {
        return Err("from and to are the same host: its traffic crosses no network".into());
    }
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Matrix, (u32, String)> {
        let hosts = |cell: &str| {
            let all =
                cell.split(' ').map(|host| host.parse().map_err(|_| format!("no host {host:?}")));
            all.collect::<Result<Vec<NodeId>, String>>()
        };
        parse(text, &hosts, &((0..8).collect(), (0..8).collect()))
    }

    #[test]
    fn pairs_are_drawn_by_weight() {
        let matrix = parsed("from,to,weight\n0 1,2,3\n3,4,0\n4 5,4 5,1\n").unwrap();
        let mut random = Random::new(5, &[]);
        let pairs: Vec<_> = (0..20_000).map(|_| matrix.pair(&mut random)).collect();
        let count = |pair| pairs.iter().filter(|other| **other == pair).count();
        // Three quarters and a quarter of them, each half to either pair; standard deviations of 68 and 47.
        for (pair, wanted) in [((0, 2), 7500), ((1, 2), 7500), ((4, 5), 2500), ((5, 4), 2500)] {
            assert!(count(pair).abs_diff(wanted) < 300, "{pair:?}: {}", count(pair));
        }
        assert_eq!(count((3, 4)), 0);
    }

    #[test]
    fn bad_rows_are_refused_with_their_line() {
        let head = "from,to,weight\n";
        for (text, line, words) in [
            ("0,1,2\n".into(), 1, "must begin with"),
            (format!("{head}# none\n"), 1, "no row with a weight"),
            (format!("{head}0,1\n"), 2, "has 2 cells"),
            (format!("{head}0,1,-1\n"), 2, "weight = \"-1\""),
            (format!("{head}0,1,1\n0,9,1\n"), 3, "names a host that"),
            (format!("{head}x,1,1\n"), 2, "no host"),
            (format!("{head}1,1,1\n"), 2, "the same host"),
        ] {
            let (at, why) = parsed(&text).unwrap_err();
            assert!(at == line && why.contains(words), "{text:?}: {at} {why}");
        }
        let long = "x".repeat(1000);
        assert!(parsed(&format!("{head}1,2,{long}\n")).unwrap_err().1.len() < 150);
    }

    #[test]
    fn large_ranges_are_kept_once_and_not_too_many_of_them() {
        // Every cell names two million hosts.
        let hosts = |_: &str| Ok([vec![0; MAX_MEMBERS / 4 - 1], vec![1]].concat());
        let said = |rows: &str| {
            let text = format!("from,to,weight\n{rows}");
            parse(&text, &hosts, &((0..2).collect(), (0..2).collect()))
        };
        let equal = said(&"a,b,1\n".repeat(50)).unwrap();
        let of_first = |row: &Row| Arc::ptr_eq(&row.from, &equal.rows[0].from);
        assert!(equal.rows.iter().all(of_first));
        let different: String = (0..5).map(|row| format!("a{row},b,1\n")).collect();
        let (line, why) = said(&different).unwrap_err();
        assert!(line == 5 && why.contains("more than 8000000 hosts"), "{line}: {why}");
    }
}
