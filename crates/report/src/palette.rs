//! Colours: one for each algorithm, the same everywhere, told apart by eyes of every kind and on both
//! backgrounds. What has the same algorithm differs in shade, dashes and marks.

use std::fmt::{self, Write as _};

use knee_results::Manifest;

type Rgb = [u8; 3];

/// Names, then the colour on white and on black. The order is that of the classes `k0`, `k4`, ...
const ALGORITHMS: [(&str, Rgb, Rgb); 9] = [
    ("cubic", [0x1f, 0x6f, 0xbf], [0x62, 0xa8, 0xf0]),
    ("dctcp", [0xcf, 0x52, 0x07], [0xf5, 0x90, 0x4a]),
    ("reno", [0x66, 0x66, 0x6b], [0xa9, 0xa9, 0xb0]),
    ("bbr", [0x06, 0x87, 0x66], [0x35, 0xbd, 0x98]),
    ("bbr3", [0x9c, 0x78, 0x00], [0xdd, 0xb9, 0x40]),
    ("nv", [0xb4, 0x3f, 0x86], [0xe5, 0x86, 0xbe]),
    ("bic", [0x62, 0x4d, 0xbe], [0xa4, 0x95, 0xf5]),
    ("dctcp_snd", [0x80, 0x38, 0x14], [0xcc, 0x82, 0x5a]),
    ("nv2010", [0x7c, 0x2b, 0x4a], [0xc9, 0x74, 0x95]),
];
/// For algorithms that are not ours, and cases of several.
const OTHERS: [(Rgb, Rgb); 3] = [
    ([0x1f, 0x7d, 0x8c], [0x58, 0xbd, 0xcd]),
    ([0x6f, 0x80, 0x12], [0xaf, 0xc2, 0x4b]),
    ([0x30, 0x30, 0x38], [0xdc, 0xdc, 0xe4]),
];
/// Shades of each colour.
pub(crate) const SHADES: usize = 4;
const DASHES: [&str; SHADES] = ["", "6 3", "2 2.5", "8 3 2 3"];

/// How a line, a bar or a mark looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Style {
    /// The class `kN`.
    pub(crate) colour: usize,
    pub(crate) dash: usize,
    pub(crate) mark: usize,
}

impl Style {
    /// Style of the n-th case with this algorithm.
    pub(crate) fn of(algorithm: &str, nth: usize) -> Style {
        let shade = nth % SHADES;
        Style { colour: hue(algorithm) * SHADES + shade, dash: shade, mark: nth }
    }

    /// The attribute `stroke-dasharray`, or nothing.
    pub(crate) fn dashes(self) -> &'static str {
        DASHES[self.dash % SHADES]
    }

    /// The colour on white, and lengths of dashes and gaps.
    pub(crate) fn look(self) -> (String, Vec<f64>) {
        let [r, g, b] = shades(false).nth(self.colour).unwrap_or_default();
        let dashes = self.dashes().split(' ').filter_map(|length| length.parse().ok());
        (format!("#{r:02x}{g:02x}{b:02x}"), dashes.collect())
    }
}

impl fmt::Display for Style {
    /// The class of its colour.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "k{}", self.colour)
    }
}

/// Where the colours of an algorithm begin.
fn hue(algorithm: &str) -> usize {
    let name = algorithm.strip_prefix("knee_").unwrap_or(algorithm);
    ALGORITHMS.iter().position(|(known, _, _)| *known == name).unwrap_or_else(|| {
        let sum = name
            .bytes()
            .fold(0usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte)));
        ALGORITHMS.len() + sum % OTHERS.len()
    })
}

/// The looks of the cases of an experiment.
pub(crate) fn styles(manifest: &Manifest) -> Vec<Style> {
    let mut used = vec![0; ALGORITHMS.len() + OTHERS.len()];
    let cases = manifest.cases.iter().enumerate();
    cases
        .map(|(i, case)| {
            let hue = match manifest.algorithm(case) {
                Some(algorithm) => hue(algorithm),
                // Several algorithms: a colour that none of ours has.
                None => match hue(case) {
                    own if own < ALGORITHMS.len() => own,
                    _ => ALGORITHMS.len() + i % OTHERS.len(),
                },
            };
            let shade = used[hue] % SHADES;
            used[hue] += 1;
            Style { colour: hue * SHADES + shade, dash: shade, mark: i }
        })
        .collect()
}

