//! Claims: the verdict as word, colour and shape; each check's value against its bounds.

use std::fmt::Write as _;

use knee_results::manifest::{Check, CheckRow, Claim, Manifest, Published, Term};
use knee_results::{CheckVerdict, ClaimVerdict, Metric};

use crate::figure::Piece;
use crate::plot::Range;
use crate::summary::spread;
use crate::svg::{Area, FILLED, Svg};
use crate::text::{Unit, escaped};

/// The verdict on a claim, and whether one run is all there is to it.
pub(crate) fn chip_of(claim: &Claim) -> String {
    let run = claim.checks.iter().filter(|check| check.verdict != CheckVerdict::NotRun).count();
    let checks = (0 < run && run < claim.checks.len())
        .then(|| format!("{run} of {} checks", claim.checks.len()));
    let runs = claim.is_of_one_run().then(|| "one run".to_owned());
    let scope = checks.into_iter().chain(runs).collect::<Vec<_>>().join(", ");
    format!("{} <small>{scope}</small>", chip(claim.verdict))
}

/// A verdict: shape, colour and words.
pub(crate) fn chip(verdict: ClaimVerdict) -> String {
    format!("<span class=\"chip {}\">{}{}</span>", class(verdict), icon(verdict), verdict.name())
}

/// CSS class of a verdict.
pub(crate) fn class(verdict: ClaimVerdict) -> &'static str {
    match verdict {
        ClaimVerdict::Stands => "stands",
        ClaimVerdict::StandsInPart => "part",
        ClaimVerdict::DoesNotStand => "fails",
        ClaimVerdict::Undecided => "cannot",
        ClaimVerdict::NotRun => "notrun",
    }
}

/// The shape alone.
pub(crate) fn icon(verdict: ClaimVerdict) -> String {
    let shape = match verdict {
        ClaimVerdict::Stands => {
            "<circle cx=\"8\" cy=\"8\" r=\"7\" fill=\"currentColor\"/><path d=\"M4.6 8.3l2.4 2.4 4.6-5\" class=\"cut\"/>"
        }
        ClaimVerdict::StandsInPart => {
            "<circle cx=\"8\" cy=\"8\" r=\"6.2\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.6\"/>\
             <path d=\"M8 1.8a6.2 6.2 0 0 0 0 12.4z\" fill=\"currentColor\"/>"
        }
        ClaimVerdict::DoesNotStand => {
            "<path d=\"M8 .6 15.4 8 8 15.4.6 8z\" fill=\"currentColor\"/><path d=\"M5.6 5.6l4.8 4.8M10.4 5.6l-4.8 4.8\" class=\"cut\"/>"
        }
        ClaimVerdict::Undecided => {
            "<rect x=\"1.8\" y=\"1.8\" width=\"12.4\" height=\"12.4\" rx=\"2\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.5\"/>\
             <path d=\"M6 6.3a2 2 0 1 1 2.9 1.8c-.6.3-.9.6-.9 1.3M8 11.4v.5\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.5\"/>"
        }
        ClaimVerdict::NotRun => {
            "<circle cx=\"8\" cy=\"8\" r=\"6.2\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.3\" stroke-dasharray=\"2.4 2.4\"/>"
        }
    };
    format!(
        "<svg class=\"icon\" viewBox=\"0 0 16 16\" width=\"16\" height=\"16\" aria-hidden=\"true\">{shape}</svg>"
    )
}

/// The check that decides a claim: the first that fails, else the first undecided one, else the first.
pub(crate) fn deciding(claim: &Claim) -> Option<&Check> {
    let with = |verdict| claim.checks.iter().find(|check| check.verdict == verdict);
    with(CheckVerdict::Fails)
        .or_else(|| with(CheckVerdict::Undecided))
        .or_else(|| with(CheckVerdict::Holds))
        .or_else(|| claim.checks.first())
}

/// The row of a check that fails by most, or else passes by least, with its number.
fn worst(check: &Check) -> Option<(usize, &CheckRow)> {
    let margin = |row: &CheckRow| {
        let (least, most) = deciding_ends(check, row)?;
        let above = check.at_least.map_or(f64::INFINITY, |bound| least - bound);
        let below = check.at_most.map_or(f64::INFINITY, |bound| bound - most);
        Some(above.min(below))
    };
    let rows = check.rows.iter().enumerate();
    let known = rows.filter_map(|(i, row)| Some(((is_inside(check, row), margin(row)?), (i, row))));
    known.min_by(|(a, _), (b, _)| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))).map(|(_, row)| row)
}

