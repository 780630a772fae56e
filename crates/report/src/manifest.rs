//! What `manifest.json` says of a run. Parts that an older knee did not write are absent.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use crate::error::Error;

pub(crate) const MANIFEST: &str = "manifest.json";

/// A results directory, as its manifest describes it.
#[derive(Default)]
pub(crate) struct Manifest {
    pub(crate) dir: PathBuf,
    pub(crate) name: String,
    pub(crate) question: String,
    pub(crate) expect: Option<String>,
    pub(crate) source: Option<String>,
    pub(crate) notes: Option<String>,
    pub(crate) knee: String,
    pub(crate) back_end: String,
    /// The version of the back end's own kernel, as `--on` takes it; none where it is the machine's.
    pub(crate) version: Option<String>,
    pub(crate) scale: f64,
    pub(crate) linux: Option<String>,
    /// The kernel whose TCP it is, or of the machine.
    pub(crate) kernel: String,
    pub(crate) seed: Option<u64>,
    pub(crate) repeat: u64,
    pub(crate) runs: u64,
    pub(crate) runs_done: u64,
    pub(crate) interrupted: bool,
    /// Whether it is the quick set's part of the file.
    pub(crate) quick: bool,
    /// `--cc` and `--set` as they were given.
    pub(crate) asked_cc: Vec<String>,
    pub(crate) asked_set: Vec<String>,
    pub(crate) time: String,
    pub(crate) wall_s: Option<f64>,
    pub(crate) files: Vec<String>,
    pub(crate) cases: Vec<String>,
    /// The congestion control of each case, where there is one.
    pub(crate) algorithms: Vec<Option<String>>,
    pub(crate) axes: Vec<Axis>,
    pub(crate) published: Vec<Published>,
    pub(crate) claims: Vec<Claim>,
    pub(crate) charts: Vec<Chart>,
    pub(crate) network: Option<Network>,
    /// Where the experiment file was.
    pub(crate) file: String,
    /// The experiment file.
    pub(crate) text: String,
}

/// A varied path and its values, as written.
#[derive(Clone)]
pub(crate) struct Axis {
    pub(crate) path: String,
    pub(crate) values: Vec<String>,
}

/// Values of axes, by path.
pub(crate) type At = Vec<(String, String)>;

/// A figure that was published.
pub(crate) struct Published {
    pub(crate) subject: String,
    pub(crate) metric: String,
    pub(crate) stat: String,
    pub(crate) cases: Vec<String>,
    pub(crate) at: At,
    pub(crate) value: f64,
    pub(crate) text: String,
    pub(crate) unit: String,
    pub(crate) note: Option<String>,
}

/// Something that is claimed, with the verdict.
pub(crate) struct Claim {
    pub(crate) name: String,
    pub(crate) says: String,
    pub(crate) by: String,
    pub(crate) because: Option<String>,
    pub(crate) see: Option<String>,
    pub(crate) cannot: Option<String>,
    pub(crate) verdict: Verdict,
    pub(crate) checks: Vec<Check>,
}

impl Manifest {
    /// What was published of what a check compares, at its row of this number.
    pub(crate) fn published_for(&self, check: &Check, row: usize) -> Option<f64> {
        let value = |term: &Term| {
            let is_of = |p: &&Published| {
                (&p.subject, &p.metric, &p.stat) == (&term.subject, &term.metric, &term.stat)
                    && p.cases.contains(&term.case)
                    && p.at.iter().all(|(path, value)| {
                        let there = term.at.iter().find(|(of_term, _)| of_term == path);
                        there.is_none_or(|(_, of_term)| of_term == value)
                    })
            };
            self.published.iter().find(is_of).map(|p| p.value)
        };
        match check.terms_of(row) {
            [only] => value(only),
            [first, second] if second.role == "minus" => Some(value(first)? - value(second)?),
            [first, second] => Some(value(first)? / value(second).filter(|value| *value != 0.0)?),
            _ => None,
        }
        .filter(|value| value.is_finite())
    }
}

impl Claim {
    /// Whether one of its figures was measured in one run only.
    pub(crate) fn is_of_one_run(&self) -> bool {
        self.checks.iter().flat_map(|check| &check.terms).any(|term| term.runs == Some(1.0))
    }

