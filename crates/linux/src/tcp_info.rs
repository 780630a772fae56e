//! `struct tcp_info`, as long or short as a kernel has it.
//!
//! Its fields never move, newer kernels append: a field that a kernel does not have lies beyond its end.

use knee_queue::time::Time;
use knee_run::outcome::FlowSample;

/// `TCPI_OPT_ECN` of `tcpi_options`: both ends have agreed on ECN.
const OPTION_ECN: u8 = 8;
/// `tcpi_min_rtt` without a sample.
const NO_RTT_US: u32 = u32::MAX;

/// A look at the bytes of a `struct tcp_info`. A method answers `None` where the kernel did not tell.
#[derive(Clone, Copy, Debug)]
pub struct TcpInfo<'a>(&'a [u8]);

/// A method for each field, at its offset.
macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $at:literal;)*) => {
        impl TcpInfo<'_> {
            $($(#[$doc])*
            pub fn $name(self) -> Option<$type> {
                let bytes = self.0.get($at..)?.first_chunk()?;
                Some(<$type>::from_ne_bytes(*bytes))
            })*
        }

        /// Names, offsets and sizes, for the comparison with the kernel's own account.
        #[cfg(test)]
        const FIELDS: &[(&str, usize, usize)] = &[$((stringify!($name), $at, size_of::<$type>())),*];
    };
}

fields! {
    /// The kernel's number of its state: 1 is established, 7 closed.
    state: u8 = 0;
    /// 0 Open, 1 Disorder, 2 CWR, 3 Recovery, 4 Loss.
    ca_state: u8 = 1;
    /// Timeouts in a row for what is outstanding.
    retransmits: u8 = 2;
    /// Bits of what was agreed on; [`TcpInfo::ecn`] is one of them.
    options: u8 = 5;
    /// Retransmission timeout, us.
    rto: u32 = 8;
    /// Payload of a segment, bytes.
    snd_mss: u32 = 16;
    /// Packets sent and not acked.
    unacked: u32 = 24;
    /// Packets reported by SACK, a part of `unacked`.
    sacked: u32 = 28;
    /// Packets marked lost, a part of `unacked`.
    lost: u32 = 32;
    /// Retransmitted packets, a part of `unacked`.
    retrans: u32 = 36;
    /// Smoothed RTT, us; 0: never measured.
    rtt: u32 = 68;
    /// Mean deviation of the RTT, us.
    rttvar: u32 = 72;
    /// Packets; 2147483647: none yet.
    snd_ssthresh: u32 = 76;
    /// Congestion window, packets.
    snd_cwnd: u32 = 80;
    /// Reordering degree, packets.
    reordering: u32 = 88;
    /// Segments retransmitted so far.
    total_retrans: u32 = 100;
    /// Bytes per second; all ones: none.
    pacing_rate: u64 = 104;
    /// Bytes acked so far.
    bytes_acked: u64 = 120;
    /// Bytes received in order so far.
    bytes_received: u64 = 128;
    /// Segments of any kind so far.
    segs_out: u32 = 136;
    /// Segments of any kind so far.
    segs_in: u32 = 140;
    /// Bytes written and not sent.
    notsent_bytes: u32 = 144;
    /// Windowed minimum RTT, us; all ones: never measured.
    min_rtt: u32 = 148;
    /// Segments with data received.
    data_segs_in: u32 = 152;
    /// Segments with data sent, retransmissions included.
    data_segs_out: u32 = 156;
    /// Bytes per second.
    delivery_rate: u64 = 160;
    /// Time with data outstanding or to be sent, us.
    busy_time: u64 = 168;
    /// Time limited by the peer's window, a part of `busy_time`, us.
    rwnd_limited: u64 = 176;
    /// Time limited by the send buffer, a part of `busy_time`, us.
    sndbuf_limited: u64 = 184;
    /// Packets delivered so far.
    delivered: u32 = 192;
    /// Packets acked with ECE, a part of `delivered`.
    delivered_ce: u32 = 196;
    /// Bytes sent, retransmissions included.
    bytes_sent: u64 = 200;
    /// Bytes retransmitted so far.
    bytes_retrans: u64 = 208;
    /// Reports of duplicates.
    dsack_dups: u32 = 216;
    /// Reorderings seen.
    reord_seen: u32 = 220;
    /// Packets received out of order.
    rcv_ooopack: u32 = 224;
    /// The peer's window, bytes.
    snd_wnd: u32 = 228;
    /// The window given to the peer, bytes (6.2).
    rcv_wnd: u32 = 232;
    /// Changes of the transmit hash by PLB or timeouts (6.2).
    rehash: u32 = 236;
    /// Retransmission timeouts so far, SYN included (6.7).
    total_rto: u16 = 240;
    /// Recoveries from timeouts that completed (6.7).
    total_rto_recoveries: u16 = 242;
    /// Spent in such recoveries, ms (6.7).
    total_rto_time: u32 = 244;
    /// Packets received with CE, where ECN was agreed on (6.18).
    received_ce: u32 = 248;
}