/// The numbers of a row to hold against the lower and the upper bound of its check: its value for both. Of a row of which only the
/// ends are known, the ends that are nearest to the bounds if it fails, and the farthest ones if not. `None`: not measured.
fn deciding_ends(check: &Check, row: &CheckRow) -> Option<(f64, f64)> {
    let (low, high) = ends(row)?;
    let (low, high) = (low.unwrap_or(f64::NEG_INFINITY), high.unwrap_or(f64::INFINITY));
    Some(if is_inside(check, row) { (low, high) } else { (high, low) })
}

/// The least and the most that a row's value can be, each `None` where it has no such end: both are the value if that is known.
/// `None`: not measured.
fn ends(row: &CheckRow) -> Option<(Option<f64>, Option<f64>)> {
    match (row.value, row.low, row.high) {
        (None, None, None) => None,
        (None, low, high) => Some((low, high)),
        (value, ..) => Some((value, value)),
    }
}

/// Whether a row's value lies within a check's bounds, as far as the value is known.
fn is_inside(check: &Check, row: &CheckRow) -> bool {
    match row.value {
        Some(value) => {
            check.at_least.is_none_or(|bound| value >= bound)
                && check.at_most.is_none_or(|bound| value <= bound)
        }
        None => row.verdict != CheckVerdict::Fails,
    }
}

/// Behind values of a check: how often one figure is the other, or nothing.
fn times(check: &Check) -> &'static str {
    if check.terms.iter().any(|term| term.role == "over") { "\u{a0}×" } else { "" }
}

/// From one value of a check to another, or both as one where they read the same.
fn span(check: &Check, low: f64, high: f64) -> String {
    let unit = Unit::of(&check.unit, high.abs());
    let (from, to) = (unit.show(low), unit.show(high));
    match from == to {
        true => shown(check, high),
        false => format!("{from} to {}", shown(check, high)),
    }
}

/// A value of a check.
fn shown(check: &Check, value: f64) -> String {
    format!("{}{}", Unit::alone(&check.unit, value), times(check))
}

/// Measured value with its interval, or what is known of it.
fn value(check: &Check, row: &CheckRow) -> String {
    let Some(value) = row.value else { return between(check, ends(row)) };
    let shown = shown(check, value);
    match (row.low, row.high) {
        (Some(low), Some(high)) if low < high => {
            let unit = Unit::of(&check.unit, value.abs());
            let (low, high) = (unit.show(low), unit.show(high));
            if low == high { shown } else { format!("{shown} ({low} to {high})") }
        }
        _ => shown,
    }
}

/// The least and the most that something can be, in words.
fn between(check: &Check, ends: Option<(Option<f64>, Option<f64>)>) -> String {
    match ends {
        None => "not measured".into(),
        Some((Some(low), Some(high))) => span(check, low, high),
        Some((Some(low), None)) => format!("> {}", shown(check, low)),
        Some((None, Some(high))) => format!("< {}", shown(check, high)),
        Some((None, None)) => "any".into(),
    }
}

/// The bounds in words.
fn bounds(check: &Check) -> String {
    match (check.at_least, check.at_most) {
        (Some(least), Some(most)) => span(check, least, most),
        (Some(least), None) => format!("≥ {}", shown(check, least)),
        (None, Some(most)) => format!("≤ {}", shown(check, most)),
        (None, None) => String::new(),
    }
}

/// Published value for a row of a check.
fn published_for(m: &Manifest, check: &Check, row: usize) -> Option<f64> {
    let value = |term: &Term| {
        let is_of = |p: &&Published| {
            (&p.subject, &p.metric, &p.stat) == (&term.subject, &term.metric, &term.stat)
                && p.cases.contains(&term.case)
                && p.at.iter().all(|(path, value)| {
                    let there = term.at.iter().find(|(of_term, _)| of_term == path);
                    there.is_none_or(|(_, of_term)| of_term == value)
                })
        };
        m.published.iter().find(is_of).map(|p| p.value)
    };
    match check.terms_of(row) {
        [only] => value(only),
        [first, second] if second.role == "minus" => Some(value(first)? - value(second)?),
        [first, second] => Some(value(first)? / value(second).filter(|value| *value != 0.0)?),
        _ => None,
    }
    .filter(|value| value.is_finite())
}

