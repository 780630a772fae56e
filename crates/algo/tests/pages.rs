//! What the algorithms' pages say of parameters and state is what the sources have.

use std::fs;
use std::path::{Path, PathBuf};

use knee_algo::{Algorithm, ParamInfo};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// The rows of a table of parameters: name, default, range. A row may name several with `...`.
fn rows(page: &str) -> Vec<[String; 3]> {
    let lines = page.lines().skip_while(|line| !line.contains("| default | range |"));
    let rows = lines.skip(2).take_while(|line| line.starts_with('|')).map(|line| {
        let mut cells = line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned());
        [(); 3].map(|()| cells.next().unwrap_or_default())
    });
    rows.collect()
}

fn range(param: &ParamInfo) -> String {
    match (param.choices.as_slice(), param.min, param.max) {
        ([], 0, 1) => "0, 1".to_owned(),
        ([], min, max) => format!("{}..{}", param.show(min), param.show(max)),
        (choices, ..) => choices.join(", "),
    }
}

/// The pages that a page has links to, by their names in `docs`.
fn linked(page: &str) -> impl Iterator<Item = PathBuf> + use<'_> {
    page.split("](").skip(1).filter_map(|rest| {
        let target = rest.split([')', '#']).next()?;
        target.ends_with(".md").then(|| docs().join("algorithms").join(target))
    })
}

#[test]
fn pages_have_the_parameters_of_their_sources() {
    let mut wrong = Vec::new();
    for algorithm in Algorithm::all() {
        let name = algorithm.name();
        let page = fs::read_to_string(docs().join(format!("algorithms/{name}.md"))).unwrap();
        let own = rows(&page);
        for [param, default, range_said] in &own {
            let found = algorithm.params().iter().find(|known| known.name == param);
            let Some(found) = found else {
                if !param.contains("...") {
                    wrong.push(format!("{name}.md: there is no parameter {param}"));
                }
                continue;
            };
            let is = (found.show(found.default), range(found));
            if (default, range_said) != (&is.0, &is.1) {
                wrong.push(format!("{name}.md: {param}: the source has {}, {}", is.0, is.1));
            }
        }
        // What several have stands on one page, and the others lead there.
        let elsewhere: Vec<_> = linked(&page)
            .filter_map(|path| fs::read_to_string(path).ok())
            .flat_map(|page| rows(&page))
            .collect();
        for param in algorithm.params() {
            let is_it = |row: &&[String; 3]| row[0] == param.name;
            if own.iter().any(|row| is_it(&row)) {
                continue;
            }
            match elsewhere.iter().find(is_it) {
                Some(row) if row[2] == range(param) => {}
                _ => wrong.push(format!("{name}.md: {} is not said", param.name)),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn pages_and_rows_have_the_state_and_the_operations_of_their_sources() {
    let table = fs::read_to_string(docs().join("../algorithms/README.md")).unwrap();
    let mut wrong = Vec::new();
    for algorithm in Algorithm::all() {
        let (name, bytes) = (algorithm.name(), algorithm.state_bytes());
        let page = fs::read_to_string(docs().join(format!("algorithms/{name}.md"))).unwrap();
        let said = match bytes {
            0 => "no private state".to_owned(),
            1..=104 => format!("{bytes} bytes of private state"),
            _ => "socket storage".to_owned(),
        };
        let words: Vec<&str> = page.split_whitespace().collect();
        if !words.join(" ").contains(&said) {
            wrong.push(format!("{name}.md does not say \"{said}\""));
        }
        let row = table.lines().find(|line| line.starts_with(&format!("| [{name}.c]")));
        let cells: Vec<&str> = row.unwrap_or("").trim_matches('|').split('|').collect();
        if cells.last().is_none_or(|cell| cell.trim() != bytes.to_string()) {
            wrong.push(format!("algorithms/README.md: {name} has {bytes} bytes of state"));
        }
        let mut rowed: Vec<&str> = cells
            .get(2)
            .unwrap_or(&"")
            .split(',')
            .map(str::trim)
            .filter(|op| !op.is_empty())
            .collect();
        let mut operations = algorithm.operations();
        rowed.sort_unstable();
        operations.sort_unstable();
        if rowed != operations {
            wrong.push(format!("algorithms/README.md: {name} has {}", operations.join(", ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
