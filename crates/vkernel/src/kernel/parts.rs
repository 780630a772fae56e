//! The parts that knee adds to a kernel's source tree.

use super::{DEFAULT_HZ, sha256};

include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// The kernel's configuration, with [`DEFAULT_HZ`].
const CONFIG: &str = include_str!("../../kernel/config");

/// Returns the patches for a version in order: name and text.
pub(super) fn patches(version: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let of_version = move |(path, text): &(&'static str, &'static str)| {
        Some((path.strip_prefix(version)?.strip_prefix('/')?, *text))
    };
    PATCHES.iter().filter_map(of_version)
}

/// Returns the headers of knee's algorithm contract: name and text.
pub(crate) fn ours() -> impl Iterator<Item = (&'static str, &'static str)> {
    let header = |(path, text): &(&'static str, &'static str)| {
        Some((path.strip_prefix("algorithms/include/")?, *text))
    };
    ALGORITHMS.iter().filter_map(header)
}

/// Returns the kernel's configuration with these ticks per second.
pub(super) fn config(hz: u32) -> String {
    CONFIG.replace(&format!("CONFIG_HZ_{DEFAULT_HZ}=y"), &format!("CONFIG_HZ_{hz}=y"))
}

/// Returns the SHA-256 of all inputs of a kernel except the source itself.
pub(super) fn inputs(version: &str, hz: u32) -> String {
    let others = DEVICES.iter().chain(ALGORITHMS).copied();
    let part = |name: &str, text: &str| format!("{name} {}\n{text}", text.len());
    let files = patches(version).chain(others).map(|(name, text)| part(name, text));
    let all: Vec<String> = files.chain([part("config", &config(hz))]).collect();
    let parts: Vec<&[u8]> = all.iter().map(String::as_bytes).collect();
    sha256(&parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{HZ, VERSIONS};

    #[test]
    fn every_version_has_patches_with_a_reason_and_a_licence() {
        for version in VERSIONS {
            assert!(patches(version).count() >= 5, "{version}");
            for (name, text) in patches(version) {
                let head = text.split("\n--- a/").next().unwrap();
                assert!(text.starts_with("SPDX-License-Identifier: GPL-2.0-only\n"), "{name}");
                assert!(head.lines().count() >= 5, "{name}: {head}");
                // The patches leave the network stack unchanged.
                let changed = text.lines().filter(|line| line.starts_with("+++ "));
                assert!(changed.clone().count() > 0, "{name}");
                for file in changed {
                    assert!(file.starts_with("+++ b/arch/"), "{name}: {file}");
                }
            }
        }
        assert_ne!(inputs("6.1", 1000), inputs("6.12", 1000));
    }

    #[test]
    fn ticks_are_one_line_of_the_configuration() {
        for hz in HZ {
            let config = config(hz);
            let lines: Vec<&str> = config
                .lines()
                .filter(|line| {
                    line.starts_with("CONFIG_HZ_1")
                        || line.starts_with("CONFIG_HZ_2")
                        || line.starts_with("CONFIG_HZ_3")
                })
                .collect();
            assert_eq!(lines, [format!("CONFIG_HZ_{hz}=y")]);
        }
        assert_ne!(inputs("6.1", 250), inputs("6.1", 1000));
    }
}
