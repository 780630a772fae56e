//! `--set` and `--vary`: values of the command line in place of the file's.

use std::path::Path;

use knee_file::{Node, Origin, Reason, Value, did_you_mean, parse_override};

use crate::cases::{Axis, Case, add_axis};
use crate::cc::set_param;
use crate::error::Error;
use crate::paths;

/// The words for what changes a file, in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    /// Of [`Overrides::set`](crate::Overrides::set).
    pub set: &'static str,
    /// Of [`Overrides::vary`](crate::Overrides::vary).
    pub vary: &'static str,
    /// Of [`Overrides::cc`](crate::Overrides::cc).
    pub cc: &'static str,
    /// Of [`Overrides::scale`](crate::Overrides::scale).
    pub scale: &'static str,
}

impl Words {
    /// The options of the command.
    pub const OPTIONS: Words = Words { set: "--set", vary: "--vary", cc: "--cc", scale: "--scale" };
}

impl Default for &'static Words {
    fn default() -> &'static Words {
        &Words::OPTIONS
    }
}

/// Keys with their values.
type Assigned = Vec<(String, Node)>;

pub(crate) fn parse_set(
    path: &Path,
    set: &[String],
    words: &'static Words,
) -> Result<Assigned, Error> {
    let example = "KEY=VALUE, as in network.bottleneck.rate=\"10 Gbps\"";
    let assigned = |text: &String| {
        let (key, value) = assignment(path, text, (&words.set, example))?;
        Ok((key.to_owned(), parse_override(value, &words.set)))
    };
    set.iter().map(assigned).collect()
}

/// Reads `--vary`: a key with a list as in TOML, or with values and ranges between commas.
pub(crate) fn parse_vary(
    path: &Path,
    vary: &[String],
    set: &[(String, Node)],
    words: &'static Words,
) -> Result<Assigned, Error> {
    let by = &words.vary;
    let example = "KEY=LIST, as in network.bottleneck.rate=\"10 Gbps,25 Gbps\"";
    let mut all = Assigned::new();
    for text in vary {
        let (key, list) = assignment(path, text, (by, example))?;
        let wrong = |why: String| Err(Error::input(path, Origin::Given(by), key, why));
        if list.is_empty() {
            return wrong(format!("must be {example}"));
        }
        if all.iter().any(|(prior, _)| prior == key) {
            return wrong(format!("is given to {by} twice: give all its values to one"));
        }
        if set.iter().any(|(set, _)| set == key) {
            return wrong(format!(
                "is given to {by} and has one value by {} or --profile: leave one out",
                words.set
            ));
        }
        let whole = parse_override(list, by);
        let is_toml = whole.text() != Some(list);
        let node = match is_toml || !list.contains(',') {
            true => whole,
            false => {
                let items = list.split(',').map(|item| parse_override(item.trim(), by));
                Node { origin: Origin::Given(by), value: Value::List(items.collect()) }
            }
        };
        all.push((key.to_owned(), node));
    }
    Ok(all)
}

/// Splits `KEY=VALUE`.
fn assignment<'a>(
    path: &Path,
    text: &'a str,
    (by, example): (&'static &'static str, &str),
) -> Result<(&'a str, &'a str), Error> {
    let (key, value) = text.split_once('=').ok_or_else(|| {
        let shown: String = text.chars().take(60).collect();
        let why = format!("must be {example}");
        Error::input(path, Origin::Given(by), shown.escape_debug().to_string(), why)
    })?;
    Ok((key.trim(), value.trim()))
}

/// Applies `--vary`: other values for a varied key, or one more varied key.
pub(crate) fn apply_vary(path: &Path, axes: &mut Vec<Axis>, vary: Assigned) -> Result<(), Error> {
    for (key, node) in vary {
        let wrong = |why: Reason| Error::input(path, node.origin, key.clone(), why);
        if let Some(axis) = axes.iter_mut().find(|axis| axis.path == key) {
            *axis = axis.with_values(&node).map_err(wrong)?;
            continue;
        }
        let axis = Axis::read(&key, &node).map_err(|why| wrong(why.into()))?;
        add_axis(axes, axis).map_err(|why| wrong(why.into()))?;
    }
    Ok(())
}