/// A claim in the overview: what its deciding check found.
#[derive(Default)]
pub(crate) struct ClaimValues {
    pub(crate) ours: String,
    pub(crate) wanted: String,
    pub(crate) published: String,
    pub(crate) strip: String,
}

/// Measured, expected and published values of a claim.
pub(crate) fn found(m: &Manifest, claim: &Claim) -> ClaimValues {
    let Some(check) = deciding(claim) else { return ClaimValues::default() };
    let wanted = bounds(check);
    let Some((i, row)) = worst(check) else {
        return ClaimValues { wanted, ..ClaimValues::default() };
    };
    let of = match check.rows.len() {
        1 => String::new(),
        n => format!(", worst of {n}"),
    };
    ClaimValues {
        ours: value(check, row) + &of,
        wanted,
        published: published_for(m, check, i).map_or_else(String::new, |p| shown(check, p)),
        strip: strip(m, check),
    }
}

/// A check as a small drawing: where it may be, where it is, and where it was published to be.
fn strip(m: &Manifest, check: &Check) -> String {
    let (width, height, y) = (190.0, 26.0, 11.0);
    let rows: Vec<&CheckRow> = check.rows.iter().filter(|row| ends(row).is_some()).collect();
    let bounds: Vec<f64> = [check.at_least, check.at_most].into_iter().flatten().collect();
    if rows.is_empty() || bounds.is_empty() {
        return String::new();
    }
    let mut published: Vec<f64> =
        (0..check.rows.len()).filter_map(|i| published_for(m, check, i)).collect();
    published.dedup();
    let values = rows.iter().flat_map(|row| [row.value, row.low, row.high]).flatten();
    let all: Vec<f64> = values.chain(bounds.iter().chain(&published).copied()).collect();
    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
    let most = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // An interval that reaches zero does not keep the rest from being told apart.
    let known = rows.iter().filter_map(|row| ends(row)).flat_map(|(low, high)| [low, high]);
    let positive = known.flatten().chain(bounds.iter().copied());
    let positive = positive.chain(published.iter().copied()).fold(f64::INFINITY, f64::min);
    let log = least >= 0.0 && positive > 0.0 && most / positive > 8.0;
    let least = if log { positive } else { least };
    let range = match log {
        true => Range {
            low: least / (most / least).powf(0.12),
            high: most * (most / least).powf(0.12),
            log,
        },
        false => {
            let air = ((most - least) * 0.15).max(most.abs() * 0.05).max(f64::MIN_POSITIVE);
            Range {
                low: if least >= 0.0 { (least - air).max(0.0) } else { least - air },
                high: most + air,
                log,
            }
        }
    };
    let at = |value: f64| 4.0 + range.share(value) * (width - 8.0);
    let from = check.at_least.map_or(1.0, at);
    let to = check.at_most.map_or(width - 1.0, at);
    let says = format!(
        "{}: within the shaded part, from {} to {}",
        check.verdict.name(),
        Unit::alone(&check.unit, range.low),
        Unit::alone(&check.unit, range.high)
    );
    let mut out = Svg::default();
    let zone = Area { left: from, top: 2.0, right: to.max(from), bottom: 20.0 };
    out.rect("z", zone, "");
    out.rule("a", format_args!("M1 {y}H{}", width - 1.0));
    for bound in &bounds {
        out.rule("bound", format_args!("M{:.1} 2v18", at(*bound)));
    }
    published.into_iter().for_each(|value| out.published((at(value), y)));
    for row in rows {
        // Of a row of which only the ends are known, a mark where its value might be.
        let Some((low, high)) = ends(row) else { continue };
        let Some(value) = low.or(high) else { continue };
        let is_open = row.value.is_none() && row.verdict == CheckVerdict::Undecided;
        let class = match (check.verdict, is_inside(check, row)) {
            _ if is_open => "un",
            (CheckVerdict::Undecided | CheckVerdict::NotRun, _) => "un",
            (_, true) => "ok",
            (_, false) => "no",
        };
        let (low, high) = match row.value {
            Some(_) => (row.low.map(at), row.high.map(at)),
            None => (Some(row.low.map_or(1.0, at)), Some(row.high.map_or(width - 1.0, at))),
        };
        if let (Some(low), Some(high)) = (low, high) {
            out.bar(class, (low, high), y, (4, ".5"));
        }
        let shape = match class {
            "no" => "M-4.4 0 0-4.4 4.4 0 0 4.4z",
            "un" => "M-3.4-3.4h6.8v6.8h-6.8z",
            _ => "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
        };
        out.shape(class, (at(value), y), shape, FILLED);
    }
    Piece { width, height, body: out.0 }.svg_of(" class=\"strip\"", &says)
}

