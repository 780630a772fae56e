//! Reports of directories as they may be, whole and broken.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use knee_png::Painter;

use crate::common::{Made, Temp};

fn write_figures(dir: &Path, out: &Path) -> usize {
    let painter = Painter::new();
    knee_report::write_figures(dir, out, None, &|svg| painter.png(svg)).expect("figures")
}

#[test]
fn a_directory_without_the_newer_parts_has_a_report_without_them() {
    let temp = Temp::new();
    let dir = temp.join("results");
    Made::default().write(&dir);
    let mut manifest: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(dir.join("manifest.json")).expect("is there"))
            .expect("is JSON");
    for key in ["about", "published", "claims", "charts", "axes", "cases", "network", "runs"] {
        manifest.as_object_mut().expect("an object").remove(key);
    }
    manifest["interrupted"] = true.into();
    fs::write(dir.join("manifest.json"), manifest.to_string()).expect("is written");
    for file in ["series-flows.csv", "series-queues.csv", "flows.csv", "distributions.csv"] {
        fs::remove_file(dir.join(file)).expect("was there");
    }
    let html = temp.join("report.html");
    knee_report::write(&dir, &html).expect("a report");
    let text = fs::read_to_string(html).expect("is there");
    for absent in ["<h3>Claims", "Published and ours", "Over time", "The network"] {
        assert!(!text.contains(absent), "{absent}");
    }
    assert!(text.contains("Stopped after some of the runs: "), "{text}");
    // Charts come of the summary, and links lead to where the files are.
    assert!(
        text.contains("short: completion time") && text.contains("href=\"results/summary.csv\"")
    );
}

#[test]
fn runs_that_a_host_limited_are_said_with_the_reason() {
    let temp = Temp::new();
    let (dir, html) = (temp.join("results"), temp.join("report.html"));
    let made = Made { samples: 20, ..Made::default() };
    let report = || {
        knee_report::write(&dir, &html).expect("a report");
        fs::read_to_string(&html).expect("is there")
    };
    made.write(&dir);
    assert!(!report().contains("The host limited some runs"), "simulated runs have no verdict");
    let runs = fs::read_to_string(dir.join("runs.csv")).expect("is there");
    let why = "2 sides of connections began without <init>, and so on";
    let mut lines = runs.lines().map(str::to_owned).collect::<Vec<_>>();
    let row = lines[1].trim_end_matches(",,").to_owned();
    let case = row.split(',').nth(1).expect("a case").to_owned();
    lines[1] = format!("{row},host-limited,\"{why}\"");
    fs::write(dir.join("runs.csv"), lines.join("\n") + "\n").expect("is written");
    let of_case = runs.lines().filter(|line| line.split(',').nth(1) == Some(case.as_str())).count();
    let wanted = format!(
        "<li>{case}: 1 of {of_case} runs: 2 sides of connections began without &lt;init&gt;, and so on</li>"
    );
    let text = report();
    assert!(text.contains("The host limited some runs") && text.contains(&wanted), "{wanted}");
}

#[test]
fn what_is_broken_is_said_in_one_sentence_and_leaves_nothing() {
    let temp = Temp::new();
    let html = temp.join("report.html");
    let refused = |file: &str, text: &str, wanted: &str| {
        let dir = temp.join("results");
        let _ = fs::remove_dir_all(&dir);
        Made { samples: 20, ..Made::default() }.write(&dir);
        fs::write(dir.join(file), text).expect("is written");
        let said = knee_report::write(&dir, &html).expect_err(file).to_string();
        assert!(
            said.contains(wanted) && said.contains(file) && said.lines().count() == 1,
            "{said}"
        );
        assert!(!html.exists());
        let left = fs::read_dir(temp.path()).expect("a directory").count();
        assert_eq!(left, 1, "a partial file was left");
    };
    refused("manifest.json", "{", "is not JSON");
    refused("manifest.json", "{}", "has no experiment");
    refused("summary.csv", "a,b\n1,2\n", "has no column \"case\"");
    refused("runs.csv", "run,case,size,end_s\n0,cubic,10 kB\n", "cells, but the header has");
    refused(
        "series-flows.csv",
        "run,at_s,flow,traffic\n0,0.1,0,short\n0,0.2",
        "has no end: the file is cut",
    );
    refused("series-queues.csv", "run,at_s,link,len_pkts\n0,soon,switch-r,1\n", "must be a number");
    refused(
        "flows.csv",
        "run,case,size,flow,traffic,from,to,algorithm,completion_s\n0,cubic,10 kB,\u{1b}[2J,short,a,b,cubic,\n",
        "must be a whole number",
    );
    for (dir, wanted) in [("empty", "holds no manifest.json"), ("none", "is not a directory")] {
        if dir == "empty" {
            fs::create_dir(temp.join(dir)).expect("is made");
        }
        let said = knee_report::write(&temp.join(dir), &html).expect_err(dir).to_string();
        assert!(said.contains(wanted), "{said}");
    }
}

