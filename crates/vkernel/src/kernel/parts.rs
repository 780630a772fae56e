//! What knee adds to a source tree.

use super::sha256;

include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// What the kernel has.
pub(super) const CONFIG: &str = include_str!("../../kernel/config");

/// Patches for a version, in their order: name and text.
pub(super) fn patches(version: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let of_version = move |(path, text): &(&'static str, &'static str)| {
        Some((path.strip_prefix(version)?.strip_prefix('/')?, *text))
    };
    PATCHES.iter().filter_map(of_version)
}

/// SHA-256 of all that goes into a kernel of this version, and into its guest, beside the source.
pub(super) fn inputs(version: &str) -> String {
    let of_version = patches(version);
    let others = GUEST.iter().chain(DEVICES).chain(ALGORITHMS).copied();
    let files = of_version.chain(others).chain([("config", CONFIG)]);
    let all: Vec<String> =
        files.map(|(name, text)| format!("{name} {}\n{text}", text.len())).collect();
    let parts: Vec<&[u8]> = all.iter().map(String::as_bytes).collect();
    sha256(&parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::VERSIONS;

    #[test]
    fn every_version_has_patches_with_a_reason_and_a_licence() {
        for version in VERSIONS {
            assert!(patches(version).count() >= 5, "{version}");
            for (name, text) in patches(version) {
                let head = text.split("\n--- a/").next().unwrap();
                assert!(text.starts_with("SPDX-License-Identifier: GPL-2.0-only\n"), "{name}");
                assert!(head.lines().count() >= 5, "{name}: {head}");
                // The network stack stays as it is.
                let changed = text.lines().filter(|line| line.starts_with("+++ "));
                assert!(changed.clone().count() > 0, "{name}");
                for file in changed {
                    assert!(file.starts_with("+++ b/arch/"), "{name}: {file}");
                }
            }
        }
        assert_ne!(inputs("6.1"), inputs("6.0"));
    }
}
