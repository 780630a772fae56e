//! Reads `[[claim]]`, and refuses claims that no run can decide.

use knee_file::keys::{Below, Choice, Key, List, Name, Special, Text};
use knee_file::units::figure;
use knee_file::{Error, Node, Origin, Reader, Reason, Value, keys, one_of};

use super::{Bounds, By, Check, Claim, Every, Join, Term};
use crate::cases::{Axis, Case, has_case, metric_named};
use crate::metric::Metric;
use crate::published::{AT, STATS, Stat};
use crate::scenario::Scenario;
use serde_json::{Value as Json, json};

keys! {
    /// A claim about the experiment, by its source or by us. Every run checks it.
    pub(crate) static KEYS: ClaimKeys = "claim" {
        /// A unique name.
        name: Key<Name> = needed("ten-times-sooner"),
        /// The claim, in one sentence.
        says: Key<Text> = needed("Short transfers finish ten times sooner."),
        /// Stated by the source, or derived by us from its figures.
        by: Choice<By> = of(&[("source", By::Source), ("us", By::Us)]).or("source"),
        /// If it fails: the cause, with figures.
        because: Key<Text>,
        /// An experiment that shows the cause.
        see: Key<Text>,
        /// Why it cannot be checked; replaces `check`.
        cannot: Key<Text>,
        /// Its checks.
        check: Below = list(&CheckKeys::TABLE),
    }
}

keys! {
    /// A value and its bounds.
    static CHECK: CheckKeys = "check" {
        /// The value.
        figure: Below = table(&TermKeys::TABLE).needed(),
        /// Divisor: the value is a ratio.
        over: Below = table(&TermKeys::TABLE),
        /// Subtrahend: the value is a difference.
        minus: Below = table(&TermKeys::TABLE),
        /// Lower bound, with unit; a ratio: plain or in %.
        at_least: Special = takes(bounds),
        /// Upper bound.
        at_most: Special = takes(bounds),
        /// Exact value, instead of bounds.
        equals: Special = takes(bounds),
        /// Tolerance of `equals`: a share or a figure.
        within: Special = takes(bounds),
        /// Check all values of `"case"` or of these varied keys.
        every: Key<List<Text>>,
    }
}

keys! {
    /// A measured figure. `over` and `minus` inherit missing keys from `figure`.
    static TERM: TermKeys = "figure" {
        /// A traffic entry or a link.
        subject: Key<Text> = like("short"),
        /// Its metric: docs/results.md.
        metric: Key<Text> = like("completion"),
        /// Statistic of the metric.
        stat: Choice<Stat> = of(STATS).or("mean"),
        /// The case, if there are several.
        case: Key<Text>,
        /// A value of each varied key with several.
        at: Below = table(&AT),
    }
}

/// Values of a bound, in words and as JSON Schema.
fn bounds() -> (String, Json) {
    ("figure with its unit, or number".to_owned(), json!({ "type": ["string", "number"] }))
}

/// Parts of the file that claims may refer to.
struct Known<'a> {
    cases: &'a [Case],
    axes: &'a [Axis],
}

pub(crate) fn read_claims(
    root: &Reader<'_>,
    cases: &[Case],
    axes: &[Axis],
    key: &Below,
) -> Result<Vec<Claim>, Error> {
    let known = Known { cases, axes };
    let mut claims: Vec<Claim> = Vec::new();
    for reader in root.children(key)? {
        let claim = read_one(&reader, &known)?;
        if claims.iter().any(|prior| prior.name == claim.name) {
            return Err(reader.error(&KEYS.name, "must differ from the other claims' names"));
        }
        claims.push(claim);
    }
    Ok(claims)
}

