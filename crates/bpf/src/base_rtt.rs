//! The one map of base RTTs that policies write and algorithms read.

use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;

use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{MapHandle, MapType, OpenObject};

use crate::Error;

/// Its name in the objects and in the kernel (base_rtt.h).
const NAME: &str = "cc_base_rtt";
const VALUE_BYTES: u32 = 4;

/// Gives an object that declares the map the one that is in the kernel already, if there is one.
/// So it does not matter whether a policy or the algorithm is loaded first, nor whether either is
/// pinned; the map goes with its last user. Two loads at the same instant could each make their own:
/// whoever loads for the whole host holds knee's lock meanwhile.
pub(crate) fn share(open: &mut OpenObject) -> Result<(), Error> {
    let inspect = |source| Error::Inspect { what: "the map of base RTTs", source };
    let Some(mut ours) = open.maps_mut().find(|map| map.name() == NAME) else { return Ok(()) };
    let there = MapInfoIter::default()
        .filter(|map| map.ty == MapType::SkStorage && map.name.as_bytes() == NAME.as_bytes())
        .filter(|map| map.value_size == VALUE_BYTES)
        // One that goes away at this moment has no user left.
        .find_map(|map| MapHandle::from_map_id(map.id).ok());
    there.map_or(Ok(()), |map| ours.reuse_fd(map.as_fd()).map_err(inspect))
}