/// Applies settings of the document itself, and returns those that apply after cases and varied values. For a varied
/// key, the value or list replaces the file's.
pub(crate) fn apply_set(
    path: &Path,
    root: &mut Node,
    axes: &mut [Axis],
    set: Assigned,
) -> Result<Assigned, Error> {
    let mut later = Vec::new();
    for (key, node) in set {
        let wrong = |why: Reason| Error::input(path, node.origin, key.clone(), why);
        if let Some(axis) = axes.iter_mut().find(|axis| axis.path == key) {
            *axis = axis.with_values(&node).map_err(wrong)?;
            continue;
        }
        if let Some(axis) = axes.iter().find(|axis| axis.has(&key)) {
            let (name, label) = (&axis.path, axis.label(0));
            let why = match node.origin {
                Origin::Given(by) if *by == Words::OPTIONS.set => {
                    format!(", as in --set {name}='{label}'")
                }
                _ => String::new(),
            };
            return Err(wrong(
                format!("varies with others in {name}: choose among their values{why}").into(),
            ));
        }
        if let Some(varied) = axes.iter().find_map(|axis| axis.key_in(&key)) {
            let why = format!(
                "holds {varied}, which varies, so its values would not act: set keys of {key} one by one, or change a copy of the file"
            );
            return Err(wrong(why.into()));
        }
        if key.split('.').next() == Some("vary") {
            return Err(wrong(
                "is the path of [vary]: set the varied key itself, as in traffic.short.size='[\"1 \
                    kB\"]'"
                    .into(),
            ));
        }
        paths::set(root, &key, &node).map_err(|why| wrong(why.into()))?;
        later.push((key, node));
    }
    Ok(later)
}

/// Splits off `params.NAME` of the cases, unless the file varies it.
pub(crate) fn split_params(set: Assigned, axes: &[Axis]) -> (Assigned, Assigned) {
    set.into_iter()
        .partition(|(key, _)| key.starts_with("params.") && !axes.iter().any(|axis| axis.has(key)))
}

/// Sets a parameter in every case whose algorithm has it.
pub(crate) fn set_params(
    path: &Path,
    cases: &mut [Case],
    params: &[(String, Node)],
) -> Result<(), knee_file::Error> {
    for (key, node) in params {
        let wrong = |message: String| {
            knee_file::Error::new(path, node.origin, key.clone(), message).with_value(node.show())
        };
        let name = key.strip_prefix("params.").unwrap_or(key);
        let mut known: Vec<&str> = Vec::new();
        let mut is_known = false;
        for cc in cases.iter_mut().filter_map(|case| case.cc.as_mut()) {
            let names = cc.algorithm.params().iter().map(|info| -> &str { info.name });
            known.extend(names.clone());
            if names.clone().any(|known| known == name) {
                is_known = true;
                set_param(cc, name, node).map_err(wrong)?;
            }
        }
        if !is_known {
            let near = did_you_mean(name, known);
            return Err(wrong(format!("no case has an algorithm with this parameter{near}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Experiment, Overrides};

    const TEXT: &str = r#"
question = "?"
cc = ["cubic", "dctcp"]
[network]
topology = "many-to-one"
senders = 2
access = { rate = "10 Gbps" }
bottleneck = { rate = "1 Gbps", queue = { kind = "droptail", limit = "100 pkts" } }
[[traffic]]
name = "a"
kind = "bulk"
from = "s1..s2"
to = "r"
size = "20 kB"
[run]
duration = "20 ms"
"#;

    fn refused(overrides: Overrides) -> knee_file::Error {
        match Experiment::parse(Path::new("a.toml"), TEXT, &overrides) {
            Err(Error::Input(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_error_is_said_in_the_words_of_whoever_calls_and_has_its_parts() {
        const OURS: Words =
            Words { set: "exp.set", vary: "exp.vary", cc: "exp.cc", scale: "scale" };
        let words = &OURS;
        let set = vec!["network.bottleneck.queue.kind=red2".to_owned()];
        let why = refused(Overrides { set: set.clone(), words, ..Overrides::default() });
        assert_eq!(why.key, "network.bottleneck.queue.kind");
        assert!(why.more.allowed.iter().any(|kind| kind == "red"), "{why:?}");
        assert!(why.to_string().starts_with("a.toml: exp.set network.bottleneck"), "{why}");
        let why = refused(Overrides { set, ..Overrides::default() });
        assert!(why.to_string().starts_with("a.toml: --set network.bottleneck"), "{why}");
        let why =
            refused(Overrides { cc: vec!["cubik".to_owned()], words, ..Overrides::default() });
        assert_eq!(why.key, "exp.cc");
        assert!(why.more.allowed.contains(&"cubic".to_owned()), "{why:?}");
        let vary = vec!["network.botleneck.rate=1 Gbps,2 Gbps".to_owned()];
        let why = refused(Overrides { vary, words, ..Overrides::default() });
        assert!(why.to_string().starts_with("a.toml: exp.vary network.botleneck"), "{why}");
    }
}
