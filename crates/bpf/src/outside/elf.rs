//! Reads the sections of an untrusted object file, and checks every number in it.

use crate::source::Variable;

/// The largest number of section headers; an object of knee's has about 60.
const MOST_SECTIONS: usize = 1000;
const HEADER_BYTES: usize = 64;
const SECTION_BYTES: usize = 64;
/// The ELF type of a relocatable file, and the machine number of BPF.
const RELOCATABLE: u16 = 1;
const BPF: u16 = 247;
/// The type of a section without bytes in the file.
const NO_BITS: u32 = 8;
/// The type of a section with bytes, and the flag of one with instructions.
const PROGRAM_BITS: u32 = 1;
const INSTRUCTIONS: u32 = 4;
/// The type of the symbol section, the bytes of one symbol, and the kind of a symbol that is a
/// variable.
const SYMBOLS: u32 = 2;
const SYMBOL_BYTES: usize = 24;
const OBJECT: u8 = 1;
/// The section number of a symbol that the object does not define.
const UNDEFINED: u16 = 0;
/// The sections that hold the variables for a file's own parameters.
const OF_VARIABLES: [&[u8]; 3] = [b".data", b".bss", b".rodata"];

/// An object file.
pub(super) struct Elf<'a> {
    sections: Vec<Section<'a>>,
}

struct Section<'a> {
    name: &'a [u8],
    kind: u32,
    flags: u32,
    /// The section's bytes in the file.
    bytes: &'a [u8],
    /// The number of the section that belongs to this one.
    link: usize,
}

impl<'a> Elf<'a> {
    /// Reads an object file.
    ///
    /// # Errors
    /// If it is no object for BPF, or is broken.
    pub(super) fn read(object: &'a [u8]) -> Result<Elf<'a>, String> {
        let is_elf = object.starts_with(b"\x7fELF\x02\x01") && object.len() >= HEADER_BYTES;
        let (kind, machine) = (u16_at(object, 16), u16_at(object, 18));
        if !is_elf || (kind, machine) != (Some(RELOCATABLE), Some(BPF)) {
            return Err(
                "is no object for BPF: knee check FILE.c --object FILE.bpf.o makes one".to_owned()
            );
        }
        let broken = "is a broken object: a section of it lies outside of the file".to_owned();
        Elf::of_sections(object).ok_or(broken)
    }

    fn of_sections(object: &'a [u8]) -> Option<Elf<'a>> {
        let table = usize_at(object, 40)?;
        let count = usize::from(u16_at(object, 60)?);
        if usize::from(u16_at(object, 58)?) != SECTION_BYTES || count > MOST_SECTIONS {
            return None;
        }
        let header = |index: usize| {
            let begin = table.checked_add(index.checked_mul(SECTION_BYTES)?)?;
            object.get(begin..begin.checked_add(SECTION_BYTES)?)
        };
        let bytes = |header: &[u8]| {
            if u32_at(header, 4)? == NO_BITS {
                return Some(&object[..0]);
            }
            let (begin, len) = (usize_at(header, 24)?, usize_at(header, 32)?);
            object.get(begin..begin.checked_add(len)?)
        };
        let names = bytes(header(usize::from(u16_at(object, 62)?))?)?;
        let section = |index: usize| {
            let header = header(index)?;
            Some(Section {
                name: name_at(names, u32_at(header, 0)?)?,
                kind: u32_at(header, 4)?,
                flags: u32_at(header, 8)?,
                bytes: bytes(header)?,
                link: u32_at(header, 40)? as usize,
            })
        };
        Some(Elf { sections: (0..count).map(section).collect::<Option<_>>()? })
    }

    /// The bytes of the section of this name; `None` if there is none.
    pub(super) fn section(&self, name: &str) -> Option<&'a [u8]> {
        let mut found = self.sections.iter().filter(|section| section.name == name.as_bytes());
        found.next().map(|section| section.bytes)
    }

    /// The instructions, section by section.
    pub(super) fn code(&self) -> impl Iterator<Item = &'a [u8]> {
        let has_code = |section: &&Section<'_>| {
            section.kind == PROGRAM_BITS && section.flags & INSTRUCTIONS != 0
        };
        self.sections.iter().filter(has_code).map(|section| section.bytes)
    }

    /// The names that the object uses but does not define; `None` if one cannot be read.
    pub(super) fn undefined(&self) -> Option<Vec<&'a [u8]>> {
        let mut all = Vec::new();
        for symbols in self.sections.iter().filter(|section| section.kind == SYMBOLS) {
            let names = self.sections.get(symbols.link)?.bytes;
            for symbol in symbols.bytes.chunks_exact(SYMBOL_BYTES) {
                let name = name_at(names, u32_at(symbol, 0)?)?;
                if u16_at(symbol, 6)? == UNDEFINED && !name.is_empty() {
                    all.push(name);
                }
            }
        }
        Some(all)
    }

    /// The variable of this name, if it has at most 8 bytes; `None` if there is none.
    pub(super) fn variable(&self, name: &str) -> Option<Variable> {
        let symbols = self.sections.iter().find(|section| section.kind == SYMBOLS)?;
        let names = self.sections.get(symbols.link)?.bytes;
        let is_it = |symbol: &&[u8]| {
            let found = u32_at(symbol, 0).and_then(|at| name_at(names, at));
            found == Some(name.as_bytes()) && symbol[4] & 15 == OBJECT
        };
        let symbol = symbols.bytes.chunks_exact(SYMBOL_BYTES).find(is_it)?;
        let section = self.sections.get(usize::from(u16_at(symbol, 6)?))?;
        if !OF_VARIABLES.contains(&section.name) {
            return None;
        }
        let (offset, len) = (usize_at(symbol, 8)?, usize_at(symbol, 16)?);
        if !matches!(len, 1 | 2 | 4 | 8) {
            return None;
        }
        let value = match section.kind {
            NO_BITS => vec![0; len],
            _ => section.bytes.get(offset..offset.checked_add(len)?)?.to_vec(),
        };
        let section = String::from_utf8(section.name.to_vec()).ok()?;
        Some(Variable { section, offset, value })
    }
}

