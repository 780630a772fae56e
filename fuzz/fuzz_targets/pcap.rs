//! Any bytes as captures, one behind another with [`BETWEEN`] in between: analysed as far as they go, or refused in one line; never a
//! panic, and never more memory than the bounds say.
#![no_main]

use std::io::Cursor;

use knee_fuzz::{check_message, reached};
use knee_pcap::diagnosis::findings;
use knee_pcap::{AnalysisOptions, Input, Show, analyse, text};

const BETWEEN: &[u8] = b"%%%%";

/// The captures of a case.
fn captures(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut captures = Vec::new();
    while let Some(at) = bytes.windows(BETWEEN.len()).position(|window| window == BETWEEN) {
        captures.push(bytes[..at].to_vec());
        bytes = &bytes[at + BETWEEN.len()..];
    }
    captures.push(bytes.to_vec());
    captures
}

knee_fuzz::target!(|bytes: &[u8]| {
    let named = |(at, file)| Input::Reader(format!("file {at}"), Box::new(Cursor::new(file)));
    let inputs: Vec<_> = captures(bytes).into_iter().enumerate().map(named).collect();
    let options = AnalysisOptions {
        flows: vec![1],
        most_live: 64,
        most_flows: 16,
        ..AnalysisOptions::default()
    };
    match analyse(inputs, &options, &mut |_| ()) {
        Ok(mut analysis) => {
            analysis.findings = findings(&analysis);
            if !analysis.whole.crossings.is_empty() {
                reached("crossing");
            }
            let show = Show { top: 20, flow: Some(1), rounds: true, packets: true };
            assert!(!text(&analysis, show).is_empty());
            assert!(analysis.flows.len() <= 32);
        }
        Err(error) => check_message(&error.to_string()),
    }
});
