//! Numbers and names as people read them, and text as HTML wants it.

use std::fmt::Write as _;

use knee_results::Metric;
use knee_results::manifest::Axis;

/// Text that shows as itself in HTML and SVG, in elements and in quoted attributes.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            // XML has no place for these.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// A file's name as part of an address.
pub(crate) fn address(path: impl AsRef<[u8]>) -> String {
    let mut out = String::new();
    for byte in path.as_ref() {
        match *byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'/' | b'~' => {
                out.push(char::from(*byte))
            }
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

/// A name as an id in the page: letters, digits and `-`.
pub(crate) fn slug(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            c if c.is_ascii_alphanumeric() => out.push(c.to_ascii_lowercase()),
            _ if out.ends_with('-') || out.is_empty() => {}
            _ => out.push('-'),
        }
    }
    let end = out.trim_end_matches('-').len();
    out.truncate(end.min(80));
    out
}

/// One unit for all numbers of a chart or a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Unit {
    /// As shown; empty: plain numbers.
    pub(crate) name: &'static str,
    /// Shown numbers in one of the file's unit.
    pub(crate) factor: f64,
}

impl Unit {
    /// For numbers of a file's unit, the largest of which is this.
    pub(crate) fn of(unit: &str, largest: f64) -> Unit {
        let steps: &[(f64, &str, f64)] = match unit {
            "s" => &[(2.0, "s", 1.0), (1e-3, "ms", 1e3), (0.0, "us", 1e6)],
            "bps" => &[(1e9, "Gbps", 1e-9), (1e6, "Mbps", 1e-6), (0.0, "kbps", 1e-3)],
            "pkts" => &[(0.0, "pkts", 1.0)],
            "B" => &[(1e6, "MB", 1e-6), (1e3, "kB", 1e-3), (0.0, "B", 1.0)],
            "per s" => &[(0.0, "per s", 1.0)],
            _ => &[(0.0, "", 1.0)],
        };
        let found =
            steps.iter().find(|(from, _, _)| largest >= *from).unwrap_or(&steps[steps.len() - 1]);
        Unit { name: found.1, factor: found.2 }
    }

    /// For numbers of a metric, the largest of which is this: shares are in per cent.
    pub(crate) fn of_metric(metric: &str, unit: &str, largest: f64) -> Unit {
        if Metric::by_name(metric).is_some_and(Metric::is_share) {
            Unit { name: "%", factor: 100.0 }
        } else {
            Unit::of(unit, largest)
        }
    }

    /// The one in which a figure was written, as in `4.2 ms` or `12 %`, for numbers of a file's unit.
    pub(crate) fn as_written(unit: &str, text: &str) -> Option<Unit> {
        let number = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | '-' | '+' | ' ');
        let units: &[(&'static str, f64)] = match unit {
            "s" => &[("s", 1.0), ("ms", 1e3), ("us", 1e6)],
            "bps" => &[("Gbps", 1e-9), ("Mbps", 1e-6), ("kbps", 1e-3)],
            "" => &[("%", 100.0)],
            _ => &[],
        };
        let written = text.trim_start_matches(number).trim();
        let (name, factor) = units.iter().find(|(name, _)| *name == written)?;
        Some(Unit { name, factor: *factor })
    }

    /// A number of the file's unit with its unit, by itself.
    pub(crate) fn alone(unit: &str, value: f64) -> String {
        let scale = Unit::of(unit, value.abs());
        let digits = digits(value * scale.factor);
        if scale.name.is_empty() { digits } else { format!("{digits} {}", scale.name) }
    }

    /// A number of the file's unit in this one, without it.
    pub(crate) fn show(self, value: f64) -> String {
        digits(value * self.factor)
    }

    /// A number of the file's unit in this one, with its name.
    pub(crate) fn named(self, value: f64) -> String {
        format!("{}{}{}", self.show(value), if self.name.is_empty() { "" } else { " " }, self.name)
    }

    /// `, ms` or nothing.
    pub(crate) fn suffix(self) -> String {
        if self.name.is_empty() { String::new() } else { format!(", {}", self.name) }
    }
}

/// Three significant digits, without zeros at the end that say nothing.
pub(crate) fn digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".into() } else { "-".into() };
    }
    let magnitude = value.abs().log10().floor();
    if !(-6.0..15.0).contains(&magnitude) {
        return format!("{value:.2e}");
    }
    // A magnitude within -6 to 14.
    let decimals = (2.0 - magnitude).max(0.0) as usize;
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false if text.len() > 5 => thousands(&text),
        false => text,
    }
}

