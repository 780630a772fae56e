//! What a manifest leaves out.

use knee_results::manifest::{
    About, Asked, Axis, BackEnd, Chart, Check, CheckRow, Claim, Effort, Figure, InputFile, Link,
    Manifest, Module, ModuleFile, Network, Node, NodeKind, Plot, Published, Remark, Term,
};
use knee_results::reproduction::Reproduction;
use knee_results::{CheckVerdict, ClaimVerdict};
use serde_json::{Value as Json, from_value, json, to_value};

/// With something in every part.
fn whole() -> Manifest {
    let at = vec![("network.bottleneck.rate".to_owned(), "1 Gbps".to_owned())];
    let term = Term {
        role: "figure".into(),
        case: "reno".into(),
        at: at.clone(),
        subject: "bulk".into(),
        metric: "goodput".into(),
        stat: "p99".into(),
        runs: Some(3),
        value: Some(1e9),
        at_least: Some(9e8),
        at_most: Some(1.1e9),
        ci95: Some(1e6),
        lacks: Some("needs 1000 values, has 300".into()),
    };
    let row = CheckRow {
        at: "reno".into(),
        verdict: CheckVerdict::Holds,
        value: Some(1e9),
        low: Some(9e8),
        high: Some(1.1e9),
    };
    let check = Check {
        says: "enough".into(),
        verdict: CheckVerdict::Holds,
        unit: "bps".into(),
        at_least: Some(1e8),
        at_most: Some(2e9),
        rows: vec![row],
        terms: vec![term],
    };
    let claim = Claim {
        name: "fast".into(),
        says: "it is fast".into(),
        by: "us".into(),
        because: Some("of that".into()),
        see: Some("small".into()),
        cannot: Some("be run".into()),
        verdict: ClaimVerdict::Stands,
        checks: vec![check],
    };
    let link = Link {
        name: "a-s1".into(),
        from: "a".into(),
        to: "s1".into(),
        rate_bps: Some(1_000_000_000),
        delay_s: 1e-6,
        overhead_bytes: 24,
        queue: "droptail".into(),
        recorded: true,
    };
    let text = || "text".to_owned();
    Manifest {
        format: Manifest::FORMAT,
        dir: "".into(),
        experiment: "small".into(),
        file: text(),
        question: text(),
        knee: text(),
        commit: Some(text()),
        back_end: BackEnd { name: "sim".into(), scale: 0.5, about: object(json!({"word": "x"})) },
        linux_profile: Some("6.1".into()),
        seed: Some(1),
        repeat: Some(3),
        runs: Some(6),
        runs_done: Some(5),
        interrupted: true,
        failed: vec![text()],
        warnings: vec![text()],
        remarks: vec![Remark { about: text(), says: text(), of: text() }],
        time: text(),
        host: Some(text()),
        kernel: Some(text()),
        simulator: Effort {
            cpu_s: Some(1.0),
            wall_s: Some(1.0),
            events: Some(1),
            data_pkts: Some(1),
            pkt_hops: Some(1),
            peak_rss_bytes: Some(1),
        },
        tables: Some("parquet".into()),
        files: vec!["runs.csv".into()],
        vary: object(json!({"network.bottleneck.rate": ["1 Gbps"]})),
        asked: Asked { cc: vec![text()], set: vec![text()], vary: vec![text()] },
        modules: vec![Module {
            algorithm: text(),
            path: text(),
            sha256: text(),
            compiler: text(),
            others: vec![ModuleFile { path: text(), sha256: text() }],
            define: vec![text()],
            include: vec![text()],
            linux: Some(text()),
            api: Some(text()),
        }],
        inputs: vec![InputFile { key: text(), path: text(), sha256: text() }],
        resolved: object(json!({"reno": {"case.cc": "reno"}})),
        text: text(),
        about: About { expect: Some(text()), source: Some(text()), notes: Some(text()) },
        quick: true,
        published: vec![Published {
            subject: "bulk".into(),
            metric: "goodput".into(),
            stat: "p99".into(),
            cases: vec!["reno".into()],
            at,
            value: 1e9,
            text: "1 Gbps".into(),
            unit: "bps".into(),
            note: Some(text()),
        }],
        claims: vec![claim],
        charts: vec![Chart {
            kind: "heat".into(),
            title: text(),
            subject: "bulk".into(),
            metric: "goodput".into(),
            stat: "p99".into(),
            against: Some(Figure { subject: text(), metric: "rtt".into(), stat: "p50".into() }),
            x: "network.bottleneck.rate".into(),
            y: Some(text()),
            log: true,
        }],
        only_these_charts: true,
        plots: vec![Plot {
            name: "velocity".into(),
            column: "velocity".into(),
            unit: "packets".into(),
            names: vec!["STARTUP".into()],
        }],
        axes: vec![Axis {
            path: "network.bottleneck.rate".into(),
            values: vec!["1 Gbps".into()],
            keys: vec![text()],
            column: Some("network.bottleneck.rate_bps".into()),
            numbers: vec![1e9],
        }],
        cases: vec!["reno".into()],
        network: Some(Network {
            topology: "star".into(),
            nodes: vec![Node { name: "s1".into(), kind: NodeKind::Switch }],
            links: vec![link],
        }),
    }
}

