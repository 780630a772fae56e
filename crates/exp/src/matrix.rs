//! Traffic matrices: weights of pairs of groups of hosts, from a CSV file.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use knee_file::keys::{Key, Text};
use knee_file::{Error, Origin, Reader, shown, unmarked};
use knee_run::spec::NodeId;

use crate::network::NetworkSpec;
use crate::random::Random;

/// Largest file, bytes, and most of its rows.
const MAX_BYTES: u64 = 16 << 20;
const MAX_ROWS: usize = 1_000_000;
/// Most hosts that all different cells of a file may name together.
const MAX_NAMED: usize = 4_000_000;

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
        let path = reader.file().parent().unwrap_or(Path::new("")).join(name);
        let text = knee_files::read_text(&path, MAX_BYTES, "traffic matrix")
            .map_err(|why| reader.error(key, why.to_string()))?;
        let hosts = |text: &str| network.hosts_of(&[text]);
        let sets = (from.iter().copied().collect(), to.iter().copied().collect());
        let matrix = parse(&text, &hosts, &sets);
        let matrix =
            matrix.map_err(|(line, why)| Error::new(&path, Origin::Line(line), "", why))?;
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

/// Cells of one column that were read, so that those of equal text are one list.
struct Column<'a> {
    name: &'static str,
    /// Hosts that the entry names.
    all: &'a HashSet<NodeId>,
    known: HashMap<&'a str, Arc<[NodeId]>>,
    named: usize,
}

impl<'a> Column<'a> {
    fn new(name: &'static str, all: &'a HashSet<NodeId>) -> Column<'a> {
        Column { name, all, known: HashMap::new(), named: 0 }
    }

    fn read(&mut self, cell: &'a str, hosts: &Hosts<'_>) -> Result<Arc<[NodeId]>, String> {
        if let Some(known) = self.known.get(cell) {
            return Ok(Arc::clone(known));
        }
        let column = self.name;
        let named = hosts(cell).map_err(|why| format!("{column}: {why}"))?;
        if !named.iter().all(|host| self.all.contains(host)) {
            return Err(format!(
                "{column} = \"{}\": names a host that the entry's {column:?} does not",
                shown(cell)
            ));
        }
        self.named += named.len();
        if self.named > MAX_NAMED {
            return Err(format!(
                "{column}: cells of this column up to here name more than {MAX_NAMED} hosts: use fewer different ranges"
            ));
        }
        let named: Arc<[NodeId]> = named.into();
        self.known.insert(cell, Arc::clone(&named));
        Ok(named)
    }
}

/// Parses a file. An error has its line.
fn parse(
    text: &str,
    hosts: &Hosts<'_>,
    (from, to): &(HashSet<NodeId>, HashSet<NodeId>),
) -> Result<Matrix, (u32, String)> {
    let mut columns = (Column::new("from", from), Column::new("to", to));
    let lines = unmarked(text).lines().map(str::trim).zip(1u32..);
    let mut lines = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
    let is_header = |line: &str| line.split(',').map(str::trim).eq(["from", "to", "weight"]);
    match lines.next() {
        Some((line, _)) if is_header(line) => {}
        first => {
            return Err((
                first.map_or(1, |(_, line)| line),
                "must begin with from,to,weight".into(),
            ));
        }
    }
    let mut rows: Vec<Row> = Vec::new();
    for (line, number) in lines {
        let row = parse_row(line, hosts, &mut columns).map_err(|why| (number, why))?;
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
    line: &'a str,
    hosts: &Hosts<'_>,
    (from, to): &mut (Column<'a>, Column<'a>),
) -> Result<Row, String> {
    let mut cells = line.split(',').map(str::trim);
    let (Some(senders), Some(receivers), Some(weight), None) =
        (cells.next(), cells.next(), cells.next(), cells.next())
    else {
        return Err(format!("has {} cells, not 3: from,to,weight", line.split(',').count()));
    };
    let weight = match weight.parse::<f64>() {
        Ok(weight) if (0.0..=1e12).contains(&weight) => weight,
        _ => {
            return Err(format!(
                "weight = \"{}\": must be a number from 0 to 10^12",
                shown(weight)
            ));
        }
    };
    let row =
        Row { from: from.read(senders, hosts)?, to: to.read(receivers, hosts)?, up_to: weight };
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
        let matrix = parsed("\u{feff}from,to,weight\n0 1,2,3\n3,4,0\n4 5,4 5,1\n").unwrap();
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
        // Every cell names a million hosts.
        let hosts = |_: &str| Ok([vec![0; MAX_NAMED / 4 - 1], vec![1]].concat());
        let said = |rows: &str| {
            let text = format!("from,to,weight\n{rows}");
            parse(&text, &hosts, &((0..2).collect(), (0..2).collect()))
        };
        let equal = said(&"a,b,1\n".repeat(50)).unwrap();
        let of_first = |row: &Row| Arc::ptr_eq(&row.from, &equal.rows[0].from);
        assert!(equal.rows.iter().all(of_first));
        let different: String = (0..5).map(|row| format!("a{row},b,1\n")).collect();
        let (line, why) = said(&different).unwrap_err();
        assert!(line == 6 && why.contains("more than 4000000 hosts"), "{line}: {why}");
    }
}