/// A claim with all its checks.
pub(crate) fn html(
    m: &Manifest,
    claim: &Claim,
    experiment: &str,
    known: &dyn Fn(&str) -> Option<String>,
) -> String {
    let mut out = format!(
        "<article class=\"claim {}\" id=\"{experiment}-claim-{}\">",
        class(claim.verdict),
        crate::text::slug(&claim.name)
    );
    // Where the file names no source, nothing comes from one.
    let by = match (claim.by.as_str(), &m.about.source) {
        (_, None) => "claimed by the experiment's file",
        ("source", _) => "claimed by the source",
        ("us", _) => "derived by us from the source's figures",
        _ => "",
    };
    let _ = write!(
        out,
        "<p class=\"head\">{} <strong>{}</strong> <small>{by}</small></p>",
        chip_of(claim),
        escaped(&claim.says)
    );
    for check in &claim.checks {
        out.push_str(&check_html(m, check));
    }
    let mut say = |label: &str, text: Option<&String>| {
        if let Some(text) = text {
            let _ = write!(out, "<p class=\"why\"><b>{label}</b> {}</p>", escaped(text));
        }
    };
    say(if m.quick { "Cause, in the full set:" } else { "Why:" }, claim.cause());
    say("Cannot be decided here:", claim.cannot.as_ref());
    if let Some(see) = &claim.see {
        let shown = escaped(see);
        let shown = known(see).map_or(shown.clone(), |id| format!("<a href=\"#{id}\">{shown}</a>"));
        let _ = write!(out, "<p class=\"why\"><b>Shown by</b> {shown}</p>");
    }
    out.push_str("</article>");
    out
}

fn check_html(m: &Manifest, check: &Check) -> String {
    let mut out = format!(
        "<div class=\"check\"><p><span class=\"mini {}\">{}</span> {}</p><div class=\"found\">{}<p>",
        check_class(check.verdict),
        check.verdict.name(),
        escaped(&check.says),
        strip(m, check)
    );
    let published = |row: usize| {
        let value = published_for(m, check, row);
        value.map_or_else(String::new, |value| format!(", published {}", shown(check, value)))
    };
    let one = |i: usize, row: &CheckRow| {
        let terms = check.terms_of(i).iter();
        let lacks = terms.filter_map(|term| term.lacks.clone()).next();
        let ours = lacks.filter(|_| ends(row).is_none()).unwrap_or_else(|| value(check, row));
        format!(
            "<b>{}</b><small>{}</small>{}",
            escaped(&ours),
            escaped(&made_of(check.terms_of(i))),
            escaped(&published(i))
        )
    };
    match check.rows.as_slice() {
        [] => {
            let _ = write!(out, "not in the quick set; expected {}</p>", escaped(&bounds(check)));
        }
        [only] => {
            let _ = write!(out, "{}, wanted {}</p>", one(0, only), escaped(&bounds(check)));
        }
        rows => {
            let outside = rows.iter().filter(|row| !is_inside(check, row)).count();
            // From the least to the most: unknown where any row's end is.
            let known: Vec<_> = rows.iter().filter_map(ends).collect();
            let all: Option<Vec<f64>> = known.iter().map(|(low, _)| *low).collect();
            let low = all.and_then(|lows| lows.into_iter().reduce(f64::min));
            let all: Option<Vec<f64>> = known.iter().map(|(_, high)| *high).collect();
            let high = all.and_then(|highs| highs.into_iter().reduce(f64::max));
            let ours = between(check, (!known.is_empty()).then_some((low, high)));
            let _ = write!(
                out,
                "<b>{}</b> in {} cases, expected {} in each",
                escaped(&ours),
                rows.len(),
                escaped(&bounds(check))
            );
            if let Some((_, row)) = worst(check).filter(|_| outside > 0) {
                let _ = write!(out, "; outside in {outside}, farthest at {}", escaped(&row.at));
            }
            out.push_str("</p><details><summary>All values</summary><ul>");
            for (i, row) in rows.iter().enumerate() {
                let _ = write!(out, "<li>{}: {}</li>", escaped(&row.at), one(i, row));
            }
            out.push_str("</ul></details>");
        }
    }
    out.push_str("</div></div>");
    out
}

