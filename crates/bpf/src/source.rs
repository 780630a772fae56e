//! What an algorithm of somebody's own was made of, and how its programs tell that in the kernel.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The section, and so the map, that names the file it was made of and holds nothing else (bpf.h). The kernel keeps 15 bytes of a map's
/// name.
pub(crate) const SOURCE_MAP: &str = ".rodata.source";
/// Bytes of the hash and of the file's name there, each with a zero at its end.
const SHA256_BYTES: usize = 65;
const FILE_BYTES: usize = 64;

/// What an algorithm of somebody's own was made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The name of its C file.
    pub file: String,
    /// What `sha256sum` says of that.
    pub sha256: String,
    /// Where it was loaded from: that file, or an object made of it. Unknown of what is found in a kernel.
    pub path: Option<PathBuf>,
}

/// A variable of the C file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Variable {
    pub(crate) section: String,
    pub(crate) offset: usize,
    /// Its value at first.
    pub(crate) value: Vec<u8>,
}

/// `struct cc_source` of bpf.h.
pub(crate) fn source_of(section: &[u8]) -> Option<(Source, u8)> {
    let sha256 = text_of(section.get(..SHA256_BYTES)?)?;
    let file = text_of(section.get(SHA256_BYTES..SHA256_BYTES + FILE_BYTES)?)?;
    let kind = *section.get(SHA256_BYTES + FILE_BYTES)?;
    let is_hash = sha256.len() == 64 && sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_plain = file.bytes().all(|byte| byte.is_ascii_graphic());
    (is_hash && is_plain).then_some((Source { file, sha256, path: None }, kind))
}

/// What the programs of a kernel say they were made of.
pub(crate) fn source_in_kernel(section: &[u8]) -> Option<Source> {
    source_of(section).map(|(source, _)| source)
}

/// The text before the first zero.
fn text_of(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    String::from_utf8(bytes[..end].to_vec()).ok()
}