impl<'a> TcpInfo<'a> {
    /// A look at what `getsockopt(TCP_INFO)` gave.
    pub fn new(bytes: &'a [u8]) -> TcpInfo<'a> {
        TcpInfo(bytes)
    }

    /// Whether ECN was negotiated.
    pub fn ecn(self) -> Option<bool> {
        self.options().map(|options| options & OPTION_ECN != 0)
    }

    /// Smoothed RTT, us; `None`: never measured.
    pub fn srtt_us(self) -> Option<u32> {
        self.rtt().filter(|rtt| *rtt != 0)
    }

    /// Windowed minimum RTT, us; `None`: never measured.
    pub fn min_rtt_us(self) -> Option<u32> {
        self.min_rtt().filter(|rtt| *rtt != NO_RTT_US)
    }

    /// A sample as the simulator makes it, with the algorithm's own values; `None`: the kernel tells too little for one.
    pub fn flow_sample(self, at: Time, flow: u32, diag: Vec<u64>) -> Option<FlowSample> {
        Some(FlowSample {
            at,
            flow,
            ca_state: self.ca_state()?,
            cwnd: self.snd_cwnd()?,
            ssthresh: self.snd_ssthresh()?,
            srtt_us: self.rtt()?,
            rttvar_us: self.rttvar()?,
            // As there, 0 before the first.
            min_rtt_us: self.min_rtt_us().unwrap_or(0),
            unacked: self.unacked()?,
            sacked: self.sacked()?,
            lost: self.lost()?,
            retrans_out: self.retrans()?,
            total_retrans: self.total_retrans()?.into(),
            delivered: self.delivered()?,
            delivered_ce: self.delivered_ce()?,
            bytes_acked: self.bytes_acked()?,
            pacing_rate_bytes_per_sec: self.pacing_rate()?,
            rto_us: self.rto()?,
            data_segs_out: self.data_segs_out().map(u64::from),
            // It tells of no connection how often.
            fast_recoveries: None,
            diag,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn what_a_kernel_does_not_have_is_absent() {
        let mut bytes = [0; 240];
        bytes[80..84].copy_from_slice(&10_u32.to_ne_bytes());
        bytes[148..152].copy_from_slice(&NO_RTT_US.to_ne_bytes());
        bytes[5] = OPTION_ECN | 1;
        let info = TcpInfo::new(&bytes);
        assert_eq!(info.snd_cwnd(), Some(10));
        assert_eq!((info.ecn(), info.min_rtt_us(), info.srtt_us()), (Some(true), None, None));
        assert_eq!((info.rehash(), info.total_rto()), (Some(0), None), "6.2 has one of the two");
        assert_eq!(TcpInfo::new(&bytes[..82]).snd_cwnd(), None, "half of a field is none");
        assert_eq!(TcpInfo::new(&[]).ca_state(), None);
        let sample = info.flow_sample(Time::from_ns(5), 3, vec![7]).unwrap();
        assert_eq!((sample.cwnd, sample.flow, sample.min_rtt_us, sample.diag), (10, 3, 0, vec![7]));
        assert!(TcpInfo::new(&bytes[..199]).flow_sample(Time::from_ns(5), 3, Vec::new()).is_none());
    }

    /// Offsets and sizes by the type information of the running kernel; `None` without it, or without bpftool.
    fn of_running_kernel() -> Option<Vec<(String, usize, usize)>> {
        let arguments = ["-j", "btf", "dump", "file", "/sys/kernel/btf/vmlinux"];
        let output = Command::new("bpftool").args(arguments).output().ok()?;
        let all: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
        let types = all.get("types")?.as_array()?;
        // References to a typedef lead on to the type with the size.
        let size = |mut id: u64| loop {
            let found = types.iter().find(|found| found["id"] == id)?;
            match found["size"].as_u64() {
                Some(size) => break Some(size as usize),
                None => id = found["type_id"].as_u64()?,
            }
        };
        let is_it =
            |found: &&serde_json::Value| found["kind"] == "STRUCT" && found["name"] == "tcp_info";
        let members = types.iter().find(is_it)?["members"].as_array()?;
        let member = |member: &serde_json::Value| {
            let at = member["bits_offset"].as_u64()? as usize / 8;
            Some((member["name"].as_str()?.to_owned(), at, size(member["type_id"].as_u64()?)?))
        };
        members.iter().map(member).collect()
    }

    #[test]
    fn offsets_are_those_of_the_running_kernel() {
        let Some(kernels) = of_running_kernel() else {
            use std::io::Write as _;
            writeln!(std::io::stderr(), "SKIPPED: no bpftool, or no BTF of the kernel").unwrap();
            return;
        };
        let mut compared = 0;
        for &(name, at, size) in FIELDS {
            let field = format!("tcpi_{name}");
            if let Some((_, kernels_at, kernels_size)) = kernels.iter().find(|k| k.0 == field) {
                assert_eq!((at, size), (*kernels_at, *kernels_size), "{field}");
                compared += 1;
            }
        }
        // 36 of them are as old as 5.5, and there since.
        assert!(compared >= 36, "{compared} of {}: {kernels:?}", FIELDS.len());
    }
}
