//! Results directories made up for tests, and a browser that is driven over a pipe.
#![allow(dead_code, reason = "each test uses a part")]

pub(crate) mod browser;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use tempfile::TempDir;

/// A directory that goes when the test ends.
pub(crate) struct Temp(TempDir);

impl Temp {
    pub(crate) fn new() -> Temp {
        Temp(tempfile::tempdir().expect("a temporary directory"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }
}

/// What a directory that is made up has.
pub(crate) struct Made {
    pub(crate) name: &'static str,
    pub(crate) question: &'static str,
    pub(crate) cases: &'static [&'static str],
    pub(crate) sizes: &'static [&'static str],
    pub(crate) repeat: usize,
    pub(crate) flows: usize,
    /// Samples of each flow in a run.
    pub(crate) samples: usize,
}

impl Default for Made {
    fn default() -> Made {
        Made {
            name: "made-up",
            question: "What does <script>window.broken = 1</script> cost & how long?",
            cases: &["cubic", "dctcp"],
            sizes: &["10 kB", "100 kB", "1 MB"],
            repeat: 2,
            flows: 3,
            samples: 400,
        }
    }
}

/// A number that looks random and is always the same.
fn noise(seed: usize) -> f64 {
    let mixed = (seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40) as f64 / (1u64 << 24) as f64
}

impl Made {
    /// Runs in all.
    pub(crate) fn runs(&self) -> usize {
        self.cases.len() * self.sizes.len() * self.repeat
    }

    /// Writes the directory.
    pub(crate) fn write(&self, dir: &Path) {
        fs::create_dir_all(dir).expect("a directory");
        let put = |name: &str, text: &str| fs::write(dir.join(name), text).expect("a file");
        let mut runs = String::from("run,case,size,repeat,seed,end_s,verdict,limits\n");
        let mut flows =
            String::from("run,case,size,repeat,flow,traffic,from,to,algorithm,completion_s\n");
        let mut of_flows =
            String::from("run,at_s,flow,traffic,cwnd_pkts,ssthresh_pkts,srtt_us,alpha_1/1024\n");
        let mut of_queues = String::from("run,at_s,link,len_pkts,len_bytes\n");
        let mut distributions =
            String::from("case,size,subject,metric,unit,bucket,from,below,count\n");
        let mut summary = String::from(
            "case,size,subject,metric,unit,runs,values,mean,ci95,sd,sd_of_runs,min,p50,p95,p99,p999,max\n",
        );
        let mut run = 0;
        for (c, case) in self.cases.iter().enumerate() {
            for (s, size) in self.sizes.iter().enumerate() {
                let mean = 0.001 * 4f64.powi(s as i32) * (1.0 + c as f64);
                let _ = writeln!(
                    summary,
                    "{case},{size},short,completion,s,{},30,{mean},{},0.1,0.1,{},{mean},,,,{}",
                    self.repeat,
                    mean * 0.1,
                    mean * 0.5,
                    mean * 2.0
                );
                let _ = writeln!(
                    summary,
                    "{case},{size},switch-r,queue,pkts,{},30,{},1,1,1,0,30,,,,90",
                    self.repeat,
                    30 * (c + 1)
                );
                for bucket in 0..20 {
                    let bucket = 1_000 + 50 * s + bucket;
                    let count = self.repeat * 2;
                    let _ = writeln!(
                        distributions,
                        "{case},{size},short,completion,s,{bucket},0,0,{count}"
                    );
                }
                for repeat in 0..self.repeat {
                    let _ = writeln!(runs, "{run},{case},{size},{repeat},1,0.400000000,,");
                    for flow in 0..self.flows.max(30) {
                        let _ = writeln!(
                            flows,
                            "{run},{case},{size},{repeat},{flow},short,s{},r,{case},{}",
                            flow + 1,
                            mean * (0.5 + noise(run * 50 + flow))
                        );
                    }
                    for sample in 0..self.samples {
                        let at = 0.4 * (sample + 1) as f64 / self.samples as f64;
                        let _ = writeln!(
                            of_queues,
                            "{run},{at:.9},switch-r,{:.0},0",
                            60.0 * noise(run + sample * 7)
                        );
                        for flow in 0..self.flows {
                            let cwnd = 20.0 + 60.0 * noise(sample / 9 + flow * 31 + run);
                            let alpha = if *case == "dctcp" {
                                format!("{:.0}", 500.0 * noise(sample / 20 + flow))
                            } else {
                                String::new()
                            };
                            let _ = writeln!(
                                of_flows,
                                "{run},{at:.9},{flow},short,{cwnd:.0},2147483647,{:.0},{alpha}",
                                100.0 + cwnd
                            );
                        }
                    }
                    run += 1;
                }
            }
        }
        put("runs.csv", &runs);
        put("flows.csv", &flows);
        put("distributions.csv", &distributions);
        put("series-flows.csv", &of_flows);
        put("series-queues.csv", &of_queues);
        put("summary.csv", &summary);
        put("manifest.json", &self.manifest().to_string());
    }

