//! The table of operations of an object that is open and not loaded yet: its name, which program is
//! which operation, and what takes their place in this kernel.

use knee_algo::OPERATIONS;
use libbpf_rs::{AsRawLibbpf as _, MapType, OpenMapMut, OpenObject};

use crate::{Embedded, Error, KernelApi};

const POINTER_BYTES: usize = size_of::<u64>();
/// Where the name lies: behind the operations.
pub(crate) const NAME_OFFSET: usize = OPERATIONS.len() * POINTER_BYTES;
/// Bytes of that name, the last of them 0.
pub(crate) const NAME_BYTES: usize = 16;
/// Where the operation lies that the algorithm does not fill in: behind the name and the flags, with
/// what aligns it.
const TX_START_OFFSET: usize = NAME_OFFSET + NAME_BYTES + POINTER_BYTES;

/// Bytes of the table of bpf.h.
pub(crate) const TABLE_BYTES: usize = TX_START_OFFSET + POINTER_BYTES;

/// The programs of bpf.h for kernels whose operations are others.
const TX_START_PROGRAM: &str = "cc_tx_start_prog";
const RS_ONLY_PROGRAM: &str = "cc_rs_only_prog";
/// That which marks a connection and hands on to `init`, and its map.
const NOTE_INIT_PROGRAM: &str = "cc_note_init_prog";
pub(crate) const INIT_CALLED_MAP: &str = "cc_init_called";
/// The kernel's flag of a struct_ops map that is registered by a link.
const BPF_F_LINK: u32 = 1 << 13;

/// A program, and the member of `tcp_congestion_ops` that an algorithm file made it.
pub(crate) type Operation = (String, &'static str);

/// The operations that the algorithm has.
pub(crate) fn operations(open: &OpenObject) -> Vec<Operation> {
    let ops = open.maps().find(|map| map.map_type() == MapType::StructOps);
    let table = ops.as_ref().and_then(|map| map.initial_value()).unwrap_or(&[]);
    let operation = |(slot, name): (&[u8], &&'static str)| {
        let pointer = u64::from_ne_bytes(slot.try_into().ok()?);
        let program = open.progs().find(|one| one.as_libbpf_object().as_ptr() as u64 == pointer)?;
        Some((program.name().to_string_lossy().into_owned(), *name))
    };
    table.chunks_exact(POINTER_BYTES).zip(&OPERATIONS).filter_map(operation).collect()
}

/// Whether this is one of them.
pub(crate) fn has(operations: &[Operation], operation: &str) -> bool {
    operations.iter().any(|(_, name)| *name == operation)
}

/// The algorithm's flags.
pub(crate) fn flags(open: &OpenObject) -> Option<u32> {
    let ops = open.maps().find(|map| map.map_type() == MapType::StructOps)?;
    let at = NAME_OFFSET + NAME_BYTES;
    let flags = ops.initial_value()?.get(at..at + size_of::<u32>())?;
    Some(u32::from_ne_bytes(flags.try_into().ok()?))
}

/// Sets the name that sockets will choose it by.
pub(crate) fn set_name(
    open: &mut OpenObject,
    embedded: &Embedded,
    name: &str,
) -> Result<(), Error> {
    let not_ours =
        || Error::BadObject { what: format!("{} has no table of operations", embedded.name()) };
    let mut ops = table_of(open).ok_or_else(not_ours)?;
    let field = ops
        .initial_value_mut()
        .and_then(|table| table.get_mut(NAME_OFFSET..NAME_OFFSET + NAME_BYTES))
        .filter(|field| field.starts_with(embedded.name().as_bytes()))
        .ok_or_else(not_ours)?;
    field.fill(0);
    field[..name.len()].copy_from_slice(name.as_bytes());
    Ok(())
}

/// Puts in what the kernel with this `api` calls in place of some operations, and asks for a link
/// only where there are links.
pub(crate) fn fit(
    open: &mut OpenObject,
    operations: &[Operation],
    api: &KernelApi,
) -> Result<(), Error> {
    if has(operations, "cwnd_event") && api.tx_start {
        put(open, TX_START_PROGRAM, TX_START_OFFSET)?;
    }
    if has(operations, "cong_control") && api.cong_control_args == 2 {
        let place = OPERATIONS.iter().position(|name| *name == "cong_control");
        put(open, RS_ONLY_PROGRAM, place.expect("it is one of them") * POINTER_BYTES)?;
    }
    if !api.links {
        let mut ops = table_of(open).expect("set_name found it");
        let flags = ops.map_flags() & !BPF_F_LINK;
        ops.set_map_flags(flags)
            .map_err(|source| Error::Inspect { what: "the table of operations", source })?;
    }
    Ok(())
}

/// Has `init` mark each connection, if that is to be noted. Without marks there is no map for them.
pub(crate) fn note_init(
    open: &mut OpenObject,
    operations: &[Operation],
    is_noted: bool,
) -> Result<(), Error> {
    if is_noted && has(operations, "init") {
        let place = OPERATIONS.iter().position(|name| *name == "init");
        return put(open, NOTE_INIT_PROGRAM, place.expect("it is one of them") * POINTER_BYTES);
    }
    let marks = open.maps_mut().find(|map| map.name() == INIT_CALLED_MAP);
    marks
        .map_or(Ok(()), |mut map| map.set_autocreate(false))
        .map_err(|source| Error::Inspect { what: "the map of marks", source })
}

/// libbpf takes a program's address in the table as this program, which it then loads; the one that
/// was there before it does not.
fn put(open: &mut OpenObject, program: &str, offset: usize) -> Result<(), Error> {
    let found = open.progs().find(|one| one.name() == program);
    let pointer = found.map(|one| one.as_libbpf_object().as_ptr() as u64);
    let mut ops = table_of(open);
    let table = ops.as_mut().and_then(|map| map.initial_value_mut());
    let slot = table.and_then(|table| table.get_mut(offset..offset + POINTER_BYTES));
    let (Some(pointer), Some(slot)) = (pointer, slot) else {
        return Err(Error::BadObject { what: format!("no program {program}, or no place for it") });
    };
    slot.copy_from_slice(&pointer.to_ne_bytes());
    Ok(())
}

fn table_of(open: &mut OpenObject) -> Option<OpenMapMut<'_>> {
    open.maps_mut().find(|map| map.map_type() == MapType::StructOps)
}
