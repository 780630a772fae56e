//! The source of an algorithm from a user's file, and how its programs record the source in the
//! kernel.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The section, and so the map, that holds only the name of the source file (bpf.h). The kernel
/// keeps 15 bytes of a map's name.
pub(crate) const SOURCE_MAP: &str = ".rodata.source";
/// Bytes of the hash and of the file's name in it, each with a final zero.
const SHA256_BYTES: usize = 65;
const FILE_BYTES: usize = 64;

/// The source of an algorithm from a user's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The name of its C file.
    pub file: String,
    /// The SHA-256 of that file, as `sha256sum` prints it.
    pub sha256: String,
    /// The loaded file: the C file, or an object made of it. `None` for an algorithm found in a
    /// kernel.
    pub path: Option<PathBuf>,
}

/// A variable of the C file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Variable {
    pub(crate) section: String,
    pub(crate) offset: usize,
    /// The initial value.
    pub(crate) value: Vec<u8>,
}

/// Decodes `struct cc_source` of bpf.h.
pub(crate) fn source_of(section: &[u8]) -> Option<(Source, u8)> {
    let sha256 = text_of(section.get(..SHA256_BYTES)?)?;
    let file = text_of(section.get(SHA256_BYTES..SHA256_BYTES + FILE_BYTES)?)?;
    let kind = *section.get(SHA256_BYTES + FILE_BYTES)?;
    let is_hash = sha256.len() == 64 && sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_plain = file.bytes().all(|byte| byte.is_ascii_graphic());
    (is_hash && is_plain).then_some((Source { file, sha256, path: None }, kind))
}

/// Decodes the source that programs in the kernel record.
pub(crate) fn source_in_kernel(section: &[u8]) -> Option<Source> {
    source_of(section).map(|(source, _)| source)
}

/// The text before the first zero.
fn text_of(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    String::from_utf8(bytes[..end].to_vec()).ok()
}