    /// Adds counts of links of a leaf-spine fabric in ten periods of 40 ms to a directory that is written. Link i of period p was
    /// busy by (i + p) % 10 tenths; the last link marks 3 packets in the second period.
    pub(crate) fn write_links(
        &self,
        dir: &Path,
        leaves: usize,
        hosts: usize,
        spines: usize,
    ) -> usize {
        let mut nodes = Vec::new();
        let mut links = Vec::new();
        let mut cable = |a: String, b: String| {
            for (from, to) in [(&a, &b), (&b, &a)] {
                links.push(json!({ "name": format!("{from}-{to}"), "from": from, "to": to, "rate_bps": 10_000_000_000_u64, "delay_s": 1e-6, "queue": "", "recorded": false }));
            }
        };
        for leaf in 0..leaves {
            nodes.push(json!({ "name": format!("leaf{leaf}"), "kind": "switch" }));
            for host in 0..hosts {
                nodes.push(json!({ "name": format!("h{leaf}.{host}"), "kind": "host" }));
                cable(format!("h{leaf}.{host}"), format!("leaf{leaf}"));
            }
            (0..spines).for_each(|spine| cable(format!("leaf{leaf}"), format!("spine{spine}")));
        }
        nodes.extend((0..spines).map(|i| json!({ "name": format!("spine{i}"), "kind": "switch" })));
        let mut rows = String::from(
            "run,at_s,link,sent_pkts,sent_bytes,marked_pkts,dropped_pkts,utilisation\n",
        );
        for period in 0..10 {
            for (i, link) in links.iter().enumerate() {
                let busy = (i + period) % 10;
                let marks = if period == 1 && i + 1 == links.len() { 3 } else { 0 };
                if busy > 0 || marks > 0 {
                    let at_s = 0.04 * (period + 1) as f64;
                    let name = link["name"].as_str().unwrap_or_default();
                    let _ = writeln!(rows, "0,{at_s:.9},{name},{busy},{busy},{marks},0,0.{busy}");
                }
            }
        }
        fs::write(dir.join("series-links.csv"), rows).expect("a file");
        let mut manifest = self.manifest();
        let count = links.len();
        manifest["network"] = json!({ "topology": "leaf-spine", "nodes": nodes, "links": links });
        fs::write(dir.join("manifest.json"), manifest.to_string()).expect("a file");
        count
    }

    fn manifest(&self) -> serde_json::Value {
        let resolved: serde_json::Map<_, _> = self
            .cases
            .iter()
            .map(|case| ((*case).to_owned(), json!({ "case.cc": case })))
            .collect();
        let check = |verdict: &str, value: f64| {
            json!({
                "says": "completion of short, cubic over dctcp, at least 10", "verdict": verdict, "unit": "",
                "rows": [{ "at": "size 10 kB", "verdict": verdict, "value": value, "low": value * 0.9, "high": value * 1.1 }], "at_least": 10.0,
                "terms": [{ "role": "figure", "case": "dctcp", "at": { "size": "10 kB" }, "subject": "short", "metric": "completion", "stat": "mean", "value": 0.1, "ci95": 0.01 }],
            })
        };
        let claim = |name: &str, verdict: &str, checks: Vec<serde_json::Value>| json!({ "name": name, "says": format!("A claim that {verdict}"), "by": "source", "because": "It is <b>made up</b>.", "see": "other", "verdict": verdict, "checks": checks });
        json!({
            "experiment": self.name, "file": "scenarios/published/made-up.toml", "question": self.question, "knee": "0.1.0", "commit": "",
            "back_end": { "name": "sim", "scale": 1.0 }, "linux_profile": "6.1", "seed": 1, "repeat": self.repeat,
            "runs": self.runs(), "runs_done": self.runs(), "interrupted": false, "time": "2026-01-01T00:00:00Z", "kernel": "Linux",
            "simulator": { "wall_s": 1.0, "cpu_s": 2.0 },
            "files": ["flows.csv", "runs.csv", "series-flows.csv", "series-queues.csv", "summary.csv"],
            "vary": { "size": self.sizes }, "axes": [{ "path": "size", "values": self.sizes }], "cases": self.cases,
            "resolved": resolved, "text": "question = \"</pre></script><img src=x>\"",
            "about": { "expect": "Less.", "source": "A talk", "notes": "One.\nTwo." },
            "published": [{ "subject": "short", "metric": "completion", "stat": "mean", "cases": ["dctcp"], "at": { "size": "10 kB" }, "value": 0.0016, "text": "1.6 ms", "unit": "s", "note": "said" }],
            "claims": [
                claim("one", "stands", vec![check("holds", 20.0)]), claim("two", "stands in part", vec![check("holds", 12.0), check("fails", 3.0)]),
                claim("three", "does not stand", vec![check("fails", 2.0)]), claim("four", "cannot be decided", vec![check("undecided", 10.2)]),
                claim("five", "not run", vec![]),
            ],
            "charts": [{ "title": "Completion of short transfers", "subject": "short", "metric": "completion", "stat": "mean", "x": "size", "log": true },
                { "title": "Queue", "subject": "switch-r", "metric": "queue", "stat": "mean", "x": "case", "log": false }],
            "network": {
                "topology": "many-to-one",
                "nodes": [{ "name": "s1", "kind": "host" }, { "name": "s2", "kind": "host" }, { "name": "r", "kind": "host" }, { "name": "switch", "kind": "switch" }],
                "links": [
                    { "name": "s1-switch", "from": "s1", "to": "switch", "rate_bps": 1_000_000_000, "delay_s": 0.0, "queue": "", "recorded": false },
                    { "name": "s2-switch", "from": "s2", "to": "switch", "rate_bps": 1_000_000_000, "delay_s": 0.0, "queue": "", "recorded": false },
                    { "name": "switch-r", "from": "switch", "to": "r", "rate_bps": 1_000_000_000, "delay_s": 1e-4, "queue": "step, 757000 B, K 15140 B", "recorded": true },
                ],
            },
        })
    }
}