fn mixed(colour: Rgb, with: u8, share: u16) -> Rgb {
    colour.map(|part| {
        let sum = u16::from(part) * (100 - share) + u16::from(with) * share;
        u8::try_from(sum / 100).unwrap_or(u8::MAX)
    })
}

fn shades(dark: bool) -> impl Iterator<Item = Rgb> {
    let ours = ALGORITHMS.iter().map(|(_, light, dark)| (*light, *dark));
    ours.chain(OTHERS).flat_map(move |(on_white, on_black)| match dark {
        false => {
            [on_white, mixed(on_white, 255, 32), mixed(on_white, 0, 38), mixed(on_white, 255, 50)]
        }
        true => {
            [on_black, mixed(on_black, 0, 30), mixed(on_black, 255, 45), mixed(on_black, 0, 48)]
        }
    })
}

/// Variables `--k0`, ... for the page.
pub(crate) fn variables(dark: bool) -> String {
    let mut out = String::new();
    for (i, [r, g, b]) in shades(dark).enumerate() {
        let _ = write!(out, "--k{i}:#{r:02x}{g:02x}{b:02x};");
    }
    out
}

/// Classes `k0`, ... that set `color` to these variables.
pub(crate) fn classes() -> String {
    (0..shades(false).count()).fold(String::new(), |mut out, i| {
        let _ = write!(out, ".k{i}{{color:var(--k{i})}}");
        out
    })
}

/// Styles of an SVG file: the page's classes in plain colours.
pub(crate) fn file_style() -> String {
    let mut out = String::from(
        "text{font-family:\"DejaVu Sans\",Verdana,\"Liberation Sans\",Arial,sans-serif;font-size:11px;fill:#3c3c44}\
         .b{font-weight:bold;fill:#16161a}.m{fill:#6a6a74}.g{stroke:#e3e3e8}.a{stroke:#9a9aa4}.p{stroke:#16161a;fill:#fff}\
         .z{fill:#0b7a50;fill-opacity:.13}.n{fill:#fff;stroke:#55555e}.h{fill:#f0f0f3;stroke:#55555e}.w{fill:#fff}.t{stroke:#16161a}\
         .ok{color:#0b7a50}.no{color:#b3261e}.un{color:#6a6a74}",
    );
    for (i, [r, g, b]) in shades(false).enumerate() {
        let _ = write!(out, ".k{i}{{color:#{r:02x}{g:02x}{b:02x}}}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance, as WCAG has it.
    fn luminance([r, g, b]: Rgb) -> f64 {
        let linear = |part: u8| match f64::from(part) / 255.0 {
            x if x <= 0.040_45 => x / 12.92,
            x => ((x + 0.055) / 1.055).powf(2.4),
        };
        0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b)
    }

    #[test]
    fn every_colour_stands_out_from_its_background() {
        for (dark, background) in [(false, [255, 255, 255]), (true, [0x15, 0x16, 0x1a])] {
            for (i, colour) in shades(dark).enumerate() {
                let (a, b) = (luminance(colour), luminance(background));
                let contrast = (a.max(b) + 0.05) / (a.min(b) + 0.05);
                // Full colours carry thin lines; their paler shades have dashes and marks of their own besides.
                let least = if i % SHADES == 0 { 3.0 } else { 1.7 };
                assert!(contrast >= least, "k{i} on dark = {dark}: {contrast}");
            }
        }
    }

    #[test]
    fn an_algorithm_keeps_its_colour_and_its_variants_differ() {
        assert_eq!(Style::of("dctcp", 0).colour, Style::of("knee_dctcp", 0).colour);
        let dctcp = serde_json::json!({ "case.cc": "dctcp" });
        let manifest = Manifest {
            cases: ["a", "b", "cubic"].map(str::to_owned).to_vec(),
            resolved: ["a", "b"].map(|case| (case.into(), dctcp.clone())).into_iter().collect(),
            ..Manifest::default()
        };
        let styles = styles(&manifest);
        assert_eq!(styles[0].colour, Style::of("dctcp", 0).colour);
        assert_eq!(styles[1].colour / SHADES, styles[0].colour / SHADES);
        assert_ne!(styles[1], styles[0]);
        assert_eq!(styles[2].colour, Style::of("cubic", 0).colour);
    }
}