    /// The cause of its verdict; that of another verdict is none of one that stands.
    pub(crate) fn cause(&self) -> Option<&String> {
        self.because.as_ref().filter(|_| self.verdict != Verdict::Stands)
    }
}

impl Check {
    /// The figures that a row is made of.
    pub(crate) fn terms_of(&self, row: usize) -> &[Term] {
        let each = self.terms.len() / self.rows.len().max(1);
        self.terms.get(row * each..(row + 1) * each).unwrap_or_default()
    }
}

/// One comparison of a claim.
pub(crate) struct Check {
    pub(crate) says: String,
    pub(crate) verdict: String,
    pub(crate) unit: String,
    pub(crate) rows: Vec<CheckRow>,
    pub(crate) at_least: Option<f64>,
    pub(crate) at_most: Option<f64>,
    pub(crate) terms: Vec<Term>,
}

/// The value of a check at one place.
pub(crate) struct CheckRow {
    pub(crate) at: String,
    pub(crate) value: Option<f64>,
    pub(crate) low: Option<f64>,
    pub(crate) high: Option<f64>,
}

/// What a check's value is made of.
pub(crate) struct Term {
    pub(crate) role: String,
    pub(crate) case: String,
    pub(crate) at: At,
    pub(crate) subject: String,
    pub(crate) metric: String,
    pub(crate) stat: String,
    pub(crate) value: Option<f64>,
    pub(crate) ci95: Option<f64>,
    pub(crate) runs: Option<f64>,
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Stands,
    InPart,
    DoesNot,
    Cannot,
    NotRun,
}

impl Verdict {
    pub(crate) const ALL: [Verdict; 5] =
        [Verdict::Stands, Verdict::InPart, Verdict::DoesNot, Verdict::Cannot, Verdict::NotRun];

    /// As in manifests.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Verdict::Stands => "stands",
            Verdict::InPart => "stands in part",
            Verdict::DoesNot => "does not stand",
            Verdict::Cannot => "cannot be decided",
            Verdict::NotRun => "not run",
        }
    }

    /// What is drawn for it, and its class in the page.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Verdict::Stands => "stands",
            Verdict::InPart => "part",
            Verdict::DoesNot => "fails",
            Verdict::Cannot => "cannot",
            Verdict::NotRun => "notrun",
        }
    }

    fn of(words: &str) -> Verdict {
        Verdict::ALL.into_iter().find(|v| v.words() == words).unwrap_or(Verdict::Cannot)
    }
}

/// A chart that the experiment asks for.
#[derive(Clone)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) subject: String,
    pub(crate) metric: String,
    pub(crate) stat: String,
    pub(crate) x: String,
    pub(crate) log: bool,
}

/// Hosts, switches and what is between them.
#[derive(Default)]
pub(crate) struct Network {
    pub(crate) nodes: Vec<Node>,
    pub(crate) links: Vec<Link>,
}

pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) is_host: bool,
}

/// One direction of a cable.
pub(crate) struct Link {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) rate_bps: Option<f64>,
    pub(crate) delay_s: f64,
    pub(crate) queue: Option<String>,
    pub(crate) recorded: bool,
}

