//! Ranges of values: `1..64`, `100 kB..1 MB step 100 kB`, `2..64 times 2 pkts`, `1 Gbps..100 Gbps log 5`.
//!
//! A number without a unit takes that of the end, and the end that of the last word. Nothing is stored before the number of
//! values is known to be allowed.

use knee_file::{Value, units};

/// Largest number of values of a varied key.
pub(crate) const MAX_VALUES: usize = 1_000;
/// Numbers are counted in these parts of their unit, so that nine decimals are exact.
const PARTS: u128 = 1_000_000_000;
const DECIMALS: usize = 9;
/// Significant digits of the values of `log` between its ends.
const DIGITS: u32 = 3;

/// How a range goes on from a value to the next.
enum Way {
    Step(u128),
    Times(u128),
    /// So many values at equal ratios.
    Log(u128),
}

/// A unit and its worth in the unit that the parts are of.
type Unit<'a> = (&'a str, u128);

/// Returns the values of a range. `None` if the text is no range.
pub(crate) fn range(text: &str) -> Result<Option<Vec<Value>>, String> {
    let Some((first, rest)) = text.split_once("..") else { return Ok(None) };
    let Some((first, first_unit)) = quantity(first) else { return Ok(None) };
    let rest = words(rest);
    let is_way = |word: &&str| ["step", "times", "log"].contains(word);
    let Some((last, rest)) = rest.split_first().filter(|(last, _)| !is_way(last)) else {
        return Err("has no end, as in \"1..64\" or \"1 Gbps..100 Gbps log 5\"".into());
    };
    let last = number(last).ok_or_else(bad)?;
    let (last_unit, way) = rest.split_at(rest.iter().position(is_way).unwrap_or(rest.len()));
    let last_unit = last_unit.join(" ");
    let (way, way_unit) = match way {
        [] => (None, String::new()),
        [name, by, unit @ ..] if !unit.iter().any(is_way) => {
            (Some((*name, number(by).ok_or_else(bad)?)), unit.join(" "))
        }
        _ => return Err(bad()),
    };
    let end = if last_unit.is_empty() { way_unit.as_str() } else { last_unit.as_str() };
    let has_step = matches!(way, Some(("step", _)));
    // 100 kB..1 MB step 100: of what?
    let is_open = (end.is_empty() && !first_unit.is_empty())
        || (has_step && way_unit.is_empty() && !first_unit.is_empty() && first_unit != end);
    if is_open {
        return Err("must have the unit of each number, as in \"100 kB..1 MB step 100 kB\"".into());
    }
    if !has_step && !last_unit.is_empty() && !way_unit.is_empty() {
        return Err(bad());
    }
    let names = [first_unit, end, &way_unit].map(|unit| if unit.is_empty() { end } else { unit });
    let [first_unit, end, step_unit] = worths(names)?;
    let in_parts = |number: u128, (_, worth): Unit<'_>| number.checked_mul(worth).ok_or_else(bad);
    let (first, last) = (in_parts(first, first_unit)?, in_parts(last, end)?);
    let way = match way {
        Some(("step", by)) => Way::Step(in_parts(by, step_unit)?),
        Some((name, by)) if by % PARTS == 0 => match name {
            "times" => Way::Times(by / PARTS),
            _ => Way::Log(by / PARTS),
        },
        None if first_unit == end => Way::Step(PARTS),
        None => return Err("must have a step, as in \"100 kB..1 MB step 100 kB\"".into()),
        Some(_) => return Err(bad()),
    };
    values((first, last), &way, &[first_unit, end, step_unit]).map(Some)
}

fn bad() -> String {
    "must be a range that grows, as in \"1..64\", \"10..50 step 10 kB\", \"1..64 times 2\" or \
        \"1 Gbps..100 Gbps log 5\""
        .to_owned()
}

