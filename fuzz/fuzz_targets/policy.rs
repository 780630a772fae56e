//! Any text as a file of policy rules: accepted, or refused in one line; never a panic.
#![no_main]

use std::path::Path;

use knee_bpf::policy::File;
use knee_fuzz::check_message;

knee_fuzz::target!(|text: &str| {
    match File::parse(Path::new("x.toml"), text) {
        Ok(file) => assert!(!file.entries.is_empty()),
        Err(error) => check_message(&error.to_string()),
    }
});