/// The figures whose ratio or difference a value is.
fn made_of(terms: &[Term]) -> String {
    let figure = |term: &Term| match (term.value, term.ci95) {
        (None, _) => match (term.at_least, term.at_most) {
            (None, None) => "not measured".to_owned(),
            (Some(least), None) => format!("> {}", unit_of(&term.metric, least).named(least)),
            (None, Some(most)) => format!("< {}", unit_of(&term.metric, most).named(most)),
            (Some(least), Some(most)) => {
                let unit = unit_of(&term.metric, most);
                format!("{} to {}", unit.show(least), unit.named(most))
            }
        },
        (Some(value), None) => unit_of(&term.metric, value).named(value),
        (Some(value), Some(half)) => {
            let unit = unit_of(&term.metric, value);
            format!("{}{}", unit.named(value), spread(&term.metric, value, half, unit))
        }
    };
    match terms {
        [first, second] => format!(" = {} {} {}", figure(first), second.role, figure(second)),
        _ => String::new(),
    }
}

/// The unit of a term's value: terms carry none, their metrics do.
fn unit_of(metric: &str, value: f64) -> Unit {
    let unit = Metric::by_name(metric).map_or("", Metric::unit);
    Unit::of_metric(metric, unit, value.abs())
}

fn check_class(verdict: CheckVerdict) -> &'static str {
    match verdict {
        CheckVerdict::Holds => "ok",
        CheckVerdict::Fails => "no",
        CheckVerdict::Undecided | CheckVerdict::NotRun => "un",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(role: &str, case: &str, at: &str, value: f64) -> Term {
        Term {
            role: role.into(),
            case: case.into(),
            at: vec![("size".into(), at.into())],
            subject: "short".into(),
            metric: "completion".into(),
            stat: "mean".into(),
            value: Some(value),
            at_least: None,
            at_most: None,
            ci95: None,
            lacks: None,
            runs: Some(3),
        }
    }

    fn row(at: &str, value: f64) -> CheckRow {
        let (at, verdict) = (at.into(), CheckVerdict::Holds);
        CheckRow { at, verdict, value: Some(value), low: Some(value), high: Some(value) }
    }

    #[test]
    fn a_verdict_says_when_one_run_is_all_there_is_to_it() {
        let claim = |runs| Claim {
            name: "sooner".into(),
            says: "It is sooner.".into(),
            by: "us".into(),
            because: Some("A cause.".into()),
            see: None,
            cannot: None,
            verdict: ClaimVerdict::Stands,
            checks: vec![Check {
                says: String::new(),
                verdict: CheckVerdict::Holds,
                unit: "s".into(),
                rows: vec![row("", 1.0)],
                at_least: Some(0.5),
                at_most: None,
                terms: vec![Term { runs, ..term("figure", "dctcp", "10 kB", 1.0) }],
            }],
        };
        assert!(chip_of(&claim(Some(1))).contains("one run"));
        assert!(!chip_of(&claim(Some(2))).contains("one run"));
        // Of results of before runs were told.
        assert!(!chip_of(&claim(None)).contains("one run"));
        assert!(claim(None).cause().is_none());
    }

    #[test]
    fn bounds_of_values_that_were_cut_off_are_shown_and_decide() {
        let between = |at: &str, verdict, low, high| CheckRow {
            at: at.into(),
            verdict,
            value: None,
            low,
            high,
        };
        let at_least = |case: &str, least: f64| Term {
            value: None,
            at_least: Some(least),
            ..term("figure", case, "10 kB", 0.0)
        };
        let mut check = Check {
            verdict: CheckVerdict::Fails,
            unit: "s".into(),
            at_most: Some(0.002),
            rows: vec![
                row("dctcp", 0.000_726),
                between("cubic", CheckVerdict::Fails, Some(0.002_3), Some(0.002_4)),
                between("reno", CheckVerdict::Undecided, Some(0.001), None),
            ],
            terms: Vec::new(),
            ..Check::default()
        };
        let m = Manifest::default();
        assert_eq!(worst(&check).map(|(i, _)| i), Some(1));
        let html = check_html(&m, &check);
        for wanted in [
            "<b>&gt; 726 us</b> in 3 cases, expected ≤ 2 ms in each; outside in 1, farthest at cubic",
            "<li>cubic: <b>2.3 to 2.4 ms</b>",
            "<li>reno: <b>&gt; 1 ms</b>",
        ] {
            assert!(html.contains(wanted), "{wanted}\n{html}");
        }
        let drawn = strip(&m, &check);
        for class in ["ok", "no", "un"] {
            let marks = drawn.matches(&format!("class=\"{class}\" transform")).count();
            assert_eq!(marks, 1, "{class}\n{drawn}");
        }
        // An undecided row is worse than one that holds, and where nothing is known, nothing is drawn.
        check.verdict = CheckVerdict::Undecided;
        check.rows.remove(1);
        assert_eq!(worst(&check).map(|(i, _)| i), Some(1));
        check.rows = vec![between("", CheckVerdict::Undecided, None, None)];
        assert!(check_html(&m, &check).contains("not measured") && strip(&m, &check).is_empty());
        // A sign is escaped once.
        check.rows = vec![between("", CheckVerdict::Undecided, Some(0.5), None)];
        check.terms =
            vec![at_least("cubic", 0.01), Term { role: "over".into(), ..at_least("reno", 0.02) }];
        let html = check_html(&m, &check);
        assert!(
            html.contains(" = &gt; 10 ms over &gt; 20 ms") && !html.contains("&amp;"),
            "{html}"
        );
    }

    #[test]
    fn a_check_of_many_cases_is_a_line_and_a_list_on_demand() {
        let published = |case: &str, value| Published {
            subject: "short".into(),
            metric: "completion".into(),
            stat: "mean".into(),
            cases: vec![case.into()],
            at: vec![("size".into(), "10 kB".into())],
            value,
            text: String::new(),
            unit: "s".into(),
            note: None,
        };
        let m = Manifest {
            published: vec![published("cubic", 0.012), published("dctcp", 0.003)],
            ..Manifest::default()
        };
        let mut check = Check {
            says: "completion of short (cubic) over dctcp, every size: at least 3".into(),
            verdict: CheckVerdict::Fails,
            unit: String::new(),
            rows: vec![row("size 10 kB", 5.0), row("size 1 MB", 2.0)],
            at_least: Some(3.0),
            at_most: None,
            terms: vec![
                term("figure", "cubic", "10 kB", 0.010),
                term("over", "dctcp", "10 kB", 0.002),
                term("figure", "cubic", "1 MB", 0.5),
                term("over", "dctcp", "1 MB", 0.25),
            ],
        };
        let html = check_html(&m, &check);
        for wanted in [
            "<b>2 to 5\u{a0}×</b> in 2 cases, expected ≥ 3\u{a0}× in each; outside in 1, farthest \
                at size 1 MB",
            "<li>size 10 kB: <b>5\u{a0}×</b><small> = 10 ms over 2 ms</small>, published 4\u{a0}×</li>",
            "<li>size 1 MB: <b>2\u{a0}×</b><small> = 500 ms over 250 ms</small></li>",
        ] {
            assert!(html.contains(wanted), "{wanted}\n{html}");
        }
        // What was published is drawn once, of the one row that has it.
        assert_eq!(strip(&m, &check).matches("class=\"p\"").count(), 1);
        check.rows.truncate(1);
        check.terms.truncate(2);
        let html = check_html(&m, &check);
        assert!(
            !html.contains("<details>") && html.contains("published 4\u{a0}×, wanted ≥"),
            "{html}"
        );
    }
}
