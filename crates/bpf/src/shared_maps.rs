//! Maps that objects of different commands have in common: base RTTs, which policies write and
//! algorithms read, and counts of relabels, which algorithms write and the program at the device reads.

use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;

use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{MapHandle, MapType, OpenObject};

use crate::Error;

/// Their names in the objects and in the kernel (base_rtt.h, label.h).
const NAMES: [&str; 2] = ["cc_base_rtt", "cc_label"];
const VALUE_BYTES: u32 = 4;

/// Gives an object that declares such a map the one that is in the kernel already, if there is one.
/// So it does not matter which of its users is loaded first, nor whether any is pinned; the map goes
/// with its last user. Two loads at the same instant could each make their own: whoever loads for the
/// whole host holds knee's lock meanwhile.
pub(crate) fn share(open: &mut OpenObject) -> Result<(), Error> {
    let inspect = |source| Error::Inspect { what: "the maps that programs share", source };
    for mut ours in open.maps_mut().filter(|map| NAMES.iter().any(|name| map.name() == *name)) {
        let name = ours.name().as_bytes().to_owned();
        let there = MapInfoIter::default()
            .filter(|map| map.ty == MapType::SkStorage && map.name.as_bytes() == name)
            .filter(|map| map.value_size == VALUE_BYTES)
            // One that goes away at this moment has no user left.
            .find_map(|map| MapHandle::from_map_id(map.id).ok());
        if let Some(map) = there {
            ours.reuse_fd(map.as_fd()).map_err(inspect)?;
        }
    }
    Ok(())
}
