//! Plan of a random conversation.

use super::Action;
use super::dice::Dice;
use super::peer::{Echo, Peer};
use crate::sim::Profile;
use knee_queue::time::Duration;

/// Sysctls of which one is now and then other than it is by default.
const SYSCTLS: &[&str] = &[
    "tcp_recovery = 0",
    "tcp_recovery = 3",
    "tcp_recovery = 4",
    "tcp_early_retrans = 0",
    "tcp_frto = 0",
    "tcp_dsack = 0",
    "tcp_slow_start_after_idle = 0",
    "tcp_reordering = 6",
    "tcp_comp_sack_nr = 0",
    "tcp_thin_linear_timeouts = 1",
];

pub(super) struct Plan {
    /// The algorithm has its segments paced.
    pub(super) is_paced: bool,
    pub(super) rtt: Duration,
    pub(super) echo: Echo,
    pub(super) has_timestamps: bool,
    has_sack: bool,
    has_dsack: bool,
    sysctl: Option<&'static str>,
    /// Lost segments of a hundred.
    pub(super) loss: u64,
    pub(super) reorder: u64,
    pub(super) mark: u64,
    pub(super) ack_loss: u64,
    stretch: u32,
    buffer_bytes: u32,
    sends: bool,
    receives: bool,
    /// The peer's data arrive out of order, too. Linux then sends smaller segments, with room for SACK, which the
    /// simulator does not: so it sends nothing.
    pub(super) has_gaps: bool,
}

impl Plan {
    pub(super) fn new(algorithm: &str, dice: &mut Dice) -> Plan {
        let is_dctcp = algorithm.starts_with("dctcp");
        let direction = dice.below(10);
        Plan {
            is_paced: algorithm.starts_with("bbr"),
            rtt: dice.ms(30, 50),
            echo: match dice.below(4) {
                _ if is_dctcp => Echo::Dctcp,
                0 => Echo::Classic,
                1 => Echo::Dctcp,
                _ => Echo::None,
            },
            has_timestamps: !dice.percent(15),
            has_sack: !dice.percent(15),
            has_dsack: !dice.percent(20),
            sysctl: dice.percent(25).then(|| dice.of(SYSCTLS)),
            loss: dice.of(&[0, 3, 10, 10, 30, 50]),
            reorder: dice.of(&[0, 0, 10, 30]),
            mark: dice.of(&[0, 5, 20, 60]),
            ack_loss: dice.of(&[0, 0, 10, 40]),
            stretch: dice.of(&[1, 1, 2, 2, 4, 8]),
            buffer_bytes: dice.of(&[0, 0, 0, 0, 6_000, 20_000]),
            sends: direction > 2,
            receives: direction < 5,
            has_gaps: direction < 2,
        }
    }

    pub(super) fn head(&self, algorithm: &str, seed: u64, profile: Profile) -> Vec<String> {
        let mut head = vec![
            format!("title Random conversation {seed} with {algorithm}, as the simulator holds it"),
            format!("# As Linux {}, {} Hz.", profile.linux, profile.hz),
            format!("algorithm {algorithm}"),
            // The memory that segments are charged is not the subject.
            "sysctl tcp_wmem = 4096 4194304 4194304".to_owned(),
        ];
        if self.echo != Echo::None {
            head.push("sysctl tcp_ecn = 1".to_owned());
        }
        head.extend(self.sysctl.map(|sysctl| format!("sysctl {sysctl}")));
        head
    }

    pub(super) fn peer(&self) -> Peer {
        let mut peer = Peer::new(self.echo);
        peer.has_sack = self.has_sack;
        peer.has_dsack = self.has_dsack;
        peer.stretch = self.stretch;
        peer.buffer_bytes = self.buffer_bytes;
        peer
    }

    /// Lines of the handshake.
    pub(super) fn opening(&self) -> Vec<String> {
        let rtt = self.rtt.us() / 1000;
        let (asks, grants, ecn) =
            if self.echo == Echo::None { ("", "", "") } else { ("EW", "E", ", ecn") };
        if self.has_sack && self.has_timestamps {
            return vec![format!("open active, rtt {rtt}ms{ecn}")];
        }
        let no_sack = if self.has_sack { "" } else { ", no_sack" };
        let no_ts = if self.has_timestamps { "" } else { ", no_ts" };
        vec![
            "listen".to_owned(),
            format!("in [S{asks}]{no_sack}{no_ts}"),
            format!("out [S.{grants}] seq 0, ack 1{no_sack}{no_ts}"),
            format!("+{rtt}ms in [.] ack 1"),
        ]
    }

    /// Actions of both applications after the handshake.
    pub(super) fn actions(&self, dice: &mut Dice) -> Vec<(Duration, Action)> {
        let mut all = Vec::new();
        let mut at = 0;
        if self.sends {
            for _ in 0..=dice.below(4) {
                let bytes = dice.of(&[700, 999, 2_700, 10_000, 14_000, 40_000, 100_000]);
                all.push((Duration::from_ms(at), Action::Write(bytes)));
                at += dice.of(&[2, 10, 70, 300, 700]);
            }
        }
        if self.receives {
            let (mut at, mut seq) = (dice.of(&[6, 20, 100]), 1);
            for _ in 0..=dice.below(5) {
                // A burst of the peer.
                let small = dice.percent(30);
                for _ in 0..=dice.below(8) {
                    let len = if small { dice.of(&[50, 300, 700]) } else { 1_000 };
                    let late = if self.has_gaps && dice.percent(self.reorder) {
                        dice.of(&[3, 15, 60])
                    } else {
                        0
                    };
                    all.push((Duration::from_ms(at + late), Action::PeerData(seq, len)));
                    seq += len;
                    at += dice.of(&[0, 0, 0, 2, 12]);
                }
                if dice.percent(70) {
                    let most = dice.percent(30).then(|| dice.of(&[100, 1_000, 2_500]));
                    let after = dice.of(&[0, 5, 90]);
                    all.push((Duration::from_ms(at + after), Action::Read(most)));
                    if !self.has_gaps && dice.percent(40) {
                        let bytes = dice.of(&[700, 1_000, 5_000]);
                        all.push((Duration::from_ms(at + after), Action::Write(bytes)));
                    }
                }
                at += dice.of(&[10, 60, 250, 500]);
            }
        }
        if self.buffer_bytes > 0 {
            for turn in 1..20 {
                let at = turn * 130 + dice.below(60);
                all.push((Duration::from_ms(at), Action::PeerReads));
            }
        }
        if dice.percent(20) {
            all.push((Duration::from_ms(dice.of(&[100, 500, 1_500])), Action::Close));
        }
        all
    }
}
