//! Shows the calls of a recording: as sentences for people, as columns for programs.

use std::fmt::Write as _;

use knee_algo::{AckSample, Call, Field, FieldKind, RateSample};

use crate::record::{MAX_LARGE_WORDS, SOCK_FIELDS, Sample, sock_fields};
use crate::{Header, Origin, Record};

/// Size of a socket's private area, bits.
const PRIVATE_BITS: u32 = 104 * 8;
/// Prefix of private-state fields, to tell them from the socket's fields.
const STATE: &str = "ca.";

/// Units of recorded fields, where the kernel's name does not say it.
const UNITS: &[(&str, &str)] = &[
    ("sk_pacing_rate", "bytes_per_sec"),
    ("sk_max_pacing_rate", "bytes_per_sec"),
    ("sk_gso_max_size", "bytes"),
    ("snd_una", "seq"),
    ("snd_nxt", "seq"),
    ("rcv_nxt", "seq"),
    ("undo_marker", "seq"),
    ("snd_cwnd", "pkts"),
    ("snd_cwnd_cnt", "pkts"),
    ("snd_cwnd_clamp", "pkts"),
    ("snd_ssthresh", "pkts"),
    ("prior_cwnd", "pkts"),
    ("prior_ssthresh", "pkts"),
    ("packets_out", "pkts"),
    ("sacked_out", "pkts"),
    ("lost_out", "pkts"),
    ("retrans_out", "pkts"),
    ("max_packets_out", "pkts"),
    ("delivered", "pkts"),
    ("delivered_ce", "pkts"),
    ("lost", "pkts"),
    ("app_limited", "pkts"),
    ("reordering", "pkts"),
    // The kernel's srtt_us is eight times the value in us.
    ("srtt_us", "x8"),
    ("mss_cache", "bytes"),
    ("lsndtime", "jiffies"),
    ("snd_cwnd_stamp", "jiffies"),
    ("tcp_mstamp", "us"),
    ("delivered_mstamp", "us"),
    ("first_tx_mstamp", "us"),
    ("tcp_clock_cache", "ns"),
    ("prior_mstamp", "us"),
    ("prior_delivered", "pkts"),
    ("prior_delivered_ce", "pkts"),
    ("losses", "pkts"),
    ("acked_sacked", "pkts"),
    ("prior_in_flight", "pkts"),
    ("in_flight", "bytes"),
    ("last_end_seq", ""),
    ("ack", "seq"),
    ("acked", "pkts"),
];

/// One value of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// The call has no such value.
    Nothing,
    Number(i128),
    Text(String),
}

/// One field of the socket or of the private state, before and after a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// The name: `snd_cwnd`, or `ca.velocity` for the private state.
    pub name: &'a str,
    pub before: i128,
    pub after: i128,
}

/// Formats the calls of one recording.
#[derive(Debug)]
pub struct View {
    fields: Vec<Field>,
    /// Name of each private field, with the prefix `ca.`.
    state_names: Vec<String>,
    /// Whether the private fields lie in socket storage.
    is_large: bool,
    is_simulated: bool,
    /// The clock at the first call; `None` before the first call.
    base_us: Option<u64>,
}

impl View {
    /// Creates the view of a recording with this header.
    pub fn of(header: &Header) -> View {
        let mut fields = header.fields.clone();
        let end = |field: &Field| field.bit_offset() + field.bits();
        let is_large = fields.iter().any(|field| end(field) > PRIVATE_BITS);
        if fields.is_empty() {
            // Without names, the fields are words of 8 bytes.
            let word = |i: u64| Field::new(format!("word_{i}"), 64 * i, 64, FieldKind::Unsigned);
            fields = (0..u64::from(PRIVATE_BITS) / 64).filter_map(word).collect();
        }
        let is_simulated = header.origin == Origin::Simulator;
        View {
            state_names: fields.iter().map(|field| format!("{STATE}{}", field.name())).collect(),
            fields,
            is_large,
            is_simulated,
            // The simulator's clock begins at 0.
            base_us: is_simulated.then_some(0),
        }
    }

