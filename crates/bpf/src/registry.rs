//! What the kernel says is registered: its own account, whoever loaded it.

use std::collections::BTreeSet;

use libbpf_rs::btf::types::{MemberAttr, Ptr, Struct};
use libbpf_rs::btf::{Btf, BtfKind, ReferencesType as _};
use libbpf_rs::query::{LinkInfoIter, LinkTypeInfo, MapInfo, MapInfoIter};
use libbpf_rs::{MapCore as _, MapFlags, MapHandle, MapType};

use crate::{Error, Rights};

/// How the table of operations is called in every object: `cc_ops_` and the algorithm (bpf.h).
const OPS_PREFIX: &str = "cc_ops_";
/// The value of such a map.
const VALUE: &str = "bpf_struct_ops_tcp_congestion_ops";
/// Its state while it is registered without a link, which is how kernels before 6.4 do it.
const IN_USE: u32 = 1;

/// An algorithm of knee's that is registered with the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// The name that sockets choose it by.
    pub name: String,
    /// Which algorithm it is, up to the 8 bytes that the kernel keeps of its name.
    pub algorithm: String,
    /// The kernel's number of its map of operations.
    pub map_id: u32,
    /// Its operations (members of `tcp_congestion_ops`) and the kernel's numbers of their programs,
    /// through which its maps and types can be found.
    pub programs: Vec<(String, u32)>,
}

/// All that is registered and came from knee, by name.
///
/// # Errors
/// [`Error::NotPermitted`] and [`Error::Inspect`].
pub fn registered() -> Result<Vec<Registered>, Error> {
    // The lists would just be empty.
    if !Rights::now().see() {
        return Err(Error::NotPermitted { what: "seeing what is loaded", needs: "CAP_SYS_ADMIN" });
    }
    let linked: BTreeSet<u32> = LinkInfoIter::default()
        .filter_map(|link| match link.info {
            LinkTypeInfo::StructOps(about) => Some(about.map_id),
            _ => None,
        })
        .collect();
    let ours: Vec<MapInfo> = MapInfoIter::default()
        .filter(|map| map.ty == MapType::StructOps)
        .filter(|map| map.name.to_string_lossy().starts_with(OPS_PREFIX))
        .collect();
    if ours.is_empty() {
        return Ok(Vec::new());
    }
    let layout = Layout::of_kernel()?;
    let mut all = Vec::new();
    for map in ours {
        let table = map.name.to_string_lossy();
        // It may be gone by now.
        let Ok(handle) = MapHandle::from_map_id(map.id) else { continue };
        let Ok(Some(value)) = handle.lookup(&0_u32.to_ne_bytes(), MapFlags::empty()) else {
            continue;
        };
        if linked.contains(&map.id) || layout.state(&value) == IN_USE {
            let algorithm = table.trim_start_matches(OPS_PREFIX).to_owned();
            all.push(Registered {
                name: layout.name(&value),
                algorithm,
                map_id: map.id,
                programs: layout.programs(&value),
            });
        }
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// Where things lie in the value of such a map, by the running kernel's BTF.
struct Layout {
    state: usize,
    name: usize,
    /// Members that are functions; in their place the kernel shows the program's number.
    functions: Vec<(String, usize)>,
}

impl Layout {
    fn of_kernel() -> Result<Layout, Error> {
        let inspect = |source| Error::Inspect { what: "the kernel's BTF", source };
        let btf = Btf::from_vmlinux().map_err(inspect)?;
        let offset = |of: &str, field: &str| {
            let found = btf.type_by_name::<Struct<'_>>(of);
            let member = found.as_ref().and_then(|found| {
                found.iter().find(|member| member.name.is_some_and(|name| name == field))
            });
            match member.map(|member| member.attr) {
                Some(MemberAttr::Normal { offset }) => Ok(offset as usize / 8),
                _ => Err(Error::BadObject { what: format!("no {of}.{field} in the kernel's BTF") }),
            }
        };
        let data = offset(VALUE, "data")?;
        let table = btf.type_by_name::<Struct<'_>>("tcp_congestion_ops");
        let functions = table.iter().flat_map(|table| table.iter()).filter_map(|member| {
            let pointer = btf.type_by_id::<Ptr<'_>>(member.ty)?.referenced_type();
            let MemberAttr::Normal { offset } = member.attr else { return None };
            (pointer.kind() == BtfKind::FuncProto)
                .then(|| (lossy(member.name), data + offset as usize / 8))
        });
        Ok(Layout {
            // Newer kernels have these in a struct of their own.
            state: match offset(VALUE, "common") {
                Ok(common) => common + offset("bpf_struct_ops_common_value", "state")?,
                Err(_) => offset(VALUE, "state")?,
            },
            name: data + offset("tcp_congestion_ops", "name")?,
            functions: functions.collect(),
        })
    }

    fn programs(&self, value: &[u8]) -> Vec<(String, u32)> {
        let id = |offset: usize| {
            let bytes = value.get(offset..offset + 4)?.try_into().ok()?;
            Some(u32::from_ne_bytes(bytes)).filter(|id| *id != 0)
        };
        self.functions
            .iter()
            .filter_map(|(member, offset)| Some((member.clone(), id(*offset)?)))
            .collect()
    }

    fn state(&self, value: &[u8]) -> u32 {
        let bytes = value.get(self.state..self.state + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u32::from_ne_bytes)
    }

    fn name(&self, value: &[u8]) -> String {
        let field = value.get(self.name..).unwrap_or(&[]);
        let name: Vec<u8> = field.iter().copied().take(15).take_while(|byte| *byte != 0).collect();
        String::from_utf8_lossy(&name).into_owned()
    }
}

fn lossy(name: Option<&std::ffi::OsStr>) -> String {
    name.map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}