#[test]
fn a_million_rows_become_a_small_page() {
    let temp = Temp::new();
    let dir = temp.join("results");
    Made { samples: 1, ..Made::default() }.write(&dir);
    let mut rows = String::from("run,at_s,link,len_pkts\n");
    for i in 0..1_000_000_u32 {
        let len = if i == 777_777 { 5000 } else { i % 50 };
        let _ = writeln!(rows, "0,{:.9},switch-r,{len}", f64::from(i) * 4e-7);
    }
    fs::write(dir.join("series-queues.csv"), rows).expect("is written");
    let html = dir.join("report.html");
    knee_report::write(&dir, &html).expect("a report");
    let text = fs::read_to_string(html).expect("is there");
    assert!(text.len() < 400_000, "{} bytes", text.len());
    // The spike is there: it is the largest value of the line.
    assert!(text.contains("\"high\":5000.0"), "the spike is lost");
}

#[test]
fn a_reproduction_has_its_claims_at_the_top_and_a_section_each() {
    let temp = Temp::new();
    let all = temp.join("all");
    Made { name: "made-up", samples: 20, ..Made::default() }.write(&all.join("made-up"));
    Made { name: "other", samples: 20, ..Made::default() }.write(&all.join("other"));
    let reproduce = serde_json::json!({
        "full": false, "wall_s": 100.0, "cpu_s": 180.0,
        "sections": [{ "title": "A <talk>", "about": "About it.", "experiments": [
            { "name": "made-up", "dir": "made-up", "skipped": null, "wall_s": 50.0, "cpu_s": 90.0 },
            { "name": "other", "dir": "other", "skipped": null, "wall_s": 50.0, "cpu_s": 90.0 },
            { "name": "third", "dir": null, "skipped": "the lab cannot hold it", "wall_s": 0.0, "cpu_s": 0.0 } ] }],
        "absent": [{ "title": "Interrupts", "source": "A talk", "why": "No model of a CPU." }],
    });
    fs::write(all.join("reproduce.json"), reproduce.to_string()).expect("is written");
    let html = all.join("report.html");
    knee_report::write(&all, &html).expect("a report");
    let text = fs::read_to_string(&html).expect("is there");
    for wanted in [
        "A &lt;talk&gt;",
        // At a glance: two experiments, each with a claim of every verdict.
        "<a href=\"#part-0\">A &lt;talk&gt;</a></td><td class=\"n\"><b>2</b></td>",
        "<span class=\"stands\" style=\"width:20.0%\"></span>",
        "data-label=\"Published\">0.0016<",
        "knee reproduce made-up\nknee run scenarios/published/made-up.toml",
        "<summary>Not stated in the source, and chosen here</summary><p>One.</p><p>Two.</p>",
        "href=\"#made-up-claim-one\"",
        "id=\"other-claim-one\"",
        "the lab cannot hold it",
        "No model of a CPU.",
        "knee reproduce",
        "href=\"made-up/flows.csv\"",
        "href=\"#other\"",
    ] {
        assert!(text.contains(wanted), "{wanted}");
    }
}

#[test]
fn figures_are_written_in_three_formats() {
    let temp = Temp::new();
    Made { samples: 50, ..Made::default() }.write(&temp.join("results"));
    let out = temp.join("figures");
    let count = write_figures(&temp.join("results"), &out);
    // The network, ratios, two charts, two distributions, the queue of three sizes, and the series of six configurations.
    assert_eq!(count, 15);
    assert_eq!(fs::read_dir(&out).expect("is there").count(), 3 * count);
    let chart = "made-up-chart-completion-of-short-transfers-mean";
    let png = fs::read(out.join(format!("{chart}.png"))).expect("is there");
    assert!(png.starts_with(b"\x89PNG") && png.len() > 4000, "{} bytes", png.len());
    let csv = fs::read_to_string(out.join(format!("{chart}.csv"))).expect("is there");
    assert!(
        csv.starts_with(
            "case,size,subject,metric,mean_s,ci95_s,runs,cut_off,at_least_s\ncubic,10 kB,short,completion,0.001,"
        ),
        "{csv}"
    );
    // The same directory, the same bytes.
    let again = temp.join("again");
    write_figures(&temp.join("results"), &again);
    assert_eq!(fs::read(again.join(format!("{chart}.png"))).expect("is there"), png);
}