/// The name that begins at this offset, without its final zero.
fn name_at(names: &[u8], at: u32) -> Option<&[u8]> {
    names.get(at as usize..)?.split(|byte| *byte == 0).next()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Reads a number that is an offset or a size in the file.
fn usize_at(bytes: &[u8], at: usize) -> Option<usize> {
    let number = u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?);
    usize::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Embedded;

    #[test]
    fn sections_are_found_and_broken_files_are_refused() {
        let Ok(reno) = Embedded::by_name("reno") else {
            crate::outside::say_skipped();
            return;
        };
        let object = reno.object();
        let elf = Elf::read(object).unwrap();
        assert_eq!(elf.section("license").unwrap(), b"Dual BSD/GPL\0");
        assert_eq!(elf.section("no such"), None);
        // A variable larger than a number is not a parameter of a module.
        assert_eq!((elf.variable("cc_trace"), elf.variable("none")), (None, None));
        // A variable in a section that libbpf makes another map of is not one either.
        let is_there = object.windows(12).any(|bytes| bytes == b"cc_fallbacks");
        assert_eq!((is_there, elf.variable("cc_fallbacks")), (true, None));
        assert!(Elf::read(b"").is_err() && Elf::read(&object[..63]).is_err());
        // For any number in the header, the result is an error or a section inside the file.
        for at in (0..HEADER_BYTES).chain(object.len() - 2 * SECTION_BYTES..object.len()) {
            for value in [0, 1, 0x7f, 0xff] {
                let mut changed = object.to_vec();
                changed[at] = value;
                if let Ok(elf) = Elf::read(&changed) {
                    let _ = (elf.section("license"), elf.variable("cc_trace"));
                }
            }
        }
    }
}
