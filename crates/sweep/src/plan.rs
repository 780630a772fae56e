//! What a journal or a store says of the experiment whose runs it holds, so that only the same experiment goes on with it.

use knee_run::BackEnd;
use serde_json::{Map, Value as Json, json};

use crate::machine::Build;
use knee_scenario::error::Error;
use knee_scenario::experiment::Experiment;

/// Returns the description of an experiment on a back end, as JSON.
pub(crate) fn about(experiment: &Experiment, back_end: &dyn BackEnd) -> Result<String, Error> {
    let modules = experiment.modules.iter().filter_map(|algorithm| algorithm.module());
    let files = experiment.inputs.iter().map(|file| (file.path.clone(), file.sha256.clone()));
    let modules =
        modules.map(|module| (module.path().display().to_string(), module.sha256().to_owned()));
    let files: Map<String, Json> =
        files.chain(modules).map(|(path, sha256)| (path, sha256.into())).collect();
    let about = json!({
        "knee": Build::this().to_string(),
        "back end": back_end.name(),
        "behaviour": back_end.capabilities().behaviour,
        "scale": experiment.scale.share(),
        "seed": experiment.seed,
        "files": files,
        "vary": experiment.varied(),
        "cases": experiment.resolved()?,
    });
    Ok(about.to_string())
}

/// Returns what has changed between two descriptions, in a sentence's words. `None` if runs of the one are those of the other:
/// more repeats, other cases and other varied values change nothing of a run.
pub(crate) fn changed(before: &str, now: &str) -> Option<String> {
    let [before, now] =
        [before, now].map(|text| serde_json::from_str::<Json>(text).unwrap_or_default());
    for key in ["knee", "back end", "behaviour", "scale", "seed"] {
        if before[key] != now[key] {
            return Some(was(key, &before[key], &now[key]));
        }
    }
    let none = Map::new();
    let map = |of: &Json, key: &str| of[key].as_object().unwrap_or(&none).clone();
    let (files_before, files_now) = (map(&before, "files"), map(&now, "files"));
    let changed = files_now
        .iter()
        .find(|(path, hash)| files_before.get(*path).is_some_and(|before| before != *hash));
    if let Some((path, _)) = changed {
        return Some(format!("{path} has other contents"));
    }
    let (varied_before, varied_now) = (map(&before, "vary"), map(&now, "vary"));
    let is_varied = |key: &str| varied_before.contains_key(key) || varied_now.contains_key(key);
    for (case, values) in map(&now, "cases") {
        let before = map(&before["cases"], &case);
        let values = values.as_object().cloned().unwrap_or_default();
        if before.is_empty() {
            continue;
        }
        let keys = values.keys().chain(before.keys().filter(|key| !values.contains_key(*key)));
        let absent = Json::Null;
        for key in keys.filter(|key| *key != "run.repeat" && !is_varied(key)) {
            let [was_value, is_value] = [&before, &values].map(|of| of.get(key).unwrap_or(&absent));
            if was_value != is_value {
                return Some(format!("{case}: {}", was(key, was_value, is_value)));
            }
        }
    }
    None
}

fn was(key: &str, before: &Json, now: &Json) -> String {
    let shown = |value: &Json| match value {
        Json::Null => "absent".to_owned(),
        Json::String(text) => text.clone(),
        other => other.to_string(),
    };
    format!("{key} was {} and is {}", shown(before), shown(now))
}
