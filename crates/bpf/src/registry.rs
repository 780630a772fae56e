//! The algorithms that the kernel has registered, whoever loaded them.

mod ids;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd as _;

use knee_algo::NEEDS_ECN;
use libbpf_rs::btf::types::{MemberAttr, Ptr, Struct};
use libbpf_rs::btf::{Btf, BtfKind, ReferencesType as _};
use libbpf_rs::{ErrorKind, MapCore as _, MapFlags, MapHandle, MapInfo, MapType};

pub(crate) use self::ids::Program;
use crate::source::{SOURCE_MAP, source_in_kernel};
use crate::{Error, Rights, Source};

/// The prefix of the operations table's name in every object; the algorithm's name follows (bpf.h).
pub(crate) const OPS_PREFIX: &str = "cc_ops_";
/// The type of such a map's value.
const VALUE: &str = "bpf_struct_ops_tcp_congestion_ops";
/// The map's state while it is registered without a link, as on kernels before 6.4.
const IN_USE: u32 = 1;

/// The kernel's own algorithms that need ECN. The kernel does not report this for algorithms
/// without connections.
const KERNEL_NEEDS_ECN: [&str; 2] = ["dctcp", "prague"];

/// One of knee's algorithms that is registered with the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// The name by which sockets choose it.
    pub name: String,
    /// The algorithm's name, up to the 8 bytes that the kernel keeps of it.
    pub algorithm: String,
    /// Whether it serves connections with ECN only.
    pub needs_ecn: bool,
    /// The kernel's number of its map of operations.
    pub map_id: u32,
    /// The operations (members of `tcp_congestion_ops`) and the kernel's numbers of their programs,
    /// which lead to the algorithm's maps and types.
    pub programs: Vec<(String, u32)>,
}

impl Registered {
    /// Unregisters it on a kernel without links, where the map of operations is the registration.
    ///
    /// # Errors
    /// [`Error::Inspect`].
    pub(crate) fn unregister(&self) -> Result<(), Error> {
        let inspect = |source| Error::Inspect { what: "a table of operations", source };
        let map = MapHandle::from_map_id(self.map_id).map_err(inspect)?;
        map.delete(&0_u32.to_ne_bytes()).map_err(inspect)
    }

    /// The file that it was compiled from. `None` if it is one of knee's own, or the kernel has no
    /// record of the file.
    ///
    /// # Errors
    /// [`Error::Inspect`].
    pub(crate) fn source(&self) -> Result<Option<Source>, Error> {
        let inspect = |source| Error::Inspect { what: "the source of an algorithm", source };
        let Some(map) = self.map(SOURCE_MAP)? else { return Ok(None) };
        let section = map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).map_err(inspect)?;
        Ok(section.and_then(|section| source_in_kernel(&section)))
    }

    /// The map of this name (for example a section) that its programs use. `None` if they use none,
    /// or the algorithm has been unloaded.
    ///
    /// # Errors
    /// [`Error::Inspect`].
    pub(crate) fn map(&self, name: &str) -> Result<Option<MapHandle>, Error> {
        self.map_where(|map| map.name() == name)
    }

    /// The map of a section that every object may have (`.data`). libbpf puts the object's name,
    /// which has no dot, before the section's.
    ///
    /// # Errors
    /// [`Error::Inspect`].
    pub(crate) fn usual_section(&self, section: &str) -> Result<Option<MapHandle>, Error> {
        self.map_where(|map| {
            let object = map.name().to_str().and_then(|name| name.strip_suffix(section));
            object.is_some_and(|object| !object.is_empty() && !object.contains('.'))
        })
    }

    fn map_where(&self, is_it: impl Fn(&MapHandle) -> bool) -> Result<Option<MapHandle>, Error> {
        let inspect = |source| Error::Inspect { what: "the maps of an algorithm", source };
        let mut seen = BTreeSet::new();
        for (_, id) in &self.programs {
            let Some(program) = Program::open(*id).map_err(inspect)? else { continue };
            for id in program.maps.iter().filter(|id| seen.insert(**id)) {
                let map = ids::map(*id).map_err(inspect)?;
                if let Some(map) = map.filter(&is_it) {
                    return Ok(Some(map));
                }
            }
        }
        Ok(None)
    }
}

