//! Any text as a file of machines: accepted, or refused in one line; never a panic.
#![no_main]

use std::path::Path;

use knee_fuzz::check_message;
use knee_lab::hosts::Machines;

knee_fuzz::target!(|text: &str| {
    match Machines::parse(Path::new("x.toml"), text) {
        Ok(machines) => assert!(!machines.machines.is_empty()),
        Err(error) => check_message(&error.to_string()),
    }
});
