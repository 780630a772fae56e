//! tshark, and what it says of each packet.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

/// Fields that are asked for, and read by name.
const FIELDS: &[&str] = &[
    "frame.number",
    "tcp.stream",
    "ip.src",
    "ipv6.src",
    "tcp.srcport",
    "tcp.dstport",
    "tcp.len",
    "tcp.seq",
    "tcp.ack",
    "tcp.window_size",
    "tcp.flags",
    "ip.dsfield.ecn",
    "ipv6.tclass.ecn",
    "tcp.options.mss_val",
    "tcp.options.wscale.shift",
    "tcp.options.sack_perm",
    "tcp.options.timestamp.tsval",
    "tcp.options.sack_le",
    "tcp.options.sack_re",
    "tcp.options.sack.dsack_le",
    "tcp.completeness",
    "tcp.connection.syn",
    "tcp.connection.synack",
    "tcp.connection.fin",
    "tcp.connection.rst",
    "tcp.analysis.retransmission",
    "tcp.analysis.fast_retransmission",
    "tcp.analysis.spurious_retransmission",
    "tcp.analysis.out_of_order",
    "tcp.analysis.lost_segment",
    "tcp.analysis.ack_lost_segment",
    "tcp.analysis.duplicate_ack",
    "tcp.analysis.zero_window",
    "tcp.analysis.zero_window_probe",
    "tcp.analysis.zero_window_probe_ack",
    "tcp.analysis.window_full",
    "tcp.analysis.window_update",
    "tcp.analysis.keep_alive",
    "tcp.analysis.keep_alive_ack",
    "tcp.analysis.reused_ports",
    "tcp.analysis.ack_rtt",
    "tcp.analysis.acks_frame",
    "tcp.analysis.initial_rtt",
    "tcp.analysis.bytes_in_flight",
    "tcp.analysis.push_bytes_sent",
];

/// A packet, as tshark has it: fields by name, those that are there.
pub(crate) struct Told(BTreeMap<&'static str, String>);

impl Told {
    pub(crate) fn has(&self, field: &'static str) -> bool {
        debug_assert!(FIELDS.contains(&field));
        self.0.contains_key(field)
    }

    pub(crate) fn text(&self, field: &'static str) -> Option<&str> {
        debug_assert!(FIELDS.contains(&field));
        self.0.get(field).map(String::as_str)
    }

    pub(crate) fn number(&self, field: &'static str) -> Option<u64> {
        self.text(field).map(|text| number(field, text))
    }

    pub(crate) fn numbers(&self, field: &'static str) -> Vec<u64> {
        let list = self.text(field).map(|text| text.split(','));
        list.into_iter().flatten().map(|text| number(field, text)).collect()
    }

    /// Seconds with a fraction, as ns.
    pub(crate) fn ns(&self, field: &'static str) -> Option<u64> {
        let (whole, part) = self.text(field)?.split_once('.')?;
        assert_eq!(part.len(), 9, "{field}: {part}");
        Some(number(field, whole) * 1_000_000_000 + number(field, part))
    }
}

fn number(field: &str, text: &str) -> u64 {
    let of = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    of.unwrap_or_else(|_| panic!("{field}: {text}"))
}

/// The version that is here. Where none is, it is said; `KNEE_REQUIRE_TSHARK=1` makes that a failure.
pub(crate) fn version(test: &str) -> Option<String> {
    let Ok(output) = Command::new("tshark").arg("--version").output() else {
        let required = std::env::var_os("KNEE_REQUIRE_TSHARK").is_some_and(|value| value != "0");
        assert!(
            !required,
            "no tshark is installed, and KNEE_REQUIRE_TSHARK asks for one: see make setup"
        );
        skip(test, "no tshark is installed (make setup)");
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let words = text.split_whitespace().map(|word| word.trim_end_matches('.'));
    let is_version = |word: &&str| word.starts_with(|first: char| first.is_ascii_digit());
    Some(words.into_iter().find(is_version).unwrap_or_default().to_owned())
}

/// Says that a test is left out, and why.
pub(crate) fn skip(test: &str, why: &str) {
    // Not eprintln!, whose text the harness keeps to itself when a test passes.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {why}");
}

/// All packets of a file.
pub(crate) fn run(file: &Path, home: &Path) -> Vec<Told> {
    let mut command = Command::new("tshark");
    // Nobody's preferences but its own.
    command.env("HOME", home).env("XDG_CONFIG_HOME", home).env("LC_ALL", "C");
    command.arg("-n").arg("-r").arg(file).args([
        "-T",
        "fields",
        "-E",
        "separator=/t",
        "-E",
        "occurrence=a",
    ]);
    for field in FIELDS {
        command.arg("-e").arg(field);
    }
    let output = command.output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "tshark: {complaint}");
    let text = String::from_utf8(output.stdout).unwrap();
    let line = |line: &str| {
        let values = FIELDS.iter().zip(line.split('\t'));
        Told(
            values
                .filter(|(_, value)| !value.is_empty())
                .map(|(name, value)| (*name, value.to_owned()))
                .collect(),
        )
    };
    text.lines().map(line).collect()
}
