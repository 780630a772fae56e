//! Reads the fields of a private struct from an object's debug information (DWARF). The build
//! script uses it for the built-in algorithms, [`crate::module`] for users' files.

use gimli::{
    AttributeValue, DebuggingInformationEntry, Dwarf, EndianSlice, LittleEndian, UnitOffset,
};
use object::{Object as _, ObjectSection as _};

use super::fields::{Field, FieldKind};

/// Deepest nesting of structs. Deeper ones are omitted; no real state reaches it.
const DEPTH: u32 = 8;
/// Most elements of an array. Elements of longer arrays are omitted.
const ELEMENTS: u64 = 16;
/// Most fields. Further ones are omitted; the area has only 104 bytes.
const MOST_FIELDS: usize = 256;
/// Most dimensions of an array.
const MOST_DIMENSIONS: usize = 4;

type Slice<'a> = EndianSlice<'a, LittleEndian>;
type Entry<'a, 'u> = DebuggingInformationEntry<'u, 'u, Slice<'a>>;

/// Identification of the private struct.
pub(crate) enum State<'a> {
    /// The largest of these types, given as `struct foo` or the name of a typedef.
    OneOf(&'a [String]),
    /// The type to which the function of this name returns a pointer.
    ReturnedBy(&'a str),
}

/// A struct and its fields.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) bytes: u64,
    pub(crate) fields: Vec<Field>,
}

/// Finds the struct in an object. `None` if the object has no such struct or no debug information.
pub(crate) fn find(object: &[u8], state: &State<'_>) -> Option<Found> {
    let file = object::File::parse(object).ok()?;
    let section = |id: gimli::SectionId| -> Result<Slice<'_>, gimli::Error> {
        let section = file.section_by_name(id.name());
        // Compressed sections are ignored; the compiler is told not to compress.
        let data = section.and_then(|section| section.data().ok()).unwrap_or_default();
        Ok(EndianSlice::new(data, LittleEndian))
    };
    let dwarf = Dwarf::load(section).ok()?;
    let mut best: Option<Found> = None;
    let mut headers = dwarf.units();
    while let Ok(Some(header)) = headers.next() {
        let Ok(unit) = dwarf.unit(header) else { continue };
        let unit = Unit { dwarf: &dwarf, unit: &unit };
        for at in unit.candidates(state) {
            let bytes = unit.size_of(at, DEPTH).unwrap_or(0);
            if best.as_ref().is_some_and(|best| bytes <= best.bytes) {
                continue;
            }
            let mut fields = Vec::new();
            unit.collect(at, String::new(), 0, DEPTH, &mut fields);
            fields.truncate(MOST_FIELDS);
            best = Some(Found { bytes, fields });
        }
    }
    best
}

/// The debug information of one compilation unit.
struct Unit<'a, 'u> {
    dwarf: &'u Dwarf<Slice<'a>>,
    unit: &'u gimli::Unit<Slice<'a>>,
}

impl<'a, 'u> Unit<'a, 'u> {
    fn entry(&self, at: UnitOffset) -> Option<Entry<'a, 'u>> {
        self.unit.entry(at).ok()
    }

    fn name(&self, entry: &Entry<'a, 'u>) -> Option<String> {
        let value = entry.attr_value(gimli::DW_AT_name).ok()??;
        let text = self.dwarf.attr_string(self.unit, value).ok()?;
        Some(text.to_string_lossy().into_owned())
    }

    fn number(&self, entry: &Entry<'a, 'u>, what: gimli::DwAt) -> Option<u64> {
        entry.attr_value(what).ok()??.udata_value()
    }

    /// Returns the type of an entry.
    fn type_of(&self, entry: &Entry<'a, 'u>) -> Option<UnitOffset> {
        match entry.attr_value(gimli::DW_AT_type).ok()?? {
            AttributeValue::UnitRef(at) => Some(at),
            _ => None,
        }
    }

