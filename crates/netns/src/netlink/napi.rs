//! NAPI: the kernel threads that do the receiving work of devices.

use std::io;

use super::features::GENLMSGHDR_BYTES;
use super::{Answer, Attributes, Message, NLM_F_DUMP, features, word};

// From the kernel's user API: netdev.h.
const NETDEV_CMD_NAPI_GET: u8 = 11;
const NETDEV_A_NAPI_IFINDEX: u16 = 1;
const NETDEV_A_NAPI_PID: u16 = 4;

/// The kernel's threads that do the receiving work of a device of the calling thread's namespace, where it has such: those whose
/// `threaded` is set.
///
/// # Errors
/// What the kernel answers: "not found" by one before 6.8, which does not tell.
pub fn receive_threads(index: u32) -> io::Result<Vec<u32>> {
    let (netlink, family) = features::open_family("netdev")?;
    let of = Attributes::default().with_u32(NETDEV_A_NAPI_IFINDEX, index);
    let message = Message::new(family, NLM_F_DUMP, &[NETDEV_CMD_NAPI_GET, 1, 0, 0], &of);
    let thread = |answer: &Answer| {
        let mut found = answer.attributes(GENLMSGHDR_BYTES);
        found.find_map(|(kind, value)| (kind == NETDEV_A_NAPI_PID).then(|| word(value, 0))?)
    };
    Ok(netlink.list(&message)?.iter().filter_map(thread).collect())
}