fn read_one(reader: &Reader<'_>, known: &Known<'_>) -> Result<Claim, Error> {
    reader.check(&[&KEYS])?;
    let owned = |text: Option<&str>| text.map(|text| text.trim().to_owned());
    let claim = Claim {
        name: reader.need_name(&KEYS.name)?.to_owned(),
        says: reader.need_text(&KEYS.says)?.trim().into(),
        by: reader.choose(&KEYS.by)?,
        because: owned(reader.text(&KEYS.because)?),
        see: owned(reader.text(&KEYS.see)?),
        cannot: owned(reader.text(&KEYS.cannot)?),
        checks: reader
            .children(&KEYS.check)?
            .iter()
            .map(|check| read_check(check, known))
            .collect::<Result<_, _>>()?,
        origin: reader.origin(),
    };
    match (claim.checks.is_empty(), &claim.cannot) {
        (true, None) => Err(reader.error(
            &KEYS.check,
            "missing: give at least one [[claim.check]], or give the reason in cannot",
        )),
        (false, Some(_)) => {
            Err(reader.error(&KEYS.cannot, "conflicts with the claim's checks: leave one out"))
        }
        _ => Ok(claim),
    }
}

fn read_check(reader: &Reader<'_>, known: &Known<'_>) -> Result<Check, Error> {
    reader.check(&[&CHECK])?;
    let every = read_every(reader, known)?;
    let written = read_term(&reader.need_child(&CHECK.figure)?, None)?;
    let other = match (reader.child(&CHECK.over)?, reader.child(&CHECK.minus)?) {
        (Some(_), Some(_)) => {
            return Err(reader.error(&CHECK.minus, "conflicts with over: leave one out"));
        }
        (Some(over), None) => Some((Join::Over, over)),
        (None, Some(minus)) => Some((Join::Minus, minus)),
        (None, None) => None,
    };
    let other = other
        .map(|(join, reader)| Ok::<_, Error>((join, read_term(&reader, Some(&written))?)))
        .transpose()?;
    if let Some((join, term)) = &other {
        if term.metric.unit() != written.metric.unit() {
            let message = format!(
                "{} and {} have different units",
                term.metric.name(),
                written.metric.name()
            );
            return Err(reader.error(join.name(), message));
        }
    }
    let unit_of = match &other {
        Some((Join::Over, _)) => None,
        _ => Some(written.metric),
    };
    let bounds = read_bounds(reader, unit_of)?;
    let figure = complete(reader, "figure", written, &every, known)?;
    let other = other
        .map(|(join, term)| {
            Ok::<_, Error>((join, complete(reader, join.name(), term, &every, known)?))
        })
        .transpose()?;
    for (name, is_fixed) in every.iter().map(|every| match every {
        Every::Case => ("case", figure.case.is_some()),
        Every::Value(path, _) => {
            let fixed =
                |(other, value): &(String, Option<String>)| other == path && value.is_some();
            (path.as_str(), figure.at.iter().any(fixed))
        }
    }) {
        if is_fixed {
            let message = format!("covers {name}, but the figure gives one: leave that out");
            return Err(reader.error(&CHECK.every, message));
        }
    }
    if let Some((join, _)) = other.as_ref().filter(|(_, other)| *other == figure) {
        let message =
            "is the same figure: give another case, value, metric or statistic".to_owned();
        return Err(reader.error(join.name(), message));
    }
    let cases = known.cases.iter().map(|case| case.name.clone()).collect();
    Ok(Check { figure, other, bounds, every, cases, origin: reader.origin() })
}

fn read_every(reader: &Reader<'_>, known: &Known<'_>) -> Result<Vec<Every>, Error> {
    let words = reader.texts(&CHECK.every)?.unwrap_or_default();
    if let Some(twice) = words.iter().enumerate().find(|(i, word)| words[..*i].contains(*word)) {
        return Err(reader.error(&CHECK.every, format!("has {:?} twice", twice.1)));
    }
    words
        .into_iter()
        .map(|word| match known.axes.iter().find(|axis| axis.path == word) {
            Some(axis) => Ok(Every::Value(axis.path.clone(), axis.labels())),
            None if word == "case" => Ok(Every::Case),
            None => {
                let paths = known.axes.iter().map(|axis| axis.path.as_str());
                Err(reader.error(&CHECK.every, one_of(word, std::iter::once("case").chain(paths))))
            }
        })
        .collect()
}