    /// Returns the types that may be the private struct.
    fn candidates(&self, state: &State<'_>) -> Vec<UnitOffset> {
        let mut found = Vec::new();
        let mut entries = self.unit.entries();
        let mut depth = 0;
        while let Ok(Some((step, entry))) = entries.next_dfs() {
            depth += step;
            if depth != 1 {
                continue;
            }
            let keyword = match entry.tag() {
                gimli::DW_TAG_structure_type => "struct ",
                gimli::DW_TAG_union_type => "union ",
                gimli::DW_TAG_typedef | gimli::DW_TAG_subprogram => "",
                _ => continue,
            };
            let Some(name) = self.name(entry) else { continue };
            match state {
                State::OneOf(names) if entry.tag() != gimli::DW_TAG_subprogram => {
                    let is_it = |wanted: &String| {
                        wanted.strip_prefix(keyword).is_some_and(|wanted| wanted == name)
                    };
                    found.extend(names.iter().any(is_it).then_some(entry.offset()));
                }
                State::ReturnedBy(function)
                    if entry.tag() == gimli::DW_TAG_subprogram && name == *function =>
                {
                    let pointer = self.type_of(entry).and_then(|at| self.entry(at));
                    let target = pointer.and_then(|pointer| self.type_of(&pointer));
                    found.extend(target);
                }
                _ => {}
            }
        }
        found
    }

    /// Resolves typedefs and qualifiers.
    fn resolved(&self, mut at: UnitOffset) -> Option<Entry<'a, 'u>> {
        for _ in 0..32 {
            let entry = self.entry(at)?;
            match entry.tag() {
                gimli::DW_TAG_typedef
                | gimli::DW_TAG_const_type
                | gimli::DW_TAG_volatile_type
                | gimli::DW_TAG_restrict_type
                | gimli::DW_TAG_atomic_type => at = self.type_of(&entry)?,
                _ => return Some(entry),
            }
        }
        None
    }

    /// Returns the size of a type in bytes.
    fn size_of(&self, at: UnitOffset, depth: u32) -> Option<u64> {
        let depth = depth.checked_sub(1)?;
        let entry = self.resolved(at)?;
        match entry.tag() {
            gimli::DW_TAG_array_type => {
                let each = self.size_of(self.type_of(&entry)?, depth)?;
                self.lengths(&entry).iter().try_fold(each, |bytes, n| bytes.checked_mul(*n))
            }
            gimli::DW_TAG_pointer_type => Some(8),
            _ => self.number(&entry, gimli::DW_AT_byte_size),
        }
    }

    /// Returns the number of elements in each dimension of an array.
    fn lengths(&self, array: &Entry<'a, 'u>) -> Vec<u64> {
        let mut lengths = Vec::new();
        self.each_child(array.offset(), |child| {
            if child.tag() == gimli::DW_TAG_subrange_type {
                let last = self.number(child, gimli::DW_AT_upper_bound);
                let count = self.number(child, gimli::DW_AT_count);
                lengths.push(count.or(last.map(|last| last.saturating_add(1))).unwrap_or(0));
            }
        });
        lengths
    }

    fn each_child(&self, at: UnitOffset, mut visit: impl FnMut(&Entry<'a, 'u>)) {
        let Ok(mut tree) = self.unit.entries_tree(Some(at)) else { return };
        let Ok(root) = tree.root() else { return };
        let mut children = root.children();
        while let Ok(Some(child)) = children.next() {
            let offset = child.entry().offset();
            if let Some(entry) = self.entry(offset) {
                visit(&entry);
            }
        }
    }

    /// Adds the numeric fields of a type that lies at `bit_offset`.
    fn collect(
        &self,
        at: UnitOffset,
        name: String,
        bit_offset: u64,
        depth: u32,
        fields: &mut Vec<Field>,
    ) {
        let Some(depth) = depth.checked_sub(1) else { return };
        if fields.len() > MOST_FIELDS {
            return;
        }
        let Some(entry) = self.resolved(at) else { return };
        match entry.tag() {
            gimli::DW_TAG_structure_type | gimli::DW_TAG_union_type => {
                let mut members = Vec::new();
                self.each_child(entry.offset(), |child| {
                    if child.tag() == gimli::DW_TAG_member {
                        members.push(child.offset());
                    }
                });
                for member in members {
                    self.collect_member(member, &name, bit_offset, depth, fields);
                }
            }
            gimli::DW_TAG_array_type => {
                let Some(of) = self.type_of(&entry) else { return };
                let Some(each) = self.size_of(of, depth) else { return };
                self.collect_elements(
                    (of, each),
                    &self.lengths(&entry),
                    (name, bit_offset),
                    depth,
                    fields,
                );
            }
            _ => {
                let bits = self.size_of(at, depth).unwrap_or(0).saturating_mul(8);
                let kind = self.kind(&entry);
                fields.extend(kind.and_then(|kind| Field::new(name, bit_offset, bits, kind)));
            }
        }
    }

