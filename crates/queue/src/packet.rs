//! A packet as queues see it.

/// Ethernet's header, which queues, shapers and links count with a packet. What else goes around a frame on the wire (preamble, FCS and
/// gap) takes no room in a queue, and only on links that say so any time.
pub const ETHERNET_BYTES: u32 = 14;

/// The ECN field: the two low bits of the IP TOS or traffic-class byte (RFC 3168, section 5).
#[repr(u8)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// The sender does not understand ECN: the packet must not be marked.
    #[default]
    NotEct = 0,
    /// ECN-capable, code point 01 (L4S senders, RFC 9331).
    Ect1 = 1,
    /// ECN-capable, code point 10 (all others).
    Ect0 = 2,
    /// Congestion experienced (RFC 3168 5).
    Ce = 3,
}

impl Ecn {
    /// From a TOS or traffic-class byte, whose upper six bits (the DSCP) are ignored.
    pub const fn from_tos(tos: u8) -> Ecn {
        match tos & 3 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }

    /// Whether the packet may be marked: true for ECT(0), ECT(1) and a packet that is CE already.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Ecn::NotEct)
    }
}

/// A packet as a queue sees it; a simulated packet and a real frame both fit.
pub trait Packet {
    /// Length in bytes, as limits, thresholds and rates count it. The reference runs count 1514 for a full
    /// packet: MTU and Ethernet header, no preamble or frame check.
    fn len_bytes(&self) -> u32;

    /// The ECN field.
    fn ecn(&self) -> Ecn;

    /// Makes the ECN field CE. A queue calls this only when [`Ecn::is_capable`].
    fn set_ce(&mut self);

    /// A number that is the same for all packets of a flow and as a rule differs between flows, for disciplines that
    /// have a queue per flow.
    fn flow_hash(&self) -> u32 {
        0
    }
    /// The DSCP: the six high bits of the IP TOS or traffic-class byte. Only classes ask for it.
    fn dscp(&self) -> u8 {
        0
    }

    /// Whether it is TCP without data, SYN, FIN or RST: nothing but an acknowledgement. Only classes ask for it.
    fn is_pure_ack(&self) -> bool {
        false
    }

    /// Cuts the payload off; false: there is none. Only queues that trim ask for it.
    fn trim(&mut self) -> bool {
        false
    }

    /// Whether its payload was cut off, here or before.
    fn is_trimmed(&self) -> bool {
        false
    }

    /// Number of the switch's input that the packet came by, as the caller counts inputs; `None`: the packet begins here. Only
    /// ports with two buffers use it.
    fn input(&self) -> Option<u32> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dscp_1_with_ect0_is_tos_6() {
        assert_eq!(Ecn::from_tos(0x06), Ecn::Ect0);
        assert_eq!(Ecn::from_tos(0x04), Ecn::NotEct);
    }

    #[test]
    fn only_not_ect_cannot_be_marked() {
        assert!(!Ecn::NotEct.is_capable());
        assert!([Ecn::Ect0, Ecn::Ect1, Ecn::Ce].iter().all(|ecn| ecn.is_capable()));
    }
}