/// A whole number with narrow spaces between thousands.
fn thousands(text: &str) -> String {
    let digits: Vec<char> = text.chars().collect();
    digits.iter().enumerate().fold(String::new(), |mut out, (i, digit)| {
        let is_first = i == 0 || digits[i - 1] == '-';
        if !is_first && (digits.len() - i) % 3 == 0 {
            out.push('\u{202f}');
        }
        out.push(*digit);
        out
    })
}

/// A metric's name in a heading.
pub(crate) fn metric(name: &str) -> String {
    Metric::by_name(name).map_or_else(|| name.replace('_', " "), Metric::heading)
}

/// A statistic in a heading.
pub(crate) fn stat(name: &str) -> &str {
    match name {
        "sd" => "standard deviation",
        "min" => "least",
        "p50" => "median",
        "p95" => "95th percentile",
        "p99" => "99th percentile",
        "p999" => "99.9th percentile",
        "max" => "largest",
        other => other,
    }
}

/// A name that tells what a varied path is, short: its last two parts.
pub(crate) fn short_path(path: &str) -> String {
    let parts: Vec<&str> = path.split('.').collect();
    let tail = &parts[parts.len().saturating_sub(2)..];
    tail.join(" ").replace('_', " ")
}

/// The varied values of a configuration, in words.
pub(crate) fn varied(axes: &[Axis], at: &[String]) -> String {
    let varied = at.iter().zip(axes).filter(|(_, axis)| axis.values.len() > 1);
    let words = varied.map(|(value, axis)| format!("{} {value}", short_path(&axis.path)));
    words.collect::<Vec<_>>().join(", ")
}

/// A configuration in words: its case and varied values.
pub(crate) fn configuration(case: &str, axes: &[Axis], at: &[String]) -> String {
    match varied(axes, at) {
        none if none.is_empty() => case.to_owned(),
        varied => format!("{case}, {varied}"),
    }
}

/// Seconds of a clock, as people say them.
pub(crate) fn took(seconds: f64) -> String {
    match seconds {
        s if s < 9.95 => format!("{s:.1} s"),
        s if s < 99.5 => format!("{s:.0} s"),
        s => format!("{:.0} min", s / 60.0),
    }
}

/// As data: URLs and scripts have bytes (RFC 4648).
pub(crate) fn base64(bytes: &[u8]) -> String {
    const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let three = chunk.iter().fold(0u32, |all, byte| all << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for i in 0..4 {
            match i <= chunk.len() {
                true => out.push(char::from(SIGNS[(three >> (18 - 6 * i) & 63) as usize])),
                false => out.push('='),
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_as_everybodys() {
        assert_eq!(base64(b""), "");
        assert_eq!(base64(b"f"), "Zg==");
        assert_eq!(base64(b"fo"), "Zm8=");
        assert_eq!(base64(b"foobar"), "Zm9vYmFy");
    }

    #[test]
    fn html_in_a_question_is_text() {
        assert_eq!(escaped("<script>\"'&\u{1}"), "&lt;script&gt;&quot;&#39;&amp;\u{fffd}");
        assert_eq!(address("a b\"<.csv"), "a%20b%22%3C.csv");
        assert_eq!(slug("Completion of <short> transfers, "), "completion-of-short-transfers");
    }

    #[test]
    fn numbers_keep_three_digits_and_find_their_unit() {
        for (value, shown) in [
            (0.0, "0"),
            (1.0, "1"),
            (0.9994, "0.999"),
            (33.71, "33.7"),
            (1234.4, "1234"),
            (0.5, "0.5"),
        ] {
            assert_eq!(digits(value), shown);
        }
        assert_eq!(digits(3_264_624.0), "3\u{202f}264\u{202f}624");
        assert_eq!(digits(-123_456.0), "-123\u{202f}456");
        let written = |unit, text, value| Unit::as_written(unit, text).map(|unit| unit.show(value));
        assert_eq!(written("s", "0.04219 ms", 196e-6).as_deref(), Some("0.196"));
        assert_eq!(written("", "69.9 %", 0.684).as_deref(), Some("68.4"));
        assert_eq!(written("", "3227", 3.0), None);
        assert_eq!(Unit::alone("s", 0.00143), "1.43 ms");
        assert_eq!(Unit::alone("bps", 9.412e9), "9.41 Gbps");
        assert_eq!(Unit::alone("", 12.0), "12");
        assert_eq!(Unit::of("s", 0.0005).show(0.0001), "100");
        assert_eq!(short_path("traffic.short.size"), "short size");
    }
}
