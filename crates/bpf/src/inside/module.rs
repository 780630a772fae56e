//! The types of one of the kernel's own algorithms, which may be a module.
//!
//! A module's type information continues the kernel's own: its types are numbered from the end of
//! the kernel's, and its strings lie behind the kernel's. Joined, they are one BTF that libbpf can
//! read.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;

use libbpf_rs::btf::Btf;
use rustix::fs::{MemfdFlags, memfd_create};

use crate::Error;

const KERNEL: &str = "/sys/kernel/btf/vmlinux";
/// Bytes of the header: magic, version, flags and its own length, then offset and length of the
/// types and of the strings. Both offsets count from the header's end.
const HEADER_BYTES: usize = 24;

/// The kernel's types, joined with those of this algorithm's module if it is one.
pub(super) fn types(algorithm: &str) -> Result<Btf<'static>, Error> {
    let inspect = |source| Error::Inspect { what: "the kernel's BTF", source };
    let unreadable = |source| Error::Read { what: "the types of a kernel module", source };
    let module = match fs::read(format!("/sys/kernel/btf/tcp_{algorithm}")) {
        Ok(module) => module,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Btf::from_vmlinux().map_err(inspect);
        }
        Err(error) => return Err(unreadable(error)),
    };
    let kernel = fs::read(KERNEL).map_err(unreadable)?;
    let whole = joined(&kernel, &module)
        .ok_or_else(|| Error::BadObject { what: format!("the types of tcp_{algorithm}") })?;
    // libbpf reads BTF from files only.
    let file =
        memfd_create("btf", MemfdFlags::CLOEXEC).map_err(|error| unreadable(error.into()))?;
    let mut file = File::from(file);
    file.write_all(&whole).map_err(unreadable)?;
    Btf::from_path(format!("/proc/self/fd/{}", file.as_raw_fd())).map_err(inspect)
}

/// Joins both; `None` if one of them does not follow the format.
fn joined(kernel: &[u8], module: &[u8]) -> Option<Vec<u8>> {
    let (kernel_types, kernel_strings) = parts(kernel)?;
    let (module_types, module_strings) = parts(module)?;
    let types = u32::try_from(kernel_types.len() + module_types.len()).ok()?;
    let strings = u32::try_from(kernel_strings.len() + module_strings.len()).ok()?;
    let mut whole = kernel[..4].to_vec();
    // The types come first, the strings behind them.
    for number in [HEADER_BYTES as u32, 0, types, types, strings] {
        whole.extend(number.to_ne_bytes());
    }
    for part in [kernel_types, module_types, kernel_strings, module_strings] {
        whole.extend(part);
    }
    Some(whole)
}

/// Splits BTF into the types and the strings.
fn parts(btf: &[u8]) -> Option<(&[u8], &[u8])> {
    let number = |at: usize| {
        let bytes = btf.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(u32::from_ne_bytes(bytes)).ok()
    };
    let body = btf.get(number(4)?..)?;
    let part = |at: usize| {
        let (offset, len) = (number(at)?, number(at + 4)?);
        body.get(offset..offset.checked_add(len)?)
    };
    Some((part(8)?, part(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes BTF with a header of 28 bytes, as a later version may have it, and with strings before
    /// types.
    fn btf(types: &[u8], strings: &[u8]) -> Vec<u8> {
        let mut btf = vec![0x9f, 0xeb, 1, 0];
        let lens = [types.len() as u32, strings.len() as u32];
        for number in [28, lens[1], lens[0], 0, lens[1], 7] {
            btf.extend(number.to_ne_bytes());
        }
        btf.extend(strings);
        btf.extend(types);
        btf
    }

    #[test]
    fn a_module_goes_on_where_the_kernel_ends() {
        let whole = joined(&btf(b"TYPES", b"\0strings\0"), &btf(b"more", b"names\0")).unwrap();
        assert_eq!(parts(&whole).unwrap(), (&b"TYPESmore"[..], &b"\0strings\0names\0"[..]));
        assert_eq!(whole.len(), HEADER_BYTES + 9 + 15);
        let short = btf(b"TYPES", b"");
        for len in 0..short.len() {
            assert_eq!(joined(&short[..len], &short), None, "{len} bytes of {}", short.len());
        }
    }
}
