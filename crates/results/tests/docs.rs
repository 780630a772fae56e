//! docs/results.md names the columns that there are, in their order, and lists every metric.

use std::fs;

use knee_results::{Metric, ResultFile};

fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/results.md");
    fs::read_to_string(path).expect("the page is there")
}

/// Words between backticks.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// What the page says of a table's columns.
fn said_of(page: &str, file: ResultFile) -> String {
    let name = file.name();
    let of_summary = || page.split_once(&format!("**{name}**"))?.1.split_once("\n\nThe metric");
    let row = || page.lines().rfind(|line| line.starts_with(&format!("| `{name}` |")));
    let said = match file {
        ResultFile::Summary => of_summary().map(|(said, _)| said.to_owned()),
        _ => row().and_then(|row| Some(row.split_once(" | ")?.1.to_owned())),
    };
    said.unwrap_or_else(|| panic!("the page says nothing of {name}"))
}

#[test]
fn columns_are_those_of_the_page() {
    let page = page();
    for file in ResultFile::ALL {
        let said = said_of(&page, file);
        let mut named: Vec<&str> = Vec::new();
        for word in words(&said).filter(|word| file.columns().contains(word)) {
            if !named.contains(&word) {
                named.push(word);
            }
        }
        assert_eq!(named, file.columns(), "columns of {} on the page, and there", file.name());
        let ends = ["_s", "_us", "_pkts", "_bytes", "_segs"];
        let is_column = |word: &&str| ends.iter().any(|end| word.ends_with(end));
        let gone = words(&said).filter(is_column).find(|word| !file.columns().contains(word));
        assert_eq!(gone, None, "the page names a column that {} has not", file.name());
    }
}

#[test]
fn metrics_are_those_of_the_page() {
    let rows = Metric::ALL.iter().map(|metric| {
        let kinds = metric
            .kinds()
            .iter()
            .map(|kind| format!("{kind:?}").replace("SizeClass", "size class").to_lowercase());
        let kinds = kinds.collect::<Vec<_>>().join(", ");
        format!("| `{}` | {} | {kinds} | {} |\n", metric.name(), metric.unit(), metric.doc())
    });
    let table = format!(
        "| metric | unit | measured of | |\n| --- | --- | --- | --- |\n{}\n",
        rows.collect::<String>()
    );
    assert!(page().contains(&table), "the page's table of metrics is to be\n\n{table}");
}
