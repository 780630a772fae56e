//! What modules are compiled with: macros and folders of the user's, and the kernel whose interface they are written for.

use std::path::PathBuf;

/// The oldest kernel whose interface there is.
const OLDEST: (u32, u32) = (4, 4);

/// A kernel's release, as `LINUX_VERSION_CODE` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinuxApi {
    major: u32,
    minor: u32,
    patch: u32,
}

impl LinuxApi {
    /// The release with this name: `4.19`, `6.1.192`.
    ///
    /// # Errors
    /// What it must be.
    pub fn named(name: &str) -> Result<LinuxApi, String> {
        let wrong = || {
            format!(
                "must be a release of Linux from {}.{} on, as 4.19 or 6.1.192",
                OLDEST.0, OLDEST.1
            )
        };
        let numbers: Vec<u32> = name
            .split('.')
            .map(|part| part.parse().ok().filter(|number| *number < 256))
            .collect::<Option<_>>()
            .ok_or_else(wrong)?;
        let (major, minor, patch) = match numbers[..] {
            [major, minor] => (major, minor, 0),
            [major, minor, patch] => (major, minor, patch),
            _ => return Err(wrong()),
        };
        if (major, minor) < OLDEST {
            return Err(wrong());
        }
        Ok(LinuxApi { major, minor, patch })
    }

    /// Its `LINUX_VERSION_CODE`.
    pub(super) fn code(self) -> String {
        format!("{:#08x}", (self.major << 16) + (self.minor << 8) + self.patch)
    }

    /// Its `cong_control` is told the ACK and a flag: 6.10 and later.
    pub(super) fn cong_control_arguments(self) -> &'static str {
        if (self.major, self.minor) < (6, 10) { "2" } else { "4" }
    }
}

impl std::fmt::Display for LinuxApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        if self.patch > 0 {
            write!(f, ".{}", self.patch)?;
        }
        Ok(())
    }
}

/// What the modules of a run are compiled with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `NAME` or `NAME=VALUE`, as a compiler's `-D`.
    pub define: Vec<String>,
    /// Where headers of the user's are, beside the files' own folders.
    pub include: Vec<PathBuf>,
    /// The interface; `None`: whichever the file compiles with.
    pub linux: Option<LinuxApi>,
}

impl Options {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        *self == Options::default()
    }

    /// A macro as `-D` takes it.
    ///
    /// # Errors
    /// What it must be.
    pub fn check_define(text: &str) -> Result<(), String> {
        let name = text.split_once('=').map_or(text, |(name, _)| name);
        let mut letters = name.chars();
        let is_name =
            letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
                && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        if is_name && !text.contains('\n') {
            return Ok(());
        }
        Err("must be the name of a macro, or NAME=VALUE".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read_and_others_refused() {
        let read = |name| LinuxApi::named(name).map(|linux| (linux.code(), linux.to_string()));
        assert_eq!(read("4.19"), Ok(("0x041300".into(), "4.19".into())));
        assert_eq!(read("6.1.192"), Ok(("0x0601c0".into(), "6.1.192".into())));
        for wrong in ["", "6", "3.10", "4.3", "6.1.2.3", "six.one", "6.-1", "6.256"] {
            assert!(LinuxApi::named(wrong).is_err(), "{wrong}");
        }
        assert_eq!(LinuxApi::named("6.9").unwrap().cong_control_arguments(), "2");
        assert_eq!(LinuxApi::named("7.3").unwrap().cong_control_arguments(), "4");
    }

    #[test]
    fn a_macro_has_a_name() {
        for fine in ["A", "_a1=2", "B=\"x y\"", "C="] {
            assert_eq!(Options::check_define(fine), Ok(()));
        }
        for wrong in ["", "1A", "A B=1", "A(x)=x", "=1"] {
            assert!(Options::check_define(wrong).is_err(), "{wrong}");
        }
    }
}
