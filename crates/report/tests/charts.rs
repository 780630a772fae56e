//! Charts that an experiment asks for.

use std::fs;
use std::path::Path;

use knee_png::Painter;
use serde_json::{Value as Json, json};

use crate::common::{Made, Temp};

/// Writes a directory whose manifest is changed.
fn write(dir: &Path, change: impl FnOnce(&mut Json)) {
    Made { samples: 100, ..Made::default() }.write(dir);
    let path = dir.join("manifest.json");
    let text = fs::read_to_string(&path).expect("is there");
    let mut manifest: Json = serde_json::from_str(&text).expect("is JSON");
    change(&mut manifest);
    fs::write(path, manifest.to_string()).expect("is written");
}

/// The figures of a directory: names without their ending, in order.
fn figures(dir: &Path, out: &Path, inches: Option<f64>) -> Vec<String> {
    let painter = Painter::new();
    let draw = |svg: &str| if inches.is_some() { painter.paper(svg) } else { painter.png(svg) };
    knee_report::write_figures(dir, out, inches, &draw).expect("figures");
    let all = fs::read_dir(out).expect("is there");
    let names =
        all.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> =
        names.filter_map(|name| Some(name.strip_suffix(".csv")?.to_owned())).collect();
    names.sort();
    names
}

fn chart(kind: &str, more: Json) -> Json {
    let mut chart =
        json!({ "kind": kind, "title": kind, "subject": "switch-r", "metric": "queue" });
    let all = chart.as_object_mut().expect("an object");
    all.extend(more.as_object().expect("an object").clone());
    chart
}

#[test]
fn a_queue_has_the_distribution_of_its_samples_in_the_measured_part() {
    let temp = Temp::new();
    let (dir, out) = (temp.join("results"), temp.join("figures"));
    write(&dir, |manifest| {
        manifest["charts"] = json!([chart("cdf", json!({}))]);
        manifest["only_these_charts"] = true.into();
    });
    // Half of each run is measured, and one run counts for nothing.
    let runs = fs::read_to_string(dir.join("runs.csv")).expect("is there");
    let mut lines = runs.lines();
    let mut changed =
        format!("{},measured_from_s,measured_until_s\n", lines.next().expect("a header"));
    for (i, line) in lines.enumerate() {
        let line = if i == 1 { line.replace(",,", ",host-limited,slow") } else { line.to_owned() };
        changed += &format!("{line},0.2,0.4\n");
    }
    fs::write(dir.join("runs.csv"), changed).expect("is written");
    figures(&dir, &out, None);
    let csv = fs::read_to_string(out.join("made-up-chart-cdf-cdf.csv")).expect("is there");
    assert!(csv.starts_with("case,size,at_most_pkts,share\n"), "{csv}");
    // Only the first of two runs of cubic at 10 kB counts: 50 samples after 0.2 s.
    let series = fs::read_to_string(dir.join("series-queues.csv")).expect("is there");
    let mut waiting: Vec<u64> = series
        .lines()
        .skip(1)
        .map(|line| line.split(',').collect::<Vec<_>>())
        .filter(|cells| cells[0] == "0" && cells[1].parse::<f64>().expect("a time") > 0.2)
        .map(|cells| cells[3].parse().expect("a length"))
        .collect();
    waiting.sort_unstable();
    assert_eq!(waiting.len(), 50);
    let drawn: Vec<(f64, f64)> = csv
        .lines()
        .filter_map(|line| line.strip_prefix("cubic,10 kB,")?.split_once(','))
        .map(|(value, share)| (value.parse().expect("a value"), share.parse().expect("a share")))
        .collect();
    for (value, share) in &drawn {
        let at_most = waiting.iter().filter(|one| **one as f64 <= *value).count() as f64;
        assert!((at_most / 50.0 - share).abs() < 1e-3, "{value}: {share}");
    }
    assert_eq!(drawn.last(), Some(&(waiting[49] as f64, 1.0)));
}

