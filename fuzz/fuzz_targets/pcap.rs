//! Any bytes as a capture: analysed as far as they go, or refused in one line; never a panic, and never more memory than the bounds say.
#![no_main]

use std::io::Cursor;

use knee_pcap::diagnosis::findings;
use knee_pcap::{Input, Options, Show, analyse, text};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let input = Input::Reader("x".to_owned(), Box::new(Cursor::new(bytes.to_vec())));
    let options = Options { flows: vec![1], most_live: 64, most_flows: 16, ..Options::default() };
    match analyse(vec![input], &options, &mut |_| ()) {
        Ok(mut analysis) => {
            analysis.findings = findings(&analysis);
            let show = Show { top: 20, flow: Some(1), rounds: true, packets: true };
            assert!(!text(&analysis, show).is_empty());
            assert!(analysis.flows.len() <= 32);
        }
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
});