/// Reads a term. Missing keys come from `like`.
fn read_term(reader: &Reader<'_>, like: Option<&Term>) -> Result<Term, Error> {
    reader.check(&[&TERM])?;
    let subject = match (reader.text(&TERM.subject)?, like) {
        (None, Some(like)) => like.subject.clone(),
        (Some(subject), _) => subject.to_owned(),
        (None, None) => reader.need_text(&TERM.subject)?.to_owned(),
    };
    let metric = match (reader.text(&TERM.metric)?, like) {
        (None, Some(like)) => like.metric,
        (Some(name), _) => metric_named(name).map_err(|why| reader.error(&TERM.metric, why))?,
        (None, None) => metric_named(reader.need_text(&TERM.metric)?)
            .map_err(|why| reader.error(&TERM.metric, why))?,
    };
    let stat = match like.filter(|_| !reader.has(&TERM.stat)) {
        Some(like) => like.stat,
        None => reader.choose(&TERM.stat)?,
    };
    let case = reader.text(&TERM.case)?.map(str::to_owned);
    let mut at: Vec<(String, Option<String>)> = Vec::new();
    if let Some(table) = reader.child(&TERM.at)? {
        at.extend(table.entries().map(|(path, node)| (path.to_owned(), Some(node.label()))));
    }
    for (path, value) in like.map_or(&[][..], |like| like.at.as_slice()) {
        if !at.iter().any(|(named, _)| named == path) {
            at.push((path.clone(), value.clone()));
        }
    }
    let case = case.or_else(|| like.and_then(|like| like.case.clone()));
    Ok(Term { subject, metric, stat, case, at })
}

/// Checks that a term gives the case, and a value for every axis that the check does not cover.
fn complete(
    check: &Reader<'_>,
    key: &str,
    term: Term,
    every: &[Every],
    known: &Known<'_>,
) -> Result<Term, Error> {
    let reader = check.need_child(key)?;
    let case = match &term.case {
        Some(name) if !has_case(known.cases, name) => {
            let names = known.cases.iter().map(|case| case.name.as_str());
            return Err(reader.error(&TERM.case, one_of(name, names)));
        }
        Some(name) => Some(name.clone()),
        None if every.contains(&Every::Case) => None,
        None if known.cases.len() == 1 => Some(known.cases[0].name.clone()),
        None => {
            return Err(
                reader.error(&TERM.case, "missing: give one, or every = \"case\" in the check")
            );
        }
    };
    if let Some((path, _)) =
        term.at.iter().find(|(path, _)| !known.axes.iter().any(|axis| axis.path == *path))
    {
        return Err(reader.error(&TERM.at, format!("{path:?} is not a key of [vary]")));
    }
    let at = known.axes.iter().map(|axis| {
        let path = &axis.path;
        let labels = axis.labels();
        let value = term.at.iter().find(|(named, _)| named == path).and_then(|(_, v)| v.clone());
        let goes_through =
            every.iter().any(|every| matches!(every, Every::Value(named, _) if named == path));
        match value {
            Some(value) if !labels.contains(&value) => {
                let allowed = one_of(&value, labels.iter().map(String::as_str));
                Err(reader.error(&TERM.at, format!("{path} {allowed}")))
            }
            Some(value) => Ok((path.clone(), Some(value))),
            None if goes_through => Ok((path.clone(), None)),
            None if labels.len() == 1 => Ok((path.clone(), Some(labels[0].clone()))),
            None => Err(reader.error(
                "at",
                format!("must give a value of {path:?}, or the check needs every = {path:?}"),
            )),
        }
    });
    let at = at.collect::<Result<_, _>>()?;
    Ok(Term { case, at, ..term })
}

