//! Negotiation of ECN: what two ends ask for and grant, as Linux does.

use knee_algo::Algorithm;

use crate::spec::HostConfig;

/// Whether a connection negotiates ECN, if no SYN is lost: the connecting host with its algorithm, then the listening one.
pub fn negotiates(
    (client, cc): (&HostConfig, &Algorithm),
    (server, peer_cc): (&HostConfig, &Algorithm),
) -> bool {
    let asks = client.tcp_ecn == 1 || cc.needs_ecn();
    // An ordinary listener takes ECT on a SYN for a fault (RFC 3168). An algorithm that needs ECN sends it.
    let is_plain = !(cc.needs_ecn() && client.syn_ect);
    asks && (peer_cc.needs_ecn() || (is_plain && server.tcp_ecn != 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::LinuxVersion;

    #[test]
    fn one_asks_and_the_other_grants() {
        let host = |tcp_ecn| HostConfig { tcp_ecn, ..HostConfig::new(LinuxVersion(6, 1)) };
        let old = HostConfig { syn_ect: false, ..host(2) };
        let [cubic, dctcp] = ["cubic", "dctcp"].map(|name| Algorithm::by_name(name).unwrap());
        for (client, server, expected) in [
            ((host(2), cubic), (host(2), cubic), false),
            ((host(1), cubic), (host(2), cubic), true),
            ((host(1), cubic), (host(0), cubic), false),
            ((host(2), cubic), (host(1), cubic), false),
            ((host(0), dctcp), (host(0), dctcp), true),
            ((host(2), dctcp), (host(2), cubic), false),
            ((old, dctcp), (host(2), cubic), true),
            ((host(1), cubic), (host(0), dctcp), true),
        ] {
            let found = negotiates((&client.0, client.1), (&server.0, server.1));
            let names = (client.0.tcp_ecn, client.1.name(), server.0.tcp_ecn, server.1.name());
            assert_eq!(found, expected, "{names:?}");
        }
    }
}
