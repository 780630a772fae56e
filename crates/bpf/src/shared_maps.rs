//! Maps that the objects of several commands share. Policies write base RTTs and algorithms read
//! them. Algorithms count relabels, and the program at a device reads the counts.

use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;

use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{MapCore as _, MapHandle, MapType, Object, OpenObject};

use crate::Error;

/// The map of base RTTs (base_rtt.h).
pub(crate) const BASE_RTT: &str = "cc_base_rtt";
/// The names of the shared maps in the objects and in the kernel (base_rtt.h, label.h).
const NAMES: [&str; 2] = [BASE_RTT, "cc_label"];
const VALUE_BYTES: u32 = 4;
/// The number of simultaneous loads that may each come between the lookup and the load of another.
const TRIES: usize = 8;

fn is_shared(name: &[u8]) -> bool {
    NAMES.iter().any(|shared| shared.as_bytes() == name)
}

/// The maps of this name in the kernel, the oldest first.
fn there(name: &[u8]) -> impl Iterator<Item = u32> {
    MapInfoIter::default()
        .filter(move |map| map.ty == MapType::SkStorage && map.name.as_bytes() == name)
        .filter(|map| map.value_size == VALUE_BYTES)
        .map(|map| map.id)
}

/// Loads what `open` opens, with the shared maps that are already in the kernel in place of those
/// that it declares. So users of a map can load in any order, pinned or not, and the map lives
/// until its last user ends.
///
/// Two simultaneous loads may each find no map and make their own. The one with the younger map
/// then sees the older one, and loads again.
pub(crate) fn load(
    mut open: impl FnMut() -> Result<OpenObject, Error>,
    mut load: impl FnMut(OpenObject) -> Result<Object, Error>,
) -> Result<Object, Error> {
    let mut tries = 0;
    loop {
        let mut opened = open()?;
        share(&mut opened)?;
        let object = load(opened)?;
        tries += 1;
        if tries == TRIES || has_oldest(&object)? {
            return Ok(object);
        }
    }
}

fn share(open: &mut OpenObject) -> Result<(), Error> {
    let inspect = |source| Error::Inspect { what: "the maps that programs share", source };
    for mut ours in open.maps_mut().filter(|map| is_shared(map.name().as_bytes())) {
        let name = ours.name().as_bytes().to_owned();
        // A map that disappears at this moment has no user left.
        let oldest = there(&name).find_map(|id| MapHandle::from_map_id(id).ok());
        if let Some(map) = oldest {
            ours.reuse_fd(map.as_fd()).map_err(inspect)?;
        }
    }
    Ok(())
}

fn has_oldest(object: &Object) -> Result<bool, Error> {
    let inspect = |source| Error::Inspect { what: "the maps that programs share", source };
    for ours in object.maps().filter(|map| is_shared(map.name().as_bytes())) {
        let id = ours.info().map_err(inspect)?.info.id;
        let name = ours.name().as_bytes().to_owned();
        if there(&name).next().is_some_and(|oldest| oldest != id) {
            return Ok(false);
        }
    }
    Ok(true)
}