/// One of knee's algorithms in the kernel, registered or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InKernel {
    pub(crate) algorithm: Registered,
    pub(crate) is_registered: bool,
    /// The kernel's own references to it: the registration, defaults of namespaces, and sockets.
    /// `None` if the kernel does not report the number.
    pub(crate) references: Option<u32>,
}

/// All of knee's registered algorithms, by name. An algorithm that is registered throughout the
/// read is never missed, even if others come and go.
///
/// # Errors
/// [`Error::NotPermitted`] and [`Error::Inspect`].
pub fn registered() -> Result<Vec<Registered>, Error> {
    let all = in_kernel()?.into_iter().filter(|one| one.is_registered);
    Ok(all.map(|one| one.algorithm).collect())
}

/// All of knee's algorithms that the kernel has, by name. Defaults of namespaces and sockets keep
/// an algorithm after its registration ended.
///
/// # Errors
/// [`Error::NotPermitted`] and [`Error::Inspect`].
pub(crate) fn in_kernel() -> Result<Vec<InKernel>, Error> {
    check_rights()?;
    let inspect = |source| Error::Inspect { what: "what is loaded", source };
    let mut found = BTreeMap::new();
    let mut add = |id, map: &MapHandle, is_linked| {
        let table = Table::of(map).map_err(inspect)?.filter(Table::is_knees);
        if let Some(table) = table {
            let (_, linked) = found.entry(id).or_insert((table, false));
            *linked |= is_linked;
        }
        Ok(())
    };
    for (id, map) in ids::linked_maps().map_err(inspect)? {
        add(id, &map, true)?;
    }
    // Without a link, the map's state tells whether it is registered.
    for map in ids::maps() {
        let (id, map) = map.map_err(inspect)?;
        add(id, &map, false)?;
    }
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let layout = Layout::of_kernel()?;
    let one = |(id, (table, linked)): (u32, (Table, bool))| InKernel {
        algorithm: layout.algorithm(id, &table),
        is_registered: linked || layout.state(&table.value) == IN_USE,
        references: layout.references.map(|at| u32_at(&table.value, at)),
    };
    // A table that is still being loaded has no name.
    let mut all: Vec<InKernel> =
        found.into_iter().map(one).filter(|one| !one.algorithm.name.is_empty()).collect();
    all.sort_by(|a, b| a.algorithm.name.cmp(&b.algorithm.name));
    Ok(all)
}

/// The algorithm of knee's whose operations this map holds. It may no longer be registered, since
/// connections keep such an algorithm. `None` if the map is another's, or gone.
///
/// # Errors
/// [`Error::Inspect`].
pub(crate) fn of_map(map_id: u32) -> Result<Option<Registered>, Error> {
    let inspect = |source| Error::Inspect { what: "a table of operations", source };
    let Some(map) = ids::map(map_id).map_err(inspect)? else { return Ok(None) };
    let Some(table) = Table::of(&map).map_err(inspect)?.filter(Table::is_knees) else {
        return Ok(None);
    };
    Ok(Some(Layout::of_kernel()?.algorithm(map_id, &table)))
}

/// Whether the algorithm of this name serves connections with ECN only, whoever loaded it.
///
/// # Errors
/// [`Error::Inspect`], [`Error::NotPermitted`].
pub(crate) fn needs_ecn(name: &str) -> Result<bool, Error> {
    Ok(match flags_of(name)? {
        Some(flags) => flags & NEEDS_ECN != 0,
        None => KERNEL_NEEDS_ECN.contains(&name),
    })
}

