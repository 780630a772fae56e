//! A packet for the unit tests.

use crate::packet::{Ecn, Packet};

/// A packet that can be told from the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pkt {
    pub(crate) id: u64,
    pub(crate) len_bytes: u32,
    pub(crate) ecn: Ecn,
    pub(crate) flow: u32,
}

impl Packet for Pkt {
    fn len_bytes(&self) -> u32 {
        self.len_bytes
    }
    fn ecn(&self) -> Ecn {
        self.ecn
    }
    fn set_ce(&mut self) {
        self.ecn = Ecn::Ce;
    }
    fn flow_hash(&self) -> u32 {
        self.flow
    }
}

/// A full packet: MTU 1500 and Ethernet header.
pub(crate) fn full(id: u64, ecn: Ecn) -> Pkt {
    Pkt { id, len_bytes: 1514, ecn, flow: 0 }
}

/// A packet of a flow that is not ECN-capable.
pub(crate) fn of_flow(flow: u32, id: u64, len_bytes: u32) -> Pkt {
    Pkt { id, len_bytes, ecn: Ecn::NotEct, flow }
}
