//! Maps an address of loaded code to a line of the source file, by the object's debug information.

use std::fmt;
use std::path::Path;

use addr2line::gimli::{Dwarf, EndianSlice, Error, LittleEndian, SectionId};
use object::{Object as _, ObjectSection as _};

use super::guard::Code;
use super::{Module, bounded};

/// Support files that are compiled with every file.
const SUPPORT: [&str; 3] = ["support.c", "host.c", "file.c"];

/// A line of a source file, and the function that it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) file: String,
    pub(crate) line: u32,
    pub(crate) function: String,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.function.as_str() {
            "" => write!(f, "{}:{}", self.file, self.line),
            function => write!(f, "{function}, {}:{}", self.file, self.line),
        }
    }
}

/// Returns the line of an address. If it lies in a header of knee's, the line is that of the
/// calling function in the file.
pub(super) fn of(module: &Module, code: &Code, address: usize) -> Option<Line> {
    let within = address.checked_sub(code.base)?;
    let bytes = knee_files::read_bounded(&module.object, bounded::MOST_OBJECT, "object").ok()?;
    let lines = lines_at(&bytes, within as u64)?;
    let folder = module.path.parent().unwrap_or(Path::new(""));
    let is_own = |line: &&Line| {
        line.file == super::file_name(&module.path) || folder.join(&line.file).is_file()
    };
    let is_support = |line: &&Line| SUPPORT.contains(&line.file.as_str());
    lines.iter().find(is_own).or_else(|| lines.iter().find(|line| !is_support(line))).cloned()
}

/// Returns the lines of the functions inlined at an address, from the innermost to the function
/// that holds them.
fn lines_at(object: &[u8], address: u64) -> Option<Vec<Line>> {
    let object = object::File::parse(object).ok()?;
    // As in dwarf.rs, so that what reads it is compiled once.
    if !object.is_little_endian() {
        return None;
    }
    let section = |id: SectionId| -> Result<EndianSlice<'_, LittleEndian>, Error> {
        let section = object.section_by_name(id.name());
        let data = section.and_then(|section| section.data().ok()).unwrap_or_default();
        Ok(EndianSlice::new(data, LittleEndian))
    };
    let context = addr2line::Context::from_dwarf(Dwarf::load(section).ok()?).ok()?;
    let mut frames = context.find_frames(address).skip_all_loads().ok()?;
    let mut lines = Vec::new();
    while let Ok(Some(frame)) = frames.next() {
        let function = frame.function.and_then(|name| Some(name.raw_name().ok()?.into_owned()));
        let Some(at) = frame.location else { continue };
        if let (Some(file), Some(line)) = (at.file, at.line) {
            let file = super::file_name(Path::new(file));
            lines.push(Line { file, line, function: function.unwrap_or_default() });
        }
    }
    Some(lines)
}