    /// Returns the time of a call, us, since the simulation began or since the recording's first
    /// call. Call it with the records in order.
    pub fn at_us(&mut self, record: &Record) -> i64 {
        let now = record.before.tcp_mstamp;
        let base = *self.base_us.get_or_insert(now);
        now.wrapping_sub(base) as i64
    }

    /// Returns the flow of a call and whether it is the connecting side. Simulated flows have the
    /// numbers of `flows.csv`; other calls return the socket.
    pub fn flow(&self, record: &Record) -> (u64, bool) {
        match self.is_simulated {
            true => (record.flow.saturating_sub(1) / 2, record.flow % 2 == 1),
            false => (record.flow, true),
        }
    }

    /// Returns the kind of a private-state field; `None` for a field of the socket.
    pub(crate) fn kind(&self, name: &str) -> Option<&FieldKind> {
        let at = self.state_names.iter().position(|known| known == name)?;
        Some(self.fields[at].kind())
    }

    /// Returns the names of all fields in [`View::changes`].
    pub fn names(&self) -> impl Iterator<Item = &str> {
        SOCK_FIELDS.iter().copied().chain(self.state_names.iter().map(String::as_str))
    }

    /// Returns every field before and after a call, in the order of [`View::names`].
    pub fn changes(&self, record: &Record) -> Vec<Change<'_>> {
        let (before, after) = (sock_fields(&record.before), sock_fields(&record.after));
        let sock = before.into_iter().zip(after).map(|((name, before), (_, after))| Change {
            name,
            before: before.into(),
            after: after.into(),
        });
        // A state in socket storage may be small enough for the private area, but a module of the
        // API v3 keeps it in socket storage in any case.
        let is_beside = !record.large_before.is_empty() || !record.large_after.is_empty();
        let (before, after) = match self.is_large || is_beside {
            false => (record.before.icsk_ca_priv.to_vec(), record.after.icsk_ca_priv.to_vec()),
            true => (padded(&record.large_before), padded(&record.large_after)),
        };
        let state = self.fields.iter().zip(&self.state_names).map(|(field, name)| Change {
            name,
            before: field.read(&before).unwrap_or(0),
            after: field.read(&after).unwrap_or(0),
        });
        sock.chain(state).collect()
    }

    /// Formats a call as one line: time, socket, operation with its arguments, result and changed
    /// fields. Fields that `wanted` selects appear even if they did not change.
    pub fn line(&mut self, record: &Record, wanted: &dyn Fn(&str) -> bool) -> String {
        let at_us = self.at_us(record);
        let (flow, connects) = self.flow(record);
        let side = if connects { "" } else { " (listening)" };
        let sign = if at_us < 0 { "-" } else { "" };
        let (s, us) = (at_us.unsigned_abs() / 1_000_000, at_us.unsigned_abs() % 1_000_000);
        let mut out = format!("{sign}{s}.{us:06} flow {flow}{side} call {} ", record.number);
        let arguments: Vec<String> = arguments(&record.call)
            .iter()
            .map(|(name, value)| format!("{} {value}", name.trim_start_matches("arg_")))
            .collect();
        let _ = write!(out, "{}", record.call.kind());
        if !arguments.is_empty() {
            let _ = write!(out, " [{}]", arguments.join(", "));
        }
        if record.call.returns() {
            let _ = write!(out, " returns {}", record.result);
        }
        let mut said = Vec::new();
        for ack in &record.asked_acks {
            said.push(format!("asks for an ACK of {}", ack.rcv_nxt));
        }
        if record.rehashes > 0 {
            said.push("asks for another path".to_owned());
        }
        if let Some(fallback) = &record.fallback {
            said.push(format!("leaves for {fallback}"));
        }
        for change in self.changes(record) {
            let Change { name, before, after } = change;
            if before != after {
                said.push(format!("{name} {before} -> {after}"));
            } else if wanted(name) {
                said.push(format!("{name} {after}"));
            }
        }
        if !said.is_empty() {
            let _ = write!(out, ": {}", said.join(", "));
        }
        out
    }

    /// Returns the names of the columns of [`View::row`], each with its unit. They are the same for
    /// every call. `wanted` selects the fields.
    pub fn columns(&self, wanted: &dyn Fn(&str) -> bool) -> Vec<String> {
        let mut all: Vec<String> = ["at_us", "socket", "flow", "side", "call", "operation"]
            .iter()
            .map(|name| (*name).to_owned())
            .collect();
        all.extend(argument_columns());
        let rest =
            ["result", "jiffies", "given", "given_values", "acks_asked", "rehashes", "fallback"];
        all.extend(rest.iter().map(|name| (*name).to_owned()));
        // Names are made for all fields, so that a column has the same name whatever `wanted`
        // selects.
        let mut taken: Vec<String> = Vec::new();
        for name in self.names() {
            let flat = column_name(name);
            // `a.b` and `a_b` give the same column name.
            let numbered = (2..).map(|number| format!("{flat}_{number}"));
            let mut names = std::iter::once(flat.clone()).chain(numbered);
            let free = names.find(|name| !taken.contains(name)).unwrap_or(flat.clone());
            if wanted(name) {
                all.extend(["before", "after"].map(|when| format!("{when}_{free}")));
            }
            taken.push(free);
        }
        all
    }

    /// Returns a call as the values of [`View::columns`].
    pub fn row(&mut self, record: &Record, wanted: &dyn Fn(&str) -> bool) -> Vec<Shown> {
        let number = |value: u64| Shown::Number(value.into());
        let at_us = self.at_us(record);
        let (flow, connects) = self.flow(record);
        let side = if connects { "connecting" } else { "listening" };
        let is_simulated = self.is_simulated;
        let told = |shown: Shown| if is_simulated { shown } else { Shown::Nothing };
        let mut all = vec![
            Shown::Number(at_us.into()),
            number(record.flow),
            told(number(flow)),
            told(Shown::Text(side.to_owned())),
            number(record.number),
            Shown::Text(record.call.operation().to_owned()),
        ];
        let arguments = arguments(&record.call);
        all.extend(argument_columns().iter().map(|column| {
            let value = arguments.iter().find(|(name, _)| name == column);
            value.map_or(Shown::Nothing, |(_, value)| Shown::Number(*value))
        }));
        let given: Vec<String> = record.given.values().iter().map(ToString::to_string).collect();
        all.push(match record.call.returns() {
            true => number(record.result.into()),
            false => Shown::Nothing,
        });
        all.extend([
            number(record.jiffies.into()),
            number(record.given.count.into()),
            Shown::Text(given.join("; ")),
            number(record.asked_acks.len() as u64),
            number(record.rehashes.into()),
            record.fallback.clone().map_or(Shown::Nothing, Shown::Text),
        ]);
        for change in self.changes(record).into_iter().filter(|change| wanted(change.name)) {
            all.extend([Shown::Number(change.before), Shown::Number(change.after)]);
        }
        all
    }
}

