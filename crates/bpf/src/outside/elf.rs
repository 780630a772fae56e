//! Reads the sections and symbols of an untrusted object file. The crate `object` checks every number in it.

use object::elf::{
    EM_BPF, ET_REL, FileHeader64, SHF_EXECINSTR, SHT_NOBITS, SHT_PROGBITS, STT_OBJECT,
};
use object::read::elf::{ElfFile64, ElfSection64, FileHeader as _, SectionHeader as _};
use object::{LittleEndian, Object as _, ObjectSection as _, ObjectSymbol as _};

use crate::source::Variable;

/// The largest number of sections; an object of knee's has about 60.
const MOST_SECTIONS: usize = 1000;
/// The sections that hold the variables for a file's own parameters.
const OF_VARIABLES: [&[u8]; 3] = [b".data", b".bss", b".rodata"];

/// An object file.
pub(super) struct Elf<'a>(ElfFile64<'a, LittleEndian>);

impl<'a> Elf<'a> {
    /// Reads an object file, whose bytes have the alignment of its numbers.
    ///
    /// # Errors
    /// If it is no object for BPF, or is broken.
    pub(super) fn read(object: &'a [u8]) -> Result<Elf<'a>, String> {
        let is_ours = |header: &FileHeader64<LittleEndian>| {
            let (kind, machine) = (header.e_type(LittleEndian), header.e_machine(LittleEndian));
            header.is_supported()
                && header.is_little_endian()
                && (kind, machine) == (ET_REL, EM_BPF)
        };
        if !FileHeader64::parse(object).is_ok_and(is_ours) {
            return Err(
                "is no object for BPF: knee check FILE.c --object FILE.bpf.o makes one".to_owned()
            );
        }
        Elf::whole(object).ok_or_else(|| {
            "is a broken object: a section of it lies outside of the file".to_owned()
        })
    }

    /// Reads an object whose sections all have a name and lie in the file.
    fn whole(object: &'a [u8]) -> Option<Elf<'a>> {
        let elf = Elf(ElfFile64::parse(object).ok()?);
        let is_fine = |section: ElfSection64<'a, '_, LittleEndian>| {
            section.name_bytes().is_ok() && section.data().is_ok()
        };
        let is_whole = elf.0.sections().count() <= MOST_SECTIONS && elf.0.sections().all(is_fine);
        is_whole.then_some(elf)
    }

    /// The bytes of the section of this name; `None` if there is none.
    pub(super) fn section(&self, name: &str) -> Option<&'a [u8]> {
        self.0.section_by_name_bytes(name.as_bytes())?.data().ok()
    }

    /// The instructions, section by section.
    pub(super) fn code(&self) -> impl Iterator<Item = &'a [u8]> {
        let has_code = |section: &ElfSection64<'a, '_, LittleEndian>| {
            let header = section.elf_section_header();
            let flags = header.sh_flags(LittleEndian);
            header.sh_type(LittleEndian) == SHT_PROGBITS && flags & u64::from(SHF_EXECINSTR) != 0
        };
        self.0.sections().filter(has_code).filter_map(|section| section.data().ok())
    }

    /// The names that the object uses but does not define; `None` if one cannot be read.
    pub(super) fn undefined(&self) -> Option<Vec<&'a [u8]>> {
        let undefined = self.0.symbols().filter(|symbol| symbol.is_undefined());
        let names = undefined.map(|symbol| symbol.name_bytes().ok());
        names.filter(|name| *name != Some(&b""[..])).collect()
    }

    /// The variable of this name, if it has at most 8 bytes; `None` if there is none.
    pub(super) fn variable(&self, name: &str) -> Option<Variable> {
        let symbol = self.0.symbols().find(|symbol| {
            symbol.name_bytes() == Ok(name.as_bytes())
                && symbol.elf_symbol().st_type() == STT_OBJECT
        })?;
        let section = self.0.section_by_index(symbol.section_index()?).ok()?;
        let (offset, len) =
            (usize::try_from(symbol.address()).ok()?, usize::try_from(symbol.size()).ok()?);
        let name = section.name_bytes().ok().filter(|name| OF_VARIABLES.contains(name))?;
        if !matches!(len, 1 | 2 | 4 | 8) {
            return None;
        }
        let value = match section.elf_section_header().sh_type(LittleEndian) {
            SHT_NOBITS => vec![0; len],
            _ => section.data().ok()?.get(offset..offset.checked_add(len)?)?.to_vec(),
        };
        Some(Variable { section: String::from_utf8(name.to_vec()).ok()?, offset, value })
    }
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
        for at in (0..64).chain(object.len() - 128..object.len()) {
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