#[test]
fn a_directory_of_several_experiments_has_a_section_of_each() {
    let temp = Temp::new();
    let both = temp.join("both");
    // Two of one experiment, as when it was run again: they differ by their directories' names.
    for name in ["made-up", "made-up-2"] {
        Made { samples: 20, ..Made::default() }.write(&both.join(name));
    }
    fs::create_dir(both.join("notes")).expect("is made");
    let html = both.join("report.html");
    knee_report::write(&both, &html).expect("a report");
    let text = fs::read_to_string(&html).expect("is there");
    for name in ["made-up", "made-up-2"] {
        let wanted = format!("<section class=\"experiment\" id=\"{name}\"><header><h2>{name}</h2>");
        assert_eq!(text.matches(&wanted).count(), 1, "{name}");
        assert!(text.contains(&format!("<li><a href=\"#{name}\">{name}</a>: ")), "{name}");
        assert!(text.contains(&format!("href=\"{name}/summary.csv\"")), "{name}");
    }
    assert!(text.contains("<title>made-up, made-up-2</title>"));
    let count = write_figures(&both, &temp.join("figures"));
    let files = fs::read_dir(temp.join("figures")).expect("is there").count();
    assert_eq!(files, 3 * count, "no figure takes the name of another");
    for number in 0..31 {
        Made { samples: 1, flows: 1, repeat: 1, ..Made::default() }
            .write(&both.join(format!("x{number}")));
    }
    let said = knee_report::write(&both, &html).expect_err("too many").to_string();
    let wanted = "holds results of 33 experiments (made-up, made-up-2, x0, ...), but a report \
        takes at most 32: choose one of them";
    assert!(said.ends_with(wanted), "{said}");
}

#[test]
fn counts_of_links_are_drawn_by_tier_with_their_figures_as_text() {
    let temp = Temp::new();
    let (dir, html) = (temp.join("results"), temp.join("report.html"));
    let made = Made { samples: 20, ..Made::default() };
    let report = || {
        knee_report::write(&dir, &html).expect("a report");
        fs::read_to_string(&html).expect("is there")
    };
    made.write(&dir);
    let without = report();
    assert!(!without.contains("The whole network over time") && !without.contains("hottest"));
    made.write_links(&dir, 4, 2, 3);
    let text = report();
    assert!(text.contains("The whole network over time"));
    for tier in ["host → leaf", "leaf → host", "leaf → spine", "spine → leaf"] {
        assert!(text.contains(&format!("<td data-label=\"Tier\">{tier}</td>")), "{tier}");
    }
    // Each link has each tenth from 0 to 0.9 once.
    assert!(text.contains("data-label=\"Mean utilisation\">45 %"), "{text}");
    assert!(text.contains("data-label=\"Marks\">3<") && !text.contains("src=\"http"));
    // What it is drawn from: ten steps, and nothing about drops.
    let from = text.find("{\"tiers\"").expect("has data");
    let until = from + text[from..].find("</script>").expect("ends");
    let data: serde_json::Value = serde_json::from_str(&text[from..until]).expect("is JSON");
    let run = &data["runs"][0];
    assert_eq!((&run["steps"], data["links"].as_array().map(Vec::len)), (&10.into(), Some(40)));
    assert!(run["drops"].is_null() && run["marks"].is_string());
    // Damage is a sentence.
    let rows = fs::read_to_string(dir.join("series-links.csv")).expect("is there");
    fs::write(dir.join("series-links.csv"), rows.replacen("0.040000000", "soon", 1))
        .expect("is written");
    let said = knee_report::write(&dir, &html).expect_err("is refused").to_string();
    assert!(said.contains("series-links.csv:2: at_s = \"soon\": must be a number"), "{said}");
}

#[test]
fn a_fabric_of_4096_hosts_makes_a_page_of_bounded_size() {
    let temp = Temp::new();
    let (dir, html) = (temp.join("results"), temp.join("report.html"));
    let made = Made { samples: 20, ..Made::default() };
    made.write(&dir);
    knee_report::write(&dir, &html).expect("a report");
    let before = fs::metadata(&html).expect("is there").len();
    assert_eq!(made.write_links(&dir, 128, 32, 32), 16_384);
    knee_report::write(&dir, &html).expect("a report");
    let text = fs::read_to_string(&html).expect("is there");
    let more = text.len() as u64 - before;
    assert!(more < 7_000_000, "{more}");
    // Links are no elements.
    assert!(text.matches("<td").count() < 500 && text.contains("4096"));
}

#[test]
fn a_bucket_that_there_is_not_is_said() {
    let temp = Temp::new();
    let (dir, html) = (temp.join("results"), temp.join("report.html"));
    Made { samples: 20, ..Made::default() }.write(&dir);
    let rows = "case,size,subject,metric,unit,bucket,from,below,count\n\
        cubic,10 kB,short,completion,s,9999,0,0,7\n";
    fs::write(dir.join("distributions.csv"), rows).expect("is written");
    let said = knee_report::write(&dir, &html).expect_err("is refused").to_string();
    assert!(said.contains("distributions.csv:2: has no such bucket"), "{said}");
}