/// Restores the zeroes at the end of a large state.
fn padded(words: &[u64]) -> Vec<u64> {
    let mut words = words.to_vec();
    words.resize(MAX_LARGE_WORDS as usize, 0);
    words
}

/// Makes a column name with its unit, in letters that every table accepts: `ca.bw.s[0].v` becomes
/// `ca_bw_s_0_v`.
fn column_name(name: &str) -> String {
    let mut flat: String = name.replace(['.', '['], "_").replace(']', "");
    let unit = UNITS.iter().find(|(known, _)| *known == name).map_or("", |(_, unit)| unit);
    if !unit.is_empty() {
        let _ = write!(flat, "_{unit}");
    }
    flat
}

/// Returns the argument names of all operations.
fn argument_columns() -> Vec<String> {
    let mut all = Vec::new();
    let every = [
        Call::CongAvoid { ack: 0, acked: 0 },
        Call::SetState { new_state: 0 },
        Call::CwndEvent { event: 0 },
        Call::InAckEvent { flags: 0 },
        Call::PktsAcked { sample: AckSample::default() },
        Call::CongControl { ack: 0, flag: 0, rs: RateSample::default() },
    ];
    for (name, _) in every.iter().flat_map(arguments) {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

/// Returns the arguments of a call, by column.
fn arguments(call: &Call) -> Vec<(String, i128)> {
    let named = |name: &str, value: i128| (format!("arg_{}", column_name(name)), value);
    let sample = |prefix: &str, fields: &[&str], numbers: Vec<i128>| -> Vec<(String, i128)> {
        let name = |name: &&str| format!("{prefix}_{}", column_name(name));
        fields.iter().map(name).zip(numbers).collect()
    };
    match call {
        Call::CongAvoid { ack, acked } => {
            vec![named("ack", (*ack).into()), named("acked", (*acked).into())]
        }
        Call::SetState { new_state } => vec![named("new_state", (*new_state).into())],
        Call::CwndEvent { event } => vec![named("event", (*event).into())],
        Call::InAckEvent { flags } => vec![named("flags", (*flags).into())],
        Call::PktsAcked { sample: of } => sample("sample", AckSample::FIELDS, of.numbers()),
        Call::CongControl { ack, flag, rs } => {
            let mut all = vec![named("ack", (*ack).into()), named("flag", (*flag).into())];
            all.extend(sample("rs", RateSample::FIELDS, rs.numbers()));
            all
        }
        Call::Ssthresh
        | Call::MinTsoSegs
        | Call::UndoCwnd
        | Call::SndbufExpand
        | Call::Init
        | Call::Release => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knee_algo::{Algorithm, TcpSock};

    fn header(name: &str, origin: Origin) -> Header {
        let algorithm = Algorithm::by_name(name).unwrap();
        Header::new(algorithm, &algorithm.default_params(), origin, 1000)
    }

    #[test]
    fn every_unit_is_of_something_that_there_is() {
        let arguments = ["ack", "acked"];
        for (name, _) in UNITS {
            let is_there = SOCK_FIELDS.contains(name)
                || AckSample::FIELDS.contains(name)
                || RateSample::FIELDS.contains(name)
                || arguments.contains(name);
            assert!(is_there, "{name}");
        }
    }

    #[test]
    fn a_call_is_a_line_with_what_it_changed_under_the_files_names() {
        let before = TcpSock { snd_cwnd: 10, tcp_mstamp: 1_500_000, ..TcpSock::default() };
        let mut after = TcpSock { snd_cwnd: 12, ..before.clone() };
        // dctcp's alpha is the fourth number of its state.
        after.icsk_ca_priv[1] = 512 << 32;
        let record = Record::new(Call::CongAvoid { ack: 7, acked: 2 }, &before, &after);
        let mut view = View::of(&header("dctcp", Origin::Simulator));
        assert_eq!(
            view.line(&record, &|name| name == "snd_ssthresh"),
            "1.500000 flow 0 call 0 cong_avoid [ack_seq 7, acked_pkts 2]: snd_cwnd 10 -> 12, \
             snd_ssthresh 2147483647, ca.alpha 0 -> 512"
        );
        let mut of_kernel = View::of(&header("dctcp", Origin::Kernel));
        assert!(of_kernel.line(&record, &|_| false).starts_with("0.000000 flow 1 call 0 "));
    }

    #[test]
    fn rows_have_a_value_for_every_column_whatever_the_call() {
        let sock = TcpSock::default();
        for name in ["reno", "bbr", "bbr3"] {
            let mut view = View::of(&header(name, Origin::Simulator));
            let columns = view.columns(&|_| true);
            let mut sorted = columns.clone();
            sorted.sort();
            sorted.dedup();
            assert_eq!(sorted.len(), columns.len(), "{name}: names are one column's");
            let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
            assert!(columns.iter().all(|column| column.chars().all(is_plain)), "{columns:?}");
            for operation in knee_algo::OPERATIONS {
                let record = Record::new(Call::of(operation).unwrap(), &sock, &sock);
                assert_eq!(view.row(&record, &|_| true).len(), columns.len());
            }
        }
    }
}
