//! The rows of `knee top`: each connection as cells of a table and as JSON.

use std::cmp::Ordering;
use std::collections::HashMap;

use knee_algo::INFINITE_SSTHRESH;
use knee_bpf::{Connection, Connections, Filter, Inside, Value};

use super::super::select::NetnsArgs;
use super::json::Object;
use crate::Failure;

/// Names of the states of loss recovery, in the kernel's order.
const CA_STATES: [&str; 5] = ["Open", "Disorder", "CWR", "Recovery", "Loss"];

/// Shown in place of an impossible value.
const IMPOSSIBLE: &str = "?";
/// Explanation of [`IMPOSSIBLE`].
pub(super) const IMPOSSIBLE_MEANS: &str =
    "?: impossible value; this kernel probably skips calls of the algorithm (docs/kernels.md)";

/// A connection at one moment.
#[derive(Clone)]
pub(super) struct Row {
    pub(super) connection: Connection,
    /// Name of the network namespace.
    pub(super) netns: String,
    /// Internal values of its algorithm.
    pub(super) inside: Vec<Value>,
    /// Packets delivered since the previous reading, and those of them acknowledged with ECE.
    pub(super) interval: Option<(u32, u32)>,
}

/// Reads the connections repeatedly.
pub(super) struct Sampler {
    reader: Connections,
    inside: Inside,
    filter: Filter,
    /// `delivered` and `delivered_ce` at the previous reading, by socket cookie.
    before: HashMap<u64, (u32, u32)>,
}

impl Sampler {
    pub(super) fn open(filter: Filter) -> Result<Sampler, Failure> {
        let (reader, inside) = (Connections::open()?, Inside::new());
        Ok(Sampler { reader, inside, filter, before: HashMap::new() })
    }

    /// Reads the connections of these namespaces, without listeners. Returns those that run knee's algorithms, or
    /// all.
    pub(super) fn sample(&mut self, netns: &NetnsArgs, all: bool) -> Result<Vec<Row>, Failure> {
        let mut rows = Vec::new();
        let mut now = HashMap::new();
        for (namespace, label) in netns.find()? {
            for connection in self.reader.read_in(&namespace)? {
                let is_shown = !connection.is_listener()
                    && self.filter.fits(&connection)
                    && (all || self.inside.is_knees(&connection)?);
                if !is_shown {
                    continue;
                }
                let (delivered, ce) = (connection.sock.delivered, connection.sock.delivered_ce);
                let interval =
                    self.before.get(&connection.cookie).map(|(delivered_then, ce_then)| {
                        (delivered.wrapping_sub(*delivered_then), ce.wrapping_sub(*ce_then))
                    });
                now.insert(connection.cookie, (delivered, ce));
                let inside = self.inside.of(&connection)?;
                rows.push(Row { connection, netns: label.clone(), inside, interval });
            }
        }
        self.before = now;
        Ok(rows)
    }
}

/// A column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Peer,
    Local,
    Netns,
    Algorithm,
    State,
    Cwnd,
    Ssthresh,
    Srtt,
    MinRtt,
    Pacing,
    Delivery,
    Retrans,
    Ce,
    CeNow,
    Inside,
}

impl Column {
    /// All columns from left to right.
    pub(super) const ALL: [Column; 15] = [
        Column::Peer,
        Column::Local,
        Column::Netns,
        Column::Algorithm,
        Column::State,
        Column::Cwnd,
        Column::Ssthresh,
        Column::Srtt,
        Column::MinRtt,
        Column::Pacing,
        Column::Delivery,
        Column::Retrans,
        Column::Ce,
        Column::CeNow,
        Column::Inside,
    ];

