//! Names of hosts and switches, and ranges such as `s1..s8`.

/// Largest number of hosts in a network, and of nodes in a graph. A fat tree of 100,000 hosts fits.
pub(crate) const MAX_HOSTS: u64 = 120_000;

/// Longest name or range of names in bytes, because each name of a range may be as long.
const MAX_RANGE_BYTES: usize = 200;

/// Expands a range: `s1..s10` gives ten names, and `h0.1..h2.4` twelve, as every number varies by itself. Other texts
/// stay as they are.
pub(crate) fn expand(text: &str) -> Result<Vec<String>, String> {
    expand_all(&[text])
}

/// Expands a list of names and ranges. It counts them first, and refuses more than a network can have.
pub(crate) fn expand_all(texts: &[&str]) -> Result<Vec<String>, String> {
    let counts = texts.iter().map(|text| count(text)).collect::<Result<Vec<_>, _>>()?;
    let all = counts.iter().fold(0, |all: u64, count| all.saturating_add(*count));
    if all > MAX_HOSTS {
        return Err(format!("must give at most {MAX_HOSTS} hosts, not {all}"));
    }
    let mut names = Vec::with_capacity(all as usize);
    for text in texts {
        names.extend(made(text)?);
    }
    Ok(names)
}

fn bad_range() -> String {
    "must be a host or a range of hosts, as in \"s1..s10\"".to_owned()
}

/// Returns the number of names in a text.
fn count(text: &str) -> Result<u64, String> {
    if text.len() > MAX_RANGE_BYTES {
        return Err(bad_range());
    }
    let Some((first, last)) = text.split_once("..") else { return Ok(1) };
    let counts = ranges(first, last).ok_or_else(bad_range)?;
    let counts = counts.iter().map(|(_, from, to)| u64::from(to - from) + 1);
    let count = counts.fold(1, u64::saturating_mul);
    if count > MAX_HOSTS { Err(bad_range()) } else { Ok(count) }
}

fn made(text: &str) -> Result<Vec<String>, String> {
    let Some((first, last)) = text.split_once("..") else { return Ok(vec![text.to_owned()]) };
    let mut names = vec![String::new()];
    for (prefix, from, to) in ranges(first, last).ok_or_else(bad_range)? {
        let with = |name: &String| {
            (from..=to).map(|i| format!("{name}{prefix}{i}")).collect::<Vec<String>>()
        };
        names = names.iter().flat_map(with).collect();
    }
    Ok(names)
}

/// Returns the numbers of two names, first and last, each with the text before it. `None` if the names differ in
/// anything else.
fn ranges<'a>(mut first: &'a str, mut last: &'a str) -> Option<Vec<(&'a str, u32, u32)>> {
    let mut all = Vec::new();
    while !(first.is_empty() && last.is_empty()) {
        let (prefix, from, rest) = split_number(first)?;
        let (last_prefix, to, last_rest) = split_number(last)?;
        if prefix != last_prefix || from > to {
            return None;
        }
        all.push((prefix, from, to));
        (first, last) = (rest, last_rest);
    }
    (!all.is_empty()).then_some(all)
}

/// Splits a name at its first number: prefix, number, suffix.
fn split_number(name: &str) -> Option<(&str, u32, &str)> {
    let start = name.find(|c: char| c.is_ascii_digit())?;
    let (prefix, rest) = name.split_at(start);
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (number, rest) = rest.split_at(end);
    Some((prefix, number.parse().ok()?, rest))
}

/// Describes many names by the first and the last.
pub fn few(names: &[String]) -> String {
    match names {
        [first, .., last] if names.len() > 5 => format!("{first} to {last} ({})", names.len()),
        _ => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_hosts_expand() {
        assert_eq!(expand("s3").unwrap(), ["s3"]);
        assert_eq!(expand("s9..s11").unwrap(), ["s9", "s10", "s11"]);
        assert_eq!(expand("h0.1..h0.3").unwrap(), ["h0.1", "h0.2", "h0.3"]);
        assert_eq!(expand("h0.1..h1.2").unwrap(), ["h0.1", "h0.2", "h1.1", "h1.2"]);
        assert_eq!(expand("h0.0.0..h7.7.7").unwrap().len(), 512);
        for bad in [
            "h0.1..h1",
            "h0..h1.1",
            "h0.2..h1.1",
            "h0.0..h400.400",
            "s1..",
            "..s1",
            "s2..s1",
            "s1..r2",
            "s0..s4294967295",
            "s..s",
            "a..b..c",
        ] {
            assert!(expand(bad).unwrap_err().starts_with("must be a host or a range"), "{bad}");
        }
    }
}