fn values(
    (first, last): (u128, u128),
    way: &Way,
    units: &[Unit<'_>],
) -> Result<Vec<Value>, String> {
    let grows = match way {
        Way::Step(step) => first <= last && *step > 0,
        Way::Times(factor) => first <= last && first > 0 && *factor > 1,
        Way::Log(count) => first < last && first > 0 && *count > 1,
    };
    if !grows {
        return Err(bad());
    }
    let count = match way {
        Way::Step(step) => (last - first) / step + 1,
        Way::Times(factor) => u128::from((last / first).ilog(*factor)) + 1,
        Way::Log(count) => *count,
    };
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    if count > MAX_VALUES {
        return Err(format!("has {count} values, but at most {MAX_VALUES} are allowed"));
    }
    let mut all = Vec::with_capacity(count);
    for at in 0..count {
        all.push(match way {
            Way::Step(step) => first + step * at as u128,
            Way::Times(factor) => first * factor.pow(at as u32),
            Way::Log(_) if at == 0 => first,
            Way::Log(_) if at == count - 1 => last,
            Way::Log(_) => {
                let share = at as f64 / (count - 1) as f64;
                rounded(first as f64 * (last as f64 / first as f64).powf(share), units)
            }
        });
    }
    match all.windows(2).all(|pair| pair[0] < pair[1]) {
        true => all.into_iter().map(|parts| shown(parts, units)).collect(),
        false => Err(format!("has no {count} different values between its ends")),
    }
}

/// Rounds a value to three digits of the unit that it is shown in. Bytes, packets and numbers without a unit stay whole.
fn rounded(parts: f64, units: &[Unit<'_>]) -> u128 {
    let (name, worth) = largest(units, |(_, worth)| parts >= (worth * PARTS) as f64);
    let is_whole = name.is_empty()
        || units::unit(name).is_some_and(|(kind, worth)| worth == 1 && kind != "pct");
    let number = parts / worth as f64;
    let digits = (number as u128).checked_ilog10().unwrap_or(0).saturating_sub(DIGITS - 1);
    let grain = 10_u128.pow(digits).max(if is_whole { PARTS } else { 1 });
    (number / grain as f64).round() as u128 * grain * worth
}

/// Returns the largest unit that fits, or else the smallest.
fn largest<'a>(units: &[Unit<'a>], fits: impl Fn(&Unit<'a>) -> bool) -> Unit<'a> {
    let by_worth = |unit: &&Unit<'a>| unit.1;
    let fitting = units.iter().filter(|unit| fits(unit)).max_by_key(by_worth);
    fitting.or(units.iter().min_by_key(by_worth)).copied().unwrap_or(("", 1))
}

/// Returns a value in the largest unit in which it is at least 1 and has few decimals.
fn shown(parts: u128, units: &[Unit<'_>]) -> Result<Value, String> {
    let is_exact = |(_, worth): &Unit<'_>| parts >= worth * PARTS && parts % worth == 0;
    let (unit, worth) = largest(units, is_exact);
    let parts = parts / worth;
    let (whole, part) = (parts / PARTS, parts % PARTS);
    let number = match part {
        0 => whole.to_string(),
        part => format!("{whole}.{part:0DECIMALS$}").trim_end_matches('0').to_owned(),
    };
    Ok(match unit {
        "" if part == 0 => Value::Integer(i64::try_from(whole).map_err(|_| bad())?),
        "" => Value::Other(number),
        unit => Value::Text(format!("{number} {unit}")),
    })
}

/// Returns what units are worth in one that they share. Equal ones are their own.
fn worths(names: [&str; 3]) -> Result<[Unit<'_>; 3], String> {
    if names.iter().all(|name| *name == names[0]) {
        return Ok(names.map(|name| (name, 1)));
    }
    let known = names.map(units::unit);
    let kind = known[0].map(|(kind, _)| kind);
    let mut found = names.map(|name| (name, 1));
    for (unit, known) in found.iter_mut().zip(known) {
        let worth = known.filter(|known| Some(known.0) == kind).map(|(_, worth)| worth);
        unit.1 = worth.ok_or_else(|| {
            format!("must have units of one kind, not \"{}\"", names.join("\", \""))
        })?;
    }
    Ok(found)
}

/// Splits at blanks, and a number from its unit.
fn words(text: &str) -> Vec<&str> {
    let split = |word: &'_ str| word.find(|c| !is_of_number(c)).unwrap_or(word.len());
    let words = text.split_whitespace().map(|word| word.split_at(split(word)));
    words.flat_map(|(number, unit)| [number, unit]).filter(|word| !word.is_empty()).collect()
}

fn is_of_number(c: char) -> bool {
    c.is_ascii_digit() || c == '.'
}

/// Reads a number, with the name of a unit or without.
fn quantity(text: &str) -> Option<(u128, &str)> {
    match words(text).as_slice() {
        [one] => Some((number(one)?, "")),
        [one, unit] if units::unit(unit).is_some() => Some((number(one)?, unit)),
        _ => None,
    }
}

/// Reads a number as parts of one.
fn number(text: &str) -> Option<u128> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let is_fine = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if !is_fine(whole) || !is_fine(decimals) || decimals.len() > DECIMALS {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    Some(u128::from(whole) * PARTS + format!("{decimals:0<DECIMALS$}").parse::<u128>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        let label = |value: &Value| match value {
            Value::Text(text) | Value::Other(text) => text.clone(),
            Value::Integer(number) => number.to_string(),
            other => panic!("{other:?}"),
        };
        match range(text) {
            Ok(Some(values)) => values.iter().map(label).collect::<Vec<_>>().join(", "),
            Ok(None) => "no range".to_owned(),
            Err(why) => why,
        }
    }

    #[test]
    fn ranges_have_one_grammar() {
        for (text, values) in [
            ("3..5", "3, 4, 5"),
            ("7..7", "7"),
            ("10..50 step 20 kB", "10 kB, 30 kB, 50 kB"),
            ("2..9 times 2 pkts", "2 pkts, 4 pkts, 8 pkts"),
            ("1..3 Gbps", "1 Gbps, 2 Gbps, 3 Gbps"),
            ("1 Gbps..3 Gbps", "1 Gbps, 2 Gbps, 3 Gbps"),
            ("1 Gbps..100 Gbps log 5", "1 Gbps, 3.16 Gbps, 10 Gbps, 31.6 Gbps, 100 Gbps"),
            ("1..100Gbps log 3", "1 Gbps, 10 Gbps, 100 Gbps"),
            ("800 kB..1.1 MB step 100 kB", "800 kB, 900 kB, 1 MB, 1.1 MB"),
            ("500 us..2 ms step 500us", "500 us, 1 ms, 1.5 ms, 2 ms"),
            ("50 s..2 min step 35 s", "50 s, 85 s, 2 min"),
            ("1 KiB..1 MiB times 32", "1 KiB, 32 KiB, 1 MiB"),
            ("1 KiB..16 KiB log 5", "1 KiB, 2 KiB, 4 KiB, 8 KiB, 16 KiB"),
            ("0.1 %..10 % log 5", "0.1 %, 0.316 %, 1 %, 3.16 %, 10 %"),
            ("0.1..0.4 step 0.1 ms", "0.1 ms, 0.2 ms, 0.3 ms, 0.4 ms"),
            ("1..2 step 0.5", "1, 1.5, 2"),
            ("1..100 log 5", "1, 3, 10, 32, 100"),
            ("1 pkts..64 pkts log 4", "1 pkts, 4 pkts, 16 pkts, 64 pkts"),
            ("1..1000000 log 7", "1, 10, 100, 1000, 10000, 100000, 1000000"),
            // Values of other keys.
            ("s1..s3", "no range"),
            ("../sizes.csv", "no range"),
            ("10.0.0.1..2", "no range"),
            ("1 fast..2", "no range"),
            ("10 kB", "no range"),
        ] {
            assert_eq!(said(text), values, "{text}");
        }
    }

    #[test]
    fn a_range_that_is_none_gets_one_sentence() {
        let end = "has no end, as in \"1..64\" or \"1 Gbps..100 Gbps log 5\"";
        let unit = "must have the unit of each number, as in \"100 kB..1 MB step 100 kB\"";
        for (text, why) in [
            ("1 Gbps..", end),
            ("1..", end),
            ("1 Gbps.. log 5", end),
            ("10 kB..100", unit),
            ("100 kB..1 MB step 100", unit),
            ("100 kB..1 MB", "must have a step, as in \"100 kB..1 MB step 100 kB\""),
            ("1 Gbps..1 MB log 3", "must have units of one kind, not \"Gbps\", \"MB\", \"MB\""),
            ("1..3 log 5", "has no 5 different values between its ends"),
            ("1..1001", "has 1001 values, but at most 1000 are allowed"),
            ("1 s..5 Gbps step 1 s", "must have units of one kind, not \"s\", \"Gbps\", \"s\""),
            ("1 B..1000 GB step 1 B", "has 1000000000000 values, but at most 1000 are allowed"),
            ("1 Gbps..2 Gbps log 1000000", "has 1000000 values, but at most 1000 are allowed"),
        ] {
            assert_eq!(said(text), why, "{text}");
        }
        for text in [
            "64..1",
            "5..5 log 3",
            "0..5 log 3",
            "0..5 times 2",
            "1..5 times 1",
            "1..5 step 0",
            "1..5 log 1",
            "1..5 log 2.5",
            "1..5 step",
            "1..5 step 1 times 2",
            "1 kB..5 kB log 3 kB",
            "1...5",
            "1..x",
            "18446744073709551615..18446744073709551615",
            "1..99999999999999999999",
            "1 ps..99999999999999999 min log 3",
        ] {
            assert_eq!(said(text), bad(), "{text}");
        }
    }
}
