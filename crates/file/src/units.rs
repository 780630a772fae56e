//! Quantities as people write them: a number, a space, a unit.
//!
//! `kB` is 1000 bytes and `KiB` 1024, as everywhere in networking. Case counts.

use knee_units::time::{Duration, PS_PER_MS, PS_PER_NS, PS_PER_S, PS_PER_US, Rate};
use knee_units::{Limit, Threshold};

type Units = &'static [(&'static str, f64)];

const RATE_UNITS: Units =
    &[("bps", 1.0), ("kbps", 1e3), ("Mbps", 1e6), ("Gbps", 1e9), ("Tbps", 1e12)];
const TIME_UNITS: Units = &[
    ("ps", 1.0),
    ("ns", PS_PER_NS as f64),
    ("us", PS_PER_US as f64),
    ("ms", PS_PER_MS as f64),
    ("s", PS_PER_S as f64),
    ("min", 60.0 * PS_PER_S as f64),
];
const SIZE_UNITS: Units = &[
    ("B", 1.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
];
const PKTS: &str = "pkts";

/// Seven days: beyond it nothing has been tried.
const LONGEST_PS: f64 = 7.0 * 86_400.0 * PS_PER_S as f64;
const FASTEST_BPS: f64 = 1e12;
const SLOWEST_BPS: f64 = 1e3;
const LARGEST_BYTES: f64 = 1e15;
const MOST_PKTS: f64 = 1e9;
const MOST_OVERHEAD_BYTES: f64 = 1000.0;

/// A value that a file writes as text with a unit.
pub trait Quantity: Sized {
    /// Reads it.
    ///
    /// # Errors
    /// What would have been allowed, after the words "must be".
    fn parse(text: &str) -> Result<Self, String>;
    /// Writes it so that `parse` reads the same value back.
    fn show(&self) -> String;
    /// Description in words, and a pattern of its texts for editors, less strict than `parse`.
    fn written() -> (&'static str, String);
    /// Whether it is no less than another one, where one kind can be.
    fn holds(&self, _other: &Self) -> bool {
        true
    }
}

/// Whole microseconds of a time as people write it: for words of a command line.
///
/// # Errors
/// As [`Quantity::parse`].
pub fn microseconds(text: &str) -> Result<u64, String> {
    Duration::parse(text).map(Duration::us)
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

/// Bytes around each packet, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overhead(pub u32);

/// A share of 0 to 1, written in percent.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Share(pub f64);

/// A depth of a token bucket: bytes, or full packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Burst {
    /// Full packets of the path's MTU with its Ethernet header.
    Pkts(u32),
    Bytes(u32),
}

/// A number of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pkts(pub u32);

const PKTS_UNITS: Units = &[(PKTS, 1.0), ("pkt", 1.0), ("packets", 1.0)];
const PERCENT: Units = &[("%", 1.0)];

/// The pattern of numbers with one of these units.
fn pattern(kinds: &[Units]) -> String {
    let names: Vec<_> = kinds.iter().copied().flatten().map(|(name, _)| *name).collect();
    // Blanks as `parse` trims them; a number may begin with "+." and not with ".".
    format!("^[ \t]*([+-][.]?)?[0-9][0-9_.eE+-]*[ \t]*({})[ \t]*$", names.join("|"))
}

/// Units as a page names them: "`B`, `kB` or `MB`".
fn in_words(units: Units) -> String {
    let mut names: Vec<_> = units.iter().map(|(name, _)| format!("`{name}`")).collect();
    let last = names.pop().unwrap_or_default();
    format!("{} or {last}", names.join(", "))
}

/// In a sentence, the units of a size, a rate and a time.
pub fn all_in_words() -> [String; 3] {
    [SIZE_UNITS, RATE_UNITS, TIME_UNITS].map(in_words)
}

/// Kinds of quantities: how the name of a column ends that has them, their units, and what a number there is worth.
const COLUMNS: [(&str, Units, f64); 5] = [
    ("s", TIME_UNITS, PS_PER_S as f64),
    ("bps", RATE_UNITS, 1.0),
    ("bytes", SIZE_UNITS, 1.0),
    ("pkts", PKTS_UNITS, 1.0),
    ("pct", PERCENT, 1.0),
];

/// Texts as numbers of one unit, with the unit as names of columns end: `["10 ms", "1 s"]` are 0.01 and 1 of `s`. `None`: they are not all
/// quantities of one kind, or two are the same.
pub fn as_column(texts: &[&str]) -> Option<(&'static str, Vec<f64>)> {
    COLUMNS.iter().find_map(|(unit, units, worth)| {
        let number = |text: &&str| {
            let number = number_with_unit(text, units).ok()? / worth;
            // Twelve digits: what a product of a factor adds is none of the text.
            format!("{number:.11e}").parse::<f64>().ok().filter(|number| number.is_finite())
        };
        let numbers = texts.iter().map(number).collect::<Option<Vec<f64>>>()?;
        let mut sorted = numbers.clone();
        sorted.sort_by(f64::total_cmp);
        let is_plain = !numbers.is_empty() && sorted.windows(2).all(|pair| pair[0] < pair[1]);
        is_plain.then_some((*unit, numbers))
    })
}

/// Kind of a unit, as names of columns have it, and the worth of the unit in the smallest of its kind. `None`: it is none.
pub fn unit(name: &str) -> Option<(&'static str, u128)> {
    COLUMNS.iter().find_map(|(kind, units, _)| {
        let (_, worth) = units.iter().find(|(unit, _)| *unit == name)?;
        Some((*kind, *worth as u128))
    })
}

fn quoted(units: Units) -> String {
    let names: Vec<_> = units.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

/// Splits "10 Gbps" into a number and a factor. `Err(None)`: nothing like it; `Err(Some)`: a unit
/// that is nearly right.
fn number_with_unit(text: &str, units: Units) -> Result<f64, Option<&'static str>> {
    let text = text.trim();
    let digits_end = text
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-' | 'e' | 'E' | '_')))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits_end);
    let unit = unit.trim_start();
    let starts_well = number.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-'));
    let number: Option<f64> = starts_well.then(|| number.replace('_', "").parse().ok()).flatten();
    let Some(number) = number else { return Err(None) };
    match units.iter().find(|(name, _)| *name == unit) {
        Some((_, factor)) => Ok(number * factor),
        None => Err(units
            .iter()
            .find(|(name, _)| !unit.is_empty() && name.eq_ignore_ascii_case(unit))
            .map(|(name, _)| *name)),
    }
}

fn wrong_unit(what: &str, near: Option<&str>, units: Units, example: &str) -> String {
    match near {
        Some(near) => {
            format!(
                "must be {what} with its unit; units are case-sensitive, did you mean \"{near}\"?"
            )
        }
        None => {
            format!("must be {what} with its unit ({}), as in \"{example}\"", quoted(units))
        }
    }
}

/// The shortest "number unit", the number at least 1, that reads back as the same whole number of base units.
fn shortest(value: u64, units: Units) -> String {
    let mut best = format!("{value} {}", units[0].0);
    for (name, factor) in units {
        let scaled = value as f64 / factor;
        let text = format!("{scaled} {name}");
        let reads_back = (scaled * factor).round() as u64 == value && value < (1 << 53);
        if reads_back && scaled >= 1.0 && text.len() < best.len() {
            best = text;
        }
    }
    best
}

impl Quantity for Rate {
    fn parse(text: &str) -> Result<Rate, String> {
        let bps = number_with_unit(text, RATE_UNITS)
            .map_err(|near| wrong_unit("a rate", near, RATE_UNITS, "10 Gbps"))?;
        if !(SLOWEST_BPS..=FASTEST_BPS).contains(&bps) {
            return Err("must be a rate from 1 kbps to 1 Tbps, as in \"10 Gbps\"".into());
        }
        Rate::from_bps(bps.round() as u64).ok_or_else(|| "must be above 0".into())
    }

    fn show(&self) -> String {
        shortest(self.bps(), RATE_UNITS)
    }

    fn written() -> (&'static str, String) {
        ("rate", pattern(&[RATE_UNITS]))
    }

    fn holds(&self, other: &Rate) -> bool {
        self >= other
    }
}

impl Quantity for Duration {
    fn parse(text: &str) -> Result<Duration, String> {
        let text = text.replace('µ', "u");
        let ps = number_with_unit(&text, TIME_UNITS)
            .map_err(|near| wrong_unit("a time", near, TIME_UNITS, "100 us"))?;
        if !(0.0..=LONGEST_PS).contains(&ps) {
            return Err("must be a time from 0 s to 7 days (10080 min), as in \"100 us\"".into());
        }
        Ok(Duration::from_ps(ps.round() as u64))
    }

    fn show(&self) -> String {
        if *self == Duration::ZERO { "0 s".into() } else { shortest(self.ps(), TIME_UNITS) }
    }

    fn written() -> (&'static str, String) {
        ("time", pattern(&[TIME_UNITS, &[("µs", 1.0)]]))
    }

    fn holds(&self, other: &Duration) -> bool {
        self >= other
    }
}

impl Quantity for Size {
    fn parse(text: &str) -> Result<Size, String> {
        let bytes = number_with_unit(text, SIZE_UNITS)
            .map_err(|near| wrong_unit("a size", near, SIZE_UNITS, "757 kB"))?;
        if !(1.0..=LARGEST_BYTES).contains(&bytes) {
            return Err("must be a size from 1 B to 1000 TB, as in \"757 kB\"".into());
        }
        Ok(Size(bytes.round() as u64))
    }

    fn show(&self) -> String {
        shortest(self.0, SIZE_UNITS)
    }

    fn written() -> (&'static str, String) {
        ("size", pattern(&[SIZE_UNITS]))
    }

    fn holds(&self, other: &Size) -> bool {
        self >= other
    }
}

impl Quantity for Overhead {
    fn parse(text: &str) -> Result<Overhead, String> {
        let example = "24 B";
        let bytes = number_with_unit(text, SIZE_UNITS)
            .map_err(|near| wrong_unit("a size", near, SIZE_UNITS, example))?;
        if !(0.0..=MOST_OVERHEAD_BYTES).contains(&bytes) {
            return Err(format!("must be a size from 0 B to 1000 B, as in \"{example}\""));
        }
        Ok(Overhead(bytes.round() as u32))
    }

    fn show(&self) -> String {
        format!("{} B", self.0)
    }

    fn written() -> (&'static str, String) {
        ("size, 0 B too", pattern(&[SIZE_UNITS]))
    }
}

impl Quantity for Share {
    fn parse(text: &str) -> Result<Share, String> {
        let allowed = "must be a share from 0 % to 100 %, as in \"0.1 %\"";
        let percent = number_with_unit(text, PERCENT).map_err(|_| allowed.to_owned())?;
        if !(0.0..=100.0).contains(&percent) {
            return Err(allowed.into());
        }
        Ok(Share(percent / 100.0))
    }

    fn show(&self) -> String {
        format!("{} %", self.0 * 100.0)
    }

    fn written() -> (&'static str, String) {
        ("share in %", pattern(&[PERCENT]))
    }

    fn holds(&self, other: &Share) -> bool {
        self >= other
    }
}

/// "65 pkts" or "1 pkt", if it is one.
fn pkts(text: &str) -> Option<Result<u32, String>> {
    let value = number_with_unit(text, PKTS_UNITS).ok()?;
    let whole = value.fract() == 0.0 && (1.0..=MOST_PKTS).contains(&value);
    Some(if whole {
        Ok(value as u32)
    } else {
        Err("must be a whole number of packets from 1 to 1e9, as in \"65 pkts\"".into())
    })
}

impl Quantity for Pkts {
    fn parse(text: &str) -> Result<Pkts, String> {
        let allowed = || "must be packets from 1 to 1e9, as in \"10 pkts\"".to_owned();
        pkts(text).ok_or_else(allowed)?.map(Pkts)
    }

    fn show(&self) -> String {
        format!("{} {PKTS}", self.0)
    }

    fn written() -> (&'static str, String) {
        ("packets", pattern(&[PKTS_UNITS]))
    }
}

impl Quantity for Limit {
    fn parse(text: &str) -> Result<Limit, String> {
        if text == "unlimited" {
            return Ok(Limit::UNLIMITED);
        }
        if let Some(pkts) = pkts(text) {
            return Ok(Limit::Pkts(pkts?));
        }
        let or = "packets, as in \"500 pkts\", or \"unlimited\"";
        Size::parse(text).map(|size| Limit::Bytes(size.0)).map_err(|why| format!("{why}, or {or}"))
    }

    fn show(&self) -> String {
        match *self {
            Limit::UNLIMITED => "unlimited".into(),
            Limit::Pkts(pkts) => format!("{pkts} {PKTS}"),
            Limit::Bytes(bytes) => Size(bytes).show(),
        }
    }

    fn written() -> (&'static str, String) {
        (
            "packets, size or `\"unlimited\"`",
            format!("^unlimited$|{}", pattern(&[PKTS_UNITS, SIZE_UNITS])),
        )
    }
}

impl Quantity for Threshold {
    fn parse(text: &str) -> Result<Threshold, String> {
        if let Some(pkts) = pkts(text) {
            return Ok(Threshold::Pkts(pkts?));
        }
        if number_with_unit(text, TIME_UNITS).is_ok() {
            return Duration::parse(text).map(Threshold::Sojourn);
        }
        let allowed = "packets (\"65 pkts\") or a waiting time (\"80 us\")";
        Size::parse(text)
            .map(|size| Threshold::Bytes(size.0))
            .map_err(|why| format!("{why}, or {allowed}"))
    }

    fn show(&self) -> String {
        match self {
            Threshold::Pkts(pkts) => format!("{pkts} {PKTS}"),
            Threshold::Bytes(bytes) => Size(*bytes).show(),
            Threshold::Sojourn(sojourn) => sojourn.show(),
        }
    }

    fn written() -> (&'static str, String) {
        ("packets, size or time", pattern(&[PKTS_UNITS, SIZE_UNITS, TIME_UNITS]))
    }
}

impl Quantity for Burst {
    fn parse(text: &str) -> Result<Burst, String> {
        if let Some(pkts) = pkts(text) {
            return Ok(Burst::Pkts(pkts?));
        }
        let size =
            Size::parse(text).map_err(|why| format!("{why}, or packets, as in \"1 pkts\""))?;
        u32::try_from(size.0)
            .map(Burst::Bytes)
            .map_err(|_| "must be at most 4 GB, as in \"16 kB\" or \"1 pkts\"".into())
    }

    fn show(&self) -> String {
        match self {
            Burst::Pkts(pkts) => format!("{pkts} {PKTS}"),
            Burst::Bytes(bytes) => Size(u64::from(*bytes)).show(),
        }
    }

    fn written() -> (&'static str, String) {
        ("packets or size", pattern(&[PKTS_UNITS, SIZE_UNITS]))
    }
}

/// A figure in base units: seconds, bits per second, bytes, a share, a count per second, or a plain count.
///
/// # Errors
/// What would have been allowed.
pub fn figure(text: &str) -> Result<(f64, &'static str), String> {
    let families: [(Units, f64, &str); 6] = [
        (TIME_UNITS, PS_PER_S as f64, "s"),
        (RATE_UNITS, 1.0, "bps"),
        (SIZE_UNITS, 1.0, "B"),
        (PERCENT, 100.0, "share"),
        (&[("per s", 1.0)], 1.0, "per s"),
        (&[("", 1.0), (PKTS, 1.0)], 1.0, ""),
    ];
    families
        .iter()
        .find_map(|(units, base, name)| {
            let value = number_with_unit(text, units).ok()?;
            value.is_finite().then_some((value / base, *name))
        })
        .ok_or_else(|| {
            "must be a number with its unit, as in \"33.7 ms\", \"9.4 Gbps\", \"0.2 %\" or \"25\""
                .into()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_of_one_kind_make_a_column_of_numbers() {
        let column = |texts: &[&str]| as_column(texts);
        assert_eq!(column(&["10 ms", "50 us", "1 s"]), Some(("s", vec![0.01, 0.00005, 1.0])));
        assert_eq!(column(&["1.1 kB", "2 MiB"]), Some(("bytes", vec![1100.0, 2_097_152.0])));
        assert_eq!(column(&["10 Gbps"]), Some(("bps", vec![1e10])));
        assert_eq!(column(&["65 pkts", "1000 pkts"]), Some(("pkts", vec![65.0, 1000.0])));
        assert_eq!(column(&["0.01 %", "1 %"]), Some(("pct", vec![0.01, 1.0])));
        for none in [&["65 pkts", "97 us"][..], &["dctcp"], &["3", "4"], &["1 ms", "1000 us"], &[]]
        {
            assert_eq!(column(none), None, "{none:?}");
        }
    }

    #[test]
    fn figures_come_in_base_units() {
        assert_eq!(figure("33.7 ms"), Ok((0.0337, "s")));
        assert_eq!(figure("25.8 %"), Ok((0.258, "share")));
        assert_eq!(figure("725290.4 per s"), Ok((725_290.4, "per s")));
        assert!(figure("5 per year").is_err());
    }

    #[test]
    fn quantities_read_as_written() {
        assert_eq!(Rate::parse("10 Gbps").unwrap().bps(), 10_000_000_000);
        assert_eq!(Rate::parse("2.5Gbps").unwrap().bps(), 2_500_000_000);
        assert_eq!(Duration::parse("100 us").unwrap(), Duration::from_us(100));
        assert_eq!(Duration::parse("0.5 µs").unwrap(), Duration::from_ns(500));
        assert_eq!(Duration::parse("0 s").unwrap(), Duration::ZERO);
        assert_eq!(Size::parse("757 kB").unwrap(), Size(757_000));
        assert_eq!(Size::parse("64 KiB").unwrap(), Size(65_536));
        assert_eq!(Size::parse("1_000 B").unwrap(), Size(1000));
        assert_eq!(Share::parse("1 %").unwrap(), Share(0.01));
        assert_eq!(Limit::parse("500 pkts").unwrap(), Limit::Pkts(500));
        assert_eq!(Limit::parse("757000 B").unwrap(), Limit::Bytes(757_000));
        assert_eq!(Threshold::parse("80 us").unwrap(), Threshold::Sojourn(Duration::from_us(80)));
        assert_eq!(Threshold::parse("75 kB").unwrap(), Threshold::Bytes(75_000));
        assert_eq!(Threshold::parse("10 pkts").unwrap(), Threshold::Pkts(10));
        assert_eq!(Burst::parse("1 pkt").unwrap(), Burst::Pkts(1));
    }

    #[test]
    fn what_is_shown_reads_back() {
        for bps in [1_000, 1_234_567, 10_000_000, 40_000_000_000, 999_999_999_999] {
            let rate = Rate::from_bps(bps).unwrap();
            assert_eq!(Rate::parse(&rate.show()), Ok(rate), "{}", rate.show());
        }
        for ps in [0, 1, 999, 15_000_000_000, 123_456_789_012, PS_PER_S * 600] {
            let time = Duration::from_ps(ps);
            assert_eq!(Duration::parse(&time.show()), Ok(time), "{}", time.show());
        }
        for bytes in [1, 1514, 757_000, 65_536, 40_000_000, 536_870_912] {
            assert_eq!(Size::parse(&Size(bytes).show()), Ok(Size(bytes)));
        }
        assert_eq!(Rate::from_bps(10_000_000_000).unwrap().show(), "10 Gbps");
        assert_eq!(Size(65_536).show(), "64 KiB");
        assert_eq!(Duration::from_us(1500).show(), "1.5 ms");
        assert_eq!(Duration::from_ms(200).show(), "200 ms");
        assert_eq!(Limit::parse("unlimited").unwrap().show(), "unlimited");
    }

    #[test]
    fn what_is_no_quantity_says_what_is_one() {
        for bad in ["", "fast", "NaN Gbps", "inf bps", "10", "10 us", "1e300", "Gbps", "--1 bps"] {
            let why = Rate::parse(bad).unwrap_err();
            assert!(why.starts_with("must be a rate with its unit (bps, "), "{bad}: {why}");
        }
        for bad in ["0 Gbps", "-1 Gbps", "1e300 Gbps", "1 bps"] {
            let why = Rate::parse(bad).unwrap_err();
            assert!(why.starts_with("must be a rate from 1 kbps to 1 Tbps"), "{bad}: {why}");
        }
        assert!(Rate::parse("1 gbps").unwrap_err().contains("did you mean \"Gbps\"?"));
        assert!(Size::parse("0 B").unwrap_err().starts_with("must be a size from 1 B"));
        assert!(Size::parse("-5 kB").unwrap_err().starts_with("must be a size from 1 B"));
        assert!(Share::parse("101 %").unwrap_err().starts_with("must be a share"));
        assert!(Limit::parse("1.5 pkts").unwrap_err().starts_with("must be a whole number"));
        assert!(Duration::parse("1e30 s").unwrap_err().starts_with("must be a time from 0 s"));
    }

    #[test]
    fn published_figures_are_kept_in_base_units() {
        assert_eq!(figure("33.7 ms"), Ok((0.0337, "s")));
        assert_eq!(figure("9.4 Gbps"), Ok((9.4e9, "bps")));
        assert_eq!(figure("25"), Ok((25.0, "")));
        assert!(figure("NaN ms").is_err());
    }
}
