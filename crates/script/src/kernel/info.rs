//! `TCP_INFO` under the names of [`crate::INFO`]. Its fields never move: newer kernels append.

/// How a field is stored.
#[derive(Clone, Copy)]
enum Kind {
    U8,
    U32,
    U64,
    /// Time as u32, in us.
    Time,
    /// u32, us; all ones: there was none yet.
    TimeOrNone,
    /// Time as u32, in ms.
    Ms,
    /// u8, and a bit of it.
    Bit(u8),
}

/// Name, offset in `struct tcp_info`, kind.
const FIELDS: [(&str, usize, Kind); 29] = [
    ("ca_state", 1, Kind::U8),
    ("retransmits", 2, Kind::U8),
    ("probes", 3, Kind::U8),
    ("backoff", 4, Kind::U8),
    ("ecn", 5, Kind::Bit(8)),
    ("rto", 8, Kind::Time),
    ("ato", 12, Kind::Time),
    ("snd_mss", 16, Kind::U32),
    ("rcv_mss", 20, Kind::U32),
    ("unacked", 24, Kind::U32),
    ("sacked", 28, Kind::U32),
    ("lost", 32, Kind::U32),
    ("retrans", 36, Kind::U32),
    ("last_data_recv", 52, Kind::Ms),
    ("rcv_ssthresh", 64, Kind::U32),
    ("rtt", 68, Kind::Time),
    ("rttvar", 72, Kind::Time),
    ("ssthresh", 76, Kind::U32),
    ("cwnd", 80, Kind::U32),
    ("reordering", 88, Kind::U32),
    ("rcv_space", 96, Kind::U32),
    ("total_retrans", 100, Kind::U32),
    ("pacing_rate", 104, Kind::U64),
    ("bytes_acked", 120, Kind::U64),
    ("bytes_received", 128, Kind::U64),
    ("notsent_bytes", 144, Kind::U32),
    ("min_rtt", 148, Kind::TimeOrNone),
    ("delivered", 192, Kind::U32),
    ("delivered_ce", 196, Kind::U32),
];

/// Values of a `struct tcp_info` of any length.
pub(super) fn values(info: &[u8]) -> impl Iterator<Item = (String, i128)> {
    FIELDS
        .iter()
        .filter_map(|(name, at, kind)| Some(((*name).to_owned(), value(info.get(*at..)?, *kind)?)))
}

fn value(bytes: &[u8], kind: Kind) -> Option<i128> {
    let byte = || bytes.first().copied();
    let word = || Some(u32::from_ne_bytes(*bytes.first_chunk()?));
    Some(match kind {
        Kind::U8 => byte()?.into(),
        Kind::Bit(bit) => (byte()? & bit != 0).into(),
        Kind::U32 => word()?.into(),
        Kind::U64 => u64::from_ne_bytes(*bytes.first_chunk()?).into(),
        Kind::Time => i128::from(word()?) * 1000,
        Kind::Ms => i128::from(word()?) * 1_000_000,
        Kind::TimeOrNone => i128::from(word().filter(|us| *us != u32::MAX)?) * 1000,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_the_contract_has_its_field() {
        let mut names: Vec<_> = FIELDS.iter().map(|(name, ..)| *name).collect();
        let mut contract: Vec<_> = crate::INFO.iter().map(|(name, _)| *name).collect();
        // The ioctl SIOCINQ, no field.
        names.push("unread");
        names.sort_unstable();
        contract.sort_unstable();
        assert_eq!(names, contract);
    }

    #[test]
    fn what_an_older_kernel_does_not_have_is_left_out() {
        let mut info = vec![0; 104];
        info[80] = 10;
        info[68..72].copy_from_slice(&1500_u32.to_ne_bytes());
        let values: Vec<_> = values(&info).collect();
        let get = |name: &str| values.iter().find(|(found, _)| found == name).map(|(_, v)| *v);
        assert_eq!((get("cwnd"), get("rtt")), (Some(10), Some(1_500_000)));
        assert_eq!((get("pacing_rate"), get("delivered")), (None, None));
    }
}