#[test]
fn of_many_queues_the_longest_are_drawn() {
    let temp = Temp::new();
    let (dir, html) = (temp.join("results"), temp.join("report.html"));
    Made { samples: 20, ..Made::default() }.write(&dir);
    let mut rows = String::from("run,at_s,link,len_pkts,len_bytes\n");
    for sample in 1..=10 {
        for link in 0..9 {
            let waiting = if link >= 5 { 10 * link } else { 1 };
            let _ = writeln!(rows, "0,0.0{sample:02},link{link},{waiting},0");
        }
    }
    fs::write(dir.join("series-queues.csv"), rows).expect("is written");
    knee_report::write(&dir, &html).expect("a report");
    let text = fs::read_to_string(&html).expect("is there");
    for link in 0..9 {
        let wanted = format!("\"label\":\"link{link}\"");
        assert_eq!(text.contains(&wanted), link >= 5, "{wanted}");
    }
    let said = "4 of 9 recorded queues are drawn: those with the most packets waiting.";
    assert!(text.contains(said), "{said}");
}

#[test]
fn a_claim_without_a_source_does_not_name_one() {
    let temp = Temp::new();
    let (dir, html) = (temp.join("results"), temp.join("report.html"));
    Made { samples: 20, ..Made::default() }.write(&dir);
    let report = |by: &str, source: Option<&str>| {
        let manifest = fs::read_to_string(dir.join("manifest.json")).expect("is there");
        let mut manifest: serde_json::Value = serde_json::from_str(&manifest).expect("is JSON");
        manifest["claims"][0]["by"] = by.into();
        manifest["about"]["source"] = source.into();
        fs::write(dir.join("manifest.json"), manifest.to_string()).expect("is written");
        knee_report::write(&dir, &html).expect("a report");
        fs::read_to_string(&html).expect("is there")
    };
    let derived = "derived by us from the source&#39;s figures";
    assert!(report("us", Some("A talk")).contains(&derived.replace("&#39;", "'")));
    for by in ["us", "source"] {
        let text = report(by, None);
        assert!(!text.contains("by the source") && !text.contains("the source's figures"), "{by}");
        assert!(text.contains("claimed by the experiment's file"), "{by}");
    }
}

#[test]
fn counts_beyond_64_bits_are_no_crash() {
    let temp = Temp::new();
    let (dir, html) = (temp.join("results"), temp.join("report.html"));
    let made = Made { samples: 20, ..Made::default() };
    made.write(&dir);
    made.write_links(&dir, 2, 2, 1);
    let most = u64::MAX;
    let mut rows = String::from("case,size,subject,metric,unit,bucket,from,below,count\n");
    let mut links =
        String::from("run,at_s,link,sent_pkts,sent_bytes,marked_pkts,dropped_pkts,utilisation\n");
    for i in 0..3 {
        let _ = writeln!(rows, "cubic,10 kB,short,completion,s,{},0,0,{most}", 1000 + i);
        let _ = writeln!(links, "0,0.0{i}1,h0.{}-leaf0,1,1,{most},{most},0.5", i % 2);
    }
    fs::write(dir.join("distributions.csv"), rows).expect("is written");
    fs::write(dir.join("series-links.csv"), links).expect("is written");
    knee_report::write(&dir, &html).expect("a report");
    let text = fs::read_to_string(&html).expect("is there");
    assert!(text.contains(&format!("data-label=\"Marks\">{most}<")), "{text}");
}

#[test]
fn links_that_are_idle_most_of_the_time_are_drawn_as_idle() {
    let temp = Temp::new();
    let (dir, html) = (temp.join("results"), temp.join("report.html"));
    let made = Made { samples: 20, ..Made::default() };
    made.write(&dir);
    made.write_links(&dir, 2, 2, 1);
    let manifest = fs::read_to_string(dir.join("manifest.json")).expect("is there");
    let mut manifest: serde_json::Value = serde_json::from_str(&manifest).expect("is JSON");
    manifest["resolved"]["cubic"]["sample.links"] = "40 ms".into();
    fs::write(dir.join("manifest.json"), manifest.to_string()).expect("is written");
    // Three of ten periods, none after another.
    let rows = "run,at_s,link,sent_pkts,sent_bytes,marked_pkts,dropped_pkts,utilisation\n\
        0,0.080000000,h0.0-leaf0,1,1,0,0,1\n0,0.200000000,h0.0-leaf0,1,1,0,0,1\n\
        0,0.320000000,h0.0-leaf0,1,1,0,0,1\n";
    fs::write(dir.join("series-links.csv"), rows).expect("is written");
    knee_report::write(&dir, &html).expect("a report");
    let text = fs::read_to_string(&html).expect("is there");
    assert!(text.contains("data-label=\"Busiest link\">h0.0-leaf0 30 %"), "{text}");
}
