//! What a host counts of all its connections: its MIBs.

use std::collections::BTreeMap;

use knee_run::outcome::{FlowCounters, HostCount, Received};

/// Received packets by their ECN field.
const WIRE_PKTS: [&str; 8] = [
    "InNoECTPkts",
    "InECT0Pkts",
    "InECT1Pkts",
    "InCEPkts",
    "Ip6InNoECTPkts",
    "Ip6InECT0Pkts",
    "Ip6InECT1Pkts",
    "Ip6InCEPkts",
];

/// The groups of `/proc/net/snmp` and `/proc/net/netstat` that are about TCP and what it goes over.
const GROUPS: [&str; 4] = ["Tcp", "TcpExt", "Ip", "IpExt"];

/// Counts under the kernel's names, as `TCPTimeouts`: those that are not zero.
pub type Mib = BTreeMap<String, u64>;

/// Adds what `/proc/net/snmp` or `/proc/net/netstat` says, in pairs of lines: the names, and the counts below them.
pub fn add_pairs(mib: &mut Mib, text: &str) {
    let lines: Vec<&str> = text.lines().collect();
    for pair in lines.chunks_exact(2) {
        let (mut names, mut counts) = (pair[0].split(' '), pair[1].split(' '));
        let group = names.next().unwrap_or_default().trim_end_matches(':');
        counts.next();
        if GROUPS.contains(&group) {
            names.zip(counts).for_each(|(name, count)| add(mib, name, count));
        }
    }
}

/// Adds one count. Groups share a few names, such as that of wrong checksums: they are one.
pub fn add(mib: &mut Mib, name: &str, count: &str) {
    // What is negative is no count: Tcp has its setting of MaxConn among them.
    match count.parse() {
        Ok(0) | Err(_) => {}
        Ok(count) => *mib.entry(name.to_owned()).or_default() += count,
    }
}

/// Differences of a host's MIBs between two snapshots. Counters without a MIB are absent.
pub fn host_count(node: u32, before: &Mib, after: &Mib) -> HostCount {
    let of = |names: &[&str]| -> Option<u64> {
        let grown = |name: &&str| {
            let at = |mib: &Mib| mib.get(*name).copied().unwrap_or(0);
            at(after).saturating_sub(at(before))
        };
        Some(names.iter().map(grown).sum())
    };
    HostCount {
        node,
        // Counts by ECN field are of packets on the wire: a merged one counts as many as it was.
        received: Received {
            wire_pkts: of(&WIRE_PKTS),
            merged_pkts: of(&["InReceives", "Ip6InReceives"]),
            interrupts: None,
            cpu_ns: None,
        },
        // `spurious_timeouts` is not known: TCPSpuriousRTOs leaves out those that timestamps or DSACKs took back.
        counters: FlowCounters {
            timeouts: of(&["TCPTimeouts"]),
            retransmitted_segs: of(&["RetransSegs"]),
            tail_loss_probes: of(&["TCPLossProbes"]),
            fast_recoveries: of(&["TCPSackRecovery", "TCPRenoRecovery"]),
            undos: of(&["TCPFullUndo", "TCPPartialUndo", "TCPDSACKUndo", "TCPLossUndo"]),
            timeout_rehashes: of(&["TcpTimeoutRehash"]),
            duplicate_rehashes: of(&["TcpDuplicateDataRehash"]),
            ce_segs_received: of(&["InCEPkts"]),
            delivered: of(&["TCPDelivered"]),
            delivered_ce: of(&["TCPDeliveredCE"]),
            ..FlowCounters::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_found_by_name_and_zeros_are_left_out() {
        let text = "TcpExt: SyncookiesSent TCPTimeouts InCsumErrors\nTcpExt: 0 7 1\nIpExt: InCEPkts InCsumErrors\nIpExt: 12 2\n\
                    MPTcpExt: TCPTimeouts\nMPTcpExt: 9\n";
        let mut mib = Mib::new();
        add_pairs(&mut mib, text);
        let wanted = [("InCEPkts", 12), ("InCsumErrors", 3), ("TCPTimeouts", 7)];
        assert_eq!(mib, wanted.map(|(name, count)| (name.to_owned(), count)).into());
    }

    #[test]
    fn what_was_counted_between_two_looks_is_told() {
        let before = Mib::from([("TCPTimeouts".to_owned(), 2)]);
        let after = Mib::from([("TCPTimeouts".to_owned(), 5), ("InCEPkts".to_owned(), 7)]);
        let count = host_count(3, &before, &after);
        assert_eq!((count.node, count.counters.timeouts), (3, Some(3)));
        assert_eq!((count.counters.ce_segs_received, count.received.cpu_ns), (Some(7), None));
    }
}
