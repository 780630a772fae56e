//! A call of an operation as a value that can be stored and repeated.

use crate::{AckSample, Host, Instance, RateSample, TcpSock};

/// Names of the congestion states, in the kernel's order.
const CA_STATES: [&str; 5] = ["Open", "Disorder", "CWR", "Recovery", "Loss"];
/// Names of the events, in the kernel's order.
const CA_EVENTS: [&str; 6] =
    ["TX_START", "CWND_RESTART", "COMPLETE_CWR", "LOSS", "ECN_NO_CE", "ECN_IS_CE"];

/// An operation with the arguments of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Ssthresh,
    CongAvoid { ack: u32, acked: u32 },
    SetState { new_state: u8 },
    CwndEvent { event: u32 },
    InAckEvent { flags: u32 },
    PktsAcked { sample: AckSample },
    MinTsoSegs,
    CongControl { ack: u32, flag: i32, rs: RateSample },
    UndoCwnd,
    SndbufExpand,
    Init,
    Release,
}

impl Call {
    /// Returns the call of the operation with this name (see [`crate::OPERATIONS`]), with all
    /// arguments 0. `None` if there is no such operation. This is the only place that maps names to
    /// calls; readers of calls fill in the arguments.
    pub fn of(operation: &str) -> Option<Call> {
        Some(match operation {
            "ssthresh" => Call::Ssthresh,
            "cong_avoid" => Call::CongAvoid { ack: 0, acked: 0 },
            "set_state" => Call::SetState { new_state: 0 },
            "cwnd_event" => Call::CwndEvent { event: 0 },
            "in_ack_event" => Call::InAckEvent { flags: 0 },
            "pkts_acked" => Call::PktsAcked { sample: AckSample::default() },
            "min_tso_segs" => Call::MinTsoSegs,
            "cong_control" => Call::CongControl { ack: 0, flag: 0, rs: RateSample::default() },
            "undo_cwnd" => Call::UndoCwnd,
            "sndbuf_expand" => Call::SndbufExpand,
            "init" => Call::Init,
            "release" => Call::Release,
            _ => return None,
        })
    }

    /// Returns the operation's name, a member of `tcp_congestion_ops`.
    pub fn operation(&self) -> &'static str {
        self.constant()
    }

    /// Returns the operation's name as a constant with a fixed address.
    pub(crate) fn constant(&self) -> &'static &'static str {
        match self {
            Call::Ssthresh => &"ssthresh",
            Call::CongAvoid { .. } => &"cong_avoid",
            Call::SetState { .. } => &"set_state",
            Call::CwndEvent { .. } => &"cwnd_event",
            Call::InAckEvent { .. } => &"in_ack_event",
            Call::PktsAcked { .. } => &"pkts_acked",
            Call::MinTsoSegs => &"min_tso_segs",
            Call::CongControl { .. } => &"cong_control",
            Call::UndoCwnd => &"undo_cwnd",
            Call::SndbufExpand => &"sndbuf_expand",
            Call::Init => &"init",
            Call::Release => &"release",
        }
    }

    /// Returns the operation's name, with the event or state if it has one: `cwnd_event(LOSS)`.
    pub fn kind(&self) -> String {
        let named = |names: &[&str], index: usize| match names.get(index) {
            Some(name) => format!("{}({name})", self.operation()),
            None => format!("{}({index})", self.operation()),
        };
        match self {
            Call::SetState { new_state } => named(&CA_STATES, usize::from(*new_state)),
            Call::CwndEvent { event } => named(&CA_EVENTS, *event as usize),
            _ => self.operation().to_owned(),
        }
    }

    /// Returns whether the operation returns a number.
    pub fn returns(&self) -> bool {
        use Call::{MinTsoSegs, SndbufExpand, Ssthresh, UndoCwnd};
        matches!(self, Ssthresh | MinTsoSegs | UndoCwnd | SndbufExpand)
    }
}

impl Instance {
    /// Makes `call` and returns its result, or 0 if it has none. An operation that the algorithm
    /// lacks does nothing.
    pub fn call(&mut self, call: &Call, sock: &mut TcpSock, host: &mut Host) -> u32 {
        match *call {
            Call::Ssthresh => return self.ssthresh(sock, host),
            // `cong_avoid` is the only method that requires its operation to exist.
            Call::CongAvoid { .. } if self.algorithm().has_cong_control() => {}
            Call::CongAvoid { ack, acked } => self.cong_avoid(sock, host, ack, acked),
            Call::SetState { new_state } => self.set_state(sock, host, new_state),
            Call::CwndEvent { event } => self.cwnd_event(sock, host, event),
            Call::InAckEvent { flags } => self.in_ack_event(sock, host, flags),
            Call::PktsAcked { ref sample } => self.pkts_acked(sock, host, sample),
            Call::MinTsoSegs => return self.min_tso_segs(sock, host),
            Call::CongControl { ack, flag, ref rs } => {
                self.cong_control(sock, host, (ack, flag), rs);
            }
            Call::UndoCwnd => return self.undo_cwnd(sock, host),
            Call::SndbufExpand => return self.sndbuf_expand(sock, host),
            Call::Init => self.init(sock, host),
            Call::Release => self.release(sock, host),
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_its_call() {
        for name in crate::OPERATIONS {
            assert_eq!(Call::of(name).map(|call| call.operation()), Some(name));
        }
        assert_eq!(Call::of("get_info"), None);
        assert_eq!(Call::of(""), None);
    }
}
