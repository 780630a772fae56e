//! A packet for the unit tests.

use crate::packet::{Ecn, Packet};

/// A packet that can be told from the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pkt {
    pub(crate) id: u64,
    pub(crate) len_bytes: u32,
    pub(crate) ecn: Ecn,
    pub(crate) flow: u32,
    pub(crate) dscp: u8,
    pub(crate) is_pure_ack: bool,
    pub(crate) input: Option<u32>,
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
    fn dscp(&self) -> u8 {
        self.dscp
    }
    fn is_pure_ack(&self) -> bool {
        self.is_pure_ack
    }
    fn input(&self) -> Option<u32> {
        self.input
    }
}

/// A full packet: MTU 1500 and Ethernet header.
pub(crate) fn full(id: u64, ecn: Ecn) -> Pkt {
    Pkt { id, len_bytes: 1514, ecn, flow: 0, dscp: 0, is_pure_ack: false, input: None }
}

/// A packet of a flow that is not ECN-capable.
pub(crate) fn of_flow(flow: u32, id: u64, len_bytes: u32) -> Pkt {
    Pkt { flow, len_bytes, ..full(id, Ecn::NotEct) }
}
