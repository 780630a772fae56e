//! Features of devices (ethtool's), by the kernel's names.

use std::io;

use rustix::net::netlink::GENERIC;

use super::{Attributes, Message, Netlink, attributes, half};

// From the kernel's user API: genetlink.h and ethtool_netlink.h.
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const ETHTOOL_MSG_FEATURES_GET: u8 = 11;
const ETHTOOL_MSG_FEATURES_SET: u8 = 12;
const ETHTOOL_A_FEATURES_HEADER: u16 = 1;
const ETHTOOL_A_FEATURES_WANTED: u16 = 3;
const ETHTOOL_A_FEATURES_ACTIVE: u16 = 4;
const ETHTOOL_A_HEADER_DEV_INDEX: u16 = 1;
const ETHTOOL_A_HEADER_FLAGS: u16 = 3;
const ETHTOOL_FLAG_OMIT_REPLY: u32 = 2;
const ETHTOOL_A_BITSET_BITS: u16 = 3;
const ETHTOOL_A_BITSET_BITS_BIT: u16 = 1;
const ETHTOOL_A_BITSET_BIT_NAME: u16 = 2;
const ETHTOOL_A_BITSET_BIT_VALUE: u16 = 3;
/// `struct genlmsghdr`: command, version, reserved.
pub(super) const GENLMSGHDR_BYTES: usize = 4;

/// A socket to a part of the kernel that is known by name, and the number that it has.
pub(super) fn open_family(name: &str) -> io::Result<(Netlink, u16)> {
    let netlink = Netlink::of(Some(GENERIC))?;
    let name = Attributes::default().with_name(CTRL_ATTR_FAMILY_NAME, name);
    let message = Message::new(GENL_ID_CTRL, 0, &[CTRL_CMD_GETFAMILY, 1, 0, 0], &name);
    let answer = netlink.get(&message)?;
    let family = answer
        .attributes(GENLMSGHDR_BYTES)
        .find_map(|(kind, value)| (kind == CTRL_ATTR_FAMILY_ID).then(|| half(value, 0))?);
    Ok((netlink, family.ok_or(io::ErrorKind::InvalidData)?))
}

/// A socket to the part of the kernel that knows features of devices, in the namespace in which it was opened.
#[derive(Debug)]
pub struct Features {
    netlink: Netlink,
    family: u16,
}

impl Features {
    /// Opens one in the namespace of the calling thread.
    ///
    /// # Errors
    /// What the kernel answers: "not found" by one without CONFIG_ETHTOOL_NETLINK (5.6).
    pub fn open() -> io::Result<Features> {
        let (netlink, family) = open_family("ethtool")?;
        Ok(Features { netlink, family })
    }

    fn message(&self, command: u8, index: u32, flags: u32, what: &Attributes) -> Message {
        let header = Attributes::default()
            .with_u32(ETHTOOL_A_HEADER_DEV_INDEX, index)
            .with_u32(ETHTOOL_A_HEADER_FLAGS, flags);
        let attributes = Attributes::default().with_nested(ETHTOOL_A_FEATURES_HEADER, &header);
        Message::new(self.family, 0, &[command, 1, 0, 0], &attributes.with_all(what))
    }

    /// Switches features of a device on or off. What others ask for may keep one on or off: see [`Features::active`].
    ///
    /// # Errors
    /// What the kernel answers: it does not know all of these names.
    pub fn set(&self, index: u32, wanted: &[(&str, bool)]) -> io::Result<()> {
        let bits = wanted.iter().fold(Attributes::default(), |bits, (name, on)| {
            let mut bit = Attributes::default().with_name(ETHTOOL_A_BITSET_BIT_NAME, name);
            if *on {
                bit = bit.with(ETHTOOL_A_BITSET_BIT_VALUE, &[]);
            }
            bits.with_nested(ETHTOOL_A_BITSET_BITS_BIT, &bit)
        });
        let set = Attributes::default().with_nested(ETHTOOL_A_BITSET_BITS, &bits);
        let wanted = Attributes::default().with_nested(ETHTOOL_A_FEATURES_WANTED, &set);
        let omit = ETHTOOL_FLAG_OMIT_REPLY;
        self.netlink.ask(&self.message(ETHTOOL_MSG_FEATURES_SET, index, omit, &wanted))
    }

    /// The features of a device that are on.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn active(&self, index: u32) -> io::Result<Vec<String>> {
        let answer = self.netlink.get(&self.message(
            ETHTOOL_MSG_FEATURES_GET,
            index,
            0,
            &Attributes::default(),
        ))?;
        let inside = |outer: Option<&[u8]>, wanted: u16| {
            let mut found = attributes(outer?);
            // Only what is on is listed.
            found.find_map(|(kind, value)| (kind == wanted).then(|| value.to_vec()))
        };
        let active = inside(answer.body.get(GENLMSGHDR_BYTES..), ETHTOOL_A_FEATURES_ACTIVE);
        let bits = inside(active.as_deref(), ETHTOOL_A_BITSET_BITS).unwrap_or_default();
        let name = |(_, bit)| {
            let (_, name) = attributes(bit).find(|(kind, _)| *kind == ETHTOOL_A_BITSET_BIT_NAME)?;
            Some(String::from_utf8_lossy(name).trim_end_matches('\0').to_owned())
        };
        Ok(attributes(&bits).filter_map(name).collect())
    }
}