/// The flags of the algorithm that BPF programs of any owner registered under this name; `None` if
/// there is none. If a live update left several, it combines the flags of all.
fn flags_of(name: &str) -> Result<Option<u32>, Error> {
    check_rights()?;
    let inspect = |source| Error::Inspect { what: "what is loaded", source };
    let mut tables = Vec::new();
    for map in ids::maps() {
        let (_, map) = map.map_err(inspect)?;
        tables.extend(Table::of(&map).map_err(inspect)?);
    }
    if tables.is_empty() {
        return Ok(None);
    }
    let layout = Layout::of_kernel()?;
    let found = tables
        .iter()
        .filter(|table| table.value_type == layout.value && layout.name(&table.value) == name)
        .map(|table| layout.flags(&table.value));
    Ok(found.reduce(|all, flags| all | flags))
}

/// Checks the rights: without them the lists of loaded objects would just be empty.
fn check_rights() -> Result<(), Error> {
    if Rights::now().see() {
        return Ok(());
    }
    Err(Error::NotPermitted { what: "seeing what is loaded", needs: "CAP_SYS_ADMIN" })
}

/// A map of operations.
struct Table {
    name: String,
    /// The number of its value's type in the kernel's BTF.
    value_type: u32,
    value: Vec<u8>,
}

impl Table {
    /// Reads the table; `None` if the map holds no operations.
    fn of(map: &MapHandle) -> libbpf_rs::Result<Option<Table>> {
        if map.map_type() != MapType::StructOps {
            return Ok(None);
        }
        let value = match map.lookup(&0_u32.to_ne_bytes(), MapFlags::empty()) {
            Ok(value) => value,
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let name = map.name().to_string_lossy().into_owned();
        let value_type = MapInfo::new(map.as_fd())?.info.btf_vmlinux_value_type_id;
        Ok(value.map(|value| Table { name, value_type, value }))
    }

    fn is_knees(&self) -> bool {
        self.name.starts_with(OPS_PREFIX)
    }
}

/// The offsets in the value of such a map, from the running kernel's BTF.
struct Layout {
    state: usize,
    /// The number of the kernel's own references; `None` if this kernel has no such field.
    references: Option<usize>,
    name: usize,
    flags: usize,
    /// The number of the value's type.
    value: u32,
    /// The members that are functions, with their offsets. The kernel shows a program's number in
    /// place of each.
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
            references: match offset(VALUE, "common") {
                Ok(common) => {
                    let inner = offset("bpf_struct_ops_common_value", "refcnt");
                    inner.ok().map(|inner| common + inner)
                }
                Err(_) => offset(VALUE, "refcnt").ok(),
            },
            name: data + offset("tcp_congestion_ops", "name")?,
            flags: data + offset("tcp_congestion_ops", "flags")?,
            value: btf.type_by_name::<Struct<'_>>(VALUE).map_or(0, |found| found.type_id().into()),
            functions: functions.collect(),
        })
    }

    fn algorithm(&self, map_id: u32, table: &Table) -> Registered {
        let value = &table.value;
        let programs =
            self.functions.iter().map(|(member, at)| (member.clone(), u32_at(value, *at)));
        Registered {
            name: self.name(value),
            algorithm: table.name.strip_prefix(OPS_PREFIX).unwrap_or(&table.name).to_owned(),
            needs_ecn: self.flags(value) & NEEDS_ECN != 0,
            map_id,
            programs: programs.filter(|(_, id)| *id != 0).collect(),
        }
    }

    fn state(&self, value: &[u8]) -> u32 {
        u32_at(value, self.state)
    }

    fn flags(&self, value: &[u8]) -> u32 {
        u32_at(value, self.flags)
    }

    fn name(&self, value: &[u8]) -> String {
        let field = value.get(self.name..).unwrap_or(&[]);
        let name: Vec<u8> = field.iter().copied().take(15).take_while(|byte| *byte != 0).collect();
        String::from_utf8_lossy(&name).into_owned()
    }
}

/// Reads a number; 0 beyond the end.
fn u32_at(value: &[u8], offset: usize) -> u32 {
    let bytes = value.get(offset..offset + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u32::from_ne_bytes)
}

fn lossy(name: Option<&std::ffi::OsStr>) -> String {
    name.map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}