#[test]
fn charts_come_besides_the_default_ones_unless_these_are_switched_off() {
    let temp = Temp::new();
    let dir = temp.join("results");
    let asked = json!([chart("bars", json!({ "x": "size" })), chart("time", json!({}))]);
    let of = |only: bool, name: &str| {
        write(&dir, |manifest| {
            manifest["charts"] = asked.clone();
            manifest["only_these_charts"] = only.into();
        });
        figures(&dir, &temp.join(name), None)
    };
    let is_chart = |name: &&String| name.contains("-chart-") || name.contains("-cdf-");
    let only: Vec<String> = of(true, "only").iter().filter(is_chart).cloned().collect();
    let times =
        ["10-kb", "100-kb", "1-mb"].map(|size| format!("made-up-chart-time-time-size-{size}"));
    let mut wanted = vec!["made-up-chart-bars-mean".to_owned()];
    wanted.extend(times);
    wanted.sort();
    assert_eq!(only, wanted);
    let all = of(false, "all");
    for more in ["made-up-chart-short-completion-time-mean", "made-up-cdf-short-completion-time"] {
        assert!(all.iter().any(|name| name == more), "{more}: {all:?}");
    }
    // The mean queue is drawn as bars, and not once more as lines.
    assert!(
        !all.iter().any(|name| name.contains("chart-switch-r-packets-waiting-mean")),
        "{all:?}"
    );
}

#[test]
fn each_kind_has_its_figure_and_its_numbers() {
    let temp = Temp::new();
    let (dir, out) = (temp.join("results"), temp.join("figures"));
    let against = json!({ "subject": "short", "metric": "completion" });
    write(&dir, |manifest| {
        manifest["charts"] = json!([
            chart("tradeoff", json!({ "x": "size", "against": against })),
            chart("bars", json!({ "x": "case" })),
            chart("heat", json!({ "x": "size", "y": "k" })),
            chart("cdf", json!({ "subject": "short", "metric": "completion", "log": true })),
            chart("time", json!({})),
            chart("cdf", json!({ "title": "none", "subject": "nobody" })),
        ]);
        let axes = manifest["axes"].as_array_mut().expect("a list");
        axes.push(json!({ "path": "k", "values": ["1", "2"] }));
    });
    // A second varied key: each row once more.
    for file in ["summary.csv", "runs.csv", "flows.csv", "distributions.csv"] {
        let text = fs::read_to_string(dir.join(file)).expect("is there");
        let mut out = String::new();
        for (i, line) in text.lines().enumerate() {
            let nth = if text.starts_with("run") { 3 } else { 2 };
            for k in ["1", "2"].into_iter().take(if i == 0 { 1 } else { 2 }) {
                let mut cells: Vec<&str> = line.split(',').collect();
                cells.insert(nth, if i == 0 { "k" } else { k });
                out += &(cells.join(",") + "\n");
                if text.starts_with("run") {
                    break;
                }
            }
        }
        fs::write(dir.join(file), out).expect("is written");
    }
    let names = figures(&dir, &out, None);
    let csv =
        |name: &str| fs::read_to_string(out.join(format!("made-up-chart-{name}.csv"))).expect(name);
    let tradeoff = csv("tradeoff-tradeoff");
    let header = "case,size,k,short completion mean_s,short completion ci95_s,switch-r queue mean_pkts,switch-r queue ci95_pkts";
    assert_eq!(tradeoff.lines().next(), Some(header));
    assert_eq!(tradeoff.lines().nth(1), Some("cubic,10 kB,1,0.001,0.0001,30,1"));
    assert_eq!(tradeoff.lines().count(), 13);
    assert_eq!(csv("heat-heat").lines().count(), 13);
    assert!(csv("cdf-cdf").lines().count() > 20);
    let svg =
        |name: &str| fs::read_to_string(out.join(format!("made-up-chart-{name}.svg"))).expect(name);
    // Six cells for each of two cases; a bar for each case in each of six panels.
    assert_eq!(svg("heat-heat").matches("class=\"v\"").count(), 12);
    assert_eq!(svg("bars-mean").matches("fill-opacity").count() - 1, 12);
    assert!(svg("tradeoff-tradeoff").contains(">100 kB<"));
    // What has nothing to draw says so.
    let html = temp.join("report.html");
    knee_report::write(&dir, &html).expect("a report");
    let text = fs::read_to_string(html).expect("is there");
    assert!(text.contains("Nothing is drawn: no case has 50 values of it."), "{names:?}");
}

#[test]
fn figures_for_a_paper_are_as_wide_as_asked() {
    let temp = Temp::new();
    let (dir, out) = (temp.join("results"), temp.join("figures"));
    write(&dir, |_| ());
    for name in figures(&dir, &out, Some(3.5)) {
        let svg = fs::read_to_string(out.join(format!("{name}.svg"))).expect("is there");
        assert!(svg.contains("width=\"3.5in\"") && svg.contains("viewBox=\"0 0 371 "), "{svg}");
        // 300 pixels an inch.
        let png = fs::read(out.join(format!("{name}.png"))).expect("is there");
        let width = u32::from_be_bytes(png[16..20].try_into().expect("four bytes"));
        assert!((1049..=1051).contains(&width), "{name}: {width}");
    }
}
