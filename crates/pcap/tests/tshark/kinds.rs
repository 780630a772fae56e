//! What knee and tshark disagree about, by name.

/// Who is right, by the record of the simulated hosts or by the definition that both follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    Knee,
    Tshark,
    /// One says less than the other, or something else that is also true.
    Both,
    Neither,
}

impl Right {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Right::Knee => "knee",
            Right::Tshark => "tshark",
            Right::Both => "both",
            Right::Neither => "neither",
        }
    }
}

macro_rules! kinds {
    ($($variant:ident $name:literal $right:ident $knee:literal $tshark:literal,)+) => {
        /// A kind of disagreement.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Kind {
            $($variant,)+
        }

        impl Kind {
            pub(crate) const ALL: &'static [Kind] = &[$(Kind::$variant,)+];

            /// As `docs/pcap-tshark.md` has it.
            pub(crate) fn name(self) -> &'static str {
                match self { $(Kind::$variant => $name,)+ }
            }

            pub(crate) fn right(self) -> Right {
                match self { $(Kind::$variant => Right::$right,)+ }
            }

            /// What each of them says.
            pub(crate) fn said(self) -> (&'static str, &'static str) {
                match self { $(Kind::$variant => ($knee, $tshark),)+ }
            }
        }
    };
}

kinds! {
    FastAsOutOfOrder "fast-as-out-of-order" Knee "fast" "out of order",
    FastAsPlain "fast-as-plain" Knee "fast" "retransmission",
    ProbeUnnamed "probe-unnamed" Both "probe" "retransmission",
    TimeoutUnnamed "timeout-unnamed" Both "timeout, or behind one" "retransmission",
    BehindAsFast "behind-as-fast" Knee "behind a timeout" "fast retransmission",
    BehindAsTimeout "behind-as-timeout" Tshark "timeout" "retransmission",
    BehindAsSentFast "behind-as-sent-fast" Tshark "fast" "retransmission",
    BehindAsOutOfOrder "behind-as-out-of-order" Knee "behind a timeout" "out of order",
    BehindAsNeither "behind-as-neither" Neither "fast" "fast retransmission, or out of order",
    LateAsNeither "late-as-neither" Neither "fast" "fast retransmission",
    LateAsRetransmission "late-as-retransmission" Knee "late" "fast retransmission, or retransmission",
    LateBeyondTheRtt "late-beyond-the-rtt" Tshark "fast" "out of order",
    ToldByABareAck "told-by-a-bare-ack" Tshark "new" "retransmission",
    NeedlessToldLater "needless-told-later" Knee "not needed" "retransmission",
    GapWasReordering "gap-was-reordering" Knee "late" "previous segment not captured",
    GapWasLoss "gap-was-loss" Both "lost before the point" "previous segment not captured",
    GapNotFilled "gap-not-filled" Both "nothing yet" "previous segment not captured",
    GapWasAcked "gap-was-acked" Both "not captured, by its ACK before" "previous segment not captured",
    AckOfSeenAsUnseen "ack-of-seen-as-unseen" Knee "nothing" "ACKed segment not captured",
    SackAsWindowUpdate "sack-as-window-update" Knee "duplicate ACK" "window update",
    DuplicateUnseen "duplicate-unseen" Tshark "nothing" "duplicate ACK",
    RttOfRepeated "rtt-of-repeated" Knee "no RTT" "time since the first copy, or a needless one",
    RttOfProbe "rtt-of-probe" Both "no RTT" "time since the keep-alive",
    RttOfSacked "rtt-of-sacked" Knee "RTT to the SACK" "time to the cumulative ACK",
    RttOfZero "rtt-of-zero" Knee "0" "no RTT",
    RttOfEachSegment "rtt-of-each-segment" Both "RTT of each segment of an ACK" "RTT of the last one",
    FlightWithoutOldSacks "flight-without-old-sacks" Knee "all SACKs taken off" "those of the last ACK taken off",
    FlightWithDsack "flight-with-dsack" Knee "DSACKs not taken off" "DSACKs taken off",
    FlightBehindAGap "flight-behind-a-gap" Both "counted by numbers" "what passed here, or nothing",
    FlightOfNeedless "flight-of-needless" Knee "none of it on its way" "what came again on its way",
    WindowProbeAsKeepAlive "window-probe-as-keep-alive" Knee "probe of a closed window" "keep-alive",
    HandshakeRepeated "handshake-repeated" Knee "no RTT" "time since a SYN",
    SecondPoint "second-point" Knee "the same packet at two points" "retransmissions, duplicate ACKs and the like",
}