fn object(json: Json) -> serde_json::Map<String, Json> {
    json.as_object().expect("it is one").clone()
}

/// The value without one of its keys, for each key at any depth, with the path of that key.
fn each_without_a_key(json: &Json) -> Vec<(String, Json)> {
    let mut all = Vec::new();
    match json {
        Json::Object(map) => {
            for (key, value) in map {
                let mut without = map.clone();
                without.shift_remove(key);
                all.push((key.clone(), without.into()));
                for (path, inner) in each_without_a_key(value) {
                    let mut changed = map.clone();
                    changed.insert(key.clone(), inner);
                    all.push((format!("{key}.{path}"), changed.into()));
                }
            }
        }
        Json::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                for (path, inner) in each_without_a_key(item) {
                    let mut changed = items.clone();
                    changed[at] = inner;
                    all.push((format!("{at}.{path}"), changed.into()));
                }
            }
        }
        _ => {}
    }
    all
}

#[test]
fn any_key_may_be_left_out() {
    let json = to_value(whole()).expect("keys are texts");
    assert_eq!(from_value::<Manifest>(json.clone()).expect("it is whole"), whole());
    let all = each_without_a_key(&json);
    assert!(all.len() > 100, "{}", all.len());
    for (path, without) in all {
        if let Err(why) = from_value::<Manifest>(without) {
            panic!("without {path}: {why}");
        }
    }
}

#[test]
fn what_is_left_out_has_the_usual_meaning() {
    let bare = json!({"published": [{}], "charts": [{}], "claims": [{"checks": [{"rows": [{}], "terms": [{}]}]}],
        "network": {"nodes": [{}], "links": [{}]}});
    let read: Manifest = from_value(bare).expect("all of it may be left out");
    let (published, chart, claim) = (&read.published[0], &read.charts[0], &read.claims[0]);
    let check = &claim.checks[0];
    assert_eq!([&published.stat, &chart.stat, &check.terms[0].stat], ["mean"; 3]);
    assert!(published.value.is_nan() && chart.x == "case" && !chart.log);
    assert_eq!((chart.kind.as_str(), &chart.against, &chart.y), ("lines", &None, &None));
    assert_eq!(claim.verdict, ClaimVerdict::Undecided);
    assert_eq!([check.verdict, check.rows[0].verdict], [CheckVerdict::Undecided; 2]);
    let network = read.network.expect("it is there");
    assert_eq!(network.nodes[0].kind, NodeKind::Host);
    assert!(!network.links[0].recorded && network.links[0].rate_bps.is_none());
}

#[test]
fn what_a_newer_knee_wrote_is_refused_in_a_sentence() {
    let dir = tempfile::tempdir().unwrap();
    // Other kinds of values than this one knows.
    let newer =
        json!({ "format": Manifest::FORMAT + 1, "experiment": { "name": "a" }, "sections": 3 });
    for file in [Manifest::FILE, Reproduction::FILE] {
        std::fs::write(dir.path().join(file), newer.to_string()).unwrap();
    }
    let manifest = Manifest::read(dir.path()).unwrap_err().to_string();
    let list = Reproduction::read(dir.path()).unwrap_err().to_string();
    for (file, said) in [(Manifest::FILE, manifest), (Reproduction::FILE, list)] {
        let why = "a newer knee wrote it, in results format 3; this knee reads up to 2: use the newer \
                knee";
        assert_eq!(said, format!("{}: {why}", dir.path().join(file).display()));
    }
}
