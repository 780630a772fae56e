//! The fields of a struct, from its type information (BTF).

use knee_algo::{Field, FieldKind};
use libbpf_rs::btf::types::{Array, Composite, Int, IntEncoding, MemberAttr, Struct, Var};
use libbpf_rs::btf::{Btf, BtfKind, BtfType, ReferencesType as _, TypeId};

/// The variable of bpf.h that keeps the type of the state in an object.
const STATE_VARIABLE: &str = "cc_state_layout";
/// The deepest nesting of structs that is read; no state is deeper.
const DEPTH: u32 = 8;
/// The longest array that is read, in elements.
const ELEMENTS: usize = 16;

/// The state's fields of the algorithm whose object or program has this type information. Empty if
/// the algorithm has no state, or an older knee left no type.
pub(crate) fn of_state(btf: &Btf<'_>) -> Vec<Field> {
    let variable: Option<Var<'_>> = btf.type_by_name(STATE_VARIABLE);
    variable.map_or_else(Vec::new, |variable| of_type(btf, variable.referenced_type()))
}

/// The fields of the struct of this name; empty if there is none. Of several structs it takes the
/// last, which is a module's rather than the kernel's own.
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

/// Adds the numbers inside a type that begins at `bit_offset`.
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
                let kind = match int.encoding {
                    IntEncoding::Signed => FieldKind::Signed,
                    _ => FieldKind::Unsigned,
                };
                fields.extend(Field::new(name, bit_offset.into(), int.bits.into(), kind));
            }
        }
        BtfKind::Enum => {
            fields.extend(Field::new(name, bit_offset.into(), 32, FieldKind::Unsigned));
        }
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
                    MemberAttr::BitField { size, offset } => fields.extend(Field::new(
                        name,
                        (bit_offset + offset).into(),
                        size.into(),
                        FieldKind::Unsigned,
                    )),
                }
            }
        }
        BtfKind::Array => {
            let Ok(array) = Array::try_from(of) else { return };
            let stride = bits_of(array.contained_type());
            for index in 0..array.capacity().min(ELEMENTS) as u32 {
                let (name, at) = (format!("{name}[{index}]"), bit_offset + index * stride);
                collect(btf, array.contained_type(), name, at, depth, fields);
            }
        }
        // The value of a pointer tells a reader nothing.
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
            let end = fields.iter().map(|field| field.bit_offset() + field.bits()).max();
            assert!(end.unwrap_or(0) <= algorithm.state_bytes() * 8, "{fields:?}");
        }
    }
}