    /// Columns in the order in which they are left out if space is short.
    pub(super) const EXPENDABLE: [Column; 12] = [
        Column::Local,
        Column::Netns,
        Column::Pacing,
        Column::MinRtt,
        Column::Ssthresh,
        Column::State,
        Column::Retrans,
        Column::Ce,
        Column::CeNow,
        Column::Delivery,
        Column::Srtt,
        Column::Inside,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            Column::Peer => "PEER",
            Column::Local => "LOCAL",
            Column::Netns => "NETNS",
            Column::Algorithm => "ALGORITHM",
            Column::State => "STATE",
            Column::Cwnd => "CWND",
            Column::Ssthresh => "SSTHRESH",
            Column::Srtt => "SRTT",
            Column::MinRtt => "MIN_RTT",
            Column::Pacing => "PACING",
            Column::Delivery => "DELIVERY",
            Column::Retrans => "RETRANS",
            Column::Ce => "CE",
            Column::CeNow => "CE NOW",
            Column::Inside => "INSIDE",
        }
    }

    /// Returns whether the column's numbers are right-aligned.
    pub(super) fn is_right_aligned(self) -> bool {
        !matches!(
            self,
            Column::Peer
                | Column::Local
                | Column::Netns
                | Column::Algorithm
                | Column::State
                | Column::Inside
        )
    }

    pub(super) fn cell(self, row: &Row) -> String {
        let connection = &row.connection;
        let sock = &connection.sock;
        match self {
            Column::Peer => connection.remote.to_string(),
            Column::Local => connection.local.to_string(),
            Column::Netns => row.netns.clone(),
            Column::Algorithm => connection.algorithm.clone(),
            Column::State => match sock.icsk_ca_state {
                0 => connection.state.to_string(),
                _ => format!("{} {}", connection.state, ca_state(connection)),
            },
            Column::Cwnd => window(sock.snd_cwnd, connection),
            Column::Ssthresh => match sock.snd_ssthresh {
                INFINITE_SSTHRESH => none(),
                pkts => window(pkts, connection),
            },
            Column::Srtt => connection.srtt_us().map_or_else(none, time),
            Column::MinRtt => connection.min_rtt_us().map_or_else(none, time),
            Column::Pacing => connection.pacing_rate_bytes_per_sec().map_or_else(none, rate),
            Column::Delivery => connection.delivery_rate_bytes_per_sec.map_or_else(none, |bytes| {
                let mark = if connection.delivery_rate_is_app_limited { " a" } else { "" };
                format!("{}{mark}", rate(bytes))
            }),
            Column::Retrans => connection.total_retrans.to_string(),
            Column::Ce => share(sock.delivered_ce, sock.delivered),
            Column::CeNow => row.interval.map_or_else(none, |(delivered, ce)| share(ce, delivered)),
            Column::Inside => {
                let main = row.inside.iter().filter(|value| value.is_main);
                main.map(|value| format!("{} {value}", value.name)).collect::<Vec<_>>().join("  ")
            }
        }
    }

    /// Orders two rows by this column. Users usually look for the rows that come first.
    pub(super) fn order(self, a: &Row, b: &Row) -> Ordering {
        let (one, other) = (&a.connection, &b.connection);
        // Larger values come first, and missing ones last.
        match self {
            Column::Peer => one.remote.cmp(&other.remote),
            Column::Local => one.local.cmp(&other.local),
            Column::Netns => a.netns.cmp(&b.netns),
            Column::Algorithm => one.algorithm.cmp(&other.algorithm),
            Column::State => {
                (other.sock.icsk_ca_state, one.state).cmp(&(one.sock.icsk_ca_state, other.state))
            }
            Column::Cwnd => cwnd(other).cmp(&cwnd(one)),
            Column::Ssthresh => ssthresh(other).cmp(&ssthresh(one)),
            Column::Srtt => other.srtt_us().cmp(&one.srtt_us()),
            Column::MinRtt => other.min_rtt_us().cmp(&one.min_rtt_us()),
            Column::Pacing => {
                other.pacing_rate_bytes_per_sec().cmp(&one.pacing_rate_bytes_per_sec())
            }
            Column::Delivery => {
                other.delivery_rate_bytes_per_sec.cmp(&one.delivery_rate_bytes_per_sec)
            }
            Column::Retrans => other.total_retrans.cmp(&one.total_retrans),
            Column::Ce => other.ce_ppm().cmp(&one.ce_ppm()),
            Column::CeNow => ppm(b.interval).cmp(&ppm(a.interval)),
            Column::Inside => {
                let first = |row: &Row| row.inside.first().map(|value| value.number);
                first(b).cmp(&first(a))
            }
        }
    }
}

/// Writes the JSON of one connection. Unknown values are null.
pub(super) fn write_json(out: &mut String, row: &Row) {
    let (connection, sock) = (&row.connection, &row.connection.sock);
    let mut all = Object::begin(out);
    all.text("netns", &row.netns);
    all.word("local", connection.local);
    all.word("remote", connection.remote);
    all.plain("cookie", connection.cookie);
    all.known("cgroup_id", connection.cgroup_id);
    all.plain("uid", connection.uid);
    all.word("state", connection.state);
    all.text("algorithm", &connection.algorithm);
    all.word("ca_state", ca_state(connection));
    all.plain("ecn", connection.has_ecn());
    all.known("cwnd_pkts", cwnd(connection));
    all.known("ssthresh_pkts", ssthresh(connection));
    all.words("impossible", &impossible(connection));
    all.plain("in_flight_pkts", sock.packets_in_flight());
    all.known("srtt_us", connection.srtt_us());
    all.known("min_rtt_us", connection.min_rtt_us());
    all.known("pacing_rate_bps", connection.pacing_rate_bytes_per_sec().map(bits));
    all.known("delivery_rate_bps", connection.delivery_rate_bytes_per_sec.map(bits));
    all.plain("delivery_rate_app_limited", connection.delivery_rate_is_app_limited);
    all.plain("acked_bytes", connection.bytes_acked);
    all.plain("delivered_pkts", sock.delivered);
    all.plain("delivered_ce_pkts", sock.delivered_ce);
    all.plain("lost_pkts", sock.lost);
    all.plain("retrans_pkts", connection.total_retrans);
    all.plain("mss_bytes", sock.mss_cache);
    all.list("inside", &row.inside, |out, value| {
        let mut one = Object::begin(out);
        one.text("name", &value.name);
        one.text("unit", value.unit);
        // A value of private state has at most 64 bits.
        match u64::try_from(value.number) {
            Ok(number) => one.plain("value", number),
            Err(_) => one.plain("value", value.number as i64),
        }
        one.end();
    });
    all.end();
}

