//! Links, maps and programs by the kernel's numbers.
//!
//! Other processes load and unload meanwhile, so an object may be gone when its number is looked
//! up. That is no error and must not end a walk through the rest. The iterators of libbpf-rs end at
//! the first entry that is incomplete or unreadable.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use libbpf_rs::{ErrorKind, MapHandle};

/// The numbers of all objects of one kind, from the lowest.
struct Ids {
    next: unsafe extern "C" fn(u32, *mut u32) -> c_int,
    last: u32,
}

impl Iterator for Ids {
    type Item = libbpf_rs::Result<u32>;

    fn next(&mut self) -> Option<libbpf_rs::Result<u32>> {
        // SAFETY: the call writes that one number.
        let result = unsafe { (self.next)(self.last, &raw mut self.last) };
        match -result {
            0 => Some(Ok(self.last)),
            libc::ENOENT => None,
            error => Some(Err(libbpf_rs::Error::from_raw_os_error(error))),
        }
    }
}

/// Opens the object of this number; `None` if it is gone, or is a link that is still being made.
fn open(by_id: unsafe extern "C" fn(u32) -> c_int, id: u32) -> libbpf_rs::Result<Option<OwnedFd>> {
    // SAFETY: the call takes any number.
    let result = unsafe { by_id(id) };
    match -result {
        libc::ENOENT | libc::EAGAIN => Ok(None),
        error if error > 0 => Err(libbpf_rs::Error::from_raw_os_error(error)),
        // SAFETY: the descriptor was just opened, and nobody else owns it.
        _ => Ok(Some(unsafe { OwnedFd::from_raw_fd(result) })),
    }
}

/// Fills `info` with the kernel's information about `object`.
///
/// # Safety
/// `Info` must be the kernel's struct for that kind of object, and any bits must be a valid value
/// of it. Its pointers must be to as much memory as it states.
unsafe fn read_info<Info>(object: &OwnedFd, info: &mut Info) -> libbpf_rs::Result<()> {
    let mut len = size_of::<Info>() as u32;
    let info = std::ptr::from_mut(info).cast();
    // SAFETY: the caller guarantees it; the call writes `len` bytes at most.
    match unsafe { libbpf_sys::bpf_obj_get_info_by_fd(object.as_raw_fd(), info, &raw mut len) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(-error).into()),
    }
}

/// Opens the map of this number; `None` if it is gone.
pub(super) fn map(id: u32) -> libbpf_rs::Result<Option<MapHandle>> {
    match MapHandle::from_map_id(id) {
        Ok(map) => Ok(Some(map)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// All maps in the kernel, with their numbers.
pub(super) fn maps() -> impl Iterator<Item = libbpf_rs::Result<(u32, MapHandle)>> {
    let ids = Ids { next: libbpf_sys::bpf_map_get_next_id, last: 0 };
    let open = |id| Ok::<_, libbpf_rs::Error>(map(id)?.map(|map| (id, map)));
    ids.filter_map(move |id| id.and_then(open).transpose())
}

/// The maps of operations that links register, with their numbers.
pub(super) fn linked_maps() -> libbpf_rs::Result<Vec<(u32, MapHandle)>> {
    let mut maps = Vec::new();
    for id in (Ids { next: libbpf_sys::bpf_link_get_next_id, last: 0 }) {
        if let Some(link) = open(libbpf_sys::bpf_link_get_fd_by_id, id?)? {
            maps.extend(map_of(&link)?);
        }
    }
    Ok(maps)
}

/// The map of operations that this link registers at present; `None` if there is none.
fn map_of(link: &OwnedFd) -> libbpf_rs::Result<Option<(u32, MapHandle)>> {
    let mut last = 0;
    loop {
        let mut info = libbpf_sys::bpf_link_info::default();
        // SAFETY: `link` is a link, and its struct has no pointers set.
        unsafe { read_info(link, &mut info)? };
        if info.type_ != libbpf_sys::BPF_LINK_TYPE_STRUCT_OPS {
            return Ok(None);
        }
        // SAFETY: the link's type selects this field.
        let id = unsafe { info.__bindgen_anon_1.struct_ops.map_id };
        // A detached link has no map.
        let found = if id == 0 { None } else { map(id)? };
        // If the map is gone, an update has put another one in its place.
        if found.is_some() || id == last {
            return Ok(found.map(|map| (id, map)));
        }
        last = id;
    }
}

/// A program. While this value lives, so do the program's maps.
pub(crate) struct Program {
    /// The numbers of the maps that it uses.
    pub(crate) maps: Vec<u32>,
    /// The number of its entry point's type in its BTF.
    pub(crate) entry_type: Option<u32>,
    _open: OwnedFd,
}

impl Program {
    /// Opens the program of this number; `None` if it is gone.
    pub(crate) fn open(id: u32) -> libbpf_rs::Result<Option<Program>> {
        let Some(open) = open(libbpf_sys::bpf_prog_get_fd_by_id, id)? else { return Ok(None) };
        let mut counts = libbpf_sys::bpf_prog_info::default();
        // SAFETY: `open` is a program, and the struct has no pointers set.
        unsafe { read_info(&open, &mut counts)? };
        let mut maps = vec![0; counts.nr_map_ids as usize];
        let mut entry = libbpf_sys::bpf_func_info::default();
        let mut info = libbpf_sys::bpf_prog_info {
            map_ids: maps.as_mut_ptr() as u64,
            nr_map_ids: counts.nr_map_ids,
            ..Default::default()
        };
        let has_types =
            counts.nr_func_info > 0 && counts.func_info_rec_size as usize == size_of_val(&entry);
        if has_types {
            info.func_info = &raw mut entry as u64;
            info.nr_func_info = 1;
            info.func_info_rec_size = counts.func_info_rec_size;
        }
        // SAFETY: as above; the pointers are to that many numbers and to one record of the stated
        // size.
        unsafe { read_info(&open, &mut info)? };
        Ok(Some(Program { maps, entry_type: has_types.then_some(entry.type_id), _open: open }))
    }
}
