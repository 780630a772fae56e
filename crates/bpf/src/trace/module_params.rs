//! The present parameters of a Linux module. They are global variables of its file, and the
//! kernel's type information gives their places.

use knee_algo::module::{PARAM_TYPE, PARAMS_TOLD};
use libbpf_rs::btf::types::{DataSec, Int, IntEncoding, Struct, Var};
use libbpf_rs::btf::{Btf, BtfType, ReferencesType as _};
use libbpf_rs::{MapCore as _, MapFlags};

use crate::{Error, Registered};

/// Sections that hold C variables.
const SECTIONS: [&str; 3] = [".data", ".bss", ".rodata"];

/// A parameter, and the variable that holds it.
pub(super) struct ModuleParam {
    pub(super) name: String,
    section: &'static str,
    offset: usize,
    bytes: usize,
    is_signed: bool,
}

/// The parameters of the module with these types, in the order of its file; empty for an algorithm
/// on the contract.
pub(super) fn module_params(btf: &Btf<'_>) -> Vec<ModuleParam> {
    let told: Option<Var<'_>> = btf.type_by_name(PARAMS_TOLD);
    let told = told
        .and_then(|told| Struct::try_from(told.referenced_type().skip_mods_and_typedefs()).ok());
    let members = told.iter().flat_map(|told| told.iter());
    members
        .filter_map(|member| {
            let of: BtfType<'_> = btf.type_by_id(member.ty)?;
            let (_, variable) = of.name()?.to_str()?.strip_prefix(PARAM_TYPE)?.split_once('_')?;
            variable_of(btf, member.name?.to_str()?, variable)
        })
        .collect()
}

fn variable_of(btf: &Btf<'_>, name: &str, variable: &str) -> Option<ModuleParam> {
    SECTIONS.into_iter().find_map(|section| {
        let all: DataSec<'_> = btf.type_by_name(section)?;
        all.iter().find_map(|found| {
            let var: Var<'_> = btf.type_by_id(found.ty)?;
            if var.name()? != variable {
                return None;
            }
            let int = Int::try_from(var.referenced_type().skip_mods_and_typedefs()).ok()?;
            Some(ModuleParam {
                name: name.to_owned(),
                section,
                offset: found.offset as usize,
                bytes: found.size,
                is_signed: matches!(int.encoding, IntEncoding::Signed),
            })
        })
    })
}

impl ModuleParam {
    /// The parameter's present value. `None` if no program of the module uses it, or it is no
    /// 32-bit number.
    pub(super) fn value(&self, of: &Registered) -> Result<Option<u32>, Error> {
        let inspect = |source| Error::Inspect { what: "the parameters of a module", source };
        let Some(map) = of.usual_section(self.section)? else { return Ok(None) };
        let section = map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).map_err(inspect)?;
        let section = section.unwrap_or_default();
        Ok(section.get(self.offset..self.offset + self.bytes).and_then(|own| self.number(own)))
    }

    fn number(&self, own: &[u8]) -> Option<u32> {
        let mut wide = [0; size_of::<u64>()];
        wide.get_mut(..own.len())?.copy_from_slice(own);
        let value = u64::from_le_bytes(wide);
        if !self.is_signed {
            return u32::try_from(value).ok();
        }
        let unused = 64 - 8 * u32::try_from(own.len()).ok().filter(|bytes| *bytes > 0)?;
        i32::try_from((value << unused) as i64 >> unused).ok().map(|value| value as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_a_number_of_32_bits_with_its_sign() {
        let param = |is_signed| {
            let name = String::new();
            ModuleParam { name, section: ".data", offset: 0, bytes: 0, is_signed }
        };
        assert_eq!(param(false).number(&[7]), Some(7));
        assert_eq!(param(true).number(&[0xfe]), Some((-2_i32) as u32));
        assert_eq!(param(true).number(&(-5_i32).to_le_bytes()), Some((-5_i32) as u32));
        assert_eq!(param(false).number(&u64::MAX.to_le_bytes()), None);
        assert_eq!(param(true).number(&(1_i64 << 40).to_le_bytes()), None);
        assert_eq!(param(true).number(&[]), None);
    }
}