fn ca_state(connection: &Connection) -> &'static str {
    CA_STATES.get(usize::from(connection.sock.icsk_ca_state)).copied().unwrap_or("?")
}

/// Returns ssthresh in packets. `None` before the first congestion, and if the value cannot be the algorithm's
/// answer.
fn ssthresh(connection: &Connection) -> Option<u32> {
    let known = |pkts: &u32| *pkts != INFINITE_SSTHRESH && is_possible(*pkts, connection);
    Some(connection.sock.snd_ssthresh).filter(known)
}

fn cwnd(connection: &Connection) -> Option<u32> {
    Some(connection.sock.snd_cwnd).filter(|pkts| is_possible(*pkts, connection))
}

/// Returns the keys of impossible values.
pub(super) fn impossible(connection: &Connection) -> Vec<&'static str> {
    let sock = &connection.sock;
    let windows = [("cwnd_pkts", sock.snd_cwnd), ("ssthresh_pkts", sock.snd_ssthresh)];
    let is_impossible = |(_, pkts): &(&str, u32)| !is_possible(*pkts, connection);
    windows.into_iter().filter(is_impossible).map(|(key, _)| key).collect()
}

/// Returns whether a window is possible. A kernel that skips a call takes the stack's content for the answer. That is
/// mostly part of an address, so it means thousands of millions of packets.
fn is_possible(pkts: u32, connection: &Connection) -> bool {
    /// No receiver can offer more than 1 GB (RFC 7323, section 2.3). No algorithm sets its window to more than a few
    /// times what can be in flight.
    const MOST_BYTES: u64 = 4 << 30;
    let bytes = u64::from(pkts) * u64::from(connection.sock.mss_cache);
    pkts == INFINITE_SSTHRESH || (pkts < INFINITE_SSTHRESH && bytes <= MOST_BYTES)
}

/// Formats a window in packets, or the mark of an impossible value.
fn window(pkts: u32, connection: &Connection) -> String {
    match is_possible(pkts, connection) {
        true => pkts.to_string(),
        false => IMPOSSIBLE.to_owned(),
    }
}

fn bits(bytes: u64) -> u64 {
    bytes.saturating_mul(8)
}

fn none() -> String {
    "-".to_owned()
}

fn ppm(of: Option<(u32, u32)>) -> Option<u64> {
    of.and_then(|(all, part)| (u64::from(part) * 1_000_000).checked_div(u64::from(all)))
}

/// Formats a share, as `12.5%`.
fn share(part: u32, all: u32) -> String {
    ppm(Some((all, part))).map_or_else(none, |ppm| {
        let tenths = (ppm + 500) / 1000;
        format!("{}.{}%", tenths / 10, tenths % 10)
    })
}

/// Formats a rate with three digits and a unit, as `941 Mbps` or `9.41 Gbps`.
fn rate(bytes_per_sec: u64) -> String {
    let bps = bits(bytes_per_sec);
    let units = [(1_000_000_000, "Gbps"), (1_000_000, "Mbps"), (1000, "kbps")];
    match units.iter().find(|(unit, _)| bps >= *unit) {
        Some((unit, name)) => format!("{} {name}", three_digits(bps, *unit)),
        None => format!("{bps} bps"),
    }
}

/// Formats a time, as `85 us` or `1.25 ms`.
fn time(us: u32) -> String {
    match us {
        0..1000 => format!("{us} us"),
        1000..1_000_000 => format!("{} ms", three_digits(us.into(), 1000)),
        _ => format!("{} s", three_digits(us.into(), 1_000_000)),
    }
}

fn three_digits(value: u64, unit: u64) -> String {
    let whole = value / unit;
    let hundredths = value % unit * 100 / unit;
    match whole {
        0..10 => format!("{whole}.{hundredths:02}"),
        10..100 => format!("{whole}.{}", hundredths / 10),
        _ => whole.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        assert_eq!([rate(100), rate(117_625_000)], ["800 bps", "941 Mbps"]);
        assert_eq!([rate(1_176_250_000), rate(12_500)], ["9.41 Gbps", "100 kbps"]);
        assert_eq!(rate(u64::MAX - 1), "18446744073 Gbps");
        assert_eq!([time(85), time(1259), time(25_940)], ["85 us", "1.25 ms", "25.9 ms"]);
        assert_eq!([time(999_999), time(1_200_000)], ["999 ms", "1.20 s"]);
        assert_eq!([share(1, 8), share(0, 10), share(0, 0)], ["12.5%", "0.0%", "-"]);
    }
}