impl Manifest {
    /// Reads the manifest of a results directory.
    pub(crate) fn read(dir: &Path) -> Result<Manifest, Error> {
        let path = dir.join(MANIFEST);
        let json = read_json(&path)?;
        let Some(name) = json.get("experiment").and_then(Json::as_str) else {
            return Err(Error::input(
                &path,
                0,
                "names no experiment: it is not of a results directory of knee run",
            ));
        };
        let about = json.get("about").unwrap_or(&Json::Null);
        let resolved = json.get("resolved").and_then(Json::as_object);
        let mut cases = texts(&json, "cases");
        if cases.is_empty() {
            cases = resolved.map(|resolved| resolved.keys().cloned().collect()).unwrap_or_default();
        }
        let algorithm = |case: &String| {
            let cc = resolved?.get(case)?.get("case.cc")?;
            Some(cc.as_str()?.to_owned())
        };
        let effort = json.get("simulator").unwrap_or(&Json::Null);
        let back_end = json.get("back_end").unwrap_or(&Json::Null);
        let version = some_text(back_end, "version");
        // Several kernels of one version are told by that.
        let own = some_text(back_end, "kernel").or_else(|| version.clone());
        Ok(Manifest {
            dir: dir.to_owned(),
            name: name.to_owned(),
            question: text(&json, "question"),
            expect: some_text(about, "expect"),
            source: some_text(about, "source"),
            notes: some_text(about, "notes"),
            knee: [text(&json, "knee"), text(&json, "commit")].join(" ").trim().to_owned(),
            back_end: some_text(back_end, "name").unwrap_or_else(|| text(&json, "back_end")),
            scale: number(back_end, "scale").unwrap_or(1.0),
            linux: some_text(&json, "linux_profile"),
            kernel: own.map_or_else(|| text(&json, "kernel"), |own| format!("Linux {own}")),
            version,
            seed: json.get("seed").and_then(Json::as_u64),
            repeat: json.get("repeat").and_then(Json::as_u64).unwrap_or(0),
            runs: json.get("runs").and_then(Json::as_u64).unwrap_or(0),
            runs_done: json.get("runs_done").and_then(Json::as_u64).unwrap_or(0),
            interrupted: json.get("interrupted").and_then(Json::as_bool).unwrap_or(false),
            quick: json.get("quick").and_then(Json::as_bool).unwrap_or(false),
            asked_cc: json.get("asked").map(|asked| texts(asked, "cc")).unwrap_or_default(),
            asked_set: json.get("asked").map(|asked| texts(asked, "set")).unwrap_or_default(),
            time: text(&json, "time"),
            wall_s: number(effort, "wall_s"),
            files: texts(&json, "files"),
            algorithms: cases.iter().map(algorithm).collect(),
            cases,
            axes: axes(&json),
            published: items(&json, "published").map(published).collect(),
            claims: items(&json, "claims").map(claim).collect(),
            charts: items(&json, "charts").map(chart).collect(),
            network: json.get("network").filter(|network| network.is_object()).map(network),
            file: text(&json, "file"),
            text: text(&json, "text"),
        })
    }

    /// Whether figures are of a simulator.
    pub(crate) fn is_simulated(&self) -> bool {
        self.back_end == "sim"
    }
}

/// No JSON file that knee writes is longer.
pub(crate) const MAX_JSON_BYTES: u64 = 64 << 20;

/// A JSON file of ours.
pub(crate) fn read_json(path: &Path) -> Result<Json, Error> {
    let text = knee_files::read_text(path, MAX_JSON_BYTES, "file of knee's")
        .map_err(|why| Error::unreadable(path, why))?;
    serde_json::from_str(&text).map_err(|why| {
        let line = u64::try_from(why.line()).unwrap_or(0);
        Error::input(
            path,
            line,
            "is no JSON: the file is cut or was changed; run the experiment again",
        )
    })
}

/// What an axis value, written as text or number, looks like.
fn shown(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

pub(crate) fn text(json: &Json, key: &str) -> String {
    some_text(json, key).unwrap_or_default()
}

pub(crate) fn some_text(json: &Json, key: &str) -> Option<String> {
    json.get(key).filter(|value| !value.is_null()).map(shown).filter(|text| !text.is_empty())
}

pub(crate) fn number(json: &Json, key: &str) -> Option<f64> {
    json.get(key).and_then(Json::as_f64)
}

pub(crate) fn items<'a>(json: &'a Json, key: &str) -> impl Iterator<Item = &'a Json> + use<'a> {
    json.get(key).and_then(Json::as_array).into_iter().flatten()
}

fn texts(json: &Json, key: &str) -> Vec<String> {
    items(json, key).map(shown).collect()
}

fn axes(json: &Json) -> Vec<Axis> {
    let given = items(json, "axes")
        .map(|axis| Axis { path: text(axis, "path"), values: texts(axis, "values") });
    let given: Vec<Axis> = given.collect();
    if !given.is_empty() {
        return given;
    }
    let varied = json.get("vary").and_then(Json::as_object).into_iter().flatten();
    let axis = |(path, values): (&String, &Json)| {
        let values = values.as_array().map(|values| values.iter().map(shown).collect());
        Axis { path: path.clone(), values: values.unwrap_or_default() }
    };
    varied.map(axis).collect()
}

fn at(json: &Json) -> At {
    let at = json.get("at").and_then(Json::as_object).into_iter().flatten();
    at.map(|(path, value)| (path.clone(), shown(value))).collect()
}