    fn collect_elements(
        &self,
        (of, each): (UnitOffset, u64),
        lengths: &[u64],
        (name, bit_offset): (String, u64),
        depth: u32,
        fields: &mut Vec<Field>,
    ) {
        let Some((first, inner)) = lengths.split_first() else {
            return self.collect(of, name, bit_offset, depth, fields);
        };
        let stride = inner.iter().fold(each, |bytes, n| bytes.saturating_mul(*n)).saturating_mul(8);
        // An element without size has no fields, however long the array is.
        if each == 0 || lengths.len() > MOST_DIMENSIONS {
            return;
        }
        for index in 0..(*first).min(ELEMENTS) {
            if fields.len() > MOST_FIELDS {
                return;
            }
            let at = bit_offset.saturating_add(stride.saturating_mul(index));
            self.collect_elements(
                (of, each),
                inner,
                (format!("{name}[{index}]"), at),
                depth,
                fields,
            );
        }
    }

    fn collect_member(
        &self,
        member: UnitOffset,
        outer: &str,
        bit_offset: u64,
        depth: u32,
        fields: &mut Vec<Field>,
    ) {
        let Some(member) = self.entry(member) else { return };
        let Some(of) = self.type_of(&member) else { return };
        let name = match (outer, self.name(&member)) {
            ("", inner) => inner.unwrap_or_default(),
            (outer, None) => outer.to_owned(),
            (outer, Some(inner)) => format!("{outer}.{inner}"),
        };
        let byte = self.number(&member, gimli::DW_AT_data_member_location).unwrap_or(0);
        let at = bit_offset.saturating_add(byte.saturating_mul(8));
        let Some(bits) = self.number(&member, gimli::DW_AT_bit_size) else {
            return self.collect(of, name, at, depth, fields);
        };
        // The offset of a bit field counts from the struct's first bit. DWARF 3 counts from the
        // last bit of the storage unit instead.
        let at = match self.number(&member, gimli::DW_AT_data_bit_offset) {
            Some(offset) => bit_offset.saturating_add(offset),
            None => {
                let unit = self.number(&member, gimli::DW_AT_byte_size);
                let unit = unit.or_else(|| self.size_of(of, depth)).unwrap_or(0).saturating_mul(8);
                let from_top = self.number(&member, gimli::DW_AT_bit_offset).unwrap_or(0);
                at.saturating_add(unit).saturating_sub(from_top.saturating_add(bits))
            }
        };
        let kind = self.resolved(of).and_then(|of| self.kind(&of));
        fields.extend(kind.and_then(|kind| Field::new(name, at, bits, kind)));
    }

    /// Returns the interpretation of a type's bits. `None` if it is not a number.
    fn kind(&self, entry: &Entry<'a, 'u>) -> Option<FieldKind> {
        match entry.tag() {
            gimli::DW_TAG_pointer_type => Some(FieldKind::Pointer),
            gimli::DW_TAG_enumeration_type => Some(self.choices(entry)),
            gimli::DW_TAG_base_type => {
                let encoding = entry.attr_value(gimli::DW_AT_encoding).ok()??;
                match encoding {
                    AttributeValue::Encoding(gimli::DW_ATE_signed | gimli::DW_ATE_signed_char) => {
                        Some(FieldKind::Signed)
                    }
                    AttributeValue::Encoding(
                        gimli::DW_ATE_unsigned
                        | gimli::DW_ATE_unsigned_char
                        | gimli::DW_ATE_boolean,
                    ) => Some(FieldKind::Unsigned),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Returns the names of an enumeration whose values are 0, 1, ...
    fn choices(&self, entry: &Entry<'a, 'u>) -> FieldKind {
        let mut names = Vec::new();
        let mut is_plain = true;
        let mut is_negative = false;
        self.each_child(entry.offset(), |child| {
            if child.tag() != gimli::DW_TAG_enumerator {
                return;
            }
            let value = child.attr_value(gimli::DW_AT_const_value).ok().flatten();
            let value = value.and_then(|value| value.sdata_value());
            is_negative |= value.is_some_and(|value| value < 0);
            is_plain &= value == Some(names.len() as i64);
            names.push(self.name(child).unwrap_or_default());
        });
        match (is_negative, is_plain && names.len() > 1) {
            (true, _) => FieldKind::Signed,
            (false, true) => FieldKind::Named(names.join("|")),
            (false, false) => FieldKind::Unsigned,
        }
    }
}
