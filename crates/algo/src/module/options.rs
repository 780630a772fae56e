//! Options for compiling modules: the user's macros and folders, and the kernel API that they are
//! written for.

use std::path::PathBuf;

use knee_units::LinuxVersion;

use super::Api;

/// Oldest supported kernel release.
const OLDEST: LinuxVersion = LinuxVersion(4, 4);

/// A kernel release, as in `LINUX_VERSION_CODE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinuxApi {
    version: LinuxVersion,
    patch: u32,
}

impl LinuxApi {
    /// Parses a release such as `4.19` or `6.1.192`.
    ///
    /// # Errors
    /// If the text is not a supported release; states the allowed form.
    pub fn named(name: &str) -> Result<LinuxApi, String> {
        let wrong = || format!("must be a release of Linux from {OLDEST} on, as 4.19 or 6.1.192");
        let numbers: Vec<u32> = name
            .split('.')
            .map(|part| part.parse().ok().filter(|number| *number < 256))
            .collect::<Option<_>>()
            .ok_or_else(wrong)?;
        let (version, patch) = match numbers[..] {
            [major, minor] => (LinuxVersion(major, minor), 0),
            [major, minor, patch] => (LinuxVersion(major, minor), patch),
            _ => return Err(wrong()),
        };
        if version < OLDEST { Err(wrong()) } else { Ok(LinuxApi { version, patch }) }
    }

    /// Returns the `LINUX_VERSION_CODE`.
    pub(super) fn code(self) -> String {
        let LinuxVersion(major, minor) = self.version;
        format!("{:#08x}", (major << 16) + (minor << 8) + self.patch)
    }

    /// Returns whether a function that ends without returning its value compiled in kernels of this
    /// release.
    pub(super) fn takes_missing_returns(self) -> bool {
        self.version < LinuxVersion(5, 6)
    }

    /// Returns the number of arguments of `cong_control`. Since 6.10 the ACK and a flag are among
    /// them.
    pub(super) fn cong_control_arguments(self) -> &'static str {
        if self.version < LinuxVersion(6, 10) { "2" } else { "4" }
    }
}

impl std::fmt::Display for LinuxApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.version)?;
        if self.patch > 0 {
            write!(f, ".{}", self.patch)?;
        }
        Ok(())
    }
}

/// Options for compiling the modules of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Macros as `NAME` or `NAME=VALUE`, as for a compiler's `-D`.
    pub define: Vec<String>,
    /// Folders of the user's headers, in addition to the files' own folders.
    pub include: Vec<PathBuf>,
    /// The kernel release. `None` takes the one with which the file compiles.
    pub linux: Option<LinuxApi>,
    /// The kernel API. `None` takes the one whose names the file uses.
    pub api: Option<Api>,
}

impl Options {
    /// Returns whether no option is set.
    pub fn is_empty(&self) -> bool {
        *self == Options::default()
    }

    /// Checks a macro for `-D`.
    ///
    /// # Errors
    /// If the text is not a macro; states the allowed form.
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

    /// Reports whether a macro for `-D` is a number, and no word of C: it cannot make other code of what names it.
    pub fn is_number(define: &str) -> bool {
        let (name, value) = define.split_once('=').unwrap_or((define, "1"));
        let digits = value.strip_prefix('-').unwrap_or(value);
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '.';
        digits.starts_with(|c: char| c.is_ascii_digit())
            && digits.chars().all(is_part)
            && name.starts_with(|c: char| c.is_ascii_uppercase())
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
    fn a_number_is_no_code() {
        for fine in ["KEEPS", "KEEPS=2", "A=-3", "A=0x1fUL", "A=1.5"] {
            assert!(Options::is_number(fine), "{fine}");
        }
        for other in ["return=1", "A=system", "A=(1)", "A=", "A=1;x", "A={1}", "u32=1", "A=--1"] {
            assert!(!Options::is_number(other), "{other}");
        }
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