fn read_bounds(reader: &Reader<'_>, metric: Option<Metric>) -> Result<Bounds, Error> {
    let number = |key: &Special| -> Result<Option<(f64, String)>, Error> {
        let Some(node) = reader.node(key) else { return Ok(None) };
        let (value, text) = bound(node, metric).map_err(|why| reader.error(key, why))?;
        Ok(Some((value, text)))
    };
    let (at_least, at_most) = (number(&CHECK.at_least)?, number(&CHECK.at_most)?);
    let Some((equals, text)) = number(&CHECK.equals)? else {
        if reader.has(&CHECK.within) {
            return Err(reader.error(&CHECK.within, "needs equals"));
        }
        let words = [("at least", &at_least), ("at most", &at_most)];
        let words: Vec<String> = words
            .into_iter()
            .filter_map(|(word, bound)| Some(format!("{word} {}", bound.as_ref()?.1)))
            .collect();
        let bounds = Bounds {
            at_least: at_least.map(|(value, _)| value),
            at_most: at_most.map(|(value, _)| value),
            text: words.join(", "),
        };
        return match (bounds.at_least, bounds.at_most) {
            (None, None) => Err(reader
                .error(&CHECK.at_least, "missing: give at_least, at_most, or equals with within")),
            (Some(least), Some(most)) if least > most => {
                Err(reader.error(&CHECK.at_least, "must not be above at_most"))
            }
            _ => Ok(bounds),
        };
    };
    if at_least.is_some() || at_most.is_some() {
        return Err(
            reader.error(&CHECK.equals, "conflicts with at_least and at_most: leave one out")
        );
    }
    let Some(within) = reader.node(&CHECK.within) else {
        return Err(reader.error(&CHECK.within, "missing, as in within = \"20 %\""));
    };
    let share =
        within.text().and_then(|text| figure(text).ok()).filter(|(_, unit)| *unit == "share");
    let half = match share {
        Some((share, _)) => equals.abs() * share,
        None => bound(within, metric).map_err(|why| reader.error(&CHECK.within, why))?.0,
    };
    if half < 0.0 {
        return Err(reader.error(&CHECK.within, "must not be negative"));
    }
    Ok(Bounds {
        at_least: Some(equals - half),
        at_most: Some(equals + half),
        text: format!("{text} within {}", within.label()),
    })
}

/// Reads a bound of a metric or a ratio. Returns it with its text.
fn bound(node: &Node, metric: Option<Metric>) -> Result<(f64, String), String> {
    let text = match &node.value {
        Value::Integer(_) | Value::Text(_) | Value::Other(_) => node.label(),
        _ => return Err("must be a number with its unit, as in \"5 ms\"; a ratio has none".into()),
    };
    let (value, unit) = figure(&text)?;
    let fits = metric.map_or(matches!(unit, "" | "share"), |metric| metric.takes(unit));
    fits.then_some((value, text)).ok_or_else(|| match metric {
        Some(metric) if metric.unit().is_empty() => {
            format!("must have no unit but %, as {} has", metric.name())
        }
        Some(metric) => format!("must have the unit of {} ({})", metric.name(), metric.unit()),
        None => "must have no unit but %, because it bounds a ratio".into(),
    })
}

/// Refuses claims about metrics that are not measured.
pub(crate) fn check_measured(
    claims: &[Claim],
    scenario: &Scenario,
    wrong: &dyn Fn(Origin, String, Reason) -> Error,
) -> Result<(), Error> {
    for claim in claims {
        for check in &claim.checks {
            let others = check.other.iter().map(|(join, term)| (join.name(), term));
            for (role, term) in std::iter::once(("figure", &check.figure)).chain(others) {
                let key = |key: &str| format!("claim.{}.check.{role}.{key}", claim.name);
                let Some(metrics) = scenario.measured_of(&term.subject) else {
                    let subject = term.subject.escape_debug();
                    let why =
                        format!("\"{subject}\" is neither a traffic entry nor a recorded link");
                    return Err(wrong(check.origin, key("subject"), why.into()));
                };
                if !metrics.contains(&term.metric) {
                    let names = metrics.iter().map(|metric| metric.name());
                    return Err(wrong(
                        check.origin,
                        key("metric"),
                        one_of(term.metric.name(), names),
                    ));
                }
            }
        }
    }
    Ok(())
}
