//! The fields of a struct, by the type information of whoever has it.

use libbpf_rs::btf::types::{Array, Composite, Int, IntEncoding, MemberAttr, Struct, Var};
use libbpf_rs::btf::{Btf, BtfKind, BtfType, ReferencesType as _, TypeId};

/// The variable of bpf.h that keeps the state's type in an object.
const STATE_VARIABLE: &str = "cc_state_layout";
/// Structs deeper than that are left out; no state is.
const DEPTH: u32 = 8;
/// Elements of a longer array are left out.
const ELEMENTS: usize = 16;

/// A number inside a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    /// Its path from the struct on: `bw.s[0].v`.
    pub(super) name: String,
    bit_offset: u32,
    bits: u32,
    is_signed: bool,
}

impl Field {
    /// Its value in the state of a connection; `None` if it lies beyond.
    pub(super) fn read(&self, state: &[u64]) -> Option<i128> {
        let mut value: i128 = 0;
        for bit in 0..self.bits {
            let at = self.bit_offset + bit;
            let word = state.get(at as usize / 64)?;
            value |= i128::from(word >> (at % 64) & 1) << bit;
        }
        let is_negative = self.is_signed && self.bits > 0 && value >> (self.bits - 1) == 1;
        Some(if is_negative { value - (1 << self.bits) } else { value })
    }
}

/// The fields of the state of the algorithm whose object or program this is the information of;
/// empty if it has none, or an older knee left none.
pub(super) fn of_state(btf: &Btf<'_>) -> Vec<Field> {
    let variable: Option<Var<'_>> = btf.type_by_name(STATE_VARIABLE);
    variable.map_or_else(Vec::new, |variable| of_type(btf, variable.referenced_type()))
}

/// The fields of the struct of this name; empty if there is none. Of several it is the last, which is
/// a module's rather than the kernel's own.
pub(super) fn of_struct(btf: &Btf<'_>, name: &str) -> Vec<Field> {
    let found = (1..btf.len() as u32).rev().find_map(|id| {
        let found: Struct<'_> = btf.type_by_id(TypeId::from(id))?;
        found.name().is_some_and(|found| found == name).then_some(id)
    });
    let found: Option<BtfType<'_>> = found.and_then(|id| btf.type_by_id(TypeId::from(id)));
    found.map_or_else(Vec::new, |found| of_type(btf, found))
}

fn of_type(btf: &Btf<'_>, of: BtfType<'_>) -> Vec<Field> {
    let mut fields = Vec::new();
    collect(btf, of, String::new(), 0, DEPTH, &mut fields);
    fields
}

/// Adds the numbers inside a type that lies at `bit_offset`.
fn collect(
    btf: &Btf<'_>,
    of: BtfType<'_>,
    name: String,
    bit_offset: u32,
    depth: u32,
    fields: &mut Vec<Field>,
) {
    let of = of.skip_mods_and_typedefs();
    let Some(depth) = depth.checked_sub(1) else { return };
    match of.kind() {
        BtfKind::Int => {
            if let Ok(int) = Int::try_from(of) {
                let is_signed = matches!(int.encoding, IntEncoding::Signed);
                fields.push(Field { name, bit_offset, bits: u32::from(int.bits), is_signed });
            }
        }
        BtfKind::Enum => fields.push(Field { name, bit_offset, bits: 32, is_signed: false }),
        BtfKind::Struct | BtfKind::Union => {
            let Ok(composite) = Composite::try_from(of) else { return };
            for member in composite.iter() {
                let inner = member.name.map(|name| name.to_string_lossy().into_owned());
                let name = match (name.as_str(), inner) {
                    ("", inner) => inner.unwrap_or_default(),
                    (outer, None) => outer.to_owned(),
                    (outer, Some(inner)) => format!("{outer}.{inner}"),
                };
                let Some(member_type) = btf.type_by_id::<BtfType<'_>>(member.ty) else { continue };
                match member.attr {
                    MemberAttr::Normal { offset } => {
                        collect(btf, member_type, name, bit_offset + offset, depth, fields);
                    }
                    MemberAttr::BitField { size, offset } => fields.push(Field {
                        name,
                        bit_offset: bit_offset + offset,
                        bits: u32::from(size),
                        is_signed: false,
                    }),
                }
            }
        }
        BtfKind::Array => {
            let Ok(array) = Array::try_from(of) else { return };
            let mut element = Vec::new();
            collect(btf, array.contained_type(), String::new(), 0, depth, &mut element);
            let stride = bits_of(array.contained_type());
            for index in 0..array.capacity().min(ELEMENTS) as u32 {
                fields.extend(element.iter().map(|field| Field {
                    name: match field.name.as_str() {
                        "" => format!("{name}[{index}]"),
                        inner => format!("{name}[{index}].{inner}"),
                    },
                    bit_offset: bit_offset + index * stride + field.bit_offset,
                    ..field.clone()
                }));
            }
        }
        // A pointer says nothing to people.
        _ => {}
    }
}

fn bits_of(of: BtfType<'_>) -> u32 {
    let of = of.skip_mods_and_typedefs();
    match of.kind() {
        BtfKind::Int => Int::try_from(of).map_or(0, |int| u32::from(int.bits)),
        BtfKind::Enum => 32,
        BtfKind::Struct | BtfKind::Union => {
            use libbpf_rs::HasSize as _;
            Composite::try_from(of).map_or(0, |composite| composite.size() as u32 * 8)
        }
        BtfKind::Array => Array::try_from(of)
            .map_or(0, |array| bits_of(array.contained_type()) * array.capacity() as u32),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Embedded;
    use libbpf_rs::ObjectBuilder;

    #[test]
    fn every_state_is_found_in_the_object() {
        for embedded in Embedded::all() {
            let algorithm = knee_algo::Algorithm::by_name(embedded.name()).unwrap();
            let btf = Btf::from_raw("x", embedded.object()).unwrap().unwrap();
            let fields = of_state(&btf);
            assert_eq!(fields.is_empty(), algorithm.state_bytes() == 0, "{}", embedded.name());
            let object = ObjectBuilder::default().open_memory(embedded.object()).unwrap();
            assert!(object.maps().all(|map| map.name() != "cc_state"), "it costs a map");
            let end = fields.iter().map(|field| field.bit_offset + field.bits).max();
            assert!(end.unwrap_or(0) <= algorithm.state_bytes() * 8, "{fields:?}");
        }
    }

    #[test]
    fn fields_are_read_where_they_lie() {
        let mut private = [0_u64; 13];
        private[0] = 0xffff_fffe_0000_0102;
        private[1] = 0b1010_0000;
        let read = |bit_offset, bits, is_signed| {
            Field { name: String::new(), bit_offset, bits, is_signed }.read(&private)
        };
        assert_eq!(read(0, 8, false), Some(2));
        assert_eq!(read(0, 16, false), Some(258));
        assert_eq!(read(32, 32, false), Some(0xffff_fffe));
        assert_eq!(read(32, 32, true), Some(-2));
        assert_eq!(read(69, 3, false), Some(5));
        assert_eq!(read(0, 64, false), Some(0xffff_fffe_0000_0102));
        assert_eq!(read(13 * 64 - 8, 16, false), None, "beyond the private area");
    }
}
