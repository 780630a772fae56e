//! `kind = "ping"`: small packets back and forth.

use knee_file::keys::{Choice, Key};
use knee_file::units::Size;
use knee_file::{Error, Reader, keys};
use knee_queue::time::Duration;
use knee_queue::{ETHERNET_BYTES, Ecn};

use super::{COMMON, EntryKind};
use crate::network::NetworkSpec;

/// Bytes of Ethernet, IPv4 and UDP headers around a ping's payload. IPv6's header is longer.
const PING_HEADER_BYTES: u64 = ETHERNET_BYTES as u64 + 20 + 8;
const IPV6_EXTRA_BYTES: u64 = 20;

keys! {
    /// Small packets back and forth.
    pub(super) static KEYS: PingKeys = "ping" {
        /// Time between pings.
        interval: Key<Duration> = needed("1 ms").at_least("1 us"),
        /// Payload.
        size: Key<Size> = or(Size(64)).at_most("1400 B").like("64 B"),
        /// ECN field.
        ecn: Choice<Ecn> = of(ECN).or("not-ect"),
    }
}

const ECN: &[(&str, Ecn)] = &[("not-ect", Ecn::NotEct), ("ect0", Ecn::Ect0), ("ect1", Ecn::Ect1)];

/// Reads the keys of pings.
pub(super) fn read(reader: &Reader<'_>, network: &NetworkSpec) -> Result<EntryKind, Error> {
    let interval = reader.read(&KEYS.interval)?;
    let size = reader.read(&KEYS.size)?.0;
    let headers = PING_HEADER_BYTES + if network.ipv6() { IPV6_EXTRA_BYTES } else { 0 };
    Ok(EntryKind::Ping {
        interval,
        wire_bytes: (size + headers) as u32,
        ecn: reader.choose(&KEYS.ecn)?,
        dscp: reader.read(&COMMON.dscp)? as u8,
    })
}
