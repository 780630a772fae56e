//! Ranges of values.

use knee_file::Value;

/// Largest number of values of a varied key.
pub(crate) const MAX_VALUES: usize = 1_000;

/// Parses `1..64`, `10..50 step 10 kB` or `1..64 times 2`. `None` if the text is no range.
pub(crate) fn range(text: &str) -> Result<Option<Vec<Value>>, String> {
    let Some((first, rest)) = text.split_once("..") else { return Ok(None) };
    let bad = || {
        "must be a range of whole numbers, as in \"1..64\", \"10..50 step 10 kB\" or \"1..64 times 2\""
            .to_owned()
    };
    let first: u64 = match first.trim().parse() {
        Ok(first) => first,
        Err(_) => return Ok(None),
    };
    let mut words = rest.split_whitespace().peekable();
    let last: u64 = words.next().and_then(|word| word.parse().ok()).ok_or_else(bad)?;
    let mut step = |name: &str| -> Result<Option<u64>, String> {
        if words.next_if(|word| *word == name).is_none() {
            return Ok(None);
        }
        words.next().and_then(|word| word.parse().ok()).map(Some).ok_or_else(bad)
    };
    let (step, factor) = (step("step")?, step("times")?);
    let unit = words.collect::<Vec<_>>().join(" ");
    let grows = first <= last && step != Some(0) && factor.is_none_or(|f| f > 1 && first > 0);
    if !grows || (step.is_some() && factor.is_some()) {
        return Err(bad());
    }
    let mut values = Vec::new();
    let mut value = first;
    while value <= last {
        if values.len() > MAX_VALUES {
            return Err(format!("must have at most {MAX_VALUES} values"));
        }
        values.push(match unit.as_str() {
            "" => Value::Integer(i64::try_from(value).map_err(|_| bad())?),
            unit => Value::Text(format!("{value} {unit}")),
        });
        let next = match factor {
            Some(factor) => value.checked_mul(factor),
            None => value.checked_add(step.unwrap_or(1)),
        };
        let Some(next) = next else { break };
        value = next;
    }
    Ok(Some(values))
}
