//! Versions of Linux.

use std::fmt;
use std::str::FromStr;

/// A version of Linux: its first two numbers, as (6, 18).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinuxVersion(pub u32, pub u32);

impl LinuxVersion {
    /// The version of a release as `uname -r` prints it: of `6.18.4-generic` it is 6.18.
    pub fn of_release(release: &str) -> Option<LinuxVersion> {
        let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
        Some(LinuxVersion(numbers.next()?.ok()?, numbers.next()?.ok()?))
    }

    /// Whether it has what came with Linux `first`, and with a later release of the long-term version `also`.
    pub fn has(self, first: LinuxVersion, also: LinuxVersion) -> bool {
        self >= first || self == also
    }
}

impl fmt::Display for LinuxVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// A version alone, as `6.12`.
impl FromStr for LinuxVersion {
    type Err = ();

    fn from_str(text: &str) -> Result<LinuxVersion, ()> {
        let version = LinuxVersion::of_release(text).ok_or(())?;
        if version.to_string() == text { Ok(version) } else { Err(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_as_numbers() {
        let of = LinuxVersion::of_release;
        assert_eq!(of("6.18.4-generic"), Some(LinuxVersion(6, 18)));
        assert_eq!(of("6.4-rc1"), Some(LinuxVersion(6, 4)));
        assert_eq!(of("next"), None);
        assert!(of("6.10.0") > of("6.4.1"));
        assert_eq!(
            ["6.12", "6.12.1", "6.012"].map(|text| text.parse().ok()),
            [Some(LinuxVersion(6, 12)), None, None]
        );
    }
}