/// A place in words, whether it is written as text or as values by path.
fn at_words(json: &Json) -> String {
    match json.get("at") {
        Some(Json::String(text)) => text.clone(),
        Some(Json::Object(_)) => {
            let parts = at(json)
                .into_iter()
                .map(|(path, value)| format!("{} {value}", crate::text::short_path(&path)));
            parts.collect::<Vec<_>>().join(", ")
        }
        _ => String::new(),
    }
}

fn stat(json: &Json) -> String {
    some_text(json, "stat").unwrap_or_else(|| "mean".into())
}

fn published(json: &Json) -> Published {
    let mut cases = texts(json, "cases");
    cases.extend(some_text(json, "case"));
    Published {
        subject: text(json, "subject"),
        metric: text(json, "metric"),
        stat: stat(json),
        cases,
        at: at(json),
        value: number(json, "value").unwrap_or(f64::NAN),
        text: text(json, "text"),
        unit: text(json, "unit"),
        note: some_text(json, "note"),
    }
}

fn claim(json: &Json) -> Claim {
    Claim {
        name: text(json, "name"),
        says: text(json, "says"),
        by: text(json, "by"),
        because: some_text(json, "because"),
        see: some_text(json, "see"),
        cannot: some_text(json, "cannot"),
        verdict: Verdict::of(&text(json, "verdict")),
        checks: items(json, "checks").map(check).collect(),
    }
}

fn check(json: &Json) -> Check {
    let row = |row: &Json| CheckRow {
        at: at_words(row),
        value: number(row, "value"),
        low: number(row, "low"),
        high: number(row, "high"),
    };
    let term = |term: &Json| Term {
        role: text(term, "role"),
        case: text(term, "case"),
        at: at(term),
        subject: text(term, "subject"),
        metric: text(term, "metric"),
        stat: stat(term),
        value: number(term, "value"),
        ci95: number(term, "ci95"),
        runs: number(term, "runs"),
    };
    Check {
        says: text(json, "says"),
        verdict: text(json, "verdict"),
        unit: text(json, "unit"),
        rows: items(json, "rows").map(row).collect(),
        at_least: number(json, "at_least"),
        at_most: number(json, "at_most"),
        terms: items(json, "terms").map(term).collect(),
    }
}

fn chart(json: &Json) -> Chart {
    Chart {
        title: text(json, "title"),
        subject: text(json, "subject"),
        metric: text(json, "metric"),
        stat: stat(json),
        x: some_text(json, "x").unwrap_or_else(|| "case".into()),
        log: json.get("log").and_then(Json::as_bool).unwrap_or(false),
    }
}

fn network(json: &Json) -> Network {
    let node =
        |node: &Json| Node { name: text(node, "name"), is_host: text(node, "kind") != "switch" };
    let link = |link: &Json| Link {
        from: text(link, "from"),
        to: text(link, "to"),
        rate_bps: number(link, "rate_bps"),
        delay_s: number(link, "delay_s").unwrap_or(0.0),
        queue: link.get("queue").and_then(queue_words),
        recorded: link.get("recorded").and_then(Json::as_bool).unwrap_or(false),
    };
    Network {
        nodes: items(json, "nodes").map(node).collect(),
        links: items(json, "links").map(link).collect(),
    }
}

/// "125000000 B" as "125 MB"; anything else as it is.
fn bytes_words(text: String) -> String {
    match text.strip_suffix(" B").and_then(|digits| digits.parse::<f64>().ok()) {
        Some(bytes) => crate::text::Unit::alone("B", bytes),
        None => text,
    }
}

/// A queue in words: its kind and what it is set to.
fn queue_words(queue: &Json) -> Option<String> {
    match queue {
        Json::String(text) if !text.is_empty() => Some(text.clone()),
        Json::Object(map) => {
            let kind = map.get("kind").map(shown).unwrap_or_default();
            let others = map.iter().filter(|(key, value)| *key != "kind" && !value.is_null());
            let others = others.map(|(key, value)| format!("{key} {}", bytes_words(shown(value))));
            Some(std::iter::once(kind).chain(others).collect::<Vec<_>>().join(", "))
        }
        _ => None,
    }
}
