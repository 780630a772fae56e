//! The table of operations of an object that is open and not loaded yet. This module sets its name,
//! assigns programs to operations, and replaces those that this kernel calls in another way.

use knee_algo::OPERATIONS;
use libbpf_rs::{AsRawLibbpf as _, MapType, OpenMapMut, OpenObject};

use crate::{Embedded, Error, KernelApi};

const POINTER_BYTES: usize = size_of::<u64>();
/// The offset of the name: behind the operations.
pub(crate) const NAME_OFFSET: usize = OPERATIONS.len() * POINTER_BYTES;
/// Bytes of that name, including the final zero.
pub(crate) const NAME_BYTES: usize = 16;
/// The offset of the operation that the algorithm does not fill in: behind the name and the flags,
/// with padding.
const TX_START_OFFSET: usize = NAME_OFFSET + NAME_BYTES + POINTER_BYTES;

/// Bytes of the table of bpf.h.
pub(crate) const TABLE_BYTES: usize = TX_START_OFFSET + POINTER_BYTES;

/// The programs of bpf.h for kernels with other operations.
const TX_START_PROGRAM: &str = "cc_tx_start_prog";
const RS_ONLY_PROGRAM: &str = "cc_rs_only_prog";
/// The program that marks a connection and then calls `init`, and its map.
const NOTE_INIT_PROGRAM: &str = "cc_note_init_prog";
pub(crate) const INIT_CALLED_MAP: &str = "cc_init_called";
/// The kernel's flag of an algorithm that every user may choose (TCP_CONG_NON_RESTRICTED).
const NON_RESTRICTED: u32 = 1;
/// The kernel's flag of a struct_ops map that a link registers.
const BPF_F_LINK: u32 = 1 << 13;

/// A program, and the member of `tcp_congestion_ops` that the algorithm file assigned it to.
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

/// Whether `operation` is one of them.
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

/// Sets the name by which sockets choose the algorithm.
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

/// Lets every user of the host choose the algorithm, as Linux does with its own flag.
pub(crate) fn allow_any_user(open: &mut OpenObject) -> Result<(), Error> {
    let no_place = || Error::BadObject { what: "there is no place for the flags".to_owned() };
    let at = NAME_OFFSET + NAME_BYTES;
    let mut ops = table_of(open).ok_or_else(no_place)?;
    let flags = ops.initial_value_mut().and_then(|table| table.get_mut(at..at + size_of::<u32>()));
    let flags = flags.ok_or_else(no_place)?;
    let before = u32::from_ne_bytes(flags.try_into().expect("the slice has four bytes"));
    flags.copy_from_slice(&(before | NON_RESTRICTED).to_ne_bytes());
    Ok(())
}

/// Replaces operations by the programs that the kernel with this `api` calls instead. It requests a
/// link only where the kernel has links.
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

/// Makes `init` mark each connection if `is_noted` is set. Without marks it leaves out their map.
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

/// Puts a program into the table at `offset`. libbpf takes the program's address there as this
/// program, and loads it. It no longer loads the program that was there before.
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
